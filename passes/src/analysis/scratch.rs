//! Workspace of nodes: the needs of their kernels, and the arenas of their bodies.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use memc_ir::{Bytes, DimExpr, Envelope, GraphId, Module, Node, Polynomial, Ranges, Scratch, Step, Value};
use memc_ops::{Profile, Typed};
use memc_solve::place;

use crate::analysis::liveness::Liveness;
use crate::options::Options;

/// Returns the workspace of all nodes of the main graph, in order.
pub fn scratch(module: &Module, options: &Options) -> Vec<Scratch> {
    let mut all = Vec::new();
    for node in &module.graph(module.main()).nodes {
        // A measurement is taken on the caller's version of the runtime; the operator table is from
        // another version. So the measurement wins, and the user's statement over both.
        let measured =
            || options.cost.workspace(module, *node).and_then(|bytes| options.profile.buffer(bytes));
        let declared = options.cost.declared(module, *node).or_else(measured);
        let bytes = declared.or_else(|| kernel(module, *node, options.profile));
        if let Some(bytes) = bytes.filter(|bytes| bytes.0 > 0) {
            all.push(Scratch { node: *node, body: false, bytes, storage: None });
        }
        if module.node(*node).bodies().next().is_some() {
            let bytes =
                bodies(module, *node, options).into_iter().map(|(_, bytes)| bytes).max().unwrap_or_default();
            all.push(Scratch { node: *node, body: true, bytes, storage: None });
        }
    }
    all
}

/// Returns an upper bound of the workspace of a node's kernel over all extents; `None` if it is unknown.
///
/// Without an expression over symbols, it is that of the largest extents: these formulas grow with extents.
fn kernel(module: &Module, node: Node, profile: &Profile) -> Option<Bytes> {
    let known = || profile.workspace(&Typed::largest(module, node));
    if module.domain().is_empty() || profile.workspace(&Typed::of(module, node)).is_some() {
        return known();
    }
    let over = profile.workspace_over(&Typed::of(module, node)).and_then(|of| module.domain().most(&of));
    over.and_then(|most| u64::try_from(most.max(0)).ok()).map(Bytes).or_else(known)
}

/// Returns the bytes of a node's workspace over symbols; `None` if they do not depend on the extents, or only
/// their upper bound is known.
pub fn scratch_expr(module: &Module, scratch: &Scratch, options: &Options) -> Option<DimExpr> {
    let of = match scratch.body {
        true => bodies_expr(module, scratch, options),
        false if options.cost.workspace(module, scratch.node).is_some() => None,
        false => kernel_expr(module, scratch.node, options.profile),
    };
    of.filter(|of| of.as_constant().is_none())
}

/// Returns the bytes of a kernel's workspace over symbols.
fn kernel_expr(module: &Module, node: Node, profile: &Profile) -> Option<DimExpr> {
    let typed = Typed::of(module, node);
    if profile.workspace(&typed).is_some() { None } else { profile.workspace_over(&typed) }
}

/// Returns the bytes of the largest body of a node over symbols: an upper bound, and never above the bytes
/// at the largest extents.
fn bodies_expr(module: &Module, scratch: &Scratch, options: &Options) -> Option<DimExpr> {
    if module.domain().is_empty() {
        return None;
    }
    let ranges = &module.domain().ranges;
    let bodies = module.node(scratch.node).bodies();
    let all = bodies.map(|(_, body)| Rows::of(module, body, options).over(ranges));
    let of = all.reduce(|one, other| Some(one?.max(&other?, ranges))).flatten()?.expr()?;
    let is_below = module.domain().most(&of).is_some_and(|most| most <= i128::from(scratch.bytes.0));
    if is_below {
        return Some(of);
    }
    DimExpr::min_of(vec![of, DimExpr::constant(i64::try_from(scratch.bytes.0).ok()?)])
}

/// Returns the arena of each body of a node, by the name of its attribute.
pub fn bodies(module: &Module, node: Node, options: &Options) -> Vec<(String, Bytes)> {
    module
        .node(node)
        .bodies()
        .map(|(name, body)| (name.to_owned(), body_arena(module, body, options)))
        .collect()
}

/// Returns the arena of a body planned by itself.
fn body_arena(module: &Module, body: GraphId, options: &Options) -> Bytes {
    Rows::of(module, body, options).height()
}

/// Bytes that a body needs at some of its steps: a value, or the workspace of a node.
struct Row {
    start: Step,
    end: Step,
    bytes: Bytes,
    /// Upper bound over symbols; `None` if there is none.
    over: Option<Polynomial>,
}

/// All bytes of a body planned by itself, in its own order: of all values that it defines, and of nested
/// bodies.
///
/// Values of a body share bytes where the plan has aliases for them, which only bodies that memc wrote have.
/// Rows that a Scan reads along the first axis have bytes of its operand. Values of unknown size are left
/// out (the runtime allocates them).
struct Rows {
    all: Vec<Row>,
    alignment: u64,
}

