//! Extents of free dimensions in one run, and the layout of a plan for ranges at these extents.

use std::collections::BTreeMap;
use std::fmt;

use memc_ir::DimExpr;
use memc_layout::{Alias, Layout, Tensor};

use crate::element::Element;
use crate::error::Error;
use crate::inputs::Inputs;

/// Most extents that are tried for a dimension that no axis of an input has alone.
const MAX_TRIED: u64 = 1 << 20;

/// Extents of the free dimensions in one run, by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Point(pub BTreeMap<String, u64>);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, extent)| format!("{name}={extent}")).collect();
        f.write_str(&all.join(","))
    }
}

/// Returns the value of an expression at a point; `None` if it is negative or has other symbols.
fn value(text: &str, point: &Point) -> Option<u64> {
    u64::try_from(DimExpr::parse_quoted(text)?.bind(&point.0)?.as_constant()?).ok()
}

/// Rejects extents outside the ranges and limits of a layout.
///
/// # Errors
/// Names the first dimension or limit that the extents break.
pub fn keeps(layout: &Layout, point: &Point) -> Result<(), Error> {
    for (name, range) in &layout.model.ranges {
        let step = if range.step == 1 { String::new() } else { format!("/{}", range.step) };
        let planned = format!("{}..{}{step}", range.min, range.max);
        let Some(extent) = point.0.get(name) else {
            return Err(Error::Extent {
                extents: point.to_string(),
                reason: format!("no extent of `{name}` is known, planned for {planned}"),
            });
        };
        let distance = extent.checked_sub(range.min).filter(|_| *extent <= range.max);
        if distance.is_none_or(|distance| distance.checked_rem(range.step).unwrap_or(0) != 0) {
            return Err(Error::Extent {
                extents: format!("{name}={extent}"),
                reason: format!("the plan is for {name}={planned}"),
            });
        }
    }
    if let Some(name) = point.0.keys().find(|name| !layout.model.ranges.contains_key(*name)) {
        let known: Vec<&str> = layout.model.ranges.keys().map(String::as_str).collect();
        let reason = match known.is_empty() {
            true => "the plan has no free dimensions".to_owned(),
            false => format!("the free dimensions of the plan are {}", known.join(", ")),
        };
        return Err(Error::Extent { extents: format!("{name}={}", point.0[name]), reason });
    }
    for limit in &layout.model.limits {
        if value(&limit.of, point).is_none_or(|found| found > limit.most) {
            let reason = format!("the plan is for {}<={}", limit.of, limit.most);
            return Err(Error::Extent { extents: point.to_string(), reason });
        }
    }
    Ok(())
}

/// Returns the extents that given arrays have on the free axes of the graph inputs.
///
/// # Errors
/// Two arrays disagree, an extent stays unknown, or the extents are outside the ranges and limits.
pub fn of_inputs(layout: &Layout, inputs: &dyn Inputs) -> Result<Point, Error> {
    let mut axes: Vec<(String, DimExpr, u64)> = Vec::new();
    for name in inputs.names() {
        let tensor = layout.tensors.iter().find(|tensor| tensor.name == name);
        let Some((shape, (_, given))) =
            tensor.and_then(|tensor| tensor.shape_expr.as_ref()).zip(inputs.kind(name))
        else {
            continue;
        };
        for (text, extent) in shape.iter().zip(given) {
            axes.extend(DimExpr::parse_quoted(text).map(|of| (name.to_owned(), of, *extent)));
        }
    }
    // Axes of one dimension alone come first, then those in which one dimension is left.
    let mut point = Point::default();
    for (_, of, extent) in &axes {
        if let Some(symbol) = of.as_symbol() {
            point.0.entry(symbol.to_owned()).or_insert(*extent);
        }
    }
    for (_, of, extent) in &axes {
        let left = of.bind(&point.0).filter(|left| left.symbols().len() == 1);
        if let Some((symbol, left)) = left.and_then(|left| Some((left.symbols().first()?.to_string(), left)))
        {
            let found = solved(layout, &symbol, &left, *extent);
            point.0.extend(found.map(|found| (symbol, found)));
        }
    }
    for (input, of, extent) in &axes {
        let value = of
            .bind(&point.0)
            .and_then(|value| value.as_constant())
            .and_then(|value| u64::try_from(value).ok());
        if value.is_some_and(|value| value != *extent) {
            let reason =
                format!("has an extent of {extent} on the axis {of}, but the other axes give {point}");
            return Err(Error::Input { input: input.clone(), reason });
        }
    }
    keeps(layout, &point)?;
    Ok(point)
}

