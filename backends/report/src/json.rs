//! The summary of a plan as one JSON object, for scripts.

use memc_layout::{Layout, Owner, Solver, StatedBy};
use serde_json::{Value, json};

use crate::decisions::Decision;
use crate::encoded::{Encoded, encoded};
use crate::facts::{Facts, Gap, SpaceFacts};
use crate::limits::Row;
use crate::ranges;

/// Returns the summary of a plan: pretty JSON, keys sorted, one trailing newline. Sizes are bytes,
/// steps are positions in the schedule.
///
/// - `schema`: `memc.summary/1`; later versions may add keys, but no key changes its meaning.
/// - `space`, `peak`, `before`, `arena`, `bound`, `order_optimal`, `offsets_optimal`: numbers of the target's
///   first space, as in [`crate::summary_line`]; null if unknown.
/// - `spaces`: one object for each space in use, the target's first space first: `space`, `arena`,
///   `before|null`, `budget|null`, `capacity|null`, `order_optimal`, `offsets_optimal`, `gap|null` (fraction
///   of the bound),
///   `bound {placement, order|null, order_proved, placement_proved}|null`,
///   `peak {bytes, step, node|null, op|null}`, and `alive_at_peak`, largest first:
///   `[{tensor, class, bytes, share, offset, live [start, end), aliases, producer|null}]`.
/// - `weights`, `callers {inputs, outputs, state}`: bytes outside the arenas.
/// - `weights_before`: bytes of the input model's weights; 0 if the layout does not state them.
/// - `counts`: `nodes`, `nodes_before`, `tensors`, `views`, `in_place`, `recomputed_nodes`,
///   `transfers`, `scratch`, `anchors`, `subgraphs`; `unplanned` for values of unknown size, and
///   `without_size` for those of them that an arena would hold; `stated_by_file` and `stated_by_user`
///   for sizes that do not follow from the model.
/// - `at_most`: upper bound of the first space's bytes including values of unknown size. Null if there
///   are none, or if a value has no bound. Nothing is optimal if there are any.
/// - `cost`: `time_change|null` (fraction), `extra_flops`, `transferred_bytes`, `modelled_ns_before`,
///   `modelled_ns_after`, `modelled_error|null` (fraction), `overhead_lower_bound|null`.
/// - `solvers`: results of the searches, `[{pass, unit, value, lower_bound, proven, stop, effort}]`.
/// - `decisions`: recomputed and moved values, `[{way, tensor, again, step, bytes, freed [start,
///   end)|null, space, far|null, cost_ns|null, waited_ns, peak_there, peak_otherwise}]`. The bytes are
///   free at the freed steps. The maximum of live bytes at these steps is `peak_there`; it would be
///   `peak_otherwise` if the value had stayed.
/// - `encodings`: encoded values and weights by form, `[{form, exact, count, wide, encoded, saved,
///   error|null}]`, sizes in bytes. Weights have the forms `weights int8` and `weights int4`; their error
///   is the largest relative error of a matrix.
/// - `pareto`: `[{budget, arena, extra_ns, bound|null}]`.
/// - `state`: `[{tensor, result}]`, results that take the storage of the state that they update.
/// - `unpaired`: `[{result, candidates, reason}]`, outputs that may update state but share no storage,
///   if requested.
/// - `free`, only if a dimension is free: `ranges` and `limits` as in the layout, `at
///   [{dims, arena}]` (arenas of the first space by the formula, at corners of the ranges), and `buckets
///   [{dims, arena}]`.
/// - `model {input_sha256, output_sha256}`, `dims` (the only extents that the plan is valid for, by
///   name), `target`, `io`, `memc_version`.
pub fn json(layout: &Layout) -> String {
    written(summary(layout))
}

/// Returns the summary with the key `limits`: `[{name, space|null, bytes|null, before|null, limit|null,
/// exceeded}]`, a row for the arena of each space, and one for the weights.
pub fn json_with_limits(layout: &Layout, rows: &[Row]) -> String {
    let row = |row: &Row| {
        json!({"name": row.name, "space": row.space, "bytes": row.bytes, "before": row.before, "limit": row.limit,
            "exceeded": row.exceeds()})
    };
    let mut summary = summary(layout);
    if let Some(object) = summary.as_object_mut() {
        object.insert("limits".to_owned(), rows.iter().map(row).collect());
    }
    written(summary)
}

fn written(mut summary: Value) -> String {
    summary.sort_all_objects();
    format!("{summary:#}\n")
}

