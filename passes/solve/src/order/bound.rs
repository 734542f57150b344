//! Lower bounds on the peak of any order, without search.

use super::model::Model;

/// What must live at some step whatever the order: each operation's own buffers, what is there at the start, what is kept at the end. O(n + uses).
pub(super) fn lower_bound(model: &Model) -> u64 {
    let sum = |lives: &dyn Fn(usize) -> bool| -> u64 {
        (0..model.sizes.len()).filter(|buffer| lives(*buffer)).map(|buffer| model.sizes[buffer]).sum()
    };
    if model.operations == 0 {
        return 0;
    }
    let used = |buffer: usize| !model.users.of(buffer as u32).is_empty();
    let at_start = sum(&|buffer| model.from_start[buffer] && (used(buffer) || model.kept[buffer]));
    let at_end = sum(&|buffer| model.kept[buffer] && (used(buffer) || model.from_start[buffer]));
    let constant = sum(&|buffer| model.kept[buffer] && model.from_start[buffer]);
    // The first step may free nothing before it ends, and the last one's result may take over bytes only of what is not kept.
    let working = (0..model.operations as u32).map(|operation| constant + working_set(model, operation)).max().unwrap_or(0);
    at_start.max(at_end).max(working)
}

/// Bytes that are live while an operation runs, beyond what is always live, if all that can be taken over is.
fn working_set(model: &Model, operation: u32) -> u64 {
    let varies = |buffer: &u32| !(model.from_start[*buffer as usize] && model.kept[*buffer as usize]);
    let buffers: u64 =
        model.uses.of(operation).iter().filter(|buffer| varies(buffer)).map(|buffer| model.sizes[*buffer as usize]).sum();
    let allocates = |buffer: u32| !model.from_start[buffer as usize];
    let ends = |buffer: u32| !model.kept[buffer as usize];
    buffers + model.scratch[operation as usize] - model.saved(operation, allocates, ends)
}
