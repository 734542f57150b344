//! Contents of a padded value beyond its valid rows.

use memc_ir::{ElementType, Module, Node, Value};

use super::rows::{Fill, Pad};

/// Operators whose results consist of elements of their operands.
const MOVES: &[&str] = &[
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Returns the fill of the results of a node, from the pads of its operands.
pub(super) fn of_results(module: &Module, node: Node, pads: &[Option<Pad>]) -> Fill {
    let data = module.node(node);
    let fills: Vec<Fill> = pads.iter().flatten().map(|pad| pad.fill).collect();
    let all = |fill: Fill| fills.iter().all(|own| *own == fill);
    let finite = fills.iter().all(|fill| fill.is_finite());
    let plain = |position: usize| pads.get(position).is_some_and(Option::is_none);
    if all(Fill::Full) {
        return Fill::Full;
    }
    match &*data.operator.name {
        name if MOVES.contains(&name) => joined(&fills),
        "Cast" | "CastLike" if all(Fill::Zero) => Fill::Zero,
        "Cast" | "CastLike" if finite && is_wide(module, data.results().next()) => Fill::Finite,
        "Neg" | "Abs" => joined(&fills),
        "Mul" if finite && (plain(0) || plain(1)) && all(Fill::Zero) => Fill::Zero,
        "Div" if all(Fill::Zero) && plain(1) => Fill::Zero,
        "Add" | "Sub" | "Mul" | "MatMul" | "FusedMatMul"
            if finite && is_wide(module, data.results().next()) =>
        {
            Fill::Finite
        }
        "Div" if finite && plain(1) && is_wide(module, data.results().next()) => Fill::Finite,
        "Where"
            if (1..3).all(|position| {
                is_zero(module, data.inputs.get(position).copied().flatten(), pads.get(position))
            }) =>
        {
            Fill::Zero
        }
        _ => Fill::Any,
    }
}

fn joined(fills: &[Fill]) -> Fill {
    let first = fills.first().copied().unwrap_or(Fill::Any);
    match fills.iter().all(|fill| *fill == first) {
        true => first,
        false if fills.iter().all(|fill| fill.is_finite()) => Fill::Finite,
        false => Fill::Any,
    }
}

/// Whether an operand is zero at rows that are not valid: a padded value with zeros, or a constant zero.
fn is_zero(module: &Module, value: Option<Value>, pad: Option<&Option<Pad>>) -> bool {
    if let Some(Some(pad)) = pad {
        return pad.fill == Fill::Zero;
    }
    let constant =
        value.and_then(|value| module.constant_of(value)).map(|constant| module.constant(constant));
    constant.is_some_and(|constant| match &constant.payload {
        memc_ir::Payload::Raw(bytes) => bytes.iter().all(|byte| *byte == 0),
        _ => false,
    })
}

/// Whether sums and products of finite numbers of a value's type are taken as finite: binary16 ends at
/// 65,504.
pub(super) fn is_wide(module: &Module, value: Option<Value>) -> bool {
    let element = value.and_then(|value| module.ty(value).tensor()).map(|ty| ty.element);
    matches!(element, Some(ElementType::Float | ElementType::Double | ElementType::Bfloat16))
}
