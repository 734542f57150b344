//! Rewriting of extents inside types, which keeps every other byte of a type.
use std::ops::Range;

use crate::error::SpliceError;
use crate::rewrite::{Anchor, Fate, Insertion, rewrite};
use crate::rope::Rope;
use crate::spans::is_message;
use crate::tag::{dimension, shape, tensor_type, value_info, value_type};
use crate::wire::{Field, fields};

/// Returns the field of a `TypeProto` with new extents of its tensor; `None` keeps an axis. Types of
/// other kinds stay.
pub(crate) fn rewrite_type(
    bytes: &[u8],
    field: &Field,
    extents: &[Option<i64>],
) -> Result<Rope, SpliceError> {
    wrapped(value_info::TYPE, bytes, field, |inner| {
        if !is_message(inner, value_type::TENSOR) {
            return Ok(Fate::Keep);
        }
        rewrite_tensor(bytes, inner, extents).map(Fate::Replace)
    })
}

/// Rewrites the fields of the message in `field` and returns it as a field with number `tag`.
fn wrapped(
    tag: u32,
    bytes: &[u8],
    field: &Field,
    fate: impl FnMut(&Field) -> Result<Fate, SpliceError>,
) -> Result<Rope, SpliceError> {
    let mut changed = Rope::default();
    changed.message_field(tag, rewrite(bytes, field.payload.clone(), Vec::new(), fate)?);
    Ok(changed)
}

fn rewrite_tensor(bytes: &[u8], field: &Field, extents: &[Option<i64>]) -> Result<Rope, SpliceError> {
    let mut insertions = Vec::new();
    if !has_message(bytes, field.payload.clone(), tensor_type::SHAPE)? {
        insertions.push(Insertion {
            tag: tensor_type::SHAPE,
            anchor: Anchor::Last,
            content: new_shape(extents),
        });
    }
    // Protobuf merges repeated shapes: the axes of a later one follow those of an earlier one.
    let mut axis = 0;
    let content = rewrite(bytes, field.payload.clone(), insertions, |inner| {
        if !is_message(inner, tensor_type::SHAPE) {
            return Ok::<_, SpliceError>(Fate::Keep);
        }
        let changed = wrapped(tensor_type::SHAPE, bytes, inner, |dim| {
            if !is_message(dim, shape::DIM) {
                return Ok(Fate::Keep);
            }
            let extent = extents.get(axis).copied().flatten();
            axis += 1;
            extent.map_or(Ok(Fate::Keep), |extent| rewrite_dimension(bytes, dim, extent).map(Fate::Replace))
        });
        changed.map(Fate::Replace)
    })?;
    let mut changed = Rope::default();
    changed.message_field(value_type::TENSOR, content);
    Ok(changed)
}

fn has_message(bytes: &[u8], span: Range<usize>, tag: u32) -> Result<bool, SpliceError> {
    for field in fields(bytes, span) {
        if is_message(&field?, tag) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates the field of a shape with these extents.
fn new_shape(extents: &[Option<i64>]) -> Rope {
    let mut dims = Rope::default();
    for extent in extents {
        let mut dim = Rope::default();
        extent.iter().for_each(|extent| dim.int_field(dimension::VALUE, *extent));
        dims.message_field(shape::DIM, dim);
    }
    let mut shape = Rope::default();
    shape.message_field(tensor_type::SHAPE, dims);
    shape
}

/// Writes the extent in the place of the first number or symbol of a dimension, and drops later ones.
fn rewrite_dimension(bytes: &[u8], field: &Field, extent: i64) -> Result<Rope, SpliceError> {
    let mut number = Rope::default();
    number.int_field(dimension::VALUE, extent);
    let mut number = Some(number);
    let content = rewrite(bytes, field.payload.clone(), Vec::new(), |inner| {
        Ok::<_, SpliceError>(match inner.tag {
            dimension::VALUE | dimension::PARAM => number.take().map_or(Fate::Drop, Fate::Replace),
            _ => Fate::Keep,
        })
    })?;
    let mut dim = Rope::default();
    // A dimension without either gets the number at its end.
    let mut whole = content;
    whole.append(number.unwrap_or_default());
    dim.message_field(shape::DIM, whole);
    Ok(dim)
}
