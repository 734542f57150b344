//! Reshape: extents that are stated, copied or inferred from the remaining elements.

use memc_ir::{Dim, Ranges};

use crate::context::{Infer, InferError};
use crate::fact::Item;
use crate::families::axes::vector_length;
use crate::families::broadcasting::{follow_same, product};
use crate::families::dims::most_of;
use crate::info::{Linear, OpInfo, SplitAxes, View, Work};
use crate::pieces::rules;

/// One element of the shape operand, resolved as far as possible without the other elements.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// A stated extent.
    Extent(Dim),
    /// The extent of operand 0 at this axis, known or not.
    Copied(Dim),
    /// The remaining extent (-1).
    Rest,
    /// An unknown element, which may be any of the above.
    Open,
}

fn part(item: &Item, axis: usize, dims: Option<&[Dim]>, allow_zero: bool) -> Result<Part, InferError> {
    Ok(match item {
        Item::Int(-1) => Part::Rest,
        Item::Int(0) if !allow_zero => match dims {
            None => Part::Open,
            Some(dims) => Part::Copied(dims.get(axis).cloned().ok_or_else(|| InferError::BadOperand {
                operand: 1,
                why: format!("extent {axis} is copied, but operand 0 has rank {}", dims.len()),
            })?),
        },
        Item::Int(extent) => Part::Extent(Dim::Known(u64::try_from(*extent).map_err(|_| {
            InferError::BadOperand { operand: 1, why: format!("extent {extent} is negative") }
        })?)),
        Item::Symbolic(expr) => Part::Extent(Dim::from_expr(expr.clone())),
        // The element may be 0, which copies the extent.
        Item::AtMost(_) | Item::Within(_) if !allow_zero => match dims.map(|dims| dims.get(axis)) {
            Some(Some(copied)) if copied.upper_expr().is_none() => Part::Open,
            Some(copied) => {
                Part::Extent(copied.map_or_else(|| item.dim(), |copied| most_of(copied, &item.dim())))
            }
            None => Part::Open,
        },
        Item::AtMost(_) | Item::Within(_) => Part::Extent(item.dim()),
        _ => Part::Open,
    })
}

/// Cancels extents that occur in both shapes, so that copied unknown extents and sums over symbols do
/// not hide the quotient.
fn cancel(dims: &[Dim], parts: &[Part]) -> (Vec<Dim>, Vec<Dim>) {
    let copied = |axis: usize| matches!(parts.get(axis), Some(Part::Copied(_)));
    let mut left: Vec<Dim> =
        (0..dims.len()).filter(|axis| !copied(*axis)).map(|axis| dims[axis].clone()).collect();
    let mut right = Vec::new();
    for part in parts {
        if let Part::Extent(dim) = part {
            match left.iter().position(|other| other.same(dim)) {
                Some(at) => drop(left.remove(at)),
                None => right.push(dim.clone()),
            }
        }
    }
    (left, right)
}

/// Returns the remaining extent: the elements of `dims` divided by the other extents in `parts`.
fn rest(dims: &[Dim], parts: &[Part]) -> Result<Dim, InferError> {
    let has_zero = |part: &Part| matches!(part, Part::Extent(Dim::Known(0)) | Part::Copied(Dim::Known(0)));
    if parts.iter().any(has_zero) {
        // Any extent fits; kernels reject the node or choose zero.
        return Ok(Dim::Unknown);
    }
    let (left, right) = cancel(dims, parts);
    let (total, taken) = (product(&left), product(&right));
    if let (Dim::Known(a), Dim::Known(b)) = (&total, &taken)
        && a.checked_rem(*b).is_none_or(|remainder| remainder != 0)
    {
        return Err(InferError::Mismatch {
            what: "elements",
            left: total.to_string(),
            right: format!("a multiple of {taken}"),
        });
    }
    Ok(total.div(&taken))
}

