//! Checks that a model fits at points of its domain; steps of ranges at which it does.

use std::collections::BTreeMap;

use memc_ir::{Domain, Module, Range, TensorType};
use memc_ops::Inference;

use crate::error::ImportError;

/// Most points of the domain at which the model is checked.
const MAX_POINTS: usize = 24;

/// Steps that may be proposed: networks halve images up to five times, a few six times.
const STEPS: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// Checks that sizes are possible, and that every operator fits its operands, at corners of the domain and
/// at points between them. `stated` is the module before inference. Takes up to 24 inferences of the
/// module, and a few times as many if an operator does not fit.
///
/// # Errors
/// An extent is negative, a size is impossible, or an operator does not fit.
pub(crate) fn check(stated: &Module, module: &Module, inference: &Inference) -> Result<(), ImportError> {
    let domain = module.domain();
    if domain.is_empty() {
        return Ok(());
    }
    for (value, data) in module.values().iter() {
        let largest = module.largest(value).filter(|largest| largest.element.bits().is_some());
        if let Some(largest) = largest.filter(|largest| largest.size().is_none()) {
            return Err(ImportError::TooLarge { name: data.name.clone(), shape: largest.to_string() });
        }
    }
    let check = |domain: &Domain| points(domain).iter().try_for_each(|point| check_at(point, stated, module, inference));
    check(domain).map_err(|error| match error {
        ImportError::Contradiction { bindings, reason, line, .. } => {
            let proposal = stepped(domain, &|domain| check(domain).is_ok());
            ImportError::Contradiction { bindings, reason, line, proposal }
        }
        other => other,
    })
}

fn check_at(point: &BTreeMap<String, u64>, stated: &Module, module: &Module, inference: &Inference) -> Result<(), ImportError> {
    let at = || point.iter().map(|(name, extent)| format!("`--dim {name}={extent}`")).collect();
    for (_, data) in module.values().iter() {
        let dims = data.ty.tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default();
        let negative = |dim: &memc_ir::Dim| dim.expr()?.bind(point)?.as_constant().filter(|extent| *extent < 0);
        if let Some(extent) = dims.iter().find_map(negative) {
            let shape = data.ty.tensor().map(TensorType::to_string).unwrap_or_default();
            return Err(ImportError::Negative { at: at(), name: data.name.clone(), shape, extent });
        }
    }
    let mut bound = stated.at(point);
    let found = memc_ops::infer(&mut bound);
    let new = found.refused.iter().find(|(node, _)| !inference.refused.contains_key(*node));
    match new {
        None => Ok(()),
        Some((node, reason)) => {
            let line = memc_ir::text::print_node(&bound, *node).trim().to_owned();
            Err(ImportError::Contradiction { bindings: at(), reason: reason.clone(), line, proposal: Vec::new() })
        }
    }
}

/// Returns points of a domain, as far as limits allow: all symbols at their smallest extents, all at their
/// largest, each alone at its largest and at its second extent, and points between them.
fn points(domain: &Domain) -> Vec<BTreeMap<String, u64>> {
    let all = |extent: &dyn Fn(&Range) -> u64| -> BTreeMap<String, u64> {
        domain.ranges.iter().map(|(name, range)| (name.clone(), extent(range))).collect()
    };
    let most = |range: &Range| range.max.unwrap_or(range.min);
    let second = |range: &Range| if range.count() == Some(1) { range.min } else { range.min + range.step };
    let least = all(&|range| range.min);
    let alone = domain.ranges.iter().flat_map(|(name, range)| {
        [most(range), second(range)].map(|extent| {
            let mut point = least.clone();
            point.insert(name.clone(), extent);
            point
        })
    });
    let mut points = Vec::new();
    for point in [least.clone(), all(&most)].into_iter().chain(alone).chain(domain.probes()) {
        if domain.contains(&point) && !points.contains(&point) && points.len() < MAX_POINTS {
            points.push(point);
        }
    }
    points
}

/// Returns the ranges, as options, that fit with a larger step: few of them, with the smallest step that
/// serves. Returns none if no step does.
fn stepped(domain: &Domain, fits: &dyn Fn(&Domain) -> bool) -> Vec<String> {
    let steps = STEPS.iter().map(|step| {
        let mut stepped = domain.clone();
        stepped.ranges.values_mut().for_each(|range| *range = multiples(*range, *step));
        stepped
    });
    let Some(mut found) = steps.into_iter().find(|stepped| fits(stepped)) else { return Vec::new() };
    for (name, range) in &domain.ranges {
        let mut fewer = found.clone();
        fewer.ranges.insert(name.clone(), *range);
        if fits(&fewer) {
            found = fewer;
        }
    }
    let changed = found.ranges.iter().filter(|(name, range)| domain.ranges.get(*name) != Some(range));
    changed.map(|(name, range)| format!("`--dim {name}={range}`")).collect()
}

/// Returns the multiples of a step in a range of all extents; another range, or one without a multiple,
/// comes back as it is.
fn multiples(range: Range, step: u64) -> Range {
    let (min, max) = (range.min.div_ceil(step).saturating_mul(step), range.max.map(|max| max - max % step));
    let is_open = range.step == 1 && range.count() != Some(1) && max.is_none_or(|max| min <= max);
    if is_open { Range { min, max, step: if max == Some(min) { 1 } else { step } } } else { range }
}
