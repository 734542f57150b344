//! Operators that create tensors from attributes and shapes.

use memc_ir::{Attribute, Dim, DimExpr, ElementType, TensorType};

use crate::context::{Infer, InferError};
use crate::fact::{Data, Fact, Item};
use crate::families::arithmetic::{EXACT_F32, EXACT_F64, add, at_least, expr_item, mul, sub};
use crate::families::broadcasting::item_count;
use crate::info::{OpInfo, Reads, Work};

fn constant(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    if let Some(tensor) = ctx.tensor_attribute("value") {
        let fact =
            Data::from_constant(tensor).map_or_else(|| Fact::tensor(tensor.ty.clone()), Fact::with_data);
        ctx.set(0, fact);
        return Ok(());
    }
    let node = ctx.node();
    let number = |value: f32| Item::Float(f64::from(value));
    let (element, rank, items) = match node.attributes.iter().find(|(name, _)| name.starts_with("value_")) {
        Some((_, Attribute::Int(value))) => (ElementType::Int64, 0, vec![Item::Int(*value)]),
        Some((_, Attribute::Ints(values))) => {
            (ElementType::Int64, 1, values.iter().copied().map(Item::Int).collect())
        }
        Some((_, Attribute::Float(value))) => (ElementType::Float, 0, vec![number(*value)]),
        Some((_, Attribute::Floats(values))) => {
            (ElementType::Float, 1, values.iter().copied().map(number).collect())
        }
        Some((_, Attribute::String(_))) => return string_constant(ctx, &[]),
        Some((_, Attribute::Strings(values))) => return string_constant(ctx, &[values.len() as u64]),
        // A sparse constant: its type is stated by the file.
        _ if node.attribute("sparse_value").is_some() => return Ok(()),
        _ => return Err(InferError::MissingAttribute { name: "value" }),
    };
    let dims = if rank == 0 { Vec::new() } else { vec![items.len() as u64] };
    let ty = TensorType::fixed(element, &dims);
    ctx.set(0, Data::new(element, dims, items).map_or_else(|| Fact::tensor(ty), Fact::with_data));
    Ok(())
}

fn string_constant(ctx: &mut Infer<'_>, dims: &[u64]) -> Result<(), InferError> {
    ctx.set(0, Fact::tensor(TensorType::fixed(ElementType::String, dims)));
    Ok(())
}

/// Rejects a shape operand with a known negative extent other than `allowed`.
pub(crate) fn check_extents(ctx: &Infer<'_>, operand: usize, allowed: i64) -> Result<(), InferError> {
    let items = ctx.data(operand).map_or(&[][..], |data| &data.items);
    match items.iter().filter_map(Item::int).find(|extent| *extent < 0 && *extent != allowed) {
        Some(extent) => Err(InferError::BadOperand { operand, why: format!("extent {extent} is negative") }),
        None => Ok(()),
    }
}

fn constant_of_shape(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    check_extents(ctx, 0, 0)?;
    let value = ctx.tensor_attribute("value");
    let element = value.map_or(ElementType::Float, |constant| constant.ty.element);
    let item = match value {
        None => Some(Item::Float(0.0)),
        Some(constant) => Data::from_constant(constant).and_then(|data| data.items.into_iter().next()),
    };
    let shape = ctx.dim_data(0);
    let known: Option<Vec<u64>> = shape.as_ref().and_then(|dims| dims.iter().map(Dim::known).collect());
    ctx.set_tensor(0, element, shape);
    if let Some((item, count)) = item.zip(known.and_then(|dims| item_count(&dims))) {
        ctx.set_items(0, vec![item; count]);
    }
    Ok(())
}

fn eye_like(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    if ctx.rank(0).is_some_and(|rank| rank != 2) {
        return Err(InferError::BadOperand { operand: 0, why: "is not a matrix".to_owned() });
    }
    let element = match ctx.int_attribute("dtype").map(i32::try_from) {
        Some(Ok(number)) => ElementType::from_onnx(number),
        Some(Err(_)) => {
            return Err(InferError::BadAttribute { name: "dtype", why: "is not an element type".to_owned() });
        }
        None => ctx.element(0),
    };
    let dims = ctx.shape(0).unwrap_or_else(|| vec![Dim::Unknown; 2]);
    let known: Option<Vec<u64>> = dims.iter().map(Dim::known).collect();
    ctx.set_dims(0, element, dims);
    let (zero, one) = match element {
        ElementType::Float | ElementType::Double => (Item::Float(0.0), Item::Float(1.0)),
        other if other.is_integral() => (Item::Int(0), Item::Int(1)),
        _ => return Ok(()),
    };
    let Some((columns, count)) = known.and_then(|dims| Some((*dims.get(1)? as i64, item_count(&dims)?)))
    else {
        return Ok(());
    };
    let diagonal = ctx.int("k", 0);
    let on_diagonal = |at: i64| diagonal.checked_add(at / columns) == Some(at % columns);
    let items =
        (0..count as i64).map(|at| if on_diagonal(at) { one.clone() } else { zero.clone() }).collect();
    ctx.set_items(0, items);
    Ok(())
}

