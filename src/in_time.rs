//! The least memory within a time: searches for a plan that takes at most so long, in as few bytes as
//! possible.
//!
//! A time beyond that of the model as it was given is a slowdown, which the planner has as a goal. A
//! shorter time needs plans that are faster than the given model: the search begins with the fastest one.
//! Smaller plans are then searched among those for limits of bytes, by halving, as a larger limit never
//! gives a slower plan.

use memc_ir::Bytes;
use memc_passes::{PassError, PipelineError};
use memc_plan::{Entry, Found, Model, Refusal, Tuning, Wish};

/// A limit that every plan keeps, small enough that sums with it stay in range.
const NO_LIMIT: Bytes = Bytes(1 << 60);

/// Number of halvings of the range of sizes: the size is then within 3 % of the least one that the planner's
/// plans for limits have.
const HALVINGS: u32 = 6;

/// Share of the size below which a smaller plan is not looked for: 1/n.
const FINE: u64 = 64;

/// Largest slowdown, in hundredths of a percent.
const MOST_SLOWDOWN: u32 = 1_000_000;

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Missed {
    /// The limit of bytes alone is refused, or a pass fails.
    Refused(Refusal),
    /// The fastest plan within the limit takes this number of nanoseconds.
    Late(u64),
}

impl From<Refusal> for Missed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Returns the plan of fewest bytes that takes at most `longest` modelled nanoseconds and keeps a limit of
/// the first space.
///
/// # Errors
/// No plan keeps both, or a pass fails.
pub(crate) fn within(
    model: &Model<'_>,
    limit: Option<Bytes>,
    longest: u64,
    tell: &mut dyn FnMut(&Entry),
) -> Result<Found, Missed> {
    let slowdown = allowed(model.options.total_nanos(model.module), longest);
    let mut best = if slowdown > 0 {
        match memc_plan::plan(model, Wish { limit, slowdown }, &Tuning::default(), tell) {
            Err(Refusal::Slow { nanos, .. }) => return Err(Missed::Late(nanos)),
            other => other?,
        }
    } else {
        let wish = Wish { limit: Some(limit.unwrap_or(NO_LIMIT)), slowdown: 0 };
        memc_plan::plan(model, wish, &Tuning::default(), tell)?
    };
    if best.score.nanos > longest {
        return Err(Missed::Late(best.score.nanos));
    }
    let mut find =
        |limit| memc_plan::plan(model, Wish { limit: Some(limit), slowdown: 0 }, &Tuning::default(), tell);
    let (mut low, mut high) = (0, best.score.bytes.0);
    for _ in 0..HALVINGS {
        if high - low <= high / FINE {
            break;
        }
        let middle = low + (high - low) / 2;
        match find(Bytes(middle)) {
            Ok(found) if found.score.nanos <= longest => {
                high = found.score.bytes.0.min(middle);
                best = found;
            }
            Ok(_) => low = middle,
            Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => {
                low = short.least.0.clamp(middle, high)
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(best)
}

/// Returns the largest slowdown of `given` nanoseconds, in hundredths of a percent, that takes at most
/// `longest`.
fn allowed(given: u64, longest: u64) -> u32 {
    let more = u128::from(longest.saturating_sub(given));
    // The largest number whose share of the time, rounded down, is not more than that.
    let share = ((more + 1) * 10_000).saturating_sub(1) / u128::from(given.max(1));
    // Beyond a hundred times the time, more time admits no smaller plan.
    let slowdown = u32::try_from(share).unwrap_or(u32::MAX).min(MOST_SLOWDOWN);
    if longest > given { slowdown } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memc_plan::slowed;

    #[test]
    fn the_largest_slowdown_keeps_the_time() {
        for (given, longest) in
            [(1000, 999), (1000, 1000), (1000, 1001), (12_345, 20_000), (7, 1_000_000_007), (0, 5)]
        {
            let found = allowed(given, longest);
            assert!(found == 0 || slowed(given, found) <= longest, "{given} {longest} {found}");
            let next = slowed(given, found + 1);
            assert!(
                next > longest || found == MOST_SLOWDOWN || longest <= given || given == 0,
                "{given} {longest} {found}"
            );
        }
        assert_eq!((allowed(1000, 1500), allowed(1000, 900)), (5_009, 0));
    }
}
