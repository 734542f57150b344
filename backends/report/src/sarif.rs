//! Sizes beyond their limits as SARIF 2.1.0, the format in which code scanners report results.

use serde_json::{Value, json};

use crate::limits::Row;
use crate::markdown::sentence;

/// Schema of the format.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Code of a size beyond its limit, as `memc explain` knows it.
const RULE: &str = "E0317";

/// Returns one run with a result for each size that has a limit: an error if the size exceeds it, else a
/// result of kind `pass`. `file` is the path of the model.
pub fn sarif(file: &str, rows: &[Row]) -> String {
    let results: Vec<Value> =
        rows.iter().filter(|row| row.limit.is_some()).map(|row| result(file, row)).collect();
    let rule = json!({
        "id": RULE,
        "name": "SizeExceedsLimit",
        "shortDescription": {"text": "A size exceeds its limit."},
        "help": {"text": format!("`memc optimize` plans with less memory; `memc explain {RULE}` explains the limit.")},
        "defaultConfiguration": {"level": "error"},
    });
    let driver = json!({
        "name": "memc",
        "version": env!("CARGO_PKG_VERSION"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "informationUri": "https://memc.dev",
        "rules": [rule],
    });
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    });
    format!("{log:#}\n")
}

fn result(file: &str, row: &Row) -> Value {
    let exceeds = row.exceeds();
    let text = if exceeds { sentence(row) } else { format!("{} keeps its limit", row.title()) };
    json!({
        "ruleId": RULE,
        "ruleIndex": 0,
        "kind": if exceeds { "fail" } else { "pass" },
        "level": if exceeds { "error" } else { "none" },
        "message": {"text": text},
        // Viewers want a line; a model has none.
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": {"startLine": 1}}}],
        "partialFingerprints": {"memc/v1": format!("{}:{}", row.name, row.space.as_deref().unwrap_or_default())},
        "properties": {"bytes": row.bytes, "limit": row.limit, "before": row.before},
    })
}

/// A path as a reference to a file: reserved characters are escaped byte by byte.
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match is_plain(byte) {
            true => text.push(char::from(byte)),
            false => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("models/a b:c%\u{e9}.onnx"), "models/a%20b%3Ac%25%C3%A9.onnx");
        assert_eq!(uri("models\\in.onnx"), "models/in.onnx");
    }
}
