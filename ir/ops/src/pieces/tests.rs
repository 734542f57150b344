//! Tests of the splitting rules, in tables with one case per row.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::{
    Attribute, ConstData, ConstOrigin, Module, ModuleBuilder, NewNode, Operator, Origin, Payload, Value,
};

use super::{Piece, Pieces, Share, pieces, pieces_in_blocks};
use crate::families::testing::{tensor, ty};
use crate::info::Typed;

/// Runs [`pieces`] for a node and returns the answer as text. Operands are types such as `f32[8,4]`, or
/// constants such as `f32[2]=0,0`. A suffix gives the piece: ` @AXIS`, ` @AXIS/BLOCKS`, ` #AXIS`
/// (indices within a share), ` +` (sum) or ` ~` (mean).
fn asked(
    name: &str,
    version: i64,
    operands: &[&str],
    attributes: &[(&str, Attribute)],
    results: &[&str],
) -> String {
    asked_of(pieces, name, version, operands, attributes, results)
}

fn asked_of(
    pieces: fn(Share<'_>) -> Option<Pieces>,
    name: &str,
    version: i64,
    operands: &[&str],
    attributes: &[(&str, Attribute)],
    results: &[&str],
) -> String {
    // Parse the operands and their pieces.
    let mut builder = ModuleBuilder::new();
    let main = builder.module().main();
    let mut given = Vec::new();
    let mut inputs = Vec::new();
    for (index, text) in operands.iter().enumerate() {
        let (text, piece) = match text.split_once(' ') {
            Some((text, "+")) => (text, Piece::Sum),
            Some((text, "~")) => (text, Piece::Mean),
            Some((text, axis)) if axis.starts_with('#') => (text, Piece::Within(axis[1..].parse().unwrap())),
            Some((text, axis)) => match axis[1..].split_once('/') {
                Some((axis, blocks)) => {
                    (text, Piece::Blocks { axis: axis.parse().unwrap(), blocks: blocks.parse().unwrap() })
                }
                None => (text, Piece::Along(axis[1..].parse().unwrap())),
            },
            None => (*text, Piece::Whole),
        };
        given.push(piece);
        inputs.push(Some(operand(&mut builder, index, text)));
    }
    // Build the node.
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let (domain, name) = name.split_once("::").map_or(("", name), |(domain, name)| (domain, name));
    let operator = Operator { domain: domain.into(), ..Operator::onnx(name, version) };
    let new = NewNode::new(operator, inputs, attributes, Origin::Text);
    let outputs: Vec<_> =
        results.iter().enumerate().map(|(index, text)| Some((format!("y{index}"), ty(text)))).collect();
    let node = builder.node(main, new, &outputs);
    let module: &Module = builder.module();
    // Ask for the pieces and print the answer.
    let share = Share { node: Typed::of(module, node), operands: &given, parts: 2 };
    let Some(found) = pieces(share) else { return "-".to_owned() };
    let word = |piece: &Piece| match piece {
        Piece::Whole => "w".to_owned(),
        Piece::Along(axis) => axis.to_string(),
        Piece::Blocks { axis, blocks } => format!("{axis}/{blocks}"),
        Piece::Within(axis) => format!("in {axis}"),
        Piece::Sum => "+".to_owned(),
        Piece::Mean => "~".to_owned(),
        Piece::Accumulated => "^".to_owned(),
    };
    let words = |pieces: &[Piece]| pieces.iter().map(word).collect::<Vec<_>>().join(" ");
    let mut text = format!("{} -> {}", words(&found.operands), words(&found.results));
    text += &found.in_first.iter().map(|index| format!(", once {index}")).collect::<String>();
    text += &found.in_last.iter().map(|name| format!(", {name} last")).collect::<String>();
    text += &found.count.map(|count| format!(", share of {count}")).unwrap_or_default();
    for (name, index) in [("extents", found.extents), ("divided", found.divided), ("adds", found.accumulates)]
    {
        text += &index.map(|index| format!(", {name} {index}")).unwrap_or_default();
    }
    text
}

fn operand(builder: &mut ModuleBuilder, index: usize, text: &str) -> Value {
    let main = builder.module().main();
    let Some((text, items)) = text.split_once('=') else {
        return builder.input(main, &format!("x{index}"), ty(text), None);
    };
    let ty = tensor(text);
    let numbers = items.split(',').map(|item| item.parse::<i64>().unwrap());
    let raw: Vec<u8> = match ty.element {
        memc_ir::ElementType::Int64 => numbers.flat_map(i64::to_le_bytes).collect(),
        _ => numbers.flat_map(|number| (number as f32).to_le_bytes()).collect(),
    };
    let constant = ConstData { ty, payload: Payload::Raw(raw.into()), origin: ConstOrigin::New };
    let constant = builder.constant(constant);
    builder.initializer(main, &format!("c{index}"), constant)
}

fn axis(value: i64) -> (&'static str, Attribute) {
    ("axis", Attribute::Int(value))
}

#[test]
fn products_are_cut_by_outer_axes_and_added_along_the_inner_axis() {
    let product = |left, right, result| asked("MatMul", 13, &[left, right], &[], &[result]);
    assert_eq!(product("f32[8,4] @0", "f32[4,6]", "f32[8,6]"), "0 w -> 0");
    assert_eq!(product("f32[8,4]", "f32[4,6] @1", "f32[8,6]"), "w 1 -> 1");
    assert_eq!(product("f32[8,4] @1", "f32[4,6]", "f32[8,6]"), "1 0 -> +");
    assert_eq!(product("f32[2,8,4] @0", "f32[2,4,6] @0", "f32[2,8,6]"), "0 0 -> 0");
    assert_eq!(product("f32[2,8,4] @0", "f32[4,6]", "f32[2,8,6]"), "0 w -> 0");
    assert_eq!(product("f32[8,4]", "f32[2,4,6] @0", "f32[2,8,6]"), "w 0 -> 0");
    assert_eq!(product("f32[8,4] @0", "f32[4,6] @1", "f32[8,6]"), "-");
    assert_eq!(product("f32[7,4] @0", "f32[4,6]", "f32[7,6]"), "-");
    let moved = |left, right, names: &[&'static str]| {
        let attributes: Vec<_> = names.iter().map(|name| (*name, Attribute::Int(1))).collect();
        asked("com.microsoft::FusedMatMul", 1, &[left, right], &attributes, &["f32[2,6,8,10]"])
    };
    assert_eq!(moved("f32[8,2,6,4] @2", "f32[2,6,4,10]", &["transBatchA"]), "2 1 -> 1");
    assert_eq!(moved("f32[8,2,6,4] @0", "f32[2,6,4,10]", &["transBatchA"]), "0 w -> 2");
    assert_eq!(moved("f32[8,2,6,4] @3", "f32[2,6,4,10]", &["transBatchA"]), "3 2 -> +");
    assert_eq!(moved("f32[2,6,8,4] @1", "f32[10,2,6,4]", &["transBatchB", "transB"]), "1 2 -> 1");
    assert_eq!(moved("f32[2,6,8,4]", "f32[10,2,6,4] @0", &["transBatchB", "transB"]), "w 0 -> 3");
    assert_eq!(moved("f32[2,6,8,4]", "f32[4,2,6,10] @1", &["transBatchB"]), "0 1 -> 0");
    let fused = [("transA", Attribute::Int(1))];
    assert_eq!(
        asked("com.microsoft::FusedMatMul", 1, &["f32[8,4] @0", "f32[8,6] @0"], &fused, &["f32[4,6]"]),
        "0 0 -> +"
    );
}

#[test]
fn elements_of_less_than_a_byte_are_cut_out_of_constants_in_whole_bytes() {
    let decoded = |codes: &str, way: i64, result: &str| {
        asked("DequantizeLinear", 21, &[codes, "f32[4]"], &[axis(way)], &[result])
    };
    assert_eq!(decoded("i8[4,2] @0", 0, "f32[4,2]"), "0 0 -> 0");
    assert_eq!(decoded("i4[4,2]=0 @0", 0, "f32[4,2]"), "0 0 -> 0");
    assert_eq!(decoded("i4[4,2] @0", 0, "f32[4,2]"), "-");
    assert_eq!(decoded("i4[4,3]=0 @0", 0, "f32[4,3]"), "-");
    assert_eq!(decoded("i4[2,4]=0 @1", 1, "f32[2,4]"), "-");
}

#[test]
fn parts_of_gemm_are_added_with_the_addend_counted_once() {
    let gemm = |operands: &[&str], result: &str, attributes: &[(&str, Attribute)]| {
        asked("Gemm", 13, operands, attributes, &[result])
    };
    assert_eq!(gemm(&["f32[8,4] @0", "f32[4,6]", "f32[6]"], "f32[8,6]", &[]), "0 w w -> 0");
    assert_eq!(gemm(&["f32[8,4] @0", "f32[4,6]", "f32[8,1]"], "f32[8,6]", &[]), "0 w 0 -> 0");
    let transposed = ("transA", Attribute::Int(1));
    assert_eq!(
        gemm(&["f32[8,4] @0", "f32[8,6] @0"], "f32[4,6]", std::slice::from_ref(&transposed)),
        "0 0 -> +, adds 2"
    );
    let added = ["f32[8,4] @0", "f32[8,6] @0", "f32[6]"];
    assert_eq!(gemm(&added, "f32[4,6]", std::slice::from_ref(&transposed)), "0 0 w -> +, once 2, adds 2");
    assert_eq!(
        asked("Gemm", 9, &added, std::slice::from_ref(&transposed), &["f32[4,6]"]),
        "-",
        "all parts would need an addend"
    );
    let half = ("beta", Attribute::Float(0.5));
    assert_eq!(
        gemm(&["f32[8,4] @0", "f32[8,6] @0"], "f32[4,6]", &[transposed.clone(), half.clone()]),
        "0 0 -> +"
    );
    assert_eq!(gemm(&added, "f32[4,6]", &[transposed, half]), "0 0 w -> +, once 2");
}

#[test]
fn element_wise_operators_keep_the_axis_of_their_parts() {
    let add = |left, right, result| asked("Add", 13, &[left, right], &[], &[result]);
    assert_eq!(add("f32[8,4] @0", "f32[4]", "f32[8,4]"), "0 w -> 0");
    assert_eq!(add("f32[8,4] @0", "f32[8,4]", "f32[8,4]"), "0 0 -> 0");
    assert_eq!(add("f32[8,4] @0", "f32[1,4]", "f32[8,4]"), "0 w -> 0");
    assert_eq!(add("f32[8,4] @1", "f32[4]", "f32[8,4]"), "1 0 -> 1");
    assert_eq!(add("f32[4,4] @0", "f32[4,4] @1", "f32[4,4]"), "-");
    assert_eq!(add("f32[4] +", "f32[4] +", "f32[4]"), "+ + -> +");
    assert_eq!(add("f32[4] +", "f32[4]", "f32[4]"), "-");
    assert_eq!(add("f32[4] +", "f32[4] ~", "f32[4]"), "-");
    assert_eq!(asked("Mul", 13, &["f32[4] +", "f32[4] +"], &[], &["f32[4]"]), "-");
    assert_eq!(asked("Neg", 13, &["f32[4] ~"], &[], &["f32[4]"]), "~ -> ~");
    assert_eq!(asked("RandomUniformLike", 13, &["f32[8] @0"], &[], &["f32[8]"]), "-");
}

/// An unknown extent may be 1, with the operand whole for all parts, or may be as long as the split
/// axis.
#[test]
fn operands_of_unknown_extents_take_no_part() {
    let add = |left, right| asked("Add", 13, &[left, right], &[], &["f32[8,4]"]);
    assert_eq!(add("f32[8,4] @0", "f32[N,4]"), "-");
    assert_eq!(add("f32[N,4]", "f32[8,4] @1"), "-");
    let fused = |addend| {
        let operands = ["f32[2,4,5,5] @0", "f32[8,4,1,1]", "f32[8]", addend];
        asked("com.microsoft::FusedConv", 1, &operands, &[], &["f32[2,8,5,5]"])
    };
    assert_eq!(fused("f32[2,8,5,5]"), "0 w w 0 -> 0");
    assert_eq!(fused("f32[N,8,5,5]"), "-");
    let in_rows = |addend: &str| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let operands = ["f32[2,4,9,9]", "f32[8,4,3,3]", "f32[8]", addend];
        let inputs = operands
            .iter()
            .enumerate()
            .map(|(index, text)| Some(operand(&mut builder, index, text)))
            .collect();
        let operator = Operator { domain: "com.microsoft".into(), ..Operator::onnx("FusedConv", 1) };
        let new = NewNode::new(operator, inputs, Vec::new(), Origin::Text);
        let node = builder.node(main, new, &[Some(("y".to_owned(), ty("f32[2,8,7,7]")))]);
        let given = [Piece::Along(2), Piece::Whole, Piece::Whole, Piece::Whole];
        super::pieces_reaching(Typed::of(builder.module(), node), &given).map(|found| found.operands)
    };
    let rows = Piece::Along(2);
    assert_eq!(in_rows("f32[2,8,7,7]"), Some(vec![rows, Piece::Whole, Piece::Whole, rows]));
    assert_eq!(in_rows("f32[2,8,N,7]"), None);
}

