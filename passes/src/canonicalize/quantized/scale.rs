//! Meaning of quantized integers: `number = scale * (integer - zero)`, with one scale for all integers
//! or one per channel.

use memc_edit::constant;
use memc_ir::{ConstData, ConstOrigin, ElementType, Node, Payload, TensorType, Value};
use memc_ops::{Data, Item};

use super::super::Walk;

/// Accepted range of scales: outside it, digits are lost to underflow, or numbers overflow.
const USUAL: std::ops::Range<f64> = 1e-30..1e30;

/// Scales and zero points of a node; all of them are known constants.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// Type of the integers.
    pub(super) element: ElementType,
    /// The node's operand that holds the scales.
    scale: Value,
    zero: Option<Value>,
    /// Axis of the scales, if there are several.
    pub(super) axis: i64,
    pub(super) scales: Vec<f64>,
    zeros: Vec<i64>,
}

impl Scale {
    /// Returns the scale of a QuantizeLinear or DequantizeLinear with these integers; `None` if it is
    /// unknown, out of the usual range, or by blocks.
    pub(super) fn of(walk: &Walk<'_, '_, '_>, node: Node, integers: Value) -> Option<Self> {
        let data = walk.module().node(node);
        (data.int("block_size", 0) == 0).then_some(())?;
        let element = walk.module().ty(integers).tensor()?.element;
        let (scale, zero) = (walk.maker.operand(node, 1)?, walk.maker.operand(node, 2));
        let stated = known(walk, scale)?;
        (stated.element == ElementType::Float && stated.dims.len() <= 1).then_some(())?;
        let scales: Vec<f64> = stated.items.iter().map(number).collect::<Option<_>>()?;
        scales.iter().all(|scale| USUAL.contains(scale)).then_some(())?;
        let zeros: Vec<i64> = match zero {
            None => vec![0],
            Some(zero) => known(walk, zero)?.items.iter().map(Item::int).collect::<Option<_>>()?,
        };
        let fits = !scales.is_empty() && (zero.is_none() || zeros.len() == scales.len());
        fits.then(|| Self { element, scale, zero, axis: data.int("axis", 1), scales, zeros })
    }

    /// Returns whether one scale covers all integers.
    pub(super) fn is_one(&self) -> bool {
        self.scales.len() == 1
    }

    /// Returns whether the integers have 8 bits, as kernels multiply them.
    pub(super) fn is_bytes(&self) -> bool {
        matches!(self.element, ElementType::Int8 | ElementType::Uint8)
    }

    /// Returns the zero point that all channels share; `None` if channels differ.
    pub(super) fn zero(&self) -> Option<i64> {
        let first = *self.zeros.first()?;
        self.zeros.iter().all(|zero| *zero == first).then_some(first)
    }

    /// Returns whether equal integers stand for equal numbers under both scales, for any axis.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.is_one()
            && self.element == other.element
            && self.scales == other.scales
            && self.zeros == other.zeros
    }

    /// Returns the least and the greatest number of an 8-bit integer type, if there is one scale.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let (least, greatest) = match self.element {
            ElementType::Int8 => (-128, 127),
            ElementType::Uint8 => (0, 255),
            _ => return None,
        };
        let (scale, zero) = (*self.scales.first().filter(|_| self.is_one())?, self.zero()?);
        Some(((least - zero) as f64 * scale, (greatest - zero) as f64 * scale))
    }

    /// Returns the operand that holds the scales.
    pub(super) fn value(&self) -> Value {
        self.scale
    }
}

impl Walk<'_, '_, '_> {
    /// Returns the operand that holds the zero points, or a new zero constant if the node omits it.
    pub(super) fn zero_point(&mut self, scale: &Scale) -> Option<Value> {
        scale.zero.or_else(|| {
            // For a type wider than a byte, no node needs an omitted zero point.
            let ty = TensorType::fixed(scale.element, &[]);
            scale.is_bytes().then(|| self.initializer("zero_point", constant(ty, vec![0])))
        })
    }

    /// Returns the bias of a product as integers on the scale of its sums, or an operand that holds them
    /// already.
    ///
    /// `factors` is the number per integer, one for all channels or one each. `None` if the bias is
    /// unknown, or if its rounding would show in results of scale `result`.
    pub(super) fn bias(&mut self, value: Value, factors: &[f64], result: Option<f64>) -> Option<Value> {
        let producer = self.producer(value, "DequantizeLinear");
        let integers = producer.and_then(|node| self.maker.operand(node, 0));
        let (numbers, source) = match (producer, integers) {
            (Some(node), Some(integers)) => (self.dequantized_constant(node, integers)?, Some(integers)),
            _ => (known(self, value)?.items.iter().map(number).collect::<Option<Vec<f64>>>()?, None),
        };
        let factor =
            |channel: usize| factors.get(channel).or(factors.first().filter(|_| factors.len() == 1)).copied();
        let scaled =
            numbers.iter().enumerate().map(|(channel, number)| Some((number / factor(channel)?).round()));
        let scaled: Vec<f64> = scaled.collect::<Option<_>>()?;
        scaled.iter().all(|number| number.abs() < f64::from(1 << 30)).then_some(())?;
        let wanted: Vec<i32> = scaled.iter().map(|number| *number as i32).collect();
        if let Some(source) = source.filter(|source| self.holds(*source, &wanted)) {
            return Some(source);
        }
        let greatest = factors.iter().copied().fold(0.0, f64::max);
        result.is_none_or(|result| greatest * f64::from(FINER) <= result).then_some(())?;
        let raw = wanted.iter().flat_map(|number| number.to_le_bytes()).collect();
        let ty = TensorType::fixed(ElementType::Int32, &[wanted.len() as u64]);
        Some(self.initializer(&self.maker.hint(value, "integers"), constant(ty, raw)))
    }

    /// Returns the numbers of known quantized integers.
    fn dequantized_constant(&self, node: Node, integers: Value) -> Option<Vec<f64>> {
        let scale = Scale::of(self, node, integers)?;
        let zero = scale.zero()?;
        let integers: Vec<i64> = known(self, integers)?.items.iter().map(Item::int).collect::<Option<_>>()?;
        (scale.is_one() || scale.scales.len() == integers.len()).then_some(())?;
        let scales = scale.scales.iter().cycle();
        Some(integers.iter().zip(scales).map(|(integer, scale)| (integer - zero) as f64 * scale).collect())
    }

    /// Returns whether a value is a vector of exactly these 32-bit integers.
    fn holds(&self, value: Value, wanted: &[i32]) -> bool {
        known(self, value).is_some_and(|data| {
            let items = data.items.iter().map(Item::int);
            data.element == ElementType::Int32
                && data.dims.len() == 1
                && items.eq(wanted.iter().map(|number| Some(i64::from(*number))))
        })
    }
}

/// Minimum ratio of the result's scale to the sum's scale at which a bias may be rounded to the sum's
/// scale.
const FINER: u32 = 64;

/// Returns the elements of a constant, including constants stored in other files.
fn known(walk: &Walk<'_, '_, '_>, value: Value) -> Option<Data> {
    let (ty, bytes) = walk.constant_bytes(value)?;
    Data::from_constant(&ConstData { ty, payload: Payload::Raw(bytes), origin: ConstOrigin::New })
}

fn number(item: &Item) -> Option<f64> {
    match item {
        Item::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}

/// Returns the number of a constant with one element.
pub(super) fn only_number(walk: &Walk<'_, '_, '_>, value: Value) -> Option<f64> {
    match known(walk, value)?.items.as_slice() {
        [item] => number(item),
        _ => None,
    }
}
