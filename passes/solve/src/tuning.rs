//! Tuning: the numbers that steer searches, each with its reason.
#![doc = include_str!("../doc/tuning.md")]

/// A share of 1/n of an effort or a size; n = 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u64);

impl Share {
    /// Returns this share of a whole, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        whole / self.0.max(1)
    }
}

/// A number of hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u64);

impl Percent {
    /// Returns the percentage as a factor: 100 % is 1.0.
    #[must_use]
    pub fn factor(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

/// All numbers that steer the solvers of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Numbers of the ordering solver.
    pub order: OrderTuning,
    /// Numbers of the placement solver.
    pub place: PlaceTuning,
    /// Numbers of the budget solver.
    pub budget: BudgetTuning,
}

impl Tuning {
    /// Default numbers, used by every caller that sets none.
    pub const DEFAULT: Self =
        Self { order: OrderTuning::DEFAULT, place: PlaceTuning::DEFAULT, budget: BudgetTuning::DEFAULT };
}

/// Numbers of the ordering solver. A *look* examines one operation; searches count their work in looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTuning {
    /// Number of looks for each node of a limit, at least 1; sets how long searches last. 1,500 random
    /// operations take about a second with 20,000 nodes. Doubling the looks raises bounds and lowers
    /// peaks by 9 % together, for 1.7 times the time.
    pub looks_per_node: u64,
    /// Number of arcs of a flow network that count as one look, at least 1. Larger numbers give minimum
    /// cuts a larger part of the time. The default gives searches and cuts equal time. 2 and 10 move a
    /// third of all answers or efforts, because searches then last shorter or longer.
    pub arcs_per_look: u64,
    /// Number of looks charged for each operation in a run of the heuristics, at least 1. The charge
    /// keeps effort in proportion to time, so that no query is free. 1 and 800 move efforts by -3 and +2
    /// %, and neither values nor bounds.
    pub heuristic_looks: u64,
    /// Number of looks in the first slice of a search in each direction, at least 1. Each later slice is
    /// eight times as long; a search of a span around the peak gets only the first slices. Half and
    /// twice of it move efforts by -1 and +7 %, and no value.
    pub first_slice: u64,
    /// Share of the looks for the search of a whole problem before it is split, and for the choice of
    /// the pair that splits it. 5 and 20 move efforts by -1 and +3 %, and no value.
    pub root_share: Share,
    /// Number of looks for the search of a part before the part is split further. Half and twice of it
    /// move one effort of 54, and no value.
    pub part_looks: u64,
    /// Maximum number of operations of a problem that is split on pairs; in larger problems too little
    /// follows from one pair. 512 and 2,048 give equal answers.
    pub split_operations: usize,
    /// Number of operations, taken from the highest steps of an order, whose pairs are candidates for a
    /// split. With 2 one bound of 54 falls by 4 %; 8 moves one effort.
    pub split_places: usize,
    /// Share of the looks for the first peak that the search tries. With 32 one bound falls by 4 %; 128
    /// moves five efforts and no value.
    pub first_share: Share,
    /// Number of looks for the first peak, for each operation, if this gives more looks than
    /// `first_share`. Half and twice of it close one gap of 5 % each, by chance.
    pub first_looks: u64,
    /// Factor by which the looks for each peak grow from one round to the next, at least 2. With a
    /// smaller factor early rounds are too short to decide anything; with a larger one a single hard
    /// peak takes all looks. 2 and 8 move two or three answers.
    pub share_growth: u64,
    /// Number of peaks of one round that may run out of looks before the next round begins, at least 1.
    /// With 1 efforts fall by 15 %; with 6 they rise by 17 % and one bound rises by 2 %.
    pub hard_peaks: u32,
    /// Share of the requested peak; the coarse search leaves out smaller buffers. 1,024 and 4,096 give
    /// equal answers.
    pub negligible: Share,
}

impl OrderTuning {
    /// Default numbers, used by every caller that sets none.
    pub const DEFAULT: Self = Self {
        looks_per_node: 1_000,
        arcs_per_look: 5,
        heuristic_looks: 400,
        first_slice: 80_000,
        root_share: Share(10),
        part_looks: 30_000,
        split_operations: 1_024,
        split_places: 4,
        first_share: Share(64),
        first_looks: 1_500,
        share_growth: 4,
        hard_peaks: 3,
        negligible: Share(1_000),
    };
}

