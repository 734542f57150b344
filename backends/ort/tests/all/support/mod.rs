//! Models with weights, their plans, and the library, for the tests of the player.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod dynamic;
pub mod graph;
pub mod transfers;

use std::fs;
use std::path::{Path, PathBuf};

use memc::Request;
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};
use memc_ort::{Element, Runtime, library};

/// Loads the library that `cargo xtask test` sets up.
pub fn runtime() -> Runtime {
    let path = library::find(None).unwrap_or_else(|error| {
        panic!(
            "{error}\nThese tests play plans: run them with `cargo xtask test`, which sets up ONNX Runtime"
        )
    });
    Runtime::load(&path).expect("the library loads")
}

/// Makes a folder for a test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Copies a model of the corpus to a test's folder and makes up weights for it.
pub fn corpus(test: &str, name: &str) -> ModelFile {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models").join(format!("{name}.onnx"));
    let path = folder(test).join(format!("{name}.onnx"));
    fs::copy(&source, &path).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let file = ModelFile::open(&path).expect("a model");
    write_weights(&file);
    file
}

/// Writes small numbers around zero, or zeros and ones for integers: nothing overflows, and no two
/// weights are equal by accident.
fn write_weights(file: &ModelFile) {
    let mut files: std::collections::BTreeMap<PathBuf, Vec<u8>> = Default::default();
    let mut state = 1u64;
    for tensor in &file.graph().initializer {
        if tensor.data_location() != DataLocation::External {
            continue;
        }
        let entry = |key: &str| {
            tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value().to_owned())
        };
        let path = file.path().unwrap().parent().unwrap().join(entry("location").unwrap());
        let offset: usize = entry("offset").map_or(0, |text| text.parse().unwrap());
        let shape: Vec<u64> = tensor.dims.iter().map(|extent| *extent as u64).collect();
        let element = Element::from_onnx(tensor.data_type()).unwrap();
        let size = element.bytes(&shape).unwrap() as usize;
        let bytes = files.entry(path).or_default();
        bytes.resize(bytes.len().max(offset + size), 0);
        let is_float = element.data_type() == DataType::Float;
        let width = if is_float { 4 } else { 1 };
        for chunk in bytes[offset..offset + size].chunks_exact_mut(width) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 40) as f32 / (1u64 << 24) as f32;
            if is_float {
                chunk.copy_from_slice(&(0.2 * unit - 0.1).to_le_bytes());
            } else {
                chunk[0] = u8::from(unit > 0.5);
            }
        }
    }
    for (path, bytes) in files {
        fs::write(path, bytes).expect("weights");
    }
}

/// Plans a model and writes the result to the model's folder.
pub fn plan(file: &ModelFile, configure: impl FnOnce(&mut Request)) -> (ModelFile, Layout) {
    // Results are compared bit by bit.
    let mut request = Request::new().effort(2_000).exact(true);
    configure(&mut request);
    let optimized = memc::plan(file, &request).expect("a plan");
    let path = file.path().unwrap().with_extension("out.onnx");
    let mut out = fs::File::create(&path).expect("a file");
    optimized.model.write_to(&mut out).expect("a model");
    (ModelFile::open(&path).expect("what was written"), optimized.layout)
}

/// Writes a model without external data to a file.
pub fn written(test: &str, model: &memc_onnx_proto::onnx::ModelProto) -> ModelFile {
    let path = folder(test).join("model.onnx");
    fs::write(&path, prost::Message::encode_to_vec(model)).expect("a file");
    ModelFile::open(path).expect("a model")
}
