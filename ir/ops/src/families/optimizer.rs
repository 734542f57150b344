//! Optimizers, accumulators, loss scaling, training-time splits and communication of ONNX Runtime's
//! training.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{extent, like_first, microsoft, set_shaped_like};
use super::dims::{agree, element_attribute};
use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::info::{OpInfo, Repeat, SplitAxes, Work};

/// Gives result `i` the type of operand `of[i]`; the types of results for omitted operands stay unknown.
fn updates(ctx: &mut Infer<'_>, of: &[usize]) {
    for (result, operand) in of.iter().enumerate() {
        ctx.set_like(result, *operand);
    }
}

/// Infers AdamOptimizer. Results: count, both moments, weights, gradients, weights in mixed precision.
fn adam(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(5)?;
    updates(ctx, &[1, 4, 5, 2, 3, 6]);
    Ok(())
}

/// Infers AdamWOptimizer. Results: a flag of the count's type, then sequences of weights and of both
/// moments.
fn adam_of_sequences(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(5)?;
    ctx.set_dims(0, ElementType::Int64, Vec::new());
    for (result, operand) in [(1, 2), (2, 4), (3, 5)] {
        ctx.set_like(result, operand);
    }
    Ok(())
}

/// Infers LambOptimizer. Results: the count, then groups of five from operand 5 on.
fn lamb(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.set_like(0, 4);
    for result in 1..ctx.output_count() {
        ctx.set_like(result, result + 4);
    }
    Ok(())
}

fn descent(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    updates(ctx, &[1, 2]);
    Ok(())
}

fn descent_of_sequences(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    ctx.set_dims(0, ElementType::Bool, Vec::new());
    ctx.set_like(1, 1);
    Ok(())
}

/// Infers an accumulator. Results: a flag that the buffer, operand 0, was written, and the buffer itself
/// if requested.
fn accumulate(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    ctx.set_dims(0, ElementType::Bool, vec![Dim::Known(1)]);
    ctx.set_like(1, 0);
    Ok(())
}

/// Infers BatchNormInternal. Results: the normalized data, running mean and variance, and, for the
/// gradient, mean and inverse deviation of this batch.
fn batch_normalization(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(4)?;
    updates(ctx, &[0, 3, 4, 3, 4]);
    Ok(())
}

/// Infers ConcatTraining. Results: the joined tensor, and the extent of each operand along the axis.
fn concat(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let axis = ctx.int_attribute("axis").ok_or(InferError::MissingAttribute { name: "axis" })?;
    ctx.required(0)?;
    let count = ctx.input_count();
    ctx.set_dims(1, ElementType::Int64, vec![Dim::Known(count as u64)]);
    let parts: Option<Vec<&[Dim]>> = (0..count).map(|operand| ctx.dims(operand)).collect();
    let Some(parts) = parts else {
        ctx.set_tensor(0, ctx.element(0), None);
        return Ok(());
    };
    let mut joined = parts[0].to_vec();
    let axis = ctx.axis("axis", axis, joined.len())?;
    for (operand, part) in parts.iter().enumerate().skip(1) {
        if part.len() != joined.len() {
            return Err(InferError::BadOperand {
                operand,
                why: format!("rank {} among rank {}", part.len(), joined.len()),
            });
        }
        for (at, (own, other)) in joined.iter_mut().zip(*part).enumerate() {
            *own = if at == axis { own.add(other) } else { agree("extents beside the axis", own, other)? };
        }
    }
    let items = parts.iter().map(|part| Item::of_dim(&part[axis])).collect();
    let lengths = Data::new(ElementType::Int64, vec![count as u64], items);
    ctx.set_dims(0, ctx.element(0), joined);
    if let Some(lengths) = lengths {
        ctx.set_data(1, lengths);
    }
    Ok(())
}

/// Infers SplitTraining: operand 0 is cut along the axis into results with the extents in operand 1.
fn split(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        for result in 0..ctx.output_count() {
            ctx.set_tensor(result, element, None);
        }
        return Ok(());
    };
    let axis = ctx.axis("axis", ctx.int("axis", 0), dims.len())?;
    let lengths = ctx.dim_data(1).unwrap_or_default();
    for result in 0..ctx.output_count() {
        let mut piece = dims.clone();
        piece[axis] = lengths.get(result).cloned().unwrap_or(Dim::Unknown);
        ctx.set_dims(result, element, piece);
    }
    Ok(())
}

