//! Generates model files from bytes. Most parts are valid, so that models get far; a few names, extents
//! and attributes are not.

use memc::memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc::memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
use memc::memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};
use memc::memc_ops;

use crate::Choices;

const FLOAT: i32 = 1;
const INT64: i32 = 7;
/// `data_location` of a tensor whose bytes are in another file.
const EXTERNAL: i32 = 1;
/// Maximum nesting depth of bodies.
const DEEPEST: usize = 2;

/// Operators that share, move or alias bytes. They are chosen more often than the other hundreds of
/// operators.
const FAVORITES: [&str; 24] = [
    "Relu",
    "Add",
    "Mul",
    "MatMul",
    "Reshape",
    "Split",
    "Slice",
    "Concat",
    "Transpose",
    "Identity",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Cast",
    "Dropout",
    "Softmax",
    "Shape",
    "Gather",
    "Expand",
    "Size",
    "ConstantOfShape",
    "If",
    "Loop",
    "Scan",
];
const INTEGERS: [&str; 16] = [
    "axis",
    "keepdims",
    "to",
    "group",
    "allowzero",
    "start",
    "end",
    "num_outputs",
    "batch_dims",
    "hidden_size",
    "blocksize",
    "ceil_mode",
    "select_last_index",
    "num_scan_inputs",
    "noop_with_empty_axes",
    "num_heads",
];
const LISTS: [&str; 9] = [
    "axes",
    "perm",
    "kernel_shape",
    "strides",
    "pads",
    "dilations",
    "output_shape",
    "split",
    "scan_input_axes",
];
const STRINGS: [(&str, &str); 4] = [
    ("auto_pad", "SAME_UPPER"),
    ("equation", "ij,jk->ik"),
    ("mode", "linear"),
    ("direction", "bidirectional"),
];
const BODIES: [&str; 3] = ["then_branch", "else_branch", "body"];

/// Generator of one model.
pub struct Generator<'b> {
    choices: Choices<'b>,
    /// Names of values in scope; those of enclosing graphs come first.
    scope: Vec<String>,
    made: usize,
    depth: usize,
}

impl<'b> Generator<'b> {
    /// Creates a generator that takes its decisions from these bytes.
    pub fn new(choices: Choices<'b>) -> Self {
        Self { choices, scope: Vec::new(), made: 0, depth: 0 }
    }

