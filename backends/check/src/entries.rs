//! Checks the entries of `tensors` and `unplanned`: every value once, with the right type, size and
//! class.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use memc_ir::{DimExpr, ElementType, Value};
use memc_layout::{Class, Layout, Tensor};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::side::{Free, Known, Side};

static ELEMENTS: LazyLock<BTreeMap<&str, ElementType>> = LazyLock::new(|| {
    // ONNX has far fewer than 64 element types.
    let known = (0..=64).map(ElementType::from_onnx).filter(|element| element.bits().is_some());
    let named = known.map(|element| (element.onnx_name(), element));
    named.chain([("float32", ElementType::Float), ("float64", ElementType::Double)]).collect()
});

/// Returns the element type that a layout names, or `None`. Accepts ONNX's names, and `float32` and
/// `float64` as synonyms.
pub(crate) fn element(name: &str) -> Option<ElementType> {
    ELEMENTS.get(name).or_else(|| ELEMENTS.get(name.to_ascii_lowercase().as_str())).copied()
}

fn stated(tensor: &Tensor) -> Option<Known> {
    Known::of(&memc_ir::TensorType::fixed(element(&tensor.dtype)?, &tensor.shape))
}

/// Takes types from the layout for values whose size does not follow from the model. Returns their
/// number.
///
/// For these values only the element type can contradict the model.
pub(crate) fn adopt_types(out: &mut Side<'_>, layout: &Layout) -> u64 {
    let mut adopted = 0;
    for tensor in &layout.tensors {
        let Some(value) = out.named.get(&tensor.name).copied() else { continue };
        if out.known[value].is_none()
            && tensor.shape_expr.is_none()
            && let Some(known) = stated(tensor)
        {
            out.known.set(value, Some(Arc::new(known)));
            adopted += 1;
        }
    }
    adopted
}

/// Checks all entries except workspace.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let unplanned: BTreeSet<&str> = ctx.layout.unplanned.iter().map(|row| row.name.as_str()).collect();
    for name in &unplanned {
        let value = ctx.out.named.get(*name);
        let why = match value {
            None => "names no value of the output model",
            Some(_) if ctx.named.contains_key(name) => "is also in `tensors`",
            Some(value) if ctx.out.known[*value].is_some() => "has a size that follows from the model",
            Some(_) => continue,
        };
        findings.add(Kind::Unplanned, At::tensor(name), format!("`{name}` in `unplanned` {why}"));
    }
    for row in &ctx.layout.unplanned {
        let Some((class, value)) = row.class.zip(ctx.out.named.get(&row.name)) else { continue };
        if !classes(ctx, *value).contains(&class) {
            let message = format!("`{}` in `unplanned` is not of class {}", row.name, class.as_str());
            findings.add(Kind::Class, At::tensor(&row.name), message);
        }
    }
    for value in &ctx.out.values {
        let name = ctx.out.name(*value);
        match ctx.tensor_of[*value] {
            Some(index) => entry(ctx, index, *value, findings),
            None if ctx.out.known[*value].is_some() => {
                let bytes = ctx.out.known[*value].as_ref().map_or(0, |known| known.bytes());
                findings.add(
                    Kind::MissingTensor,
                    At::tensor(name),
                    format!("`{name}` ({}) has no entry", exact(bytes)),
                );
            }
            None if !unplanned.contains(name) => {
                let message = format!("`{name}` is neither in `tensors` nor in `unplanned`");
                findings.add(Kind::MissingTensor, At::tensor(name), message);
            }
            None => {}
        }
    }
    conflicts(ctx, findings);
}

fn entry(ctx: &Ctx<'_>, index: usize, value: Value, findings: &mut Findings) {
    let tensor = ctx.tensor(index);
    let at = At::tensor(&tensor.name);
    let Some(claimed) = stated(tensor) else {
        let message =
            format!("`{}`: {}{:?} is not a type with a size", tensor.name, tensor.dtype, tensor.shape);
        let kind = if element(&tensor.dtype).is_none() { Kind::Schema } else { Kind::Type };
        findings.add(kind, at, message);
        return;
    };
    let known = ctx.out.known[value].as_deref();
    let free = known.and_then(|known| known.free.as_ref());
    let is_sized =
        if free.is_some() { tensor.bytes <= claimed.bytes() } else { tensor.bytes == claimed.bytes() };
    if !is_sized {
        let (size, stated) = (exact(claimed.bytes()), exact(tensor.bytes));
        let message = format!("`{}` has {size}; its entry states {stated}", tensor.name);
        findings.add(Kind::Bytes, at, message);
    }
    expressions(tensor, free.map(Arc::as_ref), at, findings);
    let known_element =
        ctx.out.module.ty(value).tensor().map(|ty| ty.element).filter(|element| element.bits().is_some());
    let has_type = match (known, free) {
        (Some(known), Some(free)) => {
            bounds(ctx, tensor, free, at, findings);
            known.element == claimed.element && free.dims.len() == tensor.shape.len()
        }
        _ => known == Some(&claimed),
    };
    if !has_type || known_element.is_some_and(|element| element != claimed.element) {
        let message = format!(
            "`{}` is {}; its entry states {}{:?}",
            tensor.name,
            ctx.out.module.ty(value),
            tensor.dtype,
            tensor.shape
        );
        findings.add(Kind::Type, at, message);
    }
    let classes = classes(ctx, value);
    if !classes.contains(&tensor.class) {
        let expected: Vec<&str> = classes.iter().map(|class| class.as_str()).collect();
        let message = format!(
            "`{}` is {}; its entry states {}",
            tensor.name,
            expected.join(" or "),
            tensor.class.as_str()
        );
        findings.add(Kind::Class, at, message);
    }
}

