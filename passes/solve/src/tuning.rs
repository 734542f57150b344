//! Tuning: the numbers that steer searches, each with its reason.
#![doc = include_str!("../doc/tuning.md")]

/// 1/n of an effort or a size. 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u64);

impl Share {
    /// The part of a whole, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        whole / self.0.max(1)
    }
}

/// Hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u64);

impl Percent {
    /// The percentage as a factor.
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
    /// The numbers that every caller gets unless it says otherwise.
    pub const DEFAULT: Self = Self { order: OrderTuning::DEFAULT, place: PlaceTuning::DEFAULT, budget: BudgetTuning::DEFAULT };
}

/// Numbers of the ordering solver. A *look* is a glance at one operation, the unit of its searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTuning {
    /// Looks for one node of a limit, at least 1: how long searches last. 1,500 random operations take
    /// about a second with 20,000 nodes. Twice as many raise bounds and lower peaks by 9 % together, for
    /// 1.7 times the time.
    pub looks_per_node: u64,
    /// Arcs of a flow network that count as one look, at least 1: more lets minimum cuts take a larger part
    /// of the time. Chosen so that both take the same time; 2 and 10 move a third of all answers or
    /// efforts, as searches then last shorter or longer.
    pub arcs_per_look: u64,
    /// Looks that a run of the heuristics is charged for each operation, at least 1: effort stays in
    /// proportion to time, and no question is free. 1 and 800 move efforts by -3 and +2 %, and neither
    /// values nor bounds.
    pub heuristic_looks: u64,
    /// Looks of the first slice of a search in each direction, at least 1; each further slice is eight
    /// times as long, and a window around the peak has the first slices alone. Half and twice of it move
    /// efforts by -1 and +7 %, and no value.
    pub first_slice: u64,
    /// Part of the looks for the search of a whole problem before it is split, and for the choice of the
    /// pair that splits it. 5 and 20 move efforts by -1 and +3 %, and no value.
    pub root_share: Share,
    /// Looks for the search of a part before it is split further. Half and twice of it move one effort of
    /// 54, and no value.
    pub part_looks: u64,
    /// Most operations of a problem that is split on pairs: too little follows from one pair of more. 512
    /// and 2,048 give the same answers.
    pub split_operations: usize,
    /// Operations, at the highest steps of an order, whose pairs are candidates for a split. With 2 one
    /// bound of 54 falls by 4 %, 8 moves one effort.
    pub split_places: usize,
    /// Part of the looks for the first peak that is asked for. With 32 one bound falls by 4 %; 128 moves
    /// five efforts and no value.
    pub first_share: Share,
    /// Looks for the first peak, for each operation, where these are more than `first_share`. Half and
    /// twice of it close one gap of 5 % each, by chance.
    pub first_looks: u64,
    /// Factor from one round to the next of the looks for each peak, at least 2: with less, early rounds
    /// are too short to tell, with more, one hard peak has all looks. 2 and 8 move two or three answers.
    pub share_growth: u64,
    /// Peaks of one round that may run out of looks before the next round begins, at least 1. With 1
    /// efforts fall by 15 %, with 6 they rise by 17 % and so does one bound, by 2 %.
    pub hard_peaks: u32,
    /// Part of the peak asked for below which a buffer is left out of the coarse search. 1,024 and 4,096
    /// give the same answers.
    pub negligible: Share,
}

impl OrderTuning {
    /// The numbers that every caller gets unless it says otherwise.
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

/// Numbers of the placement solver. A *look* is a glance at one placed rectangle, the unit of its heuristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceTuning {
    /// Buffers from which on a problem is placed around its busiest sections before all rules are tried.
    /// Half of it is more than the exact search is good at, so that repair comes first. With repair first
    /// from 256 buffers on, four hard packings and three others differ and heights rise by 13 % in sum;
    /// from 1,024 on nothing changes.
    pub small: usize,
    /// Buffers from which on a problem is placed around its skeleton: what lies around the core is so much
    /// by then that first fit alone does not place it well. 16,384 and 65,536 change nothing up to 3,000
    /// buffers.
    pub large: usize,
    /// Looks of repair for each node of a limit. Half and twice of it move one height of 62, by -0.3 and
    /// +0.1 %.
    pub looks_per_node: u64,
    /// How many times its looks repair has where it comes before the exact search, at least 1. 4 raise the
    /// height of one thinned dissection of 703 pieces by 0.2 %.
    pub more_looks: u64,
    /// Part of the nodes for the stage that is likely to do worse: the exact search where repair comes
    /// first, all buffers where the large ones were placed first, the canonical search beside the valley
    /// search. 2 and 8 change nothing for any of them.
    pub lesser: Share,
    /// Part of all buffers that counts as few: the long-lived of a skeleton are no more, and small ones are
    /// set aside only if they are as many. Also the part of the nodes that is spent on less than one
    /// granule. 4 and 16 change nothing for any of them.
    pub minority: Share,
    /// Part of the bound that the load of small buffers may make so that they are set aside. 500 and 2,000
    /// change nothing.
    pub negligible: Share,
    /// Looks of the heuristics for every problem: some tenth of a second. With half of it one height of 62
    /// rises by 1 %; twice as many change two by less.
    pub least_looks: u64,
    /// Looks of the heuristics for each buffer besides. Half and twice of it move one height of 62, by -0.1
    /// and -0.2 %.
    pub looks_per_buffer: u64,
    /// Reductions of the search for packings without waste for each node, before the exact search; a third
    /// of them after it. 3 miss the capacity of two MiniMalloc problems with 500 nodes, 12 keep one more.
    pub reductions_per_node: u64,
    /// Nodes of the shortest slice of the exact search, at least 1; of the valley search as many in the
    /// time of a smaller slice, and four times as many where hardly any room is to spare. Also the nodes
    /// for a core. Half and twice of it change nothing; slices of the valley search of half and twice the
    /// length raise heights by 0.7 and 1 % in sum.
    pub slice: u64,
    /// Nodes of the valley search in the time of one of the canonical search, at least 1. 4 raise heights
    /// by 1 % in sum; 16 lower them as much, but one node takes twice as long.
    pub valleys_per_node: u64,
    /// How far below the bound the load of a section of the core may be, in one attempt after the other.
    /// Half and twice of them change nothing.
    pub core_margins: [Percent; 3],
    /// States of the search for packings without waste that are kept at a moment, in one attempt after the
    /// other: a wider one finds more and takes longer, so that narrow ones come first. Half and twice of
    /// them lose one of 17 packings, by 5 %.
    pub beam_widths: [usize; 3],
}

