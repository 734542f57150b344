//! Memory that ONNX Runtime's CPU kernels hold in addition to the workspace of their table entry, as
//! expressions over symbols: at all extents at least the bytes of the formulas over numbers.

use memc_ir::{DimExpr, TensorType};

use super::ort_temporaries::{ROUNDING, has_half_precision, in_full, is_half};
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

/// Operand and result with the axis moved to the end; unknown in half precision, which also adds rows.
pub(super) fn moved_axis(typed: &Typed<'_>) -> Option<DimExpr> {
    if is_half(typed) { None } else { results(typed, 2) }
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
        check("Attention", &["f16[N,4,S,8]", "f16[N,4,5,8]", "f16[N,4,5,8]"], "f16[N,4,S,8]", &[], false);
    }
}
