//! Reorders runs before anything is recomputed: a better order costs no time.

use crate::budget::sequence::model::Model;
use crate::{Limit, order};

/// Returns a better order of all operations, each once, if the ordering solver finds one; `None`
/// otherwise. Takes the time of the ordering solver.
pub(in crate::budget) fn reorder(model: &Model, given: &[u32], limit: Limit) -> Option<Vec<u32>> {
    let mut place = vec![0_u32; model.operations()];
    given.iter().enumerate().for_each(|(index, operation)| place[*operation as usize] = index as u32);
    let mut problem = order::Problem::default();
    for &operation in given {
        let makers = model.reads.of(operation).iter().filter_map(|value| model.makers.of(*value).first());
        let predecessors =
            makers.chain(model.predecessors.of(operation)).map(|other| place[*other as usize]).collect();
        let scratch = model.scratch[operation as usize] as u64;
        problem.operations.push(order::Operation { predecessors, scratch });
    }
    for value in 0..model.values() as u32 {
        let maker = model.makers.of(value).first();
        let all = maker
            .into_iter()
            .chain(model.readers.of(value))
            .filter(|operation| !model.is_optional(**operation));
        let users: Vec<u32> = all.map(|operation| place[*operation as usize]).collect();
        // A code that no operation of the order touches takes no bytes.
        let is_absent = users.is_empty() && !model.near[value as usize] && !model.kept[value as usize];
        problem.buffers.push(order::Buffer {
            size: if is_absent { 0 } else { model.sizes[value as usize] as u64 },
            users,
            live_from_start: model.near[value as usize],
            kept: model.kept[value as usize],
            takes_over: model.takes_over.of(value).to_vec(),
        });
    }
    let identity: Vec<u32> = (0..given.len() as u32).collect();
    let found = order::solve(&problem, &identity, &limit).ok()?.solution?;
    Some(found.into_iter().map(|index| given[index as usize]).collect())
}
