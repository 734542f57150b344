//! Rules, and the book of all rules, read from text files.

mod argument;
mod compute;
mod condition;
mod lexer;
mod parser;
mod pattern;
mod shapes;

use std::sync::LazyLock;

pub use parser::RuleError;

pub(crate) use argument::Argument;
pub(crate) use compute::splat;
pub(crate) use condition::Scene;
pub(crate) use pattern::{ApplyPattern, AttributePattern, Condition, Expression, Pattern, Template, Wanted};

/// Effect of a rule on the bits of results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// No bit changes, for any operands.
    Exact,
    /// Equal in real arithmetic: roundings happen at other places, or in another order.
    Reassociates,
    /// Another function with close results.
    Approximate,
}

impl Class {
    /// Returns the word in rule files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Reassociates => "reassociates",
            Self::Approximate => "approximate",
        }
    }
}

/// Effect of a rule on memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Memory {
    /// Never needs more memory.
    Lowers,
    /// Needs equal memory.
    Same,
    /// May need more memory: applied once, last, and its results are only candidates.
    Raises,
    /// Needs less memory at once for more work, which no sum over nodes shows: applied together with
    /// rules that raise memory, and placed into candidates of its own.
    Halves,
}

impl Memory {
    /// Returns the word in rule files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lowers => "lowers",
            Self::Same => "same",
            Self::Raises => "raises",
            Self::Halves => "halves",
        }
    }
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Name, unique in the book.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Reason why the rule holds and helps.
    pub why: String,
    /// File that contains the rule, without the ending.
    pub family: &'static str,
    /// Effect on bits.
    pub class: Class,
    /// Effect on memory.
    pub memory: Memory,
    /// First and last version of ONNX's operator set for which the rule is right.
    pub opset: (i64, i64),
    /// Source text of the rule.
    pub text: String,
    pub(crate) find: Vec<Pattern>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) make: Vec<(Option<usize>, Template)>,
    pub(crate) operands: usize,
    pub(crate) attributes: usize,
}

impl Rule {
    /// Returns the rule's page, as `memc explain` prints it.
    pub fn page(&self) -> String {
        let opset = match self.opset {
            (0, i64::MAX) => "all".to_owned(),
            (first, i64::MAX) => format!("from {first} on"),
            (first, last) => format!("{first} to {last}"),
        };
        let (class, memory) = (self.class.name(), self.memory.name());
        let head = format!("rule/{} (family {})\n{}\n", self.name, self.family, self.summary);
        let why = if self.why.is_empty() { String::new() } else { format!("\n{}\n", self.why) };
        format!("{head}{why}\nbits: {class}; memory: {memory}; operator sets: {opset}\n\n{}", self.text)
    }
}

/// All rules, in the order of the files and of the text: earlier rules are applied first.
#[derive(Debug, Default)]
pub struct RuleBook {
    rules: Vec<Rule>,
}

/// The files, in the order in which their rules are applied.
const FILES: &[(&str, &str)] = &[
    ("algebraic", include_str!("../../rules/algebraic.rules")),
    ("identities", include_str!("../../rules/identities.rules")),
    ("layout", include_str!("../../rules/layout.rules")),
    ("reduction", include_str!("../../rules/reduction.rules")),
    ("quantized", include_str!("../../rules/quantized.rules")),
    ("concat", include_str!("../../rules/concat.rules")),
    ("broadcast", include_str!("../../rules/broadcast.rules")),
    ("products", include_str!("../../rules/products.rules")),
    ("scatter", include_str!("../../rules/scatter.rules")),
    ("normalization", include_str!("../../rules/normalization.rules")),
    ("activation", include_str!("../../rules/activation.rules")),
    ("tanh", include_str!("../../rules/tanh.rules")),
    ("convolution", include_str!("../../rules/convolution.rules")),
    ("bounded", include_str!("../../rules/bounded.rules")),
    ("joining", include_str!("../../rules/joining.rules")),
    ("rotation", include_str!("../../rules/rotation.rules")),
    ("attention", include_str!("../../rules/attention.rules")),
    ("heads", include_str!("../../rules/heads.rules")),
    ("apart", include_str!("../../rules/apart.rules")),
    ("fission", include_str!("../../rules/fission.rules")),
];

static BOOK: LazyLock<Result<RuleBook, RuleError>> = LazyLock::new(|| RuleBook::parse(FILES));

impl RuleBook {
    /// Returns the book with memc's own rules.
    ///
    /// # Errors
    /// Returns an error if a file is no rule file (a defect of memc, which a test would show).
    pub fn standard() -> Result<&'static Self, RuleError> {
        BOOK.as_ref().map_err(Clone::clone)
    }
    /// Reads rule files: pairs of a family's name and its text.
    ///
    /// # Errors
    /// Returns the first rule that cannot be read.
    pub fn parse(files: &[(&'static str, &str)]) -> Result<Self, RuleError> {
        let mut book = Self::default();
        for (family, text) in files {
            parser::read(family, text, &mut book)?;
        }
        Ok(book)
    }
    /// Returns all rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
    /// Returns the rule with this name.
    pub fn find(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.name == name)
    }
}
