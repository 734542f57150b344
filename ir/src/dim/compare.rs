//! Comparison and simplification of expressions over ranges of their symbols.

use std::collections::BTreeMap;

use super::atom::{Atom, gcd, only_quotient};
use super::expr::{DimExpr, Factor};
use super::range::{Interval, Ranges, interval_of};

/// Most nested steps of a proof: each replaces one atom by bounds of it.
const MAX_STEPS: u32 = 4;
/// Most expressions that a proof bounds: hostile expressions end it early.
const MAX_EFFORT: u32 = 64;
/// Most rounds of simplification. Expressions of models need one round, and a second one that finds nothing;
/// random expressions of the tests need up to three.
const MAX_ROUNDS: usize = 4;
/// Most extents of a symbol at which a bound computes all values.
const MAX_EXTENTS: u64 = 16;
/// Most factors whose lower and upper corners a proof combines.
const MAX_CORNERS: usize = 4;

/// Order of two expressions over all extents in the ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The first is always smaller.
    Less,
    /// Both are always equal.
    Equal,
    /// The first is always larger.
    Greater,
    /// The order depends on the extents, or is not provable.
    Unknown,
}

impl DimExpr {
    /// Compares two expressions over all extents in the ranges.
    pub fn compare(&self, other: &Self, ranges: &Ranges) -> Comparison {
        let Some((excess, lack)) = self.sub(other).zip(other.sub(self)) else { return Comparison::Unknown };
        let (min, max) =
            (lower_bound(&excess, ranges), lower_bound(&lack, ranges).and_then(i128::checked_neg));
        match (min, max) {
            (Some(min), _) if min > 0 => Comparison::Greater,
            (_, Some(max)) if max < 0 => Comparison::Less,
            (Some(0), Some(0)) => Comparison::Equal,
            _ => Comparison::Unknown,
        }
    }
    /// Returns a proven lower bound of the value over all extents in the ranges.
    pub fn lower_bound(&self, ranges: &Ranges) -> Option<i128> {
        lower_bound(self, ranges)
    }
    /// Whether the expression is at least `other` for all extents in the ranges; false if this is not
    /// provable.
    pub fn at_least(&self, other: &Self, ranges: &Ranges) -> bool {
        self.sub(other).and_then(|excess| lower_bound(&excess, ranges)).is_some_and(|bound| bound >= 0)
    }
    /// Returns the tightest provable bounds of the value over all extents in the ranges.
    pub fn bounds(&self, ranges: &Ranges) -> Interval {
        Interval { min: lower_bound(self, ranges), max: self.upper_bound(ranges) }
    }
    /// Returns a proven upper bound of the value over all extents in the ranges.
    pub fn upper_bound(&self, ranges: &Ranges) -> Option<i128> {
        let plain = self.interval(ranges).max;
        if plain.is_some() && is_reached(self, plain, ranges) {
            return plain;
        }
        let proven = self.neg().and_then(|negated| lower_bound(&negated, ranges)).and_then(i128::checked_neg);
        proven.or(plain)
    }
    /// Rewrites the expression to a simpler one that is equal for all extents in the ranges: constants
    /// for symbols and quotients of one value, minima and maxima without operands that never count, and
    /// quotients without remainders.
    pub fn simplified(&self, ranges: &Ranges) -> Self {
        let mut simpler = self.simplified_once(ranges);
        for _ in 1..MAX_ROUNDS {
            let again = simpler.simplified_once(ranges);
            if again == simpler {
                break;
            }
            simpler = again;
        }
        simpler
    }
    fn simplified_once(&self, ranges: &Ranges) -> Self {
        let plain = self
            .terms
            .keys()
            .flatten()
            .all(|factor| matches!(factor, Factor::Symbol(name) if !is_fixed(name, ranges)));
        if plain {
            return self.clone();
        }
        let simpler = self.map_factors(&mut |factor| simpler_factor(factor, ranges));
        simpler.map_or_else(
            || self.clone(),
            |simpler| without_exact_quotients(&simpler, ranges).unwrap_or(simpler),
        )
    }
}

fn is_fixed(symbol: &str, ranges: &Ranges) -> bool {
    ranges.get(symbol).is_some_and(|range| range.max == Some(range.min))
}

fn simpler_factor(factor: &Factor, ranges: &Ranges) -> Option<DimExpr> {
    let atom = match factor {
        Factor::Symbol(name) => {
            return match ranges.get(name.as_ref()).filter(|_| is_fixed(name, ranges)) {
                Some(range) => i64::try_from(range.min).ok().map(DimExpr::constant),
                None => Some(DimExpr::factor(factor.clone())),
            };
        }
        Factor::Atom(atom) => atom,
    };
    match atom.as_ref() {
        Atom::Floor { of, by } => {
            simpler_floor(&of.simplified_once(ranges), &by.simplified_once(ranges), ranges)
        }
        Atom::Min(operands) => {
            DimExpr::min_of(needed(operands, ranges, |own, other| own.at_least(other, ranges)))
        }
        Atom::Max(operands) => {
            DimExpr::max_of(needed(operands, ranges, |own, other| other.at_least(own, ranges)))
        }
    }
}

