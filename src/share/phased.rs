//! Phased members: two members that run at once, each again and again.

use std::collections::BTreeSet;

use memc_layout::joint::{Joint, JointSync, Mode, Moment};
use memc_solve::Limit;
use memc_solve::joint::{Answer, Phase, Phased, Wait};

use super::member::ShareMember;
use super::part::Buffers;
use super::{distinct, draft, joint_arena, place, spaces};
use crate::share_error::ShareError;

/// How two members run at once, as modelled: nothing rests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    /// Time of a period in nanoseconds: that of the runs of the longer member.
    pub period: u64,
    /// Time from the begin of the first member's period to that of the second one, in nanoseconds.
    pub shift: u64,
    /// Most bytes of the first space in use at once at this shift, at the modelled times of the steps.
    pub load: u64,
}

/// Places two members that run at once at the shift with the fewest bytes, and states the waits that keep
/// their bytes apart whatever time a step takes. With `keep_offsets` each member moves as a whole. `effort`
/// is that of the placement, in search nodes.
///
/// The arena of each space is at most the sum of both; if no bytes are shared, there are no waits. The file
/// states neither names of files nor constants: see [`complete`](super::complete).
///
/// # Errors
/// There are not two members, they have one name, or one of them moves values while its steps run.
pub fn phased(
    members: &[ShareMember],
    keep_offsets: bool,
    effort: u64,
) -> Result<(Joint, AtOnce), ShareError> {
    distinct(members)?;
    let [one, other] = members else { return Err(ShareError::NotTwo { count: members.len() }) };
    for member in members {
        if !member.layout.transfers.is_empty() || !member.layout.fetches.is_empty() {
            return Err(ShareError::Moves { name: member.name.clone() });
        }
    }
    let mut joint = draft(members, Mode::Phased);
    let mut phase: Option<Phase> = None;
    let mut solved: Vec<(String, Vec<Buffers>, Answer)> = Vec::new();
    let mut waits: BTreeSet<Wait> = BTreeSet::new();
    let mut problems = Vec::new();
    for space in spaces(members) {
        let buffers = vec![Buffers::of(one, &space), Buffers::of(other, &space)];
        let parts = [buffers[0].part.clone(), buffers[1].part.clone()];
        let problem = Phased { parts, times: [one.times(), other.times()] };
        // The first space with an arena decides; the others follow.
        if buffers.iter().any(|buffers| buffers.part.size > 0) && phase.is_none() {
            phase = Some(problem.phase());
        }
        problems.push((space, buffers, problem));
    }
    let phase = phase
        .or_else(|| problems.first().map(|(.., problem)| problem.phase()))
        .ok_or(ShareError::Few { count: 0 })?;
    for (space, buffers, problem) in problems {
        let outcome = problem.place(&phase, keep_offsets, &Limit::nodes(effort));
        let outcome = outcome.map_err(|error| ShareError::Solver { cause: error.to_string() })?;
        let Some(answer) = outcome.solution else { continue };
        joint.arenas.extend(joint_arena(members, &space, answer.size, outcome.lower_bound));
        waits.extend(problem.waits(&phase, &answer));
        solved.push((space, buffers, answer));
    }
    for (number, member) in joint.members.iter_mut().enumerate() {
        member.runs = u64::from(phase.runs[number]);
        place::place(member, number, members, &solved);
    }
    joint.sync = waits.iter().map(|wait| sync(members, wait)).collect();
    joint.sync.sort_unstable();
    Ok((joint, AtOnce { period: phase.period, shift: phase.shift, load: phase.load }))
}

/// A wait with the names of members.
fn sync(members: &[ShareMember], wait: &Wait) -> JointSync {
    let moment = |member: usize, position: u32| {
        let steps = members[member].steps().max(1);
        let (run, step) = (u64::from(position / steps), u64::from(position % steps));
        Moment { member: members[member].name.clone(), run, step }
    };
    JointSync {
        after: moment(wait.after, wait.ends),
        before: moment(1 - wait.after, wait.begins),
        periods_later: wait.periods_later,
    }
}
