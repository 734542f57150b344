//! Normalization with skips, embeddings or gates, of ONNX Runtime's own domain; also the simplified
//! layer normalization that ONNX Runtime puts into the ONNX domain.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{extent_attribute, like_first, microsoft, set_shaped_like, unknown_dims};
use crate::context::{Infer, InferError};
use crate::info::{InferFn, OpInfo, Reads, Scalar, SplitAxes, Work};
use crate::pieces::rules;

/// Returns the shape of operand 0 with the extents from `axis` on replaced by 1: one number per
/// normalized row.
fn per_row(ctx: &Infer<'_>, axis: i64) -> Result<Option<Vec<Dim>>, InferError> {
    let Some(mut dims) = ctx.shape(0) else { return Ok(None) };
    let axis = ctx.axis("axis", axis, dims.len())?;
    dims[axis..].fill(Dim::Known(1));
    Ok(Some(dims))
}

/// Returns the element type of the statistics.
fn statistics(ctx: &Infer<'_>) -> ElementType {
    let stated = ctx.int_attribute("stash_type").and_then(|number| i32::try_from(number).ok());
    stated.map_or(ElementType::Float, ElementType::from_onnx)
}

/// Infers root mean square normalization: the result and, for training, the inverse deviation of each
/// row.
fn simplified(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    let rows = per_row(ctx, ctx.int("axis", -1))?;
    ctx.set_tensor(1, statistics(ctx), rows);
    Ok(())
}

/// Infers a layer normalization with a skip input. Results: the normalized tensor, mean and inverse
/// deviation of each row, and the sum before normalization.
fn skip_layer(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    let rows = per_row(ctx, -1)?;
    ctx.set_tensor(1, ElementType::Float, rows.clone());
    ctx.set_tensor(2, ElementType::Float, rows);
    ctx.set_like(3, 0);
    Ok(())
}

fn skip_group(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    ctx.set_like(1, 0);
    Ok(())
}

/// Infers a normalized embedding lookup: `[B, S, hidden]`, the number of valid words per sequence, and
/// the sum before normalization.
fn set_embedding(ctx: &mut Infer<'_>, element: ElementType) -> Result<(), InferError> {
    ctx.required(0)?;
    let table = ctx.dims(2).and_then(<[Dim]>::last).cloned().unwrap_or(Dim::Unknown);
    let mut dims = ctx.shape(0).filter(|dims| dims.len() == 2).unwrap_or_else(|| unknown_dims(2));
    let batch = dims[0].clone();
    dims.push(table);
    ctx.set_dims(0, element, dims.clone());
    ctx.set_dims(1, ElementType::Int32, vec![batch]);
    ctx.set_dims(2, element, dims);
    Ok(())
}

fn embedding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_embedding(ctx, ctx.element(2))
}

fn quantized_embedding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_embedding(ctx, ctx.element(8))
}

fn gated_pair(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    ctx.set_like(1, 0);
    Ok(())
}

/// Infers a gate: the decay in full precision, and the update rate like operand 3.
fn decay_gate(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    set_shaped_like(ctx, 0, element, 0);
    ctx.set_like(1, 3);
    Ok(())
}

/// Infers the reduction of parallel streams to one stream: the branches of the last axis are merged.
fn mixed_down(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let branches = extent_attribute(ctx, "num_branches");
    let shape = ctx.shape(0).map(|mut dims| {
        let last = dims.pop().unwrap_or(Dim::Unknown);
        if matches!(branches, Dim::Known(count) if count > 0) {
            dims.push(last.div(&branches));
        } else {
            dims.pop();
            dims.push(last);
        }
        dims
    });
    ctx.set_tensor(0, element, shape);
    Ok(())
}

const fn normalization(name: &'static str, infer: InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::PerElement(8)).split(SplitAxes::AllButLast)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    normalization("BranchwiseRMSNorm", like_first).split(SplitAxes::Batch),
    normalization("EmbedLayerNormalization", embedding)
        .reads(Reads::Picked(&[2, 3, 4]))
        .split(SplitAxes::None),
    normalization("EngramGate", gated_pair).split(SplitAxes::Batch),
    normalization("GatedRMSNorm", like_first),
    normalization("GroupNorm", like_first).split(SplitAxes::Batch),
    normalization("HyperConnectionPostMix", like_first).split(SplitAxes::Batch),
    normalization("HyperConnectionPreMix", mixed_down).split(SplitAxes::Batch),
    microsoft("LinearAttentionGate", decay_gate).work(Work::PerElement(12)).split(SplitAxes::AllButLast),
    normalization("QEmbedLayerNormalization", quantized_embedding)
        .rounds()
        .reads(Reads::Picked(&[2, 3, 4]))
        .split(SplitAxes::None),
    normalization("QOrderedLayerNormalization", like_first).rounds(),
    OpInfo::onnx("SimplifiedLayerNormalization", simplified)
        .work(Work::PerElement(5))
        .split(SplitAxes::Rule(rules::layer_normalized)),
    normalization("SimplifiedLayerNormalization", simplified).split(SplitAxes::None),
    normalization("SkipGroupNorm", skip_group).split(SplitAxes::Batch),
    // Sums and squares go through one register each: 4.1 and 0.7 ns per element in ONNX Runtime 1.31,
    // compared with 0.4 ns of the vectorized parts.
    normalization("SkipLayerNormalization", skip_layer)
        .scalar(Scalar::PerElement(13))
        .split(SplitAxes::Rule(rules::skip_normalized)),
    normalization("SkipSimplifiedLayerNormalization", skip_layer)
        .scalar(Scalar::PerElement(2))
        .split(SplitAxes::Rule(rules::skip_normalized)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn normalizations_return_statistics_of_rows() {
        let skip = case("SkipLayerNormalization")
            .input("f16[B,S,768]")
            .input("f16[B,S,768]")
            .input("f16[768]")
            .outputs(4);
        assert_eq!(skip.show_all(), "f16[B,S,768]; f32[B,S,1]; f32[B,S,1]; f16[B,S,768]");
        let simplified = Case::new("SimplifiedLayerNormalization", 17).input("f16[2,3,4]").input("f16[3,4]");
        assert_eq!(
            simplified.int("axis", 1).int("stash_type", 1).outputs(2).show_all(),
            "f16[2,3,4]; f32[2,1,1]"
        );
        let scalar = Case::new("SimplifiedLayerNormalization", 17).input("f32[]").input("f32[]").show();
        assert_eq!(scalar, "error: attribute `axis`: -1 is out of range for rank 0");
        let wide = Case::new("SimplifiedLayerNormalization", 17)
            .input("f32[2]")
            .input("f32[2]")
            .int("axis", i64::MIN);
        assert!(wide.show().starts_with("error: attribute `axis`"));
    }

    #[test]
    fn embeddings_take_their_width_from_the_table() {
        let embedding =
            case("EmbedLayerNormalization").input("i32[B,S]").input("").input("f32[30522,768]").outputs(3);
        assert_eq!(embedding.show_all(), "f32[B,S,768]; i32[B]; f32[B,S,768]");
    }

    #[test]
    fn mixing_removes_the_branch_axis() {
        assert_eq!(case("HyperConnectionPreMix").input("f32[B,4,64]").input("f32[B,4]").show(), "f32[B,64]");
        let flat = case("HyperConnectionPreMix").input("f32[B,256]").input("f32[B,4]").int("num_branches", 4);
        assert_eq!(flat.show(), "f32[B,64]");
        assert_eq!(case("HyperConnectionPreMix").input("f32[]").show(), "f32[?]");
    }
}
