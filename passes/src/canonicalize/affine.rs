//! Per-channel scales and shifts (batch normalizations, products and sums with constants) move into the
//! weights of their operand's producer.
//!
//! `y = scale * x + shift` over channels, with `x` from a convolution, a matrix product or another
//! normalization with constant weights, equals that node with other weights (Jacob et al., "Quantization
//! and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 3.2).
//! The order of roundings changes, so this rule is never exact.

use std::collections::BTreeMap;

use memc_edit::constant;
use memc_ir::{ElementType, Node, TensorType, Value};
use memc_ops::{may_train, same_type};

use super::Walk;

/// Pending jobs by the node whose weights change, in graph order.
pub(super) type Pending = BTreeMap<Node, Job>;

/// New weights to compute. A job holds all its source data, so every job can be finished.
#[derive(Clone, Debug)]
pub(super) struct Job {
    taker: Taker,
    affine: Affine,
    /// Original weights; only needed if a scale changes them.
    weights: Option<(TensorType, bytes::Bytes)>,
    /// Original bias of the node, one number per channel.
    bias: Vec<f64>,
}

/// A scale and a shift for each channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Affine {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Affine {
    fn identity(channels: usize) -> Self {
        Self { scale: vec![1.0; channels], shift: vec![0.0; channels] }
    }
    /// Returns this map followed by `other`.
    fn then(&self, other: &Self) -> Self {
        let scale = self.scale.iter().zip(&other.scale).map(|(a, b)| a * b).collect();
        let shift =
            self.shift.iter().zip(&other.scale).zip(&other.shift).map(|((a, b), c)| a * b + c).collect();
        Self { scale, shift }
    }
    /// Returns whether weights of usual size stay in the usual range: far from overflow, and from loss
    /// of digits.
    fn is_moderate(&self) -> bool {
        let moderate = |number: &f64| *number == 0.0 || (1e-20..1e20).contains(&number.abs());
        self.scale.iter().all(moderate) && self.shift.iter().all(|number| number.abs() < 1e20)
    }
    fn keeps_scale(&self) -> bool {
        self.scale.iter().all(|number| *number == 1.0)
    }
}

/// Location of a node's weights and bias, and the number of channels.
#[derive(Clone, Copy, Debug)]
struct Taker {
    channels: usize,
    /// Operand position of the weights, and their channel axis.
    weights: usize,
    axis: usize,
    /// Operand position of the bias.
    bias: usize,
    element: ElementType,
}

/// Moves a node's scale and shift into the producer of its operand, if the producer's weights can be
/// recomputed. Returns whether it did.
pub(super) fn fold(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    moved(walk, node).is_some()
}

fn moved(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    let (operand, result) = candidate(walk, node)?;
    let producer = walk.module().producer(operand).filter(|_| walk.has_one_reader(operand))?;
    let taker = taker(walk, producer, operand)?;
    let affine = affine(walk, node, operand, taker.channels)?;
    let known = walk.affine.get(&producer).cloned();
    let mut job = match known {
        Some(job) => Job { affine: job.affine.then(&affine), ..job },
        None => Job { taker, affine, weights: None, bias: bias(walk, producer, taker)? },
    };
    if !job.affine.keeps_scale() && job.weights.is_none() {
        job.weights = Some(readable(walk, producer, taker)?);
    }
    if !job.affine.is_moderate() || !walk.maker.take_over(operand, result) {
        return None;
    }
    walk.maker.erase(node);
    walk.affine.insert(producer, job);
    Some(())
}

/// Returns the operand to be scaled or shifted and the result, if both have one type.
fn candidate(walk: &Walk<'_, '_, '_>, node: Node) -> Option<(Value, Value)> {
    let result = walk.maker.only_result(node)?;
    let data = walk.module().node(node);
    let position = match walk.name(node) {
        "BatchNormalization" if !may_train(walk.module(), node) => 0,
        "Add" | "Mul" if data.operator.version >= 7 => {
            usize::from(walk.constant_id(walk.maker.operand(node, 0)?).is_some())
        }
        "Sub" | "Div" if data.operator.version >= 7 => 0,
        _ => return None,
    };
    let operand = walk.maker.operand(node, position)?;
    let (from, to) = (walk.module().ty(operand).tensor()?, walk.module().ty(result).tensor()?);
    (same_type(from, to) && is_number(from.element)).then_some((operand, result))
}

fn is_number(element: ElementType) -> bool {
    matches!(element, ElementType::Float | ElementType::Double)
}

