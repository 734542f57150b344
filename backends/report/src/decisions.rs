//! Decisions of a plan that reduce memory: each recomputed or moved value, the bytes that it frees, and
//! its cost.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memc_layout::{AliasKind, Layout, LiveCurve, LiveRange, Owner, SpaceCurve, Transfer};
use petgraph::unionfind::UnionFind;

/// Way in which a value frees memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The value is dropped and recomputed.
    Recompute,
    /// The value is moved to another space and back.
    Transfer,
}

impl Way {
    /// Returns the word that reports use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Recompute => "recompute",
            Self::Transfer => "transfer",
        }
    }
}

/// A value that is dropped and later restored.
pub(crate) struct Decision<'a> {
    pub way: Way,
    /// Name of the dropped value.
    pub tensor: &'a str,
    /// Index of the tensor that restores it.
    pub again: usize,
    /// Space in which bytes become free.
    pub space: &'a str,
    /// Space that holds the value while it is away; `None` for a recomputation.
    pub far: Option<&'a str>,
    /// Bytes that become free. 0 if the restored tensor owns none, or if another copy of the value is
    /// live when it is restored.
    pub bytes: u64,
    /// Steps at which the bytes are free.
    pub freed: Option<LiveRange>,
    /// Step that restores the value.
    pub step: u64,
    /// Modelled time of the recomputing node, or of both copies over the link, which overlap with
    /// operators. In nanoseconds; `None` without a timeline.
    pub cost_ns: Option<u64>,
    /// Modelled time that operators wait for the load, in nanoseconds; 0 for a recomputation.
    pub waited_ns: u64,
    /// Maximum of live bytes at the freed steps.
    pub peak_there: u64,
    /// Maximum of live bytes at these steps if the value had stayed.
    pub peak_otherwise: u64,
}

/// Returns the decisions of a plan, in the order in which values are restored. O((tensors + steps) ·
/// log).
pub(crate) fn decisions<'a>(layout: &'a Layout, profile: &LiveCurve) -> Vec<Decision<'a>> {
    let spaces: Vec<Room<'_>> = profile.spaces.iter().map(Room::new).collect();
    // Map each tensor in an arena to its space and to the owner of its bytes.
    let mut owners: BTreeMap<usize, (usize, &Owner)> = BTreeMap::new();
    for (index, space) in profile.spaces.iter().enumerate() {
        for owner in &space.owners {
            owners
                .extend([owner.tensor].iter().chain(&owner.aliases).map(|tensor| (*tensor, (index, owner))));
        }
    }
    let mut all = recomputed(layout, &spaces, &owners);
    let by_name: BTreeMap<&str, usize> =
        layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
    let waits = waits(layout);
    for transfer in &layout.transfers {
        all.extend(moved(layout, transfer, &by_name, &spaces, &waits));
    }
    all.sort_by_key(|decision| (decision.step, decision.again));
    all
}

/// Live curve of a space with a table for range maximum queries.
struct Room<'a> {
    profile: &'a SpaceCurve,
    /// `most[k][s]` is the maximum over the `2^k` steps from `s` on.
    most: Vec<Vec<u64>>,
}

impl<'a> Room<'a> {
    fn new(profile: &'a SpaceCurve) -> Self {
        let mut most = vec![profile.live_bytes.clone()];
        let mut width = 1;
        while width * 2 <= profile.live_bytes.len() {
            let below = &most[most.len() - 1];
            let above = (0..=profile.live_bytes.len() - width * 2)
                .map(|step| below[step].max(below[step + width]))
                .collect();
            most.push(above);
            width *= 2;
        }
        Self { profile, most }
    }

    /// Returns the maximum of live bytes over a range of steps, or 0 for an empty range. O(1).
    fn most(&self, range: LiveRange) -> u64 {
        let steps = self.profile.live_bytes.len();
        let cut = |step: u64| usize::try_from(step).unwrap_or(steps).min(steps);
        let (start, end) = (cut(range.start), cut(range.end));
        let Some(level) = end.checked_sub(start).and_then(usize::checked_ilog2) else { return 0 };
        let row = &self.most[level as usize];
        row[start].max(row[end - (1 << level)])
    }
}

