//! Attention of ONNX Runtime's own domain: fused projections, many heads, grouped heads, caches of keys
//! and values.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{
    extent, extent_attribute, last_dim, like_first, microsoft, ranked, scalar_extent,
};
use super::contrib_workspace;
use super::dims::{dim_at, product};
use crate::context::{Infer, InferError};
use crate::info::{InferFn, OpInfo, Typed, Work};

/// Returns the number of past plus new positions, or the extent of the past buffer if the results share
/// it.
fn total(ctx: &Infer<'_>, past: usize, axis: usize, new: &Dim, shared: bool) -> Dim {
    match (ctx.has(past), shared) {
        (false, _) => new.clone(),
        (true, true) => dim_at(ctx, past, axis),
        (true, false) => dim_at(ctx, past, axis).add(new),
    }
}

/// Infers attention with a fused projection: `[B, S, v_hidden]`, and keys and values in one tensor
/// `[2, B, heads, total, head]`.
fn set_projected(ctx: &mut Infer<'_>, element: ElementType, past: usize, qkv: Dim) -> Result<(), InferError> {
    ctx.required(0)?;
    let data = ranked(ctx, 0, 3)?;
    let sizes = ctx.ints("qkv_hidden_sizes").filter(|sizes| sizes.len() == 3);
    let size = |index: usize| match sizes {
        Some(sizes) => extent(sizes[index]),
        None => qkv.div(&Dim::Known(3)),
    };
    let shared = ctx.int("past_present_share_buffer", 0) != 0;
    let heads = extent_attribute(ctx, "num_heads");
    let all = total(ctx, past, 3, &data[1], shared);
    let present = vec![Dim::Known(2), data[0].clone(), heads.clone(), all, size(0).div(&heads)];
    ctx.set_dims(0, element, vec![data[0].clone(), data[1].clone(), size(2)]);
    ctx.set_dims(1, element, present);
    Ok(())
}

fn projected(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    set_projected(ctx, ctx.element(0), 4, last_dim(ctx, 1))
}

fn quantized(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    set_projected(ctx, ctx.element(3), 8, last_dim(ctx, 1))
}

fn quantized_ordered(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let data = ranked(ctx, 0, 3)?;
    ctx.set_dims(0, ctx.element(0), vec![data[0].clone(), data[1].clone(), last_dim(ctx, 7)]);
    Ok(())
}

/// Infers projected attention over the concatenated tokens of all sequences: `[tokens, v_hidden]`.
fn packed_projected(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let sizes = ctx.ints("qkv_hidden_sizes").and_then(|sizes| sizes.get(2));
    let hidden = match sizes {
        Some(size) => extent(*size),
        None => last_dim(ctx, 1).div(&Dim::Known(3)),
    };
    ctx.set_dims(0, ctx.element(0), vec![dim_at(ctx, 0, 0), hidden]);
    Ok(())
}

fn packed_heads(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let hidden =
        if ctx.rank(0) == Some(4) { dim_at(ctx, 0, 1).mul(&dim_at(ctx, 0, 3)) } else { last_dim(ctx, 2) };
    ctx.set_dims(0, ctx.element(0), vec![dim_at(ctx, 0, 0), hidden]);
    Ok(())
}

/// Returns the width of the values over all heads, and the number of new key positions.
fn hidden_and_keys(ctx: &Infer<'_>, packed: u64) -> (Dim, Dim) {
    let own = || (last_dim(ctx, 0).div(&Dim::Known(packed)), dim_at(ctx, 0, 1));
    match (ctx.rank(0), ctx.rank(1), ctx.rank(2)) {
        // Queries, keys and values in one operand: [B, S, heads, 3, head].
        (Some(5), _, _) => (dim_at(ctx, 0, 2).mul(&dim_at(ctx, 0, 4)), dim_at(ctx, 0, 1)),
        // Keys and values in one operand: [B, T, heads, 2, head].
        (_, Some(5), _) => (last_dim(ctx, 0), dim_at(ctx, 1, 1)),
        // Keys and values of another sequence, heads first: [B, heads, T, head].
        (_, _, Some(4)) => (dim_at(ctx, 2, 1).mul(&dim_at(ctx, 2, 3)), dim_at(ctx, 2, 2)),
        _ if !ctx.has(1) && !ctx.has(2) => own(),
        _ => (last_dim(ctx, 2), dim_at(ctx, 1, 1)),
    }
}

