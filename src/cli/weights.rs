//! Weight files that a written model names: copied beside it, or reported missing.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
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

    /// Adds a copy of each file to the outputs; existing files are replaced.
    ///
    /// # Errors
    /// A file is missing beside the given model, or the system refuses to read it or to make its folder.
    pub fn copy(&self, outputs: &mut Outputs) -> Result<(), Error> {
        let told = |what, path: &Path, source| Error::File { what, path: path.to_owned(), source };
        let mut open = Vec::with_capacity(self.files.len());
        for (name, from, to) in &self.files {
            let file = File::open(from).and_then(|file| if from.is_file() { Ok(file) } else { Err(ErrorKind::NotFound.into()) });
            let file = file.map_err(|source| match source.kind() {
                ErrorKind::NotFound => Error::WeightFile { name: name.clone(), path: from.clone() },
                _ => told("read", from, source),
            })?;
            open.push((file, to));
        }
        for (mut file, to) in open {
            fs::create_dir_all(folder(to)).map_err(|source| told("write", to, source))?;
            outputs.add(to, |out| std::io::copy(&mut file, out).map(drop))?;
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
        let help = "use `--copy-weights`, or write the model into the folder of the given one";
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
