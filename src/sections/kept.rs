//! State in sections: new values in the storage of the old ones, on the device that makes them.

use std::collections::BTreeSet;

use memc_passes::StateNames;

use super::cut::Cut;
use super::graph::Graph;

/// Nodes that stay together for a cache to be on one device: those that read the old value, and the maker and
/// the readers of the new one. Weights may have copies, so they bind no nodes.
pub(super) fn together(graph: &Graph<'_>) -> Vec<BTreeSet<usize>> {
    let fed = graph.pairs.iter().filter(|pair| graph.inputs.contains(&pair.old));
    let readers = |pair: &StateNames| {
        let reads =
            |unit: &usize| [&pair.old, &pair.new].iter().any(|name| graph.units[*unit].reads.contains(*name));
        graph.order.iter().copied().filter(reads).chain(graph.maker.get(&pair.new).copied()).collect()
    };
    fed.map(readers).collect()
}

/// The pairs of a section: it makes the new value, and no later section of its device reads the old one.
/// `cuts` has all sections, those of a device in the order of their runs.
pub(super) fn of_section(graph: &Graph<'_>, cuts: &[Cut], position: usize) -> Vec<StateNames> {
    let cut = &cuts[position];
    let reads = |cut: &Cut, name: &String| {
        cut.inputs.contains(name)
            || cut.portion.units.iter().any(|unit| graph.units[*unit].weights.contains(name))
    };
    let is_last = |name: &String| {
        let later = cuts[position + 1..]
            .iter()
            .filter(|other| cut.portion.ranks().any(|rank| other.portion.runs_on(rank)));
        later.into_iter().all(|other| !reads(other, name))
    };
    let is_own =
        |pair: &&StateNames| cut.outputs.contains(&pair.new) && reads(cut, &pair.old) && is_last(&pair.old);
    graph.pairs.iter().filter(is_own).cloned().collect()
}
