//! Rounds of choices: splits regions while the plan improves, and removes regions if others lower the
//! peak further.

use std::collections::BTreeSet;
use std::sync::Arc;

use memc_ir::{Bytes, Module, Node, SecondaryMap, Use, Value, uses};

use super::alone::alone;
use super::candidates::Candidates;
use super::corner::{Least, Prover, at_largest};
use super::divide;
use super::estimate::Levels;
use super::region::{Region, has_windows, is_join, is_own};
use super::search::Search;
use super::seed::Way;
use super::seen::{Chosen, Remembered, Seen, Trial};
use crate::trial::{AtLeast, Judged, at_small, judge};
use crate::{Goal, Score};
use memc_edit::are_computable;
use memc_passes::Options;
use memc_passes::parts::{Shares, Weights};
use memc_passes::{PassContext, Settings};

/// Direction of one search.
#[derive(Clone, Copy)]
struct Aim {
    way: Way,
    /// Last resort: fewer bytes count before time until the limit holds.
    is_last: bool,
}

/// Directions of the search, in their order. Rounds are greedy and end in different places: each
/// direction finds the best plan of some model.
const AIMS: [Aim; 5] = [
    Aim { way: Way { between_waists: false, joins: true, apart: true }, is_last: false },
    Aim { way: Way { between_waists: true, joins: true, apart: false }, is_last: false },
    Aim { way: Way { between_waists: false, joins: true, apart: false }, is_last: false },
    Aim { way: Way { between_waists: true, joins: false, apart: true }, is_last: false },
    Aim { way: Way { between_waists: true, joins: true, apart: false }, is_last: true },
];

/// Chooses the regions of a module to split: the best result of rounds with several aims. If the module has
/// symbols, regions found at the largest extents are tried as well, as far as they hold for all extents.
pub(super) fn regions(module: &Module, ctx: &PassContext<'_>) -> Vec<Region> {
    if trial_nodes(module, ctx.options) == 0 || !are_computable(module) {
        return Vec::new();
    }
    let both = ctx.memo.own::<Remembered>();
    let is_alone = ctx.settings.alone.is_some();
    let seen = if is_alone { &both.alone } else { &both.together };
    let Some(hunt) = Hunt::of(module, ctx, seen, Least::default()) else { return Vec::new() };
    let found_at_largest = || {
        let found =
            Hunt::of(&at_largest(module)?, ctx, &both.largest[usize::from(is_alone)], Least::of(module))?
                .best();
        found.map(|(_, regions)| regions)
    };
    let (own, at_largest) = ctx.options.threads.both(|| hunt.best(), found_at_largest);
    let at_largest = at_largest.and_then(|regions| hunt.proven(&regions));
    let score = |state: &State| state.ranged(&hunt.goal, ctx.options);
    let best = match (own, at_largest) {
        (Some(own), Some(found)) if score(&found.0) < score(&own.0) => Some(found),
        (own, found) => own.or(found),
    };
    best.map(|(_, regions)| regions).unwrap_or_default()
}

/// Returns the total number of nodes in all trials of one search in a module.
fn trial_nodes(module: &Module, options: &Options) -> usize {
    let (nodes, tuning) = (module.graph(module.main()).nodes.len(), &options.tuning.split);
    let most = tuning.few_trials.max(1) * tuning.trial_nodes;
    if nodes > most { 0 } else { (tuning.few_trials * nodes).clamp(tuning.trial_nodes, most) }
}

/// A search for regions in one module, with all aims.
struct Hunt<'h, 'c, 'o> {
    module: &'h Module,
    ctx: &'c PassContext<'o>,
    seen: &'h Seen,
    /// Smallest extents, if the module has the largest extents of another one.
    least: Arc<Least>,
    judged: Judged,
    /// Limit of the arena in bytes, if there is one.
    room: Option<u64>,
    goal: Goal,
    given: Draft<'c, 'o>,
}

