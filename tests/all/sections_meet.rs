//! `memc split` with ranges of dimensions, caches, state and files of weights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use memc::{Devices, Model, Request};
use memc_ir::Range;
use memc_layout::devices::{Carried, Equal, Event, Manifest, Updated};
use memc_onnx_proto::onnx::ModelProto;

use crate::command::{Folder, model};
use crate::models_made::decoder::{self, Decoder};
use crate::models_made::{bytes, fixed, int, integers, ints, node, raw, stated, text, with};
use crate::pipelines::step;
use crate::sections::{files, kinds, request, tied};

/// Options of ranges for the decoder with free rows.
const RANGES: &str = "--dim batch=1..2 --dim past=0..12 --dim seq=1..4 --dim total=past+seq";

/// A decoder of four layers, with a free batch and free rows.
fn layers() -> Decoder {
    Decoder { layers: 4, ..decoder::free() }
}

fn ranged() -> Request {
    let range = |min, max| Range { min, max: Some(max), step: 1 };
    let mut request = request();
    request.import.ranges = [("batch".to_owned(), range(1, 2)), ("seq".to_owned(), range(1, 32))].into();
    request
}

fn manifest(folder: &Folder, path: &str) -> Manifest {
    memc_layout::devices::read(&folder.read(path)).unwrap()
}

#[test]
fn sections_of_free_dimensions_are_proven_and_played() {
    let folder = Folder::new("sections-ranges");
    folder.write("in.onnx", bytes(&layers().model()));
    folder.memc(&format!("optimize in.onnx -o out.onnx --exact --runtime player {RANGES}")).done();
    for count in [1, 2, 3] {
        folder.memc(&format!("split in.onnx -o parts{count} --devices {count} {RANGES}")).done();
        folder.memc(&format!("check in.onnx parts{count}/manifest.json")).done();
        let stated = manifest(&folder, &format!("parts{count}/manifest.json"));
        let names: Vec<&String> = stated.source.ranges.keys().collect();
        assert_eq!(names, ["batch", "past", "seq"], "{:?}", stated.source);
        assert!(
            ["past+seq", "seq+past"].contains(&stated.source.equal["total"].as_str()),
            "{:?}",
            stated.source
        );
        let crossing = stated.values.iter().find(|value| value.from.is_some() && !value.to.is_empty());
        assert_eq!(crossing.is_some(), count > 1);
        for value in stated.values.iter().filter(|value| value.shape_expr.is_some()) {
            assert!(
                value.bytes_expr.as_ref().is_some_and(|text| text.contains("seq") || text.contains("past")),
                "{value:?}"
            );
        }
        for extents in ["batch=2,past=12,seq=4", "batch=1,past=0,seq=3", "batch=2,past=5,seq=1"] {
            let dims: String = extents.split(',').map(|dim| format!(" --dim {dim}")).collect();
            let whole =
                folder.memc(&format!("run out.onnx --layout out.layout.json --seed 5{dims}")).done().out;
            let ran =
                folder.memc(&format!("run parts{count}/manifest.json --seed 5 --poison-check{dims}")).done();
            assert_eq!(ran.out, whole, "{count} devices at {extents}");
        }
    }
    folder.memc("run parts2/manifest.json --dim seq=9").refused(2, "E0715");
    folder.memc("run parts2/manifest.json --dim rows=1").refused(2, "E0715");
}

