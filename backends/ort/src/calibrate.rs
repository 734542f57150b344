//! Probes of a machine: models whose nodes are kernels of all kinds, at extents that real models have.
//!
//! Each probe reads what a node before it wrote, as in a model: its operands are then where a model's are, in
//! a cache or in memory. Weights differ from probe to probe, so no cache holds them all.

use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};
use prost::Message as _;

use crate::error::Error;

/// Domain of ONNX Runtime's own operators.
const CONTRIB: &str = "com.microsoft";

/// Domain of convolutions on images in blocks of channels.
const BLOCKS: &str = "com.microsoft.nchwc";

/// Version of the operator set of most models.
const OPSET: i64 = 17;

/// Operand of a probe, with its extents.
enum Operand<'a> {
    /// Values that the node before wrote.
    Made(&'a [i64]),
    /// The same in unsigned integers of 8 bits.
    Coded(&'a [i64]),
    /// Weights.
    Weight(&'a [i64]),
    /// Weights in integers of 8 bits.
    CodedWeight(&'a [i64]),
    /// A list of integers.
    List(&'a [i64]),
    /// A number.
    Number(f32),
    /// A number of an unsigned integer of 8 bits.
    Zero,
}

use Operand::{Coded, CodedWeight, List, Made, Number, Weight, Zero};

/// A model of probes that is being made.
#[derive(Default)]
struct Bench {
    graph: GraphProto,
    state: u64,
    /// Version of the operator set beyond [`OPSET`].
    newer: i64,
}

/// Returns the models of probes, in the order in which they are measured. `block` is the number of channels
/// in a block of the processor's convolutions; without one no probe has blocks.
///
/// # Errors
/// None that a user can cause: the models are valid.
pub fn probes(block: Option<u32>) -> Result<Vec<ModelFile>, Error> {
    let made = [
        products(),
        batched(),
        convolutions(),
        depthwise(),
        elementwise(),
        norms(),
        moves(),
        pools(),
        averages(),
        layers(),
        integers(),
    ];
    let blocks = block.map(|block| blocks(i64::from(block)));
    made.into_iter().chain(blocks).map(Bench::finish).collect()
}

impl Bench {
    fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.graph.node.len() + self.graph.initializer.len() + self.graph.input.len())
    }

    fn node(
        &mut self,
        domain: &str,
        op: &str,
        input: Vec<String>,
        attributes: Vec<AttributeProto>,
    ) -> String {
        let output = self.name("v");
        self.graph.node.push(NodeProto {
            op_type: Some(op.to_owned()),
            name: Some(output.clone()),
            domain: Some(domain.to_owned()),
            input,
            output: vec![output.clone()],
            attribute: attributes,
            ..NodeProto::default()
        });
        output
    }

    fn constant(&mut self, element: DataType, dims: &[i64], raw: Vec<u8>) -> String {
        let name = self.name("w");
        self.graph.initializer.push(TensorProto {
            name: Some(name.clone()),
            dims: dims.to_vec(),
            data_type: Some(element as i32),
            raw_data: Some(raw.into()),
            ..TensorProto::default()
        });
        name
    }

    /// Numbers between -0.1 and 0.1, none of them so small that a kernel slows down.
    fn weights(&mut self, count: i64) -> impl Iterator<Item = u64> + '_ {
        (0..count).map(|_| {
            // Knuth's generator of 64 bits (MMIX).
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.state >> 40
        })
    }

    fn made(&mut self, dims: &[i64]) -> String {
        let input = self.name("x");
        self.graph.input.push(float(&input, Some(dims)));
        self.node("", "Relu", vec![input], Vec::new())
    }

    fn operand(&mut self, operand: &Operand<'_>) -> String {
        match operand {
            Made(dims) => self.made(dims),
            Coded(dims) => {
                let scale = self.operand(&Number(0.02));
                let (value, zero) = (self.made(dims), self.operand(&Zero));
                self.node("", "QuantizeLinear", vec![value, scale, zero], Vec::new())
            }
            Weight(dims) => {
                let raw: Vec<u8> = (self.weights(dims.iter().product()))
                    .flat_map(|bits| ((bits as f32 / 16_777_216.0 - 0.5) * 0.2).to_le_bytes())
                    .collect();
                self.constant(DataType::Float, dims, raw)
            }
            CodedWeight(dims) => {
                let raw = self.weights(dims.iter().product()).map(|bits| (bits % 127) as u8).collect();
                self.constant(DataType::Int8, dims, raw)
            }
            List(numbers) => {
                let raw = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                self.constant(DataType::Int64, &[numbers.len() as i64], raw)
            }
            Number(number) => self.constant(DataType::Float, &[], number.to_le_bytes().to_vec()),
            Zero => self.constant(DataType::Uint8, &[], vec![0]),
        }
    }

    /// Adds a probe, whose first result is an output of the model.
    fn add(&mut self, domain: &str, op: &str, operands: &[Operand<'_>], attributes: Vec<AttributeProto>) {
        let inputs = operands.iter().map(|operand| self.operand(operand)).collect();
        let output = self.node(domain, op, inputs, attributes);
        let is_plain = op.ends_with("Integer");
        let element = if is_plain { DataType::Int32 } else { DataType::Float };
        let is_coded = op == "QLinearConv";
        self.graph.output.push(value(&output, if is_coded { DataType::Uint8 } else { element }, None));
    }

    fn finish(mut self) -> Result<ModelFile, Error> {
        self.graph.name = Some("probes".to_owned());
        let opset = |domain: &str, version| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let model = ModelProto {
            ir_version: Some(9),
            opset_import: vec![opset("", OPSET + self.newer), opset(CONTRIB, 1), opset(BLOCKS, 1)],
            graph: Some(self.graph),
            ..ModelProto::default()
        };
        ModelFile::from_bytes(model.encode_to_vec())
            .map_err(|_| Error::Unsupported { what: "probes of this machine" })
    }
}

fn value(name: &str, element: DataType, dims: Option<&[i64]>) -> ValueInfoProto {
    let dim = |extent: &i64| Dimension { denotation: None, value: Some(dimension::Value::DimValue(*extent)) };
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(element as i32), shape };
    let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn float(name: &str, dims: Option<&[i64]>) -> ValueInfoProto {
    value(name, DataType::Float, dims)
}

fn integer(name: &str, number: i64) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.to_owned()), i: Some(number), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Int);
    attribute
}

