//! Pipelines: passes by name with their settings, run in order, each result verified and counted.

use std::fmt;

use memc_ir::{Diagnostic, Module, Stage};

use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::settings::{SettingError, Settings};

/// Why a pipeline cannot run, or why it stopped.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The text names a pass that does not exist (the request's fault).
    #[error("there is no pass named `{name}`")]
    UnknownPass {
        /// The unknown name.
        name: String,
    },
    /// The text of a pass's settings cannot be read (the request's fault).
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The text sets a setting that the pass does not read (the request's fault).
    #[error("`{pass}` has no setting `{name}`; it reads {}", if reads.is_empty() { "none".to_owned() } else { reads.join(", ") })]
    Unread {
        /// Name of the pass.
        pass: &'static str,
        /// Name of the setting.
        name: String,
        /// Names of the settings that the pass reads.
        reads: &'static [&'static str],
    },
    /// A pass comes before the pass that reaches its required stage (the request's fault).
    #[error("`{pass}` needs a {needs} module, but the module before it is only {has}")]
    Stage {
        /// Name of the pass.
        pass: &'static str,
        /// Stage that the pass needs.
        needs: &'static str,
        /// Stage reached before the pass.
        has: &'static str,
    },
    /// A pass gave up.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A pass left a module that the verifier refuses (a defect of memc).
    #[error("the pass `{pass}` left an invalid module: {}", first(.violations))]
    Broken {
        /// Name of the pass.
        pass: &'static str,
        /// The verifier's findings.
        violations: Vec<Diagnostic>,
    },
    /// A defect of memc, with a pipeline that reproduces it.
    #[error("{error}")]
    Defect {
        /// Text of the pipeline.
        trace: String,
        /// The underlying error.
        error: Box<PipelineError>,
    },
}

impl PipelineError {
    /// Adds the reproducing pipeline to errors that are defects of memc; returns other errors unchanged.
    #[must_use]
    pub fn traced(self, trace: impl FnOnce() -> String) -> Self {
        match self {
            Self::Broken { .. } | Self::Pass(PassError::WrongAnswer { .. } | PassError::Rules { .. }) => {
                Self::Defect { trace: trace(), error: Box::new(self) }
            }
            other => other,
        }
    }
}

fn first(violations: &[Diagnostic]) -> String {
    violations.first().map(|violation| violation.message.clone()).unwrap_or_default()
}

/// Passes whose stages fit together, each with its settings.
#[derive(Clone, Debug)]
pub struct Pipeline {
    steps: Vec<PassStep>,
}

/// One run of a pass.
#[derive(Clone, Debug)]
pub struct PassStep {
    /// Description of the pass.
    pub pass: &'static PassInfo,
    /// Settings of this run.
    pub settings: Settings,
}

/// Prints the step in pipeline syntax: `budget[limit=4096,seek=soon]`.
impl fmt::Display for PassStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.settings.to_string() {
            text if text.is_empty() => f.write_str(self.pass.name),
            text => write!(f, "{}[{text}]", self.pass.name),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.steps.iter().map(PassStep::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

/// Observer of the module around each pass: prints, dumps, measures, or stops.
pub trait Observer {
    /// Whether the observer does anything.
    fn watches(&self) -> bool {
        true
    }
    /// Called before a pass.
    fn before(&mut self, _pass: &'static PassInfo, _module: &Module) {}
    /// Called after a pass.
    fn after(&mut self, _pass: &'static PassInfo, _module: &Module, _changed: Changed) {}
}

/// An observer that does nothing.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {
    fn watches(&self) -> bool {
        false
    }
}

impl Pipeline {
    /// Parses `fold,cse,schedule[effort=1000]` over the passes of `registry`. Spaces around names are
    /// ignored. `stage` is the stage of the incoming module.
    ///
    /// # Errors
    /// An unknown name, a setting that the pass does not read, or a pass whose required stage is not
    /// reached.
    pub fn parse(text: &str, stage: Stage, registry: &[&'static PassInfo]) -> Result<Self, PipelineError> {
        let mut steps = Vec::new();
        let mut reached = stage;
        for text in split(text) {
            let (name, settings) =
                text.strip_suffix(']').and_then(|text| text.split_once('[')).unwrap_or((text, ""));
            let pass = registry.iter().find(|pass| pass.name == name).copied();
            let pass = pass.ok_or_else(|| PipelineError::UnknownPass { name: name.to_owned() })?;
            // Without an ordering pass before them, passes that need an order use the module's own
            // order.
            if pass.needs > reached && pass.needs > Stage::Scheduled {
                return Err(PipelineError::Stage {
                    pass: pass.name,
                    needs: pass.needs.name(),
                    has: reached.name(),
                });
            }
            reached = reached.max(pass.gives);
            steps.push(PassStep { pass, settings: read(pass, settings)? });
        }
        Ok(Self { steps })
    }

    /// Adds these settings to every pass that reads them; a setting in a pass's own text wins.
    #[must_use]
    pub fn with(mut self, settings: &Settings) -> Self {
        for step in &mut self.steps {
            let own = std::mem::replace(&mut step.settings, settings.only(step.pass.reads));
            step.settings.take(&own);
        }
        self
    }

    /// Returns the runs of passes, in order.
    pub fn steps(&self) -> &[PassStep] {
        &self.steps
    }

    /// Runs all passes. With `verify`, verifies the module after each pass.
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
        for PassStep { pass, settings } in &self.steps {
            if pass.needs == Stage::Scheduled && module.stage < Stage::Scheduled {
                module.stage = Stage::Scheduled;
            }
            ctx.settings.clone_from(settings);
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

/// Splits a pipeline into the texts of its passes. A comma inside brackets belongs to the settings.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Parses the settings of a pass from the text between its brackets.
fn read(pass: &'static PassInfo, text: &str) -> Result<Settings, PipelineError> {
    let mut settings = Settings::default();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        settings.set(name, value)?;
        if !pass.reads.contains(&name) {
            return Err(PipelineError::Unread { pass: pass.name, name: name.to_owned(), reads: pass.reads });
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    const REGISTRY: &[&PassInfo] = &[
        &crate::dce::INFO,
        &crate::fold::INFO,
        &crate::in_place::INFO,
        &crate::micro_batch::INFO,
        &crate::place::INFO,
        &crate::schedule::INFO,
        &crate::window::INFO,
    ];

    fn parse(text: &str) -> Result<Pipeline, PipelineError> {
        Pipeline::parse(text, Stage::Typed, REGISTRY)
    }

    #[test]
    fn pipelines_print_as_they_are_written() {
        let text = "fold,window[windows=0.3],schedule[effort=5,below=100],in-place,place[limit=7]";
        assert_eq!(parse(text).unwrap().to_string(), text);
        assert_eq!(parse(" fold , dce ").unwrap().to_string(), "fold,dce");
    }

    #[test]
    fn given_settings_fill_only_open_settings_of_passes_that_read_them() {
        let settings = Settings { effort: Some(1), below: Some(2), parts: Some(3), ..Settings::default() };
        let pipeline = parse("micro-batch,dce,schedule[effort=9]").unwrap().with(&settings);
        assert_eq!(pipeline.to_string(), "micro-batch[parts=3],dce,schedule[effort=9,below=2]");
    }

    #[test]
    fn settings_that_a_pass_does_not_read_are_refused() {
        assert!(matches!(parse("dce[effort=1]"), Err(PipelineError::Unread { pass: "dce", .. })));
        assert!(matches!(parse("schedule[effort=much]"), Err(PipelineError::Setting(_))));
        assert!(matches!(parse("hurry"), Err(PipelineError::UnknownPass { .. })));
    }
}
