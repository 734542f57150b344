//! `memc report` as a gate: limits, earlier plans, forms, streams and rules for make.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use command::{Folder, model as shipped};
use models_made::*;
use serde_json::Value;

/// A folder with a model of 27 nodes, `in.onnx`, whose own order needs 240,940 bytes in an arena of at
/// least as many.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(&format!("limits-{name}"));
    fs::copy(shipped("ort_mlp_tiny"), folder.path("in.onnx")).unwrap();
    folder
}

/// The arena that a report in JSON states.
fn arena(json: &str) -> u64 {
    serde_json::from_str::<Value>(json).unwrap()["arena"].as_u64().unwrap()
}

#[test]
fn limits_are_kept_to_the_byte() {
    let folder = folder("bytes");
    let arena = arena(&folder.memc("report in.onnx --json").done().out);
    folder.memc(&format!("report in.onnx --max-arena {arena}")).done();
    let refused = folder.memc(&format!("report in.onnx --max-arena {}", arena - 1));
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(
        refused.err.contains("error[E0317]: arena of device: ") && refused.err.contains("= help: "),
        "{refused:#?}"
    );
    // The report is printed, so that a log shows the reason.
    assert!(refused.out.contains("arena"), "{refused:#?}");
    folder.memc("report in.onnx --max-arena 110%").done();
    assert_eq!(folder.memc("report in.onnx --max-arena 50%").code, Some(3));
    assert_eq!(folder.names(), ["in.onnx"]);
}

#[test]
fn weights_have_a_limit_of_their_own() {
    let folder = Folder::new("limits-weights");
    let model = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[64])];
        graph.output = vec![fixed("y", &[64])];
        graph.initializer = vec![floats("w", &[64])];
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("report in.onnx --max-weights 256 --max-arena 1KiB").done();
    let refused = folder.memc("report in.onnx --max-weights 255 --max-arena 1");
    assert_eq!(refused.code, Some(3));
    let notes = refused.err.lines().filter(|line| line.starts_with("  = note: ")).count();
    assert!(
        notes == 1 && refused.err.contains("weights: 256 B (256 B) exceeds 255 B (255 B)"),
        "{refused:#?}"
    );
}

#[test]
fn an_earlier_plan_allows_its_growth() {
    let folder = folder("baseline");
    folder.memc("optimize in.onnx -o out.onnx").done();
    let mut earlier: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let size = earlier["arenas"][0]["size"].as_u64().unwrap();
    folder.memc("report out.onnx --layout out.layout.json --baseline out.layout.json").done();
    // The earlier plan needed 2 % less.
    earlier["arenas"][0]["size"] = Value::from(size * 100 / 102);
    folder.write("old.layout.json", earlier.to_string());
    let compare = "report out.onnx --layout out.layout.json --baseline old.layout.json";
    assert_eq!(folder.memc(compare).code, Some(3));
    assert_eq!(folder.memc(&format!("{compare} --allow 1.9%")).code, Some(3));
    folder.memc(&format!("{compare} --allow +2.1%")).done();
    // The smaller limit counts.
    assert_eq!(folder.memc(&format!("{compare} --allow 5% --max-arena {}", size - 1)).code, Some(3));
    // Growth without a plan to compare with is a mistake.
    assert_eq!(folder.memc("report in.onnx --allow 5%").code, Some(2));
    folder.memc("report in.onnx --baseline in.onnx").refused(1, "E0116");
}

