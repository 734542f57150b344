//! Lower bound of the peak over all orders of the plan's nodes: bytes that must be live at some node's
//! step in every order.
//!
//! A set of views is one owner of bytes. Its users are the nodes that compute or read one of the views.
//! An owner is surely live at the step of node v in two cases combined: some user is v or must run
//! before v, and some user is v or must run after v. An operand that v may overwrite counts together
//! with the result only once. Two owners that share bytes are both live at no other node, because all
//! users of the first run before all users of the second.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memc_ir::Value;
use memc_layout::Class;

use crate::ctx::Ctx;
use crate::views;

/// Number of nodes whose relations to all other nodes are in memory at once. Memory is this many bits a
/// node.
const BLOCK: usize = 4096;
const WORD: usize = 64;

/// An owner of bytes with the steps that use it.
#[derive(Clone, Default, Debug)]
struct Owner {
    bytes: u64,
    users: Vec<usize>,
    from_start: bool,
    to_end: bool,
}

/// Returns a lower bound of the peak over all orders of the plan's nodes, in bytes, by space. Counts
/// only bytes that are surely live at one step. Views are as in the plan, and every operand that may be
/// overwritten is. Valid only if nothing is recomputed or moved. O((edges + uses) · nodes / 64).
pub(crate) fn order_bounds<'a>(ctx: &Ctx<'a>) -> BTreeMap<&'a str, u64> {
    let (predecessors, successors) = neighbors(ctx);
    let mut bounds = BTreeMap::new();
    for (space, owners) in owners(ctx) {
        let scratch = scratch(ctx, space);
        let mut bound = 0;
        for first in (0..ctx.steps()).step_by(BLOCK) {
            let block = first..ctx.steps().min(first + BLOCK);
            let surely = surely_live(&owners.owners, &predecessors, &successors, &block);
            for (step, live) in block.zip(surely) {
                let saved = owners.most_overwritten(ctx, step);
                bound = bound.max(live.saturating_add(scratch[step]).saturating_sub(saved));
            }
        }
        bounds.insert(space, bound);
    }
    bounds
}

/// Returns the workspace of each step's node in a space, in bytes.
fn scratch(ctx: &Ctx<'_>, space: &str) -> Vec<u64> {
    let mut scratch: Vec<u64> = vec![0; ctx.steps()];
    for tensor in
        ctx.layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch && tensor.offset.is_some())
    {
        let step =
            tensor.step.and_then(|step| usize::try_from(step).ok()).and_then(|step| scratch.get_mut(step));
        if let (Some(bytes), true) = (step, tensor.space.as_deref() == Some(space)) {
            *bytes = bytes.saturating_add(tensor.bytes);
        }
    }
    scratch
}

/// Returns two lists by step: the steps that compute its operands, and the steps that read its results.
fn neighbors(ctx: &Ctx<'_>) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let (mut predecessors, mut successors) = (vec![Vec::new(); ctx.steps()], vec![Vec::new(); ctx.steps()]);
    for (step, row) in ctx.order.iter().enumerate() {
        let before: BTreeSet<usize> =
            ctx.out.rows[*row].reads.iter().filter_map(|value| ctx.produced_at(*value)).collect();
        for earlier in before.into_iter().filter(|earlier| *earlier < step) {
            predecessors[step].push(earlier);
            successors[earlier].push(step);
        }
    }
    (predecessors, successors)
}

/// Owners of a space, and the owner of each tensor entry that has one.
#[derive(Default)]
struct Owners {
    owners: Vec<Owner>,
    of: BTreeMap<usize, usize>,
}

