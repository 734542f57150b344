//! Checks that a model fits at points of its domain; ranges near others at which it does.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Domain, Module, Range, TensorType};
use memc_ops::Inference;

use crate::error::ImportError;
use crate::ties;

/// Most points of the domain at which the model is checked.
const MAX_POINTS: usize = 24;

/// Steps that may be proposed: networks halve images up to five times, a few six times.
const STEPS: [u64; 6] = [2, 4, 8, 16, 32, 64];
/// Numbers of extents that may be skipped: a frame of sound has 400 to 2,048 samples.
const SKIPS: [u64; 12] = [2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 4096];

/// Single extents that may be proposed in place of a range, beside those that the model states: multiples of
/// this number up to the largest, as images are high.
const MULTIPLE: u64 = 16;
const MAX_MULTIPLE: u64 = 512;
/// Most nodes of models for which ranges are tried before they are proposed.
const MAX_NODES: usize = 2000;

/// Returns ranges for the open symbols of a module before inference: the usual ones, or those near them at
/// which the model fits. Takes up to some hundred inferences; a large model gets the usual ones.
pub(crate) fn fitting(stated: &Module, usual: Domain) -> Domain {
    if stated.graph(stated.main()).nodes.len() > MAX_NODES {
        return usual;
    }
    let mut stated = stated.clone();
    stated.set_domain(usual.clone());
    let mut module = stated.clone();
    let inference = memc_ops::infer(&mut module);
    let fits = |domain: &Domain| {
        points(domain).iter().all(|point| check_at(point, &stated, &module, &inference).is_ok())
    };
    if fits(&usual) {
        return usual;
    }
    near(&stated, &usual, &fits).unwrap_or(usual)
}

/// Checks that sizes are possible, and that every operator fits its operands, at corners of the domain and
/// at points between them. `stated` is the module before inference. Takes up to 24 inferences of the
/// module, and ten to twenty times as many if an operator does not fit.
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
    let check = |domain: &Domain| {
        points(domain).iter().try_for_each(|point| check_at(point, stated, module, inference))
    };
    check(domain).map_err(|mut error| {
        match &mut error {
            ImportError::Contradiction { proposal, .. } => {
                *proposal = ties::pairs(stated).iter().map(ties::Tie::option).collect()
            }
            ImportError::Negative { .. } => {}
            _ => return error,
        }
        if let ImportError::Contradiction { proposal, .. } | ImportError::Negative { proposal, .. } =
            &mut error
            && proposal.is_empty()
        {
            let found = near(stated, domain, &|domain| check(domain).is_ok());
            *proposal = found.map(|found| changed(domain, &found)).unwrap_or_default();
        }
        error
    })
}

