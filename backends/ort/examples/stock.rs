//! Measures the effect of session options on a model before and after planning, as one row of a table.
//!
//! `cargo run --release -p memc-ort --example stock -- IN.onnx OUT.onnx LAYOUT.json [REPEATS]`; `-`
//! prints the head of the table.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use memc_onnx_proto::ModelFile;
use memc_ort::{PlayOptions, Player, Runtime, SessionOptions, Whole, inputs, library};

type Failure = Box<dyn std::error::Error>;

const STOCK: SessionOptions = SessionOptions { optimize: true, prepack: true, arena: false, pattern: true };
const BEST_STOCK: SessionOptions =
    SessionOptions { optimize: true, prepack: true, arena: false, pattern: false };

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, layout, rest @ ..] = arguments.as_slice() else {
        println!(
            "| model | IN, all optimizations, memory pattern | IN, all optimizations | OUT, all optimizations | IN, none | OUT, none | arena played | play / whole |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        return Ok(());
    };
    let repeats = rest.first().map_or(Ok(5), |text| text.parse::<usize>())?;
    let (given, out) = (ModelFile::open(input)?, ModelFile::open(output)?);
    let layout = memc_layout::read(&std::fs::read_to_string(layout)?)?;
    let runtime = Runtime::load(&library::find(None)?)?;
    let set = inputs::make(&out, &layout, 0)?;
    let mut columns = Vec::new();
    for (file, options) in [
        (&given, STOCK),
        (&given, BEST_STOCK),
        (&out, BEST_STOCK),
        (&given, SessionOptions::PLAIN),
        (&out, SessionOptions::PLAIN),
    ] {
        let whole = Whole::new(&runtime, file, options)?;
        // Measure the second run: the memory pattern takes effect only then.
        whole.run(&set)?;
        columns.push(whole.run(&set)?.1.peak.to_string());
    }
    let whole = Whole::new(&runtime, &given, SessionOptions { prepack: true, ..SessionOptions::PLAIN })?;
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default())?;
    let (mut session, mut plan) = (Vec::new(), Vec::new());
    // In turns, so that a busy machine slows both.
    for _ in 0..=repeats {
        let started = Instant::now();
        whole.run(&set)?;
        session.push(started.elapsed());
        let started = Instant::now();
        player.play(&set)?;
        plan.push(started.elapsed());
    }
    let median = |times: &mut Vec<std::time::Duration>| {
        times.remove(0);
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    };
    let ratio = median(&mut plan) / median(&mut session);
    let arena: u64 = layout.arenas.iter().map(|arena| arena.size).sum();
    let name = std::path::Path::new(input)
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    println!("| {name} | {} | {arena} | {ratio:.3} |", columns.join(" | "));
    Ok(())
}
