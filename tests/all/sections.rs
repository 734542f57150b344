//! `memc split`: models over several devices, their manifests, damaged ones, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use memc::{Devices, Model, Request, Rewriting, Runtime, Sections, Size, Weights};
use memc_check::devices::SectionFiles;
use memc_layout::devices::{Carried, Event, Manifest};

use crate::command::{Folder, model};

/// The request of `memc split` without options.
pub fn request() -> Request {
    Request::new().runtime(Runtime::Player).rewrite(Rewriting {
        enabled: false,
        exact: true,
        ..Rewriting::default()
    })
}

/// A model of the tests, divided.
fn divided(name: &str, devices: &Devices) -> (Model, Sections) {
    divided_of(Model::open(model(name)).unwrap(), devices)
}

fn divided_of(file: Model, devices: &Devices) -> (Model, Sections) {
    let request = request();
    let sections = memc::split(&file, &request, devices).unwrap();
    (file, sections)
}

/// Twelve layers of products, whose biases are six tensors that both halves read.
pub fn tied() -> Model {
    use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
    use memc_onnx_proto::onnx::{
        GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto,
        ValueInfoProto, type_proto,
    };
    use prost::Message as _;
    let weight = |name: String, dims: Vec<i64>| {
        let count = dims.iter().product::<i64>() as usize;
        let numbers =
            (0..count).flat_map(|index| ((index % 7) as f32 - 3.0).to_le_bytes()).collect::<Vec<u8>>();
        TensorProto {
            name: Some(name),
            data_type: Some(1),
            dims,
            raw_data: Some(numbers.into()),
            ..TensorProto::default()
        }
    };
    let info = |name: &str| {
        let dim = |extent| Dimension { value: Some(dimension::Value::DimValue(extent)), denotation: None };
        let shape = Some(TensorShapeProto { dim: vec![dim(4), dim(32)] });
        let kind = type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(1), shape });
        ValueInfoProto {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto { denotation: None, value: Some(kind) }),
            ..ValueInfoProto::default()
        }
    };
    let node = |op: &str, inputs: Vec<String>, output: String| NodeProto {
        name: Some(format!("n_{output}")),
        op_type: Some(op.to_owned()),
        input: inputs,
        output: vec![output],
        ..NodeProto::default()
    };
    let mut graph = GraphProto {
        name: Some("tied".to_owned()),
        input: vec![info("x0")],
        output: vec![info("x12")],
        ..GraphProto::default()
    };
    graph.initializer.extend((0..6).map(|bias| weight(format!("b{bias}"), vec![32])));
    for layer in 0..12 {
        graph.initializer.push(weight(format!("w{layer}"), vec![32, 32]));
        graph.node.push(node("MatMul", vec![format!("x{layer}"), format!("w{layer}")], format!("m{layer}")));
        graph.node.push(node(
            "Add",
            vec![format!("m{layer}"), format!("b{}", layer % 6)],
            format!("a{layer}"),
        ));
        graph.node.push(node("Relu", vec![format!("a{layer}")], format!("x{}", layer + 1)));
    }
    let opset = OperatorSetIdProto { domain: None, version: Some(17) };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    Model::from_bytes(model.encode_to_vec()).unwrap()
}

/// That model, whose input is an output as well.
fn passed() -> Model {
    use memc_onnx_proto::onnx::ModelProto;
    use prost::Message as _;
    let mut model = ModelProto::decode(tied().bytes().clone()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.output.insert(0, graph.input[0].clone());
    Model::from_bytes(model.encode_to_vec()).unwrap()
}

/// The files of a division, in memory.
pub fn files(sections: &Sections) -> Vec<SectionFiles> {
    let file = |planned: &memc::Planned| SectionFiles {
        model: Model::from_bytes(planned.model_bytes().unwrap()).unwrap(),
        text: memc_layout::to_json(&planned.layout).unwrap(),
        layout: planned.layout.clone(),
    };
    sections.planned.iter().map(file).collect()
}

/// Kinds of violations of a manifest.
pub fn kinds(given: &Model, manifest: &Manifest, files: &[SectionFiles]) -> BTreeSet<&'static str> {
    let report = memc_check::devices::check(given, manifest, files, &|_, _, _, _| None);
    report.violations.iter().map(|violation| violation.kind.name()).collect()
}

