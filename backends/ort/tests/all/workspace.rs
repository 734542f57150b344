//! Compares planned workspace with the workspace that ONNX Runtime's kernels allocate, in one model with
//! a node a case.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;

use memc_layout::Class;
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, NodeProto, attribute_proto::AttributeType};
use memc_ort::inputs::Seeded;
use memc_ort::{Clocks, PlayOptions, Player};
use support::graph::{FLOAT, integer, model, node, value};
use support::{plan, runtime, written};

/// Most bytes that a plan may give to a kernel beyond the counted ones, in addition to a share of them.
const SLACK: u64 = 2048;

/// A node: operator, extents of its operands (empty for an omitted operand), number of results,
/// attributes.
struct Case {
    op: &'static str,
    operands: Vec<&'static [i64]>,
    results: usize,
    attributes: Vec<AttributeProto>,
}

fn integers(name: &str, numbers: &[i64]) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.to_owned()), ints: numbers.to_vec(), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Ints);
    attribute
}

fn word(name: &str, text: &str) -> AttributeProto {
    let mut attribute = AttributeProto {
        name: Some(name.to_owned()),
        s: Some(text.as_bytes().to_vec()),
        ..AttributeProto::default()
    };
    attribute.set_type(AttributeType::String);
    attribute
}

fn case(op: &'static str, operands: &[&'static [i64]], attributes: Vec<AttributeProto>) -> Case {
    Case { op, operands: operands.to_vec(), results: 1, attributes }
}

fn conv(data: &'static [i64], weight: &'static [i64], group: i64, more: Vec<AttributeProto>) -> Case {
    case("Conv", &[data, weight], [vec![integer("group", group)], more].concat())
}

fn layer(op: &'static str, operands: [&'static [i64]; 3], hidden: i64, direction: &str) -> Case {
    let attributes = vec![integer("hidden_size", hidden), word("direction", direction)];
    Case { results: 2, ..case(op, &operands, attributes) }
}

/// Returns convolutions with images, groups, axes, strides, dilations, kernels as wide as the image, and
/// more filters than positions; and other operators with buffers.
fn cases() -> Vec<Case> {
    let pads = |count: usize| integers("pads", &vec![1; count]);
    vec![
        conv(&[1, 16, 32, 32], &[16, 16, 3, 3], 1, vec![pads(4)]),
        conv(&[5, 16, 32, 32], &[16, 16, 3, 3], 1, vec![pads(4)]),
        conv(&[1, 16, 32, 32], &[16, 8, 3, 3], 2, vec![pads(4)]),
        conv(&[3, 16, 32, 32], &[32, 1, 5, 5], 16, vec![]),
        conv(&[2, 4, 40, 48], &[8, 4, 3, 39], 1, vec![]),
        conv(
            &[2, 8, 33, 31],
            &[8, 8, 3, 3],
            1,
            vec![integers("strides", &[2, 3]), integers("dilations", &[2, 1])],
        ),
        conv(&[2, 8, 500], &[8, 4, 9], 2, vec![]),
        conv(&[2, 4, 9, 8, 7], &[6, 4, 3, 2, 3], 1, vec![pads(6)]),
        conv(&[2, 2, 6, 5, 4, 5], &[3, 2, 2, 2, 2, 2], 1, vec![]),
        conv(&[2, 32, 4, 4], &[64, 32, 3, 3], 1, vec![pads(4)]),
        conv(&[2, 32, 4, 4], &[64, 16, 3, 3], 2, vec![pads(4)]),
        conv(&[4, 12, 20, 20], &[9, 4, 1, 1], 3, vec![]),
        conv(&[2, 6, 20, 20], &[4, 6, 1, 1], 1, vec![integers("strides", &[2, 2])]),
        conv(&[2, 3, 10, 20], &[3, 1, 4, 20], 3, vec![]),
        case("ConvTranspose", &[&[3, 8, 9, 10], &[8, 5, 3, 4]], vec![integers("strides", &[2, 2])]),
        case("ConvTranspose", &[&[2, 8, 9, 10], &[8, 5, 3, 4]], vec![integer("group", 4)]),
        case("LRN", &[&[3, 20, 12, 12]], vec![integer("size", 5)]),
        case("Softmax", &[&[8, 40, 30]], vec![integer("axis", 1)]),
        case("MeanVarianceNormalization", &[&[3, 8, 15, 12]], vec![integers("axes", &[0, 2, 3])]),
        case("MeanVarianceNormalization", &[&[3, 8, 15, 12]], vec![integers("axes", &[2, 3])]),
        case("Sum", &[&[30, 40], &[40], &[30, 1]], vec![]),
        case("DFT", &[&[3, 100, 2]], vec![]),
        case("DFT", &[&[3, 128, 2]], vec![]),
        layer("RNN", [&[26, 12, 34], &[2, 95, 34], &[2, 95, 95]], 95, "bidirectional"),
        layer("GRU", [&[19, 11, 13], &[2, 72, 13], &[2, 72, 24]], 24, "bidirectional"),
        layer("GRU", [&[19, 11, 13], &[1, 72, 13], &[1, 72, 24]], 24, "reverse"),
        layer("LSTM", [&[15, 6, 7], &[2, 192, 7], &[2, 192, 48]], 48, "bidirectional"),
    ]
}