/// Infers ReduceSumTraining: the sum over the axes in operand 1.
fn sum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let keep = ctx.int("keepdims", 1) != 0;
    let Some(axes) = ctx.int_data(1) else {
        ctx.set_tensor(0, element, keep.then(|| vec![Dim::Unknown; dims.len()]));
        return Ok(());
    };
    let all = axes.is_empty() && ctx.int("noop_with_empty_axes", 0) == 0;
    let mut gone = vec![all; dims.len()];
    for axis in axes {
        gone[ctx.axis("axes", axis, dims.len())?] = true;
    }
    let left = dims.into_iter().zip(gone).filter_map(|(dim, gone)| match (gone, keep) {
        (false, _) => Some(dim),
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
    });
    let left = left.collect();
    ctx.set_dims(0, element, left);
    Ok(())
}

/// Infers operators with a boolean scalar as result.
fn flag(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.set_dims(0, ElementType::Bool, Vec::new());
    Ok(())
}

/// Infers ReduceAllL2: a scalar of the first operand's type; norms of half precision are binary32.
fn norm(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element =
        if ctx.element(0) == ElementType::Double { ElementType::Double } else { ElementType::Float };
    ctx.set_dims(0, element, Vec::new());
    Ok(())
}

/// Infers MixedPrecisionScale: each operand after the scale, converted, or the concatenation of all of
/// them.
fn scale_all(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let element = element_attribute(ctx, "to")?.unwrap_or(ElementType::Undefined);
    if ctx.int("fuse_outputs", 0) == 0 {
        for result in 0..ctx.output_count() {
            set_shaped_like(ctx, result, element, result + 1);
        }
        return Ok(());
    }
    let total = (1..ctx.input_count())
        .try_fold(0u64, |sum, operand| sum.checked_add(ctx.tensor(operand)?.elements()?));
    ctx.set_dims(0, element, vec![total.map_or(Dim::Unknown, Dim::Known)]);
    Ok(())
}

/// Gives each result the type of the operand at its position.
fn pass(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for result in 0..ctx.output_count() {
        ctx.set_like(result, result);
    }
    Ok(())
}

/// Infers operators whose operand 0 is an event; the operands after it become the results.
fn pass_after_event(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for result in 0..ctx.output_count() {
        ctx.set_like(result, result + 1);
    }
    Ok(())
}

/// Infers View: results of the type of operand 0, with the shapes in the other operands.
fn views(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    for result in 0..ctx.output_count() {
        let dims = ctx.dim_data(result + 1);
        ctx.set_tensor(result, ctx.element(0), dims);
    }
    Ok(())
}

/// Infers operators whose results another program sends or computes: the results have the types that the
/// file states.
fn as_stated(_ctx: &mut Infer<'_>) -> Result<(), InferError> {
    Ok(())
}

/// Infers Recv: result 0 is a signal, the received tensors have the element types listed in an
/// attribute.
fn receive(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.set_dims(0, ElementType::Bool, Vec::new());
    let elements = ctx.ints("element_types").unwrap_or_default();
    for (result, number) in elements.iter().enumerate().take(ctx.output_count()) {
        let element = i32::try_from(*number).map_or(ElementType::Undefined, ElementType::from_onnx);
        ctx.set_tensor(result + 1, element, None);
    }
    Ok(())
}

