//! Bodies whose number of runs is known: the live branch of an If, and the body of a Loop that runs once,
//! take the place of their node; a Loop that never runs becomes its initial values.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use memc_ir::{
    Attribute, Bytes, ConstData, Definition, ElementType, GraphId, Module, Node, Operator, Rewriter,
    TensorType, Use, Value,
};
use memc_ops::repeatable;

use crate::pass::PassContext;

/// Name of the pass that new nodes state as their origin.
const PASS: &str = "fold";

/// Known runs of the bodies of a node.
enum Runs {
    /// One branch of an If runs, the other one never.
    Branch(GraphId),
    /// The body of a Loop runs once.
    Once(GraphId),
    /// The body of a Loop never runs.
    Never,
}

/// Inlines all bodies whose runs are known, in all graphs, and follows the elements of the moved values.
/// Returns the number of edits.
///
/// Linear in the module for each level of nesting that becomes known.
pub(crate) fn known(module: &mut Module, ctx: &mut PassContext<'_>) -> u64 {
    let mut edits = 0;
    loop {
        let nodes = with_bodies(module);
        if nodes.is_empty() {
            return edits;
        }
        let mut walk = Walk { rewriter: Rewriter::new(module), ctx, names: None };
        for node in nodes {
            walk.node(node);
        }
        let made = walk.rewriter.finish();
        if made == 0 {
            return edits;
        }
        edits += made;
        // Results of nodes with bodies rest on assumptions; those of the moved nodes do not.
        ctx.data = memc_ops::infer(module).data;
    }
}

/// Lists the nodes with bodies in all graphs, outer ones first.
fn with_bodies(module: &Module) -> Vec<Node> {
    let (mut found, mut graphs) = (Vec::new(), vec![module.main()]);
    while let Some(graph) = graphs.pop() {
        for node in &module.graph(graph).nodes {
            let before = graphs.len();
            graphs.extend(module.node(*node).bodies().map(|(_, body)| body));
            if graphs.len() > before {
                found.push(*node);
            }
        }
    }
    found
}

struct Walk<'m, 'c, 'o> {
    rewriter: Rewriter<'m>,
    ctx: &'c PassContext<'o>,
    /// How many values have each name; `None` until a body is inlined.
    names: Option<HashMap<String, usize>>,
}

