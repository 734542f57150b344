//! `canonicalize`: removes nodes that change nothing, and joins those that one can do the work of.
//!
//! One walk in the order of the graph: operands are canonical when a node is met. Each rule takes a node and says whether it changed it;
//! what is erased or loses its last reader is left to `dce`.

mod affine;
mod chain;
mod constant;
mod fresh;
mod pad;
mod positions;
mod quantized;
mod transpose;

use memc_ir::{Module, Node, Rewriter, SecondaryMap, Stage, Use, Value};
use memc_ops::{Data, Typed, Zero, rests_on_defaults, unchanged};

use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "canonicalize",
    summary: "Removes nodes that change nothing, and joins those that one can do the work of.",
    page: include_str!("../../doc/canonicalize.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let kept = memc_ops::feeds_unrepeatable(module, &nodes);
    let rests = rests_on_defaults(module);
    let mut walk = Walk { rewriter: Rewriter::new(module), rests, ctx, weights: 0, affine: affine::Pending::default() };
    for node in nodes {
        let data = walk.module().node(node);
        let stays = kept[node] || data.bodies().next().is_some() || data.recompute_of.is_some();
        if !stays && !walk.reads_overridable(node) {
            walk.node(node);
        }
    }
    affine::apply(&mut walk);
    let edits = walk.rewriter.finish();
    if edits > 0 && has_unknown_extents(module) {
        // Without what stood between, extents may follow that did not: whoever reads the written model derives them.
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

fn has_unknown_extents(module: &Module) -> bool {
    let tensors = |value: Value| module.ty(value).tensor();
    module.values().keys().any(|value| tensors(value).is_some_and(|ty| ty.known_dims().is_none()))
}

/// The walk over the main graph.
struct Walk<'m, 'c, 'o> {
    rewriter: Rewriter<'m>,
    /// Values that rest on what a caller may override.
    rests: SecondaryMap<Value, bool>,
    ctx: &'c mut PassContext<'o>,
    /// Bytes of weights computed so far.
    weights: u64,
    /// Scales and shifts that are on their way into a producer.
    affine: affine::Pending,
}

impl Walk<'_, '_, '_> {
    fn module(&self) -> &Module {
        self.rewriter.module()
    }

    fn reads_overridable(&self, node: Node) -> bool {
        let data = self.module().node(node);
        data.operands().chain(data.results()).any(|value| self.rests[value])
    }

    /// Elements of a value, where they are known.
    fn elements(&self, value: Value) -> Option<&Data> {
        self.ctx.data[value].as_deref()
    }

    /// Tries the rules; the first that applies ends it, but for those that leave the node in a simpler form.
    fn node(&mut self, node: Node) {
        if self.no_op(node) || constant::of_constants(self, node) {
            return;
        }
        if chain::reshapes(self, node) || chain::casts(self, node) || chain::repeated(self, node) {
            return;
        }
        if transpose::joined(self, node) || quantized::fused(self, node) {
            return;
        }
        if !self.ctx.options.rewrite.exact {
            if positions::sliced(self, node) {
                return;
            }
            pad::joined(self, node);
            affine::fold(self, node);
        }
    }

    /// A result that is an operand.
    fn no_op(&mut self, node: Node) -> bool {
        let zero = if self.ctx.options.rewrite.exact { Zero::Exact } else { Zero::AnySign };
        let typed = Typed { module: self.module(), node };
        let Some(position) = unchanged(&typed, &|value| self.elements(value), zero) else { return false };
        let data = self.module().node(node);
        let operand = data.inputs.get(position).copied().flatten();
        operand.is_some_and(|operand| self.pass_on(node, operand))
    }

    /// Makes every reader of a node's only read result read `source` instead, and erases the node. A result whose name must stay is
    /// taken over by the node that computes `source`. Returns whether it did.
    fn pass_on(&mut self, node: Node, source: Value) -> bool {
        let Some(result) = self.only_result(node) else { return false };
        if !self.rewriter.is_pinned(result) {
            self.rewriter.replace_uses(result, source);
        } else {
            let types_agree = self.module().ty(result) == self.module().ty(source);
            if !types_agree || !self.rewriter.take_over(source, result) {
                return false;
            }
        }
        self.rewriter.erase(node);
        true
    }

    /// The first result of a node of which no other result is read.
    fn only_result(&self, node: Node) -> Option<Value> {
        let outputs = &self.module().node(node).outputs;
        let (first, others) = outputs.split_first()?;
        others.iter().flatten().all(|value| self.rewriter.uses(*value).is_empty()).then_some(*first)?
    }

    /// Whether exactly one operand of one node of the same graph reads a value, and its name need not stay.
    fn has_one_reader(&self, value: Value) -> bool {
        matches!(self.rewriter.uses(value), [Use::Operand(..)]) && !self.rewriter.is_pinned(value)
    }

    /// The operand of a node at a position.
    fn operand(&self, node: Node, position: usize) -> Option<Value> {
        self.module().node(node).inputs.get(position).copied().flatten()
    }

    /// Operator of ONNX's own domain that a node applies; empty for others.
    fn name(&self, node: Node) -> &str {
        let operator = &self.module().node(node).operator;
        if operator.domain.is_empty() { &operator.name } else { "" }
    }

    /// The node in the main graph that computes a value with this operator as its first result.
    fn producer(&self, value: Value, name: &str) -> Option<Node> {
        let node = self.module().producer(value)?;
        let data = self.module().node(node);
        let first = data.outputs.first() == Some(&Some(value)) && data.graph == self.module().main();
        (first && self.name(node) == name).then_some(node)
    }
}
