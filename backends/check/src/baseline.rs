//! The input model in file order under the same rules: views aliased, nothing in place.
//!
//! The contract leaves open which windows a planner takes as views, which workspace it counts, and whether what follows from constants
//! alone is one, so three numbers are derived: one that no choice goes below, one that none goes above, and one in between: results are
//! views of operands wherever they can be, no operand is written into a result before it is whole, and what follows from constants is
//! held unless the plan says otherwise.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Module, Node, Value};
use memc_layout::{Class, Io, StatedBy, Tensor};
use memc_ops::{Profile, Typed};

use crate::ctx::{Ctx, Steps};
use crate::levels::{Held, highest, levels};
use crate::report::BaselineSummary;
use crate::side::Side;
use crate::views::{candidates, offsets};

/// Derives the peak of the input model.
pub(crate) fn derive(ctx: &Ctx<'_>) -> BaselineSummary {
    let side = ctx.given;
    let steps = side.rows.len();
    let live = live(side);
    let own: BTreeMap<Value, Steps> =
        side.values.iter().filter(|value| held(ctx, **value)).map(|value| (*value, live[value])).collect();
    let computed = computed_constants(side);
    let owner = owners(side);
    let bytes = |value: Value| side.known[value].as_ref().map_or(0, |known| known.bytes());
    let mut families: BTreeMap<Value, Vec<Steps>> = BTreeMap::new();
    for value in live.keys() {
        let root = owner.get(value).copied().unwrap_or(*value);
        // Bytes of what the caller holds are not in the arena, under whatever name.
        if own.contains_key(&root) {
            families.entry(root).or_default().push(live[value]);
        }
    }
    let aliased: Vec<Held> = families
        .into_iter()
        .flat_map(|(root, ranges)| crate::liveness::joined(ranges).into_iter().map(move |steps| (root, steps)))
        .map(|(root, steps)| Held { steps, bytes: bytes(root) })
        .collect();
    // Some runtimes keep a result that nobody reads to the end.
    let read: BTreeSet<Value> = side.rows.iter().flat_map(|row| row.reads.iter().copied()).collect();
    let longest = |value: &Value, range: &Steps| {
        let unread = side.producer[*value].is_some() && !read.contains(value);
        if unread { (range.0, steps as u64) } else { *range }
    };
    let all: Vec<Held> = own.iter().map(|(value, range)| Held { steps: longest(value, range), bytes: bytes(*value) }).collect();
    // Sizes that the user says are in no file but the layout.
    let assumed: BTreeSet<&str> =
        ctx.layout.stated.iter().filter(|row| row.by == StatedBy::User).map(|row| row.tensor.as_str()).collect();
    let assumed: Vec<Held> = (side.values.iter())
        .filter(|value| side.known[**value].is_none())
        .filter_map(|value| {
            let name = side.name(*value);
            let index = ctx.named.get(name).filter(|_| assumed.contains(name))?;
            Some(Held { steps: longest(value, live.get(value)?), bytes: ctx.tensor(*index).bytes })
        })
        .collect();
    let parts = parts(side);
    let least: Vec<Held> = own
        .iter()
        .filter(|(value, _)| !computed.contains(value) && !parts.contains(value) && side.elements(**value).is_none())
        // What a body returns may have a size that only a look into the body tells, which not every planner takes.
        .filter(|(value, _)| !has_bodies(side, **value))
        .map(|(value, steps)| Held { steps: *steps, bytes: bytes(*value) })
        .collect();
    let kernels = workspace(side);
    let row_named: BTreeMap<&str, usize> = (0..side.rows.len()).map(|row| (side.node_name(row), row)).collect();
    let named_row = |tensor: &Tensor| {
        let (node, _) = tensor.name.strip_prefix("scratch:")?.rsplit_once(':')?;
        row_named.get(node).copied()
    };
    let planned = planned_scratch(ctx, named_row);
    // A planner knows which node of the input it means even where names do not tell.
    let found = planned_scratch(ctx, |tensor| made_row(ctx, tensor).or_else(|| named_row(tensor)));
    let peak = |parts: &[&[Held]]| highest(&levels(&parts.concat(), steps));
    BaselineSummary {
        claimed: sum(&ctx.layout.baseline.file_order_peak),
        claimed_own: sum(&ctx.layout.baseline.own_peak),
        derived: peak(&[&aliased, &planned]),
        least: peak(&[&least]),
        most: peak(&[&all, &kernels, &found, &body_values(ctx)]),
        most_own: peak(&[&all, &assumed, &kernels, &found, &body_values(ctx)]),
    }
}

