//! Tensors that an exporter merged. A network that was never trained has equal scales (ones) and equal
//! biases (zeros), and PyTorch's exporters for inference keep one tensor of those with equal elements.

use memc_ir::{Module, Node, Rewriter, Value};

use crate::trainable::readers;

/// Positions of the running statistics of a BatchNormalization.
const STATISTICS: [usize; 2] = [3, 4];

/// Gives a BatchNormalization running statistics of its own where nodes also read the tensor as something
/// else: a statistic is no parameter.
pub(crate) fn take_apart_statistics(rewriter: &mut Rewriter<'_>, node: Node) {
    for position in STATISTICS {
        let module = rewriter.module();
        let data = module.node(node);
        let Some(read) = data.inputs.get(position).copied().flatten() else { continue };
        let value = source(module, read);
        let Some(constant) = module.constant_of(value) else { continue };
        let is_statistic = |(node, position): &(Node, usize)| {
            let operator = &module.node(*node).operator;
            &*operator.name == "BatchNormalization" && STATISTICS.contains(position)
        };
        if readers(rewriter, value).iter().all(is_statistic) {
            continue;
        }
        let (graph, constant) = (data.graph, module.constant(constant).clone());
        let name = rewriter.fresh_name(&module.value(read).name.clone());
        let own = rewriter.initializer(graph, &name, constant);
        rewriter.set_operand(node, position as u32, own);
    }
}

/// Returns the value that Identity nodes pass on.
fn source(module: &Module, mut value: Value) -> Value {
    while let Some(node) = module.producer(value) {
        let data = module.node(node);
        match (&*data.operator.name, data.operands().next()) {
            ("Identity", Some(operand)) => value = operand,
            _ => break,
        }
    }
    value
}
