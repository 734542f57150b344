//! Numbers that steer the search for plans, each with its unit, effect and reason; passed as an
//! argument, never global.

/// Numbers that steer the planner.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuning {
    /// The search stops once the overhead of the best plan over the fastest unlimited plan is at most
    /// 1/n of that plan's time; one percent is below the resolution of the time model. Below a limit that no
    /// plan keeps, it stops once the smallest plan needs at most 1/n more than every plan does.
    pub small_overhead: u64,
    /// Slow strategies run only if the best plan takes more than 1/n longer than the fastest unlimited
    /// plan.
    pub large_overhead: u64,
    /// Number of nodes above which a model is large: large models skip the search for regions that trade
    /// time for memory once a plan keeps the limit.
    pub large_model: usize,
    /// Smaller limits to try if the limit itself has no plan, in hundredths of the limit: regions
    /// planned for a smaller limit may keep the whole limit.
    pub smaller_limits: [u64; 4],
    /// Number of nodes up to which a model is planned for whole lists of limits and slowdowns: each search of
    /// these takes milliseconds there.
    pub small_model: usize,
    /// Slowdowns whose plans compete within a limit, in hundredths of a percent, from the largest one down.
    /// They are the same for every limit, so that a plan that one limit finds is found by every larger limit.
    pub slowdowns: [u32; 6],
    /// Steps of a search for the smallest plan that recomputes within a slowdown, as shares 1/n of the need
    /// of the best plan: the search goes on with a smaller step if a step exceeds the time.
    pub steps_in_time: [u64; 4],
    /// Maximum need of a single node, in hundredths of the limit, so that recomputation can free the
    /// rest. The second number is tried if the first finds no smaller plan.
    pub alone: [u64; 2],
    /// The searches for the smallest plan, and for regions in plans that recompute, take 1/n of the
    /// effort.
    pub short: u64,
    /// Limits for regions in plans that recompute, in hundredths of the limit: offsets need the rest.
    pub nearly_all: [u64; 2],
    /// Limit of a wider plan that recomputes, in hundredths of the limit; regions then bring this plan
    /// down to the limit.
    pub wider_limit: u64,
    /// The search for a smaller plan, or for twice the number of batch parts, goes on while each step saves
    /// 1/n of the bytes of the previous one.
    pub least_saving: u64,
    /// Two batch parts are planned with recomputation if the split alone saves 1/n of the bytes.
    pub noticeable_saving: u64,
    /// Merging equal nodes of the best plan, and recomputing some of them, takes 1/n of the effort: BERT
    /// then plans in a quarter of the time of a search with full effort, with equal bytes.
    pub merging: u64,
    /// Base-2 logarithm of the largest number of batch parts to try.
    pub max_doublings: u32,
    /// Approximate maximum number of nodes of a model with its batch split into parts: larger plans take
    /// minutes.
    pub max_nodes_in_parts: usize,
    /// The effort for plans with batch parts is divided by nodes / n: each step costs time in proportion
    /// to the graph.
    pub full_effort_nodes: u64,
    /// A heuristic plan that needs at most 1/n more than the limit is also planned with rewriting and
    /// recomputing.
    pub near_limit: u64,
    /// Maximum number of nodes of a model that is planned in two batch parts with recomputation.
    pub max_nodes_in_two_parts: usize,
    /// A form that heuristics rank worse than the best plan gets 1/n of the effort.
    pub behind: u64,
    /// Longer searches do not start if the smallest plan needs more than 1/n above the limit.
    pub far_from_limit: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            small_overhead: 100,
            large_overhead: 20,
            large_model: 1000,
            smaller_limits: [97, 90, 80, 65],
            small_model: 32,
            slowdowns: [2000, 1000, 500, 200, 100, 50],
            steps_in_time: [2, 4, 8, 16],
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

/// Returns `part` hundredths of `bytes`, rounded down.
pub(crate) fn hundredths(bytes: memc_ir::Bytes, part: u64) -> memc_ir::Bytes {
    memc_ir::Bytes((u128::from(bytes.0) * u128::from(part) / 100) as u64)
}
