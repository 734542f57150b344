//! Tests the library in a stock session: its kernels replace the model's functions, and give equal bits.
#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::type_proto::{Tensor, Value};
use memc_onnx_proto::onnx::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto,
    ValueInfoProto, tensor_shape_proto,
};
use memc_ort::{Array, Element, Error, Runtime, SessionOptions, Whole, digest, library, views};
use prost::Message as _;

const EXTENT: u64 = 1000;

fn operators() -> PathBuf {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let name = format!("{}memc_ort_ops{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let places = [beside.join(&name), beside.join("..").join(&name)];
    places.into_iter().find(|path| path.is_file()).expect("cargo builds the library beside the tests")
}

fn node(op: &str, domain: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        domain: Some(domain.to_owned()),
        name: Some(output.to_owned()),
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn value(name: &str, element: Element) -> ValueInfoProto {
    let extent = tensor_shape_proto::dimension::Value::DimValue(EXTENT as i64);
    let dim = tensor_shape_proto::Dimension { denotation: None, value: Some(extent) };
    let tensor = Tensor { elem_type: Some(element.onnx()), shape: Some(TensorShapeProto { dim: vec![dim] }) };
    let ty = TypeProto { denotation: None, value: Some(Value::TensorType(tensor)) };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn import(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

/// Returns a model of y = x + x with a transfer; its functions are those that the exporter writes.
fn model(element: Element, functions: bool) -> ModelFile {
    let graph = GraphProto {
        name: Some("trip".to_owned()),
        input: vec![value("x", element)],
        output: vec![value("y", element)],
        node: vec![
            node("Identity", "", &["x"], "a"),
            node("SwapOut", "ai.memc", &["a"], "far"),
            node("SwapIn", "ai.memc", &["far"], "back"),
            // The operand is not a token, so it is copied.
            node("SwapIn", "ai.memc", &["x"], "copy"),
            node("Concat", "", &["back", "copy"], "both"),
            node("Slice", "", &["both", "start", "end"], "y"),
        ],
        initializer: [("start", EXTENT as i64 / 2), ("end", EXTENT as i64 * 3 / 2)]
            .map(|(name, number)| memc_onnx_proto::onnx::TensorProto {
                name: Some(name.to_owned()),
                dims: vec![1],
                data_type: Some(7),
                int64_data: vec![number],
                ..Default::default()
            })
            .to_vec(),
        ..GraphProto::default()
    };
    let mut graph = graph;
    let axis = memc_onnx_proto::onnx::AttributeProto {
        name: Some("axis".to_owned()),
        i: Some(0),
        r#type: Some(2),
        ..Default::default()
    };
    graph.node[4].attribute.push(axis);
    let function = |name: &str| FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("ai.memc".to_owned()),
        input: vec!["input_0".to_owned()],
        output: vec!["output_0".to_owned()],
        node: vec![node("Identity", "", &["input_0"], "output_0")],
        opset_import: vec![import("", 17)],
        ..FunctionProto::default()
    };
    let model = ModelProto {
        ir_version: Some(9),
        opset_import: vec![import("", 17), import("ai.memc", 1)],
        functions: if functions { vec![function("SwapOut"), function("SwapIn")] } else { Vec::new() },
        graph: Some(graph),
        ..ModelProto::default()
    };
    ModelFile::from_bytes(model.encode_to_vec()).unwrap()
}

fn runtime() -> Runtime {
    let path = library::find(None).unwrap_or_else(|error| {
        panic!(
            "{error}\nThese tests run sessions: run them with `cargo xtask test`, which sets up ONNX Runtime"
        )
    });
    Runtime::load(&path).unwrap()
}

fn inputs(element: Element) -> BTreeMap<String, Array> {
    let bytes = element.bytes(&[EXTENT]).unwrap() as usize;
    // Boolean values are 0 and 1.
    let data: Vec<u8> = (0..bytes).map(|position| (position % 7 == 0).into()).collect();
    BTreeMap::from([("x".to_owned(), Array::new(element, vec![EXTENT], &data).unwrap().unwrap())])
}

fn same_bits() {
    let runtime = runtime();
    for name in ["float", "int64", "bool", "float16"] {
        let element = Element::from_name(name).unwrap();
        let set = inputs(element);
        let expected =
            Whole::new(&runtime, &model(element, true), SessionOptions::PLAIN).unwrap().run(&set).unwrap().0;
        for optimize in [false, true] {
            let options = SessionOptions { optimize, ..SessionOptions::PLAIN };
            for functions in [false, true] {
                // SAFETY: the library is ours.
                let whole = unsafe {
                    Whole::with_operators(&runtime, &model(element, functions), options, &operators())
                };
                let whole = whole.unwrap();
                for _ in 0..3 {
                    assert_eq!(
                        digest(&views(&whole.run(&set).unwrap().0)),
                        digest(&views(&expected)),
                        "{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn kernels_of_the_library_give_the_bits_of_the_functions() {
    same_bits();
}

#[test]
fn without_functions_only_the_library_runs_the_model() {
    let runtime = runtime();
    let element = Element::from_name("float").unwrap();
    let error = Whole::new(&runtime, &model(element, false), SessionOptions::PLAIN)
        .expect_err("nobody knows the operators");
    assert!(
        error.to_string().contains("SwapOut") || matches!(error, Error::MissingKernels { .. }),
        "{error}"
    );
}

/// Runs the test in a process of its own, because the folder is read from the environment. Returns
/// whether this process is the new one.
fn alone(test: &str, folder: &Path) -> bool {
    if std::env::var_os("MEMC_TEST_ALONE").is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(own);
    let status =
        command.args(["--exact", test]).env("MEMC_TEST_ALONE", "1").env("MEMC_SWAP_DIR", folder).status();
    assert!(status.unwrap().success());
    false
}

#[test]
fn tensors_wait_in_files_that_leave_nothing_behind() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ops_files");
    std::fs::create_dir_all(&folder).unwrap();
    if alone("tensors_wait_in_files_that_leave_nothing_behind", &folder) {
        same_bits();
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_folder_without_room_fails_the_run_in_words() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ops_no_such_folder");
    if alone("a_folder_without_room_fails_the_run_in_words", &folder) {
        let runtime = runtime();
        let element = Element::from_name("float").unwrap();
        // SAFETY: the library is ours.
        let whole = unsafe {
            Whole::with_operators(&runtime, &model(element, true), SessionOptions::PLAIN, &operators())
        }
        .unwrap();
        let error = whole.run(&inputs(element)).expect_err("no folder, no file");
        assert!(error.to_string().contains("cannot be stored"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_library_is_refused() {
    let runtime = runtime();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_library.so");
    std::fs::write(&path, "no library").unwrap();
    let element = Element::from_name("float").unwrap();
    // SAFETY: the file has no code that could be loaded.
    let refused =
        unsafe { Whole::with_operators(&runtime, &model(element, true), SessionOptions::PLAIN, &path) };
    assert!(matches!(refused, Err(Error::Runtime { what: "load operators", .. })));
}
