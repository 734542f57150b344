//! `memc split --schedule`: training steps over several devices, their programs, damaged ones, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use memc::{Devices, Model, Sections, Size};
use memc_check::devices::SectionFiles;
use memc_layout::devices::{Carried, Event, Join, Manifest, Phase, Repeated, Schedule};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};
use memc_ort::inputs::Inputs;
use memc_ort::npz::Archive;
use prost::Message as _;

use crate::command::{Folder, model};
use crate::sections::{DAMAGES, Damage, files, find, kinds, request, survives_hostile_values};

const SCHEDULES: [Schedule; 2] = [Schedule::OneForwardOneBackward, Schedule::Gpipe];

/// A step, divided.
fn divided(file: &Model, count: usize, parts: u64, schedule: Schedule) -> Sections {
    let mut devices = Devices::new(count);
    devices.micro_batches = parts;
    devices.schedule = Some(schedule);
    memc::split(file, &request(), &devices).unwrap()
}

fn float(name: &str, dims: &[i64], at: fn(i64) -> f32) -> TensorProto {
    let numbers = (0..dims.iter().product()).flat_map(|index| at(index).to_le_bytes()).collect::<Vec<u8>>();
    let (name, dims, raw_data) = (Some(name.to_owned()), dims.to_vec(), Some(numbers.into()));
    TensorProto { name, data_type: Some(1), dims, raw_data, ..TensorProto::default() }
}

