//! Caches that grow: finds the dimensions that grow with them, and keeps each cache in one buffer.

use std::collections::BTreeMap;

use memc_ir::{Diagnostic, Dim, DimExpr, Limit, Module, Range, Ranges, Value};
use memc_onnx_import::{ImportError, ImportOptions, Imported, import};
use memc_onnx_proto::ModelFile;
use memc_passes::buffer::CacheError;
use memc_passes::cache::{self, is_growing, past_of};
use memc_passes::{Claims, Options, PassContext, PassError, Pipeline, PipelineError, Silent};
use memc_plan::registry::REGISTRY;

use crate::error::Error;
use crate::request::{Known, Request};

/// Most dimensions beside that of the rows that are tried as dimensions that grow with it.
const MAX_TIED: usize = 6;

/// A model with each cache in one buffer.
pub(crate) struct Kept {
    pub(crate) module: Module,
    pub(crate) data: Known,
    pub(crate) claims: Claims,
    pub(crate) remarks: Vec<Diagnostic>,
    /// Dimensions that equal expressions over free dimensions: those of the request, and those that follow
    /// from the capacity.
    pub(crate) equal: BTreeMap<String, DimExpr>,
}

/// Options to import a model whose rows are free, and the extents of its symbols with full buffers.
struct Rows {
    import: ImportOptions,
    growing: BTreeMap<String, DimExpr>,
    /// Dimensions that equal expressions over symbols that grow, with their extents with full buffers.
    tied: BTreeMap<String, DimExpr>,
}

/// Keeps the caches of the pairs whose types differ in one buffer each; `None` if all pairs are of one
/// type.
///
/// # Errors
/// A pair is no growing concatenation, or a node needs the exact number of rows.
pub(crate) fn keep(
    file: &ModelFile,
    request: &Request,
    options: &mut Options,
    given: &Module,
) -> Result<Option<Kept>, Error> {
    let pairs = growing(given, options);
    if pairs.is_empty() {
        return Ok(None);
    }
    let Rows { import: open, growing, tied } = match given.domain().is_empty() {
        true => bound_rows(file, request, given, &pairs)?,
        false => free_rows(file, request, given, &pairs)?,
    };
    let Imported { mut module, data, equal, .. } = import(file, &open)?;
    options.growing = growing.clone();
    let (data, mut claims, remarks) = {
        let mut ctx = PassContext::new(options, data);
        Pipeline::parse(cache::INFO.name, module.stage, REGISTRY)?.run(
            &mut module,
            &mut ctx,
            request.verify,
            &mut Silent,
        )?;
        (ctx.data, ctx.said.claims, ctx.said.remarks)
    };
    let fixed =
        tied.iter().filter_map(|(name, of)| Some((name.clone(), u64::try_from(of.as_constant()?).ok()?)));
    module.dims.extend(fixed);
    for cache in claims.caches_mut() {
        cache.grows.extend(tied.clone());
    }
    let grows = |of: &DimExpr| of.symbols().iter().any(|symbol| growing.contains_key(symbol.as_ref()));
    let others = equal.into_iter().filter(|(_, of)| !grows(of));
    let equal = others.chain(growing.clone()).chain(tied).collect();
    options.growing.clear();
    // Sizes that depend on the number of rows alone are known now.
    (module.claimed, module.assumed) = (given.claimed.clone(), given.assumed.clone());
    Ok(Some(Kept { module, data, claims, remarks, equal }))
}

/// Returns options that leave the rows of a model with bound dimensions free.
fn bound_rows(
    file: &ModelFile,
    request: &Request,
    given: &Module,
    pairs: &[(Value, Value)],
) -> Result<Rows, Error> {
    let growing = symbols(file, given, pairs)?;
    let import = match growing.is_empty() {
        true => request.import.clone(),
        false => {
            let bound = given.dims.iter().filter(|(name, _)| !growing.contains_key(*name));
            let dims = bound.map(|(name, extent)| (name.clone(), *extent)).collect();
            let ranges = ranges(&growing);
            ImportOptions {
                dims,
                ranges,
                allow_unbound: true,
                feed: BTreeMap::new(),
                ..request.import.clone()
            }
        }
    };
    let number =
        |extent: u64| i64::try_from(extent).map_or_else(|_| DimExpr::constant(i64::MAX), DimExpr::constant);
    let growing = growing.into_iter().map(|(name, extent)| (name, number(extent))).collect();
    Ok(Rows { import, growing, tied: BTreeMap::new() })
}