#[test]
fn models_of_every_kind_are_divided_and_checked() {
    for (name, count) in [
        ("ort_mlp_tiny", 2),
        ("light_squeezenet", 3),
        ("lstm_seq2seq", 2),
        ("swiftnet_like", 3),
        ("mobilenet_v2_int8_qdq", 2),
        ("control_flow_loop_if", 2),
    ] {
        let mut devices = Devices::new(count);
        devices.micro_batches = 2;
        let (file, sections) = divided(name, &devices);
        let manifest = &sections.manifest;
        assert_eq!(manifest.sections.len(), count, "{name}");
        let report = memc_check::devices::check(&file, manifest, &files(&sections), &|_, _, _, _| None);
        // Nodes of quantized integers are canonicalized, which the check does not prove.
        let is_proven = report.is_proven() || name == "mobilenet_v2_int8_qdq";
        assert!(report.holds() && is_proven, "{name}: {report:#?}");
        let read = memc_layout::devices::read(&memc_layout::devices::to_json(manifest).unwrap()).unwrap();
        assert_eq!(read, *manifest);
        // Equal input gives equal bytes.
        let (_, again) = divided(name, &devices);
        assert_eq!(again.manifest, *manifest, "{name}");
    }
}

#[test]
fn one_device_gets_the_plan_of_the_whole_model() {
    let (file, sections) = divided("light_squeezenet", &Devices::new(1));
    let whole = memc::plan(&file, &request()).unwrap();
    let [section] = sections.planned.as_slice() else { panic!() };
    assert_eq!(section.layout.arenas, whole.layout.arenas);
    assert_eq!(section.layout.tensors, whole.layout.tensors);
    assert_eq!(section.layout.schedule, whole.layout.schedule);
    assert!(sections.manifest.values.iter().all(|value| value.from.is_none() || value.to.is_empty()));
}

#[test]
fn budgets_bound_all_bytes_of_a_device_and_more_never_hurts() {
    let (_, free) = divided("light_squeezenet", &Devices::new(2));
    let largest = free.manifest.devices.iter().map(|device| device.peak).max().unwrap();
    let mut slowest = u64::MAX;
    for budget in [largest, largest * 5 / 4, largest * 3] {
        let mut devices = Devices::new(2);
        devices.budgets = vec![Size::Bytes(budget)];
        let (_, sections) = divided("light_squeezenet", &devices);
        assert!(
            sections.manifest.devices.iter().all(|device| device.peak <= budget),
            "{:?}",
            sections.manifest.devices
        );
        let time = |planned: &memc::Planned| planned.layout.cost.modelled_ns_after as u64;
        let time = sections.planned.iter().map(time).max().unwrap();
        assert!(time <= slowest.saturating_add(slowest / 100), "{time} {slowest}");
        slowest = time;
    }
}

/// Modelled time of the slowest section with its transfers, in nanoseconds.
fn slowest(sections: &Sections) -> f64 {
    let manifest = &sections.manifest;
    let time = |(section, planned): (&memc_layout::devices::Section, &memc::Planned)| {
        let crosses = |value: &&memc_layout::devices::Crossing| {
            let makes = value.from.as_ref() == Some(&section.device) && !value.to.is_empty();
            makes || value.from.is_some() && value.to.contains(&section.device)
        };
        let moved = manifest.values.iter().filter(crosses).map(|value| 20_000.0 + value.bytes as f64 / 10.0);
        planned.layout.cost.modelled_ns_after + moved.sum::<f64>()
    };
    manifest.sections.iter().zip(&sections.planned).map(time).fold(0.0, f64::max)
}

#[test]
fn one_more_device_is_never_slower() {
    for name in ["swiftnet_like", "light_squeezenet"] {
        let mut before = f64::INFINITY;
        for count in 1..6 {
            let mut devices = Devices::new(count);
            devices.budgets = vec![Size::Bytes(1 << 30)];
            let (_, sections) = divided(name, &devices);
            let time = slowest(&sections);
            assert!(time <= before, "{name}, {count} devices: {time} after {before}");
            before = time;
        }
    }
}

/// A change to a manifest, one of many by its number; `None` if there is no such place.
pub type Damage = fn(&mut Manifest, usize) -> Option<()>;

fn events(manifest: &mut Manifest) -> Vec<(String, usize)> {
    manifest
        .program
        .iter()
        .flat_map(|(device, events)| (0..events.len()).map(|at| (device.clone(), at)))
        .collect()
}

