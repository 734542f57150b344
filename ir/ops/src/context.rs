//! The context of a shape function: the node, the facts of its operands, its attributes, and the facts
//! it states about its results.

use std::sync::Arc;

use memc_ir::{
    Attribute, ConstData, Dim, DimExpr, ElementType, GraphId, Module, NodeData, Ranges, Shape, TensorType,
    ValueType,
};

use crate::fact::{Data, Fact, Item};

/// The reason why a shape function rejects a node. The driver adds the name of the node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferError {
    /// A required operand is missing (an error of the model).
    #[error("operand {operand} is missing")]
    MissingOperand {
        /// Position of the operand.
        operand: usize,
    },
    /// A required attribute is missing (an error of the model).
    #[error("attribute `{name}` is missing")]
    MissingAttribute {
        /// Name of the attribute.
        name: &'static str,
    },
    /// An attribute has a value that the operator does not allow (an error of the model).
    #[error("attribute `{name}`: {why}")]
    BadAttribute {
        /// Name of the attribute.
        name: &'static str,
        /// Description of the error.
        why: String,
    },
    /// An operand has a type or shape that the operator does not allow (an error of the model).
    #[error("operand {operand}: {why}")]
    BadOperand {
        /// Position of the operand.
        operand: usize,
        /// Description of the error.
        why: String,
    },
    /// Two extents that must agree do not agree (an error of the model).
    #[error("{what}: {left} and {right} do not agree")]
    Mismatch {
        /// Name of the compared quantity.
        what: &'static str,
        /// The first extent or shape.
        left: String,
        /// The second extent or shape.
        right: String,
    },
    /// Bodies nest more deeply than inference follows.
    #[error("bodies nest deeper than {limit} levels")]
    TooDeep {
        /// The maximum depth.
        limit: usize,
    },
}

