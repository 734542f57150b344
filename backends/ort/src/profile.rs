//! Measures every node of a plan: its time, and the workspace that its kernel asks for.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::inputs::Inputs;
use crate::player::Player;
use crate::step::Kind;

/// What one node takes on this machine, with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Median over the repeats, in nanoseconds; 0 for nodes that have nothing to do or gave constants before the run.
    pub nanoseconds: u64,
    /// Workspace in bytes, planned or not.
    pub workspace: u64,
}

impl Player<'_> {
    /// Plays the plan once to warm up and then `repeats` times, and gives the median of each node, in the order of the schedule.
    ///
    /// `clock` gives nanoseconds since any moment; the library has no clock of its own.
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
