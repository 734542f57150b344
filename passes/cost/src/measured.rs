//! Measured costs of a module's nodes from a runtime's profile, and estimates for nodes without an
//! entry.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Nanos, Node};

use crate::form::{Form, Kernel};
use crate::machine::Machine;
use crate::timings::{NodeTiming, Timings};

/// Maximum length of a chain of recomputed copies; memc makes no longer chains.
const MAX_CHAIN: usize = 64;

/// Measured and modelled times of several nodes, in nanoseconds, and their largest workspace, in bytes.
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

    /// Returns the ratio of measured to modelled time; 1 without modelled time.
    fn ratio(&self) -> f64 {
        if self.modelled > 0.0 { self.measured / self.modelled } else { 1.0 }
    }
}

/// Times and workspace from a profile.
///
/// A node without its own entry is looked up by its form: rewriting renames nodes and fuses them with
/// element-wise nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    rows: Vec<NodeTiming>,
    by_result: BTreeMap<String, usize>,
    by_node: BTreeMap<String, usize>,
    /// Sums by form: one kernel on operands of equal extents.
    by_form: BTreeMap<Form, Sum>,
    /// Sums by operator, as domain and name.
    by_operator: BTreeMap<(String, String), Sum>,
    /// Sums by kernel.
    by_kernel: BTreeMap<Kernel, Sum>,
    /// Sum of all nodes.
    all: Sum,
    matched: usize,
    unmatched: usize,
}

impl Measured {
    /// Matches a profile with the model that it was measured on. O(n log n).
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

    /// Sums measured and modelled times over the nodes that have both.
    fn compare(&mut self, module: &Module, machine: &Machine) {
        for node in &module.graph(module.main()).nodes {
            let Some(row) = self.row(module, *node).cloned() else {
                self.unmatched += 1;
                continue;
            };
            self.matched += 1;
            // Nodes measured as having no work say nothing about nodes with work.
            if row.ns > 0 {
                let operator = &module.node(*node).operator;
                let modelled = crate::node::nanos(module, *node, machine).0;
                self.by_operator
                    .entry((operator.domain.to_string(), operator.name.to_string()))
                    .or_default()
                    .add(&row, modelled);
                self.by_kernel.entry(Kernel::of(operator)).or_default().add(&row, modelled);
                self.all.add(&row, modelled);
                if let Some(form) = Form::of(module, *node) {
                    self.by_form.entry(form).or_default().add(&row, modelled);
                }
            }
        }
    }

    /// Returns the number of the model's nodes that have an entry in the profile.
    pub fn matched(&self) -> usize {
        self.matched
    }

    /// Returns the number of the model's nodes without an entry, or whose entry has another operator or
    /// other extents.
    pub fn unmatched(&self) -> usize {
        self.unmatched
    }

    /// Returns the time of a node: as measured, or modelled and scaled by the ratio of its form, its
    /// operator, its kernel, or else of all nodes.
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

    /// Returns the measured workspace of a node, or of another node of its form; `None` without a
    /// measurement.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        let own = self.row(module, node).map(|row| row.workspace);
        let of_form = || Some(self.by_form.get(&Form::of(module, node)?)?.workspace);
        own.or_else(of_form).map(Bytes)
    }

    /// Returns the entry of a node, or of the original if it is a recomputed copy. The entry is found by
    /// the unique name of the first result, or else by the node's name.
    fn row(&self, module: &Module, node: Node) -> Option<&NodeTiming> {
        let original = original(module, node);
        let data = module.node(original);
        let result = data.outputs.iter().flatten().next().map(|value| module.value(*value).name.as_str());
        let by_result = result.and_then(|name| self.by_result.get(name));
        let index = by_result.or_else(|| self.by_node.get(&data.name))?;
        let row = self.rows.get(*index)?;
        let same = row.op == *data.operator.name
            && row.domain == *data.operator.domain
            && same_extents(row, module, original);
        same.then_some(row)
    }
}

/// Returns the original at the start of a chain of recomputed copies.
fn original(module: &Module, node: Node) -> Node {
    let chain = std::iter::successors(Some(node), |node| module.node(*node).recompute_of);
    chain.take(MAX_CHAIN).last().unwrap_or(node)
}

/// Returns whether a node's results have the measured extents, as far as both are known.
fn same_extents(row: &NodeTiming, module: &Module, node: Node) -> bool {
    let results = module.node(node).results();
    row.results.iter().zip(results).all(|(measured, value)| {
        let known = module.largest(value).and_then(|ty| ty.known_dims());
        measured.shape.as_ref().zip(known.as_ref()).is_none_or(|(measured, known)| measured == known)
    })
}
