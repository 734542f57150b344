//! Rows that are read, over ranges: the cut of the last row moves up for every extent, the checker proves it,
//! and cuts at other rows are not proven.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::{bytes, floats, int, integers, ints, node, stated, symbolic, with};
use memc_check::{Options, Report};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{GraphProto, ModelProto, NodeProto, TensorProto};
use prost::Message as _;

/// How the last row is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Read {
    /// Slice from -1 on.
    Slice,
    /// Gather at -1, without an axis for it.
    Gather,
    /// Gather at `[-1]`.
    GatherOne,
    /// Gather at the extent less one.
    Length,
    /// Slice of the last two.
    LastTwo,
}

const ALL: [Read; 5] = [Read::Slice, Read::Gather, Read::GatherOne, Read::Length, Read::LastTwo];

/// A transformer's head over free rows: a norm, products and element-wise nodes, and a read of the last row.
fn model(read: Read) -> ModelProto {
    let mut nodes: Vec<NodeProto> = vec![
        node("Tanh", &["x"], &["a"]),
        stated(node("LayerNormalization", &["a", "scale"], &["b"]), vec![int("axis", -1)]),
        node("MatMul", &["b", "w"], &["c"]),
        node("Sigmoid", &["c"], &["d"]),
        node("Mul", &["c", "d"], &["e"]),
        node("MatMul", &["e", "v"], &["f"]),
        node("Add", &["a", "f"], &["g"]),
        stated(node("Transpose", &["g"], &["h"]), vec![ints("perm", &[1, 0, 2])]),
        node("MatMul", &["h", "head"], &["logits"]),
        stated(node("Softmax", &["logits"], &["p"]), vec![int("axis", -1)]),
    ];
    let scalar = |name: &str, value: i64| TensorProto { dims: Vec::new(), ..integers(name, &[value]) };
    let mut constants = vec![
        floats("scale", &[32]),
        floats("w", &[32, 64]),
        floats("v", &[64, 32]),
        floats("head", &[32, 400]),
        scalar("last", -1),
        scalar("one", 1),
        integers("lasts", &[-1]),
        integers("two", &[-2]),
        integers("end", &[i64::MAX]),
        integers("axis", &[0]),
    ];
    let along = |nodes: NodeProto| stated(nodes, vec![int("axis", 0)]);
    match read {
        Read::Slice => nodes.push(node("Slice", &["p", "lasts", "end", "axis"], &["y"])),
        Read::Gather => nodes.push(along(node("Gather", &["p", "last"], &["y"]))),
        Read::GatherOne => nodes.push(along(node("Gather", &["p", "lasts"], &["y"]))),
        Read::LastTwo => nodes.push(node("Slice", &["p", "two", "end", "axis"], &["y"])),
        Read::Length => {
            constants.push(scalar("at", 1));
            nodes.extend([
                node("Shape", &["x"], &["extents"]),
                along(node("Gather", &["extents", "at"], &["count"])),
                node("Sub", &["count", "one"], &["place"]),
                along(node("Gather", &["p", "place"], &["y"])),
            ]);
        }
    }
    with(nodes, |graph| {
        let rows: &[&str] = match read {
            Read::Slice | Read::GatherOne => &["k", "batch", "400"],
            Read::LastTwo => &["k", "batch", "400"],
            Read::Gather | Read::Length => &["batch", "400"],
        };
        graph.input = vec![symbolic("x", &["batch", "seq", "32"])];
        graph.output = vec![symbolic("y", rows)];
        for info in graph.input.iter_mut().chain(&mut graph.output) {
            crate::last_token::number(info);
        }
        graph.initializer = constants;
    })
}

fn checked(given: &ModelFile, out: &ModelProto, layout: &memc_layout::Layout) -> Report {
    let out = ModelFile::from_bytes(out.encode_to_vec()).unwrap();
    memc_check::check(given, &out, layout, Options { hashes: false, ..Options::default() })
}

#[test]
fn last_rows_over_ranges_are_proven_equal_and_small() {
    for read in ALL {
        let folder = Folder::new(&format!("rows-ranges-{read:?}"));
        folder.write("in.onnx", bytes(&model(read)));
        folder.memc("optimize in.onnx -o out.onnx --dim batch=1..3 --dim seq=2..64").done();
        folder.memc("optimize in.onnx -o one.onnx --dim batch=3 --dim seq=64").done();
        let layout = |name: &str| memc_layout::read(&folder.read(name)).unwrap();
        let (all, one) = (layout("out.layout.json"), layout("one.layout.json"));
        let arena = |layout: &memc_layout::Layout| layout.arenas[0].size;
        assert!(arena(&all) * 10 <= arena(&one) * 11, "{read:?}: {} of {}", arena(&all), arena(&one));
        let given = ModelFile::from_bytes(bytes(&model(read))).unwrap();
        let out = ModelProto::decode(&*std::fs::read(folder.path("out.onnx")).unwrap()).unwrap();
        let report = checked(&given, &out, &all);
        assert!(
            report.holds() && report.is_proven(),
            "{read:?}: {:?} {:?}",
            report.violations,
            report.remarks
        );
        folder.memc("verify in.onnx out.onnx").done();
    }
}

#[test]
fn other_rows_over_ranges_are_not_proven() {
    let folder = Folder::new("rows-ranges-wrong");
    folder.write("in.onnx", bytes(&model(Read::Gather)));
    folder.memc("optimize in.onnx -o out.onnx --dim batch=1..3 --dim seq=2..64").done();
    let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
    let given = ModelFile::from_bytes(bytes(&model(Read::Gather))).unwrap();
    let out = ModelProto::decode(&*std::fs::read(folder.path("out.onnx")).unwrap()).unwrap();
    let is_proven = |out: &ModelProto| {
        let report = checked(&given, out, &layout);
        report.holds() && report.is_proven()
    };
    assert!(is_proven(&out));
    let mut tried = 0;
    let graph = out.graph.as_ref().unwrap();
    for (at, tensor) in graph.initializer.iter().enumerate().filter(|(_, tensor)| tensor.data_type == Some(7))
    {
        for step in [-1, 1] {
            let read = |graph: &GraphProto| {
                graph.node.iter().any(|node| node.input.iter().any(|name| name == tensor.name()))
            };
            let bytes = tensor.raw_data.clone().unwrap_or_default();
            if !read(graph) || bytes.len() != 8 {
                continue;
            }
            let number = i64::from_le_bytes(bytes[..8].try_into().unwrap());
            // A larger end may lie beyond the extent, which changes nothing.
            if number > 1 << 40 {
                continue;
            }
            let mut other = out.clone();
            let tensors = &mut other.graph.as_mut().unwrap().initializer;
            tensors[at].raw_data = Some((number + step).to_le_bytes().to_vec().into());
            tried += 1;
            assert!(!is_proven(&other), "{} = {number} {step:+}", tensor.name());
        }
    }
    assert!(tried >= 2, "{tried}");
}
