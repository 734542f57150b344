//! Serial members: one arena for members that run one after another.

use memc_layout::joint::{Handoff, Item, Joint, Mode};
use memc_solve::joint::{self, Answer, Serial};
use memc_solve::{Limit, joint::SerialError};

use super::handoff::{HandoffNames, Pair, pairs};
use super::member::ShareMember;
use super::part::Buffers;
use super::{distinct, draft, joint_arena, place, spaces};
use crate::share_error::ShareError;

/// How members follow each other.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// Values that pass from member to member without a copy.
    pub handoffs: Vec<HandoffNames>,
    /// Members that may run several times before the next one, by name.
    pub repeats: Vec<String>,
    /// Whether each member keeps its offsets, moved by one number of bytes at most.
    pub keep_offsets: bool,
    /// Effort of the placement, in search nodes.
    pub effort: u64,
}

/// Places members that run one after another, in their order.
///
/// Without handoffs the arena of each space is the largest of the members. A handed-over value lives from its
/// maker to its last reader, and through all steps of a reader that repeats. The file states neither names of
/// files nor constants: see [`complete`](super::complete).
///
/// # Errors
/// Two members have one name, or a handoff cannot be.
pub fn serial(members: &[ShareMember], sequence: &Sequence) -> Result<Joint, ShareError> {
    distinct(members)?;
    let repeats: Vec<bool> = members.iter().map(|member| sequence.repeats.contains(&member.name)).collect();
    if let Some(name) =
        sequence.repeats.iter().find(|name| !members.iter().any(|member| member.name == **name))
    {
        return Err(ShareError::NoMember { name: name.clone(), known: super::names(members) });
    }
    let pairs = pairs(members, &sequence.handoffs, &repeats)?;
    let mut joint = draft(members, Mode::Serial);
    let mut solved: Vec<(String, Vec<Buffers>, Answer)> = Vec::new();
    for space in spaces(members) {
        let buffers: Vec<Buffers> = members.iter().map(|member| Buffers::of(member, &space)).collect();
        let (problem, used) = problem(members, &buffers, &pairs, &space);
        let outcome = joint::serial(&problem, sequence.keep_offsets, &Limit::nodes(sequence.effort));
        let outcome = outcome.map_err(|error| refuse(&error, members, &used, &sequence.handoffs))?;
        let answer = outcome.solution.unwrap_or_else(|| Answer {
            is_kept: true,
            bases: Vec::new(),
            offsets: Vec::new(),
            size: 0,
        });
        debug_assert_eq!(joint::check_serial(&problem, &answer), Ok(()));
        joint.arenas.extend(joint_arena(members, &space, answer.size, outcome.lower_bound));
        solved.push((space, buffers, answer));
    }
    for (number, member) in joint.members.iter_mut().enumerate() {
        member.repeats = repeats[number];
        place::place(member, number, members, &solved);
    }
    for pair in &pairs {
        joint.handoffs.push(handoff(members, pair, &solved));
    }
    Ok(joint)
}

/// The problem of one space, and the positions of its handoffs in the list of all.
fn problem(
    members: &[ShareMember],
    buffers: &[Buffers],
    pairs: &[Pair],
    space: &str,
) -> (Serial, Vec<usize>) {
    let mut problem =
        Serial { parts: buffers.iter().map(|buffers| buffers.part.clone()).collect(), handoffs: Vec::new() };
    let mut used = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        let (from, to) = (
            &members[pair.from.0].layout.tensors[pair.from.1],
            &members[pair.to.0].layout.tensors[pair.to.1],
        );
        if from.space.as_deref() != Some(space) {
            continue;
        }
        let Some((buffer, at)) = buffers[pair.from.0].places.get(&from.name).copied() else { continue };
        problem.handoffs.push(joint::Handoff {
            from: pair.from.0,
            buffer,
            at,
            bytes: from.bytes,
            to: pair.to.0,
            into: buffers[pair.to.0].places.get(&to.name).map(|(into, _)| *into),
            until: u32::try_from(pair.until).unwrap_or(u32::MAX).min(buffers[pair.to.0].part.steps),
        });
        used.push(number);
    }
    (problem, used)
}

fn handoff(members: &[ShareMember], pair: &Pair, solved: &[(String, Vec<Buffers>, Answer)]) -> Handoff {
    let (from, to) =
        (&members[pair.from.0].layout.tensors[pair.from.1], &members[pair.to.0].layout.tensors[pair.to.1]);
    let place = solved.iter().find(|(space, ..)| from.space.as_ref() == Some(space)).and_then(
        |(_, buffers, answer)| {
            let (buffer, at) = buffers[pair.from.0].places.get(&from.name)?;
            answer.offsets.get(pair.from.0)?.get(*buffer)?.checked_add(*at)
        },
    );
    let item =
        |member: usize, name: &str| Item { member: members[member].name.clone(), tensor: name.to_owned() };
    Handoff {
        from: item(pair.from.0, &from.name),
        to: item(pair.to.0, &to.name),
        space: from.space.clone(),
        offset: place,
        bytes: from.bytes,
    }
}

/// Words the refusal of the solver.
fn refuse(
    error: &SerialError,
    members: &[ShareMember],
    used: &[usize],
    names: &[HandoffNames],
) -> ShareError {
    let pair = |handoff: usize| {
        used.get(handoff).and_then(|at| names.get(*at)).map_or_else(String::new, |name| name.0.clone())
    };
    match error {
        SerialError::Handoff { handoff }
        | SerialError::Twice { handoff }
        | SerialError::Alignment { handoff, .. } => {
            ShareError::Handoff { pair: pair(*handoff), why: error.to_string() }
        }
        SerialError::Rigid { part } => {
            let member = members.get(*part);
            let is_ranged = member.is_some_and(ShareMember::is_ranged);
            ShareError::Rigid {
                name: member.map_or_else(String::new, |member| member.name.clone()),
                is_ranged,
            }
        }
        SerialError::Place(error) => ShareError::Solver { cause: error.to_string() },
    }
}
