//! Conversion of ONNX graphs to module graphs: resolves names to ids, scope by scope.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use indexmap::IndexMap;
use indexmap::map::Entry;
use memc_ir::{
    Attribute, ConstId, ConstOrigin, Diagnostic, GraphId, Module, ModuleBuilder, Names, NewNode, Operator,
    Origin, Value, ValueType,
};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use memc_onnx_proto::{ModelFile, attribute_tensor};
use prost::Message as _;

use crate::bind::check_default;
use crate::constant::{constant, sparse};
use crate::error::ImportError;
use crate::location;
use crate::names::{Frame, FunctionKey, Scopes, function_key, normal_domain};
use crate::order::{defined, describe, has_bodies, topological};
use crate::repeated::{self, Repeated};
use crate::types::{value_info, value_type};
use crate::{NEWEST_IR_VERSION, NEWEST_OPSET};

/// First `ir_version` in which an initializer need not be a graph input. From it on, an initializer
/// that is also an input is a default, which callers may override.
const FREE_INITIALIZERS_IR_VERSION: i64 = 4;

/// Maximum nesting of bodies.
pub(crate) const MAX_DEPTH: usize = 64;

/// The module with types as stated by the file, and diagnostics about oddities of the file.
pub(crate) struct Built {
    pub(crate) module: Module,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Builds the module of a model file.
pub(crate) fn build(file: &ModelFile) -> Result<Built, ImportError> {
    let model = file.model();
    let opsets = versions(file)?;
    location::check(model)?;
    let mut importer = Importer {
        file,
        builder: ModuleBuilder::new(),
        operators: Names::default(),
        functions: model.functions.iter().map(|function| (function_key(function), function)).collect(),
        taken: HashSet::new(),
        opsets,
        inlined: 0,
        expanded: HashMap::new(),
        diagnostics: Vec::new(),
    };
    importer.reserve_names(file.graph());
    let main = importer.builder.module().main();
    importer.builder.name_graph(main, file.graph().name.as_deref().unwrap_or_default());
    let mut scopes = Scopes::default();
    importer.graph(main, file.graph(), &mut scopes, None)?;
    let Importer { mut builder, opsets, diagnostics, .. } = importer;
    let module = builder.module_mut();
    module.ir_version = model.ir_version.unwrap_or(0);
    module.opsets = opsets;
    Ok(Built { module: builder.finish(), diagnostics })
}

/// Checks the versions that the file states and returns its operator sets by domain.
fn versions(file: &ModelFile) -> Result<BTreeMap<String, i64>, ImportError> {
    let model = file.model();
    let refuse = |what: &str, found: i64, oldest: i64, newest: i64| {
        Err(ImportError::Version { what: what.to_owned(), found, oldest, newest })
    };
    let ir_version = model.ir_version.unwrap_or(0);
    if !(3..=NEWEST_IR_VERSION).contains(&ir_version) {
        return refuse("IR", ir_version, 3, NEWEST_IR_VERSION);
    }
    // If a domain has several entries, the last one counts, as in runtimes.
    let entry = |import: &OperatorSetIdProto| (normal_domain(import.domain()).to_owned(), import.version());
    let opsets: BTreeMap<String, i64> = model.opset_import.iter().map(entry).collect();
    if let Some(version) = opsets.get("").filter(|version| !(1..=NEWEST_OPSET).contains(*version)) {
        return refuse("operator set", *version, 1, NEWEST_OPSET);
    }
    let of_functions = model.functions.iter().flat_map(|function| &function.opset_import);
    match model.opset_import.iter().chain(of_functions).find(|import| import.version() < 0) {
        Some(import) => Err(ImportError::NegativeVersion {
            domain: normal_domain(import.domain()).to_owned(),
            found: import.version(),
        }),
        None => Ok(opsets),
    }
}

pub(crate) struct Importer<'f> {
    pub(crate) file: &'f ModelFile,
    pub(crate) builder: ModuleBuilder,
    operators: Names,
    pub(crate) functions: HashMap<FunctionKey, &'f FunctionProto>,
    /// Names of existing values, which inlining must not reuse.
    pub(crate) taken: HashSet<String>,
    pub(crate) opsets: BTreeMap<String, i64>,
    /// Number of nodes that inlining has created, or is about to create.
    pub(crate) inlined: usize,
    /// Number of nodes that each function makes, as far as counted.
    pub(crate) expanded: HashMap<FunctionKey, usize>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'f> Importer<'f> {
    /// Reserves every name of the file, so that names made by inlining are unique.
    fn reserve_names(&mut self, graph: &'f GraphProto) {
        let mut graphs = vec![graph];
        while let Some(graph) = graphs.pop() {
            self.taken.extend(graph.input.iter().filter_map(|info| info.name.clone()));
            self.taken.extend(graph.initializer.iter().filter_map(|tensor| tensor.name.clone()));
            for node in &graph.node {
                self.taken.extend(node.output.iter().cloned());
                graphs.extend(
                    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)),
                );
            }
        }
    }

    /// Converts `graph` into the module graph `id`. `frame` is the call if the graph is part of an
    /// inlined function.
    fn graph(
        &mut self,
        id: GraphId,
        graph: &GraphProto,
        scopes: &mut Scopes,
        frame: Option<&Frame<'_>>,
    ) -> Result<(), ImportError> {
        if scopes.depth() >= MAX_DEPTH {
            return Err(ImportError::TooDeep { what: "bodies", limit: MAX_DEPTH });
        }
        let is_read_by_bodies = graph.node.iter().any(has_bodies);
        scopes.push(if is_read_by_bodies {
            defined(graph).map(str::to_owned).collect()
        } else {
            HashSet::new()
        });
        let repeated = self.repeated(graph);
        self.interface(id, graph, &repeated, scopes, frame)?;
        let stated = stated_types(graph);
        for index in topological(graph)?.into_iter().filter(|index| !repeated.nodes.contains(index)) {
            let node = &graph.node[index];
            let origin = match frame {
                None => Origin::File { index: index as u32 },
                Some(frame) => Origin::Inlined { call: frame.call.clone() },
            };
            self.node(id, node, origin, scopes, &stated, frame)?;
        }
        for output in &graph.output {
            let name = output.name.as_deref().unwrap_or_default();
            let value = self.resolve(name, scopes, || format!("the graph `{}`", graph_name(graph)), graph)?;
            self.builder.output(id, value);
        }
        scopes.pop();
        Ok(())
    }

    /// Finds constants that a graph defines more than once, and reports them.
    fn repeated(&mut self, graph: &GraphProto) -> Repeated {
        let inputs = graph.input.iter().map(|info| info.name());
        let replaceable = inputs.filter(|_| !self.lists_weights()).collect();
        let repeated = repeated::find(&graph.initializer, &graph.node, &replaceable);
        self.diagnostics.extend(repeated.diagnostic(graph.name()));
        repeated
    }

    /// Whether the file must list every initializer as a graph input; these inputs are then not inputs
    /// for callers.
    fn lists_weights(&self) -> bool {
        self.file.model().ir_version() < FREE_INITIALIZERS_IR_VERSION
    }

    /// Adds the inputs and initializers of a graph.
    fn interface(
        &mut self,
        id: GraphId,
        graph: &GraphProto,
        repeated: &Repeated,
        scopes: &mut Scopes,
        frame: Option<&Frame<'_>>,
    ) -> Result<(), ImportError> {
        let is_main = id == self.builder.module().main();
        // Collect the dense and sparse initializers.
        let mut constants: IndexMap<String, ConstId> = IndexMap::new();
        let dense =
            graph.initializer.iter().enumerate().filter(|(index, _)| !repeated.initializers.contains(index));
        let dense = dense.map(|(index, tensor)| {
            let origin = if is_main { ConstOrigin::Initializer(index as u32) } else { ConstOrigin::New };
            (tensor.name.clone().unwrap_or_default(), constant(tensor, origin))
        });
        let thin = graph.sparse_initializer.iter().enumerate().map(|(index, tensor)| {
            let origin =
                if is_main { ConstOrigin::SparseInitializer(index as u32) } else { ConstOrigin::New };
            let name = tensor.values.as_ref().and_then(|values| values.name.clone()).unwrap_or_default();
            (name, sparse(tensor, origin))
        });
        for (name, data) in dense.chain(thin) {
            let id = self.builder.constant(data?);
            if name.is_empty() {
                return Err(unnamed("initializer", constants.len(), graph));
            }
            match constants.entry(name) {
                Entry::Occupied(earlier) => return Err(duplicate(earlier.key(), graph)),
                Entry::Vacant(new) => new.insert(id),
            };
        }
        // Add the inputs; an initializer of an input is its default, or, in old files, replaces the
        // input.
        let (mut defaults, mut listed): (HashSet<String>, HashSet<String>) = (HashSet::new(), HashSet::new());
        for info in &graph.input {
            let name = info.name.clone().unwrap_or_default();
            if name.is_empty() {
                return Err(unnamed("input", self.builder.module().graph(id).inputs.len(), graph));
            }
            let default = constants.get(&name).copied();
            let mut ty = value_info(info);
            if let (Some(default), true) = (default, self.lists_weights()) {
                check_default(&name, &ty, &self.builder.module().constant(default).ty)?;
                if !listed.insert(name.clone()) {
                    return Err(duplicate(&name, graph));
                }
                continue;
            }
            if let (Some(constant), true) = (default, ty.size().is_none()) {
                ty = ValueType::Tensor(self.builder.module().constant(constant).ty.clone());
            }
            let own = self.local_name(scopes, frame, &name);
            let value = self.builder.input(id, &own, ty, default);
            if !scopes.bind(&name, value) {
                return Err(duplicate(&name, graph));
            }
            if default.is_some() {
                defaults.insert(name);
            }
        }
        // Add the initializers that are not defaults.
        for (name, constant) in constants {
            if !defaults.contains(&name) {
                let own = self.local_name(scopes, frame, &name);
                let value = self.builder.initializer(id, &own, constant);
                if !scopes.bind(&name, value) {
                    return Err(duplicate(&name, graph));
                }
            }
        }
        Ok(())
    }

    /// Returns the module name of an input or initializer: its name in the file, prefixed inside an
    /// inlined function.
    fn local_name(&mut self, scopes: &Scopes, frame: Option<&Frame<'_>>, name: &str) -> String {
        let full = frame.map_or_else(|| name.to_owned(), |frame| format!("{}{name}", frame.prefix));
        self.unhidden(scopes, name, full)
    }

    /// Returns `full`, or a fresh name if the name in the file hides a value of an enclosing graph.
    /// Passes may let a body read any value of the enclosing graphs, and runtimes reject results that
    /// hide other values.
    fn unhidden(&mut self, scopes: &Scopes, name: &str, full: String) -> String {
        if !scopes.hides(name) {
            return full;
        }
        let numbered =
            (1u64..).map(|number| format!("{full}_{number}")).find(|name| !self.taken.contains(name));
        let fresh = numbered.unwrap_or(full);
        self.taken.insert(fresh.clone());
        fresh
    }

    /// Appends a node, or the nodes of the function that it calls.
    pub(crate) fn node(
        &mut self,
        graph: GraphId,
        node: &NodeProto,
        origin: Origin,
        scopes: &mut Scopes,
        stated: &HashMap<String, ValueType>,
        frame: Option<&Frame<'_>>,
    ) -> Result<(), ImportError> {
        // Inline calls of model-local functions; only in the main graph.
        let is_main = graph == self.builder.module().main();
        if is_main && let Some(function) = self.inlinable(node, frame)? {
            return self.inline(graph, node, function, scopes, stated, frame);
        }
        // Resolve the operands, import the attributes, and name the results.
        let body_name = self.builder.module().graph(graph).name.clone();
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => Some(self.operand(name, node, scopes, is_main, &body_name)?),
            });
        }
        let attributes = self.attributes(node, &origin, scopes, frame)?;
        let operator = self.operator(node);
        let mut results = Vec::with_capacity(node.output.len());
        for name in &node.output {
            results.push(match name.as_str() {
                "" => None,
                name => {
                    let ty = stated.get(name).cloned().unwrap_or_default();
                    let full = frame.map_or_else(|| name.to_owned(), |frame| frame.result_name(name));
                    Some((self.unhidden(scopes, name, full), ty))
                }
            });
        }
        let name = match frame {
            None => node.name.clone().unwrap_or_default(),
            Some(frame) => format!("{}{}", frame.prefix, node.name.as_deref().unwrap_or_default()),
        };
        // Append the node and bind its results.
        let id = self.builder.node(
            graph,
            NewNode::new(operator, inputs, attributes, origin).named(name),
            &results,
        );
        let made = self.builder.module().node(id).outputs.clone();
        for (name, value) in node.output.iter().zip(made) {
            if let Some(value) = value
                && !scopes.bind(name, value)
            {
                return Err(ImportError::DuplicateName { name: name.clone(), graph: body_name });
            }
        }
        Ok(())
    }

    fn operand(
        &self,
        name: &str,
        node: &NodeProto,
        scopes: &Scopes,
        is_main: bool,
        graph: &str,
    ) -> Result<Value, ImportError> {
        scopes.find(name).ok_or_else(|| {
            let (name, reader) = (name.to_owned(), format!("node {}", describe(node)));
            match is_main {
                true => ImportError::UnknownValue { name, reader },
                false => ImportError::UnknownCapture { name, reader, graph: graph.to_owned() },
            }
        })
    }

    fn resolve(
        &self,
        name: &str,
        scopes: &Scopes,
        reader: impl Fn() -> String,
        graph: &GraphProto,
    ) -> Result<Value, ImportError> {
        scopes.find(name).ok_or_else(|| match scopes.depth() {
            0 | 1 => ImportError::UnknownValue { name: name.to_owned(), reader: reader() },
            _ => ImportError::UnknownCapture {
                name: name.to_owned(),
                reader: reader(),
                graph: graph_name(graph),
            },
        })
    }

    /// Returns the operator of a node, with the version that the file imports.
    pub(crate) fn operator(&mut self, node: &NodeProto) -> Operator {
        let domain = normal_domain(node.domain.as_deref().unwrap_or_default());
        Operator {
            domain: self.operators.get(domain),
            name: self.operators.get(node.op_type.as_deref().unwrap_or_default()),
            overload: self.operators.get(node.overload.as_deref().unwrap_or_default()),
            version: self.opsets.get(domain).copied().unwrap_or(1),
        }
    }

    fn attributes(
        &mut self,
        node: &NodeProto,
        origin: &Origin,
        scopes: &mut Scopes,
        frame: Option<&Frame<'_>>,
    ) -> Result<Vec<(String, Attribute)>, ImportError> {
        if has_bodies(node) {
            scopes.enter(&node.output);
        }
        let mut attributes = Vec::with_capacity(node.attribute.len());
        for attribute in &node.attribute {
            let name = attribute.name.clone().unwrap_or_default();
            let source = match (attribute.ref_attr_name.as_deref(), frame) {
                (Some(parameter), Some(frame)) if !parameter.is_empty() => {
                    match frame.attributes.get(parameter) {
                        Some(given) => *given,
                        None => continue,
                    }
                }
                _ => attribute,
            };
            let value = self.attribute(source, &name, origin, scopes, frame)?;
            attributes.push((name, value));
        }
        Ok(attributes)
    }

    fn attribute(
        &mut self,
        attribute: &AttributeProto,
        name: &str,
        origin: &Origin,
        scopes: &mut Scopes,
        frame: Option<&Frame<'_>>,
    ) -> Result<Attribute, ImportError> {
        Ok(match kind(attribute) {
            AttributeType::Float => Attribute::Float(attribute.f.unwrap_or(0.0)),
            AttributeType::Int => Attribute::Int(attribute.i.unwrap_or(0)),
            AttributeType::String => Attribute::String(Bytes::from(attribute.s.clone().unwrap_or_default())),
            AttributeType::Floats => Attribute::Floats(attribute.floats.clone()),
            AttributeType::Ints => Attribute::Ints(attribute.ints.clone()),
            AttributeType::Strings => {
                Attribute::Strings(attribute.strings.iter().cloned().map(Bytes::from).collect())
            }
            AttributeType::Tensor => {
                let place = self.tensor_origin(name, origin, scopes);
                let empty = TensorProto::default();
                let data = constant(attribute.t.as_ref().unwrap_or(&empty), place)?;
                Attribute::Tensor(self.builder.constant(data))
            }
            AttributeType::Tensors => {
                let mut all = Vec::new();
                for tensor in &attribute.tensors {
                    let data = constant(tensor, ConstOrigin::New)?;
                    all.push(self.builder.constant(data));
                }
                Attribute::Tensors(all)
            }
            AttributeType::Graph => match &attribute.g {
                Some(body) => Attribute::Graph(self.body(body, scopes, frame)?),
                None => opaque(attribute),
            },
            AttributeType::Graphs => {
                let mut all = Vec::new();
                for body in &attribute.graphs {
                    all.push(self.body(body, scopes, frame)?);
                }
                Attribute::Graphs(all)
            }
            AttributeType::TypeProto => match &attribute.tp {
                Some(ty) => Attribute::Type(value_type(ty, 0)),
                None => opaque(attribute),
            },
            AttributeType::Undefined
            | AttributeType::SparseTensor
            | AttributeType::SparseTensors
            | AttributeType::TypeProtos => opaque(attribute),
        })
    }

    fn body(
        &mut self,
        body: &GraphProto,
        scopes: &mut Scopes,
        frame: Option<&Frame<'_>>,
    ) -> Result<GraphId, ImportError> {
        let id = self.builder.graph(&graph_name(body));
        self.graph(id, body, scopes, frame)?;
        Ok(id)
    }

    /// Returns the position in the file of a tensor attribute; `New` outside the main graph.
    fn tensor_origin(&self, name: &str, origin: &Origin, scopes: &Scopes) -> ConstOrigin {
        let Origin::File { index } = origin else { return ConstOrigin::New };
        if scopes.depth() != 1 {
            return ConstOrigin::New;
        }
        let Some(field) = self.file.spans().graph().node(*index as usize) else { return ConstOrigin::New };
        match attribute_tensor(self.file.bytes(), field.payload.clone(), name) {
            Ok(Some(span)) => ConstOrigin::Message { start: span.start as u64, end: span.end as u64 },
            _ => ConstOrigin::New,
        }
    }
}

