//! Nodes that may run a second time, and operands that nodes may overwrite.

use std::collections::HashSet;

use memc_ir::{ElementType, Node, Operator, Value};
use memc_onnx_proto::onnx::{FunctionProto, NodeProto};
use memc_ops::{InPlace, Repeat, find, lookup};

use crate::side::Side;

/// Maximum number of function nodes that the search visits. Beyond it, the answer is "unrepeatable",
/// which is safe.
const MAX_FUNCTION_NODES: usize = 100_000;

/// Domains of operators that depend on their operands only. Operators of `com.microsoft.nchwc` (images in
/// blocks of channels) do so on one machine.
const KNOWN_DOMAINS: [&str; 4] = ["", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"];

impl Side<'_> {
    /// Whether a row may compute a different result when it runs again: random, stateful, or unknown.
    /// Includes bodies.
    pub(crate) fn unrepeatable(&self, row: usize) -> bool {
        self.rows[row].unrepeatable
    }

    /// Computes [`Side::unrepeatable`] for a row.
    pub(crate) fn may_differ(&self, row: usize) -> bool {
        if self.is_transfer(row) {
            return false;
        }
        let mut nodes = vec![self.rows[row].node];
        while let Some(node) = nodes.pop() {
            if self.node_unrepeatable(node) {
                return true;
            }
            for (_, body) in self.module.node(node).bodies() {
                nodes.extend(&self.module.graph(body).nodes);
            }
        }
        false
    }

    pub(crate) fn node_unrepeatable(&self, node: Node) -> bool {
        let data = self.module.node(node);
        match lookup(&data.operator) {
            Some(info) if !KNOWN_DOMAINS.contains(&info.domain) => true,
            Some(info) => match info.repeat {
                Repeat::Yes => false,
                Repeat::Random | Repeat::Updating | Repeat::Stateful => true,
                Repeat::UnlessTraining => self.training(node),
            },
            None => self.function(&data.operator).is_none_or(|function| self.function_unrepeatable(function)),
        }
    }

    /// Returns the model-local function of an operator, if any.
    pub(crate) fn function(&self, operator: &Operator) -> Option<&FunctionProto> {
        self.file.model().functions.iter().find(|function| {
            normal(function.domain.as_deref()) == &*operator.domain
                && function.name.as_deref().unwrap_or_default() == &*operator.name
                && function.overload.as_deref().unwrap_or_default() == &*operator.overload
        })
    }

    fn function_unrepeatable(&self, function: &FunctionProto) -> bool {
        let mut nodes: Vec<&NodeProto> = function.node.iter().collect();
        let mut entered: HashSet<(&str, &str)> = HashSet::new();
        let mut seen = 0;
        while let Some(node) = nodes.pop() {
            seen += 1;
            if seen > MAX_FUNCTION_NODES {
                return true;
            }
            let (domain, name) =
                (normal(node.domain.as_deref()), node.op_type.as_deref().unwrap_or_default());
            match find(domain, name) {
                Some(info) if info.repeat == Repeat::Yes && KNOWN_DOMAINS.contains(&info.domain) => {}
                Some(_) => return true,
                None => {
                    let inner = self.file.model().functions.iter().find(|function| {
                        normal(function.domain.as_deref()) == domain && function.name.as_deref() == Some(name)
                    });
                    let Some(inner) = inner else { return true };
                    if entered.insert((domain, name)) {
                        nodes.extend(&inner.node);
                    }
                }
            }
            for attribute in &node.attribute {
                nodes.extend(attribute.g.iter().chain(&attribute.graphs).flat_map(|body| &body.node));
            }
        }
        false
    }

    /// Whether a node with a training mode may run in it.
    ///
    /// Operator sets state the mode in three ways: `is_test`, the attribute `training_mode`, and a
    /// Boolean third operand. Before the attribute existed, a normalization with additional results was
    /// in training mode.
    pub(crate) fn training(&self, node: Node) -> bool {
        let data = self.module.node(node);
        if data.operator.domain.is_empty() && data.operator.version < 7 {
            return data.int("is_test", 0) == 0;
        }
        if data.int("training_mode", 0) != 0 {
            return true;
        }
        let element = |value: Value| self.module.ty(value).tensor().map(|ty| ty.element);
        if let Some(flag) = data.inputs.get(2).copied().flatten()
            && element(flag) == Some(ElementType::Bool)
        {
            return self.integers(flag).is_none_or(|flags| flags.iter().any(|flag| *flag != 0));
        }
        // The mode of a node that draws a mask depends on the flag alone. It may return the mask in any
        // mode.
        let draws = lookup(&data.operator).is_some_and(|info| info.repeat == Repeat::UnlessTraining);
        !draws && data.results().nth(1).is_some()
    }

    /// Returns the positions of operands that the first result of a row may overwrite element by
    /// element.
    pub(crate) fn overwritable(&self, row: usize) -> Vec<usize> {
        let row = &self.rows[row];
        let count = self.module.node(row.node).inputs.len();
        match row.info.map(|info| info.in_place) {
            None | Some(InPlace::Never) => Vec::new(),
            Some(InPlace::Operands(positions)) => positions.to_vec(),
            Some(InPlace::Any) => (0..count).collect(),
            Some(InPlace::UnlessTraining) if self.training(row.node) => Vec::new(),
            Some(InPlace::UnlessTraining) => vec![0],
        }
    }
}

fn normal(domain: Option<&str>) -> &str {
    match domain.unwrap_or_default() {
        "ai.onnx" => "",
        other => other,
    }
}
