//! Cost model of the passes: a target, and optionally a runtime's measurements.

use std::sync::Arc;

use memc_ir::{Bytes, Module, Nanos, Node, Value};
use memc_ops::KernelKind;
use memc_ops::families::memory::{Transfer, is_copied_aside, transfer_of};

use crate::measured::Measured;
use crate::node::{UNKNOWN_NANOS, accesses};
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
        Nanos(near.0 + self.direct(module, node) + self.fetched(module, node))
    }

    /// Returns the time of a link that copies the rows which a lookup reads from a constant in the farther
    /// space of this index: each row is a request of its own. `None` if there is no such link, or a size is
    /// unknown.
    pub fn rows_nanos(&self, module: &Module, node: Node, far: usize) -> Option<Nanos> {
        let data = module.node(node);
        let indices = module.largest(data.inputs.get(1).copied().flatten()?)?.elements()?;
        let bytes = module.largest(data.results().next()?)?.size()?;
        let link = self.target.link(far, 0)?;
        Some(Nanos(link.time(bytes).0 + link.latency.0 * indices.saturating_sub(1) as f64))
    }

    /// Returns the nanoseconds in which a node waits for rows of a constant in a farther space.
    fn fetched(&self, module: &Module, node: Node) -> f64 {
        let data = module.node(node);
        if transfer_of(&data.operator) != Some(Transfer::Rows) {
            return 0.0;
        }
        let far = data.string("from").and_then(|space| self.target.space(space));
        far.and_then(|far| self.rows_nanos(module, node, far)).map_or(UNKNOWN_NANOS, |nanos| nanos.0)
    }

    /// Returns the nanoseconds in which a node reads and writes the tensors that the plan places in
    /// farther spaces with a rate of access. The processor waits for them, so this time is in addition to
    /// the node's own.
    fn direct(&self, module: &Module, node: Node) -> f64 {
        let is_placed =
            module.plan.arenas.len() > 1 && self.target.spaces.iter().any(|space| space.access.is_some());
        if !is_placed || is_copied_aside(&module.node(node).operator) {
            return 0.0;
        }
        let mut nanos = 0.0;
        let rate = |value: Value| {
            let name = &module.plan.spaces[module.plan.storage[value]?.space].name;
            self.target.spaces.get(self.target.space(name)?)?.access
        };
        // An unknown size ends the sum: the node's own time is then a stated bound.
        _ = accesses(module, node, |value, bytes| {
            nanos += rate(value).map_or(0.0, |rate| bytes as f64 / rate * 1e9)
        });
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

    /// Returns the mean relative error of the modelled times of the main graph, weighted by time; `None` if
    /// the target is not calibrated, or a profile states the times. A kind without a line counts with an
    /// error of 1.
    pub fn error(&self, module: &Module) -> Option<f64> {
        let lines = &self.target.machine.lines;
        if lines.is_empty() || self.measured.is_some() {
            return None;
        }
        let (mut sum, mut all) = (0.0, 0.0);
        for node in &module.graph(module.main()).nodes {
            let nanos = self.nanos(module, *node).0;
            sum += nanos * lines.of(KernelKind::of(module, *node)).map_or(1.0, |line| line.error);
            all += nanos;
        }
        (all > 0.0).then(|| sum / all)
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
