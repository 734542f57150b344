//! Compares outputs: bit for bit, and where they differ, by how much.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::TensorView;
use crate::content::Content;

/// What is allowed between an expected number `a` and the one found: `absolute + relative * |a| + of_largest * L + of_range * R`, `L` the largest
/// finite magnitude that is expected where the array differs (masks absorb what is added to them: they are equal, and loosen nothing), `R` the
/// largest one anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Part of the expected number's size.
    pub relative: f64,
    /// Whatever the size.
    pub absolute: f64,
    /// Part of the array's largest number, of floating-point arrays: what a sum that cancels is off by follows the terms, not the sum. In
    /// types whose numbers lie farther apart than that, unless zero, [`Tolerance::ROUNDINGS`] of those distances.
    pub of_largest: f64,
    /// Part of the largest number that is expected anywhere in the array, of floating-point arrays and integers of 8 bits: what lies on a grid
    /// of that range is off by steps of the grid.
    pub of_range: f64,
}

impl Tolerance {
    /// How many distances between neighbouring numbers near the largest one are allowed in types of few bits.
    pub const ROUNDINGS: f64 = 16.0;

    /// For what is rounded otherwise: sums in another order, factors multiplied beforehand.
    pub fn of_roundings() -> Self {
        Self { relative: 1e-3, absolute: 1e-7, of_largest: 1e-4, of_range: 0.0 }
    }

    /// The same for what becomes integers of few bits on the way: a number that lies between two of them may become the other one, and all that
    /// is computed of it follows.
    fn through_integers(self) -> Self {
        const GRID: f64 = 0.05;
        Self { of_range: if self.of_largest > 0.0 { self.of_range.max(GRID) } else { self.of_range }, ..self }
    }

    /// The same for what is of the size of one whatever there happens to be: a kernel that adds one before it divides, or takes the exponent of
    /// a sum, is off by roundings of numbers near one where its results are near zero.
    fn at_unit_scale(self) -> Self {
        // Eight distances between neighbouring numbers of 32 bits near one. ONNX Runtime's own fusions of Sigmoid move results by two.
        const ROUNDINGS_OF_ONE: f64 = 1e-6;
        Self { absolute: if self.of_largest > 0.0 { self.absolute.max(ROUNDINGS_OF_ONE) } else { self.absolute }, ..self }
    }

    /// The same for numbers on a grid of such steps: one step, and what the difference of two numbers rounds.
    fn between_steps(self, step: f64) -> Self {
        const ROUNDED: f64 = 1.0 + 1e-4;
        Self { absolute: if self.of_largest > 0.0 { self.absolute.max(step * ROUNDED) } else { self.absolute }, ..self }
    }

    /// The same for results of a rounding operator: one step between integers.
    pub(crate) fn of_steps(self, ty: DataType) -> Self {
        if epsilon(ty).is_some() { self } else { Self { absolute: 1.0, ..Self::default() } }
    }

    /// Whether it allows no difference at all.
    fn is_exact(&self) -> bool {
        *self == Self::default()
    }

    /// The same for what was computed of numbers of another type, whose roundings it carries on.
    fn through(self, ty: DataType) -> Self {
        let rounding = epsilon(ty).map_or(0.0, |epsilon| Self::ROUNDINGS * epsilon);
        Self { of_largest: if self.of_largest > 0.0 { self.of_largest.max(rounding) } else { 0.0 }, ..self }
    }

    /// What is allowed in an array, whatever the number: of the largest one that differs, and of the largest one.
    fn anywhere(&self, ty: DataType, largest: f64, range: f64) -> f64 {
        let of_largest = match epsilon(ty) {
            Some(epsilon) if self.of_largest > 0.0 => self.of_largest.max(Self::ROUNDINGS * epsilon),
            _ => 0.0,
        };
        let is_on_grid = epsilon(ty).is_some() || matches!(ty, DataType::Int8 | DataType::Uint8);
        self.absolute + of_largest * largest + if is_on_grid { self.of_range * range } else { 0.0 }
    }
}

