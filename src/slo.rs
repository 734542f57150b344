//! Longest time of a run, as a request states it: `--slo 20ms`.

use std::fmt;
use std::str::FromStr;

use memc_ir::Nanos;
use thiserror::Error;

use crate::link::nanoseconds;

/// Longest modelled time of one run of the planned model.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Slo(pub Nanos);

/// Rejects a text that is no time.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}` is not a time; write a number above 0 with its unit: 20ms, 1.5s, 800us")]
pub struct SloTextError {
    /// The text.
    pub text: String,
}

impl FromStr for Slo {
    type Err = SloTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let nanos = nanoseconds(text).filter(|nanos| *nanos >= 1.0);
        nanos
            .map(|nanos| Self(Nanos(nanos)))
            .ok_or_else(|| SloTextError { text: text.chars().take(64).collect() })
    }
}

impl fmt::Display for Slo {
    /// Writes a time that [`Slo::from_str`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            nanos if nanos >= 1e6 => write!(f, "{}ms", nanos / 1e6),
            nanos if nanos >= 1e3 => write!(f, "{}us", nanos / 1e3),
            nanos => write!(f, "{nanos}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_have_units_and_read_back() {
        for (text, nanos, written) in [
            ("20ms", 20e6, "20ms"),
            ("1.5s", 1.5e9, "1500ms"),
            ("800us", 800e3, "800us"),
            (" 12ns", 12.0, "12ns"),
        ] {
            let slo: Slo = text.parse().unwrap();
            assert_eq!((slo, slo.to_string().as_str()), (Slo(Nanos(nanos)), written));
            assert_eq!(slo.to_string().parse(), Ok(slo));
        }
        for wrong in ["", "20", "ms", "0ms", "-1ms", "20 minutes", "1e99s", "20ms/s"] {
            assert!(wrong.parse::<Slo>().is_err(), "{wrong}");
        }
    }
}