impl Rows {
    fn of(module: &Module, body: GraphId, options: &Options) -> Self {
        let liveness = Liveness::of(module, body, options.profile);
        let data = module.graph(body);
        let rows: &[Value] = if reads_rows_in_place(module, body) { &data.inputs } else { &[] };
        let mut owners: BTreeMap<Value, Row> = BTreeMap::new();
        let results = data.nodes.iter().flat_map(|node| module.node(*node).results());
        for value in data.inputs.iter().copied().chain(results) {
            let owner = module.plan.owner(value).0;
            if let (Some(bytes), Some(range)) =
                (module.size(value), liveness.range(value).filter(|_| !rows.contains(&owner)))
            {
                let own = Row { start: range.start, end: range.end, bytes, over: over_value(module, value) };
                match owners.entry(owner) {
                    Entry::Vacant(entry) => drop(entry.insert(own)),
                    Entry::Occupied(mut entry) => entry.get_mut().join(own),
                }
            }
        }
        let mut all: Vec<Row> = owners.into_values().collect();
        for (index, node) in data.nodes.iter().enumerate() {
            let (start, end) = (Step(index as u32), Step(index as u32 + 1));
            let declared = options.cost.declared(module, *node);
            let over = if declared.is_some() { None } else { over_kernel(module, *node, options.profile) };
            let table = || kernel(module, *node, options.profile);
            let bytes = declared.or_else(table).unwrap_or_default();
            let inner = module.node(*node).bodies().map(|(_, inner)| Self::of(module, inner, options));
            let largest = inner.max_by_key(Self::height);
            let inner = largest.as_ref().map(Self::height).unwrap_or_default();
            let over = if inner.0 == 0 { over } else { None };
            all.push(Row { start, end, bytes: bytes.saturating_add(inner), over });
        }
        Self { all, alignment: options.space.alignment }
    }

    /// Places the rows by heuristics; `None` if they are too many.
    fn placed(&self) -> Option<place::Solution> {
        let buffer = |row: &Row| place::Buffer {
            alignment: self.alignment,
            ..place::Buffer::new(row.start.0, row.end.0, row.bytes.0)
        };
        let problem = place::Problem { buffers: self.all.iter().map(buffer).collect(), ..Default::default() };
        place::solve(&problem, &memc_solve::Limit::nodes(0)).ok().and_then(|outcome| outcome.solution)
    }

    /// Returns the bytes of the arena. A body that is too large to be placed counts as the sum of its rows,
    /// an upper bound.
    fn height(&self) -> Bytes {
        let sum = || self.all.iter().fold(Bytes(0), |sum, row| sum.saturating_add(row.bytes));
        self.placed().map_or_else(sum, |solution| Bytes(solution.height))
    }

    /// Returns the bytes of the arena over symbols: an upper bound, since each row may begin above the rows
    /// that it lies on at the largest extents. Quadratic in the number of rows.
    fn over(&self, ranges: &Ranges) -> Option<Envelope> {
        let offsets = self.placed()?.offsets;
        let mut order: Vec<usize> = (0..self.all.len()).filter(|at| self.all[*at].bytes.0 > 0).collect();
        order.sort_by_key(|at| (offsets[*at], *at));
        let ground = Envelope::of(Polynomial::constant(0));
        let mut ends: Vec<(&Row, Envelope)> = Vec::with_capacity(order.len());
        for at in order {
            let row = &self.all[at];
            let under = ends.iter().filter(|(other, _)| other.start < row.end && row.start < other.end);
            let base = under.fold(ground.clone(), |base, (_, end)| base.max(end, ranges));
            ends.push((row, base.add(&row.padded(self.alignment)?)?));
        }
        Some(ends.iter().fold(ground, |top, (_, end)| top.max(end, ranges)))
    }
}

impl Row {
    /// Adds a value in the same bytes.
    fn join(&mut self, other: Self) {
        (self.start, self.end) = (self.start.min(other.start), self.end.max(other.end));
        self.bytes = self.bytes.max(other.bytes);
        self.over = self.over.take().zip(other.over).map(|(own, other)| own.max(&other));
    }

    /// Returns the bytes over symbols, rounded up to an alignment.
    fn padded(&self, alignment: u64) -> Option<Polynomial> {
        match &self.over {
            Some(over) => over.add(&Polynomial::constant(alignment.saturating_sub(1))),
            None => self.bytes.0.checked_next_multiple_of(alignment.max(1)).map(Polynomial::constant),
        }
    }
}

/// Returns an upper bound of a kernel's workspace over symbols; `None` if it does not depend on the extents.
fn over_kernel(module: &Module, node: Node, profile: &Profile) -> Option<Polynomial> {
    let of = if module.domain().is_empty() { None } else { kernel_expr(module, node, profile) };
    of.and_then(|of| above(module, &of))
}

/// Returns an upper bound of the bytes of a value over symbols; `None` if they do not depend on the extents.
fn over_value(module: &Module, value: Value) -> Option<Polynomial> {
    if module.domain().is_empty() {
        return None;
    }
    let ty = module.ty(value).tensor().filter(|_| !module.assumed.contains_key(&value))?;
    above(module, &ty.size_expr()?)
}

/// Returns a polynomial above an expression over the free dimensions of the model; `None` for a constant.
fn above(module: &Module, of: &DimExpr) -> Option<Polynomial> {
    let ranges = &module.domain().ranges;
    let symbols = of.symbols();
    let is_free = !symbols.is_empty() && symbols.iter().all(|symbol| ranges.contains_key(symbol.as_ref()));
    if is_free { Polynomial::above(of, ranges) } else { None }
}

/// Returns whether a body is that of a Scan without state which reads all operands along their first axis.
fn reads_rows_in_place(module: &Module, body: GraphId) -> bool {
    let Some(node) = module.graph(body).parent.map(|node| module.node(node)) else { return false };
    let is_scan = *node.operator.name == *"Scan" && node.operator.domain.is_empty();
    is_scan
        && node.attribute("scan_input_axes").is_none()
        && usize::try_from(node.int("num_scan_inputs", 0)) == Ok(node.inputs.len())
}
