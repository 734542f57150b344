//! The two sides of a rule: the pattern to find, and the template to make.

use memc_ir::Attribute;

use super::compute::Function;
use super::condition::Predicate;

/// Pattern of values.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Any value; equal numbers stand for one class.
    Variable(usize),
    /// A pattern whose match gets a number.
    Named(usize, Box<Pattern>),
    /// An operand that is left out.
    Absent,
    /// A constant with all elements equal to this number.
    Number {
        /// The number.
        value: f64,
        /// Whether a relative error of 1e-5 is allowed.
        near: bool,
    },
    /// An application.
    Apply(ApplyPattern),
}

/// Pattern of an application.
#[derive(Clone, Debug)]
pub(crate) struct ApplyPattern {
    pub(crate) domain: String,
    pub(crate) name: String,
    /// Position among several results; `None` for an application with one result.
    pub(crate) result: Option<u32>,
    pub(crate) attributes: Vec<AttributePattern>,
    /// Variable for all attributes that are not named.
    pub(crate) open: Option<usize>,
    pub(crate) operands: Vec<Pattern>,
    /// Variable for all operands that are not named.
    pub(crate) rest: Option<usize>,
}

/// Pattern of an attribute.
#[derive(Clone, Debug)]
pub(crate) struct AttributePattern {
    pub(crate) name: String,
    /// Whether it may be left out.
    pub(crate) optional: bool,
    pub(crate) wanted: Wanted,
}

/// Required value of an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// This value.
    Literal(Attribute),
    /// Any value; equal numbers stand for equal attributes.
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
    /// Value of an attribute variable.
    Attribute(usize),
    /// Class or classes of an operand variable.
    Operand(usize),
    /// Result of a function; without a result, the rule does not apply.
    Call(Function, Vec<Expression>),
}

/// Template of values to make.
#[derive(Clone, Debug)]
pub(crate) enum Template {
    /// Class of an operand variable.
    Variable(usize),
    /// All operands that `?xs...` matched.
    Splice(usize),
    /// An operand that is left out.
    Absent,
    /// A constant: a list of integers, or with `like` one number of the element type of a class.
    Constant {
        /// Its elements.
        value: Expression,
        /// Operand variable that gives the element type.
        like: Option<usize>,
    },
    /// An application.
    Apply {
        /// Domain of the operator.
        domain: String,
        /// Name of the operator.
        name: String,
        /// Position of the result, and number of results.
        result: Option<(u32, u32)>,
        /// Attributes; an attribute is left out if its variable was left out.
        attributes: Vec<(String, Expression)>,
        /// Variable for attributes that the pattern does not name.
        open: Option<usize>,
        /// Operands.
        operands: Vec<Template>,
    },
}