/// Returns options that leave the rows of a model with free dimensions free. A full buffer has the largest
/// number of rows after a run; so the rows before it are the capacity without the new rows.
fn free_rows(
    file: &ModelFile,
    request: &Request,
    given: &Module,
    pairs: &[(Value, Value)],
) -> Result<Rows, Error> {
    let open = import(file, &ImportOptions { allow_unbound: true, ..ImportOptions::default() })?.module;
    let refuse =
        |why: String| Error::from(PipelineError::from(PassError::from(CacheError::Together { why })));
    let mut growing: BTreeMap<String, DimExpr> = BTreeMap::new();
    let mut import = ImportOptions { allow_unbound: true, feed: BTreeMap::new(), ..request.import.clone() };
    import.dims = given
        .dims
        .iter()
        .filter(|(name, _)| !import.equal.contains_key(*name))
        .map(|(k, v)| (k.clone(), *v))
        .collect();
    let domain = given.domain();
    for (old, new) in pairs {
        let dim = |module: &Module, value: Value, axis: usize| {
            module.ty(value).tensor()?.shape.as_ref()?.get(axis)?.expr()
        };
        let types = given.ty(*old).tensor().zip(given.ty(*new).tensor());
        let Some(axis) = types.and_then(|(old, new)| past_of(old, new)) else { continue };
        let symbol = dim(&open, *old, axis).and_then(|dim| dim.as_symbol().map(str::to_owned));
        let (Some(symbol), Some(before), Some(after)) =
            (symbol, dim(given, *old, axis), dim(given, *new, axis))
        else {
            continue;
        };
        // A limit on the rows states their largest number; other bounds may be a little larger.
        let limited = domain.limits.iter().filter(|limit| limit.of == after).map(|limit| limit.most.into());
        let most =
            domain.most(&after).into_iter().chain(limited).min().and_then(|most| i64::try_from(most).ok());
        let Some((capacity, rows)) = most.zip(after.sub(&before)) else {
            return Err(refuse(format!(
                "no largest number of rows is known: state it with `--dim {symbol}=0..1023`"
            )));
        };
        let least = rows.lower_bound(&domain.ranges).and_then(|least| u64::try_from(least).ok()).unwrap_or(0);
        let most = capacity.unsigned_abs().saturating_sub(least);
        let Some(past) = DimExpr::constant(capacity).sub(&rows) else { continue };
        import.dims.remove(&symbol);
        import.ranges.insert(symbol.clone(), Range { min: 0, max: Some(most), step: 1 });
        import.limits.extend(
            DimExpr::symbol(&symbol).add(&rows).map(|of| Limit { of, most: capacity.unsigned_abs() }),
        );
        growing.insert(symbol, past);
    }
    // The capacity replaces all other limits on rows.
    let grows = |of: &DimExpr| of.symbols().iter().any(|symbol| growing.contains_key(symbol.as_ref()));
    let given_limits = request.import.limits.len();
    let mut at = 0;
    import.limits.retain(|limit| {
        at += 1;
        at > given_limits || !grows(&limit.of)
    });
    let inputs = memc_onnx_import::open_dimensions(file)?;
    let tied = import.equal.iter().filter(|(name, of)| grows(of) && inputs.contains(*name));
    let tied = tied
        .filter_map(|(name, of)| Some((name.clone(), of.bind(&import.dims)?.substitute(&growing)?)))
        .collect();
    Ok(Rows { import, growing, tied })
}

