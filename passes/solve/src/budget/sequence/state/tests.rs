//! Compares the state with a plain replay, on random problems and random changes.

use super::super::emit::events;
use super::super::evaluate::evaluate;
use super::super::model::Model;
use super::State;
use crate::budget::check;
use crate::budget::problem::{Origin, Problem, Run, Value};
use crate::tuning::BudgetTuning;

/// The generator SplitMix64: returns a number below `below`.
fn next(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

fn random_problem(seed: &mut u64) -> Problem {
    let mut problem = Problem::default();
    for _ in 0..next(seed, 4) {
        problem.values.push(Value {
            size: next(seed, 20),
            origin: Origin::Near,
            kept: next(seed, 3) == 0,
            ..Value::default()
        });
    }
    for index in 0..2 + next(seed, 12) as u32 {
        let mut run = Run {
            cost: next(seed, 10),
            scratch: next(seed, 6),
            repeatable: next(seed, 6) > 0,
            ..Run::default()
        };
        for _ in 0..next(seed, 4).min(problem.values.len() as u64) {
            let value = next(seed, problem.values.len() as u64) as u32;
            if !run.reads.contains(&value) {
                run.reads.push(value);
            }
        }
        if index > 0 && next(seed, 3) == 0 {
            run.predecessors.push(next(seed, u64::from(index)) as u32);
        }
        for _ in 0..next(seed, 3) {
            let size = next(seed, 20);
            let fits = |other: &&u32| problem.values[**other as usize].size >= size;
            let takes_over = run.reads.iter().filter(fits).copied().collect();
            run.writes.push(problem.values.len() as u32);
            problem.values.push(Value { size, kept: next(seed, 6) == 0, takes_over, ..Value::default() });
        }
        problem.runs.push(run);
    }
    problem
}

#[test]
fn the_peak_is_that_of_a_replay_after_any_changes() {
    let mut seed = 1;
    for _ in 0..500 {
        let problem = random_problem(&mut seed);
        assert_eq!(problem.validate(), Ok(()));
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let mut state = State::new(&model, &model.given());
        for _ in 0..30 {
            let operation = next(&mut seed, problem.runs.len() as u64) as u32;
            let first = state.slots_of(operation)[0];
            if let Some(slot) = state.free_before(state.tree_slots() - 1, first)
                && model.repeatable[operation as usize]
                && next(&mut seed, 2) == 0
            {
                let low = first.max(slot - next(&mut seed, u64::from(slot - first)) as u32);
                if let Some(slot) = state.free_before(slot, low - 1).filter(|slot| *slot > first) {
                    state.insert(operation, slot);
                }
            } else {
                let slots = state.slots_of(operation);
                let slot = slots[next(&mut seed, slots.len() as u64) as usize];
                if state.is_spare(slot) {
                    state.remove(slot);
                }
            }
            let evaluated = evaluate(&problem, &model, &events(&model, &state.sequence()));
            let found = evaluated.map(|found| found.plan).unwrap_or_default();
            assert_eq!(found.peak as i64, state.peak(), "{problem:?} {:?}", state.sequence());
            assert_eq!(check(&problem, found.peak, &found), Ok(()));
        }
    }
}

#[test]
fn a_repeat_that_may_become_the_first_run_stays_behind_predecessors() {
    let mut problem = Problem::default();
    for index in 0..3 {
        let predecessors = if index == 1 { vec![0] } else { Vec::new() };
        problem.runs.push(Run { writes: vec![index], predecessors, repeatable: true, ..Run::default() });
        problem.values.push(Value { size: 1, ..Value::default() });
    }
    let model = Model::new(&problem, &BudgetTuning::DEFAULT);
    let state = State::new(&model, &[0, 1, 2, 1]);
    let again = state.slots_of(1)[1];
    assert_eq!(state.bounds(again).0, state.slots_of(0)[0]);
}
