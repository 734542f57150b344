//! Operators that build a larger tensor from the elements of their operands: Concat, Pad, Tile.

use memc_ir::{Dim, ElementType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::families::axes::{Axes, axes, positions_of, vector_length};
use crate::families::broadcasting::{data_or_unknown, item_count, pick, positions, product, strides};
use crate::families::constant::check_extents;
use crate::families::dims::agree;
use crate::info::{OpInfo, SplitAxes, View, Work};
use crate::pieces::rules;

/// Returns axis and extents of a concatenation; `None` if no operand has a known rank.
fn concatenated(ctx: &Infer<'_>, axis: i64) -> Result<Option<(usize, Vec<Dim>)>, InferError> {
    let mut joined: Option<(usize, Vec<Dim>)> = None;
    for operand in (0..ctx.input_count()).filter(|operand| ctx.has(*operand)) {
        let Some(dims) = ctx.dims(operand) else { continue };
        let at = ctx.axis("axis", axis, dims.len())?;
        joined = Some(match joined {
            None => (at, dims.to_vec()),
            Some((_, other)) if other.len() != dims.len() => {
                let (left, right) = (other.len().to_string(), dims.len().to_string());
                return Err(InferError::Mismatch { what: "rank", left, right });
            }
            Some((_, other)) => {
                let merged: Result<Vec<Dim>, InferError> = (0..dims.len())
                    .map(|axis| match axis == at {
                        true => Ok(other[axis].add(&dims[axis])),
                        false => agree("extents beside the axis", &other[axis], &dims[axis]),
                    })
                    .collect();
                (at, merged?)
            }
        });
    }
    // An operand of unknown rank contributes an unknown extent.
    let has_unranked = (0..ctx.input_count()).any(|operand| ctx.has(operand) && ctx.dims(operand).is_none());
    if let Some((at, dims)) = joined.as_mut().filter(|_| has_unranked) {
        dims[*at] = Dim::Unknown;
    }
    Ok(joined)
}

/// Returns the elements of a concatenation along `axis`, with unknown elements for operands that are not
/// followed.
fn concatenated_items(ctx: &Infer<'_>, axis: usize) -> Option<Vec<Item>> {
    if (0..ctx.input_count()).all(|operand| ctx.data(operand).is_none()) {
        return None;
    }
    let all: Vec<Data> =
        (0..ctx.input_count()).map(|operand| data_or_unknown(ctx, operand)).collect::<Option<_>>()?;
    let outer = item_count(all.first()?.dims.get(..axis)?)?;
    let total = all.iter().try_fold(0usize, |total, data| total.checked_add(data.items.len()))?;
    item_count(&[total as u64])?;
    let mut items = Vec::with_capacity(total);
    for row in 0..outer {
        for data in &all {
            let length = data.items.len() / outer;
            items.extend_from_slice(data.items.get(row * length..(row + 1) * length)?);
        }
    }
    Some(items)
}

fn concat(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let axis = ctx.int_attribute("axis").ok_or(InferError::MissingAttribute { name: "axis" })?;
    let element = ctx.element(0);
    let Some((at, dims)) = concatenated(ctx, axis)? else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let items = concatenated_items(ctx, at);
    ctx.set_dims(0, element, dims);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Returns the growth of each axis before its first and after its last position; `None` if the padded
/// axes are unknown.
fn margins(ctx: &Infer<'_>, rank: usize) -> Result<Option<Vec<(Item, Item)>>, InferError> {
    let attribute = ctx.ints("pads").or_else(|| ctx.ints("paddings"));
    if attribute.is_none() {
        ctx.required(1)?;
    }
    let pads: Vec<Item> = match (attribute, ctx.data(1)) {
        (Some(pads), _) => pads.iter().copied().map(Item::Int).collect(),
        (None, Some(data)) => data.items.clone(),
        (None, None) => vec![Item::Unknown; vector_length(ctx, 1).unwrap_or(0)],
    };
    let mut margins = vec![(Item::Int(0), Item::Int(0)); rank];
    let padded = match axes(ctx, "axes", 3) {
        Axes::Absent => (0..rank).collect(),
        Axes::Known(axes) => positions_of(&axes, rank)?,
        Axes::Unknown(_) => return Ok(None),
    };
    if pads.len() != 2 * padded.len() {
        if attribute.is_none() && ctx.data(1).is_none() {
            return Ok(None);
        }
        let (left, right) = (pads.len().to_string(), format!("twice {} axes", padded.len()));
        return Err(InferError::Mismatch { what: "number of pads", left, right });
    }
    for (position, axis) in padded.iter().enumerate() {
        margins[*axis] = (pads[position].clone(), pads[padded.len() + position].clone());
    }
    Ok(Some(margins))
}

/// Returns the maximum growth of an axis for one margin.
fn margin(item: &Item) -> Dim {
    if item.int().is_some_and(|margin| margin < 0) { Dim::Known(0) } else { item.dim() }
}

/// Returns the extent of an axis with its margins; negative margins crop.
fn grown(dim: &Dim, before: &Item, after: &Item) -> Result<Dim, InferError> {
    let sum =
        before.expr().zip(after.expr()).zip(dim.expr()).and_then(|((a, b), extent)| extent.add(&a)?.add(&b));
    match sum {
        Some(sum) if sum.as_constant().is_some_and(|extent| extent < 0) => Err(InferError::BadOperand {
            operand: 1,
            why: format!("an extent of {dim} is cropped to less than nothing"),
        }),
        Some(sum) => Ok(Dim::from_expr(sum)),
        // Cropping margins remove at most the whole extent.
        None => Ok(dim.add(&margin(before)).add(&margin(after)).open()),
    }
}

/// Returns the fill element of a Pad in constant mode.
fn filler(ctx: &Infer<'_>, element: ElementType) -> Item {
    if let Some(data) = ctx.data(2) {
        return data.items.first().cloned().unwrap_or(Item::Unknown);
    }
    match element {
        _ if ctx.has(2) => Item::Unknown,
        ElementType::Float | ElementType::Double => Item::Float(f64::from(ctx.float("value", 0.0))),
        _ if ctx.node().attribute("value").is_some() => Item::Unknown,
        other if other.is_integral() => Item::Int(0),
        _ => Item::Unknown,
    }
}

/// Returns the elements of a Pad in constant mode; `None` if a margin is unknown.
fn padded_items(data: &Data, margins: &[(Item, Item)], dims: &[u64], filler: &Item) -> Option<Vec<Item>> {
    let count = item_count(dims)?;
    let own = strides(&data.dims);
    let outer = strides(dims);
    let befores: Vec<i64> = margins.iter().map(|(before, _)| before.int()).collect::<Option<_>>()?;
    let source = |at: i64| -> Option<usize> {
        let mut rest = at;
        let mut source = 0i64;
        for axis in 0..dims.len() {
            let position = (rest / outer[axis]).checked_sub(befores[axis])?;
            rest %= outer[axis];
            if position < 0 || position as u64 >= data.dims[axis] {
                return None;
            }
            source += position * own[axis];
        }
        usize::try_from(source).ok()
    };
    Some(
        (0..count as i64)
            .map(|at| source(at).and_then(|at| data.items.get(at)).unwrap_or(filler).clone())
            .collect(),
    )
}

fn pad(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let Some(margins) = margins(ctx, dims.len())? else {
        ctx.set_dims(0, element, vec![Dim::Unknown; dims.len()]);
        return Ok(());
    };
    let result: Result<Vec<Dim>, InferError> =
        dims.iter().zip(&margins).map(|(dim, (before, after))| grown(dim, before, after)).collect();
    let result = result?;
    let known: Option<Vec<u64>> = result.iter().map(Dim::known).collect();
    let is_constant = matches!(ctx.string("mode"), None | Some("constant"));
    let items = ctx
        .data(0)
        .zip(known)
        .filter(|_| is_constant)
        .and_then(|(data, known)| padded_items(data, &margins, &known, &filler(ctx, element)));
    ctx.set_dims(0, element, result);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn tiled_items(data: &Data, dims: &[u64]) -> Option<Vec<Item>> {
    // Split each axis into two: the copy, and the position within it.
    let own = strides(&data.dims);
    let mut pairs = Vec::new();
    let mut steps = Vec::new();
    for axis in 0..dims.len() {
        pairs.push(dims[axis].checked_div(data.dims[axis]).unwrap_or(0));
        steps.push(0);
        pairs.push(data.dims[axis]);
        steps.push(own[axis]);
    }
    pick(&data.items, &positions(&pairs, 0, &steps)?)
}

fn tile(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    check_extents(ctx, 1, 0)?;
    let element = ctx.element(0);
    let repeats = ctx.dim_data(1);
    let dims = match (ctx.dims(0), repeats) {
        (Some(dims), Some(repeats)) if dims.len() == repeats.len() => {
            let both = dims.iter().zip(&repeats);
            both.map(|(dim, repeat)| product(&[dim.clone(), repeat.clone()])).collect()
        }
        (Some(dims), Some(repeats)) => {
            let (left, right) = (repeats.len().to_string(), dims.len().to_string());
            return Err(InferError::Mismatch { what: "number of repeats and rank", left, right });
        }
        (Some(dims), None) => vec![Dim::Unknown; dims.len()],
        (None, Some(repeats)) => vec![Dim::Unknown; repeats.len()],
        (None, None) => {
            ctx.set_tensor(0, element, None);
            return Ok(());
        }
    };
    let known: Option<Vec<u64>> = dims.iter().map(Dim::known).collect();
    let items = ctx.data(0).zip(known).and_then(|(data, known)| tiled_items(data, &known));
    ctx.set_dims(0, element, dims);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Concat", concat)
        .algebra(Algebra::NONE.keeps_single())
        .work(Work::None)
        .view(View::Concat)
        .split(SplitAxes::Rule(rules::joined)),
    OpInfo::onnx("Pad", pad).work(Work::None).split(SplitAxes::Rule(rules::padded)),
    OpInfo::onnx("Tile", tile).work(Work::None),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn concatenation_sums_one_extent() {
        let of = |inputs: &[&str], axis: i64| {
            inputs
                .iter()
                .fold(Case::new("Concat", 13).int("axis", axis), |case, text| case.input(text))
                .show()
        };
        assert_eq!(of(&["f32[P,4]", "f32[S,4]"], 0), "f32[S+P,4]");
        assert_eq!(of(&["f32[2,?]", "f32[3,4]"], -2), "f32[5,4]");
        assert_eq!(of(&["f32[2,3]", "f32[*]"], 1), "f32[2,?]");
        assert_eq!(of(&["f32[*]"], 1), "f32[*]");
        assert_eq!(of(&["f32[?<=2,3]", "f32[4,?]"], 0), "f32[?<=6,3]");
        assert_eq!(of(&["f32[2,3]", "f32[2,4]"], 0), "error: extents beside the axis: 3 and 4 do not agree");
        assert_eq!(of(&["f32[2,3]", "f32[2]"], 0), "error: rank: 2 and 1 do not agree");
        assert_eq!(of(&["f32[2,3]"], 2), "error: attribute `axis`: 2 is out of range for rank 2");
        assert_eq!(Case::new("Concat", 13).input("f32[1]").show(), "error: attribute `axis` is missing");
    }

    #[test]
    fn concatenation_follows_elements() {
        let vector =
            Case::new("Concat", 13).data("i64[1]", "N").input("i64[2]").ints_data(&[-1]).int("axis", 0);
        assert_eq!(vector.show(), "i64[4] = {N,?,?,-1}");
        let matrix =
            Case::new("Concat", 13).data("i64[2,1]", "1,2").data("i64[2,2]", "3,4,5,6").int("axis", 1);
        assert_eq!(matrix.show(), "i64[2,3] = {1,3,4,2,5,6}");
        assert_eq!(
            Case::new("Concat", 13).data("i64[0]", "").ints_data(&[1]).int("axis", 0).show(),
            "i64[1] = {1}"
        );
        assert_eq!(
            Case::new("Concat", 13).data("f32[1]", "1.0").input("f32[1]").int("axis", 0).show(),
            "f32[2]"
        );
    }

    #[test]
    fn margins_grow_and_crop() {
        let of = |case: Case| case.show();
        assert_eq!(of(Case::new("Pad", 2).input("f32[N,4]").ints("pads", &[1, -1, 2, 0])), "f32[N+3,3]");
        assert_eq!(of(Case::new("Pad", 13).input("f32[N,4]").ints_data(&[0, 1, 0, 1])), "f32[N,6]");
        assert_eq!(
            of(Case::new("Pad", 18).input("f32[N,4]").ints_data(&[1, 1]).input("").ints_data(&[-1])),
            "f32[N,6]"
        );
        assert_eq!(of(Case::new("Pad", 18).input("f32[N,4]").data("i64[4]", "0,0,M,?")), "f32[N+M,?]");
        assert_eq!(
            of(Case::new("Pad", 18).input("f32[?<=2,4]").data("i64[4]", "-1,?<=3,2,1")),
            "f32[?<=4,?<=8]"
        );
        assert_eq!(of(Case::new("Pad", 18).input("f32[N,4]").input("i64[4]")), "f32[?,?]");
        assert_eq!(
            of(Case::new("Pad", 18).input("f32[N,4]").input("i64[?]").input("").ints_data(&[1])),
            "f32[?,?]"
        );
        assert_eq!(
            of(Case::new("Pad", 13).input("f32[4]").ints_data(&[-3, -2])),
            "error: operand 1: an extent of 4 is cropped to less than nothing"
        );
        assert_eq!(
            of(Case::new("Pad", 13).input("f32[4]").ints_data(&[1])),
            "error: number of pads: 1 and twice 1 axes do not agree"
        );
        let filled =
            Case::new("Pad", 13).data("i64[1,2]", "1,N").ints_data(&[1, 1, 0, -1]).data("i64[]", "7");
        assert_eq!(of(filled), "i64[2,2] = {7,7,7,1}");
        assert_eq!(
            of(Case::new("Pad", 13).ints_data(&[1, 2]).ints_data(&[1, 1]).string("mode", "edge")),
            "i64[4]"
        );
    }

    #[test]
    fn tiles_repeat() {
        assert_eq!(Case::new("Tile", 13).input("f32[N,3]").data("i64[2]", "2,M").show(), "f32[2*N,3*M]");
        assert_eq!(Case::new("Tile", 13).input("f32[N,3]").input("i64[2]").show(), "f32[?,?]");
        assert_eq!(
            Case::new("Tile", 13).data("i64[2,2]", "1,2,3,4").ints_data(&[1, 2]).show(),
            "i64[2,4] = {1,2,1,2,3,4,3,4}"
        );
        assert_eq!(Case::new("Tile", 13).data("i64[1]", "N").ints_data(&[3]).show(), "i64[3] = {N,N,N}");
        assert_eq!(Case::new("Tile", 13).ints_data(&[]).ints_data(&[3]).show(), "i64[0] = {}");
        assert_eq!(
            Case::new("Tile", 13).input("f32[3]").ints_data(&[1, 1]).show(),
            "error: number of repeats and rank: 2 and 1 do not agree"
        );
    }
}
