//! Baseline of plans: the peaks of the model in the order of its file.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Bytes, Module, Node, Value};
use memc_onnx_proto::ModelFile;
use memc_ops::Profile;
use memc_passes::{PassContext, Pipeline};
use memc_plan::registry::REGISTRY;

use crate::error::Error;
use crate::request::Resolved;

/// Computes the peaks of the input model in file order: views aliased, nothing in place, values that
/// became constants of the plan not counted.
pub(crate) fn baseline(
    file: &ModelFile,
    given: &Module,
    planned: &Module,
    options: &Resolved<'_>,
) -> Result<Baseline, Error> {
    let mut module = given.clone();
    let mut ctx = PassContext::new(&options.plan, Default::default());
    Pipeline::parse("view", module.stage, REGISTRY)?.run(
        &mut module,
        &mut ctx,
        false,
        &mut memc_passes::Silent,
    )?;
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for node in &file.graph().node {
        *count.entry(node.name()).or_default() += 1;
    }
    // Workspace of a node that a rewrite removed is in no entry of the layout.
    let held: BTreeSet<&str> =
        planned.plan.scratch.iter().map(|scratch| planned.node(scratch.node).name.as_str()).collect();
    let named = |node: Node| {
        let name = module.node(node).name.as_str();
        !name.is_empty() && count.get(name) == Some(&1) && held.contains(name)
    };
    let main = planned.graph(planned.main());
    let constants: BTreeSet<&str> =
        main.constants.iter().map(|value| planned.value(*value).name.as_str()).collect();
    let counts = |owner: Value| !constants.contains(module.value(owner).name.as_str());
    // Sizes that only inference of the body gives are left out: not every reader derives them.
    let infos = file.graph().value_info.iter().chain(&file.graph().output);
    let stated: BTreeSet<&str> = infos.filter(|info| has_shape(info)).map(|info| info.name()).collect();
    let plain = |owner: Value| {
        let has_bodies =
            module.producer(owner).is_some_and(|node| module.node(node).bodies().next().is_some());
        // Sizes that the user states are left out too.
        let is_assumed = module.assumed.contains_key(&owner);
        counts(owner) && !is_assumed && (!has_bodies || stated.contains(module.value(owner).name.as_str()))
    };
    Ok(Baseline {
        file_order_peak: memc_plan::own_peak(&module, &options.plan, &Profile::ARENA, named, plain).0,
        own_peak: memc_plan::own_peak(&module, &options.plan, options.plan.profile, |_| true, counts),
        own_need: memc_plan::own_need(&module, &options.plan, counts),
    })
}

/// Whether an entry states all extents.
fn has_shape(info: &memc_onnx_proto::onnx::ValueInfoProto) -> bool {
    use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value::DimValue;
    use memc_onnx_proto::onnx::type_proto::Value::TensorType;
    let Some(TensorType(tensor)) = info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) else {
        return false;
    };
    tensor
        .shape
        .as_ref()
        .is_some_and(|shape| shape.dim.iter().all(|dim| matches!(dim.value, Some(DimValue(_)))))
}

/// Peaks of the file order, with which plans are compared.
pub(crate) struct Baseline {
    /// Bytes without the workspace of nodes that have no unique name: a reader of both files could not
    /// add it.
    pub(crate) file_order_peak: u64,
    /// Bytes with all workspace and with values that the runtime keeps longer than it reads them.
    pub(crate) own_peak: Bytes,
    /// Peak with each buffer in units of the space: 100 % of a size in percent.
    pub(crate) own_need: Bytes,
}
