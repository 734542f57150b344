//! Building and editing of modules. Every edit goes through this module, which keeps use lists and
//! definitions consistent.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::attribute::Attribute;
use crate::entity::{ConstId, GraphId, Node, SecondaryMap, Value};
use crate::module::{ConstData, Definition, GraphData, Module, NodeData, Operator, Origin, ValueData};
use crate::types::ValueType;

/// Description of a new node, except its results.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// The operator that the node applies.
    pub operator: Operator,
    /// Name in ONNX.
    pub name: String,
    /// Operands.
    pub inputs: Vec<Option<Value>>,
    /// Attributes.
    pub attributes: Vec<(String, Attribute)>,
    /// Origin of the node.
    pub origin: Origin,
}

impl NewNode {
    /// Describes a node without a name.
    #[must_use]
    pub fn new(
        operator: Operator,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
        origin: Origin,
    ) -> Self {
        Self { operator, name: String::new(), inputs, attributes, origin }
    }
    /// Names the node.
    #[must_use]
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

/// Builds a new module. Frontends use it; passes edit through [`Rewriter`].
#[derive(Debug)]
pub struct ModuleBuilder {
    module: Module,
}

impl Default for ModuleBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ModuleBuilder {
    /// Creates a module with an empty main graph.
    pub fn new() -> Self {
        let mut module = Module::default();
        module.graphs.push(GraphData::default());
        Self { module }
    }
    /// The module built so far.
    pub fn module(&self) -> &Module {
        &self.module
    }
    /// The module built so far, for setting its header fields (versions, dimensions, stage, plan).
    pub fn module_mut(&mut self) -> &mut Module {
        &mut self.module
    }
    /// Returns the finished module.
    pub fn finish(self) -> Module {
        self.module
    }
    /// Adds a body. Its parent is set when a node takes it as an attribute.
    pub fn graph(&mut self, name: &str) -> GraphId {
        self.module.graphs.push(GraphData { name: name.to_owned(), ..GraphData::default() })
    }
    /// Sets the name of a graph.
    pub fn name_graph(&mut self, graph: GraphId, name: &str) {
        name.clone_into(&mut self.module.graphs[graph].name);
    }
    /// Adds a formal input, optionally with a default.
    pub fn input(&mut self, graph: GraphId, name: &str, ty: ValueType, default: Option<ConstId>) -> Value {
        let position = self.module.graphs[graph].inputs.len() as u32;
        let definition = Definition::Input(graph, position);
        let value = self.module.push_value(ValueData { name: name.to_owned(), ty, definition, default });
        self.module.graphs[graph].inputs.push(value);
        value
    }
    /// Adds a constant without any reference to it.
    pub fn constant(&mut self, data: ConstData) -> ConstId {
        self.module.constants.push(data)
    }
    /// Adds an initializer: a value defined by a constant.
    pub fn initializer(&mut self, graph: GraphId, name: &str, constant: ConstId) -> Value {
        push_initializer(&mut self.module, graph, name, constant)
    }
    /// Appends a node with its results, given as name and type; `None` for an omitted result.
    pub fn node(&mut self, graph: GraphId, new: NewNode, results: &[Option<(String, ValueType)>]) -> Node {
        let node = push_node(&mut self.module, graph, new, results);
        self.module.graphs[graph].nodes.push(node);
        node
    }
    /// Appends a result to a graph.
    pub fn output(&mut self, graph: GraphId, value: Value) {
        self.module.graphs[graph].outputs.push(value);
    }
    /// Sets the type of a value.
    pub fn set_type(&mut self, value: Value, ty: ValueType) {
        self.module.set_type(value, ty);
    }
}

fn push_initializer(module: &mut Module, graph: GraphId, name: &str, constant: ConstId) -> Value {
    let ty = ValueType::Tensor(module.constants[constant].ty.clone());
    let definition = Definition::Constant(graph, constant);
    let value = module.push_value(ValueData { name: name.to_owned(), ty, definition, default: None });
    module.graphs[graph].constants.push(value);
    value
}

fn push_node(
    module: &mut Module,
    graph: GraphId,
    new: NewNode,
    results: &[Option<(String, ValueType)>],
) -> Node {
    let NewNode { operator, name, inputs, attributes, origin } = new;
    let bodies: Vec<GraphId> =
        attributes.iter().flat_map(|(_, value)| value.graphs().iter().copied()).collect();
    let data = NodeData {
        operator,
        name,
        inputs,
        outputs: Vec::new(),
        attributes,
        graph,
        origin,
        recompute_of: None,
    };
    let node = module.nodes.push(data);
    for body in bodies {
        module.graphs[body].parent = Some(node);
    }
    for (position, result) in results.iter().enumerate() {
        let value = result.as_ref().map(|(name, ty)| {
            let definition = Definition::Result(node, position as u32);
            module.push_value(ValueData { name: name.clone(), ty: ty.clone(), definition, default: None })
        });
        module.nodes[node].outputs.push(value);
    }
    node
}

impl Module {
    /// Sets the type of a value; inference refines types with it.
    pub fn set_type(&mut self, value: Value, ty: ValueType) {
        self.values[value].ty = ty;
        self.note_largest(value);
    }
    /// Adds a value.
    pub(crate) fn push_value(&mut self, data: ValueData) -> Value {
        let value = self.values.push(data);
        self.note_largest(value);
        value
    }
}

/// One use of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Operand `position` of a node, which may be a node of a body.
    Operand(Node, u32),
    /// Result `position` of a graph.
    Output(GraphId, u32),
}