/// Groups of tensors with equal contents: tensors that are views of one another. A result written in
/// place has other contents.
struct Contents {
    /// Number of each tensor's group.
    group: Vec<usize>,
    /// Steps at which a member of a group is live, by the group's number.
    live: BTreeMap<usize, Vec<LiveRange>>,
}

impl Contents {
    fn of(layout: &Layout) -> Self {
        let by_name: BTreeMap<&str, usize> =
            layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
        let mut groups = UnionFind::new(layout.tensors.len());
        for (index, tensor) in layout.tensors.iter().enumerate() {
            let alias = tensor.alias.as_ref().filter(|alias| alias.kind == AliasKind::View);
            if let Some(of) = alias.and_then(|alias| by_name.get(alias.of.as_str())) {
                groups.union(index, *of);
            }
        }
        let group: Vec<usize> = groups.into_labeling();
        let mut live: BTreeMap<usize, Vec<LiveRange>> = BTreeMap::new();
        for (tensor, group) in layout.tensors.iter().zip(&group) {
            live.entry(*group).or_default().extend(&tensor.live);
        }
        Self { group, live }
    }

    fn live(&self, tensor: usize) -> &[LiveRange] {
        self.group.get(tensor).and_then(|group| self.live.get(group)).map_or(&[], Vec::as_slice)
    }

    /// Returns the end of the last live range that ends at or before `step`, over the tensor's group.
    fn end_before(&self, tensor: usize, step: u64) -> Option<u64> {
        self.live(tensor).iter().map(|range| range.end).filter(|end| *end <= step).max()
    }

    fn is_there(&self, tensor: usize, step: u64) -> bool {
        self.live(tensor).iter().any(|range| range.start < step && range.contains(step))
    }
}

fn recomputed<'a>(
    layout: &'a Layout,
    spaces: &[Room<'_>],
    owners: &BTreeMap<usize, (usize, &Owner)>,
) -> Vec<Decision<'a>> {
    let original = |index: usize| layout.tensors.get(index).and_then(|tensor| tensor.recompute_of.as_deref());
    // Collect all instances of each recomputed value: its copies and the value itself.
    let mut instances: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for index in 0..layout.tensors.len() {
        if let Some(name) = original(index) {
            instances.entry(name).or_default().push(index);
        }
    }
    if instances.is_empty() {
        return Vec::new();
    }
    for (index, tensor) in layout.tensors.iter().enumerate() {
        if let Some(family) = instances.get_mut(tensor.name.as_str()) {
            family.push(index);
        }
    }
    let contents = Contents::of(layout);
    let others = |again: usize| {
        let family = original(again).and_then(|name| instances.get(name)).into_iter().flatten().copied();
        family.filter(move |index| *index != again)
    };
    // Add a decision for each recomputed copy.
    let mut all: Vec<Decision<'_>> = Vec::new();
    for again in 0..layout.tensors.len() {
        let (tensor, Some(name)) = (&layout.tensors[again], original(again)) else { continue };
        let Some(step) = tensor.live.first().map(|range| range.start) else { continue };
        // Count only owners: a view restores no bytes of its own, and a result in place belongs to the
        // owner that it overwrites.
        let owned = owners.get(&again).copied().filter(|(_, owner)| owner.tensor == again);
        let freed = owned.and_then(|(_, owner)| {
            let members = || {
                std::iter::once(again)
                    .chain(owner.aliases.iter().copied())
                    .filter(|member| original(*member).is_some())
            };
            // Among values written in place, the last is the purpose of the recomputation. Earlier
            // values lead to it.
            let wanted = members()
                .max_by_key(|member| layout.tensors[*member].live.first().map(|range| range.start))?;
            if others(wanted).any(|other| contents.is_there(other, step)) {
                return None;
            }
            let start =
                members().flat_map(others).filter_map(|other| contents.end_before(other, step)).max()?;
            (start < step).then_some(LiveRange { start, end: step })
        });
        let bytes = freed.and(owned).map_or(0, |(_, owner)| owner.bytes);
        let peak_there = freed.zip(owned).map_or(0, |(range, (space, _))| spaces[space].most(range));
        all.push(Decision {
            way: Way::Recompute,
            tensor: name,
            again,
            space: tensor.space.as_deref().unwrap_or_default(),
            far: None,
            bytes,
            freed,
            step,
            cost_ns: busy(layout, step),
            waited_ns: 0,
            peak_there,
            peak_otherwise: peak_there.saturating_add(bytes),
        });
    }
    // Charge a node with several results once, to the result that frees most bytes.
    let mut paid: BTreeMap<u64, (u64, Reverse<usize>)> = BTreeMap::new();
    for decision in &all {
        let payer = paid.entry(decision.step).or_insert((0, Reverse(usize::MAX)));
        *payer = (*payer).max((decision.bytes, Reverse(decision.again)));
    }
    for decision in &mut all {
        if paid.get(&decision.step).is_some_and(|payer| payer.1.0 != decision.again) {
            decision.cost_ns = decision.cost_ns.map(|_| 0);
        }
    }
    all
}

