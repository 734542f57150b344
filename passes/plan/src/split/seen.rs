//! Cache of trials and estimates: other aims and other limits meet equal regions again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memc_ir::{ConstData, ConstId, Module, Node, Payload, Value};
use memc_ops::Piece;

use super::seed::{Estimates, Way};

/// Maximum number of cached estimates.
const MAX_ESTIMATES: usize = 500_000;
/// Maximum size, in bytes, of a constant whose elements are compared: axes and extents change the
/// results of a node.
const MAX_COMPARED: usize = 4096;

/// Key of a region.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    /// Number of shares, or their borders.
    pub(super) shares: Vec<u64>,
    pub(super) nodes: Vec<Node>,
    /// Pieces of values that a part has.
    pub(super) pieces: Vec<(Value, Piece)>,
}

/// Chosen regions, in the order of writing.
pub(super) type Chosen = Vec<Mark>;

/// Trials of the regions of the last module. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Trials>>);

/// Trials of whole plans, and trials of nodes by themselves.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) together: Seen,
    pub(super) alone: Seen,
    /// The trials of both kinds at the largest extents of symbols.
    pub(super) largest: [Seen; 2],
}

/// Result of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trial {
    /// Number of nodes of the module.
    pub(super) nodes: usize,
    /// Peak in bytes.
    pub(super) peak: u64,
    /// Modelled time in nanoseconds.
    pub(super) nanos: u64,
}

#[derive(Debug, Default)]
struct Trials {
    given: Option<Module>,
    judged: BTreeMap<Chosen, Trial>,
    /// Estimates by the regions chosen before, and by the way.
    grown: BTreeMap<(Chosen, Way), Estimates>,
}

impl Seen {
    fn trials(&self) -> MutexGuard<'_, Trials> {
        // Every change is one step, so a thread that panicked leaves the cache whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets trials of other modules. Linear in both modules.
    pub(super) fn begin(&self, given: &Module) {
        let mut trials = self.trials();
        if !trials.given.as_ref().is_some_and(|known| is_same(known, given)) {
            *trials = Trials { given: Some(given.clone()), ..Trials::default() };
        }
    }

    /// Returns the result of a trial, if it is cached.
    pub(super) fn judged(&self, chosen: &Chosen) -> Option<Trial> {
        self.trials().judged.get(chosen).copied()
    }

    /// Caches the result of a trial.
    pub(super) fn note(&self, chosen: Chosen, trial: Trial) {
        self.trials().judged.insert(chosen, trial);
    }

    /// Removes and returns the estimates of a choice.
    pub(super) fn take(&self, chosen: &Chosen, way: Way) -> Estimates {
        self.trials().grown.remove(&(chosen.clone(), anywhere(way))).unwrap_or_default()
    }

    /// Puts the estimates of a choice back.
    pub(super) fn put(&self, chosen: Chosen, way: Way, grown: Estimates) {
        let mut trials = self.trials();
        let all = &mut trials.grown;
        if all.values().map(Estimates::len).sum::<usize>() + grown.len() > MAX_ESTIMATES {
            all.clear();
        }
        all.insert((chosen, anywhere(way)), grown);
    }
}

/// Returns the way without `between_waists`, which changes no estimate.
fn anywhere(way: Way) -> Way {
    Way { between_waists: false, ..way }
}

/// Returns whether two modules have equal regions: equal nodes, values, and small constants.
fn is_same(first: &Module, second: &Module) -> bool {
    first.opsets == second.opsets
        && first.graph(first.main()) == second.graph(second.main())
        && first.nodes().iter().eq(second.nodes().iter())
        && first.values().iter().eq(second.values().iter())
        && first.constants().iter().map(numbers).eq(second.constants().iter().map(numbers))
}

/// Returns the bytes of a small constant, if they are in memory.
fn numbers((_, constant): (ConstId, &ConstData)) -> Option<&[u8]> {
    match &constant.payload {
        Payload::Raw(bytes) => Some(bytes.as_ref()).filter(|bytes| bytes.len() <= MAX_COMPARED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::seed::{Lie, Seed};
    use super::*;

    fn module(axis: i64) -> Module {
        let text = format!(
            "mem 1\nir_version 8\nopset \"\" 13\nstage typed\ngraph @g {{\n  input %x : f32[8,64]\n  const %axes : i64[1] = [{axis}]\n  \
             %r = ReduceSum(%x, %axes) {{keepdims = 1}} : f32[?,?]\n  return %r\n}}\n"
        );
        memc_ir::text::parse(&text).unwrap()
    }

    #[test]
    fn trials_of_one_module_are_forgotten_at_the_next() {
        let (seen, trial) = (Seen::default(), Trial { nodes: 1, peak: 10, nanos: 20 });
        seen.begin(&module(0));
        seen.note(Chosen::default(), trial);
        seen.begin(&module(0));
        assert_eq!(seen.clone().judged(&Chosen::default()), Some(trial));
        seen.begin(&module(1));
        assert_eq!(seen.judged(&Chosen::default()), None);
    }

    #[test]
    fn estimates_are_taken_once_by_choice_and_way() {
        let (seen, way) = (Seen::default(), Way { between_waists: true, joins: true, apart: false });
        let seed = Seed {
            value: module(0).graph(module(0).main()).outputs[0],
            axis: 0,
            parts: 2,
            lie: Lie::Equal,
            small: 1,
            private: false,
            steps: (0, 1),
        };
        let grown = Estimates::from_iter([(seed, None)]);
        seen.put(Chosen::default(), way, grown.clone());
        assert_eq!(seen.take(&Chosen::default(), Way { joins: false, ..way }).len(), 0);
        assert_eq!(seen.take(&Chosen::default(), way).len(), 1);
        assert_eq!(seen.take(&Chosen::default(), way).len(), 0);
        seen.put(vec![Mark { shares: vec![2], nodes: Vec::new(), pieces: Vec::new() }], way, grown);
        assert_eq!(seen.take(&Chosen::default(), way).len(), 0);
    }
}
