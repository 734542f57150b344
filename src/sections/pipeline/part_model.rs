//! The model of one part of a batch: the nodes and names of the given file, with fewer positions.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::TensorProto;
use memc_onnx_proto::{GraphEdit, ModelEdit, ModelFile, ModelSplice, NodeEdit, NodePiece, TensorSource};
use memc_ops::Piece;

use super::super::cut::{described, raised};
use super::super::graph::{Graph, Tensor};
use super::parts::{Parts, constant_share};
use crate::error::Error;
use crate::split_error::SplitError;

/// Ending of the names of constants that state extents of parts.
const ENDING: &str = ".extents";

/// Ending of the names of values that parts read, at their makers.
const WHOLE: &str = ".whole";

/// Element type of integers that state extents.
const INT64: i32 = 7;

/// Writes the model of a part.
///
/// # Errors
/// A name is taken, or the model exceeds the size of a file.
pub(in crate::sections) fn part_model(
    file: &ModelFile,
    graph: &Graph<'_>,
    parts: &Parts,
) -> Result<ModelFile, Error> {
    let proto = file.graph();
    let taken: BTreeSet<&str> = proto.initializer.iter().map(|tensor| tensor.name()).collect();
    let mut edit = GraphEdit::default();
    let stated = proto.value_info.iter().chain(&proto.input).chain(&proto.output).map(|info| info.name());
    for name in stated {
        if let Some(dims) = extents(graph, parts, name) {
            edit.value_dims
                .insert(name.to_owned(), dims.iter().map(|extent| i64::try_from(*extent).ok()).collect());
        }
    }
    // What is made once a step comes from outside; its maker stays, under another name, so that nodes keep
    // their positions.
    edit.dropped_values.extend(parts.given.iter().cloned());
    for name in &parts.given {
        edit.value_dims.remove(name);
        let tensor = graph.tensors.get(name).ok_or_else(|| SplitError::Unsized { name: name.clone() })?;
        let shape = extents(graph, parts, name).unwrap_or_default();
        edit.new_inputs.push(described(name, Some(&Tensor { shape, ..tensor.clone() }))?);
    }
    for (index, tensor) in proto.initializer.iter().enumerate() {
        let Some(axis) = parts.repeated.get(tensor.name()) else { continue };
        let share = constant_share(graph, tensor.name(), *axis, parts.count);
        let (share, dims) = share.zip(extents(graph, parts, tensor.name())).ok_or_else(|| {
            SplitError::Section { cause: format!("parts of `{}` are not equal", tensor.name()) }
        })?;
        edit.dropped_initializers.insert(index);
        let tensor = TensorProto {
            name: tensor.name.clone(),
            data_type: tensor.data_type,
            dims: dims.iter().filter_map(|extent| i64::try_from(*extent).ok()).collect(),
            raw_data: Some(share.into()),
            ..TensorProto::default()
        };
        edit.new_initializers.push((tensor.name().to_owned(), TensorSource::Owned(Box::new(tensor))));
    }
    let mut nodes = Vec::new();
    for (unit, node) in proto.node.iter().enumerate() {
        if node.output.iter().any(|name| parts.given.contains(name)) {
            let renamed = |name: &String| {
                if parts.given.contains(name) { format!("{name}{WHOLE}") } else { name.clone() }
            };
            let outputs = Some(node.output.iter().map(renamed).collect());
            nodes
                .push(NodePiece::Original { index: unit, edit: NodeEdit { outputs, ..NodeEdit::default() } });
            continue;
        }
        let Some((position, result)) = parts.stated.get(&unit) else {
            nodes.push(NodePiece::original(unit));
            continue;
        };
        let (name, mut inputs) = (format!("{result}{ENDING}"), node.input.clone());
        let dims =
            extents(graph, parts, result).ok_or_else(|| SplitError::Unsized { name: result.clone() })?;
        if taken.contains(name.as_str()) || graph.maker.contains_key(&name) || inputs.len() <= *position {
            return Err(
                SplitError::Section { cause: format!("`{name}` is the name of another value") }.into()
            );
        }
        inputs[*position].clone_from(&name);
        nodes.push(NodePiece::Original {
            index: unit,
            edit: NodeEdit { inputs: Some(inputs), ..NodeEdit::default() },
        });
        edit.new_initializers.push((name.clone(), TensorSource::Owned(Box::new(integers(&name, &dims)))));
    }
    edit.nodes = Some(nodes);
    let ir_version = raised(file, !edit.new_initializers.is_empty());
    let edit = ModelEdit { graph: edit, ir_version, ..ModelEdit::default() };
    let splice =
        ModelSplice::new(file, &edit).map_err(|error| SplitError::Section { cause: error.to_string() })?;
    Ok(ModelFile::from_bytes(splice.to_vec())?.beside(file.path()))
}

/// Rejects a model of a part whose values have other extents than their pieces.
///
/// # Errors
/// A value has other extents.
pub(in crate::sections) fn verify(
    whole: &Graph<'_>,
    part: &Graph<'_>,
    parts: &Parts,
) -> Result<(), SplitError> {
    let made = parts.nodes.iter().flat_map(|unit| &whole.units[*unit].makes);
    for name in
        made.chain(&part.inputs).chain(parts.pieces.keys().filter(|name| whole.known.contains_key(*name)))
    {
        let found = part.tensors.get(name).map(|tensor| tensor.shape.clone());
        let expected = extents(whole, parts, name);
        if found != expected {
            let cause = format!("a part of `{name}` has the extents {found:?}, not {expected:?}");
            return Err(SplitError::Section { cause });
        }
    }
    Ok(())
}

/// Integers that differ from part to part follow from the extents of a part, all others from those of the
/// given model.
pub(in crate::sections) fn settle_integers(whole: &Graph<'_>, part: &mut Graph<'_>, parts: &Parts) {
    for (name, items) in whole.known.iter().filter(|(name, _)| !parts.pieces.contains_key(*name)) {
        part.known.insert(name.clone(), items.clone());
        part.tensors.extend(whole.tensors.get(name).map(|tensor| (name.clone(), tensor.clone())));
    }
}

/// Extents of a value in one part.
fn extents(graph: &Graph<'_>, parts: &Parts, name: &str) -> Option<Vec<u64>> {
    let Tensor { shape, .. } = graph.tensors.get(name)?;
    let mut dims = shape.clone();
    if let Some(axis) = parts.pieces.get(name).copied().and_then(Piece::axis) {
        *dims.get_mut(axis)? /= parts.count;
    }
    Some(dims)
}

fn integers(name: &str, dims: &[u64]) -> TensorProto {
    let bytes: Vec<u8> =
        dims.iter().flat_map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX).to_le_bytes()).collect();
    TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(INT64),
        dims: vec![i64::try_from(dims.len()).unwrap_or(i64::MAX)],
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}
