//! Weights in files beside the model: mapped when a pass first asks for their bytes.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use memc_check::{Options, Report, Which};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_passes::ExternalData;

/// Files of one folder by their path in it; `None` for files that cannot be opened.
#[derive(Debug, Default)]
pub(crate) struct ExternalFiles {
    folder: PathBuf,
    mapped: Mutex<BTreeMap<String, Option<Bytes>>>,
}

impl ExternalFiles {
    /// Files beside a model.
    pub(crate) fn beside(model: Option<&Path>) -> Self {
        let folder = model.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        Self { folder, mapped: Mutex::default() }
    }

    /// Whether both are files of one folder.
    fn is_of_folder(&self, other: &Self) -> bool {
        let whole = |folder: &Path| match folder.as_os_str().is_empty() {
            true => Path::new(".").canonicalize(),
            false => folder.canonicalize(),
        };
        self.folder == other.folder
            || whole(&self.folder).ok().zip(whole(&other.folder).ok()).is_some_and(|(a, b)| a == b)
    }

    fn map(&self, location: &str) -> Option<Bytes> {
        let path = Path::new(location);
        // A model may not name files outside its folder.
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return None;
        }
        let file = File::open(self.folder.join(path))
            .ok()
            .filter(|file| file.metadata().is_ok_and(|data| data.is_file()))?;
        // SAFETY: the map is read-only, and nothing in this program writes to weight files.
        let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
        Some(Bytes::from_owner(map))
    }
}

/// Weights beside two models, for a check that compares them by content.
#[derive(Debug)]
pub struct Weights {
    given: ExternalFiles,
    out: ExternalFiles,
}

impl Weights {
    /// Weights beside the given and the written model. A given model from memory has none; a written one is
    /// taken to lie beside the given one.
    pub fn beside(given: &ModelFile, out: &ModelFile) -> Self {
        Self {
            given: ExternalFiles::beside(given.path()),
            out: ExternalFiles::beside(out.path().or(given.path())),
        }
    }

    /// Verifies a layout against both models and these weights.
    pub fn check(&self, given: &ModelFile, out: &ModelFile, layout: &Layout) -> Report {
        self.check_with(given, out, layout, Options::default())
    }

    /// Looks for violations in a plan that was just made, whose hashes need no second look.
    pub(crate) fn check_new(&self, given: &ModelFile, out: &ModelFile, layout: &Layout) -> Report {
        self.check_with(given, out, layout, Options { hashes: false, is_new: true, ..Options::default() })
    }

    /// Whether both models lie in one folder.
    pub(crate) fn are_in_one_folder(&self) -> bool {
        self.given.is_of_folder(&self.out)
    }

    /// Bytes of a file beside one of the models; `None` if it cannot be read or is too short.
    pub(crate) fn bytes(&self, which: Which, location: &str, offset: u64, length: u64) -> Option<Bytes> {
        match which {
            Which::Given => self.given.bytes(location, offset, length),
            Which::Out => self.out.bytes(location, offset, length),
        }
    }

    fn check_with(&self, given: &ModelFile, out: &ModelFile, layout: &Layout, options: Options) -> Report {
        let options = Options { one_folder: self.given.is_of_folder(&self.out), ..options };
        memc_check::check_with(given, out, layout, options, &|which, location, offset, length| {
            let files = match which {
                Which::Given => &self.given,
                Which::Out => &self.out,
            };
            files.bytes(location, offset, length)
        })
    }
}

impl ExternalData for ExternalFiles {
    fn bytes(&self, location: &str, offset: u64, length: u64) -> Option<Bytes> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = mapped.entry(location.to_owned()).or_insert_with(|| self.map(location)).clone()?;
        let (from, to) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(length)?).ok()?);
        (to <= whole.len()).then(|| whole.slice(from..to))
    }
}
