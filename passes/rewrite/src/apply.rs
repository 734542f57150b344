//! Replaces fragments by chosen replacements.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};

use memc_edit::{Maker, is_made_by};
use memc_ir::{ConstData, Module, Node, Operator, SecondaryMap, Value, ValueType};

use crate::cut::may_stand;
use crate::fragment::Fragment;
use crate::pricing::NAME;
use crate::replacement::{FormNode, Replacement, Source};

/// Record of applied replacements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// Number of edits of the module.
    pub edits: u64,
    /// The replaced fragments, in the given order.
    pub fragments: Vec<Replaced>,
}

/// A replaced fragment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replaced {
    /// Number of uses of each rule.
    pub rules: BTreeMap<String, u64>,
    /// Names of the outputs that the fragment now computes in another way: of the old value, and of the value
    /// that replaces it.
    pub outputs: Vec<(String, String)>,
}

/// Replaces fragments by replacements, and sorts the nodes into a topological order close to the old
/// one.
///
/// Results that other nodes need keep their names. Nodes without readers are erased. Takes O(n log n).
pub fn apply(module: &mut Module, chosen: &[(&Fragment, &Replacement)]) -> Applied {
    if chosen.is_empty() {
        return Applied::default();
    }
    let mut anchors: SecondaryMap<Node, u64> = SecondaryMap::default();
    for (position, node) in (1u64..).zip(&module.graph(module.main()).nodes) {
        anchors.set(*node, position << 20);
    }
    let names = module.values().iter().map(|(_, data)| data.name.clone()).collect();
    let mut editor = Editor {
        maker: Maker::new(module, NAME),
        anchors,
        names,
        next: BTreeMap::new(),
        standing: BTreeMap::new(),
    };
    let mut applied = Applied::default();
    let changed: Vec<Vec<Value>> = chosen
        .iter()
        .map(|(fragment, replacement)| changed_outputs(editor.maker.module(), fragment, replacement))
        .collect();
    for (fragment, replacement) in chosen {
        editor.replace(fragment, replacement);
    }
    applied.fragments =
        chosen.iter().zip(changed).map(|((_, form), outputs)| editor.replaced(form, &outputs)).collect();
    for (fragment, replacement) in chosen {
        for node in fragment.nodes.iter().rev() {
            editor.maker.erase(*node);
        }
        editor.complete(fragment, replacement);
    }
    let Editor { mut maker, anchors, .. } = editor;
    let order = order(&maker, &anchors);
    let main = maker.module().main();
    maker.set_schedule(main, order);
    applied.edits = maker.finish();
    applied
}

/// Returns the outputs of a fragment that depend on a node which the replacement adds or changes. Others are
/// computed as before, so nothing has to be claimed of them.
fn changed_outputs(module: &Module, fragment: &Fragment, replacement: &Replacement) -> Vec<Value> {
    // By node of the replacement: the node of the fragment that it is, operands included.
    let mut same: Vec<Option<Node>> = Vec::new();
    let given = |same: &[Option<Node>], source: Source| match source {
        Source::Input(number) => fragment.inputs.get(number as usize).copied(),
        Source::Constant(number) => fragment.constants.get(number as usize).copied(),
        Source::Made(_) => None,
        Source::Result(number, position) => {
            let node = same.get(number as usize).copied().flatten()?;
            module.node(node).outputs.get(position as usize).copied().flatten()
        }
    };
    for form_node in &replacement.nodes {
        let node = form_node.original.and_then(|position| fragment.nodes.get(position as usize)).copied();
        let node = node.filter(|node| {
            let own = &module.node(*node).inputs;
            let operand = |position: usize| own.get(position).copied().flatten();
            let is_own = |(position, source): (usize, &Option<Source>)| match source {
                Some(source) => operand(position).is_some() && given(&same, *source) == operand(position),
                None => operand(position).is_none(),
            };
            own.len() <= form_node.inputs.len() && form_node.inputs.iter().enumerate().all(is_own)
        });
        same.push(node);
    }
    let pairs = fragment.outputs.iter().zip(&replacement.outputs);
    pairs
        .filter(|(output, source)| given(&same, **source) != Some(**output))
        .map(|(output, _)| *output)
        .collect()
}

