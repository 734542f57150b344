//! Axes and extents for conditions and functions of rules.

use memc_ir::{Attribute, TensorType};

use super::argument::Argument;
use crate::fact::Graph;

/// Returns axes stated by an attribute (a number or a list) or by a constant operand.
pub(super) fn axis_list(graph: &Graph<'_>, argument: &Argument) -> Option<Vec<i64>> {
    match argument {
        Argument::Attribute(Attribute::Int(axis)) => Some(vec![*axis]),
        Argument::Attribute(Attribute::Ints(axes)) => Some(axes.clone()),
        Argument::Class(id) => graph[*id].data.data()?.known_ints(),
        _ => None,
    }
}

/// Returns whether a tensor has one axis, provably as long as the last axis of another tensor.
pub(super) fn is_vector_of(vector: &TensorType, of: &TensorType) -> bool {
    match (vector.shape.as_deref(), of.shape.as_ref().and_then(|dims| dims.last())) {
        (Some([extent]), Some(last)) => extent.same(last),
        _ => false,
    }
}