#[test]
fn reductions_over_the_batch_are_added_averaged_or_refused() {
    let over = |name: &str, axes: &[i64], keep: i64, from: &str, to: &str| {
        let attributes = [("axes", Attribute::Ints(axes.to_vec())), ("keepdims", Attribute::Int(keep))];
        asked(name, 11, &[from], &attributes, &[to])
    };
    assert_eq!(over("ReduceSum", &[0], 0, "f32[8,4] @0", "f32[4]"), "0 -> +");
    assert_eq!(over("ReduceMean", &[-2], 0, "f32[8,4] @0", "f32[4]"), "0 -> ~");
    assert_eq!(over("ReduceMax", &[0], 0, "f32[8,4] @0", "f32[4]"), "-");
    assert_eq!(over("ReduceMax", &[1], 0, "f32[8,4] @0", "f32[8]"), "0 -> 0");
    assert_eq!(over("ReduceSum", &[0], 0, "f32[4,8] @1", "f32[8]"), "1 -> 0");
    assert_eq!(over("ReduceSum", &[0], 1, "f32[4,8] @1", "f32[1,8]"), "1 -> 1");
    assert_eq!(asked("ReduceMean", 18, &["i64[8] @0"], &[("keepdims", Attribute::Int(0))], &["i64[]"]), "-");
    let stated = |axes| {
        asked("ReduceSum", 13, &["f32[8,4] @0", axes], &[("keepdims", Attribute::Int(0))], &["f32[4]"])
    };
    assert_eq!(stated("i64[1]=0"), "0 w -> +");
    assert_eq!(stated("i64[1]"), "-");
}

