//! Workspace of kernels as expressions over symbols: at all extents at least the bytes of the formula over
//! numbers.

use std::ops::{Add, Mul};

use memc_ir::{DimExpr, ElementType, TensorType};

use super::conv_workspace::{self, SEGMENT};
use crate::context::normalize_axis;
use crate::info::Typed;

/// Granularity of allocations of ONNX Runtime, in bytes.
const ROUNDING: i64 = 64;
/// Size of small tables of attention kernels, in bytes; as in the formula over numbers.
const TABLES: u64 = super::contrib_workspace::TABLES;

/// A number over symbols; `None` if an extent depends on a run, or the expression becomes too large.
#[derive(Clone)]
struct Size(Option<DimExpr>);

impl Size {
    fn number(value: u64) -> Self {
        Self(i64::try_from(value).ok().map(DimExpr::constant))
    }
    /// Product of all extents of a tensor.
    fn elements(ty: Option<&TensorType>) -> Self {
        let dims = ty.and_then(|ty| ty.shape.as_deref());
        dims.map_or(Self(None), |dims| Self::product(dims.iter().map(|dim| Self(dim.expr()))))
    }
    fn product(factors: impl IntoIterator<Item = Self>) -> Self {
        factors.into_iter().fold(Self::number(1), |product, factor| product * factor)
    }
    fn sum(addends: impl IntoIterator<Item = Self>) -> Self {
        addends.into_iter().fold(Self::number(0), |sum, addend| sum + addend)
    }
    fn max(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(left, right)| DimExpr::max_of(vec![left, right])))
    }
    fn min(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(left, right)| DimExpr::min_of(vec![left, right])))
    }
    /// Rounds up to a multiple of the granularity of allocations.
    fn rounded(self) -> Self {
        let by = DimExpr::constant(ROUNDING);
        Self(self.0.and_then(|size| size.ceil_div(&by)?.mul(&by)))
    }
    /// Divides by a constant and rounds up.
    fn ceil_div(self, by: u64) -> Self {
        Self(self.0.and_then(|size| size.ceil_div(&DimExpr::constant(i64::try_from(by).ok()?))))
    }
    fn known(&self) -> Option<u64> {
        self.0.as_ref()?.as_constant().and_then(|value| u64::try_from(value).ok())
    }
}

impl Add for Size {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(left, right)| left.add(&right)))
    }
}

impl Mul for Size {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(left, right)| left.mul(&right)))
    }
}

/// Returns the bytes of an element; in full precision if `in_full`.
fn width(ty: Option<&TensorType>, in_full: bool) -> Size {
    let element = ty.map(|ty| if in_full && ty.element == ElementType::Float16 { ElementType::Float } else { ty.element });
    element.and_then(ElementType::bits).map_or(Size(None), |bits| Size::number(u64::from(bits.div_ceil(8))))
}

/// Returns the extent of an operand along an axis.
fn extent(ty: Option<&TensorType>, axis: usize) -> Size {
    Size(ty.and_then(|ty| ty.shape.as_deref()?.get(axis)?.expr()))
}

/// Returns the product of the extents of an operand from an axis on.
fn from_axis(ty: Option<&TensorType>, axis: usize) -> Size {
    let dims = ty.and_then(|ty| ty.shape.as_deref()?.get(axis..));
    dims.map_or(Size(None), |dims| Size::product(dims.iter().map(|dim| Size(dim.expr()))))
}

/// Returns the number of heads; `None` if it is not stated.
fn head_count(typed: &Typed<'_>) -> Option<u64> {
    u64::try_from(typed.data().int("num_heads", 0)).ok().filter(|heads| *heads > 0)
}

fn present(typed: &Typed<'_>, operand: usize) -> bool {
    typed.data().inputs.get(operand).copied().flatten().is_some()
}

/// Biased copy of operand 0, if there is a bias.
pub(crate) fn biased_copy(typed: &Typed<'_>) -> Option<DimExpr> {
    if present(typed, 1) { typed.output(0)?.size_expr() } else { Some(DimExpr::constant(0)) }
}

