//! Writes a module of the intermediate representation back to an ONNX model file.
//!
//! [`export`] does not encode the whole model again: it edits the file that the module was imported
//! from. Nodes, bodies, weights and fields that no pass touched keep their bytes, including fields
//! unknown to memc. Weights are never copied.
//!
//! [`default_order`] computes the order in which ONNX Runtime runs a model by default. [`add_anchors`]
//! pins the schedule if that order differs from it.

mod anchors;
mod encode;
mod error;
mod exported;
mod external;
mod hidden;
mod initializers;
mod inputs;
mod interface;
mod names;
mod nodes;
mod ort_order;
mod outside;
mod pieces;
mod running;
mod transfers;
mod types;
mod values;

use std::collections::BTreeMap;

use memc_ir::{Module, Node, Origin, SecondaryMap};
use memc_onnx_proto::{GraphEdit, Metadata, ModelEdit, ModelFile, ModelSplice};

use encode::Source;
use inputs::FREE_INITIALIZERS_IR_VERSION;
use interface::Side;

pub use anchors::{AnchorKind, Anchored, add_anchor, add_anchors, file_order, is_anchor};
pub use error::{ExportError, TensorDefect};
pub use exported::{Exported, sha256};
pub use external::weight_files;
pub use hidden::HIDES;
pub use interface::Interface;
pub use ort_order::{default_order, default_order_of};
pub use outside::{Chunk, ChunkSource, Outside};
pub use transfers::written;

/// Schema of the layout file that the metadata refers to.
pub const LAYOUT_SCHEMA: &str = "memc.layout/1";

/// First `ir_version` that has metadata on nodes and values.
const METADATA_IR_VERSION: i64 = 10;
/// First `ir_version` that has functions.
const FUNCTIONS_IR_VERSION: i64 = 8;

/// Parts of the exported model that a caller can request in addition to the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Whether to write the plan as metadata: on nodes, on values that the model describes, and on the
    /// model (`doc/metadata.md` lists the keys). Raises a lower `ir_version` to 10. If false, metadata
    /// of an earlier run stays as it is.
    pub metadata: bool,
    /// Further entries for the model's metadata, for example `memc.peak.<space>`; written only with
    /// `metadata`. They follow the exporter's own entries and replace those with an equal key.
    pub model_metadata: Metadata,
    /// Whether to describe in `value_info` every node result that is a dense tensor of known extents,
    /// unless the file already describes the result as exactly.
    pub value_info: bool,
    /// The file beside the model that takes the weights; without it they stay in their places.
    pub outside: Option<Outside>,
    /// Graph inputs and outputs that come or go; every other change of the interface is an error.
    pub interface: Interface,
    /// Whether the model may import a newer version of an operator set than the file does. The nodes of the
    /// module must then mean the same in the newer version.
    pub raises_opsets: bool,
}

impl Default for ExportOptions {
    /// Returns options that write metadata and types.
    fn default() -> Self {
        let (model_metadata, interface) = (Metadata::new(), Interface::default());
        Self {
            metadata: true,
            model_metadata,
            value_info: true,
            outside: None,
            interface,
            raises_opsets: false,
        }
    }
}

/// Makes the model of a module that was imported from `file` and then edited or planned.
///
/// Writes the main graph's nodes in the order of [`file_order`], each under a unique name. Raises
/// `ir_version` only as far as the written parts need: to 4 for new initializers, to 8 for functions, to
/// 10 for metadata of nodes and values. If it rises past 3, weights leave the graph inputs, because from
/// version 4 on a caller could replace an initializer that is also an input. Inputs and outputs are those
/// of the file, except for the changes that [`ExportOptions::interface`] states; they state the extents
/// that dimensions were bound to. The result has exactly the bytes of `file` if nothing was edited or
/// bound, all names are unique, and neither metadata nor new types are requested.
///
/// Time is linear in the size of the graphs, plus sorting and name lookups. Weights are not read.
///
/// # Errors
/// See [`ExportError`].
pub fn export(file: &ModelFile, module: &Module, options: &ExportOptions) -> Result<Exported, ExportError> {
    let source = Source { file, module };
    let main = module.graph(module.main());
    let Interface { added_inputs, removed_inputs, added_outputs, removed_outputs, .. } = &options.interface;
    let stated = inputs::stated(file, file.graph());
    let inputs = Side { what: "input", stated: &stated, added: added_inputs, removed: removed_inputs };
    interface::check(source, &main.inputs, inputs)?;
    let stated: Vec<&str> = file.graph().output.iter().map(|info| info.name()).collect();
    let outputs = Side { what: "output", stated: &stated, added: added_outputs, removed: removed_outputs };
    interface::check(source, &main.outputs, outputs)?;
    if let Some(name) = values::ambiguous_name(module) {
        return Err(ExportError::ValueName { name });
    }
    let (node_names, _) = names::name_nodes(module);
    let functions = transfers::functions(file, module);
    let opsets = new_opsets(file, module);
    let mut graph = graph_edit(source, options, &node_names)?;
    let version = ir_version(source, options, &graph, functions.is_empty());
    if version >= FREE_INITIALIZERS_IR_VERSION {
        inputs::free_weights(file, &mut graph);
    }
    let chunks = match &options.outside {
        Some(outside) => outside::move_out(source, &mut graph, outside)?,
        None => Vec::new(),
    };
    let mut weight_files = external::files(source, &graph);
    if let Some(outside) = &options.outside {
        // Written with the model.
        weight_files.remove(&outside.location);
    }
    let edit = ModelEdit {
        ir_version: (version != file.model().ir_version()).then_some(version),
        metadata: options.metadata.then(|| model_metadata(module, options)),
        opsets: opsets.clone(),
        raises_opsets: options.raises_opsets,
        functions,
        graph,
    };
    let splice = ModelSplice::new(file, &edit)?;
    let imported = file
        .model()
        .opset_import
        .iter()
        .map(|import| (own_domain(import.domain()).to_owned(), import.version()));
    let imported = imported.filter(|(domain, _)| opsets.iter().all(|(raised, _)| raised != domain));
    Ok(Exported {
        splice,
        opset_imports: imported.chain(opsets.iter().cloned()).collect(),
        ir_version: version,
        node_names,
        weight_files,
        chunks,
    })
}

