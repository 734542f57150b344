//! What a shape function sees: the node, facts of its operands, its attributes, and the facts it states of its results.

use std::sync::Arc;

use memc_ir::{Attribute, ConstData, Dim, ElementType, GraphId, Module, NodeData, Shape, TensorType, ValueType};

use crate::fact::{Data, Fact, Item};

/// Why a shape function refuses a node. The driver adds which node it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferError {
    /// An operand that the operator requires is left out (the model's fault).
    #[error("operand {operand} is missing")]
    MissingOperand {
        /// Position.
        operand: usize,
    },
    /// An attribute that the operator requires is left out (the model's fault).
    #[error("attribute `{name}` is missing")]
    MissingAttribute {
        /// Name.
        name: &'static str,
    },
    /// An attribute has a value that the operator does not allow (the model's fault).
    #[error("attribute `{name}`: {why}")]
    BadAttribute {
        /// Name.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// An operand has a type or shape that the operator does not allow (the model's fault).
    #[error("operand {operand}: {why}")]
    BadOperand {
        /// Position.
        operand: usize,
        /// What is wrong.
        why: String,
    },
    /// Extents that must agree do not (the model's fault).
    #[error("{what}: {left} and {right} do not agree")]
    Mismatch {
        /// What is compared.
        what: &'static str,
        /// One extent or shape.
        left: String,
        /// The other.
        right: String,
    },
    /// Bodies nest deeper than memc follows.
    #[error("bodies nest deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

/// Derives facts of a body's results; the driver implements it.
pub trait Bodies {
    /// Facts of the results of `body` when its formal inputs have these facts (missing ones are unknown).
    ///
    /// # Errors
    /// The first error found in the body.
    fn infer_body(&mut self, body: GraphId, inputs: &[Fact]) -> Result<Vec<Fact>, InferError>;
}

/// One node under inference.
pub struct Infer<'a> {
    module: &'a Module,
    node: &'a NodeData,
    inputs: Vec<Option<Fact>>,
    outputs: Vec<Fact>,
    bodies: &'a mut dyn Bodies,
}