#[test]
fn reshapes_keep_parts_if_the_outer_extents_have_equal_products() {
    let shape = |from, to| asked("Reshape", 13, &[from, "i64[2]"], &[], &[to]);
    assert_eq!(shape("f32[8,3,4] @0", "f32[24,4]"), "0 w -> 0, extents 1");
    assert_eq!(shape("f32[24,4] @0", "f32[8,3,4]"), "0 w -> 0, extents 1");
    assert_eq!(shape("f32[1,8,4] @1", "f32[8,4]"), "1 w -> 0, extents 1");
    assert_eq!(shape("f32[3,8,4] @1", "f32[24,4]"), "-");
    assert_eq!(asked("Unsqueeze", 13, &["f32[8] @0", "i64[1]=1"], &[], &["f32[8,1]"]), "0 w -> 0");
    assert_eq!(asked("Expand", 13, &["f32[8,1] @0", "i64[2]"], &[], &["f32[8,4]"]), "0 w -> 0, extents 1");
    let perm = [("perm", Attribute::Ints(vec![0, 2, 1]))];
    assert_eq!(asked("Transpose", 13, &["f32[3,8,4] @1"], &perm, &["f32[3,4,8]"]), "1 -> 2");
    assert_eq!(asked("Transpose", 13, &["f32[3,4] +"], &[], &["f32[4,3]"]), "+ -> +");
}

