//! Diagnostic codes: what each means, whose fault it is, and what to do; `memc explain` prints these pages.
//!
//! E01xx import, E02xx verifier, E03xx planning, E04xx export, E06xx text form, E09xx defects; W what is only worth knowing. The codes E05xx
//! are not here: the checker of layouts, which shares nothing with the planner, keeps them beside its rules.

mod export;
mod import;
mod internal;
mod plan;
mod text;
mod verify;

use std::fmt;

/// Who can change something so that the diagnostic goes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Whoever made the model.
    Model,
    /// Whoever gave the options.
    Request,
    /// Whoever wrote the file that was given beside the model: a layout, a text form, a target.
    File,
    /// The machine: a disk, permissions.
    System,
    /// memc itself: a defect.
    Memc,
    /// Nobody; it is worth knowing.
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
            Self::Nobody => "nobody; it is worth knowing",
        })
    }
}

/// What is to be said about one code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeInfo {
    /// The code, as `E0104`; errors begin with E, warnings and remarks with W.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// Whose fault it is.
    pub fault: Fault,
    /// What it means.
    pub meaning: &'static str,
    /// What leads to it.
    pub example: &'static str,
    /// What to do.
    pub action: &'static str,
}

/// The page: title, meaning, fault, example, what to do.
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

/// The groups, in the order of their codes.
const GROUPS: [&[CodeInfo]; 9] = [
    import::ERRORS,
    verify::ERRORS,
    plan::ERRORS,
    export::ERRORS,
    text::ERRORS,
    internal::ERRORS,
    import::WARNINGS,
    plan::WARNINGS,
    export::WARNINGS,
];

/// All codes, errors first, in ascending order.
pub fn all() -> Vec<&'static CodeInfo> {
    GROUPS.into_iter().flatten().collect()
}

/// The page of one code; upper and lower case are the same.
pub fn explain(code: &str) -> Option<&'static CodeInfo> {
    GROUPS.into_iter().flatten().find(|info| info.code.eq_ignore_ascii_case(code))
}
