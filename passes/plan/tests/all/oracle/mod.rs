//! Cost and soundness of a plan by brute force from the module alone; shares no code with the passes.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use memc_ir::{Definition, Module, Node, Storage, Value};
use memc_passes::{Io, Options};

/// Bytes that must not be shared: a value with its aliases, or workspace.
pub struct Row {
    pub what: String,
    pub bytes: u64,
    /// Steps at which the bytes are needed.
    pub steps: Vec<u32>,
    pub offset: Option<u64>,
    /// Name of the space; that of the first arena without a place.
    pub space: String,
}

/// Returns the rows of a module in its own order. An owner is placed if the runtime makes it; `io`
/// decides for graph inputs and outputs.
pub fn rows(module: &Module, options: &Options) -> Vec<Row> {
    let io = options.io;
    let main = module.graph(module.main());
    let mut groups: BTreeMap<Value, Vec<u32>> = BTreeMap::new();
    for value in module.values().keys() {
        let (owner, _) = module.plan.owner(value);
        if needs_arena(module, owner, io) && module.home(value) == Some(module.main()) {
            groups.entry(owner).or_default().extend(steps(
                module,
                &main.nodes,
                value,
                options.profile.holds_unread_results,
            ));
        }
    }
    let of_values = groups.into_iter().filter_map(|(owner, mut steps)| {
        // From the first to the last need of any member.
        let (first, last) = (*steps.iter().min()?, *steps.iter().max()?);
        steps = (first..=last).collect();
        let offset = module.plan.storage[owner].map(|storage| storage.offset.0);
        let space = space_of(module, module.plan.storage[owner]);
        Some(Row {
            what: module.value(owner).name.clone(),
            bytes: size(module, owner)?,
            steps,
            offset,
            space,
        })
    });
    let of_scratch = module.plan.scratch.iter().map(|scratch| {
        let step = main.nodes.iter().position(|node| *node == scratch.node).unwrap() as u32;
        let offset = scratch.storage.map(|storage| storage.offset.0);
        let space = space_of(module, scratch.storage);
        Row {
            what: format!("scratch of step {step}"),
            bytes: scratch.bytes.0,
            steps: vec![step],
            offset,
            space,
        }
    });
    of_values.chain(of_scratch).collect()
}

/// Returns the size of a value: the largest over all extents of its symbols.
fn size(module: &Module, value: Value) -> Option<u64> {
    let ty = module.ty(value);
    if module.domain().is_empty() {
        return ty.size().map(|size| size.0);
    }
    let mut points = vec![BTreeMap::new()];
    for (name, range) in &module.domain().ranges {
        let extents = (range.min..=range.max?).step_by(range.step as usize);
        let with = |point: &BTreeMap<String, u64>, extent| {
            point.clone().into_iter().chain([(name.clone(), extent)]).collect()
        };
        points = extents.flat_map(|extent| points.iter().map(move |point| with(point, extent))).collect();
    }
    points.iter().map(|point| ty.bind(point).size().map(|size| size.0)).max()?
}

/// Returns the name of a space: of a place, or of the first arena.
fn space_of(module: &Module, storage: Option<Storage>) -> String {
    let space = storage.map(|storage| storage.space).or(module.plan.arenas.first().map(|arena| arena.space));
    space.map_or(String::new(), |space| module.plan.spaces[space].name.clone())
}

/// Returns whether an owner's bytes are in the arena.
fn needs_arena(module: &Module, owner: Value, io: Io) -> bool {
    let main = module.graph(module.main());
    if size(module, owner).is_none() || main.nodes.is_empty() {
        return false;
    }
    match module.value(owner).definition {
        Definition::Input(graph, _) => {
            // Inputs that are returned, have a default, or have no reader stay with the caller.
            let read = main.nodes.iter().any(|node| module.reads(*node).contains(&owner));
            let kept = module.value(owner).default.is_some() || main.outputs.contains(&owner) || !read;
            graph == module.main() && !kept && io == Io::Arena
        }
        Definition::Result(node, _) if main.nodes.contains(&node) => match main.outputs.contains(&owner) {
            true => io != Io::External,
            // A result that reads nothing and can be repeated is a constant.
            false => !module.reads(node).is_empty() || !memc_ops::repeatable(module, node),
        },
        _ => false,
    }
}

