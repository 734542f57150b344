//! Fallback functions for memc's transfer operators, so that a model with transfers runs in a runtime
//! that does not implement them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Module, Operator};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{FunctionProto, NodeProto, OperatorSetIdProto};
use memc_ops::families::memory::fetching;

/// Domain of the transfer operators.
pub(crate) const DOMAIN: &str = "ai.memc";

/// Attribute of a fetch that names the space of its constant.
const FROM: &str = "from";

/// Returns the operator under which a node is written: a fetch of a constant becomes a plain copy
/// (`Identity`), a fetch of some positions a `Slice`, and one of rows a `Gather`, which every runtime knows.
pub fn written(operator: &Operator) -> Cow<'_, Operator> {
    match fetching(operator) {
        Some(fetching) => Cow::Owned(Operator::onnx(fetching.plain, operator.version)),
        None => Cow::Borrowed(operator),
    }
}

/// Returns whether an attribute of a node is written: the space of a fetched constant is not.
pub(crate) fn is_written(operator: &Operator, attribute: &str) -> bool {
    attribute != FROM || fetching(operator).is_none()
}

/// Largest numbers of operands and results and all attributes in the calls of one operator.
#[derive(Default)]
struct Signature {
    inputs: usize,
    outputs: usize,
    attributes: BTreeSet<String>,
}

/// Returns a function for each operator of memc's domain that the main graph uses and the file does not
/// define. The function copies operands to results.
pub(crate) fn functions(file: &ModelFile, module: &Module) -> Vec<FunctionProto> {
    let mut used: BTreeMap<&str, Signature> = BTreeMap::new();
    for node in &module.graph(module.main()).nodes {
        let data = module.node(*node);
        if &*written(&data.operator).domain == DOMAIN {
            let signature = used.entry(&data.operator.name).or_default();
            signature.inputs = signature.inputs.max(data.inputs.len());
            signature.outputs = signature.outputs.max(data.outputs.len());
            signature.attributes.extend(data.attributes.iter().map(|(key, _)| key.clone()));
        }
    }
    let defined = |name: &str| {
        file.model().functions.iter().any(|function| function.domain() == DOMAIN && function.name() == name)
    };
    let missing = used.into_iter().filter(|(name, signature)| !defined(name) && signature.inputs > 0);
    let version = module.opsets.get("").copied().unwrap_or(DEFAULT_OPSET);
    missing.map(|(name, signature)| identity(name, signature, version)).collect()
}

/// Operator set to import for nodes of ONNX's own domain if the model imports none.
pub(crate) const DEFAULT_OPSET: i64 = 13;

fn identity(name: &str, signature: Signature, version: i64) -> FunctionProto {
    let input: Vec<String> = (0..signature.inputs).map(|position| format!("input_{position}")).collect();
    let output: Vec<String> = (0..signature.outputs).map(|position| format!("output_{position}")).collect();
    let copies = output.iter().zip(input.iter().chain(input.last().into_iter().cycle()));
    let copy = |(output, input): (&String, &String)| NodeProto {
        input: vec![input.clone()],
        output: vec![output.clone()],
        op_type: Some("Identity".to_owned()),
        ..NodeProto::default()
    };
    FunctionProto {
        node: copies.map(copy).collect(),
        name: Some(name.to_owned()),
        domain: Some(DOMAIN.to_owned()),
        attribute: signature.attributes.into_iter().collect(),
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(version) }],
        input,
        output,
        ..FunctionProto::default()
    }
}
