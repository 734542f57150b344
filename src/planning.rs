//! Plans a model under its options: resolves limits, calls the planner, and repeats its trace for
//! observers.

use memc_ir::{Bytes, Diagnostic, Module, Severity, Stage};
use memc_layout::ParetoPoint;
use memc_onnx_proto::ModelFile;
use memc_passes::{Memo, Observer, PassContext, PassError, Pipeline, PipelineError, Settings, Silent};
use memc_plan::registry::{self, REGISTRY};
use memc_plan::{Entry, Found, Model, Planned, Refusal, Tuning, Wish, Without};

use crate::baseline::baseline;
use crate::error::Error;
use crate::external::ExternalFiles;
use crate::in_time::{self, Missed};
use crate::limits::{Limits, limits};
use crate::request::{Known, Resolved};
use crate::slo::Slo;
use crate::slo_error::SloError;

/// A model to plan.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) given: &'a Module,
    pub(crate) data: &'a Known,
    pub(crate) external: &'a ExternalFiles,
    /// The caller's own pipeline, to run in place of a search.
    pub(crate) passes: Option<&'a str>,
}

/// A plan with the other results of its search.
pub(crate) struct Chosen {
    pub(crate) planned: Planned,
    /// Limits in bytes, by space.
    pub(crate) limits: Limits,
    /// Other limits with arena and time of their plans, if requested.
    pub(crate) pareto: Vec<ParetoPoint>,
    /// Candidates that were tried.
    pub(crate) log: Vec<Entry>,
    /// Requested options that the plan does not use.
    pub(crate) without: Without,
}

/// Largest number of nodes of models whose plans are repeated without an observer, in debug builds.
const MAX_REPEATED: usize = 200;

/// Cleaning passes that help every plan. Sizes in percent are of the peak in file order; values that
/// cleaning makes constant do not count.
const CLEANED: &str = "fold,canonicalize,dce";

impl Source<'_> {
    /// Plans the model under these options.
    ///
    /// # Errors
    /// A pass fails, or no plan keeps the limits.
    pub(crate) fn plan(
        &self,
        options: &Resolved<'_>,
        observer: &mut dyn Observer,
        tell: &mut dyn FnMut(&Entry),
    ) -> Result<Chosen, Error> {
        let mut own = options.plan.clone();
        let limits = limits(options, self.whole(options)?)?;
        own.far_budgets = limits.far();
        let model = Model {
            module: self.given,
            data: self.data,
            external: Some(self.external),
            options: &own,
            transforms: &options.request.transforms,
            verify: options.request.verify,
            memo: Memo::default(),
        };
        let wish = Wish { limit: limits.room(options), slowdown: own.rewrite.slowdown };
        if let Some(text) = self.passes {
            let planned = own_pipeline(&model, text, wish, observer)?;
            return Ok(Chosen {
                planned,
                limits,
                pareto: Vec::new(),
                log: Vec::new(),
                without: Without::default(),
            });
        }
        let found = match options.request.slo {
            None => memc_plan::plan(&model, wish, &Tuning::default(), tell)
                .map_err(|refusal| refused(refusal, &model, wish))?,
            Some(slo) => in_time(&model, wish.limit, slo, !options.request.budgets.is_empty(), tell)?,
        };
        let Found { planned, log, options: used, without, .. } = found;
        let (_, pareto) = sweep(&model, options.request.pareto)?;
        // Debug builds repeat the traces of small models and compare the plans.
        if observer.watches() || options.request.verify && self.given.nodes().len() <= MAX_REPEATED {
            repeat(&Model { options: &used, ..model.clone() }, &planned, observer)?;
        }
        Ok(Chosen { planned, limits, pareto, log, without })
    }

    /// Peak in file order, in units of the space, without values that cleaning makes constant: 100 % of sizes
    /// in percent.
    fn whole(&self, options: &Resolved<'_>) -> Result<Bytes, Error> {
        let mut cleaned = self.given.clone();
        let mut ctx = PassContext {
            external: Some(self.external),
            ..PassContext::new(&options.plan, self.data.clone())
        };
        Pipeline::parse(CLEANED, cleaned.stage, REGISTRY)?.run(&mut cleaned, &mut ctx, false, &mut Silent)?;
        Ok(baseline(self.file, self.given, &cleaned, options)?.own_need)
    }
}

/// Says which requested options the plan does not use, and why.
pub(crate) fn unused(without: &Without) -> impl Iterator<Item = Diagnostic> {
    let worse = (!without.worse.is_empty()).then(|| {
        let message = format!("{} saves nothing here and is not used", without.worse.join(" with "));
        let help = "no action needed: the plan without the option is at least as good under this goal";
        Diagnostic::new("W0307", Severity::Remark, message).with_help(help)
    });
    let refused = (!without.refused.is_empty()).then(|| {
        let message = format!(
            "{} is not used: every plan found with it exceeds the limits",
            without.refused.join(" with ")
        );
        let help = "raise the budget or the allowed slowdown, if you need the option";
        Diagnostic::new("W0322", Severity::Warning, message).with_help(help)
    });
    worse.into_iter().chain(refused)
}

/// Runs the trace of a plan again for observers, and rejects a trace that makes another plan.
fn repeat(model: &Model<'_>, planned: &Planned, observer: &mut dyn Observer) -> Result<(), Error> {
    let (module, _) = run(model, &planned.trace, &Settings::default(), observer)?;
    let [again, chosen] = [&module, &planned.module].map(memc_ir::text::print);
    if again == chosen {
        return Ok(());
    }
    let (again, chosen) =
        again.lines().zip(chosen.lines()).find(|(again, chosen)| again != chosen).unwrap_or_default();
    let why = format!("the trace makes another plan, `{again}` for `{chosen}`: {}", planned.trace);
    Err(PipelineError::Pass(PassError::WrongAnswer { pass: "plan", why }).into())
}

