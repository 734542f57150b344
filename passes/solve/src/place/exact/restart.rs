//! Restarts of the placement search over orders: short slices in Luby's sequence, because run times are
//! heavy-tailed.

use super::instance::Instance;
use super::ranking::{KEYS, Order};
use super::search::{Search, Verdict};
use super::valley::{Choice, ValleySearch};
use crate::basics::no_goods::NoGoods;
use crate::tuning::PlaceTuning;

/// Choices of the valley search, used in turns.
const CHOICES: [Choice; 3] = [Choice::Items, Choice::Options, Choice::Slack];

/// Orders of the searches, one for each slice: six plain orders, then orders with noise. Also the effort
/// that each search spent.
pub(in crate::place) struct Orders {
    random: u64,
    canonical: Turns,
    valley: Turns,
    /// Failures of each section in the valley search.
    weight: Vec<u32>,
}

/// Slices and nodes that one search spent.
#[derive(Default)]
struct Turns {
    slices: u64,
    nodes: u64,
}

impl Orders {
    pub fn new() -> Self {
        let (canonical, valley) = (Turns::default(), Turns::default());
        Self { random: 0x2545_f491_4f6c_dd1d, canonical, valley, weight: Vec::new() }
    }

    /// Returns the order of slice number `slice` of a search.
    pub fn order(&mut self, instance: &Instance, slice: u64) -> Order {
        let (round, keys) = (slice as usize / KEYS.len(), KEYS[slice as usize % KEYS.len()]);
        if round == 0 {
            return Order::new(instance, keys, Vec::new());
        }
        let strength = [8, 32, 96, 16][round % 4];
        let noise = (0..instance.items()).map(|_| 256 + xorshift(&mut self.random) % strength).collect();
        Order::new(instance, keys, noise)
    }
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Decides whether a height of `capacity` bytes is possible, and returns the offsets in granules if it
/// is. Spends at most `nodes` and counts them down.
///
/// Two searches take turns, since neither is faster on all problems. Each gets its share of the nodes.
/// They share the failed states.
pub(in crate::place) fn decide(
    instance: &Instance,
    capacity: u64,
    tuning: &PlaceTuning,
    orders: &mut Orders,
    no_goods: &mut NoGoods,
    nodes: &mut u64,
) -> (Verdict, Vec<u32>) {
    let mut has_valleys = true;
    let tight = instance.is_tight(capacity);
    while *nodes > 0 {
        let turn = if has_valleys && (tight || tuning.lesser.of(orders.valley.nodes) < orders.canonical.nodes)
        {
            orders.valley_slice(instance, capacity, tuning, no_goods, *nodes)
        } else {
            Some(orders.canonical_slice(instance, capacity, tuning, no_goods, *nodes))
        };
        let Some((verdict, offsets, spent)) = turn else {
            has_valleys = false;
            continue;
        };
        *nodes = nodes.saturating_sub(spent);
        if verdict != Verdict::Limit {
            return (verdict, offsets);
        }
    }
    (Verdict::Limit, Vec::new())
}

/// A verdict, the offsets if a placement was found, and the nodes spent.
type Slice = (Verdict, Vec<u32>, u64);

impl Orders {
    fn canonical_slice(
        &mut self,
        instance: &Instance,
        capacity: u64,
        tuning: &PlaceTuning,
        no_goods: &mut NoGoods,
        most: u64,
    ) -> Slice {
        let order = self.order(instance, self.canonical.slices);
        let mut search = Search::new(instance, capacity, &order);
        self.canonical.slices += 1;
        let verdict =
            search.run(tuning.slice.max(1).saturating_mul(luby(self.canonical.slices)).min(most), no_goods);
        let spent = search.nodes.max(1);
        self.canonical.nodes += spent;
        (verdict, search.offsets, spent)
    }

    /// Runs one slice of the valley search; returns `None` if the problem is unsuitable for it.
    fn valley_slice(
        &mut self,
        instance: &Instance,
        capacity: u64,
        tuning: &PlaceTuning,
        no_goods: &mut NoGoods,
        most: u64,
    ) -> Option<Slice> {
        let tight = instance.is_tight(capacity);
        let choice = CHOICES[(self.valley.slices / 2) as usize % CHOICES.len()];
        let order = self.order(instance, self.valley.slices);
        let mut search = ValleySearch::new(instance, capacity, &order, choice)?;
        // Every second slice starts with the section weights of earlier slices.
        let keeps = !tight && self.valley.slices % 2 == 1;
        if keeps && self.weight.len() == search.weight.len() {
            search.weight.clone_from(&self.weight);
        }
        self.valley.slices += 1;
        // In a tight problem failures come early, so the search may go deep.
        let per_node = tuning.valleys_per_node.max(1);
        let slice = if tight { tuning.slice.saturating_mul(4) } else { tuning.slice / per_node };
        let limit = slice.max(1).saturating_mul(luby(self.valley.slices));
        let verdict = search.run(limit.min(most.saturating_mul(per_node)), no_goods);
        if keeps {
            self.weight = search.weight;
        }
        let spent = search.nodes.div_ceil(per_node).max(1);
        self.valley.nodes += spent;
        Some((verdict, search.offsets, spent))
    }
}

/// Returns element `index`, from 1, of the sequence 1 1 2 1 1 2 4 … of Luby, Sinclair and Zuckerman
/// (1993).
fn luby(mut index: u64) -> u64 {
    loop {
        let bits = u64::BITS - index.leading_zeros();
        if index == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        index -= (1 << (bits - 1)) - 1;
    }
}
