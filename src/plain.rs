//! Forms of a plan for sessions with default options, which choose the order, keep buffers for later values
//! of equal extents, and hold all values in regions whose sizes are powers of two.
//!
//! Each form adds a few nodes that compute next to nothing. Results stay equal.

use std::collections::BTreeMap;
use std::fmt;

use memc_edit::Maker;
use memc_ir::{
    Alias, AliasKind, Bytes, ElementType, Module, Node, Storage, TensorType, Use, Value, ValueType,
};
use memc_onnx_export::{AnchorKind, HIDES, add_anchor, add_anchors};
use memc_passes::Options;
use memc_passes::analysis::Memory;

/// Name of the pass in the origin of nodes that compute extents at run time and begin regions.
const BEGINS: &str = "begin-regions";

/// First version of ONNX's operators that slices by operands.
const SLICES: i64 = 10;

/// First version of ONNX's operators that fills a tensor of extents computed at run time.
const FILLS: i64 = 9;

/// Bytes of an element of a value that begins a region.
const ELEMENT: u64 = 4;

/// What holds a plan in a session with default options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlainForm {
    /// Whether slices of no positions pin the order: no optimization folds them.
    pub pinned: bool,
    /// Whether views of the inputs by extents computed at run time hide extents: the session then keeps no
    /// buffer for a later value.
    pub hidden: bool,
    /// Whether nodes that compute a value again read a view of their own, so that no session merges them.
    pub apart: bool,
    /// Bytes of values that are made and freed before all others, one after another: the session's memory
    /// begins with a region for each.
    pub first: Vec<u64>,
}

impl PlainForm {
    /// Whether the form adds nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for PlainForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first: Vec<String> = self.first.iter().map(u64::to_string).collect();
        let parts = [
            (self.pinned, "pinned".to_owned()),
            (self.hidden, "hidden".to_owned()),
            (self.apart, "apart".to_owned()),
            (!first.is_empty(), format!("first={}", first.join("+"))),
        ];
        let parts: Vec<String> =
            parts.into_iter().filter_map(|(is_on, text)| is_on.then_some(text)).collect();
        f.write_str(&parts.join(","))
    }
}

/// Gives a planned module a form; everything else keeps its place.
///
/// Before version 9 of ONNX's operators, and without an input of known extents, only anchors are added.
/// Inputs that share their storage with outputs stay visible.
pub(crate) fn shape(module: &mut Module, options: &Options, form: &PlainForm) {
    let begun = begin(module, form, !options.shares_state());
    if form.pinned {
        // A node without an anchor may run elsewhere: sessions are counted.
        add_anchors(module, AnchorKind::Slice);
    } else if let Some(node) = begun {
        add_anchor(module, node, AnchorKind::Slice);
    }
    place(module, options);
}

/// An input whose extents are known.
struct Known {
    input: Value,
    extents: Vec<i64>,
}

impl Known {
    /// The number of its elements.
    fn count(&self) -> i64 {
        self.extents.iter().product()
    }

    /// The axis with the most positions.
    fn longest(&self) -> usize {
        (0..self.extents.len()).max_by_key(|axis| self.extents[*axis]).unwrap_or_default()
    }

    /// Returns the extents of a value of at least so many bytes, and less than twice as many: the input, of
    /// `size` bytes, repeated along a new first axis or cut along its longest one. `None` if its positions
    /// are too large, or if the value would be a copy, which a session may leave out.
    fn changed(&self, size: u64, bytes: u64) -> Option<Vec<i64>> {
        let mut extents = self.extents.clone();
        let made = if size < bytes {
            let times = bytes.div_ceil(size.max(1));
            extents.insert(0, i64::try_from(times).ok()?);
            size.checked_mul(times)?
        } else {
            let axis = self.longest();
            let whole = extents[axis].unsigned_abs();
            let rows =
                u64::try_from(u128::from(bytes) * u128::from(whole) / u128::from(size.max(1))).ok()? + 1;
            extents[axis] = i64::try_from(rows).ok().filter(|_| rows < whole)?;
            u64::try_from(u128::from(size) * u128::from(rows) / u128::from(whole)).ok()?
        };
        (size > 0 && made < bytes.checked_mul(2)?).then_some(extents)
    }
}

