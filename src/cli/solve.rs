//! `memc solve`: runs a solver by itself.

use std::path::Path;
use std::time::Instant;

use memc::Error;
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_solve::budget::json::Budget;
use memc_solve::{Limit, Outcome as Solved, Status, budget, order, partition, place};

use super::solve_args::Solve;
use super::{ExitCode, Failure, Outcome, Voice};
use memc::{Outputs, read};

/// Reads a problem, solves it, writes the answer and one line.
pub fn run(arguments: &Solve, voice: &Voice) -> Outcome {
    match arguments {
        Solve::Place { problem, output, capacity, effort } => {
            let text = read(problem)?;
            let mut table = place::csv::read(&text).map_err(|error| refuse(&error))?;
            table.problem.capacity = *capacity;
            let started = Instant::now();
            let outcome =
                place::solve(&table.problem, &Limit::nodes(*effort)).map_err(|error| refuse(&error))?;
            let seconds = started.elapsed().as_secs_f64();
            if let Some(solution) = &outcome.solution {
                give(output, &place::csv::write(&table, Some(solution)))?;
            }
            if outcome.status() == Status::Infeasible
                && let Some(set) = place::infeasible_subset(&table.problem, &Limit::nodes(*effort))
                    .map_err(|error| refuse(&error))?
            {
                voice.say(&format!("these buffers cannot fit together: {}", names(&table.ids, &set)));
            }
            Ok(summary(&outcome, "", seconds, voice))
        }
        Solve::Recompute { problem, output, budget, effort } => {
            recompute(problem, output, *budget, *effort, voice)
        }
        Solve::Partition { problem, output, linear, effort } => {
            divide(problem, output, *linear, *effort, voice)
        }
        Solve::Order { problem, output, effort } => {
            let text = read(problem)?;
            let dag = order::json::read(&text).map_err(|error| refuse(&error))?;
            let model = dag.problem().map_err(|error| refuse(&error))?;
            let given = model.topological_order().map_err(|error| refuse(&error))?;
            let base = order::peak(&model, &given).map_err(|error| refuse(&error))?;
            let limit = effort.map_or_else(|| order::thorough_limit(&model), Limit::nodes);
            let started = Instant::now();
            let outcome = order::solve(&model, &given, &limit).map_err(|error| refuse(&error))?;
            let seconds = started.elapsed().as_secs_f64();
            give(
                output,
                &(serde_json::to_string(&dag.answer(&outcome, base)).map_err(|error| refuse(&error))? + "\n"),
            )?;
            Ok(summary(&outcome, "", seconds, voice))
        }
    }
}

fn recompute(problem: &Path, output: &Path, allowed: Budget, effort: u64, voice: &Voice) -> Outcome {
    let dag = budget::json::read(&read(problem)?).map_err(|error| refuse(&error))?;
    let model = budget::json::problem(&dag).map_err(|error| refuse(&error))?;
    let given: Vec<budget::Event> = (0..model.runs.len() as u32).map(budget::Event::Run).collect();
    let base = budget::measure(&model, &given).map_err(|error| refuse(&error))?;
    let capacity = allowed.bytes(base.peak);
    let started = Instant::now();
    let certified = budget::plan(&model, capacity, Limit::nodes(effort)).map_err(|error| refuse(&error))?;
    let seconds = started.elapsed().as_secs_f64();
    let answer = budget::json::answer(&dag, capacity, base.peak, &certified);
    give(output, &(serde_json::to_string(&answer).map_err(|error| refuse(&error))? + "\n"))?;
    if let Some(conflict) = certified.conflict {
        let node = dag.nodes.get(conflict.run as usize).map_or(0, |node| node.id);
        let (capacity, needed) = (Bytes(capacity).exact(), Bytes(conflict.needed).exact());
        voice.say(&format!(
            "a budget of {capacity} is too small: node {node} needs at least {needed} in every plan"
        ));
    }
    Ok(summary(&certified.outcome, &format!(" ({})", certified.certificate.scope.as_str()), seconds, voice))
}

fn divide(problem: &Path, output: &Path, is_linear: bool, effort: u64, voice: &Voice) -> Outcome {
    let file = partition::json::read(&read(problem)?).map_err(|error| refuse(&error))?;
    let model = file.problem().map_err(|error| refuse(&error))?;
    let started = Instant::now();
    let outcome =
        if is_linear { partition::linear(&model) } else { partition::solve(&model, &Limit::nodes(effort)) };
    let outcome = outcome.map_err(|error| refuse(&error))?;
    let seconds = started.elapsed().as_secs_f64();
    let loads = match &outcome.solution {
        Some(solution) => partition::loads(&model, solution).map_err(|error| refuse(&error))?,
        None => Vec::new(),
    };
    let answer = file.answer(&outcome, &loads);
    give(output, &(serde_json::to_string(&answer).map_err(|error| refuse(&error))? + "\n"))?;
    Ok(summary(&outcome, "", seconds, voice))
}

/// Largest number of names on a line; longer sets have thousands of small buffers.
const MAX_NAMES: usize = 64;

fn names(ids: &[String], set: &[usize]) -> String {
    let shown: Vec<&str> =
        set.iter().take(MAX_NAMES).filter_map(|index| ids.get(*index)).map(String::as_str).collect();
    let more = set.len().saturating_sub(MAX_NAMES);
    shown.join(" ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn refuse(error: &dyn std::error::Error) -> Failure {
    let diagnostic = Diagnostic::new("E0307", Severity::Error, error.to_string());
    Failure {
        diagnostics: vec![diagnostic.with_help("`memc explain E0307` describes problem files")],
        code: 1,
    }
}

fn give(path: &Path, text: &str) -> Result<(), Error> {
    let mut outputs = Outputs::default();
    outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()
}

fn summary<S>(outcome: &Solved<S>, scope: &str, seconds: f64, voice: &Voice) -> ExitCode {
    let value = outcome.value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    voice.say(&format!(
        "value {value}  bound {}{scope}  {}  {}  effort {}  {seconds:.3} s",
        outcome.lower_bound,
        outcome.status().as_str(),
        outcome.stop.as_str(),
        outcome.effort,
    ));
    match outcome.status() {
        Status::Optimal | Status::Feasible => ExitCode::SUCCESS,
        Status::Infeasible | Status::Unknown => ExitCode::from(3),
    }
}
