//! Sizes and offsets of all tensors at given extents of the free dimensions.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::expr::Expr;
use crate::types::{Bucket, Layout, Tensor};

/// Source of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The formula: offsets and arenas follow the extents.
    Formula,
    /// Fixed offsets: those of the smallest bucket that holds the extents, or else the main ones.
    Fixed,
}

/// Sizes and offsets of a plan at given extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Size of each tensor in bytes, in the layout's order.
    pub bytes: Vec<u64>,
    /// Extents of each tensor, in the layout's order.
    pub shapes: Vec<Vec<u64>>,
    /// First byte of each tensor in its arena, in the layout's order; `None` if the caller holds it.
    pub offsets: Vec<Option<u64>>,
    /// Size of each arena in bytes, in the layout's order.
    pub arenas: Vec<u64>,
}

/// Reason why a layout gives no placement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// The extents lack a dimension.
    #[error("the extents lack dimension `{name}`")]
    Missing {
        /// Name of the dimension.
        name: String,
    },
    /// An extent is outside the range that the plan is made for.
    #[error("the plan is made for `{name}` from {min} to {max} in steps of {step}, not for {extent}")]
    Extent {
        /// Name of the dimension.
        name: String,
        /// The extent.
        extent: u64,
        /// Smallest extent.
        min: u64,
        /// Largest extent.
        max: u64,
        /// Distance of neighboring extents.
        step: u64,
    },
    /// The extents break a limit.
    #[error("the plan is made for {of} up to {most}")]
    Limit {
        /// The expression.
        of: String,
        /// Its largest value.
        most: u64,
    },
    /// An expression cannot be read, or has no value at these extents.
    #[error("`{text}` has no value at these extents")]
    Expression {
        /// The expression.
        text: String,
    },
    /// A row names an unknown or later tensor, or aliases run in a cycle.
    #[error("the place of tensor `{name}` is unknown")]
    Tensor {
        /// Name of the tensor.
        name: String,
    },
}

impl Placement {
    /// Returns sizes and offsets at these extents. Dimensions beyond those of the layout are ignored.
    ///
    /// # Errors
    /// The plan is not made for these extents, or the layout contradicts itself.
    pub fn at(layout: &Layout, extents: &BTreeMap<String, u64>, rule: Rule) -> Result<Self, PlacementError> {
        check(layout, extents)?;
        let bytes = all(&layout.tensors, |tensor| size(tensor, extents))?;
        let shapes = all(&layout.tensors, |tensor| shape(tensor, extents))?;
        let names: BTreeMap<&str, usize> =
            layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
        let mut owned = vec![None; layout.tensors.len()];
        let arenas = match rule {
            Rule::Formula => by_formula(layout, &names, &bytes, &mut owned)?,
            Rule::Fixed => fixed(layout, bucket(layout, extents), &mut owned),
        };
        let offsets = with_aliases(layout, &names, &owned, extents)?;
        Ok(Self { bytes, shapes, offsets, arenas })
    }
}

fn all<T>(
    tensors: &[Tensor],
    of: impl Fn(&Tensor) -> Result<T, PlacementError>,
) -> Result<Vec<T>, PlacementError> {
    tensors.iter().map(of).collect()
}

/// Refuses extents that the plan is not made for.
fn check(layout: &Layout, extents: &BTreeMap<String, u64>) -> Result<(), PlacementError> {
    for (name, range) in &layout.model.ranges {
        let extent = *extents.get(name).ok_or_else(|| PlacementError::Missing { name: name.clone() })?;
        let is_step = extent
            .checked_sub(range.min)
            .is_some_and(|above| above.checked_rem(range.step).unwrap_or(0) == 0);
        if !is_step || extent > range.max {
            let (name, min, max, step) = (name.clone(), range.min, range.max, range.step);
            return Err(PlacementError::Extent { name, extent, min, max, step });
        }
    }
    for limit in &layout.model.limits {
        if value(&limit.of, extents)? > i128::from(limit.most) {
            return Err(PlacementError::Limit { of: limit.of.clone(), most: limit.most });
        }
    }
    Ok(())
}

/// Returns the value of an expression.
fn value(text: &str, extents: &BTreeMap<String, u64>) -> Result<i128, PlacementError> {
    let found = Expr::parse(text).and_then(|expr| expr.value(extents));
    found.ok_or_else(|| PlacementError::Expression { text: text.to_owned() })
}

