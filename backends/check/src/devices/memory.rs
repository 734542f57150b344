//! Rule 6, memory: weights, arenas and held values of each device, replayed, are within its budget and as
//! stated.

use memc_layout::devices::{Carried, DeviceMemory, Event};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    for device in &ctx.manifest.devices {
        let position = ctx.manifest.sections.iter().position(|section| section.device == device.name);
        let found = position.map_or_else(Found::default, |position| replay(ctx, position, &device.name));
        let mut add = |message: String| findings.add(Kind::DeviceMemory, At::default(), format!("{}: {message}", device.name));
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

/// Weights and arenas come from the layout, which has a check of its own.
fn replay(ctx: &Ctx<'_>, position: usize, name: &str) -> Found {
    let layout = ctx.sections.get(position).map(|files| &files.layout);
    let weights = layout.map_or(0, |layout| layout.weights);
    let arena = layout.map_or(0, |layout| layout.arenas.iter().fold(0, |sum: u64, arena| sum.saturating_add(arena.size)));
    let results = ctx.outputs[position].iter().fold(0_u64, |sum, value| sum.saturating_add(ctx.bytes(value)));
    let (mut held, mut most, mut at) = (0_u64, 0_u64, 0_u64);
    for (number, event) in ctx.manifest.program.get(name).into_iter().flatten().enumerate() {
        held = match event {
            Event::Feed(Carried { value, .. }) | Event::Recv { value, .. } => held.saturating_add(ctx.bytes(value)),
            Event::Run { .. } => held.saturating_add(results),
            Event::Free(Carried { value, .. }) => held.saturating_sub(ctx.bytes(value)),
            Event::Send { .. } | Event::Give(_) => held,
        };
        if held > most {
            (most, at) = (held, number as u64);
        }
    }
    Found { weights, arena, peak: weights.saturating_add(arena).saturating_add(most), event: at }
}
