//! Conditions of rules on a match: facts about types, constants and attributes.

use egg::Id;
use memc_ir::{Attribute, Dim, ElementType, TensorType};
use memc_ops::{lookup, normalize_axis};

use super::argument::Argument;
use super::compute::{one_int, splat};
use super::shapes::{axis_list, is_vector_of};
use crate::fact::Graph;
use crate::term::{Head, Term};

/// Context in which a condition is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a, 'm> {
    pub(crate) graph: &'a Graph<'m>,
}

/// A named condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predicate {
    pub(crate) name: &'static str,
    /// Minimum number of arguments.
    pub(crate) arguments: usize,
    pub(crate) holds: fn(Scene<'_, '_>, &[Argument]) -> bool,
}

/// Returns the condition with this name.
pub(super) fn predicate(name: &str) -> Option<Predicate> {
    PREDICATES.iter().find(|predicate| predicate.name == name).copied()
}

/// All conditions; `doc/rules.md` explains each.
const PREDICATES: &[Predicate] = &[
    Predicate { name: "as-many-axes", arguments: 2, holds: equal_ranks },
    Predicate { name: "axis-last", arguments: 2, holds: axis_last },
    Predicate { name: "before-last", arguments: 2, holds: before_last },
    Predicate {
        name: "constant",
        arguments: 1,
        holds: |scene, a| class(a, 0).is_some_and(|id| scene.graph[id].data.is_constant),
    },
    Predicate { name: "element", arguments: 2, holds: element },
    Predicate { name: "equal", arguments: 2, holds: |_, a| a[0] == a[1] },
    Predicate { name: "extent", arguments: 3, holds: extent },
    Predicate { name: "extent-at-least", arguments: 3, holds: extent_at_least },
    Predicate { name: "extent-same", arguments: 4, holds: extent_same },
    Predicate { name: "fixed", arguments: 1, holds: fixed },
    Predicate { name: "moves-ones", arguments: 2, holds: moves_ones },
    Predicate { name: "nonnegative", arguments: 1, holds: nonnegative },
    Predicate {
        name: "one-element",
        arguments: 1,
        holds: |scene, a| tensor(scene, a, 0).is_some_and(|ty| ty.elements() == Some(1)),
    },
    Predicate {
        name: "pair",
        arguments: 1,
        holds: |scene, a| axis_list(scene.graph, &a[0]).is_some_and(|list| list.len() == 2),
    },
    Predicate { name: "packs", arguments: 3, holds: packs },
    Predicate { name: "pads-rows", arguments: 2, holds: pads_rows },
    Predicate { name: "parts", arguments: 5, holds: parts },
    Predicate { name: "power-of-two", arguments: 1, holds: power_of_two },
    Predicate { name: "rank", arguments: 2, holds: rank },
    Predicate { name: "rank-at-least", arguments: 2, holds: rank_at_least },
    Predicate { name: "repeats", arguments: 1, holds: repeats },
    Predicate { name: "rows-same", arguments: 2, holds: rows_same },
    Predicate { name: "same-class", arguments: 2, holds: |scene, a| same_class(scene, a) },
    Predicate { name: "same-shape", arguments: 2, holds: |scene, a| same_shape(scene, a) },
    Predicate {
        name: "same-type",
        arguments: 2,
        holds: |scene, a| same_shape(scene, a) && same_element(scene, a),
    },
    Predicate {
        name: "splat",
        arguments: 1,
        holds: |scene, a| class(a, 0).is_some_and(|id| splat(scene.graph, id).is_some()),
    },
    Predicate { name: "swaps-last", arguments: 1, holds: swaps_last },
    Predicate { name: "table-of", arguments: 2, holds: table_of },
    Predicate {
        name: "triple",
        arguments: 1,
        holds: |scene, a| axis_list(scene.graph, &a[0]).is_some_and(|list| list.len() == 3),
    },
    Predicate {
        name: "true",
        arguments: 1,
        holds: |_, a| matches!(a[0], Argument::Attribute(Attribute::Int(1))),
    },
    Predicate { name: "vector-of", arguments: 2, holds: vector_of },
    Predicate { name: "wider", arguments: 2, holds: wider },
    Predicate { name: "without", arguments: 2, holds: without },
    Predicate {
        name: "zeros",
        arguments: 1,
        holds: |scene, a| class(a, 0).is_some_and(|id| is_zero(scene.graph, id)),
    },
];

