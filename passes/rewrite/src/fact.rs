//! Facts about an e-class: types, elements of small tensors, and whether it depends on constants alone.

use std::sync::Arc;

use egg::{Analysis, DidMerge, EGraph, Id};
use memc_ir::{
    ConstData, Dim, ElementType, EntityId as _, GraphId, Module, NodeData, Origin, TensorType, Value,
    ValueType,
};
use memc_ops::{Bodies, Data, Fact, Infer, InferError, lookup};

use crate::term::{Head, Names, Term};

/// The e-graph of one fragment.
pub(crate) type Graph<'m> = EGraph<Term, Knowledge<'m>>;

/// Restores the invariants of an e-graph after additions and unions.
///
/// egg measures the time of this for its log. Its clock calibrates itself for 0.07 to 0.2 s at the first
/// reading, so egg gets a clock that stands still.
pub(crate) fn rebuild(graph: &mut Graph<'_>) {
    quanta::with_clock(&quanta::Clock::mock().0, || graph.rebuild());
}

/// Origin of a leaf.
#[derive(Clone, Debug)]
pub(crate) enum LeafKind {
    /// Input of the fragment, by number.
    Input(u32),
    /// Constant of the fragment, by number.
    Constant(u32),
    /// A small constant that a rule made.
    Made(ConstData),
}

/// A leaf of the e-graph: a value without a node in the fragment.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) kind: LeafKind,
    pub(crate) fact: Fact,
    /// Whether both halves of its last axis are equal.
    pub(crate) repeats: bool,
    /// Whether a node before the fragment made it of zeros alone.
    pub(crate) zeros: bool,
}

/// Tables that terms refer to, and the module that shape functions of operators may read.
#[derive(Debug)]
pub(crate) struct Knowledge<'m> {
    pub(crate) module: &'m Module,
    pub(crate) names: Names,
    pub(crate) leaves: Vec<Leaf>,
}

/// Facts about a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    /// One fact for a value; one per result for an application with several results; none for an operand
    /// that is left out.
    pub(crate) values: Vec<Fact>,
    /// Whether the class depends on constants alone.
    pub(crate) is_constant: bool,
}

impl Facts {
    /// Returns the type of a value.
    pub(crate) fn ty(&self) -> Option<&ValueType> {
        self.values.first().map(|fact| &fact.ty)
    }
    /// Returns the tensor type of a value.
    pub(crate) fn tensor(&self) -> Option<&TensorType> {
        self.ty()?.tensor()
    }
    /// Returns the elements of a value, if known.
    pub(crate) fn data(&self) -> Option<&Data> {
        self.values.first()?.data.as_deref()
    }
}

impl Knowledge<'_> {
    /// Infers the facts of an application.
    fn infer(&self, term: &Term, child: impl Fn(Id) -> Facts) -> Facts {
        let Head::Apply { operator, attributes, results } = term.head else {
            return Facts { values: Vec::new(), is_constant: false };
        };
        let children: Vec<Facts> = term.children.iter().map(|id| child(*id)).collect();
        let operator = self.names.operator_at(operator);
        let inputs: Vec<Option<Fact>> = children.iter().map(|facts| facts.values.first().cloned()).collect();
        // Shape functions only check whether operands and results exist, never their ids.
        let present = |there: bool| there.then(|| Value::new(0));
        let node = NodeData {
            operator: operator.clone(),
            name: String::new(),
            inputs: inputs.iter().map(|fact| present(fact.is_some())).collect(),
            outputs: vec![present(true); results as usize],
            attributes: self.names.attributes_at(attributes).clone(),
            graph: self.module.main(),
            origin: Origin::Text,
            recompute_of: None,
        };
        let is_constant =
            !children.is_empty() && children.iter().all(|facts| facts.values.is_empty() || facts.is_constant);
        let unknown = || vec![Fact::default(); results as usize];
        let values = match lookup(operator) {
            None => unknown(),
            Some(info) => {
                let mut bodies = NoBodies;
                let mut ctx = Infer::new(self.module, &node, inputs, &mut bodies);
                match (info.infer)(&mut ctx) {
                    Ok(()) => {
                        let ranges = &self.module.domain().ranges;
                        ctx.finish().into_iter().map(|fact| fact.simplified(ranges)).collect()
                    }
                    Err(_) => unknown(),
                }
            }
        };
        Facts { values, is_constant }
    }
}

