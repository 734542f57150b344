//! Compares outputs: bit for bit, and where they differ, by how much.

use std::collections::BTreeMap;

use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::TensorView;

/// What is allowed between two numbers: `|a - b| <= absolute + relative * |b|`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Part of the expected number's size.
    pub relative: f64,
    /// Whatever the size.
    pub absolute: f64,
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
        /// Largest difference relative to the expected number.
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
                    "`{}`: {count} of {of} elements differ, by at most {absolute:e} ({relative:e} relative), {verdict}",
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
    tolerance: Tolerance,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (name, array) in expected {
        let kind = match found.get(name) {
            None => Some(DifferenceKind::Absent),
            Some(other) => difference(array, other, tolerance),
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
    let (mut count, mut absolute, mut relative, mut within) = (0, 0.0f64, 0.0f64, true);
    let of = expected.shape.iter().product::<u64>();
    let width = expected.bytes.len() / usize::try_from(of.max(1)).unwrap_or(1);
    let pairs = expected.bytes.chunks_exact(width.max(1)).zip(found.bytes.chunks_exact(width.max(1)));
    for (a, b) in pairs.filter(|(a, b)| a != b) {
        count += 1;
        let numbers = number(expected.element.data_type(), a).zip(number(expected.element.data_type(), b));
        let Some((a, b)) = numbers else {
            within = false;
            continue;
        };
        let gap = (a - b).abs();
        absolute = if gap.is_nan() || absolute.is_nan() { f64::NAN } else { absolute.max(gap) };
        relative = if gap.is_nan() || relative.is_nan() { f64::NAN } else { relative.max(gap / a.abs().max(f64::MIN_POSITIVE)) };
        // Not a number is within no tolerance.
        within &= gap <= tolerance.absolute + tolerance.relative * a.abs();
    }
    Some(DifferenceKind::Elements { count, of, absolute, relative, within })
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
