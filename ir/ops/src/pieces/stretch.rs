//! Stretches: consecutive positions of an axis, whose ends may depend on symbols.

use std::ops::Range;

use memc_ir::{Dim, DimExpr, Ranges};

/// Positions of an axis from `start` up to `end`, which is not included.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stretch {
    /// First position.
    pub start: Dim,
    /// One past the last position.
    pub end: Dim,
}

impl From<Range<u64>> for Stretch {
    fn from(range: Range<u64>) -> Self {
        Self { start: Dim::Known(range.start), end: Dim::Known(range.end) }
    }
}

impl Stretch {
    /// Returns all positions of an axis with this extent.
    pub fn whole(extent: &Dim) -> Self {
        Self { start: Dim::Known(0), end: extent.clone() }
    }
    /// Returns the positions as numbers; `None` if they depend on symbols.
    pub fn known(&self) -> Option<Range<u64>> {
        Some(self.start.known()?..self.end.known()?)
    }
    /// Number of positions.
    pub fn count(&self) -> Dim {
        self.end.sub(&self.start)
    }
    /// Returns the positions counted from `start`.
    pub fn counted_from(&self, start: &Dim) -> Self {
        Self { start: self.start.sub(start), end: self.end.sub(start) }
    }
    /// Whether there is a position for all extents of the symbols; false if this is not provable.
    pub fn has_some(&self, ranges: &Ranges) -> bool {
        match self.known() {
            Some(known) => known.start < known.end,
            None => at_least(&self.end, &self.start.add(&Dim::Known(1)), ranges),
        }
    }
    /// Returns the smallest stretch that contains both; `None` if its ends are not provable.
    pub fn hull(&self, other: &Self, ranges: &Ranges) -> Option<Self> {
        let smaller = |a: &Dim, b: &Dim| {
            if at_least(b, a, ranges) { Some(a.clone()) } else { at_least(a, b, ranges).then(|| b.clone()) }
        };
        let larger = |a: &Dim, b: &Dim| {
            if at_least(b, a, ranges) { Some(b.clone()) } else { at_least(a, b, ranges).then(|| a.clone()) }
        };
        Some(Self { start: smaller(&self.start, &other.start)?, end: larger(&self.end, &other.end)? })
    }
    /// Returns the positions that both contain; equal stretches contain all of them, even if they may be
    /// empty. The outer `None` if they depend on extents of the symbols without proof, the inner one if there
    /// are none.
    pub fn common(&self, other: &Self, ranges: &Ranges) -> Option<Option<Self>> {
        if self == other {
            return Some(Some(self.clone()));
        }
        if at_least(&self.start, &other.end, ranges) || at_least(&other.start, &self.end, ranges) {
            return Some(None);
        }
        let start = if at_least(&self.start, &other.start, ranges) { &self.start } else { &other.start };
        let end = if at_least(&other.end, &self.end, ranges) { &self.end } else { &other.end };
        let common = Self { start: start.clone(), end: end.clone() };
        let is_proven = at_least(&common.start, &self.start, ranges)
            && at_least(&self.end, &common.end, ranges)
            && at_least(&other.end, &common.end, ranges)
            && at_least(&common.start, &other.start, ranges)
            && common.has_some(ranges);
        is_proven.then_some(Some(common))
    }
    /// Simplifies both ends for symbols in these ranges.
    pub fn simplified(&self, ranges: &Ranges) -> Self {
        Self { start: self.start.simplified(ranges), end: self.end.simplified(ranges) }
    }
}

/// Whether an extent is at least another one for all extents of the symbols; false if this is not provable.
pub(super) fn at_least(large: &Dim, small: &Dim, ranges: &Ranges) -> bool {
    match (large, small) {
        (Dim::Known(large), Dim::Known(small)) => large >= small,
        _ => {
            large.same(small)
                || large.expr().zip(small.expr()).is_some_and(|(large, small)| large.at_least(&small, ranges))
        }
    }
}

/// Returns `times * dim + more`; `None` if it is not an expression, or surely negative.
pub(super) fn scaled(dim: &Dim, times: u64, more: i64) -> Option<Dim> {
    let times = DimExpr::constant(i64::try_from(times).ok()?);
    let sum = dim.expr()?.mul(&times)?.add(&DimExpr::constant(more))?;
    Some(Dim::from_expr(sum)).filter(|dim| *dim != Dim::Unknown)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stretch(start: &str, end: &str) -> Stretch {
        let dim = |text: &str| text.parse().map_or_else(|_| Dim::from_name(text), Dim::Known);
        Stretch { start: dim(start), end: dim(end) }
    }

    #[test]
    fn hulls_are_provable_or_absent() {
        let ranges = Ranges::from([("N".to_owned(), "4..9".parse().unwrap())]);
        let hull =
            |a: Stretch, b: Stretch| a.hull(&b, &ranges).map(|hull| format!("{}..{}", hull.start, hull.end));
        assert_eq!(hull(stretch("0", "N"), stretch("2", "N+1")), Some("0..N+1".to_owned()));
        assert_eq!(hull(stretch("N", "12"), stretch("2", "10")), Some("2..12".to_owned()));
        assert_eq!(hull(stretch("N", "12"), stretch("5", "12")), None);
        assert!(stretch("3", "N").has_some(&ranges) && !stretch("4", "N").has_some(&ranges));
        let common = |a: Stretch, b: Stretch| {
            a.common(&b, &ranges).map(|all| all.map(|all| format!("{}..{}", all.start, all.end)))
        };
        assert_eq!(common(stretch("0", "N"), stretch("2", "N+1")), Some(Some("2..N".to_owned())));
        assert_eq!(common(stretch("0", "N"), stretch("N", "N+1")), Some(None));
        assert_eq!(common(stretch("0", "N"), stretch("5", "12")), None);
        let third = || stretch("floor(N/16)", "floor(N/8)");
        assert_eq!(common(third(), third()), Some(Some("floor(N/16)..floor(N/8)".to_owned())));
        assert_eq!(common(third(), stretch("floor(N/8)", "N")), Some(None));
        assert_eq!(stretch("N", "2*N").counted_from(&Dim::from_name("N")), stretch("0", "N"));
    }
}
