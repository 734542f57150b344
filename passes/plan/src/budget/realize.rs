//! Writes the events of a plan as nodes: inserts copies for repeated runs and nodes that make and read
//! codes, and gives each reader the latest copy.

use std::collections::BTreeSet;

use memc_edit::Attributes;
use memc_ir::{Alias, Attribute, Module, Node, Operator, SecondaryMap, Value, ValueType};
use memc_ops::families::memory::{MEMORY, fetched_by};
use memc_solve::budget::Event;

use super::far::Read;
use super::issue::issue;
use super::state::{Stated, Task};
use memc_passes::encode::Writer;
use memc_passes::{Claim, Claims, Encoded, PassContext};

/// Writes the events into the module and returns the number of edits. Repeated and optional runs without
/// readers are left out.
///
/// Takes O(events + operands), except for views: these are recomputed for each copy of their owner that
/// is read through them.
pub(crate) fn realize(
    module: &mut Module,
    ctx: &mut PassContext<'_>,
    stated: &Stated,
    events: &[Event],
) -> u64 {
    let names = module.values().iter().map(|(_, data)| data.name.clone()).collect();
    let mut aliases = Vec::new();
    let mut known = Vec::new();
    let edits = {
        let mut realizer = Realizer {
            writer: Writer::new(module),
            stated,
            latest: SecondaryMap::default(),
            shown: SecondaryMap::default(),
            times: SecondaryMap::default(),
            stored: SecondaryMap::default(),
            given: SecondaryMap::default(),
            codes: vec![None; stated.problem.values.len()],
            far_codes: vec![None; stated.problem.values.len()],
            claims: &mut ctx.said.claims,
            order: Vec::new(),
            names,
            aliases: &mut aliases,
            known: &mut known,
        };
        for event in issue(&stated.problem, &needed(stated, events)) {
            match event {
                Event::Run(run) => match stated.nodes.get(run as usize) {
                    Some(node) => realizer.run(*node),
                    None => realizer.optional(run as usize - stated.nodes.len()),
                },
                Event::Store { value, link } => realizer.store(value as usize, &stated.far[link as usize]),
                Event::Load { value, .. } => realizer.load(value as usize),
            }
        }
        realizer.finish()
    };
    for (value, alias) in aliases {
        module.plan.alias.set(value, Some(alias));
    }
    for (copy, original) in known {
        let elements = ctx.data[original].clone();
        ctx.data.set(copy, elements);
    }
    edits
}

/// Returns the events of a plan in order, without repeated runs, optional runs and transfers whose results
/// have no reader.
fn needed(stated: &Stated, events: &[Event]) -> Vec<Event> {
    let mut times = vec![0u32; stated.nodes.len()];
    for event in events {
        if let Event::Run(run) = event
            && let Some(times) = times.get_mut(*run as usize)
        {
            *times += 1;
        }
    }
    let values = stated.problem.values.len();
    let (mut is_read, mut is_loaded) = (vec![false; values], vec![false; values]);
    let mut needed = Vec::new();
    for event in events.iter().rev() {
        let is_needed = match *event {
            Event::Run(index) => {
                let Some(run) = stated.problem.run(index) else { continue };
                let is_first = times.get_mut(index as usize).is_some_and(|times| {
                    *times -= 1;
                    *times == 0
                });
                let is_needed = is_first || run.writes.iter().any(|value| is_read[*value as usize]);
                if is_needed {
                    run.writes.iter().for_each(|value| is_read[*value as usize] = false);
                    run.reads.iter().for_each(|value| is_read[*value as usize] = true);
                }
                is_needed
            }
            Event::Load { value, .. } => {
                let is_needed = std::mem::take(&mut is_read[value as usize]);
                is_loaded[value as usize] |= is_needed;
                is_needed
            }
            Event::Store { value, .. } => {
                let is_needed = std::mem::take(&mut is_loaded[value as usize]);
                is_read[value as usize] |= is_needed;
                is_needed
            }
        };
        needed.extend(is_needed.then_some(*event));
    }
    needed.reverse();
    needed
}

struct Realizer<'a, 'm> {
    writer: Writer<'m>,
    stated: &'a Stated,
    /// By value: its latest copy.
    latest: SecondaryMap<Value, Option<Value>>,
    /// By view: the copy of its operand when it was last made, and the view made then.
    shown: SecondaryMap<Value, Option<(Value, Value)>>,
    /// By node: number of its runs so far.
    times: SecondaryMap<Node, u32>,
    /// By value: its copy in a farther space.
    stored: SecondaryMap<Value, Option<Value>>,
    /// By node: its operands before any was replaced.
    given: SecondaryMap<Node, Vec<Option<Value>>>,
    /// By value of the problem: its latest code, and the code in a farther space.
    codes: Vec<Option<Value>>,
    far_codes: Vec<Option<Value>>,
    claims: &'a mut Claims,
    order: Vec<Node>,
    /// Names already in use.
    names: BTreeSet<String>,
    /// Aliases of views; set once the rewriter is done.
    aliases: &'a mut Vec<(Value, Alias)>,
    /// Copies with their originals.
    known: &'a mut Vec<(Value, Value)>,
}

