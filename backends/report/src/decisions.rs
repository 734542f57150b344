//! What a plan did to need less memory: each value that is computed again or moved, what that frees, and what it takes.

use std::collections::BTreeMap;

use memc_layout::{Layout, LiveRange, Owner, Profile, SpaceProfile, Transfer};

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
pub(crate) fn decisions<'a>(layout: &'a Layout, profile: &Profile) -> Vec<Decision<'a>> {
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
    profile: &'a SpaceProfile,
    /// `most[k][s]` is the most of the `2^k` steps from `s` on.
    most: Vec<Vec<u64>>,
}

impl<'a> Room<'a> {
    fn new(profile: &'a SpaceProfile) -> Self {
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

fn recomputed<'a>(layout: &'a Layout, spaces: &[Room<'_>], owners: &BTreeMap<usize, (usize, &Owner)>) -> Vec<Decision<'a>> {
    // The value and its copies, by the name of the first one.
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, tensor) in layout.tensors.iter().enumerate() {
        if let Some(original) = &tensor.recompute_of {
            families.entry(original).or_default().push(index);
        }
    }
    let mut instances: BTreeMap<&str, Vec<usize>> = families.clone();
    for (index, tensor) in layout.tensors.iter().enumerate() {
        if let Some(family) = instances.get_mut(tensor.name.as_str()) {
            family.push(index);
        }
    }
    let mut all = Vec::new();
    // A node with several results is paid once.
    let mut paid: BTreeMap<u64, usize> = BTreeMap::new();
    for (original, copies) in families {
        for again in copies {
            let Some(step) = layout.tensors[again].live.first().map(|range| range.start) else { continue };
            // A view brings back no bytes of its own.
            let owned = owners.get(&again).copied().filter(|(_, owner)| owner.tensor == again);
            let others = || {
                instances
                    .get(original)
                    .into_iter()
                    .flatten()
                    .filter(|index| **index != again)
                    .filter_map(|index| owners.get(index))
            };
            // Where another copy is there, nothing was dropped: this one is on the way to something else.
            let is_there = others().any(|(_, owner)| owner.is_live(step));
            let before = others().map(|(_, owner)| owner.end()).filter(|end| *end < step).max();
            let freed = before.filter(|_| owned.is_some() && !is_there).map(|start| LiveRange { start, end: step });
            let bytes = freed.and(owned).map_or(0, |(_, owner)| owner.bytes);
            let peak_there = freed.zip(owned).map_or(0, |(range, (space, _))| spaces[space].most(range));
            let first = *paid.entry(step).or_insert(again) == again;
            all.push(Decision {
                way: Way::Recompute,
                tensor: original,
                again,
                space: layout.tensors[again].space.as_deref().unwrap_or_default(),
                far: None,
                bytes,
                freed,
                step,
                cost_ns: busy(layout, step).map(|ns| if first { ns } else { 0 }),
                waited_ns: 0,
                peak_there,
                peak_otherwise: peak_there.saturating_add(bytes),
            });
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
