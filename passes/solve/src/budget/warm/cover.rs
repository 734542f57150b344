//! A warm start from the gap cover: each absent value is recomputed right before its next use, with the
//! runs that this needs.
//!
//! The cover ignores the needs of a recomputation, so it is solved in rounds. If a value was absent, the
//! next round requires all operands of its chain at the end of the gap; if it was present, its absence
//! costs the chain. Both are guesses, so the sequence of every round is a candidate.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::bound::{Gap, GapCover, Guess, gap_cover_with};
use crate::budget::problem::Problem;

/// Maximum number of rounds, each solving the gap cover with the costs of whole chains.
const MAX_ROUNDS: u32 = 16;

/// Returns sequences of runs that need about the bytes of the capacity, for an order of first runs:
/// one for each round, until they repeat. For problems without links.
pub(in crate::budget) fn sequences(
    problem: &Problem,
    order: &[u32],
    capacity: u64,
    effort: u64,
) -> Vec<Vec<u32>> {
    let mut makers = vec![None; problem.values.len()];
    for (index, run) in problem.runs.iter().enumerate() {
        for &value in &run.writes {
            makers[value as usize] = Some(index as u32);
        }
    }
    let mut guess = Guess::default();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for round in 0..MAX_ROUNDS {
        // The first cover may suffice; later covers rest on guesses and get less effort.
        let effort = if round == 0 { effort } else { effort / 8 };
        let cover = gap_cover_with(problem, order, capacity, effort, &guess);
        if cover.impossible.is_some() {
            break;
        }
        let chains = Chains::new(problem, order, &makers, &cover);
        let sequence = chains.sequence();
        // Longer chains need nearly every value at nearly every step: the program grows each round and
        // gives no start.
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

/// Maximum average number of additional positions at which a value is needed; more make the programs too
/// large.
const MAX_CUTS: usize = 16;

/// The rounds end once a sequence is longer than this multiple of the order.
const MAX_LENGTH: usize = 2;

/// Finds the runs that repeat, given the empty gaps.
struct Chains<'a> {
    problem: &'a Problem,
    order: &'a [u32],
    /// Position of each run.
    position: Vec<u32>,
    makers: &'a [Option<u32>],
    cover: &'a GapCover,
    /// Indices of each value's gaps, ascending.
    gaps: Vec<Vec<u32>>,
    /// Positions that use each value, ascending.
    uses: Vec<Vec<u32>>,
    /// Sum of the prices before each position.
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

    /// Whether an operand is present right before a position, or is cheaper to keep until then than to
    /// recompute.
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

    /// Returns the runs that bring values back right before a position, in order.
    fn chain(&self, values: impl Iterator<Item = u32>, position: u32) -> Vec<u32> {
        let maker = |value: u32| {
            self.makers[value as usize].filter(|maker| self.position[*maker as usize] < position)
        };
        let mut open: Vec<u32> = values.filter_map(maker).collect();
        let mut chain = BTreeSet::new();
        while let Some(run) = open.pop() {
            if chain.insert(run) {
                let missing = self.problem.runs[run as usize]
                    .reads
                    .iter()
                    .filter(|value| !self.is_there(**value, position));
                open.extend(missing.filter_map(|value| maker(*value)));
            }
        }
        let mut chain: Vec<u32> = chain.into_iter().collect();
        chain.sort_by_key(|run| self.position[*run as usize]);
        chain
    }

    /// Returns the gap of a value that is open right before a position.
    fn gap_before(&self, value: u32, position: u32) -> Option<u32> {
        let gaps = &self.gaps[value as usize];
        let next = gaps.partition_point(|gap| self.gap(*gap).before_use < position);
        gaps.get(next)
            .copied()
            .filter(|gap| self.gap(*gap).after_use.is_none_or(|after| after + 1 < position))
    }

    fn empty_gap(&self, value: u32, position: u32) -> Option<u32> {
        self.gap_before(value, position).filter(|gap| self.gap(*gap).fraction >= 0.5)
    }

    /// Returns the guess for the next round: positions at which the chains need values, and the cost of
    /// a value's absence beyond its own maker.
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
                more.insert(
                    (gap.value, position),
                    chain.map(|run| self.problem.runs[run as usize].cost).sum(),
                );
            }
        }
        for cuts in &mut cuts {
            cuts.sort_unstable();
            cuts.dedup();
        }
        Guess { cuts, more }
    }

    /// Returns all runs in the given order, each after the chains of the empty gaps that end there. A
    /// chain run fills the gaps of all its results.
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
            let open =
                gaps.into_iter().filter(|gap| !is_filled[*gap as usize]).map(|gap| self.gap(gap).value);
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