/// Runs a pipeline on the module as it was given.
fn run<'m>(
    model: &'m Model<'_>,
    text: &str,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<(Module, PassContext<'m>), Error> {
    let mut module = model.module.clone();
    let mut ctx =
        PassContext { external: model.external, ..PassContext::new(model.options, model.data.clone()) };
    let pipeline = registry::parse(text, module.stage, model.transforms)?.with(settings);
    pipeline.run(&mut module, &mut ctx, model.verify, observer)?;
    Ok((module, ctx))
}

/// Runs the user's own pipeline; its passes keep the requested limits unless their settings name others.
fn own_pipeline(
    model: &Model<'_>,
    text: &str,
    wish: Wish,
    observer: &mut dyn Observer,
) -> Result<Planned, Error> {
    let parts = model.options.rewrite.micro_batches;
    let settings = Settings { limit: wish.limit, slowdown: wish.slowdown, parts, ..Settings::default() };
    let (module, ctx) = run(model, text, &settings, observer)?;
    if module.stage < Stage::Planned {
        return Err(Error::Unplanned { passes: text.to_owned() });
    }
    Ok(Planned::of(module, &ctx, text.to_owned()))
}

/// Converts the reason for no plan to an error in the user's units.
fn refused(refusal: Refusal, model: &Model<'_>, wish: Wish) -> Error {
    match refusal {
        Refusal::Pipeline(error) => error.into(),
        Refusal::Slow { nanos, needs, smallest, .. } => Error::Slow {
            limit: wish.limit.map(|limit| limit.0),
            slowdown: wish.slowdown,
            takes: memc_plan::slowdown(nanos, model.options.total_nanos(model.module)),
            needs: needs.0,
            smallest: smallest.map(|smallest| smallest.0),
        },
    }
}

/// Number of plans of the front that a refused time shows.
const SHOWN: u32 = 5;

/// Returns the plan of fewest bytes within a time, or the refusal with the front of memory and time.
/// `is_asked` says that the request states the limit, and not the capacity of the space alone.
fn in_time(
    model: &Model<'_>,
    limit: Option<Bytes>,
    slo: Slo,
    is_asked: bool,
    tell: &mut dyn FnMut(&Entry),
) -> Result<Found, Error> {
    let longest = slo.0.0 as u64;
    let missed = match in_time::within(model, limit, longest, tell) {
        Ok(found) => return Ok(found),
        Err(missed) => missed,
    };
    let fastest = match missed {
        Missed::Late(fastest) => fastest,
        Missed::Refused(refusal) => return Err(refused(refusal, model, Wish { limit, slowdown: 0 })),
    };
    let (base, points) = sweep(model, SHOWN)?;
    let mut front: Vec<(u64, u64)> =
        points.iter().map(|point| (point.arena, base.saturating_add(point.extra_ns))).collect();
    front.dedup();
    let limit = limit.filter(|_| is_asked);
    let smallest = match limit {
        Some(_) => in_time::within(model, None, longest, &mut |_| {}).ok().map(|found| found.score.bytes.0),
        None => None,
    };
    Err(SloError { slo: longest, limit: limit.map(|limit| limit.0), fastest, smallest, front }.into())
}

/// Plans `count` limits, evenly from the smallest reachable one to the need of the plan without a limit.
///
/// Along the curve, arenas never grow and times never shrink: a plan that fits the next smaller limit is
/// kept there, and a plan of a smaller limit that takes no more time replaces the plan of a larger one. The
/// first result is the time of the plan without a limit, in nanoseconds.
fn sweep(model: &Model<'_>, count: u32) -> Result<(u64, Vec<ParetoPoint>), Error> {
    let count = u64::from(count);
    if count == 0 {
        return Ok((0, Vec::new()));
    }
    let find = |limit: Option<Bytes>| {
        memc_plan::plan(model, Wish { limit, slowdown: 0 }, &Tuning::default(), &mut |_| {})
    };
    let none = |refusal| refused(refusal, model, Wish { limit: None, slowdown: 0 });
    let free = find(None).map_err(none)?;
    let (whole, base) = (free.score.bytes.0, free.score.nanos);
    let floor = match find(Some(Bytes(0))) {
        Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(short)))) => short.least.0.min(whole),
        other => other.map(|_| 0).map_err(none)?,
    };
    let mut last = ParetoPoint { budget: whole, arena: whole, extra_ns: 0, bound: Some(0) };
    let mut points = vec![last];
    for step in 1..count {
        let budget = whole - ((u128::from(whole - floor) * u128::from(step)) / u128::from(count - 1)) as u64;
        if last.arena > budget {
            let found = match find(Some(Bytes(budget))) {
                Ok(found) => found,
                // One search may miss a plan that another search found: the curve ends here.
                Err(Refusal::Pipeline(PipelineError::Pass(PassError::Budget(_)))) => break,
                Err(other) => return Err(none(other)),
            };
            let bound = found
                .planned
                .budgeted()
                .map(|budgeted| budgeted.lower_bound.saturating_sub(budgeted.base_cost));
            let (arena, extra_ns) = (found.score.bytes.0, found.score.nanos.saturating_sub(base));
            last = ParetoPoint { budget, arena, extra_ns, bound };
        }
        points.push(ParetoPoint { budget, ..last });
    }
    for index in (1..points.len()).rev() {
        let (smaller, larger) = (points[index], &mut points[index - 1]);
        if smaller.extra_ns <= larger.extra_ns {
            *larger = ParetoPoint { budget: larger.budget, bound: larger.bound, ..smaller };
        }
    }
    Ok((base, points))
}
