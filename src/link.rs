//! Requested links, in addition to those of the target: `host=16GB/s,20us`.

use std::fmt;
use std::str::FromStr;

use memc_cost::Target;
use memc_ir::Nanos;

use crate::size::Size;

/// Default latency of a link, in nanoseconds: a small copy over PCI Express takes about 10 µs.
const DEFAULT_LATENCY: f64 = 10_000.0;

/// A space and the link to it, in both directions.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkOption {
    /// The farther space.
    pub space: String,
    /// Bandwidth of each direction.
    pub bytes_per_second: f64,
    /// Time before the first byte arrives.
    pub latency: Nanos,
}

/// Reasons to reject a link (the request's fault).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The text has another form.
    #[error("`{text}` is not a link; write host=16GB/s, or host=16GB/s,20us")]
    Form {
        /// The text given.
        text: String,
    },
    /// The link leads from the first space of the target to itself.
    #[error("a link cannot lead from `{space}` to itself")]
    ToItself {
        /// The space.
        space: String,
    },
}

impl FromStr for LinkOption {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        parse(text).ok_or_else(|| LinkError::Form { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<LinkOption> {
    let (space, rest) = text.split_once('=')?;
    let (bytes_per_second, latency) = rate_and_latency(rest, DEFAULT_LATENCY)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = space.starts_with(|c: char| c.is_ascii_alphabetic()) && space.chars().all(plain);
    is_name.then(|| LinkOption { space: space.to_owned(), bytes_per_second, latency })
}

/// `16GB/s`, or `16GB/s,20us`; `default` is the latency without one, in nanoseconds.
pub(crate) fn rate_and_latency(text: &str, default: f64) -> Option<(f64, Nanos)> {
    let (rate, latency) = text.split_once(',').map_or((text, None), |(rate, latency)| (rate, Some(latency)));
    let Size::Bytes(rate) = rate.trim().strip_suffix("/s")?.parse().ok()? else { return None };
    let latency = latency.map_or(Some(default), nanoseconds)?;
    (rate > 0).then_some((rate as f64, Nanos(latency)))
}

/// `500ns`, `20us`, `1ms`.
pub(crate) fn nanoseconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let value = number.parse::<f64>().ok()? * factor;
    (0.0..=1e12).contains(&value).then_some(value)
}

impl LinkOption {
    /// Adds the space and the link to a target; replaces an existing link between the two spaces.
    ///
    /// # Errors
    /// The space is the target's first.
    pub fn add_to(&self, target: &mut Target) -> Result<(), LinkError> {
        if target.space(&self.space) == Some(0) {
            return Err(LinkError::ToItself { space: self.space.clone() });
        }
        target.connect(&self.space, self.bytes_per_second, self.latency);
        Ok(())
    }
}

impl fmt::Display for LinkOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}B/s,{}ns", self.space, self.bytes_per_second, self.latency.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn links_parse_with_and_without_latency() {
        let link: LinkOption = "host=16GB/s".parse().unwrap();
        assert_eq!(
            link,
            LinkOption { space: "host".to_owned(), bytes_per_second: 16e9, latency: Nanos(10_000.0) }
        );
        let link: LinkOption = "disk=512MiB/s,1.5ms".parse().unwrap();
        assert_eq!((link.bytes_per_second, link.latency), (536_870_912.0, Nanos(1_500_000.0)));
        assert_eq!(link.to_string().parse(), Ok(link));
        for wrong in [
            "host",
            "host=16GB",
            "=1GB/s",
            "host=0/s",
            "host=60%/s",
            "host=1GB/s,fast",
            "host=1GB/s,",
            "ho st=1GB/s",
        ] {
            assert!(wrong.parse::<LinkOption>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_to_the_first_space_is_refused() {
        let mut target = Target::default();
        let link: LinkOption = "device=16GB/s".parse().unwrap();
        assert_eq!(link.add_to(&mut target), Err(LinkError::ToItself { space: "device".to_owned() }));
        "host=16GB/s".parse::<LinkOption>().unwrap().add_to(&mut target).unwrap();
        assert_eq!((target.spaces.len(), target.links.len()), (2, 2));
    }
}
