//! The module at several points of its domain, at which all extents are numbers: rules of operators read
//! numbers, and their answer counts if it is equal at all points.

use memc_ir::{Dim, Module, Node};
use memc_ops::Typed;

/// Copies of a module at points of its domain; none if its extents are known.
#[derive(Debug, Default)]
pub(super) struct Probes {
    modules: Vec<Module>,
}

impl Probes {
    /// Makes the copies. Linear in the values of the module.
    pub(super) fn of(module: &Module) -> Self {
        let points = if module.domain().is_empty() { Vec::new() } else { module.domain().probes() };
        Self { modules: points.iter().map(|point| module.at(point)).collect() }
    }

    /// Returns the answer of a rule about a node of the module, if it is equal for all extents.
    pub(super) fn agreed<T: PartialEq>(&self, module: &Module, node: Node, rule: impl Fn(Typed<'_>) -> Option<T>) -> Option<T> {
        let Some((first, others)) = self.modules.split_first() else { return rule(Typed::of(module, node)) };
        if pads_depend_on_extents(module, node) {
            return None;
        }
        let found = rule(Typed::of(first, node))?;
        others.iter().all(|other| rule(Typed::of(other, node)).as_ref() == Some(&found)).then_some(found)
    }
}

/// Returns whether the pads of a node follow from extents that are not known.
fn pads_depend_on_extents(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let is_automatic = data.string("auto_pad").is_some_and(|pad| pad.starts_with("SAME"));
    let shape = data.operands().next().and_then(|image| module.ty(image).tensor()?.shape.as_deref());
    is_automatic && shape.unwrap_or_default().iter().skip(2).any(|dim| !matches!(dim, Dim::Known(_)))
}
