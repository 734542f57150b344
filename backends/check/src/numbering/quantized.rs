//! Numbers of quantized values: integers that are dequantized, moved and quantized again by one scale are the
//! moved integers.
//!
//! A number `scale * (integer - zero)` is within a rounding of that integer's middle, so that quantizing it
//! gives the integer back, unless the scale is so small or so large that numbers lose digits or overflow.

use memc_ir::{ElementType, NodeData, Value};
use memc_ops::Item;

use super::{ABSENT, Numbering, Part};
use crate::side::{Known, Side};

/// Scales by which no 8-bit integer loses digits or overflows.
const SAFE: std::ops::Range<f64> = 1e-30..1e30;

/// ONNX operators that move elements of operand 0, or choose the greatest of them.
const MOVES: &[&str] = &["Expand", "Gather", "MaxPool", "Slice", "Tile", "Transpose"];

/// The integers that a number stands for.
#[derive(Clone, Debug)]
pub(super) struct Integers {
    /// Number of the integers.
    number: u32,
    element: ElementType,
    /// Numbers of the scale and of the zero point, which may be absent.
    by: [u32; 2],
}

impl<'s> Numbering<'s> {
    /// Returns the number of the integers that a QuantizeLinear gives back; `None` for other results.
    pub(super) fn requantized(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        value: Value,
        part: &Part,
    ) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let by = scale(side, data, "QuantizeLinear", part)?;
        let known = self.integers_behind.get(part.operands.first()?)?;
        let element = side.module.ty(value).tensor()?.element;
        (known.by == by && known.element == element).then_some(known.number)
    }

    /// Notes the integers behind a result, if it is dequantized or moves dequantized numbers.
    pub(super) fn note_integers(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        value: Value,
        (number, part): (u32, &Part),
    ) {
        if self.integers_behind.contains_key(&number) {
            return;
        }
        if let Some(found) = self.integers_of(side, row, value, part) {
            self.integers_behind.insert(number, found);
        }
    }

    fn integers_of(&mut self, side: &'s Side<'s>, row: usize, value: Value, part: &Part) -> Option<Integers> {
        let data = side.module.node(side.rows[row].node);
        let first = *part.operands.first()?;
        let operand = data.inputs.first().copied().flatten()?;
        if let Some(by) = scale(side, data, "DequantizeLinear", part) {
            let element = side.module.ty(operand).tensor()?.element;
            let is_byte = matches!(element, ElementType::Int8 | ElementType::Uint8);
            return is_byte.then_some(Integers { number: first, element, by });
        }
        let known = self.integers_behind.get(&first)?.clone();
        let is_only = data.results().count() == 1 && data.operator.domain.is_empty();
        if is_only && MOVES.contains(&&*data.operator.name) {
            let operands =
                std::iter::once(known.number).chain(part.operands.iter().skip(1).copied()).collect();
            let number = self.result(side, (row, 0), part.head, operands);
            return Some(Integers { number, ..known });
        }
        let is_view =
            is_only && matches!(&*data.operator.name, "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze");
        let (from, to) = side.known[operand].as_ref().zip(side.known[value].as_ref()).filter(|_| is_view)?;
        let of = |known_type: &Known| Known { element: known.element, free: None, ..known_type.clone() };
        let is_fixed = from.free.is_none() && to.free.is_none();
        let (from, to) = (of(from), of(to));
        is_fixed.then(|| Integers { number: self.reshape(known.number, &from, &to), ..known.clone() })
    }
}

/// Returns the numbers of scale and zero point of an operator with one known scale; `None` for other nodes.
fn scale(side: &Side<'_>, data: &NodeData, name: &str, part: &Part) -> Option<[u32; 2]> {
    let is_it = data.operator.domain.is_empty() && &*data.operator.name == name;
    let is_plain = data.attributes.iter().all(|(name, _)| matches!(name.as_str(), "axis" | "saturate"));
    let stated = side.elements(data.inputs.get(1).copied().flatten().filter(|_| is_it && is_plain)?)?;
    let [Item::Float(scale)] = stated.items.as_slice() else { return None };
    let operand = |position: usize| part.operands.get(position).copied().unwrap_or(ABSENT);
    SAFE.contains(scale).then(|| [operand(1), operand(2)])
}
