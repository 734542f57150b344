//! Possible sub-views: values whose bytes are, by the meaning of an operator, one contiguous run of
//! another value's bytes.

use std::sync::Arc;

use memc_ir::{Bytes, Dim, DimExpr, Module, Node, Ranges, SecondaryMap, Value};
use memc_ops::{Data, View, lookup, normalize_axis};

/// Elements of small tensors that inference knows.
pub type KnownData = SecondaryMap<Value, Option<Arc<Data>>>;

/// A value that can be placed inside another value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubView {
    /// The node between both values: a Concat reads the part; a Split or Slice makes it.
    pub node: Node,
    /// The smaller value.
    pub part: Value,
    /// The larger value that contains the part.
    pub whole: Value,
    /// Offset of the part inside `whole`, in bytes.
    pub offset: Bytes,
    /// Whether the part is an operand, so that it is written before the whole exists.
    pub is_operand: bool,
}

/// Returns all possible sub-views of the main graph, in order of nodes and then of operands or results.
///
/// Linear in operands and results. Left out are empty parts, parts that do not begin and end at whole
/// bytes, and operands that a Concat reads twice, since a value has only one place.
pub fn windows(module: &Module, data: &KnownData) -> Vec<SubView> {
    let mut found = Vec::new();
    for node in &module.graph(module.main()).nodes {
        let Some(info) = lookup(&module.node(*node).operator) else { continue };
        match info.view {
            View::Concat => found.extend(operands(module, *node).unwrap_or_default()),
            View::Split => found.extend(results(module, *node).unwrap_or_default()),
            View::Slice => found.extend(slice(module, *node, data)),
            View::None | View::Reshape | View::SameType => {}
        }
    }
    found
}

/// Returns the operands of a Concat that are contiguous in its result.
fn operands(module: &Module, node: Node) -> Option<Vec<SubView>> {
    let data = module.node(node);
    let whole = (*data.outputs.first()?)?;
    // Operator set 1 has another default axis. A Concat without the attribute keeps its copies.
    data.attribute("axis")?;
    let all: Vec<Value> = data.inputs.iter().copied().collect::<Option<_>>()?;
    let mut found = pieces(module, node, whole, &all, true)?;
    found.retain(|window| all.iter().filter(|operand| **operand == window.part).count() == 1);
    Some(found)
}

/// Returns the results of a Split that are contiguous in its operand.
fn results(module: &Module, node: Node) -> Option<Vec<SubView>> {
    let data = module.node(node);
    let whole = (*data.inputs.first()?)?;
    let all: Vec<Value> = data.outputs.iter().copied().collect::<Option<_>>()?;
    pieces(module, node, whole, &all, false)
}

/// Returns the contiguous parts of consecutive parts along attribute `axis`; `None` if the parts do not
/// add up to the whole.
fn pieces(
    module: &Module,
    node: Node,
    whole: Value,
    all: &[Value],
    is_operand: bool,
) -> Option<Vec<SubView>> {
    let dims = dims(module, whole)?;
    let axis = normalize_axis(module.node(node).int("axis", 0), dims.len())?;
    let (mut found, mut at) = (Vec::new(), Dim::Known(0));
    for part in all.iter().copied() {
        let extent = self::dims(module, part).filter(|part| part.len() == dims.len())?.get(axis)?;
        let starts: Vec<Dim> =
            (0..dims.len()).map(|other| if other == axis { at.clone() } else { Dim::Known(0) }).collect();
        found.extend(offset(module, part, whole, &starts).map(|offset| SubView {
            node,
            part,
            whole,
            offset,
            is_operand,
        }));
        at = at.add(extent);
    }
    at.same(&dims[axis]).then_some(found)
}

/// Returns the result of a Slice as a sub-view, if its elements are contiguous.
fn slice(module: &Module, node: Node, data: &KnownData) -> Option<SubView> {
    let (inputs, outputs) = (&module.node(node).inputs, &module.node(node).outputs);
    let (whole, part) = ((*inputs.first()?)?, (*outputs.first()?)?);
    let starts = slice_starts(module, node, dims(module, whole)?, data)?;
    let offset = offset(module, part, whole, &starts)?;
    Some(SubView { node, part, whole, offset, is_operand: false })
}

/// Returns the first byte of a sub-view inside the larger value, for all extents of the domain.
pub fn first_byte(module: &Module, view: &SubView, data: &KnownData) -> Option<DimExpr> {
    let whole = dims(module, view.whole)?;
    let starts = if lookup(&module.node(view.node).operator)?.view == View::Slice {
        slice_starts(module, view.node, whole, data)?
    } else {
        piece_starts(module, view)?
    };
    let bits = i64::from(module.ty(view.whole).tensor()?.element.bits()?);
    first_element(&starts, whole).expr()?.mul(&DimExpr::constant(bits))?.div_exact(&DimExpr::constant(8))
}

/// Returns the first element of a piece of Concat or Split along each axis.
fn piece_starts(module: &Module, view: &SubView) -> Option<Vec<Dim>> {
    let data = module.node(view.node);
    let rank = dims(module, view.whole)?.len();
    let axis = normalize_axis(data.int("axis", 0), rank)?;
    let all = if view.is_operand { &data.inputs } else { &data.outputs };
    let mut before = all.iter().take_while(|part| **part != Some(view.part));
    let at = before.try_fold(Dim::Known(0), |at, part| Some(at.add(dims(module, (*part)?)?.get(axis)?)))?;
    Some((0..rank).map(|other| if other == axis { at.clone() } else { Dim::Known(0) }).collect())
}

