//! Rule 9, order: members that run at once use no byte at the same time, whatever time their steps take.
//!
//! Each member is a chain of steps that begins anew in each period. A wait of one period is one of all, so
//! the step of the other member that follows a step at the earliest is known from a list of one period.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::joint::{JointSync, Mode, Moment};

use super::Ctx;
use super::spots::Spots;
use crate::codes::Kind;
use crate::findings::{At, Findings};

/// Largest number of runs in a period: larger ones are damages.
const MAX_RUNS: u64 = 1024;

/// Later than any position that a wait can name.
const NEVER: i64 = i64::MAX / 4;

/// The chains of two members: numbers of positions in a period, and for each position the earliest one of the
/// other member that waits for it, counted from the begin of the period.
struct Chains {
    lengths: [i64; 2],
    first: [Vec<i64>; 2],
}

impl Chains {
    /// Reads waits as pairs of a member and a position, and a position of the other member.
    fn of(lengths: [i64; 2], waits: &[(usize, i64, i64)]) -> Self {
        let mut first = lengths.map(|length| vec![NEVER; usize::try_from(length).unwrap_or(0)]);
        for (member, after, before) in waits {
            let place = usize::try_from(*after).ok().and_then(|after| first[*member].get_mut(after));
            place.into_iter().for_each(|place| *place = (*place).min(*before));
        }
        for (member, all) in first.iter_mut().enumerate() {
            let soonest = all.iter().copied().min().unwrap_or(NEVER);
            // The next period has the same waits.
            let mut next = soonest.saturating_add(lengths[1 - member]);
            for place in all.iter_mut().rev() {
                next = next.min(*place);
                *place = next;
            }
        }
        Self { lengths, first }
    }

    /// The earliest position of the other member that begins only after a position, in any period, has ended.
    fn behind(&self, member: usize, position: i64) -> i64 {
        let (period, at) =
            (position.div_euclid(self.lengths[member]), position.rem_euclid(self.lengths[member]));
        let found =
            usize::try_from(at).ok().and_then(|at| self.first[member].get(at)).copied().unwrap_or(NEVER);
        if found >= NEVER / 2 {
            NEVER
        } else {
            found.saturating_add(period.saturating_mul(self.lengths[1 - member]))
        }
    }

    /// Whether each use of the first member and each use of the second one, in all periods, follow each
    /// other. Uses are positions, without the last one.
    fn orders(&self, one: (i64, i64), other: (i64, i64)) -> bool {
        let behind = self.behind(0, one.1 - 1);
        if behind == NEVER {
            return false;
        }
        // The first period in which the other use begins behind the use; the one before must end before it.
        let period = -(other.0 - behind).div_euclid(self.lengths[1]);
        self.behind(1, (period - 1).saturating_mul(self.lengths[1]) + other.1 - 1) <= one.0
    }
}

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    if ctx.joint.mode != Mode::Phased {
        return;
    }
    let mut add = |message: String| findings.add(Kind::JointOrder, At::default(), message);
    let [one, other] = &ctx.spots[..] else {
        add(format!("two members run at once, not {}", ctx.spots.len()));
        return;
    };
    let mut lengths = [0_i64; 2];
    for (row, (member, spots)) in ctx.joint.members.iter().zip(&ctx.spots).enumerate() {
        let length = member.runs.checked_mul(spots.steps()).and_then(|length| i64::try_from(length).ok());
        let Some(length) = length.filter(|_| (1..=MAX_RUNS).contains(&member.runs)) else {
            add(format!("{}: {} runs of {} steps in a period", member.name, member.runs, spots.steps()));
            return;
        };
        if !spots.layout.transfers.is_empty() || !spots.layout.fetches.is_empty() {
            add(format!("{}: its plan moves values while steps run, which no wait orders", member.name));
            return;
        }
        lengths[row] = length;
    }
    if lengths.contains(&0) {
        // A member without steps uses no byte at any time.
        if !ctx.joint.sync.is_empty() {
            add("a member without steps waits for none".to_owned());
        }
        return;
    }
    let mut waits = Vec::new();
    for row in &ctx.joint.sync {
        match read(ctx, lengths, row) {
            Some(wait) => waits.push(wait),
            None => add(format!("{} cannot wait for {}", words_of(&row.before), words_of(&row.after))),
        }
    }
    if !ctx.joint.sync.is_sorted_by(|one, other| one < other) {
        add("waits are listed twice, or not in ascending order".to_owned());
    }
    let chains = Chains::of(lengths, &waits);
    for (row, (member, after, before)) in ctx.joint.sync.iter().zip(&waits) {
        if chains.behind(1 - member, *before) <= *after {
            add(format!(
                "{} waits for {}, which waits for it: no run ends",
                words_of(&row.before),
                words_of(&row.after)
            ));
            return;
        }
    }
    let runs = [ctx.joint.members[0].runs, ctx.joint.members[1].runs];
    let needed = uses((one, other), runs, |(first, use_of_one), (second, use_of_other)| {
        if !chains.orders(use_of_one, use_of_other) {
            let (a, b) = (&one.layout.tensors[first].name, &other.layout.tensors[second].name);
            let message = format!(
                "`{a}` of {} and `{b}` of {} meet, and no wait orders them",
                ctx.name(0),
                ctx.name(1)
            );
            findings.add(Kind::JointOrder, At::tensor(a), message);
        }
    });
    for (row, (member, after, before)) in ctx.joint.sync.iter().zip(&waits) {
        let place = before.rem_euclid(lengths[1 - member]);
        if !needed[*member].contains(&(*after, place)) {
            let message = format!(
                "{} waits for {}, and no bytes that meet need it",
                words_of(&row.before),
                words_of(&row.after)
            );
            findings.add(Kind::JointOrder, At::default(), message);
        }
    }
}

