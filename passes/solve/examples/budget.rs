//! Plans `.dag.json` problems within budgets and prints one line each: `budget BYTES|P%[,BYTES|P%…] FILE…`.
//!
//! With `ANSWERS=FOLDER` in the environment, the answers are written there, for other people's checkers.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use memc_solve::Limit;
use memc_solve::budget::json::{Budget, answer, problem, read};
use memc_solve::budget::{Event, Problem, check, measure, plan, solve};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let budgets = arguments.next().unwrap_or_default();
    let answers = std::env::var_os("ANSWERS");
    let limit =
        Limit { nodes: std::env::var("EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(Limit::default().nodes) };
    for name in arguments {
        let dag = read(&std::fs::read_to_string(&name)?)?;
        let problem = problem(&dag)?;
        let runs: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
        let base_peak = measure(&problem, &runs)?.peak;
        for text in budgets.split(',') {
            let budget = text.parse::<Budget>()?.bytes(base_peak);
            if let Some(folder) = &answers {
                let certified = plan(&problem, budget, limit)?;
                let file = Path::new(folder).join(Path::new(&name).file_name().unwrap_or_default());
                std::fs::write(file, serde_json::to_string(&answer(&dag, budget, base_peak, &certified))?)?;
            }
            report(&name, text, &problem, (budget, base_peak), limit)?;
        }
    }
    Ok(())
}

fn report(
    name: &str,
    text: &str,
    problem: &Problem,
    (budget, base_peak): (u64, u64),
    limit: Limit,
) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let outcome = solve(problem, budget, limit)?;
    let seconds = begin.elapsed().as_secs_f64();
    let Some(found) = &outcome.solution else {
        println!("{name} {text} {} {seconds:.2} s", outcome.status().as_str());
        return Ok(());
    };
    check(problem, budget, found)?;
    println!(
        "{name} {text} extra {:.4}% peak {:.2}% events {}+{} {} {seconds:.2} s",
        100.0 * (found.makespan as f64 / outcome.lower_bound.max(1) as f64 - 1.0),
        100.0 * found.peak as f64 / base_peak as f64,
        problem.runs.len(),
        found.events.len() - problem.runs.len(),
        outcome.stop.as_str(),
    );
    Ok(())
}
