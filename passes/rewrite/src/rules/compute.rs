//! Functions of rules: numbers, lists and texts computed from a match.

use egg::Id;
use memc_ir::Attribute;
use memc_ops::{Item, normalize_axis, reshape_target};

use super::argument::Argument;
use super::shapes::axis_list;
use crate::fact::Graph;

/// A named function; `None` means that the rule does not apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&Graph<'_>, &[Argument]) -> Option<Attribute>,
}

/// Returns the function with this name.
pub(super) fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().find(|function| function.name == name).copied()
}

/// All functions; `doc/rules.md` explains each.
const FUNCTIONS: &[Function] = &[
    Function { name: "add", value: |_, a| arithmetic(a, i64::checked_add, |x, y| x + y) },
    Function { name: "all-moved", value: all_moved },
    Function { name: "compose", value: compose },
    Function { name: "div", value: |_, a| arithmetic(a, exact_quotient, |x, y| x / y) },
    Function { name: "extent", value: extent },
    Function { name: "int", value: |graph, a| one_int(graph, class(a, 0)?).map(Attribute::Int) },
    Function { name: "inverse", value: inverse },
    Function { name: "leading", value: leading },
    Function { name: "left-out", value: left_out },
    Function { name: "list", value: list },
    Function { name: "moved", value: moved },
    Function { name: "mul", value: |_, a| arithmetic(a, i64::checked_mul, |x, y| x * y) },
    Function { name: "or", value: |_, a| a.iter().find_map(attribute).cloned() },
    Function { name: "pad-ends", value: pad_ends },
    Function { name: "pad-starts", value: pad_starts },
    Function { name: "shape", value: shape },
    Function { name: "shares", value: shares },
    Function { name: "splat", value: |graph, a| Some(Attribute::Float(splat(graph, class(a, 0)?)? as f32)) },
    Function { name: "sub", value: |_, a| arithmetic(a, i64::checked_sub, |x, y| x - y) },
];

fn attribute(argument: &Argument) -> Option<&Attribute> {
    match argument {
        Argument::Attribute(value) => Some(value),
        _ => None,
    }
}

fn class(arguments: &[Argument], position: usize) -> Option<Id> {
    match arguments.get(position)? {
        Argument::Class(id) => Some(*id),
        _ => None,
    }
}

fn int(arguments: &[Argument], position: usize) -> Option<i64> {
    match attribute(arguments.get(position)?)? {
        Attribute::Int(value) => Some(*value),
        _ => None,
    }
}

fn float(argument: &Argument) -> Option<f32> {
    match attribute(argument)? {
        Attribute::Float(value) => Some(*value),
        _ => None,
    }
}

fn exact_quotient(left: i64, right: i64) -> Option<i64> {
    (left.checked_rem(right)? == 0).then(|| left / right)
}

