//! Which positions of operands decide some positions of a result: the checker's own list, which shares
//! nothing with the facts that planners cut by.
//!
//! Meanings are those of the ONNX operators. An operator that is not listed, and an axis along which
//! positions depend on each other, is never cut through.

use memc_ir::{DimExpr, NodeData};
use memc_ops::normalize_axis;

use super::span::Span;

/// Domain of ONNX Runtime's own operators.
const RUNTIME: &str = "com.microsoft";

/// What positions of one axis of a result need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Need {
    /// By operand: the axis along which it needs some positions; `None` if it is needed whole.
    pub(super) axes: Vec<Option<usize>>,
    /// Positions of operand 0 if they differ from those of the result, with the padding before and after.
    pub(super) window: Option<(Span, i64, i64)>,
    /// Operand that states the extents of the result.
    pub(super) stated: Option<usize>,
}

/// A node of which positions are cut, with the extents of its operands and of its result.
pub(super) struct Cut<'c> {
    pub(super) node: &'c NodeData,
    pub(super) opset: i64,
    /// Extents of the operands; `None` for missing or unknown ones.
    pub(super) operands: &'c [Option<&'c [DimExpr]>],
    pub(super) result: &'c [DimExpr],
    /// Constant integers of operand 1, for axes of reductions.
    pub(super) integers: Option<Vec<i64>>,
}

/// Operators that compute each element from the elements at its place, with operands repeated to the extents
/// of the result.
const BY_PLACE: [&str; 63] = [
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Tanh",
    "Where",
];
/// Operators that only move elements, so that a cut keeps every bit.
const MOVES: [&str; 10] = [
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "Identity",
    "Pad",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
];
/// Operators that keep the elements in their order under other extents.
const RESHAPES: [&str; 4] = ["Flatten", "Reshape", "Squeeze", "Unsqueeze"];
/// Operators over all axes from the attribute `axis` on, each place of the other axes by itself.
const NORMS: [&str; 3] = ["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"];

/// Products of rows with a packed weight, of ONNX Runtime's own domain.
const PACKED: [&str; 2] = ["MatMulBnb4", "MatMulNBits"];
/// Normalizations of rows of a sum of two operands, of ONNX Runtime's own domain. All results have these
/// rows.
const SKIPS: [&str; 2] = ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"];

/// Returns whether [`need`] holds for each result of a node with several ones.
pub(super) fn has_equal_rows(node: &NodeData) -> bool {
    &*node.operator.domain == RUNTIME && SKIPS.contains(&&*node.operator.name)
}

/// Returns whether an ONNX operator computes each element from the elements at its place.
pub(super) fn is_by_place(name: &str) -> bool {
    BY_PLACE.contains(&name)
}

/// Returns whether a node only moves elements.
pub(super) fn moves(node: &NodeData) -> bool {
    node.operator.domain.is_empty()
        && (MOVES.contains(&&*node.operator.name) || &*node.operator.name == "Transpose")
}

/// Returns whether a node keeps the elements in their order under other extents.
pub(super) fn reshapes(node: &NodeData) -> bool {
    node.operator.domain.is_empty() && RESHAPES.contains(&&*node.operator.name)
}

