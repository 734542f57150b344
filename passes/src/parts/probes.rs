//! The module at several points of its domain, at which all extents are numbers: rules of operators read
//! numbers, and their answer counts if it is equal at all points.

use std::collections::BTreeMap;

use memc_ir::{Dim, DimExpr, Module, Node};
use memc_ops::Typed;

/// Copies of a module at points of its domain; none if its extents are known.
#[derive(Debug, Default)]
pub struct Probes {
    at: Vec<(BTreeMap<String, u64>, Module)>,
}

impl Probes {
    /// Makes the copies. Linear in the values of the module.
    pub fn of(module: &Module) -> Self {
        let points = if module.domain().is_empty() { Vec::new() } else { module.domain().probes() };
        let at = |point: BTreeMap<String, u64>| {
            let copy = module.at(&point);
            (point, copy)
        };
        Self { at: points.into_iter().map(at).collect() }
    }

    /// Returns the answer of a rule about a node of the module, if it is equal for all extents.
    pub fn agreed<T: PartialEq>(
        &self,
        module: &Module,
        node: Node,
        rule: impl Fn(Typed<'_>) -> Option<T>,
    ) -> Option<T> {
        let Some(((_, first), others)) = self.at.split_first() else { return rule(Typed::of(module, node)) };
        if pads_depend_on_extents(module, node) {
            return None;
        }
        let found = rule(Typed::of(first, node))?;
        others.iter().all(|(_, other)| rule(Typed::of(other, node)).as_ref() == Some(&found)).then_some(found)
    }

    /// Returns the answer of a rule about the positions of an extent, if it is equal at all points where the
    /// extent, which the rule reads as well, is at least 2. `None` if there is no such point.
    ///
    /// With one position, or none, shares say nothing: one part computes what the node does, and the others
    /// compute nothing.
    pub fn agreed_of<T: PartialEq>(
        &self,
        module: &Module,
        node: Node,
        extent: &DimExpr,
        rule: impl Fn(Typed<'_>, u64) -> Option<T>,
    ) -> Option<T> {
        if pads_depend_on_extents(module, node) {
            return None;
        }
        let mut found = None;
        for (point, copy) in &self.at {
            let count = u64::try_from(extent.bind(point)?.as_constant()?).ok()?;
            if count < 2 {
                continue;
            }
            let own = rule(Typed::of(copy, node), count)?;
            if found.as_ref().is_some_and(|found| *found != own) {
                return None;
            }
            found = Some(own);
        }
        found
    }
}

/// Returns whether the pads of a node follow from extents that are not known.
fn pads_depend_on_extents(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let is_automatic = data.string("auto_pad").is_some_and(|pad| pad.starts_with("SAME"));
    let shape = data.operands().next().and_then(|image| module.ty(image).tensor()?.shape.as_deref());
    is_automatic && shape.unwrap_or_default().iter().skip(2).any(|dim| !matches!(dim, Dim::Known(_)))
}