/// Copy of operand 0 in binary32.
pub(crate) fn float_copy(typed: &Typed<'_>) -> Option<DimExpr> {
    (Size::elements(typed.input(0)) * Size::number(4)).0
}

/// Two buffers of the size of result 0.
pub(crate) fn two_copies(typed: &Typed<'_>) -> Option<DimExpr> {
    typed.output(0)?.size_expr()?.mul(&DimExpr::constant(2))
}

/// Two buffers of the size of result 0, or none if attribute `axis` is the last axis.
pub(crate) fn moved_axis(typed: &Typed<'_>) -> Option<DimExpr> {
    let rank = typed.output(0)?.rank()?;
    let last = normalize_axis(typed.data().int("axis", -1), rank).is_some_and(|axis| axis + 1 == rank);
    if last { Some(DimExpr::constant(0)) } else { two_copies(typed) }
}

/// Operand 0 in bytes.
pub(crate) fn quantized_operand(typed: &Typed<'_>) -> Option<DimExpr> {
    Size::elements(typed.input(0)).0
}

/// The 32-bit product before it is quantized again.
pub(crate) fn requantized_product(typed: &Typed<'_>) -> Option<DimExpr> {
    let each = if typed.output(0)?.element == ElementType::Float { 0 } else { 4 };
    (Size::elements(typed.output(0)) * Size::number(each)).0
}

/// Columns of a convolution: those of a whole image if it has fewer positions than filters, else a
/// segment of fixed size.
pub(crate) fn conv(typed: &Typed<'_>) -> Option<DimExpr> {
    let (data, weights) = (typed.input(0)?, typed.input(1)?.known_dims()?);
    let groups = u64::try_from(typed.data().int("group", 1)).ok()?;
    let (filters, window) = (weights.first()?.checked_div(groups)?, weights.get(2..)?);
    let rows = Size::product(weights.get(1..)?.iter().map(|extent| Size::number(*extent)));
    let positions = from_axis(typed.output(0), 2);
    let columns = rows.clone() * positions.clone();
    let each = width(Some(data), true);
    let segmented = matches!(data.element, ElementType::Float | ElementType::Float16) && (1..=3).contains(&window.len());
    if conv_workspace::is_pointwise(typed.data(), window) && (segmented || data.element == ElementType::Double) {
        return Some(DimExpr::constant(0));
    }
    if !segmented {
        let is_known = matches!(data.element, ElementType::Float | ElementType::Float16 | ElementType::Double);
        return if is_known { (columns * each).0 } else { None };
    }
    let Some(most) = filters.checked_sub(1).filter(|most| *most > 0) else { return (Size::number(SEGMENT) * each).0 };
    // 1 if an image has at least as many positions as there are filters, else 0.
    let is_large = Size(positions.0.as_ref().and_then(|of| of.floor_div(&DimExpr::constant(i64::try_from(filters).ok()?))));
    let is_large = is_large.min(Size::number(1));
    let is_small = Size::number(1) + is_large.clone() * Size(Some(DimExpr::constant(-1)));
    let few = rows.clone() * positions.min(Size::number(most));
    // One of both is 0. A maximum has tighter bounds than a sum.
    let exact = (is_small * few.clone()).max(is_large * Size::number(SEGMENT)) * each.clone();
    // If the expression is too large, the larger of both bounds all extents.
    let bound = |few: Size| (few.max(Size::number(SEGMENT)) * each.clone()).0;
    exact.0.or_else(|| bound(few)).or_else(|| bound(rows * Size::number(most)))
}

/// Columns of one group of one image.
pub(crate) fn transposed(typed: &Typed<'_>) -> Option<DimExpr> {
    (from_axis(typed.input(1), 1) * from_axis(typed.input(0), 2) * width(typed.input(0), true)).0
}

/// Columns of one image of a gradient.
pub(crate) fn convolution_gradient(typed: &Typed<'_>) -> Option<DimExpr> {
    (from_axis(typed.input(2), 1) * from_axis(typed.input(0), 2) * width(typed.input(0), false)).0
}

