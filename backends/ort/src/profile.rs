//! Measures the time and the requested workspace of every node of a plan.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::inputs::Inputs;
use crate::player::Player;
use crate::step::Kind;

/// Costs of one node on this machine, with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// Name of the node.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Median time over the repeats, in nanoseconds; 0 for nodes that do nothing or that computed
    /// constants before the run.
    pub nanoseconds: u64,
    /// Workspace, planned or not, in bytes.
    pub workspace: u64,
}

impl Player<'_> {
    /// Plays the plan once to warm up and then `repeats` times, and returns the median of each node, in
    /// the order of the schedule.
    ///
    /// `clock` returns nanoseconds since any fixed moment; the library has no clock of its own.
    ///
    /// # Errors
    /// As for [`Player::play`].
    pub fn profile(&mut self, inputs: &dyn Inputs, repeats: u32, clock: fn() -> u64) -> Result<Vec<NodeProfile>, Error> {
        self.measure(clock);
        let warm = self.play(inputs)?;
        let work: BTreeMap<String, u64> =
            warm.workspace.into_iter().map(|node| (node.node, node.planned.saturating_add(node.beyond))).collect();
        let mut samples: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for _ in 0..repeats.max(1) {
            self.play_with(inputs, &mut |step, _, time| {
                samples.entry(step.name.clone()).or_default().push(time);
                Ok(())
            })?;
        }
        let rows = self.steps().iter().map(|step| {
            let sample = samples.get_mut(&step.name).map(|sample| {
                sample.sort_unstable();
                sample[sample.len() / 2]
            });
            NodeProfile {
                node: step.name.clone(),
                op: step.op.clone(),
                nanoseconds: sample.filter(|_| step.kind == Kind::Run).unwrap_or(0),
                workspace: work.get(&step.name).copied().unwrap_or(0),
            }
        });
        Ok(rows.collect())
    }
}
