//! Quantized models with integer kernels: planned, checked, and run on ONNX Runtime's kernels together
//! with the input model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use models_made::{bytes, fixed, float, int, ints, node, numbers, raw, stated, with};

const UINT8: i32 = 2;
const INT8: i32 = 3;
const INT32: i32 = 6;

/// Returns a constant of 8-bit integers with these values.
fn small(name: &str, dims: &[i64], ty: i32, values: impl Iterator<Item = i64>) -> TensorProto {
    let values: Vec<u8> = values.map(|value| (value & 255) as u8).collect();
    TensorProto { data_type: Some(ty), ..raw(name, dims, &values) }
}

/// A quantized network under construction: nodes and constants.
struct Network {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    activations: i32,
    weights: i32,
}

impl Network {
    /// Adds a constant scale and zero point for activations, and returns their names.
    fn scale(&mut self, name: &str, scale: f32, zero: i64) -> [String; 2] {
        let names = [format!("{name}_scale"), format!("{name}_zero")];
        if self.constants.iter().all(|constant| constant.name() != names[0]) {
            self.constants.push(TensorProto { dims: Vec::new(), ..numbers(&names[0], &[scale]) });
            self.constants.push(small(&names[1], &[], self.activations, std::iter::once(zero)));
        }
        names
    }

    /// Quantizes and dequantizes a value.
    fn requantized(&mut self, value: &str, scale: f32, zero: i64) -> String {
        let [scale, zero] = self.scale(value, scale, zero);
        let (integers, again) = (format!("{value}_integers"), format!("{value}_again"));
        self.nodes.push(node("QuantizeLinear", &[value, &scale, &zero], &[&integers]));
        self.nodes.push(node("DequantizeLinear", &[&integers, &scale, &zero], &[&again]));
        again
    }

    /// Adds an operator with a quantized result.
    fn group(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<memc_onnx_proto::onnx::AttributeProto>,
        scale: f32,
        zero: i64,
    ) -> String {
        let name = format!("v{}", self.nodes.len());
        self.nodes.push(stated(node(op, inputs, &[&name]), attributes));
        self.requantized(&name, scale, zero)
    }

    /// Adds quantized weights of these extents, with a scale for each index along an axis.
    fn filter(&mut self, name: &str, dims: &[i64], axis: usize) -> String {
        let (count, channels) = (dims.iter().product::<i64>(), dims[axis]);
        let middle = if self.weights == UINT8 { 128 } else { 0 };
        let values = (0..count).map(|i| (i * 29 + 7) % 127 - 63 + middle);
        self.constants.push(small(&format!("{name}_integers"), dims, self.weights, values));
        let scales: Vec<f32> = (0..channels).map(|i| 0.002 + 0.0005 * (i % 3) as f32).collect();
        self.constants.push(numbers(&format!("{name}_scales"), &scales));
        self.constants.push(small(
            &format!("{name}_zeros"),
            &[channels],
            self.weights,
            (0..channels).map(|_| middle),
        ));
        let inputs = [format!("{name}_integers"), format!("{name}_scales"), format!("{name}_zeros")];
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        self.nodes.push(stated(node("DequantizeLinear", &inputs, &[name]), vec![int("axis", axis as i64)]));
        name.to_owned()
    }

    /// Adds a quantized bias of channels, with the scale of sums over `filter`.
    fn bias(&mut self, name: &str, filter: &str, image_scale: f32) -> String {
        let scales =
            self.constants.iter().find(|constant| constant.name() == format!("{filter}_scales")).unwrap();
        let scales = scales.raw_data.as_ref().unwrap().chunks_exact(4);
        let scales: Vec<f32> =
            scales.map(|raw| f32::from_le_bytes(raw.try_into().unwrap()) * image_scale).collect();
        let raw_integers: Vec<u8> =
            (0..scales.len() as i32).flat_map(|i| (i * 531 - 700).to_le_bytes()).collect();
        let [integers, scale] = [format!("{name}_integers"), format!("{name}_scale")];
        self.constants.push(TensorProto {
            data_type: Some(INT32),
            ..raw(&integers, &[scales.len() as i64], &raw_integers)
        });
        self.constants.push(numbers(&scale, &scales));
        self.nodes
            .push(stated(node("DequantizeLinear", &[&integers, &scale], &[name]), vec![int("axis", 0)]));
        name.to_owned()
    }
}

