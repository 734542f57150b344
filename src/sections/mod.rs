//! Sections: divides a model over devices, plans each section by itself, and states in a manifest what
//! crosses between them.
//!
//! A section is cut from the given file: its nodes, the weights that they read, and new inputs and outputs
//! for the values that cross. It is an ordinary model, which [`plan`] plans without knowing of the others
//! and which `memc check` verifies as any other. Values keep their names, so the union of all sections is
//! the given model if each node that its outputs need is in a section.

mod check;
mod cut;
mod divide;
mod graph;
mod kept;
mod manifest;
mod options;
mod pipeline;
mod program;
mod state;

use std::collections::BTreeSet;

use memc_ir::{Bytes, Limit};
use memc_layout::devices::{Crossing, DeviceMemory, Manifest, Prepared, Schedule};
use memc_onnx_proto::ModelFile;
use memc_passes::{Io, StateNames};

use crate::error::Error;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::{Budget, Request};
use crate::size::Size;
use crate::split_error::SplitError;

use cut::{Cut, Portion};
use divide::{Cones, Division, Work};
use graph::Graph;
use manifest::Story;
use pipeline::Step;
use program::Sizes;

pub use check::{check_manifest, read_manifest, section_files};
pub use options::{Devices, Path, PathError};

/// Most rounds of dividing and planning: each one knows the arenas of the one before.
const MAX_ROUNDS: usize = 3;

/// A model that is divided over devices.
#[derive(Debug)]
pub struct Sections {
    /// Planned sections, by rank.
    pub planned: Vec<Planned>,
    /// The plan of the whole model that was divided in place of the given one, with each cache in one buffer.
    pub prepared: Option<Planned>,
    /// What the files of the sections mean together. Hashes of layouts are those of [`Planned::layout_text`].
    pub manifest: Manifest,
}

/// Divides a model over devices and plans each section.
///
/// Without budgets, the largest section is as small as possible, and among such divisions, with 1 % more,
/// the slowest section is as fast as possible. With budgets, the slowest section is as fast as possible
/// within them.
///
/// # Errors
/// The request contradicts itself, the model is refused or cannot be divided, or no division keeps the
/// budgets.
pub fn split(file: &ModelFile, request: &Request, devices: &Devices) -> Result<Sections, Error> {
    devices.validate(request)?;
    if let Some((planned, cached, own)) = state::cached(file, request)? {
        let mut found = divided(&cached, &own, devices)?;
        let text = memc_layout::to_json(&planned.layout)?;
        found.manifest.source.sha256 = memc_onnx_export::sha256(file.bytes());
        found.manifest.source.prepared = Some(Prepared {
            model: "cached.onnx".to_owned(),
            model_sha256: planned.layout.model.output_sha256.clone(),
            layout: "cached.layout.json".to_owned(),
            layout_sha256: memc_onnx_export::sha256(text.as_bytes()),
        });
        found.prepared = Some(planned);
        if request.check {
            check::prove(file, &found, request)?;
        }
        return Ok(found);
    }
    let found = divided(file, request, devices)?;
    if request.check {
        check::prove(file, &found, request)?;
    }
    Ok(found)
}

/// Divides a model with fixed caches.
fn divided(file: &ModelFile, request: &Request, devices: &Devices) -> Result<Sections, Error> {
    match devices.schedule {
        // One device has the whole batch.
        Some(Schedule::Data) if devices.count > 1 => pipeline::split_batch(file, request, devices),
        Some(schedule) if schedule != Schedule::Data => {
            pipeline::split_step(file, request, devices, schedule)
        }
        _ => {
            let graph = Graph::new(file, request)?;
            // A cache is on one device, and so are the nodes that read it.
            let kept: BTreeSet<usize> = kept::together(&graph).into_iter().flatten().collect();
            let may = |unit: usize| !kept.contains(&unit);
            let pose = |cones: &Cones| {
                Division::new(&graph, devices, request, Work { cones: cones.clone(), ..Work::default() })
            };
            let mut all = vec![divide::cones(&graph, devices, &may)];
            if devices.has_budgets() && devices.count > 1 {
                all = divide::all_cones(&graph, devices, &may);
            }
            let mut best = 0;
            if all.len() == 1 {
                pose(&all[0])?.has_pieces()?;
            } else {
                // Fewer pieces than devices may all the same be faster; some choice has enough.
                let has_pieces =
                    |cones: &&Cones| pose(cones).is_ok_and(|division| division.has_pieces().is_ok());
                if all.iter().find(has_pieces).is_none() {
                    pose(&all[0])?.has_pieces()?;
                }
                let time = |cones: &Cones| pose(cones).ok()?.slowest();
                let times: Vec<u64> = all.iter().map(|cones| time(cones).unwrap_or(u64::MAX)).collect();
                best = (0..all.len()).min_by_key(|at| times[*at]).unwrap_or(0);
            }
            let job = Job { file, graph: &graph, request, devices, step: None };
            job.best(&|| pose(&all[best]))
        }
    }
}

