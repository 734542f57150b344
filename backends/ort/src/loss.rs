//! Errors of plans that round values or weights: distances of outputs from the expected ones, relative to
//! their size, in the Euclidean norm.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::Sum;

use crate::arrays::TensorView;
use crate::compare::{Difference, Tolerances, compare, number};
use crate::content::Content;
use crate::element::Element;

/// Relative error of one output, the largest of all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputLoss {
    /// Name of the output.
    pub output: String,
    /// Norm of the difference, as a share of the norm of the expected numbers. Infinite if a number
    /// differs from infinity or NaN, or if all expected numbers are zero.
    pub relative: f64,
}

/// Relative errors of a plan that rounds values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// Allowed relative error over all outputs.
    pub bound: f64,
    /// Relative error over all outputs together, the largest of all rounds.
    pub global: f64,
    outputs: BTreeMap<String, f64>,
}

/// Squares of norms.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    error: f64,
    size: f64,
}

impl Squares {
    fn relative(self) -> f64 {
        let relative = (self.error / self.size).sqrt();
        // Squares of large numbers may be infinite.
        let is_number = self.error.is_finite() && self.size.is_finite() && self.size > 0.0;
        if self.error == 0.0 {
            0.0
        } else if is_number {
            relative
        } else {
            f64::INFINITY
        }
    }
}

impl Sum for Squares {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |all, part| Self {
            error: all.error + part.error,
            size: all.size + part.size,
        })
    }
}

impl Loss {
    /// Creates an empty comparison with an allowed relative error.
    pub(crate) fn new(bound: f64) -> Self {
        Self { bound, ..Self::default() }
    }

    /// Whether the relative error over all outputs is allowed.
    pub fn is_within(&self) -> bool {
        self.global <= self.bound
    }

    /// Returns the errors of all outputs of floating-point numbers, the largest first.
    pub fn outputs(&self) -> Vec<OutputLoss> {
        let row =
            |(output, relative): (&String, &f64)| OutputLoss { output: output.clone(), relative: *relative };
        let mut rows: Vec<OutputLoss> = self.outputs.iter().map(row).collect();
        rows.sort_by(|a, b| b.relative.partial_cmp(&a.relative).unwrap_or(Ordering::Equal));
        rows
    }

    /// Adds the outputs of a round. Returns the differences of outputs that are not arrays of
    /// floating-point numbers of the expected shape.
    pub(crate) fn add(
        &mut self,
        expected: &BTreeMap<String, Content<'_>>,
        found: &BTreeMap<String, Content<'_>>,
        tolerances: &Tolerances,
    ) -> Vec<Difference> {
        let mut all = Squares::default();
        let mut measured = Vec::new();
        for (name, content) in expected {
            let Some(squares) = found.get(name).and_then(|found| squares(content, found)) else { continue };
            all = [all, squares].into_iter().sum();
            let worst = self.outputs.entry(name.clone()).or_default();
            *worst = worst.max(squares.relative());
            measured.push(name.as_str());
        }
        self.global = self.global.max(all.relative());
        let mut differences = compare(expected, found, tolerances);
        // Differences of sequences name an element: `output[0]`.
        let is_measured = |output: &str| match expected.contains_key(output) {
            true => measured.contains(&output),
            false => output.rsplit_once('[').is_some_and(|(name, _)| measured.contains(&name)),
        };
        differences.retain(|difference| !is_measured(&difference.output));
        differences
    }
}

/// Returns the squares of two arrays of floating-point numbers, or of sequences of them; `None` for
/// other types and if the lengths or shapes differ.
fn squares(expected: &Content<'_>, found: &Content<'_>) -> Option<Squares> {
    if let (Content::Sequence(expected), Content::Sequence(found)) = (expected, found) {
        if expected.len() != found.len() {
            return None;
        }
        let parts = expected.iter().zip(found).map(|(expected, found)| squares(expected, found));
        return parts.sum();
    }
    let (expected, found) = expected.tensor().zip(found.tensor())?;
    of_arrays(&expected, &found)
}

/// Returns the squares of two arrays of floating-point numbers; `None` for other types and if the shapes
/// differ. Equal bits are no error.
fn of_arrays(expected: &TensorView<'_>, found: &TensorView<'_>) -> Option<Squares> {
    if expected.element != found.element || expected.shape != found.shape || !is_float(expected.element) {
        return None;
    }
    let ty = expected.element.data_type();
    let mut squares = Squares::default();
    for (a, b) in expected.elements().zip(found.elements()) {
        let (wanted, got) = number(ty, a).zip(number(ty, b))?;
        if wanted.is_finite() {
            squares.size += wanted * wanted;
        }
        if a != b && !(wanted.is_nan() && got.is_nan()) {
            let gap = wanted - got;
            squares.error += if gap.is_finite() { gap * gap } else { f64::INFINITY };
        }
    }
    Some(squares)
}

