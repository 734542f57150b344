//! Timeline of a plan: operators run on one engine, transfers on one engine per direction of each link.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Nanos, Node, SecondaryMap, Space, Value};
use memc_ops::families::memory::is_copied_aside;

use crate::model::CostModel;
use crate::node::UNKNOWN_NANOS;

/// Period in which a step keeps its engine busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// Begin of the period.
    pub start: Nanos,
    /// End of the period.
    pub end: Nanos,
}

/// Returns the span of each node of the main graph, in schedule order, from the start of the run.
///
/// Nodes are issued in schedule order. An operator begins when three conditions hold: the previous
/// operator has ended, its operands have been loaded, and no transfer still reads or writes the bytes of
/// its results. A transfer begins when it is issued and its link is free, under these conditions.
/// Nothing else waits for a transfer. O(n · transfers in progress).
pub fn timeline(module: &Module, costs: &CostModel) -> Vec<Span> {
    let mut clock = Clock {
        module,
        costs,
        computed: 0.0,
        links: BTreeMap::new(),
        ready: SecondaryMap::default(),
        under_way: Vec::new(),
        scratch: BTreeMap::new(),
    };
    for scratch in &module.plan.scratch {
        if let Some(storage) = scratch.storage {
            clock.scratch.entry(scratch.node).or_default().push(Region::new(
                storage.space,
                storage.offset,
                scratch.bytes,
            ));
        }
    }
    module.graph(module.main()).nodes.iter().map(|node| clock.run(*node)).collect()
}

/// A range of bytes in a space.
#[derive(Clone, Copy)]
struct Region {
    space: Space,
    start: u64,
    end: u64,
}

impl Region {
    fn new(space: Space, offset: Bytes, bytes: Bytes) -> Self {
        Self { space, start: offset.0, end: offset.0.saturating_add(bytes.0) }
    }

    fn meets(&self, other: &Self) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }
}

struct Clock<'a> {
    module: &'a Module,
    costs: &'a CostModel,
    /// End of the last operator, in nanoseconds.
    computed: f64,
    /// Time from which each direction of a link is free, by the indices of its source and target space.
    links: BTreeMap<(usize, usize), f64>,
    /// Time at which an owner's transferred bytes have arrived.
    ready: SecondaryMap<Value, f64>,
    /// Byte ranges that transfers read or write, with the end of the transfer.
    under_way: Vec<(Region, f64)>,
    /// Workspace of nodes.
    scratch: BTreeMap<Node, Vec<Region>>,
}

impl Clock<'_> {
    fn run(&mut self, node: Node) -> Span {
        let computed = self.computed;
        self.under_way.retain(|(_, until)| *until > computed);
        let start = self.earliest(node);
        if is_copied_aside(&self.module.node(node).operator) {
            return self.transfer(node, start);
        }
        let end = start + self.costs.nanos(self.module, node).0;
        self.computed = end;
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// Returns the earliest start of a node: its operands have arrived, and no transfer uses the bytes
    /// that it writes.
    fn earliest(&self, node: Node) -> f64 {
        let data = self.module.node(node);
        let read = data.operands().map(|value| self.ready[self.module.plan.owner(value).0]);
        let written: Vec<Region> = data
            .results()
            .filter_map(|value| self.region(value))
            .chain(self.scratch.get(&node).into_iter().flatten().copied())
            .collect();
        let busy = self
            .under_way
            .iter()
            .filter(|(region, _)| written.iter().any(|own| own.meets(region)))
            .map(|(_, until)| *until);
        read.chain(busy).fold(self.computed, f64::max)
    }

    fn transfer(&mut self, node: Node, issued: f64) -> Span {
        let data = self.module.node(node);
        let (operand, result) = (data.operands().next(), data.results().next());
        let regions = [operand, result].map(|value| value.and_then(|value| self.region(value)));
        let ends = self.from(node, regions[0]).zip(regions[1].and_then(|to| self.index(to.space)));
        let (start, end) = match (ends, regions[1]) {
            (Some(link), Some(to)) => {
                let free = self.links.entry(link).or_default();
                let start = issued.max(*free);
                let end = start + self.copying(link, Bytes(to.end - to.start));
                self.links.insert(link, end);
                self.under_way.extend(regions.into_iter().flatten().map(|region| (region, end)));
                (start, end)
            }
            // No arena holds this copy: the plan is incomplete.
            _ => (issued, issued + UNKNOWN_NANOS),
        };
        if let Some(result) = result {
            self.ready.set(self.module.plan.owner(result).0, end);
        }
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// Returns the index of the space that a transfer reads: the operand's space, or for a constant
    /// outside all arenas the space that the node names.
    fn from(&self, node: Node, operand: Option<Region>) -> Option<usize> {
        match operand {
            Some(region) => self.index(region.space),
            None => self.costs.target.space(self.module.node(node).string("from")?),
        }
    }

    fn index(&self, space: Space) -> Option<usize> {
        self.costs.target.space(&self.module.plan.spaces[space].name)
    }

    /// Returns the time to copy bytes over the link between two spaces.
    fn copying(&self, (from, to): (usize, usize), bytes: Bytes) -> f64 {
        self.costs.target.link(from, to).map_or(UNKNOWN_NANOS, |link| link.time(bytes).0)
    }

    fn region(&self, value: Value) -> Option<Region> {
        let storage = self.module.plan.storage[value]?;
        Some(Region::new(storage.space, storage.offset, self.module.size(value)?))
    }
}
