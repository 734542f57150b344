//! Activations: element-wise functions of one operand with few parameters.

use crate::context::{Infer, InferError};
use crate::info::{InPlace, OpInfo, SplitAxes, Work};

/// Result 0 has type and shape of operand 0.
pub(crate) fn same_as_first(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_like(0, 0);
    Ok(())
}

const fn activation(name: &'static str, work: u32) -> OpInfo {
    OpInfo::onnx(name, same_as_first).in_place(InPlace::Operands(&[0])).work(Work::PerElement(work)).split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    activation("Celu", 10),
    activation("Elu", 10),
    activation("Gelu", 12),
    activation("HardSigmoid", 3),
    activation("HardSwish", 4),
    activation("LeakyRelu", 2),
    activation("Mish", 20),
    activation("Relu", 1),
    activation("Selu", 10),
    activation("Shrink", 2),
    activation("Sigmoid", 10),
    activation("Softplus", 20),
    activation("Softsign", 3),
    activation("Swish", 11),
    activation("Tanh", 10),
    activation("ThresholdedRelu", 1),
];
