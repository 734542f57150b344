//! Cost model of the passes: a target, and optionally a runtime's measurements.

use std::sync::Arc;

use memc_ir::{Bytes, Module, Nanos, Node, Value};
use memc_ops::families::memory::transfer_of;

use crate::measured::Measured;
use crate::node::accesses;
use crate::scratch::ScratchRules;
use crate::target::Target;

/// Costs on one target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    /// Description of the target.
    pub target: Target,
    /// Measurements of the model on a runtime; they replace modelled costs.
    pub measured: Option<Arc<Measured>>,
    /// Workspace of kernels as the user states it; it replaces that of the operator table and measured
    /// workspace.
    pub scratch: Option<Arc<ScratchRules>>,
}

impl CostModel {
    /// Returns the time of a node; a recomputed copy takes as long as its original. Tensors that live in
    /// a farther space add the time of reading and writing them there.
    pub fn nanos(&self, module: &Module, node: Node) -> Nanos {
        let near = match &self.measured {
            Some(measured) => measured.nanos(module, node, &self.target.machine),
            None => crate::node::nanos(module, node, &self.target.machine),
        };
        Nanos(near.0 + self.direct(module, node))
    }

    /// Returns the nanoseconds in which a node reads and writes the tensors that the plan places in
    /// farther spaces with a rate of access. The processor waits for them, so this time is in addition to
    /// the node's own.
    fn direct(&self, module: &Module, node: Node) -> f64 {
        let is_placed = module.plan.arenas.len() > 1 && self.target.spaces.iter().any(|space| space.access.is_some());
        if !is_placed || transfer_of(&module.node(node).operator).is_some() {
            return 0.0;
        }
        let mut nanos = 0.0;
        let rate = |value: Value| {
            let name = &module.plan.spaces[module.plan.storage[value]?.space].name;
            self.target.spaces.get(self.target.space(name)?)?.access
        };
        // An unknown size ends the sum: the node's own time is then a stated bound.
        _ = accesses(module, node, |value, bytes| nanos += rate(value).map_or(0.0, |rate| bytes as f64 / rate * 1e9));
        nanos
    }

    /// Returns the part of a node's time spent on gathering operand 0 for products. If several nodes
    /// divide the products, each of them spends this time.
    pub fn gathering(&self, module: &Module, node: Node) -> Nanos {
        crate::node::gathering(module, node, &self.target.machine)
    }

    /// Returns the time of all nodes of the main graph, one after another.
    pub fn total_nanos(&self, module: &Module) -> Nanos {
        let nodes = &module.graph(module.main()).nodes;
        Nanos(nodes.iter().map(|node| self.nanos(module, *node).0).sum())
    }

    /// Returns the workspace of a node as a scratch file states it; `None` without a statement.
    pub fn declared(&self, module: &Module, node: Node) -> Option<Bytes> {
        self.scratch.as_ref().and_then(|rules| rules.bytes(module, node))
    }

    /// Returns the measured workspace of a node; `None` without a measurement.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        self.measured.as_ref().and_then(|measured| measured.workspace(module, node))
    }
}
