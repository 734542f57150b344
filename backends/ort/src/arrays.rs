//! Arrays that go into a run and come out of it.

use crate::element::Element;
use crate::error::Error;
use crate::memory::Block;

/// A dense array with borrowed elements.
#[derive(Clone, Debug)]
pub struct TensorView<'v> {
    /// Element type.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Elements, as stored in memory.
    pub bytes: &'v [u8],
}

impl<'v> TensorView<'v> {
    /// Returns one byte an element if several elements share a byte in memory, otherwise `None`. The
    /// first element has the lowest bits; unused bits of the last byte are dropped.
    pub(crate) fn unpacked(&self) -> Option<Vec<u8>> {
        let bits = self.element.packed_bits()?;
        let count = self.shape.iter().product::<u64>();
        let (each, mask) = (8 / bits as usize, (1u8 << bits) - 1);
        let element = |index: usize| {
            self.bytes.get(index / each).map_or(0, |byte| (byte >> (bits as usize * (index % each))) & mask)
        };
        Some((0..usize::try_from(count).unwrap_or(0)).map(element).collect())
    }

    /// Iterates over the elements, each as stored in memory.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &'v [u8]> {
        let count = usize::try_from(self.shape.iter().product::<u64>().max(1)).unwrap_or(1);
        self.bytes.chunks_exact((self.bytes.len() / count).max(1))
    }
}

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
    /// Returns an array of elements as stored in memory; `None` if the number of bytes does not match
    /// the shape.
    ///
    /// # Errors
    /// The system has no memory for the copy.
    pub fn new(element: Element, shape: Vec<u64>, bytes: &[u8]) -> Result<Option<Self>, Error> {
        if element.bytes(&shape) != Some(bytes.len() as u64) {
            return Ok(None);
        }
        Ok(Some(Self { element, shape, block: Block::copy_of(bytes)? }))
    }

    /// Returns an array whose elements `fill` writes; `None` if its size overflows 64 bits.
    ///
    /// # Errors
    /// The system has no memory for the array, or `fill` fails.
    pub(crate) fn filled(
        element: Element,
        shape: Vec<u64>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<Option<Self>, Error> {
        let Some(bytes) = element.bytes(&shape) else { return Ok(None) };
        let mut block = Block::zeros(bytes)?;
        fill(block.bytes_mut())?;
        Ok(Some(Self { element, shape, block }))
    }

    /// Copies a borrowed array.
    ///
    /// # Errors
    /// The system has no memory for the copy.
    pub fn of(view: &TensorView<'_>) -> Result<Self, Error> {
        Ok(Self { element: view.element, shape: view.shape.clone(), block: Block::copy_of(view.bytes)? })
    }

    /// Borrows the array.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { element: self.element, shape: self.shape.clone(), bytes: self.bytes() }
    }

    /// Returns the elements, as stored in memory.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// Returns the address of the first element.
    pub(crate) fn address(&self) -> *mut u8 {
        self.block.address()
    }
}

/// Returns bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
