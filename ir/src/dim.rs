//! Dimensions of shapes: a known extent, a polynomial over symbols, an upper bound, or unknown.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A product of symbols, sorted; the empty product is 1.
type Monomial = Vec<Arc<str>>;

/// Most terms of a polynomial; a larger one becomes unknown, which bounds the cost of hostile input.
const MAX_TERMS: usize = 16;
/// Most factors of one term.
const MAX_DEGREE: usize = 6;

/// An integer polynomial over symbolic dimensions, in canonical form: equal polynomials compare equal.
///
/// Arithmetic returns `None` if a coefficient overflows, the result exceeds 16 terms or 6 factors in a
/// term, or the result is not a polynomial.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DimExpr {
    terms: BTreeMap<Monomial, i64>,
}

impl DimExpr {
    /// Creates the polynomial that consists of one symbol.
    pub fn symbol(name: &str) -> Self {
        Self { terms: BTreeMap::from([(vec![Arc::from(name)], 1)]) }
    }
    /// Creates a constant polynomial.
    pub fn constant(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Self { terms }
    }
    /// Returns the value of a constant polynomial; `None` if a symbol occurs.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }
    /// Adds two polynomials.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let mut terms = self.terms.clone();
        for (monomial, factor) in &other.terms {
            let sum = terms.get(monomial).copied().unwrap_or(0).checked_add(*factor)?;
            if sum == 0 {
                terms.remove(monomial);
            } else {
                terms.insert(monomial.clone(), sum);
            }
        }
        (terms.len() <= MAX_TERMS).then_some(Self { terms })
    }
    /// Subtracts a polynomial.
    pub fn sub(&self, other: &Self) -> Option<Self> {
        self.add(&other.mul(&Self::constant(-1))?)
    }
    /// Multiplies two polynomials.
    pub fn mul(&self, other: &Self) -> Option<Self> {
        let mut result = Self::constant(0);
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut monomial: Monomial = a.iter().chain(b).cloned().collect();
                monomial.sort();
                if monomial.len() > MAX_DEGREE {
                    return None;
                }
                let term = Self { terms: BTreeMap::from([(monomial, x.checked_mul(*y)?)]) };
                result = result.add(&term)?;
            }
        }
        Some(result)
    }
    /// Divides exactly by a single term or by an equal polynomial; `None` if a remainder is possible.
    pub fn div_exact(&self, divisor: &Self) -> Option<Self> {
        let (by, factor) = match divisor.terms.len() {
            1 => divisor.terms.iter().next()?,
            _ => return (self == divisor).then(|| Self::constant(1)),
        };
        let mut terms = BTreeMap::new();
        for (monomial, value) in &self.terms {
            let mut rest = monomial.clone();
            for symbol in by {
                let at = rest.iter().position(|other| other == symbol)?;
                rest.remove(at);
            }
            if value.checked_rem(*factor)? != 0 {
                return None;
            }
            terms.insert(rest, value.checked_div(*factor)?);
        }
        Some(Self { terms })
    }
    /// Replaces bound symbols by their extents; other symbols stay.
    pub fn bind(&self, bindings: &BTreeMap<String, u64>) -> Option<Self> {
        let mut result = Self::constant(0);
        for (monomial, factor) in &self.terms {
            let mut term = Self::constant(*factor);
            for symbol in monomial {
                let value = match bindings.get(symbol.as_ref()) {
                    Some(bound) => Self::constant(i64::try_from(*bound).ok()?),
                    None => Self::symbol(symbol),
                };
                term = term.mul(&value)?;
            }
            result = result.add(&term)?;
        }
        Some(result)
    }
    /// Iterates over the terms in printing order, each as its symbols and its coefficient.
    pub fn terms(&self) -> impl Iterator<Item = (&[Arc<str>], i64)> {
        self.terms.iter().rev().map(|(monomial, factor)| (monomial.as_slice(), *factor))
    }
    /// Returns all symbols, sorted, without repeats.
    pub fn symbols(&self) -> Vec<Arc<str>> {
        let mut all: Vec<Arc<str>> = self.terms.keys().flatten().cloned().collect();
        all.sort();
        all.dedup();
        all
    }
    /// Parses `2*N + M - 1`, `(a+b)*c`, or `N/2` if exact. Returns `None` for any other text; the
    /// caller then treats the text as one symbol.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = ExprParser { text: text.as_bytes(), at: 0, depth: 0 };
        let result = parser.sum()?;
        parser.skip_space();
        (parser.at == parser.text.len()).then_some(result)
    }
}

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        for (index, (monomial, factor)) in self.terms.iter().rev().enumerate() {
            let magnitude = factor.unsigned_abs();
            match (index, *factor < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str("-")?,
                (_, false) => f.write_str("+")?,
            }
            if monomial.is_empty() || magnitude != 1 {
                write!(f, "{magnitude}")?;
            }
            for (position, symbol) in monomial.iter().enumerate() {
                let separator = if position > 0 || magnitude != 1 { "*" } else { "" };
                write!(f, "{separator}{symbol}")?;
            }
        }
        Ok(())
    }
}

/// Recursive descent parser for `+ - * / ( )`, integers and symbols, at most 32 levels deep.
struct ExprParser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