/// Finds the `number`-th event of a kind.
pub fn find(manifest: &Manifest, number: usize, is: impl Fn(&Event) -> bool) -> Option<(String, usize)> {
    let all = manifest.program.iter().flat_map(|(device, events)| {
        events
            .iter()
            .enumerate()
            .filter(|(_, event)| is(event))
            .map(|(at, _)| (device.clone(), at))
            .collect::<Vec<_>>()
    });
    all.collect::<Vec<_>>().get(number).cloned()
}

/// Rules with damages that each must find: name of the kind, and a change by number.
pub const DAMAGES: &[(&str, Damage)] = &[
    ("section-union", |manifest, number| {
        let all: Vec<(usize, usize)> = manifest
            .sections
            .iter()
            .enumerate()
            .flat_map(|(section, item)| (0..item.nodes.len()).map(move |node| (section, node)))
            .collect();
        let (section, node) = *all.get(number * 3)?;
        manifest.sections[section].nodes.remove(node);
        Some(())
    }),
    ("section-edge", |manifest, number| {
        let count = manifest.values.len();
        let value = manifest.values.get_mut(number / 4)?;
        match number % 4 {
            0 => value.bytes += 1,
            1 => value.shape.push(1 + (count % 2) as u64),
            2 => value.dtype = "FLOAT8".to_owned(),
            _ => value.output = !value.output,
        }
        Some(())
    }),
    ("message", |manifest, number| {
        let (device, at) =
            find(manifest, number, |event| matches!(event, Event::Send { .. } | Event::Recv { .. }))?;
        manifest.program.get_mut(&device)?.remove(at);
        Some(())
    }),
    ("message", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Send { .. }))?;
        let events = manifest.program.get_mut(&device)?;
        let event = events[at].clone();
        events.insert(at, event);
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Free(_)))?;
        manifest.program.get_mut(&device)?.remove(at);
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Run { .. }))?;
        let events = manifest.program.get_mut(&device)?;
        let run = events.remove(at);
        events.insert(at - 1, run);
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) =
            find(manifest, number, |event| matches!(event, Event::Give(_) | Event::Send { .. }))?;
        let events = manifest.program.get_mut(&device)?;
        let value = match &events[at] {
            Event::Give(Carried { value, micro_batch }) | Event::Send { value, micro_batch, .. } => {
                Carried { value: value.clone(), micro_batch: *micro_batch }
            }
            _ => return None,
        };
        let freed = events.iter().position(|event| *event == Event::Free(value.clone()))?;
        let free = events.remove(freed);
        events.insert(at, free);
        Some(())
    }),
    ("device-memory", |manifest, number| {
        let count = manifest.devices.len();
        let device = manifest.devices.get_mut(number % count)?;
        match number / count {
            0 => device.budget = Some(device.peak.checked_sub(1)?),
            1 => device.peak += 1,
            2 => device.peak = device.peak.checked_sub(1)?,
            3 => device.weights += 1,
            4 => device.arena += 64,
            5 => device.event += 1,
            6 => device.weights = 0,
            7 => device.arena = device.arena.checked_sub(1)?,
            8 => device.peak /= 2,
            9 if device.peak > 0 => device.budget = Some(0),
            _ => return None,
        }
        Some(())
    }),
    ("section-copy", |manifest, number| {
        let device = manifest.devices.last()?.name.clone();
        let count = manifest.copies.len().max(1);
        match number / count {
            0 => drop(manifest.copies.get(number).is_some().then(|| manifest.copies.remove(number))?),
            1 => manifest.copies.get_mut(number % count)?.bytes += 1,
            2 => drop(manifest.copies.get_mut(number % count)?.devices.pop()?),
            3 => manifest.copies.get_mut(number % count)?.devices.push(device),
            4 => manifest.copies.push(manifest.copies.get(number % count)?.clone()),
            5 => manifest.copies.get_mut(number % count)?.tensor.push('x'),
            _ => return None,
        }
        Some(())
    }),
    ("section-file", |manifest, number| {
        let count = manifest.sections.len();
        let section = manifest.sections.get_mut(number % count)?;
        match number / count {
            0 => section
                .model_sha256
                .replace_range(0..1, if section.model_sha256.starts_with('0') { "1" } else { "0" }),
            1 => section
                .layout_sha256
                .replace_range(3..4, if section.layout_sha256[3..].starts_with('0') { "1" } else { "0" }),
            2 => section.device.push('x'),
            3 => manifest.source.sha256.clear(),
            4 => drop(manifest.program.pop_first()),
            5 => manifest.micro_batches = 0,
            6 => manifest.values.push(manifest.values.get(number % count)?.clone()),
            7 => manifest.devices.push(manifest.devices.get(number % count)?.clone()),
            8 => manifest.values.get_mut(number % count)?.to.push("d99".to_owned()),
            9 => manifest.links.get_mut(0)?.from = format!("e{number}"),
            _ => return None,
        }
        Some(())
    }),
];