#[test]
fn damaged_ranges_are_refused() {
    let file = Model::open(model("bert_base_dynamic")).unwrap();
    let sections = memc::split(&file, &ranged(), &Devices::new(2)).unwrap();
    let originals = files(&sections);
    assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
    let free: Vec<usize> = (0..sections.manifest.values.len())
        .filter(|at| sections.manifest.values[*at].shape_expr.is_some())
        .collect();
    assert!(free.len() >= 4, "{:?}", sections.manifest.values);
    let mut refused = 0;
    for at in free {
        for number in 0..5 {
            let mut damaged = sections.manifest.clone();
            let value = &mut damaged.values[at];
            match number {
                0 => value.bytes_expr = None,
                1 => value.shape_expr = None,
                2 => value.shape_expr.as_mut().unwrap()[0] = "batch+1".to_owned(),
                3 => value.bytes -= 1,
                _ => *value.shape.last_mut().unwrap() -= 1,
            }
            assert!(kinds(&file, &damaged, &originals).contains("section-edge"), "{at} {number}");
            refused += 1;
        }
    }
    assert!(refused >= 20);
    // A section whose plan is for fewer extents.
    let mut narrow = ranged();
    narrow.import.ranges.get_mut("seq").unwrap().max = Some(31);
    let other = memc::split(&file, &narrow, &Devices::new(2)).unwrap();
    for name in ["batch", "seq"] {
        let mut damaged = sections.manifest.clone();
        damaged.source.ranges.get_mut(name).unwrap().max += 1;
        assert!(!kinds(&file, &damaged, &originals).is_empty(), "{name}");
    }
    let mut mixed = sections.manifest.clone();
    let mut all = files(&sections);
    (all[1], mixed.sections[1]) = (files(&other).remove(1), other.manifest.sections[1].clone());
    mixed.sections[1].nodes = sections.manifest.sections[1].nodes.clone();
    assert!(kinds(&file, &mixed, &all).contains("section-layout"));
}

#[test]
fn caches_that_grow_stay_on_the_device_of_their_layer() {
    let folder = Folder::new("sections-caches");
    folder.write("in.onnx", bytes(&layers().model()));
    let state = "--state present_*=past_* --dim batch=1 --dim past=12 --dim seq=1 --dim total=13";
    folder.memc(&format!("optimize in.onnx -o out.onnx --exact --runtime player {state}")).done();
    for count in [2, 4] {
        folder.memc(&format!("split in.onnx -o parts{count} --devices {count} {state}")).done();
        folder.memc(&format!("check in.onnx parts{count}/manifest.json")).checked();
        let stated = manifest(&folder, &format!("parts{count}/manifest.json"));
        // Each cache is fed to the one device that returns it, in place; all devices read the number of rows.
        assert_eq!(stated.state.len(), 8, "{:?}", stated.state);
        for Updated { section, tensor, result } in &stated.state {
            let find = |name: &String| stated.values.iter().find(|value| value.name == *name).unwrap();
            assert_eq!((&find(tensor).to, &find(tensor).from), (&vec![section.clone()], &None));
            assert!(
                find(result).to.is_empty()
                    && find(result).output
                    && find(result).from.as_ref() == Some(section)
            );
        }
        let holders: BTreeSet<&String> = stated.state.iter().map(|row| &row.section).collect();
        assert_eq!(holders.len(), count);
        let length = stated.values.iter().find(|value| value.name == "cache_length").unwrap();
        assert_eq!(length.to.len(), count, "{length:?}");
        let digest = |line: String| folder.memc(&line).done().out;
        assert_eq!(
            digest(format!("run parts{count}/manifest.json --seed 2")),
            digest("run out.onnx --layout out.layout.json --seed 2".to_owned())
        );
    }
    let names = |path: &str| std::fs::read_dir(folder.path(path)).unwrap().count();
    assert_eq!(names("parts2"), 7, "two sections, the model with caches, and the manifest");
    // The model that was divided is checked as well.
    let text = folder.read("parts2/cached.layout.json");
    folder.write("parts2/cached.layout.json", text.replacen("\"capacity\": 13", "\"capacity\": 14", 1));
    folder.memc("check in.onnx parts2/manifest.json").refused_by_rules("E0589");
    std::fs::remove_file(folder.path("parts2/cached.onnx")).unwrap();
    folder.memc("check in.onnx parts2/manifest.json").refused(1, "E0116");
    folder.memc("split in.onnx -o no --devices 2 --micro-batches 2 --state present_*=past_* --dim batch=1 --dim past=12 --dim seq=1 --dim total=13").refused(2, "E0313");
    folder
        .memc("split in.onnx -o no --devices 2 --state nothing=past_key_0 --dim batch=1 --dim past=12 --dim seq=1 --dim total=13")
        .refused(2, "E0306");
    assert!(!folder.path("no").exists());
}

