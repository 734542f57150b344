//! Progress line on the terminal during planning: the strategy at work and the best plan so far.

use std::io::Write as _;
use std::time::{Duration, Instant};

use memc_ir::Bytes;
use memc_plan::{Entry, Verdict};

use super::Voice;

/// Time before the first line: plans of small models are found sooner than a reader looks.
const DELAY: Duration = Duration::from_millis(700);

/// Longest line, in characters, so that it fits a terminal of 80 columns without a break.
const MAX_COLUMNS: usize = 79;

/// The progress of one plan.
pub struct Progress {
    is_shown: bool,
    nodes: usize,
    started: Instant,
    candidates: u32,
    /// Bytes and modelled nanoseconds of the best plan so far.
    best: Option<(Bytes, u64)>,
    /// Whether the terminal shows a line.
    is_open: bool,
}

impl Progress {
    /// Progress of a model with this number of nodes; silent unless a person watches.
    pub fn new(voice: &Voice, nodes: usize) -> Self {
        let is_shown = voice.is_watched();
        Self { is_shown, nodes, started: Instant::now(), candidates: 0, best: None, is_open: false }
    }

    /// Counts a candidate, or notes that a strategy starts, and redraws the line.
    pub fn tell(&mut self, entry: &Entry) {
        if !self.is_shown || entry.verdict == Verdict::NotAsked {
            return;
        }
        if entry.verdict != Verdict::Searching {
            self.candidates += 1;
        }
        if entry.verdict == Verdict::Best
            && let (Some(bytes), Some(nanos)) = (entry.bytes, entry.nanos)
        {
            self.best = Some((bytes, nanos));
        }
        if self.started.elapsed() >= DELAY {
            self.draw(entry.strategy);
        }
    }

    fn draw(&mut self, strategy: &str) {
        let best = self.best.map_or_else(String::new, |(bytes, nanos)| {
            format!(", best {bytes} in {:.1} ms", nanos as f64 / 1e6)
        });
        let seconds = self.started.elapsed().as_secs();
        let line = format!(
            "planning {} nodes, {seconds} s: {} plans{best}; trying {strategy}",
            self.nodes, self.candidates
        );
        let line: String = line.chars().take(MAX_COLUMNS).collect();
        // Carriage return and "erase to the end of the line" replace the previous line.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        let _ = std::io::stderr().flush();
        self.is_open = true;
    }

    /// Clears the line.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
