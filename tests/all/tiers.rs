//! Tensors outside the arena: fetched weights in a farther space, and state that shares storage with
//! its new value.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeMap;
use std::fs;

use command::Folder;
use memc::{Planned, Request, Size, plan};
use memc_check::Kind;
use memc_layout::{Layout, to_json};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::ModelProto;
use memc_onnx_proto::onnx::type_proto::Value::TensorType;
use memc_passes::{PassError, PipelineError};
use models_made::step::{Returns, step};
use models_made::{bytes, fixed, floats, node, raw, with};

const INT64: i32 = 7;
const WIDTH: i64 = 64;
const LAYERS: usize = 8;

/// Returns a chain of products with weights of 16 KiB each.
fn chain() -> ModelProto {
    let mut nodes = Vec::new();
    for k in 0..LAYERS {
        let before = if k == 0 { "x".to_owned() } else { format!("a{}", k - 1) };
        nodes.push(node("MatMul", &[&before, &format!("w{k}")], &[&format!("h{k}")]));
        nodes.push(node("Tanh", &[&format!("h{k}")], &[&format!("a{k}")]));
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[4, WIDTH])];
        graph.output = vec![fixed(&format!("a{}", LAYERS - 1), &[4, WIDTH])];
        graph.initializer = (0..LAYERS as i64)
            .map(|k| {
                let weights = (0..WIDTH * WIDTH)
                    .flat_map(|i| (((i * 37 + k * 11) % 101) as f32 / 404.0 - 0.125).to_le_bytes());
                raw(&format!("w{k}"), &[WIDTH, WIDTH], &weights.collect::<Vec<u8>>())
            })
            .collect();
    })
}

fn planned(file: &ModelFile, budget: u64) -> Result<Planned, memc::Error> {
    let mut request =
        Request::new().effort(500).link("host=1GB/s".parse().unwrap()).budget(Size::Bytes(budget));
    request.weights = Some("host".to_owned());
    request.rewrite.enabled = false;
    request.verify = true;
    plan(file, &request)
}

/// Returns the bytes in the near space: its arena, and constants that are not fetched.
fn near(layout: &Layout) -> u64 {
    let fetched: BTreeMap<&str, u64> =
        layout.fetches.iter().map(|row| (row.tensor.as_str(), row.bytes)).collect();
    layout.arenas[0].size + layout.weights - fetched.values().sum::<u64>()
}

fn kinds(given: &ModelFile, optimized: &Planned, layout: &Layout) -> Vec<Kind> {
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let report = memc_check::check(
        given,
        &out,
        layout,
        memc_check::Options { exact: true, ..memc_check::Options::default() },
    );
    report.violations.iter().map(|violation| violation.kind).collect()
}

#[test]
fn weights_larger_than_the_near_space_are_fetched_and_keep_the_bits() {
    let folder = Folder::new("weights");
    let bytes = bytes(&chain());
    let file = ModelFile::from_bytes(bytes.clone()).unwrap();
    folder.write("in.onnx", bytes);
    for budget in [100_000, 60_000, 36_000] {
        let optimized = planned(&file, budget).unwrap();
        let layout = &optimized.layout;
        assert!(near(layout) <= budget && layout.weights > budget, "{budget}: {}", near(layout));
        assert!(!layout.fetches.is_empty() && layout.cost.recomputed_nodes == 0);
        assert_eq!(kinds(&file, &optimized, layout), []);
        fs::write(folder.path("out.onnx"), optimized.model.to_vec()).unwrap();
        folder.write("out.layout.json", to_json(layout).unwrap());
        let ran = folder.memc("verify in.onnx out.onnx -n 2 --poison-check");
        assert!(ran.code == Some(0) && ran.err.contains("equal bit for bit"), "{budget}: {ran:#?}");
    }
    // If all weights fit, none is fetched. If not even one weight fits, planning fails.
    assert!(planned(&file, 200_000).unwrap().layout.fetches.is_empty());
    assert_eq!(planned(&file, 16_000).unwrap_err().exit_code(), 3);
}

/// The first step reads a large table. Its fetch would delay the run, so the table stays near.
#[test]
fn the_weight_of_the_first_step_stays_near_although_it_is_largest() {
    // The first step reads a table, so no computation can hide its copy: rows that a GatherND reads are not
    // copied alone. All later layers compute longer than their weights take to copy.
    let mut model = chain();
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![fixed("ids", &[4, 1])];
    if let Some(Some(TensorType(tensor))) = graph.input[0].r#type.as_mut().map(|ty| ty.value.as_mut()) {
        tensor.elem_type = Some(INT64);
    }
    graph.node.insert(0, node("GatherND", &["table", "ids"], &["x"]));
    graph.initializer.push(floats("table", &[400, WIDTH]));
    let file = ModelFile::from_bytes(bytes(&model)).unwrap();
    let table = 400 * WIDTH as u64 * 4;
    let layout = planned(&file, table + 60_000).unwrap().layout;
    let fetched: Vec<&str> = layout.fetches.iter().map(|row| row.tensor.as_str()).collect();
    assert!(!fetched.contains(&"table"), "{fetched:?}");
    assert!(near(&layout) <= table + 60_000);
}

