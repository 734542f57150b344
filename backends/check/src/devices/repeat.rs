//! Rule 9, repeats: a node that draws random numbers, keeps state or is unknown runs in one section, on one
//! device.

use std::collections::BTreeMap;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut count: BTreeMap<usize, usize> = BTreeMap::new();
    for (section, nodes) in ctx.manifest.sections.iter().zip(&ctx.nodes) {
        nodes.iter().for_each(|node| *count.entry(*node).or_default() += section.devices().len());
    }
    for (node, count) in count.into_iter().filter(|(_, count)| *count > 1) {
        if !ctx.whole.repeats(node) {
            let message =
                format!("{count} devices or sections run {}, which may not run again", ctx.whole.title(node));
            findings.add(Kind::SectionRandom, At::default(), message);
        }
    }
}