/// Returns the number of elements of Range, `max(ceil((limit - start) / delta), 0)`; a bound or unknown
/// if it is uncertain.
fn range_extent(element: ElementType, start: &Item, limit: &Item, delta: &Item) -> Dim {
    match (start, limit, delta) {
        (Item::Int(start), Item::Int(limit), Item::Int(delta)) => {
            let distance = i128::from(*limit) - i128::from(*start);
            let step = i128::from(*delta);
            let steps = (distance + step - step.signum()).checked_div(step).unwrap_or(0).max(0);
            u64::try_from(steps).map_or(Dim::Unknown, Dim::Known)
        }
        (Item::Float(_), Item::Float(_), Item::Float(delta)) => match sub(element, limit, start) {
            // The distance is rounded to the element type, the quotient is not. Far below 2^53 the count
            // is exact. A NaN quotient gives an unknown count.
            Item::Float(distance) if (distance / delta).ceil() < 1e15 => {
                Dim::Known((distance / delta).ceil().max(0.0) as u64)
            }
            _ => Dim::Unknown,
        },
        _ => symbolic_extent(start, limit, delta)
            .unwrap_or_else(|| Dim::within(most_steps(start, limit, delta))),
    }
}

/// Returns an upper bound of the number of elements of Range, if its operands are bounded.
fn most_steps(start: &Item, limit: &Item, delta: &Item) -> Option<DimExpr> {
    let zero = || DimExpr::constant(0);
    let least = |item: &Item| match item {
        Item::AtMost(_) | Item::Within(_) => Some(zero()),
        other => other.expr(),
    };
    let most = |item: &Item| item.expr().or_else(|| item.upper_expr());
    let delta = delta.int().filter(|delta| *delta != 0)?;
    let (from, to) = if delta > 0 { (least(start)?, most(limit)?) } else { (least(limit)?, most(start)?) };
    let steps = to.sub(&from)?.ceil_div(&DimExpr::constant(delta.checked_abs()?))?;
    DimExpr::max_of(vec![steps, zero()])
}

fn symbolic_extent(start: &Item, limit: &Item, delta: &Item) -> Option<Dim> {
    let (distance, delta, zero) = (limit.expr()?.sub(&start.expr()?)?, delta.expr()?, DimExpr::constant(0));
    let steps = match distance.div_exact(&delta) {
        Some(steps) => steps,
        None if delta.as_constant().is_some() || at_least(&delta, &zero) => distance.ceil_div(&delta)?,
        None => return None,
    };
    if at_least(&steps, &zero) {
        Some(Dim::from_expr(steps))
    } else {
        DimExpr::max_of(vec![steps, zero]).map(Dim::from_expr)
    }
}

/// Returns the elements of Range. Kernels either multiply or accumulate; both agree only if all numbers
/// are exact integers.
fn range_items(element: ElementType, start: &Item, delta: &Item, count: usize) -> Option<Vec<Item>> {
    let last = i64::try_from(count).ok()?;
    let exact = if element == ElementType::Float { EXACT_F32 } else { EXACT_F64 } as f64;
    if let (Item::Float(start), Item::Float(delta)) = (start, delta) {
        let whole = start.fract() == 0.0 && delta.fract() == 0.0;
        let bounded = start.abs() <= exact && (start + delta * last as f64).abs() <= exact;
        return (whole && bounded && (*start != 0.0 || start.is_sign_positive()))
            .then(|| (0..last).map(|at| Item::Float(start + delta * at as f64 + 0.0)).collect());
    }
    let delta = expr_item(ElementType::Int64, delta.expr());
    Some((0..last).map(|at| add(element, start, &mul(ElementType::Int64, &delta, &Item::Int(at)))).collect())
}

