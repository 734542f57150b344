//! Facts that inference knows about a value: its type and, for small tensors that determine shapes, its
//! elements.

use std::sync::Arc;

use memc_ir::{ConstData, Dim, DimExpr, ElementType, Payload, Ranges, TensorType, ValueType};

/// Maximum number of elements of a tensor whose elements inference follows.
pub const MAX_ITEMS: usize = 8192;

/// One element of a tensor whose elements are followed.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// An integer, or a boolean as 0 or 1.
    Int(i64),
    /// A floating-point number, already rounded to the tensor's element type.
    Float(f64),
    /// An integer that depends on symbols.
    Symbolic(DimExpr),
    /// An integer between 0 and this bound, inclusive; its value is known only at run time.
    AtMost(i64),
    /// An integer between 0 and this bound, inclusive, which depends on symbols.
    Within(DimExpr),
    /// An unknown element.
    Unknown,
}

impl Item {
    /// Returns the integer, or `None` if it is not known.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }
    /// Returns the largest possible value of the integer; `None` if there is no bound or it is negative.
    pub fn upper(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::AtMost(value) => Some(*value).filter(|value| *value >= 0),
            _ => None,
        }
    }
    /// Returns the largest possible value of the integer over symbols; `None` if there is no bound or it
    /// may be negative.
    pub fn upper_expr(&self) -> Option<DimExpr> {
        match self {
            Self::Symbolic(expr) => Some(expr.clone())
                .filter(|expr| expr.lower_bound(&Ranges::new()).is_some_and(|least| least >= 0)),
            Self::Within(upper) => Some(upper.clone()),
            other => other.upper().map(DimExpr::constant),
        }
    }
    /// Returns an integer between 0 and this bound; `None` gives an unknown element.
    pub fn within(upper: Option<DimExpr>) -> Self {
        match upper.map(|upper| (upper.as_constant(), upper)) {
            Some((None, upper)) => Self::Within(upper),
            Some((Some(value), _)) if value >= 0 => Self::AtMost(value),
            _ => Self::Unknown,
        }
    }
    /// Simplifies expressions for symbols in these ranges.
    pub(crate) fn simplified(&self, ranges: &Ranges) -> Self {
        match self {
            Self::Symbolic(expr) => Self::from_expr(expr.simplified(ranges)),
            Self::Within(upper) => Self::within(Some(upper.simplified(ranges))),
            other => other.clone(),
        }
    }
    /// Returns the element as an extent.
    pub fn dim(&self) -> Dim {
        match self {
            Self::Within(upper) => Dim::within(Some(upper.clone())),
            Self::AtMost(largest) => Dim::at_most(u64::try_from(*largest).ok()),
            other => other.expr().map_or(Dim::Unknown, Dim::from_expr),
        }
    }
    /// Returns an extent as an element.
    pub fn of_dim(dim: &Dim) -> Self {
        match dim {
            Dim::AtMost(largest) => i64::try_from(*largest).map_or(Self::Unknown, Self::AtMost),
            Dim::Within(upper) => Self::within(Some(upper.clone())),
            other => other.expr().map_or(Self::Unknown, Self::from_expr),
        }
    }
    /// Returns the integer as an expression over symbols; `None` if it is not an exact integer.
    pub fn expr(&self) -> Option<DimExpr> {
        match self {
            Self::Int(value) => Some(DimExpr::constant(*value)),
            Self::Symbolic(expr) => Some(expr.clone()),
            _ => None,
        }
    }
    /// Returns an expression over symbols as an element.
    pub fn from_expr(expr: DimExpr) -> Self {
        match expr.as_constant() {
            Some(value) => Self::Int(value),
            None => Self::Symbolic(expr),
        }
    }
}

/// Elements of a small tensor, in row-major order. `items.len()` is the product of `dims`.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// Element type.
    pub element: ElementType,
    /// Extents.
    pub dims: Vec<u64>,
    /// Elements.
    pub items: Vec<Item>,
}

