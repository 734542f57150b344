//! Maker of nodes and constants in the main graph, in the name of one pass.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use memc_ir::{
    Attribute, ConstData, ConstOrigin, Dim, DimExpr, ElementType, GraphId, Module, NewNode, Node, Operator,
    Origin, Payload, Rewriter, TensorType, Value, ValueType,
};
use memc_ops::Stretch;

use crate::form::{Computed, ExtentForm};

/// First version of the operator set in which the ranges of a slice are operands.
const RANGES: i64 = 10;

/// Attributes of a node, by name.
pub type Attributes = Vec<(String, Attribute)>;

/// Returns a node without a name that a pass makes.
#[must_use]
pub fn node(
    pass: &'static str,
    operator: Operator,
    inputs: Vec<Option<Value>>,
    attributes: Attributes,
) -> NewNode {
    NewNode::new(operator, inputs, attributes, Origin::Pass { pass: Cow::Borrowed(pass) })
}

/// Returns whether a pass made a node.
#[must_use]
pub fn is_made_by(module: &Module, node: Node, pass: &str) -> bool {
    matches!(&module.node(node).origin, Origin::Pass { pass: own } if *own == pass)
}

/// Returns whether a pass made a node of the main graph. Linear in its nodes.
#[must_use]
pub fn has_made(module: &Module, pass: &str) -> bool {
    module.graph(module.main()).nodes.iter().any(|node| is_made_by(module, *node, pass))
}

/// Returns a new constant of these bytes: little-endian elements in row-major order.
#[must_use]
pub fn constant(ty: TensorType, raw: Vec<u8>) -> ConstData {
    ConstData { ty, payload: Payload::Raw(raw.into()), origin: ConstOrigin::New }
}

/// Returns attributes that consist of one integer.
#[must_use]
pub fn int(name: &str, number: i64) -> Attributes {
    vec![(name.to_owned(), Attribute::Int(number))]
}

/// Rewriter that also makes nodes and constants of the main graph. It dereferences to the plain rewriter for
/// all other edits.
#[derive(Debug)]
pub struct Maker<'m> {
    rewriter: Rewriter<'m>,
    /// Version of ONNX's operator set; 0 if the module has none.
    pub version: i64,
    pass: &'static str,
    /// Vectors of integers made so far.
    integers: BTreeMap<Vec<i64>, Value>,
    pub(crate) form: ExtentForm,
    /// Extents computed at run time so far.
    pub(crate) computed: Computed,
}

impl<'m> Deref for Maker<'m> {
    type Target = Rewriter<'m>;

    fn deref(&self) -> &Self::Target {
        &self.rewriter
    }
}

impl DerefMut for Maker<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.rewriter
    }
}

impl<'m> Maker<'m> {
    /// Starts making nodes with the pass of this name as their origin.
    pub fn new(module: &'m mut Module, pass: &'static str) -> Self {
        let version = module.opsets.get("").copied().unwrap_or_default();
        let (rewriter, integers) = (Rewriter::new(module), BTreeMap::new());
        Self { rewriter, version, pass, integers, form: ExtentForm::default(), computed: Computed::default() }
    }

    /// Sets the form in which extents are computed.
    #[must_use]
    pub fn with_extents(self, form: ExtentForm) -> Self {
        Self { form, ..self }
    }

    /// Moves computed extents before all other nodes, unless they have a place, and ends the rewriting;
    /// returns the number of edits.
    pub fn finish(mut self) -> u64 {
        let computed = self.computed.nodes();
        if !computed.is_empty() {
            let main = self.module().main();
            let others = self.module().graph(main).nodes.iter().filter(|node| !computed.contains(node));
            let order = self.extent_nodes().iter().chain(others).copied().collect();
            self.set_schedule(main, order);
        }
        self.rewriter.finish()
    }

    /// Returns a node of an operator.
    pub fn node(
        &self,
        operator: Operator,
        inputs: impl IntoIterator<Item: Into<Option<Value>>>,
        attributes: Attributes,
    ) -> NewNode {
        node(self.pass, operator, inputs.into_iter().map(Into::into).collect(), attributes)
    }

    /// Returns a node of an operator in ONNX's own domain.
    pub fn onnx(
        &self,
        operator: &str,
        inputs: impl IntoIterator<Item: Into<Option<Value>>>,
        attributes: Attributes,
    ) -> NewNode {
        self.node(Operator::onnx(operator, self.version), inputs, attributes)
    }

    /// Inserts a node of a body right before `before`, or at the end.
    pub fn insert_into(
        &mut self,
        body: GraphId,
        before: Option<Node>,
        new: NewNode,
        results: &[Option<(String, ValueType)>],
    ) -> Node {
        self.rewriter.insert(body, before, new, results)
    }

