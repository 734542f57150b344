//! `fold`: replaces nodes whose results are known by constants.

use memc_ir::{ConstData, ConstOrigin, Module, Node, Payload, Rewriter, Stage, Use, Value};
use memc_ops::{SplitAxes, Work, held_constant, lookup};

use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "fold",
    summary: "Replaces nodes whose results are known by constants.",
    page: include_str!("../doc/fold.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let kept = memc_ops::feeds_unrepeatable(module, &nodes);
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        fold(&mut rewriter, node, kept[node], ctx);
    }
    Ok(Changed::edits(rewriter.finish()))
}

/// Turns all results of a node into constants, or none of them. `held_only`: only if the node holds its result.
fn fold(rewriter: &mut Rewriter<'_>, node: Node, held_only: bool, ctx: &PassContext<'_>) {
    let results: Vec<Value> = rewriter.module().node(node).results().collect();
    let read: Vec<Value> = results.into_iter().filter(|value| !rewriter.uses(*value).is_empty()).collect();
    if read.is_empty() || rewriter.module().node(node).bodies().next().is_some() {
        return;
    }
    // The interface stays: a graph output is made by a node, as it was.
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
    let Some(constants) = constants else { return };
    for (value, constant) in read.into_iter().zip(constants) {
        let id = rewriter.constant(constant);
        rewriter.make_initializer(value, id);
    }
    rewriter.erase(node);
}

/// Readers of readers are followed this far.
const MAX_READERS: usize = 64;

/// Whether what reads a value computes the same bits when the value is a constant. Kernels of contractions keep constant weights in a form of
/// their own, and add up in another order there; what they do with an integer is exact all the same. What only moves elements is looked through.
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
                Some(info) if matches!(info.work, Work::None) => open.extend(module.node(*node).results()),
                _ => return false,
            }
        }
    }
    open.is_empty()
}

/// The constant that a result is: a tensor that the node holds as its attribute, or elements that inference knows.
fn known(module: &Module, node: Node, value: Value, held_only: bool, ctx: &PassContext<'_>) -> Option<ConstData> {
    if let Some(held) = held_constant(module, node) {
        let constant = module.constant(held);
        // Moving bytes from an attribute to an initializer makes nothing larger, whatever their size.
        return matches!(constant.payload, Payload::Raw(_)).then(|| constant.clone());
    }
    let data = ctx.data[value].as_deref().filter(|_| !held_only)?;
    let ty = module.ty(value).tensor()?;
    if ty.element != data.element || ty.size()? > ctx.options.max_fold_bytes {
        return None;
    }
    Some(ConstData { ty: ty.clone(), payload: Payload::Raw(data.to_raw()?.into()), origin: ConstOrigin::New })
}