struct Editor<'m> {
    maker: Maker<'m>,
    anchors: SecondaryMap<Node, u64>,
    names: HashSet<String>,
    next: BTreeMap<String, u32>,
    /// Replaced values, with the equal values that rules found for them.
    standing: BTreeMap<Value, Value>,
}

impl Editor<'_> {
    fn replace(&mut self, fragment: &Fragment, replacement: &Replacement) {
        let inputs: Vec<Value> = fragment.inputs.iter().map(|value| self.standing(*value)).collect();
        let made: Vec<Value> = replacement.made.iter().map(|constant| self.constant(constant)).collect();
        let mut results: Vec<Vec<Option<Value>>> = Vec::new();
        let find = |results: &[Vec<Option<Value>>], source: Source| match source {
            Source::Input(number) => inputs.get(number as usize).copied(),
            Source::Constant(number) => fragment.constants.get(number as usize).copied(),
            Source::Made(number) => made.get(number as usize).copied(),
            Source::Result(form_node, position) => {
                results.get(form_node as usize)?.get(position as usize).copied().flatten()
            }
        };
        for (number, form_node) in (0u32..).zip(&replacement.nodes) {
            let operands: Vec<Option<Value>> = form_node
                .inputs
                .iter()
                .map(|source| source.and_then(|source| find(&results, source)))
                .collect();
            let kept = form_node.original.and_then(|position| fragment.nodes.get(position as usize)).copied();
            let kept = kept.filter(|node| self.read(*node, &operands));
            let made = match kept {
                Some(node) => self.maker.module().node(node).outputs.clone(),
                None => self.insert(fragment, replacement, number, form_node, operands),
            };
            results.push(made);
        }
        for (output, source) in fragment.outputs.iter().zip(&replacement.outputs) {
            let Some(value) = find(&results, *source).filter(|value| value != output) else { continue };
            if self.maker.is_pinned(*output) {
                self.identity(*output, value);
            } else {
                self.maker.replace_uses(*output, value);
                self.standing.insert(*output, value);
            }
        }
    }

    /// Returns the value that now replaces a value, or the value itself.
    fn standing(&self, mut value: Value) -> Value {
        while let Some(other) = self.standing.get(&value) {
            value = *other;
        }
        value
    }

    fn replaced(&self, replacement: &Replacement, outputs: &[Value]) -> Replaced {
        let name = |value: Value| self.maker.module().value(value).name.clone();
        Replaced {
            rules: replacement.rules.iter().map(|(rule, count)| (rule.clone(), u64::from(*count))).collect(),
            outputs: outputs.iter().map(|value| (name(*value), name(self.standing(*value)))).collect(),
        }
    }

    /// Sets the operands of a node; returns `false` if other operand positions are in use.
    fn read(&mut self, node: Node, operands: &[Option<Value>]) -> bool {
        let own = self.maker.module().node(node).inputs.clone();
        let is_there =
            |list: &[Option<Value>], position: usize| list.get(position).copied().flatten().is_some();
        if (0..own.len().max(operands.len()))
            .any(|position| is_there(&own, position) != is_there(operands, position))
        {
            return false;
        }
        for (position, operand) in (0u32..).zip(operands) {
            if let Some(value) = operand.filter(|value| own[position as usize] != Some(*value)) {
                self.maker.set_operand(node, position, value);
            }
        }
        true
    }

    /// Adds a node. If a result is an output of the fragment, the node takes over the old value with its
    /// name and readers.
    fn insert(
        &mut self,
        fragment: &Fragment,
        replacement: &Replacement,
        number: u32,
        form_node: &FormNode,
        operands: Vec<Option<Value>>,
    ) -> Vec<Option<Value>> {
        // The node follows its operands in the order.
        let anchor = operands
            .iter()
            .flatten()
            .filter_map(|value| self.maker.module().producer(*value))
            .map(|node| self.anchors[node])
            .max();
        let taken: BTreeMap<u32, Value> = fragment
            .outputs
            .iter()
            .zip(&replacement.outputs)
            .rev()
            .filter_map(|(output, source)| match source {
                Source::Result(other, position) if *other == number => Some((*position, *output)),
                _ => None,
            })
            .collect();
        // Name the results that are no outputs of the fragment.
        let mut fresh: Vec<Option<(String, ValueType)>> = Vec::new();
        for (position, ty) in (0u32..).zip(&form_node.results) {
            let named = ty.clone().filter(|_| !taken.contains_key(&position));
            let name = named.map(|ty| (self.name(&form_node.operator), ty));
            fresh.push(name);
        }
        let first = fragment.nodes.first().map_or(0, |node| self.anchors[*node]);
        let (operator, attributes) = (form_node.operator.clone(), form_node.attributes.clone());
        let node = self.maker.insert(None, self.maker.node(operator, operands, attributes), &fresh);
        self.anchors.set(node, anchor.unwrap_or(0).max(first) + 1);
        for (position, value) in taken {
            self.maker.move_result(value, node, position);
        }
        self.maker.module().node(node).outputs.clone()
    }

    /// Makes a value that must keep its name a copy of another value.
    fn identity(&mut self, output: Value, value: Value) {
        let anchor = self.maker.module().producer(value).map_or(0, |node| self.anchors[node]);
        let operator = Operator::onnx("Identity", self.maker.version.max(1));
        let node = self.maker.insert(None, self.maker.node(operator, [value], Vec::new()), &[None]);
        self.anchors.set(node, anchor + 1);
        self.maker.move_result(output, node, 0);
    }

    /// Adds results that kept nodes must have, after other nodes took over their old ones.
    fn complete(&mut self, fragment: &Fragment, replacement: &Replacement) {
        for form_node in &replacement.nodes {
            let Some(node) =
                form_node.original.and_then(|position| fragment.nodes.get(position as usize)).copied()
            else {
                continue;
            };
            let needed =
                (0u32..).zip(&form_node.results).filter_map(|(position, ty)| Some((position, ty.clone()?)));
            for (position, ty) in needed.collect::<Vec<_>>() {
                let outputs = &self.maker.module().node(node).outputs;
                let is_open = outputs.get(position as usize).is_some_and(Option::is_none);
                if is_open && outputs.iter().any(Option::is_some) && !self.maker.is_erased(node) {
                    let name = self.name(&form_node.operator);
                    self.maker.add_result(node, position, name, ty);
                }
            }
        }
    }

    fn constant(&mut self, data: &ConstData) -> Value {
        let name = self.free("constant");
        let main = self.maker.module().main();
        self.maker.initializer(main, &name, data.clone())
    }

    fn name(&mut self, operator: &Operator) -> String {
        self.free(&operator.name)
    }
    fn free(&mut self, base: &str) -> String {
        let next = self.next.entry(base.to_owned()).or_default();
        loop {
            let name = format!("memc/{base}_{next}");
            *next += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Returns a topological order of the remaining nodes; of the ready nodes, the one with the lowest
/// anchor comes first.
fn order(maker: &Maker<'_>, anchors: &SecondaryMap<Node, u64>) -> Vec<Node> {
    let module = maker.module();
    let nodes: Vec<Node> =
        module.graph(module.main()).nodes.iter().copied().filter(|node| !maker.is_erased(*node)).collect();
    let mut waits: SecondaryMap<Node, u32> = SecondaryMap::default();
    let mut readers: SecondaryMap<Node, Vec<Node>> = SecondaryMap::default();
    for node in &nodes {
        let before: BTreeSet<Node> =
            module.reads(*node).into_iter().filter_map(|value| module.producer(value)).collect();
        waits.set(*node, before.len() as u32);
        for other in before {
            readers[other].push(*node);
        }
    }
    // Nodes outside of fragments, which include all nodes with side effects, are borders that no node
    // passes.
    let borders: Vec<u64> = {
        let mut all: Vec<u64> = nodes
            .iter()
            .filter(|node| !is_made_by(module, **node, NAME) && !may_stand(module, **node))
            .map(|node| anchors[*node])
            .collect();
        all.sort_unstable();
        all
    };
    let key = |node: Node| {
        Reverse((borders.partition_point(|border| *border <= anchors[node]), anchors[node], node))
    };
    let mut ready: BinaryHeap<Reverse<(usize, u64, Node)>> =
        nodes.iter().filter(|node| waits[**node] == 0).map(|node| key(*node)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, _, node))) = ready.pop() {
        order.push(node);
        for reader in std::mem::take(&mut readers[node]) {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(key(reader));
            }
        }
    }
    order
}
