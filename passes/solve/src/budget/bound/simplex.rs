//! A primal network simplex for covers by intervals: rows form a path of nodes, and each interval is an
//! arc that jumps over its rows.
//!
//! Node `t` comes before row `t`. An interval is an arc from the node before its first row to the node
//! after its last row. Cover beyond the need of a row flows back over an arc from node `t + 1` to `t`.
//! The first basis makes the bytes with the highest unit cost present, as far as whole intervals allow.
//! Strongly feasible trees (Cunningham 1976) prevent cycling; the entering arc is the best arc of a
//! block (Grigoriadis 1986).

use super::interval::Interval;
use crate::basics::tree::Tree;

/// Absent bytes of each interval, and a price of each row.
pub struct Answer {
    pub absent: Vec<u64>,
    pub prices: Vec<u64>,
}

/// Upper bound of a potential. Costs per byte are cut to this bound divided by the number of rows,
/// because potentials are sums over paths.
const MAX_POTENTIAL: u128 = 1 << 61;

/// Marks an absent node or arc.
const NONE: u32 = u32::MAX;

struct Network {
    /// Arcs: one for each row, back over the row; then one for each interval.
    tail: Vec<u32>,
    head: Vec<u32>,
    cost: Vec<i64>,
    capacity: Vec<u64>,
    flow: Vec<u64>,
    in_tree: Vec<bool>,
    /// The tree, by nodes; node 0 is the root.
    parent: Vec<u32>,
    arc: Vec<u32>,
    depth: Vec<u32>,
    potential: Vec<i64>,
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    previous_sibling: Vec<u32>,
}

/// Solves the program to optimality, or stops after `pivots` pivots. With all intervals absent, every
/// row must be covered.
pub fn solve(needs: &[u64], gaps: &[Interval], shift: u32, pivots: u64) -> Answer {
    let mut network = Network::new(needs, gaps, shift);
    let arcs = network.tail.len();
    let block = ((arcs as f64).sqrt() as usize).clamp(16, 2048);
    let mut next = 0;
    for _ in 0..pivots {
        let Some(entering) = network.find_entering(&mut next, block) else { break };
        network.pivot(entering);
    }
    let rows = needs.len();
    // Negative prices appear only if the pivot limit ended the work.
    let price = |row: usize| network.potential[row + 1].saturating_sub(network.potential[row]).max(0) as u64;
    Answer { absent: network.flow[rows..].to_vec(), prices: (0..rows).map(price).collect() }
}

impl Network {
    fn new(needs: &[u64], gaps: &[Interval], shift: u32) -> Self {
        let rows = needs.len();
        let mut covered = vec![0_i128; rows + 1];
        for gap in gaps {
            covered[gap.first as usize] += i128::from(gap.size);
            covered[gap.last as usize + 1] -= i128::from(gap.size);
        }
        let mut sum = 0;
        // Surplus of each row: covered bytes beyond its need. The tree has it negated, since it finds
        // highest sums.
        let surplus = (0..rows).map(|row| {
            sum += covered[row];
            -(sum - i128::from(needs[row])).max(0) as i64
        });
        let mut surplus = Tree::of(surplus);
        let mut absent: Vec<u64> = gaps.iter().map(|gap| gap.size).collect();
        // Visit the highest unit costs first: make each interval present that the remaining intervals
        // allow.
        let mut dearest: Vec<usize> = (0..gaps.len()).collect();
        let unit_cost = |gap: &Interval| gap.cost as f64 / gap.size.max(1) as f64;
        dearest.sort_by(|a, b| unit_cost(&gaps[*b]).total_cmp(&unit_cost(&gaps[*a])));
        for index in dearest {
            let gap = &gaps[index];
            if surplus.top_of(gap.first, gap.last) <= -(gap.size as i64) {
                surplus.add(gap.first, gap.last, gap.size as i64);
                absent[index] = 0;
            }
        }
        let flow: Vec<u64> = (0..rows as u32).map(|row| -surplus.at(row) as u64).chain(absent).collect();
        let most = MAX_POTENTIAL / (rows as u128 + 1);
        let unit =
            |gap: &Interval| ((u128::from(gap.cost) << shift) / u128::from(gap.size.max(1))).min(most) as i64;
        let chain = 0..rows as u32;
        Self {
            tail: chain.clone().map(|row| row + 1).chain(gaps.iter().map(|gap| gap.first)).collect(),
            head: chain.clone().chain(gaps.iter().map(|gap| gap.last + 1)).collect(),
            cost: std::iter::repeat_n(0, rows).chain(gaps.iter().map(unit)).collect(),
            capacity: std::iter::repeat_n(u64::MAX, rows).chain(gaps.iter().map(|gap| gap.size)).collect(),
            flow,
            in_tree: std::iter::repeat_n(true, rows).chain(gaps.iter().map(|_| false)).collect(),
            parent: std::iter::once(NONE).chain(chain.clone()).collect(),
            arc: std::iter::once(NONE).chain(chain.clone()).collect(),
            depth: (0..=rows as u32).collect(),
            potential: vec![0; rows + 1],
            first_child: chain.map(|row| row + 1).chain(std::iter::once(NONE)).collect(),
            next_sibling: vec![NONE; rows + 1],
            previous_sibling: vec![NONE; rows + 1],
        }
    }

    /// Returns by how much an arc violates optimality: its reduced cost, relative to the bound that its
    /// flow is at.
    fn violation(&self, arc: usize) -> i64 {
        if self.in_tree[arc] {
            return 0;
        }
        let reduced = self.cost[arc] + self.potential[self.tail[arc] as usize]
            - self.potential[self.head[arc] as usize];
        if self.flow[arc] == 0 { -reduced } else { reduced }
    }

