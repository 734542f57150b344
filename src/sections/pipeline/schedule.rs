//! Programs of a pipeline: the order of forward and backward runs on each device, and the events around them.
//!
//! Every device sends what it has made behind the run that made it. A device receives, before a run, all
//! messages of a sender up to the last one that the run needs: so both ends of a pair see one order. A value
//! is freed behind its last use.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memc_layout::devices::{Carried, Event, Phase, Schedule};

use super::super::cut::{Cut, makers, readers};
use super::super::graph::Graph;
use super::super::manifest::Joins;
use super::super::options::Devices;

/// A run of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Position of the section.
    cut: usize,
    run: u64,
}

/// A value of a run.
pub(super) type Key<'c> = (&'c str, u64);

/// Returns the events of each rank.
///
/// A value whose storage its new value takes is freed behind the new one.
pub(super) fn programs(cuts: &[Cut], devices: &Devices, joins: &Joins, graph: &Graph<'_>) -> Vec<Vec<Event>> {
    let story = Story {
        cuts,
        maker: makers(cuts),
        readers: readers(cuts),
        joins,
        outputs: graph.outputs.iter().map(String::as_str).collect(),
        parts: devices.micro_batches,
    };
    let slots: Vec<Vec<Slot>> = (0..devices.count).map(|rank| story.slots(rank, devices.count)).collect();
    let mut mail: BTreeMap<(usize, usize), VecDeque<Key<'_>>> = BTreeMap::new();
    for (rank, slots) in slots.iter().enumerate() {
        for slot in slots {
            for (to, key) in story.sends(*slot, slots) {
                mail.entry((rank, to)).or_default().push_back(key);
            }
        }
    }
    let mut all = Vec::new();
    for (rank, slots) in slots.iter().enumerate() {
        all.push(ended(story.events(rank, slots, &mut mail), graph));
    }
    all
}

/// Adds the events that free values. An old value is used as long as the new one in its storage.
pub(super) fn ended<'c>(mut events: Vec<(Event, Vec<Key<'c>>)>, graph: &'c Graph<'_>) -> Vec<Event> {
    let kept: BTreeMap<&str, &str> =
        graph.pairs.iter().map(|pair| (pair.new.as_str(), pair.old.as_str())).collect();
    let here: BTreeSet<Key<'_>> = events.iter().flat_map(|(_, used)| used).copied().collect();
    for (_, used) in &mut events {
        let old = |(name, run): &Key<'_>| Some((*kept.get(name)?, *run)).filter(|key| here.contains(key));
        let olds: Vec<Key<'_>> = used.iter().filter_map(old).collect();
        used.extend(olds);
    }
    freed(&events, &kept.values().copied().collect())
}

struct Story<'c> {
    cuts: &'c [Cut],
    maker: BTreeMap<&'c str, usize>,
    readers: BTreeMap<&'c str, Vec<usize>>,
    joins: &'c Joins,
    outputs: BTreeSet<&'c str>,
    parts: u64,
}

impl<'c> Story<'c> {
    /// Number of the run of the step.
    fn step(&self) -> u64 {
        if self.parts > 1 { self.parts } else { 0 }
    }

    fn is_once(&self, cut: usize) -> bool {
        self.parts > 1 && self.cuts[cut].portion.phase.is_some_and(Phase::is_once)
    }

