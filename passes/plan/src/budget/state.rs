//! States the main graph as a budget problem: a run for each node except views, and a value for each
//! buffer.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{AliasKind, Bytes, LiveRange, Module, Node, SecondaryMap, Step, Value};
use memc_ops::Typed;
use memc_solve::budget;

use memc_passes::Options;
use memc_passes::analysis::class::{StorageClass, classes};
use memc_passes::analysis::dependence::{predecessors, written};
use memc_passes::analysis::forward;
use memc_passes::analysis::scratch::scratch;
use memc_passes::analysis::state::{pairs, wait_for_readers};
use memc_passes::analysis::{Buffer, Memory};
use memc_passes::encode::{Recipe, Way, recipes};

use super::far::{Far, Read};

/// Maximum depth of views of views without a run of their own; a deeper view is a run.
const MAX_DEPTH: u32 = 64;

/// Sub-views, as pairs of node and part.
pub(crate) type SubViews = BTreeSet<(Node, Value)>;

/// A budget problem, with the meaning of its indices.
#[derive(Debug)]
pub(crate) struct Stated {
    /// The problem; its given order is the order of the module.
    pub(crate) problem: budget::Problem,
    /// Node and part of the module's original sub-views: copies of a plan take these sub-views again if
    /// they are legal.
    pub(crate) sub_views: SubViews,
    /// By run: its node.
    pub(crate) nodes: Vec<Node>,
    /// By value: the owner of its bytes. Codes, which come last, have none.
    pub(crate) owners: Vec<Value>,
    /// Values that may lie as codes, or that other values give back.
    pub(crate) coded: Vec<Coded>,
    /// By optional run of the problem: its entry of `coded`, and what it does.
    pub(crate) optional: Vec<(usize, Task)>,
    /// Whether a node is a view that is recomputed for each copy of its owner, and hence no run.
    pub(crate) is_view: SecondaryMap<Node, bool>,
    /// What nodes read of constants in the space `weights`.
    pub(crate) far_reads: SecondaryMap<Node, Option<Read>>,
    /// By link: name of the farther space at its end.
    pub(crate) far: Vec<String>,
    /// Name of the space that holds fetched constants.
    pub(crate) weights: Option<String>,
    /// Nanoseconds per time unit of the problem.
    pub(crate) unit: u64,
    /// Largest padding of one size, in bytes: the topmost buffer of an arena need not fill its padding.
    pub(crate) padding: u64,
}

impl Stated {
    /// Forbids recomputation and transfers.
    pub(crate) fn allow_only_codes(&mut self) {
        self.problem.runs.iter_mut().for_each(|run| run.repeatable = false);
        self.problem.values.iter_mut().for_each(|value| value.movable = false);
    }
}

/// What an optional run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Makes the codes of a value.
    Encodes,
    /// Makes a value from its codes, or from other values.
    Decodes,
}

/// A value that may lie as codes, or that other values give back.
#[derive(Debug)]
pub(crate) struct Coded {
    /// The value, owner of its bytes.
    pub(crate) value: Value,
    pub(crate) recipe: Recipe,
    /// Indices of the codes among the values of the problem.
    pub(crate) codes: Vec<u32>,
}

/// Rates are whole bytes per time unit: the unit is chosen long enough that rounding a rate loses less
/// than 1 in `RATE_PARTS`.
const RATE_PARTS: f64 = 100.0;

/// States the problem of a module in its own order. The constants in `fetched` are in the space that the
/// options name; all other constants are always near. Linear in nodes and operands, except for chains of
/// views.
pub(crate) fn state(module: &Module, options: &Options, fetched: &[Value]) -> Stated {
    let mut statement = Statement::new(module, options);
    statement.add_constants(fetched);
    statement.finish()
}

