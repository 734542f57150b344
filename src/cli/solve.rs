//! `memc solve`: the solvers alone.

use std::process::ExitCode;
use std::time::Instant;

use memc::Error;
use memc::ir::{Diagnostic, Severity};
use memc::solve::{Limit, Outcome as Solved, Status, order, place};

use super::args::Solve;
use super::files::{Outputs, read};
use super::{Failure, Outcome, Voice};

/// Reads a problem, solves it, writes the answer and one line.
pub fn run(arguments: &Solve, voice: &Voice) -> Outcome {
    match arguments {
        Solve::Place { problem, output, capacity, effort } => {
            let text = read(problem)?;
            let mut table = place::csv::read(&text).map_err(|error| refuse(&error))?;
            table.problem.capacity = *capacity;
            let started = Instant::now();
            let outcome = place::solve(&table.problem, &Limit { nodes: *effort }).map_err(|error| refuse(&error))?;
            let seconds = started.elapsed().as_secs_f64();
            if let Some(solution) = &outcome.solution {
                give(output, &place::csv::write(&table, Some(solution)))?;
            }
            if outcome.status() == Status::Infeasible
                && let Some(set) =
                    place::infeasible_subset(&table.problem, &Limit { nodes: *effort }).map_err(|error| refuse(&error))?
            {
                voice.say(&format!("these cannot fit together: {}", names(&table.ids, &set)));
            }
            Ok(summary(&outcome, seconds, voice))
        }
        Solve::Order { problem, output, effort } => {
            let text = read(problem)?;
            let dag = order::json::read(&text).map_err(|error| refuse(&error))?;
            let model = dag.problem().map_err(|error| refuse(&error))?;
            let given = model.topological_order().map_err(|error| refuse(&error))?;
            let base = order::peak(&model, &given).map_err(|error| refuse(&error))?;
            let started = Instant::now();
            let outcome = order::solve(&model, &given, &Limit { nodes: *effort }).map_err(|error| refuse(&error))?;
            let seconds = started.elapsed().as_secs_f64();
            give(output, &(serde_json::to_string(&dag.answer(&outcome, base)).map_err(|error| refuse(&error))? + "\n"))?;
            Ok(summary(&outcome, seconds, voice))
        }
    }
}

/// Most names of a line; sets that are longer have thousands of small buffers.
const MOST_NAMES: usize = 64;

fn names(ids: &[String], set: &[usize]) -> String {
    let shown: Vec<&str> = set.iter().take(MOST_NAMES).filter_map(|index| ids.get(*index)).map(String::as_str).collect();
    let more = set.len().saturating_sub(MOST_NAMES);
    shown.join(" ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn refuse(error: &dyn std::error::Error) -> Failure {
    let diagnostic = Diagnostic::new("E0307", Severity::Error, error.to_string());
    Failure { diagnostics: vec![diagnostic.with_help("`memc explain E0307` says what a problem file is")], code: 1 }
}

fn give(path: &std::path::Path, text: &str) -> Result<(), Error> {
    let mut outputs = Outputs::default();
    outputs.add(path, |out| out.write_all(text.as_bytes()))?;
    outputs.commit()
}

fn summary<S>(outcome: &Solved<S>, seconds: f64, voice: &Voice) -> ExitCode {
    let value = outcome.value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    voice.say(&format!(
        "value {value}  bound {}  {}  {}  effort {}  {seconds:.3} s",
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
