//! Rule 3, messages: each receive has one send, and both ends see the values of a pair of devices in one
//! order.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Carried, Event};

use super::Ctx;
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
                Event::Send { value, micro_batch, to } => sent.entry((device, to)).or_default().push((value, *micro_batch)),
                Event::Recv { value, micro_batch, from } => {
                    received.entry((from, device)).or_default().push((value, *micro_batch));
                }
                Event::Feed(Carried { value, micro_batch }) => {
                    *from_caller.entry((device, value, *micro_batch, true)).or_default() += 1
                }
                Event::Give(Carried { value, micro_batch }) => {
                    *from_caller.entry((device, value, *micro_batch, false)).or_default() += 1
                }
                Event::Run { .. } | Event::Free(_) => {}
            }
        }
    }
    let mut expected: BTreeMap<(&str, &str, u64, bool), u64> = BTreeMap::new();
    for value in &ctx.manifest.values {
        for micro_batch in 0..ctx.manifest.micro_batches.min(limit(ctx)) {
            match &value.from {
                Some(from) => value.to.iter().for_each(|to| {
                    wanted.entry((from, to)).or_default().insert((&value.name, micro_batch));
                }),
                None => value.to.iter().for_each(|to| {
                    expected.insert((to, &value.name, micro_batch, true), 1);
                }),
            }
            if let Some(from) = value.from.as_ref().filter(|_| value.output) {
                expected.insert((from, &value.name, micro_batch, false), 1);
            }
        }
    }
    let pairs: BTreeSet<(&str, &str)> = sent.keys().chain(received.keys()).chain(wanted.keys()).copied().collect();
    for (from, to) in pairs {
        let empty = Vec::new();
        let (one, other) = (sent.get(&(from, to)).unwrap_or(&empty), received.get(&(from, to)).unwrap_or(&empty));
        let place = one.iter().zip(other).position(|(sent, received)| sent != received).unwrap_or(one.len().min(other.len()));
        if one != other {
            let shown =
                |list: &Order<'_>| list.get(place).map_or("nothing".to_owned(), |(value, run)| format!("`{value}` of run {run}"));
            let message =
                format!("message {place} from {from} to {to}: {from} sends {}, {to} receives {}", shown(one), shown(other));
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
        let joins =
            |link: &memc_layout::devices::Path| (link.from == from && link.to == to) || (link.from == to && link.to == from);
        if !ctx.manifest.links.iter().any(joins) {
            findings.add(Kind::Message, At::default(), format!("no link joins {from} and {to}, which exchange values"));
        }
    }
    if let Some((device, value, run, fed)) =
        expected.keys().chain(from_caller.keys()).find(|key| expected.get(*key) != from_caller.get(*key))
    {
        let verb = if *fed { "take" } else { "give" };
        let message = format!("{device} must {verb} `{value}` of run {run} once if the values say so, and only then");
        findings.add(Kind::Message, At::tensor(value), message);
    }
}

/// More runs than events need not be followed: some run then lacks its events.
fn limit(ctx: &Ctx<'_>) -> u64 {
    ctx.manifest.program.values().map(|events| events.len() as u64).max().unwrap_or(0).saturating_add(1)
}
