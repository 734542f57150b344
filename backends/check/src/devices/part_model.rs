//! The model of one part, made from the given model and the pieces of its values.

use memc_ir::ElementType;
use memc_layout::devices::Manifest;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{ModelProto, TensorProto, ValueInfoProto};
use prost::Message as _;

use super::cut::{constant, described, without_graph};
use super::given::{Given, Sized};
use super::parts::Parts;

/// Returns the model of a part: the nodes and names of the given one, with the extents of pieces. Nodes that
/// state extents read new constants.
pub(super) fn part_model(whole: &Given<'_>, parts: &Parts) -> Result<ModelFile, String> {
    let mut graph = whole.file.graph().clone();
    for (node, (position, result)) in &parts.stated {
        let dims = parts.extents(whole, result).ok_or_else(|| format!("`{result}` has no known size"))?;
        let (name, count) = (format!("{result}.extents"), dims.len() as u64);
        let items: Vec<i64> = dims.iter().filter_map(|extent| i64::try_from(*extent).ok()).collect();
        let sized =
            Sized { element: ElementType::Int64, dims: vec![count], bytes: 8 * count, free: Vec::new() };
        let operand = graph.node.get_mut(*node).and_then(|node| node.input.get_mut(*position));
        operand.ok_or_else(|| format!("{} states no extents", whole.title(*node)))?.clone_from(&name);
        graph.initializer.push(constant(&name, &sized, &items));
    }
    for tensor in &mut graph.initializer {
        let Some(axis) = parts.pieces.get(tensor.name()).and_then(|piece| piece.axis()) else { continue };
        let share = whole.share_of_constant(tensor.name(), axis, parts.count);
        let share = share.zip(parts.extents(whole, tensor.name())).zip(whole.sized.get(tensor.name()));
        let ((share, dims), sized) =
            share.ok_or_else(|| format!("parts of `{}` are not equal", tensor.name()))?;
        *tensor = TensorProto {
            name: tensor.name.clone(),
            data_type: Some(sized.element.to_onnx()),
            dims: dims.iter().filter_map(|extent| i64::try_from(*extent).ok()).collect(),
            raw_data: Some(share.into()),
            ..TensorProto::default()
        };
    }
    // What is made once a step comes from outside; its maker stays, under another name, so that nodes keep
    // their positions.
    for name in &parts.given {
        let maker = whole.maker.get(name).and_then(|node| graph.node.get_mut(*node));
        maker
            .into_iter()
            .flat_map(|node| &mut node.output)
            .filter(|output| *output == name)
            .for_each(|output| output.push_str(".whole"));
        let sized = whole.sized.get(name).ok_or_else(|| format!("`{name}` has no known size"))?;
        graph.input.push(described(name, sized));
        graph.value_info.retain(|info| info.name() != name);
    }
    let all = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
    all.for_each(|info| resize(whole, parts, info));
    let model = ModelProto { graph: Some(graph), ..without_graph(whole.file.model()) };
    Ok(ModelFile::from_bytes(model.encode_to_vec())
        .map_err(|error| error.to_string())?
        .beside(whole.file.path()))
}

/// Integers that differ from part to part follow from the extents of a part, all others from those of the
/// given model.
pub(super) fn settle_integers(whole: &Given<'_>, part: &mut Given<'_>, parts: &Parts) {
    part.integers.retain(|name, _| whole.integers.contains_key(name));
    for (name, items) in whole.integers.iter().filter(|(name, _)| !parts.pieces.contains_key(*name)) {
        part.integers.insert(name.clone(), items.clone());
        part.sized.extend(whole.sized.get(name).map(|sized| (name.clone(), sized.clone())));
    }
}

/// Rejects a model of a part in which a value that sections of parts make has other extents than its piece.
pub(super) fn contradiction(
    whole: &Given<'_>,
    part: &Given<'_>,
    parts: &Parts,
    manifest: &Manifest,
) -> Option<String> {
    let sections = manifest.sections.iter().filter(|section| !manifest.is_once(section));
    let nodes = sections
        .flat_map(|section| &section.nodes)
        .filter_map(|node| whole.nodes.get(usize::try_from(*node).ok()?));
    let known = parts.pieces.keys().filter(|name| whole.integers.contains_key(*name));
    let made = nodes.flat_map(|node| &node.makes).chain(part.inputs.iter()).chain(known);
    let mut all = made
        .map(|name| (name, parts.extents(whole, name), part.sized.get(name).map(|sized| sized.dims.clone())));
    let (name, expected, found) = all.find(|(_, expected, found)| expected != found)?;
    Some(format!("a part of `{name}` has the extents {found:?}, not {expected:?}"))
}

fn resize(whole: &Given<'_>, parts: &Parts, info: &mut ValueInfoProto) {
    let Some(dims) = parts.extents(whole, info.name()) else { return };
    if let Some(sized) = whole.sized.get(info.name()) {
        *info = described(info.name(), &Sized { dims, ..sized.clone() });
    }
}
