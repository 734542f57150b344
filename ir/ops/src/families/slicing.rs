//! Slice and Split: sub-views of a tensor along axes.

use memc_ir::{Dim, DimExpr, Ranges};

use crate::context::{Infer, InferError, normalize_axis};
use crate::fact::{Data, Item};
use crate::families::arithmetic::at_least;
use crate::families::axes::{positions_of, vector_length};
use crate::families::broadcasting::{pick, positions, strides};
use crate::families::dims::{ceil_div, least_of};
use crate::info::{OpInfo, Reads, Scalar, SplitAxes, Typed, View, Work};
use crate::pieces::rules;

/// Bounds of at least this magnitude mean "to the end": exporters write the largest 32- or 64-bit
/// integer, and no extent is that large.
const FAR: i64 = i32::MAX as i64;

/// Start, end and step of a slice along one axis.
#[derive(Debug, Clone)]
struct SliceAxis {
    axis: usize,
    start: Item,
    end: Item,
    step: Item,
}

/// Returns first position and number of positions of a slice along an axis of known extent.
///
/// `None` for a backward slice up to a largest integer: it is empty by the standard, and the whole axis
/// in runtimes.
fn known_window(extent: i64, start: i64, end: i64, step: i64) -> Option<(i64, u64)> {
    if extent == 0 {
        return Some((0, 0));
    }
    let place = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
    let (first, distance) = if step > 0 {
        let first = place(start).clamp(0, extent);
        (first, place(end).clamp(0, extent) - first)
    } else {
        if end == FAR || end == i64::MAX {
            return None;
        }
        // The start is never before the first position, unlike in Python.
        let first = place(start).clamp(0, extent - 1);
        (first, first - place(end).clamp(-1, extent - 1))
    };
    Some((first, u64::try_from(distance).unwrap_or(0).div_ceil(step.unsigned_abs())))
}

/// Returns a bound of a forward slice as an expression, clamped to the extent; `None` if it counts from
/// the start or from the end depending on symbols.
fn clamped(bound: &Item, extent: &DimExpr, ranges: &Ranges) -> Option<DimExpr> {
    let zero = DimExpr::constant(0);
    if matches!(bound, Item::Int(value) if *value >= FAR) {
        return Some(extent.clone());
    }
    if matches!(bound, Item::Int(value) if *value <= -FAR) {
        return Some(zero);
    }
    let mut at = bound.expr()?;
    if DimExpr::constant(-1).at_least(&at, ranges) {
        at = at.add(extent)?;
    } else if !at.at_least(&zero, ranges) {
        return None;
    }
    if at.at_least(extent, ranges) {
        return Some(extent.clone());
    }
    if zero.at_least(&at, ranges) {
        return Some(zero);
    }
    let from_zero = if at.at_least(&zero, ranges) { at } else { DimExpr::max_of(vec![at, zero])? };
    if extent.at_least(&from_zero, ranges) {
        Some(from_zero)
    } else {
        DimExpr::min_of(vec![from_zero, extent.clone()])
    }
}

/// Returns the number of positions of a slice along an axis whose extent or bounds depend on symbols;
/// `None` if it is unknown.
fn symbolic_window(extent: &DimExpr, window: &SliceAxis, ranges: &Ranges) -> Option<Dim> {
    let step = window.step.int()?;
    let by = DimExpr::constant(step.checked_abs()?);
    if step < 0 {
        let whole = matches!(window.start, Item::Int(start) if start == -1 || start >= FAR)
            && matches!(window.end, Item::Int(end) if end <= -FAR);
        return whole.then(|| extent.ceil_div(&by).map(Dim::from_expr))?;
    }
    let (first, last) = (clamped(&window.start, extent, ranges)?, clamped(&window.end, extent, ranges)?);
    let zero = DimExpr::constant(0);
    let distance = last.sub(&first)?;
    if zero.at_least(&distance, ranges) {
        return Some(Dim::Known(0));
    }
    let distance =
        if distance.at_least(&zero, ranges) { distance } else { DimExpr::max_of(vec![distance, zero])? };
    distance.ceil_div(&by).map(Dim::from_expr)
}

