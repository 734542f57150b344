//! A memory compiler for ONNX: it finds an order, in-place writes and an offset for every tensor, so that a model runs in
//! one arena of known size, and writes a model that computes the same with the layout of that arena beside it.
//!
//! ```no_run
//! use memc::{OptimizeOptions, Silent, optimize};
//!
//! let file = memc::proto::ModelFile::open("in.onnx").map_err(memc::Error::from)?;
//! let optimized = optimize(&file, &OptimizeOptions::default(), &mut Silent)?;
//! println!("arena: {} bytes", optimized.layout.arenas[0].size);
//! # Ok::<(), memc::Error>(())
//! ```

mod anchor;
mod baseline;
mod error;
mod external;
mod layout;
mod limits;
mod link;
mod optimize;
mod options;
mod planning;
mod state;

pub use memc_check as check;
pub use memc_cost as cost;
pub use memc_ir as ir;
pub use memc_layout as layout_file;
pub use memc_onnx_import as import;
pub use memc_onnx_proto as proto;
pub use memc_ops as ops;
#[cfg(feature = "ort")]
pub use memc_ort as play;
pub use memc_passes as passes;
pub use memc_plan as plan;
pub use memc_report as report;
pub use memc_solve as solve;

pub use error::Error;
pub use link::{LinkError, LinkOption};
pub use memc_onnx_export::sha256;
pub use memc_passes::Silent;
pub use optimize::{Optimized, optimize, optimize_aloud};
pub use options::{OptimizeOptions, Size, SizeError};
