//! Rule 5, order of events: a section runs behind its inputs, once a run; parts are joined in order; values
//! are sent while they are held and freed once, after their last use.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::devices::{Carried, Event, Section};

use super::{Ctx, Key};
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let devices: BTreeSet<&str> =
        ctx.manifest.sections.iter().flat_map(Section::devices).map(String::as_str).collect();
    for device in devices {
        let mut replay = Replay::new(ctx, device);
        let events = ctx.manifest.program.get(device).map(Vec::as_slice).unwrap_or_default();
        for (at, event) in events.iter().enumerate() {
            for message in replay.event(event) {
                findings.add(Kind::EventOrder, At::default(), format!("{device}, event {at}: {message}"));
            }
        }
        replay.end(findings);
    }
}

/// A device in the middle of its program.
struct Replay<'r, 'c> {
    ctx: &'r Ctx<'c>,
    device: &'c str,
    /// Positions of its sections.
    own: Vec<usize>,
    held: BTreeSet<Key<'c>>,
    /// Runs of sections that happened.
    ran: BTreeSet<(usize, u64)>,
    /// Number of parts of each value that were joined.
    joined: BTreeMap<&'c str, u64>,
    /// For each value of a run: the runs of sections that read it.
    readers: BTreeMap<Key<'c>, BTreeSet<(usize, u64)>>,
}

impl<'r, 'c> Replay<'r, 'c> {
    fn new(ctx: &'r Ctx<'c>, device: &'c str) -> Self {
        let own = ctx.sections_of(device);
        let mut readers: BTreeMap<Key<'c>, BTreeSet<(usize, u64)>> = BTreeMap::new();
        for &position in &own {
            for run in ctx.runs_on(position, device) {
                for input in &ctx.inputs[position] {
                    readers.entry(ctx.key(input, position, run)).or_default().insert((position, run));
                }
            }
        }
        Self {
            ctx,
            device,
            own,
            held: BTreeSet::new(),
            ran: BTreeSet::new(),
            joined: BTreeMap::new(),
            readers,
        }
    }

    /// Follows an event; returns what is wrong with it.
    fn event(&mut self, event: &'c Event) -> Vec<String> {
        let mut wrong = Vec::new();
        match event {
            Event::Feed(Carried { value, micro_batch }) | Event::Recv { value, micro_batch, .. } => {
                let key = (value.as_str(), *micro_batch);
                match self.readers.get(&key) {
                    None => wrong.push(format!("the section does not read `{value}` of run {micro_batch}")),
                    Some(readers) if readers.is_subset(&self.ran) => {
                        wrong.push(format!("`{value}` arrives after the section ran"));
                    }
                    Some(_) => {}
                }
                if !self.held.insert(key) {
                    wrong.push(format!("`{value}` is already held"));
                }
            }
            Event::Run { micro_batch, section } => self.run(*micro_batch, section.as_ref(), &mut wrong),
            Event::Share(Carried { value, micro_batch }) => {
                let step = self.ctx.step.unwrap_or(0);
                let is_whole = self.held.contains(&(value.as_str(), step))
                    && *micro_batch < step
                    && self.is_shared_here(value);
                if !is_whole || !self.held.insert((value, *micro_batch)) {
                    wrong.push(format!(
                        "run {micro_batch} takes no share of `{value}` here, or holds it already"
                    ));
                }
            }
            Event::Join(Carried { value, micro_batch }) => self.join(value, *micro_batch, &mut wrong),
            Event::Collect(Carried { value, micro_batch }) => {
                self.collect(value, *micro_batch, true, &mut wrong)
            }
            Event::Offer(Carried { value, micro_batch }) => {
                self.collect(value, *micro_batch, false, &mut wrong)
            }
            Event::Send { value, micro_batch, .. } | Event::Give(Carried { value, micro_batch }) => {
                let key = (value.as_str(), *micro_batch);
                let makes = |position: &usize| self.ctx.outputs[*position].contains(value.as_str());
                let is_own = self.ctx.gets(self.device, value) || self.own.iter().any(makes);
                if !is_own || !self.held.contains(&key) || !self.is_complete(key) {
                    wrong.push(format!("`{value}` of run {micro_batch} is not held here"));
                }
            }
            Event::Free(Carried { value, micro_batch }) => {
                let key = (value.as_str(), *micro_batch);
                if !self.held.remove(&key) {
                    wrong.push(format!("`{value}` of run {micro_batch} is freed and not held"));
                }
                if self.readers.get(&key).is_some_and(|readers| !readers.is_subset(&self.ran)) {
                    wrong.push(format!("`{value}` is freed before the section ran"));
                }
                let is_joined = self.is_joined_here(value);
                let is_added = self.joined.get(value.as_str()).is_some_and(|count| *micro_batch < *count);
                if is_joined && Some(*micro_batch) != self.ctx.step && !is_added {
                    wrong.push(format!("`{value}` of run {micro_batch} is freed before it is joined"));
                }
            }
        }
        wrong
    }