impl Default for OrderTuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Numbers of the placement solver. A *look* examines one placed rectangle; heuristics count their work
/// in looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceTuning {
    /// Number of buffers from which a problem is placed around its busiest sections before all rules are
    /// tried. Above half of this number the exact search is too weak, so that repair runs first. If
    /// repair runs first from 256 buffers, four hard packings and three others differ and heights rise
    /// by 13 % in sum; from 1,024 nothing changes.
    pub small: usize,
    /// Number of buffers from which a problem is placed around its skeleton: first fit alone does not
    /// place that many buffers around the core well. 16,384 and 65,536 change nothing up to 3,000
    /// buffers.
    pub large: usize,
    /// Number of looks of repair for each node of a limit. Half and twice of it move one height of 62,
    /// by -0.3 and +0.1 %.
    pub looks_per_node: u64,
    /// Factor on the looks of repair if repair runs before the exact search, at least 1. 4 raises the
    /// height of one thinned dissection of 703 pieces by 0.2 %.
    pub more_looks: u64,
    /// Share of the nodes for the stage that is likely to do worse: the exact search if repair runs
    /// first, the search over all buffers if the large buffers were placed first, the canonical search
    /// next to the valley search. 2 and 8 change nothing for any of them.
    pub lesser: Share,
    /// Share of all buffers that counts as few: a skeleton has at most this share of long-lived buffers,
    /// and small buffers are set aside only if they are at least this share. Also the share of the nodes
    /// that is spent on differences below one granule. 4 and 16 change nothing for any of them.
    pub minority: Share,
    /// Share of the bound; small buffers are set aside only if their load is at most this share. 500 and
    /// 2,000 change nothing.
    pub negligible: Share,
    /// Number of looks of the heuristics for every problem: some tenth of a second. With half of it one
    /// height of 62 rises by 1 %; twice of it changes two heights by less.
    pub least_looks: u64,
    /// Number of additional looks of the heuristics for each buffer. Half and twice of it move one
    /// height of 62, by -0.1 and -0.2 %.
    pub looks_per_buffer: u64,
    /// Number of reductions for each node in the search for packings without waste, before the exact
    /// search; a third of it after the exact search. 3 misses the capacity of two MiniMalloc problems
    /// with 500 nodes, 12 keeps one more.
    pub reductions_per_node: u64,
    /// Number of nodes in the shortest slice of the exact search, at least 1. The valley search gets
    /// this number too, at the time of a smaller slice, and four times the number if hardly any room is to
    /// spare. Also the number of nodes for a core. Half and twice of it change nothing; slices of the
    /// valley search of half and twice the length raise heights by 0.7 and 1 % in sum.
    pub slice: u64,
    /// Number of nodes of the valley search that take the time of one node of the canonical search, at
    /// least 1. 4 raises heights by 1 % in sum; 16 lowers them by 1 %, but one node takes twice as long.
    pub valleys_per_node: u64,
    /// How far the load of a core section may be below the bound, one entry for each attempt. Half and
    /// twice of them change nothing.
    pub core_margins: [Percent; 3],
    /// Number of states that the search for packings without waste keeps at a time, one entry for each
    /// attempt. A wider beam finds more and takes longer, so that narrow beams come first. Half and
    /// twice of them lose one of 17 packings, by 5 %.
    pub beam_widths: [usize; 3],
}

impl PlaceTuning {
    /// Default numbers, used by every caller that sets none.
    pub const DEFAULT: Self = Self {
        small: 1_024,
        large: 32_768,
        looks_per_node: 500,
        more_looks: 6,
        lesser: Share(4),
        minority: Share(8),
        negligible: Share(1_000),
        least_looks: 10_000_000,
        looks_per_buffer: 450,
        reductions_per_node: 6,
        slice: 4_000,
        valleys_per_node: 8,
        core_margins: [Percent(3), Percent(8), Percent(20)],
        beam_widths: [30, 100, 400],
    };
}

