//! Search for a plan whose arena, offsets included, keeps a limit: solves, writes and places plans, and
//! mends plans whose offsets waste room.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Value};
use memc_solve::budget;
use memc_solve::budget::bound::Bounding;

use super::attempt::{Found, attempt, attempt_from, narrowed, tightened};
use super::mend::Asked;
use super::shortage::shortage;
use super::state::{Stated, SubViews, state};
use super::trial::arena;
use memc_passes::window::candidates;
use memc_passes::{PassContext, PassError, Seek};

/// The input module of the pass, with sub-views that copies do not have.
pub(crate) struct Given {
    pub(crate) module: Module,
    /// Arena of the module, in bytes.
    pub(crate) arena: Bytes,
}

/// Finds a plan whose arena keeps the limit. The constants in `fetched` are in a farther space.
///
/// Plans for the whole limit, then changes runs whose offsets waste room. The solver does not know
/// sub-views: if the module has some, the first capacity is larger by the bytes that these save.
///
/// # Errors
/// Returns [`PassError::Budget`] if no plan is found.
pub(crate) fn within(
    module: &Module,
    ctx: &PassContext<'_>,
    limit: Bytes,
    fetched: &[Value],
    sub_views: &SubViews,
    given: Option<&Given>,
) -> Result<Found, PassError> {
    let mut stated = Stated { sub_views: sub_views.clone(), ..state(module, ctx.options, fetched) };
    if ctx.settings.only_codes {
        stated.allow_only_codes();
    }
    // The solver's sizes are multiples of the alignment; the topmost buffer need not fill its last unit.
    let aligned = ctx.options.aligned(limit).0;
    let order: Vec<u32> = (0..stated.nodes.len() as u32).collect();
    let windowed = with_all_windows(module, ctx, &stated);
    let bounding = Bounding::new(&windowed, &order, aligned);
    let bound = working_set(&windowed).max(bounding.least_peak());
    // The lower bound of a plan is the bound for the limit in any order, regardless of the plan's own
    // capacity.
    let certified = |mut found: Found| {
        let makespan = found.budgeted.makespan;
        let least = bounding
            .any_order(ctx.options.stop.bounded(ctx.effort()), makespan / stated.unit)
            .map_or(0, |least| least.makespan);
        found.budgeted.lower_bound = least.saturating_mul(stated.unit).min(makespan);
        found
    };
    // Plan for the whole limit, unless only the smallest plan is of interest.
    let saved = match given {
        Some(given) => arena(module, ctx, 0)?.0.saturating_sub(given.arena.0),
        None => 0,
    };
    let asked = Asked { module, ctx, stated: &stated, limit };
    let capacity = aligned.saturating_add(saved);
    if capacity >= bound
        && ctx.settings.seek != Seek::Least
        && let Some(found) = fitting(&asked, capacity)?
    {
        return Ok(certified(found));
    }
    // Without a limit nothing is fetched: these constants then take room next to the arena.
    let whole = arena(module, ctx, 0)?.saturating_add(aligned_sum(module, ctx, fetched));
    let found = if matches!(ctx.settings.seek, Seek::Longest | Seek::Least) {
        least(module, ctx, &stated, bound, whole)?
    } else {
        None
    };
    match found {
        // If another known plan keeps the limit, only the smallest plan is of interest.
        Some(found) if found.arena <= limit && ctx.settings.smallest.is_some_and(|known| known <= limit) => {
            Ok(certified(found))
        }
        Some(found) if found.arena <= limit => Ok(certified(gone_on(&asked, capacity, found)?)),
        found => {
            // No plan keeps the limit: describe the smallest one.
            let bound = Bytes(bound.saturating_sub(stated.padding));
            let given = given.map(|given| (given.arena, &given.module));
            let found = found.as_ref().map(|found| (found.arena, &found.module));
            let smallest = [given, found]
                .into_iter()
                .flatten()
                .fold((whole, module), |least, plan| if plan.0 < least.0 { plan } else { least });
            Err(PassError::Budget(Box::new(shortage(smallest, ctx, &stated, limit, bound)?)))
        }
    }
}

/// Returns the total of values placed next to each other, each aligned, in bytes.
fn aligned_sum(module: &Module, ctx: &PassContext<'_>, values: &[Value]) -> Bytes {
    let size = |value: &Value| ctx.options.aligned(module.size(*value).unwrap_or_default());
    values.iter().fold(Bytes(0), |sum, value| sum.saturating_add(size(value)))
}

