//! The joint file memc.joint/1: several planned models in one memory, one after another or one inside
//! another.

mod placed;
mod types;

pub use placed::{PlaceError, placed};
pub use types::{Admission, Handoff, Item, Joint, JointArena, Member, Mode, SharedConstant, VERSION};

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
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use schemars::generate::SchemaSettings;
    use serde_json::Value;

    use super::*;

    /// The schema as the types of this module give it.
    fn derived() -> String {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut value = Value::from(settings.into_generator().into_root_schema_for::<Joint>());
        let object = value.as_object_mut().unwrap();
        object.insert("$id".to_owned(), SCHEMA_ID.into());
        object.insert("title".to_owned(), VERSION.into());
        value.sort_all_objects();
        format!("{value:#}\n")
    }

    #[test]
    fn the_published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/memc.joint-1.json");
        if std::env::var_os("MEMC_BLESS").is_some() {
            std::fs::write(path, derived()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), derived(), "run the test with MEMC_BLESS=1 to renew {path}");
    }

    #[test]
    fn files_of_other_formats_are_refused() {
        let of = |schema: &str| format!("{{\"schema\": \"{schema}\"}}");
        assert!(matches!(read(&of("memc.devices/1")), Err(ReadError::OtherFormat { .. })));
        assert!(matches!(read(&of("memc.joint/2")), Err(ReadError::OtherVersion { .. })));
        assert!(matches!(read(&of("memc.joint/1")), Err(ReadError::Json { .. })));
    }
}
