//! Rule 12, collectives: where each device computes a part of the batch, all devices join what the parts
//! make, each value once and in one order, and each device that needs a whole value gets it.
//!
//! What is added is what the given model adds: the rule of parts derives that a value is a sum of its parts,
//! and each device has the part of its rank.

use std::collections::BTreeSet;

use memc_layout::devices::{Carried, Collective, CollectiveKind, Crossing, Event, Join, Phase};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    if !ctx.is_data() {
        let stated = ctx.manifest.collectives.iter().map(|row| row.value.as_str());
        let sections = ctx.manifest.sections.iter().filter(|section| !section.devices.is_empty());
        let sections = sections.map(memc_layout::devices::Section::name);
        if let Some(name) = stated.chain(sections).next() {
            add(
                findings,
                format!("`{name}` is stated for several devices, and these compute no parts of a batch"),
            );
        }
        return;
    }
    sections(ctx, findings);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for row in &ctx.manifest.collectives {
        if !seen.insert(&row.value) {
            add(findings, format!("`{}` has two collectives", row.value));
        }
        if let Some(message) = contradiction(ctx, row) {
            add(findings, format!("`{}`: {message}", row.value));
        }
    }
    for value in &ctx.manifest.values {
        if let Some(message) = lack(ctx, value) {
            add(findings, format!("`{}`: {message}", value.name));
        }
    }
    order(ctx, findings);
    if !is_connected(ctx) {
        add(findings, "links do not join all devices".to_owned());
    }
}

fn add(findings: &mut Findings, message: String) {
    findings.add(Kind::Collective, At::default(), message);
}

/// Whether a device gets the value of a collective, as opposed to one that only gives.
pub(super) fn is_for(row: &Collective, device: &str) -> bool {
    let is_root = row.root.as_deref() == Some(device);
    match row.kind {
        CollectiveKind::AllReduce | CollectiveKind::AllGather => true,
        CollectiveKind::Reduce | CollectiveKind::Gather => is_root,
        CollectiveKind::Broadcast => !is_root,
    }
}

/// Devices that give a graph output to the caller: all that have the whole value.
pub(super) fn givers<'c>(ctx: &Ctx<'c>, value: &'c Crossing, maker: usize) -> Vec<&'c str> {
    let own = ctx.manifest.sections[maker].devices();
    let makes = |device: &str| (!ctx.is_data() || ctx.is_once(maker)) && own.iter().any(|own| own == device);
    let all = ctx.manifest.devices.iter().map(|device| device.name.as_str());
    all.filter(|device| makes(device) || ctx.gets(device, &value.name)).collect()
}

/// Each device computes one part; a section runs on one device or on all.
fn sections(ctx: &Ctx<'_>, findings: &mut Findings) {
    let all: Vec<&String> = ctx.manifest.devices.iter().map(|device| &device.name).collect();
    if ctx.manifest.micro_batches != all.len() as u64 || ctx.step.is_none() {
        let message =
            format!("{} devices compute {} parts, and not one each", all.len(), ctx.manifest.micro_batches);
        add(findings, message);
    }
    for section in &ctx.manifest.sections {
        let is_everywhere =
            section.devices.iter().eq(all.iter().copied()) && all.first() == Some(&&section.device);
        let is_alone = section.devices.is_empty() && section.phase != Some(Phase::Gradient);
        if !is_everywhere && !is_alone {
            add(
                findings,
                format!("{} runs on {:?}, not on one device or on all", section.name(), section.devices()),
            );
        }
    }
}

