//! The preview training domain: one step of an optimizer, and gradients by reference to the graph.

use memc_ir::NodeData;

use crate::context::{Infer, InferError};
use crate::info::{OpInfo, Repeat, Work};

const DOMAIN: &str = "ai.onnx.preview.training";

/// Infers one step of an optimizer. Operands: rate and count, then `kinds` lists of equal length:
/// values, gradients, states. Results: all lists except the gradients.
fn optimizer(ctx: &mut Infer<'_>, kinds: usize) -> Result<(), InferError> {
    let tensors = ctx.input_count().saturating_sub(2);
    if tensors == 0 || !tensors.is_multiple_of(kinds) {
        let why = format!("{tensors} tensors do not make {kinds} lists of equal length");
        return Err(InferError::BadOperand { operand: 2, why });
    }
    let count = tensors / kinds;
    for result in 0..ctx.output_count() {
        let list = if result < count { 0 } else { result / count + 1 };
        ctx.set_like(result, 2 + list * count + result % count);
    }
    Ok(())
}

fn three_lists(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    optimizer(ctx, 3)
}

fn four_lists(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    optimizer(ctx, 4)
}

/// Infers Gradient: each result has the type of the operand at its position, which is the variable of
/// the derivative.
fn gradient(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    for result in 0..ctx.output_count() {
        ctx.set_like(result, result);
    }
    Ok(())
}

/// Returns the results that are new values of operands, as pairs of result and operand positions: those
/// of an optimizer step, in which each element depends only on the operands' elements at that position,
/// and caches in buffers, into which the kernel writes new rows. The new value may overwrite the old value
/// of equal type. Empty for all other operators.
pub fn new_values(data: &NodeData) -> Vec<(usize, usize)> {
    let results = data.outputs.len();
    match (&*data.operator.domain, &*data.operator.name) {
        (DOMAIN, name @ ("Adagrad" | "Adam" | "Momentum")) => {
            let lists = if name == "Adam" { 4 } else { 3 };
            let count = data.inputs.len().saturating_sub(2) / lists;
            let operand = |result: usize| if result < count { 2 + result } else { 2 + count + result };
            (0..results.min(count * (lists - 1))).map(|result| (result, operand(result))).collect()
        }
        ("com.microsoft", "AdamOptimizer") => {
            let pairs = [(0, 1), (1, 4), (2, 5), (3, 2), (5, 6)];
            pairs
                .into_iter()
                .filter(|(result, operand)| *result < results && *operand < data.inputs.len())
                .collect()
        }
        ("com.microsoft", "GroupQueryAttention") => {
            let has = |operand: usize| data.inputs.get(operand).is_some_and(Option::is_some);
            [(1, 3), (2, 4)]
                .into_iter()
                .filter(|(result, operand)| *result < results && has(*operand))
                .collect()
        }
        ("com.microsoft", "SGDOptimizer") if results > 0 => vec![(0, 1)],
        _ => Vec::new(),
    }
}

/// Returns the operand that states the extent of the buffers into which a node writes new rows; `None` for
/// all operators without such buffers.
pub fn buffer_extent(data: &NodeData) -> Option<usize> {
    let is_grouped =
        *data.operator.domain == *"com.microsoft" && *data.operator.name == *"GroupQueryAttention";
    is_grouped.then_some(6)
}

/// The operators of this family. Gradient refers to tensors of its graph by name, so it stays unchanged.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::of(DOMAIN, "Adagrad", three_lists).work(Work::PerInputElement(12)),
    OpInfo::of(DOMAIN, "Adam", four_lists).work(Work::PerInputElement(20)),
    OpInfo::of(DOMAIN, "Gradient", gradient).repeat(Repeat::Stateful),
    OpInfo::of(DOMAIN, "Momentum", three_lists).work(Work::PerInputElement(8)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn step(name: &str, lists: usize) -> Case {
        let case = Case::of("ai.onnx.preview.training", name, 1).input("f32[]").input("i64[]");
        (0..lists)
            .fold(case, |case, list| case.input(&format!("f32[2,{list}]")).input(&format!("f32[3,{list}]")))
    }

    #[test]
    fn results_are_values_and_states_without_gradients() {
        assert_eq!(step("Adagrad", 3).outputs(4).show_all(), "f32[2,0]; f32[3,0]; f32[2,2]; f32[3,2]");
        assert_eq!(
            step("Adam", 4).outputs(6).show_all(),
            "f32[2,0]; f32[3,0]; f32[2,2]; f32[3,2]; f32[2,3]; f32[3,3]"
        );
        assert!(step("Momentum", 2).show().starts_with("error: operand 2"));
        let gradient =
            Case::of("ai.onnx.preview.training", "Gradient", 1).input("f32[2]").input("f32[3]").outputs(2);
        assert_eq!(gradient.show_all(), "f32[2]; f32[3]");
    }
}