/// Infers PadAndUnflatten: the first axis of operand 0 is replaced by the two extents in operand 2.
fn pad_and_unflatten(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let leading = ctx.dim_data(2).filter(|dims| dims.len() == 2);
    let shape = match (ctx.dims(0), leading) {
        (Some([_, rest @ ..]), Some(mut leading)) => {
            leading.extend_from_slice(rest);
            Some(leading)
        }
        (Some([_, rest @ ..]), None) => {
            let mut dims = vec![extent(-1), extent(-1)];
            dims.extend_from_slice(rest);
            Some(dims)
        }
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

const fn updating(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::PerInputElement(8)).repeat(Repeat::Updating)
}

const fn stateful(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::PerInputElement(8)).repeat(Repeat::Stateful)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    stateful("AdamOptimizer", adam),
    stateful("AdamWOptimizer", adam_of_sequences),
    microsoft("All", flag).work(Work::PerInputElement(1)),
    microsoft("BatchNormInternal", batch_normalization).work(Work::PerElement(8)),
    microsoft("ConcatTraining", concat).work(Work::None),
    stateful("Group", flag),
    updating("InPlaceAccumulator", like_first),
    updating("InPlaceAccumulatorV2", accumulate),
    stateful("LambOptimizer", lamb),
    microsoft("MixedPrecisionScale", scale_all).work(Work::PerElement(2)),
    microsoft("PadAndUnflatten", pad_and_unflatten).work(Work::None),
    stateful("PassThrough", pass),
    stateful("PythonOp", as_stated),
    stateful("PythonOpGrad", as_stated),
    stateful("RecordEvent", pass_after_event),
    stateful("Recv", receive),
    microsoft("ReduceAllL2", norm).work(Work::PerInputElement(2)),
    microsoft("ReduceSumTraining", sum).work(Work::PerInputElement(1)),
    stateful("SGDOptimizer", descent),
    stateful("SGDOptimizerV2", descent_of_sequences),
    microsoft("Scale", like_first).algebra(Algebra::NONE).work(Work::PerElement(1)).split(SplitAxes::All),
    stateful("Send", flag),
    microsoft("SplitTraining", split).work(Work::None),
    microsoft("View", views).work(Work::None),
    stateful("WaitEvent", pass_after_event),
    stateful("YieldOp", as_stated),
    updating("ZeroGradient", like_first),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn optimizer_results_have_the_types_of_updated_operands() {
        let adam = case("AdamOptimizer")
            .input("f32[]")
            .input("i64[]")
            .input("f32[3]")
            .input("f16[3]")
            .input("f32[3]");
        assert_eq!(adam.input("f32[3]").outputs(5).show_all(), "i64[]; f32[3]; f32[3]; f32[3]; f16[3]");
        let sequence = "seq<f32[*]>";
        let many = case("AdamWOptimizer").input("f32[]").input("i64[]").input(sequence).input(sequence);
        let many = many.input(sequence).input(sequence).outputs(2).show_all();
        assert_eq!(many, "i64[]; seq<f32[*]>");
        let accumulate = case("InPlaceAccumulatorV2")
            .input("f32[7]")
            .input("f32[7]")
            .input("bool[1]")
            .outputs(2)
            .show_all();
        assert_eq!(accumulate, "bool[1]; f32[7]");
    }

    #[test]
    fn joined_parts_remember_their_lengths() {
        let concat = case("ConcatTraining").input("f32[4,N,8]").input("f32[4,3,8]").int("axis", 1).outputs(2);
        assert_eq!(concat.show_all(), "f32[4,N+3,8]; i64[2] = {N,3}");
        let split = case("SplitTraining").input("f32[4,7,8]").ints_data(&[4, 3]).int("axis", 1).outputs(2);
        assert_eq!(split.show_all(), "f32[4,4,8]; f32[4,3,8]");
        let open = case("SplitTraining").input("f32[4,7]").input("i64[*]").outputs(2).show_all();
        assert_eq!(open, "f32[?,7]; f32[?,7]");
        assert!(
            case("SplitTraining")
                .input("f32[]")
                .ints_data(&[1])
                .show()
                .starts_with("error: attribute `axis`")
        );
    }

    #[test]
    fn sums_keep_or_drop_axes() {
        let sum = |axes: &[i64]| case("ReduceSumTraining").input("f32[2,3,4]").ints_data(axes);
        assert_eq!(sum(&[0, -1]).show(), "f32[1,3,1]");
        assert_eq!(sum(&[1]).int("keepdims", 0).show(), "f32[2,4]");
        assert_eq!(sum(&[]).int("noop_with_empty_axes", 1).show(), "f32[2,3,4]");
        assert_eq!(sum(&[]).int("keepdims", 0).show(), "f32[]");
        assert!(sum(&[3]).show().starts_with("error: attribute `axes`"));
    }

    #[test]
    fn scaling_casts_each_operand_or_all() {
        let scale =
            || case("MixedPrecisionScale").input("f32[]").input("f32[2,3]").input("f32[4]").int("to", 10);
        assert_eq!(scale().outputs(2).show_all(), "f16[2,3]; f16[4]");
        assert_eq!(scale().int("fuse_outputs", 1).show(), "f16[10]");
        let norm = case("BatchNormInternal")
            .input("f32[8,3,4,4]")
            .input("f32[3]")
            .input("f32[3]")
            .input("f32[3]")
            .input("f32[3]");
        assert_eq!(norm.outputs(5).show_all(), "f32[8,3,4,4]; f32[3]; f32[3]; f32[3]; f32[3]");
    }
}
