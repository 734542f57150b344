//! Decoders with caches, built by hand: layouts, masks, grouped heads and operator sets as exporters write
//! them.

use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as Extent};
use memc_onnx_proto::onnx::type_proto;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto};

use super::{int, integers, ints, node, raw, stated, with};

/// How a decoder knows its positions, and which rows a query sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// All rows; positions are an input.
    None,
    /// Inputs state positions and visible rows.
    Input,
    /// Ranges over the extents of the first cache.
    Ranges,
    /// Slices of a constant triangle at the extents of the first cache.
    Buffer,
    /// A triangle of full extents, cut at a diagonal that follows from the extents of the first cache.
    Triangle,
    /// An input of visible rows, and ranges over the extents of the first cache.
    Both,
}

/// A decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    pub seed: u64,
    pub opset: i64,
    pub layers: usize,
    pub batch: i64,
    pub heads: i64,
    /// Heads of keys and values; divides `heads`.
    pub groups: i64,
    pub width: i64,
    /// New rows of a run.
    pub rows: i64,
    pub mask: Mask,
    /// Whether the axis of rows follows that of heads.
    pub heads_first: bool,
    /// Rows of the caches; `None` for the symbol `past`.
    pub past: Option<i64>,
    /// Whether positions are looked up in the first rows of their table, as many as rows after a run.
    pub short_table: bool,
    /// Whether new rows are the symbol `seq`, and rows after a run `total`; `rows` has no effect then.
    pub free_rows: bool,
    /// Whether the batch is the symbol `batch`; `batch` has no effect then.
    pub free_batch: bool,
}

/// A layer with two heads over free rows and a free batch, which counts its rows by ranges.
pub fn free() -> Decoder {
    Decoder {
        seed: 3,
        opset: 17,
        layers: 1,
        batch: 2,
        heads: 2,
        groups: 2,
        width: 8,
        rows: 1,
        mask: Mask::Ranges,
        heads_first: true,
        past: None,
        short_table: false,
        free_rows: true,
        free_batch: true,
    }
}

/// Tokens of the vocabulary, and positions of the tables.
pub const TOKENS: i64 = 13;
const POSITIONS: i64 = 40;

/// Returns numbers between -1 and 1 that depend on a seed and a name.
fn noise(seed: u64, name: &str, dims: &[i64], scale: f32) -> TensorProto {
    let start = name.bytes().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, |sum, byte| {
        sum.wrapping_mul(31) ^ u64::from(byte)
    });
    let mut state = start | 1;
    let count: i64 = dims.iter().product();
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * scale
    };
    let bytes: Vec<u8> = (0..count).flat_map(|_| next().to_le_bytes()).collect();
    raw(name, dims, &bytes)
}

/// A value of mixed extents: a number or a name each.
fn value(name: &str, element: i32, dims: &[&str]) -> ValueInfoProto {
    let extent = |text: &&str| match text.parse() {
        Ok(extent) => Extent::DimValue(extent),
        Err(_) => Extent::DimParam((*text).to_owned()),
    };
    let mut info = super::symbolic(name, dims);
    if let Some(type_proto::Value::TensorType(tensor)) = &mut info.r#type.as_mut().unwrap().value {
        tensor.elem_type = Some(element);
        let dims = dims.iter().map(|text| Dimension { value: Some(extent(text)), denotation: None });
        tensor.shape.as_mut().unwrap().dim = dims.collect();
    }
    info
}

fn scalar(name: &str, number: i64) -> TensorProto {
    TensorProto { dims: Vec::new(), ..integers(name, &[number]) }
}

impl Decoder {
    /// Extents of the batch and of new rows, as the file states them.
    fn extents(&self) -> [String; 2] {
        let batch = if self.free_batch { "batch".to_owned() } else { self.batch.to_string() };
        [batch, if self.free_rows { "seq".to_owned() } else { self.rows.to_string() }]
    }

