//! Checks state: a result takes the storage of the value that it updates, and the caller holds that
//! storage.

use std::collections::BTreeSet;

use memc_ir::Value;
use memc_layout::{Class, Tensor};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};

/// Checks all rows of `state`.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for row in &ctx.layout.state {
        let at = At::tensor(&row.result);
        let mut refuse = |why: String| {
            let message = format!("`{}` cannot take the storage of `{}`: {why}", row.result, row.tensor);
            findings.add(Kind::State, at, message);
        };
        if !seen.insert(&row.tensor) || !seen.insert(&row.result) {
            refuse("another row names one of the two".to_owned());
            continue;
        }
        let entry = |name: &str| ctx.named.get(name).and_then(|index| Some((*index, ctx.value_of[*index]?)));
        match entry(&row.tensor).zip(entry(&row.result)) {
            None => refuse("one of the two is not a value with an entry".to_owned()),
            Some((old, new)) => pair(ctx, old, new, &mut refuse),
        }
    }
}

fn pair(ctx: &Ctx<'_>, old: (usize, Value), new: (usize, Value), refuse: &mut dyn FnMut(String)) {
    let ((old_index, old), (new_index, new)) = (old, new);
    let (state, result) = (ctx.tensor(old_index), ctx.tensor(new_index));
    // The caller must hold both tensors, and their types must agree.
    if state.class != Class::State || ctx.out.producer[old].is_some() {
        refuse("the graph input is not of class state".to_owned());
    }
    if state.offset.is_some() || result.offset.is_some() || state.alias.is_some() || result.alias.is_some() {
        refuse("the caller does not hold both".to_owned());
    }
    if ty(state) != ty(result) {
        refuse("their types differ".to_owned());
    }
    let Some(row) = ctx.out.producer[new].filter(|_| ctx.out.is_output[new]) else {
        return refuse("the new value is not a graph output that a node computes".to_owned());
    };
    let step = ctx.step_of[row];
    let data = ctx.out.module.node(ctx.out.rows[row].node);
    let first = data.outputs.first().copied().flatten() == Some(new);
    let element_wise = if first { ctx.out.overwritable(row) } else { Vec::new() };
    let updates = memc_ops::new_values(data);
    // No view of the old value may be needed once the result is written.
    for member in ctx.views_of(old_index) {
        let Some(value) = ctx.value_of[*member] else { continue };
        let name = &ctx.tensor(*member).name;
        if ctx.out.is_output[value] {
            refuse(format!("`{name}` is a graph output"));
        }
        if let Some(later) = ctx.readers[value].iter().find(|reader| **reader > step) {
            refuse(format!(
                "step {later} (`{}`) reads `{name}` after step {step} has written over it",
                ctx.node_at(*later)
            ));
        }
        let is_whole = ty(ctx.tensor(*member)) == ty(state);
        let may_overwrite = |position: usize| {
            let updated = updates.iter().any(|(result, operand)| {
                *operand == position && data.outputs.get(*result) == Some(&Some(new))
            });
            is_whole && (element_wise.contains(&position) || updated)
        };
        let reads = |(position, operand): (usize, &Option<Value>)| {
            *operand == Some(value) && !may_overwrite(position)
        };
        let captured = ctx.readers[value].contains(&step) && !data.inputs.contains(&Some(value));
        if captured || data.inputs.iter().enumerate().any(reads) {
            refuse(format!("step {step}, which writes it, still needs `{name}`"));
        }
    }
}

/// Returns the stated type of a tensor.
fn ty(tensor: &Tensor) -> (&str, &[u64], Option<&[String]>) {
    (&tensor.dtype, &tensor.shape, tensor.shape_expr.as_deref())
}
