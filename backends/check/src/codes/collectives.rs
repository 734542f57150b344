//! Codes of what several devices do together: E0653.

use super::{Entry, Kind, entry};

/// Codes of collectives.
pub(super) const ENTRIES: &[Entry] = &[entry(
    Kind::Collective,
    "E0653",
    "collective",
    "devices do not join a value as the manifest says, or not all of them do",
    "In a data-parallel step, the parts of a value are on all devices. A collective must add sums and means, and put the rows of all others one after another; all devices take part, in one order, and each device that reads or gives the whole value gets it.",
    "a gradient that one device adds up in another place than the others",
)];
