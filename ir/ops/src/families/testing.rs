//! Test harness: builds a module of one node, runs its shape function, and prints the inferred facts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::{
    Attribute, Bytes, ConstData, ConstOrigin, Dim, ElementType, GraphId, Module, ModuleBuilder, NewNode,
    Node, Operator, Origin, Payload, TensorType, ValueType,
};

use crate::context::{Bodies, Infer, InferError};
use crate::fact::{Data, Fact, Item};
use crate::info::{OpInfo, Typed, Work};
use crate::size::Counted;
use crate::table;

/// Parses `f32[N,3,?]`, `i64[*]`, `seq<f32[2]>`, `optional<…>`, `unknown`.
pub(crate) fn ty(text: &str) -> ValueType {
    if text == "unknown" {
        return ValueType::Unknown;
    }
    let inner = |prefix: &str| {
        text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>')).map(|rest| Box::new(ty(rest)))
    };
    if let Some(inner) = inner("seq<") {
        return ValueType::Sequence(inner);
    }
    if let Some(inner) = inner("optional<") {
        return ValueType::Optional(inner);
    }
    ValueType::Tensor(tensor(text))
}

/// Parses `f32[N,3,?]`, `f32[?<=4]` or `i64[*]`.
pub(crate) fn tensor(text: &str) -> TensorType {
    let (element, dims) = text.strip_suffix(']').unwrap().split_once('[').unwrap();
    let element = ElementType::from_text(element).unwrap();
    let dim = |text: &str| match text.trim() {
        "?" => Dim::Unknown,
        bounded if bounded.starts_with("?<=") => Dim::within(memc_ir::DimExpr::parse(&bounded[3..])),
        name => Dim::from_name(name),
    };
    match dims {
        "*" => TensorType::unranked(element),
        "" => TensorType::new(element, Vec::new()),
        dims => TensorType::new(element, dims.split(',').map(dim).collect()),
    }
}

/// Creates a tensor fact with elements. Elements are separated by commas: integers, floating-point
/// numbers, `true`, `false`, `inf`, `nan`, expressions over symbols, `?<=4` or `?`.
pub(crate) fn data(ty: &str, items: &str) -> Fact {
    let ty = tensor(ty);
    let item = |text: &str| match text.trim() {
        "?" => Item::Unknown,
        bounded if bounded.starts_with("?<=") => Item::within(memc_ir::DimExpr::parse(&bounded[3..])),
        "true" => Item::Int(1),
        "false" => Item::Int(0),
        number if ty.element.is_float() => Item::Float(number.parse().unwrap()),
        number => number
            .parse()
            .map_or_else(|_| Item::from_expr(memc_ir::DimExpr::parse(number).unwrap()), Item::Int),
    };
    let items = if items.is_empty() { Vec::new() } else { items.split(',').map(item).collect() };
    Fact::with_data(
        Data::new(ty.element, ty.known_dims().unwrap(), items).expect("as many elements as the shape says"),
    )
}

/// Prints a fact: its type and, if its elements are followed, ` = ` and the elements in braces.
pub(crate) fn show(fact: &Fact) -> String {
    let Some(data) = &fact.data else { return fact.ty.to_string() };
    let items: Vec<String> = data
        .items
        .iter()
        .map(|item| match item {
            Item::Int(value) => value.to_string(),
            Item::Float(value) => format!("{value:?}"),
            Item::Symbolic(expr) => expr.to_string(),
            Item::AtMost(most) => format!("?<={most}"),
            Item::Within(most) => format!("?<={most}"),
            Item::Unknown => "?".to_owned(),
        })
        .collect();
    format!("{} = {{{}}}", fact.ty, items.join(","))
}

/// Implements inference of bodies by the declared types of their results.
struct Declared<'m>(&'m Module);

impl Bodies for Declared<'_> {
    fn infer_body(&mut self, body: GraphId, _inputs: &[Fact]) -> Result<Vec<Fact>, InferError> {
        Ok(self.0.graph(body).outputs.iter().map(|value| Fact::of(self.0.ty(*value).clone())).collect())
    }
    fn infer_unreached(&mut self, _: GraphId) {}
}

