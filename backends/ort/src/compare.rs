//! Compares outputs: bit for bit, and where they differ, by how much.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::TensorView;

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
}

impl Tolerances {
    /// What is allowed in the array of a name.
    pub(crate) fn of(&self, name: &str) -> Tolerance {
        let all = if self.integers.contains(name) { self.all.through_integers() } else { self.all };
        self.halves.get(name).map_or(all, |ty| all.through(*ty))
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
    /// Type or shape differ.
    Type,
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
            DifferenceKind::Type => write!(f, "`{}` has another type or shape", self.output),
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

/// Differences of all outputs, by name; empty when every bit is equal.
pub fn compare(
    expected: &BTreeMap<String, TensorView<'_>>,
    found: &BTreeMap<String, TensorView<'_>>,
    tolerances: &Tolerances,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, array) in expected {
        let kind = match found.get(name) {
            None => Some(DifferenceKind::Absent),
            Some(other) => difference(array, other, tolerances.of(name)),
        };
        differences.extend(kind.map(|kind| Difference { output: name.clone(), kind }));
    }
    let extra = found.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(extra.map(|name| Difference { output: name.clone(), kind: DifferenceKind::Absent }));
    differences
}

/// How an array differs from what is expected; `None` when every bit is equal.
pub(crate) fn difference(expected: &TensorView<'_>, found: &TensorView<'_>, tolerance: Tolerance) -> Option<DifferenceKind> {
    if expected.element != found.element || expected.shape != found.shape {
        return Some(DifferenceKind::Type);
    }
    if expected.bytes == found.bytes {
        return None;
    }
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
        let gap = (a - b).abs();
        absolute = if gap.is_nan() || absolute.is_nan() { f64::NAN } else { absolute.max(gap) };
        // Not a number and infinity are within no tolerance.
        within &= gap.is_finite() && gap <= anywhere + tolerance.relative * a.abs();
    }
    Some(DifferenceKind::Elements { count, of, absolute, relative: absolute / largest.max(f64::MIN_POSITIVE), within })
}

fn number(ty: DataType, bytes: &[u8]) -> Option<f64> {
    Some(match ty {
        DataType::Float => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Double => f64::from_le_bytes(bytes.try_into().ok()?),
        DataType::Float16 => half(u16::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Bfloat16 => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().ok()?)) << 16)),
        DataType::Int64 => i64::from_le_bytes(bytes.try_into().ok()?) as f64,
        DataType::Int32 => f64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Int8 => f64::from(i8::from_le_bytes(bytes.try_into().ok()?)),
        DataType::Uint8 | DataType::Bool => f64::from(*bytes.first()?),
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
    fn a_mask_loosens_nothing() {
        assert!(!is_within(&[-1e9, 1.0], &[-1e9, 1.1], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NEG_INFINITY, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
        assert!(!is_within(&[f32::NAN, 1.0], &[0.0, 1.0], Tolerance::of_roundings()));
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