#[test]
fn indices_are_cut_into_parts_and_scatters_into_zeros_are_added() {
    assert_eq!(asked("Gather", 13, &["f32[9,4]", "i64[8,2] @0"], &[], &["f32[8,2,4]"]), "w 0 -> 0");
    assert_eq!(asked("Gather", 13, &["f32[9,4] @1", "i64[8,2]"], &[], &["f32[8,2,4]"]), "1 w -> 2");
    assert_eq!(asked("Gather", 13, &["f32[8,4] @0", "i64[3]"], &[], &["f32[3,4]"]), "-");
    assert_eq!(
        asked("GatherElements", 13, &["f32[8,4] @0", "i64[8,1]"], &[axis(1)], &["f32[8,1]"]),
        "0 0 -> 0"
    );
    assert_eq!(asked("GatherElements", 13, &["f32[8,4] @0", "i64[8,4]"], &[axis(0)], &["f32[8,4]"]), "-");
    let batched = |count| [("batch_dims", Attribute::Int(count))];
    let slices =
        |data, indices, count, result| asked("GatherND", 13, &[data, indices], &batched(count), &[result]);
    assert_eq!(slices("f32[9,5,8] @2", "i64[6,2]", 0, "f32[6,8]"), "2 w -> 1");
    assert_eq!(slices("f32[9,5,8]", "i64[6,2] @0", 0, "f32[6,8]"), "w 0 -> 0");
    assert_eq!(slices("f32[8,5,8] @0", "i64[6,2]", 0, "f32[6,8]"), "-");
    assert_eq!(slices("f32[9,5,8]", "i64[6,2] @1", 0, "f32[6,8]"), "-");
    assert_eq!(slices("f32[8,5,3] @0", "i64[8,6,1] @0", 1, "f32[8,6,3]"), "0 0 -> 0");
    assert_eq!(slices("f32[3,5,8] @2", "i64[3,6,1]", 1, "f32[3,6,8]"), "2 w -> 2");
    assert_eq!(slices("f32[3,8,5] @1", "i64[3,6,1]", 1, "f32[3,6,5]"), "-");
    let add = ("reduction", Attribute::String("add".into()));
    let zeros = "f32[2,1]=0,0";
    let write = |into, attributes: &[(&str, Attribute)]| {
        asked("ScatterND", 18, &[into, "i64[8,1] @0", "f32[8,1] @0"], attributes, &["f32[2,1]"])
    };
    assert_eq!(write(zeros, std::slice::from_ref(&add)), "w 0 0 -> +, adds 0");
    assert_eq!(write("f32[2,1]=0,1", std::slice::from_ref(&add)), "-");
    assert_eq!(write(zeros, &[]), "-");
    let gradient = asked(
        "com.microsoft::GatherGrad",
        1,
        &["i64[2]=9,4", "i64[8] @0", "f32[8,4] @0"],
        &[axis(0)],
        &["f32[9,4]"],
    );
    assert_eq!(gradient, "w 0 0 -> +");
}

#[test]
fn layers_are_normalized_before_their_axis() {
    let layer = ["f32[8,4] @0", "f32[4]"];
    assert_eq!(
        asked("LayerNormalization", 17, &layer, &[], &["f32[8,4]", "f32[8,1]", "f32[8,1]"]),
        "0 w -> 0 0 0"
    );
    assert_eq!(asked("LayerNormalization", 17, &["f32[8,4] @1", "f32[4]"], &[], &["f32[8,4]"]), "-");
    let gradient = ["f32[8,4] @0", "f32[8,4] @0", "f32[4]", "f32[8,1] @0", "f32[8,1] @0"];
    let found =
        asked("com.microsoft::LayerNormalizationGrad", 1, &gradient, &[], &["f32[8,4]", "f32[4]", "f32[4]"]);
    assert_eq!(found, "0 0 w 0 0 -> 0 + +");
    assert_eq!(asked("Softmax", 13, &["f32[8,4] @0"], &[], &["f32[8,4]"]), "0 -> 0");
    assert_eq!(asked("Softmax", 13, &["f32[8,4] @1"], &[], &["f32[8,4]"]), "-");
    assert_eq!(asked("Softmax", 11, &["f32[8,4,2] @1"], &[], &["f32[8,4,2]"]), "-");
    assert_eq!(asked("Concat", 13, &["f32[8,4] @0", "f32[8,2]"], &[axis(1)], &["f32[8,6]"]), "0 0 -> 0");
    assert_eq!(asked("Concat", 13, &["f32[8,4] @0", "f32[8,4]"], &[axis(0)], &["f32[16,4]"]), "-");
    assert_eq!(asked("Split", 13, &["f32[8,4] @0"], &[axis(1)], &["f32[8,2]", "f32[8,2]"]), "0 -> 0 0");
    let cut = |axes| asked("Slice", 13, &["f32[8,4] @0", "i64[1]=1", "i64[1]=3", axes], &[], &["f32[8,2]"]);
    assert_eq!((cut("i64[1]=1"), cut("i64[1]=0")), ("0 w w w -> 0".to_owned(), "-".to_owned()));
    // A slice that takes the entire range of an axis leaves this axis unchanged.
    let cut = |ranges: [&str; 3]| {
        let [starts, ends, steps] = ranges;
        asked("Slice", 13, &["f32[8,4] @0", starts, ends, "i64[2]=0,1", steps], &[], &["f32[8,2]"])
    };
    assert_eq!(cut(["i64[2]=0,1", "i64[2]=8,3", "i64[2]=1,1"]), "0 w w w w -> 0");
    assert_eq!(cut(["i64[2]=1,1", "i64[2]=8,3", "i64[2]=1,1"]), "-");
    assert_eq!(cut(["i64[2]=0,1", "i64[2]=7,3", "i64[2]=1,1"]), "-");
    assert_eq!(cut(["i64[2]=0,1", "i64[2]=-1,3", "i64[2]=1,1"]), "-");
    assert_eq!(cut(["i64[2]=0,1", "i64[2]=8,3", "i64[2]=2,1"]), "-");
    let pad = |pads| asked("Pad", 13, &["f32[8,4] @0", pads], &[], &["f32[8,6]"]);
    assert_eq!((pad("i64[4]=0,1,0,1"), pad("i64[4]=1,1,-1,1")), ("0 w -> 0".to_owned(), "-".to_owned()));
}

