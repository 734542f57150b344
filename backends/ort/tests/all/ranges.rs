//! Plans for ranges at single points: extents of inputs, places of sub-views, and damages that hold at the
//! largest extents only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Extents, Layout, Limit};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value;
use memc_onnx_proto::onnx::{GraphProto, ModelProto, TensorProto, ValueInfoProto, type_proto};
use memc_ort::point::{at, keeps, of_inputs};
use memc_ort::{Array, PlayOptions, Player, Point, Tolerance, VerifyOptions, inputs, points, verify};
use support::graph::{FLOAT, integer, model, node, value};
use support::{plan, runtime, written};

/// Returns a value of `rows` symbols or numbers by 4.
fn rows(name: &str, dims: &[&str]) -> ValueInfoProto {
    let mut info = value(name, FLOAT, Some(&vec![1; dims.len()]));
    let Some(type_proto::Value::TensorType(tensor)) = &mut info.r#type.as_mut().unwrap().value else {
        panic!()
    };
    for (dim, text) in tensor.shape.as_mut().unwrap().dim.iter_mut().zip(dims) {
        dim.value = Some(text.parse().map_or_else(|_| Value::DimParam((*text).to_owned()), Value::DimValue));
    }
    info
}

fn number(name: &str, value: f32) -> TensorProto {
    let raw_data = Some(value.to_le_bytes().to_vec().into());
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(FLOAT),
        dims: vec![1],
        raw_data,
        ..TensorProto::default()
    }
}

/// Returns a mean over rows beside a join of `x` of `n` rows and `p` of `batch size` rows: the name is no
/// word, as in some files.
fn mean() -> ModelProto {
    let mut join = node("Concat", &["a", "b"], &["c"]);
    join.attribute.push(integer("axis", 0));
    let nodes = vec![
        node("Exp", &["p"], &["b"]),
        node("Relu", &["x"], &["a"]),
        join,
        node("Sigmoid", &["c"], &["d"]),
        node("ReduceMean", &["d"], &["m"]),
        node("Mul", &["m", "half"], &["y"]),
        node("Tanh", &["d"], &["z"]),
    ];
    model(GraphProto {
        name: Some("mean".to_owned()),
        node: nodes,
        input: vec![rows("x", &["n", "4"]), rows("p", &["batch size", "4"])],
        output: vec![rows("y", &["1", "1"]), rows("z", &["all", "4"])],
        initializer: vec![number("half", 0.5)],
        ..GraphProto::default()
    })
}

fn ranged(test: &str) -> (ModelFile, ModelFile, Layout) {
    let given = written(test, &mean());
    let (out, layout) = plan(&given, |request| {
        *request = std::mem::take(request).dim("n", "1..8".parse::<memc::Extent>().unwrap());
        *request = std::mem::take(request).dim("batch size", "0..6/2".parse::<memc::Extent>().unwrap());
    });
    (given, out, layout)
}

fn point(n: u64, batch: u64) -> Point {
    Point(BTreeMap::from([("n".to_owned(), n), ("batch size".to_owned(), batch)]))
}

#[test]
fn sub_views_move_and_owners_stay() {
    let (_, _, layout) = ranged("range_places");
    let find = |layout: &Layout, name: &str| {
        layout.tensors.iter().find(|tensor| tensor.name == name).unwrap().clone()
    };
    let free = find(&layout, "b");
    assert!(
        free.alias.as_ref().is_some_and(|alias| alias.alias_offset_expr.as_deref() == Some("16*n")),
        "{free:?}"
    );
    for (n, batch) in [(8, 6), (1, 0), (3, 2)] {
        let bound = at(&layout, &point(n, batch)).unwrap();
        let (whole, part) = (find(&bound, "c"), find(&bound, "b"));
        assert_eq!(whole.offset, find(&layout, "c").offset);
        assert_eq!(part.offset, whole.offset.map(|offset| offset + 16 * n));
        assert_eq!(
            (whole.shape, whole.bytes, part.bytes),
            (vec![n + batch, 4], 16 * (n + batch), 16 * batch)
        );
        assert_eq!(find(&bound, "d").offset, whole.offset, "written in place");
    }
}

