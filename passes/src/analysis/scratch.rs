//! Workspace of nodes: the needs of their kernels, and the arenas of their bodies.

use std::collections::BTreeMap;

use memc_ir::{Bytes, DimExpr, GraphId, Module, Node, Scratch, Step, Value};
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
pub fn kernel_expr(module: &Module, scratch: &Scratch, options: &Options) -> Option<DimExpr> {
    let is_fixed = scratch.body || options.cost.workspace(module, scratch.node).is_some();
    let typed = Typed::of(module, scratch.node);
    if is_fixed || options.profile.workspace(&typed).is_some() {
        return None;
    }
    options.profile.workspace_over(&typed).filter(|of| of.as_constant().is_none())
}

/// Returns the arena of each body of a node, by the name of its attribute.
pub fn bodies(module: &Module, node: Node, options: &Options) -> Vec<(String, Bytes)> {
    module
        .node(node)
        .bodies()
        .map(|(name, body)| (name.to_owned(), body_arena(module, body, options)))
        .collect()
}

/// Returns the arena of a body planned by itself, in its own order: all values that it defines, and the
/// arenas of nested bodies.
///
/// Values of a body share bytes where the plan has aliases for them, which only bodies that memc wrote have.
/// Rows that a Scan reads along the first axis have bytes of its operand. Values of unknown size are left
/// out (the runtime allocates them).
fn body_arena(module: &Module, body: GraphId, options: &Options) -> Bytes {
    let liveness = Liveness::of(module, body, options.profile);
    let data = module.graph(body);
    let rows: &[Value] = if reads_rows_in_place(module, body) { &data.inputs } else { &[] };
    let mut owners: BTreeMap<Value, (Step, Step, Bytes)> = BTreeMap::new();
    let results = data.nodes.iter().flat_map(|node| module.node(*node).results());
    for value in data.inputs.iter().copied().chain(results) {
        let owner = module.plan.owner(value).0;
        if let (Some(size), Some(range)) =
            (module.size(value), liveness.range(value).filter(|_| !rows.contains(&owner)))
        {
            let (start, end, most) = owners.entry(owner).or_insert((range.start, range.end, size));
            (*start, *end, *most) = ((*start).min(range.start), (*end).max(range.end), (*most).max(size));
        }
    }
    let mut problem = place::Problem::default();
    problem.buffers.extend(owners.into_values().map(|(start, end, size)| buffer(start, end, size, options)));
    for (index, node) in data.nodes.iter().enumerate() {
        let table = || kernel(module, *node, options.profile);
        let own = options.cost.declared(module, *node).or_else(table).unwrap_or_default();
        let inner = module
            .node(*node)
            .bodies()
            .map(|(_, body)| body_arena(module, body, options))
            .max()
            .unwrap_or_default();
        let step = Step(index as u32);
        problem.buffers.push(buffer(step, Step(step.0 + 1), own.saturating_add(inner), options));
    }
    let outcome = place::solve(&problem, &memc_solve::Limit::nodes(0));
    // A body that is too large to be placed counts as the sum of its buffers, an upper bound.
    let sum = problem.buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.size));
    Bytes(outcome.ok().and_then(|outcome| outcome.value).unwrap_or(sum))
}

/// Returns whether a body is that of a Scan without state which reads all operands along their first axis.
fn reads_rows_in_place(module: &Module, body: GraphId) -> bool {
    let Some(node) = module.graph(body).parent.map(|node| module.node(node)) else { return false };
    let is_scan = *node.operator.name == *"Scan" && node.operator.domain.is_empty();
    is_scan
        && node.attribute("scan_input_axes").is_none()
        && usize::try_from(node.int("num_scan_inputs", 0)) == Ok(node.inputs.len())
}

fn buffer(start: Step, end: Step, size: Bytes, options: &Options) -> place::Buffer {
    place::Buffer { alignment: options.space.alignment, ..place::Buffer::new(start.0, end.0, size.0) }
}
