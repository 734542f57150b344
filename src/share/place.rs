//! Places of a member in the joint arenas, as a joint file states them.

use std::collections::BTreeMap;

use memc_layout::joint::Member;
use memc_solve::joint::Answer;

use super::member::ShareMember;
use super::part::Buffers;

/// States the places of a member: one base a space if its offsets move together, else all offsets.
pub(super) fn place(
    member: &mut Member,
    number: usize,
    members: &[ShareMember],
    solved: &[(String, Vec<Buffers>, Answer)],
) {
    let mut bases = BTreeMap::new();
    let mut moves_together = true;
    for (space, buffers, answer) in solved {
        let placed = &buffers[number].part.buffers;
        let offsets = answer.offsets.get(number).map_or(&[][..], Vec::as_slice);
        let mut shifts = placed.iter().zip(offsets).map(|(placed, offset)| offset.checked_sub(placed.offset));
        let base = shifts.next().unwrap_or(Some(0));
        moves_together &= base.is_some() && shifts.all(|shift| shift == base);
        bases.insert(space.clone(), base.unwrap_or(0));
    }
    if moves_together {
        bases.retain(|_, base| *base > 0);
        member.bases = bases;
        return;
    }
    for (_, buffers, answer) in solved {
        let offsets = answer.offsets.get(number).into_iter().flatten();
        let owners =
            buffers[number].owners.iter().map(|owner| members[number].layout.tensors[*owner].name.clone());
        member.offsets.extend(owners.zip(offsets.copied()));
    }
}
