//! Contraction: merges two operations into one if some best order always runs them next to each other.
//! The search then has fewer operations.
//!
//! The second operation is the only successor of the first, the first is the only predecessor of the
//! second, and the buffers that they share live for them alone. The second may run directly after the
//! first if that never costs more bytes, or the first directly before the second. See `doc/order.md` for
//! the argument.

use crate::order::model::Model;
use crate::order::problem::{Buffer, Operation, Problem};

/// A problem in which each contracted chain is one operation.
pub(in crate::order) struct Contracted {
    pub problem: Problem,
    /// For each operation of the result, the original operations in execution order.
    members: Vec<Vec<u32>>,
}

/// Contracts all pairs that may be contracted. The result's operations are numbered in a topological
/// order if those of `problem` are. O(n · uses) at worst, in practice close to linear.
pub(in crate::order) fn contract(problem: &Problem) -> Contracted {
    let mut contracted = Contracted {
        problem: problem.clone(),
        members: (0..problem.operations.len() as u32).map(|index| vec![index]).collect(),
    };
    while contracted.contract_once() {}
    contracted
}

impl Contracted {
    /// Converts an order of the contracted operations to an order of the original operations.
    pub fn expand(&self, order: &[u32]) -> Vec<u32> {
        order.iter().flat_map(|operation| &self.members[*operation as usize]).copied().collect()
    }

    /// Contracts pairs that share no operation; returns `false` if there is no pair.
    fn contract_once(&mut self) -> bool {
        let model = Model::new(&self.problem);
        let mut touched = vec![false; model.operations];
        let mut pairs = Vec::new();
        for first in 0..model.operations as u32 {
            let [second] = *model.successors.of(first) else { continue };
            if model.predecessors.of(second).len() > 1 || touched[first as usize] || touched[second as usize]
            {
                continue;
            }
            if let Some((join, scratch)) = join(&model, first, second) {
                (touched[first as usize], touched[second as usize]) = (true, true);
                pairs.push((first, second, join, scratch));
            }
        }
        if !pairs.is_empty() {
            self.replace(&pairs);
        }
        !pairs.is_empty()
    }

    /// Replaces each pair by one operation.
    fn replace(&mut self, pairs: &[(u32, u32, Join, u64)]) {
        let count = self.problem.operations.len();
        // The operation that replaces each operation, and whether that operation replaces a pair.
        let mut stands: Vec<u32> = (0..count as u32).collect();
        let mut paired = vec![false; count];
        for (first, second, join, scratch) in pairs {
            let (stays, goes) = if *join == Join::Early { (*first, *second) } else { (*second, *first) };
            stands[goes as usize] = stays;
            paired[stays as usize] = true;
            let mut members = std::mem::take(&mut self.members[*first as usize]);
            members.append(&mut self.members[*second as usize]);
            self.members[stays as usize] = members;
            let predecessors = std::mem::take(&mut self.problem.operations[*first as usize].predecessors);
            self.problem.operations[stays as usize] = Operation { predecessors, scratch: *scratch };
        }
        self.drop_shared(|users| {
            let one = users.first().map(|user| stands[*user as usize]);
            one.is_some_and(|one| {
                paired[one as usize] && users.iter().all(|user| stands[*user as usize] == one)
            })
        });
        self.rename(&stands);
    }

    /// Drops the buffers that now live within one operation: its scratch counts them.
    fn drop_shared(&mut self, within: impl Fn(&[u32]) -> bool) {
        let stays = |buffer: &Buffer| buffer.kept || buffer.live_from_start || !within(&buffer.users);
        let mut next = 0;
        let mut number = Vec::new();
        for buffer in &self.problem.buffers {
            number.push(stays(buffer).then_some(next));
            next += u32::from(stays(buffer));
        }
        self.problem.buffers.retain(stays);
        for buffer in &mut self.problem.buffers {
            buffer.takes_over =
                buffer.takes_over.iter().filter_map(|other| number[*other as usize]).collect();
        }
    }

    /// Renumbers the remaining operations without gaps.
    fn rename(&mut self, stands: &[u32]) {
        let stays = |operation: usize| stands[operation] == operation as u32;
        let mut number = Vec::new();
        let mut next = 0;
        for operation in 0..stands.len() {
            number.push(next);
            next += u32::from(stays(operation));
        }
        let named = |operation: &u32| number[stands[*operation as usize] as usize];
        let mut place = 0..stands.len();
        self.members.retain(|_| place.next().is_some_and(stays));
        let mut place = 0..stands.len();
        self.problem.operations.retain(|_| place.next().is_some_and(stays));
        for operation in &mut self.problem.operations {
            operation.predecessors = operation.predecessors.iter().map(named).collect();
        }
        for buffer in &mut self.problem.buffers {
            buffer.users = buffer.users.iter().map(named).collect();
            buffer.users.sort_unstable();
            buffer.users.dedup();
        }
    }
}

/// Moment at which a pair runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Join {
    /// The second operation moves to the first.
    Early,
    /// The first operation moves to the second.
    Late,
}

/// Role of a buffer that a pair uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first makes it for the second alone.
    Between,
    /// Only the first uses it; it lives at one step.
    OwnFirst,
    /// Only the second uses it; it lives at one step.
    OwnSecond,
    /// The second makes it for later operations.
    Result,
    /// The first uses it last: all its other users run earlier.
    Freed,
    /// The first and other operations use it, in any sequence.
    Shared,
}

