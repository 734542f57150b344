//! A member: a layout with its name, and the planned model beside it.

use std::path::{Path, PathBuf};

use memc_layout::Layout;

use crate::error::Error;
use crate::outputs::read;

/// A planned model that shares memory with others.
#[derive(Clone, Debug)]
pub struct ShareMember {
    /// Name in the joint file.
    pub name: String,
    /// The layout file.
    pub path: PathBuf,
    /// Text of the layout file.
    pub text: String,
    /// The layout in this text.
    pub layout: Layout,
}

impl ShareMember {
    /// Reads a member as the command names it: `NAME=LAYOUT.json`, or `LAYOUT.json` for a name from the
    /// file's.
    ///
    /// # Errors
    /// The file cannot be read, or is not a layout.
    pub fn open(words: &str) -> Result<Self, Error> {
        // A file of this whole name comes first: paths may contain equals signs.
        let named = words.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
        let (name, path) = match named.filter(|_| !Path::new(words).is_file()) {
            Some((name, path)) => (name.to_owned(), PathBuf::from(path)),
            None => (stem(Path::new(words)), PathBuf::from(words)),
        };
        let text = read(&path)?;
        let layout =
            memc_layout::read(&text).map_err(|source| Error::Layout { path: path.clone(), source })?;
        Ok(Self { name, path, text, layout })
    }

    /// Path of the planned model: `OUT.onnx` for `OUT.layout.json`.
    pub(super) fn model(&self) -> PathBuf {
        self.path.with_file_name(format!("{}.onnx", stem(&self.path)))
    }

    /// Number of steps.
    pub(super) fn steps(&self) -> u32 {
        u32::try_from(self.layout.schedule.len()).unwrap_or(u32::MAX)
    }

    /// Modelled duration of each step in nanoseconds; empty if the layout has none.
    pub(super) fn times(&self) -> Vec<u64> {
        self.layout.timeline.iter().map(|busy| busy.ns()).collect()
    }

    /// Whether sizes depend on free dimensions: offsets then hold for all extents only as they are.
    pub(super) fn is_ranged(&self) -> bool {
        !self.layout.model.ranges.is_empty()
            || !self.layout.formula.is_empty()
            || !self.layout.layouts.is_empty()
    }
}

/// Name of a layout file without `.layout.json`.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.strip_suffix(".layout.json").or_else(|| name.strip_suffix(".json")).unwrap_or(&name);
    stem.to_owned()
}
