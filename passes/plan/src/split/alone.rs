//! Bytes of each node by itself. If all other values can be recomputed, only these bytes need to be
//! lowered by splitting.

use std::collections::BTreeMap;

use crate::budget::state::state;
use crate::trial::Judged;
use memc_passes::Options;

/// Replaces the bytes of each step by the need of its node alone. Linear in nodes and operands.
pub(super) fn alone(judged: Judged, options: &Options) -> Judged {
    let stated = state(&judged.module, options, &[]);
    let runs = stated.nodes.iter().enumerate();
    let needs: BTreeMap<_, u64> = runs.map(|(run, node)| (*node, stated.problem.need(run))).collect();
    let nodes = &judged.module.graph(judged.module.main()).nodes;
    let profile: Vec<u64> = nodes.iter().map(|node| needs.get(node).copied().unwrap_or(0)).collect();
    let peak = profile.iter().copied().max().unwrap_or(0);
    Judged { peak, profile, is_alone: true, ..judged }
}
