//! Sequences of tensors and optional values.

use memc_ir::{Attribute, Dim, ElementType, TensorType, ValueType};

use crate::context::{Infer, InferError};
use crate::fact::{Data, Fact, Item};
use crate::families::dims::element_attribute;
use crate::families::join::join;
use crate::info::{OpInfo, Work};

fn operand_type(ctx: &Infer<'_>, operand: usize) -> Result<ValueType, InferError> {
    ctx.required(operand).map(|fact| fact.ty.clone())
}

/// Returns the type of the elements of a sequence operand; unknown if the operand's type is unknown.
fn element_type(ctx: &Infer<'_>, operand: usize) -> Result<ValueType, InferError> {
    match operand_type(ctx, operand)? {
        ValueType::Sequence(inner) => Ok(*inner),
        ValueType::Unknown => Ok(ValueType::Unknown),
        other => Err(InferError::BadOperand { operand, why: format!("{other} is not a sequence") }),
    }
}

fn set_sequence(ctx: &mut Infer<'_>, element: ValueType) {
    ctx.set(0, Fact::of(ValueType::Sequence(Box::new(element))));
}

fn construct(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut element = operand_type(ctx, 0)?;
    for operand in 1..ctx.input_count() {
        element = join(&element, &operand_type(ctx, operand)?);
    }
    set_sequence(ctx, element);
    Ok(())
}

fn empty(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = element_attribute(ctx, "dtype")?.unwrap_or(ElementType::Float);
    set_sequence(ctx, ValueType::Tensor(TensorType::unranked(element)));
    Ok(())
}

fn insert(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = join(&element_type(ctx, 0)?, &operand_type(ctx, 1)?);
    set_sequence(ctx, element);
    Ok(())
}

fn erase(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = element_type(ctx, 0)?;
    set_sequence(ctx, element);
    Ok(())
}

fn at(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = element_type(ctx, 0)?;
    ctx.set(0, Fact::of(element));
    Ok(())
}

fn length(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    element_type(ctx, 0)?;
    ctx.set_dims(0, ElementType::Int64, Vec::new());
    Ok(())
}

