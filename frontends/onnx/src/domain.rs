//! Ranges of dimensions, and equations between symbols.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Dim, DimExpr, Domain, Module, Value, ValueType};

use crate::ImportOptions;
use crate::bindings::{Bindings, By, UNNAMED};
use crate::error::ImportError;

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
                return Err(ImportError::UnknownDimension {
                    name: symbol.clone(),
                    known: known.iter().cloned().collect(),
                });
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
            Some(Err(_)) => {
                return Err(ImportError::EqualNegative { name: name.clone(), extent: of.to_string() });
            }
        }
    }
    Ok(open)
}

/// Returns the unnamed dimensions that take the range of `?`: these are open, and have neither a range nor an
/// equation of their own.
fn ranged<'a>(options: &'a ImportOptions, unnamed: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
    let is_own = |name: &&String| options.ranges.contains_key(*name) || options.equal.contains_key(*name);
    unnamed.iter().filter(move |name| options.ranges.contains_key(UNNAMED) && !is_own(name))
}

/// Returns the symbol that each unnamed dimension equals if they take the range of `?`: one variable for all,
/// the first of them. Most such models leave the batch of each input without a name.
pub(crate) fn tied(
    options: &ImportOptions,
    unnamed: &BTreeSet<String>,
    bindings: &Bindings,
) -> BTreeMap<String, DimExpr> {
    let bound = bindings.dims();
    let mut open = ranged(options, unnamed).filter(|name| !bound.contains_key(*name));
    let Some(first) = open.next() else { return BTreeMap::new() };
    open.map(|name| (name.clone(), DimExpr::symbol(first))).collect()
}

/// Replaces symbols by the expressions that they equal.
pub(crate) fn substitute(module: &mut Module, equal: &BTreeMap<String, DimExpr>) {
    let values: Vec<Value> = module.values().keys().filter(|_| !equal.is_empty()).collect();
    for value in values {
        let ty = module.ty(value).map_dims(&|dim| dim.substitute(equal));
        module.set_type(value, ty);
    }
}

/// Returns the extents that the unbound symbols may have. The first symbol of unnamed dimensions takes the
/// range of `?`, and the others equal it.
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
    let unknown = |name: &str| ImportError::UnknownDimension {
        name: name.to_owned(),
        known: known.iter().cloned().collect(),
    };
    let mut domain = Domain::default();
    if let Some(range) = options.ranges.get(UNNAMED) {
        let open =
            ranged(options, unnamed).filter(|name| !bound.contains_key(*name) && !equal.contains_key(*name));
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

/// Returns the symbols of a tensor type.
pub(crate) fn symbols(ty: &ValueType) -> Vec<String> {
    let dims = ty.tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default();
    let all = dims.iter().filter_map(|dim| match dim {
        Dim::Symbolic(expr) => Some(expr.symbols()),
        _ => None,
    });
    all.flatten().map(|symbol| symbol.to_string()).collect()
}
