//! The language of e-nodes: operators with interned attributes, results of operators with several
//! results, and leaves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use egg::{Id, Language};
use memc_ir::{Attribute, Operator};

/// Kind of an e-node, without its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Head {
    /// An operand of the fragment or a constant of a rule; number in the table of leaves.
    Leaf(u32),
    /// An operand that is left out.
    Absent,
    /// An application; the class is its result, or all its results together if there are several.
    Apply {
        /// Number in the table of operators.
        operator: u32,
        /// Number in the table of attribute lists.
        attributes: u32,
        /// Number of results.
        results: u32,
    },
    /// One of several results; the child is the application.
    Result(u32),
}

/// An e-node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term {
    pub(crate) head: Head,
    pub(crate) children: Vec<Id>,
}

impl Term {
    /// Creates an e-node without children.
    pub(crate) fn leaf(head: Head) -> Self {
        Self { head, children: Vec::new() }
    }
}

impl Language for Term {
    type Discriminant = Head;

    fn discriminant(&self) -> Head {
        self.head
    }
    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }
    fn children(&self) -> &[Id] {
        &self.children
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}

/// Attributes of a node, sorted by name.
pub(crate) type Attributes = Vec<(String, Attribute)>;

/// Interned operators and attribute lists. Numbers follow the order of first use, so they depend on the
/// fragment alone.
#[derive(Debug, Default)]
pub(crate) struct Names {
    operators: Vec<Operator>,
    operator_of: BTreeMap<Operator, u32>,
    attributes: Vec<Attributes>,
    attributes_of: BTreeMap<String, u32>,
}

impl Names {
    /// Returns the number of an operator.
    pub(crate) fn operator(&mut self, operator: &Operator) -> u32 {
        if let Some(found) = self.operator_of.get(operator) {
            return *found;
        }
        let number = self.operators.len() as u32;
        self.operators.push(operator.clone());
        self.operator_of.insert(operator.clone(), number);
        number
    }
    /// Returns the number of a list of attributes; their order has no effect.
    pub(crate) fn attributes(&mut self, mut attributes: Attributes) -> u32 {
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        let key = attributes_key(&attributes);
        if let Some(found) = self.attributes_of.get(&key) {
            return *found;
        }
        let number = self.attributes.len() as u32;
        self.attributes.push(attributes);
        self.attributes_of.insert(key, number);
        number
    }
    /// Returns the operator with this number.
    pub(crate) fn operator_at(&self, number: u32) -> &Operator {
        &self.operators[number as usize]
    }
    /// Returns the attributes with this number.
    pub(crate) fn attributes_at(&self, number: u32) -> &Attributes {
        &self.attributes[number as usize]
    }
}

/// Returns a text that is equal for equal attributes only: floating-point numbers are written as their
/// bits.
pub(crate) fn attributes_key(attributes: &[(String, Attribute)]) -> String {
    let mut key = String::new();
    for (name, value) in attributes {
        // Writing to a string cannot fail.
        let _ = match value {
            Attribute::Float(number) => write!(key, "{name:?}={:08x} ", number.to_bits()),
            Attribute::Floats(numbers) => {
                let bits: Vec<u32> = numbers.iter().map(|number| number.to_bits()).collect();
                write!(key, "{name:?}={bits:x?} ")
            }
            other => write!(key, "{name:?}={other:?} "),
        };
    }
    key
}
