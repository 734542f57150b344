//! `--external-data`: weights in one aligned file beside the planned model, equal to those of the given
//! one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::fs;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, StringStringEntryProto, TensorProto};
use models_made::*;
use prost::Message as _;

/// Rows and columns of the large weights, whose bytes are no multiple of an alignment.
const LARGE: [i64; 2] = [128, 257];

fn entry(tensor: &TensorProto, key: &str) -> String {
    tensor
        .external_data
        .iter()
        .find(|entry| entry.key() == key)
        .map(|entry| entry.value().to_owned())
        .unwrap()
}

/// A chain of products, and weights of many sizes: large, below the alignment, too small to leave,
/// without elements, of integers.
fn model() -> ModelProto {
    let nodes = vec![
        node("MatMul", &["x", "w1"], &["h1"]),
        node("Add", &["h1", "b1"], &["h2"]),
        node("MatMul", &["h2", "w2"], &["h3"]),
        node("Mul", &["h3", "s"], &["h4"]),
        node("Concat", &["h4", "e"], &["h5"]),
        node("Reshape", &["h5", "shape"], &["y"]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[4, 128])];
        graph.output = vec![fixed("y", &[512])];
        let shape = integers("shape", &[512]);
        let weights =
            [("w1", &LARGE[..]), ("b1", &[4, 257]), ("w2", &[257, 128]), ("s", &[1]), ("e", &[0, 128])];
        graph.initializer =
            weights.map(|(name, dims)| floats(name, dims)).into_iter().chain([shape]).collect();
        graph.node[4].attribute.push(int("axis", 0));
    });
    if let Some(graph) = &mut model.graph {
        graph.initializer[0].doc_string = Some("kept".to_owned());
    }
    model
}

fn written(folder: &Folder, name: &str) -> ModelProto {
    ModelProto::decode(fs::read(folder.path(name)).unwrap().as_slice()).unwrap()
}

fn initializers(model: &ModelProto) -> Vec<TensorProto> {
    model.graph.as_ref().unwrap().initializer.clone()
}

/// Moves the weights of a model into files beside it, the way exporters do: unaligned, one after
/// another.
fn moved_out(folder: &Folder, mut model: ModelProto) {
    let mut data = vec![7u8; 3];
    let graph = model.graph.as_mut().unwrap();
    for tensor in graph.initializer.iter_mut().filter(|tensor| tensor.raw_data().len() > 16) {
        let raw = tensor.raw_data.take().unwrap();
        let entries = [
            ("location", "d/given.bin".to_owned()),
            ("offset", data.len().to_string()),
            ("length", raw.len().to_string()),
        ];
        tensor.external_data = entries
            .into_iter()
            .map(|(key, value)| StringStringEntryProto { key: Some(key.to_owned()), value: Some(value) })
            .collect();
        tensor.data_location = Some(1);
        data.extend_from_slice(&raw);
    }
    fs::create_dir_all(folder.path("d")).unwrap();
    folder.write("d/given.bin", data);
    folder.write("in.onnx", bytes(&model));
}

/// Holds that the written weights are aligned and equal to those of the given model, and that the plan
/// and its results hold.
fn hold(folder: &Folder, alignment: u64) {
    let data = fs::read(folder.path("w.bin")).unwrap();
    let mut ends = 0;
    for given in initializers(&model()) {
        let all = initializers(&written(folder, "out.onnx"));
        let Some(tensor) = all.iter().find(|tensor| tensor.name() == given.name()) else { continue };
        let expected = given.raw_data();
        if expected.len() < 1024 {
            assert_eq!(tensor.raw_data(), expected, "{}", given.name());
            continue;
        }
        assert_eq!(
            (entry(tensor, "location").as_str(), tensor.raw_data.as_ref()),
            ("w.bin", None),
            "{}",
            given.name()
        );
        assert_eq!(
            (&tensor.dims, tensor.data_type, &tensor.doc_string),
            (&given.dims, given.data_type, &given.doc_string)
        );
        let (offset, length): (usize, usize) =
            (entry(tensor, "offset").parse().unwrap(), entry(tensor, "length").parse().unwrap());
        assert_eq!(
            offset as u64 % if length as u64 >= alignment { alignment } else { alignment.min(64) },
            0,
            "{}",
            given.name()
        );
        assert!(data[offset..offset + length] == *expected, "{}", given.name());
        ends = ends.max(offset + length);
    }
    assert_eq!(data.len(), ends);
    let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let is_proved =
        !checked.err.contains("compared by location") && !checked.err.contains("needs numeric comparison");
    assert!(is_proved, "{checked:#?}");
    folder.memc("verify in.onnx out.onnx -n 1").done();
}

