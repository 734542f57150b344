//! Folds encoded values back: proves that a decoded value equals the value that was encoded.
//!
//! The proof uses value numbers, so it sees through transfers, copies and reshapes. Three forms are
//! known:
//!
//! - a cast to a narrower type and back, if the range of the value fits into the narrower type;
//! - eight elements of a boolean value in one byte;
//! - the low bytes of positions of a MaxPool, relative to their windows.
//!
//! A value may also follow from the result of a node that reads it (`inverses.rs`).

use std::collections::HashMap;

use memc_ir::{ElementType, Value};
use memc_ops::{PoolWindows, Typed, pool_windows};

use crate::content::Raw;
use crate::positions::restores;
use crate::side::{Known, Side};

/// Maximum number of constants that a code adds or subtracts.
const MAX_TERMS: usize = 8;

/// Range of integers, both ends inclusive.
type Range = (i128, i128);

/// Computation of a number, as far as codes consist of it. Operands are numbers.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    Cast(u32),
    Neg(u32),
    Add(u32, u32),
    Sub(u32, u32),
    Mul(u32, u32),
    /// Product of two matrices of integers without zero points.
    Product(u32, u32),
    /// Positions of the maxima of a pool.
    Positions(PoolWindows),
    Other,
}

/// Facts about a number.
#[derive(Clone, Debug)]
struct Facts {
    ty: Known,
    made: Made,
    /// Range of the elements, if it is narrower than that of the type.
    range: Option<Range>,
    constant: Option<Raw>,
}

/// Facts about all numbers with known types.
#[derive(Default, Debug)]
pub(crate) struct Codec {
    facts: HashMap<u32, Facts>,
}

/// A result of a node of the main graph, with the numbers of the node's operands.
#[derive(Clone, Copy)]
pub(crate) struct Computed<'a> {
    pub(crate) side: &'a Side<'a>,
    pub(crate) row: usize,
    pub(crate) value: Value,
    pub(crate) operands: &'a [u32],
}

impl Computed<'_> {
    /// Returns the type that the operators imply or the model states, never that of the layout.
    pub(crate) fn ty(&self) -> Option<Known> {
        Known::of(self.side.module.ty(self.value).tensor()?)
    }
    /// Returns the position of the result.
    fn result(&self) -> Option<usize> {
        let data = self.side.module.node(self.side.rows[self.row].node);
        data.outputs.iter().position(|output| *output == Some(self.value))
    }
    /// Returns the name of an ONNX operator, or `None` for other domains.
    pub(crate) fn operator(&self) -> Option<&str> {
        let data = self.side.module.node(self.side.rows[self.row].node);
        data.operator.domain.is_empty().then_some(&*data.operator.name)
    }
    /// Whether the node has no attributes. Older arithmetic had an attribute that aligned its operands.
    pub(crate) fn is_plain(&self) -> bool {
        self.side.module.node(self.side.rows[self.row].node).attributes.is_empty()
    }
    fn made(&self) -> Made {
        let node = self.side.rows[self.row].node;
        match (self.operator(), self.operands) {
            (Some("Cast"), [of]) => Made::Cast(*of),
            (Some("Neg"), [of]) if self.is_plain() => Made::Neg(*of),
            (Some("Add"), [a, b]) if self.is_plain() => Made::Add(*a, *b),
            (Some("Sub"), [a, b]) if self.is_plain() => Made::Sub(*a, *b),
            (Some("Mul"), [a, b]) if self.is_plain() => Made::Mul(*a, *b),
            (Some("MatMulInteger"), [a, b]) if self.is_plain() => Made::Product(*a, *b),
            _ if self.result() == Some(1) => {
                let windows = pool_windows(&Typed::of(&self.side.module, node));
                windows.map_or(Made::Other, Made::Positions)
            }
            _ => Made::Other,
        }
    }
    /// Returns the range of a result that holds indices.
    fn indices(&self) -> Option<Range> {
        let row = &self.side.rows[self.row];
        let typed = Typed::of(&self.side.module, row.node);
        let extent = (row.info?.indices?)(&typed, self.result()?)?;
        Some((0, i128::from(extent.saturating_sub(1))))
    }
}

impl Codec {
    /// Notes the facts about a constant.
    pub(crate) fn constant(&mut self, number: u32, raw: &Raw) {
        let ty = Known { element: raw.element, dims: raw.dims.clone(), free: None };
        let facts = || Facts { ty, made: Made::Other, range: None, constant: Some(raw.clone()) };
        self.facts.entry(number).or_insert_with(facts);
    }

    /// Notes the type of a graph input.
    pub(crate) fn input(&mut self, number: u32, side: &Side<'_>, value: Value) {
        if let Some(ty) = side.module.ty(value).tensor().and_then(Known::of) {
            self.facts.entry(number).or_insert(Facts { ty, made: Made::Other, range: None, constant: None });
        }
    }

