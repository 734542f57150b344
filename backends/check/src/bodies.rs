//! Bytes that a body takes at least: values that are live at one of its steps, with the workspace of its
//! nodes.
//!
//! The body of a Scan over rows may be memc's own, in which values share bytes: there, values that may lie in
//! the bytes of others take none.

use std::collections::{BTreeMap, HashMap};

use memc_ir::{GraphId, Module, Value};
use memc_ops::{InPlace, View, lookup};

use crate::kernels::{self, Kernels};
use crate::levels::{Held, highest, levels};
use crate::rows::is_onnx;

/// Returns the largest sum of bytes live at one step of a body, in its own order. Values of a body share no
/// bytes; those of unknown size are left out.
pub(crate) fn least(
    module: &Module,
    body: GraphId,
    extents: &BTreeMap<String, u64>,
    kernels: Kernels,
) -> u64 {
    let graph = module.graph(body);
    let steps = graph.nodes.len();
    let mut live: HashMap<Value, (usize, usize)> =
        graph.inputs.iter().map(|input| (*input, (0, 1))).collect();
    let mut held: Vec<Held> = Vec::new();
    // The importer limits the nesting depth of bodies.
    for (step, node) in graph.nodes.iter().enumerate() {
        for value in module.reads(*node) {
            if let Some(range) = live.get_mut(&value) {
                range.1 = step + 1;
            }
        }
        live.extend(module.node(*node).results().map(|value| (value, (step, step + 1))));
        let inner = module
            .node(*node)
            .bodies()
            .map(|(_, inner)| least(module, inner, extents, kernels))
            .max()
            .unwrap_or(0);
        let own = kernels::least(module, *node, extents, kernels).unwrap_or(0);
        held.push(Held { steps: (step as u64, step as u64 + 1), bytes: own.saturating_add(inner) });
    }
    for value in &graph.outputs {
        if let Some(range) = live.get_mut(value) {
            range.1 = steps;
        }
    }
    if is_over_rows(module, body) {
        let shared = shared(module, body, &live);
        join(&mut live, shared);
    }
    held.extend(live.into_iter().filter_map(|(value, (start, end))| {
        Some(Held { steps: (start as u64, end as u64), bytes: kernels::bytes(module, value, extents)? })
    }));
    highest(&levels(&held, steps))
}

/// Returns the bytes of the constants of all bodies of a model.
pub(crate) fn constants(module: &Module) -> u64 {
    let (mut open, mut sum) = (vec![module.main()], 0u64);
    while let Some(graph) = open.pop() {
        for (_, body) in module.graph(graph).nodes.iter().flat_map(|node| module.node(*node).bodies()) {
            let sizes = module.graph(body).constants.iter().filter_map(|value| module.size(*value));
            sum = sizes.fold(sum, |sum, size| sum.saturating_add(size.0));
            open.push(body);
        }
    }
    sum
}

/// Returns whether a body is that of a Scan that carries no state and reads its operands along their first
/// axis: the rows are then bytes of the operands.
fn is_over_rows(module: &Module, body: GraphId) -> bool {
    let Some(node) = module.graph(body).parent.map(|node| module.node(node)) else { return false };
    let count = usize::try_from(node.int("num_scan_inputs", 0));
    is_onnx(node, "Scan") && count == Ok(node.inputs.len()) && node.attribute("scan_input_axes").is_none()
}

/// Returns the values of a body that may be in the bytes of others, each with the value whose bytes they are;
/// `None` for parts of a value, and for rows of operands of the Scan.
fn shared(
    module: &Module,
    body: GraphId,
    live: &HashMap<Value, (usize, usize)>,
) -> Vec<(Value, Option<Value>)> {
    let graph = module.graph(body);
    let mut found: Vec<(Value, Option<Value>)> = graph.inputs.iter().map(|row| (*row, None)).collect();
    for (step, node) in graph.nodes.iter().enumerate() {
        let data = module.node(*node);
        let Some(info) = lookup(&data.operator) else { continue };
        let (first, result) =
            (data.inputs.first().copied().flatten(), data.outputs.first().copied().flatten());
        let dies = |value: &Value| {
            live.get(value).is_some_and(|(_, end)| *end == step + 1) && !graph.outputs.contains(value)
        };
        match info.view {
            View::Reshape | View::SameType => found.extend(result.map(|result| (result, first))),
            View::Slice | View::Split => found.extend(data.results().map(|part| (part, None))),
            View::Concat => found.extend(data.operands().map(|part| (part, None))),
            View::None => {
                let overwritten = match info.in_place {
                    InPlace::Never => None,
                    InPlace::Operands(positions) => {
                        positions.iter().filter_map(|at| data.inputs.get(*at).copied().flatten()).find(dies)
                    }
                    InPlace::Any | InPlace::UnlessTraining => data.operands().find(dies),
                };
                found.extend(result.zip(overwritten).map(|(result, of)| (result, Some(of))));
            }
        }
    }
    found
}

/// Joins values that may share bytes: the owner then lives as long as all of them, and the others take none.
fn join(live: &mut HashMap<Value, (usize, usize)>, shared: Vec<(Value, Option<Value>)>) {
    for (value, of) in shared.into_iter().rev() {
        let Some((start, end)) = live.remove(&value) else { continue };
        if let Some(range) = of.and_then(|of| live.get_mut(&of)) {
            *range = (range.0.min(start), range.1.max(end));
        }
    }
}
