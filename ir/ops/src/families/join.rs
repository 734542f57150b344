//! The best type that two values have in common: results of branches, elements of a sequence, values carried around a loop.

use memc_ir::{Dim, ElementType, TensorType, ValueType};

use crate::fact::Fact;

/// The most exact type that holds values of both types. What is unknown in one has the other's kind and element type, since
/// ONNX lets neither change, but no shape.
pub(crate) fn join(left: &ValueType, right: &ValueType) -> ValueType {
    match (left, right) {
        (ValueType::Unknown, other) | (other, ValueType::Unknown) => without_shape(other),
        (ValueType::Tensor(left), ValueType::Tensor(right)) => tensor(left, right).map_or(ValueType::Unknown, ValueType::Tensor),
        (ValueType::SparseTensor(left), ValueType::SparseTensor(right)) => {
            tensor(left, right).map_or(ValueType::Unknown, ValueType::SparseTensor)
        }
        (ValueType::Sequence(left), ValueType::Sequence(right)) => ValueType::Sequence(Box::new(join(left, right))),
        (ValueType::Optional(left), ValueType::Optional(right)) => ValueType::Optional(Box::new(join(left, right))),
        (ValueType::Map(key, left), ValueType::Map(other, right)) if key == other => {
            ValueType::Map(*key, Box::new(join(left, right)))
        }
        _ => ValueType::Unknown,
    }
}

/// The most exact fact that holds of values of both facts.
pub(crate) fn join_facts(left: &Fact, right: &Fact) -> Fact {
    let data = left.data.clone().filter(|data| Some(data) == right.data.as_ref());
    Fact { ty: join(&left.ty, &right.ty), data, assumed: left.assumed || right.assumed }
}

/// The same kind and element types, no shapes.
pub(crate) fn without_shape(ty: &ValueType) -> ValueType {
    match ty {
        ValueType::Tensor(tensor) => ValueType::Tensor(TensorType::unranked(tensor.element)),
        ValueType::SparseTensor(tensor) => ValueType::SparseTensor(TensorType::unranked(tensor.element)),
        ValueType::Sequence(inner) => ValueType::Sequence(Box::new(without_shape(inner))),
        ValueType::Optional(inner) => ValueType::Optional(Box::new(without_shape(inner))),
        ValueType::Map(key, inner) => ValueType::Map(*key, Box::new(without_shape(inner))),
        ValueType::Unknown => ValueType::Unknown,
    }
}

fn tensor(left: &TensorType, right: &TensorType) -> Option<TensorType> {
    let element = match (left.element, right.element) {
        (ElementType::Undefined, other) | (other, ElementType::Undefined) => other,
        (left, right) if left == right => left,
        _ => return None,
    };
    let shape = match (&left.shape, &right.shape) {
        (Some(left), Some(right)) if left.len() == right.len() => {
            let extent = |(left, right): (&Dim, &Dim)| if left.same(right) { left.clone() } else { Dim::Unknown };
            Some(left.iter().zip(right).map(extent).collect())
        }
        _ => None,
    };
    Some(TensorType { element, shape })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::ty;

    #[test]
    fn joined_types_hold_both() {
        let cases = [
            ("f32[2,N]", "f32[2,N]", "f32[2,N]"),
            ("f32[2,N]", "f32[3,N]", "f32[?,N]"),
            ("f32[2,?]", "f32[2,?]", "f32[2,?]"),
            ("f32[2]", "f32[2,1]", "f32[*]"),
            ("f32[2]", "i64[2]", "unknown"),
            ("f32[2]", "unknown", "f32[*]"),
            ("seq<f32[2]>", "seq<f32[3]>", "seq<f32[?]>"),
            ("optional<f32[2]>", "seq<f32[2]>", "unknown"),
        ];
        for (left, right, both) in cases {
            assert_eq!(join(&ty(left), &ty(right)).to_string(), both, "{left} {right}");
            assert_eq!(join(&ty(right), &ty(left)).to_string(), both, "{right} {left}");
        }
    }
}
