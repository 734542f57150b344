//! What ONNX Runtime's CPU kernels of its own operators allocate beside operands and results, with one thread.
//!
//! Source: measured with ONNX Runtime 1.31.1 as the peak of requested bytes around one node whose operands the caller holds, in the second run, and
//! compared over random nodes by `benches/workspace.py`; the formulas give the measured bytes, or more where a machine's caches or instructions
//! decide. Buffers that a thread keeps from the first run on are in the runtime's profile.

use memc_ir::{Bytes, ElementType, TensorType};

use super::conv_workspace;
use super::dims::product;
use crate::context::normalize_axis;
use crate::info::Typed;

/// Allocations take a multiple of this.
const ALIGNMENT: u64 = 64;
/// Small tables beside the large buffers (at most 1,024 bytes where measured).
const TABLES: u64 = 1 << 12;
/// Largest second-level cache that is counted on; blocks of keys are cut so that they fit it.
const CACHE: u64 = 4 << 20;
/// All such buffers of the quantized convolution that multiplies columns (164,992 bytes where measured).
pub(crate) const QUANTIZED_BUFFERS: u64 = 3 << 16;

fn sum(parts: &[u64]) -> Option<Bytes> {
    parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part)).map(Bytes)
}

fn width(ty: &TensorType) -> Option<u64> {
    Some(u64::from(ty.element.bits()?.div_ceil(8)))
}

/// Operand 0 plus bias, operand 1, has a buffer of its own before the activation runs.
pub(crate) fn biased_copy(typed: &Typed<'_>) -> Option<Bytes> {
    match typed.data().inputs.get(1).copied().flatten() {
        Some(_) => typed.output(0)?.size(),
        None => Some(Bytes(0)),
    }
}

/// A float copy of a quantized operand 0.
pub(crate) fn float_copy(typed: &Typed<'_>) -> Option<Bytes> {
    typed.input(0)?.elements()?.checked_mul(4).map(Bytes)
}

/// Two buffers of the size of result 0: both choices of a selection, or the axis moved to the end and back.
pub(crate) fn two_copies(typed: &Typed<'_>) -> Option<Bytes> {
    typed.output(0)?.size()?.0.checked_mul(2).map(Bytes)
}

/// As [`two_copies`], unless attribute `axis` names the last axis.
pub(crate) fn moved_axis(typed: &Typed<'_>) -> Option<Bytes> {
    let axis = normalize_axis(typed.data().int("axis", -1), typed.output(0)?.rank()?);
    let last = axis.is_some_and(|axis| typed.output(0).and_then(TensorType::rank) == Some(axis + 1));
    if last { Some(Bytes(0)) } else { two_copies(typed) }
}

/// A table of pointers into one image, channels last: one for each position and element of the window.
pub(crate) fn window_pointers(typed: &Typed<'_>) -> Option<Bytes> {
    let result = typed.output_dims(0)?;
    let positions = product(result.get(1..result.len().checked_sub(1)?)?)?;
    let kernel = typed.data().ints("kernel_shape")?;
    let taps = kernel.iter().try_fold(1u64, |product, extent| product.checked_mul(u64::try_from(*extent).ok()?))?;
    product(&[positions, taps, 8]).map(Bytes)
}

/// Gates of all steps, states with the sums of one step, quantized data and states, and data and results back to front.
pub(crate) fn quantized_lstm(typed: &Typed<'_>) -> Option<Bytes> {
    let (data, hidden) = (typed.input_dims(0)?, u64::try_from(typed.data().int("hidden_size", 0)).ok()?);
    let [steps, batch, input] = data.as_slice() else { return None };
    let directions = *typed.input_dims(1)?.first()?;
    let gates = product(&[directions, *steps, *batch, hidden, 16])?;
    // Three states and four sums of binary32 for each sequence, nine vectors of biases and peepholes.
    let states = product(&[directions, batch.checked_mul(7)?.checked_add(9)?, hidden, 4])?;
    let quantized = product(&[directions, *batch, steps.checked_mul(*input)?.checked_add(hidden)?])?;
    let reversed = match typed.data().string("direction") {
        Some("reverse" | "bidirectional") => product(&[*steps, *batch, input.checked_add(hidden)?, 4])?,
        _ => 0,
    };
    sum(&[gates, states, quantized, reversed, TABLES])
}

/// Nothing that is given back: the product is written as it is computed.
pub(crate) fn quantized_product(_typed: &Typed<'_>) -> Option<Bytes> {
    Some(Bytes(0))
}