fn class(arguments: &[Argument], position: usize) -> Option<Id> {
    match arguments.get(position)? {
        Argument::Class(id) => Some(*id),
        _ => None,
    }
}

fn tensor<'a>(scene: Scene<'a, '_>, arguments: &[Argument], position: usize) -> Option<&'a TensorType> {
    scene.graph[class(arguments, position)?].data.tensor()
}

fn int(arguments: &[Argument], position: usize) -> Option<i64> {
    match arguments.get(position)? {
        Argument::Attribute(Attribute::Int(value)) => Some(*value),
        _ => None,
    }
}

/// `as-many-axes ?x ?y`: both ranks are known and equal.
fn equal_ranks(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank = |position: usize| tensor(scene, arguments, position).and_then(TensorType::rank);
    rank(0).is_some() && rank(0) == rank(1)
}

/// `axis-last AXES ?x [DEFAULT]`: the one axis (or list of one) is the last axis of `?x`.
fn axis_last(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank = tensor(scene, arguments, 1).and_then(TensorType::rank);
    let axes = axis_list(scene.graph, &arguments[0])
        .or_else(|| arguments.get(2).and_then(|default| axis_list(scene.graph, default)));
    match (axes.as_deref(), rank) {
        // The last axis written as -1 needs no rank.
        (Some([-1]), _) => true,
        (Some([axis]), Some(rank)) => normalize_axis(*axis, rank) == Some(rank.wrapping_sub(1)),
        _ => false,
    }
}

/// `before-last AXES ?x`: the axes are named and known, and none is the last axis of `?x`.
fn before_last(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank = tensor(scene, arguments, 1).and_then(TensorType::rank);
    let axes = axis_list(scene.graph, &arguments[0]);
    axes.zip(rank).is_some_and(|(axes, rank)| {
        !axes.is_empty()
            && axes.iter().all(|axis| normalize_axis(*axis, rank).is_some_and(|axis| axis + 1 < rank))
    })
}

/// `moves-ones $perm ?x`: axes of more than one index stay in their order.
fn moves_ones(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let (Argument::Attribute(Attribute::Ints(axes)), Some(ty)) = (&arguments[0], tensor(scene, arguments, 1))
    else {
        return false;
    };
    let extent = |axis: &i64| ty.shape.as_ref()?.get(usize::try_from(*axis).ok()?)?.known();
    let moved: Vec<&i64> = axes.iter().filter(|axis| extent(axis) != Some(1)).collect();
    ty.rank() == Some(axes.len()) && moved.is_sorted()
}

/// `packs ?x ?y AXIS`: the last axis of `?x` merges the axes of its reshaped form `?y` from `AXIS` on.
fn packs(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let found = || {
        let (dims, reshaped) =
            (tensor(scene, arguments, 0)?.shape.as_ref()?, tensor(scene, arguments, 1)?.shape.as_ref()?);
        let axis = normalize_axis(int(arguments, 2)?, reshaped.len())?;
        let (last, leading) = dims.split_last()?;
        let product = |dims: &[Dim]| dims.iter().fold(Dim::Known(1), |product, extent| product.mul(extent));
        Some(product(&reshaped[axis..]).same(last) && product(&reshaped[..axis]).same(&product(leading)))
    };
    found().unwrap_or(false)
}

/// `pads-rows PADS ?x`: the borders of a Pad of `?x` are known, none is negative, and the last axis has
/// none.
fn pads_rows(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank = tensor(scene, arguments, 1).and_then(TensorType::rank);
    axis_list(scene.graph, &arguments[0]).zip(rank).is_some_and(|(pads, rank)| {
        pads.len() == 2 * rank
            && rank > 0
            && pads.iter().all(|pad| *pad >= 0)
            && pads[rank - 1] == 0
            && pads[2 * rank - 1] == 0
    })
}

/// `rows-same ?x ?y`: equal ranks, and all extents but the last are provably equal.
fn rows_same(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rows =
        |position| tensor(scene, arguments, position)?.shape.as_ref()?.split_last().map(|(_, rows)| rows);
    rows(0).zip(rows(1)).is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
}

