//! Measures what starting and playing a plan take beside a whole session without optimization, as one row of a table.
//!
//! `cargo run --release -p memc-ort --example pace -- IN.onnx OUT.onnx LAYOUT.json [REPEATS]`; `-` gives the head of the table.
//! All times are processor times of the one thread that works, so that a busy machine does not count.
#![allow(clippy::print_stdout, unsafe_code)]

use memc_onnx_proto::ModelFile;
use memc_ort::{PlayOptions, Player, Runtime, SessionOptions, Whole, inputs, library};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, layout, rest @ ..] = arguments.as_slice() else {
        println!(
            "| model | steps | session ready, ms | player ready, ms | a step | beyond the session, a step | run, session, ms | run, player, ms | play / whole |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
        return Ok(());
    };
    let repeats = rest.first().map_or(Ok(5), |text| text.parse::<usize>())?;
    let (given, out) = (ModelFile::open(input)?, ModelFile::open(output)?);
    let layout = memc_layout::read(&std::fs::read_to_string(layout)?)?;
    let runtime = Runtime::load(&library::find(None)?)?;
    let set = inputs::make(&out, &layout, 0)?;
    let ready = |options: PlayOptions| Player::new(&runtime, &out, &layout, options);
    let (mut session_ready, mut player_ready) = (f64::INFINITY, f64::INFINITY);
    // The least of several in turns: the first of each brings weights from the disk, and memory is found again faster than it is found.
    for _ in 0..repeats.max(2) {
        let (whole, time) = timed(|| Whole::as_stated(&runtime, &given, SessionOptions::PLAIN))?;
        drop(whole?);
        session_ready = session_ready.min(time);
        let (player, time) = timed(|| ready(PlayOptions::default()))?;
        drop(player?);
        player_ready = player_ready.min(time);
    }
    let whole = Whole::as_stated(&runtime, &given, SessionOptions::PLAIN)?;
    let mut player = ready(PlayOptions::default())?;
    let (mut session, mut plan) = (Vec::new(), Vec::new());
    for _ in 0..=repeats {
        let (outputs, time) = timed(|| whole.run(&set))?;
        outputs?;
        session.push(time);
        let (played, time) = timed(|| player.play(&set))?;
        played?;
        plan.push(time);
    }
    let median = |times: &mut Vec<f64>| {
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (session, plan) = (median(&mut session), median(&mut plan));
    let steps = layout.schedule.len().max(1) as f64;
    let name = std::path::Path::new(input).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    println!(
        "| {name} | {steps} | {session_ready:.1} | {player_ready:.1} | {:.3} | {:.3} | {session:.2} | {plan:.2} | {:.3} |",
        player_ready / steps,
        (player_ready - session_ready) / steps,
        plan / session
    );
    Ok(())
}

/// Processor milliseconds that some work takes on this thread.
fn timed<T>(work: impl FnOnce() -> T) -> Result<(T, f64), Failure> {
    let before = processor()?;
    let result = work();
    Ok((result, (processor()? - before) / 1e6))
}

/// Nanoseconds that this thread has spent on a processor.
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
    const THREAD: std::ffi::c_int = 3;
    let mut time = Time::default();
    // SAFETY: the structure is the system's and writable (clock_gettime(2)).
    match unsafe { clock_gettime(THREAD, &raw mut time) } {
        0 => Ok(time.seconds as f64 * 1e9 + time.nanoseconds as f64),
        _ => Err("the system does not say what a thread took".into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn processor() -> Result<f64, Failure> {
    Err("processor times are read on Linux only".into())
}