fn set_many_heads(
    ctx: &mut Infer<'_>,
    (past_key, past_value): (usize, usize),
    packed: u64,
    shared: bool,
) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let (batch, positions) = (dim_at(ctx, 0, 0), dim_at(ctx, 0, 1));
    let (hidden, keys) = hidden_and_keys(ctx, packed);
    let heads = extent_attribute(ctx, "num_heads");
    let key_width =
        if ctx.rank(0) == Some(3) { last_dim(ctx, 0).div(&Dim::Known(packed)) } else { hidden.clone() };
    let all = total(ctx, past_key, 2, &keys, shared);
    let cache = |width: &Dim, past: usize| {
        vec![batch.clone(), heads.clone(), total(ctx, past, 2, &keys, shared), width.div(&heads)]
    };
    let (key_cache, value_cache) = (cache(&key_width, past_key), cache(&hidden, past_value));
    ctx.set_dims(0, element, vec![batch.clone(), positions.clone(), hidden]);
    ctx.set_dims(1, element, key_cache);
    ctx.set_dims(2, element, value_cache);
    ctx.set_dims(3, element, vec![batch, heads, positions, all]);
    Ok(())
}

fn many_heads(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shared = ctx.has(8);
    set_many_heads(ctx, (6, 7), 1, shared)
}

fn masked_many_heads(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shared = ctx.int("past_present_share_buffer", 0) != 0;
    let packed = if ctx.has(1) { 1 } else { 3 };
    set_many_heads(ctx, (5, 6), packed, shared)
}

/// Returns the number of query heads, the number of key heads, and the width of one head. The width is
/// that of the queries per head, or that of packed queries, keys and values per head of any kind.
fn head_size(ctx: &Infer<'_>) -> (Dim, Dim, Dim) {
    let (heads, groups) = (extent_attribute(ctx, "num_heads"), extent_attribute(ctx, "kv_num_heads"));
    let parts = if ctx.has(1) { heads.clone() } else { heads.add(&groups).add(&groups) };
    let head = last_dim(ctx, 0).div(&parts);
    (heads, groups, head)
}

fn grouped(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let data = ranked(ctx, 0, 3)?;
    let (heads, groups, head) = head_size(ctx);
    let total = scalar_extent(ctx, 6);
    let filled = match (dim_at(ctx, 3, 2), &total) {
        (_, total) if !ctx.has(3) => total.clone(),
        (Dim::Known(past), Dim::Known(total)) => Dim::Known(past.max(*total)),
        _ => Dim::Unknown,
    };
    let cache = |past: usize| if ctx.has(past) { ctx.element(past) } else { element };
    let (keys, values) = (cache(3), cache(4));
    // A cache of packed numbers has fewer elements than a head; its width is that of the past.
    let width = |past: usize| if ctx.has(past) { last_dim(ctx, past) } else { head.clone() };
    let of = |width: Dim| vec![data[0].clone(), groups.clone(), filled.clone(), width];
    let (key_dims, value_dims) = (of(width(3)), of(width(4)));
    let scores = vec![data[0].clone(), heads.clone(), data[1].clone(), total];
    ctx.set_dims(0, element, vec![data[0].clone(), data[1].clone(), heads.mul(&head)]);
    ctx.set_dims(1, keys, key_dims);
    ctx.set_dims(2, values, value_dims);
    ctx.set_dims(3, element, scores);
    Ok(())
}

