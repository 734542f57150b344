//! Solves instance files and prints a table: value, bound, status, effort and CPU time of each.
//!
//! `cargo run --release -p memc-solve --example table -- [--nodes N] [--capacity BYTES] [--random BUFFERS] [--random-order OPERATIONS] FILES…`
//!
//! A file that ends in `.csv` is a placement problem, another one an ordering problem. `--random` and `--random-order` generate one of so many
//! buffers or operations.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use memc_solve::{Limit, Outcome, order, place};

struct Settings {
    limit: Limit,
    capacity: Option<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut settings = Settings { limit: Limit::default(), capacity: None };
    println!(
        "{:<32} {:>9} {:>14} {:>14} {:>8} {:<10} {:<16} {:>10} {:>8}",
        "instance", "size", "value", "bound", "ratio", "status", "stop", "effort", "cpu s"
    );
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or("a number is missing")?.parse::<u64>().map_err(Box::<dyn Error>::from);
        match argument.as_str() {
            "--nodes" => settings.limit = Limit { nodes: number()? },
            "--capacity" => settings.capacity = Some(number()?),
            "--random" => place_one("random", random_buffers(number()?), &settings)?,
            "--random-order" => order_one("random", &random_network(number()? as u32), &settings)?,
            file => solve_file(file, &settings)?,
        }
    }
    Ok(())
}

fn solve_file(file: &str, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let name = file.rsplit('/').next().unwrap_or(file);
    if name.ends_with(".csv") {
        place_one(name, place::csv::read(&text)?.problem, settings)
    } else {
        order_one(name, &order::json::read(&text)?.problem()?, settings)
    }
}

fn order_one(name: &str, problem: &order::Problem, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
    let before = order::peak(problem, &given)?;
    let clock = Clock::start();
    let outcome = order::solve(problem, &given, &settings.limit)?;
    let seconds = clock.seconds();
    if let (Some(sequence), Some(value)) = (&outcome.solution, outcome.value) {
        order::check(problem, sequence, value)?;
    }
    print_row(&format!("{name} (given {before})"), given.len(), &outcome, seconds);
    Ok(())
}

fn place_one(name: &str, mut problem: place::Problem, settings: &Settings) -> Result<(), Box<dyn Error>> {
    problem.capacity = settings.capacity;
    let clock = Clock::start();
    let outcome = place::solve(&problem, &settings.limit)?;
    let seconds = clock.seconds();
    if let Some(solution) = &outcome.solution {
        place::check(&problem, solution)?;
    }
    print_row(name, problem.buffers.len(), &outcome, seconds);
    Ok(())
}

fn print_row<S>(name: &str, size: usize, outcome: &Outcome<S>, seconds: f64) {
    let value = outcome.value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let ratio = outcome.value.map_or(f64::NAN, |value| value as f64 / outcome.lower_bound.max(1) as f64);
    let (status, stop) = (outcome.status().as_str(), outcome.stop.as_str());
    println!(
        "{name:<32} {size:>9} {value:>14} {:>14} {ratio:>8.5} {status:<10} {stop:<16} {:>10} {seconds:>8.3}",
        outcome.lower_bound, outcome.effort
    );
}

/// CPU time of this thread where the system tells it, wall time elsewhere.
struct Clock {
    cpu: Option<u64>,
    wall: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { cpu: cpu_nanoseconds(), wall: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        match (self.cpu, cpu_nanoseconds()) {
            (Some(before), Some(after)) => after.saturating_sub(before) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_nanoseconds() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// A generator of numbers below a bound, always the same ones.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Buffers as a long network has them: most live for some steps, some for long; sizes over four orders of magnitude.
fn random_buffers(buffers: u64) -> place::Problem {
    let mut next = numbers();
    let steps = buffers.max(8);
    let list = (0..buffers).map(|_| {
        let longest = if next(50) == 0 { steps / 8 } else { 64 };
        let start = next(steps - 1);
        let end = (start + 1 + next(longest)).min(steps);
        let size = (1 + next(255)) << (6 + next(12));
        place::Buffer { alignment: 64, ..place::Buffer::new(start as u32, end as u32, size) }
    });
    place::Problem { buffers: list.collect(), capacity: None }
}

/// Operations that read one to three recent values, listed in a bad order; every eleventh one reads something old.
fn random_network(operations: u32) -> order::Problem {
    let mut next = numbers();
    let mut problem = order::Problem::default();
    for index in 0..operations {
        let mut before: Vec<u32> =
            (0..1 + next(3)).map(|_| index.saturating_sub(1 + next(40) as u32)).filter(|other| *other < index).collect();
        if next(11) == 0 && index > 0 {
            before.push(next(u64::from(index)) as u32);
        }
        for &other in &before {
            problem.buffers[other as usize].users.push(index);
        }
        let takes_over = before.iter().copied().take(usize::from(next(3) == 0));
        let size = (1 + next(63)) << (6 + next(10));
        let takes_over = takes_over.filter(|other| problem.buffers[*other as usize].size >= size).collect();
        problem.buffers.push(order::Buffer { size, users: vec![index], takes_over, ..order::Buffer::default() });
        problem.operations.push(order::Operation { predecessors: before, scratch: 0 });
    }
    problem
}
