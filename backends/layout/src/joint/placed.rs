//! The layout of a member at its places in the joint arenas.

use std::collections::BTreeMap;

use thiserror::Error;

use super::types::{Joint, Member};
use crate::types::Layout;

/// Reason why a member has no places.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// The joint file has no arena for a space of the member.
    #[error("there is no joint arena for space `{space}`")]
    NoArena {
        /// Name of the space.
        space: String,
    },
    /// A tensor that owns bytes has no offset.
    #[error("`offsets` does not state the place of `{tensor}`")]
    NoOffset {
        /// Name of the tensor.
        tensor: String,
    },
    /// Aliases run in a cycle, or name no tensor.
    #[error("`{tensor}` has no owner")]
    NoOwner {
        /// Name of the tensor.
        tensor: String,
    },
    /// An offset does not fit into 64 bits.
    #[error("the place of `{tensor}` is impossible")]
    TooFar {
        /// Name of the tensor.
        tensor: String,
    },
}

/// Returns a member's layout with the arenas of the joint file and all tensors at their places in them.
/// `bases` are the first bytes of the member's own arenas, by space. Values that are handed over to the
/// member get their places, too.
///
/// The result is for playing: sizes of arenas, bounds and formulas are not those of a plan of its own.
///
/// # Errors
/// The joint file lacks a place, or states an impossible one.
pub fn placed(
    layout: &Layout,
    joint: &Joint,
    member: &Member,
    bases: &BTreeMap<String, u64>,
) -> Result<Layout, PlaceError> {
    let mut moved = layout.clone();
    for arena in &mut moved.arenas {
        let found = joint.arenas.iter().find(|joint| joint.space == arena.space);
        let found = found.ok_or_else(|| PlaceError::NoArena { space: arena.space.clone() })?;
        (arena.size, arena.alignment) = (found.size, found.alignment.max(arena.alignment));
    }
    let before = &layout.tensors;
    let names: BTreeMap<&str, usize> =
        before.iter().enumerate().map(|(at, tensor)| (tensor.name.as_str(), at)).collect();
    for (at, tensor) in moved.tensors.iter_mut().enumerate() {
        let (Some(space), Some(offset)) = (&tensor.space, tensor.offset) else { continue };
        let far = || PlaceError::TooFar { tensor: tensor.name.clone() };
        let shifted = if member.offsets.is_empty() {
            offset.checked_add(bases.get(space).copied().unwrap_or(0))
        } else {
            // An alias keeps its distance from its owner.
            let owner = owner(layout, &names, at)
                .ok_or_else(|| PlaceError::NoOwner { tensor: tensor.name.clone() })?;
            let name = &before[owner].name;
            let to = member.offsets.get(name).ok_or_else(|| PlaceError::NoOffset { tensor: name.clone() })?;
            before[owner]
                .offset
                .and_then(|from| offset.checked_sub(from))
                .and_then(|inside| to.checked_add(inside))
        };
        tensor.offset = Some(shifted.ok_or_else(far)?);
    }
    for handoff in
        joint.handoffs.iter().filter(|handoff| handoff.to.member == member.name && handoff.space.is_some())
    {
        if let Some(at) = names.get(handoff.to.tensor.as_str()) {
            let tensor = &mut moved.tensors[*at];
            (tensor.space, tensor.offset) = (handoff.space.clone(), handoff.offset);
        }
    }
    // Views of a handed-over input lie inside it.
    for at in 0..moved.tensors.len() {
        if moved.tensors[at].offset.is_none() && moved.tensors[at].alias.is_some() {
            let place = inside(&moved, &names, at);
            if let Some((space, offset)) = place {
                (moved.tensors[at].space, moved.tensors[at].offset) = (Some(space), Some(offset));
            }
        }
    }
    Ok(moved)
}

/// The tensor that owns the bytes of another one.
fn owner(layout: &Layout, names: &BTreeMap<&str, usize>, mut at: usize) -> Option<usize> {
    // Links are no more than tensors: a longer walk is a cycle.
    for _ in 0..=layout.tensors.len() {
        match &layout.tensors[at].alias {
            Some(alias) => at = *names.get(alias.of.as_str())?,
            None => return Some(at),
        }
    }
    None
}

/// Place of an alias of a tensor that has one.
fn inside(layout: &Layout, names: &BTreeMap<&str, usize>, mut at: usize) -> Option<(String, u64)> {
    let mut offset = 0_u64;
    for _ in 0..=layout.tensors.len() {
        let tensor = &layout.tensors[at];
        if let (Some(space), Some(first)) = (&tensor.space, tensor.offset) {
            return Some((space.clone(), first.checked_add(offset)?));
        }
        let alias = tensor.alias.as_ref()?;
        offset = offset.checked_add(alias.alias_offset)?;
        at = *names.get(alias.of.as_str())?;
    }
    None
}
