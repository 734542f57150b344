//! Rule 9, repeats: a node that draws random numbers, keeps state or is unknown runs in one section.

use std::collections::BTreeMap;

use memc_ops::repeatable;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut count: BTreeMap<usize, usize> = BTreeMap::new();
    for &node in ctx.nodes.iter().flatten() {
        *count.entry(node).or_default() += 1;
    }
    for (node, count) in count.into_iter().filter(|(_, count)| *count > 1) {
        let inner = &ctx.whole.nodes[node].inner;
        if inner.is_empty() || !inner.iter().all(|node| repeatable(&ctx.whole.module, *node)) {
            let message = format!("{count} sections run {}, which may not run again", ctx.whole.title(node));
            findings.add(Kind::SectionRandom, At::default(), message);
        }
    }
}