/// Infers ConcatFromSequence: concatenates along an axis, or stacks along a new axis. The extent of the
/// axis depends on the number of elements.
fn concat(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let axis = ctx.int_attribute("axis").ok_or(InferError::MissingAttribute { name: "axis" })?;
    let stacks = ctx.int("new_axis", 0) != 0;
    let ValueType::Tensor(TensorType { element, shape }) = element_type(ctx, 0)? else { return Ok(()) };
    let shape = match shape {
        Some(mut dims) if stacks => {
            let axis = ctx.axis("axis", axis, dims.len() + 1)?;
            dims.insert(axis, Dim::Unknown);
            Some(dims)
        }
        Some(mut dims) => {
            let axis = ctx.axis("axis", axis, dims.len())?;
            dims[axis] = Dim::Unknown;
            Some(dims)
        }
        None => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Returns the extent of the pieces along the axis; unknown unless all are equal.
fn piece(ctx: &Infer<'_>, whole: &Dim) -> Result<Dim, InferError> {
    if !ctx.has(1) {
        return Ok(Dim::Known(1));
    }
    let Some(sizes) = ctx.int_data(1) else { return Ok(Dim::Unknown) };
    if let Some(bad) = sizes.iter().find(|size| **size < 0) {
        return Err(InferError::BadOperand { operand: 1, why: format!("{bad} is negative") });
    }
    let Some((first, rest)) = sizes.split_first() else { return Ok(Dim::Unknown) };
    let size = first.unsigned_abs();
    let equal = if ctx.rank(1) == Some(0) {
        // With a scalar size, the last piece is shorter unless the size divides the extent.
        whole.known().is_some_and(|whole| whole.checked_rem(size) == Some(0))
    } else {
        rest.iter().all(|other| other == first)
    };
    Ok(if equal { Dim::Known(size) } else { Dim::Unknown })
}

fn split(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = match ctx.shape(0) {
        Some(mut dims) => {
            let axis = ctx.axis("axis", ctx.int("axis", 0), dims.len())?;
            // Attribute keepdims applies only if no sizes are given.
            if ctx.has(1) || ctx.int("keepdims", 1) != 0 {
                dims[axis] = piece(ctx, &dims[axis])?;
            } else {
                dims.remove(axis);
            }
            Some(dims)
        }
        None => None,
    };
    let element = ValueType::Tensor(TensorType { element: ctx.element(0), shape });
    set_sequence(ctx, element);
    Ok(())
}

/// Infers Optional: wraps the operand, or creates an empty value of the type in an attribute.
fn optional(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let inner = match (ctx.fact(0), ctx.node().attribute("type")) {
        (Some(fact), _) => fact.ty.clone(),
        (None, Some(Attribute::Type(ty))) => ty.clone(),
        (None, _) => return Err(InferError::MissingAttribute { name: "type" }),
    };
    ctx.set(0, Fact::of(ValueType::Optional(Box::new(inner))));
    Ok(())
}

/// Infers OptionalGetElement: unwraps an optional value; passes a tensor or sequence unchanged.
fn get_element(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let ty = match operand_type(ctx, 0)? {
        ValueType::Optional(inner) => *inner,
        other => other,
    };
    ctx.set(0, Fact::of(ty));
    Ok(())
}

/// Infers OptionalHasElement: the result is known unless the operand is an optional value.
fn has_element(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.set_dims(0, ElementType::Bool, Vec::new());
    let known = match ctx.fact(0).map(|fact| &fact.ty) {
        None => Some(0),
        Some(ValueType::Tensor(_) | ValueType::Sequence(_)) => Some(1),
        Some(_) => None,
    };
    if let Some(data) =
        known.and_then(|known| Data::new(ElementType::Bool, Vec::new(), vec![Item::Int(known)]))
    {
        ctx.set_data(0, data);
    }
    Ok(())
}

const fn moves(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    OpInfo::onnx(name, infer).work(Work::None)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    moves("ConcatFromSequence", concat),
    moves("Optional", optional),
    moves("OptionalGetElement", get_element),
    moves("OptionalHasElement", has_element),
    moves("SequenceAt", at),
    moves("SequenceConstruct", construct),
    moves("SequenceEmpty", empty),
    moves("SequenceErase", erase),
    moves("SequenceInsert", insert),
    moves("SequenceLength", length),
    moves("SplitToSequence", split),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{Case, ty};

    #[test]
    fn elements_join() {
        let construct = |a, b| Case::new("SequenceConstruct", 11).input(a).input(b).show();
        assert_eq!(construct("f32[2,N]", "f32[3,N]"), "seq<f32[?<=3,N]>");
        assert_eq!(construct("f32[2,N]", "f32[3]"), "seq<f32[*]>");
        assert_eq!(
            Case::new("SequenceInsert", 11).input("seq<f32[2]>").input("f32[2]").show(),
            "seq<f32[2]>"
        );
        assert_eq!(Case::new("SequenceEmpty", 11).int("dtype", 7).show(), "seq<i64[*]>");
        assert_eq!(Case::new("SequenceErase", 11).input("seq<f32[2]>").show(), "seq<f32[2]>");
        assert_eq!(Case::new("SequenceAt", 11).input("seq<f32[2]>").input("i64[]").show(), "f32[2]");
        assert_eq!(Case::new("SequenceLength", 11).input("seq<f32[2]>").show(), "i64[]");
        assert!(
            Case::new("SequenceAt", 11).input("f32[2]").input("i64[]").show().starts_with("error: operand 0")
        );
    }

    #[test]
    fn concatenation_and_stacking() {
        let concat = |axis| Case::new("ConcatFromSequence", 11).input("seq<f32[2,3]>").int("axis", axis);
        assert_eq!(concat(1).show(), "f32[2,?]");
        assert_eq!(concat(-1).int("new_axis", 1).show(), "f32[2,3,?]");
        assert!(concat(2).show().starts_with("error: attribute `axis`"));
    }

    #[test]
    fn pieces() {
        let split = || Case::new("SplitToSequence", 11).input("f32[6,N]");
        assert_eq!(split().show(), "seq<f32[1,N]>");
        assert_eq!(split().int("keepdims", 0).show(), "seq<f32[N]>");
        assert_eq!(split().data("i64[]", "3").int("keepdims", 0).show(), "seq<f32[3,N]>");
        assert_eq!(split().data("i64[]", "4").show(), "seq<f32[?,N]>");
        assert_eq!(split().ints_data(&[2, 2, 2]).show(), "seq<f32[2,N]>");
        assert_eq!(split().ints_data(&[1, 5]).show(), "seq<f32[?,N]>");
        assert_eq!(split().data("i64[]", "0").show(), "seq<f32[?,N]>");
    }

    #[test]
    fn optional_values() {
        assert_eq!(Case::new("Optional", 15).input("f32[2]").show(), "optional<f32[2]>");
        let empty = Case::new("Optional", 15).attribute("type", Attribute::Type(ty("seq<f32[2]>")));
        assert_eq!(empty.show(), "optional<seq<f32[2]>>");
        assert_eq!(Case::new("OptionalGetElement", 18).input("optional<f32[2]>").show(), "f32[2]");
        assert_eq!(Case::new("OptionalGetElement", 18).input("f32[2]").show(), "f32[2]");
        assert_eq!(Case::new("OptionalHasElement", 18).show(), "bool[] = {0}");
        assert_eq!(Case::new("OptionalHasElement", 18).input("f32[2]").show(), "bool[] = {1}");
        assert_eq!(Case::new("OptionalHasElement", 18).input("optional<f32[2]>").show(), "bool[]");
    }
}
