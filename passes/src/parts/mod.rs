//! Nodes of the main graph that are computed in parts, one part after another: what they are, and how they are written.

mod spans;
mod weights;
mod write;

use memc_ir::{Node, SecondaryMap, Value};
use memc_ops::{Piece, Pieces};

pub(crate) use spans::Spans;
pub(crate) use weights::Weights;
pub(crate) use write::write;

/// The nodes that are computed in parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Divided {
    /// How each takes part; none where a node is computed once.
    pub(crate) nodes: SecondaryMap<Node, Option<Pieces>>,
    /// What each value is for a part; none where it is whole.
    pub(crate) values: SecondaryMap<Value, Option<Piece>>,
    /// What parts hold of values where their shares overlap; they have equal shares where there is nothing here.
    pub(crate) spans: Option<Spans>,
}
