//! State: graph inputs whose new value the graph returns, and which of these pairs may share storage.
//!
//! The caller holds both, so sharing moves nothing in an arena; it only asks that nobody reads the old value once the new one is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memc_ir::{Definition, Module, Node, SecondaryMap, Value};
use memc_ops::{Profile, Typed, new_values};

use crate::analysis::buffers::is_placed;
use crate::analysis::class::classes;
use crate::options::Options;

/// A value that the caller gives, and its new value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StatePair {
    /// The graph input.
    pub old: Value,
    /// The graph output.
    pub new: Value,
}

/// So many values are looked at on the way back from one output: updates are short chains.
const MAX_SEARCH: usize = 4096;

/// Graph outputs that are new values of graph inputs.
///
/// An output is the new value of an input of the same type from whose elements its own follow one by one, through element-wise operators,
/// reshapes and the optimizers of the operator table. Pairs with the fewest operators between them are taken first; an input or output that
/// has two equally near partners has none. O(outputs · length of their updates).
pub fn pairs(module: &Module) -> Vec<StatePair> {
    let main = module.graph(module.main());
    let is_output: BTreeSet<Value> = main.outputs.iter().copied().collect();
    let mut near: BTreeMap<usize, BTreeSet<StatePair>> = BTreeMap::new();
    for new in is_output.iter().filter(|new| module.producer(**new).is_some()) {
        for (old, distance) in sources(module, *new) {
            let same = module.ty(old).tensor() == module.ty(*new).tensor() && module.ty(old).size().is_some();
            if same && !is_output.contains(&old) {
                near.entry(distance).or_default().insert(StatePair { old, new: *new });
            }
        }
    }
    let mut taken: BTreeSet<Value> = BTreeSet::new();
    let mut found = Vec::new();
    for level in near.into_values() {
        let open: Vec<StatePair> =
            level.into_iter().filter(|pair| !taken.contains(&pair.old) && !taken.contains(&pair.new)).collect();
        let mut partners: BTreeMap<Value, usize> = BTreeMap::new();
        for value in open.iter().flat_map(|pair| [pair.old, pair.new]) {
            *partners.entry(value).or_default() += 1;
        }
        for pair in open {
            taken.extend([pair.old, pair.new]);
            if partners[&pair.old] == 1 && partners[&pair.new] == 1 {
                found.push(pair);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Graph inputs from whose elements those of a value follow one by one, with the number of operators between.
fn sources(module: &Module, value: Value) -> Vec<(Value, usize)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([value]);
    let mut open = VecDeque::from([(value, 0)]);
    while let Some((value, distance)) = open.pop_front() {
        let node = match module.value(value).definition {
            Definition::Result(node, _) => node,
            Definition::Input(graph, _) if graph == module.main() => {
                found.push((value, distance));
                continue;
            }
            _ => continue,
        };
        for operand in followed(module, node, value) {
            if seen.len() < MAX_SEARCH && seen.insert(operand) {
                open.push_back((operand, distance + 1));
            }
        }
    }
    found
}

/// Operands from whose elements those of a node's result follow one by one.
fn followed(module: &Module, node: Node, result: Value) -> Vec<Value> {
    let data = module.node(node);
    let typed = Typed { module, node };
    let mut positions: Vec<usize> = new_values(data)
        .into_iter()
        .filter(|(made, _)| data.outputs.get(*made) == Some(&Some(result)))
        .map(|(_, operand)| operand)
        .collect();
    if data.outputs.first() == Some(&Some(result)) {
        positions.extend(Profile::ARENA.may_overwrite(&typed));
        positions.extend(Profile::ARENA.view_of(&typed));
    }
    positions.into_iter().filter_map(|position| data.inputs.get(position).copied().flatten()).collect()
}

/// Values that share the bytes of a value that the caller holds, itself included.
fn family(module: &Module, old: Value) -> Vec<Value> {
    module.values().keys().filter(|value| module.plan.owner(*value).0 == old).collect()
}

/// Lets nodes that make new values wait for all readers of the old ones, as far as the order at hand has it so. `before` holds for each
/// position the positions that must come before it; it stays sorted.
pub fn wait_for_readers(module: &Module, before: &mut [Vec<u32>]) {
    let readers = readers(module);
    let mut position: SecondaryMap<Node, u32> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        position.set(*node, index as u32);
    }
    for pair in pairs(module) {
        let Some(writer) = module.producer(pair.new).map(|node| position[node]) else { continue };
        let earlier: Vec<u32> = family(module, pair.old)
            .iter()
            .flat_map(|value| &readers[*value])
            .copied()
            .filter(|reader| *reader != writer)
            .collect();
        if earlier.iter().all(|reader| *reader < writer) {
            let list = &mut before[writer as usize];
            list.extend(earlier);
            list.sort_unstable();
            list.dedup();
        }
    }
}

/// Positions that read each value, captures included, in ascending order.
fn readers(module: &Module) -> SecondaryMap<Value, Vec<u32>> {
    let mut readers: SecondaryMap<Value, Vec<u32>> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        for value in module.reads(*node) {
            readers[value].push(index as u32);
        }
    }
    readers
}

/// The pairs that share storage under the order and aliases at hand: the caller holds both, and nobody reads the old value after the node
/// that writes the new one, which reads it itself only where it may overwrite it.
pub fn shared(module: &Module, options: &Options) -> Vec<StatePair> {
    let (classes, readers) = (classes(module), readers(module));
    let main = module.graph(module.main());
    let held = |value: Value| module.plan.alias[value].is_none() && !is_placed(module, &classes, options.io, value);
    let sound = |pair: &StatePair| {
        let Some(writer) = module.producer(pair.new) else { return false };
        let Some(step) = main.nodes.iter().position(|node| *node == writer) else { return false };
        let over = overwritten(module, writer, pair, options);
        family(module, pair.old).iter().all(|member| {
            let is_whole = module.ty(*member).tensor() == module.ty(pair.old).tensor();
            let inputs = module.node(writer).inputs.iter().enumerate();
            let mut own = inputs.filter(|(_, operand)| **operand == Some(*member)).peekable();
            let reads_here = readers[*member].contains(&(step as u32));
            let is_operand = own.peek().is_some();
            !main.outputs.contains(member)
                && readers[*member].iter().all(|reader| *reader as usize <= step)
                && (!reads_here || is_operand)
                && own.all(|(position, _)| is_whole && over.contains(&position))
        })
    };
    pairs(module).into_iter().filter(|pair| held(pair.old) && held(pair.new) && sound(pair)).collect()
}

/// Operand positions that the node which makes a new value may overwrite with it.
fn overwritten(module: &Module, writer: Node, pair: &StatePair, options: &Options) -> Vec<usize> {
    let data = module.node(writer);
    let made = |result: &usize| data.outputs.get(*result) == Some(&Some(pair.new));
    let mut over: Vec<usize> =
        new_values(data).into_iter().filter(|(result, _)| made(result)).map(|(_, operand)| operand).collect();
    if made(&0) {
        over.extend(options.profile.may_overwrite(&Typed { module, node: writer }));
    }
    over
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use memc_ir::text;

    use super::*;
    use crate::options::Io;

    fn module(body: &str) -> Module {
        text::parse(&format!("mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {{\n{body}\n}}\n")).unwrap()
    }

    fn names(module: &Module, pairs: &[StatePair]) -> Vec<String> {
        pairs.iter().map(|pair| format!("{} -> {}", module.value(pair.old).name, module.value(pair.new).name)).collect()
    }

    fn external() -> Options {
        Options { io: Io::External, ..Options::default() }
    }

    const STEP: &str = "input %p : f32[8,8]\ninput %m : f32[8,8]\ninput %x : f32[8,8]\nconst %rate : f32[] = elided\n\
        %y = MatMul(%x, %p) : f32[8,8]\n%g = MatMul(%x, %y) : f32[8,8]\n%decay = Mul(%m, %rate) : f32[8,8]\n\
        %m1 = Add(%decay, %g) : f32[8,8]\n%step = Mul(%m1, %rate) : f32[8,8]\n%p1 = Sub(%p, %step) : f32[8,8]\n";

    #[test]
    fn a_parameter_and_its_moment_are_told_apart_by_the_shorter_way() {
        let module = module(&format!("{STEP}return %p1, %m1"));
        assert_eq!(names(&module, &pairs(&module)), ["p -> p1", "m -> m1"]);
        assert_eq!(shared(&module, &external()).len(), 2);
        assert!(shared(&module, &Options::default()).is_empty(), "the arena holds outputs");
    }

    #[test]
    fn what_is_read_after_the_update_is_not_shared() {
        // The second reader of %p stands behind its update.
        let module = module(&format!("{STEP}%late = MatMul(%p, %x) : f32[8,8]\nreturn %p1, %m1, %late"));
        assert_eq!(names(&module, &pairs(&module)), ["p -> p1", "m -> m1"]);
        assert_eq!(names(&module, &shared(&module, &external())), ["m -> m1"]);
        // So does one that reads a view of it.
        let viewed = self::module(&format!(
            "{STEP}%v = Reshape(%p) : f32[8,8] view(%p)\n%late = MatMul(%v, %x) : f32[8,8]\nreturn %p1, %m1, %late"
        ));
        assert_eq!(names(&viewed, &shared(&viewed, &external())), ["m -> m1"]);
    }

    #[test]
    fn an_operator_that_is_not_element_wise_may_not_write_over_its_operand() {
        let module = module(
            "input %p : f32[8,8]\n%e = Exp(%p) : f32[8,8]\n%n = MatMul(%p, %p) : f32[8,8]\n%o = Add(%n, %e) : f32[8,8]\n\
             %q = MatMul(%p, %e) : f32[8,8]\nreturn %o, %q",
        );
        // %o follows %e and %p element by element, but %q reads %p later; %q follows nothing.
        assert_eq!(names(&module, &pairs(&module)), ["p -> o"]);
        assert!(shared(&module, &external()).is_empty());
    }

    #[test]
    fn equally_near_partners_are_not_guessed() {
        let module =
            module("input %a : f32[8]\ninput %b : f32[8]\n%s = Add(%a, %b) : f32[8]\n%d = Sub(%a, %b) : f32[8]\nreturn %s, %d");
        assert!(pairs(&module).is_empty());
    }

    #[test]
    fn optimizers_say_themselves_what_they_update() {
        let module = module(
            "input %r : f32[]\ninput %t : i64[]\ninput %x : f32[8]\ninput %g : f32[8]\ninput %v : f32[8]\ninput %h : f32[8]\n\
             %x1, %v1, %h1 = ai.onnx.preview.training::Adam(%r, %t, %x, %g, %v, %h) : (f32[8], f32[8], f32[8])\n\
             return %x1, %v1, %h1",
        );
        assert_eq!(names(&module, &pairs(&module)), ["x -> x1", "v -> v1", "h -> h1"]);
        assert_eq!(shared(&module, &external()).len(), 3);
    }

    #[test]
    fn writers_wait_for_readers() {
        let module =
            module(&format!("{STEP}%loss = MatMul(%p, %g) : f32[8,8]\n%p2 = Sub(%p, %step) : f32[8,8]\nreturn %p2, %m1, %loss"));
        let mut before = crate::analysis::predecessors(&module, module.main());
        wait_for_readers(&module, &mut before);
        // %p2, at position 7, waits for both products and for the unread difference.
        assert_eq!(before[7], [0, 4, 5, 6]);
    }
}
