//! Workspace of ONNX Runtime's CPU kernels for its own operators, with one thread.
//!
//! Source: measured with ONNX Runtime 1.31.1 as the peak of requested bytes around one node whose
//! operands the caller holds, in the second run, and compared over random nodes by
//! `benches/workspace.py`. The formulas give the measured bytes, or more if the bytes depend on a
//! machine's caches or instructions. The runtime's profile counts buffers that a thread keeps from the
//! first run on.

use memc_ir::{ElementType, TensorType};

use super::conv_workspace;
use crate::context::normalize_axis;
use crate::size::{Counted, GRANULARITY, Size};

/// Size of small tables in addition to the large buffers, in bytes (at most 1,024 in measurements).
const TABLES: u64 = 1 << 12;
/// Largest assumed second-level cache, in bytes; blocks of keys are cut to fit it.
const CACHE: u64 = 4 << 20;
/// Assumed size of the buffers that a thread keeps for quantized products, in bytes (164,992 measured
/// for a quantized convolution that multiplies columns).
pub(crate) const QUANTIZED_BUFFERS: u64 = 3 << 16;

/// Returns the bytes of operand 0 plus bias (operand 1), which has its own buffer before the activation
/// runs.
pub(crate) fn biased_copy(node: &Counted<'_>) -> Option<Size> {
    Some(if node.has(1) { node.bytes(node.output(0)) } else { Size::from(0) })
}

/// Returns the bytes of a binary32 copy of a quantized operand 0.
pub(crate) fn float_copy(node: &Counted<'_>) -> Option<Size> {
    Some(node.elements(node.input(0)) * 4)
}

/// Returns the bytes of two buffers of the size of result 0: both choices of a selection, or the axis
/// moved to the end and back.
pub(crate) fn two_copies(node: &Counted<'_>) -> Option<Size> {
    Some(node.bytes(node.output(0)) * 2)
}

/// Like [`two_copies`], or zero if attribute `axis` is the last axis.
pub(crate) fn moved_axis(node: &Counted<'_>) -> Option<Size> {
    let rank = node.output(0)?.rank()?;
    let last = normalize_axis(node.data().int("axis", -1), rank).is_some_and(|axis| axis + 1 == rank);
    if last { Some(Size::from(0)) } else { two_copies(node) }
}

/// Returns the bytes of a table of pointers into one channels-last image: one pointer for each position
/// and element of the window.
pub(crate) fn window_pointers(node: &Counted<'_>) -> Option<Size> {
    let result = node.dims(node.output(0))?;
    let positions = Size::product(result.get(1..result.len().checked_sub(1)?)?);
    let kernel = node.data().ints("kernel_shape")?.iter();
    let taps = Size::product(kernel.map(|extent| u64::try_from(*extent).map_or(Size::Unknown, Size::Number)));
    Some(positions * taps * 8)
}

/// Returns the bytes of a quantized LSTM: gates of all steps, states and sums of one step, quantized
/// data and states, and reversed data and results. Unknown over symbols.
pub(crate) fn quantized_lstm(node: &Counted<'_>) -> Option<Size> {
    let data = node.only_numbers()?.dims(node.input(0))?;
    let hidden = u64::try_from(node.data().int("hidden_size", 0)).ok()?;
    let [steps, batch, input] = data.as_slice() else { return None };
    let directions = node.extent(node.input(1), 0);
    let gates = &directions * steps * batch * hidden * 16;
    // Three states and four sums of binary32 for each sequence, nine vectors of biases and peepholes.
    let states = &directions * (batch * 7 + 9) * hidden * 4;
    let quantized = directions * batch * (steps * input + hidden);
    let reversed = match node.data().string("direction") {
        Some("reverse" | "bidirectional") => steps * batch * (input + hidden) * 4,
        _ => Size::from(0),
    };
    Some(gates + states + quantized + reversed + TABLES)
}

/// Returns zero: the kernel writes the product as it computes it. Buffers that the thread keeps are
/// counted elsewhere. Unknown over symbols.
pub(crate) fn quantized_product(node: &Counted<'_>) -> Option<Size> {
    node.only_numbers().map(|_| Size::from(0))
}

/// Returns the bytes of the 32-bit product before it is quantized again.
pub(crate) fn requantized_product(node: &Counted<'_>) -> Option<Size> {
    // A binary32 result is written as it is computed.
    let is_direct = node.output(0)?.element == ElementType::Float;
    Some(if is_direct { Size::from(0) } else { node.elements(node.output(0)) * 4 })
}

/// Returns the bytes of the left operand, quantized to one byte per element.
pub(crate) fn quantized_operand(node: &Counted<'_>) -> Option<Size> {
    Some(node.elements(node.input(0)))
}

