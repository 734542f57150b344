//! Measures how much transfer time of a plan overlaps with kernels, as one row of a table. Plays the
//! plan as usual, and with a wait after each transfer, in turns in one process.
//!
//! `cargo run --release -p memc-ort --example overlap -- OUT.onnx LAYOUT.json FOLDER [REPEATS]`; `-`
//! prints the head of the table. FOLDER holds the files of spaces named `disk`.
#![allow(clippy::print_stdout)]

use std::sync::OnceLock;
use std::time::Instant;

use memc_onnx_proto::ModelFile;
use memc_ort::inputs::Seeded;
use memc_ort::{PlayOptions, Played, Player, Runtime, digest, library};

type Failure = Box<dyn std::error::Error>;

const HEAD: &str = "| model | spaces | transfers | bytes | serial: links busy, ms | waited | run | overlapped: links busy, ms | waited | run \
    | waited / busy | run / serial | bits |";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [output, layout, folder, rest @ ..] = arguments.as_slice() else {
        println!("{HEAD}\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|");
        return Ok(());
    };
    let repeats = rest.first().map_or(Ok(5), |text| text.parse::<usize>())?;
    let out = ModelFile::open(output)?;
    let layout = memc_layout::read(&std::fs::read_to_string(layout)?)?;
    let runtime = Runtime::load(&library::find(None)?)?;
    let set = Seeded::new(&out, &layout, 0)?;
    let player = |serial_transfers| {
        let swap_folder = Some(folder.into());
        Player::new(
            &runtime,
            &out,
            &layout,
            PlayOptions { serial_transfers, swap_folder, clock: Some(now), ..PlayOptions::default() },
        )
    };
    let (mut serial, mut overlapped) = (player(true)?, player(false)?);
    let (mut apart, mut beside) = (Vec::new(), Vec::new());
    let mut links = Played::default().links;
    for _ in 0..=repeats {
        apart.push(Taken::of(&serial.play(&set)?));
        let played = overlapped.play(&set)?;
        beside.push(Taken::of(&played));
        links = played.links;
    }
    let same =
        if digest(&serial.outputs()?) == digest(&overlapped.outputs()?) { "same" } else { "DIFFERENT" };
    let (apart, beside) = (Taken::median(apart), Taken::median(beside));
    let spaces: Vec<String> = links.iter().map(|link| format!("{} -> {}", link.from, link.to)).collect();
    let (count, bytes) = links.iter().fold((0, 0), |sum, link| (sum.0 + link.transfers, sum.1 + link.bytes));
    let name = std::path::Path::new(output)
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    println!(
        "| {name} | {} | {count} | {bytes} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.3} | {:.3} | {same} |",
        spaces.join(", "),
        apart.busy,
        apart.waited,
        apart.run,
        beside.busy,
        beside.waited,
        beside.run,
        beside.waited / beside.busy,
        beside.run / apart.run
    );
    Ok(())
}

/// Times of a run, in milliseconds.
#[derive(Clone, Copy)]
struct Taken {
    busy: f64,
    waited: f64,
    run: f64,
}

impl Taken {
    fn of(played: &Played) -> Self {
        let sum =
            |time: fn(&memc_ort::LinkUse) -> u64| played.links.iter().map(time).sum::<u64>() as f64 / 1e6;
        Self {
            busy: sum(|link| link.busy),
            waited: sum(|link| link.waited),
            run: played.nanoseconds as f64 / 1e6,
        }
    }

    /// Returns the median of each number; the first run is a warm-up and does not count.
    fn median(runs: Vec<Self>) -> Self {
        let middle = |number: fn(&Self) -> f64| {
            let mut numbers: Vec<f64> = runs.iter().skip(1).map(number).collect();
            numbers.sort_by(f64::total_cmp);
            numbers[numbers.len() / 2]
        };
        Self { busy: middle(|run| run.busy), waited: middle(|run| run.waited), run: middle(|run| run.run) }
    }
}

/// Returns the time since the first call, in nanoseconds.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
