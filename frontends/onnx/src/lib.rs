//! The ONNX frontend: converts model bytes to the intermediate representation.
//!
//! [`import`] converts an opened [`ModelFile`] to a [`Module`] at stage `Typed`: names become ids,
//! model-local functions are inlined into the main graph, initializers become references to the bytes
//! of the file, and types are inferred. External data is never opened. A file that is not a valid model
//! gives one [`ImportError`]; oddities give diagnostics next to the module.

mod assume;
mod bind;
mod bindings;
mod constant;
mod domain;
mod error;
mod feed;
mod function;
mod graph;
mod location;
mod names;
mod order;
mod points;
mod repeated;
mod ties;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memc_ir::{Diagnostic, DimExpr, Limit, Module, Ranges, SecondaryMap, Stage, Value};
use memc_onnx_proto::ModelFile;
use memc_ops::{Assumption, Data};

pub use error::ImportError;

/// Newest supported `ir_version`.
pub const NEWEST_IR_VERSION: i64 = 14;
/// Newest version of ONNX's own operator set in the operator table.
pub const NEWEST_OPSET: i64 = 28;

/// User options of the import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Extents of symbolic dimensions. `x.0` names the unnamed dimension of input `x` at axis 0, and
    /// `?` names all unnamed dimensions. A symbol that no graph input has gives assumed sizes to the
    /// values that the file describes with it.
    pub dims: BTreeMap<String, u64>,
    /// Ranges of symbolic dimensions that stay unbound: types hold for all extents in them.
    pub ranges: Ranges,
    /// Symbolic dimensions that equal an expression over others, such as `total=past+seq`.
    pub equal: BTreeMap<String, DimExpr>,
    /// Limits on expressions over symbolic dimensions, such as `height*width<=921600`.
    pub limits: Vec<Limit>,
    /// Extents of the caller's arrays, by names of graph inputs. They bind dimensions too.
    pub feed: BTreeMap<String, Vec<u64>>,
    /// Assumed sizes of main-graph values whose real sizes only a run determines.
    pub assume: BTreeMap<String, Assumption>,
    /// Whether graph inputs may stay symbolic. Values that depend on them have no size.
    pub allow_unbound: bool,
    /// Whether an earlier import of the model with these options found that it fits its ranges. Trying points
    /// of them again takes most of an import.
    pub fits: bool,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// The module, at stage `Typed`.
    pub module: Module,
    /// Elements of small tensors that determine shapes, if known.
    pub data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Warnings and remarks about the model.
    pub diagnostics: Vec<Diagnostic>,
    /// Symbols that equal an expression over others: those of the options, and further unnamed dimensions.
    pub equal: BTreeMap<String, DimExpr>,
}

/// Imports a model.
///
/// Linear in the size of the graph; weights are not read.
///
/// # Errors
/// The first problem found; see [`ImportError`].
pub fn import(file: &ModelFile, options: &ImportOptions) -> Result<Imported, ImportError> {
    let graph::Built { mut module, mut diagnostics } = graph::build(file)?;
    let bind::Bound { bindings, tied, diagnostics: remarks } = bind::bind(&mut module, options)?;
    diagnostics.extend(remarks);
    let equal = options
        .equal
        .iter()
        .map(|(name, of)| (name.clone(), of.substitute(&tied).unwrap_or_else(|| of.clone())));
    let equal = equal.chain(tied.clone()).collect();
    let stated = module.clone();
    let inference = memc_ops::infer(&mut module);
    if !inference.refused.is_empty() && !module.dims.is_empty() {
        bind::check_bindings(graph::build(file)?.module, &module, &inference, &bindings)?;
    }
    bind::check_sizes(&module)?;
    if !options.fits {
        points::check(&stated, &module, &inference)?;
    }
    bind::check_defaults(&module)?;
    if inference.has_claims {
        module.claimed = memc_ops::claimed(&stated, &module);
    }
    assume::assume(&stated, &mut module, options)?;
    diagnostics.extend(ties::find(&stated));
    module.stage = Stage::Typed;
    diagnostics.extend(inference.diagnostics);
    Ok(Imported { module, data: inference.data, diagnostics, equal })
}

/// Returns the names of the unbound dimensions of the graph inputs, as keys for
/// [`ImportOptions::dims`].
///
/// # Errors
/// See [`import`].
pub fn open_dimensions(file: &ModelFile) -> Result<BTreeSet<String>, ImportError> {
    Ok(bind::open(graph::build(file)?.module))
}
