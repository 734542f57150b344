//! Axes and extents as rules ask for them.

use memc_ir::{Attribute, TensorType};

use super::argument::Argument;
use crate::fact::Graph;

/// Axes as an attribute (a number or a list) or as a constant operand states them.
pub(super) fn axis_list(graph: &Graph<'_>, argument: &Argument) -> Option<Vec<i64>> {
    match argument {
        Argument::Attribute(Attribute::Int(axis)) => Some(vec![*axis]),
        Argument::Attribute(Attribute::Ints(axes)) => Some(axes.clone()),
        Argument::Class(id) => graph[*id].data.data()?.known_ints(),
        _ => None,
    }
}

/// Whether a tensor has one axis, provably as long as the last one of another.
pub(super) fn is_vector_of(vector: &TensorType, of: &TensorType) -> bool {
    match (vector.shape.as_deref(), of.shape.as_ref().and_then(|dims| dims.last())) {
        (Some([extent]), Some(last)) => extent.same(last),
        _ => false,
    }
}
