//! Data that all checks share: the two models, the layout, the schedule, and the index between tensors
//! and values.

use std::collections::HashMap;

use memc_ir::{SecondaryMap, Value};
use memc_layout::{Class, Layout, Tensor};

use crate::codes::Kind;
use crate::findings::{At, Findings};
use crate::side::Side;

/// Range of steps `start..end`.
pub(crate) type Steps = (u64, u64);

/// The two models and the layout, indexed.
pub(crate) struct Ctx<'a> {
    pub(crate) given: &'a Side<'a>,
    pub(crate) out: &'a Side<'a>,
    pub(crate) layout: &'a Layout,
    /// Row of the output model at each step.
    pub(crate) order: Vec<usize>,
    /// Step of each row.
    pub(crate) step_of: Vec<usize>,
    /// Tensor entry by name; the first entry if a name is listed twice.
    pub(crate) named: HashMap<&'a str, usize>,
    /// Value of each tensor entry; `None` for workspace, unknown names and repeated names.
    pub(crate) value_of: Vec<Option<Value>>,
    /// Tensor entry of each value.
    pub(crate) tensor_of: SecondaryMap<Value, Option<usize>>,
    /// Steps that read a value, in ascending order.
    pub(crate) readers: SecondaryMap<Value, Vec<usize>>,
    /// Stated live ranges of each tensor, cut to the schedule, sorted and joined.
    pub(crate) live: Vec<Vec<Steps>>,
    /// Live range of each tensor, derived from the schedule.
    pub(crate) derived: Vec<Option<Steps>>,
    /// Direct target of each alias, as a tensor entry; `None` for an owner and for an invalid target.
    pub(crate) target: Vec<Option<usize>>,
    /// Entry that owns the bytes; `None` for aliases in a cycle.
    pub(crate) root: Vec<Option<usize>>,
    /// Number of the set of views that each entry belongs to.
    pub(crate) group: Vec<usize>,
    /// Entries of each set of views, by its number.
    pub(crate) members: Vec<Vec<usize>>,
}

impl<'a> Ctx<'a> {
    /// Indexes nodes, values and tensor entries. `order` is the row at each step. Reports repeated
    /// names.
    pub(crate) fn new(
        given: &'a Side<'a>,
        out: &'a Side<'a>,
        layout: &'a Layout,
        order: Vec<usize>,
        findings: &mut Findings,
    ) -> Self {
        let mut step_of = vec![0; order.len()];
        for (step, row) in order.iter().enumerate() {
            step_of[*row] = step;
        }
        let mut readers: SecondaryMap<Value, Vec<usize>> = SecondaryMap::default();
        for (step, row) in order.iter().enumerate() {
            for value in &out.rows[*row].reads {
                readers[*value].push(step);
            }
        }
        let mut named: HashMap<&str, usize> = HashMap::new();
        let mut value_of = Vec::with_capacity(layout.tensors.len());
        let mut tensor_of: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
        for (index, tensor) in layout.tensors.iter().enumerate() {
            if named.contains_key(tensor.name.as_str()) {
                findings.add(Kind::TensorTwice, At::tensor(&tensor.name), format!("`{}` is listed twice", tensor.name));
                value_of.push(None);
                continue;
            }
            named.insert(&tensor.name, index);
            let value = out.named.get(&tensor.name).copied();
            if let Some(value) = value {
                tensor_of.set(value, Some(index));
            }
            value_of.push(value);
        }
        let count = layout.tensors.len();
        Self {
            given,
            out,
            layout,
            order,
            step_of,
            named,
            value_of,
            tensor_of,
            readers,
            live: vec![Vec::new(); count],
            derived: vec![None; count],
            target: vec![None; count],
            root: (0..count).map(Some).collect(),
            group: (0..count).collect(),
            members: Vec::new(),
        }
    }

    /// Returns the number of steps.
    pub(crate) fn steps(&self) -> usize {
        self.order.len()
    }
    /// Returns a tensor entry.
    pub(crate) fn tensor(&self, index: usize) -> &'a Tensor {
        &self.layout.tensors[index]
    }
    /// Returns the step that computes a value, or `None` if no node computes it.
    pub(crate) fn produced_at(&self, value: Value) -> Option<usize> {
        self.out.producer[value].map(|row| self.step_of[row])
    }
    /// Returns the name of the node at a step, for messages.
    pub(crate) fn node_at(&self, step: usize) -> &'a str {
        self.order.get(step).map_or("", |row| self.out.node_name(*row))
    }
    /// Returns the entries in the set of views of an entry, including the entry.
    pub(crate) fn views_of(&self, index: usize) -> &[usize] {
        self.members.get(self.group[index]).map_or(&[], Vec::as_slice)
    }
    /// Whether the bytes of two entries overlap, regardless of their live ranges.
    pub(crate) fn bytes_meet(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.tensor(a), self.tensor(b));
        match (a.offset, b.offset) {
            (Some(low), Some(other)) => {
                a.space == b.space && low < other.saturating_add(b.bytes) && other < low.saturating_add(a.bytes)
            }
            _ => false,
        }
    }
}

/// Whether the caller holds the bytes of a class, unless `io` moves them into the arena.
pub(crate) fn is_callers(class: Class) -> bool {
    matches!(class, Class::Constant | Class::Input | Class::State)
}