/// Returns scale and shift of a node over `channels` channels along axis 1 of `operand`.
fn affine(walk: &Walk<'_, '_, '_>, node: Node, operand: Value, channels: usize) -> Option<Affine> {
    if walk.name(node) == "BatchNormalization" {
        return normalization(walk, node, channels);
    }
    let constant = walk.module().node(node).operands().find(|value| *value != operand)?;
    let numbers = per_channel(walk, constant, operand, channels)?;
    let neutral = Affine::identity(channels);
    Some(match walk.name(node) {
        "Add" => Affine { shift: numbers, ..neutral },
        "Sub" => Affine { shift: numbers.into_iter().map(|number| -number).collect(), ..neutral },
        "Mul" => Affine { scale: numbers, ..neutral },
        "Div" => Affine { scale: numbers.into_iter().map(|number| 1.0 / number).collect(), ..neutral },
        _ => return None,
    })
}

/// Returns the map `(x - mean) / sqrt(variance + epsilon) * scale + shift`.
fn normalization(walk: &Walk<'_, '_, '_>, node: Node, channels: usize) -> Option<Affine> {
    let data = walk.module().node(node);
    if data.operator.version < 9 && data.int("spatial", 1) == 0 {
        return None;
    }
    let epsilon = f64::from(data.float("epsilon", 1e-5));
    let vector = |position: usize| {
        numbers(walk, walk.maker.operand(node, position)?).filter(|numbers| numbers.len() == channels)
    };
    let (scale, shift, mean, variance) = (vector(1)?, vector(2)?, vector(3)?, vector(4)?);
    let scale: Vec<f64> =
        scale.iter().zip(&variance).map(|(scale, variance)| scale / (variance + epsilon).sqrt()).collect();
    let shift =
        shift.iter().zip(&mean).zip(&scale).map(|((shift, mean), scale)| shift - mean * scale).collect();
    Some(Affine { scale, shift })
}

/// Returns the numbers, one per channel, of a constant that broadcasts to `operand` along axis 1 alone.
fn per_channel(
    walk: &Walk<'_, '_, '_>,
    constant: Value,
    operand: Value,
    channels: usize,
) -> Option<Vec<f64>> {
    let rank = walk.module().ty(operand).tensor()?.rank()?;
    let dims = walk.module().constant(walk.constant_id(constant)?).ty.known_dims()?;
    let missing = rank.checked_sub(dims.len())?;
    let along =
        |(axis, extent): (usize, &u64)| *extent == 1 || axis + missing == 1 && *extent == channels as u64;
    if rank < 2 || !dims.iter().enumerate().all(along) {
        return None;
    }
    let numbers = numbers(walk, constant)?;
    match numbers.as_slice() {
        [one] => Some(vec![*one; channels]),
        _ => Some(numbers),
    }
}

/// Returns the elements of a floating-point constant.
fn numbers(walk: &Walk<'_, '_, '_>, value: Value) -> Option<Vec<f64>> {
    let (ty, bytes) = walk.constant_bytes(value)?;
    is_number(ty.element).then(|| decoded(ty.element, &bytes).collect())
}

/// Returns the location of the weights and bias in the node that computes `operand`; `None` if the node
/// cannot take a scale or shift.
fn taker(walk: &Walk<'_, '_, '_>, node: Node, operand: Value) -> Option<Taker> {
    let data = walk.module().node(node);
    if data.outputs.first() != Some(&Some(operand))
        || data.graph != walk.module().main()
        || walk.maker.only_result(node).is_none()
    {
        return None;
    }
    let element = walk.module().ty(operand).tensor()?.element;
    let constant = |position: usize| {
        walk.constant_id(walk.maker.operand(node, position)?).map(|id| &walk.module().constant(id).ty)
    };
    let is_spatial = data.operator.version >= 9 || data.int("spatial", 1) != 0;
    let axis = match walk.name(node) {
        "Conv" => 0,
        "ConvTranspose" if data.int("group", 1) == 1 => 1,
        "Gemm" if data.operator.version >= 7 && data.float("beta", 1.0) == 1.0 => {
            usize::from(data.int("transB", 0) == 0)
        }
        "BatchNormalization" if is_spatial && !may_train(walk.module(), node) => 0,
        _ => return None,
    };
    let weights = constant(1)?;
    let channels = usize::try_from(*weights.known_dims()?.get(axis)?).ok()?;
    let fits = weights.element == element
        && (walk.maker.operand(node, 2).is_none() || constant(2)?.element == element);
    (is_number(element) && fits).then_some(Taker { channels, weights: 1, axis, bias: 2, element })
}

