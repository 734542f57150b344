//! Compares the meaning of the two models: encoded values, recomputed copies, random operators, and
//! outputs.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Definition, Value};

use crate::Options;
use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::encodings;
use crate::findings::{At, Findings};
use crate::numbering::{Names, Numbering, Numbers};
use crate::report::Summary;
use crate::side::Side;

/// Checks encodings, recomputation and equivalence. Returns the number of nodes that recompute a value.
pub(crate) fn check(ctx: &Ctx<'_>, options: Options, findings: &mut Findings, summary: &mut Summary) -> u64 {
    let mut numbering = Numbering::default();
    let theirs = numbering.model(ctx.given, 0, Names { original: &|_| None, wide: &|_| None });
    let original = |value: Value| ctx.tensor_of[value].and_then(|index| ctx.tensor(index).recompute_of.as_deref());
    let ours = numbering.model(ctx.out, 1, Names { original: &original, wide: &|_| None });
    let pairs = encodings::pairs(ctx, findings);
    encodings::check(ctx, &pairs, &ours, findings);
    summary.encoded = pairs.len() as u64;
    // Number the values again, with rounded values in place of the wide ones.
    let rounded: BTreeMap<Value, Value> =
        pairs.iter().filter(|pair| !pair.is_exact()).map(|pair| (pair.decoded, pair.of)).collect();
    summary.rounded = rounded.len() as u64;
    let again = (!rounded.is_empty())
        .then(|| numbering.model(ctx.out, 1, Names { original: &original, wide: &|value| rounded.get(&value).copied() }));
    let near = again.as_ref().unwrap_or(&ours);
    let recomputed = copies(ctx, &theirs, near, findings);
    if options.equivalence {
        random(ctx, findings);
        outputs(ctx, options, &theirs, [&ours, near], findings, summary);
    }
    recomputed
}

fn copies(ctx: &Ctx<'_>, theirs: &Numbers, ours: &Numbers, findings: &mut Findings) -> u64 {
    let out = ctx.out;
    let mut rows: BTreeSet<usize> = BTreeSet::new();
    for (index, tensor) in ctx.layout.tensors.iter().enumerate() {
        let Some(name) = &tensor.recompute_of else { continue };
        let (side, numbers) = match out.named.get(name).and_then(|value| out.producer[*value]) {
            Some(_) => (out, ours),
            None => (ctx.given, theirs),
        };
        let copy = ctx.value_of[index].and_then(|value| Some((value, out.producer[value]?)));
        rows.extend(copy.map(|(_, row)| row));
        let source = side.named.get(name).and_then(|value| Some((*value, side.producer[*value]?)));
        let (Some((value, row)), Some((first, source)), true) = (copy, source, tensor.name != *name) else {
            let message = format!("`{}` cannot recompute `{name}`, which is not a result of another node", tensor.name);
            findings.add(Kind::RecomputeOp, At::tensor(&tensor.name), message);
            continue;
        };
        let step = ctx.step_of[row];
        let at = At::node(step, ctx.node_at(step)).of(&tensor.name);
        if out.unrepeatable(row) {
            let message =
                format!("step {step}: `{}` recomputes `{name}`, but {} may not run again", tensor.name, out.operator(row));
            findings.add(Kind::RecomputeRandom, at, message);
        }
        let (copy, original) = (&ours.parts[row], &numbers.parts[source]);
        if copy.head != original.head || position(out, value) != position(side, first) {
            let message = format!(
                "step {step}: `{}` is not the operator, attributes and result of `{}`, which computes `{name}`",
                ctx.node_at(step),
                side.node_name(source)
            );
            findings.add(Kind::RecomputeOp, at, message);
        } else if copy.operands != original.operands {
            let message =
                format!("step {step}: `{}` does not read the values that `{}` reads", ctx.node_at(step), side.node_name(source));
            findings.add(Kind::RecomputeOperand, at, message);
        }
    }
    rows.len() as u64
}

fn position(side: &Side<'_>, value: Value) -> Option<u32> {
    match side.module.value(value).definition {
        Definition::Result(_, position) => Some(position),
        _ => None,
    }
}

/// Checks that random and stateful operators do not run more often than in the input model.
fn random(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    for row in 0..ctx.given.rows.len() {
        if ctx.given.unrepeatable(row) {
            *left.entry(ctx.given.operator(row)).or_default() += 1;
        }
    }
    for (step, row) in ctx.order.iter().enumerate() {
        if !ctx.out.unrepeatable(*row) {
            continue;
        }
        let operator = ctx.out.operator(*row);
        match left.get_mut(&operator) {
            Some(count) if *count > 0 => *count -= 1,
            _ => {
                let name = ctx.node_at(step);
                let message = format!("step {step}: `{name}` ({operator}) runs more often than in the input model");
                findings.add(Kind::RandomTwice, At::node(step, name), message);
            }
        }
    }
}

/// Compares the outputs by two numberings of the output model: the first tells equal outputs, the second
/// also outputs that differ by rounded values alone.
fn outputs(
    ctx: &Ctx<'_>,
    options: Options,
    theirs: &Numbers,
    [ours, near]: [&Numbers; 2],
    findings: &mut Findings,
    summary: &mut Summary,
) {
    let before = &ctx.given.module.graph(ctx.given.module.main()).outputs;
    let after = &ctx.out.module.graph(ctx.out.module.main()).outputs;
    let changed = |numbers: &Numbers| -> Vec<String> {
        let pairs = before.iter().zip(after).filter(|(old, new)| theirs.values[**old] != numbers.values[**new]);
        pairs.map(|(old, _)| ctx.given.name(*old).to_owned()).collect()
    };
    let (unequal, rewritten) = (changed(ours), changed(near));
    if options.exact && !unequal.is_empty() {
        let message = format!("not provably equal to the input model's outputs: {}", listed(&unequal));
        findings.add(Kind::Rewritten, At::tensor(&unequal[0]), message);
    }
    if !options.exact && !rewritten.is_empty() {
        findings.remark(format!("rewritten: needs numeric comparison: {}", listed(&rewritten)));
    }
    let rounded: Vec<String> = unequal.iter().filter(|name| !rewritten.contains(name)).cloned().collect();
    if !options.exact && !rounded.is_empty() {
        findings.remark(format!("computed from rounded values: needs numeric comparison: {}", listed(&rounded)));
    }
    summary.rewritten_outputs = unequal;
}

/// Lists the first names, and the number of the others.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
