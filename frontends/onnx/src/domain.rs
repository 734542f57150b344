//! Ranges of dimensions: equations between symbols, and checks that the model fits all extents.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, Domain, Module, TensorType, Value};
use memc_ops::Inference;

use crate::ImportOptions;
use crate::bindings::{Bindings, By, UNNAMED};
use crate::error::ImportError;

/// Most points of the domain at which the model is checked.
const MAX_POINTS: usize = 12;

/// Returns the expression of each symbol that the options equate with one, with bound symbols replaced. A
/// symbol whose expression is a number then is bound.
///
/// A symbol of results alone, in `inner`, may be equated too.
///
/// # Errors
/// The expression has a symbol that the model lacks, or one that is itself equated; or the symbol has
/// extents of its own, or a negative extent.
pub(crate) fn equations(
    options: &ImportOptions,
    known: &BTreeSet<String>,
    inner: &BTreeSet<String>,
    bindings: &mut Bindings,
) -> Result<BTreeMap<String, DimExpr>, ImportError> {
    let bound = bindings.dims();
    let mut open = BTreeMap::new();
    for (name, of) in &options.equal {
        let symbols: BTreeSet<String> = of.symbols().iter().map(ToString::to_string).collect();
        for symbol in symbols.iter().chain([name]) {
            if !known.contains(symbol) && (symbol != name || !inner.contains(symbol)) {
                return Err(ImportError::UnknownDimension { name: symbol.clone(), known: known.iter().cloned().collect() });
            }
        }
        if symbols.iter().any(|symbol| options.equal.contains_key(symbol)) {
            return Err(ImportError::Equation { name: name.clone(), of: of.to_string() });
        }
        if options.ranges.contains_key(name) {
            return Err(ImportError::EqualRange { name: name.clone(), of: of.to_string() });
        }
        let of = of.bind(&bound).unwrap_or_else(|| of.clone());
        match of.as_constant().map(u64::try_from) {
            None => drop(open.insert(name.clone(), of)),
            // Inference finds the extents of results.
            Some(Ok(_)) if !known.contains(name) => {}
            Some(Ok(extent)) => bindings.add(name, extent, By::Option { name: name.clone() })?,
            Some(Err(_)) => return Err(ImportError::EqualNegative { name: name.clone(), extent: of.to_string() }),
        }
    }
    Ok(open)
}

/// Replaces symbols by the expressions that they equal.
pub(crate) fn substitute(module: &mut Module, equal: &BTreeMap<String, DimExpr>) {
    let values: Vec<Value> = module.values().keys().filter(|_| !equal.is_empty()).collect();
    for value in values {
        let ty = module.ty(value).map_dims(&|dim| dim.substitute(equal));
        module.set_type(value, ty);
    }
}

/// Returns the extents that the unbound symbols may have. Symbols of unnamed dimensions take the range of
/// `?`.
///
/// # Errors
/// A range or limit has no symbol, a bound symbol lies outside its range, or no extents keep all limits.
pub(crate) fn domain(
    options: &ImportOptions,
    known: &BTreeSet<String>,
    unnamed: &BTreeSet<String>,
    bound: &BTreeMap<String, u64>,
    equal: &BTreeMap<String, DimExpr>,
) -> Result<Domain, ImportError> {
    let unknown = |name: &str| ImportError::UnknownDimension { name: name.to_owned(), known: known.iter().cloned().collect() };
    let mut domain = Domain::default();
    if let Some(range) = options.ranges.get(UNNAMED) {
        let open = unnamed.iter().filter(|name| !bound.contains_key(*name));
        domain.ranges.extend(open.map(|name| (name.clone(), *range)));
    }
    for (name, range) in options.ranges.iter().filter(|(name, _)| *name != UNNAMED) {
        if !known.contains(name) {
            return Err(unknown(name));
        }
        match bound.get(name) {
            None => drop(domain.ranges.insert(name.clone(), *range)),
            Some(extent) if range.contains(*extent) => {}
            Some(extent) => {
                return Err(ImportError::Range { dimension: name.clone(), extent: *extent, range: *range });
            }
        }
    }
    for limit in &options.limits {
        if let Some(symbol) = limit.of.symbols().iter().find(|symbol| !known.contains(symbol.as_ref())) {
            return Err(unknown(symbol));
        }
        let of = limit.of.bind(bound).and_then(|of| of.substitute(equal)).unwrap_or_else(|| limit.of.clone());
        match of.as_constant() {
            None => domain.limits.push(memc_ir::Limit { of, most: limit.most }),
            Some(value) if i128::from(value) <= i128::from(limit.most) => {}
            Some(_) => return Err(ImportError::NoExtents { limits: vec![limit.to_string()] }),
        }
    }
    if !domain.limits.is_empty() && domain.most(&DimExpr::constant(0)).is_none() {
        let limits = domain.limits.iter().map(ToString::to_string).collect();
        return Err(ImportError::NoExtents { limits });
    }
    Ok(domain)
}

/// Checks that sizes are possible, and that every operator fits its operands, at corners of the domain.
/// `stated` is the module before inference. Takes a few inferences of the module.
///
/// # Errors
/// An extent is negative, a size is impossible, or an operator does not fit.
pub(crate) fn check(stated: &Module, module: &Module, inference: &Inference) -> Result<(), ImportError> {
    if module.domain().is_empty() {
        return Ok(());
    }
    for (value, data) in module.values().iter() {
        let largest = module.largest(value).filter(|largest| largest.element.bits().is_some());
        if let Some(largest) = largest.filter(|largest| largest.size().is_none()) {
            return Err(ImportError::TooLarge { name: data.name.clone(), shape: largest.to_string() });
        }
    }
    points(module.domain()).into_iter().try_for_each(|point| check_at(&point, stated, module, inference))
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
            Err(ImportError::Contradiction { bindings: at(), reason: reason.clone(), line })
        }
    }
}

/// Returns corners of a domain: all symbols at their smallest extents, all at their largest, and each
/// alone at its largest, as far as limits allow.
fn points(domain: &Domain) -> Vec<BTreeMap<String, u64>> {
    let least: BTreeMap<String, u64> = domain.ranges.iter().map(|(name, range)| (name.clone(), range.min)).collect();
    let most: BTreeMap<String, u64> =
        domain.ranges.iter().map(|(name, range)| (name.clone(), range.max.unwrap_or(range.min))).collect();
    let alone = most.iter().map(|(name, extent)| {
        let mut point = least.clone();
        point.insert(name.clone(), *extent);
        point
    });
    let mut all: Vec<BTreeMap<String, u64>> = [least.clone(), most.clone()].into_iter().chain(alone).collect();
    all.sort();
    all.dedup();
    all.retain(|point| domain.contains(point));
    all.truncate(MAX_POINTS);
    all
}
