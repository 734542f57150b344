//! Lower bounds on the peak of any order, computed without search.

use super::model::Model;

/// Most operations for which reachability is computed. It takes two bits for each pair of operations, so
/// larger problems would need too much memory.
pub(super) const MAX_OPERATIONS: usize = 8192;

/// Returns the most bytes that must live at some step of every order. O(n + uses); with at most 8192
/// operations, O((edges + uses) · n / 64 + lengths of live ranges) in addition.
pub(super) fn lower_bound(model: &Model) -> u64 {
    let at_border = |lives: &dyn Fn(usize) -> bool| -> u64 {
        let counts = |buffer: &usize| {
            lives(*buffer)
                && (!model.users.of(*buffer as u32).is_empty()
                    || (model.from_start[*buffer] && model.kept[*buffer]))
        };
        (0..model.sizes.len()).filter(counts).map(|buffer| model.sizes[buffer]).sum()
    };
    if model.operations == 0 {
        return 0;
    }
    let borders = at_border(&|buffer| model.from_start[buffer]).max(at_border(&|buffer| model.kept[buffer]));
    let constant = at_border(&|buffer| model.from_start[buffer] && model.kept[buffer]);
    let surely = if model.operations <= MAX_OPERATIONS { surely_live(model) } else { own_buffers(model) };
    let working = (0..model.operations as u32).map(|operation| {
        constant + surely[operation as usize] + model.scratch[operation as usize]
            - most_saved(model, operation)
    });
    borders.max(working.max().unwrap_or(0))
}

/// Whether a buffer is allocated or freed during the order. Buffers that always live are counted
/// separately.
fn varies(model: &Model, buffer: u32) -> bool {
    !(model.from_start[buffer as usize] && model.kept[buffer as usize])
}

/// Returns, for each operation, the bytes of the buffers that it uses and that do not always live.
fn own_buffers(model: &Model) -> Vec<u64> {
    let own = |operation: u32| {
        model
            .uses
            .of(operation)
            .iter()
            .filter(|buffer| varies(model, **buffer))
            .map(|buffer| model.sizes[*buffer as usize])
            .sum()
    };
    (0..model.operations as u32).map(own).collect()
}

/// Returns an upper bound of the bytes that an operation can save by take-overs.
fn most_saved(model: &Model, operation: u32) -> u64 {
    model.saved(operation, |buffer| !model.from_start[buffer as usize], |buffer| !model.kept[buffer as usize])
}

/// Returns, for each operation, the bytes of all buffers that live at its step in every order. Each
/// buffer has a user that is the operation or one of its ancestors, and a user that is the operation or
/// one of its descendants. Buffers that live from the start count as used before every operation, kept
/// buffers as used after every operation.
fn surely_live(model: &Model) -> Vec<u64> {
    let words = model.operations.div_ceil(64);
    let order = topological(model);
    let after = model.closures(&model.successors, order.iter().rev().copied());
    let before = model.closures(&model.predecessors, order.iter().copied());
    let mut bytes = vec![0_u64; model.operations];
    let (mut later, mut earlier) = (vec![0_u64; words], vec![0_u64; words]);
    for buffer in (0..model.sizes.len() as u32).filter(|buffer| varies(model, *buffer)) {
        let users = model.users.of(buffer);
        later.fill(if model.from_start[buffer as usize] { u64::MAX } else { 0 });
        earlier.fill(if model.kept[buffer as usize] { u64::MAX } else { 0 });
        for &user in users {
            let row = user as usize * words..(user as usize + 1) * words;
            later.iter_mut().zip(&after[row.clone()]).for_each(|(all, own)| *all |= own);
            earlier.iter_mut().zip(&before[row]).for_each(|(all, own)| *all |= own);
        }
        for (word, (later, earlier)) in later.iter().zip(&earlier).enumerate() {
            let mut both = if users.is_empty() { 0 } else { later & earlier };
            while both != 0 {
                let operation = word * 64 + both.trailing_zeros() as usize;
                both &= both - 1;
                if let Some(bytes) = bytes.get_mut(operation) {
                    *bytes += model.sizes[buffer as usize];
                }
            }
        }
    }
    bytes
}

/// Returns the operations in a topological order.
fn topological(model: &Model) -> Vec<u32> {
    let mut waits: Vec<usize> =
        (0..model.operations as u32).map(|operation| model.predecessors.of(operation).len()).collect();
    let mut order: Vec<u32> =
        (0..model.operations as u32).filter(|operation| waits[*operation as usize] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for &successor in model.successors.of(order[next]) {
            waits[successor as usize] -= 1;
            if waits[successor as usize] == 0 {
                order.push(successor);
            }
        }
        next += 1;
    }
    order
}
