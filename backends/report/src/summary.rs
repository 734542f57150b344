//! The one line that says what a plan achieved.

use memc_layout::Layout;

use crate::{
    facts::{Facts, Gap, SpaceFacts},
    quantity::{bytes, change},
};

/// The line that ends every summary, without a line end; its shape never changes:
///
/// `peak 640.0 KiB -> 384.0 KiB  arena 384.0 KiB  bound 384.0 KiB (optimal)  +1 recompute +2.1 % time, 2 transfers`
///
/// - *peak*: of the input model in file order (`?` where the layout does not say), and of the plan.
/// - *bound*: the least arena for the plan's live ranges. `(optimal)` where the arena is that large, else `(gap 1.2 %)`: by how much
///   the arena is larger, `(gap < 0.1 %)` at least; `bound ? (unknown)` where the layout has none.
/// - *recompute*: nodes that run a second time. *time*: modelled, against the input model. *transfers*: pairs of out and back.
///
/// All of it is about the target's first space. Each other space in use has a line before it: `space host  peak … (optimal)`.
pub fn summary_line(layout: &Layout) -> String {
    lines(&Facts::of(layout)).join("\n")
}

/// The lines of the summary, the first space's last.
pub(crate) fn lines(facts: &Facts) -> Vec<String> {
    let mut lines: Vec<String> = (facts.spaces.iter().skip(1))
        .map(|space| format!("space {}  {}", crate::quantity::shortened(&space.profile.space, 24), sizes(space)))
        .collect();
    let first = facts.first().map_or_else(|| "peak ? -> 0 B  arena 0 B  bound ? (unknown)".to_owned(), sizes);
    lines.push(format!(
        "{first}  +{} recompute {} time, {} transfers",
        facts.layout.cost.recomputed_nodes,
        change(facts.time_change()),
        facts.layout.transfers.len()
    ));
    lines
}

/// How far the arena is from the bound, in words.
pub(crate) fn verdict(gap: Gap) -> String {
    match gap {
        Gap::Closed => "optimal".to_owned(),
        // One decimal would say that a small gap is none.
        Gap::Open(fraction) if fraction < 0.001 => "gap < 0.1 %".to_owned(),
        Gap::Open(fraction) => format!("gap {:.1} %", fraction * 100.0),
        Gap::Unknown => "unknown".to_owned(),
    }
}

fn sizes(space: &SpaceFacts) -> String {
    let known = |size: Option<u64>| size.map_or_else(|| "?".to_owned(), bytes);
    format!(
        "peak {} -> {}  arena {}  bound {} ({})",
        known(space.before),
        bytes(space.profile.peak),
        bytes(space.arena),
        known(space.bound.map(|bound| bound.placement)),
        verdict(space.gap())
    )
}
