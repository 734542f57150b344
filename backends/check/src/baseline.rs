//! Derives the peak of the input model in file order, under the plan's rules: results are views,
//! nothing is in place.
//!
//! The contract leaves three choices to a planner: which sub-views it takes as views, which workspace
//! it counts, and whether values computed from constants are constants. So three numbers are derived:
//!
//! - a lower bound over all choices,
//! - an upper bound over all choices,
//! - a number between them. Here every result that can be a view is one. No operand is written into a
//!   result before the result is whole. Values computed from constants occupy memory unless the plan
//!   classifies them as constants.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, Module, Node, Value};
use memc_layout::{Class, Io, StatedBy, Tensor};
use memc_ops::{Profile, Typed};

use crate::bodies;
use crate::ctx::{Ctx, Steps};
use crate::levels::{Held, highest, levels};
use crate::report::BaselineSummary;
use crate::side::Side;
use crate::views::{candidates, offsets};

/// Derives the peaks of the input model and sums the peaks that the layout claims.
pub(crate) fn derive(ctx: &Ctx<'_>) -> BaselineSummary {
    let side = ctx.given;
    let steps = side.rows.len();
    // Live values that the arena holds, grouped by the owner of their bytes.
    let live = live(side);
    let own: BTreeMap<Value, Steps> =
        side.values.iter().filter(|value| held(ctx, **value)).map(|value| (*value, live[value])).collect();
    let computed = computed_constants(side);
    let owner = owners(side);
    let most_bytes = |value: Value| side.known[value].as_ref().map_or(0, |known| known.bytes());
    // The plan states the sizes of values that depend on free dimensions, and the check has bounded them.
    let bytes = |value: Value| stated_bytes(ctx, value).unwrap_or_else(|| most_bytes(value));
    let least_bytes = |value: Value| side.known[value].as_ref().map_or(0, |known| known.least_bytes());
    let mut families: BTreeMap<Value, Vec<Steps>> = BTreeMap::new();
    for value in live.keys() {
        let root = owner.get(value).copied().unwrap_or(*value);
        // A view of a buffer that the caller holds is not in the arena either.
        if own.contains_key(&root) {
            families.entry(root).or_default().push(live[value]);
        }
    }
    let aliased: Vec<Held> = families
        .into_iter()
        .flat_map(|(root, ranges)| {
            crate::liveness::joined(ranges).into_iter().map(move |steps| (root, steps))
        })
        .map(|(root, steps)| Held { steps, bytes: bytes(root) })
        .collect();
    // Upper bound: some runtimes keep a result without readers until the end of the run.
    let read: BTreeSet<Value> = side.rows.iter().flat_map(|row| row.reads.iter().copied()).collect();
    let longest = |value: &Value, range: &Steps| {
        let unread = side.producer[*value].is_some() && !read.contains(value);
        if unread { (range.0, steps as u64) } else { *range }
    };
    let all: Vec<Held> = own
        .iter()
        .map(|(value, range)| Held { steps: longest(value, range), bytes: most_bytes(*value) })
        .collect();
    // Only the layout states the sizes that the user gave.
    let assumed: BTreeSet<&str> = ctx
        .layout
        .stated
        .iter()
        .filter(|row| row.by == StatedBy::User)
        .map(|row| row.tensor.as_str())
        .collect();
    let assumed: Vec<Held> = (side.values.iter())
        .filter(|value| side.known[**value].is_none())
        .filter_map(|value| {
            let name = side.name(*value);
            let index = ctx.named.get(name).filter(|_| assumed.contains(name))?;
            Some(Held { steps: longest(value, live.get(value)?), bytes: ctx.tensor(*index).bytes })
        })
        .collect();
    // Lower bound: leave out every value that a planner may treat as a constant or as a view.
    let parts = parts(side);
    let least: Vec<Held> = own
        .iter()
        .filter(|(value, _)| {
            !computed.contains(value) && !parts.contains(value) && side.elements(**value).is_none()
        })
        // Leave out results of nodes with bodies: only a planner that examines the bodies may know
        // their sizes.
        .filter(|(value, _)| !has_bodies(side, **value))
        .map(|(value, steps)| Held { steps: *steps, bytes: least_bytes(*value) })
        .collect();
    // Workspace: of known kernels, and of the plan's nodes.
    let kernels = workspace(side);
    let row_named: BTreeMap<&str, usize> =
        (0..side.rows.len()).map(|row| (side.node_name(row), row)).collect();
    let named_row = |tensor: &Tensor| {
        let (node, _) = tensor.name.strip_prefix("scratch:")?.rsplit_once(':')?;
        row_named.get(node).copied()
    };
    let planned = planned_scratch(ctx, named_row);
    // Node names may differ between the two models. Results then identify the node of the input model.
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

/// Returns two sizes of the input model's constants, in bytes: initializers alone, and initializers
/// plus the results of nodes without operands and the constants of bodies.
pub(crate) fn weights(ctx: &Ctx<'_>) -> (u64, u64) {
    let side = ctx.given;
    let bytes = |value: Value| side.known[value].as_ref().map_or(0, |known| known.bytes());
    let of = |values: &mut dyn Iterator<Item = Value>| {
        values.fold(0u64, |sum, value| sum.saturating_add(bytes(value)))
    };
    let least = of(&mut side.values.iter().copied().filter(|value| side.is_initializer(*value)));
    let sources = side.rows.iter().filter(|row| row.reads.is_empty());
    let made = of(&mut sources.flat_map(|row| side.module.node(row.node).results()));
    let bodies = bodies::constants(&side.module);
    (least, least.saturating_add(made).saturating_add(bodies))
}

/// Returns the stated size of a value that depends on free dimensions, if both models have it.
fn stated_bytes(ctx: &Ctx<'_>, value: Value) -> Option<u64> {
    let index = *ctx.named.get(ctx.given.name(value))?;
    let out = ctx.value_of[index].and_then(|out| ctx.out.known[out].as_ref());
    let own = ctx.given.known[value].as_ref().filter(|known| known.free.is_some());
    (out? == own?).then(|| ctx.tensor(index).bytes)
}

fn sum(peaks: &BTreeMap<String, u64>) -> u64 {
    peaks.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// Whether an arena with the layout's `io` holds the value.
fn held(ctx: &Ctx<'_>, value: Value) -> bool {
    let side = ctx.given;
    // If the plan classifies the value of this name as a constant, neither model needs a place for it.
    if side.known[value].is_none() || side.is_initializer(value) || class(ctx, value) == Some(Class::Constant)
    {
        return false;
    }
    let output = side.is_output[value];
    match side.producer[value] {
        None => {
            ctx.layout.io == Io::Arena
                && !output
                && is_read(side, value)
                && class(ctx, value) != Some(Class::State)
        }
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

/// Collects values that repeatable nodes compute from initializers alone. Graph inputs with defaults do
/// not count as initializers here, and graph outputs are left out.
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

/// Maps each result that can be a view of an operand to the owner of its bytes. Visits nodes in row
/// order.
fn owners(side: &Side<'_>) -> BTreeMap<Value, Value> {
    let mut owner: BTreeMap<Value, Value> = BTreeMap::new();
    for row in 0..side.rows.len() {
        for (part, whole) in candidates(side, row) {
            let root = owner.get(&whole).copied().unwrap_or(whole);
            // A graph output that views a caller's value needs its own bytes.
            let forced = side.is_output[part] && side.producer[root].is_none();
            if side.producer[part] == Some(row)
                && part != whole
                && !forced
                && !offsets(side, part, whole).is_empty()
            {
                owner.insert(part, root);
            }
        }
    }
    owner
}

/// Collects values that may share the bytes of another value, by the meaning of some node.
///
/// The lower bound leaves these values out and always counts the other value. The two share bytes,
/// which are in use while either value is live.
fn parts(side: &Side<'_>) -> BTreeSet<Value> {
    let pairs = (0..side.rows.len()).flat_map(|row| candidates(side, row));
    pairs.filter(|(part, whole)| !offsets(side, *part, *whole).is_empty()).map(|(part, _)| part).collect()
}

/// Returns kernel workspace by step: the maximum over all runtimes that memc knows, because the layout
/// does not name one.
fn workspace(side: &Side<'_>) -> Vec<Held> {
    let steps = side.rows.iter().enumerate();
    steps
        .filter_map(|(step, row)| {
            let bytes = kernel(&side.module, row.node)?;
            Some(Held { steps: (step as u64, step as u64 + 1), bytes })
        })
        .collect()
}

/// Returns the most bytes that a kernel takes at any extents. Some take more at smaller ones: columns of a
/// small image, but segments of a large one.
fn kernel(module: &Module, node: Node) -> Option<u64> {
    let has_free = !module.domain().is_empty();
    let most = |of: &DimExpr| u64::try_from(module.domain().most(of)?).ok();
    let of = |profile: &&Profile| {
        let over = profile.workspace_over(&Typed::of(module, node)).filter(|_| has_free);
        let largest = profile.workspace(&Typed::largest(module, node)).map(|bytes| bytes.0);
        largest.max(over.and_then(|over| most(&over)))
    };
    Profile::ALL.iter().filter_map(of).max().filter(|bytes| *bytes > 0)
}

/// Returns the layout's workspace entries. `row_of` maps an entry to a row of the input model; entries
/// without a row are left out.
fn planned_scratch(ctx: &Ctx<'_>, row_of: impl Fn(&Tensor) -> Option<usize>) -> Vec<Held> {
    let scratch = ctx.layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch);
    scratch
        .filter_map(|tensor| {
            let step = row_of(tensor)? as u64;
            Some(Held { steps: (step, step + 1), bytes: tensor.bytes })
        })
        .collect()
}

/// Finds the row of the input model that computes a result of the node at the entry's step.
fn made_row(ctx: &Ctx<'_>, tensor: &Tensor) -> Option<usize> {
    let row = *ctx.order.get(usize::try_from(tensor.step?).ok()?)?;
    let mut results = ctx.out.module.node(ctx.out.rows[row].node).results();
    results.find_map(|value| ctx.given.producer[*ctx.given.named.get(ctx.out.name(value))?])
}

/// Returns an upper bound of the bytes that bodies need: all values of a node's bodies are live
/// together, each padded to the alignment.
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
                sum = sum.saturating_add(aligned(module.size(value).map_or(0, |size| size.0)));
            }
            nodes.extend(&graph.nodes);
        }
    }
    sum
}
