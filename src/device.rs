//! Remarks on plans for a device: what runs beside it, and what it alone knows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use memc_ir::{Diagnostic, Module, Node, Severity};
use memc_ops::{Profile, Typed};
use memc_passes::Options;

/// Returns the remarks on a plan; none if its runtime has no device.
pub(crate) fn remarks(module: &Module, options: &Options) -> impl Iterator<Item = Diagnostic> {
    [beside(module, options.profile), chosen(module, options)].into_iter().flatten()
}

/// Operators of nodes with a property, by number, most of them first.
fn operators(module: &Module, has: impl Fn(Node) -> bool) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in module.graph(module.main()).nodes.iter().filter(|node| has(**node)) {
        *counts.entry(&module.node(*node).operator.name).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (Reverse(*count), *name));
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Remarks that the device has no kernel for some nodes.
fn beside(module: &Module, profile: &Profile) -> Option<Diagnostic> {
    let found = operators(module, |node| profile.runs_beside(&Typed::of(module, node)))?;
    let message = format!("nodes without a kernel on the device run on the CPU, between copies: {found}");
    let help = "the plan counts their values as if they were on the device";
    Some(Diagnostic::new("W0365", Severity::Remark, message).with_help(help))
}

/// Remarks that libraries of the device choose the workspace of some kernels.
fn chosen(module: &Module, options: &Options) -> Option<Diagnostic> {
    let is_open = |node| {
        let is_known =
            options.cost.declared(module, node).or_else(|| options.cost.workspace(module, node)).is_some();
        !is_known && options.profile.chooses_workspace(&Typed::of(module, node))
    };
    let found = operators(module, is_open)?;
    let message =
        format!("the device chooses the workspace of these kernels, and no plan counts it: {found}");
    let help = "`memc.ort.replay` in Python records it and places it too; `--scratch FILE.json` states it";
    Some(Diagnostic::new("W0366", Severity::Remark, message).with_help(help))
}
