//! Witnesses: sets of operations before one operation with which its step keeps a bound.
//!
//! Each shows for all operations at once on which side of that one they may be, and goes on to show it when further predecessors are demanded,
//! as long as it keeps them. So what a flow found out is not asked again.

use std::rc::Rc;

use super::model::Model;

/// Words of all sets together that are kept.
const MAX_WORDS: usize = 1 << 20;
const WORD: usize = u64::BITS as usize;

/// A set of operations that may have run before one.
#[derive(Debug)]
pub(super) struct Witness {
    ran: Vec<u64>,
    /// What lives at the step then.
    bytes: u64,
}

impl Witness {
    /// The set of the operations of which `ran` says so.
    pub fn new(operations: usize, bytes: u64, ran: impl Fn(u32) -> bool) -> Self {
        let mut set = vec![0; operations.div_ceil(WORD)];
        (0..operations)
            .filter(|operation| ran(*operation as u32))
            .for_each(|operation| set[operation / WORD] |= 1 << (operation % WORD));
        Self { ran: set, bytes }
    }

    /// Whether it can be before `operation` where the first operation of a pair runs before the second one.
    fn keeps(&self, operation: u32, (before, after): (u32, u32)) -> bool {
        has(&self.ran, before) || after != operation && !has(&self.ran, after)
    }
}

fn has(set: &[u64], operation: u32) -> bool {
    set[operation as usize / WORD] >> (operation as usize % WORD) & 1 == 1
}

/// Witnesses of each operation of a problem.
#[derive(Clone, Debug, Default)]
pub(super) struct Witnesses {
    of: Vec<Rc<Own>>,
    words: usize,
    /// Predecessors that were demanded since the first witness, and how many of them each operation's witnesses are known to keep.
    demanded: Vec<(u32, u32)>,
    kept: Vec<usize>,
}

/// Witnesses of one operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    list: Vec<Rc<Witness>>,
    /// What some of them ran, and what all of them ran; nothing where there are none.
    some: Vec<u64>,
    all: Vec<u64>,
}

impl Own {
    fn of(list: impl Iterator<Item = Rc<Witness>>) -> Self {
        let mut own = Self::default();
        list.for_each(|witness| own.push(witness));
        own
    }

    fn push(&mut self, witness: Rc<Witness>) {
        if self.list.is_empty() {
            (self.some, self.all) = (witness.ran.clone(), witness.ran.clone());
        }
        self.some.iter_mut().zip(&witness.ran).for_each(|(some, ran)| *some |= ran);
        self.all.iter_mut().zip(&witness.ran).for_each(|(all, ran)| *all &= ran);
        self.list.push(witness);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether some witness shows that an operation may run before.
    pub fn may_run(&self, operation: u32) -> bool {
        !self.list.is_empty() && has(&self.some, operation)
    }

    /// Whether some witness shows that an operation may run behind.
    pub fn may_wait(&self, operation: u32) -> bool {
        !self.list.is_empty() && !has(&self.all, operation)
    }

    /// Whether a set has an operation on a side on which none of those known has it.
    fn is_news(&self, ran: &[u64]) -> bool {
        let is_new = |(ran, (some, all)): (&u64, (&u64, &u64))| ran & !some != 0 || !ran & all != 0;
        self.list.is_empty() || ran.iter().zip(self.some.iter().zip(&self.all)).any(is_new)
    }
}

impl Witnesses {
    /// Of a pair of operations the first is demanded to run before the second from now on: the model has it, or will have it before more is added.
    pub fn demand(&mut self, before: u32, after: u32) {
        self.demanded.push((before, after));
    }

    /// Forgets those of an operation that are above a bound or do not keep what was demanded, and gives the others. O(witnesses · new demands).
    pub fn retain(&mut self, model: &Model, operation: u32, bound: u64) -> &Own {
        self.make_room(model);
        let own = &mut self.of[operation as usize];
        let news = &self.demanded[std::mem::replace(&mut self.kept[operation as usize], self.demanded.len())..];
        let holds =
            |witness: &&Rc<Witness>| witness.bytes <= bound && news.iter().all(|demanded| witness.keeps(operation, *demanded));
        let left = own.list.iter().filter(holds).count();
        if left < own.list.len() {
            self.words -= (own.list.len() - left) * model.operations.div_ceil(WORD);
            *own = Rc::new(Own::of(own.list.iter().filter(holds).cloned()));
        }
        own
    }

    fn make_room(&mut self, model: &Model) {
        let operations = self.of.len().max(model.operations);
        self.of.resize_with(operations, Rc::default);
        self.kept.resize(operations, 0);
    }

    /// Keeps what an order shows: before each operation, all that the order runs before it. Only what tells something new, and in half of the room.
    pub fn add_order(&mut self, model: &Model, order: &[u32], steps: &[u64], bound: u64) {
        self.make_room(model);
        let mut ran = vec![0; model.operations.div_ceil(WORD)];
        for (operation, bytes) in order.iter().zip(steps) {
            if self.words + ran.len() > MAX_WORDS / 2 {
                return;
            }
            if *bytes <= bound && self.of[*operation as usize].is_news(&ran) {
                self.add(*operation, Witness { ran: ran.clone(), bytes: *bytes });
            }
            ran[*operation as usize / WORD] |= 1 << (*operation as usize % WORD);
        }
    }

    /// Keeps one more, while there is room.
    pub fn add(&mut self, operation: u32, witness: Witness) {
        if self.words + witness.ran.len() <= MAX_WORDS {
            self.words += witness.ran.len();
            Rc::make_mut(&mut self.of[operation as usize]).push(Rc::new(witness));
        }
    }
}
