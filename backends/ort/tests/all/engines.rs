//! Plays plans for several engines: bit for bit like one engine whatever the speed of each, and not without
//! a wait.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ort::{Error, PlayOptions, Played, Player, Runtime, digest, inputs};
use support::{corpus, folder, plan, runtime};

/// Number of runs with random sleeps; `MEMC_SLEEPS=1000` sets another one.
fn runs() -> u64 {
    std::env::var("MEMC_SLEEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

/// Copies a small model of five branches, which the check has a plan of, to a test's folder.
fn branches(test: &str) -> ModelFile {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../check/tests/data/plans/engines.given.onnx");
    let path = folder(test).join("branches.onnx");
    std::fs::copy(&source, &path).expect("the plan's model");
    ModelFile::open(&path).expect("a model")
}

/// Plays a plan and returns the digest of its outputs.
fn play(
    runtime: &Runtime,
    (out, layout): (&ModelFile, &Layout),
    delay: Option<fn(usize)>,
    count: u64,
) -> Result<(String, Played), Error> {
    let options = PlayOptions { poison_check: true, delay, ..PlayOptions::default() };
    let mut player = Player::new(runtime, out, layout, options)?;
    let given = inputs::Seeded::new(out, layout, 7)?;
    let mut found = Vec::new();
    let mut played = Played::default();
    for _ in 0..count {
        played = player.play(&given)?;
        found.push(digest(&player.outputs()?));
    }
    found.dedup();
    assert_eq!(found.len(), 1, "the results depend on the run");
    Ok((found.remove(0), played))
}

/// Sleeps at random, up to a fifth of a millisecond.
fn at_random(_step: usize) {
    static STATE: AtomicU64 = AtomicU64::new(1);
    let drawn = STATE.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    std::thread::sleep(Duration::from_micros(drawn % 200));
}

fn holds(file: &ModelFile) {
    let (one, alone) = plan(file, |_| {});
    let runtime = runtime();
    let (expected, _) = play(&runtime, (&one, &alone), None, 1).expect("one engine plays");
    for engines in [2, 3] {
        let (out, layout) = plan(file, |request| request.engines = engines);
        assert!(layout.engines() > 1 && layout.cost.modelled_ns_after < alone.cost.modelled_ns_after);
        let (found, played) =
            play(&runtime, (&out, &layout), Some(at_random), runs()).expect("several engines play");
        assert_eq!(found, expected, "{engines} engines");
        assert_eq!(played.engines.iter().map(|engine| engine.steps).sum::<usize>(), layout.schedule.len());
        assert_eq!(played.bytes_outside(), 0);
    }
}

#[test]
fn branches_play_bit_for_bit_like_one_engine() {
    holds(&branches("engines_branches"));
}

#[test]
fn a_network_of_modules_plays_bit_for_bit_like_one_engine() {
    holds(&corpus("engines_squeezenet", "light_squeezenet"));
}

/// Step that sleeps, in the test below.
static SLOW: AtomicUsize = AtomicUsize::new(usize::MAX);

fn slow(step: usize) {
    if step == SLOW.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_lost_wait_is_noticed_if_the_other_engine_is_slow() {
    let (out, layout) = plan(&branches("engines_lost"), |request| request.engines = 2);
    let runtime = runtime();
    let (expected, _) = play(&runtime, (&out, &layout), None, 1).expect("the plan plays");
    assert!(layout.sync.len() > 3);
    for wait in 0..layout.sync.len() {
        let mut damaged = layout.clone();
        let lost = damaged.sync.remove(wait);
        SLOW.store(lost.after as usize, Ordering::Relaxed);
        let found = play(&runtime, (&out, &damaged), Some(slow), 1);
        assert!(
            found.as_ref().map_or(true, |(found, _)| *found != expected),
            "{lost:?} is lost, and nothing happens"
        );
    }
}

#[test]
fn plans_with_wrong_engines_are_refused() {
    let (out, layout) = plan(&branches("engines_wrong"), |request| request.engines = 2);
    let runtime = runtime();
    let refused = |damage: fn(&mut Layout)| {
        let mut damaged = layout.clone();
        damage(&mut damaged);
        let error = Player::new(&runtime, &out, &damaged, PlayOptions::default()).expect_err("a refusal");
        assert!(matches!(error, Error::Engines { .. }) && error.code() == "E0704", "{error}");
    };
    refused(|layout| layout.schedule[3].engine = None);
    refused(|layout| layout.schedule[3].engine = Some(u64::MAX));
    refused(|layout| layout.sync[0].after = layout.sync[0].step);
    refused(|layout| layout.sync[0].step = 1 << 40);
}
