//! Sharing: several planned models in one memory, one after another or one inside another.
//!
//! Members are planned already, and stay as they are: order, rewriting and budgets are decisions of [`plan`].
//! Sharing reads layouts, moves offsets, and states in a joint file which bytes belong to whom and when.
//! Layouts become pure problems (`part`), which `memc-solve` answers.
//!
//! [`plan`]: crate::plan

mod check;
mod constants;
mod files;
mod handoff;
mod member;
mod nested;
mod part;
mod phased;
mod place;
mod serial;
mod table;

pub use check::{check_joint, joint_files, member_bases, read_joint};
pub use handoff::HandoffNames;
pub use member::ShareMember;
pub use nested::nested;
pub use phased::{AtOnce, phased};
pub use serial::{Sequence, serial};
pub use table::{Pair, SpaceUse, Table, Use, table};

use std::collections::BTreeMap;

use memc_layout::joint::{Joint, JointArena, Member, Mode, VERSION};

use crate::error::Error;
use crate::share_error::ShareError;

/// Spaces of all members, in the order in which targets list them.
fn spaces(members: &[ShareMember]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for space in members.iter().flat_map(|member| &member.layout.target.spaces) {
        if !found.contains(&space.name) {
            found.push(space.name.clone());
        }
    }
    found
}

/// Size and alignment of a member's arena in a space; `None` without one.
fn arena(member: &ShareMember, space: &str) -> Option<(u64, u64)> {
    let arena = member.layout.arenas.iter().find(|arena| arena.space == space)?;
    Some((arena.size, arena.alignment.max(1)))
}

/// The arena of a space for all members; `None` if none has one.
fn joint_arena(members: &[ShareMember], space: &str, size: u64, bound: u64) -> Option<JointArena> {
    let all: Vec<(u64, u64)> = members.iter().filter_map(|member| arena(member, space)).collect();
    let alignment = all.iter().map(|(_, alignment)| *alignment).max()?;
    let padded = |size: u64| size.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    Some(JointArena {
        space: space.to_owned(),
        size,
        alignment,
        bound,
        sum_alone: all.iter().fold(0, |sum, (size, _)| sum.saturating_add(padded(*size))),
        max_alone: all.iter().map(|(size, _)| *size).max().unwrap_or(0),
    })
}

/// Rejects fewer than two members, and names that two members have.
fn distinct(members: &[ShareMember]) -> Result<(), ShareError> {
    if members.len() < 2 {
        return Err(ShareError::Few { count: members.len() });
    }
    if let Some(member) = members.iter().find(|member| member.layout.engines() > 1) {
        return Err(ShareError::Engines { name: member.name.clone(), engines: member.layout.engines() });
    }
    let mut seen: BTreeMap<&str, &ShareMember> = BTreeMap::new();
    for member in members {
        if let Some(other) = seen.insert(&member.name, member) {
            let (one, other) = (other.path.display().to_string(), member.path.display().to_string());
            return Err(ShareError::OneName { name: member.name.clone(), one, other });
        }
    }
    Ok(())
}

/// The joint file of members, without places.
fn draft(members: &[ShareMember], mode: Mode) -> Joint {
    Joint {
        schema: VERSION.to_owned(),
        memc_version: env!("CARGO_PKG_VERSION").to_owned(),
        mode,
        members: members
            .iter()
            .map(|member| Member { name: member.name.clone(), ..Member::default() })
            .collect(),
        arenas: Vec::new(),
        handoffs: Vec::new(),
        admissions: Vec::new(),
        sync: Vec::new(),
        constants: Vec::new(),
        weights_sum: members.iter().fold(0, |sum, member| sum.saturating_add(member.layout.weights)),
        weights_joint: members.iter().fold(0, |sum, member| sum.saturating_add(member.layout.weights)),
    }
}

/// Names the files of all members in a joint file that will be written to `path`, finds the given models, and
/// lists the constants that members share. `given` are models to look at first, by member.
///
/// # Errors
/// A file cannot be read, is not the one that its layout names, or is not found.
pub fn complete(
    joint: &mut Joint,
    members: &[ShareMember],
    path: &std::path::Path,
    given: &BTreeMap<String, std::path::PathBuf>,
) -> Result<(), Error> {
    let unknown = given.keys().find(|name| !members.iter().any(|member| member.name == **name));
    if let Some(name) = unknown {
        return Err(ShareError::NoMember { name: name.clone(), known: names(members) }.into());
    }
    files::name(joint, members, path, given)?;
    constants::share(joint, members)
}

/// Names of all members, as text.
fn names(members: &[ShareMember]) -> String {
    members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ")
}
