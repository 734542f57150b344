//! `memc share`: several models in one memory, joint files, damaged ones, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use memc::{
    HandoffNames, Sequence, ShareMember, check_joint, joint_files, share_nested, share_phased, share_serial,
    share_table,
};
use memc_layout::joint::{self, Joint};
use serde_json::Value;

use crate::command::{Folder, model};
use crate::models_made::{bytes, fixed, floats, int, node, with};

/// Products and sums of `layers` layers: reads `from` and an input of its own, and gives `to`. Weights of one
/// number have equal bytes in all models.
fn chain(layers: usize, from: &str, to: &str, width: i64) -> Vec<u8> {
    let mut nodes = vec![node("Add", &[from, "own"], &["a0"])];
    for layer in 0..layers {
        let name = |kind: &str, number: usize| format!("{kind}{number}");
        let (weight, made) = (["w", "odd"][layer % 2], name("m", layer));
        nodes.push(node("MatMul", &[&name("a", layer), weight], &[&made]));
        nodes.push(node("Relu", &[&made], &[&name("r", layer)]));
        let next = if layer + 1 == layers { to.to_owned() } else { name("a", layer + 1) };
        nodes.push(node("Add", &[&name("r", layer), &name("a", layer)], &[&next]));
    }
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed(from, &[32, width]), fixed("own", &[32, width])];
        graph.output = vec![fixed(to, &[32, width])];
        graph.initializer = vec![floats("w", &[width, width]), floats("odd", &[width, width])];
    }))
}

/// A folder with three planned models: an encoder, a decoder of its result, and another model.
fn three(name: &str, options: &str) -> Folder {
    let folder = Folder::new(name);
    for (name, model) in [
        ("enc", chain(3, "x", "hidden", 64)),
        ("dec", chain(5, "memory", "y", 64)),
        ("side", chain(2, "s", "t", 160)),
    ] {
        folder.write(&format!("{name}.in.onnx"), model);
        folder
            .memc(&format!("optimize {name}.in.onnx -o {name}.onnx --runtime player --no-rewrite {options}"))
            .done();
    }
    folder
}

fn arena(folder: &Folder, name: &str) -> u64 {
    memc_layout::read(&folder.read(&format!("{name}.layout.json"))).unwrap().arenas[0].size
}

fn read(folder: &Folder, name: &str) -> Joint {
    joint::read(&folder.read(name)).unwrap()
}

const ALL: &str = "enc.layout.json dec.layout.json side.layout.json";

/// Digests of the members of a played joint file, by name.
fn digests(folder: &Folder, words: &str) -> BTreeMap<String, String> {
    let ran = folder.memc(&format!("run --joint {words}")).done();
    let pairs = ran.out.lines().map(|line| line.split_once(' ').unwrap());
    pairs.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect()
}

#[test]
fn a_table_states_sums_and_holes_from_layouts_alone() {
    let folder = three("share-table", "");
    for name in ["enc", "dec", "side"] {
        fs::remove_file(folder.path(&format!("{name}.onnx"))).unwrap();
    }
    let ran = folder.memc(&format!("share {ALL}")).done();
    let sizes = ["enc", "dec", "side"].map(|name| arena(&folder, name));
    assert!(ran.out.contains(&memc_ir::Bytes(sizes.iter().sum()).to_string()), "{ran:#?}");
    assert!(ran.out.contains(&memc_ir::Bytes(*sizes.iter().max().unwrap()).to_string()), "{ran:#?}");
    assert!(ran.out.contains("enc inside dec: fits at "), "{ran:#?}");
    let table: Value = serde_json::from_str(&folder.memc(&format!("share {ALL} --json")).done().out).unwrap();
    assert_eq!(table["members"].as_array().unwrap().len(), 3);
    assert_eq!(table["pairs"].as_array().unwrap().len(), 6);
    for (row, size) in table["members"].as_array().unwrap().iter().zip(sizes) {
        let space = &row["spaces"][0];
        assert_eq!(space["arena"], size);
        assert!(
            space["mean"].as_u64() <= space["peak"].as_u64() && space["peak"].as_u64() <= Some(size),
            "{row:#}"
        );
    }
    for pair in table["pairs"].as_array().unwrap() {
        assert!(pair["boundaries"].as_u64() <= pair["all"].as_u64(), "{pair:#}");
        let at_once = pair["at_once"].as_u64().unwrap();
        assert!(at_once == 0 || pair["at_once_bound"].as_u64().unwrap() <= at_once, "{pair:#}");
    }
}