/// Scales of all images, and squares of one image with padded channels.
pub(crate) fn local_response(typed: &Typed<'_>) -> Option<DimExpr> {
    let size = u64::try_from(typed.data().int("size", 1)).ok()?.checked_sub(1)?;
    let image = (extent(typed.input(0), 1) + Size::number(size)) * from_axis(typed.input(0), 2);
    ((Size::elements(typed.input(0)) + image) * width(typed.input(0), true)).0
}

/// Scores of all heads.
pub(crate) fn attention(typed: &Typed<'_>) -> Option<DimExpr> {
    let (query, key) = (typed.input(0), typed.input(1));
    let past = if present(typed, 4) { extent(typed.input(4), 2) } else { Size::number(0) };
    let (heads, axis) = match query?.rank()? {
        4 => (extent(query, 1), 2),
        3 => (Size::number(u64::try_from(typed.data().int("q_num_heads", 0)).ok()?), 1),
        _ => return None,
    };
    let pairs = extent(query, axis) * (extent(key, axis) + past);
    (extent(query, 0) * heads * pairs * width(query, false)).0
}

/// Attention with its projection: projected queries, keys and values, all scores, result and mask.
pub(crate) fn projected_attention(typed: &Typed<'_>) -> Option<DimExpr> {
    let (operand, result) = (typed.input(0), typed.output(0));
    let heads = head_count(typed)?;
    result?.rank().filter(|rank| *rank == 3)?;
    let is_past = |index: &usize| typed.input(*index).and_then(TensorType::rank) == Some(5);
    let past = [4, 8].into_iter().find(is_past).map_or(Size::number(0), |index| extent(typed.input(index), 3));
    let each = width(result, false);
    let (batch, rows) = (extent(result, 0), extent(result, 1));
    let last = typed.input(1)?.rank()?.checked_sub(1)?;
    let projected = Size::product([extent(operand, 0), extent(operand, 1), extent(typed.input(1), last), each.clone()]);
    let pairs = Size::product([batch.clone(), rows.clone(), rows.clone() + past, each.clone()]);
    let own = Size::product([batch, rows, extent(result, 2).ceil_div(heads) * Size::number(heads), each]);
    Size::sum([projected, pairs.clone() * Size::number(heads), own, pairs, Size::number(TABLES)]).0
}

/// One block of scores, as many keys as fit the cache. `both` is the sum of the widths of a key head and of
/// a value head.
fn blocks(rows: Size, keys: Size, both: u64, value_head: Size) -> Size {
    let fitting = super::contrib_workspace::CACHE.checked_div(both.saturating_mul(16)).unwrap_or(0).max(1);
    let keys = Size::number(fitting).min(keys.max(Size::number(1)));
    let rows = rows.min(Size::number(both)).min(keys.clone());
    rows * (keys + value_head + Size::number(2)) * Size::number(4)
}

/// Many-head attention: operands with heads first, and scores block by block, or all scores with result
/// and mask.
pub(crate) fn many_heads(typed: &Typed<'_>) -> Option<DimExpr> {
    let (query, key, result) = (typed.input(0), typed.input(1), typed.output(0));
    let heads = head_count(typed)?;
    let (batch, rows, hidden) = (extent(result, 0), extent(result, 1), extent(result, 2));
    result?.rank().filter(|rank| *rank == 3)?;
    let heads_first = key.and_then(TensorType::rank) == Some(4);
    let new_keys = if key.is_some() { extent(key, if heads_first { 2 } else { 1 }) } else { rows.clone() };
    let has_past = present(typed, 6) && typed.input(6)?.rank()? == 4;
    let past = if has_past { extent(typed.input(6), 2) } else { Size::number(0) };
    let width_of_queries = if query?.rank()? == 3 { extent(query, 2) } else { hidden.clone() };
    let each = width(result, false);
    let in_heads = |hidden: Size| hidden.ceil_div(heads) * Size::number(heads);
    let queries = Size::product([batch.clone(), rows.clone(), in_heads(width_of_queries.clone()), each.clone()]);
    let positions = Size::product([batch.clone(), new_keys.clone(), each.clone()]);
    let (keys, values) = (positions.clone() * in_heads(width_of_queries.clone()), positions * in_heads(hidden.clone()));
    let all_keys = new_keys + past;
    let pairs = Size::product([batch.clone(), rows.clone(), all_keys.clone(), each.clone()]);
    let both = (width_of_queries.clone().ceil_div(heads) + hidden.clone().ceil_div(heads)).known();
    let blocks = both.map_or(Size(None), |both| blocks(rows.clone(), all_keys.clone(), both, hidden.clone().ceil_div(heads)));
    let whole = pairs.clone() * Size::number(heads) + Size::product([batch, rows, in_heads(hidden), each]) + pairs;
    let causal = typed.data().int("unidirectional", 0) != 0;
    let is_whole = heads_first || causal || [4, 5, 6].iter().any(|operand| present(typed, *operand)) || typed.output(3).is_some();
    let scores = if is_whole { whole } else { blocks };
    let biased = if present(typed, 3) { queries.clone().max(keys.clone()).max(values.clone()) } else { Size::number(0) };
    let moved = if heads_first && !present(typed, 6) { Size::number(0) } else { keys + values };
    Size::sum([queries, moved, scores.max(biased), Size::number(TABLES)]).0
}

