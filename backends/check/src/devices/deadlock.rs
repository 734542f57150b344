//! Rule 4, no deadlock: the events of all devices, with each receive behind its send, and each collective at
//! once on all its devices, have no cycle. If a send also waits for its receive (a rendezvous), the program
//! may still hold; a remark says if not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memc_layout::devices::{Carried, Collective, Event, Manifest};

use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(manifest: &Manifest, findings: &mut Findings) {
    match stuck(&manifest.program, &manifest.collectives, false) {
        Some((device, position)) => {
            let message =
                format!("deadlock: {device} never gets past event {position}, whatever the others do");
            findings.add(Kind::Deadlock, At::default(), message);
        }
        None => {
            if let Some((device, position)) = stuck(&manifest.program, &manifest.collectives, true) {
                let text = "sends must be buffered: if each one waits for its receive";
                findings.remark(format!("{text}, {device} never gets past event {position}"));
            }
        }
    }
}

/// Returns a device that never ends its program, and the event at which it waits; `None` if all end. With
/// `rendezvous`, a send ends when it is received. Messages of equal ends, value and run match in order.
///
/// A Kahn network: each event can only enable others, so running whatever can run decides. O(events log
/// events), times the devices for collectives.
pub(super) fn stuck<'p>(
    program: &'p BTreeMap<String, Vec<Event>>,
    collectives: &[Collective],
    rendezvous: bool,
) -> Option<(&'p str, usize)> {
    let members: BTreeMap<&str, &[String]> =
        collectives.iter().map(|row| (row.value.as_str(), row.devices.as_slice())).collect();
    let devices: Vec<&String> = program.keys().collect();
    let number: BTreeMap<&str, usize> =
        devices.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
    let mut at = vec![0_usize; devices.len()];
    // Sent and not yet received, by sender, receiver, value and run.
    let mut under_way: BTreeMap<(&str, &str, &str, u64), u64> = BTreeMap::new();
    let mut open: VecDeque<usize> = (0..devices.len()).collect();
    while let Some(device) = open.pop_front() {
        let own = devices[device].as_str();
        while let Some(event) = program[own].get(at[device]) {
            match event {
                Event::Send { value, micro_batch, to } => {
                    if rendezvous {
                        let Some(&peer) = number.get(to.as_str()) else { break };
                        let meets = matches!(program[devices[peer].as_str()].get(at[peer]), Some(Event::Recv { value: other, micro_batch: run, from })
                            if other == value && run == micro_batch && from == own);
                        if !meets || peer == device {
                            break;
                        }
                        at[peer] += 1;
                        open.push_back(peer);
                    } else {
                        *under_way.entry((own, to, value, *micro_batch)).or_default() += 1;
                        open.extend(number.get(to.as_str()));
                    }
                }
                Event::Recv { value, micro_batch, from } => {
                    if rendezvous {
                        // The sender steps over both; it may be waiting for this.
                        open.extend(number.get(from.as_str()).filter(|peer| {
                            meets_send(&program[devices[**peer].as_str()], at[**peer], own, event)
                        }));
                        break;
                    }
                    match under_way
                        .get_mut(&(from.as_str(), own, value.as_str(), *micro_batch))
                        .filter(|count| **count > 0)
                    {
                        Some(count) => *count -= 1,
                        None => break,
                    }
                }
                Event::Collect(Carried { value, .. }) | Event::Offer(Carried { value, .. }) => {
                    let peers = members.get(value.as_str()).copied().unwrap_or_default();
                    let peers: BTreeSet<usize> =
                        peers.iter().filter_map(|peer| number.get(peer.as_str()).copied()).collect();
                    let is_there = |peer: &usize| {
                        collected(program[devices[*peer].as_str()].get(at[*peer])) == Some(value)
                    };
                    if !peers.contains(&device) || !peers.iter().all(is_there) {
                        break;
                    }
                    for peer in peers.into_iter().filter(|peer| *peer != device) {
                        at[peer] += 1;
                        open.push_back(peer);
                    }
                }
                Event::Feed(_)
                | Event::Run { .. }
                | Event::Share(_)
                | Event::Join(_)
                | Event::Give(_)
                | Event::Free(_) => {}
            }
            at[device] += 1;
        }
    }
    let ends = devices.iter().zip(at);
    ends.into_iter()
        .find(|(name, at)| *at < program[name.as_str()].len())
        .map(|(name, at)| (name.as_str(), at))
}

/// The value of a collective in which an event takes part.
fn collected(event: Option<&Event>) -> Option<&String> {
    match event {
        Some(Event::Collect(Carried { value, .. }) | Event::Offer(Carried { value, .. })) => Some(value),
        _ => None,
    }
}

