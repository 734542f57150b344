//! Candidates: seeds of regions that may lower a step, with estimates. They do not depend on the goal,
//! so each step lists them once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memc_cost::CostModel;
use memc_ir::{Node, Value};
use memc_ops::Piece;
use rustc_hash::FxHashMap;

use super::corner::Least;
use super::estimate::Levels;
use super::growth::{Effort, Ground};
use super::region::Region;
use super::seed::{Estimates, Grown, Lie, Seed, Way};
use super::waists::Waists;
use crate::trial::Judged;
use memc_passes::Options;
use memc_passes::parts::Weights;
use memc_passes::tuning::SplitTuning;

/// Numbers of equal parts.
const PARTS: std::ops::RangeInclusive<u64> = 2..=16;
/// Numbers of unequal parts; the first one stands for the others in quick estimates.
const UNEQUAL: [u64; 7] = [4, 2, 3, 6, 8, 12, 16];
/// Axis of the rows of an image.
const ROWS: usize = 2;
/// Numbers of parts between narrow borders: overlapping rows grow with the nodes of a region, so one
/// small and one large number are estimated.
const FEW_AND_MANY: [u64; 2] = [4, 12];
/// Steps of a region that may begin and end anywhere.
pub(super) const ANYWHERE: (usize, usize) = (0, usize::MAX);

/// Origin of a seed. Estimates of different kinds are compared only after growth with every number of
/// parts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Equal,
    Unequal,
    BetweenWaists,
    BehindJoins,
    Private,
}

/// Number of kinds.
pub(super) const KINDS: usize = 5;

/// A seed whose region lowers a step, given small enough parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kind: Kind,
    pub(super) seed: Seed,
    pub(super) grown: Grown,
}

/// Seeds of a step.
type Seeds = Arc<[(Kind, Seed)]>;
type Listed = Arc<[Candidate]>;

/// A seed with every number of parts from which a region grows.
type Numbers = Arc<[(Seed, Grown)]>;

/// Key of similar steps, as in equal layers: bytes, operator, and extents of the largest live values.
type Likeness = (u64, String, Vec<Vec<u64>>);

/// Regions that may be split, in one module.
#[derive(Debug)]
pub(super) struct Candidates<'s> {
    ground: Ground<'s>,
    pub(super) levels: Levels<'s>,
    cost: &'s CostModel,
    pub(super) tuning: &'s SplitTuning,
    pub(super) peak: u64,
    /// Narrow borders, if regions begin and end there.
    waists: Option<Waists>,
    way: Way,
    /// Whether regions may end at values that other nodes also read.
    ends_at_readers: bool,
    /// Estimates by seed; `None` if no region grows.
    grown: Estimates,
    /// Number of changed estimates: lists made before the last change are out of date.
    changes: u64,
    /// Seeds of each step, made on first use.
    seeds: Vec<Option<Seeds>>,
    /// Seeds that lower the step, with the number of changes at the time of listing.
    listed: Vec<Option<(u64, Listed)>>,
    /// Seeds with every number of parts, by the seed with zero parts, with the number of changes at the
    /// time of listing.
    numbers: FxHashMap<Seed, (u64, Numbers)>,
    likenesses: Vec<Option<u32>>,
    named: BTreeMap<Likeness, u32>,
    effort: Effort,
}

impl<'s> Candidates<'s> {
    /// Creates the candidates of a judged module; `grown` are cached estimates, `least` the smallest
    /// extents of axes.
    pub(super) fn of(
        judged: &'s Judged,
        options: &'s Options,
        weights: Weights<'s, 's>,
        way: Way,
        grown: Estimates,
        least: Arc<Least>,
    ) -> Self {
        let tuning = &options.tuning.split;
        let levels = Levels::of(judged, options, tuning.least_seed.of(judged.peak));
        let steps = judged.profile.len();
        Self {
            ground: Ground::of(&judged.module, options, weights, way.apart, least),
            waists: way.between_waists.then(|| Waists::of(levels.crossing(), tuning)),
            levels,
            cost: &options.cost,
            tuning,
            peak: judged.peak,
            way,
            ends_at_readers: false,
            grown,
            changes: 0,
            seeds: vec![None; steps],
            listed: vec![None; steps],
            numbers: FxHashMap::default(),
            likenesses: vec![None; steps],
            named: BTreeMap::new(),
            effort: Effort::new(tuning.visits),
        }
    }

