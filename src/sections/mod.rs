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
mod program;

use std::collections::BTreeSet;

use memc_ir::Bytes;
use memc_layout::devices::Manifest;
use memc_onnx_proto::ModelFile;

use crate::error::Error;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::{Budget, Request};
use crate::size::Size;
use crate::split_error::SplitError;

use divide::Division;
use graph::Graph;

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
    let graph = Graph::new(file, request)?;
    let mut division = Division::new(&graph, devices, request)?;
    let mut tried: BTreeSet<Vec<Vec<usize>>> = BTreeSet::new();
    let mut best: Option<Sections> = None;
    division.keeps_weights()?;
    let mut refusal: Option<Error> = None;
    for round in 0..MAX_ROUNDS {
        // Before anything is planned, arenas are estimates: sections without limits then give their sizes.
        let (owned, is_limited) = match division.solve() {
            Ok(owned) => (owned, devices.has_budgets()),
            Err(SplitError::Budget { .. } | SplitError::Piece { .. }) if round == 0 => (division.smallest()?, false),
            Err(error) => {
                refusal = Some(error.into());
                break;
            }
        };
        if !tried.insert(owned.clone()) {
            break;
        }
        match planned(file, &graph, request, devices, &division, &owned, is_limited) {
            Ok(sections) => {
                division.learn(&owned, &sections.manifest);
                let fits = sections.manifest.devices.iter().all(|device| device.budget.is_none_or(|most| device.peak <= most));
                let largest = |sections: &Sections| sections.manifest.devices.iter().map(|device| device.peak).max();
                let is_better = best.as_ref().is_none_or(|best| devices.has_budgets() || largest(&sections) < largest(best));
                if fits && is_better {
                    best = Some(sections);
                }
                if fits && is_limited {
                    break;
                }
            }
            // A section is too large for what its device has beside weights and messages.
            Err(Error::Pipeline(error)) if is_limited => {
                refusal = Some(Error::Pipeline(error));
                division.shrink();
            }
            Err(error) => return Err(error),
        }
    }
    match best {
        Some(best) if request.check => check::prove(file, &best).map(|()| best),
        Some(best) => Ok(best),
        None => Err(refusal.unwrap_or_else(|| division.refused().into())),
    }
}

/// Plans all sections and derives the manifest.
fn planned(
    file: &ModelFile,
    graph: &Graph<'_>,
    request: &Request,
    devices: &Devices,
    division: &Division<'_>,
    owned: &[Vec<usize>],
    is_limited: bool,
) -> Result<Sections, Error> {
    let cuts = cut::cuts(graph, &division.whole(owned), owned);
    let held = program::held_bytes(graph, &cuts, devices);
    let mut all = Vec::new();
    for (cut, held) in cuts.iter().zip(held) {
        let section = cut::section(file, graph, cut)?;
        let mut request = request.clone();
        request.import.dims.clear();
        if let Some(budget) = devices.budget(cut.rank).filter(|_| is_limited) {
            let rest = budget.saturating_sub(division.weights(cut)).saturating_sub(held);
            request.budgets = vec![Budget::from(Size::Bytes(rest))];
        }
        all.push(plan(&section, &request)?);
    }
    let manifest = manifest::manifest(file, graph, request, devices, &cuts, &all)?;
    Ok(Sections { planned: all, manifest })
}

/// Formats bytes for errors.
fn exact(bytes: u64) -> String {
    Bytes(bytes).exact()
}
