//! Steps with nothing to do in a run: their results are constants or views of operands in place.

use memc_layout::Class;

use crate::stage::Stage;
use crate::step::{Kind, Step};

/// Marks steps whose results are constants, and steps whose results, according to the layout's views,
/// are already in place.
pub(crate) fn find_skips(stage: &Stage<'_>, steps: &mut [Step<'_>]) {
    for step in steps {
        let is_constant = |slot: &usize| stage.places.slots[*slot].class == Some(Class::Constant);
        if !step.outputs.is_empty() && step.outputs.iter().all(is_constant) {
            step.kind = Kind::Constant;
        } else if !step.has_bodies && (reads_in_place(stage, step) || is_assembled(stage, step)) {
            step.kind = Kind::Skip;
        }
    }
}

fn are_related(stage: &Stage<'_>, one: usize, other: usize) -> bool {
    one != other && stage.places.view_root(one) == stage.places.view_root(other)
}

/// Whether every result is inside an operand that it is a view of.
fn reads_in_place(stage: &Stage<'_>, step: &Step<'_>) -> bool {
    let inside = |output: &usize| {
        let Some((start, end)) = stage.span(*output) else { return false };
        step.inputs.iter().any(|input| {
            let covers = stage.span(*input).is_some_and(|(from, to)| from <= start && end <= to);
            covers && are_related(stage, *input, *output)
        })
    };
    !step.outputs.is_empty() && step.outputs.iter().all(inside)
}

/// Whether the only result consists of operands that are views of it, without a gap.
fn is_assembled(stage: &Stage<'_>, step: &Step<'_>) -> bool {
    let [output] = step.outputs[..] else { return false };
    let Some((start, end)) = stage.span(output) else { return false };
    let mut parts = Vec::new();
    for input in &step.inputs {
        match stage.span(*input) {
            Some((from, to)) if are_related(stage, *input, output) && start <= from && to <= end => {
                parts.push((from, to))
            }
            _ => return false,
        }
    }
    parts.sort_unstable();
    let mut at = start;
    parts.iter().all(|(from, to)| std::mem::replace(&mut at, *to) == *from) && at == end && !parts.is_empty()
}
