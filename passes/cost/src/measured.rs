//! A runtime's profile laid over a module: what was measured where a node was, what that lets expect where it was not.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Nanos, Node};

use crate::form::{Form, Kernel};
use crate::machine::Machine;
use crate::timings::{NodeTiming, Timings};

/// A copy is a copy of an original, however long the chain; what is longer is no chain that memc makes.
const MAX_CHAIN: usize = 64;

/// Measured and modelled times of several nodes, and their largest workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    measured: f64,
    modelled: f64,
    workspace: u64,
}

impl Sum {
    fn add(&mut self, row: &NodeTiming, modelled: f64) {
        self.measured += row.ns as f64;
        self.modelled += modelled;
        self.workspace = self.workspace.max(row.workspace);
    }

    /// Measured against modelled time.
    fn ratio(&self) -> f64 {
        if self.modelled > 0.0 { self.measured / self.modelled } else { 1.0 }
    }
}

/// Times and workspace from a profile.
///
/// A node without an entry of its own is looked up by its form: rewriting gives nodes other names, and fuses them with element-wise ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    rows: Vec<NodeTiming>,
    by_result: BTreeMap<String, usize>,
    by_node: BTreeMap<String, usize>,
    /// Nodes of one form: one kernel on operands of the same extents.
    by_form: BTreeMap<Form, Sum>,
    /// Nodes of one operator, by domain and name.
    by_operator: BTreeMap<(String, String), Sum>,
    /// Nodes of one kernel.
    by_kernel: BTreeMap<Kernel, Sum>,
    /// All nodes.
    all: Sum,
    matched: usize,
    unmatched: usize,
}

impl Measured {
    /// Lays a profile over the model that it was taken of. O(n log n).
    pub fn new(profile: Timings, module: &Module, machine: &Machine) -> Self {
        let mut by_result = BTreeMap::new();
        let mut by_node = BTreeMap::new();
        for (index, row) in profile.nodes.iter().enumerate() {
            by_node.entry(row.node.clone()).or_insert(index);
            if let Some(result) = row.results.first() {
                by_result.entry(result.name.clone()).or_insert(index);
            }
        }
        let mut measured = Self {
            rows: profile.nodes,
            by_result,
            by_node,
            by_form: BTreeMap::new(),
            by_operator: BTreeMap::new(),
            by_kernel: BTreeMap::new(),
            all: Sum::default(),
            matched: 0,
            unmatched: 0,
        };
        measured.compare(module, machine);
        measured
    }

    /// Derives how the machine compares with its model, from the nodes of which both are known.
    fn compare(&mut self, module: &Module, machine: &Machine) {
        for node in &module.graph(module.main()).nodes {
            let Some(row) = self.row(module, *node).cloned() else {
                self.unmatched += 1;
                continue;
            };
            self.matched += 1;
            // Nodes that were found to have nothing to do say nothing about those that do.
            if row.ns > 0 {
                let operator = &module.node(*node).operator;
                let modelled = crate::node::nanos(module, *node, machine).0;
                self.by_operator.entry((operator.domain.to_string(), operator.name.to_string())).or_default().add(&row, modelled);
                self.by_kernel.entry(Kernel::of(operator)).or_default().add(&row, modelled);
                self.all.add(&row, modelled);
                if let Some(form) = Form::of(module, *node) {
                    self.by_form.entry(form).or_default().add(&row, modelled);
                }
            }
        }
    }

    /// Nodes of the model that the profile has.
    pub fn matched(&self) -> usize {
        self.matched
    }

    /// Nodes of the model that the profile lacks, or had with another operator or other extents.
    pub fn unmatched(&self) -> usize {
        self.unmatched
    }

    /// Time of a node: as measured, or as modelled in proportion to what was measured of its form, its operator, its kernel, or else of all nodes.
    pub fn nanos(&self, module: &Module, node: Node, machine: &Machine) -> Nanos {
        if let Some(row) = self.row(module, node) {
            return Nanos(row.ns as f64);
        }
        let operator = &module.node(node).operator;
        let of_form = || Form::of(module, node).and_then(|form| self.by_form.get(&form));
        let of_operator = || self.by_operator.get(&(operator.domain.to_string(), operator.name.to_string()));
        let of_kernel = || self.by_kernel.get(&Kernel::of(operator));
        let sum = of_form().or_else(of_operator).or_else(of_kernel).unwrap_or(&self.all);
        Nanos(crate::node::nanos(module, node, machine).0 * sum.ratio())
    }

    /// Workspace of a node as measured, of itself or of another node of its form.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        let own = self.row(module, node).map(|row| row.workspace);
        let of_form = || Some(self.by_form.get(&Form::of(module, node)?)?.workspace);
        own.or_else(of_form).map(Bytes)
    }

    /// The entry of a node, or of the node that it is a copy of: by the name of its first result, which is unique, or else by its own.
    fn row(&self, module: &Module, node: Node) -> Option<&NodeTiming> {
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
fn same_extents(row: &NodeTiming, module: &Module, node: Node) -> bool {
    let results = module.node(node).results();
    row.results.iter().zip(results).all(|(measured, value)| {
        let known = module.ty(value).tensor().and_then(|ty| ty.known_dims());
        measured.shape.as_ref().zip(known.as_ref()).is_none_or(|(measured, known)| measured == known)
    })
}
