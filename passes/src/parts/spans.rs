//! Positions of each value that each part holds: shares of an axis, and overlaps as far as later nodes
//! read.

use std::collections::BTreeMap;

use memc_ir::{Dim, DimExpr, Domain, Module, Node, Ranges, Value};
use memc_ops::{Piece, Pieces, Profile, Stretch, Taken};

use super::takes_nothing;

/// Shares of an axis with a symbol end at multiples of at most this number, so that windows with strides
/// and upscaling keep whole positions.
const GRANULE: u64 = 8;

/// Positions of each value along its axis, for each part.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    values: BTreeMap<Value, Span>,
}

/// Positions of one value.
#[derive(Clone, Debug)]
struct Span {
    /// Largest share of one part, and the sum of all parts' shares, as fractions of the axis. With symbols,
    /// at the largest extents.
    fractions: (f64, f64),
    /// Positions held by each part.
    parts: Vec<Stretch>,
}

/// Division of an axis into shares of the parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shares {
    /// This number of shares, as even as possible.
    Even(u64),
    /// Shares between these borders, which include both ends of the axis: one border more than parts.
    Between(Vec<u64>),
    /// This number of shares of an extent over symbols, as even as possible. The shares of an axis whose
    /// extent is a multiple of it are the multiples of these shares.
    Of {
        /// The extent.
        extent: DimExpr,
        /// Number of shares.
        parts: u64,
    },
}

impl Shares {
    /// Returns the number of parts.
    pub fn count(&self) -> u64 {
        match self {
            Self::Even(parts) | Self::Of { parts, .. } => *parts,
            Self::Between(borders) => borders.len().saturating_sub(1) as u64,
        }
    }

    /// Returns a part's share of the positions of an axis, without overlap. `None` if an axis of known extent
    /// has fewer positions than parts, or is no multiple of the extent that is shared. With symbols, shares
    /// are empty at extents that have fewer positions.
    pub fn own(&self, extent: &Dim, part: u64, ranges: &Ranges) -> Option<Stretch> {
        match (self, extent) {
            (Self::Even(parts), Dim::Known(extent)) => {
                let even =
                    |part: u64| (u128::from(*extent) * u128::from(part) / u128::from((*parts).max(1))) as u64;
                (extent >= parts).then(|| (even(part)..even(part + 1)).into())
            }
            (Self::Even(parts), _) => {
                let granule = granule(extent, *parts, ranges)?;
                let border = |part: u64| match part {
                    0 => Some(Dim::Known(0)),
                    part if part == *parts => Some(extent.clone()),
                    part => {
                        let of = |number: u64| i64::try_from(number).ok().map(DimExpr::constant);
                        let all =
                            extent.expr()?.mul(&of(part)?)?.floor_div(&of(granule.checked_mul(*parts)?)?)?;
                        Some(Dim::from_expr(all.mul(&of(granule)?)?.simplified(ranges)))
                    }
                };
                Some(Stretch { start: border(part)?, end: border(part + 1)? })
            }
            (Self::Of { extent: of, parts }, _) => {
                let times = extent.expr()?.div_exact(of)?;
                let border = |part: u64| {
                    let number = |number: u64| i64::try_from(number).ok().map(DimExpr::constant);
                    let share = of.mul(&number(part)?)?.floor_div(&number(*parts)?)?;
                    Some(Dim::from_expr(share.mul(&times)?.simplified(ranges)))
                };
                let end = if part + 1 == *parts { Some(extent.clone()) } else { border(part + 1) };
                Some(Stretch { start: border(part)?, end: end? })
            }
            (Self::Between(borders), _) => {
                let extent = extent.known()?;
                let at =
                    |part: u64| borders.get(part as usize).map_or(extent, |border| (*border).min(extent));
                Some((at(part)..at(part + 1)).into())
            }
        }
    }

