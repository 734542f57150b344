//! Possible sub-views: values whose bytes are, by the meaning of an operator, one contiguous run of
//! another value's bytes.

use std::sync::Arc;

use memc_ir::{Bytes, Module, Node, SecondaryMap, Value};
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
fn pieces(module: &Module, node: Node, whole: Value, all: &[Value], is_operand: bool) -> Option<Vec<SubView>> {
    let dims = extents(module, whole)?;
    let axis = normalize_axis(module.node(node).int("axis", 0), dims.len())?;
    let (mut found, mut at) = (Vec::new(), 0u64);
    for part in all.iter().copied() {
        let extent = *extents(module, part).filter(|part| part.len() == dims.len())?.get(axis)?;
        let starts: Vec<u64> = (0..dims.len()).map(|other| if other == axis { at } else { 0 }).collect();
        found.extend(offset(module, part, whole, &starts).map(|offset| SubView { node, part, whole, offset, is_operand }));
        at = at.checked_add(extent)?;
    }
    (at == dims[axis]).then_some(found)
}

/// Returns the result of a Slice as a sub-view, if its elements are contiguous.
fn slice(module: &Module, node: Node, data: &KnownData) -> Option<SubView> {
    let (inputs, outputs) = (&module.node(node).inputs, &module.node(node).outputs);
    let (whole, part) = ((*inputs.first()?)?, (*outputs.first()?)?);
    let starts = slice_starts(module, node, &extents(module, whole)?, data)?;
    let offset = offset(module, part, whole, &starts)?;
    Some(SubView { node, part, whole, offset, is_operand: false })
}

/// Returns the first element of a slice along each axis; `None` if a bound is not constant or a step is
/// not 1.
pub fn slice_starts(module: &Module, node: Node, dims: &[u64], data: &KnownData) -> Option<Vec<u64>> {
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
    let mut first: Vec<Option<u64>> = vec![None; dims.len()];
    for (start, axis) in starts.iter().zip(&axes) {
        let axis = normalize_axis(*axis, dims.len())?;
        let extent = i64::try_from(dims[axis]).ok()?;
        let start = if *start < 0 { start.saturating_add(extent) } else { *start };
        // A slice that names an axis twice is invalid.
        if first[axis].replace(u64::try_from(start.clamp(0, extent)).ok()?).is_some() {
            return None;
        }
    }
    (starts.len() == axes.len()).then(|| first.into_iter().map(Option::unwrap_or_default).collect())
}

/// Returns the first byte of a box in `whole` with the extents of `part`, if the box is contiguous, not
/// empty, and begins and ends at whole bytes.
fn offset(module: &Module, part: Value, whole: Value, starts: &[u64]) -> Option<Bytes> {
    let (small, big) = (extents(module, part)?, extents(module, whole)?);
    let element = module.ty(whole).tensor()?.element;
    let bits = u64::from(element.bits()?);
    if module.ty(part).tensor()?.element != element || small.len() != big.len() || module.ty(part).size()? == Bytes(0) {
        return None;
    }
    let inside = (0..big.len()).all(|axis| starts[axis].checked_add(small[axis]).is_some_and(|end| end <= big[axis]));
    // After the last cut axis every axis is whole; before it every extent must be 1.
    let cut = (0..big.len()).rev().find(|axis| small[*axis] != big[*axis]).unwrap_or(0);
    if !inside || small[..cut].iter().any(|extent| *extent != 1) {
        return None;
    }
    let mut index = 0u64;
    let mut stride = 1u64;
    for axis in (0..big.len()).rev() {
        index = index.checked_add(starts[axis].checked_mul(stride)?)?;
        stride = stride.checked_mul(big[axis])?;
    }
    let first = index.checked_mul(bits)?;
    let length = module.ty(part).tensor()?.elements()?.checked_mul(bits)?;
    (first % 8 == 0 && length % 8 == 0).then_some(Bytes(first / 8))
}

fn extents(module: &Module, value: Value) -> Option<Vec<u64>> {
    module.ty(value).tensor()?.known_dims()
}
