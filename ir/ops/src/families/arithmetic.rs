//! Arithmetic on single elements: the exact bits that a runtime computes, or [`Item::Unknown`].
//!
//! Integers outside the range of their element type become unknown, because kernels wrap in different
//! ways. Floating-point numbers are computed in binary64 and rounded once. For `+ - * / sqrt` this gives
//! the correctly rounded binary32 result, because binary64 has more than twice the digits (Figueroa,
//! "When is double rounding innocuous?", 1995). NaN becomes unknown, and so does a zero result whose
//! sign is uncertain.

use std::cmp::Ordering;

use memc_ir::{Comparison, DimExpr, ElementType, Ranges};

use crate::fact::Item;

/// Largest magnitude up to which binary64 represents every integer.
pub(crate) const EXACT_F64: i64 = 1 << 53;
/// Largest magnitude up to which binary32 represents every integer.
pub(crate) const EXACT_F32: i64 = 1 << 24;

/// Whether an integer type is signed.
pub(crate) fn is_signed(element: ElementType) -> bool {
    use ElementType::*;
    matches!(element, Int64 | Int32 | Int16 | Int8 | Int4 | Int2)
}

/// Returns the smallest and largest value of an integer type, limited to signed 64 bits; `None` for
/// other types.
pub(crate) fn range(element: ElementType) -> Option<(i64, i64)> {
    if element == ElementType::Bool {
        return Some((0, 1));
    }
    let bits = element.bits().filter(|_| element.is_integral())?;
    Some(match (is_signed(element), bits) {
        (true, 64) => (i64::MIN, i64::MAX),
        (true, _) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (false, 64) => (0, i64::MAX),
        (false, _) => (0, (1 << bits) - 1),
    })
}

/// Returns an integer of this element type; unknown if it does not fit.
pub(crate) fn int_item(element: ElementType, value: Option<i64>) -> Item {
    let fits = |value: &i64| range(element).is_some_and(|(low, high)| (low..=high).contains(value));
    value.filter(fits).map_or(Item::Unknown, Item::Int)
}

/// Rounds a number to this element type; unknown for NaN and for types other than binary32 and binary64.
pub(crate) fn float_item(element: ElementType, value: f64) -> Item {
    let rounded = match element {
        ElementType::Float => f64::from(value as f32),
        ElementType::Double => value,
        _ => f64::NAN,
    };
    if rounded.is_nan() { Item::Unknown } else { Item::Float(rounded) }
}

/// Returns an expression as an element of this type. Only 64-bit and 32-bit integers, the types of shape
/// arithmetic, can be symbolic.
pub(crate) fn expr_item(element: ElementType, expr: Option<DimExpr>) -> Item {
    let Some(expr) = expr else { return Item::Unknown };
    match expr.as_constant() {
        Some(value) => int_item(element, Some(value)),
        None if matches!(element, ElementType::Int64 | ElementType::Int32) => Item::Symbolic(expr),
        None => Item::Unknown,
    }
}

/// Returns an integer between 0 and an upper bound; unknown if the bound exceeds the element type. Only
/// the types of shape arithmetic can have a symbolic bound.
pub(crate) fn most_item(element: ElementType, most: Option<DimExpr>) -> Item {
    match expr_item(element, most) {
        Item::Int(most) if most >= 0 => Item::AtMost(most),
        Item::Symbolic(most) => Item::Within(most),
        _ => Item::Unknown,
    }
}

/// Replaces an unknown integer by one with an upper bound, which `most` derives from the bounds of its
/// operands.
fn bounded(element: ElementType, known: Item, most: impl FnOnce() -> Option<DimExpr>) -> Item {
    if known == Item::Unknown { most_item(element, most()) } else { known }
}

/// Returns a lower bound of an expression, given that symbols are extents and never negative; `None` if
/// no bound is evident.
pub(crate) fn lower_bound(expr: &DimExpr) -> Option<i64> {
    expr.lower_bound(&Ranges::new()).and_then(|bound| i64::try_from(bound).ok())
}

/// Compares two expressions for all extents in the ranges; `None` if the order depends on the extents.
fn compare_exprs(left: &DimExpr, right: &DimExpr, ranges: &Ranges) -> Option<Ordering> {
    match left.compare(right, ranges) {
        Comparison::Less => Some(Ordering::Less),
        Comparison::Equal => Some(Ordering::Equal),
        Comparison::Greater => Some(Ordering::Greater),
        Comparison::Unknown => None,
    }
}

