//! Diagnostic codes: the meaning, cause and remedy of each code, as `memc explain` prints them.
//!
//! Error codes by range: E01xx import, E02xx verifier, E03xx planning, E04xx export, E06xx text form,
//! E09xx defects of memc. Codes with W are warnings and remarks. The E05xx codes are not in this
//! module: the layout checker shares nothing with the planner and keeps its codes next to its rules.

mod export;
mod import;
mod internal;
mod plan;
mod session;
mod share;
mod text;
mod train;
mod verify;

use std::fmt;

/// Who can remove the cause of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The author of the model.
    Model,
    /// The user who chose the options.
    Request,
    /// The author of another input file: a layout, a text form, a target.
    File,
    /// The machine: its disk or its permissions.
    System,
    /// memc itself: a defect.
    Memc,
    /// Nobody: the diagnostic only informs.
    Nobody,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "the model",
            Self::Request => "the request",
            Self::File => "the file that was given beside the model",
            Self::System => "the machine that memc runs on",
            Self::Memc => "memc: this is a defect",
            Self::Nobody => "nobody: this only informs",
        })
    }
}

/// Documentation of one diagnostic code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeInfo {
    /// The code, such as `E0104`. Errors start with E, warnings and remarks with W.
    pub code: &'static str,
    /// Title, one line.
    pub title: &'static str,
    /// Who can remove the cause.
    pub fault: Fault,
    /// Meaning of the code, in a few sentences.
    pub meaning: &'static str,
    /// An input, command or message that shows the problem.
    pub example: &'static str,
    /// Advice: how to remove the cause.
    pub action: &'static str,
}

/// Prints the page of the code: title, meaning, fault, example, advice.
impl fmt::Display for CodeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n", self.code, self.title)?;
        writeln!(f, "{}\n", self.meaning)?;
        writeln!(f, "Whose fault: {}.\n", self.fault)?;
        writeln!(f, "Example:\n")?;
        for line in self.example.lines() {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "\nWhat to do: {}", self.action)
    }
}

/// The lists of codes: errors in ascending order, then warnings.
const GROUPS: [&[CodeInfo]; 14] = [
    import::ERRORS,
    verify::ERRORS,
    plan::ERRORS,
    train::ERRORS,
    share::ERRORS,
    session::ERRORS,
    export::ERRORS,
    text::ERRORS,
    internal::ERRORS,
    import::WARNINGS,
    plan::WARNINGS,
    train::WARNINGS,
    session::WARNINGS,
    export::WARNINGS,
];

/// Returns all codes: errors first, then warnings, each in ascending order.
pub fn all() -> Vec<&'static CodeInfo> {
    GROUPS.into_iter().flatten().collect()
}

/// Finds a code, ignoring case; `None` if the code does not exist.
pub fn explain(code: &str) -> Option<&'static CodeInfo> {
    GROUPS.into_iter().flatten().find(|info| info.code.eq_ignore_ascii_case(code))
}
