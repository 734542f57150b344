//! Rows of budget problems: one for each instance and budget; every plan is checked.

use std::error::Error;

use memc_solve::Limit;
use memc_solve::budget::json::{self, Budget};
use memc_solve::budget::{Event, Problem, Run, Value, check, measure, plan};

use super::clock::Clock;
use super::numbers_from;

/// Reads options and files, and prints the table.
pub fn table(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut budgets, mut limit) = (Vec::new(), Limit::default());
    println!(
        "{:<28} {:>6} {:>7} {:>9} {:>9} {:<12} {:>8} {:>9} {:<10} {:<14} {:>9} {:>8}",
        "instance",
        "runs",
        "budget",
        "extra %",
        "bound %",
        "scope",
        "peak %",
        "repeats",
        "status",
        "stop",
        "effort",
        "cpu s"
    );
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--budgets" => budgets = next()?.split(',').map(str::to_owned).collect(),
            "--nodes" => limit = Limit::nodes(next()?.parse()?),
            "--layered-runs" => {
                let (runs, seed) = (next()?.parse()?, next()?.parse()?);
                rows(&format!("layered {runs} seed {seed}"), &layered(runs, seed), &budgets, limit)?;
            }
            "--training-runs" => {
                let runs = next()?.parse()?;
                rows(&format!("training {runs}"), &training(runs), &budgets, limit)?;
            }
            file => {
                let dag = json::read(&std::fs::read_to_string(file)?)?;
                let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".dag.json");
                rows(name, &json::problem(&dag)?, &budgets, limit)?;
            }
        }
    }
    Ok(())
}

fn rows(name: &str, problem: &Problem, budgets: &[String], limit: Limit) -> Result<(), Box<dyn Error>> {
    let given: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
    let base = measure(problem, &given)?;
    for budget in budgets {
        let capacity = budget.parse::<Budget>()?.bytes(base.peak);
        let clock = Clock::start();
        let certified = plan(problem, capacity, limit)?;
        let seconds = clock.seconds();
        let percent = |cost: u64, whole: u64| 100.0 * cost as f64 / whole.max(1) as f64;
        let (mut extra, mut peak, mut repeats) = (f64::NAN, f64::NAN, 0);
        if let Some(plan) = &certified.outcome.solution {
            check(problem, capacity, plan)?;
            (extra, peak) = (percent(plan.makespan - base.cost, base.cost), percent(plan.peak, base.peak));
            let runs = plan.events.iter().filter(|event| matches!(event, Event::Run(_))).count();
            repeats = runs - given.len();
        }
        let outcome = &certified.outcome;
        println!(
            "{name:<28} {:>6} {budget:>7} {extra:>9.4} {:>9.4} {:<12} {peak:>8.3} {repeats:>9} {:<10} {:<14} {:>9} {seconds:>8.3}",
            given.len(),
            percent(outcome.lower_bound - base.cost, base.cost),
            certified.certificate.scope.as_str(),
            outcome.status().as_str(),
            outcome.stop.as_str(),
            outcome.effort
        );
    }
    Ok(())
}

fn one_value_each(reads: Vec<Vec<u32>>, mut next: impl FnMut(u64) -> u64) -> Problem {
    let mut problem = Problem::default();
    for (run, reads) in reads.into_iter().enumerate() {
        problem.values.push(Value { size: (1 + next(600)) * 10, ..Value::default() });
        problem.runs.push(Run {
            reads,
            writes: vec![run as u32],
            cost: next(1000),
            repeatable: true,
            ..Run::default()
        });
    }
    problem
}

/// Builds layers of random width; each run reads some values of the previous layer and sometimes an
/// older one.
fn layered(runs: u32, seed: u64) -> Problem {
    let mut next = numbers_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut reads: Vec<Vec<u32>> = Vec::new();
    let (mut before, mut here) = (0..0, 0..1 + next(10) as u32);
    while reads.len() < runs as usize {
        for _ in here.clone().take_while(|run| *run < runs) {
            let mut list: Vec<u32> = before.clone().filter(|_| next(2) == 0).collect();
            list.extend(
                (0..next(4))
                    .filter(|_| before.start > 0)
                    .map(|_| next(u64::from(before.start).max(1)) as u32),
            );
            list.sort_unstable();
            list.dedup();
            reads.push(list);
        }
        (before, here) = (here.clone(), here.end..here.end + 1 + next(10) as u32);
    }
    one_value_each(reads, next)
}

/// Builds a forward half with skips, and a backward half that reads the values of the forward half.
fn training(runs: u32) -> Problem {
    let mut next = numbers_from(0x9e37_79b9_7f4a_7c15);
    let half = runs / 2;
    let mut reads: Vec<Vec<u32>> = Vec::new();
    for run in 0..runs {
        let mut list: Vec<u32> = run.checked_sub(1).into_iter().collect();
        if run >= half {
            list.extend(Some(2 * half - 1 - run.min(2 * half - 1)).filter(|other| *other < half));
        }
        if next(8) == 0 && run > 8 && run < half {
            list.push(run - 2 - next(6) as u32);
        }
        list.sort_unstable();
        list.dedup();
        reads.push(list);
    }
    one_value_each(reads, next)
}