/// Whether `left >= right` for all values of the symbols; false if this is not provable.
pub(crate) fn at_least(left: &DimExpr, right: &DimExpr) -> bool {
    left.at_least(right, &Ranges::new())
}

/// Whether an expression is never negative, or not provably.
fn is_extent_expr(expr: &DimExpr) -> bool {
    lower_bound(expr).is_some_and(|bound| bound >= 0)
}

/// Compares two elements; `None` if the order is not certain. NaN compares with no element.
pub(crate) fn compare(left: &Item, right: &Item, ranges: &Ranges) -> Option<Ordering> {
    match (left, right) {
        (Item::Int(a), Item::Int(b)) => Some(a.cmp(b)),
        (Item::Float(a), Item::Float(b)) => a.partial_cmp(b),
        _ => compare_exprs(&left.expr()?, &right.expr()?, ranges),
    }
}

type IntOp = fn(i64, i64) -> Option<i64>;
type FloatOp = fn(f64, f64) -> f64;
type ExprOp = fn(&DimExpr, &DimExpr) -> Option<DimExpr>;

fn binary(
    element: ElementType,
    left: &Item,
    right: &Item,
    int: IntOp,
    float: FloatOp,
    symbolic: ExprOp,
) -> Item {
    match (left, right) {
        (Item::Int(a), Item::Int(b)) => int_item(element, int(*a, *b)),
        (Item::Float(a), Item::Float(b)) => float_item(element, float(*a, *b)),
        _ => expr_item(element, left.expr().zip(right.expr()).and_then(|(a, b)| symbolic(&a, &b))),
    }
}

/// Adds two elements.
pub(crate) fn add(element: ElementType, left: &Item, right: &Item) -> Item {
    let sum = binary(element, left, right, i64::checked_add, |a, b| a + b, DimExpr::add);
    bounded(element, sum, || left.upper_expr()?.add(&right.upper_expr()?))
}

/// Subtracts two elements.
pub(crate) fn sub(element: ElementType, left: &Item, right: &Item) -> Item {
    binary(element, left, right, i64::checked_sub, |a, b| a - b, DimExpr::sub)
}

/// Multiplies two elements.
pub(crate) fn mul(element: ElementType, left: &Item, right: &Item) -> Item {
    if element.is_integral() && (*left == Item::Int(0) || *right == Item::Int(0)) {
        return Item::Int(0);
    }
    let product = binary(element, left, right, i64::checked_mul, |a, b| a * b, DimExpr::mul);
    bounded(element, product, || left.upper_expr()?.mul(&right.upper_expr()?))
}

/// Divides two elements; integers truncate toward zero. A divisor that is an extent counts as at least 1,
/// because kernels fail on zero.
pub(crate) fn div(element: ElementType, left: &Item, right: &Item) -> Item {
    let symbolic: ExprOp = |a, b| {
        a.div_exact(b).or_else(|| match b.as_constant() {
            Some(by) if by < 0 => a.neg()?.trunc_div(&b.neg()?),
            _ if is_extent_expr(a) && is_extent_expr(b) => a.floor_div(b),
            _ => is_extent_expr(b).then(|| a.trunc_div(b))?,
        })
    };
    let quotient = binary(element, left, right, i64::checked_div, |a, b| a / b, symbolic);
    // An unknown divisor is at least 1.
    let by =
        || right.expr().filter(is_extent_expr).or_else(|| right.upper_expr().map(|_| DimExpr::constant(1)));
    bounded(element, quotient, || left.upper_expr()?.floor_div(&by()?))
}

/// Returns the remainder of integers with the sign of the divisor (`fmod` = 0). Floating-point numbers
/// stay unknown: only the newest operator set defines them.
pub(crate) fn modulo(element: ElementType, left: &Item, right: &Item) -> Item {
    let int: IntOp = |a, b| {
        let rest = a.checked_rem(b)?;
        Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    };
    let symbolic: ExprOp =
        |a, b| if b.as_constant().is_some() || is_extent_expr(b) { a.modulo(b) } else { None };
    let rest = binary(element, left, right, int, |_, _| f64::NAN, symbolic);
    bounded(element, rest, || {
        let by = right.int().filter(|by| *by > 0 && element.is_integral())?;
        by.checked_sub(1).map(DimExpr::constant)
    })
}

