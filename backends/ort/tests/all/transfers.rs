//! Plays plans with transfers, with the far copies in memory and in a file: bits are equal, and the near
//! bytes are really reused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use memc_layout::Layout;
use memc_onnx_proto::onnx::{GraphProto, NodeProto, TensorProto};
use memc_ort::{Error, PlayOptions, Played, Player, VerifyOptions, inputs, verify, views};
use support::graph::{FLOAT, integer, model, node, value};
use support::transfers::plan_with_transfers;
use support::{corpus, folder, runtime, written};

fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap()
}

/// Plays in three rounds, with and without a watch over every value.
fn holds(test: &str, name: &str, space: &str, alignment: u64) -> Played {
    let given = corpus(test, name);
    let (out, layout) = plan_with_transfers(&given, space, alignment, 6, 8);
    let report = memc_check::check(&given, &out, &layout, Default::default());
    let violations: Vec<_> =
        report.violations.iter().map(|violation| violation.diagnostic.to_string()).collect();
    assert!(report.holds(), "{violations:#?}");
    let runtime = runtime();
    let swap = folder(&format!("{test}_swap"));
    for poison_check in [false, true] {
        let options = VerifyOptions {
            rounds: 3,
            poison_check,
            swap_folder: Some(swap.clone()),
            ..VerifyOptions::default()
        };
        let found = verify(&runtime, &given, &out, &layout, None, options).expect("everything runs");
        assert!(found.differences.is_empty(), "{:?}, first at {:?}", found.differences, found.first);
    }
    let options =
        PlayOptions { swap_folder: Some(swap.clone()), clock: Some(nanoseconds), ..PlayOptions::default() };
    let mut player = Player::new(&runtime, &out, &layout, options).unwrap();
    let files = || std::fs::read_dir(&swap).unwrap().count();
    assert_eq!(files(), usize::from(space == "disk"));
    let played = player.play(&inputs::make(&out, &layout, 0).unwrap()).unwrap();
    drop(player);
    assert_eq!(files(), 0, "the file goes with the player");
    assert_eq!(played.moved, layout.transfers.len() * 2);
    assert_eq!(played.bytes_outside(), 0);
    let bytes: u64 = layout.transfers.iter().map(|row| row.bytes).sum();
    let links: Vec<_> =
        played.links.iter().map(|link| (link.from.as_str(), link.to.as_str(), link.bytes)).collect();
    assert_eq!(links, [("device", space, bytes), (space, "device", bytes)]);
    assert!(played.links.iter().all(|link| link.busy > 0));
    for arena in &played.arenas {
        assert_eq!(arena.planned, arena.used, "arena of {}", arena.space);
    }
    played
}

#[test]
fn transferred_values_wait_in_memory() {
    holds("transfers_host", "unet_grad_tiny", "host", 64);
}

#[test]
fn transferred_values_wait_in_a_file() {
    holds("transfers_disk", "unet_grad_tiny", "disk", 64);
}

#[test]
fn transferred_values_wait_in_whole_sectors_of_a_file() {
    holds("transfers_sectors", "unet_grad_tiny", "disk", 4096);
}

#[test]
fn near_bytes_are_used_again_while_a_value_is_away() {
    const SIDE: i64 = 64;
    const BYTES: u64 = (SIDE * SIDE * 4) as u64;
    let square = |name| value(name, FLOAT, Some(&[SIDE, SIDE]));
    let graph = GraphProto {
        name: Some("pause".to_owned()),
        input: vec![square("x")],
        output: vec![square("y")],
        node: vec![
            node("Exp", &["x"], &["a"]),
            node("Sin", &["a"], &["b"]),
            NodeProto { attribute: vec![integer("axis", 0)], ..node("Concat", &["b", "b", "b"], &["c"]) },
            node("MatMul", &["w", "c"], &["d"]),
            node("Add", &["d", "a"], &["y"]),
        ],
        initializer: vec![TensorProto {
            name: Some("w".to_owned()),
            dims: vec![SIDE, 3 * SIDE],
            data_type: Some(FLOAT),
            float_data: (0..3 * SIDE * SIDE).map(|position| (position % 17) as f32 * 0.01).collect(),
            ..TensorProto::default()
        }],
        ..GraphProto::default()
    };
    for space in ["host", "disk"] {
        let given = written(&format!("transfers_pause_{space}"), &model(graph.clone()));
        let (_, plain) = support::plan(&given, |_| {});
        let (out, moved) = plan_with_transfers(&given, space, 4096, 2, 1);
        let near = |layout: &Layout| layout.arenas.iter().find(|arena| arena.space == "device").unwrap().size;
        assert_eq!((near(&plain), near(&moved)), (5 * BYTES, 4 * BYTES), "with `a` in {space}");
        let found = verify(&runtime(), &given, &out, &moved, None, VerifyOptions::default())
            .expect("everything runs");
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        let used =
            found.played.unwrap().arenas.into_iter().find(|arena| arena.space == "device").unwrap().used;
        assert_eq!(used, 4 * BYTES);
    }
}

#[test]
fn near_bytes_that_are_taken_too_early_are_found() {
    let given = corpus("transfers_early", "unet_grad_tiny");
    let (out, layout) = plan_with_transfers(&given, "host", 64, 6, 8);
    let runtime = runtime();
    let set = inputs::make(&out, &layout, 0).unwrap();
    for row in &layout.transfers {
        let mut damaged = layout.clone();
        // End the live range of the far copy before it is read back.
        let far =
            damaged.tensors.iter_mut().find(|tensor| tensor.name == format!("{}.far", row.tensor)).unwrap();
        far.live[0].end = row.store_step + 1;
        assert!(!memc_check::check(&given, &out, &damaged, Default::default()).holds());
        let options = PlayOptions { poison_check: true, any_model: true, ..PlayOptions::default() };
        let refused =
            Player::new(&runtime, &out, &damaged, PlayOptions { any_model: false, ..options.clone() });
        assert!(matches!(refused, Err(Error::Tensor { .. })));
        let error = Player::new(&runtime, &out, &damaged, options)
            .unwrap()
            .play(&set)
            .expect_err("the copy is poison");
        assert!(
            matches!(&error, Error::Clobbered { tensor, .. } if *tensor == format!("{}.far", row.tensor)),
            "{error}"
        );
    }
}

#[test]
fn a_folder_without_room_for_a_file_is_named() {
    let given = corpus("transfers_no_folder", "unet_grad_tiny");
    let (out, layout) = plan_with_transfers(&given, "disk", 64, 6, 8);
    let runtime = runtime();
    let options = PlayOptions { swap_folder: Some("no/such/folder".into()), ..PlayOptions::default() };
    let error = Player::new(&runtime, &out, &layout, options).expect_err("no folder");
    assert!(
        matches!(&error, Error::File { path, .. } if path.starts_with(Path::new("no/such/folder"))),
        "{error}"
    );
}

#[test]
fn a_stock_session_runs_the_functions_of_transfers() {
    let given = corpus("transfers_stock", "unet_grad_tiny");
    let (out, layout) = plan_with_transfers(&given, "host", 64, 6, 8);
    assert!(out.model().functions.iter().any(|function| function.name() == "SwapOut"));
    let runtime = runtime();
    let set = inputs::make(&out, &layout, 0).unwrap();
    let run = |file| {
        memc_ort::Whole::new(&runtime, file, memc_ort::SessionOptions::PLAIN).unwrap().run(&set).unwrap().0
    };
    assert_eq!(memc_ort::digest(&views(&run(&given))), memc_ort::digest(&views(&run(&out))));
}
