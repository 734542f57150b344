//! Memory that ONNX Runtime's CPU kernels hold in addition to the workspace formula of their table
//! entry: expansions into several nodes, moved axes, columns, conversions.
//!
//! Measured with ONNX Runtime 1.31.1 as the peak of requested bytes around one node whose operands the
//! caller holds, and compared over random nodes by `benches/workspace.py`. Formulas give the measured
//! bytes or slightly more; `SMALL` covers tables of a few hundred bytes.

use memc_ir::{ElementType, TensorType};

use super::ort_kernels::{Kernel, ort_kernel};
use crate::context::{broadcast, normalize_axis};
use crate::info::{Typed, View};
use crate::size::{Counted, GRANULARITY, Size};
use crate::table::lookup;

/// Size of tables that do not grow with tensors, in bytes.
const SMALL: u64 = 1 << 10;

/// Returns the bytes that the node's kernel holds in addition to the table's formula.
pub(super) fn temporaries(node: &Counted<'_>) -> Option<Size> {
    let own = match row(node).and_then(|kernel| kernel.temporaries) {
        None => Size::from(0),
        // Known extents give exact bytes, also if the formula over symbols is an upper bound.
        Some(formula) => match formula(&Counted::in_numbers(node)).filter(|bytes| bytes.known().is_some()) {
            Some(bytes) => bytes,
            None => formula(node)?,
        },
    };
    Some(own.rounded() + conversions(node))
}

fn row(typed: &Typed<'_>) -> Option<&'static Kernel> {
    let operator = &typed.data().operator;
    ort_kernel(&operator.domain, &operator.name)
}

fn has_half_precision(typed: &Typed<'_>) -> bool {
    row(typed).is_some_and(|kernel| kernel.half_precision)
}

/// Returns the bytes of a tensor's allocation.
fn rounded(node: &Counted<'_>, ty: Option<&TensorType>) -> Size {
    node.bytes(ty).rounded()
}

/// Returns the bytes of the allocation of a tensor inside kernels without half precision.
fn in_full(node: &Counted<'_>, ty: Option<&TensorType>) -> Size {
    match ty {
        Some(ty) if ty.element == ElementType::Float16 => {
            rounded(node, Some(&TensorType { element: ElementType::Float, shape: ty.shape.clone() }))
        }
        ty => rounded(node, ty),
    }
}

pub(super) fn is_half(typed: &Typed<'_>) -> bool {
    typed.input(0).is_some_and(|ty| ty.element == ElementType::Float16)
}

/// Returns the bytes of `count` buffers of the size of result 0, in full precision.
pub(super) fn results(node: &Counted<'_>, count: u64) -> Size {
    in_full(node, node.output(0)) * count
}

/// Returns the bytes of an operator that has no half-precision kernel and is computed step by step:
/// `quarters` quarters of result 0 in full precision, and small constants. A condition takes one
/// quarter.
pub(super) fn steps_in_half(node: &Counted<'_>, quarters: u64) -> Option<Size> {
    Some(if is_half(node) { steps(node, quarters) } else { Size::from(0) })
}

fn steps(node: &Counted<'_>, quarters: u64) -> Size {
    results(node, quarters).ceil_div(4) + GRANULARITY * 8
}

/// Returns the bytes of the steps of Gelu.
pub(super) fn gelu(node: &Counted<'_>) -> Option<Size> {
    let is_long = node.data().string("approximate") == Some("tanh");
    steps_in_half(node, if is_long { 6 } else { 4 })
}

/// Returns the bytes of PRelu. It has no kernel for integers either, and runs step by step without
/// conversions.
pub(super) fn sloped(node: &Counted<'_>) -> Option<Size> {
    let has_kernel = matches!(node.input(0)?.element, ElementType::Float | ElementType::Double);
    Some(if has_kernel { Size::from(0) } else { steps(node, 13) })
}

/// Returns the bytes of `count` full-precision copies of the operand, which are alive before the sum.
pub(super) fn powers_in_half(node: &Counted<'_>, count: u64) -> Option<Size> {
    Some(if is_half(node) { in_full(node, node.input(0)) * count + GRANULARITY * 4 } else { Size::from(0) })
}

/// Returns the bytes of a comparison and an equality, which are joined into the result if there is no
/// kernel for both.
pub(super) fn two_comparisons(node: &Counted<'_>) -> Option<Size> {
    Some(if is_half(node) { results(node, 2) } else { Size::from(0) })
}

/// Returns the bytes of scale and bias in full precision. Unknown over symbols.
pub(super) fn full_statistics(node: &Counted<'_>) -> Option<Size> {
    let operands = (1..node.only_numbers()?.data().inputs.len()).filter_map(|index| node.input(index));
    Some(halves_in_full(node, operands))
}

/// Returns the bytes of full-precision copies of the half-precision tensors.
fn halves_in_full<'a>(node: &Counted<'_>, tensors: impl Iterator<Item = &'a TensorType>) -> Size {
    let half = tensors.filter(|ty| ty.element == ElementType::Float16);
    Size::sum(half.map(|ty| in_full(node, Some(ty))))
}

