//! Orders the nodes of models and prints a table: peaks of the file order, the runtime's default order
//! and memc's order, the lower bound, and whether memc's order is proven optimal.
//!
//! `cargo run --release --example orders -- [--nodes N] [--write FOLDER] [--no-seconds]
//! [--dim MODEL:NAME=N] FILES…`
//!
//! The problem is that of the pass `schedule` for the runtime `arena`: views, in-place writes and
//! workspace count as in the layout. `--write` saves each problem as `NAME.dag.json` for
//! `memc solve order`. With `--no-seconds` the table does not depend on the machine.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_passes::{Options, PassContext, Pipeline, Silent, analysis::scratch::scratch, schedule};
use memc_plan::registry::REGISTRY;
use memc_solve::{Limit, order};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut limit, mut folder, mut seconds) = (Limit::default(), None, true);
    let mut dims: Vec<(String, String, u64)> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    println!(
        "| model | operations | given | runtime | ours | bound | | effort |{}",
        if seconds { " s |" } else { "" }
    );
    println!("|---|--:|--:|--:|--:|--:|---|--:|{}", if seconds { "--:|" } else { "" });
    while let Some(argument) = arguments.next() {
        let mut word = || arguments.next().ok_or("an argument is missing");
        match argument.as_str() {
            "--nodes" => limit.nodes = word()?.parse()?,
            "--write" => folder = Some(word()?),
            "--no-seconds" => seconds = false,
            "--dim" => {
                let text = word()?;
                let (model, pair) = text.split_once(':').ok_or("a dimension is MODEL:NAME=N")?;
                let (name, extent) = pair.split_once('=').ok_or("a dimension is MODEL:NAME=N")?;
                dims.push((model.to_owned(), name.to_owned(), extent.parse()?));
            }
            file => {
                let name = Path::new(file).file_stem().and_then(|name| name.to_str()).unwrap_or(file);
                let own = dims
                    .iter()
                    .filter(|(model, ..)| model == name)
                    .map(|(_, dim, extent)| (dim.clone(), *extent));
                let import =
                    ImportOptions { dims: own.collect(), allow_unbound: true, ..ImportOptions::default() };
                let problem = problem(file, &import)?;
                if let Some(folder) = &folder {
                    let text = serde_json::to_string(&order::json::Dag::of(name, &problem))?;
                    std::fs::write(Path::new(folder).join(format!("{name}.dag.json")), text + "\n")?;
                }
                row(name, &problem, &limit, seconds)?;
            }
        }
    }
    Ok(())
}

/// Builds the ordering problem of a model, as the default pipeline does.
fn problem(file: &str, import_options: &ImportOptions) -> Result<order::Problem, Box<dyn Error>> {
    let imported = import(&ModelFile::open(Path::new(file))?, import_options)?;
    let (mut module, options) = (imported.module, Options::default());
    let mut ctx = PassContext::new(&options, imported.data);
    Pipeline::parse("fold,dce,cse,dce,view", module.stage, REGISTRY)?.run(
        &mut module,
        &mut ctx,
        false,
        &mut Silent,
    )?;
    module.plan.scratch = scratch(&module, &options);
    Ok(schedule::problem(&module, &options))
}

fn row(name: &str, problem: &order::Problem, limit: &Limit, seconds: bool) -> Result<(), Box<dyn Error>> {
    let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
    let before = order::peak(problem, &given)?;
    let runtime = order::peak(problem, &order::default_order(problem)?)?;
    let started = Instant::now();
    let outcome = order::solve(problem, &given, limit)?;
    let spent = started.elapsed().as_secs_f64();
    let (value, bound) = (outcome.value.unwrap_or(before), outcome.lower_bound);
    if let Some(sequence) = &outcome.solution {
        order::check(problem, sequence, value)?;
    }
    let proof = if value <= bound {
        "proven".to_owned()
    } else {
        format!("{:.4} x", value as f64 / bound.max(1) as f64)
    };
    let time = if seconds { format!(" {spent:.2} |") } else { String::new() };
    println!(
        "| {name} | {} | {before} | {runtime} | {value} | {bound} | {proof} | {} |{time}",
        given.len(),
        outcome.effort
    );
    Ok(())
}
