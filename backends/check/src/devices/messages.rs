//! Rule 3, messages: each receive has one send, and both ends see the values of a pair of devices in one
//! order.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Carried, Event};

use super::{Ctx, collectives};
use crate::codes::Kind;
use crate::findings::{At, Findings};

/// Messages from one device to another, in the order of one end.
type Order<'c> = Vec<(&'c str, u64)>;

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut sent: BTreeMap<(&str, &str), Order<'_>> = BTreeMap::new();
    let mut received: BTreeMap<(&str, &str), Order<'_>> = BTreeMap::new();
    let mut wanted: BTreeMap<(&str, &str), BTreeSet<(&str, u64)>> = BTreeMap::new();
    let mut from_caller: BTreeMap<(&str, &str, u64, bool), u64> = BTreeMap::new();
    for (device, events) in &ctx.manifest.program {
        for event in events {
            match event {
                Event::Send { value, micro_batch, to } => {
                    sent.entry((device, to)).or_default().push((value, *micro_batch))
                }
                Event::Recv { value, micro_batch, from } => {
                    received.entry((from, device)).or_default().push((value, *micro_batch));
                }
                Event::Feed(Carried { value, micro_batch }) => {
                    *from_caller.entry((device, value, *micro_batch, true)).or_default() += 1
                }
                Event::Give(Carried { value, micro_batch }) => {
                    *from_caller.entry((device, value, *micro_batch, false)).or_default() += 1
                }
                Event::Run { .. }
                | Event::Share(_)
                | Event::Join(_)
                | Event::Collect(_)
                | Event::Offer(_)
                | Event::Free(_) => {}
            }
        }
    }
    let mut expected: BTreeMap<(&str, &str, u64, bool), u64> = BTreeMap::new();
    for value in &ctx.manifest.values {
        let from = value.from.as_ref().map_or(&[] as &[String], |from| ctx.devices(from));
        let maker = value.from.as_ref().and_then(|from| ctx.position.get(from.as_str()).copied());
        for reader in value.to.iter().filter_map(|to| ctx.position.get(to.as_str()).copied()) {
            for to in ctx.manifest.sections[reader].devices() {
                for (name, run) in
                    ctx.runs_on(reader, to).into_iter().map(|run| ctx.key(&value.name, reader, run))
                {
                    match from.first() {
                        // The rule of collectives says which devices get these.
                        Some(from) if from != to && !ctx.is_data() => {
                            _ = wanted.entry((from, to)).or_default().insert((name, run))
                        }
                        None if value.from.is_none() => _ = expected.insert((to, name, run, true), 1),
                        _ => {}
                    }
                }
            }
        }
        let Some(maker) = maker.filter(|_| value.output) else { continue };
        let is_whole = value.joined.is_some() || ctx.is_data();
        let joined = ctx.step.filter(|_| is_whole).map(|step| vec![step]);
        for device in collectives::givers(ctx, value, maker) {
            for run in joined.clone().unwrap_or_else(|| ctx.runs(maker)) {
                expected.insert((device, &value.name, run, false), 1);
            }
        }
    }
    let pairs: BTreeSet<(&str, &str)> =
        sent.keys().chain(received.keys()).chain(wanted.keys()).copied().collect();
    for (from, to) in pairs {
        let empty = Vec::new();
        let (one, other) =
            (sent.get(&(from, to)).unwrap_or(&empty), received.get(&(from, to)).unwrap_or(&empty));
        let place = one
            .iter()
            .zip(other)
            .position(|(sent, received)| sent != received)
            .unwrap_or(one.len().min(other.len()));
        if one != other {
            let shown = |list: &Order<'_>| {
                list.get(place).map_or("nothing".to_owned(), |(value, run)| format!("`{value}` of run {run}"))
            };
            let message = format!(
                "message {place} from {from} to {to}: {from} sends {}, {to} receives {}",
                shown(one),
                shown(other)
            );
            findings.add(Kind::Message, At::default(), message);
        }
        let no_values = BTreeSet::new();
        let set: BTreeSet<(&str, u64)> = one.iter().copied().collect();
        let wanted = wanted.get(&(from, to)).unwrap_or(&no_values);
        if set.len() != one.len() || set != *wanted {
            let message = format!(
                "{from} must send {to} each of its values once in each run: {} messages, not {}",
                wanted.len(),
                one.len()
            );
            findings.add(Kind::Message, At::default(), message);
        }
        let joins = |link: &memc_layout::devices::Path| {
            (link.from == from && link.to == to) || (link.from == to && link.to == from)
        };
        if !ctx.manifest.links.iter().any(joins) {
            findings.add(
                Kind::Message,
                At::default(),
                format!("no link joins {from} and {to}, which exchange values"),
            );
        }
    }
    if let Some((device, value, run, fed)) =
        expected.keys().chain(from_caller.keys()).find(|key| expected.get(*key) != from_caller.get(*key))
    {
        let verb = if *fed { "take" } else { "give" };
        let message =
            format!("{device} must {verb} `{value}` of run {run} once if the values say so, and only then");
        findings.add(Kind::Message, At::tensor(value), message);
    }
}
