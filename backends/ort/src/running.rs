//! A run under way, and its steps: the workspace of a step, its kernel, and what it used.

use crate::allocator::Tally;
use crate::error::Error;
use crate::guards::Watch;
use crate::played::{NodeWork, Outside, Played};
use crate::stage::Stage;
use crate::step::Step;

/// A run under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) played: Played,
    pub(crate) watch: Option<Watch>,
    /// Time at which it began, in nanoseconds.
    pub(crate) before: u64,
}

/// Returns address and size of the workspace that the plan gives to a step; `None` without one.
pub(crate) fn region(step: &Step<'_>, position: usize, stage: &Stage<'_>) -> Option<(*mut u8, usize)> {
    let work = stage.places.workspace.get(&(position as u64)).filter(|_| step.bound.is_some())?;
    Some((stage.arenas[work.arena].address(work.offset), work.bytes))
}

/// Runs the kernel of a step.
///
/// # Errors
/// The kernel fails.
pub(crate) fn kernel<'r>(step: &Step<'r>, position: usize, stage: &mut Stage<'r>) -> Result<(), Error> {
    match &step.bound {
        Some(bound) => bound.run().map_err(|error| step.blame(position, stage, error)),
        None => step.run_loose(position, stage),
    }
}

/// Records the memory that a step used: its results outside the arenas, and workspace beyond the plan.
///
/// # Errors
/// The kernel kept planned workspace, or the runtime cannot describe a result.
pub(crate) fn record(
    step: &Step<'_>,
    position: usize,
    stage: &Stage<'_>,
    tally: Tally,
    played: &mut Played,
) -> Result<(), Error> {
    if tally.planned_kept > 0 {
        return Err(Error::WorkspaceKept { step: position as u64, node: step.name.clone() });
    }
    played.ran += 1;
    played.requests += tally.requests;
    let mut bytes =
        step.outputs.iter().try_fold(0, |sum, slot| Ok::<_, Error>(sum + stage.loose_bytes(*slot)?))?;
    if step.is_apart {
        bytes += step.outputs.iter().map(|slot| stage.places.slots[*slot].bytes as u64).sum::<u64>();
    }
    if step.bound.is_none() || (step.has_bodies && tally.peak > 0) {
        let reason = match step.has_bodies {
            true => "its bodies need more than was planned for them",
            false if step.is_apart => {
                "its kernel reads an operand again after the plan overwrote it (not in plans of `--runtime player`)"
            }
            false if bytes > 0 => "the size of its results is unknown before they are computed",
            false => "it reads or writes values without a fixed place",
        };
        played.outside.push(Outside { node: step.name.clone(), op: step.op.clone(), reason, bytes });
    }
    let beyond = tally.peak.saturating_sub(tally.kept.min(bytes));
    if tally.planned_peak > 0 || beyond > 0 {
        let (node, op) = (step.name.clone(), step.op.clone());
        played.workspace.push(NodeWork { node, op, planned: tally.planned_peak, beyond });
    }
    Ok(())
}
