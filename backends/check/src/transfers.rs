//! Checks transfers: pairs of nodes, and the steps between them at which the near copy must not exist.

use std::collections::BTreeSet;

use memc_layout::Transfer;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::side::TRANSFER_DOMAIN;

/// Checks all rows of `transfers`, and that every transfer node belongs to a row.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    functions(ctx, findings);
    let links: BTreeSet<(&str, &str)> =
        ctx.layout.target.links.iter().map(|link| (link.from.as_str(), link.to.as_str())).collect();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    for row in &ctx.layout.transfers {
        let Some((store, load, far)) = pair(ctx, row) else {
            let message = format!(
                "`{}` -> `{}`: steps {} and {} are not their SwapOut and SwapIn",
                row.tensor, row.result, row.store_step, row.load_step
            );
            findings.add(Kind::TransferNodes, At::tensor(&row.tensor), message);
            continue;
        };
        seen.extend([store, load]);
        places(ctx, row, far, &links, findings);
        away(ctx, row, store, load, findings);
    }
    for step in (0..ctx.steps()).filter(|step| ctx.out.is_transfer(ctx.order[*step]) && !seen.contains(step))
    {
        let name = ctx.node_at(step);
        findings.add(
            Kind::TransferMissing,
            At::node(step, name),
            format!("step {step}: `{name}` is in no row of `transfers`"),
        );
    }
}

/// Returns the steps of store and load, and the entry of the far copy, if any. `None` if the nodes do
/// not match the row.
fn pair(ctx: &Ctx<'_>, row: &Transfer) -> Option<(usize, usize, Option<usize>)> {
    let store = usize::try_from(row.store_step).ok().filter(|step| *step < ctx.steps())?;
    let load = usize::try_from(row.load_step).ok().filter(|step| *step < ctx.steps() && store < *step)?;
    let node = |step: usize, name: &str| {
        let row = ctx.order[step];
        let data = ctx.out.module.node(ctx.out.rows[row].node);
        let fits = ctx.out.is_transfer(row)
            && &*data.operator.name == name
            && data.inputs.len() == 1
            && data.outputs.len() == 1;
        if fits { data.inputs[0].zip(data.outputs[0]) } else { None }
    };
    let (near, far) = node(store, "SwapOut")?;
    let (source, back) = node(load, "SwapIn")?;
    let fits = far == source && ctx.out.name(near) == row.tensor && ctx.out.name(back) == row.result;
    fits.then(|| (store, load, ctx.tensor_of[far]))
}

fn places(
    ctx: &Ctx<'_>,
    row: &Transfer,
    far: Option<usize>,
    links: &BTreeSet<(&str, &str)>,
    findings: &mut Findings,
) {
    let at = At::tensor(&row.tensor);
    let space = |index: Option<usize>| index.and_then(|index| ctx.tensor(index).space.as_deref());
    let near = ctx.named.get(row.tensor.as_str()).copied();
    let back = ctx.named.get(row.result.as_str()).copied();
    let (from, to) = (row.from.as_str(), row.to.as_str());
    if space(near) != Some(from) || space(far) != Some(to) || space(back) != Some(from) || from == to {
        let message = format!(
            "`{}` should move from `{from}` to `{to}` and back, but lies in {:?}, {:?} and {:?}",
            row.tensor,
            space(near),
            space(far),
            space(back)
        );
        findings.add(Kind::TransferSpace, at, message);
    }
    if !links.contains(&(from, to)) || !links.contains(&(to, from)) {
        let message = format!("the target has no links both ways between `{from}` and `{to}`");
        findings.add(Kind::TransferLink, at, message);
    }
    let bytes = near.map(|index| ctx.tensor(index).bytes);
    if bytes != Some(row.bytes) {
        let message = format!(
            "the transfer of `{}` states {}, not the size of the tensor",
            row.tensor,
            exact(row.bytes)
        );
        findings.add(Kind::TransferBytes, at, message);
    }
}

/// Checks that strictly between store and load no node reads the near copy or a view of it, and none of
/// them is live.
fn away(ctx: &Ctx<'_>, row: &Transfer, store: usize, load: usize, findings: &mut Findings) {
    let Some(near) = ctx.named.get(row.tensor.as_str()) else { return };
    for member in ctx.views_of(*near) {
        let tensor = ctx.tensor(*member);
        let readers = ctx.value_of[*member].map_or(&[][..], |value| &ctx.readers[value]);
        if let Some(step) = readers.iter().find(|step| store < **step && **step < load) {
            let name = ctx.node_at(*step);
            let message = format!(
                "step {step}: `{name}` reads `{}` while `{}` is in the far space",
                tensor.name, row.tensor
            );
            findings.add(Kind::TransferReader, At::node(*step, name).of(&tensor.name), message);
        }
        let kept =
            ctx.live[*member].iter().any(|(start, end)| *start < load as u64 && *end > store as u64 + 1);
        if kept {
            let message = format!(
                "`{}` is live between store {store} and load {load} of `{}`",
                tensor.name, row.tensor
            );
            findings.add(Kind::TransferLive, At::tensor(&tensor.name), message);
        }
    }
}

/// Checks that the model-local functions of transfer operators are identities: runtimes without
/// transfers run the functions.
fn functions(ctx: &Ctx<'_>, findings: &mut Findings) {
    for function in &ctx.out.file.model().functions {
        let name = function.name.as_deref().unwrap_or_default();
        if function.domain.as_deref() != Some(TRANSFER_DOMAIN) || !matches!(name, "SwapOut" | "SwapIn") {
            continue;
        }
        let passes = match function.node.as_slice() {
            [node] => {
                node.op_type.as_deref() == Some("Identity")
                    && matches!(node.domain.as_deref(), None | Some("" | "ai.onnx"))
                    && node.input == function.input
                    && node.output == function.output
            }
            _ => false,
        };
        if !passes {
            findings.add(
                Kind::TransferFunction,
                At::default(),
                format!("the function {name} does not return its operand unchanged"),
            );
        }
    }
}
