//! Tests the reports in text: the last line with its fixed format, the screen, the JSON summary and the
//! trace.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::plans;

use memc_layout::Layout;
use memc_report::{json, summary_line, text, trace};
use serde_json::Value;

/// Returns all plans; every report must handle each of them.
fn all() -> Vec<Layout> {
    vec![
        plans::block(),
        plans::timed(),
        plans::hostile(),
        plans::encoded(),
        plans::empty(),
        plans::training(2),
        plans::training(3000),
    ]
}

#[test]
fn summary_of_the_block() {
    insta::assert_snapshot!(summary_line(&plans::block()));
}

#[test]
fn the_last_line_keeps_its_shape() {
    let mut layout = plans::block();
    layout.target.spaces.truncate(1);
    layout.tensors.retain(|tensor| tensor.space.as_deref() != Some("host"));
    layout.baseline.file_order_peak.remove("host");
    layout.arenas.truncate(1);
    layout.transfers.push(layout.transfers[0].clone());
    layout.unplanned.clear();
    let line = |layout: &Layout| summary_line(layout);
    let mut cases = vec![line(&layout)];
    layout.lower_bound.get_mut("device").unwrap().placement = 589_824;
    cases.push(line(&layout));
    layout.lower_bound.get_mut("device").unwrap().placement = 589_800;
    cases.push(line(&layout));
    layout.lower_bound.clear();
    layout.baseline.file_order_peak.clear();
    layout.cost.modelled_ns_before = 0.0;
    cases.push(line(&layout));
    cases.push(line(&plans::empty()));
    insta::assert_snapshot!(cases.join("\n"));
}

#[test]
fn screen_of_the_block() {
    insta::assert_snapshot!(text(&plans::block()));
}

#[test]
fn screen_of_a_budget_plan() {
    insta::assert_snapshot!(text(&plans::timed()));
}

#[test]
fn encoded_values_have_a_row_for_each_form() {
    let layout = plans::encoded();
    let size = |name: &str| layout.tensors.iter().find(|tensor| tensor.name == name).unwrap().bytes;
    let summary: Value = serde_json::from_str(&json(&layout)).unwrap();
    let [exact, lossy, weights] = summary["encodings"].as_array().unwrap().as_slice() else {
        panic!("{}", summary["encodings"])
    };
    let rows = &layout.encodings;
    let (wide, code) =
        (size(&rows[1].of) + size(&rows[3].of), size(&rows[1].code[0]) + size(&rows[3].code[0]));
    assert!(wide > code, "{wide} {code}");
    let form = serde_json::json!({"form": "bits", "exact": true, "count": 2, "wide": wide, "encoded": code, "saved": wide - code, "error": null});
    assert_eq!(*exact, form);
    assert_eq!(
        (&lossy["form"], &lossy["exact"], &lossy["count"]),
        (&"int8".into(), &false.into(), &1.into())
    );
    let form = serde_json::json!({"form": "weights int8", "exact": false, "count": 2, "wide": 3 * 4096, "encoded": 3 * 1088,
        "saved": 3 * (4096 - 1088), "error": 0.0075});
    assert_eq!(*weights, form);
    let screen = text(&layout);
    let lines: Vec<&str> =
        screen.lines().skip_while(|line| !line.starts_with("encoded values")).take(4).collect();
    assert!(lines[1].starts_with("bits  ") && lines[1].ends_with("  exact"), "{lines:?}");
    assert!(lines[2].starts_with("int8  ") && lines[2].ends_with("  lossy"), "{lines:?}");
    assert!(
        lines[3].starts_with("weights int8  ") && lines[3].ends_with("  lossy, by at most 0.75 %"),
        "{lines:?}"
    );
    assert!(!text(&plans::timed()).contains("encoded values"));
}

#[test]
fn decisions_state_bytes_freed_and_time_added() {
    let summary: Value = serde_json::from_str(&json(&plans::timed())).unwrap();
    let decisions = summary["decisions"].as_array().unwrap();
    let way = |way: &str| decisions.iter().find(|decision| decision["way"] == way).unwrap();
    // /branch/a is dropped after step 4 and recomputed at step 11. The maximum of live bytes in between
    // is at step 6.
    let recompute = way("recompute");
    assert_eq!(
        (&recompute["tensor"], &recompute["freed"]),
        (&Value::from("/branch/a"), &serde_json::json!([7, 11]))
    );
    assert_eq!(recompute["cost_ns"], 75_000);
    let (there, bytes) = (recompute["peak_there"].as_u64().unwrap(), recompute["bytes"].as_u64().unwrap());
    assert_eq!(recompute["peak_otherwise"].as_u64(), Some(there + bytes));
    let transfer = way("transfer");
    assert_eq!(
        (&transfer["freed"], &transfer["far"], &transfer["bytes"]),
        (&serde_json::json!([6, 10]), &Value::from("host"), &Value::from(131_072))
    );
    assert_eq!((&transfer["cost_ns"], &transfer["waited_ns"]), (&Value::from(68_000), &Value::from(34_000)));
    assert_eq!(transfer["peak_otherwise"], 557_056 + 131_072);
    // Without a timeline the cost is unknown.
    let plain: Value = serde_json::from_str(&json(&plans::block())).unwrap();
    assert_eq!(plain["decisions"][0]["cost_ns"], Value::Null);
}

