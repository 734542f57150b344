//! Bytes that a body takes at least: values that are live at one of its steps, with the workspace of its
//! nodes.

use std::collections::{BTreeMap, HashMap};

use memc_ir::{GraphId, Module, Value};

use crate::kernels::{self, Kernels};
use crate::levels::{Held, highest, levels};

/// Returns the largest sum of bytes live at one step of a body, in its own order. Values of a body share no
/// bytes; those of unknown size are left out.
pub(crate) fn least(module: &Module, body: GraphId, extents: &BTreeMap<String, u64>, kernels: Kernels) -> u64 {
    let graph = module.graph(body);
    let steps = graph.nodes.len();
    let mut live: HashMap<Value, (usize, usize)> = graph.inputs.iter().map(|input| (*input, (0, 1))).collect();
    let mut held: Vec<Held> = Vec::new();
    // The importer limits the nesting depth of bodies.
    for (step, node) in graph.nodes.iter().enumerate() {
        for value in module.reads(*node) {
            if let Some(range) = live.get_mut(&value) {
                range.1 = step + 1;
            }
        }
        live.extend(module.node(*node).results().map(|value| (value, (step, step + 1))));
        let inner = module.node(*node).bodies().map(|(_, inner)| least(module, inner, extents, kernels)).max().unwrap_or(0);
        let own = kernels::least(module, *node, extents, kernels).unwrap_or(0);
        held.push(Held { steps: (step as u64, step as u64 + 1), bytes: own.saturating_add(inner) });
    }
    for value in &graph.outputs {
        if let Some(range) = live.get_mut(value) {
            range.1 = steps;
        }
    }
    held.extend(live.into_iter().filter_map(|(value, (start, end))| {
        Some(Held { steps: (start as u64, end as u64), bytes: kernels::bytes(module, value, extents)? })
    }));
    highest(&levels(&held, steps))
}
