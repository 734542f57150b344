//! Type inference over a whole module: types of all values, and elements of small tensors that determine
//! shapes.
//!
//! Inference joins three sources. Facts implied by operators are the strongest. Types stated in the file
//! (`value_info`) fill the gaps, mainly the results of opaque operators. Defaults of graph inputs are
//! trusted if they determine a shape; facts that rest on them are marked as assumed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memc_ir::{
    Definition, Diagnostic, Dim, Domain, GraphId, Module, Node, Range, SecondaryMap, Severity, TensorType,
    Value, ValueType,
};

use crate::assume::Assumption;
use crate::context::{Bodies, Infer, InferError};
use crate::fact::{Data, Fact, MAX_ITEMS};
use crate::table::lookup;

/// Maximum nesting depth of bodies.
const MAX_DEPTH: usize = 64;
/// Maximum number of visits to nodes of bodies, over the whole module. Beyond it, results in bodies keep
/// the types that the file states. Loops inside loops visit their innermost nodes repeatedly.
const MAX_BODY_VISITS: u64 = 2_000_000;
/// Maximum number of diagnostics that inference keeps.
const MAX_DIAGNOSTICS: usize = 50;

/// The findings of inference in addition to the types.
#[derive(Debug, Default)]
pub struct Inference {
    /// Elements of small tensors that inference follows, unless they rest on a default that a caller may
    /// override.
    pub data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Disagreements between operators and file, and rejected nodes.
    pub diagnostics: Vec<Diagnostic>,
    /// Nodes whose operands do not fit their operator, with the reason. `diagnostics` includes them.
    pub refused: BTreeMap<Node, String>,
    /// Whether the size of any result comes only from the file.
    pub has_claims: bool,
    /// The first impossible assumption, with the reason.
    pub impossible: Option<(Value, String)>,
}

/// Derives the types of all values and writes them into the module, with the nodes whose operands do not
/// fit their operator.
///
/// O(nodes), times the number of passes over the bodies of Loop nodes until their carried types are
/// stable.
pub fn infer(module: &mut Module) -> Inference {
    infer_assuming(module, &BTreeMap::new())
}

/// Returns the values of the main graph whose sizes do not follow from operators and graph inputs, but
/// only from the types that the file states for results. `before` and `after` are the module before and
/// after inference.
pub fn claimed(before: &Module, after: &Module) -> BTreeSet<Value> {
    let mut bare = before.clone();
    bare.forget_results();
    infer(&mut bare);
    let main = after.graph(after.main());
    let results = main.nodes.iter().flat_map(|node| after.node(*node).results());
    results.filter(|value| after.ty(*value).size().is_some() && bare.ty(*value).size().is_none()).collect()
}

/// Like [`infer`], but assumes the given sizes for some values of the main graph. Facts that follow from
/// assumptions determine shapes; their elements are not reported.
pub fn infer_assuming(module: &mut Module, assumptions: &BTreeMap<Value, Assumption>) -> Inference {
    let mut driver = Driver::new(module, assumptions);
    for value in module.values().keys() {
        driver.constant(value);
    }
    for input in &module.graph(module.main()).inputs {
        driver.input(*input);
    }
    driver.graph(module.main());
    let Driver { facts, diagnostics, refused, has_claims, impossible, .. } = driver;
    let mut inference =
        Inference { data: SecondaryMap::default(), diagnostics, refused, has_claims, impossible };
    for value in module.values().keys() {
        let Fact { ty, data, assumed } = facts[value].clone();
        if ty != ValueType::Unknown {
            module.set_type(value, ty);
        }
        inference.data.set(value, data.filter(|_| !assumed));
    }
    module.misfits = inference.refused.keys().copied().collect();
    inference
}

