//! The manifest of planned sections.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Dim, DimExpr, Range, TensorType};
use memc_layout::devices::{
    Collective, Copied, Crossing, DeviceMemory, Equal, Event, Join, Joined, Manifest, Path, Pipeline,
    Section, Source, Updated, VERSION,
};
use memc_layout::{Class, Extents, Limit, Tensor};
use memc_onnx_proto::ModelFile;

use super::cut::{Cut, makers, readers};
use super::graph::{self, Graph};
use super::options::Devices;
use super::program::{Sizes, most_held};
use crate::error::Error;
use crate::planned::Planned;
use crate::request::Request;
use crate::split_error::SplitError;

/// A division of which all sections are planned.
pub(super) struct Story<'s> {
    pub file: &'s ModelFile,
    pub request: &'s Request,
    pub devices: &'s Devices,
    /// Sections, by rank and phase.
    pub cuts: &'s [Cut],
    /// Their plans.
    pub planned: &'s [Planned],
    /// Events of each rank.
    pub programs: &'s [Vec<Event>],
    pub sizes: &'s Sizes<'s>,
    /// A training step.
    pub pipeline: Option<&'s Joins>,
}

/// Values of a training step.
#[derive(Clone, Debug)]
pub(super) struct Joins {
    pub pipeline: Pipeline,
    /// How values of parts make that of the step.
    pub joined: BTreeMap<String, (Join, Option<u64>)>,
    /// Values with one form, that of the step.
    pub once: BTreeSet<String>,
    /// What all devices do together.
    pub collectives: Vec<Collective>,
}

impl Story<'_> {
    /// States what the files of the sections mean together.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        let whole = self.sizes.whole;
        let mut memory: Vec<DeviceMemory> = Vec::new();
        for rank in 0..self.devices.count {
            memory.push(self.memory(rank));
        }
        let mut sections = Vec::new();
        for (cut, planned) in self.cuts.iter().zip(self.planned) {
            let portion = &cut.portion;
            let text = memc_layout::to_json(&planned.layout)?;
            let device = Devices::name(portion.rank);
            sections.push(Section {
                name: (portion.name != device).then(|| portion.name.clone()),
                devices: portion.ranks().map(Devices::name).filter(|_| !portion.more.is_empty()).collect(),
                device,
                phase: portion.phase,
                model: format!("{}.onnx", portion.name),
                model_sha256: planned.layout.model.output_sha256.clone(),
                layout: format!("{}.layout.json", portion.name),
                layout_sha256: memc_onnx_export::sha256(text.as_bytes()),
                nodes: portion.units.iter().map(|unit| *unit as u64).collect(),
                known: cut.known.iter().cloned().collect(),
            });
        }
        let paths = self.devices.paths().into_iter().map(|path| Path {
            from: Devices::name(path.from),
            to: Devices::name(path.to),
            bytes_per_second: path.bytes_per_second,
            latency_ns: path.latency.0,
        });
        let state = self.state();
        let ranks: BTreeSet<usize> = self.cuts.iter().flat_map(|cut| cut.portion.ranks()).collect();
        Ok(Manifest {
            schema: VERSION.to_owned(),
            memc_version: env!("CARGO_PKG_VERSION").to_owned(),
            source: source(self.file, whole, self.request),
            micro_batches: self.devices.micro_batches,
            pipeline: self.pipeline.map(|joins| joins.pipeline.clone()),
            devices: memory,
            links: paths.collect(),
            sections,
            values: self.values()?,
            copies: copies(whole, self.cuts, &state),
            collectives: self.pipeline.map(|joins| joins.collectives.clone()).unwrap_or_default(),
            state,
            program: ranks
                .into_iter()
                .map(|rank| (Devices::name(rank), self.programs.get(rank).cloned().unwrap_or_default()))
                .collect(),
        })
    }

    /// New values that lie in the storage of old ones, by section.
    fn state(&self) -> Vec<Updated> {
        let rows = self.cuts.iter().zip(self.planned).flat_map(|(cut, planned)| {
            planned.layout.state.iter().map(|row| Updated {
                section: cut.portion.name.clone(),
                tensor: row.tensor.clone(),
                result: row.result.clone(),
            })
        });
        rows.collect()
    }

    /// Memory of a device: its sections take turns, so they share its arena, and weights of equal names.
    fn memory(&self, rank: usize) -> DeviceMemory {
        let name = Devices::name(rank);
        let mut device = DeviceMemory { name, budget: self.devices.budget(rank), ..DeviceMemory::default() };
        let own = || self.cuts.iter().zip(self.planned).filter(|(cut, _)| cut.portion.runs_on(rank));
        let cuts: Vec<&Cut> = own().map(|(cut, _)| cut).collect();
        let mut weights: BTreeSet<&str> = BTreeSet::new();
        for (cut, planned) in own() {
            let layout = &planned.layout;
            let read: BTreeSet<&str> = read_weights(self.sizes.whole, cut);
            // Old values that are written over are weights as well, and the layout counts them apart.
            let is_held = |tensor: &&Tensor| {
                matches!(tensor.class, Class::Constant | Class::State) && read.contains(tensor.name.as_str())
            };
            let updated = layout.tensors.iter().filter(is_held).filter(|tensor| tensor.class == Class::State);
            let updated: u64 = updated.map(|tensor| tensor.bytes).sum();
            let again =
                layout.tensors.iter().filter(is_held).filter(|tensor| weights.contains(tensor.name.as_str()));
            let again = again.filter(|tensor| {
                self.sizes.whole.tensors.get(&tensor.name).is_some_and(|own| own.bytes == tensor.bytes)
            });
            let again: u64 = again.map(|tensor| tensor.bytes).sum();
            device.weights =
                device.weights.saturating_add(layout.weights.saturating_add(updated).saturating_sub(again));
            device.arena = device.arena.max(layout.arenas.iter().map(|arena| arena.size).sum());
            weights.extend(read);
        }
        let empty = Vec::new();
        let stored =
            own().flat_map(|(_, planned)| &planned.layout.state).map(|row| row.result.as_str()).collect();
        let (held, event) = most_held(self.programs.get(rank).unwrap_or(&empty), &cuts, self.sizes, &stored);
        device.peak = device.weights.saturating_add(device.arena).saturating_add(held);
        device.event = event;
        device
    }

    /// Graph inputs, values between sections and graph outputs: fed ones first, then by maker.
    fn values(&self) -> Result<Vec<Crossing>, SplitError> {
        let (maker, readers) = (makers(self.cuts), readers(self.cuts));
        let whole = self.sizes.whole;
        let is_used = |name: &&String| readers.contains_key(name.as_str()) || whole.outputs.contains(name);
        let fed = whole.inputs.iter().filter(is_used);
        let all = fed.chain(self.cuts.iter().flat_map(|cut| &cut.outputs));
        all.map(|name| {
            let sized = |graph: &Graph<'_>| {
                graph.tensors.get(name).cloned().ok_or_else(|| SplitError::Unsized { name: name.clone() })
            };
            let once = self.pipeline.is_some_and(|joins| joins.once.contains(name));
            let whole = sized(self.sizes.whole)?;
            let tensor = if once { whole.clone() } else { sized(self.sizes.part)? };
            let section = |position: &usize| self.cuts[*position].portion.name.clone();
            let joined = self.pipeline.and_then(|joins| joins.joined.get(name));
            Ok(Crossing {
                name: name.clone(),
                dtype: tensor.element.onnx_name().to_owned(),
                bytes_expr: bytes_expr(&tensor),
                shape_expr: (!tensor.free.is_empty())
                    .then(|| tensor.free.iter().map(DimExpr::quoted).collect()),
                shape: tensor.shape,
                bytes: tensor.bytes,
                from: maker.get(name.as_str()).map(section),
                to: readers.get(name.as_str()).into_iter().flatten().map(section).collect(),
                output: self.sizes.whole.outputs.contains(name),
                once,
                joined: joined.map(|(by, axis)| Joined {
                    by: *by,
                    axis: *axis,
                    shape: whole.shape,
                    bytes: whole.bytes,
                }),
            })
        })
        .collect()
    }
}

