//! The CSV format of the minimalloc planner and its benchmarks: one buffer a row.

use std::fmt::Write as _;

use crate::{identifiers::Identifiers, live_curve::LiveCurve, types::Layout};

/// Returns the owners of bytes in one space as rows `id,lower,upper,size,offset`, live over the steps
/// `lower..upper`.
///
/// Aliases have no row: an owner is live while any of its aliases is. Commas, quotes and control
/// characters in names become `_`. For a space without tensors, only the heading is returned.
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
