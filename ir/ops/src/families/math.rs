//! Mathematical functions of one operand.

use memc_ir::{DimExpr, ElementType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::activation::same_as_first;
use crate::families::arithmetic::{at_least, expr_item, float_item, int_item, lower_bound};
use crate::families::broadcasting::follow_one;
use crate::info::{InPlace, InferFn, Linear, OpInfo, SplitAxes, Work};

fn followed(ctx: &mut Infer<'_>, function: fn(ElementType, &Item) -> Item) -> Result<(), InferError> {
    same_as_first(ctx)?;
    let element = ctx.element(0);
    follow_one(ctx, |item| function(element, item));
    Ok(())
}

fn abs(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    followed(ctx, |element, item| match item {
        Item::Int(value) => int_item(element, value.checked_abs()),
        Item::Float(value) => float_item(element, value.abs()),
        Item::Symbolic(expr) if at_least(expr, &DimExpr::constant(0)) => item.clone(),
        _ => Item::Unknown,
    })
}

fn neg(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    followed(ctx, |element, item| match item {
        Item::Int(value) => int_item(element, value.checked_neg()),
        Item::Float(value) => float_item(element, -value),
        _ => expr_item(element, item.expr().and_then(|expr| expr.mul(&DimExpr::constant(-1)))),
    })
}

fn sign(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    followed(ctx, |element, item| match item {
        Item::Int(value) => int_item(element, Some(value.signum())),
        Item::Float(value) if *value == 0.0 => Item::Float(0.0),
        Item::Float(value) => float_item(element, value.signum()),
        Item::Symbolic(expr) if lower_bound(expr).is_some_and(|bound| bound > 0) => Item::Int(1),
        _ => Item::Unknown,
    })
}

/// Infers a rounding function. A zero from a negative number is unknown, because its sign depends on the
/// kernel.
fn rounded(ctx: &mut Infer<'_>, function: fn(f64) -> f64) -> Result<(), InferError> {
    same_as_first(ctx)?;
    let element = ctx.element(0);
    follow_one(ctx, |item| match item {
        Item::Float(value) => match function(*value) {
            zero if zero == 0.0 && value.is_sign_negative() => Item::Unknown,
            result => float_item(element, result),
        },
        _ => Item::Unknown,
    });
    Ok(())
}

fn floor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    rounded(ctx, f64::floor)
}

fn ceil(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    rounded(ctx, f64::ceil)
}

fn round(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    rounded(ctx, f64::round_ties_even)
}

fn sqrt(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    followed(ctx, |element, item| match item {
        Item::Float(value) => float_item(element, value.sqrt()),
        _ => Item::Unknown,
    })
}

/// Infers Reciprocal. Kernels approximate it for tensors of several elements, so only a single element
/// is followed.
fn reciprocal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let alone = ctx.data(0).is_some_and(|data| data.items.len() == 1);
    if alone { followed(ctx, one_over) } else { same_as_first(ctx) }
}

fn one_over(element: ElementType, item: &Item) -> Item {
    match item {
        Item::Float(value) if *value != 0.0 => float_item(element, value.recip()),
        _ => Item::Unknown,
    }
}

const fn of(name: &'static str, infer: InferFn, work: u32, algebra: Algebra) -> OpInfo {
    let info = OpInfo::onnx(name, infer).algebra(algebra);
    info.in_place(InPlace::Operands(&[0])).work(Work::PerElement(work)).split(SplitAxes::All)
}

/// The operators of this family. Work is in operations of a vector unit, as in common polynomial
/// kernels.
pub const OPERATORS: &[OpInfo] = &[
    of("Abs", abs, 1, Algebra::KEEPS_ZERO.idempotent().nonnegative()),
    of("Acos", same_as_first, 20, Algebra::FINITE_AT_ZERO),
    of("Acosh", same_as_first, 25, Algebra::NONE),
    of("Asin", same_as_first, 20, Algebra::KEEPS_ZERO),
    of("Asinh", same_as_first, 25, Algebra::KEEPS_ZERO),
    of("Atan", same_as_first, 20, Algebra::KEEPS_ZERO),
    of("Atanh", same_as_first, 25, Algebra::KEEPS_ZERO),
    of("Ceil", ceil, 1, Algebra::KEEPS_ZERO.idempotent()).rounds_to_whole(),
    of("Cos", same_as_first, 15, Algebra::FINITE_AT_ZERO).unit_scale(),
    of("Cosh", same_as_first, 20, Algebra::FINITE_AT_ZERO),
    of("Erf", same_as_first, 20, Algebra::KEEPS_ZERO).unit_scale(),
    of("Exp", same_as_first, 10, Algebra::FINITE_AT_ZERO.nonnegative()),
    of("Floor", floor, 1, Algebra::KEEPS_ZERO.idempotent()).rounds_to_whole(),
    of("Log", same_as_first, 12, Algebra::NONE),
    of("Neg", neg, 1, Algebra::KEEPS_ZERO.self_inverse()).linear(Linear::First),
    of("Reciprocal", reciprocal, 4, Algebra::NONE),
    of("Round", round, 1, Algebra::KEEPS_ZERO.idempotent()).rounds_to_whole(),
    of("Sign", sign, 1, Algebra::KEEPS_ZERO.idempotent()),
    of("Sin", same_as_first, 15, Algebra::KEEPS_ZERO).unit_scale(),
    of("Sinh", same_as_first, 20, Algebra::KEEPS_ZERO),
    of("Sqrt", sqrt, 4, Algebra::KEEPS_ZERO.nonnegative()),
    of("Tan", same_as_first, 20, Algebra::KEEPS_ZERO),
];

#[cfg(test)]
mod tests {
    use super::OPERATORS;
    use crate::families::testing::Case;

    #[test]
    fn every_function_keeps_type_and_shape() {
        for info in OPERATORS {
            assert_eq!(Case::new(info.name, 22).input("f16[N,?,3]").show(), "f16[N,?,3]", "{}", info.name);
            assert_eq!(Case::new(info.name, 22).input("f32[*]").show(), "f32[*]", "{}", info.name);
            assert_eq!(Case::new(info.name, 22).show(), "error: operand 0 is missing", "{}", info.name);
        }
    }

    #[test]
    fn exact_functions_are_followed() {
        let rows = [
            ("Abs", "i64[3]", "-3,N,N-1", "3,N,?"),
            ("Neg", "i64[2]", "3,N", "-3,-N"),
            ("Sign", "i64[4]", "-3,0,N,N+1", "-1,0,?,1"),
            ("Floor", "f32[3]", "-1.5,1.5,0.5", "-2.0,1.0,0.0"),
            ("Ceil", "f32[3]", "-1.5,1.5,-0.5", "-1.0,2.0,?"),
            ("Round", "f32[3]", "2.5,3.5,-1.5", "2.0,4.0,-2.0"),
            ("Sqrt", "f32[2]", "64.0,-1.0", "8.0,?"),
            ("Reciprocal", "f32[]", "8.0", "0.125"),
            ("Reciprocal", "f32[]", "0.0", "?"),
            ("Reciprocal", "f32[2]", "2.0,4.0", ""),
            ("Exp", "f32[1]", "0.0", ""),
        ];
        for (name, ty, items, result) in rows {
            let expected = if result.is_empty() { ty.to_owned() } else { format!("{ty} = {{{result}}}") };
            assert_eq!(Case::new(name, 22).data(ty, items).show(), expected, "{name}");
        }
    }
}