/// Bytes of the input model's constants: initializers alone, and with what nodes without operands make.
pub(crate) fn weights(ctx: &Ctx<'_>) -> (u64, u64) {
    let side = ctx.given;
    let bytes = |value: Value| side.known[value].as_ref().map_or(0, |known| known.bytes());
    let of = |values: &mut dyn Iterator<Item = Value>| values.fold(0u64, |sum, value| sum.saturating_add(bytes(value)));
    let least = of(&mut side.values.iter().copied().filter(|value| side.is_initializer(*value)));
    let sources = side.rows.iter().filter(|row| row.reads.is_empty());
    let made = of(&mut sources.flat_map(|row| side.module.node(row.node).results()));
    (least, least.saturating_add(made))
}

fn sum(peaks: &BTreeMap<String, u64>) -> u64 {
    peaks.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// Whether an arena with the layout's `io` holds the value.
fn held(ctx: &Ctx<'_>, value: Value) -> bool {
    let side = ctx.given;
    // What the plan holds as a constant under the same name needs no place in either model.
    if side.known[value].is_none() || side.is_initializer(value) || class(ctx, value) == Some(Class::Constant) {
        return false;
    }
    let output = side.is_output[value];
    match side.producer[value] {
        None => ctx.layout.io == Io::Arena && !output && is_read(side, value) && class(ctx, value) != Some(Class::State),
        Some(_) => !(output && ctx.layout.io == Io::External),
    }
}

fn is_read(side: &Side<'_>, value: Value) -> bool {
    side.rows.iter().any(|row| row.reads.contains(&value))
}

fn class(ctx: &Ctx<'_>, value: Value) -> Option<Class> {
    ctx.named.get(ctx.given.name(value)).map(|index| ctx.tensor(*index).class)
}

fn live(side: &Side<'_>) -> BTreeMap<Value, Steps> {
    let mut live: BTreeMap<Value, Steps> = BTreeMap::new();
    for value in &side.values {
        let start = side.producer[*value].unwrap_or(0) as u64;
        let end = if side.is_output[*value] { side.rows.len() as u64 } else { start + 1 };
        live.insert(*value, (start, end));
    }
    for (step, row) in side.rows.iter().enumerate() {
        for value in &row.reads {
            if let Some(range) = live.get_mut(value) {
                range.1 = range.1.max(step as u64 + 1);
            }
        }
    }
    live
}

fn has_bodies(side: &Side<'_>, value: Value) -> bool {
    side.producer[value].is_some_and(|row| side.module.node(side.rows[row].node).bodies().next().is_some())
}

/// What is computed, repeatably, from initializers that are no graph inputs, and is no graph output.
fn computed_constants(side: &Side<'_>) -> BTreeSet<Value> {
    let mut constant: BTreeSet<Value> = BTreeSet::new();
    for (at, row) in side.rows.iter().enumerate() {
        let fixed = |value: &Value| side.module.constant_of(*value).is_some() || constant.contains(value);
        if !row.reads.iter().all(fixed) || side.is_transfer(at) || side.unrepeatable(at) {
            continue;
        }
        let results = side.module.node(row.node).results().filter(|value| !side.is_output[*value]);
        constant.extend(results);
    }
    constant
}

/// Owner of each result that is a view of an operand, in the order of rows.
fn owners(side: &Side<'_>) -> BTreeMap<Value, Value> {
    let mut owner: BTreeMap<Value, Value> = BTreeMap::new();
    for row in 0..side.rows.len() {
        for (part, whole) in candidates(side, row) {
            let root = owner.get(&whole).copied().unwrap_or(whole);
            // A graph output needs bytes of its own where the other ones are the caller's.
            let forced = side.is_output[part] && side.producer[root].is_none();
            if side.producer[part] == Some(row) && part != whole && !forced && !offsets(side, part, whole).is_empty() {
                owner.insert(part, root);
            }
        }
    }
    owner
}

/// Values that some node makes, or lets be made, a part of another one's bytes.
///
/// The other one is always counted: whichever of the two owns the bytes of a reshape, they are there while either is.
fn parts(side: &Side<'_>) -> BTreeSet<Value> {
    let pairs = (0..side.rows.len()).flat_map(|row| candidates(side, row));
    pairs.filter(|(part, whole)| !offsets(side, *part, *whole).is_empty()).map(|(part, _)| part).collect()
}

/// Kernel workspace: the most that any runtime that memc knows takes, since the layout names none.
fn workspace(side: &Side<'_>) -> Vec<Held> {
    let steps = side.rows.iter().enumerate();
    steps
        .filter_map(|(step, row)| {
            let bytes = kernel(&side.module, row.node)?;
            Some(Held { steps: (step as u64, step as u64 + 1), bytes })
        })
        .collect()
}

fn kernel(module: &Module, node: Node) -> Option<u64> {
    let bytes = Profile::ALL.iter().filter_map(|profile| profile.workspace(&Typed { module, node }));
    bytes.map(|bytes| bytes.0).max().filter(|bytes| *bytes > 0)
}

/// Workspace that the layout gives to nodes, at the rows of the input model that `row_of` finds.
fn planned_scratch(ctx: &Ctx<'_>, row_of: impl Fn(&Tensor) -> Option<usize>) -> Vec<Held> {
    let scratch = ctx.layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch);
    scratch
        .filter_map(|tensor| {
            let step = row_of(tensor)? as u64;
            Some(Held { steps: (step, step + 1), bytes: tensor.bytes })
        })
        .collect()
}