/// Whether the event of a sender is the send of a receive.
fn meets_send(events: &[Event], at: usize, receiver: &str, receive: &Event) -> bool {
    let Event::Recv { value, micro_batch, .. } = receive else { return false };
    matches!(events.get(at), Some(Event::Send { value: other, micro_batch: run, to }) if other == value && run == micro_batch && to == receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudorandom numbers (a linear congruential generator, high bits).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Whether some way of taking turns ends all programs, by trying all of them.
    fn can_end(program: &BTreeMap<String, Vec<Event>>, collectives: &[Collective], rendezvous: bool) -> bool {
        let devices: Vec<&String> = program.keys().collect();
        let start = vec![0_usize; devices.len()];
        let (mut seen, mut open) = (BTreeSet::from([start.clone()]), vec![start]);
        while let Some(at) = open.pop() {
            if devices.iter().zip(&at).all(|(name, at)| *at == program[*name].len()) {
                return true;
            }
            for (device, name) in devices.iter().enumerate() {
                let next = match program[*name].get(at[device]) {
                    None => continue,
                    Some(event @ (Event::Collect(_) | Event::Offer(_))) => {
                        // The first of its devices moves all of them.
                        let members =
                            collectives.iter().find(|row| Some(&row.value) == collected(Some(event)));
                        let members: Vec<usize> = members.map_or(Vec::new(), |row| {
                            row.devices
                                .iter()
                                .filter_map(|own| devices.iter().position(|name| *name == own))
                                .collect()
                        });
                        let is_there = |own: &usize| {
                            collected(program[devices[*own]].get(at[*own])) == collected(Some(event))
                        };
                        if members.first() != Some(&device) || !members.iter().all(is_there) {
                            continue;
                        }
                        let mut next = at.clone();
                        members.iter().for_each(|own| next[*own] += 1);
                        next
                    }
                    Some(Event::Recv { value, micro_batch, from }) => {
                        if rendezvous {
                            continue;
                        }
                        let count = |name: &String, upto: usize, event: &Event| {
                            program[name][..upto].iter().filter(|other| *other == event).count()
                        };
                        let send = Event::Send {
                            value: value.clone(),
                            micro_batch: *micro_batch,
                            to: (*name).clone(),
                        };
                        let sender = devices.iter().position(|other| *other == from).unwrap_or(device);
                        let receive = program[*name][at[device]].clone();
                        if count(from, at[sender], &send) <= count(name, at[device], &receive) {
                            continue;
                        }
                        let mut next = at.clone();
                        next[device] += 1;
                        next
                    }
                    Some(Event::Send { value, micro_batch, to }) if rendezvous => {
                        let peer = devices.iter().position(|other| *other == to).unwrap_or(device);
                        let receive = Event::Recv {
                            value: value.clone(),
                            micro_batch: *micro_batch,
                            from: (*name).clone(),
                        };
                        if peer == device || program[to].get(at[peer]) != Some(&receive) {
                            continue;
                        }
                        let mut next = at.clone();
                        next[device] += 1;
                        next[peer] += 1;
                        next
                    }
                    Some(_) => {
                        let mut next = at.clone();
                        next[device] += 1;
                        next
                    }
                };
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        false
    }

    #[test]
    fn random_programs_agree_with_a_search_of_all_turns() {
        let mut numbers = Numbers(7);
        let mut found = [[0_u32; 2]; 2];
        let mut joint = [0_u32; 2];
        for _ in 0..1500 {
            let count = 2 + numbers.below(3) as usize;
            let mut program: BTreeMap<String, Vec<Event>> =
                (0..count).map(|device| (format!("d{device}"), Vec::new())).collect();
            for message in 0..1 + numbers.below(6) {
                let from = numbers.below(count as u64);
                let to = (from + 1 + numbers.below(count as u64 - 1)) % count as u64;
                let (from, to) = (format!("d{from}"), format!("d{to}"));
                let (value, micro_batch) = (format!("v{}", message % 3), numbers.below(2));
                let send = Event::Send { value: value.clone(), micro_batch, to: to.clone() };
                let receive = Event::Recv { value, micro_batch, from: from.clone() };
                for (device, event) in [(from, send), (to, receive)] {
                    // Mostly in order, sometimes anywhere, and a few lack their other end.
                    let events = program.entry(device).or_default();
                    let place = if numbers.below(3) == 0 {
                        numbers.below(events.len() as u64 + 1) as usize
                    } else {
                        events.len()
                    };
                    if numbers.below(25) > 0 {
                        events.insert(place, event);
                    }
                }
            }
            // Collectives of some devices, in half of the programs.
            let mut collectives: Vec<Collective> = Vec::new();
            for number in 0..numbers.below(2) * (1 + numbers.below(3)) {
                let row = Collective {
                    value: format!("c{number}"),
                    devices: program.keys().filter(|_| numbers.below(5) > 0).cloned().collect(),
                    ..Collective::default()
                };
                for device in &row.devices {
                    let events = program.entry(device.clone()).or_default();
                    let carried = Carried { value: row.value.clone(), micro_batch: 2 };
                    let event =
                        if numbers.below(2) > 0 { Event::Collect(carried) } else { Event::Offer(carried) };
                    let place = if numbers.below(3) == 0 {
                        numbers.below(events.len() as u64 + 1) as usize
                    } else {
                        events.len()
                    };
                    if numbers.below(25) > 0 {
                        events.insert(place, event);
                    }
                }
                collectives.push(row);
            }
            for rendezvous in [false, true] {
                let ends = stuck(&program, &collectives, rendezvous).is_none();
                assert_eq!(ends, can_end(&program, &collectives, rendezvous), "{rendezvous} {program:?}");
                found[usize::from(rendezvous)][usize::from(ends)] += 1;
                joint[usize::from(ends)] += u32::from(!collectives.is_empty());
            }
        }
        assert!(found.iter().flatten().chain(&joint).all(|count| *count > 100), "{found:?} {joint:?}");
    }
}