/// Returns the ranges of dimensions that grow, from an empty buffer to a full one.
fn ranges(growing: &BTreeMap<String, u64>) -> Ranges {
    let most = growing.values().copied().min().unwrap_or(0);
    let range = |extent: u64| Range { min: extent - most, max: Some(extent), step: 1 };
    growing.iter().map(|(name, extent)| (name.clone(), range(*extent))).collect()
}

/// Returns the named pairs whose types differ in one longer axis.
fn growing(module: &Module, options: &Options) -> Vec<(Value, Value)> {
    let main = module.graph(module.main());
    let find =
        |values: &[Value], name: &str| values.iter().copied().find(|value| module.value(*value).name == name);
    let pairs = options
        .state
        .iter()
        .filter_map(|pair| Some((find(&main.inputs, &pair.old)?, find(&main.outputs, &pair.new)?)));
    let grows = |(old, new): &(Value, Value)| {
        let types = module.ty(*old).tensor().zip(module.ty(*new).tensor());
        types.is_some_and(|(old, new)| is_growing(old, new))
    };
    pairs.filter(grows).collect()
}

/// Returns the symbols that grow with the rows of the caches, with their bound extents. Empty if the file
/// states a number of rows.
fn symbols(
    file: &ModelFile,
    given: &Module,
    pairs: &[(Value, Value)],
) -> Result<BTreeMap<String, u64>, Error> {
    let open = import(file, &ImportOptions { allow_unbound: true, ..ImportOptions::default() })?.module;
    let mut growing = BTreeMap::new();
    let mut lengths = Vec::new();
    for (old, new) in pairs {
        let types = given.ty(*old).tensor().zip(given.ty(*new).tensor());
        let Some(axis) = types.and_then(|(old, new)| past_of(old, new)) else { continue };
        let dims = open.ty(*old).tensor().and_then(|ty| ty.shape.as_ref());
        if let Some(Dim::Symbolic(expr)) = dims.and_then(|dims| dims.get(axis))
            && let Some(symbol) = expr.as_symbol()
            && let Some(extent) = given.dims.get(symbol)
        {
            growing.insert(symbol.to_owned(), *extent);
        }
        lengths.extend(
            types
                .iter()
                .flat_map(|(old, new)| [old, new])
                .filter_map(|ty| ty.known_dims()?.get(axis).copied()),
        );
    }
    tie(file, given, &lengths, &mut growing);
    Ok(growing)
}

/// Adds the dimensions that must grow with the rows: with one row less, the model fits only if they are
/// less by one, too. Their extents are those of the cache before or after a run.
fn tie(file: &ModelFile, given: &Module, lengths: &[u64], growing: &mut BTreeMap<String, u64>) {
    let refused = |growing: &BTreeMap<String, u64>| {
        let less = |(name, extent): (&String, &u64)| {
            (name.clone(), extent.saturating_sub(u64::from(growing.contains_key(name))))
        };
        let dims = given.dims.iter().map(less).collect();
        match import(file, &ImportOptions { dims, allow_unbound: true, ..ImportOptions::default() }) {
            Err(error @ ImportError::Contradiction { .. }) => Some(error.to_string()),
            _ => None,
        }
    };
    let fits = |(_, extent): &(&String, &u64)| lengths.contains(extent);
    let near: Vec<(String, u64)> =
        given.dims.iter().filter(fits).map(|(name, extent)| (name.clone(), *extent)).collect();
    let mut open: Vec<(String, u64)> =
        near.into_iter().filter(|(name, _)| !growing.contains_key(name)).take(MAX_TIED).collect();
    let mut reason = if growing.is_empty() { None } else { refused(growing) };
    while let Some(present) = reason.take() {
        let found = open.iter().position(|(name, extent)| {
            let mut joined = growing.clone();
            joined.insert(name.clone(), *extent);
            refused(&joined).as_ref() != Some(&present)
        });
        let Some(found) = found else { return };
        let (name, extent) = open.remove(found);
        growing.insert(name, extent);
        reason = refused(growing);
    }
}
