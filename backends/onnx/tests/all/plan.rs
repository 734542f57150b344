//! The plan in the model: metadata, types of values, and anchors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::models;

use memc_ir::verify::verify;
use memc_ir::{
    Alias, AliasKind, ArenaSize, Bytes, Dim, ElementType, Module, Rewriter, SpaceData, Storage, TensorType,
    ValueType,
};
use memc_onnx_export::{
    AnchorKind, Anchored, ExportOptions, add_anchor, add_anchors, default_order, default_order_of,
    file_order, is_anchor,
};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::onnx::{GraphProto, ModelProto, ValueInfoProto};
use models::*;
use proptest::prelude::*;

fn find<'g>(infos: &'g [ValueInfoProto], name: &str) -> &'g ValueInfoProto {
    infos.iter().find(|info| info.name() == name).unwrap()
}

fn device() -> SpaceData {
    SpaceData { name: "device".into(), capacity: None, alignment: 64 }
}

fn fixed(dims: &[u64]) -> ValueType {
    ValueType::Tensor(TensorType::fixed(ElementType::Float, dims))
}

#[test]
fn metadata_states_the_decisions_of_the_plan() {
    let mut model = everything();
    let main = model.graph.as_mut().unwrap();
    main.value_info[0].metadata_props = entries(&[("memc.offset", "7"), ("note", "kept")]);
    main.value_info.push(info("b", &[2]));
    let file = open(&model);
    let mut module = read(&file);
    let (y, b) = (value_named(&module, "y"), value_named(&module, "b"));
    let plan = &mut module.plan;
    let space = plan.spaces.push(device());
    plan.storage.set(y, Some(Storage { space, offset: Bytes(128) }));
    plan.alias.set(b, Some(Alias { of: y, kind: AliasKind::View, offset: Bytes(4) }));
    plan.arenas = vec![ArenaSize { space, size: Bytes(192), lower_bound: Bytes(0), order_lower_bound: None }];
    let (call, add) = (node_named(&module, "call"), node_named(&module, "add"));
    let mut rewriter = Rewriter::new(&mut module);
    rewriter.set_recompute_of(call, Some(add));
    rewriter.finish();
    let peak = ("memc.peak.device".to_owned(), "160".to_owned());
    let options = ExportOptions { model_metadata: vec![peak], value_info: false, ..ExportOptions::default() };
    let (exported, decoded) = written(&file, &module, &options);
    assert_eq!((exported.ir_version, decoded.ir_version()), (10, 10));
    let expected = [
        ("author", "somebody"),
        ("memc.version", env!("CARGO_PKG_VERSION")),
        ("memc.layout.schema", "memc.layout/1"),
        ("memc.arena.device", "192"),
        ("memc.peak.device", "160"),
    ];
    assert_eq!(pairs(&decoded.metadata_props), expected);
    let main = decoded.graph.unwrap();
    assert_eq!(pairs(&main.node[1].metadata_props), [("namespace", "top"), ("memc.step", "1")]);
    assert_eq!(pairs(&main.node[2].metadata_props), [("memc.step", "2"), ("memc.recompute_of", "add")]);
    assert_eq!(
        pairs(&find(&main.output, "y").metadata_props),
        [("memc.space", "device"), ("memc.offset", "128")]
    );
    let aliased = [
        ("memc.space", "device"),
        ("memc.offset", "132"),
        ("memc.alias_of", "y"),
        ("memc.alias_kind", "view"),
    ];
    assert_eq!(pairs(&find(&main.value_info, "b").metadata_props), aliased);
    assert_eq!(pairs(&find(&main.value_info, "z").metadata_props), [("note", "kept")], "an old offset goes");
    assert!(find(&main.output, "out").metadata_props.is_empty());
}

