//! Sizes in formulas of workspace: one formula gives a number at known extents, or an expression over
//! symbols.

use std::ops::{Add, Deref, Mul};

use memc_ir::{Dim, DimExpr, ElementType, TensorType};

use crate::info::Typed;

/// Granularity of allocations of ONNX Runtime, in bytes.
pub const GRANULARITY: u64 = 64;

/// A formula of bytes or elements; `None` if it is unknown for this node.
pub type Formula = fn(&Counted<'_>) -> Option<Size>;

/// A number of bytes or elements. An operation on an unknown size, or beyond 64 bits, gives an unknown size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Size {
    /// A number.
    Number(u64),
    /// An expression over symbols.
    Expr(DimExpr),
    /// Not known.
    Unknown,
}

impl Size {
    /// Returns the number; `None` if it depends on symbols.
    pub fn known(&self) -> Option<u64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Expr(expr) => expr.as_constant().and_then(|value| u64::try_from(value).ok()),
            Self::Unknown => None,
        }
    }
    /// Returns the expression, which is constant for a number; `None` if the size is unknown.
    pub fn expr(self) -> Option<DimExpr> {
        match self {
            Self::Number(value) => i64::try_from(value).ok().map(DimExpr::constant),
            Self::Expr(expr) => Some(expr),
            Self::Unknown => None,
        }
    }
    /// Returns the bytes of an element of a tensor.
    pub(crate) fn width(ty: Option<&TensorType>) -> Self {
        ty.map_or(Self::Unknown, |ty| Self::of_element(ty.element))
    }
    /// Returns the bytes of an element inside a kernel that computes half precision in full precision. Few
    /// processors have kernels for half precision, and those need less.
    pub(crate) fn width_in_full(ty: Option<&TensorType>) -> Self {
        ty.map_or(Self::Unknown, |ty| match ty.element {
            ElementType::Float16 => Self::of_element(ElementType::Float),
            element => Self::of_element(element),
        })
    }
    fn of_element(element: ElementType) -> Self {
        element.bits().map_or(Self::Unknown, |bits| Self::Number(u64::from(bits.div_ceil(8))))
    }
    /// Multiplies all factors.
    pub(crate) fn product<T: Into<Self>>(factors: impl IntoIterator<Item = T>) -> Self {
        factors.into_iter().fold(Self::Number(1), |product, factor| product * factor)
    }
    /// Adds all sizes.
    pub(crate) fn sum<T: Into<Self>>(addends: impl IntoIterator<Item = T>) -> Self {
        addends.into_iter().fold(Self::Number(0), |sum, addend| sum + addend)
    }
    /// Returns the larger size.
    pub(crate) fn max(&self, other: impl Into<Self>) -> Self {
        let largest = |left, right| DimExpr::max_of(vec![left, right]);
        self.combine(other.into(), |left, right| Some(left.max(right)), largest)
    }
    /// Returns the smaller size.
    pub(crate) fn min(&self, other: impl Into<Self>) -> Self {
        let smallest = |left, right| DimExpr::min_of(vec![left, right]);
        self.combine(other.into(), |left, right| Some(left.min(right)), smallest)
    }
    /// Divides and rounds down; unknown for a division by zero.
    pub(crate) fn floor_div(&self, by: u64) -> Self {
        self.combine(Self::Number(by), u64::checked_div, |left, right| left.floor_div(&right))
    }
    /// Divides and rounds up; unknown for a division by zero.
    pub(crate) fn ceil_div(&self, by: u64) -> Self {
        self.combine(
            Self::Number(by),
            |left, right| (right > 0).then(|| left.div_ceil(right)),
            |left, right| left.ceil_div(&right),
        )
    }
    /// Rounds up to a multiple.
    pub(crate) fn multiple_of(&self, by: u64) -> Self {
        if by == 1 { self.clone() } else { self.ceil_div(by) * by }
    }
    /// Rounds up to a whole allocation of ONNX Runtime.
    pub(crate) fn rounded(&self) -> Self {
        self.multiple_of(GRANULARITY)
    }
    /// Returns this size, or another one if this one is unknown.
    pub(crate) fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Unknown { other() } else { self }
    }
    fn combine(
        &self,
        other: Self,
        numbers: impl FnOnce(u64, u64) -> Option<u64>,
        symbols: impl FnOnce(DimExpr, DimExpr) -> Option<DimExpr>,
    ) -> Self {
        if let (Self::Number(left), Self::Number(right)) = (self, &other) {
            return numbers(*left, *right).map_or(Self::Unknown, Self::Number);
        }
        let both = self.clone().expr().zip(other.expr());
        both.and_then(|(left, right)| symbols(left, right)).map_or(Self::Unknown, Self::Expr)
    }
}

impl From<u64> for Size {
    fn from(value: u64) -> Self {
        Self::Number(value)
    }
}

impl From<&Size> for Size {
    fn from(size: &Size) -> Self {
        size.clone()
    }
}

