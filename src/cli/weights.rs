//! Weight files that a written model names: they go along with it, or are reported missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use memc::Error;
use memc_ir::{Diagnostic, Severity};

use memc::Outputs;

/// Weight files of a model that is written into another folder.
pub struct Elsewhere {
    /// Name in the model, path of the file, and path at which a session looks for it.
    files: Vec<(String, PathBuf, PathBuf)>,
}

impl Elsewhere {
    /// Lists the files that a model names; none if both models lie in one folder.
    pub fn of(names: &BTreeSet<String>, input: &Path, output: &Path) -> Self {
        let (from, to) = (folder(input), folder(output));
        if from.canonicalize().ok().is_some_and(|from| to.canonicalize().is_ok_and(|to| from == to)) {
            return Self { files: Vec::new() };
        }
        let places = names.iter().map(|name| (name.clone(), from.join(name), to.join(name)));
        Self { files: places.collect() }
    }

    /// Adds each file to the outputs; existing files are replaced. Files that are missing beside the given
    /// model too (stripped weights) are left out.
    ///
    /// # Errors
    /// The system refuses to read a file or to make its folder.
    pub fn send_along(&self, outputs: &mut Outputs) -> Result<(), Error> {
        for (_, from, to) in self.files.iter().filter(|(_, from, _)| from.is_file()) {
            fs::create_dir_all(folder(to)).map_err(|source| Error::File {
                what: "write",
                path: to.clone(),
                source,
            })?;
            outputs.add_copy(from, to)?;
        }
        Ok(())
    }

    /// Warns about files that a session will not find. Files that are missing beside the given model too
    /// (stripped weights) do not count.
    pub fn missed(&self) -> Option<Diagnostic> {
        let missed = self.files.iter().filter(|(_, from, to)| from.is_file() && !to.exists());
        let missed: Vec<&str> = missed.map(|(name, ..)| name.as_str()).collect();
        let first = missed.first()?;
        let more = if missed.len() > 1 { format!(" and {} more", missed.len() - 1) } else { String::new() };
        let text = format!("the written model reads weights from `{first}`{more}, which is not beside it");
        let help = "leave out `--weights-in-place`, or write the model into the folder of the given one";
        Some(Diagnostic::new("W0401", Severity::Warning, text).with_help(help))
    }
}

/// The folder that a file lies in.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
