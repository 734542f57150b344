//! Checks the schedule: a permutation of the nodes in topological order, equal to the file order except
//! for anchors.

use std::collections::{BTreeSet, HashMap};

use memc_ir::{Origin, Value};
use memc_layout::Layout;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};
use crate::side::Side;

/// Returns the row of the output model at each step, or `None` if the schedule is not a permutation of
/// the nodes.
pub(crate) fn order(out: &Side<'_>, layout: &Layout, findings: &mut Findings) -> Option<Vec<usize>> {
    let mut row_of: HashMap<&str, usize> = HashMap::new();
    let mut sound = true;
    // Nodes need unique names, and none may come from a model-local function.
    for row in 0..out.rows.len() {
        let data = out.module.node(out.rows[row].node);
        if let Origin::Inlined { call } = &data.origin {
            let message =
                format!("node `{call}` calls a model-local function; the plan cannot name the nodes in it");
            findings.add(Kind::FunctionCall, At::default(), message);
            sound = false;
        } else if data.name.is_empty() {
            let message = format!("a node with operator {} has no name", data.operator);
            findings.add(Kind::NodeName, At::default(), message);
            sound = false;
        } else if row_of.insert(&data.name, row).is_some() {
            findings.add(Kind::NodeName, At::default(), format!("two nodes are named `{}`", data.name));
            sound = false;
        }
    }
    if !sound {
        return None;
    }
    let mut taken = vec![false; out.rows.len()];
    let mut order = Vec::with_capacity(out.rows.len());
    // Match each entry of the schedule with a node.
    for (step, entry) in layout.schedule.iter().enumerate() {
        if entry.step != step as u64 {
            let message = format!("`{}` states step {}, but is at position {step}", entry.node, entry.step);
            findings.add(Kind::Schedule, At::node(step, &entry.node), message);
            sound = false;
        }
        match row_of.get(entry.node.as_str()) {
            None => {
                let message = format!("step {step}: the output model has no node `{}`", entry.node);
                findings.add(Kind::Schedule, At::node(step, &entry.node), message);
                sound = false;
            }
            Some(row) if taken[*row] => {
                findings.add(
                    Kind::Schedule,
                    At::node(step, &entry.node),
                    format!("`{}` is scheduled twice", entry.node),
                );
                sound = false;
            }
            Some(row) => {
                taken[*row] = true;
                order.push(*row);
            }
        }
    }
    for row in (0..taken.len()).filter(|row| !taken[*row]) {
        findings.add(
            Kind::Schedule,
            At::default(),
            format!("node `{}` is not scheduled", out.node_name(row)),
        );
        sound = false;
    }
    sound.then_some(order)
}

/// Returns names without those that are left out at the end.
fn without_end(mut names: Vec<&str>) -> Vec<&str> {
    while names.last() == Some(&"") {
        names.pop();
    }
    names
}

/// Checks operators, order and anchors.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let out = ctx.out;
    for (step, row) in ctx.order.iter().enumerate() {
        let operator = &out.module.node(out.rows[*row].node).operator;
        let entry = &ctx.layout.schedule[step];
        let domain = if entry.domain == "ai.onnx" { "" } else { entry.domain.as_str() };
        if entry.op != *operator.name || domain != &*operator.domain {
            let message =
                format!("step {step} states `{}::{}`, but the node is {operator}", entry.domain, entry.op);
            findings.add(Kind::ScheduleOp, At::node(step, &entry.node), message);
        }
        // The file omits them; a planner's layout in memory has them.
        let data = out.module.node(out.rows[*row].node);
        let differ = |stated: &[String], found: &[Option<Value>]| {
            let found = found.iter().map(|value| value.map_or("", |value| out.name(value))).collect();
            !stated.is_empty()
                && without_end(stated.iter().map(String::as_str).collect()) != without_end(found)
        };
        if differ(&entry.reads, &data.inputs) || differ(&entry.writes, &data.outputs) {
            let message = format!("step {step} states other operands or results than `{}` has", entry.node);
            findings.add(Kind::ScheduleOp, At::node(step, &entry.node), message);
        }
    }
    order_of_the_file(ctx, findings);
    topology(ctx, findings);
    for step in 0..ctx.steps() {
        if ctx.layout.schedule[step].anchor {
            anchor(ctx, step, findings);
        }
    }
}

fn order_of_the_file(ctx: &Ctx<'_>, findings: &mut Findings) {
    let plain = (0..ctx.steps()).filter(|step| !ctx.layout.schedule[*step].anchor);
    let mut last: Option<u32> = None;
    for step in plain {
        let index = ctx.out.rows[ctx.order[step]].file_index;
        if last.is_some_and(|last| last > index) {
            let name = ctx.node_at(step);
            let message = format!("step {step}: `{name}` comes earlier in the file than the node before it");
            findings.add(Kind::Order, At::node(step, name), message);
        }
        last = Some(index);
    }
}

fn topology(ctx: &Ctx<'_>, findings: &mut Findings) {
    let out = ctx.out;
    for (step, row) in ctx.order.iter().enumerate() {
        for value in &out.rows[*row].reads {
            let Some(source) = out.producer[*value] else { continue };
            let late = match () {
                () if ctx.step_of[source] >= step => "schedule",
                () if out.rows[source].file_index >= out.rows[*row].file_index => "file",
                () => continue,
            };
            let (reader, value) = (out.node_name(*row), out.name(*value));
            let message = format!(
                "in the {late}, `{reader}` (step {step}) reads `{value}` before `{}` (step {}) computes it",
                out.node_name(source),
                ctx.step_of[source]
            );
            findings.add(Kind::Topology, At::node(step, reader).of(value), message);
        }
    }
}

fn anchor(ctx: &Ctx<'_>, step: usize, findings: &mut Findings) {
    let out = ctx.out;
    let row = &out.rows[ctx.order[step]];
    let data = out.module.node(row.node);
    let read = data.results().any(|value| !ctx.readers[value].is_empty() || out.is_output[value]);
    let pinned = (0..step).rev().find(|before| !ctx.layout.schedule[*before].anchor);
    let operands: BTreeSet<_> = row.reads.iter().copied().collect();
    let behind = pinned.is_some_and(|before| {
        out.module.node(out.rows[ctx.order[before]].node).results().any(|value| operands.contains(&value))
    });
    if read || !behind {
        let name = ctx.node_at(step);
        let why = if read { "its result is read" } else { "it reads no result of the node before it" };
        findings.add(
            Kind::Anchor,
            At::node(step, name),
            format!("step {step}: `{name}` is not an anchor: {why}"),
        );
    }
}
