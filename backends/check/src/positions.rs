//! Proves that positions of a MaxPool return from their low bytes.

use memc_ir::ElementType;
use memc_ops::PoolWindows;

use crate::content::Raw;

/// Sum of constants that depend on the image alone, and sum of those that depend on the place in the
/// image alone; `None` without constants.
struct Grid {
    images: Option<Vec<i128>>,
    places: Option<Vec<i128>>,
}

/// Whether `added + (v - subtracted) mod 256` equals every position `v` that the pool may return, for
/// positions of type `dims`. The subtracted constants are bytes, the added ones have 32 bits.
///
/// The two sums of constants must be equal modulo 256, and the added one must be at most 255 below each
/// position of the window, and never above it.
pub(crate) fn restores(windows: &PoolWindows, dims: &[u64], added: &[&Raw], subtracted: &[&Raw]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let grids = grid(added, dims, ElementType::Int32).zip(grid(subtracted, dims, ElementType::Uint8));
    let Some((added, subtracted)) = grids.filter(|_| !overflows(added)) else { return false };
    let images = filled(added.images, subtracted.images, &dims[..2]);
    let places = filled(added.places, subtracted.places, &dims[2..]);
    let Some(((images, low_images), (places, low_places))) = images.zip(places) else { return false };
    let Some(reach) = reach(windows, places.len()) else { return false };
    let image = i128::from(windows.image);
    // Distance of the sum from the first element of the image, then of the window, both signed.
    let moved: Vec<i128> = (0..).zip(&images).map(|(index, sum)| sum - index * image).collect();
    let above_first = reach.iter().zip(&places).map(|((first, _), sum)| sum - first).max();
    let below_last = reach.iter().zip(&places).map(|((_, last), sum)| last - sum).max();
    let (Some(most), Some(least)) = (moved.iter().max(), moved.iter().min()) else { return false };
    let is_near = above_first.is_some_and(|above| most + above <= 0)
        && below_last.is_some_and(|below| below - least <= 255);
    let rests = |one: &[i128], other: &[i128]| -> Option<i128> {
        let mut rests = one.iter().zip(other).map(|(one, other)| (one - other).rem_euclid(256));
        let first = rests.next()?;
        rests.all(|rest| rest == first).then_some(first)
    };
    let rest = rests(&images, &low_images).zip(rests(&places, &low_places));
    is_near && rest.is_some_and(|(images, places)| (images + places) % 256 == 0)
}

/// Returns the first and the last position in the image that each window reads, in the order of the
/// windows; `None` if a window may read no element, or if there are not `count` windows.
fn reach(windows: &PoolWindows, count: usize) -> Option<Vec<(i128, i128)>> {
    let mut reach = vec![(0, 0)];
    for axis in &windows.axes {
        if reach.len().checked_mul(usize::try_from(axis.windows).ok()?)? > count {
            return None;
        }
        let along: Vec<(u64, u64)> =
            (0..axis.windows).map(|window| axis.coordinates(window)).collect::<Option<_>>()?;
        let inner = i128::from(axis.inner);
        let moved = |at: &(i128, i128)| {
            let at = *at;
            along.iter().map(move |(first, last)| {
                (at.0 + i128::from(*first) * inner, at.1 + i128::from(*last) * inner)
            })
        };
        reach = reach.iter().flat_map(moved).collect();
    }
    (reach.len() == count).then_some(reach)
}

/// Returns both sums for all elements of `extents`. A sum without constants is zero. All numbers come
/// from files, so without any constant the extents must be 1: no list is longer than a constant.
fn filled(
    one: Option<Vec<i128>>,
    other: Option<Vec<i128>>,
    extents: &[u64],
) -> Option<(Vec<i128>, Vec<i128>)> {
    let is_single = || extents.iter().all(|extent| *extent == 1);
    let count = one.as_ref().or(other.as_ref()).map(Vec::len).or_else(|| is_single().then_some(1))?;
    let or_zero = |sum: Option<Vec<i128>>| sum.unwrap_or_else(|| vec![0; count]);
    Some((or_zero(one), or_zero(other)))
}