/// Ways of dividing a training step.
const WAYS: [&str; 4] = [
    "--devices 2",
    "--devices 3",
    "--devices 2 --schedule 1f1b",
    "--devices 2 --schedule gpipe --micro-batches 2",
];

#[test]
fn new_values_take_the_storage_of_old_ones() {
    for arguments in WAYS {
        let folder = Folder::new("sections-state");
        std::fs::copy(model("mlp_dropout_adam_tiny"), folder.path("in.onnx")).unwrap();
        folder.memc(&format!("split in.onnx -o plain {arguments}")).done();
        folder.memc(&format!("split in.onnx -o parts --alias-state {arguments}")).done();
        folder.memc("check in.onnx parts/manifest.json").done();
        let (stated, plain) =
            (manifest(&folder, "parts/manifest.json"), manifest(&folder, "plain/manifest.json"));
        assert!(stated.state.len() >= 10, "{arguments}: {:?}", stated.state);
        let peak = |manifest: &Manifest| manifest.devices.iter().map(|device| device.peak).sum::<u64>();
        assert!(peak(&stated) < peak(&plain), "{arguments}: {} {}", peak(&stated), peak(&plain));
        // What is written over is counted with the weights of its device.
        for device in &stated.devices {
            let own: BTreeSet<&String> = stated
                .sections
                .iter()
                .filter(|section| section.device == device.name)
                .map(|section| &section.layout)
                .collect();
            let mut old: BTreeMap<String, u64> = BTreeMap::new();
            for layout in own {
                let layout = memc_layout::read(&folder.read(&format!("parts/{layout}"))).unwrap();
                let is_old =
                    |tensor: &&memc_layout::Tensor| layout.state.iter().any(|row| row.tensor == tensor.name);
                old.extend(
                    layout.tensors.iter().filter(is_old).map(|tensor| (tensor.name.clone(), tensor.bytes)),
                );
            }
            assert!(device.weights >= old.values().sum(), "{arguments}: {device:?}");
        }
        for copy in &stated.copies {
            let is_updated = stated.state.iter().any(|row| row.tensor == copy.tensor);
            assert_eq!(copy.equal == Equal::AfterStep, is_updated, "{copy:?}");
        }
    }
}

#[test]
fn played_updates_are_those_of_separate_storage() {
    for arguments in WAYS {
        let folder = Folder::new("sections-played-state");
        folder.write("in.onnx", step().bytes());
        folder.memc(&format!("split in.onnx -o plain {arguments}")).done();
        folder.memc(&format!("split in.onnx -o parts --alias-state {arguments}")).done();
        folder.memc("check in.onnx parts/manifest.json").done();
        assert!(!manifest(&folder, "parts/manifest.json").state.is_empty(), "{arguments}");
        let digest = |path: &str| folder.memc(&format!("run {path}/manifest.json --seed 2")).done().out;
        assert_eq!(digest("parts"), digest("plain"), "{arguments}");
        let ran = folder.memc("run parts/manifest.json --json").done();
        let ran: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        for device in ran["devices"].as_array().unwrap() {
            assert!(device["bytes"].as_u64() <= device["planned"].as_u64(), "{arguments}: {device}");
        }
    }
}

#[test]
fn damaged_state_is_refused() {
    let file = Model::open(model("mlp_dropout_adam_tiny")).unwrap();
    let mut own = request();
    own.alias_state = true;
    let sections = memc::split(&file, &own, &Devices::new(2)).unwrap();
    let originals = files(&sections);
    assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
    let mut refused = 0;
    for at in 0..sections.manifest.state.len() {
        for number in 0..4 {
            let mut damaged = sections.manifest.clone();
            match number {
                0 => drop(damaged.state.remove(at)),
                1 => damaged.state[at].result.push('x'),
                2 => damaged.state.push(damaged.state[at].clone()),
                _ => damaged.state[at].section = "d9".to_owned(),
            }
            assert!(kinds(&file, &damaged, &originals).contains("section-layout"), "{at} {number}");
            refused += 1;
        }
    }
    for copy in 0..sections.manifest.copies.len() {
        let mut damaged = sections.manifest.clone();
        let equal = &mut damaged.copies[copy].equal;
        *equal = if *equal == Equal::Always { Equal::AfterStep } else { Equal::Always };
        assert!(kinds(&file, &damaged, &originals).contains("section-copy"), "{copy}");
        refused += 1;
    }
    // The section runs again: it reads what it has written over.
    let mut damaged = sections.manifest.clone();
    let events = damaged.program.get_mut(&sections.manifest.state[0].section).unwrap();
    let run = events.iter().find(|event| matches!(event, Event::Run { .. })).unwrap().clone();
    events.push(run);
    assert!(kinds(&file, &damaged, &originals).contains("event-order"));
    assert!(refused >= 20, "{refused}");
}