#[test]
fn types_are_added_refined_and_corrected() {
    let chain = vec![
        node("1", "Opaque", &["x"], &["new"]),
        node("2", "Opaque", &["new"], &["vague"]),
        node("3", "Opaque", &["vague"], &["wrong"]),
        node("4", "Opaque", &["wrong"], &["open"]),
        node("5", "Opaque", &["open"], &["out"]),
    ];
    let mut main = graph(chain, &["out"]);
    for node in &mut main.node {
        node.domain = Some("test".into());
    }
    main.value_info = vec![symbolic("vague", "N"), info("wrong", &[3]), info("elsewhere", &[1])];
    main.value_info[0].doc_string = Some("kept".into());
    let mut model = model_of(main);
    model.opset_import.push(opset("test", 1));
    let file = open(&model);
    let mut module = read(&file);
    for name in ["new", "vague", "wrong"] {
        let value = value_named(&module, name);
        module.set_type(value, fixed(&[2]));
    }
    let open_value = value_named(&module, "open");
    module.set_type(open_value, ValueType::Tensor(TensorType::new(ElementType::Float, vec![Dim::Unknown])));

    let options = ExportOptions { value_info: true, ..plain() };
    let (_, decoded) = written(&file, &module, &options);
    let main = decoded.graph.unwrap();
    let names: Vec<&str> = main.value_info.iter().map(|info| info.name()).collect();
    assert_eq!(names, ["elsewhere", "new", "vague", "wrong"]);
    for name in ["new", "vague", "wrong"] {
        assert_eq!(find(&main.value_info, name).r#type, info(name, &[2]).r#type);
    }
    assert_eq!(find(&main.value_info, "vague").doc_string(), "kept");

    let (_, decoded) = written(&file, &module, &plain());
    let names: Vec<String> =
        decoded.graph.unwrap().value_info.into_iter().map(|info| info.name.unwrap()).collect();
    assert_eq!(names, ["vague", "elsewhere", "wrong"], "only what is wrong is replaced");

    // With a bound symbol, an entry that leaves only extents open keeps its place and its other bytes.
    module.dims.insert("N".into(), 2);
    let (_, decoded) = written(&file, &module, &options);
    let names: Vec<String> =
        decoded.graph.unwrap().value_info.into_iter().map(|info| info.name.unwrap()).collect();
    assert_eq!(names, ["vague", "elsewhere", "new", "wrong"]);
}

#[test]
fn bound_dimensions_become_numbers_and_free_ones_stay() {
    let mut main =
        graph(vec![node("neg", "Neg", &["x"], &["a"]), node("abs", "Abs", &["a"], &["out"])], &["out"]);
    main.input = vec![symbolic("x", "N"), symbolic("free", "M"), info("fixed", &[2])];
    main.output = vec![symbolic("out", "N")];
    main.value_info = vec![symbolic("a", "N")];
    for (info, text) in main.input.iter_mut().zip(["first", "second", "third"]) {
        info.doc_string = Some(text.into());
    }
    let file = open(&model_of(main.clone()));
    let dims = [("N".to_owned(), 4)].into_iter().collect();
    let module = import(&file, &ImportOptions { dims, allow_unbound: true, ..ImportOptions::default() })
        .unwrap()
        .module;
    let (_, decoded) =
        written(&file, &module, &ExportOptions { metadata: false, ..ExportOptions::default() });
    let bound = |stated: &ValueInfoProto| ValueInfoProto {
        doc_string: stated.doc_string.clone(),
        ..info(stated.name(), &[4])
    };
    main.input[0] = bound(&main.input[0]);
    main.output[0] = bound(&main.output[0]);
    main.value_info[0] = info("a", &[4]);
    assert_eq!(decoded.graph, Some(main));
    // Without a binding, inferred output extents are not written.
    let (_, decoded) =
        written(&file, &read(&file), &ExportOptions { metadata: false, ..ExportOptions::default() });
    assert_eq!(decoded.graph.as_ref(), Some(file.graph()));
}

/// Returns a model in which node `i` reads the values of the nodes `reads[i]`. Every result is
/// described, so that every node can have an anchor.
fn dag(reads: &[Vec<usize>]) -> ModelProto {
    let name = |index: usize| format!("v{index}");
    let nodes = reads.iter().enumerate().map(|(index, sources)| {
        let mut inputs = vec!["x".to_owned()];
        inputs.extend(sources.iter().copied().map(name));
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        node(&format!("n{index}"), "Sum", &inputs, &[&name(index)])
    });
    let last = name(reads.len() - 1);
    let mut main: GraphProto = graph(nodes.collect(), &[&last]);
    main.value_info = (0..reads.len() - 1).map(|index| info(&name(index), &[2])).collect();
    model_of(main)
}

/// Returns the names of the written model's nodes in default order, without anchors and without the node
/// `without`.
fn simulated(model: &ModelProto, without: Option<&str>) -> Vec<String> {
    let nodes: Vec<_> =
        model.graph.as_ref().unwrap().node.iter().filter(|node| Some(node.name()) != without).collect();
    let producer = |name: &String| nodes.iter().position(|node| node.output.contains(name));
    let reads: Vec<Vec<usize>> =
        nodes.iter().map(|node| node.input.iter().filter_map(producer).collect()).collect();
    let order = default_order(&reads).into_iter().filter(|index| nodes[*index].op_type() != "Shape");
    order.map(|index| nodes[index].name().to_owned()).collect()
}

/// Returns the names of the main graph's nodes in the module's order.
fn scheduled(module: &Module) -> Vec<String> {
    module.graph(module.main()).nodes.iter().map(|node| module.node(*node).name.clone()).collect()
}

#[test]
fn anchors_stand_at_the_end_and_run_behind_their_nodes() {
    // Two branches; the default order would run the last one first.
    let file = open(&dag(&[vec![], vec![0], vec![], vec![2], vec![], vec![1, 3, 4]]));
    let mut module = read(&file);
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape), Anchored { added: 2, unpinned: Vec::new() });
    assert_eq!(scheduled(&module), ["n0", "n1", "n1.anchor", "n2", "n3", "n3.anchor", "n4", "n5"]);
    let anchors = module.graph(module.main()).nodes.iter().map(|node| is_anchor(&module, *node));
    assert_eq!(anchors.collect::<Vec<_>>(), [false, false, true, false, false, true, false, false]);
    verify(&module, module.stage).unwrap();
    let result = value_named(&module, "v3.anchor");
    assert_eq!(*module.ty(result), ValueType::Tensor(TensorType::fixed(ElementType::Int64, &[0])));
    let storage = Storage { space: module.plan.spaces.push(device()), offset: Bytes(64) };
    module.plan.storage.set(result, Some(storage));

    let (exported, decoded) = written(&file, &module, &ExportOptions::default());
    let main = decoded.graph.as_ref().unwrap();
    let names: Vec<&str> = main.node.iter().map(|node| node.name()).collect();
    assert_eq!(names, ["n0", "n1", "n2", "n3", "n4", "n5", "n3.anchor", "n1.anchor"]);
    assert_eq!(
        file_order(&module).iter().map(|node| exported.node_names[*node].as_str()).collect::<Vec<_>>(),
        names
    );
    assert_eq!((main.node[7].op_type(), &main.node[7].input), ("Shape", &strings(&["v1"])));
    let window: Vec<_> =
        main.node[7].attribute.iter().map(|attribute| (attribute.name(), attribute.i())).collect();
    assert_eq!(window, [("start", 0), ("end", 0)]);
    assert_eq!(pairs(&main.node[7].metadata_props), [("memc.step", "2")]);
    assert_eq!(pairs(&main.node[4].metadata_props), [("memc.step", "6")]);
    let place = [("memc.space", "device"), ("memc.offset", "64")];
    assert_eq!(pairs(&find(&main.value_info, "v3.anchor").metadata_props), place);
    assert_eq!(default_order_of(&module), module.graph(module.main()).nodes);

    let nodes = module.graph(module.main()).nodes.clone();
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape), Anchored::default(), "one anchor is enough");
    assert_eq!(module.graph(module.main()).nodes, nodes);
}

