//! Down-sets: sets of groups that contain all predecessors of their members, and the steps from each one
//! to those with one group more.

use std::collections::HashMap;

use super::merged::Merged;

/// Down-sets of a graph, by number of groups, from the empty one to the full one.
#[derive(Clone, Debug)]
pub(super) struct DownSets {
    /// For each down-set, groups that may be added, and the down-set with that group.
    steps: Vec<(u32, u32)>,
    starts: Vec<u32>,
    /// Position of each group; a larger down-set is reached by steps of increasing ranks.
    pub ranks: Vec<u32>,
}

impl DownSets {
    /// Enumerates all down-sets. Returns `None` if there are more than `limit` of them, or 16 times that
    /// many steps. O(down-sets · groups / 64 + steps).
    pub fn all(merged: &Merged<'_>, limit: usize) -> Option<Self> {
        let count = merged.groups.len();
        let words = count.div_ceil(64).max(1);
        let mut sets: Vec<Box<[u64]>> = vec![vec![0; words].into_boxed_slice()];
        let mut index: HashMap<Box<[u64]>, u32> = HashMap::from([(sets[0].clone(), 0)]);
        let roots = (0..count as u32).filter(|group| merged.predecessors.of(*group).is_empty());
        let mut ready: Vec<Vec<u32>> = vec![roots.collect()];
        let (mut steps, mut starts) = (Vec::new(), vec![0]);
        let mut at = 0;
        // Sets are found in the order of their sizes: each one follows from one with a group less.
        while at < sets.len() {
            let groups = std::mem::take(&mut ready[at]);
            for &group in &groups {
                let mut next = sets[at].clone();
                next[group as usize / 64] |= 1 << (group % 64);
                let known = index.get(&next).copied();
                let number = known.unwrap_or(sets.len() as u32);
                if known.is_none() {
                    let has = |set: &[u64], group: u32| set[group as usize / 64] >> (group % 64) & 1 == 1;
                    let mut more: Vec<u32> = groups.iter().copied().filter(|other| *other != group).collect();
                    let is_ready =
                        |other: &u32| merged.predecessors.of(*other).iter().all(|before| has(&next, *before));
                    more.extend(merged.successors.of(group).iter().copied().filter(is_ready));
                    more.sort_unstable();
                    ready.push(more);
                    index.insert(next.clone(), number);
                    sets.push(next);
                }
                steps.push((group, number));
            }
            starts.push(steps.len() as u32);
            if sets.len() > limit || steps.len() > limit.saturating_mul(16) {
                return None;
            }
            at += 1;
        }
        Some(Self { steps, starts, ranks: (0..count as u32).collect() })
    }

    /// The prefixes of one order.
    pub fn prefixes(order: &[u32]) -> Self {
        let mut ranks = vec![0; order.len()];
        order.iter().zip(0_u32..).for_each(|(group, rank)| ranks[*group as usize] = rank);
        let steps: Vec<(u32, u32)> = order.iter().copied().zip(1..).collect();
        let starts = (0..=order.len() as u32).chain([order.len() as u32]).collect();
        Self { steps, starts, ranks }
    }

    /// Number of down-sets.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Groups that may be added to a down-set, and what it becomes.
    pub fn steps(&self, set: u32) -> &[(u32, u32)] {
        &self.steps[self.starts[set as usize] as usize..self.starts[set as usize + 1] as usize]
    }
}
