//! Polynomials over symbols that bound expressions: quotients, minima and maxima have no place in them, so
//! that sums of many expressions stay small.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::atom::Atom;
use super::expr::{DimExpr, Factor};
use super::range::{Ranges, interval_of};

/// Fractions in one: coefficients are multiples of 1/65536.
const ONE: i128 = 1 << 16;
/// Most polynomials of an envelope.
const MAX_PARTS: usize = 4;
/// Most nested atoms that a bound looks into.
const MAX_DEPTH: u32 = 8;

/// A polynomial over symbols with rational coefficients. Symbols are extents, which are never negative.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Polynomial {
    /// Coefficients in units of 1/65536, by their sorted symbols.
    terms: BTreeMap<Vec<Arc<str>>, i128>,
}

/// The largest of a few polynomials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    parts: Vec<Polynomial>,
}

/// The side on which a polynomial bounds an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Above => Self::Below,
            Self::Below => Self::Above,
        }
    }
    /// Divides and rounds to this side.
    fn divide(self, number: i128, by: i128) -> Option<i128> {
        let down = number.checked_div_euclid(by)?;
        let is_whole = number.checked_rem_euclid(by)? == 0;
        Some(if self == Self::Above && !is_whole { down.checked_add(1)? } else { down })
    }
}

impl Polynomial {
    /// Creates a constant.
    pub fn constant(number: u64) -> Self {
        Self { terms: BTreeMap::from([(Vec::new(), i128::from(number) * ONE)]) }
    }
    /// Returns a polynomial that is at least the expression for all extents in the ranges; `None` if there
    /// is none of this form, or a number overflows. Linear in the size of the expression.
    pub fn above(of: &DimExpr, ranges: &Ranges) -> Option<Self> {
        bound(of, ranges, Side::Above, MAX_DEPTH)
    }
    /// Adds two polynomials.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for (symbols, own) in &other.terms {
            let term = sum.terms.entry(symbols.clone()).or_default();
            *term = term.checked_add(*own)?;
        }
        Some(sum)
    }
    /// Returns a polynomial that is at least both: the larger one of each two coefficients.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.choose(other, i128::max)
    }
    /// Returns an expression that is at least the polynomial, with integers as coefficients; `None` if it has
    /// too many terms or a number overflows.
    pub fn expr(&self) -> Option<DimExpr> {
        let mut sum = DimExpr::constant(0);
        for (symbols, own) in &self.terms {
            let coefficient = i64::try_from(Side::Above.divide(*own, ONE)?).ok()?;
            let mut term = DimExpr::constant(coefficient);
            for symbol in symbols {
                term = term.mul(&DimExpr::symbol(symbol))?;
            }
            sum = sum.add(&term)?;
        }
        Some(sum)
    }
    /// Combines two polynomials coefficient by coefficient.
    fn choose(&self, other: &Self, choice: fn(i128, i128) -> i128) -> Self {
        let mut chosen = self.clone();
        for (symbols, own) in &mut chosen.terms {
            *own = choice(*own, other.terms.get(symbols).copied().unwrap_or(0));
        }
        for (symbols, own) in &other.terms {
            chosen.terms.entry(symbols.clone()).or_insert(choice(0, *own));
        }
        chosen
    }
    fn times(&self, factor: i128) -> Option<Self> {
        let scaled =
            |(symbols, own): (&Vec<Arc<str>>, &i128)| Some((symbols.clone(), own.checked_mul(factor)?));
        Some(Self { terms: self.terms.iter().map(scaled).collect::<Option<_>>()? })
    }
    fn divided(&self, by: i128, side: Side) -> Option<Self> {
        let quotient =
            |(symbols, own): (&Vec<Arc<str>>, &i128)| Some((symbols.clone(), side.divide(*own, by)?));
        Some(Self { terms: self.terms.iter().map(quotient).collect::<Option<_>>()? })
    }
    /// Multiplies two polynomials and rounds coefficients to a side.
    fn product(&self, other: &Self, side: Side) -> Option<Self> {
        let mut terms: BTreeMap<Vec<Arc<str>>, i128> = BTreeMap::new();
        for (one, a) in &self.terms {
            for (two, b) in &other.terms {
                let mut symbols: Vec<Arc<str>> = one.iter().chain(two).cloned().collect();
                symbols.sort();
                let term = terms.entry(symbols).or_default();
                *term = term.checked_add(a.checked_mul(*b)?)?;
            }
        }
        Self { terms }.divided(ONE, side)
    }
    /// Whether no coefficient is above that of another polynomial.
    fn is_below(&self, other: &Self) -> bool {
        self.max(other) == other.max(other)
    }
    /// Value at the largest extents, to choose between two bounds; symbols without one count as 1.
    fn at_most(&self, ranges: &Ranges) -> i128 {
        self.at(&|symbol| ranges.get(symbol).and_then(|range| range.max).unwrap_or(1))
    }
    /// Value at the smallest extents.
    fn at_least(&self, ranges: &Ranges) -> i128 {
        self.at(&|symbol| ranges.get(symbol).map_or(0, |range| range.min))
    }
    fn at(&self, extent: &dyn Fn(&str) -> u64) -> i128 {
        let extent = |symbol: &Arc<str>| i128::from(extent(symbol));
        let term = |(symbols, own): (&Vec<Arc<str>>, &i128)| {
            symbols.iter().map(extent).fold(*own, i128::saturating_mul)
        };
        self.terms.iter().map(term).fold(0, i128::saturating_add)
    }
}

