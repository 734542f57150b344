//! `memc split --schedule data`: batches over several devices, their collectives, damaged ones, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use memc::{Devices, Model, Sections};
use memc_layout::devices::{
    Carried, Collective, CollectiveKind, Event, Join, Manifest, Order, Phase, Schedule,
};
use memc_onnx_proto::onnx::AttributeProto;
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use prost::Message as _;

use crate::command::{Folder, model};
use crate::pipelines::{step, steps};
use crate::sections::{DAMAGES, Damage, files, find, kinds, request, survives_hostile_values};

/// A step whose batch is divided.
fn divided(file: &Model, count: usize, shard_state: bool) -> Sections {
    let mut devices = Devices::new(count);
    devices.schedule = Some(Schedule::Data);
    devices.shard_state = shard_state;
    memc::split(file, &request(), &devices).unwrap()
}

/// Steps with batches of more than one: hand-made, exported, random and trained ones.
fn batches(folder: &Folder) -> Vec<(&'static str, Model)> {
    let mut all = steps(folder);
    all.retain(|(name, _)| *name != "unet_grad_tiny");
    all.push(("mlp_dropout_adam_tiny", Model::open(model("mlp_dropout_adam_tiny")).unwrap()));
    all
}

#[test]
fn batches_of_every_kind_are_divided_and_checked() {
    let folder = Folder::new("replicas");
    for (name, file) in batches(&folder) {
        for (count, shards) in [(2, false), (2, true), (4, true)] {
            let sections = divided(&file, count, shards);
            let manifest = &sections.manifest;
            let report = memc_check::devices::check(&file, manifest, &files(&sections), &|_, _, _, _| None);
            assert!(report.holds(), "{name} {count}: {report:#?}");
            assert!(report.is_proven() || name.ends_with("_tiny"), "{name} {count}: {report:#?}");
            let read = memc_layout::devices::read(&memc_layout::devices::to_json(manifest).unwrap()).unwrap();
            assert_eq!(read, *manifest);
            assert_eq!(divided(&file, count, shards).manifest, *manifest, "{name}");
            // Each device computes one part, and only collectives join them.
            let gradient: Vec<_> =
                manifest.sections.iter().filter(|section| section.phase == Some(Phase::Gradient)).collect();
            assert!(gradient.len() == 1 && gradient[0].devices.len() == count, "{name}");
            let sends =
                |event: &Event| matches!(event, Event::Send { .. } | Event::Recv { .. } | Event::Join(_));
            assert!(!manifest.program.values().flatten().any(sends), "{name}");
        }
    }
}

#[test]
fn played_batches_have_the_bits_of_serial_parts() {
    let folder = Folder::new("played-replicas");
    let random = ["mlp_grad_tiny", "mlp_dropout_adam_tiny"];
    for (name, file) in batches(&folder).into_iter().filter(|(name, _)| !random.contains(name)) {
        for count in [2, 4] {
            let serial =
                format!("split {name}.onnx -o serial --devices 1 --schedule gpipe --micro-batches {count}");
            folder.memc(&serial).done();
            let expected = folder.memc("run serial/manifest.json --seed 3 --json").done().out;
            let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
            for more in
                ["", " --shard-state", " --sums engine", " --alias-state", " --shard-state --alias-state"]
            {
                folder
                    .memc(&format!("split {name}.onnx -o parts --devices {count} --schedule data{more}"))
                    .done();
                folder.memc(&format!("check {name}.onnx parts/manifest.json")).done();
                let ran = folder.memc("run parts/manifest.json --seed 3 --json --poison-check").done();
                let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
                assert_eq!(told["digest"], expected["digest"], "{name} {count}{more}");
                for device in told["devices"].as_array().unwrap() {
                    assert!(
                        device["bytes"].as_u64() <= device["planned"].as_u64(),
                        "{name} {more}: {told:#}"
                    );
                }
            }
            std::fs::remove_dir_all(folder.path("serial")).unwrap();
            std::fs::remove_dir_all(folder.path("parts")).unwrap();
        }
        drop(file);
    }
}

/// Bytes of the tensors that the update sections of a device read, and no gradient section does.
fn state(file: &Model, manifest: &Manifest, device: &str) -> u64 {
    let graph = file.graph();
    let read = |phase: Phase| -> BTreeSet<&str> {
        let own = manifest
            .sections
            .iter()
            .filter(|section| section.phase == Some(phase) && section.runs_on(device));
        let nodes = own.flat_map(|section| &section.nodes).map(|node| &graph.node[*node as usize]);
        nodes.flat_map(|node| &node.input).map(String::as_str).collect()
    };
    let (updated, gradient) = (read(Phase::Update), read(Phase::Gradient));
    let own = graph
        .initializer
        .iter()
        .filter(|tensor| updated.contains(tensor.name()) && !gradient.contains(tensor.name()));
    own.map(|tensor| tensor.dims.iter().product::<i64>() as u64 * 4).sum()
}

