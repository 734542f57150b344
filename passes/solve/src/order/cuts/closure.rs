//! Lower bounds by minimum cuts: the fewest bytes that can live at the step of one operation, over all
//! sets of operations that may have run before it.
//!
//! At the step of an operation v, a set S of other operations ran: all ancestors of v, none of its
//! descendants, and with each operation its predecessors. The live bytes are a sum over buffers of "some
//! user ran, some user did not". The smallest sum over all possible sets S is therefore a minimum cut (a
//! closure problem after Picard, *Maximal closure of a graph*, 1976, with one hyperedge for each
//! buffer). No order has fewer bytes at v.

use super::witness::{Own, Witness, Witnesses};
use crate::basics::flow::{Flow, Network};
use crate::basics::lists::Lists;
use crate::order::model::Model;

/// Position of an operation relative to v, the operation of the network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It runs before v in every order.
    Before,
    /// It is v, or runs after v in every order.
    Behind,
    /// It may run on either side of v; holds its number among these operations.
    Free(u32),
}

/// Most take-over ways at one step that get a cut each. With more ways, one cut subtracts an upper bound
/// of the saving.
const MAX_WAYS: usize = 8;

/// Raises a lower bound by minimum cuts at the highest steps of an order, until `looks` at arcs run out.
pub(in crate::order) fn raise(
    model: &Model,
    order: &[u32],
    steps: &[u64],
    mut lower_bound: u64,
    looks: &mut u64,
) -> u64 {
    let mut sequence: Vec<usize> = (0..order.len()).collect();
    sequence.sort_by_key(|place| (std::cmp::Reverse(steps[*place]), *place));
    for place in sequence {
        // An order is one of the candidates of the cut, so the cut at an operation is never above its
        // step.
        if steps[place] <= lower_bound || *looks == 0 {
            break;
        }
        if let Some(bytes) = least_bytes_at(model, order[place], looks) {
            lower_bound = lower_bound.max(bytes);
        }
    }
    lower_bound
}

/// Returns the fewest bytes at the step of an operation in any order; `None` if `looks` run out.
pub(in crate::order) fn least_bytes_at(model: &Model, operation: u32, looks: &mut u64) -> Option<u64> {
    let (sides, free) = sides(model, operation);
    let mut least: Option<u64> = None;
    for way in ways(model, operation) {
        // Building a network takes time in proportion to its size.
        *looks = looks.checked_sub(model.operations as u64)?;
        let (mut flow, fixed) = Cut::of(model, operation, &sides, free, &way);
        let bytes = fixed + flow.maximize(u64::MAX, looks)?;
        least = Some(least.map_or(bytes, |least| least.min(bytes)));
    }
    least
}

/// Consequences of a requested peak at one operation.
pub(in crate::order) enum Forced {
    /// No order keeps the peak, nor any peak below this one, in bytes.
    Impossible(u64),
    /// Pairs of operations whose first runs before the second in every order that keeps the peak, and
    /// the lowest peak at which one of these pairs would not be forced.
    Pairs(Vec<(u32, u32)>, u64),
}

