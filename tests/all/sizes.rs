//! Values whose size only a run determines: statements of reports and of model files, and assumptions
//! of users.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::{Folder, Ran};
use models_made::{bytes, fixed, int, integers, ints, node, stated, symbolic, with};
use serde_json::{Value, json};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns `y = Cast(NonZero(x))` of twelve numbers. `claim` is a stated shape of NonZero's result. The
/// columns of `y` are a symbol.
fn non_zero(claim: Option<[i64; 2]>) -> Vec<u8> {
    let nodes =
        vec![node("NonZero", &["x"], &["i"]), stated(node("Cast", &["i"], &["y"]), vec![int("to", 1)])];
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &[3, 4])];
        graph.output = vec![symbolic("y", &["rows", "found"])];
        graph.value_info = claim.map(|dims| with_integers(fixed("i", &dims))).into_iter().collect();
    }))
}

fn with_integers(mut info: memc_onnx_proto::onnx::ValueInfoProto) -> memc_onnx_proto::onnx::ValueInfoProto {
    use memc_onnx_proto::onnx::type_proto::Value::TensorType;
    if let Some(TensorType(tensor)) = info.r#type.as_mut().and_then(|ty| ty.value.as_mut()) {
        tensor.elem_type = Some(7);
    }
    info
}

/// Returns a model with a length from data: `y = Tanh(MatMul(Gather(x, Range(0, n, 1)), x))`.
fn length_from_data() -> Vec<u8> {
    let nodes = vec![
        stated(node("ReduceMax", &["x"], &["m"]), vec![int("keepdims", 0)]),
        stated(node("Cast", &["m"], &["n"]), vec![int("to", 7)]),
        node("Squeeze", &["zero"], &["start"]),
        node("Squeeze", &["one"], &["step"]),
        node("Range", &["start", "n", "step"], &["q"]),
        node("Gather", &["x", "q"], &["g"]),
        node("MatMul", &["g", "x"], &["h"]),
        node("Tanh", &["h"], &["y"]),
    ];
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &[16, 16])];
        graph.output = vec![symbolic("y", &["length", "16"])];
        graph.initializer = vec![integers("zero", &[0]), integers("one", &[1])];
    }))
}

fn planned(folder: &Folder, options: &str) -> (Ran, Value) {
    let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
    let checked = folder.memc("check in.onnx out.onnx out.layout.json");
    assert!(matches!(checked.code, Some(0 | 4)), "{options}: {checked:#?}");
    let layout = parsed(&folder.read("out.layout.json"));
    (ran, layout)
}

#[test]
fn a_plan_beside_values_without_size_is_not_called_optimal() {
    let folder = Folder::new("sizes-unknown");
    folder.write("in.onnx", length_from_data());
    let (ran, layout) = planned(&folder, "--runtime ort");
    let last = ran.err.lines().rfind(|line| line.starts_with("peak ")).unwrap();
    assert!(last.contains("-> at least 12 B, 4 values without size are not in it  arena"), "{last}");
    assert!(!ran.err.contains("optimal") && !ran.err.contains("gap"), "{}", ran.err);
    let names: Vec<&str> =
        layout["unplanned"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["q", "g", "h", "y"]);
    assert_eq!(layout["unplanned"][3]["class"], json!("output"));
    assert_eq!(layout["peak"]["device"].get("at_most"), None);
    assert_eq!(layout["lower_bound"]["device"]["order"], Value::Null);
    let summary = parsed(&folder.memc("optimize in.onnx -o out.onnx --json").done().out);
    assert_eq!(
        [&summary["offsets_optimal"], &summary["counts"]["without_size"], &summary["at_most"]],
        [&json!(false), &json!(4), &Value::Null]
    );
    assert!(summary["solvers"].as_array().unwrap().iter().all(|solver| solver["proven"] == json!(false)));
    // With `--io external`, outputs are the caller's, so they do not count as missing in the arena.
    let (ran, _) = planned(&folder, "--io external");
    assert!(ran.err.contains("3 values without size are not in it"), "{}", ran.err);
}

#[test]
fn operators_bound_the_sizes_of_their_results() {
    let folder = Folder::new("sizes-bounded");
    folder.write("in.onnx", non_zero(None));
    let (ran, layout) = planned(&folder, "--runtime ort");
    let at_most: Vec<&Value> =
        layout["unplanned"].as_array().unwrap().iter().map(|row| &row["at_most"]).collect();
    assert_eq!(at_most, [&json!(192), &json!(96)], "2 rows of at most 12 columns, 8 and 4 bytes each");
    assert_eq!(layout["peak"]["device"]["at_most"], json!(288));
    assert!(
        ran.err.contains("at least 0 B, 2 values without size are not in it (at most 288 B with them)"),
        "{}",
        ran.err
    );
}

