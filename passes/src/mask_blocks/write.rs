//! Writes attention cores in blocks of rows: one copy of the nodes for each block, and nodes that join
//! or add the results.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use memc_edit::Maker;
use memc_ir::{Attribute, Dim, Module, NewNode, Node, NodeData, TensorType, Value, ValueType};
use memc_ops::Data;

use super::grid::{Core, Kind, Role};
use super::mask::Blocks;
use super::product::{Product, Sum};
use crate::analysis::dependence::has_side_effect;

/// First version of the operator set in which a Pad takes its extents as an operand.
const PADS: i64 = 11;

/// Writes one core in blocks, in the place of its nodes in `order`, the order of the main graph. Returns
/// `false`, without a change, if a node among them has a side effect and must keep its place.
pub(super) fn write(maker: &mut Maker<'_>, core: &Core, blocks: &Blocks, order: &mut Vec<Node>) -> bool {
    let mut writer = Writer {
        maker,
        core,
        blocks,
        block: 0,
        own: BTreeMap::new(),
        cut: BTreeMap::new(),
        joined: BTreeMap::new(),
        made: Vec::new(),
    };
    let stages = stages(&writer, order);
    if stages.iter().any(|stage| has_effects(&writer, stage, order)) {
        return false;
    }
    for stage in &stages {
        writer.stage(stage, order);
    }
    for value in &core.restored {
        writer.restore(*value, order);
    }
    for node in stages.iter().flatten().rev() {
        writer.maker.erase(*node);
    }
    true
}

/// Returns the positions from the first to the last node of a stage.
fn window(stage: &[Node], order: &[Node]) -> Option<RangeInclusive<usize>> {
    let own: BTreeSet<&Node> = stage.iter().collect();
    let is_own = |node: &Node| own.contains(node);
    Some(order.iter().position(is_own)?..=order.iter().rposition(is_own)?)
}

/// Returns whether a node between the nodes of a stage has a side effect.
fn has_effects(writer: &Writer<'_, '_, '_>, stage: &[Node], order: &[Node]) -> bool {
    let module = writer.maker.module();
    window(stage, order).is_none_or(|window| order[window].iter().any(|node| has_side_effect(module, *node)))
}

/// Groups the nodes of a core so that no node depends on a joined result of its own stage: the forward
/// and the backward part of a training step are two stages.
fn stages(writer: &Writer<'_, '_, '_>, order: &[Node]) -> Vec<Vec<Node>> {
    let module = writer.maker.module();
    let mut stage_of: BTreeMap<Value, usize> = BTreeMap::new();
    let mut stages: Vec<Vec<Node>> = Vec::new();
    for node in order {
        let role = writer.core.nodes.get(node);
        let reached = module.reads(*node).iter().filter_map(|value| stage_of.get(value).copied()).max();
        if role.is_none() && reached.is_none() {
            continue;
        }
        let stage = reached.unwrap_or(0);
        if role.is_some() {
            stages.resize_with(stages.len().max(stage + 1), Vec::new);
            stages[stage].push(*node);
        }
        // A node outside of the core reads joined results.
        let leaves = match role {
            Some(role) => matches!(role, Role::Sink(_)),
            None => module.reads(*node).iter().any(|value| writer.core.kinds.contains_key(value)),
        };
        let next = stage + usize::from(leaves);
        module.node(*node).results().for_each(|value| _ = stage_of.insert(value, next));
    }
    stages.retain(|stage| !stage.is_empty());
    stages
}

/// Returns the elements of a small constant of integers.
fn integers(module: &Module, value: Value) -> Option<Vec<i64>> {
    Data::from_constant(module.constant(module.constant_of(value)?))?.known_ints()
}

/// Pieces of a joined result.
#[derive(Default)]
struct Joined {
    /// Finished pieces, with the number of their first position.
    pieces: BTreeMap<u64, Value>,
    /// Sum of the blocks so far, and its positions.
    sum: Option<(Range<u64>, Value)>,
}

/// Writer of one core.
struct Writer<'c, 'r, 'm> {
    maker: &'r mut Maker<'m>,
    core: &'c Core,
    blocks: &'c Blocks,
    /// Number of the present block.
    block: usize,
    /// Blocks of each value.
    own: BTreeMap<(Value, usize), Value>,
    /// Slices made for the present stage, by sliced value, axis, first position and end.
    cut: BTreeMap<(Value, usize, u64, u64), Value>,
    /// Results of sinks.
    joined: BTreeMap<Node, Joined>,
    /// Nodes made for the present stage.
    made: Vec<Node>,
}

