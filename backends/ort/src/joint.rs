//! Plays several plans in joint arenas: one after another with values that are handed over, guests between
//! two steps of a host, or two in turns that only waits restrict.
//!
//! One plan runs at a time, on one thread. With the checking mode each plan is watched as when it runs alone;
//! the bytes of the other plans count as foreign, are not poisoned, and are compared when they are read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use memc_layout::Layout;
use memc_layout::joint::{Handoff, Joint, JointSync, Mode, Moment, placed};
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::content::digest;
use crate::element::Element;
use crate::error::Error;
use crate::guards::checksum;
use crate::inputs::Inputs;
use crate::memory::{ArenaMemory, Foreign, POISON};
use crate::options::PlayOptions;
use crate::played::{ArenaUse, Played};
use crate::player::{Beside, Player};
use crate::running::Run;
use crate::runtime::Runtime;
use crate::splitmix::SplitMix;

/// The files of a member.
#[derive(Clone, Copy, Debug)]
pub struct JointPart<'f> {
    /// Planned model.
    pub model: &'f ModelFile,
    /// Layout of the model.
    pub layout: &'f Layout,
}

/// A source of graph inputs: the position of the member that reads them.
pub type JointFeed<'a> = dyn Fn(usize) -> Result<Box<dyn Inputs + 'a>, Error> + 'a;

/// What a member did.
#[derive(Debug, Default)]
pub struct MemberUse {
    /// Name of the member.
    pub name: String,
    /// Digest of the graph outputs of each run.
    pub digests: Vec<String>,
    /// Graph outputs of the last run that are arrays.
    pub outputs: BTreeMap<String, Array>,
    /// Memory and time of the last run.
    pub played: Played,
    /// Steps of the host after which a guest ran.
    pub after: Vec<u64>,
}

/// What the members of a joint file did.
#[derive(Debug, Default)]
pub struct PlayedJoint {
    /// Members, in the order of the file.
    pub members: Vec<MemberUse>,
    /// Joint arenas: planned size, and end of the highest byte that a member was given.
    pub arenas: Vec<ArenaUse>,
}

/// When members of a joint file run, where the file leaves it open.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Steps of a host after which a guest runs, with the guest's position in `joint.members`.
    pub guests: Vec<(u64, usize)>,
    /// Periods of members that run at once.
    pub periods: u64,
    /// Seed of the order in which these take turns, of all orders that the waits allow.
    pub seed: u64,
}

/// Plays all members once in joint arenas, in the order of the file; members that repeat twice. In a nested
/// file, the host runs once, and each guest as `turns` says. Members that run at once take turns, a step at a
/// time, for the periods and in the order of `turns`.
///
/// # Errors
/// A member cannot be prepared or fails, lacks a place, or writes bytes of another one; or no step may begin.
pub fn play_joint(
    runtime: &Runtime,
    joint: &Joint,
    parts: &[JointPart<'_>],
    feed: &JointFeed<'_>,
    turns: &Turns,
    options: &PlayOptions,
) -> Result<PlayedJoint, Error> {
    let mut arenas = Vec::new();
    for arena in joint.arenas.iter().filter(|arena| !options.is_file(&arena.space)) {
        arenas.push((arena.space.as_str(), ArenaMemory::new(arena.size, arena.alignment)?));
    }
    let members =
        joint.members.iter().map(|member| MemberUse { name: member.name.clone(), ..MemberUse::default() });
    let mut stage = Joined { runtime, joint, parts, feed, options, arenas, members: members.collect() };
    match joint.mode {
        Mode::Serial => stage.serial()?,
        Mode::Nested => stage.nested(&turns.guests)?,
        Mode::Phased => stage.phased(turns)?,
    }
    let mut played = PlayedJoint { members: stage.members, arenas: Vec::new() };
    for arena in &joint.arenas {
        let uses = played
            .members
            .iter()
            .flat_map(|member| &member.played.arenas)
            .filter(|own| own.space == arena.space);
        let used = uses.map(|own| own.used).max().unwrap_or(0);
        played.arenas.push(ArenaUse { space: arena.space.clone(), planned: arena.size, used });
    }
    Ok(played)
}

/// Members in the middle of their runs.
struct Joined<'j, 'f, 'r> {
    runtime: &'r Runtime,
    joint: &'j Joint,
    parts: &'j [JointPart<'j>],
    feed: &'j JointFeed<'f>,
    options: &'j PlayOptions,
    /// Joint arenas by space; none for spaces that are files.
    arenas: Vec<(&'j str, ArenaMemory)>,
    members: Vec<MemberUse>,
}

