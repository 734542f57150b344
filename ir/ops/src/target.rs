//! Constant operands that state extents: targets of Reshape and Expand for results with symbols.

use memc_ir::{Dim, Ranges};

/// Element of a Reshape's target that copies the operand's extent at its axis.
const COPIED: i64 = 0;
/// Element of a Reshape's target for the extent that the others leave.
const REST: i64 = -1;

/// Returns the target of a Reshape, without `allowzero`, from extents `from` to extents `to`; an operand
/// with unknown extents has no `from`. `None` if no constant gives these extents for all symbols in the
/// ranges.
///
/// An equal extent at its axis is copied. One other extent with symbols may be left over, if no other
/// extent can be zero: kernels divide by their product.
pub fn reshape_target(from: Option<&[Dim]>, to: &[Dim], ranges: &Ranges) -> Option<Vec<i64>> {
    let element = |(axis, extent): (usize, &Dim)| match extent {
        Dim::Known(extent) if *extent > 0 => i64::try_from(*extent).ok(),
        extent if extent.is_open() => None,
        extent if from.and_then(|from| from.get(axis)).is_some_and(|own| own.same(extent)) => Some(COPIED),
        Dim::Symbolic(_) => Some(REST),
        _ => None,
    };
    let target: Vec<i64> = to.iter().enumerate().map(element).collect::<Option<_>>()?;
    let rests = target.iter().filter(|element| **element == REST).count();
    let others = || to.iter().zip(&target).filter(|(_, element)| **element != REST).map(|(extent, _)| extent);
    let is_clear = rests == 0 || rests == 1 && others().all(|extent| is_positive(extent, ranges));
    is_clear.then_some(target)
}

/// Returns the target of an Expand from extents `from` to extents `to`; `None` if no constant gives these
/// extents for all symbols. An extent with symbols must be the operand's own.
pub fn expand_target(from: &[Dim], to: &[Dim]) -> Option<Vec<i64>> {
    let missing = to.len().checked_sub(from.len())?;
    let element = |(axis, extent): (usize, &Dim)| match extent {
        Dim::Known(extent) => i64::try_from(*extent).ok(),
        // An extent of 1 leaves the operand's.
        extent => axis
            .checked_sub(missing)
            .and_then(|axis| from.get(axis))
            .is_some_and(|own| own.same(extent))
            .then_some(1),
    };
    to.iter().enumerate().map(element).collect()
}

/// Returns whether an extent is at least 1 for all symbols in the ranges.
fn is_positive(extent: &Dim, ranges: &Ranges) -> bool {
    extent.expr().and_then(|expr| expr.lower_bound(ranges)).is_some_and(|least| least >= 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn dims(text: &str) -> Vec<Dim> {
        text.split(' ')
            .filter(|part| !part.is_empty())
            .map(|part| if part == "?" { Dim::Unknown } else { Dim::from_name(part) })
            .collect()
    }

    fn ranges(list: &[(&str, &str)]) -> Ranges {
        list.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect()
    }

    #[test]
    fn extents_are_stated_copied_or_left_over() {
        let all = ranges(&[("B", "1..8"), ("S", "1..512"), ("P", "0..8")]);
        let target = |from: &str, to: &str| reshape_target(Some(&dims(from)), &dims(to), &all);
        assert_eq!(target("B S 768", "B S 12 64"), Some(vec![0, 0, 12, 64]));
        assert_eq!(target("B S 768", "B*S 768"), Some(vec![-1, 768]));
        assert_eq!(target("B S 12 64", "B 12*S 64"), Some(vec![0, -1, 64]));
        assert_eq!(target("B 12 S 64", "12*B S 64"), None, "two extents left over");
        assert_eq!(target("P S 768", "P 768*S"), None, "the copied extent may be zero");
        assert_eq!(target("P S", "P S 1"), Some(vec![0, 0, 1]), "zero extents are copied");
        assert_eq!(target("B 4", "B ?"), None);
        assert_eq!(target("B 0", "B 0 3"), Some(vec![0, 0, 3]));
        assert_eq!(target("B 0", "0 B"), None, "a zero copies an extent");
        assert_eq!(target("", ""), Some(vec![]));
    }

    #[test]
    fn operands_of_unknown_shape_leave_one_extent_over() {
        let target = |to: &str| reshape_target(None, &dims(to), &Ranges::new());
        assert_eq!(target("N 3"), Some(vec![-1, 3]));
        assert_eq!([target("N M"), target("N 0")], [None, None]);
    }

    #[test]
    fn expansions_keep_extents_of_their_operand() {
        let target = |from: &str, to: &str| expand_target(&dims(from), &dims(to));
        assert_eq!(target("B 1 S", "B 4 S"), Some(vec![1, 4, 1]));
        assert_eq!(target("S", "3 S"), Some(vec![3, 1]));
        assert_eq!(target("1 S", "B S"), None, "the operand does not have the extent");
        assert_eq!(target("S", "B S"), None);
        assert_eq!(target("1 0", "0 0"), Some(vec![0, 0]));
        assert_eq!(target("B S", "S"), None);
    }
}
