//! Gradients of the weights of convolutions, in three forms that differ up to 14 times in time.
//!
//! Measured on one thread with images [8, C, H, W] and 3 x 3 windows: with the batch as channels and the
//! gradient as weights, 59 ms at 64 channels of 56 x 56, 48 ms at 512 channels of 7 x 7, 56 ms for the first
//! layer of an image network (3 channels); with a product for each element of the window, 32, 46 and 167 ms;
//! with the batch inside one product, 34, 30 and 220 ms. Windows of one element take 61, 10 and 31 ms.

use memc_edit::int;
use memc_ir::{Dim, Value};

use super::convolution::Window;
use crate::emit::{Cut, Emit};
use crate::error::Refusal;

/// Most channels for which a batch of known extent becomes the channels of a convolution. Parts of a free
/// batch may be empty, and no convolution sums over no channels.
const FEW_CHANNELS: u64 = 8;

/// Most elements of a window that get a product each; larger windows would make too many nodes.
const MAX_TAPS: u64 = 64;

/// Returns the gradient of weights `dims = [M, C / groups, window...]` for windows that read `x` and make
/// results with `gradient`.
pub(super) fn weight_gradient(
    emit: &mut Emit<'_>,
    window: &Window,
    x: Value,
    gradient: Value,
    dims: &[Dim],
    groups: u64,
) -> Result<Value, Refusal> {
    let known: Option<Vec<u64>> = dims.iter().map(Dim::known).collect();
    let known = known.ok_or_else(|| Refusal::form("weights of unknown extents"))?;
    let (filters, channels) = (known[0], known[1]);
    let taps: u64 = window.kernel.iter().product();
    let batch = emit.dims(x)?.first().and_then(Dim::known);
    if groups != 1 || taps > MAX_TAPS || channels <= FEW_CHANNELS && batch.is_some() {
        return as_convolution(emit, window, x, gradient, groups);
    }
    let positions: u64 = window.result.iter().product();
    let joins_images = batch.is_some_and(|_| filters * channels > (filters + channels) * positions);
    by_taps(emit, window, x, gradient, dims, joins_images)
}

/// A convolution of images whose channels are the batch, with the gradient as weights: strides and dilations
/// change places.
fn as_convolution(
    emit: &mut Emit<'_>,
    window: &Window,
    x: Value,
    gradient: Value,
    groups: u64,
) -> Result<Value, Refusal> {
    let x_dims = emit.dims(x)?;
    let axes = window.kernel.len();
    let apart = Dim::Known(groups);
    let part = x_dims[1].div(&apart);
    // [N, G * C, ...] becomes [C, G * N, ...].
    let spatial = |dims: &[Dim]| dims[2..].to_vec();
    let mut split: Vec<Dim> = vec![x_dims[0].clone(), apart.clone(), part.clone()];
    split.extend(spatial(&x_dims));
    let split = emit.reshape(x, &split);
    let order: Vec<usize> = [2, 1, 0].into_iter().chain(3..3 + axes).collect();
    let turned = emit.transpose(split, &order);
    let mut joined = vec![part, apart.mul(&x_dims[0])];
    joined.extend(spatial(&x_dims));
    let image = emit.reshape(turned, &joined);
    let order: Vec<usize> = [1, 0].into_iter().chain(2..2 + axes).collect();
    let filters = emit.transpose(gradient, &order);
    let own =
        Window { strides: window.dilations.clone(), dilations: window.strides.clone(), ..window.clone() };
    let mut attributes = own.attributes();
    if groups != 1 {
        attributes.extend(int("group", i64::try_from(groups).unwrap_or(i64::MAX)));
    }
    let made = emit.op_with("Conv", &[image, filters], attributes);
    // Elements behind the last window give more positions than the window has.
    let ranges: Vec<_> = (0..axes)
        .map(|axis| Cut { axis: axis + 2, start: 0, end: window.kernel[axis] as i64, step: 1 })
        .collect();
    let extents = emit.dims(made)?;
    let fits = (0..axes).all(|axis| extents[axis + 2].known() == Some(window.kernel[axis]));
    let made = if fits { made } else { emit.cut(made, &ranges) };
    Ok(emit.transpose(made, &order))
}

/// For each element of the window a product of the gradient with the elements that it reads. With
/// `joins_images`, the positions of all images are rows of one product, which pays where products of single
/// images have more elements than their operands; else images are multiplied one by one, and summed.
fn by_taps(
    emit: &mut Emit<'_>,
    window: &Window,
    x: Value,
    gradient: Value,
    dims: &[Dim],
    joins_images: bool,
) -> Result<Value, Refusal> {
    let axes = window.kernel.len();
    let (x_dims, g_dims) = (emit.dims(x)?, emit.dims(gradient)?);
    let positions = Dim::Known(window.result.iter().product());
    // Channels last for one product: each cut is then a matrix as it is.
    let lead = if joins_images { 1 } else { 2 };
    let source = if joins_images {
        let order: Vec<usize> = [0].into_iter().chain(2..2 + axes).chain([1]).collect();
        emit.transpose(x, &order)
    } else {
        x
    };
    let mut pads = vec![0; 2 * (axes + 2)];
    for axis in 0..axes {
        (pads[lead + axis], pads[axes + 2 + lead + axis]) =
            (window.before[axis].max(0), window.after[axis].max(0));
    }
    let source = emit.pad(source, &pads);
    let flat = if joins_images {
        let turned = emit.transpose(gradient, &[1, 0].into_iter().chain(2..2 + axes).collect::<Vec<_>>());
        emit.reshape(turned, &[g_dims[1].clone(), g_dims[0].mul(&positions)])
    } else {
        emit.reshape(gradient, &[g_dims[0].clone(), g_dims[1].clone(), positions.clone()])
    };
    let mut products = Vec::new();
    let taps: u64 = window.kernel.iter().product();
    for tap in 0..taps {
        // Position of the element in the window, last axis fastest.
        let mut rest = tap;
        let mut ranges = Vec::new();
        for axis in (0..axes).rev() {
            let at = rest % window.kernel[axis];
            rest /= window.kernel[axis];
            let start = (at * window.dilations[axis]) as i64;
            let stride = window.strides[axis] as i64;
            let end = start + stride * (window.result[axis] as i64 - 1) + 1;
            ranges.push(Cut { axis: lead + axis, start, end, step: stride });
        }
        ranges.reverse();
        let extent = |axis: usize| {
            window.operand[axis] as i64 + window.before[axis].max(0) + window.after[axis].max(0)
        };
        let is_whole = (0..axes).all(|axis| {
            ranges[axis].start == 0 && ranges[axis].end == extent(axis) && ranges[axis].step == 1
        });
        let cut = if is_whole { source } else { emit.cut(source, &ranges) };
        let made = if joins_images {
            let matrix = emit.reshape(cut, &[x_dims[0].mul(&positions), x_dims[1].clone()]);
            emit.op("Gemm", &[flat, matrix])
        } else {
            let matrix = emit.reshape(cut, &[x_dims[0].clone(), x_dims[1].clone(), positions.clone()]);
            let turned = emit.transpose(matrix, &[0, 2, 1]);
            let product = emit.op("MatMul", &[flat, turned]);
            emit.sum(product, &[0], false)
        };
        products.push(made);
    }
    if let [only] = products[..] {
        return Ok(only);
    }
    let stacked: Vec<Value> = products.into_iter().map(|product| emit.unsqueeze(product, &[2])).collect();
    let joined = emit.op_with("Concat", &stacked, int("axis", 2));
    Ok(emit.reshape(joined, dims))
}
