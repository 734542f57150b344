//! Failed states of searches, remembered as 128-bit hashes.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::random::scramble;

/// Maximum number of failed states in memory: 16 bytes each, plus the slack of the table.
pub(crate) const MAX_STATES: usize = 1 << 21;

/// A hasher that returns the low half of a key: keys are sums of well mixed numbers, so that half is
/// already a good hash.
#[derive(Default)]
pub(crate) struct LowHalf(u64);

impl Hasher for LowHalf {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// A set of failed states, by their hashes.
pub(crate) type NoGoods = HashSet<u128, BuildHasherDefault<LowHalf>>;

/// Returns a well mixed number for an item at a place; callers without places pass a constant.
pub(crate) fn mix(item: u32, place: u32) -> u128 {
    let seed = u64::from(item) << 32 | u64::from(place);
    u128::from(scramble(seed)) << 64 | u128::from(scramble(seed ^ 0x6a09_e667_f3bc_c908))
}
