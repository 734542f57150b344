//! Peaks of planned modules, and of modules as they were given.

use memc_ir::{Bytes, Module, Node, Value};
use memc_ops::Profile;
use memc_passes::Options;
use memc_passes::analysis::scratch::scratch;
use memc_passes::analysis::{Liveness, buffers, classes, peak};

/// Peak of a planned module: most bytes of distinct owners live at one step, workspace included.
pub fn planned_peak(module: &Module, options: &Options) -> Bytes {
    let liveness = Liveness::of(module, module.main(), options.profile);
    let buffers = buffers(module, &liveness, &classes(module), options.io);
    peak(module, &buffers, liveness.steps).0
}

/// Peak of a module in its own order with the aliases that it has, each value live as long as `runtime` keeps it. Workspace counts for the
/// nodes, and bytes for the owners, that are admitted.
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
    // A view that does not count must not keep the bytes of its owner alive.
    for value in module.values().keys().filter(|value| !owners(*value)).collect::<Vec<_>>() {
        module.plan.alias.set(value, None);
    }
    // Nor does a graph output lie in what does not count: it has bytes of its own.
    for output in module.graph(module.main()).outputs.clone() {
        if !owners(module.plan.owner(output).0) {
            module.plan.alias.set(output, None);
        }
    }
    let liveness = Liveness::of(&module, module.main(), runtime);
    let mut buffers = buffers(&module, &liveness, &classes(&module), options.io);
    buffers.retain(|buffer| owners(buffer.owner));
    peak(&module, &buffers, liveness.steps).0
}
