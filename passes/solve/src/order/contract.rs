//! Contraction: two operations of which one may always run right beside the other become one, so that everything else has less to look at.
//!
//! The first has only the second as successor, the second only the first as predecessor, and what they share lives for them alone. The second may run
//! right behind the first if it never costs more than that, or the first right before the second; see `doc/order.md` for the argument.

use super::model::Model;
use super::problem::{Buffer, Operation, Problem};

/// A problem in which chains are one operation each.
pub(super) struct Contracted {
    pub problem: Problem,
    /// The operations that each one stands for, in the order in which they run.
    members: Vec<Vec<u32>>,
}

/// Contracts what may be; the numbers of the result's operations are an order of them if those of `problem` are. O(n · uses) at worst, in practice
/// close to linear.
pub(super) fn contract(problem: &Problem) -> Contracted {
    let mut contracted =
        Contracted { problem: problem.clone(), members: (0..problem.operations.len() as u32).map(|index| vec![index]).collect() };
    while contracted.contract_once() {}
    contracted
}

impl Contracted {
    /// An order of the original operations from one of what they were contracted to.
    pub fn expand(&self, order: &[u32]) -> Vec<u32> {
        order.iter().flat_map(|operation| &self.members[*operation as usize]).copied().collect()
    }

    /// Contracts pairs that have nothing to do with each other; `false` if there is none.
    fn contract_once(&mut self) -> bool {
        let model = Model::new(&self.problem);
        let mut touched = vec![false; model.operations];
        let mut pairs = Vec::new();
        for first in 0..model.operations as u32 {
            let [second] = *model.successors.of(first) else { continue };
            if model.predecessors.of(second).len() > 1 || touched[first as usize] || touched[second as usize] {
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

    /// Puts one operation in the place of each pair.
    fn replace(&mut self, pairs: &[(u32, u32, Join, u64)]) {
        let count = self.problem.operations.len();
        // The operation that goes on in the place of each one, and whether it is one of a pair.
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
            one.is_some_and(|one| paired[one as usize] && users.iter().all(|user| stands[*user as usize] == one))
        });
        self.rename(&stands);
    }

    /// Leaves out the buffers that live within one operation now: its scratch counts them.
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
            buffer.takes_over = buffer.takes_over.iter().filter_map(|other| number[*other as usize]).collect();
        }
    }

    /// Numbers the operations that are left.
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

/// When a pair runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Join {
    /// The second moves to the first.
    Early,
    /// The first moves to the second.
    Late,
}

/// What becomes of a buffer that a pair uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first makes it for the second alone.
    Between,
    /// It lives at one step alone.
    OwnFirst,
    OwnSecond,
    /// The second makes it for what runs behind it.
    Result,
    /// The first uses it last: all others that do run before.
    Freed,
    /// The first and others use it.
    Shared,
}

/// Which part a buffer of a pair has; `None` if it has none of these.
fn part(model: &Model, buffer: u32, first: u32, second: u32) -> Option<Part> {
    let users = model.users.of(buffer);
    let others_in = |list: &[u32]| users.iter().all(|user| [first, second].contains(user) || list.binary_search(user).is_ok());
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

/// The bytes of a pair's buffers by part, and what its steps save.
struct Pair<'a> {
    model: &'a Model,
    first: u32,
    second: u32,
    parts: Vec<(u32, Part)>,
}

/// Whether a pair may become one operation, when that runs, and its scratch then.
fn join(model: &Model, first: u32, second: u32) -> Option<(Join, u64)> {
    let mut buffers: Vec<u32> = model.uses.of(first).iter().chain(model.uses.of(second)).copied().collect();
    buffers.sort_unstable();
    buffers.dedup();
    let parts = buffers.into_iter().map(|buffer| part(model, buffer, first, second).map(|part| (buffer, part)));
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

    /// Whether each step saves the same bytes whenever it runs: nothing is taken over but what the first surely frees, or what lies between. What both
    /// use as one operation must not be taken over where it could not be before.
    fn is_plain(&self) -> bool {
        self.parts.iter().all(|(buffer, part)| {
            let mut taken = self.model.takes_over.of(*buffer).iter().filter_map(|other| self.part(*other));
            match part {
                Part::Between | Part::OwnFirst => taken.all(|other| other != Part::Shared),
                Part::OwnSecond | Part::Result => taken.all(|other| other != Part::Shared && other != Part::Freed),
                Part::Shared | Part::Freed => taken.next().is_none(),
            }
        })
    }

    /// Bytes that the steps of both save.
    fn saved(&self) -> (u64, u64) {
        let is = |buffer: u32, one: Part, other: Part| self.part(buffer).is_some_and(|part| part == one || part == other);
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

    /// The second runs right behind the first: it leaves no more bytes, and its step is no higher.
    fn early(&self) -> Option<(Join, u64)> {
        let (between, result) = (self.bytes(Part::Between), self.bytes(Part::Result));
        let (saved_first, saved_second) = self.saved();
        let first = self.bytes(Part::OwnFirst) + self.model.scratch[self.first as usize] + self.bytes(Part::Freed);
        let second = self.bytes(Part::OwnSecond) + self.model.scratch[self.second as usize] + result;
        let scratch = (between + first).checked_sub(self.bytes(Part::Freed) + saved_first + result)?;
        (result <= between && second + saved_first <= first + saved_second).then_some((Join::Early, scratch))
    }

    /// The first runs right before the second: it leaves no fewer bytes, and its step is no higher. Others must not share what it frees.
    fn late(&self) -> Option<(Join, u64)> {
        let (between, freed) = (self.bytes(Part::Between), self.bytes(Part::Freed));
        let (saved_first, saved_second) = self.saved();
        let first = self.bytes(Part::OwnFirst) + self.model.scratch[self.first as usize] + freed;
        let second = self.bytes(Part::OwnSecond) + self.model.scratch[self.second as usize] + self.bytes(Part::Result);
        let scratch = (between + second).checked_sub(freed + saved_second + self.bytes(Part::Result))?;
        let alone = self.parts.iter().all(|(_, part)| *part != Part::Shared);
        (alone && freed <= between && first + saved_second <= second + saved_first).then_some((Join::Late, scratch))
    }
}