#[test]
fn serial_members_take_the_largest_arena_and_equal_weights_once() {
    let folder = three("share-serial", "");
    let ran = folder.memc(&format!("share {ALL} --serial -o joint.json")).done();
    assert!(ran.err.contains("joint arena") && ran.out.is_empty(), "{ran:#?}");
    let joint = read(&folder, "joint.json");
    let sizes = ["enc", "dec", "side"].map(|name| arena(&folder, name));
    assert_eq!(joint.arenas[0].size, *sizes.iter().max().unwrap());
    assert_eq!(joint.arenas[0].sum_alone, sizes.iter().sum::<u64>());
    // Both products of the encoder and of the decoder are equal, those of the other model are larger.
    assert_eq!(joint.weights_sum - joint.weights_joint, 2 * 64 * 64 * 4);
    assert_eq!(joint.constants.len(), 2);
    assert!(joint.constants.iter().all(|constant| constant.uses.len() == 2));
    assert!(joint.members.iter().all(|member| member.bases.is_empty() && member.offsets.is_empty()));
    folder.memc("check --joint joint.json").done();
    // Equal input gives equal bytes, and the file can lie elsewhere.
    folder.memc(&format!("share {ALL} --serial -o again.json")).done();
    assert_eq!(folder.read("again.json"), folder.read("joint.json"));
    fs::create_dir(folder.path("far")).unwrap();
    folder.memc(&format!("share {ALL} --serial -o far/joint.json")).done();
    assert!(folder.read("far/joint.json").contains("\"../enc.layout.json\""));
    folder.memc("check --joint far/joint.json").done();
    assert!(folder.memc("schema joint").done().out.contains("memc.joint/1"));
}

/// Plays a joint file, and compares each member with its own plan, played alone.
#[cfg(feature = "ort")]
fn equals_alone(folder: &Folder, words: &str, names: &[&str]) {
    let found = digests(folder, words);
    for name in names {
        let alone = folder.memc(&format!("run {name}.onnx --layout {name}.layout.json --seed 3")).done().out;
        assert_eq!(found[*name], alone.trim(), "{name}");
    }
}

#[cfg(feature = "ort")]
#[test]
fn members_in_one_arena_give_the_bits_that_they_give_alone() {
    let folder = three("share-played", "");
    folder.memc(&format!("share {ALL} --serial -o joint.json")).done();
    equals_alone(&folder, "joint.json --seed 3 --poison-check", &["enc", "dec", "side"]);
    equals_alone(&folder, "joint.json --seed 3", &["enc", "dec", "side"]);
    folder.memc("share --nested host=side.layout.json guest=enc.layout.json -o nested.json").done();
    folder.memc("check --joint nested.json").done();
    for runs in [1, 4] {
        let words = format!("nested.json --seed 3 --poison-check --guest-runs {runs}");
        equals_alone(&folder, &words, &["side", "enc"]);
    }
}

#[cfg(feature = "ort")]
#[test]
fn a_hundred_nestings_of_random_models_change_no_bit() {
    let folder = Folder::new("share-nestings");
    let mut nestings = 0;
    for (seed, (layers, width, guest_layers, guest_width)) in
        [(30, 64, 2, 24), (26, 80, 3, 16), (28, 48, 1, 20), (32, 96, 4, 24)].into_iter().enumerate()
    {
        for (name, model) in
            [("host", chain(layers, "x", "y", width)), ("guest", chain(guest_layers, "s", "t", guest_width))]
        {
            folder.write(&format!("{name}.in.onnx"), model);
            let options = if seed % 2 == 0 { "" } else { "--io arena" };
            folder.memc(&format!("optimize {name}.in.onnx -o {name}.onnx --runtime player {options}")).done();
        }
        folder.memc("share --nested host=host.layout.json guest=guest.layout.json -o joint.json").done();
        let joint = read(&folder, "joint.json");
        assert_eq!(joint.arenas[0].size, arena(&folder, "host"));
        equals_alone(&folder, "joint.json --seed 3 --poison-check --guest-runs 25", &["host", "guest"]);
        let ran = folder.memc("run --joint joint.json --seed 3 --guest-runs 25 --json").done();
        let ran: Value = serde_json::from_str(&ran.out).unwrap();
        nestings += ran["members"][1]["after"].as_array().unwrap().len();
    }
    assert_eq!(nestings, 100);
}

