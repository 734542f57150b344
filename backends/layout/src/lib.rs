//! The layout file memc.layout/1: its types, its schema, and conversions for other tools.
//!
//! A layout states the place of every tensor of a planned model: space, offset and live range. A reader
//! can run the model inside the arenas, or check the plan without trusting its writer.
//!
//! - [`Layout`] and its parts correspond one to one to the file's keys. [`read`] and [`to_json`]
//!   convert between text and types.
//! - [`schema()`] is the JSON schema of the file, for readers in other languages.
//! - [`to_c_header`], [`to_rust`], [`to_minimalloc_csv`] and [`to_onnx2c_csv`] convert the plan for
//!   firmware and for other planners.
//! - [`Placement`] computes sizes and offsets of a plan for ranges of dimensions at given extents.
//! - [`devices`] has the manifest of a model that is divided over devices.
//! - [`joint`] has the file of several models in one memory.
//! - [`LiveCurve`] derives from the layout alone the bytes live at each step, and their owners.

mod added;
mod c_extents;
mod c_header;
pub mod devices;
mod engines;
mod expr;
mod extents;
mod far;
mod fetches;
mod formula;
mod identifiers;
pub mod joint;
mod json;
mod live_curve;
mod minimalloc;
mod onnx2c;
mod placement;
mod published;
mod ranges;
#[cfg(test)]
mod roles;
mod rust_constants;
mod rust_extents;
mod schema;
mod searches;
mod steps;
mod types;

pub use added::{AddedNode, AddedOutput, Attribute, LastRow};
pub use c_header::{CIdentifiers, c_identifiers, to_c_header};
pub use engines::Sync;
pub use expr::Expr;
pub use fetches::{Fetch, FetchedPart, FetchedRows};
pub use formula::formula;
pub use json::{ReadError, WriteError, read, to_json};
pub use live_curve::{LiveCurve, Owner, SpaceCurve};
pub use minimalloc::to_minimalloc_csv;
pub use onnx2c::to_onnx2c_csv;
pub use placement::{Placement, PlacementError, Rule};
pub use ranges::{Extents, FormulaRow, Limit};
pub use rust_constants::to_rust;
pub use schema::{SCHEMA_ID, schema};
pub use searches::{ParetoPoint, Solver, Trace};
pub use types::{
    Alias, AliasKind, Arena, Baseline, Bucket, Busy, Cache, Class, Cost, EncodedWeight, Encoding, Io, Layout,
    Link, LiveRange, LowerBound, Model, OpsetImport, Peak, Rewrite, RewrittenValue, ScheduledNode, Space,
    StateUpdate, Stated, StatedBy, Subgraph, Target, Tensor, Transfer, Unpaired, Unplanned, VERSION,
};
