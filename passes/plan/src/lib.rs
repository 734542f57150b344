//! The planner: chooses the passes to run on a model, their settings, and the plan to keep.
//!
//! A [`Model`] and a [`Wish`] become a [`Goal`]; strategies run one after another and offer plans to a
//! pool, which keeps the plan with the best [`Score`] and logs every candidate. A plan carries its
//! trace: the pipeline that makes the plan from the input module. `doc/planning.md` explains the design
//! on one page.

mod budget;
mod forms;
mod goal;
mod limited;
mod model;
mod peak;
mod pool;
pub mod registry;
pub mod rewrite;
mod scan;
mod score;
mod search;
pub mod split;
mod strategies;
pub mod transforms;
mod trial;
mod tuning;
mod whole;
mod windows;

use std::fmt::Debug;

use memc_ir::{Bytes, Module};
use memc_passes::{LeaveOut, Options, PassError, PipelineError, Shortage};

pub use goal::{Goal, slowdown, slowed};
pub use model::{Model, Planned};
pub use peak::{own_need, own_peak, planned_peak};
pub use pool::{Entry, Verdict};
pub use score::Score;
pub use search::Wish;
pub use transforms::Transforms;
pub use tuning::Tuning;
pub use whole::FILE_ORDER;

use search::Search;

/// The plan of a model, with the log of its search.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best plan.
    pub planned: Planned,
    /// Its score.
    pub score: Score,
    /// All candidates, in the order of the search.
    pub log: Vec<Entry>,
    /// Options of the plan.
    pub options: Options,
    /// Requested options that the plan does not use.
    pub without: Without,
}

/// Requested options that a plan does not use.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Without {
    /// Options that no plan within the limits can have.
    pub refused: Vec<&'static str>,
    /// Options without which the plan is better.
    pub worse: Vec<&'static str>,
    /// Passes that nobody asked for, with which every plan takes too long.
    pub late: Vec<&'static str>,
}

impl Without {
    /// Returns all of the options.
    fn names(&self) -> String {
        [&*self.refused, &*self.worse, &*self.late].concat().join(" ")
    }
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A pass failed; [`PassError::Budget`] if no plan keeps the byte limit.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Plans keep the byte limit, and the fastest of them exceeds the time limit.
    #[error("the fastest plan within the limit takes {nanos} ns, but {longest} ns are allowed")]
    Slow {
        /// Time limit, in modelled nanoseconds.
        longest: u64,
        /// Time of the fastest plan within the limit, in modelled nanoseconds.
        nanos: u64,
        /// Need of this plan, in bytes.
        needs: Bytes,
        /// Need of the smallest plan within the time limit, in bytes, if one was found.
        smallest: Option<Bytes>,
    },
}

/// Plans a model. `tell` receives every candidate as soon as it is judged.
///
/// # Errors
/// Returns an error if a pass fails or no plan keeps the limits.
pub fn plan(
    model: &Model<'_>,
    wish: Wish,
    tuning: &Tuning,
    tell: &mut dyn FnMut(&Entry),
) -> Result<Found, Refusal> {
    let mut best: Option<Found> = None;
    let mut refusal: Option<Refusal> = None;
    let mut log = Vec::new();
    // All families share one goal: the goal of the first family, which uses no requested kernels.
    let mut goal = None;
    for (options, without) in families(model.module, model.transforms()) {
        let gave_up = best.as_ref().map(|best| &best.without.refused);
        if gave_up.is_some_and(|refused| refused.len() < without.refused.len()) {
            break;
        }
        let is_late = best.is_none() && matches!(refusal, Some(Refusal::Slow { .. }));
        if !without.late.is_empty() && !is_late {
            continue;
        }
        let model = Model { options: &options, ..model.clone() };
        let mut search = Search::new(&model, tuning, wish, goal, Some(&mut *tell))?;
        goal = Some(search.pool.goal);
        search.run()?;
        log.extend(search.pool.log.iter().map(|entry| Entry { without: without.names(), ..entry.clone() }));
        match search.finish() {
            Ok(found) => {
                // Of equally good plans, the earlier family wins: it uses fewer optional kernels.
                let is_better = best.as_ref().is_none_or(|best| found.score < best.score);
                best = if is_better { Some(Found { without, ..found }) } else { best };
            }
            Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => {
                refusal = Some(smaller(refusal, short))
            }
            Err(slow @ Refusal::Slow { .. }) => refusal = Some(faster(refusal, slow)),
            Err(other) => return Err(other),
        }
    }
    let none = || {
        Refusal::Pipeline(PipelineError::Pass(PassError::WrongAnswer {
            pass: "plan",
            why: "no candidate without a limit".to_owned(),
        }))
    };
    best.map(|best| Found { log, ..best }).ok_or_else(|| refusal.unwrap_or_else(none))
}

