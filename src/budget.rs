//! Budgets: what the user asked for in bytes, a plan that keeps it, and what to say where a plan does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_layout::{Layout, ParetoPoint};
use memc_ops::Data;
use memc_passes::analysis::near_constants;
use memc_passes::answers::Answers;
use memc_passes::micro_batch::is_divided;
use memc_passes::split::is_split;
use memc_passes::{Budgeted, ExternalData, Observer, PassContext, PassError, PipelineError, Planned, Seeks, Shortage, Silent};

use crate::error::{EARLY, Error};
use crate::options::{OptimizeOptions, Size};

/// The part of the time that a plan may take beyond what there is without a budget, for which no other plan is looked for.
const SMALL: u64 = 100;
/// The part of its bytes that a plan of twice as many parts must save for still more parts to be tried.
const WORTH: u64 = 32;
/// Models of more nodes are not planned in parts where sums over parts alone pass the budget, nor in regions where something else keeps it.
const LARGE: usize = 1000;
/// The part of a limit by which a plan without rewriting may pass it for one with rewriting to be tried.
const NEAR: u64 = 8;
/// Hundredths of a limit for which regions are divided where those for the whole limit do not keep it.
const LESS: [u64; 4] = [97, 90, 80, 65];
/// Hundredths of a per cent of time that less memory may cost where no plan for a limit keeps it; and how little that must be for no less to be tried.
const LAVISH: u32 = 2000;
const FRUGAL: u32 = 50;
/// At most two to this power is the number of parts of a batch.
const MOST_DOUBLINGS: u32 = 6;
/// A batch is computed in so many parts at most that about so many nodes are left: plans of more take minutes.
const MOST_NODES: usize = 32_768;
/// The part of the time beyond which two parts of the batch that compute again are tried, in models of at most so many nodes, and the part of its bytes that
/// the batch in two parts must save by itself.
const COSTLY: u64 = 20;
const LARGEST: usize = 4000;
const NOTICEABLE: u64 = 16;
/// Hundredths of a limit that a node may need by itself where regions are in parts so that all else can be computed again.
const ALONE: u64 = 75;

/// What is known of elements, as inference found it.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// The most that the arena of the first space may have: its budget, and no more than the space holds.
pub(crate) fn room(options: &OptimizeOptions, whole: Bytes) -> Result<Option<Bytes>, Error> {
    let asked = budget(options, whole)?.get(&options.plan.space.name).copied().map(Bytes);
    Ok([asked, options.plan.space.capacity].into_iter().flatten().min())
}

/// A model whose budgets are planned.
pub(crate) struct Budgets<'a> {
    pub(crate) given: &'a Module,
    pub(crate) options: &'a OptimizeOptions,
    pub(crate) data: &'a Known,
    pub(crate) external: &'a dyn ExternalData,
    /// What plans of the same model found before.
    pub(crate) answers: Answers,
}