/// Returns the inputs of known extents, at least one position each, that are no outputs.
fn known(module: &Module) -> Vec<Known> {
    let main = module.graph(module.main());
    let inputs = main
        .inputs
        .iter()
        .filter(|input| module.value(**input).default.is_none() && !main.outputs.contains(input));
    let all = inputs.filter_map(|input| Some(Known { input: *input, extents: positive(module.ty(*input))? }));
    all.collect()
}

/// Returns the extents of a tensor of numbers if they are known, at least one, and none is 0.
fn positive(ty: &ValueType) -> Option<Vec<i64>> {
    let tensor = ty.tensor()?;
    let is_number = !matches!(tensor.element, ElementType::String | ElementType::Undefined);
    let extents: Option<Vec<i64>> =
        tensor.known_dims()?.into_iter().map(|extent| i64::try_from(extent).ok()).collect();
    extents.filter(|extents| is_number && !extents.is_empty() && !extents.contains(&0))
}

/// Returns a type of integers.
fn integers(extents: &[u64]) -> ValueType {
    ValueType::Tensor(TensorType::fixed(ElementType::Int64, extents))
}

/// Adds the nodes that begin regions and hide extents, before all others; returns the node that makes the
/// last value, if an anchor must keep it there.
fn begin(module: &mut Module, form: &PlainForm, may_hide: bool) -> Option<Node> {
    let inputs = known(module);
    let hides = form.hidden && may_hide;
    let needs_one = hides || form.apart;
    let first = inputs.first().filter(|_| needs_one || !form.first.is_empty())?;
    let before = module.graph(module.main()).nodes.first().copied();
    let mut maker = Maker::new(module, BEGINS);
    if maker.version < FILLS {
        return None;
    }
    let mut last = None;
    for bytes in &form.first {
        let one = last.and_then(|value| one_after(&mut maker, before, value));
        let made = begun(&mut maker, before, &inputs, one, *bytes);
        let made = made.or_else(|| {
            let one = one.or_else(|| number_one(&mut maker, before, first))?;
            filled(&mut maker, before, one, *bytes)
        });
        last = made.or(last);
    }
    let after = last.filter(|_| needs_one).and_then(|value| one_after(&mut maker, before, value));
    let one = if needs_one { after.or_else(|| number_one(&mut maker, before, first)) } else { None };
    maker.finish();
    let begun = last.filter(|_| after.is_none()).and_then(|value| module.producer(value));
    let Some(one) = one else { return begun };
    if hides {
        hide(module, before, one, &inputs);
    }
    if form.apart {
        keep_apart(module, before, one);
    }
    begun
}

/// Computes the number 1 as the number of an input's elements over itself: no session knows it before it
/// runs.
fn number_one(maker: &mut Maker<'_>, before: Option<Node>, known: &Known) -> Option<Value> {
    let size = maker.onnx("Size", [known.input], Vec::new());
    let size = maker.compute(before, size, "memc.size", integers(&[]))?;
    let all = maker.integers(&[known.count()]);
    let one = maker.onnx("Div", [size, all], Vec::new());
    maker.compute(before, one, "memc.one", integers(&[1]))
}

