//! The planner: which passes run on a model, with which settings, and which of the plans that they make is kept.
//!
//! A [`Model`] and a [`Wish`] become a [`Goal`]; strategies are asked one after another and offer plans to a pool, which keeps the best one by its
//! [`Score`] and logs what was tried. A plan carries its trace: the pipeline that makes it of the module as it was given. `doc/planning.md`
//! explains it on one page.

mod budget;
mod goal;
mod model;
mod peak;
mod pool;
pub mod registry;
pub mod rewrite;
mod score;
mod search;
pub mod split;
mod strategies;
mod trial;
mod tuning;
mod whole;
mod windows;

use std::fmt::Debug;

use memc_ir::Bytes;
use memc_passes::{Options, PassError, PipelineError, Shortage};

pub use goal::{Goal, slowdown, slowed};
pub use model::{Model, Planned};
pub use peak::{own_peak, planned_peak};
pub use pool::{Entry, Verdict};
pub use score::Score;
pub use search::Wish;
pub use tuning::Tuning;
pub use whole::FILE_ORDER;

use search::Search;

/// The plan of a model, and what was tried for it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best plan.
    pub planned: Planned,
    /// Its score.
    pub score: Score,
    /// What was tried, in order.
    pub log: Vec<Entry>,
    /// Options that the plan was made with.
    pub options: Options,
    /// Options that were asked for and not used: plans without them are better.
    pub without: Vec<&'static str>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A pass failed; [`PassError::Budget`] where no plan keeps the limit of bytes.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Plans keep the limit of bytes, and the fastest of them takes longer than is allowed.
    #[error("the fastest plan within the limit takes {nanos} ns, and {longest} ns are allowed")]
    Slow {
        /// The longest time, in modelled nanoseconds.
        longest: u64,
        /// Time of the fastest plan within the limit, in modelled nanoseconds.
        nanos: u64,
        /// Bytes that it needs.
        needs: Bytes,
        /// Bytes of the smallest plan within the time.
        smallest: Bytes,
    },
}

/// Plans a model. `tell` hears of every candidate as soon as it is judged.
///
/// # Errors
/// A pass fails, or no plan keeps the limits.
pub fn plan(model: &Model<'_>, wish: Wish, tuning: &Tuning, tell: &mut dyn FnMut(&Entry)) -> Result<Found, Refusal> {
    let mut best: Option<Found> = None;
    let mut refusal: Option<Refusal> = None;
    let mut log = Vec::new();
    // Plans are compared by one goal: that of the first family, which has no kernels that were asked for.
    let mut goal = None;
    for (options, without) in families(model.options) {
        let model = Model { options: &options, ..model.clone() };
        let mut search = Search::new(&model, tuning, wish, goal, tell)?;
        goal = Some(search.pool.goal);
        search.run()?;
        log.extend(search.pool.log.iter().map(|entry| Entry { without: without.join(" "), ..entry.clone() }));
        match search.finish() {
            Ok(found) => {
                // Of equally good plans, the one with fewer kernels of their own, which is the earlier one.
                let is_better = best.as_ref().is_none_or(|best| found.score < best.score);
                best = if is_better { Some(Found { without, ..found }) } else { best };
            }
            Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => refusal = Some(smaller(refusal, short)),
            Err(slow @ Refusal::Slow { .. }) => refusal = Some(slow),
            Err(other) => return Err(other),
        }
    }
    let none = || Refusal::Pipeline(PipelineError::Pass(PassError::WrongAnswer { pass: "plan", why: "no family".to_owned() }));
    best.map(|best| Found { log, ..best }).ok_or_else(|| refusal.unwrap_or_else(none))
}

/// Name and summary of every strategy, in the order in which they are asked.
pub fn strategies() -> impl Iterator<Item = (&'static str, &'static str)> {
    strategies::STRATEGIES.iter().map(|strategy| (strategy.name, strategy.summary))
}

/// Of two refusals, the one with the smaller plan; one for time says that there are plans within the bytes.
fn smaller(known: Option<Refusal>, short: Box<Shortage>) -> Refusal {
    match known {
        Some(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(known)))) if known.least > short.least => short.into(),
        Some(known) => known,
        None => short.into(),
    }
}

impl From<Box<Shortage>> for Refusal {
    fn from(short: Box<Shortage>) -> Self {
        Self::Pipeline(PipelineError::Pass(PassError::Budget(short)))
    }
}

/// Families of plans: without the kernels that were asked for, and with each of them, with the names of the options that are left out. An option that
/// admits more plans never gives a worse one.
fn families(options: &Options) -> Vec<(Options, Vec<&'static str>)> {
    let mut families = vec![(options.clone(), Vec::new())];
    if options.rewrite.nchwc.is_some() {
        let mut plain = options.clone();
        plain.rewrite.nchwc = None;
        families.push((plain, vec!["--nchwc"]));
    }
    if options.rewrite.integer_kernels {
        let without = families.clone().into_iter().map(|(mut options, mut names)| {
            options.rewrite.integer_kernels = false;
            names.push("--integer-kernels");
            (options, names)
        });
        families.extend(without);
    }
    families.reverse();
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_leave_out_every_set_of_kernels() {
        let mut options = Options::default();
        assert_eq!(families(&options).len(), 1);
        (options.rewrite.nchwc, options.rewrite.integer_kernels) = (Some(8), true);
        let names: Vec<_> = families(&options).into_iter().map(|(_, names)| names.join(" ")).collect();
        assert_eq!(names, ["--nchwc --integer-kernels", "--integer-kernels", "--nchwc", ""]);
    }
}
