//! Arrays that go into a run and come out of it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::element::Element;
use crate::error::Error;
use crate::memory::Block;
use crate::runtime::Value;

/// A dense array that owns its elements.
#[derive(Debug)]
pub struct Array {
    /// Element type.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<u64>,
    block: Block,
}

impl Array {
    /// An array of elements as they lie in memory; `None` when their number is not what the shape says.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(element: Element, shape: Vec<u64>, bytes: &[u8]) -> Result<Option<Self>, Error> {
        if element.bytes(&shape) != Some(bytes.len() as u64) {
            return Ok(None);
        }
        Ok(Some(Self { element, shape, block: Block::copy_of(bytes)? }))
    }

    /// A copy of a value that is a tensor; `None` for anything else.
    ///
    /// # Errors
    /// The runtime does not describe the value, or there is no memory.
    pub fn of(value: &Value<'_>) -> Result<Option<Self>, Error> {
        match value.tensor()? {
            None => Ok(None),
            Some(view) => Self::new(view.element, view.shape.clone(), view.bytes),
        }
    }

    /// The elements.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// Address of the first element.
    pub(crate) fn address(&self) -> *mut u8 {
        self.block.address()
    }
}

/// SHA-256 over names, types, shapes and elements, lower-case hexadecimal; equal for equal results.
pub fn digest(arrays: &BTreeMap<String, Array>) -> String {
    let mut hash = Sha256::new();
    for (name, array) in arrays {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(array.element.onnx().to_le_bytes());
        hash.update((array.shape.len() as u64).to_le_bytes());
        array.shape.iter().for_each(|extent| hash.update(extent.to_le_bytes()));
        hash.update(array.bytes());
    }
    hex(&hash.finalize())
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