fn window_extent(dim: &Dim, window: &SliceAxis, ranges: &Ranges) -> Result<Dim, InferError> {
    if window.step == Item::Int(0) {
        return Err(InferError::BadOperand { operand: 4, why: "a step is zero".to_owned() });
    }
    if let (Dim::Known(extent), Item::Int(start), Item::Int(end), Item::Int(step)) =
        (dim, &window.start, &window.end, &window.step)
    {
        let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
        return Ok(
            known_window(extent, *start, *end, *step).map_or(Dim::Unknown, |(_, count)| Dim::Known(count))
        );
    }
    let known = dim.expr().and_then(|extent| symbolic_window(&extent, window, ranges));
    Ok(known.unwrap_or_else(|| match most_positions(dim, window) {
        Some(most) => Dim::AtMost(most),
        None => symbolic_bound(dim, window),
    }))
}

/// Returns a bound over symbols of the number of positions of a slice.
fn symbolic_bound(dim: &Dim, window: &SliceAxis) -> Dim {
    let end = match &window.end {
        end @ (Item::Within(_) | Item::Symbolic(_)) if window.step.int().is_some_and(|step| step > 0) => {
            end.upper_expr().map_or(Dim::Unknown, |upper| Dim::within(Some(upper)))
        }
        _ => Dim::Unknown,
    };
    let step = window.step.int().and_then(i64::checked_abs).unwrap_or(1);
    ceil_div(&least_of(&[dim, &end]).open(), step)
}

/// Returns an upper bound of the number of positions of a slice with unknown extent or bounds.
fn most_positions(dim: &Dim, window: &SliceAxis) -> Option<u64> {
    let whole = dim.upper().and_then(|extent| i64::try_from(extent).ok());
    let step = window.step.int().unwrap_or(1);
    let (mut from_start, mut from_end) = (None, None);
    if step > 0 {
        let (start, end) = (window.start.int(), window.end.int());
        if let (Some(whole), Some(start), Some(end)) = (whole, start, end)
            && (start >= 0 || !(0..FAR).contains(&end))
        {
            // A larger extent never gives this slice fewer positions; a slice from the end to the start
            // may shrink.
            return known_window(whole, start, end, step).map(|(_, count)| count);
        }
        let first = start.unwrap_or(0).max(0);
        from_start = window.end.upper().filter(|end| *end < FAR).map(|end| end.saturating_sub(first).max(0));
        from_end = start.filter(|start| *start < 0).and_then(i64::checked_neg);
    }
    let most = [whole, from_start, from_end].into_iter().flatten().min()?;
    Some(most.unsigned_abs().div_ceil(step.unsigned_abs()))
}

/// Returns a list of elements from an attribute or an operand; unknown elements if only their number is
/// known.
fn list(ctx: &Infer<'_>, name: &str, operand: usize) -> Option<Vec<Item>> {
    if let Some(values) = ctx.ints(name) {
        return Some(values.iter().copied().map(Item::Int).collect());
    }
    if let Some(data) = ctx.data(operand) {
        return Some(data.items.clone());
    }
    vector_length(ctx, operand).map(|count| vec![Item::Unknown; count])
}