impl Data {
    /// Creates data; `None` if the number of elements does not match the extents or exceeds
    /// [`MAX_ITEMS`].
    pub fn new(element: ElementType, dims: Vec<u64>, items: Vec<Item>) -> Option<Self> {
        let count = TensorType::fixed(element, &dims).elements()?;
        (count == items.len() as u64 && items.len() <= MAX_ITEMS).then_some(Self { element, dims, items })
    }
    /// Creates a vector of 64-bit integers.
    pub fn ints(values: &[i64]) -> Self {
        let items = values.iter().map(|value| Item::Int(*value)).collect();
        Self { element: ElementType::Int64, dims: vec![values.len() as u64], items }
    }
    /// Returns all elements as integers, or `None` unless all of them are known.
    pub fn known_ints(&self) -> Option<Vec<i64>> {
        self.items.iter().map(Item::int).collect()
    }
    /// Reads the payload of a small constant of integers, booleans, binary32 or binary64 numbers; `None`
    /// for any other constant.
    pub fn from_constant(constant: &ConstData) -> Option<Self> {
        let Payload::Raw(bytes) = &constant.payload else { return None };
        let dims = constant.ty.known_dims()?;
        let count = usize::try_from(constant.ty.elements()?).ok()?;
        if count > MAX_ITEMS || constant.ty.size()?.0 != bytes.len() as u64 {
            return None;
        }
        let width = constant.ty.element.bits()? as usize;
        let items: Option<Vec<Item>> = if width < 8 {
            (0..count).map(|index| packed(constant.ty.element, bytes, index)).collect()
        } else {
            bytes.chunks_exact(width / 8).map(|chunk| decode(constant.ty.element, chunk)).collect()
        };
        Self::new(constant.ty.element, dims, items?)
    }
    /// Encodes the elements as `raw_data`; `None` unless all are known and the element type is an
    /// integer of at least 8 bits, a boolean, binary32 or binary64.
    pub fn to_raw(&self) -> Option<Vec<u8>> {
        if self.element.bits()? < 8 {
            return None;
        }
        let mut raw = Vec::new();
        for item in &self.items {
            encode(self.element, item, &mut raw)?;
        }
        Some(raw)
    }
}

fn packed(element: ElementType, bytes: &[u8], index: usize) -> Option<Item> {
    let (width, signed) = match element {
        ElementType::Uint4 => (4, false),
        ElementType::Int4 => (4, true),
        ElementType::Uint2 => (2, false),
        ElementType::Int2 => (2, true),
        _ => return None,
    };
    let at = index * width;
    let raw = i64::from(bytes.get(at / 8)? >> (at % 8)) & ((1 << width) - 1);
    let negative = signed && raw >= 1 << (width - 1);
    Some(Item::Int(if negative { raw - (1 << width) } else { raw }))
}

fn decode(element: ElementType, chunk: &[u8]) -> Option<Item> {
    use ElementType::*;
    Some(match element {
        Bool => Item::Int(i64::from(*chunk.first()? != 0)),
        Uint8 => Item::Int(i64::from(*chunk.first()?)),
        Int8 => Item::Int(i64::from(*chunk.first()? as i8)),
        Uint16 => Item::Int(i64::from(u16::from_le_bytes(chunk.try_into().ok()?))),
        Int16 => Item::Int(i64::from(i16::from_le_bytes(chunk.try_into().ok()?))),
        Uint32 => Item::Int(i64::from(u32::from_le_bytes(chunk.try_into().ok()?))),
        Int32 => Item::Int(i64::from(i32::from_le_bytes(chunk.try_into().ok()?))),
        Int64 => Item::Int(i64::from_le_bytes(chunk.try_into().ok()?)),
        Uint64 => Item::Int(i64::try_from(u64::from_le_bytes(chunk.try_into().ok()?)).ok()?),
        Float => Item::Float(f64::from(f32::from_le_bytes(chunk.try_into().ok()?))),
        Double => Item::Float(f64::from_le_bytes(chunk.try_into().ok()?)),
        _ => return None,
    })
}

