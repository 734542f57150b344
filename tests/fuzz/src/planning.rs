//! Plans modules and checks the plans with the verifier.

use memc::memc_ir::{Bytes, Diagnostic, Module, Stage, text, verify};
use memc::memc_ops::{Inference, Profile, infer};
use memc::memc_passes::{
    Io, Memo, Options, PassContext, PassError, Pipeline, PipelineError, Settings, Silent,
};
use memc::memc_plan::registry::REGISTRY;
use memc::memc_plan::{Model, Refusal, Tuning, Wish, plan};

use crate::Choices;
use crate::text::round_trip;

/// Effort of each exact solver, in search nodes.
pub const EFFORT: u64 = 60;

/// Number of variants of [`options`].
pub const VARIANTS: usize = 6;

/// Returns options of planning, varied by a number.
pub fn options(variant: usize) -> Options {
    let profile = Profile::ALL[variant % Profile::ALL.len()];
    let io = [Io::Outputs, Io::Arena, Io::External][variant / Profile::ALL.len() % 3];
    Options { io, effort: EFFORT, ..Options::for_profile(profile) }
}

/// Infers types and plans the module. Skips modules that inference makes invalid.
pub fn infer_and_plan(mut module: Module) {
    let inference = infer(&mut module);
    module.stage = module.stage.max(Stage::Typed);
    if verify(&module, Stage::Planned).is_ok() {
        planned(&module, inference, &options(module.nodes().len()));
    }
}

/// Plans a valid typed module. `None` if its sizes exceed the addressable range.
pub fn planned(module: &Module, inference: Inference, options: &Options) -> Option<Module> {
    let model = Model {
        module,
        data: &inference.data,
        external: None,
        options,
        transforms: &[],
        verify: true,
        memo: Memo::default(),
    };
    let wish = Wish { limit: None, slowdown: 0 };
    let planned = match plan(&model, wish, &Tuning::default(), &mut |_| {}) {
        Ok(found) => found.planned.module,
        Err(Refusal::Pipeline(error)) => {
            refused(error, module);
            return None;
        }
        Err(error) => panic!("{error}\n{}", text::print(module)),
    };
    assert_eq!(planned.stage, Stage::Planned);
    holds(&planned, Stage::Planned);
    round_trip(&planned);
    Some(planned)
}

/// Passes that search.
#[derive(Clone, Copy)]
pub enum Searching {
    /// Recomputes values within a limit.
    Budget,
    /// Splits regions into parts.
    Split,
    /// Replaces fragments by equal forms.
    Rewrite,
}

/// Runs a searching pass on a valid typed module, with settings from the bytes, and places the result.
/// The verifier checks every module in between.
pub fn searched(mut module: Module, inference: Inference, pass: Searching, choices: &mut Choices<'_>) {
    let options = options(choices.below(VARIANTS));
    let limit = match choices.below(3) {
        0 => None,
        _ => Some(Bytes(choices.number())),
    };
    let settings = Settings {
        limit,
        slowdown: choices.below(3000) as u32,
        alone: choices.once_in(3).then(|| Bytes(choices.number())),
        ..Settings::default()
    };
    let passes = match pass {
        Searching::Budget => "fold,dce,view,window,schedule,budget,in-place,place",
        Searching::Split => "fold,dce,split,dce,view,window,schedule,in-place,place",
        Searching::Rewrite => "fold,dce,rewrite,fold,canonicalize,dce,view,window,schedule,in-place,place",
    };
    let mut ctx = PassContext::new(&options, inference.data);
    let before = text::print(&module);
    let pipeline = Pipeline::parse(passes, module.stage, REGISTRY).map(|pipeline| pipeline.with(&settings));
    let run = |pipeline: Pipeline| pipeline.run(&mut module, &mut ctx, true, &mut Silent);
    match pipeline.and_then(run) {
        Err(PipelineError::Pass(PassError::Budget(short))) => {
            assert!(limit.is_some_and(|limit| limit < short.least), "{short:?}")
        }
        Err(PipelineError::Broken { pass, violations }) => {
            panic!("`{pass}` broke it:\n{}{before}", show(&violations))
        }
        Err(PipelineError::Pass(PassError::TooLarge { .. })) => {}
        Err(error) => panic!("{error}\n{before}"),
        Ok(_) => {
            holds(&module, Stage::Planned);
            round_trip(&module);
        }
    }
}

/// Accepts errors about sizes beyond the addressable range, and panics on all others.
fn refused(error: PipelineError, module: &Module) {
    match error {
        PipelineError::Pass(PassError::TooLarge { .. }) => {}
        PipelineError::Defect { trace, error } => panic!("{error}\n{trace}\n{}", text::print(module)),
        error => panic!("{error}\n{}", text::print(module)),
    }
}

/// Checks that the verifier accepts a module.
pub fn holds(module: &Module, stage: Stage) {
    if let Err(violations) = verify(module, stage) {
        panic!("not {}:\n{}{}", stage.name(), show(&violations), text::print(module));
    }
}

/// Formats diagnostics, one a line.
pub fn show(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}
