//! The manifest of planned sections.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Copied, Crossing, DeviceMemory, Manifest, Path, Section, Source, VERSION};
use memc_onnx_proto::ModelFile;

use super::cut::{Cut, makers};
use super::graph::Graph;
use super::options::Devices;
use super::program::{most_held, programs, readers};
use crate::error::Error;
use crate::planned::Planned;
use crate::request::Request;
use crate::split_error::SplitError;

/// States what the files of the sections mean together.
pub(super) fn manifest(
    file: &ModelFile,
    graph: &Graph<'_>,
    request: &Request,
    devices: &Devices,
    cuts: &[Cut],
    planned: &[Planned],
) -> Result<Manifest, Error> {
    let programs = programs(cuts, devices.micro_batches, &graph.outputs);
    let bytes = |name: &str| graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
    let mut memory: Vec<DeviceMemory> = (0..devices.count)
        .map(|rank| DeviceMemory { name: Devices::name(rank), budget: devices.budget(rank), ..DeviceMemory::default() })
        .collect();
    let mut sections = Vec::new();
    for ((cut, planned), events) in cuts.iter().zip(planned).zip(&programs) {
        let (held, event) = most_held(events, &cut.outputs, bytes);
        let device = &mut memory[cut.rank];
        device.weights = planned.layout.weights;
        device.arena = planned.layout.arenas.iter().map(|arena| arena.size).sum();
        device.peak = device.weights.saturating_add(device.arena).saturating_add(held);
        device.event = event;
        let name = Devices::name(cut.rank);
        let (model, layout) = (format!("{name}.onnx"), format!("{name}.layout.json"));
        let text = memc_layout::to_json(&planned.layout)?;
        sections.push(Section {
            device: name,
            model,
            model_sha256: planned.layout.model.output_sha256.clone(),
            layout,
            layout_sha256: memc_onnx_export::sha256(text.as_bytes()),
            nodes: cut.units.iter().map(|unit| *unit as u64).collect(),
            known: cut.known.iter().cloned().collect(),
        });
    }
    let paths = devices.paths().into_iter().map(|path| Path {
        from: Devices::name(path.from),
        to: Devices::name(path.to),
        bytes_per_second: path.bytes_per_second,
        latency_ns: path.latency.0,
    });
    Ok(Manifest {
        schema: VERSION.to_owned(),
        memc_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source { sha256: memc_onnx_export::sha256(file.bytes()), dims: dims(graph, request) },
        micro_batches: devices.micro_batches,
        devices: memory,
        links: paths.collect(),
        sections,
        values: values(graph, cuts)?,
        copies: copies(graph, cuts),
        program: cuts.iter().map(|cut| Devices::name(cut.rank)).zip(programs).collect(),
    })
}

/// The extents of the request that the model's inputs have.
fn dims(graph: &Graph<'_>, request: &Request) -> BTreeMap<String, u64> {
    let stated = request.import.dims.iter().map(|(name, extent)| (name.clone(), *extent));
    graph.module.dims.clone().into_iter().chain(stated).collect()
}

/// Graph inputs, values between sections and graph outputs: fed ones first, then by maker.
fn values(graph: &Graph<'_>, cuts: &[Cut]) -> Result<Vec<Crossing>, SplitError> {
    let (maker, readers) = (makers(cuts), readers(cuts));
    let fed = graph.inputs.iter().filter(|name| readers.contains_key(name.as_str()));
    let all = fed.chain(cuts.iter().flat_map(|cut| &cut.outputs));
    all.map(|name| {
        let tensor = graph.tensors.get(name).ok_or_else(|| SplitError::Unsized { name: name.clone() })?;
        Ok(Crossing {
            name: name.clone(),
            dtype: tensor.element.onnx_name().to_owned(),
            shape: tensor.shape.clone(),
            bytes: tensor.bytes,
            from: maker.get(name.as_str()).map(|rank| Devices::name(*rank)),
            to: readers.get(name.as_str()).into_iter().flatten().map(|rank| Devices::name(*rank)).collect(),
            output: graph.outputs.contains(name),
        })
    })
    .collect()
}

/// Weights that several sections read, by name.
fn copies(graph: &Graph<'_>, cuts: &[Cut]) -> Vec<Copied> {
    let mut holders: BTreeMap<&String, BTreeSet<usize>> = BTreeMap::new();
    for cut in cuts {
        for name in cut.units.iter().flat_map(|unit| &graph.units[*unit].weights) {
            holders.entry(name).or_default().insert(cut.rank);
        }
    }
    let several = holders.into_iter().filter(|(_, ranks)| ranks.len() > 1);
    several
        .map(|(name, ranks)| Copied {
            tensor: name.clone(),
            devices: ranks.into_iter().map(Devices::name).collect(),
            bytes: graph.tensors.get(name).map_or(0, |tensor| tensor.bytes),
        })
        .collect()
}
