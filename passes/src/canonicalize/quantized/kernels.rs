//! Integer kernels, each with the floating-point operator that it replaces.

use memc_ir::{Attribute, ElementType, Node, Operator, Value};
use memc_ops::normalize_axis;

use super::super::Walk;
use super::scale::Scale;
use super::{Integers, Made, asked, integers};

/// Returns a requested integer kernel for a node, with integers of scale `result` as its result; without
/// `result`, with floating-point numbers.
pub(super) fn kernel(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>) -> Option<Made> {
    let name = walk.name(node);
    let (_, make) = KERNELS.iter().find(|(own, _)| *own == name).filter(|_| asked(walk))?;
    (walk.module().node(node).outputs.iter().flatten().count() == 1).then_some(())?;
    make(walk, node, result)
}

type Make = fn(&mut Walk<'_, '_, '_>, Node, Option<&Scale>) -> Option<Made>;

const KERNELS: &[(&str, Make)] = &[
    ("Add", |walk, node, result| pair(walk, node, result, "QLinearAdd")),
    ("AveragePool", |walk, node, result| one(walk, node, result, "QLinearAveragePool")),
    ("Concat", joined),
    ("Conv", convolution),
    ("Gemm", general_product),
    ("GlobalAveragePool", |walk, node, result| one(walk, node, result, "QLinearGlobalAveragePool")),
    ("LeakyRelu", |walk, node, result| one(walk, node, result, "QLinearLeakyRelu")),
    ("MatMul", product),
    ("Mul", |walk, node, result| pair(walk, node, result, "QLinearMul")),
    ("Sigmoid", |walk, node, result| one(walk, node, result, "QLinearSigmoid")),
];

/// Returns an operator of the standard or of the runtime's own domain, if the runtime has it and the
/// options allow it.
fn operator(walk: &Walk<'_, '_, '_>, node: Node, domain: &str, name: &str) -> Option<Operator> {
    let version = if domain.is_empty() { walk.module().node(node).operator.version } else { 1 };
    let operator = Operator { domain: domain.into(), name: name.into(), overload: "".into(), version };
    let options = walk.ctx.options;
    let has = options.profile.may_have(&operator)
        && !(options.rewrite.standard && options.profile.is_own(&operator));
    has.then_some(operator)
}

const MICROSOFT: &str = "com.microsoft";

/// Returns the 8-bit integers from which operand `position` is dequantized.
fn bytes(walk: &Walk<'_, '_, '_>, node: Node, position: usize) -> Option<Integers> {
    integers(walk, walk.maker.operand(node, position)?).filter(|integers| integers.scale.is_bytes())
}

/// Returns the 8-bit integers of operand `position`, if one scale covers all of them.
fn evenly(walk: &Walk<'_, '_, '_>, node: Node, position: usize) -> Option<Integers> {
    bytes(walk, node, position).filter(|integers| integers.scale.is_one())
}

/// Returns whether a kernel multiplies integers of these types: unsigned by either, signed by signed.
fn multiply(left: &Integers, right: &Integers) -> bool {
    left.scale.element == ElementType::Uint8 || right.scale.element == ElementType::Int8
}

/// Returns integers, their scale and their zero point as three operands.
fn triple(walk: &mut Walk<'_, '_, '_>, integers: &Integers) -> Option<[Option<Value>; 3]> {
    Some([Some(integers.value), Some(integers.scale.value()), Some(walk.zero_point(&integers.scale)?)])
}

/// Returns scale and zero point of a result as two operands.
fn double(walk: &mut Walk<'_, '_, '_>, scale: &Scale) -> Option<[Option<Value>; 2]> {
    Some([Some(scale.value()), Some(walk.zero_point(scale)?)])
}

/// Returns the number that one integer of a sum of products stands for, per channel.
fn factors(left: &Integers, right: &Integers) -> Vec<f64> {
    left.scale.scales.iter().flat_map(|own| right.scale.scales.iter().map(move |other| own * other)).collect()
}

/// Makes a QLinearConv: image, filter, result scale, and integer bias.
fn convolution(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>) -> Option<Made> {
    let (image, filter, result) = (evenly(walk, node, 0)?, bytes(walk, node, 1)?, result?);
    let by_channel = filter.scale.is_one() || filter.scale.axis == 0;
    let fits = by_channel
        && filter.scale.zero().is_some()
        && multiply(&image, &filter)
        && image.scale.element == result.element;
    let operator = operator(walk, node, "", "QLinearConv").filter(|_| fits)?;
    let bias = match walk.maker.operand(node, 2) {
        Some(bias) => Some(walk.bias(bias, &factors(&image, &filter), result.scales.first().copied())?),
        None => None,
    };
    let mut operands = [triple(walk, &image)?, triple(walk, &filter)?].concat();
    operands.extend(double(walk, result)?);
    operands.extend(bias.map(Some));
    Some(Made { operator, operands, attributes: walk.module().node(node).attributes.clone() })
}

/// Returns whether the right matrix of a product has one scale, or one per column.
fn by_column(walk: &Walk<'_, '_, '_>, right: &Integers, axis: i64) -> bool {
    let rank = walk.module().ty(right.value).tensor().and_then(memc_ir::TensorType::rank);
    right.scale.is_one() || rank == Some(2) && normalize_axis(right.scale.axis, 2) == normalize_axis(axis, 2)
}

/// Makes a QLinearMatMul, or a MatMulIntegerToFloat if the result stays in floating point.
fn product(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>) -> Option<Made> {
    let (left, right) = (evenly(walk, node, 0)?, bytes(walk, node, 1)?);
    (by_column(walk, &right, 1) && multiply(&left, &right)).then_some(())?;
    let attributes = Vec::new();
    let Some(result) = result else {
        let operator = operator(walk, node, MICROSOFT, "MatMulIntegerToFloat")?;
        let ([a, a_scale, a_zero], [b, b_scale, b_zero]) = (triple(walk, &left)?, triple(walk, &right)?);
        return Some(Made { operator, operands: vec![a, b, a_scale, b_scale, a_zero, b_zero], attributes });
    };
    let operator =
        operator(walk, node, "", "QLinearMatMul").filter(|_| left.scale.element == result.element)?;
    let mut operands = [triple(walk, &left)?, triple(walk, &right)?].concat();
    operands.extend(double(walk, result)?);
    Some(Made { operator, operands, attributes })
}

/// Makes a QGemm: both matrices, an integer bias per column, and the scale of an integer result.
fn general_product(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>) -> Option<Made> {
    let (left, right) = (evenly(walk, node, 0)?, bytes(walk, node, 1)?);
    let data = walk.module().node(node);
    let plain = data.float("alpha", 1.0) == 1.0 && data.float("beta", 1.0) == 1.0;
    let attributes: Vec<_> = data.attributes.iter().filter(|(name, _)| name != "beta").cloned().collect();
    let column = if data.int("transB", 0) == 0 { 1 } else { 0 };
    let same = result.is_none_or(|result| result.element == left.scale.element);
    let fits = plain && same && by_column(walk, &right, column) && multiply(&left, &right);
    let operator = operator(walk, node, MICROSOFT, "QGemm").filter(|_| fits)?;
    let bias = match walk.maker.operand(node, 2) {
        Some(bias) => {
            let columns = walk
                .module()
                .ty(right.value)
                .tensor()?
                .known_dims()?
                .get(usize::try_from(column).ok()?)
                .copied()?;
            let is_row = walk.module().ty(bias).tensor()?.known_dims()? == [columns];
            let scale = result.and_then(|result| result.scales.first().copied());
            Some(walk.bias(bias, &factors(&left, &right), scale).filter(|_| is_row)?)
        }
        None => None,
    };
    let mut operands = [triple(walk, &left)?, triple(walk, &right)?].concat();
    operands.push(bias);
    match result {
        Some(result) => operands.extend(double(walk, result)?),
        None if bias.is_none() => _ = operands.pop(),
        None => {}
    }
    Some(Made { operator, operands, attributes })
}

/// Makes an integer operator with one operand.
fn one(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>, name: &str) -> Option<Made> {
    let (operand, result) = (evenly(walk, node, 0)?, result?);
    let operator =
        operator(walk, node, MICROSOFT, name).filter(|_| operand.scale.element == result.element)?;
    let attributes = walk.module().node(node).attributes.clone();
    // The runtime's pools have no dilations.
    attributes.iter().all(|(name, value)| name != "dilations" || is_ones(value)).then_some(())?;
    let attributes = attributes.into_iter().filter(|(name, _)| name != "dilations").collect();
    let mut operands = triple(walk, &operand)?.to_vec();
    operands.extend(double(walk, result)?);
    Some(Made { operator, operands, attributes })
}

fn is_ones(value: &Attribute) -> bool {
    matches!(value, Attribute::Ints(numbers) if numbers.iter().all(|number| *number == 1))
}

/// Makes an integer operator with two operands.
fn pair(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>, name: &str) -> Option<Made> {
    let (left, right, result) = (evenly(walk, node, 0)?, evenly(walk, node, 1)?, result?);
    let same = left.scale.element == result.element && right.scale.element == result.element;
    let operator = operator(walk, node, MICROSOFT, name)
        .filter(|_| same && walk.module().node(node).operator.version >= 7)?;
    let mut operands = [triple(walk, &left)?, triple(walk, &right)?].concat();
    operands.extend(double(walk, result)?);
    Some(Made { operator, operands, attributes: Vec::new() })
}

/// Makes a QLinearConcat; all integers need the result's element type.
fn joined(walk: &mut Walk<'_, '_, '_>, node: Node, result: Option<&Scale>) -> Option<Made> {
    let result = result?;
    let count = walk.module().node(node).inputs.len();
    let parts: Vec<Integers> =
        (0..count).map(|position| evenly(walk, node, position)).collect::<Option<_>>()?;
    let operator = operator(walk, node, MICROSOFT, "QLinearConcat")?;
    parts.iter().all(|part| part.scale.element == result.element).then_some(())?;
    let mut operands = double(walk, result)?.to_vec();
    for part in &parts {
        operands.extend(triple(walk, part)?);
    }
    Some(Made { operator, operands, attributes: walk.module().node(node).attributes.clone() })
}
