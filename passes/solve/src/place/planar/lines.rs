//! How what ends and what begins at one moment may be divided into vertical lines.
//!
//! Mostly all of it touches one line. If two lines lie at the same moment, then mostly one of them has as much on its left as on its right, and how
//! surprising that is says how likely they are two: many small sets have equal sums by chance, few do.

use std::collections::BTreeMap;

/// What ends at a line and what begins there.
pub(super) type Sides = (Vec<u32>, Vec<u32>);

/// Lines of one moment, and what it costs to believe in them.
pub(super) struct Division {
    pub cost: u32,
    pub lines: Vec<Sides>,
}

/// What it costs that two lines of one moment both have holes, in eighths of a bit, and more for each item: a quarter of a bit.
/// The tree tells which of those that end can lie together.
const UNBALANCED: u32 = 32;
const UNBALANCED_FOR_EACH: u32 = 2;

/// One of so many moments has two lines.
const MOMENTS_PER_DOUBLE: u128 = 5;

/// Most items of which all subsets are looked at; of more items only subsets of few members: `MAX_MEMBERS` where both sides have equal sums.
const MAX_SUBSET_ITEMS: usize = 10;
pub(super) const MAX_MEMBERS: usize = 4;

/// The same where a line has holes: subsets are more often possible then.
pub(super) const MAX_UNBALANCED_ITEMS: usize = 9;
const MAX_UNBALANCED_MEMBERS: u32 = 2;

/// Most lines by themselves at one moment, and most that may lie beside two lines with holes.
const MAX_BLOCKS: usize = 24;
const MAX_BESIDE: usize = 4;

/// Most divisions of a moment, and most ways to take holes for one.
pub(super) const MAX_DIVISIONS: usize = 400;

/// Subsets that are one line by themselves.
struct Block {
    ends: u64,
    begins: u64,
    cost: u32,
}

/// The likeliest divisions, those that cost least first. `unit` divides all sizes.
pub(super) fn divisions(ends: &[u32], begins: &[u32], size: &[u64], unit: u64) -> Vec<Division> {
    let count = ends.len() + begins.len();
    let most = if count <= MAX_SUBSET_ITEMS { MAX_SUBSET_ITEMS as u32 } else { MAX_MEMBERS as u32 };
    let (left, right) = (subsets(ends, size, most), subsets(begins, size, most));
    let (blocks, surprise) = blocks(&left, &right, [ends.len(), begins.len()], most, unit);
    let mut found: BTreeMap<Vec<Sides>, u32> = BTreeMap::new();
    let mut add = |lines: &[(u64, u64)], cost: u32| {
        let taken = lines.iter().fold((0, 0), |sum, line| (sum.0 | line.0, sum.1 | line.1));
        let rest = (!taken.0, !taken.1);
        let mut sides: Vec<Sides> =
            lines.iter().chain([&rest]).map(|line| (chosen(ends, line.0), chosen(begins, line.1))).collect();
        sides.retain(|side| side.0.len() + side.1.len() > 0);
        sides.sort_unstable();
        let known = found.entry(sides).or_insert(cost);
        *known = cost.min(*known);
    };
    add(&[], surprise.min(2 * UNBALANCED));
    let apart = |a: (u64, u64), b: (u64, u64)| a.0 & b.0 == 0 && a.1 & b.1 == 0;
    for (place, block) in blocks.iter().enumerate() {
        let first = (block.ends, block.begins);
        add(&[first], block.cost);
        for (before, other) in blocks[..place].iter().enumerate() {
            let second = (other.ends, other.begins);
            if !apart(first, second) {
                continue;
            }
            add(&[first, second], block.cost + other.cost);
            for third in &blocks[..before] {
                let line = (third.ends, third.begins);
                if apart(first, line) && apart(second, line) {
                    add(&[first, second, line], block.cost + other.cost + third.cost);
                }
            }
        }
    }
    let most = if count <= MAX_UNBALANCED_ITEMS { MAX_UNBALANCED_ITEMS as u32 } else { MAX_UNBALANCED_MEMBERS };
    let cost = UNBALANCED + count as u32 * UNBALANCED_FOR_EACH;
    parts(&left, &right, most, count, &mut |part| add(&[part], cost));
    for block in blocks.iter().filter(|block| block.cost < UNBALANCED).take(MAX_BESIDE) {
        let own = (block.ends, block.begins);
        let rest = count - (own.0.count_ones() + own.1.count_ones()) as usize;
        let most = if rest <= MAX_UNBALANCED_ITEMS { MAX_UNBALANCED_ITEMS as u32 } else { MAX_UNBALANCED_MEMBERS };
        let mut beside = |part: (u64, u64)| {
            if apart(own, part) {
                add(&[own, part], block.cost + cost)
            }
        };
        parts(&left, &right, most, rest, &mut beside);
    }
    let mut list: Vec<Division> = found.into_iter().map(|(lines, cost)| Division { cost, lines }).collect();
    list.sort_by_key(|division| division.cost);
    list.truncate(MAX_DIVISIONS);
    list
}

