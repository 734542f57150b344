//! When each step of a plan runs: operators on one engine, transfers on one for each direction of each link.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Nanos, Node, SecondaryMap, Space, Value};
use memc_ops::families::memory::transfer_of;

use crate::model::CostModel;
use crate::node::UNKNOWN_NANOS;

/// A time in which a step keeps its engine busy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Span {
    /// When it begins.
    pub start: Nanos,
    /// When it has ended.
    pub end: Nanos,
}

/// The span of each node of the main graph, in the order of the schedule, from the start of the run.
///
/// Nodes are issued in the order of the schedule. An operator begins when the one before it has ended, when what it reads has been loaded, and
/// when the bytes that it writes are no longer read or written by a transfer; a transfer when it is issued and its link is free, under the
/// same conditions. Nothing waits for a transfer otherwise. O(n · transfers under way).
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
            clock.scratch.entry(scratch.node).or_default().push(Region::new(storage.space, storage.offset, scratch.bytes));
        }
    }
    module.graph(module.main()).nodes.iter().map(|node| clock.run(*node)).collect()
}

/// Bytes of a space.
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
    /// When the last operator has ended.
    computed: f64,
    /// When each direction of each link is free, by the target's spaces that it leads from and to.
    links: BTreeMap<(usize, usize), f64>,
    /// When the bytes that an owner got over a link are there.
    ready: SecondaryMap<Value, f64>,
    /// Bytes that transfers read or write, and until when.
    under_way: Vec<(Region, f64)>,
    /// Workspace of nodes.
    scratch: BTreeMap<Node, Vec<Region>>,
}

impl Clock<'_> {
    fn run(&mut self, node: Node) -> Span {
        let computed = self.computed;
        self.under_way.retain(|(_, until)| *until > computed);
        let start = self.earliest(node);
        if transfer_of(&self.module.node(node).operator).is_some() {
            return self.transfer(node, start);
        }
        let end = start + self.costs.nanos(self.module, node).0;
        self.computed = end;
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// When what a node reads is there, and what it writes is free.
    fn earliest(&self, node: Node) -> f64 {
        let data = self.module.node(node);
        let read = data.operands().map(|value| self.ready[self.module.plan.owner(value).0]);
        let written: Vec<Region> = data
            .results()
            .filter_map(|value| self.region(value))
            .chain(self.scratch.get(&node).into_iter().flatten().copied())
            .collect();
        let busy =
            self.under_way.iter().filter(|(region, _)| written.iter().any(|own| own.meets(region))).map(|(_, until)| *until);
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
            // A copy that no arena holds yet: the plan is not complete.
            _ => (issued, issued + UNKNOWN_NANOS),
        };
        if let Some(result) = result {
            self.ready.set(self.module.plan.owner(result).0, end);
        }
        Span { start: Nanos(start), end: Nanos(end) }
    }

    /// The target's space that a transfer reads: where its operand lies, or for a constant that no arena holds, what the node says.
    fn from(&self, node: Node, operand: Option<Region>) -> Option<usize> {
        match operand {
            Some(region) => self.index(region.space),
            None => self.costs.target.space(self.module.node(node).string("from")?),
        }
    }

    fn index(&self, space: Space) -> Option<usize> {
        self.costs.target.space(&self.module.plan.spaces[space].name)
    }

    /// Time to copy so many bytes over the link between two spaces.
    fn copying(&self, (from, to): (usize, usize), bytes: Bytes) -> f64 {
        self.costs.target.link(from, to).map_or(UNKNOWN_NANOS, |link| link.time(bytes).0)
    }

    fn region(&self, value: Value) -> Option<Region> {
        let storage = self.module.plan.storage[value]?;
        Some(Region::new(storage.space, storage.offset, self.module.ty(value).size()?))
    }
}
