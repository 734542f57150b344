//! Twins: groups of operations that do the same beside each other, such as equal parts of a region. One of two may always go ahead of the other.
//!
//! A group of operations and its twin are given as pairs. Everything that one of a pair uses, waits for or is waited for by is the same for the other, is its
//! twin, or belongs to operations of which the first need run before the second anyway. Then of each pair the first may run before the second; see
//! `doc/order.md` for the argument.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::MAX_OPERATIONS;
use super::greedy::MAX_LOOKS;
use super::model::{Model, positions};
use super::narrow::sorted;
use super::problem::Problem;

/// Operations that a group has at most.
const MAX_GROUP: usize = 256;
/// Of the operations that look alike, so many are tried as an operation's twin.
const MAX_CANDIDATES: usize = 3;
const WORD: usize = u64::BITS as usize;

/// The problem with twins in sequence, and an order of it with a peak no higher than that of `order`; `None` where there are none.
///
/// O(n · edges / 64) beside the looks.
pub(super) fn ordered(problem: &Problem, order: &[u32]) -> Option<(Problem, Vec<u32>)> {
    if problem.operations.len() > MAX_OPERATIONS {
        return None;
    }
    let model = Model::new(problem);
    let groups = Finder::new(&model, order).groups();
    if groups.is_empty() {
        return None;
    }
    let mut narrower = problem.clone();
    for (first, second) in groups.iter().flatten() {
        narrower.operations[*second as usize].predecessors.push(*first);
    }
    let order = sorted(&narrower, &positions(&uncrossed(&groups, order)))?;
    Some((narrower, order))
}

/// A group and its twin: pairs of operations.
type Group = BTreeMap<u32, u32>;

/// The order in which of each pair the first runs at the earlier one of both places.
fn uncrossed(groups: &[Group], order: &[u32]) -> Vec<u32> {
    let mut place = positions(order);
    // Each exchange moves first operations ahead, and no operation is, by way of others, first and second of itself.
    loop {
        let mut is_done = true;
        for (first, second) in groups.iter().flatten() {
            if place[*first as usize] > place[*second as usize] {
                place.swap(*first as usize, *second as usize);
                is_done = false;
            }
        }
        if is_done {
            break;
        }
    }
    let mut order = order.to_vec();
    order.sort_by_key(|operation| place[*operation as usize]);
    order
}

/// What of an operation its twin must have, too.
type Likeness = (u64, usize, usize, Vec<(u64, bool, bool, usize)>);

/// Looks for groups.
struct Finder<'m> {
    model: &'m Model,
    /// For each operation itself and all that need run behind it, one row of bits each.
    behind: Vec<u64>,
    likeness: Vec<u32>,
    looks: usize,
    /// Second operations by first ones of all groups.
    seconds: BTreeMap<u32, BTreeSet<u32>>,
}

impl<'m> Finder<'m> {
    fn new(model: &'m Model, order: &[u32]) -> Self {
        let mut numbers: BTreeMap<Likeness, u32> = BTreeMap::new();
        let likeness = (0..model.operations as u32).map(|operation| {
            let next = numbers.len() as u32;
            *numbers.entry(likeness(model, operation)).or_insert(next)
        });
        Self {
            likeness: likeness.collect(),
            behind: model.closures(&model.successors, order.iter().rev().copied()),
            model,
            looks: MAX_LOOKS * model.operations,
            seconds: BTreeMap::new(),
        }
    }

    /// Groups of which together no operation is first and second of itself.
    fn groups(&mut self) -> Vec<Group> {
        let mut alike: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (operation, likeness) in self.likeness.iter().enumerate() {
            alike.entry(*likeness).or_default().push(operation as u32);
        }
        let mut groups = Vec::new();
        for operations in alike.values() {
            for (index, first) in operations.iter().enumerate() {
                let candidates = operations[index + 1..].iter().take(MAX_CANDIDATES);
                let pairs = candidates.flat_map(|second| [(*first, *second), (*second, *first)]);
                groups.extend(pairs.into_iter().find_map(|(first, second)| self.group(first, second)));
            }
        }
        groups
    }

