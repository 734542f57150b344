//! Atoms of expressions and their canonical forms: rounded quotients, minima and maxima.
//!
//! A remainder has no atom of its own: `a mod b` is `a - b*floor(a/b)`. A quotient rounded up is
//! `floor((a+b-1)/b)`.

use std::sync::Arc;

use super::expr::{DimExpr, Factor, Monomial, without};

/// Most terms and factors inside an atom; a larger one becomes unknown. Nested quotients by constants
/// join into one, so models stay far below it.
const MAX_WEIGHT: usize = 64;
/// Most operands of a minimum or maximum.
const MAX_OPERANDS: usize = 6;
/// Most rounds of rules for a quotient. Each round removes a common factor or a nested quotient.
const MAX_ROUNDS: usize = 64;

/// An integer that is no polynomial in its operands. Its operands are in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Atom {
    /// A quotient, rounded down.
    Floor {
        /// Dividend.
        of: DimExpr,
        /// Divisor, at least 1.
        by: DimExpr,
    },
    /// The smallest of two or more operands.
    Min(Vec<DimExpr>),
    /// The largest of two or more operands.
    Max(Vec<DimExpr>),
}

impl Atom {
    /// Iterates over the operands.
    pub(super) fn parts(&self) -> impl Iterator<Item = &DimExpr> {
        let (pair, list): ([Option<&DimExpr>; 2], &[DimExpr]) = match self {
            Self::Floor { of, by } => ([Some(of), Some(by)], &[]),
            Self::Min(operands) | Self::Max(operands) => ([None, None], operands),
        };
        pair.into_iter().flatten().chain(list)
    }
    /// Replaces every operand and applies the atom's operation again.
    pub(super) fn map(&self, map: &mut dyn FnMut(&DimExpr) -> Option<DimExpr>) -> Option<DimExpr> {
        match self {
            Self::Floor { of, by } => map(of)?.floor_div(&map(by)?),
            Self::Min(operands) => {
                operands.iter().map(map).collect::<Option<Vec<_>>>().and_then(DimExpr::min_of)
            }
            Self::Max(operands) => {
                operands.iter().map(map).collect::<Option<Vec<_>>>().and_then(DimExpr::max_of)
            }
        }
    }
    /// Whether the value is never negative because no operand is.
    pub(super) fn is_evidently_extent(&self) -> bool {
        match self {
            Self::Floor { of, by } => of.is_evidently_extent() && by.is_evidently_extent(),
            Self::Min(operands) => operands.iter().all(DimExpr::is_evidently_extent),
            Self::Max(operands) => operands.iter().any(DimExpr::is_evidently_extent),
        }
    }
    /// Whether all coefficients of a quotient by a constant are above half of it.
    fn is_nearly_whole(&self) -> bool {
        let Self::Floor { of, by } = self else { return false };
        let Some(divisor) = by.as_constant() else { return false };
        of.terms.iter().all(|(monomial, value)| monomial.is_empty() || value.saturating_mul(2) > divisor)
    }
    /// Returns a quotient with large coefficients as a quotient that is rounded up; `None` for another atom.
    fn rounded_up(&self) -> Option<DimExpr> {
        let Self::Floor { of, by } = self else { return None };
        if !self.is_nearly_whole() {
            return None;
        }
        let divisor = by.as_constant()?;
        let whole = DimExpr {
            terms: of.without_constant().terms.into_keys().map(|monomial| (monomial, 1)).collect(),
        };
        whole.sub(&whole.times(divisor)?.sub(of)?.ceil_div(by)?)
    }
    /// Returns the atom as an expression; `None` if it is too large.
    fn into_expr(self) -> Option<DimExpr> {
        let weight = self.parts().map(DimExpr::weight).fold(0, usize::saturating_add);
        (weight <= MAX_WEIGHT).then(|| DimExpr::factor(Factor::Atom(Arc::new(self))))
    }
}

