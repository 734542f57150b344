//! Operators that rearrange or select elements: Transpose, DepthToSpace, SpaceToDepth, OneHot, Trilu,
//! Where, ReverseSequence.

use memc_ir::{Dim, ElementType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError, broadcast};
use crate::fact::{Data, Item};
use crate::families::activation::same_as_first;
use crate::families::axes::positions_of;
use crate::families::broadcasting::{data_or_unknown, item_count, pick, positions, strides, zip_items};
use crate::families::gather::index_into;
use crate::info::{InPlace, Linear, OpInfo, Scalar, SplitAxes, Work};
use crate::pieces::rules;

/// Returns the permutation of a Transpose, which reverses all axes by default.
fn permutation(ctx: &Infer<'_>, rank: usize) -> Result<Vec<usize>, InferError> {
    let Some(perm) = ctx.ints("perm") else { return Ok((0..rank).rev().collect()) };
    if perm.len() != rank {
        let (left, right) = (perm.len().to_string(), rank.to_string());
        return Err(InferError::Mismatch { what: "length of the permutation and rank", left, right });
    }
    positions_of(perm, rank)
}

fn transpose(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(dims) = ctx.shape(0) else {
        let rank = ctx.ints("perm").map(<[i64]>::len);
        ctx.set_tensor(0, element, rank.map(|rank| vec![Dim::Unknown; rank]));
        return Ok(());
    };
    let order = permutation(ctx, dims.len())?;
    let items = ctx.data(0).and_then(|data| {
        let own = strides(&data.dims);
        let steps: Vec<i64> = order.iter().map(|axis| own[*axis]).collect();
        let dims: Vec<u64> = order.iter().map(|axis| data.dims[*axis]).collect();
        pick(&data.items, &positions(&dims, 0, &steps)?)
    });
    ctx.set_dims(0, element, order.iter().map(|axis| dims[*axis].clone()).collect());
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Returns the extents of an image of rank 4 (`None` if the rank is unknown), and the block size.
fn blocks(ctx: &Infer<'_>) -> Result<(Option<[Dim; 4]>, Dim), InferError> {
    ctx.required(0)?;
    let size = ctx.int_attribute("blocksize").ok_or(InferError::MissingAttribute { name: "blocksize" })?;
    let size = match u64::try_from(size) {
        Ok(size) if size > 0 => Dim::Known(size),
        _ => {
            return Err(InferError::BadAttribute {
                name: "blocksize",
                why: format!("{size} is not positive"),
            });
        }
    };
    let dims = ctx.dims(0).map(|dims| {
        <[Dim; 4]>::try_from(dims.to_vec()).map_err(|dims| InferError::BadOperand {
            operand: 0,
            why: format!("has rank {}, not 4", dims.len()),
        })
    });
    Ok((dims.transpose()?, size))
}

/// Divides an extent by another; known extents must divide without remainder.
fn divided(extent: &Dim, by: &Dim) -> Result<Dim, InferError> {
    if let (Dim::Known(a), Dim::Known(b)) = (extent, by)
        && a.checked_rem(*b).is_none_or(|rest| rest != 0)
    {
        return Err(InferError::BadOperand {
            operand: 0,
            why: format!("an extent of {a} is not a multiple of {b}"),
        });
    }
    Ok(extent.div(by))
}

fn depth_to_space(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (dims, size) = blocks(ctx)?;
    let dims = match dims {
        Some([batch, channels, height, width]) => {
            vec![batch, divided(&channels, &size.mul(&size))?, height.mul(&size), width.mul(&size)]
        }
        None => vec![Dim::Unknown; 4],
    };
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

fn space_to_depth(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (dims, size) = blocks(ctx)?;
    let dims = match dims {
        Some([batch, channels, height, width]) => {
            vec![batch, channels.mul(&size.mul(&size)), divided(&height, &size)?, divided(&width, &size)?]
        }
        None => vec![Dim::Unknown; 4],
    };
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

/// Returns the extent that a scalar operand states; floating-point numbers count if they are whole.
fn depth_of(ctx: &Infer<'_>) -> Result<Dim, InferError> {
    let item = match ctx.data(1).map(|data| data.items.as_slice()) {
        Some([item]) => item,
        _ => return Ok(Dim::Unknown),
    };
    match item {
        Item::Int(depth) if *depth < 0 => {
            Err(InferError::BadOperand { operand: 1, why: format!("depth {depth} is negative") })
        }
        Item::Float(depth) if depth.fract() == 0.0 && (0.0..1e15).contains(depth) => {
            Ok(Dim::Known(*depth as u64))
        }
        other => Ok(other.dim()),
    }
}

fn one_hot_items(indices: &Data, values: &Data, axis: usize, depth: u64) -> Option<Vec<Item>> {
    let [off, on] = values.items.as_slice() else { return None };
    let inner = item_count(indices.dims.get(axis..)?)?;
    let outer = item_count(&indices.dims[..axis])?;
    item_count(&[indices.items.len() as u64, depth])?;
    let mut items = Vec::new();
    for row in 0..outer {
        for class in 0..depth as usize {
            for column in 0..inner {
                let index = indices.items.get(row * inner + column)?;
                items.push(match (index.int(), index_into(index, depth)) {
                    (None, _) => Item::Unknown,
                    (Some(_), Some(hot)) if hot == class => on.clone(),
                    _ => off.clone(),
                });
            }
        }
    }
    Some(items)
}

fn one_hot(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    let element = ctx.element(2);
    let depth = depth_of(ctx)?;
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let axis = ctx.axis("axis", ctx.int("axis", -1), dims.len() + 1)?;
    dims.insert(axis, depth.clone());
    let items = match (ctx.data(0), ctx.data(2), depth.known()) {
        (Some(indices), Some(values), Some(depth)) => one_hot_items(indices, values, axis, depth),
        _ => None,
    };
    ctx.set_dims(0, element, dims);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn triangle(data: &Data, upper: bool, diagonal: i64) -> Option<Vec<Item>> {
    let [.., rows, columns] = data.dims.as_slice() else { return None };
    let (rows, columns) = (i64::try_from(*rows).ok()?, i64::try_from(*columns).ok()?);
    let zero = match data.element {
        ElementType::Float | ElementType::Double => Item::Float(0.0),
        other if other.is_integral() => Item::Int(0),
        _ => return None,
    };
    let keeps = |at: i64| {
        let (row, column) = (at / columns % rows, at % columns);
        let distance = column - row;
        if upper { distance >= diagonal } else { distance <= diagonal }
    };
    let kept = data.items.iter().zip(0i64..);
    Some(kept.map(|(item, at)| if keeps(at) { item.clone() } else { zero.clone() }).collect())
}

fn trilu(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    if let Some(rank) = ctx.rank(0).filter(|rank| *rank < 2) {
        return Err(InferError::BadOperand { operand: 0, why: format!("has rank {rank}, less than 2") });
    }
    ctx.set_like(0, 0);
    let diagonal = if ctx.has(1) { ctx.int_scalar(1) } else { Some(0) };
    let upper = ctx.int("upper", 1) != 0;
    if let Some(items) =
        ctx.data(0).zip(diagonal).and_then(|(data, diagonal)| triangle(data, upper, diagonal))
    {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn selected_items(ctx: &Infer<'_>) -> Option<Vec<Item>> {
    if ctx.data(1).is_none() && ctx.data(2).is_none() {
        return None;
    }
    let (condition, left, right) =
        (data_or_unknown(ctx, 0)?, data_or_unknown(ctx, 1)?, data_or_unknown(ctx, 2)?);
    let chosen = |items: &[&Item]| match items[0].int() {
        Some(0) => items[2].clone(),
        Some(_) => items[1].clone(),
        None if items[1] == items[2] => items[1].clone(),
        None => Item::Unknown,
    };
    // Kernels that merge both branches by addition turn a negative zero into a positive zero.
    zip_items(&[&condition, &left, &right], |items| match chosen(items) {
        Item::Float(value) if value == 0.0 && value.is_sign_negative() => Item::Unknown,
        item => item,
    })
}

fn choose(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    let shape = match (ctx.dims(0), ctx.dims(1), ctx.dims(2)) {
        (Some(condition), Some(left), Some(right)) => Some(broadcast(&broadcast(condition, left)?, right)?),
        _ => None,
    };
    let element = match ctx.element(1) {
        ElementType::Undefined => ctx.element(2),
        element => element,
    };
    let items = selected_items(ctx);
    ctx.set_tensor(0, element, shape);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("DepthToSpace", depth_to_space).work(Work::None).split(SplitAxes::Batch),
    OpInfo::onnx("OneHot", one_hot).work(Work::None),
    OpInfo::onnx("ReverseSequence", same_as_first).work(Work::None),
    OpInfo::onnx("SpaceToDepth", space_to_depth).work(Work::None).split(SplitAxes::Batch),
    OpInfo::onnx("Transpose", transpose)
        .work(Work::None)
        .split(SplitAxes::Rule(rules::transposition))
        .linear(Linear::First),
    OpInfo::onnx("Trilu", trilu).work(Work::None),
    OpInfo::onnx("Where", choose)
        .algebra(Algebra::KEEPS_ZERO)
        .scalar(Scalar::PerElement(8))
        .in_place(InPlace::Operands(&[1, 2]))
        .split(SplitAxes::All),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn transposition_permutes_extents_and_elements() {
        let of = |case: Case| case.show();
        assert_eq!(of(Case::new("Transpose", 13).input("f32[N,3,?]")), "f32[?,3,N]");
        assert_eq!(of(Case::new("Transpose", 13).input("f32[N,3,?]").ints("perm", &[1, 0, 2])), "f32[3,N,?]");
        assert_eq!(of(Case::new("Transpose", 13).input("f32[*]").ints("perm", &[1, 0])), "f32[?,?]");
        assert_eq!(
            of(Case::new("Transpose", 13).data("i64[2,3]", "1,2,3,4,5,N")),
            "i64[3,2] = {1,4,2,5,3,N}"
        );
        assert_eq!(
            of(Case::new("Transpose", 13).input("f32[2,3]").ints("perm", &[0])),
            "error: length of the permutation and rank: 1 and 2 do not agree"
        );
        assert_eq!(
            of(Case::new("Transpose", 13).input("f32[2,3]").ints("perm", &[0, 0])),
            "error: attribute `axes`: [0, 0] name an axis twice"
        );
    }

    #[test]
    fn blocks_move_between_depth_and_space() {
        assert_eq!(
            Case::new("DepthToSpace", 13).input("f32[N,8,H,3]").int("blocksize", 2).show(),
            "f32[N,2,2*H,6]"
        );
        assert_eq!(
            Case::new("SpaceToDepth", 13).input("f32[N,2,2*H,6]").int("blocksize", 2).show(),
            "f32[N,8,H,3]"
        );
        assert_eq!(Case::new("SpaceToDepth", 13).input("f32[*]").int("blocksize", 2).show(), "f32[?,?,?,?]");
        assert_eq!(
            Case::new("DepthToSpace", 13).input("f32[N,6,H,3]").int("blocksize", 2).show(),
            "error: operand 0: an extent of 6 is not a multiple of 4"
        );
        assert_eq!(
            Case::new("DepthToSpace", 13).input("f32[6]").int("blocksize", 2).show(),
            "error: operand 0: has rank 1, not 4"
        );
    }

    #[test]
    fn one_hot_inserts_an_axis() {
        let of = |depth: (&str, &str), axis: i64| {
            Case::new("OneHot", 11)
                .input("i64[N,3]")
                .data(depth.0, depth.1)
                .input("f32[2]")
                .int("axis", axis)
                .show()
        };
        assert_eq!(of(("i64[]", "5"), -1), "f32[N,3,5]");
        assert_eq!(of(("i64[1]", "D"), 0), "f32[D,N,3]");
        assert_eq!(of(("f32[]", "5.0"), 1), "f32[N,5,3]");
        assert_eq!(of(("f32[]", "5.5"), 1), "f32[N,?,3]");
        assert_eq!(of(("i64[]", "5"), 3), "error: attribute `axis`: 3 is out of range for rank 3");
        let items = |axis: i64| {
            let case =
                Case::new("OneHot", 11).data("i64[3]", "0,-1,5").data("i64[]", "2").data("i64[2]", "0,1");
            case.int("axis", axis).show()
        };
        assert_eq!(items(-1), "i64[3,2] = {1,0,0,1,0,0}");
        assert_eq!(items(0), "i64[2,3] = {1,0,0,0,1,0}");
    }

    #[test]
    fn triangles_keep_one_side() {
        let of = |upper: i64, diagonal: i64| {
            let case =
                Case::new("Trilu", 14).data("i64[2,3]", "1,2,3,4,5,6").data("i64[]", &diagonal.to_string());
            case.int("upper", upper).show()
        };
        assert_eq!(of(1, 0), "i64[2,3] = {1,2,3,0,5,6}");
        assert_eq!(of(1, 1), "i64[2,3] = {0,2,3,0,0,6}");
        assert_eq!(of(0, 0), "i64[2,3] = {1,0,0,4,5,0}");
        assert_eq!(of(0, i64::MIN), "i64[2,3] = {0,0,0,0,0,0}");
        assert_eq!(Case::new("Trilu", 14).input("f32[N,M]").show(), "f32[N,M]");
        assert_eq!(
            Case::new("Trilu", 14).input("f32[N]").show(),
            "error: operand 0: has rank 1, less than 2"
        );
    }

    #[test]
    fn selection_follows_conditions_and_broadcasts() {
        assert_eq!(
            Case::new("Where", 16).input("bool[N,1]").input("f32[3]").input("f32[]").show(),
            "f32[N,3]"
        );
        let case = Case::new("Where", 16)
            .data("bool[4]", "1,0,?,?")
            .data("i64[4]", "1,2,3,N")
            .data("i64[4]", "5,M,3,4");
        assert_eq!(case.show(), "i64[4] = {1,M,3,?}");
        let zeros =
            Case::new("Where", 16).data("bool[2]", "1,0").data("f32[2]", "-0.0,1.0").data("f32[]", "0.0");
        assert_eq!(zeros.show(), "f32[2] = {?,0.0}");
        let partly = Case::new("Where", 16).data("bool[2]", "1,0").ints_data(&[7]).input("i64[2]");
        assert_eq!(partly.show(), "i64[2] = {7,?}");
    }
}