/// Grouped-head attention: operands with heads first, a second copy if they are rotated, then scores block by
/// block, or all of them with the result.
pub(crate) fn grouped_heads(typed: &Typed<'_>) -> Option<DimExpr> {
    let result = typed.output(0);
    result?.rank().filter(|rank| *rank == 3)?;
    let counts =
        ["num_heads", "kv_num_heads"].map(|name| u64::try_from(typed.data().int(name, 0)).ok().filter(|count| *count > 0));
    let [Some(heads), Some(groups)] = counts else { return None };
    let (batch, rows, each) = (extent(result, 0), extent(result, 1), width(result, false));
    let head = extent(result, 2).ceil_div(heads);
    let filled = |ty: Option<&TensorType>| if ty.and_then(TensorType::rank) == Some(4) { extent(ty, 2) } else { Size::number(0) };
    let keys = (rows.clone() + filled(typed.input(3))).max(filled(typed.output(1)));
    let positions = Size::product([batch.clone(), rows.clone(), each.clone(), head.clone()]);
    let own = positions.clone() * Size::number(heads);
    let operands = own.clone() + positions * Size::number(groups.checked_mul(2)?);
    let copies = if typed.data().int("do_rotary", 0) != 0 { 2 } else { 1 };
    let is_whole = typed.data().float("softcap", 0.0) != 0.0
        || typed.data().int("smooth_softmax", 0) != 0
        || [10, 11].iter().any(|operand| present(typed, *operand))
        || typed.output(3).is_some();
    let scores = if is_whole {
        Size::product([batch, Size::number(heads), rows, keys, each]) + own
    } else {
        blocks(rows, keys, head.known()?.checked_mul(2)?, head)
    };
    Size::sum([operands * Size::number(copies), scores, Size::number(TABLES)]).0
}

/// Product with 4-bit weights: a block of columns in binary32, or the left operand in bytes with 8 bytes more
/// per block.
pub(crate) fn packed_product(typed: &Typed<'_>) -> Option<DimExpr> {
    let data = typed.data();
    let inner = u64::try_from(data.int("K", 0)).ok().filter(|inner| *inner > 0)?;
    let block = u64::try_from(data.int("block_size", 32)).ok().filter(|block| *block > 0)?;
    let rows = Size::elements(typed.input(0)).0?.floor_div(&DimExpr::constant(i64::try_from(inner).ok()?))?;
    let rows = Size(Some(rows));
    let bytes = rows.clone() * Size::number(inner.checked_add(inner.div_ceil(block).checked_mul(8)?)?);
    // A single row is multiplied without unpacking, and so are integers.
    let is_several = Size(rows.0?.floor_div(&DimExpr::constant(2))).min(Size::number(1));
    let each = if data.int("accuracy_level", 0) == 4 { 0 } else { inner.checked_mul(128)? };
    (bytes.max(is_several * Size::number(each)) + Size::number(ROUNDING.unsigned_abs())).0
}