fn owners<'a>(ctx: &Ctx<'a>) -> BTreeMap<&'a str, Owners> {
    let mut spaces: BTreeMap<&str, Owners> = BTreeMap::new();
    for members in &ctx.members {
        let placed = |member: &usize| {
            Some((*member, ctx.value_of[*member]?)).filter(|_| ctx.tensor(*member).offset.is_some())
        };
        let placed: Vec<(usize, Value)> = members.iter().filter_map(placed).collect();
        let Some(space) = placed.first().and_then(|(member, _)| ctx.tensor(*member).space.as_deref()) else {
            continue;
        };
        let found = spaces.entry(space).or_default();
        let mut owner = Owner::default();
        for (member, value) in placed {
            found.of.insert(member, found.owners.len());
            owner.bytes = owner.bytes.max(ctx.tensor(member).bytes);
            owner.users.extend(ctx.produced_at(value).into_iter().chain(ctx.readers[value].iter().copied()));
            owner.from_start |= ctx.produced_at(value).is_none();
            owner.to_end |= ctx.out.is_output[value];
        }
        owner.users.sort_unstable();
        owner.users.dedup();
        found.owners.push(owner);
    }
    spaces.values_mut().for_each(|found| found.drop_parts(ctx));
    spaces
}

/// Returns, for each step of a block, the bytes of the owners that are surely live.
fn surely_live(
    owners: &[Owner],
    predecessors: &[Vec<usize>],
    successors: &[Vec<usize>],
    block: &Range<usize>,
) -> Vec<u64> {
    let steps = predecessors.len();
    let words = block.len().div_ceil(WORD);
    let behind = reached(block, successors, (0..steps).rev());
    let before = reached(block, predecessors, 0..steps);
    let mut live = vec![0u64; block.len()];
    let (mut begun, mut needed) = (vec![0u64; words], vec![0u64; words]);
    for owner in owners.iter().filter(|owner| owner.bytes > 0) {
        begun.fill(if owner.from_start { u64::MAX } else { 0 });
        needed.fill(if owner.to_end { u64::MAX } else { 0 });
        for user in &owner.users {
            let row = user * words..(user + 1) * words;
            begun.iter_mut().zip(&behind[row.clone()]).for_each(|(all, own)| *all |= own);
            needed.iter_mut().zip(&before[row]).for_each(|(all, own)| *all |= own);
        }
        for (word, (begun, needed)) in begun.iter().zip(&needed).enumerate() {
            let mut both = begun & needed;
            while both != 0 {
                let place = word * WORD + both.trailing_zeros() as usize;
                both &= both - 1;
                if let Some(bytes) = live.get_mut(place) {
                    *bytes = bytes.saturating_add(owner.bytes);
                }
            }
        }
    }
    live
}

/// For each step, returns as bits the steps of the block that it equals or reaches through neighbors.
/// `sequence` visits neighbors first.
fn reached(
    block: &Range<usize>,
    neighbors: &[Vec<usize>],
    sequence: impl Iterator<Item = usize>,
) -> Vec<u64> {
    let words = block.len().div_ceil(WORD);
    let mut sets = vec![0u64; neighbors.len() * words];
    let mut row = vec![0u64; words];
    for step in sequence {
        row.fill(0);
        if block.contains(&step) {
            row[(step - block.start) / WORD] |= 1 << ((step - block.start) % WORD);
        }
        for neighbor in &neighbors[step] {
            row.iter_mut()
                .zip(&sets[neighbor * words..(neighbor + 1) * words])
                .for_each(|(all, own)| *all |= own);
        }
        sets[step * words..(step + 1) * words].copy_from_slice(&row);
    }
    sets
}

/// Returns pairs of tensor entries: a result of a step, and an operand that the result may overwrite.
fn overwrites(ctx: &Ctx<'_>, step: usize) -> Vec<(usize, usize)> {
    let row = ctx.order[step];
    let data = ctx.out.module.node(ctx.out.rows[row].node);
    let legal = ctx.out.overwritable(row);
    let first = data.outputs.first().copied().flatten();
    let mut pairs = Vec::new();
    for result in data.results() {
        for (position, operand) in data.inputs.iter().enumerate() {
            let Some(operand) = *operand else { continue };
            let element_wise = first == Some(result) && legal.contains(&position);
            if (element_wise || views::begins(ctx.out, result, operand))
                && let (Some(over), Some(under)) = (ctx.tensor_of[result], ctx.tensor_of[operand])
                && ctx.tensor(over).bytes == ctx.tensor(under).bytes
            {
                pairs.push((over, under));
            }
        }
    }
    pairs
}

