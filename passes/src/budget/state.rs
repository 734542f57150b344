//! The main graph as a budget problem: a run for each node that is more than a view, a value for each buffer.

use std::collections::BTreeSet;

use memc_ir::{AliasKind, Bytes, Module, Node, SecondaryMap, Value};
use memc_ops::Typed;
use memc_solve::budget;

use crate::analysis::buffers::{Buffer, buffers};
use crate::analysis::class::classes;
use crate::analysis::dependence::{has_side_effect, predecessors};
use crate::analysis::liveness::Liveness;
use crate::analysis::scratch::scratch;
use crate::options::Options;

/// Views of views of views are contracted this deep; a deeper one is a run of its own.
const MAX_DEPTH: u32 = 64;

/// A budget problem, and what its indices stand for.
#[derive(Debug)]
pub(crate) struct Stated {
    /// The problem; its given order is the module's.
    pub(crate) problem: budget::Problem,
    /// Node of each run.
    pub(crate) nodes: Vec<Node>,
    /// Owner of each value's bytes.
    pub(crate) owners: Vec<Value>,
    /// Whether a node is a view that is made again with its owner wherever somebody reads it, and hence no run.
    pub(crate) is_view: SecondaryMap<Node, bool>,
    /// Name of the farther space that each link leads to.
    pub(crate) far: Vec<String>,
    /// Nanoseconds in a unit of the problem's time.
    pub(crate) unit: u64,
    /// The most bytes by which one size was rounded up: whatever lies on top of an arena need not fill these.
    pub(crate) padding: u64,
}

/// Rates are whole bytes a unit of time: the unit is long enough that rounding a rate loses less than one in so many.
const RATE_PARTS: f64 = 100.0;

/// States the problem of a module in its own order. Linear in nodes and operands, but for chains of views.
pub(crate) fn state(module: &Module, options: &Options) -> Stated {
    Statement::new(module, options).finish()
}

struct Statement<'a> {
    module: &'a Module,
    options: &'a Options,
    groups: Vec<Buffer>,
    group_of: SecondaryMap<Value, Option<u32>>,
    is_view: SecondaryMap<Node, bool>,
    /// Owners whose bytes some node with a side effect may write.
    is_written: SecondaryMap<Value, bool>,
    is_captured: SecondaryMap<Value, bool>,
}

impl<'a> Statement<'a> {
    fn new(module: &'a Module, options: &'a Options) -> Self {
        let liveness = Liveness::of(module, module.main(), options.profile);
        let groups = buffers(module, &liveness, &classes(module), options.io);
        let mut group_of = SecondaryMap::default();
        for (index, group) in groups.iter().enumerate() {
            for member in &group.members {
                group_of.set(*member, Some(index as u32));
            }
        }
        let (mut is_written, mut is_captured) = (SecondaryMap::default(), SecondaryMap::default());
        for node in &module.graph(module.main()).nodes {
            if has_side_effect(module, *node) {
                for value in module.reads(*node) {
                    is_written.set(module.plan.owner(value).0, true);
                }
            }
            if module.node(*node).bodies().next().is_some() {
                for value in module.captures(*node) {
                    is_captured.set(value, true);
                    is_captured.set(module.plan.owner(value).0, true);
                }
            }
        }
        let mut statement = Self { module, options, groups, group_of, is_view: SecondaryMap::default(), is_written, is_captured };
        statement.find_views();
        statement
    }

    /// Marks the nodes that cost nothing and may stand wherever somebody reads them.
    fn find_views(&mut self) {
        let uses = memc_ir::uses(self.module);
        let outputs: BTreeSet<Value> = self.module.graph(self.module.main()).outputs.iter().copied().collect();
        let mut depth: SecondaryMap<Node, u32> = SecondaryMap::default();
        for node in &self.module.graph(self.module.main()).nodes {
            let Some(result) = self.plain_view(*node) else { continue };
            let is_fixed = outputs.contains(&result) || uses[result].is_empty() || self.is_captured[result];
            if is_fixed || self.is_written[self.module.plan.owner(result).0] {
                continue;
            }
            let below = self.module.node(*node).operands().filter_map(|value| self.module.producer(value));
            let height = below.filter(|below| self.is_view[*below]).map(|below| depth[below] + 1).max().unwrap_or(0);
            if height < MAX_DEPTH {
                depth.set(*node, height);
                self.is_view.set(*node, true);
            }
        }
    }

