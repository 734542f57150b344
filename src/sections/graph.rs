//! The given graph as nodes of the file: what each one reads, makes and costs, and which ones are cheaper
//! to run twice than to send.

use std::collections::{BTreeMap, BTreeSet};

use memc_cost::CostModel;
use memc_ir::{Definition, Dim, DimExpr, ElementType, Module, Node, Origin, TensorType, Value};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{GraphProto, NodeProto};
use memc_ops::profile::may_fuse;
use memc_passes::StateNames;

use crate::error::Error;
use crate::request::Request;
use crate::split_error::SplitError;

/// A tensor of known or bounded size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub element: ElementType,
    /// Extents, the largest ones of free dimensions.
    pub shape: Vec<u64>,
    /// Size at these extents.
    pub bytes: u64,
    /// Extents as expressions, if one of them depends on a free dimension; empty otherwise.
    pub free: Vec<DimExpr>,
}

/// A node of the file's main graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    /// Values of the main graph that the node and its bodies read, except weights and known integers.
    pub reads: BTreeSet<String>,
    /// Weights that it reads.
    pub weights: BTreeSet<String>,
    /// Integers that follow from the extents, which it reads.
    pub known: BTreeSet<String>,
    /// Values that it makes.
    pub makes: Vec<String>,
    /// Modelled time of one run, in nanoseconds.
    pub nanos: u64,
    /// Bytes that live while it runs, in the order of the file.
    pub live_bytes: u64,
    /// Nodes of the module that belong to it.
    pub nodes: Vec<Node>,
    /// Whether it may run in several sections.
    pub repeats: bool,
}

/// The main graph of the given file.
#[derive(Debug)]
pub(super) struct Graph<'f> {
    pub file: &'f ModelFile,
    pub module: Module,
    /// Nodes by position in the file.
    pub units: Vec<Unit>,
    /// Positions of nodes in an order in which makers come before readers.
    pub order: Vec<usize>,
    /// Node that makes each value.
    pub maker: BTreeMap<String, usize>,
    /// Tensors of known size, by name: graph inputs, weights, results.
    pub tensors: BTreeMap<String, Tensor>,
    /// Known integers, by name.
    pub known: BTreeMap<String, Vec<i64>>,
    /// Graph inputs that callers feed, in order.
    pub inputs: Vec<String>,
    /// Graph outputs, in order.
    pub outputs: Vec<String>,
    /// Nodes that the graph outputs need.
    pub needed: BTreeSet<usize>,
    /// Graph outputs that may take the storage of graph inputs or weights.
    pub pairs: Vec<StateNames>,
    /// Dimensions that equal expressions over free ones.
    pub equal: BTreeMap<String, DimExpr>,
}

