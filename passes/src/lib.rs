//! Passes, pipelines and analyses over the intermediate representation.
//!
//! A pass is one file, one page in `doc/`, one folder of file tests, and one line in [`registry::REGISTRY`]. It declares the stage it
//! needs and gives, says honestly whether it changed anything, and never raises the peak without the pipeline noticing: [`portfolio::plan`]
//! keeps the best of several pipelines and never returns a plan that is worse than the file's own order.

pub mod analysis;
pub mod answers;
pub mod budget;
pub mod canonicalize;
pub mod cse;
pub mod dce;
pub mod fold;
pub mod in_place;
mod judge;
pub mod micro_batch;
pub mod nchwc;
pub mod options;
mod parts;
pub mod pass;
pub mod pipeline;
pub mod place;
pub mod portfolio;
pub mod registry;
pub mod rewrite;
pub mod schedule;
mod slices;
pub mod split;
pub mod tie;
pub mod view;
pub mod window;
mod window_search;
pub mod within;
mod worth;

pub use memc_rewrite::Replaced;
pub use options::{Io, Options, Rewriting, StateNames};
pub use pass::{Budgeted, Changed, ExternalData, PassContext, PassError, PassInfo, Seeks, Shortage, SolverReport, StepBytes};
pub use pipeline::{Observer, Pipeline, PipelineError, Silent};
pub use portfolio::{Planned, plan};
pub use within::{plan_in_regions, plan_in_regions_again, plan_within};