/// Nanoseconds by which plans may exceed the time that the solver expects: it rounds the times of nodes.
const MORE_NANOS: u64 = 1000;

/// Most times that budgets become smaller for the solver until it finds another division.
const MAX_SHRINKS: usize = 16;

/// Exit code of errors that more memory avoids.
const SHORTAGE: u8 = 3;

/// A model to divide.
struct Job<'j> {
    file: &'j ModelFile,
    graph: &'j Graph<'j>,
    request: &'j Request,
    devices: &'j Devices,
    /// A training step, in place of the graph.
    step: Option<&'j Step<'j>>,
}

impl Job<'_> {
    /// Returns the best division within the budgets. `make` poses the problem.
    fn best<'d>(&self, make: &dyn Fn() -> Result<Division<'d>, SplitError>) -> Result<Sections, Error> {
        let mut division = make()?;
        division.keeps_weights()?;
        match self.search(&mut division, self.devices.has_budgets()) {
            // What the search without limits finds may keep the budgets all the same.
            Err(refusal) if refusal.exit_code() == SHORTAGE => {
                self.search(&mut make()?, false).map_err(|_| refusal)
            }
            found => found,
        }
    }

    /// Divides and plans in turn, and returns the best division within the budgets. With `is_limited`, the
    /// fastest one, whose sections are planned within limits; else the one with the smallest largest device.
    fn search(&self, division: &mut Division<'_>, is_limited: bool) -> Result<Sections, Error> {
        let mut tried: BTreeSet<Vec<Vec<usize>>> = BTreeSet::new();
        let mut best: Option<Sections> = None;
        let mut refusal: Option<Error> = None;
        let mut is_refused = false;
        for round in 0..MAX_ROUNDS {
            // Before anything is planned, arenas are estimates: sections without limits give their sizes.
            let mut found = division.solve(is_limited);
            // A division whose sections cannot be planned gives way to one for smaller budgets.
            for _ in 0..MAX_SHRINKS {
                if !is_refused || !found.as_ref().is_ok_and(|owned| tried.contains(owned)) {
                    break;
                }
                division.shrink();
                found = division.solve(is_limited);
            }
            let (owned, has_limits) = match found {
                Ok(owned) => (owned, is_limited),
                Err(SplitError::Budget { .. } | SplitError::Piece { .. }) if round == 0 => {
                    (division.smallest()?, false)
                }
                Err(error) => {
                    refusal = Some(error.into());
                    break;
                }
            };
            if !tried.insert(owned.clone()) {
                break;
            }
            is_refused = false;
            match self.planned(division, &owned, has_limits) {
                Ok(sections) => {
                    let is_step = self.step.is_some();
                    let arena = |device: &DeviceMemory| device.peak.saturating_sub(device.weights);
                    division.learn(&owned, &sections.manifest, |device| {
                        if is_step { device.arena } else { arena(device) }
                    });
                    let devices = &sections.manifest.devices;
                    let fits =
                        devices.iter().all(|device| device.budget.is_none_or(|most| device.peak <= most));
                    let largest = |sections: &Sections| {
                        sections.manifest.devices.iter().map(|device| device.peak).max()
                    };
                    let time = slowest(&sections, self.devices);
                    let is_better = |best: &Sections| match is_limited {
                        true => time < slowest(best, self.devices),
                        false => largest(&sections) < largest(best),
                    };
                    if fits && best.as_ref().is_none_or(is_better) {
                        best = Some(sections);
                    }
                    // Plans within limits may take longer than the solver expects.
                    if fits && has_limits && time <= division.expected().saturating_add(MORE_NANOS) {
                        break;
                    }
                }
                // A section is too large for what its device has beside weights and messages.
                Err(Error::Pipeline(error)) if has_limits => {
                    refusal = Some(Error::Pipeline(error));
                    is_refused = true;
                    division.shrink();
                }
                Err(error) => return Err(error),
            }
        }
        best.ok_or_else(|| refusal.unwrap_or_else(|| division.refused().into()))
    }

    /// Plans all sections and derives the manifest.
    fn planned(
        &self,
        division: &Division<'_>,
        owned: &[Vec<usize>],
        has_limits: bool,
    ) -> Result<Sections, Error> {
        if let Some(step) = self.step {
            return step.planned(self, owned, has_limits);
        }
        let portions = portions(&division.whole(owned), owned);
        let cuts = cut::cuts(portions, &|_| self.graph);
        linked(&cuts, self.devices)?;
        let held = program::held_bytes(self.graph, &cuts, self.devices);
        let mut all = Vec::new();
        for (position, (cut, held)) in cuts.iter().zip(held).enumerate() {
            let section = cut::section(self.file, self.graph, cut)?;
            let pairs = kept::of_section(self.graph, &cuts, position);
            let mut request = of_section(self.request, (self.graph, &section), cut, pairs)?;
            if let Some(budget) = self.devices.budget(cut.portion.rank).filter(|_| has_limits) {
                let rest = budget.saturating_sub(division.weights(cut)).saturating_sub(held);
                request.budgets = vec![Budget::from(Size::Bytes(rest))];
            }
            all.push(plan(&section, &request)?);
        }
        let (file, request, devices) = (self.file, self.request, self.devices);
        let sizes = Sizes { part: self.graph, whole: self.graph, step: None };
        let mut programs = vec![Vec::new(); devices.count];
        let all_events = program::programs(&cuts, devices.micro_batches, self.graph);
        cuts.iter().zip(all_events).for_each(|(cut, events)| programs[cut.portion.rank] = events);
        let (cuts, planned, programs, sizes) = (&cuts, &all, &programs, &sizes);
        let manifest =
            Story { file, request, devices, cuts, planned, programs, sizes, pipeline: None }.manifest()?;
        Ok(Sections { planned: all, prepared: None, manifest })
    }
}

