//! Runs a pass of your own on a model before it is planned: `cargo run --example pass`.
#![allow(clippy::print_stdout)]

use std::error::Error;

use memc::memc_ir::{Module, Rewriter, Stage};
use memc::memc_onnx_export::{self, ExportOptions};
use memc::memc_onnx_import::{self, ImportOptions};
use memc::memc_passes::{Changed, Options, PassContext, PassError, PassInfo, Pipeline, Silent};
use memc::memc_plan::registry::REGISTRY;
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

/// Imports a model, runs the pass and `dce`, exports the result and plans it.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = Model::open(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/mlp_step.onnx"))?;
    let imported = memc_onnx_import::import(&file, &ImportOptions::default())?;
    let (mut module, options) = (imported.module, Options::default());
    let mut context = PassContext::new(&options, imported.data);
    let registry: Vec<&'static PassInfo> = REGISTRY.iter().copied().chain([&WHERE_NOT]).collect();
    let pipeline = Pipeline::parse("where-not,dce", module.stage, &registry)?;
    pipeline.run(&mut module, &mut context, true, &mut Silent)?;

    let exported = memc_onnx_export::export(&file, &module, &ExportOptions::default())?;
    let planned = memc::plan(&Model::from_bytes(exported.to_vec())?, &Request::new())?;
    println!("{} Not nodes left, arena {} B", nots(&planned), planned.arena());
    assert!(nots(&planned) < nots(&memc::plan(&file, &Request::new())?));
    Ok(())
}
