//! Codes: small forms in which a value lies between two uses, with the nodes that make the code and the
//! nodes that make the value again.
#![doc = include_str!("../../doc/encode.md")]

mod bits;
mod cast;
mod cost;
mod inverse;
mod position;
mod rows;

use memc_edit::{Attributes, Maker};
use memc_ir::{
    Alias, AliasKind, Bytes, ConstData, ElementType, Module, Node, SecondaryMap, TensorType, Use, Value,
    ValueType,
};

use crate::options::{Lossy, Options};

pub use cost::Way;

/// A kind of code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// One bit for each Boolean.
    Bits,
    /// The place of a maximum within its window, in one byte.
    Position,
    /// Integers of fewer bits that hold the value's range.
    Narrow(ElementType),
    /// Floating-point numbers of fewer bits.
    Float(ElementType),
    /// Integers of eight bits with a scale for each row.
    Rows,
    /// No code: other values give the value back, bit for bit or rounded.
    Inverse(Accuracy),
}

/// How exactly a value is computed back from others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Accuracy {
    /// Bit for bit.
    Exact,
    /// With the rounding error of a sum or difference, and of its inverse.
    Rounded,
    /// Bit for bit, unless a number leaves the range of normal numbers.
    InRange,
}

impl Form {
    /// Returns the name in layouts and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Position => "pool-position",
            Self::Narrow(_) => "narrow",
            Self::Float(ElementType::Bfloat16) => "bf16",
            Self::Float(_) => "f16",
            Self::Rows => "int8",
            Self::Inverse(_) => "inverse",
        }
    }

    /// Returns whether decoding gives back every bit of the value.
    #[must_use]
    pub fn is_exact(self) -> bool {
        !matches!(self, Self::Float(_) | Self::Rows | Self::Inverse(Accuracy::Rounded | Accuracy::InRange))
    }

    /// Returns the measured relative error of an inverse that rounds; `None` for other forms.
    #[must_use]
    pub fn error(self) -> Option<f64> {
        match self {
            Self::Inverse(Accuracy::Rounded) => Some(inverse::measured_error()),
            Self::Inverse(Accuracy::InRange) => Some(0.0),
            _ => None,
        }
    }
}

/// Operand of a step of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operand {
    /// The value, when it is encoded.
    Value,
    /// A code, by its position, when it is decoded.
    Code(usize),
    /// Another value of the module, by its position, when it is decoded.
    Other(usize),
    /// Result of an earlier step of the same list.
    Step(usize),
    /// A constant of the recipe.
    Constant(usize),
}

/// One node of a recipe.
#[derive(Clone, PartialEq, Debug)]
struct Step {
    operator: &'static str,
    operands: Vec<Operand>,
    attributes: Attributes,
    /// Type of the result.
    ty: TensorType,
}

/// The nodes that encode and decode one value. The result of the last decoding step is the value.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    /// Kind of the code.
    pub form: Form,
    constants: Vec<ConstData>,
    encode: Vec<Step>,
    decode: Vec<Step>,
    /// Encoding steps whose results are the codes.
    codes: Vec<usize>,
    /// Values of the module that decoding reads, beside codes.
    others: Vec<Value>,
}

impl Recipe {
    /// Returns the types of the codes.
    pub fn codes(&self) -> impl Iterator<Item = &TensorType> {
        self.codes.iter().map(|step| &self.encode[*step].ty)
    }

    /// Returns the bytes of all codes together, each aligned; at most `u64::MAX`.
    #[must_use]
    pub fn bytes(&self, options: &Options) -> Bytes {
        let size = |ty: &TensorType| options.aligned(ty.size().unwrap_or(Bytes(u64::MAX)));
        self.codes().map(size).fold(Bytes(0), Bytes::saturating_add)
    }

    /// Returns the values of the module that decoding reads in place of a code: those that give the value
    /// back.
    #[must_use]
    pub fn others(&self) -> &[Value] {
        &self.others
    }

