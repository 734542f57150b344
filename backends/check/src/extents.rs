//! Bounds of expressions over the extents that a layout states: intervals, and bisection of boxes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use memc_ir::{Atom, DimExpr, Domain, Factor, Limit, Range};
use memc_layout::Layout;
use memc_onnx_import::ImportOptions;

use crate::codes::Kind;
use crate::findings::{At, Findings};

/// Most boxes of a proof. Sizes of real models are monotone, so that a few boxes suffice; limits on products
/// take up to a few thousand.
const MAX_BOXES: usize = 20_000;
/// Most boxes of each step of a search for the least bound.
const BOXES_OF_A_STEP: usize = 500;
/// Most limits of a layout. Each box looks at all of them.
const MAX_LIMITS: usize = 64;

/// Smallest and largest value, both inclusive.
type Interval = (i128, i128);

/// Extents that symbols have in one box: smallest, largest, and distance of neighbors.
type Sides<'a> = BTreeMap<&'a str, (i128, i128, i128)>;

/// Extents of the free dimensions, as the layout states them.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    ranges: BTreeMap<String, Range>,
    limits: Vec<Limit>,
    equal: BTreeMap<String, DimExpr>,
    answers: Mutex<Answers>,
}

/// What was found: layers of a model ask alike.
#[derive(Debug, Default)]
struct Answers {
    simplified: HashMap<DimExpr, DimExpr>,
    at_most: HashMap<(DimExpr, i128), bool>,
}

impl Extents {
    /// Reads ranges, limits and equations of a layout. Reports malformed ones, and returns `None` then.
    pub(crate) fn of(layout: &Layout, findings: &mut Findings) -> Option<Self> {
        let model = &layout.model;
        Self::read(&model.ranges, &model.limits, &model.equal, &model.dims, "the layout", findings)
    }

    /// Reads what a file states of extents, as [`Self::of`] does.
    pub(crate) fn read(
        ranges: &BTreeMap<String, memc_layout::Extents>,
        limits: &[memc_layout::Limit],
        equal: &BTreeMap<String, String>,
        dims: &BTreeMap<String, u64>,
        file: &str,
        findings: &mut Findings,
    ) -> Option<Self> {
        let mut wrong: Vec<String> = Vec::new();
        let mut extents = Self::default();
        for (name, given) in ranges {
            let distance =
                given.max.checked_sub(given.min).and_then(|distance| distance.checked_rem(given.step));
            let is_countable = i64::try_from(given.max).is_ok();
            if distance != Some(0) || !is_countable || dims.contains_key(name) {
                wrong.push(format!(
                    "the range of `{name}`, from {} to {} by {}",
                    given.min, given.max, given.step
                ));
            }
            extents
                .ranges
                .insert(name.clone(), Range { min: given.min, max: Some(given.max), step: given.step });
        }
        for limit in limits.iter().take(MAX_LIMITS) {
            match DimExpr::parse_quoted(&limit.of) {
                Some(of) => extents.limits.push(Limit { of, most: limit.most }),
                None => wrong.push(format!("the limit `{}`", limit.of)),
            }
        }
        if limits.len() > MAX_LIMITS {
            wrong.push(format!("more than {MAX_LIMITS} limits"));
        }
        for (name, text) in equal {
            match DimExpr::parse_quoted(text) {
                Some(of) if !ranges.contains_key(name) => drop(extents.equal.insert(name.clone(), of)),
                _ => wrong.push(format!("the expression of `{name}`, `{text}`")),
            }
        }
        for what in &wrong {
            findings.add(
                Kind::Extents,
                At::default(),
                format!("{file} states extents that are not possible: {what}"),
            );
        }
        wrong.is_empty().then_some(extents)
    }

    /// Whether no dimension is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns options to import a model with these extents. An equation is left out if its symbol is not
    /// `open`.
    pub(crate) fn options(&self, dims: &BTreeMap<String, u64>, open: &BTreeSet<String>) -> ImportOptions {
        let equal = self.equal.iter().filter(|(name, _)| open.contains(*name));
        ImportOptions {
            dims: dims.clone(),
            ranges: self.ranges.clone(),
            limits: self.limits.clone(),
            equal: equal.map(|(name, of)| (name.clone(), of.clone())).collect(),
            allow_unbound: true,
            ..ImportOptions::default()
        }
    }

    /// Returns an expression that is equal for all extents in the ranges.
    pub(crate) fn simplified(&self, of: &DimExpr) -> DimExpr {
        let known = self.answers.lock().ok().and_then(|answers| answers.simplified.get(of).cloned());
        known.unwrap_or_else(|| {
            let simpler = of.simplified(&self.ranges);
            if let Ok(mut answers) = self.answers.lock() {
                answers.simplified.insert(of.clone(), simpler.clone());
            }
            simpler
        })
    }

