//! Constants that lie in a farther space, by the rows of `fetches`.

use std::collections::BTreeMap;

use crate::types::{Class, Layout};

impl Layout {
    /// Returns the constants that lie in a farther space, with their sizes in bytes: some node fetches them,
    /// as a whole, in part or by rows. Linear in tensors and fetches.
    #[must_use]
    pub fn far_constants(&self) -> BTreeMap<&str, u64> {
        let mut far: BTreeMap<&str, u64> = self.fetches.iter().map(|row| (row.tensor.as_str(), 0)).collect();
        for tensor in self.tensors.iter().filter(|tensor| tensor.class == Class::Constant) {
            if let Some(bytes) = far.get_mut(tensor.name.as_str()) {
                *bytes = tensor.bytes;
            }
        }
        far
    }
}
