//! Inputs made up from a seed, with values that keep indices legal.

use std::collections::BTreeMap;

use memc_layout::{Class, Layout};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;
use crate::memory::require;
use crate::random::fnv;

/// Metadata key of models that say how to fill their inputs: a JSON object, name to `[kind, a, b]`.
const HINTS: &str = "corpus.inputs";

/// How the elements of an input are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// Whole numbers of `[a, b)`.
    Whole(f64, f64),
    /// Around `a`, so wide.
    Normal(f64, f64),
    /// Always `a`.
    Fixed(f64),
    /// Between `a` and `b`.
    Uniform(f64, f64),
}

/// Makes every graph input that has no default, with the shapes of the layout. Equal seeds give equal inputs on every machine.
///
/// # Errors
/// An input has a type or shape that nobody can make up, or there is no memory.
pub fn make(model: &ModelFile, layout: &Layout, seed: u64) -> Result<BTreeMap<String, Array>, Error> {
    let hints = hints(model);
    let mut made = BTreeMap::new();
    for input in &model.graph().input {
        let name = input.name();
        if model.graph().initializer.iter().any(|tensor| tensor.name() == name) {
            continue;
        }
        let wrong = |reason: &str| Error::Input { input: name.to_owned(), reason: reason.to_owned() };
        let tensor = layout.tensors.iter().find(|tensor| tensor.name == name && tensor.class != Class::Scratch);
        let tensor = tensor.ok_or_else(|| wrong("has no known shape: give it with --inputs"))?;
        let element =
            Element::from_name(&tensor.dtype).ok_or_else(|| wrong("has a type that cannot be made up: give it with --inputs"))?;
        let law =
            hints.get(name).copied().unwrap_or(if is_float(element) { Law::Normal(0.0, 1.0) } else { Law::Whole(0.0, 2.0) });
        let mut draw = Draw(seed ^ fnv(name.as_bytes()));
        require(element.bytes(&tensor.shape).ok_or_else(|| wrong("has an absurd size in the layout"))?)?;
        let elements = tensor.shape.iter().product::<u64>();
        let mut bytes = Vec::new();
        for _ in 0..elements {
            let value = draw.value(law);
            encode(element, value, &mut bytes)
                .ok_or_else(|| wrong("has a type that cannot be made up: give it with --inputs"))?;
        }
        let array =
            Array::new(element, tensor.shape.clone(), &bytes)?.ok_or_else(|| wrong("has a size that contradicts its shape"))?;
        made.insert(name.to_owned(), array);
    }
    Ok(made)
}

fn hints(model: &ModelFile) -> BTreeMap<String, Law> {
    let text = model.model().metadata_props.iter().find(|entry| entry.key() == HINTS).map(|entry| entry.value());
    let Some(Ok(serde_json::Value::Object(object))) = text.map(serde_json::from_str) else { return BTreeMap::new() };
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

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Of `[0, 1)`, 53 bits.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn value(&mut self, law: Law) -> f64 {
        match law {
            Law::Whole(a, b) => (a + (b - a) * self.unit()).floor(),
            Law::Fixed(a) => a,
            Law::Uniform(a, b) => a + (b - a) * self.unit(),
            // The sum of twelve has variance 1 and bounded tails, and needs no function whose last bit depends on the machine.
            Law::Normal(a, b) => a + b * ((0..12).map(|_| self.unit()).sum::<f64>() - 6.0),
        }
    }
}

/// Appends one element; `None` for types that this cannot write.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn encode(element: Element, value: f64, bytes: &mut Vec<u8>) -> Option<()> {
    match element.data_type() {
        DataType::Float => bytes.extend((value as f32).to_le_bytes()),
        DataType::Double => bytes.extend(value.to_le_bytes()),
        DataType::Float16 => bytes.extend(half(value as f32).to_le_bytes()),
        DataType::Bfloat16 => bytes.extend(((value as f32).to_bits() >> 16).to_le_bytes().iter().take(2)),
        DataType::Int64 => bytes.extend((value as i64).to_le_bytes()),
        DataType::Uint64 => bytes.extend((value as u64).to_le_bytes()),
        DataType::Int32 => bytes.extend((value as i32).to_le_bytes()),
        DataType::Uint32 => bytes.extend((value as u32).to_le_bytes()),
        DataType::Int16 => bytes.extend((value as i16).to_le_bytes()),
        DataType::Uint16 => bytes.extend((value as u16).to_le_bytes()),
        DataType::Int8 => bytes.extend((value as i8).to_le_bytes()),
        DataType::Uint8 => bytes.push(value as u8),
        DataType::Bool => bytes.push(u8::from(value != 0.0)),
        _ => return None,
    }
    Some(())
}

/// The nearest half-precision number toward zero (IEEE 754 binary16); what is too small becomes zero, what is too large the largest.
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
