//! The CSV form of onnx2c's arena: a tensor and its offset a row.

use std::fmt::Write as _;

use crate::{
    identifiers::Identifiers,
    types::{Class, Layout},
};

/// Returns the tensors of the first arena as rows `name,offset`, with views and results in place at the
/// offsets that they have inside their owners.
///
/// Workspace has no row. Commas, quotes and control characters in names become `_`.
pub fn to_onnx2c_csv(layout: &Layout) -> String {
    let mut text = String::from("name,offset\n");
    let Some(arena) = layout.arenas.first() else { return text };
    let mut identifiers = Identifiers::default();
    for tensor in layout.tensors.iter().filter(|tensor| tensor.class != Class::Scratch) {
        let Some(offset) = tensor.offset.filter(|_| tensor.space.as_ref() == Some(&arena.space)) else {
            continue;
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{},{offset}", identifiers.field(&tensor.name));
    }
    text
}
