//! Choice of the trainable parameters, which become graph inputs with defaults.
//!
//! Nothing in ONNX marks parameters. Without a request, these are chosen: tensors of real numbers with at
//! least one axis that products, convolutions, tables and normalizations read as their parameters, and
//! vectors and tables that are added or multiplied to what depends on such a parameter. Running statistics,
//! masks (which have at most two different numbers) and scales of images stay.

use std::collections::BTreeSet;

use memc_ir::{
    Bytes, ConstData, Module, Node, NodeData, Rewriter, SecondaryMap, TensorType, Use, Value, matches,
};

use crate::error::GradientError;

/// A trainable parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Trainable {
    /// The value, a graph input.
    pub value: Value,
    /// Name.
    pub name: String,
    /// Type.
    pub ty: TensorType,
    /// Size in bytes.
    pub bytes: Bytes,
    /// Whether the model has it as a graph input with a default, rather than as an initializer.
    pub is_input: bool,
    /// Whether an exporter may have merged several parameters into it: its elements are equal, and several
    /// nodes read it as their parameter.
    pub is_merged: bool,
}

/// Reads the bytes of a constant; `None` if they cannot be read.
pub type Elements<'e> = dyn Fn(&ConstData) -> Option<bytes::Bytes> + 'e;

/// Operands of an operator that are parameters, by position.
fn parameter_positions(data: &NodeData) -> &'static [usize] {
    if !data.operator.domain.is_empty() {
        return &[];
    }
    match &*data.operator.name {
        "Conv" | "ConvTranspose" | "Gemm" => &[1, 2],
        "MatMul" | "Einsum" => &[0, 1],
        "Gather" => &[0],
        "BatchNormalization" | "LayerNormalization" | "InstanceNormalization" | "GroupNormalization" => {
            &[1, 2]
        }
        "RMSNormalization" | "PRelu" => &[1],
        "LSTM" | "GRU" | "RNN" => &[1, 2, 3],
        _ => &[],
    }
}