    /// The result of a node that does nothing but show an operand's bytes in another form.
    fn plain_view(&self, node: Node) -> Option<Value> {
        let data = self.module.node(node);
        let [Some(result)] = data.outputs.as_slice() else { return None };
        let alias = self.module.plan.alias[*result].filter(|alias| alias.kind == AliasKind::View)?;
        let may_repeat = memc_ops::repeatable(self.module, node) && data.bodies().next().is_none();
        (may_repeat && data.inputs.contains(&Some(alias.of))).then_some(*result)
    }

    fn finish(self) -> Stated {
        let main = self.module.graph(self.module.main());
        let before = predecessors(self.module, self.module.main());
        let mut run_of: SecondaryMap<Node, Option<u32>> = SecondaryMap::default();
        let mut nodes = Vec::new();
        let mut runs: Vec<budget::Run> = Vec::new();
        let mut values: Vec<budget::Value> = self.groups.iter().map(|group| self.value(group)).collect();
        self.keep(&mut values);
        // Runs, and what stands behind views, that must come before each position.
        let mut sources: Vec<Vec<u32>> = Vec::with_capacity(main.nodes.len());
        for (position, node) in main.nodes.iter().enumerate() {
            let mut earlier = BTreeSet::new();
            for other in &before[position] {
                match run_of[main.nodes[*other as usize]] {
                    Some(run) => earlier.extend([run]),
                    None => earlier.extend(sources[*other as usize].iter().copied()),
                }
            }
            if self.is_view[*node] {
                sources.push(earlier.into_iter().collect());
                continue;
            }
            sources.push(Vec::new());
            let index = runs.len() as u32;
            run_of.set(*node, Some(index));
            nodes.push(*node);
            let reads = self.reads(*node);
            for maker in reads.iter().filter_map(|value| run_of[self.module.producer(self.groups[*value as usize].owner)?]) {
                earlier.remove(&maker);
            }
            let writes = self.writes(*node);
            for value in &writes {
                values[*value as usize].takes_over = self.takes_over(*node, *value, &reads, &values);
            }
            runs.push(budget::Run {
                repeatable: self.is_repeatable(*node, &writes),
                reads,
                writes,
                predecessors: earlier.into_iter().collect(),
                cost: self.options.nanos(self.module, *node),
                scratch: 0,
            });
        }
        let padding = |bytes: Bytes| self.options.aligned(bytes).0.saturating_sub(bytes.0);
        let mut most_padding = self.groups.iter().map(|group| padding(group.bytes)).max().unwrap_or(0);
        for scratch in scratch(self.module, self.options) {
            most_padding = most_padding.max(padding(scratch.bytes));
            if let Some(run) = run_of[scratch.node] {
                let run = &mut runs[run as usize];
                run.scratch = run.scratch.saturating_add(self.options.aligned(scratch.bytes).0);
            }
        }
        let owners = self.groups.iter().map(|group| group.owner).collect();
        let mut problem = budget::Problem { runs, values, ..budget::Problem::default() };
        let (unit, far) = self.connect(&mut problem);
        Stated { problem, nodes, owners, is_view: self.is_view, far, unit, padding: most_padding }
    }

    /// Adds the spaces that the first one is linked with both ways, and says what may move there; gives the unit of time and their names.
    fn connect(&self, problem: &mut budget::Problem) -> (u64, Vec<String>) {
        let target = &self.options.cost.target;
        let ways = |far: usize| target.link(0, far).zip(target.link(far, 0));
        let linked: Vec<usize> = (1..target.spaces.len()).filter(|far| ways(*far).is_some()).collect();
        let rates =
            linked.iter().filter_map(|far| ways(*far)).flat_map(|(out, back)| [out.bytes_per_second, back.bytes_per_second]);
        let slowest = rates.fold(f64::INFINITY, f64::min) / 1e9;
        let mut unit = 1u64;
        while !linked.is_empty() && slowest * (unit as f64) < RATE_PARTS && unit < 1_000_000 {
            unit *= 10;
        }
        // Casts of floats saturate.
        let rate = |bytes_per_second: f64| ((bytes_per_second / 1e9 * unit as f64) as u64).max(1);
        let latency = |nanos: f64| (nanos / unit as f64).ceil() as u64;
        for far in &linked {
            let Some((out, back)) = ways(*far) else { continue };
            let space = problem.spaces.len() as u32;
            let name = &target.spaces[*far].name;
            let capacity = [target.spaces[*far].capacity, self.options.far_budgets.get(name).copied()];
            problem.spaces.push(budget::Space { capacity: capacity.into_iter().flatten().map(|bytes| bytes.0).min() });
            problem.links.push(budget::Link {
                space,
                store_rate: rate(out.bytes_per_second),
                load_rate: rate(back.bytes_per_second),
                store_latency: latency(out.latency.0),
                load_latency: latency(back.latency.0),
            });
        }
        for run in &mut problem.runs {
            run.cost = run.cost.div_ceil(unit);
        }
        for (value, group) in problem.values.iter_mut().zip(&self.groups) {
            let is_fixed = value.kept || self.is_captured[group.owner] || self.is_written[group.owner];
            value.movable = !linked.is_empty() && value.origin == budget::Origin::Made && !is_fixed;
        }
        (unit, linked.iter().map(|far| target.spaces[*far].name.clone()).collect())
    }

