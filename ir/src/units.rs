//! Units as separate types: bytes, steps, nanoseconds, and half-open live ranges in steps.

use std::fmt;
use std::str::FromStr;

/// A size or position in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(
    /// Number of bytes.
    pub u64,
);

impl Bytes {
    /// Adds two sizes; `None` if the sum exceeds 64 bits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
    /// Formats the exact number with thousands separators and the unit: `240,900 B`.
    pub fn exact(self) -> String {
        let digits = self.0.to_string();
        let mut text = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text + " B"
    }
    /// Adds two sizes, saturating at `u64::MAX`; for totals that are only reported.
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Error of a text that is not a size in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size; write 1048576, 512KiB or 2GB")]
pub struct BytesError {
    /// The rejected text.
    pub text: String,
}

impl FromStr for Bytes {
    type Err = BytesError;

    /// Parses a number with an optional decimal or binary unit: `1048576`, `512KiB`, `1.5 MB`.
    fn from_str(text: &str) -> Result<Self, BytesError> {
        let error = || BytesError { text: text.to_owned() };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let value: f64 = number.parse().map_err(|_| error())?;
        let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1e3,
            "m" | "mb" => 1e6,
            "g" | "gb" => 1e9,
            "t" | "tb" => 1e12,
            "kib" => 1024.0,
            "mib" => 1024.0 * 1024.0,
            "gib" => 1024.0 * 1024.0 * 1024.0,
            "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return Err(error()),
        };
        let bytes = value * factor;
        if (0.0..9e18).contains(&bytes) { Ok(Self(bytes as u64)) } else { Err(error()) }
    }
}

impl fmt::Display for Bytes {
    /// Formats with IEC units and one decimal (`640.0 KiB`); sizes below 1 KiB are exact (`12 B`).
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
    /// Position, counted from 0.
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
    /// Number of nanoseconds, with fractions.
    pub f64,
);

/// Live range of a value: it is defined at step `start` and last read at step `end - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LiveRange {
    /// First step.
    pub start: Step,
    /// One past the last step.
    pub end: Step,
}

impl LiveRange {
    /// Whether the two ranges share a step.
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
        let printed: Vec<String> =
            [0, 1023, 1024, 655_360, 1 << 40].iter().map(|n| Bytes(*n).to_string()).collect();
        assert_eq!(printed, ["0 B", "1023 B", "1.0 KiB", "640.0 KiB", "1.0 TiB"]);
    }

    #[test]
    fn exact_counts_have_separators() {
        let printed: Vec<String> =
            [0, 999, 1000, 240_900, 1_234_567].iter().map(|n| Bytes(*n).exact()).collect();
        assert_eq!(printed, ["0 B", "999 B", "1,000 B", "240,900 B", "1,234,567 B"]);
    }

    #[test]
    fn bytes_parse_with_and_without_units() {
        assert_eq!("128KiB".parse(), Ok(Bytes(131_072)));
        assert_eq!("1.5 MB".parse(), Ok(Bytes(1_500_000)));
        assert_eq!("1000".parse(), Ok(Bytes(1000)));
        for wrong in ["", "-1", "60%", "1e30", "inf", "12 apples"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }
}