impl Budgets<'_> {
    /// The plan, or the one that is found where less is asked for, if that serves better: searches are greedy, and where memory counts for more they may
    /// end on more, or take more time than what fits anyway.
    pub(crate) fn or_plainer(&self, planned: Planned, limit: Option<Bytes>) -> Result<Planned, Error> {
        let mut own = without_limits(&self.options.plan);
        match limit {
            Some(_) if !is_split(&planned.module) => return Ok(planned),
            None if own.rewrite.slowdown == 0 => return Ok(planned),
            _ => own.rewrite.slowdown = 0,
        }
        let plainer = self.planned(&own, Seeks::Longest)?;
        let rank = |planned: &Planned| {
            let (need, nanos) = (self.need(planned), self.nanos(planned));
            limit.map_or((need.0, nanos), |limit| (need.0.saturating_sub(limit.0), nanos))
        };
        Ok(if rank(&plainer) < rank(&planned) { plainer } else { planned })
    }

    /// The plan, if its arena keeps the limit; else one that computes again what there is no room to keep. Where regions in parts keep the limit, but
    /// take noticeably longer, the faster of both.
    pub(crate) fn within(&self, planned: Planned, limit: Option<Bytes>, observer: &mut dyn Observer) -> Result<Planned, Error> {
        let Some(limit) = limit else { return Ok(planned) };
        let fits = self.need(&planned) <= limit;
        if fits && (!is_split(&planned.module) || self.nanos(&planned) <= self.given_nanos() / SMALL * (SMALL + 1)) {
            return Ok(planned);
        }
        match self.plan(limit, &planned, observer) {
            Ok(found) if !fits || self.nanos(&found) < self.nanos(&planned) => Ok(Planned { base: planned.base, ..found }),
            Err(error) if !fits => Err(error.into()),
            _ => Ok(planned),
        }
    }

    /// The plan within a limit that takes less time: one that computes the batch in parts, or one that computes again or moves.
    fn plan(&self, limit: Bytes, free: &Planned, observer: &mut dyn Observer) -> Result<Planned, PipelineError> {
        let own =
            memc_passes::Options { budget: Some(limit), far_budgets: far_budgets(self.options), ..self.options.plan.clone() };
        let base = self.nanos(free).min(self.given_nanos());
        let (divided, smallest) = self.divided(&own, limit)?;
        let divided = divided.map(|planned| self.measured(planned, base, limit));
        let extra = |planned: &Planned| self.nanos(planned).saturating_sub(base);
        if let Some(divided) = divided.as_ref().filter(|planned| own.farther.is_empty() && extra(planned) <= base / SMALL) {
            return Ok(divided.clone());
        }
        // What is more than a short search would find is not needed where there is another plan.
        let seeks = if divided.is_some() { Seeks::Soon } else { Seeks::Longest };
        match (self.planned_within(&own, seeks, free, observer), divided) {
            (Ok(planned), Some(divided)) if self.nanos(&divided) < self.nanos(&planned) => Ok(divided),
            (Ok(planned), None) if extra(&planned) > base / SMALL => self.or_faster(&own, limit, free, base, planned),
            (Err(PipelineError::Pass(PassError::Budget(_))), Some(divided)) => Ok(divided),
            (Err(PipelineError::Pass(PassError::Budget(short))), None) => {
                let least = smallest.map_or(short.least, |parts| parts.min(short.least));
                self.or_short(&own, limit, base, free, Shortage { least, ..*short })
            }
            (planned, _) => planned,
        }
    }

    /// A plan within a limit that computes the batch in two parts, where these save bytes by themselves, and again what does not fit. They may be far from
    /// the limit, and still leave less to compute again than the whole batch.
    fn in_two_parts(&self, own: &memc_passes::Options, limit: Bytes, free: &Planned) -> Result<Option<Planned>, PipelineError> {
        if !self.may_divide(own) || self.given.graph(self.given.main()).nodes.len() > LARGEST {
            return Ok(None);
        }
        let plan = self.in_parts(own, 2, true)?;
        let whole = self.need(free).0;
        if !is_divided(&plan.module) || self.need(&plan).0 > whole - whole / NOTICEABLE {
            return Ok(None);
        }
        Ok(self.in_parts_again(own, 2, &plan)?.filter(|again| self.need(again) <= limit))
    }

    /// A plan of whole nodes, or one with regions in parts within the same limit that takes less time.
    fn or_faster(
        &self,
        own: &memc_passes::Options,
        limit: Bytes,
        free: &Planned,
        base: u64,
        planned: Planned,
    ) -> Result<Planned, PipelineError> {
        let bought = if self.is_large() { None } else { self.bought(own, limit)? };
        let bought = bought.filter(|(need, _)| *need <= limit).map(|(_, bought)| bought);
        let mut others: Vec<Planned> = bought.into_iter().chain(self.in_regions_again(own, limit)?).collect();
        let costs = |planned: &Planned| self.nanos(planned) > base + base / COSTLY;
        if costs(&planned) && others.iter().all(costs) {
            others.extend(self.in_two_parts(own, limit, free)?);
        }
        let best =
            others.into_iter().min_by_key(|other| self.nanos(other)).filter(|other| self.nanos(other) < self.nanos(&planned));
        Ok(best.map_or(planned, |best| self.measured(best, base, limit)))
    }

    /// A plan with regions in parts within a limit that no plan of whole nodes keeps, or what those are short of.
    fn or_short(
        &self,
        own: &memc_passes::Options,
        limit: Bytes,
        base: u64,
        free: &Planned,
        short: Shortage,
    ) -> Result<Planned, PipelineError> {
        let again = self.in_regions_again(own, limit)?.map(|again| self.measured(again, base, limit));
        let regions = self.in_regions(own, limit, free)?;
        let kept = regions.iter().filter(|(kept, _)| *kept <= limit).map(|(_, planned)| planned);
        if let Some(planned) = again.iter().chain(kept).min_by_key(|planned| self.nanos(planned)) {
            return Ok(planned.clone());
        }
        let least = regions.map_or(short.least, |(kept, _)| kept.min(short.least));
        let only_whole = may_split(own) || self.may_divide(own);
        Err(PipelineError::Pass(PassError::Budget(Box::new(Shortage { least, only_whole, ..short }))))
    }

    /// A plan with regions in parts that keeps a limit, or else the smallest one that was seen, whatever its time; with what it needs.
    ///
    /// Regions are chosen by what is live, and offsets may need a little more: plans for less may keep the limit where one for it does not.
    fn in_regions(
        &self,
        own: &memc_passes::Options,
        limit: Bytes,
        free: &Planned,
    ) -> Result<Option<(Bytes, Planned)>, PipelineError> {
        if !may_split(own) {
            return Ok(None);
        }
        let bought = self.bought(own, limit)?;
        if bought.as_ref().is_some_and(|(need, _)| *need <= limit) {
            return Ok(bought);
        }
        let plan = |limit: Bytes, seeks: Seeks, effort: u64| {
            self.planned(&memc_passes::Options { budget: Some(limit), effort, ..own.clone() }, seeks)
        };
        let smallest = plan(Bytes(0), Seeks::Least, 0)?;
        let in_regions = [&smallest, free].into_iter().filter(|planned| is_split(&planned.module));
        let Some(least) = in_regions.min_by_key(|planned| self.need(planned)) else { return Ok(bought) };
        let need = self.need(least);
        for part in LESS.into_iter().filter(|_| need <= limit) {
            let found = plan(hundredths(limit, part), Seeks::Longest, own.effort)?;
            if self.need(&found) <= limit {
                return Ok(Some((limit, found)));
            }
        }
        Ok(Some((need, least.clone())).into_iter().chain(bought).min_by_key(|(need, _)| *need))
    }

    /// A plan with regions in parts that needs as much less as time buys, with what it needs: for half of the time where that buys enough, too.
    fn bought(&self, own: &memc_passes::Options, limit: Bytes) -> Result<Option<(Bytes, Planned)>, PipelineError> {
        let mut best: Option<(Bytes, Planned)> = None;
        if !may_split(own) {
            return Ok(None);
        }
        let mut own = without_limits(own);
        let mut slowdown = own.rewrite.slowdown.max(LAVISH);
        while slowdown > FRUGAL {
            own.rewrite.slowdown = slowdown;
            let found = self.planned(&own, Seeks::Longest)?;
            let need = self.need(&found);
            let is_better = best.as_ref().is_none_or(|(_, other)| need <= limit && self.nanos(&found) < self.nanos(other));
            if !is_split(&found.module) || !is_better {
                break;
            }
            slowdown = self.slowdown(&found).min(slowdown) / 2;
            best = Some((need, found));
            if need > limit {
                break;
            }
        }
        Ok(best)
    }

    /// Whether memc may compute the batch in parts without being asked.
    fn may_divide(&self, own: &memc_passes::Options) -> bool {
        let rewrite = own.rewrite;
        rewrite.enabled && !rewrite.exact && rewrite.micro_batches.is_none()
    }

    /// The plan that computes the batch in the fewest parts, in powers of two, with which it fits, or with which it nearly fits and does where they compute
    /// again; and what the smallest one in parts needs that computes nothing again.
    ///
    /// Sums over parts are taken in another order than over the whole batch.
    fn divided(&self, own: &memc_passes::Options, limit: Bytes) -> Result<(Option<Planned>, Option<Bytes>), PipelineError> {
        if !self.may_divide(own) {
            return Ok((None, None));
        }
        let (mut last, mut near) = (None, Vec::new());
        for parts in numbers_of_parts(self.given.graph(self.given.main()).nodes.len()) {
            let quick = self.in_parts(own, parts, false)?;
            let need = self.need(&quick);
            if !is_divided(&quick.module) || last.is_some_and(|last: Bytes| need.0 > last.0 - last.0 / WORTH) {
                break;
            }
            last = Some(need);
            if need.0 <= limit.0.saturating_add(limit.0 / NEAR) {
                let plan = self.in_parts(own, parts, true)?;
                let fits = |plan: &&Planned| is_divided(&plan.module) && self.need(plan) <= limit;
                if let Some(found) = [&plan, &quick].into_iter().filter(fits).min_by_key(|plan| self.nanos(plan)) {
                    return Ok((Some(found.clone()), last));
                }
                near.push((parts, plan));
            }
        }
        for (parts, plan) in near {
            if let Some(found) = self.in_parts_again(own, parts, &plan)?.filter(|found| self.need(found) <= limit) {
                return Ok((Some(found), last));
            }
        }
        Ok((None, last))
    }

    /// A plan with regions in parts that let each node by itself keep within a part of a limit, and that computes again or moves what does not fit then; none
    /// where none is found soon.
    fn in_regions_again(&self, own: &memc_passes::Options, limit: Bytes) -> Result<Option<Planned>, PipelineError> {
        if !may_split(own) {
            return Ok(None);
        }
        let context = self.context(own, Seeks::Soon);
        match memc_passes::plan_in_regions(self.given, context, hundredths(limit, ALONE), self.options.verify) {
            Err(PipelineError::Pass(PassError::Budget(_))) => Ok(None),
            found => Ok(found?.filter(|found| self.need(found) <= limit)),
        }
    }

    /// A plan that computes the batch in so many parts, and again or elsewhere what does not fit; none where none is found soon.
    fn in_parts_again(&self, own: &memc_passes::Options, parts: u64, free: &Planned) -> Result<Option<Planned>, PipelineError> {
        let rewrite = memc_passes::Rewriting { micro_batches: Some(parts), ..own.rewrite };
        let own = memc_passes::Options { rewrite, ..own.clone() };
        match self.planned_within(&own, Seeks::Soon, free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(_))) => Ok(None),
            found => found.map(Some),
        }
    }

    /// A plan by heuristics alone that computes the batch in so many parts.
    fn in_parts(&self, own: &memc_passes::Options, parts: u64, enabled: bool) -> Result<Planned, PipelineError> {
        let rewrite = memc_passes::Rewriting { micro_batches: Some(parts), enabled, ..own.rewrite };
        // What small models need in parts is found out even where the budget is hopeless, for what is said of smaller ones.
        let budget = own.budget.filter(|_| enabled || self.is_large());
        self.planned(&memc_passes::Options { rewrite, effort: 0, budget, ..own.clone() }, Seeks::Longest)
    }

    /// Whether searches of more than one kind would take long.
    fn is_large(&self) -> bool {
        self.given.graph(self.given.main()).nodes.len() > LARGE
    }

    /// The plan of some options.
    fn planned(&self, own: &memc_passes::Options, seeks: Seeks) -> Result<Planned, PipelineError> {
        memc_passes::plan(self.given, self.context(own, seeks), self.options.verify, &mut Silent)
    }

    /// The plan within the budget of some options, where `free` needs more.
    fn planned_within(
        &self,
        own: &memc_passes::Options,
        seeks: Seeks,
        free: &Planned,
        observer: &mut dyn Observer,
    ) -> Result<Planned, PipelineError> {
        memc_passes::plan_within(self.given, self.context(own, seeks), free, self.options.verify, observer)
    }

    /// What passes are given.
    fn context<'o>(&'o self, own: &'o memc_passes::Options, seeks: Seeks) -> impl Fn(&Module) -> PassContext<'o> {
        let answers = &self.answers;
        move |module| PassContext {
            external: Some(self.external),
            answers: answers.clone(),
            seeks,
            ..PassContext::new(own, self.data.clone(), module)
        }
    }

    /// A plan in parts that keeps a budget, with what that takes: what is proven of its module says nothing of plans of the whole batch.
    fn measured(&self, planned: Planned, base: u64, limit: Bytes) -> Planned {
        let makespan = self.nanos(&planned);
        let (rounds, stop, effort) = match planned.budgeted {
            Some(found) => (found.rounds, found.stop, found.effort),
            None => (1, "micro-batches", 0),
        };
        let lower_bound = base.min(makespan);
        let budgeted = Budgeted { base_cost: base, makespan, lower_bound, capacity: limit.0, rounds, stop, effort };
        Planned { budgeted: Some(budgeted), ..planned }
    }

    /// What as many budgets as were asked for take, evenly from the smallest that is reachable to what the plan without a budget needs.
    ///
    /// A plan that fits a smaller budget takes the place of the one found there, and one that was found for a smaller budget and takes
    /// no more time that of a larger one: along the curve neither arena nor time ever goes the wrong way.
    pub(crate) fn sweep(&self, free: &Planned) -> Result<Vec<ParetoPoint>, Error> {
        let count = u64::from(self.options.pareto);
        if count == 0 {
            return Ok(Vec::new());
        }
        let whole = self.need(free).0;
        let base = self.nanos(free);
        let floor = match self.plan(Bytes(0), free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(short))) => short.least.0.min(whole),
            other => other.map(|_| 0)?,
        };
        let mut last = ParetoPoint { budget: whole, arena: whole, extra_ns: 0, bound: Some(0) };
        let mut points = vec![last];
        for step in 1..count {
            let budget = whole - ((u128::from(whole - floor) * u128::from(step)) / u128::from(count - 1)) as u64;
            if last.arena > budget {
                let found = match self.plan(Bytes(budget), free, &mut Silent) {
                    Ok(found) => found,
                    // What is reachable by one search need not be for another: the curve ends here.
                    Err(PipelineError::Pass(PassError::Budget(_))) => break,
                    Err(other) => return Err(other.into()),
                };
                let bound = found.budgeted.map(|budgeted| budgeted.lower_bound.saturating_sub(budgeted.base_cost));
                last =
                    ParetoPoint { budget, arena: self.need(&found).0, extra_ns: self.nanos(&found).saturating_sub(base), bound };
            }
            points.push(ParetoPoint { budget, ..last });
        }
        for index in (1..points.len()).rev() {
            let (smaller, larger) = (points[index], &mut points[index - 1]);
            if smaller.extra_ns <= larger.extra_ns {
                *larger = ParetoPoint { budget: larger.budget, bound: larger.bound, ..smaller };
            }
        }
        Ok(points)
    }

    /// Bytes of the first space: its arena, and constants where the plan says which of them lie there.
    fn need(&self, planned: &Planned) -> Bytes {
        let constants = self.options.plan.weights.as_ref().map(|_| near_constants(&planned.module));
        arena(planned).saturating_add(constants.unwrap_or_default())
    }

    /// Modelled time of the model as it was given.
    fn given_nanos(&self) -> u64 {
        self.options.plan.cost.total_nanos(self.given).0.round() as u64
    }

    /// Hundredths of a per cent by which a plan takes longer than the model as it was given.
    fn slowdown(&self, planned: &Planned) -> u32 {
        let given = u128::from(self.given_nanos());
        let more = u128::from(self.nanos(planned)).saturating_sub(given);
        u32::try_from(more * 10_000 / given.max(1)).unwrap_or(u32::MAX)
    }

    /// Modelled time of a plan.
    fn nanos(&self, planned: &Planned) -> u64 {
        self.options.plan.cost.total_nanos(&planned.module).0.round() as u64
    }
}

