//! Time of kernels of one kind: a sum of terms, each with a rate of its own.

use memc_ops::KernelKind;

/// Amounts of a node that its time depends on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Amounts {
    /// Arithmetic operations, corrected by the table's rate of the operator, and scalar steps as the
    /// operations that a vector unit does meanwhile.
    pub flops: f64,
    /// Elements that are rearranged before products.
    pub gathered: f64,
    /// Bytes from and to the cache.
    pub near: f64,
    /// Bytes from and to memory.
    pub far: f64,
}

/// Number of terms of a line: a constant one, and one for each amount.
pub(crate) const TERMS: usize = 5;

impl Amounts {
    /// Returns the factors of the terms of a line, in the order of [`Line::costs`].
    pub(crate) fn factors(&self) -> [f64; TERMS] {
        [1.0, self.flops, self.gathered, self.near, self.far]
    }
}

/// Law by which kernels of one kind take time on a machine, as `memc calibrate` fits it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Line {
    /// Nanoseconds of the terms: of a node; of an operation; of a gathered element; of a byte from and to
    /// the cache, and the memory. Not negative.
    pub costs: [f64; TERMS],
    /// Mean factor, less 1, by which times of probes are off that are predicted by the line of all others.
    pub error: f64,
}

impl Line {
    /// Returns the nanoseconds of a node with these amounts.
    pub fn time(&self, amounts: &Amounts) -> f64 {
        self.costs.iter().zip(amounts.factors()).map(|(cost, factor)| cost * factor).sum()
    }
}

/// Lines of a machine by kind of kernel; empty for a machine that is not calibrated.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Lines([Option<Line>; KernelKind::COUNT]);

impl Lines {
    /// Returns the line of a kind; `None` if none was fitted.
    pub fn of(&self, kind: KernelKind) -> Option<&Line> {
        self.0[kind as usize].as_ref()
    }

    /// Sets the line of a kind.
    pub fn set(&mut self, kind: KernelKind, line: Line) {
        self.0[kind as usize] = Some(line);
    }

    /// Whether no kind has a line.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Returns kinds with their lines, in the order of the kinds.
    pub fn iter(&self) -> impl Iterator<Item = (KernelKind, &Line)> {
        KernelKind::ALL.into_iter().zip(&self.0).filter_map(|((_, kind), line)| Some((kind, line.as_ref()?)))
    }
}