/// Columns of an integer convolution.
pub(crate) fn integer_convolution(typed: &Typed<'_>) -> Option<DimExpr> {
    let weight = typed.input(1)?.known_dims()?;
    if conv_workspace::is_pointwise(typed.data(), weight.get(2..)?) {
        return Some(DimExpr::constant(0));
    }
    (Size::product(weight.get(1..)?.iter().map(|extent| Size::number(*extent))) * from_axis(typed.output(0), 2)).0
}

/// Quantized convolution of one image at a time, for any kernel: operand and result with channels last, the
/// larger of pointers and columns, a 32-bit product, and reordered weights if they are no constant.
pub(crate) fn quantized_convolution(typed: &Typed<'_>) -> Option<DimExpr> {
    let (data, weight) = (typed.data(), typed.input(3)?.known_dims()?);
    let (filters, channels) = (*weight.first()?, *weight.get(1)?);
    let window = weight.get(2..)?;
    let taps = Size::product(window.iter().map(|extent| Size::number(*extent)));
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    let is_last = data.int("channels_last", 0) != 0;
    let image = |ty: Option<&TensorType>| from_axis(ty, 1);
    let moved = if is_last { Size::number(0) } else { image(typed.input(0)) + image(typed.output(0)) };
    let whole = typed.output(0)?.shape.as_deref()?;
    let spatial = if is_last { whole.get(1..whole.len().checked_sub(1)?)? } else { whole.get(2..)? };
    let positions = Size::product(spatial.iter().map(|dim| Size(dim.expr())));
    let is_depthwise = channels == 1 && groups == filters;
    let is_constant = data.inputs.get(3).copied().flatten().is_some_and(|value| typed.module.constant_of(value).is_some());
    let wide = Size::product([positions.clone(), Size::number(filters), Size::number(4)]);
    let each = if is_depthwise {
        Size::number(8)
    } else if conv_workspace::is_pointwise(data, window) {
        Size::number(0)
    } else {
        let at_once = if window.len() > 2 { groups } else { 1 };
        Size::number(channels.checked_mul(at_once)?.max(8))
    };
    let reordered = if is_constant { Size::number(0) } else { Size::product(weight.iter().map(|extent| Size::number(*extent))) };
    Size::sum([moved, Size::product([positions, taps, each]), wide, reordered, Size::number(4 * ROUNDING.unsigned_abs())]).0
}

/// Table of pointers into one channels-last image: one for each position and element of the window.
pub(crate) fn window_pointers(typed: &Typed<'_>) -> Option<DimExpr> {
    let dims = typed.output(0)?.shape.as_deref()?;
    let positions = Size::product(dims.get(1..dims.len().checked_sub(1)?)?.iter().map(|dim| Size(dim.expr())));
    let taps = typed.data().ints("kernel_shape")?.iter().map(|extent| u64::try_from(*extent).map_or(Size(None), Size::number));
    (positions * Size::product(taps) * Size::number(8)).0
}

/// Extents of a recurrent layer.
struct Layer<'a> {
    typed: &'a Typed<'a>,
    steps: Size,
    batch: Size,
    hidden: Size,
}

impl<'a> Layer<'a> {
    fn read(typed: &'a Typed<'a>) -> Self {
        let (steps, batch) = if typed.data().int("layout", 0) == 0 { (0, 1) } else { (1, 0) };
        let data = typed.input(0);
        Self { typed, steps: extent(data, steps), batch: extent(data, batch), hidden: extent(typed.input(2), 2) }
    }
    fn buffer(&self, extents: impl IntoIterator<Item = Size>) -> Size {
        (Size::product(extents) * width(self.typed.input(0), true)).rounded()
    }
    fn state(&self) -> Size {
        self.buffer([self.batch.clone(), self.hidden.clone()])
    }
    fn directions(&self) -> Size {
        extent(self.typed.input(1), 0)
    }
    fn gates(&self) -> Size {
        self.buffer([extent(self.typed.input(1), 1), self.steps.clone(), self.batch.clone()])
    }
    fn lengths(&self) -> Size {
        (self.batch.clone() * Size::number(4)).rounded()
    }
    fn reversed(&self) -> Size {
        let both = || [extent(self.typed.input(0), 2), self.hidden.clone()];
        match self.typed.data().string("direction") {
            Some("reverse" | "bidirectional") => {
                Size::sum(both().map(|width| self.buffer([self.steps.clone(), self.batch.clone(), width])))
            }
            _ => Size::number(0),
        }
    }
    fn wants(&self, result: usize) -> bool {
        self.typed.data().outputs.get(result).is_some_and(Option::is_some)
    }
    fn last(&self, result: usize) -> Size {
        if self.wants(result) {
            return Size::number(0);
        }
        self.buffer([self.directions(), self.batch.clone(), self.hidden.clone()])
    }
}

