//! Curves: the mean over time of the bytes in use, and the peak of two programs at their best phase.

/// Number of parts of a period at which phases are compared.
const BINS: usize = 500;

/// Returns the mean of a curve over time, rounded down; `times` are the durations of the steps, and steps of
/// an empty list are equally long.
#[must_use]
pub fn mean(loads: &[u64], times: &[u64]) -> u64 {
    let time = |step: usize| u128::from(times.get(step).copied().unwrap_or(u64::from(times.is_empty())));
    let whole: u128 = (0..loads.len()).map(time).sum();
    let area: u128 = loads.iter().enumerate().map(|(step, bytes)| u128::from(*bytes).saturating_mul(time(step))).sum();
    u64::try_from(area.checked_div(whole).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Returns the largest value of a curve in each of [`BINS`] equal parts of its period, repeated a number of
/// times.
fn binned(loads: &[u64], times: &[u64], repeats: usize) -> Vec<u64> {
    let time = |step: usize| u128::from(times.get(step).copied().unwrap_or(u64::from(times.is_empty())));
    let whole: u128 = (0..loads.len()).map(time).sum::<u128>().max(1);
    let mut bins = vec![0_u64; BINS];
    let period = whole * repeats as u128;
    let mut now = 0_u128;
    for _ in 0..repeats {
        for (step, bytes) in loads.iter().enumerate() {
            let end = now + time(step);
            let first = usize::try_from(now * BINS as u128 / period).unwrap_or(0);
            let last =
                usize::try_from((end * BINS as u128).div_ceil(period)).unwrap_or(BINS).clamp(first + 1, BINS.max(first + 1));
            for bin in bins.iter_mut().take(last).skip(first) {
                *bin = (*bin).max(*bytes);
            }
            now = end;
        }
    }
    bins
}

/// Returns the lowest peak of two programs that run at once, over all shifts of one against the other. The
/// shorter program is repeated, and stretched to a divisor of the longer one's period. Each program is its
/// curve and the durations of its steps, as for [`mean`]. A grid of 500 parts decides, so the value may be
/// above the true lowest peak.
#[must_use]
pub fn phased(one: (&[u64], &[u64]), other: (&[u64], &[u64])) -> u64 {
    let whole = |(loads, times): (&[u64], &[u64])| {
        let sum = times.iter().fold(0_u64, |sum, time| sum.saturating_add(*time));
        if times.is_empty() { loads.len() as u64 } else { sum }.max(1)
    };
    let (one_period, other_period) = (whole(one), whole(other));
    let repeats = |own: u64| usize::try_from((one_period.max(other_period) + own / 2) / own).unwrap_or(BINS).clamp(1, BINS);
    let one = binned(one.0, one.1, repeats(one_period));
    let other = binned(other.0, other.1, repeats(other_period));
    let peak = |shift: usize| {
        let sums = one.iter().zip(other.iter().cycle().skip(shift)).map(|(one, other)| one.saturating_add(*other));
        sums.max().unwrap_or(0)
    };
    (0..BINS).map(peak).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_the_mean_of_their_steps_by_time() {
        let loads = [10, 40, 30, 0];
        assert_eq!(mean(&loads, &[]), 20);
        assert_eq!(mean(&loads, &[1, 0, 0, 3]), 2);
        assert_eq!(mean(&[], &[]), 0);
    }

    #[test]
    fn two_programs_in_opposite_phase_need_less_than_the_sum() {
        let curve = [10, 1];
        assert_eq!(phased((&curve, &[]), (&curve, &[])), 11);
        assert_eq!(phased((&[7, 7, 7], &[]), (&curve, &[])), 17);
        // The shorter one runs twice in a period of the longer one.
        assert_eq!(phased((&[10, 1, 10, 1], &[]), (&curve, &[])), 11);
        assert_eq!(phased((&[], &[]), (&curve, &[])), 10);
    }
}
