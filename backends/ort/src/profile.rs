//! Measures the time and the requested workspace of every node of a plan.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::inputs::Inputs;
use crate::options::{Clocks, KernelTime};
use crate::player::Player;
use crate::step::Kind;

/// Share of the processor time by which the time on the clock may be longer: beyond it the thread waited, for
/// another process or for the system.
const MOST_WAIT: f64 = 1.1;

/// Costs of one node on this machine, with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// Name of the node.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Least processor time over the repeats, in nanoseconds; 0 for nodes that do nothing or that computed
    /// constants before the run.
    pub processor: u64,
    /// Median time on the clock over the repeats, in nanoseconds; 0 as above.
    pub wall: u64,
    /// Whether each run took over 1.1 times as long on the clock as on the processor: other work disturbed
    /// all of them.
    pub is_disturbed: bool,
    /// Workspace, planned or not, in bytes.
    pub workspace: u64,
}

impl Player<'_> {
    /// Plays the plan once to warm up and then `repeats` times, and returns the times of each node, in the
    /// order of the schedule.
    ///
    /// # Errors
    /// As for [`Player::play`].
    pub fn profile(
        &mut self,
        inputs: &dyn Inputs,
        repeats: u32,
        clocks: Clocks,
    ) -> Result<Vec<NodeProfile>, Error> {
        self.measure(clocks);
        let own = own_time(clocks.processor);
        let warm = self.play(inputs)?;
        let work: BTreeMap<String, u64> = warm
            .workspace
            .into_iter()
            .map(|node| (node.node, node.planned.saturating_add(node.beyond)))
            .collect();
        let mut samples: BTreeMap<String, Vec<KernelTime>> = BTreeMap::new();
        for _ in 0..repeats.max(1) {
            self.play_with(inputs, &mut |step, _, time| {
                samples.entry(step.name.clone()).or_default().push(time);
                Ok(())
            })?;
        }
        let rows = self.steps().iter().map(|step| {
            let sample =
                samples.get(&step.name).filter(|_| step.kind == Kind::Run).map_or(&[][..], Vec::as_slice);
            NodeProfile {
                node: step.name.clone(),
                op: step.op.clone(),
                processor: sample.iter().map(|time| time.processor).min().unwrap_or(0).saturating_sub(own),
                wall: median(sample.iter().map(|time| time.wall).collect()),
                is_disturbed: is_disturbed(sample),
                workspace: work.get(&step.name).copied().unwrap_or(0),
            }
        });
        Ok(rows.collect())
    }
}

/// Processor time of reading the clock once, in nanoseconds.
fn own_time(clock: fn() -> u64) -> u64 {
    const READINGS: usize = 64;
    (0..READINGS)
        .map(|_| (clock(), clock()))
        .map(|(before, after)| after.saturating_sub(before))
        .min()
        .unwrap_or(0)
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// Whether the thread waited in each run.
fn is_disturbed(sample: &[KernelTime]) -> bool {
    !sample.is_empty() && sample.iter().all(|time| time.wall as f64 > MOST_WAIT * time.processor as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_disturbed_if_no_run_was_alone() {
        let time = |wall, processor| KernelTime { wall, processor };
        assert!(!is_disturbed(&[]));
        assert!(!is_disturbed(&[time(0, 0)]));
        assert!(!is_disturbed(&[time(110, 100), time(900, 100)]));
        assert!(is_disturbed(&[time(111, 100), time(900, 100)]));
    }

    #[test]
    fn a_median_is_the_middle_of_the_sorted_times() {
        assert_eq!([vec![], vec![3], vec![9, 1, 5]].map(median), [0, 3, 5]);
    }
}