fn summary(layout: &Layout) -> Value {
    let facts = Facts::of(layout);
    let first = facts.first();
    let cost = &layout.cost;
    let stated = |by: StatedBy| layout.stated.iter().filter(|row| row.by == by).count();
    let mut summary = json!({
        "schema": "memc.summary/1",
        "memc_version": layout.memc_version,
        "model": {"input_sha256": layout.model.input_sha256, "output_sha256": layout.model.output_sha256},
        "dims": layout.model.dims,
        "target": layout.target.name,
        "io": layout.io.as_str(),
        "space": first.map(|space| space.profile.space.as_str()),
        "peak": first.map(|space| space.profile.peak),
        "at_most": first.and_then(|space| space.at_most),
        "before": first.and_then(|space| space.before),
        "arena": first.map(|space| space.arena),
        "bound": first.and_then(|space| space.bound).map(|bound| bound.placement),
        "order_optimal": first.is_some_and(|space| space.gap() == Gap::Closed { order: true }),
        "offsets_optimal": first.is_some_and(|space| matches!(space.gap(), Gap::Closed { .. })),
        "spaces": facts.spaces.iter().map(|space| space_value(&facts, space)).collect::<Vec<_>>(),
        "weights": layout.weights,
        "weights_before": layout.baseline.weights,
        "callers": {"inputs": facts.callers.inputs, "outputs": facts.callers.outputs, "state": facts.callers.state},
        "counts": {
            "nodes": layout.schedule.len(),
            "nodes_before": cost.nodes_before,
            "tensors": layout.tensors.len(),
            "views": facts.counts.views,
            "in_place": facts.counts.in_place,
            "recomputed_nodes": cost.recomputed_nodes,
            "transfers": layout.transfers.len(),
            "scratch": facts.counts.scratch,
            "anchors": facts.counts.anchors,
            "subgraphs": layout.subgraphs.len(),
            "unplanned": layout.unplanned.len(),
            "without_size": facts.open,
            "stated_by_file": stated(StatedBy::File),
            "stated_by_user": stated(StatedBy::User),
        },
        "cost": {
            "time_change": facts.time_change(),
            "extra_flops": cost.extra_flops,
            "transferred_bytes": cost.transferred_bytes,
            "modelled_ns_before": cost.modelled_ns_before,
            "modelled_ns_after": cost.modelled_ns_after,
            "modelled_error": cost.modelled_error, "overhead_lower_bound": cost.overhead_lower_bound,
        },
        "solvers": layout.solvers.iter().map(|solver| solver_value(solver, facts.open)).collect::<Vec<_>>(),
        "decisions": facts.decisions.iter().map(|decision| decision_value(layout, decision)).collect::<Vec<_>>(),
        "encodings": encoded(layout).iter().map(encoded_value).collect::<Vec<_>>(),
        "pareto": layout.pareto,
        "state": layout.state,
        "unpaired": layout.unpaired,
    });
    if let Some(object) = summary.as_object_mut().filter(|_| !layout.model.ranges.is_empty()) {
        object.insert("free".to_owned(), ranges::object(layout));
    }
    summary
}

fn solver_value(solver: &Solver, open: usize) -> Value {
    json!({
        "pass": solver.pass,
        "unit": solver.unit,
        "value": solver.value,
        "lower_bound": solver.lower_bound,
        "proven": open == 0 && solver.value <= solver.lower_bound,
        "stop": solver.stop,
        "effort": solver.effort,
    })
}

fn decision_value(layout: &Layout, decision: &Decision<'_>) -> Value {
    json!({
        "way": decision.way.as_str(),
        "tensor": decision.tensor,
        "again": layout.tensors.get(decision.again).map(|tensor| tensor.name.as_str()),
        "step": decision.step,
        "bytes": decision.bytes,
        "freed": decision.freed,
        "space": decision.space,
        "far": decision.far,
        "cost_ns": decision.cost_ns,
        "waited_ns": decision.waited_ns,
        "peak_there": decision.peak_there,
        "peak_otherwise": decision.peak_otherwise,
    })
}

fn encoded_value(form: &Encoded<'_>) -> Value {
    json!({
        "form": form.form,
        "exact": form.exact,
        "count": form.count,
        "wide": form.wide,
        "encoded": form.code,
        "saved": form.saved(),
        "error": form.error,
    })
}

fn space_value(facts: &Facts, space: &SpaceFacts) -> Value {
    let profile = &space.profile;
    let node = facts.node(profile.peak_step);
    let alive = profile.alive_at(profile.peak_step);
    json!({
        "space": profile.space,
        "arena": space.arena,
        "before": space.before,
        "budget": space.budget,
        "capacity": space.capacity,
        "bound": space.bound.map(|bound| json!({
            "placement": bound.placement,
            "order": bound.order,
            "order_proved": bound.order_proved,
            "placement_proved": bound.placement_proved,
        })),
        "order_optimal": space.gap() == Gap::Closed { order: true },
        "offsets_optimal": matches!(space.gap(), Gap::Closed { .. }),
        "gap": match space.gap() {
            Gap::Closed { .. } => Some(0.0),
            Gap::Open(fraction) => Some(fraction),
            Gap::Unknown | Gap::Partial | Gap::Loose => None,
        },
        "peak": {
            "bytes": profile.peak,
            "step": profile.peak_step,
            "node": node.map(|node| node.node.as_str()),
            "op": node.map(|node| node.op.as_str()),
        },
        "alive_at_peak": alive.into_iter().map(|owner| owner_value(facts, profile.peak, owner)).collect::<Vec<_>>(),
    })
}

fn owner_value(facts: &Facts, peak: u64, owner: &Owner) -> Value {
    let tensor = &facts.layout.tensors[owner.tensor];
    json!({
        "tensor": tensor.name,
        "class": tensor.class.as_str(),
        "bytes": owner.bytes,
        "share": if peak == 0 { 0.0 } else { owner.bytes as f64 / peak as f64 },
        "offset": owner.offset,
        "live": [owner.start(), owner.end()],
        "aliases": owner.aliases.iter().map(|&alias| facts.layout.tensors[alias].name.as_str()).collect::<Vec<_>>(),
        "producer": owner.producer.and_then(|step| facts.node(step)).map(|node| node.node.as_str()),
    })
}
