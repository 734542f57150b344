//! Plans of requests that ask for less: they do not depend on the limits of this search, so every limit that
//! they keep finds them.

use memc_ir::Bytes;
use memc_passes::PipelineError;

use crate::goal::slowed;
use crate::model::need;
use crate::search::{Search, Wish};

/// Number of limits up to the need of the file order that small models are planned for.
const LIMITS: u128 = 16;

/// Checks that there is a limit or a slowdown.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.wish == (Wish { limit: None, slowdown: 0 }) { Err("nothing is limited") } else { Ok(()) }
}

/// Offers the plan without limits; with a limit and a slowdown, also the plan of the slowdown alone. For a
/// small model, a slowdown also takes over the plan of the next smaller slowdown, which takes over the one
/// before.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    take_over(search, 0)?;
    let smaller =
        search.tuning.slowdowns.into_iter().filter(|slowdown| *slowdown < search.wish.slowdown).max();
    if let Some(smaller) = smaller.filter(|_| search.wish.limit.is_none() && is_small(search)) {
        take_over(search, smaller)?;
    }
    if search.wish.limit.is_some() && search.wish.slowdown > 0 {
        take_over(search, search.wish.slowdown)?;
    }
    Ok(())
}

/// Checks that the best plan is slow, regions may be split, and a large model still lacks a plan.
pub(super) fn slower_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    search.is_open()?;
    super::may_split(search)?;
    let is_large = search.model.nodes() > search.tuning.large_model;
    if is_large && search.pool.best().is_some() {
        Err("the model is large, and a plan keeps the limit")
    } else {
        Ok(())
    }
}

/// Offers plans of a fixed list of slowdowns: the smallest one whose plan keeps the limit, and those on the
/// way to it by bisection, as larger slowdowns need no more bytes. Leaves out slowdowns of which a smaller
/// one already allows the time of the best plan.
pub(super) fn slower(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let mut slowdowns = search.tuning.slowdowns;
    slowdowns.sort_unstable();
    let (given, fastest) = (search.model.nanos(), search.pool.fastest());
    let is_open = |slowdown: &u32| fastest.is_none_or(|nanos| slowed(given, *slowdown) < nanos);
    let count = slowdowns.iter().filter(|slowdown| is_open(slowdown)).count();
    let count = (count + usize::from(fastest.is_none_or(|nanos| nanos > given))).min(slowdowns.len());
    let mut open = &slowdowns[..count];
    while !open.is_empty() {
        let (smaller, larger) = open.split_at(open.len() / 2);
        let need = take_over(search, larger[0])?;
        let keeps = need.is_some_and(|need| need <= search.limit());
        open = if keeps { smaller } else { &larger[1..] };
    }
    Ok(())
}

/// Checks that there is a limit without a plan or with one that costs time, and that the model is small.
pub(super) fn lower_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::limited(search)?;
    match () {
        () if search.is_aside() => Err("the search serves another one"),
        () if search.wish.slowdown > 0 => Err("a slowdown is allowed"),
        () if !search.pool.is_slow(u64::MAX) => Err("no plan is faster"),
        () if !is_small(search) => Err("the model is large"),
        () => search.is_open(),
    }
}

/// Offers the plans of a fixed list of smaller limits, from the largest one down, until one has no plan
/// though a larger one has: a search with less room can end in a faster plan, or be the only one that ends
/// in a plan. Leaves out limits that the best plan keeps: their searches end in that plan.
pub(super) fn lower(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let whole = need(&search.pool.file_order.module, search.model.options);
    for part in (1..LIMITS).rev() {
        let limit = Bytes((u128::from(whole.0) * part / LIMITS) as u64);
        let is_kept = search.pool.best().is_some_and(|best| best.need(search.model.options) <= limit);
        if limit >= search.limit() || is_kept {
            continue;
        }
        let name = format!("{part}/{LIMITS} of the file order");
        match search.aside(Wish { limit: Some(limit), slowdown: 0 })? {
            // Its bounds hold for the smaller limit only.
            Some(found) => {
                let found = search.pool.measured(found);
                search.offer(name, found);
            }
            None => {
                search.nothing(name);
                if search.pool.best().is_some() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Whether a model is small enough to search for every limit and slowdown of a list.
fn is_small(search: &Search<'_>) -> bool {
    search.model.nodes() <= search.tuning.small_model
}

/// Offers the plan of a slowdown without a limit; returns its need.
fn take_over(search: &mut Search<'_>, slowdown: u32) -> Result<Option<Bytes>, PipelineError> {
    let name = match slowdown {
        0 => "without limits".to_owned(),
        _ => format!("slowdown {}.{:02} %", slowdown / 100, slowdown % 100),
    };
    let Some(found) = search.without_limit(slowdown)? else {
        search.nothing(name);
        return Ok(None);
    };
    let need = found.need(search.model.options);
    search.offer_free(name, found);
    Ok(Some(need))
}
