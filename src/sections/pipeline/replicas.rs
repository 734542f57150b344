//! Data parallel: every device computes the gradients of its part of the batch, collectives join what the
//! parts make, and then every device updates all parameters, or each one its own.
//!
//! What runs once before all parts is on the first device, which gives its results to all others. The update
//! begins where a node is not linear in its operands of parts: so the square of a gradient reads the sum.
//! Sharded state is the first stage of ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
//! Trillion Parameter Models", 2020, section 5.1).

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Collective, CollectiveKind, DeviceMemory, Event, Join, Phase, Schedule};
use memc_onnx_proto::ModelFile;
use memc_passes::StateNames;

use super::super::cut::{self, Cut, Portion, makers, readers};
use super::super::divide::Cones;
use super::super::graph::Graph;
use super::super::manifest::Joins;
use super::super::options::Devices;
use super::super::{Job, SHORTAGE, Sections, exact, state};
use super::parts::{self, Parts};
use super::places::{self, Roles};
use super::schedule::{Key, carried, ended};
use super::{Step, with_part};
use crate::error::Error;
use crate::request::Request;
use crate::split_error::SplitError;

/// Divides the batch of a training step over devices and plans each section.
///
/// # Errors
/// The batch is not one equal part for each device, a node needs the whole batch, or a device exceeds its
/// budget.
pub(in crate::sections) fn split_batch(
    file: &ModelFile,
    request: &Request,
    devices: &Devices,
) -> Result<Sections, Error> {
    let whole = Graph::new(file, request)?;
    places::loss(&whole).ok_or(SplitError::NoLoss)?;
    let devices = Devices { micro_batches: devices.count as u64, ..devices.clone() };
    let parts =
        parts::parts(&whole, devices.micro_batches).map_err(|cause| SplitError::Batched(Box::new(cause)))?;
    // Which parameters return to all devices does not depend on the storage of new values.
    let pairs = state::pairs(&whole.module, &Request { alias_state: true, ..request.clone() })?;
    with_part(file, request, (&whole, &parts), |part| {
        let roles = Roles::of(&whole, Cones::new(), Some(&parts))?;
        let step = Step { whole: &whole, part, parts: Some(&parts), roles, schedule: Schedule::Data };
        let replicas = Replicas { graph: &whole, parts: &parts, devices: &devices, pairs: &pairs };
        let job = Job { file, graph: part, request, devices: &devices, step: Some(&step) };
        let found = replicas.planned(&step, &job, false)?;
        let is_over = |device: &&DeviceMemory| device.budget.is_some_and(|budget| device.peak > budget);
        if !found.manifest.devices.iter().any(|device| is_over(&device)) {
            return Ok(found);
        }
        // Plans within limits, or the bytes that are lacking.
        let peak =
            |found: &Sections| found.manifest.devices.iter().map(|device| device.peak).max().unwrap_or(0);
        let needs = match replicas.planned(&step, &job, true) {
            Ok(limited) if !limited.manifest.devices.iter().any(|device| is_over(&device)) => {
                return Ok(limited);
            }
            Ok(limited) => peak(&limited),
            Err(error) if error.exit_code() == SHORTAGE => peak(&found),
            Err(error) => return Err(error),
        };
        Err(SplitError::Budget { devices: devices.count, needs: exact(needs) }.into())
    })
}

/// A step of which each device computes a part.
struct Replicas<'r> {
    graph: &'r Graph<'r>,
    parts: &'r Parts,
    devices: &'r Devices,
    /// Old and new values of parameters and of state.
    pairs: &'r [StateNames],
}

