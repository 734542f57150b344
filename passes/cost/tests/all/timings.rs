//! Profiles: measured times replace modelled times, and times of other nodes are scaled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use memc_cost::timings::{self, ProfileError};
use memc_cost::{CostModel, Measured, Target};
use memc_ir::{Bytes, Module, Nanos, Node, text};

const MODULE: &str = r#"mem 1
ir_version 10
opset "" 21

graph @g {
  input %x : f32[1000]
  %a = Relu(%x) : f32[1000] name "first"
  %b = Relu(%a) : f32[1000] name "second"
  %c = Exp(%b) : f32[1000] name "third"
  %d = Tanh(%c) : f32[1000] name "fourth"
  %e = Relu(%x) : f32[1000] name "again" recompute_of(%a)
  %f = Neg(%e) : f32[1000]
  return %d, %f
}
"#;

/// A profile that lacks the second Relu, has other extents for Exp and another operator under the name
/// of Tanh; Neg has no name in the model.
const PROFILE: &str = r#"{"schema": "memc.profile/1", "threads": 1, "nodes": [
  {"node": "first", "op": "Relu", "domain": "", "ns": 5600, "workspace": 64, "results": [{"name": "a", "shape": [1000]}]},
  {"node": "third", "op": "Exp", "domain": "", "ns": 900, "workspace": 7, "results": [{"name": "c", "shape": [3000]}]},
  {"node": "fourth", "op": "Sigmoid", "domain": "", "ns": 1, "workspace": 8},
  {"node": "Neg_0", "op": "Neg", "domain": "", "ns": 0, "workspace": 0, "results": [{"name": "f", "shape": [1000], "dtype": "float"}]}
]}"#;

fn module() -> Module {
    text::parse(MODULE).unwrap()
}

fn nodes(module: &Module) -> Vec<Node> {
    module.graph(module.main()).nodes.clone()
}

fn measured(text: &str, module: &Module) -> CostModel {
    let mut target = Target::default();
    (target.machine.cache, target.machine.overhead) = (None, Nanos(2_000.0));
    let measured = Measured::new(timings::read(text).unwrap(), module, &target.machine);
    CostModel { target, measured: Some(Arc::new(measured)), scratch: None }
}

#[test]
fn measured_nodes_keep_their_time_and_others_are_scaled() {
    let module = module();
    let costs = measured(PROFILE, &module);
    let times: Vec<f64> = nodes(&module).iter().map(|node| costs.nanos(&module, *node).0.round()).collect();
    // Modelled: 8000 bytes at 10 GB/s and 2 us, 2800 ns each. Relu was measured at twice that time, so
    // all other nodes are scaled by 2.
    assert_eq!(times, [5600.0, 5600.0, 5600.0, 5600.0, 5600.0, 0.0]);
    assert_eq!(costs.total_nanos(&module).0.round(), 28_000.0);
    let measured = costs.measured.as_ref().unwrap();
    assert_eq!((measured.matched(), measured.unmatched()), (3, 3));
}

#[test]
fn each_operator_has_a_ratio_of_its_own() {
    let module = module();
    let text = PROFILE.replace("[3000]", "[1000]").replace(
        "\"third\", \"op\": \"Exp\", \"domain\": \"\", \"ns\": 900",
        "\"third\", \"op\": \"Exp\", \"domain\": \"\", \"ns\": 11200",
    );
    let costs = measured(&text, &module);
    let times: Vec<f64> = nodes(&module).iter().map(|node| costs.nanos(&module, *node).0.round()).collect();
    // No entry covers Tanh: (5600 + 11200 + 5600) / (3 * 2800), with the copy counted like the original.
    assert_eq!(times, [5600.0, 5600.0, 11_200.0, 7467.0, 5600.0, 0.0]);
}

#[test]
fn workspace_is_taken_from_the_timings() {
    let module = module();
    let costs = measured(PROFILE, &module);
    let found: Vec<Option<Bytes>> =
        nodes(&module).iter().map(|node| costs.workspace(&module, *node)).collect();
    // The second Relu is not in the profile, but has the form of the first.
    assert_eq!(found, [Some(Bytes(64)), Some(Bytes(64)), None, None, Some(Bytes(64)), Some(Bytes(0))]);
    assert_eq!(CostModel::default().workspace(&module, nodes(&module)[0]), None);
}

/// A measured model and, below, its rewritten form: other names, fused activations and sums, and one
/// convolution with other extents.
const MEASURED: &str = r#"mem 1
ir_version 10
opset "" 21

