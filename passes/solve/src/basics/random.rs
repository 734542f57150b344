//! Pseudo-random numbers from fixed seeds, so that searches are reproducible.

/// The generator SplitMix64 (Steele, Lea, Flood 2014). Budget searches draw from it.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        let before = self.0;
        self.0 = before.wrapping_add(GOLDEN);
        scramble(before)
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// Returns a number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random entry of a list; `None` if the list is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.below(list.len() as u32) as usize).copied()
    }
}

/// Step of the state of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number that SplitMix64 draws in state `state`: a good hash of the state, too.
pub(crate) fn scramble(state: u64) -> u64 {
    let mut value = state.wrapping_add(GOLDEN);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The generator Xorshift (Marsaglia 2003), with one fixed seed. Shakes of placements draw from it: with
/// another generator, placements change.
pub(crate) struct Xorshift(u64);

impl Xorshift {
    /// Creates the sequence of the fixed seed.
    pub fn new() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A distribution over indices, in proportion to their weights.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    sums: Vec<f64>,
}

impl Weights {
    /// Creates the distribution; weights must not be negative.
    pub fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let add = |weight: f64| {
            sum += weight;
            sum
        };
        Self { sums: weights.map(add).collect() }
    }

    /// Draws an index; `None` if no weight is above zero. O(log n).
    pub fn draw(&self, random: &mut Random) -> Option<u32> {
        let all = self.sums.last().copied().filter(|all| *all > 0.0)?;
        let at = random.unit() * all;
        let index = self.sums.partition_point(|sum| *sum <= at);
        (index < self.sums.len()).then_some(index as u32)
    }
}
