//! Normalizations.
//!
//! All share one form: `y = n * scale + bias` with `n = (x - mean) * inv` and `inv = 1 / sqrt(var + epsilon)`
//! over some axes. With `h` the gradient of `n`, the gradient of `x` is
//! `inv * (h - mean(h) - n * mean(h * n))`.

use memc_ir::{Dim, TensorType, Value};

use super::pooling::windowed_sum;
use super::shape::axis_of;
use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("BatchNormalization", batch_normalization),
    CodeRule::of("GroupNormalization", group_normalization),
    CodeRule::of("InstanceNormalization", instance_normalization),
    CodeRule::of("LRN", local_response),
    CodeRule::of("LayerNormalization", layer_normalization),
    CodeRule::of("LpNormalization", lp_normalization),
    CodeRule::of("MeanVarianceNormalization", mean_variance),
    CodeRule::of("RMSNormalization", root_mean_square),
];

/// Returns `inv * (h - mean(h) - n * mean(h * n))`, without the mean of `h` if the values are not centered.
fn backward(emit: &mut Emit<'_>, h: Value, n: Value, inv: Value, axes: &[usize], centered: bool) -> Value {
    let weighted = emit.op("Mul", &[h, n]);
    let correlation = emit.reduce("ReduceMean", weighted, axes, true);
    let along = emit.op("Mul", &[n, correlation]);
    let mut rest = emit.op("Sub", &[h, along]);
    if centered {
        let mean = emit.reduce("ReduceMean", h, axes, true);
        rest = emit.op("Sub", &[rest, mean]);
    }
    emit.op("Mul", &[rest, inv])
}

/// Returns `(x - mean) * inv` and `inv` over axes, computed again.
fn normalized(emit: &mut Emit<'_>, x: Value, axes: &[usize], epsilon: f64) -> (Value, Value) {
    let mean = emit.reduce("ReduceMean", x, axes, true);
    let centered = emit.op("Sub", &[x, mean]);
    let squares = emit.op("Mul", &[centered, centered]);
    let variance = emit.reduce("ReduceMean", squares, axes, true);
    let inv = inverse_deviation(emit, variance, epsilon);
    (emit.op("Mul", &[centered, inv]), inv)
}

fn inverse_deviation(emit: &mut Emit<'_>, variance: Value, epsilon: f64) -> Value {
    let epsilon = emit.number(epsilon, variance);
    let sum = emit.op("Add", &[variance, epsilon]);
    let deviation = emit.op("Sqrt", &[sum]);
    emit.op("Reciprocal", &[deviation])
}

fn epsilon(site: &Site) -> f64 {
    f64::from(site.data.float("epsilon", 1e-5))
}

/// Extents of a vector of channels that is broadcast over images: `[1, C, 1, ...]`, without the first axis.
fn channel_dims(channels: &Dim, rank: usize) -> Vec<Dim> {
    [channels.clone()].into_iter().chain((2..rank).map(|_| Dim::Known(1))).collect()
}

/// Mean and deviation are results of the forward node.
fn layer_normalization(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, scale, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    let dims = emit.dims(x)?;
    let axis = axis_of(site, -1, dims.len())?;
    let axes: Vec<usize> = (axis..dims.len()).collect();
    let kept: Vec<Dim> = dims
        .iter()
        .enumerate()
        .map(|(at, dim)| if at >= axis { Dim::Known(1) } else { dim.clone() })
        .collect();
    let ty = TensorType { element: memc_ir::ElementType::Float, shape: Some(kept) };
    let mean = emit.result_of(site.node, 1, "norm_mean", ty.clone());
    let inv = emit.result_of(site.node, 2, "norm_inverse", ty);
    let (mean, inv) = (emit.cast(mean, emit.element(x)), emit.cast(inv, emit.element(x)));
    let centered = emit.op("Sub", &[x, mean]);
    let n = emit.op("Mul", &[centered, inv]);
    affine(emit, site, [gradient, n, inv], scale, |emit, h, n, inv| backward(emit, h, n, inv, &axes, true))
}