    /// The value that a run of a section reads or makes under a name.
    fn key(&self, name: &'c str, slot: Slot) -> Key<'c> {
        let is_whole = self.is_once(slot.cut) || self.joins.once.contains(name);
        (name, if is_whole { self.step() } else { slot.run })
    }

    /// The runs of a device, in order.
    fn slots(&self, rank: usize, ranks: usize) -> Vec<Slot> {
        let of = |phase: Phase| -> Vec<usize> {
            let own = self.cuts.iter().enumerate();
            own.filter(|(_, cut)| cut.portion.rank == rank && cut.portion.phase == Some(phase))
                .map(|(at, _)| at)
                .collect()
        };
        let once = |cuts: Vec<usize>| cuts.into_iter().map(|cut| Slot { cut, run: self.step() });
        let runs = |phase: Phase, run: u64| of(phase).into_iter().map(move |cut| Slot { cut, run });
        let mut slots: Vec<Slot> = once(of(Phase::Prepare)).collect();
        let ahead = match self.joins.pipeline.schedule {
            Schedule::OneForwardOneBackward => self.parts.min((ranks - 1 - rank) as u64),
            Schedule::Gpipe | Schedule::Data => self.parts,
        };
        for run in 0..self.parts + ahead {
            if run < self.parts {
                slots.extend(runs(Phase::Forward, run));
            }
            if let Some(back) = run.checked_sub(ahead).filter(|back| *back < self.parts) {
                slots.extend(runs(Phase::Backward, back));
            }
        }
        slots.extend(once(of(Phase::Update)));
        slots
    }

    /// Whether this is the last run of its section.
    fn is_last(slot: Slot, slots: &[Slot]) -> bool {
        slots.iter().rfind(|other| other.cut == slot.cut) == Some(&slot)
    }

    /// Messages behind a run: receiver and value, in order.
    fn sends(&self, slot: Slot, slots: &[Slot]) -> Vec<(usize, Key<'c>)> {
        let mut sent: BTreeSet<(usize, Key<'c>)> = BTreeSet::new();
        let rank = self.cuts[slot.cut].portion.rank;
        let is_made_once = self.is_once(slot.cut);
        for name in &self.cuts[slot.cut].outputs {
            for &reader in self.readers.get(name.as_str()).into_iter().flatten() {
                let to = self.cuts[reader].portion.rank;
                let is_joined = self.is_once(reader) && self.joins.joined.contains_key(name);
                if is_made_once && to != rank && self.joins.joined.contains_key(name) && !self.is_once(reader)
                {
                    sent.extend((0..self.parts).map(|run| (to, (name.as_str(), run))));
                    continue;
                }
                if to == rank || is_joined && !Self::is_last(slot, slots) {
                    continue;
                }
                sent.insert((to, if is_joined { (name, self.step()) } else { self.key(name, slot) }));
            }
        }
        sent.into_iter().collect()
    }

    /// Events of a device without those that free values.
    fn events(
        &self,
        rank: usize,
        slots: &[Slot],
        mail: &mut BTreeMap<(usize, usize), VecDeque<Key<'c>>>,
    ) -> Vec<(Event, Vec<Key<'c>>)> {
        let mut events: Vec<(Event, Vec<Key<'c>>)> = Vec::new();
        let mut here: BTreeSet<Key<'c>> = BTreeSet::new();
        for slot in slots {
            let cut = &self.cuts[slot.cut];
            let read: Vec<Key<'c>> = cut.inputs.iter().map(|name| self.key(name, *slot)).collect();
            for &(value, run) in &read {
                let Some(maker) = self.maker.get(value) else {
                    if here.insert((value, run)) {
                        let key = (value, run);
                        events.push((Event::Feed(carried(key)), vec![key]));
                    }
                    continue;
                };
                let from = self.cuts[*maker].portion.rank;
                let Some(queue) = mail.get_mut(&(from, rank)).filter(|_| from != rank) else { continue };
                while !here.contains(&(value, run)) {
                    let Some(key) = queue.pop_front() else { break };
                    here.insert(key);
                    let Carried { value, micro_batch } = carried(key);
                    events.push((Event::Recv { value, micro_batch, from: Devices::name(from) }, vec![key]));
                }
            }
            let made: Vec<Key<'c>> = cut.outputs.iter().map(|name| self.key(name, *slot)).collect();
            let run = Event::Run { micro_batch: slot.run, section: Some(cut.portion.name.clone()) };
            events.push((run, read.into_iter().chain(made.iter().copied()).collect()));
            let is_last = Self::is_last(*slot, slots);
            let joined = |name: &str| self.joins.joined.contains_key(name);
            for &key in made.iter().filter(|key| joined(key.0)) {
                if self.is_once(slot.cut) {
                    for share in (0..self.parts).map(|run| (key.0, run)) {
                        events.push((Event::Share(carried(share)), vec![share, key]));
                    }
                } else {
                    events.push((Event::Join(carried(key)), vec![key, (key.0, self.step())]));
                }
            }
            for (to, key) in self.sends(*slot, slots) {
                let Carried { value, micro_batch } = carried(key);
                events.push((Event::Send { value, micro_batch, to: Devices::name(to) }, vec![key]));
            }
            for &(name, run) in made.iter().filter(|key| self.outputs.contains(key.0)) {
                if !joined(name) || is_last {
                    let key = (name, if joined(name) { self.step() } else { run });
                    events.push((Event::Give(carried(key)), vec![key]));
                }
            }
        }
        events
    }
}

/// Adds the events that free values, each behind the last event that uses it, and those of `late` names last.
fn freed(events: &[(Event, Vec<Key<'_>>)], late: &BTreeSet<&str>) -> Vec<Event> {
    let mut last: BTreeMap<Key<'_>, usize> = BTreeMap::new();
    for (at, (_, used)) in events.iter().enumerate() {
        used.iter().for_each(|key| _ = last.insert(*key, at));
    }
    let mut frees: BTreeMap<usize, Vec<Key<'_>>> = BTreeMap::new();
    last.into_iter().for_each(|(key, at)| frees.entry(at).or_default().push(key));
    frees.values_mut().for_each(|keys| keys.sort_by_key(|(name, _)| late.contains(name)));
    let mut all = Vec::new();
    for (at, (event, _)) in events.iter().enumerate() {
        all.push(event.clone());
        all.extend(frees.get(&at).into_iter().flatten().map(|key| Event::Free(carried(*key))));
    }
    all
}

pub(super) fn carried((value, micro_batch): Key<'_>) -> Carried {
    Carried { value: value.to_owned(), micro_batch }
}