    /// Returns the most violating arc of the first block from `next` that has a violating arc; `None` if
    /// no arc violates.
    fn find_entering(&self, next: &mut usize, block: usize) -> Option<usize> {
        let arcs = self.tail.len();
        let (mut best, mut most, mut left) = (None, 0, block);
        for _ in 0..arcs {
            let violation = self.violation(*next);
            if violation > most {
                (best, most) = (Some(*next), violation);
            }
            *next = if *next + 1 == arcs { 0 } else { *next + 1 };
            left -= 1;
            if left == 0 {
                if best.is_some() {
                    break;
                }
                left = block;
            }
        }
        best
    }

    /// Returns the residual capacity of the tree arc above `node` in the direction of a walk, up or down
    /// the tree.
    fn residual(&self, node: u32, upward: bool) -> u64 {
        let arc = self.arc[node as usize] as usize;
        if (self.tail[arc] == node) == upward { self.capacity[arc] - self.flow[arc] } else { self.flow[arc] }
    }

    fn push(&mut self, node: u32, upward: bool, amount: u64) {
        let arc = self.arc[node as usize] as usize;
        if (self.tail[arc] == node) == upward {
            self.flow[arc] += amount;
        } else {
            self.flow[arc] -= amount;
        }
    }

    /// Sends the maximum flow around the cycle that an arc closes, and changes the tree if a tree arc
    /// blocks.
    fn pivot(&mut self, entering: usize) {
        let rises = self.flow[entering] == 0;
        let (from, to) = if rises {
            (self.tail[entering], self.head[entering])
        } else {
            (self.head[entering], self.tail[entering])
        };
        // Find the last blocking arc of the cycle as seen from its top: arcs down to `from`, the
        // entering arc, arcs up from `to`.
        let (mut amount, mut leaving, mut below_from) = (self.capacity[entering], NONE, false);
        let (mut down, mut up) = (from, to);
        let (mut amount_down, mut leaving_down) = (u64::MAX, NONE);
        let (mut amount_up, mut leaving_up) = (u64::MAX, NONE);
        while down != up {
            if self.depth[down as usize] >= self.depth[up as usize] {
                let residual = self.residual(down, false);
                if residual < amount_down {
                    (amount_down, leaving_down) = (residual, down);
                }
                down = self.parent[down as usize];
            } else {
                let residual = self.residual(up, true);
                if residual <= amount_up {
                    (amount_up, leaving_up) = (residual, up);
                }
                up = self.parent[up as usize];
            }
        }
        let top = down;
        if amount_down < amount {
            (amount, leaving, below_from) = (amount_down, leaving_down, true);
        }
        if amount_up <= amount {
            (amount, leaving, below_from) = (amount_up, leaving_up, false);
        }
        // Send the flow around the cycle.
        if amount > 0 {
            let mut node = from;
            while node != top {
                self.push(node, false, amount);
                node = self.parent[node as usize];
            }
            node = to;
            while node != top {
                self.push(node, true, amount);
                node = self.parent[node as usize];
            }
            if rises {
                self.flow[entering] += amount;
            } else {
                self.flow[entering] -= amount;
            }
        }
        if leaving != NONE {
            let (inside, outside) = if below_from { (from, to) } else { (to, from) };
            self.exchange(entering, leaving, inside, outside);
        }
    }

    /// Cuts the tree above `leaving`, reverses the part below, and attaches it under `outside` by the
    /// entering arc at `inside`.
    fn exchange(&mut self, entering: usize, leaving: u32, inside: u32, outside: u32) {
        self.in_tree[self.arc[leaving as usize] as usize] = false;
        self.in_tree[entering] = true;
        let (mut node, mut above, mut arc) = (inside, outside, entering as u32);
        loop {
            let old_parent = self.parent[node as usize];
            let old_arc = self.arc[node as usize];
            self.detach(node, old_parent);
            self.attach(node, above);
            self.arc[node as usize] = arc;
            if node == leaving {
                break;
            }
            (above, node, arc) = (node, old_parent, old_arc);
        }
        let reduced = self.cost[entering] + self.potential[self.tail[entering] as usize]
            - self.potential[self.head[entering] as usize];
        let change = if self.tail[entering] == inside { -reduced } else { reduced };
        // Update every node of the moved part: new depths, and potentials that make the reduced cost of
        // the entering arc zero.
        let mut node = inside;
        loop {
            self.depth[node as usize] = self.depth[self.parent[node as usize] as usize] + 1;
            self.potential[node as usize] += change;
            if self.first_child[node as usize] != NONE {
                node = self.first_child[node as usize];
                continue;
            }
            while node != inside && self.next_sibling[node as usize] == NONE {
                node = self.parent[node as usize];
            }
            if node == inside {
                break;
            }
            node = self.next_sibling[node as usize];
        }
    }

    fn detach(&mut self, node: u32, parent: u32) {
        let (before, after) = (self.previous_sibling[node as usize], self.next_sibling[node as usize]);
        if before == NONE {
            self.first_child[parent as usize] = after;
        } else {
            self.next_sibling[before as usize] = after;
        }
        if after != NONE {
            self.previous_sibling[after as usize] = before;
        }
    }

    fn attach(&mut self, node: u32, parent: u32) {
        let after = self.first_child[parent as usize];
        self.next_sibling[node as usize] = after;
        self.previous_sibling[node as usize] = NONE;
        if after != NONE {
            self.previous_sibling[after as usize] = node;
        }
        self.first_child[parent as usize] = node;
        self.parent[node as usize] = parent;
    }
}