impl<'f> Graph<'f> {
    /// Imports a model and lists its nodes. O(nodes log nodes) and the import.
    ///
    /// # Errors
    /// The model is refused, or a weight is an output.
    pub fn new(file: &'f ModelFile, request: &Request) -> Result<Self, Error> {
        let imported = memc_onnx_import::import(file, &request.import)?;
        let module = imported.module;
        let main = module.main();
        if module.graph(main).outputs.is_empty() {
            return Err(Error::NoOutputs { graph: module.graph(main).name.clone() });
        }
        let names: BTreeMap<String, Value> = module
            .values()
            .iter()
            .filter(|(value, data)| module.home(*value) == Some(main) && !data.name.is_empty())
            .map(|(value, data)| (data.name.clone(), value))
            .collect();
        let mut graph = Self {
            file,
            units: vec![Unit::default(); file.graph().node.len()],
            order: Vec::new(),
            maker: BTreeMap::new(),
            tensors: BTreeMap::new(),
            known: BTreeMap::new(),
            inputs: Vec::new(),
            outputs: file.graph().output.iter().map(|info| info.name().to_owned()).collect(),
            needed: BTreeSet::new(),
            pairs: super::state::pairs(&module, request)?,
            equal: imported.equal,
            module,
        };
        for (index, node) in file.graph().node.iter().enumerate() {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                graph.maker.insert(name.clone(), index);
                graph.units[index].makes.push(name.clone());
            }
        }
        let weights: BTreeSet<String> =
            file.graph().initializer.iter().map(|tensor| tensor.name().to_owned()).collect();
        let sparse = file.graph().sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        let weights: BTreeSet<String> =
            weights.into_iter().chain(sparse.map(|values| values.name().to_owned())).collect();
        let inputs = file.graph().input.iter().map(|info| info.name().to_owned());
        graph.inputs = inputs.filter(|name| !weights.contains(name)).collect();
        for (name, value) in &names {
            graph.describe(name, *value, &imported.data[*value]);
        }
        let outputs: BTreeSet<String> = graph.outputs.iter().cloned().collect();
        graph.known.retain(|name, _| graph.maker.contains_key(name) && !outputs.contains(name));
        for (index, node) in file.graph().node.iter().enumerate() {
            let mut read = BTreeSet::new();
            named(node, &mut read);
            for name in read {
                if weights.contains(name) {
                    graph.units[index].weights.insert(name.to_owned());
                } else if graph.known.contains_key(name) {
                    graph.units[index].known.insert(name.to_owned());
                } else if graph.maker.get(name).is_some_and(|maker| *maker != index)
                    || graph.inputs.iter().any(|input| input == name)
                {
                    graph.units[index].reads.insert(name.to_owned());
                }
            }
        }
        graph.attach(request);
        graph.sort();
        graph.need()?;
        graph.count_live();
        Ok(graph)
    }

    /// Records the size of a value, and its integers if they are known.
    fn describe(&mut self, name: &str, value: Value, data: &Option<std::sync::Arc<memc_ops::Data>>) {
        let Some(tensor) = self.module.ty(value).tensor() else { return };
        let is_known = tensor.known_dims().is_some();
        let free: Option<Vec<DimExpr>> = tensor.shape.iter().flatten().map(Dim::expr).collect();
        let largest = self.module.largest(value);
        if let (Some(shape), Some(bytes), Some(free)) =
            (largest.and_then(TensorType::known_dims), largest.and_then(TensorType::size), free)
        {
            let free = if is_known { Vec::new() } else { free };
            self.tensors
                .insert(name.to_owned(), Tensor { element: tensor.element, shape, bytes: bytes.0, free });
        }
        let is_whole = matches!(tensor.element, ElementType::Int64 | ElementType::Int32 | ElementType::Bool);
        let is_result = matches!(self.module.value(value).definition, Definition::Result(..));
        if let Some(items) =
            data.as_ref().and_then(|data| data.known_ints()).filter(|_| is_whole && is_result)
        {
            self.known.insert(name.to_owned(), items);
        }
    }

    /// Finds the module's nodes of each node of the file, with their times.
    fn attach(&mut self, request: &Request) {
        let mut called: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in self.file.graph().node.iter().enumerate() {
            called.entry(node.name()).or_insert(index);
        }
        let costs = CostModel { target: request.target.clone(), measured: None, scratch: None };
        for node in &self.module.graph(self.module.main()).nodes {
            let index = match &self.module.node(*node).origin {
                Origin::File { index } => Some(*index as usize),
                Origin::Inlined { call } => called.get(call.as_str()).copied(),
                Origin::Pass { .. } | Origin::Text => None,
            };
            if let Some(unit) = index.and_then(|index| self.units.get_mut(index)) {
                unit.nanos = unit
                    .nanos
                    .saturating_add(costs.nanos(&self.module, *node).0.ceil().clamp(0.0, 1e15) as u64);
                unit.nodes.push(*node);
            }
        }
        for unit in &mut self.units {
            unit.repeats = !unit.nodes.is_empty()
                && unit.nodes.iter().all(|node| memc_ops::repeatable(&self.module, *node));
        }
    }

    /// Orders the nodes: makers before readers, else as in the file.
    fn sort(&mut self) {
        let mut waits: Vec<usize> = Vec::new();
        let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, unit) in self.units.iter().enumerate() {
            let all = unit.reads.iter().chain(&unit.known);
            let makers: BTreeSet<usize> = all.filter_map(|name| self.maker.get(name)).copied().collect();
            waits.push(makers.len());
            makers.into_iter().for_each(|maker| readers.entry(maker).or_default().push(index));
        }
        let mut ready: BTreeSet<usize> = (0..self.units.len()).filter(|index| waits[*index] == 0).collect();
        while let Some(index) = ready.pop_first() {
            self.order.push(index);
            for &reader in readers.get(&index).into_iter().flatten() {
                waits[reader] -= 1;
                if waits[reader] == 0 {
                    ready.insert(reader);
                }
            }
        }
    }

    /// Marks the nodes that the outputs need. Makers of known integers are not needed: sections read
    /// constants.
    fn need(&mut self) -> Result<(), SplitError> {
        let mut open: Vec<usize> = Vec::new();
        for name in &self.outputs {
            match self.maker.get(name) {
                Some(maker) => open.push(*maker),
                None if self.inputs.contains(name) => {}
                None => return Err(SplitError::Unmade { name: name.clone() }),
            }
        }
        while let Some(index) = open.pop() {
            if self.needed.insert(index) {
                open.extend(self.units[index].reads.iter().filter_map(|name| self.maker.get(name)));
            }
        }
        Ok(())
    }

    /// Counts live bytes of results at each node, in order.
    fn count_live(&mut self) {
        let place: BTreeMap<usize, usize> =
            self.order.iter().enumerate().map(|(place, index)| (*index, place)).collect();
        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        for &index in self.order.iter().filter(|index| self.needed.contains(index)) {
            for name in &self.units[index].reads {
                ends.insert(name, place[&index]);
            }
        }
        let (mut live, mut freed) = (0_u64, BTreeMap::<usize, u64>::new());
        let mut counted = vec![0_u64; self.units.len()];
        for (step, &index) in self.order.iter().enumerate() {
            if self.needed.contains(&index) {
                for name in &self.units[index].makes {
                    let bytes = self.tensors.get(name).map_or(0, |tensor| tensor.bytes);
                    live += bytes;
                    *freed.entry(ends.get(name.as_str()).copied().unwrap_or(step)).or_default() += bytes;
                }
                counted[index] = live;
            }
            live -= freed.remove(&step).unwrap_or(0).min(live);
        }
        self.units.iter_mut().zip(counted).for_each(|(unit, bytes)| unit.live_bytes = bytes);
    }

    /// Nodes that a value needs, with its own. O(nodes).
    pub fn ancestors(&self, name: &str) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.maker.get(name).copied().into_iter().collect();
        while let Some(unit) = open.pop() {
            if found.insert(unit) {
                open.extend(self.units[unit].reads.iter().filter_map(|name| self.maker.get(name)));
            }
        }
        found
    }

    /// Whether a value can cross: a tensor of known size.
    pub fn crosses(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Whether a session may fuse two nodes.
    pub fn fuses(&self, maker: usize, reader: usize) -> bool {
        let (first, second) = (&self.units[maker].nodes, &self.units[reader].nodes);
        first.iter().any(|one| second.iter().any(|other| may_fuse(&self.module, *one, *other)))
    }

    /// Name of a node for messages: its own, or that of its first result.
    pub fn title(&self, index: usize) -> String {
        let Some(node) = self.file.graph().node.get(index) else { return String::new() };
        let name =
            if node.name().is_empty() { node.output.first().map_or("", String::as_str) } else { node.name() };
        format!("node \"{name}\" ({})", node.op_type())
    }
}

/// Collects all names that a node and its bodies read, those made inside the bodies included: names are
/// unique in a graph and the graphs around it.
fn named<'n>(node: &'n NodeProto, found: &mut BTreeSet<&'n str>) {
    let mut bodies: Vec<&GraphProto> = Vec::new();
    let mut nodes: Vec<&NodeProto> = vec![node];
    loop {
        while let Some(node) = nodes.pop() {
            found.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
            for attribute in &node.attribute {
                bodies.extend(attribute.g.iter());
                bodies.extend(&attribute.graphs);
            }
        }
        let Some(body) = bodies.pop() else { break };
        found.extend(body.output.iter().map(|info| info.name()));
        nodes.extend(&body.node);
    }
}
