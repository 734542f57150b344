//! State: graph inputs whose new value the graph returns, and the pairs that may share storage.
//!
//! The caller stores both values, so sharing changes nothing in the arena. It only requires that no node
//! reads the old value after the new value is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use memc_ir::{Definition, Module, Node, SecondaryMap, Value};
use memc_ops::{Profile, Typed, new_values};

use crate::analysis::buffers::is_placed;
use crate::analysis::class::classes;
use crate::options::{Options, StateNames};

/// A graph input and its new value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StatePair {
    /// The graph input.
    pub old: Value,
    /// The graph output.
    pub new: Value,
}

/// Maximum number of values visited on the way back from one output: updates are short chains.
const MAX_SEARCH: usize = 4096;

/// A graph output that may be the new value of a graph input but has no known partner, or does not share
/// its storage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unpaired {
    /// The graph output.
    pub new: Value,
    /// The reason.
    pub reason: Reason,
}

/// Why a graph output shares no storage with a graph input whose new value it may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Several inputs are equally near to the output, or an input is equally near to several outputs.
    Ambiguous(Vec<Value>),
    /// The output's inputs are nearer to other outputs.
    Taken(Vec<Value>),
    /// The output has this partner, but a node reads the old value after the new value is written, or
    /// not element by element.
    StillRead(Value),
}

/// Pairs of old and new values, and outputs without a known partner.
#[derive(Clone, Default, Debug)]
struct Matches {
    pairs: Vec<StatePair>,
    open: Vec<Unpaired>,
}

/// Returns the pairs of graph inputs and their new values: named pairs of the options, and with
/// `alias_state` also found pairs.
///
/// An output is the new value of an input of its type if its elements follow from those of the input one
/// by one: through element-wise operators, reshapes, and the optimizers of the operator table. Pairs
/// with the fewest operators in between come first. A value with two equally near partners gets none.
/// O(outputs · length of their updates).
pub fn pairs(module: &Module, options: &Options) -> Vec<StatePair> {
    if options.alias_state { matches(module, &named(module, options)).pairs } else { named(module, options) }
}

/// Returns all graph outputs that may be new values of graph inputs, with clear or unclear partners, in
/// ascending order.
pub fn candidates(module: &Module) -> Vec<Value> {
    let found = matches(module, &[]);
    let all: BTreeSet<Value> = found
        .pairs
        .iter()
        .map(|pair| pair.new)
        .chain(found.open.iter().map(|unpaired| unpaired.new))
        .collect();
    all.into_iter().collect()
}

/// Returns the pairs named by the options that exist in this module, in ascending order.
fn named(module: &Module, options: &Options) -> Vec<StatePair> {
    let main = module.graph(module.main());
    let find =
        |values: &[Value], name: &str| values.iter().copied().find(|value| module.value(*value).name == name);
    let both = |names: &StateNames| {
        let (old, new) = (find(&main.inputs, &names.old)?, find(&main.outputs, &names.new)?);
        (old != new && module.producer(new).is_some()).then_some(StatePair { old, new })
    };
    let all: BTreeSet<StatePair> = options.state.iter().filter_map(both).collect();
    all.into_iter().collect()
}

/// Finds pairs in addition to the known ones.
fn matches(module: &Module, known: &[StatePair]) -> Matches {
    let main = module.graph(module.main());
    let is_output: BTreeSet<Value> = main.outputs.iter().copied().collect();
    // Candidate pairs by distance.
    let mut near: BTreeMap<usize, BTreeSet<StatePair>> = BTreeMap::new();
    for new in is_output.iter().filter(|new| module.producer(**new).is_some()) {
        for (old, distance) in sources(module, *new) {
            let same = module.ty(old).tensor() == module.ty(*new).tensor() && module.ty(old).size().is_some();
            if same && !is_output.contains(&old) {
                near.entry(distance).or_default().insert(StatePair { old, new: *new });
            }
        }
    }
    let mut taken: BTreeSet<Value> = known.iter().flat_map(|pair| [pair.old, pair.new]).collect();
    let mut found = known.to_vec();
    // Nearest inputs of each output without a partner so far, and whether several were equally near.
    let mut open: BTreeMap<Value, (bool, Vec<Value>)> = BTreeMap::new();
    // Pair the nearest candidates first; a value with several free partners at one distance gets none.
    for level in near.into_values() {
        let (free, late): (Vec<StatePair>, Vec<StatePair>) =
            level.into_iter().partition(|pair| !taken.contains(&pair.old) && !taken.contains(&pair.new));
        for pair in late {
            let (is_choice, list) = open.entry(pair.new).or_default();
            if !*is_choice {
                list.push(pair.old);
            }
        }
        let mut partners: BTreeMap<Value, usize> = BTreeMap::new();
        for value in free.iter().flat_map(|pair| [pair.old, pair.new]) {
            *partners.entry(value).or_default() += 1;
        }
        for pair in free {
            taken.extend([pair.old, pair.new]);
            if partners[&pair.old] == 1 && partners[&pair.new] == 1 {
                found.push(pair);
            } else {
                let (is_choice, list) = open.entry(pair.new).or_default();
                if !std::mem::replace(is_choice, true) {
                    list.clear();
                }
                list.push(pair.old);
            }
        }
    }
    found.sort_unstable();
    open.retain(|new, _| found.iter().all(|pair| pair.new != *new));
    let reason = |(is_choice, near)| if is_choice { Reason::Ambiguous(near) } else { Reason::Taken(near) };
    let open = open.into_iter().map(|(new, near)| Unpaired { new, reason: reason(near) }).collect();
    Matches { pairs: found, open }
}