    /// Builds the model.
    pub fn model(&self) -> ModelProto {
        let hidden = self.heads * self.width;
        let mut nodes: Vec<NodeProto> = vec![node("Gather", &["tokens", "ids"], &["token"])];
        let [batch, rows] = self.extents();
        let mut inputs = vec![value("ids", 7, &[&batch, &rows])];
        let mut constants = vec![
            noise(self.seed, "tokens", &[TOKENS, hidden], 1.0),
            noise(self.seed, "places", &[POSITIONS, hidden], 1.0),
            noise(self.seed, "head", &[hidden, TOKENS], 0.5),
            raw("zero", &[], &0f32.to_le_bytes()),
            raw("low", &[], &f32::MIN.to_le_bytes()),
            raw("root", &[], &(self.width as f32).sqrt().to_le_bytes()),
            scalar("n0", 0),
            scalar("n1", 1),
            integers("v0", &[0]),
            integers("v1", &[1]),
            integers("v2", &[2]),
            integers("v3", &[3]),
            integers("v12", &[1, 2]),
            integers("v13", &[1, 3]),
            scalar("axis", if self.heads_first { 2 } else { 1 }),
        ];
        self.positions(&mut nodes, &mut inputs, &mut constants);
        let mut table = "places";
        if self.short_table {
            nodes.extend([
                node("Unsqueeze", &["after", "v0"], &["all_rows1"]),
                node("Slice", &["places", "v0", "all_rows1", "v0", "v1"], &["short"]),
            ]);
            table = "short";
        }
        nodes.push(node("Gather", &[table, "position"], &["place"]));
        nodes.push(node("Add", &["token", "place"], &["x0"]));
        let mut outputs = vec![value("logits", 1, &[&batch, &rows, &TOKENS.to_string()])];
        for layer in 0..self.layers {
            self.layer(layer, &mut nodes, &mut inputs, &mut outputs, &mut constants);
        }
        nodes.push(node("MatMul", &[&format!("x{}", self.layers), "head"], &["logits"]));
        let mut model = with(nodes, |graph| {
            (graph.input, graph.output, graph.initializer) = (inputs, outputs, constants)
        });
        model.opset_import = vec![OperatorSetIdProto { domain: None, version: Some(self.opset) }];
        model
    }

    /// Extents of the rows before and after a run, as the file states them.
    fn lengths(&self) -> [String; 2] {
        match self.past {
            Some(past) => [past.to_string(), (past + self.rows).to_string()],
            None if self.free_rows => ["past".to_owned(), "total".to_owned()],
            None => ["past".to_owned(), format!("past + {}", self.rows)],
        }
    }