    /// The group that grows from a pair, unless it is known or there is none.
    fn group(&mut self, first: u32, second: u32) -> Option<Group> {
        let is_known = self.is_behind(first, second) || self.is_behind(second, first);
        if is_known || self.is_before(first, second) || self.is_before(second, first) {
            return None;
        }
        let group = Growth::new(self).from(first, second)?;
        let mut added = Vec::new();
        for (first, second) in &group {
            if self.is_behind(*second, *first) {
                for (first, second) in added {
                    self.seconds.entry(first).or_default().remove(&second);
                }
                return None;
            }
            if self.seconds.entry(*first).or_default().insert(*second) {
                added.push((*first, *second));
            }
        }
        Some(group)
    }

    /// Whether `first` need run before `second`.
    fn is_before(&self, first: u32, second: u32) -> bool {
        let words = self.model.operations.div_ceil(WORD);
        first != second && self.behind[first as usize * words + second as usize / WORD] >> (second as usize % WORD) & 1 == 1
    }

    /// Whether an operation is the second of another one, or of its seconds.
    fn is_behind(&self, first: u32, second: u32) -> bool {
        let mut open = vec![first];
        let mut met = BTreeSet::new();
        while let Some(operation) = open.pop() {
            if operation == second {
                return true;
            }
            if met.insert(operation) {
                open.extend(self.seconds.get(&operation).into_iter().flatten());
            }
        }
        false
    }
}

fn likeness(model: &Model, operation: u32) -> Likeness {
    let buffer = |buffer: &u32| {
        let index = *buffer as usize;
        (model.sizes[index], model.from_start[index], model.kept[index], model.users.of(*buffer).len())
    };
    let mut buffers: Vec<_> = model.uses.of(operation).iter().map(buffer).collect();
    buffers.sort_unstable();
    let (before, behind) = (model.predecessors.of(operation).len(), model.successors.of(operation).len());
    (model.scratch[operation as usize], before, behind, buffers)
}

/// A group that grows.
struct Growth<'f, 'm> {
    finder: &'f mut Finder<'m>,
    group: Group,
    /// Second operations of the group.
    seconds: BTreeSet<u32>,
    /// Operations that keep their places: neighbors of which the first need run before the second.
    fixed: BTreeSet<u32>,
    /// Buffers of first operations with those that are the same to second ones, and these.
    buffers: BTreeMap<u32, u32>,
    images: BTreeSet<u32>,
    /// Buffers that both use.
    shared: BTreeSet<u32>,
    /// Pairs of which neighbors were not looked at.
    open: Vec<(u32, u32)>,
}

impl<'f, 'm> Growth<'f, 'm> {
    fn new(finder: &'f mut Finder<'m>) -> Self {
        Self {
            finder,
            group: Group::new(),
            seconds: BTreeSet::new(),
            fixed: BTreeSet::new(),
            buffers: BTreeMap::new(),
            images: BTreeSet::new(),
            shared: BTreeSet::new(),
            open: Vec::new(),
        }
    }

    /// The group with this pair, if there is one.
    fn from(mut self, first: u32, second: u32) -> Option<Group> {
        self.operations(first, second)?;
        while let Some((first, second)) = self.open.pop() {
            self.neighbors(first, second)?;
        }
        self.is_sound().then_some(self.group)
    }

    /// Takes two operations for twins, or for neighbors in sequence; `None` where they can be neither.
    fn operations(&mut self, first: u32, second: u32) -> Option<()> {
        if first == second {
            self.fixed.insert(first);
            return Some(());
        }
        if self.group.get(&first) == Some(&second) {
            return Some(());
        }
        if self.finder.is_before(first, second) {
            self.fixed.extend([first, second]);
            return Some(());
        }
        let is_taken = |operation: &u32| self.group.contains_key(operation) || self.seconds.contains(operation);
        let are_alike = self.finder.likeness[first as usize] == self.finder.likeness[second as usize];
        if !are_alike
            || is_taken(&first)
            || is_taken(&second)
            || self.finder.is_before(second, first)
            || self.group.len() == MAX_GROUP
        {
            return None;
        }
        self.group.insert(first, second);
        self.seconds.insert(second);
        self.open.push((first, second));
        Some(())
    }

    /// Compares all that two operations use, wait for, and are waited for by.
    fn neighbors(&mut self, first: u32, second: u32) -> Option<()> {
        let model = self.finder.model;
        self.finder.looks = self.finder.looks.checked_sub(1 + model.uses.of(first).len())?;
        for list in [&model.predecessors, &model.successors] {
            self.lists(list.of(first), list.of(second))?;
        }
        let (own, other) = (model.uses.of(first), model.uses.of(second));
        self.shared.extend(own.iter().filter(|buffer| other.binary_search(buffer).is_ok()));
        let key = |buffer: &u32| (model.sizes[*buffer as usize], model.users.of(*buffer).len(), *buffer);
        let open = unpaired(own, other, &self.buffers, key)?;
        open.into_iter().try_for_each(|(own, other)| self.buffer(own, other))
    }