#[test]
fn sizes_that_only_the_file_states_are_marked() {
    let folder = Folder::new("sizes-stated");
    folder.write("in.onnx", non_zero(Some([2, 2])));
    let (ran, layout) = planned(&folder, "--runtime player");
    assert_eq!(layout["stated"], json!([{"tensor": "i", "by": "file"}, {"tensor": "y", "by": "file"}]));
    assert!(
        ran.err.contains("stated   2 sizes by the file (i): other data may have other sizes"),
        "{}",
        ran.err
    );
    // Missing and wrong rows are reported.
    for (rows, why) in [
        (json!([]), "has no row for it"),
        (json!([{"tensor": "i", "by": "file"}, {"tensor": "x", "by": "file"}]), "follows"),
    ] {
        let mut damaged = layout.clone();
        damaged["stated"] = rows;
        folder.write("out.layout.json", serde_json::to_string(&damaged).unwrap());
        let checked = folder.memc("check in.onnx out.onnx out.layout.json");
        assert!(
            checked.code == Some(1) && checked.err.contains("error[E0568]") && checked.err.contains(why),
            "{checked:#?}"
        );
    }
    // A stated size above the maximum is a contradiction instead of a claim.
    folder.write("in.onnx", non_zero(Some([2, 20])));
    let ran = folder.memc("optimize in.onnx -o out.onnx").done();
    assert!(ran.err.contains("W0101") && ran.err.contains("without size"), "{}", ran.err);
}

#[test]
fn sizes_that_the_user_assumes_are_planned_with_and_marked() {
    let folder = Folder::new("sizes-assumed");
    folder.write("in.onnx", length_from_data());
    let (ran, layout) = planned(&folder, "--assume q=40");
    let stated = layout["stated"].as_array().unwrap();
    assert_eq!((stated.len(), &stated[0]), (4, &json!({"tensor": "q", "by": "user"})));
    assert!(
        ran.err.contains("stated   4 sizes by you (q)") && !ran.err.contains("without size"),
        "{}",
        ran.err
    );
    let shape = |layout: &Value, name: &str| {
        let tensors = layout["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == *name).map(|tensor| tensor["shape"].clone())
    };
    assert_eq!(shape(&layout, "h"), Some(json!([40, 16])));
    assert_eq!([&layout["options"]["assume"], &layout["model"]["dims"]], [&json!("q=40"), &json!({})]);
    let (_, layout) = planned(&folder, "--assume g=5x16 --runtime ort");
    assert_eq!([shape(&layout, "y"), shape(&layout, "q")], [Some(json!([5, 16])), None]);
    // The written model states no assumed size, so it runs other data as well.
    let written = |options: &str| {
        planned(&folder, options);
        std::fs::read(folder.path("out.onnx")).unwrap()
    };
    let bound = memc_onnx_proto::ModelFile::from_bytes(written("--assume q=40")).unwrap();
    let infos = bound.graph().value_info.iter().filter(|info| ["q", "g", "h"].contains(&info.name()));
    for info in infos {
        assert!(!format!("{info:?}").contains("DimValue(40)"), "{info:?}");
    }
    // A symbol that occurs only in results can be assumed with `--dim`.
    let (_, layout) = planned(&folder, "--dim length=9");
    assert_eq!(layout["stated"], json!([{"tensor": "y", "by": "user"}]));
}

#[test]
fn assumptions_that_cannot_be_are_refused() {
    let folder = Folder::new("sizes-refused");
    folder.write("in.onnx", length_from_data());
    let refused = |options: &str, code: &str| {
        folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).refused(2, code)
    };
    assert!(refused("--assume gg=40", "E0126").err.contains("did you mean `g`?"));
    assert!(refused("--assume g=41", "E0127").err.contains("not a whole number of rows"));
    assert!(refused("--assume g=3x17", "E0127").err.contains("it is f32[?,16]"));
    assert!(refused("--assume m=2", "E0127").err.contains("it is f32[]"));
    assert!(refused("--dim lenght=9", "E0117").err.contains("length"));
    let wrong = folder.memc("optimize in.onnx -o out.onnx --assume g=2x");
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
}

#[test]
fn windows_beyond_the_image_have_a_size() {
    let folder = Folder::new("sizes-window");
    for op in ["MaxPool", "AveragePool"] {
        let pool =
            stated(node(op, &["x"], &["m"]), vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])]);
        let model = with(vec![pool, node("Relu", &["m"], &["y"])], |graph| {
            graph.input = vec![fixed("x", &[1, 8, 1, 1])];
            graph.output = vec![symbolic("y", &["n", "c", "h", "w"])];
        });
        folder.write("in.onnx", bytes(&model));
        let (_, layout) = planned(&folder, "");
        assert_eq!(layout["unplanned"], json!([]), "{op}");
        assert_eq!(layout["arenas"][0]["size"], json!(32), "{op}");
    }
}