impl Replicas<'_> {
    fn planned(&self, step: &Step<'_>, job: &Job<'_>, has_limits: bool) -> Result<Sections, Error> {
        let is_once = |portion: &Portion| portion.phase.is_some_and(Phase::is_once);
        let cuts =
            cut::cuts(self.portions()?, &|portion| if is_once(portion) { step.whole } else { step.part });
        let mut joins = step.joins(&cuts).map_err(|cause| SplitError::Batched(Box::new(cause)))?;
        joins.collectives = self.collectives(&cuts, &joins);
        let programs = (0..self.devices.count).map(|rank| self.program(&cuts, &joins, rank)).collect();
        step.plan(job, &cuts, (&joins, &programs), has_limits)
    }

    /// Whether a node depends on no part of the batch, or is made once before all parts.
    fn is_apart(&self, unit: usize) -> bool {
        self.graph.needed.contains(&unit)
            && !self.parts.nodes.contains(&unit)
            && !self.parts.late.contains(&unit)
    }

    /// Whether each device that reads the results of a node runs it by itself.
    fn is_copied(&self, unit: usize) -> bool {
        self.repeats(unit) && !self.graph.units[unit].makes.iter().any(|name| self.parts.given.contains(name))
    }

    /// Whether a node makes the same in all runs, also one that became a constant.
    fn repeats(&self, unit: usize) -> bool {
        self.graph.units[unit].repeats || self.graph.file.graph().node[unit].op_type() == "Constant"
    }

    /// Adds the nodes that others need and that may run on their device.
    fn with_makers(&self, seeds: &BTreeSet<usize>, may: &dyn Fn(usize) -> bool) -> BTreeSet<usize> {
        let (mut found, mut open) = (seeds.clone(), seeds.iter().copied().collect::<Vec<usize>>());
        while let Some(unit) = open.pop() {
            let makers = self.graph.units[unit].reads.iter().filter_map(|name| self.graph.maker.get(name));
            open.extend(makers.copied().filter(|maker| may(*maker) && found.insert(*maker)));
        }
        found
    }

    /// The sections: what is made once, the gradients of a part, and updates.
    ///
    /// # Errors
    /// All devices would run a node that may not run again.
    fn portions(&self) -> Result<Vec<Portion>, SplitError> {
        let (graph, parts) = (self.graph, self.parts);
        let everywhere: Vec<usize> = (1..self.devices.count).collect();
        let early: BTreeSet<usize> = graph
            .order
            .iter()
            .copied()
            .filter(|unit| self.is_apart(*unit) && !self.is_copied(*unit))
            .collect();
        let early_units = self.with_makers(&early, &|unit| graph.needed.contains(&unit));
        let makes_output =
            |unit: usize| graph.units[unit].makes.iter().any(|name| graph.outputs.contains(name));
        let apart = |unit: &usize| self.is_apart(*unit) && makes_output(*unit) && !early_units.contains(unit);
        let late: BTreeSet<usize> =
            graph.order.iter().copied().filter(apart).chain(parts.late.iter().copied()).collect();
        if let Some(unit) = parts.nodes.iter().chain(&late).find(|unit| !self.repeats(**unit)) {
            return Err(SplitError::Unrepeated { node: graph.title(*unit) });
        }
        let copied = |unit: usize| self.is_apart(unit) && self.is_copied(unit);
        let portion =
            |name: String, rank: usize, phase: Phase, units: BTreeSet<usize>, owned: BTreeSet<usize>| {
                Portion { name, rank, more: Vec::new(), phase: Some(phase), units, owned }
            };
        let mut all = Vec::new();
        if !early.is_empty() {
            let owned = early_units.iter().copied().filter(|unit| self.is_apart(*unit)).collect();
            all.push(portion("prepare".to_owned(), 0, Phase::Prepare, early_units, owned));
        }
        let units = self.with_makers(&parts.nodes, &copied);
        let gradient = portion("gradient".to_owned(), 0, Phase::Gradient, units, parts.nodes.clone());
        all.push(Portion { more: everywhere.clone(), ..gradient });
        if self.devices.shard_state {
            for (rank, owned) in
                self.shards(&late).into_iter().enumerate().filter(|(_, owned)| !owned.is_empty())
            {
                let units = self.with_makers(&owned, &|unit| copied(unit) || late.contains(&unit));
                all.push(portion(
                    format!("{}.update", Devices::name(rank)),
                    rank,
                    Phase::Update,
                    units,
                    owned,
                ));
            }
        } else if !late.is_empty() {
            let update =
                portion("update".to_owned(), 0, Phase::Update, self.with_makers(&late, &copied), late);
            all.push(Portion { more: everywhere, ..update });
        }
        Ok(all)
    }

    /// The nodes that each device owns: those of a parameter are together, the largest parameters first, each
    /// on the device with the fewest bytes. Single numbers, such as the norm of all gradients, and integers
    /// bind no nodes, and devices that read one compute it. O(nodes · devices).
    fn shards(&self, late: &BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
        let graph = self.graph;
        let is_large = |name: &&String| {
            let numbers = |dims: &Vec<u64>| dims.iter().fold(1, |all: u64, own| all.saturating_mul(*own));
            graph
                .tensors
                .get(*name)
                .is_some_and(|tensor| tensor.element.is_float() && numbers(&tensor.shape) > 1)
        };
        // Each value and each weight joins its maker and its readers.
        let mut members: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
        for &unit in late {
            let item = &graph.units[unit];
            let of_late = |name: &&String| graph.maker.get(*name).is_none_or(|maker| late.contains(maker));
            let read = item.reads.iter().filter(of_late).chain(&item.weights);
            read.chain(&item.makes)
                .filter(is_large)
                .for_each(|name| members.entry(name).or_default().push(unit));
        }
        let mut names: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
        for (name, units) in &members {
            units.iter().for_each(|unit| names.entry(*unit).or_default().push(name));
        }
        let mut groups: Vec<(u64, BTreeSet<usize>)> = Vec::new();
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        for &start in late.iter().filter(|unit| !seen.contains(*unit)).collect::<Vec<_>>() {
            if !seen.insert(start) {
                continue;
            }
            let (mut group, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(unit) = open.pop() {
                group.insert(unit);
                for name in names.get(&unit).into_iter().flatten() {
                    open.extend(members[*name].iter().copied().filter(|other| seen.insert(*other)));
                }
            }
            let is_output =
                |unit: &usize| graph.units[*unit].makes.iter().any(|name| graph.outputs.contains(name));
            if group.iter().any(is_output) {
                groups.push((self.stored_bytes(&group), group));
            }
        }
        groups.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let mut shards = vec![(0_u64, BTreeSet::new()); self.devices.count];
        for (bytes, group) in groups {
            if let Some((load, owned)) = shards.iter_mut().min_by_key(|(load, _)| *load) {
                *load = load.saturating_add(bytes);
                owned.extend(group);
            }
        }
        shards.into_iter().map(|(_, owned)| owned).collect()
    }

    /// Bytes of the weights and graph inputs that nodes read, by themselves or through nodes that each device
    /// runs, such as the decay of a moment.
    fn stored_bytes(&self, units: &BTreeSet<usize>) -> u64 {
        let all = self.with_makers(units, &|unit| self.is_apart(unit) && self.is_copied(unit));
        let items = all.iter().map(|unit| &self.graph.units[*unit]);
        let fed = |name: &&String| !self.graph.maker.contains_key(*name);
        let names: BTreeSet<&String> =
            items.flat_map(|item| item.weights.iter().chain(item.reads.iter().filter(fed))).collect();
        names.into_iter().filter_map(|name| self.graph.tensors.get(name)).map(|tensor| tensor.bytes).sum()
    }

    /// What all devices do together: they join what parts make, and send what one of them makes for others.
    fn collectives(&self, cuts: &[Cut], joins: &Joins) -> Vec<Collective> {
        let graph = self.graph;
        let readers = readers(cuts);
        let gradient = cuts.iter().filter(|cut| cut.portion.phase == Some(Phase::Gradient));
        let units = gradient.flat_map(|cut| &cut.portion.units).map(|unit| &graph.units[*unit]);
        let read: BTreeSet<&String> = units.flat_map(|unit| unit.reads.iter().chain(&unit.weights)).collect();
        let returns =
            |name: &String| self.pairs.iter().any(|pair| pair.new == *name && read.contains(&pair.old));
        let mut all = Vec::new();
        for (cut, name) in cuts.iter().flat_map(|cut| cut.outputs.iter().map(move |name| (cut, name))) {
            let portion = &cut.portion;
            let reads = readers.get(name.as_str()).into_iter().flatten();
            let ranks: BTreeSet<usize> = reads.flat_map(|reader| cuts[*reader].portion.ranks()).collect();
            let devices = (0..self.devices.count).map(Devices::name).collect();
            let row = Collective { value: name.clone(), devices, ..Collective::default() };
            if portion.phase.is_some_and(Phase::is_once) {
                let is_elsewhere = ranks.iter().any(|rank| *rank != portion.rank) || returns(name);
                if portion.more.is_empty() && is_elsewhere {
                    let root = Some(Devices::name(portion.rank));
                    all.push(Collective { kind: CollectiveKind::Broadcast, root, ..row });
                }
            } else if let Some((join, _)) = joins.joined.get(name) {
                let is_sum = *join != Join::Concat;
                let is_for_all = ranks.len() > 1 || is_sum && graph.outputs.contains(name);
                let root = (!is_for_all).then(|| Devices::name(ranks.first().copied().unwrap_or(0)));
                let kind = match (is_sum, is_for_all) {
                    (true, true) => CollectiveKind::AllReduce,
                    (true, false) => CollectiveKind::Reduce,
                    (false, true) => CollectiveKind::AllGather,
                    (false, false) => CollectiveKind::Gather,
                };
                all.push(Collective { kind, root, order: is_sum.then_some(self.devices.sums), ..row });
            }
        }
        all
    }

    /// The events of a device: what it runs in each phase, then what all devices join of it.
    fn program<'c>(&'c self, cuts: &'c [Cut], joins: &'c Joins, rank: usize) -> Vec<Event> {
        let (maker, step) = (makers(cuts), self.devices.micro_batches);
        let rows: BTreeMap<&str, &Collective> =
            joins.collectives.iter().map(|row| (row.value.as_str(), row)).collect();
        let mut events: Vec<(Event, Vec<Key<'c>>)> = Vec::new();
        let mut here: BTreeSet<Key<'c>> = BTreeSet::new();
        for phase in [Phase::Prepare, Phase::Gradient, Phase::Update] {
            let of_phase = || cuts.iter().filter(|cut| cut.portion.phase == Some(phase));
            let run = if phase.is_once() { step } else { rank as u64 };
            for cut in of_phase().filter(|cut| cut.portion.runs_on(rank)) {
                let mut used: Vec<Key<'c>> = Vec::new();
                for name in &cut.inputs {
                    let key = (name.as_str(), if joins.once.contains(name) { step } else { run });
                    used.push(key);
                    if here.insert(key) {
                        events.push(match maker.contains_key(name.as_str()) {
                            true => (Event::Share(carried(key)), vec![key, (name, step)]),
                            false => (Event::Feed(carried(key)), vec![key]),
                        });
                    }
                }
                let made = cut.outputs.iter().map(|name| (name.as_str(), run));
                here.extend(made.clone());
                used.extend(made);
                events.push((Event::Run { micro_batch: run, section: Some(cut.portion.name.clone()) }, used));
            }
            for (cut, name) in of_phase().flat_map(|cut| cut.outputs.iter().map(move |name| (cut, name))) {
                if let Some(row) = rows.get(name.as_str()) {
                    let own = cut.portion.runs_on(rank).then_some((name.as_str(), run));
                    let key = (name.as_str(), step);
                    if gets(row, rank) {
                        here.insert(key);
                        events.push((Event::Collect(carried(key)), own.into_iter().chain([key]).collect()));
                    } else {
                        events.push((Event::Offer(carried(key)), own.into_iter().collect()));
                    }
                }
            }
            for name in
                of_phase().flat_map(|cut| &cut.outputs).filter(|name| self.graph.outputs.contains(name))
            {
                let key = (name.as_str(), step);
                if here.contains(&key) {
                    events.push((Event::Give(carried(key)), vec![key]));
                }
            }
        }
        ended(events, self.graph)
    }
}

/// Whether a device holds the value of the step because of a collective.
fn gets(row: &Collective, rank: usize) -> bool {
    let is_root = row.root.as_ref().is_some_and(|root| *root == Devices::name(rank));
    match row.kind {
        CollectiveKind::AllReduce | CollectiveKind::AllGather => true,
        CollectiveKind::Reduce | CollectiveKind::Gather => is_root,
        CollectiveKind::Broadcast => !is_root,
    }
}
