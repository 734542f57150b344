//! Ranges of symbols, and the intervals and remainders of expressions over them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::atom::{Atom, gcd};
use super::expr::{DimExpr, Factor};

/// Extents that a symbol may have: `min`, `min + step`, and so on up to `max`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Range {
    /// Smallest extent.
    pub min: u64,
    /// Largest extent; `None` without an upper bound.
    pub max: Option<u64>,
    /// Distance of neighboring extents, at least 1.
    pub step: u64,
}

/// Ranges by symbol. A symbol without a range has every extent from 0 on.
pub type Ranges = BTreeMap<String, Range>;

/// A text that is not a range.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RangeError {
    /// The text has another form.
    #[error("`{text}` is not a range; write `1..512`, or `32..960/32` for multiples of 32")]
    Form {
        /// The text.
        text: String,
    },
    /// A text without an upper bound.
    #[error("`{text}` has no upper bound; write `{text}512` for extents up to 512")]
    NoMax {
        /// The text.
        text: String,
    },
    /// The smallest extent exceeds the largest.
    #[error("`{text}` contains no extent: {min} is above {max}")]
    Empty {
        /// The text.
        text: String,
        /// Smallest extent.
        min: u64,
        /// Largest extent.
        max: u64,
    },
    /// The step is zero.
    #[error("the step of `{text}` is zero")]
    Step {
        /// The text.
        text: String,
    },
}

impl Range {
    /// All extents.
    pub const ANY: Self = Self { min: 0, max: None, step: 1 };

    /// Creates the range of one extent.
    pub fn only(extent: u64) -> Self {
        Self { min: extent, max: Some(extent), step: 1 }
    }
    /// Whether an extent belongs to the range.
    pub fn contains(&self, extent: u64) -> bool {
        let is_below = self.max.is_none_or(|max| extent <= max);
        is_below
            && extent
                .checked_sub(self.min)
                .is_some_and(|distance| distance.checked_rem(self.step).unwrap_or(0) == 0)
    }
    /// Lowers the upper bound to the largest extent of the range.
    fn normalized(self) -> Self {
        let max = self.max.map(|max| {
            let distance = max.saturating_sub(self.min);
            max - distance.checked_rem(self.step).unwrap_or(0)
        });
        let step = if max == Some(self.min) { 1 } else { self.step };
        Self { max, step, ..self }
    }
}

impl FromStr for Range {
    type Err = RangeError;

    /// Reads `1..512`, `32..960/32`, or one extent `64`.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let form = || RangeError::Form { text: text.to_owned() };
        let number = |part: &str| part.trim().parse::<u64>().map_err(|_| form());
        let Some((min, rest)) = text.split_once("..") else { return number(text).map(Self::only) };
        let (max, step) = match rest.split_once('/') {
            Some((max, step)) => (max, number(step)?),
            None => (rest, 1),
        };
        if max.trim().is_empty() {
            return Err(RangeError::NoMax { text: text.to_owned() });
        }
        let (min, max) = (number(min)?, number(max)?);
        if step == 0 {
            return Err(RangeError::Step { text: text.to_owned() });
        }
        if min > max {
            return Err(RangeError::Empty { text: text.to_owned(), min, max });
        }
        Ok(Self { min, max: Some(max), step }.normalized())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.min)?;
        if let Some(max) = self.max {
            write!(f, "{max}")?;
        }
        if self.step != 1 {
            write!(f, "/{}", self.step)?;
        }
        Ok(())
    }
}

/// An end of an interval. The order is that of numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// Below every number.
    Low,
    /// A number.
    At(i128),
    /// Above every number.
    High,
}

impl End {
    fn add(self, other: Self, overflow: Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => a.checked_add(b).map_or(overflow, Self::At),
            _ => overflow,
        }
    }
    fn mul(self, other: Self) -> Self {
        let sign = |end: Self| end.cmp(&Self::At(0)) as i8;
        if let (Self::At(a), Self::At(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
        {
            return Self::At(product);
        }
        match sign(self) * sign(other) {
            0 => Self::At(0),
            sign if sign > 0 => Self::High,
            _ => Self::Low,
        }
    }
    /// Divides by an end of at least 1 and rounds down.
    fn floor_div(self, by: Self) -> Self {
        match (self, by) {
            (Self::At(a), Self::At(b)) => a.checked_div_euclid(b).map_or(self, Self::At),
            // The limit of quotients by ever larger divisors.
            (Self::At(a), _) => Self::At(if a < 0 { -1 } else { 0 }),
            (_, _) => self,
        }
    }
}

/// Smallest and largest value of an expression, both inclusive; `None` if there is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Lower bound of the value.
    pub min: Option<i128>,
    /// Upper bound of the value.
    pub max: Option<i128>,
}

