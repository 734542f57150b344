//! What passes promise about their changes: one typed list from the passes to the layout, the checker
//! and the reports.

use std::collections::BTreeSet;

use memc_edit::is_made_by;
use memc_ir::{
    Attribute, Bytes, ConstData, ConstId, ConstOrigin, ElementType, Module, Node, Operator, Payload, Value,
};
use memc_rewrite::Replaced;

use crate::buffer::GrownCache;
use crate::encode::Form;

/// A promise of a pass about one of its changes, which the checker can verify from the files.
#[derive(Clone, PartialEq, Debug)]
pub enum Claim {
    /// Rules replaced a fragment by an equal form.
    Rewritten(Replaced),
    /// A node took over the work of its neighbours, in an order that may round otherwise.
    Joined(Replaced),
    /// A value lies as a code between two uses.
    Encoded(Encoded),
    /// A matrix of weights is written in few bits.
    EncodedWeight(EncodedWeight),
    /// A cache is kept in one buffer.
    Cache(GrownCache),
    /// The model has a graph output that the given model does not have.
    Output(NewOutput),
    /// A graph output has only its last row.
    LastRow(LastRow),
}

/// A graph output of which the written model has only the last position along an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastRow {
    /// Name of the output.
    pub output: String,
    /// Name of the value with all positions, which the given model calls by the name of the output.
    pub whole: String,
    /// The axis.
    pub axis: usize,
}

/// Why the outputs have no row for each token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no output has a row for each token: {why}")]
pub struct NoRows {
    /// The reason.
    pub why: String,
}

impl NoRows {
    /// Returns the stable code, as `memc explain` knows it.
    pub fn code(&self) -> &'static str {
        "E0367"
    }

    /// Returns the next step.
    pub fn help(&self) -> &'static str {
        "leave out `--last-token`: the outputs of this model are no rows of tokens"
    }
}

/// A graph output that the given model does not have: a value of the given model, or one that a pass
/// computes from its values.
#[derive(Clone, PartialEq, Debug)]
pub struct NewOutput {
    /// Name of the output.
    pub name: String,
    /// Name of the pass.
    pub by: &'static str,
    /// Nodes that compute it, in the order of their computation.
    pub nodes: Vec<StatedNode>,
}

/// A node that a pass made, by the names of its values. An empty name stands for a missing value.
#[derive(Clone, PartialEq, Debug)]
pub struct StatedNode {
    /// The operator.
    pub operator: Operator,
    /// Names of the operands.
    pub inputs: Vec<String>,
    /// Names of the results.
    pub outputs: Vec<String>,
    /// Attributes: numbers, texts, and lists of them.
    pub attributes: Vec<(String, Attribute)>,
}

impl NewOutput {
    /// Returns the claim that `value` is a new output, computed by the nodes that a pass made. Takes time
    /// linear in the nodes of the main graph.
    ///
    /// Returns `None` if a node has bodies or tensors as attributes, or reads a new constant that is no
    /// number and no vector of 64-bit integers or binary32 numbers: a layout does not state those.
    pub fn of(module: &Module, value: Value, pass: &'static str) -> Option<Self> {
        let mut open = vec![value];
        let (mut made, mut constants) = (BTreeSet::<Node>::new(), BTreeSet::<Value>::new());
        while let Some(value) = open.pop() {
            match (module.producer(value), module.constant_of(value)) {
                (Some(node), _) if is_made_by(module, node, pass) && made.insert(node) => {
                    open.extend(module.node(node).operands());
                }
                (None, Some(constant)) if module.constant(constant).origin == ConstOrigin::New => {
                    constants.insert(value);
                }
                _ => {}
            }
        }
        let name =
            |value: &Option<Value>| value.map(|value| module.value(value).name.clone()).unwrap_or_default();
        let constant = |value: &Value| {
            let attribute = numbers(module.constant(module.constant_of(*value)?))?;
            let operator = Operator::onnx("Constant", module.opsets.get("").copied().unwrap_or_default());
            Some(StatedNode {
                operator,
                inputs: Vec::new(),
                outputs: vec![name(&Some(*value))],
                attributes: vec![attribute],
            })
        };
        let node = |node: &Node| {
            let data = module.node(*node);
            let (inputs, outputs) =
                (data.inputs.iter().map(name).collect(), data.outputs.iter().map(name).collect());
            let is_stated = data.attributes.iter().all(|(_, attribute)| is_stated(attribute));
            let operator = data.operator.clone();
            is_stated.then(|| StatedNode { operator, inputs, outputs, attributes: data.attributes.clone() })
        };
        let order = module.graph(module.main()).nodes.iter().filter(|node| made.contains(node));
        let nodes = constants.iter().map(constant).chain(order.map(node)).collect::<Option<Vec<_>>>()?;
        Some(Self { name: module.value(value).name.clone(), by: pass, nodes })
    }
}

/// Returns whether a layout can state an attribute.
fn is_stated(attribute: &Attribute) -> bool {
    match attribute {
        Attribute::Int(_) | Attribute::Ints(_) => true,
        Attribute::Float(number) => number.is_finite(),
        Attribute::Floats(numbers) => numbers.iter().all(|number| number.is_finite()),
        Attribute::String(text) => std::str::from_utf8(text).is_ok(),
        Attribute::Strings(texts) => texts.iter().all(|text| std::str::from_utf8(text).is_ok()),
        _ => false,
    }
}