#[test]
fn each_damaged_manifest_is_refused_by_its_rule() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, count) in [("swiftnet_like", 3), ("light_squeezenet", 3), ("lstm_seq2seq", 2), ("tied", 2)] {
        let mut devices = Devices::new(count);
        devices.micro_batches = 3;
        let (file, sections) =
            if name == "tied" { divided_of(tied(), &devices) } else { divided(name, &devices) };
        let files = files(&sections);
        assert_eq!(kinds(&file, &sections.manifest, &files), BTreeSet::new());
        for (kind, damage) in DAMAGES {
            for number in 0..8 {
                let mut damaged = sections.manifest.clone();
                if damage(&mut damaged, number).is_none() || damaged == sections.manifest {
                    continue;
                }
                let kinds = kinds(&file, &damaged, &files);
                assert!(kinds.contains(kind), "{name} {kind} {number}: {kinds:?}");
                *found.entry(kind).or_default() += 1;
            }
        }
        // Two receives of one device, the later one first.
        let receives: Vec<(String, usize)> = events(&mut sections.manifest.clone());
        for (device, at) in receives {
            let mut damaged = sections.manifest.clone();
            let events = damaged.program.get_mut(&device).unwrap();
            let is_receive = |event: Option<&Event>| matches!(event, Some(Event::Recv { .. }));
            if is_receive(events.get(at)) && is_receive(events.get(at + 1)) {
                events.swap(at, at + 1);
                let kinds = kinds(&file, &damaged, &files);
                let same_sender = |one: &Event, other: &Event| matches!((one, other), (Event::Recv { from: a, .. }, Event::Recv { from: b, .. }) if a == b);
                if same_sender(&damaged.program[&device][at], &damaged.program[&device][at + 1]) {
                    assert!(kinds.contains("message"), "{name} {device} {at}: {kinds:?}");
                }
            }
        }
        // A device that waits for its own result: the first device receives from the last one first.
        let (first, last) = (
            sections.manifest.sections[0].device.clone(),
            sections.manifest.sections[count - 1].device.clone(),
        );
        for number in 0..20 {
            let mut damaged = sections.manifest.clone();
            let (value, micro_batch) = (format!("extra{number}"), number % 3);
            let at = number as usize % 3;
            damaged
                .program
                .get_mut(&first)
                .unwrap()
                .insert(at, Event::Recv { value: value.clone(), micro_batch, from: last.clone() });
            damaged.program.get_mut(&last).unwrap().push(Event::Send {
                value,
                micro_batch,
                to: first.clone(),
            });
            assert!(kinds(&file, &damaged, &files).contains("deadlock"), "{name} {number}");
            *found.entry("deadlock").or_default() += 1;
        }
    }
    for (kind, _) in DAMAGES.iter().chain(&[("deadlock", (|_, _| None) as Damage)]) {
        assert!(found[kind] >= 8, "{kind}: {found:?}");
    }
}

