//! Forms of a plan for sessions with default options, which choose the order, keep buffers for later values
//! of equal extents, and hold all values in regions whose sizes are powers of two.
//!
//! Each form adds a few nodes that compute next to nothing. Results stay equal.

use std::collections::BTreeMap;
use std::fmt;

use memc_edit::Maker;
use memc_ir::{Alias, AliasKind, Bytes, ElementType, Module, Node, Storage, TensorType, Use, Value, ValueType};
use memc_onnx_export::{AnchorKind, HIDES, add_anchor, add_anchors};
use memc_passes::Options;
use memc_passes::analysis::Memory;

/// Name of the pass in the origin of nodes that compute extents at run time and begin regions.
const BEGINS: &str = "begin-regions";

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
        let parts: Vec<String> = parts.into_iter().filter_map(|(is_on, text)| is_on.then_some(text)).collect();
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
    } else {
        for node in begun {
            add_anchor(module, node, AnchorKind::Slice);
        }
    }
    place(module, options);
}

/// An input whose extents are known.
struct Known {
    input: Value,
    extents: Vec<i64>,
}

/// Returns the inputs of known extents, at least one position each, that are no outputs.
fn known(module: &Module) -> Vec<Known> {
    let main = module.graph(module.main());
    let inputs = main.inputs.iter().filter(|input| module.value(**input).default.is_none() && !main.outputs.contains(input));
    let all = inputs.filter_map(|input| {
        let tensor = module.ty(*input).tensor()?;
        let is_number = !matches!(tensor.element, ElementType::String | ElementType::Undefined);
        let extents: Option<Vec<i64>> = tensor.known_dims()?.into_iter().map(|extent| i64::try_from(extent).ok()).collect();
        let extents = extents.filter(|extents| is_number && !extents.is_empty() && !extents.contains(&0))?;
        Some(Known { input: *input, extents })
    });
    all.collect()
}

/// Returns a type of integers.
fn integers(extents: &[u64]) -> ValueType {
    ValueType::Tensor(TensorType::fixed(ElementType::Int64, extents))
}

/// Adds the nodes that begin regions and hide extents, before all others; returns the nodes that make the
/// first values.
fn begin(module: &mut Module, form: &PlainForm, may_hide: bool) -> Vec<Node> {
    let inputs = known(module);
    let hides = form.hidden && may_hide;
    let needs_one = hides || form.apart || !form.first.is_empty();
    let (Some(first), true) = (inputs.first(), needs_one) else { return Vec::new() };
    let before = module.graph(module.main()).nodes.first().copied();
    let mut maker = Maker::new(module, BEGINS);
    if maker.version < FILLS {
        return Vec::new();
    }
    let Some(one) = one(&mut maker, before, first) else { return Vec::new() };
    let begun = form.first.iter().filter_map(|bytes| filled(&mut maker, before, one, *bytes)).collect();
    maker.finish();
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
fn one(maker: &mut Maker<'_>, before: Option<Node>, known: &Known) -> Option<Value> {
    let count = known.extents.iter().product();
    let size = maker.onnx("Size", [known.input], Vec::new());
    let size = maker.compute(before, size, "memc.size", integers(&[]))?;
    let all = maker.integers(&[count]);
    let one = maker.onnx("Div", [size, all], Vec::new());
    maker.compute(before, one, "memc.one", integers(&[1]))
}

/// Computes integers that no session knows before it runs.
fn computed(maker: &mut Maker<'_>, before: Option<Node>, one: Value, numbers: &[i64]) -> Option<Value> {
    let known = maker.integers(numbers);
    let product = maker.onnx("Mul", [known, one], Vec::new());
    maker.compute(before, product, "memc.extents", integers(&[numbers.len() as u64]))
}

/// Makes a value of so many bytes; returns its node.
fn filled(maker: &mut Maker<'_>, before: Option<Node>, one: Value, bytes: u64) -> Option<Node> {
    let elements = bytes.div_ceil(ELEMENT);
    let extents = computed(maker, before, one, &[i64::try_from(elements).ok()?])?;
    let made = maker.onnx("ConstantOfShape", [extents], Vec::new());
    let ty = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[elements]));
    let made = maker.compute(before, made, "memc.first", ty)?;
    maker.module().producer(made)
}

