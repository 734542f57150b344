//! Rewriting of one message, field by field: keeps, drops or replaces each field and inserts new
//! fields.
use std::ops::Range;

use crate::edit::METADATA_PREFIX;
use crate::onnx::StringStringEntryProto;
use crate::rope::Rope;
use crate::tag::entry;
use crate::wire::{Field, WireError, fields, last_bytes};

/// Decision about one field of the original message.
pub(crate) enum Fate {
    /// Copy the bytes of the field.
    Keep,
    /// Drop the field.
    Drop,
    /// Replace the field by this content.
    Replace(Rope),
}

/// Position of new fields relative to the original fields with one number; the message end if there are
/// none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// At the position of the first of these fields.
    First,
    /// After the last of these fields.
    Last,
}

/// New fields and their position.
pub(crate) struct Insertion {
    /// Field number of the original fields that mark the position.
    pub(crate) tag: u32,
    /// The first or the last of these fields.
    pub(crate) anchor: Anchor,
    /// The new fields.
    pub(crate) content: Rope,
}

/// Rewrites the message at `span`; `O(fields + insertions * fields)`.
pub(crate) fn rewrite<E: From<WireError>>(
    bytes: &[u8],
    span: Range<usize>,
    insertions: Vec<Insertion>,
    mut fate: impl FnMut(&Field) -> Result<Fate, E>,
) -> Result<Rope, E> {
    let fields = fields(bytes, span).collect::<Result<Vec<_>, _>>()?;
    let place = |insertion: &Insertion| {
        let of_tag = |field: &Field| field.tag == insertion.tag;
        let found = match insertion.anchor {
            Anchor::First => fields.iter().position(of_tag),
            Anchor::Last => fields.iter().rposition(of_tag).map(|idx| idx + 1),
        };
        found.unwrap_or(fields.len())
    };
    let mut placed: Vec<(usize, Insertion)> = insertions.into_iter().map(|new| (place(&new), new)).collect();
    // The sort is stable, so insertions at one position keep their order.
    placed.sort_by_key(|(place, _)| *place);
    let mut placed = placed.into_iter().peekable();
    let mut out = Rope::default();
    for (idx, field) in fields.iter().enumerate() {
        while let Some((_, new)) = placed.next_if(|(place, _)| *place <= idx) {
            out.append(new.content);
        }
        match fate(field)? {
            Fate::Keep => out.copy(field.span.clone()),
            Fate::Drop => {}
            Fate::Replace(content) => out.append(content),
        }
    }
    placed.for_each(|(_, new)| out.append(new.content));
    Ok(out)
}

/// Creates the fields that add `metadata` entries under field number `tag`.
pub(crate) fn metadata_insertion(tag: u32, metadata: &[(String, String)]) -> Insertion {
    let mut content = Rope::default();
    for (key, value) in metadata {
        let entry = StringStringEntryProto { key: Some(key.clone()), value: Some(value.clone()) };
        content.encoded_field(tag, &entry);
    }
    Insertion { tag, anchor: Anchor::Last, content }
}

/// Drops a metadata entry if `metadata` replaces it: memc's own entries and those with an equal key.
pub(crate) fn metadata_fate(
    bytes: &[u8],
    field: &Field,
    metadata: &[(String, String)],
) -> Result<Fate, WireError> {
    let key = last_bytes(bytes, field.payload.clone(), entry::KEY)?.unwrap_or_default();
    let replaced =
        key.starts_with(METADATA_PREFIX.as_bytes()) || metadata.iter().any(|(new, _)| new.as_bytes() == key);
    Ok(if replaced { Fate::Drop } else { Fate::Keep })
}
