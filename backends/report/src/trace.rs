//! Writes a plan as a trace for the viewers of Chrome and Perfetto.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Busy, Layout, LiveCurve, SpaceCurve};
use serde_json::{Value, json};

/// Row of operators of the first engine. Other engines and links have the following numbers.
const OPERATORS: u64 = 1;

/// Returns the plan as trace events in JSON. There is a row for the operators of each engine and a
/// row for each used direction of each link. Each space has a counter of live bytes, with its budget and
/// capacity. Each moved tensor has a bar from its store to its load.
///
/// Times are the layout's timeline. A layout without a timeline gets 1 us a step. The trace then shows
/// order and memory, not speed, and `otherData` says so.
pub fn trace(layout: &Layout) -> String {
    let clock = Clock::of(layout);
    let links = links(layout);
    let mut events = vec![
        json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": format!("memc plan for {}", layout.target.name)}}),
    ];
    let used: BTreeSet<u64> = layout.schedule.iter().map(|row| row.engine.unwrap_or(0)).collect();
    let of_engine: BTreeMap<u64, u64> = used.into_iter().zip(OPERATORS..).collect();
    events.extend(of_engine.iter().map(|(engine, row)| match of_engine.len() {
        1 => row_name(*row, "operators"),
        _ => row_name(*row, &format!("operators of engine {engine}")),
    }));
    let engines = of_engine.len().max(1) as u64;
    // Rows of links follow the rows of operators.
    let mut rows: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for route in links.values() {
        rows.entry(*route).or_insert(0);
    }
    for (row, ((from, to), number)) in (OPERATORS + engines..).zip(&mut rows) {
        *number = row;
        events.push(row_name(row, &format!("link {from} to {to}")));
    }
    // Steps, as bars in the row of operators or of a link.
    let again = recomputing(layout);
    events.extend((0u64..).zip(&layout.schedule).map(|(step, node)| {
        let busy = clock.busy(step);
        let link = links.get(&step).and_then(|route| rows.get(route)).copied();
        let row = link.or_else(|| of_engine.get(&node.engine.unwrap_or(0)).copied()).unwrap_or(OPERATORS);
        let category = if link.is_none() { if again.contains_key(&step) { "recompute" } else { "step" } } else { "transfer" };
        json!({
            "ph": "X", "pid": 1, "tid": row, "ts": micros(busy.start_ns), "dur": micros(busy.ns()), "cat": category, "name": node.node,
            "args": {"op": node.op, "domain": node.domain, "step": step, "recompute_of": again.get(&step)},
        })
    }));
    // Moved tensors, as bars from store to load.
    let away = OPERATORS + engines + rows.len() as u64;
    if !layout.transfers.is_empty() {
        events.push(row_name(away, "away"));
    }
    for (id, transfer) in layout.transfers.iter().enumerate() {
        let name = format!("{} in {}", transfer.tensor, transfer.to);
        let event = |phase: &str, at: u64| {
            json!({
                "ph": phase, "pid": 1, "tid": away, "ts": micros(at), "cat": "away", "id": id, "name": name,
                "args": {"bytes": transfer.bytes, "from": transfer.from, "to": transfer.to, "result": transfer.result},
            })
        };
        events.push(event("b", clock.busy(transfer.store_step).start_ns));
        events.push(event("e", clock.busy(transfer.load_step).end_ns));
    }
    // Live bytes of each space.
    for space in LiveCurve::of(layout).spaces {
        events.extend(counter(layout, &space, &clock));
    }
    let time = if layout.timeline.is_empty() {
        "1 us for each step: shows order and memory, not speed"
    } else {
        "modelled"
    };
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": {"schema": layout.schema, "time": time},
        "traceEvents": events,
    });
    format!("{trace}\n")
}

fn row_name(row: u64, name: &str) -> Value {
    json!({"ph": "M", "pid": 1, "tid": row, "name": "thread_name", "args": {"name": name}})
}

