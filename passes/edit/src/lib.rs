//! Nodes and constants that passes write.
//!
//! A [`Maker`] is a rewriter with the name of a pass: it inserts nodes into the main graph with the pass as
//! their origin, names results, and makes constants. It also compiles extents, which are expressions over
//! free dimensions, to nodes that compute them from the shapes of graph inputs ([`Maker::extent`]).

mod extents;
mod form;
mod maker;

pub use extents::{are_computable, obstacle};
pub use form::ExtentForm;
pub use maker::{Attributes, Maker, constant, has_made, int, is_made_by, node};
