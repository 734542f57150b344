//! Rule 8, copies: a weight that several devices hold is listed with all of them, and with whether one of
//! them writes over its copy.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::Equal;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut holders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (section, nodes) in ctx.manifest.sections.iter().zip(&ctx.nodes) {
        for name in nodes.iter().flat_map(|node| &ctx.whole.nodes[*node].reads) {
            if ctx.whole.weights.contains(name) {
                holders.entry(name).or_default().extend(section.devices().iter().map(String::as_str));
            }
        }
    }
    holders.retain(|_, devices| devices.len() > 1);
    let mut listed: BTreeSet<&str> = BTreeSet::new();
    for copy in &ctx.manifest.copies {
        let mut add = |message: String| {
            findings.add(Kind::SectionCopy, At::tensor(&copy.tensor), format!("`{}`: {message}", copy.tensor))
        };
        if !listed.insert(&copy.tensor) {
            add("it is listed twice".to_owned());
        }
        let devices: BTreeSet<&str> = copy.devices.iter().map(String::as_str).collect();
        match holders.get(copy.tensor.as_str()) {
            None => add("it is not a weight that several sections read".to_owned()),
            Some(found) if *found != devices || devices.len() != copy.devices.len() => {
                let found: Vec<&str> = found.iter().copied().collect();
                add(format!("devices {} read it, not {}", found.join(", "), copy.devices.join(", ")));
            }
            Some(_) => {}
        }
        let is_updated = ctx.manifest.state.iter().any(|row| row.tensor == copy.tensor);
        if is_updated != (copy.equal == Equal::AfterStep) {
            let found =
                if is_updated { "a device writes over its copy" } else { "no device writes over its copy" };
            add(format!("{found}, and `equal` is {:?}", copy.equal));
        }
        let bytes = ctx.whole.sized.get(&copy.tensor).map_or(0, |sized| sized.bytes);
        if bytes != copy.bytes {
            add(format!("a copy has {}, not {}", exact(bytes), exact(copy.bytes)));
        }
    }
    for name in holders.keys().filter(|name| !listed.contains(*name)) {
        findings.add(
            Kind::SectionCopy,
            At::tensor(name),
            format!("several devices hold `{name}`, which `copies` does not list"),
        );
    }
}