/// What is allowed in each array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    /// In all of them.
    pub all: Tolerance,
    /// The coarsest type of half precision that an array, by its name, is computed of.
    pub halves: BTreeMap<String, DataType>,
    /// Arrays, by their names, that are computed of what was rounded to integers of few bits.
    pub integers: BTreeSet<String>,
    /// Distance between neighbouring numbers of arrays, by their names, that hold numbers made of integers: a last bit before the integers moves a number
    /// by one.
    pub steps: BTreeMap<String, f64>,
    /// Arrays, by their names, that hold results whose scale is one (see `OpInfo::unit_scale`), moved or not.
    pub units: BTreeSet<String>,
}

impl Tolerances {
    /// What is allowed in the array of a name.
    pub(crate) fn of(&self, name: &str) -> Tolerance {
        let all = if self.integers.contains(name) { self.all.through_integers() } else { self.all };
        let all = if self.units.contains(name) { all.at_unit_scale() } else { all };
        let all = self.halves.get(name).map_or(all, |ty| all.through(*ty));
        self.steps.get(name).filter(|_| self.integers.contains(name)).map_or(all, |step| all.between_steps(*step))
    }
}

/// Distance from one to the next number of a floating-point type.
fn epsilon(ty: DataType) -> Option<f64> {
    match ty {
        DataType::Double => Some(f64::EPSILON),
        DataType::Float => Some(f64::from(f32::EPSILON)),
        DataType::Float16 => Some(2f64.powi(-10)),
        DataType::Bfloat16 => Some(2f64.powi(-7)),
        _ => None,
    }
}

/// How an output differs from what is expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The output.
    pub output: String,
    /// In what way.
    pub kind: DifferenceKind,
}

/// In what way an output differs.
#[derive(Clone, Debug, PartialEq)]
pub enum DifferenceKind {
    /// One side does not have it.
    Absent,
    /// Kind, type or shape differ.
    Type {
        /// What is expected.
        expected: String,
        /// What there is.
        found: String,
    },
    /// Strings differ.
    Strings {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
    },
    /// Elements differ.
    Elements {
        /// How many.
        count: u64,
        /// Of how many.
        of: u64,
        /// Largest absolute difference; not a number where one side is none.
        absolute: f64,
        /// That, as a part of the largest expected magnitude among the elements that differ.
        relative: f64,
        /// Whether all are within the tolerance.
        within: bool,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            DifferenceKind::Absent => write!(f, "`{}` is absent on one side", self.output),
            DifferenceKind::Type { expected, found } => write!(f, "`{}` is {found}, and should be {expected}", self.output),
            DifferenceKind::Strings { count, of } => write!(f, "`{}`: {count} of {of} strings differ", self.output),
            DifferenceKind::Elements { count, of, absolute, relative, within } => {
                let verdict = if *within { "within tolerance" } else { "beyond tolerance" };
                write!(
                    f,
                    "`{}`: {count} of {of} elements differ, by at most {absolute:e} ({relative:e} of the largest of them), {verdict}",
                    self.output
                )
            }
        }
    }
}

impl Difference {
    /// Whether the difference is allowed.
    pub fn is_within(&self) -> bool {
        matches!(self.kind, DifferenceKind::Elements { within: true, .. })
    }
}

/// Differences of all outputs, by name; empty when every bit is equal. Sequences and maps are followed to what they hold; what the runtime does
/// not give out is passed over.
pub fn compare(
    expected: &BTreeMap<String, Content<'_>>,
    found: &BTreeMap<String, Content<'_>>,
    tolerances: &Tolerances,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, content) in expected {
        match found.get(name) {
            None => differences.push(Difference { output: name.clone(), kind: DifferenceKind::Absent }),
            Some(other) => compare_content(name.clone(), content, other, tolerances.of(name), &mut differences),
        }
    }
    let extra = found.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(extra.map(|name| Difference { output: name.clone(), kind: DifferenceKind::Absent }));
    differences
}