impl<'h, 'c, 'o> Hunt<'h, 'c, 'o> {
    /// Judges the module without regions; `None` if it cannot be ordered.
    fn of(module: &'h Module, ctx: &'c PassContext<'o>, seen: &'h Seen, least: Least) -> Option<Self> {
        let judged = judged(module.clone(), ctx)?;
        seen.begin(module);
        let limit = ctx.settings.alone.or(ctx.settings.limit);
        let (bytes, nanos) = (Bytes(judged.peak), judged.nanos);
        let goal = Goal::of_run(&Settings { limit, ..ctx.settings.clone() }, ctx.options, bytes, nanos);
        let given = Draft { module: module.clone(), weights: Weights::on_trial(ctx) };
        Some(Self {
            module,
            ctx,
            seen,
            least: Arc::new(least),
            judged,
            room: limit.map(|limit| limit.0),
            goal,
            given,
        })
    }

    fn rounds(&self, goal: Goal, aim: Aim, trial_nodes: usize) -> Rounds<'c, 'o> {
        Rounds {
            ctx: self.ctx,
            seen: self.seen.clone(),
            least: self.least.clone(),
            goal,
            room: self.room,
            aim,
            trial_nodes,
        }
    }

    /// Runs the rounds of one aim.
    fn run(&self, sought: Goal, aim: Aim, trial_nodes: usize) -> (State, Vec<Region>) {
        let mut rounds = self.rounds(sought, aim, trial_nodes);
        let whole = rounds.state(self.judged.clone());
        let mut found = rounds.run(&self.given, whole, Vec::new());
        found.0.score = self.goal.score(Bytes(found.0.judged.peak), found.0.judged.nanos, 0);
        found
    }

    /// Finds the regions with the best score.
    fn best(&self) -> Option<(State, Vec<Region>)> {
        let Self { module, ctx, room, goal, ref judged, .. } = *self;
        let (bytes, nanos, options) = (Bytes(judged.peak), judged.nanos, ctx.options);
        let tuning = &options.tuning.split;
        let mut best: Option<(State, Vec<Region>)> = None;
        let nodes = || module.graph(module.main()).nodes.iter();
        let windows = nodes().any(|node| has_windows(module, *node));
        let joined = nodes().any(|node| is_join(module, *node));
        // Narrow borders matter to sliding windows, and two aims to Concat: without these, the first aim is
        // enough.
        let is_other =
            |aim: &Aim| windows || aim.is_last || !aim.way.between_waists && (joined || aim.way.apart);
        let aims = || {
            AIMS.into_iter().take(if room.is_some() { AIMS.len() } else { tuning.free_aims }).filter(is_other)
        };
        let mut searches: Vec<(Goal, Aim)> = aims().map(|aim| (goal, aim)).collect();
        if ctx.settings.slowdown > 0 && room.is_none() {
            // A search with more time may end in a larger plan, so the search without it is repeated.
            searches.extend(aims().map(|aim| (Goal::price(options, bytes, nanos), aim)));
        }
        let search = |(sought, aim): &(Goal, Aim)| self.run(*sought, *aim, trial_nodes(module, options));
        let mut consider = |found: (State, Vec<Region>)| {
            if best.as_ref().is_none_or(|(best, _)| found.0.score < best.score) {
                best = Some(found);
            }
            best.as_ref().map(|(state, _)| (state.score.keeps(), state.judged.nanos))
        };
        // Run the searches until a plan is good enough.
        let fast = judged.nanos + tuning.small_overhead.of(judged.nanos);
        let mut known = None;
        for asked in &searches {
            if room.is_some()
                && known.is_some_and(|(keeps, nanos)| keeps && (asked.1.is_last || nanos <= fast))
            {
                break;
            }
            known = consider(search(asked));
        }
        if room.is_none() && best.as_ref().is_none_or(|(_, regions)| regions.is_empty()) {
            // With bytes before time, rounds get past regions that are worthless by themselves.
            let found = aims().next().map(|aim| self.run(Goal::Least, aim, tuning.trial_nodes));
            best = best.into_iter().chain(found).min_by_key(|(state, _)| state.score);
        }
        best
    }

