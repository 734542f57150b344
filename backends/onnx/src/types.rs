//! Types as ONNX states them, and their comparison with the module's types.

use memc_ir::{Dim, ElementType, Shape, TensorType, ValueType};
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use memc_onnx_proto::onnx::type_proto::{self, Value as Kind};
use memc_onnx_proto::onnx::{TensorShapeProto, TypeProto};

/// Returns the message for a type, or `None` if nothing is known. Types nest only as deep as the
/// importer allows.
pub(crate) fn type_proto(ty: &ValueType) -> Option<TypeProto> {
    let inner = |inner: &ValueType| type_proto(inner).map(Box::new);
    let kind = match ty {
        ValueType::Unknown => return None,
        ValueType::Tensor(tensor) => Kind::TensorType(type_proto::Tensor {
            elem_type: Some(tensor.element.to_onnx()),
            shape: shape(&tensor.shape),
        }),
        ValueType::SparseTensor(tensor) => Kind::SparseTensorType(type_proto::SparseTensor {
            elem_type: Some(tensor.element.to_onnx()),
            shape: shape(&tensor.shape),
        }),
        ValueType::Sequence(item) => {
            Kind::SequenceType(Box::new(type_proto::Sequence { elem_type: inner(item) }))
        }
        ValueType::Optional(item) => {
            Kind::OptionalType(Box::new(type_proto::Optional { elem_type: inner(item) }))
        }
        ValueType::Map(key, item) => Kind::MapType(Box::new(type_proto::Map {
            key_type: Some(key.to_onnx()),
            value_type: inner(item),
        })),
    };
    Some(TypeProto { denotation: None, value: Some(kind) })
}

fn shape(shape: &Shape) -> Option<TensorShapeProto> {
    let dim = |dim: &Dim| {
        let value = match dim {
            Dim::Known(extent) => i64::try_from(*extent).ok().map(DimValue::DimValue),
            Dim::Symbolic(expr) => Some(DimValue::DimParam(expr.to_string())),
            Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => None,
        };
        Dimension { value, denotation: None }
    };
    shape.as_ref().map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() })
}

/// Returns the extents that the module knows and a stated tensor type leaves open, one entry per axis.
/// Returns `None` if there are none. Rank, extents and element type that the file states stay.
pub(crate) fn open_extents(stated: &TypeProto, known: &ValueType) -> Option<Vec<Option<i64>>> {
    let (Some(Kind::TensorType(tensor)), ValueType::Tensor(TensorType { shape: Some(known), .. })) =
        (&stated.value, known)
    else {
        return None;
    };
    let is_open = |dim: &Dimension| !matches!(dim.value, Some(DimValue::DimValue(extent)) if extent >= 0);
    let open: Vec<bool> = match &tensor.shape {
        Some(stated) => stated.dim.iter().map(is_open).collect(),
        None => vec![true; known.len()],
    };
    if open.len() != known.len() {
        return None;
    }
    let extent = |(known, is_open): (&Dim, bool)| {
        known.known().filter(|_| is_open).and_then(|extent| i64::try_from(extent).ok())
    };
    let extents: Vec<Option<i64>> = known.iter().zip(open).map(extent).collect();
    extents.iter().any(Option::is_some).then_some(extents)
}

/// Relation of a type stated in the file to the module's type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Agreement {
    /// Both are compatible, and the module knows no more.
    Fits,
    /// Both are compatible, and the module knows more.
    Vaguer,
    /// The types contradict each other.
    Contradicts,
}

