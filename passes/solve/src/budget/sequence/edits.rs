//! Changes of a sequence that can be undone.

use super::model::NONE;
use super::state::State;

/// One insertion (its slot) or one removal (the operation and its slot).
#[derive(Clone, Copy)]
enum Edit {
    In(u32),
    Out(u32, u32),
}

/// A log of insertions and removals, in order.
#[derive(Default)]
pub(in crate::budget) struct Edits {
    list: Vec<Edit>,
}

impl Edits {
    /// Forgets the log, so that earlier changes can no longer be undone.
    pub fn settle(&mut self) {
        self.list.clear();
    }

    /// Returns a mark for [`Edits::undo`].
    pub fn mark(&self) -> usize {
        self.list.len()
    }

    /// Undoes all changes since a mark.
    pub fn undo(&mut self, state: &mut State, mark: usize) {
        for edit in self.list.drain(mark.min(self.list.len())..).rev() {
            match edit {
                Edit::In(slot) => state.clear(slot),
                Edit::Out(operation, slot) => state.place(operation, slot),
            }
        }
        state.commit();
    }

    /// Returns the operations inserted since a mark, with their slots.
    pub fn put_in_since(&self, state: &State, mark: usize) -> Vec<(u32, u32)> {
        let slot = |edit: &Edit| match edit {
            Edit::In(slot) => Some((state.operation(*slot), *slot)),
            Edit::Out(..) => None,
        };
        self.list[mark..].iter().filter_map(slot).collect()
    }

    /// Inserts an operation into a free slot.
    pub fn put_in(&mut self, state: &mut State, operation: u32, slot: u32) {
        state.insert(operation, slot);
        self.list.push(Edit::In(slot));
    }

    /// Replaces the insertions since a mark by a chain of operations with slots; does nothing if they
    /// are equal.
    pub fn replace(&mut self, state: &mut State, mark: usize, chain: &[(u32, u32)]) {
        if self.put_in_since(state, mark) == chain {
            return;
        }
        self.undo(state, mark);
        for &(operation, slot) in chain {
            state.place(operation, slot);
            self.list.push(Edit::In(slot));
        }
        state.commit();
    }

    /// Removes the operation at a slot.
    pub fn take_out(&mut self, state: &mut State, slot: u32) {
        self.list.push(Edit::Out(state.operation(slot), slot));
        state.remove(slot);
    }

    /// Moves the operation at a slot to a free slot.
    pub fn shift(&mut self, state: &mut State, slot: u32, to: u32) {
        let operation = state.operation(slot);
        self.list.extend([Edit::Out(operation, slot), Edit::In(to)]);
        state.clear(slot);
        state.place(operation, to);
        state.commit();
    }

    /// Removes repeated runs before `slot` that made operands only for an `operation` which is no longer
    /// at `slot`, and so on for the operands of the removed runs.
    pub fn take_out_unread(&mut self, state: &mut State, operation: u32, slot: u32) {
        let model = state.model;
        let mut open = vec![(operation, slot)];
        while let Some((operation, slot)) = open.pop() {
            for &value in model.reads.of(operation) {
                let Some((start, last)) = state.copy_at(value, slot) else { continue };
                let maker = if start == 0 { NONE } else { state.operation(start) };
                if last > start || maker == NONE || maker as usize >= model.fixed || !state.is_spare(start) {
                    continue;
                }
                let unread =
                    |value: &u32| state.copy_at(*value, start + 1).is_some_and(|(made, last)| made == last);
                if model.writes.of(maker).iter().all(unread) {
                    self.take_out(state, start);
                    open.push((maker, start));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::*;
    use crate::budget::problem::{Problem, Run, Value};
    use crate::tuning::BudgetTuning;

    #[test]
    fn replaced_insertions_can_be_undone() {
        let run = |value: u32| Run { writes: vec![value], repeatable: true, ..Run::default() };
        let value = Value { size: 1, ..Value::default() };
        let problem =
            Problem { runs: vec![run(0), run(1)], values: vec![value.clone(), value], ..Problem::default() };
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let mut state = State::new(&model, &[0, 1]);
        let (mut edits, end) = (Edits::default(), state.end());
        edits.put_in(&mut state, 0, end - 3);
        let mark = edits.mark();
        edits.put_in(&mut state, 1, end - 1);
        for chain in [vec![(1, end - 1)], vec![(1, end - 2), (0, end - 1)]] {
            edits.replace(&mut state, mark, &chain);
            assert_eq!(edits.put_in_since(&state, mark), chain);
            let again = chain.iter().map(|(operation, _)| *operation);
            assert_eq!(state.sequence(), [0, 1, 0].into_iter().chain(again).collect::<Vec<u32>>());
        }
        edits.undo(&mut state, mark);
        assert_eq!(state.sequence(), [0, 1, 0]);
    }
}
