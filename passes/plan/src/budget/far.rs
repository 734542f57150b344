//! How nodes read constants of a farther space: whole, at positions that are known before the run, or by
//! rows that a run computes.

use std::collections::BTreeSet;

use memc_ir::{Module, Node, NodeData, SecondaryMap, Use, Value, uses};
use memc_ops::families::memory::part_of_constant;
use memc_passes::Options;

/// What a node reads of a constant in a farther space, if not the whole constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    /// Positions along one axis, known before the run: they are copied aside, like a constant of their own.
    Part,
    /// Rows, which the node names by indices: it waits for them.
    Rows,
}

/// How nodes read the constants of a farther space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Far {
    /// By node: what it reads of its operand 0.
    pub(crate) reads: SecondaryMap<Node, Option<Read>>,
    /// Constants that some node reads whole.
    pub(crate) whole: BTreeSet<Value>,
}

impl Far {
    /// Decides how each node reads the constants in `fetched`. Linear in nodes and operands.
    pub(crate) fn of(module: &Module, options: &Options, fetched: &BTreeSet<Value>) -> Self {
        let mut far = Self::default();
        if fetched.is_empty() {
            return far;
        }
        let all_uses = uses(module);
        for constant in fetched {
            for site in &all_uses[*constant] {
                let read = match site {
                    Use::Operand(node, 0) => read(module, options, *node, &all_uses),
                    _ => None,
                };
                match (site, read) {
                    (Use::Operand(node, _), Some(read)) => far.reads.set(*node, Some(read)),
                    _ => _ = far.whole.insert(*constant),
                }
            }
        }
        far
    }
}

/// Returns what a node reads of the constant that is its operand 0; `None` for the whole constant.
fn read(
    module: &Module,
    options: &Options,
    node: Node,
    uses: &SecondaryMap<Value, Vec<Use>>,
) -> Option<Read> {
    let data = module.node(node);
    let table = data.inputs.first().copied().flatten()?;
    let is_main = data.graph == module.main();
    let is_only = data.inputs.iter().filter(|operand| **operand == Some(table)).count() == 1;
    if !is_main || !is_only {
        return None;
    }
    if is_part(module, node, uses) {
        return Some(Read::Part);
    }
    saves_rows(module, options, node, data).then_some(Read::Rows)
}

/// Returns whether a node copies known positions of a constant to a value of its own, which nodes of the main
/// graph read.
fn is_part(module: &Module, node: Node, uses: &SecondaryMap<Value, Vec<Use>>) -> bool {
    let is_read =
        |site: &Use| matches!(site, Use::Operand(reader, _) if module.node(*reader).graph == module.main());
    let is_own = |value: Value| {
        module.plan.alias[value].is_none() && !uses[value].is_empty() && uses[value].iter().all(is_read)
    };
    part_of_constant(module, node).is_some() && module.node(node).results().next().is_some_and(is_own)
}

/// Returns whether a lookup of rows takes less time than a copy of the table, or far fewer bytes.
fn saves_rows(module: &Module, options: &Options, node: Node, data: &NodeData) -> bool {
    let is_lookup =
        data.operator.domain.is_empty() && &*data.operator.name == "Gather" && data.int("axis", 0) == 0;
    let target = &options.cost.target;
    let far = options.weights.as_ref().and_then(|space| target.space(space));
    let sizes = || {
        let table = module.size(data.inputs.first().copied().flatten()?)?;
        let found = module.size(data.results().next()?)?;
        Some((table, found)).filter(|(table, found)| found < table)
    };
    let (Some(far), Some((table, found)), true) = (far, sizes(), is_lookup) else { return false };
    let times = options.cost.rows_nanos(module, node, far).zip(target.link(far, 0));
    times.is_some_and(|(rows, link)| {
        let least = options.tuning.weights.rows.saturating_mul(found.0);
        rows.0 <= link.time(table).0 || table.0 >= least
    })
}
