//! Compares the meaning of the two models: encoded values, recomputed copies, random operators, and
//! outputs.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Definition, Value};
use memc_layout::Layout;

use crate::Options;
use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::encodings;
use crate::findings::{At, Findings};
use crate::flat;
use crate::numbering::{Moves, Names, Numbering, Numbers};
use crate::report::Summary;
use crate::scanned;
use crate::side::Side;

/// Option of a layout that promises equal bits.
const EXACT: &str = "exact";

/// Checks encodings, recomputation and equivalence. Returns the number of nodes that recompute a value.
pub(crate) fn check(ctx: &Ctx<'_>, options: Options, findings: &mut Findings, summary: &mut Summary) -> u64 {
    // The output model may have known bodies, too.
    let (flat, flat_out) = (flat::flat(ctx.given), flat::flat(ctx.out));
    let mut numbering = Numbering::default();
    let given = flat.as_ref().unwrap_or(ctx.given);
    let theirs = numbering.model(given, 0, Names { original: &|_| None, wide: &|_| None, fixed: &|_| None });
    let original =
        |value: Value| ctx.tensor_of[value].and_then(|index| ctx.tensor(index).recompute_of.as_deref());
    let ours = numbering.model(ctx.out, 1, Names { original: &original, wide: &|_| None, fixed: &|_| None });
    let pairs = encodings::pairs(ctx, findings);
    encodings::check(ctx, &pairs, &ours, findings);
    summary.encoded = pairs.len() as u64;
    // Number the values again, with rounded values in place of the wide ones.
    let rounded: BTreeMap<Value, Value> =
        pairs.iter().filter(|pair| !pair.is_exact()).map(|pair| (pair.decoded, pair.of)).collect();
    summary.rounded = rounded.len() as u64;
    let wide = |value: Value| rounded.get(&value).copied();
    let again = (!rounded.is_empty())
        .then(|| numbering.model(ctx.out, 1, Names { original: &original, wide: &wide, fixed: &|_| None }));
    let near = again.as_ref().unwrap_or(&ours);
    encodings::rounding(ctx, &pairs, near, &numbering.codec, findings);
    let recomputed = copies(ctx, given, &theirs, near, findings);
    let rewritten = rewrites(ctx, given, &theirs, findings);
    if options.equivalence {
        random(ctx, given, findings);
        let fixed = |value: Value| rewritten.get(&value).copied();
        let is_fixed = !rewritten.is_empty() && !is_exact(ctx);
        let names = Names { original: &original, wide: &wide, fixed: &fixed };
        let none = Names { wide: &|_| None, fixed: &|_| None, ..names };
        let beside = is_fixed.then(|| numbering.model(ctx.out, 1, names));
        let plain = [&ours, near, beside.as_ref().unwrap_or(near)];
        let out = flat_out.as_ref().unwrap_or(ctx.out);
        // Kernels may add in another order if there are fewer rows.
        let moved = || {
            let mut numbering = Numbering::moving(Moves::Any);
            let theirs =
                numbering.model(given, 0, Names { original: &|_| None, wide: &|_| None, fixed: &|_| None });
            let mut rewritten = rewrites(ctx, given, &theirs, &mut Findings::default());
            let number = |name: &str| given.named.get(name).map(|value| theirs.values[*value]);
            let scanned = scanned::proven(ctx, given, &pairs_of_rewrites(ctx.layout));
            rewritten.extend(scanned.into_iter().filter_map(|(name, value)| Some((value, number(&name)?))));
            let fixed = |value: Value| rewritten.get(&value).copied();
            let ours = numbering.model(out, 1, Names { fixed: &fixed, ..names });
            changed([given, out], &theirs, &ours)
        };
        let moved =
            if is_exact(ctx) || options.is_new { None } else { Some(&moved as &dyn Fn() -> Vec<String>) };
        match &flat_out {
            None => outputs(options, [given, ctx.out], &theirs, plain, moved, findings, summary),
            Some(out) => {
                let fixed = if is_fixed { names.fixed } else { none.fixed };
                let all = [none, Names { fixed: none.fixed, ..names }, Names { fixed, ..names }];
                let all = all.map(|names| numbering.model(out, 1, names));
                outputs(
                    options,
                    [given, out],
                    &theirs,
                    [&all[0], &all[1], &all[2]],
                    moved,
                    findings,
                    summary,
                );
            }
        }
    }
    recomputed
}

