//! Twins: pairs of parallel groups of operations with equal structure, such as equal parts of a region.
//! The first group of a pair may always run ahead of its twin.
//!
//! A group and its twin are stored as pairs of operations. Every buffer or neighbor of the first
//! operation of a pair either belongs to the second too, has its twin there, or belongs to operations
//! that run in a fixed sequence anyway. Then some best order runs the first of each pair before the
//! second; see `doc/order.md` for the argument.

use std::collections::{BTreeMap, BTreeSet};

use crate::order::bound::MAX_OPERATIONS;
use crate::order::cuts::narrow::sorted;
use crate::order::heuristics::greedy::MAX_LOOKS;
use crate::order::model::{Model, positions};
use crate::order::problem::Problem;

/// Most operations in a group.
const MAX_GROUP: usize = 256;
/// Most operations with equal likeness that are tried as the twin of an operation.
const MAX_CANDIDATES: usize = 3;
const WORD: usize = u64::BITS as usize;

/// Returns the problem with twins in sequence, and an order of it with a peak no higher than that of
/// `order`. Returns `None` if there are no twins.
///
/// O(n · edges / 64), plus the looks.
pub(in crate::order) fn ordered(problem: &Problem, order: &[u32]) -> Option<(Problem, Vec<u32>)> {
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

/// A group and its twin: a map from the operations of the first to those of the second.
type Group = BTreeMap<u32, u32>;

/// Exchanges the positions of each pair, so that its first operation runs at the earlier one.
fn uncrossed(groups: &[Group], order: &[u32]) -> Vec<u32> {
    let mut place = positions(order);
    // The loop ends: each exchange moves a first operation ahead, and no chain of pairs leads from an
    // operation back to itself.
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

/// Properties that twins must share: scratch, numbers of predecessors and successors, and the buffers
/// with size, start and end flags and number of users.
type Likeness = (u64, usize, usize, Vec<(u64, bool, bool, usize)>);

/// Searches for groups.
struct Finder<'m> {
    model: &'m Model,
    /// For each operation, the set of itself and its descendants, as one row of bits each.
    behind: Vec<u64>,
    likeness: Vec<u32>,
    looks: usize,
    /// For each first operation, its second operations in all groups.
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

    /// Returns groups in which no chain of pairs leads from an operation back to itself.
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

    /// Returns the group that grows from a pair; `None` if the pair is already ordered or no group
    /// exists.
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

    /// Whether predecessors force `first` to run before `second`.
    fn is_before(&self, first: u32, second: u32) -> bool {
        let words = self.model.operations.div_ceil(WORD);
        first != second
            && self.behind[first as usize * words + second as usize / WORD] >> (second as usize % WORD) & 1
                == 1
    }

    /// Whether a chain of pairs leads from `first` to `second`.
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

/// A group under construction.
struct Growth<'f, 'm> {
    finder: &'f mut Finder<'m>,
    group: Group,
    /// Second operations of the group.
    seconds: BTreeSet<u32>,
    /// Operations that keep their positions: common neighbors, and neighbors whose sequence is fixed by
    /// predecessors.
    fixed: BTreeSet<u32>,
    /// For each buffer of the first operations, its twin.
    buffers: BTreeMap<u32, u32>,
    /// Twins of those buffers.
    images: BTreeSet<u32>,
    /// Buffers that both operations of a pair use.
    shared: BTreeSet<u32>,
    /// Pairs whose neighbors were not compared yet.
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

    /// Grows the group from a pair; `None` if the pair has no group.
    fn from(mut self, first: u32, second: u32) -> Option<Group> {
        self.operations(first, second)?;
        while let Some((first, second)) = self.open.pop() {
            self.neighbors(first, second)?;
        }
        self.is_sound().then_some(self.group)
    }

    /// Makes two operations twins, or accepts them as neighbors in a fixed sequence; `None` if they can
    /// be neither.
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
        let is_taken =
            |operation: &u32| self.group.contains_key(operation) || self.seconds.contains(operation);
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

    /// Compares the buffers, predecessors and successors of two operations.
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

    /// Makes two buffers twins; `None` if they differ or one of them already has another role.
    fn buffer(&mut self, own: u32, other: u32) -> Option<()> {
        let model = self.finder.model;
        let alike = |list: &[bool]| list[own as usize] == list[other as usize];
        let are_alike = model.sizes[own as usize] == model.sizes[other as usize]
            && alike(&model.from_start)
            && alike(&model.kept);
        let is_taken = |buffer: &u32| {
            self.buffers.contains_key(buffer) || self.images.contains(buffer) || self.shared.contains(buffer)
        };
        if !are_alike || is_taken(&own) || is_taken(&other) {
            return None;
        }
        self.buffers.insert(own, other);
        self.images.insert(other);
        self.finder.looks = self.finder.looks.checked_sub(model.users.of(own).len())?;
        self.lists(model.users.of(own), model.users.of(other))
    }

    /// Pairs the operations of two lists: common operations keep their positions, the others become
    /// twins or must be in a fixed sequence.
    fn lists(&mut self, own: &[u32], other: &[u32]) -> Option<()> {
        self.fixed.extend(own.iter().filter(|operation| other.binary_search(operation).is_ok()));
        let open = unpaired(own, other, &self.group, |operation| *operation)?;
        open.into_iter().try_for_each(|(own, other)| self.operations(own, other))
    }

    /// Whether no operation both keeps its position and belongs to a pair, no buffer is both shared and
    /// a twin, each operation has at most one buffer that takes over others, and twins take over alike.
    fn is_sound(&self) -> bool {
        let model = self.finder.model;
        let is_of_pair =
            |operation: &u32| self.group.contains_key(operation) || self.seconds.contains(operation);
        let is_one_sided = |buffer: &u32| self.buffers.contains_key(buffer) || self.images.contains(buffer);
        let mut touched: BTreeSet<u32> = self.group.keys().chain(self.group.values()).copied().collect();
        touched.extend(
            self.buffers
                .iter()
                .flat_map(|(own, other)| model.users.of(*own).iter().chain(model.users.of(*other))),
        );
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

/// Pairs the entries that only one of two sorted lists has, sorted by `key`, without the known pairs.
/// Returns `None` if their numbers differ.
fn unpaired<K: Ord>(
    own: &[u32],
    other: &[u32],
    known: &BTreeMap<u32, u32>,
    key: impl Fn(&u32) -> K,
) -> Option<Vec<(u32, u32)>> {
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

/// Returns the buffers of an operation that may take over others of its buffers, each with those
/// buffers.
fn takers(model: &Model, operation: u32) -> Vec<(u32, Vec<u32>)> {
    let uses = model.uses.of(operation);
    let taken = |taker: &u32| {
        let mut taken: Vec<u32> =
            model.takes_over.of(*taker).iter().copied().filter(|other| uses.contains(other)).collect();
        taken.sort_unstable();
        taken
    };
    uses.iter().map(|taker| (*taker, taken(taker))).filter(|(_, taken)| !taken.is_empty()).collect()
}
