//! The manifest memc.devices/1: sections of a model, one a device, the values that cross between them, and
//! what each device does in order.

mod types;

pub use types::{
    Carried, Collective, CollectiveKind, Copied, Crossing, DeviceMemory, Equal, Event, Join, Joined,
    Manifest, Order, Path, Phase, Pipeline, Prepared, Repeated, Schedule, Section, Source, Updated, VERSION,
};

use crate::json::{ReadError, WriteError};

/// Identifier of the schema. Nothing is ever fetched from this address.
pub const SCHEMA_ID: &str = "https://memc.dev/schema/memc.devices-1.json";

/// Returns the JSON schema (draft 2020-12) of the files that [`to_json`] writes, with one trailing newline.
pub fn schema() -> &'static str {
    include_str!("../../schema/memc.devices-1.json")
}

/// Whether a text states a manifest of any version: its key `schema` begins with `memc.devices/`.
pub fn is_manifest(text: &str) -> bool {
    crate::json::stated_schema(text).is_some_and(|schema| schema.starts_with("memc.devices/"))
}

/// Reads the JSON text of a manifest. Unknown keys are ignored.
///
/// Nothing beyond the form is checked: names, sizes and events may still contradict each other.
///
/// # Errors
/// [`ReadError`], with the line and column where the form departs from the contract.
pub fn read(text: &str) -> Result<Manifest, ReadError> {
    crate::json::read_as(text, VERSION)
}

/// Returns the JSON text of a manifest: keys sorted at every level, one trailing newline. Equal manifests
/// give equal bytes.
///
/// # Errors
/// [`WriteError::Value`] if a rate is not finite.
pub fn to_json(manifest: &Manifest) -> Result<String, WriteError> {
    crate::json::sorted(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    #[test]
    fn the_published_schema_is_current() {
        published::is_current::<Manifest>(SCHEMA_ID, VERSION, |_| ());
    }

    #[test]
    fn manifests_of_other_formats_are_refused() {
        let of = |schema: &str| format!("{{\"schema\": \"{schema}\"}}");
        assert!(
            is_manifest(&of("memc.devices/7")) && !is_manifest(&of("memc.layout/1")) && !is_manifest("{")
        );
        published::refuses_others(read, VERSION);
    }
}