/// `element ?x NAME...`: the element type is one of these, by their names in the text form.
fn element(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let Some(ty) = tensor(scene, arguments, 0) else { return false };
    let name = ty.element.to_string();
    let is_it = |argument: &Argument| matches!(argument, Argument::Attribute(Attribute::String(text)) if **text == *name.as_bytes());
    ty.element != ElementType::Undefined && arguments[1..].iter().any(is_it)
}

/// `extent ?x AXIS N`: an extent of `?x` is known and equals `N`.
fn extent(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let found = || {
        let dims = tensor(scene, arguments, 0)?.shape.as_ref()?;
        let axis = normalize_axis(int(arguments, 1)?, dims.len())?;
        Some(dims[axis].known()? == u64::try_from(int(arguments, 2)?).ok()?)
    };
    found().unwrap_or(false)
}

/// `extent-at-least ?x AXIS N`: an extent of `?x` is at least `N`, for all symbols in their ranges.
fn extent_at_least(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let found = || {
        let dims = tensor(scene, arguments, 0)?.shape.as_ref()?;
        let axis = normalize_axis(int(arguments, 1)?, dims.len())?;
        Some(is_at_least(scene, &dims[axis], u64::try_from(int(arguments, 2)?).ok()?))
    };
    found().unwrap_or(false)
}

/// Returns whether an extent is at least `least` for all symbols in their ranges.
fn is_at_least(scene: Scene<'_, '_>, extent: &Dim, least: u64) -> bool {
    let bound = || extent.expr()?.lower_bound(&scene.graph.analysis.module.domain().ranges);
    extent
        .known()
        .map_or_else(|| bound().is_some_and(|bound| bound >= i128::from(least)), |extent| extent >= least)
}

/// `fixed ?x`: each extent of `?x` is known, or at least 1 for all symbols in their ranges.
fn fixed(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let dims = tensor(scene, arguments, 0).and_then(|ty| ty.shape.as_ref());
    dims.is_some_and(|dims| {
        dims.iter().all(|extent| extent.known().is_some() || is_at_least(scene, extent, 1))
    })
}

/// `extent-same ?x AXIS ?y AXIS`: two extents are provably equal.
fn extent_same(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let dim = |tensor_at: usize, axis_at: usize| {
        let dims = tensor(scene, arguments, tensor_at)?.shape.as_ref()?;
        dims.get(normalize_axis(int(arguments, axis_at)?, dims.len())?)
    };
    dim(0, 1).zip(dim(2, 3)).is_some_and(|(a, b)| a.same(b))
}

/// `swaps-last $perm`: the permutation exchanges the last two axes and nothing else.
fn swaps_last(_: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let Argument::Attribute(Attribute::Ints(axes)) = &arguments[0] else { return false };
    let count = axes.len() as i64;
    let wanted = (0..count).map(|axis| {
        if axis == count - 1 {
            count - 2
        } else if axis == count - 2 {
            count - 1
        } else {
            axis
        }
    });
    count >= 2 && wanted.eq(axes.iter().copied())
}

/// `wider ?x ?y`: the last extent of `?x` is known and at least twice that of `?y`.
fn wider(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let last = |position: usize| tensor(scene, arguments, position)?.shape.as_ref()?.last()?.known();
    last(0).zip(last(1)).is_some_and(|(wide, narrow)| wide / 2 >= narrow && wide > 1)
}

/// `without $rest NAME`: the open list, if any, has no attribute of this name.
fn without(_: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    match (&arguments[0], &arguments[1]) {
        (Argument::Nothing, _) => true,
        (Argument::Rest(list), Argument::Attribute(Attribute::String(name))) => {
            list.iter().all(|(other, _)| other.as_bytes() != &**name)
        }
        _ => false,
    }
}

fn nonnegative(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let Some(id) = class(arguments, 0) else { return false };
    scene.graph[id].nodes.iter().any(|term| match term.head {
        Head::Apply { operator, .. } => {
            let operator = scene.graph.analysis.names.operator_at(operator);
            lookup(operator).and_then(|info| info.algebra).is_some_and(|algebra| algebra.nonnegative)
        }
        _ => false,
    })
}

