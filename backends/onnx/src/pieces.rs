//! Lists of nodes that equal those of a graph of the file.

use memc_onnx_proto::NodePiece;
use memc_onnx_proto::onnx::GraphProto;

/// Whether the pieces are exactly the unchanged nodes of a graph with `count` nodes.
pub(crate) fn are_unchanged(pieces: &[NodePiece], count: usize) -> bool {
    pieces.len() == count
        && pieces.iter().enumerate().all(|(index, piece)| *piece == NodePiece::original(index))
}

/// Returns the nodes of a graph of the file, unchanged.
pub(crate) fn originals(graph: &GraphProto) -> Vec<NodePiece> {
    (0..graph.node.len()).map(NodePiece::original).collect()
}
