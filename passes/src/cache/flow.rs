//! Follows the rows of caches through the model: which values have rows that are not valid, and the
//! changes that keep every valid element.
//!
//! A padded value has the extents of full buffers. Its elements at valid rows are those of the given
//! model run on a cache of that many rows. Every node must keep this property, or the model is refused.

use memc_ir::{Module, Node, SecondaryMap, Value};

use super::lengths::{Kind, Lengths, Number};
use super::pairs::Caches;
use super::rows::{Edit, Pad};
use crate::buffer::CacheError;

/// The values of the main graph as far as they were followed.
pub(super) struct Flow<'a> {
    pub lengths: &'a Lengths,
    pub caches: &'a Caches,
    pub pads: SecondaryMap<Value, Option<Pad>>,
    /// Whether a run computes a value from the number of valid rows.
    pub moved: SecondaryMap<Value, bool>,
    pub edits: Vec<Edit>,
}

impl<'a> Flow<'a> {
    /// Begins without padded values.
    pub(super) fn new(lengths: &'a Lengths, caches: &'a Caches) -> Self {
        Self {
            lengths,
            caches,
            pads: SecondaryMap::default(),
            moved: SecondaryMap::default(),
            edits: Vec::new(),
        }
    }

    /// The module at full length.
    pub(super) fn module(&self) -> &'a Module {
        &self.lengths.full.module
    }

    /// Returns the rows of a value, if it is padded.
    pub(super) fn pad(&self, value: Option<Value>) -> Option<Pad> {
        self.pads[value?]
    }

    /// Returns the number that an operand is, if it depends on the number of valid rows.
    pub(super) fn number(&self, value: Option<Value>) -> Option<Number> {
        match self.lengths.kind(value?, &self.caches.past) {
            Kind::Linear(number) => Some(number),
            Kind::Fixed | Kind::Other => None,
        }
    }

    /// Returns whether a run computes a value from the number of valid rows.
    pub(super) fn is_moved(&self, value: Option<Value>) -> bool {
        value.is_some_and(|value| self.moved[value])
    }

    /// Refuses a node.
    pub(super) fn refuse<T>(&self, node: Node, value: Option<Value>, why: &str) -> Result<T, CacheError> {
        let module = self.module();
        let data = module.node(node);
        let name =
            |value: Option<Value>| value.map(|value| module.value(value).name.clone()).unwrap_or_default();
        let result = data.results().next();
        Err(CacheError::Exact {
            node: if data.name.is_empty() { name(result) } else { data.name.clone() },
            operator: data.operator.to_string(),
            value: name(value.or(data.operands().next())),
            why: why.to_owned(),
        })
    }
}