/// Checks the texts of shape and size: canonical expressions if extents are free, else none.
fn expressions(tensor: &Tensor, free: Option<&Free>, at: At<'_>, findings: &mut Findings) {
    let shape = free.map(|free| free.dims.iter().map(DimExpr::quoted).collect::<Vec<_>>());
    let bytes = free.and_then(|free| free.bytes.as_ref()).map(DimExpr::quoted);
    if tensor.shape_expr == shape && tensor.bytes_expr == bytes {
        return;
    }
    let own = |shape: &Option<Vec<String>>, bytes: &Option<String>| match (shape, bytes) {
        (None, None) => "no expressions".to_owned(),
        (shape, bytes) => {
            let shape = shape
                .as_ref()
                .map_or_else(|| "no shape".to_owned(), |shape| format!("[{}]", shape.join(",")));
            format!("{shape} and {} bytes", bytes.as_deref().unwrap_or("no"))
        }
    };
    let (derived, stated) = (own(&shape, &bytes), own(&tensor.shape_expr, &tensor.bytes_expr));
    let message = format!("`{}` has {derived}; its entry states {stated}", tensor.name);
    findings.add(Kind::Expression, at, message);
}

/// Checks that the stated shape and size are upper bounds for all extents of the free dimensions.
fn bounds(ctx: &Ctx<'_>, tensor: &Tensor, free: &Free, at: At<'_>, findings: &mut Findings) {
    let extents = ctx.out.extents;
    for (dim, most) in free.dims.iter().zip(&tensor.shape) {
        if !extents.at_most(dim, (*most).into()) {
            let message = format!("`{}`: the extent {dim} is not provably at most {most}", tensor.name);
            findings.add(Kind::UpperBound, at, message);
        }
    }
    // Without an expression, the bounds of the extents bound the size.
    let is_bounded = |bytes: &DimExpr| extents.at_most(bytes, tensor.bytes.into());
    let most = stated(tensor).map_or(u64::MAX, |claimed| claimed.bytes());
    if !free.bytes.as_ref().map_or(tensor.bytes == most, is_bounded) {
        let size = free.bytes.as_ref().map_or_else(|| "its shape".to_owned(), ToString::to_string);
        let message =
            format!("`{}`: its size of {size} is not provably at most {}", tensor.name, exact(tensor.bytes));
        findings.add(Kind::UpperBound, at, message);
    }
}

/// Returns the classes that a value of the output model may have.
fn classes(ctx: &Ctx<'_>, value: Value) -> &'static [Class] {
    let out = ctx.out;
    if out.is_initializer(value) {
        return &[Class::Constant, Class::State];
    }
    let Some(row) = out.producer[value] else { return &[Class::Input, Class::State] };
    if out.is_output[value] {
        return &[Class::Output];
    }
    let constant = |read: &Value| {
        let class = ctx.tensor_of[*read].map(|index| ctx.tensor(index).class);
        class == Some(Class::Constant) && !out.is_input(*read)
    };
    if !out.is_transfer(row) && out.rows[row].reads.iter().all(constant) && !out.unrepeatable(row) {
        return &[Class::Transient, Class::Constant];
    }
    &[Class::Transient]
}

/// Reports types of the output model that contradict its operators, unless the input model has a
/// contradiction for the same value: its type there may be less complete.
fn conflicts(ctx: &Ctx<'_>, findings: &mut Findings) {
    let conflicts = |side: &Side<'_>| -> BTreeSet<String> {
        side.diagnostics
            .iter()
            .filter(|found| found.code == "W0101")
            .map(|found| found.message.clone())
            .collect()
    };
    let value = |message: &str| message.split('`').nth(1).map(str::to_owned);
    let (ours, theirs) = (conflicts(ctx.out), conflicts(ctx.given));
    let known: BTreeSet<Option<String>> = theirs.iter().map(|message| value(message)).collect();
    for message in &ours {
        if known.contains(&value(message)) {
            findings.remark(format!("in both models: {message}"));
        } else {
            findings.add(Kind::ShapeConflict, At::default(), message.clone());
        }
    }
}