/// Handoffs for each way in which the reader takes its input.
#[cfg(feature = "ort")]
#[test]
fn a_value_is_read_in_the_place_in_which_it_was_made() {
    for options in ["", "--io arena", "--io external"] {
        let folder = three("share-handoff", options);
        // The decoder reads what the encoder made; the other model runs between both.
        let order =
            "enc.layout.json side.layout.json dec.layout.json --serial --handoff enc.hidden=dec.memory";
        for more in ["", "--keep-offsets", "--repeat dec"] {
            if options == "--io arena" && more == "--repeat dec" {
                continue;
            }
            folder.memc(&format!("share {order} {more} -o joint.json")).done();
            folder.memc("check --joint joint.json").done();
            let joint = read(&folder, "joint.json");
            assert_eq!(joint.handoffs.len(), 1);
            assert_eq!(joint.handoffs[0].space.is_some(), options != "--io external");
            assert!(
                joint.arenas[0].bound <= joint.arenas[0].size
                    && joint.arenas[0].size <= joint.arenas[0].sum_alone
            );
            let found = digests(&folder, "joint.json --seed 3 --poison-check --outputs all.npz");
            // By hand: the encoder's result is the decoder's input.
            folder.memc("run enc.onnx --layout enc.layout.json --seed 3 --outputs enc.npz").done();
            let alone = folder.memc("run enc.onnx --layout enc.layout.json --seed 3").done().out;
            assert_eq!(found["enc"], alone.trim());
            assert_ne!(
                found["dec"],
                folder.memc("run dec.onnx --layout dec.layout.json --seed 3").done().out.trim()
            );
            handed_over_by_hand(&folder, &found["dec"]);
        }
    }
}

/// Plays the decoder on the encoder's result and its own input of the seed, and compares digests.
#[cfg(feature = "ort")]
fn handed_over_by_hand(folder: &Folder, expected: &str) {
    use memc_ort::inputs::Seeded;
    use memc_ort::npz::{self, Archive};
    let layout = memc_layout::read(&folder.read("dec.layout.json")).unwrap();
    let file = memc::Model::open(folder.path("dec.onnx")).unwrap();
    let seeded = Seeded::new(&file, &layout, 3).unwrap();
    let mut arrays = Archive::open(&folder.path("enc.npz")).unwrap().arrays().unwrap();
    let hidden = arrays.remove("hidden").unwrap();
    let mut bytes = vec![0; hidden.bytes().len()];
    memc_ort::inputs::Inputs::fill(&seeded, "own", &mut bytes).unwrap();
    let own = memc_ort::Array::new(hidden.element, hidden.shape.clone(), &bytes);
    let all = BTreeMap::from([("memory".to_owned(), hidden), ("own".to_owned(), own.unwrap().unwrap())]);
    let mut written = Vec::new();
    npz::write(&memc_ort::views(&all), &mut written).unwrap();
    folder.write("dec.npz", written);
    let ran = folder.memc("run dec.onnx --layout dec.layout.json --inputs dec.npz").done();
    assert_eq!(ran.out.trim(), expected);
}

#[test]
fn joint_arenas_are_never_above_the_sum_and_serial_ones_never_above_the_largest() {
    let folder = Folder::new("share-laws");
    let names = ["light_squeezenet", "ort_mlp_tiny", "lstm_seq2seq", "swiftnet_like", "control_flow_loop_if"];
    for name in names {
        let words = format!("optimize {} -o {name}.onnx --effort fast --no-rewrite", model(name).display());
        folder.memc(&words).done();
    }
    let open = |name: &str| {
        ShareMember::open(folder.path(&format!("{name}.layout.json")).to_str().unwrap()).unwrap()
    };
    let members: Vec<ShareMember> = names.iter().map(|name| open(name)).collect();
    for one in 0..members.len() {
        for other in 0..members.len() {
            if one == other {
                continue;
            }
            let pair = [members[one].clone(), members[other].clone()];
            let joint = share_serial(&pair, &Sequence { effort: 100, ..Sequence::default() }).unwrap();
            assert!(
                joint
                    .arenas
                    .iter()
                    .all(|arena| arena.size == arena.max_alone && arena.max_alone <= arena.sum_alone)
            );
            match share_nested(&pair, false, 100) {
                Ok(joint) => {
                    let host = &pair[0].layout.arenas[0];
                    assert!(joint.arenas[0].size <= host.size && !joint.admissions.is_empty());
                    let kept = share_nested(&pair, true, 100);
                    let count = |joint: &Joint| {
                        joint.admissions.iter().map(|run| run.after[1] - run.after[0] + 1).sum::<u64>()
                    };
                    // Placing the host around the guest never admits it less often.
                    assert!(kept.map_or(0, |kept| count(&kept)) <= count(&joint));
                }
                Err(error) => assert!(error.to_string().contains("are missing"), "{error}"),
            }
        }
    }
    let table = share_table(&members).unwrap();
    assert_eq!((table.members.len(), table.pairs.len()), (5, 20));
}

