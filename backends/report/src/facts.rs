//! Facts about a plan that all reports use, derived once.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{
    AliasKind, Class, Extents, Layout, LiveCurve, LowerBound, Placement, Rule, ScheduledNode, SpaceCurve,
    Unplanned,
};

use crate::decisions::{Decision, decisions};

/// An arena over ranges that is larger than at any known extents by more than this part, 2 %, rests on loose
/// bounds.
const LOOSENESS: u64 = 50;

/// A plan with facts derived from it.
pub(crate) struct Facts<'a> {
    pub layout: &'a Layout,
    /// Spaces in use by the plan or by the input model. The target's first space is always included, as
    /// the first element.
    pub spaces: Vec<SpaceFacts>,
    pub counts: Counts,
    pub callers: Callers,
    /// Recomputed and moved values, in the order in which they are restored.
    pub decisions: Vec<Decision<'a>>,
    /// Number of values of unknown size that an arena would hold. The bytes stated for the first space
    /// leave them out.
    pub open: usize,
}

/// Facts about one space of a plan.
pub(crate) struct SpaceFacts {
    pub profile: SpaceCurve,
    pub arena: u64,
    pub budget: Option<u64>,
    pub capacity: Option<u64>,
    /// Peak of the input model in file order, in bytes.
    pub before: Option<u64>,
    pub bound: Option<LowerBound>,
    /// Number of values of unknown size that the arena does not include.
    pub open: usize,
    /// Upper bound of the peak including these values, in bytes.
    pub at_most: Option<u64>,
    /// Whether some extents are known to need the arena, apart from a small part.
    pub is_reached: bool,
}

/// Distance of an arena from its lower bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gap {
    /// The arena is as large as the bound. `order`: no other order of these nodes has a lower peak either.
    Closed { order: bool },
    /// The arena is larger than the bound by this fraction of the bound.
    Open(f64),
    /// The layout states no bound.
    Unknown,
    /// The arena leaves out values of unknown size, so the bound covers only part of the values.
    Partial,
    /// The arena holds upper bounds of sizes, and no extents are known that need all of it.
    Loose,
}

impl Gap {
    /// Describes the gap between the arena and its bound.
    pub(crate) fn verdict(self) -> String {
        match self {
            Self::Closed { order: true } => "order optimal, offsets optimal".to_owned(),
            Self::Closed { order: false } => "offsets optimal".to_owned(),
            // With one decimal, a small gap would look like none.
            Self::Open(fraction) if fraction < 0.001 => "gap < 0.1 %".to_owned(),
            Self::Open(fraction) => format!("gap {:.1} %", fraction * 100.0),
            Self::Unknown => "unknown".to_owned(),
            Self::Partial => "of values with a size".to_owned(),
            Self::Loose => "of upper bounds".to_owned(),
        }
    }
}

/// Counts of a plan's tensors and nodes by kind.
#[derive(Default)]
pub(crate) struct Counts {
    pub in_place: usize,
    pub views: usize,
    pub recomputed_tensors: usize,
    pub scratch: usize,
    pub anchors: usize,
}

/// Sizes of the caller's buffers, which no arena holds, in bytes.
#[derive(Default)]
pub(crate) struct Callers {
    pub inputs: u64,
    /// Graph outputs, except for results that share storage with state.
    pub outputs: u64,
    pub state: u64,
    /// Constants that are not fetched.
    pub near_weights: u64,
    /// All copies of fetched constants.
    pub fetched: u64,
}

impl<'a> Facts<'a> {
    pub(crate) fn of(layout: &'a Layout) -> Facts<'a> {
        let first = layout.target.spaces.first().map(|space| space.name.as_str());
        let profile = LiveCurve::of(layout);
        let decisions = decisions(layout, &profile);
        let mut spaces: Vec<SpaceFacts> =
            profile.spaces.into_iter().map(|profile| SpaceFacts::of(layout, profile)).collect();
        spaces.retain(|space| {
            let used = space.arena > 0
                || !space.profile.owners.is_empty()
                || space.before.is_some_and(|bytes| bytes > 0);
            used || first == Some(space.profile.space.as_str())
        });
        if !layout.model.ranges.is_empty() {
            let reached = reached(layout);
            for space in &mut spaces {
                let most = reached.get(space.profile.space.as_str()).copied().unwrap_or(0);
                space.is_reached = space.arena <= most.saturating_add(most / LOOSENESS);
            }
        }
        // Older writers omit the class: such a value may belong in the arena.
        let counts_in = |row: &&Unplanned| row.class.is_none_or(|class| layout.io.holds(class));
        let open = layout.unplanned.iter().filter(counts_in).count();
        if let Some(space) = spaces.first_mut().filter(|space| first == Some(space.profile.space.as_str())) {
            space.open = open;
            space.at_most = layout.peak.get(&space.profile.space).and_then(|peak| peak.at_most);
        }
        Facts { layout, spaces, counts: counts(layout), callers: callers(layout), decisions, open }
    }

    /// Returns the space that operators compute in, or `None` for a target without spaces and a plan
    /// without tensors.
    pub(crate) fn first(&self) -> Option<&SpaceFacts> {
        self.spaces.first()
    }

    pub(crate) fn node(&self, step: u64) -> Option<&'a ScheduledNode> {
        self.layout.schedule.get(usize::try_from(step).ok()?)
    }

