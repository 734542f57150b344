//! A warm start from the gap cover: what it makes absent runs again right before its next use, with what that needs.
//!
//! The cover knows nothing of what a repetition needs itself. So it is solved in rounds: where a value was absent, all that its chain reads is needed at
//! the end of the gap in the next round; where it was there, its absence costs the chain. Both are guesses, so every round's sequence counts.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::{Gap, GapCover, Guess, gap_cover_with};
use super::problem::Problem;

/// Times that the gap cover is solved anew with the costs of whole chains.
const MAX_ROUNDS: u32 = 16;

/// Sequences of runs that hold about as many bytes as the capacity, for an order of first runs: one for each round, until they repeat. For problems
/// without links.
pub(super) fn sequences(problem: &Problem, order: &[u32], capacity: u64, effort: u64) -> Vec<Vec<u32>> {
    let mut makers = vec![None; problem.values.len()];
    for (index, run) in problem.runs.iter().enumerate() {
        for &value in &run.writes {
            makers[value as usize] = Some(index as u32);
        }
    }
    let mut guess = Guess::default();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for round in 0..MAX_ROUNDS {
        // The first cover may be all there is to say; later ones are guesses.
        let effort = if round == 0 { effort } else { effort / 8 };
        let cover = gap_cover_with(problem, order, capacity, effort, &guess);
        if cover.impossible.is_some() {
            break;
        }
        let chains = Chains::new(problem, order, &makers, &cover);
        let sequence = chains.sequence();
        // Chains that long would need nearly everything nearly everywhere: a larger problem each round, and no start.
        if sequences.contains(&sequence) || sequence.len() > MAX_LENGTH * order.len() {
            break;
        }
        sequences.push(sequence);
        guess = chains.consequences();
        if guess.cuts.iter().map(Vec::len).sum::<usize>() > MAX_CUTS * problem.values.len() {
            break;
        }
    }
    sequences
}

/// Most positions at which a value is needed besides, on average; more makes the programs too large.
const MAX_CUTS: usize = 16;

/// A sequence that is more than so many times as long as the order ends the rounds.
const MAX_LENGTH: usize = 2;

/// Who runs again for what, given which gaps are empty.
struct Chains<'a> {
    problem: &'a Problem,
    order: &'a [u32],
    /// Position of each run.
    position: Vec<u32>,
    makers: &'a [Option<u32>],
    cover: &'a GapCover,
    /// Gaps of each value by their place in the list, rising.
    gaps: Vec<Vec<u32>>,
    /// Positions that use each value, rising.
    uses: Vec<Vec<u32>>,
    /// Sums of prices before each position.
    prices: Vec<f64>,
}

impl<'a> Chains<'a> {
    fn new(problem: &'a Problem, order: &'a [u32], makers: &'a [Option<u32>], cover: &'a GapCover) -> Self {
        let mut gaps = vec![Vec::new(); problem.values.len()];
        for (index, gap) in cover.gaps.iter().enumerate() {
            gaps[gap.value as usize].push(index as u32);
        }
        let mut uses = vec![Vec::new(); problem.values.len()];
        let mut position = vec![0; problem.runs.len()];
        for (place, &index) in order.iter().enumerate() {
            position[index as usize] = place as u32;
            let run = &problem.runs[index as usize];
            for value in run.writes.iter().chain(&run.reads) {
                uses[*value as usize].push(place as u32);
            }
        }
        let mut prices = vec![0.0];
        let mut sum = 0.0;
        for price in &cover.prices {
            sum += price;
            prices.push(sum);
        }
        Self { problem, order, position, makers, cover, gaps, uses, prices }
    }

    /// Whether an operand is there right before a position, or is better kept until then than made again.
    fn is_there(&self, value: u32, position: u32) -> bool {
        let Some(maker) = self.makers[value as usize] else { return true };
        let run = &self.problem.runs[maker as usize];
        if !run.repeatable || run.writes.iter().any(|value| self.problem.values[*value as usize].kept) {
            return true;
        }
        if let Some(gap) = self.gap_before(value, position) {
            return self.gap(gap).fraction < 0.5;
        }
        let uses = &self.uses[value as usize];
        let next = uses.partition_point(|other| *other < position);
        if next < uses.len() {
            return true;
        }
        let last = uses[next.saturating_sub(1)];
        let area = self.prices[position as usize] - self.prices[last as usize + 1];
        area * (self.problem.values[value as usize].size as f64) <= run.cost as f64
    }

