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
mod manifest;
mod options;
mod pipeline;
mod program;

use std::collections::BTreeSet;

use memc_ir::Bytes;
use memc_layout::devices::{DeviceMemory, Manifest};
use memc_onnx_proto::ModelFile;

use crate::error::Error;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::{Budget, Request};
use crate::size::Size;
use crate::split_error::SplitError;

use cut::Portion;
use divide::{Division, Work};
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
    let found = match devices.schedule {
        Some(schedule) => pipeline::split_step(file, request, devices, schedule)?,
        None => {
            let graph = Graph::new(file, request)?;
            let work = || Work { cones: divide::cones(&graph, devices, &|_| true), ..Work::default() };
            let job = Job { file, graph: &graph, request, devices, step: None };
            job.best(&|| Division::new(&graph, devices, request, work()))?
        }
    };
    if request.check {
        check::prove(file, &found)?;
    }
    Ok(found)
}

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
            Err(refusal) if refusal.exit_code() == SHORTAGE => self.search(&mut make()?, false).map_err(|_| refusal),
            found => found,
        }
    }

    /// Divides and plans in turn, and returns the best division within the budgets. With `is_limited`, the
    /// fastest one, whose sections are planned within limits; else the one with the smallest largest device.
    fn search(&self, division: &mut Division<'_>, is_limited: bool) -> Result<Sections, Error> {
        let mut tried: BTreeSet<Vec<Vec<usize>>> = BTreeSet::new();
        let mut best: Option<Sections> = None;
        let mut refusal: Option<Error> = None;
        for round in 0..MAX_ROUNDS {
            // Before anything is planned, arenas are estimates: sections without limits give their sizes.
            let (owned, has_limits) = match division.solve(is_limited) {
                Ok(owned) => (owned, is_limited),
                Err(SplitError::Budget { .. } | SplitError::Piece { .. }) if round == 0 => (division.smallest()?, false),
                Err(error) => {
                    refusal = Some(error.into());
                    break;
                }
            };
            if !tried.insert(owned.clone()) {
                break;
            }
            match self.planned(division, &owned, has_limits) {
                Ok(sections) => {
                    let is_step = self.step.is_some();
                    let arena = |device: &DeviceMemory| device.peak.saturating_sub(device.weights);
                    division.learn(&owned, &sections.manifest, |device| if is_step { device.arena } else { arena(device) });
                    let devices = &sections.manifest.devices;
                    let fits = devices.iter().all(|device| device.budget.is_none_or(|most| device.peak <= most));
                    let largest = |sections: &Sections| sections.manifest.devices.iter().map(|device| device.peak).max();
                    if fits && best.as_ref().is_none_or(|best| is_limited || largest(&sections) < largest(best)) {
                        best = Some(sections);
                    }
                    if fits && has_limits {
                        break;
                    }
                }
                // A section is too large for what its device has beside weights and messages.
                Err(Error::Pipeline(error)) if has_limits => {
                    refusal = Some(Error::Pipeline(error));
                    division.shrink();
                }
                Err(error) => return Err(error),
            }
        }
        best.ok_or_else(|| refusal.unwrap_or_else(|| division.refused().into()))
    }

    /// Plans all sections and derives the manifest.
    fn planned(&self, division: &Division<'_>, owned: &[Vec<usize>], has_limits: bool) -> Result<Sections, Error> {
        if let Some(step) = self.step {
            return step.planned(self, owned, has_limits);
        }
        let portions = portions(&division.whole(owned), owned);
        let cuts = cut::cuts(portions, &|_| self.graph);
        let held = program::held_bytes(self.graph, &cuts, self.devices);
        let mut all = Vec::new();
        for (cut, held) in cuts.iter().zip(held) {
            let section = cut::section(self.file, self.graph, cut)?;
            let mut request = self.request.clone();
            request.import.dims.clear();
            if let Some(budget) = self.devices.budget(cut.portion.rank).filter(|_| has_limits) {
                let rest = budget.saturating_sub(division.weights(cut)).saturating_sub(held);
                request.budgets = vec![Budget::from(Size::Bytes(rest))];
            }
            all.push(plan(&section, &request)?);
        }
        let (file, request, devices) = (self.file, self.request, self.devices);
        let sizes = Sizes { part: self.graph, whole: self.graph, step: None };
        let mut programs = vec![Vec::new(); devices.count];
        let all_events = program::programs(&cuts, devices.micro_batches, &self.graph.outputs);
        cuts.iter().zip(all_events).for_each(|(cut, events)| programs[cut.portion.rank] = events);
        let (cuts, planned, programs, sizes) = (&cuts, &all, &programs, &sizes);
        let manifest = Story { file, request, devices, cuts, planned, programs, sizes, pipeline: None }.manifest()?;
        Ok(Sections { planned: all, manifest })
    }
}

/// The nodes of each section, one a device.
fn portions(whole: &[BTreeSet<usize>], owned: &[Vec<usize>]) -> Vec<Portion> {
    let all = whole.iter().zip(owned).enumerate().filter(|(_, (units, _))| !units.is_empty());
    let portion = |(rank, (units, owned)): (usize, (&BTreeSet<usize>, &Vec<usize>))| Portion {
        name: Devices::name(rank),
        rank,
        phase: None,
        units: units.clone(),
        owned: owned.iter().copied().collect(),
    };
    all.map(portion).collect()
}

/// Formats bytes for errors.
fn exact(bytes: u64) -> String {
    Bytes(bytes).exact()
}