/// Returns the sums of constants of one element type, each of which has all images or all places of
/// `dims`.
fn grid(terms: &[&Raw], dims: &[u64], element: ElementType) -> Option<Grid> {
    let (mut images, mut places): (Option<Vec<i128>>, Option<Vec<i128>>) = (None, None);
    for term in terms.iter().filter(|term| term.element == element) {
        // Dimensions are aligned at the end.
        let ones = dims.len().checked_sub(term.dims.len())?;
        let extents: Vec<u64> = std::iter::repeat_n(1, ones).chain(term.dims.iter().copied()).collect();
        let numbers = numbers(term)?;
        let is_one = |extent: &u64| *extent == 1;
        let sum = match () {
            () if extents[..2] == dims[..2] && extents[2..].iter().all(is_one) => &mut images,
            () if extents[2..] == dims[2..] && extents[..2].iter().all(is_one) => &mut places,
            () => return None,
        };
        *sum = Some(match sum.take() {
            None => numbers,
            Some(sum) => sum.iter().zip(&numbers).map(|(a, b)| a + b).collect(),
        });
    }
    let is_alike = terms.iter().all(|term| term.element == element);
    is_alike.then_some(Grid { images, places })
}

/// Returns the elements of a constant of bytes or of 32-bit integers.
fn numbers(raw: &Raw) -> Option<Vec<i128>> {
    let numbers: Vec<i128> = match raw.element {
        ElementType::Uint8 => raw.bytes.iter().map(|byte| i128::from(*byte)).collect(),
        ElementType::Int32 => {
            let number =
                |bytes: &[u8]| bytes.try_into().ok().map(|bytes| i128::from(i32::from_le_bytes(bytes)));
            raw.bytes.chunks(4).map(number).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let count = raw.dims.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent));
    (count == Some(numbers.len() as u64)).then_some(numbers)
}

/// Whether some sum of elements of 32-bit constants and a byte may not fit into 32 bits.
fn overflows(terms: &[&Raw]) -> bool {
    let largest = |raw: &&Raw| numbers(raw)?.into_iter().map(i128::abs).max();
    let sum = terms.iter().map(|raw| largest(raw).unwrap_or(0)).sum::<i128>();
    sum + 255 > i128::from(i32::MAX)
}

#[cfg(test)]
mod tests {
    use memc_ops::PoolAxis;

    use super::*;

    fn raw<const N: usize>(element: ElementType, dims: [u64; N], numbers: &[i64]) -> Raw {
        let bytes: Vec<u8> = match element {
            ElementType::Uint8 => numbers.iter().map(|number| (number & 255) as u8).collect(),
            _ => numbers.iter().flat_map(|number| (*number as i32).to_le_bytes()).collect(),
        };
        Raw { element, dims: dims.to_vec(), bytes: bytes.into() }
    }

    /// Returns the windows of a pool of 2 x 3 images of `side` x `side` elements, three by three with
    /// stride 2 and padding 1.
    fn pool(side: u64) -> PoolWindows {
        let axis = |inner| PoolAxis {
            windows: side / 2,
            extent: side,
            inner,
            stride: 2,
            before: 1,
            kernel: 3,
            dilation: 1,
        };
        PoolWindows { images: 6, image: side * side, axes: vec![axis(side), axis(1)] }
    }

    /// Returns the images and the places of the windows' first positions, padding included.
    fn bases(side: i64) -> (Vec<i64>, Vec<i64>) {
        let place = |at: i64| (at / (side / 2) * 2 - 1) * side + at % (side / 2) * 2 - 1;
        ((0..6).map(|image| image * side * side).collect(), (0..side * side / 4).map(place).collect())
    }

    /// Whether the constants restore the positions of the pool, after an edit of the four lists: images
    /// and places added, images and places subtracted.
    fn holds(side: i64, edit: impl Fn(&mut [Vec<i64>; 4])) -> bool {
        let (images, places) = bases(side);
        let mut lists = [images.clone(), places.clone(), images, places];
        edit(&mut lists);
        let half = side as u64 / 2;
        let (wide, low) = (ElementType::Int32, ElementType::Uint8);
        let added = [&raw(wide, [2, 3, 1, 1], &lists[0]), &raw(wide, [1, 1, half, half], &lists[1])];
        let subtracted = [&raw(low, [2, 3, 1, 1], &lists[2]), &raw(low, [1, 1, half, half], &lists[3])];
        restores(&pool(side as u64), &[2, 3, half, half], &added, &subtracted)
    }

