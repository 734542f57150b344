//! Pipelines: passes by name, run in order, each result verified and counted.

use memc_ir::{Diagnostic, Module, Stage};

use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::registry::find;

/// The pipeline of `memc optimize`.
pub const DEFAULT: &str = "fold,canonicalize,dce,cse,dce,view,window,schedule,in-place,place";
/// The same rules on the file's own order, with nothing rewritten: what a plan is measured against.
pub const FILE_ORDER: &str = "fold,dce,micro-batch,dce,view,in-place,place";
/// [`FILE_ORDER`] with other kernels, where those are asked for: what they need is not held against them.
pub const FILE_ORDER_ON_KERNELS: &str = "fold,canonicalize,dce,micro-batch,nchwc,dce,view,in-place,place";

/// Why a pipeline cannot run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The text names a pass that does not exist (the request's fault).
    #[error("there is no pass named `{name}`")]
    UnknownPass {
        /// The name given.
        name: String,
    },
    /// A pass stands before the one that makes what it needs (the request's fault).
    #[error("`{pass}` needs a {needs} module, and before it the module is only {has}")]
    Stage {
        /// The pass.
        pass: &'static str,
        /// Stage that it needs.
        needs: &'static str,
        /// Stage that is reached before it.
        has: &'static str,
    },
    /// A pass gave up.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A pass left a module that the verifier refuses (a defect of memc).
    #[error("the pass `{pass}` left a module that is wrong: {}", first(.violations))]
    Broken {
        /// The pass.
        pass: &'static str,
        /// What the verifier says.
        violations: Vec<Diagnostic>,
    },
}

fn first(violations: &[Diagnostic]) -> String {
    violations.first().map(|violation| violation.message.clone()).unwrap_or_default()
}

/// A list of passes whose stages fit.
#[derive(Clone, Debug)]
pub struct Pipeline {
    passes: Vec<&'static PassInfo>,
}

/// Sees the module around each pass: prints, dumps, measures, or stops.
pub trait Observer {
    /// Before a pass.
    fn before(&mut self, _pass: &'static PassInfo, _module: &Module) {}
    /// After a pass.
    fn after(&mut self, _pass: &'static PassInfo, _module: &Module, _changed: Changed) {}
}

/// An observer that looks away.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {}

impl Pipeline {
    /// Parses `fold,cse,dce`; spaces around names are ignored. `stage` is what the module has when it comes in.
    ///
    /// # Errors
    /// An unknown name, or a pass whose stage is not reached.
    pub fn parse(text: &str, stage: Stage) -> Result<Self, PipelineError> {
        let mut passes = Vec::new();
        let mut reached = stage;
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let info = find(name).ok_or_else(|| PipelineError::UnknownPass { name: name.to_owned() })?;
            // Passes that need an order take the module's own order when no pass has set one.
            if info.needs > reached && info.needs > Stage::Scheduled {
                return Err(PipelineError::Stage { pass: info.name, needs: info.needs.name(), has: reached.name() });
            }
            reached = reached.max(info.gives);
            passes.push(info);
        }
        Ok(Self { passes })
    }

    /// The passes, in order.
    pub fn passes(&self) -> &[&'static PassInfo] {
        &self.passes
    }

    /// Runs all passes. With `verify`, the module is verified after each.
    ///
    /// # Errors
    /// The first pass that gives up or breaks the module.
    pub fn run(
        &self,
        module: &mut Module,
        ctx: &mut PassContext<'_>,
        verify: bool,
        observer: &mut dyn Observer,
    ) -> Result<Changed, PipelineError> {
        let mut edits = 0;
        for pass in &self.passes {
            if pass.needs == Stage::Scheduled && module.stage < Stage::Scheduled {
                module.stage = Stage::Scheduled;
            }
            observer.before(pass, module);
            let changed = (pass.run)(module, ctx)?;
            if verify {
                memc_ir::verify::verify(module, module.stage)
                    .map_err(|violations| PipelineError::Broken { pass: pass.name, violations })?;
            }
            observer.after(pass, module, changed);
            if let Changed::Yes(count) = changed {
                edits += count;
            }
        }
        Ok(Changed::edits(edits))
    }
}
