//! Numbers that steer which plans are looked for, each with its unit, its effect and its reason. They are passed down, and never global.

/// Numbers of the planner.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuning {
    /// A plan within a limit is fast enough where it takes at most 1/n more time than the fastest one without a limit: no other strategy is
    /// asked. One per cent is below what the model of time can tell apart.
    pub small_overhead: u64,
    /// Strategies that take long to find a plan are asked where the best one takes more than 1/n more time.
    pub large_overhead: u64,
    /// Models of more nodes are not planned in several ways where one of them keeps the limit.
    pub large_model: usize,
    /// Limits that are tried where the limit itself has no plan, in hundredths of it: regions for less may keep the whole.
    pub smaller_limits: [u64; 4],
    /// Time that regions may cost where no plan keeps the limit, in hundredths of a per cent; halved while plans keep it, down to the second.
    pub lavish_slowdown: u32,
    /// The least slowdown for which regions are looked for by themselves, in hundredths of a per cent.
    pub frugal_slowdown: u32,
    /// Most bytes that a node may need by itself, in hundredths of the limit, so that recomputation can free the others; the second number
    /// is tried where the first finds no smaller plan.
    pub alone: [u64; 2],
    /// Searches for the smallest plan, and for regions of plans that recompute, take 1/n of the effort.
    pub short: u64,
    /// Limits for regions of plans that recompute, in hundredths of the limit: offsets need the rest.
    pub nearly_all: [u64; 2],
    /// A plan that recomputes within this larger limit, in hundredths of the limit, is brought down to the limit by regions.
    pub wider_limit: u64,
    /// A smaller plan, or one with twice as many parts of the batch, is looked for as long as each one saves 1/n of the bytes of the one before.
    pub least_saving: u64,
    /// Two parts of the batch are planned with recomputing where they alone save 1/n of the bytes.
    pub noticeable_saving: u64,
    /// Merging equal nodes of the best plan, and recomputing some of them, takes 1/n of the effort: BERT plans in a quarter of the time that
    /// the whole effort took, with equal bytes.
    pub merging: u64,
    /// Logarithm to base 2 of the largest number of parts of a batch.
    pub max_doublings: u32,
    /// Most nodes of a model with its batch in parts, about: plans of more nodes take minutes.
    pub max_nodes_in_parts: usize,
    /// The effort of plans in parts is divided by nodes / n: each step costs time in proportion to the graph.
    pub full_effort_nodes: u64,
    /// A plan by heuristics that needs at most 1/n more than the limit is planned with rewriting and recomputing too.
    pub near_limit: u64,
    /// Most nodes of a model that is planned in two parts with recomputing, where two parts alone save enough bytes.
    pub max_nodes_in_two_parts: usize,
    /// Effort for a form that heuristics rank behind the best plan is 1/n.
    pub behind: u64,
    /// Longer searches are not begun where the smallest plan needs 1/n more than the limit.
    pub far_from_limit: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            small_overhead: 100,
            large_overhead: 20,
            large_model: 1000,
            smaller_limits: [97, 90, 80, 65],
            lavish_slowdown: 2000,
            frugal_slowdown: 50,
            alone: [75, 60],
            short: 4,
            nearly_all: [99, 96],
            wider_limit: 115,
            least_saving: 32,
            noticeable_saving: 16,
            merging: 8,
            max_doublings: 6,
            max_nodes_in_parts: 32_768,
            full_effort_nodes: 8192,
            near_limit: 8,
            max_nodes_in_two_parts: 4000,
            behind: 4,
            far_from_limit: 8,
        }
    }
}

/// `part` hundredths of a number of bytes, rounded down.
pub(crate) fn hundredths(bytes: memc_ir::Bytes, part: u64) -> memc_ir::Bytes {
    memc_ir::Bytes((u128::from(bytes.0) * u128::from(part) / 100) as u64)
}