    /// Inserts a node right before `before`, or at the end.
    pub fn insert(
        &mut self,
        before: Option<Node>,
        new: NewNode,
        results: &[Option<(String, ValueType)>],
    ) -> Node {
        let main = self.module().main();
        self.rewriter.insert(main, before, new, results)
    }

    /// Inserts a node with one result; returns the result, which is named by a hint.
    pub fn compute(
        &mut self,
        before: Option<Node>,
        new: NewNode,
        hint: &str,
        ty: ValueType,
    ) -> Option<Value> {
        let name = self.fresh_name(hint);
        let made = self.insert(before, new, &[Some((name, ty))]);
        self.result(made)
    }

    /// Returns the operand of a node at a position.
    #[must_use]
    pub fn operand(&self, node: Node, position: usize) -> Option<Value> {
        self.module().node(node).inputs.get(position).copied().flatten()
    }

    /// Returns the first result of a node.
    #[must_use]
    pub fn result(&self, node: Node) -> Option<Value> {
        self.module().node(node).outputs.first().copied().flatten()
    }

    /// Returns the first result of a node, if no other result is read.
    #[must_use]
    pub fn only_result(&self, node: Node) -> Option<Value> {
        let (first, others) = self.module().node(node).outputs.split_first()?;
        others.iter().flatten().all(|value| self.uses(*value).is_empty()).then_some(*first)?
    }

    /// Returns a hint for a name: the name of a value and an ending.
    #[must_use]
    pub fn hint(&self, value: Value, ending: &str) -> String {
        format!("{}_{ending}", self.module().value(value).name)
    }

    /// Returns a fresh name: the name of a value with an ending.
    pub fn name_after(&mut self, value: Value, ending: &str) -> String {
        let hint = self.hint(value, ending);
        self.fresh_name(&hint)
    }

    /// Inserts a node that cuts positions along an axis out of a value.
    pub fn slice(
        &mut self,
        before: Option<Node>,
        value: Value,
        axis: usize,
        positions: &Stretch,
        name: String,
    ) -> Node {
        let axis_expr = DimExpr::constant(axis as i64);
        let expr = |dim: &Dim| dim.expr().unwrap_or_else(|| DimExpr::constant(i64::MAX));
        let ranges =
            [("starts", expr(&positions.start)), ("ends", expr(&positions.end)), ("axes", axis_expr)];
        let domain = self.module().domain().ranges.clone();
        let mut ty = self.module().ty(value).clone();
        if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty
            && let Some(extent) = dims.get_mut(axis)
        {
            *extent = positions.count().simplified(&domain);
        }
        let (mut operands, mut attributes) = (vec![Some(value)], Vec::new());
        for (name, number) in ranges {
            if self.version < RANGES {
                attributes
                    .push((name.to_owned(), Attribute::Ints(vec![number.as_constant().unwrap_or(i64::MAX)])));
            } else {
                operands.push(Some(self.extent(&number)));
            }
        }
        self.insert(before, self.onnx("Slice", operands, attributes), &[Some((name, ty))])
    }

    /// Inserts a node that joins values along an axis. Its result is left open, so that an existing
    /// value can be moved there.
    pub fn concat(&mut self, before: Option<Node>, values: Vec<Value>, axis: usize) -> Node {
        self.insert(before, self.onnx("Concat", values, int("axis", axis as i64)), &[None])
    }

    /// Returns a constant vector of integers; equal vectors share one constant.
    pub fn integers(&mut self, numbers: &[i64]) -> Value {
        if let Some(known) = self.integers.get(numbers) {
            return *known;
        }
        let made = self.integer_tensor("extents", &[numbers.len() as u64], numbers);
        self.integers.insert(numbers.to_vec(), made);
        made
    }

    /// Makes a constant of integers.
    pub fn integer_tensor(&mut self, hint: &str, dims: &[u64], numbers: &[i64]) -> Value {
        let raw = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensor(hint, TensorType::fixed(ElementType::Int64, dims), raw)
    }

    /// Makes a constant of these bytes.
    pub fn tensor(&mut self, hint: &str, ty: TensorType, raw: Vec<u8>) -> Value {
        self.add_constant(hint, constant(ty, raw))
    }

    /// Adds a constant under a fresh name.
    pub fn add_constant(&mut self, hint: &str, data: ConstData) -> Value {
        let (name, main) = (self.fresh_name(hint), self.module().main());
        self.initializer(main, &name, data)
    }
}
