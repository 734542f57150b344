//! Placements for several sizes: keeps the height at the given sizes and lowers it at other sizes.
//!
//! An order of the buffers places each at the first aligned byte above those of its neighbors that come
//! earlier; neighbors live at one step. Every placement is the placement of an order, with gaps closed.
//! The search changes the order along the paths that make a height, as searches for shop schedules do
//! (Nowicki, Smutnicki 1996), and accepts an order that is not worse than the one some rounds ago (late
//! acceptance, Burke, Bykov 2017).

use super::problem::{Problem, Solution};
use crate::basics::random::Random;

/// Height that counts as reached: a 1/1024 above the peak, as alignment alone can cost more.
const CLOSE: f64 = 1.0 + 1.0 / 1024.0;
/// Weight of a height above the limit, against the same share at other sizes: 4 kept the search near
/// allowed orders in trials with random problems.
const LIMIT_WEIGHT: f64 = 4.0;
/// Number of rounds after which an order is compared with later ones.
const MEMORY: usize = 24;

/// Returns a placement that is at most as high as `solution` and settles at most as high at each of
/// `sizes`, measured by the worst ratio of height and peak. `effort` bounds the visits of neighbors.
/// Problems with fixed offsets or gaps come back unchanged.
///
/// Each element of `sizes` has a size for each buffer, at most that of the problem.
pub fn settle(problem: &Problem, solution: &Solution, sizes: &[Vec<u64>], effort: u64) -> Solution {
    let is_plain =
        problem.buffers.iter().all(|buffer| buffer.fixed_offset.is_none() && buffer.gaps.is_empty());
    if !is_plain || sizes.is_empty() || solution.offsets.len() != problem.buffers.len() {
        return solution.clone();
    }
    let Some(stack) = Stack::new(problem, sizes, solution.height, effort) else { return solution.clone() };
    let mut order: Vec<usize> = (0..problem.buffers.len()).collect();
    order.sort_by_key(|at| (solution.offsets[*at], *at));
    let found = stack.search(order, effort);
    if found.heights[0] > solution.height {
        solution.clone()
    } else {
        Solution::from_offsets(problem, stack.offsets(&found))
    }
}

/// The heights of an order at given sizes: `sizes[0]` are those of the problem.
pub fn heights(problem: &Problem, offsets: &[u64], sizes: &[Vec<u64>]) -> Vec<u64> {
    let Some(stack) = Stack::new(problem, sizes, u64::MAX, u64::MAX) else { return Vec::new() };
    let mut order: Vec<usize> = (0..problem.buffers.len()).collect();
    order.sort_by_key(|at| (offsets[*at], *at));
    stack.place(order).heights.split_off(1)
}

/// Buffers with their neighbors and sizes.
struct Stack {
    /// Buffers that live at a step of each buffer.
    neighbors: Vec<Vec<usize>>,
    alignment: Vec<u64>,
    /// Sizes of each buffer, those of the problem first.
    sizes: Vec<Vec<u64>>,
    /// Peaks at all sizes, at least 1; the limit of the height first.
    least: Vec<u64>,
}

/// An order with its placement.
#[derive(Clone)]
struct Placed {
    order: Vec<usize>,
    /// Offset of each buffer at each of the sizes.
    offsets: Vec<Vec<u64>>,
    heights: Vec<u64>,
    cost: (f64, f64),
}

impl Stack {
    /// Creates the problem; `None` if its neighbors alone exceed the effort.
    fn new(problem: &Problem, sizes: &[Vec<u64>], limit: u64, effort: u64) -> Option<Self> {
        let buffers = &problem.buffers;
        let mut by_start: Vec<usize> =
            (0..buffers.len()).filter(|at| buffers[*at].start < buffers[*at].end).collect();
        by_start.sort_by_key(|at| buffers[*at].start);
        let mut neighbors = vec![Vec::new(); buffers.len()];
        let (mut live, mut pairs): (Vec<usize>, u64) = (Vec::new(), 0);
        for at in by_start {
            live.retain(|other| buffers[*other].end > buffers[at].start);
            for other in &live {
                neighbors[at].push(*other);
                neighbors[*other].push(at);
            }
            live.push(at);
            pairs = pairs.saturating_add(live.len() as u64);
            if pairs.saturating_mul(sizes.len() as u64) > effort {
                return None;
            }
        }
        let columns = |at: usize| {
            std::iter::once(buffers[at].size).chain(sizes.iter().map(|sizes| sizes[at])).collect()
        };
        let least = sizes.iter().map(|sizes| peak(problem, sizes).max(1));
        Some(Self {
            neighbors,
            alignment: buffers.iter().map(|buffer| buffer.alignment.max(1)).collect(),
            sizes: (0..buffers.len()).map(columns).collect(),
            least: std::iter::once(limit.max(1)).chain(least).collect(),
        })
    }

