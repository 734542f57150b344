//! Weights in a farther space that are read by rows and in parts: plans are smaller than the largest weight,
//! `memc check` proves them, and the player gives equal bits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::fs;

use command::Folder;
use memc::{Planned, Request, Size, plan};
use memc_check::{Kind, Report};
use memc_layout::{Fetch, Layout, to_json};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto};
use models_made::{bytes, fixed, float, floats, int, ints, node, of_type, stated, with};

/// Columns of the large weight, its rows, and rows of the other operand.
const WIDE: i64 = 320;
const INNER: i64 = 64;
const ROWS: i64 = 6;
/// Bytes of the large weight.
const LARGE: u64 = (WIDE * INNER * 4) as u64;

/// A model of two layers with a large weight `w` in the last one.
struct Made {
    name: &'static str,
    model: ModelProto,
    /// Whether rows of the weight are looked up, and whether it is read in parts.
    rows: bool,
    parts: bool,
}

fn small() -> Vec<NodeProto> {
    vec![node("MatMul", &["x", "small"], &["h"]), node("Tanh", &["h"], &["a"])]
}

/// Returns a model of nodes that make `y`, with weights.
fn model(opset: i64, nodes: Vec<NodeProto>, weights: Vec<TensorProto>, dims: &[i64]) -> ModelProto {
    let is_looked_up = nodes.iter().any(|node| node.input.iter().any(|name| name == "ids"));
    let mut made = with(nodes, |graph| {
        let ids = of_type(fixed("ids", &[ROWS]), 7);
        graph.input =
            vec![if is_looked_up { ids } else { fixed("x", &[&dims[..dims.len() - 1], &[INNER]].concat()) }];
        graph.output = vec![fixed("y", dims)];
        graph.initializer = weights;
    });
    made.opset_import[0].version = Some(opset);
    made
}

fn all() -> Vec<Made> {
    let flat = [ROWS, WIDE];
    let square = || floats("small", &[INNER, INNER]);
    let columns = || vec![square(), floats("w", &[INNER, WIDE])];
    let turned = || vec![square(), floats("w", &[WIDE, INNER]), floats("bias", &[WIDE])];
    let gemm = |turns: i64, bias: bool| {
        let operands: &[&str] = if bias { &["a", "w", "bias"] } else { &["a", "w"] };
        let scales = vec![int("transB", turns), float("alpha", 0.5), float("beta", 2.0)];
        [small(), vec![stated(node("Gemm", operands, &["y"]), scales)]].concat()
    };
    let product = || [small(), vec![node("MatMul", &["a", "w"], &["y"])]].concat();
    let tied = || {
        let turn = stated(node("Transpose", &["w"], &["turned"]), vec![ints("perm", &[1, 0])]);
        let lookup = node("Gather", &["w", "ids"], &["x"]);
        [vec![lookup], small(), vec![turn, node("MatMul", &["a", "turned"], &["y"])]].concat()
    };
    let lookup = || {
        let nodes =
            [vec![node("Gather", &["w", "ids"], &["x"])], small(), vec![node("Relu", &["a"], &["y"])]]
                .concat();
        model(13, nodes, vec![square(), floats("w", &[WIDE, INNER])], &[ROWS, INNER])
    };
    let made = |name, model, rows, parts| Made { name, model, rows, parts };
    vec![
        made("product", model(21, product(), columns(), &[2, 3, WIDE]), false, true),
        made("product-old", model(9, product(), columns(), &flat), false, true),
        made("gemm", model(13, gemm(0, false), columns(), &flat), false, true),
        made("gemm-turned", model(17, gemm(1, true), turned(), &flat), false, true),
        made("tied", model(13, tied(), turned()[..2].to_vec(), &flat), true, true),
        made("lookup", lookup(), true, false),
    ]
}

fn planned(file: &ModelFile, budget: u64) -> Result<Planned, memc::Error> {
    let mut request =
        Request::new().effort(20).link("host=1GB/s,1us".parse().unwrap()).budget(Size::Bytes(budget));
    request.weights = Some("host".to_owned());
    request.verify = true;
    plan(file, &request)
}

/// Returns the bytes in the near space: its arena, and constants that are not fetched.
fn near(layout: &Layout) -> u64 {
    layout.arenas[0].size + layout.weights - layout.far_constants().values().sum::<u64>()
}

fn checked(given: &ModelFile, optimized: &Planned, layout: &Layout) -> Report {
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    memc_check::check(given, &out, layout, memc_check::Options::default())
}

fn is_of(fetch: &&Fetch) -> bool {
    fetch.tensor == "w"
}

