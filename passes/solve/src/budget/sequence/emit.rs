//! Turns a sequence of operations into the events of a plan.

use super::model::{Kind, Model, NONE};
use crate::budget::problem::Event;

/// Returns the events of a sequence.
///
/// Each value is stored once. Its store is listed as soon as the copy that it stores has no later
/// reader; the stores of a link keep the order in which they end in the sequence. A load is listed after
/// the run that follows it, so that it starts together with that run. If that run reads the value, the
/// load is listed before the run.
pub(in crate::budget) fn events(model: &Model, sequence: &[u32]) -> Vec<Event> {
    let mut keyed: Vec<((u32, u8, u32), Event)> = Vec::with_capacity(sequence.len());
    let stores = stores(model, sequence);
    for (order, &(after, value, link)) in stores.iter().enumerate() {
        keyed.push(((after, 2, order as u32), Event::Store { value, link }));
    }
    let mut next_run = vec![NONE; sequence.len()];
    let mut next = NONE;
    for (place, &operation) in sequence.iter().enumerate().rev() {
        next_run[place] = next;
        if model.kinds[operation as usize] == Kind::Run {
            next = place as u32;
        }
    }
    for (place, &operation) in sequence.iter().enumerate() {
        let index = place as u32;
        match model.kinds[operation as usize] {
            Kind::Run => keyed.push(((index, 1, 0), Event::Run(operation))),
            Kind::Stored { .. } => {}
            Kind::Load { value, link } => {
                let run = next_run[place];
                let waits = run == NONE || model.reads.of(sequence[run as usize]).contains(&value);
                let key = if run == NONE {
                    (index, 2, NONE)
                } else {
                    (run, if waits { 0 } else { 2 }, stores.len() as u32 + index)
                };
                keyed.push((key, Event::Load { value, link }));
            }
        }
    }
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, event)| event).collect()
}

/// Lists each store: the place of the sequence after which it is issued, its value and its link, in the
/// order in which the stores end.
fn stores(model: &Model, sequence: &[u32]) -> Vec<(u32, u32, u32)> {
    // `last_use`: place of the last reader of each copy. `copy`: current copy of each value.
    let mut last_use: Vec<u32> = vec![0; model.values()];
    let mut copy: Vec<u32> = (0..model.values() as u32).collect();
    let mut wanted = Vec::new();
    let mut is_stored = vec![false; model.values()];
    for (place, &operation) in sequence.iter().enumerate() {
        if let Kind::Stored { value, link } = model.kinds[operation as usize] {
            if !std::mem::replace(&mut is_stored[value as usize], true) {
                wanted.push((copy[value as usize], value, link));
            }
            continue;
        }
        for &value in model.reads.of(operation) {
            last_use[copy[value as usize] as usize] = place as u32;
        }
        for &value in model.writes.of(operation) {
            copy[value as usize] = last_use.len() as u32;
            last_use.push(place as u32);
        }
    }
    let mut latest = std::collections::BTreeMap::new();
    let listed = |(copy, value, link): (u32, u32, u32)| {
        let after = latest.entry(link).or_insert(0);
        *after = last_use[copy as usize].max(*after);
        (*after, value, link)
    };
    wanted.into_iter().map(listed).collect()
}