fn list(name: &str, numbers: &[i64]) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.to_owned()), ints: numbers.to_vec(), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Ints);
    attribute
}

/// Products of rows with one matrix: rows, inner extent, columns.
fn products() -> Bench {
    const PRODUCTS: [[i64; 3]; 26] = [
        [1, 512, 1000],
        [1, 2048, 1000],
        [1, 768, 3072],
        [1, 1280, 1000],
        [4, 256, 256],
        [16, 384, 384],
        [32, 1024, 256],
        [49, 768, 768],
        [49, 768, 3072],
        [64, 64, 64],
        [64, 512, 2048],
        [128, 768, 768],
        [128, 768, 3072],
        [128, 3072, 768],
        [128, 256, 64],
        [196, 192, 768],
        [197, 768, 768],
        [196, 384, 96],
        [256, 512, 512],
        [384, 384, 1536],
        [512, 64, 512],
        [784, 96, 384],
        [1024, 128, 512],
        [1500, 384, 384],
        [3136, 96, 96],
        [8, 2048, 512],
    ];
    let mut bench = Bench::default();
    for (index, [rows, inner, columns]) in PRODUCTS.into_iter().enumerate() {
        match index % 4 {
            3 => bench.add(
                "",
                "Gemm",
                &[Made(&[rows, inner]), Weight(&[columns, inner])],
                vec![integer("transB", 1)],
            ),
            _ => bench.add("", "MatMul", &[Made(&[1, rows, inner]), Weight(&[inner, columns])], Vec::new()),
        }
    }
    bench
}

