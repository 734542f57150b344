//! Tuning: the numbers that steer searches, each with its reason.

/// One part in so many of an effort or a size. 0 counts as 1.
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
}

impl Tuning {
    /// The numbers that every caller gets unless it says otherwise.
    pub const DEFAULT: Self = Self { order: OrderTuning::DEFAULT };
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
