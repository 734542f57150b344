//! Units that must not be mixed up: bytes, steps, nanoseconds, and half-open live ranges in steps.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(
    /// The count.
    pub u64,
);

impl Bytes {
    /// Sum; `None` where it passes 64 bits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
    /// Sum that stops at the largest number; for totals that are only reported.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Bytes {
    /// IEC units with one decimal: `640.0 KiB`; below 1 KiB exact: `12 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// Position of a node in a schedule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Step(
    /// Counted from 0.
    pub u32,
);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Modelled or measured time in nanoseconds.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Nanos(
    /// The count; fractions are kept.
    pub f64,
);

/// Steps in which a value must be kept: defined at `start`, last read at `end - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LiveRange {
    /// First step.
    pub start: Step,
    /// One past the last step.
    pub end: Step,
}

impl LiveRange {
    /// Whether some step belongs to both.
    pub fn meets(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Display for LiveRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_iec_units() {
        let printed: Vec<String> = [0, 1023, 1024, 655_360, 1 << 40].iter().map(|n| Bytes(*n).to_string()).collect();
        assert_eq!(printed, ["0 B", "1023 B", "1.0 KiB", "640.0 KiB", "1.0 TiB"]);
    }
}
