//! Memory that ONNX Runtime's CPU kernels hold in addition to the workspace of their table entry, as
//! expressions over symbols: at all extents at least the bytes of the formulas over numbers.

use memc_ir::{DimExpr, TensorType};

use super::ort_temporaries::{MOST_OF_A_LABEL, ROUNDING, SMALL, has_half_precision, in_full, is_half};
use crate::context::broadcast;
use crate::info::Typed;

/// An expression, in bytes; `None` if an extent depends on a run, or the terms become too many.
pub(crate) type Expression = fn(&Typed<'_>) -> Option<DimExpr>;

fn number(value: u64) -> Option<DimExpr> {
    i64::try_from(value).ok().map(DimExpr::constant)
}

/// Returns the bytes of a tensor's allocation.
fn rounded(ty: &TensorType) -> Option<DimExpr> {
    let rounding = number(ROUNDING)?;
    ty.size_expr()?.ceil_div(&rounding)?.mul(&rounding)
}

/// Returns the bytes of `count` buffers of the size of result 0, in full precision.
fn results(typed: &Typed<'_>, count: u64) -> Option<DimExpr> {
    rounded(&in_full(typed.output(0)?))?.mul(&number(count)?)
}

/// One buffer of the size of result 0.
pub(super) fn result(typed: &Typed<'_>) -> Option<DimExpr> {
    results(typed, 1)
}

/// One buffer of the size of result 0, and a small constant.
pub(super) fn result_and_constant(typed: &Typed<'_>) -> Option<DimExpr> {
    results(typed, 1)?.add(&number(ROUNDING)?)
}

/// Two buffers of the size of result 0: axes moved to the end and back.
pub(super) fn two_results(typed: &Typed<'_>) -> Option<DimExpr> {
    results(typed, 2)
}

/// Result of three or more operands that are combined in pairs.
pub(super) fn several(typed: &Typed<'_>) -> Option<DimExpr> {
    if has_half_precision(typed) { rounded(typed.output(0)?) } else { results(typed, 1) }
}

/// Both choices with the broadcast size of choice and condition.
pub(super) fn choices(typed: &Typed<'_>) -> Option<DimExpr> {
    let element = typed.output(0)?.element;
    let condition = typed.input(0)?.shape.as_deref()?;
    [1, 2].iter().try_fold(DimExpr::constant(0), |sum, choice| {
        let shape = broadcast(condition, typed.input(*choice)?.shape.as_deref()?).ok()?;
        sum.add(&rounded(&in_full(&TensorType { element, shape: Some(shape) }))?)
    })
}

/// Quarters of result 0 in full precision, and small constants.
pub(super) fn steps(typed: &Typed<'_>, quarters: u64) -> Option<DimExpr> {
    results(typed, quarters)?.ceil_div(&number(4)?)?.add(&number(ROUNDING * 8)?)
}

/// Copies of the operand in full precision.
pub(super) fn powers(typed: &Typed<'_>, count: u64) -> Option<DimExpr> {
    rounded(&in_full(typed.input(0)?))?.mul(&number(count)?)?.add(&number(ROUNDING * 4)?)
}

/// Operand and result with the axis moved to the end. In half precision, at most as much again for the
/// maximum and the sum of each row.
pub(super) fn moved_axis(typed: &Typed<'_>) -> Option<DimExpr> {
    results(typed, if is_half(typed) { 4 } else { 2 })
}

/// Normalized operand before scale and bias, one or two copies, and statistics of each group.
pub(super) fn group_normalization(typed: &Typed<'_>) -> Option<DimExpr> {
    let groups = u64::try_from(typed.data().int("num_groups", 1)).ok()?;
    let batch = typed.input(0)?.shape.as_deref()?.first()?.expr()?;
    let width = in_full(typed.input(0)?).element.bits()?.div_ceil(8);
    let statistics = batch.mul(&number(groups.checked_mul(u64::from(width) * 8)?)?)?;
    let copies = if typed.data().operator.version < 21 { 1 } else { 2 };
    results(typed, copies)?.add(&statistics)?.add(&number(SMALL)?)
}

/// Indices, weights and masks that are gathered for each label.
pub(super) fn likelihood(typed: &Typed<'_>) -> Option<DimExpr> {
    let labels = typed.input(1)?.shape.as_deref()?;
    let count = labels.iter().try_fold(DimExpr::constant(1), |product, dim| product.mul(&dim.expr()?))?;
    count.mul(&number(MOST_OF_A_LABEL)?)?.add(&number(SMALL)?)
}

/// Positions and weights of each row and column; unknown with antialiasing.
pub(super) fn resize(typed: &Typed<'_>) -> Option<DimExpr> {
    if typed.data().int("antialias", 0) != 0 {
        return None;
    }
    let extents = typed.output(0)?.shape.as_deref()?.iter().map(|dim| dim.expr());
    let total = extents.into_iter().try_fold(DimExpr::constant(0), |sum, extent| sum.add(&extent?))?;
    total.mul(&number(16)?)?.add(&number(ROUNDING * 8)?)
}

/// Mask that the kernel creates or copies, as large as the given mask and the scores of a head; an upper
/// bound if the kernel adds a given mask as it is. In half precision, scores of a head in full precision.
pub(super) fn attention(typed: &Typed<'_>) -> Option<DimExpr> {
    let extent = |operand: usize, from_end: usize| {
        let dims = typed.input(operand)?.shape.as_deref()?;
        dims.get(dims.len().checked_sub(from_end)?)?.expr()
    };
    let past = if typed.input(4).and_then(TensorType::rank) == Some(4) { extent(4, 2)? } else { DimExpr::constant(0) };
    let pairs = extent(0, 2)?.mul(&extent(1, 2)?.add(&past)?)?;
    let mask = typed.input(3).map_or(Some(DimExpr::constant(0)), |mask| {
        mask.shape.as_deref()?.iter().try_fold(DimExpr::constant(1), |product, dim| product.mul(&dim.expr()?))
    })?;
    let element = number(u64::from(typed.input(0)?.element.bits()?.div_ceil(8)))?;
    let in_full = if is_half(typed) { pairs.mul(&number(4)?)? } else { DimExpr::constant(0) };
    DimExpr::max_of(vec![mask, pairs])?.mul(&element)?.add(&in_full)?.add(&number(ROUNDING * 4)?)
}

/// Operands with moved axes and with equal ranks, and the result before its axes are moved.
pub(super) fn einsum(typed: &Typed<'_>) -> Option<DimExpr> {
    let operands = (0..typed.data().inputs.len()).map(|index| rounded(typed.input(index)?));
    let all = operands.into_iter().try_fold(DimExpr::constant(0), |sum, bytes| sum.add(&bytes?))?;
    all.mul(&number(2)?)?.add(&results(typed, 1)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use memc_ir::Attribute;

    use super::super::ort_temporaries::{temporaries, temporaries_over};
    use super::super::tests::graph_with;
    use super::*;

    /// Compares the expression of one node with the formula at pseudo-random extents: never less, and equal
    /// if `is_exact`.
    fn check(operator: &str, operands: &[&str], result: &str, attributes: &[(&str, i64)], is_exact: bool) {
        let make = |bind: &dyn Fn(&str) -> String| {
            let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value))).collect();
            let operands: Vec<String> = operands.iter().map(|text| bind(text)).collect();
            let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
            graph_with(operator, &operands, &bind(result), false, attributes)
        };
        let (module, node) = make(&str::to_owned);
        let over = temporaries_over(&Typed::of(&module, node)).unwrap();
        assert!(over.as_constant().is_none(), "{operator}");
        let mut state = 11u64;
        for turn in 0..100 {
            let extents: BTreeMap<String, u64> = ["N", "S"]
                .map(|name| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (name.to_owned(), (state >> 33) % [2, 9, 70, 300][turn % 4])
                })
                .into();
            let bind = |text: &str| {
                extents.iter().fold(text.to_owned(), |text, (name, extent)| text.replace(name.as_str(), &extent.to_string()))
            };
            let (module, node) = make(&bind);
            let bytes = i64::try_from(temporaries(&Typed::of(&module, node)).unwrap().0).unwrap();
            let value = over.bind(&extents).unwrap().as_constant().unwrap();
            assert!(value >= bytes && (!is_exact || value == bytes), "{operator} at {extents:?}: {value} for {bytes}");
        }
    }

    #[test]
    fn expressions_bound_the_formulas() {
        let (cube, half) = ("f32[N,S,7]", "f16[N,S,7]");
        for operator in ["Max", "Min", "Sum", "Mean"] {
            check(operator, &[cube, cube, cube], cube, &[], true);
            check(operator, &[half, half, half], half, &[], true);
        }
        check("HardSwish", &[half], half, &[], true);
        check("Mish", &[cube], cube, &[], true);
        check("Where", &["bool[N,1,7]", cube, "f32[S,1]"], cube, &[], true);
        check("Where", &["bool[N,S,7]", "f16[]", half], half, &[], true);
        check("Hardmax", &[cube], cube, &[("axis", 1)], true);
        check("Softmax", &[cube], cube, &[("axis", 0)], true);
        check("MeanVarianceNormalization", &["f32[N,3,S,S]"], "f32[N,3,S,S]", &[], true);
        check("Einsum", &["f32[N,S]", "f32[S,9]"], "f32[N,9]", &[], true);
        let heads = "f32[N,4,S,8]";
        check("Attention", &[heads, heads, heads], heads, &[("is_causal", 1)], true);
        check("Attention", &[heads, heads, heads, "bool[N,1,S,S]"], heads, &[], true);
        for operator in ["Elu", "Selu", "LeakyRelu", "Softsign", "ThresholdedRelu"] {
            check(operator, &[half], half, &[], true);
        }
        check("Gelu", &[half], half, &[], false);
        check("PRelu", &["i32[N,S]", "i32[S]"], "i32[N,S]", &[], true);
        check("GreaterOrEqual", &[half, half], "bool[N,S,7]", &[], true);
        check("ReduceL2", &[half, "i64[1]"], "f16[N,7]", &[], true);
        check("ReduceLogSumExp", &[half, "i64[1]"], "f16[N,7]", &[], true);
        check("Softmax", &["f16[N,S]"], "f16[N,S]", &[("axis", 1)], false);
        check("Softmax", &["f16[N,S,3]"], "f16[N,S,3]", &[("axis", 0)], false);
        let image = "f32[N,8,S,S]";
        check("GroupNormalization", &[image, "f32[8]", "f32[8]"], image, &[("num_groups", 4)], true);
        check("NegativeLogLikelihoodLoss", &["f32[N,5]", "i64[N]"], "f32[]", &[], false);
        check("NegativeLogLikelihoodLoss", &["f32[N,5]", "i64[N]"], "f32[]", &[("ignore_index", 1)], true);
        check("ConvInteger", &["u8[N,3,S,S]", "u8[4,3,3,3]"], "i32[N,4,S,S]", &[], true);
        check("Attention", &["f16[N,4,S,8]", "f16[N,4,5,8]", "f16[N,4,5,8]"], "f16[N,4,S,8]", &[], false);
    }
}
