//! Work and traffic of single nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_cost::{CostModel, UNKNOWN_NANOS, flops, traffic};
use memc_ir::{Module, Nanos, text};

fn module(inputs: &[&str], node: &str, result: &str) -> Module {
    let mut module = String::from("mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {\n");
    let names = ["a", "b", "c"];
    for (name, ty) in names.iter().zip(inputs) {
        module.push_str(&format!("  input %{name} : {ty}\n"));
    }
    module.push_str(&format!("  %y = {node} : {result}\n  return %y\n}}\n"));
    text::parse(&module).unwrap()
}

/// Operations and bytes of the only node.
fn charged(inputs: &[&str], node: &str, result: &str) -> (Option<u64>, Option<u64>) {
    let module = module(inputs, node, result);
    let node = module.graph(module.main()).nodes[0];
    (flops(&module, node), traffic(&module, node).map(|bytes| bytes.made))
}

#[test]
fn a_matrix_product_is_charged_its_multiply_adds() {
    let product = charged(&["f32[8,16]", "f32[16,4]"], "MatMul(%a, %b)", "f32[8,4]");
    assert_eq!(product, (Some(2 * 8 * 16 * 4), Some(4 * (8 * 16 + 16 * 4 + 8 * 4))));
}

#[test]
fn a_table_that_is_looked_up_is_charged_what_is_found() {
    let found = 4 * 8 * 10;
    assert_eq!(charged(&["f32[30000,8]", "i64[10]"], "Gather(%a, %b)", "f32[10,8]"), (Some(0), Some(2 * found + 80)));
    // More look-ups than rows: the table is read once.
    assert_eq!(charged(&["f32[2,8]", "i64[10]"], "Gather(%a, %b)", "f32[10,8]"), (Some(0), Some(64 + found + 80)));
}

#[test]
fn extents_cost_nothing_to_read_and_views_nothing_at_all() {
    assert_eq!(charged(&["f32[1000,1000]"], "Shape(%a)", "i64[2]"), (Some(0), Some(16)));
    assert_eq!(charged(&["f32[10]", "i64[1]"], "Reshape(%a, %b)", "f32[10]").1, Some(0));
}

#[test]
fn what_nobody_knows_is_charged_a_bound() {
    let module = module(&["f32[?]"], "Relu(%a)", "f32[?]");
    let node = module.graph(module.main()).nodes[0];
    assert_eq!(CostModel::default().nanos(&module, node), Nanos(UNKNOWN_NANOS));
    // Not in the table: ten operations for each element.
    assert_eq!(charged(&["f32[10]"], "Frobnicate(%a)", "f32[10]"), (Some(200), Some(80)));
}

#[test]
fn types_have_rates_of_their_own() {
    let time = |ty: &str| {
        let module = module(&[ty], "Exp(%a)", ty);
        let mut costs = CostModel::default();
        costs.target.machine.flops_per_second.float16 *= 1e-3;
        costs.nanos(&module, module.graph(module.main()).nodes[0]).0
    };
    assert!(time("f16[1000]") > 10.0 * time("f32[1000]"));
}