/// Derives the facts of a body's results; implemented by the driver.
pub trait Bodies {
    /// Returns the facts of the results of `body` for the given facts of its formal inputs. Facts
    /// missing from `inputs` are unknown.
    ///
    /// # Errors
    /// Returns the first error in the body.
    fn infer_body(&mut self, body: GraphId, inputs: &[Fact]) -> Result<Vec<Fact>, InferError>;
    /// Infers a body that never runs: its nodes may be wrong, so none of them is reported.
    fn infer_unreached(&mut self, body: GraphId);
    /// Returns the facts of the results of two bodies, of which a condition chooses one. If some node of
    /// only one body does not fit its operands, a run that ends takes the other: the facts of the first are
    /// then left out, and its nodes are not reported.
    ///
    /// # Errors
    /// Returns the first error in the bodies.
    fn infer_either(&mut self, bodies: [GraphId; 2]) -> Result<[Option<Vec<Fact>>; 2], InferError> {
        let [first, second] = bodies.map(|body| self.infer_body(body, &[]));
        Ok([Some(first?), Some(second?)])
    }
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
    /// Creates the context of a node from the facts of its operands. All results start out unknown.
    pub fn new(
        module: &'a Module,
        node: &'a NodeData,
        inputs: Vec<Option<Fact>>,
        bodies: &'a mut dyn Bodies,
    ) -> Self {
        let outputs = vec![Fact::default(); node.outputs.len()];
        Self { module, node, inputs, outputs, bodies }
    }
    /// Returns the facts of the results, in order.
    pub fn finish(self) -> Vec<Fact> {
        self.outputs
    }
    /// Returns the node.
    pub fn node(&self) -> &'a NodeData {
        self.node
    }
    /// Returns the ranges of the module's symbols.
    pub fn ranges(&self) -> &'a Ranges {
        &self.module.domain().ranges
    }
    /// Returns the version of the node's operator set.
    pub fn version(&self) -> i64 {
        self.node.operator.version
    }

    // ---- operands

    /// Returns the number of operand positions, including omitted operands.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }
    /// Whether operand `index` is present.
    pub fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }
    /// Returns the facts of operand `index`, or `None` if the operand is omitted.
    pub fn fact(&self, index: usize) -> Option<&Fact> {
        self.inputs.get(index)?.as_ref()
    }
    /// Returns the facts of operand `index`.
    ///
    /// # Errors
    /// Returns [`InferError::MissingOperand`] if the operand is omitted.
    pub fn required(&self, index: usize) -> Result<&Fact, InferError> {
        self.fact(index).ok_or(InferError::MissingOperand { operand: index })
    }
    /// Returns the tensor type of operand `index`; `None` if the operand is omitted or not known to be a
    /// dense tensor.
    pub fn tensor(&self, index: usize) -> Option<&TensorType> {
        self.fact(index)?.ty.tensor()
    }
    /// Returns the element type of operand `index`, or [`ElementType::Undefined`] if it is unknown.
    pub fn element(&self, index: usize) -> ElementType {
        self.tensor(index).map_or(ElementType::Undefined, |ty| ty.element)
    }
    /// Returns the extents of operand `index`, or `None` if its rank is unknown.
    pub fn dims(&self, index: usize) -> Option<&[Dim]> {
        self.tensor(index)?.shape.as_deref()
    }
    /// Returns the shape of operand `index`; `None` means an unknown rank.
    pub fn shape(&self, index: usize) -> Shape {
        self.dims(index).map(<[Dim]>::to_vec)
    }
    /// Returns the rank of operand `index`, or `None` if it is unknown.
    pub fn rank(&self, index: usize) -> Option<usize> {
        self.dims(index).map(<[Dim]>::len)
    }
    /// Returns the elements of operand `index`, or `None` if inference does not follow them.
    pub fn data(&self, index: usize) -> Option<&Data> {
        self.fact(index)?.data.as_deref()
    }
    /// Returns the elements of operand `index` as integers, or `None` unless all of them are known.
    pub fn int_data(&self, index: usize) -> Option<Vec<i64>> {
        self.data(index)?.known_ints()
    }
    /// Returns the elements of operand `index`, a shape operand, as dimensions; `None` if even their
    /// number is unknown.
    pub fn dim_data(&self, index: usize) -> Option<Vec<Dim>> {
        if let Some(data) = self.data(index) {
            return Some(data.items.iter().map(Item::dim).collect());
        }
        // Only the number of elements is known: return unknown extents if that number is a plausible
        // rank.
        match self.dims(index)? {
            [Dim::Known(count)] if *count <= 64 => Some(vec![Dim::Unknown; *count as usize]),
            _ => None,
        }
    }
    /// Returns the only element of an integer operand (a scalar or a vector of length 1), or `None` if
    /// it is unknown.
    pub fn int_scalar(&self, index: usize) -> Option<i64> {
        match self.data(index)?.items.as_slice() {
            [item] => item.int(),
            _ => None,
        }
    }
    /// Returns the only element of an integer operand as an extent.
    pub fn dim_scalar(&self, index: usize) -> Dim {
        match self.data(index).map(|data| data.items.as_slice()) {
            Some([item]) => item.dim(),
            _ => Dim::Unknown,
        }
    }

    // ---- attributes

    /// Returns an integer attribute, or `default` if it is absent.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.node.int(name, default)
    }
    /// Returns an integer attribute, or `None` if it is absent.
    pub fn int_attribute(&self, name: &str) -> Option<i64> {
        match self.node.attribute(name) {
            Some(Attribute::Int(value)) => Some(*value),
            _ => None,
        }
    }
    /// Returns a float attribute, or `default` if it is absent.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        self.node.float(name, default)
    }
    /// Returns an attribute that is a list of integers, or `None` if it is absent.
    pub fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.node.ints(name)
    }
    /// Returns a string attribute, or `None` if it is absent.
    pub fn string(&self, name: &str) -> Option<&'a str> {
        self.node.string(name)
    }
    /// Returns a tensor attribute, or `None` if it is absent.
    pub fn tensor_attribute(&self, name: &str) -> Option<&'a ConstData> {
        match self.node.attribute(name) {
            Some(Attribute::Tensor(constant)) => Some(self.module.constant(*constant)),
            _ => None,
        }
    }
    /// Returns a body (graph attribute), or `None` if it is absent.
    pub fn body(&self, name: &str) -> Option<GraphId> {
        match self.node.attribute(name) {
            Some(Attribute::Graph(graph)) => Some(*graph),
            _ => None,
        }
    }
    /// Returns the numbers of formal inputs and of results of a body.
    pub fn body_arity(&self, body: GraphId) -> (usize, usize) {
        let graph = self.module.graph(body);
        (graph.inputs.len(), graph.outputs.len())
    }
    /// Returns the type that a body states for the formal input at `position`; unknown if the body has
    /// no input at that position.
    pub fn body_input(&self, body: GraphId, position: usize) -> &'a ValueType {
        let input = self.module.graph(body).inputs.get(position);
        input.map_or(&ValueType::Unknown, |value| self.module.ty(*value))
    }
    /// Returns the facts of a body's results for the given facts of its formal inputs.
    ///
    /// # Errors
    /// Returns the first error in the body.
    pub fn infer_body(&mut self, body: GraphId, inputs: &[Fact]) -> Result<Vec<Fact>, InferError> {
        self.bodies.infer_body(body, inputs)
    }
    /// Returns the facts of the results of two bodies, of which a condition chooses one; see
    /// [`Bodies::infer_either`].
    ///
    /// # Errors
    /// Returns the first error in the bodies.
    pub fn infer_either(&mut self, bodies: [GraphId; 2]) -> Result<[Option<Vec<Fact>>; 2], InferError> {
        self.bodies.infer_either(bodies)
    }
    /// Infers a body that never runs, without reporting its nodes.
    pub fn infer_unreached(&mut self, body: GraphId) {
        self.bodies.infer_unreached(body);
    }

    // ---- results

    /// Returns the number of result positions.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }
    /// Whether result `index` is requested.
    pub fn wants(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(Option::is_some)
    }
    /// States the facts of result `index`. Has no effect if the node has fewer results.
    pub fn set(&mut self, index: usize, fact: Fact) {
        if let Some(output) = self.outputs.get_mut(index) {
            *output = fact;
        }
    }
    /// States that result `index` is a tensor with this element type and shape.
    pub fn set_tensor(&mut self, index: usize, element: ElementType, shape: Shape) {
        self.set(index, Fact::tensor(TensorType { element, shape }));
    }
    /// States that result `index` is a tensor with this element type and these extents.
    pub fn set_dims(&mut self, index: usize, element: ElementType, dims: Vec<Dim>) {
        self.set_tensor(index, element, Some(dims));
    }
    /// States that result `index` has the type and shape of operand `input`.
    pub fn set_like(&mut self, index: usize, input: usize) {
        let ty = self.fact(input).map_or(ValueType::Unknown, |fact| fact.ty.clone());
        self.set(index, Fact::of(ty));
    }
    /// States the elements of result `index`, which imply its type and shape.
    pub fn set_data(&mut self, index: usize, data: Data) {
        self.set(index, Fact::with_data(data));
    }
    /// States the elements of result `index` after its type and shape. Drops the elements if they do not
    /// fit the shape.
    pub fn set_items(&mut self, index: usize, items: Vec<Item>) {
        let Some(output) = self.outputs.get_mut(index) else { return };
        let Some(ty) = output.ty.tensor() else { return };
        let data = ty.known_dims().and_then(|dims| Data::new(ty.element, dims, items));
        output.data = data.map(Arc::new);
    }

    // ---- axes

    /// Converts an axis that may be negative to a position below `rank`.
    ///
    /// # Errors
    /// Returns [`InferError::BadAttribute`] if the axis is out of range.
    pub fn axis(&self, name: &'static str, axis: i64, rank: usize) -> Result<usize, InferError> {
        normalize_axis(axis, rank).ok_or_else(|| InferError::BadAttribute {
            name,
            why: format!("{axis} is out of range for rank {rank}"),
        })
    }
}