/// Returns a number of at least 0 from an expression, or the stated number if there is none.
fn number(
    text: Option<&String>,
    stated: u64,
    extents: &BTreeMap<String, u64>,
) -> Result<u64, PlacementError> {
    let Some(text) = text else { return Ok(stated) };
    let found = value(text, extents)?;
    u64::try_from(found.max(0)).map_err(|_| PlacementError::Expression { text: text.clone() })
}

fn size(tensor: &Tensor, extents: &BTreeMap<String, u64>) -> Result<u64, PlacementError> {
    number(tensor.bytes_expr.as_ref(), tensor.bytes, extents)
}

fn shape(tensor: &Tensor, extents: &BTreeMap<String, u64>) -> Result<Vec<u64>, PlacementError> {
    match &tensor.shape_expr {
        Some(texts) => texts.iter().map(|text| number(Some(text), 0, extents)).collect(),
        None => Ok(tensor.shape.clone()),
    }
}

/// Returns the smallest bucket that holds the extents.
fn bucket<'l>(layout: &'l Layout, extents: &BTreeMap<String, u64>) -> Option<&'l Bucket> {
    let holds = |bucket: &&Bucket| {
        bucket.dims.iter().all(|(name, most)| extents.get(name).is_some_and(|extent| extent <= most))
    };
    layout.layouts.iter().find(holds)
}

/// Fills the offsets of owners by the formula and returns the arenas.
fn by_formula(
    layout: &Layout,
    names: &BTreeMap<&str, usize>,
    bytes: &[u64],
    owned: &mut [Option<u64>],
) -> Result<Vec<u64>, PlacementError> {
    let mut arenas = Vec::new();
    for arena in &layout.arenas {
        let mut size = 0;
        for row in layout.formula.get(&arena.space).into_iter().flatten() {
            let unknown = |name: &str| PlacementError::Tensor { name: name.to_owned() };
            let find = |name: &str| names.get(name).copied().ok_or_else(|| unknown(name));
            let mut offset = 0u64;
            for below in &row.above {
                let at = find(below)?;
                let start = owned.get(at).copied().flatten().ok_or_else(|| unknown(below))?;
                offset = offset.max(start.saturating_add(bytes.get(at).copied().unwrap_or(0)));
            }
            let offset = offset
                .checked_next_multiple_of(arena.alignment.max(1))
                .ok_or_else(|| unknown(&row.tensor))?;
            let at = find(&row.tensor)?;
            let own = bytes.get(at).copied().unwrap_or(0);
            size = size.max(if own == 0 { 0 } else { offset.saturating_add(own) });
            if let Some(owned) = owned.get_mut(at) {
                *owned = Some(offset);
            }
        }
        arenas.push(size);
    }
    Ok(arenas)
}

/// Fills the fixed offsets of owners and returns the arenas.
fn fixed(layout: &Layout, bucket: Option<&Bucket>, owned: &mut [Option<u64>]) -> Vec<u64> {
    for (tensor, owned) in layout.tensors.iter().zip(owned).filter(|(tensor, _)| tensor.alias.is_none()) {
        *owned = match bucket {
            Some(bucket) => bucket.offsets.get(&tensor.name).copied(),
            None => tensor.offset,
        };
    }
    let size_in = |space: &str, bucket: &Bucket| {
        bucket.arenas.iter().find(|arena| arena.space == space).map(|arena| arena.size)
    };
    let sizes = layout
        .arenas
        .iter()
        .map(|arena| bucket.and_then(|bucket| size_in(&arena.space, bucket)).unwrap_or(arena.size));
    sizes.collect()
}

/// Returns the offsets of all tensors: an alias begins in its owner.
fn with_aliases(
    layout: &Layout,
    names: &BTreeMap<&str, usize>,
    owned: &[Option<u64>],
    extents: &BTreeMap<String, u64>,
) -> Result<Vec<Option<u64>>, PlacementError> {
    all(&layout.tensors, |tensor| {
        let (mut at, mut within) = (tensor, 0u64);
        for _ in 0..=layout.tensors.len() {
            let Some(alias) = &at.alias else {
                let start =
                    names.get(at.name.as_str()).and_then(|index| owned.get(*index).copied().flatten());
                return Ok(start
                    .map(|start| start.saturating_add(within))
                    .filter(|_| tensor.offset.is_some()));
            };
            let offset = number(alias.alias_offset_expr.as_ref(), alias.alias_offset, extents)?;
            within = within.saturating_add(offset);
            let owner = names.get(alias.of.as_str()).and_then(|index| layout.tensors.get(*index));
            at = owner.ok_or_else(|| PlacementError::Tensor { name: alias.of.clone() })?;
        }
        Err(PlacementError::Tensor { name: tensor.name.clone() })
    })
}
