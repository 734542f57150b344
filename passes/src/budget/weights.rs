//! Constants under a budget: those that find no room in the near space lie in a farther one and are fetched before they are read.

use memc_ir::{Bytes, Module, Value};

use super::attempt::{Found, attempt};
use super::fit::{within, working_set};
use super::state::{fetchable, state};
use super::trial::arena;
use crate::analysis::near_constants;
use crate::pass::{PassContext, PassError, Seeks};

/// So many shares of the room are tried for constants that stay, each with as small a part of the effort.
const SHARES: u64 = 8;

/// A plan whose arena, with all constants that stay near, is no larger than the room; `None` where all of them stay beside the plan as it is.
///
/// Constants stay in order of their sizes, the smallest first: each one that stays saves the latency of a copy, and small ones take the least room for it.
/// How many do is tried in eighths of the room; the plan that takes the least time is kept.
///
/// # Errors
/// There is no such plan, or none was found.
pub(super) fn within_room(module: &Module, ctx: &PassContext<'_>, room: Bytes) -> Result<Option<Found>, PassError> {
    let all = near_constants(module);
    if arena(module, ctx, ctx.effort)?.saturating_add(all) <= room {
        return Ok(None);
    }
    let constants = fetchable(module, ctx.options);
    let sizes: Vec<u64> = constants.iter().map(|value| module.ty(*value).size().unwrap_or_default().0).collect();
    let always = all.0.saturating_sub(sizes.iter().fold(0, |sum, size| sum.saturating_add(*size)));
    let rest = room.0.saturating_sub(always);
    // What is known counts the constants that are always there, the arena here does not.
    let ctx = &PassContext { smallest: ctx.smallest.map(|known| Bytes(known.0.saturating_sub(always))), ..ctx.clone() };
    let mut best: Option<(u64, usize)> = None;
    // Every constant that stays makes the smallest arena larger.
    let shares = if ctx.seeks == Seeks::Least { Vec::new() } else { prefixes(&sizes, rest) };
    for stay in shares {
        if let Some(time) = time(module, ctx, &constants[stay..], rest.saturating_sub(sum(&sizes[..stay])))? {
            let better = best.is_none_or(|(least, _)| time < least);
            best = if better { Some((time, stay)) } else { best };
        }
    }
    let plan = |stay: usize| within(module, ctx, Bytes(rest.saturating_sub(sum(&sizes[..stay]))), &constants[stay..], None);
    if let Some((_, stay)) = best.filter(|(_, stay)| *stay > 0)
        && let Ok(found) = plan(stay)
    {
        return Ok(Some(found));
    }
    plan(0).map(Some).map_err(|error| of_room(error, always))
}

fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}

/// How many constants fit each share of the room, each number once, in ascending order.
fn prefixes(sizes: &[u64], room: u64) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for share in 0..SHARES {
        let share = (u128::from(room) * u128::from(share) / u128::from(SHARES)) as u64;
        let fits = (0..=sizes.len()).take_while(|count| sum(&sizes[..*count]) <= share).last().unwrap_or(0);
        if found.last() != Some(&fits) {
            found.push(fits);
        }
    }
    found
}

/// What a short search makes of it, in nanoseconds; `None` where it finds no plan, or a node needs more by itself.
fn time(module: &Module, ctx: &PassContext<'_>, fetched: &[Value], room: u64) -> Result<Option<u64>, PassError> {
    let stated = state(module, ctx.options, fetched);
    if working_set(&stated.problem) > room {
        return Ok(None);
    }
    let found = attempt(module, ctx, &stated, room, ctx.effort / SHARES)?;
    Ok(found.map(|found| found.budgeted.makespan))
}

/// What is said of the arena alone, said of the space with the constants that are always there.
fn of_room(error: PassError, always: u64) -> PassError {
    match error {
        PassError::Budget(mut short) => {
            for bytes in [&mut short.budget, &mut short.bound, &mut short.least] {
                *bytes = bytes.saturating_add(Bytes(always));
            }
            PassError::Budget(short)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_room_hold_more_and_more_of_the_smallest() {
        assert_eq!(prefixes(&[1, 1, 2, 4, 100], 16), [0, 2, 3, 4]);
        assert_eq!(prefixes(&[], 16), [0]);
        assert_eq!(prefixes(&[100], 16), [0]);
    }
}
