//! Rates of the machine that runs nodes, one after another.

use memc_ir::{Bytes, ElementType, Nanos};

use crate::line::{Amounts, Lines};

/// Operations that a vector unit does in the time of one scalar step: eight multiply-adds of binary32.
pub(crate) const VECTOR: f64 = 16.0;

/// Rates of a machine that runs one node at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Arithmetic operations per second.
    pub flops_per_second: ArithmeticRates,
    /// Bytes per second between the nearest memory and the processor.
    pub bytes_per_second: f64,
    /// Cache from which a node may read results of earlier nodes; `None` without a cache.
    pub cache: Option<Cache>,
    /// Fixed time of one node.
    pub overhead: Nanos,
    /// Fraction of both rates that kernels reach, above 0 and at most 1.
    pub sustained: f64,
    /// Laws of kinds of kernels, each of which replaces all rates above for its kind.
    pub lines: Lines,
}

/// Bytes that a node reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes of values made by nodes: earlier nodes may have left them in a cache.
    pub made: u64,
    /// Bytes of constants, each read once per run.
    pub constant: u64,
}

/// A cache between memory and the processor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cache {
    /// Capacity in bytes.
    pub capacity: Bytes,
    /// Bytes per second between the cache and the processor.
    pub bytes_per_second: f64,
}

/// Arithmetic operations per second by element type; a multiply-add counts as two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ArithmeticRates {
    /// Rate of IEEE binary32, and of every type without its own rate.
    pub float: f64,
    /// Rate of IEEE binary64.
    pub double: f64,
    /// Rate of IEEE binary16.
    pub float16: f64,
    /// Rate of bfloat16.
    pub bfloat16: f64,
    /// Rate of floats of 8 bits and less.
    pub float8: f64,
    /// Rate of integers of 8 bits and less.
    pub int8: f64,
}

impl ArithmeticRates {
    /// Sets every type to the rate of binary32, and binary64 to half of it.
    pub fn uniform(float: f64) -> Self {
        Self { float, double: float / 2.0, float16: float, bfloat16: float, float8: float, int8: float }
    }

    /// Returns the operations per second on elements of a type.
    pub fn of(&self, element: ElementType) -> f64 {
        match element {
            ElementType::Double | ElementType::Complex128 => self.double,
            ElementType::Float16 => self.float16,
            ElementType::Bfloat16 => self.bfloat16,
            ElementType::Float8e4m3fn
            | ElementType::Float8e4m3fnuz
            | ElementType::Float8e5m2
            | ElementType::Float8e5m2fnuz
            | ElementType::Float8e8m0
            | ElementType::Float4e2m1 => self.float8,
            ElementType::Int8
            | ElementType::Uint8
            | ElementType::Int4
            | ElementType::Uint4
            | ElementType::Int2
            | ElementType::Uint2 => self.int8,
            _ => self.float,
        }
    }
}

impl Machine {
    /// Returns the time of this work on elements of a type: the longer of arithmetic and traffic, plus
    /// the overhead.
    pub fn time(&self, flops: u64, traffic: Traffic, element: ElementType) -> Nanos {
        let compute = flops as f64 / self.flops_per_second.of(element);
        Nanos(compute.max(self.moving(traffic)) / self.sustained * 1e9 + self.overhead.0)
    }

    /// Returns the time of scalar steps, which use no vector unit, plus the overhead.
    pub fn scalar_time(&self, steps: u64) -> Nanos {
        let rate = self.flops_per_second.float / VECTOR * self.sustained;
        Nanos(steps as f64 / rate * 1e9 + self.overhead.0)
    }

    /// Returns the seconds to move this traffic at full rate. Up to the cache's capacity, made values
    /// move at the cache's rate; the rest moves at the memory's rate.
    fn moving(&self, traffic: Traffic) -> f64 {
        let Amounts { near, far, .. } = self.moved(traffic);
        near / self.cache.map_or(1.0, |cache| cache.bytes_per_second) + far / self.bytes_per_second
    }

    /// Returns the bytes of this traffic that a cache and the memory move.
    pub(crate) fn moved(&self, traffic: Traffic) -> Amounts {
        let near = self.cache.map_or(0, |cache| traffic.made.min(cache.capacity.0));
        let far = (traffic.made - near) as f64 + traffic.constant as f64;
        Amounts { near: near as f64, far, ..Amounts::default() }
    }
}
