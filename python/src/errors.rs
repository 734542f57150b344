//! Failures of memc as Python exceptions: `memc._errors` selects the class by the code.

use memc::cli::Failure;
use memc::memc_ir::{Diagnostic, Severity};
use pyo3::prelude::*;

/// A diagnostic as Python receives it: code, severity, message, help, notes.
pub type Said = (&'static str, &'static str, String, Option<String>, Vec<String>);

/// Returns the parts of a diagnostic.
pub fn said(diagnostic: &Diagnostic) -> Said {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Remark => "remark",
    };
    (diagnostic.code, severity, diagnostic.message.clone(), diagnostic.help.clone(), diagnostic.notes.clone())
}

/// Returns the exception for a failure; `smallest` is the smallest arena found, in bytes, if a budget
/// is refused.
pub fn raised(py: Python<'_>, failure: &Failure, smallest: Option<u64>) -> PyErr {
    let Some(first) = failure.diagnostics.first() else {
        return pyo3::exceptions::PyRuntimeError::new_err("memc failed without a message");
    };
    let (code, _, message, help, notes) = said(first);
    let made = py
        .import("memc._errors")
        .and_then(|module| module.getattr("error"))
        .and_then(|make| make.call1((code, message, help, notes, failure.code, smallest)));
    made.map_or_else(|error| error, PyErr::from_value)
}
