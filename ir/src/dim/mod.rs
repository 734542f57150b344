//! Dimensions of shapes: a known extent, an expression over symbols, an upper bound, or unknown.

mod atom;
mod compare;
mod domain;
mod expr;
mod parse;
mod polynomial;
mod print;
mod range;

use std::collections::BTreeMap;
use std::fmt;

pub use atom::Atom;
pub use compare::Comparison;
pub use domain::{Domain, Limit, LimitError};
pub use expr::{DimExpr, Factor};
pub use polynomial::{Envelope, Polynomial};
pub use range::{Interval, Range, RangeError, Ranges};

/// One dimension of a shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// A known extent.
    Known(u64),
    /// An expression over symbols that is not a constant.
    Symbolic(DimExpr),
    /// An extent that only a run determines, with its upper bound; for example the columns of a NonZero
    /// result. Two of these dimensions are never provably equal.
    AtMost(u64),
    /// An extent that only a run determines, with an upper bound over symbols that is not a constant.
    Within(DimExpr),
    /// No information.
    Unknown,
}

impl Dim {
    /// Converts an expression to a dimension; a negative constant becomes unknown.
    pub fn from_expr(expr: DimExpr) -> Self {
        match expr.as_constant() {
            Some(value) => u64::try_from(value).map_or(Self::Unknown, Self::Known),
            None => Self::Symbolic(expr),
        }
    }
    /// Converts the name of a dimension in a model: an expression if it parses as an expression, else
    /// one symbol.
    pub fn from_name(name: &str) -> Self {
        Self::from_expr(DimExpr::parse(name).unwrap_or_else(|| DimExpr::symbol(name)))
    }
    /// The extent, if known.
    pub fn known(&self) -> Option<u64> {
        match self {
            Self::Known(extent) => Some(*extent),
            _ => None,
        }
    }
    /// Creates a dimension with an optional upper bound; `None` gives an unknown dimension.
    pub fn at_most(upper: Option<u64>) -> Self {
        upper.map_or(Self::Unknown, Self::AtMost)
    }
    /// Creates a dimension with an optional upper bound over symbols; `None` gives an unknown dimension.
    pub fn within(upper: Option<DimExpr>) -> Self {
        match upper.map(|upper| (upper.as_constant(), upper)) {
            Some((None, upper)) => Self::Within(upper),
            Some((Some(value), _)) => Self::at_most(u64::try_from(value).ok()),
            None => Self::Unknown,
        }
    }
    /// Upper bound of the extent, if known.
    pub fn upper(&self) -> Option<u64> {
        match self {
            Self::Known(extent) | Self::AtMost(extent) => Some(*extent),
            // A bound that holds for all extents of the symbols, as of `min(20,N)`.
            Self::Within(upper) => {
                upper.interval(&Ranges::new()).max.and_then(|most| u64::try_from(most.max(0)).ok())
            }
            _ => None,
        }
    }
    /// Upper bound of the extent over symbols, if known: the extent itself if it is an expression.
    pub fn upper_expr(&self) -> Option<DimExpr> {
        match self {
            Self::AtMost(extent) => i64::try_from(*extent).ok().map(DimExpr::constant),
            Self::Within(upper) => Some(upper.clone()),
            other => other.expr(),
        }
    }
    /// Returns an extent between 0 and this one.
    pub fn open(&self) -> Self {
        match self {
            Self::Known(extent) | Self::AtMost(extent) => Self::AtMost(*extent),
            other => Self::within(other.upper_expr()),
        }
    }
    /// Whether only a run determines the extent.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::AtMost(_) | Self::Within(_) | Self::Unknown)
    }
    /// The dimension as an expression; `None` if it is unknown or only bounded.
    pub fn expr(&self) -> Option<DimExpr> {
        match self {
            Self::Known(extent) => i64::try_from(*extent).ok().map(DimExpr::constant),
            Self::Symbolic(expr) => Some(expr.clone()),
            Self::AtMost(_) | Self::Within(_) | Self::Unknown => None,
        }
    }
    /// Whether both extents are provably equal.
    pub fn same(&self, other: &Self) -> bool {
        !self.is_open() && self == other
    }
    /// Adds two extents.
    pub fn add(&self, other: &Self) -> Self {
        let sum = self.combine(other, u64::checked_add, DimExpr::add);
        sum.or_at_most(|| self.upper()?.checked_add(other.upper()?))
            .or_within(|| self.upper_expr()?.add(&other.upper_expr()?), [self, other])
    }
    /// Multiplies two extents.
    pub fn mul(&self, other: &Self) -> Self {
        let product = self.combine(other, u64::checked_mul, DimExpr::mul);
        product
            .or_at_most(|| self.upper()?.checked_mul(other.upper()?))
            .or_within(|| self.upper_expr()?.mul(&other.upper_expr()?), [self, other])
    }
    /// Subtracts an extent; a negative result becomes unknown.
    pub fn sub(&self, other: &Self) -> Self {
        let rest = self.combine(other, u64::checked_sub, DimExpr::sub);
        let is_negative = matches!((self, other), (Self::Known(_), Self::Known(_)));
        rest.or_at_most(|| self.upper().filter(|_| !is_negative)?.checked_sub(other.known().unwrap_or(0)))
            .or_within(|| self.upper_expr(), [self, other])
    }
    /// Divides by an extent, assumed to be at least 1, and rounds down.
    pub fn div(&self, other: &Self) -> Self {
        let quotient = self.combine(other, u64::checked_div, DimExpr::floor_div);
        let by = || other.expr().unwrap_or_else(|| DimExpr::constant(1));
        quotient
            .or_at_most(|| self.upper()?.checked_div(other.known().unwrap_or(1)))
            .or_within(|| self.upper_expr()?.floor_div(&by()), [self, other])
    }
    /// Returns `self`, or a dimension bounded by `upper()` if `self` is unknown.
    fn or_at_most(self, upper: impl FnOnce() -> Option<u64>) -> Self {
        if self == Self::Unknown { Self::at_most(upper()) } else { self }
    }
    /// Returns `self`, or a dimension bounded by `upper()` if `self` is unknown and an operand is open.
    fn or_within(self, upper: impl FnOnce() -> Option<DimExpr>, operands: [&Self; 2]) -> Self {
        let is_open = operands.iter().any(|operand| operand.is_open());
        if self == Self::Unknown && is_open { Self::within(upper()) } else { self }
    }
    fn combine(
        &self,
        other: &Self,
        known: fn(u64, u64) -> Option<u64>,
        symbolic: fn(&DimExpr, &DimExpr) -> Option<DimExpr>,
    ) -> Self {
        if let (Self::Known(a), Self::Known(b)) = (self, other) {
            return known(*a, *b).map_or(Self::Unknown, Self::Known);
        }
        let both = self.expr().zip(other.expr());
        both.and_then(|(a, b)| symbolic(&a, &b)).map_or(Self::Unknown, Self::from_expr)
    }
    /// Replaces bound symbols by their extents.
    pub fn bind(&self, bindings: &BTreeMap<String, u64>) -> Self {
        match self {
            Self::Symbolic(expr) => expr.bind(bindings).map_or(Self::Unknown, Self::from_expr),
            Self::Within(upper) => Self::within(upper.bind(bindings)),
            other => other.clone(),
        }
    }
    /// Replaces symbols by expressions.
    pub fn substitute(&self, equal: &BTreeMap<String, DimExpr>) -> Self {
        match self {
            Self::Symbolic(expr) => expr.substitute(equal).map_or(Self::Unknown, Self::from_expr),
            Self::Within(upper) => Self::within(upper.substitute(equal)),
            other => other.clone(),
        }
    }
    /// Simplifies expressions for symbols in these ranges.
    pub fn simplified(&self, ranges: &Ranges) -> Self {
        match self {
            Self::Symbolic(expr) => Self::from_expr(expr.simplified(ranges)),
            Self::Within(upper) => Self::within(Some(upper.simplified(ranges))),
            other => other.clone(),
        }
    }
}