/// Returns the constants that may be kept in a farther space, smallest first: initializers that, with
/// all their views, only nodes of the main graph read, and that no update overwrites.
pub(crate) fn fetchable(module: &Module, options: &Options) -> Vec<Value> {
    let statement = Statement::new(module, options);
    let classes = classes(module);
    let outputs = &module.graph(module.main()).outputs;
    let mut is_fixed: SecondaryMap<Value, bool> = SecondaryMap::default();
    let mut is_read: SecondaryMap<Value, bool> = SecondaryMap::default();
    for value in module.values().keys() {
        let (owner, _) = module.plan.owner(value);
        let is_view = module.producer(value).is_none_or(|node| statement.is_view[node]);
        if !is_view || statement.is_captured[value] || statement.is_written[owner] || outputs.contains(&value)
        {
            is_fixed.set(owner, true);
        }
    }
    if options.shares_state() {
        // The state that an update overwrites must stay in its own storage.
        pairs(module, options).iter().for_each(|pair| is_fixed.set(pair.old, true));
    }
    for value in module.graph(module.main()).nodes.iter().flat_map(|node| module.node(*node).operands()) {
        is_read.set(module.plan.owner(value).0, true);
    }
    let is_fetchable = |value: &Value| {
        let is_initializer =
            classes[*value] == Some(StorageClass::Constant) && module.producer(*value).is_none();
        let is_owner =
            module.plan.alias[*value].is_none() && module.size(*value).is_some_and(|size| size > Bytes(0));
        is_initializer && is_owner && is_read[*value] && !is_fixed[*value]
    };
    let mut found: Vec<Value> = module.values().keys().filter(is_fetchable).collect();
    found.sort_by_key(|value| (module.size(*value), *value));
    found
}

struct Statement<'a> {
    module: &'a Module,
    options: &'a Options,
    groups: Vec<Buffer>,
    group_of: SecondaryMap<Value, Option<u32>>,
    is_view: SecondaryMap<Node, bool>,
    /// Owners whose bytes a node with a side effect may write.
    is_written: SecondaryMap<Value, bool>,
    is_captured: SecondaryMap<Value, bool>,
    /// Constants in a farther space.
    fetched: BTreeSet<Value>,
    /// How nodes read them.
    far: Far,
}

impl<'a> Statement<'a> {
    fn new(module: &'a Module, options: &'a Options) -> Self {
        let groups = Memory::of(module, options).buffers;
        let mut group_of = SecondaryMap::default();
        for (index, group) in groups.iter().enumerate() {
            for member in &group.members {
                group_of.set(*member, Some(index as u32));
            }
        }
        let (mut is_written, mut is_captured) = (SecondaryMap::default(), SecondaryMap::default());
        for node in &module.graph(module.main()).nodes {
            for value in written(module, *node) {
                is_written.set(module.plan.owner(value).0, true);
            }
            if module.node(*node).bodies().next().is_some() {
                for value in module.captures(*node) {
                    is_captured.set(value, true);
                    is_captured.set(module.plan.owner(value).0, true);
                }
            }
        }
        let (is_view, fetched, far) = (SecondaryMap::default(), BTreeSet::new(), Far::default());
        let mut statement =
            Self { module, options, groups, group_of, is_view, is_written, is_captured, fetched, far };
        statement.find_views();
        statement
    }

    /// Adds buffers for the fetched constants that some node reads whole, together with their views.
    fn add_constants(&mut self, fetched: &[Value]) {
        self.fetched = fetched.iter().copied().collect();
        self.far = Far::of(self.module, self.options, &self.fetched);
        let mut members: BTreeMap<Value, Vec<Value>> =
            self.far.whole.iter().map(|value| (*value, Vec::new())).collect();
        for value in self.module.values().keys() {
            if let Some(list) = members.get_mut(&self.module.plan.owner(value).0) {
                list.push(value);
            }
        }
        let steps = self.module.graph(self.module.main()).nodes.len() as u32;
        for (owner, members) in members {
            let index = self.groups.len() as u32;
            members.iter().for_each(|member| self.group_of.set(*member, Some(index)));
            let bytes = self.module.size(owner).unwrap_or_default();
            self.groups.push(Buffer {
                owner,
                bytes,
                range: LiveRange { start: Step(0), end: Step(steps) },
                members,
            });
        }
    }

