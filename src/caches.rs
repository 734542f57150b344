//! Caches that grow: finds the dimensions that grow with them, and keeps each cache in one buffer.

use std::collections::BTreeMap;

use memc_ir::{Diagnostic, Dim, Module, Range, Ranges, Value};
use memc_onnx_import::{ImportError, ImportOptions, Imported, import};
use memc_onnx_proto::ModelFile;
use memc_passes::buffer::GrownCache;
use memc_passes::cache::{is_growing, past_of};
use memc_passes::{Options, PassContext, Pipeline, Silent};
use memc_plan::registry::REGISTRY;

use crate::error::Error;
use crate::request::{Known, Request};

/// Pass that keeps caches in one buffer.
const PASS: &str = "cache";
/// Most dimensions beside that of the rows that are tried as dimensions that grow with it.
const MAX_TIED: usize = 6;

/// A model with each cache in one buffer.
pub(crate) struct Kept {
    pub(crate) module: Module,
    pub(crate) data: Known,
    pub(crate) caches: Vec<GrownCache>,
    pub(crate) remarks: Vec<Diagnostic>,
}

/// Keeps the caches of the pairs whose types differ in one buffer each; `None` if all pairs are of one
/// type.
///
/// # Errors
/// A pair is no growing concatenation, or a node needs the exact number of rows.
pub(crate) fn keep(file: &ModelFile, request: &Request, options: &mut Options, given: &Module) -> Result<Option<Kept>, Error> {
    let pairs = growing(given, options);
    if pairs.is_empty() {
        return Ok(None);
    }
    let growing = symbols(file, given, &pairs)?;
    let imported = match growing.is_empty() {
        true => import(file, &request.import)?,
        false => {
            let bound = given.dims.iter().filter(|(name, _)| !growing.contains_key(*name));
            let dims = bound.map(|(name, extent)| (name.clone(), *extent)).collect();
            let ranges = ranges(&growing);
            import(file, &ImportOptions { dims, ranges, allow_unbound: true, feed: BTreeMap::new(), ..request.import.clone() })?
        }
    };
    let Imported { mut module, data, .. } = imported;
    options.growing = growing;
    let (data, caches, remarks) = {
        let mut ctx = PassContext::new(options, data);
        Pipeline::parse(PASS, module.stage, REGISTRY)?.run(&mut module, &mut ctx, request.verify, &mut Silent)?;
        (ctx.data, ctx.said.caches, ctx.said.remarks)
    };
    options.growing.clear();
    // Sizes that depend on the number of rows alone are known now.
    (module.claimed, module.assumed) = (given.claimed.clone(), given.assumed.clone());
    Ok(Some(Kept { module, data, caches, remarks }))
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
    let find = |values: &[Value], name: &str| values.iter().copied().find(|value| module.value(*value).name == name);
    let pairs = options.state.iter().filter_map(|pair| Some((find(&main.inputs, &pair.old)?, find(&main.outputs, &pair.new)?)));
    let grows = |(old, new): &(Value, Value)| {
        let types = module.ty(*old).tensor().zip(module.ty(*new).tensor());
        types.is_some_and(|(old, new)| is_growing(old, new))
    };
    pairs.filter(grows).collect()
}

/// Returns the symbols that grow with the rows of the caches, with their bound extents. Empty if the file
/// states a number of rows.
fn symbols(file: &ModelFile, given: &Module, pairs: &[(Value, Value)]) -> Result<BTreeMap<String, u64>, Error> {
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
        lengths.extend(types.iter().flat_map(|(old, new)| [old, new]).filter_map(|ty| ty.known_dims()?.get(axis).copied()));
    }
    tie(file, given, &lengths, &mut growing);
    Ok(growing)
}

/// Adds the dimensions that must grow with the rows: with one row less, the model fits only if they are
/// less by one, too. Their extents are those of the cache before or after a run.
fn tie(file: &ModelFile, given: &Module, lengths: &[u64], growing: &mut BTreeMap<String, u64>) {
    let refused = |growing: &BTreeMap<String, u64>| {
        let less = |(name, extent): (&String, &u64)| (name.clone(), extent.saturating_sub(u64::from(growing.contains_key(name))));
        let dims = given.dims.iter().map(less).collect();
        match import(file, &ImportOptions { dims, allow_unbound: true, ..ImportOptions::default() }) {
            Err(error @ ImportError::Contradiction { .. }) => Some(error.to_string()),
            _ => None,
        }
    };
    let fits = |(_, extent): &(&String, &u64)| lengths.contains(extent);
    let near: Vec<(String, u64)> = given.dims.iter().filter(fits).map(|(name, extent)| (name.clone(), *extent)).collect();
    let mut open: Vec<(String, u64)> = near.into_iter().filter(|(name, _)| !growing.contains_key(name)).take(MAX_TIED).collect();
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
