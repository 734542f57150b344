//! Inlining of model-local functions into the main graph.

use std::collections::{BTreeSet, HashMap, HashSet};

use memc_ir::{GraphId, NewNode, Operator, Origin, ValueType};
use memc_onnx_proto::onnx::{AttributeProto, FunctionProto, NodeProto};
use memc_ops::profile::registered;

use crate::error::ImportError;
use crate::graph::{Importer, MAX_DEPTH};
use crate::names::{Frame, FunctionKey, Scopes, call_key, normal_domain};
use crate::order::has_bodies;
use crate::repeated;

/// Maximum number of nodes that inlining creates: nested calls multiply without limit.
const MAX_INLINED: usize = 1_000_000;

/// Domain of memc's own transfer operators. Their functions are only a fallback for other runtimes, so
/// they stay calls.
const OWN_DOMAIN: &str = "ai.memc";

impl<'f> Importer<'f> {
    /// Returns the function that a node calls, if it can be inlined; its operator sets must agree with
    /// the model's. A function with the name of one of the runtime's operators is not: the runtime runs
    /// its own kernel.
    pub(crate) fn inlinable(
        &self,
        node: &NodeProto,
        frame: Option<&Frame<'_>>,
    ) -> Result<Option<&'f FunctionProto>, ImportError> {
        let key = call_key(node);
        let Some(function) = self.functions.get(&key).copied() else { return Ok(None) };
        let version = self.opsets.get(&key.0).copied().unwrap_or(1);
        if key.0 == OWN_DOMAIN || registered(&key.0, &key.1, version) {
            return Ok(None);
        }
        let active = frame.map(|frame| frame.active.as_slice()).unwrap_or_default();
        if active.contains(&key) {
            return Err(ImportError::RecursiveFunction { function: format!("{}::{}", key.0, key.1) });
        }
        if active.len() >= MAX_DEPTH {
            return Err(ImportError::TooDeep { what: "functions", limit: MAX_DEPTH });
        }
        let fits = function.opset_import.iter().all(|import| {
            let domain = normal_domain(import.domain.as_deref().unwrap_or_default());
            self.opsets.get(domain).is_none_or(|version| Some(*version) == import.version)
        });
        Ok(fits.then_some(function))
    }

    /// Returns the number of nodes that a function makes, with those of the functions that it calls and the
    /// calls themselves. Linear in the nodes of the functions that are counted for the first time.
    fn expanded(
        &mut self,
        key: FunctionKey,
        function: &'f FunctionProto,
        depth: usize,
    ) -> Result<usize, ImportError> {
        if let Some(known) = self.expanded.get(&key) {
            return Ok(*known);
        }
        // A function inside itself has no number; inlining refuses it.
        self.expanded.insert(key.clone(), 0);
        let mut count = function.node.len();
        for node in function.node.iter().filter(|_| depth < MAX_DEPTH) {
            if let Some(callee) = self.inlinable(node, None)? {
                count = count.saturating_add(self.expanded(call_key(node), callee, depth + 1)?);
            }
        }
        self.expanded.insert(key, count);
        Ok(count)
    }

    /// Appends the nodes of a function in place of a call.
    pub(crate) fn inline(
        &mut self,
        graph: GraphId,
        call: &NodeProto,
        function: &'f FunctionProto,
        scopes: &mut Scopes,
        stated: &HashMap<String, ValueType>,
        outer: Option<&Frame<'_>>,
    ) -> Result<(), ImportError> {
        // Before the first node, check how many all calls inside the function make.
        if outer.is_none() {
            self.inlined = self.inlined.saturating_add(self.expanded(call_key(call), function, 0)?);
            if self.inlined > MAX_INLINED {
                return Err(ImportError::TooManyNodes { limit: MAX_INLINED });
            }
        }
        for import in &function.opset_import {
            let domain = normal_domain(import.domain.as_deref().unwrap_or_default()).to_owned();
            self.opsets.entry(domain).or_insert(import.version.unwrap_or(1));
        }
        // Resolve attributes that refer to parameters of the calling function.
        let mut given: Vec<AttributeProto> = Vec::new();
        for attribute in &call.attribute {
            let source = match (attribute.ref_attr_name.as_deref(), outer) {
                (Some(parameter), Some(outer)) if !parameter.is_empty() => {
                    outer.attributes.get(parameter).copied()
                }
                _ => Some(attribute),
            };
            if let Some(source) = source {
                given.push(AttributeProto {
                    name: attribute.name.clone(),
                    ref_attr_name: None,
                    ..source.clone()
                });
            }
        }
        let outer_names: Vec<String> = call
            .output
            .iter()
            .map(|name| match (name.as_str(), outer) {
                ("", _) => String::new(),
                (name, Some(outer)) => outer.result_name(name),
                (name, None) => name.to_owned(),
            })
            .collect();
        let frame = self.frame(call, function, outer, &given, &outer_names);
        // Bind the operands of the call to the formal inputs.
        let mut inner = Scopes::default();
        let formals = function.input.iter().chain(function.node.iter().flat_map(|node| &node.output));
        inner.push(if function.node.iter().any(has_bodies) {
            formals.cloned().collect()
        } else {
            HashSet::new()
        });
        for (formal, actual) in function.input.iter().zip(&call.input) {
            if !actual.is_empty() {
                let value = scopes.find(actual).ok_or_else(|| ImportError::UnknownValue {
                    name: actual.clone(),
                    reader: format!("node \"{}\"", frame.call),
                })?;
                inner.bind(formal, value);
            }
        }
        let types: HashMap<String, ValueType> = function
            .output
            .iter()
            .zip(&call.output)
            .filter_map(|(formal, actual)| stated.get(actual).map(|ty| (formal.clone(), ty.clone())))
            .collect();
        // Append the nodes, without repeated constants, and bind the results.
        let repeated = repeated::find(&[], &function.node, &BTreeSet::new());
        self.diagnostics.extend(repeated.diagnostic(function.name()));
        for (_, node) in function.node.iter().enumerate().filter(|(index, _)| !repeated.nodes.contains(index))
        {
            let node = without_absent_operands(node, function, call);
            let origin = Origin::Inlined { call: frame.call.clone() };
            self.node(graph, &node, origin, &mut inner, &types, Some(&frame))?;
        }
        self.results(graph, call, function, &frame, &inner, scopes, stated, &outer_names)
    }

    fn frame<'a>(
        &mut self,
        call: &NodeProto,
        function: &'a FunctionProto,
        outer: Option<&Frame<'_>>,
        given: &'a [AttributeProto],
        outer_names: &'a [String],
    ) -> Frame<'a> {
        let own = match call.name.as_deref() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => outer_names.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default(),
        };
        let call_name = outer.map_or_else(|| own.clone(), |outer| format!("{}{own}", outer.prefix));
        let mut attributes: HashMap<&str, &AttributeProto> = HashMap::new();
        for attribute in function.attribute_proto.iter().chain(given) {
            attributes.insert(attribute.name.as_deref().unwrap_or_default(), attribute);
        }
        let results = function.output.iter().zip(outer_names).filter(|(_, outer)| !outer.is_empty());
        let results = results.map(|(formal, outer)| (formal.as_str(), outer.as_str())).collect();
        let mut active = outer.map(|outer| outer.active.clone()).unwrap_or_default();
        active.push(call_key(call));
        let prefix = self.fresh_prefix(&call_name);
        Frame { call: call_name, prefix, attributes, results, active }
    }

    /// Returns an unused prefix for names, made unique with a counter.
    fn fresh_prefix(&mut self, call: &str) -> String {
        let mut prefix = format!("{call}/");
        let mut count = 1;
        while !self.taken.insert(prefix.clone()) {
            count += 1;
            prefix = format!("{call}.{count}/");
        }
        prefix
    }

    /// Binds the results of a call. A result that is a formal input or repeats another result gets an
    /// Identity node.
    #[allow(clippy::too_many_arguments)]
    fn results(
        &mut self,
        graph: GraphId,
        call: &NodeProto,
        function: &FunctionProto,
        frame: &Frame<'_>,
        inner: &Scopes,
        scopes: &mut Scopes,
        stated: &HashMap<String, ValueType>,
        outer_names: &[String],
    ) -> Result<(), ImportError> {
        for ((formal, actual), full) in function.output.iter().zip(&call.output).zip(outer_names) {
            if actual.is_empty() {
                continue;
            }
            let mut value = inner.find(formal).ok_or_else(|| ImportError::UnknownValue {
                name: formal.clone(),
                reader: format!("the function `{}`", function.name.as_deref().unwrap_or_default()),
            })?;
            if self.builder.module().value(value).name != *full {
                let version = self.opsets.get("").copied().unwrap_or(1);
                let (operator, origin) =
                    (Operator::onnx("Identity", version), Origin::Inlined { call: frame.call.clone() });
                let new = NewNode::new(operator, vec![Some(value)], Vec::new(), origin)
                    .named(format!("{}{formal}", frame.prefix));
                let ty = stated.get(actual).cloned().unwrap_or_default();
                let node = self.builder.node(graph, new, &[Some((full.clone(), ty))]);
                if let Some(made) = self.builder.module().node(node).results().next() {
                    value = made;
                }
            }
            if !scopes.bind(actual, value) {
                return Err(ImportError::DuplicateName { name: actual.clone(), graph: "main".to_owned() });
            }
        }
        Ok(())
    }
}

/// Copies a node of a function, omitting the operands that the call omits.
fn without_absent_operands(node: &NodeProto, function: &FunctionProto, call: &NodeProto) -> NodeProto {
    let absent = |name: &String| {
        function
            .input
            .iter()
            .position(|formal| formal == name)
            .is_some_and(|at| call.input.get(at).is_none_or(String::is_empty))
    };
    if !node.input.iter().any(absent) {
        return node.clone();
    }
    let mut node = node.clone();
    for name in &mut node.input {
        if absent(name) {
            name.clear();
        }
    }
    node
}