/// Finds a plan for a capacity and mends the plan until its arena keeps the limit.
///
/// Takes the fastest of three plans: of a short search, of a search that continues from the short one,
/// and, if both waste room and cost much time, of a search with more room. Stops after the short search
/// if that finds nothing and the caller tries another way, or if its plan is much slower than the known
/// one.
fn fitting(asked: &Asked<'_, '_>, capacity: u64) -> Result<Option<Found>, PassError> {
    let &Asked { module, ctx, stated, .. } = asked;
    let tuning = &ctx.options.tuning.fit;
    let short = attempt(module, ctx, stated, capacity, tuning.short.of(ctx.effort()))?;
    // The caller tries another way, or knows a better plan.
    let is_enough = short.is_none() && ctx.settings.seek == Seek::Soon
        || short.as_ref().is_some_and(|found| asked.is_behind(found));
    if is_enough {
        return Ok(None);
    }
    // Search with more effort, and with more room if the plans waste room.
    let is_large = stated.problem.runs.len() > tuning.large_problem;
    let whole = match &short {
        _ if ctx.options.stop.is_due() => None,
        Some(short) if is_large => {
            attempt_from(module, ctx, stated, capacity, tuning.continued.of(ctx.effort()), Some(short))?
        }
        _ => attempt(module, ctx, stated, capacity, ctx.effort())?,
    };
    let mut all: Vec<Found> = whole.into_iter().chain(short).collect();
    let is_costly = |found: &Found| {
        let base = found.budgeted.base_cost;
        found.budgeted.makespan > base.saturating_add(tuning.costly.of(base))
    };
    if all.iter().all(|found| found.arena > asked.limit && is_costly(found)) {
        all.extend(loosely(asked, capacity)?);
    }
    // Mend the plans, the most promising first.
    all.sort_by_key(|found| mended_time(asked, found));
    let mut best: Option<Found> = None;
    for found in all {
        let dearest = best.as_ref().map_or(asked.known(), |best| best.budgeted.makespan);
        if mended_time(asked, &found) < dearest {
            best = asked.mended(found, dearest)?.or(best);
        }
    }
    Ok(best)
}

/// Finds a plan for slightly more room by a short search, and changes it until it keeps the capacity.
fn loosely(asked: &Asked<'_, '_>, capacity: u64) -> Result<Option<Found>, PassError> {
    let &Asked { module, ctx, stated, .. } = asked;
    let tuning = &ctx.options.tuning.fit;
    let (looser, effort) =
        (capacity.saturating_add(tuning.looser.of(capacity)), tuning.short.of(ctx.effort()));
    let found = attempt(module, ctx, stated, looser, effort)?;
    let Some(mut found) = found else { return Ok(None) };
    found.budgeted.capacity = capacity;
    if found.peak <= capacity {
        return Ok(Some(found));
    }
    let margins = vec![0; stated.nodes.len()];
    tightened(module, ctx, stated, &margins, &found, effort)
}

/// Makes a plan faster that needs less than the capacity: continues the search from the plan, with some
/// room left free for wasted offsets. Plans with transfers stay as they are.
fn gone_on(asked: &Asked<'_, '_>, capacity: u64, found: Found) -> Result<Found, PassError> {
    let &Asked { module, ctx, stated, .. } = asked;
    if !stated.problem.links.is_empty() {
        return Ok(found);
    }
    let dearest = found.budgeted.makespan;
    let tuning = &ctx.options.tuning.fit;
    for less in tuning.free_room.map(|part| capacity - part.of(capacity)) {
        let better =
            attempt_from(module, ctx, stated, less, tuning.continued.of(ctx.effort()), Some(&found))?;
        let better = better.filter(|better| better.budgeted.makespan < dearest);
        if let Some(better) = better.map(|better| asked.mended(better, dearest)).transpose()?.flatten() {
            return Ok(better);
        }
    }
    Ok(found)
}

/// Estimates the time of a plan after mending, in nanoseconds: prices the bytes that its offsets waste
/// by the time spent on the bytes saved so far.
fn mended_time(asked: &Asked<'_, '_>, found: &Found) -> u64 {
    let wasted = u128::from(found.arena.0.saturating_sub(asked.limit.0))
        * u128::from(asked.ctx.options.tuning.fit.steeper);
    let extra = u128::from(found.budgeted.makespan.saturating_sub(found.budgeted.base_cost)) * wasted;
    found
        .budgeted
        .makespan
        .saturating_add(u64::try_from(extra / u128::from(asked.limit.0.max(1))).unwrap_or(u64::MAX))
}

impl Asked<'_, '_> {
    /// Returns the time of the known plan, in nanoseconds, or the maximum if unknown; times of transfers
    /// are not comparable.
    fn known(&self) -> u64 {
        self.ctx.settings.fastest.filter(|_| self.stated.problem.links.is_empty()).unwrap_or(u64::MAX)
    }

