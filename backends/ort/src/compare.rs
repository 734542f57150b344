//! Compares outputs bit by bit, and measures by how much they differ.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::TensorView;
use crate::content::Content;

/// Allowed difference between an expected number `a` and the found number:
/// `absolute + relative * |a| + of_largest * L + of_range * R`.
///
/// `L` is the largest finite expected magnitude among the elements that differ. Equal elements do not
/// count, so that a mask, which absorbs added numbers, does not loosen the tolerance. `R` is the largest
/// finite expected magnitude in the whole array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Allowed difference as a share of the expected number.
    pub relative: f64,
    /// Allowed difference of any number.
    pub absolute: f64,
    /// Allowed difference as a share of `L`, for floating-point arrays: the error of a sum that cancels
    /// follows its terms, not the sum. Unless zero, it is at least [`Tolerance::ROUNDINGS`] distances
    /// between neighbouring numbers of the element type.
    pub of_largest: f64,
    /// Allowed difference as a share of `R`, for floating-point arrays and 8-bit integers: numbers on a
    /// grid over that range are off by steps of the grid.
    pub of_range: f64,
}

impl Tolerance {
    /// Allowed number of distances between neighbouring numbers near the largest one; matters for types
    /// of few bits.
    pub const ROUNDINGS: f64 = 16.0;

    /// Returns the tolerance for computations that round otherwise: sums in another order, factors
    /// multiplied beforehand.
    pub fn of_roundings() -> Self {
        Self { relative: 1e-3, absolute: 1e-7, of_largest: 1e-4, of_range: 0.0 }
    }

    /// Returns this tolerance for results that pass through integers of few bits. A number between two
    /// integers may round to either one, and every later result follows it.
    fn through_integers(self) -> Self {
        const GRID: f64 = 0.05;
        Self { of_range: if self.of_largest > 0.0 { self.of_range.max(GRID) } else { self.of_range }, ..self }
    }

    /// Returns this tolerance for results of unit scale, even if they are near zero: a kernel that adds
    /// one before it divides, or takes the exponent of a sum, is off by roundings of numbers near one.
    fn at_unit_scale(self) -> Self {
        // Eight distances between neighbouring 32-bit numbers near one. ONNX Runtime's own fusions of
        // Sigmoid move results by two.
        const ROUNDINGS_OF_ONE: f64 = 1e-6;
        Self {
            absolute: if self.of_largest > 0.0 { self.absolute.max(ROUNDINGS_OF_ONE) } else { self.absolute },
            ..self
        }
    }

    /// Returns this tolerance for numbers on a grid: it allows one `step`, and the rounding of the
    /// difference of two numbers.
    fn between_steps(self, step: f64) -> Self {
        const ROUNDED: f64 = 1.0 + 1e-4;
        Self {
            absolute: if self.of_largest > 0.0 { self.absolute.max(step * ROUNDED) } else { self.absolute },
            ..self
        }
    }

    /// Returns this tolerance for results of a rounding operator: one step between integers.
    pub(crate) fn of_steps(self, ty: DataType) -> Self {
        if epsilon(ty).is_some() { self } else { Self { absolute: 1.0, ..Self::default() } }
    }

    /// Whether the tolerance allows no difference at all.
    fn is_exact(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this tolerance for results computed from numbers of type `ty`, whose rounding errors they
    /// carry on.
    fn through(self, ty: DataType) -> Self {
        let rounding = epsilon(ty).map_or(0.0, |epsilon| Self::ROUNDINGS * epsilon);
        Self { of_largest: if self.of_largest > 0.0 { self.of_largest.max(rounding) } else { 0.0 }, ..self }
    }

    /// Returns the part of the allowed difference that is equal for all elements of an array. `largest`
    /// is `L` and `range` is `R` of [`Tolerance`].
    fn anywhere(&self, ty: DataType, largest: f64, range: f64) -> f64 {
        let of_largest = match epsilon(ty) {
            Some(epsilon) if self.of_largest > 0.0 => self.of_largest.max(Self::ROUNDINGS * epsilon),
            _ => 0.0,
        };
        let is_on_grid = epsilon(ty).is_some() || matches!(ty, DataType::Int8 | DataType::Uint8);
        self.absolute + of_largest * largest + if is_on_grid { self.of_range * range } else { 0.0 }
    }
}

/// Tolerances of all arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    /// Tolerance of every array.
    pub all: Tolerance,
    /// By array name, the coarsest half-precision type that the array is computed from.
    pub halves: BTreeMap<String, DataType>,
    /// Names of arrays that are computed from values rounded to integers of few bits.
    pub integers: BTreeSet<String>,
    /// By array name, the distance between neighbouring numbers of an array that holds dequantized
    /// integers. A difference in the last bit before the rounding moves such a number by one step.
    pub steps: BTreeMap<String, f64>,
    /// Names of arrays that hold results of unit scale (see `OpInfo::unit_scale`), whether or not data
    /// movement follows.
    pub units: BTreeSet<String>,
}

