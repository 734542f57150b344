//! Brings a module into the form that rules expect: an operator set with scatters that add, and no dropout
//! that drops nothing.

use memc_ir::{
    Attribute, ConstData, ElementType, Module, Node, NodeData, Operator, Rewriter, TensorType, Value,
};
use memc_ops::Data;

use crate::error::GradientError;

/// Oldest operator set whose models are converted.
const OLDEST: i64 = 9;

/// First operator set in which axes of Squeeze, Softmax and sums have their present meaning.
const PRESENT_AXES: i64 = 13;

/// Operator set to which older ones are raised: scatters that add, and normalization of layers. No operator
/// of the sets from 13 to 17 changed its meaning, except for the coordinates of RoiAlign.
const RAISED: i64 = 17;

/// Operators that mean the same in all sets from 9 to 17, sorted.
const STABLE: &[&str] = &[
    "Abs",
    "Acos",
    "Add",
    "And",
    "ArgMax",
    "ArgMin",
    "Asin",
    "Atan",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Ceil",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "ConvTranspose",
    "Cos",
    "DepthToSpace",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "GRU",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Greater",
    "HardSigmoid",
    "Identity",
    "InstanceNormalization",
    "IsNaN",
    "LRN",
    "LSTM",
    "LeakyRelu",
    "Less",
    "Log",
    "LpNormalization",
    "MatMul",
    "Max",
    "MaxPool",
    "Mean",
    "Min",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "RNN",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Selu",
    "Shape",
    "Sigmoid",
    "Sign",
    "Sin",
    "Size",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Sqrt",
    "Sub",
    "Sum",
    "Tan",
    "Tanh",
    "Tile",
    "Transpose",
    "Where",
];

/// Raises ONNX's operator set to a version that has the operators of gradients, and replaces dropouts that
/// drop nothing. The model means the same.
///
/// # Errors
/// The set is too old, or a node of an old set has a form that is not converted.
pub fn prepare(module: &mut Module) -> Result<(), GradientError> {
    let version = module.opsets.get("").copied().unwrap_or(RAISED);
    if version < OLDEST {
        return Err(GradientError::Opset { version, least: OLDEST, node: None });
    }
    let nodes: Vec<Node> = module.nodes().keys().collect();
    let is_raised = version < RAISED;
    if is_raised {
        module.opsets.insert(String::new(), RAISED);
    }
    let main = module.main();
    let mut rewriter = Rewriter::new(module);
    for node in nodes {
        let data = rewriter.module().node(node).clone();
        if !data.operator.domain.is_empty() {
            continue;
        }
        if version < PRESENT_AXES && !(data.graph == main && convert(&mut rewriter, node, &data)) {
            let node = Some(crate::walk::label(rewriter.module(), node));
            return Err(GradientError::Opset { version, least: PRESENT_AXES, node });
        }
        if is_raised && &*data.operator.name != "RoiAlign" {
            rewriter.set_version(node, RAISED);
        }
        if &*data.operator.name == "Dropout"
            && data.graph == main
            && drops_nothing(rewriter.module(), &data, version)
        {
            identity(&mut rewriter, node, &data);
        }
    }
    rewriter.finish();
    Ok(())
}

/// Gives a node of an old operator set the form of set 13; returns false if it has no such form here.
fn convert(rewriter: &mut Rewriter<'_>, node: Node, data: &NodeData) -> bool {
    match &*data.operator.name {
        "Squeeze" | "Unsqueeze" | "ReduceSum" => to_operand(rewriter, node, data, "axes"),
        "Split" => to_operand(rewriter, node, data, "split"),
        "Softmax" | "LogSoftmax" => one_axis(rewriter, node, data),
        "Dropout" => true,
        name => STABLE.contains(&name),
    }
}

/// Turns an attribute into operand 1.
fn to_operand(rewriter: &mut Rewriter<'_>, node: Node, data: &NodeData, name: &str) -> bool {
    let Some(numbers) = data.ints(name).map(<[i64]>::to_vec) else { return true };
    let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let ty = TensorType::fixed(ElementType::Int64, &[numbers.len() as u64]);
    let constant: ConstData = memc_edit::constant(ty, raw);
    let main = rewriter.module().main();
    let fresh = rewriter.fresh_name(name);
    let value = rewriter.initializer(main, &fresh, constant);
    let operands = data.inputs.iter().take(1).copied().chain([Some(value)]).collect();
    let attributes = data.attributes.iter().filter(|(other, _)| other != name).cloned().collect();
    rewriter.redefine(node, data.operator.clone(), operands, attributes);
    true
}

/// Before set 13 all axes from one on are one, which is a single axis if the others have extent 1.
fn one_axis(rewriter: &mut Rewriter<'_>, node: Node, data: &NodeData) -> bool {
    let dims = data.operands().next().and_then(|value| rewriter.module().ty(value).tensor()?.shape.clone());
    let Some(dims) = dims else { return false };
    let Some(axis) = memc_ops::normalize_axis(data.int("axis", 1), dims.len()) else { return false };
    if dims[axis + 1..].iter().any(|dim| dim.known() != Some(1)) {
        return false;
    }
    let attributes = vec![("axis".to_owned(), Attribute::Int(axis as i64))];
    rewriter.redefine(node, data.operator.clone(), data.inputs.clone(), attributes);
    true
}

/// Whether a Dropout passes its operand on: in inference, or with a ratio of zero.
fn drops_nothing(module: &Module, data: &NodeData, version: i64) -> bool {
    let number = |position: usize| {
        let value: Value = data.inputs.get(position).copied().flatten()?;
        let constant = module.constant_of(value)?;
        Data::from_constant(module.constant(constant))?.items.first().cloned()
    };
    let has_no_mask = data.outputs.iter().skip(1).flatten().next().is_none();
    let is_zero = number(1) == Some(memc_ops::Item::Float(0.0));
    version < 12 || has_no_mask && is_zero
}

fn identity(rewriter: &mut Rewriter<'_>, node: Node, data: &NodeData) {
    let is_read = |rewriter: &Rewriter<'_>, value: &Value| !rewriter.uses(*value).is_empty();
    if data.outputs.iter().skip(1).flatten().any(|mask| is_read(rewriter, mask)) {
        return;
    }
    rewriter.leave_out(node, 1);
    let operator = Operator::onnx("Identity", RAISED.max(data.operator.version));
    rewriter.redefine(node, operator, data.inputs.iter().take(1).copied().collect(), Vec::new());
}

#[cfg(test)]
mod tests {
    use super::STABLE;

    #[test]
    fn stable_operators_are_sorted_and_in_the_table() {
        assert!(STABLE.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(STABLE.iter().all(|name| memc_ops::find("", name).is_some()));
    }
}