/// Modelled time of the slowest device: of its sections, once each, and of the values that it sends and
/// receives over its slowest link, in nanoseconds.
fn slowest(sections: &Sections, devices: &Devices) -> u64 {
    let (manifest, links) = (&sections.manifest, devices.slowest_paths());
    let mut times = vec![0.0; devices.count];
    for (section, planned) in manifest.sections.iter().zip(&sections.planned) {
        let Some(rank) = manifest.devices.iter().position(|device| device.name == section.device) else {
            continue;
        };
        let name = section.name();
        let crosses = |value: &&Crossing| {
            let makes = value.from.as_deref() == Some(name) && !value.to.is_empty();
            makes || value.from.is_some() && value.to.iter().any(|to| to == name)
        };
        times[rank] += planned.layout.cost.modelled_ns_after;
        let Some(link) = links[rank] else { continue };
        let sent = manifest
            .values
            .iter()
            .filter(crosses)
            .map(|value| link.latency.0 + value.bytes as f64 / link.bytes_per_second * 1e9);
        times[rank] += sent.sum::<f64>();
    }
    times.into_iter().fold(0.0, f64::max) as u64
}

/// Rejects values between devices without a link.
///
/// # Errors
/// A value goes from one device to another, and no link joins them.
fn linked(cuts: &[Cut], devices: &Devices) -> Result<(), SplitError> {
    let (makers, paths) = (cut::makers(cuts), devices.paths());
    for cut in cuts {
        let to = cut.portion.rank;
        for name in &cut.inputs {
            let Some(from) = makers.get(name.as_str()).map(|maker| cuts[*maker].portion.rank) else {
                continue;
            };
            let joins =
                |path: &Path| (path.from, path.to) == (from, to) || (path.to, path.from) == (from, to);
            if from != to && !paths.iter().any(joins) {
                return Err(SplitError::NoLink { from: from.min(to), to: from.max(to) });
            }
        }
    }
    Ok(())
}

/// The nodes of each section, one a device.
fn portions(whole: &[BTreeSet<usize>], owned: &[Vec<usize>]) -> Vec<Portion> {
    let all = whole.iter().zip(owned).enumerate().filter(|(_, (units, _))| !units.is_empty());
    let portion = |(rank, (units, owned)): (usize, (&BTreeSet<usize>, &Vec<usize>))| Portion {
        name: Devices::name(rank),
        rank,
        more: Vec::new(),
        phase: None,
        units: units.clone(),
        owned: owned.iter().copied().collect(),
    };
    all.map(portion).collect()
}

/// The request for the plan of a section: its extents are those of its interface, and its new values take the
/// storage of old ones by name.
fn of_section(
    request: &Request,
    (graph, section): (&Graph<'_>, &ModelFile),
    cut: &Cut,
    pairs: Vec<StateNames>,
) -> Result<Request, Error> {
    let mut own = request.clone();
    own.import.dims.clear();
    own.import.equal.clear();
    // A section may lack some of the free dimensions.
    let domain = graph.module.domain();
    let open = if domain.is_empty() { BTreeSet::new() } else { memc_onnx_import::open_dimensions(section)? };
    own.import.ranges = domain
        .ranges
        .iter()
        .filter(|(name, _)| open.contains(*name))
        .map(|(name, range)| (name.clone(), *range))
        .collect();
    let is_own = |limit: &&Limit| limit.of.symbols().iter().all(|symbol| open.contains(symbol.as_ref()));
    own.import.limits = domain.limits.iter().filter(is_own).cloned().collect();
    if own.alias_state || !own.state.is_empty() {
        (own.alias_state, own.state, own.io) = (false, pairs, Some(Io::External));
    }
    own.external_data = request.external_data.as_ref().map(|data| data.of_model(&cut.portion.name));
    Ok(own)
}

/// Formats bytes for errors.
fn exact(bytes: u64) -> String {
    Bytes(bytes).exact()
}
