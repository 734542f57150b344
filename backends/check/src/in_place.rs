//! Checks results that overwrite an operand.

use memc_ir::{NodeData, Value};
use memc_layout::Class;

use crate::codes::Kind;
use crate::ctx::{Ctx, is_callers};
use crate::findings::{At, Findings, exact};
use crate::side::Known;

/// Checks that the tensor at `index` may overwrite the tensor at `of`. `is_view`: the operator defines
/// the result as the operand's bytes.
pub(crate) fn check(ctx: &Ctx<'_>, index: usize, of: usize, is_view: bool, findings: &mut Findings) {
    let (tensor, source) = (ctx.tensor(index), ctx.tensor(of));
    let (Some(result), Some(operand)) = (ctx.value_of[index], ctx.value_of[of]) else { return };
    let offset = tensor.alias.as_ref().map_or(0, |alias| alias.alias_offset);
    if tensor.bytes != source.bytes || offset != 0 || !ctx.same_size(index, of) {
        let message = format!(
            "`{}` ({}) overwrites `{}` ({}) at byte {offset}",
            tensor.name,
            exact(tensor.bytes),
            source.name,
            exact(source.bytes)
        );
        findings.add(Kind::InPlaceBytes, At::tensor(&tensor.name), message);
    }
    let Some(row) = ctx.out.producer[result] else {
        let message = format!("`{}` is in place, but no node computes it", tensor.name);
        findings.add(Kind::InPlaceOperator, At::tensor(&tensor.name), message);
        return;
    };
    let step = ctx.step_of[row];
    let at = At::node(step, ctx.node_at(step)).of(&tensor.name);
    let data = ctx.out.module.node(ctx.out.rows[row].node);
    let legal = ctx.out.overwritable(row);
    let places: Vec<usize> = positions(data, operand);
    let element_wise = data.outputs.first().copied().flatten() == Some(result)
        && same_box(ctx.out.known[result].as_deref(), ctx.out.known[operand].as_deref())
        && places.iter().all(|position| legal.contains(position));
    if places.is_empty() || !(is_view || element_wise) {
        let message = format!(
            "step {step}: `{}` ({}) may not overwrite its operand `{}` with `{}`",
            data.name, data.operator, source.name, tensor.name
        );
        findings.add(Kind::InPlaceOperator, at, message);
    }
    other_operands(ctx, index, operand, data, &legal, at, findings);
    kept(ctx, of, step, at, findings);
}

fn positions(data: &NodeData, operand: Value) -> Vec<usize> {
    data.inputs
        .iter()
        .enumerate()
        .filter(|(_, input)| **input == Some(operand))
        .map(|(position, _)| position)
        .collect()
}

fn same_box(a: Option<&Known>, b: Option<&Known>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.dim_exprs() == b.dim_exprs() && a.element.bits() == b.element.bits())
}

/// Checks the node's other operands in the overwritten bytes: each must have the overwritten operand's
/// place, and the node must read it element by element.
fn other_operands(
    ctx: &Ctx<'_>,
    index: usize,
    operand: Value,
    data: &NodeData,
    legal: &[usize],
    at: At<'_>,
    findings: &mut Findings,
) {
    let tensor = ctx.tensor(index);
    for (position, input) in data.inputs.iter().enumerate() {
        let Some(other) = input.filter(|value| *value != operand).and_then(|value| ctx.tensor_of[value])
        else {
            continue;
        };
        let entry = ctx.tensor(other);
        let in_step = legal.contains(&position) && ctx.same_place(index, other);
        if ctx.bytes_meet(index, other) && !in_step {
            let message = format!(
                "`{}` overwrites part of `{}` before `{}` has read it",
                tensor.name, entry.name, data.name
            );
            findings.add(Kind::InPlaceOperand, at, message);
        }
    }
}

/// Reports an overwritten operand, or a view of the overwritten bytes, that is the caller's, a graph
/// output, or needed later.
fn kept(ctx: &Ctx<'_>, of: usize, step: usize, at: At<'_>, findings: &mut Findings) {
    for member in ctx.views_of(of) {
        let tensor = ctx.tensor(*member);
        if *member != of && tensor.offset.is_some() && !ctx.bytes_meet(of, *member) {
            continue;
        }
        let fixed = matches!(tensor.class, Class::Constant | Class::Output) || ctx_output(ctx, *member);
        if fixed || (is_callers(tensor.class) && tensor.offset.is_none()) {
            let message = format!(
                "step {step}: `{}` ({}) is overwritten, but must be kept",
                tensor.name,
                tensor.class.as_str()
            );
            findings.add(Kind::InPlaceCaller, at, message);
        }
        if let Some((_, end)) = ctx.derived[*member]
            && end > step as u64 + 1
        {
            let last = end - 1;
            let message = format!(
                "step {step}: `{}` ({}) is overwritten, but needed until step {last} (`{}`)",
                tensor.name,
                exact(tensor.bytes),
                ctx.node_at(last as usize)
            );
            findings.add(Kind::InPlaceReadLater, at, message);
        }
    }
}

/// Whether the tensor is a graph output of the model, regardless of its entry's class.
fn ctx_output(ctx: &Ctx<'_>, index: usize) -> bool {
    ctx.value_of[index].is_some_and(|value| ctx.out.is_output[value])
}