impl Realizer<'_, '_> {
    fn run(&mut self, node: Node) {
        for captured in self.writer.module().captures(node) {
            self.resolve(captured);
        }
        for (original, copy) in self.emit(node) {
            self.latest.set(original, Some(copy));
        }
    }

    /// Appends the nodes of an optional run.
    fn optional(&mut self, index: usize) {
        let Some((entry, task)) = self.stated.optional.get(index).copied() else { return };
        let Some(coded) = self.stated.coded.get(entry) else { return };
        let names = |realizer: &Self, values: &[Value]| -> Vec<String> {
            values.iter().map(|value| realizer.module().value(*value).name.clone()).collect()
        };
        if task == Task::Encodes {
            let value = self.resolve(coded.value);
            let (nodes, codes) = self.writer.encode(&coded.recipe, value);
            self.order.extend(nodes);
            coded.codes.iter().zip(codes).for_each(|(index, code)| self.codes[*index as usize] = Some(code));
        } else {
            let codes: Vec<Value> =
                coded.codes.iter().filter_map(|index| self.codes[*index as usize]).collect();
            let others: Vec<Value> = coded.recipe.others().iter().map(|other| self.resolve(*other)).collect();
            let (nodes, value) = self.writer.decode(&coded.recipe, coded.value, &codes, &others);
            self.order.extend(nodes);
            self.latest.set(coded.value, Some(value));
            self.known.push((value, coded.value));
            let encoded = Encoded {
                of: self.module().value(coded.value).name.clone(),
                codes: names(self, &codes),
                decoded: self.module().value(value).name.clone(),
                form: coded.recipe.form,
            };
            self.claims.push(Claim::Encoded(encoded));
        }
        let views = self.writer.aliases();
        self.aliases.extend(views);
    }

    fn module(&self) -> &Module {
        self.writer.module()
    }

    /// Appends a node, or a copy of the node, to the order, with the latest copies as operands; returns
    /// its results paired with the values that replace them.
    fn emit(&mut self, node: Node) -> Vec<(Value, Value)> {
        if self.times[node] == 0 {
            self.given.set(node, self.writer.module().node(node).inputs.clone());
        }
        let inputs = self.given[node].clone();
        let mut operands: Vec<Option<Value>> =
            inputs.iter().map(|operand| operand.map(|value| self.resolve(value))).collect();
        if self.stated.far_reads[node].is_some() {
            // The constant itself, even if a near copy of it is there.
            operands[0] = inputs[0];
        }
        self.times[node] += 1;
        if self.times[node] > 1 {
            return self.copy(node, operands);
        }
        for (position, (old, new)) in inputs.iter().zip(&operands).enumerate() {
            if let Some(new) = new.filter(|new| *old != Some(*new)) {
                self.writer.maker().set_operand(node, position as u32, new);
            }
        }
        self.fetch_some(node);
        self.order.push(node);
        self.writer.module().node(node).results().map(|value| (value, value)).collect()
    }

    fn copy(&mut self, node: Node, operands: Vec<Option<Value>>) -> Vec<(Value, Value)> {
        let module = self.writer.module();
        let data = module.node(node).clone();
        let again = self.times[node] - 1;
        let name =
            if data.name.is_empty() { String::new() } else { format!("{}.recompute{again}", data.name) };
        let results: Vec<Option<(String, ValueType)>> = data
            .outputs
            .iter()
            .map(|result| {
                let original = module.value((*result)?);
                Some((numbered(&mut self.names, &original.name, "recompute", again), original.ty.clone()))
            })
            .collect();
        let new = memc_edit::node(super::INFO.name, data.operator, operands, data.attributes).named(name);
        let copy = self.writer.maker().insert(None, new, &results);
        self.writer.maker().set_recompute_of(copy, Some(data.recompute_of.unwrap_or(node)));
        self.order.push(copy);
        let copies = self.writer.module().node(copy).outputs.clone();
        let pairs: Vec<(Value, Value)> =
            data.outputs.iter().zip(copies).filter_map(|(original, copy)| (*original).zip(copy)).collect();
        self.known.extend(pairs.iter().map(|(original, copy)| (*copy, *original)));
        pairs
    }

