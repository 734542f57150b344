//! Groups of dequantize, compute and quantize: moves become moves of the integers, no-ops disappear, and
//! requested integer kernels compute the rest.
//!
//! An integer kernel multiplies integers exactly and rounds once; the group rounds each sum first (Jacob
//! et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
//! Inference", 2018, section 2). Both are equal in real arithmetic, but a result between two integers
//! may be rounded to the other integer.

mod kernels;
mod scale;

use memc_ir::{Attribute, Node, Operator, Use, Value};
use memc_ops::profile::ort_kernel;

use super::Walk;
use kernels::kernel;
use scale::Scale;

/// Replacement of a node: operator, operands and attributes.
pub(super) struct Made {
    operator: Operator,
    operands: Vec<Option<Value>>,
    attributes: Vec<(String, Attribute)>,
}

/// A quantized value with its scale.
struct Integers {
    value: Value,
    scale: Scale,
}

/// Rewrites the group that ends at a node: a node that quantizes, or a product whose result is not
/// quantized.
pub(super) fn fused(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    match walk.name(node) {
        "QuantizeLinear" => requantized(walk, node).is_some(),
        "Gemm" | "MatMul" if asked(walk) => to_numbers(walk, node).is_some(),
        _ => false,
    }
}

fn asked(walk: &Walk<'_, '_, '_>) -> bool {
    walk.ctx.options.rewrite.integer_kernels
}

/// Rewrites a group that ends in integers: drops redundant bounds, then removes, moves or computes on
/// the integers.
fn requantized(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    let result = walk.maker.only_result(node)?;
    let scale = Scale::of(walk, node, result).filter(|scale| scale.is_one() && scale.is_bytes())?;
    while let Some((bound, source)) = within(walk, walk.maker.operand(node, 0)?, &scale) {
        walk.maker.set_operand(node, 0, source);
        walk.maker.erase(bound);
    }
    let numbers = walk.maker.operand(node, 0)?;
    if let Some(integers) = integers(walk, numbers).filter(|integers| integers.scale.is(&scale)) {
        return walk.pass_on(node, integers.value).then_some(());
    }
    let inner = walk.module().producer(numbers).filter(|_| walk.has_one_reader(numbers))?;
    let plain = walk.module().node(inner).bodies().next().is_none()
        && walk.module().node(inner).graph == walk.module().main();
    let made = plain.then(|| moved(walk, inner, &scale).or_else(|| kernel(walk, inner, Some(&scale))))??;
    walk.maker.redefine(node, made.operator, made.operands, made.attributes);
    Some(())
}

/// Rewrites a product of quantized integers whose result stays in floating point.
fn to_numbers(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    let result = walk.maker.only_result(node)?;
    if let [Use::Operand(reader, 0)] = walk.maker.uses(result)
        && walk.name(*reader) == "QuantizeLinear"
    {
        return None;
    }
    let made = kernel(walk, node, None)?;
    walk.maker.redefine(node, made.operator, made.operands, made.attributes);
    Some(())
}

/// Returns the integers from which a value is dequantized, with their scale.
fn integers(walk: &Walk<'_, '_, '_>, value: Value) -> Option<Integers> {
    let node = walk.producer(value, "DequantizeLinear")?;
    let integers = walk.maker.operand(node, 0)?;
    Some(Integers { value: integers, scale: Scale::of(walk, node, integers)? })
}

/// Returns a Relu or Clip with its operand, if its bounds exclude no number of the quantized range. Such
/// a bound is redundant before quantization.
fn within(walk: &Walk<'_, '_, '_>, value: Value, scale: &Scale) -> Option<(Node, Value)> {
    let node = walk.module().producer(value).filter(|_| walk.has_one_reader(value))?;
    let (least, greatest) = match walk.name(node) {
        "Relu" => (0.0, f64::INFINITY),
        "Clip" => walk.bounds(node)?,
        _ => return None,
    };
    let (from, to) = scale.range()?;
    let source = walk.maker.operand(node, 0).filter(|_| least <= from && to <= greatest)?;
    Some((node, source))
}

/// Returns a node that moves integers instead of the numbers that they stand for.
fn moved(walk: &Walk<'_, '_, '_>, node: Node, scale: &Scale) -> Option<Made> {
    let data = walk.module().node(node);
    let oldest = ort_kernel(&data.operator.domain, &data.operator.name)?.moves_integers?;
    let known = data.outputs.iter().flatten().count() == 1 && data.operator.version >= oldest;
    let integers = integers(walk, walk.maker.operand(node, 0).filter(|_| known)?)?;
    integers.scale.is(scale).then_some(())?;
    let mut operands = data.inputs.clone();
    operands[0] = Some(integers.value);
    Some(Made { operator: data.operator.clone(), operands, attributes: data.attributes.clone() })
}

impl Walk<'_, '_, '_> {
    /// Returns the lower and upper bound of a Clip, if they are known.
    fn bounds(&self, node: Node) -> Option<(f64, f64)> {
        let data = self.module().node(node);
        if data.operator.version < 11 {
            return Some((f64::from(data.float("min", f32::MIN)), f64::from(data.float("max", f32::MAX))));
        }
        let bound = |position: usize, without: f64| match self.maker.operand(node, position) {
            None => Some(without),
            Some(value) => scale::only_number(self, value),
        };
        Some((bound(1, f64::NEG_INFINITY)?, bound(2, f64::INFINITY)?))
    }
}