    /// Returns the change of modelled time against the input model, as a fraction; 0 without a time
    /// model. `None` if values have no size: the time of their nodes is not known.
    pub(crate) fn time_change(&self) -> Option<f64> {
        let cost = &self.layout.cost;
        if self.spaces.iter().any(|space| space.open > 0) {
            return None;
        }
        let change = (cost.modelled_ns_after - cost.modelled_ns_before) / cost.modelled_ns_before;
        Some(if change.is_finite() { change } else { 0.0 })
    }
}

/// Returns the largest arena of each space by the formula at all largest extents, or at corners if a limit
/// excludes these: the plan needs as much there.
fn reached(layout: &Layout) -> BTreeMap<&str, u64> {
    let ranges = &layout.model.ranges;
    let corner = |most: &dyn Fn(&str) -> bool| -> BTreeMap<String, u64> {
        let extent = |(name, extents): (&String, &Extents)| {
            (name.clone(), if most(name) { extents.max } else { extents.min })
        };
        ranges.iter().map(extent).collect()
    };
    let alone = ranges.keys().map(|own| corner(&|name| name == own));
    let mut reached = BTreeMap::new();
    for extents in std::iter::once(corner(&|_| true)).chain(alone) {
        let Ok(placement) = Placement::at(layout, &extents, Rule::Formula) else { continue };
        for (arena, bytes) in layout.arenas.iter().zip(placement.arenas) {
            let most = reached.entry(arena.space.as_str()).or_insert(0);
            *most = bytes.max(*most);
        }
    }
    reached
}

impl SpaceFacts {
    fn of(layout: &Layout, profile: SpaceCurve) -> SpaceFacts {
        let name = &profile.space;
        let top =
            profile.owners.iter().map(|owner| owner.offset.saturating_add(owner.bytes)).max().unwrap_or(0);
        SpaceFacts {
            arena: layout.arenas.iter().find(|arena| arena.space == *name).map_or(top, |arena| arena.size),
            budget: layout.budget.get(name).copied(),
            capacity: layout
                .target
                .spaces
                .iter()
                .find(|space| space.name == *name)
                .and_then(|space| space.capacity),
            before: layout
                .baseline
                .own_peak
                .get(name)
                .or_else(|| layout.baseline.file_order_peak.get(name))
                .copied(),
            bound: layout.lower_bound.get(name).copied(),
            open: 0,
            at_most: None,
            is_reached: true,
            profile,
        }
    }

    pub(crate) fn gap(&self) -> Gap {
        match self.bound {
            _ if self.open > 0 => Gap::Partial,
            _ if !self.is_reached => Gap::Loose,
            Some(bound) if self.arena <= bound.placement => Gap::Closed { order: bound.order_proved },
            Some(bound) if bound.placement > 0 => {
                Gap::Open((self.arena - bound.placement) as f64 / bound.placement as f64)
            }
            _ => Gap::Unknown,
        }
    }
}

fn counts(layout: &Layout) -> Counts {
    let mut counts = Counts::default();
    for tensor in &layout.tensors {
        match tensor.alias.as_ref().map(|alias| alias.kind) {
            Some(AliasKind::InPlace) => counts.in_place += 1,
            Some(AliasKind::View) => counts.views += 1,
            None => {}
        }
        counts.recomputed_tensors += usize::from(tensor.recompute_of.is_some());
        counts.scratch += usize::from(tensor.class == Class::Scratch);
    }
    counts.anchors = layout.schedule.iter().filter(|node| node.anchor).count();
    counts
}

fn callers(layout: &Layout) -> Callers {
    let mut callers = Callers::default();
    let updates: BTreeSet<&str> = layout.state.iter().map(|row| row.result.as_str()).collect();
    let fetched: BTreeSet<&str> = layout.fetches.iter().map(|row| row.tensor.as_str()).collect();
    // An alias adds no bytes, in the caller's memory as well as in an arena.
    for tensor in layout.tensors.iter().filter(|tensor| tensor.space.is_none() && tensor.alias.is_none()) {
        let sum = match tensor.class {
            Class::Input => &mut callers.inputs,
            Class::Output if !updates.contains(tensor.name.as_str()) => &mut callers.outputs,
            Class::State => &mut callers.state,
            Class::Constant if !fetched.contains(tensor.name.as_str()) => &mut callers.near_weights,
            Class::Output | Class::Constant | Class::Transient | Class::Scratch => continue,
        };
        *sum = sum.saturating_add(tensor.bytes);
    }
    // Constants of bodies have no rows of their own.
    let own =
        layout.tensors.iter().filter(|tensor| tensor.class == Class::Constant && tensor.alias.is_none());
    let own = own.fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
    callers.near_weights = callers.near_weights.saturating_add(layout.weights.saturating_sub(own));
    callers.fetched = layout.fetches.iter().fold(0, |sum, row| sum.saturating_add(row.bytes));
    callers
}
