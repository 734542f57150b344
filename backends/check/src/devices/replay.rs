//! Rule 5, order of events: a section runs behind its inputs, once a run; values are sent while they are
//! held and freed once, after their last use.

use std::collections::BTreeSet;

use memc_layout::devices::{Carried, Event};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    for (position, section) in ctx.manifest.sections.iter().enumerate() {
        let events = ctx.manifest.program.get(&section.device).map(Vec::as_slice).unwrap_or_default();
        device(ctx, position, &section.device, events, findings);
    }
}

fn device(ctx: &Ctx<'_>, position: usize, name: &str, events: &[Event], findings: &mut Findings) {
    let (inputs, outputs) = (&ctx.inputs[position], &ctx.outputs[position]);
    let mut held: BTreeSet<(&str, u64)> = BTreeSet::new();
    let mut ran: BTreeSet<u64> = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let mut add = |message: String| findings.add(Kind::EventOrder, At::default(), format!("{name}, event {at}: {message}"));
        match event {
            Event::Feed(Carried { value, micro_batch }) | Event::Recv { value, micro_batch, .. } => {
                if !inputs.contains(value.as_str()) {
                    add(format!("the section does not read `{value}`"));
                }
                if ran.contains(micro_batch) {
                    add(format!("`{value}` arrives after the section ran"));
                }
                if !held.insert((value, *micro_batch)) {
                    add(format!("`{value}` is already held"));
                }
            }
            Event::Run { micro_batch } => {
                if let Some(input) = inputs.iter().find(|input| !held.contains(&(**input, *micro_batch))) {
                    add(format!("run {micro_batch} lacks `{input}`"));
                }
                if !ran.insert(*micro_batch) || *micro_batch >= ctx.manifest.micro_batches {
                    add(format!("run {micro_batch} is not one of the program's, or happened before"));
                }
                held.extend(outputs.iter().map(|output| (*output, *micro_batch)));
            }
            Event::Send { value, micro_batch, .. } | Event::Give(Carried { value, micro_batch }) => {
                if !outputs.contains(value.as_str()) || !held.contains(&(value.as_str(), *micro_batch)) {
                    add(format!("`{value}` of run {micro_batch} is not held here"));
                }
            }
            Event::Free(Carried { value, micro_batch }) => {
                if !held.remove(&(value.as_str(), *micro_batch)) {
                    add(format!("`{value}` of run {micro_batch} is freed and not held"));
                }
                if inputs.contains(value.as_str()) && !ran.contains(micro_batch) {
                    add(format!("`{value}` is freed before the section ran"));
                }
            }
        }
    }
    if let Some((value, run)) = held.first() {
        let message = format!("{name} never frees `{value}` of run {run}");
        findings.add(Kind::EventOrder, At::tensor(value), message);
    }
    if ran.len() as u64 != ctx.manifest.micro_batches {
        let message = format!("{name} runs its section {} times, not {}", ran.len(), ctx.manifest.micro_batches);
        findings.add(Kind::EventOrder, At::default(), message);
    }
}
