//! Repair of a placement: a buffer above a lower arena is moved into it in place of other buffers, which
//! then need new places themselves.
//!
//! A first-fit placement is low enough nearly everywhere; a few dozen buffers of a hundred thousand
//! determine its height. Each of these evicts the buffers at the offset that costs least, and the
//! evicted buffers follow, the largest first. Every eviction raises the price of evicting that buffer
//! again, so that chains end. (Ejection chains, after Glover, *Ejection chains, reference structures and
//! alternating path methods for traveling salesman problems*, 1996; prices that are learned from
//! failures, after Nagata and Bräysy, *A powerful route minimization heuristic for the vehicle routing
//! problem with time windows*, 2009.)

pub(super) mod neighbors;
pub(super) mod shake;
#[cfg(test)]
mod tests;

use std::collections::BinaryHeap;

use super::heuristics::first_fit::first_fit;
use super::heuristics::orders::{Rule, loads_met, order};
use super::normal::{Normal, align_up};
use crate::basics::random::Xorshift;
use neighbors::{Met, NOWHERE, Neighbors};
use shake::Shakes;

/// Bits of the number of a range that is met, and bits of an offset. Both together are one number, which
/// sorts fastest.
const ITEM_BITS: u32 = 20;
const OFFSET_BITS: u32 = u64::BITS - ITEM_BITS;

/// Lowers a placement to at most `target`, or returns it as it is. Subtracts the buffers examined from
/// `budget`. Needs a [`repairable`] problem.
pub(super) fn reach(
    normal: &Normal,
    neighbors: &Neighbors,
    offsets: &[u64],
    target: u64,
    budget: &mut u64,
) -> Vec<u64> {
    let Some(mut attempt) = Attempt::begin(normal, neighbors, offsets, budget) else {
        return offsets.to_vec();
    };
    // From another start, then from the given placement, with the learned prices.
    for shares in [2, 1] {
        let mut share = *budget / shares;
        *budget -= share;
        let done = attempt.run(target, &mut share);
        *budget += share;
        if done {
            return attempt.offsets;
        }
        attempt.restore(offsets);
    }
    offsets.to_vec()
}

/// Lowers a placement towards `target`. Subtracts the buffers examined from `budget`. Needs a
/// [`repairable`] problem.
pub(super) fn repair(
    normal: &Normal,
    neighbors: &Neighbors,
    offsets: &[u64],
    target: u64,
    budget: &mut u64,
) -> Vec<u64> {
    let mut best = offsets.to_vec();
    let Some(mut attempt) = Attempt::begin(normal, neighbors, offsets, budget) else { return best };
    // A failing height could spend the whole budget, so a part is kept for easier heights. Large
    // problems have no shakes and more expensive looks, so their first height is already an easier one.
    let (shares, fifths) = if attempt.shakes.is_some() { (3, 3) } else { (2, 4) };
    let mut lowest = target;
    loop {
        let height = normal.height(&best);
        // Heights closer together than this are not worth a try.
        if height <= lowest || *budget == 0 || height - lowest < (height >> 10).max(1) {
            return best;
        }
        let wanted = lowest + (height - lowest) / 5 * fifths;
        let mut share = budget.div_ceil(shares);
        *budget -= share;
        let done = attempt.run(wanted, &mut share);
        *budget += share;
        if done {
            best.clone_from(&attempt.offsets);
        } else {
            lowest = wanted + 1;
            if attempt.shakes.is_some() {
                attempt.restore(&best);
            }
        }
    }
}

/// Whether no offset is fixed. Gaps and windows are no obstacle.
pub(super) fn repairable(normal: &Normal) -> bool {
    !normal.has_fixed
}

struct Attempt<'a> {
    normal: &'a Normal,
    neighbors: &'a Neighbors,
    offsets: Vec<u64>,
    /// Number of evictions of each item.
    evicted: Vec<u32>,
    /// Price of evicting each item, for the first time and now.
    first_prices: Vec<u64>,
    prices: Vec<u64>,
    /// Items without a place, by area.
    open: BinaryHeap<(u128, u32)>,
    /// Shakes, which only small problems can afford. With shakes, prices also differ less than areas do.
    shakes: Option<Shakes>,
    random: Xorshift,
    around: Around,
}

/// Placed items that live with the item that needs a place. The allocations are reused.
#[derive(Default)]
struct Around {
    /// Where each item is met.
    others: Vec<Met>,
    /// Bottoms and tops in order, each with its position in `others`.
    by_bottom: Vec<u64>,
    by_top: Vec<u64>,
}

impl Around {
    /// Sorts the items by bottom, and those with a top of at most `highest` by top.
    fn sort(&mut self, highest: u64) {
        self.by_bottom.clear();
        self.by_bottom
            .extend((0..).zip(&self.others).map(|(place, (bottom, ..))| bottom << ITEM_BITS | place));
        self.by_bottom.sort_unstable();
        let in_time = (0..).zip(&self.others).filter(|(_, (_, top, _))| *top <= highest);
        self.by_top.clear();
        self.by_top.extend(in_time.map(|(place, (_, top, _))| top << ITEM_BITS | place));
        self.by_top.sort_unstable();
    }
}

/// Returns the offset of an entry of `by_bottom` or `by_top`.
fn offset_of(sorted: u64) -> u64 {
    sorted >> ITEM_BITS
}