    /// Places an order.
    fn place(&self, order: Vec<usize>) -> Placed {
        let count = self.least.len();
        let mut rank = vec![0; order.len()];
        for (position, at) in order.iter().enumerate() {
            rank[*at] = position;
        }
        let (mut offsets, mut heights) = (vec![vec![0; count]; order.len()], vec![0u64; count]);
        let mut start = vec![0u64; count];
        for at in &order {
            start.fill(0);
            for other in self.neighbors[*at].iter().filter(|other| rank[**other] < rank[*at]) {
                let tops = offsets[*other]
                    .iter()
                    .zip(&self.sizes[*other])
                    .map(|(offset, size): (&u64, &u64)| offset + size);
                for (start, top) in start.iter_mut().zip(tops) {
                    *start = (*start).max(top);
                }
            }
            for (column, start) in start.iter().enumerate() {
                let (offset, size) = (start.next_multiple_of(self.alignment[*at]), self.sizes[*at][column]);
                offsets[*at][column] = offset;
                if size > 0 {
                    heights[column] = heights[column].max(offset + size);
                }
            }
        }
        let ratio = |column: usize| heights[column] as f64 / self.least[column] as f64;
        let beyond = 1.0 + (ratio(0) - 1.0).max(0.0) * LIMIT_WEIGHT;
        let all = || (1..count).map(|column| ratio(column).max(1.0));
        let cost = (all().fold(beyond, f64::max), beyond + all().sum::<f64>());
        Placed { order, offsets, heights, cost }
    }

    /// Returns the best order that was found from a first one.
    fn search(&self, order: Vec<usize>, effort: u64) -> Placed {
        let pairs: usize = self.neighbors.iter().map(Vec::len).sum();
        let each = ((pairs + self.neighbors.len()) * self.least.len()).max(1) as u64;
        let mut random = Random::new(order.len() as u64);
        let mut now = self.place(order);
        let mut best = now.clone();
        let mut memory = vec![now.cost; MEMORY];
        for round in 0..(effort / each) as usize {
            if best.cost.0 <= CLOSE {
                break;
            }
            let Some(order) = self.changed(&now, &mut random) else { break };
            let next = self.place(order);
            let before = memory[round % MEMORY];
            if next.cost <= before || next.cost <= now.cost {
                now = next;
            }
            memory[round % MEMORY] = now.cost;
            if now.cost < best.cost && now.heights[0] <= self.least[0] {
                best = now.clone();
            }
        }
        best
    }

    /// Moves a buffer of a path that makes a height: behind or before its neighbor on the path, or to any
    /// position.
    fn changed(&self, placed: &Placed, random: &mut Random) -> Option<Vec<usize>> {
        let count = self.least.len();
        let ratio = |column: &usize| placed.heights[*column] as f64 / self.least[*column] as f64;
        let worst = (0..count).max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let column = if random.below(3) == 0 { random.below(count as u32) as usize } else { worst };
        let path = self.path(placed, column);
        let mut order = placed.order.clone();
        let position = |order: &[usize], at: usize| order.iter().position(|other| *other == at);
        if path.len() >= 2 && random.below(4) > 0 {
            // The path descends: each buffer lies on the next one.
            let at = random.below(path.len() as u32 - 1) as usize;
            let (upper, lower) = (path[at], path[at + 1]);
            let (high, low) = (position(&order, upper)?, position(&order, lower)?);
            if random.below(2) == 0 {
                order[low..=high].rotate_right(1);
            } else {
                order[low..=high].rotate_left(1);
            }
            return Some(order);
        }
        let from = position(&order, random.pick(&path)?)?;
        let to = random.below(order.len() as u32) as usize;
        let at = order.remove(from);
        order.insert(to, at);
        Some(order)
    }

    /// Returns a path of buffers, each lying on the next, from the highest one down.
    fn path(&self, placed: &Placed, column: usize) -> Vec<usize> {
        let top = |at: usize| placed.offsets[at][column] + self.sizes[at][column];
        let Some(mut at) = placed.order.iter().copied().max_by_key(|at| (top(*at), *at)) else {
            return Vec::new();
        };
        let mut path = vec![at];
        loop {
            let start = placed.offsets[at][column];
            let below = self.neighbors[at].iter().copied().filter(|other| self.sizes[*other][column] > 0);
            let mut under =
                below.filter(|other| top(*other) <= start && start - top(*other) < self.alignment[at]);
            match under.next() {
                Some(other) if path.len() <= self.neighbors.len() => at = other,
                _ => return path,
            }
            path.push(at);
        }
    }