    /// Returns whether a plan is so much slower than the known plan that more effort hardly helps.
    fn is_behind(&self, found: &Found) -> bool {
        let (known, base) = (self.known(), found.budgeted.base_cost);
        let tuning = &self.ctx.options.tuning.fit;
        let behind =
            tuning.behind_in_extra.of(known.saturating_sub(base)).max(tuning.behind_in_time.of(base));
        found.budgeted.makespan > known.saturating_add(behind)
    }
}

/// Returns the problem with all possible sub-views, whose parts take no bytes: its bound holds for every
/// plan with sub-views.
fn with_all_windows(module: &Module, ctx: &PassContext<'_>, stated: &Stated) -> budget::Problem {
    let mut problem = stated.problem.clone();
    let parts: BTreeSet<Value> =
        candidates(module, ctx).iter().map(|window| module.plan.owner(window.part).0).collect();
    for (value, _) in problem.values.iter_mut().zip(&stated.owners).filter(|(_, owner)| parts.contains(owner))
    {
        value.size = 0;
    }
    problem
}

/// Finds the smallest arena by bisection over capacities, from `bound` to `whole`, the need of the
/// module as it is. The search does not depend on the limit, so every limit reaches the arena that a
/// refusal names. If a smallest plan is known, only noticeably smaller plans count.
fn least(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    bound: u64,
    whole: Bytes,
) -> Result<Option<Found>, PassError> {
    let tuning = &ctx.options.tuning.fit;
    let effort = tuning.least_effort.of(ctx.effort());
    let (mut low, mut high) = (bound, whole.0);
    let mut best: Option<Found> = None;
    // Look below the known smallest plan first.
    if let Some(known) = ctx.settings.smallest {
        let middle = known.0 - tuning.least_precision.of(known.0);
        let found = if middle > low { attempt(module, ctx, stated, middle, effort)? } else { None };
        let Some(found) = found else { return Ok(None) };
        high = middle.min(found.peak).max(low);
        best = Some(found);
    }
    for _ in 0..tuning.least_rounds {
        if high.saturating_sub(low) <= tuning.least_precision.of(high) {
            break;
        }
        let middle = low + (high - low) / 2;
        // Changing the current plan is faster than a new search.
        let near =
            best.as_ref().map(|best| narrowed(module, ctx, stated, middle, best)).transpose()?.flatten();
        let found = match near {
            None => attempt(module, ctx, stated, middle, effort)?,
            near => near,
        };
        match found {
            None => low = middle + 1,
            Some(found) => {
                high = middle.min(found.peak).max(low);
                let better = best.as_ref().is_none_or(|best| found.arena < best.arena);
                best = if better { Some(found) } else { best };
            }
        }
    }
    Ok(best)
}

/// Returns a lower bound of every plan of these nodes, in bytes: the larger of the largest node and all
/// values that stay to the end.
pub(super) fn working_set(problem: &budget::Problem) -> u64 {
    let need = (0..problem.runs.len()).map(|run| problem.need(run)).max().unwrap_or(0);
    need.max(kept(problem))
}

/// Returns the total of the values that stay to the end of every plan, in bytes.
fn kept(problem: &budget::Problem) -> u64 {
    problem.values.iter().filter(|value| value.kept).map(|value| value.size).fold(0, u64::saturating_add)
}

