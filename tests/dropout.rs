//! Dropout under a budget: no random operator ever runs twice, and with seeds the gradients are those of the model as given, bit for bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod command;
mod models_made;

use std::fs;

use command::Folder;
use memc::import::ImportOptions;
use memc::proto::ModelFile;
use memc::proto::onnx::attribute_proto::AttributeType;
use memc::proto::onnx::{AttributeProto, ModelProto, NodeProto};
use memc::{OptimizeOptions, Optimized, Silent, Size, optimize};
use models_made::{bytes, fixed, node, raw, with};

const LAYERS: usize = 4;
const WIDTH: i64 = 64;
const BATCH: i64 = 128;

fn attribute(node: &mut NodeProto, attribute: AttributeProto) {
    node.attribute.push(attribute);
}

/// A chain of layers with dropout, and the gradients of their weights.
fn model(seeded: bool) -> ModelProto {
    let mut nodes = Vec::new();
    let mut push = |op: &str, inputs: &[&str], output: &str| {
        nodes.push(node(op, inputs, &[output]));
        nodes.len() - 1
    };
    let mut named: Vec<(usize, AttributeProto)> = Vec::new();
    for k in 0..LAYERS {
        let before = if k == 0 { "x".to_owned() } else { format!("a{}", k - 1) };
        push("MatMul", &[&before, &format!("w{k}")], &format!("h{k}"));
        let random = push("RandomUniformLike", &[&format!("h{k}")], &format!("r{k}"));
        let seed = AttributeProto {
            name: Some("seed".into()),
            r#type: Some(AttributeType::Float as i32),
            f: Some(k as f32 + 1.0),
            ..AttributeProto::default()
        };
        named.extend(seeded.then_some((random, seed)));
        push("Greater", &[&format!("r{k}"), "rate"], &format!("m{k}"));
        let cast = push("Cast", &[&format!("m{k}")], &format!("f{k}"));
        let to = AttributeProto {
            name: Some("to".into()),
            r#type: Some(AttributeType::Int as i32),
            i: Some(1),
            ..AttributeProto::default()
        };
        named.push((cast, to));
        push("Mul", &[&format!("h{k}"), &format!("f{k}")], &format!("d{k}"));
        push("Tanh", &[&format!("d{k}")], &format!("a{k}"));
    }
    push("Neg", &[&format!("a{}", LAYERS - 1)], &format!("g{LAYERS}"));
    for k in (0..LAYERS).rev() {
        let before = if k == 0 { "x".to_owned() } else { format!("a{}", k - 1) };
        push("Mul", &[&format!("g{}", k + 1), &format!("a{k}")], &format!("s{k}"));
        push("Mul", &[&format!("s{k}"), &format!("f{k}")], &format!("b{k}"));
        push("Transpose", &[&before], &format!("t{k}"));
        push("MatMul", &[&format!("t{k}"), &format!("b{k}")], &format!("gw{k}"));
        push("Transpose", &[&format!("w{k}")], &format!("v{k}"));
        push("MatMul", &[&format!("b{k}"), &format!("v{k}")], &format!("g{k}"));
    }
    for (index, value) in named {
        attribute(&mut nodes[index], value);
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[BATCH, WIDTH])];
        graph.output = (0..LAYERS).map(|k| fixed(&format!("gw{k}"), &[WIDTH, WIDTH])).collect();
        graph.initializer = vec![raw("rate", &[], &0.1_f32.to_le_bytes())];
        for k in 0..LAYERS {
            let weights: Vec<u8> = (0..WIDTH * WIDTH)
                .flat_map(|i| (((i * 37 + k as i64 * 11) % 101) as f32 / 404.0 - 0.125).to_le_bytes())
                .collect();
            graph.initializer.push(raw(&format!("w{k}"), &[WIDTH, WIDTH], &weights));
        }
    })
}

fn planned(file: &ModelFile, budget: Option<u64>) -> Result<Optimized, memc::Error> {
    let budget = budget.map(|bytes| (String::new(), Size::Bytes(bytes))).into_iter().collect();
    let plan = memc::passes::Options { effort: 500, ..memc::passes::Options::default() };
    let options = OptimizeOptions { import: ImportOptions::default(), plan, verify: true, budget, ..OptimizeOptions::default() };
    optimize(file, &options, &mut Silent)
}

/// Plans within budgets below what the model needs freely, and holds what holds for each; gives the plans that were found.
fn sweep(file: &ModelFile) -> Vec<(u64, Optimized)> {
    let free = planned(file, None).unwrap().layout.arenas[0].size;
    let mut found = Vec::new();
    for percent in [90, 75, 50] {
        let budget = free * percent / 100;
        let optimized = match planned(file, Some(budget)) {
            Ok(optimized) => optimized,
            Err(error) => {
                assert_eq!(error.exit_code(), 3, "{error}");
                continue;
            }
        };
        let layout = &optimized.layout;
        assert!(layout.arenas[0].size <= budget && layout.cost.recomputed_nodes > 0, "{percent} %");
        let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
        let report = memc::check::check(file, &out, layout, Default::default());
        assert!(report.holds(), "{percent} %: {:?}", report.violations);
        let random = layout.schedule.iter().filter(|node| node.op == "RandomUniformLike").count();
        assert_eq!(random, LAYERS, "{percent} %: each draws once");
        found.push((percent, optimized));
    }
    assert!(found.len() >= 2, "only {} of 3 budgets are kept", found.len());
    found
}

#[test]
fn without_seeds_no_random_operator_runs_twice() {
    sweep(&ModelFile::from_bytes(bytes(&model(false))).unwrap());
}

#[test]
fn with_seeds_gradients_are_those_of_the_model_as_given() {
    let folder = Folder::new("dropout");
    let bytes = bytes(&model(true));
    let file = ModelFile::from_bytes(bytes.clone()).unwrap();
    folder.write("in.onnx", bytes);
    for (percent, optimized) in sweep(&file) {
        fs::write(folder.path("out.onnx"), optimized.model.to_vec()).unwrap();
        folder.write("out.layout.json", memc::layout_file::to_json(&optimized.layout).unwrap());
        let ran = folder.memc("verify in.onnx out.onnx -n 2");
        if ran.err.contains("E0701") {
            eprintln!("no ONNX Runtime here: the plans were checked, not run");
            return;
        }
        assert!(ran.code == Some(0) && ran.err.contains("equal bit for bit"), "{percent} %: {ran:#?}");
    }
}