    /// Tries the regions found at the largest extents, as far as they hold for all extents, and then adds
    /// regions along axes of known extents. Where computed bounds take too long, or calls without elements at
    /// the smallest extents, regions get fewer parts.
    fn proven(&self, found: &[Region]) -> Option<(State, Vec<Region>)> {
        let (prover, options) = (Prover::of(self.module, self.ctx.options), self.ctx.options);
        let before = AtLeast::of(&self.judged.module, options);
        let aim = AIMS.first().copied()?;
        let mut rounds = self.rounds(self.goal, aim, trial_nodes(self.module, options));
        let mut most = u64::MAX;
        loop {
            let proven: Vec<Region> = found.iter().filter_map(|region| prover.proven(region, most)).collect();
            let moving = proven.iter().filter(|region| is_moving(region)).map(|region| region.parts).max();
            let state = rounds.judged(&self.given, Some(&proven).filter(|proven| !proven.is_empty())?, None);
            let is_slow =
                |state: &State| AtLeast::of(&state.judged.module, options).is_slow(&before, options);
            if let Some(state) =
                state.filter(|state| self.room.is_some() || moving.is_none() || !is_slow(state))
            {
                return Some(rounds.run(&self.given, state, proven));
            }
            most = moving? - moving?.div_ceil(4);
        }
    }
}

/// Returns whether the positions of a region's parts depend on extents.
fn is_moving(region: &Region) -> bool {
    region.divided.spans.is_some() || matches!(region.divided.shares, Shares::Of { .. })
}

/// Judges a module in a good order: by the bytes of each step, or of each node by itself.
fn judged(module: Module, ctx: &PassContext<'_>) -> Option<Judged> {
    let judged = judge(module, ctx.options, 0)?;
    Some(if ctx.settings.alone.is_some() { alone(judged, ctx.options) } else { judged })
}

/// A trial module with split regions; its new weights have types only.
#[derive(Clone)]
pub(super) struct Draft<'c, 'o> {
    pub(super) module: Module,
    weights: Weights<'c, 'o>,
}

impl Draft<'_, '_> {
    /// Returns the module with `regions` split, with the nodes of the final module.
    fn with<'r>(&self, regions: impl IntoIterator<Item = &'r Region>) -> Module {
        let mut module = self.module.clone();
        divide(&mut module, regions, &mut self.weights.clone());
        module
    }
}

/// A judged module with its score.
pub(super) struct State {
    pub(super) judged: Judged,
    pub(super) score: Score,
}

impl State {
    /// Scores the module with its need at small extents.
    pub(super) fn ranged(&self, goal: &Goal, options: &Options) -> Score {
        goal.ranged(Bytes(self.judged.peak), self.judged.nanos, 0, at_small(&self.judged.module, options))
    }
}

/// State of all rounds of one aim.
pub(super) struct Rounds<'c, 'o> {
    pub(super) ctx: &'c PassContext<'o>,
    seen: Seen,
    least: Arc<Least>,
    goal: Goal,
    /// Limit of the arena in bytes, if there is one; smaller plans are not searched.
    pub(super) room: Option<u64>,
    aim: Aim,
    /// Number of nodes that trials may still order.
    trial_nodes: usize,
}

impl<'c, 'o> Rounds<'c, 'o> {
    /// Adds regions to the chosen ones until no round finds a better plan; returns the plan and its regions.
    fn run(
        &mut self,
        given: &Draft<'c, 'o>,
        mut state: State,
        mut chosen: Vec<Region>,
    ) -> (State, Vec<Region>) {
        for _ in 0..self.ctx.options.tuning.split.max_rounds {
            let found = self
                .next(given, &chosen, &state, &state)
                .or_else(|| self.in_place_of(given, &state, &chosen));
            let Some(found) = found else { break };
            (state, chosen) = found;
        }
        self.aim.is_last = false;
        state.score = self.state(state.judged.clone()).score;
        self.cheaper(given, state, chosen)
    }

    /// Returns whether enough nodes are left for a trial of the given module; with split regions a
    /// module has more nodes.
    fn may_try(&self, given: &Draft<'c, 'o>) -> bool {
        given.module.graph(given.module.main()).nodes.len() <= self.trial_nodes
    }

