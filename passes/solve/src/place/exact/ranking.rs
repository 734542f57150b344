//! The item orders of the exact searches: largest load, duration and area as sort keys in all six
//! sequences, with noise.

use std::cmp::Reverse;

use super::instance::Instance;

/// Sort keys of each order, largest value first. 0: largest load of the item's sections; 1: duration; 2:
/// area.
pub(in crate::place) const KEYS: [[usize; 3]; 6] =
    [[0, 1, 2], [0, 2, 1], [1, 2, 0], [1, 0, 2], [2, 0, 1], [2, 1, 0]];

/// An order of items, with the keys that sort it again after loads change.
#[derive(Clone, Debug)]
pub(in crate::place) struct Order {
    pub items: Vec<u32>,
    keys: [usize; 3],
    /// Factor of each item's keys, in 256ths.
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

    /// Returns the sort key of an item; the smallest key is placed first.
    pub fn key(&self, instance: &Instance, item: u32, load: u64) -> [Reverse<u128>; 3] {
        let index = item as usize;
        let (load, life, bytes) =
            (u128::from(load), u128::from(instance.duration[index]), u128::from(instance.bytes[index]));
        let noise = self.noise.get(index).map_or(256, |noise| u128::from(*noise));
        self.keys.map(|key| Reverse([load, life, life * bytes][key] * noise))
    }
}