/// Finds the operations that run before or after `operation` in every order with peak at most `bound`.
/// Returns `None` if `looks` run out.
///
/// Demanding that another operation u ran, or did not run, adds a constraint to the cut. If the least
/// cut is then above the bound, u cannot be on that side. A cut within the bound shows a possible side
/// for every operation at once. So the search demands a whole group of operations first, and halves the
/// group if its cut is above the bound.
///
/// `witnesses` answer questions without a flow. New cuts are added to them.
pub(in crate::order) fn forced_at(
    model: &Model,
    operation: u32,
    bound: u64,
    witnesses: &mut Witnesses,
    looks: &mut u64,
) -> Option<Forced> {
    let (sides, free) = sides(model, operation);
    let known = witnesses.retain(model, operation, bound);
    let mut probe = Probe::new(free, bound, &sides, known);
    *looks = looks.saturating_sub(model.operations as u64);
    let mut possible = known.count() > 0;
    if possible && probe.knows_all() {
        return Some(Forced::Pairs(Vec::new(), u64::MAX));
    }
    for way in ways(model, operation) {
        let (mut flow, fixed) = Cut::of(model, operation, &sides, free, &way);
        if fixed + flow.capacity() <= bound {
            // No cut is above the bound, so nothing is forced.
            return Some(Forced::Pairs(Vec::new(), u64::MAX));
        }
        if !probe.try_flow(&mut flow, fixed, looks)? {
            continue;
        }
        possible = true;
        probe.ask(&Question { model, sides: &sides, flow: &flow, fixed, ran: true }, looks)?;
        probe.ask(&Question { model, sides: &sides, flow: &flow, fixed, ran: false }, looks)?;
    }
    // Store the new cuts as witnesses: the set with the fewest operations and the set with the most.
    for (source, sink, bytes) in std::mem::take(&mut probe.found) {
        let ran = |other: u32, free: &dyn Fn(usize) -> bool| match sides[other as usize] {
            Side::Before => true,
            Side::Behind => false,
            Side::Free(index) => free(index as usize),
        };
        let (fewest, most) = (|index: usize| source[index], |index: usize| !sink[index]);
        witnesses.add(operation, Witness::new(model.operations, bytes, |other| ran(other, &fewest)));
        witnesses.add(operation, Witness::new(model.operations, bytes, |other| ran(other, &most)));
    }
    // Turn the excluded sides into pairs.
    let mut pairs = Vec::new();
    let side = |other: u32| match sides[other as usize] {
        Side::Free(index) => Some((probe.may_run[index as usize], probe.may_wait[index as usize])),
        _ => None,
    };
    for other in 0..model.operations as u32 {
        // Skip pairs that another pair implies by predecessors.
        match side(other) {
            None | Some((true, true)) => {}
            Some((true, false))
                if model.successors.of(other).iter().any(|next| side(*next) == Some((true, false))) => {}
            Some((true, false)) => pairs.push((other, operation)),
            Some((false, true))
                if model.predecessors.of(other).iter().any(|before| side(*before) == Some((false, true))) => {
            }
            Some((false, true)) => pairs.push((operation, other)),
            Some((false, false)) => possible = false,
        }
    }
    Some(if possible { Forced::Pairs(pairs, probe.refused) } else { Forced::Impossible(probe.refused) })
}

/// Sides that each free operation can take in a cut within the bound.
struct Probe {
    may_run: Vec<bool>,
    may_wait: Vec<bool>,
    bound: u64,
    /// Lowest least cut above the bound, in bytes.
    refused: u64,
    /// Cuts with new sides: which operations are on the source's side in every least cut, which on the
    /// sink's side, and the bytes.
    found: Vec<(Vec<bool>, Vec<bool>, u64)>,
}

/// A question to a maximal flow: which operations may have run (`ran`), or may still wait.
struct Question<'a> {
    model: &'a Model,
    sides: &'a [Side],
    flow: &'a Flow,
    fixed: u64,
    ran: bool,
}

impl Probe {
    fn new(free: usize, bound: u64, sides: &[Side], known: &Own) -> Self {
        let (mut may_run, mut may_wait) = (vec![false; free], vec![false; free]);
        for (other, side) in sides.iter().enumerate() {
            if let Side::Free(index) = side {
                may_run[*index as usize] = known.may_run(other as u32);
                may_wait[*index as usize] = known.may_wait(other as u32);
            }
        }
        Self { may_run, may_wait, bound, refused: u64::MAX, found: Vec::new() }
    }

    fn knows_all(&self) -> bool {
        self.may_run.iter().chain(&self.may_wait).all(|may| *may)
    }

    /// Returns whether the least cut of a network keeps the bound, and if so remembers the sides it
    /// gives to the operations.
    fn try_flow(&mut self, flow: &mut Flow, fixed: u64, looks: &mut u64) -> Option<bool> {
        let value = fixed + flow.maximize(self.bound.saturating_sub(fixed), looks)?;
        if value > self.bound {
            self.refused = self.refused.min(value);
            return Some(false);
        }
        *looks = looks.saturating_sub(flow.arcs());
        let (source, sink) = (flow.source_side(), flow.sink_side());
        let mut news = false;
        for (index, (run, wait)) in self.may_run.iter_mut().zip(&mut self.may_wait).enumerate() {
            news |= !(*run || sink[index]) || !(*wait || source[index]);
            *run |= !sink[index];
            *wait |= !source[index];
        }
        if news || self.may_run.is_empty() {
            self.found.push((source, sink, value));
        }
        Some(true)
    }

