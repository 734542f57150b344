//! Names of a model: domains, functions and their calls, and values in the scopes of graphs.

use std::collections::{BTreeMap, HashMap, HashSet};

use memc_ir::Value;
use memc_onnx_proto::onnx::{AttributeProto, FunctionProto, NodeProto};

/// Maps the two spellings of ONNX's own domain to the empty string.
pub(crate) fn normal_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Identity of a function: domain, name, overload.
pub(crate) type FunctionKey = (String, String, String);

/// Returns the key of a function.
pub(crate) fn function_key(function: &FunctionProto) -> FunctionKey {
    (
        normal_domain(function.domain.as_deref().unwrap_or_default()).to_owned(),
        function.name.clone().unwrap_or_default(),
        function.overload.clone().unwrap_or_default(),
    )
}

/// Returns the key of the function that a node calls.
pub(crate) fn call_key(node: &NodeProto) -> FunctionKey {
    (
        normal_domain(node.domain.as_deref().unwrap_or_default()).to_owned(),
        node.op_type.clone().unwrap_or_default(),
        node.overload.clone().unwrap_or_default(),
    )
}

/// Scopes of the open graphs, innermost last.
#[derive(Default)]
pub(crate) struct Scopes {
    stack: Vec<Scope>,
}

/// Names of one graph.
#[derive(Default)]
struct Scope {
    /// Values defined so far, by name.
    values: HashMap<String, Value>,
    /// All names that the graph defines; only filled for graphs with bodies.
    defined: HashSet<String>,
    /// Results of the node whose bodies are being imported. Nodes in these bodies cannot read them.
    entered: Vec<String>,
}

impl Scopes {
    /// Opens the scope of a graph. `defined` contains all names that the graph defines, for its bodies.
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
    /// Binds a name in the innermost graph; returns whether the name was free there.
    pub(crate) fn bind(&mut self, name: &str, value: Value) -> bool {
        self.stack.last_mut().is_some_and(|scope| scope.values.insert(name.to_owned(), value).is_none())
    }
    /// Records the results of the node whose bodies are imported next.
    pub(crate) fn enter(&mut self, results: &[String]) {
        if let Some(scope) = self.stack.last_mut() {
            results.clone_into(&mut scope.entered);
        }
    }
    /// Whether a name in the innermost graph hides a value of an enclosing graph that a node there
    /// could read. Results of the nodes that hold the graph do not count.
    pub(crate) fn hides(&self, name: &str) -> bool {
        let around = self.stack.split_last().map(|(_, around)| around).unwrap_or_default();
        around
            .iter()
            .any(|scope| scope.defined.contains(name) && !scope.entered.iter().any(|result| result == name))
    }
}

/// One call that is being inlined.
pub(crate) struct Frame<'f> {
    /// Name of the calling node.
    pub(crate) call: String,
    /// Prefix of fresh names.
    pub(crate) prefix: String,
    /// Attributes of the call, or their defaults.
    pub(crate) attributes: HashMap<&'f str, &'f AttributeProto>,
    /// Names that the call gives to the results of the function.
    pub(crate) results: BTreeMap<&'f str, &'f str>,
    /// Functions that are being inlined, outermost first.
    pub(crate) active: Vec<FunctionKey>,
}

impl Frame<'_> {
    /// Returns the name of a result of a node in the function.
    pub(crate) fn result_name(&self, name: &str) -> String {
        self.results.get(name).map_or_else(|| format!("{}{name}", self.prefix), |outer| (*outer).to_owned())
    }
}