/// Whether a node passes its operand 0 on with other extents, an other order or an other element type.
fn passes_on(data: &NodeData) -> bool {
    let names = ["Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];
    data.operator.domain.is_empty() && names.contains(&&*data.operator.name)
}

/// Returns the nodes that read a value, each with the position, through nodes that pass it on.
pub(crate) fn readers(rewriter: &Rewriter<'_>, value: Value) -> Vec<(Node, usize)> {
    let (mut open, mut found) = (vec![value], Vec::new());
    while let Some(value) = open.pop() {
        for site in rewriter.uses(value) {
            let Use::Operand(node, position) = site else { continue };
            let data = rewriter.module().node(*node);
            match passes_on(data) && *position == 0 {
                true => open.extend(data.results()),
                false => found.push((*node, *position as usize)),
            }
        }
    }
    found
}

/// Values of the main graph that may be trained: initializers and graph inputs with defaults, of real
/// numbers.
fn candidates(module: &Module) -> Vec<Value> {
    let main = module.graph(module.main());
    let inputs = main.inputs.iter().filter(|value| module.value(**value).default.is_some());
    let is_real = |value: &&Value| module.ty(**value).tensor().is_some_and(|ty| ty.element.is_float());
    inputs.chain(&main.constants).filter(is_real).copied().collect()
}

/// Whether a constant has at most this many different numbers: masks have two, and vectors of ones have one.
fn has_at_most(numbers: usize, module: &Module, value: Value, elements: &Elements<'_>) -> bool {
    let constant = module.constant_of(value).or(module.value(value).default);
    let Some(constant) = constant.map(|constant| module.constant(constant)) else { return false };
    let (Some(bytes), Some(bits)) = (elements(constant), constant.ty.element.bits()) else { return false };
    let mut seen: BTreeSet<&[u8]> = BTreeSet::new();
    for element in bytes.chunks((bits as usize).div_ceil(8)) {
        seen.insert(element);
        if seen.len() > numbers {
            return false;
        }
    }
    true
}

/// Whether an exporter may have merged several parameters into this one.
fn is_merged(rewriter: &Rewriter<'_>, value: Value, elements: &Elements<'_>) -> bool {
    let module = rewriter.module();
    let is_parameter =
        |(node, position): &(Node, usize)| parameter_positions(module.node(*node)).contains(position);
    readers(rewriter, value).iter().filter(|reader| is_parameter(reader)).nth(1).is_some()
        && has_at_most(1, module, value, elements)
}

/// Returns the parameters of a model that are trained without a request.
fn usual(rewriter: &Rewriter<'_>, elements: &Elements<'_>) -> BTreeSet<Value> {
    let module = rewriter.module();
    let all = candidates(module);
    let has_axes =
        |value: &Value| module.ty(*value).tensor().and_then(TensorType::rank).is_some_and(|rank| rank >= 1);
    let mut found: BTreeSet<Value> = BTreeSet::new();
    let mut open: Vec<(Value, Node)> = Vec::new();
    for value in all.into_iter().filter(has_axes) {
        let readers = readers(rewriter, value);
        if readers.iter().any(|(node, position)| parameter_positions(module.node(*node)).contains(position)) {
            found.insert(value);
            continue;
        }
        let is_added = |node: Node| ["Add", "Mul"].contains(&&*module.node(node).operator.name);
        let count = module.ty(value).tensor().and_then(TensorType::elements).unwrap_or_default();
        let rank = module.ty(value).tensor().and_then(TensorType::rank);
        if let Some((node, _)) = readers.iter().find(|(node, _)| is_added(*node)).filter(|_| count > 1)
            && !(rank > Some(1) && has_at_most(2, module, value, elements))
        {
            open.push((value, *node));
        }
    }
    // Of what is added or multiplied, only what meets a value that depends on a parameter.
    let mut depends: SecondaryMap<Value, bool> = SecondaryMap::default();
    found.iter().for_each(|value| depends.set(*value, true));
    for node in &module.graph(module.main()).nodes {
        if module.reads(*node).into_iter().any(|value| depends[value]) {
            module.node(*node).results().for_each(|value| depends.set(value, true));
        }
    }
    let meets = |node: Node| module.node(node).operands().any(|value| depends[value]);
    found.extend(open.into_iter().filter(|(_, node)| meets(*node)).map(|(value, _)| value));
    found
}

/// Chooses the trainable parameters of a module and makes them graph inputs with defaults. Patterns of
/// `trainable` replace the usual choice, patterns of `frozen` take from it. All other graph inputs with
/// defaults of real numbers stay as they are. `elements` reads constants, also of other files.
///
/// # Errors
/// A pattern names no parameter, or no parameter is left.
pub fn choose(
    module: &mut Module,
    trainable: &[String],
    frozen: &[String],
    elements: &Elements<'_>,
) -> Result<Vec<Trainable>, GradientError> {
    let mut rewriter = Rewriter::new(module);
    let all = candidates(rewriter.module());
    let name = |value: Value| rewriter.module().value(value).name.clone();
    for pattern in trainable.iter().chain(frozen) {
        if !all.iter().any(|value| matches(pattern, &name(*value))) {
            let names: Vec<String> = all.iter().map(|value| name(*value)).collect();
            let near = memc_ir::nearest(pattern, names.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(GradientError::NoTrainable {
                why: format!("`{pattern}` names no tensor of real numbers{near}"),
            });
        }
    }
    let usual = if trainable.is_empty() { usual(&rewriter, elements) } else { BTreeSet::new() };
    let is_chosen = |value: &&Value| {
        let name = name(**value);
        let wanted = usual.contains(*value) || trainable.iter().any(|pattern| matches(pattern, &name));
        wanted && !frozen.iter().any(|pattern| matches(pattern, &name))
    };
    let chosen: Vec<Value> = all.iter().filter(is_chosen).copied().collect();
    if chosen.is_empty() {
        let why =
            if frozen.is_empty() { "the model has no weights in its main graph" } else { "all are frozen" };
        return Err(GradientError::NoTrainable { why: why.to_owned() });
    }
    let mut found = Vec::new();
    for value in chosen {
        let is_input = rewriter.module().constant_of(value).is_none();
        let is_merged = is_merged(&rewriter, value, elements);
        rewriter.make_input(value);
        let data = rewriter.module().value(value);
        let Some(ty) = data.ty.tensor().cloned() else { continue };
        let bytes = ty.size().unwrap_or_default();
        found.push(Trainable { value, name: data.name.clone(), ty, bytes, is_input, is_merged });
    }
    rewriter.finish();
    Ok(found)
}