fn range(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    let element = ctx.element(0);
    let scalar = |operand: usize| match ctx.data(operand).map(|data| data.items.as_slice()) {
        Some([item]) => item.clone(),
        _ => Item::Unknown,
    };
    let (start, limit, delta) = (scalar(0), scalar(1), scalar(2));
    if matches!(delta, Item::Int(0)) || matches!(delta, Item::Float(step) if step == 0.0) {
        return Err(InferError::BadOperand { operand: 2, why: "the step is zero".to_owned() });
    }
    let extent = range_extent(element, &start, &limit, &delta);
    let count = extent.known().and_then(|extent| item_count(&[extent]));
    ctx.set_dims(0, element, vec![extent]);
    if let Some(items) = count.and_then(|count| range_items(element, &start, &delta, count)) {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Constant", constant).work(Work::None),
    OpInfo::onnx("ConstantOfShape", constant_of_shape).work(Work::None),
    OpInfo::onnx("EyeLike", eye_like).work(Work::None).reads(Reads::Extents),
    OpInfo::onnx("Range", range),
];

#[cfg(test)]
mod tests {
    use memc_ir::Attribute;

    use crate::families::testing::Case;

    #[test]
    fn constants_carry_their_elements() {
        let of = |name: &str, value| Case::new("Constant", 21).attribute(name, value).show();
        assert_eq!(of("value_int", Attribute::Int(3)), "i64[] = {3}");
        assert_eq!(of("value_ints", Attribute::Ints(vec![3, 4])), "i64[2] = {3,4}");
        assert_eq!(of("value_float", Attribute::Float(0.5)), "f32[] = {0.5}");
        assert_eq!(of("value_floats", Attribute::Floats(Vec::new())), "f32[0] = {}");
        assert_eq!(of("value_strings", Attribute::Strings(vec!["a".into()])), "string[1]");
        assert_eq!(
            Case::new("Constant", 21).tensor("value", "i32[1,1]", &[7, 0, 0, 0]).show(),
            "i32[1,1] = {7}"
        );
        assert_eq!(Case::new("Constant", 21).show(), "error: attribute `value` is missing");
    }

    #[test]
    fn shapes_fill_with_one_value() {
        let of = |case: Case| case.show();
        assert_eq!(of(Case::new("ConstantOfShape", 9).ints_data(&[2])), "f32[2] = {0.0,0.0}");
        assert_eq!(
            of(Case::new("ConstantOfShape", 9).data("i64[2]", "N,3").tensor("value", "i8[1]", &[1])),
            "i8[N,3]"
        );
        assert_eq!(of(Case::new("ConstantOfShape", 9).input("i64[2]")), "f32[?,?]");
        assert_eq!(of(Case::new("ConstantOfShape", 9).data("i64[2]", "?<=7,3")), "f32[?<=7,3]");
        assert_eq!(of(Case::new("ConstantOfShape", 9).input("i64[K]")), "f32[*]");
        assert_eq!(of(Case::new("ConstantOfShape", 9).data("i64[0]", "")), "f32[] = {0.0}");
        assert_eq!(
            of(Case::new("ConstantOfShape", 9).ints_data(&[1 << 40, 1 << 40])),
            "f32[1099511627776,1099511627776]"
        );
        assert_eq!(
            of(Case::new("ConstantOfShape", 9).ints_data(&[-2])),
            "error: operand 0: extent -2 is negative"
        );
    }

    #[test]
    fn diagonals_are_ones() {
        let eye = Case::new("EyeLike", 9).input("f32[2,3]").int("k", 1).int("dtype", 7);
        assert_eq!(eye.show(), "i64[2,3] = {0,1,0,0,0,1}");
        assert_eq!(Case::new("EyeLike", 9).input("f32[0,0]").show(), "f32[0,0] = {}");
        assert_eq!(Case::new("EyeLike", 9).input("f64[N,M]").show(), "f64[N,M]");
        assert_eq!(Case::new("EyeLike", 9).input("f64[N]").show(), "error: operand 0: is not a matrix");
    }

    #[test]
    fn ranges_state_length_and_elements() {
        let rows = [
            ("i64[]", "3", "9", "3", "i64[2] = {3,6}"),
            ("i64[]", "10", "4", "-2", "i64[3] = {10,8,6}"),
            ("i64[]", "4", "10", "-2", "i64[0] = {}"),
            ("i64[]", "0", "N", "1", "i64[N]"),
            ("i64[]", "P", "P+S", "1", "i64[S]"),
            ("i64[]", "N", "N+2", "1", "i64[2] = {N,N+1}"),
            ("i64[]", "1", "N", "1", "i64[max(1,N)-1]"),
            ("i64[]", "0", "?", "1", "i64[?]"),
            ("i64[]", "0", "?<=9", "2", "i64[?<=5]"),
            ("i64[]", "N", "9", "1", "i64[-min(9,N)+9]"),
            ("i64[]", "?<=9", "-2", "-1", "i64[?<=11]"),
            ("i64[]", "?<=9", "?", "1", "i64[?]"),
            ("i64[]", "0", "9223372036854775807", "1", "i64[9223372036854775807]"),
            ("i64[]", "0", "1", "0", "error: operand 2: the step is zero"),
            ("f32[]", "1.0", "4.5", "1.0", "f32[4] = {1.0,2.0,3.0,4.0}"),
            ("f32[]", "0.0", "1.0", "0.25", "f32[4]"),
            ("f32[]", "0.0", "nan", "1.0", "f32[?]"),
        ];
        for (ty, start, limit, delta, result) in rows {
            let case = Case::new("Range", 11).data(ty, start).data(ty, limit).data(ty, delta);
            assert_eq!(case.show(), result, "{start} {limit} {delta}");
        }
    }
}