/// The product in 32 bits before it is quantized again.
pub(crate) fn requantized_product(typed: &Typed<'_>) -> Option<Bytes> {
    let result = typed.output(0)?;
    // A float result is written as it is computed.
    let wide = if result.element == ElementType::Float { 0 } else { result.elements()?.checked_mul(4)? };
    Some(Bytes(wide))
}

/// The left operand in bytes.
pub(crate) fn quantized_operand(typed: &Typed<'_>) -> Option<Bytes> {
    typed.input(0)?.elements().map(Bytes)
}

/// Weights of 4 bits a number: a block of columns unpacked to floats, or the left operand in bytes with 8 more for each block.
pub(crate) fn packed_product(typed: &Typed<'_>) -> Option<Bytes> {
    let data = typed.data();
    let inner = u64::try_from(data.int("K", 0)).ok()?;
    let block = u64::try_from(data.int("block_size", 32)).ok().filter(|block| *block > 0)?;
    let rows = typed.input(0)?.elements()?.checked_div(inner)?;
    let row = inner.checked_add(inner.div_ceil(block).checked_mul(8)?)?;
    // Neither a single row nor integers are multiplied after unpacking.
    let is_integer = data.int("accuracy_level", 0) == 4;
    let unpacked = if rows > 1 && !is_integer { inner.checked_mul(128)? } else { 0 };
    let bytes = rows.checked_mul(row)?.max(unpacked);
    sum(&[bytes, ALIGNMENT])
}

/// Columns of a convolution of integers.
pub(crate) fn integer_convolution(typed: &Typed<'_>) -> Option<Bytes> {
    let (weight, result) = (typed.input_dims(1)?, typed.output_dims(0)?);
    if conv_workspace::is_pointwise(typed.data(), weight.get(2..)?) {
        return Some(Bytes(0));
    }
    product(&[product(weight.get(1..)?)?, product(result.get(2..)?)?]).map(Bytes)
}

/// A quantized convolution, one image after the other: operand and result with channels last, then either a table of pointers into the operand,
/// for weights that the direct kernel takes, or columns and the product in 32 bits; and weights in their new order, where that was not done ahead.
pub(crate) fn quantized_convolution(typed: &Typed<'_>) -> Option<Bytes> {
    let data = typed.data();
    let (operand, weights, result) = (typed.input(0)?, typed.input(3)?, typed.output(0)?);
    let (weight, dims) = (weights.known_dims()?, typed.output_dims(0)?);
    let batch = *dims.first()?;
    let image = |ty: &TensorType| Some(ty.elements()?.checked_div(batch).unwrap_or(0));
    let last = data.int("channels_last", 0) != 0;
    let moved = if last { 0 } else { sum(&[image(operand)?, image(result)?])?.0 };
    let window = weight.get(2..)?;
    let taps = product(window)?;
    let (filters, channels) = (*weight.first()?, *weight.get(1)?);
    let positions = image(result)?.checked_div(filters).unwrap_or(0);
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    let depthwise = channels == 1 && groups == filters;
    // The direct kernels take whole blocks of channels, and constant weights around zero.
    let blocks = if depthwise {
        filters.is_multiple_of(16)
    } else {
        groups == 1 && channels.is_multiple_of(4) && filters.is_multiple_of(8) && filters >= 16
    };
    let constant = data.inputs.get(3).copied().flatten().is_some_and(|value| typed.module.constant_of(value).is_some());
    let direct = constant && weights.element == ElementType::Int8 && blocks;
    let pointwise = conv_workspace::is_pointwise(data, window);
    let pointers = product(&[positions, taps, 8])?;
    let wide = || image(result)?.checked_mul(4);
    let kernel = if direct {
        if pointwise && !depthwise { 0 } else { pointers }
    } else if depthwise {
        pointers.checked_add(wide()?)?
    } else if pointwise {
        wide()?
    } else {
        // Columns of windows with three and more axes are made for all groups at once.
        let at_once = if window.len() > 2 { groups } else { 1 };
        sum(&[product(&[positions, taps, channels, at_once])?, wide()?])?.0
    };
    let reordered = if constant { 0 } else { product(&weight)? };
    sum(&[moved, kernel, reordered, ALIGNMENT * 4])
}

/// Extents that attention kernels run over.
struct Heads {
    batch: u64,
    rows: u64,
    new_keys: u64,
    keys: u64,
    heads: u64,
    groups: u64,
    head: u64,
    value_head: u64,
    width: u64,
}