/// Returns the bytes of the intermediate result of three or more operands, which are combined in pairs.
pub(super) fn several(node: &Counted<'_>) -> Option<Size> {
    Some(match node.data().inputs.len() {
        0..3 => Size::from(0),
        _ if has_half_precision(node) => rounded(node, node.output(0)),
        _ => results(node, 1),
    })
}

/// Returns the bytes of two buffers, into which both choices are selected before they are merged. Each
/// buffer has the broadcast size of choice and condition.
pub(super) fn choices(node: &Counted<'_>) -> Option<Size> {
    let element = node.output(0)?.element;
    let condition = node.input(0)?.shape.as_deref()?;
    [1, 2].iter().try_fold(Size::from(0), |sum, choice| {
        let shape = broadcast(condition, node.input(*choice)?.shape.as_deref()?).ok()?;
        Some(sum + in_full(node, Some(&TensorType { element, shape: Some(shape) })))
    })
}

/// Returns the bytes of operand and result with the axis moved to the end. Before operator set 13 axes
/// are flattened instead.
pub(super) fn moved_axis(node: &Counted<'_>) -> Option<Size> {
    let data = node.data();
    let rank = node.output(0)?.rank()?;
    let last = normalize_axis(data.int("axis", -1), rank).is_some_and(|axis| axis + 1 == rank);
    if data.operator.version < 13 || last {
        return Some(Size::from(0));
    }
    Some(results(node, 2))
}

/// Returns the bytes for moving the axis. In half precision, computed step by step, adds the maximum and
/// the sum of each row.
pub(super) fn softmax(node: &Counted<'_>) -> Option<Size> {
    let moved = moved_axis(node)?;
    if !is_half(node) || node.data().operator.version < 13 {
        return Some(moved);
    }
    let mut dims = node.dims(node.output(0))?;
    let axis = normalize_axis(node.data().int("axis", -1), dims.len())?;
    let length = dims.remove(axis);
    let rows = if length == Size::from(0) { length } else { Size::product(dims) };
    Some((rows * 4).rounded() * 2 + moved)
}

/// Returns the bytes of the mask that is added to the scores, if the kernel creates it, from positions
/// or from booleans, or writes into a copy of it. In half precision, adds the scores of one head in full
/// precision.
pub(super) fn attention(node: &Counted<'_>) -> Option<Size> {
    let positions = |operand: usize| {
        let dims = node.dims(node.input(operand))?;
        dims.get(dims.len().checked_sub(2)?).cloned()
    };
    let past = node.dims(node.input(4)).filter(|dims| dims.len() == 4).and_then(|dims| dims.get(2).cloned());
    let pairs = positions(0)? * (positions(1)? + past.unwrap_or(Size::from(0)));
    let given = node.input(3);
    let is_written =
        node.data().int("is_causal", 0) != 0 || given.is_some_and(|mask| mask.element == ElementType::Bool);
    let mask = if is_written {
        given.map_or(Size::from(0), |mask| node.elements(Some(mask))).max(&pairs)
    } else {
        Size::from(0)
    };
    let in_full = if is_half(node) { pairs * 4 } else { Size::from(0) };
    Some(mask * Size::width(node.input(0)) + in_full + GRANULARITY * 4)
}

