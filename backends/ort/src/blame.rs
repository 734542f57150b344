//! Finds the place at which a rewritten model begins to differ from the given one: operands of
//! softmaxes, the first fragment, the first node.
//!
//! A Softmax hides differences: it maps its operand into the range 0 to 1 and cancels any offset that
//! all elements share. So operands of softmaxes are compared too. If a rule replaced an operand, the
//! nearest earlier values that both models have are compared instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memc_layout::{Class, Layout};
use memc_onnx_proto::onnx::{GraphProto, NodeProto};

use crate::arrays::Array;
use crate::compare::{Difference, Tolerances, difference};

/// A rewritten fragment whose results differ.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentDifference {
    /// Number of the fragment in the layout.
    pub window: u64,
    /// Rules that rewrote the fragment.
    pub rules: Vec<String>,
    /// Name of the value in the given model.
    pub given: String,
    /// Difference of the corresponding value in the written model.
    pub difference: Difference,
}

impl std::fmt::Display for FragmentDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "window {} (", self.window)?;
        for (number, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if number == 0 { "" } else { ", " })?;
        }
        if self.given != self.difference.output {
            return write!(f, "): `{}` became {}", self.given, self.difference);
        }
        write!(f, "): {}", self.difference)
    }
}

/// Returns the names of the values that both models can return, or `None` if together they take more
/// than `most` bytes.
pub(crate) fn traceable(layout: &Layout, most: u64) -> Option<BTreeSet<&str>> {
    let values =
        layout.tensors.iter().filter(|tensor| matches!(tensor.class, Class::Transient | Class::Output));
    let total = values.clone().map(|tensor| tensor.bytes).fold(0, u64::saturating_add);
    (total <= most).then(|| values.map(|tensor| tensor.name.as_str()).collect())
}

/// Returns values that both models have and that feed softmaxes of the given model, in its order. Skips
/// values that no longer fit into `most` bytes.
///
/// If a softmax's operand was rewritten, the search goes back to the nearest earlier values that both
/// models have.
pub(crate) fn before_softmaxes<'l>(given: &GraphProto, layout: &'l Layout, most: u64) -> BTreeSet<&'l str> {
    let values =
        layout.tensors.iter().filter(|tensor| matches!(tensor.class, Class::Transient | Class::Output));
    let written: BTreeMap<&str, (&'l str, u64)> =
        values.map(|tensor| (tensor.name.as_str(), (tensor.name.as_str(), tensor.bytes))).collect();
    let producers: BTreeMap<&str, &NodeProto> = given
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(move |name| (name.as_str(), node)))
        .collect();
    let softmaxes = given.node.iter().filter(|node| matches!(node.op_type(), "Softmax" | "LogSoftmax"));
    let (mut found, mut left) = (BTreeSet::new(), most);
    for softmax in softmaxes {
        // Search backwards from the softmax's operands; stop at the first value that both models have.
        let (mut open, mut seen): (VecDeque<&str>, BTreeSet<&str>) =
            (softmax.input.iter().map(String::as_str).collect(), BTreeSet::new());
        while let Some(name) = open.pop_front() {
            let Some(producer) = producers.get(name).filter(|_| seen.insert(name)) else { continue };
            match written.get(name) {
                Some((_, bytes)) if *bytes > left => {}
                Some((name, bytes)) => left -= if found.insert(*name) { *bytes } else { 0 },
                None => open.extend(producer.input.iter().map(String::as_str)),
            }
        }
    }
    found
}

/// Returns the first fragment, in the order of the written model, with a result that differs beyond the
/// tolerance.
pub(crate) fn first_fragment(
    layout: &Layout,
    order: &[NodeProto],
    expected: &BTreeMap<String, Array>,
    found: &BTreeMap<String, Array>,
    tolerances: &Tolerances,
) -> Option<FragmentDifference> {
    let position: BTreeMap<&str, usize> = order
        .iter()
        .enumerate()
        .flat_map(|(step, node)| node.output.iter().map(move |name| (name.as_str(), step)))
        .collect();
    let pairs =
        layout.rewrites.iter().flat_map(|window| window.outputs.iter().map(move |value| (window, value)));
    let mut pairs: Vec<_> = pairs.collect();
    // If several fragments have one value, the one that was rewritten last made it.
    pairs.sort_by_key(|(window, value)| {
        (position.get(value.written.as_str()).copied(), std::cmp::Reverse(window.window))
    });
    pairs.into_iter().find_map(|(window, value)| {
        let kind = difference(
            &expected.get(&value.given)?.view(),
            &found.get(&value.written)?.view(),
            tolerances.of(&value.given),
        )?;
        let difference = Difference { output: value.written.clone(), kind };
        let rules = window.rules.keys().cloned().collect();
        let beyond =
            FragmentDifference { window: window.window, rules, given: value.given.clone(), difference };
        (!beyond.difference.is_within()).then_some(beyond)
    })
}

/// Returns the first node of the written model whose result differs beyond the tolerance; if there is
/// none, the first whose result differs in any bit. Only results that both models have count.
pub(crate) fn first_node<'n>(
    order: &'n [NodeProto],
    expected: &BTreeMap<String, Array>,
    found: &BTreeMap<String, Array>,
    tolerances: &Tolerances,
) -> Option<&'n NodeProto> {
    let differs = |node: &&NodeProto, any: bool| {
        node.output.iter().any(|name| {
            let kind = expected
                .get(name)
                .zip(found.get(name))
                .and_then(|(a, b)| difference(&a.view(), &b.view(), tolerances.of(name)));
            kind.is_some_and(|kind| any || !Difference { output: String::new(), kind }.is_within())
        })
    };
    order.iter().find(|node| differs(node, false)).or_else(|| order.iter().find(|node| differs(node, true)))
}