impl Heads {
    /// Bytes of queries, heads first.
    fn queries(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.heads, self.head, self.width])
    }
    /// Bytes of new keys, and of new values, heads first.
    fn keys_and_values(&self) -> Option<(u64, u64)> {
        let positions = product(&[self.batch, self.new_keys, self.groups, self.width])?;
        Some((positions.checked_mul(self.head)?, positions.checked_mul(self.value_head)?))
    }
    /// Bytes of the result, heads first.
    fn result(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.heads, self.value_head, self.width])
    }
    /// Bytes of all scores.
    fn scores(&self) -> Option<u64> {
        product(&[self.batch, self.heads, self.rows, self.keys, self.width])
    }
    /// Bytes of one mask for all heads.
    fn mask(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.keys, self.width])
    }
    /// Bytes of the kernel that goes through keys block by block and never holds all scores (FlashAttention, Dao et al. 2022).
    fn blocks(&self) -> Option<u64> {
        let both = self.head.checked_add(self.value_head)?;
        let keys = CACHE.checked_div(both.checked_mul(16)?)?.clamp(1, self.keys.max(1));
        let rows = self.rows.min(both).min(keys);
        rows.checked_mul(keys.checked_add(self.value_head)?.checked_add(2)?)?.checked_mul(4)
    }
}

fn present(typed: &Typed<'_>, operand: usize) -> bool {
    typed.data().inputs.get(operand).copied().flatten().is_some()
}

/// Attribute `num_heads`.
fn head_count(typed: &Typed<'_>, name: &str) -> Option<u64> {
    u64::try_from(typed.data().int(name, 0)).ok().filter(|heads| *heads > 0)
}

/// Attention with its projection: queries, keys and values as the projection gives them, all scores, and the result heads first.
pub(crate) fn projected_attention(typed: &Typed<'_>) -> Option<Bytes> {
    let (operand, result) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let projected = *typed.input_dims(1)?.last()?;
    let heads = head_count(typed, "num_heads")?;
    // The past stands at one of two places; its fourth axis is the one of positions.
    let past = [4, 8].iter().filter_map(|index| typed.input_dims(*index)).find(|dims| dims.len() == 5).map_or(0, |dims| dims[3]);
    let width = width(typed.output(0)?)?;
    let sizes = Heads {
        batch: *batch,
        rows: *rows,
        new_keys: *rows,
        keys: rows.checked_add(past)?,
        heads,
        groups: heads,
        head: hidden.div_ceil(heads),
        value_head: hidden.div_ceil(heads),
        width,
    };
    let qkv = product(&[*operand.first()?, *operand.get(1)?, projected, width])?;
    sum(&[qkv, sizes.scores()?, sizes.result()?, sizes.mask()?, TABLES])
}

/// Attention of many heads: operands heads first, then scores block by block, or all of them where masks, biases or a past forbid that.
pub(crate) fn many_heads(typed: &Typed<'_>) -> Option<Bytes> {
    let (query, result) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let heads = head_count(typed, "num_heads")?;
    let key = typed.input_dims(1);
    let heads_first = key.as_ref().is_some_and(|dims| dims.len() == 4);
    let new_keys = key.as_ref().and_then(|dims| dims.get(if heads_first { 2 } else { 1 }).copied()).unwrap_or(*rows);
    let past = typed.input_dims(6).filter(|dims| dims.len() == 4).map_or(0, |dims| dims[2]);
    let width_of_queries = if query.len() == 3 { *query.last()? } else { *hidden };
    let sizes = Heads {
        batch: *batch,
        rows: *rows,
        new_keys,
        keys: new_keys.checked_add(past)?,
        heads,
        groups: heads,
        head: width_of_queries.div_ceil(heads),
        value_head: hidden.div_ceil(heads),
        width: width(typed.output(0)?)?,
    };
    let (queries, (keys, values)) = (sizes.queries()?, sizes.keys_and_values()?);
    let causal = typed.data().int("unidirectional", 0) != 0;
    let whole = heads_first || causal || [4, 5, 6].iter().any(|operand| present(typed, *operand)) || typed.output(3).is_some();
    let scores = if whole { sum(&[sizes.scores()?, sizes.result()?, sizes.mask()?])?.0 } else { sizes.blocks()? };
    // A bias is added into one more copy of the operand, before there are scores.
    let biased = if present(typed, 3) { queries.max(keys).max(values) } else { 0 };
    // Keys and values that are heads first already are read as they are; a past is joined with them.
    let moved = if heads_first && !present(typed, 6) { 0 } else { sum(&[keys, values])?.0 };
    sum(&[queries, moved, scores.max(biased), TABLES])
}

