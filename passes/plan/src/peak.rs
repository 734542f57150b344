//! Peaks of planned modules, and of modules in their own order.

use memc_ir::{Bytes, Module, Node, Value};
use memc_ops::Profile;
use memc_passes::Options;
use memc_passes::analysis::Memory;
use memc_passes::analysis::scratch::scratch;

/// Returns the peak of a planned module: the most bytes of distinct owners live at one step, workspace
/// included.
pub fn planned_peak(module: &Module, options: &Options) -> Bytes {
    Memory::of(module, options).peak(module).0
}

/// Returns the peak of a module in its own order with its own aliases; each value is live as long as
/// `runtime` keeps it. Only nodes accepted by `nodes` add workspace, and only owners accepted by
/// `owners` add bytes.
pub fn own_peak(
    module: &Module,
    options: &Options,
    runtime: &Profile,
    nodes: impl Fn(Node) -> bool,
    owners: impl Fn(Value) -> bool,
) -> Bytes {
    let mut module = module.clone();
    module.plan.scratch = scratch(&module, options);
    module.plan.scratch.retain(|scratch| nodes(scratch.node));
    // A view that is not counted must not extend the live range of its owner.
    for value in module.values().keys().filter(|value| !owners(*value)).collect::<Vec<_>>() {
        module.plan.alias.set(value, None);
    }
    // A graph output whose owner is not counted has bytes of its own.
    for output in module.graph(module.main()).outputs.clone() {
        if !owners(module.plan.owner(output).0) {
            module.plan.alias.set(output, None);
        }
    }
    let mut memory = Memory::under(&module, runtime, options.io);
    memory.buffers.retain(|buffer| owners(buffer.owner));
    memory.peak(&module).0
}