/// A clock that stands still: only workspace is measured.
fn no_clock() -> u64 {
    0
}

#[test]
fn kernels_take_the_workspace_that_plans_give_them() {
    let cases = cases();
    let mut graph = GraphProto { name: Some("cases".to_owned()), ..GraphProto::default() };
    for (index, case) in cases.iter().enumerate() {
        let operands: Vec<String> =
            (0..case.operands.len()).map(|operand| format!("x{index}_{operand}")).collect();
        let results: Vec<String> = (0..case.results).map(|result| format!("y{index}_{result}")).collect();
        let names = |names: &[String]| names.iter().map(|name| name.to_owned()).collect::<Vec<_>>();
        graph
            .input
            .extend(operands.iter().zip(&case.operands).map(|(name, dims)| value(name, FLOAT, Some(dims))));
        graph.output.extend(results.iter().map(|name| value(name, FLOAT, None)));
        let made = NodeProto {
            input: names(&operands),
            output: names(&results),
            ..node(case.op, &[], &[results[0].as_str()])
        };
        graph.node.push(NodeProto { attribute: case.attributes.clone(), ..made });
    }
    let file = written("workspace_of_cases", &model(graph));
    let (out, layout) = plan(&file, |options| {
        options.runtime = memc::Runtime::Player;
        options.passes = Some("view,in-place,place".to_owned());
    });
    let mut planned: BTreeMap<u64, u64> = BTreeMap::new();
    for tensor in layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch) {
        *planned.entry(tensor.step.unwrap()).or_default() += tensor.bytes;
    }
    let runtime = runtime();
    let mut player =
        Player::with_weights_in(&runtime, &out, &layout, PlayOptions::default(), Path::new("")).unwrap();
    let inputs = Seeded::new(&out, &layout, 7).unwrap();
    let counted = player.profile(&inputs, 1, Clocks { wall: no_clock, processor: no_clock }).unwrap();
    assert_eq!(counted.len(), cases.len());
    let mut wrong = Vec::new();
    for (step, (row, entry)) in counted.iter().zip(&layout.schedule).enumerate() {
        assert_eq!(row.node, entry.node);
        let planned = planned.get(&(step as u64)).copied().unwrap_or(0);
        if !(row.workspace..=row.workspace + row.workspace / 50 + SLACK).contains(&planned) {
            wrong
                .push(format!("{} {}: {planned} bytes planned, {} counted", row.op, row.node, row.workspace));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counted.iter().filter(|row| row.workspace > 0).count() > cases.len() / 2, "{counted:?}");
}
