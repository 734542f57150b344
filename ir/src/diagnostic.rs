//! Diagnostics as plain data: a stable code, a place, a message and advice. The command-line tool
//! renders them.

use std::fmt;

use crate::entity::{Node, Value};
use crate::module::Module;

/// Severity of a diagnostic, mildest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Information that needs no action.
    Remark,
    /// A likely mistake that does not stop the request.
    Warning,
    /// A problem that stops the request.
    Error,
}

/// One diagnostic: an error, a warning or a remark, with its place if known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Stable code, such as `E0104`; `memc explain` documents each code.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// The problem, in one sentence.
    pub message: String,
    /// Line of the text form that the diagnostic is about.
    pub line: Option<String>,
    /// Name of the ONNX node that the diagnostic is about.
    pub onnx_node: Option<String>,
    /// Additional facts, one sentence each.
    pub notes: Vec<String>,
    /// Advice on the next action.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates a diagnostic without place, notes or help.
    pub fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, severity, message, line: None, onnx_node: None, notes: Vec::new(), help: None }
    }
    /// Sets the advice on the next action.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
    /// Sets the place to a node: its printed line, and its ONNX name unless that is empty.
    #[must_use]
    pub fn at_node(mut self, module: &Module, node: Node) -> Self {
        self.line = Some(crate::text::print_node(module, node));
        self.onnx_node = Some(module.node(node).name.clone()).filter(|name| !name.is_empty());
        self
    }
    /// Sets the place to the node that produces the value; a value without producer is named in a note.
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
