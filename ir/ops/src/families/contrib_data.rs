//! Data movement, indexing, hashing and spectra of ONNX Runtime's own domain.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{extent, extent_attribute, like_second, microsoft, unknown_dims};
use super::dims::dim_at;
use crate::algebra::Algebra;
use crate::context::{Infer, InferError, broadcast, normalize_axis};
use crate::info::{OpInfo, Reads, SplitAxes, Work};

/// Infers ExpandDims: operand 0 with an axis of extent 1 inserted at the position in operand 1.
fn expand_dims(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let shape = match (ctx.shape(0), ctx.int_scalar(1)) {
        (Some(mut dims), Some(axis)) => {
            let rank = dims.len() + 1;
            let at = normalize_axis(axis, rank).ok_or_else(|| InferError::BadOperand {
                operand: 1,
                why: format!("{axis} is out of range for rank {rank}"),
            })?;
            dims.insert(at, Dim::Known(1));
            Some(dims)
        }
        (Some(dims), None) => Some(unknown_dims(dims.len() + 1)),
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers GatherND: the leading extents of the indices, then the extents of the data that an index does
/// not cover.
fn gather_nd(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let batch = usize::try_from(ctx.int("batch_dims", 0)).unwrap_or(usize::MAX);
    let shape = match (ctx.shape(0), ctx.shape(1)) {
        (Some(data), Some(mut indices)) => match indices.pop().as_ref().and_then(Dim::known) {
            Some(depth) => {
                let depth = usize::try_from(depth).ok().and_then(|depth| depth.checked_add(batch));
                let rest =
                    depth.and_then(|depth| data.get(depth..)).ok_or_else(|| InferError::BadOperand {
                        operand: 1,
                        why: format!("an index is longer than rank {}", data.len()),
                    })?;
                indices.extend_from_slice(rest);
                Some(indices)
            }
            None => None,
        },
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers Range: a vector from start to limit. Its length is known if all three operands are known
/// integers.
fn range(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let delta = if ctx.has(2) { ctx.int_scalar(2) } else { Some(1) };
    let span = ctx.int_scalar(0).zip(ctx.int_scalar(1)).zip(delta).and_then(|((start, limit), delta)| {
        let span = i128::from(limit) - i128::from(start);
        let delta = i128::from(delta);
        // Round up towards the limit; the vector is empty if the step leads away from the limit.
        let count = if delta == 0 { return None } else { (span + delta - delta.signum()) / delta };
        u64::try_from(count.max(0)).ok()
    });
    ctx.set_dims(0, ctx.element(0), vec![span.map_or(Dim::Unknown, Dim::Known)]);
    Ok(())
}

/// Infers Pad: operand 0 grows by the pads in operand 1, first all leading pads, then all trailing pads.
fn pad(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let rank = dims.len();
    let grown = match ctx.int_data(1).filter(|pads| pads.len() == rank * 2) {
        Some(pads) => {
            dims.iter().enumerate().map(|(axis, dim)| padded(dim, pads[axis], pads[axis + rank])).collect()
        }
        None => unknown_dims(rank),
    };
    ctx.set_dims(0, element, grown);
    Ok(())
}

fn padded(dim: &Dim, before: i64, after: i64) -> Dim {
    let Some(sum) = before.checked_add(after) else { return Dim::Unknown };
    let amount = Dim::Known(sum.unsigned_abs());
    if sum < 0 { dim.sub(&amount) } else { dim.add(&amount) }
}

/// Infers Unique: the distinct values, the index of its value for each element, and the number of
/// occurrences of each value.
fn unique(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let count = dim_at(ctx, 0, 0);
    ctx.set_dims(0, ctx.element(0), vec![Dim::Unknown]);
    ctx.set_dims(1, ElementType::Int64, vec![count]);
    ctx.set_dims(2, ElementType::Int64, vec![Dim::Unknown]);
    Ok(())
}

/// Infers Tokenizer: strings are cut into words along a new last axis, as long as the longest list of
/// words.
fn tokenizer(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0).map(|mut dims| {
        dims.push(Dim::Unknown);
        dims
    });
    ctx.set_tensor(0, ElementType::String, shape);
    Ok(())
}

fn hash(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = if ctx.int("positive", 1) == 0 { ElementType::Int32 } else { ElementType::Uint32 };
    let shape = ctx.shape(0);
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers an embedding lookup: the shape of the indices, followed by the width of the table.
fn embedding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let width = dim_at(ctx, 0, 1);
    let shape = ctx.shape(1).map(|mut dims| {
        dims.push(width);
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Infers WordConvEmbedding: the characters of each word are convolved to one vector per word.
fn word_embedding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let width = match extent_attribute(ctx, "embedding_size") {
        Dim::Unknown => dim_at(ctx, 1, 0),
        stated => stated,
    };
    ctx.set_dims(0, ctx.element(1), vec![dim_at(ctx, 0, 0), dim_at(ctx, 0, 1), width]);
    Ok(())
}

/// Infers UnfoldTensor: overlapping windows along one axis become a new last axis.
fn unfold(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let (size, step) = (extent_attribute(ctx, "size"), ctx.int("step", 1));
    let shape = match ctx.shape(0) {
        Some(mut dims) => {
            let axis = ctx.axis("dim", ctx.int("dim", -1), dims.len())?;
            let step = u64::try_from(step).unwrap_or(0);
            let count = match (dims[axis].known().zip(size.known()), step) {
                (Some((extent, size)), 1..) => extent.checked_sub(size).map(|room| room / step + 1),
                _ => None,
            };
            dims[axis] = count.map_or(Dim::Unknown, Dim::Known);
            dims.push(size);
            Some(dims)
        }
        None => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers a one-sided spectrum: the last axis becomes `n / 2 + 1` pairs.
fn spectrum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0).map(|mut dims| {
        if let Some(last) = dims.last_mut() {
            *last = last.div(&Dim::Known(2)).add(&Dim::Known(1));
        }
        dims.push(Dim::Known(2));
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Infers the inverse of a one-sided spectrum: `n` pairs become `2 (n - 1)` numbers.
fn signal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0).map(|mut dims| {
        dims.pop();
        if let Some(last) = dims.last_mut() {
            *last = last.sub(&Dim::Known(1)).mul(&Dim::Known(2));
        }
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn complex_product(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let shape = match (ctx.dims(0), ctx.dims(1)) {
        (Some(left), Some(right)) => Some(broadcast(left, right)?),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn all_finite(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.set_dims(0, ElementType::Bool, Vec::new());
    Ok(())
}

/// Infers RemovePadding: concatenated tokens, the original position of each token, cumulative lengths,
/// and the maximum length.
fn remove_padding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (batch, positions, hidden) = (dim_at(ctx, 0, 0), dim_at(ctx, 0, 1), dim_at(ctx, 0, 2));
    let tokens = ctx.int_data(1).and_then(|counts| {
        let sum = counts.iter().try_fold(0i64, |sum, count| sum.checked_add(*count))?;
        u64::try_from(sum).ok()
    });
    let tokens = tokens.map_or(Dim::Unknown, Dim::Known);
    ctx.set_dims(0, ctx.element(0), vec![tokens, hidden]);
    ctx.set_dims(1, ElementType::Int32, vec![batch.clone(), positions]);
    ctx.set_dims(2, ElementType::Int32, vec![batch.add(&Dim::Known(1))]);
    ctx.set_dims(3, ElementType::Int32, vec![Dim::Known(1)]);
    Ok(())
}

fn restore_padding(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_dims(0, ctx.element(0), vec![dim_at(ctx, 1, 0), dim_at(ctx, 1, 1), dim_at(ctx, 0, 1)]);
    Ok(())
}

/// Infers DynamicTimeWarping: a path through a cost matrix, whose length depends on the costs.
fn time_warping(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_dims(0, ElementType::Int32, vec![Dim::Known(2), Dim::Unknown]);
    Ok(())
}

fn bifurcation(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    ctx.set_dims(0, ctx.element(1), vec![Dim::Unknown]);
    ctx.set_like(1, 2);
    Ok(())
}

/// Returns the history length and the number of hashes per token: one hash for each n-gram length above
/// 1 and each head.
fn hash_heads(ctx: &Infer<'_>) -> (Dim, Dim) {
    let history = extent_attribute(ctx, "max_ngram_size").sub(&Dim::Known(1));
    let heads = history.mul(&extent_attribute(ctx, "n_head_per_ngram"));
    (history, heads)
}

fn ngram_hash(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (history, heads) = hash_heads(ctx);
    let batch = dim_at(ctx, 0, 0);
    ctx.set_dims(0, ctx.element(0), vec![batch.clone(), dim_at(ctx, 0, 1), heads]);
    ctx.set_dims(1, ctx.element(0), vec![batch, history]);
    Ok(())
}

fn ngram_hash_packed(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (history, heads) = hash_heads(ctx);
    let batch = dim_at(ctx, 3, 0).sub(&Dim::Known(1));
    let capacity = extent(ctx.int("state_update_capacity", 0));
    ctx.set_dims(0, ctx.element(0), vec![dim_at(ctx, 0, 0), heads]);
    ctx.set_dims(1, ctx.element(0), vec![batch.clone(), history.clone()]);
    ctx.set_dims(2, ElementType::Int32, vec![batch.clone(), history.clone()]);
    ctx.set_dims(3, ctx.element(0), vec![batch, capacity, history]);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    microsoft("BifurcationDetector", bifurcation),
    microsoft("ComplexMul", complex_product).work(Work::PerElement(3)),
    microsoft("ComplexMulConj", complex_product).work(Work::PerElement(3)),
    microsoft("DynamicTimeWarping", time_warping).work(Work::PerInputElement(4)),
    microsoft("ExpandDims", expand_dims).work(Work::None),
    microsoft("GatherND", gather_nd).work(Work::None).reads(Reads::Picked(&[0])),
    microsoft("Irfft", signal).work(Work::PerElement(40)),
    microsoft("IsAllFinite", all_finite).work(Work::PerInputElement(1)),
    microsoft("MurmurHash3", hash).algebra(Algebra::NONE).work(Work::PerElement(20)).split(SplitAxes::All),
    microsoft("NGramHashMapping", ngram_hash).work(Work::PerElement(8)),
    microsoft("NGramRepeatBlock", like_second).work(Work::PerElement(1)),
    microsoft("Pad", pad).work(Work::None),
    microsoft("Range", range),
    microsoft("RemovePadding", remove_padding).work(Work::None),
    microsoft("RestorePadding", restore_padding).work(Work::None),
    microsoft("Rfft", spectrum).work(Work::PerElement(40)),
    microsoft("Tokenizer", tokenizer).work(Work::PerInputElement(100)),
    microsoft("TorchEmbedding", embedding).work(Work::None),
    microsoft("UnfoldTensor", unfold).work(Work::None),
    microsoft("Unique", unique).work(Work::PerInputElement(10)),
    microsoft("VarlenNGramHashMapping", ngram_hash_packed).work(Work::PerElement(8)),
    microsoft("WordConvEmbedding", word_embedding).work(Work::PerElement(100)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn expansion_unfolding_and_fourier_shapes() {
        assert_eq!(case("ExpandDims").input("f32[2,N]").data("i32[]", "-1").show(), "f32[2,N,1]");
        assert_eq!(case("ExpandDims").input("f32[2,N]").input("i32[]").show(), "f32[?,?,?]");
        assert!(case("ExpandDims").input("f32[2]").data("i32[]", "9").show().starts_with("error: operand 1"));
        assert_eq!(
            case("UnfoldTensor").input("f32[2,10]").int("dim", 1).int("size", 4).int("step", 3).show(),
            "f32[2,3,4]"
        );
        assert_eq!(
            case("UnfoldTensor").input("f32[2,10]").int("size", 4).int("step", 0).show(),
            "f32[2,?,4]"
        );
        assert_eq!(case("Rfft").input("f32[N,16]").show(), "f32[N,9,2]");
        assert_eq!(case("Irfft").input("f32[N,9,2]").show(), "f32[N,16]");
        assert_eq!(case("Irfft").input("f32[]").show(), "f32[]");
    }

    #[test]
    fn indexing_keeps_the_other_axes() {
        assert_eq!(case("GatherND").input("f32[2,3,4]").input("i64[N,2]").show(), "f32[N,4]");
        assert!(case("GatherND").input("f32[2]").input("i64[N,2]").show().starts_with("error: operand 1"));
        assert!(
            case("GatherND")
                .input("f32[2]")
                .input("i64[2]")
                .int("batch_dims", -1)
                .show()
                .starts_with("error: operand 1")
        );
        assert_eq!(case("TorchEmbedding").input("f32[100,64]").input("i64[B,S]").show(), "f32[B,S,64]");
    }

    #[test]
    fn ranges_and_pads_count() {
        let range = |items: [&str; 3]| {
            items.iter().fold(case("Range"), |case, item| case.data("i64[1]", item)).show()
        };
        assert_eq!(range(["2", "9", "3"]), "i64[3]");
        assert_eq!(range(["9", "2", "-3"]), "i64[3]");
        assert_eq!(range(["9", "2", "3"]), "i64[0]");
        assert_eq!(range(["9", "2", "0"]), "i64[?]");
        assert_eq!(range(["-9223372036854775808", "9223372036854775807", "1"]), "i64[18446744073709551615]");
        assert_eq!(case("Pad").input("f32[2,N]").ints_data(&[1, 0, 1, 5]).show(), "f32[4,N+5]");
        assert_eq!(case("Pad").input("f32[2,N]").ints_data(&[-3, 0, 0, i64::MIN]).show(), "f32[?,?]");
    }

    #[test]
    fn token_and_padding_shapes() {
        assert_eq!(case("Tokenizer").input("string[2,3]").show(), "string[2,3,?]");
        let padding = case("RemovePadding").input("f32[2,4,8]").data("i32[2]", "3,1").outputs(4).show_all();
        assert_eq!(padding, "f32[4,8]; i32[2,4]; i32[3]; i32[1]");
        assert_eq!(case("RestorePadding").input("f32[4,8]").input("i32[2,4]").show(), "f32[2,4,8]");
        let hash = case("NGramHashMapping")
            .input("i64[B,S]")
            .int("max_ngram_size", 3)
            .int("n_head_per_ngram", 4)
            .outputs(2);
        assert_eq!(hash.show_all(), "i64[B,S,8]; i64[B,2]");
        assert_eq!(case("Unique").input("f32[N]").outputs(3).show_all(), "f32[?]; i64[N]; i64[?]");
    }
}