    /// Returns the offsets at the sizes of the problem.
    fn offsets(&self, placed: &Placed) -> Vec<u64> {
        placed.offsets.iter().map(|offsets| offsets[0]).collect()
    }
}

/// Returns the most bytes that live at one step.
fn peak(problem: &Problem, sizes: &[u64]) -> u64 {
    let mut change: std::collections::BTreeMap<u32, i128> = std::collections::BTreeMap::new();
    for (buffer, size) in problem.buffers.iter().zip(sizes) {
        *change.entry(buffer.start).or_default() += i128::from(*size);
        *change.entry(buffer.end).or_default() -= i128::from(*size);
    }
    let (mut live, mut most) = (0i128, 0i128);
    for delta in change.values() {
        live += delta;
        most = most.max(live);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::problem::Buffer;
    use super::super::{check, solve};
    use super::*;
    use crate::Limit;

    /// Makes a problem whose buffers grow with two symbols in different ways, with smaller sizes.
    fn grown(seed: u64, count: u32) -> (Problem, Vec<Vec<u64>>) {
        let mut random = Random::new(seed);
        let shapes: Vec<(u32, u32, [u32; 2], u64)> = (0..count)
            .map(|_| {
                let start = random.below(count);
                let powers = [[0, 1], [0, 2], [1, 1], [1, 2], [1, 0]][random.below(5) as usize];
                (start, start + 1 + random.below(6), powers, 1 + u64::from(random.below(9)))
            })
            .collect();
        let size = |(_, _, powers, factor): &(u32, u32, [u32; 2], u64), at: [u64; 2]| {
            factor * at[0].pow(powers[0]) * at[1].pow(powers[1])
        };
        let most = [8, 24];
        let buffers = shapes
            .iter()
            .map(|shape| Buffer { alignment: 8, ..Buffer::new(shape.0, shape.1, size(shape, most)) });
        let problem = Problem { buffers: buffers.collect(), capacity: None };
        let corners = [[0, 0], [1, 1], [1, 24], [8, 1], [3, 5], [8, 12]];
        let sizes = corners.map(|corner| shapes.iter().map(|shape| size(shape, corner)).collect()).to_vec();
        (problem, sizes)
    }

    fn worst(problem: &Problem, offsets: &[u64], sizes: &[Vec<u64>]) -> f64 {
        let found = heights(problem, offsets, sizes);
        let ratios = found
            .iter()
            .zip(sizes)
            .map(|(height, sizes)| *height as f64 / peak(problem, sizes).max(1) as f64);
        ratios.fold(1.0, f64::max)
    }

    #[test]
    fn other_sizes_need_less_and_the_given_sizes_no_more() {
        let (mut gained, mut sum) = (0, 0.0);
        for seed in 0..40 {
            let (problem, sizes) = grown(seed, 40);
            let first = solve(&problem, &Limit::nodes(300)).unwrap().solution.unwrap();
            let settled = settle(&problem, &first, &sizes, 3_000_000);
            assert_eq!(check(&problem, &settled), Ok(()), "{seed}");
            assert!(settled.height <= first.height, "{seed}");
            let (before, after) =
                (worst(&problem, &first.offsets, &sizes), worst(&problem, &settled.offsets, &sizes));
            assert!(after <= before, "{seed}: {after} from {before}");
            gained += usize::from(after < before - 0.01);
            sum += before - after;
            assert_eq!(settled, settle(&problem, &first, &sizes, 3_000_000));
        }
        assert!(gained >= 20 && sum > 2.0, "{gained} gains, {sum} in total");
    }

    #[test]
    fn heights_never_exceed_the_fixed_placement() {
        for seed in 0..60 {
            let (problem, sizes) = grown(seed, 25);
            let first = solve(&problem, &Limit::nodes(50)).unwrap().solution.unwrap();
            assert!(
                heights(&problem, &first.offsets, &sizes).iter().all(|height| *height <= first.height),
                "{seed}"
            );
        }
    }

    #[test]
    fn odd_problems_come_back() {
        let empty = Problem::default();
        let none = Solution { offsets: Vec::new(), height: 0 };
        assert_eq!(settle(&empty, &none, &[Vec::new()], 1000), none);
        let mut problem = Problem {
            buffers: vec![Buffer::new(0, 0, 8), Buffer::new(0, 1, 0), Buffer::new(0, 2, 8)],
            capacity: None,
        };
        let solution = Solution { offsets: vec![0, 0, 0], height: 8 };
        assert_eq!(settle(&problem, &solution, &[vec![0; 3]], 1000).height, 8);
        problem.buffers[2].fixed_offset = Some(0);
        assert_eq!(settle(&problem, &solution, &[vec![0; 3]], 1000), solution);
    }
}