impl From<u64> for Dim {
    fn from(extent: u64) -> Self {
        Self::Known(extent)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(extent) => write!(f, "{extent}"),
            Self::Symbolic(expr) => write!(f, "{expr}"),
            Self::AtMost(extent) => write!(f, "?<={extent}"),
            Self::Within(upper) => write!(f, "?<={upper}"),
            Self::Unknown => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn expressions_are_canonical() {
        let a = DimExpr::parse("2*N + M*N - 1").unwrap();
        let b = DimExpr::parse("N*(M+2)-1").unwrap();
        assert_eq!(a, b);
        assert_eq!(DimExpr::parse(&a.to_string()), Some(a.clone()));
        let bindings = BTreeMap::from([("N".to_owned(), 3), ("M".to_owned(), 5)]);
        assert_eq!(a.bind(&bindings).unwrap().as_constant(), Some(20));
        assert_eq!(DimExpr::parse("a b"), None);
        assert_eq!(DimExpr::parse("N*4/2"), DimExpr::parse("2*N"));
        assert_eq!(DimExpr::parse("N/2"), None, "only rounding makes an integer of it");
    }

    #[test]
    fn arithmetic_overflows_to_unknown() {
        let big = Dim::Known(u64::MAX);
        assert_eq!(big.add(&Dim::Known(1)), Dim::Unknown);
        assert_eq!(Dim::Known(3).sub(&Dim::Known(5)), Dim::Unknown);
        assert_eq!(Dim::from_name("N").mul(&Dim::Known(2)).to_string(), "2*N");
    }

    #[test]
    fn bounds_pass_through_arithmetic_and_prove_no_equality() {
        let few = Dim::AtMost(12);
        assert_eq!(few.add(&Dim::Known(3)), Dim::AtMost(15));
        assert_eq!(few.mul(&Dim::AtMost(2)), Dim::AtMost(24));
        assert_eq!(few.sub(&Dim::Known(2)), Dim::AtMost(10));
        assert_eq!(Dim::Known(7).sub(&few), Dim::AtMost(7));
        assert_eq!(few.div(&Dim::Known(5)), Dim::AtMost(2));
        assert_eq!(Dim::Known(7).div(&few), Dim::AtMost(7));
        assert_eq!([few.add(&Dim::Unknown), few.mul(&Dim::Unknown)], [Dim::Unknown, Dim::Unknown]);
        let n = Dim::from_name("N");
        assert_eq!(few.add(&n).to_string(), "?<=N+12");
        assert_eq!(few.mul(&n).mul(&n).to_string(), "?<=12*N*N");
        assert_eq!(few.mul(&n).div(&Dim::Known(5)).to_string(), "?<=floor(2*N/5)+2*N");
        assert_eq!(few.mul(&n).sub(&n).to_string(), "?<=12*N");
        assert_eq!(few.mul(&n).bind(&BTreeMap::from([("N".to_owned(), 2)])), Dim::AtMost(24));
        assert_eq!(few.mul(&Dim::AtMost(u64::MAX)), Dim::Unknown);
        assert!(!few.same(&few) && few.is_open() && few.to_string() == "?<=12");
    }

    #[test]
    fn deep_nesting_is_refused_without_overflow() {
        assert_eq!(DimExpr::parse(&"(".repeat(100_000)), None);
        assert_eq!(DimExpr::parse(&"-".repeat(100_000)), None);
    }
}
