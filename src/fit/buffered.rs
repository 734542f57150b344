//! Decoders whose kernels write new rows into the buffers of their caches, and read the number of valid rows
//! from an input, as grouped-query attention does.
//!
//! Such a decoder runs with caches of full extents as it is: bind the rows before and after a run to the
//! context, and pass zeros in the mask for rows that are not valid. This holds if nothing but the kernels
//! and sums over the mask depends on these extents.

use std::collections::BTreeSet;

use memc_ir::{Dim, Module, Node, NodeData, Value};
use memc_onnx_import::Imported;
use memc_ops::{buffer_extent, new_values};

use crate::fit_error::FitError;

/// Operand of such a kernel with a row for each position, if it rotates queries and keys.
const ROTATIONS: usize = 7;

/// Caches that kernels keep in buffers.
pub(super) struct Buffered {
    kernels: BTreeSet<Node>,
    caches: BTreeSet<Value>,
    /// Extents of the caches beside that of the batch.
    pub(super) rows: BTreeSet<String>,
    /// Extents of what is appended, beside that of the batch.
    pub(super) new: BTreeSet<String>,
}

impl Buffered {
    /// Finds the kernels that write new caches into the buffers of old ones; `None` unless each pair has one.
    pub(super) fn of(module: &Module, pairs: &[(Value, Value)]) -> Option<Self> {
        let mut found = Self {
            kernels: BTreeSet::new(),
            caches: BTreeSet::new(),
            rows: BTreeSet::new(),
            new: BTreeSet::new(),
        };
        for (old, new) in pairs {
            let kernel = module.producer(*new)?;
            let data = module.node(kernel);
            let writes = |(result, operand): (usize, usize)| {
                data.outputs.get(result) == Some(&Some(*new)) && data.inputs.get(operand) == Some(&Some(*old))
            };
            buffer_extent(data).filter(|_| new_values(data).into_iter().any(writes))?;
            let rows = data.inputs.first().copied().flatten()?;
            found.kernels.insert(kernel);
            found.caches.insert(*old);
            found.rows.extend(symbols(module, *old).into_iter().skip(1).flatten());
            found.new.extend(symbols(module, rows).into_iter().skip(1).flatten());
        }
        (!pairs.is_empty()).then_some(found)
    }

    /// Returns the shortest table of rotations, and its rows: one for each position.
    pub(super) fn positions(&self, module: &Module) -> Option<(String, u64)> {
        let table = |kernel: &Node| module.node(*kernel).inputs.get(ROTATIONS).copied().flatten();
        let rows = |table: Value| {
            Some((module.value(table).name.clone(), *module.ty(table).tensor()?.known_dims()?.first()?))
        };
        self.kernels.iter().filter_map(table).filter_map(rows).min_by_key(|(_, rows)| *rows)
    }

    /// Checks that no value but lengths, sums over masks and caches depends on the extents of `growing`
    /// dimensions.
    ///
    /// # Errors
    /// A node reads rows, or their number, and may give other results for rows that are not valid.
    pub(super) fn check(&self, imported: &Imported, growing: &BTreeSet<String>) -> Result<(), FitError> {
        let module = &imported.module;
        let main = module.graph(module.main());
        let inputs = main.inputs.iter().copied();
        let mut rows: BTreeSet<Value> = inputs.filter(|value| is_long(module, *value, growing)).collect();
        let mut lengths: BTreeSet<Value> = BTreeSet::new();
        for node in &main.nodes {
            let reads = module.reads(*node);
            if !reads.iter().any(|value| rows.contains(value) || lengths.contains(value)) {
                continue;
            }
            let data = module.node(*node);
            let results: Vec<Value> = data.results().collect();
            let is_mask = |value: &Value| rows.contains(value) && !self.caches.contains(value);
            let first = data.inputs.first().copied().flatten().filter(is_mask);
            let is_onnx = |name: &str| data.operator.domain.is_empty() && *data.operator.name == *name;
            let is_only_first = reads
                .iter()
                .all(|value| Some(*value) == first || !rows.contains(value) && !lengths.contains(value));
            if self.kernels.contains(node) && self.reads_buffers_alone(data, &rows, &lengths) {
                continue;
            } else if results.iter().all(|value| imported.data[*value].is_some()) {
                lengths.extend(results.into_iter().filter(|value| has_length(imported, *value, growing)));
            } else if is_only_first && (is_onnx("Cast") || is_onnx("Identity")) {
                rows.extend(results);
            } else if !is_only_first
                || !is_onnx("ReduceSum")
                || results.iter().any(|value| is_long(module, *value, growing))
            {
                let (name, operator) = (data.name.clone(), data.operator.to_string());
                return Err(FitError::Valid { name, operator });
            }
        }
        Ok(())
    }

    /// Returns whether a kernel reads rows as caches and lengths as the extent of its buffers, and nowhere
    /// else.
    fn reads_buffers_alone(
        &self,
        data: &NodeData,
        rows: &BTreeSet<Value>,
        lengths: &BTreeSet<Value>,
    ) -> bool {
        let extent = buffer_extent(data);
        let olds: Vec<usize> = new_values(data).into_iter().map(|(_, operand)| operand).collect();
        data.inputs.iter().enumerate().all(|(position, operand)| {
            let Some(value) = operand else { return true };
            (!rows.contains(value) || self.caches.contains(value) && olds.contains(&position))
                && (!lengths.contains(value) || Some(position) == extent)
        })
    }
}

/// Returns whether the extents of a value depend on these symbols, or are not known.
fn is_long(module: &Module, value: Value, growing: &BTreeSet<String>) -> bool {
    let Some(dims) = module.ty(value).tensor().and_then(|ty| ty.shape.as_ref()) else { return true };
    let is_free = |dim: &Dim| {
        dim.expr().is_none_or(|of| of.symbols().iter().any(|name| growing.contains(name.as_ref())))
    };
    dims.iter().any(is_free)
}

/// Returns whether the known elements of a value depend on these symbols, or are not exact.
fn has_length(imported: &Imported, value: Value, growing: &BTreeSet<String>) -> bool {
    let Some(data) = &imported.data[value] else { return true };
    data.items.iter().any(|item| match item.expr() {
        Some(of) => of.symbols().iter().any(|name| growing.contains(name.as_ref())),
        None => !matches!(item, memc_ops::Item::Float(_)),
    })
}

/// The symbol of each extent of a value; none if its shape is not known.
pub(super) fn symbols(module: &Module, value: Value) -> Vec<Option<String>> {
    let symbol = |dim: &Dim| match dim {
        Dim::Symbolic(of) => of.as_symbol().map(str::to_owned),
        _ => None,
    };
    let shape = module.ty(value).tensor().and_then(|ty| ty.shape.as_ref());
    shape.map(|dims| dims.iter().map(symbol).collect()).unwrap_or_default()
}