#[test]
fn rows_of_packed_products_and_of_sums_with_skips_are_apart() {
    let packed = |data: &str, result: &str| {
        asked("com.microsoft::MatMulNBits", 1, &[data, "u8[6,1,4]", "f32[6]"], &[], &[result])
    };
    assert_eq!(packed("f32[2,8,8] @1", "f32[2,8,6]"), "1 w w -> 1");
    assert_eq!(packed("f32[2,8,8] @0", "f32[2,8,6]"), "0 w w -> 0");
    assert_eq!(packed("f32[2,8,8] @2", "f32[2,8,6]"), "-");
    let skip = |operands: &[&str], results: &[&str]| {
        let operands: Vec<&str> = operands.iter().copied().chain(["f32[4]"]).collect();
        asked("com.microsoft::SkipLayerNormalization", 1, &operands, &[], results)
    };
    let all = ["f32[2,8,4]", "f32[2,8,1]", "f32[2,8,1]", "f32[2,8,4]"];
    assert_eq!(skip(&["f32[2,8,4] @1", "f32[2,8,4]"], &all), "1 1 w -> 1 1 1 1");
    assert_eq!(skip(&["f32[2,8,4]", "f32[8,4] @0"], &all), "1 0 w -> 1 1 1 1");
    assert_eq!(skip(&["f32[2,8,4] @0", "f32[1,8,4]"], &all), "0 w w -> 0 0 0 0");
    assert_eq!(skip(&["f32[2,8,4] @0", "f32[8,4]"], &all), "0 w w -> 0 0 0 0");
    assert_eq!(skip(&["f32[2,8,4] @2", "f32[2,8,4]"], &all), "-");
}

#[test]
fn losses_are_cut_only_if_every_label_counts_equally() {
    let ignore = ("ignore_index", Attribute::Int(-1));
    let sum = ("reduction", Attribute::String("sum".into()));
    let loss = |attributes: &[(&str, Attribute)]| {
        asked("SoftmaxCrossEntropyLoss", 13, &["f32[8,4] @0", "i64[8]"], attributes, &["f32[]", "f32[8,4]"])
    };
    assert_eq!(loss(&[]), "0 0 -> ~ 0");
    assert_eq!(loss(std::slice::from_ref(&sum)), "0 0 -> + 0");
    assert_eq!(loss(std::slice::from_ref(&ignore)), "-");
    let gradient = |attributes: &[(&str, Attribute)]| {
        let operands = ["f32[]", "f32[8,4] @0", "i64[8]"];
        asked("com.microsoft::SoftmaxCrossEntropyLossGrad", 1, &operands, attributes, &["f32[8,4]"])
    };
    assert_eq!(gradient(&[]), "w 0 0 -> 0, divided 0");
    assert_eq!(gradient(&[sum]), "w 0 0 -> 0");
    assert_eq!(gradient(&[ignore]), "-");
    assert_eq!(asked("Conv", 11, &["f32[8,3,4,4] @0", "f32[2,3,1,1]"], &[], &["f32[8,2,4,4]"]), "0 w -> 0");
    assert_eq!(
        asked("MaxPool", 11, &["f32[8,3,4,4] @0"], &[], &["f32[8,3,2,2]", "i64[8,3,2,2]"]),
        "0 -> 0 in 0"
    );
}

#[test]
fn gradients_of_convolutions_are_cut_by_batch() {
    let gradient = |operands: &[&str]| {
        let results = ["f32[2,4,5,5]", "f32[8,4,1,1]", "f32[8]"];
        asked("com.microsoft::ConvGrad", 1, operands, &[], &results)
    };
    assert_eq!(gradient(&["f32[2,8,5,5] @0", "f32[2,4,5,5] @0", "f32[8,4,1,1]"]), "0 0 w -> 0 + +");
    assert_eq!(gradient(&["f32[2,8,5,5]", "f32[2,4,5,5] @0", "f32[8,4,1,1]"]), "0 0 w -> 0 + +");
    assert_eq!(gradient(&["f32[2,8,5,5] @1", "f32[2,4,5,5]", "f32[8,4,1,1]"]), "-");
    assert_eq!(gradient(&["f32[2,8,5,5]", "f32[2,4,5,5]", "f32[8,4,1,1] @0"]), "-");
}