#[test]
fn slices_of_no_positions_pin_values_and_scalars() {
    let file = open(&dag(&[vec![], vec![0], vec![], vec![2], vec![], vec![1, 3, 4]]));
    let mut module = read(&file);
    let (vector, scalar) = (value_named(&module, "v1"), value_named(&module, "v3"));
    module.set_type(vector, fixed(&[4, 3]));
    module.set_type(scalar, fixed(&[]));
    let mut older = module.clone();
    assert_eq!(add_anchors(&mut module, AnchorKind::Slice), Anchored { added: 2, unpinned: Vec::new() });
    verify(&module, module.stage).unwrap();
    assert_eq!(*module.ty(value_named(&module, "v1.anchor")), fixed(&[0, 3]));
    assert_eq!(*module.ty(value_named(&module, "v3.anchor")), fixed(&[0]));
    let (_, decoded) = written(&file, &module, &ExportOptions::default());
    let main = decoded.graph.as_ref().unwrap();
    let zero = "memc.anchor.zero";
    assert_eq!((main.node[7].op_type(), &main.node[7].input), ("Slice", &strings(&["v1", zero, zero, zero])));
    assert_eq!((main.node[6].op_type(), &main.node[6].input), ("Expand", &strings(&["v3", zero])));
    assert_eq!(default_order_of(&module), module.graph(module.main()).nodes);

    // Before version 10, ranges are attributes.
    older.opsets.insert(String::new(), 9);
    let node = node_named(&older, "n1");
    assert!(add_anchor(&mut older, node, AnchorKind::Slice));
    let names = older.node(node_named(&older, "n1.anchor")).attributes.iter().map(|(name, _)| name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["starts", "ends", "axes"]);
}

