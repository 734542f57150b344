//! The forward part of a training step: nodes on which the loss and the other results of the forward
//! pass depend.

use std::collections::BTreeSet;

use memc_ir::{Module, Node, SecondaryMap, TensorType, Use, Value};

/// The border between the forward part of a training step and its gradients.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Nodes that make graph outputs of the forward part: the loss, statistics, predictions.
    pub last: BTreeSet<Node>,
    /// Nodes on which gradients depend, and that depend on the end of the forward part.
    is_gradient: SecondaryMap<Node, bool>,
}

impl Forward {
    /// Returns whether a value is computed without gradients.
    #[must_use]
    pub fn has(&self, module: &Module, value: Value) -> bool {
        module.producer(value).is_some_and(|node| !self.is_gradient[node])
    }
}

/// Finds the forward part of the main graph; `None` if the model has no loss, or no gradients of it.
///
/// Losses are graph outputs of rank 0, or outputs with one element if no output has rank 0. The *end* is
/// the last node below the losses with a reader that no loss depends on: gradients begin there. A graph
/// output that depends on the end is a gradient if it has the element type and the number of elements of
/// a graph input or an initializer, since other passes may reshape parameters; all other graph
/// outputs are results of the forward part. O(nodes + operands).
#[must_use]
pub fn forward(module: &Module) -> Option<Forward> {
    let main = module.graph(module.main());
    let below = below(module, &losses(module));
    let uses = memc_ir::uses(module);
    let leaves = |node: &&Node| {
        let mut sites = module.node(**node).results().flat_map(|value| &uses[value]);
        sites.any(|site| matches!(site, Use::Operand(reader, _) if !below.contains(reader)))
    };
    let end = *main.nodes.iter().rev().filter(|node| below.contains(node)).find(leaves)?;
    // Mark all nodes that depend on the end, but not the nodes below the losses.
    let mut is_gradient: SecondaryMap<Node, bool> = SecondaryMap::default();
    for node in main.nodes.iter().filter(|node| !below.contains(node)) {
        let mut makers = module.reads(*node).into_iter().filter_map(|value| module.producer(value));
        let depends = makers.any(|maker| maker == end || is_gradient[maker]);
        is_gradient.set(*node, depends);
    }
    let extent = |value: &Value| module.ty(*value).tensor().and_then(|ty| Some((ty.element, ty.elements()?)));
    let given: Vec<_> = main.inputs.iter().chain(&main.constants).filter_map(extent).collect();
    let is_gradient_output = |output: &&Value| {
        let depends = module.producer(**output).is_some_and(|node| is_gradient[node]);
        depends && extent(output).is_some_and(|extent| given.contains(&extent))
    };
    let results = main.outputs.iter().filter(|output| !is_gradient_output(output));
    let last = results.filter_map(|output| module.producer(*output)).collect();
    Some(Forward { last, is_gradient })
}

/// Returns the losses among the graph outputs.
fn losses(module: &Module) -> Vec<Value> {
    let outputs = &module.graph(module.main()).outputs;
    let number = |output: &&Value| {
        let ty = module.ty(**output).tensor();
        ty.is_some_and(|ty| ty.element.is_float() && ty.elements() == Some(1))
    };
    let one_element: Vec<Value> = outputs.iter().filter(number).copied().collect();
    let is_scalar = |output: &Value| module.ty(*output).tensor().and_then(TensorType::rank) == Some(0);
    let scalars: Vec<Value> = one_element.iter().copied().filter(is_scalar).collect();
    if scalars.is_empty() { one_element } else { scalars }
}

/// Returns the nodes on which values depend.
fn below(module: &Module, values: &[Value]) -> BTreeSet<Node> {
    let mut found = BTreeSet::new();
    let mut open: Vec<Node> = values.iter().filter_map(|value| module.producer(*value)).collect();
    while let Some(node) = open.pop() {
        if found.insert(node) {
            open.extend(module.reads(node).into_iter().filter_map(|value| module.producer(value)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const STEP: &str = "mem 1\nir_version 10\nopset \"\" 20\n\ngraph @g {\n  input %x : f32[4,8]\n  input %w : f32[8,8]\n  \
        %h = MatMul(%x, %w) : f32[4,8]\n  %mean = ReduceMean(%h) {keepdims = 0} : f32[]\n  %a = Relu(%h) : f32[4,8]\n  \
        %sq = Mul(%a, %a) : f32[4,8]\n  %loss = ReduceMean(%sq) {keepdims = 0} : f32[]\n  \
        %row = ReduceSum(%h) {keepdims = 1} : f32[1,1]\n  %stat = Mul(%row, %row) : f32[1,1]\n  \
        %g = Add(%sq, %a) : f32[4,8]\n  %other = Concat(%g, %g, %g) {axis = 1} : f32[4,24]\n  \
        %t = Transpose(%x) {perm = [1, 0]} : f32[8,4]\n  %dw = MatMul(%t, %g) : f32[8,8]\n  \
        return %loss, %stat, %dw, %mean, %other\n}\n";

    fn named(module: &Module, name: &str) -> Value {
        module.values().keys().find(|value| module.value(*value).name == name).unwrap()
    }

    #[test]
    fn outputs_that_depend_on_the_end_of_the_forward_part_are_gradients() {
        let step = memc_ir::text::parse(STEP).unwrap();
        let found = forward(&step).unwrap();
        let made = found.last.iter().flat_map(|node| step.node(*node).results());
        let names: Vec<&str> = made.map(|value| step.value(value).name.as_str()).collect();
        assert_eq!(names, ["mean", "loss", "stat", "other"]);
        assert!(found.has(&step, named(&step, "a")) && found.has(&step, named(&step, "t")));
        assert!(!found.has(&step, named(&step, "g")) && !found.has(&step, named(&step, "x")));
    }

    #[test]
    fn models_without_gradients_have_no_border() {
        let module = memc_ir::text::parse(
            "mem 1\nir_version 10\nopset \"\" 20\n\ngraph @g {\n  input %x : f32[4]\n  %a = Relu(%x) : f32[4]\n  \
             %b = ReduceMean(%a) {keepdims = 0} : f32[]\n  return %b\n}\n",
        )
        .unwrap();
        assert!(forward(&module).is_none());
    }
}