/// A step with all that a batch of eight needs: products of parts, a mean, a count of all labels, a share of
/// what is made once (`bias`), a constant with equal shares (`ones`), and an update of parameters.
pub fn step() -> Model {
    let info = |name: &str, dims: &[i64]| {
        let dim =
            |extent: &i64| Dimension { value: Some(dimension::Value::DimValue(*extent)), denotation: None };
        let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
        let kind = type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(1), shape });
        let r#type = Some(TypeProto { denotation: None, value: Some(kind) });
        ValueInfoProto { name: Some(name.to_owned()), r#type, ..ValueInfoProto::default() }
    };
    let node = |op: &str, inputs: &str, output: &str| NodeProto {
        name: Some(format!("n_{output}")),
        op_type: Some(op.to_owned()),
        input: inputs.split(' ').map(str::to_owned).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    };
    let mut graph = GraphProto {
        name: Some("step".to_owned()),
        input: vec![
            info("x", &[8, 6]),
            info("y", &[8, 6]),
            info("lr", &[]),
            info("w", &[6, 6]),
            info("v", &[6, 6]),
        ],
        output: ["loss", "out", "new.w", "new.v"]
            .map(|name| {
                info(
                    name,
                    if name == "loss" {
                        &[]
                    } else if name == "out" {
                        &[8, 6]
                    } else {
                        &[6, 6]
                    },
                )
            })
            .into(),
        ..GraphProto::default()
    };
    graph.initializer.push(float("w", &[6, 6], |index| (index % 5) as f32 / 8.0 - 0.2));
    graph.initializer.push(float("v", &[6, 6], |index| (index % 7) as f32 / 8.0 - 0.3));
    graph.initializer.push(float("c", &[8, 6], |index| (index % 9) as f32 - 4.0));
    graph.initializer.push(float("ones", &[8, 6], |_| 1.0));
    graph.node = vec![
        node("Relu", "c", "bias"),
        node("Add", "x bias", "h"),
        node("MatMul", "h w", "a"),
        node("Relu", "a", "r"),
        node("MatMul", "r v", "out"),
        node("Sub", "out y", "d"),
        node("Mul", "d d", "dd"),
        node("Exp", "y", "e"),
        node("ReduceSum", "e", "count"),
        node("ReduceSum", "dd", "sum"),
        node("Div", "sum count", "loss"),
        node("Div", "d count", "dl"),
        node("Add", "dl dl", "dl2"),
        node("Mul", "dl2 ones", "dout"),
        node("Transpose", "r", "rt"),
        node("MatMul", "rt dout", "gv"),
        node("Transpose", "v", "vt"),
        node("MatMul", "dout vt", "dr"),
        node("Sign", "r", "mask"),
        node("Mul", "dr mask", "da"),
        node("Transpose", "h", "ht"),
        node("MatMul", "ht da", "gw"),
        node("Mul", "gw lr", "uw"),
        node("Sub", "w uw", "new.w"),
        node("Mul", "gv lr", "uv"),
        node("Sub", "v uv", "new.v"),
    ];
    for reduce in graph.node.iter_mut().filter(|node| node.op_type() == "ReduceSum") {
        let (name, r#type, i) = (Some("keepdims".to_owned()), Some(AttributeType::Int as i32), Some(0));
        reduce.attribute.push(AttributeProto { name, r#type, i, ..AttributeProto::default() });
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

/// Steps of the tests: the hand-made one, exported ones, and one by `memc train`.
pub fn steps(folder: &Folder) -> Vec<(&'static str, Model)> {
    folder.write("hand.onnx", step().bytes());
    for name in ["mlp_grad_tiny", "unet_grad_tiny"] {
        std::fs::copy(model(name), folder.path(&format!("{name}.onnx"))).unwrap();
    }
    std::fs::copy("examples/models/perceptron.onnx", folder.path("forward.onnx")).unwrap();
    folder
        .memc("train forward.onnx -o train.onnx --loss cross-entropy --labels labels --optimizer adamw --clip global=1 -q")
        .done();
    let all = ["hand", "mlp_grad_tiny", "unet_grad_tiny", "train"];
    all.map(|name| (name, Model::open(folder.path(&format!("{name}.onnx"))).unwrap())).into()
}

#[test]
fn steps_of_every_kind_are_divided_and_checked() {
    let folder = Folder::new("pipelines");
    for (name, file) in steps(&folder) {
        for (count, parts, schedule) in
            [(1, 1, SCHEDULES[0]), (2, 1, SCHEDULES[1]), (2, 4, SCHEDULES[0]), (2, 2, SCHEDULES[1])]
        {
            // The batch of this model is one.
            if name == "unet_grad_tiny" && parts > 1 {
                continue;
            }
            let sections = divided(&file, count, parts, schedule);
            let manifest = &sections.manifest;
            let report = memc_check::devices::check(&file, manifest, &files(&sections), &|_, _, _, _| None);
            assert!(report.holds(), "{name} {count} {parts}: {report:#?}");
            let is_rewritten = ["mlp_grad_tiny", "unet_grad_tiny"].contains(&name);
            assert!(report.is_proven() || is_rewritten, "{name} {count} {parts}: {report:#?}");
            let read = memc_layout::devices::read(&memc_layout::devices::to_json(manifest).unwrap()).unwrap();
            assert_eq!(read, *manifest);
            assert_eq!(divided(&file, count, parts, schedule).manifest, *manifest, "{name}");
            // The loss may be alone on the last device: gradients do not read it.
            let of = |phase: Phase| {
                manifest.sections.iter().filter(|section| section.phase == Some(phase)).count()
            };
            assert!(
                of(Phase::Forward) == count && of(Phase::Backward) + 1 >= count && of(Phase::Backward) > 0,
                "{name}"
            );
        }
    }
}

#[test]
fn every_way_of_joining_is_in_the_hand_made_step() {
    let sections = divided(&step(), 2, 4, Schedule::Gpipe);
    let manifest = &sections.manifest;
    let value = |name: &str| manifest.values.iter().find(|value| value.name == name).unwrap();
    assert!(value("lr").once && value("count").once);
    assert_eq!(value("bias").joined.as_ref().unwrap().by, Join::Concat);
    assert_eq!(value("out").joined.as_ref().unwrap().shape, [8, 6]);
    assert_eq!((value("x").shape.as_slice(), value("x").bytes), ([2, 6].as_slice(), 48));
    let gradient = manifest.values.iter().find(|value| value.name == "gw").unwrap();
    assert_eq!(gradient.joined.as_ref().unwrap().by, Join::Sum);
    assert_eq!(
        manifest.pipeline.as_ref().unwrap().repeated,
        [Repeated { value: "ones".to_owned(), axis: 0 }]
    );
    assert!(manifest.program.values().flatten().any(|event| matches!(event, Event::Share(_))));
    let phases: BTreeSet<Phase> = manifest.sections.iter().filter_map(|section| section.phase).collect();
    assert_eq!(phases.len(), 4, "{phases:?}");
    // The update of a parameter is on the device that reads it in the forward pass.
    let section = |phase: Phase, name: &str| {
        let node = step().graph().node.iter().position(|node| node.output[0] == name).unwrap() as u64;
        let found = manifest
            .sections
            .iter()
            .find(|section| section.phase == Some(phase) && section.nodes.contains(&node));
        found.map(|section| section.device.clone())
    };
    for (product, update) in [("a", "new.w"), ("out", "new.v")] {
        assert!(section(Phase::Forward, product).is_some());
        assert_eq!(section(Phase::Forward, product), section(Phase::Update, update));
    }
}

/// All arrays of a file, as numbers.
fn numbers(folder: &Folder, name: &str) -> BTreeMap<String, Vec<f32>> {
    let archive = Archive::open(&folder.path(name)).unwrap();
    let names: Vec<String> = archive.names().into_iter().map(str::to_owned).collect();
    let read = |name: String| {
        let (element, dims) = archive.kind(&name).unwrap();
        let mut bytes = vec![0_u8; element.bytes(dims).unwrap() as usize];
        archive.fill(&name, &mut bytes).unwrap();
        let all = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        (name, all)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn played_steps_have_the_bits_of_the_whole_or_of_serial_parts() {
    let folder = Folder::new("played-pipelines");
    // The weights of exported steps are not at hand.
    steps(&folder);
    for name in ["hand", "train"] {
        folder
            .memc(&format!("optimize {name}.onnx -o whole.onnx --exact --no-rewrite --runtime player"))
            .done();
        let whole =
            folder.memc("run whole.onnx --layout whole.layout.json --seed 3 --outputs whole.npz").done().out;
        for count in [1, 2, 3] {
            folder
                .memc(&format!("split {name}.onnx -o p{name}{count} --devices {count} --schedule 1f1b"))
                .done();
            let ran =
                folder.memc(&format!("run p{name}{count}/manifest.json --seed 3 --poison-check")).done();
            assert_eq!(ran.out, whole, "{name} {count}");
        }
        let mut serial = None;
        for (count, schedule) in [(1, "gpipe"), (2, "gpipe"), (2, "1f1b"), (3, "1f1b")] {
            let parts = format!("m{name}{count}{schedule}");
            folder
                .memc(&format!(
                    "split {name}.onnx -o {parts} --devices {count} --schedule {schedule} --micro-batches 4"
                ))
                .done();
            let ran =
                folder.memc(&format!("run {parts}/manifest.json --seed 3 --outputs parts.npz --json")).done();
            let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            for device in told["devices"].as_array().unwrap() {
                assert!(device["bytes"].as_u64() <= device["planned"].as_u64(), "{name} {parts}: {told:#}");
            }
            assert_eq!(serial.get_or_insert(told["digest"].clone()), &told["digest"], "{name} {parts}");
        }
        let (one, other) = (numbers(&folder, "whole.npz"), numbers(&folder, "parts.npz"));
        assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (output, numbers) in one {
            let largest = numbers.iter().fold(1e-6_f32, |most, number| most.max(number.abs()));
            let apart = numbers.iter().zip(&other[&output]).map(|(one, other)| (one - other).abs());
            assert!(apart.fold(0.0, f32::max) <= 1e-5 * largest, "{name} {output}");
        }
    }
}

#[test]
fn one_forward_one_backward_holds_fewer_parts_than_all_forward_first() {
    let file = Model::open(model("mlp_grad_tiny")).unwrap();
    let [turns, all] = SCHEDULES.map(|schedule| divided(&file, 3, 8, schedule));
    let most = |sections: &Sections, device: &str| {
        let (mut held, mut most) = (BTreeSet::new(), 0);
        for event in &sections.manifest.program[device] {
            match event {
                Event::Run { micro_batch, section: Some(name) } if name.ends_with("forward") => {
                    _ = held.insert(*micro_batch)
                }
                Event::Run { micro_batch, section: Some(name) } if name.ends_with("backward") => {
                    _ = held.remove(micro_batch)
                }
                _ => {}
            }
            most = most.max(held.len());
        }
        most
    };
    assert_eq!(["d0", "d1", "d2"].map(|device| most(&turns, device)), [3, 2, 1]);
    assert_eq!(["d0", "d1", "d2"].map(|device| most(&all, device)), [8, 8, 8]);
}

#[test]
fn a_device_beyond_its_budget_runs_forward_nodes_again() {
    let file = Model::open(model("unet_grad_tiny")).unwrap();
    let free = divided(&file, 2, 1, Schedule::OneForwardOneBackward);
    let peak = |rank: usize| free.manifest.devices[rank].peak;
    let again = |sections: &Sections| {
        let nodes = |phase: Phase| -> BTreeSet<u64> {
            let own = sections
                .manifest
                .sections
                .iter()
                .filter(|section| section.device == "d0" && section.phase == Some(phase));
            own.flat_map(|section| section.nodes.clone()).collect()
        };
        nodes(Phase::Forward).intersection(&nodes(Phase::Backward)).count()
    };
    let mut devices = Devices::new(2);
    devices.schedule = Some(Schedule::OneForwardOneBackward);
    devices.budgets = vec![Size::Bytes(peak(0) / 10 * 7), Size::Bytes(peak(1) * 2)];
    let limited = memc::split(&file, &request(), &devices).unwrap();
    assert!(limited.manifest.devices.iter().all(|device| device.peak <= device.budget.unwrap()));
    assert!(again(&limited) >= again(&free) + 8, "{} {}", again(&limited), again(&free));
    assert_eq!(kinds(&file, &limited.manifest, &files(&limited)), BTreeSet::new());
}

fn damaged(manifest: &Manifest, damage: Damage, number: usize) -> Option<Manifest> {
    let mut damaged = manifest.clone();
    damage(&mut damaged, number)?;
    (damaged != *manifest).then_some(damaged)
}

/// Position of the damage that moves a run before the event before it: in a pipeline, this may be another
/// run's.
const RUN_EARLIER: usize = 5;

/// Damages of a pipeline of several parts: name of the kind, and a change by number.
const OF_PARTS: &[(&str, Damage)] = &[
    ("section-part", |manifest, number| {
        let value = manifest.values.iter_mut().filter(|value| value.joined.is_some()).nth(number / 3)?;
        let joined = value.joined.as_mut()?;
        match number % 3 {
            0 => joined.by = if joined.by == Join::Mean { Join::Sum } else { Join::Mean },
            1 => joined.axis = Some(joined.axis.map_or(0, |axis| axis + 7)),
            _ => value.joined = None,
        }
        Some(())
    }),
    ("section-part", |manifest, number| {
        let value =
            manifest.values.iter_mut().filter(|value| value.joined.is_some() || value.once).nth(number)?;
        value.once = !value.once;
        Some(())
    }),
    ("section-part", |manifest, number| {
        manifest.sections.get_mut(number)?.phase = None;
        Some(())
    }),
    ("section-part", |manifest, number| {
        let all = &mut manifest.pipeline.as_mut()?.repeated;
        match number {
            0 => drop(all.pop()?),
            1 => all.get_mut(0)?.axis += 1,
            2 => all.push(Repeated { value: "x".to_owned(), axis: 0 }),
            _ => return None,
        }
        Some(())
    }),
    ("section-edge", |manifest, number| {
        let value = manifest.values.iter_mut().filter(|value| value.joined.is_some()).nth(number / 2)?;
        let joined = value.joined.as_mut()?;
        match number % 2 {
            0 => joined.bytes += 4,
            _ => joined.shape.push(1),
        }
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Join(_) | Event::Share(_)))?;
        manifest.program.get_mut(&device)?.remove(at);
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Join(_) | Event::Share(_)))?;
        let events = manifest.program.get_mut(&device)?;
        let event = events[at].clone();
        events.insert(at, event);
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Join(_)))?;
        let events = manifest.program.get_mut(&device)?;
        if let Event::Join(Carried { micro_batch, .. }) = &mut events[at] {
            *micro_batch = (*micro_batch + 1) % 4;
        }
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Run { .. }))?;
        if let Event::Run { micro_batch, section } = &mut manifest.program.get_mut(&device)?[at] {
            match number % 3 {
                0 => *micro_batch += 1,
                1 => *section = None,
                _ => section.as_mut()?.push('x'),
            }
        }
        Some(())
    }),
    ("section-union", |manifest, number| {
        let alone = |manifest: &Manifest, node: &u64| {
            manifest.sections.iter().filter(|section| section.nodes.contains(node)).count() == 1
        };
        let all: Vec<(usize, u64)> = manifest
            .sections
            .iter()
            .enumerate()
            .filter(|(_, section)| manifest.is_once(section))
            .flat_map(|(at, section)| section.nodes.iter().map(move |node| (at, *node)))
            .filter(|(_, node)| alone(manifest, node))
            .collect();
        let (at, node) = *all.get(number)?;
        manifest.sections[at].nodes.retain(|other| *other != node);
        Some(())
    }),
    ("section-random", |manifest, number| {
        // A random node in the sections of all parts.
        let random = manifest.sections.iter().position(|section| section.phase == Some(Phase::Prepare))?;
        let node = *manifest.sections[random].nodes.first()?;
        let section = manifest
            .sections
            .iter_mut()
            .filter(|section| section.phase == Some(Phase::Forward))
            .nth(number)?;
        section.nodes.push(node);
        section.nodes.sort_unstable();
        Some(())
    }),
];

