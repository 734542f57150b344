//! Checks plans for several engines: only waits, and the order of each engine's own steps, order two steps.
//! They must order each value's maker and readers, and all uses of shared bytes.

use memc_layout::{AliasKind, Class, Sync};
use memc_ops::{Repeat, lookup};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};

/// Largest number of engines: the check keeps a number for each step and engine.
const MAX_ENGINES: u64 = 64;

/// Checks the engines of all steps, the waits, and the order that follows from both.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let layout = ctx.layout;
    if layout.sync.is_empty() && layout.schedule.iter().all(|row| row.engine.is_none()) {
        return;
    }
    let Some(engines) = engines(ctx, findings) else { return };
    if !waits(ctx, &engines, findings) {
        return;
    }
    unsupported(ctx, findings);
    let order = Order::new(engines, &layout.sync);
    operands(ctx, &order, findings);
    states(ctx, &order, findings);
    shared_bytes(ctx, &order, findings);
}

/// Returns the engine of each step; `None` and a violation if a step has none, or a number is wrong.
fn engines(ctx: &Ctx<'_>, findings: &mut Findings) -> Option<Vec<usize>> {
    let rows = &ctx.layout.schedule;
    let count = ctx.layout.engines();
    let mut refuse = |message: String| {
        findings.add(Kind::Engine, At::default(), message);
        None
    };
    if !(2..=MAX_ENGINES).contains(&count) {
        return refuse(format!(
            "the plan has {count} engines; a plan with waits or engines has 2 to {MAX_ENGINES}"
        ));
    }
    let numbers = rows.iter().map(|row| usize::try_from(row.engine?).ok());
    let Some(engines) = numbers.collect::<Option<Vec<usize>>>() else {
        let missing = rows.iter().find(|row| row.engine.is_none()).map_or("", |row| row.node.as_str());
        return refuse(format!("other steps have an engine, but `{missing}` has none"));
    };
    match (0..count as usize).find(|engine| !engines.contains(engine)) {
        Some(idle) => refuse(format!("engine {idle} of {count} runs nothing")),
        None => Some(engines),
    }
}

/// Checks the form of all waits; returns whether they order steps without a cycle.
fn waits(ctx: &Ctx<'_>, engines: &[usize], findings: &mut Findings) -> bool {
    let sync = &ctx.layout.sync;
    let mut hold = true;
    if !sync.is_sorted_by(|a, b| a < b) {
        findings.add(Kind::Engine, At::default(), "waits are not sorted, or one is listed twice".to_owned());
        hold = false;
    }
    for Sync { step, after } in sync {
        let ends = [*step, *after].map(|step| usize::try_from(step).ok().and_then(|step| engines.get(step)));
        let why = match ends {
            [None, _] | [_, None] => "the schedule has no such step",
            _ if after >= step => "a step waits for an earlier one",
            [Some(waiting), Some(ended)] if waiting == ended => "an engine runs its own steps in their order",
            _ => continue,
        };
        findings.add(Kind::Engine, At::default(), format!("step {step} cannot wait for step {after}: {why}"));
        hold = false;
    }
    hold
}

/// Reports what a plan for several engines may not have.
fn unsupported(ctx: &Ctx<'_>, findings: &mut Findings) {
    let layout = ctx.layout;
    let parts = [
        ("transfers", layout.transfers.is_empty()),
        ("fetched constants", layout.fetches.is_empty()),
        ("ranges of dimensions", layout.model.ranges.is_empty()),
        ("anchors", layout.schedule.iter().all(|row| !row.anchor)),
    ];
    for (name, _) in parts.iter().filter(|(_, is_absent)| !is_absent) {
        findings.add(Kind::Engine, At::default(), format!("a plan for several engines has no {name}"));
    }
    for step in (0..ctx.steps()).filter(|step| has_side_effect(ctx, *step)) {
        let name = ctx.node_at(step);
        let message = format!(
            "step {step}: `{name}` may do more than make its results, so several engines cannot run this plan"
        );
        findings.add(Kind::Engine, At::node(step, name), message);
    }
}

/// Whether a node, or a node of its bodies, may write an operand or keep state.
fn has_side_effect(ctx: &Ctx<'_>, step: usize) -> bool {
    let module = &ctx.out.module;
    let mut nodes = vec![ctx.out.rows[ctx.order[step]].node];
    while let Some(node) = nodes.pop() {
        let data = module.node(node);
        let repeat = lookup(&data.operator).map(|info| info.repeat);
        if matches!(repeat, None | Some(Repeat::Updating | Repeat::Stateful)) {
            return true;
        }
        nodes.extend(data.bodies().flat_map(|(_, body)| &module.graph(body).nodes));
    }
    false
}

