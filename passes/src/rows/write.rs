//! Writes nodes that make fewer positions.

use std::collections::BTreeMap;

use memc_edit::Maker;
use memc_ir::{Attribute, Dim, Module, NewNode, Node, Value, ValueType};
use memc_ops::Stretch;

use super::{How, INFO, Step, Wants, changes, is_all, narrowed};

/// Writes the steps of an analysis; returns the number of edits. Replaced nodes stay, without readers.
pub(super) fn write(module: &mut Module, steps: &BTreeMap<Node, Step>) -> u64 {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut writer = Writer {
        maker: Maker::new(module, INFO.name),
        narrow: BTreeMap::new(),
        cuts: BTreeMap::new(),
        finals: Vec::new(),
    };
    for node in nodes {
        if let Some(step) = steps.get(&node) {
            let data = writer.maker.module().node(node).clone();
            if changes(&data, step, &|value| writer.narrow.contains_key(&value)) {
                writer.node(node, step);
            }
        }
    }
    for (source, result) in std::mem::take(&mut writer.finals) {
        writer.end(source, result);
    }
    writer.maker.drop_unused_constants();
    writer.maker.finish()
}

struct Writer<'m> {
    maker: Maker<'m>,
    /// For each value of which only some positions are made: the value with these positions.
    narrow: BTreeMap<Value, (Value, Wants)>,
    /// Positions that were cut out.
    cuts: BTreeMap<(Value, Wants), Value>,
    /// Values that stand for a value whose name must stay.
    finals: Vec<(Value, Value)>,
}

impl Writer<'_> {
    fn dims(&self, value: Value) -> Vec<Dim> {
        self.maker.module().ty(value).tensor().and_then(|ty| ty.shape.clone()).unwrap_or_default()
    }

    fn node(&mut self, node: Node, step: &Step) {
        let data = self.maker.module().node(node).clone();
        let results: Vec<(usize, Value)> = data
            .outputs
            .iter()
            .enumerate()
            .filter_map(|(position, value)| Some((position, (*value)?)))
            .collect();
        if let How::Cut(cuts) = &step.how {
            let Some(source) = data.inputs.first().copied().flatten() else { return };
            for (position, result) in results {
                if self.maker.uses(result).is_empty() {
                    continue;
                }
                let cut = self.cut(node, source, &cuts[position]);
                self.stands(cut, result, &step.made[position]);
            }
            return;
        }
        let mut operands: Vec<Option<Value>> = Vec::with_capacity(data.inputs.len());
        for (operand, wants) in data.inputs.iter().zip(&step.reads) {
            operands.push(match operand {
                Some(value) if !wants.is_empty() => Some(self.cut(node, *value, wants)),
                other => *other,
            });
        }
        let mut attributes = data.attributes.clone();
        let Some((_, first)) = results.first().copied() else { return };
        let made = step.made.first().cloned().unwrap_or_default();
        match &step.how {
            How::Node { pads, extents } => {
                if let Some(pads) = pads {
                    attributes.retain(|(name, _)| name != "pads" && name != "auto_pad");
                    attributes.push(("pads".to_owned(), Attribute::Ints(pads.clone())));
                }
                if let Some(position) =
                    extents.filter(|position| operands.get(*position).copied().flatten().is_some())
                {
                    let ty = narrowed(self.maker.module(), first, &made);
                    let dims = ty.tensor().and_then(|ty| ty.shape.clone()).unwrap_or_default();
                    let derives = data.operator.domain.is_empty() && &*data.operator.name == "Reshape";
                    operands[position] = Some(self.maker.extents(&dims, derives));
                }
            }
            How::Integers(dims, numbers) => {
                operands[1] = Some(self.maker.integer_tensor("indices", dims, numbers))
            }
            How::Some(kept) => {
                operands = kept.iter().map(|position| operands[*position]).collect();
                if let [Some(one)] = operands[..] {
                    self.stands(one, first, &made);
                    return;
                }
            }
            How::Shape => {
                let ty = narrowed(self.maker.module(), first, &made);
                let dims = ty.tensor().and_then(|ty| ty.shape.clone()).unwrap_or_default();
                let stated = self.maker.extents(&dims, true);
                let reshape = self.maker.onnx("Reshape", [operands[0], Some(stated)], Vec::new());
                if is_all(&made) {
                    self.maker.redefine(node, reshape.operator, reshape.inputs, Vec::new());
                } else {
                    self.insert(node, reshape, &[Some(first)], step);
                }
                return;
            }
            How::Cut(_) => {}
        }
        if step.made.iter().all(is_all) {
            self.maker.redefine(node, data.operator, operands, attributes);
            return;
        }
        let new = self.maker.node(data.operator.clone(), operands, attributes);
        self.insert(node, new, &data.outputs, step);
    }

    /// Inserts a node before another one, for some positions of the results of the latter.
    fn insert(&mut self, before: Node, new: NewNode, results: &[Option<Value>], step: &Step) {
        let mut types: Vec<Option<(String, ValueType)>> = Vec::new();
        for (position, result) in results.iter().enumerate() {
            types.push(result.map(|result| {
                (
                    self.maker.name_after(result, "rows"),
                    narrowed(self.maker.module(), result, &step.made[position]),
                )
            }));
        }
        let made = self.maker.insert(Some(before), new, &types);
        let new_results = self.maker.module().node(made).outputs.clone();
        for (position, (old, new)) in results.iter().zip(new_results).enumerate() {
            if let (Some(old), Some(new)) = (old, new) {
                self.narrow.insert(*old, (new, step.made[position].clone()));
            }
        }
    }

    /// Lets a value stand for these positions of another one.
    fn stands(&mut self, value: Value, result: Value, made: &Wants) {
        if !is_all(made) {
            self.narrow.insert(result, (value, made.clone()));
        } else if self.maker.is_pinned(result) {
            self.finals.push((value, result));
        } else {
            self.maker.replace_uses(result, value);
        }
    }

    /// Gives a value the name of the one for which it stands.
    fn end(&mut self, value: Value, result: Value) {
        if self.maker.module().ty(value) == self.maker.module().ty(result)
            && self.maker.take_over(value, result)
        {
            return;
        }
        let Some(old) = self.maker.module().producer(result) else { return };
        let copy = self.maker.onnx("Identity", [value], Vec::new());
        self.maker.redefine(old, copy.operator, copy.inputs, Vec::new());
    }

    /// Returns these positions of a value, cut out before a node if they are not made alone.
    fn cut(&mut self, before: Node, value: Value, wants: &Wants) -> Value {
        let key = (value, wants.clone());
        if let Some(known) = self.cuts.get(&key) {
            return *known;
        }
        let dims = self.dims(value);
        let (mut source, held) =
            self.narrow.get(&value).cloned().unwrap_or_else(|| (value, vec![None; dims.len()]));
        for (axis, extent) in dims.iter().enumerate() {
            let whole = Stretch::whole(extent);
            let held = held.get(axis).cloned().flatten().unwrap_or_else(|| whole.clone());
            let wanted = wants.get(axis).cloned().flatten().unwrap_or(whole);
            if wanted.count().same(&held.count()) {
                continue;
            }
            let ranges = self.maker.module().domain().ranges.clone();
            let positions = wanted.counted_from(&held.start).simplified(&ranges);
            let name = self.maker.name_after(value, "cut");
            let made = self.maker.slice(Some(before), source, axis, &positions, name);
            source = self.maker.result(made).unwrap_or(source);
        }
        self.cuts.insert(key, source);
        source
    }
}