#[test]
fn one_arena_plays_all_points() {
    let (given, out, layout) = ranged("range_plays");
    let runtime = runtime();
    let found = verify(&runtime, &given, &out, &layout, None, VerifyOptions::default()).unwrap();
    assert!(found.holds() && found.differences.is_empty(), "{:?}", found.differences);
    assert!(found.points.contains(&point(8, 6)) && found.points.contains(&point(1, 0)), "{:?}", found.points);
    let distinct: BTreeSet<&Point> = found.points.iter().collect();
    assert!(distinct.len() == found.points.len() && found.points.len() >= 10, "{:?}", found.points);
    // The arenas pass from player to player.
    let options = || PlayOptions { poison_check: true, ..PlayOptions::default() };
    let mut player = None;
    for extents in [point(8, 6), point(1, 0), point(5, 4)] {
        let bound = at(&layout, &extents).unwrap();
        let set = inputs::make(&out, &bound, 3).unwrap();
        assert_eq!(of_inputs(&layout, &set).unwrap(), extents);
        let mut next = match player.take() {
            None => Player::new(&runtime, &out, &bound, options()).unwrap(),
            Some(earlier) => Player::after(earlier, &runtime, &out, &bound, options()).unwrap(),
        };
        let played = next.play(&set).unwrap();
        assert_eq!(played.arenas[0].planned, layout.arenas[0].size);
        player = Some(next);
    }
}

#[test]
fn a_number_of_the_largest_extents_is_found_below_them() {
    let (given, out, mut layout) = ranged("range_number");
    let mut model = out.model().clone();
    // The mean over 14 rows of 4, written for the largest extents.
    let graph = model.graph.as_mut().unwrap();
    let reduce = graph.node.iter_mut().find(|node| node.op_type() == "ReduceMean").unwrap();
    reduce.op_type = Some("ReduceSum".to_owned());
    *graph.initializer.iter_mut().find(|tensor| tensor.name() == "half").unwrap() =
        number("half", 0.5 / 56.0);
    let out = written("range_number_out", &model);
    layout.model.output_sha256 = memc::sha256(out.bytes());
    for entry in layout.schedule.iter_mut().filter(|entry| entry.op == "ReduceMean") {
        entry.op = "ReduceSum".to_owned();
    }
    let report = memc_check::check(&given, &out, &layout, memc_check::Options::default());
    assert!(report.holds(), "only a run shows it: {:?}", report.violations);
    let options = || VerifyOptions { tolerance: Tolerance::of_roundings(), ..VerifyOptions::default() };
    let found = verify(&runtime(), &given, &out, &layout, None, options()).unwrap();
    let beyond = found.differences.iter().find(|(.., difference)| !difference.is_within()).unwrap();
    assert!(!found.holds() && found.points[0] == point(8, 6) && beyond.0 > 0, "{beyond:?}");
    assert_eq!(found.round(beyond.0), format!("at {}", found.points[beyond.0 as usize]));
    let at_most =
        verify(&runtime(), &given, &out, &layout, None, VerifyOptions { at: vec![point(8, 6)], ..options() })
            .unwrap();
    assert!(at_most.holds(), "right at the largest extents");
}

#[test]
fn a_first_byte_that_is_right_at_the_largest_extents_is_found_below_them() {
    let (given, out, layout) = ranged("range_first");
    let mut damaged = layout.clone();
    let part = damaged.tensors.iter_mut().find(|tensor| tensor.name == "b").unwrap();
    part.alias.as_mut().unwrap().alias_offset_expr = Some("8*n+64".to_owned());
    let runtime = runtime();
    let options = |extents: Point| VerifyOptions { at: vec![extents], ..VerifyOptions::default() };
    assert!(verify(&runtime, &given, &out, &damaged, None, options(point(8, 6))).unwrap().holds());
    let found = verify(&runtime, &given, &out, &damaged, None, options(point(1, 2)));
    assert!(found.is_err(), "the part lies outside its owner: {:?}", found.map(|found| found.differences));
}

#[test]
fn extents_outside_the_ranges_are_refused() {
    let (_, out, layout) = ranged("range_outside");
    for (n, batch) in [(0, 0), (9, 0), (1, 3), (1, 8)] {
        assert_eq!(keeps(&layout, &point(n, batch)).unwrap_err().code(), "E0715", "{n} {batch}");
        assert_eq!(at(&layout, &point(n, batch)).unwrap_err().code(), "E0715");
    }
    let set = |x: u64, p: u64| {
        let mut other = layout.clone();
        for (name, rows) in [("x", x), ("p", p)] {
            let tensor = other.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
            (tensor.shape, tensor.bytes) = (vec![rows, 4], 16 * rows);
        }
        inputs::make(&out, &other, 0).unwrap()
    };
    assert_eq!(of_inputs(&layout, &set(3, 4)).unwrap(), point(3, 4));
    assert_eq!(of_inputs(&layout, &set(3, 5)).unwrap_err().code(), "E0715");
    let alone: BTreeMap<String, Array> = set(3, 4).into_iter().filter(|(name, _)| name == "x").collect();
    assert_eq!(of_inputs(&layout, &alone).unwrap_err().code(), "E0715");
}

