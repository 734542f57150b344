//! Plans for sessions with default options: `optimize --session plain` writes the form of a plan that takes
//! the least bytes there. Each model shows one of the causes for which such a session takes more than
//! planned.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::{bytes, fixed, int, integers, node, stated, with};
use crate::sessions::{PLAIN, measured};

use memc_onnx_proto::onnx::{ModelProto, NodeProto};

/// A mebibyte.
const MIB: u64 = 1 << 20;

/// Bytes of a plain session of the given model and of the written one, and the form that was chosen.
struct Taken {
    given: u64,
    planned: u64,
    form: String,
}

/// Plans a model for a plain session, and compares outputs and bytes with those of the given model.
fn taken(name: &str, model: &ModelProto, options: &str) -> Taken {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    let ran = folder
        .memc(&format!("optimize in.onnx -o out.onnx --runtime ort --no-rewrite --session plain {options}"))
        .done();
    folder.memc("check in.onnx out.onnx out.layout.json").done();
    let (given, planned) = (measured(&folder, "in.onnx", PLAIN), measured(&folder, "out.onnx", PLAIN));
    assert_eq!(given["digest"], planned["digest"], "{name}: other results\n{}", ran.err);
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let form = layout["options"]["plain"].as_str().unwrap_or_default().to_owned();
    let bytes = |found: &serde_json::Value| found["bytes"].as_u64().unwrap();
    assert!(bytes(&planned) <= bytes(&given), "{name}: {planned} > {given}");
    Taken { given: bytes(&given), planned: bytes(&planned), form }
}

/// Adds up numbers, each after the node that computes it.
fn added(nodes: &mut Vec<NodeProto>, sum: &mut Option<String>, number: &str, is_last: bool) {
    let name = if is_last { "y".to_owned() } else { format!("{number}.sum") };
    nodes.push(match sum {
        Some(sum) => node("Add", &[sum, number], &[&name]),
        None => node("Identity", &[number], &[&name]),
    });
    *sum = Some(name);
}

/// Returns values of so many copies of an input, one after another; each is added up as soon as it is there.
/// If `states` is set, their extents are stated by a constant as well, for a value computed from each.
fn copies(counts: &[usize], input: &[&str], extent: i64, states: bool) -> ModelProto {
    let (mut nodes, mut sum, mut extents) = (Vec::new(), None, Vec::new());
    for (at, count) in counts.iter().enumerate() {
        let (value, number) = (format!("v{at}"), format!("n{at}"));
        // No two values are equal, so that nothing is merged.
        let operands: Vec<&str> =
            (0..*count).map(|copy| input[usize::from(copy == at % count) % input.len()]).collect();
        nodes.push(stated(node("Concat", &operands, &[&value]), vec![int("axis", 0)]));
        let (seen, angle, sine) = (format!("r{at}"), format!("a{at}"), format!("s{at}"));
        if states {
            let name = format!("e{at}");
            nodes.push(node("Reshape", &[&value, &name], &[&seen]));
            nodes.push(node("Cos", &[&seen], &[&angle]));
            nodes.push(node("Sin", &[&angle], &[&sine]));
            nodes.push(stated(node("ReduceSum", &[&sine], &[&number]), vec![int("keepdims", 0)]));
            extents.push(integers(&name, &[*count as i64, extent]));
        } else {
            nodes.push(node("Slice", &[&value, "start", "end"], &[&number]));
        }
        added(&mut nodes, &mut sum, &number, at + 1 == counts.len());
    }
    with(nodes, |graph| {
        graph.input = input.iter().map(|name| fixed(name, &[extent])).collect();
        graph.output = vec![fixed("y", if states { &[] } else { &[1] })];
        graph.initializer = vec![integers("start", &[0]), integers("end", &[1])];
        graph.initializer.extend(extents);
    })
}

