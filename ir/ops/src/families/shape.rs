//! Operators that return a shape, or change it without moving data.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError, broadcast};
use crate::fact::{Data, Item};
use crate::families::axes::{Axes, axes, positions_of, set_of};
use crate::families::broadcasting::{expand as expand_items, follow_same, product};
use crate::families::constant::check_extents;
use crate::info::{InferFn, Linear, OpInfo, Reads, SplitAxes, View, Work};
use crate::pieces::rules;

fn shape(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let Some(dims) = ctx.shape(0) else {
        ctx.set_dims(0, ElementType::Int64, vec![Dim::Unknown]);
        return Ok(());
    };
    let rank = i64::try_from(dims.len()).unwrap_or(i64::MAX);
    let clamp = |position: i64| {
        let position = if position < 0 { position.saturating_add(rank) } else { position };
        position.clamp(0, rank) as usize
    };
    let (start, end) = (clamp(ctx.int("start", 0)), clamp(ctx.int("end", rank)));
    let items: Vec<Item> = dims.get(start..end).unwrap_or(&[]).iter().map(Item::of_dim).collect();
    ctx.set_dims(0, ElementType::Int64, vec![Dim::Known(items.len() as u64)]);
    ctx.set_items(0, items);
    Ok(())
}

fn size(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let item = ctx.dims(0).map_or(Item::Unknown, |dims| Item::of_dim(&product(dims)));
    if let Some(data) = Data::new(ElementType::Int64, Vec::new(), vec![item]) {
        ctx.set_data(0, data);
    }
    Ok(())
}

fn identity(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let fact = ctx.required(0)?.clone();
    ctx.set(0, fact);
    Ok(())
}

fn flatten(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        ctx.set_dims(0, element, vec![Dim::Unknown; 2]);
        return Ok(());
    };
    let axis = ctx.int("axis", 1);
    // Unlike for other operators, the axis after the last one is allowed.
    let rank = dims.len() as i64;
    let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
    if !(0..=rank).contains(&at) {
        return Err(InferError::BadAttribute {
            name: "axis",
            why: format!("{axis} is out of range for rank {rank}"),
        });
    }
    let (outer, inner) = dims.split_at(at as usize);
    ctx.set_dims(0, element, vec![product(outer), product(inner)]);
    follow_same(ctx);
    Ok(())
}

/// Drops these axes, or all axes of extent 1 without a list, and returns the remaining extents; `None`
/// if the rank stays unknown.
fn squeezed(dims: &[Dim], axes: &Axes) -> Result<Option<Vec<Dim>>, InferError> {
    let known_ones = || dims.iter().filter(|dim| **dim == Dim::Known(1)).count();
    let all_known = dims.iter().all(|dim| dim.known().is_some());
    let without_ones = || dims.iter().filter(|dim| **dim != Dim::Known(1)).cloned().collect();
    match axes {
        // An empty list drops no axis in the standard, and all axes of extent 1 in runtimes. Both agree
        // if no extent is 1.
        Axes::Known(axes) if axes.is_empty() => Ok((all_known && known_ones() == 0).then(|| dims.to_vec())),
        Axes::Known(axes) => {
            let dropped = set_of(axes, dims.len())?;
            if let Some(axis) =
                dropped.iter().find(|axis| dims[**axis].known().is_some_and(|extent| extent != 1))
            {
                return Err(InferError::BadOperand {
                    operand: 0,
                    why: format!("axis {axis} has extent {}, not 1", dims[*axis]),
                });
            }
            let stays = |axis: &usize| !dropped.contains(axis);
            Ok(Some((0..dims.len()).filter(stays).map(|axis| dims[axis].clone()).collect()))
        }
        Axes::Absent => Ok(all_known.then(without_ones)),
        Axes::Unknown(Some(count)) if all_known && *count == known_ones() => Ok(Some(without_ones())),
        Axes::Unknown(Some(count)) => Ok(dims.len().checked_sub(*count).map(|rank| vec![Dim::Unknown; rank])),
        Axes::Unknown(None) => Ok(None),
    }
}

fn squeeze(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let axes = axes(ctx, "axes", 1);
    let result = match ctx.dims(0) {
        Some(dims) => squeezed(dims, &axes)?,
        None => None,
    };
    ctx.set_tensor(0, ctx.element(0), result);
    follow_same(ctx);
    Ok(())
}