#[test]
fn an_overwritten_copy_frees_bytes_from_the_end_of_its_original() {
    let mut layout = plans::timed();
    // A copy of /branch/b overwrites /branch/a@1. /branch/b and /branch/a are sub-views of one value.
    let copy = layout.tensors.iter_mut().find(|tensor| tensor.name == "/add/out").unwrap();
    copy.recompute_of = Some("/branch/b".to_owned());
    copy.alias = Some(memc_layout::Alias {
        of: "/branch/a@1".to_owned(),
        kind: memc_layout::AliasKind::InPlace,
        alias_offset: 0,
        alias_offset_expr: None,
    });
    let decision = |layout: &Layout| -> Value {
        let summary: Value = serde_json::from_str(&json(layout)).unwrap();
        summary["decisions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|decision| decision["again"] == "/branch/a@1")
            .unwrap()
            .clone()
    };
    assert_eq!(decision(&layout)["freed"], serde_json::json!([7, 11]));
    layout.tensors.iter_mut().find(|tensor| tensor.name == "/branch/b").unwrap().live[0].end = 10;
    assert_eq!(decision(&layout)["freed"], serde_json::json!([10, 11]));
    // The original is still live at the recomputation: nothing was dropped.
    layout.tensors.iter_mut().find(|tensor| tensor.name == "/branch/b").unwrap().live[0].end = 14;
    assert_eq!(decision(&layout)["freed"], Value::Null);
}

#[test]
fn a_node_with_two_results_is_charged_to_the_one_that_frees_more() {
    let mut layout = plans::timed();
    let mut smaller = layout.tensors.iter().find(|tensor| tensor.name == "/branch/a@1").unwrap().clone();
    (smaller.name, smaller.bytes, smaller.offset) = ("/branch/b@1".to_owned(), 64, Some(2048));
    smaller.recompute_of = Some("/branch/b".to_owned());
    // Insert it before the larger result in the file.
    layout.tensors.insert(0, smaller);
    let summary: Value = serde_json::from_str(&json(&layout)).unwrap();
    let costs = |name: &str| {
        summary["decisions"].as_array().unwrap().iter().find(|one| one["again"] == name).unwrap()["cost_ns"]
            .clone()
    };
    assert_eq!((costs("/branch/b@1"), costs("/branch/a@1")), (Value::from(0), Value::from(75_000)));
}

#[test]
fn trace_of_a_timeline() {
    let trace: Value = serde_json::from_str(&trace(&plans::timed())).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let rows: Vec<&str> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["operators", "link device to host", "link host to device", "away"]);
    let bar = |name: &str| events.iter().find(|event| event["ph"] == "X" && event["name"] == name).unwrap();
    assert_eq!(
        (&bar("swap_out:relu1")["tid"], &bar("swap_out:relu1")["ts"], &bar("swap_out:relu1")["dur"]),
        (&Value::from(2), &Value::from(860), &Value::from(34))
    );
    assert_eq!((&bar("conv3")["tid"], &bar("conv3")["ts"]), (&Value::from(1), &Value::from(860)));
    assert_eq!(bar("conv2a@1")["cat"], "recompute");
    let counters: std::collections::BTreeSet<&str> = events
        .iter()
        .filter(|event| event["ph"] == "C")
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    let expected = ["budget of device", "capacity of device", "live bytes in device", "live bytes in host"];
    assert_eq!(counters.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn screen_of_a_training_step() {
    insta::assert_snapshot!(text(&plans::training(1200)));
}

#[test]
fn screen_of_an_empty_plan() {
    insta::assert_snapshot!(text(&plans::empty()));
}

#[test]
fn the_screen_is_forty_lines_of_a_hundred_plain_characters() {
    for layout in all() {
        let text = text(&layout);
        assert!(text.lines().count() <= 40, "{text}");
        for line in text.lines().rev().skip(1) {
            assert!(line.len() <= 100 && line.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{line:?}");
        }
        assert_eq!(text.lines().last(), summary_line(&layout).lines().last());
    }
}

#[test]
fn summary_object_of_the_block() {
    insta::assert_snapshot!(json(&plans::block()));
}

#[test]
fn summary_objects_agree_with_the_line() {
    for layout in all() {
        let summary: Value = serde_json::from_str(&json(&layout)).unwrap();
        let line = summary_line(&layout);
        let last = line.lines().last().unwrap();
        assert_eq!(summary["order_optimal"], Value::from(last.contains("order optimal")));
        assert_eq!(summary["offsets_optimal"], Value::from(last.contains("offsets optimal)")));
        assert_eq!(summary["arena"], summary["spaces"][0]["arena"]);
        for space in summary["spaces"].as_array().unwrap() {
            let alive = space["alive_at_peak"].as_array().unwrap();
            let sum: u64 = alive.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
            assert_eq!(space["peak"]["bytes"].as_u64().unwrap(), sum);
        }
    }
}

#[test]
fn traces_hold_every_step_and_return_to_zero() {
    for layout in all() {
        let trace: Value = serde_json::from_str(&trace(&layout)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        assert_eq!(of("X").len(), layout.schedule.len());
        assert_eq!((of("b").len(), of("e").len()), (layout.transfers.len(), layout.transfers.len()));
        for space in &layout.target.spaces {
            let name = format!("live bytes in {}", space.name);
            let values: Vec<u64> = of("C")
                .iter()
                .filter(|event| event["name"] == name)
                .map(|event| event["args"]["bytes"].as_u64().unwrap())
                .collect();
            let peak = layout.peak.get(&space.name).map_or(0, |peak| peak.bytes);
            assert_eq!((values.iter().max(), values.last()), (Some(&peak), Some(&0)));
        }
    }
}

#[test]
fn trace_of_the_block() {
    let trace: Value = serde_json::from_str(&trace(&plans::block())).unwrap();
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&trace["traceEvents"].as_array().unwrap()[18..30]).unwrap()
    );
}
