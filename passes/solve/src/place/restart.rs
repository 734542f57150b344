//! Restarts of the placement search over orders: short slices in Luby's sequence, because run times are heavy-tailed.

use std::cmp::Reverse;

use super::instance::Instance;
use super::search::{NoGoods, Search, Verdict};

/// Nodes of the shortest slice.
const SLICE: u64 = 4_000;

/// What an order compares, in this sequence, largest first. T: largest load met; W: duration; A: area.
const KEYS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1], [2, 1, 0]];

/// An order of items and how to make it anew when loads have changed.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub items: Vec<u32>,
    keys: [usize; 3],
    /// Factors by which each item's keys are taken, in 256ths.
    noise: Vec<u64>,
}

impl Order {
    fn new(instance: &Instance, keys: [usize; 3], noise: Vec<u64>) -> Self {
        let mut order = Self { items: (0..instance.items() as u32).collect(), keys, noise };
        let mut items = std::mem::take(&mut order.items);
        items.sort_by_cached_key(|item| {
            (order.key(instance, *item, instance.load[*item as usize]), instance.source[*item as usize])
        });
        Self { items, ..order }
    }

    /// Sorts first what should be placed first.
    pub fn key(&self, instance: &Instance, item: u32, load: u64) -> [Reverse<u128>; 3] {
        let index = item as usize;
        let (load, life, bytes) = (u128::from(load), u128::from(instance.duration[index]), u128::from(instance.bytes[index]));
        let noise = self.noise.get(index).map_or(256, |noise| u128::from(*noise));
        self.keys.map(|key| Reverse([load, life, life * bytes][key] * noise))
    }
}

/// The orders that the search tries, one after the other: six plain ones, then the same with noise.
pub(super) struct Orders {
    next: usize,
    random: u64,
}

impl Orders {
    pub fn new() -> Self {
        Self { next: 0, random: 0x2545_f491_4f6c_dd1d }
    }

    fn next(&mut self, instance: &Instance) -> Order {
        let round = self.next / KEYS.len();
        let keys = KEYS[self.next % KEYS.len()];
        self.next += 1;
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

/// Whether a height of `capacity` bytes is possible; with the offsets in granules if it is. Spends at most `nodes`, which it counts down.
pub(super) fn decide(
    instance: &Instance,
    capacity: u64,
    orders: &mut Orders,
    no_goods: &mut NoGoods,
    nodes: &mut u64,
) -> (Verdict, Vec<u32>) {
    let mut round = 1;
    while *nodes > 0 {
        let order = orders.next(instance);
        let mut search = Search::new(instance, capacity, &order);
        let verdict = search.run((SLICE * luby(round)).min(*nodes), no_goods);
        *nodes = nodes.saturating_sub(search.nodes.max(1));
        round += 1;
        if verdict != Verdict::Limit {
            return (verdict, search.offsets);
        }
    }
    (Verdict::Limit, Vec::new())
}

/// The sequence 1 1 2 1 1 2 4 … of Luby, Sinclair and Zuckerman (1993), from `index` 1.
fn luby(mut index: u64) -> u64 {
    loop {
        let bits = u64::BITS - index.leading_zeros();
        if index == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        index -= (1 << (bits - 1)) - 1;
    }
}
