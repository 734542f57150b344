//! Odd models through the whole command: functions, and nodes without names. The checker must accept
//! each plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::models_made;

use memc::{Planned, Request, Runtime, plan};
use memc_onnx_import::ImportOptions;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::ModelProto;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use models_made::{body, branch, bytes, call, fixed, function, node, raw, stated, with};

/// Plans a model, and asserts that the checker accepts the plan.
fn planned(model: &ModelProto) -> Planned {
    planned_by(model, Request::new())
}

/// The same with options of its own.
fn planned_by(model: &ModelProto, request: Request) -> Planned {
    let file = ModelFile::from_bytes(bytes(model)).unwrap();
    let import = ImportOptions { allow_unbound: true, ..ImportOptions::default() };
    let optimized = plan(&file, &Request { import, verify: true, ..request }).unwrap();
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let report = memc_check::check(&file, &out, &optimized.layout, Default::default());
    assert!(report.holds(), "{:?}", report.violations);
    optimized
}

#[test]
fn operator_sets_of_inlined_nodes_are_stated() {
    let mut unheard = node("Unheard", &["a"], &["b"]);
    unheard.domain = Some("elsewhere".into());
    let mut model = with(vec![call("F", &["x"], &["y"])], |_| {});
    model.functions = vec![function("F", vec![unheard])];
    let optimized = planned(&model);
    let domains: Vec<&str> = optimized.layout.model.opset_imports.iter().map(|import| import.domain.as_str()).collect();
    assert_eq!(domains, ["", "elsewhere", "local"]);
}

#[test]
fn an_operand_that_is_a_result_keeps_the_stated_type() {
    // The function returns its operand unchanged. The model states no type for `x`, but a type for `y`.
    let mut model = with(vec![call("F", &["x"], &["y"])], |graph| {
        graph.input[0].r#type = None;
        graph.output = vec![fixed("y", &[4])];
    });
    model.functions = vec![function("F", vec![])];
    model.functions[0].output = vec!["a".into()];
    let optimized = planned(&model);
    assert!(optimized.layout.tensors.iter().any(|tensor| tensor.name == "y" && tensor.bytes == 16));
}

#[test]
fn workspace_of_nodes_without_names_counts() {
    let mut model = with(vec![node("HardSwish", &["x"], &["y"])], |_| {});
    model.graph.as_mut().unwrap().node[0].name = None;
    let optimized = planned_by(&model, Request::new().runtime(Runtime::Ort));
    let scratch = optimized.layout.tensors.iter().find(|tensor| tensor.name.starts_with("scratch:")).unwrap();
    assert!(optimized.layout.baseline.own_peak["device"] >= 16 + scratch.bytes);
}

/// An If whose condition is a constant, with a branch that computes `yes` and one that computes `no`.
fn branching(condition: bool, yes: &str, no: &str) -> ModelProto {
    let branches = [("then_branch", yes), ("else_branch", no)];
    let branches = branches.map(|(name, op)| body(name, branch(vec![node(op, &["x"], &["z"])], "z")));
    let mut flag = raw("flag", &[], &[u8::from(condition)]);
    flag.data_type = Some(DataType::Bool as i32);
    with(vec![stated(node("If", &["flag"], &["i"]), branches.to_vec()), node("Relu", &["i"], &["y"])], |graph| {
        graph.initializer = vec![flag];
    })
}

#[test]
fn an_inlined_branch_is_proven_equal_and_the_other_one_is_not() {
    let given = branching(true, "Exp", "Neg");
    let optimized = planned_by(&given, Request::new().exact(true));
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    assert!(out.graph().node.iter().all(|node| node.op_type() != "If"));
    let proven = |given: &ModelProto| {
        let given = ModelFile::from_bytes(bytes(given)).unwrap();
        let mut layout = optimized.layout.clone();
        layout.model.input_sha256 = memc::sha256(given.bytes());
        memc_check::check(&given, &out, &layout, Default::default()).is_proven()
    };
    assert!(proven(&given) && proven(&branching(false, "Neg", "Exp")));
    assert!(!proven(&branching(false, "Exp", "Neg")) && !proven(&branching(true, "Neg", "Exp")));
}
