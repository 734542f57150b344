//! Tests of inserted replacements: kept nodes keep the results that they cannot do without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::{Module, Operator, text};
use memc_rewrite::{FormNode, Limits, Replacement, Shift, Source, apply, fragments, own_bytes};

fn module(body: &str) -> Module {
    let parsed = text::parse(&format!("mem 1\nir_version 8\nopset \"\" 17\n{body}"));
    parsed.unwrap_or_else(|errors| panic!("{}", errors[0]))
}

#[test]
fn a_node_that_stays_for_another_result_keeps_its_first() {
    let mut module = module(
        "graph @g {
  input %x : f32[2,8]
  input %g : f32[8]
  %y, %m = LayerNormalization(%x, %g) {axis = -1} : (f32[2,8], f32[2,1])
  return %y, %m
}
",
    );
    let found = fragments(&module, &Limits::default(), Shift::None, &own_bytes);
    let own = module.node(found[0].nodes[0]).clone();
    let ty = |position: usize| Some(module.ty(own.outputs[position].unwrap()).clone());
    let operands = vec![Some(Source::Input(0)), Some(Source::Input(1))];
    // The first result comes from another node, the second one stays.
    let other = FormNode {
        operator: Operator::onnx("Other", 1),
        attributes: Vec::new(),
        inputs: operands.clone(),
        results: vec![ty(0)],
        original: None,
    };
    let kept = FormNode {
        operator: own.operator.clone(),
        attributes: own.attributes.clone(),
        inputs: operands,
        results: vec![ty(0), ty(1)],
        original: Some(0),
    };
    let outputs = vec![Source::Result(0, 0), Source::Result(1, 1)];
    let replacement = Replacement { nodes: vec![other, kept], outputs, ..Replacement::default() };
    let applied = apply(&mut module, &[(&found[0], &replacement)]);
    assert_eq!(applied.fragments.len(), 1);
    assert_eq!(applied.fragments[0].outputs, [("y".to_owned(), "y".to_owned())], "`m` is computed as before");
    for node in &module.graph(module.main()).nodes {
        assert!(module.node(*node).outputs[0].is_some(), "{}", text::print(&module));
    }
    let names: Vec<&str> =
        module.graph(module.main()).outputs.iter().map(|value| module.value(*value).name.as_str()).collect();
    assert_eq!(names, ["y", "m"], "outputs keep their names");
}

#[test]
fn zeros_are_known_behind_the_fragment_that_makes_them() {
    let module = module(
        "graph @g {
  input %a : f32[6,4]
  input %i : i64[3,1]
  input %u : f32[3,4]
  const %o : f32[] = [0.0]
  const %s : i64[2] = [6, 4]
  %z = Expand(%o, %s) : f32[6,4]
  %m = Neg(%a) : f32[6,4]
  %g = ScatterND(%z, %i, %u) {reduction = \"add\"} : f32[6,4]
  %y = Add(%m, %g) : f32[6,4]
  return %y
}
",
    );
    let found = fragments(&module, &Limits { nodes: 2, ..Limits::default() }, Shift::None, &own_bytes);
    let last = found.last().unwrap();
    assert_eq!((found.len(), last.nodes.len()), (2, 2));
    let zeros: Vec<_> = last
        .inputs
        .iter()
        .zip(&last.zeros)
        .map(|(value, zeros)| (&*module.value(*value).name, *zeros))
        .collect();
    assert_eq!(zeros, [("z", true), ("i", false), ("u", false), ("m", false)]);
    assert!(last.key.contains("zeros"), "{}", last.key);
}
