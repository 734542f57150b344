//! The given model by nodes of its file: what each one reads and makes.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Definition, DimExpr, ElementType, Module, Node, Origin, Payload};
use memc_onnx_import::{ImportOptions, import, open_dimensions};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::NodeProto;
use memc_ops::repeatable;

use crate::extents::Extents;
use crate::side::Known;

/// A value of known or bounded size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sized {
    pub element: ElementType,
    /// Extents, the largest ones of free dimensions.
    pub dims: Vec<u64>,
    /// Size at these extents.
    pub bytes: u64,
    /// Extents as expressions, if one of them depends on a free dimension; empty otherwise.
    pub free: Vec<DimExpr>,
}

/// A node of the main graph.
#[derive(Debug, Default)]
pub(super) struct FileNode {
    /// Names that the node and its bodies read from the main graph, constants included.
    pub reads: BTreeSet<String>,
    pub makes: Vec<String>,
    /// Nodes of the module that it became.
    pub inner: Vec<Node>,
}

/// The given model.
pub(super) struct Given<'g> {
    pub file: &'g ModelFile,
    pub module: Module,
    pub nodes: Vec<FileNode>,
    /// Node that makes each value.
    pub maker: BTreeMap<String, usize>,
    pub sized: BTreeMap<String, Sized>,
    /// Results that are integers which follow from the extents.
    pub integers: BTreeMap<String, Vec<i64>>,
    /// Weights of the main graph.
    pub weights: BTreeSet<String>,
    /// Graph inputs that callers feed.
    pub inputs: BTreeSet<String>,
    pub outputs: Vec<String>,
}

impl<'g> Given<'g> {
    /// Imports the model with the extents of the manifest.
    pub fn new(file: &'g ModelFile, dims: &BTreeMap<String, u64>, extents: &Extents) -> Result<Self, String> {
        let options = match extents.is_empty() {
            true => ImportOptions { dims: dims.clone(), ..ImportOptions::default() },
            false => {
                let open = open_dimensions(file).map_err(|error| error.diagnostic().message)?;
                ImportOptions { allow_unbound: false, ..extents.options(dims, &open) }
            }
        };
        let imported = import(file, &options).map_err(|error| error.diagnostic().message)?;
        let (module, graph) = (imported.module, file.graph());
        let mut maker = BTreeMap::new();
        let mut nodes: Vec<FileNode> = Vec::new();
        for (index, proto) in graph.node.iter().enumerate() {
            let makes: Vec<String> = proto.output.iter().filter(|name| !name.is_empty()).cloned().collect();
            maker.extend(makes.iter().map(|name| (name.clone(), index)));
            nodes.push(FileNode { makes, ..FileNode::default() });
        }
        let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        let weights: BTreeSet<String> =
            graph.initializer.iter().chain(sparse).map(|tensor| tensor.name().to_owned()).collect();
        let inputs = graph
            .input
            .iter()
            .map(|info| info.name().to_owned())
            .filter(|name| !weights.contains(name))
            .collect();
        let (mut sized, mut integers) = (BTreeMap::new(), BTreeMap::new());
        for (value, data) in module.values().iter() {
            if module.home(value) != Some(module.main()) {
                continue;
            }
            let Some(tensor) = data.ty.tensor() else { continue };
            if let Some(known) = Known::within(tensor, extents) {
                let free = known.free.as_ref().map(|free| free.dims.clone()).unwrap_or_default();
                let (element, bytes) = (known.element, known.bytes());
                sized.insert(data.name.clone(), Sized { element, dims: known.dims, bytes, free });
            }
            let is_result =
                matches!(data.definition, Definition::Result(..)) && maker.contains_key(&data.name);
            let is_whole =
                [ElementType::Int64, ElementType::Int32, ElementType::Bool].contains(&tensor.element);
            let items = imported.data[value].as_ref().and_then(|data| data.known_ints());
            if let Some(items) = items.filter(|_| is_result && is_whole) {
                integers.insert(data.name.clone(), items);
            }
        }
        let mut given = Self {
            file,
            nodes,
            maker,
            sized,
            integers,
            weights,
            inputs,
            outputs: graph.output.iter().map(|info| info.name().to_owned()).collect(),
            module,
        };
        for (index, proto) in graph.node.iter().enumerate() {
            let mut read = BTreeSet::new();
            collect(proto, &mut read);
            let of_main = |name: &&str| {
                given.weights.contains(*name)
                    || given.inputs.contains(*name)
                    || given.maker.get(*name).is_some_and(|maker| *maker != index)
            };
            given.nodes[index].reads = read.into_iter().filter(of_main).map(str::to_owned).collect();
        }
        given.attach();
        Ok(given)
    }

