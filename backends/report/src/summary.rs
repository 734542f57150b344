//! Summarizes a plan in one line.

use memc_layout::Layout;

use crate::{
    facts::{Facts, SpaceFacts},
    quantity::{bytes, change_or_unknown},
};

/// Returns the line that ends every summary, without a line end. Its format never changes:
///
/// `peak 640.0 KiB -> 384.0 KiB  arena 384.0 KiB  bound 384.0 KiB (offsets optimal)
/// +1 recompute +2.1 % time, 2 transfers`
///
/// - *peak*: of the input model in file order (`?` if the layout does not state it), and of the plan.
/// - *bound*: lower bound of the arena for the plan's live ranges. `(offsets optimal)` if the arena equals
///   it, `(order optimal, offsets optimal)` if also no other order of these nodes has a lower peak. Neither
///   says that splitting or recomputation would not need less.
///   Otherwise `(gap 1.2 %)` states by how much the arena is larger, and `(gap < 0.1 %)` stands for
///   small gaps. `bound ? (unknown)` if the layout has no bound.
/// - *recompute*: nodes that run a second time.
/// - *time*: modelled time against the input model; `?` if values have no size.
/// - *transfers*: pairs of store and load.
///
/// If the arena leaves out values of unknown size, the sums are lower bounds:
/// `peak 64.1 KiB -> at least 64.1 KiB, 9 values without size are not in it`. If all these values have
/// upper bounds, `(at most 300.0 KiB with them)` follows. The bound is then `(of values with a size)`.
///
/// The line is about the target's first space. Each other space in use has a line before it:
/// `space host  peak … (offsets optimal)`. A plan for ranges of dimensions has a line too, with arenas by the
/// formula at small extents:
///
/// `arena 140.0 MiB for batch 1..8, seq 1..512 (bound at (8,512) 140.0 MiB, offsets optimal); 17.5 MiB at
/// (1,512)`
///
/// If no extents are known that need the arena, apart from 2 %, the verdict is `of upper bounds`.
pub fn summary_line(layout: &Layout) -> String {
    lines(&Facts::of(layout)).join("\n")
}

/// Returns the lines of the summary, the first space's last.
pub(crate) fn lines(facts: &Facts) -> Vec<String> {
    let mut lines: Vec<String> = (facts.spaces.iter().skip(1))
        .map(|space| {
            format!("space {}  {}", crate::quantity::shortened(&space.profile.space, 24), sizes(space))
        })
        .collect();
    lines.extend(crate::ranges::line(facts));
    let first = facts.first().map_or_else(|| "peak ? -> 0 B  arena 0 B  bound ? (unknown)".to_owned(), sizes);
    lines.push(format!(
        "{first}  +{} recompute {} time, {} transfers",
        facts.layout.cost.recomputed_nodes,
        change_or_unknown(facts.time_change()),
        facts.layout.transfers.len()
    ));
    lines
}

fn sizes(space: &SpaceFacts) -> String {
    let known = |size: Option<u64>| size.map_or_else(|| "?".to_owned(), bytes);
    let peak = bytes(space.profile.peak);
    let peak = match space.open {
        0 => peak,
        1 => format!("at least {peak}, 1 value without size is not in it"),
        open => format!("at least {peak}, {open} values without size are not in it"),
    };
    let most = space.at_most.map_or_else(String::new, |most| format!(" (at most {} with them)", bytes(most)));
    format!(
        "peak {} -> {}{most}  arena {}  bound {} ({})",
        known(space.before),
        peak,
        bytes(space.arena),
        known(space.bound.map(|bound| bound.placement)),
        space.gap().verdict()
    )
}
