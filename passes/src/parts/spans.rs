//! Positions of each value that each part holds: shares of an axis, and overlaps as far as later nodes
//! read.

use std::collections::BTreeMap;
use std::ops::Range;

use memc_ir::{Module, Node, Value};
use memc_ops::{Piece, Pieces, Taken};

/// Positions of each value along its axis, for each part.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    values: BTreeMap<Value, Span>,
}

/// Positions of one value.
#[derive(Clone, Debug)]
struct Span {
    /// Extent of the axis.
    extent: u64,
    /// Positions held by each part.
    parts: Vec<Range<u64>>,
}

/// Division of an axis into shares of the parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shares {
    /// This number of shares, as even as possible.
    Even(u64),
    /// Shares between these borders, which include both ends of the axis: one border more than parts.
    Between(Vec<u64>),
}

impl Shares {
    /// Returns the number of parts.
    pub fn count(&self) -> u64 {
        match self {
            Self::Even(parts) => *parts,
            Self::Between(borders) => borders.len().saturating_sub(1) as u64,
        }
    }

    /// Returns a part's share of the positions of an axis, without overlap. No share is empty if the
    /// axis has at least one position per part.
    pub fn own(&self, extent: u64, part: u64) -> Range<u64> {
        let even = |part: u64, parts: u64| (u128::from(extent) * u128::from(part) / u128::from(parts.max(1))) as u64;
        match self {
            Self::Even(parts) => even(part, *parts)..even(part + 1, *parts),
            Self::Between(borders) => {
                let at = |part: u64| borders.get(part as usize).map_or(extent, |border| (*border).min(extent));
                at(part)..at(part + 1)
            }
        }
    }

    /// Returns an upper bound of a part's share of a value, in bytes, without overlap.
    pub fn most(&self, bytes: u64) -> u64 {
        match self {
            Self::Even(parts) => bytes.div_ceil(*parts),
            Self::Between(borders) => {
                let extent = borders.last().copied().unwrap_or_default().max(1);
                let widest = borders.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
                (u128::from(bytes) * u128::from(widest)).div_ceil(u128::from(extent)) as u64
            }
        }
    }
}

impl Spans {
    /// Derives the positions that each part needs, for nodes in running order.
    ///
    /// Each part needs its own share of every value that is `needed` whole, and everything that the
    /// part's nodes read. `None` if no part needs any result of some node, or if an axis has fewer
    /// positions than parts. Linear in operands times parts.
    pub fn of(module: &Module, nodes: &[(Node, &Pieces)], shares: &Shares, needed: impl Fn(Value) -> bool) -> Option<Self> {
        let (mut spans, parts) = (Self::default(), shares.count());
        for (node, pieces) in nodes.iter().rev() {
            let data = module.node(*node);
            for (value, piece) in data.outputs.iter().zip(&pieces.results) {
                if let Some((value, Piece::Along(axis))) = value.zip(Some(*piece)).filter(|(value, _)| needed(*value)) {
                    let extent = extent(module, value, axis).filter(|extent| *extent >= parts)?;
                    spans.add(value, extent, (0..parts).map(|part| shares.own(extent, part)).collect());
                }
            }
            let results: Vec<Value> = data.results().collect();
            let made = results.iter().filter_map(|value| spans.values.get(value).cloned()).reduce(Span::hull)?;
            spans.values.extend(results.into_iter().map(|value| (value, made.clone())));
            for (index, (value, piece)) in data.inputs.iter().zip(&pieces.operands).enumerate() {
                if let (Some(value), Piece::Along(axis)) = (value, piece) {
                    let read = made.parts.iter().map(|wanted| read(pieces, index, wanted)).collect();
                    spans.add(*value, extent(module, *value, *axis)?, read);
                }
            }
        }
        Some(spans)
    }

    /// Returns the positions of a value that a part holds, or reads of a whole value.
    pub fn span(&self, value: Value, part: u64) -> Option<Range<u64>> {
        self.values.get(&value)?.parts.get(usize::try_from(part).ok()?).cloned()
    }

    /// Returns two fractions of a value: the largest share of one part, and the sum of all parts'
    /// shares, which exceeds 1 with overlap.
    pub fn shares(&self, value: Value) -> Option<(f64, f64)> {
        let Span { extent, parts } = self.values.get(&value)?;
        let counts = || parts.iter().map(|span| span.end - span.start);
        let part = |count: u64| count as f64 / (*extent).max(1) as f64;
        Some((part(counts().max()?), part(counts().sum())))
    }

    fn add(&mut self, value: Value, extent: u64, parts: Vec<Range<u64>>) {
        let more = Span { extent, parts };
        let all = match self.values.remove(&value) {
            Some(known) => known.hull(more),
            None => more,
        };
        self.values.insert(value, all);
    }
}

impl Span {
    /// Returns, for each part, the smallest range that contains both ranges.
    fn hull(self, other: Self) -> Self {
        let hull = |(left, right): (Range<u64>, Range<u64>)| left.start.min(right.start)..left.end.max(right.end);
        Self { parts: self.parts.into_iter().zip(other.parts).map(hull).collect(), ..self }
    }
}

/// Returns the operand range, the result range and the pads of a part's node, if its windows reach
/// beyond the wanted positions; else `None`.
pub fn taken(pieces: &Pieces, wanted: &Range<u64>) -> Option<Taken> {
    pieces.reach.as_ref().map(|reach| reach.of(wanted.clone()))
}

/// Returns the positions of a divided operand that a node reads for the wanted positions of its result.
pub fn read(pieces: &Pieces, operand: usize, wanted: &Range<u64>) -> Range<u64> {
    taken(pieces, wanted).filter(|_| operand == 0).map_or(wanted.clone(), |taken| taken.operand)
}

fn extent(module: &Module, value: Value, axis: usize) -> Option<u64> {
    module.ty(value).tensor()?.shape.as_ref()?.get(axis)?.known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_or_end_at_borders() {
        let even = Shares::Even(3);
        assert_eq!((0..3).map(|part| even.own(10, part)).collect::<Vec<_>>(), [0..3, 3..6, 6..10]);
        assert_eq!((even.count(), even.most(10)), (3, 4));
        let between = Shares::Between(vec![0, 2, 9, 10]);
        assert_eq!((0..3).map(|part| between.own(10, part)).collect::<Vec<_>>(), [0..2, 2..9, 9..10]);
        assert_eq!((between.count(), between.most(100)), (3, 70));
    }
}