#[test]
fn bytes_of_transfers_under_way_are_not_free() {
    let folder = three("share-transfers", "");
    let open = |name: &str| {
        ShareMember::open(folder.path(&format!("{name}.layout.json")).to_str().unwrap()).unwrap()
    };
    let (mut host, guest) = (open("side"), open("enc"));
    let count = |host: &ShareMember| {
        let joint = share_nested(&[host.clone(), guest.clone()], true, 100);
        joint.map_or(0, |joint| {
            joint.admissions.iter().map(|run| run.after[1] - run.after[0] + 1).sum::<u64>()
        })
    };
    let before = count(&host);
    assert!(before > 0);
    // Each tensor that ends early is on its way to the end of the run.
    let steps = host.layout.schedule.len() as u64;
    for tensor in
        host.layout.tensors.iter().filter(|tensor| tensor.offset.is_some() && tensor.alias.is_none())
    {
        let Some(live) = tensor.live.first().filter(|live| live.end + 1 < steps) else { continue };
        host.layout.transfers.push(memc_layout::Transfer {
            tensor: tensor.name.clone(),
            result: tensor.name.clone(),
            from: "device".to_owned(),
            to: "host".to_owned(),
            store_step: live.end - 1,
            load_step: steps - 1,
            bytes: tensor.bytes,
        });
    }
    assert!(!host.layout.transfers.is_empty() && count(&host) < before);
    let joint = share_serial(&[host.clone(), guest], &Sequence::default()).unwrap();
    assert_eq!(joint.arenas[0].size, joint.arenas[0].max_alone);
}

/// Compiles a program of C that includes a header, runs it, and returns the numbers that it prints; `None`
/// without a compiler.
fn printed(folder: &Folder, header: &str, expressions: &[&str]) -> Option<Vec<u64>> {
    let lines: String =
        expressions.iter().map(|it| format!("printf(\"%llu\\n\", (unsigned long long)({it}));")).collect();
    let program = format!(
        "#include <stdio.h>\n#define MEMC_TABLES\n#include \"{header}\"\nint main(void) {{{lines} return 0;}}\n"
    );
    folder.write("print.c", program);
    let cc = ["cc", "gcc"]
        .into_iter()
        .find(|name| std::process::Command::new(name).arg("--version").output().is_ok())?;
    let (source, binary) = (folder.path("print.c"), folder.path("print"));
    let options = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wno-unused-const-variable",
        "-Wno-unused-variable",
        "-pedantic",
        "-Werror",
        "-o",
    ];
    let made = std::process::Command::new(cc).args(options).arg(&binary).arg(source).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let ran = std::process::Command::new(binary).output().unwrap();
    Some(String::from_utf8(ran.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect())
}

#[test]
fn headers_state_the_numbers_of_joint_files() {
    let folder = three("share-header", "");
    folder.memc("share enc.layout.json side.layout.json dec.layout.json --serial --handoff enc.hidden=dec.memory --keep-offsets -o s.json --header s.h").done();
    let joint = read(&folder, "s.json");
    let all = [
        "MEMC_JOINT_DEVICE_SIZE",
        "MEMC_JOINT_SIDE_DEVICE_BASE",
        "MEMC_JOINT_HANDOFF_0_OFFSET",
        "MEMC_JOINT_HANDOFF_0_SIZE",
    ];
    if let Some(found) = printed(&folder, "s.h", &all) {
        let base = joint.members[1].bases.get("device").copied().unwrap_or(0);
        assert_eq!(
            found,
            [joint.arenas[0].size, base, joint.handoffs[0].offset.unwrap(), joint.handoffs[0].bytes]
        );
    }
    folder.memc("share --nested host=side.layout.json guest=enc.layout.json -o n.json --header n.h").done();
    let run = read(&folder, "n.json").admissions[0].clone();
    let row = |key: &str| format!("memc_joint_admissions[0].{key}");
    let all = [row("guest"), row("first"), row("last"), row("base")];
    if let Some(found) = printed(&folder, "n.h", &all.each_ref().map(String::as_str)) {
        assert_eq!(found, [1, run.after[0], run.after[1], run.bases["device"]]);
    }
    let folder = one_with_a_peak("share-header-phased");
    folder.memc("share one.layout.json two=one.layout.json --phased -o p.json --header p.h").done();
    let joint = read(&folder, "p.json");
    let all = [
        "sizeof memc_joint_waits / sizeof *memc_joint_waits",
        "memc_joint_waits[0].after.step",
        "memc_joint_waits[0].before.step",
    ];
    if let Some(found) = printed(&folder, "p.h", &all) {
        assert_eq!(found, [joint.sync.len() as u64, joint.sync[0].after.step, joint.sync[0].before.step]);
    }
    assert_eq!(
        folder.memc("share one.layout.json two=one.layout.json --phased --header lost.h").code,
        Some(2)
    );
    assert!(!folder.path("lost.h").exists());
}