/// Returns a chain of every group that has an integer kernel. It ends in floats, in integers, and in a
/// product of both.
fn network(activations: i32, weights: i32) -> ModelProto {
    let mut all = Network { nodes: Vec::new(), constants: Vec::new(), activations, weights };
    // Signed and unsigned integers represent equal numbers.
    let at = |zero: i64| if activations == UINT8 { zero } else { zero - 128 };
    let x = all.requantized("x", 0.02, at(120));
    let (w0, w1, w2, w3) = (
        all.filter("w0", &[8, 3, 3, 3], 0),
        all.filter("w1", &[8, 1, 3, 3], 0),
        all.filter("w2", &[16, 10], 1),
        all.filter("w3", &[6, 10], 0),
    );
    let b0 = all.bias("b0", "w0", 0.02);
    let same = || ints("pads", &[1, 1, 1, 1]);
    let a = all.group("Conv", &[&x, &w0, &b0], vec![same(), ints("strides", &[2, 2])], 0.03, at(100));
    all.constants.push(numbers("b1", &[0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8]));
    let b = all.group("Conv", &[&a, &w1, "b1"], vec![same(), int("group", 8)], 0.01, at(110));
    let c = all.group("Add", &[&a, &b], vec![], 0.03, at(128));
    let d = all.group(
        "MaxPool",
        &[&c],
        vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
        0.03,
        at(128),
    );
    let e = all.group("Sigmoid", &[&d], vec![], 1.0 / 256.0, at(0));
    let f = all.group("Mul", &[&d, &e], vec![], 0.025, at(90));
    let g = all.group("LeakyRelu", &[&f], vec![float("alpha", 0.1)], 0.025, at(40));
    let h = all.group("AveragePool", &[&g], vec![ints("kernel_shape", &[2, 2])], 0.02, at(30));
    let i = all.group("GlobalAveragePool", &[&h], vec![], 0.01, at(60));
    let j = all.group("GlobalAveragePool", &[&g], vec![], 0.015, at(70));
    let k = all.group("Concat", &[&i, &j], vec![int("axis", 1)], 0.015, at(64));
    let l = all.group("Flatten", &[&k], vec![], 0.015, at(64));
    let m = all.group("MatMul", &[&l, &w2], vec![], 0.005, at(128));
    all.nodes.push(node("MatMul", &[&l, &w2], &["product"]));
    let b3 = all.bias("b3", "w3", 0.005);
    let n = all.group("Gemm", &[&m, &w3, &b3], vec![int("transB", 1)], 0.003, at(128));
    all.nodes.push(stated(node("Gemm", &[&m, &w3, &b3], &["logits"]), vec![int("transB", 1)]));
    all.nodes.push(node("Relu", &[&n], &["y"]));
    let mut model = with(all.nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 3, 12, 12])];
        graph.output = vec![
            fixed("y", &[1, 6]),
            fixed("logits", &[1, 6]),
            fixed("product", &[1, 10]),
            fixed(&b, &[1, 8, 6, 6]),
        ];
        graph.initializer = all.constants;
    });
    model.opset_import = vec![OperatorSetIdProto { domain: None, version: Some(17) }];
    model
}

/// Counts the operators of the written model that compute with integers.
fn kernels(layout: &str) -> usize {
    layout
        .lines()
        .filter(|line| {
            line.contains("\"op\"")
                && ["QLinear", "QGemm", "MatMulInteger"].iter().any(|name| line.contains(name))
        })
        .count()
}

#[test]
fn every_kernel_gives_the_numbers_of_the_group_that_it_stands_for() {
    for (name, activations, weights) in [("uu", UINT8, UINT8), ("us", UINT8, INT8), ("ss", INT8, INT8)] {
        let folder = Folder::new(&format!("integers-{name}"));
        folder.write("in.onnx", bytes(&network(activations, weights)));

        for runtime in ["ort", "player", "arena"] {
            folder
                .memc(&format!("optimize in.onnx -o out.onnx --runtime {runtime} --integer-kernels"))
                .done();
            folder.memc("check in.onnx out.onnx out.layout.json").checked();
            assert_eq!(kernels(&folder.read("out.layout.json")), 14, "{name} {runtime}");
            // The coarsest scale is 0.03, for numbers up to 4. Each kept result may differ by at most
            // two of its integers.
            folder.memc("verify in.onnx out.onnx -n 3 --rtol 0 --atol 0.02").done();
        }
        folder.memc("optimize in.onnx -o out.onnx --runtime ort --integer-kernels --std-ops").done();
        assert_eq!(kernels(&folder.read("out.layout.json")), 3, "{name}");
        folder.memc("verify in.onnx out.onnx -n 3").done();
    }
}

#[test]
fn seeds_do_not_disable_requested_integer_kernels() {
    let folder = Folder::new("integers-seed");
    let mut model = network(UINT8, INT8);
    let graph = model.graph.as_mut().unwrap();
    graph
        .node
        .push(stated(node("RandomNormal", &[], &["noise"]), vec![ints("shape", &[2]), float("seed", 1.0)]));
    graph.output.push(fixed("noise", &[2]));
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --integer-kernels").done();
    let layout = folder.read("out.layout.json");
    assert_eq!(kernels(&layout), 14);
    assert!(layout.contains("\"exact\": \"false\""), "{layout}");
}

#[test]
fn integer_kernels_are_used_only_on_request() {
    let folder = Folder::new("no-integers");
    folder.write("in.onnx", bytes(&network(UINT8, INT8)));
    let ran = folder.memc("optimize in.onnx -o out.onnx --runtime ort");
    assert!(ran.err.contains("--integer-kernels"), "{ran:#?}");
    assert_eq!(kernels(&folder.read("out.layout.json")), 0);
    folder.memc("verify in.onnx out.onnx -n 3").done();
    let refused = folder.memc("optimize in.onnx -o refused.onnx --integer-kernels --exact");
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(!folder.path("refused.onnx").exists());
}