    /// A buffer as a value. Sizes are rounded up to the alignment, as the arena does it.
    fn value(&self, group: &Buffer) -> budget::Value {
        let origin = match self.module.producer(group.owner) {
            Some(_) => budget::Origin::Made,
            None => budget::Origin::Near,
        };
        budget::Value { size: self.options.aligned(group.bytes).0, origin, ..budget::Value::default() }
    }

    /// Marks what stays to the end: graph outputs, and what the runtime never gives back.
    fn keep(&self, values: &mut [budget::Value]) {
        for output in &self.module.graph(self.module.main()).outputs {
            if let Some(group) = self.group_of[*output] {
                values[group as usize].kept = true;
            }
        }
        if self.options.profile.holds_unread_results {
            let uses = memc_ir::uses(self.module);
            for (group, value) in self.groups.iter().zip(values) {
                let is_held = |member: &Value| self.module.producer(*member).is_some() && uses[*member].is_empty();
                value.kept |= group.members.iter().any(is_held);
            }
        }
    }

    /// Buffers that a node needs while it runs: those of its operands, and what the views among them are made from.
    fn reads(&self, node: Node) -> Vec<u32> {
        let mut found = BTreeSet::new();
        let mut open = self.module.reads(node);
        while let Some(value) = open.pop() {
            found.extend(self.group_of[value]);
            if let Some(view) = self.module.producer(value).filter(|node| self.is_view[*node]) {
                open.extend(self.module.node(view).operands());
            }
        }
        found.into_iter().collect()
    }

    /// Buffers that begin with a result of the node.
    fn writes(&self, node: Node) -> Vec<u32> {
        let owned = |result: Value| self.group_of[result].filter(|group| self.groups[*group as usize].owner == result);
        self.module.node(node).results().filter_map(owned).collect()
    }

    /// Buffers whose bytes the first result of a node may take over.
    fn takes_over(&self, node: Node, over: u32, reads: &[u32], values: &[budget::Value]) -> Vec<u32> {
        let data = self.module.node(node);
        if data.outputs.first().copied().flatten() != Some(self.groups[over as usize].owner) {
            return Vec::new();
        }
        let operands = self.options.profile.may_overwrite(&Typed { module: self.module, node });
        let under = operands.into_iter().filter_map(|position| self.group_of[data.inputs.get(position).copied().flatten()?]);
        let fits = |under: &u32| {
            let (below, above) = (&self.groups[*under as usize], &self.groups[over as usize]);
            *under != over && below.bytes == above.bytes && !values[*under as usize].kept && reads.contains(under)
        };
        let found: BTreeSet<u32> = under.filter(fits).collect();
        found.into_iter().collect()
    }

    /// Whether a node may run again where the plan likes: it gives the same, nobody has written what it reads, and no body knows its
    /// results by name. What reads nothing is the caller's constant, which is always there.
    fn is_repeatable(&self, node: Node, writes: &[u32]) -> bool {
        let data = self.module.node(node);
        let placed = data.results().all(|result| self.group_of[result].is_some());
        !writes.is_empty()
            && placed
            && data.bodies().next().is_none()
            && memc_ops::repeatable(self.module, node)
            && !data.operands().any(|operand| self.is_written[self.module.plan.owner(operand).0])
            && !data.results().any(|result| self.is_captured[result])
    }
}

/// Whether every alias is a view of an operand of its own node, which has no other result.
pub(crate) fn has_only_plain_views(module: &Module) -> bool {
    module.values().keys().all(|value| {
        module.plan.alias[value].is_none_or(|alias| {
            let node = module.producer(value).map(|node| module.node(node));
            let shows = node.is_some_and(|node| node.inputs.contains(&Some(alias.of)) && node.results().count() == 1);
            alias.kind == AliasKind::View && shows
        })
    })
}
