//! Solves instance files and prints a table: value, bound, status, effort and CPU time of each instance.
//!
//! `cargo run --release -p memc-solve --example table -- [--nodes N] [--capacity BYTES] [--random
//! BUFFERS] [--layered BUFFERS] [--dissect PIECES SEED] [--thin PIECES SEED] [--random-order OPERATIONS]
//! [--cell NODES SEED] FILES…`
//!
//! A file that ends in `.csv` is a placement problem, any other file an ordering problem. `--random`,
//! `--layered`, `--dissect`, `--thin` and `--random-order` generate a problem with that number of
//! buffers, pieces or operations. `--cell` generates a randomly wired network (Watts and Strogatz, 4
//! neighbors, rewired with probability 3/4).
//!
//! `… --example table -- --budgets 90%,80% [--nodes N] [--layered-runs N SEED] [--training-runs N]
//! FILES…` reads budget problems instead. It prints a row for each problem and budget: extra cost and
//! its bound in percent of the cost without repeats, with the scope of the bound.
#![allow(clippy::print_stdout)]

mod clock;
mod recompute;

use std::error::Error;

use clock::Clock;
use memc_solve::{Limit, Outcome, order, place};

struct Settings {
    limit: Limit,
    capacity: Option<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|argument| argument == "--budgets") {
        return recompute::table(std::env::args().skip(1));
    }
    let mut settings = Settings { limit: Limit::default(), capacity: None };
    println!(
        "{:<32} {:>9} {:>14} {:>14} {:>8} {:<10} {:<16} {:>10} {:>8}",
        "instance", "size", "value", "bound", "ratio", "status", "stop", "effort", "cpu s"
    );
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number =
            || arguments.next().ok_or("a number is missing")?.parse::<u64>().map_err(Box::<dyn Error>::from);
        match argument.as_str() {
            "--nodes" => settings.limit = Limit::nodes(number()?),
            "--capacity" => settings.capacity = Some(number()?),
            "--random" => place_one("random", random_buffers(number()?), &settings)?,
            "--layered" => place_one("layered", layered_buffers(number()?), &settings)?,
            "--dissect" => {
                let (pieces, seed) = (number()?, number()?);
                place_one(&format!("dissection {seed}"), dissection(pieces, seed), &settings)?;
            }
            "--thin" => {
                let (pieces, seed) = (number()?, number()?);
                place_one(&format!("thinned {seed}"), thinned(pieces, seed), &settings)?;
            }
            "--random-order" => order_one("random", &random_network(number()? as u32), &settings)?,
            "--cell" => {
                let (nodes, seed) = (number()? as u32, number()?);
                order_one(&format!("cell {nodes} seed {seed}"), &cell(nodes, seed), &settings)?;
            }
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

/// Returns a generator of pseudo-random numbers below a bound, from a fixed start.
fn numbers() -> impl FnMut(u64) -> u64 {
    numbers_from(0x9e37_79b9_7f4a_7c15)
}

/// Returns a generator with another start, which must not be 0.
fn numbers_from(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Builds buffers like those of a long network: most are live for a few steps, some for many; sizes span
/// four orders of magnitude.
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

/// Builds a training run of many layers: values of the forward half are live until the backward half of
/// their layer, and each layer has its own short-lived workspaces.
fn layered_buffers(buffers: u64) -> place::Problem {
    let mut next = numbers();
    let layers = (buffers / 12).max(1);
    let steps = layers * 24;
    let mut list = Vec::new();
    for index in 0..buffers {
        let layer = index % layers;
        let (forward, backward) = (layer * 12, steps - (layer + 1) * 12);
        let (start, end, size) = match index / layers {
            0..3 => (forward + next(6), backward + 6 + next(6), (1 + next(15)) << 14),
            3..8 => (forward + next(8), forward + 9 + next(6), (1 + next(63)) << 12),
            _ => (backward + next(8), backward + 9 + next(6), (1 + next(63)) << 12),
        };
        list.push(place::Buffer { alignment: 64, ..place::Buffer::new(start as u32, end as u32, size) });
    }
    place::Problem { buffers: list, capacity: None }
}

/// Cuts a rectangle of 1024 × 1024 cells into pieces, by straight cuts and by pinwheels of five: the
/// bound is the optimum, and no slack exists.
fn dissection(pieces: u64, seed: u64) -> place::Problem {
    let mut next = numbers_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // First and last step, lowest and highest cell of each piece.
    let mut list: Vec<[u64; 4]> = vec![[0, 1024, 0, 1024]];
    while (list.len() as u64) < pieces {
        // Cut the largest of four random pieces, so that no piece stays very large.
        let chosen = (0..4).map(|_| next(list.len() as u64) as usize);
        let area = |index: &usize| (list[*index][1] - list[*index][0]) * (list[*index][3] - list[*index][2]);
        let index = chosen.max_by_key(area).unwrap_or(0);
        let [left, right, low, high] = list[index];
        let (wide, tall) = (right - left, high - low);
        if next(4) == 0 && wide > 4 && tall > 4 {
            let (a, b) = (left + 1 + next(wide / 2 - 1), left + wide / 2 + 1 + next(wide / 2 - 1));
            let (c, d) = (low + 1 + next(tall / 2 - 1), low + tall / 2 + 1 + next(tall / 2 - 1));
            list[index] = [a, b, c, d];
            list.extend([[left, b, low, c], [b, right, low, d], [a, right, d, high], [left, a, c, high]]);
        } else if next(2) == 0 && wide > 1 {
            let cut = left + 1 + next(wide - 1);
            list[index][1] = cut;
            list.push([cut, right, low, high]);
        } else if tall > 1 {
            let cut = low + 1 + next(tall - 1);
            list[index][3] = cut;
            list.push([left, right, cut, high]);
        }
    }
    // Sort by area, so that the order of the pieces does not reveal the cuts.
    list.sort_by_key(|[left, right, low, high]| ((right - left) * (high - low), *left));
    let buffers = list
        .iter()
        .map(|[left, right, low, high]| place::Buffer::new(*left as u32, *right as u32, (high - low) << 10));
    place::Problem { buffers: buffers.collect(), capacity: None }
}

/// Builds a dissection with a seventh more pieces, then removes an eighth of its pieces, none of them
/// live at a chosen moment: the load of this moment is the optimum.
fn thinned(pieces: u64, seed: u64) -> place::Problem {
    let mut problem = dissection(pieces * 8 / 7, seed);
    let mut next = numbers_from(seed.wrapping_mul(0x1234_5678_9abc_def1) | 1);
    let moment = next(1024) as u32;
    let kept = problem.buffers.len() - problem.buffers.len() / 8;
    while problem.buffers.len() > kept {
        let index = next(problem.buffers.len() as u64) as usize;
        if moment < problem.buffers[index].start || problem.buffers[index].end <= moment {
            problem.buffers.remove(index);
        }
    }
    problem
}

/// Builds operations that read one to three recent values, listed in a bad order; about every eleventh
/// also reads an old value.
fn random_network(operations: u32) -> order::Problem {
    let mut next = numbers();
    let mut problem = order::Problem::default();
    for index in 0..operations {
        let mut before: Vec<u32> = (0..1 + next(3))
            .map(|_| index.saturating_sub(1 + next(40) as u32))
            .filter(|other| *other < index)
            .collect();
        if next(11) == 0 && index > 0 {
            before.push(next(u64::from(index)) as u32);
        }
        for &other in &before {
            problem.buffers[other as usize].users.push(index);
        }
        let takes_over = before.iter().copied().take(usize::from(next(3) == 0));
        let size = (1 + next(63)) << (6 + next(10));
        let takes_over = takes_over.filter(|other| problem.buffers[*other as usize].size >= size).collect();
        problem.buffers.push(order::Buffer {
            size,
            users: vec![index],
            takes_over,
            ..order::Buffer::default()
        });
        problem.operations.push(order::Operation { predecessors: before, scratch: 0 });
    }
    problem
}

/// Builds a randomly wired cell after Xie, Kirillov, Girshick and He, *Exploring Randomly Wired Neural
/// Networks for Image Recognition* (2019).
///
/// The graph is a ring of nodes, each joined to its four neighbors; edges are rewired with probability
/// 3/4 and directed from lower to higher numbers. Each node is a sum of its operands (one addition
/// each), an activation, a depthwise and a pointwise convolution. Activations and sums may take over an
/// operand. Nodes without operands read the stem, which is four times as large.
fn cell(nodes: u32, seed: u64) -> order::Problem {
    let mut next = numbers_from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut edges = std::collections::BTreeSet::new();
    // Draw the edges of the ring, and rewire them.
    for node in 0..nodes {
        for step in 1..=2 {
            let mut other = (node + step) % nodes;
            if next(4) < 3 {
                other = next(u64::from(nodes)) as u32;
                while other == node || edges.contains(&(node.min(other), node.max(other))) {
                    other = next(u64::from(nodes)) as u32;
                }
            }
            edges.insert((node.min(other), node.max(other)));
        }
    }
    // Build the operations of each node.
    let mut problem = order::Problem::default();
    let unit = 1 << 16;
    let stem = run(&mut problem, &[], 4 * unit, false);
    let mut results = Vec::new();
    for node in 0..nodes {
        let operands: Vec<u32> =
            edges.iter().filter(|(_, to)| *to == node).map(|(from, _)| results[*from as usize]).collect();
        let mut sum = operands.first().copied().unwrap_or(stem);
        for operand in operands.iter().skip(1) {
            sum = run(&mut problem, &[sum, *operand], unit, true);
        }
        let active = run(&mut problem, &[sum], unit, sum != stem);
        let depthwise = run(&mut problem, &[active], unit, false);
        results.push(run(&mut problem, &[depthwise], unit, false));
    }
    let open: Vec<u32> = (0..nodes)
        .filter(|node| !edges.iter().any(|(from, _)| from == node))
        .map(|node| results[node as usize])
        .collect();
    let result = run(&mut problem, &open, unit, false);
    problem.buffers[result as usize].kept = true;
    problem
}

/// Adds an operation that reads buffers (each the result of the operation with its number) and makes a
/// buffer.
fn run(problem: &mut order::Problem, operands: &[u32], size: u64, takes_over: bool) -> u32 {
    let index = problem.operations.len() as u32;
    for operand in operands {
        problem.buffers[*operand as usize].users.push(index);
    }
    problem.operations.push(order::Operation { predecessors: operands.to_vec(), scratch: 0 });
    let takes_over = if takes_over { operands.to_vec() } else { Vec::new() };
    problem.buffers.push(order::Buffer { size, users: vec![index], takes_over, ..order::Buffer::default() });
    index
}