fn copies(ctx: &Ctx<'_>, given: &Side<'_>, theirs: &Numbers, ours: &Numbers, findings: &mut Findings) -> u64 {
    let out = ctx.out;
    let mut rows: BTreeSet<usize> = BTreeSet::new();
    for (index, tensor) in ctx.layout.tensors.iter().enumerate() {
        let Some(name) = &tensor.recompute_of else { continue };
        let (side, numbers) = match out.named.get(name).and_then(|value| out.producer[*value]) {
            Some(_) => (out, ours),
            None => (given, theirs),
        };
        let copy = ctx.value_of[index].and_then(|value| Some((value, out.producer[value]?)));
        rows.extend(copy.map(|(_, row)| row));
        let source = side.named.get(name).and_then(|value| Some((*value, side.producer[*value]?)));
        let (Some((value, row)), Some((first, source)), true) = (copy, source, tensor.name != *name) else {
            let message =
                format!("`{}` cannot recompute `{name}`, which is not a result of another node", tensor.name);
            findings.add(Kind::RecomputeOp, At::tensor(&tensor.name), message);
            continue;
        };
        let step = ctx.step_of[row];
        let at = At::node(step, ctx.node_at(step)).of(&tensor.name);
        if out.unrepeatable(row) {
            let message = format!(
                "step {step}: `{}` recomputes `{name}`, but {} may not run again",
                tensor.name,
                out.operator(row)
            );
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
            let message = format!(
                "step {step}: `{}` does not read the values that `{}` reads",
                ctx.node_at(step),
                side.node_name(source)
            );
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
fn random(ctx: &Ctx<'_>, given: &Side<'_>, findings: &mut Findings) {
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    for row in 0..given.rows.len() {
        if given.unrepeatable(row) {
            *left.entry(given.operator(row)).or_default() += 1;
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
                let message =
                    format!("step {step}: `{name}` ({operator}) runs more often than in the input model");
                findings.add(Kind::RandomTwice, At::node(step, name), message);
            }
        }
    }
}

/// Whether the plan promises equal bits: then nothing is taken as equal because the layout names it.
fn is_exact(ctx: &Ctx<'_>) -> bool {
    ctx.layout.options.get(EXACT).is_some_and(|text| text == "true")
}

/// Checks the rows of `rewrites`. Returns the number of each value that a fragment of the output model
/// computes in place of a value of the input model.
fn rewrites(
    ctx: &Ctx<'_>,
    model: &Side<'_>,
    theirs: &Numbers,
    findings: &mut Findings,
) -> BTreeMap<Value, u32> {
    let mut numbers = BTreeMap::new();
    for (number, row) in (1..).zip(&ctx.layout.rewrites) {
        let mut refuse = |name: &str, why: String| {
            findings.add(Kind::Rewrite, At::tensor(name), format!("fragment {}: {why}", row.window))
        };
        if row.window != number || row.rules.values().any(|uses| *uses == 0) {
            refuse("", format!("it is the fragment of row {number}, or a rule has no uses"));
        }
        for pair in &row.outputs {
            // A name of a body has no number of its own: rows are compared by `scanned`.
            if model.named.contains_key(&pair.given) && scanned::has_result(ctx.out, &pair.written) {
                continue;
            }
            let values = model.named.get(&pair.given).zip(ctx.out.named.get(&pair.written));
            let Some((given, written)) = values.filter(|(_, written)| ctx.out.producer[**written].is_some())
            else {
                refuse(
                    &pair.written,
                    format!("`{}` and `{}` are no results of the two models", pair.given, pair.written),
                );
                continue;
            };
            let known = model.known[*given].as_ref().zip(ctx.out.known[*written].as_ref());
            if known.is_some_and(|(given, written)| given != written) {
                refuse(
                    &pair.written,
                    format!("`{}` and `{}` have different types", pair.given, pair.written),
                );
                continue;
            }
            numbers.insert(*written, theirs.values[*given]);
        }
    }
    numbers
}

/// Returns the names of equal values that the layout states: of the input model, and of the output model.
fn pairs_of_rewrites(layout: &Layout) -> Vec<(&str, &str)> {
    let pairs = layout.rewrites.iter().flat_map(|row| &row.outputs);
    pairs.map(|pair| (pair.given.as_str(), pair.written.as_str())).collect()
}

/// Names the outputs whose numbers differ.
fn changed([given, out]: [&Side<'_>; 2], theirs: &Numbers, ours: &Numbers) -> Vec<String> {
    let before = &given.module.graph(given.module.main()).outputs;
    let after = &out.module.graph(out.module.main()).outputs;
    let pairs = before.iter().zip(after).filter(|(old, new)| theirs.values[**old] != ours.values[**new]);
    pairs.map(|(old, _)| given.name(*old).to_owned()).collect()
}

/// Compares the outputs by three numberings of the output model: the first tells equal outputs, the second
/// also outputs that differ by rounded values alone, the third those that differ by fragments, too. `moved`
/// names the outputs that differ even if nodes compute equal rows of larger results.
fn outputs(
    options: Options,
    [given, out]: [&Side<'_>; 2],
    theirs: &Numbers,
    [ours, near, beside]: [&Numbers; 3],
    moved: Option<&dyn Fn() -> Vec<String>>,
    findings: &mut Findings,
    summary: &mut Summary,
) {
    let beside_numbers = beside;
    let changed = |numbers: &Numbers| changed([given, out], theirs, numbers);
    let (unequal, rewritten, beside) = (changed(ours), changed(near), changed(beside));
    let unproven = match moved {
        Some(moved) if !beside.is_empty() => {
            moved().into_iter().filter(|name| beside.contains(name)).collect()
        }
        _ => beside.clone(),
    };
    let without = |names: &[String], others: &[String]| -> Vec<String> {
        names.iter().filter(|name| !others.contains(name)).cloned().collect()
    };
    if options.exact && !unequal.is_empty() {
        let message = format!("not provably equal to the input model's outputs: {}", listed(&unequal));
        findings.add(Kind::Rewritten, At::tensor(&unequal[0]), message);
    } else {
        let mut remark = |what: &str, names: &[String]| {
            if !names.is_empty() {
                findings.remark(format!("{what}: needs numeric comparison: {}", listed(names)));
            }
        };
        remark("rewritten by rules that `rewrites` names", &without(&rewritten, &beside));
        remark(
            "computed in parts, or for the rows that are read, which may round otherwise",
            &without(&beside, &unproven),
        );
        remark("rewritten, and not proven equal", &unproven);
        if let Some(first) =
            first_unequal([given, out], theirs, beside_numbers).filter(|_| !unproven.is_empty())
        {
            findings.remark(format!("the first value that is not proven equal: {first}"));
        }
        let mut remark = |what: &str, names: &[String]| {
            if !names.is_empty() {
                findings.remark(format!("{what}: needs numeric comparison: {}", listed(names)));
            }
        };
        remark("computed from rounded values", &without(&unequal, &rewritten));
    }
    summary.rewritten_outputs = unequal;
    summary.unproven_outputs = unproven;
}

/// Describes the first result of the output model that differs from the value of its name.
fn first_unequal([given, out]: [&Side<'_>; 2], theirs: &Numbers, ours: &Numbers) -> Option<String> {
    let differs = |value: &Value| {
        let before = given.named.get(out.name(*value));
        before.is_some_and(|before| theirs.values[*before] != ours.values[*value])
    };
    out.rows.iter().find_map(|row| {
        let data = out.module.node(row.node);
        Some(format!("`{}` ({})", out.name(data.results().find(differs)?), data.operator.name))
    })
}

/// Lists the first names, and the number of the others.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}
