//! Plans whose sessions are counted: each session runs in a process of its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use memc::{Error, Model, Planned};
use memc_ops::profile::SessionSettings;
use serde_json::Value;

use super::args::Optimize;
use super::{Failure, is_stream};

/// Writes a plan as the arguments say it: the model, its layout, its weights.
pub type Write<'w> = &'w dyn Fn(&Optimize, &Model, &Planned) -> Result<(), Failure>;

/// Passes that leave nodes and their order as they are.
pub const OWN_NODES: &str = "view,in-place,place";

/// A planned model in files of a folder of its own, which goes when it is dropped.
struct Trial {
    folder: PathBuf,
    model: PathBuf,
    /// Bytes by the text of settings; `None` if the model does not run with them.
    counted: BTreeMap<String, Option<u64>>,
}

impl Drop for Trial {
    fn drop(&mut self) {
        // A folder that stays behind does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Trial {
    /// Writes the files of a plan as `optimize` writes them; `number` tells trials of one command apart.
    fn write(
        arguments: &Optimize,
        file: &Model,
        planned: &Planned,
        number: usize,
        write: Write<'_>,
    ) -> Result<Self, Failure> {
        // Beside the output, so that weights become links.
        let place = arguments.output.as_deref().filter(|output| !is_stream(output)).and_then(Path::parent);
        let place = place.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = place.join(format!(".memc-session-{}-{number}", std::process::id()));
        let told = |source| Error::File { what: "write", path: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(told)?;
        let model = folder.join("model.onnx");
        let trial = Self { folder, model: model.clone(), counted: BTreeMap::new() };
        let written = Optimize {
            output: Some(model),
            layout: Vec::new(),
            report: Vec::new(),
            depfile: None,
            weights_in_place: false,
            ..arguments.clone()
        };
        write(&written, file, planned)?;
        Ok(trial)
    }

    /// Most bytes of a run with these settings beyond the session at rest; `None` if it does not run.
    fn count(&mut self, library: &Path, settings: &SessionSettings) -> Option<u64> {
        let (text, model) = (settings.to_string(), &self.model);
        *self.counted.entry(text).or_insert_with_key(|text| counted(library, model, text))
    }
}

/// Counts a session in another process: most bytes of a run beyond the session at rest.
pub fn counted(library: &Path, model: &Path, settings: &str) -> Option<u64> {
    let mut words = program();
    let mut command = Command::new(words.remove(0));
    command
        .args(words)
        .arg("-q")
        .arg("profile")
        .arg(model)
        .arg("--session")
        .arg(settings)
        .env("ORT_DYLIB_PATH", library);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    serde_json::from_slice::<Value>(&output.stdout).ok()?["bytes"].as_u64()
}

/// The executable of this process, where that is the command under any name.
static COMMAND: OnceLock<PathBuf> = OnceLock::new();

/// Notes that the executable of this process is the command.
pub fn set_command() {
    if let Ok(path) = std::env::current_exe() {
        // Only the first call counts, and all have one path.
        let _ = COMMAND.set(path);
    }
}

/// The words that start this program: the executable, or the module in its Python.
fn program() -> Vec<OsString> {
    match COMMAND.get() {
        Some(path) => vec![path.into()],
        None => {
            let python = std::env::var_os("MEMC_PYTHON")
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| "python3".into());
            vec![python, "-m".into(), "memc".into()]
        }
    }
}

/// A plan with its files, and how many bytes its sessions took.
pub struct Tried {
    /// The plan.
    pub planned: Planned,
    /// Whether the plan has the nodes and the order of the given model.
    pub is_own: bool,
    trial: Trial,
}

impl Tried {
    /// Writes the files of a plan; `number` tells plans of one command apart.
    ///
    /// # Errors
    /// Files cannot be written.
    pub fn write(
        arguments: &Optimize,
        file: &Model,
        planned: Planned,
        is_own: bool,
        number: usize,
        write: Write<'_>,
    ) -> Result<Self, Failure> {
        let trial = Trial::write(arguments, file, &planned, number, write)?;
        Ok(Self { planned, is_own, trial })
    }

    /// Most bytes of a run with these settings beyond the session at rest; `None` if it does not run.
    pub fn count(&mut self, library: &Path, settings: &SessionSettings) -> Option<u64> {
        self.trial.count(library, settings)
    }

    /// Counts a session once more, since optimizations may number nodes differently
    /// each time. Keeps the larger number; returns whether it is larger.
    pub fn grows(&mut self, library: &Path, settings: &SessionSettings) -> bool {
        let (again, known) =
            (counted(library, &self.trial.model, &settings.to_string()), self.count(library, settings));
        let grows = again > known;
        if grows {
            self.trial.counted.insert(settings.to_string(), again);
        }
        grows
    }
}