impl Envelope {
    /// Creates the envelope of one polynomial.
    pub fn of(one: Polynomial) -> Self {
        Self { parts: vec![one] }
    }
    /// Adds a polynomial.
    pub fn add(&self, other: &Polynomial) -> Option<Self> {
        Some(Self { parts: self.parts.iter().map(|part| part.add(other)).collect::<Option<_>>()? })
    }
    /// Returns an envelope that is at least both for all extents in the ranges. If it has too many parts, the
    /// two with the nearest common bound become one.
    #[must_use]
    pub fn max(&self, other: &Self, ranges: &Ranges) -> Self {
        let mut parts = self.parts.clone();
        for own in &other.parts {
            if !parts.iter().any(|part| own.is_below(part)) {
                parts.retain(|part| !part.is_below(own));
                parts.push(own.clone());
            }
        }
        while parts.len() > MAX_PARTS {
            let pairs = (1..parts.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
            let nearest = pairs.min_by_key(|(a, b)| (excess(&parts[*a], &parts[*b], ranges), *a, *b));
            let Some((a, b)) = nearest else { break };
            let joined = parts[a].max(&parts[b]);
            parts.remove(b);
            parts[a] = joined;
        }
        Self { parts }
    }
    /// Returns an expression that is at least every part, with integers as coefficients; `None` if it has too
    /// many terms or a number overflows.
    pub fn expr(&self) -> Option<DimExpr> {
        DimExpr::max_of(self.parts.iter().map(Polynomial::expr).collect::<Option<_>>()?)
    }
}

/// How far a bound of two polynomials exceeds them at the smallest and at the largest extents, in
/// thousandths.
fn excess(a: &Polynomial, b: &Polynomial, ranges: &Ranges) -> i128 {
    let both = a.max(b);
    let ends: [&dyn Fn(&Polynomial) -> i128; 2] = [&|of| of.at_least(ranges), &|of| of.at_most(ranges)];
    let over = ends.map(|at| at(&both).saturating_mul(1000) / at(a).max(at(b)).max(1));
    over[0].saturating_add(over[1])
}

fn bound(of: &DimExpr, ranges: &Ranges, side: Side, depth: u32) -> Option<Polynomial> {
    let depth = depth.checked_sub(1)?;
    let mut sum = Polynomial::constant(0);
    for (factors, coefficient) in of.terms() {
        let own = if coefficient < 0 { side.other() } else { side };
        sum = sum.add(&bound_of_product(factors, ranges, own, depth)?.times(coefficient.into())?)?;
    }
    Some(sum)
}

/// Bounds a product. Bounds of its factors multiply if each has one sign; a bound of several factors on the
/// side of 0 is 0.
fn bound_of_product(factors: &[Factor], ranges: &Ranges, side: Side, depth: u32) -> Option<Polynomial> {
    let mut symbols: Vec<Arc<str>> = Vec::new();
    let mut atoms = Vec::new();
    for factor in factors {
        match factor {
            Factor::Symbol(name) => symbols.push(name.clone()),
            Factor::Atom(atom) => atoms.push((factor, atom)),
        }
    }
    symbols.sort();
    let mut product = Polynomial { terms: BTreeMap::from([(symbols, ONE)]) };
    if let [(_, only)] = &atoms[..] {
        return product.product(&bound_of_atom(only, ranges, side, depth)?, side);
    }
    // The product of the distances of all factors from 0, and the sign that the product of the factors has.
    let signs: Vec<i128> = atoms.iter().map(|(factor, _)| sign(factor, ranges)).collect::<Option<_>>()?;
    let sign: i128 = signs.iter().product();
    let distances = if sign < 0 { side.other() } else { side };
    if distances == Side::Below && !atoms.is_empty() {
        return Some(Polynomial::constant(0));
    }
    for ((_, atom), own) in atoms.into_iter().zip(signs) {
        let farthest = if own < 0 { Side::Below } else { Side::Above };
        product = product.product(&bound_of_atom(atom, ranges, farthest, depth)?.times(own)?, Side::Above)?;
    }
    product.times(sign)
}

/// Returns 1 for a factor that is never negative, -1 for one that is never positive.
fn sign(factor: &Factor, ranges: &Ranges) -> Option<i128> {
    let interval = interval_of(factor, ranges);
    match () {
        () if interval.min.is_some_and(|least| least >= 0) => Some(1),
        () if interval.max.is_some_and(|most| most <= 0) => Some(-1),
        () => None,
    }
}

fn bound_of_atom(atom: &Atom, ranges: &Ranges, side: Side, depth: u32) -> Option<Polynomial> {
    let all = |operands: &[DimExpr]| -> Option<Vec<Polynomial>> {
        operands.iter().map(|operand| bound(operand, ranges, side, depth)).collect()
    };
    // One operand bounds a minimum from above and a maximum from below: that which is nearest at both ends.
    let ends = |of: &Polynomial| of.at_most(ranges).max(1).saturating_mul(of.at_least(ranges).max(1));
    match (atom, side) {
        (Atom::Floor { of, by }, _) => match by.as_constant().filter(|by| *by >= 1) {
            Some(by) => {
                let lost = if side == Side::Below { by - 1 } else { 0 };
                bound(&of.sub(&DimExpr::constant(lost))?, ranges, side, depth)?.divided(by.into(), side)
            }
            None if of.interval(ranges).min.is_none_or(|least| least < 0) => None,
            None if side == Side::Below => Some(Polynomial::constant(0)),
            None => {
                let least = by.interval(ranges).min.unwrap_or(1).max(1);
                bound(of, ranges, side, depth)?.divided(least, side)
            }
        },
        (Atom::Min(operands), Side::Above) => all(operands)?.into_iter().min_by_key(ends),
        (Atom::Max(operands), Side::Below) => all(operands)?.into_iter().max_by_key(ends),
        (Atom::Min(operands), Side::Below) => {
            all(operands)?.into_iter().reduce(|a, b| a.choose(&b, i128::min))
        }
        (Atom::Max(operands), Side::Above) => all(operands)?.into_iter().reduce(|a, b| a.max(&b)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::range::Range;
    use super::*;

    fn ranges() -> Ranges {
        ["h", "w", "n"].map(|name| (name.to_owned(), Range { min: 1, max: Some(40), step: 1 })).into()
    }

    fn above(text: &str) -> DimExpr {
        Polynomial::above(&DimExpr::parse(text).unwrap(), &ranges()).unwrap().expr().unwrap()
    }

    #[test]
    fn quotients_and_extremes_become_polynomials() {
        for (text, expected) in [
            ("4*h*w-3", "4*h*w-3"),
            ("floor((h+1)/2)*w*8", "4*h*w+4*w"),
            ("64*floor((3*h+7)/8)-64*floor(2*h/8)", "8*h+104"),
            ("min(h,12)*16", "16*h"),
            ("min(h*h,12)*16", "192"),
            ("max(h,12)*16", "16*h+192"),
            ("floor(h/3)", "h"),
        ] {
            assert_eq!(above(text), DimExpr::parse(expected).unwrap(), "{text}");
        }
    }

    #[test]
    fn every_bound_holds_at_every_point() {
        let texts = [
            "8*floor((h+1)/2)*floor((w+3)/4)-8*floor(h/2)",
            "12*min(h,floor((5*h+3)/8)+2)*w-12*w*max(0,floor(3*h/8)-1)",
            "100*floor(h*w/n)-7*min(h,w)",
            "floor((h-20)/3)*5+40",
            "3*max(h-w,0)*floor(w/7)",
        ];
        for text in texts {
            let (of, most) = (DimExpr::parse(text).unwrap(), above(text));
            for point in (0..64_000_u64).step_by(7) {
                let extents = [("h", point % 40 + 1), ("w", point / 40 % 40 + 1), ("n", point / 1600 + 1)];
                let extents = extents.map(|(name, extent)| (name.to_owned(), extent)).into();
                let [own, most] =
                    [&of, &most].map(|of| of.bind(&extents).and_then(|bound| bound.as_constant()).unwrap());
                assert!(own <= most, "{text} at {extents:?}: {own} > {most}");
            }
        }
    }

    #[test]
    fn an_envelope_is_above_all_of_its_parts() {
        let texts = ["4*h*w", "900*h", "5000", "h*w+800", "70*w+30*h", "4*h*w-h", "2*w*w"];
        let all = texts.map(|text| Polynomial::above(&DimExpr::parse(text).unwrap(), &ranges()).unwrap());
        let none = Envelope::of(Polynomial::constant(0));
        let envelope = all.iter().cloned().map(Envelope::of).fold(none, |all, one| all.max(&one, &ranges()));
        assert_eq!(envelope.parts.len(), MAX_PARTS);
        let envelope = envelope.add(&Polynomial::constant(3)).unwrap().expr().unwrap();
        let mut nearest = i64::MAX;
        for (h, w) in (1..=40).flat_map(|h| (1..=40).map(move |w| (h, w))) {
            let at = [("h", h), ("w", w)].map(|(name, extent)| (name.to_owned(), extent)).into();
            let value = |of: &DimExpr| of.bind(&at).and_then(|bound| bound.as_constant()).unwrap();
            let most = texts.map(|text| value(&DimExpr::parse(text).unwrap())).into_iter().max().unwrap();
            assert!(value(&envelope) >= most + 3, "{envelope} at {at:?}");
            nearest = nearest.min(value(&envelope) - most);
        }
        assert_eq!(nearest, 3, "{envelope}");
    }

    #[test]
    fn the_larger_coefficients_bound_both() {
        let polynomial = |text: &str| Polynomial::above(&DimExpr::parse(text).unwrap(), &ranges()).unwrap();
        let both = polynomial("4*h*w-8*h").max(&polynomial("3*h*w+2*w"));
        assert_eq!(both.expr(), DimExpr::parse("4*h*w+2*w"));
        let sum = polynomial("4*h-1").add(&Polynomial::constant(64)).unwrap();
        assert_eq!(sum.expr(), DimExpr::parse("4*h+63"));
    }
}
