//! Integer expressions over symbolic extents: polynomials whose factors are symbols and atoms.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::atom::Atom;

/// Most terms of an expression; a larger one becomes unknown, which bounds the cost of hostile input.
const MAX_TERMS: usize = 16;
/// Most factors of one term.
const MAX_DEGREE: usize = 6;

/// A factor of a term.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Factor {
    /// A symbolic extent.
    Symbol(Arc<str>),
    /// A quotient, minimum or maximum.
    Atom(Arc<Atom>),
}

/// A product of factors, sorted; the empty product is 1.
pub(super) type Monomial = Vec<Factor>;

/// An integer expression over symbolic extents, in canonical form: a polynomial over symbols and atoms.
/// Expressions that compare equal are equal for all extents.
///
/// Symbols are extents, which are never negative, and divisors are at least 1. Arithmetic returns `None`
/// if a coefficient overflows, or the result exceeds 16 terms, 6 factors in a term, or the size of an
/// atom.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DimExpr {
    pub(super) terms: BTreeMap<Monomial, i64>,
}

impl DimExpr {
    /// Creates the expression that consists of one symbol.
    pub fn symbol(name: &str) -> Self {
        Self::factor(Factor::Symbol(Arc::from(name)))
    }
    /// Creates the expression that consists of one factor.
    pub(super) fn factor(factor: Factor) -> Self {
        Self { terms: BTreeMap::from([(vec![factor], 1)]) }
    }
    /// Creates a constant expression.
    pub fn constant(value: i64) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Self { terms }
    }
    /// Returns the value of a constant expression; `None` if a symbol occurs.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }
    /// Returns the name if the expression is one symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match self.as_factor()? {
            Factor::Symbol(name) => Some(name),
            Factor::Atom(_) => None,
        }
    }
    /// Returns the factor if the expression is one factor.
    pub(super) fn as_factor(&self) -> Option<&Factor> {
        match (self.terms.len(), self.terms.first_key_value()?) {
            (1, (monomial, 1)) if monomial.len() == 1 => monomial.first(),
            _ => None,
        }
    }
    /// Returns the constant term.
    pub(super) fn constant_term(&self) -> i64 {
        self.terms.get(&Vec::new()).copied().unwrap_or(0)
    }
    /// Removes the constant term.
    pub(super) fn without_constant(&self) -> Self {
        let mut terms = self.terms.clone();
        terms.remove(&Vec::new());
        Self { terms }
    }
    /// Adds two expressions.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for (monomial, factor) in &other.terms {
            sum.add_term(monomial, *factor)?;
        }
        sum.if_small()
    }
    /// Adds a term in place; `None` if its coefficient overflows.
    fn add_term(&mut self, monomial: &[Factor], factor: i64) -> Option<()> {
        match self.terms.get_mut(monomial) {
            Some(value) => {
                *value = value.checked_add(factor)?;
                if *value == 0 {
                    self.terms.remove(monomial);
                }
            }
            None if factor != 0 => drop(self.terms.insert(monomial.to_vec(), factor)),
            None => {}
        }
        Some(())
    }
    /// Returns the expression unless it has too many terms.
    fn if_small(self) -> Option<Self> {
        (self.terms.len() <= MAX_TERMS).then_some(self)
    }
    /// Adds a constant.
    pub(super) fn plus(&self, value: i64) -> Option<Self> {
        self.add(&Self::constant(value))
    }
    /// Negates the expression.
    pub fn neg(&self) -> Option<Self> {
        self.times(-1)
    }
    /// Multiplies by a constant.
    pub(super) fn times(&self, factor: i64) -> Option<Self> {
        if factor == 0 {
            return Some(Self::constant(0));
        }
        let terms: Option<BTreeMap<Monomial, i64>> = self
            .terms
            .iter()
            .map(|(monomial, own)| Some((monomial.clone(), own.checked_mul(factor)?)))
            .collect();
        Some(Self { terms: terms? })
    }
    /// Subtracts an expression.
    pub fn sub(&self, other: &Self) -> Option<Self> {
        let mut difference = self.clone();
        for (monomial, factor) in &other.terms {
            difference.add_term(monomial, factor.checked_neg()?)?;
        }
        difference.if_small()
    }
    /// Multiplies two expressions.
    pub fn mul(&self, other: &Self) -> Option<Self> {
        let mut result = Self::constant(0);
        result.add_product(self, other)?;
        result.if_small()
    }
    /// Adds the product of two expressions in place.
    fn add_product(&mut self, left: &Self, right: &Self) -> Option<()> {
        for (a, x) in &left.terms {
            for (b, y) in &right.terms {
                let factor = x.checked_mul(*y)?;
                match (a.as_slice(), b.as_slice()) {
                    (monomial, []) | ([], monomial) => self.add_term(monomial, factor)?,
                    _ if a.len() + b.len() > MAX_DEGREE => return None,
                    _ => {
                        let mut monomial: Monomial = a.iter().chain(b).cloned().collect();
                        monomial.sort();
                        self.add_term(&monomial, factor)?;
                    }
                }
            }
        }
        Some(())
    }
    /// Divides by an expression that divides without remainder for all extents; `None` if a remainder is
    /// possible. Long division by the leading term.
    pub fn div_exact(&self, divisor: &Self) -> Option<Self> {
        let (by, factor) = divisor.leading()?;
        let (mut rest, mut quotient) = (self.clone(), Self::constant(0));
        while let Some((monomial, value)) = rest.leading() {
            let monomial = without(monomial, by)?;
            if value.checked_rem(factor)? != 0 {
                return None;
            }
            let step = Self { terms: BTreeMap::from([(monomial, value.checked_div(factor)?)]) };
            quotient = quotient.add(&step)?;
            rest = rest.sub(&step.mul(divisor)?)?;
        }
        Some(quotient)
    }
    /// Returns the term of the highest degree, and of the last monomial among these; `None` for zero.
    /// Products keep this order, which long division needs.
    pub(super) fn leading(&self) -> Option<(&Monomial, i64)> {
        let term = self.terms.iter().max_by_key(|(monomial, _)| (monomial.len(), *monomial))?;
        Some((term.0, *term.1))
    }
    /// Replaces every factor by an expression and computes the sum of products again.
    pub(super) fn map_factors(&self, map: &mut dyn FnMut(&Factor) -> Option<Self>) -> Option<Self> {
        let mut result = Self::constant(0);
        for (monomial, value) in &self.terms {
            let Some((last, others)) = monomial.split_last() else {
                result.add_term(monomial, *value)?;
                continue;
            };
            let mut term = Self::constant(*value);
            for factor in others {
                term = term.mul(&map(factor)?)?;
            }
            result.add_product(&term, &map(last)?)?;
        }
        result.if_small()
    }
    /// Replaces bound symbols by their extents; other symbols stay. `None` for a division by zero.
    pub fn bind(&self, bindings: &BTreeMap<String, u64>) -> Option<Self> {
        self.map_symbols(&|name| {
            bindings.get(name).map(|bound| i64::try_from(*bound).ok().map(Self::constant))
        })
    }
    /// Replaces symbols by expressions; other symbols stay. `None` for a division by zero.
    pub fn substitute(&self, equal: &BTreeMap<String, Self>) -> Option<Self> {
        self.map_symbols(&|name| equal.get(name).map(|of| Some(of.clone())))
    }
    /// Replaces symbols; those without a replacement stay. `None` if a replacement is `Some(None)`.
    fn map_symbols(&self, of: &dyn Fn(&str) -> Option<Option<Self>>) -> Option<Self> {
        self.map_factors(&mut |factor| match factor {
            Factor::Symbol(name) => of(name).unwrap_or_else(|| Some(Self::factor(factor.clone()))),
            Factor::Atom(atom) => atom.map(&mut |part| part.map_symbols(of)),
        })
    }
    /// Iterates over the terms in printing order, each as its factors and its coefficient.
    pub fn terms(&self) -> impl Iterator<Item = (&[Factor], i64)> {
        self.terms.iter().rev().map(|(monomial, factor)| (monomial.as_slice(), *factor))
    }
    /// Returns all symbols, also those inside atoms, sorted, without repeats.
    pub fn symbols(&self) -> Vec<Arc<str>> {
        let mut all = Vec::new();
        self.collect_symbols(&mut all);
        all.sort();
        all.dedup();
        all
    }
    /// Returns the symbol if exactly one occurs, also inside atoms.
    pub(super) fn only_symbol(&self) -> Option<&str> {
        let mut found = None;
        self.has_only(&mut found).then_some(found)?
    }
    /// Whether no symbol but `found` occurs; the first one becomes `found` if it is `None`.
    fn has_only<'a>(&'a self, found: &mut Option<&'a str>) -> bool {
        self.terms.keys().flatten().all(|factor| match factor {
            Factor::Symbol(name) => *found.get_or_insert(name) == name.as_ref(),
            Factor::Atom(atom) => atom.parts().all(|part| part.has_only(found)),
        })
    }
    fn collect_symbols(&self, all: &mut Vec<Arc<str>>) {
        for factor in self.terms.keys().flatten() {
            match factor {
                Factor::Symbol(name) => all.push(Arc::clone(name)),
                Factor::Atom(atom) => atom.parts().for_each(|part| part.collect_symbols(all)),
            }
        }
    }
    /// Number of terms and factors, including those inside atoms.
    pub(super) fn weight(&self) -> usize {
        let of = |factor: &Factor| match factor {
            Factor::Symbol(_) => 1,
            Factor::Atom(atom) => atom.parts().map(Self::weight).fold(1, usize::saturating_add),
        };
        self.terms
            .keys()
            .map(|monomial| monomial.iter().map(of).fold(1, usize::saturating_add))
            .fold(0, usize::saturating_add)
    }
    /// Whether every term has a positive coefficient, and no factor can be negative.
    pub(super) fn is_evidently_extent(&self) -> bool {
        let extent = |factor: &Factor| match factor {
            Factor::Symbol(_) => true,
            Factor::Atom(atom) => atom.is_evidently_extent(),
        };
        self.terms.iter().all(|(monomial, value)| *value > 0 && monomial.iter().all(extent))
    }
}

/// Removes the factors of `by` from a monomial; `None` if one is missing.
pub(super) fn without(monomial: &[Factor], by: &[Factor]) -> Option<Monomial> {
    let mut rest = monomial.to_vec();
    for factor in by {
        let at = rest.iter().position(|other| other == factor)?;
        rest.remove(at);
    }
    Some(rest)
}