    fn gap(&self, index: u32) -> &Gap {
        &self.cover.gaps[index as usize]
    }

    /// The runs that bring values back right before a position, in order.
    fn chain(&self, values: impl Iterator<Item = u32>, position: u32) -> Vec<u32> {
        let maker = |value: u32| self.makers[value as usize].filter(|maker| self.position[*maker as usize] < position);
        let mut open: Vec<u32> = values.filter_map(maker).collect();
        let mut chain = BTreeSet::new();
        while let Some(run) = open.pop() {
            if chain.insert(run) {
                let missing = self.problem.runs[run as usize].reads.iter().filter(|value| !self.is_there(**value, position));
                open.extend(missing.filter_map(|value| maker(*value)));
            }
        }
        let mut chain: Vec<u32> = chain.into_iter().collect();
        chain.sort_by_key(|run| self.position[*run as usize]);
        chain
    }

    /// The gap of a value that is open right before a position.
    fn gap_before(&self, value: u32, position: u32) -> Option<u32> {
        let gaps = &self.gaps[value as usize];
        let next = gaps.partition_point(|gap| self.gap(*gap).before_use < position);
        gaps.get(next).copied().filter(|gap| self.gap(*gap).after_use.is_none_or(|after| after + 1 < position))
    }

    fn empty_gap(&self, value: u32, position: u32) -> Option<u32> {
        self.gap_before(value, position).filter(|gap| self.gap(*gap).fraction >= 0.5)
    }

    /// Where values are needed besides because others run again there; and what the absence of a value costs beside the run that makes it.
    fn consequences(&self) -> Guess {
        let mut cuts = vec![Vec::new(); self.problem.values.len()];
        let mut more = BTreeMap::new();
        for gap in &self.cover.gaps {
            let Some(maker) = self.makers[gap.value as usize] else { continue };
            let position = gap.before_use;
            let run = &self.problem.runs[maker as usize];
            if gap.fraction >= 0.5 {
                for run in self.chain(std::iter::once(gap.value), position) {
                    for &operand in &self.problem.runs[run as usize].reads {
                        cuts[operand as usize].push(position);
                    }
                }
            } else {
                let missing = run.reads.iter().filter(|operand| !self.is_there(**operand, position)).copied();
                let chain = self.chain(missing, position).into_iter();
                more.insert((gap.value, position), chain.map(|run| self.problem.runs[run as usize].cost).sum());
            }
        }
        for cuts in &mut cuts {
            cuts.sort_unstable();
            cuts.dedup();
        }
        Guess { cuts, more }
    }

    /// All runs in the given order, each after what its empty gaps need; a gap ends where its value is made for whatever it is.
    fn sequence(&self) -> Vec<u32> {
        let mut ends = vec![Vec::new(); self.problem.runs.len()];
        for (index, gap) in self.cover.gaps.iter().enumerate().filter(|(_, gap)| gap.fraction >= 0.5) {
            if let Some(end) = ends.get_mut(gap.before_use as usize) {
                end.push(index as u32);
            }
        }
        let mut is_filled = vec![false; self.cover.gaps.len()];
        let mut sequence = Vec::new();
        for (position, gaps) in ends.into_iter().enumerate() {
            let open = gaps.into_iter().filter(|gap| !is_filled[*gap as usize]).map(|gap| self.gap(gap).value);
            let chain = self.chain(open.collect::<Vec<u32>>().into_iter(), position as u32);
            for run in chain {
                for &value in &self.problem.runs[run as usize].writes {
                    if let Some(gap) = self.empty_gap(value, position as u32) {
                        is_filled[gap as usize] = true;
                    }
                }
                sequence.push(run);
            }
            sequence.push(self.order[position]);
        }
        sequence
    }
}