/// Returns the simplified operands without those that another one makes superfluous.
fn needed(
    operands: &[DimExpr],
    ranges: &Ranges,
    is_covered: impl Fn(&DimExpr, &DimExpr) -> bool,
) -> Vec<DimExpr> {
    let mut kept: Vec<DimExpr> = operands.iter().map(|operand| operand.simplified_once(ranges)).collect();
    let mut at = 0;
    while at < kept.len() {
        let own = &kept[at];
        if kept.iter().enumerate().any(|(position, other)| position != at && is_covered(own, other)) {
            kept.remove(at);
        } else {
            at += 1;
        }
    }
    kept
}

/// Returns a quotient with the smallest dividend that gives equal quotients; a constant if only one
/// quotient is possible.
fn simpler_floor(of: &DimExpr, by: &DimExpr, ranges: &Ranges) -> Option<DimExpr> {
    let quotient = of.floor_div(by)?;
    let Interval { min, max } = quotient.bounds(ranges);
    if let (Some(min), Some(max)) = (min, max)
        && min == max
    {
        return i64::try_from(min).ok().map(DimExpr::constant);
    }
    let Some((atom, of, by)) = only_quotient(&quotient) else { return Some(quotient) };
    if let Some(exact) = in_steps(&of, by, ranges) {
        return quotient.sub(&DimExpr::factor(atom))?.add(&exact);
    }
    // All dividends have the remainder `rest` by `common`, which divides the divisor: subtract it.
    let known = of.remainder(ranges);
    let common = gcd(known.modulus, by.unsigned_abs());
    let rest = known.rest.checked_rem_euclid(i64::try_from(common).ok()?)?;
    if rest == 0 {
        return Some(quotient);
    }
    let smaller = simpler_floor(&of.plus(rest.checked_neg()?)?, &DimExpr::constant(by), ranges)?;
    quotient.sub(&DimExpr::factor(atom))?.add(&smaller)
}

/// Returns an exact quotient as an expression over numbers of steps, `floor(N/s)` for a symbol that is
/// always a multiple of its step `s`: `floor(N/8)` is `4*floor(N/32)` for multiples of 32. Quotients of one
/// value in several forms become one.
fn in_steps(of: &DimExpr, by: i64, ranges: &Ranges) -> Option<DimExpr> {
    let stepped = of.map_factors(&mut |factor| {
        let own = DimExpr::factor(factor.clone());
        let Factor::Symbol(name) = factor else { return Some(own) };
        let range = ranges
            .get(name.as_ref())
            .filter(|range| range.step > 1 && range.min.checked_rem(range.step) == Some(0));
        let Some(step) = range.and_then(|range| i64::try_from(range.step).ok()) else { return Some(own) };
        own.floor_div(&DimExpr::constant(step))?.times(step)
    })?;
    stepped.div_exact(&DimExpr::constant(by))
}

/// Replaces `k * floor(p/k)` by `p` if `k` always divides `p`.
fn without_exact_quotients(expr: &DimExpr, ranges: &Ranges) -> Option<DimExpr> {
    let mut result = DimExpr::constant(0);
    for (monomial, value) in &expr.terms {
        let mut term = DimExpr { terms: BTreeMap::from([(monomial.clone(), *value)]) };
        for factor in monomial {
            let Factor::Atom(atom) = factor else { continue };
            let Atom::Floor { of, by } = atom.as_ref() else { continue };
            let Some(divisor) = by.as_constant() else { continue };
            if value.checked_rem(divisor) == Some(0) && of.is_multiple_of(divisor.unsigned_abs(), ranges) {
                let others = term.div_exact(&DimExpr::factor(factor.clone()).times(divisor)?)?;
                term = others.mul(of)?;
                break;
            }
        }
        result = result.add(&term)?;
    }
    Some(result)
}

