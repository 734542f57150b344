//! Layouts that are damaged on purpose: the check returns a report, regardless of numbers and names.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::fixture;

use fixture::*;
use memc_check::{Options, check, form};
use memc_onnx_proto::ModelFile;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};

/// A damage of one place of a JSON value.
#[derive(Clone, Debug)]
enum Break {
    Number(u64),
    Text(&'static str),
    Null,
    Remove,
    Twice,
    Copy(prop::sample::Index),
}

fn breaks() -> impl Strategy<Value = Break> {
    // Numbers at the limits of types, and names from the layout.
    let number = prop_oneof![
        Just(0u64),
        Just(1),
        Just(2),
        Just(63),
        Just(64),
        Just(255),
        Just(256),
        Just(1 << 31),
        Just(1 << 32),
        Just(1 << 61),
        Just(1 << 63),
        Just(u64::MAX - 1),
        Just(u64::MAX),
        0u64..4096
    ];
    let words = [
        "",
        "a",
        "b",
        "c",
        "d",
        "k",
        "k0",
        "t",
        "x",
        "w",
        "away",
        "ghost",
        "device",
        "host",
        "view",
        "in_place",
        "scratch",
        "constant",
        "transient",
        "output",
        "state",
        "start",
        "choose",
        "scratch:choose:body",
        "scratch:::",
        "float",
        "int4",
        "batch",
        "SwapOut",
        "arena",
        "external",
        "\u{1F980}",
    ];
    prop_oneof![
        6 => number.prop_map(Break::Number),
        6 => prop::sample::select(words.to_vec()).prop_map(Break::Text),
        1 => Just(Break::Null),
        2 => Just(Break::Remove),
        2 => Just(Break::Twice),
        4 => any::<prop::sample::Index>().prop_map(Break::Copy),
    ]
}

/// Collects the paths of all leaves and entries.
fn paths(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let next = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                all.push(next.clone());
                paths(inner, &next, all);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let next = format!("{at}/{index}");
                all.push(next.clone());
                paths(inner, &next, all);
            }
        }
        _ => {}
    }
}

fn damage(value: &mut Value, place: prop::sample::Index, how: &Break) {
    let mut all = Vec::new();
    paths(value, "", &mut all);
    let path = &all[place.index(all.len())];
    let copied = match how {
        Break::Copy(other) => value.pointer(&all[other.index(all.len())]).cloned(),
        _ => None,
    };
    let Some((parent, last)) = path.rsplit_once('/') else { return };
    let Some(holder) = value.pointer_mut(parent) else { return };
    if let (Break::Remove | Break::Twice, Value::Array(items)) = (how, &mut *holder) {
        let at: usize = last.parse().unwrap();
        match how {
            Break::Remove => {
                items.remove(at);
            }
            _ => items.push(items[at].clone()),
        }
        return;
    }
    let Some(leaf) = value.pointer_mut(path) else { return };
    match how {
        Break::Number(number) => *leaf = json!(number),
        Break::Text(text) => *leaf = json!(text),
        Break::Null => *leaf = Value::Null,
        Break::Copy(_) => *leaf = copied.unwrap_or(Value::Null),
        Break::Remove | Break::Twice => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn a_broken_layout_never_panics(all in prop::collection::vec((any::<prop::sample::Index>(), breaks()), 1..6)) {
        let mut case = Case::default();
        let mut value = serde_json::to_value(case.layout()).unwrap();
        for (place, how) in &all {
            damage(&mut value, *place, how);
        }
        let text = value.to_string();
        form(&text);
        if let Ok(layout) = memc_layout::read(&text) {
            let given = ModelFile::from_bytes(case.given.encode_to_vec()).unwrap();
            let out = ModelFile::from_bytes(case.out.encode_to_vec()).unwrap();
            let report = check(&given, &out, &layout, Options { exact: true, ..Options::default() });
            serde_json::to_string(&report.summary).unwrap();
        }
    }
}

#[test]
fn unrelated_models_are_told_apart() {
    let mut case = Case::default();
    let layout = case.layout().clone();
    let other = Case::same(vec![node("only", "Relu", &["x"], &["z"])], |graph| {
        graph.output = vec![info("z", FLOAT, &[4, 16])]
    });
    let given = ModelFile::from_bytes(other.given.encode_to_vec()).unwrap();
    let out = ModelFile::from_bytes(case.out.encode_to_vec()).unwrap();
    assert!(!check(&given, &out, &layout, Options::default()).holds());
    assert!(!check(&out, &given, &layout, Options::default()).holds());
}