#[test]
fn regions_begin_as_large_as_they_must_be() {
    // Values of 1.5, 3, 6 and 12 MiB: an arena that grows with them has a region for each, and none for the
    // block of later runs.
    let mut nodes: Vec<NodeProto> = Vec::new();
    for step in 0..4 {
        let (from, to) =
            (if step == 0 { "x".to_owned() } else { format!("v{step}") }, format!("v{}", step + 1));
        nodes.push(stated(node("Concat", &[&from, &from], &[&to]), vec![int("axis", 0)]));
    }
    nodes.push(node("Slice", &["v4", "start", "end"], &["y"]));
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[200_000])];
        graph.output = vec![fixed("y", &[1])];
        graph.initializer = vec![integers("start", &[0]), integers("end", &[1])];
    });
    let taken = taken("plain-regions", &model, "");
    assert!(taken.form.contains("first="), "{}", taken.form);
    assert!(taken.planned <= 33 * MIB && taken.planned < taken.given, "{} of {}", taken.planned, taken.given);
}

#[test]
fn no_small_value_begins_the_first_region() {
    // A number, a value of 1.2 MiB and an output of 1.2 MiB: after a region of 1 MiB for the number, the next
    // ones would have 2 and 4 MiB.
    let nodes = vec![
        node("Exp", &["z"], &["scale"]),
        node("Mul", &["x", "scale"], &["v"]),
        node("Sin", &["v"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[315_000]), fixed("z", &[1])];
        graph.output = vec![fixed("y", &[315_000])];
    });
    let taken = taken("plain-small", &model, "");
    assert!(taken.form.contains("first="), "{}", taken.form);
    assert!(taken.planned <= 4 * MIB && taken.planned < taken.given, "{} of {}", taken.planned, taken.given);
}

#[test]
fn buffers_are_not_kept_for_values_of_equal_extents() {
    // Each extent comes twice, far apart: a session that knows them keeps a buffer for each in between.
    let counts = [6, 5, 4, 3, 2, 6, 5, 4, 3, 2];
    let taken = taken("plain-reuse", &copies(&counts, &["x", "z"], 250_000, false), "");
    assert!(taken.form.contains("hidden"), "{}", taken.form);
    assert!(
        taken.planned <= 9 * MIB && taken.planned * 2 < taken.given,
        "{} of {}",
        taken.planned,
        taken.given
    );
}

#[test]
fn extents_that_a_model_states_are_hidden_too() {
    // The same values, but nodes that view them say their extents.
    let counts = [6, 5, 4, 3, 2, 6, 5, 4, 3, 2];
    let taken = taken("plain-stated", &copies(&counts, &["x", "z"], 250_000, true), "");
    assert!(taken.form.contains("hidden"), "{}", taken.form);
    assert!(
        taken.planned <= 17 * MIB && taken.planned * 2 < taken.given,
        "{} of {}",
        taken.planned,
        taken.given
    );
}

#[test]
fn the_order_survives_all_optimizations() {
    // A session computes the last output first, and so holds all values of the chain for the other outputs.
    let (mut nodes, mut outputs) = (Vec::new(), Vec::new());
    for step in 0..12 {
        let (from, to) =
            (if step == 0 { "x".to_owned() } else { format!("h{step}") }, format!("h{}", step + 1));
        let (slope, output) = (format!("c{step}"), format!("r{step}"));
        nodes.push(node("Sin", &[&from], &[&to]));
        nodes.push(node("Cos", &[&to], &[&slope]));
        nodes.push(stated(node("ReduceSum", &[&slope], &[&output]), vec![int("keepdims", 0)]));
        outputs.push(fixed(&output, &[]));
    }
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[250_000])];
        graph.output = outputs;
    });
    let taken = taken("plain-order", &model, "");
    assert!(taken.form.contains("pinned"), "{}", taken.form);
    assert!(
        taken.planned <= 7 * MIB && taken.planned * 2 < taken.given,
        "{} of {}",
        taken.planned,
        taken.given
    );
}

#[test]
fn a_budget_holds_in_a_plain_session() {
    // Twelve values of 1 MB live until the gradient has read them; the budget holds half of them.
    let taken = taken("plain-budget-kept", &crate::sessions::chain(250_000), "--budget 9MiB --effort 100");
    assert!(taken.planned <= 9 * MIB && taken.planned < taken.given, "{} of {}", taken.planned, taken.given);
}