/// What is wrong with a row, by the value that it joins.
fn contradiction(ctx: &Ctx<'_>, row: &Collective) -> Option<String> {
    if !row.devices.iter().eq(ctx.manifest.devices.iter().map(|device| &device.name)) {
        return Some(format!("devices {:?} take part, not all by rank", row.devices));
    }
    let value = ctx.crossing(&row.value);
    let maker = value.and_then(|value| ctx.position.get(value.from.as_deref()?).copied());
    let Some((value, maker)) = value.zip(maker) else { return Some("no section makes it".to_owned()) };
    let has_root = !matches!(row.kind, CollectiveKind::AllReduce | CollectiveKind::AllGather);
    if has_root != row.root.as_ref().is_some_and(|root| row.devices.contains(root))
        || !has_root && row.root.is_some()
    {
        return Some(format!("{:?} with the root {:?}", row.kind, row.root));
    }
    let is_once = ctx.is_once(maker);
    let kinds: &[CollectiveKind] = match value.joined.as_ref().map(|joined| joined.by).filter(|_| !is_once) {
        _ if is_once => &[CollectiveKind::Broadcast],
        Some(Join::Sum | Join::Mean) => &[CollectiveKind::AllReduce, CollectiveKind::Reduce],
        Some(Join::Concat) => &[CollectiveKind::AllGather, CollectiveKind::Gather],
        None => &[],
    };
    if !kinds.contains(&row.kind) {
        return Some(format!("{:?} is not how its parts make it: {:?}", row.kind, value.joined));
    }
    let adds = matches!(row.kind, CollectiveKind::AllReduce | CollectiveKind::Reduce);
    if adds != row.order.is_some() {
        return Some(format!("the order of additions is {:?}", row.order));
    }
    let own = ctx.manifest.sections[maker].devices();
    let is_from_root = own.len() == 1 && own.first() == row.root.as_ref();
    (is_once && !is_from_root).then(|| format!("{:?} makes it, not {:?} alone", own, row.root))
}

/// A device that reads a value, or gives it, and does not have it.
fn lack(ctx: &Ctx<'_>, value: &Crossing) -> Option<String> {
    let maker = *ctx.position.get(value.from.as_deref()?)?;
    let own = ctx.manifest.sections[maker].devices();
    let is_once = ctx.is_once(maker);
    for reader in value.to.iter().filter_map(|to| ctx.position.get(to.as_str()).copied()) {
        for device in ctx.manifest.sections[reader].devices() {
            // Parts are read where they are made.
            let makes = own.contains(device) && (is_once || !ctx.is_once(reader));
            if !makes && !ctx.gets(device, &value.name) {
                return Some(format!("{device} reads it and does not get it"));
            }
        }
    }
    let is_lost = value.output && givers(ctx, value, maker).is_empty();
    is_lost.then(|| "no device gets the whole, which is an output".to_owned())
}

/// All devices take part in each collective once, in one order.
fn order(ctx: &Ctx<'_>, findings: &mut Findings) {
    let of = |device: &str| -> Vec<&str> {
        let events = ctx.manifest.program.get(device).into_iter().flatten();
        let own = events.filter_map(|event| match event {
            Event::Collect(Carried { value, .. }) | Event::Offer(Carried { value, .. }) => {
                Some(value.as_str())
            }
            _ => None,
        });
        own.collect()
    };
    let Some(first) = ctx.manifest.devices.first() else { return };
    let expected = of(&first.name);
    let mut rows: Vec<&str> = ctx.manifest.collectives.iter().map(|row| row.value.as_str()).collect();
    let mut stated = expected.clone();
    rows.sort_unstable();
    stated.sort_unstable();
    if rows != stated {
        let message = format!(
            "{} takes part in {} collectives, and not once in each of {}",
            first.name,
            stated.len(),
            rows.len()
        );
        add(findings, message);
    }
    for device in &ctx.manifest.devices[1..] {
        let found = of(&device.name);
        if found != expected {
            let at = found.iter().zip(&expected).position(|(one, other)| one != other);
            let at = at.unwrap_or(found.len().min(expected.len()));
            let shown = |list: &[&str]| list.get(at).map_or("nothing".to_owned(), |name| format!("`{name}`"));
            let (own, other) = (shown(&found), shown(&expected));
            add(
                findings,
                format!("collective {at}: {} takes part in {own}, {} in {other}", device.name, first.name),
            );
        }
    }
}

/// Whether links lead from the first device to all others.
fn is_connected(ctx: &Ctx<'_>) -> bool {
    let Some(first) = ctx.manifest.devices.first() else { return true };
    let (mut found, mut open) = (BTreeSet::from([first.name.as_str()]), vec![first.name.as_str()]);
    while let Some(device) = open.pop() {
        for link in &ctx.manifest.links {
            let ends = [(link.from.as_str(), link.to.as_str()), (link.to.as_str(), link.from.as_str())];
            open.extend(
                ends.into_iter().filter(|(from, to)| *from == device && found.insert(to)).map(|(_, to)| to),
            );
        }
    }
    ctx.manifest.devices.iter().all(|device| found.contains(device.name.as_str()))
}