/// A planned model that needs much memory for a part of its time: many rows, then a chain of small products.
fn one_with_a_peak(name: &str) -> Folder {
    let mut nodes = vec![node("Concat", &["x"; 16], &["rows"])];
    if let Some(concat) = nodes.first_mut() {
        concat.attribute.push(int("axis", 0));
    }
    nodes.push(node("Relu", &["rows"], &["more"]));
    nodes.push(node("MatMul", &["sum", "more"], &["a0"]));
    for layer in 0..16 {
        let name = |kind: &str, number: usize| format!("{kind}{number}");
        nodes.push(node("MatMul", &[&name("a", layer), "w"], &[&name("m", layer)]));
        let next = if layer == 15 { "y".to_owned() } else { name("a", layer + 1) };
        nodes.push(node("Relu", &[&name("m", layer)], &[&next]));
    }
    let made = bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &[32, 64])];
        graph.output = vec![fixed("y", &[32, 64])];
        graph.initializer = vec![floats("sum", &[32, 512]), floats("w", &[64, 64])];
    }));
    let folder = Folder::new(name);
    folder.write("one.in.onnx", made);
    folder.memc("optimize one.in.onnx -o one.onnx --runtime player --no-rewrite").done();
    folder
}

#[test]
fn each_wait_is_needed() {
    let folder = one_with_a_peak("share-phased");
    let own = arena(&folder, "one");
    let ran = folder.memc("share one.layout.json two=one.layout.json --phased -o joint.json").done();
    assert!(ran.err.contains("waits keep the bytes of both apart"), "{ran:#?}");
    let joint = read(&folder, "joint.json");
    assert!(
        own <= joint.arenas[0].size && joint.arenas[0].size < joint.arenas[0].sum_alone,
        "{:#?}",
        joint.arenas
    );
    assert!(!joint.sync.is_empty() && joint.members.iter().all(|member| member.runs == 1));
    folder.memc("check --joint joint.json").done();
    let report = folder.memc("report --joint joint.json").done().out;
    assert!(report.contains("at once") && report.contains("wait for the other member"), "{report}");
    // Equal requests give equal bytes, and moving members as a whole saves no more.
    folder.memc("share one.layout.json two=one.layout.json --phased -o again.json").done();
    assert_eq!(folder.read("again.json"), folder.read("joint.json"));
    folder.memc("share one.layout.json two=one.layout.json --phased --keep-offsets -o kept.json").done();
    folder.memc("check --joint kept.json").done();
    assert!(joint.arenas[0].size <= read(&folder, "kept.json").arenas[0].size);
    // Each wait is needed, and none may go the other way.
    let files = joint_files(&folder.path("joint.json"), &joint).unwrap();
    let is_refused = |joint: &Joint| {
        let report = memc_check::joint::check(joint, &files, &|_, _, _, _, _| None);
        report.violations.iter().any(|violation| violation.kind.name() == "joint-order")
    };
    assert!(!is_refused(&joint));
    for row in 0..joint.sync.len() {
        let mut damaged = joint.clone();
        let lost = damaged.sync.remove(row);
        assert!(is_refused(&damaged), "without {lost:?}");
        let mut damaged = joint.clone();
        damaged.sync[row].periods_later += 1;
        assert!(is_refused(&damaged), "a period later than {lost:?}");
        let mut damaged = joint.clone();
        damaged.sync[row].after.step += 1;
        assert!(is_refused(&damaged), "a step later than {lost:?}");
    }
}

