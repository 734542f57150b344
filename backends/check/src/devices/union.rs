//! Rule 1, union: each value is made by the node that makes it in the given model, and no node that the
//! outputs need is missing.

use std::collections::BTreeSet;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let whole = ctx.whole;
    for (position, (section, nodes)) in ctx.manifest.sections.iter().zip(&ctx.nodes).enumerate() {
        let is_ascending = section.nodes.windows(2).all(|pair| pair[0] < pair[1]);
        if nodes.len() != section.nodes.len() || !is_ascending {
            let message =
                format!("{}: nodes are not ascending positions below {}", section.name(), whole.nodes.len());
            findings.add(Kind::SectionUnion, At::default(), message);
        }
        for name in section.known.iter().filter(|name| !ctx.given(position).is_known(name)) {
            let message = format!("{}: `{name}` does not follow from the extents", section.name());
            findings.add(Kind::SectionUnion, At::tensor(name), message);
        }
    }
    for ((section, nodes), outputs) in ctx.manifest.sections.iter().zip(&ctx.nodes).zip(&ctx.outputs) {
        for name in outputs {
            if whole.maker.get(*name).is_none_or(|maker| !nodes.contains(maker)) {
                let message =
                    format!("{} gives `{name}` and does not run the node that makes it", section.name());
                findings.add(Kind::SectionUnion, At::tensor(name), message);
            }
        }
    }
    let covered: BTreeSet<usize> = ctx.nodes.iter().flatten().copied().collect();
    for &node in needed(ctx).difference(&covered) {
        findings.add(Kind::SectionUnion, At::default(), format!("no section runs {}", whole.title(node)));
    }
}

/// Nodes that the graph outputs need. Integers that follow from the extents need no node.
fn needed(ctx: &Ctx<'_>) -> BTreeSet<usize> {
    let whole = ctx.whole;
    let mut open: Vec<usize> =
        whole.outputs.iter().filter_map(|name| whole.maker.get(name)).copied().collect();
    let mut found = BTreeSet::new();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            let reads = whole.nodes[node].reads.iter().filter(|name| !whole.is_known(name));
            open.extend(reads.filter_map(|name| whole.maker.get(name)));
        }
    }
    found
}