/// Returns the slices of a Slice node, one per axis; `None` if even the axes are unknown.
fn windows(ctx: &Infer<'_>, rank: usize) -> Result<Option<Vec<SliceAxis>>, InferError> {
    let Some((starts, ends)) = list(ctx, "starts", 1).zip(list(ctx, "ends", 2)) else { return Ok(None) };
    if starts.len() != ends.len() {
        let (left, right) = (starts.len().to_string(), ends.len().to_string());
        return Err(InferError::Mismatch { what: "number of starts and ends", left, right });
    }
    let axes: Vec<i64> = match (ctx.ints("axes"), ctx.has(3)) {
        (Some(axes), _) => axes.to_vec(),
        (None, false) => (0..starts.len() as i64).collect(),
        (None, true) => match ctx.int_data(3) {
            Some(axes) => axes,
            None => return Ok(None),
        },
    };
    let steps = if ctx.has(4) { list(ctx, "steps", 4) } else { Some(vec![Item::Int(1); starts.len()]) };
    let steps = steps.unwrap_or_else(|| vec![Item::Unknown; starts.len()]);
    for (what, count) in
        [("number of starts and axes", axes.len()), ("number of starts and steps", steps.len())]
    {
        if count != starts.len() {
            return Err(InferError::Mismatch {
                what,
                left: starts.len().to_string(),
                right: count.to_string(),
            });
        }
    }
    let axes = positions_of(&axes, rank)?.into_iter();
    let bounds = starts.into_iter().zip(ends).zip(steps);
    Ok(Some(
        axes.zip(bounds).map(|(axis, ((start, end), step))| SliceAxis { axis, start, end, step }).collect(),
    ))
}

/// Returns the elements of a slice; `None` if a bound is unknown.
fn sliced(data: &Data, windows: &[SliceAxis]) -> Option<Vec<Item>> {
    let mut dims = data.dims.clone();
    let mut steps = strides(&dims);
    let mut base = 0;
    for window in windows {
        let extent = i64::try_from(data.dims[window.axis]).ok()?;
        let step = window.step.int()?;
        let (first, count) = known_window(extent, window.start.int()?, window.end.int()?, step)?;
        base += first.checked_mul(steps[window.axis])?;
        dims[window.axis] = count;
        steps[window.axis] = steps[window.axis].checked_mul(step)?;
    }
    pick(&data.items, &positions(&dims, base, &steps)?)
}