/// Returns the number of the element at `starts` in a tensor of these extents.
fn first_element(starts: &[Dim], dims: &[Dim]) -> Dim {
    let (mut index, mut stride) = (Dim::Known(0), Dim::Known(1));
    for (start, extent) in starts.iter().zip(dims).rev() {
        index = index.add(&start.mul(&stride));
        stride = stride.mul(extent);
    }
    index
}

/// Returns the first element of a slice along each axis; `None` if a bound is not constant, a step is not
/// 1, or a bound that depends on a symbol is not between 0 and the extent for all extents of the domain.
pub fn slice_starts(module: &Module, node: Node, dims: &[Dim], data: &KnownData) -> Option<Vec<Dim>> {
    let ints = |position: usize| match module.node(node).inputs.get(position).copied().flatten() {
        Some(value) if module.constant_of(value).is_some() => data[value].as_ref()?.known_ints().map(Some),
        Some(_) => None,
        None => Some(None),
    };
    // Operator sets before 10 state the bounds as attributes.
    let (starts, axes, steps) = match module.node(node).ints("starts") {
        Some(starts) => (starts.to_vec(), module.node(node).ints("axes").map(<[i64]>::to_vec), None),
        None => (ints(1)??, ints(3)?, ints(4)?),
    };
    if steps.is_some_and(|steps| steps.iter().any(|step| *step != 1)) {
        return None;
    }
    let axes = axes.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let mut first: Vec<Option<Dim>> = vec![None; dims.len()];
    for (start, axis) in starts.iter().zip(&axes) {
        let axis = normalize_axis(*axis, dims.len())?;
        // A slice that names an axis twice is invalid.
        if first[axis].replace(start_within(*start, &dims[axis], &module.domain().ranges)?).is_some() {
            return None;
        }
    }
    (starts.len() == axes.len())
        .then(|| first.into_iter().map(|start| start.unwrap_or(Dim::Known(0))).collect())
}

/// Returns the first element that a slice with the bound `start` takes of an axis.
fn start_within(start: i64, dim: &Dim, ranges: &Ranges) -> Option<Dim> {
    if let Dim::Known(extent) = dim {
        let extent = i64::try_from(*extent).ok()?;
        let start = if start < 0 { start.saturating_add(extent) } else { start };
        return u64::try_from(start.clamp(0, extent)).ok().map(Dim::Known);
    }
    let (extent, bound) = (dim.expr()?, DimExpr::constant(start));
    let start = if start < 0 { bound.add(&extent)? } else { bound };
    let is_inside = start.at_least(&DimExpr::constant(0), ranges) && extent.at_least(&start, ranges);
    is_inside.then(|| Dim::from_expr(start))
}

/// Returns the first byte of a box in `whole` with the extents of `part`, if the box is contiguous, not
/// empty, and begins and ends at whole bytes. With symbols, all of this must hold for all extents of the
/// domain, and the first byte is that at the largest extents.
fn offset(module: &Module, part: Value, whole: Value, starts: &[Dim]) -> Option<Bytes> {
    let (small, big) = (dims(module, part)?, dims(module, whole)?);
    let element = module.ty(whole).tensor()?.element;
    if module.ty(part).tensor()?.element != element
        || small.len() != big.len()
        || module.size(part)? == Bytes(0)
    {
        return None;
    }
    let ranges = &module.domain().ranges;
    let inside = (0..big.len()).all(|axis| at_most(&starts[axis].add(&small[axis]), &big[axis], ranges));
    // After the last cut axis every axis is whole; before it every extent must be 1.
    let cut = (0..big.len()).rev().find(|axis| !small[*axis].same(&big[*axis])).unwrap_or(0);
    if !inside || small[..cut].iter().any(|extent| *extent != Dim::Known(1)) {
        return None;
    }
    let index = first_element(starts, big);
    let length = small.iter().fold(Dim::Known(1), |product, extent| product.mul(extent));
    place(module, &index, &length, u64::from(element.bits()?))
}

/// Returns the first byte of `length` elements of `bits` bits from element `index` on, at the largest
/// extents of the domain.
fn place(module: &Module, index: &Dim, length: &Dim, bits: u64) -> Option<Bytes> {
    if let (Dim::Known(index), Dim::Known(length)) = (index, length) {
        let (first, length) = (index.checked_mul(bits)?, length.checked_mul(bits)?);
        return (first % 8 == 0 && length % 8 == 0).then_some(Bytes(first / 8));
    }
    let most = |dim: &Dim| u64::try_from(module.domain().most(&dim.expr()?)?).ok();
    let (first, end) = (most(index)?, most(&index.add(length))?);
    // Neighbors in one owner may not overlap at the largest extents of each of them.
    let is_apart = first.checked_add(most(length)?) == Some(end);
    (bits.is_multiple_of(8) && is_apart).then(|| first.checked_mul(bits / 8).map(Bytes))?
}

/// Whether an extent is at most another one for all extents of the symbols.
fn at_most(small: &Dim, big: &Dim, ranges: &Ranges) -> bool {
    match (small, big) {
        (Dim::Known(small), Dim::Known(big)) => small <= big,
        _ => {
            small.same(big)
                || small.expr().zip(big.expr()).is_some_and(|(small, big)| big.at_least(&small, ranges))
        }
    }
}

/// Returns the dimensions of a tensor with a bounded size.
fn dims(module: &Module, value: Value) -> Option<&[Dim]> {
    module.largest(value)?;
    module.ty(value).tensor()?.shape.as_deref()
}
