//! `--last-token`: outputs with a row for each token keep the last one, which is proven and compared. Other
//! models are refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::decoder::{Decoder, Mask};
use crate::models_made::{bytes, fixed, floats, int, node, of_type, raw, stated, symbolic, with};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::type_proto::Value as Kind;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto};

/// A tensor whose extents are numbers or names.
fn sized(name: &str, element: i32, dims: &[&str]) -> ValueInfoProto {
    let mut info = of_type(symbolic(name, dims), element);
    number(&mut info);
    info
}

/// Makes names of extents that are numbers extents.
pub fn number(info: &mut ValueInfoProto) {
    let Some(Kind::TensorType(tensor)) = info.r#type.as_mut().unwrap().value.as_mut() else { panic!() };
    for dim in &mut tensor.shape.as_mut().unwrap().dim {
        if let Some(Extent::DimParam(text)) = &dim.value {
            dim.value = text.parse().ok().map(Extent::DimValue).or(dim.value.take());
        }
    }
}

/// Ids of tokens, two layers, and logits of all of them.
fn logits(extents: &[&str]) -> ModelProto {
    let nodes = vec![
        node("Gather", &["table", "ids"], &["a"]),
        node("Tanh", &["a"], &["b"]),
        node("MatMul", &["b", "head"], &["logits"]),
        node("Tanh", &["a"], &["hidden"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![sized("ids", 7, extents)];
        let all = |last: &'static str| [extents, &[last]].concat();
        graph.output = vec![sized("logits", 1, &all("300")), sized("hidden", 1, &all("16"))];
        graph.initializer = vec![floats("table", &[300, 16]), floats("head", &[16, 300])];
    })
}

fn shape(folder: &Folder, model: &str, output: &str) -> Vec<i64> {
    let file = ModelFile::open(folder.path(model)).unwrap();
    let info = file.graph().output.iter().find(|info| info.name() == output).unwrap().clone();
    let Some(Kind::TensorType(tensor)) = info.r#type.unwrap().value else { panic!() };
    tensor
        .shape
        .unwrap()
        .dim
        .iter()
        .map(|dim| match &dim.value {
            Some(Extent::DimValue(extent)) => *extent,
            _ => -1,
        })
        .collect()
}

#[test]
fn the_last_row_is_computed_alone_and_proven() {
    let folder = Folder::new("last-token");
    folder.write("in.onnx", bytes(&logits(&["batch", "seq"])));
    folder.memc("optimize in.onnx -o all.onnx --dim batch=2 --dim seq=64").done();
    let ran = folder.memc("optimize in.onnx -o out.onnx --dim batch=2 --dim seq=64 --last-token").done();
    assert!(ran.err.contains("W0364") && ran.err.contains("`logits`"), "{}", ran.err);
    assert_eq!(shape(&folder, "out.onnx", "logits"), [2, 1, 300]);
    assert_eq!(shape(&folder, "out.onnx", "hidden"), [2, 1, 16]);
    assert_eq!(shape(&folder, "all.onnx", "logits"), [2, 64, 300]);
    let read = |name: &str| memc_layout::read(&folder.read(name)).unwrap();
    let (all, last) = (read("all.layout.json"), read("out.layout.json"));
    assert!(
        last.arenas[0].size * 20 < all.arenas[0].size,
        "{} of {}",
        last.arenas[0].size,
        all.arenas[0].size
    );
    assert_eq!(last.last_rows.len(), 2);
    let ran = folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(!ran.err.contains("not proven"), "{}", ran.err);
    folder.memc("verify in.onnx out.onnx").done();
}

/// Ids of tokens, a sum with a skip, its normalization, and a quantized product; all rows of the sum are
/// read.
fn quantized() -> ModelProto {
    let runtime = |node: NodeProto| NodeProto { domain: Some("com.microsoft".to_owned()), ..node };
    let sizes = vec![int("K", 32), int("N", 300), int("bits", 4), int("block_size", 32)];
    let nodes = vec![
        node("Gather", &["table", "ids"], &["a"]),
        node("Tanh", &["a"], &["b"]),
        runtime(node("SkipSimplifiedLayerNormalization", &["a", "b", "scale"], &["n", "", "", "sum"])),
        node("Tanh", &["sum"], &["c"]),
        runtime(node("SkipLayerNormalization", &["n", "c", "scale"], &["m"])),
        runtime(stated(node("MatMulNBits", &["m", "weight", "scales"], &["logits"]), sizes)),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![sized("ids", 7, &["batch", "seq"])];
        graph.output = vec![sized("logits", 1, &["batch", "seq", "300"])];
        let weight: Vec<u8> = (0..300 * 16).map(|at| (at * 7 % 251) as u8).collect();
        let weight = TensorProto { data_type: Some(2), ..raw("weight", &[300, 1, 16], &weight) };
        graph.initializer =
            vec![floats("table", &[300, 32]), floats("scale", &[32]), floats("scales", &[300]), weight];
    });
    model
        .opset_import
        .push(OperatorSetIdProto { domain: Some("com.microsoft".to_owned()), version: Some(1) });
    model
}