impl Default for PlaceTuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Numbers of the budget solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetTuning {
    /// Number of annealing steps for each unit of effort; one more is added for every two operations, up
    /// to `large` operations. Also the number of steps for each operation from which the result of a
    /// short search is conclusive. Half and twice of it take 0.7 and 1.3 times the time, and move two or
    /// three plans of 45 by chance.
    pub steps: u64,
    /// Number of operations from which annealing is cut short if it does not pay, and from which steps
    /// no longer grow. 300 and 1,200 move one plan of 45.
    pub large: usize,
    /// Share of an effort for searches that only show whether more effort pays: the first gap cover of
    /// an order, short searches, annealing of a large model after ruin and recreate. With 4, searches
    /// take 1.6 times the time; with 16, extra times rise by 6 percentage points in sum.
    pub trial: Share,
    /// Share of the effort for the exact search of a small problem, before annealing: where it ends, nothing
    /// else is searched. With 2 and 32, plans of random nets within their own arenas take 1.9 and 7 times the
    /// time.
    pub exact: Share,
    /// Share of the effort for a large model if only annealing keeps the capacity. 2 and 8 change
    /// nothing.
    pub unfit: Share,
    /// Share of an extra time or of the capacity that counts as much. Annealing continues after a larger
    /// gain; a first search that exceeds the capacity by more ends the searches. 4 and 16 change nothing
    /// for gains.
    pub much: Share,
    /// Share of an extra time or of the capacity that counts as little. A smaller gain counts as none;
    /// longer searches follow only if the short ones exceed the capacity by at most this; ruin and
    /// recreate may exceed the capacity by this for part of its rounds. 32 and 128 move three or four
    /// plans of 45, by chance.
    pub little: Share,
    /// Number of annealing rounds, each half as hot as the previous one, at least 1. Also the number of
    /// rounds before them that search for the capacity, and the number of times that ruin and recreate
    /// restarts at the best plan. 2 and 8 move up to four plans of 45, by chance.
    pub rounds: u32,
    /// Number of short searches that differ only in their random numbers. 2 takes 0.7 and 8 takes 1.5
    /// times the time, and extra times rise and fall by less than half a percentage point in sum.
    pub seeds: u64,
    /// Temperature at the start of a search, at least 1 %, in units of the mean cost of a repeat in its
    /// start: hot enough to remove many of the repeats. One additional search begins at a twentieth of
    /// it. 100 and 400 raise extra times by 0.4 and 12.5 percentage points in sum.
    pub hot: Percent,
    /// Share of an effort that gives the number of rounds of ruin and recreate. 2 and 8 move extra times
    /// by +4 and -0.8 percentage points in sum: chance, because twice the rounds come first.
    pub effort_per_round: Share,
    /// Average number of operations that one round of ruin and recreate inserts or removes, at least 1;
    /// if rounds change more, fewer rounds run. With 500 extra times rise by 8 percentage points in sum,
    /// with 2,000 they do not change.
    pub work_per_round: u64,
    /// Average part of a plan's extra cost that a round of ruin and recreate may lose at first. 1 and 4
    /// move two or three plans of 45, by -0.1 and +0.7 percentage points in sum.
    pub heat: Percent,
    /// Maximum share of all repeats that one round removes in a row. 2 and 8 move extra times by -0.6
    /// and +7.6 percentage points in sum.
    pub row: Share,
    /// Maximum number of repeats that one round removes at random places; a round moves at most half as
    /// many operations. Half and twice the number of moves raise extra times by 8 and 3 percentage
    /// points in sum; half and twice the number of repeats move them by chance.
    pub changes: u32,
    /// Number of absences at the worst step that are tried before one is chosen, at least 1. 16 and 64
    /// move three plans of 45, by less than chance does.
    pub tried: usize,
    /// Growth of a step's weight over the bytes of a capacity, as a natural logarithm: steep enough that
    /// only steps near the capacity count, and smooth enough that several of them count. 20 and 80 move
    /// three or four plans of 45, by chance.
    pub steepness: u64,
    /// Random variation of the scores of absences in ruin and recreate, in either direction. 15 changes
    /// results by chance only; 60 raises extra times by 4 percentage points in sum.
    pub noise: Percent,
}

impl BudgetTuning {
    /// Default numbers, used by every caller that sets none.
    pub const DEFAULT: Self = Self {
        steps: 200,
        large: 600,
        trial: Share(8),
        exact: Share(8),
        unfit: Share(4),
        much: Share(8),
        little: Share(64),
        rounds: 4,
        seeds: 4,
        hot: Percent(200),
        effort_per_round: Share(4),
        work_per_round: 1_000,
        heat: Percent(2),
        row: Share(4),
        changes: 4,
        tried: 32,
        steepness: 40,
        noise: Percent(30),
    };
}

impl Default for BudgetTuning {
    fn default() -> Self {
        Self::DEFAULT
    }
}
