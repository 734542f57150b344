//! Positions of maxima: the place of a maximum within its window, in one byte.
//!
//! Result 1 of MaxPool counts all elements of the operand. The first element that a window could read,
//! padding included, is known for each element of the result; the maximum lies at most the span of the
//! window behind it. If the span is below 256, the difference modulo 256 gives the whole position back.

use memc_ir::{ElementType, Module, Value};
use memc_ops::{PoolAxis, PoolWindows, Typed, pool_windows};

use super::{Form, Operand, Recipe, cast, constant, step};

/// First operator set in which differences of bytes have kernels.
const BYTES: i64 = 14;

/// Returns the recipe for result 1 of MaxPool; `None` for other values, and for wide windows.
pub(super) fn recipe(module: &Module, value: Value, version: i64) -> Option<Recipe> {
    let node = module.producer(value)?;
    let dims = module.ty(value).tensor()?.known_dims()?;
    if version < BYTES || module.node(node).outputs.get(1).copied().flatten() != Some(value) {
        return None;
    }
    let windows = pool_windows(&Typed::of(module, node))?;
    let bases = Bases::of(&windows)?;
    // Extents of the two grids: images, and windows in an image.
    let images: Vec<u64> =
        dims.iter().enumerate().map(|(axis, extent)| if axis < 2 { *extent } else { 1 }).collect();
    let places: Vec<u64> =
        dims.iter().enumerate().map(|(axis, extent)| if axis < 2 { 1 } else { *extent }).collect();
    let bytes = |grid: &[i32]| grid.iter().map(|base| base.to_le_bytes()[0]).collect();
    let words = |grid: &[i32]| grid.iter().flat_map(|base| base.to_le_bytes()).collect();
    let constants = vec![
        constant(ElementType::Uint8, &images, bytes(&bases.images)),
        constant(ElementType::Uint8, &places, bytes(&bases.places)),
        constant(ElementType::Int32, &images, words(&bases.images)),
        constant(ElementType::Int32, &places, words(&bases.places)),
    ];
    let encode = vec![
        cast(Operand::Value, ElementType::Uint8, &dims),
        step("Sub", &[Operand::Step(0), Operand::Constant(0)], ElementType::Uint8, &dims),
        step("Sub", &[Operand::Step(1), Operand::Constant(1)], ElementType::Uint8, &dims),
    ];
    let decode = vec![
        cast(Operand::Code(0), ElementType::Int32, &dims),
        step("Add", &[Operand::Step(0), Operand::Constant(2)], ElementType::Int32, &dims),
        step("Add", &[Operand::Step(1), Operand::Constant(3)], ElementType::Int32, &dims),
        cast(Operand::Step(2), ElementType::Int64, &dims),
    ];
    Some(Recipe { form: Form::Position, constants, encode, decode, codes: vec![2], others: Vec::new() })
}

/// Positions from which the elements of windows count: that of each image, and that of each window in
/// its image.
struct Bases {
    images: Vec<i32>,
    places: Vec<i32>,
}

impl Bases {
    /// Returns the bases; `None` if a window spans more than 255 elements, or a position needs more than
    /// 31 bits.
    fn of(windows: &PoolWindows) -> Option<Self> {
        let span =
            |axis: &PoolAxis| axis.kernel.checked_sub(1)?.checked_mul(axis.dilation)?.checked_mul(axis.inner);
        let spans: Vec<u64> = windows.axes.iter().map(span).collect::<Option<_>>()?;
        let all = windows.images.checked_mul(windows.image)?;
        if spans.iter().fold(0, |sum: u64, span| sum.saturating_add(*span)) > 255
            || i32::try_from(all).is_err()
        {
            return None;
        }
        let image = |index: u64| i32::try_from(index * windows.image).ok();
        let images = (0..windows.images).map(image).collect::<Option<_>>()?;
        let mut places: Vec<i64> = vec![0];
        for axis in &windows.axes {
            let starts: Vec<i64> =
                (0..axis.windows).map(|window| start(axis, window)).collect::<Option<_>>()?;
            places = places.iter().flat_map(|place| starts.iter().map(move |start| place + start)).collect();
        }
        let places = places.into_iter().map(|place| i32::try_from(place).ok()).collect::<Option<_>>()?;
        Some(Self { images, places })
    }
}

/// Returns the position in an image at which a window starts along one axis; negative in the padding.
fn start(axis: &PoolAxis, window: u64) -> Option<i64> {
    let number = |value: u64| i64::try_from(value).ok();
    let coordinate = number(window)?.checked_mul(number(axis.stride)?)?.checked_sub(number(axis.before)?)?;
    coordinate.checked_mul(number(axis.inner)?)
}
