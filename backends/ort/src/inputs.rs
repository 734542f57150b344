//! Inputs of a run: given inputs, written directly to their places, and inputs made up from a seed, with
//! values that keep indices legal.

use std::collections::BTreeMap;

use memc_layout::{Class, Layout};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::type_proto::Value;

use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;
use crate::memory::require;
use crate::random::fnv;
use crate::splitmix::SplitMix;

/// Metadata key of models that state how to fill their inputs. The value is a JSON object that maps an
/// input to `[kind, a, b]`.
const HINTS: &str = "corpus.inputs";

/// A source of graph inputs. It writes each input directly to its place, so that no second copy is
/// needed.
pub trait Inputs {
    /// Returns the names of all inputs that the source gives.
    fn names(&self) -> Vec<&str>;

    /// Returns the element type and dimensions of an input; `None` if the source does not give the
    /// input.
    fn kind(&self, input: &str) -> Option<(Element, &[u64])>;

    /// Writes the elements of an input to its place. The length of `place` must match type and
    /// dimensions.
    ///
    /// # Errors
    /// The elements cannot be read or made.
    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error>;
}

impl Inputs for BTreeMap<String, Array> {
    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }

    fn kind(&self, input: &str) -> Option<(Element, &[u64])> {
        self.get(input).map(|array| (array.element, array.shape.as_slice()))
    }

    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error> {
        if let Some(array) = self.get(input) {
            place.copy_from_slice(array.bytes());
        }
        Ok(())
    }
}

/// Distribution of the elements of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// Uniform integers of `[a, b)`.
    Whole(f64, f64),
    /// Approximately normal numbers with mean `a` and standard deviation `b`.
    Normal(f64, f64),
    /// Always `a`.
    Fixed(f64),
    /// Uniform numbers between `a` and `b`.
    Uniform(f64, f64),
}

/// All graph inputs without a default, made up from a seed. Equal seeds give equal inputs on every
/// machine.
#[derive(Debug)]
pub struct Seeded {
    seed: u64,
    inputs: BTreeMap<String, (Element, Vec<u64>, Law)>,
}

impl Seeded {
    /// Plans inputs with the shapes of the layout.
    ///
    /// # Errors
    /// An input has an unknown shape, or a type that cannot be made up.
    pub fn new(model: &ModelFile, layout: &Layout, seed: u64) -> Result<Self, Error> {
        all_arrays(model)?;
        let hints = hints(model);
        let mut inputs = BTreeMap::new();
        for input in &model.graph().input {
            let name = input.name();
            if model.graph().initializer.iter().any(|tensor| tensor.name() == name) {
                continue;
            }
            let wrong = |reason: &str| Error::Input { input: name.to_owned(), reason: reason.to_owned() };
            let tensor =
                layout.tensors.iter().find(|tensor| tensor.name == name && tensor.class != Class::Scratch);
            let tensor = tensor.ok_or_else(|| wrong("has no known shape: give it with `--inputs`"))?;
            let element = Element::from_name(&tensor.dtype).filter(|element| width(*element).is_some());
            let element =
                element.ok_or_else(|| wrong("has a type without random numbers: give it with `--inputs`"))?;
            element.bytes(&tensor.shape).ok_or_else(|| wrong("has an impossible size in the layout"))?;
            let usual = if is_float(element) { Law::Normal(0.0, 1.0) } else { Law::Whole(0.0, 2.0) };
            let law = hints.get(name).copied().unwrap_or(usual);
            inputs.insert(name.to_owned(), (element, tensor.shape.clone(), law));
        }
        Ok(Self { seed, inputs })
    }

    /// Gives an input other dimensions, such as those of a batch of which the model computes a part. An input
    /// that the model lacks is ignored.
    #[must_use]
    pub fn shaped(mut self, name: &str, shape: &[u64]) -> Self {
        if let Some((_, own, _)) = self.inputs.get_mut(name) {
            *own = shape.to_vec();
        }
        self
    }
}

impl Inputs for Seeded {
    fn names(&self) -> Vec<&str> {
        self.inputs.keys().map(String::as_str).collect()
    }

