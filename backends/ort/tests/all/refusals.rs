//! Rejects inputs, plans and libraries that do not fit, with a precise error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::path::Path;

use memc_onnx_proto::onnx::GraphProto;
use memc_ort::{Array, Element, Error, PlayOptions, Player, Runtime, VerifyOptions, inputs, library, verify};
use support::graph::{FLOAT, INT64, model, node, value};
use support::{corpus, folder, plan, runtime, written};

#[test]
fn a_library_that_is_named_must_be_there() {
    let error = library::find(Some(Path::new("no/such/library.so"))).expect_err("no file");
    assert!(
        matches!(&error, Error::NoLibrary { tried } if tried[0].contains("no/such/library.so")),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_library_is_refused() {
    // The library is loaded once a process: run the test in a process of its own.
    let path = folder("refusals_library").join("libonnxruntime.so");
    std::fs::write(&path, "no library").unwrap();
    if std::env::var_os("MEMC_TEST_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "refusals::a_file_that_is_no_library_is_refused"])
            .env("MEMC_TEST_ALONE", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    assert!(matches!(Runtime::load(&path), Err(Error::Library { .. })));
}

#[test]
fn a_layout_of_another_model_is_refused() {
    let (_, layout) = plan(&corpus("refusals_layout_a", "mlp_grad_tiny"), |_| {});
    let (out, _) = plan(&corpus("refusals_layout_b", "mlp_dropout_adam_tiny"), |_| {});
    let runtime = runtime();
    assert!(matches!(
        Player::new(&runtime, &out, &layout, PlayOptions::default()),
        Err(Error::OtherModel { .. })
    ));
}

#[test]
fn missing_and_short_weights_are_named() {
    let file = corpus("refusals_weights", "mlp_grad_tiny");
    let (out, layout) = plan(&file, |_| {});
    let weights = file.path().unwrap().with_extension("weights");
    let runtime = runtime();
    let length = std::fs::metadata(&weights).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&weights).unwrap().set_len(length / 2).unwrap();
    let error = Player::new(&runtime, &out, &layout, PlayOptions::default()).expect_err("too short");
    assert!(matches!(&error, Error::Weights { path, .. } if path == &weights), "{error}");
    std::fs::remove_file(&weights).unwrap();
    let error = Player::new(&runtime, &out, &layout, PlayOptions::default()).expect_err("gone");
    assert!(matches!(&error, Error::Weights { source: Some(_), .. }), "{error}");
}

#[test]
fn inputs_must_be_given_with_type_and_shape() {
    let (out, layout) = plan(&corpus("refusals_inputs", "mlp_grad_tiny"), |_| {});
    let runtime = runtime();
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default()).unwrap();
    let mut set = inputs::make(&out, &layout, 0).unwrap();
    let x = set.remove("x").unwrap();
    assert!(matches!(player.play(&set), Err(Error::Input { input, .. }) if input == "x"));
    let mut shape = x.shape.clone();
    shape.push(1);
    set.insert("x".to_owned(), Array::new(x.element, shape, x.bytes()).unwrap().unwrap());
    assert!(matches!(player.play(&set), Err(Error::Input { input, .. }) if input == "x"));
    let zeros = vec![0; x.bytes().len() * 2];
    set.insert(
        "x".to_owned(),
        Array::new(Element::from_name("double").unwrap(), x.shape.clone(), &zeros).unwrap().unwrap(),
    );
    assert!(matches!(player.play(&set), Err(Error::Input { input, .. }) if input == "x"));
    set.insert("x".to_owned(), x);
    assert!(player.play(&set).is_ok());
    set.insert(
        "z".to_owned(),
        Array::new(Element::from_name("bool").unwrap(), vec![1], &[1]).unwrap().unwrap(),
    );
    assert!(
        matches!(player.play(&set), Err(Error::Input { input, .. }) if input == "z"),
        "no input is passed over in silence"
    );
}

#[test]
fn a_kernel_that_fails_names_its_step() {
    let (out, layout) = plan(&corpus("refusals_kernel", "mlp_grad_tiny"), |_| {});
    let runtime = runtime();
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default()).unwrap();
    let mut set = inputs::make(&out, &layout, 0).unwrap();
    let y = &set["y"];
    let absurd: Vec<u8> =
        std::iter::repeat_n(1_000_000i64.to_le_bytes(), y.bytes().len() / 8).flatten().collect();
    let label = Array::new(y.element, y.shape.clone(), &absurd).unwrap().unwrap();
    set.insert("y".to_owned(), label);
    let error = player.play(&set).expect_err("no such class");
    assert!(matches!(&error, Error::Kernel { node, .. } if !node.is_empty()), "{error}");
}

#[test]
fn a_tensor_beyond_its_arena_is_refused() {
    let (out, layout) = plan(&corpus("refusals_arena", "mlp_grad_tiny"), |_| {});
    let runtime = runtime();
    let mut damaged = layout.clone();
    let tensor = damaged.tensors.iter_mut().find(|tensor| tensor.offset.is_some()).unwrap();
    tensor.offset = Some(layout.arenas[0].size);
    let name = tensor.name.clone();
    assert!(
        matches!(Player::new(&runtime, &out, &damaged, PlayOptions::default()), Err(Error::Tensor { tensor, .. }) if tensor == name)
    );
}

#[test]
fn an_overlapping_layout_is_refused_under_default_options() {
    let (out, layout) = plan(&corpus("refusals_overlap", "mlp_grad_tiny"), |_| {});
    let runtime = runtime();
    let mut damaged = layout.clone();
    damaged
        .tensors
        .iter_mut()
        .filter(|tensor| tensor.offset.is_some())
        .for_each(|tensor| tensor.offset = Some(0));
    let refused = Player::new(&runtime, &out, &damaged, PlayOptions::default());
    assert!(
        matches!(&refused, Err(Error::Tensor { reason, .. }) if reason.contains("shares bytes")),
        "{refused:?}"
    );
}

#[test]
fn a_given_model_that_fails_is_no_fault_of_the_plan() {
    let indices = value("indices", INT64, Some(&[2]));
    let gather = node("Gather", &["x", "indices"], &["y"]);
    let graph = GraphProto {
        name: Some("gather".to_owned()),
        input: vec![value("x", FLOAT, Some(&[4, 8])), indices],
        output: vec![value("y", FLOAT, Some(&[2, 8]))],
        node: vec![gather],
        ..GraphProto::default()
    };
    let given = written("refusals_given", &model(graph));
    let (out, layout) = plan(&given, |_| {});
    let runtime = runtime();
    let mut set = inputs::make(&out, &layout, 0).unwrap();
    let far = Element::from_name("int64").unwrap();
    let bytes: Vec<u8> = [0i64, 9].iter().flat_map(|index| index.to_le_bytes()).collect();
    set.insert("indices".to_owned(), Array::new(far, vec![2], &bytes).unwrap().unwrap());
    let error = verify(&runtime, &given, &out, &layout, Some(&set), VerifyOptions::default())
        .expect_err("out of bounds");
    assert!(matches!(&error, Error::Given { message } if message.contains("indices")), "{error}");
}

#[test]
fn models_that_take_no_numbers_are_not_run() {
    let graph = GraphProto {
        name: Some("words".to_owned()),
        input: vec![value("x", FLOAT, Some(&[4])), value("words", 8, Some(&[4]))],
        output: vec![value("y", FLOAT, Some(&[4])), value("same", 8, Some(&[4]))],
        node: vec![node("Sin", &["x"], &["y"]), node("Identity", &["words"], &["same"])],
        ..GraphProto::default()
    };
    let given = written("refusals_words", &model(graph));
    let (out, layout) = plan(&given, |_| {});
    let runtime = runtime();
    let x = Array::new(Element::from_name("float").unwrap(), vec![4], &[0; 16]).unwrap().unwrap();
    let arrays = std::collections::BTreeMap::from([("x".to_owned(), x)]);
    for set in [None, Some(&arrays)] {
        let error = verify(&runtime, &given, &out, &layout, set, VerifyOptions::default())
            .expect_err("nobody can give words");
        assert!(
            matches!(&error, Error::NoArray { input, kind: "a tensor of strings" } if input == "words"),
            "{error}"
        );
        assert!(error.help().contains("memc check"));
    }
    let error = inputs::make(&out, &layout, 0).expect_err("nobody can make up words");
    assert!(matches!(&error, Error::NoArray { .. }), "{error}");
}