    /// Notes the facts about a result. The first result of a number counts: others are equal to it.
    pub(crate) fn result(&mut self, number: u32, computed: Computed<'_>) {
        if self.facts.contains_key(&number) {
            return;
        }
        let Some(ty) = computed.ty() else { return };
        let made = computed.made();
        let range = match made {
            Made::Cast(of) if self.keeps(of, ty.element) => self.range(of),
            _ => computed.indices(),
        };
        self.facts.insert(number, Facts { ty, made, range, constant: None });
    }

    /// Returns the number of the value that a result restores, or `None` if it is not provably the last
    /// node of a decoding.
    pub(crate) fn decoded(&self, computed: Computed<'_>) -> Option<u32> {
        match (computed.operator()?, computed.operands) {
            ("Cast", [code]) => {
                let ty = computed.ty()?;
                self.widened(*code, &ty).or_else(|| self.positions(*code, &ty))
            }
            ("Greater", [spread, threshold]) if computed.is_plain() => {
                self.bits(*spread, *threshold, &computed.ty()?)
            }
            _ => self.given_back(computed, false),
        }
    }

    pub(crate) fn made(&self, number: u32) -> Option<&Made> {
        self.facts.get(&number).map(|facts| &facts.made)
    }
    /// Returns the type of a value.
    pub(crate) fn known(&self, number: u32) -> Option<&Known> {
        self.facts.get(&number).map(|facts| &facts.ty)
    }
    fn element(&self, number: u32) -> Option<ElementType> {
        self.facts.get(&number).map(|facts| facts.ty.element)
    }
    /// Returns the dimensions of a value of a type; `None` for other types.
    fn dims_of(&self, number: u32, element: ElementType) -> Option<&[u64]> {
        let ty = &self.facts.get(&number)?.ty;
        (ty.element == element).then_some(&ty.dims)
    }
    pub(crate) fn raw(&self, number: u32) -> Option<&Raw> {
        self.facts.get(&number)?.constant.as_ref()
    }
    /// Returns the range of a value of integers, or of whole numbers cast from integers.
    fn range(&self, number: u32) -> Option<Range> {
        let facts = self.facts.get(&number)?;
        facts.range.or_else(|| integers(facts.ty.element))
    }
    /// Whether a cast of a value to a type changes no element.
    fn keeps(&self, number: u32, to: ElementType) -> bool {
        let Some(from) = self.element(number) else { return false };
        let fits = || {
            self.range(number)
                .zip(whole(to))
                .is_some_and(|(range, room)| room.0 <= range.0 && range.1 <= room.1)
        };
        from == to || widens(from, to) || fits()
    }

    /// Returns the value of type `ty` from which exact casts lead to `code`.
    fn widened(&self, code: u32, ty: &Known) -> Option<u32> {
        let mut now = code;
        while let Made::Cast(of) = self.made(now)? {
            if !self.keeps(*of, self.element(now)?) {
                return None;
            }
            now = *of;
            if self.facts.get(&now)?.ty == *ty {
                return Some(now);
            }
        }
        None
    }

    /// Returns the boolean value of type `ty` whose elements a byte each of a code holds. `spread` is the
    /// code multiplied by a power of two in each row, so that one bit is the highest.
    fn bits(&self, spread: u32, threshold: u32, ty: &Known) -> Option<u32> {
        let (Made::Mul(a, b), [rows, columns]) = (self.made(spread)?, ty.dims.as_slice()) else {
            return None;
        };
        self.dims_of(spread, ElementType::Uint8).filter(|dims| *dims == ty.dims)?;
        let (code, factors) = if self.raw(*b).is_some() { (*a, *b) } else { (*b, *a) };
        // The code: a product of weights with the elements, as a byte each.
        self.dims_of(code, ElementType::Uint8).filter(|dims| *dims == [1, *columns])?;
        let Made::Cast(sums) = self.made(code)? else { return None };
        let Made::Product(weights, bytes) = self.made(*sums)? else { return None };
        let Made::Cast(of) = self.made(*bytes)? else { return None };
        self.dims_of(*bytes, ElementType::Uint8)?;
        self.dims_of(*of, ElementType::Bool).filter(|dims| *dims == ty.dims)?;
        // The constants, by trying all elements of a column.
        let bytes = |number: u32, dims: [u64; 2]| {
            let raw = self.raw(number).filter(|raw| raw.element == ElementType::Uint8 && raw.dims == dims)?;
            (raw.bytes.len() as u64 == *rows).then_some(&raw.bytes)
        };
        let (weights, factors) = (bytes(*weights, [1, *rows])?, bytes(factors, [*rows, 1])?);
        let threshold = self
            .raw(threshold)
            .filter(|raw| raw.element == ElementType::Uint8 && raw.bytes.len() == 1)?
            .bytes[0];
        bits_return(weights, factors, threshold).then_some(*of)
    }