    fn kind(&self, input: &str) -> Option<(Element, &[u64])> {
        self.inputs.get(input).map(|(element, shape, _)| (*element, shape.as_slice()))
    }

    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error> {
        let Some((element, _, law)) = self.inputs.get(input) else { return Ok(()) };
        let mut random = SplitMix(self.seed ^ fnv(input.as_bytes()));
        for bytes in place.chunks_exact_mut(width(*element).unwrap_or(1)) {
            encode(*element, value(&mut random, *law), bytes);
        }
        Ok(())
    }
}

/// Rejects an array whose name is not that of a graph input.
///
/// # Errors
/// Names the first unknown array.
pub(crate) fn all_known(names: &[String], inputs: &dyn Inputs) -> Result<(), Error> {
    /// Largest number of the model's inputs that the message names.
    const MAX_NAMED: usize = 8;
    let Some(unknown) = inputs.names().into_iter().find(|given| !names.iter().any(|name| name == given))
    else {
        return Ok(());
    };
    let mut known: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    known.extend((names.len() > MAX_NAMED).then(|| format!("{} more", names.len() - MAX_NAMED)));
    let known = if known.is_empty() { "no inputs".to_owned() } else { known.join(", ") };
    Err(Error::Input {
        input: unknown.to_owned(),
        reason: format!("is not an input of the model, which has {known}"),
    })
}

/// Rejects an array whose type or shape differs from the plan's for this graph input.
///
/// # Errors
/// Type or shape differs.
pub(crate) fn as_planned(
    input: &str,
    planned: (Element, &[u64]),
    given: (Element, &[u64]),
) -> Result<(), Error> {
    if planned == given {
        return Ok(());
    }
    let show = |(element, shape): (Element, &[u64])| format!("{}{shape:?}", element.name());
    let reason = format!("is {} in the plan, but {} was given", show(planned), show(given));
    Err(Error::Input { input: input.to_owned(), reason })
}

/// Rejects given arrays that do not fit the plan. Missing inputs are found later, when the plan is
/// played.
///
/// # Errors
/// A name is unknown, or a type or shape differs from the plan.
pub(crate) fn all_fit(model: &ModelFile, layout: &Layout, inputs: &dyn Inputs) -> Result<(), Error> {
    let names: Vec<String> = model.graph().input.iter().map(|input| input.name().to_owned()).collect();
    all_known(&names, inputs)?;
    for name in inputs.names() {
        let tensor =
            layout.tensors.iter().find(|tensor| tensor.name == name && tensor.class != Class::Scratch);
        let planned =
            tensor.and_then(|tensor| Some((Element::from_name(&tensor.dtype)?, tensor.shape.as_slice())));
        if let Some((planned, given)) = planned.zip(inputs.kind(name)) {
            as_planned(name, planned, given)?;
        }
    }
    Ok(())
}

