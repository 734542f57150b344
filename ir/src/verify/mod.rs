//! The verifier: what must hold of a module at each stage. It collects every violation and never changes anything.
//!
//! # What is checked
//!
//! **Imported** — structure.
//! - Ids: every id that a graph, node, value or the plan holds names something (E0201). If one does not, nothing else is checked.
//! - Graphs: the main graph has no parent; every body stands in exactly one attribute, its parent is the node of that attribute, and bodies
//!   nest at most 64 levels (E0205). A node stands in one list, once, in the graph that it names, and was not erased (E0206). If a list or
//!   a parent is wrong, nothing further is checked.
//! - Definitions: a value is defined once and where it says: at its position among the inputs, in the list of initializers with that
//!   constant, or at its position among the results of its node (E0202).
//! - Order and scopes: what a node or a graph's results read is defined in that graph or one around it: by an input, an initializer, or a
//!   node that comes earlier. A body reads at the step of its parent node (E0203).
//! - Names: no value is without one, none stands twice in a graph, and no body hides a value that it reads behind a name of its
//!   own (E0204).
//! - A node that computes another one's results again names a node that stands in its graph, or earlier in one around it, and has a
//!   result (E0207).
//!
//! **Typed** — also constants, as far as their types tell.
//! - Raw bytes are as many as the type takes (E0211).
//! - An initializer has its constant's type, and the default of an input fits the input's type (E0212). Whether a node's results have the
//!   types that its operator gives is the operator table's to say.
//!
//! **Scheduled** — nothing more is written down at this stage. The order that *Imported* demands is now the schedule.
//!
//! **Planned** — also memory, against live ranges that are derived here, from the order alone.
//! - Spaces have different names and an alignment of at least 1 (E0245).
//! - Aliases: no cycle; an alias shares with a value of its own graph (a view also with an earlier one of a graph around it) (E0230); its bytes lie
//!   inside what it shares (E0231).
//! - In place: the value is a result of a node that has the overwritten value as an operand; both have the same known size; the owner is no
//!   constant, no input that the arena does not hold, and of the same graph; and no other value that shares those bytes, the results of this
//!   value's own aliases aside, is read after that node or written by it (E0232).
//! - Places: an owner's size is known and its offset a multiple of the alignment (E0240, E0246); it ends inside the arena, or for a body inside the
//!   scratch of its node (E0241); two owners that are live at the same step do not overlap, scratch included (E0242); an alias lies at its owner's
//!   place plus its offset, or has no place if the owner has none (E0243); an arena is exactly as large as what lies in it, and not
//!   smaller than its bound (E0244); scratch of a node of the main graph has a place (E0246).
//!
//! # Live ranges
//! A value is live from the step that defines it (an input or a constant: from 0) to one past the last step that reads it, at least for one
//! step; a result of the graph, to its end. An owner is live from the first step at which it or an alias of it is to the last.
//!
//! # Cost
//! `O(n log n)` in the number of nodes, operands and values, plus the overlaps found, of which at most 100 a space are reported.

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

/// More violations than this are not collected: whoever made that module needs no longer list.
const MAX_VIOLATIONS: usize = 1000;

/// Proof that a module was verified at a stage; only [`verify`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'m> {
    module: &'m Module,
    stage: Stage,
}

impl<'m> Verified<'m> {
    /// The module.
    pub fn module(self) -> &'m Module {
        self.module
    }
    /// The stage whose conditions hold.
    pub fn stage(self) -> Stage {
        self.stage
    }
}

/// Checks everything that must hold at `stage` and the stages before it; [`Module::stage`] is not looked at.
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

/// The violations found so far.
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
    /// A value as the text form names it.
    fn name(&self, value: Value) -> String {
        format!("`%{}`", self.module.value(value).name)
    }
}