/// Row of the input model that makes a result of the node that runs at the entry's step.
fn made_row(ctx: &Ctx<'_>, tensor: &Tensor) -> Option<usize> {
    let row = *ctx.order.get(usize::try_from(tensor.step?).ok()?)?;
    let mut results = ctx.out.module.node(ctx.out.rows[row].node).results();
    results.find_map(|value| ctx.given.producer[*ctx.given.named.get(ctx.out.name(value))?])
}

/// Everything that the bodies of a node compute, as if nothing in them were ever freed, with the gaps that alignment leaves.
fn body_values(ctx: &Ctx<'_>) -> Vec<Held> {
    let alignment = ctx.layout.arenas.iter().map(|arena| arena.alignment).max().unwrap_or(1).max(1);
    let mut all = Vec::new();
    for (step, row) in ctx.given.rows.iter().enumerate() {
        let bytes = body_bytes(&ctx.given.module, row.node, alignment);
        if bytes > 0 {
            all.push(Held { steps: (step as u64, step as u64 + 1), bytes });
        }
    }
    all
}

fn body_bytes(module: &Module, node: Node, alignment: u64) -> u64 {
    let aligned = |bytes: u64| bytes.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    let mut sum = 0u64;
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        for (_, body) in module.node(node).bodies() {
            let graph = module.graph(body);
            for inner in &graph.nodes {
                sum = sum.saturating_add(aligned(kernel(module, *inner).unwrap_or(0)));
            }
            let results = graph.nodes.iter().flat_map(|inner| module.node(*inner).results());
            for value in results.chain(graph.inputs.iter().copied()) {
                sum = sum.saturating_add(aligned(module.ty(value).size().map_or(0, |size| size.0)));
            }
            nodes.extend(&graph.nodes);
        }
    }
    sum
}
