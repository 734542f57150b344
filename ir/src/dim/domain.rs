//! Extents that symbols may have together: ranges, and limits on expressions over several symbols.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::expr::DimExpr;
use super::range::{Range, Ranges};

/// Most boxes that a bound under limits looks at.
const MAX_BOXES: usize = 512;

/// A limit: an expression over symbols is at most a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The expression.
    pub of: DimExpr,
    /// Largest value of the expression.
    pub most: u64,
}

/// A text that is no limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is not a limit; write `height*width<=921600`")]
pub struct LimitError {
    /// The text.
    pub text: String,
}

impl FromStr for Limit {
    type Err = LimitError;

    /// Reads `height*width<=921600`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let error = || LimitError { text: text.to_owned() };
        let (of, most) = text.split_once("<=").ok_or_else(error)?;
        let of = DimExpr::parse(of.trim()).filter(|of| of.as_constant().is_none()).ok_or_else(error)?;
        Ok(Self { of, most: most.trim().parse().map_err(|_| error())? })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<={}", self.of, self.most)
    }
}

/// Extents that symbols may have together. A symbol without a range has every extent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Domain {
    /// Extents of each symbol.
    pub ranges: Ranges,
    /// Limits on expressions over them.
    pub limits: Vec<Limit>,
}

impl Domain {
    /// Whether nothing is known about any symbol.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.limits.is_empty()
    }
    /// Whether symbols with these extents keep all ranges and limits. A missing symbol keeps its range.
    pub fn contains(&self, extents: &BTreeMap<String, u64>) -> bool {
        let in_range = |(name, extent): (&String, &u64)| {
            self.ranges.get(name).is_none_or(|range| range.contains(*extent))
        };
        let value = |of: &DimExpr| of.bind(extents).and_then(|bound| bound.as_constant());
        let keeps =
            |limit: &Limit| value(&limit.of).is_none_or(|value| i128::from(value) <= i128::from(limit.most));
        extents.iter().all(in_range) && self.limits.iter().all(keeps)
    }
    /// Returns points of the domain that tell apart expressions which are not equal for all extents: the
    /// largest extents, their neighbors, and points of the upper halves, since extents of 0 and 1 make
    /// many expressions equal. Symbols without an upper bound stay below 100.
    pub fn probes(&self) -> Vec<BTreeMap<String, u64>> {
        const SPREAD: [u64; 5] = [997, 613, 389, 241, 149];
        let extent = |range: &Range, back: u64| {
            let count = range.count().unwrap_or(100).max(1);
            range.min + (count - 1 - back.min(count - 1)) * range.step
        };
        let near = (0..4).map(|back: u64| self.probe(&|at, range| extent(range, back + at % 3)));
        let between = SPREAD.iter().map(|share| {
            self.probe(&|at, range| {
                let upper_half = range.count().unwrap_or(100) / 2;
                extent(
                    range,
                    (u128::from(upper_half) * u128::from((share * (2 * at + 3)) % 1000) / 1000) as u64,
                )
            })
        });
        let largest = std::iter::once(self.probe(&|_, range| extent(range, 0)));
        let mut all: Vec<BTreeMap<String, u64>> = largest.chain(near).chain(between).collect();
        all.dedup();
        let kept: Vec<BTreeMap<String, u64>> =
            all.iter().filter(|point| self.contains(point)).cloned().collect();
        // Limits may leave out every point: points beyond them tell expressions apart as well.
        if kept.is_empty() { all } else { kept }
    }
    fn probe(&self, extent: &dyn Fn(u64, &Range) -> u64) -> BTreeMap<String, u64> {
        (0..).zip(&self.ranges).map(|(at, (name, range))| (name.clone(), extent(at, range))).collect()
    }
    /// Returns an upper bound of an expression over the domain; `None` if there is none.
    ///
    /// Without limits this is the bound over the ranges. With limits, the box of all ranges is cut in
    /// halves, along the symbols of the limits, and boxes in which a limit cannot hold are left out (branch
    /// and bound). The bound is exact if these boxes become points before 512 of them were looked at.
    pub fn most(&self, of: &DimExpr) -> Option<i128> {
        let bound = |ranges: &Ranges| of.upper_bound(ranges);
        let mut open = vec![(bound(&self.ranges)?, self.ranges.clone())];
        for _ in 0..MAX_BOXES {
            let at = (0..open.len()).max_by_key(|at| open.get(*at).map(|(most, _)| *most))?;
            let (most, ranges) = open.get(at)?.clone();
            let unsure: Vec<&Limit> = self.limits.iter().filter(|limit| !limit.holds_in(&ranges)).collect();
            let symbols = unsure.iter().flat_map(|limit| limit.of.symbols());
            let widest =
                symbols.filter_map(|symbol| Some((ranges.get(symbol.as_ref())?.count()?, symbol))).max();
            let Some((_, symbol)) = widest.filter(|(count, _)| *count > 1) else { return Some(most) };
            open.swap_remove(at);
            for half in ranges.get(symbol.as_ref()).map(Range::halves).into_iter().flatten() {
                let mut part = ranges.clone();
                part.insert(symbol.to_string(), half);
                let is_possible = |limit: &Limit| {
                    limit.of.bounds(&part).min.is_none_or(|least| least <= i128::from(limit.most))
                };
                if self.limits.iter().all(is_possible)
                    && let Some(most) = bound(&part)
                {
                    open.push((most, part));
                }
            }
        }
        open.iter().map(|(most, _)| *most).max()
    }
}