/// Inserts extents of 1 at these positions of the result.
fn unsqueezed(dims: &[Dim], axes: &[i64]) -> Result<Vec<Dim>, InferError> {
    let inserted = positions_of(axes, dims.len().saturating_add(axes.len()))?;
    let mut rest = dims.iter();
    let mut extent = |axis: usize| {
        if inserted.contains(&axis) { Some(Dim::Known(1)) } else { rest.next().cloned() }
    };
    Ok((0..dims.len() + inserted.len()).filter_map(&mut extent).collect())
}

fn unsqueeze(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let axes = axes(ctx, "axes", 1);
    let result = match (ctx.dims(0), &axes) {
        (_, Axes::Absent) if ctx.version() >= 13 => return Err(InferError::MissingOperand { operand: 1 }),
        (_, Axes::Absent) => return Err(InferError::MissingAttribute { name: "axes" }),
        (Some(dims), Axes::Known(axes)) => Some(unsqueezed(dims, axes)?),
        (Some(dims), Axes::Unknown(Some(count))) => Some(vec![Dim::Unknown; dims.len() + count]),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(0), result);
    follow_same(ctx);
    Ok(())
}

fn expand(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let shape = match (ctx.dims(0), ctx.dim_data(1)) {
        (Some(dims), Some(target)) => Some(broadcast(dims, &target)?),
        _ => None,
    };
    check_extents(ctx, 1, -1)?;
    ctx.set_tensor(0, ctx.element(0), shape.clone());
    let known: Option<Vec<u64>> = shape.and_then(|dims| dims.iter().map(Dim::known).collect());
    if let Some(items) = ctx.data(0).zip(known).and_then(|(data, dims)| expand_items(data, &dims)) {
        ctx.set_items(0, items);
    }
    Ok(())
}

