//! Values of the runtime, and reading their contents: arrays, strings, sequences, maps, empty optionals.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use ort::sys;

use super::{Runtime, nothing};
use crate::arrays::TensorView;
use crate::content::Content;
use crate::element::Element;
use crate::error::Error;
use crate::types::MAX_DEPTH;

/// A value of any kind: a tensor over our bytes, or a value that the runtime made.
#[derive(Debug)]
pub struct Value<'r> {
    pub(super) runtime: &'r Runtime,
    pub(super) pointer: NonNull<sys::OrtValue>,
}

// SAFETY: all operations on a shared value only read it.
unsafe impl Sync for Value<'_> {}

/// Type and dimensions of a tensor, as the runtime states them.
struct Described {
    /// ONNX's number of the element type.
    number: i32,
    shape: Vec<u64>,
}

impl<'r> Value<'r> {
    /// Returns the value as an array; `None` for strings, sequences, maps and empty optionals.
    ///
    /// # Errors
    /// The runtime refuses to describe the value.
    pub fn tensor(&self) -> Result<Option<TensorView<'_>>, Error> {
        match self.kind()? {
            Some(sys::ONNXType::ONNX_TYPE_TENSOR) => self.array(self.described()?),
            _ => Ok(None),
        }
    }

    /// Returns the content of a value of any kind. Borrows arrays and copies all other
    /// contents.
    ///
    /// # Errors
    /// The runtime refuses to describe the value.
    pub fn content(&self) -> Result<Content<'_>, Error> {
        self.content_within(0)
    }

    /// As [`Self::content`], for a value nested in `depth` sequences and maps.
    fn content_within(&self, depth: usize) -> Result<Content<'_>, Error> {
        let Some(kind) = self.kind()? else { return Ok(Content::None) };
        match kind {
            sys::ONNXType::ONNX_TYPE_TENSOR => {
                let described = self.described()?;
                if described.number
                    == sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING as i32
                {
                    return self.strings(described.shape);
                }
                Ok(self
                    .array(described)?
                    .map_or(Content::Unread("a tensor of a type that memc does not know"), Content::View))
            }
            sys::ONNXType::ONNX_TYPE_SEQUENCE | sys::ONNXType::ONNX_TYPE_MAP if depth >= MAX_DEPTH => {
                Ok(Content::Unread("nested too deeply"))
            }
            sys::ONNXType::ONNX_TYPE_SEQUENCE => Ok(match self.count() {
                // The interface returns only sequences of tensors and of some maps.
                Err(_) => Content::Unread("a sequence whose elements the runtime does not return"),
                Ok(count) => {
                    Content::Sequence((0..count).map(|at| self.element(at, depth)).collect::<Result<_, _>>()?)
                }
            }),
            sys::ONNXType::ONNX_TYPE_MAP => {
                Ok(Content::Map(Box::new((self.element(0, depth)?, self.element(1, depth)?))))
            }
            sys::ONNXType::ONNX_TYPE_SPARSETENSOR => Ok(Content::Unread("a sparse tensor")),
            _ => Ok(Content::Unread("of a type that memc does not know")),
        }
    }

    /// Whether the value is not an empty optional.
    pub(super) fn is_present(&self) -> Result<bool, Error> {
        let mut present = 0;
        // SAFETY: the value lives.
        let status = unsafe { (self.runtime.api().HasValue)(self.pointer.as_ptr(), &mut present) };
        self.runtime.check("describe a value", status)?;
        Ok(present != 0)
    }

    /// Returns the kind of the value; `None` for an empty optional.
    ///
    /// An empty optional has a type and no data. Every query except "is it empty?" makes the runtime
    /// follow a null pointer.
    fn kind(&self) -> Result<Option<sys::ONNXType>, Error> {
        const WHAT: &str = "describe a value";
        const KINDS: [sys::ONNXType; 4] = [
            sys::ONNXType::ONNX_TYPE_TENSOR,
            sys::ONNXType::ONNX_TYPE_SEQUENCE,
            sys::ONNXType::ONNX_TYPE_MAP,
            sys::ONNXType::ONNX_TYPE_SPARSETENSOR,
        ];
        if !self.is_present()? {
            return Ok(None);
        }
        let mut kind = 0i32;
        // SAFETY: the value lives; the number is read through an integer, so that an unknown number does
        // not become an invalid enumeration.
        let status =
            unsafe { (self.runtime.api().GetValueType)(self.pointer.as_ptr(), (&raw mut kind).cast()) };
        self.runtime.check(WHAT, status)?;
        let known = KINDS.into_iter().find(|known| *known as i32 == kind);
        Ok(Some(known.unwrap_or(sys::ONNXType::ONNX_TYPE_UNKNOWN)))
    }

    /// Returns type and dimensions of a tensor. The value must be a tensor.
    fn described(&self) -> Result<Described, Error> {
        const WHAT: &str = "describe a tensor";
        let (runtime, api) = (self.runtime, self.runtime.api());
        let (mut info, mut number, mut rank) = (ptr::null_mut(), 0i32, 0usize);
        // SAFETY: the value lives; the description is released below; the number is read through an
        // integer, as above.
        unsafe {
            runtime.check(WHAT, (api.GetTensorTypeAndShape)(self.pointer.as_ptr(), &mut info))?;
            let mut read = || {
                runtime.check(WHAT, (api.GetTensorElementType)(info, (&raw mut number).cast()))?;
                runtime.check(WHAT, (api.GetDimensionsCount)(info, &mut rank))?;
                let mut dims = vec![0i64; rank];
                runtime.check(WHAT, (api.GetDimensions)(info, dims.as_mut_ptr(), rank))?;
                Ok(dims.into_iter().map(|extent| u64::try_from(extent).unwrap_or(0)).collect())
            };
            let shape: Result<Vec<u64>, Error> = read();
            (api.ReleaseTensorTypeAndShapeInfo)(info);
            Ok(Described { number, shape: shape? })
        }
    }

    /// Borrows the elements of a tensor; `None` for types without a fixed size.
    fn array(&self, Described { number, shape }: Described) -> Result<Option<TensorView<'_>>, Error> {
        let Some(element) = Element::from_onnx(number) else { return Ok(None) };
        let Some(bytes) = element.bytes(&shape).and_then(|bytes| usize::try_from(bytes).ok()) else {
            return Ok(None);
        };
        let mut data: *mut c_void = ptr::null_mut();
        // SAFETY: the value is a tensor and lives; shape and type give the number of its bytes.
        let bytes = unsafe {
            self.runtime.check(
                "read a tensor",
                (self.runtime.api().GetTensorMutableData)(self.pointer.as_ptr(), &mut data),
            )?;
            if data.is_null() || bytes == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(data.cast::<u8>(), bytes)
            }
        };
        Ok(Some(TensorView { element, shape, bytes }))
    }

    /// Copies the strings of a tensor as bytes, because they need not be UTF-8.
    fn strings(&self, shape: Vec<u64>) -> Result<Content<'static>, Error> {
        const WHAT: &str = "read strings";
        let (runtime, api) = (self.runtime, self.runtime.api());
        let count = shape.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| nothing(WHAT))?;
        if count == 0 {
            return Ok(Content::Strings { shape, elements: Vec::new() });
        }
        let mut length = 0;
        // SAFETY: the value is a tensor of strings and lives; the buffers have the stated lengths.
        let (text, starts) = unsafe {
            runtime.check(WHAT, (api.GetStringTensorDataLength)(self.pointer.as_ptr(), &mut length))?;
            // The runtime requires a buffer even if all strings are empty.
            let (mut text, mut starts) = (vec![0u8; length.max(1)], vec![0usize; count]);
            let buffer = text.as_mut_ptr().cast();
            let status = (api.GetStringTensorContent)(
                self.pointer.as_ptr(),
                buffer,
                length,
                starts.as_mut_ptr(),
                count,
            );
            runtime.check(WHAT, status)?;
            (text, starts)
        };
        let ends = starts.iter().copied().skip(1).chain([length]);
        let elements =
            starts.iter().zip(ends).map(|(start, end)| text.get(*start..end).unwrap_or_default().to_vec());
        Ok(Content::Strings { elements: elements.collect(), shape })
    }

    /// Returns the number of elements of a sequence or map.
    fn count(&self) -> Result<usize, Error> {
        let mut count = 0;
        // SAFETY: the value lives.
        let status = unsafe { (self.runtime.api().GetValueCount)(self.pointer.as_ptr(), &mut count) };
        self.runtime.check("count elements", status)?;
        Ok(count)
    }

    /// Copies an element of a sequence; of a map, its keys (position 0) or its values (position 1).
    fn element(&self, position: usize, depth: usize) -> Result<Content<'static>, Error> {
        const WHAT: &str = "read an element";
        let allocator = self.runtime.core.allocator.as_interface();
        let position = i32::try_from(position).map_err(|_| nothing(WHAT))?;
        let mut element = ptr::null_mut();
        // SAFETY: the value lives; the returned value is ours to release.
        let status = unsafe {
            (self.runtime.api().GetValue)(self.pointer.as_ptr(), position, allocator, &mut element)
        };
        self.runtime.check(WHAT, status)?;
        let pointer = NonNull::new(element).ok_or_else(|| nothing(WHAT))?;
        Value { runtime: self.runtime, pointer }.content_within(depth + 1)?.into_owned()
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        // SAFETY: the runtime made the value; the bytes of borrowed tensors are not the runtime's and
        // stay valid.
        unsafe { (self.runtime.api().ReleaseValue)(self.pointer.as_ptr()) };
    }
}