/// Computes the number 1 when a value has come and gone, from a slice of it that has no positions: it takes
/// no bytes, and so no region while the value is there. `None` before version 10 of ONNX's operators.
fn one_after(maker: &mut Maker<'_>, before: Option<Node>, value: Value) -> Option<Value> {
    if maker.version < SLICES {
        return None;
    }
    let tensor = maker.module().ty(value).tensor()?;
    let (element, mut dims) = (tensor.element, tensor.known_dims()?);
    *dims.first_mut()? = 0;
    let zero = maker.integers(&[0]);
    let none = maker.onnx("Slice", [value, zero, zero, zero], Vec::new());
    let none =
        maker.compute(before, none, "memc.none", ValueType::Tensor(TensorType::fixed(element, &dims)))?;
    let size = maker.onnx("Size", [none], Vec::new());
    let size = maker.compute(before, size, "memc.size", integers(&[]))?;
    let one = maker.integers(&[1]);
    let one = maker.onnx("Add", [size, one], Vec::new());
    maker.compute(before, one, "memc.one", integers(&[1]))
}

/// Makes a value of at least so many bytes, and less than twice as many, from an input alone; `None` without
/// such an input. The first value needs no other one, not even a small one, whose region would be too small
/// for all others. `one` is the number 1 that follows from the value before.
fn begun(
    maker: &mut Maker<'_>,
    before: Option<Node>,
    inputs: &[Known],
    one: Option<Value>,
    bytes: u64,
) -> Option<Value> {
    let all = inputs.iter().filter_map(|known| {
        let element = maker.module().ty(known.input).tensor()?.element;
        let size = u64::from(element.bits()?).checked_mul(known.count().unsigned_abs())? / 8;
        let shape = known.changed(size, bytes).filter(|_| size < bytes || maker.version >= SLICES)?;
        Some((known, element, size, shape))
    });
    let (known, element, size, shape) = all.min_by_key(|(_, _, size, _)| *size)?;
    let stated = |maker: &mut Maker<'_>, numbers: &[i64]| match one {
        Some(one) => computed(maker, before, one, numbers),
        None => Some(maker.integers(numbers)),
    };
    let made = if size < bytes {
        let extents = stated(maker, &shape)?;
        maker.onnx("Expand", [known.input, extents], Vec::new())
    } else {
        let axis = known.longest();
        let (start, end) = (maker.integers(&[0]), stated(maker, &shape[axis..=axis])?);
        let axis = maker.integers(&[i64::try_from(axis).ok()?]);
        maker.onnx("Slice", [known.input, start, end, axis], Vec::new())
    };
    let dims: Vec<u64> = shape.iter().map(|extent| extent.unsigned_abs()).collect();
    maker.compute(before, made, "memc.first", ValueType::Tensor(TensorType::fixed(element, &dims)))
}

/// Computes integers that no session knows before it runs.
fn computed(maker: &mut Maker<'_>, before: Option<Node>, one: Value, numbers: &[i64]) -> Option<Value> {
    let known = maker.integers(numbers);
    let product = maker.onnx("Mul", [known, one], Vec::new());
    maker.compute(before, product, "memc.extents", integers(&[numbers.len() as u64]))
}

/// Makes a value of so many bytes.
fn filled(maker: &mut Maker<'_>, before: Option<Node>, one: Value, bytes: u64) -> Option<Value> {
    let elements = bytes.div_ceil(ELEMENT);
    let extents = computed(maker, before, one, &[i64::try_from(elements).ok()?])?;
    let made = maker.onnx("ConstantOfShape", [extents], Vec::new());
    let ty = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[elements]));
    maker.compute(before, made, "memc.first", ty)
}

/// Lets all nodes of the main graph read views of the inputs.
fn hide(module: &mut Module, before: Option<Node>, one: Value, inputs: &[Known]) {
    let main = module.main();
    let mut views = Vec::new();
    let mut maker = Maker::new(module, HIDES);
    for Known { input, extents } in inputs {
        let readers = maker.uses(*input).iter().filter_map(|site| match site {
            Use::Operand(node, position) if maker.module().node(*node).graph == main => {
                Some((*node, *position))
            }
            _ => None,
        });
        let readers: Vec<_> =
            readers.filter(|(node, _)| !memc_edit::is_made_by(maker.module(), *node, BEGINS)).collect();
        if readers.is_empty() {
            continue;
        }
        let Some(extents) = computed(&mut maker, before, one, extents) else { continue };
        let (view, hint) = (maker.onnx("Reshape", [*input, extents], Vec::new()), maker.hint(*input, "seen"));
        let ty = maker.module().ty(*input).clone();
        let Some(view) = maker.compute(before, view, &hint, ty) else { continue };
        for (node, position) in readers {
            maker.set_operand(node, position, view);
            views.push((node, view, *input));
        }
    }
    state_late(&mut maker, before, one);
    maker.finish();
    see_through(module, &views);
}

