//! Shared parts of the commands that run models: the library, layouts, arrays, a clock, and errors as
//! diagnostics.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memc::Error;
use memc_ir::{Diagnostic, Severity};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_ort as play;
use play::inputs::Inputs as _;
use play::npz::Archive;
use play::{Array, Clocks, Runtime};

use super::Failure;
use memc::read;

/// Loads the runtime's library.
pub fn load(given: Option<&Path>) -> Result<Runtime, Failure> {
    let path = play::library::find(given).map_err(refuse)?;
    Runtime::load(&path).map_err(refuse)
}

/// Reads the named layout, or the one beside the model.
///
/// # Errors
/// The layout does not exist or cannot be read.
pub fn layout_of(model: &Path, named: Option<&Path>) -> Result<Layout, Failure> {
    let beside = model.with_extension("layout.json");
    if let Some(path) = named {
        return layout(path);
    }
    if !beside.exists() {
        let text =
            format!("{} does not exist: the plan was not checked, and nothing was run", beside.display());
        let help = "name the layout that was written with the model: `--layout PATH`";
        return Err(Failure {
            diagnostics: vec![Diagnostic::new("E0116", Severity::Error, text).with_help(help)],
            code: 1,
        });
    }
    layout(&beside)
}

/// Reads a layout file.
pub fn layout(path: &Path) -> Result<Layout, Failure> {
    let text = read(path)?;
    Ok(memc_layout::read(&text).map_err(|source| Error::Layout { path: path.to_owned(), source })?)
}

/// Reads the inputs of a model from a file, if one is given.
pub fn given(path: Option<&Path>, model: &ModelFile) -> Result<Option<BTreeMap<String, Array>>, Failure> {
    archive(path, model)?.map(|archive| archive.arrays().map_err(refuse)).transpose()
}

/// Opens a file with the inputs of a model, if one is given.
pub fn archive(path: Option<&Path>, model: &ModelFile) -> Result<Option<Archive>, Failure> {
    path.map(|path| Ok(Archive::open(path).map_err(refuse)?.for_model(model))).transpose()
}

/// Reads the extents of the arrays of a file, by name.
pub fn extents(path: &Path) -> Result<BTreeMap<String, Vec<u64>>, Failure> {
    let archive = Archive::open(path).map_err(refuse)?;
    let shape = |name: &&str| archive.kind(name).map(|(_, shape)| shape.to_vec());
    Ok(archive.names().into_iter().filter_map(|name| Some((name.to_owned(), shape(&name)?))).collect())
}

/// Converts an error of the runtime or the player to a failure of the command.
pub fn refuse(error: play::Error) -> Failure {
    let mut diagnostic = Diagnostic::new(error.code(), Severity::Error, error.to_string());
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        diagnostic = diagnostic.with_note(error.to_string());
        source = error.source();
    }
    let code = if matches!(error.code(), "E0706" | "E0715") { 2 } else { 1 };
    Failure { diagnostics: vec![diagnostic.with_help(error.help())], code }
}

/// Nanoseconds for which a processor ran this thread; the time on the clock where the system does not tell.
pub fn processor_nanoseconds() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    nanoseconds()
}

/// Longest random sleep, in microseconds: about the time of a kernel.
const LONGEST_SLEEP: u64 = 300;

/// Sleeps for a random time before every other kernel, so that engines reach their waits in another order
/// in each run.
pub fn sleep_at_random(_step: usize) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    // Multiplying by 2^64 over the golden ratio spreads the numbers of the calls.
    let drawn = CALLS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    if drawn.is_multiple_of(2) {
        std::thread::sleep(Duration::from_micros(drawn / 2 % LONGEST_SLEEP));
    }
}

/// The clocks of measurements.
pub const CLOCKS: Clocks = Clocks { wall: nanoseconds, processor: processor_nanoseconds };

/// Nanoseconds since the first call.
pub fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}