/// Returns the present bias of a node, one number per channel.
fn bias(walk: &Walk<'_, '_, '_>, node: Node, taker: Taker) -> Option<Vec<f64>> {
    let Some(value) = walk.maker.operand(node, taker.bias) else { return Some(vec![0.0; taker.channels]) };
    // Gemm broadcasts its bias; only a bias of one row has one number per channel.
    let dims = walk.module().constant(walk.constant_id(value)?).ty.known_dims()?;
    let row = dims.iter().rev().skip(1).all(|extent| *extent == 1);
    let numbers = numbers(walk, value).filter(|_| row)?;
    match numbers.as_slice() {
        [one] => Some(vec![*one; taker.channels]),
        all => (all.len() == taker.channels).then_some(numbers),
    }
}

/// Returns weights that may be recomputed: their bytes can be read, and they are either small, or have
/// this reader only and fit the allowance for new weights.
fn readable(walk: &mut Walk<'_, '_, '_>, node: Node, taker: Taker) -> Option<(TensorType, bytes::Bytes)> {
    let value = walk.maker.operand(node, taker.weights)?;
    let (ty, bytes) = walk.constant_bytes(value)?;
    let size = ty.size()?;
    let is_small = size <= walk.ctx.options.max_fold_bytes;
    let goes = walk.maker.uses(value).len() == 1;
    (is_small || goes && walk.afford(size.0)).then_some((ty, bytes))
}

/// Computes the weights of every node that took a scale or a shift.
pub(super) fn apply(walk: &mut Walk<'_, '_, '_>) {
    for (node, job) in std::mem::take(&mut walk.affine) {
        let Job { taker, affine, weights, bias } = job;
        let name = walk
            .maker
            .only_result(node)
            .map(|result| walk.module().value(result).name.clone())
            .unwrap_or_default();
        let mut operands = walk.module().node(node).inputs.clone();
        if let Some((ty, bytes)) = weights {
            let raw = scaled(&ty, &bytes, taker.axis, &affine.scale);
            operands[taker.weights] = Some(walk.initializer(&format!("{name}_weights"), constant(ty, raw)));
        }
        let added: Vec<f64> =
            bias.iter().zip(&affine.scale).zip(&affine.shift).map(|((a, b), c)| a * b + c).collect();
        if operands.get(taker.bias).copied().flatten().is_some() || added.iter().any(|number| *number != 0.0)
        {
            operands.resize(operands.len().max(taker.bias + 1), None);
            let ty = TensorType::fixed(taker.element, &[taker.channels as u64]);
            let raw = encoded(taker.element, added.into_iter());
            operands[taker.bias] = Some(walk.initializer(&format!("{name}_bias"), constant(ty, raw)));
        }
        walk.maker.set_operands(node, operands);
        walk.rounds("scale", node);
    }
}

/// Multiplies each slice of the weights along an axis by its number.
fn scaled(ty: &TensorType, bytes: &[u8], axis: usize, scale: &[f64]) -> Vec<u8> {
    let dims = ty.known_dims().unwrap_or_default();
    let inner: usize = dims.iter().skip(axis + 1).map(|extent| *extent as usize).product::<usize>().max(1);
    let channel = |index: usize| scale.get(index / inner % scale.len().max(1)).copied().unwrap_or(1.0);
    encoded(ty.element, decoded(ty.element, bytes).enumerate().map(|(index, number)| number * channel(index)))
}

/// Returns the elements of a floating-point constant.
fn decoded(element: ElementType, bytes: &[u8]) -> Box<dyn Iterator<Item = f64> + '_> {
    match element {
        ElementType::Double => Box::new(bytes.as_chunks().0.iter().map(|raw| f64::from_le_bytes(*raw))),
        _ => Box::new(bytes.as_chunks().0.iter().map(|raw| f64::from(f32::from_le_bytes(*raw)))),
    }
}

/// Encodes numbers as the bytes of a constant, each rounded once.
fn encoded(element: ElementType, numbers: impl Iterator<Item = f64>) -> Vec<u8> {
    match element {
        ElementType::Double => numbers.flat_map(f64::to_le_bytes).collect(),
        _ => numbers.flat_map(|number| (number as f32).to_le_bytes()).collect(),
    }
}
