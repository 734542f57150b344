//! Sizes as users write them: bytes with a unit, or a percentage of the model's peak in file order.

use std::fmt;
use std::str::FromStr;

use memc_ir::Bytes;

/// A number of bytes, or a percentage of the input model's peak in file order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// Number of bytes.
    Bytes(u64),
    /// Percentage of the peak in file order, with each value in units of its space.
    Percent(f64),
}

impl Size {
    /// Returns the size in bytes, rounded down; 100 % are `whole`.
    pub fn resolve(self, whole: Bytes) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // Precise up to 2^53 bytes, far above any arena.
            Self::Percent(percent) => (whole.0 as f64 * percent / 100.0).floor() as u64,
        }
    }
}

/// Rejects a text that states no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text has another form.
    #[error("`{text}` is not a size; write 1048576, 512KiB, 2GB or 60%")]
    Form {
        /// The text given.
        text: String,
    },
    /// A number with a fraction and without a unit: no byte has parts.
    #[error(
        "`{text}` is no number of bytes; write `{percent}%` for this share of the peak in file order, or a unit: 512KiB, 1.5MB"
    )]
    Fraction {
        /// The text given.
        text: String,
        /// The number in percent.
        percent: String,
    },
}

impl SizeError {
    /// Rejects a number with a fraction and without a unit.
    fn of_fraction(text: &str) -> Option<Self> {
        let number: f64 = text.trim().trim_end_matches(['b', 'B']).trim_end().parse().ok()?;
        // Rounded to the thousandth of a percent, so that 0.07 gives 7.
        let percent = (number * 1e5).round() / 1e3;
        let is_fraction = number.is_finite() && number > 0.0 && number.fract() != 0.0;
        is_fraction.then(|| Self::Fraction { text: text.to_owned(), percent: percent.to_string() })
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError::Form { text: text.to_owned() };
        if let Some(error) = SizeError::of_fraction(text) {
            return Err(error);
        }
        match text.trim().strip_suffix('%') {
            // Signs, exponents and words for infinity are valid numbers but not sizes.
            Some(number) if number.chars().any(|c| !c.is_ascii_digit() && c != '.' && c != ' ') => {
                Err(error())
            }
            Some(number) => number.trim().parse().map(Self::Percent).map_err(|_| error()),
            None => text.parse().map(|Bytes(bytes)| Self::Bytes(bytes)).map_err(|_| error()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_parse_in_decimal_and_binary_units() {
        let parsed = |text: &str| text.parse::<Size>();
        assert_eq!(parsed("512KiB"), Ok(Size::Bytes(524_288)));
        assert_eq!(parsed("2GB"), Ok(Size::Bytes(2_000_000_000)));
        assert_eq!(parsed("1048576"), Ok(Size::Bytes(1_048_576)));
        assert_eq!(parsed("60%"), Ok(Size::Percent(60.0)));
        assert_eq!(parsed("1.5 MiB"), Ok(Size::Bytes(1_572_864)));
        for wrong in ["", "-1", "12 apples", "1e30", "99999999999TiB", "KiB"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bare_fraction_gets_the_share_that_it_may_mean() {
        for (text, percent) in [("0.5", "`50%`"), ("0.07", "`7%`"), ("1.25", "`125%`"), ("0.5 B", "`50%`")] {
            let error = text.parse::<Size>().unwrap_err();
            assert!(
                matches!(error, SizeError::Fraction { .. }) && error.to_string().contains(percent),
                "{error}"
            );
        }
        assert_eq!(["2.0", "0"].map(|text| text.parse::<Size>().unwrap()), [Size::Bytes(2), Size::Bytes(0)]);
    }
}
