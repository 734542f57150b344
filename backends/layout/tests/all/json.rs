//! Tests reading and writing of layout files: the round trip, the published schema, and rejected texts.
#![allow(clippy::unwrap_used, clippy::panic)]

use memc_layout::{Encoding, ReadError, Tensor, read, schema, to_json};
use serde_json::Value;

const BLOCK: &str = include_str!("../data/residual_block.layout.json");

/// Returns the fixture with one value replaced, addressed by JSON pointer.
fn changed(pointer: &str, value: Value) -> String {
    let mut block: Value = serde_json::from_str(BLOCK).unwrap();
    *block.pointer_mut(pointer).unwrap() = value;
    block.to_string()
}

#[test]
fn a_file_survives_reading_and_writing_byte_for_byte() {
    assert_eq!(to_json(&read(BLOCK).unwrap()).unwrap(), BLOCK);
}

#[test]
fn keys_are_sorted_at_every_level() {
    fn check(value: &Value) {
        match value {
            Value::Object(object) => {
                let keys: Vec<_> = object.keys().collect();
                assert!(keys.is_sorted(), "{keys:?}");
                object.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&serde_json::from_str(&to_json(&read(BLOCK).unwrap()).unwrap()).unwrap());
}

#[test]
fn unknown_keys_and_minor_versions_are_read() {
    let newer = changed("/schema", "memc.layout/1.3".into()).replacen('{', r#"{"colour": [{"deep": 1}],"#, 1);
    assert_eq!(read(&newer).unwrap().tensors, read(BLOCK).unwrap().tensors);
}

#[test]
fn other_versions_and_formats_are_refused_before_anything_else() {
    for version in ["memc.layout/2", "memc.layout/10", "memc.layout", "memc.layout/"] {
        let text = format!(r#"{{"schema": "{version}"}}"#);
        assert!(matches!(read(&text), Err(ReadError::OtherVersion { found, .. }) if found == version));
    }
    let other = read(r#"{"schema": "plan/1", "tensors": 3}"#);
    assert!(matches!(other, Err(ReadError::OtherFormat { found, .. }) if found == "plan/1"));
}

#[test]
fn errors_name_line_and_column() {
    let Err(ReadError::Json { line, column, .. }) = read("{\n  \"schema\": 7\n}") else { panic!() };
    assert_eq!((line, column), (2, 13));
    for text in ["", "{", "[]", "null", "\u{0}", "{\"schema\": \"memc.layout/1\"}"] {
        assert!(matches!(read(text), Err(ReadError::Json { .. })), "{text:?}");
    }
    // Deep nesting under an ignored key must not exhaust the stack.
    let deep = format!(r#"{{"ignored": {}"#, "[".repeat(1_000_000));
    assert!(matches!(read(&deep), Err(ReadError::Json { .. })));
}

#[test]
fn a_required_key_may_be_null_but_not_absent() {
    let text = to_json(&read(BLOCK).unwrap()).unwrap();
    let without = text.replacen("\"offset\": null,", "", 1);
    assert_ne!(text, without);
    let error = read(&without).unwrap_err().to_string();
    assert!(error.contains("offset"), "{error}");
}

#[test]
fn wrong_kinds_are_refused() {
    for (pointer, value) in [
        ("/weights", Value::from(-1)),
        ("/weights", Value::from(1.5)),
        ("/io", Value::from("inputs")),
        ("/tensors/0/class", Value::from("weight")),
        ("/tensors/0/live", serde_json::json!([[1, 2, 3]])),
        ("/tensors/0/bytes", Value::from("64")),
    ] {
        assert!(read(&changed(pointer, value.clone())).is_err(), "{pointer} = {value}");
    }
}

#[test]
fn optional_keys_are_left_out() {
    let layout = read(BLOCK).unwrap();
    let plain: &Tensor = layout.tensors.iter().find(|tensor| tensor.name == "logits").unwrap();
    let value = serde_json::to_value(plain).unwrap();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["bytes", "class", "dtype", "live", "name", "offset", "shape", "space"]);
    assert!(!BLOCK.contains("anchor"));
}

#[test]
fn encodings_are_read_back_and_older_files_have_none() {
    let mut layout = read(BLOCK).unwrap();
    assert!(layout.encodings.is_empty());
    let code = vec!["mask.bits".to_owned()];
    let (of, decoded, form) = ("mask".to_owned(), "mask.again".to_owned(), "bits".to_owned());
    layout.encodings.push(Encoding { of, code, decoded, form, exact: true, error: None });
    let text = to_json(&layout).unwrap();
    assert_eq!(read(&text).unwrap(), layout);
    // Every key of a row is required.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["encodings"][0].as_object_mut().unwrap().remove("exact");
    assert!(read(&value.to_string()).unwrap_err().to_string().contains("exact"));
}

#[test]
fn a_cost_that_is_no_number_is_not_written() {
    let mut layout = read(BLOCK).unwrap();
    layout.cost.modelled_ns_after = f64::NAN;
    assert!(to_json(&layout).unwrap_err().to_string().contains("NaN"));
}

#[test]
fn the_schema_requires_the_keys_of_the_contract() {
    let schema: Value = serde_json::from_str(schema()).unwrap();
    let required = |pointer: &str| -> Vec<String> {
        serde_json::from_value(schema.pointer(&format!("{pointer}/required")).unwrap().clone()).unwrap()
    };
    let layout: Value = serde_json::from_str(BLOCK).unwrap();
    let mut keys: Vec<String> = layout.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    let mut top = required("");
    top.sort();
    assert_eq!(top, keys);
    let tensor = required("/$defs/Tensor");
    assert!(tensor.contains(&"offset".to_owned()) && !tensor.contains(&"alias".to_owned()), "{tensor:?}");
    assert_eq!(
        schema.pointer("/$defs/Tensor/properties/offset/type"),
        Some(&serde_json::json!(["integer", "null"]))
    );
}
