//! Numbers of functions that follow themselves. The lists are the check's own.

use super::{Numbering, Part};
use crate::side::Side;

/// Functions that change nothing the second time.
const SETTLED: [&str; 6] = ["Abs", "Ceil", "Floor", "Relu", "Round", "Sign"];
/// Functions that undo themselves; Neg is followed with the signs of products.
const UNDONE: [&str; 2] = ["BitwiseNot", "Not"];

impl<'s> Numbering<'s> {
    /// Returns the number of a function of its own result; `None` for other results.
    pub(super) fn repeated(&self, side: &Side<'s>, row: usize, part: &Part) -> Option<u32> {
        let operand = *part.operands.first()?;
        let (head, base) = *self.applied.get(&operand)?;
        (head == part.head).then(|| if is_one_of(side, row, &SETTLED) { operand } else { base })
    }

    /// Notes the result of a function that may follow itself.
    pub(super) fn note_applied(&mut self, side: &Side<'s>, row: usize, (number, part): (u32, &Part)) {
        let Some(operand) = part.operands.first() else { return };
        if is_one_of(side, row, &SETTLED) || is_one_of(side, row, &UNDONE) {
            self.applied.entry(number).or_insert((part.head, *operand));
        }
    }
}

fn is_one_of(side: &Side<'_>, row: usize, names: &[&str]) -> bool {
    let operator = &side.module.node(side.rows[row].node).operator;
    operator.domain.is_empty() && names.contains(&&*operator.name)
}
