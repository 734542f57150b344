//! Plans that split the batch into parts: a power of two, or another divisor. Sums over parts are taken in
//! another order than over the whole batch.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Dim};
use memc_passes::micro_batch::is_divided;
use memc_passes::{PipelineError, Seek, Settings};

use crate::goal::slowed;
use crate::limited::within;
use crate::model::{Planned, need};
use crate::pool::Verdict;
use crate::score::Score;
use crate::search::Search;

/// Checks that the batch may be split, and that a byte limit without a slowdown needs more than the
/// current best plan.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.wish.limit.is_some() && search.wish.slowdown == 0 {
        super::slow(search)?;
    }
    if search.may_divide_batch() { Ok(()) } else { Err("the batch is split only on request") }
}

/// Searches for the best number of parts.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    if search.wish.limit.is_some() { for_the_limit(search) } else { without_limit(search) }
}

/// Tries larger numbers of parts, without rewriting, while the score improves; plans the best number with
/// rewriting and regions, and smaller numbers until a plan is the best one.
fn without_limit(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    // Rewriting saves about as much time in parts as in the whole batch.
    let saved = in_parts(search, 1, false)?.nanos(options).saturating_sub(search.pool.free().nanos(options));
    let goal = search
        .pool
        .goal
        .longest()
        .map_or(search.pool.goal, |most| search.pool.goal.within_time(most + saved));
    let mut numbers: Vec<(u64, Score)> = Vec::new();
    for parts in numbers_of_parts(search) {
        let Some(quick) = divided(search, parts)? else { break };
        let score = quick.score(&goal, options);
        search.offer(format!("{parts} parts of the nodes as given"), quick);
        if numbers.last().is_some_and(|(_, known)| *known <= score) {
            break;
        }
        numbers.push((parts, score));
    }
    for (parts, _) in numbers.into_iter().rev() {
        let plan = in_parts(search, parts, true)?;
        if search.offer(format!("{parts} parts"), plan) == Verdict::Best {
            break;
        }
    }
    Ok(())
}

