//! Extents that a session shall not know before it runs.
//!
//! A session keeps the buffer of a dead value for a later value whose extents it knows to be equal, however
//! late that is. If a view of each input by extents that are computed at run time hides them, the description
//! of a value decides: axis 0 has one name for all values that share a buffer in the plan, and another for
//! every other value. So the session writes in place as planned and keeps no buffer.

use memc_ir::{Module, Origin, Value, ValueType};
use memc_onnx_proto::onnx::ValueInfoProto;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as DimValue;
use memc_onnx_proto::onnx::type_proto::Value as Kind;

use crate::encode::Source;

/// Name of the pass in the origin of nodes that view inputs by extents computed at run time.
pub const HIDES: &str = "hide";

/// Whether views of the main graph's inputs hide extents. Linear in its nodes.
pub(crate) fn hides(module: &Module) -> bool {
    let is_own = |origin: &Origin| matches!(origin, Origin::Pass { pass } if pass == HIDES);
    module.graph(module.main()).nodes.iter().any(|node| is_own(&module.node(*node).origin))
}

/// Whether the description of a value can name an extent: a tensor with an axis of at least one position.
pub(crate) fn can_hide(ty: &ValueType) -> bool {
    ty.tensor()
        .and_then(|tensor| tensor.known_dims())
        .is_some_and(|dims| dims.first().is_some_and(|extent| *extent > 0))
}

/// Returns the description of a value, with a name for the extent of axis 0.
pub(crate) fn entry(source: Source<'_>, value: Value) -> ValueInfoProto {
    let mut entry = source.value_info(value);
    let kind = entry.r#type.as_mut().and_then(|ty| ty.value.as_mut());
    if let Some(Kind::TensorType(tensor)) = kind
        && let Some(dim) = tensor.shape.as_mut().and_then(|shape| shape.dim.first_mut())
        && let Some(DimValue::DimValue(extent)) = dim.value
    {
        let (owner, _) = source.module.plan.owner(value);
        dim.value = Some(DimValue::DimParam(format!("memc.{}.{extent}", source.name(owner))));
    }
    entry
}
