//! Checks of in-place results: no later step may need the overwritten bytes.

use super::Report;
use super::alias::Owners;
use super::live::Ranges;
use super::structure::Tree;
use crate::entity::{Node, SecondaryMap, Value};
use crate::module::Definition;
use crate::plan::{Alias, AliasKind};
use crate::units::Bytes;

/// An owner with all its aliases, in preorder: the aliases of a value follow it.
struct Family {
    members: Vec<Value>,
    /// For each member, the range `[first, last)` in `members` of the member and its direct and
    /// indirect aliases.
    span: Vec<(usize, usize)>,
    /// At index `i`: latest end and latest start of the live ranges of `members[..i]`.
    before: Vec<(u32, u32)>,
    /// At index `i`: latest end and latest start of the live ranges of `members[i..]`.
    after: Vec<(u32, u32)>,
}

/// Reports in-place results that overwrite bytes which are still needed.
pub(super) fn check(report: &mut Report<'_>, tree: &Tree, ranges: &Ranges, owners: &Owners) {
    let module = report.module;
    let mut families: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
    let mut built: Vec<Family> = Vec::new();
    let mut index: SecondaryMap<Value, usize> = SecondaryMap::default();
    for value in &owners.aliases {
        let Some(alias) = module.plan.alias[*value].filter(|alias| alias.kind == AliasKind::InPlace) else {
            continue;
        };
        let Some((node, step)) = check_edge(report, tree, owners, *value, alias) else { continue };
        let Some((owner, _)) = owners.of(*value) else { continue };
        let number = match families[owner] {
            Some(number) => number,
            None => {
                built.push(family(ranges, owners, owner, &mut index));
                families.set(owner, Some(built.len() - 1));
                built.len() - 1
            }
        };
        let Some(family) = built.get(number) else { continue };
        check_dies(report, ranges, owners, family, index[*value], node, step);
    }
}

/// Checks the conditions of one alias by itself. Returns the overwriting node and its step if further
/// checks are possible.
fn check_edge(
    report: &mut Report<'_>,
    tree: &Tree,
    owners: &Owners,
    value: Value,
    alias: Alias,
) -> Option<(Node, u32)> {
    let module = report.module;
    let name = report.name(value);
    let of = report.name(alias.of);
    let Definition::Result(node, _) = module.values[value].definition else {
        report.at_value("E0232", value, format!("{name} is in place but no node computes it"));
        return None;
    };
    let step = tree.position(node)?;
    if !module.nodes[node].operands().any(|operand| operand == alias.of) {
        report.at_node(
            "E0232",
            node,
            format!("{name} overwrites {of}, which is not an operand of this node"),
        );
        return None;
    }
    let (size, room) = (module.size(value), module.size(alias.of));
    if size.is_none() || size != room || alias.offset != Bytes(0) {
        report.at_node("E0232", node, format!("{name} overwrites {of}, which has another size"));
    }
    let (owner, _) = owners.of(value)?;
    let problem = match module.values[owner].definition {
        Definition::Constant(..) => "a constant",
        Definition::Input(..) if module.plan.storage[owner].is_none() => {
            "an input that the arena does not hold"
        }
        _ if module.home(owner) != module.home(value) => "a value of another graph",
        _ => return Some((node, step)),
    };
    let owner_name = report.name(owner);
    report.at_node("E0232", node, format!("{name} overwrites {owner_name}, {problem}"));
    Some((node, step))
}

/// Lists a family in preorder and accumulates its live ranges from both ends.
fn family(ranges: &Ranges, owners: &Owners, owner: Value, index: &mut SecondaryMap<Value, usize>) -> Family {
    let mut members = Vec::new();
    let mut span = Vec::new();
    let mut stack = vec![(owner, false)];
    while let Some((value, done)) = stack.pop() {
        if done {
            let first: usize = index[value];
            span[first] = (first, members.len());
            continue;
        }
        index.set(value, members.len());
        members.push(value);
        span.push((0, 0));
        stack.push((value, true));
        stack.extend(owners.children[value].iter().map(|child| (*child, false)));
    }
    let latest = |(end, start): (u32, u32), value: &Value| {
        let range = ranges.of(*value);
        (end.max(range.end.0), start.max(range.start.0))
    };
    let mut before = vec![(0, 0)];
    for value in &members {
        let last = before.last().copied().unwrap_or((0, 0));
        before.push(latest(last, value));
    }
    let mut after = vec![(0, 0)];
    for value in members.iter().rev() {
        let last = after.last().copied().unwrap_or((0, 0));
        after.push(latest(last, value));
    }
    after.reverse();
    Family { members, span, before, after }
}

/// Checks that every other value on the overwritten bytes is defined before the node and not read after
/// it. The new value and its aliases are exempt.
fn check_dies(
    report: &mut Report<'_>,
    ranges: &Ranges,
    owners: &Owners,
    family: &Family,
    at: usize,
    node: Node,
    step: u32,
) {
    let (first, last) = family.span[at];
    let (before, after) = (family.before[first], family.after[last]);
    let (end, start) = (before.0.max(after.0), before.1.max(after.1));
    // A value is live for at least one step, so `start >= step` implies `end > step`. Both sums
    // restrict the scan below to violations.
    if end <= step + 1 && start < step {
        return;
    }
    let value = family.members[at];
    let window = window(report, owners, value);
    for (position, other) in family.members.iter().enumerate() {
        let range = ranges.of(*other);
        let needed = range.end.0 > step + 1 || range.start.0 >= step;
        if (first..last).contains(&position)
            || !needed
            || !overlap(window, self::window(report, owners, *other))
        {
            continue;
        }
        // Inputs and constants start at step 0, and so may the node; that alone is not a conflict.
        let is_result = matches!(report.module.values[*other].definition, Definition::Result(..));
        if range.end.0 <= step + 1 && !is_result {
            continue;
        }
        let message = format!(
            "{} overwrites bytes of {}, which are needed after step {step}",
            report.name(value),
            report.name(*other)
        );
        report.at_node("E0232", node, message);
    }
}

/// Byte range of a value within its owner, half-open; unbounded if the size is unknown.
fn window(report: &Report<'_>, owners: &Owners, value: Value) -> (u64, u64) {
    let start = owners.of(value).map_or(0, |(_, offset)| offset.0);
    let size = report.module.size(value).map_or(u64::MAX, |size| size.0);
    (start, start.saturating_add(size))
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.1 && b.0 < a.1
}
