//! Checks the interface of the model: inputs, their defaults, and outputs must not change.

use std::collections::BTreeSet;

use memc_ir::{DimExpr, Value};

use crate::caches;
use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};
use crate::side::Known;

/// Compares graph inputs and outputs of the two models.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let (given, out) = (ctx.given, ctx.out);
    let (before, after) = (given.module.graph(given.module.main()), out.module.graph(out.module.main()));
    for (what, old, new) in
        [("input", &before.inputs, &after.inputs), ("output", &before.outputs, &after.outputs)]
    {
        let more = if what == "input" { caches::counts(ctx) } else { BTreeSet::new() };
        let added = new.iter().skip(old.len()).all(|value| more.contains(out.name(*value)));
        if old.len() + more.len() != new.len() || !added {
            let message =
                format!("the input model has {} {what}s, the output model has {}", old.len(), new.len());
            findings.add(Kind::Interface, At::default(), message);
        }
        for (position, (old, new)) in old.iter().zip(new).enumerate() {
            let (old_name, new_name) = (given.name(*old), out.name(*new));
            if old_name != new_name {
                let message =
                    format!("{what} {position} is `{new_name}`, but `{old_name}` in the input model");
                findings.add(Kind::Interface, At::tensor(new_name), message);
            } else if caches::is_buffer(ctx, new_name) {
                // The row of the cache states both types.
            } else if let Some(message) = changed(ctx, *old, *new) {
                findings.add(
                    Kind::Interface,
                    At::tensor(new_name),
                    format!("{what} `{new_name}`: {message}"),
                );
            }
        }
    }
}

fn changed(ctx: &Ctx<'_>, old: Value, new: Value) -> Option<String> {
    let (given, out) = (ctx.given, ctx.out);
    let (before, after) = (given.module.ty(old), out.module.ty(new));
    let differs = match (&given.known[old], &out.known[new]) {
        (Some(before), Some(after)) => {
            before != after && (out.is_input(new) || !are_equal(ctx, before, after))
        }
        // An output may have a more precise type in one of the models. An input may not.
        _ => out.is_input(new) && before != after,
    };
    if differs {
        return Some(format!("its type is {after}, but {before} in the input model"));
    }
    let default = |side: &crate::side::Side<'_>, value: Value| {
        side.module.value(value).default.map(|constant| side.module.constant(constant).clone())
    };
    let (before, after) = (default(given, old), default(out, new));
    let same = match (&before, &after) {
        (Some(before), Some(after)) => before.ty == after.ty && before.payload == after.payload,
        (None, None) => true,
        _ => false,
    };
    (!same).then(|| "its default differs from the input model's".to_owned())
}

/// Whether two types are provably equal for all extents of the free dimensions, although their texts differ:
/// inference can know more about one of two models.
fn are_equal(ctx: &Ctx<'_>, before: &Known, after: &Known) -> bool {
    let (Some(old), Some(new)) = (before.dim_exprs(), after.dim_exprs()) else { return false };
    let extents = ctx.out.extents;
    let is_equal = |(old, new): (&DimExpr, &DimExpr)| {
        old == new || (extents.in_order(old, new) && extents.in_order(new, old))
    };
    before.element == after.element && old.len() == new.len() && old.iter().zip(&new).all(is_equal)
}
