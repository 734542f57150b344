//! A clock of CPU time.

use std::time::Instant;

/// CPU time of this thread if the system reports it, otherwise wall time.
pub struct Clock {
    cpu: Option<u64>,
    wall: Instant,
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { cpu: cpu_nanoseconds(), wall: Instant::now() }
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        match (self.cpu, cpu_nanoseconds()) {
            (Some(before), Some(after)) => after.saturating_sub(before) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_nanoseconds() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
