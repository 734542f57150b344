//! Weight files that a written model names: copied beside it, or missed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memc::Error;
use memc::ir::{Diagnostic, Severity};

use super::files::Outputs;

/// Files that lie beside the given model and not beside the written one.
pub struct Elsewhere {
    /// Name in the model, where the file is, and where a session looks for it.
    files: Vec<(String, PathBuf, PathBuf)>,
}

impl Elsewhere {
    /// Of what a model names. What is missing beside the given model too (stripped weights) is nobody's loss.
    pub fn of(names: &BTreeSet<&str>, input: &Path, output: &Path) -> Self {
        let (from, to) = (folder(input), folder(output));
        if from.canonicalize().ok().is_some_and(|from| to.canonicalize().is_ok_and(|to| from == to)) {
            return Self { files: Vec::new() };
        }
        let places = names.iter().map(|name| ((*name).to_owned(), from.join(name), to.join(name)));
        Self { files: places.filter(|(_, from, _)| from.is_file()).collect() }
    }

    /// Adds a copy of each to the outputs, whatever lies in its place.
    ///
    /// # Errors
    /// The system refuses to read one, or to make its folder.
    pub fn copy(&self, outputs: &mut Outputs) -> Result<(), Error> {
        for (_, from, to) in &self.files {
            let told = |what, path: &Path, source| Error::File { what, path: path.to_owned(), source };
            let mut file = File::open(from).map_err(|source| told("read", from, source))?;
            fs::create_dir_all(folder(to)).map_err(|source| told("write", to, source))?;
            outputs.add(to, |out| std::io::copy(&mut file, out).map(drop))?;
        }
        Ok(())
    }

    /// What no session will find.
    pub fn missed(&self) -> Option<Diagnostic> {
        let missed: Vec<&str> = self.files.iter().filter(|(_, _, to)| !to.exists()).map(|(name, ..)| name.as_str()).collect();
        let first = missed.first()?;
        let more = if missed.len() > 1 { format!(" and {} more", missed.len() - 1) } else { String::new() };
        let text = format!("the written model reads weights from `{first}`{more}, which is not beside it");
        let help = "give --copy-weights, or write the model into the folder of the given one";
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
