//! Changes of the model's interface that the claims of a plan state.

use std::borrow::Cow;
use std::collections::BTreeMap;

use memc_ir::{Module, Rewriter, Value, ValueType};
use memc_onnx_export::Interface;
use memc_passes::{Claims, NewOutput, StatedNode, last_token};

/// Returns the inputs and outputs that the written model has in addition: numbers of valid rows of caches,
/// and outputs of transforms.
pub(crate) fn interface(given: &Module, claims: &Claims) -> Interface {
    let inputs = &given.graph(given.main()).inputs;
    let is_given = |name: &str| inputs.iter().any(|input| given.value(*input).name == name);
    let counts = claims.caches().map(|cache| cache.count.clone()).filter(|name| !is_given(name));
    let outputs = claims.outputs().map(|output| output.name.clone());
    let changed_outputs = claims.last_rows().map(|row| row.output.clone()).collect();
    Interface {
        added_inputs: counts.collect(),
        added_outputs: outputs.collect(),
        changed_outputs,
        ..Interface::default()
    }
}

/// Returns the number of nodes that added outputs need in addition.
pub(crate) fn added_nodes(claims: &Claims) -> u64 {
    claims.outputs().map(|output| output.nodes.len() as u64).sum()
}

/// Returns the given model with the added outputs, and with the last row of outputs that have no other: plans
/// are compared with a model that computes as much.
pub(crate) fn extended<'m>(given: &'m Module, claims: &Claims) -> Cow<'m, Module> {
    if claims.outputs().next().is_none() && claims.last_rows().next().is_none() {
        return Cow::Borrowed(given);
    }
    let mut module = given.clone();
    for row in claims.last_rows() {
        last_token::cut(&mut module, &row.output, Some(&row.whole), row.axis);
    }
    let mut named: BTreeMap<String, Value> =
        module.values().iter().map(|(value, data)| (data.name.clone(), value)).collect();
    for output in claims.outputs() {
        append(&mut module, output, &mut named);
    }
    memc_ops::infer(&mut module);
    Cow::Owned(module)
}

/// Appends the nodes of an output and the output itself.
fn append(module: &mut Module, output: &NewOutput, named: &mut BTreeMap<String, Value>) {
    let main = module.main();
    let mut outputs = module.graph(main).outputs.clone();
    let mut rewriter = Rewriter::new(module);
    for StatedNode { operator, inputs, outputs, attributes } in &output.nodes {
        let operands = inputs.iter().map(|name| named.get(name).copied()).collect();
        let new = memc_edit::node(output.by, operator.clone(), operands, attributes.clone());
        let results: Vec<_> = outputs
            .iter()
            .map(|name| (!name.is_empty()).then(|| (name.clone(), ValueType::Unknown)))
            .collect();
        let node = rewriter.insert(main, None, new, &results);
        let made = rewriter.module().node(node).outputs.clone();
        named.extend(outputs.iter().cloned().zip(made).filter_map(|(name, value)| Some((name, value?))));
    }
    outputs.extend(named.get(&output.name));
    rewriter.set_outputs(main, outputs);
    rewriter.finish();
}