#[cfg(feature = "ort")]
#[test]
fn two_members_at_once_give_the_bits_that_they_give_alone() {
    let folder = one_with_a_peak("share-phased-played");
    folder.memc("share one.layout.json two=one.layout.json --phased -o joint.json").done();
    let alone =
        |seed: u32| folder.memc(&format!("run one.onnx --layout one.layout.json --seed {seed}")).done().out;
    for seed in 1..4 {
        let found = digests(&folder, &format!("joint.json --seed {seed} --periods 4 --poison-check"));
        let alone = alone(seed);
        assert_eq!((found["one"].as_str(), found["two"].as_str()), (alone.trim(), alone.trim()));
    }
    // Without waits some order of the steps shows that bytes are shared.
    let mut joint = read(&folder, "joint.json");
    joint.sync.clear();
    folder.write("lost.json", joint::to_json(&joint).unwrap());
    let is_seen = (1..6).any(|seed| {
        let ran = folder.memc(&format!("run --joint lost.json --seed {seed} --poison-check"));
        ran.err.contains("E0708")
    });
    assert!(is_seen, "no order of the steps shows that waits are lost");
    // Waits in a circle end with a message.
    let mut joint = read(&folder, "joint.json");
    joint.sync.iter_mut().for_each(|row| row.periods_later -= 1);
    folder.write("stuck.json", joint::to_json(&joint).unwrap());
    folder.memc("run --joint stuck.json").refused(1, "E0717");
}

#[test]
fn members_at_once_never_take_more_than_the_sum() {
    let folder = Folder::new("share-phased-laws");
    let names = ["light_squeezenet", "ort_mlp_tiny", "lstm_seq2seq", "swiftnet_like", "control_flow_loop_if"];
    for name in names {
        let words = format!("optimize {} -o {name}.onnx --effort fast --no-rewrite", model(name).display());
        folder.memc(&words).done();
    }
    let open = |name: &str| {
        ShareMember::open(folder.path(&format!("{name}.layout.json")).to_str().unwrap()).unwrap()
    };
    for one in names {
        for other in names.iter().filter(|other| **other != one) {
            for keep in [false, true] {
                let (joint, at_once) = share_phased(&[open(one), open(other)], keep, 100).unwrap();
                let arena = &joint.arenas[0];
                assert!(
                    arena.bound <= arena.size && arena.size <= arena.sum_alone,
                    "{one} {other}: {arena:#?}"
                );
                assert!(at_once.load <= arena.size && at_once.shift < at_once.period.max(1));
                assert!(joint.members.iter().any(|member| member.runs == 1));
            }
        }
    }
}

#[test]
fn a_member_without_steps_waits_for_none() {
    let folder = three("share-phased-empty", "");
    let empty = bytes(&with(Vec::new(), |graph| {
        graph.input = vec![fixed("x", &[2])];
        graph.output = vec![fixed("x", &[2])];
    }));
    folder.write("empty.in.onnx", empty);
    folder.memc("optimize empty.in.onnx -o empty.onnx --runtime player").done();
    for words in ["empty.layout.json enc.layout.json", "enc.layout.json empty.layout.json"] {
        folder.memc(&format!("share {words} --phased -o joint.json")).done();
        folder.memc("check --joint joint.json").done();
        assert!(read(&folder, "joint.json").sync.is_empty());
    }
}

/// A change of a joint file, by the pointers of its keys.
fn changed(joint: &Joint, pointer: &str, to: Value) -> String {
    let mut value = serde_json::to_value(joint).unwrap();
    *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = to;
    value.to_string()
}

/// Numbers and words of a JSON value, as pointers.
fn leaves(value: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(rows) => {
            rows.iter().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), found))
        }
        Value::Array(rows) => {
            rows.iter().enumerate().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), found))
        }
        leaf => found.push((at.to_owned(), leaf.clone())),
    }
}

