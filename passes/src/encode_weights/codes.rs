//! Codes of few bits for a matrix of weights: a scale for each column, or for each block of a column, and
//! the error of the decoded numbers.

use crate::claims::WeightErrors;
use crate::options::WeightCode;

/// Number of elements of a column that share a scale, in kernels and operators with blocks.
pub(super) const BLOCK: usize = 32;
/// Factors of the largest scale that are tried for a block of 4-bit codes. A smaller scale clips the
/// largest numbers, and has smaller steps for all others.
const FACTORS: [f32; 5] = [1.0, 0.95, 0.9, 0.85, 0.8];

/// Storage of codes and scales.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// Signed codes in the order of the weights, for DequantizeLinear.
    AsGiven,
    /// Codes from 0 on, column by column in whole blocks, for MatMulNBits.
    Columns,
}

/// A matrix of weights: `inner` numbers are multiplied and summed for each of `columns` results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) inner: usize,
    pub(super) columns: usize,
    /// Whether the numbers of one column are neighbours.
    pub(super) transposed: bool,
}

impl Matrix<'_> {
    fn place(&self, row: usize, column: usize) -> usize {
        if self.transposed { column * self.inner + row } else { row * self.columns + column }
    }

    fn number(&self, row: usize, column: usize) -> f32 {
        let at = 4 * self.place(row, column);
        let raw = self.bytes.get(at..at + 4).and_then(|raw| raw.first_chunk());
        raw.map_or(0.0, |raw| f32::from_le_bytes(*raw))
    }
}

/// Codes with their scales and errors.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Codes {
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<f32>,
    /// Errors of all weights.
    pub(super) errors: WeightErrors,
}

/// Encodes a matrix, with one scale for each column and block of `block` rows.
///
/// Scales are in the order of the weights for [`Storage::AsGiven`], and column by column for
/// [`Storage::Columns`]. Linear in the weights. `None` if a weight is not finite, if the matrix is empty,
/// or if its extents do not fit its bytes.
pub(super) fn encode(matrix: Matrix<'_>, code: WeightCode, block: usize, storage: Storage) -> Option<Codes> {
    let Matrix { inner, columns, .. } = matrix;
    let count = inner.checked_mul(columns).filter(|count| *count > 0)?;
    (count.checked_mul(4)? == matrix.bytes.len() && block > 0).then_some(())?;
    let blocks = inner.div_ceil(block);
    let slots = match storage {
        Storage::AsGiven => count,
        Storage::Columns => blocks.checked_mul(block)?.checked_mul(columns)?,
    };
    let mut writer = Writer::new(code, slots, storage);
    let mut scales = vec![0.0; blocks.checked_mul(columns)?];
    let mut errors = WeightErrors::default();
    let mut numbers = Vec::with_capacity(block.min(inner));
    for part in 0..blocks {
        let rows = part * block..inner.min((part + 1) * block);
        for column in 0..columns {
            numbers.clear();
            numbers.extend(rows.clone().map(|row| matrix.number(row, column)));
            if !numbers.iter().all(|number| number.is_finite()) {
                return None;
            }
            let scale = best_scale(&numbers, code);
            let place = match storage {
                Storage::AsGiven if !matrix.transposed => part * columns + column,
                _ => column * blocks + part,
            };
            *scales.get_mut(place)? = scale;
            for (row, number) in rows.clone().zip(&numbers) {
                let step = step_of(*number, scale, code);
                let slot = match storage {
                    Storage::AsGiven => matrix.place(row, column),
                    Storage::Columns => column * blocks * block + row,
                };
                writer.put(slot, step);
                errors.add(*number, step as f32 * scale);
            }
        }
    }
    Some(Codes { codes: writer.codes, scales, errors })
}

/// Range of codes, both ends included.
fn range(code: WeightCode) -> (i32, i32) {
    match code {
        WeightCode::Int8 => (-127, 127),
        WeightCode::Int4 => (-8, 7),
    }
}

/// Returns the code of a number.
fn step_of(number: f32, scale: f32, code: WeightCode) -> i32 {
    if scale == 0.0 {
        return 0;
    }
    let (least, most) = range(code);
    // The cast saturates.
    ((number / scale).round_ties_even() as i32).clamp(least, most)
}

/// Returns the scale of numbers that share one: the scale that spans them, or for 4 bits the smaller one
/// with the least sum of squared errors. Zero if all numbers are zero, or too small for a normal scale.
fn best_scale(numbers: &[f32], code: WeightCode) -> f32 {
    let (least, most) = range(code);
    let span = |number: &f32| if *number < 0.0 { number / least as f32 } else { number / most as f32 };
    let whole = numbers.iter().map(span).fold(0.0f32, f32::max);
    if whole < f32::MIN_POSITIVE {
        return 0.0;
    }
    if code == WeightCode::Int8 {
        return whole;
    }
    let error = |scale: f32| -> f64 {
        let errors =
            numbers.iter().map(|number| f64::from(number - step_of(*number, scale, code) as f32 * scale));
        errors.map(|error| error * error).sum()
    };
    let tried = FACTORS.map(|factor| whole * factor).map(|scale| (error(scale), scale));
    tried.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(whole, |(_, scale)| scale)
}