    #[test]
    fn positions_return_if_both_sums_fit_the_windows() {
        assert!(holds(8, |_| {}) && holds(126, |_| {}));
        // Windows of three rows of 128 elements span 258 positions.
        assert!(!holds(128, |_| {}));
        // Room in the byte allows a lower base, and one that is never above a position.
        assert!(holds(8, |lists| lists.iter_mut().step_by(2).flatten().for_each(|image| *image -= 100)));
        assert!(!holds(8, |lists| lists.iter_mut().step_by(2).flatten().for_each(|image| *image -= 240)));
        for list in 0..4 {
            for at in 0..6 {
                for wrong in [1, -1, 128] {
                    assert!(!holds(8, |lists| lists[list][at] += wrong), "{list}, {at}, {wrong}");
                }
            }
        }
        // A multiple of 256 in the subtracted constants changes nothing, in the added ones much.
        assert!(holds(8, |lists| lists[2][3] += 256) && !holds(8, |lists| lists[0][3] += 256));
        assert!(!holds(8, |lists| lists[2].iter_mut().for_each(|image| *image += 1)));
        // Sums of 32 bits may not overflow on the way.
        assert!(!holds(8, |lists| {
            lists.iter_mut().step_by(2).flatten().for_each(|image| *image += 2_000_000_000);
            lists.iter_mut().skip(1).step_by(2).flatten().for_each(|place| *place -= 2_000_000_000);
        }));
        // One constant may be higher if the other is lower.
        assert!(holds(8, |lists| {
            lists[0].iter_mut().for_each(|image| *image += 7);
            lists[3].iter_mut().for_each(|place| *place += 7);
            lists[1].iter_mut().for_each(|place| *place -= 7);
            lists[2].iter_mut().for_each(|image| *image -= 7);
        }));
    }

    #[test]
    fn constants_of_other_shapes_are_refused() {
        let (images, places) = bases(4);
        let (wide, low) = (ElementType::Int32, ElementType::Uint8);
        let (a, b) = (raw(wide, [2, 3, 1, 1], &images), raw(wide, [1, 1, 2, 2], &places));
        let (c, d) = (raw(low, [2, 3, 1, 1], &images), raw(low, [2, 2], &places));
        let dims = [2, 3, 2, 2];
        assert!(restores(&pool(4), &dims, &[&a, &b], &[&c, &d]));
        assert!(!restores(&pool(4), &dims, &[&a], &[&c, &d]) && !restores(&pool(4), &dims, &[&a, &b], &[&d]));
        assert!(!restores(&pool(4), &dims, &[&a, &b, &c], &[&c, &d]), "bytes among wide constants");
        // Constants of zeros may be left out.
        let (zeros, sixteen) = (raw(low, [2, 3, 1, 1], &[0; 6]), pool(16));
        let (e, f) = (raw(wide, [2, 3, 1, 1], &bases(16).0), raw(wide, [1, 1, 8, 8], &bases(16).1));
        let g = raw(low, [8, 8], &bases(16).1);
        assert!(restores(&sixteen, &[2, 3, 8, 8], &[&e, &f], &[&g, &zeros]));
        assert!(
            restores(&sixteen, &[2, 3, 8, 8], &[&e, &f], &[&g])
                && !restores(&sixteen, &[2, 3, 8, 8], &[&f], &[&g])
        );
        let swapped = raw(wide, [3, 2, 1, 1], &images);
        assert!(!restores(&pool(4), &dims, &[&swapped, &b], &[&c, &d]));
        let short = Raw { bytes: a.bytes.slice(..20), ..a.clone() };
        assert!(!restores(&pool(4), &dims, &[&short, &b], &[&c, &d]));
        let large = raw(wide, [2, 3, 1, 1], &[i64::from(i32::MAX); 6]);
        assert!(!restores(&pool(4), &dims, &[&large, &b], &[&c, &d]));
        assert!(restores(&pool(4), &[2, 0, 2, 2], &[], &[]), "no elements");
        // Huge extents without constants take no memory.
        let mut huge = pool(4);
        huge.axes[0].windows = 1 << 40;
        assert!(!restores(&huge, &[1 << 30, 1 << 30, 1 << 40, 2], &[], &[]));
        assert!(!restores(&huge, &[2, 3, 1 << 40, 2], &[&a, &b], &[&c, &d]));
    }
}
