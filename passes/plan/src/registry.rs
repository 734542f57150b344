//! All passes in one sorted list: passes that follow their settings, and passes that search.

use memc_ir::Stage;
use memc_passes::{PassInfo, Pipeline, PipelineError, Transform};

/// All passes, sorted by name.
pub const REGISTRY: &[&PassInfo] = &[
    &crate::budget::INFO,
    &memc_passes::cache::INFO,
    &memc_passes::canonicalize::INFO,
    &memc_passes::cse::INFO,
    &memc_passes::dce::INFO,
    &memc_passes::direct::INFO,
    &memc_passes::encode_weights::INFO,
    &memc_passes::engines::INFO,
    &memc_passes::fold::INFO,
    &memc_passes::in_place::INFO,
    &memc_passes::last_token::INFO,
    &memc_passes::mask_blocks::INFO,
    &memc_passes::micro_batch::INFO,
    &memc_passes::nchwc::INFO,
    &memc_passes::place::INFO,
    &crate::budget::near::INFO,
    &crate::rewrite::INFO,
    &memc_passes::rows::INFO,
    &crate::scan::INFO,
    &memc_passes::schedule::INFO,
    &memc_passes::settle::INFO,
    &crate::split::INFO,
    &memc_passes::tie::INFO,
    &memc_passes::view::INFO,
    &memc_passes::weight_parts::INFO,
    &memc_passes::window::INFO,
];

/// Parses a pipeline over all passes and those of the caller's `own` transforms; see [`Pipeline::parse`].
///
/// # Errors
/// As [`Pipeline::parse`].
pub fn parse(text: &str, stage: Stage, own: &[&'static Transform]) -> Result<Pipeline, PipelineError> {
    let own = own.iter().map(|transform| transform.pass);
    Pipeline::parse(text, stage, &REGISTRY.iter().copied().chain(own).collect::<Vec<_>>())
}

/// Returns the pass with this name.
pub fn find(name: &str) -> Option<&'static PassInfo> {
    REGISTRY.iter().find(|info| info.name == name).copied()
}