/// Collects all changes to the main graph.
fn graph_edit(
    source: Source<'_>,
    options: &ExportOptions,
    node_names: &SecondaryMap<Node, String>,
) -> Result<GraphEdit, ExportError> {
    let module = source.module;
    let mut positions: SecondaryMap<Node, u32> = SecondaryMap::default();
    for (position, node) in (0u32..).zip(&module.graph(module.main()).nodes) {
        positions.set(*node, position);
    }
    let decorate = |node: Node| {
        let metadata = options.metadata.then(|| {
            let mut metadata = vec![("memc.step".to_owned(), positions[node].to_string())];
            let original = module.node(node).recompute_of.map(|original| &node_names[original]);
            let original = original.filter(|name| !name.is_empty());
            metadata.extend(original.map(|name| ("memc.recompute_of".to_owned(), name.clone())));
            metadata
        });
        (node_names[node].clone(), metadata)
    };
    let mut edit = GraphEdit::default();
    let pieces = nodes::pieces(source, &file_order(module), source.file.graph(), &decorate, 0)?;
    if !pieces::are_unchanged(&pieces, source.file.graph().node.len()) {
        edit.nodes = Some(pieces);
    }
    initializers::main(source, &options.interface, &mut edit)?;
    values::describe(source, options, &mut edit);
    Ok(edit)
}

/// Returns the lowest `ir_version`, not below the file's, that supports every written part.
fn ir_version(source: Source<'_>, options: &ExportOptions, edit: &GraphEdit, no_functions: bool) -> i64 {
    // Below this version a graph input with an initializer is a constant.
    let has_defaults = initializers::defaults(source, &options.interface).next().is_some();
    let needs = [
        (options.metadata, METADATA_IR_VERSION),
        (!no_functions, FUNCTIONS_IR_VERSION),
        (!edit.new_initializers.is_empty() || has_defaults, FREE_INITIALIZERS_IR_VERSION),
    ];
    let needed = needs.into_iter().filter(|(needed, _)| *needed).map(|(_, version)| version);
    needed.fold(source.file.model().ir_version(), i64::max)
}

/// Returns the model's metadata: entries for the whole plan, then the entries of the options.
fn model_metadata(module: &Module, options: &ExportOptions) -> Metadata {
    let mut metadata = vec![
        ("memc.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("memc.layout.schema".to_owned(), LAYOUT_SCHEMA.to_owned()),
    ];
    let arenas = module.plan.arenas.iter();
    metadata.extend(arenas.filter_map(|arena| {
        let space = module.plan.spaces.get(arena.space)?;
        Some((format!("memc.arena.{}", space.name), arena.size.0.to_string()))
    }));
    metadata.retain(|(key, _)| options.model_metadata.iter().all(|(other, _)| other != key));
    metadata.extend(options.model_metadata.iter().cloned());
    metadata
}

/// Returns the operator sets that the new model needs and the file does not import: those of inlined
/// functions and of new nodes.
fn new_opsets(file: &ModelFile, module: &Module) -> Vec<(String, i64)> {
    let mut wanted: BTreeMap<String, i64> = module.opsets.clone();
    for node in &module.graph(module.main()).nodes {
        let data = module.node(*node);
        // A replacement node may keep the origin of the node that it replaced, so compare the operators.
        let own = match data.origin {
            Origin::File { index } => file.graph().node.get(index as usize),
            _ => None,
        };
        if !own.is_some_and(|proto| encode::same_operator(proto, data)) {
            let operator = written(&data.operator);
            wanted.entry(operator.domain.to_string()).or_insert(operator.version.max(1));
        }
    }
    if wanted.contains_key(transfers::DOMAIN) {
        wanted.entry(String::new()).or_insert(transfers::DEFAULT_OPSET);
    }
    let imported = |domain: &str, version: i64| {
        let mut imports = file
            .model()
            .opset_import
            .iter()
            .filter(|import| own_domain(import.domain()) == domain)
            .peekable();
        imports.peek().is_some() && imports.any(|import| import.version() == version)
    };
    wanted.into_iter().filter(|(domain, version)| !imported(domain, *version)).collect()
}

/// Normalizes the two spellings of ONNX's own domain, `ai.onnx` and the empty string, to the empty
/// string.
fn own_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}
