//! Times: calibrated targets, plans within a time, profiles, and the race of plans.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use serde_json::Value;

use crate::command::Folder;
use crate::models_made::{bytes, fixed, floats, node, with};

/// Tables of kinds with times that are easy to recognize: a node takes 1 ms, or 2 ms if it is a product.
const KINDS: &str = "\n[machine.kinds.product]\noverhead_ns = 2e6\nerror = 0.04\n\n[machine.kinds.elementwise]\n\
                     overhead_ns = 1e6\nerror = 0.2\n\n[machine.kinds.view]\nerror = 0.5\n";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A folder with a small model, and a target with tables of kinds.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::copy("examples/models/perceptron.onnx", folder.path("in.onnx")).unwrap();
    let text = folder.memc("targets cpu").done().out.replace("name = \"cpu\"", "name = \"mine\"");
    folder.write("mine.toml", text + KINDS);
    folder
}

#[test]
fn a_calibrated_target_gives_times_by_kind_and_their_error() {
    let folder = folder("times-kinds");
    let ran = folder.memc("optimize in.onnx -o plain.onnx --no-rewrite").done();
    assert!(ran.err.contains(", not calibrated\n"), "{ran:#?}");
    assert!(json(&folder.read("plain.layout.json"))["cost"].get("modelled_error").is_none());
    let ran = folder.memc("optimize in.onnx -o out.onnx --no-rewrite --target mine.toml").done();
    let layout = json(&folder.read("out.layout.json"));
    let time = |op: &str| match op {
        "Gemm" | "MatMul" => (2e6, 0.04),
        "Reshape" | "Flatten" => (0.0, 0.5),
        _ => (1e6, 0.2),
    };
    let times: Vec<(f64, f64)> =
        layout["schedule"].as_array().unwrap().iter().map(|row| time(row["op"].as_str().unwrap())).collect();
    let sum: f64 = times.iter().map(|(nanos, _)| nanos).sum();
    let error = times.iter().map(|(nanos, error)| nanos * error).sum::<f64>() / sum;
    assert!(sum > 2e6, "{layout:#}");
    assert_eq!(layout["cost"]["modelled_ns_after"].as_f64(), Some(sum));
    assert!((layout["cost"]["modelled_error"].as_f64().unwrap() - error).abs() < 1e-9, "{layout:#}");
    assert!(ran.err.contains(&format!(", +-{:.0} % by mine\n", (error * 100.0).ceil())), "{ran:#?}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
}

#[test]
fn wrong_tables_of_kinds_are_refused() {
    let folder = folder("times-wrong");
    let base = folder.memc("targets cpu").done().out;
    for (table, says) in [
        (
            "[machine.kinds.kernel]\nerror = 0.1\n",
            "no kind of kernel named `kernel`: the kinds are product, ",
        ),
        ("[machine.kinds.conv]\noverhead_ns = 1\n", "missing field `error`"),
        ("[machine.kinds.conv]\nerror = -0.1\n", "`error` is -0.1, but must be a share from 0 to 100"),
        ("[machine.kinds.conv]\nerror = 0.1\nflops_per_second = 0\n", "`flops_per_second` is 0, but must be"),
        ("[machine.kinds.conv]\nerror = 0.1\nspeed = 1\n", "unknown field `speed`"),
    ] {
        folder.write("wrong.toml", format!("{base}\n{table}"));
        let ran = folder.memc("optimize in.onnx -o out.onnx --target wrong.toml").refused(1, "E0308");
        assert!(ran.err.contains(says), "{says}: {ran:#?}");
    }
    assert!(!folder.path("out.onnx").exists());
}

/// A folder with a model whose wide values can be made in parts, which takes time.
fn wide(name: &str) -> Folder {
    let folder = Folder::new(name);
    let nodes = vec![
        node("MatMul", &["x", "in"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("MatMul", &["b", "out"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[512, 16])];
        graph.output = vec![fixed("y", &[512, 16])];
        graph.initializer = vec![floats("in", &[16, 512]), floats("out", &[512, 16])];
    });
    folder.write("in.onnx", bytes(&model));
    folder
}

/// Bytes of the arena and modelled time of a plan.
fn found(folder: &Folder, name: &str) -> (u64, f64) {
    let layout = json(&folder.read(&format!("{name}.layout.json")));
    (layout["arenas"][0]["size"].as_u64().unwrap(), layout["cost"]["modelled_ns_after"].as_f64().unwrap())
}

#[test]
fn a_time_gives_the_fewest_bytes_within_it() {
    let folder = wide("times-slo");
    folder.memc("optimize in.onnx -o free.onnx --effort fast").done();
    let (bytes, nanos) = found(&folder, "free");
    let mut last = (u64::MAX, 0.0);
    for share in [1.0, 3.0] {
        let slo = format!("{:.0}ns", nanos * share);
        folder.memc(&format!("optimize in.onnx -o out.onnx --effort fast --slo {slo}")).done();
        let (size, time) = found(&folder, "out");
        assert!(time <= nanos * share + 1.0 && size <= last.0, "{share}: {size} in {time}, {last:?}");
        last = (size, time);
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
    }
    assert!(last.0 < bytes, "{last:?} for {bytes}");
    let stated = json(&folder.read("out.layout.json"));
    assert!(stated["options"]["slo"].as_str().unwrap().ends_with("ms"), "{stated:#}");
}

#[test]
fn a_time_that_no_plan_keeps_is_refused_with_the_front() {
    let folder = wide("times-refused");
    let ran = folder.memc("optimize in.onnx -o out.onnx --effort fast --slo 1us").refused(3, "E0314");
    assert!(ran.err.contains("takes at most 0.001 ms: the fastest one takes "), "{ran:#?}");
    let front: Vec<&str> = ran.err.lines().filter(|line| line.contains("note: a plan of ")).collect();
    assert!(front.len() >= 2, "{ran:#?}");
    // The time of the help line is enough.
    let slo = ran.err.split("use `--slo ").nth(1).unwrap().split('`').next().unwrap();
    folder.memc(&format!("optimize in.onnx -o out.onnx --effort fast --slo {slo}")).done();
    fs::remove_file(folder.path("out.onnx")).unwrap();
    // The smallest plan of the front takes longer than the fastest one.
    let least = front
        .last()
        .unwrap()
        .split("a plan of ")
        .nth(1)
        .unwrap()
        .split(" B")
        .next()
        .unwrap()
        .replace(',', "");
    let ran =
        folder.memc(&format!("optimize in.onnx -o out.onnx --effort fast --slo {slo} --budget {least}"));
    let ran = ran.refused(3, "E0314");
    assert!(
        ran.err.contains("and needs at most ") && ran.err.contains("with this budget, or `--budget "),
        "{ran:#?}"
    );
    assert!(!folder.path("out.onnx").exists());
    for wrong in ["--slo 20", "--slo 0ms", "--slo fast", "--slo 20ms --slowdown 1%"] {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {wrong}"));
        assert!(ran.code == Some(2) && !ran.err.contains("panicked"), "{ran:#?}");
    }
}

#[cfg(feature = "ort")]
mod measured {
    use super::*;

    use memc::memc_ort::{self, Clocks, PlayOptions, Player, Runtime, inputs::Seeded};
    use memc::{Model, Request};
    use memc_ops::KernelKind;

    #[test]
    fn profiles_have_processor_times_and_serve_plans() {
        let folder = folder("times-profile");
        folder.memc("profile in.onnx -o p.json --repeat 3").done();
        let profile = json(&folder.read("p.json"));
        assert_eq!(profile["schema"], "memc.profile/2");
        for row in profile["nodes"].as_array().unwrap() {
            let (cpu, wall) = (row["cpu_ns"].as_u64().unwrap(), row["wall_ns"].as_u64().unwrap());
            assert!(
                row["disturbed"].is_boolean() && KernelKind::named(row["kind"].as_str().unwrap()).is_some(),
                "{row:#}"
            );
            // Clocks are read one after the other, so that short kernels may differ.
            assert!(cpu <= wall + 20_000 && cpu < 1_000_000_000, "{row:#}");
        }
        assert!(profile["nodes"].as_array().unwrap().iter().any(|row| row["cpu_ns"].as_u64() > Some(0)));
        let ran = folder.memc("optimize in.onnx -o out.onnx --no-rewrite --profile p.json").done();
        assert!(ran.err.contains(", measured kernels\n") && !ran.err.contains("W0302"), "{ran:#?}");
    }

    fn clock() -> u64 {
        1
    }

    #[test]
    fn probes_are_models_of_all_kinds_that_run() {
        let probes = memc_ort::probes(Some(8)).unwrap();
        let mut kinds = std::collections::BTreeMap::new();
        for file in &probes {
            let planned = memc::plan(file, &Request::new().passes("view,in-place,place")).unwrap();
            for node in &planned.module.graph(planned.module.main()).nodes {
                *kinds.entry(KernelKind::of(&planned.module, *node)).or_insert(0) += 1;
            }
        }
        let lacking = [KernelKind::ConvGradient, KernelKind::Copy, KernelKind::View, KernelKind::Other];
        for (name, kind) in KernelKind::ALL {
            assert!(
                kinds.get(&kind).is_some_and(|count| *count >= 8) || lacking.contains(&kind),
                "{name}: {kinds:?}"
            );
        }
        let pools = probes
            .iter()
            .find(|file| file.graph().node.iter().any(|node| node.op_type() == "MaxPool"))
            .unwrap();
        let planned = memc::plan(pools, &Request::new().passes("view,in-place,place")).unwrap();
        let written = Model::from_bytes(planned.model_bytes().unwrap()).unwrap();
        let runtime = Runtime::load(&memc_ort::library::find(None).unwrap()).unwrap();
        let mut player = Player::with_weights_in(
            &runtime,
            &written,
            &planned.layout,
            PlayOptions::default(),
            std::path::Path::new(""),
        )
        .unwrap();
        let inputs = Seeded::new(&written, &planned.layout, 0).unwrap();
        let rows = player.profile(&inputs, 1, Clocks { wall: clock, processor: clock }).unwrap();
        assert_eq!(rows.len(), planned.layout.schedule.len());
        assert!(rows.iter().all(|row| row.processor == 0 && row.wall == 0 && !row.is_disturbed), "{rows:?}");
    }

    #[test]
    fn a_target_is_compared_with_models() {
        let folder = folder("times-check");
        let text = folder.memc("calibrate --target mine.toml --check in.onnx --repeat 2 --json").done().out;
        let table = json(&text);
        let row = &table["models"][0];
        assert_eq!((row["name"].as_str(), table["models"].as_array().unwrap().len()), (Some("in"), 1));
        // Modelled times are milliseconds, and the kernels take microseconds.
        let ratio = row["modelled_ns"].as_f64().unwrap() / row["cpu_ns"].as_f64().unwrap();
        assert!(
            ratio > 3.0 && (table["mean_error"].as_f64().unwrap() - (ratio - 1.0)).abs() < 1e-6,
            "{table:#}"
        );
        assert_eq!(table["spread"], 1.0);
        let ran = folder.memc("calibrate --target mine.toml --check in.onnx in.onnx --repeat 1").done();
        assert!(ran.out.contains("mean error ") && ran.out.contains("product"), "{ran:#?}");
        assert_eq!(folder.names(), ["in.onnx", "mine.toml"]);
    }

    #[test]
    fn calibrations_without_a_file_a_model_or_a_runtime_are_refused() {
        let folder = folder("times-bad");
        for (words, code, exit) in [
            ("calibrate", "E0306", 2),
            ("calibrate -o mine.json", "E0306", 2),
            ("calibrate -o new.toml --base abacus", "E0306", 2),
            ("calibrate -o new.toml --base lacking.toml", "E0116", 1),
            ("calibrate -o new.toml --models lacking.onnx", "E0116", 1),
            ("calibrate --target lacking.toml --check in.onnx", "E0116", 1),
            ("calibrate --target mine.toml --check lacking.onnx", "E0116", 1),
            ("calibrate -o new.toml --ort-lib lacking.so", "E0701", 1),
            ("tune in.onnx", "E0306", 2),
            ("tune in.onnx -o -", "E0306", 2),
            ("tune in.onnx -o out.onnx --pareto 3", "E0306", 2),
            ("tune in.onnx -o out.onnx --slo 1ns --trials 8 --effort fast", "E0314", 3),
            ("tune in.onnx -o out.onnx --budget 1 --effort fast", "E0301", 3),
            ("tune in.onnx -o out.onnx --trials 1 --effort fast", "E0306", 2),
        ] {
            let ran = folder.memc(words);
            let errors = ran.err.matches("error[").count();
            assert!(
                ran.code == Some(exit) && errors == 1 && ran.err.contains(&format!("error[{code}]")),
                "{ran:#?}"
            );
        }
        for words in [
            "calibrate --check",
            "calibrate --check in.onnx -o a.toml --target mine.toml",
            "calibrate --json -o a.toml",
        ] {
            let ran = folder.memc(words);
            assert!(ran.code == Some(2) && ran.out.is_empty(), "{ran:#?}");
        }
        assert_eq!(folder.names(), ["in.onnx", "mine.toml"]);
        let ran = folder.memc("tune in.onnx -o out.onnx --lossy f16 --trials 20 --effort fast").done();
        assert!(ran.err.contains("--output out.onnx --lossy f16"), "{ran:#?}");
    }

    #[test]
    fn the_best_of_several_plans_is_written_with_its_command() {
        let folder = folder("times-tune");
        folder.memc("tune in.onnx -o out.onnx --trials 60 --effort fast").done();
        let table = json(&folder.read("out.tune.json"));
        let schema = json(&folder.memc("schema tune").done().out);
        for key in schema["required"].as_array().unwrap() {
            assert!(table.get(key.as_str().unwrap()).is_some(), "{key}: {table:#}");
        }
        assert_eq!(table.as_object().unwrap().len(), schema["properties"].as_object().unwrap().len());
        let rows = table["candidates"].as_array().unwrap();
        let row_keys = schema["properties"]["candidates"]["items"]["properties"].as_object().unwrap();
        assert!(rows.iter().all(|row| row.as_object().unwrap().keys().eq(row_keys.keys())), "{table:#}");
        let chosen: Vec<&Value> = rows.iter().filter(|row| row["state"] == "chosen").collect();
        assert_eq!((chosen.len(), table["schema"].as_str()), (1, Some("memc.tune/1")));
        assert!(
            chosen[0]["cpu_ns"]["n"].as_u64() > Some(0) && table["runs"].as_u64() <= Some(60),
            "{table:#}"
        );
        let unmeasured = rows.iter().filter(|row| row["state"] == "equal" || row["state"] == "dominated");
        assert!(unmeasured.into_iter().all(|row| row["cpu_ns"].is_null()), "{table:#}");
        // The command makes the same file without a clock.
        let (model, layout) = (fs::read(folder.path("out.onnx")).unwrap(), folder.read("out.layout.json"));
        let command = table["command"].as_str().unwrap();
        folder.memc(command.strip_prefix("memc ").unwrap()).done();
        assert_eq!(fs::read(folder.path("out.onnx")).unwrap(), model);
        assert_eq!(folder.read("out.layout.json"), layout);
        assert_eq!(json(&layout)["model"]["output_sha256"], chosen[0]["output_sha256"]);
    }
}
