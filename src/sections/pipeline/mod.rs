//! Training pipelines: a step over several devices, each with a forward and a backward section, for the parts
//! of a batch one after another.
//!
//! Sections that run once a part are cut from the model of one part, and all others from the given model.
//! Both have the same nodes and names.

mod part_model;
mod parts;
mod places;
mod recompute;
mod replicas;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::ElementType;
use memc_layout::devices::{DeviceMemory, Event, Join, Phase, Pipeline, Repeated, Schedule};
use memc_onnx_proto::ModelFile;
use memc_ops::Piece;

use super::cut::{self, Cut, Portion, makers, readers};
use super::divide::{Cones, Division, Work, cones};
use super::graph::Graph;
use super::manifest::{Joins, Story};
use super::options::Devices;
use super::program::{Sizes, most_held};
use super::{Job, Sections, kept, linked, of_section};
use crate::error::Error;
use crate::plan::plan;
use crate::request::{Budget, Request};
use crate::size::Size;
use crate::split_error::SplitError;

use parts::Parts;
use places::Roles;
use recompute::Halves;

pub(super) use replicas::split_batch;

/// Most rounds of recomputing more and planning again: each one knows the arenas of the one before.
const MAX_ROUNDS: usize = 4;

/// A step to divide.
#[derive(Debug)]
pub(super) struct Step<'g> {
    /// The given model.
    whole: &'g Graph<'g>,
    /// The model of one part; the given one if there is one part.
    part: &'g Graph<'g>,
    parts: Option<&'g Parts>,
    roles: Roles,
    schedule: Schedule,
}

/// Divides a training step over devices and plans each section.
///
/// # Errors
/// See [`super::split`].
pub(super) fn split_step(
    file: &ModelFile,
    request: &Request,
    devices: &Devices,
    schedule: Schedule,
) -> Result<Sections, Error> {
    let whole = Graph::new(file, request)?;
    places::loss(&whole).ok_or(SplitError::NoLoss)?;
    if devices.micro_batches == 1 {
        return divided(file, request, devices, &Step::new(&whole, &whole, None, devices, schedule)?);
    }
    let parts = parts::parts(&whole, devices.micro_batches)?;
    with_part(file, request, (&whole, &parts), |part| {
        divided(file, request, devices, &Step::new(&whole, part, Some(&parts), devices, schedule)?)
    })
}

