//! What a check says: violations, remarks, and the numbers that it derived itself.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::findings::Violation;

/// Everything that a check found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Contradictions, in the order of the checks; empty for a plan that holds.
    pub violations: Vec<Violation>,
    /// What is worth knowing but contradicts nothing, one sentence each.
    pub remarks: Vec<String>,
    /// Numbers that the check derived.
    pub summary: Summary,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Numbers that a check derived from the files. All sizes are bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// How many violations of each kind were found.
    pub violations: BTreeMap<String, u64>,
    /// Each space that has an arena or holds a tensor.
    pub spaces: BTreeMap<String, SpaceSummary>,
    /// Bytes of all constants.
    pub weights: u64,
    /// The input model under the same rules.
    pub baseline: BaselineSummary,
    /// Nodes of the input model.
    pub nodes_before: u64,
    /// Nodes of the output model.
    pub nodes: u64,
    /// Nodes that compute something a second time.
    pub recomputed_nodes: u64,
    /// Nodes that only pin a runtime's order.
    pub anchors: u64,
    /// Nodes of the output model beyond those of the input, recomputed ones, transfers and anchors; negative where nodes went.
    pub extra_nodes: i64,
    /// Entries of `tensors`.
    pub tensors: u64,
    /// Tensors that are views.
    pub views: u64,
    /// Tensors that overwrite an operand.
    pub in_place: u64,
    /// Values that are carried across runs.
    pub states: u64,
    /// Pairs of transfers.
    pub transfers: u64,
    /// Bytes moved, each pair once.
    pub transferred_bytes: u64,
    /// Values whose size nobody knows.
    pub unplanned: u64,
    /// Tensors whose shape only the layout states.
    pub unverified_shapes: u64,
    /// Constants outside the model file, compared by where they lie.
    pub external_constants: u64,
    /// Graph outputs that are not provably what the input model computes.
    pub rewritten_outputs: Vec<String>,
}

/// What was derived of one space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SpaceSummary {
    /// Arena size as the tensors imply it.
    pub arena: u64,
    /// Most bytes live at one step.
    pub peak: u64,
    /// First step at which that is so.
    pub peak_step: u64,
    /// No placement is smaller: live bytes at one step, live ranges as derived.
    pub placement_bound: u64,
    /// No order of these nodes has a lower peak, as far as what surely lives at one of them shows it; 0 where something is recomputed or moved.
    pub order_bound: u64,
}

/// The peak of the input model in file order, derived in three ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BaselineSummary {
    /// What the layout claims, over all spaces.
    pub claimed: u64,
    /// What the layout claims with all workspace; 0 where it claims nothing.
    pub claimed_own: u64,
    /// With every result aliased that can be a view of an operand, and the workspace that the layout gives to nodes of the same name.
    pub derived: u64,
    /// No choice of views gives less.
    pub least: u64,
    /// No choice of views gives more.
    pub most: u64,
    /// The same with values whose sizes the user says.
    pub most_own: u64,
}
