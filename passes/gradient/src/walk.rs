//! The reverse walk: from the gradient of one value to the gradients of all values that it depends on.

use std::collections::BTreeSet;

use memc_ir::{Module, Node, SecondaryMap, TensorType, Value};
use memc_ops::Gradient;

use crate::emit::Emit;
use crate::error::{GradientError, MissingRule};
use crate::rules::{self, Site, has_rule};

/// Most nodes that the path to a node without a gradient names.
const MAX_PATH: usize = 8;

/// Paths from trainable values to the source of the loss.
pub(crate) struct Paths {
    /// Whether a value depends on a trainable value, through real numbers.
    needs: SecondaryMap<Value, bool>,
    /// Whether the source depends on a value, and the value depends on a trainable one.
    useful: SecondaryMap<Value, bool>,
    /// Next node on the way to the source.
    reader: SecondaryMap<Value, Option<Node>>,
    /// Nodes on a path, in graph order.
    nodes: Vec<Node>,
    /// Nodes at which a dependence ends that passes through no real numbers.
    stops: Vec<Node>,
}

/// Returns the words for a node in messages.
pub(crate) fn label(module: &Module, node: Node) -> String {
    let data = module.node(node);
    if data.name.is_empty() {
        data.operator.to_string()
    } else {
        format!("{} \"{}\"", data.operator, data.name)
    }
}

impl Paths {
    /// Finds all paths. `blocked` are values that count as constants.
    pub(crate) fn find(
        module: &Module,
        trainable: &[Value],
        source: Value,
        blocked: &BTreeSet<Value>,
    ) -> Self {
        let nodes = &module.graph(module.main()).nodes;
        let is_real = |value: Value| module.ty(value).tensor().is_some_and(|ty| ty.element.is_float());
        let mut needs: SecondaryMap<Value, bool> = SecondaryMap::default();
        trainable.iter().for_each(|value| needs.set(*value, true));
        let mut stops = Vec::new();
        for node in nodes {
            if !module.reads(*node).into_iter().any(|value| needs[value]) {
                continue;
            }
            let data = module.node(*node);
            let is_zero = memc_ops::gradient(&data.operator) == Gradient::Zero;
            let reals: Vec<Value> = data.results().filter(|value| !is_zero && is_real(*value)).collect();
            if reals.is_empty() {
                stops.push(*node);
            }
            reals
                .into_iter()
                .filter(|value| !blocked.contains(value))
                .for_each(|value| needs.set(value, true));
        }
        let mut useful: SecondaryMap<Value, bool> = SecondaryMap::default();
        let mut reader: SecondaryMap<Value, Option<Node>> = SecondaryMap::default();
        useful.set(source, needs[source]);
        let mut on_path = Vec::new();
        for node in nodes.iter().rev() {
            if !module.node(*node).results().any(|value| useful[value]) {
                continue;
            }
            on_path.push(*node);
            for value in module.reads(*node).into_iter().filter(|value| needs[*value]) {
                if !useful[value] {
                    useful.set(value, true);
                    reader.set(value, Some(*node));
                }
            }
        }
        on_path.reverse();
        Self { needs, useful, reader, nodes: on_path, stops }
    }

    /// Whether the source depends on a value through real numbers.
    pub(crate) fn reaches(&self, value: Value) -> bool {
        self.useful[value]
    }

    /// Nodes at which dependences on trainable values end, by operator and name.
    pub(crate) fn stops(&self, module: &Module) -> Vec<String> {
        self.stops.iter().take(MAX_PATH).map(|node| label(module, *node)).collect()
    }

    fn missing(&self, module: &Module, node: Node, why: Option<String>) -> MissingRule {
        let data = module.node(node);
        let mut path = Vec::new();
        let mut at = node;
        while let Some(next) = module.node(at).results().find_map(|value| self.reader[value]) {
            path.push(label(module, next));
            at = next;
        }
        path.reverse();
        if path.len() > MAX_PATH {
            let left_out = path.len() - MAX_PATH;
            path.splice(MAX_PATH / 2..MAX_PATH / 2 + left_out, [format!("{left_out} more")]);
        }
        MissingRule { operator: data.operator.to_string(), node: data.name.clone(), path, why }
    }