    /// Returns the positions of maxima that the sum of a code and constants restores.
    fn positions(&self, sum: u32, ty: &Known) -> Option<u32> {
        let dims =
            |number: u32, element: ElementType| self.dims_of(number, element).filter(|dims| *dims == ty.dims);
        // Decoding: a code of bytes, plus constants.
        dims(sum, ElementType::Int32)?;
        let (wide, added) = self.without_constants(sum, |made| match made {
            Made::Add(a, b) => Some((*a, *b)),
            _ => None,
        })?;
        dims(wide, ElementType::Int32)?;
        let Made::Cast(code) = self.made(wide)? else { return None };
        // Encoding: the low bytes of positions, minus constants.
        dims(*code, ElementType::Uint8)?;
        let (low, subtracted) = self.without_constants(*code, |made| match made {
            Made::Sub(a, b) => Some((*a, *b)),
            _ => None,
        })?;
        dims(low, ElementType::Uint8)?;
        let Made::Cast(of) = self.made(low)? else { return None };
        let Made::Positions(windows) = self.made(*of)? else { return None };
        (self.facts.get(of)?.ty == *ty && restores(windows, &ty.dims, &added, &subtracted)).then_some(*of)
    }

    /// Follows a chain of operators whose second operands, or either operands of a sum, are constants.
    /// Returns its start and the constants.
    fn without_constants(
        &self,
        number: u32,
        operands: impl Fn(&Made) -> Option<(u32, u32)>,
    ) -> Option<(u32, Vec<&Raw>)> {
        let (mut now, mut terms) = (number, Vec::new());
        while let Some((a, b)) = operands(self.made(now)?) {
            let is_sum = matches!(self.made(now)?, Made::Add(..));
            let (next, term) = match (self.raw(a), self.raw(b)) {
                (_, Some(term)) => (a, term),
                (Some(term), None) if is_sum => (b, term),
                _ => return None,
            };
            terms.push(term);
            if terms.len() > MAX_TERMS {
                return None;
            }
            now = next;
        }
        Some((now, terms))
    }
}

/// Whether bytes packed with `weights` give back every combination of bits: the product with a row's
/// factor, modulo 256, is beyond the threshold if and only if the row's bit is set.
fn bits_return(weights: &[u8], factors: &[u8], threshold: u8) -> bool {
    let count = weights.len();
    let bit = |pattern: u16, row: usize| pattern >> row & 1 == 1;
    let packed = |pattern: u16| -> u8 {
        let set = (0..count).filter(|row| bit(pattern, *row));
        set.fold(0u8, |sum, row| sum.wrapping_add(weights[row]))
    };
    let returns = |pattern: u16| {
        let code = packed(pattern);
        (0..count).all(|row| (code.wrapping_mul(factors[row]) > threshold) == bit(pattern, row))
    };
    count <= 8 && factors.len() == count && (0..1u16 << count).all(returns)
}

/// Returns the range of an integer type; `None` for other types.
fn integers(element: ElementType) -> Option<Range> {
    Some(match element {
        ElementType::Bool => (0, 1),
        ElementType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ElementType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ElementType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ElementType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        ElementType::Uint8 => (0, u8::MAX.into()),
        ElementType::Uint16 => (0, u16::MAX.into()),
        ElementType::Uint32 => (0, u32::MAX.into()),
        ElementType::Uint64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Returns the range of integers that a type holds without rounding.
fn whole(element: ElementType) -> Option<Range> {
    // Bits of the significand, with the hidden bit.
    let bits = match element {
        ElementType::Bfloat16 => 8,
        ElementType::Float16 => 11,
        ElementType::Float => 24,
        ElementType::Double => 53,
        _ => return integers(element),
    };
    Some((-(1 << bits), 1 << bits))
}

/// Whether every number of a floating-point type is one of the other type.
fn widens(from: ElementType, to: ElementType) -> bool {
    match from {
        ElementType::Float16 | ElementType::Bfloat16 => {
            matches!(to, ElementType::Float | ElementType::Double)
        }
        ElementType::Float => to == ElementType::Double,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_return_only_with_matching_constants() {
        let (weights, factors) = ([1, 2, 4, 8, 16, 32, 64, 128], [128, 64, 32, 16, 8, 4, 2, 1]);
        assert!(bits_return(&weights, &factors, 127));
        assert!(bits_return(&[128, 1], &[1, 128], 127));
        assert!(bits_return(&[], &[], 127));
        assert!(!bits_return(&weights, &factors, 128));
        assert!(!bits_return(&weights, &factors, 126));
        assert!(!bits_return(&weights, &weights, 127));
        for row in 0..8 {
            for other in [0, 1, 3, 255] {
                let mut wrong = weights;
                wrong[row] = other;
                assert!(wrong == weights || !bits_return(&wrong, &factors, 127), "{wrong:?}");
            }
        }
        assert!(!bits_return(&[1; 9], &[1; 9], 127));
    }

    #[test]
    fn casts_keep_numbers_that_fit() {
        assert!(
            widens(ElementType::Float16, ElementType::Float)
                && !widens(ElementType::Float, ElementType::Float16)
        );
        assert!(!widens(ElementType::Float16, ElementType::Bfloat16));
        assert_eq!(whole(ElementType::Float16), Some((-2048, 2048)));
        assert_eq!(whole(ElementType::Int8), Some((-128, 127)));
        assert_eq!(whole(ElementType::String), None);
    }
}
