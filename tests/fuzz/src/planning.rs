//! The default plan of a module, held to what the verifier says.

use memc::ir::{Diagnostic, Module, Stage, text, verify};
use memc::ops::{Inference, Profile, infer};
use memc::passes::{Io, Options, PassContext, PassError, PipelineError, Silent, plan};

use crate::text::round_trip;

/// Search nodes of each exact solver.
const EFFORT: u64 = 60;

/// How many variants of [`options`] there are.
pub const VARIANTS: usize = 6;

/// Options of planning, varied by a number.
pub fn options(variant: usize) -> Options {
    let profile = Profile::ALL[variant % Profile::ALL.len()];
    let io = [Io::Outputs, Io::Arena, Io::External][variant / Profile::ALL.len() % 3];
    Options { io, effort: EFFORT, ..Options::for_profile(profile) }
}

/// Derives types and plans; what inference makes unsound is refused.
pub fn infer_and_plan(mut module: Module) {
    let inference = infer(&mut module);
    module.stage = module.stage.max(Stage::Typed);
    if verify(&module, Stage::Planned).is_ok() {
        planned(&module, inference, &options(module.nodes().len()));
    }
}

/// Plans a sound typed module; `None` where its sizes are beyond what can be addressed.
pub fn planned(module: &Module, inference: Inference, options: &Options) -> Option<Module> {
    let fresh = |module: &Module| PassContext::new(options, inference.data.clone(), module);
    let planned = match plan(module, fresh, true, &mut Silent) {
        Ok(planned) => planned.module,
        Err(PipelineError::Pass(PassError::TooLarge { .. })) => return None,
        Err(PipelineError::Broken { pass, violations }) => {
            panic!("`{pass}` broke it:\n{}{}", show(&violations), text::print(module))
        }
        Err(error) => panic!("{error}\n{}", text::print(module)),
    };
    assert_eq!(planned.stage, Stage::Planned);
    holds(&planned, Stage::Planned);
    round_trip(&planned);
    Some(planned)
}

/// Holds that the verifier takes a module.
pub fn holds(module: &Module, stage: Stage) {
    if let Err(violations) = verify(module, stage) {
        panic!("not {}:\n{}{}", stage.name(), show(&violations), text::print(module));
    }
}

/// Diagnostics, one a line.
pub fn show(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}