/// Visits the subsets of both sides that have up to `most` members in sum, and fewer than `count`.
fn parts(left: &[(u64, u64)], right: &[(u64, u64)], most: u32, count: usize, visit: &mut impl FnMut((u64, u64))) {
    for &(ends, _) in left {
        for &(begins, _) in right {
            let members = ends.count_ones() + begins.count_ones();
            if members > 0 && members <= most && (members as usize) < count {
                visit((ends, begins));
            }
        }
    }
}

fn chosen(items: &[u32], mask: u64) -> Vec<u32> {
    // The last bit stands for all items from there on.
    let in_mask = |place: &usize| mask >> (*place).min(63) & 1 == 1;
    (0..items.len()).filter(in_mask).map(|place| items[place]).collect()
}

/// Subsets as masks, with their sums: all of up to `most` members if there are few items, else those of one or two.
fn subsets(items: &[u32], size: &[u64], most: u32) -> Vec<(u64, u64)> {
    let with_sum = |mask: u64| (mask, chosen(items, mask).iter().map(|item| size[*item as usize]).sum());
    if items.len() <= MAX_SUBSET_ITEMS {
        return (0..1_u64 << items.len()).filter(|mask| mask.count_ones() <= most).map(with_sum).collect();
    }
    let masked = items.len().min(MAX_SUBSET_ITEMS * 2);
    let pairs = (0..masked).flat_map(|first| (0..=first).map(move |second| 1 << first | 1 << second));
    std::iter::once(0).chain(pairs).map(with_sum).collect()
}

/// Subsets of both sides with equal sums, the most surprising ones first; and how surprising the first one is.
fn blocks(left: &[(u64, u64)], right: &[(u64, u64)], counts: [usize; 2], most: u32, unit: u64) -> (Vec<Block>, u32) {
    let mut list: Vec<(i64, Block)> = Vec::new();
    for &(ends, sum) in left {
        for &(begins, other) in right {
            let members = [ends.count_ones(), begins.count_ones()];
            let is_all = members[0] as usize == counts[0] && members[1] as usize == counts[1];
            if sum != other || members.contains(&0) || members[0] + members[1] > most || is_all {
                continue;
            }
            let doubt = doubt(counts, members, sum / unit.max(1));
            list.push((doubt, Block { ends, begins, cost: u32::try_from(doubt).unwrap_or(0) }));
        }
    }
    list.sort_by_key(|(doubt, block)| (*doubt, block.ends, block.begins));
    list.truncate(MAX_BLOCKS);
    let surprise = list.first().map_or(0, |(doubt, _)| u32::try_from(-doubt).unwrap_or(0));
    (list.into_iter().map(|(_, block)| block).collect(), surprise)
}

/// The eighths of a bit by which chance explains better than a line of their own that two subsets have this sum.
fn doubt(counts: [usize; 2], members: [u32; 2], sum: u64) -> i64 {
    let mut pairs: u128 = 0;
    for ends in 1..=members[0] {
        for begins in 1..=members[1] {
            pairs += binomial(counts[0], ends) * binomial(counts[1], begins);
        }
    }
    let (chance, line) = ((pairs * MOMENTS_PER_DOUBLE).min(1 << 60), u128::from(sum.min(1 << 30)) + 1);
    let (chance, line) = (chance * chance, line * line);
    // Halves of a bit are fine enough.
    4 * if chance >= line { i64::from((chance / line).ilog2()) } else { -i64::from((line / chance).ilog2()) }
}

fn binomial(count: usize, members: u32) -> u128 {
    (0..u128::from(members)).fold(1, |product, place| product * (count as u128).saturating_sub(place) / (place + 1))
}
