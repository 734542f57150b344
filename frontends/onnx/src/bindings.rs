//! Bound dimensions: the extent of each symbol and the source of its binding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::error::ImportError;

/// Name in `--dim` that binds every unnamed dimension without a binding of its own. Some exporters
/// write it as a name.
pub(crate) const UNNAMED: &str = "?";

/// The source of a binding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// The option `--dim` with this name.
    Option { name: String },
    /// An axis of an array in the feed.
    Input { name: String, axis: usize },
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { name } => write!(f, "`--dim {name}`"),
            Self::Input { name, axis } => write!(f, "input `{name}`, axis {axis}"),
        }
    }
}

/// The extent of each bound symbol, with the source of the binding.
#[derive(Debug, Default)]
pub(crate) struct Bindings(BTreeMap<String, (u64, By)>);

impl Bindings {
    /// Binds a symbol; an error if it is already bound to another extent.
    pub(crate) fn add(&mut self, symbol: &str, extent: u64, by: By) -> Result<(), ImportError> {
        let (found, first) = self.0.entry(symbol.to_owned()).or_insert_with(|| (extent, by.clone()));
        if *found == extent {
            return Ok(());
        }
        let by = [first.to_string(), by.to_string()];
        Err(ImportError::Conflict { dimension: symbol.to_owned(), extents: [*found, extent], by })
    }

    /// Binds a symbol unless it is already bound.
    pub(crate) fn add_if_open(&mut self, symbol: &str, extent: u64, by: By) {
        self.0.entry(symbol.to_owned()).or_insert((extent, by));
    }

    /// Returns the extents by symbol.
    pub(crate) fn dims(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(symbol, (extent, _))| (symbol.clone(), *extent)).collect()
    }

    /// Describes all bindings for a message.
    pub(crate) fn all_said(&self) -> BTreeSet<String> {
        self.0.keys().filter_map(|symbol| self.said(symbol)).collect()
    }

    /// Describes the binding of a symbol for a message; `None` if it is unbound.
    pub(crate) fn said(&self, symbol: &str) -> Option<String> {
        self.0.get(symbol).map(|(extent, by)| match by {
            By::Option { name } => format!("`--dim {name}={extent}`"),
            by @ By::Input { .. } => format!("{symbol}={extent} of {by}"),
        })
    }
}
