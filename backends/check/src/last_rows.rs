//! Outputs of which the output model has only the last row: the input model is extended by the cut that the
//! layout states, and then both models must have equal outputs.

use std::collections::BTreeMap;

use memc_layout::{LastRow, Layout};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::type_proto::Value as TypeKind;
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, NodeProto, TensorProto};
use memc_onnx_proto::{GraphEdit, ModelEdit, ModelFile, ModelSplice, NodeEdit, NodePiece};

/// Nodes by which a row extends the input model: a Slice, and the constants of its positions.
pub(crate) const NODES: u64 = 4;
/// First version of ONNX's operator set in which the positions of a Slice are operands.
const POSITIONS_ARE_OPERANDS: i64 = 10;

/// Returns the input model with the last row of each output that `last_rows` states in place of the whole
/// output; `None` if the layout states none. Linear in the nodes.
///
/// # Errors
/// A row does not fit the model: its output, and the reason.
pub fn with_last_rows(given: &ModelFile, layout: &Layout) -> Result<Option<ModelFile>, (String, String)> {
    if layout.last_rows.is_empty() {
        return Ok(None);
    }
    let graph = given.graph();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut edit = GraphEdit::default();
    for row in &layout.last_rows {
        let rank = fits(given, row).map_err(|why| (row.output.clone(), why))?;
        if names.insert(&row.output, &row.whole).is_some() {
            return Err((row.output.clone(), "two rows name it".to_owned()));
        }
        let axis = |at: u64| (at == row.axis).then_some(1);
        let extents = rank.map(|rank| (0..rank as u64).map(axis).collect());
        edit.value_dims.extend(extents.map(|extents| (row.output.clone(), extents)));
    }
    let renamed = |all: &[String]| {
        let name = |name: &String| {
            names.get(name.as_str()).map_or_else(|| name.clone(), |whole| (*whole).to_owned())
        };
        let new: Vec<String> = all.iter().map(name).collect();
        (new != all).then_some(new)
    };
    let piece = |(index, node): (usize, &NodeProto)| {
        let (inputs, outputs) = (renamed(&node.input), renamed(&node.output));
        NodePiece::Original { index, edit: NodeEdit { inputs, outputs, ..NodeEdit::default() } }
    };
    let old = graph.node.iter().enumerate().map(piece);
    let new = layout.last_rows.iter().flat_map(cut).map(NodePiece::New);
    edit.nodes = Some(old.chain(new).collect());
    let first = &layout.last_rows[0].output;
    let told = |why: String| (first.clone(), why);
    let splice = ModelSplice::new(given, &ModelEdit { graph: edit, ..ModelEdit::default() });
    let bytes = splice.map_err(|error| told(error.to_string()))?.to_vec();
    let file = ModelFile::from_bytes(bytes).map_err(|error| told(error.to_string()))?;
    Ok(Some(file.beside(given.path())))
}

/// Returns the rank that the model states for the output of a row, if it states one.
fn fits(given: &ModelFile, row: &LastRow) -> Result<Option<usize>, String> {
    let graph = given.graph();
    let info = graph.output.iter().find(|info| info.name() == row.output).ok_or("it is no graph output")?;
    let is_own = |name: &&str| *name == row.output;
    let mut results = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    results.find(is_own).ok_or("no node computes it")?;
    let inputs = graph.input.iter().map(|input| input.name());
    let constants = graph.initializer.iter().map(|constant| constant.name());
    let results = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    if row.whole.is_empty() || inputs.chain(constants).chain(results).any(|name| name == row.whole) {
        return Err(format!("`{}` is no new name", row.whole));
    }
    if graph.node.iter().any(|node| bodies(node).any(|body| reads(body, &row.output))) {
        return Err("a body reads it".to_owned());
    }
    let opsets = given.model().opset_import.iter().filter(|import| matches!(import.domain(), "" | "ai.onnx"));
    if opsets.map(|import| import.version()).max().unwrap_or(0) < POSITIONS_ARE_OPERANDS {
        return Err(format!("the operator set is older than {POSITIONS_ARE_OPERANDS}"));
    }
    let shape = match info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        Some(TypeKind::TensorType(tensor)) => tensor.shape.as_ref(),
        _ => None,
    };
    let rank = shape.map(|shape| shape.dim.len());
    match rank.filter(|rank| row.axis >= *rank as u64) {
        Some(rank) => Err(format!("it has {rank} axes, and none with number {}", row.axis)),
        None => Ok(rank),
    }
}

fn bodies(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

/// Returns whether a body or one within it reads a value.
fn reads(body: &GraphProto, name: &str) -> bool {
    let is_read = |node: &NodeProto| {
        node.input.iter().any(|input| input == name) || bodies(node).any(|body| reads(body, name))
    };
    body.output.iter().any(|output| output.name() == name) || body.node.iter().any(is_read)
}

/// Returns the nodes that compute the last row.
fn cut(row: &LastRow) -> Vec<NodeProto> {
    let positions = [("first", -1), ("end", i64::MAX), ("axis", i64::try_from(row.axis).unwrap_or(i64::MAX))];
    let positions = positions.map(|(what, number)| (format!("{}:{what}", row.whole), number));
    let constant = |(name, number): &(String, i64)| {
        let tensor = TensorProto {
            dims: vec![1],
            data_type: Some(DataType::Int64 as i32),
            raw_data: Some(number.to_le_bytes().to_vec().into()),
            ..TensorProto::default()
        };
        let mut value =
            AttributeProto { name: Some("value".to_owned()), t: Some(tensor), ..AttributeProto::default() };
        value.set_type(AttributeType::Tensor);
        NodeProto {
            op_type: Some("Constant".to_owned()),
            output: vec![name.clone()],
            attribute: vec![value],
            ..NodeProto::default()
        }
    };
    let operands = positions.iter().map(|(name, _)| name.clone());
    let slice = NodeProto {
        op_type: Some("Slice".to_owned()),
        input: std::iter::once(row.whole.clone()).chain(operands).collect(),
        output: vec![row.output.clone()],
        ..NodeProto::default()
    };
    positions.iter().map(constant).chain([slice]).collect()
}