impl PlaceTuning {
    /// The numbers that every caller gets unless it says otherwise.
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
    /// Annealing steps for each unit of effort; there is one more for two operations, up to `large`
    /// operations. So many for each operation are also what makes a short search telling. Half and twice of
    /// it take 0.7 and 1.3 times the time, and move two or three plans of 45 by chance.
    pub steps: u64,
    /// Operations from which on annealing is cut short where it does not pay, and for which steps no longer
    /// grow. 300 and 1,200 move one plan of 45.
    pub large: usize,
    /// Part of an effort for what only tells whether more pays: the first gap cover of an order, short
    /// searches, annealing of a large model behind ruin and recreate. With 4, searches take 1.6 times the
    /// time; with 16, extra times rise by 6 percentage points in sum.
    pub trial: Share,
    /// Part of the effort for a large model where only annealing keeps the capacity. 2 and 8 change
    /// nothing.
    pub unfit: Share,
    /// Part of an extra time or of the capacity that counts as much: a gain of more is worth going on, and
    /// a first search that exceeds the capacity by more ends the searches. 4 and 16 change nothing for
    /// gains.
    pub much: Share,
    /// Part of an extra time or of the capacity that counts as little: less of a gain is none, all searches
    /// may exceed the capacity by that much before longer ones, and ruin and recreate by that much for a
    /// while. 32 and 128 move three or four plans of 45, by chance.
    pub little: Share,
    /// Annealing rounds, each half as hot as the one before, at least 1; as many that look for the capacity
    /// before; and beginnings of ruin and recreate at the best plan. 2 and 8 move up to four plans of 45,
    /// by chance.
    pub rounds: u32,
    /// Short searches that differ by chance. 2 take 0.7 and 8 take 1.5 times the time, and extra times rise
    /// and fall by less than half a percentage point in sum.
    pub seeds: u64,
    /// Temperature at which a search begins, at least 1 %, in units of the mean cost of a repeat of its
    /// start: hot enough to tear down much of it. One search more begins at a twentieth of it. 100 and 400
    /// raise extra times by 0.4 and 12.5 percentage points in sum.
    pub hot: Percent,
    /// Rounds of ruin and recreate in an effort. 2 and 8 move extra times by +4 and -0.8 percentage points
    /// in sum: chance, as twice as many rounds come first.
    pub effort_per_round: Share,
    /// Operations that one round of ruin and recreate puts in or takes out on average, at least 1: where
    /// each round takes more there are fewer. With 500 extra times rise by 8 percentage points in sum, with
    /// 2,000 they stay.
    pub work_per_round: u64,
    /// Part of the extra cost of a plan that a round of ruin and recreate may lose at first, on average. 1
    /// and 4 move two or three plans of 45, by -0.1 and +0.7 percentage points in sum.
    pub heat: Percent,
    /// Part of all repeats that one round takes out in a row, at most. 2 and 8 move extra times by -0.6 and
    /// +7.6 percentage points in sum.
    pub row: Share,
    /// Repeats that one round takes out anywhere, at most, and twice the operations that it moves. Half and
    /// twice as many moves raise extra times by 8 and 3 percentage points in sum; half and twice as many
    /// repeats move them by chance.
    pub changes: u32,
    /// Absences at the worst step that are tried before one is made, at least 1. 16 and 64 move three plans
    /// of 45, by less than they differ by chance.
    pub tried: usize,
    /// Growth of the weight of a step over the bytes of a capacity, as a logarithm: steep enough to see the
    /// steps near the capacity alone, and smooth enough to see several of them. 20 and 80 move three or
    /// four plans of 45, by chance.
    pub steepness: u64,
    /// How far scores of absences differ by chance in ruin and recreate, either way. 15 changes nothing but
    /// by chance, 60 raises extra times by 4 percentage points in sum.
    pub noise: Percent,
}

impl BudgetTuning {
    /// The numbers that every caller gets unless it says otherwise.
    pub const DEFAULT: Self = Self {
        steps: 200,
        large: 600,
        trial: Share(8),
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
