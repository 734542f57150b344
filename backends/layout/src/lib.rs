//! The layout file memc.layout/1: its types, schema, and the forms that other tools read.
//!
//! A layout says where every tensor of a planned model lies: which space, which offset, from which step to which. Whoever
//! reads it can run the model inside the arenas, or check the plan without trusting who wrote it.
//!
//! - [`Layout`] and its parts are the file's keys, one to one; [`read`] and [`to_json`] go between text and types.
//! - [`schema()`] is the JSON schema of the file, for readers in other languages.
//! - [`to_c_header`], [`to_rust`] and [`to_minimalloc_csv`] are the same plan in the forms that firmware and other planners read.
//! - [`LiveCurve`] derives, from the layout alone, how many bytes are live at each step and whose they are.

mod c_header;
mod identifiers;
mod json;
mod live_curve;
mod minimalloc;
mod rust_constants;
mod schema;
mod steps;
mod types;

pub use c_header::to_c_header;
pub use json::{ReadError, WriteError, read, to_json};
pub use live_curve::{LiveCurve, Owner, SpaceCurve};
pub use minimalloc::to_minimalloc_csv;
pub use rust_constants::to_rust;
pub use schema::{SCHEMA_ID, schema};
pub use types::{
    Alias, AliasKind, Arena, Baseline, Busy, Class, Cost, Fetch, Io, Layout, Link, LiveRange, LowerBound, Model, OpsetImport,
    ParetoPoint, Peak, Rewrite, RewrittenValue, ScheduledNode, Solver, Space, StateUpdate, Stated, StatedBy, Subgraph, Target,
    Tensor, Trace, Transfer, Unpaired, Unplanned, VERSION,
};