    /// Writes the positions of new rows, and which rows they see, as `bias`.
    fn positions(
        &self,
        nodes: &mut Vec<NodeProto>,
        inputs: &mut Vec<ValueInfoProto>,
        constants: &mut Vec<TensorProto>,
    ) {
        let [_, total] = self.lengths();
        let [batch, rows] = self.extents();
        let is_given = matches!(self.mask, Mask::None | Mask::Input);
        if is_given {
            inputs.push(value("position", 7, &[&batch, &rows]));
        }
        if !is_given || self.short_table {
            match self.free_rows {
                true => nodes.extend([
                    node("Shape", &["ids"], &["ids_extents"]),
                    node("Gather", &["ids_extents", "n1"], &["count"]),
                ]),
                false => constants.push(scalar("count", self.rows)),
            }
            nodes.extend([
                node("Shape", &["past_key_0"], &["extents"]),
                node("Gather", &["extents", "axis"], &["before"]),
                node("Add", &["before", "count"], &["after"]),
            ]);
        }
        if !is_given {
            nodes.extend([
                node("Range", &["before", "after", "n1"], &["own"]),
                node("Unsqueeze", &["own", "v0"], &["position"]),
            ]);
        }
        match self.mask {
            Mask::None => {}
            Mask::Input => {
                inputs.push(value("seen", 7, &[&batch, &total]));
                nodes.extend([
                    node("Unsqueeze", &["seen", "v12"], &["seen4"]),
                    stated(node("Cast", &["seen4"], &["is_seen"]), vec![int("to", 9)]),
                    node("Where", &["is_seen", "zero", "low"], &["bias"]),
                ]);
            }
            Mask::Ranges => nodes.extend([
                node("Range", &["n0", "after", "n1"], &["all"]),
                node("Unsqueeze", &["own", "v1"], &["column"]),
                node("LessOrEqual", &["all", "column"], &["is_seen"]),
                node("Where", &["is_seen", "zero", "low"], &["bias"]),
            ]),
            Mask::Both => {
                inputs.push(value("seen", 7, &[&batch, &total]));
                nodes.extend([
                    node("Range", &["n0", "after", "n1"], &["all"]),
                    node("Unsqueeze", &["own", "v1"], &["column"]),
                    node("LessOrEqual", &["all", "column"], &["is_before"]),
                    node("Unsqueeze", &["seen", "v12"], &["seen4"]),
                    stated(node("Cast", &["seen4"], &["is_seen"]), vec![int("to", 9)]),
                    node("And", &["is_before", "is_seen"], &["is_both"]),
                    node("Where", &["is_both", "zero", "low"], &["bias"]),
                ]);
            }
            Mask::Triangle => nodes.extend([
                node("Unsqueeze", &["count", "v0"], &["count1"]),
                node("Unsqueeze", &["after", "v0"], &["after1"]),
                stated(node("Concat", &["count1", "after1"], &["square"]), vec![int("axis", 0)]),
                node("Expand", &["low", "square"], &["lows"]),
                node("Add", &["before", "n1"], &["diagonal"]),
                node("Trilu", &["lows", "diagonal"], &["bias"]),
            ]),
            Mask::Buffer => {
                let triangle =
                    (0..POSITIONS).flat_map(|row| (0..POSITIONS).map(move |column| u8::from(column <= row)));
                let bytes: Vec<u8> = triangle.collect();
                constants.push(TensorProto {
                    data_type: Some(9),
                    ..raw("triangle", &[1, 1, POSITIONS, POSITIONS], &bytes)
                });
                nodes.extend([
                    node("Unsqueeze", &["before", "v0"], &["from"]),
                    node("Unsqueeze", &["after", "v0"], &["to"]),
                    node("Slice", &["triangle", "from", "to", "v2", "v1"], &["some"]),
                    node("Slice", &["some", "v0", "to", "v3", "v1"], &["is_seen"]),
                    node("Where", &["is_seen", "zero", "low"], &["bias"]),
                ]);
            }
        }
    }