fn moved<'a>(
    layout: &'a Layout,
    transfer: &'a Transfer,
    by_name: &BTreeMap<&str, usize>,
    spaces: &[Room<'_>],
    waits: &BTreeMap<u64, u64>,
) -> Option<Decision<'a>> {
    let again = *by_name.get(transfer.result.as_str())?;
    let room = spaces.iter().find(|room| room.profile.space == transfer.from)?;
    let start = transfer.store_step.saturating_add(1);
    let freed = (start < transfer.load_step).then_some(LiveRange { start, end: transfer.load_step });
    let bytes = if freed.is_some() { transfer.bytes } else { 0 };
    let peak_there = freed.map_or(0, |range| room.most(range));
    let cost_ns = busy(layout, transfer.store_step).zip(busy(layout, transfer.load_step));
    Some(Decision {
        way: Way::Transfer,
        tensor: &transfer.tensor,
        again,
        space: &transfer.from,
        far: Some(&transfer.to),
        bytes,
        freed,
        step: transfer.load_step,
        cost_ns: cost_ns.map(|(store, load)| store.saturating_add(load)),
        waited_ns: waits.get(&transfer.load_step).copied().unwrap_or(0),
        peak_there,
        peak_otherwise: peak_there.saturating_add(bytes),
    })
}

/// Returns the modelled time of a step in nanoseconds, or `None` without a timeline.
fn busy(layout: &Layout, step: u64) -> Option<u64> {
    layout.timeline.get(usize::try_from(step).ok()?).map(|busy| busy.ns())
}

/// Maps the step of each load to the time that the next operator waits for it, in nanoseconds.
fn waits(layout: &Layout) -> BTreeMap<u64, u64> {
    let mut loads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut links = std::collections::BTreeSet::new();
    for transfer in &layout.transfers {
        links.extend([transfer.store_step, transfer.load_step]);
        if let Some(busy) =
            usize::try_from(transfer.load_step).ok().and_then(|step| layout.timeline.get(step))
        {
            loads.insert(busy.end_ns, transfer.load_step);
        }
    }
    let mut waits = BTreeMap::new();
    let mut free = 0;
    for (step, busy) in (0u64..).zip(&layout.timeline).filter(|(step, _)| !links.contains(step)) {
        if let Some(load) = loads.get(&busy.start_ns).filter(|_| busy.start_ns > free && step > 0) {
            waits.insert(*load, busy.start_ns - free);
        }
        free = free.max(busy.end_ns);
    }
    waits
}
