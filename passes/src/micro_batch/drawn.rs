//! Random values of a batch. The model's random operator still runs once for the whole batch; each part
//! reads a share of the smallest value derived from its result, such as a mask.

use std::collections::BTreeSet;

use memc_ir::{Module, Node, SecondaryMap, Use, Value, uses};
use memc_ops::{Piece, Repeat, Share, Typed, lookup, pieces};

/// Random results that belong to a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawn {
    /// Values of which each part reads a share along the first axis.
    pub(super) values: Vec<Value>,
    /// Nodes between a random result and its smallest derived value: they are computed once for the
    /// whole batch.
    pub(super) whole: BTreeSet<Node>,
}

/// Finds results of random operators whose first extent is a multiple of the batch (the batch itself or
/// its tokens). Linear in nodes.
pub(super) fn drawn(module: &Module, batch: u64, parts: u64) -> Drawn {
    let uses = uses(module);
    let mut drawn = Drawn::default();
    for node in &module.graph(module.main()).nodes {
        let data = module.node(*node);
        let is_random = lookup(&data.operator).is_some_and(|info| info.repeat == Repeat::Random);
        for value in data.results().filter(|value| is_random && is_of(module, *value, batch)) {
            drawn.values.push(value);
            drawn.whole.extend(to_smallest(module, &uses, value, parts));
        }
    }
    drawn
}

fn is_of(module: &Module, value: Value, batch: u64) -> bool {
    let dims = module.ty(value).tensor().and_then(|ty| ty.known_dims()).unwrap_or_default();
    dims.first().is_some_and(|extent| *extent > 0 && extent.is_multiple_of(batch))
}

/// Returns the nodes from a value to the smallest value derived from it. Every value on the way has one
/// reader, and every other operand is a constant or a graph input.
fn to_smallest(module: &Module, uses: &SecondaryMap<Value, Vec<Use>>, value: Value, parts: u64) -> Vec<Node> {
    let (mut nodes, mut kept) = (Vec::new(), 0);
    let bytes = |value: Value| module.ty(value).size().map_or(u64::MAX, |size| size.0);
    let (mut last, mut smallest) = (value, bytes(value));
    while let [Use::Operand(node, position)] = uses[last][..] {
        let data = module.node(node);
        let is_alone = module.reads(node).iter().all(|read| *read == last || module.producer(*read).is_none());
        let operands: Vec<Piece> =
            (0..data.inputs.len()).map(|at| if at == position as usize { ALONG } else { Piece::Whole }).collect();
        let found = pieces(Share { node: Typed::of(module, node), operands: &operands, parts });
        let ([Some(result)], true, Some([ALONG])) = (&data.outputs[..], is_alone, found.as_ref().map(|found| &found.results[..]))
        else {
            break;
        };
        nodes.push(node);
        last = *result;
        if bytes(last) < smallest {
            (smallest, kept) = (bytes(last), nodes.len());
        }
    }
    nodes.truncate(kept);
    nodes
}

const ALONG: Piece = Piece::Along(0);
