//! Memory that ONNX Runtime's CPU kernels hold in addition to the workspace formula of their table
//! entry: expansions into several nodes, moved axes, columns, conversions.
//!
//! Measured with ONNX Runtime 1.31.1 as the peak of requested bytes around one node whose operands the
//! caller holds, and compared over random nodes by `benches/workspace.py`. Formulas give the measured
//! bytes or slightly more; `SMALL` covers tables of a few hundred bytes.

use memc_ir::{Bytes, Dim, DimExpr, ElementType, TensorType};

use super::ort_kernels::{Kernel, ort_kernel};
use crate::context::{broadcast, normalize_axis};
use crate::families::dims::{bytes_in_full, product};
use crate::info::{Typed, View};
use crate::table::lookup;

/// A formula, in bytes; `None` if extents are unknown.
pub(crate) type Formula = fn(&Typed<'_>) -> Option<u64>;

/// Granularity of allocations, in bytes.
pub(super) const ROUNDING: u64 = 64;
/// Size of tables that do not grow with tensors, in bytes.
pub(super) const SMALL: u64 = 1 << 10;
/// Bytes that a loss gathers for a label, at most: with ignored labels.
pub(super) const MOST_OF_A_LABEL: u64 = 37;

/// Returns the bytes that the node's kernel holds in addition to the table's formula.
pub(super) fn temporaries(typed: &Typed<'_>) -> Option<Bytes> {
    let bytes = row(typed).and_then(|kernel| kernel.temporaries).map_or(Some(0), |formula| formula(typed))?;
    conversions(typed)?.checked_add(bytes)?.checked_next_multiple_of(ROUNDING).map(Bytes)
}

/// Returns the bytes that the node's kernel holds in addition to the table's formula, over symbols; `None`
/// if only a formula over numbers is known.
pub(super) fn temporaries_over(typed: &Typed<'_>) -> Option<DimExpr> {
    let kernel = row(typed);
    let own = match kernel.and_then(|kernel| kernel.temporaries).map(|formula| formula(typed)) {
        None => DimExpr::constant(0),
        Some(Some(bytes)) => DimExpr::constant(i64::try_from(bytes).ok()?),
        Some(None) => kernel?.temporaries_expr?(typed)?,
    };
    let rounding = DimExpr::constant(i64::try_from(ROUNDING).ok()?);
    let mut sum = own.ceil_div(&rounding)?.mul(&rounding)?;
    let data = typed.data();
    let moves_only = lookup(&data.operator).is_some_and(|info| info.view != View::None);
    if moves_only || has_half_precision(typed) {
        return Some(sum);
    }
    let operands = (0..data.inputs.len()).filter_map(|index| typed.input(index));
    let tensors = operands.chain((0..data.outputs.len()).filter_map(|index| typed.output(index)));
    for ty in tensors.filter(|ty| ty.element == ElementType::Float16) {
        sum = sum.add(&in_full(ty).size_expr()?.ceil_div(&rounding)?.mul(&rounding)?)?;
    }
    Some(sum)
}

fn row(typed: &Typed<'_>) -> Option<&'static Kernel> {
    let operator = &typed.data().operator;
    ort_kernel(&operator.domain, &operator.name)
}

pub(super) fn has_half_precision(typed: &Typed<'_>) -> bool {
    row(typed).is_some_and(|kernel| kernel.half_precision)
}

/// Returns the bytes of a tensor's allocation.
fn rounded(ty: &TensorType) -> Option<u64> {
    ty.size()?.0.checked_next_multiple_of(ROUNDING)
}

/// Returns the type of the tensor inside kernels without half precision.
pub(super) fn in_full(ty: &TensorType) -> TensorType {
    let element = if ty.element == ElementType::Float16 { ElementType::Float } else { ty.element };
    TensorType { element, shape: ty.shape.clone() }
}

pub(super) fn is_half(typed: &Typed<'_>) -> bool {
    typed.input(0).is_some_and(|ty| ty.element == ElementType::Float16)
}

/// Returns the bytes of `count` buffers of the size of result 0, in full precision.
pub(super) fn results(typed: &Typed<'_>, count: u64) -> Option<u64> {
    rounded(&in_full(typed.output(0)?))?.checked_mul(count)
}

/// Returns the bytes of an operator that has no half-precision kernel and is computed step by step:
/// `quarters` quarters of result 0 in full precision, and small constants. A condition takes one
/// quarter.
pub(super) fn steps_in_half(typed: &Typed<'_>, quarters: u64) -> Option<u64> {
    if is_half(typed) { steps(typed, quarters) } else { Some(0) }
}

fn steps(typed: &Typed<'_>, quarters: u64) -> Option<u64> {
    results(typed, quarters)?.div_ceil(4).checked_add(ROUNDING * 8)
}

pub(super) fn gelu(typed: &Typed<'_>) -> Option<u64> {
    steps_in_half(typed, if typed.data().string("approximate") == Some("tanh") { 6 } else { 4 })
}

/// Returns the bytes of PRelu. It has no kernel for integers either, and runs step by step without
/// conversions.
pub(super) fn sloped(typed: &Typed<'_>) -> Option<u64> {
    let has_kernel = matches!(typed.input(0)?.element, ElementType::Float | ElementType::Double);
    if has_kernel { Some(0) } else { steps(typed, 13) }
}

/// Returns the bytes of `count` full-precision copies of the operand, which are alive before the sum.
pub(super) fn powers_in_half(typed: &Typed<'_>, count: u64) -> Option<u64> {
    if !is_half(typed) {
        return Some(0);
    }
    rounded(&in_full(typed.input(0)?))?.checked_mul(count)?.checked_add(ROUNDING * 4)
}

/// Returns the bytes of a comparison and an equality, which are joined into the result if there is no
/// kernel for both.
pub(super) fn two_comparisons(typed: &Typed<'_>) -> Option<u64> {
    if is_half(typed) { results(typed, 2) } else { Some(0) }
}

/// Returns the bytes of scale and bias in full precision.
pub(super) fn full_statistics(typed: &Typed<'_>) -> Option<u64> {
    let operands = (1..typed.data().inputs.len()).filter_map(|index| typed.input(index));
    let half = operands.filter(|ty| ty.element == ElementType::Float16);
    half.map(in_full).try_fold(0u64, |sum, ty| sum.checked_add(rounded(&ty)?))
}

/// Returns the bytes of an element inside kernels that compute half precision in full precision.
fn width(typed: &Typed<'_>) -> Option<u64> {
    bytes_in_full(1, typed.input(0)?.element).map(|bytes| bytes.0)
}

/// Returns the bytes of the intermediate result of three or more operands, which are combined in pairs.
pub(super) fn several(typed: &Typed<'_>) -> Option<u64> {
    match typed.data().inputs.len() {
        0..3 => Some(0),
        _ if has_half_precision(typed) => rounded(typed.output(0)?),
        _ => results(typed, 1),
    }
}

/// Returns the bytes of two buffers, into which both choices are selected before they are merged. Each
/// buffer has the broadcast size of choice and condition.
pub(super) fn choices(typed: &Typed<'_>) -> Option<u64> {
    let width = u64::from(in_full(typed.output(0)?).element.bits()?.div_ceil(8));
    let condition = typed.input(0)?.shape.as_deref()?;
    [1, 2].iter().try_fold(0u64, |sum, choice| {
        let shape = broadcast(condition, typed.input(*choice)?.shape.as_deref()?).ok()?;
        let extents = shape.iter().map(Dim::known).collect::<Option<Vec<_>>>()?;
        sum.checked_add(product(&extents)?.checked_mul(width)?.checked_next_multiple_of(ROUNDING)?)
    })
}

/// Returns the bytes of operand and result with the axis moved to the end. Before operator set 13 axes
/// are flattened instead.
pub(super) fn moved_axis(typed: &Typed<'_>) -> Option<u64> {
    let data = typed.data();
    let rank = typed.output(0)?.rank()?;
    let last = normalize_axis(data.int("axis", -1), rank).is_some_and(|axis| axis + 1 == rank);
    if data.operator.version < 13 || last { Some(0) } else { results(typed, 2) }
}

/// Returns the bytes for moving the axis. In half precision, computed step by step, adds the maximum and
/// the sum of each row.
pub(super) fn softmax(typed: &Typed<'_>) -> Option<u64> {
    let moved = moved_axis(typed)?;
    if !is_half(typed) || typed.data().operator.version < 13 {
        return Some(moved);
    }
    let dims = typed.output_dims(0)?;
    let axis = normalize_axis(typed.data().int("axis", -1), dims.len())?;
    let rows = product(&dims)?.checked_div(*dims.get(axis)?).unwrap_or(0);
    rows.checked_mul(4)?.checked_next_multiple_of(ROUNDING)?.checked_mul(2)?.checked_add(moved)
}

/// Returns the bytes of the mask that is added to the scores, if the kernel creates it, from positions
/// or from booleans, or writes into a copy of it. In half precision, adds the scores of one head in full
/// precision.
pub(super) fn attention(typed: &Typed<'_>) -> Option<u64> {
    let element = u64::from(typed.input(0)?.element.bits()?.div_ceil(8));
    let causal = typed.data().int("is_causal", 0) != 0;
    let (queries, keys) = (typed.input_dims(0)?, typed.input_dims(1)?);
    let past = typed.input_dims(4).filter(|dims| dims.len() == 4).map_or(0, |dims| dims[2]);
    let positions = |dims: &[u64]| dims.get(dims.len().checked_sub(2)?).copied();
    let pairs = positions(&queries)?.checked_mul(positions(&keys)?.checked_add(past)?)?;
    let mask = match typed.input(3) {
        Some(mask) if causal || mask.element == ElementType::Bool => mask.elements()?.max(pairs),
        None if causal => pairs,
        _ => 0,
    };
    let in_full = if is_half(typed) { pairs.checked_mul(4)? } else { 0 };
    mask.checked_mul(element)?.checked_add(in_full)?.checked_add(ROUNDING * 4)
}

/// Returns the bytes of mean and variance of the batch, in training mode.
pub(super) fn batch_normalization(typed: &Typed<'_>) -> Option<u64> {
    if typed.data().int("training_mode", 0) == 0 { Some(0) } else { rounded(typed.input(1)?)?.checked_mul(2) }
}

/// Returns the bytes of the padded tensor before it is cropped, and of the small tables of positions.
pub(super) fn crop_and_pad(typed: &Typed<'_>) -> Option<u64> {
    let (from, to) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let larger: Vec<u64> = from.iter().zip(&to).map(|(from, to)| *from.max(to)).collect();
    // In half precision the padded tensor is converted back before it is cropped.
    let each = width(typed)?.checked_add(if is_half(typed) { 2 } else { 0 })?;
    product(&larger)?.checked_mul(each)?.checked_add(SMALL)
}

/// Returns the bytes of a Fourier transform along one axis, which later versions state as an operand.
pub(super) fn fourier(typed: &Typed<'_>) -> Option<u64> {
    let (from, to) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let data = typed.data();
    let is_stated = data.operator.version < 20 && data.inputs.get(1).copied().flatten().is_none();
    let axis = is_stated.then(|| normalize_axis(data.int("axis", 1), from.len())).flatten();
    match axis.and_then(|axis| from.get(axis)) {
        Some(length) if length.is_power_of_two() => Some(0),
        Some(length) => convolved(*length, width(typed)?),
        None => convolved(*from.iter().chain(&to).max()?, width(typed)?),
    }
}

/// Returns the bytes of Fourier transforms of frames that are as long as the window.
pub(super) fn framed_fourier(typed: &Typed<'_>) -> Option<u64> {
    let width = width(typed)?;
    match typed.input_dims(2).as_deref() {
        Some([length]) if length.is_power_of_two() => Some(0),
        Some([length]) => convolved(*length, width),
        // The result has half of the frequencies, plus one.
        _ => convolved(typed.output_dims(0)?.get(2)?.checked_mul(2)?, width),
    }
}

/// Returns the bytes for a length that is not a power of two: four buffers of a convolution of complex
/// numbers (Bluestein's algorithm).
fn convolved(length: u64, width: u64) -> Option<u64> {
    length.checked_mul(2)?.checked_next_power_of_two()?.checked_mul(width)?.checked_mul(8)
}

/// Returns the bytes of two copies if the normalized axes must be moved to the end and back.
pub(super) fn mean_variance(typed: &Typed<'_>) -> Option<u64> {
    let rank = typed.output(0)?.rank()?;
    let mut axes: Vec<usize> =
        typed.data().ints("axes").unwrap_or(&[0, 2, 3]).iter().filter_map(|axis| normalize_axis(*axis, rank)).collect();
    axes.sort_unstable();
    axes.dedup();
    let are_last = axes.iter().rev().zip((0..rank).rev()).all(|(axis, last)| *axis == last);
    if are_last && !is_half(typed) { Some(0) } else { results(typed, 2) }
}

/// Returns the bytes of the columns of one image, and of the read positions and weights of each sample.
pub(super) fn deformable(typed: &Typed<'_>) -> Option<u64> {
    let (weight, result) = (typed.input_dims(1)?, typed.output_dims(0)?);
    let positions = product(result.get(2..)?)?;
    let groups = u64::try_from(typed.data().int("group", 1)).ok()?;
    let columns = product(&[product(weight.get(1..)?)?, groups, positions, width(typed)?])?;
    let offsets = u64::try_from(typed.data().int("offset_group", 1)).ok()?;
    // Each sample has four 32-bit positions and four weights, in blocks of eight samples.
    let samples = product(&[product(weight.get(2..)?)?, positions, offsets])?.checked_next_multiple_of(8)?;
    let reads = samples.checked_mul(width(typed)?.checked_add(4)?)?.checked_mul(4)?;
    columns.checked_next_multiple_of(ROUNDING)?.checked_add(reads)?.checked_add(SMALL * 2)
}

/// Returns the bytes of the operands with moved axes and with equal ranks, and of the result before its
/// axes are moved.
pub(super) fn einsum(typed: &Typed<'_>) -> Option<u64> {
    let operands = (0..typed.data().inputs.len()).try_fold(0u64, |sum, index| sum.checked_add(rounded(typed.input(index)?)?))?;
    operands.checked_mul(2)?.checked_add(results(typed, 1)?)
}

/// Returns the bytes of the normalized operand before scale and bias, and of the statistics of each
/// group.
pub(super) fn group_normalization(typed: &Typed<'_>) -> Option<u64> {
    let groups = u64::try_from(typed.data().int("num_groups", 1)).ok()?;
    let statistics = product(&[*typed.input_dims(0)?.first()?, groups, width(typed)?, 8])?;
    // Scales and biases per channel are applied in separate steps; those per group are applied at once.
    let copies = if typed.data().operator.version < 21 { 1 } else { 2 };
    results(typed, copies)?.checked_add(statistics)?.checked_add(SMALL)
}

/// Returns the bytes of a resize. Linear: positions and weights of each row and column. With
/// antialiasing: the image after each axis but the last, and the filters.
pub(super) fn resize(typed: &Typed<'_>) -> Option<u64> {
    let mode = typed.data().string("mode").unwrap_or("nearest");
    let antialias = typed.data().int("antialias", 0) != 0;
    if mode == "nearest" || mode == "cubic" && !antialias {
        return Some(0);
    }
    let (from, to) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let total = |dims: &[u64]| dims.iter().try_fold(0u64, |sum, extent| sum.checked_add(*extent));
    if !antialias {
        return total(&to)?.checked_mul(16)?.checked_add(ROUNDING * 8);
    }
    let tables = total(&from)?.checked_add(total(&to)?)?.checked_mul(32)?.checked_add(SMALL)?;
    // The last axis is resized first; intermediate images belong to one element of the batch.
    let mut extents = from.get(1..)?.to_vec();
    let mut between = 0u64;
    for axis in (2..extents.len()).rev() {
        *extents.get_mut(axis)? = *to.get(axis + 1)?;
        between = between.checked_add(product(&extents)?)?;
    }
    between.checked_mul(width(typed)?)?.checked_add(tables)
}

/// How a loss weights its labels.
#[derive(Clone, Copy)]
enum Labels {
    /// All labels have equal weight.
    Plain,
    /// Classes have weights.
    Weighted,
    /// Some labels are ignored.
    Masked,
}

impl Labels {
    fn of(typed: &Typed<'_>) -> Self {
        match typed.data().attribute("ignore_index") {
            Some(_) => Self::Masked,
            None if typed.data().inputs.get(2).copied().flatten().is_some() => Self::Weighted,
            None => Self::Plain,
        }
    }
}

/// Returns the bytes of indices, weights and masks that are gathered for each label.
pub(super) fn likelihood(typed: &Typed<'_>) -> Option<u64> {
    let each = match Labels::of(typed) {
        Labels::Plain => 8,
        Labels::Weighted => 12,
        Labels::Masked => MOST_OF_A_LABEL,
    };
    typed.input(1)?.elements()?.checked_mul(each)?.checked_add(SMALL)
}

/// Returns the bytes of a cross entropy: the logarithms of probabilities, unless they are a result, and
/// the larger of the scores with classes last and the values gathered for labels. Weights and masks are
/// gathered first.
pub(super) fn cross_entropy(typed: &Typed<'_>) -> Option<u64> {
    let scores = rounded(typed.input(0)?)?;
    let logarithms = if typed.output(1).is_some() { 0 } else { scores };
    let each = match Labels::of(typed) {
        Labels::Plain => 0,
        Labels::Weighted => 4,
        Labels::Masked => 13,
    };
    let first = typed.input(1)?.elements()?.checked_mul(each)?;
    logarithms.checked_add(scores.checked_add(first)?.max(likelihood(typed)?))?.checked_add(ROUNDING * 8)
}

/// Returns the bytes of full-precision copies of all half-precision operands and results.
fn conversions(typed: &Typed<'_>) -> Option<u64> {
    let data = typed.data();
    let moves_only = lookup(&data.operator).is_some_and(|info| info.view != View::None);
    if moves_only || has_half_precision(typed) {
        return Some(0);
    }
    let operands = (0..data.inputs.len()).filter_map(|index| typed.input(index));
    let tensors = operands.chain((0..data.outputs.len()).filter_map(|index| typed.output(index)));
    let half = tensors.filter(|ty| ty.element == ElementType::Float16);
    half.map(in_full).try_fold(0u64, |sum, ty| sum.checked_add(rounded(&ty)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::graph_with;
    use super::*;
    use memc_ir::Attribute;

    /// Compares the formula for one node with the measured bytes: never less, and at most `slack` more.
    fn check(operator: &str, operands: &[&str], result: &str, attributes: &[(&str, i64)], measured: u64, slack: u64) {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value))).collect();
        let (module, node) = graph_with(operator, operands, result, false, attributes);
        let bytes = temporaries(&Typed::of(&module, node)).unwrap().0;
        assert!((measured..=measured + slack).contains(&bytes), "{operator}: {bytes} for {measured}");
    }

    #[test]
    fn element_wise_expansions_cover_the_measured_bytes() {
        let cube = "f32[64,64,64]";
        for operator in ["Max", "Min", "Sum", "Mean"] {
            check(operator, &[cube, cube], cube, &[], 0, 0);
            check(operator, &[cube, cube, cube, cube], cube, &[], 1 << 20, 0);
        }
        check("Where", &["bool[1]", cube, cube], cube, &[], 2 << 20, 0);
        check("Where", &["bool[64,64]", cube, "f32[]"], cube, &[], (1 << 20) + (1 << 14), 0);
        let half = "f16[4,8,64,64]";
        check("Gelu", &[half], half, &[], 1_572_868, 512);
        for (operator, counted) in
            [("Elu", 2_490_368), ("LeakyRelu", 2_490_368), ("Softsign", 1_310_720), ("ThresholdedRelu", 1_966_080)]
        {
            check(operator, &[half], half, &[], counted, 512);
        }
        check("PRelu", &["i32[3,27,18,41]", "i32[18,41]"], "i32[3,27,18,41]", &[], 777_344, 512);
        check("Transpose", &[half], half, &[], 0, 0);
        check("ReduceL2", &["f16[62,7,53,17]", "i64[2]"], "f16[62,17]", &[], 3_126_464, 1 << 14);
        check("Gelu", &["f32[4,8,64,64]"], "f32[4,8,64,64]", &[], 0, 0);
        check("HardSwish", &[half], half, &[], 1_572_864, 64);
        check("MeanVarianceNormalization", &[half], half, &[], 2_097_152, 0);
        check("Softmax", &[half], half, &[], 1_056_768, 8192);
        check("Max", &[half, half], half, &[], 0, 0);
        check("LayerNormalization", &[half, "f16[64]"], half, &[], 256, 0);
        check("MeanVarianceNormalization", &["f32[4,16,64,64]"], "f32[4,16,64,64]", &[], 2 << 20, 0);
        let image = "f32[4,32,64,64]";
        check("GroupNormalization", &[image, "f32[32]", "f32[32]"], image, &[("num_groups", 4)], 2_097_472, 2048);
        check("CenterCropPad", &[cube, "i64[3]"], "f32[32,32,32]", &[], 1_048_704, 1024);
        check("CenterCropPad", &[cube, "i64[3]"], "f32[96,96,96]", &[], 3_539_072, 1024);
        check("CenterCropPad", &[cube, "i64[3]"], "f32[32,64,128]", &[], 2_097_280, 1024);
    }

    #[test]
    fn products_and_losses_cover_the_measured_bytes() {
        check("Einsum", &["f32[64,64,64]", "f32[64,64]"], "f32[64,64,64]", &[], 2_129_920, 2 << 20);
        check("DeformConv", &["f32[1,16,32,32]", "f32[16,16,3,3]", "f32[1,18,30,30]"], "f32[1,16,30,30]", &[], 778_752, 2048);
        let (scores, labels) = ("f32[4096,1000]", "i64[4096]");
        check("SoftmaxCrossEntropyLoss", &[scores, labels], "f32[]", &[], 32_768_000, 1024);
        check("SoftmaxCrossEntropyLoss", &[scores, labels, "f32[1000]"], "f32[]", &[], 32_784_448, 1024);
        check("SoftmaxCrossEntropyLoss", &[scores, labels], "f32[]", &[("ignore_index", 1)], 32_821_312, 1024);
        let (scores, labels) = ("f32[4,64,64,64]", "i64[4,64,64]");
        check("NegativeLogLikelihoodLoss", &[scores, labels], "f32[]", &[], 131_008, 2048);
        check("NegativeLogLikelihoodLoss", &[scores, labels, "f32[64]"], "f32[]", &[], 196_608, 2048);
        check("NegativeLogLikelihoodLoss", &[scores, labels], "f32[]", &[("ignore_index", 1)], 606_208, 2048);
        check("Attention", &["f32[2,4,128,64]"; 3], "f32[2,4,128,64]", &[("is_causal", 1)], 65_536, 256);
        let (heads, mask) = ("f32[2,4,64,32]", "f32[2,4,64,64]");
        check("Attention", &[heads, heads, heads, mask], heads, &[], 0, 256);
        check("Attention", &[heads, heads, heads, mask], heads, &[("is_causal", 1)], 131_072, 256);
        check("Attention", &[heads, heads, heads, "bool[64,64]"], heads, &[], 16_384, 256);
        check("Attention", &["f16[1,8,36,64]", "f16[1,8,244,64]", "f16[1,8,244,64]"], "f16[1,8,36,64]", &[], 35_136, 256);
        check("DFT", &["f32[4,1000,2]"], "f32[4,1000,2]", &[], 65_536, 0);
        check("STFT", &["f32[2,664,1]", "i64[]", "f32[278]"], "f32[2,6,140,2]", &[], 32_768, 0);
        check("STFT", &["f32[2,664,1]", "i64[]", "f32[256]"], "f32[2,6,129,2]", &[], 0, 0);
    }

    #[test]
    fn resizing_covers_the_measured_bytes() {
        let resize = |mode: &str, antialias: i64, result: &str, measured: u64, slack: u64| {
            let mode = ("mode".to_owned(), Attribute::String(mode.as_bytes().to_vec().into()));
            let attributes = vec![mode, ("antialias".to_owned(), Attribute::Int(antialias))];
            let (module, node) = graph_with("Resize", &["f32[1,16,128,128]"], result, false, attributes);
            let bytes = temporaries(&Typed::of(&module, node)).unwrap().0;
            assert!((measured..=measured + slack).contains(&bytes), "{bytes} for {measured}");
        };
        let (twice, half) = ("f32[1,16,256,256]", "f32[1,16,64,64]");
        resize("nearest", 0, twice, 0, 0);
        resize("cubic", 0, twice, 0, 0);
        resize("linear", 0, twice, 8192, 1024);
        resize("linear", 1, half, 526_848, 1 << 14);
        resize("cubic", 1, half, 528_896, 1 << 14);
    }
}