/// Returns the bytes of mean and variance of the batch, in training mode. Unknown over symbols.
pub(super) fn batch_normalization(node: &Counted<'_>) -> Option<Size> {
    let is_training = node.only_numbers()?.data().int("training_mode", 0) != 0;
    Some(if is_training { rounded(node, node.input(1)) * 2 } else { Size::from(0) })
}

/// Returns the bytes of the padded tensor before it is cropped, and of the small tables of positions. Unknown
/// over symbols.
pub(super) fn crop_and_pad(node: &Counted<'_>) -> Option<Size> {
    let (from, to) = (node.only_numbers()?.dims(node.input(0))?, node.dims(node.output(0))?);
    let larger = Size::product(from.iter().zip(&to).map(|(from, to)| from.max(to)));
    // In half precision the padded tensor is converted back before it is cropped.
    let each = Size::width_in_full(node.input(0)) + if is_half(node) { 2 } else { 0 };
    Some(larger * each + SMALL)
}

/// Returns the bytes of a Fourier transform along one axis, which later versions state as an operand. Unknown
/// over symbols.
pub(super) fn fourier(node: &Counted<'_>) -> Option<Size> {
    let (from, to) = (node.only_numbers()?.input_dims(0)?, node.output_dims(0)?);
    let data = node.data();
    let is_stated = data.operator.version < 20 && !node.has(1);
    let axis = is_stated.then(|| normalize_axis(data.int("axis", 1), from.len())).flatten();
    match axis.and_then(|axis| from.get(axis)) {
        Some(length) if length.is_power_of_two() => Some(Size::from(0)),
        Some(length) => convolved(node, *length),
        None => convolved(node, *from.iter().chain(&to).max()?),
    }
}

/// Returns the bytes of Fourier transforms of frames that are as long as the window. Unknown over symbols.
pub(super) fn framed_fourier(node: &Counted<'_>) -> Option<Size> {
    match node.only_numbers()?.input_dims(2).as_deref() {
        Some([length]) if length.is_power_of_two() => Some(Size::from(0)),
        Some([length]) => convolved(node, *length),
        // The result has half of the frequencies, plus one.
        _ => convolved(node, node.output_dims(0)?.get(2)?.checked_mul(2)?),
    }
}

/// Returns the bytes for a length that is not a power of two: four buffers of a convolution of complex
/// numbers (Bluestein's algorithm).
fn convolved(node: &Counted<'_>, length: u64) -> Option<Size> {
    let padded = length.checked_mul(2)?.checked_next_power_of_two()?;
    Some(Size::width_in_full(node.input(0)) * padded * 8)
}

/// Returns the bytes of two copies if the normalized axes must be moved to the end and back.
pub(super) fn mean_variance(node: &Counted<'_>) -> Option<Size> {
    let rank = node.output(0)?.rank()?;
    let mut axes: Vec<usize> = node
        .data()
        .ints("axes")
        .unwrap_or(&[0, 2, 3])
        .iter()
        .filter_map(|axis| normalize_axis(*axis, rank))
        .collect();
    axes.sort_unstable();
    axes.dedup();
    let are_last = axes.iter().rev().zip((0..rank).rev()).all(|(axis, last)| *axis == last);
    Some(if are_last && !is_half(node) { Size::from(0) } else { results(node, 2) })
}

/// Returns the bytes of the columns of one image, and of the read positions and weights of each sample.
/// Unknown over symbols.
pub(super) fn deformable(node: &Counted<'_>) -> Option<Size> {
    let (weight, result) = (node.only_numbers()?.dims(node.input(1))?, node.dims(node.output(0))?);
    let count = |name: &str| u64::try_from(node.data().int(name, 1)).ok();
    let positions = Size::product(result.get(2..)?);
    let width = Size::width_in_full(node.input(0));
    let columns = Size::product(weight.get(1..)?) * count("group")? * &positions * &width;
    // Each sample has four 32-bit positions and four weights, in blocks of eight samples.
    let samples = (Size::product(weight.get(2..)?) * positions * count("offset_group")?).multiple_of(8);
    Some(columns.rounded() + samples * (width + 4) * 4 + SMALL * 2)
}