/// Gradients of `n * scale + bias`, for scales that broadcast to `n`.
fn affine(
    emit: &mut Emit<'_>,
    site: &Site,
    [gradient, n, inv]: [Value; 3],
    scale: Value,
    of_x: impl Fn(&mut Emit<'_>, Value, Value, Value) -> Value,
) -> Result<Gradients, Refusal> {
    let mut gradients = vec![None; site.data.inputs.len()];
    if site.wants(0) {
        let h = emit.op("Mul", &[gradient, scale]);
        gradients[0] = Some(of_x(emit, h, n, inv));
    }
    if site.wants(1) {
        let weighted = emit.op("Mul", &[gradient, n]);
        gradients[1] = Some(emit.unbroadcast(weighted, scale)?);
    }
    if site.wants(2) {
        gradients[2] = Some(emit.unbroadcast(gradient, site.operand(2)?)?);
    }
    Ok(gradients)
}

fn root_mean_square(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, scale, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    let rank = emit.rank(x)?;
    let axes: Vec<usize> = (axis_of(site, -1, rank)?..rank).collect();
    let squares = emit.op("Mul", &[x, x]);
    let mean = emit.reduce("ReduceMean", squares, &axes, true);
    let inv = inverse_deviation(emit, mean, epsilon(site));
    let n = emit.op("Mul", &[x, inv]);
    affine(emit, site, [gradient, n, inv], scale, |emit, h, n, inv| backward(emit, h, n, inv, &axes, false))
}

/// With statistics of the batch, the gradient is `k * g - c1 - c2 * (x - mean)` with numbers for each
/// channel: `k = scale * inv`, `c1 = k * mean(g)`, `c2 = k * inv^2 * mean(g * (x - mean))`.
fn batch_normalization(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, scale, gradient) = (site.operand(0)?, site.operand(1)?, site.gradient()?);
    if site.data.int("training_mode", 0) != 0 {
        return Err(Refusal::form("statistics of the batch inside of the node have no gradient"));
    }
    if site.wants(3) || site.wants(4) {
        return Err(Refusal::form("running statistics are not trainable"));
    }
    let dims = emit.dims(x)?;
    let channels = channel_dims(&dims[1], dims.len());
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| *axis != 1).collect();
    let variance = site.operand(4)?;
    let inv = inverse_deviation(emit, variance, epsilon(site));
    let mut gradients = vec![None; 5];
    let correlated = if site.wants(1) || site.wants(0) && site.of_batch {
        let mean = emit.reshape(site.operand(3)?, &channels);
        let centered = emit.op("Sub", &[x, mean]);
        let weighted = emit.op("Mul", &[gradient, centered]);
        Some((centered, emit.sum(weighted, &axes, false)))
    } else {
        None
    };
    let total = if site.wants(2) || site.wants(0) && site.of_batch {
        Some(emit.sum(gradient, &axes, false))
    } else {
        None
    };
    if site.wants(0) {
        let factor = emit.op("Mul", &[scale, inv]);
        let spread = emit.reshape(factor, &channels);
        let mut made = emit.op("Mul", &[gradient, spread]);
        if let (true, Some((centered, correlation)), Some(total)) = (site.of_batch, correlated, total) {
            let others: Vec<Dim> = axes.iter().map(|axis| dims[*axis].clone()).collect();
            let count = emit.count(&others, gradient)?;
            let share = emit.op("Div", &[factor, count]);
            let level = emit.op("Mul", &[share, total]);
            let level = emit.reshape(level, &channels);
            let squared = emit.op("Mul", &[inv, inv]);
            let slope = emit.op("Mul", &[share, squared]);
            let slope = emit.op("Mul", &[slope, correlation]);
            let slope = emit.reshape(slope, &channels);
            let along = emit.op("Mul", &[centered, slope]);
            let rest = emit.op("Add", &[along, level]);
            made = emit.op("Sub", &[made, rest]);
        }
        gradients[0] = Some(made);
    }
    if let (true, Some((_, correlation))) = (site.wants(1), correlated) {
        gradients[1] = Some(emit.op("Mul", &[correlation, inv]));
    }
    if site.wants(2) {
        gradients[2] = total;
    }
    Ok(gradients)
}

fn instance_normalization(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let dims = emit.dims(x)?;
    let axes: Vec<usize> = (2..dims.len()).collect();
    let (n, inv) = normalized(emit, x, &axes, epsilon(site));
    let channels = channel_dims(&dims[1], dims.len());
    channel_affine(emit, site, gradient, n, &channels, |emit, h| backward(emit, h, n, inv, &axes, true))
}