/// Derives the elements of some values of the main graph from the types that the module states, without
/// results in bodies and elements that rest on a default that a caller may override.
///
/// Visits only the nodes that the elements depend on, through tensors of at most one axis or of few
/// elements. Linear in these, and in the nodes of the graph.
pub fn elements_of(
    module: &Module,
    wanted: impl IntoIterator<Item = Value>,
) -> SecondaryMap<Value, Option<Arc<Data>>> {
    let assumptions = BTreeMap::new();
    let mut driver = Driver::new(module, &assumptions);
    let (mut open, mut nodes): (Vec<Value>, BTreeSet<Node>) = (wanted.into_iter().collect(), BTreeSet::new());
    while let Some(value) = open.pop() {
        match module.producer(value).filter(|_| module.ty(value).tensor().is_some_and(may_have_elements)) {
            Some(node) if nodes.insert(node) => open.extend(module.reads(node)),
            Some(_) => {}
            None => {
                driver.facts.set(value, Fact::of(module.ty(value).clone()));
                driver.constant(value);
            }
        }
    }
    for input in &module.graph(module.main()).inputs {
        driver.input(*input);
    }
    let mut found = SecondaryMap::default();
    for node in module.graph(module.main()).nodes.iter().filter(|node| nodes.contains(node)) {
        driver.node(*node);
        for value in module.node(*node).results() {
            let Fact { data, assumed, .. } = &driver.facts[value];
            found.set(value, data.clone().filter(|_| !assumed));
        }
    }
    found
}

/// Whether inference may follow the elements of a tensor of this type.
fn may_have_elements(tensor: &TensorType) -> bool {
    let is_small = || tensor.elements().is_some_and(|count| count <= MAX_ITEMS as u64);
    tensor.rank().is_some_and(|rank| rank <= 1) || is_small()
}

struct Driver<'m> {
    module: &'m Module,
    assumptions: &'m BTreeMap<Value, Assumption>,
    facts: SecondaryMap<Value, Fact>,
    diagnostics: Vec<Diagnostic>,
    refused: BTreeMap<Node, String>,
    has_claims: bool,
    impossible: Option<(Value, String)>,
    depth: usize,
    visits: u64,
    /// Number of enclosing bodies that never run.
    unreached: u32,
    /// Whether a caller may replace the defaults of graph inputs.
    overridable: bool,
}

impl<'m> Driver<'m> {
    fn new(module: &'m Module, assumptions: &'m BTreeMap<Value, Assumption>) -> Self {
        Self {
            module,
            assumptions,
            facts: SecondaryMap::default(),
            diagnostics: Vec::new(),
            refused: BTreeMap::new(),
            has_claims: false,
            impossible: None,
            depth: 0,
            visits: 0,
            unreached: 0,
            // Below IR version 4 every initializer had to be listed as an input, and no caller could override
            // it.
            overridable: module.ir_version >= 4,
        }
    }

    /// States type and elements of a value if it is a constant.
    fn constant(&mut self, value: Value) {
        let data = self.module.value(value);
        if let Definition::Constant(_, constant) = data.definition {
            let elements = Data::from_constant(self.module.constant(constant));
            self.facts.set(value, Fact { ty: data.ty.clone(), data: elements.map(Arc::new), assumed: false });
        }
    }

    /// States type and default of a graph input.
    fn input(&mut self, input: Value) {
        let data = self.default_data(input);
        let assumed = data.is_some() && self.overridable;
        self.facts.set(input, Fact { ty: self.module.ty(input).clone(), data, assumed });
        self.assume(input);
    }