/// Weights of the given model that a section reads.
fn read_weights<'g>(graph: &'g Graph<'_>, cut: &Cut) -> BTreeSet<&'g str> {
    cut.portion.units.iter().flat_map(|unit| &graph.units[*unit].weights).map(String::as_str).collect()
}

/// The given model with the extents of its dimensions.
fn source(file: &ModelFile, graph: &Graph<'_>, request: &Request) -> Source {
    let domain = graph.module.domain();
    let range =
        |range: &Range| Extents { min: range.min, max: range.max.unwrap_or(range.min), step: range.step };
    let equal =
        graph.equal.iter().filter_map(|(name, of)| Some((name.clone(), of.bind(&graph.module.dims)?)));
    Source {
        sha256: memc_onnx_export::sha256(file.bytes()),
        dims: dims(graph, request),
        ranges: domain.ranges.iter().map(|(name, own)| (name.clone(), range(own))).collect(),
        limits: domain.limits.iter().map(|limit| Limit { of: limit.of.quoted(), most: limit.most }).collect(),
        equal: equal
            .filter(|(_, of)| of.as_constant().is_none())
            .map(|(name, of)| (name, of.quoted()))
            .collect(),
        prepared: None,
    }
}

/// The size of a tensor as an expression; `None` if it is known, or a product of too many terms.
fn bytes_expr(tensor: &graph::Tensor) -> Option<String> {
    let dims = tensor.free.iter().map(|of| Dim::from_expr(of.clone())).collect();
    let size = if tensor.free.is_empty() { None } else { TensorType::new(tensor.element, dims).size_expr() };
    size.map(|size| size.quoted())
}

/// The extents of the request that the model's inputs have.
fn dims(graph: &Graph<'_>, request: &Request) -> BTreeMap<String, u64> {
    let stated = request.import.dims.iter().map(|(name, extent)| (name.clone(), *extent));
    graph.module.dims.clone().into_iter().chain(stated).collect()
}

/// Weights that several devices hold, by name.
fn copies(graph: &Graph<'_>, cuts: &[Cut], state: &[Updated]) -> Vec<Copied> {
    let mut holders: BTreeMap<&String, BTreeSet<usize>> = BTreeMap::new();
    for cut in cuts {
        for name in cut.portion.units.iter().flat_map(|unit| &graph.units[*unit].weights) {
            holders.entry(name).or_default().extend(cut.portion.ranks());
        }
    }
    let several = holders.into_iter().filter(|(_, ranks)| ranks.len() > 1);
    several
        .map(|(name, ranks)| Copied {
            tensor: name.clone(),
            devices: ranks.into_iter().map(Devices::name).collect(),
            bytes: graph.tensors.get(name).map_or(0, |tensor| tensor.bytes),
            equal: if state.iter().any(|row| row.tensor == *name) { Equal::AfterStep } else { Equal::Always },
        })
        .collect()
}