fn graph_name(graph: &GraphProto) -> String {
    graph.name.clone().unwrap_or_default()
}

fn duplicate(name: &str, graph: &GraphProto) -> ImportError {
    ImportError::DuplicateName { name: name.to_owned(), graph: graph_name(graph) }
}

fn unnamed(what: &'static str, position: usize, graph: &GraphProto) -> ImportError {
    ImportError::Unnamed { what, position, graph: graph_name(graph) }
}

fn opaque(attribute: &AttributeProto) -> Attribute {
    Attribute::Opaque { kind: attribute.r#type.unwrap_or(0), message: attribute.encode_to_vec().into() }
}

/// Returns the type of an attribute. Files older than the type field omit it; then the type follows
/// from the filled field.
fn kind(attribute: &AttributeProto) -> AttributeType {
    let stated = attribute
        .r#type
        .and_then(|number| AttributeType::try_from(number).ok())
        .unwrap_or(AttributeType::Undefined);
    if stated != AttributeType::Undefined || attribute.r#type.unwrap_or(0) != 0 {
        return stated;
    }
    match attribute {
        _ if attribute.f.is_some() => AttributeType::Float,
        _ if attribute.i.is_some() => AttributeType::Int,
        _ if attribute.s.is_some() => AttributeType::String,
        _ if attribute.t.is_some() => AttributeType::Tensor,
        _ if attribute.g.is_some() => AttributeType::Graph,
        _ if !attribute.floats.is_empty() => AttributeType::Floats,
        _ if !attribute.ints.is_empty() => AttributeType::Ints,
        _ if !attribute.strings.is_empty() => AttributeType::Strings,
        _ if !attribute.tensors.is_empty() => AttributeType::Tensors,
        _ if !attribute.graphs.is_empty() => AttributeType::Graphs,
        _ => AttributeType::Undefined,
    }
}

/// Collects the types that `value_info` and the outputs of a graph state, by name.
fn stated_types(graph: &GraphProto) -> HashMap<String, ValueType> {
    let mut stated = HashMap::new();
    for info in graph.value_info.iter().chain(&graph.output) {
        stated.insert(info.name.clone().unwrap_or_default(), value_info(info));
    }
    stated
}
