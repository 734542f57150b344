//! The nodes of a graph of the file as they are.

use memc_onnx_proto::NodePiece;
use memc_onnx_proto::onnx::GraphProto;

/// Whether the pieces are the nodes of a graph with `count` nodes as they were.
pub(crate) fn are_unchanged(pieces: &[NodePiece], count: usize) -> bool {
    pieces.len() == count && pieces.iter().enumerate().all(|(index, piece)| *piece == NodePiece::original(index))
}

/// The nodes of a graph of the file as they are.
pub(crate) fn originals(graph: &GraphProto) -> Vec<NodePiece> {
    (0..graph.node.len()).map(NodePiece::original).collect()
}