impl<'r> Joined<'_, '_, 'r> {
    /// Prepares a member at its places.
    fn player(&self, member: usize, bases: &BTreeMap<String, u64>) -> Result<Player<'r>, Error> {
        let (part, row) = (self.part(member)?, &self.joint.members[member]);
        let lost = |source| Error::NoPlace { member: row.name.clone(), source };
        let layout = placed(part.layout, self.joint, row, bases).map_err(lost)?;
        let mut arenas = Vec::new();
        for arena in &layout.arenas {
            arenas.push(match self.arenas.iter().find(|(space, _)| *space == arena.space) {
                Some((_, memory)) => memory.shared(),
                None => ArenaMemory::new(0, arena.alignment)?,
            });
        }
        Player::beside(arenas, self.runtime, part.model, &layout, self.options.clone())
            .map_err(|error| self.on(member, error))
    }

    fn part(&self, member: usize) -> Result<&JointPart<'_>, Error> {
        let missing = || Error::Unsupported { what: "a joint file with other members than the given files" };
        self.parts.get(member).filter(|_| member < self.joint.members.len()).ok_or_else(missing)
    }

    /// Names the member of an error.
    fn on(&self, member: usize, error: Error) -> Error {
        let at = self.joint.members.get(member).map_or_else(String::new, |member| member.name.clone());
        Error::At { at, error: Box::new(error) }
    }

    /// Bytes of a handed-over value as those of a member's arena; `None` if the caller holds it.
    fn bytes(&self, handoff: &Handoff, member: usize) -> Option<Foreign> {
        let space = handoff.space.as_deref()?;
        let arena = self.parts.get(member)?.layout.arenas.iter().position(|arena| arena.space == space)?;
        let start = usize::try_from(handoff.offset?).ok()?;
        Some(Foreign { arena, start, end: start.checked_add(usize::try_from(handoff.bytes).ok()?)? })
    }

    /// Checksum of a handed-over value.
    fn sum(&self, handoff: &Handoff) -> Option<u64> {
        let (_, arena) = self.arenas.iter().find(|(space, _)| handoff.space.as_deref() == Some(*space))?;
        let start = usize::try_from(handoff.offset?).ok()?;
        let end = start.checked_add(usize::try_from(handoff.bytes).ok()?)?;
        arena.bytes().get(start..end).map(checksum)
    }

    fn position(&self, member: &str) -> usize {
        self.joint.members.iter().position(|row| row.name == member).unwrap_or(usize::MAX)
    }

    fn serial(&mut self) -> Result<(), Error> {
        let mut sums: Vec<Option<u64>> = vec![None; self.joint.handoffs.len()];
        let mut members = std::mem::take(&mut self.members);
        for member in 0..self.joint.members.len() {
            let row = &self.joint.members[member];
            let (done, rest) = members.split_at_mut(member);
            let Some(uses) = rest.first_mut() else { break };
            let mut player = self.player(member, &row.bases)?;
            let mut beside = Beside { is_shared: true, ..Beside::default() };
            let mut given: BTreeMap<&str, &Array> = BTreeMap::new();
            for (number, handoff) in self.joint.handoffs.iter().enumerate() {
                let (from, to) = (self.position(&handoff.from.member), self.position(&handoff.to.member));
                if from >= member || member > to {
                    continue;
                }
                if let Some(bytes) = self.bytes(handoff, member) {
                    beside.kept.push(bytes);
                    if member < to || row.repeats {
                        beside.foreign.push(bytes);
                    }
                }
                if member < to {
                    continue;
                }
                if handoff.space.is_none() {
                    // The caller passes its array on.
                    let made = done.get(from).and_then(|maker| maker.outputs.get(&handoff.from.tensor));
                    given.extend(made.map(|array| (handoff.to.tensor.as_str(), array)));
                    continue;
                }
                beside.ready.insert(handoff.to.tensor.clone());
                if sums[number] != self.sum(handoff) {
                    let writer = "a member that ran in between writes there".to_owned();
                    let (tensor, node) = (handoff.to.tensor.clone(), "begin of the run".to_owned());
                    return Err(self.on(member, Error::Clobbered { tensor, step: 0, node, writer }));
                }
            }
            for _ in 0..if row.repeats { 2 } else { 1 } {
                let inputs = Rest { others: (self.feed)(member)?, ready: &beside.ready, given: &given };
                run(&mut player, &inputs, &beside, uses).map_err(|error| self.on(member, error))?;
            }
            for (sum, handoff) in sums.iter_mut().zip(&self.joint.handoffs) {
                if self.position(&handoff.from.member) == member {
                    *sum = self.sum(handoff);
                }
            }
        }
        self.members = members;
        Ok(())
    }

    fn nested(&mut self, guests: &[(u64, usize)]) -> Result<(), Error> {
        let mut host = self.player(0, &self.joint.members[0].bases)?;
        let mut prepared: BTreeMap<(usize, BTreeMap<String, u64>), Player<'r>> = BTreeMap::new();
        for (after, guest) in guests {
            let bases = self.bases(*after, *guest)?;
            if let Entry::Vacant(place) = prepared.entry((*guest, bases.clone())) {
                place.insert(self.player(*guest, &bases)?);
            }
        }
        let beside = Beside { is_shared: true, ..Beside::default() };
        let mut state = host.begin(&*(self.feed)(0)?, &beside).map_err(|error| self.on(0, error))?;
        let mut steps = Ok(());
        for position in 0..host.steps().len() {
            steps = host.step(position, &mut state, &mut |_, _, _| Ok(())).map_err(|error| self.on(0, error));
            for (after, guest) in guests.iter().filter(|(after, _)| *after == position as u64) {
                if steps.is_err() {
                    break;
                }
                let bases = self.bases(*after, *guest)?;
                let Some(player) = prepared.get_mut(&(*guest, bases.clone())) else { continue };
                steps = self.visit(*guest, &bases, player).map_err(|error| self.on(*guest, error));
                self.members[*guest].after.push(*after);
            }
            if steps.is_err() {
                break;
            }
        }
        let played = host.end(state, steps)?;
        record(&host, played, &mut self.members[0])
    }

    /// Plays both members for some periods, a step at a time. Each step is one of those whose waits are over.
    fn phased(&mut self, turns: &Turns) -> Result<(), Error> {
        let count = self.joint.members.len();
        let (mut players, mut besides, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for member in 0..count {
            let player = self.player(member, &self.joint.members[member].bases)?;
            // The other member may use all other bytes at any time, so they are neither poisoned nor guarded.
            let all = self.part(member)?.layout.arenas.iter().enumerate();
            let sizes =
                all.map(|(arena, own)| (arena, self.arenas.iter().find(|(space, _)| *space == own.space)));
            let foreign = sizes.map(|(arena, memory)| Foreign {
                arena,
                start: 0,
                end: memory.map_or(0, |(_, memory)| memory.size()),
            });
            let foreign: Vec<Foreign> = foreign.collect();
            besides.push(Beside { is_shared: true, kept: foreign.clone(), foreign, ..Beside::default() });
            let steps = player.steps().len() as u64;
            runs.push(Progress {
                steps,
                positions: steps.saturating_mul(self.joint.members[member].runs),
                done: 0,
                run: None,
            });
            players.push(player);
        }
        let mut random = SplitMix(turns.seed);
        let mut last = 0;
        loop {
            let may_run = |member: &usize| self.may_run(*member, &runs, turns.periods);
            let open: Vec<usize> = (0..count).filter(may_run).collect();
            if open.is_empty() {
                break;
            }
            // Long runs of one member and quick turns find different faults.
            let stays = random.below(4) != 0 && open.contains(&last);
            last = if stays { last } else { open[random.below(open.len() as u64) as usize] };
            let (player, progress) = (&mut players[last], &mut runs[last]);
            let position = usize::try_from(progress.done % progress.steps.max(1)).unwrap_or(0);
            let mut state = match progress.run.take() {
                Some(state) => state,
                None => player
                    .begin(&*(self.feed)(last)?, &besides[last])
                    .map_err(|error| self.on(last, error))?,
            };
            let step = player
                .step(position, &mut state, &mut |_, _, _| Ok(()))
                .map_err(|error| self.on(last, error));
            progress.done += 1;
            if step.is_ok() && !progress.done.is_multiple_of(progress.steps) {
                progress.run = Some(state);
                continue;
            }
            let played = player.end(state, step)?;
            record(player, played, &mut self.members[last])?;
        }
        let is_over = |progress: &Progress| progress.done >= progress.positions.saturating_mul(turns.periods);
        match runs.iter().position(|progress| !is_over(progress)) {
            Some(member) => {
                Err(Error::Stuck { member: self.joint.members[member].name.clone(), step: runs[member].done })
            }
            None => Ok(()),
        }
    }

    /// Whether the next step of a member may begin.
    fn may_run(&self, member: usize, runs: &[Progress], periods: u64) -> bool {
        let own = &runs[member];
        if own.positions == 0 || own.done >= own.positions.saturating_mul(periods) {
            return false;
        }
        let position = |moment: &Moment| {
            let of = self.position(&moment.member);
            let steps = runs.get(of)?.steps;
            Some((of, i128::from(moment.run.checked_mul(steps)?.checked_add(moment.step)?)))
        };
        let is_over = |row: &JointSync| {
            let Some((_, before)) = position(&row.before).filter(|(of, _)| *of == member) else {
                return true;
            };
            let Some((other, after)) = position(&row.after) else { return false };
            // The waits of earlier steps hold too, also those of periods that are never run.
            let period = (i128::from(own.done) - before).div_euclid(i128::from(own.positions))
                - i128::from(row.periods_later);
            let length = i128::from(runs[other].positions);
            let until = (period * length + after + 1).min(length * i128::from(periods));
            period < 0 || until <= i128::from(runs[other].done)
        };
        self.joint.sync.iter().all(is_over)
    }

    /// First bytes of a guest's arenas at a boundary.
    fn bases(&self, after: u64, guest: usize) -> Result<BTreeMap<String, u64>, Error> {
        let name = self.joint.members.get(guest).map_or("", |member| member.name.as_str());
        let runs = self.joint.admissions.iter();
        let found =
            runs.clone().find(|run| run.guest == name && run.after[0] <= after && after <= run.after[1]);
        let missing = || Error::NotAdmitted { guest: name.to_owned(), after };
        found.map(|run| run.bases.clone()).ok_or_else(missing)
    }

    /// Runs a guest from its first step to its last one, and leaves poison in its place.
    fn visit(
        &mut self,
        guest: usize,
        bases: &BTreeMap<String, u64>,
        player: &mut Player<'r>,
    ) -> Result<(), Error> {
        let mut beside = Beside { is_shared: true, ..Beside::default() };
        let mut own = Vec::new();
        for (number, arena) in self.part(guest)?.layout.arenas.iter().enumerate() {
            let Some((_, memory)) = self.arenas.iter().find(|(space, _)| *space == arena.space) else {
                continue;
            };
            let base = usize::try_from(bases.get(&arena.space).copied().unwrap_or(0)).unwrap_or(usize::MAX);
            let end =
                base.saturating_add(usize::try_from(arena.size).unwrap_or(usize::MAX)).min(memory.size());
            beside.foreign.push(Foreign { arena: number, start: 0, end: base.min(end) });
            beside.foreign.push(Foreign { arena: number, start: end, end: memory.size() });
            own.push((number, base.min(end), end));
        }
        beside.kept.clone_from(&beside.foreign);
        let mut uses = std::mem::take(&mut self.members[guest]);
        let outcome = run(player, &*(self.feed)(guest)?, &beside, &mut uses);
        self.members[guest] = uses;
        if self.options.poison_check {
            for (arena, start, end) in own {
                if let Some(arena) = player.arenas_mut().get_mut(arena) {
                    arena.bytes_mut()[start..end].fill(POISON);
                }
            }
        }
        outcome
    }
}