fn check_at(
    point: &BTreeMap<String, u64>,
    stated: &Module,
    module: &Module,
    inference: &Inference,
) -> Result<(), ImportError> {
    let at = || point.iter().map(|(name, extent)| format!("`--dim {name}={extent}`")).collect();
    for (_, data) in module.values().iter() {
        let dims = data.ty.tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default();
        let negative =
            |dim: &memc_ir::Dim| dim.expr()?.bind(point)?.as_constant().filter(|extent| *extent < 0);
        if let Some(extent) = dims.iter().find_map(negative) {
            let shape = data.ty.tensor().map(TensorType::to_string).unwrap_or_default();
            return Err(ImportError::Negative {
                at: at(),
                name: data.name.clone(),
                shape,
                extent,
                proposal: Vec::new(),
            });
        }
    }
    let mut bound = stated.at(point);
    let found = memc_ops::infer(&mut bound);
    let new = found.refused.iter().find(|(node, _)| !inference.refused.contains_key(*node));
    match new {
        None => Ok(()),
        Some((node, reason)) => {
            let line = memc_ir::text::print_node(&bound, *node).trim().to_owned();
            Err(ImportError::Contradiction {
                bindings: at(),
                reason: reason.clone(),
                line,
                proposal: Vec::new(),
            })
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

/// Returns ranges at which the model fits: those that begin later or, if none does, that have a larger step,
/// or one of them a single extent.
fn near(stated: &Module, domain: &Domain, fits: &dyn Fn(&Domain) -> bool) -> Option<Domain> {
    narrowed(domain, fits).or_else(|| with_one_extent(stated, domain, fits))
}

/// Returns the domain with a single extent in place of the range of one symbol.
fn with_one_extent(stated: &Module, domain: &Domain, fits: &dyn Fn(&Domain) -> bool) -> Option<Domain> {
    let constants = stated.graph(stated.main()).constants.iter();
    let dims = constants.filter_map(|value| stated.ty(*value).tensor()?.known_dims());
    let mut extents: BTreeSet<u64> = dims.flatten().collect();
    extents.extend((MULTIPLE..=MAX_MULTIPLE).step_by(MULTIPLE as usize));
    let of_one = |(name, range): (&String, &Range)| {
        let inside = extents.iter().filter(|extent| {
            range.count() != Some(1) && **extent >= range.min && range.max.is_none_or(|max| **extent <= max)
        });
        let (name, inside): (String, Vec<u64>) = (name.clone(), inside.copied().collect());
        inside.into_iter().find_map(|extent| {
            let mut other = domain.clone();
            other.ranges.insert(name.clone(), Range::only(extent));
            fits(&other).then_some(other)
        })
    };
    domain.ranges.iter().find_map(of_one)
}

/// Returns the ranges that differ from those of another domain, as options.
fn changed(domain: &Domain, found: &Domain) -> Vec<String> {
    let changed = found.ranges.iter().filter(|(name, range)| domain.ranges.get(*name) != Some(range));
    changed.map(|(name, range)| format!("`--dim {name}={}`", shown(range))).collect()
}

/// Returns a range as an option states it.
pub(crate) fn shown(range: &Range) -> String {
    if range.count() == Some(1) { range.min.to_string() } else { range.to_string() }
}

/// Returns ranges at which the model fits: those that begin later or, if none does, that have a larger step.
/// Few ranges change, and by little.
fn narrowed(domain: &Domain, fits: &dyn Fn(&Domain) -> bool) -> Option<Domain> {
    let each = |change: &dyn Fn(Range) -> Range| {
        let mut changed = domain.clone();
        changed.ranges.values_mut().for_each(|range| *range = change(*range));
        changed
    };
    let later = SKIPS.iter().map(|count| (*count, each(&|range| begun_later(range, *count))));
    let stepped = STEPS.iter().map(|step| (1, each(&|range| multiples(range, *step))));
    let (most, mut found) = later.chain(stepped).find(|(_, changed)| fits(changed))?;
    for (name, range) in &domain.ranges {
        let with = |range: Range, found: &Domain| {
            let mut other = found.clone();
            other.ranges.insert(name.clone(), range);
            Some(other).filter(fits)
        };
        // Skip as few extents as possible; ranges with a larger step come back whole or not at all.
        let (mut least, mut enough) = (0, most);
        while least < enough {
            let skipped = least.midpoint(enough);
            match with(begun_later(*range, skipped), &found) {
                Some(other) => (found, enough) = (other, skipped),
                None => least = skipped + 1,
            }
        }
    }
    Some(found)
}

/// Returns a range without its first extents; a range with fewer of them comes back as it is.
fn begun_later(range: Range, skipped: u64) -> Range {
    let is_long = range.count().is_none_or(|count| count > skipped);
    if is_long { Range { min: range.min + skipped * range.step, ..range } } else { range }
}

/// Returns the multiples of a step in a range of all extents; another range, or one without a multiple,
/// comes back as it is.
fn multiples(range: Range, step: u64) -> Range {
    let (min, max) = (range.min.div_ceil(step).saturating_mul(step), range.max.map(|max| max - max % step));
    let is_open = range.step == 1 && range.count() != Some(1) && max.is_none_or(|max| min <= max);
    if is_open { Range { min, max, step: if max == Some(min) { 1 } else { step } } } else { range }
}
