//! Extents of a dimension as users write them: a number, a range, a list of largest extents, or an
//! expression.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use memc_ir::{DimExpr, Range, RangeError};

use crate::request_error::RequestError;

/// Most combinations of listed extents: each has a list of all offsets in the layout.
const MAX_BUCKETS: usize = 64;
/// Name of all unnamed dimensions in `--dim`.
const UNNAMED: &str = "?";

/// Extents that a symbolic dimension has in the runs of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// One extent.
    Only(u64),
    /// Every extent of a range: `1..512`, or `32..960/32` for multiples of 32.
    Range(Range),
    /// Every extent from 1 to the last of these ascending numbers. The layout has offsets for each:
    /// `128,256,512`.
    Buckets(Vec<u64>),
    /// The value of an expression over other dimensions: `past+seq`.
    Equal(DimExpr),
}

/// A text that states no extents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExtentError {
    /// A range without or with contradicting bounds.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A list that does not ascend.
    #[error("`{text}` does not ascend; write the largest extents in order, as in `128,256,512`")]
    Buckets {
        /// The text.
        text: String,
    },
    /// The text has another form.
    #[error(
        "`{text}` is neither a number nor a range; write 64, `1..512`, `32..960/32`, `128,256,512` or `past+seq`"
    )]
    Form {
        /// The text.
        text: String,
    },
}

impl FromStr for Extent {
    type Err = ExtentError;

    fn from_str(text: &str) -> Result<Self, ExtentError> {
        let text = text.trim();
        if let Ok(extent) = text.parse() {
            return Ok(Self::Only(extent));
        }
        if text.contains("..") {
            let range: Range = text.parse()?;
            return Ok(if range.max == Some(range.min) { Self::Only(range.min) } else { Self::Range(range) });
        }
        let form = || ExtentError::Form { text: text.to_owned() };
        let is_list = text.contains(',') && text.chars().all(|c| c.is_ascii_digit() || c == ',' || c == ' ');
        if is_list {
            let all: Vec<u64> = text
                .split(',')
                .map(|part| part.trim().parse().map_err(|_| form()))
                .collect::<Result<_, _>>()?;
            let ascends = all.is_sorted_by(|a, b| a < b) && all.first().is_some_and(|first| *first > 0);
            return if ascends {
                Ok(Self::Buckets(all))
            } else {
                Err(ExtentError::Buckets { text: text.to_owned() })
            };
        }
        match DimExpr::parse(text).filter(|of| of.as_constant().is_none()) {
            Some(of) => Ok(Self::Equal(of)),
            None => Err(form()),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(extent) => write!(f, "{extent}"),
            Self::Range(range) => write!(f, "{range}"),
            Self::Buckets(all) => f.write_str(&all.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
            Self::Equal(of) => write!(f, "{of}"),
        }
    }
}

impl From<u64> for Extent {
    fn from(extent: u64) -> Self {
        Self::Only(extent)
    }
}

impl From<Range> for Extent {
    fn from(range: Range) -> Self {
        Self::Range(range)
    }
}

/// Rejects lists of largest extents with too many combinations.
///
/// # Errors
/// There are more than 64 combinations, or a list is for all unnamed dimensions.
pub(crate) fn validate(lists: &BTreeMap<String, Vec<u64>>) -> Result<(), RequestError> {
    if lists.contains_key(UNNAMED) {
        return Err(RequestError::UnnamedBuckets);
    }
    let count = lists.values().fold(1usize, |count, list| count.saturating_mul(list.len()));
    if count > MAX_BUCKETS { Err(RequestError::Buckets { count, most: MAX_BUCKETS }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn extents_parse_and_print() {
        for text in ["64", "1..512", "32..960/32", "128,256,512", "seq+past", "0..7"] {
            assert_eq!(text.parse::<Extent>().unwrap().to_string(), text);
        }
        assert_eq!("8..8".parse(), Ok(Extent::Only(8)));
        assert_eq!("past+seq".parse::<Extent>(), "seq+past".parse());
        assert_eq!("128, 256".parse(), Ok(Extent::Buckets(vec![128, 256])));
    }

    #[test]
    fn other_texts_are_refused_with_advice() {
        for (text, told) in [
            ("1..", "has no upper bound"),
            ("9..3", "contains no extent"),
            ("1..9/0", "step"),
            ("256,128", "does not ascend"),
            ("0,128", "does not ascend"),
            ("1,2,", "neither"),
            ("", "neither"),
            ("-3", "neither"),
            ("a b", "neither"),
            ("1..x", "is not a range"),
        ] {
            let error = text.parse::<Extent>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