/// Returns the remainder with the sign of the dividend (`fmod` = 1). Kernels compute integers in
/// binary64.
pub(crate) fn remainder(element: ElementType, left: &Item, right: &Item) -> Item {
    let exact = |value: i64| value.checked_abs().filter(|magnitude| *magnitude <= EXACT_F64);
    match (left, right) {
        (Item::Int(a), Item::Int(b)) => {
            int_item(element, exact(*a).zip(exact(*b)).and_then(|_| a.checked_rem(*b)))
        }
        (Item::Float(a), Item::Float(b)) => float_item(element, a % b),
        // Remainders of numbers that are never negative do not depend on the rounding.
        _ => match (left.expr(), right.expr()) {
            (Some(a), Some(b)) if is_extent_expr(&a) && is_extent_expr(&b) => {
                expr_item(element, a.modulo(&b))
            }
            _ => Item::Unknown,
        },
    }
}

/// Raises a number to a power, if the result is a whole number that is exact in the type in which kernels
/// compute. Other powers of floating-point numbers depend on the math library.
pub(crate) fn pow(element: ElementType, base: &Item, exponent: &Item) -> Item {
    if let Item::Float(base) = base {
        return whole_power(element, *base, exponent);
    }
    let exponent = match exponent {
        Item::Int(value) => *value,
        Item::Float(value) if value.fract() == 0.0 && value.abs() < 64.0 => *value as i64,
        _ => return Item::Unknown,
    };
    let Ok(exponent) = u32::try_from(exponent) else { return Item::Unknown };
    match base {
        Item::Int(value) => {
            let power = value.checked_pow(exponent);
            int_item(element, power.filter(|power| power.unsigned_abs() <= EXACT_F64.unsigned_abs()))
        }
        Item::Symbolic(expr) if (1..=4).contains(&exponent) => {
            expr_item(element, (1..exponent).try_fold(expr.clone(), |power, _| power.mul(expr)))
        }
        _ => Item::Unknown,
    }
}

/// Raises a positive whole number to a whole power, or to 0.5 if it is a square: every math library returns
/// such a result without an error, because it is a number of the type.
fn whole_power(element: ElementType, base: f64, exponent: &Item) -> Item {
    let exponent = match exponent {
        Item::Int(value) => *value as f64,
        Item::Float(value) => *value,
        _ => return Item::Unknown,
    };
    let most = if element == ElementType::Float { EXACT_F32 } else { EXACT_F64 } as f64;
    let is_whole = |value: f64| value.fract() == 0.0 && (1.0..=most).contains(&value);
    let power = match exponent {
        0.5 => Some(base.sqrt()).filter(|root| root * root == base),
        whole if whole.fract() == 0.0 && (0.0..64.0).contains(&whole) => Some(base.powi(whole as i32)),
        _ => None,
    };
    let exact = power.filter(|power| is_whole(base) && is_whole(*power));
    exact.map_or(Item::Unknown, |power| float_item(element, power))
}

/// Returns the smaller element (`wanted` = less) or the larger one (`wanted` = greater).
fn choose(element: ElementType, left: &Item, right: &Item, wanted: Ordering) -> Item {
    if let (Item::Float(a), Item::Float(b)) = (left, right) {
        // The kernel decides which of two zeros wins.
        if a.is_nan()
            || b.is_nan()
            || (*a == 0.0 && *b == 0.0 && a.is_sign_negative() != b.is_sign_negative())
        {
            return Item::Unknown;
        }
    }
    match compare(left, right, &Ranges::new()) {
        Some(Ordering::Equal) => left.clone(),
        Some(order) if order == wanted => left.clone(),
        Some(_) => right.clone(),
        None => {
            let Some((left, right)) = left.expr().zip(right.expr()) else { return Item::Unknown };
            let both = vec![left, right];
            expr_item(
                element,
                if wanted == Ordering::Less { DimExpr::min_of(both) } else { DimExpr::max_of(both) },
            )
        }
    }
}

/// Whether an integer is provably not negative.
fn is_extent(item: &Item) -> bool {
    item.upper_expr().is_some()
}

