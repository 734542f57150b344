//! Verifies rewritten models: the first fragment that differs is named, and differences hidden by a
//! softmax are found.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{GraphProto, ModelProto, NodeProto, TensorProto};
use memc_ort::{Subject, Tolerance, Verified, VerifyOptions, verify};
use support::graph::{FLOAT, integer, model, node, value};
use support::{plan, runtime, written};

const LAYERS: usize = 40;
const WIDTH: i64 = 8;

fn constant(name: &str, dims: &[i64], element: impl Fn(usize) -> f32) -> TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let bytes: Vec<u8> = (0..count).flat_map(|index| element(index).to_le_bytes()).collect();
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(FLOAT),
        dims: dims.to_vec(),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

/// Returns layers with a Gelu of basic operators, more nodes than one fragment holds, followed by `sums`
/// sums with constants and a softmax.
fn layers(sums: usize) -> ModelProto {
    let mut nodes: Vec<NodeProto> = Vec::new();
    for layer in 0..LAYERS {
        let name = |what: &str| format!("{what}{layer}");
        let before = if layer == 0 { "x".to_owned() } else { format!("gelu{}", layer - 1) };
        let mut push = |op: &str, inputs: [&str; 2], output: &str| {
            let inputs: Vec<&str> = inputs.into_iter().filter(|input| !input.is_empty()).collect();
            nodes.push(node(op, &inputs, &[output]));
        };
        push("MatMul", [&before, "weight"], &name("product"));
        // Keeps results of the layers near one, so that they neither vanish nor grow.
        push("Add", [&name("product"), "shift"], &name("shifted"));
        push("Div", [&name("shifted"), "root"], &name("scaled"));
        push("Erf", [&name("scaled"), ""], &name("erf"));
        push("Add", [&name("erf"), "one"], &name("more"));
        push("Mul", [&name("shifted"), &name("more")], &name("twice"));
        push("Mul", [&name("twice"), "half"], &name("gelu"));
    }
    let mut last = format!("gelu{}", LAYERS - 1);
    for sum in 0..sums {
        nodes.push(node("Add", &[&last, "bias"], &[&format!("sum{sum}")]));
        last = format!("sum{sum}");
    }
    nodes.push(node("Softmax", &[&last], &["y"]));
    let diagonal = |index: usize| if index.is_multiple_of(WIDTH as usize + 1) { 0.8 } else { 0.001 };
    model(GraphProto {
        name: Some("layers".to_owned()),
        node: nodes,
        input: vec![value("x", FLOAT, Some(&[4, WIDTH]))],
        output: vec![value("y", FLOAT, Some(&[4, WIDTH]))],
        initializer: vec![
            constant("weight", &[WIDTH, WIDTH], diagonal),
            constant("shift", &[], |_| 0.3),
            constant("root", &[], |_| std::f32::consts::SQRT_2),
            constant("one", &[], |_| 1.0),
            constant("half", &[], |_| 0.5),
            constant("bias", &[WIDTH], |index| index as f32 * 0.25),
        ],
        ..GraphProto::default()
    })
}

/// Returns the model, its rewritten form after `damage`, and the layout of its plan.
fn damaged(
    test: &str,
    model: &ModelProto,
    damage: impl FnOnce(&mut GraphProto),
) -> (ModelFile, ModelFile, Layout) {
    let given = written(test, model);
    let (out, mut layout) = plan(&given, |request| request.rewrite.exact = false);
    let mut model = out.model().clone();
    damage(model.graph.as_mut().unwrap());
    let out = written(&format!("{test}_out"), &model);
    layout.model.output_sha256 = memc::sha256(out.bytes());
    (given, out, layout)
}

fn verified(given: &ModelFile, out: &ModelFile, layout: &Layout) -> Verified {
    let options = VerifyOptions { tolerance: Tolerance::of_roundings(), ..VerifyOptions::default() };
    verify(&runtime(), given, out, layout, None, options).expect("everything runs")
}

#[test]
fn a_sound_rewrite_holds_and_names_no_fragment() {
    let (given, out, layout) = damaged("rewritten_sound", &layers(1), |_| {});
    assert!(layout.rewrites.len() > 1, "{:?}", layout.rewrites);
    let found = verified(&given, &out, &layout);
    assert!(found.holds(), "{:?}", found.differences);
    assert_eq!((found.softmaxes, &found.first, &found.window), (1, &None, &None));
}

