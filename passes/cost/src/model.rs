//! What passes ask for costs: a target, and what was measured.

use std::sync::Arc;

use memc_ir::{Bytes, Module, Nanos, Node};

use crate::measured::Measured;
use crate::target::Target;

/// Costs on one target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    /// The target.
    pub target: Target,
    /// What a runtime measured of the model; it takes the place of what is modelled.
    pub measured: Option<Arc<Measured>>,
}

impl CostModel {
    /// Time of a node; a node that computes something again takes as long as the first one.
    pub fn nanos(&self, module: &Module, node: Node) -> Nanos {
        match &self.measured {
            Some(measured) => measured.nanos(module, node, &self.target.machine),
            None => crate::node::nanos(module, node, &self.target.machine),
        }
    }

    /// Of the time of a node, what it takes to gather operand 0 for products: each of several nodes that share these products takes it again.
    pub fn gathering(&self, module: &Module, node: Node) -> Nanos {
        crate::node::gathering(module, node, &self.target.machine)
    }

    /// Time of the main graph, node after node.
    pub fn total_nanos(&self, module: &Module) -> Nanos {
        let nodes = &module.graph(module.main()).nodes;
        Nanos(nodes.iter().map(|node| self.nanos(module, *node).0).sum())
    }

    /// Workspace of a node as measured; `None` where it was not.
    pub fn workspace(&self, module: &Module, node: Node) -> Option<Bytes> {
        self.measured.as_ref().and_then(|measured| measured.workspace(module, node))
    }
}
