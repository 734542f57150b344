//! Helpers of shape functions for dimensions: reading, unifying, scaling, rounded quotients.

use memc_ir::{Dim, DimExpr, ElementType};

use crate::context::{Infer, InferError};

/// Returns the extent of operand `operand` along `axis`; unknown if the operand, its rank or the axis is
/// unknown.
pub(crate) fn dim_at(ctx: &Infer<'_>, operand: usize, axis: usize) -> Dim {
    ctx.dims(operand).and_then(|dims| dims.get(axis)).cloned().unwrap_or(Dim::Unknown)
}

/// Returns the more precise of two extents that must be equal.
///
/// # Errors
/// Returns [`InferError::Mismatch`] if both are known and differ.
pub(crate) fn agree(what: &'static str, left: &Dim, right: &Dim) -> Result<Dim, InferError> {
    match (left, right) {
        (Dim::Known(a), Dim::Known(b)) if a != b => {
            Err(InferError::Mismatch { what, left: left.to_string(), right: right.to_string() })
        }
        (Dim::AtMost(a), Dim::AtMost(b)) => Ok(Dim::AtMost(*a.min(b))),
        (Dim::Known(_), _) | (_, Dim::Unknown) => Ok(left.clone()),
        (_, Dim::Known(_)) | (Dim::Unknown, _) => Ok(right.clone()),
        (Dim::AtMost(_) | Dim::Within(_), Dim::Symbolic(_)) => Ok(right.clone()),
        _ => Ok(left.clone()),
    }
}

/// Rejects an operand whose rank is known and differs from the required rank.
///
/// # Errors
/// Returns [`InferError::BadOperand`].
pub(crate) fn require_rank(ctx: &Infer<'_>, operand: usize, rank: usize) -> Result<(), InferError> {
    match ctx.rank(operand) {
        Some(found) if found != rank => Err(InferError::BadOperand {
            operand,
            why: format!("rank {found}, but the operator takes rank {rank}"),
        }),
        _ => Ok(()),
    }
}

/// Returns the element type that an integer attribute states; `None` if it is absent or 0.
///
/// # Errors
/// Returns [`InferError::BadAttribute`] if the number is not an element type.
pub(crate) fn element_attribute(
    ctx: &Infer<'_>,
    name: &'static str,
) -> Result<Option<ElementType>, InferError> {
    match ctx.int(name, 0) {
        0 => Ok(None),
        number => i32::try_from(number)
            .map(|number| Some(ElementType::from_onnx(number)))
            .map_err(|_| InferError::BadAttribute { name, why: format!("{number} names no element type") }),
    }
}

/// Returns `floor((dim + offset) / by) + plus`. Returns `None` if the result is a known negative number.
pub(crate) fn floor_quotient(dim: &Dim, offset: i128, by: i64, plus: i128) -> Option<Dim> {
    let divide = |value: i128| value.div_euclid(i128::from(by.max(1))).checked_add(plus);
    let symbolic = |expr: &DimExpr| {
        let constant = |value: i128| i64::try_from(value).ok().map(DimExpr::constant);
        expr.add(&constant(offset)?)?.floor_div(&DimExpr::constant(by.max(1)))?.add(&constant(plus)?)
    };
    match dim {
        Dim::Known(extent) => {
            let Some(value) = i128::from(*extent).checked_add(offset).and_then(divide) else {
                return Some(Dim::Unknown);
            };
            // A negative value is the caller's error; a value too large for an extent is merely unknown.
            (value >= 0).then(|| u64::try_from(value).map_or(Dim::Unknown, Dim::Known))
        }
        Dim::Symbolic(expr) => Some(symbolic(expr).map_or(Dim::Unknown, Dim::from_expr)),
        // The quotient grows monotonically with the extent, so the bound carries over.
        Dim::AtMost(extent) => {
            let value = i128::from(*extent).checked_add(offset).and_then(divide);
            Some(Dim::at_most(value.and_then(|value| u64::try_from(value.max(0)).ok())))
        }
        Dim::Within(upper) => {
            let most = symbolic(upper).and_then(|most| DimExpr::max_of(vec![most, DimExpr::constant(0)]));
            Some(Dim::within(most))
        }
        Dim::Unknown => Some(Dim::Unknown),
    }
}

/// Returns an extent that is at most each of these extents.
pub(crate) fn least_of(dims: &[&Dim]) -> Dim {
    let number = |dim: &Dim| if matches!(dim, Dim::Known(_) | Dim::AtMost(_)) { dim.upper() } else { None };
    let numbers = dims.iter().filter_map(|dim| number(dim)).min();
    let mut uppers: Vec<DimExpr> =
        dims.iter().filter(|dim| number(dim).is_none()).filter_map(|dim| dim.upper_expr()).collect();
    if uppers.is_empty() {
        return Dim::at_most(numbers);
    }
    uppers.extend(numbers.and_then(|number| i64::try_from(number).ok()).map(DimExpr::constant));
    let bound = DimExpr::min_of(uppers);
    if bound.is_some() { Dim::within(bound) } else { Dim::at_most(numbers) }
}