#[test]
fn positions_within_a_part_pass_only_operators_that_keep_them() {
    assert_eq!(
        asked("Reshape", 13, &["i64[8,4] #0", "i64[1]"], &[], &["i64[32]"]),
        "in 0 w -> in 0, extents 1"
    );
    assert_eq!(asked("Add", 13, &["i64[8,4] #0", "i64[1]"], &[], &["i64[8,4]"]), "-");
    assert_eq!(asked("Transpose", 13, &["i64[8,4] #0"], &[], &["i64[4,8]"]), "-");
    assert_eq!(asked("Gather", 13, &["f32[32]", "i64[8] #0"], &[], &["f32[8]"]), "-");
    // The producer of the indices is unknown: they may index a longer value.
    assert_eq!(asked("GatherElements", 13, &["f32[32]", "i64[8] #0"], &[], &["f32[8]"]), "-");
    assert_eq!(asked("MaxUnpool", 11, &["f32[8,1,2,2] @0", "i64[8,1,2,2] #0"], &[], &["f32[8,1,4,4]"]), "-");
}

#[test]
fn convolutions_are_cut_by_batch_and_filters_and_added_over_channels() {
    let conv = |operands: &[&str], group: i64| {
        asked("Conv", 13, operands, &[("group", Attribute::Int(group))], &["f32[2,8,5,5]"])
    };
    assert_eq!(conv(&["f32[2,4,5,5] @0", "f32[8,4,1,1]", "f32[8]"], 1), "0 w w -> 0");
    assert_eq!(conv(&["f32[2,4,5,5]", "f32[8,4,1,1] @0", "f32[8]"], 1), "w 0 0 -> 1");
    assert_eq!(conv(&["f32[2,4,5,5] @1", "f32[8,4,1,1]"], 1), "1 1 -> +");
    assert_eq!(conv(&["f32[2,4,5,5] @1", "f32[8,4,1,1]", "f32[8]"], 1), "1 1 w -> +, once 2");
    assert_eq!(conv(&["f32[2,8,5,5] @1", "f32[8,1,1,1]", "f32[8]"], 8), "1 0 0 -> 1, share of group");
    assert_eq!(conv(&["f32[2,6,5,5] @1", "f32[8,2,1,1]"], 3), "-");
    assert_eq!(conv(&["f32[2,4,5,5] @2", "f32[8,4,1,1]"], 1), "-");
    let fused = |operands: &[&str], activation: &str| {
        let activation = ("activation", Attribute::String(activation.as_bytes().to_vec().into()));
        asked("com.microsoft::FusedConv", 1, operands, &[activation], &["f32[2,8,5,5]"])
    };
    assert_eq!(fused(&["f32[2,4,5,5]", "f32[8,4,1,1]", "f32[8]", "f32[2,8,5,5] @1"], "Relu"), "w 0 0 1 -> 1");
    assert_eq!(
        fused(&["f32[2,4,5,5] @0", "f32[8,4,1,1]", "f32[8]", "f32[2,8,5,5] @0"], "Relu"),
        "0 w w 0 -> 0"
    );
    let last = "activation last, activation_params last, adds 3";
    assert_eq!(
        fused(&["f32[2,4,5,5] @1", "f32[8,4,1,1]", "f32[8]"], "Relu"),
        format!("1 1 w -> ^, once 2, {last}")
    );
    assert_eq!(
        fused(&["f32[2,4,5,5] @1", "f32[8,4,1,1]", "f32[8]", "f32[2,8,5,5]"], "Relu"),
        format!("1 1 w w -> ^, once 2, once 3, {last}")
    );
    assert_eq!(fused(&["f32[2,4,5,5] @1", "f32[8,4,1,1]", "f32[8]", "f32[2,8,5,5] @1"], "Relu"), "-");
    let transposed = |operands: &[&str]| asked("ConvTranspose", 11, operands, &[], &["f32[2,8,5,5]"]);
    assert_eq!(transposed(&["f32[2,4,5,5]", "f32[4,8,1,1] @1", "f32[8]"]), "w 1 0 -> 1");
    assert_eq!(transposed(&["f32[2,4,5,5] @0", "f32[4,8,1,1]", "f32[8]"]), "0 w w -> 0");
}

#[test]
fn unequal_parts_pass_only_operators_that_keep_the_extent() {
    let between = |name: &str, operands: &[&str], attributes: &[(&str, Attribute)], result: &str| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let inputs = operands
            .iter()
            .enumerate()
            .map(|(index, text)| Some(operand(&mut builder, index, text)))
            .collect();
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let new = NewNode::new(Operator::onnx(name, 13), inputs, attributes, Origin::Text);
        let node = builder.node(main, new, &[Some(("y".to_owned(), ty(result)))]);
        let mut given = vec![Piece::Whole; operands.len()];
        given[0] = Piece::Along(1);
        let found = super::pieces_between(Typed::of(builder.module(), node), &given, 7);
        found.map(|found| (found.operands, found.results[0]))
    };
    let (whole, along) = (Piece::Whole, Piece::Along);
    let group = |count: i64| ("group", Attribute::Int(count));
    let image = "f32[2,7,5,5]";
    assert_eq!(between("Relu", &[image], &[], image), Some((vec![along(1)], along(1))));
    let filters =
        |text: &str, groups: i64, result: &str| between("Conv", &[image, text], &[group(groups)], result);
    assert_eq!(filters("f32[7,1,3,3]", 7, "f32[2,7,3,3]"), Some((vec![along(1), along(0)], along(1))));
    assert_eq!(filters("f32[3,7,1,1]", 1, "f32[2,3,5,5]"), Some((vec![along(1), along(1)], Piece::Sum)));
    // Two filters per channel, and parts of a mean: the result has another extent, or the parts have
    // other weights.
    assert_eq!(filters("f32[14,1,3,3]", 7, "f32[2,14,3,3]"), None);
    let axes = ("axes", Attribute::Ints(vec![1]));
    assert_eq!(between("ReduceMean", &[image], std::slice::from_ref(&axes), "f32[2,1,5,5]"), None);
    assert_eq!(
        between("Reshape", &[image, "i64[3]=2,7,25"], &[], "f32[2,7,25]"),
        Some((vec![along(1), whole], along(1)))
    );
    assert_eq!(between("Reshape", &[image, "i64[2]=2,175"], &[], "f32[2,175]"), None);
}