/// Returns the steps at which a value of the main graph is needed, one by one.
fn steps(module: &Module, nodes: &[Node], value: Value, holds_unread: bool) -> Vec<u32> {
    let made = nodes.iter().position(|node| module.node(*node).results().any(|result| result == value));
    let mut last = made.unwrap_or(0);
    let is_read = nodes.iter().any(|node| module.reads(*node).contains(&value));
    if made.is_some() && !is_read && holds_unread {
        last = nodes.len() - 1;
    }
    for (step, node) in nodes.iter().enumerate() {
        if module.reads(*node).contains(&value) {
            last = last.max(step);
        }
    }
    if module.graph(module.main()).outputs.contains(&value) {
        last = nodes.len().saturating_sub(1);
    }
    if nodes.is_empty() { Vec::new() } else { (made.unwrap_or(0) as u32..=last as u32).collect() }
}

/// Returns the live bytes of the first space at each step.
pub fn live(module: &Module, options: &Options) -> Vec<u64> {
    live_in(module, options, &space_of(module, None))
}

/// Returns the live bytes of a space at each step.
pub fn live_in(module: &Module, options: &Options, space: &str) -> Vec<u64> {
    let mut live = vec![0; module.graph(module.main()).nodes.len()];
    for row in rows(module, options).into_iter().filter(|row| row.space == space) {
        row.steps.iter().for_each(|step| live[*step as usize] += row.bytes);
    }
    live
}

/// Returns the maximum of live bytes of the first space at a step.
pub fn peak(module: &Module, options: &Options) -> u64 {
    live(module, options).into_iter().max().unwrap_or(0)
}

/// Returns the maximum of live bytes of a space at a step.
pub fn peak_in(module: &Module, options: &Options, space: &str) -> u64 {
    live_in(module, options, space).into_iter().max().unwrap_or(0)
}

/// Returns the largest need of a single node in any order: operands, results and workspace, shared bytes
/// counted once.
pub fn working_set(module: &Module, options: &Options) -> u64 {
    let mut most = 0;
    for node in &module.graph(module.main()).nodes {
        let touched = module.reads(*node).into_iter().chain(module.node(*node).results());
        let mut owners: Vec<Value> = touched.map(|value| module.plan.owner(value).0).collect();
        let first = space_of(module, None);
        owners.retain(|owner| {
            needs_arena(module, *owner, options.io) && space_of(module, module.plan.storage[*owner]) == first
        });
        owners.sort_unstable();
        owners.dedup();
        let own: u64 = owners.iter().map(|owner| size(module, *owner).unwrap()).sum();
        let scratch: u64 =
            module.plan.scratch.iter().filter(|row| row.node == *node).map(|row| row.bytes.0).sum();
        most = most.max(own + scratch);
    }
    most
}

/// Returns the size of the first space's arena in bytes.
pub fn arena(module: &Module) -> u64 {
    module.plan.arenas.first().map_or(0, |arena| arena.size.0)
}

/// Describes the errors in the placement of a planned module.
pub fn misplaced(module: &Module, options: &Options) -> Vec<String> {
    let mut wrong = Vec::new();
    let rows = rows(module, options);
    let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(offset) = row.offset else {
            wrong.push(format!("{} has no place", row.what));
            continue;
        };
        let alignment = module
            .plan
            .spaces
            .iter()
            .find(|(_, space)| space.name == row.space)
            .map_or(1, |(_, space)| space.alignment);
        if offset % alignment != 0 {
            wrong.push(format!("{} is not aligned", row.what));
        }
        let end = highest.entry(&row.space).or_default();
        *end = (*end).max(offset + row.bytes);
        for other in rows[..at].iter().filter(|other| other.space == row.space) {
            let meet = row.steps.iter().any(|step| other.steps.contains(step));
            let overlap =
                other.offset.is_some_and(|start| offset < start + other.bytes && start < offset + row.bytes);
            if meet && overlap && row.bytes > 0 && other.bytes > 0 {
                wrong.push(format!("{} and {} share bytes", row.what, other.what));
            }
        }
    }
    for value in module.values().keys() {
        let (owner, within) = module.plan.owner(value);
        let expected = module.plan.storage[owner].map(|storage| (storage.space, storage.offset.0 + within.0));
        let found = module.plan.storage[value].map(|storage| (storage.space, storage.offset.0));
        if found != expected || found.is_some() && !needs_arena(module, owner, options.io) {
            wrong
                .push(format!("{} lies at {found:?}, its owner says {expected:?}", module.value(value).name));
        }
    }
    for arena in &module.plan.arenas {
        let name = module.plan.spaces[arena.space].name.as_str();
        let end = highest.remove(name).unwrap_or(0);
        if end != arena.size.0 {
            wrong.push(format!("the arena of {name} states {} bytes and takes {end}", arena.size.0));
        }
    }
    wrong.extend(highest.keys().map(|name| format!("{name} has no arena")));
    wrong
}