impl Tolerances {
    /// Returns the tolerance for the array of a name.
    pub(crate) fn of(&self, name: &str) -> Tolerance {
        let all = if self.integers.contains(name) { self.all.through_integers() } else { self.all };
        let all = if self.units.contains(name) { all.at_unit_scale() } else { all };
        let all = self.halves.get(name).map_or(all, |ty| all.through(*ty));
        self.steps
            .get(name)
            .filter(|_| self.integers.contains(name))
            .map_or(all, |step| all.between_steps(*step))
    }
}

/// Returns the distance from 1 to the next number of a floating-point type; `None` for other types.
fn epsilon(ty: DataType) -> Option<f64> {
    match ty {
        DataType::Double => Some(f64::EPSILON),
        DataType::Float => Some(f64::from(f32::EPSILON)),
        DataType::Float16 => Some(2f64.powi(-10)),
        DataType::Bfloat16 => Some(2f64.powi(-7)),
        _ => None,
    }
}

/// Difference between an output and its expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the output.
    pub output: String,
    /// Kind of the difference.
    pub kind: DifferenceKind,
}

/// Kind of a difference.
#[derive(Clone, Debug, PartialEq)]
pub enum DifferenceKind {
    /// Only one side has the output.
    Absent,
    /// Kind, type or shape differ.
    Type {
        /// Expected type.
        expected: String,
        /// Found type.
        found: String,
    },
    /// Strings differ.
    Strings {
        /// Number of strings that differ.
        count: u64,
        /// Number of all strings.
        of: u64,
    },
    /// Elements differ.
    Elements {
        /// Number of elements that differ.
        count: u64,
        /// Number of all elements.
        of: u64,
        /// Largest absolute difference; NaN if only one side is NaN.
        absolute: f64,
        /// Largest absolute difference, as a share of the largest expected magnitude among the elements
        /// that differ.
        relative: f64,
        /// Whether all elements are within the tolerance.
        within: bool,
    },
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            DifferenceKind::Absent => write!(f, "`{}` is absent on one side", self.output),
            DifferenceKind::Type { expected, found } => {
                write!(f, "`{}` is {found}, and should be {expected}", self.output)
            }
            DifferenceKind::Strings { count, of } => {
                write!(f, "`{}`: {count} of {of} strings differ", self.output)
            }
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
    /// Whether the difference is within the tolerance.
    pub fn is_within(&self) -> bool {
        matches!(self.kind, DifferenceKind::Elements { within: true, .. })
    }
}

/// Returns the differences of all outputs, by name; empty if every bit is equal. Compares the items of
/// sequences and maps one by one. Skips values whose elements the runtime does not give out.
pub fn compare(
    expected: &BTreeMap<String, Content<'_>>,
    found: &BTreeMap<String, Content<'_>>,
    tolerances: &Tolerances,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, content) in expected {
        match found.get(name) {
            None => differences.push(Difference { output: name.clone(), kind: DifferenceKind::Absent }),
            Some(other) => {
                compare_content(name.clone(), content, other, tolerances.of(name), &mut differences)
            }
        }
    }
    let extra = found.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(extra.map(|name| Difference { output: name.clone(), kind: DifferenceKind::Absent }));
    differences
}

/// Adds the differences between two contents. Elements are named by their place: `y[2]`, `y.keys`,
/// `y.values`.
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
        (Content::Strings { shape, elements }, Content::Strings { shape: other, elements: others })
            if shape == other =>
        {
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

/// Compares an array with the expected one; `None` if every bit is equal.
pub(crate) fn difference(
    expected: &TensorView<'_>,
    found: &TensorView<'_>,
    tolerance: Tolerance,
) -> Option<DifferenceKind> {
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
            let (one, other) = (
                TensorView { bytes: &one, ..expected.clone() },
                TensorView { bytes: &other, ..found.clone() },
            );
            Some(elements_differ(&one, &other, tolerance))
        }
        None => Some(elements_differ(expected, found, tolerance)),
    }
}

