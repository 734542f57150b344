//! Waists: borders between steps that far fewer bytes cross than the borders on the way to a step.
//! Regions around that step begin and end at waists.

use memc_passes::tuning::SplitTuning;

/// Waists of an order.
#[derive(Debug)]
pub(super) struct Waists {
    /// Maximum number of steps on each side, the step itself included.
    max_borders: usize,
    /// By step: bytes that cross the border after the step.
    crossing: Vec<u64>,
    /// By border: the nearest much narrower border before it.
    before: Vec<Option<usize>>,
    /// By border: the nearest much narrower border after it.
    behind: Vec<Option<usize>>,
}

impl Waists {
    /// Finds the waists of an order; `crossing` are the bytes across the border after each step. Takes
    /// O(steps log steps).
    pub(super) fn of(crossing: Vec<u64>, tuning: &SplitTuning) -> Self {
        let before = nearest_narrower(&crossing, tuning);
        let end = crossing.len();
        let reversed: Vec<u64> = crossing.iter().rev().copied().collect();
        let behind = nearest_narrower(&reversed, tuning)
            .into_iter()
            .rev()
            .map(|found| found.map(|place| end - 1 - place))
            .collect();
        Self { max_borders: tuning.max_borders, crossing, before, behind }
    }

    /// Returns the first steps of regions around a step: the step itself, then the steps after ever
    /// narrower borders, down to the start.
    pub(super) fn firsts(&self, step: usize) -> Vec<usize> {
        let mut firsts = vec![step];
        // Nothing crosses the start.
        while let Some(border) =
            firsts.last().and_then(|first| first.checked_sub(1)).filter(|border| self.crossing[*border] > 0)
        {
            if firsts.len() >= self.max_borders {
                break;
            }
            firsts.push(self.before[border].map_or(0, |narrower| narrower + 1));
        }
        firsts
    }

    /// Returns the last steps of regions around a step: the step itself, then the steps before ever
    /// narrower borders.
    pub(super) fn lasts(&self, step: usize) -> Vec<usize> {
        std::iter::successors(Some(step), |last| self.behind[*last]).take(self.max_borders.max(1)).collect()
    }
}

/// Finds, for each border, the nearest much narrower border before it.
fn nearest_narrower(crossing: &[u64], tuning: &SplitTuning) -> Vec<Option<usize>> {
    // A border hidden by a later, narrower border is never an answer: the remaining borders rise.
    let mut rising: Vec<usize> = Vec::new();
    let nearest = |(place, bytes): (usize, &u64)| {
        while rising.pop_if(|last| crossing[*last] >= *bytes).is_some() {}
        let narrow = rising.partition_point(|other| crossing[*other] < bytes - tuning.narrower.of(*bytes));
        let found = narrow.checked_sub(1).map(|index| rising[index]);
        rising.push(place);
        found
    };
    crossing.iter().enumerate().map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation: walks from border to border.
    fn walked(borders: impl Iterator<Item = (usize, u64)>) -> Vec<usize> {
        let tuning = SplitTuning::default();
        let mut narrowest: Option<u64> = None;
        let mut found = Vec::new();
        for (step, bytes) in borders {
            if narrowest.is_none_or(|narrowest| bytes < narrowest - tuning.narrower.of(narrowest)) {
                narrowest = Some(bytes);
                found.push(step);
            }
            if found.len() == tuning.max_borders || bytes == 0 {
                break;
            }
        }
        found
    }

    #[test]
    fn waists_agree_with_a_plain_walk() {
        let mut number = 1_u64;
        let mut next = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) % below
        };
        for length in 1..60 {
            let most = [3, 40, 5000][length % 3];
            let crossing: Vec<u64> = (0..length).map(|_| next(most)).collect();
            let waists = Waists::of(crossing.clone(), &SplitTuning::default());
            for step in 0..length {
                let before = (0..=step)
                    .rev()
                    .map(|first| (first, first.checked_sub(1).map_or(0, |border| crossing[border])));
                assert_eq!(waists.firsts(step), walked(before), "before {step} of {crossing:?}");
                assert_eq!(
                    waists.lasts(step),
                    walked((step..length).map(|last| (last, crossing[last]))),
                    "behind {step} of {crossing:?}"
                );
            }
        }
    }
}