    /// Returns these extents without those above `most`; `None` if it names a dimension that is not free.
    pub(crate) fn up_to(&self, most: &BTreeMap<String, u64>) -> Option<Self> {
        let mut ranges = self.ranges.clone();
        for (name, most) in most {
            let range = ranges.get_mut(name)?;
            let most = range.max.unwrap_or(*most).min(*most);
            let beyond = most.saturating_sub(range.min).checked_rem(range.step).unwrap_or(0);
            range.min = range.min.min(most);
            range.max = Some(most.saturating_sub(beyond).max(range.min));
        }
        Some(Self { ranges, limits: self.limits.clone(), equal: self.equal.clone(), ..Self::default() })
    }

    /// Returns these extents without a dimension of at least one position, and its range. `None` if other
    /// extents are tied to the dimension.
    pub(crate) fn without(&self, name: &str) -> Option<(Self, Range)> {
        let mut ranges = self.ranges.clone();
        let range = ranges.remove(name).filter(|range| range.min > 0)?;
        let is_named = |of: &DimExpr| of.symbols().iter().any(|symbol| symbol.as_ref() == name);
        let is_tied = self.limits.iter().map(|limit| &limit.of).chain(self.equal.values()).any(is_named);
        let others =
            Self { ranges, limits: self.limits.clone(), equal: self.equal.clone(), ..Self::default() };
        (!is_tied).then_some((others, range))
    }

    /// Returns these extents with a dimension of at least one and at most `most` positions, as those `before`
    /// one position, this one, and those `after` it; and that sum. `None` if a name is taken.
    pub(crate) fn around_one(&self, most: Option<u64>, before: &str, after: &str) -> Option<(Self, DimExpr)> {
        let mut ranges = self.ranges.clone();
        let others = Range { min: 0, max: most.and_then(|most| most.checked_sub(1)), step: 1 };
        for other in [before, after] {
            ranges.insert(other.to_owned(), others).is_none().then_some(())?;
        }
        let sum = DimExpr::symbol(before).add(&DimExpr::constant(1))?.add(&DimExpr::symbol(after))?;
        Some((
            Self { ranges, limits: self.limits.clone(), equal: self.equal.clone(), ..Self::default() },
            sum,
        ))
    }

    /// Returns the domain of a module with these extents.
    pub(crate) fn domain(&self) -> Domain {
        Domain { ranges: self.ranges.clone(), limits: self.limits.clone() }
    }

    /// Returns the extents of dimensions that equal an expression.
    pub(crate) fn equal(&self, name: &str) -> Option<&DimExpr> {
        self.equal.get(name)
    }

    /// Returns the smallest and the largest extents, where these keep the limits.
    pub(crate) fn ends(&self) -> Vec<BTreeMap<String, u64>> {
        let point = |choose: fn(&Range) -> u64| {
            self.ranges.iter().map(|(name, range)| (name.clone(), choose(range))).collect()
        };
        let ends: [BTreeMap<String, u64>; 2] =
            [point(|range| range.min), point(|range| range.max.unwrap_or(range.min))];
        let keeps = |point: &BTreeMap<String, u64>| {
            let value = |limit: &Limit| limit.of.bind(point).and_then(|value| value.as_constant());
            self.limits
                .iter()
                .all(|limit| value(limit).is_some_and(|value| i128::from(value) <= limit.most.into()))
        };
        let mut ends: Vec<_> = ends.into_iter().filter(keeps).collect();
        ends.dedup();
        ends
    }

    /// Returns the smallest and the largest extents, and some between them.
    pub(crate) fn points(&self) -> Vec<BTreeMap<String, u64>> {
        let mut points = self.ends();
        points.extend(self.domain().probes());
        points
    }

    /// Returns the least upper bound that is provable; `None` if a symbol has no range.
    pub(crate) fn most(&self, of: &DimExpr) -> Option<i128> {
        let (mut low, mut high) = (self.reached(of), self.highest(of)?);
        if self.at_most(of, low) {
            return Some(low);
        }
        low = low.max(-1);
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if self.is_within(of, middle, BOXES_OF_A_STEP) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Returns the box of all extents.
    fn sides(&self) -> Sides<'_> {
        let side =
            |range: &Range| (range.min.into(), range.max.unwrap_or(range.min).into(), range.step.into());
        self.ranges.iter().map(|(name, range)| (name.as_str(), side(range))).collect()
    }