    /// Returns the elements of a graph input's default. If a caller may override the default, only
    /// integral elements are returned: they can determine a shape, and a plan needs one fixed shape.
    fn default_data(&self, input: Value) -> Option<Arc<Data>> {
        let constant = self.module.constant(self.module.value(input).default?);
        Data::from_constant(constant)
            .filter(|data| !self.overridable || data.element.is_integral())
            .map(Arc::new)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.unreached == 0 && self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    fn graph(&mut self, graph: GraphId) {
        let module = self.module;
        for node in &module.graph(graph).nodes {
            self.node(*node);
        }
    }

    fn node(&mut self, node: Node) {
        let module = self.module;
        let data = module.node(node);
        let inputs =
            data.inputs.iter().map(|operand| operand.map(|value| self.facts[value].clone())).collect();
        let assumed =
            data.operands().any(|value| self.facts[value].assumed) || data.bodies().next().is_some();
        let facts = match lookup(&data.operator) {
            None => vec![Fact::default(); data.outputs.len()],
            Some(info) => {
                let mut ctx = Infer::new(module, data, inputs, self);
                let outcome = (info.infer)(&mut ctx);
                let facts = ctx.finish();
                match outcome {
                    Ok(()) => facts,
                    Err(error) => {
                        self.refuse(node, &error);
                        vec![Fact::default(); data.outputs.len()]
                    }
                }
            }
        };
        for (result, fact) in data.outputs.iter().zip(facts) {
            if let Some(value) = result {
                self.settle(node, *value, Fact { assumed, ..fact });
            }
        }
    }

    fn refuse(&mut self, node: Node, error: &InferError) {
        let message = format!("{} does not fit its operands: {error}", self.module.node(node).operator);
        if self.unreached == 0 {
            self.refused.entry(node).or_insert_with(|| message.clone());
        }
        let diagnostic = Diagnostic::new("W0105", Severity::Warning, message)
            .at_node(self.module, node)
            .with_help("memc uses the types that the file states, and changes nothing about this node; check the exporter");
        self.report(diagnostic);
    }

    /// Joins the fact implied by the operator with the type that the file states, and stores the result.
    fn settle(&mut self, node: Node, value: Value, fact: Fact) {
        let stated = self.module.ty(value);
        let fact = fact.simplified(&self.module.domain().ranges);
        let (ty, agrees) = join(&fact.ty, stated, self.module.domain());
        if !agrees {
            let name = &self.module.value(value).name;
            let message =
                format!("the file states {stated} for `{name}`, but its operator implies {}", fact.ty);
            self.report(Diagnostic::new("W0101", Severity::Warning, message).at_node(self.module, node));
        }
        // Elements are valid only for the shape they were computed with.
        let data = fact.data.filter(|data| {
            ty.tensor().is_some_and(|tensor| tensor.known_dims().as_deref() == Some(data.dims.as_slice()))
        });
        self.has_claims |= fact.ty.size().is_none() && ty.size().is_some();
        self.facts.set(value, Fact { ty, data, assumed: fact.assumed });
        self.assume(value);
    }

    /// Replaces a value's type by its assumed type, if there is an assumption about the value.
    fn assume(&mut self, value: Value) {
        let Some(assumption) = self.assumptions.get(&value) else { return };
        match assumption.of(&self.facts[value].ty) {
            Ok(tensor) if Some(&tensor) == self.facts[value].ty.tensor() => {}
            Ok(tensor) => {
                self.facts.set(value, Fact { ty: ValueType::Tensor(tensor), data: None, assumed: true })
            }
            Err(why) => drop(self.impossible.get_or_insert((value, why))),
        }
    }
}

impl Bodies for Driver<'_> {
    fn infer_body(&mut self, body: GraphId, inputs: &[Fact]) -> Result<Vec<Fact>, InferError> {
        if self.depth >= MAX_DEPTH {
            return Err(InferError::TooDeep { limit: MAX_DEPTH });
        }
        let module = self.module;
        let graph = module.graph(body);
        for (position, input) in graph.inputs.iter().enumerate() {
            let given = inputs.get(position).cloned().unwrap_or_default();
            let (ty, _) = join(&given.ty, module.ty(*input), module.domain());
            self.facts.set(*input, Fact { ty, ..given });
        }
        self.visits = self.visits.saturating_add(graph.nodes.len() as u64);
        if self.visits <= MAX_BODY_VISITS {
            self.depth += 1;
            self.graph(body);
            self.depth -= 1;
        }
        Ok(graph.outputs.iter().map(|value| self.facts[*value].clone()).collect())
    }
    fn infer_either(&mut self, bodies: [GraphId; 2]) -> Result<[Option<Vec<Fact>>; 2], InferError> {
        let [first, second] = bodies;
        let (refused, start) = (self.refused.clone(), self.diagnostics.len());
        let of_first = self.infer_body(first, &[])?;
        let (is_first_wrong, middle) = (self.refused.len() > refused.len(), self.diagnostics.len());
        let before = self.refused.len();
        let of_second = self.infer_body(second, &[])?;
        let is_second_wrong = self.refused.len() > before;
        if is_first_wrong == is_second_wrong {
            return Ok([Some(of_first), Some(of_second)]);
        }
        self.refused = refused;
        let dropped = if is_first_wrong { start..middle } else { middle..self.diagnostics.len() };
        self.diagnostics.drain(dropped);
        Ok([Some(of_first).filter(|_| is_second_wrong), Some(of_second).filter(|_| is_first_wrong)])
    }
    fn infer_unreached(&mut self, body: GraphId) {
        self.unreached += 1;
        // An error only leaves types unknown.
        let _ = self.infer_body(body, &[]);
        self.unreached -= 1;
    }
}

