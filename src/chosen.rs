//! The plan of a model under its options, limits included.

use memc_ir::{Bytes, Diagnostic, Module, Severity, Stage};
use memc_layout::ParetoPoint;
use memc_onnx_proto::ModelFile;
use memc_passes::answers::Answers;
use memc_passes::portfolio::planned_peak;
use memc_passes::{Observer, PassContext, PassError, Pipeline, PipelineError, Planned, Silent};

use crate::baseline::baseline;
use crate::budget::{Budgets, Known, room};
use crate::error::Error;
use crate::external::ExternalFiles;
use crate::options::OptimizeOptions;

/// A model to plan.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) given: &'a Module,
    pub(crate) data: &'a Known,
    pub(crate) external: &'a ExternalFiles,
}

/// A plan, and what else was found on the way.
pub(crate) struct Chosen {
    pub(crate) planned: Planned,
    /// Other budgets and what they take, where they were asked for.
    pub(crate) pareto: Vec<ParetoPoint>,
    /// What was not done of what was asked.
    pub(crate) remark: Option<Diagnostic>,
}

/// The model as its file has it, in its order, with nothing but places decided.
const AS_GIVEN: &str = "view,in-place,place";

impl Source<'_> {
    /// The plan of these options; never one that needs more than the file's order, unless an option names what takes the memory. Even what always
    /// helps may not: a result that lost its reader lives longer where the runtime keeps unread results to the end.
    ///
    /// # Errors
    /// A pass fails, or no plan keeps the limits.
    pub(crate) fn plan(&self, options: &OptimizeOptions, observer: &mut dyn Observer) -> Result<Chosen, Error> {
        let chosen = self.plan_on_useful_kernels(options, observer)?;
        let rewrite = &options.plan.rewrite;
        let is_named = options.passes.is_some() || rewrite.nchwc.is_some() || rewrite.micro_batches.is_some();
        let needs = |planned: &Planned| planned_peak(&planned.module, &options.plan);
        if is_named || needs(&chosen.planned) <= self.whole(&chosen.planned.module, options)? {
            return Ok(chosen);
        }
        let ctx = PassContext::new(&options.plan, self.data.clone(), self.given);
        let given = own_pipeline(self.given, AS_GIVEN, ctx, options, &mut Silent)?;
        let arena = |planned: &Planned| planned.module.plan.arenas.first().map(|arena| arena.size);
        let is_less = needs(&given) < needs(&chosen.planned) && arena(&given) <= arena(&chosen.planned);
        Ok(if is_less { Chosen { planned: given, ..chosen } } else { chosen })
    }

    /// The plan of these options. Integer kernels are for less memory: where they take more, or leave no plan, none are used.
    fn plan_on_useful_kernels(&self, options: &OptimizeOptions, observer: &mut dyn Observer) -> Result<Chosen, Error> {
        let chosen = self.plan_as_asked(options, observer);
        if !options.plan.rewrite.integer_kernels {
            return chosen;
        }
        let (peak, limit) = match &chosen {
            Ok(chosen) => (planned_peak(&chosen.planned.module, &options.plan), self.whole(&chosen.planned.module, options)?),
            Err(Error::Slow { .. } | Error::Pipeline(PipelineError::Pass(PassError::Budget(_)))) => (Bytes(u64::MAX), Bytes(0)),
            Err(_) => return chosen,
        };
        if peak <= limit {
            return chosen;
        }
        let mut without = options.clone();
        without.plan.rewrite.integer_kernels = false;
        match self.plan_as_asked(&without, &mut Silent) {
            Ok(other) if planned_peak(&other.planned.module, &options.plan) < peak => {
                let message = "integer kernels would raise the peak, so none are used";
                let help = "nothing to do: `--integer-kernels` is for less memory";
                let remark = Diagnostic::new("W0307", Severity::Remark, message).with_help(help);
                Ok(Chosen { remark: Some(remark), ..other })
            }
            _ => chosen,
        }
    }

    fn plan_as_asked(&self, options: &OptimizeOptions, observer: &mut dyn Observer) -> Result<Chosen, Error> {
        // A budget tells rewriting what need not become smaller.
        let hint = room(options, self.whole(self.given, options)?)?;
        let own = memc_passes::Options { budget: hint, ..options.plan.clone() };
        let answers = Answers::default();
        let fresh = |module: &Module| PassContext {
            external: Some(self.external),
            answers: answers.clone(),
            ..PassContext::new(&own, self.data.clone(), module)
        };
        if let Some(text) = &options.passes {
            let planned = own_pipeline(self.given, text, fresh(self.given), options, observer)?;
            return Ok(Chosen { planned, pareto: Vec::new(), remark: None });
        }
        let planned = memc_passes::plan(self.given, fresh, options.verify, observer)?;
        let limit = room(options, self.whole(&planned.module, options)?)?;
        let budgets = Budgets { given: self.given, options, data: self.data, external: self.external, answers: answers.clone() };
        let free = budgets.or_plainer(planned, limit)?;
        let pareto = budgets.sweep(&free)?;
        Ok(Chosen { planned: budgets.kept(free, limit, observer)?, pareto, remark: None })
    }

    /// Peak of the file's order, where what a plan made constant does not count: what per cents are of.
    fn whole(&self, planned: &Module, options: &OptimizeOptions) -> Result<Bytes, Error> {
        Ok(baseline(self.file, self.given, planned, options)?.own_peak)
    }
}

fn own_pipeline(
    given: &Module,
    text: &str,
    mut ctx: PassContext<'_>,
    options: &OptimizeOptions,
    observer: &mut dyn Observer,
) -> Result<Planned, Error> {
    let mut module = given.clone();
    Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, options.verify, observer)?;
    if module.stage < Stage::Planned {
        return Err(Error::Unplanned { passes: text.to_owned() });
    }
    Ok(Planned::of(module, ctx))
}
