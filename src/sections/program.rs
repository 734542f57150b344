//! Programs: what each device does in order, and the bytes that it holds on the way.

use std::collections::BTreeSet;

use memc_layout::devices::{Carried, Event};

use super::cut::{Cut, makers, readers};
use super::graph::Graph;
use super::options::Devices;

/// Returns the events of each section, in the order of `cuts`. Runs follow each other on every device, and
/// all sends and receives follow one order: by run, then sender, then receiver. So no device waits for
/// one that waits for it, even if a send ends only when it is received.
///
/// A value whose storage its new value takes is freed behind the new one.
pub(super) fn programs(cuts: &[Cut], micro_batches: u64, graph: &Graph<'_>) -> Vec<Vec<Event>> {
    let outputs = &graph.outputs;
    let maker = makers(cuts);
    let readers = readers(cuts);
    let mut all = Vec::new();
    for cut in cuts {
        let mut events = Vec::new();
        for micro_batch in 0..micro_batches {
            let carried = |value: &String| Carried { value: value.clone(), micro_batch };
            let mut received: Vec<(usize, &String)> = cut
                .inputs
                .iter()
                .filter_map(|name| Some((cuts[*maker.get(name.as_str())?].portion.rank, name)))
                .collect();
            received.sort();
            let fed = cut.inputs.iter().filter(|name| !maker.contains_key(name.as_str()));
            events.extend(received.iter().map(|(from, name)| Event::Recv {
                value: (*name).clone(),
                micro_batch,
                from: Devices::name(*from),
            }));
            events.extend(fed.map(|name| Event::Feed(carried(name))));
            events.push(Event::Run { micro_batch, section: None });
            let is_kept = |name: &&String| {
                graph.pairs.iter().any(|pair| pair.old == **name && cut.outputs.contains(&pair.new))
            };
            events.extend(
                cut.inputs.iter().filter(|name| !is_kept(name)).map(|name| Event::Free(carried(name))),
            );
            let mut sent: Vec<(usize, &String)> = Vec::new();
            for name in &cut.outputs {
                sent.extend(
                    readers.get(name.as_str()).into_iter().flatten().map(|to| (cuts[*to].portion.rank, name)),
                );
            }
            sent.sort();
            events.extend(sent.iter().map(|(to, name)| Event::Send {
                value: (*name).clone(),
                micro_batch,
                to: Devices::name(*to),
            }));
            events.extend(
                cut.outputs
                    .iter()
                    .filter(|name| outputs.contains(name))
                    .map(|name| Event::Give(carried(name))),
            );
            events.extend(
                cut.outputs
                    .iter()
                    .chain(cut.inputs.iter().filter(is_kept))
                    .map(|name| Event::Free(carried(name))),
            );
        }
        all.push(events);
    }
    all
}

/// Sizes of values, in a run of a part and in that of the step.
#[derive(Clone, Debug)]
pub(super) struct Sizes<'g> {
    /// The graph of one run.
    pub part: &'g Graph<'g>,
    /// The given graph.
    pub whole: &'g Graph<'g>,
    /// Number of the run of the step, if there are several parts.
    pub step: Option<u64>,
}

impl Sizes<'_> {
    /// Bytes of a value in a run.
    pub fn bytes(&self, name: &str, run: u64) -> u64 {
        let graph = if Some(run) == self.step { self.whole } else { self.part };
        graph.tensors.get(name).map_or(0, |tensor| tensor.bytes)
    }
}

/// Returns the most bytes that the program of a device holds, and the first event after which it does.
/// Values of `stored` lie in storage that is counted already.
pub(super) fn most_held(
    events: &[Event],
    cuts: &[&Cut],
    sizes: &Sizes<'_>,
    stored: &BTreeSet<&str>,
) -> (u64, u64) {
    let bytes = |name: &str, run: u64| if stored.contains(name) { 0 } else { sizes.bytes(name, run) };
    let (mut held, mut most, mut first) = (0_u64, 0_u64, 0_u64);
    let mut joined: BTreeSet<&str> = BTreeSet::new();
    for (position, event) in (0..).zip(events) {
        match event {
            Event::Feed(Carried { value, micro_batch })
            | Event::Share(Carried { value, micro_batch })
            | Event::Collect(Carried { value, micro_batch })
            | Event::Recv { value, micro_batch, .. } => {
                held = held.saturating_add(bytes(value, *micro_batch));
            }
            Event::Run { micro_batch, section } => {
                let ran =
                    cuts.iter().filter(|cut| section.as_ref().is_none_or(|name| *name == cut.portion.name));
                let results = ran.flat_map(|cut| &cut.outputs);
                held = results.fold(held, |sum, name| sum.saturating_add(bytes(name, *micro_batch)));
            }
            Event::Join(Carried { value, .. }) => {
                if joined.insert(value) {
                    held = held.saturating_add(bytes(value, sizes.step.unwrap_or(0)));
                }
            }
            Event::Free(Carried { value, micro_batch }) => {
                held = held.saturating_sub(bytes(value, *micro_batch))
            }
            Event::Offer(_) | Event::Send { .. } | Event::Give(_) => {}
        }
        if held > most {
            (most, first) = (held, position);
        }
    }
    (most, first)
}

/// Returns the most bytes of held values, by position in `cuts`, which are one a device.
pub(super) fn held_bytes(graph: &Graph<'_>, cuts: &[Cut], devices: &Devices) -> Vec<u64> {
    let programs = programs(cuts, devices.micro_batches.min(2), graph);
    let sizes = Sizes { part: graph, whole: graph, step: None };
    cuts.iter()
        .zip(programs)
        .map(|(cut, events)| most_held(&events, &[cut], &sizes, &BTreeSet::new()).0)
        .collect()
}
