//! Witnesses: sets of operations that may run before one operation without raising its step above a
//! bound.
//!
//! Each witness shows a possible side of its operation for all other operations at once. It stays valid
//! when further predecessors are demanded, as long as it keeps them. So an answer found by a flow is not
//! computed again.

use std::rc::Rc;

use crate::order::model::Model;

/// Most 64-bit words of all stored sets together.
const MAX_WORDS: usize = 1 << 20;
const WORD: usize = u64::BITS as usize;

/// A set of operations that may run before one operation.
#[derive(Debug)]
pub(in crate::order) struct Witness {
    ran: Vec<u64>,
    /// Bytes that live at that operation's step.
    bytes: u64,
}

impl Witness {
    /// Stores the set of all operations for which `ran` is true.
    pub fn new(operations: usize, bytes: u64, ran: impl Fn(u32) -> bool) -> Self {
        let mut set = vec![0; operations.div_ceil(WORD)];
        (0..operations)
            .filter(|operation| ran(*operation as u32))
            .for_each(|operation| set[operation / WORD] |= 1 << (operation % WORD));
        Self { ran: set, bytes }
    }

    /// Whether the set is still possible before `operation` if `before` must run before `after`.
    fn keeps(&self, operation: u32, (before, after): (u32, u32)) -> bool {
        has(&self.ran, before) || after != operation && !has(&self.ran, after)
    }
}

fn has(set: &[u64], operation: u32) -> bool {
    set[operation as usize / WORD] >> (operation as usize % WORD) & 1 == 1
}

/// Witnesses of each operation of a problem.
#[derive(Clone, Debug, Default)]
pub(in crate::order) struct Witnesses {
    of: Vec<Rc<Own>>,
    words: usize,
    /// Predecessors that were demanded since the first witness.
    demanded: Vec<(u32, u32)>,
    /// For each operation, how many of them its witnesses are known to keep.
    kept: Vec<usize>,
}

/// Witnesses of one operation.
#[derive(Clone, Debug, Default)]
pub(in crate::order) struct Own {
    list: Vec<Rc<Witness>>,
    /// Union of the sets.
    some: Vec<u64>,
    /// Intersection of the sets; both are empty without witnesses.
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

    /// Returns the number of witnesses.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether some witness shows that `operation` may run before this one.
    pub fn may_run(&self, operation: u32) -> bool {
        !self.list.is_empty() && has(&self.some, operation)
    }

    /// Whether some witness shows that `operation` may run after this one.
    pub fn may_wait(&self, operation: u32) -> bool {
        !self.list.is_empty() && !has(&self.all, operation)
    }

    /// Whether a set shows a side of some operation that no known witness shows.
    fn is_news(&self, ran: &[u64]) -> bool {
        let is_new = |(ran, (some, all)): (&u64, (&u64, &u64))| ran & !some != 0 || !ran & all != 0;
        self.list.is_empty() || ran.iter().zip(self.some.iter().zip(&self.all)).any(is_new)
    }
}

impl Witnesses {
    /// Demands that `before` runs before `after` from now on. The model already has this predecessor, or
    /// gets it before more witnesses are added.
    pub fn demand(&mut self, before: u32, after: u32) {
        self.demanded.push((before, after));
    }

    /// Drops the witnesses of an operation that are above a bound or break a demand, and returns the
    /// others. O(witnesses · new demands).
    pub fn retain(&mut self, model: &Model, operation: u32, bound: u64) -> &Own {
        self.make_room(model);
        let own = &mut self.of[operation as usize];
        let news =
            &self.demanded[std::mem::replace(&mut self.kept[operation as usize], self.demanded.len())..];
        let holds = |witness: &&Rc<Witness>| {
            witness.bytes <= bound && news.iter().all(|demanded| witness.keeps(operation, *demanded))
        };
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

    /// Adds the witnesses of an order: before each operation, the operations that the order runs
    /// earlier. Adds only sets that show a new side, and fills at most half of the space.
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

    /// Adds a witness while there is space.
    pub fn add(&mut self, operation: u32, witness: Witness) {
        if self.words + witness.ran.len() <= MAX_WORDS {
            self.words += witness.ran.len();
            Rc::make_mut(&mut self.of[operation as usize]).push(Rc::new(witness));
        }
    }
}