    /// Finds, for all operations whose answer is unknown, whether a cut within the bound allows the side
    /// in question.
    fn ask(&mut self, question: &Question<'_>, looks: &mut u64) -> Option<()> {
        let mut open: Vec<u32> = (0..question.model.operations as u32)
            .filter(|other| matches!(question.sides[*other as usize], Side::Free(_)))
            .collect();
        if !question.ran {
            open.reverse();
        }
        let mut excluded = vec![false; question.model.operations];
        let mut groups = vec![open];
        while let Some(mut group) = groups.pop() {
            group.retain(|other| self.is_open(question, *other, &mut excluded));
            if group.is_empty() {
                continue;
            }
            let mut flow = question.flow.clone();
            *looks = looks.saturating_sub(flow.arcs() / 4);
            for other in &group {
                if let Side::Free(index) = question.sides[*other as usize] {
                    if question.ran { flow.demand_source(index) } else { flow.demand_sink(index) }
                }
            }
            if self.try_flow(&mut flow, question.fixed, looks)? {
                continue;
            }
            if let [single] = group[..] {
                excluded[single as usize] = true;
            } else {
                let rest = group.split_off(group.len() / 2);
                groups.extend([rest, group]);
            }
        }
        Some(())
    }

    /// Whether an operation still needs an answer. Excluding "ran" for an operation excludes it for its
    /// successors, and excluding "waits" excludes it for its predecessors.
    fn is_open(&self, question: &Question<'_>, other: u32, excluded: &mut [bool]) -> bool {
        let Side::Free(index) = question.sides[other as usize] else { return false };
        let (seen, model) = (if question.ran { &self.may_run } else { &self.may_wait }, question.model);
        let implied = if question.ran { model.predecessors.of(other) } else { model.successors.of(other) };
        excluded[other as usize] |= implied.iter().any(|next| excluded[*next as usize]);
        !seen[index as usize] && !excluded[other as usize]
    }
}

/// Returns the side of each operation relative to `operation`, and the number of free operations. O(n +
/// edges).
fn sides(model: &Model, operation: u32) -> (Vec<Side>, usize) {
    let mut sides = vec![Side::Free(0); model.operations];
    let mut stack = Vec::new();
    for (side, neighbors) in [(Side::Before, &model.predecessors), (Side::Behind, &model.successors)] {
        stack.extend_from_slice(neighbors.of(operation));
        while let Some(other) = stack.pop() {
            if sides[other as usize] != side {
                sides[other as usize] = side;
                stack.extend_from_slice(neighbors.of(other));
            }
        }
    }
    sides[operation as usize] = Side::Behind;
    let mut free = 0;
    for side in &mut sides {
        if let Side::Free(index) = side {
            *index = free as u32;
            free += 1;
        }
    }
    (sides, free)
}

/// One way in which buffers take over others at a step.
struct Way {
    /// Pairs (taker, taken): the taker takes over the other buffer if that ends at the step.
    pairs: Vec<(u32, u32)>,
    /// Bytes saved at the step for every set that ran.
    constant_saving: u64,
}

