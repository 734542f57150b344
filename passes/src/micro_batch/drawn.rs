//! What is drawn at random for a batch: it is drawn at once, as the model says, and parts read shares of the smallest value that is made of it (a mask).

use std::collections::BTreeSet;

use memc_ir::{Module, Node, SecondaryMap, Use, Value, uses};
use memc_ops::{Piece, Repeat, Share, Typed, lookup, pieces};

/// What random operators give for a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawn {
    /// Values of which each part has a share along the first axis.
    pub(super) values: Vec<Value>,
    /// Nodes on the ways to the smallest values made of them: they are computed whole.
    pub(super) whole: BTreeSet<Node>,
}

/// Finds results of random operators whose first extent is that of a batch, or a multiple of it (its tokens). Linear in nodes.
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

/// Nodes from a value to the smallest that is made of it and of constants or graph inputs, where each value on the way has one reader.
fn to_smallest(module: &Module, uses: &SecondaryMap<Value, Vec<Use>>, value: Value, parts: u64) -> Vec<Node> {
    let (mut nodes, mut kept) = (Vec::new(), 0);
    let bytes = |value: Value| module.ty(value).size().map_or(u64::MAX, |size| size.0);
    let (mut last, mut smallest) = (value, bytes(value));
    while let [Use::Operand(node, position)] = uses[last][..] {
        let data = module.node(node);
        let is_alone = module.reads(node).iter().all(|read| *read == last || module.producer(*read).is_none());
        let operands: Vec<Piece> =
            (0..data.inputs.len()).map(|at| if at == position as usize { ALONG } else { Piece::Whole }).collect();
        let found = pieces(Share { node: Typed { module, node }, operands: &operands, parts });
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