/// Adds how what one value holds differs from what is expected. Elements are named by their place: `y[2]`, `y.keys`, `y.values`.
fn compare_content(
    name: String,
    expected: &Content<'_>,
    found: &Content<'_>,
    tolerance: Tolerance,
    differences: &mut Vec<Difference>,
) {
    let kind = match (expected, found) {
        (Content::None, Content::None) | (Content::Unread(_), Content::Unread(_)) => None,
        (Content::Sequence(expected), Content::Sequence(found)) if expected.len() == found.len() => {
            for (position, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare_content(format!("{name}[{position}]"), expected, found, tolerance, differences);
            }
            None
        }
        (Content::Map(expected), Content::Map(found)) => {
            compare_content(format!("{name}.keys"), &expected.0, &found.0, Tolerance::default(), differences);
            compare_content(format!("{name}.values"), &expected.1, &found.1, tolerance, differences);
            None
        }
        (Content::Strings { shape, elements }, Content::Strings { shape: other, elements: others }) if shape == other => {
            let count = elements.iter().zip(others).filter(|(one, other)| one != other).count() as u64;
            (count > 0).then_some(DifferenceKind::Strings { count, of: elements.len() as u64 })
        }
        _ => match expected.tensor().zip(found.tensor()) {
            Some((expected, found)) => difference(&expected, &found, tolerance),
            None => Some(DifferenceKind::Type { expected: expected.to_string(), found: found.to_string() }),
        },
    };
    differences.extend(kind.map(|kind| Difference { output: name, kind }));
}

/// How an array differs from what is expected; `None` when every bit is equal.
pub(crate) fn difference(expected: &TensorView<'_>, found: &TensorView<'_>, tolerance: Tolerance) -> Option<DifferenceKind> {
    if expected.element != found.element || expected.shape != found.shape {
        let kind = |view: &TensorView<'_>| Content::View(view.clone()).to_string();
        return Some(DifferenceKind::Type { expected: kind(expected), found: kind(found) });
    }
    if expected.bytes == found.bytes {
        return None;
    }
    match expected.unpacked().zip(found.unpacked()) {
        Some((one, other)) if one == other => None,
        Some((one, other)) => {
            let (one, other) = (TensorView { bytes: &one, ..expected.clone() }, TensorView { bytes: &other, ..found.clone() });
            Some(elements_differ(&one, &other, tolerance))
        }
        None => Some(elements_differ(expected, found, tolerance)),
    }
}

/// How the elements of an array, of whole bytes, differ from those of another of its type and shape.
fn elements_differ(expected: &TensorView<'_>, found: &TensorView<'_>, tolerance: Tolerance) -> DifferenceKind {
    let of = expected.shape.iter().product::<u64>();
    let differing = || expected.elements().zip(found.elements()).filter(|(a, b)| a != b);
    let ty = expected.element.data_type();
    let size = |bytes| number(ty, bytes).map(f64::abs).filter(|size| size.is_finite());
    let largest = differing().filter_map(|(a, _)| size(a)).fold(0.0, f64::max);
    let range = if tolerance.of_range > 0.0 { expected.elements().filter_map(size).fold(0.0, f64::max) } else { 0.0 };
    let anywhere = tolerance.anywhere(ty, largest, range);
    let (mut count, mut absolute, mut within) = (0, 0.0f64, true);
    for (a, b) in differing() {
        count += 1;
        let Some((a, b)) = number(ty, a).zip(number(ty, b)) else {
            within = false;
            continue;
        };
        // The sign and payload of what is no number follow from which kernel made it; no arithmetic reads them.
        if a.is_nan() && b.is_nan() && !tolerance.is_exact() {
            continue;
        }
        let gap = (a - b).abs();
        absolute = if gap.is_nan() || absolute.is_nan() { f64::NAN } else { absolute.max(gap) };
        // Not a number beside a number, and infinity, are within no tolerance.
        within &= gap.is_finite() && gap <= anywhere + tolerance.relative * a.abs();
    }
    DifferenceKind::Elements { count, of, absolute, relative: absolute / largest.max(f64::MIN_POSITIVE), within }
}

fn number(ty: DataType, bytes: &[u8]) -> Option<f64> {
    Some(match ty {
        DataType::Float => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Double => f64::from_le_bytes(bytes.try_into().ok()?),
        DataType::Float16 => half(u16::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Bfloat16 => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().ok()?)) << 16)),
        DataType::Int64 => i64::from_le_bytes(bytes.try_into().ok()?) as f64,
        DataType::Int32 => f64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Int16 => f64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Uint16 => f64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Int8 => f64::from(i8::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Uint8 | DataType::Bool | DataType::Uint4 => f64::from(*bytes.first()?),
        // The sign is the highest of four bits.
        DataType::Int4 => f64::from(i8::from_le_bytes([*bytes.first()? << 4]) >> 4),
        _ => return None,
    })
}

/// IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from((bits >> 10) & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;
    use crate::element::Element;

    /// How arrays of the type differ, one element apart.
    fn differ(ty: DataType, expected: &[u8], found: &[u8], tolerance: Tolerance) -> Option<DifferenceKind> {
        let element = Element::from_onnx(ty as i32).expect("a type of arrays");
        let count = expected.len() as u64 / element.bytes(&[1]).expect("one element");
        let view = |bytes| TensorView { element, shape: vec![count], bytes };
        difference(&view(expected), &view(found), tolerance)
    }

    fn floats(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn is_within(expected: &[f32], found: &[f32], tolerance: Tolerance) -> bool {
        match differ(DataType::Float, &floats(expected), &floats(found), tolerance) {
            None => true,
            Some(DifferenceKind::Elements { within, .. }) => within,
            Some(kind) => unreachable!("{kind:?}"),
        }
    }

    #[test]
    fn a_sum_that_cancels_may_be_off_by_what_its_terms_round() {
        let usual = Tolerance::of_roundings();
        assert!(is_within(&[1000.0, 0.01], &[1000.1, 0.05], usual));
        assert!(!is_within(&[1000.0, 0.01], &[1000.1, 0.25], usual));
        assert!(!is_within(&[1000.0, 0.01], &[1000.1, 0.05], Tolerance { of_largest: 0.0, ..usual }));
    }

    #[test]
    fn what_is_left_of_a_byte_is_no_element() {
        let element = Element::from_name("int4").expect("a type of arrays");
        let view = |bytes: &'static [u8]| TensorView { element, shape: vec![3], bytes };
        let differ = |one, other| difference(&view(one), &view(other), Tolerance::default());
        assert_eq!(differ(&[0x21, 0x0f], &[0x21, 0xaf]), None);
        let Some(DifferenceKind::Elements { count, of, absolute, .. }) = differ(&[0x21, 0x0f], &[0x31, 0x07]) else {
            unreachable!("elements differ");
        };
        // 15 is minus one.
        assert_eq!((count, of, absolute), (2, 3, 8.0));
    }

    #[test]
    fn what_is_of_the_size_of_one_may_be_off_by_roundings_of_one() {
        let units = BTreeSet::from(["y".to_owned()]);
        let of = |all, name: &str| Tolerances { all, units: units.clone(), ..Tolerances::default() }.of(name);
        let usual = Tolerance::of_roundings();
        assert!(is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(usual, "y")));
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(usual, "z")));
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.5e-5], of(usual, "y")));
        // What was asked to be exact is.
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(Tolerance::default(), "y")));
    }

    #[test]
    fn all_kinds_of_values_are_compared_element_by_element() {
        let element = Element::from_name("float").expect("a type of arrays");
        let array = |bytes: &'static [u8]| Content::View(TensorView { element, shape: vec![1], bytes });
        let (one, two): (&[u8], &[u8]) = (&[0, 0, 128, 63], &[0, 0, 0, 64]);
        let strings = |text: &[u8]| Content::Strings { shape: vec![2], elements: vec![text.to_vec(), Vec::new()] };
        let differ = |expected: Content<'_>, found: Content<'_>| {
            let of = |content| BTreeMap::from([("y".to_owned(), content)]);
            let found = compare(&of(expected), &of(found), &Tolerances::default());
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let map = |keys: &[u8], value| Content::Map(Box::new((strings(keys), array(value))));
        assert_eq!(differ(Content::None, Content::None), Vec::<String>::new());
        assert_eq!(differ(array(one), Content::None), ["`y` is none, and should be float[1]"]);
        assert_eq!(differ(strings(b"a\xff"), strings(b"a\xff")), Vec::<String>::new());
        assert_eq!(differ(strings(b"a\xff"), strings(b"a")), ["`y`: 1 of 2 strings differ"]);
        let found = differ(Content::Sequence(vec![array(one), array(one)]), Content::Sequence(vec![array(one), array(two)]));
        assert!(found.len() == 1 && found[0].starts_with("`y[1]`: 1 of 1 elements differ"), "{found:?}");
        let found = differ(Content::Sequence(vec![array(one)]), Content::Sequence(vec![array(one), array(two)]));
        assert_eq!(found, ["`y` is a sequence of 2: float[1], float[1], and should be a sequence of 1: float[1]"]);
        let found = differ(Content::Sequence(vec![map(b"a", one)]), Content::Sequence(vec![map(b"b", two)]));
        assert!(found.len() == 2 && found[0].starts_with("`y[0].keys`") && found[1].starts_with("`y[0].values`"), "{found:?}");
    }

    #[test]
    fn small_outputs_are_held_to_their_own_size() {
        assert!(!is_within(&[2e-5, 1e-5], &[2e-5, 1.1e-5], Tolerance::of_roundings()));
        assert!(is_within(&[2e-5, 1e-5], &[2.001e-5, 1e-5], Tolerance::of_roundings()));
    }

    #[test]
    fn integers_are_off_by_steps_only_where_kernels_round_to_them() {
        let of =
            |all, name: &str| Tolerances { all, integers: BTreeSet::from(["z".to_owned()]), ..Tolerances::default() }.of(name);
        let at = |found: u8, tolerance| match differ(DataType::Uint8, &[100, 200], &[found, 200], tolerance) {
            Some(DifferenceKind::Elements { within, .. }) => within,
            kind => unreachable!("{kind:?}"),
        };
        let rounded = of(Tolerance::of_roundings(), "z");
        assert!(at(110, rounded) && !at(111, rounded));
        assert!(is_within(&[0.19, 1.0], &[0.2, 1.0], rounded));
        assert!(!is_within(&[0.19, 1.0], &[0.25, 1.0], rounded));
        assert!(!at(101, of(Tolerance::of_roundings(), "y")));
        // What was asked to be exact is.
        assert!(!at(101, of(Tolerance::default(), "z")));
    }

    #[test]
    fn numbers_made_of_integers_are_off_by_one_step() {
        let integers = BTreeSet::from(["y".to_owned()]);
        let of = |all| {
            Tolerances {
                all,
                integers: integers.clone(),
                steps: BTreeMap::from([("y".to_owned(), 0.05)]),
                ..Tolerances::default()
            }
            .of("y")
        };
        assert!(is_within(&[0.1, 0.05], &[0.15, 0.0], of(Tolerance::of_roundings())));
        assert!(!is_within(&[0.1, 0.05], &[0.2, 0.05], of(Tolerance::of_roundings())));
        assert!(!is_within(&[0.1, 0.05], &[0.15, 0.05], of(Tolerance::default())));
    }

    #[test]
    fn a_mask_loosens_nothing() {
        assert!(!is_within(&[-1e9, 1.0], &[-1e9, 1.1], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NEG_INFINITY, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NAN, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
    }

    #[test]
    fn the_sign_of_what_is_no_number_counts_where_bits_do() {
        let (one, other) = (f32::from_bits(0x7fc0_0000), f32::from_bits(0xffc0_0000));
        assert!(is_within(&[one, 1.0], &[other, 1.0], Tolerance::of_roundings()));
        assert!(!is_within(&[one, 1.0], &[other, 1.1], Tolerance::of_roundings()));
        assert!(!is_within(&[one, 1.0], &[other, 1.0], Tolerance::default()));
        assert!(!is_within(&[one, 1.0], &[2.0, 1.0], Tolerance::of_roundings()));
    }

    #[test]
    fn half_precision_is_allowed_its_own_distances() {
        let halves = |bits: &[u16]| bits.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
        let at = |bits| match differ(DataType::Float16, &halves(&[0x3c00]), &halves(&[bits]), Tolerance::of_roundings()) {
            Some(DifferenceKind::Elements { within, .. }) => within,
            kind => unreachable!("{kind:?}"),
        };
        assert!(at(0x3c08) && !at(0x3c18));
        let exact = differ(DataType::Float16, &halves(&[0x3c00]), &halves(&[0x3c01]), Tolerance::default());
        assert!(matches!(exact, Some(DifferenceKind::Elements { within: false, .. })));
    }
}
