//! The joint file memc.joint/1: several planned models in one memory, one after another, one inside
//! another, or two at once.

mod c_header;
mod placed;
mod types;

pub use c_header::to_c_header;
pub use placed::{PlaceError, placed};
pub use types::{
    Admission, Handoff, Item, Joint, JointArena, JointSync, Member, Mode, Moment, SharedConstant, VERSION,
};

use crate::json::{ReadError, WriteError};

/// Identifier of the schema. Nothing is ever fetched from this address.
pub const SCHEMA_ID: &str = "https://memc.dev/schema/memc.joint-1.json";

/// Returns the JSON schema (draft 2020-12) of the files that [`to_json`] writes, with one trailing newline.
pub fn schema() -> &'static str {
    include_str!("../../schema/memc.joint-1.json")
}

/// Reads the JSON text of a joint file. Unknown keys are ignored.
///
/// Nothing beyond the form is checked: names, sizes and steps may still contradict each other.
///
/// # Errors
/// [`ReadError`], with the line and column where the form departs from the contract.
pub fn read(text: &str) -> Result<Joint, ReadError> {
    crate::json::read_as(text, VERSION)
}

/// Returns the JSON text of a joint file: keys sorted at every level, one trailing newline. Equal files give
/// equal bytes.
///
/// # Errors
/// None for the types of this version, which hold no fractions.
pub fn to_json(joint: &Joint) -> Result<String, WriteError> {
    crate::json::sorted(joint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    #[test]
    fn the_published_schema_is_current() {
        published::is_current::<Joint>(SCHEMA_ID, VERSION, |_| ());
    }

    #[test]
    fn files_of_other_formats_are_refused() {
        published::refuses_others(read, VERSION);
    }
}
