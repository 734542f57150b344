//! Forms of a plan for a session with default options, which are tried by counting.
//!
//! No form is best for every model: a session keeps fewer buffers if it does not know extents, but lays out
//! the rest in a larger block; anchors pin the order, but keep nodes from being fused. So sessions are
//! counted.

use std::path::Path;

use memc::{Budget, Model, PlainForm, Planned, Request, Size};
use memc_ops::profile::{LEAST_REGION, SessionSettings, begins, region};

use super::Failure;
use super::args::Optimize;
use super::counting::{OWN_NODES, Tried, Write};

/// How often the best plan is counted again. Optimizations number nodes differently each time, and the order
/// follows: of two sessions of one model, one took twice the bytes of the other. If half of them do, all
/// counts miss it once in 32 models.
const RECOUNTS: usize = 4;

/// Number of forms for which regions are begun.
const BEGUN: usize = 2;

/// Shares of a region for which plans are made, in eighths: values do not fill it without gaps.
const EIGHTHS: [u64; 3] = [8, 6, 4];

/// Plans whose forms are tried.
pub struct Forms<'a> {
    /// How files are written.
    pub arguments: &'a Optimize,
    /// The request of the first plan.
    pub request: &'a Request,
    /// The given model.
    pub file: &'a Model,
    /// All plans so far.
    pub plans: &'a mut Vec<Tried>,
    /// The library of the runtime.
    pub library: &'a Path,
    /// Writes a plan.
    pub write: Write<'a>,
}

impl Forms<'_> {
    /// Adds forms of a plan, and then regions of the plans that need the least block.
    ///
    /// # Errors
    /// Files cannot be written.
    pub fn add_forms(&mut self, of: usize) -> Result<(), Failure> {
        // A session merges what a plan computes again.
        let apart = self.plans.get(of).is_some_and(|plan| plan.planned.layout.cost.recomputed_nodes > 0);
        for (hidden, pinned) in [(true, false), (false, true), (true, true)] {
            self.add(of, PlainForm { hidden, pinned, apart, first: Vec::new() })?;
        }
        // Without the arena, a session takes one block for its values, and what kernels need beside it.
        let settings = SessionSettings { arena: false, ..SessionSettings::PLAIN };
        let library = self.library;
        let blocks = self
            .plans
            .iter_mut()
            .enumerate()
            .filter_map(|(at, plan)| Some((plan.count(library, &settings)?, at)));
        let mut blocks: Vec<(u64, usize)> = blocks.collect();
        blocks.sort_unstable();
        for (block, at) in blocks.into_iter().take(BEGUN) {
            self.add_regions(at, block)?;
        }
        self.settle_down();
        Ok(())
    }

    /// Adds plans within smaller limits, with their forms, until a session keeps `limit`: its regions are
    /// powers of two, so a plan that fills the limit takes more.
    ///
    /// # Errors
    /// Files cannot be written.
    pub fn keep(&mut self, limit: u64) -> Result<(), Failure> {
        let Some(room) = limit.checked_sub(LEAST_REGION).filter(|room| *room > 0) else { return Ok(()) };
        let region = 1 << room.ilog2();
        for eighths in EIGHTHS {
            if self.least().is_some_and(|least| least <= limit) {
                break;
            }
            let budget = Budget { space: None, size: Size::Bytes(region / 8 * eighths) };
            let others = self.request.budgets.iter().filter(|budget| budget.space.is_some()).cloned();
            let budgets = others.chain([budget]).collect();
            let Ok(planned) = memc::plan(
                self.file,
                &Request { budgets, pareto: 0, compare: false, ..self.request.clone() },
            ) else {
                continue;
            };
            let tried =
                Tried::write(self.arguments, self.file, planned, false, self.plans.len(), self.write)?;
            self.plans.push(tried);
            self.add_forms(self.plans.len() - 1)?;
        }
        Ok(())
    }

    /// Returns the least bytes of a plain session of a plan.
    fn least(&mut self) -> Option<u64> {
        let library = self.library;
        self.plans.iter_mut().filter_map(|plan| plan.count(library, &SessionSettings::PLAIN)).min()
    }

    /// Counts plans again until the best one keeps its number [`RECOUNTS`] times.
    fn settle_down(&mut self) {
        for _ in 0..self.plans.len() {
            let library = self.library;
            let found = self
                .plans
                .iter_mut()
                .filter_map(|plan| Some((plan.count(library, &SessionSettings::PLAIN)?, plan)));
            let Some((_, best)) = found.min_by_key(|(bytes, _)| *bytes) else { return };
            if !(0..RECOUNTS).any(|_| best.grows(library, &SessionSettings::PLAIN)) {
                return;
            }
        }
    }

    /// Adds a form of a plan, unless it writes the model of another one or cannot be made.
    fn add(&mut self, at: usize, form: PlainForm) -> Result<(), Failure> {
        let of = &self.plans[at];
        let passes = if of.is_own { OWN_NODES.to_owned() } else { of.planned.trace.clone() };
        let bare =
            Request { pipelines: Vec::new(), pareto: 0, compare: false, plain: form, ..self.request.clone() };
        let Ok(mut planned) = memc::plan(self.file, &bare.passes(passes)) else { return Ok(()) };
        if !of.is_own {
            adopt(&mut planned, &of.planned);
        }
        let written = &planned.layout.model.output_sha256;
        if self.plans.iter().all(|plan| plan.planned.layout.model.output_sha256 != *written) {
            let tried =
                Tried::write(self.arguments, self.file, planned, of.is_own, self.plans.len(), self.write)?;
            self.plans.push(tried);
        }
        Ok(())
    }

    /// Adds forms of a plan that begin regions for a block of so many bytes, as long as fewer bytes may
    /// result.
    fn add_regions(&mut self, at: usize, block: u64) -> Result<(), Failure> {
        let Some(whole) = region(block) else { return Ok(()) };
        let form = self.plans[at].planned.plain.clone();
        // Outputs and the workspace of kernels do not lie in the block, and may need a region of their own.
        let (half, quarter) = (whole / 2, whole / 4);
        let pairs = [quarter, LEAST_REGION].map(|small| [vec![small, half], vec![small, whole]]);
        let mut lists = vec![vec![half], vec![whole], vec![half, whole]];
        lists.extend(pairs.into_iter().flatten());
        lists.retain(|regions| regions[0] >= LEAST_REGION && regions.is_sorted_by(|one, next| one < next));
        lists.sort_by_key(|regions| regions.iter().copied().fold(0, u64::saturating_add));
        lists.dedup();
        for regions in lists {
            let least = regions.iter().copied().fold(0, u64::saturating_add);
            if self.least().is_none_or(|best| least < best) {
                self.add(
                    at,
                    PlainForm { first: regions.iter().copied().map(begins).collect(), ..form.clone() },
                )?;
            }
        }
        Ok(())
    }
}

/// Lets a plan that repeats the passes of another one say how that one was found.
fn adopt(planned: &mut Planned, of: &Planned) {
    let (layout, found) = (&mut planned.layout, &of.layout);
    layout.options.remove("passes");
    layout.options.extend(found.options.get("passes").map(|passes| ("passes".to_owned(), passes.clone())));
    (layout.trace, layout.solvers, layout.pareto) =
        (found.trace.clone(), found.solvers.clone(), found.pareto.clone());
    layout.cost.overhead_lower_bound = found.cost.overhead_lower_bound;
    (planned.strategy, planned.trace) = (of.strategy, of.trace.clone());
    (planned.log, planned.reports, planned.before) = (of.log.clone(), of.reports.clone(), of.before.clone());
}