/// Products of a batch: batch, rows, inner extent, columns; and attention.
fn batched() -> Bench {
    const BATCHED: [[i64; 4]; 16] = [
        [12, 128, 64, 128],
        [12, 128, 128, 64],
        [6, 256, 64, 256],
        [6, 256, 256, 64],
        [8, 64, 32, 64],
        [16, 49, 32, 49],
        [64, 49, 32, 49],
        [64, 49, 49, 32],
        [12, 197, 64, 197],
        [12, 197, 197, 64],
        [12, 1, 64, 512],
        [12, 1, 512, 64],
        [4, 512, 64, 512],
        [32, 16, 16, 16],
        [6, 512, 512, 64],
        [3, 1000, 64, 1000],
    ];
    const HEADS: [[i64; 3]; 8] = [
        [12, 128, 64],
        [12, 197, 64],
        [6, 256, 64],
        [8, 64, 32],
        [3, 49, 32],
        [4, 512, 64],
        [16, 100, 64],
        [6, 750, 64],
    ];
    let mut bench = Bench::default();
    for [batch, rows, inner, columns] in BATCHED {
        bench.add(
            "",
            "MatMul",
            &[Made(&[1, batch, rows, inner]), Made(&[1, batch, inner, columns])],
            Vec::new(),
        );
    }
    for [heads, rows, width] in HEADS {
        let dims = [1, rows, heads * width];
        bench.add(
            CONTRIB,
            "MultiHeadAttention",
            &[Made(&dims), Made(&dims), Made(&dims)],
            vec![integer("num_heads", heads)],
        );
    }
    bench
}

/// Convolutions: channels before and after, extent of the image, of the window, stride.
fn convolutions() -> Bench {
    const CONVS: [[i64; 5]; 48] = [
        [64, 256, 56, 1, 1],
        [256, 64, 56, 1, 1],
        [512, 128, 28, 1, 1],
        [128, 512, 28, 1, 1],
        [1024, 256, 14, 1, 1],
        [256, 1024, 14, 1, 1],
        [2048, 512, 7, 1, 1],
        [512, 2048, 7, 1, 1],
        [16, 96, 112, 1, 1],
        [96, 24, 56, 1, 1],
        [144, 24, 56, 1, 1],
        [24, 144, 56, 1, 1],
        [192, 32, 28, 1, 1],
        [32, 192, 28, 1, 1],
        [384, 64, 14, 1, 1],
        [64, 384, 14, 1, 1],
        [576, 96, 14, 1, 1],
        [960, 160, 7, 1, 1],
        [160, 960, 7, 1, 1],
        [320, 1280, 7, 1, 1],
        [32, 16, 112, 1, 1],
        [672, 112, 14, 1, 1],
        [1152, 192, 7, 1, 1],
        [1280, 8, 1, 1, 1],
        [96, 4, 1, 1, 1],
        [4, 96, 1, 1, 1],
        [480, 20, 1, 1, 1],
        [256, 512, 56, 1, 2],
        [1024, 2048, 14, 1, 2],
        [768, 192, 17, 1, 1],
        [3, 64, 224, 7, 2],
        [3, 32, 224, 3, 2],
        [64, 64, 56, 3, 1],
        [128, 128, 28, 3, 1],
        [256, 256, 14, 3, 1],
        [512, 512, 7, 3, 1],
        [128, 128, 56, 3, 2],
        [256, 256, 28, 3, 2],
        [32, 64, 56, 3, 1],
        [16, 16, 112, 3, 1],
        [48, 64, 35, 5, 1],
        [96, 96, 35, 3, 1],
        [32, 32, 74, 3, 1],
        [160, 32, 14, 3, 1],
        [128, 32, 28, 3, 1],
        [64, 3, 64, 3, 1],
        [256, 128, 32, 3, 1],
        [3, 192, 224, 16, 16],
    ];
    /// Images of one axis, and windows of one row: channels before and after, rows, columns, window.
    const LONG: [[i64; 6]; 6] = [
        [80, 384, 1, 1500, 1, 3],
        [384, 384, 1, 400, 1, 3],
        [128, 128, 17, 17, 1, 7],
        [160, 192, 17, 17, 7, 1],
        [192, 192, 17, 17, 1, 7],
        [40, 64, 1, 800, 1, 5],
    ];
    let mut bench = Bench::default();
    for [before, after, side, window, stride] in CONVS {
        let pad = if window == 16 { 0 } else { window / 2 };
        let operands =
            [Made(&[1, before, side, side]), Weight(&[after, before, window, window]), Weight(&[after])];
        bench.add("", "Conv", &operands, vec![list("pads", &[pad; 4]), list("strides", &[stride; 2])]);
    }
    for [before, after, rows, columns, high, wide] in LONG {
        let pads = list("pads", &[high / 2, wide / 2, high / 2, wide / 2]);
        let operands =
            [Made(&[1, before, rows, columns]), Weight(&[after, before, high, wide]), Weight(&[after])];
        bench.add("", "Conv", &operands, vec![pads]);
    }
    bench
}

