//! The Python module `memc._memc`: the command, plans, checks and reports. `memc/` wraps it in Python.

mod errors;
mod planning;

use std::ffi::OsString;
use std::path::PathBuf;

use memc::memc_ops::profile::{Choice, Language, Recipe, SessionSettings};
use memc::memc_solve::{Limit, place as placing};
use memc::{Model, Weights, memc_layout, memc_report};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use errors::raised;

/// The compiled part of memc.
#[pymodule]
mod _memc {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{check, identifiers, place, planning::Planned, planning::plan, render, run, session_recipe};

    /// Makes panics exceptions that say where they happened.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        memc::watch_panics();
        // Names of all options, to find the nearest one for a mistyped keyword.
        module.add("OPTIONS", memc::cli::Options::names())
    }

    /// Version of memc.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// The passes that keep a model in its own order.
    #[pymodule_export]
    const FILE_ORDER: &str = memc::memc_plan::FILE_ORDER;
}

/// A model to read: a path, or the bytes of a file.
#[derive(FromPyObject)]
enum Source {
    /// The bytes of a model file, without a copy.
    Bytes(PyBackedBytes),
    /// A path.
    Path(PathBuf),
}

impl Source {
    /// Opens the model; a file is mapped, not read.
    fn open(self) -> Result<Model, memc::Error> {
        Ok(match self {
            Self::Bytes(bytes) => Model::from_bytes(bytes::Bytes::from_owner(bytes))?,
            Self::Path(path) => Model::open(path)?,
        })
    }
}

/// Runs the command with the words of its line, the first of which names the program. Returns the exit
/// code.
#[pyfunction]
fn run(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| memc::cli::run(words).number())
}

/// A violation that the checker found: code, kind, message, help, notes, tensor, step.
type Violation =
    (&'static str, &'static str, String, Option<String>, Vec<String>, Option<String>, Option<u64>);

/// Verifies a plan from two models and the text of a layout. Returns the violations.
#[pyfunction]
fn check(py: Python<'_>, given: Source, written: Source, layout: &str) -> PyResult<Vec<Violation>> {
    let checked = py.detach(|| {
        memc::caught(|| {
            let (given, written) = (given.open()?, written.open()?);
            let layout = parsed(layout)?;
            Ok(Weights::beside(&given, &written).check(&given, &written, &layout))
        })
    });
    let report = checked.unwrap_or_else(Err).map_err(|error: memc::Error| raised(py, &error.into(), None))?;
    let rows = report.violations.into_iter().map(|violation| {
        let said = violation.diagnostic;
        (
            said.code,
            violation.kind.name(),
            said.message,
            said.help,
            said.notes,
            violation.tensor,
            violation.step,
        )
    });
    Ok(rows.collect())
}

/// Renders a layout: `line`, `text`, `json`, `markdown`, `html` or `trace`.
#[pyfunction]
fn render(py: Python<'_>, layout: &str, format: &str, title: &str) -> PyResult<String> {
    let layout = parsed(layout).map_err(|error| raised(py, &error.into(), None))?;
    planning::rendered(&layout, format, title)
}

/// Places buffers in one block: first step, step after the last, and bytes of each. Returns their offsets
/// and the size of the block.
#[pyfunction]
fn place(py: Python<'_>, buffers: Vec<(u32, u32, u64)>, alignment: u64) -> PyResult<(Vec<u64>, u64)> {
    let aligned =
        |(start, end, size)| placing::Buffer { alignment, ..placing::Buffer::new(start, end, size) };
    let problem = placing::Problem { buffers: buffers.into_iter().map(aligned).collect(), capacity: None };
    let refused = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let outcome =
        py.detach(|| placing::solve(&problem, &Limit::default())).map_err(|error| refused(&error))?;
    let solution = outcome.solution.ok_or_else(|| refused(&"the buffers have no place"))?;
    Ok((solution.offsets, solution.height))
}

/// Returns the identifiers of the C header of a layout: those of its arenas, and those of its tensors,
/// with None for tensors without macros.
#[pyfunction]
fn identifiers(py: Python<'_>, layout: &str) -> PyResult<(Vec<String>, Vec<Option<String>>)> {
    let layout = parsed(layout).map_err(|error| raised(py, &error.into(), None))?;
    let names = memc_layout::c_identifiers(&layout);
    Ok((names.arenas, names.tensors))
}

/// Returns the Python program that creates session options for a layout by a recipe: with settings that were
/// counted, as `memc profile --session` prints them with their bytes, or with those that follow from the
/// plan.
#[pyfunction]
#[pyo3(signature = (layout, recipe, settings=None, bytes=None))]
fn session_recipe(
    py: Python<'_>,
    layout: &str,
    recipe: &str,
    settings: Option<&str>,
    bytes: Option<u64>,
) -> PyResult<String> {
    let layout = parsed(layout).map_err(|error| raised(py, &error.into(), None))?;
    let known = Recipe::ALL.map(|(name, _)| name).join(", ");
    let recipe = Recipe::named(recipe)
        .ok_or_else(|| PyValueError::new_err(format!("`{recipe}` is not one of {known}")))?;
    let Some(settings) = settings else {
        return Ok(memc::session_recipe(&layout, Language::Python, Some(recipe)));
    };
    let settings = settings.parse::<SessionSettings>().map_err(PyValueError::new_err)?;
    let choice = Choice { settings, bytes, is_counted: bytes.is_some() };
    Ok(memc::session_program(&layout, Language::Python, &[(recipe, choice)]))
}

/// Reads the text of a layout file.
fn parsed(text: &str) -> Result<memc_layout::Layout, memc::Error> {
    memc_layout::read(text)
        .map_err(|source| memc::Error::Layout { path: PathBuf::from("the layout"), source })
}

/// Reports in the formats of `render`, without the layout file itself.
fn report(layout: &memc_layout::Layout, format: &str, title: &str) -> Option<String> {
    Some(match format {
        "line" => memc_report::summary_line(layout),
        "text" => memc_report::text(layout),
        "json" => memc_report::json(layout),
        "markdown" => memc_report::markdown(
            layout,
            title,
            &memc_report::compare(layout, &memc_report::Limits::default()),
        ),
        "html" => memc_report::html(layout, &memc_report::HtmlOptions { title, before: None }),
        "trace" => memc_report::trace(layout),
        _ => return None,
    })
}
