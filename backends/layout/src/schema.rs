//! The JSON schema of a layout file, for readers in other languages.

/// Identifier of the schema. Nothing is ever fetched from this address.
pub const SCHEMA_ID: &str = "https://memc.dev/schema/memc.layout-1.json";

/// Returns the JSON schema (draft 2020-12) of the files that [`crate::to_json`] writes, with one
/// trailing newline. The keyword `x-memc` says of each key whether `memc check` verifies it (`verified`) or
/// it only informs (`informative`). A test derives the text from the types and compares.
pub fn schema() -> &'static str {
    include_str!("../schema/memc.layout-1.json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use schemars::generate::SchemaSettings;
    use serde_json::Value;

    use super::*;
    use crate::types::Layout;

    /// The schema as the types of this crate give it.
    fn derived() -> String {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut value = Value::from(settings.into_generator().into_root_schema_for::<Layout>());
        let object = value.as_object_mut().unwrap();
        object.insert("$id".to_owned(), SCHEMA_ID.into());
        object.insert("title".to_owned(), "memc.layout/1".into());
        crate::roles::mark(&mut value);
        value.sort_all_objects();
        format!("{value:#}\n")
    }

    #[test]
    fn the_published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/memc.layout-1.json");
        if std::env::var_os("MEMC_BLESS").is_some() {
            std::fs::write(path, derived()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), derived(), "run the test with MEMC_BLESS=1 to renew {path}");
    }
}
