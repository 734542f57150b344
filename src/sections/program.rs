//! Programs: what each device does in order, and the bytes that it holds on the way.

use std::collections::BTreeMap;

use memc_layout::devices::{Carried, Event};

use super::cut::{Cut, makers};
use super::graph::Graph;
use super::options::Devices;

/// Returns the events of each section, in the order of `cuts`. Runs follow each other on every device, and
/// all sends and receives follow one order: by run, then sender, then receiver. So no device waits for
/// one that waits for it, even if a send ends only when it is received.
pub(super) fn programs(cuts: &[Cut], micro_batches: u64, outputs: &[String]) -> Vec<Vec<Event>> {
    let maker = makers(cuts);
    let readers = readers(cuts);
    let mut all = Vec::new();
    for cut in cuts {
        let mut events = Vec::new();
        for micro_batch in 0..micro_batches {
            let carried = |value: &String| Carried { value: value.clone(), micro_batch };
            let mut received: Vec<(usize, &String)> =
                cut.inputs.iter().filter_map(|name| Some((*maker.get(name.as_str())?, name))).collect();
            received.sort();
            let fed = cut.inputs.iter().filter(|name| !maker.contains_key(name.as_str()));
            events.extend(received.iter().map(|(from, name)| Event::Recv {
                value: (*name).clone(),
                micro_batch,
                from: Devices::name(*from),
            }));
            events.extend(fed.map(|name| Event::Feed(carried(name))));
            events.push(Event::Run { micro_batch });
            events.extend(cut.inputs.iter().map(|name| Event::Free(carried(name))));
            let mut sent: Vec<(usize, &String)> = Vec::new();
            for name in &cut.outputs {
                sent.extend(readers.get(name.as_str()).into_iter().flatten().map(|to| (*to, name)));
            }
            sent.sort();
            events.extend(sent.iter().map(|(to, name)| Event::Send {
                value: (*name).clone(),
                micro_batch,
                to: Devices::name(*to),
            }));
            events.extend(cut.outputs.iter().filter(|name| outputs.contains(name)).map(|name| Event::Give(carried(name))));
            events.extend(cut.outputs.iter().map(|name| Event::Free(carried(name))));
        }
        all.push(events);
    }
    all
}

/// Ranks that read each value of another section, ascending.
pub(super) fn readers(cuts: &[Cut]) -> BTreeMap<&str, Vec<usize>> {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for cut in cuts {
        for name in &cut.inputs {
            found.entry(name).or_default().push(cut.rank);
        }
    }
    found
}

/// Returns the most bytes held by a program, and the first event after which they are.
pub(super) fn most_held(events: &[Event], outputs: &[String], bytes: impl Fn(&str) -> u64) -> (u64, u64) {
    let (mut held, mut most, mut first) = (0_u64, 0_u64, 0_u64);
    for (position, event) in (0..).zip(events) {
        match event {
            Event::Feed(Carried { value, .. }) | Event::Recv { value, .. } => held += bytes(value),
            Event::Run { .. } => held += outputs.iter().map(|name| bytes(name)).sum::<u64>(),
            Event::Free(Carried { value, .. }) => held = held.saturating_sub(bytes(value)),
            Event::Send { .. } | Event::Give(_) => {}
        }
        if held > most {
            (most, first) = (held, position);
        }
    }
    (most, first)
}

/// Returns the most bytes of held values, by position in `cuts`.
pub(super) fn held_bytes(graph: &Graph<'_>, cuts: &[Cut], devices: &Devices) -> Vec<u64> {
    let programs = programs(cuts, devices.micro_batches.min(2), &graph.outputs);
    let bytes = |name: &str| graph.tensors.get(name).map_or(0, |tensor| tensor.bytes);
    cuts.iter().zip(programs).map(|(cut, events)| most_held(&events, &cut.outputs, bytes).0).collect()
}