/// Compares a stated type with the module's type. A part that either leaves open is compatible with
/// everything.
pub(crate) fn compare(stated: Option<&TypeProto>, known: &ValueType) -> Agreement {
    let inner = |stated: &Option<Box<TypeProto>>, known: &ValueType| compare(stated.as_deref(), known);
    match (stated.and_then(|ty| ty.value.as_ref()), known) {
        (_, ValueType::Unknown) => Agreement::Fits,
        (None, _) => Agreement::Vaguer,
        (Some(Kind::OpaqueType(_)), _) => Agreement::Fits,
        (Some(Kind::TensorType(tensor)), ValueType::Tensor(known)) => {
            compare_tensor(tensor.elem_type, tensor.shape.as_ref(), known)
        }
        (Some(Kind::SparseTensorType(tensor)), ValueType::SparseTensor(known)) => {
            compare_tensor(tensor.elem_type, tensor.shape.as_ref(), known)
        }
        (Some(Kind::SequenceType(sequence)), ValueType::Sequence(known)) => inner(&sequence.elem_type, known),
        (Some(Kind::OptionalType(optional)), ValueType::Optional(known)) => inner(&optional.elem_type, known),
        (Some(Kind::MapType(map)), ValueType::Map(key, known)) => {
            inner(&map.value_type, known).max(compare_element(map.key_type, *key))
        }
        _ => Agreement::Contradicts,
    }
}

fn compare_element(stated: Option<i32>, known: ElementType) -> Agreement {
    match (ElementType::from_onnx(stated.unwrap_or(0)), known) {
        (stated, known) if stated == known => Agreement::Fits,
        (_, ElementType::Undefined) => Agreement::Fits,
        (ElementType::Undefined, _) => Agreement::Vaguer,
        _ => Agreement::Contradicts,
    }
}

fn compare_tensor(element: Option<i32>, shape: Option<&TensorShapeProto>, known: &TensorType) -> Agreement {
    let dims = match (shape, &known.shape) {
        (_, None) => Agreement::Fits,
        (None, Some(_)) => Agreement::Vaguer,
        (Some(stated), Some(known)) if stated.dim.len() != known.len() => Agreement::Contradicts,
        (Some(stated), Some(known)) => {
            let pairs = stated.dim.iter().zip(known);
            pairs.map(|(stated, known)| compare_dim(stated, known)).max().unwrap_or(Agreement::Fits)
        }
    };
    dims.max(compare_element(element, known.element))
}

fn compare_dim(stated: &Dimension, known: &Dim) -> Agreement {
    match (&stated.value, known) {
        (Some(DimValue::DimValue(stated)), Dim::Known(known)) if u64::try_from(*stated) == Ok(*known) => {
            Agreement::Fits
        }
        // Some exporters write an unknown extent as a negative number.
        (Some(DimValue::DimValue(stated)), Dim::Known(_)) if *stated >= 0 => Agreement::Contradicts,
        (_, Dim::Known(_)) => Agreement::Vaguer,
        _ => Agreement::Fits,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn open_extents_fit_and_known_extents_must_be_equal() {
        let fixed = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[2, 3]));
        let open =
            ValueType::Tensor(TensorType::new(ElementType::Float, vec![Dim::from_name("N"), Dim::Known(3)]));
        let other = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[2, 4]));
        let half = ValueType::Tensor(TensorType::fixed(ElementType::Float16, &[2, 3]));
        let stated = |ty: &ValueType| type_proto(ty).unwrap();
        assert_eq!(compare(Some(&stated(&fixed)), &fixed), Agreement::Fits);
        assert_eq!(compare(Some(&stated(&open)), &fixed), Agreement::Vaguer);
        assert_eq!(compare(Some(&stated(&fixed)), &open), Agreement::Fits);
        assert_eq!(compare(Some(&stated(&other)), &fixed), Agreement::Contradicts);
        assert_eq!(compare(Some(&stated(&other)), &open), Agreement::Contradicts);
        assert_eq!(compare(Some(&stated(&half)), &fixed), Agreement::Contradicts);
        assert_eq!(compare(None, &fixed), Agreement::Vaguer);
        let sequence = ValueType::Sequence(Box::new(fixed.clone()));
        assert_eq!(compare(Some(&stated(&sequence)), &fixed), Agreement::Contradicts);
        assert_eq!(compare(Some(&stated(&sequence)), &sequence), Agreement::Fits);
    }
}
