//! Recurrent layers: RNN, GRU, LSTM.

use memc_ir::Dim;

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at, require_rank};
use crate::families::recurrent_workspace;
use crate::info::{OpInfo, Typed, Work};

fn directions(direction: Option<&str>) -> u64 {
    if direction == Some("bidirectional") { 2 } else { 1 }
}

/// Infers a recurrent layer. Operands: X, W, R, B, sequence lengths, initial states. Results: Y, last
/// hidden state, and for LSTM last cell state.
fn recurrent(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    for operand in 0..3 {
        ctx.required(operand)?;
        require_rank(ctx, operand, 3)?;
    }
    let layout = ctx.int("layout", 0);
    let batch_first = layout != 0;
    let (sequence_axis, batch_axis) = if batch_first { (1, 0) } else { (0, 1) };
    let (sequence, batch) = (dim_at(ctx, 0, sequence_axis), dim_at(ctx, 0, batch_axis));
    let batch =
        agree("batch of data and initial state", &batch, &dim_at(ctx, 5, if batch_first { 0 } else { 1 }))?;
    let directions = Dim::Known(directions(ctx.string("direction")));
    agree("directions and weights", &directions, &dim_at(ctx, 1, 0))?;
    agree("widths of data and weights", &dim_at(ctx, 0, 2), &dim_at(ctx, 1, 2))?;
    let hidden = match ctx.int_attribute("hidden_size") {
        Some(size) => {
            let stated = u64::try_from(size).map_err(|_| InferError::BadAttribute {
                name: "hidden_size",
                why: format!("{size} is negative"),
            })?;
            agree("hidden_size and weights", &Dim::Known(stated), &dim_at(ctx, 2, 2))?
        }
        None => dim_at(ctx, 2, 2),
    };
    let element = ctx.element(0);
    let (all, last) = if batch_first {
        (vec![batch.clone(), sequence, directions.clone(), hidden.clone()], vec![batch, directions, hidden])
    } else {
        (vec![sequence, directions.clone(), batch.clone(), hidden.clone()], vec![directions, batch, hidden])
    };
    ctx.set_dims(0, element, all);
    ctx.set_dims(1, element, last.clone());
    ctx.set_dims(2, element, last);
    Ok(())
}

/// Extents of a recurrent layer.
struct Sizes {
    steps: u64,
    directions: u64,
    gated: u64,
    input: u64,
    hidden: u64,
}

impl Sizes {
    /// Reads the extents. `steps` counts all steps of all sequences; `gated` is the hidden width times
    /// the number of gates.
    fn read(node: &Typed<'_>) -> Option<Self> {
        let (data, weights, recurrence) = (node.input_dims(0)?, node.input_dims(1)?, node.input_dims(2)?);
        Some(Self {
            steps: data.first()?.checked_mul(*data.get(1)?)?,
            directions: *weights.first()?,
            gated: *weights.get(1)?,
            input: *weights.get(2)?,
            hidden: *recurrence.get(2)?,
        })
    }
}

/// Counts products with both weight matrices for every step and direction, and about ten operations per
/// gate element.
fn flops(node: &Typed<'_>) -> Option<u64> {
    let sizes = Sizes::read(node)?;
    let products = sizes.input.checked_add(sizes.hidden)?.checked_mul(2)?.checked_add(10)?;
    sizes.steps.checked_mul(sizes.directions)?.checked_mul(sizes.gated)?.checked_mul(products)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("GRU", recurrent)
        .work(Work::Flops(flops))
        .workspace(recurrent_workspace::gru)
        .optional(&[0]),
    OpInfo::onnx("LSTM", recurrent)
        .work(Work::Flops(flops))
        .workspace(recurrent_workspace::lstm)
        .optional(&[0, 1, 2]),
    OpInfo::onnx("RNN", recurrent).work(Work::Flops(flops)).workspace(recurrent_workspace::rnn),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn layer(name: &str, data: &str, gates: u64, directions: u64) -> Case {
        let case = Case::new(name, 14).input(data).int("hidden_size", 5);
        case.input(&format!("f32[{directions},{},3]", gates * 5))
            .input(&format!("f32[{directions},{},5]", gates * 5))
            .outputs(2)
    }

    #[test]
    fn layouts_and_directions() {
        assert_eq!(layer("RNN", "f32[S,B,3]", 1, 1).show_all(), "f32[S,1,B,5]; f32[1,B,5]");
        assert_eq!(layer("GRU", "f32[B,S,3]", 3, 1).int("layout", 1).show_all(), "f32[B,S,1,5]; f32[B,1,5]");
        let lstm = layer("LSTM", "f32[S,B,3]", 4, 2).string("direction", "bidirectional").outputs(3);
        assert_eq!(lstm.show_all(), "f32[S,2,B,5]; f32[2,B,5]; f32[2,B,5]");
        assert!(layer("LSTM", "f32[S,B,3]", 4, 2).show().starts_with("error: directions"));
        assert!(layer("LSTM", "f32[S,B,4]", 4, 1).show().starts_with("error: widths"));
        assert!(layer("LSTM", "f32[S,B]", 4, 1).show().starts_with("error: operand 0"));
    }

    #[test]
    fn arithmetic() {
        assert_eq!(layer("LSTM", "f32[7,2,3]", 4, 1).costs().0, Some(14 * 20 * (2 * (3 + 5) + 10)));
    }
}
