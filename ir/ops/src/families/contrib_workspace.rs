//! Workspace of ONNX Runtime's CPU kernels for its own operators, with one thread.
//!
//! Source: measured with ONNX Runtime 1.31.1 as the peak of requested bytes around one node whose
//! operands the caller holds, in the second run, and compared over random nodes by
//! `benches/workspace.py`. The formulas give the measured bytes, or more if the bytes depend on a
//! machine's caches or instructions. The runtime's profile counts buffers that a thread keeps from the
//! first run on.

use memc_ir::{Bytes, ElementType, TensorType};

use super::conv_workspace;
use super::dims::product;
use crate::context::normalize_axis;
use crate::info::Typed;

/// Granularity of allocations, in bytes.
const ALIGNMENT: u64 = 64;
/// Size of small tables in addition to the large buffers, in bytes (at most 1,024 in measurements).
pub(super) const TABLES: u64 = 1 << 12;
/// Largest assumed second-level cache, in bytes; blocks of keys are cut to fit it.
pub(super) const CACHE: u64 = 4 << 20;
/// Assumed size of the buffers that a thread keeps for quantized products, in bytes (164,992 measured
/// for a quantized convolution that multiplies columns).
pub(crate) const QUANTIZED_BUFFERS: u64 = 3 << 16;

fn sum(parts: &[u64]) -> Option<Bytes> {
    parts.iter().try_fold(0u64, |sum, part| sum.checked_add(*part)).map(Bytes)
}

fn width(ty: &TensorType) -> Option<u64> {
    Some(u64::from(ty.element.bits()?.div_ceil(8)))
}

/// Returns the bytes of operand 0 plus bias (operand 1), which has its own buffer before the activation
/// runs.
pub(crate) fn biased_copy(typed: &Typed<'_>) -> Option<Bytes> {
    match typed.data().inputs.get(1).copied().flatten() {
        Some(_) => typed.output(0)?.size(),
        None => Some(Bytes(0)),
    }
}

/// Returns the bytes of a binary32 copy of a quantized operand 0.
pub(crate) fn float_copy(typed: &Typed<'_>) -> Option<Bytes> {
    typed.input(0)?.elements()?.checked_mul(4).map(Bytes)
}

/// Returns the bytes of two buffers of the size of result 0: both choices of a selection, or the axis
/// moved to the end and back.
pub(crate) fn two_copies(typed: &Typed<'_>) -> Option<Bytes> {
    typed.output(0)?.size()?.0.checked_mul(2).map(Bytes)
}

/// Like [`two_copies`], or zero if attribute `axis` is the last axis.
pub(crate) fn moved_axis(typed: &Typed<'_>) -> Option<Bytes> {
    let axis = normalize_axis(typed.data().int("axis", -1), typed.output(0)?.rank()?);
    let last = axis.is_some_and(|axis| typed.output(0).and_then(TensorType::rank) == Some(axis + 1));
    if last { Some(Bytes(0)) } else { two_copies(typed) }
}

/// Returns the bytes of a table of pointers into one channels-last image: one pointer for each position
/// and element of the window.
pub(crate) fn window_pointers(typed: &Typed<'_>) -> Option<Bytes> {
    let result = typed.output_dims(0)?;
    let positions = product(result.get(1..result.len().checked_sub(1)?)?)?;
    let kernel = typed.data().ints("kernel_shape")?;
    let taps = kernel.iter().try_fold(1u64, |product, extent| product.checked_mul(u64::try_from(*extent).ok()?))?;
    product(&[positions, taps, 8]).map(Bytes)
}

/// Returns the bytes of a quantized LSTM: gates of all steps, states and sums of one step, quantized
/// data and states, and reversed data and results.
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

/// Returns zero: the kernel writes the product as it computes it. Buffers that the thread keeps are
/// counted elsewhere.
pub(crate) fn quantized_product(_typed: &Typed<'_>) -> Option<Bytes> {
    Some(Bytes(0))
}

/// Returns the bytes of the 32-bit product before it is quantized again.
pub(crate) fn requantized_product(typed: &Typed<'_>) -> Option<Bytes> {
    let result = typed.output(0)?;
    // A binary32 result is written as it is computed.
    let wide = if result.element == ElementType::Float { 0 } else { result.elements()?.checked_mul(4)? };
    Some(Bytes(wide))
}

/// Returns the bytes of the left operand, quantized to one byte per element.
pub(crate) fn quantized_operand(typed: &Typed<'_>) -> Option<Bytes> {
    typed.input(0)?.elements().map(Bytes)
}

/// Returns the bytes of a product with 4-bit weights: a block of columns unpacked to binary32, or the
/// left operand in bytes with 8 bytes more per block.
pub(crate) fn packed_product(typed: &Typed<'_>) -> Option<Bytes> {
    let data = typed.data();
    let inner = u64::try_from(data.int("K", 0)).ok()?;
    let block = u64::try_from(data.int("block_size", 32)).ok().filter(|block| *block > 0)?;
    let rows = typed.input(0)?.elements()?.checked_div(inner)?;
    let row = inner.checked_add(inner.div_ceil(block).checked_mul(8)?)?;
    // A single row is multiplied without unpacking, and so are integers.
    let is_integer = data.int("accuracy_level", 0) == 4;
    let unpacked = if rows > 1 && !is_integer { inner.checked_mul(128)? } else { 0 };
    let bytes = rows.checked_mul(row)?.max(unpacked);
    sum(&[bytes, ALIGNMENT])
}