    /// Lets regions end at values that other nodes also read: this adds regions, and greedy choices end
    /// elsewhere.
    pub(super) fn ending_at_readers(self, ends_at_readers: bool) -> Self {
        Self { ends_at_readers, ..self }
    }

    /// Returns the estimates. Seeds skipped for lack of effort are removed, so that they may grow the
    /// next time.
    pub(super) fn into_grown(mut self) -> Estimates {
        if self.effort.is_spent() {
            self.grown.retain(|_, grown| grown.is_some());
        }
        self.grown
    }

    /// Returns the region of a seed, with its estimate.
    pub(super) fn region(&mut self, seed: Seed) -> Option<(Region, Grown)> {
        self.ground.region(seed, &mut self.effort).zip(self.grown.get(&seed).copied().flatten())
    }

    /// Lists the seeds that lower a step, each with the fewest parts of its axis.
    pub(super) fn at(&mut self, step: usize) -> Listed {
        let changes = self.changes;
        if let Some((_, known)) = self.listed[step].as_ref().filter(|(when, _)| *when == changes) {
            return known.clone();
        }
        let seeds = match &self.seeds[step] {
            Some(seeds) => seeds.clone(),
            None => self.seeds_at(step).into(),
        };
        self.seeds[step] = Some(seeds.clone());
        let candidate = |(kind, seed): &(Kind, Seed)| {
            let grown = self.grown(*seed).filter(|grown| self.helps(grown, grown.least, step))?;
            Some(Candidate { kind: *kind, seed: *seed, grown })
        };
        let found: Listed = seeds.iter().filter_map(candidate).collect();
        self.listed[step] = Some((changes, found.clone()));
        found
    }

    /// Lists a seed with every number of parts of its axis.
    pub(super) fn in_all_numbers(&mut self, seed: Seed) -> Numbers {
        let (key, changes) = (Seed { parts: 0, ..seed }, self.changes);
        if let Some((_, known)) = self.numbers.get(&key).filter(|(when, _)| *when == changes) {
            return known.clone();
        }
        let extent = self.levels.dims(seed.value)[seed.axis];
        let numbers: Vec<u64> = match seed.lie {
            Lie::Equal => equal_parts(extent).collect(),
            Lie::Overlapping => self.unequal_parts(seed.value, seed.axis, extent).collect(),
            Lie::Joined => {
                let operands =
                    self.ground.joined(seed.value).map_or(0, |(_, borders)| borders.len() as u64 - 1);
                joined_parts(operands).collect()
            }
        };
        let seeds = numbers.into_iter().map(|parts| Seed { parts, ..seed });
        let found: Numbers = seeds.filter_map(|seed| self.grown(seed).map(|grown| (seed, grown))).collect();
        self.numbers.insert(key, (changes, found.clone()));
        found
    }

    /// Returns the number of a step's likeness: similar steps have equal numbers.
    pub(super) fn likeness(&mut self, step: usize) -> u32 {
        if let Some(known) = self.likenesses[step] {
            return known;
        }
        let operator = &self.levels.module.node(self.levels.node(step)).operator;
        let large = self.levels.live(step).iter().take(self.tuning.seeds);
        let likeness = (
            self.levels.profile[step],
            operator.name.to_string(),
            large.map(|value| self.levels.dims(*value)).collect(),
        );
        let fresh = self.named.len() as u32;
        let name = *self.named.entry(likeness).or_insert(fresh);
        self.likenesses[step] = Some(name);
        name
    }

