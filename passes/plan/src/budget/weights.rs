//! Constants within a limit: constants that do not fit into the near space stay in a farther one and are
//! fetched before they are read.

use memc_ir::{Bytes, Module, SecondaryMap, Value};

use super::attempt::{Found, attempt};
use super::fit::{within, working_set};
use super::state::{Stated, SubViews, fetchable, state};
use super::trial::arena;
use memc_passes::analysis::near_constants;
use memc_passes::{PassContext, PassError, Seek};

/// Finds a plan whose arena and near constants keep the limit `room`; `None` if all constants fit next
/// to the arena of the given plan.
///
/// The constants to keep near are chosen in two orders. Smallest first: each near constant saves the
/// latency of a copy, for the least room. First read first: until a fetch is hidden, all earlier fetches
/// count in full, so that an early byte costs the most unhidden time. The share of the room for
/// constants is tried in eighths, and up to the maximum that leaves room for the reads of one step. The
/// fastest plan is kept.
///
/// # Errors
/// Returns an error if no plan keeps the room.
pub(super) fn within_room(
    module: &Module,
    ctx: &PassContext<'_>,
    room: Bytes,
    sub_views: &SubViews,
) -> Result<Option<Found>, PassError> {
    let all = near_constants(module);
    if arena(module, ctx, ctx.effort())?.saturating_add(all) <= room {
        return Ok(None);
    }
    let smallest_first = fetchable(module, ctx.options);
    let always = all.0.saturating_sub(sum(&sizes(module, &smallest_first)));
    let rest = room.0.saturating_sub(always);
    // The known smallest plan counts the constants that are always near; the arena here does not.
    let mut beside = ctx.clone();
    beside.settings.smallest = ctx.settings.smallest.map(|known| Bytes(known.0.saturating_sub(always)));
    let ctx = &beside;
    let mut tried: Vec<(u64, u64, Choice)> = Vec::new();
    // Every near constant makes the smallest arena larger.
    if ctx.settings.seek != Seek::Least {
        let first_read_first = by_first_read(module, &smallest_first);
        for order in [smallest_first.clone(), first_read_first] {
            for choice in choices(module, ctx, &order, rest) {
                let time = time(module, ctx, &choice.fetched, sub_views, choice.room)?;
                tried.extend(time.map(|time| (time, sum(&sizes(module, &choice.fetched)), choice)));
            }
        }
    }
    // Of equally fast plans, take the one that copies the fewest bytes.
    tried.sort_by_key(|(time, copied, _)| (*time, *copied));
    let plan = |choice: &Choice| within(module, ctx, Bytes(choice.room), &choice.fetched, sub_views, None);
    let found = tried
        .iter()
        .filter(|(.., choice)| choice.room < rest)
        .take(ctx.options.tuning.weights.choices)
        .find_map(|(.., choice)| plan(choice).ok());
    if found.is_some() {
        return Ok(found);
    }
    // No choice fits: fetch all constants that may be fetched.
    let all_fetched = Choice { fetched: smallest_first, room: rest };
    plan(&all_fetched).map(Some).map_err(|error| of_room(error, always))
}

/// Constants to fetch, and the room left next to the constants that stay near.
struct Choice {
    fetched: Vec<Value>,
    room: u64,
}

/// Returns choices in which a prefix of `order` stays near: the longest prefix for each share of the
/// room, and the longest prefix that leaves room for the reads of one step.
fn choices(module: &Module, ctx: &PassContext<'_>, order: &[Value], rest: u64) -> Vec<Choice> {
    let sizes = sizes(module, order);
    let choice = |stay: usize| Choice {
        fetched: order[stay..].to_vec(),
        room: rest.saturating_sub(sum(&sizes[..stay])),
    };
    let mut counts = prefixes(&sizes, rest, ctx.options.tuning.weights.shares.max(1));
    // The room shrinks with each near constant while the need of the largest step does not grow, so
    // bisection finds the maximum.
    let fits = |stay: usize| {
        let choice = choice(stay);
        sum(&sizes[..stay]) <= rest
            && working_set(&state(module, ctx.options, &choice.fetched).problem) <= choice.room
    };
    let (mut most, mut too_many) = (0, order.len() + 1);
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if fits(middle) { most = middle } else { too_many = middle }
    }
    counts.push(most);
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().map(choice).collect()
}

/// Sorts constants by the first step that reads them or a view of them.
fn by_first_read(module: &Module, constants: &[Value]) -> Vec<Value> {
    let nodes = &module.graph(module.main()).nodes;
    let mut first: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
    for (step, node) in nodes.iter().enumerate() {
        let is_view = |value: &Value| module.plan.alias[*value].is_some();
        if module.node(*node).results().all(|value| is_view(&value)) {
            // A view reads nothing by itself.
            continue;
        }
        for value in module.reads(*node) {
            let owner = module.plan.owner(value).0;
            if first[owner].is_none() {
                first.set(owner, Some(step));
            }
        }
    }
    let mut ordered = constants.to_vec();
    ordered.sort_by_key(|value| (first[*value].unwrap_or(nodes.len()), *value));
    ordered
}

/// Returns the size of each constant, in bytes.
fn sizes(module: &Module, constants: &[Value]) -> Vec<u64> {
    constants.iter().map(|value| module.size(*value).unwrap_or_default().0).collect()
}

fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}

/// Returns the numbers of constants that fit 0, 1, ... of `shares` equal shares of the room, without
/// repetition, in ascending order.
fn prefixes(sizes: &[u64], room: u64, shares: u64) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for share in 0..shares {
        let share = (u128::from(room) * u128::from(share) / u128::from(shares)) as u64;
        let fits = (0..=sizes.len()).take_while(|count| sum(&sizes[..*count]) <= share).last().unwrap_or(0);
        if found.last() != Some(&fits) {
            found.push(fits);
        }
    }
    found
}

/// Returns the time of the plan of a short search, in nanoseconds; `None` if the search finds no plan,
/// or a node needs more than the room by itself.
fn time(
    module: &Module,
    ctx: &PassContext<'_>,
    fetched: &[Value],
    sub_views: &SubViews,
    room: u64,
) -> Result<Option<u64>, PassError> {
    let stated = Stated { sub_views: sub_views.clone(), ..state(module, ctx.options, fetched) };
    if working_set(&stated.problem) > room {
        return Ok(None);
    }
    let found = attempt(module, ctx, &stated, room, ctx.effort() / ctx.options.tuning.weights.shares.max(1))?;
    Ok(found.map(|found| found.budgeted.makespan))
}

/// Restates an error about the arena for the whole space, with the constants that are always near.
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
    fn larger_shares_of_the_room_hold_more_of_the_smallest_weights() {
        assert_eq!(prefixes(&[1, 1, 2, 4, 100], 16, 8), [0, 2, 3, 4]);
        assert_eq!(prefixes(&[], 16, 8), [0]);
        assert_eq!(prefixes(&[100], 16, 8), [0]);
    }
}
