//! The orders in which the exact searches prefer items: largest load met, duration and area in all sequences, with noise.

use std::cmp::Reverse;

use super::instance::Instance;

/// What an order compares, in this sequence, largest first. T: largest load met; W: duration; A: area.
pub(super) const KEYS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1], [2, 1, 0]];

/// An order of items and how to make it anew when loads have changed.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub items: Vec<u32>,
    keys: [usize; 3],
    /// Factors by which each item's keys are taken, in 256ths.
    noise: Vec<u64>,
}

impl Order {
    pub fn new(instance: &Instance, keys: [usize; 3], noise: Vec<u64>) -> Self {
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
