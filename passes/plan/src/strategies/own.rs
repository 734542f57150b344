//! Plans by pipelines of the caller, which compete with all other plans.

use memc_ir::Stage;
use memc_passes::{PassError, PipelineError};

use crate::model::Form;
use crate::search::Search;

/// Checks whether the caller gave pipelines.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.model.options.pipelines.is_empty() { Err("the caller gave no pipelines") } else { Ok(()) }
}

/// Runs each pipeline on the input model and offers its plan.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    for passes in &search.model.options.pipelines {
        match Form::given(search.model).then(passes, &search.settings()) {
            Ok(form) if form.module.stage == Stage::Planned => {
                search.offer_free(passes, form.planned());
            }
            Ok(_) | Err(PipelineError::Pass(PassError::Budget(_))) => search.nothing(passes),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
