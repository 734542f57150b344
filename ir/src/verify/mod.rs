//! The verifier: checks the conditions of each stage. It collects all violations and never changes the
//! module.
//!
//! # Checks
//!
//! **Imported**: structure.
//! - Ids: every id in a graph, a node, a value or the plan refers to an existing entity (E0201). A
//!   violation ends the verification.
//! - Graphs: the main graph has no parent. Every body occurs in exactly one attribute, its parent is
//!   the node with that attribute, and bodies nest at most 64 levels (E0205). Each node
//!   in a node list is there only once, in the list of its own graph, and not erased (E0206). A
//!   violation ends the verification.
//! - Definitions: a value is defined once, and its definition matches the lists: its position among the
//!   inputs, its constant in the list of initializers, or its position among the results of its node
//!   (E0202).
//! - Order and scopes: each value that a node reads, or that a graph returns, is defined in that graph
//!   or an enclosing graph: by an input, an initializer, or an earlier node. A body reads at the step
//!   of its parent node (E0203).
//! - Names: every value has a name, unique in its graph. No body defines a name that hides a value
//!   which the body reads (E0204).
//! - The original of a recomputed copy is in the graph of the copy, or earlier in an enclosing graph,
//!   and has a result (E0207).
//!
//! **Typed**: also constants, as far as their types are known.
//! - The number of raw bytes is the size of the type (E0211).
//! - The types of initializers and of defaults of inputs agree with their constants (E0212). The
//!   verifier does not derive result types; the operator table does.
//!
//! **Scheduled**: no additional checks. The order that *Imported* requires is now the schedule.
//!
//! **Planned**: also memory, against live ranges that the verifier derives from the order alone.
//! - Spaces have different names and an alignment of at least 1 (E0245).
//! - Aliases: no cycles. An alias shares bytes with a value of its own graph; a view may also share
//!   with an earlier value of an enclosing graph (E0230). Its bytes are inside those of the shared
//!   value (E0231).
//! - In place: the value is a result of a node that has the overwritten value as an operand, and both
//!   have one known size. The owner is not a constant, not an input outside the arena, and is in the
//!   graph of the value. No other value that shares the overwritten bytes is read after the node or
//!   defined by it; aliases of the result are exempt (E0232).
//! - Storage: the size of an owner is known and its offset is a multiple of the alignment (E0240,
//!   E0246). An owner ends inside the arena, or in a body inside the scratch of the body's node
//!   (E0241). Two owners that are live at one step do not overlap, scratch included (E0242). The offset
//!   of an alias is its owner's offset plus its own; an alias has no storage if its owner has none
//!   (E0243). The size of an arena is exactly the end of its contents, and not below its lower bound
//!   (E0244). Scratch of a main-graph node has storage (E0246).
//!
//! # Live ranges
//! A value is live from the step that defines it (0 for inputs and constants) to one past the last step
//! that reads it, at least for one step. A result of the graph is live to the end of the graph. An
//! owner is live from the first to the last step at which it or one of its aliases is live.
//!
//! # Cost
//! `O(n log n)` in the number of nodes, operands and values, plus the number of overlaps found. At most
//! 100 overlaps are reported per space.

mod alias;
mod constant;
mod id;
mod in_place;
mod live;
mod overlap;
mod scope;
mod storage;
mod structure;
#[cfg(test)]
mod tests;

use crate::diagnostic::{Diagnostic, Severity};
use crate::entity::{Node, Value};
use crate::module::{Module, Stage};

/// Maximum number of collected violations: a longer list has no use.
const MAX_VIOLATIONS: usize = 1000;

/// Proof that a module passed verification at a stage; only [`verify`] creates it.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'m> {
    module: &'m Module,
    stage: Stage,
}

impl<'m> Verified<'m> {
    /// The verified module.
    pub fn module(self) -> &'m Module {
        self.module
    }
    /// The stage whose conditions hold.
    pub fn stage(self) -> Stage {
        self.stage
    }
}

/// Checks the conditions of `stage` and of all earlier stages; [`Module::stage`] is ignored.
///
/// # Errors
/// All violations, in a fixed order, at most 1000.
pub fn verify(module: &Module, stage: Stage) -> Result<Verified<'_>, Vec<Diagnostic>> {
    let mut report = Report { module, violations: Vec::new() };
    check(&mut report, stage);
    if report.violations.is_empty() { Ok(Verified { module, stage }) } else { Err(report.violations) }
}

fn check(report: &mut Report<'_>, stage: Stage) {
    let module = report.module;
    id::check(report);
    if !report.violations.is_empty() {
        return;
    }
    let Some(tree) = structure::check(report) else { return };
    structure::check_definitions(report, &tree);
    scope::check(report, &tree);
    if stage >= Stage::Typed {
        constant::check(report, &tree);
    }
    if stage >= Stage::Planned {
        storage::check_spaces(report);
        let ranges = live::derive(module, &tree);
        let owners = alias::check(report, &tree);
        in_place::check(report, &tree, &ranges, &owners);
        storage::check(report, &tree, &ranges, &owners);
    }
}

/// Collects violations.
struct Report<'m> {
    module: &'m Module,
    violations: Vec<Diagnostic>,
}

impl Report<'_> {
    fn push(&mut self, make: impl FnOnce(&Module) -> Diagnostic) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(make(self.module));
        }
    }
    fn plain(&mut self, code: &'static str, message: String) {
        self.push(|_| Diagnostic::new(code, Severity::Error, message));
    }
    fn at_node(&mut self, code: &'static str, node: Node, message: String) {
        self.push(|module| Diagnostic::new(code, Severity::Error, message).at_node(module, node));
    }
    fn at_value(&mut self, code: &'static str, value: Value, message: String) {
        self.push(|module| Diagnostic::new(code, Severity::Error, message).at_value(module, value));
    }
    /// The name of a value, as in the text form.
    fn name(&self, value: Value) -> String {
        format!("`%{}`", self.module.value(value).name)
    }
}
