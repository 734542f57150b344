//! Checks of a division: of its files, and of one that was just made.

use std::path::{Component, Path};

use bytes::Bytes;
use memc_check::devices::{SectionFiles, check_prepared};
use memc_check::{Report, Which};
use memc_layout::devices::{self, Manifest};
use memc_onnx_export::{Chunk, ChunkSource};
use memc_onnx_proto::{ModelFile, ReadError};

use super::Sections;
use crate::error::Error;
use crate::external::Weights;
use crate::outputs::read;
use crate::request::Request;

/// Largest number of violations that an error shows.
const MAX_NOTES: usize = 8;

/// Verifies a manifest and the files that it names, against the model that was divided.
///
/// # Errors
/// A file cannot be read, or is not of its format.
pub fn check_manifest(given: &ModelFile, path: &Path) -> Result<Report, Error> {
    let manifest = read_manifest(path)?;
    let files = section_files(path, &manifest)?;
    let stated = manifest.source.prepared.as_ref();
    let prepared = stated.map(|stated| opened(path, &stated.model, &stated.layout)).transpose()?;
    let out = files.first().map_or(given, |first| &first.model);
    let weights = Weights::beside(given, out);
    Ok(check_prepared(given, prepared.as_ref(), &manifest, &files, &|which, location, offset, length| {
        weights.bytes(which, location, offset, length)
    }))
}

/// Opens the files of all sections, which lie beside the manifest.
///
/// # Errors
/// A file cannot be read, is not of its format, or is in another folder.
pub fn section_files(path: &Path, manifest: &Manifest) -> Result<Vec<SectionFiles>, Error> {
    manifest.sections.iter().map(|section| opened(path, &section.model, &section.layout)).collect()
}

/// Opens a model and its layout beside a manifest.
fn opened(manifest: &Path, model: &str, layout: &str) -> Result<SectionFiles, Error> {
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let (model, layout) = (inside(folder, model)?, inside(folder, layout)?);
    let text = read(&layout)?;
    let layout = memc_layout::read(&text).map_err(|source| Error::Layout { path: layout, source })?;
    Ok(SectionFiles { model: ModelFile::open(&model)?, text, layout })
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
    let source =
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "a manifest names files in its own folder");
    Err(Error::File { what: "read", path, source })
}

/// Checks a division from the bytes to write alone.
pub(super) fn prove(given: &ModelFile, sections: &Sections, request: &Request) -> Result<(), Error> {
    let mut files = Vec::new();
    for planned in sections.planned.iter().chain(&sections.prepared) {
        let unread = |source| Error::File { what: "read", path: "the weights of the model".into(), source };
        let bytes = planned.model_bytes().map_err(unread)?;
        let unreadable = |error: ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
        let model = ModelFile::from_bytes(bytes).map_err(unreadable)?.beside(given.path());
        let text = memc_layout::to_json(&planned.layout)?;
        let unread =
            |error: memc_layout::ReadError| Error::Refuted { violations: 1, notes: vec![error.to_string()] };
        files.push(SectionFiles { model, layout: memc_layout::read(&text).map_err(unread)?, text });
    }
    let prepared = if sections.prepared.is_some() { files.pop() } else { None };
    let Some(first) = files.first() else { return Ok(()) };
    let weights = Weights::beside(given, &first.model);
    // New files of weights are not written yet.
    let pairs = sections.manifest.sections.iter().zip(&sections.planned);
    let named = pairs.filter_map(|(section, planned)| {
        let data = request.external_data.as_ref()?.of_model(section.name());
        Some((data.location, planned.model.chunks.as_slice()))
    });
    let named: Vec<(String, &[Chunk])> = named.collect();
    let report = check_prepared(
        given,
        prepared.as_ref(),
        &sections.manifest,
        &files,
        &|which, location, offset, length| {
            let chunks = named
                .iter()
                .filter(|(name, _)| which == Which::Out && name == location)
                .flat_map(|(_, chunks)| *chunks);
            match chunks.into_iter().find(|chunk| chunk.offset == offset) {
                Some(chunk) => moved(chunk, length, &weights),
                None => weights.bytes(which, location, offset, length),
            }
        },
    );
    let notes =
        report.violations.iter().take(MAX_NOTES).map(|violation| violation.diagnostic.to_string()).collect();
    if report.holds() { Ok(()) } else { Err(Error::Refuted { violations: report.violations.len(), notes }) }
}

/// The bytes that the new file of weights will have.
fn moved(chunk: &Chunk, length: u64, weights: &Weights) -> Option<Bytes> {
    match &chunk.source {
        ChunkSource::Bytes(bytes) => bytes.get(..usize::try_from(length).ok()?).map(Bytes::copy_from_slice),
        ChunkSource::File { location, offset } => weights.bytes(Which::Given, location, *offset, length),
    }
}