/// Lets all nodes of the main graph read views of the inputs.
fn hide(module: &mut Module, before: Option<Node>, one: Value, inputs: &[Known]) {
    let main = module.main();
    let mut views = Vec::new();
    let mut maker = Maker::new(module, HIDES);
    for Known { input, extents } in inputs {
        let readers = maker.uses(*input).iter().filter_map(|site| match site {
            Use::Operand(node, position) if maker.module().node(*node).graph == main => Some((*node, *position)),
            _ => None,
        });
        let readers: Vec<_> = readers.filter(|(node, _)| !memc_edit::is_made_by(maker.module(), *node, BEGINS)).collect();
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
    maker.finish();
    see_through(module, &views);
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
    let copies = module.graph(module.main()).nodes.iter().filter_map(|node| Some((*node, module.node(*node).recompute_of?)));
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
            let next = maker.onnx("Mul", ones.last().map(|last| [*last, one]).into_iter().flatten(), Vec::new());
            let Some(next) = maker.compute(before, next, "memc.one", integers(&[1])) else { break };
            ones.push(next);
        }
        let Some(of) = ones.get(*number - 1).copied() else { continue };
        let known = extents.get(&(*number, dims.clone())).copied().or_else(|| computed(&mut maker, before, of, &dims));
        let Some(known) = known else { continue };
        extents.insert((*number, dims), known);
        let (view, hint) = (maker.onnx("Reshape", [operand, known], Vec::new()), maker.hint(operand, "again"));
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
    let fits = computed.filter(|(_, operand)| inputs.iter().filter(|other| **other == Some(*operand)).count() == 1);
    fits.filter_map(|(position, operand)| {
        let tensor = maker.module().ty(operand).tensor()?;
        let dims: Option<Vec<i64>> = tensor.known_dims()?.into_iter().map(|extent| i64::try_from(extent).ok()).collect();
        let is_number = !matches!(tensor.element, ElementType::String | ElementType::Undefined);
        dims.filter(|dims| is_number && !dims.is_empty() && !dims.contains(&0)).map(|dims| (position, operand, dims))
    })
    .next()
}

/// Gives each buffer without a place the lowest gap beside all buffers that are alive with it.
fn place(module: &mut Module, options: &Options) {
    let Some(mut arena) = module.plan.arenas.first().copied() else { return };
    let alignment = module.plan.spaces[arena.space].alignment.max(1);
    let memory = Memory::of(module, options);
    for buffer in &memory.buffers {
        if module.plan.storage[buffer.owner].is_some() {
            continue;
        }
        let beside = memory.buffers.iter().filter(|other| buffer.bytes > Bytes(0) && other.range.meets(buffer.range));
        let mut taken: Vec<(Bytes, Bytes)> =
            beside.filter_map(|other| Some((module.plan.storage[other.owner]?.offset, other.bytes))).collect();
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
    use memc_ir::{Stage, text};
    use memc_ops::Profile;
    use memc_passes::{PassContext, Pipeline, Silent};

    use super::*;

    /// Two branches that end in one result.
    const BRANCHES: &str = "mem 1\nir_version 10\nopset \"\" 13\n\ngraph @g {\n  input %x : f32[1024]\n  %a = Neg(%x) : f32[1024]\n  \
        %b = Abs(%a) : f32[1024]\n  %c = Exp(%x) : f32[1024]\n  %y = Add(%b, %c) : f32[1024]\n  return %y\n}\n";

    fn planned(source: &str, options: &Options) -> Module {
        let mut module = text::parse(source).unwrap();
        let mut ctx = PassContext::new(options, Default::default());
        let pipeline = Pipeline::parse("view,in-place,place", module.stage, memc_plan::registry::REGISTRY).unwrap();
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
                assert!(values.into_iter().all(|value| module.plan.storage[value] == before.plan.storage[value]), "{form}");
                let least = first.into_iter().max().unwrap_or_default().max(size.0);
                // Values of a few bytes live beside the others.
                assert!((least..=least + 1024).contains(&module.plan.arenas[0].size.0), "{form}: {}", module.plan.arenas[0].size);
            }
        }
    }

    #[test]
    fn readers_of_a_hidden_input_read_its_view() {
        let options = Options::for_profile(&Profile::ORT);
        let mut module = planned(BRANCHES, &options);
        let x = module.graph(module.main()).inputs[0];
        shape(&mut module, &options, &PlainForm { hidden: true, ..PlainForm::default() });
        let readers =
            module.graph(module.main()).nodes.iter().filter(|node| module.node(**node).operands().any(|value| value == x));
        let readers: Vec<&str> = readers.map(|node| module.node(*node).operator.name.as_ref()).collect();
        assert_eq!(readers, ["Size", "Reshape"]);
    }

    #[test]
    fn old_operators_have_no_views() {
        let options = Options::for_profile(&Profile::ORT);
        let before = planned(&BRANCHES.replace("\"\" 13", "\"\" 8"), &options);
        let mut module = before.clone();
        shape(&mut module, &options, &PlainForm { hidden: true, apart: true, first: vec![4096], pinned: false });
        assert_eq!(text::print(&module), text::print(&before));
    }
}