#[test]
fn each_device_holds_its_share_of_the_state() {
    let folder = Folder::new("shards");
    steps(&folder);
    // Adam's moments of four tensors, of which the first one has most bytes.
    let file = Model::open(folder.path("train.onnx")).unwrap();
    let whole = divided(&file, 2, false).manifest;
    let (all, biggest) = (state(&file, &whole, "d0"), state(&file, &divided(&file, 4, true).manifest, "d0"));
    assert!(all > 0 && state(&file, &whole, "d1") == all);
    for count in [2, 4] {
        let manifest = divided(&file, count, true).manifest;
        let shares: Vec<u64> =
            manifest.devices.iter().map(|device| state(&file, &manifest, &device.name)).collect();
        // Single numbers, such as the count of steps, are wherever they are read.
        assert!(shares.iter().sum::<u64>() <= all + 64 * count as u64, "{shares:?} of {all}");
        let most = shares.iter().max().unwrap();
        assert!(*most <= biggest.max(all.div_ceil(count as u64) + 64), "{shares:?} of {all}");
        // The new value of each parameter goes back to all devices, and moments do not.
        let sent: BTreeSet<&str> = manifest
            .collectives
            .iter()
            .filter(|row| row.kind == CollectiveKind::Broadcast)
            .map(|row| row.value.as_str())
            .collect();
        let gradient =
            manifest.sections.iter().find(|section| section.phase == Some(Phase::Gradient)).unwrap();
        let nodes = gradient.nodes.iter().map(|node| &file.graph().node[*node as usize]);
        let read: BTreeSet<&str> = nodes.flat_map(|node| &node.input).map(String::as_str).collect();
        for name in file.graph().output.iter().map(|info| info.name()) {
            let old = name.strip_prefix("new.").filter(|old| read.contains(old));
            assert_eq!(sent.contains(name), old.is_some(), "{name}");
        }
    }
}

fn row(manifest: &mut Manifest, number: usize, is: fn(&Collective) -> bool) -> Option<&mut Collective> {
    manifest.collectives.iter_mut().filter(|row| is(row)).nth(number)
}

fn is_join(event: &Event) -> bool {
    matches!(event, Event::Collect(_) | Event::Offer(_))
}