/// Returns what positions `range` of an axis of a node's only result need, or of each result where
/// [`has_equal_rows`]; `None` if the list does not say.
pub(super) fn need(cut: &Cut<'_>, axis: usize, range: &Span) -> Option<Need> {
    let (node, rank) = (cut.node, cut.result.len());
    if !node.operator.domain.is_empty() {
        let axes = cut.rows_of_runtime(axis)?;
        return Some(Need { axes, window: None, stated: None });
    }
    let plain = |axes: Vec<Option<usize>>| Some(Need { axes, window: None, stated: None });
    let first = || cut.operands.first().copied().flatten();
    let only_first = |own: usize| plain(cut.whole_but(0, own));
    match &*node.operator.name {
        name if BY_PLACE.contains(&name) => plain(cut.by_place(axis)?),
        name if RESHAPES.contains(&name) => only_first(cut.kept_axis(axis)?),
        "Transpose" => {
            let reversed = || (0..rank as i64).rev().collect();
            let order: Vec<i64> = node.ints("perm").map_or_else(reversed, <[i64]>::to_vec);
            only_first(usize::try_from(*order.get(axis)?).ok()?)
        }
        "Expand" => {
            let own = cut.repeated(0, axis)?;
            let axes = cut.operands.iter().enumerate().map(|(at, _)| own.filter(|_| at == 0)).collect();
            Some(Need { axes, window: None, stated: Some(1) })
        }
        "MatMul" => {
            let [left, right] =
                [0, 1].map(|at| cut.operands.get(at).copied().flatten().map(<[DimExpr]>::len));
            let (left, right) = (left.filter(|rank| *rank >= 2)?, right.filter(|rank| *rank >= 2)?);
            match rank - axis {
                1 => plain(vec![None, Some(right - 1)]),
                2 => plain(vec![Some(left - 2), None]),
                _ => plain(cut.by_place(axis)?),
            }
        }
        "Gemm" => {
            let is_turned = |name: &str| node.int(name, 0) != 0;
            let mut axes = match axis {
                0 => vec![Some(usize::from(is_turned("transA"))), None],
                _ => vec![None, Some(usize::from(!is_turned("transB")))],
            };
            if cut.operands.len() > 2 {
                axes.push(if cut.operands[2].is_some() { cut.repeated(2, axis)? } else { None });
            }
            plain(axes)
        }
        // Before version 13, all axes from `axis` on are one.
        "Softmax" | "LogSoftmax" => {
            let usual = if cut.opset < 13 { 1 } else { -1 };
            let own = normalize_axis(node.int("axis", usual), rank)?;
            let is_apart = if cut.opset < 13 { axis < own } else { axis != own };
            if is_apart { only_first(axis) } else { None }
        }
        name if NORMS.contains(&name) => {
            let own = normalize_axis(node.int("axis", -1), rank)?;
            let others =
                cut.operands.iter().skip(1).all(|dims| dims.is_none_or(|dims| dims.len() <= rank - own));
            if axis < own && others { only_first(axis) } else { None }
        }
        "BatchNormalization" if node.int("training_mode", 0) == 0 && rank > 1 => match axis {
            1 => plain(vec![Some(1), Some(0), Some(0), Some(0), Some(0)]),
            _ => only_first(axis),
        },
        "CumSum" => {
            let own = normalize_axis(*cut.integers.as_ref()?.first()?, rank)?;
            if axis == own { None } else { only_first(axis) }
        }
        "Gather" => {
            let [data, indices] = [0, 1].map(|at| cut.operands.get(at).copied().flatten());
            let own = normalize_axis(node.int("axis", 0), data?.len())?;
            let count = indices?.len();
            match axis {
                axis if axis < own => plain(vec![Some(axis), None]),
                axis if axis < own + count => plain(vec![None, Some(axis - own)]),
                axis => plain(vec![Some(axis + 1 - count), None]),
            }
        }
        // The result has the axes of the indices but the last one, then those of the slices; both operands
        // have the first axes of a batch.
        "GatherND" => {
            let [data, indices] = [0, 1].map(|at| cut.operands.get(at).copied().flatten());
            let (data, (depth, chosen)) = (data?, indices?.split_last()?);
            let slice = data.len().checked_sub(rank.checked_sub(chosen.len())?)?;
            let batch = usize::try_from(node.int("batch_dims", 0)).ok()?;
            (depth.as_constant()? == slice.checked_sub(batch)? as i64).then_some(())?;
            match axis {
                axis if axis < batch => plain(vec![Some(axis), Some(axis)]),
                axis if axis < chosen.len() => plain(vec![None, Some(axis)]),
                axis => plain(vec![Some(slice + axis - chosen.len()), None]),
            }
        }
        // Axes of images and of channels before the spatial ones, each pair by itself.
        "GlobalAveragePool" | "GlobalLpPool" | "GlobalMaxPool" if axis < 2 => only_first(axis),
        // Only images are apart: channels are joined or normalized together, or change places.
        "ConvTranspose"
        | "DepthToSpace"
        | "GroupNormalization"
        | "InstanceNormalization"
        | "LRN"
        | "SpaceToDepth"
            if axis == 0 =>
        {
            only_first(0)
        }
        "Resize" => {
            let keeps = node.string("coordinate_transformation_mode") != Some("tf_crop_and_resize")
                && node.ints("axes").is_none();
            (keeps && *first()?.get(axis)? == cut.result[axis]).then_some(())?;
            let stated = cut.operands.get(3).copied().flatten().map(|_| 3);
            Some(Need { axes: cut.whole_but(0, axis), window: None, stated })
        }
        name if name.starts_with("Reduce") || matches!(name, "ArgMax" | "ArgMin") => {
            only_first(cut.unreduced(axis)?)
        }
        "Conv" | "AveragePool" | "MaxPool" | "LpPool" => match axis {
            0 => only_first(0),
            1 if &*node.operator.name != "Conv" => only_first(1),
            1 if node.int("group", 1) == 1 => {
                plain(vec![None, Some(0), Some(0)].into_iter().take(cut.operands.len()).collect())
            }
            1 => None,
            _ => {
                let window = Some(cut.window(axis - 2, first()?, range)?);
                Some(Need { axes: cut.whole_but(0, axis), window, stated: None })
            }
        },
        _ => None,
    }
}