/// Returns the bytes of the operands with moved axes and with equal ranks, and of the result before its
/// axes are moved.
pub(super) fn einsum(node: &Counted<'_>) -> Option<Size> {
    let operands = Size::sum((0..node.data().inputs.len()).map(|index| rounded(node, node.input(index))));
    Some(operands * 2 + results(node, 1))
}

/// Returns the bytes of the normalized operand before scale and bias, and of the statistics of each
/// group.
pub(super) fn group_normalization(node: &Counted<'_>) -> Option<Size> {
    let groups = u64::try_from(node.data().int("num_groups", 1)).ok()?;
    let statistics = node.extent(node.input(0), 0) * groups * Size::width_in_full(node.input(0)) * 8;
    // Scales and biases per channel are applied in separate steps; those per group are applied at once.
    let copies = if node.data().operator.version < 21 { 1 } else { 2 };
    Some(results(node, copies) + statistics + SMALL)
}

/// Returns the bytes of a resize. Linear: positions and weights of each row and column. With
/// antialiasing: the image after each axis but the last, and the filters; unknown over symbols.
pub(super) fn resize(node: &Counted<'_>) -> Option<Size> {
    let mode = node.data().string("mode").unwrap_or("nearest");
    let antialias = node.data().int("antialias", 0) != 0;
    if mode == "nearest" || mode == "cubic" && !antialias {
        return Some(Size::from(0));
    }
    let (from, to) = (node.dims(node.input(0))?, node.dims(node.output(0))?);
    if !antialias {
        return Some(Size::sum(&to) * 16 + GRANULARITY * 8);
    }
    node.only_numbers()?;
    let tables = (Size::sum(&from) + Size::sum(&to)) * 32 + SMALL;
    // The last axis is resized first; intermediate images belong to one element of the batch.
    let mut extents = from.get(1..)?.to_vec();
    let mut between = Size::from(0);
    for axis in (2..extents.len()).rev() {
        *extents.get_mut(axis)? = to.get(axis + 1)?.clone();
        between = between + Size::product(&extents);
    }
    Some(between * Size::width_in_full(node.input(0)) + tables)
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
    fn of(node: &Counted<'_>) -> Self {
        match node.data().attribute("ignore_index") {
            Some(_) => Self::Masked,
            None if node.has(2) => Self::Weighted,
            None => Self::Plain,
        }
    }
}

/// Returns the bytes of indices, weights and masks that are gathered for each label.
pub(super) fn likelihood(node: &Counted<'_>) -> Option<Size> {
    let each = match Labels::of(node) {
        Labels::Plain => 8,
        Labels::Weighted => 12,
        Labels::Masked => 37,
    };
    Some(node.elements(node.input(1)) * each + SMALL)
}

/// Returns the bytes of a cross entropy: the logarithms of probabilities, unless they are a result, and
/// the larger of the scores with classes last and the values gathered for labels. Weights and masks are
/// gathered first. Unknown over symbols.
pub(super) fn cross_entropy(node: &Counted<'_>) -> Option<Size> {
    let scores = rounded(node, node.only_numbers()?.input(0));
    let logarithms = if node.output(1).is_some() { Size::from(0) } else { scores.clone() };
    let each = match Labels::of(node) {
        Labels::Plain => 0,
        Labels::Weighted => 4,
        Labels::Masked => 13,
    };
    let first = node.elements(node.input(1)) * each;
    Some(logarithms + (scores + first).max(likelihood(node)?) + GRANULARITY * 8)
}

