//! Reductions along axes.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::arithmetic as on;
use crate::families::axes::{Axes, axes, set_of};
use crate::families::lanes::reduce as reduce_items;
use crate::info::{InferFn, OpInfo, SplitAxes, Work};
use crate::pieces::rules;

/// Reduces the elements of one group.
type Follow = fn(ElementType, &[&Item]) -> Item;

/// The reduced axes.
enum Reduced {
    /// Known axes.
    Axes(Vec<usize>),
    /// Unknown axes, whose number may be known.
    Some(Option<usize>),
}

fn reduced(ctx: &Infer<'_>, rank: usize) -> Result<Reduced, InferError> {
    let keeps_all = ctx.int("noop_with_empty_axes", 0) != 0;
    Ok(match axes(ctx, "axes", 1) {
        Axes::Known(axes) if !axes.is_empty() => Reduced::Axes(set_of(&axes, rank)?),
        Axes::Unknown(Some(count)) if count > 0 => Reduced::Some(Some(count)),
        Axes::Unknown(None) => Reduced::Some(None),
        _ if keeps_all => Reduced::Axes(Vec::new()),
        _ => Reduced::Axes((0..rank).collect()),
    })
}

/// Returns the extents that remain; `None` if the rank stays unknown.
fn left_over(dims: &[Dim], reduced: &Reduced, keeps: bool) -> Option<Vec<Dim>> {
    match reduced {
        Reduced::Axes(axes) if keeps => {
            let extent = |axis: usize| if axes.contains(&axis) { Dim::Known(1) } else { dims[axis].clone() };
            Some((0..dims.len()).map(extent).collect())
        }
        Reduced::Axes(axes) => {
            Some((0..dims.len()).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis].clone()).collect())
        }
        Reduced::Some(_) if keeps => Some(vec![Dim::Unknown; dims.len()]),
        Reduced::Some(count) => dims.len().checked_sub((*count)?).map(|rank| vec![Dim::Unknown; rank]),
    }
}

fn reduction(ctx: &mut Infer<'_>, follow: Option<Follow>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let keeps = ctx.int("keepdims", 1) != 0;
    let Some(dims) = ctx.shape(0) else {
        let over_all = axes(ctx, "axes", 1) == Axes::Absent && ctx.int("noop_with_empty_axes", 0) == 0;
        ctx.set_tensor(0, element, (over_all && !keeps).then(Vec::new));
        return Ok(());
    };
    let reduced = reduced(ctx, dims.len())?;
    let items = match (&reduced, ctx.data(0), follow) {
        (Reduced::Axes(axes), Some(data), Some(follow)) => {
            reduce_items(data, axes, |items| follow(element, items))
        }
        _ => None,
    };
    ctx.set_tensor(0, element, left_over(&dims, &reduced, keeps));
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn fold(
    element: ElementType,
    items: &[&Item],
    start: Item,
    function: fn(ElementType, &Item, &Item) -> Item,
) -> Item {
    items.iter().fold(start, |result, item| function(element, &result, item))
}

/// Applies one step of a reduction; unknown if a number exceeds the integers that binary64 represents
/// exactly, because kernels may accumulate in binary64.
fn within_binary64(
    step: fn(ElementType, &Item, &Item) -> Item,
    element: ElementType,
    left: &Item,
    right: &Item,
) -> Item {
    let fits =
        |item: &Item| item.int().is_none_or(|value| value.unsigned_abs() <= on::EXACT_F64.unsigned_abs());
    let result = step(element, left, right);
    if fits(left) && fits(right) && fits(&result) { result } else { Item::Unknown }
}

/// Infers a reduction whose result depends on the order of steps; follows only integers.
fn ordered(ctx: &mut Infer<'_>, follow: Follow) -> Result<(), InferError> {
    let follow = ctx.element(0).is_integral().then_some(follow);
    reduction(ctx, follow)
}

fn sum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ordered(ctx, |element, items| {
        fold(element, items, Item::Int(0), |element, a, b| within_binary64(on::add, element, a, b))
    })
}

fn prod(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ordered(ctx, |element, items| {
        fold(element, items, Item::Int(1), |element, a, b| within_binary64(on::mul, element, a, b))
    })
}

/// Returns the extreme of several elements; unknown for no elements, for which kernels differ.
fn extreme(element: ElementType, items: &[&Item], function: fn(ElementType, &Item, &Item) -> Item) -> Item {
    match items {
        [first, rest @ ..] => fold(element, rest, (*first).clone(), function),
        [] => Item::Unknown,
    }
}

fn max(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    reduction(ctx, Some(|element, items| extreme(element, items, on::max)))
}

fn min(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    reduction(ctx, Some(|element, items| extreme(element, items, on::min)))
}

fn unfollowed(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    reduction(ctx, None)
}

