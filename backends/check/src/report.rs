//! Result of a check: violations, remarks, and derived numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::findings::Violation;

/// Result of a check.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Contradictions, in the order of the checks; empty for a valid plan.
    pub violations: Vec<Violation>,
    /// Notable facts that contradict nothing, one sentence each.
    pub remarks: Vec<String>,
    /// Numbers that the check derived.
    pub summary: Summary,
}

impl Report {
    /// Whether there are no violations.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether all graph outputs are proven equal, outside the values that the layout names as rounded or
    /// rewritten.
    pub fn is_proven(&self) -> bool {
        self.summary.unproven_outputs.is_empty()
    }
}

/// Numbers that a check derived from the files. All sizes are bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of violations by kind.
    pub violations: BTreeMap<String, u64>,
    /// Numbers by space, for each space with an arena or a tensor.
    pub spaces: BTreeMap<String, SpaceSummary>,
    /// Bytes of all constants.
    pub weights: u64,
    /// Peaks of the input model under the plan's rules.
    pub baseline: BaselineSummary,
    /// Nodes of the input model.
    pub nodes_before: u64,
    /// Nodes of the output model.
    pub nodes: u64,
    /// Nodes that recompute a value.
    pub recomputed_nodes: u64,
    /// Nodes that only pin a runtime's order.
    pub anchors: u64,
    /// Nodes of the output model minus nodes of the input model, recomputed nodes, transfers and
    /// anchors. Negative if nodes were removed.
    pub extra_nodes: i64,
    /// Entries of `tensors`.
    pub tensors: u64,
    /// Tensors that are views.
    pub views: u64,
    /// Tensors that overwrite an operand.
    pub in_place: u64,
    /// Values that the caller carries from run to run.
    pub states: u64,
    /// Pairs of transfers.
    pub transfers: u64,
    /// Bytes moved; each pair of transfers counts once.
    pub transferred_bytes: u64,
    /// Values that lie in fewer bytes between two uses.
    pub encoded: u64,
    /// Encoded values that are rounded.
    pub rounded: u64,
    /// Values of unknown size.
    pub unplanned: u64,
    /// Tensors whose shape only the layout states.
    pub unverified_shapes: u64,
    /// Constants outside the model file, compared by their location.
    pub external_constants: u64,
    /// Graph outputs that are not provably equal to the input model's.
    pub rewritten_outputs: Vec<String>,
    /// Graph outputs that are not provably equal even if rounded values and, unless the plan promises equal
    /// bits, rewritten fragments count as equal.
    pub unproven_outputs: Vec<String>,
}

/// Numbers derived for one space. All sizes are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SpaceSummary {
    /// Arena size that follows from the placed tensors.
    pub arena: u64,
    /// Maximum of the bytes live at one step.
    pub peak: u64,
    /// First step with the peak.
    pub peak_step: u64,
    /// Lower bound of the arena size: live bytes at one step, with derived live ranges.
    pub placement_bound: u64,
    /// Lower bound of the peak over all orders of these nodes, from bytes that are surely live at one
    /// node's step. 0 if a node is recomputed or a tensor is moved.
    pub order_bound: u64,
}

/// Peak of the input model in file order, derived in three ways. All sizes are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BaselineSummary {
    /// Claimed by the layout, summed over all spaces.
    pub claimed: u64,
    /// Claimed by the layout with all workspace; 0 if the layout claims nothing.
    pub claimed_own: u64,
    /// Derived: every result that can be a view of an operand is one. Workspace comes from layout
    /// entries for nodes of equal name.
    pub derived: u64,
    /// Lower bound over all choices of views.
    pub least: u64,
    /// Upper bound over all choices of views.
    pub most: u64,
    /// Upper bound including values whose sizes the user gave.
    pub most_own: u64,
}