    /// Upper bound over the box of all extents, regardless of limits; `None` if a symbol has no range.
    pub(crate) fn highest(&self, of: &DimExpr) -> Option<i128> {
        both(of, turned(of).as_ref(), &self.sides()).map(|(_, most)| most)
    }

    /// Lower bound over the box of all extents, regardless of limits; `None` if a symbol has no range.
    pub(crate) fn lowest(&self, of: &DimExpr) -> Option<i128> {
        both(of, turned(of).as_ref(), &self.sides()).map(|(least, _)| least)
    }

    /// Returns the largest value at corners of the box that keep the limits: a lower bound of the maximum.
    pub(crate) fn reached(&self, of: &DimExpr) -> i128 {
        let symbols: Vec<_> = of.symbols();
        let sides = self.sides();
        let mut reached = i128::MIN;
        // Two corners of each symbol, for at most eight symbols; the others stay at their smallest extent.
        for corner in 0..1u32 << symbols.len().min(8) {
            let mut point: Sides<'_> =
                sides.iter().map(|(name, side)| (*name, (side.0, side.0, 1))).collect();
            for (bit, symbol) in symbols.iter().enumerate().take(8) {
                if let Some((name, side)) = sides.get_key_value(symbol.as_ref())
                    && corner >> bit & 1 == 1
                {
                    point.insert(*name, (side.1, side.1, 1));
                }
            }
            if self.limits.iter().all(|limit| holds_within(limit, &point)) {
                reached = reached.max(interval(of, &point).map_or(i128::MIN, |(least, _)| least));
            }
        }
        reached
    }

    /// Whether a value is at most `most` for all extents: each box either proves it or is cut in two, and
    /// boxes without extents that keep the limits are left out. False if this is not provable.
    pub(crate) fn at_most(&self, of: &DimExpr, most: i128) -> bool {
        let key = (of.clone(), most);
        let known = self.answers.lock().ok().and_then(|answers| answers.at_most.get(&key).copied());
        known.unwrap_or_else(|| {
            let holds = self.is_within(of, most, MAX_BOXES);
            if let Ok(mut answers) = self.answers.lock() {
                answers.at_most.insert(key, holds);
            }
            holds
        })
    }

    fn is_within(&self, of: &DimExpr, most: i128, boxes: usize) -> bool {
        let mut open = vec![self.sides()];
        let mut left = boxes;
        let other = turned(of);
        while let Some(sides) = open.pop() {
            let Some((_, highest)) = both(of, other.as_ref(), &sides) else { return false };
            let bounded = self.limits.iter().filter_map(|limit| below_limit(of, limit, &sides)).min();
            if highest.min(bounded.unwrap_or(highest)) <= most {
                continue;
            }
            let is_possible = |limit: &Limit| {
                interval(&limit.of, &sides).is_none_or(|(least, _)| least <= limit.most.into())
            };
            if !self.limits.iter().all(is_possible) {
                continue;
            }
            left = left.saturating_sub(1);
            let unsure = self
                .limits
                .iter()
                .filter(|limit| !holds_within(limit, &sides))
                .flat_map(|limit| limit.of.symbols());
            let symbols: BTreeSet<_> = of.symbols().into_iter().chain(unsure).collect();
            let count = |(least, most, step): (i128, i128, i128)| (most - least) / step.max(1);
            let widest = symbols.iter().filter_map(|symbol| sides.get_key_value(symbol.as_ref()));
            let widest = widest.max_by_key(|(_, side)| count(**side)).filter(|(_, side)| count(**side) > 0);
            let Some((name, (low, high, step))) = widest.filter(|_| left > 0) else { return false };
            let middle = low + count((*low, *high, *step)) / 2 * step;
            for half in [(*low, middle, *step), (middle + step, *high, *step)] {
                let mut part = sides.clone();
                part.insert(*name, half);
                open.push(part);
            }
        }
        true
    }

    /// Whether a value is at most another one for all extents; false if this takes a long proof.
    pub(crate) fn plainly_in_order(&self, small: &DimExpr, big: &DimExpr) -> bool {
        small == big || small.sub(big).is_some_and(|distance| self.is_within(&distance, 0, BOXES_OF_A_STEP))
    }

    /// Whether a value is at most another one for all extents; false if this is not provable.
    pub(crate) fn in_order(&self, small: &DimExpr, big: &DimExpr) -> bool {
        small.sub(big).is_some_and(|distance| self.at_most(&distance, 0))
    }
}

/// Whether a limit holds for all extents of a box.
fn holds_within(limit: &Limit, sides: &Sides<'_>) -> bool {
    interval(&limit.of, sides).is_some_and(|(_, most)| most <= limit.most.into())
}

