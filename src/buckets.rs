//! Offsets for smaller largest extents: a placement for each combination of the listed extents.

use std::collections::BTreeMap;

use memc_ir::Module;
use memc_layout as file;
use memc_onnx_export::Exported;
use memc_passes::{PassContext, Pipeline, Silent};
use memc_plan::registry::REGISTRY;

use crate::error::Error;
use crate::layout::{Context, offsets};
use crate::request::Resolved;

/// Pass that places the buffers of an ordered module.
const PLACE: &str = "place";

/// Returns offsets for each combination of listed extents, with the order and the aliases of the plan.
///
/// # Errors
/// A placement fails.
pub(crate) fn buckets(
    module: &Module,
    exported: &Exported,
    context: &Context<'_>,
    options: &Resolved<'_>,
) -> Result<Vec<file::Bucket>, Error> {
    let domain = module.domain();
    // A range may end before the largest listed extent, where a limit leaves it out.
    let within = |(name, list): (&String, &Vec<u64>)| {
        let most = domain.ranges.get(name)?.max.unwrap_or(u64::MAX);
        let mut list: Vec<u64> = list.iter().map(|extent| (*extent).min(most)).collect();
        list.dedup();
        Some((name.clone(), list))
    };
    let lists = options.request.buckets.iter().filter_map(within);
    let mut all: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new()];
    for (name, list) in lists {
        let with = |dims: &BTreeMap<String, u64>, most: u64| {
            let mut dims = dims.clone();
            dims.insert(name.clone(), most);
            dims
        };
        all = all.iter().flat_map(|dims| list.iter().map(move |most| with(dims, *most))).collect();
    }
    let all = all.into_iter().filter(|dims| !dims.is_empty());
    all.map(|dims| bucket(module, exported, context, options, dims)).collect()
}

/// Places the plan for extents up to `dims`.
fn bucket(
    module: &Module,
    exported: &Exported,
    context: &Context<'_>,
    options: &Resolved<'_>,
    dims: BTreeMap<String, u64>,
) -> Result<file::Bucket, Error> {
    let is_whole = |(name, most): (&String, &u64)| {
        module.domain().ranges.get(name).is_none_or(|range| range.max == Some(*most))
    };
    if dims.iter().all(is_whole) {
        // The plan itself: a second placement could only differ.
        let (arenas, offsets) = offsets(module, exported, context);
        return Ok(file::Bucket { dims, arenas, offsets });
    }
    let (mut narrow, mut domain) = (module.clone(), module.domain().clone());
    for (name, most) in &dims {
        if let Some(range) = domain.ranges.get_mut(name) {
            range.max = Some(*most);
        }
    }
    narrow.set_domain(domain);
    let mut ctx = PassContext::new(&options.plan, memc_ir::SecondaryMap::default());
    Pipeline::parse(PLACE, narrow.stage, REGISTRY)?.run(
        &mut narrow,
        &mut ctx,
        options.request.verify,
        &mut Silent,
    )?;
    let (arenas, offsets) = offsets(&narrow, exported, context);
    Ok(file::Bucket { dims, arenas, offsets })
}