/// Operators whose second operand is the extents of the result.
const STATES_EXTENTS: [&str; 2] = ["Expand", "Reshape"];

/// Lets nodes of the main graph that state the extents of their results by a constant read extents computed
/// at run time.
fn state_late(maker: &mut Maker<'_>, before: Option<Node>, one: Value) {
    let main = maker.module().main();
    let mut late: BTreeMap<Vec<i64>, Value> = BTreeMap::new();
    for node in maker.module().graph(main).nodes.clone() {
        let Some(extents) =
            stated(maker, node).filter(|_| !memc_edit::is_made_by(maker.module(), node, BEGINS))
        else {
            continue;
        };
        let known = late.get(&extents).copied().or_else(|| computed(maker, before, one, &extents));
        let Some(known) = known else { continue };
        late.insert(extents, known);
        maker.set_operand(node, 1, known);
    }
}

/// Returns the extents that a node states by a constant, if they are known and none is 0.
fn stated(maker: &Maker<'_>, node: Node) -> Option<Vec<i64>> {
    let operator = &maker.module().node(node).operator;
    let states = operator.domain.is_empty() && STATES_EXTENTS.contains(&&*operator.name);
    let extents = maker.operand(node, 1).filter(|_| states)?;
    maker.module().constant_of(extents)?;
    positive(maker.module().ty(maker.only_result(node)?))
}

/// Gives views the place of their operands, for nodes that read them instead: each entry is the node, its
/// view, and the operand.
fn see_through(module: &mut Module, views: &[(Node, Value, Value)]) {
    for &(reader, view, operand) in views {
        module.plan.alias.set(view, Some(Alias { of: operand, kind: AliasKind::View, offset: Bytes(0) }));
        module.plan.storage.set(view, module.plan.storage[operand]);
        for result in module.node(reader).results().collect::<Vec<_>>() {
            if let Some(alias) = module.plan.alias[result].filter(|alias| alias.of == operand) {
                module.plan.alias.set(result, Some(Alias { of: view, ..alias }));
            }
        }
    }
}

/// Lets each node that computes a value again read a view of its first operand, by extents that no other copy
/// of the same node reads.
fn keep_apart(module: &mut Module, before: Option<Node>, one: Value) {
    let copies = module
        .graph(module.main())
        .nodes
        .iter()
        .filter_map(|node| Some((*node, module.node(*node).recompute_of?)));
    let copies: Vec<(Node, Node)> = copies.collect();
    let mut count: BTreeMap<Node, usize> = BTreeMap::new();
    // Equal to 1, each computed from the one before it.
    let mut ones = vec![one];
    let mut extents: BTreeMap<(usize, Vec<i64>), Value> = BTreeMap::new();
    let mut views = Vec::new();
    let mut maker = Maker::new(module, HIDES);
    for (copy, original) in copies {
        let Some((position, operand, dims)) = viewed(&maker, copy) else { continue };
        let number = count.entry(original).or_default();
        *number += 1;
        while ones.len() < *number {
            let next =
                maker.onnx("Mul", ones.last().map(|last| [*last, one]).into_iter().flatten(), Vec::new());
            let Some(next) = maker.compute(before, next, "memc.one", integers(&[1])) else { break };
            ones.push(next);
        }
        let Some(of) = ones.get(*number - 1).copied() else { continue };
        let known = extents
            .get(&(*number, dims.clone()))
            .copied()
            .or_else(|| computed(&mut maker, before, of, &dims));
        let Some(known) = known else { continue };
        extents.insert((*number, dims), known);
        let (view, hint) =
            (maker.onnx("Reshape", [operand, known], Vec::new()), maker.hint(operand, "again"));
        let ty = maker.module().ty(operand).clone();
        let Some(view) = maker.compute(Some(copy), view, &hint, ty) else { continue };
        maker.set_operand(copy, position, view);
        views.push((copy, view, operand));
    }
    maker.finish();
    see_through(module, &views);
}

