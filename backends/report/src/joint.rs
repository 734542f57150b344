//! Text of a joint file: who uses which bytes of the joint arenas, and when guests may run.

use std::fmt::Write as _;

use memc_layout::Layout;
use memc_layout::joint::{Joint, Mode};

use crate::quantity::bytes;

/// Width of a bar, in characters.
const WIDTH: u64 = 48;

/// Returns a page of text on a joint file: a bar for the bytes of each member and each handed-over value in
/// each joint arena, and one for the boundaries at which each guest may run. `layouts` are those of the
/// members, in their order.
pub fn joint(joint: &Joint, layouts: &[Layout]) -> String {
    let mut text = String::new();
    let names = joint.members.iter().map(|member| member.name.chars().count());
    let widest = joint
        .handoffs
        .iter()
        .map(|row| row.from.member.chars().count() + row.from.tensor.chars().count() + 1);
    let width = names.chain(widest).max().unwrap_or(0).min(40);
    let order = match joint.mode {
        Mode::Serial => "one after another",
        Mode::Nested => "guests between two steps of the first",
        Mode::Phased => "at once, each again and again",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} members, {order}", joint.members.len());
    for arena in joint.arenas.iter().filter(|arena| arena.sum_alone > 0) {
        let _ = writeln!(
            text,
            "\n{}: joint arena {}, largest {}, sum {}, bound {}",
            arena.space,
            bytes(arena.size),
            bytes(arena.max_alone),
            bytes(arena.sum_alone),
            bytes(arena.bound)
        );
        for (number, (member, layout)) in joint.members.iter().zip(layouts).enumerate() {
            let own = layout.arenas.iter().find(|own| own.space == arena.space).map_or(0, |own| own.size);
            let mut spans: Vec<(u64, u64)> = Vec::new();
            if joint.mode == Mode::Nested && number > 0 {
                let runs = joint.admissions.iter().filter(|run| run.guest == member.name);
                spans.extend(runs.filter_map(|run| Some((*run.bases.get(&arena.space)?, own))));
            } else if member.offsets.is_empty() {
                spans.push((member.bases.get(&arena.space).copied().unwrap_or(0), own));
            } else {
                let owners =
                    layout.tensors.iter().filter(|tensor| tensor.space.as_ref() == Some(&arena.space));
                spans.extend(
                    owners.filter_map(|tensor| Some((*member.offsets.get(&tensor.name)?, tensor.bytes))),
                );
            }
            let bar = bar(&spans, arena.size);
            let _ = writeln!(text, "  {:<width$} |{bar}| {}", member.name, bytes(own));
        }
        for row in joint.handoffs.iter().filter(|row| row.space.as_ref() == Some(&arena.space)) {
            let name = format!("{}.{}", row.from.member, row.from.tensor);
            let bar = bar(&[(row.offset.unwrap_or(0), row.bytes)], arena.size);
            let _ = writeln!(text, "  {name:<width$} |{bar}| {} to {}", bytes(row.bytes), row.to.member);
        }
    }
    if joint.mode == Mode::Nested {
        let all = layouts.first().map_or(0, |host| host.schedule.len() as u64).saturating_sub(1);
        let _ = writeln!(
            text,
            "\nboundaries between the steps of {}",
            joint.members.first().map_or("", |host| &host.name)
        );
        for guest in joint.members.iter().skip(1) {
            let runs = joint.admissions.iter().filter(|run| run.guest == guest.name);
            let spans: Vec<(u64, u64)> = runs
                .map(|run| (run.after[0], run.after[1].saturating_sub(run.after[0]).saturating_add(1)))
                .collect();
            let count = spans.iter().fold(0_u64, |sum, (_, long)| sum.saturating_add(*long));
            let _ = writeln!(text, "  {:<width$} |{}| {count} of {all}", guest.name, bar(&spans, all));
        }
    }
    if joint.mode == Mode::Phased {
        waits(&mut text, joint, layouts, width);
    }
    let shared = joint.weights_sum.saturating_sub(joint.weights_joint);
    let _ = writeln!(
        text,
        "\nweights: {} with {} constants once, {} less than the sum",
        bytes(joint.weights_joint),
        joint.constants.len(),
        bytes(shared)
    );
    text
}

/// Bars of the steps, in one period, of members that run at once before which one waits for the other.
fn waits(text: &mut String, joint: &Joint, layouts: &[Layout], width: usize) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\nsteps of a period that wait for the other member");
    for (member, layout) in joint.members.iter().zip(layouts) {
        let steps = layout.schedule.len() as u64;
        let own = joint.sync.iter().filter(|row| row.before.member == member.name);
        let spans: Vec<(u64, u64)> = own
            .map(|row| (row.before.run.saturating_mul(steps).saturating_add(row.before.step), 1))
            .collect();
        let all = steps.saturating_mul(member.runs);
        let _ = writeln!(text, "  {:<width$} |{}| {} of {all}", member.name, bar(&spans, all), spans.len());
    }
}

/// A bar of the ranges of a whole: a mark for each part of it that a range touches.
fn bar(spans: &[(u64, u64)], whole: u64) -> String {
    let touches = |part: u64| {
        let edge = |part: u64| u128::from(part) * u128::from(whole) / u128::from(WIDTH);
        let (low, high) = (edge(part), edge(part + 1));
        spans.iter().any(|(start, long)| {
            let (start, end) = (u128::from(*start), u128::from(*start) + u128::from(*long));
            start < high.max(low + 1) && low < end && *long > 0
        })
    };
    (0..WIDTH).map(|part| if touches(part) { '#' } else { '.' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_mark_the_parts_that_ranges_touch() {
        assert_eq!(bar(&[(0, 48)], 96), "#".repeat(24) + &".".repeat(24));
        assert_eq!(bar(&[(95, 1)], 96), ".".repeat(47) + "#");
        assert_eq!(bar(&[(0, 0)], 96), ".".repeat(48));
        assert_eq!(bar(&[(0, u64::MAX)], u64::MAX), "#".repeat(48));
        assert_eq!(bar(&[(0, 2)], 2), "#".repeat(48));
    }
}