/// Returns the name and summary of every strategy, in the order in which they run.
pub fn strategies() -> impl Iterator<Item = (&'static str, &'static str)> {
    strategies::STRATEGIES.iter().map(|strategy| (strategy.name, strategy.summary))
}

/// Returns the refusal with the smaller plan. A refusal for time takes precedence, since it says that
/// plans keep the byte limit.
fn smaller(known: Option<Refusal>, short: Box<Shortage>) -> Refusal {
    match known {
        Some(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(known))))
            if known.least > short.least =>
        {
            short.into()
        }
        Some(known) => known,
        None => short.into(),
    }
}

/// Returns the refusal for time with the faster plan.
fn faster(known: Option<Refusal>, slow: Refusal) -> Refusal {
    let nanos = |refusal: &Refusal| match refusal {
        Refusal::Slow { nanos, .. } => *nanos,
        Refusal::Pipeline(_) => u64::MAX,
    };
    known.filter(|known| nanos(known) <= nanos(&slow)).unwrap_or(slow)
}

impl From<Box<Shortage>> for Refusal {
    fn from(short: Box<Shortage>) -> Self {
        Self::Pipeline(PipelineError::Pass(PassError::Budget(short)))
    }
}

/// Kernels that the rules of `canonicalize` take on request.
const INTEGER_KERNELS: (&str, LeaveOut) =
    ("--integer-kernels", LeaveOut::IfBetter(|options| options.rewrite.integer_kernels = false));

/// Returns the families of options: without each requested option that admits more plans, and with it, each
/// with the options left out. So such an option never gives a worse plan. Those without an option that
/// only a refusal may leave out come last, so that it never refuses a plan either; among equal ones, those
/// without a pass that only a late plan may leave out.
fn families(module: &Module, transforms: Transforms<'_>) -> Vec<(Options, Without)> {
    let asked = transforms
        .of_use(module)
        .into_iter()
        .map(|transform| (transform.option.unwrap_or(transform.pass.name), transform.leave_out));
    let kernels = transforms.options.rewrite.integer_kernels.then_some(INTEGER_KERNELS);
    let mut families = vec![(transforms.options.clone(), Without::default())];
    for (option, leave_out) in asked.chain(kernels) {
        let less = families.clone().into_iter().filter_map(|(mut options, mut without)| {
            match leave_out {
                LeaveOut::Never => return None,
                LeaveOut::IfBetter(take_back) => {
                    take_back(&mut options);
                    without.worse.push(option);
                }
                LeaveOut::IfRefused(take_back) => {
                    take_back(&mut options);
                    without.refused.push(option);
                }
                LeaveOut::IfLate(take_back) => {
                    take_back(&mut options);
                    without.late.push(option);
                }
            }
            Some((options, without))
        });
        families.extend(less.collect::<Vec<_>>());
    }
    families.reverse();
    families.sort_by_key(|(_, without)| (without.refused.len(), without.late.len()));
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_cover_every_subset_of_options() {
        let (module, mut options) = (Module::default(), Options::default());
        options.rewrite.rows = false;
        assert_eq!(families(&module, Transforms { own: &[], options: &options }).len(), 1);
        (options.rewrite.nchwc, options.rewrite.integer_kernels) = (Some(8), true);
        let names: Vec<_> = families(&module, Transforms { own: &[], options: &options })
            .into_iter()
            .map(|(_, without)| without.names())
            .collect();
        assert_eq!(names, ["--nchwc --integer-kernels", "--integer-kernels", "--nchwc", ""]);
        (options.rewrite.nchwc, options.encode.weights) = (None, Some(memc_passes::WeightCode::Int8));
        let names: Vec<_> = families(&module, Transforms { own: &[], options: &options })
            .into_iter()
            .map(|(_, without)| without.names())
            .collect();
        let both = "--encode-weights --integer-kernels";
        assert_eq!(names, ["--integer-kernels", "", both, "--encode-weights"]);
        (options.rewrite.rows, options.rewrite.integer_kernels) = (true, false);
        let names: Vec<_> = families(&module, Transforms { own: &[], options: &options })
            .into_iter()
            .map(|(_, without)| without.names())
            .collect();
        assert_eq!(names, ["", "rows", "--encode-weights", "--encode-weights rows"]);
    }
}
