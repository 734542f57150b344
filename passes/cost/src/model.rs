//! Cost model of the passes: a target, and optionally a runtime's measurements.

use std::sync::Arc;

use memc_ir::{Bytes, Module, Nanos, Node};

use crate::measured::Measured;
use crate::target::Target;

/// Costs on one target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    /// Description of the target.
    pub target: Target,
    /// Measurements of the model on a runtime; they replace modelled costs.
    pub measured: Option<Arc<Measured>>,
}

impl CostModel {
    /// Returns the time of a node; a recomputed copy takes as long as its original.
    pub fn nanos(&self, module: &Module, node: Node) -> Nanos {
        match &self.measured {
            Some(measured) => measured.nanos(module, node, &self.target.machine),
            None => crate::node::nanos(module, node, &self.target.machine),
        }
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

    /// Returns the measured workspace of a node; `None` without a measurement.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        self.measured.as_ref().and_then(|measured| measured.workspace(module, node))
    }
}
