//! Searches for regions whose parts keep every step within a goal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Bytes, Node, Value};

use super::candidates::{ANYWHERE, Candidates, KINDS};
use super::region::Region;
use super::seed::{Estimates, Grown, Seed};
use crate::{Goal, Score};

/// State of the search for regions in one module.
#[derive(Debug)]
pub(super) struct Search<'s> {
    candidates: Candidates<'s>,
    goal: Goal,
    /// The goal, with the current aim as its limit.
    aim: Goal,
    /// Steps whose bytes exceed the goal and that no region lowers yet.
    high: High,
    /// Whether the time of a region is divided by the number of steps that it lowers.
    shared: bool,
    /// Best seeds by likeness of the step, goal and `shared`: layers repeat.
    best: BTreeMap<(u32, u64, bool), Like>,
}

/// The best region for a step.
#[derive(Clone, Copy, Debug)]
struct Like {
    /// Position of the seed's value among the largest values of the step.
    place: usize,
    seed: Seed,
    score: Score,
}

/// Counts of the steps that are still too high.
#[derive(Debug, Default)]
struct High {
    /// By step: number of high steps before it; one more entry for the end.
    before: Vec<usize>,
}

impl High {
    /// Counts the high steps `steps` out of `count` steps.
    fn of(steps: &[usize], count: usize) -> Self {
        let mut is_high = vec![0; count];
        steps.iter().for_each(|step| is_high[*step] = 1);
        let sum = |sum: &mut usize, is_high: usize| {
            let before = *sum;
            *sum += is_high;
            Some(before)
        };
        Self { before: is_high.into_iter().chain([0]).scan(0, sum).collect() }
    }

    /// Returns the number of high steps in a range, both ends included.
    fn count(&self, (first, last): (usize, usize)) -> usize {
        self.before[last + 1] - self.before[first]
    }

    /// Marks the steps of a range as lowered.
    fn lower(&mut self, (first, last): (usize, usize)) {
        let (start, lowered) = (self.before[first], self.count((first, last)));
        self.before[first..=last].fill(start);
        self.before[last + 1..].iter_mut().for_each(|before| *before -= lowered);
    }
}

impl<'s> Search<'s> {
    /// Creates a search among the regions of some candidates.
    pub(super) fn new(candidates: Candidates<'s>, goal: Goal) -> Self {
        Self { candidates, goal, aim: goal, high: High::default(), shared: false, best: BTreeMap::new() }
    }

    /// Returns the estimates of all regions that grew.
    pub(super) fn into_grown(self) -> Estimates {
        self.candidates.into_grown()
    }

    /// Finds regions that keep every step within the goal, by estimates; no two share a node.
    ///
    /// Visits the steps from the highest down and takes the region of least time for each. `shared`
    /// divides that time by the number of high steps that the region lowers.
    pub(super) fn regions(&mut self, goal: u64, shared: bool) -> Vec<Region> {
        self.shared = shared;
        // Estimates may be too low, so the aim is below the limit.
        self.aim = self.goal.toward(Bytes(goal));
        let profile = self.candidates.levels.profile;
        let mut steps: Vec<usize> = (0..profile.len()).filter(|step| profile[*step] > goal).collect();
        steps.sort_by_key(|step| (Reverse(profile[*step]), *step));
        let mut taken: BTreeSet<Node> = BTreeSet::new();
        self.high = High::of(&steps, profile.len());
        let mut regions = Vec::new();
        for step in steps {
            if self.high.count((step, step)) == 0 {
                continue;
            }
            let Some((region, grown)) = self.best(step, goal) else { continue };
            self.high.lower(grown.span);
            if region.nodes.values().all(|node| !taken.contains(node)) {
                taken.extend(region.nodes.values());
                regions.push(region);
            }
        }
        regions
    }

    /// Returns whether every step of the peak is within some region: otherwise the peak stays.
    pub(super) fn covers_peak(&self, regions: &[Region]) -> bool {
        let within = |step: usize| {
            regions.iter().map(Region::span).any(|(first, last)| (first..=last).contains(&step))
        };
        let profile = self.candidates.levels.profile;
        (0..profile.len()).filter(|step| profile[*step] == self.candidates.peak).all(within)
    }

