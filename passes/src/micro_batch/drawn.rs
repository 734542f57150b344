//! Random values of a batch. The model's random operator still runs once for the whole batch; each part
//! reads a share of the smallest value derived from its result, such as a mask.

use std::collections::BTreeSet;

use memc_ir::{Node, SecondaryMap, Use, Value, uses};
use memc_ops::{Piece, Repeat, lookup};

use super::division::{Division, dims};

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
pub(super) fn drawn(division: &Division<'_>) -> Drawn {
    let module = division.module;
    let uses = uses(module);
    let mut drawn = Drawn::default();
    for node in &module.graph(module.main()).nodes {
        let data = module.node(*node);
        let is_random = lookup(&data.operator).is_some_and(|info| info.repeat == Repeat::Random);
        let is_of =
            |value: &Value| dims(module, *value).first().is_some_and(|extent| division.batch.divides(extent));
        for value in data.results().filter(|value| is_random && is_of(value)) {
            drawn.values.push(value);
            drawn.whole.extend(to_smallest(division, &uses, value));
        }
    }
    drawn
}

/// Returns the nodes from a value to the smallest value derived from it. Every value on the way has one
/// reader, and every other operand is a constant or a graph input.
fn to_smallest(division: &Division<'_>, uses: &SecondaryMap<Value, Vec<Use>>, value: Value) -> Vec<Node> {
    let (module, mut nodes, mut kept) = (division.module, Vec::new(), 0);
    let (mut last, mut smallest) = (value, division.bytes(value));
    while let [Use::Operand(node, position)] = uses[last][..] {
        let data = module.node(node);
        let is_alone =
            module.reads(node).iter().all(|read| *read == last || module.producer(*read).is_none());
        let operands: Vec<Piece> = (0..data.inputs.len())
            .map(|at| if at == position as usize { ALONG } else { Piece::Whole })
            .collect();
        let found = division.pieces(node, &operands);
        let ([Some(result)], true, Some([ALONG])) =
            (&data.outputs[..], is_alone, found.as_ref().map(|found| &found.results[..]))
        else {
            break;
        };
        nodes.push(node);
        last = *result;
        if division.bytes(last) < smallest {
            (smallest, kept) = (division.bytes(last), nodes.len());
        }
    }
    nodes.truncate(kept);
    nodes
}

const ALONG: Piece = Piece::Along(0);