/// Gradients of `n * scale + bias` with a scale and a bias for each channel.
fn channel_affine(
    emit: &mut Emit<'_>,
    site: &Site,
    gradient: Value,
    n: Value,
    channels: &[Dim],
    of_x: impl Fn(&mut Emit<'_>, Value) -> Value,
) -> Result<Gradients, Refusal> {
    let mut gradients = vec![None; site.data.inputs.len()];
    let axes: Vec<usize> = (0..emit.rank(gradient)?).filter(|axis| *axis != 1).collect();
    if site.wants(0) {
        let spread = emit.reshape(site.operand(1)?, channels);
        let h = emit.op("Mul", &[gradient, spread]);
        gradients[0] = Some(of_x(emit, h));
    }
    if site.wants(1) {
        let weighted = emit.op("Mul", &[gradient, n]);
        gradients[1] = Some(emit.sum(weighted, &axes, false));
    }
    if site.wants(2) {
        gradients[2] = Some(emit.sum(gradient, &axes, false));
    }
    Ok(gradients)
}

/// Channels of a group are one axis with the positions of the image.
fn group_normalization(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let dims = emit.dims(x)?;
    if !emit.dims(site.operand(1)?)?.first().is_some_and(|scale| scale.same(&dims[1])) {
        return Err(Refusal::form(
            "scales for groups rather than channels (before operator set 21) have no gradient",
        ));
    }
    let groups = u64::try_from(site.data.int("num_groups", 1)).unwrap_or(1);
    let rest = dims[1..].iter().fold(Dim::Known(1), |product, dim| product.mul(dim)).div(&Dim::Known(groups));
    let apart = [dims[0].clone(), Dim::Known(groups), rest];
    let grouped = emit.reshape(x, &apart);
    let (n, inv) = normalized(emit, grouped, &[2], epsilon(site));
    let whole = emit.reshape(n, &dims);
    let channels = channel_dims(&dims[1], dims.len());
    channel_affine(emit, site, gradient, whole, &channels, |emit, h| {
        let h = emit.reshape(h, &apart);
        let made = backward(emit, h, n, inv, &[2], true);
        emit.reshape(made, &dims)
    })
}

fn mean_variance(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let rank = emit.rank(x)?;
    let axes = site.data.ints("axes").map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
    let axes: Option<Vec<usize>> =
        axes.into_iter().map(|axis| memc_ops::normalize_axis(axis, rank)).collect();
    let axes = axes.ok_or_else(|| Refusal::form("an axis is out of range"))?;
    let (n, inv) = normalized(emit, x, &axes, 1e-9);
    Site::only(backward(emit, gradient, n, inv, &axes, true))
}

/// `y = x / norm`: the part of the gradient along `y` goes, and the rest is divided by the norm.
fn lp_normalization(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, y, gradient) = (site.operand(0)?, site.first_result()?, site.gradient()?);
    let axis = axis_of(site, -1, emit.rank(x)?)?;
    if site.data.int("p", 2) != 2 {
        return Err(Refusal::form("only the norm with p = 2 has a gradient"));
    }
    let norm = emit.reduce("ReduceL2", x, &[axis], true);
    let weighted = emit.op("Mul", &[gradient, y]);
    let along = emit.sum(weighted, &[axis], true);
    let part = emit.op("Mul", &[y, along]);
    let rest = emit.op("Sub", &[gradient, part]);
    Site::only(emit.op("Div", &[rest, norm]))
}

/// `y = x / s^beta` with `s = bias + alpha / size * (sum of squares of the neighbouring channels)`.
fn local_response(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, y, gradient) = (site.operand(0)?, site.first_result()?, site.gradient()?);
    let size = u64::try_from(site.data.int("size", 1)).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Refusal::form("its size is not positive"))?;
    let alpha = f64::from(site.data.float("alpha", 1e-4)) / size as f64;
    let (beta, bias) = (f64::from(site.data.float("beta", 0.75)), f64::from(site.data.float("bias", 1.0)));
    let before = (size - 1) / 2;
    let squares = emit.op("Mul", &[x, x]);
    let sums = windowed_sum(emit, squares, size, before)?;
    let (alpha_value, bias) = (emit.number(alpha, x), emit.number(bias, x));
    let scaled = emit.op("Mul", &[sums, alpha_value]);
    let s = emit.op("Add", &[scaled, bias]);
    let exponent = emit.number(-beta, x);
    let power = emit.op("Pow", &[s, exponent]);
    let direct = emit.op("Mul", &[gradient, power]);
    // Channel c reads its neighbours; so their windows, mirrored, read c.
    let weighted = emit.op("Mul", &[gradient, y]);
    let share = emit.op("Div", &[weighted, s]);
    let spread = windowed_sum(emit, share, size, size - 1 - before)?;
    let factor = emit.number(2.0 * alpha * beta, x);
    let along = emit.op("Mul", &[x, spread]);
    let along = emit.op("Mul", &[along, factor]);
    Site::only(emit.op("Sub", &[direct, along]))
}
