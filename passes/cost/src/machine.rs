//! What the cost model knows of a machine.

/// Rates of a machine that runs one node at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Name for reports.
    pub name: &'static str,
    /// Arithmetic operations a second that a well-shaped kernel reaches.
    pub flops_per_second: f64,
    /// Bytes a second between memory and the processor.
    pub bytes_per_second: f64,
    /// Fixed cost of one node, in nanoseconds.
    pub overhead_ns: f64,
}

impl Machine {
    /// One core of a current server processor: 16 fused multiply-adds of binary32 a cycle at 3 GHz reach about 50 GFLOP/s in practice, one core
    /// draws about 10 GB/s, and a runtime needs about 2 µs a node.
    pub const CPU: Self = Self { name: "cpu", flops_per_second: 50e9, bytes_per_second: 10e9, overhead_ns: 2_000.0 };
}