    /// Refuses nodes whose operators have no rule, all at once.
    pub(crate) fn check(&self, module: &Module) -> Result<(), GradientError> {
        let without = |node: &&Node| !has_rule(module.node(**node));
        let missing: Vec<MissingRule> =
            self.nodes.iter().filter(without).map(|node| self.missing(module, *node, None)).collect();
        if missing.is_empty() { Ok(()) } else { Err(GradientError::Missing { missing }) }
    }

    /// Emits the gradients of all values on the paths, given that of the source. Each value's gradient is
    /// the sum over its readers, added in the reverse order of the graph; absent gradients are zero.
    pub(crate) fn gradients(
        &self,
        emit: &mut Emit<'_>,
        (source, seed): (Value, Value),
        of_batch: &BTreeSet<Node>,
    ) -> Result<SecondaryMap<Value, Option<Value>>, GradientError> {
        let mut pending: SecondaryMap<Value, Option<Value>> = SecondaryMap::default();
        pending.set(source, Some(seed));
        let mut missing = Vec::new();
        for node in self.nodes.iter().rev() {
            let data = emit.module().node(*node).clone();
            // A tensor without elements passes on nothing, in whatever form its rule has.
            let has_elements = |value: &Value| emit.tensor(*value).and_then(TensorType::elements) != Some(0);
            let gradient = |value: Value| pending[value].filter(|_| has_elements(&value));
            let gradients: Vec<Option<Value>> =
                data.outputs.iter().map(|result| result.and_then(gradient)).collect();
            if gradients.iter().all(Option::is_none) {
                continue;
            }
            let is_wanted = |value: Value| self.needs[value] && has_elements(&value);
            let wanted: Vec<bool> =
                data.inputs.iter().map(|operand| operand.is_some_and(is_wanted)).collect();
            let hint =
                data.results().next().map(|value| format!("{}_grad", emit.name(value))).unwrap_or_default();
            emit.set_place(hint, label(emit.module(), *node));
            let site = Site { node: *node, data, gradients, wanted, of_batch: of_batch.contains(node) };
            let made = match rules::gradients(emit, &site) {
                Ok(made) => made,
                Err(refusal) => {
                    missing.push(self.missing(emit.module(), *node, Some(refusal.to_string())));
                    continue;
                }
            };
            for (position, operand) in site.data.inputs.iter().enumerate() {
                let Some(operand) = operand.filter(|_| site.wants(position)) else { continue };
                let Some(gradient) = made.get(position).copied().flatten() else {
                    let why = format!("operand {position} has no gradient");
                    missing.push(self.missing(emit.module(), *node, Some(why)));
                    continue;
                };
                check_type(emit, operand, gradient);
                let sum = pending[operand].map_or(gradient, |sum| emit.op("Add", &[sum, gradient]));
                pending.set(operand, Some(sum));
            }
        }
        missing.reverse();
        if missing.is_empty() { Ok(pending) } else { Err(GradientError::Missing { missing }) }
    }
}

/// Records a gradient whose type is not that of its value, which is a defect of a rule.
fn check_type(emit: &mut Emit<'_>, value: Value, gradient: Value) {
    let (own, made) = (emit.tensor(value).cloned(), emit.tensor(gradient).cloned());
    let Some((own, made)) = own.zip(made) else {
        emit.defect(format!("the gradient of `{}` has no type", emit.name(value)));
        return;
    };
    let differs = own.known_dims().zip(made.known_dims()).is_some_and(|(own, made)| own != made);
    if own.element != made.element || own.rank() != made.rank() || differs {
        emit.defect(format!("the gradient of `{}` is {made:?} instead of {own:?}", emit.name(value)));
    }
}
