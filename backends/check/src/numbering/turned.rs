//! Numbers of transposed and reshaped operands: a node that computes each element from those at its place
//! computes from transposed operands the transposed result. So a transposition counts after such nodes, and
//! two of them as one; reshapes likewise after nodes with one operand. The lists are the check's own;
//! `tests/all/checked_plans.rs` compares kernels on transposed operands with transposed results, bit by bit.

use memc_ir::{Attribute, ElementType, NodeData, Operator};
use memc_ops::normalize_axis;

use super::cuts::typed;
use super::spread::Reshaped;
use super::{Key, Numbering, depends};
use crate::content::{Content, Raw};
use crate::extents::Extents;
use crate::side::Side;

/// ONNX operators by place whose kernels round an element alike wherever it is.
pub const PLACELESS: &[&str] = &["Abs", "Add", "Cast", "Div", "Mul", "Neg", "Relu", "Sigmoid", "Sub"];

/// Operators of one operand, beside ONNX's by place, that compute each element from the one at its place.
const CONTRIBUTED: &[&str] = &["BiasGelu", "FastGelu", "Gelu", "QuickGelu"];

/// Most bytes of a constant that is transposed to compare it.
const MOST_BYTES: usize = 1 << 26;

impl<'s> Numbering<'s> {
    /// Returns the number of a node's first result from the numbers of its operands.
    pub(super) fn result(
        &mut self,
        side: &'s Side<'s>,
        (row, result): (usize, usize),
        head: u32,
        operands: Vec<u32>,
    ) -> u32 {
        let placed = if result == 0 { self.placed(side, row, head, &operands) } else { None };
        placed.unwrap_or_else(|| self.intern(Key::Result { head, operands, result, instance: None }))
    }

    /// Returns the number of values joined along an axis: what transposed values have in common counts after
    /// the join. `None` if they are transposed in several ways.
    pub(super) fn concatenated(&mut self, operands: &[u32], axis: usize, extents: &Extents) -> Option<u32> {
        let order =
            operands.iter().find_map(|number| self.turned.get(number)).map(|(_, order)| order.clone());
        let Some(order) = order else { return Some(self.join(operands, axis, extents)) };
        let all: Vec<u32> =
            operands.iter().map(|number| self.base_of(*number, &order)).collect::<Option<_>>()?;
        let number = self.join(&all, *order.get(axis)?, extents);
        self.turned(number, &order)
    }

    /// Returns the number of a transposition, or of a node's first result if a transposition or a reshape of
    /// its operands counts after it; `None` for other nodes.
    pub(super) fn placed(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        head: u32,
        operands: &[u32],
    ) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let is_onnx = data.operator.domain.is_empty();
        let name = &*data.operator.name;
        if is_onnx && name == "Transpose" {
            let order = order(data, self.rank(*operands.first()?)?)?;
            return self.turned(*operands.first()?, &order);
        }
        if operands.len() == 1
            && (if is_onnx { depends::is_by_place(name) } else { is_contributed(&data.operator) })
        {
            let reshaped = self.reshaped(side, row, head, operands[0]);
            if reshaped.is_some() {
                return reshaped;
            }
        }
        if is_onnx && name == "Expand" {
            let (of, operands) = (*operands.first()?, operands.to_vec());
            let number = self.intern(Key::Result { head, operands, result: 0, instance: None });
            self.expanded.insert(number, of);
            return Some(number);
        }
        // Older arithmetic had an attribute that aligned its operands.
        let is_aligned = operands.len() < 2 || data.attributes.is_empty();
        let is_placeless = is_onnx && is_aligned && PLACELESS.contains(&name);
        let narrow = if is_placeless { self.unexpanded(operands, side.extents) } else { operands.to_vec() };
        let is_narrower = narrow != operands;
        let operands = narrow.as_slice();
        let order =
            operands.iter().find_map(|number| self.turned.get(number)).map(|(_, order)| order.clone());
        let Some(order) = order else {
            return match name {
                _ if is_narrower => Some(self.by_place(side, row, head, operands)),
                _ if is_placeless => self.normal(side, row, head, operands),
                "Concat" if is_onnx => {
                    let rank = self.dims_of(*operands.first()?, side.extents)?.len();
                    let axis = normalize_axis(data.int("axis", 1), rank)?;
                    self.concatenated(operands, axis, side.extents)
                }
                _ => None,
            };
        };
        match name {
            _ if is_placeless => {
                let mut turned_back = Vec::new();
                for (number, value) in operands.iter().zip(&data.inputs) {
                    let element = side.known[(*value)?].as_ref()?.element;
                    turned_back.push(self.turned_back(*number, element, &order, side.extents)?);
                }
                let number = self.by_place(side, row, head, &turned_back);
                self.turned(number, &order)
            }
            "Concat" if is_onnx => {
                let axis = normalize_axis(data.int("axis", 1), order.len())?;
                self.concatenated(operands, axis, side.extents)
            }
            // The kernel brings the axis to the end first, where it is before the transposition.
            "Softmax" if is_onnx && side.module.opsets.get("").is_some_and(|version| *version >= 13) => {
                let axis = *order.get(normalize_axis(data.int("axis", -1), order.len())?)?;
                let base = self.base_of(*operands.first()?, &order).filter(|_| axis + 1 == order.len())?;
                let head = self.head_with(side, row, &["axis"], ("axis", Attribute::Int(-1)));
                let number =
                    self.intern(Key::Result { head, operands: vec![base], result: 0, instance: None });
                self.turned(number, &order)
            }
            _ => None,
        }
    }

    /// Returns the number of a value with the axes of another one in this order; `None` if their counts
    /// differ.
    pub(super) fn turned(&mut self, number: u32, order: &[usize]) -> Option<u32> {
        let (base, order) = match self.turned.get(&number) {
            Some((base, held)) => {
                (*base, order.iter().map(|axis| held.get(*axis).copied()).collect::<Option<Vec<usize>>>()?)
            }
            None => (number, order.to_vec()),
        };
        if order.is_sorted() {
            return Some(base);
        }
        if let Some(raw) = self.cuts.made.get(&base).and_then(|made| made.raw.as_ref())
            && let Some(moved) = turned_bytes(raw, &order)
        {
            return Some(self.constant(Content::Raw(moved)));
        }
        let fresh = self.intern(Key::Turned { base, order: order.clone() });
        self.turned.insert(fresh, (base, order));
        Some(fresh)
    }

    /// Returns the number of an operand before the transposition of the others; `None` if it has another one.
    fn turned_back(
        &mut self,
        number: u32,
        element: ElementType,
        order: &[usize],
        extents: &Extents,
    ) -> Option<u32> {
        if let Some(base) = self.base_of(number, order) {
            return Some(base);
        }
        let dims = self.dims_of(number, extents)?;
        if dims.iter().all(|extent| extent.as_constant() == Some(1)) {
            return Some(number);
        }
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, axis)| back[*axis] = at);
        let raw = self.cuts.made.get(&number).and_then(|made| made.raw.clone());
        let Some(raw) = raw else { return self.turned_by_ones(number, element, &back, extents) };
        let missing = order.len().checked_sub(raw.dims.len())?;
        let dims = std::iter::repeat_n(1, missing).chain(raw.dims).collect();
        let whole = Raw { dims, ..raw };
        Some(self.constant(Content::Raw(turned_bytes(&whole, &back)?)))
    }

    /// Returns the number of the value that is transposed in this order.
    fn base_of(&self, number: u32, order: &[usize]) -> Option<u32> {
        self.turned.get(&number).filter(|(_, own)| own == order).map(|(base, _)| *base)
    }

    /// Returns the number of a node with one operand that is a reshape, as the reshape of its result.
    fn reshaped(&mut self, side: &'s Side<'s>, row: usize, head: u32, operand: u32) -> Option<u32> {
        let Reshaped { base, first, .. } = self.reshapes.get(&operand).cloned()?;
        let value = side.module.node(side.rows[row].node).results().next()?;
        let to = side.known[value].as_deref()?.clone();
        let from = typed(to.element, &first.dim_exprs()?, side.extents)?;
        let number = self.result(side, (row, 0), head, vec![base]);
        Some(self.reshape(number, &from, &to))
    }

    /// Returns how many axes a value has.
    fn rank(&self, number: u32) -> Option<usize> {
        let made = self.cuts.made.get(&number).map(|made| made.dims.len());
        made.or_else(|| self.cuts.parts.get(&number).map(|(_, place)| place.len()))
    }
}