#[test]
fn the_first_differing_fragment_is_named() {
    let given = layers(0);
    let (_, _, layout) = damaged("rewritten_window", &given, |_| {});
    let window = &layout.rewrites[layout.rewrites.len() / 2];
    assert!(window.window > 1 && window.rules.contains_key("gelu"), "{window:?}");
    let (given, out, layout) = damaged("rewritten_window", &given, |graph| {
        let last = &window.outputs[0].written;
        let gelu = graph
            .node
            .iter_mut()
            .find(|node| node.output[0] == *last && node.op_type() == "Gelu")
            .expect("made by a rule");
        // Imitate a rule that confuses two activations.
        (gelu.domain, gelu.op_type) = (None, Some("Relu".to_owned()));
    });
    let found = verified(&given, &out, &layout);
    assert!(!found.holds());
    let named = found
        .window
        .unwrap_or_else(|| panic!("no window is named: {:?}, {:?}", found.differences, layout.rewrites));
    assert_eq!((named.window, named.rules.as_slice()), (window.window, ["gelu".to_owned()].as_slice()));
    let text = named.to_string();
    assert!(
        text.starts_with(&format!("window {} (gelu): `", window.window))
            && text.ends_with("beyond tolerance"),
        "{text}"
    );
    assert!(found.first.is_some_and(|node| !node.is_empty()));
}

#[test]
fn differences_hidden_by_a_softmax_are_found() {
    let (given, out, layout) = damaged("rewritten_softmax", &layers(1), |graph| {
        // Adding one number to all elements does not change a softmax.
        let bias = graph.initializer.iter_mut().find(|tensor| tensor.name() == "bias").expect("a bias");
        bias.raw_data = constant("bias", &[WIDTH], |index| index as f32 * 0.25 + 1.0).raw_data;
    });
    let found = verified(&given, &out, &layout);
    assert!(!found.holds());
    let beyond: Vec<_> =
        found.differences.iter().filter(|(.., difference)| !difference.is_within()).collect();
    assert!(beyond.iter().all(|(_, subject, _)| *subject == Subject::Softmax), "{beyond:?}");
    assert_eq!(beyond.first().map(|(.., difference)| difference.output.as_str()), Some("sum0"));
}

#[test]
fn the_nearest_value_before_a_rewritten_softmax_operand_is_compared() {
    let (given, out, layout) = damaged("rewritten_nearest", &layers(2), |_| {});
    let is_there = |name: &str| layout.tensors.iter().any(|tensor| tensor.name == name);
    assert!(!is_there("sum1"), "two constants are one");
    let found = verified(&given, &out, &layout);
    assert!(found.holds() && found.softmaxes == 1, "{:?}", found.differences);
}

/// Returns a full-precision softmax of values that were scaled in half precision by one.
fn scaled_in_halves() -> ModelProto {
    const HALF: i32 = 10;
    let to = |element: i32, from: &str, name: &str| NodeProto {
        attribute: vec![integer("to", element.into())],
        ..node("Cast", &[from], &[name])
    };
    let one = TensorProto {
        data_type: Some(HALF),
        raw_data: Some(0x3c00u16.to_le_bytes().to_vec().into()),
        ..constant("one", &[], |_| 1.0)
    };
    model(GraphProto {
        name: Some("halves".to_owned()),
        node: vec![
            to(HALF, "x", "small"),
            node("Mul", &["small", "one"], &["scaled"]),
            to(FLOAT, "scaled", "wide"),
            node("Softmax", &["wide"], &["y"]),
        ],
        input: vec![value("x", FLOAT, Some(&[4, WIDTH])), value("one", HALF, Some(&[]))],
        output: vec![value("y", FLOAT, Some(&[4, WIDTH]))],
        initializer: vec![one],
        ..GraphProto::default()
    })
}

#[test]
fn values_computed_from_float16_may_differ_by_float16_roundings() {
    let by = |distances: u16| {
        let (given, out, layout) =
            damaged(&format!("rewritten_halves_{distances}"), &scaled_in_halves(), |graph| {
                let one =
                    graph.initializer.iter_mut().find(|tensor| tensor.name() == "one").expect("a factor");
                one.raw_data = Some((0x3c00 + distances).to_le_bytes().to_vec().into());
            });
        verified(&given, &out, &layout)
    };
    let near = by(6);
    assert!(near.holds() && near.differences.len() > 1, "{:?}", near.differences);
    assert!(!by(40).holds());
}

