//! Extents that a Reshape gives its result, by the elements of its operands.

use memc_ir::{DimExpr, ElementType};

use crate::rows::is_onnx;
use crate::side::{Known, Side};

/// Whether a node that keeps its operand's elements gives its result these extents, for all extents of the
/// free dimensions. Types alone do not say so for Reshape: an extent of 0 copies, and a rest of -1 must
/// follow.
pub(crate) fn is_shaped(side: &Side<'_>, row: usize, from: &Known, to: &Known) -> bool {
    let data = side.module.node(side.rows[row].node);
    if !is_onnx(data, "Reshape") {
        return true;
    }
    let copies = data.int("allowzero", 0) == 0;
    let target: Vec<Option<DimExpr>> = match data.ints("shape") {
        Some(extents) => extents.iter().map(|extent| Some(DimExpr::constant(*extent))).collect(),
        None => {
            let Some(shape) = data.inputs.get(1).copied().flatten() else { return false };
            match side.elements(shape) {
                Some(elements) => elements.items.iter().map(|item| item.expr()).collect(),
                // A run that gives other elements contradicts the stated type; other types never run.
                None => {
                    return side.module.ty(shape).tensor().is_none_or(|ty| ty.element == ElementType::Int64);
                }
            }
        }
    };
    let (Some(from), Some(to)) = (from.dim_exprs(), to.dim_exprs()) else { return false };
    target.len() == to.len() && gives(side, &target, copies, &from, &to)
}

/// What a reshape says of its result's extents if those of its operand are unknown.
pub(crate) enum OpenTarget {
    /// They follow from those of the operand.
    OfOperand,
    /// Constants of a Reshape.
    Constant(Vec<i64>),
    /// A Reshape that copies extents, or whose target is not constant.
    Unknown,
}

impl OpenTarget {
    /// Returns the target of a row that reshapes its operand.
    pub(crate) fn of(side: &Side<'_>, row: usize) -> Self {
        let data = side.module.node(side.rows[row].node);
        if !is_onnx(data, "Reshape") {
            return Self::OfOperand;
        }
        let shape = data.inputs.get(1).copied().flatten().and_then(|shape| side.elements(shape));
        let extents =
            shape.and_then(|target| target.items.iter().map(|item| item.expr()?.as_constant()).collect());
        let copies = data.int("allowzero", 0) == 0;
        extents
            .filter(|extents: &Vec<i64>| !(copies && extents.contains(&0)))
            .map_or(Self::Unknown, Self::Constant)
    }

    /// Whether the target allows stated extents: a run that gives others contradicts the stated type.
    pub(crate) fn gives(&self, to: &Known) -> bool {
        match self {
            Self::OfOperand => true,
            Self::Constant(extents) => to.dim_exprs().is_some_and(|to| {
                let fits =
                    |(extent, to): (&i64, &DimExpr)| *extent == -1 || to.as_constant() == Some(*extent);
                extents.len() == to.len()
                    && extents.iter().filter(|extent| **extent == -1).count() <= 1
                    && extents.iter().zip(&to).all(fits)
            }),
            Self::Unknown => false,
        }
    }

    /// Whether the result follows from the target and the operand's elements alone.
    pub(crate) fn copies_no_extent(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// Whether a node is a Transpose that moves only axes of extent 1: its result holds the elements of its
/// operand in their order.
pub(crate) fn moves_only_ones(side: &Side<'_>, row: usize, from: &Known) -> bool {
    let data = side.module.node(side.rows[row].node);
    let Some(extents) = from.dim_exprs().filter(|_| is_onnx(data, "Transpose")) else { return false };
    let axes: Option<Vec<usize>> = match data.ints("perm") {
        Some(axes) => axes.iter().map(|axis| usize::try_from(*axis).ok()).collect(),
        None => Some((0..extents.len()).rev().collect()),
    };
    let is_long = |axis: &usize| extents.get(*axis).is_none_or(|extent| extent.as_constant() != Some(1));
    axes.is_some_and(|axes| axes.len() == extents.len() && axes.into_iter().filter(is_long).is_sorted())
}

fn gives(
    side: &Side<'_>,
    target: &[Option<DimExpr>],
    copies: bool,
    from: &[DimExpr],
    to: &[DimExpr],
) -> bool {
    let is_rest = |extent: &&Option<DimExpr>| extent.as_ref().and_then(DimExpr::as_constant) == Some(-1);
    if target.iter().filter(is_rest).count() > 1 {
        return false;
    }
    let known = target
        .iter()
        .zip(to)
        .enumerate()
        .filter_map(|(axis, (wanted, extent))| Some((axis, wanted.as_ref()?, extent)));
    known.into_iter().all(|(axis, wanted, extent)| match wanted.as_constant() {
        // The rest follows from the other extents and the number of elements, if none of these is 0.
        Some(-1) => {
            let others = to.iter().enumerate().filter(|(other, _)| *other != axis);
            others.clone().all(|(_, extent)| side.extents.lowest(extent).is_some_and(|least| least > 0))
        }
        Some(0) if copies => from.get(axis) == Some(extent),
        Some(_) => wanted == extent,
        // An extent that can be 0 copies another one then.
        None => {
            let is_kept = from.get(axis) == Some(extent) || !copies;
            side.extents.simplified(wanted) == side.extents.simplified(extent)
                && (is_kept || side.extents.lowest(wanted).is_some_and(|least| least > 0))
        }
    })
}
