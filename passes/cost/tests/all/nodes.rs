//! Work and traffic of single nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_cost::{CostModel, Line, UNKNOWN_NANOS, flops, gathered, nanos, scalar_steps, traffic};
use memc_ir::{Module, Nanos, text};
use memc_ops::KernelKind;

fn module(inputs: &[&str], node: &str, result: &str) -> Module {
    let mut module = String::from("mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {\n");
    let names = ["a", "b", "c"];
    for (name, ty) in names.iter().zip(inputs) {
        module.push_str(&format!("  input %{name} : {ty}\n"));
    }
    module.push_str(&format!("  %y = {node} : {result}\n  return %y\n}}\n"));
    text::parse(&module).unwrap()
}

/// Returns operations and bytes of the only node.
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
fn gather_is_charged_the_rows_that_it_reads() {
    let found = 4 * 8 * 10;
    assert_eq!(
        charged(&["f32[30000,8]", "i64[10]"], "Gather(%a, %b)", "f32[10,8]"),
        (Some(0), Some(2 * found + 80))
    );
    // With more lookups than rows, the table is read once.
    assert_eq!(
        charged(&["f32[2,8]", "i64[10]"], "Gather(%a, %b)", "f32[10,8]"),
        (Some(0), Some(64 + found + 80))
    );
}

#[test]
fn extents_cost_nothing_to_read_and_views_nothing_at_all() {
    assert_eq!(charged(&["f32[1000,1000]"], "Shape(%a)", "i64[2]"), (Some(0), Some(16)));
    assert_eq!(charged(&["f32[10]", "i64[1]"], "Reshape(%a, %b)", "f32[10]").1, Some(0));
}

#[test]
fn scalar_steps_of_kernels_are_counted() {
    let steps = |inputs: &[&str], node: &str, result: &str| {
        let module = module(inputs, node, result);
        scalar_steps(&module, module.graph(module.main()).nodes[0])
    };
    assert_eq!(steps(&["bool[10]", "f32[10]", "f32[10]"], "Where(%a, %b, %c)", "f32[10]"), Some(80));
    assert_eq!(steps(&["f32[10]"], "Relu(%a)", "f32[10]"), Some(0));
    // 6 * 4 runs of 2 * 8 elements, and of 3 elements: the axes after the cut axis are whole.
    let slice = "Slice(%a, %b, %c)";
    assert_eq!(steps(&["f32[6,4,3,8]", "i64[1]", "i64[1]"], slice, "f32[6,4,2,8]"), Some(6 * 4 * 30));
    assert_eq!(steps(&["f32[6,4,4]", "i64[1]", "i64[1]"], slice, "f32[6,4,3]"), Some(6 * 4 * 30));
    let pool = |results: &str, ty: &str| {
        let text = format!(
            "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n  input %a : f32[1,1,8,8]\n  {results} = MaxPool(%a) {{kernel_shape = ints [2, 2]}} : {ty}\n  return %y\n}}\n"
        );
        let module = text::parse(&text).unwrap();
        scalar_steps(&module, module.graph(module.main()).nodes[0])
    };
    assert_eq!(pool("%y", "f32[1,1,7,7]"), Some(49 * 4));
    assert_eq!(pool("%y, %i", "(f32[1,1,7,7], i64[1,1,7,7])"), Some(49 * 4 * 10));
    // 1,000,000 elements of 13 bytes fit the cache in 325 us; eight steps each take 2.56 ms.
    let module =
        module(&["bool[1000000]", "f32[1000000]", "f32[1000000]"], "Where(%a, %b, %c)", "f32[1000000]");
    let time = CostModel::default().nanos(&module, module.graph(module.main()).nodes[0]);
    assert_eq!(time.0.round(), 2_561_500.0);
}

#[test]
fn convolution_windows_are_gathered_once_for_all_filters() {
    let convolution = |filters: &str, attributes: &str, result: &str| {
        let module = module(&["f32[1,4,10,10]", filters], &format!("Conv(%a, %b){attributes}"), result);
        let node = module.graph(module.main()).nodes[0];
        (gathered(&module, node), CostModel::default().nanos(&module, node).0.round())
    };
    // 64 window positions cover 4 * 9 elements each, at ten operations; each filter adds 2 * 2304; 50
    // operations per nanosecond.
    assert_eq!(convolution("f32[8,4,3,3]", "", "f32[1,8,8,8]"), (Some(2304), 2_698.0));
    assert_eq!(convolution("f32[16,4,3,3]", "", "f32[1,16,8,8]").0, Some(2304));
    assert_eq!(convolution("f32[4,1,3,3]", " {group = 4}", "f32[1,4,8,8]").0, Some(2304));
    assert_eq!(convolution("f32[8,4,1,1]", "", "f32[1,8,10,10]").0, Some(200));
    assert_eq!(convolution("f32[8,4,1,1]", " {strides = ints [2, 2]}", "f32[1,8,5,5]").0, Some(100));
}

#[test]
fn unknown_extents_and_operators_are_charged_an_upper_bound() {
    let module = module(&["f32[?]"], "Relu(%a)", "f32[?]");
    let node = module.graph(module.main()).nodes[0];
    assert_eq!(CostModel::default().nanos(&module, node), Nanos(UNKNOWN_NANOS));
    // An operator outside the table costs ten operations per element.
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

#[test]
fn a_function_takes_the_time_of_its_kernels() {
    let time = |nodes: &str, ty: &str, lines: bool| -> f64 {
        let text = format!(
            "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n  input %a : {ty}\n{}  return %y\n}}\n",
            nodes.replace("TYPE", ty)
        );
        let module = text::parse(&text).unwrap();
        let mut machine = CostModel::default().target.machine;
        if lines {
            let line = Line { costs: [300.0, 0.01, 0.25, 0.04, 0.125], error: 0.05 };
            machine.lines.set(KernelKind::Elementwise, line);
        }
        module.graph(module.main()).nodes.iter().map(|node| nanos(&module, *node, &machine).0).sum()
    };
    let whole = "  %y = HardSwish(%a) : TYPE\n";
    let parts = "  %g = HardSigmoid(%a) : TYPE\n  %y = Mul(%a, %g) : TYPE\n";
    for ty in ["f32[7]", "f32[64,4096]", "f16[64,4096]", "f32[0,4096]"] {
        for lines in [false, true] {
            assert_eq!(time(whole, ty, lines), time(parts, ty, lines), "{ty}, lines {lines}");
        }
    }
}

#[test]
fn a_scan_takes_the_time_of_its_body_for_each_row() {
    let times = |rows: u64| {
        let text = format!(
            "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n  input %a : f32[{rows},1000]\n  \
             %y = Scan(%a) {{body = graph @b {{\n    input %r : f32[1000]\n    %s = Exp(%r) : f32[1000]\n    return %s\n  }}, \
             num_scan_inputs = 1}} : f32[{rows},1000]\n  return %y\n}}\n"
        );
        let module = text::parse(&text).unwrap();
        let scan = module.graph(module.main()).nodes[0];
        let (_, body) = module.node(scan).bodies().next().unwrap();
        [scan, module.graph(body).nodes[0]].map(|node| CostModel::default().nanos(&module, node).0)
    };
    let ([one, body], [many, _]) = (times(1), times(64));
    assert!(body > 0.0 && (many - one - 63.0 * body).abs() < 1.0, "{one} and {many} beside {body}");
    assert!(one > body, "the call of the Scan takes time, too");
}
