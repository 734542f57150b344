//! Numbers of values that a Cast brings back: a truth value or an integer in a type that has all its values,
//! and back in its own type, is itself. Floats are not followed: a Cast may change the bits of NaN.

use memc_ir::{ElementType, Value};

use super::{Numbering, Part};
use crate::rows::is_onnx;
use crate::side::Side;

impl<'s> Numbering<'s> {
    /// Returns the number of a value that a Cast brings back to its type; `None` for other results.
    pub(super) fn cast_back(&self, side: &Side<'s>, row: usize, value: Value, part: &Part) -> Option<u32> {
        is_onnx(side.module.node(side.rows[row].node), "Cast").then_some(())?;
        let (base, from) = self.casts.get(part.operands.first()?)?;
        (side.module.ty(value).tensor()?.element == *from).then_some(*base)
    }

    /// Notes the value behind a result, if it is a Cast to a type that has all its values.
    pub(super) fn note_cast(
        &mut self,
        side: &Side<'s>,
        row: usize,
        value: Value,
        (number, part): (u32, &Part),
    ) {
        let data = side.module.node(side.rows[row].node);
        let operand = data.inputs.first().copied().flatten().filter(|_| is_onnx(data, "Cast"));
        let element = |value: Value| Some(side.module.ty(value).tensor()?.element);
        if let Some((from, to)) = operand.and_then(|operand| element(operand).zip(element(value)))
            && has_all(from, to)
            && let Some(base) = part.operands.first()
        {
            self.casts.entry(number).or_insert((*base, from));
        }
    }
}

/// Whether a type has all values of a type of truth values or integers.
fn has_all(from: ElementType, to: ElementType) -> bool {
    let Some((is_signed, bits)) = integer(from) else { return false };
    let significant = match to {
        ElementType::Float16 => 11,
        ElementType::Float => 24,
        ElementType::Double => 53,
        _ => 0,
    };
    let is_wider = integer(to).is_some_and(|(signed, wide)| wide > bits && (signed || !is_signed));
    is_wider || significant >= bits
}

/// Returns whether a type of integers has negative ones, and the bits of its numbers.
fn integer(element: ElementType) -> Option<(bool, u32)> {
    Some(match element {
        ElementType::Bool => (false, 1),
        ElementType::Uint8 => (false, 8),
        ElementType::Uint16 => (false, 16),
        ElementType::Uint32 => (false, 32),
        ElementType::Uint64 => (false, 64),
        ElementType::Int8 => (true, 8),
        ElementType::Int16 => (true, 16),
        ElementType::Int32 => (true, 32),
        ElementType::Int64 => (true, 64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_all_values_of_narrower_ones() {
        for (from, to) in
            [("bool", "i64"), ("bool", "u8"), ("bool", "f16"), ("u8", "i16"), ("i8", "f16"), ("i32", "f64")]
        {
            assert!(named(from).zip(named(to)).is_some_and(|(from, to)| has_all(from, to)), "{from} {to}");
        }
        let lacking = [
            ("i64", "f64"),
            ("i8", "u16"),
            ("u8", "i8"),
            ("i32", "f32"),
            ("f32", "f64"),
            ("i16", "f16"),
            ("u8", "bool"),
        ];
        for (from, to) in lacking {
            assert!(named(from).zip(named(to)).is_some_and(|(from, to)| !has_all(from, to)), "{from} {to}");
        }
    }

    fn named(name: &str) -> Option<ElementType> {
        (0..=64).map(ElementType::from_onnx).find(|element| element.to_string() == name)
    }
}
