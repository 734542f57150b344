//! A race of candidates by measured times: in each round every candidate that is left runs once, so that
//! disturbances meet all of them, and candidates that are clearly slower than the leader leave.
//!
//! Pure: the caller measures. Ratios are compared within rounds, as logarithms, by their median and a robust
//! deviation (1.4826 times the median distance from it, over the root of the number of rounds).

/// Deviations by which a candidate must be slower before it leaves.
const SURE: f64 = 2.5;

/// Rounds before the first candidate leaves.
const FIRST: usize = 4;

/// Share of the time by which two candidates may differ and count as equally fast.
pub const INDIFFERENCE: f64 = 0.02;

/// A race that goes on.
#[derive(Clone, Debug, Default)]
pub struct Race {
    /// Times by candidate and round; a candidate that left has fewer.
    times: Vec<Vec<f64>>,
    left: Vec<bool>,
    rounds: usize,
}

impl Race {
    /// Begins a race of so many candidates.
    pub fn new(candidates: usize) -> Self {
        Self { times: vec![Vec::new(); candidates], left: vec![false; candidates], rounds: 0 }
    }

    /// Returns the candidates to run in the next round. The first one changes from round to round.
    pub fn round(&self) -> Vec<usize> {
        let mut open: Vec<usize> = (0..self.left.len()).filter(|candidate| !self.left[*candidate]).collect();
        let turn = self.rounds % open.len().max(1);
        open.rotate_left(turn);
        open
    }

    /// Records the times of a round, one for each candidate of [`Self::round`], and lets slow ones leave.
    pub fn record(&mut self, times: &[(usize, f64)]) {
        for (candidate, time) in times {
            self.times[*candidate].push(time.max(1.0));
        }
        self.rounds += 1;
        if self.rounds < FIRST {
            return;
        }
        let leader = self.leader();
        for candidate in self.round() {
            let (ratio, deviation) = self.against(candidate, leader);
            self.left[candidate] |=
                candidate != leader && ratio - SURE * deviation > 0.0 && ratio > INDIFFERENCE / 4.0;
        }
    }

    /// Whether more rounds tell nothing: one measured candidate is left, or all are equally fast for sure.
    pub fn is_over(&self) -> bool {
        let open = self.round();
        if open.len() <= 1 {
            return self.rounds > 0;
        }
        let leader = self.leader();
        self.rounds >= FIRST
            && open.iter().all(|candidate| {
                let (ratio, deviation) = self.against(*candidate, leader);
                ratio.abs() + SURE * deviation < INDIFFERENCE.ln_1p()
            })
    }

    /// Whether a candidate left.
    pub fn has_left(&self, candidate: usize) -> bool {
        self.left[candidate]
    }

    /// Returns the candidates that are left and at most [`INDIFFERENCE`] slower than the leader.
    pub fn fastest(&self) -> Vec<usize> {
        let leader = self.leader();
        self.round()
            .into_iter()
            .filter(|candidate| self.against(*candidate, leader).0 <= INDIFFERENCE.ln_1p())
            .collect()
    }

    /// Returns the times of a candidate.
    pub fn times(&self, candidate: usize) -> &[f64] {
        &self.times[candidate]
    }

    /// Number of measured runs of all candidates.
    pub fn runs(&self) -> usize {
        self.times.iter().map(Vec::len).sum()
    }

    /// The candidate that is left with the least median time.
    fn leader(&self) -> usize {
        let open = self.round();
        let least = open
            .into_iter()
            .min_by(|a, b| median(&self.times[*a]).total_cmp(&median(&self.times[*b])).then(a.cmp(b)));
        least.unwrap_or(0)
    }

    /// Median logarithm of the ratio of the times of two candidates, and the deviation of that median.
    fn against(&self, candidate: usize, leader: usize) -> (f64, f64) {
        let pairs = self.times[candidate].iter().zip(&self.times[leader]);
        let ratios: Vec<f64> = pairs.map(|(own, other)| (own / other).ln()).collect();
        let middle = median(&ratios);
        let distances: Vec<f64> = ratios.iter().map(|ratio| (ratio - middle).abs()).collect();
        (middle, 1.4826 * median(&distances) / (ratios.len().max(1) as f64).sqrt())
    }
}

/// Returns the median; 0 of nothing.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a race of candidates with true times and seeded noise, with a disturbance of whole rounds;
    /// returns the race.
    fn simulated(truth: &[f64], noise: f64, seed: u64, most: usize) -> Race {
        let mut state = seed;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut race = Race::new(truth.len());
        while !race.is_over() && race.runs() < most {
            let load = 1.0 + 2.0 * number();
            let times: Vec<(usize, f64)> = race
                .round()
                .into_iter()
                .map(|who| (who, truth[who] * load * (1.0 + noise * number())))
                .collect();
            race.record(&times);
        }
        race
    }

    #[test]
    fn the_fastest_of_sixteen_is_found_with_few_runs() {
        let truth: Vec<f64> = (0..16).map(|index| 1e6 * (1.0 + 0.05 * f64::from(index * 7 % 16))).collect();
        let (mut right, mut runs) = (0, 0);
        for seed in 1..=50 {
            let race = simulated(&truth, 0.05, seed, 600);
            runs += race.runs();
            right += usize::from(race.fastest().iter().any(|who| truth[*who] <= 1.02e6));
        }
        assert!(right >= 48, "{right} of 50");
        // The same certainty by equal shares takes 686 runs.
        assert!(runs / 50 < 250, "{}", runs / 50);
    }

    #[test]
    fn equal_candidates_end_the_race_together() {
        let race = simulated(&[1e6, 1.001e6, 1e6], 0.01, 3, 3_000);
        assert!(race.is_over() && race.runs() < 3_000);
        assert!(race.fastest().len() >= 2, "{:?}", race.fastest());
    }

    #[test]
    fn a_slow_candidate_leaves_and_runs_no_more() {
        let race = simulated(&[1e6, 3e6], 0.05, 1, 100);
        assert!(race.has_left(1) && !race.has_left(0) && race.is_over());
        assert_eq!((race.times(1).len(), race.fastest()), (FIRST, vec![0]));
    }

    #[test]
    fn a_candidate_alone_is_measured_once() {
        let race = simulated(&[1e6], 0.05, 1, 100);
        assert_eq!((race.times(0).len(), race.fastest()), (1, vec![0]));
    }

    #[test]
    fn medians_of_even_numbers_are_between() {
        assert_eq!(
            [median(&[]), median(&[3.0]), median(&[1.0, 4.0]), median(&[9.0, 1.0, 5.0])],
            [0.0, 3.0, 2.5, 5.0]
        );
    }
}