/// Returns whether the values that stay to the end fit a limit; this holds with and without split
/// operators.
pub(crate) fn leaves_room(module: &Module, ctx: &PassContext<'_>, limit: Bytes) -> bool {
    kept(&state(module, ctx.options, &[]).problem) <= ctx.options.aligned(limit).0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memc_ir::SecondaryMap;

    use super::super::mend::tests::TEXT;
    use super::*;
    use memc_passes::Budgeted;
    use memc_passes::Options;

    fn context(options: &Options, effort: u64) -> PassContext<'_> {
        let mut ctx = PassContext::new(options, SecondaryMap::default());
        ctx.settings.effort = Some(effort);
        ctx
    }

    /// Returns a context that knows a plan of this time, in nanoseconds.
    fn knows<'o>(ctx: &PassContext<'o>, fastest: Option<u64>) -> PassContext<'o> {
        let mut ctx = ctx.clone();
        ctx.settings.fastest = fastest;
        ctx
    }

    #[test]
    fn outputs_count_to_the_end_and_inputs_do_not_count() {
        let text = "opset \"\" 13\nstage typed\ngraph @g {\n  input %x : f32[64,64]\n  %a = Exp(%x) : f32[64,64]\n  %b = Tanh(%a) : f32[64,64]\n  return %b\n}\n";
        let module = memc_ir::text::parse(text).unwrap();
        let options = Options::default();
        let ctx = PassContext::new(&options, SecondaryMap::default());
        let leaves =
            [16_384, 16_383 - options.space.alignment].map(|limit| leaves_room(&module, &ctx, Bytes(limit)));
        assert_eq!(leaves, [true, false]);
    }

    #[test]
    fn a_plan_found_with_more_room_is_changed_until_it_fits() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let options = Options::default();
        let ctx = context(&options, 1600);
        let stated = state(&module, &options, &[]);
        let whole = attempt(&module, &ctx, &stated, 1 << 20, 0).unwrap().unwrap();
        let capacity = whole.plan.peak - whole.plan.peak / (2 * options.tuning.fit.looser.0);
        let asked = Asked { module: &module, ctx: &ctx, stated: &stated, limit: Bytes(capacity) };
        let found = loosely(&asked, capacity).unwrap().unwrap();
        assert_eq!(found.budgeted.capacity, capacity);
        assert!(found.plan.peak <= capacity && found.plan.events.len() > whole.plan.events.len());
        // The plan found has room to spare here.
        let found = loosely(&asked, 1 << 20).unwrap().unwrap();
        assert_eq!(found.plan.events, whole.plan.events);
    }

    #[test]
    fn a_plan_below_the_limit_becomes_faster() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let options = Options::default();
        let ctx = context(&options, 1600);
        let stated = state(&module, &options, &[]);
        let room = 1 << 20;
        let peak = attempt(&module, &ctx, &stated, room, 0).unwrap().unwrap().plan.peak;
        let small = || attempt(&module, &ctx, &stated, peak - 1, 200).unwrap().unwrap();
        let asked = Asked { module: &module, ctx: &ctx, stated: &stated, limit: Bytes(room) };
        let found = gone_on(&asked, room, small()).unwrap();
        assert!(found.budgeted.makespan < small().budgeted.makespan);
        assert_eq!(found.plan.events.len(), stated.nodes.len(), "all that runs runs once");
        // A plan that needs all the room stays as it is.
        let asked = Asked { limit: Bytes(peak - 1), ..asked };
        assert_eq!(gone_on(&asked, peak - 1, small()).unwrap().plan.events, small().plan.events);
    }

    #[test]
    fn a_short_search_far_behind_a_known_plan_is_not_continued() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let options = Options::default();
        let ctx = context(&options, 1600);
        let stated = state(&module, &options, &[]);
        let peak = attempt(&module, &ctx, &stated, 1 << 20, 0).unwrap().unwrap().plan.peak;
        let found = |dearest: Option<u64>| {
            let ctx = knows(&ctx, dearest);
            let asked = Asked { module: &module, ctx: &ctx, stated: &stated, limit: Bytes(peak) };
            let found = fitting(&asked, peak - 1).unwrap()?;
            Some((asked.is_behind(&found), found.budgeted))
        };
        let (_, Budgeted { base_cost, makespan, .. }) = found(None).unwrap();
        assert!(makespan > base_cost);
        // With an equally fast or slightly slower known plan.
        assert!(found(Some(makespan)).is_none());
        assert_eq!(found(Some(makespan + 1)).map(|(is_behind, _)| is_behind), Some(false));
        let ctx = knows(&ctx, Some(base_cost));
        let asked = Asked { module: &module, ctx: &ctx, stated: &stated, limit: Bytes(peak) };
        let short = attempt(&module, &ctx, &stated, peak - 1, 200).unwrap().unwrap();
        assert!(asked.is_behind(&short));
        let ctx = knows(&ctx, Some(makespan));
        assert!(!Asked { ctx: &ctx, ..asked }.is_behind(&short));
    }

    #[test]
    fn a_plan_is_changed_until_it_keeps_a_smaller_capacity() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let options = Options::default();
        let ctx = PassContext::new(&options, SecondaryMap::default());
        let stated = state(&module, &options, &[]);
        let whole = attempt(&module, &ctx, &stated, 1 << 20, 0).unwrap().unwrap();
        let found = narrowed(&module, &ctx, &stated, whole.plan.peak - 1, &whole).unwrap().unwrap();
        assert!(found.plan.peak < whole.plan.peak && found.plan.events.len() > whole.plan.events.len());
        assert_eq!(found.budgeted.capacity, whole.plan.peak - 1);
        // The need of a single node stays.
        assert!(
            narrowed(&module, &ctx, &stated, working_set(&stated.problem) - 1, &whole).unwrap().is_none()
        );
    }

    #[test]
    fn a_known_arena_ends_the_search_for_the_smallest_one() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let options = Options::default();
        let stated = state(&module, &options, &[]);
        let least = |smallest: Option<Bytes>| {
            let mut ctx = PassContext::new(&options, SecondaryMap::default());
            ctx.settings.smallest = smallest;
            least(&module, &ctx, &stated, 0, arena(&module, &ctx, 0).unwrap())
                .unwrap()
                .map(|found| found.arena)
        };
        let smallest = least(None).unwrap();
        assert!(least(Some(Bytes(2 * smallest.0))).is_some_and(|found| found <= smallest));
        assert_eq!(least(Some(smallest)), None);
    }
}