/// Upper bound of a value in a box where the limit holds: the limit's only product, where it divides a
/// term, is at most its limit. `None` if the limit is not a product of symbols.
fn below_limit(of: &DimExpr, limit: &Limit, sides: &Sides<'_>) -> Option<i128> {
    let mut product = limit.of.terms();
    let (factors, value) = product.next().filter(|(_, value)| *value > 0)?;
    let is_product =
        product.next().is_none() && factors.iter().all(|factor| matches!(factor, Factor::Symbol(_)));
    let most = i128::from(limit.most).checked_div(value.into()).filter(|_| is_product)?;
    of.terms().try_fold(0i128, |sum, (all, value)| {
        let mut rest = all.to_vec();
        let mut is_part = value > 0;
        for factor in factors {
            match rest.iter().position(|other| other == factor) {
                Some(at) => drop(rest.remove(at)),
                None => is_part = false,
            }
        }
        let own = term(all, value, sides)?.1;
        let bounded = if is_part { term(&rest, value, sides)?.1.max(0).checked_mul(most)? } else { own };
        sum.checked_add(own.min(bounded))
    })
}

/// Returns an equal expression whose quotients count from the other end: `floor(p/k)` is
/// `p - floor(((k-1)*p + k-1)/k)`, because what rounding down leaves of `p` rounding the rest up takes.
/// `None` if there is no quotient by a number, or the expression grows too large.
fn turned(of: &DimExpr) -> Option<DimExpr> {
    let mut is_turned = false;
    let mut factor = |factor: &Factor| match factor {
        Factor::Symbol(name) => Some(DimExpr::symbol(name)),
        Factor::Atom(atom) => match atom.as_ref() {
            Atom::Min(operands) => DimExpr::min_of(operands.clone()),
            Atom::Max(operands) => DimExpr::max_of(operands.clone()),
            Atom::Floor { of, by } => {
                let Some(rest) = by.as_constant().and_then(|by| by.checked_sub(1)) else {
                    return of.floor_div(by);
                };
                is_turned = true;
                let rest = DimExpr::constant(rest);
                of.sub(&of.mul(&rest)?.add(&rest)?.floor_div(by)?)
            }
        },
    };
    let mut sum = DimExpr::constant(0);
    for (factors, value) in of.terms() {
        let product =
            factors.iter().try_fold(DimExpr::constant(value), |product, own| product.mul(&factor(own)?))?;
        sum = sum.add(&product)?;
    }
    is_turned.then_some(sum)
}

/// Returns an interval that contains the value of two equal expressions.
fn both(of: &DimExpr, other: Option<&DimExpr>, sides: &Sides<'_>) -> Option<Interval> {
    let own = interval(of, sides)?;
    let other = other.and_then(|other| interval(other, sides)).unwrap_or(own);
    Some((own.0.max(other.0), own.1.min(other.1)))
}

/// Returns an interval that contains the value for all extents of a box; `None` if a symbol has no side, or
/// on overflow.
fn interval(of: &DimExpr, sides: &Sides<'_>) -> Option<Interval> {
    of.terms().try_fold((0i128, 0i128), |sum, (factors, value)| {
        let (least, most) = term(factors, value, sides)?;
        Some((sum.0.checked_add(least)?, sum.1.checked_add(most)?))
    })
}

/// Returns the interval of a product of factors and a coefficient.
fn term(factors: &[Factor], value: i64, sides: &Sides<'_>) -> Option<Interval> {
    factors.iter().try_fold((value.into(), value.into()), |product: Interval, factor| {
        let (least, most) = of_factor(factor, sides)?;
        let all = [
            product.0.checked_mul(least)?,
            product.0.checked_mul(most)?,
            product.1.checked_mul(least)?,
            product.1.checked_mul(most)?,
        ];
        Some((all.into_iter().min()?, all.into_iter().max()?))
    })
}

