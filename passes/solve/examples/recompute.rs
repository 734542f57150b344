//! Plans `.dag.json` problems within budgets and prints a line for each: `recompute BYTES|P%[,BYTES|P%…]
//! FILE…`.
//!
//! Instead of a file, `layered:NODES:SEED` names a random layered graph with five edges a node, in a
//! random order.
//!
//! Environment variables: `ANSWERS=FOLDER` writes the answers to that folder, for external checkers;
//! `EFFORT=NODES` sets the effort.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use memc_solve::Limit;
use memc_solve::budget::json::{Budget, Dag, Node, answer, problem, read};
use memc_solve::budget::{Certified, Event, Problem, check, measure, plan};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let budgets = arguments.next().unwrap_or_default();
    let answers = std::env::var_os("ANSWERS");
    let limit = Limit::nodes(
        std::env::var("EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(Limit::default().nodes),
    );
    for name in arguments {
        let dag = match layered(&name) {
            Some(dag) => dag,
            None => read(&std::fs::read_to_string(&name)?)?,
        };
        let problem = problem(&dag)?;
        let runs: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
        let base_peak = measure(&problem, &runs)?.peak;
        for text in budgets.split(',') {
            let budget = text.parse::<Budget>()?.bytes(base_peak);
            let begin = Instant::now();
            let certified = plan(&problem, budget, limit)?;
            let seconds = begin.elapsed().as_secs_f64();
            println!("{name} {text} {} {seconds:.2} s", report(&problem, budget, base_peak, &certified)?);
            if let Some(folder) = &answers {
                let file = Path::new(folder).join(Path::new(&name).file_name().unwrap_or_default());
                std::fs::write(file, serde_json::to_string(&answer(&dag, budget, base_peak, &certified))?)?;
            }
        }
    }
    Ok(())
}

fn report(
    problem: &Problem,
    budget: u64,
    base_peak: u64,
    certified: &Certified,
) -> Result<String, Box<dyn Error>> {
    let status = certified.outcome.status().as_str();
    let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
    let extra = |time: u64| 100.0 * (time as f64 / base.max(1) as f64 - 1.0);
    let bound = extra(certified.certificate.makespan);
    let Some(found) = &certified.outcome.solution else { return Ok(format!("{status} bound {bound:.4}%")) };
    check(problem, budget, found)?;
    let peak = 100.0 * found.peak as f64 / base_peak as f64;
    let events = found.events.len() - problem.runs.len();
    Ok(format!(
        "extra {:.4}% bound {bound:.4}% peak {peak:.2}% events {}+{events} {status}",
        extra(found.makespan),
        problem.runs.len()
    ))
}

/// Returns the graph of a name `layered:NODES:SEED`; `None` for other names. Sizes are around 500, 1,500
/// and 3,500, costs are up to 1,000, and six of seven edges join neighboring layers.
fn layered(name: &str) -> Option<Dag> {
    let (nodes, seed) = name.strip_prefix("layered:")?.split_once(':')?;
    let (nodes, mut state) =
        (nodes.parse::<u64>().ok().filter(|nodes| (50..100_000).contains(nodes))?, seed.parse::<u64>().ok()?);
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    // Assign the nodes to layers.
    let layers = 20 + nodes / 125;
    let mut members: Vec<Vec<u64>> = vec![Vec::new(); layers as usize];
    for node in 0..nodes {
        let layer = if node < layers { node } else { 1 + below(layers - 1) };
        members[layer as usize].push(node);
    }
    // Draw the edges, most of them from the previous layer.
    let mut edges = std::collections::BTreeSet::new();
    for layer in 1..layers {
        for &node in &members[layer as usize] {
            for _ in 0..=below(9) {
                let from = if below(7) > 0 { layer - 1 } else { below(layer) };
                let sources = &members[from as usize];
                edges.insert((sources[below(sources.len() as u64) as usize], node));
            }
        }
    }
    // List the nodes in a random order that respects the edges.
    let mut waits = vec![0_u64; nodes as usize];
    edges.iter().for_each(|(_, to)| waits[*to as usize] += 1);
    let mut ready: Vec<u64> = (0..nodes).filter(|node| waits[*node as usize] == 0).collect();
    let mut dag = Dag { name: name.to_owned(), ..Dag::default() };
    while !ready.is_empty() {
        let id = ready.swap_remove(below(ready.len() as u64) as usize);
        let (middle, spread) = [(500, 400), (1_500, 800), (3_500, 2_400)][below(3) as usize];
        dag.nodes.push(Node {
            id,
            size: middle - spread / 2 + below(spread),
            cost: below(1_001),
            scratch: 0,
        });
        for &(_, to) in edges.range((id, 0)..(id + 1, 0)) {
            waits[to as usize] -= 1;
            if waits[to as usize] == 0 {
                ready.push(to);
            }
        }
    }
    dag.edges = edges.into_iter().collect();
    Some(dag)
}
