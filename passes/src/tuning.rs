//! Tuning numbers of the search passes: `split`, `rewrite`, `budget`, and the choice of sub-views.
//!
//! The numbers travel with the options; none is global. Wrong numbers make a search slow or a plan
//! large, never a plan wrong.

use memc_ir::Bytes;

/// The fraction 1/n of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part(pub u64);

impl Part {
    /// Returns this fraction of `whole`, rounded down. The fraction 1/0 counts as the whole.
    pub fn of(self, whole: u64) -> u64 {
        whole / self.0.max(1)
    }
}

/// Tuning numbers of all passes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PassTuning {
    /// Tuning numbers of the pass `split`.
    pub split: SplitTuning,
    /// Tuning numbers of the pass `rewrite`.
    pub rewrite: RewriteTuning,
    /// Tuning numbers of the search for an arena within a limit, in `budget`.
    pub fit: FitTuning,
    /// Tuning numbers for repairing plans whose offsets exceed a limit, in `budget`.
    pub mend: MendTuning,
    /// Tuning numbers for choosing the constants that stay in the first space, in `budget`.
    pub weights: WeightTuning,
    /// Tuning numbers of the search for sub-views.
    pub views: ViewTuning,
    /// Tuning numbers of codes.
    pub encode: EncodeTuning,
}

/// Tuning numbers of codes.
#[derive(Clone, PartialEq, Debug)]
pub struct EncodeTuning {
    /// Minimum size of a value with a code: the nodes of a recipe take longer to start than the bytes of
    /// a smaller value are worth.
    pub least: Bytes,
    /// Minimum size of a matrix of weights in few bits: a smaller one saves less than 48 KiB in 8 bits, for
    /// a node and scales more, and its numbers take part in the error like those of a large one.
    pub least_weights: Bytes,
}

impl Default for EncodeTuning {
    fn default() -> Self {
        Self { least: Bytes(2 << 10), least_weights: Bytes(64 << 10) }
    }
}

/// Tuning numbers of the pass `split`.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitTuning {
    /// Target peaks of a round without a limit, in hundredths of the present peak.
    pub peaks: [u64; 6],
    /// Target peaks of a round within a limit, in hundredths of the limit. Targets below 100 allow for
    /// estimates that are too low.
    pub peaks_in_limit: [u64; 3],
    /// Maximum number of rounds for one target peak. Each round starts from the peak that the previous
    /// round reached.
    pub max_rounds: usize,
    /// Total number of nodes in all trials of one search. A trial orders the whole module, so a larger
    /// module gets fewer trials.
    pub trial_nodes: usize,
    /// Number of trials that a larger module gets nevertheless. Modules with more than
    /// `few_trials * trial_nodes` nodes get none.
    pub few_trials: usize,
    /// Number of targets tried without a limit, taken from the front of `peaks`.
    pub free_aims: usize,
    /// Within a limit, the search ends once all regions together cost less than this fraction of the
    /// time.
    pub small_overhead: Part,
    /// In plans for ranges, parts of an axis with too few positions run on nothing. At the smallest extents
    /// these calls may take at most this fraction of the time; else the axis gets fewer parts.
    pub overhead_at_least: Part,
    /// Number of seeds of each kind, the best at a step, that are grown with every number of parts.
    pub promising: usize,
    /// Maximum number of narrow borders on each side of a step.
    pub max_borders: usize,
    /// Minimum reduction from one narrow border to the next, as a fraction of the bytes that cross the
    /// border.
    pub narrower: Part,
    /// Maximum number of nodes of a region. Most nodes of a larger region are far from the peak.
    pub max_nodes: usize,
    /// Maximum number of nodes between a Concat and a value from which the search finds that Concat.
    pub max_distance: usize,
    /// Maximum number of nodes that read a finished result too early and are left out, before a region
    /// is given up.
    pub max_left_out: usize,
    /// Growth thresholds: a region does not grow past values of at most this fraction of the peak. Each
    /// threshold is tried.
    pub small: [Part; 4],
    /// Maximum number of seeds at a step: the largest values.
    pub seeds: usize,
    /// Minimum size of a seed, as a fraction of the peak.
    pub least_seed: Part,
    /// Minimum number of rows of a part.
    pub least_rows: u64,
    /// Fraction of a step's present bytes by which an estimate may exceed them, since estimates ignore
    /// in-place writes.
    pub inaccuracy: Part,
    /// Maximum number of nodes visited while the regions of one module grow.
    pub visits: usize,
}

impl Default for SplitTuning {
    fn default() -> Self {
        Self {
            peaks: [97, 90, 75, 50, 35, 22],
            peaks_in_limit: [100, 75, 50],
            max_rounds: 8,
            trial_nodes: 10_000,
            few_trials: 4,
            free_aims: 2,
            small_overhead: Part(200),
            overhead_at_least: Part(20),
            promising: 3,
            max_borders: 4,
            narrower: Part(4),
            max_nodes: 256,
            max_distance: 8,
            max_left_out: 8,
            small: [Part(64), Part(16), Part(8), Part(4)],
            seeds: 8,
            least_seed: Part(32),
            least_rows: 2,
            inaccuracy: Part(8),
            visits: 400_000,
        }
    }
}

