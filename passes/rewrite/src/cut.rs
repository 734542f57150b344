//! Cuts the main graph into fragments: around opaque nodes, and at borders that the fewest values cross.

use memc_ir::{Attribute, ConstData, Module, Node, SecondaryMap, Value};
use memc_ops::{feeds_unrepeatable, lookup};

use crate::fragment::Fragment;
use crate::setting::Limits;
use crate::tables::repeating;

/// End of the first fragment of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    /// At the maximum length.
    None,
    /// At half of it, while later cuts avoid the narrowest borders, so that they differ from the cuts of
    /// the other round.
    Half,
}

/// Returns the fragments of the main graph, in its order. Fragments leave out nodes that no rule may
/// touch, and nodes that lead to a node which may not run again: comparisons of two models identify
/// these nodes by their operands.
///
/// `read` returns the bytes of a constant, if they can be read: it is called for factors of products, to
/// find tables with equal halves. Linear in nodes, operands and the bytes of factors.
pub fn fragments(
    module: &Module,
    limits: &Limits,
    shift: Shift,
    read: &dyn Fn(&ConstData) -> Option<bytes::Bytes>,
) -> Vec<Fragment> {
    let nodes = &module.graph(module.main()).nodes;
    let repeats = repeating(module, nodes, read);
    let last_use = last_uses(module, nodes);
    let crossing = crossing(module, nodes, &last_use);
    let kept = feeds_unrepeatable(module, nodes);
    let is_free = |node: &Node| !kept[*node] && may_stand(module, *node);
    let mut found = Vec::new();
    let mut start = 0;
    while start < nodes.len() {
        if !is_free(&nodes[start]) {
            start += 1;
            continue;
        }
        let run = nodes[start..].iter().take_while(|node| is_free(node)).count();
        for (from, to) in ranges(start, start + run, &crossing, limits, shift) {
            let is_needed = |value: Value| last_use[value].is_some_and(|last| last >= to);
            found.push(Fragment::new(module, nodes[from..to].to_vec(), is_needed, is_needed, |value| {
                repeats[value]
            }));
        }
        start += run;
    }
    found
}

/// Returns whether a node may be part of a fragment: memc knows the operator, in the model's own version
/// of its operator set; the node has no bodies, and gives equal results when it runs again. Tensors in
/// attributes belong to the whole module, while a fragment has constants of its own, so nodes with these
/// stay out.
pub(crate) fn may_stand(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let version = module.opsets.get(&*data.operator.domain);
    let own =
        !data.operator.domain.is_empty() || version.is_none_or(|version| *version == data.operator.version);
    let dense = data.operands().chain(data.results()).all(|value| module.ty(value).tensor().is_some());
    own && dense
        && lookup(&data.operator).is_some()
        && data.bodies().next().is_none()
        && !data
            .attributes
            .iter()
            .any(|(_, attribute)| matches!(attribute, Attribute::Tensor(_) | Attribute::Tensors(_)))
        && data.recompute_of.is_none()
        && memc_ops::repeatable(module, node)
}

/// Returns the last position that reads each value; graph outputs are read at the end.
fn last_uses(module: &Module, nodes: &[Node]) -> SecondaryMap<Value, Option<usize>> {
    let mut last: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
    for (position, node) in nodes.iter().enumerate() {
        for value in module.reads(*node) {
            last.set(value, Some(position));
        }
    }
    for value in &module.graph(module.main()).outputs {
        last.set(*value, Some(nodes.len()));
    }
    last
}

/// Counts the values that cross each border between two nodes: entry `n` is the border before node `n`.
fn crossing(module: &Module, nodes: &[Node], last_use: &SecondaryMap<Value, Option<usize>>) -> Vec<i64> {
    let mut change = vec![0i64; nodes.len() + 2];
    for value in &module.graph(module.main()).inputs {
        if let Some(last) = last_use[*value] {
            change[0] += 1;
            change[last + 1] -= 1;
        }
    }
    for (position, node) in nodes.iter().enumerate() {
        for value in module.node(*node).results() {
            if let Some(last) = last_use[value].filter(|last| *last > position) {
                change[position + 1] += 1;
                change[last + 1] -= 1;
            }
        }
    }
    let mut sum = 0;
    change.iter_mut().for_each(|entry| {
        sum += *entry;
        *entry = sum;
    });
    change
}

/// Cuts a run at the narrowest border within each maximum length; of equal borders at the last, so that
/// fragments are long. A cut depends on its surroundings alone, so equal layers end up with equal cuts.
fn ranges(start: usize, end: usize, crossing: &[i64], limits: &Limits, shift: Shift) -> Vec<(usize, usize)> {
    let most = limits.nodes.max(2);
    let mut found = Vec::new();
    let mut from = start;
    while from < end {
        let length = if from == start && shift == Shift::Half { most / 2 } else { most };
        let to = if end - from <= length {
            end
        } else {
            let borders = from + (length / 4).max(1)..=from + length;
            let least = borders.clone().map(|border| crossing[border]).min();
            // The other round cut at the narrowest borders; this round avoids them.
            let spared = |border: &usize| shift == Shift::Half && Some(crossing[*border]) == least;
            borders.rev().min_by_key(|border| (spared(border), crossing[*border])).unwrap_or(from + length)
        };
        found.push((from, to));
        from = to;
    }
    found
}
