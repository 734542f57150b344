//! Comparison, logic and bit operations; follows elements, so that selections in shape arithmetic are
//! known.

use std::cmp::Ordering;

use memc_ir::{ElementType, Ranges};

use crate::algebra::{Algebra, Neutral};
use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::arithmetic::{bool_item, compare, int_item, range, wrap};
use crate::families::broadcasting::{broadcast_shapes, follow, follow_one};
use crate::info::{InPlace, InferFn, OpInfo, Scalar, SplitAxes, Work};

fn relation(
    ctx: &mut Infer<'_>,
    decide: fn(&Item, &Item, &Ranges) -> Option<bool>,
) -> Result<(), InferError> {
    ctx.required(1)?;
    broadcast_shapes(ctx, ElementType::Bool)?;
    let ranges = ctx.ranges();
    follow(ctx, |left, right| bool_item(decide(left, right, ranges)));
    Ok(())
}

/// Whether a comparison involves NaN and is false for every relation.
fn unordered(left: &Item, right: &Item) -> bool {
    matches!((left, right), (Item::Float(a), Item::Float(b)) if a.is_nan() || b.is_nan())
}

fn equals(left: &Item, right: &Item, ranges: &Ranges) -> Option<bool> {
    if unordered(left, right) {
        return Some(false);
    }
    compare(left, right, ranges).map(|order| order == Ordering::Equal)
}

fn is_less(left: &Item, right: &Item, ranges: &Ranges) -> Option<bool> {
    if unordered(left, right) {
        return Some(false);
    }
    let evident = || left.expr()?.at_least(&right.expr()?, ranges).then_some(false);
    compare(left, right, ranges).map(|order| order == Ordering::Less).or_else(evident)
}

fn is_less_or_equal(left: &Item, right: &Item, ranges: &Ranges) -> Option<bool> {
    if unordered(left, right) {
        return Some(false);
    }
    is_less(right, left, ranges).map(|less| !less)
}

fn equal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, equals)
}

fn less(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, is_less)
}

fn less_or_equal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, is_less_or_equal)
}

fn greater(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, |left, right, ranges| is_less(right, left, ranges))
}

fn greater_or_equal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, |left, right, ranges| is_less_or_equal(right, left, ranges))
}

fn truth(item: &Item) -> Option<bool> {
    item.int().map(|value| value != 0)
}

fn and(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, |left, right, _| match (truth(left), truth(right)) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    })
}

fn or(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, |left, right, _| match (truth(left), truth(right)) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    })
}

fn xor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    relation(ctx, |left, right, _| truth(left).zip(truth(right)).map(|(a, b)| a != b))
}

fn not(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_like(0, 0);
    follow_one(ctx, |item| bool_item(truth(item).map(|value| !value)));
    Ok(())
}

/// Infers a bitwise operator. And, or and exclusive or commute with sign extension to 64 bits, so
/// results always fit.
fn bitwise(ctx: &mut Infer<'_>, function: fn(i64, i64) -> i64) -> Result<(), InferError> {
    ctx.required(1)?;
    let element = ctx.element(0);
    broadcast_shapes(ctx, element)?;
    follow(ctx, |left, right| int_item(element, left.int().zip(right.int()).map(|(a, b)| function(a, b))));
    Ok(())
}

fn bitwise_and(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    bitwise(ctx, |a, b| a & b)
}

fn bitwise_or(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    bitwise(ctx, |a, b| a | b)
}

fn bitwise_xor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    bitwise(ctx, |a, b| a ^ b)
}

fn bitwise_not(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_like(0, 0);
    let element = ctx.element(0);
    follow_one(ctx, |item| item.int().map_or(Item::Unknown, |value| wrap(element, !value)));
    Ok(())
}

/// Shifts an unsigned integer by less than its width. Kernels differ on all other shifts, which stay
/// unknown.
fn shift(element: ElementType, left: bool, value: &Item, by: &Item) -> Item {
    let (Some(value), Some(by), Some(bits)) = (value.int(), by.int(), element.bits()) else {
        return Item::Unknown;
    };
    let unsigned = range(element).is_some_and(|(low, _)| low == 0) && element != ElementType::Bool;
    if !unsigned || !(0..i64::from(bits)).contains(&by) {
        return Item::Unknown;
    }
    let shifted =
        if left { u128::from(value.unsigned_abs()) << by } else { u128::from(value.unsigned_abs()) >> by };
    let kept = shifted & ((1u128 << bits) - 1);
    int_item(element, i64::try_from(kept).ok())
}

fn bit_shift(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let left = match ctx.string("direction") {
        Some("LEFT") => true,
        Some("RIGHT") => false,
        Some(other) => {
            return Err(InferError::BadAttribute {
                name: "direction",
                why: format!("`{other}` is neither LEFT nor RIGHT"),
            });
        }
        None => return Err(InferError::MissingAttribute { name: "direction" }),
    };
    let element = ctx.element(0);
    broadcast_shapes(ctx, element)?;
    follow(ctx, |value, by| shift(element, left, value, by));
    Ok(())
}

fn predicate(ctx: &mut Infer<'_>, decide: impl Fn(f64) -> bool) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0);
    ctx.set_tensor(0, ElementType::Bool, shape);
    follow_one(ctx, |item| match item {
        Item::Float(value) => bool_item(Some(decide(*value))),
        _ => Item::Unknown,
    });
    Ok(())
}

