//! `split`: computes regions around the peak in parts of one axis, one part after another.

mod alone;
mod candidates;
mod corner;
mod estimate;
mod finer;
mod growth;
mod region;
mod rounds;
mod search;
mod seed;
pub(crate) mod seen;
mod waists;

use std::collections::BTreeSet;

use memc_ir::{Module, Node, Rewriter, Stage, Value};

use memc_passes::parts::{Weights, read_apart, write};
use memc_passes::{Changed, PassContext, PassError, PassInfo};
use region::{NAME, Region, is_own};

/// Entry of the pass in the registry.
pub const INFO: PassInfo = PassInfo {
    name: NAME,
    summary: "Splits regions around the peak into parts along one axis, computed one after another.",
    page: include_str!("../../doc/split.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["limit", "slowdown", "time", "alone"],
    run,
};

/// Returns whether the pass wrote nodes of a module.
pub fn is_split(module: &Module) -> bool {
    module.graph(module.main()).nodes.iter().any(|node| is_own(module, *node))
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    // A kernel may sum fewer numbers in another order.
    if ctx.options.rewrite.exact {
        return Ok(Changed::No);
    }
    let chosen = rounds::regions(module, ctx);
    let edits = divide(module, &chosen, &mut Weights::new(ctx));
    if edits > 0 {
        forget_copies(module);
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Forgets that nodes recompute others if they read what a region computes and the others do not: a copy in
/// parts is no copy of its original, and neither is what reads it. Linear in operands.
fn forget_copies(module: &mut Module) {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut forgotten: BTreeSet<Node> = BTreeSet::new();
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        let module = rewriter.module();
        let Some(original) = module.node(node).recompute_of else { continue };
        let others: BTreeSet<Value> = module.reads(original).into_iter().collect();
        let is_other = |value: &Value| {
            let producer = module.producer(*value).filter(|_| !others.contains(value));
            producer.is_some_and(|producer| is_own(module, producer) || forgotten.contains(&producer))
        };
        if module.reads(node).iter().any(is_other) {
            rewriter.set_recompute_of(node, None);
            forgotten.insert(node);
        }
    }
    rewriter.finish();
}

/// Writes regions in parts; returns the number of edits.
fn divide<'r>(
    module: &mut Module,
    regions: impl IntoIterator<Item = &'r Region>,
    weights: &mut Weights<'_, '_>,
) -> u64 {
    let written = write(module, regions.into_iter().map(|region| &region.divided), weights, INFO.name);
    written + read_apart(module, INFO.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A copy of `a` is computed in parts, then what reads it, and what reads that.
    const SOURCE: &str = r#"mem 1
ir_version 10
opset "" 21

graph @g {
  input %x : f32[4]
  %a = Exp(%x) : f32[4]
  %b = Neg(%a) : f32[4]
  %c = Abs(%b) : f32[4]
  %half = Exp(%x) : f32[4]
  %parts = Concat(%half) {axis = 0} : f32[4] origin(pass "split")
  %b2 = Neg(%parts) : f32[4] recompute_of(%b)
  %c2 = Abs(%b2) : f32[4] recompute_of(%c)
  %a2 = Exp(%x) : f32[4] recompute_of(%a)
  %b3 = Neg(%a2) : f32[4] recompute_of(%b)
  return %c, %c2, %b3
}
"#;

    #[test]
    fn readers_of_a_copy_in_parts_are_no_copies() {
        let mut module = memc_ir::text::parse(SOURCE).unwrap();
        forget_copies(&mut module);
        let copies: Vec<&str> = module
            .graph(module.main())
            .nodes
            .iter()
            .filter(|node| module.node(**node).recompute_of.is_some())
            .filter_map(|node| module.node(*node).results().next())
            .map(|value| module.value(value).name.as_str())
            .collect();
        assert_eq!(copies, ["a2", "b3"]);
    }
}