impl Writer<'_, '_, '_> {
    /// Writes a stage, block by block, and puts its nodes into the order.
    fn stage(&mut self, stage: &[Node], order: &mut Vec<Node>) {
        self.cut.clear();
        let adds = stage
            .iter()
            .any(|node| matches!(self.core.nodes.get(node), Some(Role::Sink(sum)) if !sum.over_columns));
        let count = self.blocks.count();
        for number in 0..count {
            // Sums over rows begin with the longest block, so that the ends of the sum are finished
            // early.
            self.block = if adds { count - 1 - number } else { number };
            for node in stage {
                self.node(*node);
            }
        }
        for node in stage {
            self.close(*node);
        }
        let made = std::mem::take(&mut self.made);
        self.arrange(stage, made, order);
    }

    /// Puts the new nodes in the place of a stage: after all nodes between its first and last node
    /// except nodes that depend on the stage.
    fn arrange(&self, stage: &[Node], made: Vec<Node>, order: &mut Vec<Node>) {
        let own: BTreeSet<Node> = stage.iter().copied().collect();
        let is_own = |node: &Node| own.contains(node);
        let Some(window) = window(stage, order) else { return };
        let module = self.maker.module();
        // The nodes that join pieces have taken over the results of sinks.
        let mut results: BTreeSet<Value> =
            made.iter().flat_map(|node| module.node(*node).results()).collect();
        let (mut before, mut after, mut old) = (Vec::new(), Vec::new(), Vec::new());
        for node in &order[window.clone()] {
            let depends = module.reads(*node).iter().any(|value| results.contains(value));
            if is_own(node) || depends {
                results.extend(module.node(*node).results());
            }
            match (is_own(node), depends) {
                (true, _) => old.push(*node),
                (false, true) => after.push(*node),
                (false, false) => before.push(*node),
            }
        }
        order.splice(window, [before, made, after, old].concat());
    }

    fn dims(&self, value: Value) -> Vec<Dim> {
        self.maker.module().ty(value).tensor().and_then(|ty| ty.shape.clone()).unwrap_or_default()
    }

    fn rows(&self) -> Range<u64> {
        self.blocks.rows[self.block].clone()
    }

    fn columns(&self) -> Range<u64> {
        self.blocks.columns[self.block].clone()
    }

    /// Returns the type of a block of a value.
    fn ty(&self, value: Value, kind: Kind) -> ValueType {
        let length = |range: Range<u64>| Dim::Known(range.end - range.start);
        let (rows, columns) = (length(self.rows()), length(self.columns()));
        let last = match kind {
            Kind::Grid => [rows, columns],
            Kind::Turned => [columns, rows],
            Kind::Column => [rows, Dim::Known(1)],
        };
        let mut ty = self.maker.module().ty(value).clone();
        if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty {
            let at = dims.len().saturating_sub(2);
            dims.truncate(at);
            dims.extend(last);
        }
        ty
    }

    /// Inserts a node for the present block; returns its result.
    fn insert(&mut self, new: NewNode, of: Value, ty: ValueType) -> Option<Value> {
        let name = self.maker.name_after(of, &format!("rows{}", self.block));
        let node = self.maker.insert(None, new, &[Some((name, ty))]);
        self.made.push(node);
        self.maker.module().node(node).results().next()
    }

    /// Cuts positions along an axis out of a value; equal cuts of a stage share one node.
    fn slice(&mut self, value: Value, axis: usize, range: Range<u64>) -> Value {
        if self.dims(value).get(axis) == Some(&Dim::Known(range.end - range.start)) {
            return value;
        }
        let key = (value, axis, range.start, range.end);
        if let Some(known) = self.cut.get(&key) {
            return *known;
        }
        let name = self.maker.name_after(value, "cut");
        let node = self.maker.slice(None, value, axis, &range.into(), name);
        self.made.push(node);
        let found = self.maker.module().node(node).results().next().unwrap_or(value);
        self.cut.insert(key, found);
        found
    }

    /// Writes a node for the present block.
    fn node(&mut self, node: Node) {
        let data = self.maker.module().node(node).clone();
        let Some(result) = data.results().next() else { return };
        match self.core.nodes.get(&node) {
            Some(Role::Sink(sum)) => self.sink(node, &data, *sum, result),
            Some(role) => {
                let operands = match role {
                    Role::Source => self.source(node, &data),
                    _ => data.inputs.iter().map(|value| value.map(|value| self.operand(value))).collect(),
                };
                let kind = self.core.kinds.get(&result).copied().unwrap_or(Kind::Grid);
                let ty = self.ty(result, kind);
                let operands =
                    if *role == Role::Reshape { self.reshaped(operands, &data, &ty) } else { operands };
                let new = self.maker.node(data.operator, operands, data.attributes);
                if let Some(made) = self.insert(new, result, ty) {
                    self.own.insert((result, self.block), made);
                }
            }
            None => {}
        }
    }

    /// Returns the operands of a product of whole values: the rows and the columns of the present block.
    fn source(&mut self, node: Node, data: &NodeData) -> Vec<Option<Value>> {
        let Some(product) = Product::of(self.maker.module(), node) else { return data.inputs.clone() };
        let ranges = [self.rows(), self.columns()];
        let cuts = data.inputs.iter().zip(product.free_axes()).zip(ranges);
        cuts.map(|((value, axis), range)| value.map(|value| self.slice(value, axis, range))).collect()
    }

    /// Returns the operand of a copy: the block of a value of the core, or a cut of a whole value.
    fn operand(&mut self, value: Value) -> Value {
        if let Some(own) = self.own.get(&(value, self.block)) {
            return *own;
        }
        let rank = self.dims(value).len();
        let mut cut = value;
        for (from_end, extent, range) in
            [(2, self.blocks.extents[0], self.rows()), (1, self.blocks.extents[1], self.columns())]
        {
            // An operand with one row or column is broadcast.
            let axis = rank
                .checked_sub(from_end)
                .filter(|axis| self.dims(value).get(*axis) == Some(&Dim::Known(extent)));
            if let Some(axis) = axis {
                cut = self.slice(cut, axis, range);
            }
        }
        cut
    }

    /// Replaces the extents that a Reshape states: the last two are those of the block.
    fn reshaped(
        &mut self,
        mut operands: Vec<Option<Value>>,
        data: &NodeData,
        ty: &ValueType,
    ) -> Vec<Option<Value>> {
        let target = data.inputs.get(1).copied().flatten();
        let known = ty.tensor().and_then(TensorType::known_dims);
        let stated = target.and_then(|value| integers(self.maker.module(), value));
        let extents: Option<Vec<i64>> = match known {
            Some(dims) => dims.into_iter().map(|extent| i64::try_from(extent).ok()).collect(),
            None => stated.zip(ty.tensor().and_then(|ty| ty.shape.clone())).map(|(mut stated, dims)| {
                for (stated, dim) in stated.iter_mut().rev().zip(dims.iter().rev()).take(2) {
                    *stated = dim.known().map_or(*stated, |extent| extent as i64);
                }
                stated
            }),
        };
        if let (Some(extents), Some(operand)) = (extents, operands.get_mut(1)) {
            *operand = Some(self.maker.integers(&extents));
        }
        operands
    }

    /// Writes a product of a block with a cut of a whole value, and joins or adds its result.
    fn sink(&mut self, node: Node, data: &NodeData, sum: Sum, result: Value) {
        let Some(product) = Product::of(self.maker.module(), node) else { return };
        let summed = if sum.over_columns { self.columns() } else { self.rows() };
        let own = if sum.over_columns { self.rows() } else { self.columns() };
        let mut operands = data.inputs.clone();
        for (index, operand) in operands.iter_mut().enumerate() {
            *operand = operand.map(|value| match index == sum.grid {
                true => self.operand(value),
                false => self.slice(value, product.summed_axis(index), summed.clone()),
            });
        }
        let axis = self.axis(result, sum);
        let ty = self.along(result, axis, &own);
        let new = self.maker.node(data.operator.clone(), operands, data.attributes.clone());
        let Some(made) = self.insert(new, result, ty) else { return };
        if sum.over_columns {
            self.joined.entry(node).or_default().pieces.insert(own.start, made);
        } else {
            self.add(node, result, axis, own, made);
        }
    }

    /// Returns the axis of the result of a sink along which its blocks lie.
    fn axis(&self, result: Value, sum: Sum) -> usize {
        self.dims(result).len().saturating_sub(Product::result_axis_from_end(sum.grid))
    }

    /// Returns the type of a value with fewer positions along an axis.
    fn along(&self, value: Value, axis: usize, range: &Range<u64>) -> ValueType {
        let mut ty = self.maker.module().ty(value).clone();
        if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty
            && let Some(dim) = dims.get_mut(axis)
        {
            *dim = Dim::Known(range.end - range.start);
        }
        ty
    }

    /// Adds the product of the present block to the sum of the blocks after it, which begins and ends no
    /// earlier. Positions that the present block does not reach are finished.
    fn add(&mut self, node: Node, result: Value, axis: usize, own: Range<u64>, made: Value) {
        let Some((range, sum)) = self.joined.entry(node).or_default().sum.take() else {
            self.joined.entry(node).or_default().sum = Some((own, made));
            return;
        };
        let shared = range.start..own.end.min(range.end);
        let cut = |writer: &mut Self, value: Value, of: &Range<u64>, part: &Range<u64>| {
            writer.slice(value, axis, part.start - of.start..part.end - of.start)
        };
        if own.end < range.end {
            let end = cut(self, sum, &range, &(own.end..range.end));
            self.joined.entry(node).or_default().pieces.insert(own.end, end);
        }
        let terms = [cut(self, sum, &range, &shared), cut(self, made, &own, &shared)];
        let ty = self.along(result, axis, &shared);
        let Some(mut total) = self.insert(self.maker.onnx("Add", terms, Vec::new()), result, ty) else {
            return;
        };
        if own.start < range.start {
            let start = cut(self, made, &own, &(own.start..range.start));
            let concat = self.maker.concat(None, vec![start, total], axis);
            let name = self.maker.name_after(result, &format!("sum{}", self.block));
            let ty = self.along(result, axis, &(own.start..shared.end));
            self.maker.add_result(concat, 0, name, ty);
            self.made.push(concat);
            total = self.maker.module().node(concat).results().next().unwrap_or(total);
        }
        self.joined.entry(node).or_default().sum = Some((own.start..shared.end, total));
    }

    /// Joins the pieces of a sink; the node that joins them takes over the old result.
    fn close(&mut self, node: Node) {
        let Some(Role::Sink(sum)) = self.core.nodes.get(&node) else { return };
        let (Some(mut joined), Some(result)) =
            (self.joined.remove(&node), self.maker.module().node(node).results().next())
        else {
            return;
        };
        if let Some((range, value)) = joined.sum {
            joined.pieces.insert(range.start, value);
        }
        let concat = self.maker.concat(None, joined.pieces.into_values().collect(), self.axis(result, *sum));
        self.made.push(concat);
        self.maker.move_result(result, concat, 0);
    }

    /// Joins the blocks of a grid for readers outside of the core, with zeros in place of columns that
    /// were left out. The nodes stand right before the first of these readers.
    fn restore(&mut self, value: Value, order: &mut Vec<Node>) {
        let rank = self.dims(value).len();
        let mut blocks = Vec::new();
        for block in 0..self.blocks.count() {
            self.block = block;
            let Some(own) = self.own.get(&(value, block)).copied() else { return };
            blocks.push(self.padded(value, own, rank).unwrap_or(own));
        }
        let concat = self.maker.concat(None, blocks, rank.saturating_sub(2));
        self.made.push(concat);
        let module = self.maker.module();
        let reads = |node: &Node| !self.core.nodes.contains_key(node) && module.reads(*node).contains(&value);
        let at = order.iter().position(reads).unwrap_or(order.len());
        order.splice(at..at, std::mem::take(&mut self.made));
        self.maker.move_result(value, concat, 0);
    }

    /// Inserts a Pad that adds the columns left out of the present block; `None` if there are none.
    fn padded(&mut self, value: Value, own: Value, rank: usize) -> Option<Value> {
        let (columns, extent) = (self.columns(), self.blocks.extents[1]);
        let ends =
            [columns.start, extent - columns.end].map(|count| i64::try_from(count).unwrap_or_default());
        if ends == [0, 0] {
            return None;
        }
        let mut pads = vec![0; 2 * rank];
        (pads[rank - 1], pads[2 * rank - 1]) = (ends[0], ends[1]);
        let (mut operands, mut attributes) = (vec![Some(own)], Vec::new());
        if self.maker.version < PADS {
            attributes.push(("pads".to_owned(), Attribute::Ints(pads)));
        } else {
            operands.push(Some(self.maker.integers(&pads)));
        }
        let ty = self.along(own, rank - 1, &(0..extent));
        let name = self.maker.name_after(value, &format!("padded{}", self.block));
        let node = self.maker.insert(None, self.maker.onnx("Pad", operands, attributes), &[Some((name, ty))]);
        self.made.push(node);
        self.maker.module().node(node).results().next()
    }
}