/// Returns a proven lower bound of an expression over all extents in the ranges: the best of its
/// interval, of sums around corners of the ranges, and of bounds for its atoms.
fn lower_bound(expr: &DimExpr, ranges: &Ranges) -> Option<i128> {
    let bound = |of: &DimExpr| match least_of_few(of, ranges) {
        Some(least) => Some(least),
        None => Proof { ranges, effort: MAX_EFFORT }.lower_bound(of, MAX_STEPS),
    };
    // What all terms have in common is apart from roundings: 8*floor(N/4)-8*floor(N/8) is 8 times its bound.
    let Some(Common { rest, times, factors, plus }) = common(expr) else { return bound(expr) };
    let least = bound(&rest)?.checked_mul(times.into())?;
    let of_factors = factors.iter().try_fold(least, |least, factor| {
        let Interval { min, max } = interval_of(factor, ranges);
        least.checked_mul(if least >= 0 {
            min.filter(|min| *min >= 0)?
        } else {
            max.filter(|_| min >= Some(0))?
        })
    });
    let apart = of_factors.and_then(|least| least.checked_add(plus.into()));
    // A factor may be negative, or have no bound.
    if factors.is_empty() { apart } else { apart.max(bound(expr)) }
}

/// Returns the least value of an expression with quotients, minima or maxima of one symbol with few extents,
/// by computing all of them; `None` for other expressions.
fn least_of_few(expr: &DimExpr, ranges: &Ranges) -> Option<i128> {
    let is_atom = |factor: &Factor| matches!(factor, Factor::Atom(_));
    let has_several = expr.terms.len() > 1 && expr.terms.keys().flatten().any(is_atom);
    let symbol = if has_several { expr.only_symbol() } else { None }?;
    let range = ranges.get(symbol)?;
    let count = range.count().filter(|count| *count <= MAX_EXTENTS)?;
    let value = |step: u64| expr.value(&|_| Some(range.min + step * range.step));
    let (first, rest) = (value(0)?, 1..count);
    rest.map(value).try_fold(first, |least, value| Some(least.min(value?)))
}

/// An expression as `times * factors * rest + plus`.
struct Common {
    rest: DimExpr,
    times: i64,
    factors: Vec<Factor>,
    plus: i64,
}

/// Takes apart what all terms but the constant have in common; `None` if that is nothing, or there is one
/// term.
fn common(expr: &DimExpr) -> Option<Common> {
    let mut terms = expr.terms.iter().filter(|(factors, _)| !factors.is_empty());
    let (first, times) = terms.next()?;
    let (mut factors, mut times, mut is_single) = (first.clone(), times.unsigned_abs(), true);
    for (others, other) in terms {
        (times, is_single) = (gcd(times, other.unsigned_abs()), false);
        let mut left = others.clone();
        factors.retain(|factor| {
            left.iter().position(|other| other == factor).map(|at| left.remove(at)).is_some()
        });
    }
    (!is_single && (times > 1 || !factors.is_empty())).then_some(())?;
    let times = i64::try_from(times).ok()?;
    let mut rest = DimExpr::constant(0);
    for (own, value) in expr.terms.iter().filter(|(own, _)| !own.is_empty()) {
        let mut left = own.clone();
        for factor in &factors {
            left.remove(left.iter().position(|other| other == factor)?);
        }
        rest.terms.insert(left, value.checked_div(times)?);
    }
    let plus = expr.terms.get(&Vec::new()).copied().unwrap_or(0);
    Some(Common { rest, times, factors, plus })
}

/// Returns whether an expression has this value with all symbols at the lower or the upper ends of their
/// ranges. A bound that is reached is the best one, as for the sizes of most tensors, which grow with each
/// symbol.
fn is_reached(expr: &DimExpr, value: Option<i128>, ranges: &Ranges) -> bool {
    [true, false].into_iter().any(|is_upper| expr.at_end(is_upper, ranges) == value)
}

/// Returns a lower bound from sums around corners: each factor becomes its lower bound plus a distance,
/// or its upper bound minus a distance.
fn around_corners(expr: &DimExpr, ranges: &Ranges) -> Option<i128> {
    let mut factors: Vec<&Factor> = expr.terms.keys().flatten().collect();
    factors.sort();
    factors.dedup();
    let combined = factors.len().min(MAX_CORNERS);
    (0u32..1 << combined).filter_map(|choice| at_corner(expr, &factors, choice, ranges)).max()
}

/// Returns a lower bound from the sum around one corner. Bit `i` of `choice` selects the upper bound of
/// factor `i`.
fn at_corner(expr: &DimExpr, factors: &[&Factor], choice: u32, ranges: &Ranges) -> Option<i128> {
    let mut distances = Ranges::new();
    let shifted = expr.map_factors(&mut |factor| {
        let at = factors.iter().position(|other| *other == factor)?;
        let Interval { min, max } = interval_of(factor, ranges);
        let name = format!("d{at}");
        let size = min
            .zip(max)
            .and_then(|(min, max)| max.checked_sub(min))
            .and_then(|size| u64::try_from(size).ok());
        distances.insert(name.clone(), super::range::Range { min: 0, max: size, step: 1 });
        let distance = DimExpr::symbol(&name);
        let is_upper = u32::try_from(at).is_ok_and(|at| choice.checked_shr(at).unwrap_or(0) & 1 == 1);
        if is_upper {
            DimExpr::constant(i64::try_from(max?).ok()?).sub(&distance)
        } else {
            distance.plus(i64::try_from(min?).ok()?)
        }
    })?;
    shifted.interval(&distances).min
}

