//! `split`: computes regions around the peak in parts of one axis, one part after another.

mod estimate;
mod region;
mod search;

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Stage};

use crate::judge::{Judged, judge};
use crate::parts::{Weights, write};
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::worth::{Price, Worth};
use region::{NAME, Region, is_own};
use search::Search;

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: NAME,
    summary: "Computes regions around the peak in parts of one axis, one part after another.",
    page: include_str!("../../doc/split.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    run,
};

/// Levels that a round aims at, as parts of the peak in hundredths.
const GOALS: [u64; 6] = [97, 90, 75, 50, 35, 22];
/// The same as hundredths of the room, where there is one: estimates may be too low.
const OF_ROOM: [u64; 3] = [100, 75, 50];
/// Rounds at most: each begins at the peak that the one before left.
const ROUNDS: usize = 8;
/// Nodes that may be ordered on trial in all.
const TRIAL_NODES: usize = 40_000;

/// Whether nodes of a module were written by the pass.
pub fn is_split(module: &Module) -> bool {
    module.graph(module.main()).nodes.iter().any(|node| is_own(module, *node))
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let options = ctx.options;
    // Kernels may add up in another order where there is less to add up.
    if options.rewrite.exact {
        return Ok(Changed::No);
    }
    let Some(judged) = judge(module.clone(), options, 0) else { return Ok(Changed::No) };
    let price = Price::new(options, Bytes(judged.peak), judged.nanos);
    let mut rounds = Rounds { ctx, price, room: options.room().map(|room| room.0), trial_nodes: TRIAL_NODES };
    let mut state = State { worth: rounds.price.of(Bytes(judged.peak), judged.nanos), judged };
    let mut edits = 0;
    for _ in 0..ROUNDS {
        let Some((found, regions)) = rounds.next(module, &state) else { break };
        edits += divide(module, &regions, &mut Weights::new(ctx));
        state = found;
    }
    if edits > 0 {
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Writes regions in parts; returns the number of edits.
fn divide(module: &mut Module, regions: &[Region], weights: &mut Weights<'_, '_>) -> u64 {
    write(module, regions.iter().map(|region| (&region.divided, region.parts)), weights, INFO.name)
}

/// A module in a good order, with what it is worth.
struct State {
    judged: Judged,
    worth: Worth,
}

/// What all rounds share.
struct Rounds<'c, 'o> {
    ctx: &'c PassContext<'o>,
    price: Price,
    /// What the arena may take, where anything says so: less is not looked for.
    room: Option<u64>,
    /// Nodes that may still be ordered on trial.
    trial_nodes: usize,
}

impl Rounds<'_, '_> {
    /// The regions that lower the peak by what is worth most, and what they leave; `None` where none does.
    fn next(&mut self, module: &Module, state: &State) -> Option<(State, Vec<Region>)> {
        let peak = state.judged.peak;
        if self.room.is_some_and(|room| peak <= room) {
            return None;
        }
        let mut search = Search::new(&state.judged, self.ctx.options, Weights::on_trial(self.ctx), self.price);
        let mut tried = BTreeSet::new();
        let mut best: Option<(State, Vec<Region>)> = None;
        let of_room = self.room.into_iter().flat_map(|room| OF_ROOM.map(|part| room / 100 * part));
        let goals = GOALS.map(|part| peak / 100 * part).into_iter().chain(of_room);
        for (goal, shared) in goals.flat_map(|goal| [(goal, false), (goal, true)]) {
            let regions = search.regions(goal, shared);
            let key: Vec<(u64, Vec<Node>)> =
                regions.iter().map(|region| (region.parts, region.nodes.values().copied().collect())).collect();
            if !search.covers_peak(&regions) || !tried.insert(key) {
                continue;
            }
            let Some(found) = self.judged(module, &regions) else { continue };
            if found.judged.peak < peak && found.worth < best.as_ref().map_or(state.worth, |(best, _)| best.worth) {
                best = Some((found, regions));
            }
        }
        best
    }

    /// What a module is worth with regions in parts; `None` where that takes too long, or no trial is left.
    fn judged(&mut self, module: &Module, regions: &[Region]) -> Option<State> {
        let mut trial = module.clone();
        divide(&mut trial, regions, &mut Weights::on_trial(self.ctx));
        self.trial_nodes = self.trial_nodes.checked_sub(trial.graph(trial.main()).nodes.len())?;
        let judged = judge(trial, self.ctx.options, self.room.unwrap_or(0))?;
        let is_slow = self.ctx.time_limit.is_some_and(|limit| judged.nanos > limit);
        (!is_slow).then(|| State { worth: self.price.of(Bytes(judged.peak), judged.nanos), judged })
    }
}