pub(crate) fn slice(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let windows = windows(ctx, dims.len())?;
    let Some(windows) = windows else {
        ctx.set_dims(0, element, dims.iter().map(Dim::open).collect());
        return Ok(());
    };
    for window in &windows {
        dims[window.axis] = window_extent(&dims[window.axis], window, ctx.ranges())?;
    }
    let items = ctx.data(0).and_then(|data| sliced(data, &windows));
    ctx.set_dims(0, element, dims);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Returns the extents of the results of a Split along an axis of extent `dim`.
fn parts(ctx: &Infer<'_>, dim: &Dim) -> Result<Vec<Dim>, InferError> {
    let count = ctx.output_count();
    let stated = match ctx.ints("split") {
        Some(split) => {
            Some(split.iter().map(|extent| u64::try_from(*extent).map_or(Dim::Unknown, Dim::Known)).collect())
        }
        None if ctx.has(1) => Some(ctx.dim_data(1).unwrap_or_else(|| vec![Dim::Unknown; count])),
        None => None,
    };
    if let Some(stated) = stated {
        return stated_parts(stated, count, dim);
    }
    let divisor = match (ctx.int_attribute("num_outputs"), u64::try_from(count)) {
        (None, Ok(count)) => count.max(1),
        (Some(stated), Ok(count)) if u64::try_from(stated).is_ok_and(|stated| stated >= count.max(1)) => {
            stated.unsigned_abs()
        }
        (stated, _) => {
            let why = format!("{} parts for {count} results", stated.unwrap_or_default());
            return Err(InferError::BadAttribute { name: "num_outputs", why });
        }
    };
    let uneven = ctx.version() >= 18;
    match dim {
        Dim::Known(extent) if extent % divisor != 0 && !uneven => Err(InferError::Mismatch {
            what: "extent to split",
            left: extent.to_string(),
            right: format!("a multiple of {divisor}"),
        }),
        // All results have equal extents, except the last, which has the remainder.
        Dim::Known(extent) => {
            let chunk = extent.div_ceil(divisor);
            let part = |at: u64| extent.saturating_sub(at.saturating_mul(chunk)).min(chunk);
            Ok((0..count as u64).map(|at| Dim::Known(part(at))).collect())
        }
        Dim::AtMost(extent) => Ok(vec![Dim::AtMost(extent.div_ceil(divisor)); count]),
        Dim::Symbolic(extent) if uneven => Ok(symbolic_parts(extent, divisor, count)),
        Dim::Within(_) => Ok(vec![ceil_div(dim, i64::try_from(divisor).unwrap_or(i64::MAX)); count]),
        other => Ok(vec![other.div(&Dim::Known(divisor)); count]),
    }
}

/// Returns the extents of `count` of `divisor` parts: `ceil(extent / divisor)`, and the remainder for the
/// last ones.
fn symbolic_parts(extent: &DimExpr, divisor: u64, count: usize) -> Vec<Dim> {
    let chunk = i64::try_from(divisor).ok().and_then(|divisor| extent.ceil_div(&DimExpr::constant(divisor)));
    let part = |at: usize| {
        let (chunk, zero) = (chunk.clone()?, DimExpr::constant(0));
        let left = extent.sub(&chunk.mul(&DimExpr::constant(i64::try_from(at).ok()?))?)?;
        let left = if at_least(&left, &zero) { left } else { DimExpr::max_of(vec![left, zero])? };
        if at_least(&left, &chunk) { Some(chunk) } else { DimExpr::min_of(vec![left, chunk]) }
    };
    (0..count).map(|at| part(at).map_or(Dim::Unknown, Dim::from_expr)).collect()
}

fn stated_parts(mut stated: Vec<Dim>, count: usize, dim: &Dim) -> Result<Vec<Dim>, InferError> {
    if stated.len() != count {
        return Err(InferError::Mismatch {
            what: "number of parts",
            left: stated.len().to_string(),
            right: count.to_string(),
        });
    }
    let sum = stated.iter().fold(Dim::Known(0), |sum, part| sum.add(part));
    if let (Dim::Known(sum), Dim::Known(extent)) = (&sum, dim)
        && sum != extent
    {
        return Err(InferError::Mismatch {
            what: "sum of parts",
            left: sum.to_string(),
            right: extent.to_string(),
        });
    }
    // A single unknown extent is the remainder of the others.
    let unknown: Vec<usize> = (0..count).filter(|at| stated[*at].is_open()).collect();
    if let [only] = unknown.as_slice() {
        let known = stated.iter().filter(|part| !part.is_open());
        stated[*only] = known.fold(dim.clone(), |rest, part| rest.sub(part));
    }
    // No result is larger than the whole.
    for part in stated.iter_mut().filter(|part| part.is_open()) {
        *part = least_of(&[&*part, dim]);
    }
    Ok(stated)
}

fn split(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let axis = ctx.int("axis", 0);
    let Some(dims) = ctx.shape(0) else {
        for result in 0..ctx.output_count() {
            ctx.set_tensor(result, element, None);
        }
        return Ok(());
    };
    let axis = ctx.axis("axis", axis, dims.len())?;
    let parts = parts(ctx, &dims[axis])?;
    let mut first = Some(0i64);
    for (result, part) in parts.iter().enumerate() {
        let mut part_dims = dims.clone();
        part_dims[axis] = part.clone();
        let known: Option<Vec<u64>> = part_dims.iter().map(Dim::known).collect();
        let items = ctx.data(0).zip(known).zip(first).and_then(|((data, known), first)| {
            let steps = strides(&data.dims);
            pick(&data.items, &positions(&known, first.checked_mul(steps[axis])?, &steps)?)
        });
        ctx.set_dims(result, element, part_dims);
        if let Some(items) = items {
            ctx.set_items(result, items);
        }
        first =
            first.zip(part.known()).and_then(|(first, part)| first.checked_add(i64::try_from(part).ok()?));
    }
    Ok(())
}

/// Returns the position of attribute `axis`, for an operand of known rank; `None` if the rank is
/// unknown.
pub(crate) fn axis_of(ctx: &Infer<'_>, operand: usize, default: i64) -> Result<Option<usize>, InferError> {
    let Some(rank) = ctx.rank(operand) else { return Ok(None) };
    let axis = ctx.int("axis", default);
    normalize_axis(axis, rank).map(Some).ok_or_else(|| InferError::BadAttribute {
        name: "axis",
        why: format!("{axis} is out of range for rank {rank}"),
    })
}

/// Counts the steps of Slice: it copies runs of elements that are contiguous in operand and result, and
/// each run takes about thirty steps, even if it is short.
fn slice_steps(node: &Typed<'_>) -> Option<u64> {
    let (from, to) = (node.input(0)?.known_dims()?, node.output(0)?.known_dims()?);
    let whole = from.iter().zip(&to).rev().take_while(|(from, to)| from == to).count();
    // The sliced axis belongs to the run; the axes after it are whole.
    let run: u64 = to.iter().rev().take(whole + 1).try_fold(1u64, |run, extent| run.checked_mul(*extent))?;
    let runs = node.output_elements()?.checked_div(run).unwrap_or(0);
    runs.checked_mul(30)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Slice", slice)
        .work(Work::None)
        .scalar(Scalar::Count(slice_steps))
        .reads(Reads::Picked(&[0]))
        .view(View::Slice)
        .split(SplitAxes::Rule(rules::sliced)),
    OpInfo::onnx("Split", split).work(Work::None).view(View::Split).split(SplitAxes::Rule(rules::cut)),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::{Dim, DimExpr, Ranges};

    use super::{SliceAxis, known_window, symbolic_window};
    use crate::fact::Item;
    use crate::families::testing::Case;

    #[test]
    fn slices_of_known_axes_count_like_python() {
        // Like Python, except that a backward start stops at the first position.
        let rows = [
            (10, 0, 10, 1, 10),
            (10, 2, -1, 1, 7),
            (10, -3, i64::MAX, 1, 3),
            (10, 9, i64::MIN, -1, 10),
            (10, -1, -11, -1, 10),
            (10, -1, -1, -1, 0),
            (10, i64::MAX, i64::MIN, -3, 4),
            (10, i64::MIN, i64::MAX, 3, 4),
            (10, -20, -20, -1, 1),
            (10, 5, 2, 1, 0),
            (0, 0, 5, 1, 0),
            (0, -1, i64::MIN, -1, 0),
            (10, 0, 10, i64::MAX, 1),
            (10, 9, i64::MIN, i64::MIN, 1),
        ];
        for (extent, start, end, step, count) in rows {
            let found = known_window(extent, start, end, step).map(|(_, count)| count);
            assert_eq!(found, Some(count), "[{start}:{end}:{step}] of {extent}");
        }
        assert_eq!(known_window(10, 9, i64::MAX, -1), None);
    }

    fn sliced(input: &str, start: &str, end: &str, axis: i64, step: i64) -> String {
        let case = Case::new("Slice", 13).input(input).data("i64[1]", start).data("i64[1]", end);
        case.ints_data(&[axis]).ints_data(&[step]).show()
    }

    #[test]
    fn slices_of_symbolic_axes_hold_for_all_extents() {
        let max = i64::MAX.to_string();
        let rows = [
            ("f32[N,4]", "0", max.as_str(), 0, 1, "f32[N,4]"),
            ("f32[N,4]", "0", "N", 0, 1, "f32[N,4]"),
            ("f32[P+S,4]", "P", max.as_str(), 0, 1, "f32[S,4]"),
            ("f32[P+S,4]", "0", "-1", 0, 1, "f32[max(1,S+P)-1,4]"),
            ("f32[N+1,4]", "0", "-1", 0, 1, "f32[N,4]"),
            ("f32[N+1,4]", "-1", max.as_str(), 0, 1, "f32[1,4]"),
            ("f32[N,4]", "1", max.as_str(), 0, 1, "f32[-min(1,N)+N,4]"),
            ("f32[N,4]", "3", "2", 0, 1, "f32[0,4]"),
            ("f32[N,4]", "0", "100", 0, 1, "f32[min(100,N),4]"),
            ("f32[?,4]", "-3", "?", 0, 1, "f32[?<=3,4]"),
            ("f32[?<=9,4]", "2", "-3", 0, 2, "f32[?<=2,4]"),
            ("f32[?<=9,4]", "-5", "3", 0, 1, "f32[?<=3,4]"),
            ("f32[?<=9,4]", "?", "?<=7", 0, 2, "f32[?<=4,4]"),
            ("f32[?<=9,4]", "?", "?", 0, -2, "f32[?<=5,4]"),
            ("f32[4*N,4]", "0", max.as_str(), 0, 2, "f32[2*N,4]"),
            ("f32[N,4]", "0", max.as_str(), 0, 2, "f32[floor((N+1)/2),4]"),
            ("f32[N,4]", "-1", "-9223372036854775808", 0, -1, "f32[N,4]"),
            ("f32[?,4]", "0", "2", 0, 1, "f32[?<=2,4]"),
            ("f32[N,4]", "?", "2", -1, 1, "f32[N,?<=2]"),
            ("f32[N,4]", "1", "3", 1, 1, "f32[N,2]"),
            ("f32[N,4]", "1", "3", 2, 1, "error: attribute `axes`: 2 is out of range for rank 2"),
            ("f32[N,4]", "1", "3", 1, 0, "error: operand 4: a step is zero"),
        ];
        for (input, start, end, axis, step, result) in rows {
            assert_eq!(sliced(input, start, end, axis, step), result, "{input} {start} {end} {axis} {step}");
        }
    }

    #[test]
    fn bounds_over_ranges_need_no_minima() {
        let ranges = Ranges::from([("H".to_owned(), "32..64/8".parse().unwrap())]);
        let expr = |text: &str| DimExpr::parse(text).unwrap();
        let item = |text: &str| Item::from_expr(expr(text));
        let rows = [
            ("H", "floor(H/2)-1", "H", "-floor(H/2)+H+1"),
            ("H", "8", "floor(H/2)", "floor(H/2)-8"),
            ("H", "0", "40", "min(40,H)"),
            ("2*H", "H-40", "H", "?"),
        ];
        for (extent, start, end, count) in rows {
            let window = SliceAxis { axis: 0, start: item(start), end: item(end), step: Item::Int(1) };
            let found = symbolic_window(&expr(extent), &window, &ranges).unwrap_or(Dim::Unknown);
            assert_eq!(found.to_string(), count, "{start}..{end} of {extent}");
        }
        let window = SliceAxis { axis: 0, start: item("floor(H/2)-1"), end: item("H"), step: Item::Int(1) };
        assert_eq!(
            symbolic_window(&expr("H"), &window, &Ranges::new()),
            None,
            "0 rows have no row before the last"
        );
    }

    #[test]
    fn slices_follow_elements_and_accept_old_forms() {
        let data = || Case::new("Slice", 13).data("i64[2,3]", "1,2,3,4,N,6");
        assert_eq!(data().ints_data(&[1]).ints_data(&[3]).ints_data(&[1]).show(), "i64[2,2] = {2,3,N,6}");
        assert_eq!(
            data().ints_data(&[5]).ints_data(&[-9]).ints_data(&[-1]).ints_data(&[-2]).show(),
            "i64[2,2] = {3,1,6,4}"
        );
        assert_eq!(data().ints_data(&[2]).ints_data(&[1]).ints_data(&[1]).show(), "i64[2,0] = {}");
        let old = Case::new("Slice", 9).input("f32[5,N]").ints("starts", &[1]).ints("ends", &[-1]);
        assert_eq!(old.show(), "f32[3,N]");
        let unknown = Case::new("Slice", 13).input("f32[5,N]").input("i64[1]").input("i64[1]");
        assert_eq!(unknown.show(), "f32[?<=5,N]");
        let axes = Case::new("Slice", 13).input("f32[5,N]").ints_data(&[1]).ints_data(&[2]).input("i64[1]");
        assert_eq!(axes.show(), "f32[?<=5,?<=N]");
        assert_eq!(Case::new("Slice", 13).input("f32[*]").ints_data(&[0]).ints_data(&[1]).show(), "f32[*]");
    }

    #[test]
    fn symbolic_slices_and_splits_hold_for_every_extent() {
        let cases = |extent: &str| {
            let split = |count: i64| {
                Case::new("Split", 18)
                    .input(&format!("f32[{extent}]"))
                    .int("num_outputs", count)
                    .outputs(count as usize)
            };
            let slice = |start: i64, end: i64, step: i64| {
                let case = Case::new("Slice", 13)
                    .input(&format!("f32[{extent}]"))
                    .ints_data(&[start])
                    .ints_data(&[end]);
                case.ints_data(&[0]).ints_data(&[step])
            };
            let slices = [(1, i64::MAX, 2), (0, -1, 1), (-3, -1, 1), (2, 5, 2), (-1, i64::MIN, -3)];
            [2, 3, 4].map(split).into_iter().chain(slices.map(|(start, end, step)| slice(start, end, step)))
        };
        for extent in 0..13 {
            let bindings = [("N".to_owned(), extent)].into();
            for (symbolic, known) in cases("N").zip(cases(&extent.to_string())) {
                let (symbolic, known) = (symbolic.run().unwrap(), known.run().unwrap());
                for (symbolic, known) in symbolic.iter().zip(&known) {
                    assert_eq!(symbolic.ty.bind(&bindings), known.ty, "{} for {extent}", symbolic.ty);
                }
            }
        }
    }

    #[test]
    fn splits_are_equal_stated_or_uneven() {
        let of = |case: Case| case.show_all();
        assert_eq!(of(Case::new("Split", 11).input("f32[6,N]").outputs(3)), "f32[2,N]; f32[2,N]; f32[2,N]");
        assert_eq!(
            of(Case::new("Split", 11).input("f32[N,6]").int("axis", -1).ints("split", &[1, 5]).outputs(2)),
            "f32[N,1]; f32[N,5]"
        );
        assert_eq!(
            of(Case::new("Split", 13).input("f32[6]").ints_data(&[2, 4]).outputs(2)),
            "f32[2]; f32[4]"
        );
        assert_eq!(
            of(Case::new("Split", 18).input("f32[7]").int("num_outputs", 3).outputs(3)),
            "f32[3]; f32[3]; f32[1]"
        );
        assert_eq!(of(Case::new("Split", 13).input("f32[2*N]").outputs(2)), "f32[N]; f32[N]");
        assert_eq!(of(Case::new("Split", 13).input("f32[N]").outputs(2)), "f32[floor(N/2)]; f32[floor(N/2)]");
        assert_eq!(
            of(Case::new("Split", 13).input("f32[P+S]").data("i64[2]", "P,?").outputs(2)),
            "f32[P]; f32[S]"
        );
        assert_eq!(of(Case::new("Split", 13).input("f32[*]").outputs(2)), "f32[*]; f32[*]");
        assert_eq!(
            of(Case::new("Split", 13).input("f32[7]").outputs(2)),
            "error: extent to split: 7 and a multiple of 2 do not agree"
        );
        assert_eq!(
            of(Case::new("Split", 13).input("f32[7]").ints_data(&[3, 3]).outputs(2)),
            "error: sum of parts: 6 and 7 do not agree"
        );
        assert_eq!(
            of(Case::new("Split", 13).data("i64[3]", "1,N,3").ints_data(&[2, 1]).outputs(2)),
            "i64[2] = {1,N}; i64[1] = {3}"
        );
    }
}