#[test]
fn plans_are_smaller_than_the_largest_weight_and_give_equal_bits() {
    for Made { name, model, rows, parts } in all() {
        let folder = Folder::new(&format!("far-{name}"));
        let given = bytes(&model);
        let file = ModelFile::from_bytes(given.clone()).unwrap();
        folder.write("in.onnx", given);
        let budget = LARGE / 4 * 3;
        let optimized = planned(&file, budget).unwrap_or_else(|error| panic!("{name}: {error}"));
        let layout = &optimized.layout;
        assert!(near(layout) <= budget, "{name}: {}", near(layout));
        let own: Vec<&Fetch> = layout.fetches.iter().filter(is_of).collect();
        assert_eq!(own.iter().any(|row| row.rows.is_some()), rows, "{name}: {own:?}");
        assert_eq!(own.iter().any(|row| row.part.is_some()), parts, "{name}: {own:?}");
        assert!(own.iter().all(|row| row.bytes < LARGE), "{name}: {own:?}");
        let report = checked(&file, &optimized, layout);
        assert!(report.violations.is_empty(), "{name}: {:?}", report.violations);
        assert!(report.summary.unproven_outputs.is_empty(), "{name}: {:?}", report.summary);
        fs::write(folder.path("out.onnx"), optimized.model.to_vec()).unwrap();
        folder.write("out.layout.json", to_json(layout).unwrap());
        let ran = folder.memc("verify in.onnx out.onnx -n 2 --poison-check");
        assert!(ran.code == Some(0) && ran.err.contains("equal bit for bit"), "{name}: {ran:#?}");
        // The link copies parts; lookups read their rows themselves.
        let aside = layout.fetches.iter().filter(|row| row.rows.is_none()).count();
        let ran = folder.memc("run out.onnx --layout out.layout.json");
        let told = format!("link host -> device: {aside} transfers");
        assert!(aside == 0 || ran.err.contains(&told) || ran.out.contains(&told), "{name}, {told}: {ran:#?}");
    }
}

#[test]
fn plans_with_room_for_the_weight_fetch_it_whole_or_not_at_all() {
    for Made { name, model, .. } in
        all().into_iter().filter(|made| made.name == "product" || made.name == "lookup")
    {
        let file = ModelFile::from_bytes(bytes(&model)).unwrap();
        let layout = planned(&file, 4 * LARGE).unwrap().layout;
        assert!(layout.fetches.is_empty(), "{name}");
        let layout = planned(&file, 2 * LARGE).unwrap().layout;
        assert!(
            layout.fetches.iter().filter(is_of).all(|row| row.part.is_none()),
            "{name}: {:?}",
            layout.fetches
        );
    }
}

#[test]
fn rows_and_parts_that_are_wrong_are_found() {
    let made: Vec<Made> = all().into_iter().filter(|made| made.rows && made.parts).collect();
    let file = ModelFile::from_bytes(bytes(&made[0].model)).unwrap();
    let optimized = planned(&file, LARGE / 4 * 3).unwrap();
    let position = |found: &dyn Fn(&Fetch) -> bool| optimized.layout.fetches.iter().position(found).unwrap();
    let (part, rows) = (position(&|row| row.part.is_some()), position(&|row| row.rows.is_some()));
    let finds = |what: &str, change: &dyn Fn(&mut Vec<Fetch>)| {
        let mut layout = optimized.layout.clone();
        change(&mut layout.fetches);
        let kinds: Vec<Kind> =
            checked(&file, &optimized, &layout).violations.iter().map(|found| found.kind).collect();
        assert!(kinds.contains(&Kind::Fetch), "{what}: {kinds:?}");
    };
    finds("another first position", &|all| all[part].part.as_mut().unwrap().start += 1);
    finds("another end", &|all| all[part].part.as_mut().unwrap().end += 1);
    finds("another axis", &|all| all[part].part.as_mut().unwrap().axis ^= 1);
    finds("an axis that is not there", &|all| all[part].part.as_mut().unwrap().axis = 9);
    finds("a part of another size", &|all| all[part].bytes += 4);
    finds("a part stated as the whole", &|all| all[part].part = None);
    finds("a part without a row", &|all| _ = all.remove(part));
    finds("fewer rows", &|all| all[rows].rows.as_mut().unwrap().count -= 1);
    finds("other indices", &|all| all[rows].rows.as_mut().unwrap().indices = "x".to_owned());
    finds("rows of another size", &|all| all[rows].bytes -= 4);
    finds("rows stated as the whole", &|all| all[rows].rows = None);
    finds("rows stated as a part", &|all| all[rows].part = all[part].part.clone());
    finds("a lookup without a row", &|all| _ = all.remove(rows));
}
