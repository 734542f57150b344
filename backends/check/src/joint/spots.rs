//! Places of a member's tensors in the joint arenas, derived from its layout and its row in the joint file.

use std::collections::BTreeMap;

use memc_layout::joint::Member;
use memc_layout::{AliasKind, Layout, Tensor};

/// Bytes of a tensor in the arena of a space, at the steps at which it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'c> {
    pub(super) space: &'c str,
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Spot<'_> {
    /// Whether two tensors share a byte.
    pub(super) fn meets(&self, other: &Spot<'_>) -> bool {
        self.space == other.space && self.low < other.high && other.low < self.high
    }
}

/// Tensors of a layout by name, with their owners and places.
pub(super) struct Spots<'c> {
    pub(super) layout: &'c Layout,
    pub(super) named: BTreeMap<&'c str, usize>,
    /// Tensor that owns the bytes of each tensor; `None` for aliases in a cycle.
    pub(super) root: Vec<Option<usize>>,
    /// Place of each tensor; `None` for tensors outside of the arenas, and without a stated place.
    pub(super) spot: Vec<Option<Spot<'c>>>,
    /// Tensors in an arena whose place the joint file does not state, or that lie beyond 64 bits.
    pub(super) lost: Vec<usize>,
    /// Step before which each tensor that leaves its space must stay as it is.
    moved: BTreeMap<&'c str, u64>,
}

impl<'c> Spots<'c> {
    pub(super) fn of(member: &'c Member, layout: &'c Layout) -> Self {
        let rows = layout.tensors.iter().enumerate();
        let mut spots = Self {
            layout,
            named: rows.map(|(at, tensor)| (tensor.name.as_str(), at)).collect(),
            root: Vec::new(),
            spot: Vec::new(),
            lost: Vec::new(),
            moved: layout
                .transfers
                .iter()
                .map(|row| (row.tensor.as_str(), row.load_step.saturating_add(1)))
                .collect(),
        };
        spots.root = (0..layout.tensors.len()).map(|at| spots.walk(at)).collect();
        for (at, tensor) in layout.tensors.iter().enumerate() {
            let (Some(space), Some(offset)) = (tensor.space.as_deref(), tensor.offset) else {
                spots.spot.push(None);
                continue;
            };
            let low = if member.offsets.is_empty() {
                offset.checked_add(member.bases.get(space).copied().unwrap_or(0))
            } else {
                let owner = spots.root[at].map(|root| &layout.tensors[root]);
                let own = owner.and_then(|owner| Some((owner.offset?, *member.offsets.get(&owner.name)?)));
                own.and_then(|(from, to)| to.checked_add(offset.checked_sub(from)?))
            };
            let place = low.and_then(|low| Some((low, low.checked_add(tensor.bytes)?)));
            // A sub-view that moves with free dimensions may begin at any byte of its owner.
            let moves = tensor.alias.as_ref().is_some_and(|alias| alias.alias_offset_expr.is_some());
            let first = spots.root[at]
                .filter(|_| moves)
                .and_then(|root| layout.tensors[root].offset)
                .map_or(0, |own| offset - own.min(offset));
            if place.is_none() {
                spots.lost.push(at);
            }
            spots.spot.push(place.map(|(low, high)| Spot { space, low: low.saturating_sub(first), high }));
        }
        spots
    }

    fn walk(&self, mut at: usize) -> Option<usize> {
        // Links are no more than tensors: a longer walk is a cycle.
        for _ in 0..=self.layout.tensors.len() {
            match &self.layout.tensors[at].alias {
                Some(alias) => at = *self.named.get(alias.of.as_str())?,
                None => return Some(at),
            }
        }
        None
    }

    /// Number of steps.
    pub(super) fn steps(&self) -> u64 {
        self.layout.schedule.len() as u64
    }

    /// Steps at which a tensor lives.
    pub(super) fn live(&self, at: usize) -> impl Iterator<Item = (u64, u64)> {
        let tensor: &'c Tensor = &self.layout.tensors[at];
        tensor.live.iter().map(|live| (live.start, live.end))
    }

    /// Steps at which a tensor's bytes must stay in memory that others may write at any time: its live
    /// ranges, and the time of its transfer.
    pub(super) fn taken(&self, at: usize) -> impl Iterator<Item = (u64, u64)> {
        let until = self.moved.get(self.layout.tensors[at].name.as_str()).copied().unwrap_or(0);
        self.live(at).map(move |(start, end)| (start, end.max(until)))
    }

    /// Step after the last one that reads a graph input or a view of it, and whether a result is written
    /// over it.
    pub(super) fn reads(&self, input: usize) -> (u64, bool) {
        let (mut until, mut is_overwritten) = (0, false);
        for at in (0..self.root.len()).filter(|at| self.root[*at] == Some(input)) {
            let kind = self.layout.tensors[at].alias.as_ref().map(|alias| alias.kind);
            if kind == Some(AliasKind::InPlace) {
                is_overwritten = true;
            } else {
                until = self.layout.tensors[at].live.iter().map(|live| live.end).fold(until, u64::max);
            }
        }
        (until, is_overwritten)
    }
}
