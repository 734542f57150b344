//! Witnesses: sets of operations before one operation with which its step keeps a bound.
//!
//! Each shows for all operations at once on which side of that one they may be, and goes on to show it when further predecessors are demanded,
//! as long as it keeps them. So what a flow found out is not asked again.

use std::rc::Rc;

use super::model::Model;

/// Words of all sets together that are kept.
const MOST_WORDS: usize = 1 << 20;
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

    /// Whether an operation ran.
    pub fn ran(&self, operation: u32) -> bool {
        self.ran[operation as usize / WORD] >> (operation as usize % WORD) & 1 == 1
    }

    /// Whether all predecessors of what ran, and of `operation`, ran, and `operation` itself did not. O(n + edges).
    fn keeps(&self, model: &Model, operation: u32) -> bool {
        let complete = |operation: u32| model.predecessors.of(operation).iter().all(|before| self.ran(*before));
        !self.ran(operation)
            && complete(operation)
            && (0..model.operations as u32).all(|other| !self.ran(other) || complete(other))
    }
}

/// Witnesses of each operation of a problem.
#[derive(Clone, Debug, Default)]
pub(super) struct Witnesses {
    of: Vec<Rc<Own>>,
    words: usize,
}

/// Witnesses of one operation.
#[derive(Clone, Debug, Default)]
struct Own {
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

    /// Whether a set has an operation on a side on which none of those known has it.
    fn is_news(&self, ran: &[u64]) -> bool {
        let is_new = |(ran, (some, all)): (&u64, (&u64, &u64))| ran & !some != 0 || !ran & all != 0;
        self.list.is_empty() || ran.iter().zip(self.some.iter().zip(&self.all)).any(is_new)
    }
}

impl Witnesses {
    /// Forgets those of an operation that are above a bound or do not keep all predecessors of the model, and gives the others.
    pub fn retain(&mut self, model: &Model, operation: u32, bound: u64) -> &[Rc<Witness>] {
        self.of.resize_with(self.of.len().max(model.operations), Rc::default);
        let own = &mut self.of[operation as usize];
        let holds = |witness: &&Rc<Witness>| witness.bytes <= bound && witness.keeps(model, operation);
        let left: Vec<Rc<Witness>> = own.list.iter().filter(holds).cloned().collect();
        if left.len() < own.list.len() {
            self.words -= (own.list.len() - left.len()) * model.operations.div_ceil(WORD);
            *own = Rc::new(Own::of(left.into_iter()));
        }
        &own.list
    }

    /// Keeps what an order shows: before each operation, all that the order runs before it. Only what tells something new, and in half of the room.
    pub fn add_order(&mut self, model: &Model, order: &[u32], steps: &[u64], bound: u64) {
        self.of.resize_with(self.of.len().max(model.operations), Rc::default);
        let mut ran = vec![0; model.operations.div_ceil(WORD)];
        for (operation, bytes) in order.iter().zip(steps) {
            if self.words + ran.len() > MOST_WORDS / 2 {
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
        if self.words + witness.ran.len() <= MOST_WORDS {
            self.words += witness.ran.len();
            Rc::make_mut(&mut self.of[operation as usize]).push(Rc::new(witness));
        }
    }
}
