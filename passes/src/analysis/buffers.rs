//! Buffers: values that share bytes, with the steps at which those bytes are needed.

use std::collections::BTreeMap;

use memc_ir::{Bytes, LiveRange, Module, SecondaryMap, Step, Value};

use memc_ops::families::memory::{Transfer, transfer_of};

use crate::analysis::class::StorageClass;
use crate::analysis::liveness::Liveness;
use crate::options::Io;

/// Bytes of an owner and all its aliases in an arena.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The value that owns the bytes.
    pub owner: Value,
    /// Size in bytes.
    pub bytes: Bytes,
    /// Steps from the first to the last need of any member.
    pub range: LiveRange,
    /// The owner and its aliases, in order of definition.
    pub members: Vec<Value>,
}

/// Returns whether the arena holds the bytes of a value: its owner has a placed class and a known size,
/// and the main graph has nodes.
pub fn is_placed(
    module: &Module,
    classes: &SecondaryMap<Value, Option<StorageClass>>,
    io: Io,
    value: Value,
) -> bool {
    let (owner, _) = module.plan.owner(value);
    let runs = !module.graph(module.main()).nodes.is_empty();
    runs && classes[owner].is_some_and(|class| class.is_placed(io)) && module.size(owner).is_some()
}

/// Returns the farther space of a value: to which a transfer sends it, or in which the plan lets it live;
/// `None` for values in the first space.
pub(crate) fn far_space(module: &Module, value: Value) -> Option<&str> {
    let node = module.producer(value).map(|node| module.node(node));
    let sent = node
        .filter(|node| transfer_of(&node.operator) == Some(Transfer::Out))
        .and_then(|node| node.string("to"));
    sent.or_else(|| {
        let (first, storage) = (module.plan.arenas.first()?.space, module.plan.storage[value]?);
        (storage.space != first).then(|| module.plan.spaces[storage.space].name.as_str())
    })
}

/// Returns the buffers of all spaces, in order of their owners' ids.
pub(super) fn all_buffers(
    module: &Module,
    liveness: &Liveness,
    classes: &SecondaryMap<Value, Option<StorageClass>>,
    io: Io,
) -> Vec<Buffer> {
    let mut by_owner: BTreeMap<Value, Buffer> = BTreeMap::new();
    for value in module.values().keys() {
        let (owner, _) = module.plan.owner(value);
        let (Some(range), Some(bytes)) = (liveness.range(value), module.size(owner)) else { continue };
        if !is_placed(module, classes, io, value) {
            continue;
        }
        let buffer =
            by_owner.entry(owner).or_insert_with(|| Buffer { owner, bytes, range, members: Vec::new() });
        buffer.range.start = buffer.range.start.min(range.start);
        buffer.range.end = buffer.range.end.max(range.end);
        buffer.members.push(value);
    }
    by_owner.into_values().collect()
}

/// Returns the bytes live at each step, scratch included.
pub(crate) fn live(module: &Module, buffers: &[Buffer], steps: u32) -> Vec<Bytes> {
    let mut change = vec![0i128; steps as usize + 1];
    for buffer in buffers {
        change[buffer.range.start.0 as usize] += i128::from(buffer.bytes.0);
        change[buffer.range.end.0 as usize] -= i128::from(buffer.bytes.0);
    }
    let mut position: SecondaryMap<memc_ir::Node, u32> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        position.set(*node, index as u32);
    }
    for scratch in &module.plan.scratch {
        let step = position[scratch.node] as usize;
        change[step] += i128::from(scratch.bytes.0);
        change[step + 1] -= i128::from(scratch.bytes.0);
    }
    let mut live = 0i128;
    let sums = change.iter().take(steps as usize).map(|delta| {
        live += delta;
        Bytes(u64::try_from(live).unwrap_or(u64::MAX))
    });
    sums.collect()
}

/// Returns the peak: most bytes live at one step, scratch included, and the first step that reaches it.
pub(super) fn peak(module: &Module, buffers: &[Buffer], steps: u32) -> (Bytes, Step) {
    let mut best = (Bytes(0), Step(0));
    for (step, live) in live(module, buffers, steps).into_iter().enumerate() {
        if live > best.0 {
            best = (live, Step(step as u32));
        }
    }
    best
}