graph @g {
  input %x : f32[2,4,8,8]
  input %w : f32[4,4,3,3]
  input %m : f32[8,8]
  input %b : f32[8]
  %c = Conv(%x, %w) {pads = [1, 1, 1, 1]} : f32[2,4,8,8] name "conv"
  %r = Relu(%c) : f32[2,4,8,8] name "relu"
  %p = MatMul(%m, %m) : f32[8,8] name "product"
  %s = Add(%p, %b) : f32[8,8] name "sum"
  return %r, %s
}
"#;

const REWRITTEN: &str = r#"mem 1
ir_version 10
opset "" 21
opset "com.microsoft" 1

graph @g {
  input %x : f32[2,4,8,8]
  input %w : f32[4,4,3,3]
  input %b4 : f32[4]
  input %m : f32[8,8]
  input %b : f32[8]
  %r = com.microsoft::FusedConv(%x, %w, %b4) {activation = "Relu", pads = [1, 1, 1, 1]} : f32[2,4,8,8]
  %u = Conv(%x, %w) {pads = [0, 0, 0, 0]} : f32[2,4,6,6]
  %s = Gemm(%m, %m, %b) {alpha = 1.0} : f32[8,8]
  return %r, %u, %s
}
"#;

#[test]
fn fused_and_renamed_nodes_take_the_timings_of_their_kernel() {
    let text = r#"{"schema": "memc.profile/1", "nodes": [
      {"node": "conv", "op": "Conv", "ns": 90000, "workspace": 4096, "results": [{"name": "c", "shape": [2, 4, 8, 8]}]},
      {"node": "relu", "op": "Relu", "ns": 900, "workspace": 0, "results": [{"name": "r", "shape": [2, 4, 8, 8]}]},
      {"node": "product", "op": "MatMul", "ns": 50000, "workspace": 128, "results": [{"name": "p", "shape": [8, 8]}]}]}"#;
    let (given, rewritten) = (text::parse(MEASURED).unwrap(), text::parse(REWRITTEN).unwrap());
    let costs = measured(text, &given);
    let workspace: Vec<Option<Bytes>> =
        nodes(&rewritten).iter().map(|node| costs.workspace(&rewritten, *node)).collect();
    assert_eq!(workspace, [Some(Bytes(4096)), None, Some(Bytes(128))]);
    // Each node is scaled by the ratio of the measured node of its kernel, also with other padding.
    let modelled = CostModel { target: costs.target.clone(), measured: None, scratch: None };
    let ratio = |module: &Module, node: Node| costs.nanos(module, node).0 / modelled.nanos(module, node).0;
    let (before, after) = (nodes(&given), nodes(&rewritten));
    for (fused, source) in [(0, 0), (1, 0), (2, 2)] {
        let (fused, source) = (ratio(&rewritten, after[fused]), ratio(&given, before[source]));
        assert!((fused / source - 1.0).abs() < 1e-9, "{fused} for {source}");
    }
}

#[test]
fn an_empty_profile_changes_nothing() {
    let module = module();
    let costs = measured(r#"{"schema": "memc.profile/1", "nodes": []}"#, &module);
    let modelled = CostModel { target: costs.target.clone(), measured: None, scratch: None };
    assert_eq!(costs.total_nanos(&module), modelled.total_nanos(&module));
    assert_eq!(costs.nanos(&module, nodes(&module)[0]), Nanos(2800.0));
}

#[test]
fn malformed_timings_are_refused() {
    let refusal = |text: &str| timings::read(text).unwrap_err().to_string();
    assert!(refusal("{").starts_with("line 1, column 1: "), "{}", refusal("{"));
    assert!(refusal("{}").contains("missing field `schema`"));
    assert_eq!(
        refusal(r#"{"schema": "memc.profile/3"}"#),
        "its `schema` is `memc.profile/3`, but this version of memc reads `memc.profile/2`"
    );
    assert!(
        refusal(r#"{"schema": "memc.profile/1", "nodes": [{"node": "a", "op": "Relu", "ns": -5}]}"#)
            .contains("-5")
    );
    let long =
        r#"{"schema": "memc.profile/1", "nodes": [{"node": "a", "op": "Relu", "ns": 18446744073709551615}]}"#;
    assert!(matches!(timings::read(long), Err(ProfileError::Time { .. })));
}

#[test]
fn processor_times_of_the_second_version_are_read() {
    let text = PROFILE.replace("profile/1", "profile/2").replace("\"ns\":", "\"wall_ns\": 77, \"cpu_ns\":");
    assert_eq!(timings::read(&text).unwrap().nodes, timings::read(PROFILE).unwrap().nodes);
}