/// Compares the elements of two arrays of equal type and shape, with at least one byte an element.
fn elements_differ(
    expected: &TensorView<'_>,
    found: &TensorView<'_>,
    tolerance: Tolerance,
) -> DifferenceKind {
    let of = expected.shape.iter().product::<u64>();
    let differing = || expected.elements().zip(found.elements()).filter(|(a, b)| a != b);
    let ty = expected.element.data_type();
    let size = |bytes| number(ty, bytes).map(f64::abs).filter(|size| size.is_finite());
    // Measure the magnitudes that the tolerance depends on.
    let largest = differing().filter_map(|(a, _)| size(a)).fold(0.0, f64::max);
    let range =
        if tolerance.of_range > 0.0 { expected.elements().filter_map(size).fold(0.0, f64::max) } else { 0.0 };
    let anywhere = tolerance.anywhere(ty, largest, range);
    // Compare the elements whose bytes differ.
    let (mut count, mut absolute, mut within) = (0, 0.0f64, true);
    for (a, b) in differing() {
        count += 1;
        let Some((a, b)) = number(ty, a).zip(number(ty, b)) else {
            within = false;
            continue;
        };
        // The sign and payload of a NaN depend on the kernel that made it; no arithmetic reads them.
        if a.is_nan() && b.is_nan() {
            continue;
        }
        let gap = (a - b).abs();
        absolute = if gap.is_nan() || absolute.is_nan() { f64::NAN } else { absolute.max(gap) };
        // NaN next to a number, and infinity, are beyond every tolerance.
        within &= gap.is_finite() && gap <= anywhere + tolerance.relative * a.abs() && !tolerance.is_exact();
    }
    DifferenceKind::Elements {
        count,
        of,
        absolute,
        relative: absolute / largest.max(f64::MIN_POSITIVE),
        within,
    }
}

/// Decodes an element; `None` for types that are not numbers.
pub(crate) fn number(ty: DataType, bytes: &[u8]) -> Option<f64> {
    Some(match ty {
        DataType::Float => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Double => f64::from_le_bytes(bytes.try_into().ok()?),
        DataType::Float16 => half(u16::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Bfloat16 => {
            f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().ok()?)) << 16))
        }
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