/// Converts an axis that may be negative to a position below `rank`; `None` if it is out of range.
pub fn normalize_axis(axis: i64, rank: usize) -> Option<usize> {
    let rank_signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank_signed)? } else { axis };
    (0..rank_signed).contains(&axis).then_some(axis as usize)
}

/// Returns the extent of the broadcast of two extents of which neither is known: they are equal, or one
/// of them is 1. So the result is the larger one, or 0 if one is 0.
fn either(left: &Dim, right: &Dim) -> Dim {
    let Some((a, b)) = left.upper_expr().zip(right.upper_expr()) else { return Dim::Unknown };
    let larger = DimExpr::max_of(vec![a.clone(), b.clone()]);
    if left.is_open() || right.is_open() {
        return Dim::within(larger);
    }
    // An extent that is never smaller, and is 0 only if the other one is, is the result.
    let (none, one) = (Ranges::new(), DimExpr::constant(1));
    for (a, b) in [(&a, &b), (&b, &a)] {
        let occupied = DimExpr::min_of(vec![a.clone(), one.clone()]);
        if a.at_least(b, &none) && occupied.is_some_and(|occupied| b.at_least(&occupied, &none)) {
            return Dim::from_expr(a.clone());
        }
    }
    let occupied = DimExpr::min_of(vec![a, b, one]);
    larger
        .zip(occupied)
        .and_then(|(larger, occupied)| larger.mul(&occupied))
        .map_or(Dim::Unknown, Dim::from_expr)
}

/// Returns the shape of the multidirectional broadcast of two shapes.
///
/// # Errors
/// Returns [`InferError::Mismatch`] if two known extents differ and neither is 1.
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
                // An unknown extent against a known extent other than 1: the result has the known
                // extent, or the model is wrong.
                (Dim::Known(_), _) => Ok(a),
                (_, Dim::Known(_)) => Ok(b),
                (Dim::AtMost(a), Dim::AtMost(b)) => Ok(Dim::AtMost(*a.max(b))),
                _ => Ok(either(&a, &b)),
            }
        })
        .collect()
}