#[test]
fn the_last_row_of_a_quantized_product_is_computed_alone_and_proven() {
    let folder = Folder::new("last-token-quantized");
    folder.write("in.onnx", bytes(&quantized()));
    for extents in ["--dim batch=2 --dim seq=64", "--dim batch=1 --dim seq=1..64"] {
        folder
            .memc(&format!("optimize in.onnx -o out.onnx {extents} --last-token --force --runtime ort"))
            .done();
        let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
        let wide = layout
            .tensors
            .iter()
            .filter(|tensor| tensor.bytes >= 64 * 300 * 4)
            .map(|tensor| tensor.name.as_str());
        assert_eq!(wide.collect::<Vec<_>>(), Vec::<&str>::new(), "{extents}: all logits");
        let ran = folder.memc("check in.onnx out.onnx out.layout.json").checked();
        assert!(!ran.err.contains("not proven"), "{}", ran.err);
        folder.memc("verify in.onnx out.onnx").done();
        // The sum and its normalization have equal types.
        let mut swapped = ModelFile::open(folder.path("out.onnx")).unwrap().model().clone();
        let nodes = &mut swapped.graph.as_mut().unwrap().node;
        let both =
            nodes.iter_mut().find(|node| node.op_type() == "SkipSimplifiedLayerNormalization").unwrap();
        both.output.swap(0, 3);
        let (given, out) = (
            ModelFile::open(folder.path("in.onnx")).unwrap(),
            ModelFile::from_bytes(bytes(&swapped)).unwrap(),
        );
        let options = memc_check::Options { hashes: false, ..memc_check::Options::default() };
        let report = memc_check::check(&given, &out, &layout, options);
        assert!(!(report.holds() && report.is_proven()), "{extents}: swapped results");
    }
}

