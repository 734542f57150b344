//! Checks of a division: of its files, and of one that was just made.

use std::path::{Component, Path};

use memc_check::Report;
use memc_check::devices::SectionFiles;
use memc_layout::devices::{self, Manifest};
use memc_onnx_proto::{ModelFile, ReadError};

use super::Sections;
use crate::error::Error;
use crate::external::Weights;
use crate::outputs::read;

/// Largest number of violations that an error shows.
const MAX_NOTES: usize = 8;

/// Verifies a manifest and the files that it names, against the model that was divided.
///
/// # Errors
/// A file cannot be read, or is not of its format.
pub fn check_manifest(given: &ModelFile, path: &Path) -> Result<Report, Error> {
    let manifest = read_manifest(path)?;
    let files = section_files(path, &manifest)?;
    let Some(first) = files.first() else {
        return Ok(memc_check::devices::check(given, &manifest, &files, &|_, _, _, _| None));
    };
    Ok(Weights::beside(given, &first.model).check_sections(given, &manifest, &files))
}

/// Opens the files of all sections, which lie beside the manifest.
///
/// # Errors
/// A file cannot be read, is not of its format, or is in another folder.
pub fn section_files(path: &Path, manifest: &Manifest) -> Result<Vec<SectionFiles>, Error> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = Vec::new();
    for section in &manifest.sections {
        let (model, layout) = (inside(folder, &section.model)?, inside(folder, &section.layout)?);
        let text = read(&layout)?;
        let read_layout = memc_layout::read(&text).map_err(|source| Error::Layout { path: layout.clone(), source })?;
        files.push(SectionFiles { model: ModelFile::open(&model)?, text, layout: read_layout });
    }
    Ok(files)
}

/// Reads a manifest.
///
/// # Errors
/// The file cannot be read, or is not a manifest.
pub fn read_manifest(path: &Path) -> Result<Manifest, Error> {
    devices::read(&read(path)?).map_err(|source| Error::Manifest { path: path.to_owned(), source })
}

/// A file in the folder of the manifest: it may not name others.
fn inside(folder: &Path, name: &str) -> Result<std::path::PathBuf, Error> {
    let path = folder.join(name);
    if !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
        return Ok(path);
    }
    let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, "a manifest names files in its own folder");
    Err(Error::File { what: "read", path, source })
}

/// Checks a division from the bytes to write alone.
pub(super) fn prove(given: &ModelFile, sections: &Sections) -> Result<(), Error> {
    let mut files = Vec::new();
    for planned in &sections.planned {
        let unread = |source| Error::File { what: "read", path: "the weights of the model".into(), source };
        let bytes = planned.model_bytes().map_err(unread)?;
        let unreadable = |error: ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
        let model = ModelFile::from_bytes(bytes).map_err(unreadable)?.beside(given.path());
        let text = memc_layout::to_json(&planned.layout)?;
        let unread = |error: memc_layout::ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
        files.push(SectionFiles { model, layout: memc_layout::read(&text).map_err(unread)?, text });
    }
    let Some(first) = files.first() else { return Ok(()) };
    let report = Weights::beside(given, &first.model).check_sections(given, &sections.manifest, &files);
    let notes = report.violations.iter().take(MAX_NOTES).map(|violation| violation.diagnostic.to_string()).collect();
    if report.holds() { Ok(()) } else { Err(Error::Refuted { violations: report.violations.len(), notes }) }
}