    /// Returns the costs of encoding and decoding a value, by the model of time. O(nodes of the module),
    /// because a copy of the module takes the nodes.
    #[must_use]
    pub fn costs(&self, scratch: &mut Module, options: &Options, value: Value) -> [Way; 2] {
        let mut writer = Writer::new(scratch);
        let (encoding, codes) = writer.encode(self, value);
        let (decoding, _) = writer.decode(self, value, &codes, &self.others);
        writer.finish();
        let made = owner(&self.decode, Operand::Step(self.decode.len().saturating_sub(1)));
        let codes: Vec<Operand> = self.codes.iter().map(|at| Operand::Step(*at)).collect();
        [(&self.encode, &encoding, &*codes), (&self.decode, &decoding, &[made])]
            .map(|(steps, nodes, results)| cost::way(steps, nodes, results, scratch, options))
    }
}

/// Whether a step shows its operand's bytes in another shape.
fn is_view(step: &Step) -> bool {
    step.operator == "Reshape"
}

/// Returns the operand that owns the bytes which an operand shows through views.
fn owner(steps: &[Step], operand: Operand) -> Operand {
    match operand {
        Operand::Step(at) if is_view(&steps[at]) => {
            steps[at].operands.first().map_or(operand, |of| owner(steps, *of))
        }
        other => other,
    }
}

/// Returns the recipes for a value, exact ones first. `is_late` says whether a lossy code may stand for
/// it; `uses` are those of all values.
#[must_use]
pub fn recipes(
    module: &Module,
    options: &Options,
    uses: &SecondaryMap<Value, Vec<Use>>,
    value: Value,
    is_late: bool,
) -> Vec<Recipe> {
    let Some(ty) = module
        .ty(value)
        .tensor()
        .filter(|ty| ty.size().is_some_and(|size| size >= options.tuning.encode.least))
    else {
        return Vec::new();
    };
    let version = module.opsets.get("").copied().unwrap_or_default();
    let mut found = Vec::new();
    let inverses = inverse::recipes(module, uses, value);
    if options.encode.exact {
        found.extend(inverses.iter().filter(|recipe| recipe.form.is_exact()).cloned());
        found.extend(bits::recipe(ty, version));
        let position = position::recipe(module, value, version);
        // The byte in a window is smaller than any narrow index.
        let narrow = if position.is_none() { cast::narrow(module, value) } else { None };
        found.extend(position);
        found.extend(narrow);
    }
    if is_late {
        if options.encode.lossy.contains(&Lossy::Inverse) {
            found.extend(inverses.into_iter().filter(|recipe| !recipe.form.is_exact()));
        }
        found.extend(options.encode.lossy.iter().filter_map(|lossy| match lossy {
            Lossy::Inverse => None,
            Lossy::F16 => cast::float(ty, ElementType::Float16, version),
            Lossy::BF16 => cast::float(ty, ElementType::Bfloat16, version),
            Lossy::Int8 => rows::recipe(module, value, version),
        }));
    }
    found
}

/// Origin of the nodes.
const NAME: &str = "encode";

/// Writes recipes into the main graph of a module, in the order of the calls.
pub struct Writer<'m> {
    maker: Maker<'m>,
    aliases: Vec<(Value, Alias)>,
    constants: Vec<(ConstData, Value)>,
}

impl<'m> Writer<'m> {
    /// Starts writing into a module.
    pub fn new(module: &'m mut Module) -> Self {
        Self { maker: Maker::new(module, NAME), aliases: Vec::new(), constants: Vec::new() }
    }

    /// Returns the module as written so far.
    #[must_use]
    pub fn module(&self) -> &Module {
        self.maker.module()
    }