/// Returns the first operand of a node that is a tensor of numbers with known extents and no constant, with
/// its position and its extents. Other operands of the node must be other values.
fn viewed(maker: &Maker<'_>, node: Node) -> Option<(u32, Value, Vec<i64>)> {
    let inputs = &maker.module().node(node).inputs;
    let all = (0u32..).zip(inputs).filter_map(|(position, operand)| Some((position, (*operand)?)));
    let computed = all.filter(|(_, operand)| maker.module().constant_of(*operand).is_none());
    let fits =
        computed.filter(|(_, operand)| inputs.iter().filter(|other| **other == Some(*operand)).count() == 1);
    fits.filter_map(|(position, operand)| {
        positive(maker.module().ty(operand)).map(|dims| (position, operand, dims))
    })
    .next()
}

/// Returns the places of workspaces, each an offset and bytes, by the position of their node.
fn workspaces(module: &Module) -> BTreeMap<u32, Vec<(Bytes, Bytes)>> {
    let nodes = (0u32..).zip(&module.graph(module.main()).nodes);
    let steps: BTreeMap<Node, u32> = nodes.map(|(step, node)| (*node, step)).collect();
    let mut found: BTreeMap<u32, Vec<(Bytes, Bytes)>> = BTreeMap::new();
    for scratch in &module.plan.scratch {
        if let (Some(step), Some(storage)) = (steps.get(&scratch.node), scratch.storage) {
            found.entry(*step).or_default().push((storage.offset, scratch.bytes));
        }
    }
    found
}