    /// Returns an upper bound of a part's share of a value, in bytes, without overlap.
    pub fn most(&self, bytes: u64) -> u64 {
        match self {
            Self::Even(parts) | Self::Of { parts, .. } => bytes.div_ceil(*parts),
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
    /// part's nodes read. `None` if no part needs any result of some node, or if a part may be empty at some
    /// extents and the kernel of one of its nodes does not take empty tensors. Linear in operands times
    /// parts.
    pub fn of(
        module: &Module,
        profile: &Profile,
        nodes: &[(Node, &Pieces)],
        shares: &Shares,
        needed: impl Fn(Value) -> bool,
    ) -> Option<Self> {
        let (mut spans, parts, domain) = (Self::default(), shares.count(), module.domain());
        let ranges = &domain.ranges;
        for (node, pieces) in nodes.iter().rev() {
            let data = module.node(*node);
            for (value, piece) in data.outputs.iter().zip(&pieces.results) {
                if let Some((value, Piece::Along(axis))) =
                    value.zip(Some(*piece)).filter(|(value, _)| needed(*value))
                {
                    let extent = extent(module, value, axis)?;
                    let own =
                        (0..parts).map(|part| shares.own(extent, part, ranges)).collect::<Option<_>>()?;
                    spans.add(value, extent, own, domain)?;
                }
            }
            let results: Vec<Value> = data.results().collect();
            let held = results.iter().filter_map(|value| Some(spans.values.get(value)?.parts.clone()));
            let made = held.map(Some).reduce(|left, right| hulls(&left?, &right?, ranges))??;
            (takes_nothing(module, profile, *node, pieces)
                || made.iter().all(|wanted| wanted.has_some(ranges)))
            .then_some(())?;
            for (value, piece) in data.outputs.iter().zip(&pieces.results) {
                if let Some((value, axis)) = value.zip(piece.axis()) {
                    spans.put(value, extent(module, value, axis)?, made.clone(), domain)?;
                }
            }
            let reaching = Reaching::of(module, *node, pieces);
            for (index, (value, piece)) in data.inputs.iter().zip(&pieces.operands).enumerate() {
                if let (Some(value), Piece::Along(axis)) = (value, piece) {
                    let read =
                        made.iter().map(|wanted| reaching.read(index, wanted)).collect::<Option<_>>()?;
                    spans.add(*value, extent(module, *value, *axis)?, read, domain)?;
                }
            }
        }
        Some(spans)
    }

    /// Returns the positions of a value that a part holds, or reads of a whole value.
    pub fn span(&self, value: Value, part: u64) -> Option<Stretch> {
        self.values.get(&value)?.parts.get(usize::try_from(part).ok()?).cloned()
    }

    /// Returns two fractions of a value: the largest share of one part, and the sum of all parts'
    /// shares, which exceeds 1 with overlap.
    pub fn shares(&self, value: Value) -> Option<(f64, f64)> {
        self.values.get(&value).map(|span| span.fractions)
    }

    /// Adds positions to those that the parts hold. `None` if it is not provable which lie first.
    fn add(&mut self, value: Value, extent: &Dim, parts: Vec<Stretch>, domain: &Domain) -> Option<()> {
        let all = match self.values.remove(&value) {
            Some(known) => hulls(&known.parts, &parts, &domain.ranges)?,
            None => parts,
        };
        self.put(value, extent, all, domain)
    }

    fn put(&mut self, value: Value, extent: &Dim, parts: Vec<Stretch>, domain: &Domain) -> Option<()> {
        let most = |dim: &Dim| match dim {
            Dim::Known(extent) => Some(*extent),
            _ => domain.most(&dim.expr()?).and_then(|most| u64::try_from(most).ok()),
        };
        let counts = parts.iter().map(|part| most(&part.count())).collect::<Option<Vec<u64>>>()?;
        let part = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let of = most(extent)?;
        let fractions = (part(counts.iter().copied().max()?, of), part(counts.iter().sum(), of));
        self.values.insert(value, Span { fractions, parts });
        Some(())
    }
}

/// Returns, for each part, the smallest stretch that contains both stretches.
fn hulls(left: &[Stretch], right: &[Stretch], ranges: &Ranges) -> Option<Vec<Stretch>> {
    left.iter().zip(right).map(|(left, right)| left.hull(right, ranges)).collect()
}

/// Returns the number of which the borders between shares are multiples: the largest power of two up to
/// [`GRANULE`] that divides the extent, and leaves no share empty and all shares about equal; 1 if some
/// share may be empty in any case. `None` for an extent without an upper bound.
fn granule(extent: &Dim, parts: u64, ranges: &Ranges) -> Option<u64> {
    let extent = extent.expr()?;
    let bounds = extent.bounds(ranges);
    let (min, max) = (u64::try_from(bounds.min?).ok()?, u64::try_from(bounds.max?).ok()?);
    let fits = |granule: &u64| {
        let least = parts.saturating_mul(*granule);
        min >= least && max >= least.saturating_mul(GRANULE) && extent.is_multiple_of(*granule, ranges)
    };
    Some((1..=GRANULE.ilog2()).rev().map(|power| 1 << power).find(fits).unwrap_or(1))
}

/// How a node's windows reach beyond the wanted positions of its result.
pub(super) struct Reaching<'m> {
    pieces: &'m Pieces,
    /// Extents of operand 0 and of result 0 along the axis, if windows reach.
    extents: Option<(Dim, Dim)>,
    ranges: &'m Ranges,
}

impl<'m> Reaching<'m> {
    pub(super) fn of(module: &'m Module, node: Node, pieces: &'m Pieces) -> Self {
        let data = module.node(node);
        let along = |values: &[Option<Value>], pieces: &[Piece]| {
            let (value, axis) = values.first().copied().flatten().zip(pieces.first()?.axis())?;
            extent(module, value, axis).cloned()
        };
        let extents = along(&data.inputs, &pieces.operands).zip(along(&data.outputs, &pieces.results));
        Self { pieces, extents: extents.filter(|_| pieces.reach.is_some()), ranges: &module.domain().ranges }
    }