impl Interval {
    const ALL: Self = Self { min: None, max: None };

    fn only(value: i128) -> Self {
        Self { min: Some(value), max: Some(value) }
    }
    fn ends(self) -> (End, End) {
        (self.min.map_or(End::Low, End::At), self.max.map_or(End::High, End::At))
    }
    fn of(min: End, max: End) -> Self {
        let number = |end| if let End::At(value) = end { Some(value) } else { None };
        Self { min: number(min), max: number(max) }
    }
    fn add(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        Self::of(a.add(c, End::Low), b.add(d, End::High))
    }
    fn mul(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        let mut all = [a.mul(c), a.mul(d), b.mul(c), b.mul(d)];
        all.sort();
        Self::of(all[0], all[3])
    }
    fn floor_div(self, by: Self) -> Self {
        let ((a, b), (c, d)) = (self.ends(), by.ends());
        if c < End::At(1) {
            return Self::ALL;
        }
        Self::of(a.floor_div(c).min(a.floor_div(d)), b.floor_div(c).max(b.floor_div(d)))
    }
    /// Returns the values of both intervals.
    fn and(self, other: Self) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        Self::of(a.max(c), b.min(d))
    }
    /// Merges two intervals by a choice of ends.
    fn choose(self, other: Self, choice: fn(End, End) -> End) -> Self {
        let ((a, b), (c, d)) = (self.ends(), other.ends());
        Self::of(choice(a, c), choice(b, d))
    }
}

/// Returns the range of a symbol.
fn range_of(symbol: &str, ranges: &Ranges) -> Range {
    ranges.get(symbol).copied().unwrap_or(Range::ANY)
}

/// Returns an interval that contains a factor for all extents in the ranges.
pub(super) fn interval_of(factor: &Factor, ranges: &Ranges) -> Interval {
    match factor {
        Factor::Symbol(name) => {
            let range = range_of(name, ranges);
            Interval { min: Some(range.min.into()), max: range.max.map(i128::from) }
        }
        Factor::Atom(atom) => match atom.as_ref() {
            // A divisor counts as at least 1: the model fails otherwise.
            Atom::Floor { of, by } => {
                let by = by.interval(ranges).choose(Interval::only(1), End::max);
                of.interval(ranges).floor_div(by)
            }
            Atom::Min(operands) => merged(operands, ranges, End::min),
            Atom::Max(operands) => merged(operands, ranges, End::max),
        },
    }
}

/// Returns the value of a factor for given extents of its symbols.
fn factor_value(factor: &Factor, of: &dyn Fn(&str) -> Option<u64>) -> Option<i128> {
    let chosen = |operands: &[DimExpr], choice: fn(i128, i128) -> i128| {
        let (first, rest) = operands.split_first()?;
        rest.iter().try_fold(first.value(of)?, |chosen, operand| Some(choice(chosen, operand.value(of)?)))
    };
    match factor {
        Factor::Symbol(name) => of(name).map(i128::from),
        Factor::Atom(atom) => match atom.as_ref() {
            Atom::Floor { of: dividend, by } => dividend.value(of)?.checked_div_euclid(by.value(of)?.max(1)),
            Atom::Min(operands) => chosen(operands, i128::min),
            Atom::Max(operands) => chosen(operands, i128::max),
        },
    }
}

fn merged(operands: &[DimExpr], ranges: &Ranges, choice: fn(End, End) -> End) -> Interval {
    let all = operands.iter().map(|operand| operand.interval(ranges));
    all.reduce(|a, b| a.choose(b, choice)).unwrap_or(Interval::ALL)
}

/// Values `rest + modulus * t` for integers `t`; modulus 0 for one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Remainder {
    /// Distance of neighboring values.
    pub modulus: u64,
    /// The value, or its remainder.
    pub rest: i64,
}

impl Remainder {
    const ANY: Self = Self { modulus: 1, rest: 0 };