impl<T: Into<Size>> Add<T> for &Size {
    type Output = Size;
    fn add(self, other: T) -> Size {
        self.combine(other.into(), u64::checked_add, |left, right| left.add(&right))
    }
}

impl<T: Into<Size>> Mul<T> for &Size {
    type Output = Size;
    fn mul(self, other: T) -> Size {
        self.combine(other.into(), u64::checked_mul, |left, right| left.mul(&right))
    }
}

impl<T: Into<Size>> Add<T> for Size {
    type Output = Size;
    fn add(self, other: T) -> Size {
        &self + other
    }
}

impl<T: Into<Size>> Mul<T> for Size {
    type Output = Size;
    fn mul(self, other: T) -> Size {
        &self * other
    }
}

/// A node as an argument of formulas, which read its extents as numbers or as expressions.
///
/// Over numbers, a tensor has either all extents or none: one open extent hides the others.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'m> {
    typed: Typed<'m>,
    has_symbols: bool,
}

impl<'m> Deref for Counted<'m> {
    type Target = Typed<'m>;
    fn deref(&self) -> &Typed<'m> {
        &self.typed
    }
}

impl<'m> Counted<'m> {
    /// Creates a node whose extents are numbers.
    pub fn in_numbers(typed: &Typed<'m>) -> Self {
        Self { typed: *typed, has_symbols: false }
    }
    /// Creates a node whose extents are expressions over symbols.
    pub fn in_symbols(typed: &Typed<'m>) -> Self {
        Self { typed: *typed, has_symbols: true }
    }
    /// Whether extents are expressions: formulas then may give an upper bound.
    pub(crate) fn has_symbols(&self) -> bool {
        self.has_symbols
    }
    /// Returns the node if its extents are numbers: the first line of a formula that holds for numbers only.
    pub(crate) fn only_numbers(&self) -> Option<&Self> {
        (!self.has_symbols).then_some(self)
    }
    /// Whether operand `index` is present.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.data().inputs.get(index).copied().flatten().is_some()
    }
    /// Returns the extents of a tensor; `None` if its rank is unknown, or a number is missing.
    pub(crate) fn dims(&self, ty: Option<&TensorType>) -> Option<Vec<Size>> {
        let dims = ty?.shape.as_deref()?;
        let is_readable = self.has_symbols || dims.iter().all(|dim| dim.known().is_some());
        is_readable.then(|| dims.iter().map(size).collect())
    }
    /// Returns the extent of a tensor along an axis.
    pub(crate) fn extent(&self, ty: Option<&TensorType>, axis: usize) -> Size {
        self.dims(ty).and_then(|dims| dims.get(axis).cloned()).unwrap_or(Size::Unknown)
    }
    /// Returns the product of the extents of a tensor from an axis on.
    pub(crate) fn product_from(&self, ty: Option<&TensorType>, axis: usize) -> Size {
        self.dims(ty).and_then(|dims| Some(Size::product(dims.get(axis..)?))).unwrap_or(Size::Unknown)
    }
    /// Returns the number of elements of a tensor.
    pub(crate) fn elements(&self, ty: Option<&TensorType>) -> Size {
        if self.has_symbols {
            return self.product_from(ty, 0);
        }
        ty.and_then(TensorType::elements).map_or(Size::Unknown, Size::Number)
    }
    /// Returns the bytes of a tensor.
    pub(crate) fn bytes(&self, ty: Option<&TensorType>) -> Size {
        if self.has_symbols {
            return ty.and_then(TensorType::size_expr).map_or(Size::Unknown, Size::Expr);
        }
        ty.and_then(TensorType::size).map_or(Size::Unknown, |bytes| Size::Number(bytes.0))
    }
}

fn size(dim: &Dim) -> Size {
    match dim {
        Dim::Known(extent) => Size::Number(*extent),
        Dim::Symbolic(expr) => Size::Expr(expr.clone()),
        Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => Size::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_expressions_agree() {
        let formula =
            |n: Size| (((&n + 3) * &n).ceil_div(2).max(&n * 40).min(500) + n.floor_div(3)).rounded();
        let expr = formula(Size::Expr(DimExpr::symbol("N"))).expr();
        for n in [0u64, 1, 2, 7, 77, 1000] {
            let bound = expr.as_ref().and_then(|expr| expr.bind(&[("N".to_owned(), n)].into()));
            assert_eq!(bound.map(Size::Expr).and_then(|size| size.known()), formula(Size::from(n)).known());
        }
        assert_eq!(formula(Size::from(7)), Size::Number(320));
    }

    #[test]
    fn sizes_beyond_64_bits_are_unknown() {
        for size in [Size::from(u64::MAX) + 1, Size::from(1 << 40) * (1 << 40), Size::from(7).floor_div(0)] {
            assert_eq!(size, Size::Unknown);
        }
        assert_eq!(Size::Unknown * Size::from(0), Size::Unknown);
        assert_eq!(Size::from(u64::MAX).rounded(), Size::Unknown);
        assert_eq!((Size::Expr(DimExpr::symbol("N")) * u64::MAX).expr(), None);
    }
}
