//! Slices of constants along one axis: which are zero, and constants of some of them.

use memc_ir::{ElementType, TensorType};

/// A constant as runs of slices: `outer` runs of one slice an index, `bytes` a slice.
struct Runs {
    outer: usize,
    count: usize,
    bytes: usize,
    width: usize,
}

impl Runs {
    fn of(ty: &TensorType, axis: usize) -> Option<Self> {
        let dims = ty.known_dims()?;
        let width = usize::try_from(ty.element.bits().filter(|bits| bits % 8 == 0)? / 8).ok()?;
        let product = |dims: &[u64]| {
            dims.iter()
                .try_fold(1usize, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?))
        };
        let count = usize::try_from(*dims.get(axis)?).ok()?;
        let bytes = product(dims.get(axis + 1..)?)?.checked_mul(width)?;
        Some(Self { outer: product(dims.get(..axis)?)?, count, bytes, width })
    }
}

/// Returns, for each of `channels` indices along an axis, whether all elements of a constant are zero, of
/// either sign. Without an axis, one answer holds for all channels.
///
/// Reads a run no further than its first element that is not zero, if no index before it may be zero.
/// `None` if the constant has other extents.
pub(super) fn are_zero(
    ty: &TensorType,
    bytes: &[u8],
    axis: Option<usize>,
    channels: usize,
) -> Option<Vec<bool>> {
    let width = usize::try_from(ty.element.bits().filter(|bits| bits % 8 == 0)? / 8).ok()?;
    let Some(axis) = axis else {
        return Some(vec![is_zero(ty.element, bytes, width); channels]);
    };
    let runs = Runs::of(ty, axis)?;
    if runs.count != channels || runs.outer.checked_mul(channels)?.checked_mul(runs.bytes)? != bytes.len() {
        return None;
    }
    let mut open: Vec<usize> = (0..channels).collect();
    for outer in 0..runs.outer {
        if open.is_empty() {
            break;
        }
        open.retain(|channel| {
            let at = (outer * channels + channel) * runs.bytes;
            bytes.get(at..at + runs.bytes).is_some_and(|slice| is_zero(ty.element, slice, runs.width))
        });
    }
    let mut zero = vec![false; channels];
    open.into_iter().for_each(|channel| zero[channel] = true);
    Some(zero)
}

/// Returns whether all elements are zero, of either sign.
fn is_zero(element: ElementType, bytes: &[u8], width: usize) -> bool {
    // IEEE numbers have their sign in the highest bit of the last byte.
    let sign = if element.is_float() { 0x7f } else { 0xff };
    bytes.chunks_exact(width.max(1)).all(|raw| match raw.split_last() {
        Some((last, rest)) => last & sign == 0 && rest.iter().all(|byte| *byte == 0),
        None => true,
    })
}

/// Returns the slices of a constant at some indices along an axis, with their type.
pub(super) fn kept_slices(
    ty: &TensorType,
    bytes: &[u8],
    axis: usize,
    kept: &[usize],
) -> Option<(TensorType, Vec<u8>)> {
    let runs = Runs::of(ty, axis)?;
    let mut raw = Vec::with_capacity(runs.outer.checked_mul(kept.len())?.checked_mul(runs.bytes)?);
    for outer in 0..runs.outer {
        for channel in kept {
            let at = outer.checked_mul(runs.count)?.checked_add(*channel)?.checked_mul(runs.bytes)?;
            raw.extend_from_slice(bytes.get(at..at.checked_add(runs.bytes)?)?);
        }
    }
    let mut dims = ty.known_dims()?;
    *dims.get_mut(axis)? = kept.len() as u64;
    Some((TensorType::fixed(ty.element, &dims), raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn zeros_of_both_signs_count_and_small_numbers_do_not() {
        let ty = TensorType::fixed(ElementType::Float, &[2, 3]);
        let bytes = floats(&[0.0, 1.0, f32::from_bits(1), -0.0, 0.0, 0.0]);
        assert_eq!(are_zero(&ty, &bytes, Some(1), 3), Some(vec![true, false, false]));
        assert_eq!(are_zero(&ty, &bytes, Some(0), 2), Some(vec![false, true]));
        assert_eq!(are_zero(&ty, &bytes, None, 2), Some(vec![false, false]));
        assert_eq!(are_zero(&ty, &bytes[4..], Some(1), 3), None);
    }

    #[test]
    fn slices_keep_their_order() {
        let ty = TensorType::fixed(ElementType::Float, &[2, 3]);
        let bytes = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let (cut, raw) = kept_slices(&ty, &bytes, 1, &[0, 2]).unwrap_or((ty.clone(), Vec::new()));
        assert_eq!((cut.known_dims(), raw), (Some(vec![2, 2]), floats(&[1.0, 3.0, 4.0, 6.0])));
        assert_eq!(kept_slices(&ty, &bytes, 0, &[1]).map(|(_, raw)| raw), Some(floats(&[4.0, 5.0, 6.0])));
        assert!(kept_slices(&ty, &bytes, 0, &[2]).is_none());
    }
}
