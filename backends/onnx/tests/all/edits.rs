//! Edits of the module reach the model, and nothing else changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::models;

use std::collections::BTreeSet;

use bytes::Bytes;
use memc_ir::{
    Attribute, ConstData, ConstOrigin, ElementType, NewNode, Operator, Origin, Payload, Rewriter, TensorType,
    Value,
};
use memc_ir::{Module, Node};
use memc_onnx_export::{ExportError, ExportOptions, Interface, TensorDefect, export, file_order};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{ModelProto, ValueInfoProto};
use models::*;

fn node_names(model: &ModelProto) -> Vec<&str> {
    model.graph.as_ref().unwrap().node.iter().map(|node| node.name()).collect()
}

fn edit(module: &mut Module, change: impl FnOnce(&mut Rewriter<'_>)) {
    let mut rewriter = Rewriter::new(module);
    change(&mut rewriter);
    rewriter.finish();
}

/// Copies a node like a pass would, with new results.
fn copy_of(rewriter: &mut Rewriter<'_>, original: Node, suffix: &str) -> Node {
    let data = rewriter.module().node(original).clone();
    let fresh = |value: Value| {
        let data = rewriter.module().value(value);
        (format!("{}{suffix}", data.name), data.ty.clone())
    };
    let results: Vec<_> = data.outputs.iter().map(|value| value.map(fresh)).collect();
    let new = NewNode {
        operator: data.operator,
        name: data.name,
        inputs: data.inputs,
        attributes: data.attributes,
        origin: Origin::Pass { pass: "test".into() },
    };
    let graph = data.graph;
    rewriter.insert(graph, None, new, &results)
}

#[test]
fn a_new_order_moves_nodes_and_keeps_their_bytes() {
    let model = everything();
    let file = open(&model);
    let mut module = read(&file);
    let main = module.main();
    let mut order = module.graph(main).nodes.clone();
    order.swap(1, 3);
    edit(&mut module, |rewriter| rewriter.set_schedule(main, order.clone()));
    let (_, decoded) = written(&file, &module, &plain());
    assert_eq!(node_names(&decoded), ["add", "if", "call", "kinds", "sum"]);
    let mut restored = decoded.clone();
    restored.graph.as_mut().unwrap().node.swap(1, 3);
    // The model holds a NaN, so messages are compared as bytes.
    assert!(prost::Message::encode_to_vec(&restored) == prost::Message::encode_to_vec(&model));
    assert_eq!(file_order(&module), order);
}

#[test]
fn a_replaced_operand_changes_inputs_only_and_captured_names_stay() {
    let nodes = vec![
        node("first", "Neg", &["x"], &["a"]),
        node("second", "Neg", &["x"], &["b"]),
        branch("if", "condition", "a", "c"),
        node("sum", "Sum", &["a", "b", "c"], &["out"]),
    ];
    let mut main = graph(nodes, &["out"]);
    main.input.push(info("condition", &[]));
    main.value_info = vec![info("a", &[2]), info("b", &[2])];
    let file = open(&model_of(main));
    let mut module = read(&file);
    let (kept, gone) = (value_named(&module, "a"), value_named(&module, "b"));
    edit(&mut module, |rewriter| {
        assert!(rewriter.is_pinned(kept));
        rewriter.replace_uses(gone, kept);
        assert!(rewriter.erase(node_named(rewriter.module(), "second")));
    });
    let (_, decoded) = written(&file, &module, &plain());
    assert_eq!(node_names(&decoded), ["first", "if", "sum"]);
    let (old, new) = (file.graph(), decoded.graph.as_ref().unwrap());
    assert_eq!(new.node[1], old.node[2], "the body is untouched");
    assert_eq!(new.node[2].input, strings(&["a", "a", "c"]));
    assert_eq!(new.value_info.iter().map(|info| info.name()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_replaced_capture_changes_that_operand_of_the_body_only() {
    let nodes = vec![
        node("first", "Neg", &["x"], &["a"]),
        node("second", "Neg", &["x"], &["b"]),
        branch("if", "condition", "b", "c"),
        node("sum", "Sum", &["a", "c"], &["out"]),
    ];
    let mut main = graph(nodes, &["out"]);
    main.input.push(info("condition", &[]));
    let file = open(&model_of(main));
    let mut module = read(&file);
    let (kept, gone) = (value_named(&module, "a"), value_named(&module, "b"));
    edit(&mut module, |rewriter| {
        rewriter.replace_uses(gone, kept);
        assert!(rewriter.erase(node_named(rewriter.module(), "second")));
    });
    let (_, decoded) = written(&file, &module, &plain());
    let mut expected = file.graph().node[2].clone();
    for attribute in &mut expected.attribute {
        attribute.g.as_mut().unwrap().node[0].input = strings(&["a"]);
    }
    assert_eq!(decoded.graph.unwrap().node[1], expected);
}

#[test]
fn results_that_are_left_out_become_empty() {
    let file = open(&everything());
    let mut module = read(&file);
    let dead = value_named(&module, "k2");
    let data = ConstData {
        ty: TensorType::fixed(ElementType::Float, &[7]),
        payload: Payload::Raw(Bytes::from(vec![0; 28])),
        origin: ConstOrigin::New,
    };
    edit(&mut module, |rewriter| {
        let constant = rewriter.constant(data);
        rewriter.make_initializer(dead, constant);
    });
    let (_, decoded) = written(&file, &module, &plain());
    let main = decoded.graph.unwrap();
    assert_eq!(main.node[1].output, strings(&["k", "", ""]));
    assert_eq!(main.initializer.last().unwrap().name(), "k2");
    assert_eq!(main.initializer.last().unwrap().raw_data().len(), 28);
}

#[test]
fn initializers_go_come_and_are_renamed() {
    let mut main = graph(
        vec![
            node("copy", "Identity", &["w"], &["a"]),
            node("constant", "Constant", &[], &["b"]),
            node("sum", "Sum", &["x", "a", "b", "d"], &["out"]),
        ],
        &["out"],
    );
    main.node[1].attribute.push(attribute(
        "value",
        memc_onnx_proto::onnx::attribute_proto::AttributeType::Tensor,
        |made| made.t = Some(text_tensor("inner name")),
    ));
    main.input.push(info("d", &[2]));
    main.initializer = vec![tensor("unused", &[9.0]), tensor("w", &[1.0, 2.0]), tensor("d", &[0.0, 0.0])];
    let mut model = model_of(main);
    model.ir_version = Some(3);
    let file = open(&model);
    let mut module = read(&file);
    let (from_initializer, from_attribute) = (value_named(&module, "a"), value_named(&module, "b"));
    let weight = module.constant_of(value_named(&module, "w")).unwrap();
    let Some(Attribute::Tensor(text)) =
        module.node(node_named(&module, "constant")).attribute("value").cloned()
    else {
        panic!()
    };
    let outside = ConstData {
        ty: TensorType::fixed(ElementType::Float, &[2]),
        payload: Payload::External { location: "w.bin".into(), offset: 16, length: Some(8) },
        origin: ConstOrigin::New,
    };
    edit(&mut module, |rewriter| {
        rewriter.make_initializer(from_initializer, weight);
        rewriter.make_initializer(from_attribute, text);
        for name in ["copy", "constant"] {
            assert!(rewriter.erase(node_named(rewriter.module(), name)));
        }
        let main = rewriter.module().main();
        let new = rewriter.initializer(main, "new", outside);
        let sum = node_named(rewriter.module(), "sum");
        rewriter.set_operand(sum, 0, new);
        rewriter.drop_unused_constants();
    });
    let (exported, decoded) = written(&file, &module, &plain());
    assert_eq!((exported.ir_version, decoded.ir_version()), (4, 4), "free initializers need version 4");
    let main = decoded.graph.unwrap();
    let names: Vec<&str> = main.initializer.iter().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["d", "a", "b", "new"], "the default of an input stays");
    assert_eq!(main.initializer[1].raw_data(), file.graph().initializer[1].raw_data());
    assert_eq!(main.initializer[2].string_data, text_tensor("").string_data);
    assert_eq!(
        main.initializer[3].external_data,
        entries(&[("location", "w.bin"), ("offset", "16"), ("length", "8")])
    );
    assert_eq!(main.node[0].input, strings(&["new", "a", "b", "d"]));
}

#[test]
fn a_copy_of_a_node_is_written_from_the_bytes_of_the_original() {
    let file = open(&everything());
    let mut module = read(&file);
    let kinds = node_named(&module, "kinds");
    edit(&mut module, |rewriter| {
        let copy = copy_of(rewriter, kinds, ".again");
        rewriter.set_recompute_of(copy, Some(kinds));
    });
    let (_, decoded) = written(&file, &module, &plain());
    assert_eq!(node_names(&decoded), ["add", "kinds", "call", "if", "sum", "kinds.2"]);
    let nodes = decoded.graph.unwrap().node;
    assert_eq!(nodes[5].output, strings(&["k.again", "", "k2.again"]));
    assert_eq!(nodes[5].attribute[7], nodes[1].attribute[7], "a tensor of strings");
    assert_eq!(nodes[5].metadata_props, nodes[1].metadata_props);
}

#[test]
fn a_new_node_is_encoded_with_attributes_of_every_kind() {
    let mut model = everything();
    // The bodies under `graphs` stay unchanged; everything else is encoded as a new message.
    let file = open(&model);
    let mut module = read(&file);
    let kinds = node_named(&module, "kinds");
    edit(&mut module, |rewriter| {
        copy_of(rewriter, kinds, ".again");
    });
    let (_, decoded) = written(&file, &module, &plain());
    let new = decoded.graph.unwrap().node.pop().unwrap();
    let old = model.graph.as_mut().unwrap().node.remove(1);
    assert_eq!((new.op_type(), new.domain()), ("Kinds", "test"));
    for (new, old) in new.attribute.iter().zip(&old.attribute) {
        match old.name() {
            "float" => assert_eq!(new.f().to_bits(), old.f().to_bits()),
            "tensors" => {
                let parts = |made: &memc_onnx_proto::onnx::AttributeProto| {
                    made.tensors
                        .iter()
                        .map(|tensor| (tensor.dims.clone(), tensor.data_type, tensor.raw_data.clone()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(parts(new), parts(old));
            }
            "graphs" => {
                assert_eq!(new.graphs.len(), 2);
                for (new, old) in new.graphs.iter().zip(&old.graphs) {
                    assert_eq!((new.name(), &new.node, &new.output), (old.name(), &old.node, &old.output));
                }
            }
            _ => assert_eq!(new, old),
        }
    }
    assert_eq!(new.attribute.len(), old.attribute.len());
}

#[test]
fn a_tensor_without_elements_is_refused_by_name() {
    let file = open(&everything());
    let mut module = read(&file);
    let text = ConstData {
        ty: TensorType::fixed(ElementType::String, &[2]),
        payload: Payload::Elided,
        origin: ConstOrigin::New,
    };
    edit(&mut module, |rewriter| {
        let constant = rewriter.constant(text);
        let new = NewNode {
            operator: Operator::onnx("Constant", 17),
            name: "words".into(),
            inputs: Vec::new(),
            attributes: vec![("value".into(), Attribute::Tensor(constant))],
            origin: Origin::Text,
        };
        let main = rewriter.module().main();
        rewriter.insert(main, None, new, &[Some(("words".into(), Default::default()))]);
    });
    let error = export(&file, &module, &plain()).unwrap_err();
    let expected = ExportError::Attribute {
        node: "words".into(),
        attribute: "value".into(),
        defect: TensorDefect::Elided,
    };
    assert_eq!(error, expected);
}

#[test]
fn an_edit_of_the_interface_is_refused() {
    let file = open(&everything());
    let mut module = read(&file);
    let (y, z) = (value_named(&module, "y"), value_named(&module, "z"));
    edit(&mut module, |rewriter| rewriter.replace_uses(y, z));
    let error = export(&file, &module, &plain()).unwrap_err();
    let expected =
        ExportError::Interface { what: "output", position: 1, expected: "y".into(), found: "z".into() };
    assert_eq!(error, expected);
}

/// Returns names as a set.
fn names(names: &[&str]) -> BTreeSet<String> {
    strings(names).into_iter().collect()
}

/// Returns a model of two nodes and one weight, below IR version 4 with the weight among the inputs, and the
/// module of a step of it: the weight and a new scalar are inputs, the results are `a` and a changed weight.
fn weight_as_state(ir_version: i64) -> (ModelFile, Module) {
    let nodes = vec![node("mul", "Mul", &["x", "w"], &["a"]), node("neg", "Neg", &["a"], &["out"])];
    let mut main = graph(nodes, &["out"]);
    main.initializer = vec![tensor("w", &[1.0, 2.0])];
    main.value_info = vec![info("a", &[2])];
    if ir_version < 4 {
        main.input.push(info("w", &[2]));
    }
    let file = open(&ModelProto { ir_version: Some(ir_version), ..model_of(main) });
    let mut module = read(&file);
    let (w, a, graph) = (value_named(&module, "w"), value_named(&module, "a"), module.main());
    let neg = node_named(&module, "neg");
    let rate = ConstData {
        ty: TensorType::fixed(ElementType::Float, &[]),
        payload: Payload::Raw(Bytes::from(0.5f32.to_le_bytes().to_vec())),
        origin: ConstOrigin::New,
    };
    edit(&mut module, |rewriter| {
        rewriter.make_input(w);
        let lr = rewriter.input_with_default(graph, "lr", rate);
        rewriter.set_outputs(graph, Vec::new());
        assert!(rewriter.erase(neg));
        let ty = rewriter.module().ty(w).clone();
        let new = NewNode {
            operator: Operator::onnx("Mul", 17),
            name: "update".into(),
            inputs: vec![Some(w), Some(lr)],
            attributes: Vec::new(),
            origin: Origin::Pass { pass: "test".into() },
        };
        let update = rewriter.insert(graph, None, new, &[Some(("new.w".into(), ty))]);
        let new = rewriter.module().node(update).outputs[0].unwrap();
        rewriter.set_outputs(graph, vec![a, new]);
    });
    (file, module)
}

#[test]
fn a_stated_change_of_the_interface_is_written() {
    let step = Interface {
        added_inputs: names(&["w", "lr"]),
        added_outputs: names(&["a", "new.w"]),
        removed_outputs: names(&["out"]),
        ..Interface::default()
    };
    for ir_version in [3, 8] {
        let (file, module) = weight_as_state(ir_version);
        let options = ExportOptions { interface: step.clone(), ..plain() };
        let (exported, decoded) = written(&file, &module, &options);
        assert_eq!(exported.ir_version, ir_version.max(4), "an input with a default");
        let main = decoded.graph.as_ref().unwrap();
        let of =
            |infos: &[ValueInfoProto]| infos.iter().map(|info| info.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(of(&main.input), strings(&["x", "w", "lr"]));
        assert_eq!(of(&main.output), strings(&["a", "new.w"]));
        assert_eq!(of(&main.value_info), strings(&[]), "outputs are described once");
        assert_eq!(main.initializer.iter().map(|tensor| tensor.name()).collect::<Vec<_>>(), ["w", "lr"]);
        assert_eq!(main.initializer[0], file.graph().initializer[0], "the default keeps its bytes");
        assert_eq!(main.output[0].r#type, file.graph().value_info[0].r#type);
        let again = read(&open(&decoded));
        assert_eq!(again.graph(again.main()).inputs.len(), 3);
        assert!(again.value(value_named(&again, "w")).default.is_some());
    }
}

#[test]
fn a_change_of_the_interface_that_is_not_stated_is_refused() {
    let (file, module) = weight_as_state(8);
    let whole = Interface {
        added_inputs: names(&["w", "lr"]),
        added_outputs: names(&["a", "new.w"]),
        removed_outputs: names(&["out"]),
        ..Interface::default()
    };
    let refused = |interface: Interface, what: &'static str, position, expected: &str, found: &str| {
        let error = export(&file, &module, &ExportOptions { interface, ..plain() }).unwrap_err();
        let wanted =
            ExportError::Interface { what, position, expected: expected.into(), found: found.into() };
        assert_eq!(error, wanted);
    };
    refused(Interface::default(), "input", 1, "", "w");
    refused(Interface { added_inputs: names(&["w"]), ..whole.clone() }, "input", 2, "", "lr");
    refused(Interface { added_inputs: names(&["w", "lr", "step"]), ..whole.clone() }, "input", 3, "step", "");
    refused(Interface { removed_outputs: names(&[]), ..whole.clone() }, "output", 0, "out", "a");
    refused(Interface { added_outputs: names(&["a"]), ..whole.clone() }, "output", 1, "", "new.w");
    refused(Interface { removed_inputs: names(&["x"]), ..whole }, "input", 0, "", "x");
}

#[test]
fn a_removed_input_goes_with_its_default() {
    let mut main = graph(vec![node("neg", "Neg", &["x"], &["out"])], &["out"]);
    main.input.push(info("bias", &[2]));
    main.initializer = vec![tensor("bias", &[1.0, 2.0])];
    let file = open(&model_of(main));
    let mut module = read(&file);
    let bias = value_named(&module, "bias");
    edit(&mut module, |rewriter| assert!(rewriter.drop_input(bias)));
    let interface = Interface { removed_inputs: names(&["bias"]), ..Interface::default() };
    let (_, decoded) = written(&file, &module, &ExportOptions { interface, ..plain() });
    let main = decoded.graph.unwrap();
    assert_eq!((main.input.len(), main.initializer.len()), (1, 0));
}

#[test]
fn an_input_with_a_default_becomes_a_constant() {
    let mut main = graph(vec![node("add", "Add", &["x", "bias"], &["out"])], &["out"]);
    main.input.insert(0, info("bias", &[2]));
    main.initializer = vec![tensor("bias", &[1.0, 2.0])];
    let file = open(&model_of(main));
    let mut module = read(&file);
    let bias = value_named(&module, "bias");
    edit(&mut module, |rewriter| rewriter.make_constant(bias));
    let interface = Interface { removed_inputs: names(&["bias"]), ..Interface::default() };
    let (_, decoded) = written(&file, &module, &ExportOptions { interface, ..plain() });
    let main = decoded.graph.unwrap();
    assert_eq!(main.input, file.graph().input[1..]);
    assert_eq!(main.initializer, file.graph().initializer);
}

#[test]
fn a_newer_operator_set_replaces_an_older_one_only_if_that_is_stated() {
    let file = open(&model_of(graph(vec![node("neg", "Neg", &["x"], &["out"])], &["out"])));
    let mut module = read(&file);
    module.opsets.insert(String::new(), 18);
    assert!(matches!(export(&file, &module, &plain()), Err(ExportError::Splice(_))));
    let (exported, decoded) = written(&file, &module, &ExportOptions { raises_opsets: true, ..plain() });
    assert_eq!(decoded.opset_import, [opset("", 18)]);
    assert_eq!(exported.opset_imports, [(String::new(), 18)]);
    module.opsets.insert(String::new(), 16);
    assert!(
        export(&file, &module, &ExportOptions { raises_opsets: true, ..plain() }).is_err(),
        "never an older one"
    );
}

#[test]
fn two_values_of_one_name_are_refused() {
    let file = open(&everything());
    let mut module = read(&file);
    let add = node_named(&module, "add");
    edit(&mut module, |rewriter| {
        copy_of(rewriter, add, "");
    });
    assert_eq!(export(&file, &module, &plain()).unwrap_err(), ExportError::ValueName { name: "y".into() });
}

#[test]
fn a_redefined_node_imports_its_operator_set() {
    let file = open(&model_of(graph(vec![node("neg", "Neg", &["x"], &["out"])], &["out"])));
    let mut module = read(&file);
    let node = module.graph(module.main()).nodes[0];
    edit(&mut module, |rewriter| {
        let operator = Operator { domain: "com.microsoft".into(), ..Operator::onnx("QuickGelu", 1) };
        let operands = rewriter.module().node(node).inputs.clone();
        rewriter.redefine(node, operator, operands, Vec::new());
    });
    let (exported, decoded) = written(&file, &module, &plain());
    assert_eq!(decoded.graph.as_ref().unwrap().node[0].op_type(), "QuickGelu");
    assert!(exported.opset_imports.contains(&("com.microsoft".to_owned(), 1)));
}

#[test]
fn transfers_bring_functions_for_runtimes_without_them() {
    let file = open(&model_of(graph(vec![node("neg", "Neg", &["x"], &["out"])], &["out"])));
    let mut module = read(&file);
    let input = value_named(&module, "x");
    let domain = std::sync::Arc::from("ai.memc");
    let operator =
        |name: &str| Operator { domain: std::sync::Arc::clone(&domain), ..Operator::onnx(name, 1) };
    edit(&mut module, |rewriter| {
        let main = rewriter.module().main();
        let new = NewNode {
            operator: operator("SwapOut"),
            name: String::new(),
            inputs: vec![Some(input)],
            attributes: vec![("to".into(), Attribute::String(Bytes::from_static(b"host")))],
            origin: Origin::Pass { pass: "test".into() },
        };
        rewriter.insert(main, None, new, &[Some(("token".into(), Default::default()))]);
    });
    let (exported, decoded) = written(&file, &module, &plain());
    assert_eq!(decoded.functions.len(), 1);
    let function = &decoded.functions[0];
    assert_eq!(
        (function.domain(), function.name(), &function.attribute),
        ("ai.memc", "SwapOut", &strings(&["to"]))
    );
    assert_eq!(function.node[0].op_type(), "Identity");
    assert!(exported.opset_imports.contains(&("ai.memc".to_owned(), 1)));
    assert_eq!(decoded.ir_version(), 8);
    // Exporting the result again adds nothing.
    let again = open(&decoded);
    let (_, twice) = written(&again, &read(&again), &plain());
    assert_eq!(twice, decoded);
}
