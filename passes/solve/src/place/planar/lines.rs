//! Divides the items that end or begin at one moment into vertical lines.
//!
//! Usually all of them touch one line. If there are two lines at one moment, usually one of them is
//! balanced: its ends and begins have equal sums. The more surprising this equality is, the likelier are
//! two lines. With many possible subsets or small sums, equal sums occur by chance.

use std::collections::BTreeMap;

/// Items that end at a line, and items that begin there.
pub(super) type Sides = (Vec<u32>, Vec<u32>);

/// Lines of one moment, and the cost of assuming them, in eighths of a bit.
pub(super) struct Division {
    pub cost: u32,
    pub lines: Vec<Sides>,
}

/// Cost, in eighths of a bit, of two lines with holes at one moment, and of each of their items in
/// addition: a quarter of a bit. The tree decides which of the ending items can be adjacent.
const UNBALANCED: u32 = 32;
const UNBALANCED_FOR_EACH: u32 = 2;

/// Divisor: one of this number of moments has two lines.
const MOMENTS_PER_DOUBLE: u128 = 5;

/// Most items whose subsets are all examined. For more items only small subsets are examined: of at most
/// `MAX_MEMBERS` items if both sides have equal sums.
const MAX_SUBSET_ITEMS: usize = 10;
pub(super) const MAX_MEMBERS: usize = 4;

/// Equivalent limits if a line has holes, since more subsets are possible then.
pub(super) const MAX_UNBALANCED_ITEMS: usize = 9;
const MAX_UNBALANCED_MEMBERS: u32 = 2;

/// Most balanced lines at one moment, and most of them that may be next to two lines with holes.
const MAX_BLOCKS: usize = 24;
const MAX_BESIDE: usize = 4;

/// Most divisions of a moment, and most ways to take holes for a division.
pub(super) const MAX_DIVISIONS: usize = 400;

/// Subsets of both sides that make one balanced line.
struct Block {
    ends: u64,
    begins: u64,
    cost: u32,
}

/// Returns the likeliest divisions, cheapest first. `unit` divides all sizes.
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
    // One line, then up to three balanced lines with the rest as another line.
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
    // Two lines with holes, also next to one balanced line.
    let most =
        if count <= MAX_UNBALANCED_ITEMS { MAX_UNBALANCED_ITEMS as u32 } else { MAX_UNBALANCED_MEMBERS };
    let cost = UNBALANCED + count as u32 * UNBALANCED_FOR_EACH;
    parts(&left, &right, most, count, &mut |part| add(&[part], cost));
    for block in blocks.iter().filter(|block| block.cost < UNBALANCED).take(MAX_BESIDE) {
        let own = (block.ends, block.begins);
        let rest = count - (own.0.count_ones() + own.1.count_ones()) as usize;
        let most =
            if rest <= MAX_UNBALANCED_ITEMS { MAX_UNBALANCED_ITEMS as u32 } else { MAX_UNBALANCED_MEMBERS };
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

/// Visits the subsets of both sides that together have 1 to `most` members, and fewer than `count`.
fn parts(
    left: &[(u64, u64)],
    right: &[(u64, u64)],
    most: u32,
    count: usize,
    visit: &mut impl FnMut((u64, u64)),
) {
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
    // The last bit stands for all items from that position on.
    let in_mask = |place: &usize| mask >> (*place).min(63) & 1 == 1;
    (0..items.len()).filter(in_mask).map(|place| items[place]).collect()
}

/// Returns subsets as masks, with their sums: all subsets of up to `most` members if there are few
/// items, otherwise those of at most two.
fn subsets(items: &[u32], size: &[u64], most: u32) -> Vec<(u64, u64)> {
    let with_sum = |mask: u64| (mask, chosen(items, mask).iter().map(|item| size[*item as usize]).sum());
    if items.len() <= MAX_SUBSET_ITEMS {
        return (0..1_u64 << items.len()).filter(|mask| mask.count_ones() <= most).map(with_sum).collect();
    }
    let masked = items.len().min(MAX_SUBSET_ITEMS * 2);
    let pairs = (0..masked).flat_map(|first| (0..=first).map(move |second| 1 << first | 1 << second));
    std::iter::once(0).chain(pairs).map(with_sum).collect()
}

/// Returns the subsets of both sides with equal sums, the most surprising first, and the surprise of the
/// first, in eighths of a bit.
fn blocks(
    left: &[(u64, u64)],
    right: &[(u64, u64)],
    counts: [usize; 2],
    most: u32,
    unit: u64,
) -> (Vec<Block>, u32) {
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

/// Returns, in eighths of a bit, how much better chance explains the equal sums of two subsets than a
/// line of their own does.
fn doubt(counts: [usize; 2], members: [u32; 2], sum: u64) -> i64 {
    let mut pairs: u128 = 0;
    for ends in 1..=members[0] {
        for begins in 1..=members[1] {
            pairs += binomial(counts[0], ends) * binomial(counts[1], begins);
        }
    }
    let (chance, line) = ((pairs * MOMENTS_PER_DOUBLE).min(1 << 60), u128::from(sum.min(1 << 30)) + 1);
    let (chance, line) = (chance * chance, line * line);
    // Half bits are precise enough.
    4 * if chance >= line { i64::from((chance / line).ilog2()) } else { -i64::from((line / chance).ilog2()) }
}

fn binomial(count: usize, members: u32) -> u128 {
    (0..u128::from(members))
        .fold(1, |product, place| product * (count as u128).saturating_sub(place) / (place + 1))
}