/// Extents of convolutions with a filter for each channel: channels, extent of the image, window, stride.
const DEPTHWISE: [[i64; 4]; 20] = [
    [32, 112, 3, 1],
    [96, 112, 3, 2],
    [144, 56, 3, 1],
    [144, 56, 3, 2],
    [192, 28, 3, 1],
    [192, 28, 3, 2],
    [384, 14, 3, 1],
    [576, 14, 3, 1],
    [576, 14, 3, 2],
    [960, 7, 3, 1],
    [240, 28, 5, 1],
    [480, 14, 5, 1],
    [672, 14, 5, 1],
    [672, 14, 5, 2],
    [1152, 7, 5, 1],
    [1152, 7, 3, 1],
    [64, 42, 5, 1],
    [96, 28, 7, 1],
    [64, 56, 3, 1],
    [128, 28, 5, 2],
];

fn depthwise() -> Bench {
    let mut bench = Bench::default();
    for [channels, side, window, stride] in DEPTHWISE {
        let operands =
            [Made(&[1, channels, side, side]), Weight(&[channels, 1, window, window]), Weight(&[channels])];
        let attributes =
            vec![integer("group", channels), list("pads", &[window / 2; 4]), list("strides", &[stride; 2])];
        bench.add("", "Conv", &operands, attributes);
    }
    bench
}

/// Images for kernels that are bound by traffic: channels, extent.
const IMAGES: [[i64; 2]; 7] = [[1, 10], [8, 28], [64, 14], [32, 56], [256, 28], [96, 112], [256, 112]];

