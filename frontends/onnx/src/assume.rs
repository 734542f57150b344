//! Sizes that the user states with `--assume`: planning uses them, rewrites do not rely on them.

use std::collections::BTreeMap;

use memc_ir::{Module, Value, ValueType, nearest};

use crate::ImportOptions;
use crate::error::ImportError;

/// Records a planned type for each value that has no size without assumptions. The types follow from
/// `--assume` and from extents of symbols that no graph input has.
///
/// `stated` is the module before inference.
pub(crate) fn assume(
    stated: &Module,
    module: &mut Module,
    options: &ImportOptions,
) -> Result<(), ImportError> {
    if options.assume.is_empty() && options.dims.keys().all(|name| module.dims.contains_key(name)) {
        return Ok(());
    }
    let mut assumed = stated.at(&options.dims);
    let main = stated.graph(stated.main());
    let results = main.nodes.iter().flat_map(|node| stated.node(*node).results());
    let named: BTreeMap<&str, Value> = main
        .inputs
        .iter()
        .copied()
        .chain(results)
        .map(|value| (stated.value(value).name.as_str(), value))
        .collect();
    let mut assumptions = BTreeMap::new();
    for (name, assumption) in &options.assume {
        let Some(value) = named.get(name.as_str()) else {
            let nearest = nearest(name, named.keys().copied()).map(str::to_owned);
            return Err(ImportError::UnknownAssumed { name: name.clone(), nearest });
        };
        assumptions.insert(*value, assumption.clone());
    }
    let inference = memc_ops::infer_assuming(&mut assumed, &assumptions);
    if let Some((value, why)) = inference.impossible {
        let assumed = assumptions.get(&value).map(ToString::to_string).unwrap_or_default();
        return Err(ImportError::Assumption { name: stated.value(value).name.clone(), assumed, why });
    }
    for value in named.values() {
        if let (None, ValueType::Tensor(tensor)) = (module.ty(*value).size(), assumed.ty(*value))
            && tensor.size().is_some()
        {
            module.assumed.insert(*value, tensor.clone());
        }
    }
    Ok(())
}
