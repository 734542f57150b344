//! Strategies: kinds of plans, one table row each, run in the order of the table.

mod batch;
mod codes;
mod direct;
mod front;
mod order;
mod own;
mod recompute;
mod regions;
mod regions_and_recompute;
mod scan;

use memc_passes::PipelineError;

use crate::search::Search;

/// A kind of plan.
pub(crate) struct Strategy {
    /// Name in the log.
    pub(crate) name: &'static str,
    /// Summary in one line, for the log and `memc passes`.
    pub(crate) summary: &'static str,
    /// Checks whether the strategy is worth running after the plans found so far; the error says why
    /// not.
    pub(crate) is_worth: fn(&Search<'_>) -> Result<(), &'static str>,
    /// Searches for plans and offers them to the pool.
    pub(crate) seek: fn(&mut Search<'_>) -> Result<(), PipelineError>,
}

/// Number of the strategies that do not read plans of requests with fewer limits.
pub(crate) const FIRST: usize = 4;

/// All strategies, in the order in which they run: whether a later strategy is worth running depends on
/// the plans of earlier ones.
pub(crate) const STRATEGIES: [Strategy; 21] = [
    Strategy {
        name: "order",
        summary: "orders the nodes as given, rewritten, and with split regions, without recomputation",
        is_worth: |_| Ok(()),
        seek: order::seek,
    },
    Strategy {
        name: "merge-again",
        summary: "merges equal nodes of the best plan, and recomputes some of them",
        is_worth: recompute::merging_is_worth,
        seek: recompute::merge_again,
    },
    Strategy {
        name: "batch",
        summary: "computes the batch in parts: 2, 4, 8, ..., or other divisors",
        is_worth: batch::is_worth,
        seek: batch::seek,
    },
    Strategy {
        name: "scan",
        summary: "computes the rows of a batch one after another, in the body of a Scan",
        is_worth: scan::is_worth,
        seek: scan::seek,
    },
    Strategy {
        name: "front",
        summary: "takes over the plan of the request without its limits, and of the slowdown without the limit",
        is_worth: front::is_worth,
        seek: front::seek,
    },
    Strategy {
        name: "codes",
        summary: "keeps values of known plans as codes between two uses, and recomputes nothing",
        is_worth: codes::is_worth,
        seek: codes::seek,
    },
    Strategy {
        name: "direct",
        summary: "lets buffers of known plans live in a slower space that nodes access directly",
        is_worth: direct::is_worth,
        seek: direct::seek,
    },
    Strategy {
        name: "recompute-in-time",
        summary: "recomputes values to save the memory that the slowdown allows",
        is_worth: recompute::in_time_is_worth,
        seek: recompute::in_time,
    },
    Strategy {
        name: "batch+recompute",
        summary: "computes the batch in a number of parts that nearly keeps the limit, and recomputes other values",
        is_worth: batch::near_are_worth,
        seek: batch::near_and_recompute,
    },
    Strategy {
        name: "recompute",
        summary: "recomputes or transfers values to keep the limit, without splitting operators",
        is_worth: recompute::is_worth,
        seek: recompute::seek,
    },
    Strategy {
        name: "recompute-as-given",
        summary: "recomputes or transfers values of the nodes as given, if the plan of `recompute` is rewritten",
        is_worth: recompute::given_is_worth,
        seek: recompute::of_given,
    },
    Strategy {
        name: "regions+recompute",
        summary: "splits nodes that exceed the limit by themselves, and recomputes other values",
        is_worth: |search| slow(search).and_then(|()| search.is_open()).and_then(|()| may_split(search)),
        seek: regions_and_recompute::for_the_limit,
    },
    Strategy {
        name: "recompute+regions",
        summary: "splits regions of plans that recompute",
        is_worth: |search| {
            kept(search)
                .and_then(|()| slow(search))
                .and_then(|()| regions_and_recompute::stands_still(search))
        },
        seek: regions_and_recompute::of_plans_that_recompute,
    },
    Strategy {
        name: "two-parts+recompute",
        summary: "computes the batch in two parts, and recomputes other values",
        is_worth: |search| {
            kept(search).and_then(|()| very_slow(search)).and_then(|()| batch::two_are_worth(search))
        },
        seek: batch::two_and_recompute,
    },
    Strategy {
        name: "regions-for-less",
        summary: "splits regions for smaller limits, without regard to time",
        is_worth: |search| unkept(search).and_then(|()| search.is_open()).and_then(|()| may_split(search)),
        seek: regions::for_less,
    },
    Strategy {
        name: "regions+recompute-for-less",
        summary: "searches for the smallest plan that splits regions and recomputes other values",
        is_worth: |search| unkept(search).and_then(|()| search.is_open()).and_then(|()| may_split(search)),
        seek: regions_and_recompute::for_less,
    },
    Strategy {
        name: "regions+recompute-within-less",
        summary: "splits regions for smaller limits, and recomputes other values",
        is_worth: |search| kept(search).and_then(|()| very_slow(search)).and_then(|()| may_split(search)),
        seek: regions_and_recompute::within_less,
    },
    Strategy {
        name: "slower-front",
        summary: "takes over the plans of slowdowns that keep the limit",
        is_worth: front::slower_is_worth,
        seek: front::slower,
    },
    Strategy {
        name: "direct-again",
        summary: "lets buffers of the plans found since then live in a slower space",
        is_worth: direct::is_worth,
        seek: direct::again,
    },
    Strategy {
        name: "lower-limits",
        summary: "takes over the plans of smaller limits that are faster",
        is_worth: front::lower_is_worth,
        seek: front::lower,
    },
    Strategy {
        name: "own-pipelines",
        summary: "runs the caller's pipelines",
        is_worth: own::is_worth,
        seek: own::seek,
    },
];

/// Checks that there is a limit, and that no plan keeps it or the best plan takes noticeably longer than
/// unlimited plans. With a slowdown in addition to the limit, any plan that keeps both is good enough.
fn slow(search: &Search<'_>) -> Result<(), &'static str> {
    limited(search)?;
    if search.wish.slowdown > 0 {
        return unkept(search);
    }
    if search.pool.is_slow(search.tuning.small_overhead) {
        Ok(())
    } else {
        Err("the best plan is fast enough")
    }
}

/// Checks that there is a limit, and that no plan keeps it or the best plan takes much longer than
/// unlimited plans.
fn very_slow(search: &Search<'_>) -> Result<(), &'static str> {
    limited(search)?;
    if search.wish.slowdown > 0 {
        return unkept(search);
    }
    if search.pool.is_slow(search.tuning.large_overhead) {
        Ok(())
    } else {
        Err("the best plan is fast enough")
    }
}

/// Checks that a plan keeps the limit.
fn kept(search: &Search<'_>) -> Result<(), &'static str> {
    limited(search)?;
    if search.pool.best().is_some() { Ok(()) } else { Err("no plan keeps the limit") }
}

/// Checks that there is a limit and no plan keeps it.
fn unkept(search: &Search<'_>) -> Result<(), &'static str> {
    limited(search)?;
    if search.pool.best().is_none() { Ok(()) } else { Err("a plan keeps the limit") }
}

/// Checks that regions may be split into parts.
fn may_split(search: &Search<'_>) -> Result<(), &'static str> {
    if search.model.may_split() { Ok(()) } else { Err("`--exact` or `--no-rewrite` forbids splitting") }
}

fn limited(search: &Search<'_>) -> Result<(), &'static str> {
    if search.wish.limit.is_some() { Ok(()) } else { Err("no memory limit is set") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_name_of_its_own_and_a_summary() {
        let names: std::collections::BTreeSet<&str> =
            STRATEGIES.iter().map(|strategy| strategy.name).collect();
        assert_eq!(names.len(), STRATEGIES.len());
        assert!(STRATEGIES.iter().all(|strategy| !strategy.summary.is_empty()));
    }
}
