//! Checks overlaps: sweeps over the steps with the set of bytes in use.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use memc_layout::AliasKind;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};

/// Bytes of a tensor in its arena during one live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    tensor: usize,
    start: u64,
    end: u64,
    low: u64,
    high: u64,
}

/// Extents in use, grouped into size classes. Sizes within a class differ by less than a factor of two.
/// A range of offsets, widened by the largest size of the class, contains all overlapping extents and
/// few others.
#[derive(Default, Debug)]
struct InUse {
    classes: BTreeMap<u32, BTreeSet<(u64, usize)>>,
}

impl InUse {
    fn class(extent: &Extent) -> u32 {
        (extent.high - extent.low).max(1).ilog2()
    }
    fn insert(&mut self, extent: &Extent, id: usize) {
        self.classes.entry(Self::class(extent)).or_default().insert((extent.low, id));
    }
    fn remove(&mut self, extent: &Extent, id: usize) {
        let class = Self::class(extent);
        if let Some(extents) = self.classes.get_mut(&class) {
            extents.remove(&(extent.low, id));
            if extents.is_empty() {
                self.classes.remove(&class);
            }
        }
    }
    /// Returns every extent that may overlap `low..high`: it begins below `high`, and at most the
    /// class's largest size below `low`.
    fn near(&self, low: u64, high: u64) -> impl Iterator<Item = usize> {
        self.classes.iter().flat_map(move |(class, extents)| {
            let reach = 1u64.checked_shl(class + 1).unwrap_or(u64::MAX);
            extents.range((low.saturating_sub(reach), 0)..(high, 0)).map(|(_, id)| *id)
        })
    }
}

/// Checks that tensors live at one step share bytes only as an alias allows. O(n log n) if no tensors
/// overlap.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut spaces: BTreeMap<&str, Vec<Extent>> = BTreeMap::new();
    for (index, tensor) in ctx.layout.tensors.iter().enumerate() {
        let (Some(space), Some((low, high))) = (tensor.space.as_deref(), ctx.span(index)) else { continue };
        if low < high {
            let extents = ctx.live[index].iter().map(|(start, end)| Extent {
                tensor: index,
                start: *start,
                end: *end,
                low,
                high,
            });
            spaces.entry(space).or_default().extend(extents);
        }
    }
    for (space, mut extents) in spaces {
        extents.sort_by_key(|extent| (extent.start, extent.low, extent.tensor));
        sweep(&extents, |a, b| {
            // Sub-views of one owner that move may be apart at all extents.
            if !related(ctx, a, b) && ctx.bytes_meet(a.tensor, b.tensor) {
                overlap(ctx, space, a, b, findings);
            }
            !findings.full()
        });
    }
}

/// Calls `found` for every two extents that share a byte at a step, until `found` returns false. The
/// later extent is the first argument.
fn sweep(extents: &[Extent], mut found: impl FnMut(&Extent, &Extent) -> bool) {
    let mut in_use = InUse::default();
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (id, extent) in extents.iter().enumerate() {
        while let Some(Reverse((end, gone))) = ends.peek().copied()
            && end <= extent.start
        {
            ends.pop();
            in_use.remove(&extents[gone], gone);
        }
        for other in in_use.near(extent.low, extent.high) {
            if extents[other].high > extent.low && !found(extent, &extents[other]) {
                return;
            }
        }
        in_use.insert(extent, id);
        ends.push(Reverse((extent.end, id)));
    }
}

/// Whether two extents may share bytes: views of one value, or a result over its operand at the
/// overwriting step only.
fn related(ctx: &Ctx<'_>, a: &Extent, b: &Extent) -> bool {
    if ctx.group[a.tensor] == ctx.group[b.tensor] && a.tensor != b.tensor {
        return true;
    }
    let together = (a.start.max(b.start), a.end.min(b.end));
    [(a, b), (b, a)].into_iter().any(|(over, under)| {
        let in_place =
            ctx.tensor(over.tensor).alias.as_ref().is_some_and(|alias| alias.kind == AliasKind::InPlace);
        let over_it = ctx.target[over.tensor].is_some_and(|of| ctx.group[of] == ctx.group[under.tensor]);
        let step = ctx.value_of[over.tensor].and_then(|value| ctx.produced_at(value)).map(|step| step as u64);
        in_place && over_it && step.is_some_and(|step| together == (step, step + 1))
    })
}

fn overlap(ctx: &Ctx<'_>, space: &str, a: &Extent, b: &Extent, findings: &mut Findings) {
    let (one, other) = (&ctx.tensor(a.tensor).name, &ctx.tensor(b.tensor).name);
    let (start, end) = (a.start.max(b.start), a.end.min(b.end));
    let message = format!(
        "{space}: `{one}` at [{},{}) and `{other}` at [{},{}) are both live at steps [{start},{end})",
        a.low, a.high, b.low, b.high
    );
    findings.add(Kind::Overlap, At::node(start as usize, ctx.node_at(start as usize)).of(one), message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        let extent = (0u64..20, 1u64..6, 0u64..60, 1u64..40);
        proptest::collection::vec(extent, 0..30).prop_map(|all| {
            let mut extents: Vec<Extent> = all
                .into_iter()
                .enumerate()
                .map(|(tensor, (start, steps, low, bytes))| Extent {
                    tensor,
                    start,
                    end: start + steps,
                    low,
                    high: low + bytes,
                })
                .collect();
            extents.sort_by_key(|extent| (extent.start, extent.low, extent.tensor));
            extents
        })
    }

    proptest! {
        #[test]
        fn the_sweep_finds_all_overlaps_of_a_pairwise_comparison(extents in extents()) {
            let mut swept = BTreeSet::new();
            sweep(&extents, |a, b| {
                swept.insert((a.tensor.min(b.tensor), a.tensor.max(b.tensor)));
                true
            });
            let mut compared = BTreeSet::new();
            for a in &extents {
                for b in &extents {
                    let meet = a.start < b.end && b.start < a.end && a.low < b.high && b.low < a.high;
                    if a.tensor < b.tensor && meet {
                        compared.insert((a.tensor, b.tensor));
                    }
                }
            }
            prop_assert_eq!(swept, compared);
        }
    }
}
