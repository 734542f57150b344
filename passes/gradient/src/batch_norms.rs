//! Makes statistics of batches explicit: a BatchNormalization that trains becomes nodes that compute mean
//! and variance, and the node of inference, which reads them. So a plan sees every value, and the kernel of
//! inference makes one pass over the image.

use std::collections::BTreeSet;

use memc_ir::{Dim, Module, Node, Value};

use crate::emit::Emit;
use crate::error::{GradientError, Refusal};
use crate::step::Norms;

/// BatchNormalization nodes that use statistics of the batch.
#[derive(Default)]
pub(crate) struct BatchNorms {
    /// The nodes.
    pub(crate) nodes: BTreeSet<Node>,
    /// Their means and variances: the gradient of the node covers them.
    pub(crate) statistics: BTreeSet<Value>,
    /// Old and new running statistics.
    pub(crate) running: Vec<(Value, Value)>,
}

/// Whether a node uses the statistics of its batch.
fn trains(module: &Module, node: Node, norms: Norms, trainable: &[Value]) -> bool {
    let data = module.node(node);
    let parameters = data.inputs.iter().skip(1).take(2).flatten();
    match norms {
        Norms::AsGiven => data.int("training_mode", 0) != 0,
        Norms::Eval => false,
        // Frozen normalizations stay as they are in inference.
        Norms::Train => parameters.into_iter().any(|value| trainable.contains(value)),
    }
}

/// Rewrites all BatchNormalization nodes of the main graph to the form of inference.
pub(crate) fn expand(
    emit: &mut Emit<'_>,
    norms: Norms,
    trainable: &[Value],
) -> Result<BatchNorms, GradientError> {
    let mut found = BatchNorms::default();
    let nodes = emit.module().graph(emit.module().main()).nodes.clone();
    for node in nodes {
        let operator = &emit.module().node(node).operator;
        if &*operator.name != "BatchNormalization" || !operator.domain.is_empty() {
            continue;
        }
        let uses_batch = trains(emit.module(), node, norms, trainable);
        let refuse = |refusal: Refusal| GradientError::Defect {
            node: crate::walk::label(emit.module(), node),
            why: refusal.to_string(),
        };
        if uses_batch && emit.module().node(node).inputs.len() != 5 {
            return Err(refuse(Refusal::form("a BatchNormalization has five operands")));
        }
        if uses_batch {
            let label = crate::walk::label(emit.module(), node);
            statistics(emit, node, &mut found)
                .map_err(|refusal| GradientError::Missing { missing: vec![missing(&label, &refusal)] })?;
        }
        inference(emit, node);
    }
    Ok(found)
}

fn missing(node: &str, refusal: &Refusal) -> crate::error::MissingRule {
    let (operator, node) = ("BatchNormalization".to_owned(), node.to_owned());
    crate::error::MissingRule { operator, node, path: Vec::new(), why: Some(refusal.to_string()) }
}

/// Computes mean and variance of the batch before a node, which reads them afterwards, and the new running
/// statistics. The variance is that of the population, as the operator is defined.
fn statistics(emit: &mut Emit<'_>, node: Node, found: &mut BatchNorms) -> Result<(), Refusal> {
    let data = emit.module().node(node).clone();
    let operand =
        |position: usize| data.inputs[position].ok_or_else(|| Refusal::form("an operand is left out"));
    let x = operand(0)?;
    let dims = emit.dims(x)?;
    let axes: Vec<usize> = (0..dims.len()).filter(|axis| *axis != 1).collect();
    let hint = data.results().next().map(|value| format!("{}_batch", emit.name(value))).unwrap_or_default();
    emit.set_place(hint, crate::walk::label(emit.module(), node));
    emit.before = Some(node);
    let mean = emit.reduce("ReduceMean", x, &axes, true);
    let centered = emit.op("Sub", &[x, mean]);
    let squares = emit.reduce("ReduceSumSquare", centered, &axes, false);
    let others: Vec<Dim> = axes.iter().map(|axis| dims[*axis].clone()).collect();
    let count = emit.count(&others, x)?;
    let variance = emit.op("Div", &[squares, count]);
    let mean = emit.reshape(mean, &[dims[1].clone()]);
    let momentum = f64::from(data.float("momentum", 0.9));
    for (position, new) in [(3, mean), (4, variance)] {
        let old = operand(position)?;
        let (stays, comes) = (emit.number(momentum, old), emit.number(1.0 - momentum, old));
        let (kept, added) = (emit.op("Mul", &[old, stays]), emit.op("Mul", &[new, comes]));
        let running = emit.op("Add", &[kept, added]);
        found.running.push((old, running));
        found.statistics.insert(new);
        if let Some(result) = data.outputs.get(position - 2).copied().flatten() {
            emit.maker.replace_uses(result, running);
        }
        emit.maker.set_operand(node, position as u32, new);
    }
    emit.before = None;
    found.nodes.insert(node);
    Ok(())
}

/// Gives a node the form of inference: one result, no mode.
fn inference(emit: &mut Emit<'_>, node: Node) {
    let data = emit.module().node(node).clone();
    // New running statistics have other makers by now, or do not change.
    for position in [1, 2] {
        let Some(result) = data.outputs.get(position).copied().flatten() else { continue };
        if let Some(old) = data.inputs.get(position + 2).copied().flatten() {
            emit.maker.replace_uses(result, old);
        }
        emit.maker.leave_out(node, position);
    }
    let data = emit.module().node(node).clone();
    if data.int("training_mode", 0) != 0 {
        let attributes = data.attributes.into_iter().filter(|(name, _)| name != "training_mode").collect();
        emit.maker.redefine(node, data.operator, data.inputs, attributes);
    }
}
