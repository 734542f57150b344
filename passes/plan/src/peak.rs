//! Peaks of planned modules, and of modules in their own order.

use memc_ir::{Bytes, Module, Node, Use, Value, uses};
use memc_ops::Profile;
use memc_passes::Options;
use memc_passes::analysis::Memory;
use memc_passes::analysis::scratch::scratch;

/// Returns the peak of a planned module: the most bytes of distinct owners live at one step, workspace
/// included.
pub fn planned_peak(module: &Module, options: &Options) -> Bytes {
    Memory::of(module, options).peak(module).0
}

/// Returns a number of bytes that every plan of a module needs at the end of its run: those of the outputs
/// that memory holds and no node reads, so that none of them lies inside another one. Zero if memory has
/// several spaces. `module` is planned in any order.
pub(crate) fn needed_at_end(module: &Module, options: &Options) -> Bytes {
    let target = &options.cost.target;
    if !target.links.is_empty() || target.spaces.iter().any(|space| space.access.is_some()) {
        return Bytes(0);
    }
    let (outputs, uses) = (&module.graph(module.main()).outputs, uses(module));
    let is_read = |value: Value| uses[value].iter().any(|reader| matches!(reader, Use::Operand(..)));
    let is_last = |value: &Value| outputs.contains(value) && !is_read(*value);
    let kept = Memory::of(module, options).buffers.into_iter().filter_map(|buffer| {
        buffer.members.iter().filter(|member| is_last(member)).filter_map(|member| module.size(*member)).max()
    });
    kept.fold(Bytes(0), Bytes::saturating_add)
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
    own(module, options, runtime, (nodes, owners), |bytes| bytes)
}

/// Returns the peak of a module as [`own_peak`] does, with each buffer in units of the first space's
/// alignment: an arena of about this size holds the module's own order.
pub fn own_need(module: &Module, options: &Options, owners: impl Fn(Value) -> bool) -> Bytes {
    own(module, options, options.profile, (|_| true, owners), |bytes| options.aligned(bytes))
}

/// Returns the peak of a module in its own order, as [`own_peak`] does, with changed sizes of buffers.
fn own(
    module: &Module,
    options: &Options,
    runtime: &Profile,
    (nodes, owners): (impl Fn(Node) -> bool, impl Fn(Value) -> bool),
    sized: impl Fn(Bytes) -> Bytes,
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
    memory.buffers.iter_mut().for_each(|buffer| buffer.bytes = sized(buffer.bytes));
    memory.peak(&module).0
}