/// Returns the bytes of a product with 4-bit weights: a block of columns unpacked to binary32, or the
/// left operand in bytes with 8 bytes more per block.
pub(crate) fn packed_product(node: &Counted<'_>) -> Option<Size> {
    let positive =
        |name: &str, default| u64::try_from(node.data().int(name, default)).ok().filter(|value| *value > 0);
    let (inner, block) = (positive("K", 0)?, positive("block_size", 32)?);
    let rows = node.elements(node.input(0)).floor_div(inner);
    let bytes = &rows * (Size::from(inner.div_ceil(block)) * 8 + inner);
    // A single row is multiplied without unpacking, and so are integers.
    let is_several = rows.floor_div(2).min(1);
    let is_integer = node.data().int("accuracy_level", 0) == 4;
    let unpacked = if is_integer { Size::from(0) } else { Size::from(inner) * 128 };
    Some(bytes.max(is_several * unpacked) + GRANULARITY)
}

/// Returns the bytes of the columns of an integer convolution.
pub(crate) fn integer_convolution(node: &Counted<'_>) -> Option<Size> {
    let (weight, result) = (node.input(1)?.known_dims()?, node.dims(node.output(0))?);
    if conv_workspace::is_pointwise(node.data(), weight.get(2..)?) {
        return Some(Size::from(0));
    }
    Some(Size::product(weight.get(1..)?.iter().copied()) * Size::product(result.get(2..)?))
}

/// Returns the bytes of a quantized convolution for one image at a time. Operand and result are stored
/// with channels last. Weights that suit the direct kernel need a table of pointers into the operand;
/// other weights need columns and a 32-bit product. Weights that were not reordered in advance need a
/// reordered copy. A batch over symbols counts as one with images.
pub(crate) fn quantized_convolution(node: &Counted<'_>) -> Option<Size> {
    let data = node.data();
    let weights = node.input(3)?;
    let (weight, result) = (weights.known_dims()?, node.dims(node.output(0))?);
    let (filters, channels, window) = (*weight.first()?, *weight.get(1)?, weight.get(2..)?);
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    // No batch, no image.
    let images = if result.first()?.known() == Some(0) { 0 } else { 1 };
    let image = |ty: Option<&TensorType>| node.product_from(ty, 1) * images;
    let is_last = data.int("channels_last", 0) != 0;
    let moved = if is_last { Size::from(0) } else { image(node.input(0)) + image(node.output(0)) };
    let spatial = if is_last { result.get(1..result.len().checked_sub(1)?)? } else { result.get(2..)? };
    let positions = Size::product(spatial) * images;
    let is_depthwise = channels == 1 && groups == filters;
    // The direct kernels take whole blocks of channels, and constant weights with zero point zero.
    let in_blocks = if is_depthwise {
        filters.is_multiple_of(16)
    } else {
        groups == 1 && channels.is_multiple_of(4) && filters.is_multiple_of(8) && filters >= 16
    };
    let is_constant =
        data.inputs.get(3).copied().flatten().is_some_and(|value| node.module.constant_of(value).is_some());
    let is_direct = is_constant && weights.element == ElementType::Int8 && in_blocks;
    let each = if is_depthwise {
        8
    } else if conv_workspace::is_pointwise(data, window) {
        0
    } else if is_direct {
        8
    } else {
        // Columns of windows with three or more axes are created for all groups at once.
        channels.checked_mul(if window.len() > 2 { groups } else { 1 })?
    };
    let kernel = &positions * Size::product(window.iter().copied()) * each;
    let wide = if is_direct { Size::from(0) } else { positions * filters * 4 };
    let reordered = if is_constant { Size::from(0) } else { Size::product(weight) };
    Some(moved + kernel + wide + reordered + GRANULARITY * 4)
}

/// The extents of an attention kernel.
struct Heads {
    batch: Size,
    rows: Size,
    new_keys: Size,
    keys: Size,
    heads: u64,
    groups: u64,
    head: Size,
    value_head: Size,
    width: Size,
}