#[test]
fn damaged_joint_files_are_refused() {
    let folder = three("share-damaged", "");
    folder
        .memc("share enc.layout.json side.layout.json dec.layout.json --serial --handoff enc.hidden=dec.memory -o s.json")
        .done();
    folder.memc("share --nested host=side.layout.json guest=enc.layout.json -o n.json").done();
    folder.memc("share side.layout.json enc.layout.json --phased -o p.json").done();
    let (mut damages, mut kinds) = (0, BTreeSet::new());
    for name in ["s.json", "n.json", "p.json"] {
        let joint = read(&folder, name);
        let files = joint_files(&folder.path(name), &joint).unwrap();
        let kinds_of = |text: &str| -> Option<BTreeSet<&'static str>> {
            let damaged = joint::read(text).ok()?;
            let report = memc_check::joint::check(&damaged, &files, &|_, _, _, _, _| None);
            Some(report.violations.iter().map(|violation| violation.kind.name()).collect())
        };
        assert_eq!(kinds_of(&joint::to_json(&joint).unwrap()).unwrap(), BTreeSet::new());
        let mut all = Vec::new();
        leaves(&serde_json::to_value(&joint).unwrap(), "", &mut all);
        for (pointer, leaf) in all {
            // Names of files are read before the check, and its version is of the writer.
            let is_path =
                ["given", "model", "layout"].iter().any(|key| pointer.ends_with(&format!("/{key}")));
            if is_path || pointer == "/memc_version" {
                continue;
            }
            let others: Vec<Value> = match &leaf {
                Value::Number(number) => {
                    let number = number.as_u64().unwrap();
                    let near = [
                        number + 1,
                        number.wrapping_sub(1),
                        number + 64,
                        number.wrapping_sub(64),
                        number * 2,
                        0,
                        u64::MAX,
                    ];
                    near.into_iter().filter(|other| *other != number).map(Value::from).collect()
                }
                Value::String(word) => vec![format!("{word}x").into(), "".into()],
                Value::Bool(flag) => vec![(!flag).into()],
                _ => vec![],
            };
            for other in others {
                let Some(found) = kinds_of(&changed(&joint, &pointer, other.clone())) else {
                    damages += 1;
                    continue;
                };
                assert!(
                    !found.is_empty() || may_hold(&joint, &pointer, &other),
                    "{name}: {pointer} = {other}"
                );
                damages += usize::from(!found.is_empty());
                kinds.extend(found);
            }
        }
        // Rows that are lost or doubled.
        for key in ["handoffs", "constants", "admissions", "sync", "members", "arenas"] {
            let mut value = serde_json::to_value(&joint).unwrap();
            let Some(rows) = value[key].as_array_mut() else { continue };
            if let Some(first) = rows.first().cloned() {
                rows.push(first);
                assert!(
                    kinds_of(&value.to_string()).is_none_or(|found| !found.is_empty()),
                    "{name}: {key} doubled"
                );
                damages += 1;
            }
        }
    }
    assert!(damages >= 200, "{damages}");
    for kind in
        ["joint-file", "joint-place", "handoff", "admission", "joint-constant", "joint-number", "joint-order"]
    {
        assert!(kinds.contains(kind), "no damage is found by {kind}: {kinds:?}");
    }
}

/// Whether a change may leave a sound file: a shorter run of boundaries, another free place, another name,
/// or a member that repeats and so keeps its input longer.
fn may_hold(joint: &Joint, pointer: &str, to: &Value) -> bool {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    let is_place = to.as_u64().is_some_and(|offset| offset.is_multiple_of(64));
    match &parts[..] {
        ["members", _, "bases" | "offsets", _] => is_place,
        ["members", _, "name"] => true,
        ["members", _, "repeats"] => true,
        // Members that share no byte have no waits, however often they run.
        ["members", _, "runs"] => {
            joint.sync.is_empty() && to.as_u64().is_some_and(|runs| (1..1024).contains(&runs))
        }
        ["admissions", number, rest @ ..] => {
            let run = &joint.admissions[number.parse::<usize>().unwrap()];
            match (rest, to.as_u64()) {
                (["after", "0"], Some(first)) => run.after[0] < first && first <= run.after[1],
                (["after", "1"], Some(last)) => run.after[0] <= last && last < run.after[1],
                (["bases", _], _) => is_place,
                _ => false,
            }
        }
        _ => false,
    }
}

#[test]
fn bytes_that_meet_are_found() {
    let folder = three("share-met", "");
    folder
        .memc("share enc.layout.json side.layout.json dec.layout.json --serial --handoff enc.hidden=dec.memory -o s.json")
        .done();
    let joint = read(&folder, "s.json");
    let files = joint_files(&folder.path("s.json"), &joint).unwrap();
    let check = |joint: &Joint| memc_check::joint::check(joint, &files, &|_, _, _, _, _| None);
    let kinds = |joint: &Joint| -> BTreeSet<&'static str> {
        check(joint).violations.iter().map(|violation| violation.kind.name()).collect()
    };
    // All members at the bytes of their own arenas: the value lies below none of them.
    let mut damaged = joint.clone();
    for member in &mut damaged.members {
        (member.bases, member.offsets) = (BTreeMap::new(), BTreeMap::new());
    }
    let from = &files[0].layout.tensors.iter().find(|tensor| tensor.name == "hidden").unwrap();
    damaged.handoffs[0].offset = from.offset;
    damaged.arenas[0].size = damaged.arenas[0].max_alone;
    assert!(kinds(&damaged).contains("handoff-met"), "{:#?}", check(&damaged));
    // Two offsets of one member exchanged.
    let mut moved = joint.clone();
    let layout = &files[2].layout;
    let owners = layout.tensors.iter().filter(|tensor| tensor.offset.is_some() && tensor.alias.is_none());
    let shift = joint.members[2].bases.values().next().copied().unwrap_or(0);
    let mut offsets: BTreeMap<String, u64> =
        owners.map(|tensor| (tensor.name.clone(), tensor.offset.unwrap() + shift)).collect();
    if !joint.members[2].offsets.is_empty() {
        offsets.clone_from(&joint.members[2].offsets);
    }
    let low = *offsets.values().min().unwrap();
    offsets.values_mut().for_each(|offset| *offset = low);
    moved.members[2].bases.clear();
    moved.members[2].offsets = offsets;
    assert!(kinds(&moved).contains("joint-layout"), "{:?}", kinds(&moved));
    assert!(check_joint(&folder.path("s.json")).unwrap().is_proven());
}

