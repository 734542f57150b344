//! Results that overwrite an operand, on several engines.

use std::collections::BTreeMap;

use memc_ir::{AliasKind, Module, Value};

use crate::engines::times::Spans;
use crate::in_place::head;

/// Takes all writes over operands back. Views stay.
pub(super) fn forget(module: &mut Module) {
    let values: Vec<Value> = module.values().keys().collect();
    for value in values {
        if module.plan.alias[value].is_some_and(|alias| alias.kind == AliasKind::InPlace) {
            module.plan.alias.set(value, None);
        }
    }
}

/// Takes back the writes over operands that another step may still read at that time. Returns, for each
/// write that stays, the steps that must end before: pairs of such a step and the step that writes.
pub(super) fn drop_early(module: &mut Module, spans: &Spans) -> Vec<(u32, u32)> {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut users: BTreeMap<Value, Vec<u32>> = BTreeMap::new();
    for (step, node) in nodes.iter().enumerate() {
        for value in module.reads(*node).into_iter().chain(module.node(*node).results()) {
            users.entry(head(module, value)).or_default().push(step as u32);
        }
    }
    let mut pairs = Vec::new();
    for (step, node) in nodes.iter().enumerate() {
        let Some(result) = module.node(*node).outputs.first().copied().flatten() else { continue };
        let Some(alias) = module.plan.alias[result].filter(|alias| alias.kind == AliasKind::InPlace) else {
            continue;
        };
        let family = users.get(&head(module, alias.of)).map_or(&[][..], Vec::as_slice);
        let others = family.iter().copied().filter(|user| *user as usize != step);
        if others.clone().all(|user| spans.spans[user as usize].1 <= spans.spans[step].0) {
            pairs.extend(others.map(|user| (user, step as u32)));
        } else {
            module.plan.alias.set(result, None);
        }
    }
    pairs
}