    fn of(modulus: u64, rest: i128) -> Self {
        let rest = if modulus == 0 { rest } else { rest.rem_euclid(i128::from(modulus)) };
        i64::try_from(rest).map_or(Self::ANY, |rest| Self { modulus, rest })
    }
    fn add(self, other: Self) -> Self {
        Self::of(gcd(self.modulus, other.modulus), i128::from(self.rest) + i128::from(other.rest))
    }
    fn mul(self, other: Self) -> Self {
        let product = |a: u64, b: u64| a.checked_mul(b);
        let parts = [
            product(self.modulus, other.rest.unsigned_abs()),
            product(other.modulus, self.rest.unsigned_abs()),
            product(self.modulus, other.modulus),
        ];
        // A product that overflows proves nothing.
        let modulus = parts.into_iter().try_fold(0, |common, part| part.map(|part| gcd(common, part)));
        modulus.map_or(Self::ANY, |modulus| Self::of(modulus, i128::from(self.rest) * i128::from(other.rest)))
    }
}

fn remainder_of(factor: &Factor, ranges: &Ranges) -> Remainder {
    match factor {
        Factor::Symbol(name) => {
            let range = range_of(name, ranges);
            let modulus = if range.max == Some(range.min) { 0 } else { range.step };
            Remainder::of(modulus, range.min.into())
        }
        Factor::Atom(atom) => {
            let Atom::Floor { of, by } = atom.as_ref() else { return Remainder::ANY };
            let Some(by) = by.as_constant().and_then(|by| u64::try_from(by).ok()) else {
                return Remainder::ANY;
            };
            let inner = of.remainder(ranges);
            match (inner.modulus.checked_rem(by), i64::try_from(by)) {
                (Some(0), Ok(divisor)) => {
                    Remainder::of(inner.modulus / by.max(1), inner.rest.div_euclid(divisor.max(1)).into())
                }
                _ => Remainder::ANY,
            }
        }
    }
}

impl DimExpr {
    /// Returns an interval that contains the value for all extents in the ranges. Both forms of quotients
    /// bound it: a window count `h - floor(3*h/4)` is `floor((h+3)/4)`, where no term is negative.
    pub fn interval(&self, ranges: &Ranges) -> Interval {
        let own = self.sum_of_terms(ranges);
        self.rounded_up().map_or(own, |other| own.and(other.sum_of_terms(ranges)))
    }
    fn sum_of_terms(&self, ranges: &Ranges) -> Interval {
        self.terms().fold(Interval::only(0), |sum, (factors, value)| {
            let start = Interval::only(value.into());
            sum.add(factors.iter().fold(start, |product, factor| product.mul(interval_of(factor, ranges))))
        })
    }
    /// Returns the value with every symbol at the lower or at the upper end of its range; `None` for a range
    /// without this end, and if a number overflows.
    pub(super) fn at_end(&self, is_upper: bool, ranges: &Ranges) -> Option<i128> {
        let end = |symbol: &str| {
            let range = range_of(symbol, ranges);
            if is_upper { range.max } else { Some(range.min) }
        };
        self.value(&end)
    }
    /// Returns the value for given extents of its symbols; `None` if one has no extent, and if a number
    /// overflows. Divisors count as at least 1.
    pub(super) fn value(&self, of: &dyn Fn(&str) -> Option<u64>) -> Option<i128> {
        self.terms().try_fold(0i128, |sum, (factors, value)| {
            let term = factors.iter().try_fold(i128::from(value), |product, factor| {
                product.checked_mul(factor_value(factor, of)?)
            });
            sum.checked_add(term?)
        })
    }
    /// Returns the remainder that all values have in common.
    pub(super) fn remainder(&self, ranges: &Ranges) -> Remainder {
        self.terms().fold(Remainder { modulus: 0, rest: 0 }, |sum, (factors, value)| {
            let start = Remainder { modulus: 0, rest: value };
            sum.add(factors.iter().fold(start, |product, factor| product.mul(remainder_of(factor, ranges))))
        })
    }
    /// Whether `by` divides the value for all extents in the ranges; false if this is not provable.
    pub fn is_multiple_of(&self, by: u64, ranges: &Ranges) -> bool {
        let Remainder { modulus, rest } = self.remainder(ranges);
        modulus.checked_rem(by) == Some(0) && rest.unsigned_abs().checked_rem(by) == Some(0)
    }
}
