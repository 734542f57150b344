//! Types that the written model states: outputs and results must not keep symbols that the plan bound.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::DimExpr;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::ValueInfoProto;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::type_proto::Value as Kind;

/// Returns the outputs and results of the main graph with a dimension whose symbols the plan bound, each
/// with the dimension as written.
pub(crate) fn unbound(file: &ModelFile, bound: &BTreeMap<String, u64>) -> Vec<(String, String)> {
    let graph = file.graph();
    let results: BTreeSet<&str> =
        graph.node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
    let entries =
        graph.output.iter().chain(graph.value_info.iter().filter(|info| results.contains(info.name())));
    let open = entries.filter_map(|info| Some((info.name().to_owned(), bound_symbol(info, bound)?)));
    if bound.is_empty() { Vec::new() } else { open.collect() }
}

/// Returns the first dimension of an entry that is an expression over bound symbols.
fn bound_symbol(info: &ValueInfoProto, bound: &BTreeMap<String, u64>) -> Option<String> {
    let Some(Kind::TensorType(tensor)) = info.r#type.as_ref()?.value.as_ref() else { return None };
    let is_bound = |text: &str| {
        let symbols = DimExpr::parse(text).unwrap_or_else(|| DimExpr::symbol(text)).symbols();
        !symbols.is_empty() && symbols.iter().all(|symbol| bound.contains_key(symbol.as_ref()))
    };
    let texts = tensor.shape.iter().flat_map(|shape| &shape.dim).filter_map(|dim| match &dim.value {
        Some(Extent::DimParam(text)) if is_bound(text) => Some(text.clone()),
        _ => None,
    });
    texts.into_iter().next()
}