#[test]
fn weights_inside_the_model_leave_it() {
    for (name, alignment) in [("64KiB", 65536), ("4KiB", 4096), ("1", 1), ("1MiB", 1 << 20)] {
        let folder = Folder::new(&format!("external-inside-{name}"));
        folder.write("in.onnx", bytes(&model()));
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --exact --external-data w.bin,align={name}"))
            .done();
        hold(&folder, alignment);
        assert!(fs::metadata(folder.path("out.onnx")).unwrap().len() < 8000);
    }
}

#[test]
fn weights_in_other_files_are_collected() {
    let folder = Folder::new("external-outside");
    moved_out(&folder, model());
    let done = folder.memc("optimize in.onnx -o out.onnx --exact --external-data w.bin").done();
    assert!(!done.err.contains("W0401"), "{done:#?}");
    hold(&folder, 65536);
    // Without the folder of the given weights, the planned model runs alone.
    let planned = folder.memc("report out.onnx --json").done();
    fs::remove_dir_all(folder.path("d")).unwrap();
    assert_eq!(folder.memc("report out.onnx --json").done().out, planned.out);
}

#[test]
fn changed_weights_are_found_by_the_checker() {
    let folder = Folder::new("external-changed");
    moved_out(&folder, model());
    folder.memc("optimize in.onnx -o out.onnx --exact --external-data w.bin").done();
    let mut data = fs::read(folder.path("w.bin")).unwrap();
    // The exponent of a number.
    data[70_003] ^= 0x40;
    folder.write("w.bin", data);
    // The checker no longer proves the result; the comparison of runs finds the difference.
    let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(checked.err.contains("needs numeric comparison"), "{checked:#?}");
    let verified = folder.memc("verify in.onnx out.onnx -n 1");
    assert!(verified.err.contains("E0709"), "{verified:#?}");
}

#[test]
fn rewritten_weights_leave_too() {
    let folder = Folder::new("external-rewritten");
    folder.write("in.onnx", bytes(&model()));
    folder.memc("optimize in.onnx -o out.onnx --external-data sub/w.bin").done();
    assert!(folder.path("sub/w.bin").is_file());
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx -n 1").done();
}

#[test]
fn missing_or_short_weights_leave_no_files() {
    let folder = Folder::new("external-missing");
    moved_out(&folder, model());
    let given = fs::read(folder.path("d/given.bin")).unwrap();
    folder.write("d/given.bin", &given[..given.len() - 1]);
    folder.memc("optimize in.onnx -o out.onnx --exact --external-data w.bin").refused(1, "E0116");
    fs::remove_file(folder.path("d/given.bin")).unwrap();
    folder.memc("optimize in.onnx -o out.onnx --exact --external-data w.bin").refused(1, "E0116");
    assert_eq!(folder.names(), ["d", "in.onnx"]);
}

#[test]
fn files_in_use_are_not_replaced() {
    let folder = Folder::new("external-in-use");
    moved_out(&folder, model());
    for name in ["d/given.bin", "in.onnx", "out.onnx"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --external-data {name}")).refused(2, "E0306");
    }
    assert_eq!(folder.names(), ["d", "in.onnx"]);
    for words in [
        "--external-data w.bin",
        "-o out.onnx --external-data ../w.bin",
        "-o o.onnx --external-data w.bin,align=3KiB",
    ] {
        assert_eq!(folder.memc(&format!("optimize in.onnx {words}")).code, Some(2), "{words}");
    }
}
