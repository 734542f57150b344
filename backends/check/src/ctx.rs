//! Data that all checks share: the two models, the layout, the schedule, and the index between tensors
//! and values.

use std::collections::HashMap;

use memc_ir::{DimExpr, SecondaryMap, Value};
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
    /// First byte of each entry in the entry that owns the bytes; `None` if an alias states none that an
    /// operator defines.
    pub(crate) first: Vec<Option<DimExpr>>,
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
                findings.add(
                    Kind::TensorTwice,
                    At::tensor(&tensor.name),
                    format!("`{}` is listed twice", tensor.name),
                );
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
            first: vec![Some(DimExpr::constant(0)); count],
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
    /// Whether the bytes of two entries may overlap at some extents, regardless of their live ranges.
    pub(crate) fn bytes_meet(&self, a: usize, b: usize) -> bool {
        let (Some((low, high)), Some((other, end))) = (self.span(a), self.span(b)) else { return false };
        if self.tensor(a).space != self.tensor(b).space {
            return false;
        }
        // Both move with the free dimensions inside one owner.
        let is_free = |index: usize| self.tensor(index).shape_expr.is_some();
        if self.root[a].is_some() && self.root[a] == self.root[b] && (is_free(a) || is_free(b)) {
            return !(self.ends_before(a, b) || self.ends_before(b, a));
        }
        low < end && other < high
    }
    /// Whether an entry provably ends before another entry of its owner begins, for all extents.
    fn ends_before(&self, a: usize, b: usize) -> bool {
        let end = self.first[a].as_ref().zip(self.bytes_expr(a)).and_then(|(first, bytes)| first.add(&bytes));
        end.zip(self.first[b].as_ref()).is_some_and(|(end, first)| self.out.extents.in_order(&end, first))
    }
    /// Returns the size of an entry as an expression over free dimensions.
    pub(crate) fn bytes_expr(&self, index: usize) -> Option<DimExpr> {
        let known = self.value_of[index].and_then(|value| self.out.known[value].as_ref());
        known.map_or_else(
            || i64::try_from(self.tensor(index).bytes).ok().map(DimExpr::constant),
            |known| known.bytes_expr(),
        )
    }
    /// Whether two entries have provably equal sizes for all extents.
    pub(crate) fn same_size(&self, a: usize, b: usize) -> bool {
        let known = |index: usize| self.value_of[index].and_then(|value| self.out.known[value].as_deref());
        match (self.bytes_expr(a), self.bytes_expr(b)) {
            (Some(one), Some(other)) => one == other,
            _ => known(a)
                .zip(known(b))
                .is_some_and(|(a, b)| a.element.bits() == b.element.bits() && a.same_elements(b)),
        }
    }
    /// Whether two entries of one owner begin and end at equal bytes for all extents. For entries without
    /// free dimensions, their stated places decide.
    pub(crate) fn same_place(&self, a: usize, b: usize) -> bool {
        let (one, other) = (self.tensor(a), self.tensor(b));
        let is_free = one.shape_expr.is_some() || other.shape_expr.is_some();
        let moves_alike = || {
            self.root[a] == self.root[b]
                && self.first[a].is_some()
                && self.first[a] == self.first[b]
                && self.same_size(a, b)
        };
        one.offset == other.offset && one.bytes == other.bytes && (!is_free || moves_alike())
    }
    /// Returns the bytes of an arena that an entry may take at some extents: first byte, and the byte after
    /// the last one. `None` without a place.
    pub(crate) fn span(&self, index: usize) -> Option<(u64, u64)> {
        let tensor = self.tensor(index);
        let (offset, high) = (tensor.offset?, tensor.offset?.saturating_add(tensor.bytes));
        let owner = self.root[index].and_then(|root| self.tensor(root).offset);
        // A sub-view begins earlier at smaller extents.
        let free = self.first[index].as_ref().filter(|first| first.as_constant().is_none());
        let least = free
            .map(|first| self.out.extents.lowest(first).and_then(|least| u64::try_from(least.max(0)).ok()));
        let low = least.zip(owner).map(|(least, owner)| owner.saturating_add(least.unwrap_or(0)));
        Some((low.unwrap_or(offset).min(offset), high))
    }
}

/// Whether the caller holds the bytes of a class, unless `io` moves them into the arena.
pub(crate) fn is_callers(class: Class) -> bool {
    matches!(class, Class::Constant | Class::Input | Class::State)
}
