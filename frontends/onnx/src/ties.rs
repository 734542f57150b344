//! Dimensions with different names that must be equal: found by contradiction, told, and never used.
//!
//! Every symbol gets an extent of its own. If a node then does not fit its operands, but fits once two of
//! their symbols have one extent, these two are tied.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Diagnostic, Module, Node, Severity};
use memc_ops::Inference;

use crate::domain::symbols;

/// Most ties that are told. Each takes a few inferences of the module.
const MAX_TIES: usize = 4;
/// Most pairs of symbols that are tried for one node: all pairs of six.
const MAX_PAIRS: usize = 15;
/// Extents of the symbols: multiples of 2520, so that small divisors divide them, times primes, so that
/// neither sums nor quotients of two of them agree by chance.
const EXTENTS: [u64; 6] = [2520 * 7, 2520 * 11, 2520 * 13, 2520 * 17, 2520 * 19, 2520 * 23];

/// Two symbols that must have one extent, and the node that does not fit others.
pub(crate) struct Tie {
    left: String,
    right: String,
    node: Node,
}

impl Tie {
    /// Returns the option that ties the second symbol to the first.
    pub(crate) fn option(&self) -> String {
        format!("`--dim {}={}`", self.right, self.left)
    }
}

/// Returns a remark for each pair of unbound symbols of graph inputs that must have one extent. `stated`
/// is the module before inference, with bound symbols replaced.
pub(crate) fn find(stated: &Module) -> Vec<Diagnostic> {
    let remark = |tie: &Tie| {
        let Tie { left, right, .. } = tie;
        let message =
            format!("dimensions `{left}` and `{right}` must be equal: a node does not fit other extents");
        let help = format!("tie one to the other, as with {}, or bind both to one extent", tie.option());
        Diagnostic::new("W0108", Severity::Remark, message).at_node(stated, tie.node).with_help(help)
    };
    pairs(stated).iter().map(remark).collect()
}

/// Returns the pairs of unbound symbols of graph inputs that must have one extent, up to four.
pub(crate) fn pairs(stated: &Module) -> Vec<Tie> {
    let inputs = &stated.graph(stated.main()).inputs;
    let open: BTreeSet<String> = inputs.iter().flat_map(|input| symbols(stated.ty(*input))).collect();
    if !(2..=EXTENTS.len()).contains(&open.len()) {
        return Vec::new();
    }
    let mut free = stated.clone();
    let before = memc_ops::infer(&mut free);
    let mut extents: BTreeMap<String, u64> = open.into_iter().zip(EXTENTS).collect();
    let mut ties = Vec::new();
    let mut refused = first_refused(stated, &extents, &before);
    while let Some(refusal) = refused.take().filter(|_| ties.len() < MAX_TIES) {
        let node = refusal.node;
        let Some((left, right, next)) = tie(stated, &free, &refusal, &before, &extents) else { break };
        if let Some(extent) = extents.get(&left).copied() {
            extents.insert(right.clone(), extent);
        }
        ties.push(Tie { left, right, node });
        refused = next;
    }
    ties
}

/// A node that does not fit its operands.
#[derive(PartialEq)]
struct Refusal {
    node: Node,
    /// The reason without its numbers, which depend on the chosen extents.
    reason: String,
}

/// Returns a pair of symbols in the operands of a refused node that no longer cause its refusal once they
/// have one extent, and the refusal that is then the first.
fn tie(
    stated: &Module,
    free: &Module,
    refusal: &Refusal,
    before: &Inference,
    extents: &BTreeMap<String, u64>,
) -> Option<(String, String, Option<Refusal>)> {
    let operands = free.node(refusal.node).operands().flat_map(|value| symbols(free.ty(value)));
    let near: Vec<String> = operands.collect::<BTreeSet<_>>().into_iter().collect();
    let all = near
        .iter()
        .enumerate()
        .flat_map(|(at, left)| near.iter().skip(at + 1).map(move |right| (left, right)));
    let differ = all.filter(|(left, right)| extents.get(*left) != extents.get(*right));
    for (left, right) in differ.take(MAX_PAIRS) {
        let mut joined = extents.clone();
        joined.insert(right.clone(), *extents.get(left)?);
        let next = first_refused(stated, &joined, before);
        if next.as_ref() != Some(refusal) {
            return Some((left.clone(), right.clone(), next));
        }
    }
    None
}

/// Returns the first node of the main graph that does not fit its operands for these extents, although it
/// fits unknown ones.
fn first_refused(stated: &Module, extents: &BTreeMap<String, u64>, before: &Inference) -> Option<Refusal> {
    let mut bound = stated.at(extents);
    let after = memc_ops::infer(&mut bound);
    let nodes = &bound.graph(bound.main()).nodes;
    let mut refused = nodes.iter().filter(|node| !before.refused.contains_key(node));
    refused.find_map(|node| {
        let reason = after.refused.get(node)?.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        Some(Refusal { node: *node, reason })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(lines: &str) -> Vec<String> {
        let text =
            format!("mem 1\nir_version 10\nopset \"\" 21\nstage imported\n\ngraph @g {{\n{lines}\n}}\n");
        let module = memc_ir::text::parse(&text).unwrap();
        find(&module).into_iter().map(|remark| remark.message.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn only_contradicting_dimensions_are_tied() {
        let product = |left: &str, right: &str| {
            told(&format!(
                "  input %x : f32[{left}]\n  input %w : f32[{right}]\n  %y = MatMul(%x, %w) : unknown\n  return %y"
            ))
        };
        assert_eq!(product("N,K", "C,M"), ["dimensions `C` and `K` must be equal"]);
        assert_eq!(product("N,K", "K,M"), Vec::<String>::new());
        assert_eq!(
            product("A,N,K", "B,C,M"),
            ["dimensions `C` and `K` must be equal", "dimensions `A` and `B` must be equal"]
        );
        assert_eq!(product("N,4", "4,M"), Vec::<String>::new());
        assert_eq!(product("N,K+1", "M,3"), Vec::<String>::new(), "no two of them make the operands fit");
        let sum = "  input %x : f32[N]\n  input %z : f32[M]\n  %y = Add(%x, %z) : unknown\n  %v = Add(%z, %x) : unknown\n  return %y";
        assert_eq!(told(sum), ["dimensions `M` and `N` must be equal"]);
        let divided = "  input %x : f32[N,M]\n  const %s : i64[2] = [-1, 12]\n  %y = Reshape(%x, %s) : unknown\n  return %y";
        assert_eq!(told(divided), Vec::<String>::new());
    }
}