    /// Makes the seeds of a step, each with the fewest parts of its axis.
    fn seeds_at(&self, step: usize) -> Vec<(Kind, Seed)> {
        let mut seeds = Vec::new();
        for (value, axis, extent) in self.axes(step) {
            let (equal, unequal) =
                (equal_parts(extent).next(), self.unequal_parts(value, axis, extent).next());
            for (kind, lie, parts) in
                [(Kind::Equal, Lie::Equal, equal), (Kind::Unequal, Lie::Overlapping, unequal)]
            {
                let Some(parts) = parts else { continue };
                let small = self.tuning.small.map(|part| part.of(self.peak));
                seeds.extend(small.map(|small| (kind, Seed { small, ..self.seed(value, axis, parts, lie) })));
            }
            let private = equal.filter(|_| self.ends_at_readers && self.ground.is_private(value));
            let private =
                private.map(|parts| Seed { private: true, ..self.seed(value, axis, parts, Lie::Equal) });
            seeds.extend(private.map(|seed| (Kind::Private, seed)));
        }
        seeds.extend(self.between_waists(step).into_iter().map(|seed| (Kind::BetweenWaists, seed)));
        if self.way.apart {
            seeds.extend(self.behind_joins(step).into_iter().map(|seed| (Kind::BehindJoins, seed)));
        }
        seeds
    }

    /// Makes a seed whose region may begin and end anywhere, and grows to the smallest values.
    fn seed(&self, value: Value, axis: usize, parts: u64, lie: Lie) -> Seed {
        Seed {
            value,
            axis,
            parts,
            lie,
            small: self.tuning.small[0].of(self.peak),
            private: false,
            steps: ANYWHERE,
        }
    }

    /// Returns the numbers of unequal parts of an axis, the most telling one first: for rows of images,
    /// whose shares overlap, and for axes without equal parts.
    fn unequal_parts(&self, value: Value, axis: usize, extent: u64) -> impl Iterator<Item = u64> + use<> {
        let may = equal_parts(extent).next().is_none()
            || axis == ROWS && (self.levels.dims(value).len() > 3 || self.ground.is_beside_windows(value));
        let least_rows = self.tuning.least_rows;
        UNEQUAL.into_iter().filter(move |parts| may && extent >= parts * least_rows)
    }

    /// Makes the seeds of rows whose regions begin and end at narrow borders around a step.
    fn between_waists(&self, step: usize) -> Vec<Seed> {
        let Some(waists) = &self.waists else { return Vec::new() };
        let numbers = |(value, axis, extent)| {
            self.unequal_parts(value, axis, extent).map(move |parts| (value, parts)).collect()
        };
        let rows = self.axes(step).into_iter().filter(|(_, axis, _)| *axis == ROWS).map(numbers);
        let seeds: Vec<(Value, u64)> =
            rows.into_iter().find(|numbers: &Vec<_>| !numbers.is_empty()).unwrap_or_default();
        let seeds = seeds.into_iter().filter(|(_, parts)| FEW_AND_MANY.contains(parts)).collect::<Vec<_>>();
        if seeds.is_empty() {
            return Vec::new();
        }
        let (firsts, lasts) = (waists.firsts(step), waists.lasts(step));
        let windows = firsts.iter().flat_map(|first| lasts.iter().map(move |last| (*first, *last)));
        let seeded = |steps| {
            seeds.iter().map(move |(value, parts)| Seed {
                steps,
                ..self.seed(*value, ROWS, *parts, Lie::Overlapping)
            })
        };
        windows.flat_map(seeded).collect()
    }

    /// Makes the seeds of regions around a step that remove a Concat.
    fn behind_joins(&self, step: usize) -> Vec<Seed> {
        let large = self.levels.live(step).iter().take(self.tuning.seeds);
        let joins: BTreeSet<Value> = large.filter_map(|value| self.ground.behind_join(*value)).collect();
        let seeded = |value| {
            let (axis, borders) = self.ground.joined(value)?;
            joined_parts(borders.len() as u64 - 1)
                .last()
                .map(|parts| self.seed(value, axis, parts, Lie::Joined))
        };
        joins.into_iter().filter_map(seeded).collect()
    }