#[test]
fn a_section_of_other_nodes_and_a_wrong_layout_are_refused() {
    let (file, sections) = divided("swiftnet_like", &Devices::new(3));
    let originals = files(&sections);
    let mut refused = 0;
    for section in 0..3 {
        for number in 0..8 {
            // Sizes and offsets of the layout, with a hash that fits.
            let mut files = files(&sections);
            let mut damaged = sections.manifest.clone();
            let layout = &mut files[section].layout;
            let placed: Vec<usize> =
                (0..layout.tensors.len()).filter(|at| layout.tensors[*at].offset.is_some()).collect();
            let at = placed[number * 5 % placed.len()];
            let tensor = &mut layout.tensors[at];
            match number % 2 {
                0 => tensor.bytes += 64,
                _ => tensor.offset = tensor.offset.map(|offset| offset + 4),
            }
            files[section].text = memc_layout::to_json(&files[section].layout).unwrap();
            damaged.sections[section].layout_sha256 = memc::sha256(files[section].text.as_bytes());
            assert!(kinds(&file, &damaged, &files).contains("section-layout"), "{section} {number}");
            refused += 1;
        }
    }
    assert!(refused >= 20);
    // A node that the manifest lists in another section than the one that runs it.
    let mut damaged = sections.manifest.clone();
    let node = damaged.sections[0].nodes.pop().unwrap();
    damaged.sections[1].nodes.push(node);
    damaged.sections[1].nodes.sort_unstable();
    assert!(kinds(&file, &damaged, &originals).contains("section-layout"));
}

/// Paths of all numbers and words of a JSON value.
fn leaves(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| leaves(item, &format!("{path}/{at}"), found));
        }
        serde_json::Value::Object(items) => {
            items.iter().for_each(|(key, item)| leaves(item, &format!("{path}/{key}"), found))
        }
        _ => found.push(path.to_owned()),
    }
}

/// Puts values that do not belong there into each number and word of a manifest, and expects that no panic
/// follows, and that all but what decides nothing is refused. `name` is a section's or a device's, and
/// `value` one of the model's.
pub fn survives_hostile_values(file: &Model, sections: &Sections, name: &str, value: &str) {
    let files = files(sections);
    let whole = serde_json::to_value(&sections.manifest).unwrap();
    let mut paths = Vec::new();
    leaves(&whole, "", &mut paths);
    let others: [serde_json::Value; 7] = [
        0.into(),
        u64::MAX.into(),
        (1_u64 << 63).into(),
        "".into(),
        name.into(),
        value.into(),
        serde_json::Value::Null,
    ];
    let (mut read, mut refused) = (0, 0);
    for (number, path) in paths.iter().enumerate() {
        // Four of the values a place: kinds of places meet all of them.
        for turn in 0..4 {
            let mut damaged = whole.clone();
            *damaged.pointer_mut(path).unwrap() = others[(number + turn * 2) % others.len()].clone();
            let Ok(manifest) = memc_layout::devices::read(&damaged.to_string()) else { continue };
            read += 1;
            let report = memc_check::devices::check(file, &manifest, &files, &|_, _, _, _| None);
            // Versions of memc, rates, links that no value takes, and budgets above the peak decide nothing;
            // names of files are judged by whoever opens them.
            let is_file = path.ends_with("/model") || path.ends_with("/layout");
            let is_free =
                is_file || ["memc_version", "links", "budget"].iter().any(|part| path.contains(part));
            refused += usize::from(!report.holds());
            assert!(!report.holds() || manifest == sections.manifest || is_free, "{path}: {damaged:#}");
        }
    }
    assert!(read > 200 && refused > 200, "{read} {refused}");
}

#[test]
fn hostile_manifests_are_refused_without_a_panic() {
    let mut devices = Devices::new(3);
    devices.micro_batches = 2;
    let (file, sections) = divided_of(tied(), &devices);
    survives_hostile_values(&file, &sections, "d0", "x6");
}