impl DimExpr {
    /// Divides and rounds down. Symbolic divisors count as at least 1; `None` for a division by zero.
    pub fn floor_div(&self, by: &Self) -> Option<Self> {
        match by.as_constant() {
            Some(0) => None,
            Some(by) if by < 0 => floor_by(&self.neg()?, by.checked_neg()?),
            Some(by) => floor_by(self, by),
            None => floor_by_symbols(self, by),
        }
    }
    /// Divides and rounds up. Symbolic divisors count as at least 1; `None` for a division by zero.
    pub fn ceil_div(&self, by: &Self) -> Option<Self> {
        match by.as_constant() {
            Some(by) if by < 0 => self.neg()?.ceil_div(&Self::constant(by.checked_neg()?)),
            _ => self.add(by)?.plus(-1)?.floor_div(by),
        }
    }
    /// Returns an equal expression in which a quotient `floor(p/k)` whose coefficients are all above `k/2` is
    /// `s - ceil((k*s-p)/k)`, where `s` is the sum of the factors of `p`; `None` if there is no such
    /// quotient. What is left of a remainder often cancels then.
    pub(super) fn rounded_up(&self) -> Option<Self> {
        if !self
            .terms
            .keys()
            .flatten()
            .any(|factor| matches!(factor, Factor::Atom(atom) if atom.is_nearly_whole()))
        {
            return None;
        }
        let mut is_changed = false;
        let other = self.map_factors(&mut |factor| {
            let Factor::Atom(atom) = factor else { return Some(Self::factor(factor.clone())) };
            let other = atom.rounded_up();
            is_changed |= other.is_some();
            other.or_else(|| Some(Self::factor(factor.clone())))
        });
        other.filter(|_| is_changed)
    }
    /// Divides and rounds toward zero, as integer division of kernels does. The divisor must be at least
    /// 1.
    pub fn trunc_div(&self, by: &Self) -> Option<Self> {
        let zero = Self::constant(0);
        if self.is_evidently_extent() {
            return self.floor_div(by);
        }
        let positive = Self::max_of(vec![self.floor_div(by)?, zero.clone()])?;
        positive.add(&Self::min_of(vec![self.ceil_div(by)?, zero])?)
    }
    /// Returns the remainder of a division that rounds down: it has the sign of the divisor.
    pub fn modulo(&self, by: &Self) -> Option<Self> {
        self.sub(&by.mul(&self.floor_div(by)?)?)
    }
    /// Returns the smallest of the operands; `None` if there are none, or too many.
    pub fn min_of(operands: Vec<Self>) -> Option<Self> {
        smallest(operands)
    }
    /// Returns the largest of the operands; `None` if there are none, or too many.
    pub fn max_of(operands: Vec<Self>) -> Option<Self> {
        smallest(negated(&operands)?)?.neg()
    }
}

/// Returns the greatest common divisor.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the greatest common divisor of the coefficients of all terms with factors; 0 if there is no
/// such term.
fn common_factor(expr: &DimExpr) -> u64 {
    let symbolic = expr.terms.iter().filter(|(monomial, _)| !monomial.is_empty());
    symbolic.fold(0, |common, (_, value)| gcd(common, value.unsigned_abs()))
}

/// Divides all coefficients by a divisor of theirs; the constant term rounds down.
fn scaled_down(expr: &DimExpr, by: i64) -> Option<DimExpr> {
    let mut terms = expr.terms.clone();
    for value in terms.values_mut() {
        *value = value.checked_div_euclid(by)?;
    }
    terms.retain(|_, value| *value != 0);
    Some(DimExpr { terms })
}

/// Divides by a constant of at least 1 and rounds down. The canonical quotient has coefficients below
/// the divisor, no common factor, and no quotient as its only quotient term:
/// - `floor((k*q + r)/k)` is `q + floor(r/k)`,
/// - `floor((g*p + c)/(g*m))` is `floor((p + floor(c/g))/m)`,
/// - `floor((floor(p/a) + q)/k)` is `floor((p + a*q)/(a*k))`.
fn floor_by(of: &DimExpr, by: i64) -> Option<DimExpr> {
    let (mut whole, mut rest, mut by) = (DimExpr::constant(0), of.clone(), by);
    for _ in 0..MAX_ROUNDS {
        let mut quotient = DimExpr::constant(0);
        rest.terms.retain(|monomial, value| {
            let part = value.div_euclid(by);
            if part != 0 {
                quotient.terms.insert(monomial.clone(), part);
            }
            *value = value.rem_euclid(by);
            *value != 0
        });
        whole = whole.add(&quotient)?;
        let common = gcd(common_factor(&rest), by.unsigned_abs());
        if common_factor(&rest) == 0 {
            return Some(whole);
        }
        if common > 1 {
            let common = i64::try_from(common).ok()?;
            rest = scaled_down(&rest, common)?;
            by /= common;
            continue;
        }
        let Some((atom, inner, inner_by)) = only_quotient(&rest) else {
            let floor = Atom::Floor { of: rest, by: DimExpr::constant(by) };
            return whole.add(&floor.into_expr()?);
        };
        let others = rest.sub(&DimExpr::factor(atom))?;
        rest = inner.add(&others.times(inner_by)?)?;
        by = by.checked_mul(inner_by)?;
    }
    None
}