    /// Returns the goal of the aim.
    pub(super) fn goal(&self) -> Goal {
        if self.aim.is_last { self.goal.toward(Bytes(0)) } else { self.goal }
    }

    /// Scores a judged module.
    fn state(&self, judged: Judged) -> State {
        State { score: self.goal().score(Bytes(judged.peak), judged.nanos, 0), judged }
    }

    /// Makes a plan within the limit faster: drops regions that are no longer needed, and replaces
    /// costly ones.
    fn cheaper(
        &mut self,
        given: &Draft<'c, 'o>,
        mut state: State,
        mut chosen: Vec<Region>,
    ) -> (State, Vec<Region>) {
        let mut index = 0;
        while self.room.is_some_and(|room| state.judged.peak <= room) && index < chosen.len() {
            let kept = without(&chosen, &BTreeSet::from([index]));
            let Some(without) = self.judged(given, &kept, None) else { break };
            if without.score < state.score {
                (state, chosen) = (without, kept);
            } else if let Some(found) = self.next(given, &kept, &without, &state) {
                (state, chosen) = found;
            } else {
                index += 1;
            }
        }
        (state, chosen)
    }

    /// Adds the regions that lower the peak for the best score; returns the plan with all its regions,
    /// or `None` if none beats `beaten`.
    fn next(
        &mut self,
        given: &Draft<'c, 'o>,
        chosen: &[Region],
        state: &State,
        beaten: &State,
    ) -> Option<(State, Vec<Region>)> {
        let peak = state.judged.peak;
        if self.room.is_some_and(|room| peak <= room) || !self.may_try(given) {
            return None;
        }
        let (seen, here, way): (_, Chosen, _) =
            (self.seen.clone(), chosen.iter().map(Region::mark).collect(), self.aim.way);
        let (weights, grown) = (Weights::on_trial(self.ctx), seen.take(&here, way));
        let candidates =
            Candidates::of(&state.judged, self.ctx.options, weights, way, grown, self.least.clone());
        let mut search = Search::new(candidates.ending_at_readers(self.room.is_some()), self.goal());
        let mut tried = BTreeSet::new();
        let mut best: Option<(State, Vec<Region>)> = None;
        let tuning = &self.ctx.options.tuning.split;
        let of_room =
            self.room.into_iter().flat_map(|room| tuning.peaks_in_limit.map(|part| room / 100 * part));
        let goals = tuning.peaks.map(|part| peak / 100 * part).into_iter().chain(of_room);
        for (goal, shared) in goals.flat_map(|goal| [(goal, false), (goal, true)]) {
            if !self.may_try(given) {
                break;
            }
            let regions = search.regions(goal, shared);
            let key: Vec<(u64, Vec<Node>)> = regions
                .iter()
                .map(|region| (region.parts, region.nodes.values().copied().collect()))
                .collect();
            if !search.covers_peak(&regions) || !tried.insert(key) {
                continue;
            }
            let score = best.as_ref().map_or(beaten.score, |(best, _)| best.score);
            let Some(found) = self.judged(given, chosen.iter().chain(&regions), Some(score)) else {
                continue;
            };
            let is_lower = self.room.is_some() || found.judged.peak < beaten.judged.peak;
            if is_lower && found.score < score {
                best = Some((found, regions));
            }
        }
        let best = best.map(|found| self.finer(given, chosen, &mut search, found));
        seen.put(here, way, search.into_grown());
        best.map(|(state, regions)| (state, [chosen.to_vec(), regions].concat()))
    }

    /// Replaces the regions at the peak of a plan that exceeds the limit: regions chosen for a higher
    /// peak may end at the present peak.
    fn in_place_of(
        &mut self,
        given: &Draft<'c, 'o>,
        state: &State,
        chosen: &[Region],
    ) -> Option<(State, Vec<Region>)> {
        let is_too_much = self.room.map_or(self.ctx.settings.slowdown > 0, |room| state.judged.peak > room);
        is_too_much.then_some(())?;
        let mut best: Option<(State, Vec<Region>)> = None;
        for taken_back in at_peak(&state.judged, self.ctx.options, chosen) {
            let kept = without(chosen, &taken_back);
            let Some(without) = self.judged(given, &kept, None) else { continue };
            let beaten = best.as_ref().map_or(state, |(best, _)| best);
            best = self.next(given, &kept, &without, beaten).or(best);
        }
        best
    }