    /// Returns whether the bytes of a buffer are copied from a constant in a farther space, as a whole or in
    /// part.
    fn is_far(&self, owner: Value) -> bool {
        let is_part = |node| self.far.reads[node] == Some(Read::Part);
        self.fetched.contains(&owner) || self.module.producer(owner).is_some_and(is_part)
    }

    /// Returns the time of a run, in nanoseconds. A lookup of rows of a farther constant waits for them.
    fn nanos(&self, node: Node) -> u64 {
        let own = self.options.nanos(self.module, node);
        let cost = &self.options.cost;
        let far = || cost.rows_nanos(self.module, node, cost.target.space(self.options.weights.as_ref()?)?);
        let waits = if self.far.reads[node] == Some(Read::Rows) { far() } else { None };
        // The cast saturates.
        own.saturating_add(waits.map_or(0, |nanos| nanos.0.round() as u64))
    }

    /// Marks the nodes that cost nothing and may be recomputed at each reader.
    fn find_views(&mut self) {
        let uses = memc_ir::uses(self.module);
        let outputs: BTreeSet<Value> =
            self.module.graph(self.module.main()).outputs.iter().copied().collect();
        let mut depth: SecondaryMap<Node, u32> = SecondaryMap::default();
        for node in &self.module.graph(self.module.main()).nodes {
            let Some(result) = self.plain_view(*node) else { continue };
            let is_fixed = outputs.contains(&result) || uses[result].is_empty() || self.is_captured[result];
            if is_fixed || self.is_written[self.module.plan.owner(result).0] {
                continue;
            }
            let below = self.module.node(*node).operands().filter_map(|value| self.module.producer(value));
            let height =
                below.filter(|below| self.is_view[*below]).map(|below| depth[below] + 1).max().unwrap_or(0);
            if height < MAX_DEPTH {
                depth.set(*node, height);
                self.is_view.set(*node, true);
            }
        }
    }

    /// Returns the result of a node that only shows an operand's bytes in another form, or `None` for
    /// other nodes.
    fn plain_view(&self, node: Node) -> Option<Value> {
        let data = self.module.node(node);
        let [Some(result)] = data.outputs.as_slice() else { return None };
        let alias = self.module.plan.alias[*result].filter(|alias| alias.kind == AliasKind::View)?;
        let may_repeat = memc_ops::repeatable(self.module, node) && data.bodies().next().is_none();
        (may_repeat && data.inputs.contains(&Some(alias.of))).then_some(*result)
    }

