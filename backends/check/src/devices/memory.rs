//! Rule 6, memory: weights, arenas and held values of each device, replayed, are within its budget and as
//! stated.

use std::collections::BTreeSet;

use memc_layout::Class;
use memc_layout::devices::{Carried, DeviceMemory, Event};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    for device in &ctx.manifest.devices {
        let found = replay(ctx, &device.name);
        let mut add = |message: String| {
            findings.add(Kind::DeviceMemory, At::default(), format!("{}: {message}", device.name))
        };
        let DeviceMemory { weights, arena, peak, event, budget, .. } = device;
        for (what, stated, found) in
            [("weights", weights, found.weights), ("arenas", arena, found.arena), ("peak", peak, found.peak)]
        {
            if *stated != found {
                add(format!("{what} are {}, not {}", exact(found), exact(*stated)));
            }
        }
        if *event != found.event {
            add(format!("the peak is reached at event {}, not {event}", found.event));
        }
        if let Some(budget) = budget.filter(|budget| found.peak > *budget) {
            add(format!("the peak of {} exceeds the budget of {}", exact(found.peak), exact(budget)));
        }
    }
}

/// What a replay finds.
#[derive(Default)]
struct Found {
    weights: u64,
    arena: u64,
    peak: u64,
    event: u64,
}

/// Weights and arenas come from the layouts, which have a check of their own. Sections of a device take
/// turns, so they share an arena, and whole weights of the given model.
fn replay(ctx: &Ctx<'_>, name: &str) -> Found {
    let mut found = Found::default();
    let mut present: BTreeSet<&str> = BTreeSet::new();
    for position in ctx.sections_of(name) {
        let Some(layout) = ctx.sections.get(position).map(|files| &files.layout) else { continue };
        let arena = layout.arenas.iter().fold(0, |sum: u64, arena| sum.saturating_add(arena.size));
        let read = ctx.nodes[position].iter().flat_map(|node| &ctx.whole.nodes[*node].reads);
        let read: BTreeSet<&str> =
            read.map(String::as_str).filter(|name| ctx.whole.weights.contains(*name)).collect();
        let is_again = |name: &str| read.contains(name) && present.contains(name);
        // The layout counts old values that are written over apart from its weights.
        let updated = layout
            .tensors
            .iter()
            .filter(|tensor| tensor.class == Class::State && read.contains(tensor.name.as_str()));
        let updated = updated.fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes));
        let is_weight = |class: Class| matches!(class, Class::Constant | Class::State);
        let again = layout.tensors.iter().filter(|tensor| is_weight(tensor.class) && is_again(&tensor.name));
        let again = again
            .filter(|tensor| ctx.whole.sized.get(&tensor.name).is_some_and(|own| own.bytes == tensor.bytes));
        let again = again.fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes));
        found.weights =
            found.weights.saturating_add(layout.weights.saturating_add(updated).saturating_sub(again));
        found.arena = found.arena.max(arena);
        present.extend(read);
    }
    // New values in the storage of old ones need no bytes of their own.
    let stored: BTreeSet<&str> = ctx.updated(name).map(|row| row.result.as_str()).collect();
    let bytes = |value: &str, run: u64| if stored.contains(value) { 0 } else { ctx.bytes(value, run) };
    let (mut held, mut most) = (0_u64, 0_u64);
    let mut joined: BTreeSet<&str> = BTreeSet::new();
    for (number, event) in ctx.manifest.program.get(name).into_iter().flatten().enumerate() {
        held = match event {
            Event::Feed(Carried { value, micro_batch })
            | Event::Share(Carried { value, micro_batch })
            | Event::Collect(Carried { value, micro_batch })
            | Event::Recv { value, micro_batch, .. } => held.saturating_add(bytes(value, *micro_batch)),
            Event::Run { micro_batch, section } => {
                let results = ctx.section_of(name, section.as_ref()).map(|position| &ctx.outputs[position]);
                results
                    .into_iter()
                    .flatten()
                    .fold(held, |sum, value| sum.saturating_add(bytes(value, *micro_batch)))
            }
            Event::Join(Carried { value, .. }) if joined.insert(value) => {
                held.saturating_add(bytes(value, ctx.step.unwrap_or(0)))
            }
            Event::Free(Carried { value, micro_batch }) => held.saturating_sub(bytes(value, *micro_batch)),
            Event::Join(_) | Event::Offer(_) | Event::Send { .. } | Event::Give(_) => held,
        };
        if held > most {
            (most, found.event) = (held, number as u64);
        }
    }
    found.peak = found.weights.saturating_add(found.arena).saturating_add(most);
    found
}
