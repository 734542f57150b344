//! Measures every node of a plan: its time, and the workspace that its kernel asks for.

use std::collections::BTreeMap;

use crate::arrays::Array;
use crate::error::Error;
use crate::player::Player;
use crate::prepare::Kind;

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
    pub fn profile(
        &mut self,
        inputs: &BTreeMap<String, Array>,
        repeats: u32,
        clock: fn() -> u64,
    ) -> Result<Vec<NodeProfile>, Error> {
        self.clock = Some(clock);
        let outcome = self.sample(inputs, repeats.max(1));
        self.clock = None;
        outcome
    }

    fn sample(&mut self, inputs: &BTreeMap<String, Array>, repeats: u32) -> Result<Vec<NodeProfile>, Error> {
        let mut samples: Vec<Vec<u64>> = vec![Vec::new(); self.steps.len()];
        let mut work: BTreeMap<String, u64> = BTreeMap::new();
        for repeat in 0..=repeats {
            self.times = vec![0; self.steps.len()];
            let played = self.play(inputs)?;
            // The first run is to warm up, and shows the workspace.
            if repeat == 0 {
                work = played.workspace.into_iter().map(|node| (node.node, node.planned.saturating_add(node.beyond))).collect();
                continue;
            }
            for (sample, time) in samples.iter_mut().zip(&self.times) {
                sample.push(*time);
            }
        }
        let rows = self.steps.iter().zip(samples).map(|(step, mut sample)| {
            sample.sort_unstable();
            let median = sample.get(sample.len() / 2).copied().unwrap_or(0);
            NodeProfile {
                node: step.name.clone(),
                op: step.op.clone(),
                nanoseconds: if step.kind == Kind::Run { median } else { 0 },
                workspace: work.get(&step.name).copied().unwrap_or(0),
            }
        });
        Ok(rows.collect())
    }
}
