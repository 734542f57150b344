//! Brings a module into the form that rules expect: an operator set with scatters that add, no dropout that
//! drops nothing, and running statistics that are no parameters.

use memc_ir::{Module, Node, NodeData, Operator, Rewriter, Value};
use memc_ops::Data;

use crate::error::GradientError;
use crate::merged::take_apart_statistics;
use crate::raise::{PRESENT, raise};

/// Oldest operator set whose models are converted.
const OLDEST: i64 = 9;

/// Operator set to which older ones are raised: scatters that add, and normalization of layers. No operator
/// of the sets from 13 to 17 changed its meaning, except for the coordinates of RoiAlign.
const RAISED: i64 = 17;

/// Raises ONNX's operator set to a version that has the operators of gradients, replaces dropouts that drop
/// nothing, and takes running statistics apart from parameters. The model means the same.
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
        if version < PRESENT && !raise(&mut rewriter, node, version) {
            let node = Some(crate::walk::label(rewriter.module(), node));
            return Err(GradientError::Opset { version, least: PRESENT, node });
        }
        if is_raised && &*data.operator.name != "RoiAlign" {
            rewriter.set_version(node, RAISED);
        }
        if &*data.operator.name == "BatchNormalization" && data.graph == main {
            take_apart_statistics(&mut rewriter, node);
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
