//! The JSON schema of a layout file, for readers in other languages.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::types::Layout;

/// Identifier of the schema. Nothing is ever fetched from this address.
pub const SCHEMA_ID: &str = "https://memc.dev/schema/memc.layout-1.json";

/// Returns the JSON schema (draft 2020-12) of the files that [`crate::to_json`] writes, with one
/// trailing newline.
pub fn schema() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut value = Value::from(settings.into_generator().into_root_schema_for::<Layout>());
    if let Some(object) = value.as_object_mut() {
        object.insert("$id".to_owned(), SCHEMA_ID.into());
        object.insert("title".to_owned(), "memc.layout/1".into());
    }
    value.sort_all_objects();
    format!("{value:#}\n")
}
