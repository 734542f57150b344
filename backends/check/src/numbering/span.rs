//! Positions of an axis, whose ends may follow free dimensions.

use std::ops::Range;

use memc_ir::DimExpr;

use crate::extents::Extents;

/// Positions of an axis from `start` up to `end`, which is not included.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Span {
    pub(super) start: DimExpr,
    pub(super) end: DimExpr,
}

impl Span {
    /// Returns all positions of an axis.
    pub(super) fn whole(extent: &DimExpr) -> Self {
        Self { start: DimExpr::constant(0), end: extent.clone() }
    }
    /// Returns known positions.
    pub(super) fn fixed(range: Range<u64>) -> Self {
        let end = |end: u64| DimExpr::constant(i64::try_from(end).unwrap_or(i64::MAX));
        Self { start: end(range.start), end: end(range.end) }
    }
    /// Returns the positions from `start` on, as many as `count`.
    pub(super) fn from(start: DimExpr, count: &DimExpr, extents: &Extents) -> Option<Self> {
        let end = extents.simplified(&start.add(count)?);
        Some(Self { start: extents.simplified(&start), end })
    }
    /// Returns the positions as numbers; `None` if they follow free dimensions.
    pub(crate) fn known(&self) -> Option<Range<u64>> {
        let end = |of: &DimExpr| u64::try_from(of.as_constant()?).ok();
        Some(end(&self.start)?..end(&self.end)?)
    }
    /// Returns the number of positions.
    pub(super) fn count(&self, extents: &Extents) -> Option<DimExpr> {
        Some(extents.simplified(&self.end.sub(&self.start)?))
    }
    /// Returns the positions counted from one that is not behind them.
    pub(super) fn counted_from(&self, start: &DimExpr, extents: &Extents) -> Option<Self> {
        let from = |end: &DimExpr| Some(extents.simplified(&end.sub(start)?));
        Some(Self { start: from(&self.start)?, end: from(&self.end)? })
    }
    /// Returns these positions if they count from the first one of others.
    pub(super) fn within(&self, others: &Self, extents: &Extents) -> Option<Self> {
        let from = |end: &DimExpr| Some(extents.simplified(&end.add(&others.start)?));
        Some(Self { start: from(&self.start)?, end: from(&self.end)? })
    }
    /// Returns whether there are positions, and all are of an axis with this extent; false if that is not
    /// provable for all extents.
    pub(super) fn is_some_of(&self, extent: &DimExpr, extents: &Extents) -> bool {
        let first = self.start.add(&DimExpr::constant(1));
        first.is_some_and(|first| extents.plainly_in_order(&first, &self.end)) && self.is_of(extent, extents)
    }
    /// Returns whether all positions are of an axis with this extent; false if that is not provable.
    pub(super) fn is_of(&self, extent: &DimExpr, extents: &Extents) -> bool {
        extents.plainly_in_order(&DimExpr::constant(0), &self.start)
            && extents.plainly_in_order(&self.start, &self.end)
            && extents.plainly_in_order(&self.end, extent)
    }
    /// Returns the positions that both have: the inner `None` if there are none, the outer one if that
    /// depends on the extents, or is not provable.
    #[allow(clippy::option_option)]
    pub(super) fn common(&self, other: &Self, extents: &Extents) -> Option<Option<Self>> {
        if self == other {
            return Some(Some(self.clone()));
        }
        if extents.plainly_in_order(&self.end, &other.start)
            || extents.plainly_in_order(&other.end, &self.start)
        {
            return Some(None);
        }
        let later = |a: &DimExpr, b: &DimExpr| match extents.plainly_in_order(a, b) {
            true => Some(b.clone()),
            false => extents.plainly_in_order(b, a).then(|| a.clone()),
        };
        let earlier = |a: &DimExpr, b: &DimExpr| match extents.plainly_in_order(a, b) {
            true => Some(a.clone()),
            false => extents.plainly_in_order(b, a).then(|| b.clone()),
        };
        let found = Self { start: later(&self.start, &other.start)?, end: earlier(&self.end, &other.end)? };
        let first = found.start.add(&DimExpr::constant(1))?;
        extents.plainly_in_order(&first, &found.end).then_some(Some(found))
    }
}