/// Sums of one direction, and omitted results.
pub(crate) fn rnn(typed: &Typed<'_>) -> Option<DimExpr> {
    let layer = Layer::read(typed);
    let all = if layer.wants(0) {
        Size::number(0)
    } else {
        layer.buffer([layer.steps.clone(), layer.directions(), layer.batch.clone(), layer.hidden.clone()])
    };
    Size::sum([layer.gates(), all, layer.last(1), Size(Some(DimExpr::constant(ROUNDING)))]).0
}

/// Gates, states, biases and lengths of each direction.
pub(crate) fn gru(typed: &Typed<'_>) -> Option<DimExpr> {
    let layer = Layer::read(typed);
    let linear = u64::from(typed.data().int("linear_before_reset", 0) != 0);
    let biases = if present(typed, 3) { 3 + linear } else { 0 };
    let direction = Size::sum([layer.gates(), layer.state() * Size::number(2 + biases + linear), layer.lengths()]);
    Size::sum([direction * layer.directions(), layer.reversed(), layer.last(1)]).0
}

/// Gates, states, vectors and lengths of each direction.
pub(crate) fn lstm(typed: &Typed<'_>) -> Option<DimExpr> {
    let layer = Layer::read(typed);
    let vectors = 2 + if present(typed, 3) { 4 } else { 0 } + if present(typed, 7) { 3 } else { 0 };
    let states = layer.state() * Size::number(3) + layer.buffer([layer.hidden.clone()]) * Size::number(vectors);
    let direction = Size::sum([layer.gates(), states, layer.lengths()]);
    Size::sum([direction * layer.directions(), layer.reversed(), layer.last(1), layer.last(2)]).0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use crate::families::testing::Case;
    use crate::info::Workspace;

    /// A node whose operands have symbols, as text.
    struct Sample {
        operator: &'static str,
        operands: &'static [&'static str],
        ints: &'static [(&'static str, i64)],
        lists: &'static [(&'static str, &'static [i64])],
        strings: &'static [(&'static str, &'static str)],
        results: usize,
        /// Whether the expression gives the bytes of the formula at all extents.
        is_exact: bool,
    }

    const PLAIN: Sample = Sample { operator: "", operands: &[], ints: &[], lists: &[], strings: &[], results: 1, is_exact: true };

    impl Sample {
        /// Makes the node with each symbol replaced by its extent.
        fn case(&self, extents: &BTreeMap<String, u64>) -> Case {
            let (domain, name) = self.operator.split_once("::").unwrap_or(("", self.operator));
            let mut case = Case::of(domain, name, if domain.is_empty() { 17 } else { 1 });
            for operand in self.operands {
                let mut text = (*operand).to_owned();
                for (name, extent) in extents {
                    text = text.replace(name.as_str(), &extent.to_string());
                }
                case = if text.is_empty() { case.fact(None) } else { case.input(&text) };
            }
            for (name, value) in self.ints {
                case = case.int(name, *value);
            }
            for (name, values) in self.lists {
                case = case.ints(name, values);
            }
            for (name, value) in self.strings {
                case = case.string(name, value);
            }
            case.outputs(self.results)
        }
        /// Compares expression and formula at pseudo-random extents.
        fn check(&self) {
            let over = self.case(&BTreeMap::new()).typed(|typed, info| info.workspace_expr.unwrap()(typed)).unwrap();
            let mut state = 7u64;
            for turn in 0..200 {
                let extents: BTreeMap<String, u64> = ["N", "S", "T"]
                    .map(|name| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let most = [3, 9, 40, 200][turn % 4];
                        (name.to_owned(), (state >> 33) % most + u64::from(turn > 20 || name != "N"))
                    })
                    .into();
                if self.case(&extents).run().is_err() {
                    continue;
                }
                let number = self.case(&extents).typed(|typed, info| match info.workspace {
                    Workspace::Bytes(formula) => formula(typed),
                    Workspace::None => None,
                });
                let Some(number) = number else { continue };
                let value = over.bind(&extents).unwrap().as_constant().unwrap();
                let (number, name) = (i64::try_from(number.0).unwrap(), self.operator);
                assert!(value >= number, "{name} at {extents:?}: {value} is below {number}");
                assert!(!self.is_exact || value == number, "{name} at {extents:?}: {value} for {number}");
            }
        }
    }

    #[test]
    fn expressions_of_other_domains_equal_the_formulas() {
        let groups: &[(&str, i64)] = &[("num_heads", 4), ("kv_num_heads", 2)];
        let rotated: &[(&str, i64)] = &[("num_heads", 4), ("kv_num_heads", 2), ("do_rotary", 1), ("smooth_softmax", 1)];
        let grouped: &[&str] = &["f32[N,S,32]", "f32[N,S,16]", "f32[N,S,16]", "f32[N,2,T,8]", "f32[N,2,T,8]"];
        let sample = |operator, operands, ints| Sample { operator, operands, ints, ..PLAIN };
        let all = [
            sample("com.microsoft::GroupQueryAttention", &grouped[..3], groups),
            sample("com.microsoft::GroupQueryAttention", grouped, groups),
            sample("com.microsoft::GroupQueryAttention", grouped, rotated),
            Sample {
                operator: "com.microsoft::QLinearConv",
                operands: &["u8[N,3,S,T]", "f32[]", "u8[]", "u8[16,3,3,3]", "f32[]", "u8[]", "f32[]", "u8[]"],
                lists: &[("pads", &[1; 4])],
                is_exact: false,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::QLinearConv",
                operands: &["u8[N,6,S,T]", "f32[]", "u8[]", "u8[6,1,3,3]", "f32[]", "u8[]", "f32[]", "u8[]"],
                ints: &[("group", 6)],
                lists: &[("pads", &[1; 4])],
                is_exact: false,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::QLinearConv",
                operands: &["u8[N,S,T,4]", "f32[]", "u8[]", "u8[8,4,1,1]", "f32[]", "u8[]", "f32[]", "u8[]"],
                ints: &[("channels_last", 1)],
                is_exact: false,
                ..PLAIN
            },
            sample("com.microsoft::MatMulNBits", &["f32[N,S,64]", "u8[1]", "f32[1]"], &[("K", 64), ("N", 8)]),
            sample(
                "com.microsoft::MatMulNBits",
                &["f32[N,64]", "u8[1]", "f32[1]"],
                &[("K", 64), ("N", 8), ("accuracy_level", 4)],
            ),
            Sample {
                operator: "com.microsoft::NhwcMaxPool",
                operands: &["u8[N,S,T,8]"],
                lists: &[("kernel_shape", &[2, 2]), ("strides", &[2, 2])],
                ..PLAIN
            },
        ];
        all.iter().for_each(Sample::check);
    }

    #[test]
    fn expressions_bound_the_formulas() {
        let heads: &[(&str, i64)] = &[("num_heads", 4)];
        let all = [
            Sample { operator: "com.microsoft::BiasGelu", operands: &["f32[N,S,12]", "f32[12]"], ..PLAIN },
            Sample { operator: "com.microsoft::FastGelu", operands: &["f16[N,S,12]"], ..PLAIN },
            Sample { operator: "Conv", operands: &["f32[N,3,S,T]", "f32[64,3,3,3]"], lists: &[("pads", &[1; 4])], ..PLAIN },
            Sample { operator: "Conv", operands: &["f32[N,8,S,T]", "f32[96,8,1,1]"], ..PLAIN },
            Sample { operator: "Conv", operands: &["f32[N,8,S,T]", "f32[96,8,1,1]"], lists: &[("strides", &[2, 2])], ..PLAIN },
            Sample {
                operator: "Conv",
                operands: &["f32[N,2,S]", "f32[12,1,5]"],
                ints: &[("group", 2)],
                lists: &[("pads", &[2, 2])],
                ..PLAIN
            },
            Sample { operator: "Conv", operands: &["f64[N,4,S,T]", "f64[8,4,3,3]"], lists: &[("pads", &[1; 4])], ..PLAIN },
            Sample { operator: "Conv", operands: &["f32[N,1,S,T]", "f32[40,1,3,7]"], is_exact: false, ..PLAIN },
            Sample { operator: "Conv", operands: &["f32[N,1,S,T]", "f32[1,1,3,3]"], is_exact: false, ..PLAIN },
            Sample {
                operator: "com.microsoft::FusedConv",
                operands: &["f16[N,3,S,T]", "f16[64,3,3,3]"],
                is_exact: false,
                ..PLAIN
            },
            Sample {
                operator: "ConvTranspose",
                operands: &["f32[N,8,S,T]", "f32[8,4,2,2]"],
                lists: &[("strides", &[2, 2])],
                ..PLAIN
            },
            Sample { operator: "LRN", operands: &["f32[N,8,S,T]"], ints: &[("size", 5)], ..PLAIN },
            Sample { operator: "LSTM", operands: &["f32[S,N,6]", "f32[1,32,6]", "f32[1,32,8]"], results: 1, ..PLAIN },
            Sample {
                operator: "LSTM",
                operands: &["f32[S,N,6]", "f32[2,32,6]", "f32[2,32,8]", "f32[2,64]"],
                strings: &[("direction", "bidirectional")],
                results: 3,
                ..PLAIN
            },
            Sample {
                operator: "GRU",
                operands: &["f32[S,N,6]", "f32[1,24,6]", "f32[1,24,8]", "f32[1,48]"],
                ints: &[("linear_before_reset", 1)],
                ..PLAIN
            },
            Sample { operator: "RNN", operands: &["f32[N,S,6]", "f32[1,8,6]", "f32[1,8,8]"], ints: &[("layout", 1)], ..PLAIN },
            Sample {
                operator: "com.microsoft::QLinearAveragePool",
                operands: &["u8[N,4,S,T]", "f32[]", "u8[]", "f32[]", "u8[]"],
                lists: &[("kernel_shape", &[2, 2])],
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::MultiHeadAttention",
                operands: &["f32[N,S,32]", "f32[N,T,32]", "f32[N,T,32]"],
                ints: heads,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::MultiHeadAttention",
                operands: &["f32[N,S,32]", "f32[N,T,32]", "f32[N,T,32]", "f32[96]", "", "f32[N,4,S,T]"],
                ints: heads,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::MultiHeadAttention",
                operands: &["f32[N,S,32]", "f32[N,4,T,8]", "f32[N,4,T,8]"],
                ints: heads,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::Attention",
                operands: &["f32[N,S,32]", "f32[32,96]", "f32[96]"],
                ints: heads,
                ..PLAIN
            },
            Sample {
                operator: "com.microsoft::ConvGrad",
                operands: &["f32[N,8,S,T]", "f32[N,3,S,T]", "f32[8,3,3,3]"],
                lists: &[("pads", &[1; 4])],
                results: 3,
                ..PLAIN
            },
        ];
        all.iter().for_each(Sample::check);
        let attention = Sample { operator: "Attention", operands: &["f32[N,4,S,8]", "f32[N,4,T,8]", "f32[N,4,T,8]"], ..PLAIN };
        let over = |case: Case| case.typed(|typed, info| info.workspace_expr.unwrap()(typed)).unwrap();
        let mut latest = Case::new("Attention", 23);
        for operand in attention.operands {
            latest = latest.input(operand);
        }
        assert_eq!(over(latest).to_string(), "16*N*S*T");
    }
}
