//! Archives of arrays: arbitrary bytes never cause a panic, and arrays that are read, written and read
//! again stay equal.

use std::path::Path;

use memc_ort::npz::{Archive, write};
use memc_ort::{digest, views};

/// Reads bytes as NumPy's archive.
pub fn read_npz(bytes: &[u8]) {
    let path = Path::new("in.npz");
    let archive = match Archive::of(bytes.to_vec().into(), path) {
        Ok(archive) => archive,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let Ok(arrays) = archive.arrays() else { return };
    let mut written = Vec::new();
    if write(&views(&arrays), &mut written).is_err() {
        return;
    }
    let again = Archive::of(written.into(), path).and_then(|archive| archive.arrays());
    let again = again.unwrap_or_else(|error| panic!("what was written is refused: {error}"));
    assert_eq!(digest(&views(&arrays)), digest(&views(&again)));
}
