//! Conversions of the element type.

use memc_ir::{ConstData, ConstOrigin, DimExpr, ElementType, Payload, Ranges, TensorType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::families::arithmetic::{bool_item, expr_item, float_item, int_item, most_item, wrap};
use crate::families::broadcasting::follow_one;
use crate::info::{InPlace, InferFn, OpInfo, SplitAxes, View, Work};

/// Returns the element type that an attribute states by its ONNX number.
fn target(ctx: &Infer<'_>, name: &'static str) -> Result<ElementType, InferError> {
    let number = ctx.int_attribute(name).ok_or(InferError::MissingAttribute { name })?;
    match i32::try_from(number) {
        Ok(number) if number > 0 => Ok(ElementType::from_onnx(number)),
        _ => Err(InferError::BadAttribute { name, why: format!("{number} is not an element type") }),
    }
}

/// Converts one element as C does. Conversions that C leaves undefined (numbers out of range, NaN to an
/// integer) give unknown.
fn convert(to: ElementType, item: &Item, ranges: &Ranges) -> Item {
    match item {
        Item::Int(value) if to.is_integral() => wrap(to, *value),
        // Round once: a conversion through binary64 would round twice.
        Item::Int(value) if to == ElementType::Float => Item::Float(f64::from(*value as f32)),
        Item::Int(value) => float_item(to, *value as f64),
        Item::Float(value) if to == ElementType::Bool => {
            bool_item((!value.is_nan()).then_some(*value != 0.0))
        }
        // Both bounds are exact in binary64; the upper bound is excluded.
        Item::Float(value)
            if to.is_integral()
                && *value > -9_223_372_036_854_775_808.0
                && *value < 9_223_372_036_854_775_808.0 =>
        {
            int_item(to, Some(value.trunc() as i64))
        }
        Item::Float(value) if !to.is_integral() => float_item(to, *value),
        Item::Symbolic(expr) if to == ElementType::Bool => {
            bool_item(expr.at_least(&DimExpr::constant(1), ranges).then_some(true))
        }
        Item::Symbolic(expr) => expr_item(to, Some(expr.clone())),
        // A bound that fits the type stays unchanged.
        Item::AtMost(_) | Item::Within(_) if to == ElementType::Bool => Item::AtMost(1),
        Item::AtMost(_) | Item::Within(_) => most_item(to, item.upper_expr()),
        _ => Item::Unknown,
    }
}

/// Gives result 0 the shape of operand 0 and element type `to`, and converts its elements.
fn convert_all(ctx: &mut Infer<'_>, to: ElementType) {
    let shape = ctx.shape(0);
    ctx.set_tensor(0, to, shape);
    if to.is_integral() || matches!(to, ElementType::Float | ElementType::Double) {
        let ranges = ctx.ranges();
        follow_one(ctx, |item| convert(to, item, ranges));
    }
}

fn cast(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let to = target(ctx, "to")?;
    convert_all(ctx, to);
    Ok(())
}

fn cast_like(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    convert_all(ctx, ctx.element(1));
    Ok(())
}

fn bit_cast(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let to = target(ctx, "to")?;
    if let (Some(from_bits), Some(to_bits)) = (ctx.element(0).bits(), to.bits())
        && from_bits != to_bits
    {
        return Err(InferError::Mismatch {
            what: "bits an element",
            left: from_bits.to_string(),
            right: to_bits.to_string(),
        });
    }
    let shape = ctx.shape(0);
    ctx.set_tensor(0, to, shape);
    let read_back = |data: &Data| {
        let payload = Payload::Raw(data.to_raw()?.into());
        let ty = TensorType::fixed(to, &data.dims);
        Data::from_constant(&ConstData { ty, payload, origin: ConstOrigin::New })
    };
    if let Some(data) = ctx.data(0).and_then(read_back) {
        ctx.set_data(0, data);
    }
    Ok(())
}

const fn conversion(name: &'static str, infer: InferFn) -> OpInfo {
    OpInfo::onnx(name, infer)
        .algebra(Algebra::NONE)
        .in_place(InPlace::Operands(&[0]))
        .view(View::SameType)
        .split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("BitCast", bit_cast).work(Work::None).split(SplitAxes::All),
    conversion("Cast", cast),
    conversion("CastLike", cast_like),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn casts_follow_only_elements_with_a_certain_result() {
        let (float, uint8, int32, int64, boolean, float16, double) = (1, 2, 6, 7, 9, 10, 11);
        let rows = [
            ("i64[3]", "2147483653,-1,N", int32, "i32[3] = {-2147483643,-1,N}"),
            ("i64[2]", "16777217,N", float, "f32[2] = {16777216.0,?}"),
            ("i64[1]", "9007199254740993", double, "f64[1] = {9007199254740992.0}"),
            ("f32[4]", "-1.7,2.5,300.0,nan", uint8, "u8[4] = {?,2,?,?}"),
            ("f32[3]", "-1.7,2.5,1e30", int64, "i64[3] = {-1,2,?}"),
            ("f32[3]", "-1.5,0.0,nan", boolean, "bool[3] = {1,0,?}"),
            ("i64[3]", "2,N,N+1", boolean, "bool[3] = {1,?,1}"),
            ("f64[1]", "0.1", float, "f32[1] = {0.10000000149011612}"),
            ("i64[1]", "1", float16, "f16[1]"),
            ("bool[2]", "1,?", int64, "i64[2] = {1,?}"),
        ];
        for (ty, items, to, result) in rows {
            assert_eq!(Case::new("Cast", 21).data(ty, items).int("to", to).show(), result, "{ty} {items}");
        }
        assert_eq!(Case::new("Cast", 21).input("f32[N]").show(), "error: attribute `to` is missing");
        assert_eq!(
            Case::new("Cast", 21).input("f32[N]").int("to", 0).show(),
            "error: attribute `to`: 0 is not an element type"
        );
        assert_eq!(Case::new("CastLike", 21).data("i64[1]", "3").input("f64[*]").show(), "f64[1] = {3.0}");
    }

    #[test]
    fn bit_casts_reinterpret_elements() {
        assert_eq!(
            Case::new("BitCast", 26).data("f32[1]", "1.0").int("to", 6).show(),
            "i32[1] = {1065353216}"
        );
        assert_eq!(Case::new("BitCast", 26).data("u8[1]", "255").int("to", 3).show(), "i8[1] = {-1}");
        let wider = Case::new("BitCast", 26).input("f32[N]").int("to", 7);
        assert_eq!(wider.show(), "error: bits an element: 32 and 64 do not agree");
    }
}