/// Returns a constant as an attribute of Constant: a number or a vector.
fn numbers(constant: &ConstData) -> Option<(String, Attribute)> {
    let Payload::Raw(raw) = &constant.payload else { return None };
    let is_number = match constant.ty.known_dims()?.len() {
        0 => true,
        1 => false,
        _ => return None,
    };
    let (name, attribute) = match constant.ty.element {
        ElementType::Int64 => {
            let (eights, _) = raw.as_chunks::<8>();
            let all: Vec<i64> = eights.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
            if is_number {
                ("value_int", Attribute::Int(*all.first()?))
            } else {
                ("value_ints", Attribute::Ints(all))
            }
        }
        ElementType::Float => {
            let (fours, _) = raw.as_chunks::<4>();
            let all: Vec<f32> = fours.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            if is_number {
                ("value_float", Attribute::Float(*all.first()?))
            } else {
                ("value_floats", Attribute::Floats(all))
            }
        }
        _ => return None,
    };
    is_stated(&attribute).then(|| (name.to_owned(), attribute))
}

/// The promises of all passes so far, in the order in which they were made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Adds a promise.
    pub fn push(&mut self, claim: Claim) {
        self.0.push(claim);
    }

    /// Returns the rewritten fragments, in the order of rewriting.
    pub fn rewritten(&self) -> impl Iterator<Item = &Replaced> {
        self.0.iter().filter_map(|claim| if let Claim::Rewritten(found) = claim { Some(found) } else { None })
    }

    /// Returns the nodes that took over the work of their neighbours.
    pub fn joined(&self) -> impl Iterator<Item = &Replaced> {
        self.0.iter().filter_map(|claim| if let Claim::Joined(found) = claim { Some(found) } else { None })
    }

    /// Returns the values that lie as codes between two uses, in the order of their decoding.
    pub fn encoded(&self) -> impl Iterator<Item = &Encoded> {
        self.0.iter().filter_map(|claim| if let Claim::Encoded(found) = claim { Some(found) } else { None })
    }

    /// Returns the matrices of weights that are written in few bits.
    pub fn encoded_weights(&self) -> impl Iterator<Item = &EncodedWeight> {
        self.0
            .iter()
            .filter_map(|claim| if let Claim::EncodedWeight(found) = claim { Some(found) } else { None })
    }

    /// Returns the caches that are kept in one buffer.
    pub fn caches(&self) -> impl Iterator<Item = &GrownCache> {
        self.0.iter().filter_map(|claim| if let Claim::Cache(found) = claim { Some(found) } else { None })
    }

    /// Returns the caches that are kept in one buffer, for changes.
    pub fn caches_mut(&mut self) -> impl Iterator<Item = &mut GrownCache> {
        self.0.iter_mut().filter_map(|claim| if let Claim::Cache(found) = claim { Some(found) } else { None })
    }

    /// Returns the outputs that the given model does not have, in the order in which they were added.
    pub fn outputs(&self) -> impl Iterator<Item = &NewOutput> {
        self.0.iter().filter_map(|claim| if let Claim::Output(found) = claim { Some(found) } else { None })
    }

    /// Returns the outputs that have only their last row.
    pub fn last_rows(&self) -> impl Iterator<Item = &LastRow> {
        self.0.iter().filter_map(|claim| if let Claim::LastRow(found) = claim { Some(found) } else { None })
    }

    /// Returns whether rules replaced a fragment.
    pub fn has_rewritten(&self) -> bool {
        self.rewritten().next().is_some()
    }
}

impl Extend<Claim> for Claims {
    fn extend<T: IntoIterator<Item = Claim>>(&mut self, claims: T) {
        self.0.extend(claims);
    }
}

impl IntoIterator for Claims {
    type Item = Claim;
    type IntoIter = std::vec::IntoIter<Claim>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A value that lies as a code between two uses, by the names of the values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Name of the value.
    pub of: String,
    /// Names of its codes; none if other values give it back.
    pub codes: Vec<String>,
    /// Name of the value that is made from the codes, or from the other values.
    pub decoded: String,
    /// Kind of the code.
    pub form: Form,
}

/// A matrix of weights that was written in few bits.
#[derive(Clone, PartialEq, Debug)]
pub struct EncodedWeight {
    /// Name of the matrix.
    pub of: String,
    /// Name of the constant with the codes.
    pub codes: String,
    /// Name of the constant with the scales.
    pub scales: String,
    /// Bits of a code.
    pub bits: u32,
    /// Number of weights of a column that share a scale; `None` for whole columns.
    pub block: Option<u64>,
    /// Size of the matrix.
    pub before: Bytes,
    /// Size of codes and scales together.
    pub after: Bytes,
    /// The constant with all codes. Passes that split products may replace it by constants with some of
    /// them.
    pub whole: ConstId,
    /// Number of weights that are summed to one result, and number of results.
    pub extents: [u64; 2],
    /// Whether the weights of one result are neighbours.
    pub transposed: bool,
    /// Errors of all weights.
    pub errors: WeightErrors,
}

/// Sums over weights and their decoded numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WeightErrors {
    /// Sum of squared errors.
    pub errors: f64,
    /// Sum of squared weights.
    pub squares: f64,
    /// Largest error of one weight.
    pub largest: f64,
}

impl WeightErrors {
    /// Adds a weight with its decoded number.
    pub fn add(&mut self, number: f32, decoded: f32) {
        let error = f64::from(number) - f64::from(decoded);
        self.errors += error * error;
        self.squares += f64::from(number) * f64::from(number);
        self.largest = self.largest.max(error.abs());
    }

    /// Returns the root of the sum of squared errors, as a share of that of the squared weights.
    pub fn relative(self) -> f64 {
        if self.squares > 0.0 { (self.errors / self.squares).sqrt() } else { 0.0 }
    }
}
