//! Forms of the model: what pipelines make of it before a plan, each made once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memc_ir::{Bytes, ConstData, ConstOrigin};
use memc_passes::{PipelineError, Settings, Transform, Turn};

use crate::model::{Form, Model, locked};
use crate::split;
use crate::whole::{CLEAN, REGIONS, REWRITE};

/// Forms of one model by the pipelines that make them. Threads may ask side by side.
pub(crate) struct Forms<'m> {
    pub(crate) model: &'m Model<'m>,
    known: Mutex<BTreeMap<String, Arc<Form<'m>>>>,
}

impl<'m> Forms<'m> {
    /// Creates the forms of a model; none is made yet.
    pub(crate) fn of(model: &'m Model<'m>) -> Self {
        Self { model, known: Mutex::default() }
    }

    /// Runs passes on a form, or returns the cached result of an equal run.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn then(
        &self,
        from: &Form<'m>,
        passes: &str,
        settings: &Settings,
    ) -> Result<Arc<Form<'m>>, PipelineError> {
        let key = format!("{} {passes} {settings}", from.trace());
        if let Some(known) = locked(&self.known).get(&key) {
            return Ok(known.clone());
        }
        let made = Arc::new(from.then(passes, settings)?);
        locked(&self.known).insert(key, made.clone());
        Ok(made)
    }

    /// Returns the model after the preparing passes, which never raise the peak.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn prepared(&self, settings: &Settings) -> Result<Arc<Form<'m>>, PipelineError> {
        let passes =
            format!("{CLEAN}{}", self.model.transforms().passes_at(Turn::Prepared, self.model.module));
        self.then(&Form::given(self.model), &passes, &settings.only(&["limit", "parts"]))
    }

    /// Returns the model after the transforms of each form, without cleaning, which may write a fixed batch
    /// into constants.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn uncleaned(&self, settings: &Settings) -> Result<Arc<Form<'m>>, PipelineError> {
        let passes = self.model.transforms().passes_at(Turn::Prepared, self.model.module);
        self.then(&Form::given(self.model), &passes, &settings.only(&["limit", "parts"]))
    }

    /// Returns the transforms of a turn that are of use for the model.
    pub(crate) fn transforms(&self, turn: Turn) -> Vec<&'static Transform> {
        self.model.transforms().at(turn, self.model.module)
    }

    /// Returns a form after the transforms that come last; nodes that exceed `limit` by themselves stay as
    /// they are.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn laid_out(
        &self,
        form: Arc<Form<'m>>,
        limit: Option<Bytes>,
    ) -> Result<Arc<Form<'m>>, PipelineError> {
        let passes = self.model.transforms().passes_at(Turn::Laid, self.model.module);
        if passes.is_empty() {
            return Ok(form);
        }
        self.then(&form, &passes, &Settings { alone: limit, ..Settings::default() })
    }

    /// Returns the rewritten form, or `None` if rules change nothing.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn rewritten(
        &self,
        prepared: &Form<'m>,
        settings: &Settings,
    ) -> Result<Option<Arc<Form<'m>>>, PipelineError> {
        let form = self.then(prepared, REWRITE, &settings.only(&["limit", "slowdown", "weights"]))?;
        Ok(Some(form).filter(|form| form.ctx.said.claims.has_rewritten()))
    }

    /// Returns the rewritten form. If rewriting computes new weights, also returns the form that leaves
    /// weights unchanged: each choice of rules may save bytes that the other cannot.
    pub(crate) fn all_rewritten(
        &self,
        prepared: &Form<'m>,
        settings: &Settings,
    ) -> Result<Vec<Arc<Form<'m>>>, PipelineError> {
        let Some(form) = self.rewritten(prepared, settings)? else { return Ok(Vec::new()) };
        let makes_weights = makes_weights(&form);
        let mut forms = vec![form];
        if makes_weights {
            forms.extend(self.rewritten(prepared, &Settings { whole_weights: true, ..settings.clone() })?);
        }
        Ok(forms)
    }

    /// Returns a form with regions split into parts, or `None` if no region is worth splitting.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn divided(
        &self,
        form: &Form<'m>,
        settings: &Settings,
    ) -> Result<Option<Arc<Form<'m>>>, PipelineError> {
        let divided = form.then(REGIONS, settings)?;
        Ok(split::is_split(&divided.module).then(|| Arc::new(divided)))
    }
}

/// Returns whether a form has large constants that were computed from weights.
fn makes_weights(form: &Form<'_>) -> bool {
    let (module, most) = (&form.module, form.ctx.options.max_fold_bytes);
    let constants =
        module.graph(module.main()).constants.iter().filter_map(|value| module.constant_of(*value));
    let is_made = |constant: &ConstData| {
        constant.origin == ConstOrigin::New && constant.ty.size().is_some_and(|size| size > most)
    };
    constants.into_iter().any(|constant| is_made(module.constant(constant)))
}