/// Returns the bytes of full-precision copies of all half-precision operands and results.
fn conversions(node: &Counted<'_>) -> Size {
    let data = node.data();
    let moves_only = lookup(&data.operator).is_some_and(|info| info.view != View::None);
    if moves_only || has_half_precision(node) {
        return Size::from(0);
    }
    let operands = (0..data.inputs.len()).filter_map(|index| node.input(index));
    halves_in_full(node, operands.chain((0..data.outputs.len()).filter_map(|index| node.output(index))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::graph_with;
    use super::*;
    use memc_ir::Attribute;

    /// Compares the formula for one node with the measured bytes: never less, and at most `slack` more.
    fn check(
        operator: &str,
        operands: &[&str],
        result: &str,
        attributes: &[(&str, i64)],
        measured: u64,
        slack: u64,
    ) {
        let attributes =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value))).collect();
        let (module, node) = graph_with(operator, operands, result, false, attributes);
        let bytes = temporaries(&Counted::in_numbers(&Typed::of(&module, node))).unwrap().known().unwrap();
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
        for (operator, counted) in [
            ("Elu", 2_490_368),
            ("LeakyRelu", 2_490_368),
            ("Softsign", 1_310_720),
            ("ThresholdedRelu", 1_966_080),
        ] {
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
        check(
            "GroupNormalization",
            &[image, "f32[32]", "f32[32]"],
            image,
            &[("num_groups", 4)],
            2_097_472,
            2048,
        );
        check("CenterCropPad", &[cube, "i64[3]"], "f32[32,32,32]", &[], 1_048_704, 1024);
        check("CenterCropPad", &[cube, "i64[3]"], "f32[96,96,96]", &[], 3_539_072, 1024);
        check("CenterCropPad", &[cube, "i64[3]"], "f32[32,64,128]", &[], 2_097_280, 1024);
    }

    #[test]
    fn products_and_losses_cover_the_measured_bytes() {
        check("Einsum", &["f32[64,64,64]", "f32[64,64]"], "f32[64,64,64]", &[], 2_129_920, 2 << 20);
        check(
            "DeformConv",
            &["f32[1,16,32,32]", "f32[16,16,3,3]", "f32[1,18,30,30]"],
            "f32[1,16,30,30]",
            &[],
            778_752,
            2048,
        );
        let (scores, labels) = ("f32[4096,1000]", "i64[4096]");
        check("SoftmaxCrossEntropyLoss", &[scores, labels], "f32[]", &[], 32_768_000, 1024);
        check("SoftmaxCrossEntropyLoss", &[scores, labels, "f32[1000]"], "f32[]", &[], 32_784_448, 1024);
        check(
            "SoftmaxCrossEntropyLoss",
            &[scores, labels],
            "f32[]",
            &[("ignore_index", 1)],
            32_821_312,
            1024,
        );
        let (scores, labels) = ("f32[4,64,64,64]", "i64[4,64,64]");
        check("NegativeLogLikelihoodLoss", &[scores, labels], "f32[]", &[], 131_008, 2048);
        check("NegativeLogLikelihoodLoss", &[scores, labels, "f32[64]"], "f32[]", &[], 196_608, 2048);
        check("NegativeLogLikelihoodLoss", &[scores, labels], "f32[]", &[("ignore_index", 1)], 606_208, 2048);
        check("Attention", &["f32[2,4,128,64]"; 3], "f32[2,4,128,64]", &[("is_causal", 1)], 65_536, 256);
        let (heads, mask) = ("f32[2,4,64,32]", "f32[2,4,64,64]");
        check("Attention", &[heads, heads, heads, mask], heads, &[], 0, 256);
        check("Attention", &[heads, heads, heads, mask], heads, &[("is_causal", 1)], 131_072, 256);
        check("Attention", &[heads, heads, heads, "bool[64,64]"], heads, &[], 16_384, 256);
        check(
            "Attention",
            &["f16[1,8,36,64]", "f16[1,8,244,64]", "f16[1,8,244,64]"],
            "f16[1,8,36,64]",
            &[],
            35_136,
            256,
        );
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
            let bytes =
                temporaries(&Counted::in_numbers(&Typed::of(&module, node))).unwrap().known().unwrap();
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