fn is_contributed(operator: &Operator) -> bool {
    &*operator.domain == "com.microsoft" && CONTRIBUTED.contains(&&*operator.name)
}

/// Returns the axes of the operand in the order in which a Transpose has them.
pub(super) fn order(data: &NodeData, rank: usize) -> Option<Vec<usize>> {
    let axes = match data.ints("perm") {
        Some(axes) => axes.iter().map(|axis| normalize_axis(*axis, rank)).collect::<Option<Vec<usize>>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut all = axes.clone();
    all.sort_unstable();
    all.into_iter().eq(0..rank).then_some(axes)
}

/// Returns a constant of whole bytes with its axes in this order; `None` for other constants, and large ones.
fn turned_bytes(raw: &Raw, order: &[usize]) -> Option<Raw> {
    let bits = raw.element.bits().filter(|bits| bits % 8 == 0)?;
    let size = usize::try_from(bits / 8).ok().filter(|size| *size > 0 && raw.bytes.len() <= MOST_BYTES)?;
    let extents: Vec<usize> =
        raw.dims.iter().map(|extent| usize::try_from(*extent).ok()).collect::<Option<_>>()?;
    let count = extents.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
    (order.len() == extents.len() && count.checked_mul(size)? == raw.bytes.len()).then_some(())?;
    let mut strides = vec![1usize; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    // First elements of ever smaller blocks, by the axes of the result.
    let mut starts = vec![0usize];
    for axis in order {
        let (extent, stride) = (extents[*axis], strides[*axis]);
        starts =
            starts.into_iter().flat_map(|start| (0..extent).map(move |at| start + at * stride)).collect();
    }
    let bytes: Vec<u8> =
        starts.iter().flat_map(|start| &raw.bytes[start * size..][..size]).copied().collect();
    let dims = order.iter().map(|axis| raw.dims[*axis]).collect();
    Some(Raw { element: raw.element, dims, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use memc_ir::ElementType;

    use super::*;

    #[test]
    fn bytes_move_with_their_axes() {
        let raw = Raw { element: ElementType::Int8, dims: vec![2, 3], bytes: vec![1, 2, 3, 4, 5, 6].into() };
        let moved = turned_bytes(&raw, &[1, 0]);
        let want = Raw { element: ElementType::Int8, dims: vec![3, 2], bytes: vec![1, 4, 2, 5, 3, 6].into() };
        assert_eq!(moved, Some(want));
        assert_eq!(turned_bytes(&Raw { dims: vec![2, 2], ..raw }, &[1, 0]), None);
    }
}