/// `parts ?x ?from ?middle ?to ?axis [?step]`: the slices from-middle and middle-to along the axis cover
/// all of `?x`, and neither is empty.
fn parts(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let number = |position| class(arguments, position).and_then(|id| one_int(scene.graph, id));
    let found = || {
        let step = if arguments.len() > 5 { number(5)? } else { 1 };
        let (from, middle, to) = (number(1)?, number(2)?, number(3)?);
        let dims = tensor(scene, arguments, 0)?.shape.as_ref()?;
        let extent = i64::try_from(dims[normalize_axis(number(4)?, dims.len())?].known()?).ok()?;
        Some(from == 0 && step == 1 && to >= extent && (1..extent).contains(&middle))
    };
    found().unwrap_or(false)
}

/// `power-of-two ?c`: all elements equal one number whose reciprocal is exact.
fn power_of_two(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let number = class(arguments, 0).and_then(|id| splat(scene.graph, id));
    // Limited to numbers that are, like their reciprocals, not subnormal in binary32.
    number.is_some_and(|number| (-100..=100).any(|power| number.abs() == 2f64.powi(power)))
}

fn rank(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank =
        tensor(scene, arguments, 0).and_then(TensorType::rank).and_then(|rank| i64::try_from(rank).ok());
    rank.is_some() && rank == int(arguments, 1)
}

fn rank_at_least(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let rank =
        tensor(scene, arguments, 0).and_then(TensorType::rank).and_then(|rank| i64::try_from(rank).ok());
    rank.zip(int(arguments, 1)).is_some_and(|(rank, least)| rank >= least)
}

/// `repeats ?c`: both halves of the last axis of a constant that was read are equal.
fn repeats(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let Some(id) = class(arguments, 0) else { return false };
    scene.graph[id].nodes.iter().any(|term| match term.head {
        Head::Leaf(number) => scene.graph.analysis.leaves[number as usize].repeats,
        _ => false,
    })
}

/// `table-of ?t ?x`: the last two extents are known and equal those of `?x`, all others are 1.
fn table_of(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let dims = |position: usize| tensor(scene, arguments, position).and_then(TensorType::known_dims);
    let last = |position: usize| tensor(scene, arguments, position)?.shape.as_ref()?.last_chunk::<2>();
    let Some(table) = dims(0) else { return false };
    let ones = table.iter().rev().skip(2).all(|extent| *extent == 1);
    ones && last(0).zip(last(1)).is_some_and(|(table, of)| table[0].same(&of[0]) && table[1].same(&of[1]))
}

fn same_class(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let (a, b) = (class(arguments, 0), class(arguments, 1));
    a.zip(b).is_some_and(|(a, b)| scene.graph.find(a) == scene.graph.find(b))
}

fn same_shape(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let shape = |position| tensor(scene, arguments, position).and_then(|ty| ty.shape.as_deref());
    let same = |(a, b): (&Dim, &Dim)| a.same(b);
    shape(0).zip(shape(1)).is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(same))
}

fn same_element(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let element = |position| tensor(scene, arguments, position).map(|ty| ty.element);
    element(0).is_some_and(|own| own != ElementType::Undefined) && element(0) == element(1)
}

/// `vector-of ?v ?x`: `?v` has one axis, provably as long as the last axis of `?x`.
fn vector_of(scene: Scene<'_, '_>, arguments: &[Argument]) -> bool {
    let (vector, of) = (tensor(scene, arguments, 0), tensor(scene, arguments, 1));
    vector.zip(of).is_some_and(|(vector, of)| is_vector_of(vector, of))
}

/// `zeros ?z`: all elements are zero of either sign: known, expanded from a zero, or made without a
/// value.
fn is_zero(graph: &Graph<'_>, id: Id) -> bool {
    let made = |term: &Term| match term.head {
        Head::Apply { operator, attributes, .. } => {
            let names = &graph.analysis.names;
            let operator = names.operator_at(operator);
            match (&*operator.domain, &*operator.name) {
                ("", "Expand") => splat(graph, term.children[0]) == Some(0.0),
                // Other values are stated by a tensor attribute, which no node of a fragment has.
                ("", "ConstantOfShape") => names.attributes_at(attributes).is_empty(),
                _ => false,
            }
        }
        Head::Leaf(number) => graph.analysis.leaves[number as usize].zeros,
        _ => false,
    };
    splat(graph, id) == Some(0.0) || graph[id].nodes.iter().any(made)
}