    /// Takes two buffers for the same of both sides.
    fn buffer(&mut self, own: u32, other: u32) -> Option<()> {
        let model = self.finder.model;
        let alike = |list: &[bool]| list[own as usize] == list[other as usize];
        let are_alike =
            model.sizes[own as usize] == model.sizes[other as usize] && alike(&model.from_start) && alike(&model.kept);
        let is_taken =
            |buffer: &u32| self.buffers.contains_key(buffer) || self.images.contains(buffer) || self.shared.contains(buffer);
        if !are_alike || is_taken(&own) || is_taken(&other) {
            return None;
        }
        self.buffers.insert(own, other);
        self.images.insert(other);
        self.finder.looks = self.finder.looks.checked_sub(model.users.of(own).len())?;
        self.lists(model.users.of(own), model.users.of(other))
    }

    /// Pairs the operations of two lists: those in both with themselves, the others with their twins or in sequence.
    fn lists(&mut self, own: &[u32], other: &[u32]) -> Option<()> {
        self.fixed.extend(own.iter().filter(|operation| other.binary_search(operation).is_ok()));
        let open = unpaired(own, other, &self.group, |operation| *operation)?;
        open.into_iter().try_for_each(|(own, other)| self.operations(own, other))
    }

    /// Whether no operation that keeps its place is one of a pair, no buffer is both shared and one side's, and bytes are taken over alike.
    fn is_sound(&self) -> bool {
        let model = self.finder.model;
        let is_of_pair = |operation: &u32| self.group.contains_key(operation) || self.seconds.contains(operation);
        let is_one_sided = |buffer: &u32| self.buffers.contains_key(buffer) || self.images.contains(buffer);
        let mut touched: BTreeSet<u32> = self.group.keys().chain(self.group.values()).copied().collect();
        touched.extend(self.buffers.iter().flat_map(|(own, other)| model.users.of(*own).iter().chain(model.users.of(*other))));
        !self.fixed.iter().any(is_of_pair)
            && !self.shared.iter().any(is_one_sided)
            && touched.iter().all(|operation| takers(model, *operation).len() <= 1)
            && self.group.iter().all(|(first, second)| self.takes_alike(*first, *second))
    }

    fn takes_alike(&self, first: u32, second: u32) -> bool {
        let image = |buffer: &u32| self.buffers.get(buffer).copied().unwrap_or(*buffer);
        let (own, other) = (takers(self.finder.model, first), takers(self.finder.model, second));
        let own = own.iter().map(|(taker, taken)| {
            let mut taken: Vec<u32> = taken.iter().map(image).collect();
            taken.sort_unstable();
            (image(taker), taken)
        });
        own.eq(other)
    }
}

/// Pairs of what one sorted list has and the other has not, each in the sequence of their keys, without pairs that are known; `None` where their numbers differ.
fn unpaired<K: Ord>(own: &[u32], other: &[u32], known: &BTreeMap<u32, u32>, key: impl Fn(&u32) -> K) -> Option<Vec<(u32, u32)>> {
    let left = |list: &[u32], without: &[u32]| -> Vec<u32> {
        list.iter().copied().filter(|entry| without.binary_search(entry).is_err()).collect()
    };
    let (mut own, mut other) = (left(own, other), left(other, own));
    own.retain(|entry| {
        let place = known.get(entry).and_then(|image| other.binary_search(image).ok());
        place.map(|place| other.remove(place)).is_none()
    });
    own.sort_by_key(&key);
    other.sort_by_key(&key);
    (own.len() == other.len()).then(|| own.into_iter().zip(other).collect())
}

/// Buffers of an operation that may take over others of its buffers, with these.
fn takers(model: &Model, operation: u32) -> Vec<(u32, Vec<u32>)> {
    let uses = model.uses.of(operation);
    let taken = |taker: &u32| {
        let mut taken: Vec<u32> = model.takes_over.of(*taker).iter().copied().filter(|other| uses.contains(other)).collect();
        taken.sort_unstable();
        taken
    };
    uses.iter().map(|taker| (*taker, taken(taker))).filter(|(_, taken)| !taken.is_empty()).collect()
}
