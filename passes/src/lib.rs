//! Passes, pipelines and analyses over the intermediate representation.
//!
//! A pass is one file, one page in `doc/`, one folder of file tests, and one line in the planner's
//! registry. It is a function of a module, the options and the settings of one run. It declares the
//! stages it needs and gives, and reports whether it changed the module. The planner decides which
//! passes run and with which settings.

pub mod analysis;
pub mod buffer;
pub mod cache;
pub mod canonicalize;
pub mod claims;
pub mod cse;
pub mod dce;
pub mod direct;
pub mod encode;
pub mod encode_weights;
pub mod engines;
pub mod fold;
pub mod in_place;
mod inline;
pub mod last_token;
pub mod mask_blocks;
pub mod memo;
pub mod micro_batch;
pub mod nchwc;
pub mod options;
pub mod parallel;
pub mod parts;
pub mod pass;
pub mod pipeline;
pub mod place;
mod placement;
pub mod rows;
pub mod schedule;
pub mod settings;
pub mod settle;
mod slices;
pub mod threads;
pub mod tie;
pub mod transform;
pub mod tuning;
pub mod view;
pub mod weight_parts;
pub mod window;

pub use claims::{Claim, Claims, Encoded, EncodedWeight, LastRow, NewOutput, StatedNode, WeightErrors};
pub use memc_rewrite::Replaced;
pub use memo::Memo;
pub use options::{Encoding, Io, Lossy, Options, Rewriting, StateNames, WeightCode};
pub use pass::{
    Budgeted, Changed, ExternalData, PassContext, PassError, PassInfo, Said, Shortage, SolverReport,
    StepBytes,
};
pub use pipeline::{Observer, PassStep, Pipeline, PipelineError, Silent};
pub use settings::{Seek, SettingError, Settings};
pub use transform::{LeaveOut, Transform, Turn};