fn elementwise() -> Bench {
    let mut bench = Bench::default();
    for (index, [channels, side]) in IMAGES.into_iter().enumerate() {
        let image = [1, channels, side, side];
        for op in ["Add", "Mul"] {
            bench.add("", op, &[Made(&image), Made(&image)], Vec::new());
        }
        bench.add("", "Add", &[Made(&image), Weight(&[channels, 1, 1])], Vec::new());
        bench.add("", "Mul", &[Made(&image), Made(&[1, channels, 1, 1])], Vec::new());
        bench.add("", "Clip", &[Made(&image), Number(0.0), Number(6.0)], Vec::new());
        let channel = [channels];
        let per_channel = || Weight(&channel);
        let of_batch = [Made(&image), per_channel(), per_channel(), per_channel(), per_channel()];
        if index < 5 {
            bench.add("", "BatchNormalization", &of_batch, Vec::new());
        }
        bench.add("", "Relu", &[Made(&image)], Vec::new());
        for op in ["Sigmoid", "Tanh", "Erf", "Exp"] {
            bench.add("", op, &[Made(&image)], Vec::new());
        }
        bench.add(CONTRIB, "QuickGelu", &[Made(&image)], Vec::new());
        // Larger temporaries are returned to the system after each run, which sessions with an arena do not
        // do.
        if index < 5 {
            for op in ["Gelu", "FastGelu"] {
                bench.add(CONTRIB, op, &[Made(&[side * side, channels])], Vec::new());
            }
        }
        bench.add("", "Expand", &[Made(&[1, channels, side, 1]), List(&image)], Vec::new());
        bench.add("", "Tile", &[Made(&image), List(&[1, 1, 2, 1])], Vec::new());
        bench.add("", "Pad", &[Made(&image), List(&[0, 0, 1, 1, 0, 0, 1, 1])], Vec::new());
        bench.add("", "Div", &[Made(&image), Number(3.0)], Vec::new());
        bench.add("", "HardSwish", &[Made(&image)], Vec::new());
    }
    bench
}

/// Softmax and normalizations: rows, columns.
fn norms() -> Bench {
    const ROWS: [[i64; 2]; 10] = [
        [1, 1000],
        [12, 128],
        [128, 768],
        [196, 192],
        [197, 768],
        [384, 384],
        [768, 49],
        [1536, 128],
        [2048, 197],
        [1500, 384],
    ];
    let mut bench = Bench::default();
    for [rows, columns] in ROWS {
        let image = [1, rows, columns];
        bench.add("", "Softmax", &[Made(&image)], vec![integer("axis", -1)]);
        let layer = [Made(&image), Weight(&[columns]), Weight(&[columns])];
        bench.add("", "LayerNormalization", &layer, vec![integer("axis", -1)]);
        let skip = [Made(&image), Made(&image), Weight(&[columns]), Weight(&[columns])];
        bench.add(CONTRIB, "SkipLayerNormalization", &skip, Vec::new());
        bench.add("", "ReduceMean", &[Made(&image)], vec![list("axes", &[-1])]);
        bench.add("", "ReduceMax", &[Made(&image)], vec![list("axes", &[1])]);
        bench.add("", "ReduceMean", &[Made(&image)], vec![list("axes", &[1])]);
    }
    bench
}

/// Transposes and copies.
fn moves() -> Bench {
    const ROWS: [[i64; 3]; 9] = [
        [2, 8, 16],
        [12, 128, 64],
        [12, 197, 64],
        [6, 750, 64],
        [1, 384, 1500],
        [1, 256, 784],
        [64, 49, 96],
        [4, 64, 3136],
        [1, 96, 3136],
    ];
    let mut bench = Bench::default();
    for [outer, rows, columns] in ROWS {
        let image = [1, outer, rows, columns];
        bench.add("", "Transpose", &[Made(&image)], vec![list("perm", &[0, 1, 3, 2])]);
        bench.add("", "Transpose", &[Made(&image)], vec![list("perm", &[0, 2, 3, 1])]);
        bench.add(
            "",
            "Transpose",
            &[Made(&[1, rows, outer.max(2), columns])],
            vec![list("perm", &[0, 2, 1, 3])],
        );
        bench.add("", "Concat", &[Made(&image), Made(&image)], vec![integer("axis", 1)]);
        bench.add("", "Concat", &[Made(&image), Made(&image)], vec![integer("axis", 3)]);
        let half = [Made(&image), List(&[0]), List(&[columns / 2]), List(&[3])];
        bench.add("", "Slice", &half, Vec::new());
        let part = [Made(&image), List(&[0]), List(&[rows / 2]), List(&[2])];
        bench.add("", "Slice", &part, Vec::new());
        let picked: Vec<i64> = (0..rows).map(|row| row * 7 % rows).collect();
        bench.add("", "Gather", &[Made(&image), List(&picked)], vec![integer("axis", 2)]);
    }
    bench
}