/// Rejects models with an input that is not a tensor of numbers, because no source can give it.
///
/// # Errors
/// Names the first such input and its kind.
pub(crate) fn all_arrays(model: &ModelFile) -> Result<(), Error> {
    let kind = |value: &Value| match value {
        Value::TensorType(tensor) if tensor.elem_type() == DataType::String as i32 => {
            Some("a tensor of strings")
        }
        Value::TensorType(_) => None,
        Value::SequenceType(_) => Some("a sequence"),
        Value::MapType(_) => Some("a map"),
        Value::OptionalType(_) => Some("an optional"),
        Value::SparseTensorType(_) => Some("a sparse tensor"),
        Value::OpaqueType(_) => Some("of an opaque type"),
    };
    let graph = model.graph();
    let given = graph
        .input
        .iter()
        .filter(|input| graph.initializer.iter().all(|tensor| tensor.name() != input.name()));
    let mut others =
        given.filter_map(|input| Some((input.name(), kind(input.r#type.as_ref()?.value.as_ref()?)?)));
    others.next().map_or(Ok(()), |(input, kind)| Err(Error::NoArray { input: input.to_owned(), kind }))
}

/// Makes an array for every graph input without a default, with the elements of [`Seeded`].
///
/// # Errors
/// As for [`Seeded::new`], or the system has no memory.
pub fn make(model: &ModelFile, layout: &Layout, seed: u64) -> Result<BTreeMap<String, Array>, Error> {
    let seeded = Seeded::new(model, layout, seed)?;
    let sizes = seeded.inputs.values().map(|(element, shape, _)| element.bytes(shape).unwrap_or(u64::MAX));
    require(sizes.fold(0, u64::saturating_add))?;
    let mut made = BTreeMap::new();
    for (name, (element, shape, _)) in &seeded.inputs {
        if let Some(array) = Array::filled(*element, shape.clone(), |place| seeded.fill(name, place))? {
            made.insert(name.clone(), array);
        }
    }
    Ok(made)
}

fn hints(model: &ModelFile) -> BTreeMap<String, Law> {
    let text =
        model.model().metadata_props.iter().find(|entry| entry.key() == HINTS).map(|entry| entry.value());
    let Some(Ok(serde_json::Value::Object(object))) = text.map(serde_json::from_str) else {
        return BTreeMap::new();
    };
    let law = |value: &serde_json::Value| {
        let (kind, a, b) = (value.get(0)?.as_str()?, value.get(1)?.as_f64()?, value.get(2)?.as_f64()?);
        match kind {
            "int" => Some(Law::Whole(a, b)),
            "normal" => Some(Law::Normal(a, b)),
            "const" => Some(Law::Fixed(a)),
            "uniform" => Some(Law::Uniform(a, b)),
            _ => None,
        }
    };
    object.iter().filter_map(|(name, value)| Some((name.clone(), law(value)?))).collect()
}

fn is_float(element: Element) -> bool {
    matches!(element.data_type(), DataType::Float | DataType::Double | DataType::Float16 | DataType::Bfloat16)
}

/// Draws a number of a law.
fn value(random: &mut SplitMix, law: Law) -> f64 {
    match law {
        Law::Whole(a, b) => (a + (b - a) * random.unit()).floor(),
        Law::Fixed(a) => a,
        Law::Uniform(a, b) => a + (b - a) * random.unit(),
        // The sum of twelve uniform numbers has variance 1 and bounded tails, and needs no function
        // whose last bit depends on the machine.
        Law::Normal(a, b) => a + b * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0),
    }
}

/// Returns the size of an element, in bytes; `None` for types that [`encode`] cannot write.
fn width(element: Element) -> Option<usize> {
    Some(match element.data_type() {
        DataType::Double | DataType::Int64 | DataType::Uint64 => 8,
        DataType::Float | DataType::Int32 | DataType::Uint32 => 4,
        DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16 => 2,
        DataType::Int8 | DataType::Uint8 | DataType::Bool => 1,
        _ => return None,
    })
}

/// Writes one element into `bytes`, which has the length that [`width`] returns.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn encode(element: Element, value: f64, bytes: &mut [u8]) {
    match element.data_type() {
        DataType::Float => bytes.copy_from_slice(&(value as f32).to_le_bytes()),
        DataType::Double => bytes.copy_from_slice(&value.to_le_bytes()),
        DataType::Float16 => bytes.copy_from_slice(&half(value as f32).to_le_bytes()),
        DataType::Bfloat16 => bytes.copy_from_slice(&(((value as f32).to_bits() >> 16) as u16).to_le_bytes()),
        DataType::Int64 => bytes.copy_from_slice(&(value as i64).to_le_bytes()),
        DataType::Uint64 => bytes.copy_from_slice(&(value as u64).to_le_bytes()),
        DataType::Int32 => bytes.copy_from_slice(&(value as i32).to_le_bytes()),
        DataType::Uint32 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
        DataType::Int16 => bytes.copy_from_slice(&(value as i16).to_le_bytes()),
        DataType::Uint16 => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
        DataType::Int8 => bytes.copy_from_slice(&(value as i8).to_le_bytes()),
        DataType::Uint8 => bytes.copy_from_slice(&(value as u8).to_le_bytes()),
        DataType::Bool => bytes.fill(u8::from(value != 0.0)),
        _ => {}
    }
}

/// Converts to IEEE 754 binary16, rounding toward zero. Numbers below the smallest normal become zero,
/// numbers that are too large become the largest finite one.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | ((exponent as u16) << 10) | ((bits >> 13) & 0x3ff) as u16,
    }
}