    /// Returns the axes and extents of the largest values at a step.
    fn axes(&self, step: usize) -> Vec<(Value, usize, u64)> {
        let large = self.levels.live(step).iter().take(self.tuning.seeds);
        let axes = |value| {
            self.levels.dims(value).into_iter().enumerate().map(move |(axis, extent)| (value, axis, extent))
        };
        large.copied().flat_map(axes).collect()
    }

    /// Returns whether a region of some level lowers a step. A slightly higher level also counts:
    /// estimates ignore in-place writes.
    pub(super) fn helps(&self, grown: &Grown, level: u64, step: usize) -> bool {
        let before = self.levels.profile[step];
        (grown.span.0..=grown.span.1).contains(&step) && level < before + self.tuning.inaccuracy.of(before)
    }

    /// Estimates the extra time of a split region, in nanoseconds: more calls, repeated gathering,
    /// overlapping rows, and copies.
    fn nanos(&self, region: &Region) -> u64 {
        let cut: Vec<Value> = region.cut().collect();
        let joins = region.made.values().filter(|needed| **needed).count() as u64;
        let calls =
            (region.nodes.len() + cut.len()) as u64 * region.parts - region.nodes.len() as u64 + joins;
        let again = |node: &Node| match region.divided.nodes.get(node) {
            Some(pieces) if pieces.operands.first() == Some(&Piece::Whole) => {
                self.cost.gathering(self.levels.module, *node).0
            }
            _ => 0.0,
        };
        // A removed Concat does not run.
        let joining = region
            .opened
            .map_or(0.0, |(step, _)| self.cost.nanos(self.levels.module, self.levels.node(step)).0);
        let gathered: f64 = region.nodes.values().map(again).sum();
        let module = self.levels.module;
        let again =
            |node: &Node| self.cost.nanos(module, *node).0 * (region.times(module, *node) - 1.0).max(0.0);
        let repeated: f64 = region.nodes.values().map(again).sum();
        // A sliced share is read and written.
        let machine = &self.cost.target.machine;
        let copied: u64 = cut.into_iter().map(|value| 2 * self.ground.bytes(value)).sum();
        let copying = copied as f64 * 1e9 / machine.bytes_per_second;
        let more =
            calls as f64 * machine.overhead.0 + gathered * (region.parts - 1) as f64 + repeated + copying;
        (more - joining).max(0.0).round() as u64
    }

    /// Returns the estimate of a seed, and grows its region on first use.
    pub(super) fn grown(&mut self, seed: Seed) -> Option<Grown> {
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
            // Other large values of the region, and larger limits for small values, would grow an equal
            // region.
            let smalls = self.tuning.small.map(|part| part.of(self.peak));
            for (value, axis) in region.shares().chain([(seed.value, seed.axis)]) {
                let bytes = self.ground.bytes(value);
                let same = |small: &u64| *small >= seed.small && *small < region.smallest && *small < bytes;
                for small in smalls.into_iter().filter(same) {
                    let before = self.grown.insert(Seed { value, axis, small, ..seed }, grown);
                    self.changes += u64::from(before.is_some_and(|before| before != grown));
                }
            }
        }
        grown
    }
}

/// Returns the numbers of equal parts of an axis, the smallest first.
fn equal_parts(extent: u64) -> impl Iterator<Item = u64> {
    PARTS.filter(move |parts| extent > 0 && extent.is_multiple_of(*parts))
}

/// Returns the numbers of parts of a Concat, by its number of operands: one operand a part, or several.
fn joined_parts(operands: u64) -> impl Iterator<Item = u64> {
    let most = *PARTS.end();
    let fewer = UNEQUAL.into_iter().filter(move |parts| *parts < operands);
    fewer.chain(Some(operands).filter(|operands| (2..=most).contains(operands)))
}