/// Ends of uses of each member, with the begins of uses of the other one that meet them.
type Needed = [BTreeSet<(i64, i64)>; 2];

/// Calls `found` with each pair of tensors of two members that share a byte, and the positions of their uses;
/// returns the pairs of positions between which a wait can be of use.
/// O(tensors log tensors + pairs that meet · runs of both).
fn uses(
    (one, other): (&Spots<'_>, &Spots<'_>),
    runs: [u64; 2],
    mut found: impl FnMut((usize, (i64, i64)), (usize, (i64, i64))),
) -> Needed {
    let mut needed = Needed::default();
    let mut by_space: BTreeMap<&str, Vec<(u64, u64, usize)>> = BTreeMap::new();
    for (at, spot) in other.spot.iter().enumerate() {
        if let Some(spot) = spot.filter(|spot| spot.low < spot.high) {
            by_space.entry(spot.space).or_default().push((spot.low, spot.high, at));
        }
    }
    by_space.values_mut().for_each(|row| row.sort_unstable());
    let positions = |spots: &Spots<'_>, at: usize, runs: u64| {
        let steps = spots.steps();
        let all = spots
            .live(at)
            .map(move |(start, end)| (start, end.min(steps)))
            .filter(|(start, end)| start < end);
        let all: Vec<(u64, u64)> = all.collect();
        let of_run = move |run: u64| (run.saturating_mul(steps), all.clone());
        let placed = (0..runs)
            .map(of_run)
            .flat_map(|(first, all)| all.into_iter().map(move |(s, e)| (first + s, first + e)));
        placed.map(|(start, end)| (start as i64, end as i64)).collect::<Vec<_>>()
    };
    for (at, spot) in one.spot.iter().enumerate() {
        let Some(spot) = spot.filter(|spot| spot.low < spot.high) else { continue };
        let Some(row) = by_space.get(spot.space) else { continue };
        let below = row.partition_point(|(low, ..)| *low < spot.high);
        let meeting: Vec<usize> =
            row[..below].iter().filter(|(_, high, _)| *high > spot.low).map(|(.., at)| *at).collect();
        if meeting.is_empty() {
            continue;
        }
        let own = positions(one, at, runs[0]);
        for second in meeting {
            for theirs in positions(other, second, runs[1]) {
                for use_of_one in &own {
                    needed[0].insert((use_of_one.1 - 1, theirs.0));
                    needed[1].insert((theirs.1 - 1, use_of_one.0));
                    found((at, *use_of_one), (second, theirs));
                }
            }
        }
    }
    needed
}

