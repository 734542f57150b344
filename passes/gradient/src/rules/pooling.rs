//! Pooling.

use memc_edit::int;
use memc_ir::{Attribute, Dim, ElementType, TensorType, Value};

use super::convolution::{Window, window};
use super::indexing::added;
use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("AveragePool", average_pool).by_results(),
    CodeRule::of("GlobalAveragePool", global_average_pool).by_results(),
    CodeRule::of("GlobalMaxPool", global_max_pool),
    CodeRule::of("MaxPool", max_pool).by_results(),
];

/// The gradient is added at the positions of the greatest elements, which count all elements of the
/// operand. A plan keeps the positions as bytes, and moves a mask of the operand to the pooled gradient.
fn max_pool(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    if site.data.int("storage_order", 0) != 0 {
        return Err(Refusal::form("positions in column-major order have no gradient"));
    }
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let dims = emit.dims(x)?;
    let ty = emit.tensor(gradient).cloned().ok_or_else(|| Refusal::form("its type is not known"))?;
    let positions =
        emit.result_of(site.node, 1, "pool_positions", TensorType { element: ElementType::Int64, ..ty });
    let pooled = emit.dims(gradient)?;
    let [all, few] =
        [&dims, &pooled].map(|dims| dims.iter().fold(Dim::Known(1), |product, dim| product.mul(dim)));
    let positions = emit.reshape(positions, std::slice::from_ref(&few));
    let flat = emit.reshape(gradient, &[few]);
    let added = added(emit, ("ScatterElements", int("axis", 0)), &[all], (positions, flat));
    Site::only(emit.reshape(added, &dims))
}

fn global_average_pool(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let dims = emit.dims(site.operand(0)?)?;
    let gradient = site.gradient()?;
    let count = emit.count(dims.get(2..).unwrap_or_default(), gradient)?;
    let share = emit.op("Div", &[gradient, count]);
    Site::only(emit.expand(share, &dims))
}

fn global_max_pool(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, y, gradient) = (site.operand(0)?, site.first_result()?, site.gradient()?);
    let axes: Vec<usize> = (2..emit.rank(x)?).collect();
    let mask = emit.op("Equal", &[x, y]);
    let ones = emit.cast(mask, emit.element(x));
    let count = emit.sum(ones, &axes, true);
    let (share, zero) = (emit.op("Div", &[gradient, count]), emit.number(0.0, gradient));
    Site::only(emit.op("Where", &[mask, share, zero]))
}

/// Each element of a window has an equal share: a transposed convolution with ones, an image a channel.
fn average_pool(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, mut gradient) = (site.operand(0)?, site.gradient()?);
    let (dims, pooled) = (emit.dims(x)?, emit.dims(gradient)?);
    let window = window(emit, site, x, gradient, None)?;
    let kernel: u64 = window.kernel.iter().product();
    if window.has_partial() {
        // Windows at the border have fewer elements; their numbers are known.
        let counts = counts(&window, site.data.int("count_include_pad", 0) != 0);
        let ones: Vec<u64> = [1, 1].into_iter().chain(window.result.iter().copied()).collect();
        let counts = emit.floats(&counts, &ones, gradient);
        gradient = emit.op("Div", &[gradient, counts]);
    } else {
        let count = emit.number(kernel as f64, gradient);
        gradient = emit.op("Div", &[gradient, count]);
    }
    let images = dims[0].mul(&dims[1]);
    let flat = |spatial: &[Dim]| {
        [images.clone(), Dim::Known(1)].into_iter().chain(spatial.iter().cloned()).collect::<Vec<_>>()
    };
    let flat_gradient = emit.reshape(gradient, &flat(&pooled[2..]));
    let extents: Vec<u64> = [1, 1].into_iter().chain(window.kernel.iter().copied()).collect();
    let ones = emit.floats(&vec![1.0; kernel as usize], &extents, gradient);
    let spread = window.transposed(emit, flat_gradient, ones, 1)?;
    Site::only(emit.reshape(spread, &dims))
}

/// Number of elements of each window that count for its mean.
fn counts(window: &Window, with_padding: bool) -> Vec<f64> {
    // Count along each axis; a window is the product of them.
    let along = |axis: usize| -> Vec<u64> {
        let (kernel, stride, dilation) = (window.kernel[axis], window.strides[axis], window.dilations[axis]);
        let (before, after, extent) = (window.before[axis], window.after[axis], window.operand[axis] as i64);
        let (low, high) = if with_padding { (-before, extent + after) } else { (0, extent) };
        let starts = (0..window.result[axis]).map(|at| at as i64 * stride as i64 - before);
        let count = |start: i64| {
            (0..kernel)
                .map(|tap| start + (tap * dilation) as i64)
                .filter(|at| (low..high).contains(at))
                .count()
        };
        starts.map(|start| count(start).max(1) as u64).collect()
    };
    let mut all = vec![1u64];
    for axis in 0..window.kernel.len() {
        let own = along(axis);
        all = all.iter().flat_map(|count| own.iter().map(move |more| count * more)).collect();
    }
    all.into_iter().map(|count| count as f64).collect()
}

/// Sums windows along axis 1 with an average pool; used by normalization over neighbouring channels.
pub(super) fn windowed_sum(
    emit: &mut Emit<'_>,
    value: Value,
    size: u64,
    before: u64,
) -> Result<Value, Refusal> {
    let dims = emit.dims(value)?;
    let rest = dims[2..].iter().fold(Dim::Known(1), |product, dim| product.mul(dim));
    let image = emit.reshape(value, &[dims[0].clone(), Dim::Known(1), dims[1].clone(), rest]);
    let numbers =
        |numbers: Vec<u64>| Attribute::Ints(numbers.into_iter().map(|number| number as i64).collect());
    let mut attributes = int("count_include_pad", 1);
    attributes.push(("kernel_shape".to_owned(), numbers(vec![size, 1])));
    attributes.push(("pads".to_owned(), numbers(vec![before, 0, size - 1 - before, 0])));
    let mean = emit.op_with("AveragePool", &[image], attributes);
    let count = emit.number(size as f64, value);
    let sum = emit.op("Mul", &[mean, count]);
    Ok(emit.reshape(sum, &dims))
}
