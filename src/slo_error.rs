//! The refusal of a time that no plan keeps.

use memc_ir::Bytes;
use thiserror::Error;

/// No plan keeps a time, or a time and a budget together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no plan was found that takes at most {}{}: the fastest one takes {}", milliseconds(*slo), and_needs(*limit), milliseconds(*fastest))]
pub struct SloError {
    /// Longest modelled time, in nanoseconds.
    pub slo: u64,
    /// Limit of the first space, in bytes.
    pub limit: Option<u64>,
    /// Modelled time of the fastest plan within the limit, in nanoseconds.
    pub fastest: u64,
    /// Need of the smallest plan that was found within the time, in bytes; `None` if none was found.
    pub smallest: Option<u64>,
    /// Plans along the front of memory and time, from the largest on: arena in bytes, modelled nanoseconds.
    pub front: Vec<(u64, u64)>,
}

impl SloError {
    /// Lines with the front.
    pub(crate) fn notes(&self) -> Vec<String> {
        let row = |(arena, nanos): &(u64, u64)| {
            format!("a plan of {} takes {}", Bytes(*arena).exact(), milliseconds(*nanos))
        };
        self.front.iter().map(row).collect()
    }

    /// What to do.
    pub(crate) fn help(&self) -> String {
        // Rounded up, so that a plan keeps the time in the message.
        let time = format!("`--slo {}ms`", self.fastest.div_ceil(1_000) as f64 / 1e3);
        match (self.limit, self.smallest) {
            (Some(_), Some(bytes)) => {
                format!("use {time} with this budget, or `--budget {bytes}` with this time")
            }
            (Some(_), None) => format!("use {time} with this budget"),
            (None, _) => {
                format!("use {time}; on another machine, `memc calibrate` measures what its kernels take")
            }
        }
    }
}

fn milliseconds(nanos: u64) -> String {
    format!("{:.3} ms", nanos as f64 / 1e6)
}

fn and_needs(limit: Option<u64>) -> String {
    limit.map_or_else(String::new, |limit| format!(" and needs at most {}", Bytes(limit).exact()))
}