/// Pooling: channels, extent, window, stride.
fn pools() -> Bench {
    const POOLS: [[i64; 4]; 9] = [
        [64, 112, 3, 2],
        [192, 56, 3, 2],
        [16, 28, 3, 1],
        [480, 28, 3, 2],
        [832, 14, 3, 1],
        [256, 14, 2, 2],
        [64, 56, 2, 2],
        [44, 42, 3, 1],
        [128, 28, 3, 1],
    ];
    let mut bench = Bench::default();
    for [channels, side, window, stride] in POOLS {
        let attributes = || {
            vec![
                list("kernel_shape", &[window; 2]),
                list("strides", &[stride; 2]),
                list("pads", &[window / 2; 4]),
            ]
        };
        bench.add("", "MaxPool", &[Made(&[1, channels, side, side])], attributes());
        bench.add("", "AveragePool", &[Made(&[1, channels, side, side])], attributes());
        bench.add("", "GlobalAveragePool", &[Made(&[1, channels, side / 4, side / 4])], Vec::new());
    }
    bench
}

/// Averages over windows by the kernel of later operator sets: channels, extent, window, stride.
fn averages() -> Bench {
    const POOLS: [[i64; 4]; 8] = [
        [192, 35, 3, 1],
        [64, 17, 3, 1],
        [768, 8, 3, 1],
        [44, 42, 3, 2],
        [256, 14, 2, 2],
        [16, 56, 2, 2],
        [8, 28, 5, 1],
        [84, 21, 3, 1],
    ];
    let mut bench = Bench { newer: 19 - OPSET, ..Bench::default() };
    for [channels, side, window, stride] in POOLS {
        let attributes = vec![
            list("kernel_shape", &[window; 2]),
            list("strides", &[stride; 2]),
            list("pads", &[window / 2; 4]),
            integer("count_include_pad", 1),
        ];
        bench.add("", "AveragePool", &[Made(&[1, channels, side, side])], attributes);
    }
    bench
}

/// Recurrent layers: steps, inputs, units.
fn layers() -> Bench {
    const LAYERS: [[i64; 3]; 8] = [
        [1, 64, 64],
        [8, 64, 128],
        [16, 128, 128],
        [32, 256, 256],
        [20, 512, 512],
        [50, 80, 256],
        [10, 300, 512],
        [64, 64, 64],
    ];
    let mut bench = Bench::default();
    for [steps, inputs, units] in LAYERS {
        for (op, gates) in [("LSTM", 4), ("GRU", 3)] {
            let operands = [
                Made(&[steps, 1, inputs]),
                Weight(&[1, gates * units, inputs]),
                Weight(&[1, gates * units, units]),
            ];
            bench.add("", op, &operands, vec![integer("hidden_size", units)]);
        }
    }
    bench
}

/// Products and convolutions of integers.
fn integers() -> Bench {
    const PRODUCTS: [[i64; 3]; 8] = [
        [1, 512, 1000],
        [16, 384, 384],
        [49, 768, 768],
        [64, 64, 64],
        [128, 768, 768],
        [128, 768, 3072],
        [196, 192, 768],
        [784, 96, 384],
    ];
    const CONVS: [[i64; 4]; 10] = [
        [64, 256, 28, 1],
        [256, 64, 28, 1],
        [96, 24, 56, 1],
        [24, 144, 56, 1],
        [384, 64, 14, 1],
        [160, 960, 7, 1],
        [64, 64, 28, 3],
        [128, 128, 14, 3],
        [256, 256, 14, 3],
        [32, 64, 56, 3],
    ];
    let mut bench = Bench::default();
    for [rows, inner, columns] in PRODUCTS {
        bench.add("", "MatMulInteger", &[Coded(&[rows, inner]), CodedWeight(&[inner, columns])], Vec::new());
    }
    for [before, after, side, window] in CONVS {
        let (image, filter) = ([1, before, side, side], [after, before, window, window]);
        let zero = |bench: &mut Bench| bench.constant(DataType::Int8, &[], vec![0]);
        let (x, w) = (bench.operand(&Coded(&image)), bench.operand(&CodedWeight(&filter)));
        let [scale, other, result] = [0.02, 0.001, 0.05].map(|number| bench.operand(&Number(number)));
        let (none, signed) = (bench.operand(&Zero), zero(&mut bench));
        let inputs = vec![x, scale, none.clone(), w, other, signed, result, none];
        let output = bench.node("", "QLinearConv", inputs, vec![list("pads", &[window / 2; 4])]);
        bench.graph.output.push(value(&output, DataType::Uint8, None));
    }
    bench
}