/// Returns the only quotient among the terms if its coefficient is 1: its factor, dividend and constant
/// divisor.
pub(super) fn only_quotient(expr: &DimExpr) -> Option<(Factor, DimExpr, i64)> {
    let mut found = None;
    for (monomial, value) in &expr.terms {
        for factor in monomial {
            let Factor::Atom(atom) = factor else { continue };
            let Atom::Floor { of, by } = atom.as_ref() else { continue };
            if found.is_some() || *value != 1 || monomial.len() != 1 {
                return None;
            }
            found = Some((factor.clone(), of.clone(), by.as_constant()?));
        }
    }
    found
}

/// Divides by an expression with symbols, which counts as at least 1, and rounds down.
fn floor_by_symbols(of: &DimExpr, by: &DimExpr) -> Option<DimExpr> {
    if let Some(exact) = of.div_exact(by) {
        return Some(exact);
    }
    let (of, by) = reduced(of, by)?;
    if by.as_constant().is_some() {
        return of.floor_div(&by);
    }
    // Take out the terms that a divisor of one term divides.
    let (mut whole, mut rest) = (DimExpr::constant(0), of);
    if let (1, Some((divisor, factor))) = (by.terms.len(), by.leading()) {
        let mut kept = rest.clone();
        for (monomial, value) in &rest.terms {
            if let (Some(left), Some(0)) = (without(monomial, divisor), value.checked_rem(factor)) {
                whole = whole.add(&DimExpr { terms: [(left, value.checked_div(factor)?)].into() })?;
                kept.terms.remove(monomial);
            }
        }
        rest = kept;
    }
    if rest.as_constant() == Some(0) {
        return Some(whole);
    }
    // A quotient of a quotient is one quotient.
    if let (1, Some((atom, inner, inner_by))) = (rest.terms.len(), only_quotient(&rest))
        && rest.as_factor() == Some(&atom)
    {
        return whole.add(&floor_by_symbols(&inner, &by.times(inner_by)?)?);
    }
    whole.add(&Atom::Floor { of: rest, by }.into_expr()?)
}

/// Removes common factors of dividend and divisor, and makes the leading coefficient of the divisor
/// positive.
fn reduced(of: &DimExpr, by: &DimExpr) -> Option<(DimExpr, DimExpr)> {
    let all = || of.terms.iter().chain(&by.terms);
    let content = all().fold(0, |common, (_, value)| gcd(common, value.unsigned_abs()));
    let mut shared: Monomial = all().next().map(|(monomial, _)| monomial.clone()).unwrap_or_default();
    for (monomial, _) in all() {
        let mut left = monomial.clone();
        shared.retain(|factor| {
            left.iter().position(|other| other == factor).map(|at| left.remove(at)).is_some()
        });
    }
    let sign = if by.leading()?.1 < 0 { -1 } else { 1 };
    let divisor =
        DimExpr { terms: [(shared, i64::try_from(content.max(1)).ok()?.checked_mul(sign)?)].into() };
    Some((of.div_exact(&divisor)?, by.div_exact(&divisor)?))
}

fn negated(operands: &[DimExpr]) -> Option<Vec<DimExpr>> {
    operands.iter().map(DimExpr::neg).collect()
}

/// Splits off a minimum with coefficient 1, if it is the only atom of this kind: its operands, each plus
/// the other terms.
fn spread(expr: &DimExpr) -> Option<Vec<DimExpr>> {
    let is_min =
        |factor: &&Factor| matches!(factor, Factor::Atom(atom) if matches!(atom.as_ref(), Atom::Min(_)));
    let is_max =
        |factor: &&Factor| matches!(factor, Factor::Atom(atom) if matches!(atom.as_ref(), Atom::Max(_)));
    let mut found = expr.terms.iter().filter(|(monomial, value)| {
        (**value == 1 && monomial.iter().any(|factor| is_min(&factor)))
            || (**value == -1 && monomial.iter().any(|factor| is_max(&factor)))
    });
    let (monomial, value) = found.next()?;
    let ([Factor::Atom(atom)], None) = (monomial.as_slice(), found.next()) else { return None };
    let others = DimExpr {
        terms: expr.terms.iter().filter(|term| term.0 != monomial).map(|(a, b)| (a.clone(), *b)).collect(),
    };
    let operands: Option<Vec<DimExpr>> = atom.parts().map(|part| others.add(&part.times(*value)?)).collect();
    operands.filter(|operands| operands.len() <= MAX_OPERANDS)
}

