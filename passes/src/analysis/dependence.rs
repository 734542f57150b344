//! Dependences between nodes: operands, captures, and the order of side effects.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{GraphId, Module, Node, SecondaryMap, Value};
use memc_ops::Repeat;

/// Returns, for each position in the graph's node list, the sorted positions that must come before it.
///
/// An operator with a side effect (it writes into an operand, or memc does not know it) keeps its place
/// in the graph's own order relative to all readers of the values that it may write. If its effects may
/// go beyond its operands, it also keeps its place among all operators of that kind. Two values without
/// an alias count as two buffers, as in every runtime that runs nodes in order of their operands.
pub fn predecessors(module: &Module, graph: GraphId) -> Vec<Vec<u32>> {
    let nodes = &module.graph(graph).nodes;
    let mut maker: SecondaryMap<Value, Option<u32>> = SecondaryMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for value in module.node(*node).results() {
            maker.set(value, Some(position as u32));
        }
    }
    let mut before: Vec<Vec<u32>> = Vec::with_capacity(nodes.len());
    let mut effects = Effects::default();
    for (position, node) in nodes.iter().enumerate() {
        let reads = module.reads(*node);
        let mut sources: Vec<u32> = reads.iter().filter_map(|value| maker[*value]).collect();
        effects.visit(module, *node, position as u32, &reads, &mut sources);
        sources.sort_unstable();
        sources.dedup();
        before.push(sources);
    }
    before
}

/// Effect of running a node in addition to its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    Nothing,
    /// The node writes into its first operand.
    Update,
    Anything,
}

/// Returns whether running a node does more than make its results.
pub fn has_side_effect(module: &Module, node: Node) -> bool {
    effect(module, node) != Effect::Nothing
}

/// Returns the values whose bytes a node may write, in addition to its results.
pub fn written(module: &Module, node: Node) -> Vec<Value> {
    match effect(module, node) {
        Effect::Nothing => Vec::new(),
        Effect::Update => module.node(node).inputs.first().copied().flatten().into_iter().collect(),
        Effect::Anything => module.reads(node),
    }
}

fn effect(module: &Module, node: Node) -> Effect {
    let data = module.node(node);
    if data
        .bodies()
        .any(|(_, body)| module.graph(body).nodes.iter().any(|inner| has_side_effect(module, *inner)))
    {
        return Effect::Anything;
    }
    match memc_ops::lookup(&data.operator).map(|info| info.repeat) {
        Some(Repeat::Updating) => Effect::Update,
        Some(Repeat::Stateful) | None => Effect::Anything,
        Some(Repeat::Yes | Repeat::Random | Repeat::UnlessTraining) => Effect::Nothing,
    }
}

/// Readers and writers visited so far, by the owner of the bytes that they access.
#[derive(Default)]
struct Effects {
    /// Last node with a side effect beyond its operands.
    last: Option<u32>,
    /// Last writer of an owner's bytes.
    writer: BTreeMap<Value, u32>,
    /// Readers of an owner's bytes since its last writer.
    readers: BTreeMap<Value, Vec<u32>>,
}

impl Effects {
    fn visit(&mut self, module: &Module, node: Node, position: u32, reads: &[Value], sources: &mut Vec<u32>) {
        let written: BTreeSet<Value> =
            written(module, node).iter().map(|value| module.plan.owner(*value).0).collect();
        for value in reads {
            let (owner, _) = module.plan.owner(*value);
            // A node that reads the bytes twice does not wait for itself.
            sources.extend(self.writer.get(&owner).filter(|writer| **writer != position));
            if written.contains(&owner) {
                sources.extend(
                    self.readers
                        .remove(&owner)
                        .unwrap_or_default()
                        .iter()
                        .filter(|other| **other != position),
                );
                self.writer.insert(owner, position);
            } else {
                self.readers.entry(owner).or_default().push(position);
            }
        }
        if effect(module, node) == Effect::Anything {
            sources.extend(self.last.replace(position));
        }
    }
}
