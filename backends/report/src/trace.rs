//! A plan as a trace that the viewers of Chrome and Perfetto open.

use memc_layout::{Layout, Profile};
use serde_json::{Value, json};

/// The plan as trace events in JSON: a slice for each step, a counter of live bytes for each space, and a bar for each tensor that is
/// moved out, from its store to its load.
///
/// A layout has no times of nodes, so each step lasts 1 us: the trace shows order and memory, not speed, and says so in `otherData`.
pub fn trace(layout: &Layout) -> String {
    let mut events = vec![
        json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": format!("memc plan for {}", layout.target.name)}}),
        json!({"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "schedule"}}),
    ];
    events.extend(layout.schedule.iter().enumerate().map(|(step, node)| {
        json!({
            "ph": "X", "pid": 1, "tid": 1, "ts": step, "dur": 1, "cat": "step", "name": node.node,
            "args": {"op": node.op, "domain": node.domain, "step": step},
        })
    }));
    for (id, transfer) in layout.transfers.iter().enumerate() {
        let name = format!("{} in {}", transfer.tensor, transfer.to);
        let event = |phase: &str, step: u64| {
            json!({
                "ph": phase, "pid": 1, "tid": 2, "ts": step, "cat": "transfer", "id": id, "name": name,
                "args": {"bytes": transfer.bytes, "from": transfer.from, "to": transfer.to, "result": transfer.result},
            })
        };
        events.push(event("b", transfer.store_step));
        events.push(event("e", transfer.load_step.saturating_add(1)));
    }
    for space in Profile::of(layout).spaces {
        events.extend(counter(&format!("live bytes in {}", space.space), &space.live_bytes));
    }
    let trace = json!({
        "displayTimeUnit": "ns",
        "otherData": {"schema": layout.schema, "time": "1 us a step: order and memory, not speed"},
        "traceEvents": events,
    });
    format!("{trace}\n")
}

/// One event for each step at which the number changes, and a zero behind the last step.
fn counter(name: &str, live_bytes: &[u64]) -> Vec<Value> {
    let mut before = None;
    (live_bytes.iter().copied().chain([0]).enumerate())
        .filter(|&(_, bytes)| before.replace(bytes) != Some(bytes))
        .map(|(step, bytes)| json!({"ph": "C", "pid": 1, "ts": step, "name": name, "args": {"bytes": bytes}}))
        .collect()
}
