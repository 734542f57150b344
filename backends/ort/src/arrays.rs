//! Arrays that go into a run and come out of it.

use crate::element::Element;
use crate::error::Error;
use crate::memory::Block;

/// A dense array whose elements belong to somebody else.
#[derive(Clone, Debug)]
pub struct TensorView<'v> {
    /// Element type.
    pub element: Element,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Elements, as they lie in memory.
    pub bytes: &'v [u8],
}

impl<'v> TensorView<'v> {
    /// A byte an element, where several share a byte in memory, the first in the lowest bits: what is left of the last byte belongs to nobody.
    pub(crate) fn unpacked(&self) -> Option<Vec<u8>> {
        let bits = self.element.packed_bits()?;
        let count = self.shape.iter().product::<u64>();
        let (each, mask) = (8 / bits as usize, (1u8 << bits) - 1);
        let element =
            |index: usize| self.bytes.get(index / each).map_or(0, |byte| (byte >> (bits as usize * (index % each))) & mask);
        Some((0..usize::try_from(count).unwrap_or(0)).map(element).collect())
    }

    /// The elements one by one, as they lie in memory.
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

    /// An array whose elements `fill` writes; `None` when its size is absurd.
    ///
    /// # Errors
    /// There is no memory, or those of `fill`.
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

    /// A copy of what somebody else has.
    ///
    /// # Errors
    /// There is no memory.
    pub fn of(view: &TensorView<'_>) -> Result<Self, Error> {
        Ok(Self { element: view.element, shape: view.shape.clone(), block: Block::copy_of(view.bytes)? })
    }

    /// The array as others see it.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { element: self.element, shape: self.shape.clone(), bytes: self.bytes() }
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

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