    /// Generates the model.
    pub fn model(mut self) -> ModelProto {
        let version = if self.choices.once_in(8) { self.choices.below(30) as i64 } else { 21 };
        let ir_version = if self.choices.once_in(8) { self.choices.below(16) as i64 } else { 10 };
        let domains = [("", version), ("local", 1), ("com.microsoft", 1), ("ai.onnx.ml", 3)];
        let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
            domain: Some(domain.into()),
            version: Some(version),
        };
        let opset_import: Vec<OperatorSetIdProto> = domains.into_iter().map(opset).collect();
        let functions =
            if self.choices.once_in(3) { vec![self.function(opset_import.clone())] } else { Vec::new() };
        let graph = self.graph("main");
        ModelProto {
            ir_version: Some(ir_version),
            opset_import,
            functions,
            graph: Some(graph),
            ..Default::default()
        }
    }

    fn function(&mut self, opset_import: Vec<OperatorSetIdProto>) -> FunctionProto {
        self.scope = vec!["a".into(), "b".into()];
        let node = (0..=self.choices.below(3)).map(|_| self.node()).collect();
        let output = vec![self.read()];
        self.scope.clear();
        FunctionProto {
            name: Some("F".into()),
            domain: Some("local".into()),
            input: vec!["a".into(), "b".into()],
            output,
            node,
            opset_import,
            ..Default::default()
        }
    }

    fn graph(&mut self, name: &str) -> GraphProto {
        let outer = self.scope.len();
        let mut graph = GraphProto { name: Some(name.into()), ..Default::default() };
        for _ in 0..self.choices.below(4) {
            let input = self.define();
            graph.input.push(self.info(&input));
        }
        for _ in 0..self.choices.below(4) {
            // An initializer with an input's name is the input's default.
            let named = self
                .choices
                .once_in(8)
                .then(|| graph.input.first().map(|input| input.name().to_owned()))
                .flatten();
            let name = named.unwrap_or_else(|| self.define());
            let tensor = self.tensor(&name);
            graph.initializer.push(tensor);
        }
        let most = if self.depth == 0 { 14 } else { 4 };
        for _ in 0..=self.choices.below(most) {
            if !self.choices.is_done() {
                let node = self.node();
                graph.node.push(node);
            }
        }
        if self.choices.once_in(16) {
            graph.node.reverse();
        }
        for _ in 0..=self.choices.below(3) {
            let output = if self.choices.once_in(16) { "missing".to_owned() } else { self.read_from(outer) };
            if graph.output.iter().all(|info| info.name() != output) || self.choices.once_in(16) {
                graph.output.push(self.info(&output));
            }
        }
        for _ in 0..self.choices.below(3) {
            let described = self.read_from(outer);
            graph.value_info.push(self.info(&described));
        }
        self.scope.truncate(outer);
        graph
    }

    /// Returns a new name; in rare cases a used name or an odd name.
    fn define(&mut self) -> String {
        self.made += 1;
        let name = match self.choices.below(48) {
            1 => self.read(),
            2 => "scratch:n1:body".to_owned(),
            3 => "a \"b\"//\n".to_owned(),
            4 => "memc.anchor".to_owned(),
            _ => format!("v{}", self.made),
        };
        self.scope.push(name.clone());
        name
    }

    fn read(&mut self) -> String {
        self.read_from(0)
    }

    /// Returns the name of a value in scope, recent values more often. In rare cases the name is empty
    /// or undefined.
    fn read_from(&mut self, first: usize) -> String {
        let count = self.scope.len() - first.min(self.scope.len());
        match self.choices.below(64) {
            1 => String::new(),
            2 => "nowhere".to_owned(),
            _ if count == 0 => self.scope.last().cloned().unwrap_or_else(|| "x".to_owned()),
            _ => {
                let back = if self.choices.once_in(3) { count } else { count.min(4) };
                let at = self.scope.len() - 1 - self.choices.below(back);
                self.scope[at].clone()
            }
        }
    }

    fn node(&mut self) -> NodeProto {
        let (domain, operator) = self.operator();
        let attribute = self.attributes(operator);
        let input =
            (0..self.choices.below(4) + usize::from(!self.scope.is_empty())).map(|_| self.read()).collect();
        let output =
            (0..1 + self.choices.below(6) / 4 + self.choices.below(9) / 8).map(|_| self.define()).collect();
        let name = if self.choices.once_in(3) {
            format!("n{}", self.choices.below(6))
        } else {
            format!("node{}", self.made)
        };
        NodeProto {
            input,
            output,
            name: (!self.choices.once_in(9)).then_some(name),
            op_type: Some(operator.into()),
            domain: Some(domain.into()),
            attribute,
            ..Default::default()
        }
    }

    fn operator(&mut self) -> (&'static str, &'static str) {
        match self.choices.below(8) {
            1 => ("local", "F"),
            2 => ("custom", "Unheard"),
            3 | 4 => {
                let info = self.choices.pick(memc_ops::all());
                // Transfers come from planning alone.
                if info.domain == "ai.memc" { ("", "Identity") } else { (info.domain, info.name) }
            }
            _ => ("", *self.choices.pick(&FAVORITES)),
        }
    }

    fn attributes(&mut self, operator: &str) -> Vec<AttributeProto> {
        let mut all = Vec::new();
        let bodies: &[&str] = match operator {
            "If" => &BODIES[..2],
            "Loop" | "Scan" => &BODIES[2..],
            _ if self.choices.once_in(48) => &BODIES,
            _ => &[],
        };
        for name in bodies {
            if self.depth < DEEPEST && !self.choices.once_in(16) {
                self.depth += 1;
                let graph = self.graph(name);
                self.depth -= 1;
                all.push(attribute(name, AttributeType::Graph, |it| it.g = Some(graph)));
            }
        }
        // Attributes with names that real operators use, and arbitrary values.
        for _ in 0..self.choices.below(4) {
            let next = match self.choices.below(5) {
                0 | 1 => {
                    let value = self.signed();
                    attribute(*self.choices.pick(&INTEGERS), AttributeType::Int, |it| it.i = Some(value))
                }
                2 => {
                    let values = self.list();
                    attribute(*self.choices.pick(&LISTS), AttributeType::Ints, |it| it.ints = values)
                }
                3 => {
                    let (name, value) = self.choices.pick(&STRINGS);
                    attribute(name, AttributeType::String, |it| it.s = Some(value.as_bytes().to_vec()))
                }
                _ => {
                    let tensor = self.tensor("");
                    attribute("value", AttributeType::Tensor, |it| it.t = Some(tensor))
                }
            };
            if all.iter().all(|other| other.name() != next.name()) {
                all.push(next);
            }
        }
        all
    }

    /// Returns an extent, axis or flag: mostly small, of either sign; in rare cases any number.
    fn signed(&mut self) -> i64 {
        match self.choices.below(8) {
            0 => -1,
            1 => -(self.choices.below(5) as i64),
            2 => self.choices.number() as i64,
            _ => self.choices.below(5) as i64,
        }
    }

    fn list(&mut self) -> Vec<i64> {
        (0..self.choices.below(5)).map(|_| self.signed()).collect()
    }

    /// Returns the extents of a tensor with data, which are small.
    fn extents(&mut self) -> Vec<i64> {
        (0..self.choices.below(4)).map(|_| self.choices.below(5) as i64).collect()
    }

    fn tensor(&mut self, name: &str) -> TensorProto {
        let is_float = self.choices.once_in(2);
        let mut tensor = TensorProto {
            name: (!name.is_empty()).then(|| name.to_owned()),
            data_type: Some(if is_float { FLOAT } else { INT64 }),
            dims: if is_float || self.choices.once_in(2) {
                self.extents()
            } else {
                vec![self.choices.below(5) as i64]
            },
            ..Default::default()
        };
        if self.choices.once_in(12) {
            let entry = |key: &str, value: &str| StringStringEntryProto {
                key: Some(key.into()),
                value: Some(value.into()),
            };
            tensor.data_location = Some(EXTERNAL);
            tensor.external_data =
                vec![entry("location", "w.bin"), entry("offset", &self.choices.number().to_string())];
            tensor.dims = self.list();
            return tensor;
        }
        let count = tensor.dims.iter().product::<i64>();
        if self.choices.once_in(24) {
            tensor.dims = self.list();
            tensor.data_type = Some(self.choices.below(30) as i32);
        }
        match (is_float, self.choices.once_in(4)) {
            (true, true) => tensor.float_data = vec![0.5; count as usize],
            (true, false) => tensor.raw_data = Some(0.5_f32.to_le_bytes().repeat(count as usize).into()),
            (false, false) => {
                let values: Vec<u8> = (0..count).flat_map(|_| self.signed().to_le_bytes()).collect();
                tensor.raw_data = Some(values.into());
            }
            (false, true) => tensor.int64_data = (0..count).map(|_| self.signed()).collect(),
        }
        tensor
    }

    fn info(&mut self, name: &str) -> ValueInfoProto {
        if self.choices.once_in(6) {
            return ValueInfoProto { name: Some(name.into()), ..Default::default() };
        }
        let element = *self.choices.pick(&[FLOAT, FLOAT, FLOAT, INT64, 9, 10, 22, 8]);
        let dims = (0..self.choices.below(4)).map(|_| self.dim()).collect();
        let shape = (!self.choices.once_in(12)).then_some(TensorShapeProto { dim: dims });
        let tensor = type_proto::Tensor { elem_type: Some(element), shape };
        let value = match self.choices.below(24) {
            1 => {
                let inner =
                    TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..Default::default() };
                type_proto::Value::SequenceType(Box::new(type_proto::Sequence {
                    elem_type: Some(Box::new(inner)),
                }))
            }
            _ => type_proto::Value::TensorType(tensor),
        };
        let ty = TypeProto { value: Some(value), ..Default::default() };
        ValueInfoProto { name: Some(name.into()), r#type: Some(ty), ..Default::default() }
    }

    fn dim(&mut self) -> Dimension {
        let value = match self.choices.below(16) {
            1 => Some(dimension::Value::DimParam(
                (*self.choices.pick(&["N", "batch", "2*N", "N+1", "?", "-1"])).to_owned(),
            )),
            2 => None,
            3 => Some(dimension::Value::DimValue(self.choices.number() as i64)),
            4 => Some(dimension::Value::DimValue(0)),
            _ => Some(dimension::Value::DimValue(self.choices.below(9) as i64)),
        };
        Dimension { value, ..Default::default() }
    }
}

fn attribute(name: &str, ty: AttributeType, set: impl FnOnce(&mut AttributeProto)) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.into()), r#type: Some(ty as i32), ..Default::default() };
    set(&mut attribute);
    attribute
}