/// So many hundredths of a number of bytes.
fn hundredths(bytes: Bytes, part: u64) -> Bytes {
    Bytes((u128::from(bytes.0) * u128::from(part) / 100) as u64)
}

/// The same options without a budget and without a capacity.
fn without_limits(own: &memc_passes::Options) -> memc_passes::Options {
    let mut own = memc_passes::Options { budget: None, ..own.clone() };
    own.space.capacity = None;
    own
}

/// Whether regions may be computed in parts.
fn may_split(own: &memc_passes::Options) -> bool {
    own.rewrite.enabled && !own.rewrite.exact
}

/// Limits of farther spaces; a part of the whole means nothing there.
fn far_budgets(options: &OptimizeOptions) -> BTreeMap<String, Bytes> {
    let first = &options.plan.space.name;
    let sized = options.budget.iter().filter_map(|(space, size)| match size {
        Size::Bytes(bytes) if !space.is_empty() && space != first => Some((space.clone(), Bytes(*bytes))),
        _ => None,
    });
    sized.collect()
}

fn arena(planned: &Planned) -> Bytes {
    planned.module.plan.arenas.first().map(|arena| arena.size).unwrap_or_default()
}

/// Budgets by space, in bytes.
pub(crate) fn budget(options: &OptimizeOptions, whole: Bytes) -> Result<BTreeMap<String, u64>, Error> {
    let first = &options.plan.space.name;
    let spaces: Vec<&String> =
        std::iter::once(&options.plan.space).chain(&options.plan.farther).map(|space| &space.name).collect();
    let mut budget = BTreeMap::new();
    for (space, size) in &options.budget {
        let name = if space.is_empty() { first } else { space };
        if !spaces.contains(&name) {
            let known = spaces.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownSpace { space: space.clone(), known });
        }
        budget.insert(name.clone(), size.resolve(whole));
    }
    Ok(budget)
}

