//! Outputs that transforms add to the model, as keys of a layout file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A graph output that the input model does not have: the value that these nodes compute in the input model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddedOutput {
    /// Name of the output.
    pub name: String,
    /// Transform that adds it.
    pub by: String,
    /// Nodes that compute it from values of the input model, in the order of their computation. Empty if it
    /// is a value of the input model.
    pub nodes: Vec<AddedNode>,
}

/// A graph output of which the output model has only the last position along an axis.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRow {
    /// Name of the output in both models.
    pub output: String,
    /// Name that the value with all positions has where the output model computes it, and in `rewrites`. The
    /// input model has no value of this name.
    pub whole: String,
    /// Axis of which the output model has the last position.
    pub axis: u64,
}

/// A node that the input model does not have.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddedNode {
    /// Operator.
    pub op: String,
    /// Domain of the operator; empty for the default domain.
    pub domain: String,
    /// Names of the operands: values of the input model, or results of nodes before this one. An empty
    /// name leaves an operand out.
    pub inputs: Vec<String>,
    /// Names of the results. An empty name leaves a result out.
    pub outputs: Vec<String>,
    /// Attributes by name.
    pub attributes: BTreeMap<String, Attribute>,
}

/// Value of an attribute.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A binary32 number.
    Float(f32),
    /// A text.
    String(String),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of binary32 numbers.
    Floats(Vec<f32>),
    /// A list of texts.
    Strings(Vec<String>),
}