#[test]
fn a_kernel_with_an_addend_replaces_one_without() {
    let found = |may: bool| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let inputs = ["f32[2,4,5,5]", "f32[8,4,1,1]"].iter().enumerate();
        let inputs = inputs.map(|(index, text)| Some(operand(&mut builder, index, text))).collect();
        let operator = Operator::onnx("Conv", 13);
        let new = NewNode::new(operator, inputs, Vec::new(), Origin::Text);
        let node = builder.node(main, new, &[Some(("y".to_owned(), ty("f32[2,8,5,5]")))]);
        let operands = [Piece::Along(1), Piece::Whole];
        let found = pieces(Share { node: Typed::of(builder.module(), node), operands: &operands, parts: 2 });
        let found = found.unwrap().added_by_kernel(|operator| may && &*operator.name == "FusedConv");
        (found.results[0], found.accumulates, found.operator.map(|operator| operator.domain.to_string()))
    };
    assert_eq!(found(true), (Piece::Accumulated, Some(3), Some("com.microsoft".to_owned())));
    assert_eq!(found(false), (Piece::Sum, None, None));
}

#[test]
fn pooling_and_normalization_are_cut_by_channels_or_refused() {
    let image = "f32[2,4,6,6]";
    let pool = |results: &[&str], text: &str| {
        asked("MaxPool", 12, &[text], &[("kernel_shape", Attribute::Ints(vec![2, 2]))], results)
    };
    assert_eq!(pool(&["f32[2,4,5,5]"], "f32[2,4,6,6] @1"), "1 -> 1");
    assert_eq!(pool(&["f32[2,4,5,5]", "i64[2,4,5,5]"], "f32[2,4,6,6] @1"), "-");
    assert_eq!(pool(&["f32[2,4,5,5]"], "f32[2,4,6,6] @2"), "-");
    let lrn = |text: &str| asked("LRN", 13, &[text], &[("size", Attribute::Int(3))], &[image]);
    assert_eq!((lrn("f32[2,4,6,6] @2"), lrn("f32[2,4,6,6] @1")), ("2 -> 2".to_owned(), "-".to_owned()));
    let normalized = |training: i64, text: &str, results: &[&str]| {
        let operands = [text, "f32[4]", "f32[4]", "f32[4]", "f32[4]"];
        asked("BatchNormalization", 15, &operands, &[("training_mode", Attribute::Int(training))], results)
    };
    assert_eq!(normalized(0, "f32[2,4,6,6] @1", &[image]), "1 0 0 0 0 -> 1");
    assert_eq!(normalized(0, "f32[2,4,6,6] @0", &[image]), "0 w w w w -> 0");
    assert_eq!(normalized(1, "f32[2,4,6,6] @0", &[image]), "-");
    let instance = |text: &str| asked("InstanceNormalization", 6, &[text, "f32[4]", "f32[4]"], &[], &[image]);
    assert_eq!(
        (instance("f32[2,4,6,6] @1"), instance("f32[2,4,6,6] @2")),
        ("1 0 0 -> 1".to_owned(), "-".to_owned())
    );
    let quantized =
        |text: &str, scale: &str| asked("QuantizeLinear", 13, &[text, scale, scale], &[axis(1)], &[image]);
    assert_eq!(quantized("f32[2,4,6,6] @1", "f32[4]"), "1 0 0 -> 1");
    assert_eq!(quantized("f32[2,4,6,6] @0", "f32[4]"), "0 w w -> 0");
    assert_eq!(quantized("f32[2,4,6,6] @1", "f32[]"), "1 w w -> 1");
    let resized = |text: &str, operands: &[&str]| {
        asked("Resize", 13, &[&[text], operands].concat(), &[], &["f32[2,4,12,12]"])
    };
    assert_eq!(resized("f32[2,4,6,6] @1", &["f32[0]=0", "f32[4]"]), "1 w w -> 1");
    assert_eq!(resized("f32[2,4,6,6] @1", &["f32[0]=0", "f32[0]=0", "i64[4]"]), "1 w w w -> 1, extents 3");
    assert_eq!(resized("f32[2,4,6,6] @2", &["f32[0]=0", "f32[4]"]), "-");
}