/// Gives each buffer without a place the lowest gap beside all buffers that are alive with it.
fn place(module: &mut Module, options: &Options) {
    let Some(mut arena) = module.plan.arenas.first().copied() else { return };
    let alignment = module.plan.spaces[arena.space].alignment.max(1);
    let memory = Memory::of(module, options);
    let workspaces = workspaces(module);
    for buffer in &memory.buffers {
        if module.plan.storage[buffer.owner].is_some() {
            continue;
        }
        let beside =
            memory.buffers.iter().filter(|other| buffer.bytes > Bytes(0) && other.range.meets(buffer.range));
        let values = beside.filter_map(|other| Some((module.plan.storage[other.owner]?.offset, other.bytes)));
        let during = workspaces
            .range(buffer.range.start.0..buffer.range.end.0)
            .flat_map(|(_, places)| places)
            .copied();
        let mut taken: Vec<(Bytes, Bytes)> =
            values.chain(during.filter(|_| buffer.bytes > Bytes(0))).collect();
        taken.sort_unstable();
        let mut offset = Bytes(0);
        for (start, bytes) in taken {
            if offset.saturating_add(buffer.bytes) <= start {
                break;
            }
            let end = start.saturating_add(bytes).0.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
            offset = offset.max(Bytes(end));
        }
        module.plan.storage.set(buffer.owner, Some(Storage { space: arena.space, offset }));
        arena.size = arena.size.max(offset.saturating_add(buffer.bytes));
    }
    let (peak, _) = Memory::of(module, options).peak(module);
    arena.lower_bound = arena.lower_bound.max(peak).min(arena.size);
    module.plan.arenas[0] = arena;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use memc_ir::verify::verify;
    use memc_ir::{EntityId, Scratch, Stage, text};
    use memc_ops::Profile;
    use memc_passes::{PassContext, Pipeline, Silent};

    use super::*;

    /// Two branches that end in one result.
    const BRANCHES: &str = "mem 1\nir_version 10\nopset \"\" 13\n\ngraph @g {\n  input %x : f32[1024]\n  %a = Neg(%x) : f32[1024]\n  \
        %b = Abs(%a) : f32[1024]\n  %c = Exp(%x) : f32[1024]\n  %y = Add(%b, %c) : f32[1024]\n  return %y\n}\n";

    /// Nodes that state the extents of their results.
    const RESHAPED: &str = "mem 1\nir_version 10\nopset \"\" 13\n\ngraph @g {\n  input %x : f32[1024]\n  \
        const %e : i64[2] = [32, 32]\n  %a = Reshape(%x, %e) : f32[32,32]\n  %b = Exp(%a) : f32[32,32]\n  \
        %y = Reshape(%b, %e) : f32[32,32]\n  return %y\n}\n";

    fn planned(source: &str, options: &Options) -> Module {
        let mut module = text::parse(source).unwrap();
        let mut ctx = PassContext::new(options, Default::default());
        let pipeline =
            Pipeline::parse("view,in-place,place", module.stage, memc_plan::registry::REGISTRY).unwrap();
        pipeline.run(&mut module, &mut ctx, true, &mut Silent).unwrap();
        module
    }

    #[test]
    fn forms_are_sound_and_move_nothing() {
        let options = Options::for_profile(&Profile::ORT);
        let before = planned(BRANCHES, &options);
        let size = before.plan.arenas[0].size;
        for (pinned, hidden) in [(false, false), (true, false), (false, true), (true, true)] {
            for first in [vec![], vec![4096], vec![4096, size.0 + 4096]] {
                let form = PlainForm { pinned, hidden, apart: true, first: first.clone() };
                let mut module = before.clone();
                shape(&mut module, &options, &form);
                verify(&module, Stage::Planned).unwrap();
                let values = before.values().keys();
                assert!(
                    values.into_iter().all(|value| module.plan.storage[value] == before.plan.storage[value]),
                    "{form}"
                );
                let least = first.into_iter().max().unwrap_or_default().max(size.0);
                // Values of a few bytes live beside the others.
                assert!(
                    (least..=least + 1024).contains(&module.plan.arenas[0].size.0),
                    "{form}: {}",
                    module.plan.arenas[0].size
                );
            }
        }
    }

    #[test]
    fn readers_of_a_hidden_input_read_its_view() {
        let options = Options::for_profile(&Profile::ORT);
        let mut module = planned(BRANCHES, &options);
        let x = module.graph(module.main()).inputs[0];
        shape(&mut module, &options, &PlainForm { hidden: true, ..PlainForm::default() });
        let readers = module
            .graph(module.main())
            .nodes
            .iter()
            .filter(|node| module.node(**node).operands().any(|value| value == x));
        let readers: Vec<&str> = readers.map(|node| module.node(*node).operator.name.as_ref()).collect();
        assert_eq!(readers, ["Size", "Reshape"]);
    }

    #[test]
    fn no_node_states_extents_before_the_run() {
        let options = Options::for_profile(&Profile::ORT);
        let before = planned(RESHAPED, &options);
        for hidden in [false, true] {
            let mut module = before.clone();
            shape(&mut module, &options, &PlainForm { hidden, ..PlainForm::default() });
            verify(&module, Stage::Planned).unwrap();
            let nodes = &module.graph(module.main()).nodes;
            let stated = nodes.iter().filter(|node| &*module.node(**node).operator.name == "Reshape");
            let extents: Vec<Value> = stated.map(|node| module.node(*node).inputs[1].unwrap()).collect();
            assert!(extents.iter().all(|extents| module.constant_of(*extents).is_none() == hidden));
            // One value for both nodes, and one for the view of the input.
            assert_eq!(extents.len(), if hidden { 3 } else { 2 });
            assert_eq!(extents[extents.len() - 2], extents[extents.len() - 1]);
        }
    }

    #[test]
    fn views_wait_for_the_first_values() {
        let options = Options::for_profile(&Profile::ORT);
        let before = planned(BRANCHES, &options);
        let mut module = before.clone();
        shape(
            &mut module,
            &options,
            &PlainForm { hidden: true, first: vec![8192, 16384], ..PlainForm::default() },
        );
        verify(&module, Stage::Planned).unwrap();
        let names = |node: &Node| module.node(*node).operator.name.to_string();
        let nodes = &module.graph(module.main()).nodes;
        let operators: Vec<String> = nodes.iter().map(names).collect();
        let once = ["Expand", "Slice", "Size", "Add"];
        let begun: Vec<&str> =
            once.into_iter().chain(["Mul"]).chain(once).chain(["Mul", "Reshape"]).collect();
        assert_eq!(operators[..begun.len()], begun);
        // No other node reads a first value, so that each is gone before the next one comes.
        let expanded = nodes
            .iter()
            .filter(|node| names(node) == "Expand")
            .filter_map(|node| module.node(*node).results().next());
        for first in expanded.collect::<Vec<_>>() {
            assert_eq!(
                nodes
                    .iter()
                    .filter(|node| module.node(**node).operands().any(|value| value == first))
                    .count(),
                1
            );
            assert_eq!(
                module.ty(first).tensor().and_then(|tensor| tensor.known_dims()).map(|dims| dims.len()),
                Some(2)
            );
        }
    }

    #[test]
    fn first_values_come_from_inputs_of_any_size() {
        let known = |extents: &[i64]| Known { input: Value::new(0), extents: extents.to_vec() };
        for extents in [&[1][..], &[7, 3], &[1, 3, 320, 320], &[2, 1_000_000]] {
            let known = known(extents);
            let size = 4 * known.count().unsigned_abs();
            for bytes in [4096, 524_544, 1_048_832, 8_388_864] {
                let made = known.changed(size, bytes).unwrap();
                let made = 4 * made.iter().product::<i64>().unsigned_abs();
                assert!((bytes..2 * bytes).contains(&made), "{extents:?} {bytes}: {made}");
            }
        }
        // A position is too large, or only the whole would do.
        assert_eq!((known(&[3, 1]).changed(3 << 20, 4096), known(&[4]).changed(16, 15)), (None, None));
    }

    #[test]
    fn added_values_lie_beside_workspaces() {
        let options = Options::for_profile(&Profile::ORT);
        let mut module = planned(RESHAPED, &options);
        let exp = module.graph(module.main()).nodes[1];
        // The workspace lies where the extents would.
        let space = module.plan.arenas[0].space;
        let storage = Some(Storage { space, offset: Bytes(0) });
        let values: Vec<Value> =
            module.values().keys().filter(|value| module.plan.storage[*value].is_some()).collect();
        for value in values {
            if let Some(mut storage) = module.plan.storage[value] {
                storage.offset = storage.offset.saturating_add(Bytes(4096));
                module.plan.storage.set(value, Some(storage));
            }
        }
        module.plan.scratch.push(Scratch { node: exp, body: false, bytes: Bytes(4096), storage });
        module.plan.arenas[0].size = module.plan.arenas[0].size.saturating_add(Bytes(4096));
        verify(&module, Stage::Planned).unwrap();
        shape(&mut module, &options, &PlainForm { hidden: true, ..PlainForm::default() });
        verify(&module, Stage::Planned).unwrap();
    }

    #[test]
    fn old_operators_have_no_views() {
        let options = Options::for_profile(&Profile::ORT);
        let before = planned(&BRANCHES.replace("\"\" 13", "\"\" 8"), &options);
        let mut module = before.clone();
        shape(
            &mut module,
            &options,
            &PlainForm { hidden: true, apart: true, first: vec![4096], pinned: false },
        );
        assert_eq!(text::print(&module), text::print(&before));
    }
}