fn named(refused: Result<Planned, memc::Error>) -> u64 {
    let error = refused.map(|optimized| near(&optimized.layout)).unwrap_err();
    match error {
        memc::Error::Pipeline(PipelineError::Pass(PassError::Budget(short))) => short.least.0,
        other => panic!("{other}"),
    }
}

#[test]
fn the_smallest_budget_that_a_refusal_names_counts_weights_and_is_kept() {
    let file = ModelFile::from_bytes(bytes(&chain())).unwrap();
    // One weight, its factor and its result. The next weight may already be there.
    let least = named(planned(&file, 1024));
    assert!((16_384..=36_000).contains(&least), "{least}");
    assert!(near(&planned(&file, least).unwrap().layout) <= least);
    assert!(named(planned(&file, least / 2)) == least, "it depends on no budget");
}

#[test]
fn rows_of_fetches_that_are_wrong_are_found() {
    let file = ModelFile::from_bytes(bytes(&chain())).unwrap();
    let optimized = planned(&file, 60_000).unwrap();
    let damaged = |change: &dyn Fn(&mut Layout)| {
        let mut layout = optimized.layout.clone();
        change(&mut layout);
        kinds(&file, &optimized, &layout)
    };
    // A constant without a row counts as near, and any node may read it.
    assert!(
        damaged(&|layout| layout.fetches.truncate(1)).contains(&Kind::Fetch),
        "what stays near passes the budget"
    );
    assert!(damaged(&|layout| layout.fetches[0].from = "moon".to_owned()).contains(&Kind::Fetch));
    assert!(damaged(&|layout| layout.fetches[0].bytes += 1).contains(&Kind::Fetch));
    assert!(damaged(&|layout| layout.fetches[0].step = layout.schedule.len() as u64).contains(&Kind::Fetch));
    assert!(
        damaged(&|layout| layout.fetches[0].tensor = layout.fetches[1].tensor.clone()).contains(&Kind::Fetch)
    );
    assert!(damaged(&|layout| layout.fetches[1] = layout.fetches[0].clone()).contains(&Kind::Fetch));
}

fn with_state() -> (ModelFile, Planned) {
    let file = ModelFile::from_bytes(bytes(&step(true, Returns::Adam))).unwrap();
    let mut request = Request::new().effort(500).alias_state(true);
    request.rewrite.enabled = false;
    request.verify = true;
    let optimized = plan(&file, &request).unwrap();
    (file, optimized)
}

#[test]
fn an_updated_value_takes_the_storage_of_the_old_one() {
    let (file, optimized) = with_state();
    let pairs: Vec<(&str, &str)> =
        optimized.layout.state.iter().map(|row| (row.tensor.as_str(), row.result.as_str())).collect();
    assert_eq!(pairs.len(), 12);
    assert!(pairs.iter().all(|(old, new)| *new == format!("new.{old}")), "{pairs:?}");
    assert_eq!(kinds(&file, &optimized, &optimized.layout), []);
}

#[test]
fn rows_of_state_that_are_wrong_are_found() {
    let (file, optimized) = with_state();
    let damaged = |change: &dyn Fn(&mut Layout)| {
        let mut layout = optimized.layout.clone();
        change(&mut layout);
        kinds(&file, &optimized, &layout)
    };
    let row = |layout: &Layout, old: &str| layout.state.iter().position(|row| row.tensor == old).unwrap();
    // A node reads the old weight after the new moment is computed.
    let crossed = damaged(&|layout| {
        let (w, m) = (row(layout, "w0"), row(layout, "mean0"));
        let other = layout.state[m].result.clone();
        layout.state[m].result = std::mem::replace(&mut layout.state[w].result, other);
    });
    assert!(crossed.contains(&Kind::State), "{crossed:?}");
    assert!(
        damaged(&|layout| layout.state[0].result = "gw0".to_owned()).contains(&Kind::State),
        "no graph output"
    );
    assert!(damaged(&|layout| layout.state[0].tensor = "x".to_owned()).contains(&Kind::State), "no state");
    assert!(
        damaged(&|layout| layout.state[1] = layout.state[0].clone()).contains(&Kind::State),
        "listed twice"
    );
    assert!(damaged(&|layout| layout.state[0].tensor = "nobody".to_owned()).contains(&Kind::State));
}
