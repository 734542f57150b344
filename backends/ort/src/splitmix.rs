//! The random number generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

/// A generator: its state is the seed.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// Returns 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `count`; 0 if that is 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next().checked_rem(count).unwrap_or(0)
    }

    /// Returns a number of `[0, 1)` with 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