/// Converts nanoseconds to microseconds, the unit of traces. Whole numbers have no fraction.
fn micros(ns: u64) -> Value {
    if ns.is_multiple_of(1000) { json!(ns / 1000) } else { json!(ns as f64 / 1000.0) }
}

/// Maps each step that copies over a link to its pair of spaces.
fn links(layout: &Layout) -> BTreeMap<u64, (&str, &str)> {
    let mut links = BTreeMap::new();
    for transfer in &layout.transfers {
        links.insert(transfer.store_step, (transfer.from.as_str(), transfer.to.as_str()));
        links.insert(transfer.load_step, (transfer.to.as_str(), transfer.from.as_str()));
    }
    links.extend(layout.fetches.iter().map(|fetch| (fetch.step, (fetch.from.as_str(), fetch.to.as_str()))));
    links
}

/// Maps each recomputing step to the name of its original value.
fn recomputing(layout: &Layout) -> BTreeMap<u64, &str> {
    let copies =
        layout.tensors.iter().filter_map(|tensor| tensor.recompute_of.as_deref().zip(tensor.live.first()));
    copies.map(|(original, range)| (range.start, original)).collect()
}

/// Time at which steps run, from the layout's timeline or from their number.
pub(crate) struct Clock<'a> {
    layout: &'a Layout,
    /// Time at which each step is issued, in nanoseconds: the start of an operator, or the end of the
    /// operator before a transfer. Never decreases.
    pub issued: Vec<u64>,
}

impl<'a> Clock<'a> {
    pub(crate) fn of(layout: &'a Layout) -> Self {
        let links = links(layout);
        let mut clock = Self { layout, issued: Vec::new() };
        let mut now = 0;
        for step in 0..layout.schedule.len() as u64 {
            let busy = clock.busy(step);
            if links.contains_key(&step) {
                clock.issued.push(now);
            } else if layout.engines() > 1 {
                now = now.max(busy.start_ns);
                clock.issued.push(now);
            } else {
                clock.issued.push(busy.start_ns.max(now));
                now = now.max(busy.end_ns);
            }
        }
        clock
    }

    pub(crate) fn busy(&self, step: u64) -> Busy {
        if self.layout.timeline.is_empty() {
            let start_ns = step.saturating_mul(1000);
            return Busy { start_ns, end_ns: start_ns.saturating_add(1000) };
        }
        usize::try_from(step)
            .ok()
            .and_then(|step| self.layout.timeline.get(step))
            .copied()
            .unwrap_or_default()
    }

    /// Returns the time at which the last step ends, in nanoseconds.
    pub(crate) fn end(&self) -> u64 {
        (0..self.layout.schedule.len() as u64).map(|step| self.busy(step).end_ns).max().unwrap_or(0)
    }
}

/// Returns one event for each step at which live bytes change, a zero after the last step, and events
/// for budget and capacity.
fn counter(layout: &Layout, space: &SpaceCurve, clock: &Clock<'_>) -> Vec<Value> {
    let name = format!("live bytes in {}", space.space);
    let capacity =
        layout.target.spaces.iter().find(|known| known.name == space.space).and_then(|space| space.capacity);
    let mut before = None;
    let times = clock.issued.iter().copied().chain([clock.end()]);
    let mut events: Vec<Value> = (space.live_bytes.iter().copied().chain([0]).zip(times))
        .filter(|&(bytes, _)| before.replace(bytes) != Some(bytes))
        .map(|(bytes, at)| json!({"ph": "C", "pid": 1, "ts": micros(at), "name": name, "args": {"bytes": bytes}}))
        .collect();
    for (word, limit) in [("budget", layout.budget.get(&space.space).copied()), ("capacity", capacity)] {
        if let Some(limit) = limit {
            let name = format!("{word} of {}", space.space);
            let at = |at: u64| json!({"ph": "C", "pid": 1, "ts": micros(at), "name": name, "args": {"bytes": limit}});
            events.extend([at(0), at(clock.end())]);
        }
    }
    events
}