fn infer(
    module: &Module,
    node: Node,
    inputs: Vec<Option<Fact>>,
    info: &OpInfo,
) -> Result<Vec<Fact>, InferError> {
    let mut bodies = Declared(module);
    let mut ctx = Infer::new(module, module.node(node), inputs, &mut bodies);
    (info.infer)(&mut ctx)?;
    Ok(ctx.finish())
}

/// One node under test; operands, attributes and results are added in order.
pub(crate) struct Case {
    builder: ModuleBuilder,
    operator: Operator,
    inputs: Vec<Option<Fact>>,
    attributes: Vec<(String, Attribute)>,
    outputs: Vec<bool>,
    /// Positions of the operands that are initializers.
    constants: Vec<usize>,
}

impl Case {
    /// Creates a node of the ONNX domain with one result, at a version of the operator set.
    pub(crate) fn new(name: &str, version: i64) -> Self {
        Self::of("", name, version)
    }
    /// Creates a node of any domain with one result.
    pub(crate) fn of(domain: &str, name: &str, version: i64) -> Self {
        let operator = Operator { domain: domain.into(), ..Operator::onnx(name, version) };
        Self {
            builder: ModuleBuilder::new(),
            operator,
            inputs: Vec::new(),
            attributes: Vec::new(),
            outputs: vec![true],
            constants: Vec::new(),
        }
    }
    /// Adds an operand of a type, in the notation of [`ty`]; an empty text omits the operand.
    pub(crate) fn input(self, text: &str) -> Self {
        let fact = (!text.is_empty()).then(|| Fact::of(ty(text)));
        self.fact(fact)
    }
    /// Adds an operand with elements, in the notation of [`data`].
    pub(crate) fn data(self, ty: &str, items: &str) -> Self {
        self.fact(Some(data(ty, items)))
    }
    /// Adds an operand that is a vector of 64-bit integers.
    pub(crate) fn ints_data(self, values: &[i64]) -> Self {
        self.fact(Some(Fact::with_data(Data::ints(values))))
    }
    /// Adds an operand; `None` omits it.
    pub(crate) fn fact(mut self, fact: Option<Fact>) -> Self {
        self.inputs.push(fact);
        self
    }
    /// Adds an attribute.
    pub(crate) fn attribute(mut self, name: &str, value: Attribute) -> Self {
        self.attributes.push((name.to_owned(), value));
        self
    }
    /// Adds an integer attribute.
    pub(crate) fn int(self, name: &str, value: i64) -> Self {
        self.attribute(name, Attribute::Int(value))
    }
    /// Adds a list of integers.
    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        self.attribute(name, Attribute::Ints(values.to_vec()))
    }
    /// Adds a float attribute.
    pub(crate) fn float(self, name: &str, value: f32) -> Self {
        self.attribute(name, Attribute::Float(value))
    }
    /// Adds a string attribute.
    pub(crate) fn string(self, name: &str, value: &str) -> Self {
        self.attribute(name, Attribute::String(value.as_bytes().to_vec().into()))
    }
    /// Adds a tensor attribute with the given bytes.
    pub(crate) fn tensor(mut self, name: &str, ty: &str, raw: &[u8]) -> Self {
        let payload = Payload::Raw(raw.to_vec().into());
        let constant = self.builder.constant(ConstData { ty: tensor(ty), payload, origin: ConstOrigin::New });
        self.attribute(name, Attribute::Tensor(constant))
    }
    /// Adds a body whose formal inputs and results have these types; inference of the body returns the
    /// types of the results.
    pub(crate) fn body(mut self, name: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let graph = self.builder.graph(name);
        for (index, input) in inputs.iter().enumerate() {
            self.builder.input(graph, &format!("{name}_in{index}"), ty(input), None);
        }
        let results: Vec<_> =
            outputs.iter().enumerate().map(|(i, text)| Some((format!("{name}_out{i}"), ty(text)))).collect();
        let new = NewNode::new(Operator::onnx("Body", 1), Vec::new(), Vec::new(), Origin::Text);
        let node = self.builder.node(graph, new, &results);
        for value in self.builder.module().node(node).outputs.clone().into_iter().flatten() {
            self.builder.output(graph, value);
        }
        self.attribute(name, Attribute::Graph(graph))
    }
    /// Requests this many results.
    pub(crate) fn outputs(self, count: usize) -> Self {
        self.wanted(&vec![true; count])
    }
    /// Requests the results marked `true`; omits the others.
    pub(crate) fn wanted(mut self, wanted: &[bool]) -> Self {
        self.outputs = wanted.to_vec();
        self
    }
    /// Makes operand `index` an initializer.
    pub(crate) fn constant(mut self, index: usize) -> Self {
        self.constants.push(index);
        self
    }
    /// Builds the module with the node, the facts of its operands, and the table entry.
    fn build(mut self) -> (Module, Node, Vec<Option<Fact>>, &'static OpInfo) {
        let info =
            table::lookup(&self.operator).unwrap_or_else(|| panic!("{} is not in the table", self.operator));
        let main = self.builder.module().main();
        let mut inputs = Vec::new();
        for (index, fact) in self.inputs.iter().enumerate() {
            let name = format!("in{index}");
            inputs.push(fact.as_ref().map(|fact| match &fact.ty {
                ValueType::Tensor(ty) if self.constants.contains(&index) => {
                    let data =
                        ConstData { ty: ty.clone(), payload: Payload::Elided, origin: ConstOrigin::New };
                    let constant = self.builder.constant(data);
                    self.builder.initializer(main, &name, constant)
                }
                ty => self.builder.input(main, &name, ty.clone(), None),
            }));
        }
        let results: Vec<_> = self
            .outputs
            .iter()
            .enumerate()
            .map(|(index, wanted)| wanted.then(|| (format!("out{index}"), ValueType::Unknown)))
            .collect();
        let new = NewNode::new(self.operator, inputs, self.attributes, Origin::Text);
        let node = self.builder.node(main, new, &results);
        (self.builder.finish(), node, self.inputs, info)
    }
    /// Runs the shape function of the table entry.
    pub(crate) fn run(self) -> Result<Vec<Fact>, InferError> {
        let (module, node, inputs, info) = self.build();
        infer(&module, node, inputs, info)
    }
    /// Returns arithmetic and workspace by the formulas of the entry; `None` without a formula.
    pub(crate) fn costs(self) -> (Option<u64>, Option<Bytes>) {
        self.typed(|typed, info| {
            let work = if let Work::Flops(formula) = info.work { formula(typed) } else { None };
            let workspace = info.workspace.and_then(|formula| formula(&Counted::in_numbers(typed)));
            (work, workspace.and_then(|size| size.known()).map(Bytes))
        })
    }
    /// Calls `read` with the node and its entry, after inference of the results. If the shape function
    /// rejects the node, all results get the fact of operand 0, so that formulas are also tested with
    /// results that do not fit.
    pub(crate) fn typed<T>(self, read: impl FnOnce(&Typed<'_>, &OpInfo) -> T) -> T {
        let (mut module, node, inputs, info) = self.build();
        let first = inputs.first().cloned().flatten().unwrap_or_default();
        let facts = infer(&module, node, inputs, info)
            .unwrap_or_else(|_| vec![first; module.node(node).outputs.len()]);
        for (result, fact) in facts.into_iter().enumerate() {
            if let Some(value) = module.node(node).outputs[result] {
                module.set_type(value, fact.ty);
            }
        }
        read(&Typed::of(&module, node), info)
    }
    /// Prints the fact of result 0; an error begins with `error: `.
    pub(crate) fn show(self) -> String {
        self.show_all().split("; ").next().unwrap_or_default().to_owned()
    }
    /// Prints the facts of all results, separated by `; `; an error begins with `error: `.
    pub(crate) fn show_all(self) -> String {
        match self.run() {
            Ok(facts) => facts.iter().map(show).collect::<Vec<_>>().join("; "),
            Err(error) => format!("error: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_print_types_elements_and_errors() {
        assert_eq!(Case::new("Relu", 14).input("f32[N,?,3]").show(), "f32[N,?,3]");
        assert_eq!(Case::new("Add", 14).data("i64[2]", "1,N").ints_data(&[2]).show(), "i64[2] = {3,N+2}");
        assert_eq!(Case::new("Relu", 14).show(), "error: operand 0 is missing");
    }
}
