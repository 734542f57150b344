//! ONNX model bytes to the intermediate representation.
//!
//! [`import`] turns an opened [`ModelFile`] into a [`Module`] at stage `Typed`: names become ids, model-local functions are inlined into
//! the main graph, initializers become references to the file's bytes, and types are derived. External data is never opened. What
//! cannot be a model ends in one [`ImportError`]; what is merely odd ends in diagnostics beside the module.

mod assume;
mod bind;
mod bindings;
mod constant;
mod error;
mod feed;
mod function;
mod graph;
mod location;
mod names;
mod order;
mod repeated;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memc_ir::{Diagnostic, Module, SecondaryMap, Stage, Value};
use memc_onnx_proto::ModelFile;
use memc_ops::{Assumption, Data};

pub use error::ImportError;

/// Newest `ir_version` that memc has seen.
pub const NEWEST_IR_VERSION: i64 = 14;
/// Newest version of ONNX's own operator set that the operator table covers.
pub const NEWEST_OPSET: i64 = 28;

/// What the user decides at import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Extents of symbolic dimensions; an unnamed dimension of input `x` at axis 0 is called `x.0`, and `?` is all unnamed ones. Those that no graph
    /// input has are assumed: sizes of values that the file states by them.
    pub dims: BTreeMap<String, u64>,
    /// Extents of arrays that the caller has for graph inputs, by the names of those: they bind dimensions, too.
    pub feed: BTreeMap<String, Vec<u64>>,
    /// Sizes that values of the main graph are planned with although only a run tells them.
    pub assume: BTreeMap<String, Assumption>,
    /// Accept graph inputs whose dimensions stay symbolic: what depends on them has no size.
    pub allow_unbound: bool,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// The module, at stage `Typed`.
    pub module: Module,
    /// Elements of small tensors that steer shapes, where they are known.
    pub data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// What is odd about the model.
    pub diagnostics: Vec<Diagnostic>,
}

/// Imports a model.
///
/// Linear in the size of the graph; weights are not read.
///
/// # Errors
/// The first thing that keeps the file from being a model; see [`ImportError`].
pub fn import(file: &ModelFile, options: &ImportOptions) -> Result<Imported, ImportError> {
    let graph::Built { mut module, mut diagnostics } = graph::build(file)?;
    let (bindings, remarks) = bind::bind(&mut module, options)?;
    diagnostics.extend(remarks);
    let stated = module.clone();
    let inference = memc_ops::infer(&mut module);
    if !inference.refused.is_empty() && !module.dims.is_empty() {
        bind::check_bindings(graph::build(file)?.module, &module, &inference, &bindings)?;
    }
    bind::check_sizes(&module)?;
    bind::check_defaults(&module)?;
    if inference.has_claims {
        module.claimed = memc_ops::claimed(&stated, &module);
    }
    assume::assume(&stated, &mut module, options)?;
    module.stage = Stage::Typed;
    diagnostics.extend(inference.diagnostics);
    Ok(Imported { module, data: inference.data, diagnostics })
}

/// Names of the dimensions that the graph inputs of a model leave open, as [`ImportOptions::dims`] binds them.
///
/// # Errors
/// See [`import`].
pub fn open_dimensions(file: &ModelFile) -> Result<BTreeSet<String>, ImportError> {
    Ok(bind::open(graph::build(file)?.module))
}
