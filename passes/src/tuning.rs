//! Numbers that steer the passes that choose: `split`, `rewrite`, `budget`, and which sub-views a plan takes. They come with the options and are never
//! global. Wrong numbers give slow searches or large plans, never wrong plans.

/// 1/n of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part(pub u64);

impl Part {
    /// This part of a number, rounded down. A part of 1/0 counts as the whole.
    pub fn of(self, whole: u64) -> u64 {
        whole / self.0.max(1)
    }
}

/// Numbers of all passes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PassTuning {
    /// Numbers of `split`.
    pub split: SplitTuning,
    /// Numbers of `rewrite`.
    pub rewrite: RewriteTuning,
    /// Numbers of the search for an arena within a limit, in `budget`.
    pub fit: FitTuning,
    /// Numbers of the changes to plans whose offsets exceed a limit, in `budget`.
    pub mend: MendTuning,
    /// Numbers of the search for the constants that stay in the first space, in `budget`.
    pub weights: WeightTuning,
    /// Numbers of the search for sub-views.
    pub views: ViewTuning,
}

/// Numbers of `split`.
#[derive(Clone, PartialEq, Debug)]
pub struct SplitTuning {
    /// Peaks that a round aims at, in hundredths of the present peak.
    pub peaks: [u64; 6],
    /// Peaks that a round aims at within a limit, in hundredths of it: estimates may be too low.
    pub peaks_in_limit: [u64; 3],
    /// Rounds of an aim, at most; each begins at the peak that the previous one left.
    pub max_rounds: usize,
    /// Nodes of all trials of an aim together. A trial orders the whole module, so larger modules get fewer trials, and modules of more nodes none.
    pub trial_nodes: usize,
    /// Nodes of the trials of the last aim, for the least memory, which runs where no region was worth its time.
    pub last_trial_nodes: usize,
    /// Aims without a limit: the first ones of the list.
    pub free_aims: usize,
    /// Within a limit, the search ends once regions cost less than this part of the time.
    pub small_overhead: Part,
    /// Seeds of each kind that are grown with every number of parts, the best ones at a step.
    pub promising: usize,
    /// Narrow borders on each side of a step, at most.
    pub max_borders: usize,
    /// Each narrow border is crossed by at least this part fewer bytes than the previous one.
    pub narrower: Part,
    /// Nodes of a region, at most: most nodes of larger ones are far from the peak.
    pub max_nodes: usize,
    /// Nodes between a Concat and a value from which it is found, at most.
    pub max_distance: usize,
    /// Nodes that read a finished result too early and are left out, at most, before a region is given up.
    pub max_left_out: usize,
    /// A region does not grow beyond values of at most this part of the peak; each is tried.
    pub small: [Part; 4],
    /// Values that are seeds at a step: the largest ones.
    pub seeds: usize,
    /// Least size of a seed, as a part of the peak.
    pub least_seed: Part,
    /// Rows of a part, at least.
    pub least_rows: u64,
    /// An estimate may exceed the present bytes of a step by this part: it knows nothing of writes in place.
    pub inaccuracy: Part,
    /// Nodes that are looked at while regions of one module grow, at most.
    pub visits: usize,
}

impl Default for SplitTuning {
    fn default() -> Self {
        Self {
            peaks: [97, 90, 75, 50, 35, 22],
            peaks_in_limit: [100, 75, 50],
            max_rounds: 8,
            trial_nodes: 40_000,
            last_trial_nodes: 10_000,
            free_aims: 2,
            small_overhead: Part(200),
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

/// Numbers of `rewrite`.
#[derive(Clone, PartialEq, Debug)]
pub struct RewriteTuning {
    /// Nodes of all trials together: a trial orders the whole module.
    pub trial_nodes: usize,
    /// Fewest and most trials, whatever the size of the module.
    pub trials: [usize; 2],
}

impl Default for RewriteTuning {
    fn default() -> Self {
        Self { trial_nodes: 20_000, trials: [4, 32] }
    }
}

/// Numbers of the search for an arena within a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct FitTuning {
    /// Effort of a short search. It says whether the limit can be kept before the whole effort is spent.
    pub short: Part,
    /// Where offsets waste room, a plan that takes this part more time than the model is worth a second short search.
    pub costly: Part,
    /// That search gets this part more room; its plan, brought down to the limit, has other offsets.
    pub looser: Part,
    /// Problems of more runs continue from the plan of the short search. Smaller ones begin anew: they are quick, and a new start may end elsewhere.
    pub large_problem: usize,
    /// Effort of a search that continues from a plan.
    pub continued: Part,
    /// A short search is given up where its plan is slower than a known one by this part of the known plan's extra time ...
    pub behind_in_extra: Part,
    /// ... and by this part of the model's time, whichever is more.
    pub behind_in_time: Part,
    /// Time of the last bytes that a plan saves, as a multiple of the mean over all bytes that it saves.
    pub steeper: u64,
    /// Room that is left free for the waste of offsets, as parts of the capacity: little first, then more.
    pub free_room: [Part; 2],
    /// Capacities that are tried in the search for the smallest arena.
    pub least_rounds: u32,
    /// Effort for each of these capacities: most of them have no plan, and proving that takes longest.
    pub least_effort: Part,
    /// That search ends once the smallest capacity is known to this part: offsets differ by more.
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

/// Numbers of the changes to plans whose offsets exceed a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct MendTuning {
    /// Changes of a plan until its offsets fit, at most.
    pub max_changes: u32,
    /// From this change on, all runs leave room, and not only the runs whose offsets exceed the limit.
    pub everywhere: u32,
    /// Offsets that exceed the limit by at most this part of it need a small change: it gets no effort of its own.
    pub small_excess: Part,
    /// Effort of each other change.
    pub effort: Part,
    /// Attempts to give room back to a plan that fits.
    pub eased: u32,
}

impl Default for MendTuning {
    fn default() -> Self {
        Self { max_changes: 8, everywhere: 4, small_excess: Part(100), effort: Part(16), eased: 3 }
    }
}

/// Numbers of the search for the constants that stay in the first space.
#[derive(Clone, PartialEq, Debug)]
pub struct WeightTuning {
    /// Divisions of the room between constants and arena that are tried, each with the effort divided by their number.
    pub shares: u64,
    /// Divisions that are planned with the whole effort, best short search first, until one fits.
    pub choices: usize,
}

impl Default for WeightTuning {
    fn default() -> Self {
        Self { shares: 8, choices: 3 }
    }
}

/// Numbers of the search for sub-views.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewTuning {
    /// Sets of sub-views that are planned, at most.
    pub max_trials: usize,
    /// Nodes of all planned sets together, at most: large graphs get fewer trials.
    pub max_nodes: usize,
}

impl Default for ViewTuning {
    fn default() -> Self {
        Self { max_trials: 24, max_nodes: 16_000 }
    }
}
