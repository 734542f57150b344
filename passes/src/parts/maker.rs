//! Maker of the nodes and constants that parts need, in the name of one pass.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{
    Attribute, ConstData, ConstOrigin, Dim, DimExpr, ElementType, Module, NewNode, Node, Operator, Origin, Payload, Rewriter,
    TensorType, Value, ValueType,
};
use memc_ops::Stretch;

/// First version of the operator set in which the ranges of a slice are operands.
const RANGES: i64 = 10;

/// Extents computed so far, each as a vector with one element.
#[derive(Debug, Default)]
pub(super) struct Computed {
    pub(super) values: BTreeMap<DimExpr, Value>,
    pub(super) quotients: BTreeMap<(DimExpr, DimExpr), Value>,
    pub(super) vectors: BTreeMap<Vec<DimExpr>, Value>,
    pub(super) shapes: BTreeMap<Value, Value>,
    /// Nodes that compute them, in running order.
    pub(super) nodes: Vec<Node>,
}

impl Computed {
    /// Returns the nodes as a set.
    pub(super) fn nodes(&self) -> BTreeSet<Node> {
        self.nodes.iter().copied().collect()
    }
}

/// Maker of nodes in the main graph.
pub(crate) struct Maker<'m> {
    pub(crate) rewriter: Rewriter<'m>,
    /// Version of ONNX's operator set.
    pub(crate) version: i64,
    origin: Origin,
    /// Vectors of integers made so far.
    integers: BTreeMap<Vec<i64>, Value>,
    /// Extents computed at run time so far.
    pub(super) computed: Computed,
}

impl<'m> Maker<'m> {
    /// Starts making nodes with the pass of this name as their origin.
    pub(crate) fn new(module: &'m mut Module, pass: &'static str) -> Self {
        let version = module.opsets.get("").copied().unwrap_or_default();
        let origin = Origin::Pass { pass: Cow::Borrowed(pass) };
        Self { rewriter: Rewriter::new(module), version, origin, integers: BTreeMap::new(), computed: Computed::default() }
    }

    /// Moves computed extents before all other nodes and drops constants without readers; returns the
    /// number of edits.
    pub(crate) fn finish(mut self) -> u64 {
        let (main, computed) = (self.module().main(), self.computed.nodes());
        let others = self.module().graph(main).nodes.iter().filter(|node| !computed.contains(node));
        let order = self.extent_nodes().iter().chain(others).copied().collect();
        self.rewriter.set_schedule(main, order);
        self.rewriter.drop_unused_constants();
        self.rewriter.finish()
    }

    pub(crate) fn module(&self) -> &Module {
        self.rewriter.module()
    }

    /// Inserts a node right before `before`, or at the end.
    pub(crate) fn insert(
        &mut self,
        before: Option<Node>,
        operator: Operator,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
        results: &[Option<(String, ValueType)>],
    ) -> Node {
        let new = NewNode { operator, name: String::new(), inputs, attributes, origin: self.origin.clone() };
        let main = self.module().main();
        self.rewriter.insert(main, before, new, results)
    }

    /// Returns an operator of ONNX's own domain.
    pub(crate) fn onnx(&self, name: &str) -> Operator {
        Operator::onnx(name, self.version)
    }

    /// Inserts a node that cuts positions along an axis out of a value.
    pub(crate) fn slice(&mut self, before: Option<Node>, value: Value, axis: usize, positions: &Stretch, name: String) -> Node {
        let axis_expr = DimExpr::constant(axis as i64);
        let expr = |dim: &Dim| dim.expr().unwrap_or_else(|| DimExpr::constant(i64::MAX));
        let ranges = [("starts", expr(&positions.start)), ("ends", expr(&positions.end)), ("axes", axis_expr)];
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
                attributes.push((name.to_owned(), Attribute::Ints(vec![number.as_constant().unwrap_or(i64::MAX)])));
            } else {
                operands.push(Some(self.extent(&number)));
            }
        }
        self.insert(before, self.onnx("Slice"), operands, attributes, &[Some((name, ty))])
    }

    /// Inserts a node that joins values along an axis. Its result is left open, so that an existing
    /// value can be moved there.
    pub(crate) fn concat(&mut self, before: Option<Node>, values: Vec<Value>, axis: usize) -> Node {
        let attributes = vec![("axis".to_owned(), Attribute::Int(axis as i64))];
        self.insert(before, self.onnx("Concat"), values.into_iter().map(Some).collect(), attributes, &[None])
    }

    /// Returns a constant vector of integers; equal vectors share one constant.
    pub(crate) fn integers(&mut self, numbers: &[i64]) -> Value {
        if let Some(known) = self.integers.get(numbers) {
            return *known;
        }
        let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let made = self.initializer("extents", TensorType::fixed(ElementType::Int64, &[numbers.len() as u64]), raw);
        self.integers.insert(numbers.to_vec(), made);
        made
    }

    /// Makes a constant.
    pub(crate) fn initializer(&mut self, hint: &str, ty: TensorType, raw: Vec<u8>) -> Value {
        let (name, main) = (self.rewriter.fresh_name(hint), self.module().main());
        self.rewriter.initializer(main, &name, ConstData { ty, payload: Payload::Raw(raw.into()), origin: ConstOrigin::New })
    }
}
