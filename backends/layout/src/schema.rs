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
    use super::*;
    use crate::types::{Layout, VERSION};

    #[test]
    fn the_published_schema_is_current() {
        crate::published::is_current::<Layout>(SCHEMA_ID, VERSION, crate::roles::mark);
    }
}