    /// Finds the module's nodes of each node of the file.
    fn attach(&mut self) {
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in self.file.graph().node.iter().enumerate() {
            first.entry(node.name()).or_insert(index);
        }
        for node in &self.module.graph(self.module.main()).nodes {
            let index = match &self.module.node(*node).origin {
                Origin::File { index } => Some(*index as usize),
                Origin::Inlined { call } => first.get(call.as_str()).copied(),
                Origin::Pass { .. } | Origin::Text => None,
            };
            if let Some(found) = index.and_then(|index| self.nodes.get_mut(index)) {
                found.inner.push(*node);
            }
        }
    }

    /// Whether a value is a result with integers that follow from the extents, and not a graph output.
    pub fn is_known(&self, name: &str) -> bool {
        self.integers.contains_key(name) && self.outputs.iter().all(|output| output != name)
    }

    /// Bytes of each of `parts` equal shares of a constant along an axis; `None` if shares differ, or another
    /// file holds the bytes.
    pub fn share_of_constant(&self, name: &str, axis: usize, parts: u64) -> Option<Vec<u8>> {
        let (value, _) = self
            .module
            .values()
            .iter()
            .find(|(value, data)| data.name == name && self.module.constant_of(*value).is_some())?;
        let constant = self.module.constant(self.module.constant_of(value)?);
        let Payload::Raw(bytes) = &constant.payload else { return None };
        let dims = constant.ty.known_dims()?;
        let extent =
            dims.get(axis).copied().filter(|extent| *extent > 0 && parts > 0 && extent % parts == 0)?;
        let blocks =
            usize::try_from(dims.iter().take(axis).try_fold(1_u64, |all, extent| all.checked_mul(*extent))?)
                .ok()?;
        let block = bytes.len().checked_div(blocks)?;
        let share = block.checked_div(usize::try_from(parts).ok()?)?;
        let mut shares = Vec::new();
        for block in bytes.chunks_exact(block.max(1)) {
            let first = block.get(..share).filter(|first| !first.is_empty())?;
            if block.len() % share != 0 || block.chunks_exact(share).any(|other| other != first) {
                return None;
            }
            shares.extend_from_slice(first);
        }
        (extent > 0).then_some(shares)
    }

    /// Whether a node makes the same in all runs: nodes that became constants, and those of such operators.
    pub fn repeats(&self, index: usize) -> bool {
        let Some(node) = self.file.graph().node.get(index) else { return false };
        let inner = &self.nodes[index].inner;
        let is_constant = node.op_type() == "Constant" && node.domain().is_empty();
        is_constant || !inner.is_empty() && inner.iter().all(|inner| repeatable(&self.module, *inner))
    }

    /// Name of a node for messages.
    pub fn title(&self, index: usize) -> String {
        self.file
            .graph()
            .node
            .get(index)
            .map_or_else(String::new, |node| format!("node {index} \"{}\" ({})", node.name(), node.op_type()))
    }
}

/// Collects the names that a node and its bodies mention as operands.
fn collect<'n>(node: &'n NodeProto, found: &mut BTreeSet<&'n str>) {
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        found.extend(node.input.iter().map(String::as_str));
        for body in node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)) {
            found.extend(body.output.iter().map(|info| info.name()));
            open.extend(&body.node);
        }
    }
    found.remove("");
}