/// Attention of grouped heads: operands heads first, once more where they are rotated, then scores.
pub(crate) fn grouped_heads(typed: &Typed<'_>) -> Option<Bytes> {
    let result = typed.output_dims(0)?;
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let (heads, groups) = (head_count(typed, "num_heads")?, head_count(typed, "kv_num_heads")?);
    let head = hidden.div_ceil(heads);
    let past = typed.input_dims(3).filter(|dims| dims.len() == 4).map_or(0, |dims| dims[2]);
    let filled = typed.output_dims(1).filter(|dims| dims.len() == 4).map_or(0, |dims| dims[2]);
    let sizes = Heads {
        batch: *batch,
        rows: *rows,
        new_keys: *rows,
        keys: rows.checked_add(past)?.max(filled),
        heads,
        groups,
        head,
        value_head: head,
        width: width(typed.output(0)?)?,
    };
    let (queries, (keys, values)) = (sizes.queries()?, sizes.keys_and_values()?);
    let operands = sum(&[queries, keys, values])?.0;
    let rotated = if typed.data().int("do_rotary", 0) != 0 { operands } else { 0 };
    let whole = typed.data().float("softcap", 0.0) != 0.0
        || typed.data().int("smooth_softmax", 0) != 0
        || [10, 11].iter().any(|operand| present(typed, *operand))
        || typed.output(3).is_some();
    let scores = if whole { sum(&[sizes.scores()?, sizes.result()?])?.0 } else { sizes.blocks()? };
    sum(&[operands, rotated, scores, TABLES])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::Bytes;

    use crate::families::testing::Case;

    /// Workspace of a node, next to what was measured: never less, and at most `slack` more.
    fn check(case: Case, measured: u64, slack: u64) {
        let workspace = case.costs().1.unwrap().0;
        assert!((measured..=measured + slack).contains(&workspace), "{workspace} for {measured}");
    }

    fn case(name: &str, operands: &[&str]) -> Case {
        operands.iter().fold(Case::of("com.microsoft", name, 1), |case, operand| case.input(operand))
    }

    #[test]
    fn gradients_of_biased_activations_copy_what_is_biased() {
        let workspace = |name: &str| case(name, &["f32[8,64]", "f32[8,64]", "f32[64]"]).costs().1;
        assert_eq!(["BiasGeluGrad_dX", "BiasFastGeluGrad_dX"].map(workspace), [Some(Bytes(8 * 64 * 4)); 2]);
        assert_eq!(workspace("GeluGrad"), None);
    }

    #[test]
    fn attention_covers_what_was_measured() {
        let projected = |operands: &[&str]| case("Attention", operands).int("num_heads", 4);
        let mask = 2 * 128 * 128 * 4;
        check(projected(&["f32[2,128,256]", "f32[256,768]"]), 1_573_376, mask + 4096);
        check(projected(&["f32[2,128,256]", "f32[256,768]"]).int("unidirectional", 1), 1_704_448, 4096);
        let past = ["f32[2,128,256]", "f32[256,768]", "f32[768]", "", "f32[2,2,4,64,64]"];
        check(projected(&past), 1_835_520, 2 * mask);

        let many = |operands: &[&str]| case("MultiHeadAttention", operands).int("num_heads", 4);
        check(many(&["f32[2,128,256]", "f32[2,128,256]", "f32[2,128,256]"]), 885_760, 4096);
        check(many(&["f32[2,256,256]", "f32[2,256,256]", "f32[2,256,256]", "f32[768]"]), 2_098_176, 4096);
        check(many(&["f32[2,128,256]", "f32[2,64,256]", "f32[2,64,256]", "f32[768]"]), 656_384, 1 << 18);
        let heads_first = |q: &str, kv: &str| Case::of("com.microsoft", "MultiHeadAttention", 1).input(q).input(kv).input(kv);
        check(heads_first("f32[1,64,256]", "f32[1,4,64,64]").int("num_heads", 4), 196_864, (64 * 64 * 4) + 4096);
        check(heads_first("f32[1,128,64]", "f32[1,2,128,32]").int("num_heads", 2), 196_736, (128 * 128 * 4) + 4096);
        let long = ["f32[2,512,256]", "f32[2,512,256]", "f32[2,512,256]"];
        check(many(&long).int("unidirectional", 1), 14_680_576, 4096);

        let grouped = |operands: &[&str]| case("GroupQueryAttention", operands).int("num_heads", 4).int("kv_num_heads", 2);
        check(grouped(&["f32[2,128,256]", "f32[2,128,128]", "f32[2,128,128]"]), 623_616, 4096);
        let rotated = ["f32[2,16,512]", "", ""];
        check(grouped(&rotated).int("do_rotary", 1), 136_320, 4096);
        check(grouped(&["f32[1,128,256]", "f32[1,128,128]", "f32[1,128,128]"]).float("softcap", 5.0), 524_288, 1 << 18);
    }

    #[test]
    fn quantized_kernels_cover_what_was_measured() {
        let bare =
            |data: &str, weight: &str| case("QLinearConv", &[data, "f32[]", "u8[]", weight, "f32[]", "i8[]", "f32[]", "u8[]"]);
        let conv = |data: &str, weight: &str| bare(data, weight).ints("pads", &[1, 1, 1, 1]);
        let packed = |data: &str, weight: &str| conv(data, weight).constant(3);
        for batch in [1, 4] {
            check(packed(&format!("u8[{batch},32,64,64]"), "i8[64,32,3,3]"), 688_128, 256);
            check(packed(&format!("u8[{batch},32,64,64]"), "i8[32,1,3,3]").int("group", 32), 557_056, 256);
        }
        check(packed("u8[1,32,64,64]", "u8[32,1,3,3]").int("group", 32), 1_081_344, 256);
        check(packed("u8[1,24,28,28]", "i8[24,1,3,3]").int("group", 24), 169_344, 256);
        check(packed("u8[1,8,64,64]", "i8[24,8,3,3]"), 425_984, 256);
        check(packed("u8[1,8,64,64]", "i8[8,8,3,3]"), 491_520, 256);
        check(packed("u8[1,64,64,64]", "i8[64,16,3,3]").int("group", 4), 2_162_688, 256);
        check(packed("u8[1,3,64,64]", "i8[32,3,3,3]").ints("strides", &[2, 2]), 203_776, 256);
        check(packed("u8[1,64,64,32]", "i8[64,32,3,3]").int("channels_last", 1), 294_912, 256);
        let pointwise = |data: &str, weight: &str| bare(data, weight).constant(3);
        check(pointwise("u8[4,8,64,64]", "i8[8,8,1,1]"), 196_608, 256);
        check(pointwise("u8[4,32,64,64]", "i8[64,32,1,1]"), 393_216, 256);
        check(bare("u8[2,8,8,8,8]", "i8[8,2,3,3,3]").constant(3).int("group", 4), 59_392, 256);
        // Weights that a node makes are brought into order in each run.
        check(conv("u8[1,32,64,64]", "i8[64,32,3,3]"), 2_639_872, 256);
        check(conv("u8[1,32,64,64]", "i8[32,1,3,3]").int("group", 32), 1_081_664, 256);

        let scale = "f32[]";
        check(case("DynamicQuantizeMatMul", &["f32[256,512]", "u8[512,256]", scale, "u8[]"]), 131_072, 0);
        check(case("QGemm", &["u8[256,512]", scale, "u8[]", "u8[512,256]", scale, "u8[]", "", scale, "u8[]"]), 262_144, 0);
        check(case("QGemm", &["u8[256,512]", scale, "u8[]", "u8[512,256]", scale, "u8[]"]), 0, 0);
        let bits = |rows: u64, inner: i64| {
            case("MatMulNBits", &[&format!("f32[{rows},{inner}]"), "u8[1]", "f32[1]"]).int("K", inner).int("N", 256)
        };
        check(bits(64, 512), 65_536, 4096);
        check(bits(256, 512), 163_904, 4096);
        check(bits(1, 4096), 5_184, 4096);
        check(bits(20, 640).int("block_size", 64).int("accuracy_level", 4), 14_464, 0);
        check(case("QLinearSoftmax", &["u8[64,64,64]"]).int("axis", 0), 524_288, 0);
        check(case("QLinearSoftmax", &["u8[64,64,64]"]), 0, 0);
        check(case("NhwcMaxPool", &["u8[2,16,16,8]"]).ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]), 2048, 0);
        let lstm = case("DynamicQuantizeLSTM", &["f32[16,4,32]", "i8[1,32,256]", "i8[1,64,256]"]).int("hidden_size", 64);
        check(lstm, 75_328, 1 << 14);
        check(case("BiasGelu", &["f32[64,64]", "f32[64]"]), 16_384, 0);
        check(case("FastGelu", &["f32[64,64]"]), 0, 0);
    }
}