/// Returns all ways of take-over. For every set that ran, some way saves at least the real saving.
fn ways(model: &Model, operation: u32) -> Vec<Way> {
    let uses = model.uses.of(operation);
    let mut ways = vec![Vec::new()];
    for &taker in uses {
        let taken = model
            .takes_over
            .of(taker)
            .iter()
            .filter(|other| uses.contains(other) && !model.kept[**other as usize]);
        let taken: Vec<u32> = taken.copied().collect();
        if taken.is_empty() || model.from_start[taker as usize] {
            continue;
        }
        if ways.len() * taken.len() > MAX_WAYS {
            let all = |flags: &[bool], buffer: u32| !flags[buffer as usize];
            let constant_saving = model.saved(
                operation,
                |buffer| all(&model.from_start, buffer),
                |buffer| all(&model.kept, buffer),
            );
            return vec![Way { pairs: Vec::new(), constant_saving }];
        }
        let longer = |pairs: &Vec<(u32, u32)>| {
            let pairs = pairs.clone();
            taken
                .iter()
                .map(move |other| pairs.iter().copied().chain([(taker, *other)]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).collect();
    }
    ways.into_iter().map(|pairs| Way { pairs, constant_saving: 0 }).collect()
}

/// The network of an operation under construction, and the bytes that do not depend on the set that ran.
struct Cut<'a> {
    model: &'a Model,
    operation: u32,
    sides: &'a [Side],
    network: Network,
    fixed: u64,
}

impl<'a> Cut<'a> {
    /// Returns the network for one way, and the bytes that count for every set that ran. Free operations
    /// have the first node numbers.
    fn of(model: &'a Model, operation: u32, sides: &'a [Side], free: usize, way: &Way) -> (Flow, u64) {
        let mut cut = Self {
            model,
            operation,
            sides,
            network: Network::new(free),
            fixed: model.scratch[operation as usize],
        };
        cut.state(way);
        (cut.network.build(), cut.fixed - way.constant_saving)
    }

    fn state(&mut self, way: &Way) {
        for operation in 0..self.model.operations as u32 {
            let Side::Free(own) = self.sides[operation as usize] else { continue };
            for &before in self.model.predecessors.of(operation) {
                if let Side::Free(other) = self.sides[before as usize] {
                    self.network.follow(own, other);
                }
            }
        }
        for buffer in 0..self.model.sizes.len() as u32 {
            self.count(buffer);
        }
        for &(taker, taken) in &way.pairs {
            self.count_taker(taker, taken);
        }
    }

    /// Adds a buffer to the network. It counts if some user ran and some user did not; the operation
    /// itself counts as both.
    fn count(&mut self, buffer: u32) {
        let (model, size) = (self.model, self.model.sizes[buffer as usize]);
        let users = model.users.of(buffer);
        if size == 0
            || (users.is_empty() && !(model.from_start[buffer as usize] && model.kept[buffer as usize]))
        {
            return;
        }
        let is = |side: Side| users.iter().any(|user| self.sides[*user as usize] == side);
        let own = users.binary_search(&self.operation).is_ok();
        let begun = own || model.from_start[buffer as usize] || is(Side::Before);
        let open = own || model.kept[buffer as usize] || is(Side::Behind);
        if begun && open {
            self.fixed += size;
            return;
        }
        if begun {
            if let Some(last) = self.join(users, &model.successors, Network::follow) {
                self.network.source_arc(last, size);
            }
            return;
        }
        let Some(first) =
            self.join(users, &model.predecessors, |network, join, user| network.follow(user, join))
        else {
            return;
        };
        if open {
            self.network.sink_arc(first, size);
        } else if let Some(last) = self.join(users, &model.successors, Network::follow) {
            self.network.arc(first, last, size);
        }
    }

    /// Returns one node for all free users without a user among their `neighbors`: the only user, or a
    /// new node that `follow` ties to each. An operation that ran has predecessors that ran, so it is
    /// enough to examine the first users (some ran) and the last users (some did not).
    fn join(
        &mut self,
        users: &[u32],
        neighbors: &Lists,
        follow: impl Fn(&mut Network, u32, u32),
    ) -> Option<u32> {
        let (mut only, mut join) = (None, None);
        for &user in users {
            let Side::Free(index) = self.sides[user as usize] else { continue };
            if users.len() > 1 && neighbors.of(user).iter().any(|other| users.binary_search(other).is_ok()) {
                continue;
            }
            let Some(first) = only else {
                only = Some(index);
                continue;
            };
            let join = *join.get_or_insert_with(|| {
                let node = self.network.node();
                follow(&mut self.network, node, first);
                node
            });
            follow(&mut self.network, join, index);
        }
        join.or(only)
    }

    /// Makes a taker, already counted in full, count only if another user of `taken` still waits.
    fn count_taker(&mut self, taker: u32, taken: u32) {
        let size = self.model.sizes[taker as usize];
        let others = self.model.users.of(taken).iter().filter(|user| **user != self.operation);
        if others.clone().any(|user| self.sides[*user as usize] == Side::Behind) {
            return;
        }
        self.fixed -= size;
        let rest = self.network.node();
        self.network.source_arc(rest, size);
        for user in others {
            if let Side::Free(index) = self.sides[*user as usize] {
                self.network.follow(rest, index);
            }
        }
    }
}
