//! Plans recompute problems within shares of the given order's peak and prints one line each: `budget PERCENT[,PERCENT…] FILE…`.
//!
//! A file is a `.dag.json`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use memc_solve::budget::{Problem, Run, Value, solve};
use memc_solve::{Limit, order};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let percents: Vec<u64> = arguments.next().unwrap_or_default().split(',').filter_map(|text| text.parse().ok()).collect();
    for name in arguments {
        let dag = order::json::read(&std::fs::read_to_string(&name)?)?;
        let (problem, base_peak) = read(&dag)?;
        for &percent in &percents {
            let capacity = base_peak / 100 * percent + base_peak % 100 * percent / 100;
            let begin = Instant::now();
            let outcome = solve(&problem, capacity, Limit::default())?;
            let seconds = begin.elapsed().as_secs_f64();
            let (base, value) = (outcome.lower_bound as f64, outcome.value.unwrap_or(0) as f64);
            let (peak, events) = outcome.solution.map_or((0, 0), |plan| (plan.peak, plan.events.len()));
            println!(
                "{name} {percent}% extra {:.4}% peak {:.2}% runs {}+{} {} {seconds:.2} s",
                100.0 * (value / base - 1.0),
                100.0 * peak as f64 / base_peak as f64,
                problem.runs.len(),
                events as i64 - problem.runs.len() as i64,
                outcome.stop.as_str(),
            );
        }
    }
    Ok(())
}

/// The budget problem of a graph, and the peak of its given order.
fn read(dag: &order::json::Dag) -> Result<(Problem, u64), Box<dyn Error>> {
    let ordering = dag.problem()?;
    let mut problem = Problem::default();
    for (index, node) in dag.nodes.iter().enumerate() {
        problem.runs.push(Run { writes: vec![index as u32], cost: node.cost, repeatable: true, ..Run::default() });
        problem.values.push(Value { size: node.size, ..Value::default() });
    }
    for (value, buffer) in ordering.buffers.iter().enumerate() {
        for &reader in buffer.users.iter().filter(|reader| **reader as usize != value) {
            problem.runs[reader as usize].reads.push(value as u32);
        }
    }
    let given: Vec<u32> = (0..dag.nodes.len() as u32).collect();
    Ok((problem, order::peak(&ordering, &given)?))
}