impl<'a> Attempt<'a> {
    /// Begins with a placement, or with a better start; `None` if numbers are too large.
    fn begin(
        normal: &'a Normal,
        neighbors: &'a Neighbors,
        offsets: &[u64],
        budget: &mut u64,
    ) -> Option<Self> {
        // Where items meet that live partly may be at up to twice the height.
        let offset_bits = OFFSET_BITS - u32::from(normal.windowed);
        if neighbors::most_ranges(normal) >> ITEM_BITS > 0 || normal.height(offsets) >> offset_bits > 0 {
            return None;
        }
        let mut attempt = Self::new(normal, neighbors, offsets);
        if attempt.shakes.is_some() {
            // With the long-lived items of each size below the others, fewer items have to move than after
            // most other rules.
            let items = order(normal, Rule::SizeDuration, &loads_met(normal));
            attempt.offsets = first_fit(normal, &items, budget).offsets;
        }
        Some(attempt)
    }

    fn new(normal: &'a Normal, neighbors: &'a Neighbors, offsets: &[u64]) -> Self {
        let count = offsets.len();
        let shakes = neighbors.are_listed().then(|| Shakes::new(count));
        let price = |item: u32| {
            let data = &normal.items[item as usize];
            let area = data.size.saturating_mul(u64::from(data.duration)).max(1);
            if shakes.is_some() { area.isqrt() } else { area }
        };
        let prices: Vec<u64> = (0..count as u32).map(price).collect();
        Self {
            normal,
            neighbors,
            offsets: offsets.to_vec(),
            evicted: vec![0; count],
            first_prices: prices.clone(),
            prices,
            open: BinaryHeap::new(),
            shakes,
            random: Xorshift::new(),
            around: Around::default(),
        }
    }

    /// Returns whether every item found a place below the height `wanted`.
    fn run(&mut self, wanted: u64, budget: &mut u64) -> bool {
        // Remove the items above the wanted height.
        for index in 0..self.offsets.len() {
            let offset = self.offsets[index];
            if offset != NOWHERE && offset + self.normal.items[index].size > wanted {
                self.lose(index as u32);
            }
        }
        // Place the open items, largest area first; evicted items become open.
        while let Some((area, item)) = self.open.pop() {
            if let Some(shakes) = &mut self.shakes {
                shakes.turn(
                    (self.normal, self.neighbors),
                    &mut self.offsets,
                    wanted,
                    budget,
                    &mut self.random,
                );
            }
            let place = if *budget > 0 { self.cheapest(item, wanted, budget) } else { None };
            let Some((offset, losers)) = place else {
                self.open.push((area, item));
                return false;
            };
            self.offsets[item as usize] = offset;
            for loser in losers {
                self.evict(loser);
                self.lose(loser);
            }
        }
        true
    }

    /// Starts again from a complete placement, with the learned prices.
    fn restore(&mut self, offsets: &[u64]) {
        self.offsets.copy_from_slice(offsets);
        self.open.clear();
    }

    fn lose(&mut self, item: u32) {
        self.offsets[item as usize] = NOWHERE;
        self.open.push((self.area(item), item));
    }

    fn area(&self, item: u32) -> u128 {
        let data = &self.normal.items[item as usize];
        u128::from(data.size) * u128::from(data.duration)
    }

    /// Raises the price of evicting an item again.
    fn evict(&mut self, item: u32) {
        let item = item as usize;
        self.evicted[item] += 1;
        let times = u64::from(self.evicted[item]) + 1;
        self.prices[item] = self.first_prices[item].saturating_mul(times * times);
    }

    /// Returns the offset at which an item evicts at the lowest price, the lowest offset among equals,
    /// and the evicted items. O(k log k) for k items that live with it.
    fn cheapest(&mut self, item: u32, wanted: u64, budget: &mut u64) -> Option<(u64, Vec<u32>)> {
        // Collect the placed neighbors.
        let data = &self.normal.items[item as usize];
        let highest = wanted.checked_sub(data.size);
        self.neighbors.collect(self.normal, item, &self.offsets, budget, &mut self.around.others);
        let highest = highest?;
        self.around.sort(highest);
        let Around { others, by_bottom, by_top } = &self.around;
        let price_of = |sorted: u64| {
            u128::from(self.prices[others[(sorted & ((1 << ITEM_BITS) - 1)) as usize].2 as usize])
        };
        // An item at offset `p` meets items with `bottom < p + size` and `top > p`. As `p` rises, the
        // price falls only when it passes a top.
        let (mut met, mut passed, mut price) = (0, 0, 0_u128);
        let mut best: Option<(u128, u64, u64)> = None;
        for candidate in
            std::iter::once(0).chain(by_top.iter().map(|top| align_up(offset_of(*top), data.alignment)))
        {
            if candidate > highest {
                break;
            }
            while let Some(more) =
                by_bottom.get(met).filter(|bottom| offset_of(**bottom) < candidate + data.size)
            {
                price += price_of(*more);
                met += 1;
            }
            while let Some(less) = by_top.get(passed).filter(|top| offset_of(**top) <= candidate) {
                price -= price_of(*less);
                passed += 1;
            }
            if best.is_none_or(|(least, ..)| price < least) {
                // The item meets an unchanged set up to this offset.
                let next = by_bottom
                    .get(met)
                    .map_or(highest, |bottom| (offset_of(*bottom) - data.size).min(highest));
                best = Some((price, candidate, next));
            }
            if price == 0 {
                break;
            }
        }
        let (price, low, high) = best?;
        // A place directly below the next item is as cheap as one directly above the last, and leaves
        // other holes.
        let is_high = self.shakes.is_some() && price > 0 && self.random.below(2) == 0;
        let offset = if is_high { (high / data.alignment * data.alignment).max(low) } else { low };
        let meets = |(bottom, top, _): &&Met| *bottom < offset + data.size && *top > offset;
        Some((offset, others.iter().filter(meets).map(|(_, _, other)| *other).collect()))
    }
}