#[test]
fn shares_of_a_result_come_from_the_first_operand_that_gives_them() {
    let giving = |name: &str, operands: &[&str], result: &str, axis: usize| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let inputs = operands
            .iter()
            .enumerate()
            .map(|(index, text)| Some(operand(&mut builder, index, text)))
            .collect();
        let operator = Operator::onnx(name, 13);
        let new = NewNode::new(operator, inputs, Vec::new(), Origin::Text);
        let node = builder.node(main, new, &[Some(("y".to_owned(), ty(result)))]);
        let found = {
            let node = Typed::of(builder.module(), node);
            super::pieces_giving(node, axis, |operands| pieces(Share { node, operands, parts: 2 }))
        };
        found.map(|found| found.operands)
    };
    let (whole, along) = (Piece::Whole, Piece::Along);
    assert_eq!(giving("MatMul", &["f32[8,4]", "f32[4,6]"], "f32[8,6]", 1), Some(vec![whole, along(1)]));
    assert_eq!(giving("MatMul", &["f32[8,4]", "f32[4,6]"], "f32[8,6]", 0), Some(vec![along(0), whole]));
    assert_eq!(
        giving("Conv", &["f32[2,4,5,5]", "f32[8,4,1,1]"], "f32[2,8,5,5]", 1),
        Some(vec![whole, along(0)])
    );
    assert_eq!(giving("Add", &["f32[8,1]", "f32[8,6]"], "f32[8,6]", 1), Some(vec![whole, along(1)]));
    assert_eq!(giving("Softmax", &["f32[8,6]"], "f32[8,6]", 1), None);
}

#[test]
fn a_batch_axis_merged_behind_another_is_cut_in_blocks() {
    let asked = |name, operands: &[&str], attributes: &[(&str, Attribute)], result| {
        asked_of(pieces_in_blocks, name, 18, operands, attributes, &[result])
    };
    let shape = |dims: &str| format!("i64[{}]={dims}", dims.split(',').count());
    let reshaped = |operand, dims: &str, result| asked("Reshape", &[operand, &shape(dims)], &[], result);
    // Two axes become one axis, then two again, and pieces in blocks of another axis in between.
    assert_eq!(reshaped("f32[5,4,3] @1", "20,3", "f32[20,3]"), "1 w -> 0/5, extents 1");
    assert_eq!(reshaped("f32[20,3] @0/5", "5,4,3", "f32[5,4,3]"), "0/5 w -> 1, extents 1");
    assert_eq!(reshaped("f32[20,3] @0/5", "1,60", "f32[1,60]"), "0/5 w -> 1/5, extents 1");
    assert_eq!(reshaped("f32[6,4,3] @1", "2,12,3", "f32[2,12,3]"), "1 w -> 1/3, extents 1");
    assert_eq!(reshaped("f32[5,3,4] @1", "15,4", "f32[15,4]"), "-");
    assert_eq!(reshaped("f32[4,5,3] @0", "20,3", "f32[20,3]"), "0 w -> 0, extents 1");
    assert_eq!(asked("MatMul", &["f32[20,3] @0/5", "f32[3,7]"], &[], "f32[20,7]"), "0/5 w -> 0/5");
    assert_eq!(asked("MatMul", &["f32[3,20] @1/5", "f32[20,7] @0/5"], &[], "f32[3,7]"), "1/5 0/5 -> +");
    assert_eq!(asked("Add", &["f32[20,7] @0/5", "f32[7]"], &[], "f32[20,7]"), "0/5 w -> 0/5");
    assert_eq!(
        asked("Transpose", &["f32[20,7] @0/5"], &[("perm", Attribute::Ints(vec![1, 0]))], "f32[7,20]"),
        "0/5 -> 1/5"
    );
    assert_eq!(
        asked("ReduceSum", &["f32[20,7] @0/5", "i64[1]=0"], &[("keepdims", Attribute::Int(0))], "f32[7]"),
        "0/5 w -> +"
    );
    // Values are never cut into blocks, blocks of different division do not match, and order matters to
    // some operators.
    assert_eq!(asked("Add", &["f32[20,7] @0/5", "f32[20,7]"], &[], "f32[20,7]"), "-");
    assert_eq!(asked("Add", &["f32[20,7] @0/5", "f32[20,7] @0"], &[], "f32[20,7]"), "-");
    assert_eq!(asked("Add", &["f32[20,7] @0/5", "f32[20,7] @0/10"], &[], "f32[20,7]"), "-");
    assert_eq!(asked("Add", &["f32[20,7] @0/5", "f32[20,7] +"], &[], "f32[20,7]"), "-");
    assert_eq!(asked("CumSum", &["f32[20,7] @0/5", "i64[1]=0"], &[], "f32[20,7]"), "-");
}

#[test]
fn groups_of_channels_that_are_summed_up_give_addends() {
    let asked = |input, filters, group| {
        let group = [("group", Attribute::Int(group))];
        asked_of(pieces_in_blocks, "Conv", 11, &[input, filters, "f32[6]"], &group, &["f32[1,6,3,3]"])
    };
    assert_eq!(asked("f32[1,12,9,9] @1/3", "f32[6,4,7,7] @1", 3), "1/3 1 w -> +, once 2");
    // Blocks that differ from the groups, whole filters, and an odd share.
    assert_eq!(asked("f32[1,12,9,9] @1/2", "f32[6,4,7,7] @1", 3), "-");
    assert_eq!(asked("f32[1,12,9,9] @1/3", "f32[6,4,7,7]", 3), "-");
    assert_eq!(asked("f32[1,9,9,9] @1/3", "f32[6,3,7,7] @1", 3), "-");
}