/// Returns the extents of the result.
fn reshaped(dims: Option<&[Dim]>, parts: &[Part]) -> Result<Vec<Dim>, InferError> {
    let bounded: Vec<usize> = (0..parts.len())
        .filter(|at| matches!(parts[*at], Part::Extent(Dim::AtMost(_) | Dim::Within(_))))
        .collect();
    if let ([only], false) =
        (bounded.as_slice(), parts.iter().any(|part| matches!(part, Part::Rest | Part::Open)))
    {
        // The other extents determine the only bounded extent.
        let mut parts = parts.to_vec();
        parts[*only] = Part::Rest;
        return reshaped(dims, &parts);
    }
    let rests = parts.iter().filter(|part| **part == Part::Rest).count();
    let open = parts.iter().filter(|part| **part == Part::Open).count();
    if rests > 1 {
        return Err(InferError::BadOperand {
            operand: 1,
            why: "more than one extent is left over".to_owned(),
        });
    }
    // A single extent that is not stated is the remaining extent, in any notation.
    let left_over = match dims {
        Some(dims) if rests + open == 1 => rest(dims, parts)?,
        Some(dims) if rests + open == 0 => {
            check(dims, parts)?;
            Dim::Unknown
        }
        _ => Dim::Unknown,
    };
    Ok(parts
        .iter()
        .map(|part| match part {
            Part::Extent(dim) | Part::Copied(dim) => dim.clone(),
            Part::Rest | Part::Open => left_over.clone(),
        })
        .collect())
}

/// Whether an element over symbols copies another extent at the smallest extents of the ranges: zero
/// copies.
fn may_copy(item: &Item, axis: usize, dims: Option<&[Dim]>, ranges: &Ranges) -> bool {
    let Item::Symbolic(expr) = item else { return false };
    let stated = expr.symbols().iter().all(|symbol| ranges.contains_key(&**symbol));
    let is_zero_somewhere = stated && expr.lower_bound(ranges).is_none_or(|least| least < 1);
    // At an axis that the operand lacks, a zero is refused.
    let copies_another = |own: &Dim| own.known() != Some(0) && own.expr().as_ref() != Some(expr);
    is_zero_somewhere && dims.is_none_or(|dims| dims.get(axis).is_some_and(copies_another))
}

/// Loosens the extents of a result to bounds that also hold where the elements at the axes `copying` are
/// zero, and copy the operand's extents there.
fn loosen(result: &mut [Dim], parts: &[Part], dims: Option<&[Dim]>, copying: &[usize]) {
    let Some(dims) = dims else {
        copying.iter().for_each(|axis| result[*axis] = Dim::Unknown);
        return;
    };
    // Where an element is zero that is also an extent of the operand, nothing is left over.
    let is_extent = |axis: &usize| dims.iter().any(|own| own.same(&result[*axis]));
    let nothing_left = copying.iter().all(is_extent);
    for axis in copying {
        result[*axis] = most_of(&dims[*axis], &result[*axis]);
    }
    for (axis, _) in parts
        .iter()
        .enumerate()
        .filter(|(_, part)| matches!(part, Part::Rest | Part::Open) && !copying.is_empty())
    {
        result[axis] = if nothing_left { Dim::within(result[axis].upper_expr()) } else { Dim::Unknown };
    }
}

