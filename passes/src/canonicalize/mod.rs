//! `canonicalize`: removes nodes that change nothing, and joins nodes whose work one node can do.
//!
//! The pass makes one walk in graph order, so operands are canonical before their readers. Each rule
//! takes a node and returns whether it changed the node. Erasing dead nodes is left to `dce`.

mod affine;
mod chain;
mod constant;
mod extents;
mod fresh;
mod functions;
mod pad;
mod pool_mask;
mod positions;
mod quantized;
mod scatter;
mod transpose;
mod zeros;

use std::collections::BTreeMap;

use memc_edit::Maker;
use memc_ir::{Module, Node, SecondaryMap, Stage, Use, Value};
use memc_ops::{Data, Typed, Zero, rests_on_defaults, unchanged};
use memc_rewrite::Replaced;

use crate::claims::Claim;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "canonicalize",
    summary: "Removes nodes without effect, and joins nodes into one that does the work of several.",
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
    let mut walk = Walk {
        maker: Maker::new(module, INFO.name),
        rests,
        ctx,
        weights: 0,
        affine: affine::Pending::default(),
        joined: Vec::new(),
    };
    for node in nodes.iter().copied() {
        let data = walk.module().node(node);
        let stays = kept[node]
            || walk.module().misfits.contains(&node)
            || data.bodies().next().is_some()
            || data.recompute_of.is_some();
        if !stays && !walk.reads_overridable(node) {
            walk.node(node);
        }
    }
    affine::apply(&mut walk);
    if !walk.ctx.options.rewrite.exact {
        let mut stays = kept;
        for node in &nodes {
            let data = walk.module().node(*node);
            if data.bodies().next().is_some() || data.recompute_of.is_some() || walk.reads_overridable(*node)
            {
                stays.set(*node, true);
            }
        }
        zeros::cut(&mut walk, &nodes, &stays);
    }
    let joined = std::mem::take(&mut walk.joined);
    let edits = walk.maker.finish();
    for (rule, value) in joined {
        let name = module.value(value).name.clone();
        let rules = BTreeMap::from([(rule.to_owned(), 1)]);
        ctx.said.claims.push(Claim::Joined(Replaced { rules, outputs: vec![(name.clone(), name)] }));
    }
    if edits > 0 && has_unknown_extents(module) {
        // With fewer nodes in between, more extents may be known: every reader of the written model
        // derives them too.
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
    maker: Maker<'m>,
    /// Whether each value depends on defaults that a caller may override.
    rests: SecondaryMap<Value, bool>,
    ctx: &'c mut PassContext<'o>,
    /// Total bytes of computed weights so far.
    weights: u64,
    /// Scales and shifts that will move into a producer's weights at the end of the walk.
    affine: affine::Pending,
    /// Results that may be rounded otherwise now, with the reason.
    joined: Vec<(&'static str, Value)>,
}

impl Walk<'_, '_, '_> {
    fn module(&self) -> &Module {
        self.maker.module()
    }

    fn reads_overridable(&self, node: Node) -> bool {
        let data = self.module().node(node);
        data.operands().chain(data.results()).any(|value| self.rests[value])
    }

    /// Returns the elements of a value, if they are known.
    fn elements(&self, value: Value) -> Option<&Data> {
        self.ctx.data[value].as_deref()
    }

    /// Tries the rules in turn and stops at the first that applies. The last two rules only simplify the
    /// node, so both may apply.
    fn node(&mut self, node: Node) {
        if self.no_op(node) || constant::of_constants(self, node) {
            return;
        }
        extents::stated(self, node);
        if chain::reshapes(self, node) || chain::casts(self, node) || chain::repeated(self, node) {
            return;
        }
        transpose::apart(self, node);
        if transpose::joined(self, node) || quantized::fused(self, node) || functions::taken_apart(self, node)
        {
            return;
        }
        // The check follows nodes, not places of elements: without rewrites it proves all outputs.
        let may_rewrite = self.ctx.options.rewrite.enabled;
        if may_rewrite && (pool_mask::moved(self, node) || scatter::filled(self, node)) {
            return;
        }
        if !self.ctx.options.rewrite.exact {
            if positions::sliced(self, node) {
                return;
            }
            if pad::joined(self, node) {
                self.rounds("padding", node);
            }
            affine::fold(self, node);
        }
    }

    /// Notes that a node's result may be rounded otherwise, and why.
    fn rounds(&mut self, why: &'static str, node: Node) {
        let result = self.module().node(node).results().next();
        self.joined.extend(result.map(|result| (why, result)));
    }

    /// Removes a node whose result equals one of its operands.
    fn no_op(&mut self, node: Node) -> bool {
        let zero = if self.ctx.options.rewrite.exact { Zero::Exact } else { Zero::AnySign };
        let typed = Typed::of(self.module(), node);
        let Some(position) = unchanged(&typed, &|value| self.elements(value), zero) else { return false };
        let data = self.module().node(node);
        let operand = data.inputs.get(position).copied().flatten();
        operand.is_some_and(|operand| self.pass_on(node, operand))
    }

    /// Replaces a node's only read result by `source` in all readers, and erases the node.
    ///
    /// If the result must keep its name, the node that computes `source` takes over the result. Returns
    /// whether it did.
    fn pass_on(&mut self, node: Node, source: Value) -> bool {
        let Some(result) = self.maker.only_result(node) else { return false };
        if !self.maker.is_pinned(result) {
            self.maker.replace_uses(result, source);
        } else {
            let types_agree = self.module().ty(result) == self.module().ty(source);
            if !types_agree || !self.maker.take_over(source, result) {
                return false;
            }
        }
        self.maker.erase(node);
        true
    }

    /// Returns whether exactly one operand of one node of the main graph reads a value, and the value
    /// need not keep its name.
    fn has_one_reader(&self, value: Value) -> bool {
        matches!(self.maker.uses(value), [Use::Operand(..)]) && !self.maker.is_pinned(value)
    }

    /// Returns the name of the node's operator in ONNX's own domain; empty for other domains.
    fn name(&self, node: Node) -> &str {
        let operator = &self.module().node(node).operator;
        if operator.domain.is_empty() { &operator.name } else { "" }
    }

    /// Returns the node of the main graph that computes a value as its first result with this operator.
    fn producer(&self, value: Value, name: &str) -> Option<Node> {
        let node = self.module().producer(value)?;
        let data = self.module().node(node);
        let first = data.outputs.first() == Some(&Some(value)) && data.graph == self.module().main();
        (first && self.name(node) == name).then_some(node)
    }
}
