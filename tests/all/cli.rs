//! The command line: plans of real models that the checker accepts, reports in every form, and stable
//! texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;

use std::fs;

use command::{Folder, model};
use insta::assert_snapshot;
use serde_json::Value;

/// Models of the test suite, with options for their dimensions.
const MODELS: &[(&str, &str)] = &[
    ("bert_base_dynamic", "--dim batch=1 --dim seq=16"),
    ("control_flow_loop_if", ""),
    ("light_squeezenet", ""),
    ("lstm_seq2seq", ""),
    ("mlp_dropout_adam_tiny", ""),
    ("mlp_grad_tiny", ""),
    ("mobilenet_v2_int8_qdq", ""),
    ("ort_mlp_accum_tiny", ""),
    ("ort_mlp_tiny", ""),
    ("swiftnet_like", ""),
    ("unet_grad_tiny", ""),
];

/// Returns a folder with a copy of a model as `in.onnx`.
fn with_model(test: &str, name: &str) -> Folder {
    let folder = Folder::new(test);
    fs::copy(model(name), folder.path("in.onnx")).unwrap();
    folder
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_model_is_planned_and_the_checker_finds_nothing() {
    let mut wrong = Vec::new();
    const OPTIONS: [&str; 5] = [
        "--runtime ort",
        "--io arena",
        "--io external",
        "--runtime ort --io arena",
        "--anchors --runtime ort",
    ];
    for (at, (name, dims)) in MODELS.iter().enumerate() {
        let folder = with_model(&format!("plan-{name}"), name);
        // Each set of options meets four models or more.
        for options in ["", OPTIONS[at % OPTIONS.len()], OPTIONS[(at + 2) % OPTIONS.len()]] {
            let planned =
                folder.memc(&format!("optimize in.onnx -o out.onnx --effort 2000 {dims} {options}")).done();
            let checked = folder.memc("check in.onnx out.onnx out.layout.json");
            if !matches!(checked.code, Some(0 | 4)) || !checked.err.contains("check: nothing wrong") {
                let first: Vec<&str> = checked.err.lines().take(4).collect();
                wrong.push(format!("{name} {options}: {}", first.join("\n")));
            }
            let layout = json(&folder.read("out.layout.json"));
            let (arena, peak) = (&layout["arenas"][0]["size"], &layout["peak"]["device"]["bytes"]);
            if arena.as_u64() < peak.as_u64() {
                wrong.push(format!(
                    "{name} {options}: the arena of {arena} bytes is below the peak of {peak}"
                ));
            }
            assert!(planned.out.is_empty(), "{name}: stdout carries data only");
        }
        assert_eq!(folder.names(), ["in.onnx", "out.layout.json", "out.onnx"]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn equal_inputs_give_equal_bytes() {
    for name in ["ort_mlp_tiny", "control_flow_loop_if", "light_squeezenet"] {
        let folder = with_model(&format!("same-{name}"), name);
        let line = "optimize in.onnx -o out.onnx --layout out.json --layout out.h --layout out.rs --layout out.csv --report out.html --report out.txt";
        let mut first: Option<Vec<Vec<u8>>> = None;
        for _ in 0..10 {
            folder.memc(line).done();
            let files: Vec<Vec<u8>> =
                folder.names().iter().map(|name| fs::read(folder.path(name)).unwrap()).collect();
            assert_eq!(files.len(), 8);
            assert!(first.get_or_insert_with(|| files.clone()) == &files, "{name} gives other bytes");
        }
    }
}

#[test]
fn a_model_may_be_planned_in_its_place() {
    let folder = with_model("in-place", "ort_mlp_tiny");
    folder.memc("optimize in.onnx -o out.onnx").done();
    folder.memc("optimize in.onnx -o in.onnx --force").done();
    assert_eq!(fs::read(folder.path("in.onnx")).unwrap(), fs::read(folder.path("out.onnx")).unwrap());
    assert_eq!(folder.read("in.layout.json"), folder.read("out.layout.json"));
}

#[test]
fn a_budget_of_the_arena_is_kept() {
    let folder = with_model("budget", "light_squeezenet");
    folder.memc("optimize in.onnx -o out.onnx").done();
    let arena = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    folder.memc(&format!("optimize in.onnx -o kept.onnx --budget {arena}")).done();
    let layout = json(&folder.read("kept.layout.json"));
    assert_eq!(layout["budget"]["device"].as_u64(), Some(arena));
    let ran = folder.memc("optimize in.onnx -o not.onnx --budget 1KiB");
    assert!(ran.code == Some(3) && !folder.path("not.onnx").exists(), "{ran:#?}");
}

#[test]
fn budgets_swept_down_are_kept_or_refused_for_a_true_reason() {
    for (name, options) in [
        ("mlp_grad_tiny", "--link host=1GB/s"),
        ("mlp_dropout_adam_tiny", ""),
        ("mlp_dropout_adam_tiny", "--runtime player --link host=100MB/s --link disk=10MB/s"),
        ("ort_mlp_accum_tiny", ""),
    ] {
        let folder = with_model("swept", name);
        folder.memc(&format!("optimize in.onnx -o out.onnx --effort 100 {options}")).done();
        let whole = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
        let (mut needed, mut smallest) = (0, whole);
        for part in [85, 60, 40] {
            let budget = whole * part / 100;
            let ran = folder
                .memc(&format!("optimize in.onnx -o out.onnx --effort 100 --budget {budget} {options}"));
            if ran.code == Some(3) {
                let bound = ran
                    .err
                    .split("every plan needs at least ")
                    .nth(1)
                    .or(ran.err.split("can need less than ").nth(1));
                let number = bound.unwrap_or_default().split(' ').next().unwrap_or_default();
                let digits: String = number.chars().filter(char::is_ascii_digit).collect();
                needed = needed.max(digits.parse().unwrap_or(0));
                continue;
            }
            assert_eq!(ran.code, Some(0), "{name} {options} {part} %: {ran:#?}");
            let arena = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
            assert!(arena <= budget, "{name} {options}: {arena} bytes for a budget of {budget}");
            smallest = smallest.min(arena);
            let checked = folder.memc("check in.onnx out.onnx out.layout.json");
            assert!(matches!(checked.code, Some(0 | 4)), "{name} {options} {part} %: {checked:#?}");
        }
        assert!(
            needed <= smallest,
            "{name} {options}: {smallest} bytes are planned, at least {needed} are said to be needed"
        );
    }
}

#[test]
fn a_time_limit_ends_searches_with_a_plan() {
    let folder = with_model("time-limit", "mlp_dropout_adam_tiny");
    folder.memc("optimize in.onnx -o out.onnx --time-limit 0").done();
    let arena = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    for (seconds, budget) in [("0", arena), ("0.05", arena), ("600", arena), ("0.05", arena * 2 / 3)] {
        // Except for 600 seconds, the effort would take hours.
        let effort = if seconds == "600" { "100" } else { "2000000000" };
        let line = format!(
            "optimize in.onnx -o out.onnx --effort {effort} --budget {budget} --time-limit {seconds}"
        );
        let ran = folder.memc(&line);
        if budget < arena && ran.code == Some(3) {
            continue;
        }
        ran.done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
    }
    for wrong in ["-1", "soon", "1e99"] {
        assert_eq!(
            folder.memc(&format!("optimize in.onnx -o out.onnx --time-limit {wrong}")).code,
            Some(2),
            "{wrong}"
        );
    }
}

#[test]
fn layouts_come_in_four_forms() {
    let folder = with_model("forms", "ort_mlp_tiny");
    folder
        .memc("optimize in.onnx -o out.onnx --layout a.json --layout a.h --layout a.rs --layout a.csv")
        .done();
    let arena = json(&folder.read("a.json"))["arenas"][0]["size"].as_u64().unwrap();
    assert!(!folder.path("out.layout.json").exists(), "the default is left out where another place is given");
    for name in ["a.h", "a.rs"] {
        assert!(
            folder.read(name).contains(&arena.to_string()),
            "{name} does not state the arena of {arena} bytes"
        );
    }
    // The solver alone finds an arena of equal size for the CSV, so the planner's offsets are as good.
    let solved = folder.memc("solve place a.csv -o b.csv").done();
    assert!(solved.err.starts_with(&format!("value {arena}  bound ")), "{solved:#?}");
    assert_eq!(folder.read("a.csv").lines().count(), folder.read("b.csv").lines().count());
}

#[test]
fn reports_come_in_every_form() {
    let folder = with_model("reports", "ort_mlp_tiny");
    folder.memc("optimize in.onnx -o out.onnx --report a.html --report a.txt --report a.json").done();
    for extension in ["html", "txt", "json", "trace.json"] {
        folder.memc(&format!("report in.onnx --layout out.layout.json -o b.{extension}")).done();
    }
    assert_eq!(folder.read("a.txt"), folder.read("b.txt"));
    assert_eq!(folder.read("a.json"), folder.read("b.json"));
    assert_eq!(folder.memc("report in.onnx --layout out.layout.json").done().out, folder.read("b.txt"));
    assert_eq!(
        folder.memc("report in.onnx --layout out.layout.json --json").done().out,
        folder.read("b.json")
    );
    assert!(json(&folder.read("b.json")).is_object());
    assert!(
        json(&folder.read("b.trace.json"))["traceEvents"].as_array().is_some_and(|events| !events.is_empty())
    );
    for name in ["a.html", "b.html"] {
        let page = folder.read(name);
        assert!(
            page.starts_with("<!DOCTYPE html>") || page.starts_with("<!doctype html>"),
            "{}",
            &page[..40]
        );
        for outside in ["http://", "https://", "src=\"", "@import"] {
            assert!(
                !page.replace("http://www.w3.org", "").contains(outside),
                "{name} loads something by {outside}"
            );
        }
    }
    // Without a layout, the report plans the model in file order.
    let own = json(&folder.memc("report in.onnx --json").done().out);
    assert!(own.is_object(), "{own}");
}

#[test]
fn json_goes_to_stdout_and_quiet_is_silent() {
    let folder = with_model("quiet", "ort_mlp_tiny");
    let ran = folder.memc("optimize in.onnx -o out.onnx --json --quiet").done();
    assert!(json(&ran.out).is_object() && ran.err.is_empty(), "{ran:#?}");
    let ran = folder.memc("--quiet optimize in.onnx -o out.onnx").done();
    assert!(ran.out.is_empty() && ran.err.is_empty(), "{ran:#?}");
    let ran = folder.memc("check in.onnx out.onnx out.layout.json --quiet").checked();
    assert!(ran.out.is_empty() && ran.err.is_empty(), "{ran:#?}");
    let ran = folder.memc("check in.onnx out.onnx out.layout.json --json --quiet").checked();
    assert_eq!(json(&ran.out)["ok"], Value::Bool(true));
    let ran = folder.memc("optimize nowhere.onnx -o out.onnx --quiet");
    assert!(ran.code == Some(1) && ran.err.contains("error[E0116]"), "errors are never silent: {ran:#?}");
}

#[test]
fn the_summary_ends_with_one_line() {
    for (name, dims) in MODELS {
        let folder = with_model(&format!("line-{name}"), name);
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {dims}")).done();
        let line = ran.err.trim_end().lines().last().unwrap().to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(
            line.starts_with("peak ") && line.contains(" -> ") && line.ends_with(" transfers"),
            "{name}: {line}"
        );
        assert!(
            words.contains(&"arena") && words.contains(&"bound") && words.contains(&"recompute"),
            "{name}: {line}"
        );
    }
}

#[test]
fn the_checker_finds_a_changed_offset_and_another_model() {
    let folder = with_model("changed", "ort_mlp_tiny");
    folder.memc("optimize in.onnx -o out.onnx").done();
    let mut layout = json(&folder.read("out.layout.json"));
    let placed = layout["tensors"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|tensor| tensor["offset"].as_u64() > Some(0))
        .unwrap();
    placed["offset"] = Value::from(1);
    folder.write("bad.json", format!("{layout}\n"));
    let ran = folder.memc("check in.onnx out.onnx bad.json");
    assert!(ran.code == Some(1) && ran.err.contains("error[E05"), "{ran:#?}");
    let ran = folder.memc("check in.onnx out.onnx bad.json --json --quiet");
    assert!(
        json(&ran.out)["ok"] == Value::Bool(false)
            && !json(&ran.out)["violations"].as_array().unwrap().is_empty(),
        "{ran:#?}"
    );
    // Check the layout against another model than its own.
    fs::copy(model("mlp_grad_tiny"), folder.path("other.onnx")).unwrap();
    let ran = folder.memc("check other.onnx out.onnx out.layout.json");
    assert!(ran.code == Some(1) && ran.err.contains("error[E0501]"), "{ran:#?}");
}

#[test]
fn printed_text_round_trips() {
    for (name, dims) in MODELS {
        let folder = with_model(&format!("text-{name}"), name);
        folder.memc(&format!("print in.onnx -o a.mem {dims}")).done();
        assert_eq!(
            folder.memc(&format!("print in.onnx --quiet {dims}")).done().out,
            folder.read("a.mem"),
            "{name}"
        );
        folder.memc("opt a.mem -o b.mem").done();
        folder.memc("opt b.mem -o c.mem").done();
        assert!(folder.read("b.mem") == folder.read("c.mem"), "{name} changes when it is read again");
        folder.memc("opt b.mem --passes fold,dce,cse,dce,view,schedule,in-place,place -o d.mem").done();
        folder.memc("opt d.mem -o e.mem").done();
        assert!(
            folder.read("d.mem") == folder.read("e.mem"),
            "{name} as a plan changes when it is read again"
        );
        assert!(folder.read("d.mem").contains("\nstage planned\n"), "{name}");
    }
}

#[test]
fn passes_can_be_printed_timed_and_dumped() {
    let folder = with_model("watched", "ort_mlp_tiny");
    let ran = folder
        .memc("optimize in.onnx -o out.onnx --print-ir-after schedule --time-passes --dump-dir dump")
        .done();
    assert!(ran.err.contains("// after schedule\nmem 1\n") && ran.err.contains(" edits\n"), "{ran:#?}");
    let mut dumps: Vec<String> = fs::read_dir(folder.path("dump"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    dumps.sort();
    assert_eq!(dumps.first().map(String::as_str), Some("00.fold.mem"));
    assert!(dumps.last().is_some_and(|name| name.ends_with(".place.mem")), "{dumps:?}");
    assert!(dumps.iter().any(|name| name.ends_with(".schedule.mem")), "{dumps:?}");
    for name in dumps {
        folder.memc(&format!("opt dump/{name} --quiet")).done();
    }
}

#[test]
fn a_refusal_lists_its_candidates() {
    let folder = with_model("refused", "ort_mlp_tiny");
    let ran = folder.memc("optimize in.onnx -o out.onnx --budget 1000 --log-plans").refused(3, "E0301");
    let table = ran.err.split("error[").next().unwrap();
    assert!(table.lines().any(|line| line.starts_with("order ")), "{ran:#?}");
    assert!(table.contains("exceeds the limit") && !table.contains("searching"), "{ran:#?}");
    assert!(!folder.memc("optimize in.onnx -o out.onnx --budget 1000").err.contains("strategy "));
}

#[test]
fn a_plan_says_how_it_was_found_and_is_repeated_by_its_trace() {
    let folder = with_model("trace", "ort_mlp_tiny");
    let ran = folder.memc("optimize in.onnx -o out.onnx --budget 250000 --log-plans").done();
    assert!(ran.err.lines().any(|line| line.starts_with("order ")), "{ran:#?}");
    assert!(ran.err.contains("best so far") && ran.err.contains("skipped"), "{ran:#?}");
    let layout = |name: &str| -> Value { serde_json::from_str(&folder.read(name)).unwrap() };
    let first = layout("out.layout.json");
    let trace = first["trace"]["passes"].as_str().unwrap();
    assert!(ran.err.contains(&format!("repeats with --passes '{trace}'")), "{ran:#?}");
    folder.memc(&format!("optimize in.onnx -o again.onnx --passes {trace}")).done();
    let again = layout("again.layout.json");
    for key in ["arenas", "schedule", "tensors"] {
        assert_eq!(first[key], again[key], "{key}");
    }
    // The text form repeats the plan as well.
    folder.memc("print in.onnx -o in.mem --quiet").done();
    folder.memc(&format!("opt in.mem --passes {trace} -o out.mem")).done();
    let size = first["arenas"][0]["size"].as_u64().unwrap();
    assert!(
        folder.read("out.mem").contains(&format!("arena @device size {size} ")),
        "{}",
        folder.read("out.mem")
    );
}

#[test]
fn lists_of_passes_operators_targets_and_codes_are_printed() {
    let folder = Folder::new("words");
    let say = |arguments: &str| folder.memc(arguments).done().out;
    assert_snapshot!("passes", say("passes"));
    assert_snapshot!("ops-conv", say("ops Conv"));
    assert_snapshot!("ops-fused-conv", say("ops com.microsoft::FusedConv"));
    assert_snapshot!("explain-e0301", say("explain E0301"));
    assert_snapshot!("targets", say("targets"));
    // The list of passes ends at an empty line. Strategies follow.
    for line in say("passes").lines().take_while(|line| !line.is_empty()) {
        let name = line.split_whitespace().next().unwrap();
        assert!(say(&format!("passes {name}")).starts_with(&format!("# {name}\n")), "{line}");
    }
    assert!(say("ops").lines().count() > 200);
    let codes = say("explain");
    assert!(codes.contains("E0507") && codes.contains("W0101"), "{codes}");
    for line in codes.lines() {
        let code = line.split_whitespace().next().unwrap();
        assert!(say(&format!("explain {}", code.to_lowercase())).starts_with(&format!("{code}: ")), "{line}");
    }
    assert_eq!(json(&say("schema layout"))["type"], "object");
    assert!(say("--version").starts_with("memc "));
}

#[test]
fn a_plan_is_made_for_a_target() {
    let folder = with_model("target", "mlp_grad_tiny");
    let target = |arguments: &str| {
        folder.memc(&format!("optimize in.onnx -o out.onnx {arguments}")).done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let layout = json(&folder.read("out.layout.json"));
        (layout["target"].clone(), layout["cost"]["modelled_ns_after"].as_f64().unwrap())
    };
    let (cpu, slow) = target("");
    assert_eq!((cpu["name"].as_str(), cpu["links"].as_array().map(Vec::len)), (Some("cpu"), Some(0)));
    let (linked, _) = target("--link host=16GB/s,20us");
    assert_eq!(linked["links"][1]["from"], "host");
    assert_eq!(linked["links"][1]["latency_ns"], 20_000);
    let (small, _) = target("--target esp32-s3");
    assert_eq!(
        (&small["spaces"][0]["capacity"], &small["spaces"][0]["alignment"]),
        (&Value::from(524_288), &Value::from(16))
    );
    // A custom target starts from a target that comes with memc.
    let text = folder
        .memc("targets cpu")
        .done()
        .out
        .replace("float = 50e9", "float = 50e3")
        .replace("\"cpu\"", "\"abacus\"");
    folder.write("abacus.toml", &text);
    let (own, slower) = target("--target abacus.toml");
    assert!(own["name"] == "abacus" && slower > 100.0 * slow, "{own} {slower} {slow}");
    folder.write("abacus.toml", format!("{text}capacity = 4096\n"));
    let ran = folder.memc("optimize in.onnx -o other.onnx --target abacus.toml").refused(3, "E0301");
    assert!(
        ran.err.contains("the capacity of device, 4,096 B, is too small")
            && !folder.path("other.onnx").exists(),
        "{ran:#?}"
    );
    // The help must not suggest a budget above the space's capacity.
    assert!(ran.err.contains("use a target with more memory") && !ran.err.contains("is enough"), "{ran:#?}");
}

#[test]
fn a_profile_takes_the_place_of_the_model() {
    let folder = with_model("profile", "mlp_grad_tiny");
    folder.memc("optimize in.onnx -o out.onnx --no-rewrite").done();
    let layout = json(&folder.read("out.layout.json"));
    let nodes: Vec<Value> = (layout["schedule"].as_array().unwrap().iter())
        .map(|node| serde_json::json!({"node": node["node"], "op": node["op"], "domain": node["domain"], "ns": 1000, "workspace": 1_000_000}))
        .collect();
    folder.write("p.json", serde_json::json!({"schema": "memc.profile/1", "nodes": nodes}).to_string());
    folder.memc("optimize in.onnx -o measured.onnx --no-rewrite --profile p.json").done();
    let measured = json(&folder.read("measured.layout.json"));
    assert_eq!(measured["cost"]["modelled_ns_after"].as_u64(), Some(1000 * nodes.len() as u64));
    assert!(measured["peak"]["device"]["bytes"].as_u64() > Some(1_000_000));
    folder.memc("check in.onnx measured.onnx measured.layout.json").checked();
    folder.write("p.json", serde_json::json!({"schema": "memc.profile/1", "nodes": nodes[1..]}).to_string());
    let ran = folder.memc("optimize in.onnx -o measured.onnx --no-rewrite --profile p.json").done();
    assert!(ran.err.contains("W0302"), "{ran:#?}");
}

#[test]
fn session_options_are_printed_for_each_language() {
    let folder = with_model("session", "mobilenet_v2_int8_qdq");
    for (language, word) in
        [("python", "PRIORITY_BASED"), ("cpp", "--anchors"), ("csharp", "--anchors"), ("rust", "--anchors")]
    {
        let ran =
            folder.memc(&format!("optimize in.onnx -o out.onnx --runtime ort --session {language}")).done();
        assert!(ran.out.contains(word) && ran.out.contains("disable_quant_qdq"), "{ran:#?}");
        let both = ["Recipe fast", "Recipe smallest", "options = smallest"];
        assert!(both.iter().all(|part| ran.out.contains(part)), "{ran:#?}");
        let fast = folder
            .memc(&format!("optimize in.onnx -o out.onnx --runtime ort --session {language}=fast"))
            .done();
        assert!(fast.out.contains("Recipe fast") && !fast.out.contains("Recipe smallest"), "{fast:#?}");
    }
    let hint = folder.memc("optimize in.onnx -o out.onnx --runtime ort").done();
    assert!(hint.err.contains("`--session python=smallest`"), "{hint:#?}");
    assert!(hint.err.trim_end().lines().last().unwrap().starts_with("peak "), "{hint:#?}");
    folder.memc("optimize in.onnx -o out.onnx --session python").refused(2, "E0306");
    folder.memc("optimize in.onnx -o out.onnx --exact --micro-batches 2").refused(2, "E0306");
    folder.memc("optimize in.onnx -o out.onnx --exact --micro-batches 1").done();
}

#[test]
fn shells_complete_verbs_and_options() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.memc(&format!("completions {shell}")).done().out;
        for word in ["optimize", "slowdown", "max-arena"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
    }
    assert_eq!(folder.memc("completions csh").code, Some(2));
    // The shell itself takes the script, and offers the verb.
    folder.write("memc.bash", folder.memc("completions bash").out);
    let program =
        ". ./memc.bash; COMP_WORDS=(memc optim); COMP_CWORD=1; _memc memc optim memc; echo ${COMPREPLY[@]}";
    let shell = std::process::Command::new("bash")
        .current_dir(folder.path(""))
        .args(["-c", program])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&shell.stdout).trim(), "optimize", "{shell:?}");
}

#[test]
fn sizes_without_sense_are_explained() {
    let folder = with_model("senseless", "bert_base_dynamic");
    let fraction = folder.memc("optimize in.onnx --dim batch=1 --dim seq=4 --budget 0.5");
    assert!(fraction.code == Some(2) && fraction.err.contains("`50%`"), "{fraction:#?}");
    let empty = folder.memc("optimize in.onnx --dim batch=0 --dim seq=4");
    assert!(empty.err.contains("remark[W0109]") && empty.err.contains("`--dim batch=0..8`"), "{empty:#?}");
    assert!(!folder.memc("optimize in.onnx --dim batch=0..2 --dim seq=4").err.contains("W0109"));
}

#[test]
fn help_of_every_command() {
    let folder = Folder::new("help");
    for command in [
        "",
        "optimize",
        "train",
        "calibrate",
        "tune",
        "report",
        "check",
        "completions",
        "diff",
        "print",
        "opt",
        "passes",
        "ops",
        "explain",
        "schema",
        "solve",
        "solve place",
        "solve order",
        "solve partition",
        "solve recompute",
    ] {
        let name = format!(
            "help-{}",
            if command.is_empty() { "memc".to_owned() } else { command.replace(' ', "-") }
        );
        assert_snapshot!(name, folder.memc(&format!("{command} --help")).done().out);
    }
}

#[test]
fn summary_and_check_in_words() {
    let folder = with_model("summary", "ort_mlp_tiny");
    assert_snapshot!("summary", folder.memc("optimize in.onnx -o out.onnx").done().err);
    assert_snapshot!("check", folder.memc("check in.onnx out.onnx out.layout.json").done().err);
    let mut layout = json(&folder.read("out.layout.json"));
    layout["arenas"][0]["size"] = Value::from(64);
    layout["weights"] = Value::from(1);
    folder.write("bad.json", format!("{layout:#}\n"));
    assert_snapshot!("check-bad", folder.memc("check in.onnx out.onnx bad.json").err);
    assert_snapshot!("budget", folder.memc("optimize in.onnx -o out.onnx --budget 1KiB").err);
}

#[test]
fn solvers_run_without_a_model() {
    let folder = Folder::new("solvers");
    // Two of three buffers are live at each step. The best arena is 8 + 4.
    folder.write("a.csv", "id,lower,upper,size\na,0,2,8\nb,1,3,4\nc,2,4,8\n");
    let ran = folder.memc("solve place a.csv -o b.csv").done();
    assert!(ran.err.starts_with("value 12  bound 12  optimal  "), "{ran:#?}");
    assert_snapshot!("solve-place", folder.read("b.csv"));
    let ran = folder.memc("solve place a.csv -o c.csv --capacity 11");
    assert!(ran.code == Some(3) && !folder.path("c.csv").exists(), "{ran:#?}");
    folder.memc("solve place a.csv -o c.csv --capacity 12").done();
    // Two wide values, each reduced by its reader: one branch after the other needs 8 + 1 + 1 bytes
    // instead of 16 + 1.
    folder.write(
        "a.json",
        r#"{"nodes": [{"id": 0, "size": 8}, {"id": 1, "size": 8}, {"id": 2, "size": 1}, {"id": 3, "size": 1}, {"id": 4, "size": 1}],
            "edges": [[0, 2], [1, 3], [2, 4], [3, 4]]}"#,
    );
    let ran = folder.memc("solve order a.json -o b.json").done();
    assert!(ran.err.starts_with("value 10  bound 10  optimal  "), "{ran:#?}");
    assert_snapshot!("solve-order", folder.read("b.json"));
    // Two accelerators: the second reads 1 unit of the first one's output, and both pay for it.
    folder.write(
        "p.json",
        r#"{"maxSizePerFPGA": 100, "maxFPGAs": 2, "nodes": [{"id": 7, "fpgaLatency": 2.5, "size": 60},
            {"id": 8, "fpgaLatency": 1, "size": 30}, {"id": 9, "fpgaLatency": 2, "size": 60}],
            "edges": [{"sourceId": 7, "destId": 8, "cost": 1}, {"sourceId": 8, "destId": 9, "cost": 0.5}]}"#,
    );
    let ran = folder.memc("solve partition p.json -o q.json").done();
    assert!(ran.err.starts_with("value 4000000000000  bound 4000000000000  optimal  "), "{ran:#?}");
    assert_snapshot!("solve-partition", folder.read("q.json"));
    assert!(
        folder.memc("solve partition p.json -o r.json --linear").done().err.contains("value 4000000000000")
    );
    // The last node reads the first value. Keeping its 4 bytes makes 8 + 2 + 4 at the peak;
    // recomputation costs 3.
    folder.write(
        "c.json",
        r#"{"nodes": [{"id": 5, "size": 4, "cost": 3}, {"id": 6, "size": 2, "cost": 1}, {"id": 7, "size": 8, "cost": 1},
            {"id": 8, "size": 1, "cost": 1}, {"id": 9, "size": 1, "cost": 1}], "edges": [[5, 6], [6, 7], [7, 8], [8, 9], [5, 9]]}"#,
    );
    let ran = folder.memc("solve recompute c.json --budget 72% -o d.json").done();
    assert!(ran.err.starts_with("value 10  bound 10 (any order)  optimal  "), "{ran:#?}");
    assert_snapshot!("solve-recompute", folder.read("d.json"));
    let ran = folder.memc("solve recompute c.json --budget 9 -o e.json");
    assert!(
        ran.code == Some(3)
            && ran.err.starts_with("a budget of 9 B is too small: node 7 needs at least 10 B "),
        "{ran:#?}"
    );
    assert_snapshot!("solve-recompute-refused", folder.read("e.json"));
}