/// Returns the smallest of the operands in canonical form: without nested minima and operands that are
/// evidently larger; common terms and factors outside; as a maximum if more operands are negative.
fn smallest(operands: Vec<DimExpr>) -> Option<DimExpr> {
    let mut kept = distinct(flattened(operands)?);
    if kept.len() > MAX_OPERANDS {
        return None;
    }
    if kept.len() <= 1 {
        return kept.pop();
    }
    // Move terms that all operands share outside.
    let first = kept.first()?.clone();
    let shared = |(monomial, value): &(&Monomial, &i64)| {
        !monomial.is_empty() && kept.iter().all(|operand| operand.terms.get(*monomial) == Some(value))
    };
    let common = DimExpr { terms: first.terms.iter().filter(shared).map(|(a, b)| (a.clone(), *b)).collect() };
    for operand in &mut kept {
        *operand = operand.sub(&common)?;
    }
    // Choose the sign with fewer negative operands.
    let is_negative = |expr: &DimExpr| expr.without_constant().leading().map(|(_, value)| value < 0);
    let negative = kept.iter().filter(|operand| is_negative(operand) == Some(true)).count();
    let positive = kept.iter().filter(|operand| is_negative(operand) == Some(false)).count();
    let is_max = negative > positive;
    if is_max {
        kept = negated(&kept)?;
    }
    // Make the constant of the last operand zero, and divide by the common factor.
    kept.sort_by_key(|operand| (operand.without_constant(), operand.constant_term()));
    let shift = kept.last()?.constant_term();
    for operand in &mut kept {
        *operand = operand.plus(shift.checked_neg()?)?;
    }
    let content = kept
        .iter()
        .flat_map(|operand| operand.terms.values())
        .fold(0, |common, value| gcd(common, value.unsigned_abs()));
    let content = i64::try_from(content.max(1)).ok()?;
    for operand in &mut kept {
        *operand = scaled_down(operand, content)?;
    }
    let outside = common.plus(if is_max { shift.checked_neg()? } else { shift })?;
    let smallest = minimum(kept, is_max)?;
    smallest.times(content)?.add(&outside)
}

/// Builds the atom of a minimum: of the operands, or, as the negated maximum, of the negated operands.
/// Operands that are minima, now that terms and factors are outside, become operands of this one.
fn minimum(operands: Vec<DimExpr>, is_max: bool) -> Option<DimExpr> {
    let plain = if is_max { negated(&operands)? } else { operands.clone() };
    if plain.iter().any(|operand| spread(operand).is_some()) {
        return smallest(plain);
    }
    if is_max { Atom::Max(operands).into_expr()?.neg() } else { Atom::Min(operands).into_expr() }
}

/// Replaces nested minima by their operands.
fn flattened(operands: Vec<DimExpr>) -> Option<Vec<DimExpr>> {
    let mut flat = Vec::new();
    let mut open = operands;
    open.reverse();
    while let Some(operand) = open.pop() {
        if flat.len() + open.len() > MAX_WEIGHT {
            return None;
        }
        match spread(&operand) {
            Some(inner) => open.extend(inner),
            None => flat.push(operand),
        }
    }
    Some(flat)
}

/// Removes operands that are evidently at least as large as another one.
fn distinct(mut operands: Vec<DimExpr>) -> Vec<DimExpr> {
    operands.sort();
    operands.dedup();
    let is_larger = |at: &usize, operands: &[DimExpr]| {
        let own = &operands[*at];
        operands
            .iter()
            .any(|other| other != own && own.sub(other).is_some_and(|excess| excess.is_evidently_extent()))
    };
    let kept: Vec<usize> = (0..operands.len()).filter(|at| !is_larger(at, &operands)).collect();
    kept.into_iter().map(|at| operands[at].clone()).collect()
}
