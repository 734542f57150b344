//! Guarantees of the fuzz targets: external data never causes a panic, and accepted data keeps its
//! guarantees.
//!
//! A target is a function of bytes that panics if a guarantee is broken. Structured targets read their
//! decisions from the bytes with [`Unstructured`],
//! which returns zeros after the end. So every input is meaningful.

pub mod arrays;
pub mod described;
pub mod generator;
pub mod layout;
pub mod model;
pub mod module;
pub mod order;
pub mod place;
pub mod planning;
pub mod problem_file;
pub mod targets;
pub mod text;

use arbitrary::{Arbitrary, Unstructured};

/// Decisions read from the fuzzer's bytes.
pub struct Choices<'b>(Unstructured<'b>);

impl<'b> Choices<'b> {
    /// Reads decisions from these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }
    /// Returns a number below `limit`, or 0 after the end of the bytes.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.int_in_range(0..=limit.saturating_sub(1)).unwrap_or(0)
    }
    /// Returns true once in `times`, and false after the end of the bytes.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 1
    }
    /// Returns one of the elements of a non-empty slice.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
    /// Returns any value of a type, or its default after the end of the bytes.
    pub fn any<T: Arbitrary<'b> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }
    /// Returns a number that is often small, and sometimes at a limit of a number type.
    pub fn number(&mut self) -> u64 {
        const EDGES: [u64; 14] = [
            0,
            1,
            2,
            64,
            255,
            256,
            4096,
            1 << 31,
            1 << 32,
            (1 << 53) + 1,
            1 << 61,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
        ];
        match self.below(4) {
            0 | 1 => self.below(17) as u64,
            2 => u64::from(self.any::<u16>()),
            _ => *self.pick(&EDGES),
        }
    }
    /// Whether all bytes are read.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}
