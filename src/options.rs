//! Options of `optimize`, in one struct.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use std::sync::Arc;

use memc_ir::{Bytes, SecondaryMap, Value};
use memc_onnx_import::ImportOptions;
use memc_ops::Data;

/// Elements of small tensors, from inference.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// What the user asks of `optimize`.
#[derive(Clone, Debug, Default)]
pub struct OptimizeOptions {
    /// Binding of dimensions.
    pub import: ImportOptions,
    /// Who runs the result, what the arena holds, how much is searched.
    pub plan: memc_passes::Options,
    /// What a runtime measured of the model; takes the place of modelled times, and of workspace where it is more.
    pub profile: Option<memc_cost::timings::Timings>,
    /// A pipeline of the user's own; `None` for the default, which tries several and keeps the best.
    pub passes: Option<String>,
    /// Limits of the arena by space; the empty name is the first space of the target.
    pub budget: Vec<(String, Size)>,
    /// So many budgets between the smallest reachable one and what the plan without a budget needs are planned too; 0 for none.
    pub pareto: u32,
    /// Pin the order with dead-end nodes, for runtimes that choose their own.
    pub anchors: bool,
    /// Also lay out the file's own order, to be compared with.
    pub compare: bool,
    /// Verify the module after every pass.
    pub verify: bool,
    /// The options as the user gave them, for the layout file.
    pub stated: BTreeMap<String, String>,
}

/// A size in bytes, or in per cent of the input model's file-order peak.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Per cent.
    Percent(f64),
}

impl Size {
    /// The size in bytes when 100 % are `whole`; rounded down.
    pub fn resolve(self, whole: Bytes) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // Precise up to 2^53 bytes, far above any arena.
            Self::Percent(percent) => (whole.0 as f64 * percent / 100.0).floor() as u64,
        }
    }
}

/// Why a text is no size (the request's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no size; write 1048576, 512KiB, 2GB or 60%")]
pub struct SizeError {
    /// The text given.
    pub text: String,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError { text: text.to_owned() };
        match text.trim().strip_suffix('%') {
            // A sign, an exponent or a word for infinity is no size, though it is a number.
            Some(number) if number.chars().any(|c| !c.is_ascii_digit() && c != '.' && c != ' ') => Err(error()),
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
}