    fn finish(self) -> Stated {
        let main = self.module.graph(self.module.main());
        let mut before = predecessors(self.module, self.module.main());
        if self.options.shares_state() {
            wait_for_readers(self.module, self.options, &mut before);
        }
        // Make runs, and find the earlier runs that each run must wait for.
        let mut run_of: SecondaryMap<Node, Option<u32>> = SecondaryMap::default();
        let mut nodes = Vec::new();
        let mut runs: Vec<budget::Run> = Vec::new();
        let mut values: Vec<budget::Value> = self.groups.iter().map(|group| self.value(group)).collect();
        self.keep(&mut values);
        // By position: the runs that must come before a view there.
        let mut sources: Vec<Vec<u32>> = Vec::with_capacity(main.nodes.len());
        for (position, node) in main.nodes.iter().enumerate() {
            let mut earlier = BTreeSet::new();
            for other in &before[position] {
                match run_of[main.nodes[*other as usize]] {
                    Some(run) => earlier.extend([run]),
                    None => earlier.extend(sources[*other as usize].iter().copied()),
                }
            }
            if self.is_view[*node] || self.far.reads[*node] == Some(Read::Part) {
                sources.push(earlier.into_iter().collect());
                continue;
            }
            sources.push(Vec::new());
            let index = runs.len() as u32;
            run_of.set(*node, Some(index));
            nodes.push(*node);
            let reads = self.reads(*node);
            for maker in reads
                .iter()
                .filter_map(|value| run_of[self.module.producer(self.groups[*value as usize].owner)?])
            {
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
                cost: self.nanos(*node),
                scratch: 0,
            });
        }
        // Add workspace to the runs, and find the largest padding.
        let padding = |bytes: Bytes| self.options.aligned(bytes).0.saturating_sub(bytes.0);
        let mut most_padding = self.groups.iter().map(|group| padding(group.bytes)).max().unwrap_or(0);
        for scratch in scratch(self.module, self.options) {
            most_padding = most_padding.max(padding(scratch.bytes));
            if let Some(run) = run_of[scratch.node] {
                let run = &mut runs[run as usize];
                run.scratch = run.scratch.saturating_add(self.options.aligned(scratch.bytes).0);
            }
        }
        // Assemble the problem and connect the spaces.
        let owners = self.groups.iter().map(|group| group.owner).collect();
        let mut problem = budget::Problem { runs, values, ..budget::Problem::default() };
        let (unit, far) = self.connect(&mut problem);
        let weights = self.options.weights.clone();
        let sub_views = BTreeSet::new();
        let (coded, optional) = self.add_codes(&mut problem, &run_of, unit);
        let (is_view, far_reads) = (self.is_view, self.far.reads);
        Stated {
            problem,
            sub_views,
            nodes,
            owners,
            coded,
            optional,
            is_view,
            far_reads,
            far,
            weights,
            unit,
            padding: most_padding,
        }
    }

    /// Adds the spaces that have links both ways with the first space, or that hold fetched constants;
    /// marks the values that may move there. Returns the time unit in nanoseconds and the names of the
    /// spaces.
    fn connect(&self, problem: &mut budget::Problem) -> (u64, Vec<String>) {
        let target = &self.options.cost.target;
        let is_source = |far: usize| {
            !self.fetched.is_empty() && self.options.weights.as_ref() == Some(&target.spaces[far].name)
        };
        let ways = |far: usize| {
            let back = target.link(far, 0)?;
            let out = target.link(0, far);
            (out.is_some() || is_source(far)).then_some((far, out, back))
        };
        let linked: Vec<_> = (1..target.spaces.len()).filter_map(ways).collect();
        // Choose a time unit that keeps rates precise.
        let rates = linked
            .iter()
            .flat_map(|(_, out, back)| out.iter().chain([back]).map(|link| link.bytes_per_second));
        let slowest = rates.fold(f64::INFINITY, f64::min) / 1e9;
        let mut unit = 1u64;
        while !linked.is_empty() && slowest * (unit as f64) < RATE_PARTS && unit < 1_000_000 {
            unit *= 10;
        }
        // Casts of floats saturate.
        let rate = |bytes_per_second: f64| ((bytes_per_second / 1e9 * unit as f64) as u64).max(1);
        let latency = |nanos: f64| (nanos / unit as f64).ceil() as u64;
        // Add a space and a link each.
        for (far, out, back) in &linked {
            let space = problem.spaces.len() as u32;
            let name = &target.spaces[*far].name;
            let constants = if is_source(*far) { self.fetch_from(problem, space) } else { 0 };
            let capacity = [target.spaces[*far].capacity, self.options.far_budgets.get(name).copied()];
            let room = capacity.into_iter().flatten().map(|bytes| bytes.0).min();
            // The constants there do not count against stored values; without a way to store, the space
            // only has room for the constants.
            let room =
                if out.is_some() { room.map(|room| room.saturating_add(constants)) } else { Some(constants) };
            problem.spaces.push(budget::Space { capacity: room });
            problem.links.push(budget::Link {
                space,
                store_rate: out.map_or(1, |out| rate(out.bytes_per_second)),
                load_rate: rate(back.bytes_per_second),
                store_latency: out.map_or(0, |out| latency(out.latency.0)),
                load_latency: latency(back.latency.0),
            });
        }
        for run in &mut problem.runs {
            run.cost = run.cost.div_ceil(unit);
        }
        let stores = linked.iter().any(|(_, out, _)| out.is_some());
        for (value, group) in problem.values.iter_mut().zip(&self.groups) {
            let is_fixed = value.kept || self.is_captured[group.owner] || self.is_written[group.owner];
            value.movable = stores && value.origin == budget::Origin::Made && !is_fixed;
        }
        (unit, linked.iter().map(|(far, ..)| target.spaces[*far].name.clone()).collect())
    }

    /// Adds the codes of values, with the optional runs that make them and make the values again, and
    /// those that make values from others. Returns the values, and the meaning of the optional runs.
    fn add_codes(
        &self,
        problem: &mut budget::Problem,
        run_of: &SecondaryMap<Node, Option<u32>>,
        unit: u64,
    ) -> (Vec<Coded>, Vec<(usize, Task)>) {
        let encode = &self.options.encode;
        if !encode.exact && encode.lossy.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let uses = memc_ir::uses(self.module);
        let border = if encode.lossy.is_empty() { None } else { forward(self.module) };
        let last: Vec<u32> =
            border.iter().flat_map(|border| &border.last).filter_map(|node| run_of[*node]).collect();
        let stores = problem.values.iter().any(|value| value.movable);
        let mut scratch = None;
        let (mut coded, mut optional) = (Vec::new(), Vec::new());
        for (index, group) in (0u32..).zip(&self.groups) {
            let (value, owner) = (problem.values[index as usize].clone(), group.owner);
            let is_fixed = value.kept || self.is_captured[owner] || self.is_written[owner];
            if is_fixed || value.origin != budget::Origin::Made {
                continue;
            }
            let is_early = border.as_ref().is_some_and(|border| border.has(self.module, owner));
            let is_late = is_early && !encode.keeps_wide(&self.module.value(owner).name);
            for recipe in recipes(self.module, self.options, &uses, owner, is_late) {
                let is_written = |other: &Value| self.is_written[self.module.plan.owner(*other).0];
                if recipe.bytes(self.options).0 >= value.size || recipe.others().iter().any(is_written) {
                    continue;
                }
                // A value that shares the bytes of one it is made from is no copy of its own.
                let others = self.near(recipe.others().to_vec());
                if others.contains(&index) {
                    continue;
                }
                let [encoding, decoding] =
                    recipe.costs(scratch.get_or_insert_with(|| self.module.clone()), self.options, owner);
                let codes: Vec<u32> = (problem.values.len() as u32..).take(recipe.codes().count()).collect();
                let sizes = recipe.codes().map(|ty| self.options.aligned(ty.size().unwrap_or_default()).0);
                problem.values.extend(sizes.map(|size| budget::Value {
                    size,
                    movable: stores,
                    ..budget::Value::default()
                }));
                let run = |reads: &[u32], writes: &[u32], way: Way| budget::Run {
                    reads: reads.to_vec(),
                    writes: writes.to_vec(),
                    cost: way.nanos.div_ceil(unit),
                    scratch: way.scratch.0,
                    repeatable: true,
                    ..budget::Run::default()
                };
                let after = if recipe.form.is_exact() { Vec::new() } else { last.clone() };
                if !codes.is_empty() {
                    problem.optional.push(run(&[index], &codes, encoding));
                    optional.push((coded.len(), Task::Encodes));
                }
                let reads = [&*codes, &*others].concat();
                problem.optional.push(budget::Run { predecessors: after, ..run(&reads, &[index], decoding) });
                optional.push((coded.len(), Task::Decodes));
                coded.push(Coded { value: owner, recipe, codes });
            }
        }
        (coded, optional)
    }

    /// Moves the fetched constants to a farther space; returns their total in bytes.
    fn fetch_from(&self, problem: &mut budget::Problem, space: u32) -> u64 {
        let mut bytes = 0u64;
        for (value, group) in problem.values.iter_mut().zip(&self.groups) {
            if self.is_far(group.owner) {
                value.origin = budget::Origin::Far(space);
                bytes = bytes.saturating_add(value.size);
            }
        }
        bytes
    }

    /// Converts a buffer to a value; sizes are rounded up to the alignment, as in the arena.
    fn value(&self, group: &Buffer) -> budget::Value {
        let origin = match self.module.producer(group.owner) {
            Some(_) => budget::Origin::Made,
            None => budget::Origin::Near,
        };
        budget::Value { size: self.options.aligned(group.bytes).0, origin, ..budget::Value::default() }
    }

    /// Marks values that stay to the end: graph outputs, and unread results if the runtime never frees
    /// these.
    fn keep(&self, values: &mut [budget::Value]) {
        for output in &self.module.graph(self.module.main()).outputs {
            if let Some(group) = self.group_of[*output] {
                values[group as usize].kept = true;
            }
        }
        if self.options.profile.holds_unread_results {
            let uses = memc_ir::uses(self.module);
            for (group, value) in self.groups.iter().zip(values) {
                let is_held =
                    |member: &Value| self.module.producer(*member).is_some() && uses[*member].is_empty();
                value.kept |= group.members.iter().any(is_held);
            }
        }
    }

    /// Returns the buffers that a node reads: buffers of its operands, and of the operands of views
    /// among them.
    fn reads(&self, node: Node) -> Vec<u32> {
        let mut open = self.module.reads(node);
        if self.far.reads[node] == Some(Read::Rows) {
            // The table is not near.
            let table = self.module.node(node).inputs.first().copied().flatten();
            open.retain(|value| Some(*value) != table);
        }
        self.near(open)
    }

    /// Returns the buffers of values, and of the operands of views among them.
    fn near(&self, mut open: Vec<Value>) -> Vec<u32> {
        let mut found = BTreeSet::new();
        while let Some(value) = open.pop() {
            found.extend(self.group_of[value]);
            if let Some(view) = self.module.producer(value).filter(|node| self.is_view[*node]) {
                open.extend(self.module.node(view).operands());
            }
        }
        found.into_iter().collect()
    }

    /// Returns the buffers whose owner is a result of the node.
    fn writes(&self, node: Node) -> Vec<u32> {
        let owned = |result: Value| {
            self.group_of[result].filter(|group| self.groups[*group as usize].owner == result)
        };
        self.module.node(node).results().filter_map(owned).collect()
    }

    /// Returns the buffers whose bytes the first result of a node may take over.
    fn takes_over(&self, node: Node, over: u32, reads: &[u32], values: &[budget::Value]) -> Vec<u32> {
        let data = self.module.node(node);
        if data.outputs.first().copied().flatten() != Some(self.groups[over as usize].owner) {
            return Vec::new();
        }
        let operands = self.options.profile.may_overwrite(&Typed::of(self.module, node));
        let under = operands
            .into_iter()
            .filter_map(|position| self.group_of[data.inputs.get(position).copied().flatten()?]);
        let fits = |under: &u32| {
            let (below, above) = (&self.groups[*under as usize], &self.groups[over as usize]);
            *under != over
                && below.bytes == above.bytes
                && !values[*under as usize].kept
                && reads.contains(under)
        };
        let found: BTreeSet<u32> = under.filter(fits).collect();
        found.into_iter().collect()
    }

    /// Returns whether a node may run again anywhere: its results are always equal, no node writes its
    /// operands, and no body refers to its results by name.
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

/// Returns whether every alias is a view of an operand of its own node, and that node has no other
/// result.
pub(crate) fn has_only_plain_views(module: &Module) -> bool {
    module.values().keys().all(|value| {
        module.plan.alias[value].is_none_or(|alias| {
            let node = module.producer(value).map(|node| module.node(node));
            let shows =
                node.is_some_and(|node| node.inputs.contains(&Some(alias.of)) && node.results().count() == 1);
            alias.kind == AliasKind::View && shows
        })
    })
}