/// Searches for the fewest parts that keep the limit, and remembers numbers that nearly keep the limit
/// for a search with recomputation. With a slowdown, goes on to more parts while they keep the time
/// limit.
fn for_the_limit(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let limit = search.limit();
    let mut last = Bytes(u64::MAX);
    for parts in numbers_of_parts(search) {
        let Some(quick) = divided(search, parts)? else { break };
        let need = quick.need(search.model.options);
        if need.0 > last.0 - last.0 / search.tuning.least_saving {
            search.nothing(format!("{parts} parts save too little"));
            break;
        }
        last = need;
        search.pool.reach(need);
        if need.0 > limit.0.saturating_add(limit.0 / search.tuning.near_limit) {
            search.nothing(format!("{parts} parts are far from the limit"));
            continue;
        }
        let plan = in_parts(search, parts, true)?;
        search.known.near_parts.push((parts, plan.clone()));
        for found in [plan, quick].into_iter().filter(|found| is_divided(&found.module)) {
            let found = search.pool.measured(found);
            search.offer(format!("{parts} parts"), found);
        }
        let is_enough = match search.wish.slowdown {
            0 => search.pool.best().is_some(),
            // More parts only take longer.
            slowdown => search.known.near_parts.last().is_some_and(|(_, plan)| {
                plan.nanos(search.model.options) > slowed(search.model.nanos(), slowdown)
            }),
        };
        if is_enough {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the heuristic plan of the nodes as given with the batch in `parts` parts, or `None` if the
/// batch cannot be split like this.
fn divided(search: &mut Search<'_>, parts: u64) -> Result<Option<Planned>, PipelineError> {
    let settings = Settings { parts: Some(parts), ..search.settings() };
    let is_possible = is_divided(&search.forms.prepared(&settings)?.module);
    let quick = if is_possible { Some(in_parts(search, parts, false)?) } else { None };
    let quick = quick.filter(|quick| is_divided(&quick.module));
    if quick.is_none() {
        search.nothing(format!("the batch has no {parts} parts that are worth it"));
    }
    Ok(quick)
}

/// Checks that some numbers of parts nearly keep the limit.
pub(super) fn near_are_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::very_slow(search)?;
    if search.known.near_parts.is_empty() { Err("no number of parts nearly keeps the limit") } else { Ok(()) }
}

/// Plans with recomputation for each number of parts that nearly keeps the limit, until a plan is faster
/// than the best one before.
pub(super) fn near_and_recompute(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let known = search.pool.fastest();
    for (parts, plan) in std::mem::take(&mut search.known.near_parts) {
        if search.pool.is_slow(search.tuning.large_overhead) && search.pool.fastest() == known {
            and_recompute(search, parts, &plan)?;
        }
    }
    Ok(())
}

/// Checks that the model may be split into two parts and is small enough. Two parts may leave less to
/// recompute than the whole batch, even far from the limit.
pub(super) fn two_are_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if !search.may_divide_batch() {
        return Err("the batch is split only on request");
    }
    if search.model.nodes() > search.tuning.max_nodes_in_two_parts {
        Err("the model is too large")
    } else {
        Ok(())
    }
}

/// Plans the batch in two parts and recomputes values that do not fit, if the two parts alone save
/// enough bytes.
pub(super) fn two_and_recompute(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    let noticeable = search.tuning.noticeable_saving;
    let saves = |less: Bytes, whole: Bytes| less.0 <= whole.0 - whole.0 / noticeable;
    let halved = in_parts(search, 2, false)?.need(options);
    let is_smaller = saves(halved, need(&search.pool.file_order.module, options));
    if !is_smaller || !saves(halved, in_parts(search, 1, false)?.need(options)) {
        search.nothing("two parts save too little");
        return Ok(());
    }
    let plan = in_parts(search, 2, true)?;
    if is_divided(&plan.module) && saves(plan.need(options), search.pool.free().need(options)) {
        and_recompute(search, 2, &plan)?;
    } else {
        search.nothing("two parts save too little");
    }
    Ok(())
}

/// Plans the batch in `parts` parts and recomputes or moves values that do not fit.
fn and_recompute(search: &mut Search<'_>, parts: u64, free: &Planned) -> Result<(), PipelineError> {
    let nodes = search.model.nodes() as u64 * parts;
    let effort = Some(search.model.options.effort / (nodes / search.tuning.full_effort_nodes).max(1));
    let settings = Settings { parts: Some(parts), effort, seek: Seek::Soon, ..search.settings() };
    let name = format!("{parts} parts, recomputing");
    let found = within(search, &settings, free);
    if let Some(found) = search.or_nothing(&name, found)? {
        let found = search.pool.measured(found);
        search.offer(name, found);
    }
    Ok(())
}

/// Plans the batch in `parts` parts by heuristics alone.
fn in_parts(search: &Search<'_>, parts: u64, rewrites: bool) -> Result<Planned, PipelineError> {
    // Small models are planned in parts even under a hopeless limit: the refusal states the smallest
    // plan.
    let limit = search.wish.limit.filter(|_| rewrites || search.model.nodes() > search.tuning.large_model);
    let settings = Settings { parts: Some(parts), effort: Some(0), limit, ..search.settings() };
    search.plan(&settings, rewrites)
}

/// Returns the numbers of batch parts to try, ascending; nodes times parts stay below the maximum.
fn numbers_of_parts(search: &Search<'_>) -> Vec<u64> {
    let module = search.model.module;
    let inputs = module.graph(module.main()).inputs.iter();
    let given = inputs.filter(|input| module.value(**input).default.is_none());
    let firsts = given.filter_map(|input| module.ty(*input).tensor()?.shape.as_ref()?.first());
    let (fixed, free): (Vec<&Dim>, Vec<&Dim>) = firsts.partition(|first| first.known().is_some());
    let largest = |first: &Dim| module.domain().ranges.get(first.expr()?.as_symbol()?)?.max;
    let free = free.into_iter().map(|first| largest(first).unwrap_or(u64::MAX)).max().unwrap_or(0);
    let fixed = fixed.into_iter().filter_map(Dim::known).collect();
    let most = search.tuning.max_nodes_in_parts as u64 / (search.model.nodes() as u64).max(1);
    numbers_of(&fixed, free, most.min(1 << search.tuning.max_doublings))
}

/// Returns powers of two while they divide one of the fixed extents, then multiples that do. An extent up to
/// `free` has any number of parts: the largest leaves one position to each part.
fn numbers_of(fixed: &BTreeSet<u64>, free: u64, most: u64) -> Vec<u64> {
    let divides = |parts: u64| parts <= free || fixed.iter().any(|extent| extent.is_multiple_of(parts));
    let mut numbers: Vec<u64> = std::iter::successors(Some(2_u64), |parts| parts.checked_mul(2))
        .take_while(|parts| *parts <= most && divides(*parts))
        .collect();
    loop {
        let last = numbers.last().copied().unwrap_or(1);
        let is_next = |parts: &u64| {
            let mut both = fixed.iter().filter(|extent| extent.is_multiple_of(last));
            *parts == free || parts.is_multiple_of(last) && both.any(|extent| extent.is_multiple_of(*parts))
        };
        match (last + 1..=most).find(is_next) {
            Some(next) => numbers.push(next),
            None => return numbers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_parts_divide_the_batch() {
        let numbers = |fixed: &[u64], free: u64| numbers_of(&fixed.iter().copied().collect(), free, 64);
        assert_eq!(numbers(&[8], 0), [2, 4, 8]);
        assert_eq!(numbers(&[3], 0), [3]);
        assert_eq!(numbers(&[12], 0), [2, 4, 12]);
        assert_eq!(numbers(&[100], 0), [2, 4, 20]);
        assert_eq!(numbers(&[45], 0), [3, 9, 45]);
        assert_eq!(numbers(&[6, 128], 0), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers(&[], 8), [2, 4, 8]);
        assert_eq!(numbers(&[], 3), [2, 3]);
        assert_eq!(numbers(&[], 100), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers(&[], u64::MAX), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers(&[1], 0), [0; 0]);
        assert_eq!(numbers(&[0], 0), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers(&[67], 0), [0; 0]);
    }
}