/// Edits a module and keeps its use lists consistent.
///
/// Creation walks the module once. An edit costs time in proportion to the changed part;
/// [`Rewriter::insert`] also searches the node list of its graph. [`Rewriter::erase`] only marks nodes:
/// [`Rewriter::finish`] removes them from the node lists, once.
#[derive(Debug)]
pub struct Rewriter<'m> {
    module: &'m mut Module,
    uses: SecondaryMap<Value, Vec<Use>>,
    erased: SecondaryMap<Node, bool>,
    /// Names of all values; `None` until the first call of `fresh_name`.
    names: Option<HashSet<String>>,
    edits: u64,
}

impl<'m> Rewriter<'m> {
    /// Starts editing a module; collects all uses.
    pub fn new(module: &'m mut Module) -> Self {
        let uses = uses(module);
        Self { module, uses, erased: SecondaryMap::default(), names: None, edits: 0 }
    }
    /// The module as edited so far. Erased nodes stay in the node lists until [`Rewriter::finish`].
    pub fn module(&self) -> &Module {
        self.module
    }
    /// All uses of a value.
    pub fn uses(&self, value: Value) -> &[Use] {
        &self.uses[value]
    }
    /// Number of edits made so far.
    pub fn edits(&self) -> u64 {
        self.edits
    }
    /// Whether a node has been erased.
    pub fn is_erased(&self, node: Node) -> bool {
        self.erased[node]
    }
    /// Whether a value must keep its name and definition: it is a result of a graph, or a body reads
    /// it.
    ///
    /// The exporter writes bodies back byte for byte, so captured values keep their names.
    pub fn is_pinned(&self, value: Value) -> bool {
        let home = self.module.home(value);
        self.uses[value].iter().any(|site| match site {
            Use::Output(..) => true,
            Use::Operand(node, _) => Some(self.module.nodes[*node].graph) != home,
        })
    }
    /// Redirects every use of `old` to `new`.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        if old == new {
            return;
        }
        self.edits += 1;
        for site in std::mem::take(&mut self.uses[old]) {
            match site {
                Use::Operand(node, position) => self.module.nodes[node].inputs[position as usize] = Some(new),
                Use::Output(graph, position) => self.module.graphs[graph].outputs[position as usize] = new,
            }
            self.uses[new].push(site);
        }
    }
    /// Replaces one operand of a node.
    pub fn set_operand(&mut self, node: Node, position: u32, new: Value) {
        self.edits += 1;
        let site = Use::Operand(node, position);
        if let Some(old) = self.module.nodes[node].inputs[position as usize].replace(new) {
            self.uses[old].retain(|other| *other != site);
        }
        self.uses[new].push(site);
    }
    /// Replaces all operands of a node.
    pub fn set_operands(&mut self, node: Node, operands: Vec<Option<Value>>) {
        self.edits += 1;
        let old = std::mem::replace(&mut self.module.nodes[node].inputs, operands);
        for value in old.into_iter().flatten() {
            self.uses[value].retain(|site| !matches!(site, Use::Operand(reader, _) if *reader == node));
        }
        for (position, value) in self.module.nodes[node].inputs.iter().enumerate() {
            if let Some(value) = value {
                self.uses[*value].push(Use::Operand(node, position as u32));
            }
        }
    }
    /// Changes the operator, operands and attributes of a node without bodies. Its results keep their
    /// names and types.
    pub fn redefine(
        &mut self,
        node: Node,
        operator: Operator,
        operands: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
    ) {
        self.set_operands(node, operands);
        let data = &mut self.module.nodes[node];
        data.operator = operator;
        data.attributes = attributes;
    }
    /// Moves the value `result` to the node that computes `old`, in the place of `old`, and redirects
    /// every use of `old` to `result`. The node that computed `result` loses this result. In this way a
    /// pinned name can move up a chain of nodes.
    ///
    /// Returns whether the value moved. It does not if either value is not a node result, if both have
    /// one producer, if their producers are in different graphs, or if `old` is pinned.
    ///
    /// Readers of `result` stay valid: they come after its former producer, which comes after the
    /// producer of `old`.
    pub fn take_over(&mut self, old: Value, result: Value) -> bool {
        let (Definition::Result(node, position), Definition::Result(loser, slot)) =
            (self.module.values[old].definition, self.module.values[result].definition)
        else {
            return false;
        };
        if node == loser
            || self.module.nodes[node].graph != self.module.nodes[loser].graph
            || self.is_pinned(old)
        {
            return false;
        }
        self.module.nodes[loser].outputs[slot as usize] = None;
        self.module.nodes[node].outputs[position as usize] = Some(result);
        self.module.values[result].definition = Definition::Result(node, position);
        self.replace_uses(old, result);
        self.module.values[old].definition = Definition::Erased;
        true
    }
    /// Returns a name that no value of the module has or had: `hint`, or `hint_N` with a number `N`
    /// whose predecessor is taken.
    ///
    /// The first call collects the names of all values. Later calls double and bisect `N`, which takes
    /// `O(log N)` lookups.
    pub fn fresh_name(&mut self, hint: &str) -> String {
        let module = &*self.module;
        let names = self
            .names
            .get_or_insert_with(|| module.values.iter().map(|(_, value)| value.name.clone()).collect());
        let numbered = |number: u64| if number == 0 { hint.to_owned() } else { format!("{hint}_{number}") };
        let is_taken = |number: u64| names.contains(&numbered(number));
        let mut free = 0;
        while is_taken(free) {
            free = 2 * free + 1;
        }
        // Invariant: the name with number `taken` is in use, and the name with number `free` is not.
        let mut taken = free / 2;
        while free > 0 && taken + 1 < free {
            let middle = taken + (free - taken) / 2;
            if is_taken(middle) { taken = middle } else { free = middle }
        }
        let name = numbered(free);
        names.insert(name.clone());
        name
    }
    /// Erases a node and its bodies. Returns `false`, without a change, if the node is already erased
    /// or a result has uses.
    pub fn erase(&mut self, node: Node) -> bool {
        let results: Vec<Value> = self.module.nodes[node].results().collect();
        if self.erased[node] || results.iter().any(|value| !self.uses[*value].is_empty()) {
            return false;
        }
        self.edits += 1;
        self.forget(node);
        true
    }
    /// Moves the nodes and constants of a body in front of the node that holds it, and returns the results
    /// of the body. Names stay, so callers rename values that would hide others.
    ///
    /// The body is left empty, and its formal inputs keep their uses: replace them first. The node that
    /// holds it can be erased once its results have no uses.
    pub fn inline(&mut self, node: Node, body: GraphId) -> Vec<Value> {
        self.edits += 1;
        let graph = self.module.nodes[node].graph;
        let call = self.module.nodes[node].name.clone();
        let emptied = &mut self.module.graphs[body];
        let (nodes, constants) = (std::mem::take(&mut emptied.nodes), std::mem::take(&mut emptied.constants));
        let outputs = std::mem::take(&mut emptied.outputs);
        for value in &outputs {
            self.uses[*value].retain(|site| !matches!(site, Use::Output(of, _) if *of == body));
        }
        for inner in &nodes {
            let data = &mut self.module.nodes[*inner];
            (data.graph, data.origin) = (graph, Origin::Inlined { call: call.clone() });
        }
        for value in &constants {
            if let Definition::Constant(_, constant) = self.module.values[*value].definition {
                self.module.values[*value].definition = Definition::Constant(graph, constant);
            }
        }
        let into = &mut self.module.graphs[graph];
        into.constants.extend(constants);
        let at = into.nodes.iter().position(|other| *other == node).unwrap_or(into.nodes.len());
        into.nodes.splice(at..at, nodes);
        outputs
    }
    /// Moves all nodes, constants and results of a graph into a new body, which a node must then take as an
    /// attribute. The formal inputs of the graph stay, and the nodes read them from the body.
    pub fn enclose(&mut self, graph: GraphId, name: &str) -> GraphId {
        self.edits += 1;
        let emptied = &mut self.module.graphs[graph];
        let (nodes, constants) = (std::mem::take(&mut emptied.nodes), std::mem::take(&mut emptied.constants));
        let outputs = std::mem::take(&mut emptied.outputs);
        let body = GraphData { name: name.to_owned(), nodes, constants, outputs, ..GraphData::default() };
        let body = self.module.graphs.push(body);
        for node in self.module.graphs[body].nodes.clone() {
            self.module.nodes[node].graph = body;
        }
        for value in self.module.graphs[body].constants.clone() {
            if let Definition::Constant(_, constant) = self.module.values[value].definition {
                self.module.values[value].definition = Definition::Constant(body, constant);
            }
        }
        for value in self.module.graphs[body].outputs.clone() {
            for site in &mut self.uses[value] {
                if let Use::Output(of, position) = *site
                    && of == graph
                {
                    *site = Use::Output(body, position);
                }
            }
        }
        body
    }
    /// Gives a value another name.
    pub fn rename(&mut self, value: Value, name: String) {
        self.edits += 1;
        self.module.values[value].name = name;
    }
    /// Removes the uses of a node and of the nodes in its bodies, and marks their results as erased.
    fn forget(&mut self, node: Node) {
        let mut doomed = vec![node];
        while let Some(node) = doomed.pop() {
            self.erased[node] = true;
            let data = self.module.nodes[node].clone();
            for value in data.operands() {
                self.uses[value].retain(|site| !matches!(site, Use::Operand(reader, _) if *reader == node));
            }
            for value in data.results() {
                self.module.values[value].definition = Definition::Erased;
            }
            for (_, body) in data.bodies() {
                doomed.extend(self.module.graphs[body].nodes.iter().copied());
                for value in self.module.graphs[body].outputs.clone() {
                    self.uses[value].retain(|site| !matches!(site, Use::Output(graph, _) if *graph == body));
                }
            }
        }
    }
    /// Appends a formal input without a default to a graph; returns the new value.
    pub fn input(&mut self, graph: GraphId, name: &str, ty: ValueType) -> Value {
        self.edits += 1;
        let position = self.module.graphs[graph].inputs.len() as u32;
        let definition = Definition::Input(graph, position);
        let value =
            self.module.values.push(ValueData { name: name.to_owned(), ty, definition, default: None });
        self.module.graphs[graph].inputs.push(value);
        value
    }
    /// Appends a formal input with a default to a graph; returns the new value.
    pub fn input_with_default(&mut self, graph: GraphId, name: &str, data: ConstData) -> Value {
        let ty = ValueType::Tensor(data.ty.clone());
        let constant = self.module.constants.push(data);
        let value = self.input(graph, name, ty);
        self.module.values[value].default = Some(constant);
        value
    }
    /// Turns an initializer into a formal input of its graph, with the constant as its default. Its name and
    /// uses stay. Does nothing if the value is no initializer.
    pub fn make_input(&mut self, value: Value) {
        let Definition::Constant(graph, constant) = self.module.values[value].definition else { return };
        self.edits += 1;
        let data = &mut self.module.graphs[graph];
        data.constants.retain(|other| *other != value);
        let position = data.inputs.len() as u32;
        data.inputs.push(value);
        self.module.values[value].definition = Definition::Input(graph, position);
        self.module.values[value].default = Some(constant);
    }
    /// Turns a formal input with a default into an initializer. Its name and uses stay. Does nothing if the
    /// value is no input with a default.
    pub fn make_constant(&mut self, value: Value) {
        let Definition::Input(graph, _) = self.module.values[value].definition else { return };
        let Some(constant) = self.module.values[value].default.take() else { return };
        self.edits += 1;
        self.module.values[value].definition = Definition::Constant(graph, constant);
        self.module.graphs[graph].constants.push(value);
        self.remove_input(graph, value);
    }
    /// Removes a formal input without uses. Returns `false`, without a change, if the value is in use or is
    /// no input.
    pub fn drop_input(&mut self, value: Value) -> bool {
        let Definition::Input(graph, _) = self.module.values[value].definition else { return false };
        if !self.uses[value].is_empty() {
            return false;
        }
        self.edits += 1;
        self.module.values[value].definition = Definition::Erased;
        self.remove_input(graph, value);
        true
    }
    /// Takes a value out of the formal inputs of a graph and numbers the others.
    fn remove_input(&mut self, graph: GraphId, value: Value) {
        self.module.graphs[graph].inputs.retain(|other| *other != value);
        for (position, input) in (0u32..).zip(self.module.graphs[graph].inputs.clone()) {
            self.module.values[input].definition = Definition::Input(graph, position);
        }
    }
    /// Replaces all results of a graph.
    pub fn set_outputs(&mut self, graph: GraphId, outputs: Vec<Value>) {
        self.edits += 1;
        for value in std::mem::take(&mut self.module.graphs[graph].outputs) {
            self.uses[value].retain(|site| !matches!(site, Use::Output(of, _) if *of == graph));
        }
        for (position, value) in (0u32..).zip(&outputs) {
            self.uses[*value].push(Use::Output(graph, position));
        }
        self.module.graphs[graph].outputs = outputs;
    }
    /// Adds a constant and an initializer for it; returns the new value.
    pub fn initializer(&mut self, graph: GraphId, name: &str, data: ConstData) -> Value {
        self.edits += 1;
        let constant = self.module.constants.push(data);
        push_initializer(self.module, graph, name, constant)
    }
    /// Turns a node result into an initializer. Its name and uses stay. The node can be erased
    /// afterwards if none of its other results has uses.
    pub fn make_initializer(&mut self, value: Value, constant: ConstId) {
        let Definition::Result(node, position) = self.module.values[value].definition else { return };
        self.edits += 1;
        let graph = self.module.nodes[node].graph;
        self.module.nodes[node].outputs[position as usize] = None;
        self.module.values[value].definition = Definition::Constant(graph, constant);
        self.module.set_type(value, ValueType::Tensor(self.module.constants[constant].ty.clone()));
        self.module.graphs[graph].constants.push(value);
    }
    /// Moves a value to an omitted result position of another node. Its name and uses stay, and its
    /// former producer omits the result. Does nothing if the position is missing or occupied.
    pub fn move_result(&mut self, value: Value, node: Node, position: u32) {
        let Some(slot) =
            self.module.nodes[node].outputs.get_mut(position as usize).filter(|slot| slot.is_none())
        else {
            return;
        };
        *slot = Some(value);
        self.edits += 1;
        if let Definition::Result(old, at) = self.module.values[value].definition {
            self.module.nodes[old].outputs[at as usize] = None;
        }
        self.module.values[value].definition = Definition::Result(node, position);
    }
    /// Omits a node result. Returns `false`, without a change, if the result is missing, pinned or in
    /// use.
    pub fn leave_out(&mut self, node: Node, position: usize) -> bool {
        let Some(value) = self.module.nodes[node].outputs.get(position).copied().flatten() else {
            return false;
        };
        if self.is_pinned(value) || !self.uses[value].is_empty() {
            return false;
        }
        self.module.nodes[node].outputs[position] = None;
        self.module.values[value].definition = Definition::Erased;
        self.edits += 1;
        true
    }
    /// Adds a result, still without uses, at an omitted result position. Does nothing if the position
    /// is missing or occupied.
    pub fn add_result(&mut self, node: Node, position: u32, name: String, ty: ValueType) {
        if self.module.nodes[node].outputs.get(position as usize) != Some(&None) {
            return;
        }
        let definition = Definition::Result(node, position);
        let value = self.module.push_value(ValueData { name, ty, definition, default: None });
        self.module.nodes[node].outputs[position as usize] = Some(value);
        self.edits += 1;
    }
    /// Sets or removes the default of a formal input. Does nothing for other values.
    pub fn set_default(&mut self, value: Value, default: Option<ConstId>) {
        if matches!(self.module.values[value].definition, Definition::Input(..)) {
            self.edits += 1;
            self.module.values[value].default = default;
        }
    }
    /// Sets the version of a node's operator set.
    pub fn set_version(&mut self, node: Node, version: i64) {
        self.edits += 1;
        self.module.nodes[node].operator.version = version;
    }
    /// Sets the type of a value.
    pub fn set_type(&mut self, value: Value, ty: ValueType) {
        self.module.set_type(value, ty);
    }
    /// Appends omitted results to a node until it has `count` positions.
    pub fn extend_results(&mut self, node: Node, count: usize) {
        let outputs = &mut self.module.nodes[node].outputs;
        if outputs.len() < count {
            outputs.resize(count, None);
            self.edits += 1;
        }
    }
    /// Adds a constant without any reference to it.
    pub fn constant(&mut self, data: ConstData) -> ConstId {
        self.module.constants.push(data)
    }
    /// Inserts a node before `before`, or at the end of the graph if `before` is `None` or not in the
    /// graph.
    pub fn insert(
        &mut self,
        graph: GraphId,
        before: Option<Node>,
        new: NewNode,
        results: &[Option<(String, ValueType)>],
    ) -> Node {
        self.edits += 1;
        let node = push_node(self.module, graph, new, results);
        let list = &mut self.module.graphs[graph].nodes;
        let at =
            before.and_then(|anchor| list.iter().position(|other| *other == anchor)).unwrap_or(list.len());
        list.insert(at, node);
        for (position, operand) in self.module.nodes[node].inputs.clone().into_iter().enumerate() {
            if let Some(value) = operand {
                self.uses[value].push(Use::Operand(node, position as u32));
            }
        }
        node
    }
    /// Marks a node as a recomputed copy of `original`; `None` removes the mark.
    pub fn set_recompute_of(&mut self, node: Node, original: Option<Node>) {
        self.edits += 1;
        self.module.nodes[node].recompute_of = original;
    }
    /// Sets the order of a graph's nodes. `order` must be a permutation of them; the verifier checks
    /// that it is topological.
    pub fn set_schedule(&mut self, graph: GraphId, order: Vec<Node>) {
        if self.module.graphs[graph].nodes != order {
            self.edits += 1;
            self.module.graphs[graph].nodes = order;
        }
    }
    /// Removes initializers without uses; graph inputs stay. Returns the number of removed
    /// initializers.
    pub fn drop_unused_constants(&mut self) -> u64 {
        let mut dropped = 0;
        for graph in self.module.graphs.keys() {
            let (kept, unused): (Vec<Value>, Vec<Value>) =
                self.module.graphs[graph].constants.iter().partition(|value| !self.uses[**value].is_empty());
            dropped += unused.len() as u64;
            for value in unused {
                self.module.values[value].definition = Definition::Erased;
            }
            self.module.graphs[graph].constants = kept;
        }
        self.edits += dropped;
        dropped
    }
    /// Removes erased nodes from the node lists and returns the number of edits. If the original of
    /// recomputed copies is erased, the first copy in each graph becomes the original of the others.
    pub fn finish(mut self) -> u64 {
        for graph in self.module.graphs.keys() {
            let erased = &self.erased;
            self.module.graphs[graph].nodes.retain(|node| !erased[*node]);
            self.root_copies(graph);
        }
        self.edits
    }
    fn root_copies(&mut self, graph: GraphId) {
        let mut roots: BTreeMap<Node, Node> = BTreeMap::new();
        for node in self.module.graphs[graph].nodes.clone() {
            let Some(original) =
                self.module.nodes[node].recompute_of.filter(|original| self.erased[*original])
            else {
                continue;
            };
            let root = *roots.entry(original).or_insert(node);
            self.module.nodes[node].recompute_of = Some(root).filter(|root| *root != node);
        }
    }
}

/// Collects the uses of all values, in all graphs reachable from the main graph.
pub fn uses(module: &Module) -> SecondaryMap<Value, Vec<Use>> {
    let mut uses: SecondaryMap<Value, Vec<Use>> = SecondaryMap::default();
    let mut graphs = vec![module.main()];
    while let Some(graph) = graphs.pop() {
        for node in &module.graphs[graph].nodes {
            for (position, operand) in module.nodes[*node].inputs.iter().enumerate() {
                if let Some(value) = operand {
                    uses[*value].push(Use::Operand(*node, position as u32));
                }
            }
            graphs.extend(module.nodes[*node].bodies().map(|(_, body)| body));
        }
        for (position, value) in module.graphs[graph].outputs.iter().enumerate() {
            uses[*value].push(Use::Output(graph, position as u32));
        }
    }
    uses
}

/// Interns strings, so that each operator name is stored once.
#[derive(Debug, Default)]
pub struct Names {
    known: std::collections::BTreeSet<Arc<str>>,
}

impl Names {
    /// Returns the shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.known.get(text) {
            return found.clone();
        }
        let fresh: Arc<str> = Arc::from(text);
        self.known.insert(fresh.clone());
        fresh
    }
}
