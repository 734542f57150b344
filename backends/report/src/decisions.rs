//! What a plan did to need less memory: each value that is computed again or moved, what that frees, and what it takes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memc_layout::{AliasKind, Layout, LiveCurve, LiveRange, Owner, SpaceCurve, Transfer};

/// How a value makes room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It is dropped and computed again.
    Recompute,
    /// It is moved to another space and back.
    Transfer,
}

impl Way {
    /// The word that reports use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Recompute => "recompute",
            Self::Transfer => "transfer",
        }
    }
}

/// A value that comes a second time.
pub(crate) struct Decision<'a> {
    pub way: Way,
    /// The value.
    pub tensor: &'a str,
    /// Index of the tensor that it comes back as.
    pub again: usize,
    /// Space that has room meanwhile.
    pub space: &'a str,
    /// Space that it waits in.
    pub far: Option<&'a str>,
    /// Bytes that are free meanwhile; 0 for what owns none, or comes back while it is still there (on the way to something else).
    pub bytes: u64,
    /// Steps at which they are free.
    pub freed: Option<LiveRange>,
    /// Step that brings it back.
    pub step: u64,
    /// Modelled time of that: of its node, or of both copies over the link, which run beside operators.
    pub cost_ns: Option<u64>,
    /// Modelled time that operators wait for the load; 0 for a recomputation.
    pub waited_ns: u64,
    /// Most live bytes at the freed steps.
    pub peak_there: u64,
    /// The same, had the value stayed.
    pub peak_otherwise: u64,
}

/// The decisions of a plan in the order in which values come back. O((tensors + steps) · log).
pub(crate) fn decisions<'a>(layout: &'a Layout, profile: &LiveCurve) -> Vec<Decision<'a>> {
    let spaces: Vec<Room<'_>> = profile.spaces.iter().map(Room::new).collect();
    // For each tensor in an arena, its space and the owner of its bytes.
    let mut owners: BTreeMap<usize, (usize, &Owner)> = BTreeMap::new();
    for (index, space) in profile.spaces.iter().enumerate() {
        for owner in &space.owners {
            owners.extend([owner.tensor].iter().chain(&owner.aliases).map(|tensor| (*tensor, (index, owner))));
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

/// A space whose live bytes can be asked for the most in a range.
struct Room<'a> {
    profile: &'a SpaceCurve,
    /// `most[k][s]` is the most of the `2^k` steps from `s` on.
    most: Vec<Vec<u64>>,
}

impl<'a> Room<'a> {
    fn new(profile: &'a SpaceCurve) -> Self {
        let mut most = vec![profile.live_bytes.clone()];
        let mut width = 1;
        while width * 2 <= profile.live_bytes.len() {
            let below = &most[most.len() - 1];
            let above = (0..=profile.live_bytes.len() - width * 2).map(|step| below[step].max(below[step + width])).collect();
            most.push(above);
            width *= 2;
        }
        Self { profile, most }
    }

    /// Most live bytes at the steps of a range; 0 where it has none.
    fn most(&self, range: LiveRange) -> u64 {
        let steps = self.profile.live_bytes.len();
        let cut = |step: u64| usize::try_from(step).unwrap_or(steps).min(steps);
        let (start, end) = (cut(range.start), cut(range.end));
        let Some(level) = end.checked_sub(start).and_then(usize::checked_ilog2) else { return 0 };
        let row = &self.most[level as usize];
        row[start].max(row[end - (1 << level)])
    }
}

/// What each tensor holds, as far as others hold the same: it and all views of it and of which it is one. What is written in place of it is
/// something else.
struct Contents {
    /// For each tensor a number that all with the same bytes have.
    group: Vec<usize>,
    /// Steps at which somebody of the group is live, by that number.
    live: BTreeMap<usize, Vec<LiveRange>>,
}

impl Contents {
    fn of(layout: &Layout) -> Self {
        let by_name: BTreeMap<&str, usize> =
            layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
        let mut parent: Vec<usize> = (0..layout.tensors.len()).collect();
        for (index, tensor) in layout.tensors.iter().enumerate() {
            let alias = tensor.alias.as_ref().filter(|alias| alias.kind == AliasKind::View);
            if let Some(of) = alias.and_then(|alias| by_name.get(alias.of.as_str())) {
                let (left, right) = (root(&mut parent, index), root(&mut parent, *of));
                parent[left.max(right)] = left.min(right);
            }
        }
        let group: Vec<usize> = (0..parent.len()).map(|index| root(&mut parent, index)).collect();
        let mut live: BTreeMap<usize, Vec<LiveRange>> = BTreeMap::new();
        for (tensor, group) in layout.tensors.iter().zip(&group) {
            live.entry(*group).or_default().extend(&tensor.live);
        }
        Self { group, live }
    }

    fn live(&self, tensor: usize) -> &[LiveRange] {
        self.group.get(tensor).and_then(|group| self.live.get(group)).map_or(&[], Vec::as_slice)
    }

    /// Step behind the last one before `step` at which it is there.
    fn end_before(&self, tensor: usize, step: u64) -> Option<u64> {
        self.live(tensor).iter().map(|range| range.end).filter(|end| *end <= step).max()
    }

    fn is_there(&self, tensor: usize, step: u64) -> bool {
        self.live(tensor).iter().any(|range| range.start < step && range.contains(step))
    }
}

/// The end of a chain of parents, which gets shorter.
fn root(parent: &mut [usize], mut index: usize) -> usize {
    while parent[index] != index {
        parent[index] = parent[parent[index]];
        index = parent[index];
    }
    index
}

fn recomputed<'a>(layout: &'a Layout, spaces: &[Room<'_>], owners: &BTreeMap<usize, (usize, &Owner)>) -> Vec<Decision<'a>> {
    let original = |index: usize| layout.tensors.get(index).and_then(|tensor| tensor.recompute_of.as_deref());
    // Each value that comes again, with all its copies and itself.
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
    let mut all: Vec<Decision<'_>> = Vec::new();
    for again in 0..layout.tensors.len() {
        let (tensor, Some(name)) = (&layout.tensors[again], original(again)) else { continue };
        let Some(step) = tensor.live.first().map(|range| range.start) else { continue };
        // Views bring back no bytes of their own, and what is written in place is counted with the bytes that it takes.
        let owned = owners.get(&again).copied().filter(|(_, owner)| owner.tensor == again);
        let freed = owned.and_then(|(_, owner)| {
            let members =
                || std::iter::once(again).chain(owner.aliases.iter().copied()).filter(|member| original(*member).is_some());
            // What is written in place last is what was wanted; the values before it are on the way there.
            let wanted = members().max_by_key(|member| layout.tensors[*member].live.first().map(|range| range.start))?;
            if others(wanted).any(|other| contents.is_there(other, step)) {
                return None;
            }
            let start = members().flat_map(others).filter_map(|other| contents.end_before(other, step)).max()?;
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
    // A node with several results is paid once: by the one that frees most.
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

/// Modelled time of a step.
fn busy(layout: &Layout, step: u64) -> Option<u64> {
    layout.timeline.get(usize::try_from(step).ok()?).map(|busy| busy.ns())
}

/// For each load, how long the operator waited that begins when it ends.
fn waits(layout: &Layout) -> BTreeMap<u64, u64> {
    let mut loads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut links = std::collections::BTreeSet::new();
    for transfer in &layout.transfers {
        links.extend([transfer.store_step, transfer.load_step]);
        if let Some(busy) = usize::try_from(transfer.load_step).ok().and_then(|step| layout.timeline.get(step)) {
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