impl Cut<'_> {
    /// Axis of each operand along an axis of rows of the results, for operators of ONNX Runtime's own domain.
    fn rows_of_runtime(&self, axis: usize) -> Option<Vec<Option<usize>>> {
        let (operator, rank) = (&self.node.operator, self.result.len());
        let has_rank =
            |at: usize| self.operands.get(at).copied().flatten().is_some_and(|dims| dims.len() == rank);
        (&*operator.domain == RUNTIME && axis + 1 < rank && has_rank(0)).then_some(())?;
        let mut axes = self.whole_but(0, axis);
        match &*operator.name {
            name if PACKED.contains(&name) => {}
            name if SKIPS.contains(&name) => {
                *axes.get_mut(1)? = self.repeated(1, axis)?;
                self.operands[2..].iter().all(|dims| dims.is_none_or(|dims| dims.len() <= 1)).then_some(())?;
            }
            _ => return None,
        }
        Some(axes)
    }

    /// One operand along an axis, the others whole.
    fn whole_but(&self, operand: usize, axis: usize) -> Vec<Option<usize>> {
        (0..self.operands.len()).map(|at| Some(axis).filter(|_| at == operand)).collect()
    }

    /// Axis of each operand that lies along an axis of the result, as ONNX repeats operands.
    fn by_place(&self, axis: usize) -> Option<Vec<Option<usize>>> {
        (0..self.operands.len())
            .map(|at| if self.node.inputs.get(at)?.is_some() { self.repeated(at, axis) } else { Some(None) })
            .collect()
    }

    /// Axis of an operand along an axis of the result: `Some(None)` if it is repeated there, `None` if its
    /// extents are unknown or do not fit.
    fn repeated(&self, operand: usize, axis: usize) -> Option<Option<usize>> {
        let dims = (*self.operands.get(operand)?)?;
        let Some(own) = (axis + dims.len()).checked_sub(self.result.len()) else { return Some(None) };
        match dims[own].as_constant() {
            Some(1) => Some(None),
            _ if dims[own] == self.result[axis] => Some(Some(own)),
            _ => None,
        }
    }

    /// Axis of operand 0 whose positions are those of an axis of the result in the same order: equal extents,
    /// and equally many elements in all axes before.
    fn kept_axis(&self, axis: usize) -> Option<usize> {
        let dims = (*self.operands.first()?)?;
        let before = |dims: &[DimExpr]| {
            dims.iter().try_fold(DimExpr::constant(1), |product, extent| product.mul(extent))
        };
        let (wanted, extent) = (before(&self.result[..axis])?, &self.result[axis]);
        (extent.as_constant() != Some(1)).then_some(())?;
        (0..dims.len()).find(|own| dims[*own] == *extent && before(&dims[..*own]).as_ref() == Some(&wanted))
    }

    /// Axis of operand 0 that a reduction leaves as an axis of its result.
    fn unreduced(&self, axis: usize) -> Option<usize> {
        let rank = (*self.operands.first()?)?.len();
        let is_place = matches!(&*self.node.operator.name, "ArgMax" | "ArgMin");
        let attribute = || self.node.ints("axes").map(<[i64]>::to_vec);
        let axes = match self.node.inputs.get(1).copied().flatten() {
            _ if is_place => vec![self.node.int("axis", 0)],
            Some(_) => self.integers.clone()?,
            None => attribute().unwrap_or_default(),
        };
        // Without axes a reduction takes all of them, or none; neither is followed.
        let reduced: Vec<usize> = axes.iter().map(|own| normalize_axis(*own, rank)).collect::<Option<_>>()?;
        (!reduced.is_empty()).then_some(())?;
        match self.node.int("keepdims", 1) {
            0 => (0..rank).filter(|own| !reduced.contains(own)).nth(axis),
            _ => Some(axis).filter(|own| !reduced.contains(own)),
        }
    }

    /// Positions of operand 0 under the windows of positions of a spatial axis, and the padding that these
    /// windows have before and after the operand.
    fn window(&self, spatial: usize, dims: &[DimExpr], range: &Span) -> Option<(Span, i64, i64)> {
        let (node, range) = (self.node, range.known()?);
        let count = dims.len().checked_sub(2)?;
        let at = |name: &str, usual: i64| match node.ints(name) {
            Some(all) => all.get(spatial).copied(),
            None => Some(usual),
        };
        // Padding that the runtime computes, and windows that only begin inside, are not followed.
        (node.string("auto_pad").unwrap_or("NOTSET") == "NOTSET" && node.int("ceil_mode", 0) == 0)
            .then_some(())?;
        let of_weights = || (*self.operands.get(1)?)?.get(spatial + 2)?.as_constant();
        let kernel = match &*node.operator.name {
            "Conv" => of_weights()?,
            _ => *node.ints("kernel_shape")?.get(spatial)?,
        };
        let (stride, dilation) = (at("strides", 1)?, at("dilations", 1)?);
        let begin = node.ints("pads").map_or(Some(0), |pads| pads.get(spatial).copied())?;
        let end = node.ints("pads").map_or(Some(0), |pads| pads.get(spatial + count).copied())?;
        let extent = dims.get(spatial + 2)?.as_constant()?;
        (kernel > 0 && stride > 0 && dilation > 0 && begin >= 0 && end >= 0).then_some(())?;
        let (first, last) =
            (i64::try_from(range.start).ok()?, i64::try_from(range.end).ok()?.checked_sub(1)?);
        let from = first.checked_mul(stride)?.checked_sub(begin)?;
        let reach = (kernel - 1).checked_mul(dilation)?.checked_add(1)?;
        let to = last.checked_mul(stride)?.checked_sub(begin)?.checked_add(reach)?;
        (to <= extent.checked_add(end)?).then_some(())?;
        let (start, stop) = (from.clamp(0, extent), to.clamp(0, extent));
        (start < stop).then(|| (Span::fixed(start as u64..stop as u64), start - from, to - stop))
    }
}