#[test]
fn each_damaged_pipeline_is_refused_by_its_rule() {
    let folder = Folder::new("damaged-pipelines");
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, file) in steps(&folder) {
        let count = if name == "hand" { 2 } else { 3 };
        let sections = divided(&file, count, 1, Schedule::Gpipe);
        let originals = files(&sections);
        assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
        // With one part, damages are those of any division; nodes that several sections run are of no use.
        for (_, (kind, damage)) in DAMAGES
            .iter()
            .enumerate()
            .filter(|(at, (kind, _))| *kind != "section-union" && *at != RUN_EARLIER)
        {
            for number in 0..3 {
                let Some(damaged) = damaged(&sections.manifest, *damage, number) else { continue };
                let found_kinds = kinds(&file, &damaged, &originals);
                assert!(found_kinds.contains(kind), "{name} {kind} {number}: {found_kinds:?}");
                *found.entry(kind).or_default() += 1;
            }
        }
        if name == "unet_grad_tiny" {
            continue;
        }
        for (parts, schedule) in [(4, Schedule::Gpipe), (2, Schedule::OneForwardOneBackward)] {
            let sections = divided(&file, count, parts, schedule);
            let originals = files(&sections);
            assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
            for (at, (kind, damage)) in
                OF_PARTS.iter().enumerate().filter(|(_, (kind, _))| *kind != "section-random")
            {
                for number in 0..8 {
                    let Some(damaged) = damaged(&sections.manifest, *damage, number) else { continue };
                    let found_kinds = kinds(&file, &damaged, &originals);
                    assert!(found_kinds.contains(kind), "{name} {kind} {at} {number}: {found_kinds:?}");
                    *found.entry(kind).or_default() += 1;
                }
            }
            // All damages of other divisions are noticed, by one rule or another.
            for (_, (kind, damage)) in DAMAGES.iter().enumerate().filter(|(at, _)| *at != RUN_EARLIER) {
                for number in (0..24).step_by(12) {
                    let Some(damaged) = damaged(&sections.manifest, *damage, number) else { continue };
                    assert!(!kinds(&file, &damaged, &originals).is_empty(), "{name} {kind} {number}");
                }
            }
        }
    }
    for (kind, _) in OF_PARTS.iter().filter(|(kind, _)| !["section-union", "section-random"].contains(kind)) {
        assert!(found[kind] >= 8, "{kind}: {found:?}");
    }
}