/// Infers grouped-head attention whose caches are fixed buffers, passed as operands 3 and 4.
fn grouped_in_buffers(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (heads, _, head) = head_size(ctx);
    let shape = ctx.dims(0).map(|dims| {
        let mut dims = dims.to_vec();
        if let Some(last) = dims.last_mut() {
            *last = heads.mul(&head);
        }
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    ctx.set_like(1, 3);
    ctx.set_like(2, 4);
    Ok(())
}

fn decoder(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    let heads = extent_attribute(ctx, "num_heads");
    let cache = vec![dim_at(ctx, 0, 1), heads.clone(), Dim::Unknown, last_dim(ctx, 0).div(&heads)];
    ctx.set_dims(1, ctx.element(0), cache.clone());
    ctx.set_dims(2, ctx.element(0), cache);
    Ok(())
}

fn linear(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let data = ranked(ctx, 0, 3)?;
    let (queries, groups) = (extent_attribute(ctx, "q_num_heads"), extent_attribute(ctx, "kv_num_heads"));
    let (key, value) = (last_dim(ctx, 1).div(&groups), last_dim(ctx, 2).div(&groups));
    let most = match (queries.known(), groups.known()) {
        (Some(a), Some(b)) => Dim::Known(a.max(b)),
        _ => Dim::Unknown,
    };
    ctx.set_dims(0, ctx.element(0), vec![data[0].clone(), data[1].clone(), most.mul(&value)]);
    if ctx.has(3) {
        ctx.set_like(1, 3);
    } else {
        ctx.set_dims(1, ctx.element(0), vec![data[0].clone(), groups, key, value]);
    }
    Ok(())
}

/// Infers GatedDeltaNet. Operands: queries, keys, values, sums of lengths, decay, update rate, state.
/// Results: values, state, captured updates. The axes of tokens come first; without keys and values,
/// the queries hold all three, and the state has the extents.
fn gated_delta(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let is_packed = !ctx.has(2);
    let own = if is_packed { 1 } else { 2 };
    let query = ctx.shape(0);
    let tokens = query.as_deref().and_then(|dims| dims.split_at_checked(dims.len().checked_sub(own)?));
    let (heads, value_width, width) = match ctx.shape(2).as_deref() {
        Some([.., heads, width]) => (heads.clone(), width.clone(), last_dim(ctx, 0)),
        _ => (dim_at(ctx, 6, 1), dim_at(ctx, 6, 2), dim_at(ctx, 6, 3)),
    };
    // Without sums of lengths, all sequences have equal length, and the state tells how many they are.
    let batch = match (ctx.has(6), tokens) {
        (false, Some(([batch, _], _))) => batch.clone(),
        (false, _) => dim_at(ctx, 3, 0).sub(&Dim::Known(1)),
        (true, _) => dim_at(ctx, 6, 0),
    };
    let result = tokens.map(|(tokens, _)| [tokens, &[heads.clone(), value_width.clone()]].concat());
    ctx.set_tensor(0, ctx.element(0), result);
    // State and updates are in single precision for all element types of queries.
    ctx.set_dims(
        1,
        ElementType::Float,
        vec![batch.clone(), heads.clone(), value_width.clone(), width.clone()],
    );
    let key_heads = match ctx.shape(1).as_deref() {
        Some([.., heads, _]) => heads.clone(),
        _ => Dim::Unknown,
    };
    let update = heads.add(&key_heads.mul(&width)).add(&heads.mul(&value_width));
    ctx.set_dims(
        2,
        ElementType::Float,
        vec![batch, extent(ctx.int("state_update_capacity", 0)).mul(&update)],
    );
    Ok(())
}

fn relative_bias(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_dims(
        0,
        ctx.element(0),
        vec![Dim::Known(1), dim_at(ctx, 0, 1), scalar_extent(ctx, 1), scalar_extent(ctx, 2)],
    );
    Ok(())
}

fn gated_relative_bias(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let batch = if ctx.has(6) { dim_at(ctx, 6, 0) } else { dim_at(ctx, 0, 0) };
    let heads = extent_attribute(ctx, "num_heads");
    ctx.set_dims(0, ctx.element(0), vec![batch, heads, dim_at(ctx, 2, 2), dim_at(ctx, 2, 3)]);
    Ok(())
}

fn rotary_pair(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    ctx.required(3)?;
    ctx.set_like(0, 1);
    ctx.set_like(1, 3);
    Ok(())
}

/// The extents that determine the amount of work.
struct Sizes {
    batch: u64,
    positions: u64,
    keys: u64,
    hidden: u64,
}

impl Sizes {
    /// Reads the extents. The number of key positions is the new positions plus the past, or the longest
    /// cache among the results.
    fn read(typed: &Typed<'_>) -> Option<Self> {
        let result = typed.output_dims(0)?;
        let [batch, positions, hidden] = result.as_slice() else { return None };
        let past = [(3, 2), (4, 3), (6, 2)]
            .iter()
            .filter_map(|(index, axis)| typed.input_dims(*index)?.get(*axis).copied())
            .max();
        let own = typed.input_dims(1).and_then(|dims| (dims.len() == 3).then(|| dims[1]));
        let present = [(1, 2), (1, 3)]
            .iter()
            .filter_map(|(index, axis)| typed.output_dims(*index)?.get(*axis).copied())
            .max();
        let keys = own
            .unwrap_or(*positions)
            .max(*positions)
            .checked_add(past.unwrap_or(0))?
            .max(present.unwrap_or(0));
        Some(Self { batch: *batch, positions: *positions, keys, hidden: *hidden })
    }
    /// Counts two operations each for the scores and for their product with the values.
    fn flops(&self) -> Option<u64> {
        product(&[self.batch, self.positions, self.keys, self.hidden, 4])
    }
}

fn attention_flops(typed: &Typed<'_>) -> Option<u64> {
    Sizes::read(typed)?.flops()
}

/// Counts the attention and the preceding projection of the operand.
fn projected_flops(typed: &Typed<'_>) -> Option<u64> {
    let sizes = Sizes::read(typed)?;
    let projection = product(&[sizes.batch, sizes.positions, typed.input(1)?.elements()?, 2])?;
    sizes.flops()?.checked_add(projection)
}

/// Counts, for each element of the result and each row of the state, a decay and two operations each for
/// reading with the key, the update and reading with the query.
fn gated_delta_flops(typed: &Typed<'_>) -> Option<u64> {
    let width = typed.input_dims(6).or_else(|| typed.output_dims(1)).or_else(|| typed.input_dims(1))?;
    product(&[typed.output_elements()?, *width.last()?, 7])
}

const fn attention(name: &'static str, infer: InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::Flops(attention_flops)).workspace(contrib_workspace::many_heads)
}

const fn projecting(name: &'static str, infer: InferFn) -> OpInfo {
    attention(name, infer)
        .work(Work::Flops(projected_flops))
        .workspace(contrib_workspace::projected_attention)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    projecting("Attention", projected),
    attention("DecoderAttention", decoder),
    attention("DecoderMaskedMultiHeadAttention", masked_many_heads),
    projecting("DecoderMaskedSelfAttention", projected),
    attention("DynamicSparseAttention", grouped_in_buffers).workspace(contrib_workspace::grouped_heads),
    microsoft("GatedDeltaNet", gated_delta).work(Work::Flops(gated_delta_flops)).optional(&[1, 2]),
    microsoft("GatedRelativePositionBias", gated_relative_bias).work(Work::PerElement(8)),
    microsoft("GemmaRotaryEmbedding", rotary_pair).work(Work::PerElement(3)),
    attention("GroupQueryAttention", grouped).workspace(contrib_workspace::grouped_heads),
    attention("LinearAttention", linear),
    attention("LongformerAttention", like_first),
    microsoft("MRotaryEmbedding", like_first).work(Work::PerElement(3)),
    attention("MultiHeadAttention", many_heads),
    projecting("PackedAttention", packed_projected),
    attention("PackedMultiHeadAttention", packed_heads),
    attention("PagedAttention", grouped_in_buffers).workspace(contrib_workspace::grouped_heads),
    projecting("QAttention", quantized).rounds(),
    attention("QOrderedAttention", quantized_ordered).rounds(),
    attention("QOrderedLongformerAttention", like_first).rounds(),
    microsoft("RelativePositionBias", relative_bias).work(Work::PerElement(4)),
    microsoft("RotaryEmbedding", like_first).work(Work::PerElement(3)),
    attention("SparseAttention", grouped_in_buffers).workspace(contrib_workspace::grouped_heads),
    attention("SparsePagedAttention", grouped_in_buffers).workspace(contrib_workspace::grouped_heads),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn projected_attention_divides_its_weight() {
        let plain = case("Attention")
            .input("f32[B,S,256]")
            .input("f32[256,768]")
            .input("f32[768]")
            .int("num_heads", 4);
        assert_eq!(plain.outputs(2).show_all(), "f32[B,S,256]; f32[2,B,4,S,64]");
        let past = case("Attention")
            .input("f32[1,2,8]")
            .input("f32[8,20]")
            .input("")
            .input("")
            .input("f32[2,1,2,5,4]");
        let past = past.int("num_heads", 2).ints("qkv_hidden_sizes", &[8, 8, 4]).outputs(2).show_all();
        assert_eq!(past, "f32[1,2,4]; f32[2,1,2,7,4]");
        let shared = case("Attention")
            .input("f32[1,1,8]")
            .input("f32[8,24]")
            .input("")
            .input("")
            .input("f32[2,1,2,99,4]");
        let shared = shared.int("num_heads", 2).int("past_present_share_buffer", 1).outputs(2).show_all();
        assert_eq!(shared, "f32[1,1,8]; f32[2,1,2,99,4]");
    }

    #[test]
    fn many_heads_take_each_packing() {
        let heads = |operands: &[&str]| {
            let case = operands.iter().fold(case("MultiHeadAttention"), |case, operand| case.input(operand));
            case.int("num_heads", 4).outputs(4).show_all()
        };
        let separate = heads(&["f32[B,S,64]", "f32[B,T,64]", "f32[B,T,32]"]);
        assert_eq!(separate, "f32[B,S,32]; f32[B,4,T,16]; f32[B,4,T,8]; f32[B,4,S,T]");
        assert!(heads(&["f32[2,8,4,3,16]"]).starts_with("f32[2,8,64]; f32[2,4,8,16]"));
        assert!(heads(&["f32[2,8,64]", "f32[2,9,4,2,16]"]).starts_with("f32[2,8,64]; f32[2,4,9,16]"));
        assert!(
            heads(&["f32[2,8,64]", "f32[2,4,9,16]", "f32[2,4,9,16]"])
                .starts_with("f32[2,8,64]; f32[2,4,9,16]")
        );
        let past =
            ["f32[1,1,64]", "f32[1,1,64]", "f32[1,1,64]", "", "", "", "f32[1,4,7,16]", "f32[1,4,7,16]"];
        assert!(heads(&past).starts_with("f32[1,1,64]; f32[1,4,8,16]; f32[1,4,8,16]"));
        assert_eq!(case("MultiHeadAttention").input("f32[*]").show(), "f32[?,?,?]");
    }

    #[test]
    fn grouped_heads_share_keys() {
        let grouped = |operands: &[&str], total: &str| {
            let case = operands.iter().fold(case("GroupQueryAttention"), |case, operand| case.input(operand));
            case.data("i32[1]", total).int("num_heads", 4).int("kv_num_heads", 2).outputs(3).show_all()
        };
        let prompt = ["f32[2,16,256]", "f32[2,16,128]", "f32[2,16,128]", "", "", "i32[2]"];
        assert_eq!(grouped(&prompt, "16"), "f32[2,16,256]; f32[2,2,16,64]; f32[2,2,16,64]");
        let packed = ["f32[2,1,512]", "", "", "f32[2,2,31,64]", "f32[2,2,31,64]", "i32[2]"];
        assert_eq!(grouped(&packed, "32"), "f32[2,1,256]; f32[2,2,32,64]; f32[2,2,32,64]");
        assert_eq!(grouped(&packed, "7"), "f32[2,1,256]; f32[2,2,31,64]; f32[2,2,31,64]");
        assert_eq!(grouped(&packed, "?"), "f32[2,1,256]; f32[2,2,?,64]; f32[2,2,?,64]");
    }

    #[test]
    fn a_gated_delta_net_has_tokens_first() {
        let net = |operands: &[&str]| {
            let case = operands.iter().fold(case("GatedDeltaNet"), |case, operand| case.input(operand));
            case.int("state_update_capacity", 2).outputs(3)
        };
        let ragged = net(&["f16[T,2,16]", "f16[T,2,16]", "f16[T,4,8]", "i32[4]", "f32[T,4]"]);
        assert_eq!(ragged.show_all(), "f16[T,4,8]; f32[3,4,8,16]; f32[3,136]");
        let batch = net(&["f32[B,S,2,16]", "f32[B,S,2,16]", "f32[B,S,4,8]"]);
        assert_eq!(batch.show_all(), "f32[B,S,4,8]; f32[B,4,8,16]; f32[B,136]");
        let packed = net(&["f16[10,96]", "", "", "", "", "", "f32[5,4,8,16]"]);
        assert_eq!(packed.show_all(), "f16[10,4,8]; f32[5,4,8,16]; f32[5,?]");
        assert_eq!(net(&["f16[*]", "", "", ""]).show_all(), "f16[*]; f32[?,?,?,?]; f32[?,?]");
        let whole = net(&["f32[6,2,16]", "f32[6,2,16]", "f32[6,4,8]", "", "", "", "f32[3,4,8,16]"]);
        assert_eq!(whole.costs().0, Some(6 * 4 * 8 * 16 * 7));
    }

    #[test]
    fn hostile_attributes_leave_extents_unknown() {
        let zero = case("Attention")
            .input("f32[1,2,8]")
            .input("f32[8,24]")
            .int("num_heads", 0)
            .outputs(2)
            .show_all();
        assert_eq!(zero, "f32[1,2,8]; f32[2,1,0,2,?]");
        let negative = case("GroupQueryAttention")
            .input("f32[1,2,8]")
            .int("num_heads", i64::MIN)
            .int("kv_num_heads", i64::MAX);
        assert_eq!(negative.show(), "f32[1,2,?]");
    }
}
