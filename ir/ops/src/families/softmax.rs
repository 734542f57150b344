//! Softmax and related operators.

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::info::{InPlace, OpInfo, SplitAxes, Work};
use crate::pieces::rules;

/// Infers Softmax: the result has the shape of the operand. Before version 13 the default axis is 1, and
/// all axes from it on are normalized together.
fn softmax(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    if let Some(rank) = ctx.rank(0).filter(|rank| *rank > 0) {
        let default = if ctx.version() < 13 { 1 } else { -1 };
        let axis = ctx.int("axis", default);
        // The old definition cuts the shape in two, so the cut may also be after the last axis.
        if ctx.version() >= 13 || usize::try_from(axis).ok() != Some(rank) {
            ctx.axis("axis", axis, rank)?;
        }
    }
    ctx.set_like(0, 0);
    Ok(())
}

/// The operators of this family. The independent axes depend on the version, so a rule determines them.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Hardmax", softmax).work(Work::PerElement(2)).split(SplitAxes::Rule(rules::softmax)),
    OpInfo::onnx("LogSoftmax", softmax)
        .unit_scale()
        .in_place(InPlace::Operands(&[0]))
        .work(Work::PerElement(24))
        .split(SplitAxes::Rule(rules::softmax)),
    OpInfo::onnx("Softmax", softmax)
        .algebra(Algebra::NONE.nonnegative())
        .unit_scale()
        .in_place(InPlace::Operands(&[0]))
        .work(Work::PerElement(24))
        .split(SplitAxes::Rule(rules::softmax)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn the_shape_passes_and_the_axis_is_checked() {
        let softmax = |version| Case::new("Softmax", version).input("f32[N,3]");
        assert_eq!(softmax(13).show(), "f32[N,3]");
        assert_eq!(softmax(11).int("axis", 2).show(), "f32[N,3]");
        assert!(softmax(13).int("axis", 2).show().starts_with("error: attribute `axis`"));
        assert!(softmax(11).int("axis", 3).show().starts_with("error: attribute `axis`"));
        assert_eq!(Case::new("LogSoftmax", 13).input("f32[*]").int("axis", 9).show(), "f32[*]");
        assert_eq!(Case::new("Hardmax", 11).input("f32[3]").show(), "f32[3]");
    }
}
