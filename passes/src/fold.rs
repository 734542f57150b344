//! `fold`: replaces nodes whose results are known by constants, and nodes with known branches by these.

use std::collections::BTreeSet;

use memc_ir::{Bytes, ConstData, Module, Node, Payload, Rewriter, Stage, Use, Value};
use memc_ops::{SplitAxes, held_constant, lookup};

use crate::inline;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "fold",
    summary: "Replaces nodes with known results by constants.",
    page: include_str!("../doc/fold.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let inlined = inline::known(module, ctx);
    let nodes = module.graph(module.main()).nodes.clone();
    let kept = memc_ops::feeds_unrepeatable(module, &nodes);
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        fold(&mut rewriter, node, kept[node], ctx);
    }
    Ok(Changed::edits(inlined + rewriter.finish()))
}

/// Turns all read results of a node into constants, or none of them.
///
/// With `held_only`, folds only a node that holds its result as an attribute.
fn fold(rewriter: &mut Rewriter<'_>, node: Node, held_only: bool, ctx: &PassContext<'_>) {
    let results: Vec<Value> = rewriter.module().node(node).results().collect();
    let read: Vec<Value> = results.into_iter().filter(|value| !rewriter.uses(*value).is_empty()).collect();
    if read.is_empty() || rewriter.module().node(node).bodies().next().is_some() {
        return;
    }
    // Keep the interface: a node makes each graph output, before and after the pass.
    if read.iter().any(|value| rewriter.uses(*value).iter().any(|site| matches!(site, Use::Output(..)))) {
        return;
    }
    if ctx.options.rewrite.exact
        && held_constant(rewriter.module(), node).is_none()
        && read.iter().any(|value| !keeps_bits(rewriter, *value))
    {
        return;
    }
    let constants: Option<Vec<ConstData>> =
        read.iter().map(|value| known(rewriter.module(), node, *value, held_only, ctx)).collect();
    let Some(constants) = constants.filter(|made| !enlarges(rewriter.module(), node, made, ctx)) else {
        return;
    };
    for (value, constant) in read.into_iter().zip(constants) {
        let id = rewriter.constant(constant);
        rewriter.make_initializer(value, id);
    }
    rewriter.erase(node);
}

/// Size of the constants that a result may rest on, all together, for the result to have any size up to
/// `max_fold_bytes`, in bytes. Lengths, axes and limits of shape arithmetic take less: 64 elements of 8
/// bytes. Larger constants are data.
const MAX_PLAIN: Bytes = Bytes(512);
/// Size by which a folded result may exceed the data that it rests on, in bytes: one page
/// of memory. A removed node saves its step, and a value of this size decides no plan.
const MAX_GROWTH: Bytes = Bytes(4096);

/// Returns whether the results of a node take much more memory than the constants that they rest on.
///
/// A session keeps constants for its whole life, and a decoded constant only while it is read.
fn enlarges(module: &Module, node: Node, made: &[ConstData], ctx: &PassContext<'_>) -> bool {
    if held_constant(module, node).is_some() {
        return false;
    }
    let made = made.iter().filter_map(|constant| constant.ty.size()).fold(Bytes(0), Bytes::saturating_add);
    let stored = rests_on(module, node, ctx);
    stored > MAX_PLAIN && made > stored.saturating_add(MAX_GROWTH)
}

/// Returns the bytes of the constants from which inference follows the operands of a node.
///
/// Linear in the known values before the node.
fn rests_on(module: &Module, node: Node, ctx: &PassContext<'_>) -> Bytes {
    let (mut open, mut seen, mut bytes) = (vec![node], BTreeSet::new(), Bytes(0));
    while let Some(node) = open.pop() {
        for value in module.node(node).operands().filter(|value| ctx.data[*value].is_some()) {
            if !seen.insert(value) {
                continue;
            }
            match (module.constant_of(value), module.producer(value)) {
                (Some(_), _) => bytes = bytes.saturating_add(module.size(value).unwrap_or_default()),
                (None, Some(node)) => open.push(node),
                (None, None) => {}
            }
        }
    }
    bytes
}

/// Maximum number of values examined when the walk follows readers of readers.
const MAX_READERS: usize = 64;

/// Returns whether the readers of a value compute equal bits once the value is a constant.
///
/// Kernels of contractions keep constant weights in a layout of their own, and add in another order
/// there. This changes float results. Integer results are exact in any order. The walk looks through
/// operators that only move elements. Linear in the visited readers; `false` after [`MAX_READERS`]
/// values.
pub(crate) fn keeps_bits(rewriter: &Rewriter<'_>, value: Value) -> bool {
    let module = rewriter.module();
    if module.ty(value).tensor().is_some_and(|ty| ty.element.is_integral()) {
        return true;
    }
    let mut open = vec![value];
    for _ in 0..MAX_READERS {
        let Some(value) = open.pop() else { return true };
        for site in rewriter.uses(value) {
            let Use::Operand(node, _) = site else { continue };
            match lookup(&module.node(*node).operator) {
                Some(info) if matches!(info.split, SplitAxes::All) => {}
                Some(info) if info.moves_elements() => open.extend(module.node(*node).results()),
                _ => return false,
            }
        }
    }
    open.is_empty()
}

/// Returns the constant equal to a result: the node's own tensor attribute, or elements known from
/// inference.
///
/// `None` if neither exists, or if the known elements take more than `max_fold_bytes`.
fn known(
    module: &Module,
    node: Node,
    value: Value,
    held_only: bool,
    ctx: &PassContext<'_>,
) -> Option<ConstData> {
    if let Some(held) = held_constant(module, node) {
        let constant = module.constant(held);
        // Moving bytes from an attribute to an initializer never enlarges the model.
        return matches!(constant.payload, Payload::Raw(_)).then(|| constant.clone());
    }
    let data = ctx.data[value].as_deref().filter(|_| !held_only)?;
    let ty = module.ty(value).tensor()?;
    if ty.element != data.element || ty.size()? > ctx.options.max_fold_bytes {
        return None;
    }
    Some(memc_edit::constant(ty.clone(), data.to_raw()?))
}