/// Stands in for bodies, which nodes of a fragment never have.
struct NoBodies;

impl Bodies for NoBodies {
    fn infer_body(&mut self, _: GraphId, _: &[Fact]) -> Result<Vec<Fact>, InferError> {
        Err(InferError::TooDeep { limit: 0 })
    }
    fn infer_unreached(&mut self, _: GraphId) {}
}

impl Analysis<Term> for Knowledge<'_> {
    type Data = Facts;

    fn make(graph: &mut Graph<'_>, term: &Term, _: Id) -> Facts {
        match term.head {
            Head::Leaf(number) => {
                let leaf = &graph.analysis.leaves[number as usize];
                let is_constant = !matches!(leaf.kind, LeafKind::Input(_));
                Facts { values: vec![leaf.fact.clone()], is_constant }
            }
            Head::Absent => Facts { values: Vec::new(), is_constant: false },
            Head::Result(position) => {
                let whole = term.children.first().map(|id| graph[*id].data.clone());
                let is_constant = whole.as_ref().is_some_and(|facts| facts.is_constant);
                let value =
                    whole.and_then(|facts| facts.values.get(position as usize).cloned()).unwrap_or_default();
                Facts { values: vec![value], is_constant }
            }
            Head::Apply { .. } => graph.analysis.infer(term, |id| graph[id].data.clone()),
        }
    }

    fn merge(&mut self, into: &mut Facts, from: Facts) -> DidMerge {
        let before = into.clone();
        into.is_constant |= from.is_constant;
        for (known, other) in into.values.iter_mut().zip(&from.values) {
            *known = join(known, other);
        }
        DidMerge(*into != before, *into != from)
    }
}

/// Combines two facts about one value into the more precise one.
fn join(left: &Fact, right: &Fact) -> Fact {
    let ty = match (&left.ty, &right.ty) {
        (ValueType::Unknown, other) => other.clone(),
        (ValueType::Tensor(a), ValueType::Tensor(b)) => ValueType::Tensor(join_tensors(a, b)),
        (ty, _) => ty.clone(),
    };
    Fact {
        ty,
        data: left.data.clone().or_else(|| right.data.clone()),
        assumed: left.assumed || right.assumed,
    }
}

fn join_tensors(left: &TensorType, right: &TensorType) -> TensorType {
    let element = if left.element == ElementType::Undefined { right.element } else { left.element };
    let shape = match (&left.shape, &right.shape) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            Some(a.iter().zip(b).map(|(a, b)| stronger(a, b)).collect())
        }
        (None, shape) => shape.clone(),
        (shape, _) => shape.clone(),
    };
    TensorType { element, shape }
}

fn stronger(left: &Dim, right: &Dim) -> Dim {
    match (left, right) {
        (Dim::AtMost(a), Dim::AtMost(b)) => Dim::AtMost(*a.min(b)),
        (Dim::AtMost(_), Dim::Within(_)) | (Dim::AtMost(_) | Dim::Within(_), Dim::Unknown) => left.clone(),
        (Dim::Within(_), Dim::Within(_)) => left.clone(),
        (Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown, other)
        | (Dim::Symbolic(_), other @ Dim::Known(_)) => other.clone(),
        (dim, _) => dim.clone(),
    }
}

/// Returns whether a value of type `new` may replace one of type `old`: equal element types, and no
/// contradicting extent.
pub(crate) fn agrees(new: &Facts, old: &Facts) -> bool {
    let (Some(new), Some(old)) = (new.tensor(), old.tensor()) else { return false };
    let dims = |a: &Dim, b: &Dim| a.same(b) || a.is_open() || b.is_open();
    let shapes = match (&new.shape, &old.shape) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| dims(a, b)),
        _ => true,
    };
    new.element == old.element && new.element != ElementType::Undefined && shapes
}

/// Maximum number of elements that rules see, unless all elements are equal.
const MAX_SHOWN: usize = 64;

/// Returns the elements of a constant as far as rules may see them. Fragments are not distinguished by
/// other elements.
pub(crate) fn shown(constant: &ConstData) -> Option<Arc<Data>> {
    let data = Data::from_constant(constant)?;
    let splat = || data.items.first().is_some_and(|first| data.items.iter().all(|item| item == first));
    (data.items.len() <= MAX_SHOWN || splat()).then(|| Arc::new(data))
}