/// Damages of collectives: name of the kind, and a change by number.
const OF_COLLECTIVES: &[(&str, Damage)] = &[
    ("collective", |manifest, number| {
        (number < manifest.collectives.len()).then(|| drop(manifest.collectives.remove(number)))
    }),
    ("collective", |manifest, number| {
        let row = manifest.collectives.get(number)?.clone();
        manifest.collectives.push(row);
        Some(())
    }),
    ("collective", |manifest, number| {
        row(manifest, number, |_| true)?.devices.pop()?;
        Some(())
    }),
    ("collective", |manifest, number| {
        row(manifest, number, |_| true)?.devices.swap(0, 1);
        Some(())
    }),
    ("collective", |manifest, number| {
        let row = row(manifest, number, |_| true)?;
        row.order = if row.order.is_some() { None } else { Some(Order::Index) };
        Some(())
    }),
    ("collective", |manifest, number| {
        let row = row(manifest, number, |row| row.root.is_some())?;
        row.root = None;
        Some(())
    }),
    ("collective", |manifest, number| {
        let row = row(manifest, number, |row| row.root.is_none())?;
        row.root = Some("d0".to_owned());
        Some(())
    }),
    ("collective", |manifest, number| {
        // A sum that is put together as rows, and the other way round.
        let row = row(manifest, number, |_| true)?;
        row.kind = match row.kind {
            CollectiveKind::AllReduce => CollectiveKind::AllGather,
            CollectiveKind::Reduce => CollectiveKind::Gather,
            CollectiveKind::AllGather => CollectiveKind::AllReduce,
            CollectiveKind::Gather => CollectiveKind::Broadcast,
            CollectiveKind::Broadcast => CollectiveKind::Gather,
        };
        Some(())
    }),
    ("collective", |manifest, number| {
        // A sum that one device gets, and all of them read.
        let is_read =
            |name: &String| manifest.values.iter().any(|value| value.name == *name && !value.to.is_empty());
        let all = manifest
            .collectives
            .iter()
            .filter(|row| row.kind == CollectiveKind::AllReduce && is_read(&row.value));
        let name = all.map(|row| row.value.clone()).nth(number)?;
        let row = manifest.collectives.iter_mut().find(|row| row.value == name)?;
        (row.kind, row.root) = (CollectiveKind::Reduce, Some("d0".to_owned()));
        for event in manifest.program.get_mut("d1")? {
            match event {
                Event::Collect(carried) if carried.value == name => *event = Event::Offer(carried.clone()),
                _ => {}
            }
        }
        Some(())
    }),
    ("collective", |manifest, number| {
        let (device, at) = find(manifest, number, is_join)?;
        manifest.program.get_mut(&device)?.remove(at);
        Some(())
    }),
    ("collective", |manifest, number| {
        let (device, at) = find(manifest, number, is_join)?;
        let events = manifest.program.get_mut(&device)?;
        let event = events[at].clone();
        events.insert(at, event);
        Some(())
    }),
    ("deadlock", |manifest, number| {
        // Two collectives of one device, the later one first.
        let (device, at) = find(manifest, number, is_join)?;
        let events = manifest.program.get_mut(&device)?;
        let next = (at + 1..events.len()).find(|next| is_join(&events[*next]))?;
        events.swap(at, next);
        Some(())
    }),
    ("event-order", |manifest, number| {
        // A device that gets the value and does not hold it, and the other way round.
        let (device, at) = find(manifest, number, is_join)?;
        let event = &mut manifest.program.get_mut(&device)?[at];
        *event = match event {
            Event::Collect(carried) => Event::Offer(carried.clone()),
            Event::Offer(carried) => Event::Collect(carried.clone()),
            _ => return None,
        };
        Some(())
    }),
    ("event-order", |manifest, number| {
        let (device, at) = find(manifest, number, is_join)?;
        let (Event::Collect(Carried { micro_batch, .. }) | Event::Offer(Carried { micro_batch, .. })) =
            &mut manifest.program.get_mut(&device)?[at]
        else {
            return None;
        };
        *micro_batch = 0;
        Some(())
    }),
    ("event-order", |manifest, number| {
        // The part of another device.
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Run { .. }))?;
        if let Event::Run { micro_batch, .. } = &mut manifest.program.get_mut(&device)?[at] {
            *micro_batch = (*micro_batch + 1) % 2;
        }
        Some(())
    }),
    ("message", |manifest, number| {
        let (device, at) = find(manifest, number, |event| matches!(event, Event::Give(_) | Event::Feed(_)))?;
        manifest.program.get_mut(&device)?.remove(at);
        Some(())
    }),
    ("section-part", |manifest, number| {
        let value = manifest
            .values
            .iter_mut()
            .filter(|value| value.from.is_some() && value.joined.is_some())
            .nth(number)?;
        let joined = value.joined.as_mut()?;
        joined.by = if joined.by == Join::Mean { Join::Sum } else { Join::Mean };
        Some(())
    }),
];

#[test]
fn each_damaged_collective_is_refused_by_its_rule() {
    let folder = Folder::new("damaged-replicas");
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, file) in batches(&folder) {
        for shards in [false, true] {
            let sections = divided(&file, 2, shards);
            let originals = files(&sections);
            assert_eq!(kinds(&file, &sections.manifest, &originals), BTreeSet::new());
            for (at, (kind, damage)) in OF_COLLECTIVES.iter().enumerate() {
                for number in 0..2 {
                    let mut damaged = sections.manifest.clone();
                    if damage(&mut damaged, number).is_none() || damaged == sections.manifest {
                        continue;
                    }
                    let found_kinds = kinds(&file, &damaged, &originals);
                    assert!(
                        found_kinds.contains(kind),
                        "{name} {shards} {kind} {at} {number}: {found_kinds:?}"
                    );
                    *found.entry(kind).or_default() += 1;
                }
            }
            // All damages of other divisions are noticed, by one rule or another.
            for (kind, damage) in DAMAGES {
                for number in (0..24).step_by(12) {
                    let mut damaged = sections.manifest.clone();
                    if damage(&mut damaged, number).is_none() || damaged == sections.manifest {
                        continue;
                    }
                    // A node that two sections run may be missing in one of them.
                    let kinds = kinds(&file, &damaged, &originals);
                    assert!(!kinds.is_empty(), "{name} {shards} {kind} {number}");
                }
            }
        }
    }
    for (kind, _) in OF_COLLECTIVES {
        assert!(found[kind] >= 8, "{kind}: {found:?}");
    }
}