fn is_inf(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (negative, positive) = (ctx.int("detect_negative", 1) != 0, ctx.int("detect_positive", 1) != 0);
    predicate(ctx, |value| value.is_infinite() && if value > 0.0 { positive } else { negative })
}

fn is_nan(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    predicate(ctx, f64::is_nan)
}

const fn of(name: &'static str, infer: InferFn, in_place: InPlace, algebra: Algebra) -> OpInfo {
    OpInfo::onnx(name, infer)
        .algebra(algebra)
        .in_place(in_place)
        .work(Work::PerElement(1))
        .split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    of("And", and, InPlace::Any, Algebra::KEEPS_ZERO.commutes().neutral(Neutral::One)),
    of("BitShift", bit_shift, InPlace::Any, Algebra::KEEPS_ZERO),
    of("BitwiseAnd", bitwise_and, InPlace::Any, Algebra::KEEPS_ZERO.commutes()),
    of("BitwiseNot", bitwise_not, InPlace::Operands(&[0]), Algebra::FINITE_AT_ZERO.self_inverse()),
    of("BitwiseOr", bitwise_or, InPlace::Any, Algebra::KEEPS_ZERO.commutes()),
    of("BitwiseXor", bitwise_xor, InPlace::Any, Algebra::KEEPS_ZERO.commutes()),
    of("Equal", equal, InPlace::Any, Algebra::FINITE_AT_ZERO.commutes()),
    of("Greater", greater, InPlace::Any, Algebra::KEEPS_ZERO),
    of("GreaterOrEqual", greater_or_equal, InPlace::Any, Algebra::FINITE_AT_ZERO)
        .scalar(Scalar::PerElement(4)),
    of("IsInf", is_inf, InPlace::Never, Algebra::KEEPS_ZERO),
    of("IsNaN", is_nan, InPlace::Never, Algebra::KEEPS_ZERO),
    of("Less", less, InPlace::Any, Algebra::KEEPS_ZERO),
    of("LessOrEqual", less_or_equal, InPlace::Any, Algebra::FINITE_AT_ZERO).scalar(Scalar::PerElement(4)),
    of("Not", not, InPlace::Operands(&[0]), Algebra::FINITE_AT_ZERO.self_inverse()),
    of("Or", or, InPlace::Any, Algebra::KEEPS_ZERO.commutes().neutral(Neutral::False)),
    of("Xor", xor, InPlace::Any, Algebra::KEEPS_ZERO.commutes().neutral(Neutral::False)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn results_are_boolean() {
        for name in ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"] {
            assert_eq!(Case::new(name, 16).input("f32[N,1]").input("f32[3]").show(), "bool[N,3]", "{name}");
        }
        assert_eq!(Case::new("IsNaN", 20).input("f16[N]").show(), "bool[N]");
        assert_eq!(Case::new("Not", 1).input("bool[N]").show(), "bool[N]");
    }

    #[test]
    fn relations_are_decided_only_if_they_hold_for_all_extents() {
        let rows = [
            ("Equal", "N,N,N+1,N", "-1,N,N,0", "0,1,0,?"),
            ("Less", "N,N,N,2", "-1,N,N+1,3", "0,0,1,1"),
            ("LessOrEqual", "N,N,0,3", "-1,N,N,3", "0,1,1,1"),
            ("Greater", "N,N,0,3", "-1,N,N,2", "1,0,0,1"),
            ("GreaterOrEqual", "N,N,N,2", "0,N,M,3", "1,1,?,0"),
        ];
        for (name, left, right, result) in rows {
            let case = Case::new(name, 16).data("i64[4]", left).data("i64[4]", right);
            assert_eq!(case.show(), format!("bool[4] = {{{result}}}"), "{name}");
        }
        let nan = |name| Case::new(name, 16).data("f32[2]", "nan,1.0").data("f32[1]", "1.0").show();
        assert_eq!(nan("LessOrEqual"), "bool[2] = {0,1}");
        assert_eq!(nan("GreaterOrEqual"), "bool[2] = {0,1}");
    }

    #[test]
    fn logic_decides_with_one_known_side() {
        let rows = [("And", "0,?,1"), ("Or", "?,1,1"), ("Xor", "?,?,0")];
        for (name, result) in rows {
            let case = Case::new(name, 7).data("bool[3]", "?,?,1").data("bool[3]", "0,1,1");
            assert_eq!(case.show(), format!("bool[3] = {{{result}}}"), "{name}");
        }
    }

    #[test]
    fn bits_stay_in_their_element_type() {
        let shift = |direction, by| {
            Case::new("BitShift", 11)
                .data("u8[1]", "200")
                .data("u8[1]", by)
                .string("direction", direction)
                .show()
        };
        assert_eq!(shift("LEFT", "1"), "u8[1] = {144}");
        assert_eq!(shift("RIGHT", "3"), "u8[1] = {25}");
        assert_eq!(shift("LEFT", "8"), "u8[1] = {?}");
        assert_eq!(shift("UP", "1"), "error: attribute `direction`: `UP` is neither LEFT nor RIGHT");
        assert_eq!(Case::new("BitwiseNot", 18).data("u8[2]", "0,200").show(), "u8[2] = {255,55}");
        assert_eq!(Case::new("BitwiseXor", 18).data("i8[1]", "-1").data("i8[1]", "5").show(), "i8[1] = {-6}");
        let infinite = Case::new("IsInf", 20).data("f32[3]", "inf,-inf,1.0").int("detect_negative", 0);
        assert_eq!(infinite.show(), "bool[3] = {1,0,0}");
    }
}
