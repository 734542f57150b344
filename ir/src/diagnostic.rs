//! Diagnostics as plain data: a stable code, where it is, and what to do; rendering belongs to the command.

use std::fmt;

use crate::entity::{Node, Value};
use crate::module::Module;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Worth knowing.
    Remark,
    /// Probably not what was meant.
    Warning,
    /// The request cannot be carried out.
    Error,
}

/// What is wrong or worth knowing, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Stable code, as `E0104`; `memc explain` knows each.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence.
    pub message: String,
    /// The printed line of the text form that it speaks of.
    pub line: Option<String>,
    /// Name of the ONNX node that it speaks of.
    pub onnx_node: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
    /// What to do next.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without a place.
    pub fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, severity, message, line: None, onnx_node: None, notes: Vec::new(), help: None }
    }
    /// Says what to do next.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Adds a fact.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
    /// Points at a node: its printed line and its ONNX name.
    #[must_use]
    pub fn at_node(mut self, module: &Module, node: Node) -> Self {
        self.line = Some(crate::text::print_node(module, node));
        self.onnx_node = Some(module.node(node).name.clone()).filter(|name| !name.is_empty());
        self
    }
    /// Points at a value: the line that defines it.
    #[must_use]
    pub fn at_value(self, module: &Module, value: Value) -> Self {
        match module.producer(value) {
            Some(node) => self.at_node(module, node),
            None => self.with_note(format!("value `{}` : {}", module.value(value).name, module.ty(value))),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Remark => "remark",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{word}[{}]: {}", self.code, self.message)?;
        if let Some(line) = &self.line {
            write!(f, "\n  | {}", line.trim())?;
        }
        if let Some(name) = &self.onnx_node {
            write!(f, "\n  = note: from ONNX node \"{name}\"")?;
        }
        for note in &self.notes {
            write!(f, "\n  = note: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  = help: {help}")?;
        }
        Ok(())
    }
}