    /// Appends a transfer of the latest copy of a value of the problem to a farther space.
    fn store(&mut self, index: usize, space: &str) {
        let to = vec![("to".to_owned(), Attribute::String(space.as_bytes().to_vec().into()))];
        let Some(&value) = self.stated.owners.get(index) else {
            let Some(code) = self.codes[index] else { return };
            self.far_codes[index] = self.transfer("SwapOut", code, code, to, "far");
            return;
        };
        let near = self.latest[value].unwrap_or(value);
        let far = self.transfer("SwapOut", value, near, to, "far");
        self.stored.set(value, far);
    }

    /// Appends a transfer back to the near space; later readers use the new copy.
    fn load(&mut self, index: usize) {
        let Some(&value) = self.stated.owners.get(index) else {
            if let Some((code, far)) = self.codes[index].zip(self.far_codes[index]) {
                self.codes[index] = self.transfer("SwapIn", code, far, Vec::new(), "near");
            }
            return;
        };
        let Some(maker) = self.writer.module().producer(value) else {
            let near = self.transfer("Fetch", value, value, self.from(), "near");
            self.latest.set(value, near);
            return;
        };
        if self.stated.far_reads[maker] == Some(Read::Part) {
            // A second fetch is a node of its own, not a copy of a computed value.
            let near = match self.times[maker] {
                0 => self.emit(maker).first().map(|(_, part)| *part),
                _ => self.part_again(maker, value),
            };
            self.latest.set(value, near);
        } else if let Some(far) = self.stored[value] {
            let near = self.transfer("SwapIn", value, far, Vec::new(), "near");
            self.latest.set(value, near);
        }
    }

    /// Returns the attribute of a fetch that names the space of the constant.
    fn from(&self) -> Attributes {
        let from =
            self.stated.weights.iter().map(|space| Attribute::String(space.as_bytes().to_vec().into()));
        from.map(|space| ("from".to_owned(), space)).collect()
    }

    /// Turns a node that reads some positions of a farther constant into the fetch of them.
    fn fetch_some(&mut self, node: Node) {
        let data = self.module().node(node).clone();
        let Some(operator) = fetched_by(&data.operator).filter(|_| self.stated.far_reads[node].is_some())
        else {
            return;
        };
        let attributes = [data.attributes, self.from()].concat();
        self.writer.maker().redefine(node, operator, data.inputs, attributes);
    }

    /// Appends another fetch of a part of a constant.
    fn part_again(&mut self, node: Node, value: Value) -> Option<Value> {
        let (data, original) = (self.module().node(node).clone(), self.module().value(value).clone());
        let name = numbered(&mut self.names, &original.name, "near", 1);
        let new = memc_edit::node(super::INFO.name, data.operator, data.inputs, data.attributes)
            .named(name.clone());
        let node = self.writer.maker().insert(None, new, &[Some((name, original.ty))]);
        self.order.push(node);
        let result = self.writer.maker().result(node);
        self.known.extend(result.map(|result| (result, value)));
        result
    }

    fn transfer(
        &mut self,
        operator: &str,
        original: Value,
        operand: Value,
        attributes: Attributes,
        suffix: &str,
    ) -> Option<Value> {
        let data = self.module().value(original).clone();
        let name = numbered(&mut self.names, &data.name, suffix, 1);
        let operator = Operator { domain: MEMORY.into(), ..Operator::onnx(operator, 1) };
        let new =
            memc_edit::node(super::INFO.name, operator, vec![Some(operand)], attributes).named(name.clone());
        let node = self.writer.maker().insert(None, new, &[Some((name, data.ty))]);
        self.order.push(node);
        let result = self.writer.maker().result(node);
        self.known.extend(result.map(|result| (result, original)));
        result
    }

    /// Returns the latest copy of a value. A view is recomputed first if its operand has a newer copy
    /// than the view shows; the recursion over views is bounded by the maximum depth in the problem's
    /// statement.
    fn resolve(&mut self, value: Value) -> Value {
        let module = self.writer.module();
        let view = module.producer(value).filter(|node| self.stated.is_view[*node]);
        let Some((node, alias)) = view.zip(module.plan.alias[value]) else {
            return self.latest[value].unwrap_or(value);
        };
        let of = self.resolve(alias.of);
        if let Some((_, shown)) = self.shown[value].filter(|(source, _)| *source == of) {
            return shown;
        }
        let copy = self.emit(node).first().map_or(value, |(_, copy)| *copy);
        self.aliases.push((copy, Alias { of, ..alias }));
        self.shown.set(value, Some((of, copy)));
        copy
    }

    fn finish(mut self) -> u64 {
        let main = self.writer.module().main();
        self.writer.maker().set_schedule(main, self.order);
        self.writer.finish()
    }
}

/// Returns a free name for a copy: the original's name with a word and a number, starting at `first`.
fn numbered(names: &mut BTreeSet<String>, original: &str, word: &str, first: u32) -> String {
    let mut number = first;
    loop {
        let name = format!("{original}.{word}{number}");
        if names.insert(name.clone()) {
            return name;
        }
        number += 1;
    }
}