    fn run(&mut self, run: u64, section: Option<&String>, wrong: &mut Vec<String>) {
        let ctx = self.ctx;
        let Some(position) = ctx.section_of(self.device, section) else {
            wrong.push(format!("the device has no section `{}` to run", section.map_or("", String::as_str)));
            return;
        };
        let keys = ctx.inputs[position].iter().map(|input| ctx.key(input, position, run));
        if let Some((input, _)) =
            keys.into_iter().find(|key| !self.held.contains(key) || !self.is_complete(*key))
        {
            wrong.push(format!("run {run} lacks `{input}`"));
        }
        if !self.ran.insert((position, run)) || !ctx.runs_on(position, self.device).contains(&run) {
            wrong.push(format!("run {run} is not one of the program's, or happened before"));
        }
        for output in &ctx.outputs[position] {
            if !self.held.insert(ctx.key(output, position, run)) {
                wrong.push(format!("`{output}` of run {run} is already held"));
            }
        }
    }

    /// The section of this device that makes a value with parts; `None` if there is none.
    fn maker(&self, value: &str) -> Option<usize> {
        let crossing =
            self.ctx.crossing(value).filter(|value| value.joined.is_some() && self.ctx.step.is_some());
        let maker = crossing
            .and_then(|value| value.from.as_ref())
            .and_then(|from| self.ctx.position.get(from.as_str()));
        maker.copied().filter(|maker| self.own.contains(maker))
    }

    /// Whether sections of this device make the parts of a value that is joined.
    fn is_joined_here(&self, value: &str) -> bool {
        self.maker(value).is_some_and(|maker| !self.ctx.is_once(maker))
    }

    /// Whether a section of this device makes a value of which parts take shares.
    fn is_shared_here(&self, value: &str) -> bool {
        let is_joined = self.ctx.crossing(value).is_some_and(|value| value.joined.is_some());
        let is_got = is_joined && self.ctx.gets(self.device, value) && self.maker(value).is_none();
        is_got || self.maker(value).is_some_and(|maker| self.ctx.is_once(maker))
    }

    /// Whether a value that is joined here has all parts.
    fn is_complete(&self, (value, run): Key<'_>) -> bool {
        let is_sum = Some(run) == self.ctx.step && self.is_joined_here(value);
        !is_sum || self.joined.get(value) == self.ctx.step.as_ref()
    }

    fn join(&mut self, value: &'c str, run: u64, wrong: &mut Vec<String>) {
        let step = self.ctx.step.unwrap_or(0);
        if !self.is_joined_here(value)
            || !self.held.contains(&(value, run))
            || run >= step
            || self.ctx.is_data()
        {
            wrong.push(format!("`{value}` of run {run} is not joined here"));
            return;
        }
        let count = self.joined.entry(value).or_default();
        if *count != run {
            wrong.push(format!("`{value}` of run {run} is joined behind {count} parts"));
        }
        *count = count.saturating_add(1);
        if run == 0 && !self.held.insert((value, step)) {
            wrong.push(format!("`{value}` of the step is already held"));
        }
    }

    /// The value of a collective: the device holds its own part, or the whole of which it is the root, and
    /// afterwards the whole if it gets it.
    fn collect(&mut self, value: &'c str, run: u64, gets: bool, wrong: &mut Vec<String>) {
        let ctx = self.ctx;
        let makes = |position: &usize| ctx.outputs[*position].contains(value);
        let maker = self.own.iter().copied().find(makes);
        let own = maker.map(|maker| (maker, ctx.runs_on(maker, self.device)));
        let lacks = own.iter().flat_map(|(maker, runs)| runs.iter().map(|run| ctx.key(value, *maker, *run)));
        if lacks.into_iter().any(|key| !self.held.contains(&key)) {
            wrong.push(format!("`{value}` is not held here, and other devices need it"));
        }
        if Some(run) != ctx.step
            || gets != ctx.gets(self.device, value)
            || !ctx.collective.contains_key(value)
        {
            wrong.push(format!(
                "`{value}` of run {run} has no collective of which the device takes that part"
            ));
            return;
        }
        if self.joined.insert(value, run).is_some() || gets && !self.held.insert((value, run)) {
            wrong.push(format!("`{value}` of the step is already held"));
        }
    }

    fn end(&self, findings: &mut Findings) {
        let device = self.device;
        if let Some((value, run)) = self.held.first() {
            let message = format!("{device} never frees `{value}` of run {run}");
            findings.add(Kind::EventOrder, At::tensor(value), message);
        }
        for &position in &self.own {
            let count = self.ran.iter().filter(|(section, _)| *section == position).count() as u64;
            let is_shared = !self.ctx.manifest.sections[position].devices.is_empty();
            let wanted =
                if is_shared || self.ctx.is_once(position) { 1 } else { self.ctx.manifest.micro_batches };
            if count != wanted {
                let name = self.ctx.manifest.sections[position].name();
                let message = format!("{device} runs {name} {count} times, not {wanted}");
                findings.add(Kind::EventOrder, At::default(), message);
            }
        }
    }
}
