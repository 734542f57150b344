//! Bodies whose runs are known, in the place of their nodes: the meaning of a model is compared without
//! branches that never run, and without loops that run once or never.

use std::sync::Arc;

use memc_ir::{
    Attribute, ConstData, ConstOrigin, ElementType, GraphId, Module, NewNode, Node, NodeData, Operator,
    Origin, Payload, Rewriter, SecondaryMap, TensorType, Value,
};
use memc_ops::Data;

use crate::side::Side;

/// Elements of values, as inference finds them.
type Elements = SecondaryMap<Value, Option<Arc<Data>>>;

/// How often the bodies of a node run.
enum Runs {
    /// One branch of an If.
    Branch(GraphId),
    /// A Loop once.
    Once(GraphId),
    /// A Loop never: its results are its initial values.
    Never,
}

/// Returns the model with all known bodies in the place of their nodes; `None` if it has none.
///
/// Linear in the model for each level of nesting.
pub(crate) fn flat<'f>(side: &Side<'f>) -> Option<Side<'f>> {
    let (mut module, mut elements) = (side.module.clone(), side.all_elements().clone());
    let mut is_changed = false;
    while replace_known(&mut module, &elements) {
        is_changed = true;
        elements = memc_ops::infer(&mut module).data;
    }
    is_changed.then(|| side.with(module, elements))
}

/// Replaces the nodes whose runs are known now; returns whether there are any.
fn replace_known(module: &mut Module, elements: &Elements) -> bool {
    let (mut found, mut graphs) = (Vec::new(), vec![module.main()]);
    while let Some(graph) = graphs.pop() {
        for node in &module.graph(graph).nodes {
            graphs.extend(module.node(*node).bodies().map(|(_, body)| body));
            found.extend(runs(module, elements, *node).map(|runs| (*node, runs)));
        }
    }
    let mut rewriter = Rewriter::new(module);
    let mut count = 0;
    for (node, runs) in found {
        // A node in a branch that never runs went with its If.
        if !rewriter.is_erased(node) {
            count += u64::from(replace(&mut rewriter, node, &runs).is_some());
        }
    }
    rewriter.finish();
    count > 0
}

fn runs(module: &Module, elements: &Elements, node: Node) -> Option<Runs> {
    let data = module.node(node);
    let body = |name: &str| match data.attribute(name)? {
        Attribute::Graph(body) => Some(*body),
        _ => None,
    };
    let only = |value: Value| match elements[value].as_ref()?.known_ints()?[..] {
        [only] => Some(only),
        _ => None,
    };
    let operand = |position: usize| data.inputs.get(position).copied().flatten();
    match &*data.operator.name {
        _ if !data.operator.domain.is_empty() => None,
        "If" => body(if only(operand(0)?)? == 0 { "else_branch" } else { "then_branch" }).map(Runs::Branch),
        "Loop" => {
            let body = body("body")?;
            let trips = operand(0).map_or(Some(i64::MAX), only);
            let starts = operand(1).map_or(Some(1), only);
            if starts == Some(0) || trips.is_some_and(|trips| trips <= 0) {
                return Some(Runs::Never);
            }
            let ends = || module.graph(body).outputs.first().and_then(|flag| only(*flag)) == Some(0);
            (starts.is_some() && trips.is_some_and(|trips| trips == 1 || ends())).then_some(Runs::Once(body))
        }
        _ => None,
    }
}