#[test]
fn values_without_a_bound_exceed_every_limit() {
    let folder = Folder::new("limits-unknown");
    let model = with(vec![node("Relu", &["x"], &["h"]), node("Neg", &["h"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["n"])];
        graph.output = vec![symbolic("y", &["n"])];
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("report in.onnx --allow-unbound").done();
    let refused = folder.memc("report in.onnx --allow-unbound --max-arena 1GiB");
    assert!(refused.code == Some(3) && refused.err.contains("an unknown size exceeds"), "{refused:#?}");
    folder.memc("report in.onnx --dim n=1024 --max-arena 8KiB").done();
}

#[test]
fn forms_name_the_exceeded_size() {
    let folder = folder("forms");
    let at = |form: &str| {
        folder.memc(&format!("report in.onnx --max-arena 1KiB --max-weights 1GiB --format {form}"))
    };
    let markdown = at("markdown");
    assert_eq!(markdown.code, Some(3));
    assert!(markdown.out.starts_with("### memc: `in.onnx`\n"), "{markdown:#?}");
    assert!(
        markdown.out.contains("| arena of device | ")
            && markdown.out.contains(" | 1.0 KiB |  |  | **exceeded** |")
    );
    assert!(markdown.out.contains("| weights | ") && markdown.out.contains(" | 1.0 GiB |  |  | kept |"));
    let github = at("github");
    assert!(
        github.out.starts_with("::error file=in.onnx,title=memc%3A arena of device::arena of device: "),
        "{github:#?}"
    );
    assert!(github.out.contains("\n::notice file=in.onnx,title=memc::peak "), "{github:#?}");
    let json: Value = serde_json::from_str(&at("json").out).unwrap();
    let exceeded: Vec<bool> =
        json["limits"].as_array().unwrap().iter().map(|row| row["exceeded"].as_bool().unwrap()).collect();
    assert_eq!(exceeded, [true, false]);
    assert_eq!(json["limits"][0]["limit"], 1024);
    assert!(
        at("html").out.contains("<html")
            && at("trace").out.contains("traceEvents")
            && at("text").out.contains("arena:")
    );
    let both = folder.memc("report in.onnx --json --format text");
    assert_eq!(both.code, Some(2));
}

#[test]
fn the_report_is_written_even_if_a_limit_is_exceeded() {
    let folder = folder("nothing");
    let write = "report in.onnx -o report.md --depfile report.d";
    folder.memc(&format!("{write} --max-arena 1KiB")).refused(3, "E0317");
    assert_eq!(folder.names(), ["in.onnx", "report.d", "report.md"]);
    assert!(folder.read("report.md").contains("**exceeded**"));
    folder.memc(&format!("{write} --max-arena 1MiB")).done();
    assert!(
        folder.read("report.md").starts_with("### memc")
            && !folder.read("report.md").contains("**exceeded**")
    );
    let rule = folder.read("report.d");
    assert!(rule.starts_with("report.md: in.onnx"), "{rule}");
    assert_eq!(folder.memc("report in.onnx --depfile report.d").code, Some(2));
    folder.memc("report in.onnx -o report.xyz").refused(2, "E0306");
}

#[test]
fn scanners_get_an_error_for_each_exceeded_limit() {
    let folder = Folder::new("limits-sarif");
    fs::copy(shipped("ort_mlp_tiny"), folder.path("in,1.onnx")).unwrap();
    folder.memc("report in,1.onnx --max-arena 1KiB --max-weights 1GiB -o gate.sarif").refused(3, "E0317");
    let log: Value = serde_json::from_str(&folder.read("gate.sarif")).unwrap();
    assert_eq!(
        (log["version"].as_str(), log["$schema"].as_str()),
        (Some("2.1.0"), Some("https://json.schemastore.org/sarif-2.1.0.json"))
    );
    let [run] = log["runs"].as_array().unwrap().as_slice() else { panic!("{log:#}") };
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "memc");
    let rules: Vec<&str> =
        driver["rules"].as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{log:#}");
    for (result, (level, kind)) in results.iter().zip([("error", "fail"), ("none", "pass")]) {
        // A level beside a kind other than `fail` must be `none`.
        assert_eq!((result["level"].as_str(), result["kind"].as_str()), (Some(level), Some(kind)));
        let rule = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(result["ruleId"], rules[rule]);
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "in%2C1.onnx");
        assert!(place["region"]["startLine"].as_u64() >= Some(1));
        assert!(result["partialFingerprints"].as_object().unwrap().values().all(Value::is_string));
    }
    folder.memc(&format!("explain {}", rules[0])).done();
    let none: Value =
        serde_json::from_str(&folder.memc("report in,1.onnx --format sarif").done().out).unwrap();
    assert_eq!(
        none["runs"][0]["results"],
        Value::Array(Vec::new()),
        "an empty list, not an absent one: the scan ran"
    );
}

#[test]
fn the_plan_is_compared_if_requested() {
    let folder = Folder::new("limits-planned");
    folder.write("in.onnx", bytes(&hungry()));
    let own = arena(&folder.memc("report in.onnx --json").done().out);
    let planned = arena(&folder.memc("report in.onnx --json --planned").done().out);
    assert!(planned < own, "{planned} of {own}");
    folder.memc(&format!("report in.onnx --planned --max-arena {planned}")).done();
    assert_eq!(folder.memc(&format!("report in.onnx --max-arena {planned}")).code, Some(3));
    folder.memc("optimize in.onnx -o out.onnx").done();
    let written: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert_eq!(written["arenas"][0]["size"], planned);
}

/// Runs the command with a file as its stdin; returns the exit code and stdout.
fn streamed(folder: &Folder, words: &str, input: &[u8]) -> (Option<i32>, Vec<u8>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memc"));
    command.current_dir(folder.path("")).args(words.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // A command that refuses its words does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), output.stdout)
}

#[test]
fn models_are_read_and_written_as_streams() {
    let folder = folder("streams");
    let model = fs::read(folder.path("in.onnx")).unwrap();
    folder.memc("optimize in.onnx -o out.onnx").done();
    let (code, out) = streamed(&folder, "- -o - --layout stream.json", &model);
    assert_eq!(code, Some(0));
    assert!(out == fs::read(folder.path("out.onnx")).unwrap());
    assert_eq!(folder.read("stream.json"), folder.read("out.layout.json"));
    let (code, out) = streamed(&folder, "report - --format text -o -", &model);
    assert_eq!((code, String::from_utf8(out).unwrap()), (Some(0), folder.memc("report in.onnx").out));
    assert_eq!(folder.names(), ["in.onnx", "out.layout.json", "out.onnx", "stream.json"]);
    assert_eq!(streamed(&folder, "report -", b"no model").0, Some(1));
    folder.memc("optimize in.onnx -o - --json").refused(2, "E0306");
    folder.memc("optimize in.onnx -o - --depfile x.d").refused(2, "E0306");
}

#[test]
fn rules_for_make_list_weights_and_target() {
    let folder = folder("rules");
    // Of the weight files that the model names, the rule lists those that exist.
    folder.memc("in.onnx out.onnx --depfile out.d").done();
    assert!(!folder.read("out.d").contains("weights"), "{}", folder.read("out.d"));
    folder.write("ort_mlp_tiny.weights", "");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/targets/cpu.toml"), folder.path("my.toml")).unwrap();
    folder.memc("in.onnx out.onnx --layout plan.h --target my.toml --depfile out.d").done();
    let rule = folder.read("out.d").replace(" \\\n  ", " ");
    let (targets, sources) = rule.trim_end().split_once(": ").unwrap();
    assert_eq!(targets, "out.onnx plan.h");
    let sources: Vec<&str> = sources.split(' ').collect();
    assert_eq!((sources[0], sources.last().copied()), ("in.onnx", Some("my.toml")));
    assert!(sources.len() > 2, "the model names files of weights: {rule}");
    folder.memc("optimize in.onnx --depfile out.d").refused(2, "E0306");
}

#[test]
fn a_model_without_a_verb_is_optimized() {
    let folder = folder("verb");
    folder.memc("in.onnx out.onnx").done();
    folder.memc("optimize in.onnx -o second.onnx").done();
    folder.memc("optimize in.onnx third.onnx").done();
    let model = |name: &str| fs::read(folder.path(name)).unwrap();
    assert!(model("out.onnx") == model("second.onnx") && model("out.onnx") == model("third.onnx"));
    folder.memc("-q --exact in.onnx -o fourth.onnx").done();
    assert_eq!(folder.memc("in.onnx out.onnx -o other.onnx").code, Some(2));
    // A mistyped verb gets the nearest one.
    let mistyped = folder.memc("reprot in.onnx");
    assert!(mistyped.code == Some(2) && mistyped.err.contains("report"), "{mistyped:#?}");
}
