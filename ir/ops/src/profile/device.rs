//! Kernels of a device, for a runtime whose other nodes run on the CPU, between copies.

use memc_ir::{Attribute, ElementType, Operator};

use super::ort_empty::has;
use crate::size::{Counted, Formula, Size};

/// Names of operators, separated by spaces, by domain.
type Names = &'static [(&'static str, &'static str)];

/// Tables of a device's kernels.
#[derive(Debug)]
pub(crate) struct Device {
    /// Kernels by domain and by the element types of their first operand; no types stand for all. Names
    /// are separated by spaces.
    pub(super) registered: &'static [(&'static str, &'static [ElementType], &'static str)],
    /// Operators that no rule makes.
    pub(super) not_made: Names,
    /// Kernels that fail when they run, unless an attribute has this value: domain, name, attribute, value.
    pub(super) asks: &'static [(&'static str, &'static str, &'static str, &'static str)],
    /// Kernels that may write result 0 over operand 0.
    pub(super) in_place: Names,
    /// Workspace that follows from shapes, by operator.
    pub(super) workspace: &'static [(&'static str, &'static str, Formula)],
    /// Operators whose workspace a library of the device chooses.
    pub(super) chosen: Names,
}

impl Device {
    /// Whether the device has a kernel for an operator, for this element type of its first operand.
    pub(super) fn has_kernel(&self, operator: &Operator, element: ElementType) -> bool {
        self.registered.iter().any(|(domain, elements, list)| {
            let fits = elements.is_empty() || elements.contains(&element);
            fits && has(&[(domain, list)], &operator.domain, &operator.name)
        })
    }

    /// Whether the device has a kernel for an operator, for some element type.
    pub(super) fn may_have(&self, operator: &Operator) -> bool {
        self.registered
            .iter()
            .any(|(domain, _, list)| has(&[(domain, list)], &operator.domain, &operator.name))
    }

    /// Whether rules may make an operator for the device, with some attributes.
    pub(super) fn may_make(&self, operator: &Operator) -> bool {
        self.may_have(operator) && !has(self.not_made, &operator.domain, &operator.name)
    }

    /// Whether the kernel of an operator runs with these attributes.
    pub(super) fn runs_with(&self, operator: &Operator, attributes: &[(String, Attribute)]) -> bool {
        let is_asked = |attribute: &str, value: &str| {
            let found = attributes.iter().find(|(name, _)| name == attribute);
            matches!(found, Some((_, Attribute::String(text))) if &text[..] == value.as_bytes())
        };
        self.asks.iter().all(|(domain, name, attribute, value)| {
            **domain != *operator.domain || **name != *operator.name || is_asked(attribute, value)
        })
    }

    /// Whether the kernel of an operator may write result 0 over operand 0.
    pub(crate) fn is_in_place(&self, domain: &str, name: &str) -> bool {
        has(self.in_place, domain, name)
    }

    /// Returns the workspace of a node's kernel; `None` if a library of the device chooses it.
    pub(super) fn workspace(&self, node: &Counted<'_>) -> Option<Size> {
        let operator = &node.data().operator;
        let is_its = |(domain, name, _): &&(&str, &str, Formula)| {
            **domain == *operator.domain && **name == *operator.name
        };
        match self.workspace.iter().find(is_its) {
            Some((.., formula)) => formula(node),
            None => (!self.chooses(operator)).then_some(Size::from(0)),
        }
    }

    /// Whether a library of the device chooses the workspace of an operator's kernel.
    pub(super) fn chooses(&self, operator: &Operator) -> bool {
        has(self.chosen, &operator.domain, &operator.name)
    }
}
