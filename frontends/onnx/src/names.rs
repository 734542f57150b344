//! What names mean: domains, functions and their calls, and values in the scopes of graphs.

use std::collections::{BTreeMap, HashMap, HashSet};

use memc_ir::Value;
use memc_onnx_proto::onnx::{AttributeProto, FunctionProto, NodeProto};

/// ONNX's own domain has two spellings.
pub(crate) fn normal_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// What a call names: domain, name, overload.
pub(crate) type FunctionKey = (String, String, String);

/// What names a function.
pub(crate) fn function_key(function: &FunctionProto) -> FunctionKey {
    (
        normal_domain(function.domain.as_deref().unwrap_or_default()).to_owned(),
        function.name.clone().unwrap_or_default(),
        function.overload.clone().unwrap_or_default(),
    )
}

/// The function that a node calls.
pub(crate) fn call_key(node: &NodeProto) -> FunctionKey {
    (
        normal_domain(node.domain.as_deref().unwrap_or_default()).to_owned(),
        node.op_type.clone().unwrap_or_default(),
        node.overload.clone().unwrap_or_default(),
    )
}

/// Names in force: the innermost graph last.
#[derive(Default)]
pub(crate) struct Scopes {
    stack: Vec<Scope>,
}

/// Names of one graph.
#[derive(Default)]
struct Scope {
    /// What is defined so far.
    values: HashMap<String, Value>,
    /// What the graph defines anywhere; only filled where the graph has bodies.
    defined: HashSet<String>,
    /// Results of the node whose bodies are being read: no node in them can read those.
    entered: Vec<String>,
}

impl Scopes {
    /// Enters a graph; `defined` is what it defines anywhere, for the bodies in it.
    pub(crate) fn push(&mut self, defined: HashSet<String>) {
        self.stack.push(Scope { defined, ..Scope::default() });
    }
    pub(crate) fn pop(&mut self) {
        self.stack.pop();
    }
    pub(crate) fn depth(&self) -> usize {
        self.stack.len()
    }
    pub(crate) fn find(&self, name: &str) -> Option<Value> {
        self.stack.iter().rev().find_map(|scope| scope.values.get(name).copied())
    }
    /// Binds a name in the innermost graph; returns whether it was free there.
    pub(crate) fn bind(&mut self, name: &str, value: Value) -> bool {
        self.stack.last_mut().is_some_and(|scope| scope.values.insert(name.to_owned(), value).is_none())
    }
    /// Says that the bodies of a node with these results are read next.
    pub(crate) fn enter(&mut self, results: &[String]) {
        if let Some(scope) = self.stack.last_mut() {
            results.clone_into(&mut scope.entered);
        }
    }
    /// Whether a name of the innermost graph hides a value that a node in this graph could read: one of a graph around it, but for the
    /// results of the nodes that hold it.
    pub(crate) fn hides(&self, name: &str) -> bool {
        let around = self.stack.split_last().map(|(_, around)| around).unwrap_or_default();
        around.iter().any(|scope| scope.defined.contains(name) && !scope.entered.iter().any(|result| result == name))
    }
}

/// One call under inlining.
pub(crate) struct Frame<'f> {
    /// Name of the calling node.
    pub(crate) call: String,
    /// What fresh names begin with.
    pub(crate) prefix: String,
    /// Attributes given at the call, or their defaults.
    pub(crate) attributes: HashMap<&'f str, &'f AttributeProto>,
    /// Names that the call gives to the function's results.
    pub(crate) results: BTreeMap<&'f str, &'f str>,
    /// Functions that are being inlined, outermost first.
    pub(crate) active: Vec<FunctionKey>,
}

impl Frame<'_> {
    /// Name of a result of a node of the function.
    pub(crate) fn result_name(&self, name: &str) -> String {
        self.results.get(name).map_or_else(|| format!("{}{name}", self.prefix), |outer| (*outer).to_owned())
    }
}
