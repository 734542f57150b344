//! Looks for regions whose parts keep every step within a goal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memc_cost::CostModel;
use memc_ir::{Bytes, Node, Value};
use memc_ops::Piece;

use super::estimate::Levels;
use super::growth::{Effort, Ground};
use super::region::Region;
use super::seed::{Estimates, Grown, Lie, Seed, Way};
use super::waists::Waists;
use crate::judge::Judged;
use crate::options::Options;
use crate::parts::Weights;
use crate::worth::{Price, Worth};

/// Values of at most so many parts of the peak are not followed further.
const SMALL: [u64; 4] = [64, 16, 8, 4];
/// At a step, so many values are tried as seeds, the largest; none that is less than this part of the peak.
const SEEDS: usize = 8;
pub(super) const LEAST_SEED: u64 = 32;
/// Numbers of parts that are tried.
const PARTS: std::ops::RangeInclusive<u64> = 2..=16;
/// The same where shares are not equal.
const UNEQUAL: [u64; 7] = [4, 2, 3, 6, 8, 12, 16];
/// Rows of a share at least.
const LEAST_ROWS: u64 = 2;
/// The axis of rows of an image.
const ROWS: usize = 2;
/// Of the seeds of each kind at a step, so many are grown with every number of parts.
const PROMISING: usize = 3;
/// Numbers of parts that say most of the others, where rows of shares overlap more the more nodes there are.
const FEW_AND_MANY: [u64; 2] = [4, 12];
/// The part by which an estimate may pass what it is to lower.
const NEARLY: u64 = 8;
/// Steps of regions that may begin and end wherever they do.
const ANYWHERE: (usize, usize) = (0, usize::MAX);
/// Nodes that may be looked at while regions are grown.
const VISITS: usize = 400_000;

/// Looks for regions in one module.
#[derive(Debug)]
pub(super) struct Search<'s> {
    ground: Ground<'s>,
    levels: Levels<'s>,
    cost: &'s CostModel,
    price: Price,
    /// The price of what is above the goal.
    aim: Price,
    peak: u64,
    /// Where regions may begin and end, if they do so at waists.
    waists: Option<Waists>,
    /// Steps that are still to be lowered.
    high: High,
    way: Way,
    /// Whether regions may end at what others read too.
    ends_at_readers: bool,
    /// Whether they share the time of a region that lowers several of them.
    shared: bool,
    /// What was grown so far, by seeds; none where nothing grew.
    grown: Estimates,
    /// What was best for steps that look the same: layers repeat.
    best: BTreeMap<(Likeness, u64, bool), Like>,
    effort: Effort,
}

/// What steps of equal layers have in common: bytes, the operator, and extents of the largest values that are there.
type Likeness = (u64, String, Vec<Vec<u64>>);

/// The best region for a step.
#[derive(Clone, Copy, Debug)]
struct Like {
    /// Position of the seed's value among the largest ones at the step.
    place: usize,
    seed: Seed,
    worth: Worth,
}

/// Steps that are still to be lowered, counted.
#[derive(Debug, Default)]
struct High {
    /// How many there are before each step, and before the end.
    before: Vec<usize>,
}

impl High {
    /// These of so many steps.
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

    /// How many there are in a span, its first and last step.
    fn count(&self, (first, last): (usize, usize)) -> usize {
        self.before[last + 1] - self.before[first]
    }

    /// Those in a span are to be lowered no more.
    fn lower(&mut self, (first, last): (usize, usize)) {
        let (start, lowered) = (self.before[first], self.count((first, last)));
        self.before[first..=last].fill(start);
        self.before[last + 1..].iter_mut().for_each(|before| *before -= lowered);
    }
}

impl<'s> Search<'s> {
    /// Regions of a judged module, of which something may have `grown` before.
    pub(super) fn new(
        judged: &'s Judged,
        options: &'s Options,
        weights: Weights<'s, 's>,
        price: Price,
        way: Way,
        grown: Estimates,
    ) -> Self {
        let levels = Levels::of(judged, options, judged.peak / LEAST_SEED);
        Self {
            ground: Ground::of(&judged.module, weights, way.apart.then_some(options)),
            waists: way.between_waists.then(|| Waists::of(levels.crossing())),
            levels,
            cost: &options.cost,
            price,
            aim: price,
            peak: judged.peak,
            high: High::default(),
            shared: false,
            way,
            ends_at_readers: false,
            grown,
            best: BTreeMap::new(),
            effort: Effort::new(VISITS),
        }
    }