#[test]
fn points_are_corners_neighbors_and_points_inside() {
    let (_, _, mut layout) = ranged("range_points");
    layout.model.ranges = BTreeMap::from([
        ("h".to_owned(), Extents { min: 32, max: 960, step: 32 }),
        ("w".to_owned(), Extents { min: 0, max: 500, step: 1 }),
    ]);
    let at = |h: u64, w: u64| Point(BTreeMap::from([("h".to_owned(), h), ("w".to_owned(), w)]));
    let all = points(&layout, 7, 8);
    assert_eq!(all[..2], [at(960, 500), at(32, 0)]);
    for corner in [at(960, 0), at(32, 500), at(928, 499), at(64, 1), at(928, 1), at(64, 499)] {
        assert!(all.contains(&corner), "{corner}");
    }
    assert!(all.len() >= 14 && all.iter().all(|point| keeps(&layout, point).is_ok()));
    assert_eq!(all, points(&layout, 7, 8), "equal seeds give equal points");
    assert_ne!(all, points(&layout, 8, 8));
    let inside = all.iter().filter(|point| point.0["w"] % 2 == 1).count();
    assert!(inside >= 4, "odd numbers are among them: {all:?}");
    // A limit cuts the largest corner off: points lie on its border.
    layout.model.limits.push(Limit { of: "h*w".to_owned(), most: 100_000 });
    let cut = points(&layout, 7, 8);
    assert!(cut.iter().all(|point| keeps(&layout, point).is_ok()) && cut.len() >= 8);
    assert!(cut.iter().any(|point| point.0["h"] * point.0["w"] > 90_000), "{cut:?}");
    layout.model.limits.push(Limit { of: "h".to_owned(), most: 31 });
    assert_eq!(points(&layout, 7, 8), [], "no extents keep the limits");
    layout.model.ranges = (0..6).map(|at| (format!("d{at}"), Extents { min: 1, max: 4, step: 1 })).collect();
    layout.model.limits.clear();
    assert!((20..60).contains(&points(&layout, 7, 8).len()), "many dimensions have few points");
}

/// Returns joins of `x` and `y` with themselves, behind means of the second parts.
fn sums() -> ModelProto {
    let join = |inputs: &[&str], output: &str| {
        let mut join = node("Concat", inputs, &[output]);
        join.attribute.push(integer("axis", 0));
        join
    };
    let mean = |input: &str, output: &str| {
        let mut mean = node("ReduceMean", &[input], &[output]);
        mean.attribute.push(integer("keepdims", 0));
        mean
    };
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Exp", &["x"], &["b"]),
        mean("b", "m1"),
        join(&["a", "b"], "e"),
        node("Neg", &["e"], &["f"]),
        node("Relu", &["y"], &["c"]),
        node("Exp", &["y"], &["d"]),
        mean("d", "m2"),
        join(&["c", "d"], "g"),
        node("Neg", &["g"], &["h"]),
    ];
    model(GraphProto {
        name: Some("sums".to_owned()),
        node: nodes,
        input: vec![rows("x", &["n", "16"]), rows("y", &["n", "5"])],
        output: ["m1", "m2", "f", "h"].map(|name| value(name, FLOAT, None)).to_vec(),
        ..GraphProto::default()
    })
}

#[test]
fn operands_of_sums_are_aligned_at_all_extents() {
    let given = written("range_sums", &sums());
    let (out, layout) = plan(&given, |request| {
        *request = std::mem::take(request).exact(true).dim("n", "1..16".parse::<memc::Extent>().unwrap());
    });
    let first = |name: &str| {
        let alias = layout.tensors.iter().find(|tensor| tensor.name == name).unwrap().alias.as_ref();
        alias.and_then(|alias| alias.alias_offset_expr.clone())
    };
    // `b` begins at a multiple of 64 at all extents, `d` at the largest extents alone.
    assert_eq!((first("b").as_deref(), first("d")), (Some("64*n"), None));
    let found = verify(&runtime(), &given, &out, &layout, None, VerifyOptions::default()).unwrap();
    assert!(found.holds() && found.differences.is_empty(), "{:?}", found.differences);
}