/// Tuning numbers of the pass `rewrite`.
#[derive(Clone, PartialEq, Debug)]
pub struct RewriteTuning {
    /// Total number of nodes in all trials. A trial orders the whole module.
    pub trial_nodes: usize,
    /// Minimum and maximum number of trials, for modules of any size.
    pub trials: [usize; 2],
}

impl Default for RewriteTuning {
    fn default() -> Self {
        Self { trial_nodes: 20_000, trials: [4, 32] }
    }
}

/// Tuning numbers of the search for an arena within a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct FitTuning {
    /// Effort of a short search, as a fraction of the full effort. The short search shows whether the
    /// limit can be kept before the full effort is spent.
    pub short: Part,
    /// If offsets waste memory, a plan whose extra time exceeds this fraction of the model's time gets
    /// a second short search.
    pub costly: Part,
    /// Extra capacity of that second search, as a fraction of the capacity. Its plan, reduced to the
    /// limit, has other offsets.
    pub looser: Part,
    /// Number of runs above which a problem continues from the plan of the short search. A smaller
    /// problem starts over: this is quick, and a new start may end at a different plan.
    pub large_problem: usize,
    /// Effort of a search that continues from a plan, as a fraction of the full effort.
    pub continued: Part,
    /// A short search is given up if its plan is slower than a known plan by the larger of two margins.
    /// First margin: this fraction of the known plan's extra time.
    pub behind_in_extra: Part,
    /// Second margin: this fraction of the model's time.
    pub behind_in_time: Part,
    /// Assumed time cost of the last bytes that a plan saves, as a multiple of the mean cost over all
    /// saved bytes.
    pub steeper: u64,
    /// Fractions of the capacity left free for memory wasted by offsets: the small fraction is tried
    /// first.
    pub free_room: [Part; 2],
    /// Number of capacities tried in the search for the smallest arena.
    pub least_rounds: u32,
    /// Effort for each of these capacities, as a fraction of the full effort. Most of them have no plan,
    /// and proving that takes longest.
    pub least_effort: Part,
    /// That search ends once the smallest capacity is known to this fraction. Offsets cause larger
    /// differences.
    pub least_precision: Part,
}

impl Default for FitTuning {
    fn default() -> Self {
        Self {
            short: Part(8),
            costly: Part(100),
            looser: Part(128),
            large_problem: 500,
            continued: Part(2),
            behind_in_extra: Part(10),
            behind_in_time: Part(300),
            steeper: 3,
            free_room: [Part(256), Part(32)],
            least_rounds: 10,
            least_effort: Part(25),
            least_precision: Part(128),
        }
    }
}

/// Tuning numbers for repairing plans whose offsets exceed a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct MendTuning {
    /// Maximum number of repairs of a plan until its offsets fit.
    pub max_changes: u32,
    /// From this repair on, all runs leave free memory, not only the runs whose offsets exceed the
    /// limit.
    pub everywhere: u32,
    /// Offsets that exceed the limit by at most this fraction of the limit need a small repair, which
    /// gets no search effort.
    pub small_excess: Part,
    /// Effort of every other repair, as a fraction of the full effort.
    pub effort: Part,
    /// Number of attempts to return free memory to a plan that fits.
    pub eased: u32,
}

impl Default for MendTuning {
    fn default() -> Self {
        Self { max_changes: 8, everywhere: 4, small_excess: Part(100), effort: Part(16), eased: 3 }
    }
}

/// Tuning numbers for choosing the constants that stay in the first space.
#[derive(Clone, PartialEq, Debug)]
pub struct WeightTuning {
    /// Number of divisions of the first space between constants and arena that are tried. Each gets the
    /// full effort divided by this number.
    pub shares: u64,
    /// Maximum number of divisions planned with the full effort, in the order of their short searches,
    /// best first, until a plan fits.
    pub choices: usize,
    /// A table of at least this multiple of the rows that a lookup reads is read by rows, even if copying the
    /// whole table takes less time.
    pub rows: u64,
    /// Maximum size of a weight that a node reads whole, as a fraction of the limit: a larger one is read in
    /// parts.
    pub whole: Part,
    /// Size of a part, as a fraction of the limit: one part is near while the next one is copied.
    pub part: Part,
}

impl Default for WeightTuning {
    fn default() -> Self {
        Self { shares: 8, choices: 3, rows: 16, whole: Part(2), part: Part(8) }
    }
}

/// Tuning numbers of the search for sub-views.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewTuning {
    /// Maximum number of sets of sub-views that are planned.
    pub max_trials: usize,
    /// Maximum number of nodes of all planned sets together: a large graph gets fewer trials.
    pub max_nodes: usize,
}

impl Default for ViewTuning {
    fn default() -> Self {
        Self { max_trials: 24, max_nodes: 16_000 }
    }
}