impl Owners {
    /// Returns the owners of a pair of tensor entries, or `None` if an owner is missing or both are
    /// equal.
    fn of(&self, (over, under): (usize, usize)) -> Option<(usize, usize)> {
        let (over, under) = (*self.of.get(&over)?, *self.of.get(&under)?);
        (over != under).then_some((over, under))
    }

    /// Stops counting results that may be placed within a larger owner. The larger owner may stay live, so
    /// that the two share bytes at several nodes and the argument of one shared node fails.
    fn drop_parts(&mut self, ctx: &Ctx<'_>) {
        for step in 0..ctx.steps() {
            for (over, under) in overwrites(ctx, step) {
                let Some((result, operand)) = self.of((over, under)) else { continue };
                if self.owners[operand].bytes != ctx.tensor(under).bytes {
                    self.owners[result].bytes = 0;
                }
            }
        }
    }

    /// Returns the maximum number of bytes that results of a step can share with operands that they
    /// overwrite.
    fn most_overwritten(&self, ctx: &Ctx<'_>, step: usize) -> u64 {
        let pairs = overwrites(ctx, step).into_iter().filter_map(|pair| self.of(pair));
        let results: BTreeSet<usize> =
            pairs.filter(|(_, operand)| !self.owners[*operand].to_end).map(|pair| pair.0).collect();
        results.into_iter().fold(0, |sum: u64, result| sum.saturating_add(self.owners[result].bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with every topological order.
    fn orders(predecessors: &[Vec<usize>], order: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
        if order.len() == predecessors.len() {
            return visit(order);
        }
        for step in 0..predecessors.len() {
            if !order.contains(&step) && predecessors[step].iter().all(|before| order.contains(before)) {
                order.push(step);
                orders(predecessors, order, visit);
                order.pop();
            }
        }
    }

    /// Whether an owner is live at the step in position `place` of an order.
    fn lives(owner: &Owner, order: &[usize], place: usize) -> bool {
        let users = || (0..order.len()).filter(|at| owner.users.contains(&order[*at]));
        (owner.from_start || users().any(|at| at <= place)) && (owner.to_end || users().any(|at| at >= place))
    }

    #[test]
    fn surely_live_owners_are_those_live_in_every_order() {
        const STEPS: usize = 6;
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..60 {
            let predecessors: Vec<Vec<usize>> =
                (0..STEPS).map(|step| (0..step).filter(|_| random(3) == 0).collect()).collect();
            let behind =
                |step: usize| (0..STEPS).filter(|later| predecessors[*later].contains(&step)).collect();
            let successors: Vec<Vec<usize>> = (0..STEPS).map(behind).collect();
            let mut owner = |bit: usize| Owner {
                bytes: 1 << bit,
                users: (0..STEPS).filter(|step| *step == bit || random(3) == 0).collect(),
                from_start: random(5) == 0,
                to_end: random(5) == 0,
            };
            let owners: Vec<Owner> = (0..STEPS).map(&mut owner).collect();
            let mut always = vec![(1u64 << STEPS) - 1; STEPS];
            orders(&predecessors, &mut Vec::new(), &mut |order| {
                for (place, step) in order.iter().enumerate() {
                    let live = owners
                        .iter()
                        .filter(|owner| lives(owner, order, place))
                        .map(|owner| owner.bytes)
                        .sum::<u64>();
                    always[*step] &= live;
                }
            });
            let blocks = [0..4, 4..STEPS];
            let found: Vec<u64> = blocks
                .iter()
                .flat_map(|block| surely_live(&owners, &predecessors, &successors, block))
                .collect();
            // An owner with several users may be live in all orders although no single user comes first
            // in all of them.
            assert!(
                found.iter().zip(&always).all(|(found, always)| found & !always == 0),
                "{predecessors:?} {owners:?}"
            );
            let single = |owner: &&Owner| owner.users.len() == 1 || owner.from_start || owner.to_end;
            let exact = owners.iter().filter(single).fold(0, |bits, owner| bits | owner.bytes);
            assert!(
                found.iter().zip(&always).all(|(found, always)| found & exact == always & exact),
                "{predecessors:?} {owners:?}"
            );
        }
    }
}
