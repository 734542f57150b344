//! Curves: the mean over time of the bytes in use.

/// Returns the mean of a curve over time, rounded down; `times` are the durations of the steps, and steps of
/// an empty list are equally long.
#[must_use]
pub fn mean(loads: &[u64], times: &[u64]) -> u64 {
    let time = |step: usize| u128::from(times.get(step).copied().unwrap_or(u64::from(times.is_empty())));
    let whole: u128 = (0..loads.len()).map(time).sum();
    let area: u128 =
        loads.iter().enumerate().map(|(step, bytes)| u128::from(*bytes).saturating_mul(time(step))).sum();
    u64::try_from(area.checked_div(whole).unwrap_or(0)).unwrap_or(u64::MAX)
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
}