/// Which steps have surely ended when a step starts.
struct Order {
    /// Engine of each step.
    engine: Vec<usize>,
    /// Number of steps that its engine runs before each step.
    position: Vec<u32>,
    /// For each step, the number of steps of each engine that have ended.
    ended: Vec<Vec<u32>>,
}

impl Order {
    /// Derives the order from engines and waits. Each wait is for an earlier step. O(steps * engines +
    /// waits * engines).
    fn new(engine: Vec<usize>, sync: &[Sync]) -> Self {
        let count = engine.iter().max().map_or(0, |largest| largest + 1);
        let mut order = Self {
            position: Vec::with_capacity(engine.len()),
            ended: Vec::with_capacity(engine.len()),
            engine: Vec::new(),
        };
        // Steps that have ended once the last step of each engine so far has.
        let mut last = vec![vec![0u32; count]; count];
        let mut waits = sync.iter().peekable();
        for (step, own) in engine.iter().enumerate() {
            let mut ended = last[*own].clone();
            while let Some(wait) = waits.next_if(|wait| wait.step == step as u64) {
                let after = wait.after as usize;
                for (known, more) in ended.iter_mut().zip(&order.ended[after]) {
                    *known = (*known).max(*more);
                }
                let of = &mut ended[engine[after]];
                *of = (*of).max(order.position[after] + 1);
            }
            order.position.push(ended[*own]);
            last[*own].clone_from(&ended);
            last[*own][*own] += 1;
            order.ended.push(ended);
        }
        Self { engine, ..order }
    }

    /// Whether a step has surely ended when another one starts.
    fn is_before(&self, step: usize, later: usize) -> bool {
        self.ended[later][self.engine[step]] > self.position[step]
    }
}

/// Checks that every value is made before each of its readers starts.
fn operands(ctx: &Ctx<'_>, order: &Order, findings: &mut Findings) {
    for (step, row) in ctx.order.iter().enumerate() {
        for value in &ctx.out.rows[*row].reads {
            let Some(maker) = ctx.produced_at(*value).filter(|maker| !order.is_before(*maker, step)) else {
                continue;
            };
            let (name, value) = (ctx.node_at(step), ctx.out.name(*value));
            let message = format!(
                "step {step}: `{name}` may start before step {maker} (`{}`) on engine {} has made `{value}`",
                ctx.node_at(maker),
                order.engine[maker]
            );
            findings.add(Kind::EngineOrder, At::node(step, name).of(value), message);
        }
    }
}

/// Checks that no reader of a state can still run when its new value is written over it.
fn states(ctx: &Ctx<'_>, order: &Order, findings: &mut Findings) {
    for row in &ctx.layout.state {
        let [old, new] = [&row.tensor, &row.result].map(|name| ctx.named.get(name.as_str()).copied());
        let writer = new.and_then(|new| ctx.produced_at(ctx.value_of[new]?));
        let (Some(old), Some(writer)) = (old, writer) else { continue };
        let readers = ctx
            .views_of(old)
            .iter()
            .filter_map(|view| ctx.value_of[*view])
            .flat_map(|value| &ctx.readers[value]);
        for reader in readers.filter(|reader| **reader != writer && !order.is_before(**reader, writer)) {
            let message = format!(
                "step {writer} may write `{}` over `{}` while step {reader} (`{}`) reads it",
                row.result,
                row.tensor,
                ctx.node_at(*reader)
            );
            findings.add(Kind::Race, At::node(writer, ctx.node_at(writer)).of(&row.result), message);
        }
    }
}

/// All uses of a tensor in an arena.
struct Uses {
    tensor: usize,
    low: u64,
    high: u64,
    /// Step that writes it first; `None` for a graph input.
    first: Option<usize>,
    /// For each engine, the number of its steps until the last one that uses the tensor.
    until: Vec<u32>,
    /// Whether the caller reads it after the run.
    is_kept: bool,
}

impl Uses {
    /// Collects the uses of a tensor; `None` without bytes in an arena.
    fn of(ctx: &Ctx<'_>, order: &Order, tensor: usize) -> Option<Self> {
        let (low, high) = ctx.span(tensor).filter(|(low, high)| low < high)?;
        let entry = ctx.tensor(tensor);
        let (first, readers, is_kept) = match ctx.value_of[tensor] {
            Some(value) => (ctx.produced_at(value), ctx.readers[value].as_slice(), ctx.out.is_output[value]),
            None if entry.class == Class::Scratch => {
                (entry.step.and_then(|step| usize::try_from(step).ok()), &[][..], false)
            }
            None => return None,
        };
        let mut until = vec![0; order.ended.first().map_or(0, Vec::len)];
        for step in readers.iter().copied().chain(first).filter(|step| *step < ctx.steps()) {
            let of = &mut until[order.engine[step]];
            *of = (*of).max(order.position[step] + 1);
        }
        Some(Self { tensor, low, high, first: first.filter(|step| *step < ctx.steps()), until, is_kept })
    }

