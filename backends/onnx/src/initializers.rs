//! Decides which initializers stay, are removed or are added.

use std::collections::BTreeSet;

use memc_ir::{ConstId, ConstOrigin, GraphId, Value};
use memc_onnx_proto::onnx::GraphProto;
use memc_onnx_proto::{GraphEdit, TensorSource};

use crate::encode::Source;
use crate::error::{ExportError, TensorDefect};
use crate::inputs;
use crate::interface::Interface;

/// Plans the initializers of the main graph. Sparse initializers always stay. Initializers that the file
/// refers to elsewhere stay too: defaults of kept graph inputs, quantization annotations, and all of them
/// if the model carries training information.
pub(crate) fn main(
    source: Source<'_>,
    interface: &Interface,
    edit: &mut GraphEdit,
) -> Result<(), ExportError> {
    let (module, graph) = (source.module, source.file.graph());
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    let constants = module.graph(module.main()).constants.iter();
    let constants = constants.filter_map(|value| Some((*value, module.constant_of(*value)?)));
    // Keep initializers with an unchanged name; all other constants become new initializers.
    for (value, constant) in constants.chain(defaults(source, interface)) {
        let name = source.name(value);
        let fail = |defect| ExportError::Initializer { name: name.to_owned(), defect };
        let tensor = match module.constant(constant).origin {
            ConstOrigin::Initializer(index) => {
                let index = index as usize;
                if graph.initializer.get(index).is_some_and(|tensor| tensor.name() == name) {
                    kept.insert(index);
                    continue;
                }
                let field = source
                    .file
                    .spans()
                    .graph()
                    .initializer(index)
                    .ok_or_else(|| fail(TensorDefect::NotInFile))?;
                TensorSource::Span(field.payload.clone())
            }
            ConstOrigin::SparseInitializer(index) => {
                let sparse =
                    graph.sparse_initializer.get(index as usize).and_then(|sparse| sparse.values.as_ref());
                match sparse.is_some_and(|values| values.name() == name) {
                    true => continue,
                    false => return Err(fail(TensorDefect::Sparse)),
                }
            }
            ConstOrigin::Message { start, end } => match (usize::try_from(start), usize::try_from(end)) {
                (Ok(start), Ok(end)) if start <= end && end <= source.file.bytes().len() => {
                    TensorSource::Span(start..end)
                }
                _ => return Err(fail(TensorDefect::NotInFile)),
            },
            ConstOrigin::New => TensorSource::Owned(Box::new(source.initializer(value, constant)?)),
        };
        edit.new_initializers.push((name.to_owned(), tensor));
    }
    // Drop initializers that neither the module nor the file refers to.
    if source.file.model().training_info.is_empty() {
        let annotations = graph
            .quantization_annotation
            .iter()
            .flat_map(|annotation| &annotation.quant_parameter_tensor_names);
        let mut named: BTreeSet<&str> = annotations.map(|parameter| parameter.value()).collect();
        let inputs = inputs::stated(source.file, graph).into_iter();
        named.extend(inputs.filter(|name| !interface.removed_inputs.contains(*name)));
        let unused = graph
            .initializer
            .iter()
            .enumerate()
            .filter(|(index, tensor)| !kept.contains(index) && !named.contains(tensor.name()))
            .map(|(index, _)| index);
        edit.dropped_initializers = unused.chain(again(graph)).collect();
        drop_inputs(source, graph, edit);
    }
    Ok(())
}

/// Iterates over the added inputs with a default, each with its default.
pub(crate) fn defaults<'s>(
    source: Source<'s>,
    interface: &'s Interface,
) -> impl Iterator<Item = (Value, ConstId)> + 's {
    let module = source.module;
    let added = module
        .graph(module.main())
        .inputs
        .iter()
        .filter(move |input| interface.added_inputs.contains(source.name(**input)));
    added.filter_map(|input| Some((*input, module.value(*input).default?)))
}

/// Returns the positions of initializers that repeat an earlier name; the importer found their elements
/// equal.
fn again(graph: &GraphProto) -> impl Iterator<Item = usize> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    graph
        .initializer
        .iter()
        .enumerate()
        .filter(move |(_, tensor)| !seen.insert(tensor.name()))
        .map(|(index, _)| index)
}

/// Removes dropped weights from the graph inputs, for files that list every weight among the inputs.
fn drop_inputs(source: Source<'_>, graph: &GraphProto, edit: &mut GraphEdit) {
    let weights = inputs::weights(source.file, graph);
    let stays =
        graph.initializer.iter().enumerate().filter(|(index, _)| !edit.dropped_initializers.contains(index));
    let stays: BTreeSet<&str> = stays.map(|(_, tensor)| tensor.name()).collect();
    let dropped = edit.dropped_initializers.iter().filter_map(|index| graph.initializer.get(*index));
    let dropped = dropped.map(|tensor| tensor.name()).filter(|name| !stays.contains(name));
    edit.dropped_inputs.extend(dropped.filter(|name| weights.contains(name)).map(str::to_owned));
}

/// Plans the initializers of a body. The module does not know their positions in the file, so they are
/// matched by name.
pub(crate) fn body(
    source: Source<'_>,
    body: GraphId,
    proto: &GraphProto,
    edit: &mut GraphEdit,
) -> Result<(), ExportError> {
    let data = source.module.graph(body);
    let sparse = proto
        .sparse_initializer
        .iter()
        .filter_map(|sparse| sparse.values.as_ref())
        .map(|values| values.name());
    let old: BTreeSet<&str> = proto.initializer.iter().map(|tensor| tensor.name()).chain(sparse).collect();
    for value in data.constants.iter().copied().filter(|value| !old.contains(source.name(*value))) {
        if let Some(constant) = source.module.constant_of(value) {
            let tensor = source.initializer(value, constant)?;
            edit.new_initializers
                .push((source.name(value).to_owned(), TensorSource::Owned(Box::new(tensor))));
        }
    }
    let kept: BTreeSet<&str> =
        data.constants.iter().chain(&data.inputs).map(|value| source.name(*value)).collect();
    let unused = proto.initializer.iter().enumerate().filter(|(_, tensor)| !kept.contains(tensor.name()));
    edit.dropped_initializers = unused.map(|(index, _)| index).chain(again(proto)).collect();
    drop_inputs(source, proto, edit);
    Ok(())
}