fn of_factor(factor: &Factor, sides: &Sides<'_>) -> Option<Interval> {
    let atom = match factor {
        Factor::Symbol(name) => return sides.get(name.as_ref()).map(|(least, most, _)| (*least, *most)),
        Factor::Atom(atom) => atom.as_ref(),
    };
    let ends = |operands: &[DimExpr], choose: fn(i128, i128) -> i128| {
        let all: Option<Vec<Interval>> = operands.iter().map(|operand| interval(operand, sides)).collect();
        all?.into_iter().reduce(|a, b| (choose(a.0, b.0), choose(a.1, b.1)))
    };
    match atom {
        // A kernel divides by extents of at least 1 only.
        Atom::Floor { of, by } => {
            let (of, by) = (interval(of, sides)?, interval(by, sides)?);
            let (small, large) = (by.0.max(1), by.1.max(1));
            let quotients = |end: i128| [end.div_euclid(small), end.div_euclid(large)];
            Some((quotients(of.0).into_iter().min()?, quotients(of.1).into_iter().max()?))
        }
        Atom::Min(operands) => ends(operands, i128::min),
        Atom::Max(operands) => ends(operands, i128::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(ranges: &[(&str, &str)], limits: &[&str]) -> Extents {
        Extents {
            ranges: ranges
                .iter()
                .filter_map(|(name, range)| Some(((*name).to_owned(), range.parse().ok()?)))
                .collect(),
            limits: limits.iter().filter_map(|limit| limit.parse().ok()).collect(),
            ..Extents::default()
        }
    }

    /// Returns all values that an expression over `h` and `w` has.
    fn values(of: &DimExpr, extents: &Extents) -> Vec<i128> {
        let all = |name: &str| {
            let range = extents.ranges[name];
            (range.min..=range.max.unwrap_or(0)).step_by(usize::try_from(range.step).unwrap_or(1))
        };
        let points = all("h")
            .flat_map(|h| all("w").map(move |w| BTreeMap::from([("h".to_owned(), h), ("w".to_owned(), w)])));
        let keeps = |point: &BTreeMap<String, u64>| {
            let value = |limit: &Limit| limit.of.bind(point).and_then(|value| value.as_constant());
            extents
                .limits
                .iter()
                .all(|limit| value(limit).is_some_and(|value| i128::from(value) <= limit.most.into()))
        };
        let value = |point: BTreeMap<String, u64>| {
            of.bind(&point).and_then(|value| value.as_constant()).map(i128::from)
        };
        points.filter(keeps).filter_map(value).collect()
    }

    #[test]
    fn the_least_provable_bound_is_the_maximum() {
        let texts = [
            "h",
            "4*h*w",
            "10-h",
            "h*(40-h)",
            "floor((h-1)/2)*w",
            "h-floor(h/2)",
            "min(h,12)*w",
            "max(w-h,0)",
            "h*w-3*h",
            "0",
            "7",
            "floor(w/(h+1))",
            "floor((h+w-3)/5)*max(h-20,1)",
            "5*min(h,w)-2*max(h,w)",
            "(h-floor(3*h/4))*(w-floor(3*w/4))",
            "4*h-4*floor((3*h+1)/4)+w",
        ];
        let domains = [
            extents(&[("h", "0..40"), ("w", "1..17")], &[]),
            extents(&[("h", "32..96/32"), ("w", "5..5")], &[]),
            extents(&[("h", "1..60"), ("w", "1..60")], &["h*w<=300"]),
            extents(&[("h", "1..60"), ("w", "2..60/2")], &["h+2*w<=70", "h*w<=500"]),
        ];
        for domain in &domains {
            for text in texts {
                let of = DimExpr::parse(text).unwrap_or_else(|| DimExpr::constant(0));
                let all = values(&of, domain);
                let (Some(most), Some(least)) = (all.iter().max(), all.iter().min()) else { continue };
                assert!(domain.at_most(&of, *most), "{text} <= {most} in {domain:?}");
                assert!(!domain.at_most(&of, most - 1), "{text} < {most} in {domain:?}");
                assert!(domain.highest(&of).is_some_and(|bound| bound >= *most), "{text}");
                assert!(domain.lowest(&of).is_some_and(|bound| bound <= *least), "{text}");
                assert!(domain.reached(&of) <= *most, "{text}");
                assert!(domain.most(&of).is_some_and(|bound| bound >= *most), "{text} in {domain:?}");
            }
        }
    }

    #[test]
    fn unknown_symbols_and_overflow_prove_nothing() {
        let domain = extents(&[("h", "0..9223372036854775807")], &[]);
        let parse = |text: &str| DimExpr::parse(text).unwrap_or_else(|| DimExpr::constant(0));
        assert!(!domain.at_most(&parse("n"), i128::MAX));
        assert!(!domain.at_most(&parse("h*h*h*h"), i128::MAX));
        assert!(domain.at_most(&parse("h-h"), 0) && domain.at_most(&parse("3-h"), 3));
    }

    #[test]
    fn hard_proofs_end() {
        let domain =
            extents(&[("a", "0..1000000"), ("b", "0..1000000"), ("c", "0..1000000")], &["a*b+c<=999"]);
        let of = DimExpr::parse("a*b*b-c*b+floor(a/7)*c").unwrap_or_else(|| DimExpr::constant(0));
        assert!(!domain.at_most(&of, 12));
    }
}
