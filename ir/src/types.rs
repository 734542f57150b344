//! Types of values: tensors with element type and shape, and the other kinds, which are never placed.

use std::collections::BTreeMap;
use std::fmt;

use crate::dim::{Dim, DimExpr};
use crate::element::ElementType;
use crate::units::Bytes;

/// Shape of a tensor: its dimensions, or `None` if the rank is unknown.
pub type Shape = Option<Vec<Dim>>;

/// Element type and shape of a dense tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    /// Type of one element.
    pub element: ElementType,
    /// Dimensions; `None` if the rank is unknown.
    pub shape: Shape,
}

impl TensorType {
    /// Creates a tensor type of known rank.
    pub fn new(element: ElementType, dims: Vec<Dim>) -> Self {
        Self { element, shape: Some(dims) }
    }
    /// Creates a tensor type with known extents.
    pub fn fixed(element: ElementType, dims: &[u64]) -> Self {
        Self::new(element, dims.iter().copied().map(Dim::Known).collect())
    }
    /// Creates a tensor type of unknown rank.
    pub fn unranked(element: ElementType) -> Self {
        Self { element, shape: None }
    }
    /// Number of dimensions; `None` if unknown.
    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }
    /// Returns the extents; `None` if any is unknown.
    pub fn known_dims(&self) -> Option<Vec<u64>> {
        self.shape.as_ref()?.iter().map(Dim::known).collect()
    }
    /// Number of elements; `None` if an extent is unknown or the product exceeds 64 bits.
    pub fn elements(&self) -> Option<u64> {
        let mut product = Some(1u64);
        let mut is_empty = false;
        for dim in self.shape.as_ref()? {
            let extent = dim.known()?;
            // A zero extent makes the tensor empty, even if the product of the other extents overflows.
            is_empty |= extent == 0;
            product = product.and_then(|product| product.checked_mul(extent));
        }
        if is_empty { Some(0) } else { product }
    }
    /// Replaces each bounded extent by its bound; `None` if an extent has no bound.
    pub fn largest(&self) -> Option<Self> {
        let dims: Option<Vec<u64>> = self.shape.as_ref()?.iter().map(Dim::upper).collect();
        dims.map(|dims| Self::fixed(self.element, &dims))
    }
    /// Size in memory, `ceil(elements * bits / 8)` bytes; `None` if an extent or the element size is
    /// unknown, or from 2^62 bytes on.
    pub fn size(&self) -> Option<Bytes> {
        let bits = u128::from(self.elements()?) * u128::from(self.element.bits()?);
        let bytes = u64::try_from(bits.div_ceil(8)).ok()?;
        (bytes < 1 << 62).then_some(Bytes(bytes))
    }
    /// Number of bytes that lie together for one position along an axis; `None` if an extent behind it is
    /// unknown, or if elements of less than a byte leave the position with a part of one.
    pub fn position_bytes(&self, axis: usize) -> Option<u64> {
        let mut bits = Some(u64::from(self.element.bits()?));
        for dim in self.shape.as_ref()?.get(axis + 1..)? {
            bits = bits?.checked_mul(dim.known()?);
        }
        bits.filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8)
    }
    /// Number of bits of all elements, as an expression; `None` if an extent depends on a run, or the element
    /// size is unknown.
    pub fn bits_expr(&self) -> Option<DimExpr> {
        let bits = i64::from(self.element.bits()?);
        let dims = self.shape.as_ref()?;
        dims.iter().try_fold(DimExpr::constant(bits), |product, dim| product.mul(&dim.expr()?))
    }
    /// Size in bytes as an expression; `None` if an extent depends on a run, or the element size is unknown.
    pub fn size_expr(&self) -> Option<DimExpr> {
        let bits = self.bits_expr()?;
        bits.add(&DimExpr::constant(7))?.floor_div(&DimExpr::constant(8))
    }
    /// Replaces bound symbols by their extents.
    pub fn bind(&self, bindings: &BTreeMap<String, u64>) -> Self {
        self.map_dims(&|dim| dim.bind(bindings))
    }
    /// Replaces every dimension.
    pub fn map_dims(&self, map: &dyn Fn(&Dim) -> Dim) -> Self {
        Self { element: self.element, shape: self.shape.as_ref().map(|dims| dims.iter().map(map).collect()) }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.element)?;
        match &self.shape {
            None => f.write_str("[*]"),
            Some(dims) => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "[{}]", dims.join(","))
            }
        }
    }
}

/// Type of a value. Only dense tensors are ever placed in an arena.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum ValueType {
    /// A dense tensor.
    Tensor(TensorType),
    /// A sparse tensor of this dense type.
    SparseTensor(TensorType),
    /// A sequence of values of one type.
    Sequence(Box<ValueType>),
    /// A value or nothing.
    Optional(Box<ValueType>),
    /// A map from keys of a scalar type to values of one type.
    Map(ElementType, Box<ValueType>),
    /// No information.
    #[default]
    Unknown,
}

impl ValueType {
    /// Returns the dense tensor type; `None` for every other kind.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
    /// Size of a dense tensor in bytes; `None` for other kinds and unknown extents.
    pub fn size(&self) -> Option<Bytes> {
        self.tensor().and_then(TensorType::size)
    }
    /// Upper bound on the size of a dense tensor in bytes; `None` if an extent has no bound.
    pub fn largest_size(&self) -> Option<Bytes> {
        self.tensor().and_then(TensorType::largest).and_then(|largest| largest.size())
    }
    /// Replaces bound symbols by their extents.
    pub fn bind(&self, bindings: &BTreeMap<String, u64>) -> Self {
        self.map_dims(&|dim| dim.bind(bindings))
    }
    /// Replaces every dimension, also inside other kinds.
    pub fn map_dims(&self, map: &dyn Fn(&Dim) -> Dim) -> Self {
        match self {
            Self::Tensor(tensor) => Self::Tensor(tensor.map_dims(map)),
            Self::SparseTensor(tensor) => Self::SparseTensor(tensor.map_dims(map)),
            Self::Sequence(inner) => Self::Sequence(Box::new(inner.map_dims(map))),
            Self::Optional(inner) => Self::Optional(Box::new(inner.map_dims(map))),
            Self::Map(key, inner) => Self::Map(*key, Box::new(inner.map_dims(map))),
            Self::Unknown => Self::Unknown,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(tensor) => write!(f, "{tensor}"),
            Self::SparseTensor(tensor) => write!(f, "sparse<{tensor}>"),
            Self::Sequence(inner) => write!(f, "seq<{inner}>"),
            Self::Optional(inner) => write!(f, "optional<{inner}>"),
            Self::Map(key, inner) => write!(f, "map<{key},{inner}>"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_and_never_wrap() {
        assert_eq!(TensorType::fixed(ElementType::Int4, &[3]).size(), Some(Bytes(2)));
        assert_eq!(TensorType::fixed(ElementType::Float, &[1 << 40, 1 << 40]).size(), None);
        assert_eq!(TensorType::fixed(ElementType::Float, &[1 << 60, 1 << 60, 0]).size(), Some(Bytes(0)));
        assert_eq!(TensorType::fixed(ElementType::Float, &[]).size(), Some(Bytes(4)));
        assert_eq!(TensorType::fixed(ElementType::String, &[3]).size(), None);
        assert_eq!(TensorType::new(ElementType::Float, vec![Dim::Unknown]).size(), None);
        let few =
            ValueType::Tensor(TensorType::new(ElementType::Int64, vec![Dim::Known(2), Dim::AtMost(12)]));
        assert_eq!((few.size(), few.largest_size()), (None, Some(Bytes(192))));
    }
}