impl Limit {
    /// Whether the limit holds for all extents in these ranges.
    fn holds_in(&self, ranges: &Ranges) -> bool {
        self.of.upper_bound(ranges).is_some_and(|most| most <= i128::from(self.most))
    }
}

impl Range {
    /// Number of extents; `None` without an upper bound.
    pub fn count(&self) -> Option<u64> {
        let distance = self.max?.checked_sub(self.min)?;
        Some(distance.checked_div(self.step)?.saturating_add(1))
    }
    /// Returns two ranges with the lower and the upper half of the extents; the first has at least one more
    /// if their number is odd. A range without an upper bound, or with one extent, comes back alone.
    fn halves(&self) -> Vec<Self> {
        let Some((count, max)) = self.count().zip(self.max).filter(|(count, _)| *count > 1) else {
            return vec![*self];
        };
        let middle = self.min + (count.div_ceil(2) - 1) * self.step;
        let part =
            |min: u64, max: u64| Self { min, max: Some(max), step: if min == max { 1 } else { self.step } };
        vec![part(self.min, middle), part(middle + self.step, max)]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn domain(ranges: &[(&str, &str)], limits: &[&str]) -> Domain {
        Domain {
            ranges: ranges.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect(),
            limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn bounds_under_limits_are_between_the_truth_and_the_box() {
        let (steps, limit) = ("32..1280/32", "h*w<=921600");
        let domain = domain(&[("h", steps), ("w", steps)], &[limit]);
        for text in ["h*w", "3*h*w", "h+w", "floor((h-1)/2)*w", "h"] {
            let of = DimExpr::parse(text).unwrap();
            let all = (1..=40)
                .flat_map(|h| (1..=40).map(move |w| (32 * h, 32 * w)))
                .filter(|(h, w)| h * w <= 921_600);
            let value =
                |(h, w)| of.bind(&BTreeMap::from([("h".to_owned(), h), ("w".to_owned(), w)])).unwrap();
            let truth = all.map(|point| value(point).as_constant().unwrap()).max().unwrap();
            let found = domain.most(&of).unwrap();
            assert!(i128::from(truth) <= found, "{text}");
            assert!(found * 100 <= i128::from(truth) * 104, "{text}: {found} for {truth}");
        }
        assert_eq!(domain.most(&DimExpr::parse("h*w").unwrap()), Some(921_600));
        assert_eq!(domain.most(&DimExpr::parse("n").unwrap()), None);
    }

    #[test]
    fn points_are_tested() {
        let domain = domain(&[("h", "32..96/32")], &["h*w<=300"]);
        let contains =
            |h: u64, w: u64| domain.contains(&BTreeMap::from([("h".to_owned(), h), ("w".to_owned(), w)]));
        assert!(contains(32, 9) && contains(96, 3));
        assert!(!contains(32, 10) && !contains(33, 1) && !contains(128, 1));
    }

    #[test]
    fn limits_parse_and_print() {
        assert_eq!("w*h <= 12".parse::<Limit>().unwrap().to_string(), "h*w<=12");
        for wrong in ["h*w", "h*w<12", "3<=12", "h*w<=-1", "h w<=3"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
        }
    }
}