#[test]
fn a_chain_needs_no_anchor_and_a_node_without_rank_can_carry_none() {
    let file = open(&dag(&[vec![], vec![0], vec![0, 1], vec![2]]));
    let mut module = read(&file);
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape), Anchored::default());
    assert_eq!(default_order_of(&module), module.graph(module.main()).nodes);
    assert_eq!(scheduled(&module), ["n0", "n1", "n2", "n3"]);

    let mut model = dag(&[vec![], vec![], vec![0, 1]]);
    let main = model.graph.as_mut().unwrap();
    main.value_info.clear();
    main.node[0].domain = Some("test".into());
    let file = open(&model);
    let mut module = read(&file);
    let unpinned = vec![node_named(&module, "n0")];
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape), Anchored { added: 0, unpinned });
}

#[test]
fn old_operators_give_the_whole_shape_and_need_its_rank() {
    let mut model = dag(&[vec![], vec![], vec![], vec![0, 1, 2]]);
    model.opset_import = vec![opset("", 14)];
    let file = open(&model);
    let mut module = read(&file);
    let (known, open) = (value_named(&module, "v0"), value_named(&module, "v1"));
    module.set_type(known, fixed(&[3, 4]));
    module.set_type(open, ValueType::Tensor(TensorType { element: ElementType::Float, shape: None }));
    let mut newer = module.clone();
    newer.opsets.insert(String::new(), 15);
    let unpinned = vec![node_named(&module, "n1")];
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape), Anchored { added: 1, unpinned });
    assert_eq!(scheduled(&module), ["n0", "n0.anchor", "n1", "n2", "n3"]);
    let result = TensorType::fixed(ElementType::Int64, &[2]);
    assert_eq!(*module.ty(value_named(&module, "v0.anchor")), ValueType::Tensor(result));
    assert!(module.node(node_named(&module, "n0.anchor")).attributes.is_empty());
    assert_eq!(add_anchors(&mut newer, AnchorKind::Shape), Anchored { added: 2, unpinned: Vec::new() });
}

#[test]
fn names_of_anchors_are_taken_by_nothing_else() {
    let mut model = dag(&[vec![], vec![0], vec![], vec![1, 2]]);
    let main = model.graph.as_mut().unwrap();
    main.node[1].name = None;
    main.node[2].name = Some("Sum_0.anchor".into());
    main.node[2].output = strings(&["v1.anchor"]);
    main.node[3].input[2] = "v1.anchor".into();
    main.value_info[2].name = Some("v1.anchor".into());
    let file = open(&model);
    let mut module = read(&file);
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape).added, 1);
    let (_, decoded) = written(&file, &module, &plain());
    let anchor = decoded.graph.unwrap().node.pop().unwrap();
    assert_eq!(
        (anchor.name(), &anchor.input, &anchor.output),
        ("Sum_0.anchor.2", &strings(&["v1"]), &strings(&["v1.anchor.2"]))
    );
}

