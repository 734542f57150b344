//! Element types: ONNX's numbers, the names in layout files, and sizes.

use memc_onnx_proto::onnx::tensor_proto::DataType;
use ort::sys::ONNXTensorElementDataType as Runtime;

/// Types that both ONNX and the runtime's C interface know: name in a layout file, ONNX type, size in
/// bits, type of the interface.
const TABLE: [(&str, DataType, u32, Runtime); 21] = [
    ("float", DataType::Float, 32, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT),
    ("uint8", DataType::Uint8, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8),
    ("int8", DataType::Int8, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8),
    ("uint16", DataType::Uint16, 16, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16),
    ("int16", DataType::Int16, 16, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16),
    ("int32", DataType::Int32, 32, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32),
    ("int64", DataType::Int64, 64, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64),
    ("bool", DataType::Bool, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL),
    ("float16", DataType::Float16, 16, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16),
    ("double", DataType::Double, 64, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE),
    ("uint32", DataType::Uint32, 32, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32),
    ("uint64", DataType::Uint64, 64, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64),
    ("complex64", DataType::Complex64, 64, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64),
    ("complex128", DataType::Complex128, 128, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128),
    ("bfloat16", DataType::Bfloat16, 16, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16),
    ("float8e4m3fn", DataType::Float8e4m3fn, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN),
    ("float8e4m3fnuz", DataType::Float8e4m3fnuz, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ),
    ("float8e5m2", DataType::Float8e5m2, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2),
    ("float8e5m2fnuz", DataType::Float8e5m2fnuz, 8, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ),
    ("uint4", DataType::Uint4, 4, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4),
    ("int4", DataType::Int4, 4, Runtime::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4),
];

/// An element type of fixed size that kernels can work on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Element(DataType);

impl Element {
    /// Returns the type with ONNX's number; `None` for strings and for types that the runtime does not
    /// know.
    pub fn from_onnx(number: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 as i32 == number).map(|row| Self(row.1))
    }

    /// Returns the type with a name from a layout file; `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| Self(row.1))
    }

    fn row(self) -> &'static (&'static str, DataType, u32, Runtime) {
        TABLE.iter().find(|row| row.1 == self.0).unwrap_or(&TABLE[0])
    }

    /// Returns ONNX's number.
    pub fn onnx(self) -> i32 {
        self.0 as i32
    }

    /// Returns the type as ONNX's messages name it.
    pub fn data_type(self) -> DataType {
        self.0
    }

    /// Returns the name in layout files.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn runtime(self) -> Runtime {
        self.row().3
    }

    /// Returns the size of an element in bits if several elements share a byte, otherwise `None`.
    pub(crate) fn packed_bits(self) -> Option<u32> {
        Some(self.row().2).filter(|bits| *bits < 8)
    }

    /// Returns the size of a tensor in bytes, elements × bits / 8 rounded up; `None` if it overflows 64
    /// bits.
    pub fn bytes(self, shape: &[u64]) -> Option<u64> {
        let elements = shape.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))?;
        Some(elements.checked_mul(u64::from(self.row().2))?.div_ceil(8))
    }
}