/// How far a member that runs at once with another one has come.
struct Progress {
    /// Steps of a run.
    steps: u64,
    /// Steps of a period.
    positions: u64,
    /// Steps that have ended.
    done: u64,
    /// The run under way.
    run: Option<Run>,
}

/// Runs a player once among others.
fn run(
    player: &mut Player<'_>,
    inputs: &dyn Inputs,
    beside: &Beside,
    uses: &mut MemberUse,
) -> Result<(), Error> {
    let mut state = player.begin(inputs, beside)?;
    let count = player.steps().len();
    let steps = (0..count).try_for_each(|position| player.step(position, &mut state, &mut |_, _, _| Ok(())));
    let played = player.end(state, steps)?;
    record(player, played, uses)
}

/// Keeps the outputs of a run, whose bytes other members will use.
fn record(player: &Player<'_>, played: Played, uses: &mut MemberUse) -> Result<(), Error> {
    let contents = player.outputs()?;
    uses.digests.push(digest(&contents));
    for (name, content) in &contents {
        if let Some(view) = content.tensor() {
            uses.outputs.insert(name.clone(), Array::of(&view)?);
        }
    }
    uses.played = played;
    Ok(())
}

/// Graph inputs without those that are in their places, and with those that the caller passes on.
struct Rest<'i> {
    others: Box<dyn Inputs + 'i>,
    ready: &'i std::collections::BTreeSet<String>,
    given: &'i BTreeMap<&'i str, &'i Array>,
}

impl Inputs for Rest<'_> {
    fn names(&self) -> Vec<&str> {
        let mut names = self.others.names();
        names.retain(|name| !self.ready.contains(*name) && !self.given.contains_key(name));
        names.extend(self.given.keys());
        names
    }

    fn kind(&self, input: &str) -> Option<(Element, &[u64])> {
        match self.given.get(input) {
            Some(array) => Some((array.element, array.shape.as_slice())),
            None => self.others.kind(input).filter(|_| !self.ready.contains(input)),
        }
    }

    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error> {
        match self.given.get(input) {
            Some(array) => {
                place.copy_from_slice(array.bytes());
                Ok(())
            }
            None => self.others.fill(input, place),
        }
    }
}