#[test]
fn a_section_of_some_devices_and_another_schedule_are_refused() {
    let file = step();
    let sections = divided(&file, 4, false);
    let originals = files(&sections);
    for at in 0..sections.manifest.sections.len() {
        let of = |change: fn(&mut Vec<String>)| {
            let mut damaged = sections.manifest.clone();
            change(&mut damaged.sections[at].devices);
            (damaged != sections.manifest).then(|| kinds(&file, &damaged, &originals))
        };
        for found in [of(|all| drop(all.pop())), of(|all| all.reverse())].into_iter().flatten() {
            assert!(found.contains("collective"), "{at}: {found:?}");
        }
        // One device of its own may update, but here all do.
        assert!(of(Vec::clear).is_none_or(|found| !found.is_empty()), "{at}");
    }
    let mut damaged = sections.manifest.clone();
    damaged.pipeline.as_mut().unwrap().schedule = Schedule::Gpipe;
    assert!(kinds(&file, &damaged, &originals).contains("section-part"));
    let mut damaged = sections.manifest.clone();
    damaged.links.retain(|link| link.from != "d3" && link.to != "d3");
    assert!(kinds(&file, &damaged, &originals).contains("collective"));
    // Collectives in a manifest that has no parts.
    let other = memc::split(&file, &request(), &Devices::new(2)).unwrap();
    let mut damaged = other.manifest.clone();
    damaged.collectives = sections.manifest.collectives.clone();
    assert!(!kinds(&file, &damaged, &files(&other)).is_empty());
}

#[test]
fn hostile_collectives_are_refused_without_a_panic() {
    let file = step();
    let sections = divided(&file, 2, true);
    survives_hostile_values(&file, &sections, "d0", "gw");
}

#[test]
fn requests_without_sense_leave_nothing_behind() {
    let folder = Folder::new("refused-replicas");
    folder.write("hand.onnx", step().bytes());
    std::fs::copy(model("light_squeezenet"), folder.path("forward.onnx")).unwrap();
    let mut whole = step().model().clone();
    let relu = whole.graph.as_mut().unwrap().node.iter_mut().find(|node| node.output[0] == "r").unwrap();
    // Each column of the batch becomes one distribution.
    let (name, r#type, i) = (Some("axis".to_owned()), Some(AttributeType::Int as i32), Some(0));
    relu.attribute.push(AttributeProto { name, r#type, i, ..AttributeProto::default() });
    relu.op_type = Some("Softmax".to_owned());
    folder.write("norm.onnx", whole.encode_to_vec());
    for (arguments, exit, code, text) in [
        ("hand.onnx --devices 3 --schedule data", 2, "E0313", "a batch of 8 is not 3 equal parts"),
        ("hand.onnx --devices 3 --schedule data", 2, "E0313", "--devices 2"),
        ("forward.onnx --devices 2 --schedule data", 2, "E0313", "no output is a loss"),
        ("norm.onnx --devices 2 --schedule data", 2, "E0313", "the batch cannot be divided"),
        ("hand.onnx --devices 2 --schedule data --micro-batches 2", 2, "E0313", "one part a device"),
        ("hand.onnx --devices 2 --schedule gpipe --shard-state", 2, "E0313", "--schedule data"),
        ("hand.onnx --devices 2 --sums engine", 2, "E0313", "--schedule data"),
        ("hand.onnx --devices 2 --schedule data --device-budget 100B", 3, "E0311", "needs"),
    ] {
        let ran = folder.memc(&format!("split {arguments} -o parts"));
        assert!(
            ran.code == Some(exit) && ran.err.contains(code) && ran.err.contains(text),
            "{arguments} {ran:#?}"
        );
        assert!(!folder.path("parts").exists(), "{arguments}");
    }
    assert_eq!(folder.names(), ["forward.onnx", "hand.onnx", "norm.onnx"]);
    // One device has the whole batch: its plan is that of the model.
    folder.memc("split hand.onnx -o one --devices 1 --schedule data -q").done();
    folder.memc("split hand.onnx -o plain --devices 1 -q").done();
    for file in ["d0.onnx", "d0.layout.json", "manifest.json"] {
        let read = |way: &str| std::fs::read(folder.path(&format!("{way}/{file}"))).unwrap();
        assert!(read("one") == read("plain"), "{file}");
    }
}