impl ExprParser<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    fn take(&mut self, wanted: &[u8]) -> Option<u8> {
        self.skip_space();
        let found = self.text.get(self.at).copied().filter(|byte| wanted.contains(byte))?;
        self.at += 1;
        Some(found)
    }
    fn sum(&mut self) -> Option<DimExpr> {
        let mut result = self.product()?;
        while let Some(sign) = self.take(b"+-") {
            let next = self.product()?;
            result = if sign == b'+' { result.add(&next)? } else { result.sub(&next)? };
        }
        Some(result)
    }
    fn product(&mut self) -> Option<DimExpr> {
        let mut result = self.atom()?;
        while let Some(sign) = self.take(b"*/") {
            while sign == b'/' && self.take(b"/").is_some() {}
            let next = self.atom()?;
            result = if sign == b'*' { result.mul(&next)? } else { result.div_exact(&next)? };
        }
        Some(result)
    }
    fn atom(&mut self) -> Option<DimExpr> {
        self.depth += 1;
        if self.depth > 32 {
            return None;
        }
        let result = self.atom_inner();
        self.depth -= 1;
        result
    }
    fn atom_inner(&mut self) -> Option<DimExpr> {
        if self.take(b"(").is_some() {
            let inner = self.sum()?;
            return self.take(b")").map(|_| inner);
        }
        if self.take(b"-").is_some() {
            return self.atom()?.mul(&DimExpr::constant(-1));
        }
        self.skip_space();
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':')) {
            self.at += 1;
        }
        let word = std::str::from_utf8(self.text.get(start..self.at)?).ok()?;
        match word.bytes().next()? {
            b'0'..=b'9' => word.parse().ok().map(DimExpr::constant),
            _ => Some(DimExpr::symbol(word)),
        }
    }
}

/// One dimension of a shape.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// A known extent.
    Known(u64),
    /// A polynomial over symbols that is not a constant.
    Symbolic(DimExpr),
    /// An extent that only a run determines, with its upper bound; for example the columns of a NonZero
    /// result. Two of these dimensions are never provably equal.
    AtMost(u64),
    /// No information.
    Unknown,
}

impl Dim {
    /// Converts a polynomial to a dimension; a negative constant becomes unknown.
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
    /// Upper bound of the extent, if known.
    pub fn upper(&self) -> Option<u64> {
        match self {
            Self::Known(extent) | Self::AtMost(extent) => Some(*extent),
            _ => None,
        }
    }
    /// Whether only a run determines the extent.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::AtMost(_) | Self::Unknown)
    }
    /// The dimension as a polynomial; `None` if it is unknown or only bounded.
    pub fn expr(&self) -> Option<DimExpr> {
        match self {
            Self::Known(extent) => i64::try_from(*extent).ok().map(DimExpr::constant),
            Self::Symbolic(expr) => Some(expr.clone()),
            Self::AtMost(_) | Self::Unknown => None,
        }
    }
    /// Whether both extents are provably equal.
    pub fn same(&self, other: &Self) -> bool {
        !self.is_open() && self == other
    }
    /// Adds two extents.
    pub fn add(&self, other: &Self) -> Self {
        self.combine(other, u64::checked_add, DimExpr::add).or_at_most(|| self.upper()?.checked_add(other.upper()?))
    }
    /// Multiplies two extents.
    pub fn mul(&self, other: &Self) -> Self {
        let product = self.combine(other, u64::checked_mul, DimExpr::mul);
        product.or_at_most(|| self.upper()?.checked_mul(other.upper()?))
    }
    /// Subtracts an extent; a negative result becomes unknown.
    pub fn sub(&self, other: &Self) -> Self {
        let rest = self.combine(other, u64::checked_sub, DimExpr::sub);
        let is_negative = matches!((self, other), (Self::Known(_), Self::Known(_)));
        rest.or_at_most(|| self.upper().filter(|_| !is_negative)?.checked_sub(other.known().unwrap_or(0)))
    }
    /// Divides by an extent, assumed to be at least 1. Known extents round down; symbolic ones divide
    /// exactly or become unknown.
    pub fn div(&self, other: &Self) -> Self {
        let quotient = self.combine(other, u64::checked_div, DimExpr::div_exact);
        quotient.or_at_most(|| self.upper()?.checked_div(other.known().unwrap_or(1)))
    }
    /// Returns `self`, or a dimension bounded by `upper()` if `self` is unknown.
    fn or_at_most(self, upper: impl FnOnce() -> Option<u64>) -> Self {
        if self == Self::Unknown { Self::at_most(upper()) } else { self }
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
        assert_eq!(DimExpr::parse("N/2"), None);
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
        for other in [Dim::Unknown, Dim::from_name("N")] {
            assert_eq!([few.add(&other), few.mul(&other)], [Dim::Unknown, Dim::Unknown], "{other}");
        }
        assert_eq!(few.mul(&Dim::AtMost(u64::MAX)), Dim::Unknown);
        assert!(!few.same(&few) && few.is_open() && few.to_string() == "?<=12");
    }

    #[test]
    fn deep_nesting_is_refused_without_overflow() {
        assert_eq!(DimExpr::parse(&"(".repeat(100_000)), None);
        assert_eq!(DimExpr::parse(&"-".repeat(100_000)), None);
    }
}