/// Returns an extent that may be as large as either of two extents.
pub(crate) fn most_of(left: &Dim, right: &Dim) -> Dim {
    match (left, right) {
        (Dim::Known(left) | Dim::AtMost(left), Dim::Known(right) | Dim::AtMost(right)) => {
            Dim::AtMost(*left.max(right))
        }
        _ => Dim::within(
            left.upper_expr().zip(right.upper_expr()).and_then(|(a, b)| DimExpr::max_of(vec![a, b])),
        ),
    }
}

/// Returns `dim / by`, rounded down.
pub(crate) fn floor_div(dim: &Dim, by: i64) -> Dim {
    floor_quotient(dim, 0, by, 0).unwrap_or(Dim::Unknown)
}

/// Returns `dim / by`, rounded up.
pub(crate) fn ceil_div(dim: &Dim, by: i64) -> Dim {
    floor_quotient(dim, i128::from(by.max(1)) - 1, by, 0).unwrap_or(Dim::Unknown)
}

/// Returns `dim * factor + offset`; `None` if it is a known negative number.
pub(crate) fn affine(dim: &Dim, factor: i64, offset: i128) -> Option<Dim> {
    let Ok(factor) = u64::try_from(factor) else { return Some(Dim::Unknown) };
    floor_quotient(&dim.mul(&Dim::Known(factor)), offset, 1, 0)
}

/// Divides `whole` equally among `parts` heads, groups or directions.
///
/// # Errors
/// Returns [`InferError::Mismatch`] if both are known and the division has a remainder.
pub(crate) fn share(what: &'static str, whole: &Dim, parts: i64) -> Result<Dim, InferError> {
    let Some(divisor) = u64::try_from(parts).ok().filter(|parts| *parts > 0) else { return Ok(Dim::Unknown) };
    match whole {
        Dim::Known(extent) if extent % divisor != 0 => {
            Err(InferError::Mismatch { what, left: extent.to_string(), right: divisor.to_string() })
        }
        _ => Ok(whole.div(&Dim::Known(divisor))),
    }
}

/// Multiplies known extents; `None` on overflow.
pub(crate) fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn n() -> DimExpr {
        DimExpr::symbol("N")
    }

    #[test]
    fn bounds_of_several_extents() {
        let (n, m, few) = (Dim::from_name("N"), Dim::from_name("M"), Dim::AtMost(4));
        assert_eq!(least_of(&[&n, &few]).to_string(), "?<=min(4,N)");
        assert_eq!(least_of(&[&Dim::Unknown, &Dim::Known(7), &few]), Dim::AtMost(4));
        assert_eq!(most_of(&n, &m).to_string(), "?<=max(M,N)");
        assert_eq!(most_of(&n, &Dim::Unknown), Dim::Unknown);
    }

    #[test]
    fn quotients_round_down_or_up() {
        let two_n = Dim::from_name("2*N+3");
        assert_eq!(floor_div(&two_n, 2).to_string(), "N+1");
        assert_eq!(ceil_div(&two_n, 2).to_string(), "N+2");
        assert_eq!(floor_div(&Dim::from_name("N"), 2).to_string(), "floor(N/2)");
        assert_eq!(ceil_div(&Dim::from_name("N"), 2).to_string(), "floor((N+1)/2)");
        assert_eq!(
            floor_quotient(&Dim::within(Some(n())), -3, 2, 1).unwrap().to_string(),
            "?<=max(1,floor((N+1)/2))-1"
        );
        assert_eq!(floor_div(&Dim::Known(7), 2), Dim::Known(3));
        assert_eq!(floor_quotient(&Dim::Known(1), -3, 2, 1), Some(Dim::Known(0)));
        assert_eq!(floor_quotient(&Dim::Known(1), -4, 2, 1), None);
        assert_eq!(floor_quotient(&Dim::Known(u64::MAX), i128::MAX, 1, 1), Some(Dim::Unknown));
    }

    #[test]
    fn extents_that_must_agree_keep_the_better_known() {
        let n = Dim::from_name("N");
        assert_eq!(agree("x", &n, &Dim::Known(3)).unwrap(), Dim::Known(3));
        assert_eq!(agree("x", &Dim::Unknown, &n).unwrap(), n);
        assert!(agree("x", &Dim::Known(2), &Dim::Known(3)).is_err());
        assert!(share("heads", &Dim::Known(7), 2).is_err());
        assert_eq!(share("heads", &Dim::from_name("4*N"), 2).unwrap().to_string(), "2*N");
    }
}