    /// Returns the maker of the nodes, for other changes between two recipes.
    pub fn maker(&mut self) -> &mut Maker<'m> {
        &mut self.maker
    }

    /// Returns the views written so far, with the values that they show.
    pub fn aliases(&mut self) -> Vec<(Value, Alias)> {
        std::mem::take(&mut self.aliases)
    }

    /// Appends the nodes that encode a value; returns them and the codes.
    pub fn encode(&mut self, recipe: &Recipe, value: Value) -> (Vec<Node>, Vec<Value>) {
        let made = self.steps(recipe, &recipe.encode, value, (&[], &[]), "code");
        let codes = recipe.codes.iter().map(|step| made[*step].1).collect();
        (made.into_iter().map(|(node, _)| node).collect(), codes)
    }

    /// Appends the nodes that make a value from its codes and `others`, the values that
    /// [`Recipe::others`] names or copies of them; returns the nodes and the value. `original` names the
    /// new values.
    pub fn decode(
        &mut self,
        recipe: &Recipe,
        original: Value,
        codes: &[Value],
        others: &[Value],
    ) -> (Vec<Node>, Value) {
        let ending = if matches!(recipe.form, Form::Inverse(_)) { "inverse" } else { "decoded" };
        let made = self.steps(recipe, &recipe.decode, original, (codes, others), ending);
        let value = made.last().map_or(original, |(_, value)| *value);
        (made.into_iter().map(|(node, _)| node).collect(), value)
    }

    /// Ends the rewriting; returns the number of edits.
    pub fn finish(self) -> u64 {
        self.maker.finish()
    }

    fn steps(
        &mut self,
        recipe: &Recipe,
        steps: &[Step],
        value: Value,
        (codes, others): (&[Value], &[Value]),
        ending: &str,
    ) -> Vec<(Node, Value)> {
        let original = self.maker.module().value(value).name.clone();
        let mut made: Vec<(Node, Value)> = Vec::with_capacity(steps.len());
        for step in steps {
            let operand = |operand: &Operand| match operand {
                Operand::Value => Some(value),
                Operand::Code(at) => codes.get(*at).copied(),
                Operand::Other(at) => others.get(*at).copied(),
                Operand::Step(at) => made.get(*at).map(|(_, value)| *value),
                Operand::Constant(at) => Some(self.constant(&recipe.constants[*at])),
            };
            let inputs: Vec<Option<Value>> = step.operands.iter().map(operand).collect();
            let name = self.maker.fresh_name(&format!("{original}.{ending}"));
            let new = self.maker.onnx(step.operator, inputs, step.attributes.clone()).named(name.clone());
            let node = self.maker.insert(None, new, &[Some((name, ValueType::Tensor(step.ty.clone())))]);
            let result = self.maker.result(node).unwrap_or(value);
            if let (true, Some(of)) = (is_view(step), self.maker.operand(node, 0)) {
                self.aliases.push((result, Alias { of, kind: AliasKind::View, offset: Bytes(0) }));
            }
            made.push((node, result));
        }
        made
    }

    /// Returns an initializer with this constant; equal constants share one.
    fn constant(&mut self, data: &ConstData) -> Value {
        if let Some((_, known)) = self.constants.iter().find(|(known, _)| known == data) {
            return *known;
        }
        let value = self.maker.add_constant("code", data.clone());
        self.constants.push((data.clone(), value));
        value
    }
}

/// Returns a constant of these elements, in row-major order and little-endian bytes.
fn constant(element: ElementType, dims: &[u64], raw: Vec<u8>) -> ConstData {
    memc_edit::constant(TensorType::fixed(element, dims), raw)
}

/// Returns the constant shape operand of a Reshape.
fn shape(dims: &[u64]) -> ConstData {
    let raw =
        dims.iter().flat_map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX).to_le_bytes()).collect();
    constant(ElementType::Int64, &[dims.len() as u64], raw)
}

/// Returns a step that casts an operand.
fn cast(operand: Operand, element: ElementType, dims: &[u64]) -> Step {
    let attributes = memc_edit::int("to", element.to_onnx().into());
    Step { operator: "Cast", operands: vec![operand], attributes, ty: TensorType::fixed(element, dims) }
}

/// Returns a step without attributes.
fn step(operator: &'static str, operands: &[Operand], element: ElementType, dims: &[u64]) -> Step {
    Step {
        operator,
        operands: operands.to_vec(),
        attributes: Vec::new(),
        ty: TensorType::fixed(element, dims),
    }
}