fn is_float(element: Element) -> bool {
    ["float", "double", "float16", "bfloat16"]
        .into_iter()
        .any(|name| Element::from_name(name) == Some(element))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    fn content<'a>(name: &str, bytes: &'a [u8], width: u64) -> Content<'a> {
        let element = Element::from_name(name).expect("a type of arrays");
        Content::View(TensorView { element, shape: vec![bytes.len() as u64 / width], bytes })
    }

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Returns the outputs `y` and `z`.
    fn outputs(all: &[Vec<u8>; 2]) -> BTreeMap<String, Content<'_>> {
        let named = ["y", "z"].map(str::to_owned).into_iter().zip(all);
        named.map(|(name, bytes)| (name, content("float", bytes, 4))).collect()
    }

    /// Returns the loss of one round with outputs `y` and `z`.
    fn loss(expected: [&[f32]; 2], found: [&[f32]; 2]) -> Loss {
        let (expected, found) = (expected.map(bytes), found.map(bytes));
        let mut loss = Loss::new(1e-2);
        assert_eq!(loss.add(&outputs(&expected), &outputs(&found), &Tolerances::default()), []);
        loss
    }

    #[test]
    fn errors_are_relative_to_each_output_and_to_all_together() {
        let found = loss([&[3.0, 4.0], &[0.0, 12.0]], [&[3.0, 4.5], &[0.0, 12.0]]);
        let rows = found.outputs();
        assert_eq!((rows[0].output.as_str(), rows[0].relative), ("y", 0.1));
        assert_eq!((rows[1].output.as_str(), rows[1].relative), ("z", 0.0));
        assert!((found.global - 0.5 / 13.0).abs() < 1e-12 && !found.is_within());
        assert!(loss([&[100.0], &[1.0]], [&[100.0], &[1.5]]).is_within());
        assert_eq!(loss([&[1.0], &[0.0]], [&[1.0], &[0.001]]).outputs()[0].relative, f64::INFINITY);
    }

    #[test]
    fn infinity_and_nan_are_errors_unless_expected() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(loss([&[inf, 1.0], &[nan]], [&[inf, 1.0], &[-nan]]).global, 0.0);
        for (expected, found) in [(1.0, nan), (nan, 1.0), (inf, 1.0), (1.0, inf), (inf, -inf)] {
            let found = loss([&[expected, 1.0], &[1.0]], [&[found, 1.0], &[1.0]]);
            assert!(!found.is_within() && found.global == f64::INFINITY, "{expected}: {found:?}");
        }
    }

    #[test]
    fn squares_beyond_all_numbers_hide_no_error() {
        let numbers = |numbers: [f64; 2]| numbers.map(f64::to_le_bytes).concat();
        let (expected, found) = (numbers([1e200, 1.0]), numbers([1e200, 2.0]));
        let outputs = |bytes| BTreeMap::from([("y".to_owned(), content("double", bytes, 8))]);
        let mut loss = Loss::new(1e-2);
        loss.add(&outputs(&expected), &outputs(&found), &Tolerances::default());
        assert!(!loss.is_within());
    }

    #[test]
    fn sequences_are_measured_as_one_output() {
        let sequence = |parts: &[&'static [u8]]| {
            let parts = parts.iter().map(|part| content("float16", part, 2)).collect();
            BTreeMap::from([("s".to_owned(), Content::Sequence(parts))])
        };
        let (one, more): (&[u8], &[u8]) = (&[0, 0x3c], &[0, 0x3e]);
        let expected = sequence(&[one, one]);
        let mut loss = Loss::new(1e-2);
        assert_eq!(loss.add(&expected, &sequence(&[one, more]), &Tolerances::default()), []);
        assert_eq!((loss.global, loss.outputs()[0].output.as_str()), (0.125f64.sqrt(), "s"));
        // Another length is a difference.
        assert_eq!(loss.add(&expected, &sequence(&[one]), &Tolerances::default()).len(), 1);
    }

    #[test]
    fn the_worst_round_counts_and_integers_are_compared_bit_for_bit() {
        let round = |y: &'static [u8], n: &'static [u8]| {
            BTreeMap::from([
                ("n".to_owned(), content("int64", n, 8)),
                ("y".to_owned(), content("float16", y, 2)),
            ])
        };
        let one = round(&[0, 0x3c], &[1, 0, 0, 0, 0, 0, 0, 0]);
        let mut loss = Loss::new(1e-2);
        assert_eq!(loss.add(&one, &round(&[0, 0x3e], &[1, 0, 0, 0, 0, 0, 0, 0]), &Tolerances::default()), []);
        let differences =
            loss.add(&one, &round(&[0, 0x3c], &[2, 0, 0, 0, 0, 0, 0, 0]), &Tolerances::default());
        assert_eq!(
            differences.iter().map(|difference| difference.output.as_str()).collect::<Vec<_>>(),
            ["n"]
        );
        assert_eq!((loss.global, loss.outputs().len()), (0.5, 1));
        // Shapes are compared too.
        let differences =
            loss.add(&one, &round(&[0, 0x3c, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]), &Tolerances::default());
        assert_eq!(differences.len(), 1);
    }
}
