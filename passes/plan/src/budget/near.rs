//! `reopen`: turns a plan that recomputes into a typed module, so that it can be planned again.

use std::collections::BTreeMap;

use memc_ir::{Module, Node, Plan, Rewriter, Stage, Use, Value, uses};
use memc_passes::{Changed, PassInfo};

/// Entry of the pass in the registry.
pub const INFO: PassInfo = PassInfo {
    name: "reopen",
    summary: "Turns a plan with recomputation back into a typed module, without copies that run soon after their original.",
    page: include_str!("../../doc/reopen.md"),
    needs: Stage::Scheduled,
    gives: Stage::Typed,
    reads: &[],
    run: |module, ctx| {
        let edits = u64::from(module.stage != Stage::Typed);
        (module.plan, module.stage) = (Plan::default(), Stage::Typed);
        let merged = merge_near_copies(module);
        ctx.data = memc_ops::infer(module).data;
        Ok(Changed::edits(edits + merged))
    },
};

/// Maximum number of steps between the last use of a value and its recomputed copy for the copy to be
/// removed: the copy made room for one short peak only.
const MAX_STEPS: usize = 8;

/// Replaces near copies by the earlier value; the module is in the order of its plan. Returns the number
/// of edits. Linear in nodes and operands.
fn merge_near_copies(module: &mut Module) -> u64 {
    let copies = near_copies(module);
    let mut rewriter = Rewriter::new(module);
    for (copy, kept) in copies {
        let results = |node: Node| rewriter.module().node(node).outputs.clone();
        let pairs: Vec<(Value, Value)> =
            results(copy).into_iter().zip(results(kept)).filter_map(|(copy, kept)| copy.zip(kept)).collect();
        pairs.into_iter().for_each(|(copy, kept)| rewriter.replace_uses(copy, kept));
    }
    rewriter.finish()
}

/// Finds near copies, each with the node whose results replace it.
fn near_copies(module: &Module) -> Vec<(Node, Node)> {
    let nodes = &module.graph(module.main()).nodes;
    let step: BTreeMap<Node, usize> = nodes.iter().enumerate().map(|(step, node)| (*node, step)).collect();
    let uses = uses(module);
    let last_use = |node: Node| {
        let sites = module.node(node).results().flat_map(|value| &uses[value]);
        let steps = sites.map(|site| match site {
            Use::Operand(reader, _) => step.get(reader).copied().unwrap_or(nodes.len()),
            Use::Output(..) => nodes.len(),
        });
        steps.max().unwrap_or(0)
    };
    // By original: the node of its latest computation, and the step of the last reader.
    let mut latest: BTreeMap<Node, (Node, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for node in nodes {
        let original = module.node(*node).recompute_of.unwrap_or(*node);
        match latest.get_mut(&original) {
            Some((kept, until)) if step[node] <= *until + MAX_STEPS => {
                found.push((*node, *kept));
                *until = last_use(*node).max(*until);
            }
            _ => _ = latest.insert(original, (*node, last_use(*node))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// `%a` is recomputed right after its last use, and again much later.
    fn module() -> Module {
        let later: Vec<String> =
            (0..2 * MAX_STEPS).map(|step| format!("  %l{} = Neg(%l{step}) : f32[4]\n", step + 1)).collect();
        let text = format!(
            "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n  input %x : f32[4]\n  %a = Exp(%x) : f32[4]\n  %b = Neg(%a) : f32[4]\n  \
             %c = Exp(%x) : f32[4] recompute_of(%a)\n  %l0 = Add(%b, %c) : f32[4]\n{}  %d = Exp(%x) : f32[4] recompute_of(%a)\n  \
             %e = Add(%d, %l{}) : f32[4]\n  return %e\n}}\n",
            later.concat(),
            2 * MAX_STEPS
        );
        memc_ir::text::parse(&text).unwrap()
    }

    fn named(module: &Module, name: &str) -> Node {
        let mut values = module.values().keys();
        module.producer(values.find(|value| module.value(*value).name == name).unwrap()).unwrap()
    }

    #[test]
    fn only_copies_soon_after_the_original_are_merged() {
        let mut module = module();
        merge_near_copies(&mut module);
        let operands = |name: &str| module.node(named(&module, name)).operands().collect::<Vec<_>>();
        let made = |name: &str| module.node(named(&module, name)).results().next().unwrap();
        assert_eq!(operands("l0"), [made("b"), made("a")]);
        assert_eq!(operands("e")[0], made("d"));
    }

    #[test]
    fn the_first_copy_replaces_an_erased_original() {
        let mut module = module();
        let (a, c, d) = (named(&module, "a"), named(&module, "c"), named(&module, "d"));
        let result = |node: Node| module.node(node).results().next().unwrap();
        let (old, new) = (result(a), result(c));
        let mut rewriter = Rewriter::new(&mut module);
        rewriter.replace_uses(old, new);
        assert!(rewriter.erase(a));
        rewriter.finish();
        assert_eq!((module.node(c).recompute_of, module.node(d).recompute_of), (None, Some(c)));
    }
}