/// Makes the model of one part, and goes on with its graph.
fn with_part<T>(
    file: &ModelFile,
    request: &Request,
    (whole, parts): (&Graph<'_>, &Parts),
    go_on: impl FnOnce(&Graph<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let part_file = part_model::part_model(file, whole, parts)?;
    let mut of_part = request.clone();
    of_part.import.dims.clear();
    // Pairs are those of the given model.
    (of_part.alias_state, of_part.state) = (false, Vec::new());
    let mut part = Graph::new(&part_file, &of_part)?;
    part_model::settle_integers(whole, &mut part, parts);
    part_model::verify(whole, &part, parts)?;
    go_on(&part)
}

fn divided(
    file: &ModelFile,
    request: &Request,
    devices: &Devices,
    step: &Step<'_>,
) -> Result<Sections, Error> {
    let make = || Division::new(step.part, devices, request, step.work(devices))?.has_pieces();
    let job = Job { file, graph: step.part, request, devices, step: Some(step) };
    job.best(&make)
}

impl<'g> Step<'g> {
    fn new(
        whole: &'g Graph<'g>,
        part: &'g Graph<'g>,
        parts: Option<&'g Parts>,
        devices: &Devices,
        schedule: Schedule,
    ) -> Result<Self, SplitError> {
        let trained = trained(whole);
        let may =
            |unit: usize| !trained.contains(&unit) && parts.is_none_or(|parts| repeats(whole, parts, unit));
        let possible = cones(part, devices, &may);
        let roles = Roles::of(whole, possible, parts)?;
        Ok(Self { whole, part, parts, roles, schedule })
    }

    /// What the solver divides: forward nodes, each with the backward nodes and the bytes that follow it.
    fn work(&self, devices: &Devices) -> Work {
        let cones: Cones = self.roles.cones.clone();
        let mut work = Work { cones, units: Some(self.roles.forward.clone()), ..Work::default() };
        let anchors = self.roles.anchors(self.whole);
        // The solver does not know the ranks: the mean over all devices.
        let in_flight = (0..devices.count).map(|rank| self.in_flight(devices, rank)).sum::<u64>();
        let in_flight = in_flight.div_ceil(devices.count.max(1) as u64);
        let bytes = |name: &String| self.part.tensors.get(name).map_or(0, |tensor| tensor.bytes);
        let mut held: BTreeMap<usize, BTreeSet<&String>> = BTreeMap::new();
        for (&unit, &anchor) in &anchors {
            let item = &self.part.units[unit];
            *work.nanos.entry(anchor).or_default() += item.nanos;
            work.weights.entry(anchor).or_default().extend(item.weights.iter().cloned());
            for name in &item.reads {
                if let Some(maker) =
                    self.part.maker.get(name).filter(|maker| self.roles.forward.contains(maker))
                {
                    held.entry(*maker).or_default().insert(name);
                }
            }
            let given = item.makes.iter().filter(|name| self.whole.outputs.contains(name));
            work.held.push((anchor, given.map(bytes).sum()));
        }
        for (unit, names) in held {
            work.held.push((unit, names.into_iter().map(bytes).sum::<u64>().saturating_mul(in_flight)));
        }
        work
    }

    /// Plans all sections of a division of the forward nodes, and derives the manifest. Where a device
    /// exceeds its budget, its backward section runs forward nodes again, so that fewer values are held.
    ///
    /// # Errors
    /// A section cannot be made or planned.
    pub fn planned(&self, job: &Job<'_>, owned: &[Vec<usize>], has_limits: bool) -> Result<Sections, Error> {
        let mut wanted = vec![0_u64; job.devices.count];
        for _ in 0..MAX_ROUNDS {
            let (portions, saved) = self.portions(job.devices, owned, &wanted)?;
            let sections = self.sections(job, portions, false)?;
            let over =
                |device: &DeviceMemory| device.budget.map_or(0, |budget| device.peak.saturating_sub(budget));
            let over: Vec<u64> = sections.manifest.devices.iter().map(over).collect();
            let can_save = |(rank, over): (usize, &u64)| *over > 0 && saved[rank] >= wanted[rank];
            if !over.iter().enumerate().any(can_save) {
                let is_over = over.iter().any(|over| *over > 0);
                return if is_over && has_limits {
                    let (portions, _) = self.portions(job.devices, owned, &wanted)?;
                    self.sections(job, portions, true)
                } else {
                    Ok(sections)
                };
            }
            for (rank, over) in over.into_iter().enumerate() {
                // A little more than is lacking, since recomputed values live in the arena.
                wanted[rank] = saved[rank].min(wanted[rank]).saturating_add(over / 10 * 11);
            }
        }
        let (portions, _) = self.portions(job.devices, owned, &wanted)?;
        self.sections(job, portions, has_limits)
    }

    /// Returns the sections of a division, and the bytes that each device holds less by recomputation if it
    /// is to save `wanted` bytes.
    fn portions(
        &self,
        devices: &Devices,
        owned: &[Vec<usize>],
        wanted: &[u64],
    ) -> Result<(Vec<Portion>, Vec<u64>), SplitError> {
        let mut portions = places::portions(self.whole, &self.roles, owned, self.parts)?;
        let mut all_saved = vec![0; devices.count];
        for rank in (0..devices.count).filter(|rank| wanted[*rank] > 0) {
            let of = |phase: Phase| {
                let is_it = |portion: &&Portion| portion.rank == rank && portion.phase == Some(phase);
                portions.iter().find(is_it).map(|portion| portion.owned.clone()).unwrap_or_default()
            };
            let (forward, backward) = (of(Phase::Forward), of(Phase::Backward));
            let cones = &self.roles.cones;
            let halves = Halves { graph: self.part, cones, forward: &forward, backward: &backward };
            let held = self.in_flight(devices, rank).max(1);
            let (again, saved) = halves.recomputed(wanted[rank].div_ceil(held));
            all_saved[rank] = saved.saturating_mul(held);
            let is_backward =
                |portion: &&mut Portion| portion.rank == rank && portion.phase == Some(Phase::Backward);
            for portion in portions.iter_mut().filter(|portion| is_backward(portion)) {
                let makers = again
                    .iter()
                    .flat_map(|unit| &self.part.units[*unit].reads)
                    .filter_map(|name| self.part.maker.get(name));
                portion.units.extend(makers.filter_map(|maker| cones.get(maker)).flatten());
                portion.units.extend(&again);
            }
        }
        Ok((portions, all_saved))
    }

    /// Number of parts that a device holds at a time.
    fn in_flight(&self, devices: &Devices, rank: usize) -> u64 {
        match self.schedule {
            Schedule::Gpipe | Schedule::Data => devices.micro_batches,
            Schedule::OneForwardOneBackward => devices.micro_batches.min((devices.count - rank) as u64),
        }
    }

    /// Plans sections and derives the manifest.
    fn sections(&self, job: &Job<'_>, portions: Vec<Portion>, has_limits: bool) -> Result<Sections, Error> {
        let is_once = |phase: Option<Phase>| self.parts.is_some() && phase.is_some_and(Phase::is_once);
        let cuts =
            cut::cuts(portions, &|portion| if is_once(portion.phase) { self.whole } else { self.part });
        let joins = self.joins(&cuts)?;
        let devices = job.devices;
        linked(&cuts, devices)?;
        let programs = schedule::programs(&cuts, devices, &joins, self.whole);
        self.plan(job, &cuts, (&joins, &programs), has_limits)
    }

    /// Plans sections with known programs, and derives the manifest.
    fn plan(
        &self,
        job: &Job<'_>,
        cuts: &[Cut],
        (joins, programs): (&Joins, &Vec<Vec<Event>>),
        has_limits: bool,
    ) -> Result<Sections, Error> {
        let (devices, step) = (job.devices, self.parts.map(|parts| parts.count));
        let is_once = |phase: Option<Phase>| self.parts.is_some() && phase.is_some_and(Phase::is_once);
        let sizes = Sizes { part: self.part, whole: self.whole, step };
        let mut all = Vec::new();
        for (position, cut) in cuts.iter().enumerate() {
            let graph = if is_once(cut.portion.phase) { self.whole } else { self.part };
            // What runs once a part must not write over what the next part reads.
            let has_one_run = self.parts.is_none() || is_once(cut.portion.phase);
            let pairs = if has_one_run { kept::of_section(self.whole, cuts, position) } else { Vec::new() };
            let section = cut::section(graph.file, graph, cut)?;
            let mut request = of_section(job.request, (graph, &section), cut, pairs)?;
            let rest = |rank: usize| {
                let budget = devices.budget(rank).filter(|_| has_limits)?;
                let own: Vec<&Cut> = cuts.iter().filter(|other| other.portion.runs_on(rank)).collect();
                let (held, _) = most_held(&programs[rank], &own, &sizes, &BTreeSet::new());
                Some(budget.saturating_sub(self.weights(&own)).saturating_sub(held))
            };
            request.budgets = cut
                .portion
                .ranks()
                .filter_map(rest)
                .min()
                .map(|rest| Budget::from(Size::Bytes(rest)))
                .into_iter()
                .collect();
            all.push(plan(&section, &request)?);
        }
        let (file, request) = (job.file, job.request);
        let (planned, sizes, pipeline) = (&all, &sizes, Some(joins));
        let manifest =
            Story { file, request, devices, cuts, planned, programs, sizes, pipeline }.manifest()?;
        Ok(Sections { planned: all, prepared: None, manifest })
    }

    /// Bytes of the weights that sections of one device read.
    fn weights(&self, cuts: &[&Cut]) -> u64 {
        let units = cuts.iter().flat_map(|cut| &cut.portion.units);
        let names: BTreeSet<&String> = units.flat_map(|unit| &self.whole.units[*unit].weights).collect();
        names.into_iter().filter_map(|name| self.whole.tensors.get(name)).map(|tensor| tensor.bytes).sum()
    }

    /// How values of parts make those of the step.
    fn joins(&self, cuts: &[Cut]) -> Result<Joins, SplitError> {
        let mut joins = Joins {
            pipeline: Pipeline { schedule: self.schedule, repeated: Vec::new() },
            joined: BTreeMap::new(),
            once: BTreeSet::new(),
            collectives: Vec::new(),
        };
        let is_unmade = |name: &&String| {
            !self.whole.inputs.contains(name) && cuts.iter().all(|cut| !cut.outputs.contains(name))
        };
        if let Some(name) = cuts.iter().flat_map(|cut| &cut.inputs).find(is_unmade) {
            return Err(SplitError::Section { cause: format!("no section makes `{name}`") });
        }
        let Some(parts) = self.parts else { return Ok(joins) };
        let repeated = parts.repeated.iter();
        joins.pipeline.repeated =
            repeated.map(|(value, axis)| Repeated { value: value.clone(), axis: *axis as u64 }).collect();
        let is_once = |at: &usize| cuts[*at].portion.phase.is_some_and(Phase::is_once);
        let (maker, readers) = (makers(cuts), readers(cuts));
        let empty = Vec::new();
        for name in &self.whole.inputs {
            let readers = readers.get(name.as_str()).unwrap_or(&empty);
            match parts.pieces.get(name) {
                Some(Piece::Along(axis)) if !readers.iter().all(is_once) => {
                    joins.joined.insert(name.clone(), (Join::Concat, Some(*axis as u64)));
                }
                _ => _ = joins.once.insert(name.clone()),
            }
        }
        for (&name, at) in &maker {
            if is_once(at) {
                match parts.pieces.get(name).filter(|_| parts.given.contains(name)) {
                    Some(_) => _ = joins.joined.insert(name.to_owned(), self.join(name, parts)?),
                    None => _ = joins.once.insert(name.to_owned()),
                }
                continue;
            }
            let is_read = readers.get(name).unwrap_or(&empty).iter().any(is_once);
            if is_read || self.whole.outputs.iter().any(|output| output == name) {
                joins.joined.insert(name.to_owned(), self.join(name, parts)?);
            }
        }
        Ok(joins)
    }

    /// The way in which parts make a value.
    fn join(&self, name: &str, parts: &Parts) -> Result<(Join, Option<u64>), SplitError> {
        let by = match parts.pieces.get(name) {
            Some(Piece::Sum) => (Join::Sum, None),
            Some(Piece::Mean) => (Join::Mean, None),
            Some(Piece::Along(axis)) => (Join::Concat, Some(*axis as u64)),
            _ => return Err(SplitError::Unjoined { name: name.to_owned() }),
        };
        let element = self.whole.tensors.get(name).map(|tensor| tensor.element);
        let adds = [ElementType::Float, ElementType::Double, ElementType::Int32, ElementType::Int64];
        match element.filter(|element| by.0 != Join::Concat && !adds.contains(element)) {
            Some(element) => Err(SplitError::Unadded { name: name.to_owned(), element: element.to_string() }),
            None => Ok(by),
        }
    }
}

/// Nodes that depend on graph inputs and on parameters, which are graph inputs with a default: they are the
/// model itself, which devices share out however small it is.
fn trained(graph: &Graph<'_>) -> BTreeSet<usize> {
    let parameters: BTreeSet<&str> = graph.file.graph().input.iter().map(|info| info.name()).collect();
    let (mut of_inputs, mut of_parameters): (BTreeSet<usize>, BTreeSet<usize>) = Default::default();
    for &unit in &graph.order {
        let item = &graph.units[unit];
        let depends = |on: &BTreeSet<usize>| {
            item.reads.iter().any(|name| graph.maker.get(name).is_some_and(|maker| on.contains(maker)))
        };
        if depends(&of_inputs) || item.reads.iter().any(|name| !graph.maker.contains_key(name)) {
            of_inputs.insert(unit);
        }
        if depends(&of_parameters) || item.weights.iter().any(|name| parameters.contains(name.as_str())) {
            of_parameters.insert(unit);
        }
    }
    of_inputs.intersection(&of_parameters).copied().collect()
}

/// Whether each section can run a node by itself: it makes the same value in all sections of a part.
fn repeats(graph: &Graph<'_>, parts: &Parts, unit: usize) -> bool {
    let item = &graph.units[unit];
    if item.makes.iter().any(|name| parts.given.contains(name)) {
        return false;
    }
    if parts.nodes.contains(&unit) {
        return item.makes.iter().all(|name| parts.pieces.get(name).is_none_or(|piece| !piece.is_added()));
    }
    let depends = |name: &String| {
        parts.pieces.contains_key(name)
            || graph
                .ancestors(name)
                .iter()
                .flat_map(|unit| &graph.units[*unit].reads)
                .any(|name| parts.pieces.contains_key(name))
    };
    !parts.late.contains(&unit) && !item.reads.iter().any(depends)
}
