//! Collects violations and remarks while the checks run.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Diagnostic, Severity};

use crate::codes::Kind;

/// Maximum number of violations that are kept. A layout that is wrong throughout needs no more.
pub const MAX_VIOLATIONS: usize = 10_000;

/// A contradiction of the layout with the models, with the contract, or with itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Kind of the contradiction.
    pub kind: Kind,
    /// Tensor that the violation refers to.
    pub tensor: Option<String>,
    /// Step that the violation refers to.
    pub step: Option<u64>,
    /// Code, message and node, for printing.
    pub diagnostic: Diagnostic,
}

/// Place that a violation refers to.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct At<'a> {
    tensor: Option<&'a str>,
    step: Option<usize>,
    node: Option<&'a str>,
}

impl<'a> At<'a> {
    pub(crate) fn tensor(tensor: &'a str) -> Self {
        Self { tensor: Some(tensor), ..Self::default() }
    }
    pub(crate) fn node(step: usize, node: &'a str) -> Self {
        Self { tensor: None, step: Some(step), node: Some(node) }
    }
    pub(crate) fn of(mut self, tensor: &'a str) -> Self {
        self.tensor = Some(tensor);
        self
    }
}

/// Formats a number of bytes with separators and unit.
pub(crate) fn exact(bytes: u64) -> String {
    Bytes(bytes).exact()
}

/// Violations and remarks so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    violations: Vec<Violation>,
    counts: BTreeMap<&'static str, u64>,
    remarks: Vec<String>,
}

impl Findings {
    /// Adds a violation.
    pub(crate) fn add(&mut self, kind: Kind, at: At<'_>, message: String) {
        *self.counts.entry(kind.name()).or_default() += 1;
        if self.violations.len() >= MAX_VIOLATIONS {
            return;
        }
        let mut diagnostic = Diagnostic::new(kind.code(), Severity::Error, message);
        diagnostic.onnx_node = at.node.map(str::to_owned);
        let (tensor, step) = (at.tensor.map(str::to_owned), at.step.map(|step| step as u64));
        self.violations.push(Violation { kind, tensor, step, diagnostic });
    }
    /// Adds a remark.
    pub(crate) fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }
    /// Whether there are no violations so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.violations.is_empty()
    }
    /// Whether the maximum number of violations is reached.
    pub(crate) fn full(&self) -> bool {
        self.violations.len() >= MAX_VIOLATIONS
    }
    /// Returns the number of violations by kind, including violations that were not kept.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }
    /// Returns violations and remarks.
    pub(crate) fn finish(self) -> (Vec<Violation>, Vec<String>) {
        (self.violations, self.remarks)
    }
}