#[test]
fn a_random_node_runs_in_one_section() {
    let mut refused = 0;
    for count in 2..6 {
        let (file, sections) = divided("mlp_dropout_adam_tiny", &Devices::new(count));
        let files = files(&sections);
        assert_eq!(kinds(&file, &sections.manifest, &files), BTreeSet::new());
        let is_random = |node: &u64| file.graph().node[*node as usize].op_type().starts_with("Random");
        let random: BTreeSet<u64> = sections
            .manifest
            .sections
            .iter()
            .flat_map(|section| &section.nodes)
            .copied()
            .filter(is_random)
            .collect();
        assert!(!random.is_empty());
        for node in random {
            for section in 0..sections.manifest.sections.len() {
                let mut damaged = sections.manifest.clone();
                let nodes = &mut damaged.sections[section].nodes;
                if !nodes.contains(&node) {
                    nodes.push(node);
                    nodes.sort_unstable();
                    assert!(kinds(&file, &damaged, &files).contains("section-random"), "{node} {section}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused >= 20, "{refused}");
}

#[test]
fn a_stated_pipeline_stage_is_the_rank() {
    use memc_onnx_proto::onnx::{ModelProto, NodeDeviceConfigurationProto};
    use prost::Message as _;
    let (file, sections) = divided("swiftnet_like", &Devices::new(3));
    for number in 0..28_i32 {
        let mut files = files(&sections);
        let mut manifest = sections.manifest.clone();
        let section = number as usize % 3;
        let mut proto = ModelProto::decode(files[section].model.bytes().clone()).unwrap();
        let nodes = &mut proto.graph.as_mut().unwrap().node;
        let at = number as usize * 3 % nodes.len();
        // Every fourth one states its rank.
        let stage = if number % 4 == 0 { section as i32 } else { section as i32 + number };
        nodes[at]
            .device_configurations
            .push(NodeDeviceConfigurationProto { pipeline_stage: Some(stage), ..Default::default() });
        files[section].model = Model::from_bytes(proto.encode_to_vec()).unwrap();
        let hash = memc::sha256(files[section].model.bytes());
        files[section].layout.model.output_sha256 = hash.clone();
        files[section].text = memc_layout::to_json(&files[section].layout).unwrap();
        manifest.sections[section].layout_sha256 = memc::sha256(files[section].text.as_bytes());
        manifest.sections[section].model_sha256 = hash;
        let found = kinds(&file, &manifest, &files);
        assert_eq!(found.contains("section-annotation"), stage != section as i32, "{number}: {found:?}");
        assert!(found.iter().all(|kind| *kind == "section-annotation"), "{number}: {found:?}");
    }
}

#[test]
fn files_are_written_together_and_checked_from_the_disk() {
    let folder = Folder::new("sections");
    std::fs::copy(model("light_squeezenet"), folder.path("in.onnx")).unwrap();
    let ran = folder.memc("split in.onnx -o parts --devices 2").done();
    assert!(ran.err.contains("d0: ") && ran.err.contains("values cross"), "{ran:#?}");
    let names: BTreeSet<String> = std::fs::read_dir(folder.path("parts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["d0.layout.json", "d0.onnx", "d1.layout.json", "d1.onnx", "manifest.json"];
    assert_eq!(names, expected.map(str::to_owned).into());
    folder.memc("check in.onnx parts/manifest.json").done();
    let manifest = folder.read("parts/manifest.json");
    folder.write("parts/bad.json", manifest.replace("\"micro_batches\": 1", "\"micro_batches\": 2"));
    let ran = folder.memc("check in.onnx parts/bad.json");
    assert!(ran.code == Some(1) && ran.err.contains("E0594"), "{ran:#?}");
    folder.write("parts/far.json", manifest.replace("\"d0.onnx\"", "\"../in.onnx\""));
    folder.memc("check in.onnx parts/far.json").refused(1, "E0116");
    folder.memc("check in.onnx parts/d0.layout.json").refused(1, "E0120");
    folder.memc("check in.onnx parts/manifest.json parts/d0.layout.json").refused(2, "E0306");
    // Each section is a model with a layout like any other.
    let given = Model::open(folder.path("in.onnx")).unwrap();
    let out = Model::open(folder.path("parts/d0.onnx")).unwrap();
    let layout = memc_layout::read(&folder.read("parts/d0.layout.json")).unwrap();
    assert!(
        !Weights::beside(&given, &out).check(&given, &out, &layout).holds(),
        "the whole model is not its first section"
    );
    assert!(folder.memc("schema devices").done().out.contains("memc.devices/1"));
}

#[test]
fn an_input_that_is_only_passed_on_is_listed() {
    use memc_onnx_proto::onnx::ModelProto;
    use prost::Message as _;
    let mut model = ModelProto::decode(tied().bytes().clone()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let aside = crate::models_made::fixed("aside", &[2]);
    graph.input.push(aside.clone());
    graph.output.push(aside);
    let folder = Folder::new("sections-aside");
    folder.write("in.onnx", model.encode_to_vec());
    folder.memc("split in.onnx -o parts --devices 2").done();
    folder.memc("check in.onnx parts/manifest.json").done();
    let manifest: serde_json::Value = serde_json::from_str(&folder.read("parts/manifest.json")).unwrap();
    let listed = manifest["values"].as_array().unwrap().iter().find(|value| value["name"] == "aside");
    let listed = listed.expect("no section reads it, but the caller gets it");
    assert!(
        listed["output"] == true && listed.get("from").is_none_or(serde_json::Value::is_null),
        "{listed}"
    );
}

#[test]
fn played_sections_give_the_results_of_the_whole_model() {
    let folder = Folder::new("played-sections");
    folder.write("in.onnx", tied().bytes());
    folder.memc("optimize in.onnx -o out.onnx --exact --runtime player").done();
    let whole = folder.memc("run out.onnx --layout out.layout.json --seed 3").done().out;
    // A graph input that is an output as well: the caller has it, and no section gives it.
    folder.write("passed.onnx", passed().bytes());
    folder.memc("optimize passed.onnx -o out.onnx --exact --runtime player").done();
    let passed = folder.memc("run out.onnx --layout out.layout.json --seed 3").done().out;
    assert_ne!(whole, passed);
    for count in 1..4 {
        for (name, expected) in [("in", &whole), ("passed", &passed)] {
            folder.memc(&format!("split {name}.onnx -o {name}{count} --devices {count}")).done();
            folder.memc(&format!("check {name}.onnx {name}{count}/manifest.json")).done();
            let ran = folder
                .memc(&format!("run {name}{count}/manifest.json --seed 3 --poison-check --outputs y.npz"))
                .done();
            assert_eq!(ran.out, *expected, "{name} {count}");
        }
    }
    // Each run of a program has inputs of its own; all devices take turns.
    folder.memc("split in.onnx -o many --devices 3 --micro-batches 4").done();
    let ran = folder.memc("run many/manifest.json --json").done();
    let ran: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let devices = ran["devices"].as_array().unwrap();
    assert!(
        devices.len() == 3
            && devices.iter().all(|device| device["bytes"].as_u64() <= device["planned"].as_u64()),
        "{ran:#}"
    );
    // Programs that wait for ever, or use what is not held, end with an error.
    let manifest = memc_layout::devices::read(&folder.read("many/manifest.json")).unwrap();
    let without = |is: fn(&Event) -> bool| {
        let mut damaged = manifest.clone();
        damaged.program.values_mut().for_each(|events| events.retain(|event| !is(event)));
        memc_layout::devices::to_json(&damaged).unwrap()
    };
    folder.write("many/silent.json", without(|event| matches!(event, Event::Send { .. })));
    folder.memc("run many/silent.json").refused(1, "E0716");
    folder.write("many/empty.json", without(|event| matches!(event, Event::Run { .. })));
    folder.memc("run many/empty.json").refused(1, "E0716");
    folder.memc("run many/manifest.json --layout out.layout.json").refused(2, "E0306");
    folder.memc("run out.onnx").refused(2, "E0306");
}

#[test]
fn requests_without_sense_leave_nothing_behind() {
    let folder = Folder::new("refused-sections");
    std::fs::copy(model("light_squeezenet"), folder.path("in.onnx")).unwrap();
    std::fs::copy(model("bert_base_dynamic"), folder.path("open.onnx")).unwrap();
    folder.write("file", "");
    for (arguments, exit, code) in [
        ("--devices 0", 2, "E0313"),
        ("--devices 1000", 2, "E0313"),
        ("--devices 2000", 2, "E0313"),
        ("--devices 2 --device-budget 2500KB", 3, "E0311"),
        ("--devices 3 --device-budget 1MB,2MB", 2, "E0313"),
        ("--devices 2 --device-budget 50%", 2, "E0313"),
        ("--devices 3 --link d0-d1=10GB/s", 2, "E0313"),
        ("--devices 2 --link d0-d2=10GB/s", 2, "E0313"),
    ] {
        folder.memc(&format!("split in.onnx -o parts --effort fast {arguments}")).refused(exit, code);
        assert!(!folder.path("parts").exists(), "{arguments}");
    }
    let small = "split in.onnx -o parts --effort fast --devices 2 --device-budget 100KB";
    let ran = folder.memc(small).refused(3, "E0311");
    assert!(ran.err.contains("node \""), "the largest piece is named: {ran:#?}");
    folder.memc("split in.onnx -o file --devices 2").refused(2, "E0306");
    folder.memc("split open.onnx -o parts --devices 2").refused(2, "E0114");
    assert!(!folder.memc("split in.onnx -o parts --devices 2 --link host=1GB/s").err.is_empty());
    assert_eq!(folder.names(), ["file", "in.onnx", "open.onnx"]);
}
