//! Activations: element-wise functions of one operand with few parameters.

use memc_ir::ElementType;

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::arithmetic::{float_item, max, min};
use crate::families::broadcasting::follow_one;
use crate::info::{InPlace, OpInfo, SplitAxes, Work};

/// Gives result 0 the type and shape of operand 0.
pub(crate) fn same_as_first(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_like(0, 0);
    Ok(())
}

/// Returns one bound of a Clip: `None` if the bound is absent, [`Item::Unknown`] if its value is
/// unknown. Operator sets below 11 state the bounds as attributes.
fn bound(ctx: &Infer<'_>, name: &str, operand: usize) -> Option<Item> {
    if ctx.has(operand) {
        let data = ctx.data(operand).map(|data| data.items.as_slice());
        return Some(if let Some([item]) = data { item.clone() } else { Item::Unknown });
    }
    let stated = ctx.node().attribute(name).filter(|_| ctx.version() < 11);
    stated.map(|_| Item::Float(f64::from(ctx.float(name, 0.0))))
}

fn clip(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    same_as_first(ctx)?;
    let element = ctx.element(0);
    let (low, high) = (bound(ctx, "min", 1), bound(ctx, "max", 2));
    follow_one(ctx, |item| clipped(element, item, low.as_ref(), high.as_ref()));
    Ok(())
}

fn clipped(element: ElementType, item: &Item, low: Option<&Item>, high: Option<&Item>) -> Item {
    let raised = low.map_or_else(|| item.clone(), |low| max(element, item, low));
    high.map_or_else(|| raised.clone(), |high| min(element, &raised, high))
}

/// Infers Relu; follows elements if the sign of a zero result is certain.
fn relu(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    same_as_first(ctx)?;
    let element = ctx.element(0);
    follow_one(ctx, |item| match item {
        Item::Float(value) if *value < 0.0 => Item::Float(0.0),
        Item::Float(value) if *value == 0.0 && value.is_sign_negative() => Item::Unknown,
        Item::Float(value) => float_item(element, *value),
        _ => max(element, item, &Item::Int(0)),
    });
    Ok(())
}

const fn activation(name: &'static str, work: u32, algebra: Algebra) -> OpInfo {
    let info = OpInfo::onnx(name, same_as_first).algebra(algebra);
    info.in_place(InPlace::Operands(&[0])).work(Work::PerElement(work)).split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    activation("Celu", 10, Algebra::KEEPS_ZERO),
    OpInfo::onnx("Clip", clip)
        .algebra(Algebra::FINITE_AT_ZERO)
        .in_place(InPlace::Operands(&[0]))
        .work(Work::PerElement(2))
        .split(SplitAxes::All),
    activation("Elu", 10, Algebra::KEEPS_ZERO),
    activation("Gelu", 26, Algebra::KEEPS_ZERO),
    activation("HardSigmoid", 3, Algebra::FINITE_AT_ZERO.nonnegative()).unit_scale(),
    activation("HardSwish", 4, Algebra::KEEPS_ZERO).kernels(&[(3, 1), (1, 2)]),
    activation("LeakyRelu", 2, Algebra::KEEPS_ZERO),
    activation("Mish", 20, Algebra::KEEPS_ZERO),
    OpInfo::onnx("Relu", relu)
        .algebra(Algebra::KEEPS_ZERO.idempotent().nonnegative())
        .in_place(InPlace::Operands(&[0]))
        .split(SplitAxes::All),
    activation("Selu", 10, Algebra::KEEPS_ZERO),
    activation("Shrink", 2, Algebra::FINITE_AT_ZERO),
    activation("Sigmoid", 20, Algebra::FINITE_AT_ZERO.nonnegative()).unit_scale(),
    activation("Softplus", 20, Algebra::FINITE_AT_ZERO.nonnegative()),
    activation("Softsign", 3, Algebra::KEEPS_ZERO).unit_scale(),
    activation("Swish", 21, Algebra::KEEPS_ZERO),
    activation("Tanh", 10, Algebra::KEEPS_ZERO).unit_scale(),
    activation("ThresholdedRelu", 1, Algebra::KEEPS_ZERO),
];

#[cfg(test)]
mod tests {
    use super::OPERATORS;
    use crate::families::testing::Case;

    #[test]
    fn every_activation_keeps_type_and_shape() {
        for info in OPERATORS {
            assert_eq!(Case::new(info.name, 24).input("f16[N,?,3]").show(), "f16[N,?,3]", "{}", info.name);
        }
    }

    #[test]
    fn relu_follows_elements() {
        assert_eq!(Case::new("Relu", 14).data("i64[3]", "-5,N,9").show(), "i64[3] = {0,N,9}");
        assert_eq!(
            Case::new("Relu", 14).data("f32[4]", "-5.0,-0.0,0.0,9.0").show(),
            "f32[4] = {0.0,?,0.0,9.0}"
        );
    }

    #[test]
    fn clip_follows_elements() {
        let clip = |low: &str, high: &str| {
            Case::new("Clip", 13).data("i64[3]", "-5,N,9").data("i64[]", low).data("i64[]", high).show()
        };
        assert_eq!(clip("-2", "3"), "i64[3] = {-2,min(3,N),3}");
        assert_eq!(clip("0", "?"), "i64[3] = {?,?,?}");
        assert_eq!(
            Case::new("Clip", 13).ints_data(&[-5, 9]).input("").data("i64[]", "3").show(),
            "i64[2] = {-5,3}"
        );
        assert_eq!(
            Case::new("Clip", 6).data("f32[2]", "-5.0,9.0").float("min", 0.5).show(),
            "f32[2] = {0.5,9.0}"
        );
    }
}