const fn of(name: &'static str, infer: InferFn, work: u32) -> OpInfo {
    OpInfo::onnx(name, infer).work(Work::PerInputElement(work)).split(SplitAxes::Rule(rules::reduced_apart))
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    of("ReduceL1", unfollowed, 2).split(SplitAxes::Rule(rules::reduced_sum)),
    of("ReduceL2", unfollowed, 2),
    of("ReduceLogSum", unfollowed, 1),
    of("ReduceLogSumExp", unfollowed, 12),
    of("ReduceMax", max, 1),
    of("ReduceMean", unfollowed, 1).split(SplitAxes::Rule(rules::reduced_mean)),
    of("ReduceMin", min, 1),
    of("ReduceProd", prod, 1),
    of("ReduceSum", sum, 1).split(SplitAxes::Rule(rules::reduced_sum)),
    of("ReduceSumSquare", unfollowed, 2).split(SplitAxes::Rule(rules::reduced_sum)),
];

#[cfg(test)]
mod tests {
    use super::OPERATORS;
    use crate::families::testing::Case;

    #[test]
    fn axes_come_by_attribute_or_operand() {
        for info in OPERATORS {
            let old = |keeps: i64| {
                Case::new(info.name, 11)
                    .input("f32[N,3,4]")
                    .ints("axes", &[1, -1])
                    .int("keepdims", keeps)
                    .show()
            };
            assert_eq!(old(1), "f32[N,1,1]", "{}", info.name);
            assert_eq!(old(0), "f32[N]", "{}", info.name);
            let new = Case::new(info.name, 18).input("f32[N,3,4]").ints_data(&[0]).int("keepdims", 0);
            assert_eq!(new.show(), "f32[3,4]", "{}", info.name);
            assert_eq!(Case::new(info.name, 18).input("f32[N,3]").show(), "f32[1,1]", "{}", info.name);
            assert_eq!(
                Case::new(info.name, 18).input("f32[N,3]").int("keepdims", 0).show(),
                "f32[]",
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn open_axes_leave_open_extents() {
        let of = |case: Case| case.show();
        let sum = || Case::new("ReduceSum", 13);
        assert_eq!(of(sum().input("f32[N,3]").int("noop_with_empty_axes", 1)), "f32[N,3]");
        assert_eq!(of(sum().input("f32[N,3]").ints_data(&[])), "f32[1,1]");
        assert_eq!(of(sum().input("f32[N,3]").ints_data(&[]).int("noop_with_empty_axes", 1)), "f32[N,3]");
        assert_eq!(of(sum().input("f32[N,3]").input("i64[1]")), "f32[?,?]");
        assert_eq!(of(sum().input("f32[N,3]").input("i64[1]").int("keepdims", 0)), "f32[?]");
        assert_eq!(of(sum().input("f32[N,3]").input("i64[K]").int("keepdims", 0)), "f32[*]");
        assert_eq!(of(sum().input("f32[*]").int("keepdims", 0)), "f32[]");
        assert_eq!(of(sum().input("f32[*]")), "f32[*]");
        assert_eq!(
            of(sum().input("f32[2]").ints_data(&[1])),
            "error: attribute `axes`: 1 is out of range for rank 1"
        );
    }

    #[test]
    fn integers_are_followed() {
        let of = |name: &str| {
            Case::new(name, 18).data("i64[2,3]", "1,2,3,4,5,6").ints_data(&[0]).int("keepdims", 0).show()
        };
        assert_eq!(of("ReduceSum"), "i64[3] = {5,7,9}");
        assert_eq!(of("ReduceProd"), "i64[3] = {4,10,18}");
        assert_eq!(of("ReduceMax"), "i64[3] = {4,5,6}");
        assert_eq!(of("ReduceMin"), "i64[3] = {1,2,3}");
        assert_eq!(of("ReduceMean"), "i64[3]");
        let symbolic =
            Case::new("ReduceProd", 11).data("i64[3]", "N,2,M").ints("axes", &[0]).int("keepdims", 0);
        assert_eq!(symbolic.show(), "i64[] = {2*M*N}");
        let large = Case::new("ReduceSum", 11).data("i64[2]", "9223372036854775807,-1");
        assert_eq!(large.show(), "i64[1] = {?}");
        assert_eq!(Case::new("ReduceProd", 11).data("i64[0]", "").show(), "i64[1] = {1}");
        assert_eq!(Case::new("ReduceMax", 11).data("i64[0]", "").show(), "i64[1] = {?}");
        assert_eq!(Case::new("ReduceSum", 11).data("f32[1]", "1.0").show(), "f32[1]");
    }

    #[test]
    fn extremes_of_floats_are_followed() {
        let of =
            |name: &str, items: &str| Case::new(name, 18).data("f32[2]", items).int("keepdims", 0).show();
        assert_eq!(of("ReduceMax", "1.5,-2.0"), "f32[] = {1.5}");
        assert_eq!(of("ReduceMin", "1.5,-2.0"), "f32[] = {-2.0}");
        assert_eq!(of("ReduceMax", "0.0,-0.0"), "f32[] = {?}");
        assert_eq!(of("ReduceMax", "1.5,?"), "f32[] = {?}");
    }
}
