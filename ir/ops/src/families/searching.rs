//! Searching and scanning along an axis: ArgMax, ArgMin, CumSum, CumProd, NonZero, TopK, Unique.

use std::cmp::Ordering;

use memc_ir::{Dim, ElementType, Ranges};

use crate::context::{Infer, InferError, normalize_axis};
use crate::fact::{Data, Item};
use crate::families::arithmetic as on;
use crate::families::broadcasting::{product, strides};
use crate::families::dims::least_of;
use crate::families::lanes::{groups, reduce};
use crate::families::slicing::axis_of;
use crate::indices;
use crate::info::{InferFn, OpInfo, Work};

/// Returns the position of the extreme element; `None` if a comparison is undecided or there are no
/// elements.
fn arg(items: &[&Item], wanted: Ordering, takes_last: bool) -> Option<i64> {
    let mut best = 0;
    for (at, item) in items.iter().enumerate() {
        let order = on::compare(item, items[best], &Ranges::new())?;
        if order == wanted || (order == Ordering::Equal && takes_last) {
            best = at;
        }
    }
    (!items.is_empty()).then_some(best as i64)
}

fn arg_extreme(ctx: &mut Infer<'_>, wanted: Ordering) -> Result<(), InferError> {
    ctx.required(0)?;
    let (keeps, takes_last) = (ctx.int("keepdims", 1) != 0, ctx.int("select_last_index", 0) != 0);
    let Some((mut dims, axis)) = ctx.shape(0).zip(axis_of(ctx, 0, 0)?) else {
        ctx.set_tensor(0, ElementType::Int64, None);
        return Ok(());
    };
    if keeps {
        dims[axis] = Dim::Known(1);
    } else {
        dims.remove(axis);
    }
    let find = |items: &[&Item]| arg(items, wanted, takes_last).map_or(Item::Unknown, Item::Int);
    let items = ctx.data(0).and_then(|data| reduce(data, &[axis], find));
    ctx.set_dims(0, ElementType::Int64, dims);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn arg_max(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arg_extreme(ctx, Ordering::Greater)
}

fn arg_min(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arg_extreme(ctx, Ordering::Less)
}

/// Returns the running results along an axis.
fn scanned(
    data: &Data,
    axis: usize,
    reverse: bool,
    exclusive: bool,
    start: i64,
    function: ItemFn,
) -> Option<Vec<Item>> {
    let mut items = vec![Item::Unknown; data.items.len()];
    for mut group in groups(data, &[axis])? {
        if reverse {
            group.reverse();
        }
        let mut running = Item::Int(start);
        for at in group {
            let next = function(data.element, &running, data.items.get(at)?);
            *items.get_mut(at)? = if exclusive { running } else { next.clone() };
            running = next;
        }
    }
    Some(items)
}

type ItemFn = fn(ElementType, &Item, &Item) -> Item;

/// Infers a cumulative operator. Follows only integers, because kernels may add floating-point numbers
/// in another order.
fn cumulative(ctx: &mut Infer<'_>, start: i64, function: ItemFn) -> Result<(), InferError> {
    ctx.required(1)?;
    ctx.set_like(0, 0);
    let Some((axis, rank)) = ctx.int_scalar(1).zip(ctx.rank(0)) else { return Ok(()) };
    let Some(axis) = normalize_axis(axis, rank) else {
        return Err(InferError::BadOperand {
            operand: 1,
            why: format!("axis {axis} is out of range for rank {rank}"),
        });
    };
    let (reverse, exclusive) = (ctx.int("reverse", 0) != 0, ctx.int("exclusive", 0) != 0);
    let data = ctx.data(0).filter(|data| data.element.is_integral());
    if let Some(items) = data.and_then(|data| scanned(data, axis, reverse, exclusive, start, function)) {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn cum_sum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    cumulative(ctx, 0, on::add)
}

fn cum_prod(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    cumulative(ctx, 1, on::mul)
}

/// Returns the coordinates of all nonzero elements, one row per axis, and their number; `None` if an
/// element is undecided.
fn coordinates(data: &Data) -> Option<(Vec<Item>, u64)> {
    let is_zero = |item: &Item| match item {
        Item::Int(value) => Some(*value == 0),
        Item::Float(value) => Some(*value == 0.0),
        Item::Symbolic(expr) => on::lower_bound(expr).filter(|bound| *bound > 0).map(|_| false),
        Item::AtMost(_) | Item::Within(_) | Item::Unknown => None,
    };
    let mut found = Vec::new();
    for (at, item) in data.items.iter().enumerate() {
        if !is_zero(item)? {
            found.push(at as i64);
        }
    }
    let steps = strides(&data.dims);
    let coordinate =
        |axis: usize, at: i64| at / steps[axis] % i64::try_from(data.dims[axis]).unwrap_or(i64::MAX).max(1);
    let rows = (0..data.dims.len()).flat_map(|axis| found.iter().map(move |at| (axis, *at)));
    Some((rows.map(|(axis, at)| Item::Int(coordinate(axis, at))).collect(), found.len() as u64))
}

fn non_zero(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (rows, most) = match ctx.dims(0) {
        // By the standard, a scalar has no row of coordinates; runtimes give it one row.
        Some([]) => (Dim::AtMost(1), Dim::AtMost(1)),
        Some(dims) => (Dim::Known(dims.len() as u64), product(dims).open()),
        None => (Dim::Unknown, Dim::Unknown),
    };
    let found = ctx.data(0).filter(|data| !data.dims.is_empty()).and_then(coordinates);
    let columns = found.as_ref().map_or(most, |(_, count)| Dim::Known(*count));
    ctx.set_dims(0, ElementType::Int64, vec![rows, columns]);
    if let Some((items, _)) = found {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn top_k(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let count = match ctx.int_attribute("k") {
        Some(k) if ctx.version() < 10 => Dim::Known(u64::try_from(k).unwrap_or(0)),
        _ => {
            ctx.required(1)?;
            ctx.dim_scalar(1)
        }
    };
    let dims = match (ctx.shape(0), axis_of(ctx, 0, -1)?) {
        (Some(mut dims), Some(axis)) => {
            if let (Dim::Known(k), Dim::Known(extent)) = (&count, &dims[axis])
                && k > extent
            {
                return Err(InferError::BadOperand {
                    operand: 1,
                    why: format!("{k} elements are requested of {extent}"),
                });
            }
            // The extent of the axis bounds the number of elements.
            dims[axis] = if count.is_open() { least_of(&[&count, &dims[axis]]) } else { count };
            Some(dims)
        }
        _ => None,
    };
    ctx.set_tensor(0, element, dims.clone());
    ctx.set_tensor(1, ElementType::Int64, dims);
    Ok(())
}

/// Infers Unique. The number of distinct elements is known only at run time; the number of inverse
/// indices is known statically.
fn unique(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let flat = ctx.int_attribute("axis").is_none();
    let axis = if flat { None } else { axis_of(ctx, 0, 0)? };
    let mapped = match (ctx.dims(0), axis) {
        (Some(dims), None) if flat => product(dims),
        (Some(dims), Some(axis)) => dims[axis].clone(),
        _ => Dim::Unknown,
    };
    // At most all elements are distinct.
    let count = mapped.open();
    let distinct = match (ctx.shape(0), axis) {
        _ if flat => Some(vec![count.clone()]),
        (Some(mut dims), Some(axis)) => {
            dims[axis] = count.clone();
            Some(dims)
        }
        _ => None,
    };
    ctx.set_tensor(0, element, distinct);
    ctx.set_dims(1, ElementType::Int64, vec![count.clone()]);
    ctx.set_dims(2, ElementType::Int64, vec![mapped]);
    ctx.set_dims(3, ElementType::Int64, vec![count]);
    Ok(())
}

const fn of(name: &'static str, infer: InferFn, work: u32) -> OpInfo {
    OpInfo::onnx(name, infer).work(Work::PerInputElement(work))
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    of("ArgMax", arg_max, 1).indices(indices::extremes),
    of("ArgMin", arg_min, 1).indices(indices::extremes),
    of("CumProd", cum_prod, 1),
    of("CumSum", cum_sum, 1),
    of("NonZero", non_zero, 1).indices(indices::coordinates),
    of("TopK", top_k, 4).indices(indices::sorted),
    of("Unique", unique, 8),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn extremes_are_found() {
        let of = |name: &str| Case::new(name, 13).data("i64[2,3]", "1,7,7,9,2,2").int("axis", 1);
        assert_eq!(of("ArgMax").show(), "i64[2,1] = {1,0}");
        assert_eq!(of("ArgMax").int("select_last_index", 1).int("keepdims", 0).show(), "i64[2] = {2,0}");
        assert_eq!(of("ArgMin").int("keepdims", 0).show(), "i64[2] = {0,1}");
        assert_eq!(
            Case::new("ArgMax", 13).input("f32[N,3]").int("axis", -1).int("keepdims", 0).show(),
            "i64[N]"
        );
        assert_eq!(Case::new("ArgMax", 13).input("f32[*]").show(), "i64[*]");
        assert_eq!(Case::new("ArgMax", 13).data("f32[2]", "nan,1.0").show(), "i64[1] = {?}");
    }

    #[test]
    fn scans_run_along_an_axis() {
        let of = |name: &str| Case::new(name, 26).data("i64[3]", "1,2,3").data("i64[]", "0");
        assert_eq!(of("CumSum").show(), "i64[3] = {1,3,6}");
        assert_eq!(of("CumSum").int("exclusive", 1).show(), "i64[3] = {0,1,3}");
        assert_eq!(of("CumSum").int("reverse", 1).show(), "i64[3] = {6,5,3}");
        assert_eq!(of("CumProd").int("exclusive", 1).int("reverse", 1).show(), "i64[3] = {6,3,1}");
        assert_eq!(
            Case::new("CumSum", 14).input("f32[N,3]").data("i32[]", "2").show(),
            "error: operand 1: axis 2 is out of range for rank 2"
        );
    }

    #[test]
    fn coordinates_are_one_row_an_axis() {
        assert_eq!(Case::new("NonZero", 13).data("i64[2,2]", "1,0,N+1,4").show(), "i64[2,3] = {0,1,1,0,0,1}");
        assert_eq!(Case::new("NonZero", 13).data("i64[2]", "1,N").show(), "i64[1,?<=2]");
        assert_eq!(Case::new("NonZero", 13).input("f32[3,4]").show(), "i64[2,?<=12]");
        assert_eq!(Case::new("NonZero", 13).input("f32[2,?<=3]").show(), "i64[2,?<=6]");
        assert_eq!(Case::new("NonZero", 13).input("f32[N,3]").show(), "i64[2,?<=3*N]");
        assert_eq!(Case::new("NonZero", 13).input("f32[]").show(), "i64[?<=1,?<=1]");
    }

    #[test]
    fn the_largest_are_counted_by_operand() {
        let of = |case: Case| case.outputs(2).show_all();
        assert_eq!(of(Case::new("TopK", 11).input("f32[N,5]").ints_data(&[3])), "f32[N,3]; i64[N,3]");
        assert_eq!(
            of(Case::new("TopK", 7).input("f32[N,5]").int("k", 2).int("axis", 0)),
            "f32[2,5]; i64[2,5]"
        );
        assert_eq!(of(Case::new("TopK", 11).input("f32[N,5]").input("i64[1]")), "f32[N,?<=5]; i64[N,?<=5]");
        assert_eq!(
            of(Case::new("TopK", 11).input("f32[N,5]").data("i64[1]", "?<=3")),
            "f32[N,?<=3]; i64[N,?<=3]"
        );
        assert_eq!(of(Case::new("TopK", 11).input("f32[?]").data("i64[1]", "?<=3")), "f32[?<=3]; i64[?<=3]");
        assert_eq!(
            of(Case::new("TopK", 11).input("f32[5]").ints_data(&[6])),
            "error: operand 1: 6 elements are requested of 5"
        );
        assert_eq!(of(Case::new("TopK", 11).input("f32[5]")), "error: operand 1 is missing");
    }

    #[test]
    fn distinct_elements_map_back() {
        let of = |case: Case| case.outputs(4).show_all();
        assert_eq!(
            of(Case::new("Unique", 11).input("f32[N,3]")),
            "f32[?<=3*N]; i64[?<=3*N]; i64[3*N]; i64[?<=3*N]"
        );
        assert_eq!(
            of(Case::new("Unique", 11).input("f32[N,3]").int("axis", 1)),
            "f32[N,?<=3]; i64[?<=3]; i64[3]; i64[?<=3]"
        );
        assert_eq!(
            of(Case::new("Unique", 11).input("f32[4,3]")),
            "f32[?<=12]; i64[?<=12]; i64[12]; i64[?<=12]"
        );
        assert_eq!(
            of(Case::new("Unique", 11).input("f32[*]").int("axis", 1)),
            "f32[*]; i64[?]; i64[?]; i64[?]"
        );
    }
}