    fn layer(
        &self,
        layer: usize,
        nodes: &mut Vec<NodeProto>,
        inputs: &mut Vec<ValueInfoProto>,
        outputs: &mut Vec<ValueInfoProto>,
        constants: &mut Vec<TensorProto>,
    ) {
        let name = |text: &str| format!("{text}_{layer}");
        let hidden = self.heads * self.width;
        let x = format!("x{layer}");
        let shape = |heads: i64| integers("", &[0, 0, heads, self.width]);
        let permuted = |from: &str, to: &str| {
            stated(node("Transpose", &[from], &[to]), vec![ints("perm", &[0, 2, 1, 3])])
        };
        // Queries, keys and values of the new rows.
        for (kind, heads) in [("q", self.heads), ("k", self.groups), ("v", self.groups)] {
            constants.push(noise(self.seed, &name(&format!("w{kind}")), &[hidden, heads * self.width], 0.7));
            constants.push(TensorProto { name: Some(name(&format!("s{kind}"))), ..shape(heads) });
            nodes.push(node("MatMul", &[&x, &name(&format!("w{kind}"))], &[&name(&format!("{kind}0"))]));
            nodes.push(node(
                "Reshape",
                &[&name(&format!("{kind}0")), &name(&format!("s{kind}"))],
                &[&name(&format!("{kind}1"))],
            ));
        }
        nodes.push(permuted(&name("q1"), &name("q")));
        let [past, total] = self.lengths();
        for (kind, long) in [("k", "key"), ("v", "value")] {
            let (old, new) = (name(&format!("past_{long}")), name(&format!("present_{long}")));
            let fresh = name(&format!("{kind}1"));
            let ([batch, _], groups, width) =
                (self.extents(), self.groups.to_string(), self.width.to_string());
            let extents = |rows: &str| match self.heads_first {
                true => [batch.clone(), groups.clone(), rows.to_owned(), width.clone()],
                false => [batch.clone(), rows.to_owned(), groups.clone(), width.clone()],
            };
            let stated_as =
                |name: &str, rows: &str| value(name, 1, &extents(rows).each_ref().map(String::as_str));
            inputs.push(stated_as(&old, &past));
            outputs.push(stated_as(&new, &total));
            let (fresh, axis) = match self.heads_first {
                true => {
                    nodes.push(permuted(&fresh, &name(&format!("{kind}2"))));
                    (name(&format!("{kind}2")), 2)
                }
                false => (fresh, 1),
            };
            nodes.push(stated(node("Concat", &[&old, &fresh], &[&new]), vec![int("axis", axis)]));
            let mut all = new;
            if !self.heads_first {
                nodes.push(permuted(&all, &name(&format!("{kind}3"))));
                all = name(&format!("{kind}3"));
            }
            if self.groups != self.heads {
                constants
                    .push(integers(&name(&format!("times_{kind}")), &[1, 1, self.heads / self.groups, 1, 1]));
                constants.push(integers(&name(&format!("joined_{kind}")), &[0, self.heads, -1, self.width]));
                let own = |text: &str| name(&format!("{text}_{kind}"));
                nodes.extend([
                    node("Unsqueeze", &[&all, "v2"], &[&own("apart")]),
                    node("Shape", &[&own("apart")], &[&own("extents")]),
                    node("Mul", &[&own("extents"), &own("times")], &[&own("wide")]),
                    node("Expand", &[&own("apart"), &own("wide")], &[&own("repeated")]),
                    node("Reshape", &[&own("repeated"), &own("joined")], &[&own("all")]),
                ]);
                all = own("all");
            }
            nodes.push(node("Identity", &[&all], &[&name(long)]));
        }
        // Attention over all rows.
        constants.push(noise(self.seed, &name("wo"), &[hidden, hidden], 0.5));
        constants.push(TensorProto { name: Some(name("so")), ..integers("", &[0, 0, hidden]) });
        nodes.extend([
            stated(node("Transpose", &[&name("key")], &[&name("turned")]), vec![ints("perm", &[0, 1, 3, 2])]),
            node("MatMul", &[&name("q"), &name("turned")], &[&name("products")]),
            node("Div", &[&name("products"), "root"], &[&name("scores")]),
        ]);
        let mut scores = name("scores");
        if self.mask != Mask::None {
            nodes.push(node("Add", &[&scores, "bias"], &[&name("masked")]));
            scores = name("masked");
        }
        nodes.extend([
            stated(node("Softmax", &[&scores], &[&name("shares")]), vec![int("axis", -1)]),
            node("MatMul", &[&name("shares"), &name("value")], &[&name("mixed")]),
            permuted(&name("mixed"), &name("mixed1")),
            node("Reshape", &[&name("mixed1"), &name("so")], &[&name("mixed2")]),
            node("MatMul", &[&name("mixed2"), &name("wo")], &[&name("out")]),
            node("Add", &[&x, &name("out")], &[&format!("x{}", layer + 1)]),
        ]);
    }
}
