//! Options of a division: devices, their budgets, and the links between them.

use std::fmt;
use std::str::FromStr;

use memc_ir::Nanos;
use memc_layout::devices::{Order, Schedule};

use crate::link::rate_and_latency;
use crate::request::Request;
use crate::size::Size;
use crate::split_error::{MAX_DEVICES, SplitError};

/// Rate of links that are not stated, in bytes per second: ten-gigabyte networks and PCI Express 3 reach it.
const DEFAULT_RATE: f64 = 10e9;

/// Latency of links that are not stated, in nanoseconds.
const DEFAULT_LATENCY: f64 = 20_000.0;

/// The devices of a division.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices {
    /// Number of devices.
    pub count: usize,
    /// Limit of the bytes of each device: one for all, one for each, or none.
    pub budgets: Vec<Size>,
    /// Links between devices; without any, all pairs have the same one.
    pub links: Vec<Path>,
    /// Number of times that the program runs the model; with a schedule, number of parts of the batch.
    pub micro_batches: u64,
    /// Order of forward and backward runs of a training step, or one part of its batch a device; without one,
    /// a step is divided like any model.
    pub schedule: Option<Schedule>,
    /// Order in which parts of several devices are added.
    pub sums: Order,
    /// Whether each parameter is updated on one device, which alone holds the state of its optimizer.
    pub shard_state: bool,
}

/// A link between two devices: `d0-d1=10GB/s,20us`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// One rank.
    pub from: usize,
    /// The other rank.
    pub to: usize,
    /// Rate of each direction.
    pub bytes_per_second: f64,
    /// Time before the first byte arrives.
    pub latency: Nanos,
}

/// Rejects a text that states no link between devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a link between devices; write d0-d1=10GB/s, or d0-d1=10GB/s,20us")]
pub struct PathError {
    /// The text given.
    pub text: String,
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let parse = || {
            let (ends, rest) = text.split_once('=')?;
            let (from, to) = ends.split_once('-')?;
            let rank = |name: &str| name.trim().strip_prefix('d')?.parse::<usize>().ok();
            let (bytes_per_second, latency) = rate_and_latency(rest, DEFAULT_LATENCY)?;
            let (from, to) = (rank(from)?, rank(to)?);
            (from != to).then_some(Self { from, to, bytes_per_second, latency })
        };
        parse().ok_or_else(|| PathError { text: text.to_owned() })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}-d{}={}B/s,{}ns", self.from, self.to, self.bytes_per_second, self.latency.0)
    }
}

impl Devices {
    /// Devices without budgets, joined by equal links, and one run of the model.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            count,
            budgets: Vec::new(),
            links: Vec::new(),
            micro_batches: 1,
            schedule: None,
            sums: Order::Index,
            shard_state: false,
        }
    }

    /// Name of the device with a rank.
    #[must_use]
    pub fn name(rank: usize) -> String {
        format!("d{rank}")
    }

    /// Whether devices have budgets.
    #[must_use]
    pub fn has_budgets(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// Budget of a device, in bytes.
    #[must_use]
    pub fn budget(&self, rank: usize) -> Option<u64> {
        match self.budgets.get(rank).or(self.budgets.first())? {
            Size::Bytes(bytes) => Some(*bytes),
            Size::Percent(_) => None,
        }
    }

    /// The links: those stated, or equal ones between all pairs.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        if !self.links.is_empty() {
            return self.links.clone();
        }
        let pairs = (0..self.count).flat_map(|from| (from + 1..self.count).map(move |to| (from, to)));
        let latency = Nanos(DEFAULT_LATENCY);
        pairs.map(|(from, to)| Path { from, to, bytes_per_second: DEFAULT_RATE, latency }).collect()
    }

    /// The slowest link of each device; `None` for a device without one.
    #[must_use]
    pub fn slowest_paths(&self) -> Vec<Option<Path>> {
        let mut slowest: Vec<Option<Path>> = vec![None; self.count];
        for path in self.paths() {
            for rank in [path.from, path.to] {
                let own = &mut slowest[rank];
                if own.is_none_or(|own| path.bytes_per_second < own.bytes_per_second) {
                    *own = Some(path);
                }
            }
        }
        slowest
    }

    /// Rejects options that contradict each other.
    pub(crate) fn validate(&self, request: &Request) -> Result<(), SplitError> {
        if self.count == 0 || self.count > MAX_DEVICES {
            return Err(SplitError::Count { count: self.count });
        }
        if !self.budgets.is_empty() && self.budgets.len() != 1 && self.budgets.len() != self.count {
            return Err(SplitError::Budgets { budgets: self.budgets.len(), devices: self.count });
        }
        if self.budgets.iter().any(|budget| matches!(budget, Size::Percent(_))) {
            return Err(SplitError::Percentage);
        }
        if let Some(rank) =
            self.links.iter().map(|path| path.from.max(path.to)).find(|rank| *rank >= self.count)
        {
            return Err(SplitError::NoDevice { rank, devices: self.count });
        }
        let joins = |from: usize, to: usize| {
            self.links
                .iter()
                .any(|path| (path.from, path.to) == (from, to) || (path.to, path.from) == (from, to))
        };
        if !self.links.is_empty()
            && let Some(from) = (1..self.count).map(|to| to - 1).find(|from| !joins(*from, from + 1))
        {
            return Err(SplitError::NoLink { from, to: from + 1 });
        }
        let is_data = self.schedule == Some(Schedule::Data);
        let has_state = request.alias_state || !request.state.is_empty();
        let unsupported = [
            (
                self.schedule.is_some() && !request.import.ranges.is_empty(),
                "ranges of dimensions with `--schedule`",
            ),
            (!request.buckets.is_empty(), "lists of extents"),
            (!request.budgets.is_empty(), "`--budget`; `--device-budget` limits all bytes of a device"),
            (
                self.micro_batches > 1 && self.schedule.is_none() && has_state,
                "state in several runs of the model",
            ),
            (
                self.micro_batches > 1 && is_data,
                "`--micro-batches` with `--schedule data`, which has one part a device",
            ),
            (self.sums != Order::Index && !is_data, "`--sums` without `--schedule data`"),
            (self.shard_state && !is_data, "`--shard-state` without `--schedule data`"),
            (request.passes.is_some(), "`--passes`"),
            (request.import.allow_unbound, "`--allow-unbound`"),
        ];
        match unsupported.into_iter().find(|(is_asked, _)| *is_asked) {
            Some((_, option)) => Err(SplitError::Unsupported { option }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_device_has_its_slowest_link() {
        let ends = |devices: &Devices| -> Vec<Option<(usize, usize)>> {
            devices.slowest_paths().into_iter().map(|path| path.map(|path| (path.from, path.to))).collect()
        };
        let links = ["d0-d1=10GB/s", "d1-d2=1GB/s", "d2-d3=5GB/s"].map(|link| link.parse().unwrap());
        let stated = Devices { links: links.to_vec(), ..Devices::new(5) };
        assert_eq!(ends(&stated), [Some((0, 1)), Some((1, 2)), Some((1, 2)), Some((2, 3)), None]);
        // Of equal links, the first one.
        assert_eq!(ends(&Devices::new(3)), [Some((0, 1)), Some((0, 1)), Some((0, 2))]);
        assert_eq!(ends(&Devices::new(1)), [None]);
    }
}
