//! The ladder of heights: exact search at the lower bound first, then at heights between the bound and
//! the best placement, nearer to the bound.
//!
//! A tight height prunes best, so it is often easier than a loose height (instance C of the MiniMalloc
//! set is an example). Only a search that ended raises the bound. A search that ran out of nodes proves
//! nothing.

pub(super) mod instance;
pub(super) mod ranking;
pub(super) mod restart;
pub(super) mod search;
pub(super) mod valley;

use super::normal::Normal;
use super::problem::{Problem, Solution};
use crate::StopReason;
use crate::basics::no_goods::NoGoods;
use crate::tuning::PlaceTuning;
use instance::Instance;
use restart::{Orders, decide};
use search::Verdict;

/// Best placement and bounds so far.
pub(super) struct Known {
    pub best: Option<Solution>,
    /// Proven lower bound on the height of any placement, in bytes.
    pub lower_bound: u64,
    pub stop: StopReason,
    pub nodes: u64,
}

/// Items that make a node twice as expensive: with `n` items a node counts 1 + `n` / 256 times.
const ITEMS_PER_NODE: u64 = 256;

/// Searches for a placement lower than `known.best`, or for any placement that keeps the problem's
/// capacity.
pub(super) fn improve(
    problem: &Problem,
    normal: &Normal,
    mut known: Known,
    tuning: &PlaceTuning,
    limit: u64,
) -> Known {
    let Some(instance) = Instance::new(normal) else { return known };
    let nodes = limit / (1 + instance.items() as u64 / ITEMS_PER_NODE);
    let mut ladder = Ladder {
        problem,
        normal,
        instance: &instance,
        tuning,
        orders: Orders::new(),
        no_goods: NoGoods::default(),
        left: nodes,
    };
    known.stop = StopReason::NodeLimit;
    match problem.capacity {
        Some(capacity) => ladder.keep_capacity(capacity, &mut known),
        None => ladder.descend(&mut known),
    }
    known.nodes += nodes - ladder.left;
    known
}

struct Ladder<'a> {
    problem: &'a Problem,
    normal: &'a Normal,
    instance: &'a Instance,
    tuning: &'a PlaceTuning,
    orders: Orders,
    /// States that failed at some height. A state that fails at one height fails at all lower heights,
    /// so they are kept only while the height falls.
    no_goods: NoGoods,
    left: u64,
}

impl Ladder<'_> {
    fn keep_capacity(&mut self, capacity: u64, known: &mut Known) {
        let (verdict, solution) = self.try_height(capacity, self.left);
        if verdict == Verdict::Limit {
            return;
        }
        known.stop =
            if verdict == Verdict::Found { StopReason::TargetReached } else { StopReason::Exhausted };
        known.best = solution;
        if verdict == Verdict::Impossible {
            known.lower_bound = known.lower_bound.max(self.above(capacity));
        }
    }

    /// Gives a third of the nodes to the bound itself (three quarters if the bound leaves nearly no
    /// room), and the rest to heights between the bound and the best placement.
    fn descend(&mut self, known: &mut Known) {
        let mut share =
            if self.instance.is_tight(known.lower_bound) { self.left / 4 * 3 } else { self.left / 3 };
        let mut floor = known.lower_bound;
        let mut height = floor;
        loop {
            let best = known.best.as_ref().map_or(u64::MAX, |best| best.height);
            if best <= known.lower_bound {
                known.stop = StopReason::Exhausted;
                return;
            }
            if self.left == 0 {
                return;
            }
            let (verdict, solution) = self.try_height(height.min(best - 1), share.min(self.left));
            match verdict {
                Verdict::Found => known.best = solution,
                Verdict::Impossible => {
                    // All heights up to this one are excluded if no height below it is open.
                    let next = self.above(height);
                    known.lower_bound = known.lower_bound.max(next.min(best));
                    floor = floor.max(next);
                }
                Verdict::Limit => floor = height + 1,
            }
            let best = known.best.as_ref().map_or(u64::MAX, |best| best.height);
            share = (self.left / 6).max(1000);
            if floor >= best {
                // Every height was tried. The remaining nodes go to the heights again, from the bound.
                floor = known.lower_bound;
            }
            height = floor + (best.saturating_sub(floor)) / 3;
        }
    }

    fn try_height(&mut self, height: u64, share: u64) -> (Verdict, Option<Solution>) {
        let mut nodes = share;
        self.no_goods.clear();
        let (verdict, offsets) =
            decide(self.instance, height, self.tuning, &mut self.orders, &mut self.no_goods, &mut nodes);
        self.left = self.left.saturating_sub(share - nodes);
        if verdict != Verdict::Found {
            return (verdict, None);
        }
        let mut by_item = vec![0; offsets.len()];
        for (item, offset) in self.instance.source.iter().zip(offsets) {
            by_item[*item as usize] = u64::from(offset) * self.instance.granule;
        }
        (verdict, Some(super::heuristics::portfolio::solution(self.problem, self.normal, &by_item)))
    }

    /// Returns the lowest possible height above an excluded one, in bytes.
    fn above(&self, height: u64) -> u64 {
        let granule = self.instance.granule;
        let whole = self.instance.bytes.iter().all(|bytes| bytes % granule == 0);
        if whole { (height / granule + 1) * granule } else { height + 1 }
    }
}