impl Heads {
    /// Returns the bytes of the queries, heads first.
    fn queries(&self) -> Size {
        &self.batch * &self.rows * self.heads * &self.head * &self.width
    }
    /// Returns the bytes of the new keys and of the new values, heads first.
    fn keys_and_values(&self) -> (Size, Size) {
        let positions = &self.batch * &self.new_keys * self.groups * &self.width;
        (&positions * &self.head, positions * &self.value_head)
    }
    /// Returns the bytes of the result, heads first.
    fn result(&self) -> Size {
        &self.batch * &self.rows * self.heads * &self.value_head * &self.width
    }
    /// Returns the bytes of all scores.
    fn scores(&self) -> Size {
        self.mask() * self.heads
    }
    /// Returns the bytes of one mask for all heads.
    fn mask(&self) -> Size {
        &self.batch * &self.rows * &self.keys * &self.width
    }
    /// Returns the workspace of the kernel that processes keys block by block and never holds all scores
    /// (FlashAttention, Dao et al. 2022). Unknown if the widths of heads are.
    fn blocks(&self) -> Size {
        let both = (&self.head + &self.value_head).known();
        let fitting = both.and_then(|both| CACHE.checked_div(both.saturating_mul(16)));
        let (Some(both), Some(fitting)) = (both, fitting) else { return Size::Unknown };
        let keys = self.keys.max(1).min(fitting.max(1));
        let rows = self.rows.min(both).min(&keys);
        rows * (keys + &self.value_head + 2) * 4
    }
}

/// Returns a head count attribute; `None` if it is absent or not positive.
fn head_count(node: &Counted<'_>, name: &str) -> Option<u64> {
    u64::try_from(node.data().int(name, 0)).ok().filter(|heads| *heads > 0)
}

/// Returns the positions of a cache with heads first; 0 if the tensor is absent or has another rank.
fn cached(node: &Counted<'_>, ty: Option<&TensorType>) -> Size {
    let dims = node.dims(ty).filter(|dims| dims.len() == 4);
    dims.and_then(|dims| dims.get(2).cloned()).unwrap_or(Size::from(0))
}

/// Returns the bytes of attention with its projection: the projected queries, keys and values, all
/// scores, and the result with heads first.
pub(crate) fn projected_attention(node: &Counted<'_>) -> Option<Size> {
    let result = node.dims(node.output(0))?;
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let heads = head_count(node, "num_heads")?;
    // The past is one of two operands; its fourth axis is the axis of positions.
    let stored = [4, 8].iter().filter_map(|index| node.dims(node.input(*index))).find(|dims| dims.len() == 5);
    let past = stored.and_then(|dims| dims.get(3).cloned()).unwrap_or(Size::from(0));
    let sizes = Heads {
        batch: batch.clone(),
        rows: rows.clone(),
        new_keys: rows.clone(),
        keys: rows + past,
        heads,
        groups: heads,
        head: hidden.ceil_div(heads),
        value_head: hidden.ceil_div(heads),
        width: Size::width(node.output(0)),
    };
    let (operand, weights) = (node.input(0), node.dims(node.input(1))?);
    let projected = node.extent(operand, 0) * node.extent(operand, 1) * weights.last()? * &sizes.width;
    Some(projected + sizes.scores() + sizes.result() + sizes.mask() + TABLES)
}

/// Returns the bytes of many-head attention: operands with heads first, and scores block by block, or
/// all scores if masks, biases or a past prevent blocks.
pub(crate) fn many_heads(node: &Counted<'_>) -> Option<Size> {
    let (query, result) = (node.dims(node.input(0)), node.dims(node.output(0))?);
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let heads = head_count(node, "num_heads")?;
    let key = node.dims(node.input(1));
    let is_unranked = |operand| node.has(operand) && node.input(operand).and_then(TensorType::rank).is_none();
    if node.has_symbols() && (is_unranked(1) || is_unranked(6)) {
        return None;
    }
    let heads_first = key.as_ref().is_some_and(|dims| dims.len() == 4);
    let new_keys = key
        .and_then(|dims| dims.get(if heads_first { 2 } else { 1 }).cloned())
        .unwrap_or_else(|| rows.clone());
    let query = query?;
    let width_of_queries = if query.len() == 3 { query.last()? } else { hidden };
    let sizes = Heads {
        batch: batch.clone(),
        rows: rows.clone(),
        keys: &new_keys + cached(node, node.input(6)),
        new_keys,
        heads,
        groups: heads,
        head: width_of_queries.ceil_div(heads),
        value_head: hidden.ceil_div(heads),
        width: Size::width(node.output(0)),
    };
    let (queries, (keys, values)) = (sizes.queries(), sizes.keys_and_values());
    let causal = node.data().int("unidirectional", 0) != 0;
    let whole = heads_first
        || causal
        || [4, 5, 6].iter().any(|operand| node.has(*operand))
        || node.output(3).is_some();
    let scores = if whole { sizes.scores() + sizes.result() + sizes.mask() } else { sizes.blocks() };
    // The kernel adds a bias into one more copy of the operand, before it computes scores.
    let biased = if node.has(3) { queries.max(&keys).max(&values) } else { Size::from(0) };
    // Keys and values with heads first are read in place; a past is joined with them.
    let moved = if heads_first && !node.has(6) { Size::from(0) } else { keys + values };
    Some(queries + moved + scores.max(biased) + TABLES)
}

