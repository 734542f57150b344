//! Values of a step and of its parts: shares of graph inputs, and sums, means and rows of results.

use memc_layout::devices::{Join, Joined};

use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;

/// Returns the share of part `run` of `parts` of a whole value.
///
/// # Errors
/// The value has other dimensions than stated.
pub(crate) fn share(
    whole: &Array,
    name: &str,
    joined: &Joined,
    run: u64,
    parts: u64,
) -> Result<Array, Error> {
    let rows = Rows::of(joined, parts, whole)
        .filter(|_| whole.shape == joined.shape)
        .ok_or_else(|| other(name, joined))?;
    let filled = Array::filled(whole.element, rows.shape.clone(), |place| {
        for (block, own) in place.chunks_exact_mut(rows.part).enumerate() {
            let from = block * rows.whole + rows.start(run);
            let given = whole.bytes().get(from..from + rows.part).ok_or_else(|| other(name, joined))?;
            own.copy_from_slice(given);
        }
        Ok(())
    })?;
    filled.ok_or_else(|| other(name, joined))
}

/// Joins the value of part `run` of `parts` with those of the parts before.
///
/// # Errors
/// The part has other dimensions than stated, or a type that is not added.
pub(crate) fn join(
    so_far: Option<Array>,
    part: &Array,
    name: &str,
    joined: &Joined,
    run: u64,
    parts: u64,
) -> Result<Array, Error> {
    let wrong = || other(name, joined);
    let filled = match joined.by {
        Join::Concat => {
            let rows =
                Rows::of(joined, parts, part).filter(|rows| rows.shape == part.shape).ok_or_else(wrong)?;
            Array::filled(part.element, joined.shape.clone(), |place| {
                if let Some(so_far) = &so_far {
                    place.copy_from_slice(so_far.bytes());
                }
                for (block, own) in part.bytes().chunks_exact(rows.part).enumerate() {
                    let to = block * rows.whole + rows.start(run);
                    place.get_mut(to..to + rows.part).ok_or_else(wrong)?.copy_from_slice(own);
                }
                Ok(())
            })?
        }
        Join::Sum | Join::Mean => {
            let shape = so_far.as_ref().map_or(&joined.shape, |so_far| &so_far.shape);
            if *shape != part.shape {
                return Err(wrong());
            }
            Array::filled(part.element, part.shape.clone(), |place| {
                place.copy_from_slice(part.bytes());
                let factor = (joined.by == Join::Mean && run + 1 == parts).then(|| 1.0 / parts as f64);
                let so_far = so_far.as_ref().map(Array::bytes);
                if add(part.element, so_far, place, factor) { Ok(()) } else { Err(wrong()) }
            })?
        }
    };
    filled.ok_or_else(wrong)
}

/// Adds the sum so far to a part, in place, and multiplies by a factor. Returns false for other types.
fn add(element: Element, so_far: Option<&[u8]>, place: &mut [u8], factor: Option<f64>) -> bool {
    macro_rules! sum {
        ($kind:ty, $add:expr, $times:expr) => {{
            const SIZE: usize = size_of::<$kind>();
            for (index, own) in place.chunks_exact_mut(SIZE).enumerate() {
                let read = |bytes: &[u8]| {
                    <$kind>::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0)))
                };
                let mut number = read(own);
                if let Some(before) = so_far.and_then(|bytes| bytes.get(index * SIZE..(index + 1) * SIZE)) {
                    number = $add(read(before), number);
                }
                if let Some(factor) = factor {
                    number = $times(number, factor);
                }
                own.copy_from_slice(&number.to_le_bytes());
            }
            true
        }};
    }
    match element.name() {
        "float" => sum!(f32, |one: f32, other: f32| one + other, |one: f32, factor: f64| one * factor as f32),
        "double" => sum!(f64, |one: f64, other: f64| one + other, |one: f64, factor: f64| one * factor),
        "int32" => sum!(i32, i32::wrapping_add, |one: i32, _: f64| one),
        "int64" => sum!(i64, i64::wrapping_add, |one: i64, _: f64| one),
        _ => false,
    }
}

/// Positions of an axis, as bytes.
struct Rows {
    /// Dimensions of a part.
    shape: Vec<u64>,
    /// Bytes of a part in each block of the axes before.
    part: usize,
    /// Bytes of the whole in each block.
    whole: usize,
}

impl Rows {
    fn of(joined: &Joined, parts: u64, array: &Array) -> Option<Self> {
        let axis = usize::try_from(joined.axis?).ok()?;
        let mut shape = joined.shape.clone();
        let extent = shape.get_mut(axis).filter(|extent| **extent > 0 && extent.is_multiple_of(parts))?;
        *extent /= parts;
        let bytes = |dims: &[u64]| array.element.bytes(dims).and_then(|bytes| usize::try_from(bytes).ok());
        let (part, whole) = (bytes(shape.get(axis..)?)?, bytes(joined.shape.get(axis..)?)?);
        (part > 0 && array.element.packed_bits().is_none()).then_some(Self { shape, part, whole })
    }

    /// First byte of a part in a block.
    fn start(&self, run: u64) -> usize {
        usize::try_from(run).unwrap_or(usize::MAX).saturating_mul(self.part)
    }
}

fn other(name: &str, joined: &Joined) -> Error {
    let reason =
        format!("is not the part of a value of dimensions {:?} that the manifest states", joined.shape);
    Error::Input { input: name.to_owned(), reason }
}