/// Returns a model with numbers rounded to 8-bit integers, and with equal numbers without rounding.
fn rounded() -> ModelProto {
    model(GraphProto {
        name: Some("rounded".to_owned()),
        node: vec![
            node("Mul", &["x", "factor"], &["scaled"]),
            node("DynamicQuantizeLinear", &["scaled"], &["integers", "scale", "zero"]),
            node("DequantizeLinear", &["integers", "scale", "zero"], &["y"]),
            node("Mul", &["x", "other"], &["z"]),
        ],
        input: vec![value("x", FLOAT, Some(&[4, WIDTH]))],
        output: vec![value("y", FLOAT, Some(&[4, WIDTH])), value("z", FLOAT, Some(&[4, WIDTH]))],
        initializer: vec![constant("factor", &[], |_| 0.7), constant("other", &[], |_| 0.7)],
        ..GraphProto::default()
    })
}

#[test]
fn values_behind_roundings_to_integers_may_differ_by_steps() {
    let with = |name: &str, value: f32| {
        damaged(&format!("rewritten_rounded_{name}"), &rounded(), |graph| {
            let factor = graph.initializer.iter_mut().find(|tensor| tensor.name() == name).expect("a factor");
            factor.raw_data = constant(name, &[], |_| value).raw_data;
        })
    };
    // After rounding, a larger difference is within the tolerance, up to a limit; and the plan is
    // compared with the written model.
    let (given, out, layout) = with("factor", 0.71);
    let found = verified(&given, &out, &layout);
    assert!(found.holds() && !found.differences.is_empty(), "{:?}", found.differences);
    assert!(
        found.differences.iter().all(|(_, subject, _)| *subject == Subject::Model),
        "{:?}",
        found.differences
    );
    for (name, value) in [("factor", 0.8), ("other", 0.71)] {
        let (given, out, layout) = with(name, value);
        assert!(!verified(&given, &out, &layout).holds(), "{name}");
    }
}

/// Returns the difference of two equal products that add in another order, beside a `signal`: hardly more
/// than their roundings.
fn cancelled() -> ModelProto {
    const DEPTH: i64 = 512;
    let element =
        |index: usize| ((index as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
    let turned = |row: usize| (row * 5 + 3) % DEPTH as usize;
    let indices: Vec<u8> = (0..DEPTH as usize).flat_map(|row| (turned(row) as i64).to_le_bytes()).collect();
    let order = TensorProto {
        data_type: Some(7),
        raw_data: Some(indices.into()),
        ..constant("order", &[DEPTH], |_| 0.0)
    };
    model(GraphProto {
        name: Some("cancelled".to_owned()),
        node: vec![
            node("MatMul", &["x", "weight"], &["product"]),
            NodeProto { attribute: vec![integer("axis", 1)], ..node("Gather", &["x", "order"], &["turned"]) },
            node("MatMul", &["turned", "turned_weight"], &["other"]),
            node("Sub", &["product", "other"], &["roundings"]),
            node("Add", &["roundings", "signal"], &["y"]),
        ],
        input: vec![value("x", FLOAT, Some(&[16, DEPTH]))],
        output: vec![value("y", FLOAT, Some(&[16, WIDTH]))],
        initializer: vec![
            constant("weight", &[DEPTH, WIDTH], element),
            order,
            constant("turned_weight", &[DEPTH, WIDTH], |index| {
                let (row, column) = (index / WIDTH as usize, index % WIDTH as usize);
                element(turned(row) * WIDTH as usize + column)
            }),
            constant("signal", &[WIDTH], |_| 1e-3),
        ],
        ..GraphProto::default()
    })
}

#[test]
fn results_that_the_given_model_leaves_open_are_no_defects() {
    let by = |error: f32| {
        let (given, out, layout) = damaged(&format!("rewritten_open_{error:e}"), &cancelled(), |graph| {
            let signal =
                graph.initializer.iter_mut().find(|tensor| tensor.name() == "signal").expect("a constant");
            signal.raw_data = constant("signal", &[WIDTH], |_| 1e-3 + error).raw_data;
        });
        verified(&given, &out, &layout)
    };
    let near = by(3e-6);
    assert!(near.holds() && near.unstable.len() == 2, "{:?}\n{:?}", near.differences, near.unstable);
    let far = by(1e-4);
    assert!(!far.holds() && far.unstable.is_empty(), "{:?}\n{:?}", far.differences, far.unstable);
}
