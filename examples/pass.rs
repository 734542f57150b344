//! Runs a pass of your own on a model before it is planned: `cargo run --example pass`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::memc_ir::{Module, Rewriter, Stage};
use memc::memc_passes::{Changed, LeaveOut, PassContext, PassError, PassInfo, Transform, Turn};
use memc::{Model, Request};

/// The pass. Its page would explain it in `memc passes`.
static WHERE_NOT: PassInfo = PassInfo {
    name: "where-not",
    summary: "Swaps the branches of a Where whose condition is a Not.",
    page: "",
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run: remove_negated_conditions,
};

/// When planning runs it: once, before all plans.
static ROW: Transform = Transform {
    pass: &WHERE_NOT,
    passes: "where-not,dce",
    turn: Turn::First,
    applies: |_, _| true,
    option: None,
    leave_out: LeaveOut::Never,
};

/// Rewrites `Where(Not(c), a, b)` to `Where(c, b, a)`; a later `dce` erases the Not.
fn remove_negated_conditions(module: &mut Module, _: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        let module = rewriter.module();
        let data = module.node(node);
        let [Some(condition), Some(then), Some(other)] = data.inputs[..] else { continue };
        let Some(not) = module.producer(condition).map(|producer| module.node(producer)) else { continue };
        if &*data.operator.name == "Where" && &*not.operator.name == "Not" {
            let inverted = not.inputs[0];
            rewriter.set_operands(node, vec![inverted, Some(other), Some(then)]);
        }
    }
    Ok(Changed::edits(rewriter.finish()))
}

/// Number of Not nodes in a planned model.
fn nots(planned: &memc::Planned) -> usize {
    planned.layout.schedule.iter().filter(|row| row.op == "Not").count()
}

/// Plans a model with the pass.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let planned = memc::plan(&file, &Request::new().transform(&ROW))?;
    println!("{} Not nodes left, arena {} B", nots(&planned), planned.arena());
    assert!(nots(&planned) < nots(&memc::plan(&file, &Request::new())?));
    Ok(())
}