/// Returns the bytes of grouped-head attention: operands with heads first, a second copy if they are
/// rotated, then scores.
pub(crate) fn grouped_heads(node: &Counted<'_>) -> Option<Size> {
    let result = node.dims(node.output(0))?;
    let [batch, rows, hidden] = result.as_slice() else { return None };
    let (heads, groups) = (head_count(node, "num_heads")?, head_count(node, "kv_num_heads")?);
    let head = hidden.ceil_div(heads);
    let sizes = Heads {
        batch: batch.clone(),
        rows: rows.clone(),
        new_keys: rows.clone(),
        keys: (rows + cached(node, node.input(3))).max(cached(node, node.output(1))),
        heads,
        groups,
        head: head.clone(),
        value_head: head,
        width: Size::width(node.output(0)),
    };
    let (keys, values) = sizes.keys_and_values();
    let operands = sizes.queries() + keys + values;
    let copies = if node.data().int("do_rotary", 0) != 0 { 2 } else { 1 };
    let whole = node.data().float("softcap", 0.0) != 0.0
        || node.data().int("smooth_softmax", 0) != 0
        || [10, 11].iter().any(|operand| node.has(*operand))
        || node.output(3).is_some();
    let scores = if whole { sizes.scores() + sizes.result() } else { sizes.blocks() };
    Some(operands * copies + scores + TABLES)
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
        let heads_first = |q: &str, kv: &str| {
            Case::of("com.microsoft", "MultiHeadAttention", 1).input(q).input(kv).input(kv)
        };
        check(
            heads_first("f32[1,64,256]", "f32[1,4,64,64]").int("num_heads", 4),
            196_864,
            (64 * 64 * 4) + 4096,
        );
        check(
            heads_first("f32[1,128,64]", "f32[1,2,128,32]").int("num_heads", 2),
            196_736,
            (128 * 128 * 4) + 4096,
        );
        let long = ["f32[2,512,256]", "f32[2,512,256]", "f32[2,512,256]"];
        check(many(&long).int("unidirectional", 1), 14_680_576, 4096);

        let grouped = |operands: &[&str]| {
            case("GroupQueryAttention", operands).int("num_heads", 4).int("kv_num_heads", 2)
        };
        check(grouped(&["f32[2,128,256]", "f32[2,128,128]", "f32[2,128,128]"]), 623_616, 4096);
        let rotated = ["f32[2,16,512]", "", ""];
        check(grouped(&rotated).int("do_rotary", 1), 136_320, 4096);
        check(
            grouped(&["f32[1,128,256]", "f32[1,128,128]", "f32[1,128,128]"]).float("softcap", 5.0),
            524_288,
            1 << 18,
        );
    }

    #[test]
    fn quantized_kernel_workspace_covers_the_measured_bytes() {
        let bare = |data: &str, weight: &str| {
            case("QLinearConv", &[data, "f32[]", "u8[]", weight, "f32[]", "i8[]", "f32[]", "u8[]"])
        };
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
        check(
            case("QGemm", &["u8[256,512]", scale, "u8[]", "u8[512,256]", scale, "u8[]", "", scale, "u8[]"]),
            262_144,
            0,
        );
        check(case("QGemm", &["u8[256,512]", scale, "u8[]", "u8[512,256]", scale, "u8[]"]), 0, 0);
        let bits = |rows: u64, inner: i64| {
            case("MatMulNBits", &[&format!("f32[{rows},{inner}]"), "u8[1]", "f32[1]"])
                .int("K", inner)
                .int("N", 256)
        };
        check(bits(64, 512), 65_536, 4096);
        check(bits(256, 512), 163_904, 4096);
        check(bits(1, 4096), 5_184, 4096);
        check(bits(20, 640).int("block_size", 64).int("accuracy_level", 4), 14_464, 0);
        check(case("QLinearSoftmax", &["u8[64,64,64]"]).int("axis", 0), 524_288, 0);
        check(case("QLinearSoftmax", &["u8[64,64,64]"]), 0, 0);
        check(
            case("NhwcMaxPool", &["u8[2,16,16,8]"]).ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]),
            2048,
            0,
        );
        let lstm = case("DynamicQuantizeLSTM", &["f32[16,4,32]", "i8[1,32,256]", "i8[1,64,256]"])
            .int("hidden_size", 64);
        check(lstm, 75_328, 1 << 14);
        check(case("BiasGelu", &["f32[64,64]", "f32[64]"]), 16_384, 0);
        check(case("FastGelu", &["f32[64,64]"]), 0, 0);
    }
}