/// A wait as the member of its first step, the position of it, and the position that waits; `None` if it
/// names no steps, or those of one member.
fn read(ctx: &Ctx<'_>, lengths: [i64; 2], row: &JointSync) -> Option<(usize, i64, i64)> {
    let position = |moment: &Moment| {
        let member = *ctx.member.get(moment.member.as_str())?;
        let steps = ctx.spots[member].steps();
        if moment.run >= ctx.joint.members[member].runs || moment.step >= steps {
            return None;
        }
        Some((member, i64::try_from(moment.run.checked_mul(steps)?.checked_add(moment.step)?).ok()?))
    };
    let ((from, after), (to, before)) = (position(&row.after)?, position(&row.before)?);
    let is_near = row.periods_later.unsigned_abs() <= 2;
    let before = row.periods_later.checked_mul(lengths[to])?.checked_add(before)?;
    (from != to && is_near).then_some((from, after, before))
}

fn words_of(moment: &Moment) -> String {
    format!("step {} of {} (run {})", moment.step, moment.member, moment.run)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether positions of both members follow each other in the closure of six periods.
    fn reaches(lengths: [i64; 2], waits: &[(usize, i64, i64)], periods: i64) -> Vec<Vec<bool>> {
        let count = ((lengths[0] + lengths[1]) * periods) as usize;
        let at = |member: usize, position: i64| {
            (if member == 0 { 0 } else { lengths[0] * periods } + position) as usize
        };
        let mut edges = vec![vec![false; count]; count];
        for member in 0..2 {
            for position in 1..lengths[member] * periods {
                edges[at(member, position - 1)][at(member, position)] = true;
            }
            for (_, after, before) in waits.iter().filter(|wait| wait.0 == member) {
                for period in 0..periods {
                    let (from, to) =
                        (after + period * lengths[member], before + period * lengths[1 - member]);
                    if (0..lengths[1 - member] * periods).contains(&to) {
                        edges[at(member, from)][at(1 - member, to)] = true;
                    }
                }
            }
        }
        for middle in 0..count {
            let behind = edges[middle].clone();
            for row in edges.iter_mut().filter(|row| row[middle]) {
                row.iter_mut().zip(&behind).for_each(|(edge, more)| *edge |= more);
            }
        }
        edges
    }

    #[test]
    fn uses_are_ordered_as_a_closure_of_all_steps_says() {
        let mut random = 7_u64;
        let mut next = |below: i64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((random >> 33) % below as u64) as i64
        };
        let (mut ordered, mut stuck) = (0, 0);
        for _ in 0..400 {
            let lengths = [next(3) + 1, next(3) + 1];
            let count = next(4) + 1;
            let waits: Vec<(usize, i64, i64)> = (0..count)
                .map(|_| {
                    let member = next(2) as usize;
                    (
                        member,
                        next(lengths[member]),
                        next(lengths[1 - member]) + (next(3) - 1) * lengths[1 - member],
                    )
                })
                .collect();
            let chains = Chains::of(lengths, &waits);
            let periods = 9;
            let edges = reaches(lengths, &waits, periods);
            let is_stuck = (0..edges.len()).any(|at| edges[at][at]);
            let found =
                waits.iter().any(|(member, after, before)| chains.behind(1 - member, *before) <= *after);
            assert_eq!(found, is_stuck, "{lengths:?} {waits:?}");
            stuck += usize::from(is_stuck);
            if is_stuck {
                continue;
            }
            let at = |member: usize, position: i64| {
                (if member == 0 { 0 } else { lengths[0] * periods } + position) as usize
            };
            let one = (next(lengths[0]), lengths[0]);
            let other = (next(lengths[1]), lengths[1]);
            // Uses of the middle period of one member, and of all periods of the other.
            let middle = periods / 2 * lengths[0];
            let all = (0..periods).all(|period| {
                let first = period * lengths[1];
                edges[at(0, middle + one.1 - 1)][at(1, first + other.0)]
                    || edges[at(1, first + other.1 - 1)][at(0, middle + one.0)]
            });
            assert_eq!(chains.orders(one, other), all, "{lengths:?} {waits:?} {one:?} {other:?}");
            ordered += usize::from(all);
        }
        assert!(ordered > 20 && stuck > 20, "{ordered} ordered, {stuck} stuck");
    }
}