    /// Returns the largest extents of a value; empty if unknown.
    pub(super) fn dims(&self, value: Value) -> Vec<u64> {
        self.candidates.levels.dims(value)
    }

    /// Grows a region with the next larger number of parts that has equal nodes; `None` if there is none.
    pub(super) fn with_more_parts(&mut self, region: &Region) -> Option<Region> {
        let numbers = self.candidates.in_all_numbers(region.seed);
        let more = numbers
            .iter()
            .map(|(seed, _)| *seed)
            .filter(|seed| seed.parts > region.parts)
            .min_by_key(|seed| seed.parts)?;
        let (found, _) = self.candidates.region(more)?;
        found.nodes.values().eq(region.nodes.values()).then_some(found)
    }

    /// Finds the region that brings a step to the goal in the least time, or else the region with the
    /// best score.
    fn best(&mut self, step: usize, goal: u64) -> Option<(Region, Grown)> {
        let key = (self.candidates.likeness(step), goal, self.shared);
        let seed = match self.as_before(&key, step) {
            Some(seed) => seed,
            None => {
                let (score, seed) = self.sought(step, goal)?;
                let place = self.candidates.levels.live(step).iter().position(|value| *value == seed.value);
                if let Some(place) = place.filter(|_| seed.steps == ANYWHERE) {
                    self.best.insert(key, Like { place, seed, score });
                }
                seed
            }
        };
        self.candidates.region(seed)
    }

    /// Returns the best seed of a similar step, if its score is as good here.
    fn as_before(&mut self, key: &(u32, u64, bool), step: usize) -> Option<Seed> {
        let like = *self.best.get(key)?;
        let seed = Seed { value: *self.candidates.levels.live(step).get(like.place)?, ..like.seed };
        let grown =
            self.candidates.grown(seed).filter(|grown| self.candidates.helps(grown, grown.level, step))?;
        (self.score_of(&grown, grown.level, key.1) <= like.score).then_some(seed)
    }

    /// Finds the best seed for a step.
    ///
    /// Grows each seed with the fewest parts of its axis, and the most promising ones with every number
    /// of parts.
    fn sought(&mut self, step: usize, goal: u64) -> Option<(Score, Seed)> {
        // For equal parts the first estimate is a lower bound, for others a guess: each kind is ranked
        // by itself.
        let mut found: [Vec<(Score, Seed)>; KINDS] = Default::default();
        for candidate in self.candidates.at(step).iter() {
            let score = self.score_of(&candidate.grown, candidate.grown.least, goal);
            found[candidate.kind as usize].push((score, candidate.seed));
        }
        let mut best: Option<(Score, Seed)> = None;
        for mut found in found {
            found.sort();
            for (_, seed) in found.into_iter().take(self.candidates.tuning.promising) {
                let numbers = self.candidates.in_all_numbers(seed);
                for (seed, grown) in
                    numbers.iter().filter(|(_, grown)| self.candidates.helps(grown, grown.level, step))
                {
                    best = best.into_iter().chain([(self.score_of(grown, grown.level, goal), *seed)]).min();
                }
            }
        }
        best
    }

    /// Scores a region that brings a step to `level` bytes.
    fn score_of(&self, grown: &Grown, level: u64, goal: u64) -> Score {
        let lowers = if self.shared { self.high.count(grown.span).max(1) as u64 } else { 1 };
        self.aim.score(Bytes(level.max(goal)), grown.nanos / lowers, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowered_steps_are_not_counted_as_high() {
        let mut high = High::of(&[6, 1, 2, 4], 8);
        assert_eq!(
            [high.count((0, 7)), high.count((2, 4)), high.count((3, 3)), high.count((6, 7))],
            [4, 2, 0, 1]
        );
        high.lower((2, 5));
        assert_eq!(
            [high.count((0, 7)), high.count((0, 1)), high.count((2, 5)), high.count((6, 6))],
            [2, 1, 0, 1]
        );
        high.lower((0, 7));
        assert_eq!(high.count((0, 7)), 0);
    }
}
