//! Element types of tensors: their numbers and names in ONNX, and their sizes in bits.

use std::fmt;

/// Type of one tensor element; the variants are those of ONNX (`TensorProto.DataType`).
///
/// [`ElementType::Other`] keeps a number that this version of memc does not know. Its tensors pass
/// through unchanged, and their size stays unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ElementType {
    /// No type is stated.
    Undefined,
    /// IEEE binary32.
    Float,
    /// Unsigned 8 bits.
    Uint8,
    /// Signed 8 bits.
    Int8,
    /// Unsigned 16 bits.
    Uint16,
    /// Signed 16 bits.
    Int16,
    /// Signed 32 bits.
    Int32,
    /// Signed 64 bits.
    Int64,
    /// A string, without a fixed size.
    String,
    /// One byte, 0 or 1.
    Bool,
    /// IEEE binary16.
    Float16,
    /// IEEE binary64.
    Double,
    /// Unsigned 32 bits.
    Uint32,
    /// Unsigned 64 bits.
    Uint64,
    /// A complex number of two binary32 parts.
    Complex64,
    /// A complex number of two binary64 parts.
    Complex128,
    /// Brain float, 16 bits.
    Bfloat16,
    /// 8-bit float, 4 exponent bits, finite, with NaN.
    Float8e4m3fn,
    /// 8-bit float, 4 exponent bits, no negative zero.
    Float8e4m3fnuz,
    /// 8-bit float, 5 exponent bits.
    Float8e5m2,
    /// 8-bit float, 5 exponent bits, no negative zero.
    Float8e5m2fnuz,
    /// Unsigned 4 bits, packed.
    Uint4,
    /// Signed 4 bits, packed.
    Int4,
    /// 4-bit float, packed.
    Float4e2m1,
    /// An 8-bit power of two.
    Float8e8m0,
    /// Unsigned 2 bits, packed.
    Uint2,
    /// Signed 2 bits, packed.
    Int2,
    /// An ONNX number that this version does not know.
    Other(i32),
}

/// Columns: ONNX number, type, ONNX name in lower case, bits of an element (0: no fixed size), name in
/// the text form.
const TABLE: &[(i32, ElementType, &str, u32, &str)] = &[
    (0, ElementType::Undefined, "undefined", 0, "?"),
    (1, ElementType::Float, "float", 32, "f32"),
    (2, ElementType::Uint8, "uint8", 8, "u8"),
    (3, ElementType::Int8, "int8", 8, "i8"),
    (4, ElementType::Uint16, "uint16", 16, "u16"),
    (5, ElementType::Int16, "int16", 16, "i16"),
    (6, ElementType::Int32, "int32", 32, "i32"),
    (7, ElementType::Int64, "int64", 64, "i64"),
    (8, ElementType::String, "string", 0, "string"),
    (9, ElementType::Bool, "bool", 8, "bool"),
    (10, ElementType::Float16, "float16", 16, "f16"),
    (11, ElementType::Double, "double", 64, "f64"),
    (12, ElementType::Uint32, "uint32", 32, "u32"),
    (13, ElementType::Uint64, "uint64", 64, "u64"),
    (14, ElementType::Complex64, "complex64", 64, "c64"),
    (15, ElementType::Complex128, "complex128", 128, "c128"),
    (16, ElementType::Bfloat16, "bfloat16", 16, "bf16"),
    (17, ElementType::Float8e4m3fn, "float8e4m3fn", 8, "f8e4m3fn"),
    (18, ElementType::Float8e4m3fnuz, "float8e4m3fnuz", 8, "f8e4m3fnuz"),
    (19, ElementType::Float8e5m2, "float8e5m2", 8, "f8e5m2"),
    (20, ElementType::Float8e5m2fnuz, "float8e5m2fnuz", 8, "f8e5m2fnuz"),
    (21, ElementType::Uint4, "uint4", 4, "u4"),
    (22, ElementType::Int4, "int4", 4, "i4"),
    (23, ElementType::Float4e2m1, "float4e2m1", 4, "f4e2m1"),
    (24, ElementType::Float8e8m0, "float8e8m0", 8, "f8e8m0"),
    (25, ElementType::Uint2, "uint2", 2, "u2"),
    (26, ElementType::Int2, "int2", 2, "i2"),
];

impl ElementType {
    fn row(self) -> Option<&'static (i32, ElementType, &'static str, u32, &'static str)> {
        TABLE.iter().find(|row| row.1 == self)
    }
    /// Returns the type with an ONNX number; `Other` if the number is unknown.
    pub fn from_onnx(number: i32) -> Self {
        TABLE.iter().find(|row| row.0 == number).map_or(Self::Other(number), |row| row.1)
    }
    /// Number of the type in ONNX.
    pub fn to_onnx(self) -> i32 {
        match self {
            Self::Other(number) => number,
            known => known.row().map_or(0, |row| row.0),
        }
    }
    /// Name of the type in ONNX, in lower case, as in the layout file.
    pub fn onnx_name(self) -> &'static str {
        self.row().map_or("other", |row| row.2)
    }
    /// Finds the type by its name in the text form.
    pub fn from_text(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("other") {
            return number.parse().ok().map(Self::from_onnx);
        }
        TABLE.iter().find(|row| row.4 == name).map(|row| row.1)
    }
    /// Size of one element in bits; `None` for strings and unknown types.
    pub fn bits(self) -> Option<u32> {
        self.row().map(|row| row.3).filter(|bits| *bits > 0)
    }
    /// Whether elements are integers or booleans; shape arithmetic can compute with these.
    pub fn is_integral(self) -> bool {
        use ElementType::*;
        matches!(
            self,
            Uint8
                | Int8
                | Uint16
                | Int16
                | Int32
                | Int64
                | Bool
                | Uint32
                | Uint64
                | Uint4
                | Int4
                | Uint2
                | Int2
        )
    }
    /// Whether elements are floating-point numbers of any width.
    pub fn is_float(self) -> bool {
        use ElementType::*;
        matches!(
            self,
            Float
                | Float16
                | Double
                | Bfloat16
                | Float8e4m3fn
                | Float8e4m3fnuz
                | Float8e5m2
                | Float8e5m2fnuz
                | Float4e2m1
                | Float8e8m0
        )
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "other{number}"),
            known => f.write_str(known.row().map_or("?", |row| row.4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_both_ways() {
        for row in TABLE {
            assert_eq!(ElementType::from_onnx(row.0), row.1);
            assert_eq!(row.1.to_onnx(), row.0);
            assert_eq!(ElementType::from_text(&row.1.to_string()), Some(row.1));
        }
        assert_eq!(ElementType::from_onnx(99).to_onnx(), 99);
        assert_eq!(ElementType::from_text("other99"), Some(ElementType::Other(99)));
    }
}
