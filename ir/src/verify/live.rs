//! Live ranges, derived from the order alone. No pass uses this code.

use super::structure::Tree;
use crate::entity::{GraphId, SecondaryMap, Value};
use crate::module::{Definition, Module};
use crate::units::{LiveRange, Step};

/// Live range of each value, in steps of the graph that defines it.
pub(super) struct Ranges {
    end: SecondaryMap<Value, u32>,
    start: SecondaryMap<Value, u32>,
}

impl Ranges {
    /// Returns the live range of a value.
    pub(super) fn of(&self, value: Value) -> LiveRange {
        let start = self.start[value];
        LiveRange { start: Step(start), end: Step(self.end[value].max(start.saturating_add(1))) }
    }
}

/// Derives all live ranges in one walk over the graphs.
pub(super) fn derive(module: &Module, tree: &Tree) -> Ranges {
    let mut ranges = Ranges { end: SecondaryMap::default(), start: SecondaryMap::default() };
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        for (step, node) in data.nodes.iter().enumerate() {
            for value in module.nodes[*node].results() {
                ranges.start.set(value, step as u32);
            }
            for value in module.nodes[*node].operands() {
                ranges.read(module, tree, *graph, step as u32, value);
            }
        }
        let end = data.nodes.len() as u32;
        for value in &data.outputs {
            // A result of a graph is live to the end of its own graph. If a body returns an outer
            // value, its node reads that value.
            match module.home(*value) == Some(*graph) {
                true => ranges.end.set(*value, end),
                false => ranges.read(module, tree, *graph, end, *value),
            }
        }
    }
    ranges
}

impl Ranges {
    fn read(&mut self, module: &Module, tree: &Tree, graph: GraphId, step: u32, value: Value) {
        let home = match module.values[value].definition {
            Definition::Erased => return,
            _ => module.home(value),
        };
        if let Some(step) = home.and_then(|home| tree.step_in(module, home, graph, step)) {
            let end = self.end[value].max(step.saturating_add(1));
            self.end.set(value, end);
        }
    }
}