#[test]
fn a_cut_at_another_position_is_not_proven() {
    let folder = Folder::new("last-token-damage");
    folder.write("in.onnx", bytes(&logits(&["1", "9"])));
    folder.memc("optimize in.onnx -o out.onnx --last-token --no-rewrite").done();
    let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
    let (given, out) =
        (ModelFile::open(folder.path("in.onnx")).unwrap(), ModelFile::open(folder.path("out.onnx")).unwrap());
    let check = |out: &ModelFile, layout: &memc_layout::Layout| {
        let options = memc_check::Options { hashes: false, ..memc_check::Options::default() };
        let report = memc_check::check(&given, out, layout, options);
        report.holds() && report.is_proven()
    };
    assert!(check(&out, &layout));
    let damages: [fn(&mut memc_layout::LastRow); 3] =
        [|row| row.axis = 2, |row| row.output = "a".to_owned(), |row| row.whole = "b".to_owned()];
    for (at, damage) in damages.iter().enumerate() {
        let mut damaged = layout.clone();
        damage(&mut damaged.last_rows[0]);
        assert!(!check(&out, &damaged), "damage {at}");
    }
    let without = memc_layout::Layout { last_rows: Vec::new(), ..layout.clone() };
    assert!(!check(&out, &without), "the claim is needed");
    // The first row in place of the last one.
    let mut other = out.model().clone();
    let graph = other.graph.as_mut().unwrap();
    let slice = graph.node.iter().find(|node| node.op_type() == "Slice").unwrap().clone();
    for (operand, number) in [(1, 0i64), (2, 1)] {
        let mut tensor =
            graph.initializer.iter().find(|tensor| tensor.name() == slice.input[operand]).unwrap().clone();
        tensor.raw_data = Some(number.to_le_bytes().to_vec().into());
        tensor.name = Some(format!("moved{operand}"));
        graph.initializer.push(tensor);
        graph
            .node
            .iter_mut()
            .filter(|node| node.op_type() == "Slice")
            .for_each(|node| node.input[operand] = format!("moved{operand}"));
    }
    assert!(!check(&ModelFile::from_bytes(bytes(&other)).unwrap(), &layout), "the first row");
}

#[test]
fn a_plan_with_the_last_row_repeats_by_its_passes() {
    let folder = Folder::new("last-token-trace");
    folder.write("in.onnx", bytes(&logits(&["1", "9"])));
    folder.memc("optimize in.onnx -o out.onnx --last-token").done();
    let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
    let passes = layout.trace.unwrap().passes;
    folder.memc(&format!("optimize in.onnx -o again.onnx --last-token --passes {passes}")).done();
    assert_eq!(
        std::fs::read(folder.path("out.onnx")).unwrap(),
        std::fs::read(folder.path("again.onnx")).unwrap()
    );
}

#[test]
fn outputs_without_a_row_for_each_token_are_refused() {
    let folder = Folder::new("last-token-refused");
    let nodes = vec![node("Tanh", &["x"], &["y"])];
    folder.write(
        "in.onnx",
        bytes(&with(nodes, |graph| {
            (graph.input, graph.output) = (vec![fixed("x", &[1, 4, 8])], vec![fixed("y", &[1, 4, 8])]);
        })),
    );
    let ran = folder.memc("optimize in.onnx -o out.onnx --last-token").refused(2, "E0367");
    assert!(ran.err.contains("integers of tokens"), "{}", ran.err);
    let nodes = vec![node("Gather", &["table", "ids"], &["a"]), node("ReduceMax", &["a"], &["y"])];
    folder.write(
        "max.onnx",
        bytes(&with(nodes, |graph| {
            (graph.input, graph.output) = (vec![sized("ids", 7, &["1", "9"])], vec![fixed("y", &[1, 1, 1])]);
            graph.initializer = vec![floats("table", &[30, 16])];
        })),
    );
    folder.memc("optimize max.onnx -o out.onnx --last-token").refused(2, "E0367");
    folder.memc("fit max.onnx --ram 1MB --last-token").refused(2, "E0367");
    assert_eq!(folder.names(), ["in.onnx", "max.onnx"]);
}

#[test]
fn a_decoder_with_caches_keeps_them_whole() {
    let decoder = Decoder {
        seed: 5,
        opset: 17,
        layers: 2,
        batch: 1,
        heads: 2,
        groups: 2,
        width: 8,
        rows: 4,
        mask: Mask::Ranges,
        heads_first: true,
        past: None,
        short_table: false,
        free_rows: true,
        free_batch: false,
    };
    let folder = Folder::new("last-token-decoder");
    folder.write("in.onnx", bytes(&decoder.model()));
    let ran = folder
        .memc("optimize in.onnx -o out.onnx --last-token --state present*=past* --dim past=0..7 --dim seq=1..4 --dim-max past+seq<=8 --dim total=past+seq")
        .done();
    assert!(ran.err.contains("W0364"), "{}", ran.err);
    assert_eq!(shape(&folder, "out.onnx", "logits"), [1, 1, 13]);
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
}
