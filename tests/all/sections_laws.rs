//! Laws of divisions, on random networks: one device gets the plan of the whole model; one more device, a
//! faster link or a larger budget never gives a slower division or a refusal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc::{DevicePath, Devices, Model, Sections, Size, SplitError};
use memc_ir::Nanos;
use memc_layout::devices::Crossing;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
use memc_onnx_proto::onnx::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, type_proto,
};
use prost::Message as _;

use crate::sections::request;

/// Networks that are tried.
fn seeds() -> std::ops::Range<u64> {
    0..std::env::var("MEMC_SPLIT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// A generator of numbers: the same ones in every run.
struct Numbers(u64);

impl Numbers {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Products, sums and activations in a random graph, some with weights that another layer reads too.
fn network(seed: u64) -> Model {
    let mut numbers = Numbers(seed);
    let (rows, width) = (4 << numbers.below(5), 16 << numbers.below(3));
    let dim = |extent: usize| Dimension {
        value: Some(dimension::Value::DimValue(extent as i64)),
        denotation: None,
    };
    let info = |name: String| {
        let shape = Some(TensorShapeProto { dim: vec![dim(rows), dim(width)] });
        let kind = type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(1), shape });
        let r#type = Some(TypeProto { denotation: None, value: Some(kind) });
        ValueInfoProto { name: Some(name), r#type, ..ValueInfoProto::default() }
    };
    let mut graph = GraphProto {
        name: Some("random".to_owned()),
        input: vec![info("x0".to_owned())],
        ..GraphProto::default()
    };
    let layers = 8 + numbers.below(14);
    for layer in 1..=layers {
        // Most layers read the one before, some an earlier one. Plans merge equal nodes and Relus in a row:
        // no division knows their times, so there are none.
        let near = layer - 1;
        let far = numbers.below(layer);
        let main = if numbers.below(5) == 0 { far } else { near };
        let of = |graph: &GraphProto, op: &str, value: usize| {
            let name = format!("x{value}");
            graph
                .node
                .iter()
                .any(|node| node.op_type() == op && (node.input[0] == name || node.output[0] == name))
        };
        let (op, inputs) = match numbers.below(4) {
            0 if !of(&graph, "Relu", main) => ("Relu", vec![format!("x{main}")]),
            1 if !of(&graph, "Add", main) && !of(&graph, "Add", far) => {
                ("Add", vec![format!("x{main}"), format!("x{far}")])
            }
            _ => {
                let shared = numbers.below(layer);
                let is_free =
                    graph.node.iter().all(|node| node.input != [format!("x{main}"), format!("w{shared}")]);
                let owner = if numbers.below(5) == 0 && is_free { shared } else { layer };
                let name = format!("w{owner}");
                if graph.initializer.iter().all(|tensor| tensor.name() != name) {
                    let count = width * width;
                    let items = (0..count)
                        .flat_map(|at| (((at * 7 + layer * 131) % 997) as f32 * 0.001 - 0.5).to_le_bytes());
                    graph.initializer.push(TensorProto {
                        name: Some(name.clone()),
                        data_type: Some(1),
                        dims: vec![width as i64; 2],
                        raw_data: Some(items.collect::<Vec<u8>>().into()),
                        ..TensorProto::default()
                    });
                }
                ("MatMul", vec![format!("x{main}"), name])
            }
        };
        graph.node.push(NodeProto {
            name: Some(format!("n{layer}")),
            op_type: Some(op.to_owned()),
            input: inputs,
            output: vec![format!("x{layer}")],
            ..NodeProto::default()
        });
    }
    // What no layer reads is a result.
    let is_read = |name: &String| graph.node.iter().any(|node| node.input.contains(name));
    let unread = (1..=layers).map(|layer| format!("x{layer}")).filter(|name| !is_read(name));
    graph.output = unread.map(info).collect();
    let opset = OperatorSetIdProto { domain: None, version: Some(17) };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    Model::from_bytes(model.encode_to_vec()).unwrap()
}

/// Devices with one rate of all links, and a budget for each.
fn devices(count: usize, bytes_per_second: f64, budget: u64) -> Devices {
    let mut devices = Devices::new(count);
    let pairs = (0..count).flat_map(|from| (from + 1..count).map(move |to| (from, to)));
    devices.links =
        pairs.map(|(from, to)| DevicePath { from, to, bytes_per_second, latency: Nanos(1000.0) }).collect();
    devices.budgets = vec![Size::Bytes(budget)];
    devices
}

/// Modelled time of the slowest section with its transfers, in nanoseconds.
fn slowest(sections: &Sections, bytes_per_second: f64) -> f64 {
    let manifest = &sections.manifest;
    let all = manifest.sections.iter().zip(&sections.planned).map(|(section, planned)| {
        let crosses = |value: &&Crossing| {
            let makes = value.from.as_ref() == Some(&section.device) && !value.to.is_empty();
            makes || value.from.is_some() && value.to.contains(&section.device)
        };
        let moved = manifest
            .values
            .iter()
            .filter(crosses)
            .map(|value| 1000.0 + value.bytes as f64 / bytes_per_second * 1e9);
        planned.layout.cost.modelled_ns_after + moved.sum::<f64>()
    });
    all.fold(0.0, f64::max)
}

/// A division; `None` if the network has fewer pieces than there are devices.
fn divided(file: &Model, devices: &Devices) -> Option<Sections> {
    match memc::split(file, &request(), devices) {
        Err(memc::Error::Split(SplitError::TooManyDevices { .. })) => None,
        found => Some(found.unwrap()),
    }
}

/// Largest peak of any device.
fn largest(sections: &Sections) -> u64 {
    sections.manifest.devices.iter().map(|device| device.peak).max().unwrap()
}

/// Rounding of times to whole nanoseconds, a node.
const ROUNDING: f64 = 64.0;

#[test]
fn one_device_gets_the_plan_of_each_network() {
    for seed in seeds() {
        let file = network(seed);
        let whole = memc::plan(&file, &request()).unwrap();
        let sections = memc::split(&file, &request(), &Devices::new(1)).unwrap();
        let [section] = sections.planned.as_slice() else { panic!("{seed}") };
        assert_eq!(section.layout.arenas, whole.layout.arenas, "{seed}");
        assert_eq!(section.layout.tensors, whole.layout.tensors, "{seed}");
        assert_eq!(section.layout.schedule, whole.layout.schedule, "{seed}");
    }
}

#[test]
fn one_more_device_is_never_slower_or_refused() {
    for seed in seeds() {
        let file = network(seed);
        for rate in [1e8, 1e10] {
            let mut before = f64::INFINITY;
            for count in 1..5 {
                let Some(sections) = divided(&file, &devices(count, rate, 1 << 30)) else { break };
                let time = slowest(&sections, rate);
                assert!(
                    time <= before + ROUNDING,
                    "seed {seed}, {count} devices at {rate}: {time} after {before}"
                );
                before = time;
            }
        }
    }
}

#[test]
fn a_faster_link_is_never_slower() {
    for seed in seeds() {
        let file = network(seed);
        let mut before = f64::INFINITY;
        for rate in [1e7, 1e8, 1e9, 1e10, 1e11] {
            let Some(sections) = divided(&file, &devices(3, rate, 1 << 30)) else { break };
            let time = slowest(&sections, rate);
            assert!(time <= before + ROUNDING, "seed {seed}, {rate}: {time} after {before}");
            before = time;
        }
    }
}

#[test]
fn a_larger_budget_is_never_refused_or_slower() {
    for seed in seeds() {
        let file = network(seed);
        let free = Devices { budgets: Vec::new(), ..devices(3, 1e9, 0) };
        let Some(free) = divided(&file, &free) else { continue };
        let least = largest(&free);
        let (mut before, mut is_kept) = (f64::INFINITY, false);
        for percent in [70, 85, 100, 110, 130, 170, 400] {
            let budget = least * percent / 100;
            match memc::split(&file, &request(), &devices(3, 1e9, budget)) {
                Ok(sections) => {
                    assert!(largest(&sections) <= budget, "seed {seed}, {budget}");
                    let time = slowest(&sections, 1e9);
                    assert!(time <= before + ROUNDING, "seed {seed}, {percent} %: {time} after {before}");
                    (before, is_kept) = (time, true);
                }
                Err(error) => {
                    assert!(!is_kept && percent < 100, "seed {seed}, {percent} %: {error}");
                    assert_eq!(error.exit_code(), 3, "seed {seed}: {error}");
                }
            }
        }
    }
}
