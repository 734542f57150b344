//! The CSV form that the minimalloc planner and its benchmarks use: one buffer a row.

use std::fmt::Write as _;

use crate::{identifiers::Identifiers, live_curve::LiveCurve, types::Layout};

/// The owners of bytes in one space as `id,lower,upper,size,offset`, live over the steps `lower..upper`.
///
/// Aliases have no row: an owner's steps are those of all its aliases. Commas, quotes and line ends in names become `_`. A space
/// without tensors gives the heading alone.
pub fn to_minimalloc_csv(layout: &Layout, space: &str) -> String {
    let mut text = String::from("id,lower,upper,size,offset\n");
    let mut identifiers = Identifiers::default();
    let profile = LiveCurve::of(layout);
    for owner in profile.space(space).into_iter().flat_map(|space| &space.owners) {
        let tensor = &layout.tensors[owner.tensor];
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{}",
            identifiers.field(&tensor.name),
            owner.start(),
            owner.end(),
            owner.bytes,
            owner.offset
        );
    }
    text
}