/// Returns the role of a buffer in a pair; `None` if no role applies, so the pair must not be
/// contracted.
fn part(model: &Model, buffer: u32, first: u32, second: u32) -> Option<Part> {
    let users = model.users.of(buffer);
    let others_in = |list: &[u32]| {
        users.iter().all(|user| [first, second].contains(user) || list.binary_search(user).is_ok())
    };
    let (kept, from_start) = (model.kept[buffer as usize], model.from_start[buffer as usize]);
    let uses = |operation: u32| users.binary_search(&operation).is_ok();
    let alone = !kept && !from_start && others_in(&[]);
    match (uses(first), uses(second)) {
        (true, true) if alone => Some(Part::Between),
        (true, false) if alone => Some(Part::OwnFirst),
        (false, true) if alone => Some(Part::OwnSecond),
        (false, true) if !from_start && others_in(model.successors.of(second)) => Some(Part::Result),
        (true, false) if !kept && others_in(model.predecessors.of(first)) => Some(Part::Freed),
        (true, false) => Some(Part::Shared),
        _ => None,
    }
}

/// A pair with the roles of its buffers.
struct Pair<'a> {
    model: &'a Model,
    first: u32,
    second: u32,
    parts: Vec<(u32, Part)>,
}

/// Returns whether the pair runs early or late and the scratch of the merged operation, in bytes; `None`
/// if the pair must not be contracted.
fn join(model: &Model, first: u32, second: u32) -> Option<(Join, u64)> {
    let mut buffers: Vec<u32> = model.uses.of(first).iter().chain(model.uses.of(second)).copied().collect();
    buffers.sort_unstable();
    buffers.dedup();
    let parts =
        buffers.into_iter().map(|buffer| part(model, buffer, first, second).map(|part| (buffer, part)));
    let pair = Pair { model, first, second, parts: parts.collect::<Option<_>>()? };
    pair.is_plain().then(|| pair.early().or_else(|| pair.late())).flatten()
}

impl Pair<'_> {
    fn part(&self, buffer: u32) -> Option<Part> {
        self.parts.iter().find(|(other, _)| *other == buffer).map(|(_, part)| *part)
    }

    fn bytes(&self, wanted: Part) -> u64 {
        let of = self.parts.iter().filter(|(_, part)| *part == wanted);
        of.map(|(buffer, _)| self.model.sizes[*buffer as usize]).sum()
    }

    /// Whether each step saves equal bytes at any position: only buffers that the first surely frees, or
    /// that are between the two, are taken over. The merged operation must also not allow a take-over
    /// that was impossible before.
    fn is_plain(&self) -> bool {
        self.parts.iter().all(|(buffer, part)| {
            let mut taken = self.model.takes_over.of(*buffer).iter().filter_map(|other| self.part(*other));
            match part {
                Part::Between | Part::OwnFirst => taken.all(|other| other != Part::Shared),
                Part::OwnSecond | Part::Result => {
                    taken.all(|other| other != Part::Shared && other != Part::Freed)
                }
                Part::Shared | Part::Freed => taken.next().is_none(),
            }
        })
    }

    /// Returns the bytes that the steps of the first and the second operation save.
    fn saved(&self) -> (u64, u64) {
        let is = |buffer: u32, one: Part, other: Part| {
            self.part(buffer).is_some_and(|part| part == one || part == other)
        };
        let first = self.model.saved(
            self.first,
            |taker| is(taker, Part::Between, Part::OwnFirst),
            |taken| is(taken, Part::Freed, Part::Freed),
        );
        let second = self.model.saved(
            self.second,
            |taker| is(taker, Part::Result, Part::OwnSecond),
            |taken| is(taken, Part::Between, Part::Between),
        );
        (first, second)
    }

    /// Lets the second run directly after the first, if it leaves no more bytes and its step is no
    /// higher.
    fn early(&self) -> Option<(Join, u64)> {
        let (between, result) = (self.bytes(Part::Between), self.bytes(Part::Result));
        let (saved_first, saved_second) = self.saved();
        let first =
            self.bytes(Part::OwnFirst) + self.model.scratch[self.first as usize] + self.bytes(Part::Freed);
        let second = self.bytes(Part::OwnSecond) + self.model.scratch[self.second as usize] + result;
        let scratch = (between + first).checked_sub(self.bytes(Part::Freed) + saved_first + result)?;
        (result <= between && second + saved_first <= first + saved_second).then_some((Join::Early, scratch))
    }

    /// Lets the first run directly before the second, if it leaves no fewer bytes and its step is no
    /// higher. Other operations must not share the buffers that it uses.
    fn late(&self) -> Option<(Join, u64)> {
        let (between, freed) = (self.bytes(Part::Between), self.bytes(Part::Freed));
        let (saved_first, saved_second) = self.saved();
        let first = self.bytes(Part::OwnFirst) + self.model.scratch[self.first as usize] + freed;
        let second =
            self.bytes(Part::OwnSecond) + self.model.scratch[self.second as usize] + self.bytes(Part::Result);
        let scratch = (between + second).checked_sub(freed + saved_second + self.bytes(Part::Result))?;
        let alone = self.parts.iter().all(|(_, part)| *part != Part::Shared);
        (alone && freed <= between && first + saved_second <= second + saved_first)
            .then_some((Join::Late, scratch))
    }
}
