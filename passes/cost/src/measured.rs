//! A runtime's profile laid over a module: what was measured where a node was, what that lets expect where it was not.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Nanos, Node};

use crate::machine::Machine;
use crate::profile::{NodeProfile, Profile};

/// A copy is a copy of an original, however long the chain; what is longer is no chain that memc makes.
const MAX_CHAIN: usize = 64;

/// Times and workspace from a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    rows: Vec<NodeProfile>,
    by_result: BTreeMap<String, usize>,
    by_node: BTreeMap<String, usize>,
    /// Measured against modelled time, by domain and operator.
    ratios: BTreeMap<(String, String), f64>,
    /// The same over all nodes.
    ratio: f64,
    matched: usize,
    unmatched: usize,
}

impl Measured {
    /// Lays a profile over the model that it was taken of. O(n log n).
    pub fn new(profile: Profile, module: &Module, machine: &Machine) -> Self {
        let mut by_result = BTreeMap::new();
        let mut by_node = BTreeMap::new();
        for (index, row) in profile.nodes.iter().enumerate() {
            by_node.entry(row.node.clone()).or_insert(index);
            if let Some(result) = row.results.first() {
                by_result.entry(result.name.clone()).or_insert(index);
            }
        }
        let ratios = BTreeMap::new();
        let mut measured = Self { rows: profile.nodes, by_result, by_node, ratios, ratio: 1.0, matched: 0, unmatched: 0 };
        measured.compare(module, machine);
        measured
    }

    /// Derives how the machine compares with its model, from the nodes of which both are known.
    fn compare(&mut self, module: &Module, machine: &Machine) {
        let mut sums: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
        let (mut matched, mut unmatched) = (0, 0);
        for node in &module.graph(module.main()).nodes {
            let Some(row) = self.row(module, *node) else {
                unmatched += 1;
                continue;
            };
            matched += 1;
            // Nodes that were found to have nothing to do say nothing about those that do.
            if row.ns > 0 {
                let operator = &module.node(*node).operator;
                let sum = sums.entry((operator.domain.to_string(), operator.name.to_string())).or_default();
                sum.0 += row.ns as f64;
                sum.1 += crate::node::nanos(module, *node, machine).0;
            }
        }
        (self.matched, self.unmatched) = (matched, unmatched);
        let ratio = |(measured, modelled): (f64, f64)| if modelled > 0.0 { measured / modelled } else { 1.0 };
        let whole = sums.values().fold((0.0, 0.0), |whole, sum| (whole.0 + sum.0, whole.1 + sum.1));
        self.ratio = ratio(whole);
        self.ratios = sums.into_iter().map(|(operator, sum)| (operator, ratio(sum))).collect();
    }

    /// Nodes of the model that the profile has.
    pub fn matched(&self) -> usize {
        self.matched
    }

    /// Nodes of the model that the profile lacks, or had with another operator or other extents.
    pub fn unmatched(&self) -> usize {
        self.unmatched
    }

    /// Time of a node: as measured, or as modelled in proportion to what was measured of its operator, or else of all nodes.
    pub fn nanos(&self, module: &Module, node: Node, machine: &Machine) -> Nanos {
        if let Some(row) = self.row(module, node) {
            return Nanos(row.ns as f64);
        }
        let operator = &module.node(node).operator;
        let own = self.ratios.get(&(operator.domain.to_string(), operator.name.to_string()));
        Nanos(crate::node::nanos(module, node, machine).0 * own.copied().unwrap_or(self.ratio))
    }

    /// Workspace of a node as measured.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        self.row(module, node).map(|row| Bytes(row.workspace))
    }

    /// The entry of a node, or of the node that it is a copy of: by the name of its first result, which is unique, or else by its own.
    fn row(&self, module: &Module, node: Node) -> Option<&NodeProfile> {
        let original = original(module, node);
        let data = module.node(original);
        let result = data.outputs.iter().flatten().next().map(|value| module.value(*value).name.as_str());
        let by_result = result.and_then(|name| self.by_result.get(name));
        let index = by_result.or_else(|| self.by_node.get(&data.name))?;
        let row = self.rows.get(*index)?;
        let same = row.op == *data.operator.name && row.domain == *data.operator.domain && same_extents(row, module, original);
        same.then_some(row)
    }
}

/// The node that a chain of copies starts from.
fn original(module: &Module, node: Node) -> Node {
    let chain = std::iter::successors(Some(node), |node| module.node(*node).recompute_of);
    chain.take(MAX_CHAIN).last().unwrap_or(node)
}

/// Whether a node's results have the extents that were measured, as far as both are known.
fn same_extents(row: &NodeProfile, module: &Module, node: Node) -> bool {
    let results = module.node(node).results();
    row.results.iter().zip(results).all(|(measured, value)| {
        let known = module.ty(value).tensor().and_then(|ty| ty.known_dims());
        measured.shape.as_ref().zip(known.as_ref()).is_none_or(|(measured, known)| measured == known)
    })
}
