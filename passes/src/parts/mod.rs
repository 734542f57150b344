//! Nodes of the main graph that are computed in parts, one part after another: their description and
//! their writer.

mod apart;
mod nothing;
mod probes;
mod spans;
mod unrounded;
mod weights;
mod write;

use std::collections::BTreeMap;

use memc_ir::{Node, Value};
use memc_ops::{Piece, Pieces};

pub use apart::read_apart;
pub use nothing::{are_multiples, takes_nothing};
pub use probes::Probes;
pub use spans::{Shares, Spans};
pub use unrounded::Unrounded;
pub use weights::Weights;
pub use write::write;

/// A region: nodes that are computed in parts.
#[derive(Clone, Debug)]
pub struct Divided {
    /// Division of axes into shares.
    pub shares: Shares,
    /// Nodes computed once per part, with their pieces; all other nodes run once.
    pub nodes: BTreeMap<Node, Pieces>,
    /// The piece of each value that a part has; all other values are whole.
    pub values: BTreeMap<Value, Piece>,
    /// Positions of each value that each part holds, if shares overlap.
    pub spans: Option<Spans>,
}

impl Divided {
    /// Makes a region without nodes.
    pub fn among(shares: Shares) -> Self {
        Self { shares, nodes: BTreeMap::new(), values: BTreeMap::new(), spans: None }
    }
}
