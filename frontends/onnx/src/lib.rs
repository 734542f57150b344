//! ONNX model bytes to the intermediate representation.
//!
//! [`import`] turns an opened [`ModelFile`] into a [`Module`] at stage `Typed`: names become ids, model-local functions are inlined into
//! the main graph, initializers become references to the file's bytes, and types are derived. External data is never opened. What
//! cannot be a model ends in one [`ImportError`]; what is merely odd ends in diagnostics beside the module.

mod bind;
mod constant;
mod error;
mod function;
mod graph;
mod names;
mod order;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{Diagnostic, Module, SecondaryMap, Stage, Value};
use memc_onnx_proto::ModelFile;
use memc_ops::Data;

pub use error::ImportError;

/// Newest `ir_version` that memc has seen.
pub const NEWEST_IR_VERSION: i64 = 14;
/// Newest version of ONNX's own operator set that the operator table covers.
pub const NEWEST_OPSET: i64 = 28;

/// What the user decides at import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Extents of symbolic dimensions; an unnamed dimension of input `x` at axis 0 is called `x.0`.
    pub dims: BTreeMap<String, u64>,
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
    let mut module = graph::build(file)?;
    let mut diagnostics = bind::bind(&mut module, options)?;
    let inference = memc_ops::infer(&mut module);
    bind::check_sizes(&module)?;
    bind::check_defaults(&module)?;
    module.stage = Stage::Typed;
    diagnostics.extend(inference.diagnostics);
    Ok(Imported { module, data: inference.data, diagnostics })
}