/// Returns the bytes of the columns of an integer convolution.
pub(crate) fn integer_convolution(typed: &Typed<'_>) -> Option<Bytes> {
    let (weight, result) = (typed.input_dims(1)?, typed.output_dims(0)?);
    if conv_workspace::is_pointwise(typed.data(), weight.get(2..)?) {
        return Some(Bytes(0));
    }
    product(&[product(weight.get(1..)?)?, product(result.get(2..)?)?]).map(Bytes)
}

/// Returns the bytes of a quantized convolution for one image at a time. Operand and result are stored
/// with channels last. Weights that suit the direct kernel need a table of pointers into the operand;
/// other weights need columns and a 32-bit product. Weights that were not reordered in advance need a
/// reordered copy.
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
    // The direct kernels take whole blocks of channels, and constant weights with zero point zero.
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
        // Columns of windows with three or more axes are created for all groups at once.
        let at_once = if window.len() > 2 { groups } else { 1 };
        sum(&[product(&[positions, taps, channels, at_once])?, wide()?])?.0
    };
    let reordered = if constant { 0 } else { product(&weight)? };
    sum(&[moved, kernel, reordered, ALIGNMENT * 4])
}

/// The extents of an attention kernel.
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
    /// Returns the bytes of the queries, heads first.
    fn queries(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.heads, self.head, self.width])
    }
    /// Returns the bytes of the new keys and of the new values, heads first.
    fn keys_and_values(&self) -> Option<(u64, u64)> {
        let positions = product(&[self.batch, self.new_keys, self.groups, self.width])?;
        Some((positions.checked_mul(self.head)?, positions.checked_mul(self.value_head)?))
    }
    /// Returns the bytes of the result, heads first.
    fn result(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.heads, self.value_head, self.width])
    }
    /// Returns the bytes of all scores.
    fn scores(&self) -> Option<u64> {
        product(&[self.batch, self.heads, self.rows, self.keys, self.width])
    }
    /// Returns the bytes of one mask for all heads.
    fn mask(&self) -> Option<u64> {
        product(&[self.batch, self.rows, self.keys, self.width])
    }
    /// Returns the workspace of the kernel that processes keys block by block and never holds all scores
    /// (FlashAttention, Dao et al. 2022).
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

/// Returns a head count attribute; `None` if it is absent or not positive.
fn head_count(typed: &Typed<'_>, name: &str) -> Option<u64> {
    u64::try_from(typed.data().int(name, 0)).ok().filter(|heads| *heads > 0)
}

/// Returns the bytes of attention with its projection: the projected queries, keys and values, all
/// scores, and the result with heads first.
pub(crate) fn projected_attention(typed: &Typed<'_>) -> Option<Bytes> {
    let (operand, result) = (typed.input_dims(0)?, typed.output_dims(0)?);
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let projected = *typed.input_dims(1)?.last()?;
    let heads = head_count(typed, "num_heads")?;
    // The past is one of two operands; its fourth axis is the axis of positions.
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

/// Returns the bytes of many-head attention: operands with heads first, and scores block by block, or
/// all scores if masks, biases or a past prevent blocks.
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
    // The kernel adds a bias into one more copy of the operand, before it computes scores.
    let biased = if present(typed, 3) { queries.max(keys).max(values) } else { 0 };
    // Keys and values with heads first are read in place; a past is joined with them.
    let moved = if heads_first && !present(typed, 6) { 0 } else { sum(&[keys, values])?.0 };
    sum(&[queries, moved, scores.max(biased), TABLES])
}

/// Returns the bytes of grouped-head attention: operands with heads first, a second copy if they are
/// rotated, then scores.
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

    /// Compares the workspace of a node with the measured bytes: never less, and at most `slack` more.
    fn check(case: Case, measured: u64, slack: u64) {
        let workspace = case.costs().1.unwrap().0;
        assert!((measured..=measured + slack).contains(&workspace), "{workspace} for {measured}");
    }

    fn case(name: &str, operands: &[&str]) -> Case {
        operands.iter().fold(Case::of("com.microsoft", name, 1), |case, operand| case.input(operand))
    }

    #[test]
    fn gradients_of_biased_activations_copy_their_biased_operand() {
        let workspace = |name: &str| case(name, &["f32[8,64]", "f32[8,64]", "f32[64]"]).costs().1;
        assert_eq!(["BiasGeluGrad_dX", "BiasFastGeluGrad_dX"].map(workspace), [Some(Bytes(8 * 64 * 4)); 2]);
        assert_eq!(workspace("GeluGrad"), None);
    }

    #[test]
    fn attention_workspace_covers_the_measured_bytes() {
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
    fn quantized_kernel_workspace_covers_the_measured_bytes() {
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
        // Weights that a node computes are reordered in each run.
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