/// Convolutions on images in blocks of channels. `block` is the number of channels in one.
fn blocks(block: i64) -> Bench {
    const CONVS: [[i64; 5]; 24] = [
        [64, 256, 56, 1, 1],
        [256, 64, 56, 1, 1],
        [512, 128, 28, 1, 1],
        [128, 512, 28, 1, 1],
        [1024, 256, 14, 1, 1],
        [256, 1024, 14, 1, 1],
        [2048, 512, 7, 1, 1],
        [512, 2048, 7, 1, 1],
        [16, 96, 112, 1, 1],
        [96, 32, 56, 1, 1],
        [192, 32, 28, 1, 1],
        [32, 192, 28, 1, 1],
        [384, 64, 14, 1, 1],
        [576, 96, 14, 1, 1],
        [960, 160, 7, 1, 1],
        [320, 1280, 7, 1, 1],
        [64, 64, 56, 3, 1],
        [128, 128, 28, 3, 1],
        [256, 256, 14, 3, 1],
        [512, 512, 7, 3, 1],
        [128, 128, 56, 3, 2],
        [256, 512, 56, 1, 2],
        [32, 64, 56, 3, 1],
        [160, 32, 14, 3, 1],
    ];
    let mut bench = Bench::default();
    let up = |channels: i64| (channels + block - 1) / block * block;
    let image = |bench: &mut Bench, channels: i64, side: i64| {
        let made = bench.made(&[1, channels, side, side]);
        bench.node(BLOCKS, "ReorderInput", vec![made], Vec::new())
    };
    let end = |bench: &mut Bench, blocked: String, channels: i64| {
        let output = bench.node(BLOCKS, "ReorderOutput", vec![blocked], vec![integer("channels", channels)]);
        bench.graph.output.push(float(&output, None));
    };
    for [before, after, side, window, stride] in CONVS {
        let (before, after) = (up(before), up(after));
        let x = image(&mut bench, before, side);
        let (w, bias) =
            (bench.operand(&Weight(&[after, before, window, window])), bench.operand(&Weight(&[after])));
        let attributes = vec![
            integer("group", 1),
            list("kernel_shape", &[window; 2]),
            list("pads", &[window / 2; 4]),
            list("strides", &[stride; 2]),
            list("dilations", &[1; 2]),
        ];
        let blocked = bench.node(BLOCKS, "Conv", vec![x, w, bias], attributes);
        end(&mut bench, blocked, after);
    }
    for [channels, side, window, stride] in DEPTHWISE {
        let channels = up(channels);
        let x = image(&mut bench, channels, side);
        let (w, bias) =
            (bench.operand(&Weight(&[channels, 1, window, window])), bench.operand(&Weight(&[channels])));
        let attributes = vec![
            integer("group", channels),
            list("kernel_shape", &[window; 2]),
            list("pads", &[window / 2; 4]),
            list("strides", &[stride; 2]),
            list("dilations", &[1; 2]),
        ];
        let blocked = bench.node(BLOCKS, "Conv", vec![x, w, bias], attributes);
        end(&mut bench, blocked, channels);
    }
    bench
}