#[test]
fn another_schedule_than_the_stated_one_is_refused() {
    let file = step();
    let mut refused = 0;
    for parts in [4, 8] {
        let turns = divided(&file, 2, parts, Schedule::OneForwardOneBackward);
        let mut manifest = turns.manifest.clone();
        manifest.pipeline.as_mut().unwrap().schedule = Schedule::Gpipe;
        assert!(kinds(&file, &manifest, &files(&turns)).contains("section-part"));
        let all = divided(&file, 2, parts, Schedule::Gpipe);
        let mut manifest = all.manifest.clone();
        manifest.pipeline.as_mut().unwrap().schedule = Schedule::OneForwardOneBackward;
        assert!(kinds(&file, &manifest, &files(&all)).contains("section-part"));
        refused += 2;
    }
    assert_eq!(refused, 4);
}

#[test]
fn a_node_of_the_whole_batch_in_a_part_is_refused() {
    let file = step();
    let sections = divided(&file, 2, 4, Schedule::Gpipe);
    let originals: Vec<SectionFiles> = files(&sections);
    let mut refused = 0;
    // Nodes of once-a-step sections in sections of parts, and the other way round.
    for from in 0..sections.manifest.sections.len() {
        for to in 0..sections.manifest.sections.len() {
            let is_once = |at: usize| sections.manifest.is_once(&sections.manifest.sections[at]);
            if is_once(from) == is_once(to) {
                continue;
            }
            for node in sections.manifest.sections[from].nodes.clone() {
                let mut damaged = sections.manifest.clone();
                if damaged.sections[to].nodes.contains(&node) {
                    continue;
                }
                damaged.sections[to].nodes.push(node);
                damaged.sections[to].nodes.sort_unstable();
                assert!(!kinds(&file, &damaged, &originals).is_empty(), "{from} {to} {node}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 20, "{refused}");
    // Sections that run as often as the others.
    for at in 0..sections.manifest.sections.len() {
        let mut damaged = sections.manifest.clone();
        let is_once = damaged.sections[at].phase.unwrap().is_once();
        damaged.sections[at].phase = Some(if is_once { Phase::Forward } else { Phase::Update });
        assert!(!kinds(&file, &damaged, &originals).is_empty(), "{at}");
    }
}

#[test]
fn hostile_pipelines_are_refused_without_a_panic() {
    let file = step();
    let sections = divided(&file, 2, 2, Schedule::OneForwardOneBackward);
    survives_hostile_values(&file, &sections, "d0.forward", "gw");
}

#[test]
fn a_random_mask_is_drawn_once_and_cut_into_shares() {
    let file = Model::open(model("mlp_dropout_adam_tiny")).unwrap();
    let sections = divided(&file, 3, 4, Schedule::OneForwardOneBackward);
    let originals = files(&sections);
    assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
    let (_, damage) = OF_PARTS.iter().find(|(kind, _)| *kind == "section-random").unwrap();
    let mut refused = 0;
    for number in 0..3 {
        let Some(damaged) = damaged(&sections.manifest, *damage, number) else { continue };
        assert!(!kinds(&file, &damaged, &originals).is_empty(), "{number}");
        refused += 1;
    }
    assert!(refused > 0);
}

#[test]
fn requests_without_sense_leave_nothing_behind() {
    let folder = Folder::new("refused-pipelines");
    folder.write("hand.onnx", step().bytes());
    std::fs::copy(model("light_squeezenet"), folder.path("forward.onnx")).unwrap();
    std::fs::copy(model("unet_grad_tiny"), folder.path("one.onnx")).unwrap();
    for (arguments, exit, code, text) in [
        ("hand.onnx --devices 0", 2, "E0313", "1 to 1024"),
        ("hand.onnx --devices 90", 2, "E0313", "pieces that can be apart"),
        ("hand.onnx --devices 2 --micro-batches 3", 2, "E0313", "a batch of 8 is not 3 equal parts"),
        ("one.onnx --devices 2 --micro-batches 2", 2, "E0313", "equal parts"),
        ("hand.onnx --devices 2 --device-budget 100B", 3, "E0311", "100 B"),
        ("forward.onnx --devices 2", 2, "E0313", "no output is a loss"),
    ] {
        let ran = folder.memc(&format!("split {arguments} -o parts --schedule gpipe"));
        assert!(ran.code == Some(exit) && ran.err.contains(code) && ran.err.contains(text), "{ran:#?}");
        assert!(!folder.path("parts").exists(), "{arguments}");
    }
    let ran = folder.memc("split hand.onnx -o parts --devices 2 --schedule zigzag");
    assert!(ran.code == Some(2) && ran.err.contains("possible values: 1f1b, gpipe"), "{ran:#?}");
    assert_eq!(folder.names(), ["forward.onnx", "hand.onnx", "one.onnx"]);
}
