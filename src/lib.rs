//! A memory compiler for ONNX. It chooses the order of a model's operators, in-place writes,
//! recomputation, transfers and an offset for every tensor, so that the model runs in one arena of known
//! size. It writes a model with equal results, and the layout of the arena.
//!
//! ```standalone_crate
//! use memc::{Model, Request, Size};
//!
//! # std::env::set_current_dir(env!("CARGO_MANIFEST_DIR"))?;
//! let model = Model::open("examples/models/mlp_step.onnx")?;
//! let planned = memc::plan(&model, &Request::new().budget(Size::Percent(80.0)))?;
//! # std::env::set_current_dir(std::env::temp_dir())?;
//! planned.write_model("planned.onnx")?;
//! planned.write_layout("planned.layout.json")?;
//! println!("arena: {} B", planned.arena());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Request`] holds every option, [`Planned`] the answer. The crates behind them are re-exported under
//! their own names.

// The command names items as any user of the library does.
#[cfg(feature = "cli")]
extern crate self as memc;

mod anchor;
mod bake;
mod baseline;
mod buckets;
mod caches;
#[cfg(feature = "cli")]
pub mod cli;
mod device;
mod encoded_weights;
mod error;
mod extent;
mod external;
mod fit;
mod fit_error;
mod gradient_error;
mod in_time;
mod interface;
mod largest;
mod layout;
mod limits;
mod link;
mod need;
mod outputs;
mod outside;
mod panics;
mod plain;
mod plan;
mod planned;
mod planning;
mod request;
mod request_error;
mod sections;
mod session;
mod share;
mod share_error;
mod size;
mod slo;
mod slo_error;
mod split_error;
mod state;
mod train;

#[cfg(feature = "ort")]
pub use memc_ort;
pub use {
    memc_check, memc_cost, memc_edit, memc_gradient, memc_ir, memc_layout, memc_onnx_export,
    memc_onnx_import, memc_onnx_proto, memc_ops, memc_passes, memc_plan, memc_report, memc_solve,
};

pub use bake::{Baked, TrainedValue, bake};
pub use error::Error;
pub use extent::{Extent, ExtentError};
pub use external::Weights;
pub use fit::{Fitted, Fitting, Growing, fit};
pub use fit_error::FitError;
pub use link::{LinkError, LinkOption};
pub use memc_cost::Target;
pub use memc_gradient::{Clip, Emitted, Lora, Loss, LossKind, Norms, Optimizer, StepOptions};
pub use memc_ir::nearest;
pub use memc_onnx_export::sha256;
pub use memc_onnx_proto::ModelFile as Model;
pub use memc_ops::Assumption;
pub use memc_passes::{Encoding, Io, Lossy, Observer, Rewriting, Silent, StateNames, WeightCode};
pub use memc_plan::Entry;
pub use memc_solve::Stop;
pub use need::Need;
pub use outputs::{Outputs, read, remove_partial_files};
pub use outside::{ExternalData, ExternalDataError};
pub use panics::{caught, watch as watch_panics};
pub use plain::PlainForm;
pub use plan::{plan, plan_watched};
pub use planned::{LAYOUTS, Planned, REPORTS, known_extension};
pub use request::{Budget, Measurements, Request, Runtime, ScratchFile};
pub use request_error::RequestError;
pub use sections::{
    Devices, Path as DevicePath, PathError, Sections, check_manifest, read_manifest, section_files, split,
};
pub use session::{session_needs, session_program, session_recipe};
pub use share::{
    AtOnce, HandoffNames, Pair as SharePair, Sequence, ShareMember, SpaceUse, Table as ShareTable,
    Use as ShareUse, check_joint, complete as complete_joint, joint_files, member_bases,
    nested as share_nested, phased as share_phased, read_joint, serial as share_serial, table as share_table,
};
pub use share_error::ShareError;
pub use size::{Size, SizeError};
pub use slo::{Slo, SloTextError};
pub use slo_error::SloError;
pub use split_error::SplitError;
pub use train::{Trained, Training, train};