fn arithmetic(
    arguments: &[Argument],
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Option<Attribute> {
    match (attribute(arguments.first()?)?, attribute(arguments.get(1)?)?) {
        (Attribute::Int(a), Attribute::Int(b)) => ints(*a, *b).map(Attribute::Int),
        (a, b) => Some(Attribute::Float(floats(real(a)?, real(b)?) as f32)),
    }
}

fn real(value: &Attribute) -> Option<f64> {
    match value {
        Attribute::Int(value) => Some(*value as f64),
        Attribute::Float(value) => Some(f64::from(*value)),
        _ => None,
    }
}

/// Returns the number that all elements of a small constant equal, or `None`.
pub(crate) fn splat(graph: &Graph<'_>, id: Id) -> Option<f64> {
    let facts = &graph[id].data;
    let data = facts.data().filter(|_| facts.is_constant)?;
    let first = data.items.first()?;
    let number = match first {
        Item::Int(value) => *value as f64,
        Item::Float(value) => *value,
        Item::Symbolic(_) | Item::AtMost(_) | Item::Within(_) | Item::Unknown => return None,
    };
    data.items.iter().all(|item| item == first).then_some(number)
}

/// Returns the integer in a constant of one element.
pub(super) fn one_int(graph: &Graph<'_>, id: Id) -> Option<i64> {
    let facts = &graph[id].data;
    match facts.data().filter(|_| facts.is_constant)?.items.as_slice() {
        [item] => item.int(),
        _ => None,
    }
}

/// `compose P Q`: permutation of a Transpose by P after a Transpose by Q.
fn compose(_: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let (Attribute::Ints(outer), Attribute::Ints(inner)) =
        (attribute(arguments.first()?)?, attribute(arguments.get(1)?)?)
    else {
        return None;
    };
    let at = |axis: &i64| inner.get(usize::try_from(*axis).ok()?).copied();
    (outer.len() == inner.len()).then_some(())?;
    outer.iter().map(at).collect::<Option<Vec<i64>>>().map(Attribute::Ints)
}

/// `inverse P`: the permutation that undoes P.
fn inverse(_: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let Attribute::Ints(axes) = attribute(arguments.first()?)? else { return None };
    let back = |axis: usize| {
        axes.iter().position(|from| usize::try_from(*from) == Ok(axis)).and_then(|to| i64::try_from(to).ok())
    };
    (0..axes.len()).map(back).collect::<Option<Vec<i64>>>().map(Attribute::Ints)
}

/// `left-out P AXIS`: permutation of the remaining axes after one index of an axis of a Transpose by P
/// is picked.
fn left_out(_: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let Attribute::Ints(axes) = attribute(arguments.first()?)? else { return None };
    let at = normalize_axis(int(arguments, 1)?, axes.len())?;
    let (gone, mut left) = (axes[at], axes.clone());
    left.remove(at);
    left.iter_mut().filter(|axis| **axis > gone).for_each(|axis| *axis -= 1);
    Some(Attribute::Ints(left))
}

/// `moved P AXIS`: axis of the operand of a Transpose by P that becomes an axis of its result.
fn moved(_: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let Attribute::Ints(axes) = attribute(arguments.first()?)? else { return None };
    axes.get(normalize_axis(int(arguments, 1)?, axes.len())?).copied().map(Attribute::Int)
}

/// `(all-moved $p AXES)`: axes of the operand of a Transpose by `$p` that become axes of its result.
fn all_moved(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let Attribute::Ints(order) = attribute(arguments.first()?)? else { return None };
    let axes = axis_list(graph, arguments.get(1)?)?;
    let moved = axes.iter().map(|axis| order.get(normalize_axis(*axis, order.len())?).copied());
    moved.collect::<Option<Vec<i64>>>().map(Attribute::Ints)
}

/// `extent ?x AXIS`: a known extent.
fn extent(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let dims = graph[class(arguments, 0)?].data.tensor()?.shape.as_ref()?;
    let axis = normalize_axis(int(arguments, 1)?, dims.len())?;
    Some(Attribute::Int(i64::try_from(dims[axis].known()?).ok()?))
}

/// `shares ?x N`: the last extent in `N` equal parts, if the extent is known and divisible.
fn shares(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let extent = graph[class(arguments, 0)?].data.tensor()?.shape.as_ref()?.last()?.known()?;
    let count = int(arguments, 1)?;
    let share = exact_quotient(i64::try_from(extent).ok()?, count).filter(|share| *share > 0)?;
    Some(Attribute::Ints(vec![share; usize::try_from(count).ok()?]))
}

/// `list A B ...`: concatenation of integers and lists of integers; or floats.
fn list(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let floats: Option<Vec<f32>> = arguments.iter().map(float).collect();
    if let Some(floats) = floats.filter(|floats| !floats.is_empty()) {
        return Some(Attribute::Floats(floats));
    }
    let parts: Option<Vec<Vec<i64>>> = arguments.iter().map(|argument| axis_list(graph, argument)).collect();
    Some(Attribute::Ints(parts?.concat()))
}

/// `shape ?x`: the target of a Reshape to the extents of `?x`: all of them known, or one with symbols, which
/// is left over.
fn shape(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let tensor = graph[class(arguments, 0)?].data.tensor()?;
    if let Some(dims) = tensor.known_dims() {
        return dims
            .into_iter()
            .map(|extent| i64::try_from(extent).ok())
            .collect::<Option<Vec<i64>>>()
            .map(Attribute::Ints);
    }
    reshape_target(None, tensor.shape.as_deref()?, &graph.analysis.module.domain().ranges)
        .map(Attribute::Ints)
}

/// `(leading ?x)`: all axes but the last.
fn leading(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let rank = graph[class(arguments, 0)?].data.tensor()?.rank()?;
    Some(Attribute::Ints((0..i64::try_from(rank).ok()? - 1).collect()))
}

/// `(pad-starts PADS)`: start of a Pad's operand within its result, on all axes but the last.
fn pad_starts(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let pads = axis_list(graph, arguments.first()?)?;
    Some(Attribute::Ints(pads.get(..(pads.len() / 2).checked_sub(1)?)?.to_vec()))
}

/// `(pad-ends PADS ?x)`: end of a Pad's operand `?x` within its result, on all axes but the last.
fn pad_ends(graph: &Graph<'_>, arguments: &[Argument]) -> Option<Attribute> {
    let Attribute::Ints(starts) = pad_starts(graph, arguments)? else { return None };
    let extents = graph[class(arguments, 1)?].data.tensor()?.known_dims()?;
    let end = |(start, extent): (&i64, &u64)| start.checked_add(i64::try_from(*extent).ok()?);
    starts.iter().zip(&extents).map(end).collect::<Option<Vec<i64>>>().map(Attribute::Ints)
}
