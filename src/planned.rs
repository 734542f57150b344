//! A planned model: the files to write, a report, and how the plan was found.

use std::path::Path;

use memc_ir::{Diagnostic, Module, Node};
use memc_layout::Layout;
use memc_onnx_export::Exported;
use memc_passes::{Claims, SolverReport};
use memc_plan::Entry;
use memc_report::HtmlOptions;

use crate::error::Error;
use crate::outputs::Outputs;
use crate::plain::PlainForm;
use crate::request_error::RequestError;

/// A planned model. `Send`, so that one thread may plan and another write.
#[derive(Debug)]
pub struct Planned {
    /// The planned module.
    pub module: Module,
    /// The model to write.
    pub model: Exported,
    /// The layout: an offset for every tensor, bounds, cost.
    pub layout: Layout,
    /// The layout of the file order under equal rules, if the request compares.
    pub before: Option<Layout>,
    /// Nodes that carry no anchor, around which a runtime with an order of its own may leave the
    /// schedule.
    pub unpinned: Vec<Node>,
    /// What the passes promise about their changes.
    pub claims: Claims,
    /// Answers of the solvers.
    pub reports: Vec<SolverReport>,
    /// The pipeline that makes this plan of the given model.
    pub trace: String,
    /// What holds the plan in a session with default options.
    pub plain: PlainForm,
    /// The strategy that found the plan.
    pub strategy: &'static str,
    /// Candidates that were tried, in order.
    pub log: Vec<Entry>,
    /// Warnings and remarks on the model or the plan.
    pub diagnostics: Vec<Diagnostic>,
}

impl Planned {
    /// Size of the arena of the first space, in bytes; 0 if every tensor belongs to the caller.
    pub fn arena(&self) -> u64 {
        self.layout.arenas.first().map_or(0, |arena| arena.size)
    }

    /// The planned model as the bytes of an ONNX file.
    ///
    /// # Errors
    /// Weights that the model shares with its source cannot be read.
    pub fn model_bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.model.write_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the planned model, whole or not at all.
    ///
    /// # Errors
    /// The system refuses to write the file.
    pub fn write_model(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut outputs = Outputs::default();
        outputs.add(path.as_ref(), |out| self.model.write_to(out))?;
        outputs.commit()
    }

    /// Writes the layout, whole or not at all, in the format of the extension: `.json`, `.h`, `.rs` or
    /// `.csv`.
    ///
    /// # Errors
    /// The extension names no format, or the system refuses to write the file.
    pub fn write_layout(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let text = self.layout_text(path)?;
        let mut outputs = Outputs::default();
        outputs.add(path, |out| out.write_all(text.as_bytes()))?;
        outputs.commit()
    }

    /// The layout in the format that the extension of `path` names.
    ///
    /// # Errors
    /// The extension names no format.
    pub fn layout_text(&self, path: &Path) -> Result<String, Error> {
        Ok(match extension(path) {
            "json" => memc_layout::to_json(&self.layout)?,
            "h" => memc_layout::to_c_header(&self.layout),
            "rs" => memc_layout::to_rust(&self.layout),
            "csv" if is_for_onnx2c(path) => memc_layout::to_onnx2c_csv(&self.layout),
            "csv" => {
                let space = self.layout.arenas.first().map(|arena| arena.space.as_str()).unwrap_or_default();
                memc_layout::to_minimalloc_csv(&self.layout, space)
            }
            _ => return Err(RequestError::Extension { path: path.to_owned(), known: LAYOUTS }.into()),
        })
    }

    /// The report as text: memory by space, how the searches ended, tensors alive at the peak, a picture
    /// of the arena.
    pub fn report(&self) -> String {
        memc_report::text(&self.layout)
    }

    /// The report in the format that the extension of `path` names; `title` heads the page.
    ///
    /// # Errors
    /// The extension names no format.
    pub fn report_text(&self, path: &Path, title: &str) -> Result<String, Error> {
        Ok(match extension(path) {
            "html" => memc_report::html(&self.layout, &HtmlOptions { title, before: self.before.as_ref() }),
            "json" => memc_report::json(&self.layout),
            "txt" => memc_report::text(&self.layout),
            _ => return Err(RequestError::Extension { path: path.to_owned(), known: REPORTS }.into()),
        })
    }
}

/// Extensions of layouts.
pub const LAYOUTS: &[&str] = &["json", "h", "rs", "csv"];

/// Extensions of reports.
pub const REPORTS: &[&str] = &["html", "txt", "json"];

/// Checks that the extension of a path is one of the known formats.
///
/// # Errors
/// It is not.
pub fn known_extension(path: &Path, known: &'static [&'static str]) -> Result<(), Error> {
    if known.contains(&extension(path)) {
        Ok(())
    } else {
        Err(RequestError::Extension { path: path.to_owned(), known }.into())
    }
}

/// Extension of a path; empty if it has none.
/// Whether a path ends with `.onnx2c.csv`.
fn is_for_onnx2c(path: &Path) -> bool {
    path.file_stem()
        .is_some_and(|stem| Path::new(stem).extension().is_some_and(|extension| extension == "onnx2c"))
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}
