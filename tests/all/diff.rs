//! `memc diff`: what changed from one layout to another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;

use std::fs;

use command::{Folder, model};
use serde_json::Value;

/// A folder with two plans of one model, `one` and `two`, of which the second has a budget.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(&format!("diff-{name}"));
    fs::copy(model("ort_mlp_tiny"), folder.path("in.onnx")).unwrap();
    folder.memc("optimize in.onnx -o one.onnx").done();
    let size = json(&folder.read("one.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    folder.memc(&format!("optimize in.onnx -o two.onnx --budget {} --exact", size * 7 / 5)).done();
    folder
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_layout_equals_itself() {
    let folder = folder("same");
    let same = folder.memc("diff one.layout.json one.layout.json").done();
    assert_eq!((same.out.as_str(), same.err.as_str()), ("no difference\n", ""));
    let same = json(&folder.memc("diff one.layout.json one.layout.json --json").done().out);
    assert_eq!(same["equal"], true);
    assert_eq!(same["resized"], Value::Array(Vec::new()));
}

#[test]
fn options_sizes_and_rows_that_differ_are_told() {
    let folder = folder("other");
    let differs = folder.memc("diff one.layout.json two.layout.json");
    assert_eq!(differs.code, Some(1), "{differs:#?}");
    for line in [
        "option budget: none -> ",
        "option exact: ",
        "peak of device: ",
        "arena of device: ",
        "weights: ",
        "modelled time: ",
    ] {
        assert!(differs.out.lines().any(|found| found.starts_with(line)), "{line}: {differs:#?}");
    }
    // Each change of a row is seen, the size of one first.
    let mut changed = json(&folder.read("one.layout.json"));
    let name = changed["tensors"].as_array().unwrap().iter().find(|row| row["class"] == "transient").unwrap()
        ["name"]
        .clone();
    let number = |value: &Value| value.as_u64().unwrap();
    for (key, told) in
        [("bytes", "of other sizes"), ("offset", "at other places"), ("dtype", "with other lives or types")]
    {
        let before = changed.clone();
        let rows = changed["tensors"].as_array_mut().unwrap();
        let row = rows.iter_mut().find(|row| row["name"] == name).unwrap();
        row[key] = match key {
            "dtype" => Value::from("int32"),
            key => Value::from(number(&row[key]) + 64),
        };
        folder.write("changed.json", changed.to_string());
        let ran = folder.memc("diff one.layout.json changed.json");
        assert_eq!(ran.code, Some(1), "{key}: {ran:#?}");
        assert!(ran.out.contains(&format!("1 {told}")), "{key}: {ran:#?}");
        if key == "bytes" {
            assert!(ran.out.contains(&format!("  {}: ", name.as_str().unwrap())), "{ran:#?}");
        }
        changed = before;
    }
    changed["schedule"].as_array_mut().unwrap()[3]["node"] = Value::from("another");
    folder.write("changed.json", changed.to_string());
    let ran = folder.memc("diff one.layout.json changed.json --json");
    assert_eq!((ran.code, json(&ran.out)["first_step"].as_u64()), (Some(1), Some(3)), "{ran:#?}");
}

#[test]
fn files_that_are_no_layouts_are_refused() {
    let folder = folder("wrong");
    folder.memc("diff one.layout.json in.onnx").refused(1, "E0116");
    folder.write("wrong.json", "{}");
    folder.memc("diff wrong.json one.layout.json").refused(1, "E0120");
}
