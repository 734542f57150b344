//! Joins the types of two values: results of branches, elements of a sequence, values carried around a
//! loop.

use memc_ir::{Dim, ElementType, TensorType, ValueType};

use crate::fact::Fact;
use crate::families::arithmetic::at_least;
use crate::families::dims::most_of;

/// Returns an extent that includes two extents.
type Hull = fn(&Dim, &Dim) -> Dim;

/// Returns the smallest extent that includes both: equal extents stay, otherwise the larger bound.
fn either(left: &Dim, right: &Dim) -> Dim {
    if left.same(right) { left.clone() } else { most_of(left, right) }
}

/// Returns an extent that includes an extent before and after an iteration of a loop. An extent that
/// grew may grow again, so it becomes unknown.
fn after_a_round(before: &Dim, after: &Dim) -> Dim {
    let stays = match (before.upper(), after.upper()) {
        (Some(before), Some(after)) => after <= before,
        _ => before
            .upper_expr()
            .zip(after.upper_expr())
            .is_some_and(|(before, after)| at_least(&before, &after)),
    };
    match before.same(after) {
        true => before.clone(),
        false if stays => before.open(),
        false => Dim::Unknown,
    }
}

/// Returns the most precise type that includes the values of both types. A type unknown on one side
/// takes kind and element type from the other side, because ONNX lets neither change, but no shape.
pub(crate) fn join(left: &ValueType, right: &ValueType) -> ValueType {
    join_by(left, right, either)
}

fn join_by(left: &ValueType, right: &ValueType, hull: Hull) -> ValueType {
    let tensor = |left: &TensorType, right: &TensorType| tensor(left, right, hull);
    let boxed = |left: &ValueType, right: &ValueType| Box::new(join_by(left, right, hull));
    match (left, right) {
        (ValueType::Unknown, other) | (other, ValueType::Unknown) => without_shape(other),
        (ValueType::Tensor(left), ValueType::Tensor(right)) => {
            tensor(left, right).map_or(ValueType::Unknown, ValueType::Tensor)
        }
        (ValueType::SparseTensor(left), ValueType::SparseTensor(right)) => {
            tensor(left, right).map_or(ValueType::Unknown, ValueType::SparseTensor)
        }
        (ValueType::Sequence(left), ValueType::Sequence(right)) => ValueType::Sequence(boxed(left, right)),
        (ValueType::Optional(left), ValueType::Optional(right)) => ValueType::Optional(boxed(left, right)),
        (ValueType::Map(key, left), ValueType::Map(other, right)) if key == other => {
            ValueType::Map(*key, boxed(left, right))
        }
        _ => ValueType::Unknown,
    }
}

/// Returns the most precise fact that holds for the values of both facts.
pub(crate) fn join_facts(left: &Fact, right: &Fact) -> Fact {
    facts_by(left, right, either)
}

/// Returns the fact that holds for a carried value before and after an iteration of a loop. Repeated
/// application reaches a fixed point after a few steps.
pub(crate) fn carry_facts(before: &Fact, after: &Fact) -> Fact {
    facts_by(before, after, after_a_round)
}

fn facts_by(left: &Fact, right: &Fact, hull: Hull) -> Fact {
    let data = left.data.clone().filter(|data| Some(data) == right.data.as_ref());
    Fact { ty: join_by(&left.ty, &right.ty, hull), data, assumed: left.assumed || right.assumed }
}

/// Removes all shapes from a type; keeps kinds and element types.
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

fn tensor(left: &TensorType, right: &TensorType, hull: Hull) -> Option<TensorType> {
    let element = match (left.element, right.element) {
        (ElementType::Undefined, other) | (other, ElementType::Undefined) => other,
        (left, right) if left == right => left,
        _ => return None,
    };
    let shape = match (&left.shape, &right.shape) {
        (Some(left), Some(right)) if left.len() == right.len() => {
            Some(left.iter().zip(right).map(|(left, right)| hull(left, right)).collect())
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
            ("f32[2,N]", "f32[3,N]", "f32[?<=3,N]"),
            ("f32[?<=4]", "f32[3]", "f32[?<=4]"),
            ("f32[?<=4]", "f32[N]", "f32[?<=max(4,N)]"),
            ("f32[2,?]", "f32[2,?]", "f32[2,?]"),
            ("f32[2]", "f32[2,1]", "f32[*]"),
            ("f32[2]", "i64[2]", "unknown"),
            ("f32[2]", "unknown", "f32[*]"),
            ("seq<f32[2]>", "seq<f32[3]>", "seq<f32[?<=3]>"),
            ("optional<f32[2]>", "seq<f32[2]>", "unknown"),
        ];
        for (left, right, both) in cases {
            assert_eq!(join(&ty(left), &ty(right)).to_string(), both, "{left} {right}");
            assert_eq!(join(&ty(right), &ty(left)).to_string(), both, "{right} {left}");
        }
    }
    #[test]
    fn an_extent_that_grows_in_an_iteration_has_no_bound() {
        let after = |before: &str, after: &str| {
            let fact = |text: &str| Fact::of(ty(text));
            carry_facts(&fact(before), &fact(after)).ty.to_string()
        };
        assert_eq!(after("f32[5]", "f32[3]"), "f32[?<=5]");
        assert_eq!(after("f32[?<=5]", "f32[?<=5]"), "f32[?<=5]");
        assert_eq!(after("f32[3]", "f32[5]"), "f32[?]");
        assert_eq!(after("f32[?<=3]", "f32[?<=4]"), "f32[?]");
    }
}