#[test]
fn a_fed_value_is_freed_behind_the_new_one_in_its_storage() {
    let folder = Folder::new("sections-fed-state");
    folder.write("in.onnx", bytes(&layers().model()));
    folder
        .memc(
            "split in.onnx -o parts --devices 2 --state present_*=past_* --dim batch=1 --dim past=12 --dim seq=1 --dim total=13",
        )
        .done();
    let given = Model::open(folder.path("in.onnx")).unwrap();
    let path = folder.path("parts/manifest.json");
    let before = memc::check_manifest(&given, &path).unwrap();
    assert!(before.holds(), "{before:#?}");
    let stated = manifest(&folder, "parts/manifest.json");
    for row in &stated.state {
        let mut damaged = stated.clone();
        let events = damaged.program.get_mut(&row.section).unwrap();
        let at = |name: &String| {
            let free = Event::Free(Carried { value: name.clone(), micro_batch: 0 });
            stated.program[&row.section].iter().position(|event| *event == free).unwrap()
        };
        let (old, new) = (at(&row.tensor), at(&row.result));
        assert!(new < old);
        events.swap(old, new);
        folder.write("parts/early.json", memc_layout::devices::to_json(&damaged).unwrap());
        let report = memc::check_manifest(&given, &folder.path("parts/early.json")).unwrap();
        let found: BTreeSet<&str> = report.violations.iter().map(|violation| violation.kind.name()).collect();
        assert!(found.contains("event-order"), "{row:?}: {found:?}");
    }
}

#[test]
fn each_section_has_a_file_of_weights() {
    let folder = Folder::new("sections-weights");
    folder.write("in.onnx", tied().bytes());
    folder.memc("split in.onnx -o inside --devices 2").done();
    folder.memc("split in.onnx -o parts --devices 2 --external-data weights.bin,align=4KiB").done();
    folder.memc("check in.onnx parts/manifest.json").done();
    let digest = |path: &str| folder.memc(&format!("run {path}/manifest.json --seed 2")).done().out;
    assert_eq!(digest("parts"), digest("inside"));
    let length = |path: String| std::fs::metadata(folder.path(&path)).unwrap().len();
    let sum = |of: &dyn Fn(&str) -> String| ["d0", "d1"].iter().map(|name| length(of(name))).sum::<u64>();
    // All matrices are equal, so each section has one.
    assert!(sum(&|name| format!("parts/{name}.weights.bin")) >= 2 * 4096);
    assert!(sum(&|name| format!("parts/{name}.onnx")) < sum(&|name| format!("inside/{name}.onnx")) / 2);
    // The files that the sections name are compared with the given weights.
    let mut damaged = std::fs::read(folder.path("parts/d1.weights.bin")).unwrap();
    damaged[64] ^= 1;
    folder.write("parts/d1.weights.bin", damaged);
    assert_eq!(folder.memc("check in.onnx parts/manifest.json").code, Some(4));
}

