//! Measures the time to start and to play a plan, compared with a whole session without optimization, as
//! one row of a table.
//!
//! `cargo run --release -p memc-ort --example pace -- IN.onnx OUT.onnx LAYOUT.json [REPEATS]`; `-`
//! prints the head of the table. *Processor*: time of all threads on processors, which does not depend
//! on the load of the machine. *Elapsed*: time that a user waits.
#![allow(clippy::print_stdout, unsafe_code)]

use memc_onnx_proto::ModelFile;
use memc_ort::{PlayOptions, Player, Runtime, SessionOptions, Whole, inputs, library};

type Failure = Box<dyn std::error::Error>;

const HEAD: &str = "| model | steps | ready, processor ms: session | player | player / session | ready, elapsed ms: session | player \
    | player / session | a step | run, processor ms: session | player | player / session |";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, layout, rest @ ..] = arguments.as_slice() else {
        println!("{HEAD}\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
        return Ok(());
    };
    let repeats = rest.first().map_or(Ok(5), |text| text.parse::<usize>())?;
    let (given, out) = (ModelFile::open(input)?, ModelFile::open(output)?);
    let layout = memc_layout::read(&std::fs::read_to_string(layout)?)?;
    let runtime = Runtime::load(&library::find(None)?)?;
    let set = inputs::make(&out, &layout, 0)?;
    let ready = || Player::new(&runtime, &out, &layout, PlayOptions::default());
    let whole = || Whole::as_stated(&runtime, &given, SessionOptions::PLAIN);
    let (mut session_ready, mut player_ready) = (Taken::MAX, Taken::MAX);
    // Take the least of several turns: the first turn reads weights from the disk, and reused memory is
    // faster than fresh memory.
    for _ in 0..repeats.max(2) {
        session_ready = session_ready.least(timed(whole)?.1);
        player_ready = player_ready.least(timed(ready)?.1);
    }
    let (whole, mut player) = (whole()?, ready()?);
    let (mut session, mut plan) = (Vec::new(), Vec::new());
    for _ in 0..=repeats {
        session.push(timed(|| whole.results(&set))?.1.processor);
        plan.push(timed(|| player.play(&set))?.1.processor);
    }
    let median = |times: &mut Vec<f64>| {
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (session, plan) = (median(&mut session), median(&mut plan));
    let steps = layout.schedule.len().max(1) as f64;
    let name = std::path::Path::new(input)
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    println!(
        "| {name} | {steps} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} | {:.2} | {:.3} | {session:.2} | {plan:.2} | {:.3} |",
        session_ready.processor,
        player_ready.processor,
        player_ready.processor / session_ready.processor,
        session_ready.elapsed,
        player_ready.elapsed,
        player_ready.elapsed / session_ready.elapsed,
        player_ready.elapsed / steps,
        plan / session
    );
    Ok(())
}

/// Time of some work, in milliseconds.
#[derive(Clone, Copy)]
struct Taken {
    processor: f64,
    elapsed: f64,
}

impl Taken {
    const MAX: Self = Self { processor: f64::INFINITY, elapsed: f64::INFINITY };

    fn least(self, other: Self) -> Self {
        Self { processor: self.processor.min(other.processor), elapsed: self.elapsed.min(other.elapsed) }
    }
}

/// Runs some work and measures its time; the result is dropped after the measurement.
fn timed<T, E: Into<Failure>>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Taken), Failure> {
    let (before, started) = (processor()?, std::time::Instant::now());
    let result = work().map_err(Into::into)?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    Ok((result, Taken { processor: (processor()? - before) / 1e6, elapsed }))
}

/// Returns the time that all threads of this process have spent on processors, in nanoseconds.
#[cfg(target_os = "linux")]
fn processor() -> Result<f64, Failure> {
    #[repr(C)]
    #[derive(Default)]
    struct Time {
        seconds: std::ffi::c_long,
        nanoseconds: std::ffi::c_long,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: std::ffi::c_int, time: *mut Time) -> std::ffi::c_int;
    }
    const PROCESS: std::ffi::c_int = 2;
    let mut time = Time::default();
    // SAFETY: the structure matches the system's and is writable (clock_gettime(2)).
    match unsafe { clock_gettime(PROCESS, &raw mut time) } {
        0 => Ok(time.seconds as f64 * 1e9 + time.nanoseconds as f64),
        _ => Err("the system does not say what a process took".into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn processor() -> Result<f64, Failure> {
    Err("processor times are read on Linux only".into())
}