    /// Whether all uses have surely ended when the first step of another tensor starts. A result that
    /// overwrites this tensor may be written by its last reader.
    fn end_before(&self, ctx: &Ctx<'_>, order: &Order, other: &Self) -> bool {
        let Some(step) = other.first.filter(|_| !self.is_kept) else { return false };
        let ended = &order.ended[step];
        let own = u32::from(is_over(ctx, other.tensor, self.tensor));
        let holds = |engine: usize| ended[engine] + if engine == order.engine[step] { own } else { 0 };
        (0..ended.len()).all(|engine| self.until[engine] <= holds(engine))
    }
}

/// Whether a result is stated to overwrite a tensor or a view of the same bytes.
fn is_over(ctx: &Ctx<'_>, result: usize, tensor: usize) -> bool {
    let is_in_place = ctx.tensor(result).alias.as_ref().is_some_and(|alias| alias.kind == AliasKind::InPlace);
    is_in_place && ctx.target[result].is_some_and(|of| ctx.group[of] == ctx.group[tensor])
}

/// Checks that two tensors share bytes only if all uses of one of them end before the other is written. Takes
/// time in proportion to the pairs that share bytes.
fn shared_bytes(ctx: &Ctx<'_>, order: &Order, findings: &mut Findings) {
    let mut all: Vec<Uses> =
        (0..ctx.layout.tensors.len()).filter_map(|tensor| Uses::of(ctx, order, tensor)).collect();
    all.sort_by_key(|uses| (uses.low, uses.tensor));
    for (position, one) in all.iter().enumerate() {
        for other in all[position + 1..].iter().take_while(|other| other.low < one.high) {
            let is_apart = ctx.tensor(one.tensor).space != ctx.tensor(other.tensor).space;
            if is_apart || ctx.group[one.tensor] == ctx.group[other.tensor] {
                continue;
            }
            if !one.end_before(ctx, order, other) && !other.end_before(ctx, order, one) {
                race(ctx, one, other, findings);
            }
            if findings.full() {
                return;
            }
        }
    }
}

fn race(ctx: &Ctx<'_>, one: &Uses, other: &Uses, findings: &mut Findings) {
    let [a, b] = [one, other].map(|uses| ctx.tensor(uses.tensor).name.as_str());
    let step = one.first.max(other.first).unwrap_or(0);
    let message = format!(
        "`{a}` at [{},{}) and `{b}` at [{},{}) share bytes, and no wait orders all uses of one before the other",
        one.low, one.high, other.low, other.high
    );
    findings.add(Kind::Race, At::node(step, ctx.node_at(step)).of(a), message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether a path of waits and of own steps leads from a step to another one.
    fn leads(engine: &[usize], sync: &[Sync], from: usize, to: usize) -> bool {
        let mut reached = vec![false; engine.len()];
        reached[from] = true;
        for step in from + 1..engine.len() {
            let is_own = (from..step).any(|before| reached[before] && engine[before] == engine[step]);
            let waits = sync.iter().any(|wait| wait.step == step as u64 && reached[wait.after as usize]);
            reached[step] = is_own || waits;
        }
        from != to && reached[to]
    }

    proptest! {
        #[test]
        fn a_step_is_before_another_one_exactly_if_a_path_leads_there(
            engine in proptest::collection::vec(0usize..3, 2..16),
            pairs in proptest::collection::vec((0usize..16, 0usize..16), 0..12),
        ) {
            let count = engine.len();
            let waits = pairs.iter().map(|(a, b)| (a % count, b % count)).filter(|(a, b)| engine[*a] != engine[*b]);
            let mut sync: Vec<Sync> =
                waits.map(|(a, b)| Sync { step: a.max(b) as u64, after: a.min(b) as u64 }).collect();
            sync.sort_unstable();
            sync.dedup();
            let order = Order::new(engine.clone(), &sync);
            for from in 0..count {
                for to in 0..count {
                    prop_assert_eq!(order.is_before(from, to), leads(&engine, &sync, from, to), "{} {}", from, to);
                }
            }
        }
    }
}