/// The gradient of a MaxPool behind a Relu, as exporters write it: scattered, then masked.
fn pooled_gradient() -> ModelProto {
    let shapes = [("x", [2, 3, 8, 8]), ("g", [2, 3, 4, 4]), ("y", [2, 3, 8, 8]), ("p", [2, 3, 4, 4])];
    let pool = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let nodes = vec![
        node("Relu", &["x"], &["r"]),
        stated(node("MaxPool", &["r"], &["p", "i"]), pool),
        node("Neg", &["g"], &["d"]),
        node("Reshape", &["i", "flat"], &["j"]),
        node("Reshape", &["d", "flat"], &["u"]),
        node("Expand", &["zero", "all"], &["b"]),
        stated(
            node("ScatterElements", &["b", "j", "u"], &["f"]),
            vec![int("axis", 0), text("reduction", "add")],
        ),
        node("Reshape", &["f", "image"], &["s"]),
        node("LessOrEqual", &["r", "zero"], &["m"]),
        node("Where", &["m", "zero", "s"], &["y"]),
    ];
    let mut proto = with(nodes, |graph| {
        let info = |at: usize| fixed(shapes[at].0, &shapes[at].1);
        graph.input = vec![info(0), info(1)];
        graph.output = vec![info(2), info(3)];
        let lists = [("flat", vec![-1]), ("all", vec![384]), ("image", vec![2, 3, 8, 8])];
        graph.initializer = lists.iter().map(|(name, values)| integers(name, values)).collect();
        graph.initializer.push(raw("zero", &[], &0_f32.to_le_bytes()));
    });
    proto.opset_import[0].version = Some(18);
    proto
}

#[test]
fn gradients_of_exporters_are_proven_without_rewrites() {
    let folder = Folder::new("sections-exported");
    folder.write("in.onnx", bytes(&pooled_gradient()));
    folder.memc("split in.onnx -o parts --devices 1").done();
    folder.memc("check in.onnx parts/manifest.json").done();
    // With rewrites, the mask moves to the pooled gradient, which the check cannot follow.
    folder.memc("split in.onnx -o moved --devices 1 --rewrite exact").done();
    assert_eq!(folder.memc("check in.onnx moved/manifest.json").code, Some(4));
}

#[test]
fn a_file_states_the_devices() {
    let folder = Folder::new("sections-cluster");
    folder.write("in.onnx", tied().bytes());
    folder.write(
        "cluster.toml",
        "devices = 3\ntarget = \"cpu\"\nbudgets = [\"60KB\", \"60KB\", \"80KB\"]\nlinks = [\"d0-d1=1GB/s\", \"d1-d2=2GB/s,5us\", \"d0-d2=1GB/s\"]\n",
    );
    folder.memc("split in.onnx -o parts --target cluster.toml").done();
    let stated = manifest(&folder, "parts/manifest.json");
    let budgets: Vec<Option<u64>> = stated.devices.iter().map(|device| device.budget).collect();
    assert_eq!(budgets, [Some(60_000), Some(60_000), Some(80_000)]);
    let links: Vec<f64> = stated.links.iter().map(|link| link.bytes_per_second).collect();
    assert_eq!((links, stated.links[1].latency_ns), (vec![1e9, 2e9, 1e9], 5000.0));
    folder
        .memc("split in.onnx -o same --device-budget 60KB,60KB,80KB --devices 3 --link d0-d1=1GB/s --link d1-d2=2GB/s,5us --link d0-d2=1GB/s")
        .done();
    assert_eq!(folder.read("same/manifest.json"), folder.read("parts/manifest.json"));
    // Devices in a chain: a value that skips one has no link.
    folder.memc("split in.onnx -o chain --devices 3 --link d0-d1=1GB/s --link d1-d2=2GB/s,5us").done();
    folder.memc("check in.onnx chain/manifest.json").done();
    let far = "--device-budget 60KB,60KB,80KB --devices 3 --link d0-d1=1GB/s --link d1-d2=2GB/s,5us";
    folder.memc(&format!("split in.onnx -o no {far}")).refused(2, "E0313");
    folder.memc("split in.onnx -o no --target cluster.toml --devices 2").refused(2, "E0306");
    folder.memc("split in.onnx -o no").refused(2, "E0306");
    for text in [
        "devices = \"two\"",
        "devices = 2\nlinks = [3]",
        "devices = 2\nlinks = [\"d0\"]",
        "devices = 2\nspeed = 1",
    ] {
        folder.write("wrong.toml", text);
        folder.memc("split in.onnx -o no --target wrong.toml").refused(2, "E0306");
    }
    assert!(!folder.path("no").exists());
}