impl Walk<'_, '_, '_> {
    fn module(&self) -> &Module {
        self.rewriter.module()
    }

    /// Inlines the bodies of a node, if their runs are known.
    fn node(&mut self, node: Node) {
        if self.rewriter.is_erased(node) {
            return;
        }
        let Some(runs) = self.runs(node) else { return };
        match runs {
            Runs::Branch(body) => {
                if self.may_move(node, body) {
                    let (outputs, own) = self.inlined(node, body);
                    let results = self.module().node(node).outputs.clone();
                    self.pass_on(node, results.into_iter().zip(outputs), &own);
                }
            }
            Runs::Once(body) => self.once(node, body),
            Runs::Never => self.never(node),
        }
    }

    fn runs(&self, node: Node) -> Option<Runs> {
        let data = self.module().node(node);
        let body = |name: &str| match data.attribute(name) {
            Some(Attribute::Graph(body)) => Some(*body),
            _ => None,
        };
        let operand = |position: usize| data.inputs.get(position).copied().flatten();
        match (&*data.operator.domain, &*data.operator.name) {
            ("", "If") => {
                let name = if self.integer(operand(0)?)? != 0 { "then_branch" } else { "else_branch" };
                let taken = body(name)?;
                let is_whole = self.module().graph(taken).outputs.len() == data.outputs.len();
                (is_whole && self.module().graph(taken).inputs.is_empty()).then_some(Runs::Branch(taken))
            }
            ("", "Loop") => {
                let body = body("body")?;
                let graph = self.module().graph(body);
                let carried = data.inputs.len().checked_sub(2)?;
                if graph.inputs.len() != carried + 2 || graph.outputs.len() != data.outputs.len() + 1 {
                    return None;
                }
                let trips = operand(0).map(|count| self.integer(count));
                let starts = operand(1).map_or(Some(true), |flag| self.integer(flag).map(|flag| flag != 0));
                let goes_on = self.integer(*graph.outputs.first()?).map(|flag| flag != 0);
                match (trips, starts, goes_on) {
                    (Some(Some(..=0)), ..) | (_, Some(false), _) => Some(Runs::Never),
                    (Some(Some(1)), Some(true), _) | (None | Some(Some(2..)), Some(true), Some(false)) => {
                        Some(Runs::Once(body))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the only element of a value, if it is known.
    fn integer(&self, value: Value) -> Option<i64> {
        match self.ctx.data[value].as_deref()?.known_ints()?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether a body may leave its node. Random nodes are compared by names, so those stay where a value
    /// would need another one.
    fn may_move(&mut self, node: Node, body: GraphId) -> bool {
        repeatable(self.module(), node) || {
            self.count_names();
            let names = self.names.as_ref();
            defined(self.module(), body).all(|value| {
                let name = &self.module().value(value).name;
                !self.rewriter.is_pinned(value)
                    && names.and_then(|names| names.get(name)).is_none_or(|count| *count == 1)
            })
        }
    }

    fn count_names(&mut self) {
        let module = self.rewriter.module();
        self.names.get_or_insert_with(|| {
            let mut names = HashMap::new();
            for (_, data) in module.values().iter().filter(|(_, data)| data.definition != Definition::Erased)
            {
                *names.entry(data.name.clone()).or_default() += 1;
            }
            names
        });
    }

    /// Moves the nodes of a body in front of its node, under names that hide no other; returns the results
    /// of the body, and all values that it defined.
    fn inlined(&mut self, node: Node, body: GraphId) -> (Vec<Value>, BTreeSet<Value>) {
        self.count_names();
        let moved: BTreeSet<Value> = defined(self.module(), body).collect();
        // The other branch goes with the node.
        let dead: Vec<GraphId> = self
            .module()
            .node(node)
            .bodies()
            .map(|(_, other)| other)
            .filter(|other| *other != body)
            .collect();
        let mut gone: Vec<Value> = Vec::new();
        for body in dead {
            gone.extend(defined(self.module(), body));
        }
        gone.iter().for_each(|value| self.forget(*value));
        let outputs = self.rewriter.inline(node, body);
        for value in moved.iter().copied() {
            let name = self.module().value(value).name.clone();
            if self.names.as_ref().and_then(|names| names.get(&name)).is_some_and(|count| *count > 1) {
                self.forget(value);
                let fresh = self.rewriter.fresh_name(&name);
                self.names.get_or_insert_default().insert(fresh.clone(), 1);
                self.rewriter.rename(value, fresh);
            }
        }
        (outputs, moved)
    }

    /// Frees the name of a value.
    fn forget(&mut self, value: Value) {
        let name = &self.rewriter.module().value(value).name;
        if let Some(count) = self.names.as_mut().and_then(|names| names.get_mut(name)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Puts values in the place of the results of a node, and erases the node. Values in `own` take over the
    /// names of the results.
    fn pass_on(
        &mut self,
        node: Node,
        pairs: impl Iterator<Item = (Option<Value>, Value)>,
        own: &BTreeSet<Value>,
    ) {
        let mut moved: BTreeMap<Value, Value> = BTreeMap::new();
        for (result, value) in pairs {
            let Some(result) = result.filter(|result| !self.rewriter.uses(*result).is_empty()) else {
                continue;
            };
            let value = moved.get(&value).copied().unwrap_or(value);
            if own.contains(&value) && self.rewriter.take_over(value, result) {
                moved.insert(value, result);
            } else if self.rewriter.is_pinned(result) {
                let copy = self.insert(node, "Identity", vec![Some(value)], Vec::new());
                self.rewriter.move_result(result, copy, 0);
            } else {
                self.rewriter.replace_uses(result, value);
            }
        }
        self.rewriter.erase(node);
    }

    /// Inserts a node without results in front of another one.
    fn insert(
        &mut self,
        before: Node,
        name: &str,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
    ) -> Node {
        let data = self.module().node(before);
        let (graph, label) = (data.graph, data.name.clone());
        let operator = Operator::onnx(name, self.version());
        let new = memc_edit::node(PASS, operator, inputs, attributes).named(label);
        self.rewriter.insert(graph, Some(before), new, &[None])
    }

    fn version(&self) -> i64 {
        self.module().opsets.get("").copied().unwrap_or(1)
    }

    /// Adds a constant of one integer or Boolean to the graph of a node.
    fn scalar(&mut self, node: Node, hint: &str, ty: TensorType, bytes: Vec<u8>) -> Value {
        let graph = self.module().node(node).graph;
        let name = self.rewriter.fresh_name(hint);
        self.rewriter.initializer(graph, &name, memc_edit::constant(ty, bytes))
    }

    /// Replaces a Loop by its body, which reads the initial values.
    fn once(&mut self, node: Node, body: GraphId) {
        let initial = self.module().node(node).inputs.get(2..).unwrap_or_default().to_vec();
        let Some(initial) = initial.into_iter().collect::<Option<Vec<Value>>>() else { return };
        if !self.may_move(node, body) {
            return;
        }
        let formals = self.module().graph(body).inputs.clone();
        for (position, formal) in formals.iter().enumerate() {
            if self.rewriter.uses(*formal).is_empty() {
                continue;
            }
            let rank = self.module().ty(*formal).tensor().and_then(TensorType::rank);
            let dims: &[u64] = if rank == Some(1) { &[1] } else { &[] };
            let name = self.module().value(*formal).name.clone();
            let value = match position {
                0 => self.scalar(node, &name, TensorType::fixed(ElementType::Int64, dims), vec![0; 8]),
                1 => self.scalar(node, &name, TensorType::fixed(ElementType::Bool, dims), vec![1]),
                carried => initial[carried - 2],
            };
            self.rewriter.replace_uses(*formal, value);
        }
        let (outputs, own) = self.inlined(node, body);
        let results = self.module().node(node).outputs.clone();
        for (result, value) in results.iter().zip(outputs.iter().skip(1)).skip(initial.len()) {
            let Some(result) = result.filter(|result| !self.rewriter.uses(*result).is_empty()) else {
                continue;
            };
            let (axes, attributes) = match self.version() >= 13 {
                true => (
                    Some(self.scalar(node, "axes", TensorType::fixed(ElementType::Int64, &[1]), vec![0; 8])),
                    Vec::new(),
                ),
                false => (None, vec![("axes".to_owned(), Attribute::Ints(vec![0]))]),
            };
            let operands = [Some(*value)].into_iter().chain(axes.map(Some)).collect();
            let stacked = self.insert(node, "Unsqueeze", operands, attributes);
            self.rewriter.move_result(result, stacked, 0);
        }
        let carried = results.into_iter().zip(outputs.into_iter().skip(1)).take(initial.len());
        self.pass_on(node, carried, &own);
    }

    /// Replaces the results of a Loop by its initial values, and collected values by empty constants.
    fn never(&mut self, node: Node) {
        let data = self.module().node(node);
        let (initial, results) = (data.inputs.get(2..).unwrap_or_default().to_vec(), data.outputs.clone());
        let Some(initial) = initial.into_iter().collect::<Option<Vec<Value>>>() else { return };
        let collected = results.iter().skip(initial.len()).copied().flatten();
        let collected: Vec<Value> =
            collected.filter(|value| !self.rewriter.uses(*value).is_empty()).collect();
        let is_output = |site: &Use| matches!(site, Use::Output(..));
        let empty: Option<Vec<ConstData>> = collected
            .iter()
            .map(|value| {
                let ty = self.module().ty(*value).tensor()?.clone();
                let fits = ty.size() == Some(Bytes(0)) && !self.rewriter.uses(*value).iter().any(is_output);
                fits.then(|| memc_edit::constant(ty, Vec::new()))
            })
            .collect();
        let Some(empty) = empty else { return };
        for (value, constant) in collected.into_iter().zip(empty) {
            let constant = self.rewriter.constant(constant);
            self.rewriter.make_initializer(value, constant);
        }
        self.pass_on(node, results.into_iter().zip(initial), &BTreeSet::new());
    }
}

/// Lists the values that a body defines, without those of bodies in it.
fn defined(module: &Module, body: GraphId) -> impl Iterator<Item = Value> + '_ {
    let graph = module.graph(body);
    let results = graph.nodes.iter().flat_map(|node| module.node(*node).results());
    graph.constants.iter().copied().chain(results)
}