    /// Lets regions end at what others read too: more of them are known then, and greedy choices end elsewhere.
    pub(super) fn ending_at_readers(self, ends_at_readers: bool) -> Self {
        Self { ends_at_readers, ..self }
    }

    /// Regions that keep every step within the goal, as far as estimates say and there are any; no two share a node.
    ///
    /// Steps are looked at from the highest one down, and each gets the region that takes the least time: by itself, or `shared` by the steps
    /// above the goal that it lowers.
    pub(super) fn regions(&mut self, goal: u64, shared: bool) -> Vec<Region> {
        self.shared = shared;
        // Estimates may be too low: what they say of the room alone need not keep it.
        self.aim = self.price.toward(Bytes(goal));
        let mut steps: Vec<usize> = (0..self.levels.profile.len()).filter(|step| self.levels.profile[*step] > goal).collect();
        steps.sort_by_key(|step| (Reverse(self.levels.profile[*step]), *step));
        let mut taken: BTreeSet<Node> = BTreeSet::new();
        self.high = High::of(&steps, self.levels.profile.len());
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

    /// What grew. What was not looked at any more may grow the next time.
    pub(super) fn into_grown(mut self) -> Estimates {
        if self.effort.is_spent() {
            self.grown.retain(|_, grown| grown.is_some());
        }
        self.grown
    }

    /// Whether every step where the peak stands is within some region: it stays where it is otherwise.
    pub(super) fn covers_peak(&self, regions: &[Region]) -> bool {
        let within = |step: usize| regions.iter().map(Region::span).any(|(first, last)| (first..=last).contains(&step));
        let profile = self.levels.profile;
        (0..profile.len()).filter(|step| profile[*step] == self.peak).all(within)
    }

    /// The region that brings a step to the goal in the least time, or else what is worth most.
    fn best(&mut self, step: usize, goal: u64) -> Option<(Region, Grown)> {
        let key = (self.likeness(step), goal, self.shared);
        let seed = match self.as_before(&key, step) {
            Some(seed) => seed,
            None => {
                let (worth, seed) = self.sought(step, goal)?;
                let place = self.levels.live(step).iter().position(|value| *value == seed.value);
                if let Some(place) = place.filter(|_| seed.steps == ANYWHERE) {
                    self.best.insert(key, Like { place, seed, worth });
                }
                seed
            }
        };
        self.ground.region(seed, &mut self.effort).zip(self.grown.get(&seed).copied().flatten())
    }

    fn likeness(&self, step: usize) -> Likeness {
        let operator = &self.levels.module.node(self.levels.node(step)).operator;
        let large = self.levels.live(step).iter().take(SEEDS);
        (self.levels.profile[step], operator.name.to_string(), large.map(|value| self.levels.dims(*value)).collect())
    }

    /// The seed that was best for a step that looks the same, if it is worth as much here.
    fn as_before(&mut self, key: &(Likeness, u64, bool), step: usize) -> Option<Seed> {
        let like = *self.best.get(key)?;
        let seed = Seed { value: *self.levels.live(step).get(like.place)?, ..like.seed };
        let worth = self.worth(seed, step, key.1, |grown| grown.level)?;
        (worth <= like.worth).then_some(seed)
    }

    /// The seed of the region that brings a step to the goal in the least time, or else of what is worth most.
    ///
    /// Each seed is grown with the fewest parts that its axis has; the most promising ones with all others, too.
    fn sought(&mut self, step: usize, goal: u64) -> Option<(Worth, Seed)> {
        // What is known of equal parts first is a limit, of others a guess: each kind is ranked by itself.
        let mut found: [Vec<(Worth, Seed, u64)>; 5] = Default::default();
        for (value, axis, extent) in self.axes(step) {
            let (equal, unequal) = (equal_parts(extent).next(), self.unequal_parts(value, axis, extent).next());
            for (kind, lie, parts) in [(0, Lie::Equal, equal), (1, Lie::Overlapping, unequal)] {
                let Some(parts) = parts else { continue };
                for small in SMALL.map(|part| self.peak / part) {
                    let seed = Seed { value, axis, parts, lie, small, private: false, steps: ANYWHERE };
                    found[kind].extend(self.worth(seed, step, goal, |grown| grown.least).map(|worth| (worth, seed, extent)));
                }
            }
            if let Some(parts) = equal.filter(|_| self.ends_at_readers && self.ground.is_private(value)) {
                let small = self.peak / SMALL[0];
                let seed = Seed { value, axis, parts, lie: Lie::Equal, small, private: true, steps: ANYWHERE };
                found[4].extend(self.worth(seed, step, goal, |grown| grown.least).map(|worth| (worth, seed, extent)));
            }
        }
        for seed in self.between_waists(step) {
            let extent = self.levels.dims(seed.value)[ROWS];
            found[2].extend(self.worth(seed, step, goal, |grown| grown.least).map(|worth| (worth, seed, extent)));
        }
        let joins = if self.way.apart { self.behind_joins(step) } else { Vec::new() };
        for (seed, operands) in joins {
            found[3].extend(self.worth(seed, step, goal, |grown| grown.least).map(|worth| (worth, seed, operands)));
        }
        for found in &mut found {
            found.sort();
            found.truncate(PROMISING);
        }
        let mut best: Option<(Worth, Seed)> = None;
        for (_, seed, extent) in found.concat() {
            let numbers: Vec<u64> = match seed.lie {
                Lie::Equal => equal_parts(extent).collect(),
                Lie::Overlapping => self.unequal_parts(seed.value, seed.axis, extent).collect(),
                Lie::Joined => joined_parts(extent).collect(),
            };
            for parts in numbers {
                let seed = Seed { parts, ..seed };
                let worth = self.worth(seed, step, goal, |grown| grown.level);
                best = best.into_iter().chain(worth.map(|worth| (worth, seed))).min();
            }
        }
        best
    }

    /// Numbers of parts of an axis whose shares need not be equal, the one that says most of the others first: rows of images,
    /// whose shares overlap, and axes that cannot be divided equally.
    fn unequal_parts(&self, value: Value, axis: usize, extent: u64) -> impl Iterator<Item = u64> + use<> {
        let may = equal_parts(extent).next().is_none()
            || axis == ROWS && (self.levels.dims(value).len() > 3 || self.ground.is_beside_windows(value));
        UNEQUAL.into_iter().filter(move |parts| may && extent >= parts * LEAST_ROWS)
    }

    /// Seeds of rows whose regions begin and end where little crosses from step to step, around a step.
    fn between_waists(&self, step: usize) -> Vec<Seed> {
        let Some(waists) = &self.waists else { return Vec::new() };
        let numbers = |(value, axis, extent)| self.unequal_parts(value, axis, extent).map(move |parts| (value, parts)).collect();
        let rows = self.axes(step).into_iter().filter(|(_, axis, _)| *axis == ROWS).map(numbers);
        let seeds: Vec<(Value, u64)> = rows.into_iter().find(|numbers: &Vec<_>| !numbers.is_empty()).unwrap_or_default();
        let seeds = seeds.into_iter().filter(|(_, parts)| FEW_AND_MANY.contains(parts)).collect::<Vec<_>>();
        if seeds.is_empty() {
            return Vec::new();
        }
        let (firsts, lasts) = (waists.firsts(step), waists.lasts(step));
        let windows = firsts.iter().flat_map(|first| lasts.iter().map(move |last| (*first, *last)));
        let small = self.peak / SMALL[0];
        let seeded = |steps| {
            seeds.iter().map(move |(value, parts)| Seed {
                value: *value,
                axis: ROWS,
                parts: *parts,
                lie: Lie::Overlapping,
                small,
                private: false,
                steps,
            })
        };
        windows.flat_map(seeded).collect()
    }

    /// Seeds of regions around a step that take apart what was joined, with the number of operands it was joined of.
    fn behind_joins(&self, step: usize) -> Vec<(Seed, u64)> {
        let large = self.levels.live(step).iter().take(SEEDS);
        let joins: BTreeSet<Value> = large.filter_map(|value| self.ground.behind_join(*value)).collect();
        let seeded = |value| {
            let (axis, borders) = self.ground.joined(value)?;
            let operands = borders.len() as u64 - 1;
            let seed =
                Seed { value, axis, parts: 2, lie: Lie::Joined, small: self.peak / SMALL[0], private: false, steps: ANYWHERE };
            joined_parts(operands).last().map(|parts| (Seed { parts, ..seed }, operands))
        };
        joins.into_iter().filter_map(seeded).collect()
    }

    /// Axes of the largest values at a step, with their extents.
    fn axes(&self, step: usize) -> Vec<(Value, usize, u64)> {
        let large = self.levels.live(step).iter().take(SEEDS);
        let axes = |value| self.levels.dims(value).into_iter().enumerate().map(move |(axis, extent)| (value, axis, extent));
        large.copied().flat_map(axes).collect()
    }

    /// What the region of a seed would make of a step, going by one of its levels: nothing where it does not lower it.
    fn worth(&mut self, seed: Seed, step: usize, goal: u64, level: impl Fn(&Grown) -> u64) -> Option<Worth> {
        let grown = self.grown(seed)?;
        let level = level(&grown);
        // Estimates know nothing of what is written in place: what is a little higher may still be lower.
        let before = self.levels.profile[step];
        let helps = (grown.span.0..=grown.span.1).contains(&step) && level < before + before / NEARLY;
        let lowers = if self.shared { self.high.count(grown.span).max(1) as u64 } else { 1 };
        helps.then(|| self.aim.of(Bytes(level.max(goal)), grown.nanos / lowers))
    }

    /// Time that a region takes longer in parts: more calls, and what each of them gathers again, in nanoseconds.
    fn nanos(&self, region: &Region) -> u64 {
        let cut: Vec<Value> = region.cut().collect();
        let joins = region.made.values().filter(|needed| **needed).count() as u64;
        let calls = (region.nodes.len() + cut.len()) as u64 * region.parts - region.nodes.len() as u64 + joins;
        let again = |node: &Node| match region.divided.nodes.get(node) {
            Some(pieces) if pieces.operands.first() == Some(&Piece::Whole) => self.cost.gathering(self.levels.module, *node).0,
            _ => 0.0,
        };
        // What is taken apart is not joined any more.
        let joining = region.opened.map_or(0.0, |(step, _)| self.cost.nanos(self.levels.module, self.levels.node(step)).0);
        let gathered: f64 = region.nodes.values().map(again).sum();
        let module = self.levels.module;
        let again = |node: &Node| self.cost.nanos(module, *node).0 * (region.times(module, *node) - 1.0).max(0.0);
        let repeated: f64 = region.nodes.values().map(again).sum();
        // What is cut out is read and written.
        let machine = &self.cost.target.machine;
        let copied: u64 = cut.into_iter().map(|value| 2 * self.ground.bytes(value)).sum();
        let copying = copied as f64 * 1e9 / machine.bytes_per_second;
        let more = calls as f64 * machine.overhead.0 + gathered * (region.parts - 1) as f64 + repeated + copying;
        (more - joining).max(0.0).round() as u64
    }

    fn grown(&mut self, seed: Seed) -> Option<Grown> {
        if let Some(known) = self.grown.get(&seed) {
            return *known;
        }
        let region = self.ground.region(seed, &mut self.effort);
        let grown = region.as_ref().map(|region| {
            let (level, least) = self.levels.with(region, self.way.joins);
            Grown { span: region.span(), level, least, nanos: self.nanos(region) }
        });
        self.grown.insert(seed, grown);
        if let Some(region) = region.filter(|_| seed.lie != Lie::Joined && !seed.private) {
            // The same region would grow from any other large value in it, and if more were small.
            let smalls = SMALL.map(|part| self.peak / part);
            for (value, axis) in region.shares().chain([(seed.value, seed.axis)]) {
                let bytes = self.ground.bytes(value);
                let same = |small: &u64| *small >= seed.small && *small < region.smallest && *small < bytes;
                let seeds = smalls.into_iter().filter(same).map(|small| Seed { value, axis, small, ..seed });
                self.grown.extend(seeds.map(|seed| (seed, grown)));
            }
        }
        grown
    }
}

/// Numbers of equal parts of an axis, the fewest first.
fn equal_parts(extent: u64) -> impl Iterator<Item = u64> {
    PARTS.filter(move |parts| extent > 0 && extent.is_multiple_of(*parts))
}

/// Numbers of parts of what was joined of so many operands: one operand each, or several.
fn joined_parts(operands: u64) -> impl Iterator<Item = u64> {
    let most = *PARTS.end();
    let fewer = UNEQUAL.into_iter().filter(move |parts| *parts < operands);
    fewer.chain(Some(operands).filter(|operands| (2..=most).contains(operands)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_are_lowered_count_no_more() {
        let mut high = High::of(&[6, 1, 2, 4], 8);
        assert_eq!([high.count((0, 7)), high.count((2, 4)), high.count((3, 3)), high.count((6, 7))], [4, 2, 0, 1]);
        high.lower((2, 5));
        assert_eq!([high.count((0, 7)), high.count((0, 1)), high.count((2, 5)), high.count((6, 6))], [2, 1, 0, 1]);
        high.lower((0, 7));
        assert_eq!(high.count((0, 7)), 0);
    }
}