/// Puts values in the place of the results of a node. `None` if the node stays.
fn replace(rewriter: &mut Rewriter<'_>, node: Node, runs: &Runs) -> Option<()> {
    let data = rewriter.module().node(node).clone();
    let carried: Option<Vec<Value>> = data.inputs.iter().skip(2).copied().collect();
    let is_whole =
        |body: GraphId, more: usize| rewriter.module().graph(body).outputs.len() == data.outputs.len() + more;
    match runs {
        Runs::Branch(body) => is_whole(*body, 0),
        Runs::Once(body) => is_whole(*body, 1),
        Runs::Never => true,
    }
    .then_some(())?;
    let values = match runs {
        Runs::Branch(body) => rewriter.inline(node, *body).into_iter().map(Some).collect(),
        Runs::Once(body) => {
            let carried = carried?;
            formals(rewriter, &data, *body, &carried)?;
            let mut outputs = rewriter.inline(node, *body).into_iter().skip(1);
            let mut values: Vec<Option<Value>> = outputs.by_ref().take(carried.len()).map(Some).collect();
            values.extend(outputs.map(|value| Some(stacked(rewriter, &data, node, value))));
            values
        }
        Runs::Never => {
            let carried = carried?;
            let collected = data.outputs.iter().enumerate().skip(carried.len());
            let collected = collected.filter_map(|(position, result)| Some((position, (*result)?)));
            let empty =
                collected.map(|(position, result)| Some((position, empty(rewriter.module(), result)?)));
            let empty: Vec<(usize, ConstData)> = empty.collect::<Option<_>>()?;
            let mut values: Vec<Option<Value>> = carried.into_iter().map(Some).collect();
            values.resize(values.len().max(data.outputs.len()), None);
            for (position, constant) in empty {
                let name = rewriter.fresh_name("empty");
                values[position] = Some(rewriter.initializer(data.graph, &name, constant));
            }
            values
        }
    };
    for (result, value) in data.outputs.iter().zip(values) {
        let Some((result, value)) = result.zip(value) else { continue };
        let new = made(&data, "Identity", vec![Some(value)], Vec::new());
        let same = rewriter.insert(data.graph, Some(node), new, &[None]);
        rewriter.move_result(result, same, 0);
    }
    // A node that stays is not looked at again.
    rewriter.erase(node).then_some(())
}

/// Returns a constant without elements of a value's type; `None` if the type has some.
fn empty(module: &Module, value: Value) -> Option<ConstData> {
    let ty = module.ty(value).tensor().filter(|ty| ty.elements() == Some(0))?.clone();
    Some(ConstData { ty, payload: Payload::Raw(Vec::new().into()), origin: ConstOrigin::New })
}

/// Puts the operands of a Loop in the place of the inputs of its body.
fn formals(rewriter: &mut Rewriter<'_>, data: &NodeData, body: GraphId, carried: &[Value]) -> Option<()> {
    let formals = rewriter.module().graph(body).inputs.clone();
    (formals.len() == carried.len() + 2).then_some(())?;
    let dims = |rewriter: &Rewriter<'_>, value: Value| {
        rewriter.module().ty(value).tensor().and_then(TensorType::known_dims)
    };
    let (count, flag) =
        (dims(rewriter, formals[0]).unwrap_or_default(), dims(rewriter, formals[1]).unwrap_or_default());
    let mut constant = |name: &str, ty: TensorType, bytes: Vec<u8>| {
        let name = rewriter.fresh_name(name);
        rewriter.initializer(
            data.graph,
            &name,
            ConstData { ty, payload: Payload::Raw(bytes.into()), origin: ConstOrigin::New },
        )
    };
    let first = constant("first", TensorType::fixed(ElementType::Int64, &count), vec![0; 8]);
    let starts = constant("starts", TensorType::fixed(ElementType::Bool, &flag), vec![1]);
    for (formal, value) in formals.iter().zip([first, starts].iter().chain(carried)) {
        rewriter.replace_uses(*formal, *value);
    }
    Some(())
}

/// Returns a collected value of one run: the value with a first axis of extent 1.
fn stacked(rewriter: &mut Rewriter<'_>, data: &NodeData, node: Node, value: Value) -> Value {
    const AXES_ARE_OPERANDS: i64 = 13;
    let version = rewriter.module().opsets.get("").copied().unwrap_or(1);
    let (mut operands, mut attributes) = (vec![Some(value)], Vec::new());
    if version >= AXES_ARE_OPERANDS {
        let name = rewriter.fresh_name("axes");
        let ty = TensorType::fixed(ElementType::Int64, &[1]);
        let axes = ConstData { ty, payload: Payload::Raw(vec![0; 8].into()), origin: ConstOrigin::New };
        operands.push(Some(rewriter.initializer(data.graph, &name, axes)));
    } else {
        attributes.push(("axes".to_owned(), Attribute::Ints(vec![0])));
    }
    let mut new = made(data, "Unsqueeze", operands, attributes);
    new.operator = Operator::onnx("Unsqueeze", version);
    let result = rewriter.fresh_name("stacked");
    let new = rewriter.insert(data.graph, Some(node), new, &[Some((result, memc_ir::ValueType::Unknown))]);
    rewriter.module().node(new).outputs[0].unwrap_or(value)
}

fn made(
    data: &NodeData,
    name: &str,
    inputs: Vec<Option<Value>>,
    attributes: Vec<(String, Attribute)>,
) -> NewNode {
    let origin = Origin::Inlined { call: data.name.clone() };
    NewNode::new(Operator::onnx(name, 1), inputs, attributes, origin).named(data.name.clone())
}
