//! Transforms of a caller: they stand in the trace, and the check proves what they claim.
#![allow(clippy::unwrap_used)]

use memc::memc_layout::{Attribute, Layout};
use memc::{Model, Request, memc_check};

use crate::examples::transform::ROW;

const MODEL: &str = "examples/models/mlp_step.onnx";

/// Names of the violations of a layout; `unproven` if an output is not proven equal.
fn verdict(given: &Model, written: &Model, layout: &Layout) -> Vec<&'static str> {
    let report = memc_check::check(given, written, layout, memc_check::Options::default());
    let mut names: Vec<&str> = report.violations.iter().map(|violation| violation.kind.name()).collect();
    names.dedup();
    names.extend((!report.summary.unproven_outputs.is_empty()).then_some("unproven"));
    names
}

#[test]
fn the_trace_repeats_a_plan_with_a_transform() {
    let file = Model::open(MODEL).unwrap();
    let request = Request::new().transform(&ROW);
    let planned = memc::plan(&file, &request).unwrap();
    assert!(planned.trace.starts_with("tie,norms,"), "{}", planned.trace);
    let again = memc::plan(&file, &request.passes(planned.trace.clone())).unwrap();
    assert_eq!(again.model_bytes().unwrap(), planned.model_bytes().unwrap());
    assert_eq!(again.layout.tensors, planned.layout.tensors);
    assert_eq!(again.layout.added_outputs, planned.layout.added_outputs);
}

/// A damage of a layout, with what the check reports.
type Damage = (&'static str, &'static [&'static str], fn(&mut Layout));

#[test]
fn false_claims_on_added_outputs_are_refused() {
    let file = Model::open(MODEL).unwrap();
    let planned =
        memc::plan(&file, &Request::new().transform(&ROW).passes("norms,view,schedule,in-place,place"))
            .unwrap();
    let written = Model::from_bytes(planned.model_bytes().unwrap()).unwrap();
    assert_eq!(verdict(&file, &written, &planned.layout), Vec::<&str>::new());
    let damages: [Damage; 6] = [
        ("no claims", &["interface", "cost"], |layout| layout.added_outputs.clear()),
        ("another operator", &["unproven"], |layout| {
            layout.added_outputs[0].nodes[0].op = "ReduceSum".into()
        }),
        ("another operand", &["unproven"], |layout| {
            let other = layout.added_outputs[1].nodes[0].inputs.clone();
            layout.added_outputs[0].nodes[0].inputs = other;
        }),
        ("another attribute", &["unproven"], |layout| {
            layout.added_outputs[0].nodes[0].attributes.insert("keepdims".into(), Attribute::Int(1));
        }),
        ("an operand of nobody", &["added-output", "interface", "cost"], |layout| {
            layout.added_outputs[0].nodes[0].inputs[0] = "nobody".into()
        }),
        ("another name", &["added-output", "interface", "cost"], |layout| {
            layout.added_outputs[0].name = "other".into()
        }),
    ];
    for (what, expected, damage) in damages {
        let mut layout = planned.layout.clone();
        damage(&mut layout);
        assert_eq!(verdict(&file, &written, &layout), expected, "{what}");
    }
}
