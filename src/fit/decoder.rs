//! A context for a decoder with caches: names its caches, and states its dimensions.

use std::collections::BTreeSet;

use memc_ir::{DimExpr, Limit, Module, Node, Range, Value};
use memc_onnx_import::{ImportOptions, Imported, import, open_dimensions};
use memc_onnx_proto::ModelFile;
use memc_passes::StateNames;
use memc_passes::cache::past_of;

use super::buffered::{Buffered, symbols};
use crate::error::Error;
use crate::fit_error::FitError;
use crate::request::Request;
use crate::state::expand;

/// Patterns of names that exporters give to new and old caches. The first row that fits counts.
const CACHES: [(&str, &str); 2] = [("present*", "past*"), ("present*", "past_key_values*")];

/// Operators that keep the elements of their first operand.
const KEEP: [&str; 6] = ["Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// Dimensions of a decoder.
pub(super) struct Decoder {
    /// Rows of the caches before a run.
    past: String,
    /// Rows that a run adds.
    pub(super) new: String,
    /// Extent of caches and inputs beside these, which takes one sequence.
    batch: BTreeSet<String>,
    /// Dimensions that equal the rows after a run.
    total: BTreeSet<String>,
    /// Whether the caches have full extents in all runs, and a mask states the rows that are valid.
    is_full: bool,
    context: u64,
}

impl Decoder {
    /// Finds the caches of a decoder, and asks the request to keep them in place.
    ///
    /// # Errors
    /// The model is refused, no inputs are caches of outputs, or their rows are not one dimension.
    pub(super) fn of(file: &ModelFile, request: &mut Request, context: u64) -> Result<Self, Error> {
        let imported = import(file, &ImportOptions { allow_unbound: true, ..request.import.clone() })?;
        let module = &imported.module;
        let pairs = pairs(module, request)?;
        let is_stated = |name: &str| {
            let import = &request.import;
            import.dims.contains_key(name)
                || import.ranges.contains_key(name)
                || import.equal.contains_key(name)
        };
        let mut free: BTreeSet<String> =
            open_dimensions(file)?.into_iter().filter(|name| !is_stated(name)).collect();
        let buffered = Buffered::of(module, &pairs);
        let [past, new] = match &buffered {
            Some(buffered) => [only(&buffered.rows)?, only(&buffered.new)?],
            None => {
                let rows: BTreeSet<[String; 2]> =
                    pairs.iter().filter_map(|(old, new)| rows(module, *old, *new)).collect();
                only(&rows)?
            }
        };
        let rotations = buffered.as_ref().and_then(|buffered| buffered.positions(module));
        let tables = positions(&imported, &[&past, &new]).into_iter().chain(rotations);
        if let Some((table, rows)) = tables.min_by_key(|(_, rows)| *rows).filter(|(_, rows)| *rows < context)
        {
            return Err(FitError::Positions { table, rows, context }.into());
        }
        free.retain(|name| *name != past && *name != new);
        let first = |value: &Value| symbols(module, *value).into_iter().next().flatten();
        let batch: BTreeSet<String> =
            pairs.iter().filter_map(|(old, _)| first(old)).filter(|name| free.contains(name)).collect();
        free.retain(|name| !batch.contains(name));
        if let Some(buffered) = &buffered {
            buffered.check(&imported, &free.iter().cloned().chain([past.clone()]).collect())?;
        }
        Ok(Self { past, new, batch, total: free, is_full: buffered.is_some(), context })
    }

    /// Largest number of rows that a run may add.
    pub(super) fn most(&self) -> u64 {
        self.context
    }

    /// States all dimensions but that of the new rows, which has this many at most: for each number of rows
    /// from an empty cache to the context if the new rows are a range, else for the last run. Caches that are
    /// always full have the context's rows.
    pub(super) fn bind(&self, request: &mut Request, rows: u64, is_free: bool) {
        let import = &mut request.import;
        import.dims.extend(self.batch.iter().map(|name| (name.clone(), 1)));
        if self.is_full {
            import
                .dims
                .extend(self.total.iter().chain([&self.past]).map(|name| (name.clone(), self.context)));
            return;
        }
        let after = DimExpr::symbol(&self.past).add(&DimExpr::symbol(&self.new));
        let Some(after) = after.filter(|_| is_free || import.ranges.contains_key(&self.new)) else {
            import.dims.insert(self.past.clone(), self.context.saturating_sub(rows));
            import.dims.extend(self.total.iter().map(|name| (name.clone(), self.context)));
            return;
        };
        import.equal.extend(self.total.iter().map(|name| (name.clone(), after.clone())));
        let most = self.context.saturating_sub(1);
        import.ranges.insert(self.past.clone(), Range { min: 0, max: Some(most), step: 1 });
        import.limits.push(Limit { of: after, most: self.context });
    }
}

/// Caches before and after a run, as the request names them, or as exporters do.
fn pairs(module: &Module, request: &mut Request) -> Result<Vec<(Value, Value)>, Error> {
    let names = |new: &str, old: &str| StateNames { new: new.to_owned(), old: old.to_owned() };
    let state = if request.state.is_empty() {
        let known = CACHES.iter().map(|(new, old)| names(new, old));
        let (pattern, state) = known
            .filter_map(|pair| Some((pair.clone(), expand(module, &[pair]).ok()?)))
            .next()
            .ok_or(FitError::Caches)?;
        request.state.push(pattern);
        state
    } else {
        expand(module, &request.state)?
    };
    let main = module.graph(module.main());
    let find =
        |values: &[Value], name: &str| values.iter().copied().find(|value| module.value(*value).name == name);
    Ok(state
        .iter()
        .filter_map(|pair| Some((find(&main.inputs, &pair.old)?, find(&main.outputs, &pair.new)?)))
        .collect())
}

/// Dimensions of the rows of a cache before a run and of those that a run adds.
fn rows(module: &Module, old: Value, new: Value) -> Option<[String; 2]> {
    let (before, after) = (module.ty(old).tensor()?, module.ty(new).tensor()?);
    let axis = past_of(before, after)?;
    let extent = |shape: &memc_ir::Shape| shape.as_ref()?.get(axis)?.expr();
    let (before, after) = (extent(&before.shape)?, extent(&after.shape)?);
    Some([before.as_symbol()?.to_owned(), after.sub(&before)?.as_symbol()?.to_owned()])
}

/// The only item of a set.
fn only<T: Clone + Ord>(all: &BTreeSet<T>) -> Result<T, FitError> {
    all.first().filter(|_| all.len() == 1).cloned().ok_or(FitError::Rows)
}

/// The shortest table in which the model looks up positions, and its rows: a constant, with indices from an
/// input of positions, or from a Range up to an extent of `symbols`.
fn positions(imported: &Imported, symbols: &[&str]) -> Option<(String, u64)> {
    let module = &imported.module;
    let is_onnx = |node: Node, name: &str| {
        let operator = &module.node(node).operator;
        operator.domain.is_empty() && &*operator.name == name
    };
    let is_position = |index: Value| {
        let mut value = index;
        while let Some(node) = module.producer(value) {
            let operands = &module.node(node).inputs;
            if is_onnx(node, "Range") {
                let end = operands
                    .get(1)
                    .copied()
                    .flatten()
                    .and_then(|end| imported.data[end].as_ref()?.items.first()?.expr());
                return end.is_some_and(|end| {
                    end.symbols().iter().any(|symbol| symbols.contains(&symbol.as_ref()))
                });
            }
            let Some(first) =
                operands.first().copied().flatten().filter(|_| KEEP.iter().any(|name| is_onnx(node, name)))
            else {
                return false;
            };
            value = first;
        }
        module.constant_of(value).is_none() && module.value(value).name.to_lowercase().contains("position")
    };
    let table = |node: &Node| {
        let data = module.node(*node);
        let [Some(table), Some(index)] = data.inputs[..] else { return None };
        let is_lookup =
            is_onnx(*node, "Gather") && data.int("axis", 0) == 0 && module.constant_of(table).is_some();
        let rows = module.ty(table).tensor()?.known_dims()?.first().copied()?;
        (is_lookup && is_position(index)).then(|| (module.value(table).name.clone(), rows))
    };
    module.graph(module.main()).nodes.iter().filter_map(table).min_by_key(|(_, rows)| *rows)
}