impl<'a> Infer<'a> {
    /// A node with the facts of its operands; all results start unknown.
    pub fn new(module: &'a Module, node: &'a NodeData, inputs: Vec<Option<Fact>>, bodies: &'a mut dyn Bodies) -> Self {
        let outputs = vec![Fact::default(); node.outputs.len()];
        Self { module, node, inputs, outputs, bodies }
    }
    /// Facts of the results, in order.
    pub fn finish(self) -> Vec<Fact> {
        self.outputs
    }
    /// The node.
    pub fn node(&self) -> &'a NodeData {
        self.node
    }
    /// Version of the operator set in force.
    pub fn version(&self) -> i64 {
        self.node.operator.version
    }

    // ---- operands

    /// How many operand positions there are, those left out included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }
    /// Whether operand `index` is there.
    pub fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }
    /// Facts of operand `index`, if it is there.
    pub fn fact(&self, index: usize) -> Option<&Fact> {
        self.inputs.get(index)?.as_ref()
    }
    /// Facts of operand `index`.
    ///
    /// # Errors
    /// [`InferError::MissingOperand`].
    pub fn required(&self, index: usize) -> Result<&Fact, InferError> {
        self.fact(index).ok_or(InferError::MissingOperand { operand: index })
    }
    /// Tensor type of operand `index`; `None` where it is missing or no dense tensor is known.
    pub fn tensor(&self, index: usize) -> Option<&TensorType> {
        self.fact(index)?.ty.tensor()
    }
    /// Element type of operand `index`, or [`ElementType::Undefined`].
    pub fn element(&self, index: usize) -> ElementType {
        self.tensor(index).map_or(ElementType::Undefined, |ty| ty.element)
    }
    /// Extents of operand `index`, where its rank is known.
    pub fn dims(&self, index: usize) -> Option<&[Dim]> {
        self.tensor(index)?.shape.as_deref()
    }
    /// Shape of operand `index` (`None` inside: rank unknown).
    pub fn shape(&self, index: usize) -> Shape {
        self.dims(index).map(<[Dim]>::to_vec)
    }
    /// Rank of operand `index`, where known.
    pub fn rank(&self, index: usize) -> Option<usize> {
        self.dims(index).map(<[Dim]>::len)
    }
    /// Elements of operand `index`, where they are followed.
    pub fn data(&self, index: usize) -> Option<&Data> {
        self.fact(index)?.data.as_deref()
    }
    /// Elements of operand `index` as integers, where all are known.
    pub fn int_data(&self, index: usize) -> Option<Vec<i64>> {
        self.data(index)?.known_ints()
    }
    /// Elements of operand `index` as dimensions (for a shape operand); `None` where even their count is unknown.
    pub fn dim_data(&self, index: usize) -> Option<Vec<Dim>> {
        if let Some(data) = self.data(index) {
            return Some(data.items.iter().map(Item::dim).collect());
        }
        // Only the length is known: that many unknown extents, if it is a sane rank.
        match self.dims(index)? {
            [Dim::Known(count)] if *count <= 64 => Some(vec![Dim::Unknown; *count as usize]),
            _ => None,
        }
    }
    /// A one-element integer operand (scalar or vector of one), where known.
    pub fn int_scalar(&self, index: usize) -> Option<i64> {
        match self.data(index)?.items.as_slice() {
            [item] => item.int(),
            _ => None,
        }
    }
    /// A one-element integer operand as an extent.
    pub fn dim_scalar(&self, index: usize) -> Dim {
        match self.data(index).map(|data| data.items.as_slice()) {
            Some([item]) => item.dim(),
            _ => Dim::Unknown,
        }
    }

    // ---- attributes

    /// An integer attribute, or its default.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.node.int(name, default)
    }
    /// An integer attribute that is there.
    pub fn int_attribute(&self, name: &str) -> Option<i64> {
        match self.node.attribute(name) {
            Some(Attribute::Int(value)) => Some(*value),
            _ => None,
        }
    }
    /// A number attribute, or its default.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        self.node.float(name, default)
    }
    /// A list of integers, if it is there.
    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.node.ints(name)
    }
    /// A string attribute, if it is there.
    pub fn string(&self, name: &str) -> Option<&'a str> {
        self.node.string(name)
    }
    /// A tensor attribute, if it is there.
    pub fn tensor_attribute(&self, name: &str) -> Option<&'a ConstData> {
        match self.node.attribute(name) {
            Some(Attribute::Tensor(constant)) => Some(self.module.constant(*constant)),
            _ => None,
        }
    }
    /// A body, if it is there.
    pub fn body(&self, name: &str) -> Option<GraphId> {
        match self.node.attribute(name) {
            Some(Attribute::Graph(graph)) => Some(*graph),
            _ => None,
        }
    }
    /// Number of formal inputs and of results of a body.
    pub fn body_arity(&self, body: GraphId) -> (usize, usize) {
        let graph = self.module.graph(body);
        (graph.inputs.len(), graph.outputs.len())
    }
    /// Type that a body states of a formal input; unknown where there is no such input.
    pub fn body_input(&self, body: GraphId, position: usize) -> &'a ValueType {
        let input = self.module.graph(body).inputs.get(position);
        input.map_or(&ValueType::Unknown, |value| self.module.ty(*value))
    }
    /// Facts of a body's results when its formal inputs have these facts.
    ///
    /// # Errors
    /// The first error found in the body.
    pub fn infer_body(&mut self, body: GraphId, inputs: &[Fact]) -> Result<Vec<Fact>, InferError> {
        self.bodies.infer_body(body, inputs)
    }

    // ---- results

    /// How many result positions there are.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }
    /// Whether result `index` is asked for.
    pub fn wants(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(Option::is_some)
    }
    /// States the facts of result `index`; ignored where the node has fewer results.
    pub fn set(&mut self, index: usize, fact: Fact) {
        if let Some(output) = self.outputs.get_mut(index) {
            *output = fact;
        }
    }
    /// States that result `index` is a tensor.
    pub fn set_tensor(&mut self, index: usize, element: ElementType, shape: Shape) {
        self.set(index, Fact::tensor(TensorType { element, shape }));
    }
    /// States that result `index` is a tensor of known rank.
    pub fn set_dims(&mut self, index: usize, element: ElementType, dims: Vec<Dim>) {
        self.set_tensor(index, element, Some(dims));
    }
    /// States that result `index` has type and shape of operand `input`.
    pub fn set_like(&mut self, index: usize, input: usize) {
        let ty = self.fact(input).map_or(ValueType::Unknown, |fact| fact.ty.clone());
        self.set(index, Fact::of(ty));
    }
    /// States the elements of result `index`, together with its type and shape.
    pub fn set_data(&mut self, index: usize, data: Data) {
        self.set(index, Fact::with_data(data));
    }
    /// States the elements of result `index` whose type and shape were already stated; dropped where they do not fit.
    pub fn set_items(&mut self, index: usize, items: Vec<Item>) {
        let Some(output) = self.outputs.get_mut(index) else { return };
        let Some(ty) = output.ty.tensor() else { return };
        let data = ty.known_dims().and_then(|dims| Data::new(ty.element, dims, items));
        output.data = data.map(Arc::new);
    }

    // ---- axes

    /// Turns an axis that may be negative into a position below `rank`.
    ///
    /// # Errors
    /// [`InferError::BadAttribute`] where it is out of range.
    pub fn axis(&self, name: &'static str, axis: i64, rank: usize) -> Result<usize, InferError> {
        normalize_axis(axis, rank)
            .ok_or_else(|| InferError::BadAttribute { name, why: format!("{axis} is out of range for rank {rank}") })
    }
}

/// Turns an axis that may be negative into a position below `rank`.
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank_signed)? } else { axis };
    (0..rank_signed).contains(&axis).then_some(axis as usize)
}

/// Shape of a multidirectional broadcast of two shapes.
///
/// # Errors
/// [`InferError::Mismatch`] where two known extents differ and neither is 1.
pub fn broadcast(left: &[Dim], right: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let rank = left.len().max(right.len());
    let one = Dim::Known(1);
    let at = |dims: &[Dim], axis: usize| {
        let missing = rank - dims.len();
        if axis < missing { one.clone() } else { dims[axis - missing].clone() }
    };
    (0..rank)
        .map(|axis| {
            let (a, b) = (at(left, axis), at(right, axis));
            match (&a, &b) {
                _ if a.same(&b) => Ok(a),
                (Dim::Known(1), _) => Ok(b),
                (_, Dim::Known(1)) => Ok(a),
                (Dim::Known(_), Dim::Known(_)) => {
                    Err(InferError::Mismatch { what: "broadcast", left: a.to_string(), right: b.to_string() })
                }
                // An unknown extent against one that is not 1: the result has the known extent, or the model is wrong.
                (Dim::Known(_), _) => Ok(a),
                (_, Dim::Known(_)) => Ok(b),
                (Dim::AtMost(a), Dim::AtMost(b)) => Ok(Dim::AtMost(*a.max(b))),
                _ => Ok(Dim::Unknown),
            }
        })
        .collect()
}