    /// Returns the operand positions, the result positions and the pads of a part's node, if its windows
    /// reach beyond the wanted positions; else `None`.
    pub(super) fn taken(&self, wanted: &Stretch) -> Option<Taken> {
        let (reach, (operand, result)) = self.pieces.reach.as_ref().zip(self.extents.as_ref())?;
        reach.of(wanted, operand, result, self.ranges)
    }

    /// Returns the positions of a divided operand that a node reads for the wanted positions of its
    /// result; `None` if they are not provable.
    pub(super) fn read(&self, operand: usize, wanted: &Stretch) -> Option<Stretch> {
        if operand > 0 || self.pieces.reach.is_none() {
            return Some(wanted.clone());
        }
        self.taken(wanted).map(|taken| taken.operand)
    }
}

fn extent(module: &Module, value: Value, axis: usize) -> Option<&Dim> {
    module.ty(value).tensor()?.shape.as_ref()?.get(axis)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shares_are_even_or_end_at_borders() {
        let even = Shares::Even(3);
        let own = |shares: &Shares| -> Vec<_> {
            (0..3)
                .map(|part| shares.own(&Dim::Known(10), part, &Ranges::new()).unwrap().known().unwrap())
                .collect()
        };
        assert_eq!(own(&even), [0..3, 3..6, 6..10]);
        assert_eq!((even.count(), even.most(10)), (3, 4));
        let between = Shares::Between(vec![0, 2, 9, 10]);
        assert_eq!(own(&between), [0..2, 2..9, 9..10]);
        assert_eq!((between.count(), between.most(100)), (3, 70));
        assert_eq!(Shares::Even(11).own(&Dim::Known(10), 0, &Ranges::new()), None);
    }

    #[test]
    fn shares_of_symbols_cover_the_axis_and_are_empty_only_if_it_is_short() {
        let ranges = Ranges::from([
            ("H".to_owned(), "32..960/32".parse().unwrap()),
            ("N".to_owned(), "5..77".parse().unwrap()),
        ]);
        for (text, name) in
            [("H", "H"), ("floor(H/2)", "H"), ("3*N", "N"), ("N", "N"), ("floor((N-1)/2)+1", "N")]
        {
            let extent = Dim::from_name(text);
            for parts in 2..7 {
                let shares = Shares::Even(parts);
                let all: Vec<Stretch> =
                    (0..parts).map(|part| shares.own(&extent, part, &ranges).unwrap()).collect();
                for n in (1..=960).filter(|n| ranges[name].contains(*n)) {
                    let point = BTreeMap::from([(name.to_owned(), n)]);
                    let at = |dim: &Dim| dim.bind(&point).known().unwrap();
                    let mut next = 0;
                    for share in &all {
                        assert_eq!(at(&share.start), next, "{text} in {parts} at {n}");
                        next = at(&share.end);
                        assert!(
                            at(&share.start) < next || at(&extent) < parts,
                            "{text} in {parts} at {n}: an empty share"
                        );
                    }
                    assert_eq!(next, at(&extent));
                }
            }
        }
        assert_eq!(
            Shares::Even(4).own(&Dim::from_name("N"), 1, &ranges).unwrap().start.to_string(),
            "floor(N/4)"
        );
        assert_eq!(
            Shares::Even(6).own(&Dim::from_name("N"), 1, &ranges).unwrap().start.to_string(),
            "floor(N/6)"
        );
    }

    #[test]
    fn shares_of_multiples_cover_every_axis_at_every_extent() {
        let ranges = Ranges::from([
            ("N".to_owned(), "0..9".parse().unwrap()),
            ("S".to_owned(), "1..5".parse().unwrap()),
        ]);
        for parts in 2..7 {
            let shares = Shares::Of { extent: DimExpr::symbol("N"), parts };
            assert_eq!(shares.own(&Dim::from_name("N+1"), 0, &ranges), None);
            assert_eq!(shares.own(&Dim::from_name("S"), 0, &ranges), None);
            for (text, times) in [("N", 1), ("12*N", 12), ("N*S", 3)] {
                let all: Vec<Stretch> = (0..parts)
                    .map(|part| shares.own(&Dim::from_name(text), part, &ranges).unwrap())
                    .collect();
                for n in 0..=9 {
                    let point = BTreeMap::from([("N".to_owned(), n), ("S".to_owned(), 3)]);
                    let at = |dim: &Dim| dim.bind(&point).known().unwrap();
                    let mut next = 0;
                    for (part, share) in (0..).zip(&all) {
                        assert_eq!(
                            (at(&share.start), at(&share.start)),
                            (next, times * (n * part / parts)),
                            "{text}"
                        );
                        next = at(&share.end);
                    }
                    assert_eq!(next, times * n, "{text} in {parts}");
                }
            }
        }
    }
}