/// Returns the graph inputs from whose elements those of a value follow one by one, with the number of
/// operators in between.
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

/// Returns the operands from whose elements those of a node's result follow one by one.
fn followed(module: &Module, node: Node, result: Value) -> Vec<Value> {
    let data = module.node(node);
    let typed = Typed::of(module, node);
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

/// Returns the values that share the bytes of a value of the caller, including the value itself.
fn family(module: &Module, old: Value) -> Vec<Value> {
    module.values().keys().filter(|value| module.plan.owner(*value).0 == old).collect()
}

/// Makes nodes that write new values wait for all readers of the old values, as far as the present order
/// already does so.
///
/// `before` holds the sorted positions that must precede each position; it stays sorted.
pub fn wait_for_readers(module: &Module, options: &Options, before: &mut [Vec<u32>]) {
    let readers = readers(module);
    let mut position: SecondaryMap<Node, u32> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        position.set(*node, index as u32);
    }
    for pair in pairs(module, options) {
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

/// Returns the positions that read each value, including captures, in ascending order.
fn readers(module: &Module) -> SecondaryMap<Value, Vec<u32>> {
    let mut readers: SecondaryMap<Value, Vec<u32>> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        for value in module.reads(*node) {
            readers[value].push(index as u32);
        }
    }
    readers
}

/// Returns the pairs that share storage under the present order and aliases.
///
/// The caller stores both values. No node reads the old value after the node that writes the new value,
/// and that node may overwrite every operand through which it reads the old value.
pub fn shared(module: &Module, options: &Options) -> Vec<StatePair> {
    let (classes, readers) = (classes(module), readers(module));
    let main = module.graph(module.main());
    let held =
        |value: Value| module.plan.alias[value].is_none() && !is_placed(module, &classes, options.io, value);
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
    pairs(module, options)
        .into_iter()
        .filter(|pair| held(pair.old) && held(pair.new) && sound(pair))
        .collect()
}

/// Returns the graph outputs that may be new values but share no storage under the present order, each
/// with the reason.
pub fn unpaired(module: &Module, options: &Options) -> Vec<Unpaired> {
    let shared: BTreeSet<StatePair> = shared(module, options).into_iter().collect();
    let mut all =
        if options.alias_state { matches(module, &named(module, options)).open } else { Vec::new() };
    let idle = pairs(module, options).into_iter().filter(|pair| !shared.contains(pair));
    all.extend(idle.map(|pair| Unpaired { new: pair.new, reason: Reason::StillRead(pair.old) }));
    all.sort_by_key(|unpaired| unpaired.new);
    all
}

/// Returns the operand positions that the writer of a new value may overwrite with it.
fn overwritten(module: &Module, writer: Node, pair: &StatePair, options: &Options) -> Vec<usize> {
    let data = module.node(writer);
    let made = |result: &usize| data.outputs.get(*result) == Some(&Some(pair.new));
    let mut over: Vec<usize> =
        new_values(data).into_iter().filter(|(result, _)| made(result)).map(|(_, operand)| operand).collect();
    if made(&0) {
        // A session's own rule for outputs does not count: the caller binds both values to one storage.
        let profile = if options.profile.shared_outputs { options.profile } else { &Profile::PLAYER };
        over.extend(profile.may_overwrite(&Typed::of(module, writer)));
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
        pairs
            .iter()
            .map(|pair| format!("{} -> {}", module.value(pair.old).name, module.value(pair.new).name))
            .collect()
    }

    fn external() -> Options {
        Options { io: Io::External, alias_state: true, ..Options::default() }
    }

    const STEP: &str = "input %p : f32[8,8]\ninput %m : f32[8,8]\ninput %x : f32[8,8]\nconst %rate : f32[] = elided\n\
        %y = MatMul(%x, %p) : f32[8,8]\n%g = MatMul(%x, %y) : f32[8,8]\n%decay = Mul(%m, %rate) : f32[8,8]\n\
        %m1 = Add(%decay, %g) : f32[8,8]\n%step = Mul(%m1, %rate) : f32[8,8]\n%p1 = Sub(%p, %step) : f32[8,8]\n";

    #[test]
    fn a_parameter_and_its_moment_are_paired_by_the_shorter_path() {
        let module = module(&format!("{STEP}return %p1, %m1"));
        assert_eq!(names(&module, &pairs(&module, &external())), ["p -> p1", "m -> m1"]);
        assert_eq!(shared(&module, &external()).len(), 2);
        assert!(shared(&module, &Options::default()).is_empty(), "the arena holds outputs");
    }

    #[test]
    fn old_values_read_after_the_update_are_not_shared() {
        // The second reader of %p comes after the update.
        let module = module(&format!("{STEP}%late = MatMul(%p, %x) : f32[8,8]\nreturn %p1, %m1, %late"));
        assert_eq!(names(&module, &pairs(&module, &external())), ["p -> p1", "m -> m1"]);
        assert_eq!(names(&module, &shared(&module, &external())), ["m -> m1"]);
        // A late reader of a view of %p also prevents sharing.
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
        // %o follows %e and %p element by element, but %q reads %p later. %q follows no input.
        assert_eq!(names(&module, &pairs(&module, &external())), ["p -> o"]);
        assert!(shared(&module, &external()).is_empty());
    }

    #[test]
    fn equally_near_partners_are_not_guessed() {
        let module = module(
            "input %a : f32[8]\ninput %b : f32[8]\n%s = Add(%a, %b) : f32[8]\n%d = Sub(%a, %b) : f32[8]\nreturn %s, %d",
        );
        assert!(pairs(&module, &external()).is_empty());
    }

    /// A moment and its gradient, equally near to the new moment.
    const MOMENT: &str = "input %p : f32[8]\ninput %m : f32[8]\ninput %g : f32[8]\nconst %rate : f32[] = elided\n\
        %a = Mul(%m, %rate) : f32[8]\n%b = Mul(%g, %rate) : f32[8]\n%m1 = Add(%a, %b) : f32[8]\n\
        %s = Mul(%m1, %rate) : f32[8]\n%p1 = Sub(%p, %s) : f32[8]\nreturn %m1, %p1";

    #[test]
    fn unpaired_outputs_are_listed_with_the_reason() {
        let module = module(MOMENT);
        let open = unpaired(&module, &external());
        let value =
            |name: &str| module.values().keys().find(|value| module.value(*value).name == name).unwrap();
        assert_eq!(
            open,
            [Unpaired { new: value("m1"), reason: Reason::Ambiguous(vec![value("m"), value("g")]) }]
        );
        assert_eq!(candidates(&module), [value("m1"), value("p1")]);
    }

    #[test]
    fn a_named_pair_is_taken_alone_and_beside_those_that_are_found() {
        let module = module(MOMENT);
        let state = vec![StateNames { new: "m1".to_owned(), old: "m".to_owned() }];
        let both = Options { state: state.clone(), ..external() };
        assert_eq!(names(&module, &shared(&module, &both)), ["p -> p1", "m -> m1"]);
        assert!(unpaired(&module, &both).is_empty());
        let alone = Options { alias_state: false, state, ..external() };
        assert_eq!(names(&module, &shared(&module, &alone)), ["m -> m1"]);
    }

    #[test]
    fn a_named_pair_whose_old_value_is_read_later_is_not_shared() {
        let late = MOMENT.replace("return %m1, %p1", "%late = Exp(%m) : f32[8]\nreturn %m1, %p1, %late");
        let module = module(&late);
        let state = vec![StateNames { new: "m1".to_owned(), old: "m".to_owned() }];
        let options = Options { alias_state: false, state, ..external() };
        assert!(shared(&module, &options).is_empty());
        let open = unpaired(&module, &options);
        assert!(matches!(open.as_slice(), [Unpaired { reason: Reason::StillRead(_), .. }]), "{open:?}");
    }

    #[test]
    fn optimizer_operators_state_their_pairs() {
        let module = module(
            "input %r : f32[]\ninput %t : i64[]\ninput %x : f32[8]\ninput %g : f32[8]\ninput %v : f32[8]\ninput %h : f32[8]\n\
             %x1, %v1, %h1 = ai.onnx.preview.training::Adam(%r, %t, %x, %g, %v, %h) : (f32[8], f32[8], f32[8])\n\
             return %x1, %v1, %h1",
        );
        assert_eq!(names(&module, &pairs(&module, &external())), ["x -> x1", "v -> v1", "h -> h1"]);
        assert_eq!(shared(&module, &external()).len(), 3);
    }

    #[test]
    fn updates_in_place_wait_for_readers_of_the_old_value() {
        let module = module(&format!(
            "{STEP}%loss = MatMul(%p, %g) : f32[8,8]\n%p2 = Sub(%p, %step) : f32[8,8]\nreturn %p2, %m1, %loss"
        ));
        let mut before = crate::analysis::predecessors(&module, module.main());
        wait_for_readers(&module, &external(), &mut before);
        // %p2, at position 7, waits for both products and for the unread difference.
        assert_eq!(before[7], [0, 4, 5, 6]);
    }
}
