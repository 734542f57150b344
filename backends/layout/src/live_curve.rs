//! Live curve: bytes live at each step and their owners, derived from a layout's live ranges.
//!
//! The layout is the only source, by the rules of its contract: an owner counts in full while it or any
//! of its aliases is live. The layout is not trusted: cycles of aliases and unknown names are left out,
//! and steps beyond the schedule are cut.

use std::collections::BTreeMap;

use crate::types::{Class, Layout, LiveRange, Tensor};

/// Live bytes of every space of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCurve {
    /// One entry for each space of the target, in the target's order, then by name for other spaces
    /// that hold a tensor.
    pub spaces: Vec<SpaceCurve>,
}

/// Live bytes of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceCurve {
    /// Name of the space.
    pub space: String,
    /// Bytes of the live owners, by step.
    pub live_bytes: Vec<u64>,
    /// Maximum of `live_bytes`; 0 for a layout without steps.
    pub peak: u64,
    /// First step with the peak.
    pub peak_step: u64,
    /// Tensors of the space that own bytes, in the layout's order.
    pub owners: Vec<Owner>,
}

/// A tensor that owns bytes, with all aliases of these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Index of the tensor in the layout.
    pub tensor: usize,
    /// Indices of its aliases, including aliases of aliases, in the layout's order.
    pub aliases: Vec<usize>,
    /// First byte in the arena.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Steps at which the owner or an alias is live: disjoint, ascending, within the schedule.
    pub live: Vec<LiveRange>,
    /// Step of the node that computes the tensor or uses the workspace; `None` for a tensor from the
    /// caller.
    pub producer: Option<u64>,
}

impl Owner {
    /// Returns the first live step, or 0 for an owner that is never live.
    pub fn start(&self) -> u64 {
        self.live.first().map_or(0, |range| range.start)
    }

    /// Returns the step after the last live step, or 0 for an owner that is never live.
    pub fn end(&self) -> u64 {
        self.live.last().map_or(0, |range| range.end)
    }

    /// Whether the owner or an alias is live at a step.
    pub fn is_live(&self, step: u64) -> bool {
        self.live.iter().any(|range| range.contains(step))
    }
}

impl LiveCurve {
    /// Derives the live curve of a layout, in time O(tensors · log tensors + spaces · steps).
    pub fn of(layout: &Layout) -> LiveCurve {
        let roots = roots(&layout.tensors);
        let mut families: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, root) in roots.iter().enumerate() {
            if let Some(root) = root {
                families.entry(*root).or_default().push(index);
            }
        }
        let mut by_space: BTreeMap<&str, Vec<Owner>> = BTreeMap::new();
        for (root, members) in families {
            let tensor = &layout.tensors[root];
            if let (Some(space), Some(offset)) = (&tensor.space, tensor.offset) {
                by_space.entry(space).or_default().push(owner(layout, root, offset, &members));
            }
        }
        let mut spaces = Vec::new();
        for space in &layout.target.spaces {
            if !spaces.iter().any(|known: &SpaceCurve| known.space == space.name) {
                let owners = by_space.remove(space.name.as_str()).unwrap_or_default();
                spaces.push(SpaceCurve::new(&space.name, owners, layout.schedule.len()));
            }
        }
        spaces.extend(
            by_space.into_iter().map(|(name, owners)| SpaceCurve::new(name, owners, layout.schedule.len())),
        );
        LiveCurve { spaces }
    }

    /// Returns the live curve of a space by name.
    pub fn space(&self, name: &str) -> Option<&SpaceCurve> {
        self.spaces.iter().find(|space| space.space == name)
    }
}

impl SpaceCurve {
    fn new(space: &str, owners: Vec<Owner>, steps: usize) -> SpaceCurve {
        let live_bytes = sums(&owners, steps);
        let peak = live_bytes.iter().copied().max().unwrap_or(0);
        let peak_step = live_bytes.iter().position(|&bytes| bytes == peak).unwrap_or(0) as u64;
        SpaceCurve { space: space.to_owned(), live_bytes, peak, peak_step, owners }
    }

    /// Returns the owners live at a step: largest first, then by offset.
    pub fn alive_at(&self, step: u64) -> Vec<&Owner> {
        let mut alive: Vec<&Owner> = self.owners.iter().filter(|owner| owner.is_live(step)).collect();
        alive.sort_by_key(|owner| (std::cmp::Reverse(owner.bytes), owner.offset, owner.tensor));
        alive
    }
}

fn owner(layout: &Layout, root: usize, offset: u64, members: &[usize]) -> Owner {
    let tensor = &layout.tensors[root];
    let ranges = members.iter().flat_map(|&member| &layout.tensors[member].live).copied();
    Owner {
        tensor: root,
        aliases: members.iter().copied().filter(|&member| member != root).collect(),
        offset,
        bytes: tensor.bytes,
        live: merged(ranges.collect(), layout.schedule.len() as u64),
        producer: match tensor.class {
            Class::Scratch => tensor.step,
            Class::Transient | Class::Output => tensor.live.first().map(|range| range.start),
            Class::Constant | Class::Input | Class::State => None,
        },
    }
}

/// Returns the owner of each tensor's bytes: the tensor itself, or the end of its chain of aliases.
/// `None` if the chain breaks or runs in a cycle.
fn roots(tensors: &[Tensor]) -> Vec<Option<usize>> {
    let by_name: BTreeMap<&str, usize> =
        tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
    let next: Vec<Option<usize>> = tensors
        .iter()
        .enumerate()
        .map(|(index, tensor)| match &tensor.alias {
            Some(alias) => by_name.get(alias.of.as_str()).copied(),
            None => Some(index),
        })
        .collect();
    let mut found: Vec<Option<Option<usize>>> = vec![None; tensors.len()];
    for start in 0..tensors.len() {
        let mut path = Vec::new();
        let mut at = start;
        let root = loop {
            if let Some(known) = found[at] {
                break known;
            }
            // Mark the tensor as cyclic until the end of its chain is known: reaching it again means a
            // cycle.
            found[at] = Some(None);
            path.push(at);
            match next[at] {
                Some(own) if own == at && tensors[at].alias.is_none() => break Some(at),
                Some(following) => at = following,
                None => break None,
            }
        };
        for index in path {
            found[index] = Some(root);
        }
    }
    found.into_iter().map(Option::flatten).collect()
}

/// Returns the union of ranges, cut at the end of the schedule, as disjoint ranges in ascending order.
fn merged(mut ranges: Vec<LiveRange>, steps: u64) -> Vec<LiveRange> {
    ranges.sort_unstable();
    let mut union: Vec<LiveRange> = Vec::new();
    for LiveRange { start, end } in ranges {
        let end = end.min(steps);
        if start >= end {
            continue;
        }
        match union.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => union.push(LiveRange { start, end }),
        }
    }
    union
}

/// Returns the bytes live at each step. Sums saturate at `u64::MAX`.
fn sums(owners: &[Owner], steps: usize) -> Vec<u64> {
    let mut change = vec![0_i128; steps + 1];
    for owner in owners {
        for range in &owner.live {
            // In bounds: live ranges were cut at the number of steps.
            change[range.start as usize] += i128::from(owner.bytes);
            change[range.end as usize] -= i128::from(owner.bytes);
        }
    }
    let mut now = 0_i128;
    change
        .iter()
        .take(steps)
        .map(|step| {
            now += step;
            u64::try_from(now).unwrap_or(u64::MAX)
        })
        .collect()
}