const fn reinterpretation(name: &'static str, infer: InferFn) -> OpInfo {
    OpInfo::onnx(name, infer)
        .work(Work::None)
        .view(View::Reshape)
        .split(SplitAxes::Rule(rules::reshaped))
        .linear(Linear::First)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Expand", expand).work(Work::None).split(SplitAxes::Rule(rules::expanded)),
    reinterpretation("Flatten", flatten),
    reinterpretation("Identity", identity),
    OpInfo::onnx("Shape", shape).work(Work::None).reads(Reads::Extents),
    OpInfo::onnx("Size", size).work(Work::None).reads(Reads::Extents),
    reinterpretation("Squeeze", squeeze),
    reinterpretation("Unsqueeze", unsqueeze),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn shapes_are_elements() {
        let of = |case: Case| case.show();
        assert_eq!(of(Case::new("Shape", 13).input("f32[N,?,3]")), "i64[3] = {N,?,3}");
        assert_eq!(
            of(Case::new("Shape", 15).input("f32[N,?,3]").int("start", 1).int("end", -1)),
            "i64[1] = {?}"
        );
        assert_eq!(
            of(Case::new("Shape", 15).input("f32[N,?,3]").int("start", -9).int("end", 9)),
            "i64[3] = {N,?,3}"
        );
        assert_eq!(
            of(Case::new("Shape", 15).input("f32[N,?,3]").int("start", 2).int("end", 1)),
            "i64[0] = {}"
        );
        assert_eq!(of(Case::new("Shape", 13).input("f32[]")), "i64[0] = {}");
        assert_eq!(of(Case::new("Shape", 13).input("f32[*]")), "i64[?]");
        assert_eq!(of(Case::new("Size", 13).input("f32[N,2,3]")), "i64[] = {6*N}");
        assert_eq!(of(Case::new("Size", 13).input("f32[?,0]")), "i64[] = {0}");
        assert_eq!(of(Case::new("Size", 13).input("f32[*]")), "i64[] = {?}");
        assert_eq!(of(Case::new("Size", 13).input("f32[2,?<=6]")), "i64[] = {?<=12}");
        assert_eq!(of(Case::new("Shape", 13).input("f32[2,?<=6]")), "i64[2] = {2,?<=6}");
    }

    #[test]
    fn views_keep_elements() {
        let of = |case: Case| case.show();
        assert_eq!(of(Case::new("Identity", 21).input("seq<f32[2]>")), "seq<f32[2]>");
        assert_eq!(of(Case::new("Identity", 21).data("i64[2]", "1,N")), "i64[2] = {1,N}");
        assert_eq!(of(Case::new("Flatten", 13).input("f32[N,2,3]")), "f32[N,6]");
        assert_eq!(of(Case::new("Flatten", 13).input("f32[N,2,3]").int("axis", -1)), "f32[2*N,3]");
        assert_eq!(of(Case::new("Flatten", 13).input("f32[2,3]").int("axis", 2)), "f32[6,1]");
        assert_eq!(of(Case::new("Flatten", 13).input("f32[*]")), "f32[?,?]");
        assert_eq!(
            of(Case::new("Flatten", 13).input("f32[2]").int("axis", 2)),
            "error: attribute `axis`: 2 is out of range for rank 1"
        );
        assert_eq!(of(Case::new("Squeeze", 11).data("i64[1]", "N").ints("axes", &[0])), "i64[] = {N}");
        assert_eq!(of(Case::new("Unsqueeze", 13).data("i64[]", "N").ints_data(&[0])), "i64[1] = {N}");
    }

    #[test]
    fn squeeze_drops_and_unsqueeze_inserts() {
        let squeeze = |text: &str, axes: &[i64]| Case::new("Squeeze", 13).input(text).ints_data(axes).show();
        assert_eq!(squeeze("f32[1,N,1]", &[0, -1]), "f32[N]");
        assert_eq!(squeeze("f32[1,N,1]", &[0, -3]), "f32[N,1]");
        assert_eq!(squeeze("f32[1,N,1]", &[1]), "f32[1,1]");
        assert_eq!(squeeze("f32[1,2]", &[]), "f32[*]");
        assert_eq!(squeeze("f32[3,2]", &[]), "f32[3,2]");
        assert_eq!(squeeze("f32[2]", &[0]), "error: operand 0: axis 0 has extent 2, not 1");
        assert_eq!(squeeze("f32[2]", &[3]), "error: attribute `axes`: 3 is out of range for rank 1");
        assert_eq!(Case::new("Squeeze", 13).input("f32[1,3,1]").show(), "f32[3]");
        assert_eq!(Case::new("Squeeze", 13).input("f32[1,N,1]").show(), "f32[*]");
        assert_eq!(Case::new("Squeeze", 13).input("f32[1,N,1]").input("i64[2]").show(), "f32[?]");
        assert_eq!(Case::new("Squeeze", 13).input("f32[1,4,1]").input("i64[2]").show(), "f32[4]");
        let unsqueeze =
            |text: &str, axes: &[i64]| Case::new("Unsqueeze", 13).input(text).ints_data(axes).show();
        assert_eq!(unsqueeze("f32[N,3]", &[0, -1]), "f32[1,N,3,1]");
        assert_eq!(unsqueeze("f32[N,3]", &[3, 0]), "f32[1,N,3,1]");
        assert_eq!(unsqueeze("f32[N,3]", &[1, 1]), "error: attribute `axes`: [1, 1] name an axis twice");
        assert_eq!(Case::new("Unsqueeze", 13).input("f32[N]").input("i64[2]").show(), "f32[?,?,?]");
        assert_eq!(Case::new("Unsqueeze", 11).input("f32[N]").ints("axes", &[1]).show(), "f32[N,1]");
        assert_eq!(Case::new("Unsqueeze", 13).input("f32[N]").show(), "error: operand 1 is missing");
    }

    #[test]
    fn expand_broadcasts_both_ways() {
        let of = |left: &str, items: &str, count: usize| {
            Case::new("Expand", 13).input(left).data(&format!("i64[{count}]"), items).show()
        };
        assert_eq!(of("f32[N,1]", "4,1,3", 3), "f32[4,N,3]");
        assert_eq!(of("f32[1,1]", "N,M", 2), "f32[N,M]");
        assert_eq!(of("f32[2,3]", "2,-1", 2), "f32[2,3]");
        assert_eq!(of("f32[2]", "3", 1), "error: broadcast: 2 and 3 do not agree");
        assert_eq!(Case::new("Expand", 13).input("f32[3]").input("i64[2]").show(), "f32[?,3]");
        assert_eq!(Case::new("Expand", 13).input("f32[3]").input("i64[K]").show(), "f32[*]");
        assert_eq!(of("f32[1,3]", "?<=4,1", 2), "f32[?<=4,3]");
        assert_eq!(
            Case::new("Expand", 13).data("i64[2,1]", "1,N").ints_data(&[2]).show(),
            "i64[2,2] = {1,1,N,N}"
        );
    }
}
