//! Damages each key of a layout that the schema calls verified. The schema lists the keys: a new one fails
//! here until a plan has it and the check refuses a damage of it, or it only informs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use crate::plans::{self, plans};
use serde_json::Value;

/// A key of a type, as `Tensor.offset`.
type Key = String;

/// Lists that a plan may state in part: each row is verified, and the models do not need the others.
const PARTIAL: &[&str] = &["Layout.encoded_weights", "Layout.encodings", "Layout.layouts"];

/// Keys that other tests damage: that of ranges, that of encoded weights, which exchanges two matrices, that
/// of inverses (`inverses.rs`), and those of rows and parts of weights, which `tests/all/far_parts.rs` of the
/// workspace has plans for.
const ELSEWHERE: &[&str] = &[
    "Alias.alias_offset_expr",
    "EncodedWeight.of",
    "Encoding.error",
    "Fetch.part",
    "Fetch.rows",
    "FetchedPart.axis",
    "FetchedPart.end",
    "FetchedPart.start",
    "FetchedRows.count",
    "FetchedRows.indices",
];

/// Collects the places of all verified keys in a layout, as JSON pointers.
fn places(schema: &Value, of: &Value, name: &str, value: &Value, at: &str, found: &mut Vec<(Key, String)>) {
    if let Some(reference) = of["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return places(schema, &schema["$defs"][name], name, value, at, found);
    }
    if let Some(options) = of["anyOf"].as_array() {
        return options.iter().for_each(|option| places(schema, option, name, value, at, found));
    }
    match value {
        Value::Object(keys) => {
            for (key, inner) in keys {
                let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                match of["properties"].get(key) {
                    Some(property) => {
                        if property["x-memc"] == "verified" {
                            found.push((format!("{name}.{key}"), path.clone()));
                        }
                        places(schema, property, name, inner, &path, found);
                    }
                    None => places(schema, &of["additionalProperties"], name, inner, &path, found),
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                places(schema, &of["items"], name, inner, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Returns damaged forms of a value.
fn damages(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(value) => vec![(!value).into()],
        Value::Number(number) => match number.as_u64() {
            Some(number) => {
                let less = [number.saturating_sub(1), number / 2, 0];
                less.into_iter().chain([number + 1, number + 64, number * 2 + 1]).map(Value::from).collect()
            }
            None => vec![(number.as_f64().unwrap() * 1.5 + 1.0).into()],
        },
        Value::String(text) => {
            let words = [
                "constant",
                "transient",
                "view",
                "in_place",
                "file",
                "user",
                "arena",
                "external",
                "device",
                "",
            ];
            words.iter().map(|word| Value::from(*word)).chain([format!("{text}x").into()]).collect()
        }
        Value::Array(items) if items.is_empty() => vec![Value::from(vec![7])],
        Value::Array(items) => {
            let shorter =
                [items[1..].to_vec(), items[..items.len() - 1].to_vec(), Vec::new()].map(Value::Array);
            let others =
                items.iter().enumerate().filter(|(_, item)| !item.is_object()).flat_map(|(at, item)| {
                    damages(item).into_iter().map(move |item| {
                        let mut items = items.clone();
                        items[at] = item;
                        Value::Array(items)
                    })
                });
            shorter.into_iter().chain(others).collect()
        }
        Value::Object(keys) => {
            let fewer = keys.iter().skip(1).map(|(key, value)| (key.clone(), value.clone()));
            let others = keys.iter().filter(|(_, value)| !value.is_object()).flat_map(|(key, value)| {
                damages(value).into_iter().map(move |value| {
                    let mut keys = keys.clone();
                    keys.insert(key.clone(), value);
                    Value::Object(keys)
                })
            });
            [Value::Object(fewer.collect()), Value::Null].into_iter().chain(others).collect()
        }
        Value::Null => vec![1.into(), "x".into()],
    }
}

/// Whether a plan with another value at a place is refused, by the reader or by the check.
fn is_refused(plan: &plans::Plan, layout: &Value, at: &str, value: Value) -> bool {
    let mut damaged = layout.clone();
    let place = damaged.pointer_mut(at).unwrap();
    // Text that is no layout at all proves nothing about a key, unless it names no word of the contract.
    let is_word = place.is_string() && value.is_string();
    *place = value;
    match memc_layout::read(&damaged.to_string()) {
        Ok(layout) => layout != plan.layout && !plan.accepts(&plan.check(&layout)),
        Err(_) => is_word,
    }
}

#[test]
fn a_damage_of_each_verified_key_is_refused() {
    let schema: Value = serde_json::from_str(memc_layout::schema()).unwrap();
    let mut wanted: BTreeSet<Key> = BTreeSet::new();
    let types = schema["$defs"].as_object().unwrap().iter().map(|(name, of)| (name.as_str(), of));
    for (name, of) in types.chain([("Layout", &schema)]) {
        for (key, property) in of["properties"].as_object().into_iter().flatten() {
            match property["x-memc"].as_str() {
                Some("verified") => drop(wanted.insert(format!("{name}.{key}"))),
                role => assert_eq!(role, Some("informative"), "{name}.{key} has no role"),
            }
        }
    }
    let (mut refused, mut seen): (BTreeMap<Key, String>, BTreeSet<Key>) = (BTreeMap::new(), BTreeSet::new());
    for plan in plans() {
        let layout: Value = serde_json::from_str(&memc_layout::to_json(&plan.layout).unwrap()).unwrap();
        let mut found = Vec::new();
        places(&schema, &schema, "Layout", &layout, "", &mut found);
        for (key, at) in found {
            seen.insert(key.clone());
            if refused.contains_key(&key) {
                continue;
            }
            let value = layout.pointer(&at).unwrap();
            if damages(value).into_iter().any(|value| is_refused(&plan, &layout, &at, value)) {
                refused.insert(key, at);
            }
        }
    }
    let unseen: Vec<&Key> =
        wanted.difference(&seen).filter(|key| !ELSEWHERE.contains(&key.as_str())).collect();
    let passes = |key: &&Key| {
        seen.contains(*key)
            && !refused.contains_key(*key)
            && ![PARTIAL, ELSEWHERE].concat().contains(&key.as_str())
    };
    let passed: Vec<&Key> = wanted.iter().filter(passes).collect();
    assert!(
        unseen.is_empty() && passed.is_empty(),
        "no plan has {unseen:?}; every damage passes of {passed:?}"
    );
}
