//! Nodes of the main graph that are computed in parts, one part after another: what they are, and how they are written.

mod apart;
mod maker;
mod spans;
mod unrounded;
mod weights;
mod write;

use std::collections::BTreeMap;

use memc_ir::{Node, Value};
use memc_ops::{Piece, Pieces};

pub use apart::read_apart;
pub use spans::{Shares, Spans};
pub use unrounded::Unrounded;
pub use weights::Weights;
pub use write::write;

/// The nodes that are computed in parts.
#[derive(Clone, Debug)]
pub struct Divided {
    /// How axes are shared out among parts.
    pub shares: Shares,
    /// How each takes part; the others are computed once.
    pub nodes: BTreeMap<Node, Pieces>,
    /// What each value is for a part; the others are whole.
    pub values: BTreeMap<Value, Piece>,
    /// What parts hold of values where their shares overlap.
    pub spans: Option<Spans>,
}

impl Divided {
    /// Nothing yet.
    pub fn among(shares: Shares) -> Self {
        Self { shares, nodes: BTreeMap::new(), values: BTreeMap::new(), spans: None }
    }
}