/// Joins two types and tells whether they agree for all extents of a domain. `implied` wins if both state
/// something.
fn join(implied: &ValueType, stated: &ValueType, domain: &Domain) -> (ValueType, bool) {
    match (implied, stated) {
        (ValueType::Unknown, _) => (stated.clone(), true),
        (_, ValueType::Unknown) => (implied.clone(), true),
        (ValueType::Tensor(a), ValueType::Tensor(b)) => {
            let (joined, agrees) = join_tensors(a, b, domain);
            (ValueType::Tensor(joined), agrees)
        }
        (ValueType::Sequence(a), ValueType::Sequence(b)) => {
            let (joined, agrees) = join(a, b, domain);
            (ValueType::Sequence(Box::new(joined)), agrees)
        }
        (ValueType::Optional(a), ValueType::Optional(b)) => {
            let (joined, agrees) = join(a, b, domain);
            (ValueType::Optional(Box::new(joined)), agrees)
        }
        (a, b) => (a.clone(), a == b),
    }
}

fn join_tensors(implied: &TensorType, stated: &TensorType, domain: &Domain) -> (TensorType, bool) {
    use memc_ir::ElementType::Undefined;
    let element = if implied.element == Undefined { stated.element } else { implied.element };
    let mut agrees = element == stated.element || stated.element == Undefined;
    let shape = match (&implied.shape, &stated.shape) {
        (None, stated) => stated.clone(),
        (implied, None) => implied.clone(),
        (Some(a), Some(b)) if a.len() != b.len() => {
            agrees = false;
            Some(a.clone())
        }
        (Some(a), Some(b)) => {
            Some(a.iter().zip(b).map(|(a, b)| join_dims(a, b, domain, &mut agrees)).collect())
        }
    };
    (TensorType { element, shape }, agrees)
}

fn join_dims(implied: &Dim, stated: &Dim, domain: &Domain, agrees: &mut bool) -> Dim {
    match (implied, stated) {
        (Dim::Symbolic(_) | Dim::Within(_), Dim::Known(extent)) if !may_be(implied, *extent, domain) => {
            *agrees = false;
            implied.clone()
        }
        (Dim::Known(a), Dim::Known(b)) => {
            *agrees &= a == b;
            implied.clone()
        }
        (Dim::AtMost(most), Dim::Known(extent)) => {
            let fits = extent <= most;
            *agrees &= fits;
            if fits { stated.clone() } else { implied.clone() }
        }
        (Dim::AtMost(a), Dim::AtMost(b)) => Dim::AtMost(*a.min(b)),
        (Dim::Unknown, _) | (Dim::Symbolic(_) | Dim::Within(_), Dim::Known(_)) => stated.clone(),
        _ => implied.clone(),
    }
}