fn encode(element: ElementType, item: &Item, raw: &mut Vec<u8>) -> Option<()> {
    use ElementType::*;
    match (element, item) {
        (Bool, Item::Int(value)) => raw.push(u8::from(*value != 0)),
        (Uint8, Item::Int(value)) => raw.push(u8::try_from(*value).ok()?),
        (Int8, Item::Int(value)) => raw.extend(i8::try_from(*value).ok()?.to_le_bytes()),
        (Uint16, Item::Int(value)) => raw.extend(u16::try_from(*value).ok()?.to_le_bytes()),
        (Int16, Item::Int(value)) => raw.extend(i16::try_from(*value).ok()?.to_le_bytes()),
        (Uint32, Item::Int(value)) => raw.extend(u32::try_from(*value).ok()?.to_le_bytes()),
        (Int32, Item::Int(value)) => raw.extend(i32::try_from(*value).ok()?.to_le_bytes()),
        (Uint64, Item::Int(value)) => raw.extend(u64::try_from(*value).ok()?.to_le_bytes()),
        (Int64, Item::Int(value)) => raw.extend(value.to_le_bytes()),
        (Float, Item::Float(value)) => raw.extend((*value as f32).to_le_bytes()),
        (Double, Item::Float(value)) => raw.extend(value.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

/// Everything that inference knows about a value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fact {
    /// The type, as far as it is known.
    pub ty: ValueType,
    /// The elements, if the tensor is small and its elements are followed.
    pub data: Option<Arc<Data>>,
    /// Whether type or elements rest on the default of a graph input, which a caller may override.
    pub assumed: bool,
}

impl Fact {
    /// Creates a fact with a type and no elements.
    pub fn of(ty: ValueType) -> Self {
        Self { ty, data: None, assumed: false }
    }
    /// Simplifies the expressions of type and elements for symbols in these ranges.
    pub fn simplified(self, ranges: &Ranges) -> Self {
        let data = self.data.map(|data| {
            let is_symbolic =
                data.items.iter().any(|item| matches!(item, Item::Symbolic(_) | Item::Within(_)));
            let simpler = |data: &Data| data.items.iter().map(|item| item.simplified(ranges)).collect();
            if is_symbolic { Arc::new(Data { items: simpler(&data), ..data.as_ref().clone() }) } else { data }
        });
        let is_plain = self.ty.tensor().is_some_and(|tensor| tensor.known_dims().is_some());
        let ty = if is_plain { self.ty } else { self.ty.map_dims(&|dim| dim.simplified(ranges)) };
        Self { ty, data, assumed: self.assumed }
    }
    /// Creates a fact with a tensor type and no elements.
    pub fn tensor(ty: TensorType) -> Self {
        Self::of(ValueType::Tensor(ty))
    }
    /// Creates a fact with the elements of a tensor and the type that they imply.
    pub fn with_data(data: Data) -> Self {
        Self {
            ty: ValueType::Tensor(TensorType::fixed(data.element, &data.dims)),
            data: Some(Arc::new(data)),
            assumed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn constants_keep_their_bytes_through_reading_and_writing() {
        for element in [
            ElementType::Int64,
            ElementType::Bool,
            ElementType::Int8,
            ElementType::Float,
            ElementType::Double,
        ] {
            let width = element.bits().unwrap() as usize / 8;
            let raw: Vec<u8> = (0..3).flat_map(|_| (0..width).map(|byte| u8::from(byte == 0))).collect();
            let constant = ConstData {
                ty: TensorType::fixed(element, &[3]),
                payload: Payload::Raw(raw.clone().into()),
                origin: memc_ir::ConstOrigin::New,
            };
            assert_eq!(Data::from_constant(&constant).unwrap().to_raw().unwrap(), raw, "{element}");
        }
    }

    #[test]
    fn four_bit_integers_unpack_low_nibble_first() {
        let constant = ConstData {
            ty: TensorType::fixed(ElementType::Int4, &[3]),
            payload: Payload::Raw(vec![0xF1, 0x07].into()),
            origin: memc_ir::ConstOrigin::New,
        };
        assert_eq!(Data::from_constant(&constant).unwrap().known_ints().unwrap(), [1, -1, 7]);
    }
}