/// What the arena of a space may take: the budget, or what there is.
fn limit(plan: &Layout, space: &str) -> Option<u64> {
    let capacity = plan.target.spaces.iter().find(|known| known.name == space).and_then(|space| space.capacity);
    [plan.budget.get(space).copied(), capacity].into_iter().flatten().min()
}

/// Refuses a plan whose arena passes a budget or what its space holds, and says why it is that large.
///
/// `constants` are bytes that lie in the first space beside its arena; `is_early` says that searches were asked to end before they did.
pub(crate) fn keep_budget(plan: &Layout, constants: Bytes, is_early: bool) -> Result<(), Error> {
    for (index, arena) in plan.arenas.iter().enumerate() {
        let beside = if index == 0 { constants.0 } else { 0 };
        let size = arena.size.saturating_add(beside);
        let Some(budget) = limit(plan, &arena.space).filter(|limit| size > *limit) else { continue };
        let profile = memc_layout::Profile::of(plan);
        let mut notes = Vec::new();
        if let Some(space) = profile.spaces.iter().find(|space| space.space == arena.space) {
            let node = plan.schedule.get(usize::try_from(space.peak_step).unwrap_or(usize::MAX));
            let node = node.map(|node| format!("\"{}\" ({})", node.node, node.op)).unwrap_or_default();
            notes.push(format!("the peak of {} is at step {}: {node}", Bytes(space.peak), space.peak_step));
            let mut alive: Vec<_> = space.alive_at(space.peak_step);
            alive.sort_by_key(|owner| (std::cmp::Reverse(owner.bytes), owner.tensor));
            let name = |owner: &memc_layout::Owner| plan.tensors.get(owner.tensor).map_or("?", |tensor| tensor.name.as_str());
            notes.extend(alive.iter().take(8).map(|owner| format!("alive there: `{}`, {}", name(owner), Bytes(owner.bytes))));
        }
        notes.extend(is_early.then(|| EARLY.to_owned()));
        let lower = plan.lower_bound.get(&arena.space);
        let bound = lower.and_then(|lower| lower.order).unwrap_or(0);
        return Err(Error::Budget { space: arena.space.clone(), budget, arena: size, bound, notes });
    }
    Ok(())
}