/// Whether an extent over free dimensions may be a number at the two largest extents of a domain: a file
/// from which somebody freed a dimension still states what other values had before. Small extents do not
/// count: a model that reads a fourth row may not run there.
fn may_be(dim: &Dim, extent: u64, domain: &Domain) -> bool {
    let fits = |back: u64| {
        let of = |range: &Range| {
            let most = range.max.unwrap_or(range.min);
            most.saturating_sub(back.saturating_mul(range.step)).max(range.min)
        };
        let point = domain.ranges.iter().map(|(name, range)| (name.clone(), of(range))).collect();
        match dim.bind(&point) {
            Dim::Known(value) => value == extent,
            Dim::AtMost(most) => extent <= most,
            _ => true,
        }
    };
    fits(0) && fits(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use memc_ir::{ConstData, ConstOrigin, ElementType, ModuleBuilder, NewNode, Operator, Origin, Payload};

    fn float(dims: &[u64]) -> ValueType {
        ValueType::Tensor(TensorType::fixed(ElementType::Float, dims))
    }

    #[test]
    fn elements_of_positions_are_those_of_inference() {
        let text = "mem 1\nir_version 10\nopset \"\" 21\nrange \"N\" from 1 to 8\ngraph @g {\ninput %x : f32[N,4]\ninput %y : f32[N,4]\nconst %two : i64[1] = [2]\n\
                    %s = Shape(%x) {end = 1} : i64[1]\n%h = Div(%s, %two) : i64[1]\n%t = Add(%h, %two) : i64[1]\n%e = Exp(%y) : f32[N,4]\n\
                    return %e, %t\n}\n";
        let mut module = memc_ir::text::parse(text).unwrap();
        let value = |module: &Module, name: &str| {
            module.values().iter().find(|(_, data)| data.name == name).unwrap().0
        };
        let (half, sum) = (value(&module, "h"), value(&module, "t"));
        let found = elements_of(&module, [sum]);
        let all = infer(&mut module).data;
        assert!(
            found[sum].is_some() && found[sum] == all[sum] && found[half] == all[half],
            "{:?}",
            found[sum]
        );
        assert!(elements_of(&module, [value(&module, "e")])[sum].is_none(), "of wanted values alone");
    }

    fn relu(stated: ValueType) -> (Module, Value) {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let x = builder.input(main, "x", float(&[2, 3]), None);
        let new = NewNode::new(Operator::onnx("Relu", 20), vec![Some(x)], vec![], Origin::Text);
        let node = builder.node(main, new, &[Some(("y".into(), stated))]);
        let y = builder.module().node(node).outputs[0].unwrap();
        builder.output(main, y);
        (builder.finish(), y)
    }

    #[test]
    fn operators_win_over_stated_types_and_the_disagreement_is_reported() {
        let (mut module, y) = relu(float(&[2, 4]));
        let inference = infer(&mut module);
        assert_eq!(module.ty(y), &float(&[2, 3]));
        assert_eq!(inference.diagnostics[0].code, "W0101");
    }

    #[test]
    fn an_extent_that_a_range_leaves_free_wins_over_a_stated_number() {
        let types = |lines: &str| {
            let head = "mem 1\nir_version 10\nopset \"\" 21\nrange \"N\" from 1 to 8\ngraph @g {\n";
            let mut module = memc_ir::text::parse(&format!("{head}{lines}return %y\n}}\n")).unwrap();
            let found = infer(&mut module).diagnostics.iter().map(|found| found.code).collect::<Vec<_>>();
            let y = module.graph(module.main()).outputs[0];
            (module.ty(y).to_string(), found)
        };
        let relu = |stated: &str| types(&format!("input %x : f32[N,4]\n%y = Relu(%x) : f32[{stated}]\n"));
        assert_eq!(relu("2,4"), ("f32[N,4]".to_owned(), vec!["W0101"]));
        assert_eq!(relu("M,4"), ("f32[N,4]".to_owned(), vec![]));
        // What only a run determines may be the number at some extents alone.
        let rows = |extent: u64| {
            let nodes = format!("%i = NonZero(%x) : i64[1,{extent}]\n%y = Relu(%x) : f32[N]\n");
            types(&format!("input %x : f32[N]\n{nodes}")).1
        };
        assert_eq!([rows(1), rows(9)], [vec![], vec!["W0101"]]);
    }

    #[test]
    fn scales_that_old_models_list_as_inputs_steer_shapes() {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let x = builder.input(main, "x", float(&[1, 1, 2, 3]), None);
        let ty = TensorType::fixed(ElementType::Float, &[4]);
        let payload =
            Payload::Raw([1.0f32, 1.0, 2.0, 3.0].iter().flat_map(|scale| scale.to_le_bytes()).collect());
        let constant = builder.constant(ConstData { ty: ty.clone(), payload, origin: ConstOrigin::New });
        let scales = builder.input(main, "scales", ValueType::Tensor(ty), Some(constant));
        let new =
            NewNode::new(Operator::onnx("Upsample", 9), vec![Some(x), Some(scales)], vec![], Origin::Text);
        let node = builder.node(main, new, &[Some(("y".into(), ValueType::Unknown))]);
        let y = builder.module().node(node).outputs[0].unwrap();
        builder.output(main, y);
        for (version, shape) in [(3, Some([1, 1, 4, 9])), (4, None)] {
            builder.module_mut().ir_version = version;
            let mut module = builder.module().clone();
            infer(&mut module);
            let found = module.ty(y).tensor().and_then(|ty| ty.known_dims());
            assert_eq!(found.as_deref(), shape.as_ref().map(|shape| &shape[..]), "version {version}");
        }
    }

    /// Infers a module text with ranges and returns the types of its results.
    fn inferred(ranges: &str, lines: &str) -> Vec<String> {
        let text = format!("mem 1\nir_version 10\nopset \"\" 21\n{ranges}\ngraph @g {{\n{lines}\n}}\n");
        let mut module = memc_ir::text::parse(&text).unwrap();
        infer(&mut module);
        let outputs = &module.graph(module.main()).outputs;
        outputs.iter().map(|value| module.ty(*value).to_string()).collect()
    }

    #[test]
    fn ranges_decide_shape_arithmetic_and_branches() {
        let clamped =
            "  input %x : f32[N,H]\n  const %zero : i64[1] = [0]\n  const %most : i64[1] = [512]\n  \
            const %one : i64[1] = [1]\n  %y = Slice(%x, %zero, %most, %one) : unknown\n  \
            %p = MaxPool(%z) {kernel_shape = [2], strides = [2]} : unknown\n  return %y, %p"
                .replace("  %p", "  %z = Unsqueeze(%x, %zero) : unknown\n  %p");
        assert_eq!(
            inferred("", &clamped),
            ["f32[N,min(512,H)]", "f32[1,N,max(1,floor(H/2))+min(1,floor((H+1)/2))-1]"]
        );
        let ranged = inferred("range \"H\" from 2 to 512 step 2", &clamped);
        assert_eq!(ranged, ["f32[N,H]", "f32[1,N,floor(H/2)]"]);
        let branch = |condition: &str| {
            format!(
                "  input %x : f32[N,H]\n  %s = Shape(%x) {{end = 1}} : unknown\n  const %k : i64[1] = [8]\n  %c = {condition} : unknown\n  \
                %y = If(%c) {{then_branch = graph @t {{\n    %a = Neg(%x) : unknown\n    return %a\n  }}, else_branch = graph @e {{\n    \
                %z = Transpose(%s) : unknown\n    return %z\n  }}}} : unknown\n  return %y"
            )
        };
        for condition in ["Less(%s, %k)", "Cast(%s) {to = 9}"] {
            assert_eq!(inferred("", &branch(condition)), ["unknown"], "{condition}");
            assert_eq!(inferred("range \"N\" from 1 to 7", &branch(condition)), ["f32[N,H]"], "{condition}");
        }
    }

    #[test]
    fn ranges_decide_on_which_side_of_an_end_a_slice_begins() {
        let lines = "  input %x : f32[N]\n  input %t : f32[40]\n  const %nine : i64[1] = [9]\n  %n = Shape(%x) : unknown\n  \
            %from = Sub(%nine, %n) : unknown\n  %y = Slice(%t, %from, %nine) : unknown\n  return %y";
        assert_eq!(inferred("", lines), ["f32[?<=9]"]);
        assert_eq!(inferred("range \"N\" from 0 to 9", lines), ["f32[N]"]);
        assert_eq!(inferred("range \"N\" from 8 to 10", lines), ["f32[?<=9]"]);
    }

    #[test]
    fn an_element_that_may_be_zero_may_copy_another_extent() {
        let reshaped = |range: &str, from: &str, axis: usize, attributes: &str| {
            let lines = format!(
                "  input %x : f32[{from}]\n  %s = Shape(%x) {{start = {axis}, end = {}}} : unknown\n  const %m : i64[1] = [-1]\n  \
                %t = Concat(%s, %m) {{axis = 0}} : unknown\n  %y = Reshape(%x, %t) {{{attributes}}} : unknown\n  return %y",
                axis + 1
            );
            inferred(range, &lines).join("")
        };
        let zero = "range \"N\" from 0 to 8";
        assert_eq!(reshaped(zero, "5,N,16", 1, ""), "f32[?<=max(5,N),?<=80]", "at 0 the result is (5, 0)");
        assert_eq!(reshaped("range \"N\" from 1 to 8", "5,N,16", 1, ""), "f32[N,80]");
        assert_eq!(reshaped(zero, "N,5,16", 0, ""), "f32[N,80]", "it copies itself");
        assert_eq!(reshaped(zero, "5,N,16", 1, "allowzero = 1"), "f32[N,80]", "nothing is copied");
    }

    #[test]
    fn nodes_of_a_branch_that_never_runs_are_not_refused() {
        let refused = |range: &str, other: &str| {
            let text = format!(
                "mem 1\nir_version 10\nopset \"\" 21\n{range}\ngraph @g {{\n  input %x : f32[N,3]\n  const %one : i64[1] = [1]\n  \
                const %axis : i64[1] = [1]\n  %s = Shape(%x) {{end = 1}} : unknown\n  %c = Equal(%s, %one) : unknown\n  \
                %y = If(%c) {{then_branch = graph @t {{\n    %a = Squeeze(%x, %axis) : unknown\n    return %a\n  }}, \
                else_branch = graph @e {{\n    %b = {other} : unknown\n    return %b\n  }}}} : unknown\n  return %y\n}}\n"
            );
            let mut module = memc_ir::text::parse(&text).unwrap();
            let inference = infer(&mut module);
            let ty = module.ty(module.graph(module.main()).outputs[0]).to_string();
            (inference.refused.len(), inference.diagnostics.len(), ty)
        };
        assert_eq!(refused("range \"N\" from 2 to 8", "Neg(%x)"), (0, 0, "f32[N,3]".to_owned()));
        // A run that ends takes the other branch.
        assert_eq!(refused("range \"N\" from 1 to 8", "Neg(%x)"), (0, 0, "f32[N,3]".to_owned()));
        assert_eq!(refused("range \"N\" from 1 to 8", "Squeeze(%x, %axis)"), (2, 2, "unknown".to_owned()));
        assert_eq!(refused("range \"N\" from 1 to 1", "Neg(%x)").0, 1, "the wrong branch runs");
    }

    #[test]
    fn a_missing_stated_type_is_filled_without_diagnostics() {
        let (mut module, y) = relu(ValueType::Unknown);
        assert!(infer(&mut module).diagnostics.is_empty());
        assert_eq!(module.ty(y), &float(&[2, 3]));
    }
}
