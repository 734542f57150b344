//! Handoffs: an output of one member is an input of a later one, in one place.

use std::str::FromStr;

use memc_layout::{Class, Tensor};

use super::member::ShareMember;
use super::part::reads;
use crate::share_error::ShareError;

/// A handoff as the command names it: `a.out=b.in`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffNames(pub String);

impl FromStr for HandoffNames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_pair = text.split_once('=').is_some_and(|(from, to)| from.contains('.') && to.contains('.'));
        if is_pair {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("`{text}` is not MEMBER.OUTPUT=MEMBER.INPUT"))
        }
    }
}

/// Two tensors that are one value, as positions of members and of their tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    /// Step of the reader before which the value must still be there.
    pub(super) until: u64,
}

/// Finds the tensors that names of handoffs mean, and rejects pairs that cannot be one value.
pub(super) fn pairs(
    members: &[ShareMember],
    names: &[HandoffNames],
    repeats: &[bool],
) -> Result<Vec<Pair>, ShareError> {
    let mut all: Vec<Pair> = Vec::new();
    for HandoffNames(text) in names {
        let pair = pair(members, text)?;
        let refuse = |why: String| ShareError::Handoff { pair: text.clone(), why };
        if all.iter().any(|other| other.to == pair.to) {
            return Err(refuse("another handoff fills this input".to_owned()));
        }
        let (from, to) = (tensor(members, pair.from), tensor(members, pair.to));
        joined(members, (from, pair.from.0), (to, pair.to.0)).map_err(refuse)?;
        all.push(pair);
    }
    // A value that is read later, or again, must not be written over.
    for (pair, HandoffNames(text)) in all.iter_mut().zip(names) {
        let (member, input) = pair.to;
        let reads = reads(&members[member].layout, input);
        pair.until = if repeats[member] { members[member].layout.schedule.len() as u64 } else { reads.until };
        if reads.is_overwritten && repeats[member] {
            let why = format!("`{}` writes a result over it, so it cannot run again", members[member].name);
            return Err(ShareError::Handoff { pair: text.clone(), why });
        }
    }
    for (number, pair) in all.iter().enumerate() {
        let is_overwritten = reads(&members[pair.to.0].layout, pair.to.1).is_overwritten;
        let later = |other: &Pair| other.from == pair.from && other.to.0 > pair.to.0;
        if is_overwritten && let Some(other) = all.iter().find(|other| later(other)) {
            let why = format!(
                "`{}` writes a result over it, and `{}` reads it later",
                members[pair.to.0].name, members[other.to.0].name
            );
            return Err(ShareError::Handoff { pair: names[number].0.clone(), why });
        }
    }
    Ok(all)
}

fn tensor(members: &[ShareMember], (member, tensor): (usize, usize)) -> &Tensor {
    &members[member].layout.tensors[tensor]
}

/// Reads `a.out=b.in`: names of members and tensors may contain dots and equals signs.
fn pair(members: &[ShareMember], text: &str) -> Result<Pair, ShareError> {
    let find = |words: &str| {
        members.iter().enumerate().find_map(|(at, member)| {
            let name = words.strip_prefix(member.name.as_str())?.strip_prefix('.')?;
            let value = |tensor: &Tensor| tensor.name == name && tensor.class != Class::Scratch;
            Some((at, member.layout.tensors.iter().position(value)?))
        })
    };
    let halves: Vec<(&str, &str)> =
        text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..])).collect();
    let found =
        halves.iter().find_map(|(from, to)| Some(Pair { from: find(from)?, to: find(to)?, until: 0 }));
    found.ok_or_else(|| {
        let unknown = halves.first().map_or(text, |(from, to)| if find(from).is_none() { from } else { to });
        ShareError::NoTensor { name: unknown.to_owned(), known: super::names(members) }
    })
}

/// Rejects two tensors that cannot be one value.
fn joined(
    members: &[ShareMember],
    (from, maker): (&Tensor, usize),
    (to, reader): (&Tensor, usize),
) -> Result<(), String> {
    if maker >= reader {
        let (maker, reader) = (&members[maker].name, &members[reader].name);
        return Err(if maker == reader {
            "both are tensors of one member: `memc optimize --state NEW=OLD` pairs them".to_owned()
        } else {
            format!("`{reader}` runs before `{maker}`: members run in the order in which they are named")
        });
    }
    if from.class != Class::Output {
        return Err(format!(
            "`{}` is no graph output of `{}`, but of class {}",
            from.name,
            members[maker].name,
            from.class.as_str()
        ));
    }
    if !matches!(to.class, Class::Input | Class::State) {
        return Err(format!(
            "`{}` is no graph input of `{}`, but of class {}",
            to.name,
            members[reader].name,
            to.class.as_str()
        ));
    }
    if from.shape_expr.is_some() || to.shape_expr.is_some() {
        return Err("its extents are free: plan both members with fixed extents".to_owned());
    }
    let described = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
    if (&from.dtype, &from.shape, from.bytes) != (&to.dtype, &to.shape, to.bytes) {
        return Err(format!("types differ: {} and {}", described(from), described(to)));
    }
    match (&from.space, &to.space, to.class) {
        (Some(_), _, Class::State) => Err(format!(
            "`{}` is state, which outlives a run: plan `{}` with `--io external`",
            to.name, members[maker].name
        )),
        (None, Some(_), _) => Err(format!(
            "the caller holds `{}`, and the arena of `{}` its input: plan both with one `--io`",
            from.name, members[reader].name
        )),
        (Some(one), Some(other), _) if one != other => {
            Err(format!("they lie in different spaces, {one} and {other}"))
        }
        _ => Ok(()),
    }
}