#[test]
fn requests_without_sense_leave_nothing_behind() {
    let folder = three("share-refused", "");
    folder.memc("optimize side.in.onnx -o state.onnx --io external").done();
    fs::copy(folder.path("enc.layout.json"), folder.path("lost.layout.json")).unwrap();
    fs::create_dir(folder.path("other")).unwrap();
    for name in ["enc.layout.json", "enc.onnx"] {
        fs::copy(folder.path(name), folder.path(&format!("other/{name}"))).unwrap();
    }
    let before = folder.names();
    for (words, exit, code) in [
        ("enc.layout.json", 2, "E0340"),
        ("enc.layout.json other/enc.layout.json", 2, "E0340"),
        ("enc.layout.json dec.layout.json -o j.json", 2, "E0306"),
        ("enc.layout.json dec.layout.json --serial --handoff enc.hidden=dec.nothing -o j.json", 2, "E0340"),
        ("enc.layout.json dec.layout.json --serial --handoff dec.y=enc.x -o j.json", 2, "E0340"),
        ("enc.layout.json side.layout.json --serial --handoff enc.hidden=side.s -o j.json", 2, "E0340"),
        ("enc.layout.json dec.layout.json --serial --handoff enc.x=dec.memory -o j.json", 2, "E0340"),
        ("enc.layout.json dec.layout.json --serial --repeat nobody -o j.json", 2, "E0340"),
        ("--nested host=enc.layout.json guest=side.layout.json -o j.json", 3, "E0341"),
        ("--nested host=enc.layout.json host=side.layout.json -o j.json", 2, "E0306"),
        ("--nested enc.layout.json side.layout.json -o j.json", 2, "E0306"),
        ("enc.onnx dec.layout.json", 1, "E0116"),
        ("enc.layout.json none.json", 1, "E0116"),
        ("lost.layout.json dec.layout.json --serial -o j.json", 1, "E0340"),
        ("other/enc.layout.json dec.layout.json --serial -o j.json", 1, "E0340"),
        ("enc.layout.json dec.layout.json --serial --given enc=dec.in.onnx -o j.json", 1, "E0340"),
        ("enc.layout.json dec.layout.json --serial --given no=dec.in.onnx -o j.json", 2, "E0340"),
        ("enc.layout.json dec.layout.json --serial -o none/j.json", 1, "E0116"),
        ("enc.layout.json dec.layout.json side.layout.json --phased -o j.json", 2, "E0340"),
        ("enc.layout.json other/enc.layout.json --phased -o j.json", 2, "E0340"),
    ] {
        let ran = folder.memc(&format!("share {words}")).refused(exit, code);
        assert_eq!(folder.names(), before, "{ran:#?}");
    }
    let ran = folder.memc("share --nested host=enc.layout.json guest=side.layout.json");
    assert!(ran.err.contains("are missing"), "{ran:#?}");
    folder
        .memc("share other/enc.layout.json dec.layout.json --serial --given enc=enc.in.onnx -o j.json")
        .done();
    folder.memc("check --joint j.json").done();
    folder.memc("check --joint enc.layout.json").refused(1, "E0120");
    let report = folder.memc("report --joint j.json").done().out;
    assert!(report.contains("2 members, one after another") && report.contains("enc "), "{report}");
    // A model that was planned again is not the one of the file.
    folder.memc("optimize enc.in.onnx -o other/enc.onnx --no-rewrite --exact").done();
    let again = folder.memc("check --joint j.json");
    assert!(again.code == Some(1) && again.err.contains("E0640"), "{again:#?}");
    let names = |pair: &str| pair.parse::<HandoffNames>();
    assert!(names("a.b=c.d").is_ok() && names("a=b").is_err() && names("a.b").is_err());
}
