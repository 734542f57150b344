//! Attention and related operators: rotary embeddings, linear attention, gated activations.

use memc_ir::{Dim, ElementType, TensorType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::Fact;
use crate::families::activation::same_as_first;
use crate::families::dims::{agree, dim_at, element_attribute, require_rank, share};
use crate::info::{OpInfo, SplitAxes, Typed, Work};
use crate::size::{Counted, Size};

/// Extents of one attention: batch, heads and lengths of queries and keys, and widths of one head.
struct Heads {
    batch: Dim,
    query_heads: Dim,
    key_heads: Dim,
    queries: Dim,
    keys: Dim,
    width: Dim,
    value_width: Dim,
}

fn stated_heads(ctx: &Infer<'_>, name: &'static str) -> Result<i64, InferError> {
    match ctx.int_attribute(name) {
        Some(count) if count > 0 => Ok(count),
        Some(count) => Err(InferError::BadAttribute { name, why: format!("{count} is below 1") }),
        None => Err(InferError::MissingAttribute { name }),
    }
}

impl Heads {
    /// Reads operands Q, K, V of rank 4 (`[batch, heads, length, width]`), or of rank 3 with head counts
    /// as attributes (`[batch, length, heads * width]`).
    fn read(ctx: &Infer<'_>, rank: usize) -> Result<Self, InferError> {
        for operand in 0..3 {
            require_rank(ctx, operand, rank)?;
        }
        let at = |operand, axis| dim_at(ctx, operand, axis);
        let batch = agree("batches", &agree("batches", &at(0, 0), &at(1, 0))?, &at(2, 0))?;
        if rank == 4 {
            return Ok(Self {
                batch,
                query_heads: at(0, 1),
                key_heads: agree("heads of keys and values", &at(1, 1), &at(2, 1))?,
                queries: at(0, 2),
                keys: agree("lengths of keys and values", &at(1, 2), &at(2, 2))?,
                width: agree("widths of queries and keys", &at(0, 3), &at(1, 3))?,
                value_width: at(2, 3),
            });
        }
        let (query_heads, key_heads) =
            (stated_heads(ctx, "q_num_heads")?, stated_heads(ctx, "kv_num_heads")?);
        let width = share("heads of the queries", &at(0, 2), query_heads)?;
        Ok(Self {
            batch,
            query_heads: Dim::Known(query_heads.unsigned_abs()),
            key_heads: Dim::Known(key_heads.unsigned_abs()),
            queries: at(0, 1),
            keys: agree("lengths of keys and values", &at(1, 1), &at(2, 1))?,
            width: agree(
                "widths of queries and keys",
                &width,
                &share("heads of the keys", &at(1, 2), key_heads)?,
            )?,
            value_width: share("heads of the values", &at(2, 2), key_heads)?,
        })
    }
    fn scores(&self, total: Dim) -> Vec<Dim> {
        vec![self.batch.clone(), self.query_heads.clone(), self.queries.clone(), total]
    }
}

/// Infers Attention. Operands: Q, K, V, mask, past key, past value, valid lengths. Results: Y, present
/// key, present value, scores.
fn attention(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for operand in 0..3 {
        ctx.required(operand)?;
    }
    let (element, value_element) = (ctx.element(0), ctx.element(2));
    let rank = ctx.rank(0).or(ctx.rank(1)).or(ctx.rank(2));
    let rank = match rank {
        Some(rank @ (3 | 4)) => rank,
        Some(rank) => {
            return Err(InferError::BadOperand {
                operand: 0,
                why: format!("rank {rank} is neither 3 nor 4"),
            });
        }
        None => {
            for (result, element) in [element, element, value_element, element].into_iter().enumerate() {
                ctx.set_tensor(result, element, None);
            }
            return Ok(());
        }
    };
    let heads = Heads::read(ctx, rank)?;
    let past = match ctx.has(4) {
        true => agree("lengths of past keys and values", &dim_at(ctx, 4, 2), &dim_at(ctx, 5, 2))?,
        false => Dim::Known(0),
    };
    let total = heads.keys.add(&past);
    let result = match rank {
        4 => vec![
            heads.batch.clone(),
            heads.query_heads.clone(),
            heads.queries.clone(),
            heads.value_width.clone(),
        ],
        _ => vec![heads.batch.clone(), heads.queries.clone(), heads.query_heads.mul(&heads.value_width)],
    };
    let present =
        |width: &Dim| vec![heads.batch.clone(), heads.key_heads.clone(), total.clone(), width.clone()];
    ctx.set_dims(0, element, result);
    ctx.set_dims(1, element, present(&heads.width));
    ctx.set_dims(2, value_element, present(&heads.value_width));
    ctx.set_dims(3, element, heads.scores(total));
    Ok(())
}

/// Infers FlexAttention. Its bodies change scores and probabilities, which keep their type.
fn flex_attention(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for operand in 0..3 {
        ctx.required(operand)?;
    }
    let heads = Heads::read(ctx, 4)?;
    let default =
        if ctx.element(0) == ElementType::Double { ElementType::Double } else { ElementType::Float };
    let precision = element_attribute(ctx, "softmax_precision")?.unwrap_or(default);
    let scores = Fact::tensor(TensorType::new(precision, heads.scores(heads.keys.clone())));
    for name in ["score_mod", "prob_mod"] {
        if let Some(body) = ctx.body(name) {
            ctx.infer_body(body, std::slice::from_ref(&scores))?;
        }
    }
    ctx.set_dims(0, ctx.element(0), vec![heads.batch, heads.query_heads, heads.queries, heads.value_width]);
    Ok(())
}

/// Infers LinearAttention. Operands: packed queries, keys, values, past state, decay, update rate.
/// Results: packed values, state.
fn linear_attention(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for operand in 0..3 {
        ctx.required(operand)?;
    }
    let heads = Heads::read(ctx, 3)?;
    let element = ctx.element(0);
    let state_element = if ctx.has(3) { ctx.element(3) } else { element };
    ctx.set_dims(
        0,
        element,
        vec![heads.batch.clone(), heads.queries, heads.query_heads.mul(&heads.value_width)],
    );
    ctx.set_dims(1, state_element, vec![heads.batch, heads.key_heads, heads.width, heads.value_width]);
    Ok(())
}

/// Infers SwiGLU. Operands: gate and value, of equal shape.
fn swiglu(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let shape = match (ctx.dims(0), ctx.dims(1)) {
        (Some(gate), Some(value)) if gate.len() == value.len() => {
            let pairs = gate.iter().zip(value);
            Some(
                pairs
                    .map(|(gate, value)| agree("gate and value", gate, value))
                    .collect::<Result<Vec<_>, _>>()?,
            )
        }
        (Some(gate), Some(value)) => {
            let (left, right) = (gate.len().to_string(), value.len().to_string());
            return Err(InferError::Mismatch { what: "ranks of gate and value", left, right });
        }
        (gate, value) => gate.or(value).map(<[Dim]>::to_vec),
    };
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Returns the number of query heads over the batch, rows of scores, columns of scores, and the widths
/// of a key head and of a value head.
fn score_extents(node: &Counted<'_>) -> Option<[Size; 5]> {
    let [query, key, value] = [0, 1, 2].map(|operand| node.dims(node.input(operand)));
    let (query, key, value) = (query?, key?, value?);
    let past = if node.has(4) { node.extent(node.input(4), 2) } else { Size::from(0) };
    let (batch_heads, rows, keys, width, value_width) =
        match (query.as_slice(), key.as_slice(), value.as_slice()) {
            ([batch, heads, rows, width], [_, _, keys, _], [.., value_width]) => {
                (batch * heads, rows, keys, width.clone(), value_width.clone())
            }
            ([batch, rows, packed], [_, keys, _], [.., packed_value]) => {
                let count =
                    |name: &str| u64::try_from(node.data().int(name, 0)).ok().filter(|heads| *heads > 0);
                let (heads, key_heads) = (count("q_num_heads")?, count("kv_num_heads")?);
                (batch * heads, rows, keys, packed.floor_div(heads), packed_value.floor_div(key_heads))
            }
            _ => return None,
        };
    Some([batch_heads, rows.clone(), keys + past, width, value_width])
}

/// Counts two products, and about 24 operations per score for its softmax.
fn attention_flops(node: &Typed<'_>) -> Option<u64> {
    let [heads, rows, columns, width, value_width] = score_extents(&Counted::in_numbers(node))?;
    (heads * rows * columns * ((width + value_width) * 2 + 24)).known()
}

/// Returns the bytes of the scores of all heads. If the scores are a result, the workspace is a copy of
/// them.
fn attention_workspace(node: &Counted<'_>) -> Option<Size> {
    let [heads, rows, columns, ..] = score_extents(node)?;
    Some(heads * rows * columns * Size::width(node.input(0)))
}

/// Counts two products per head and step: each step updates and reads a state of `width` by
/// `value_width`.
fn linear_attention_flops(node: &Typed<'_>) -> Option<u64> {
    let [heads, rows, _, width, value_width] = score_extents(&Counted::in_numbers(node))?;
    (heads * rows * width * value_width * 4).known()
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Attention", attention)
        .work(Work::Flops(attention_flops))
        .workspace(attention_workspace)
        .split(SplitAxes::Batch),
    OpInfo::of("ai.onnx.preview", "FlexAttention", flex_attention)
        .work(Work::Flops(attention_flops))
        .workspace(attention_workspace),
    OpInfo::onnx("LinearAttention", linear_attention).work(Work::Flops(linear_attention_flops)),
    OpInfo::onnx("RotaryEmbedding", same_as_first).work(Work::PerElement(3)),
    OpInfo::onnx("SwiGLU", swiglu)
        .algebra(Algebra::KEEPS_ZERO)
        .work(Work::PerElement(12))
        .split(SplitAxes::All),
];

#[cfg(test)]
mod tests {
    use memc_ir::Bytes;

    use crate::families::testing::Case;

    #[test]
    fn attention_of_rank_4_and_3() {
        let case = Case::new("Attention", 24)
            .input("f32[B,8,Q,64]")
            .input("f32[B,2,K,64]")
            .input("f16[B,2,K,32]")
            .input("");
        let case = case.input("f32[B,2,P,64]").input("f16[B,2,P,32]").outputs(4);
        assert_eq!(case.show_all(), "f32[B,8,Q,32]; f32[B,2,P+K,64]; f16[B,2,P+K,32]; f32[B,8,Q,P+K]");
        let packed = |q: &str| {
            Case::new("Attention", 23)
                .input(q)
                .input("f32[B,K,128]")
                .input("f32[B,K,64]")
                .int("q_num_heads", 8)
        };
        assert_eq!(packed("f32[B,Q,512]").int("kv_num_heads", 2).show(), "f32[B,Q,256]");
        assert!(packed("f32[B,Q,513]").int("kv_num_heads", 2).show().starts_with("error: heads"));
        assert_eq!(packed("f32[B,Q,512]").show(), "error: attribute `kv_num_heads` is missing");
        assert!(packed("f32[B,Q]").show().starts_with("error: operand 0"));
    }

    #[test]
    fn linear_flex_and_rotary_operators() {
        let linear = Case::new("LinearAttention", 27)
            .input("f32[B,T,8]")
            .input("f32[B,T,8]")
            .input("f32[B,T,12]")
            .outputs(2);
        assert_eq!(
            linear.int("q_num_heads", 2).int("kv_num_heads", 2).show_all(),
            "f32[B,T,12]; f32[B,2,4,6]"
        );
        let flex = Case::of("ai.onnx.preview", "FlexAttention", 1)
            .input("f32[1,4,5,6]")
            .input("f32[1,2,7,6]")
            .input("f32[1,2,7,8]");
        assert_eq!(flex.show(), "f32[1,4,5,8]");
        assert_eq!(Case::new("SwiGLU", 28).input("f32[N,?]").input("f32[?,4]").show(), "f32[N,4]");
        assert!(
            Case::new("SwiGLU", 28).input("f32[N,3]").input("f32[N,4]").show().starts_with("error: gate")
        );
        assert_eq!(Case::new("RotaryEmbedding", 23).input("f32[B,8,S,64]").show(), "f32[B,8,S,64]");
    }

    #[test]
    fn arithmetic_and_workspace_count_the_scores() {
        let case = |wanted: usize| {
            Case::new("Attention", 23)
                .input("f32[1,2,3,4]")
                .input("f32[1,2,5,4]")
                .input("f32[1,2,5,6]")
                .outputs(wanted)
        };
        assert_eq!(case(1).costs(), (Some(2 * 3 * 5 * (2 * (4 + 6) + 24)), Some(Bytes(2 * 3 * 5 * 4))));
        assert_eq!(case(4).costs().1, Some(Bytes(2 * 3 * 5 * 4)));
    }
}
