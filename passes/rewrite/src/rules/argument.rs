//! Arguments of conditions and functions of rules.

use egg::Id;
use memc_ir::Attribute;

/// An argument or result of a function.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Argument {
    /// A number, list or text.
    Attribute(Attribute),
    /// A class.
    Class(Id),
    /// Several classes.
    Classes(Vec<Id>),
    /// All attributes that an open list matched.
    Rest(Vec<(String, Attribute)>),
    /// An attribute that was left out.
    Nothing,
}