#[test]
fn a_result_that_others_read_is_pinned_before_a_dead_one() {
    let split = node("split", "Split", &["x"], &["dead", "read"]);
    let nodes =
        vec![split, node("apart", "Neg", &["x"], &["a"]), node("join", "Add", &["read", "a"], &["out"])];
    let mut main = graph(nodes, &["out"]);
    main.value_info = vec![info("dead", &[1]), info("read", &[1]), info("a", &[2])];
    let file = open(&model_of(main));
    let mut module = read(&file);
    assert_eq!(add_anchors(&mut module, AnchorKind::Shape).added, 1);
    assert_eq!(scheduled(&module), ["split", "split.anchor", "apart", "join"]);
    assert_eq!(module.node(node_named(&module, "split.anchor")).inputs, [Some(value_named(&module, "read"))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn anchors_pin_any_schedule_and_none_is_too_many(drawn in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..24)) {
        let reads: Vec<Vec<usize>> = drawn
            .iter()
            .enumerate()
            .map(|(at, sources)| if at == 0 { Vec::new() } else { sources.iter().map(|index| index.index(at)).collect() })
            .collect();
        let file = open(&dag(&reads));
        let mut module = read(&file);
        let schedule = scheduled(&module);
        let added = add_anchors(&mut module, AnchorKind::Shape).added;
        prop_assert_eq!(default_order_of(&module), module.graph(module.main()).nodes.clone());
        let (_, decoded) = written(&file, &module, &plain());
        prop_assert_eq!(&simulated(&decoded, None), &schedule);
        let written: Vec<&str> = decoded.graph.as_ref().unwrap().node.iter().map(|node| node.name()).collect();
        let (nodes, anchors) = written.split_at(schedule.len());
        prop_assert_eq!(nodes, &schedule);
        prop_assert_eq!(anchors.len(), added);
        for anchor in anchors {
            prop_assert_ne!(&simulated(&decoded, Some(anchor)), &schedule);
        }
    }
}

#[test]
fn constants_that_are_listed_as_inputs_stay_constants() {
    let mut main = graph(vec![node("sum", "Add", &["x", "w"], &["y"])], &["y"]);
    main.initializer = vec![tensor("w", &[1.0, 2.0])];
    main.input.push(info("w", &[2]));
    let file = open(&ModelProto { ir_version: Some(3), ..model_of(main) });
    let inputs = |decoded: &ModelProto| -> Vec<String> {
        decoded.graph.iter().flat_map(|graph| &graph.input).map(|info| info.name().to_owned()).collect()
    };
    // From version 4 on, a caller could override `w`: if metadata raises the version that far, `w` is
    // not an input.
    let (exported, decoded) = written(&file, &read(&file), &ExportOptions::default());
    assert_eq!((exported.ir_version, decoded.ir_version()), (10, 10));
    assert_eq!(inputs(&decoded), ["x"]);
    assert_eq!(decoded.graph.as_ref().unwrap().initializer, file.graph().initializer);
    // Otherwise the file stays unchanged, except for dropped weights.
    let (exported, decoded) = written(&file, &read(&file), &plain());
    assert_eq!((exported.ir_version, &decoded), (3, file.model()));
    let mut module = read(&file);
    let (sum, x) = (node_named(&module, "sum"), value_named(&module, "x"));
    let mut rewriter = Rewriter::new(&mut module);
    rewriter.set_operand(sum, 1, x);
    rewriter.drop_unused_constants();
    rewriter.finish();
    let (exported, decoded) = written(&file, &module, &plain());
    assert_eq!((exported.ir_version, inputs(&decoded)), (3, strings(&["x"])));
    assert!(decoded.graph.unwrap().initializer.is_empty());
}
