//! What was seen of regions before: rounds with other aims, and plans within other rooms, come to the same ones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use memc_ir::{ConstData, ConstId, Module, Node, Payload, Value};
use memc_ops::Piece;

use super::seed::{Estimates, Way};

/// Estimates that are remembered, at most.
const MAX_ESTIMATES: usize = 500_000;
/// Bytes of a constant, at most, whose elements are compared: axes, extents and the like change what a node does.
const MAX_COMPARED: usize = 4096;

/// What tells a region from others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    /// The number of its shares, or their borders.
    pub(super) shares: Vec<u64>,
    pub(super) nodes: Vec<Node>,
    /// What each value is for a part.
    pub(super) pieces: Vec<(Value, Piece)>,
}

/// Chosen regions in the order in which they are written.
pub(super) type Chosen = Vec<Mark>;

/// Trials with the regions of one module, the last that was asked for. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Rc<RefCell<Trials>>);

/// Trials where the whole plan counts, and where what each node needs by itself does.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) together: Seen,
    pub(super) alone: Seen,
}

/// What came of regions in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trial {
    /// Nodes that were ordered.
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
    /// What grew where regions were chosen, by the ways on which estimates depend.
    grown: BTreeMap<(Chosen, Way), Estimates>,
}

impl Seen {
    /// Forgets what is known of another module. Linear in both.
    pub(super) fn begin(&self, given: &Module) {
        let mut trials = self.0.borrow_mut();
        if !trials.given.as_ref().is_some_and(|known| is_same(known, given)) {
            *trials = Trials { given: Some(given.clone()), ..Trials::default() };
        }
    }

    /// What came of regions in parts, if they were judged.
    pub(super) fn judged(&self, chosen: &Chosen) -> Option<Trial> {
        self.0.borrow().judged.get(chosen).copied()
    }

    /// Remembers what came of regions in parts.
    pub(super) fn note(&self, chosen: Chosen, trial: Trial) {
        self.0.borrow_mut().judged.insert(chosen, trial);
    }

    /// Takes out what grew where regions were chosen.
    pub(super) fn take(&self, chosen: &Chosen, way: Way) -> Estimates {
        self.0.borrow_mut().grown.remove(&(chosen.clone(), anywhere(way))).unwrap_or_default()
    }

    /// Puts back what grew where regions were chosen.
    pub(super) fn put(&self, chosen: Chosen, way: Way, grown: Estimates) {
        let all = &mut self.0.borrow_mut().grown;
        if all.values().map(Estimates::len).sum::<usize>() + grown.len() > MAX_ESTIMATES {
            all.clear();
        }
        all.insert((chosen, anywhere(way)), grown);
    }
}

/// The way without what makes no difference to a region: where others may begin and end.
fn anywhere(way: Way) -> Way {
    Way { between_waists: false, ..way }
}

/// Whether regions of two modules are the same: they hold the same nodes, values, and numbers that say what nodes do.
fn is_same(first: &Module, second: &Module) -> bool {
    first.opsets == second.opsets
        && first.graph(first.main()) == second.graph(second.main())
        && first.nodes().iter().eq(second.nodes().iter())
        && first.values().iter().eq(second.values().iter())
        && first.constants().iter().map(numbers).eq(second.constants().iter().map(numbers))
}

/// The bytes of a small constant, where they are at hand.
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
    fn what_is_known_of_one_module_is_forgotten_at_the_next() {
        let (seen, trial) = (Seen::default(), Trial { nodes: 1, peak: 10, nanos: 20 });
        seen.begin(&module(0));
        seen.note(Chosen::default(), trial);
        seen.begin(&module(0));
        assert_eq!(seen.clone().judged(&Chosen::default()), Some(trial));
        seen.begin(&module(1));
        assert_eq!(seen.judged(&Chosen::default()), None);
    }

    #[test]
    fn what_grew_is_taken_out_where_it_was_put() {
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