/// Numbers of parts of a batch of which models of so many nodes are made, in powers of two.
fn numbers_of_parts(nodes: usize) -> impl Iterator<Item = u64> {
    let numbers = (1..=MOST_DOUBLINGS).map(|doublings| 1_u64 << doublings);
    numbers.take_while(move |parts| (nodes as u64).saturating_mul(*parts) <= MOST_NODES as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[derive(Debug)]
    struct NoWeights;

    impl ExternalData for NoWeights {
        fn bytes(&self, _: &str, _: u64, _: u64) -> Option<bytes::Bytes> {
            None
        }
    }

    /// Layers whose gradients read what they made: each of these is as large as all weights.
    fn step(batch: u64) -> Module {
        const LAYERS: usize = 6;
        let mut text = format!(
            "mem 1\nir_version 8\nopset \"\" 13\nstage typed\ngraph @g {{\n  input %a0 : f32[{batch},32]\n  input %w : f32[32,32]\n"
        );
        for k in 0..LAYERS {
            text += &format!("  %h{k} = MatMul(%a{k}, %w) : f32[?,?]\n  %a{} = Tanh(%h{k}) : f32[?,?]\n", k + 1);
        }
        for k in (0..LAYERS).rev() {
            let from = if k + 1 == LAYERS { format!("a{LAYERS}") } else { format!("d{}", k + 1) };
            text += &format!("  %e{k} = Mul(%{from}, %a{}) : f32[?,?]\n  %t{k} = Transpose(%a{k}) : f32[?,?]\n", k + 1);
            text += &format!("  %g{k} = MatMul(%t{k}, %e{k}) : f32[?,?]\n  %d{k} = MatMul(%e{k}, %w) : f32[?,?]\n");
        }
        let gradients: Vec<String> = (0..LAYERS).map(|k| format!("%g{k}")).collect();
        memc_ir::text::parse(&format!("{text}  return {}\n}}\n", gradients.join(", "))).unwrap()
    }

    /// The plan in two parts within a part of what the plan without a limit needs, in hundredths, with that limit.
    fn in_two_parts(mut given: Module, part: u64, options: &OptimizeOptions) -> (Option<Planned>, Bytes) {
        let data = memc_ops::infer(&mut given).data;
        let budgets = Budgets { given: &given, options, data: &data, external: &NoWeights, answers: Answers::default() };
        let free = budgets.planned(&options.plan, Seeks::Longest).unwrap();
        let limit = hundredths(budgets.need(&free), part);
        let own = memc_passes::Options { budget: Some(limit), ..options.plan.clone() };
        (budgets.in_two_parts(&own, limit, &free).unwrap(), limit)
    }

    #[test]
    fn two_parts_compute_again_what_does_not_fit() {
        let mut options = OptimizeOptions::default();
        options.plan.effort = 1000;
        let (found, limit) = in_two_parts(step(1024), 45, &options);
        let found = found.unwrap();
        assert!(is_divided(&found.module) && arena(&found) <= limit);
        assert!(found.budgeted.is_some_and(|budgeted| budgeted.makespan > budgeted.base_cost), "something is computed again");
        // Batches of odd numbers are not divided, nor any where no bit may change.
        assert!(in_two_parts(step(1025), 45, &options).0.is_none());
        options.plan.rewrite.exact = true;
        assert!(in_two_parts(step(1024), 45, &options).0.is_none());
    }

    #[test]
    fn many_nodes_leave_few_parts() {
        assert_eq!(numbers_of_parts(100).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers_of_parts(2000).collect::<Vec<_>>(), [2, 4, 8, 16]);
        assert_eq!(numbers_of_parts(16_385).count(), 0);
    }
}