/// Rejects known element counts that differ.
fn check(dims: &[Dim], parts: &[Part]) -> Result<(), InferError> {
    let result: Vec<Dim> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Extent(dim) | Part::Copied(dim) => Some(dim.clone()),
            _ => None,
        })
        .collect();
    let all_known = result.iter().all(|dim| dim.known().is_some());
    match (product(dims), product(&result)) {
        (Dim::Known(a), Dim::Known(b)) if a != b => {
            Err(InferError::Mismatch { what: "elements", left: a.to_string(), right: b.to_string() })
        }
        // The product of known extents exceeds 64 bits.
        (Dim::Known(a), Dim::Unknown) if all_known => Err(InferError::Mismatch {
            what: "elements",
            left: a.to_string(),
            right: "more than 2^64".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn reshape(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let items: Option<Vec<Item>> = match ctx.ints("shape") {
        // Operator sets below 5.
        Some(shape) if !ctx.has(1) => Some(shape.iter().copied().map(Item::Int).collect()),
        _ => {
            ctx.required(1)?;
            let stated = ctx.data(1).map(|data| data.items.clone());
            stated.or_else(|| vector_length(ctx, 1).map(|rank| vec![Item::Unknown; rank]))
        }
    };
    let element = ctx.element(0);
    let Some(items) = items else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let allow_zero = ctx.int("allowzero", 0) != 0;
    let dims = ctx.dims(0);
    let parts: Result<Vec<Part>, InferError> =
        items.iter().enumerate().map(|(axis, item)| part(item, axis, dims, allow_zero)).collect();
    let parts = parts?;
    let mut result = reshaped(dims, &parts)?;
    if !allow_zero {
        let ranges = ctx.ranges();
        let copying =
            (0..items.len()).filter(|axis| may_copy(&items[*axis], *axis, dims, ranges)).collect::<Vec<_>>();
        loosen(&mut result, &parts, dims, &copying);
    }
    ctx.set_dims(0, element, result);
    follow_same(ctx);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[OpInfo::onnx("Reshape", reshape)
    .work(Work::None)
    .view(View::Reshape)
    .split(SplitAxes::Rule(rules::reshaped))
    .linear(Linear::First)];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn reshape(input: &str, shape: &str) -> String {
        let count = shape.split(',').filter(|part| !part.is_empty()).count();
        Case::new("Reshape", 14).input(input).data(&format!("i64[{count}]"), shape).show()
    }

    #[test]
    fn extents_are_stated_copied_or_left_over() {
        let rows = [
            ("f32[2,3,4]", "4,6", "f32[4,6]"),
            ("f32[2,3,4]", "0,-1", "f32[2,12]"),
            ("f32[N,S,768]", "0,0,12,-1", "f32[N,S,12,64]"),
            ("f32[N,S,12,64]", "N,S,-1", "f32[N,S,768]"),
            ("f32[?,128,768]", "0,-1,12,64", "f32[?,128,12,64]"),
            ("f32[N,P+S,64]", "-1,P+S,32", "f32[2*N,S+P,32]"),
            ("f32[N,S,64]", "-1,64", "f32[N*S,64]"),
            ("f32[N,3]", "-1,2", "f32[floor(N/2)+N,2]"),
            ("f32[N,3,H,W]", "-1,N,4", "f32[floor(3*H*W/4),N,4]"),
            ("f32[?<=2*N,8]", "-1,4", "f32[?<=4*N,4]"),
            ("f32[?<=2*N,8]", "?<=9,8", "f32[?<=2*N,8]"),
            ("f32[?,3]", "-1,3", "f32[?,3]"),
            ("f32[*]", "0,4,-1", "f32[?,4,?]"),
            ("f32[2,6]", "?,4", "f32[3,4]"),
            ("f32[2,6]", "?,-1,4", "f32[?,?,4]"),
            ("f32[?<=12,8]", "-1,4", "f32[?<=24,4]"),
            ("f32[?<=12,8]", "0,2,4", "f32[?<=12,2,4]"),
            ("f32[2,6]", "?<=9,4", "f32[3,4]"),
            ("f32[?<=12,8]", "?<=9,8", "f32[?<=12,8]"),
            ("f32[?<=12,8]", "?<=15,-1", "f32[?<=15,?<=96]"),
            ("f32[?,8]", "?<=15,-1", "f32[?,?]"),
            ("f32[]", "1", "f32[1]"),
            ("f32[1]", "", "f32[]"),
            ("f32[0,3]", "0,-1", "f32[0,?]"),
            ("f32[0,3]", "-1,3", "f32[0,3]"),
        ];
        for (input, shape, result) in rows {
            assert_eq!(reshape(input, shape), result, "{input} {shape}");
        }
        assert_eq!(Case::new("Reshape", 14).input("f32[2,6]").input("i64[1]").show(), "f32[12]");
        assert_eq!(Case::new("Reshape", 14).input("f32[2,6]").input("i64[?]").show(), "f32[*]");
        assert_eq!(
            Case::new("Reshape", 14).input("f32[0,3]").ints_data(&[3, 0]).int("allowzero", 1).show(),
            "f32[3,0]"
        );
        assert_eq!(
            Case::new("Reshape", 14).data("i64[2]", "1,N").ints_data(&[2, 1]).show(),
            "i64[2,1] = {1,N}"
        );
    }

    #[test]
    fn wrong_models_are_refused() {
        let rows = [
            ("f32[2,3]", "4,-1", "error: elements: 6 and a multiple of 4 do not agree"),
            ("f32[2,3]", "4", "error: elements: 6 and 4 do not agree"),
            ("f32[2,3]", "-1,-1", "error: operand 1: more than one extent is left over"),
            ("f32[2,3]", "-2", "error: operand 1: extent -2 is negative"),
            ("f32[2,3]", "6,1,0", "error: operand 1: extent 2 is copied, but operand 0 has rank 2"),
        ];
        for (input, shape, result) in rows {
            assert_eq!(reshape(input, shape), result, "{input} {shape}");
        }
    }
}