/// Writes codes of 8 bits, or two codes of 4 bits to a byte, the first in the lower half.
struct Writer {
    codes: Vec<u8>,
    code: WeightCode,
    /// Number that is added to each code: 0 for signed codes.
    middle: i32,
}

impl Writer {
    fn new(code: WeightCode, slots: usize, storage: Storage) -> Self {
        let middle = match (storage, code) {
            (Storage::AsGiven, _) => 0,
            (Storage::Columns, WeightCode::Int8) => 128,
            (Storage::Columns, WeightCode::Int4) => 8,
        };
        let (bytes, empty) = match code {
            WeightCode::Int8 => (slots, middle as u8),
            WeightCode::Int4 => (slots.div_ceil(2), (middle | middle << 4) as u8),
        };
        Self { codes: vec![empty; bytes], code, middle }
    }

    fn put(&mut self, slot: usize, step: i32) {
        let step = (step + self.middle) as u8;
        match self.code {
            WeightCode::Int8 => {
                if let Some(byte) = self.codes.get_mut(slot) {
                    *byte = step;
                }
            }
            WeightCode::Int4 => {
                if let Some(byte) = self.codes.get_mut(slot / 2) {
                    let (shift, kept) = if slot.is_multiple_of(2) { (0, 0xf0) } else { (4, 0x0f) };
                    *byte = *byte & kept | (step & 0x0f) << shift;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn matrix(bytes: &[u8], inner: usize, columns: usize, transposed: bool) -> Matrix<'_> {
        Matrix { bytes, inner, columns, transposed }
    }

    #[test]
    fn columns_have_scales_of_their_own() {
        let raw = bytes(&[127.0, 1.0, -63.5, -0.5]);
        let found = encode(matrix(&raw, 2, 2, false), WeightCode::Int8, 2, Storage::AsGiven)
            .map(|codes| (codes.codes, codes.scales));
        assert_eq!(found, Some((vec![127, 127, 192, 192], vec![1.0, 1.0 / 127.0])));
        // The transposed matrix has the same columns.
        let raw = bytes(&[127.0, -63.5, 1.0, -0.5]);
        let found =
            encode(matrix(&raw, 2, 2, true), WeightCode::Int8, 2, Storage::AsGiven).map(|codes| codes.codes);
        assert_eq!(found, Some(vec![127, 192, 127, 192]));
    }

    #[test]
    fn blocks_fill_up_with_the_middle() {
        let raw = bytes(&[7.0, -8.0, 0.0]);
        let found = encode(matrix(&raw, 3, 1, false), WeightCode::Int4, 2, Storage::Columns)
            .map(|codes| (codes.codes, codes.scales));
        assert_eq!(found, Some((vec![0x0f, 0x88], vec![1.0, 0.0])));
        let found =
            encode(matrix(&raw, 3, 1, false), WeightCode::Int4, 2, Storage::AsGiven).map(|codes| codes.codes);
        assert_eq!(found, Some(vec![0x87, 0x00]));
        let found =
            encode(matrix(&raw, 3, 1, false), WeightCode::Int8, 4, Storage::Columns).map(|codes| codes.codes);
        assert_eq!(found, Some(vec![128 + 111, 1, 128, 128]));
    }

    #[test]
    fn errors_are_those_of_the_decoded_numbers() {
        let raw = bytes(&[127.0, 0.25, -100.25, 3.5]);
        let found = encode(matrix(&raw, 4, 1, false), WeightCode::Int8, 4, Storage::AsGiven);
        let norm = (127.0f64 * 127.0 + 0.25 * 0.25 + 100.25 * 100.25 + 3.5 * 3.5).sqrt();
        let error = (0.25f64 * 0.25 + 0.25 * 0.25 + 0.5 * 0.5).sqrt();
        let near = |codes: &Codes| {
            (codes.errors.relative() - error / norm).abs() < 1e-12 && codes.errors.largest == 0.5
        };
        assert!(found.as_ref().is_some_and(near), "{found:?}");
    }

    #[test]
    fn numbers_without_a_code_are_refused() {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let raw = bytes(&[1.0, wrong]);
            assert_eq!(encode(matrix(&raw, 2, 1, false), WeightCode::Int8, 2, Storage::Columns), None);
        }
        assert_eq!(encode(matrix(&[], 0, 4, false), WeightCode::Int8, 2, Storage::Columns), None);
        assert_eq!(encode(matrix(&[0; 4], 2, 1, false), WeightCode::Int8, 2, Storage::Columns), None);
        // Numbers below the normal range become zero.
        let raw = bytes(&[1e-44, 0.0]);
        let found = encode(matrix(&raw, 2, 1, false), WeightCode::Int4, 2, Storage::AsGiven);
        assert_eq!(found.map(|codes| (codes.codes, codes.scales)), Some((vec![0], vec![0.0])));
    }
}