/// Decodes an IEEE 754 binary16 number.
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

    /// Compares one-dimensional arrays of a type.
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
    fn small_elements_may_differ_by_roundings_of_the_largest_element() {
        let usual = Tolerance::of_roundings();
        assert!(is_within(&[1000.0, 0.01], &[1000.1, 0.05], usual));
        assert!(!is_within(&[1000.0, 0.01], &[1000.1, 0.25], usual));
        assert!(!is_within(&[1000.0, 0.01], &[1000.1, 0.05], Tolerance { of_largest: 0.0, ..usual }));
    }

    #[test]
    fn spare_bits_of_the_last_byte_are_not_compared() {
        let element = Element::from_name("int4").expect("a type of arrays");
        let view = |bytes: &'static [u8]| TensorView { element, shape: vec![3], bytes };
        let differ = |one, other| difference(&view(one), &view(other), Tolerance::default());
        assert_eq!(differ(&[0x21, 0x0f], &[0x21, 0xaf]), None);
        let Some(DifferenceKind::Elements { count, of, absolute, .. }) = differ(&[0x21, 0x0f], &[0x31, 0x07])
        else {
            unreachable!("elements differ");
        };
        // The four bits of 15 are those of minus one.
        assert_eq!((count, of, absolute), (2, 3, 8.0));
    }

    #[test]
    fn values_of_unit_scale_may_differ_by_roundings_of_one() {
        let units = BTreeSet::from(["y".to_owned()]);
        let of = |all, name: &str| Tolerances { all, units: units.clone(), ..Tolerances::default() }.of(name);
        let usual = Tolerance::of_roundings();
        assert!(is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(usual, "y")));
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(usual, "z")));
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.5e-5], of(usual, "y")));
        // An exact tolerance stays exact.
        assert!(!is_within(&[1e-4, 1e-5], &[1e-4, 1.02e-5], of(Tolerance::default(), "y")));
    }

    #[test]
    fn all_kinds_of_values_are_compared_element_by_element() {
        let element = Element::from_name("float").expect("a type of arrays");
        let array = |bytes: &'static [u8]| Content::View(TensorView { element, shape: vec![1], bytes });
        let (one, two): (&[u8], &[u8]) = (&[0, 0, 128, 63], &[0, 0, 0, 64]);
        let strings =
            |text: &[u8]| Content::Strings { shape: vec![2], elements: vec![text.to_vec(), Vec::new()] };
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
        let found = differ(
            Content::Sequence(vec![array(one), array(one)]),
            Content::Sequence(vec![array(one), array(two)]),
        );
        assert!(found.len() == 1 && found[0].starts_with("`y[1]`: 1 of 1 elements differ"), "{found:?}");
        let found =
            differ(Content::Sequence(vec![array(one)]), Content::Sequence(vec![array(one), array(two)]));
        assert_eq!(
            found,
            ["`y` is a sequence of 2: float[1], float[1], and should be a sequence of 1: float[1]"]
        );
        let found = differ(Content::Sequence(vec![map(b"a", one)]), Content::Sequence(vec![map(b"b", two)]));
        assert!(
            found.len() == 2 && found[0].starts_with("`y[0].keys`") && found[1].starts_with("`y[0].values`"),
            "{found:?}"
        );
    }

    #[test]
    fn small_outputs_are_held_to_their_own_size() {
        assert!(!is_within(&[2e-5, 1e-5], &[2e-5, 1.1e-5], Tolerance::of_roundings()));
        assert!(is_within(&[2e-5, 1e-5], &[2.001e-5, 1e-5], Tolerance::of_roundings()));
    }

    #[test]
    fn integers_may_differ_by_steps_only_in_rounded_outputs() {
        let of = |all, name: &str| {
            Tolerances { all, integers: BTreeSet::from(["z".to_owned()]), ..Tolerances::default() }.of(name)
        };
        let at = |found: u8, tolerance| match differ(DataType::Uint8, &[100, 200], &[found, 200], tolerance) {
            Some(DifferenceKind::Elements { within, .. }) => within,
            kind => unreachable!("{kind:?}"),
        };
        let rounded = of(Tolerance::of_roundings(), "z");
        assert!(at(110, rounded) && !at(111, rounded));
        assert!(is_within(&[0.19, 1.0], &[0.2, 1.0], rounded));
        assert!(!is_within(&[0.19, 1.0], &[0.25, 1.0], rounded));
        assert!(!at(101, of(Tolerance::of_roundings(), "y")));
        // An exact tolerance stays exact.
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
    fn masks_and_infinities_do_not_widen_the_tolerance() {
        assert!(!is_within(&[-1e9, 1.0], &[-1e9, 1.1], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NEG_INFINITY, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NAN, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
    }

    #[test]
    fn the_sign_of_nan_is_never_compared_and_that_of_zero_by_an_exact_tolerance() {
        let (one, other) = (f32::from_bits(0x7fc0_0000), f32::from_bits(0xffc0_0000));
        assert!(is_within(&[one, 1.0], &[other, 1.0], Tolerance::of_roundings()));
        assert!(!is_within(&[one, 1.0], &[other, 1.1], Tolerance::of_roundings()));
        assert!(is_within(&[one, 1.0], &[other, 1.0], Tolerance::default()));
        assert!(
            is_within(&[0.0], &[-0.0], Tolerance::of_roundings())
                && !is_within(&[0.0], &[-0.0], Tolerance::default())
        );
        assert!(!is_within(&[one, 1.0], &[2.0, 1.0], Tolerance::of_roundings()));
    }

    #[test]
    fn half_precision_is_allowed_its_own_distances() {
        let halves = |bits: &[u16]| bits.iter().flat_map(|bits| bits.to_le_bytes()).collect::<Vec<u8>>();
        let at = |bits| match differ(
            DataType::Float16,
            &halves(&[0x3c00]),
            &halves(&[bits]),
            Tolerance::of_roundings(),
        ) {
            Some(DifferenceKind::Elements { within, .. }) => within,
            kind => unreachable!("{kind:?}"),
        };
        assert!(at(0x3c08) && !at(0x3c18));
        let exact = differ(DataType::Float16, &halves(&[0x3c00]), &halves(&[0x3c01]), Tolerance::default());
        assert!(matches!(exact, Some(DifferenceKind::Elements { within: false, .. })));
    }
}
