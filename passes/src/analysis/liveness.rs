//! Live ranges of the values of one graph under its order of nodes.

use memc_ir::{GraphId, LiveRange, Module, SecondaryMap, Step, Value};
use memc_ops::Profile;

/// Live ranges of all values that a graph defines.
#[derive(Debug)]
pub struct Liveness {
    ranges: SecondaryMap<Value, Option<LiveRange>>,
    /// Number of steps.
    pub steps: u32,
}

impl Liveness {
    /// Derives the ranges. Linear in nodes and operands.
    ///
    /// - A value is live from the step that makes it to its last reader.
    /// - An unread value is live for its own step, or to the end if the runtime holds unread results.
    /// - A graph output is live to the end, and an input from the first step.
    /// - The node of a body reads all values that the body captures.
    pub fn of(module: &Module, graph: GraphId, profile: &Profile) -> Self {
        let data = module.graph(graph);
        let steps = data.nodes.len() as u32;
        let mut ranges: SecondaryMap<Value, Option<LiveRange>> = SecondaryMap::default();
        let mut is_read: SecondaryMap<Value, bool> = SecondaryMap::default();
        for value in data.inputs.iter().chain(&data.constants) {
            ranges.set(*value, Some(LiveRange { start: Step(0), end: Step(1.min(steps)) }));
        }
        for (index, node) in data.nodes.iter().enumerate() {
            let (here, next) = (Step(index as u32), Step(index as u32 + 1));
            for value in module.reads(*node) {
                is_read.set(value, true);
                if let Some(range) = &mut ranges[value] {
                    range.end = next;
                }
            }
            for value in module.node(*node).results() {
                ranges.set(value, Some(LiveRange { start: here, end: next }));
            }
        }
        if profile.holds_unread_results {
            let results = data.nodes.iter().flat_map(|node| module.node(*node).results());
            for value in results.filter(|value| !is_read[*value]) {
                if let Some(range) = &mut ranges[value] {
                    range.end = Step(steps);
                }
            }
        }
        for value in &data.outputs {
            if let Some(range) = &mut ranges[*value] {
                range.end = Step(steps);
            }
        }
        Self { ranges, steps }
    }

    /// Returns the live range of a value that the graph defines; `None` for other values.
    pub fn range(&self, value: Value) -> Option<LiveRange> {
        self.ranges[value]
    }
}
