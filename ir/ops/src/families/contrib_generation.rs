//! Text generation and recurrent layers of ONNX Runtime's own domain, whose result extents depend on
//! limits in operands.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{extent_attribute, microsoft, scalar_extent};
use super::contrib_workspace;
use super::dims::dim_at;
use crate::context::{Infer, InferError};
use crate::info::{OpInfo, Repeat, Work};

/// Infers greedy search: sequences `[B, max_length]` and scores of the vocabulary.
fn greedy(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_dims(0, ElementType::Int32, vec![dim_at(ctx, 0, 0), scalar_extent(ctx, 1)]);
    ctx.set_dims(1, ElementType::Float, vec![dim_at(ctx, 0, 0), extent_attribute(ctx, "vocab_size")]);
    Ok(())
}

/// Infers beam search: sequences `[B, returned, max_length]`, their scores, and scores of each word at
/// each step.
fn beams(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (batch, longest) = (dim_at(ctx, 0, 0), scalar_extent(ctx, 1));
    let (beams, returned) = (scalar_extent(ctx, 3), scalar_extent(ctx, 4));
    ctx.set_dims(0, ElementType::Int32, vec![batch.clone(), returned.clone(), longest.clone()]);
    ctx.set_dims(1, ElementType::Float, vec![batch.clone(), returned]);
    let steps = longest.sub(&dim_at(ctx, 0, 1));
    // The operand of an encoder is not text, so it does not count against the length limit.
    let steps = if ctx.element(0) == ElementType::Int32 { steps } else { Dim::Unknown };
    ctx.set_dims(2, ElementType::Float, vec![steps, batch, beams, extent_attribute(ctx, "vocab_size")]);
    Ok(())
}

/// Infers a recurrent layer: `[S, directions, B, hidden]`, and the last states
/// `[directions, B, hidden]`.
fn recurrent(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let (length, batch) = (dim_at(ctx, 0, 0), dim_at(ctx, 0, 1));
    let directions = Dim::Known(if ctx.string("direction") == Some("bidirectional") { 2 } else { 1 });
    let hidden = extent_attribute(ctx, "hidden_size");
    let element = ctx.element(0);
    ctx.set_dims(0, element, vec![length, directions.clone(), batch.clone(), hidden.clone()]);
    for state in 1..3 {
        ctx.set_dims(state, element, vec![directions.clone(), batch.clone(), hidden.clone()]);
    }
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    microsoft("AttnLSTM", recurrent).work(Work::PerElement(1000)),
    microsoft("BeamSearch", beams).work(Work::Bodies),
    microsoft("DynamicQuantizeLSTM", recurrent)
        .rounds()
        .work(Work::PerElement(1000))
        .workspace(contrib_workspace::quantized_lstm),
    microsoft("GreedySearch", greedy).work(Work::Bodies),
    microsoft("Sampling", greedy).work(Work::Bodies).repeat(Repeat::Random),
    microsoft("WhisperBeamSearch", beams).work(Work::Bodies),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn searches_end_at_their_limit() {
        let greedy = case("GreedySearch").input("i32[B,8]").data("i32[1]", "32").show();
        assert_eq!(greedy, "i32[B,32]");
        let operands = |name: &str| case(name).input("i32[B,8]").data("i32[1]", "32").input("");
        let beams =
            operands("BeamSearch").data("i32[1]", "4").data("i32[1]", "2").int("vocab_size", 100).outputs(3);
        assert_eq!(beams.show_all(), "i32[B,2,32]; f32[B,2]; f32[24,B,4,100]");
    }

    #[test]
    fn recurrent_layers_have_states() {
        let lstm = case("DynamicQuantizeLSTM")
            .input("f32[S,B,16]")
            .input("i8[2,16,128]")
            .string("direction", "bidirectional");
        assert_eq!(
            lstm.int("hidden_size", 32).outputs(3).show_all(),
            "f32[S,2,B,32]; f32[2,B,32]; f32[2,B,32]"
        );
    }
}