/// Splits an expression into the part that multiplies a factor and the rest; `None` if the factor occurs
/// with another power.
fn split_at(expr: &DimExpr, factor: &Factor) -> Option<(DimExpr, DimExpr)> {
    let (mut with, mut rest) = (DimExpr::constant(0), DimExpr::constant(0));
    for (monomial, value) in &expr.terms {
        let mut left = monomial.clone();
        match left.iter().position(|other| other == factor) {
            None => drop(rest.terms.insert(left, *value)),
            Some(at) => {
                left.remove(at);
                if left.contains(factor) {
                    return None;
                }
                with.terms.insert(left, *value);
            }
        }
    }
    Some((with, rest))
}

/// A search for a lower bound.
struct Proof<'a> {
    ranges: &'a Ranges,
    /// Number of expressions that the search may still bound.
    effort: u32,
}

impl Proof<'_> {
    fn lower_bound(&mut self, expr: &DimExpr, steps: u32) -> Option<i128> {
        let plain = expr.interval(self.ranges).min;
        let symbolic = expr.terms.keys().filter(|monomial| !monomial.is_empty()).count();
        let has_atom = expr.terms.keys().flatten().any(|factor| matches!(factor, Factor::Atom(_)));
        if (symbolic <= 1 && !has_atom)
            || self.effort == 0
            || plain.is_some() && is_reached(expr, plain, self.ranges)
        {
            return plain;
        }
        self.effort -= 1;
        let best = plain.max(around_corners(expr, self.ranges));
        if steps == 0 || best.is_some_and(|bound| bound >= 0) {
            return best;
        }
        best.max(self.by_atom(expr, steps - 1))
    }
    /// Whether an expression is provably never negative, by its interval and corners.
    fn is_extent(&mut self, expr: &DimExpr) -> bool {
        self.lower_bound(expr, 0).is_some_and(|bound| bound >= 0)
    }
    /// Returns a lower bound that replaces one atom by bounds of it.
    fn by_atom(&mut self, expr: &DimExpr, steps: u32) -> Option<i128> {
        let atom = expr.terms.keys().flatten().rev().find(|factor| matches!(factor, Factor::Atom(_)))?;
        let Factor::Atom(inner) = atom else { return None };
        match inner.as_ref() {
            Atom::Floor { of, by } => self.by_quotient(expr, atom, of, by.as_constant()?, steps),
            Atom::Min(operands) => self.by_operands(expr, atom, operands, true, steps),
            Atom::Max(operands) => self.by_operands(expr, atom, operands, false, steps),
        }
    }
    /// Uses `(p - k + 1)/k <= floor(p/k) <= p/k`, or exactly `p/k` if `k` always divides `p`: bounds the
    /// expression times `k`.
    fn by_quotient(
        &mut self,
        expr: &DimExpr,
        atom: &Factor,
        of: &DimExpr,
        by: i64,
        steps: u32,
    ) -> Option<i128> {
        let (with, rest) = split_at(expr, atom)?;
        let replaced = if of.is_multiple_of(by.unsigned_abs(), self.ranges) || self.is_extent(&with.neg()?) {
            of.clone()
        } else if self.is_extent(&with) {
            of.plus(1i64.checked_sub(by)?)?
        } else {
            return None;
        };
        let scaled = rest.times(by)?.add(&with.mul(&replaced)?)?;
        let (bound, by) = (self.lower_bound(&scaled, steps)?, i128::from(by.max(1)));
        // The expression is an integer: round up.
        bound.div_euclid(by).checked_add(i128::from(bound.rem_euclid(by) > 0))
    }
    /// A minimum equals one of its operands, so the worst operand gives a bound. If the minimum counts
    /// negatively, it is at most each operand, so the best operand gives one. Maxima are the mirror
    /// image.
    fn by_operands(
        &mut self,
        expr: &DimExpr,
        atom: &Factor,
        operands: &[DimExpr],
        is_min: bool,
        steps: u32,
    ) -> Option<i128> {
        let (with, rest) = split_at(expr, atom)?;
        let mut bounds = Vec::new();
        for operand in operands {
            let replaced = with.mul(operand).and_then(|product| product.add(&rest));
            bounds.push(replaced.and_then(|replaced| self.lower_bound(&replaced, steps)));
        }
        let counted = if is_min { with.neg()? } else { with };
        if self.is_extent(&counted) {
            bounds.into_iter().max().flatten()
        } else {
            bounds.into_iter().min().flatten()
        }
    }
}