    /// Judges the module with split regions; `None` if it is too slow, no trials are left, or an earlier
    /// trial shows that it does not beat `beaten`.
    pub(super) fn judged<'r>(
        &mut self,
        given: &Draft<'c, 'o>,
        regions: impl IntoIterator<Item = &'r Region> + Clone,
        beaten: Option<Score>,
    ) -> Option<State> {
        let (seen, here): (_, Chosen) =
            (self.seen.clone(), regions.clone().into_iter().map(Region::mark).collect());
        let is_worse = |trial: &Trial| {
            beaten.is_some_and(|beaten| self.goal().score(Bytes(trial.peak), trial.nanos, 0) >= beaten)
        };
        if let Some(trial) = seen.judged(&here).filter(|trial| self.is_slow(trial.nanos) || is_worse(trial)) {
            // A cached trial costs as much as a new one, so that the cache changes no result.
            self.trial_nodes = self.trial_nodes.checked_sub(trial.nodes)?;
            return None;
        }
        if !self.may_try(given) {
            return None;
        }
        let module = given.with(regions);
        let nodes = module.graph(module.main()).nodes.len();
        self.trial_nodes = self.trial_nodes.checked_sub(nodes)?;
        let judged = judged(module, self.ctx)?;
        seen.note(here, Trial { nodes, peak: judged.peak, nanos: judged.nanos });
        (!self.is_slow(judged.nanos)).then(|| self.state(judged))
    }

    fn is_slow(&self, nanos: u64) -> bool {
        self.ctx.settings.time.is_some_and(|limit| nanos > limit)
    }
}

/// Returns the regions except the ones with the given numbers.
fn without(chosen: &[Region], left_out: &BTreeSet<usize>) -> Vec<Region> {
    let kept = chosen.iter().enumerate().filter(|(index, _)| !left_out.contains(index));
    kept.map(|(_, region)| region.clone()).collect()
}

/// Returns sets of regions, by number, that make a value live at the peak: all of them together, then
/// each alone.
fn at_peak(judged: &Judged, options: &Options, chosen: &[Region]) -> Vec<BTreeSet<usize>> {
    let (levels, uses) =
        (Levels::of(judged, options, options.tuning.split.least_seed.of(judged.peak)), uses(&judged.module));
    let steps = (0..judged.profile.len()).filter(|step| judged.profile[*step] == judged.peak);
    let there: BTreeSet<Value> = steps.flat_map(|step| levels.live(step)).copied().collect();
    let all: BTreeSet<usize> =
        there.into_iter().filter_map(|value| maker(&judged.module, &uses, chosen, value)).collect();
    let alone = all.iter().filter(|_| all.len() > 1).map(|index| BTreeSet::from([*index]));
    let together = Some(all.clone()).filter(|all| !all.is_empty());
    together.into_iter().chain(alone).collect()
}

/// Returns the region that makes a value, or a share from which a made value follows.
fn maker(
    module: &Module,
    uses: &SecondaryMap<Value, Vec<Use>>,
    chosen: &[Region],
    value: Value,
) -> Option<usize> {
    let (mut open, mut met) = (vec![value], BTreeSet::from([value]));
    while let Some(value) = open.pop() {
        if let Some(found) = chosen.iter().position(|region| region.made.contains_key(&value)) {
            return Some(found);
        }
        let readers = uses[value].iter().filter_map(|site| match site {
            Use::Operand(node, _) => Some(*node),
            Use::Output(..) => None,
        });
        let own = readers.filter(|node| is_own(module, *node));
        open.extend(own.flat_map(|node| module.node(node).results()).filter(|value| met.insert(*value)));
    }
    None
}
