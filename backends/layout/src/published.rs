//! Compares published schemas with the types that they describe.
#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::json::ReadError;

/// Compares the schema file of a version, such as `memc.layout/1`, with what the type `T` gives, after
/// `mark`. With the variable `MEMC_BLESS` the file is renewed first.
pub(crate) fn is_current<T: JsonSchema>(id: &str, version: &str, mark: impl Fn(&mut Value)) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut value = Value::from(settings.into_generator().into_root_schema_for::<T>());
    let object = value.as_object_mut().unwrap();
    object.insert("$id".to_owned(), id.into());
    object.insert("title".to_owned(), version.into());
    mark(&mut value);
    value.sort_all_objects();
    let derived = format!("{value:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(id.rsplit('/').next().unwrap());
    if std::env::var_os("MEMC_BLESS").is_some() {
        std::fs::write(&path, &derived).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap();
    assert_eq!(published, derived, "run the test with MEMC_BLESS=1 to renew {}", path.display());
}

/// Expects that a reader of a version takes neither another format nor another version of its own, and
/// misses the keys of a file that states only the version.
pub(crate) fn refuses_others<T>(read: impl Fn(&str) -> Result<T, ReadError>, version: &str) {
    let read = |schema: &str| read(&format!("{{\"schema\": \"{schema}\"}}")).err();
    let (format, _) = version.split_once('/').unwrap();
    assert!(matches!(read("memc.other/1"), Some(ReadError::OtherFormat { .. })));
    assert!(matches!(read(&format!("{format}/2")), Some(ReadError::OtherVersion { .. })));
    assert!(matches!(read(version), Some(ReadError::Json { .. })));
}