/// Returns the smaller of two elements.
pub(crate) fn min(element: ElementType, left: &Item, right: &Item) -> Item {
    bounded(element, choose(element, left, right, Ordering::Less), || {
        let uppers: Vec<DimExpr> = [left, right].into_iter().filter_map(Item::upper_expr).collect();
        DimExpr::min_of(uppers).filter(|_| is_extent(left) && is_extent(right))
    })
}

/// Returns the larger of two elements.
pub(crate) fn max(element: ElementType, left: &Item, right: &Item) -> Item {
    let larger = choose(element, left, right, Ordering::Greater);
    bounded(element, larger, || DimExpr::max_of(vec![left.upper_expr()?, right.upper_expr()?]))
}

/// Returns a boolean as an element.
pub(crate) fn bool_item(value: Option<bool>) -> Item {
    value.map_or(Item::Unknown, |value| Item::Int(i64::from(value)))
}

/// Keeps the low bits of an integer, as a conversion to this element type does.
pub(crate) fn wrap(element: ElementType, value: i64) -> Item {
    let Some(bits) = element.bits().filter(|_| element.is_integral()) else { return Item::Unknown };
    if element == ElementType::Bool {
        return Item::Int(i64::from(value != 0));
    }
    if bits == 64 {
        return int_item(element, Some(value));
    }
    let low = value & ((1 << bits) - 1);
    let negative = is_signed(element) && low >> (bits - 1) == 1;
    Item::Int(if negative { low - (1 << bits) } else { low })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn expr(text: &str) -> DimExpr {
        DimExpr::parse(text).unwrap()
    }

    #[test]
    fn bounds_hold_for_every_extent() {
        assert_eq!(lower_bound(&expr("N+2*M+3")), Some(3));
        assert_eq!(lower_bound(&expr("N-1")), Some(-1));
        assert_eq!(lower_bound(&expr("1-N")), None);
        assert_eq!(compare_exprs(&expr("N+1"), &expr("N"), &Ranges::new()), Some(Ordering::Greater));
        assert_eq!(compare_exprs(&expr("N"), &expr("-1"), &Ranges::new()), Some(Ordering::Greater));
        assert_eq!(compare_exprs(&expr("N"), &expr("0"), &Ranges::new()), None);
        assert!(at_least(&expr("N"), &expr("0")) && !at_least(&expr("N"), &expr("1")));
    }

    #[test]
    fn integers_that_do_not_fit_are_unknown() {
        let (i8, u64) = (ElementType::Int8, ElementType::Uint64);
        assert_eq!(add(i8, &Item::Int(100), &Item::Int(27)), Item::Int(127));
        assert_eq!(add(i8, &Item::Int(100), &Item::Int(28)), Item::Unknown);
        assert_eq!(sub(u64, &Item::Int(1), &Item::Int(2)), Item::Unknown);
        assert_eq!(div(ElementType::Int64, &Item::Int(i64::MIN), &Item::Int(-1)), Item::Unknown);
        assert_eq!(div(ElementType::Int64, &Item::Int(-7), &Item::Int(2)), Item::Int(-3));
        assert_eq!(modulo(ElementType::Int64, &Item::Int(-7), &Item::Int(2)), Item::Int(1));
        assert_eq!(remainder(ElementType::Int64, &Item::Int(-7), &Item::Int(2)), Item::Int(-1));
        assert_eq!(wrap(ElementType::Int32, i64::MAX), Item::Int(-1));
        assert_eq!(wrap(ElementType::Uint8, -1), Item::Int(255));
    }

    #[test]
    fn numbers_round_to_their_element_type() {
        let tenth = Item::Float(f64::from(0.1f32));
        let fifth = Item::Float(f64::from(0.2f32));
        assert_eq!(add(ElementType::Float, &tenth, &fifth), Item::Float(f64::from(0.1f32 + 0.2f32)));
        assert_eq!(div(ElementType::Float, &Item::Float(0.0), &Item::Float(0.0)), Item::Unknown);
        assert_eq!(max(ElementType::Float, &Item::Float(0.0), &Item::Float(-0.0)), Item::Unknown);
        assert_eq!(add(ElementType::Float16, &tenth, &fifth), Item::Unknown);
    }
}
