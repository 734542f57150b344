//! Changes of the model's interface, which a caller states: graph inputs and outputs that come or go.

use std::collections::BTreeSet;

use memc_ir::Value;

use crate::encode::Source;
use crate::error::ExportError;

/// Graph inputs and outputs in which the written model differs from the file; by default none.
///
/// Callers of a model know its inputs and outputs by their names, so the exporter refuses every difference
/// that is not stated here. Kept inputs and outputs come first, in the order of the file, and added ones
/// follow in the order of the module. A name that is both removed and added is an entry with a new type.
///
/// An initializer becomes an input with a default: the module has a graph input with
/// [`memc_ir::ValueData::default`] under its name, the name is among the added inputs, and the initializer
/// stays. In the other direction, an input with a default becomes a constant again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Names of graph inputs that the file does not have.
    pub added_inputs: BTreeSet<String>,
    /// Names of graph inputs of the file that the module does not have. Their defaults go with them.
    pub removed_inputs: BTreeSet<String>,
    /// Names of graph outputs that the file does not have.
    pub added_outputs: BTreeSet<String>,
    /// Names of graph outputs of the file that the module does not have.
    pub removed_outputs: BTreeSet<String>,
    /// Names of graph outputs of the file that have other extents in the module.
    pub changed_outputs: BTreeSet<String>,
}

/// Inputs or outputs of a graph.
#[derive(Clone, Copy)]
pub(crate) struct Side<'s> {
    /// `input` or `output`.
    pub(crate) what: &'static str,
    /// Names that the file states, in order.
    pub(crate) stated: &'s [&'s str],
    /// Names that the caller adds.
    pub(crate) added: &'s BTreeSet<String>,
    /// Names that the caller removes.
    pub(crate) removed: &'s BTreeSet<String>,
}

/// Checks that the module's graph inputs or outputs are those of the file, except for the stated changes.
pub(crate) fn check(source: Source<'_>, values: &[Value], side: Side<'_>) -> Result<(), ExportError> {
    let error = |position, expected: Option<&str>, found: Option<&str>| {
        let own = |name: Option<&str>| name.unwrap_or_default().to_owned();
        ExportError::Interface { what: side.what, position, expected: own(expected), found: own(found) }
    };
    let kept: Vec<&str> = side.stated.iter().copied().filter(|name| !side.removed.contains(*name)).collect();
    for (position, expected) in kept.iter().enumerate() {
        let found = values.get(position).map(|value| source.name(*value));
        if found != Some(expected) {
            return Err(error(position, Some(expected), found));
        }
    }
    let mut missing: BTreeSet<&str> = side.added.iter().map(String::as_str).collect();
    for (position, value) in values.iter().enumerate().skip(kept.len()) {
        let found = source.name(*value);
        if !missing.remove(found) {
            return Err(error(position, None, Some(found)));
        }
    }
    missing.first().map_or(Ok(()), |name| Err(error(values.len(), Some(name), None)))
}
