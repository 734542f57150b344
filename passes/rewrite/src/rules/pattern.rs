//! The two sides of a rule: what is looked for, and what is made of it.

use memc_ir::Attribute;

use super::compute::Function;
use super::condition::Predicate;

/// What is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Anything; the same class wherever the same number stands.
    Variable(usize),
    /// What matches the pattern, under a number.
    Named(usize, Box<Pattern>),
    /// An operand that is left out.
    Absent,
    /// A constant all of whose elements are this number.
    Number {
        /// The number.
        value: f64,
        /// Whether a relative error of 1e-5 is let through.
        near: bool,
    },
    /// An application.
    Apply(ApplyPattern),
}

/// An application that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct ApplyPattern {
    pub(crate) domain: String,
    pub(crate) name: String,
    /// Which of several results; `None` for an application with one.
    pub(crate) result: Option<u32>,
    pub(crate) attributes: Vec<AttributePattern>,
    /// Takes all attributes that are not named.
    pub(crate) open: Option<usize>,
    pub(crate) operands: Vec<Pattern>,
    /// Takes all operands that are not named.
    pub(crate) rest: Option<usize>,
}

/// An attribute that is looked for.
#[derive(Clone, Debug)]
pub(crate) struct AttributePattern {
    pub(crate) name: String,
    /// Whether it may be left out.
    pub(crate) optional: bool,
    pub(crate) wanted: Wanted,
}

/// What an attribute has to be.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This.
    Literal(Attribute),
    /// Anything; the same wherever the same number stands.
    Variable(usize),
}

/// A condition on a match.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) negated: bool,
    pub(crate) predicate: Predicate,
    pub(crate) arguments: Vec<Expression>,
}

/// A number, list or text that is computed from a match.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    /// As written.
    Literal(Attribute),
    /// What an attribute was.
    Attribute(usize),
    /// A class, or several.
    Operand(usize),
    /// Computed; no value means that the rule does not apply.
    Call(Function, Vec<Expression>),
}

/// What is made.
#[derive(Clone, Debug)]
pub(crate) enum Template {
    /// What was found.
    Variable(usize),
    /// All operands that a rest took.
    Splice(usize),
    /// An operand that is left out.
    Absent,
    /// A constant: a list of integers, or with `like` one number of the element type of a class.
    Constant {
        /// Its elements.
        value: Expression,
        /// The class whose element type it has.
        like: Option<usize>,
    },
    /// An application.
    Apply {
        /// Domain of the operator.
        domain: String,
        /// Name of the operator.
        name: String,
        /// Which of how many results.
        result: Option<(u32, u32)>,
        /// Attributes; one whose expression has no value because it was left out is left out.
        attributes: Vec<(String, Expression)>,
        /// Attributes that were not named in the pattern.
        open: Option<usize>,
        /// Operands.
        operands: Vec<Template>,
    },
}
