//! Repeated constants: if a graph defines a name again with equal elements, the first definition
//! counts.

use std::collections::{BTreeSet, HashMap};

use memc_ir::{ConstOrigin, Diagnostic, Payload, Severity};
use memc_onnx_proto::onnx::{AttributeProto, NodeProto, TensorProto};

use crate::constant::constant;
use crate::names::normal_domain;

/// Definitions that repeat an earlier definition.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    /// Positions of repeated initializers.
    pub(crate) initializers: BTreeSet<usize>,
    /// Positions of repeated Constant nodes.
    pub(crate) nodes: BTreeSet<usize>,
    names: BTreeSet<String>,
}

/// Finds initializers and Constant nodes that repeat an earlier one with their name. Other repeated
/// definitions are left to the binding of names. `replaceable` contains names of inputs: a caller may
/// override an initializer of that name, so a Constant node cannot repeat it.
pub(crate) fn find<'g>(
    initializers: &'g [TensorProto],
    nodes: &'g [NodeProto],
    replaceable: &BTreeSet<&str>,
) -> Repeated {
    let mut repeated = Repeated::default();
    let mut first: HashMap<&str, Constant<'g>> = HashMap::new();
    for (index, tensor) in initializers.iter().enumerate() {
        match first.get(tensor.name()) {
            Some(earlier) if same(earlier, &Constant::Tensor(tensor)) => {
                repeated.initializers.insert(index);
                repeated.names.insert(tensor.name().to_owned());
            }
            Some(_) => {}
            None => {
                first.insert(tensor.name(), Constant::Tensor(tensor));
            }
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        let ([name], Some(value)) = (node.output.as_slice(), value(node)) else { continue };
        match first.get(name.as_str()) {
            Some(earlier) if !replaceable.contains(name.as_str()) && same(earlier, &value) => {
                repeated.nodes.insert(index);
                repeated.names.insert(name.clone());
            }
            Some(_) => {}
            None => {
                first.insert(name, value);
            }
        }
    }
    repeated
}

impl Repeated {
    /// Returns a warning about the repeated names; `None` if there are none.
    pub(crate) fn diagnostic(&self, graph: &str) -> Option<Diagnostic> {
        let first = self.names.first()?;
        let (more, verb) = match self.names.len() - 1 {
            0 => (String::new(), "is"),
            more => (format!(" and {more} more"), "are"),
        };
        let message = format!(
            "`{first}`{more} {verb} defined twice in the graph `{graph}`, with equal elements: the first is kept"
        );
        Some(Diagnostic::new("W0106", Severity::Warning, message))
    }
}

/// The value of a definition.
enum Constant<'g> {
    Tensor(&'g TensorProto),
    /// Another attribute of a Constant node (`value_ints`, `value_string` …).
    Attribute(&'g AttributeProto),
}

/// Returns the value of a Constant node; `None` for every other node.
fn value(node: &NodeProto) -> Option<Constant<'_>> {
    let is_constant = node.op_type() == "Constant" && normal_domain(node.domain()).is_empty();
    let [attribute] = node.attribute.as_slice() else { return None };
    is_constant.then(|| attribute.t.as_ref().map_or(Constant::Attribute(attribute), Constant::Tensor))
}

fn same(a: &Constant<'_>, b: &Constant<'_>) -> bool {
    match (a, b) {
        (Constant::Tensor(a), Constant::Tensor(b)) => same_tensor(a, b),
        (Constant::Attribute(a), Constant::Attribute(b)) => a == b,
        _ => false,
    }
}

/// Whether two tensors have equal elements, in any encoding.
fn same_tensor(a: &TensorProto, b: &TensorProto) -> bool {
    let (Ok(one), Ok(other)) = (constant(a, ConstOrigin::New), constant(b, ConstOrigin::New)) else {
        return false;
    };
    one.ty == other.ty
        && match (&one.payload, &other.payload) {
            // Strings and large typed arrays are not unpacked, so their messages are compared.
            (Payload::Elided, Payload::Elided) => nameless(a) == nameless(b),
            (one, other) => one == other,
        }
}

fn nameless(tensor: &TensorProto) -> TensorProto {
    TensorProto { name: None, doc_string: None, ..tensor.clone() }
}