/// Returns the only extent of the symbol's range at which an expression has a value.
fn solved(layout: &Layout, symbol: &str, of: &DimExpr, value: u64) -> Option<u64> {
    let range = layout.model.ranges.get(symbol)?;
    let step = usize::try_from(range.step.max(1)).ok()?;
    let tried = (range.min..=range.max.min(range.min.saturating_add(MAX_TRIED))).step_by(step);
    let is_equal = |extent: &u64| {
        let bound = of.bind(&BTreeMap::from([(symbol.to_owned(), *extent)]));
        bound.and_then(|bound| bound.as_constant()).and_then(|bound| u64::try_from(bound).ok()) == Some(value)
    };
    let mut found = tried.filter(is_equal);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the layout of a plan for ranges at one point: shapes, sizes and first bytes of sub-views have
/// their values there; owners stay at their offsets, and arenas keep their sizes.
///
/// # Errors
/// The extents are outside the ranges and limits, or an expression is wrong or exceeds its upper bound.
pub fn at(layout: &Layout, point: &Point) -> Result<Layout, Error> {
    keeps(layout, point)?;
    let mut bound = layout.clone();
    for tensor in &mut bound.tensors {
        bind(tensor, point)?;
    }
    place(&mut bound)?;
    for row in &mut bound.transfers {
        let size = bound.tensors.iter().find(|tensor| tensor.name == row.tensor).map(|tensor| tensor.bytes);
        row.bytes = size.unwrap_or(row.bytes);
    }
    for row in &mut bound.caches {
        let wrong = || Error::Tensor {
            tensor: row.input.clone(),
            reason: "an expression of its rows has no value at these extents",
        };
        if let Some(text) = row.rows_expr.take() {
            row.rows = value(&text, point).ok_or_else(wrong)?;
        }
        for (name, extent) in &mut row.grows {
            if let Some(text) = layout.model.equal.get(name) {
                *extent = value(text, point).unwrap_or(*extent);
            }
        }
    }
    if !bound.caches.is_empty() {
        let others =
            layout.model.equal.iter().filter_map(|(name, text)| Some((name.clone(), value(text, point)?)));
        bound.model.dims.extend(others);
    }
    bound.model.dims.extend(point.0.clone());
    bound.model.ranges.clear();
    bound.model.limits.clear();
    bound.model.equal.clear();
    Ok(bound)
}

/// Replaces the expressions of a tensor by their values.
fn bind(tensor: &mut Tensor, point: &Point) -> Result<(), Error> {
    let name = tensor.name.clone();
    let wrong = |reason| Error::Tensor { tensor: name.clone(), reason };
    let value = |text: &str, most: u64| {
        let value =
            value(text, point).ok_or_else(|| wrong("an expression of it has no value at these extents"))?;
        if value <= most { Ok(value) } else { Err(wrong("an expression of it exceeds its upper bound")) }
    };
    let is_free = tensor.shape_expr.is_some();
    if let Some(shape) = tensor.shape_expr.take() {
        if shape.len() != tensor.shape.len() {
            return Err(wrong("its two shapes have different ranks"));
        }
        tensor.shape = shape
            .iter()
            .zip(&tensor.shape)
            .map(|(text, most)| value(text, *most))
            .collect::<Result<_, _>>()?;
    }
    match tensor.bytes_expr.take() {
        Some(text) => tensor.bytes = value(&text, tensor.bytes)?,
        // A size with too many terms has no expression of its own.
        None if is_free => {
            tensor.bytes = Element::from_name(&tensor.dtype)
                .and_then(|element| element.bytes(&tensor.shape))
                .unwrap_or(tensor.bytes)
        }
        None => {}
    }
    if let Some(alias) = &mut tensor.alias
        && let Some(text) = alias.alias_offset_expr.take()
    {
        alias.alias_offset = value(&text, alias.alias_offset)?;
    }
    Ok(())
}

/// Moves aliases to their owners' places: a first byte inside an owner depends on the extents.
fn place(layout: &mut Layout) -> Result<(), Error> {
    let position: BTreeMap<&str, usize> =
        layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
    let offset = |index: usize| -> Option<u64> {
        let (mut at, mut inside) = (index, 0u64);
        // Aliases are no more than tensors: a longer walk is a cycle.
        for _ in 0..layout.tensors.len() {
            let tensor = layout.tensors.get(at)?;
            let Some(alias) = &tensor.alias else { return tensor.offset?.checked_add(inside) };
            inside = inside.checked_add(alias.alias_offset)?;
            at = *position.get(alias.of.as_str())?;
        }
        None
    };
    for tensor in &layout.tensors {
        let owner = tensor
            .alias
            .as_ref()
            .and_then(|alias| Some((alias, layout.tensors.get(*position.get(alias.of.as_str())?)?)));
        let end = |alias: &Alias| alias.alias_offset.checked_add(tensor.bytes);
        if owner.is_some_and(|(alias, owner)| end(alias).is_none_or(|end| end > owner.bytes)) {
            return Err(Error::Tensor {
                tensor: tensor.name.clone(),
                reason: "it ends beyond the tensor that it is a view of",
            });
        }
    }
    let offsets: Vec<Option<u64>> = (0..layout.tensors.len()).map(offset).collect();
    for (tensor, offset) in layout.tensors.iter_mut().zip(offsets) {
        if tensor.offset.is_some() && offset.is_some() {
            tensor.offset = offset;
        }
    }
    Ok(())
}
