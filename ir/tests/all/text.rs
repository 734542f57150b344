//! Tests of the text form: round trips over every feature, and the exact wording of its errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::text::{parse, print, print_node};
use memc_ir::{
    Attribute, ConstData, ConstOrigin, Dim, DimExpr, ElementType, EntityId, Module, ModuleBuilder, NewNode,
    Node, Operator, Origin, Payload, Rewriter, TensorType, Use, ValueType,
};

fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|error| format!("{error}\n")).collect::<String>())
    })
}

/// Asserts that the text is canonical: it prints again byte for byte.
fn assert_canonical(text: &str) {
    let printed = print(&read(text));
    for (line, (found, wanted)) in printed.lines().zip(text.lines()).enumerate() {
        assert_eq!(found, wanted, "line {}", line + 1);
    }
    assert_eq!(printed, text);
}

fn messages(text: &str) -> Vec<String> {
    parse(text)
        .expect_err("an error")
        .iter()
        .map(|error| format!("{} {}", error.code, error.message))
        .collect()
}

/// Returns the errors of lines in a graph that starts at line 2.
fn line_errors(lines: &str) -> Vec<String> {
    messages(&format!("space @s\ngraph @g {{\ninput %x : f32[4]\n{lines}\nreturn %x\n}}\n"))
}

#[test]
fn every_feature_round_trips() {
    assert_canonical(include_str!("../text/every_feature.mem"));
}

#[test]
fn bodies_round_trip_with_captures_and_repeated_names() {
    let text = include_str!("../text/bodies.mem");
    assert_canonical(text);
    let module = read(text);
    assert_eq!(module.graphs().len(), 7);
    let branch = module.nodes().keys().find(|node| module.node(*node).name == "if").unwrap();
    let mut captured: Vec<&str> =
        module.captures(branch).iter().map(|value| module.value(*value).name.as_str()).collect();
    captured.sort_unstable();
    assert_eq!(captured, ["cond", "x", "y"]);
}

#[test]
fn a_parsed_module_has_the_facts_of_its_text() {
    let module = read(include_str!("../text/every_feature.mem"));
    let value = |name: &str| module.values().iter().find(|(_, data)| data.name == name).unwrap();
    let (floats, _) = value("floats");
    let Payload::Raw(bytes) = &module.constant(module.constant_of(floats).unwrap()).payload else {
        panic!("raw")
    };
    assert_eq!(&bytes[12..24], [0, 0, 0xc0, 0x7f, 1, 0, 0x80, 0x7f, 0, 0, 0xc0, 0xff]);
    let (c, data) = value("c");
    assert_eq!(data.ty.tensor().unwrap().shape.as_ref().unwrap()[1], Dim::Symbolic(DimExpr::symbol("N/2")));
    assert_eq!(module.plan.alias[c].unwrap().offset.0, 8);
    let split = module.node(module.producer(c).unwrap());
    assert_eq!(
        (&*split.operator.domain, &*split.operator.name, &*split.operator.overload),
        ("com.acme", "Split", "two")
    );
    assert_eq!((split.operator.version, split.inputs.len(), split.outputs.len()), (3, 3, 3));
    let original = module.node(module.producer(value("e.1").0).unwrap()).recompute_of;
    assert_eq!(original, module.producer(value("e").0));
    assert_eq!(
        module.plan.scratch.iter().map(|scratch| (scratch.body, scratch.bytes.0)).collect::<Vec<_>>(),
        [(false, 128), (true, 1024), (false, 0)]
    );
}

#[test]
fn loose_spelling_becomes_canonical() {
    let text = "// a comment\n\ngraph @g{ // more\n  input %x: f32[ N*2 , 3]\r\n const %c : f32[2] = [1, 0x0]\n %y=Relu( %x ) { a=0x10 }:f32[2*N,3]@d+256\nreturn %y }";
    assert_eq!(
        messages(text),
        [
            "E0601 line 5, column 26: expected a number, found `0x0`",
            "E0603 line 6, column 37: the space `@d` is not defined in the header",
        ]
    );
    let text = text.replace(", 0x0]", ", 2]").replace("graph", "space @d\ngraph");
    let printed = print(&read(&text));
    assert_eq!(
        printed,
        "mem 1\nir_version 0\nstage imported\nspace @d alignment 1\n\ngraph @g {\n  input %x : f32[2*N,3]\n  \
         const %c : f32[2] = [1.0, 2.0]\n  %y = Relu(%x) {a = 16} : f32[2*N,3] @d+0x100\n  return %y\n}\n"
    );
    assert_canonical(&printed);
}

fn builder_with(attributes: Vec<(String, Attribute)>, ty: ValueType, name: &str) -> Module {
    let mut builder = ModuleBuilder::new();
    let main = builder.module().main();
    let operator = Operator::onnx("Op", 1);
    let new = NewNode { operator, name: String::new(), inputs: Vec::new(), attributes, origin: Origin::Text };
    let node = builder.node(main, new, &[Some((name.to_owned(), ty))]);
    let value = builder.module().node(node).results().next().unwrap();
    builder.output(main, value);
    builder.finish()
}

#[test]
fn strange_names_and_symbols_survive() {
    let names = [
        "", "a b", "a:", "::a", "a//b", "//", "%x", "_", "ünï", "\"", "\\", "a\nb", "\u{202e}", "\u{85}",
        "a/b:0", "-", "return",
    ];
    for name in names {
        let dims = vec![Dim::Symbolic(DimExpr::symbol(name)), Dim::from_name("2*N*M-3")];
        let module =
            builder_with(Vec::new(), ValueType::Tensor(TensorType::new(ElementType::Float, dims)), name);
        let printed = print(&module);
        let again = read(&printed);
        assert_eq!(print(&again), printed);
        let (_, data) = again.values().iter().next().unwrap();
        assert_eq!(data.name, name);
        assert_eq!(data.ty, module.values().iter().next().unwrap().1.ty);
    }
}

#[test]
fn extreme_polynomials_survive() {
    let symbol = DimExpr::symbol("N");
    let expr = symbol.mul(&DimExpr::constant(i64::MIN)).unwrap().add(&DimExpr::constant(i64::MIN)).unwrap();
    let dims = vec![Dim::Symbolic(expr), Dim::Known(u64::MAX), Dim::Symbolic(DimExpr::constant(-3))];
    let module =
        builder_with(Vec::new(), ValueType::Tensor(TensorType::new(ElementType::Other(-5), dims)), "y");
    let printed = print(&module);
    assert!(
        printed.contains("other-5[-9223372036854775808*N-9223372036854775808,18446744073709551615,?]"),
        "{printed}"
    );
    assert_eq!(print(&read(&printed)), printed);
}

#[test]
fn every_float_attribute_keeps_its_bits() {
    for bits in [
        0u32,
        1,
        0x8000_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7fff_ffff,
        0xffff_ffff,
        0x7f7f_ffff,
        0x4b80_0000,
    ] {
        let module = builder_with(
            vec![("a".to_owned(), Attribute::Float(f32::from_bits(bits)))],
            ValueType::Unknown,
            "y",
        );
        let again = read(&print(&module));
        let Some(Attribute::Float(value)) = again.node(Node::new(0)).attribute("a") else {
            panic!("a float")
        };
        assert_eq!(value.to_bits(), bits);
    }
}

#[test]
fn large_constants_are_elided_with_their_length() {
    let ty = TensorType::fixed(ElementType::Float, &[65]);
    let make = |payload| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let constant = builder.constant(ConstData { ty: ty.clone(), payload, origin: ConstOrigin::New });
        builder.initializer(main, "w", constant);
        print(&builder.finish())
    };
    let printed = make(Payload::Raw(vec![0; 260].into()));
    assert!(printed.contains("const %w : f32[65] = elided 260\n"), "{printed}");
    assert_eq!(printed, make(Payload::Elided));
    assert_canonical(&printed);
    let short = make(Payload::Raw(vec![7; 256].into()));
    assert!(short.contains("hex \"0707"), "{short}");
    assert_canonical(&short);
}

#[test]
fn erased_originals_are_not_named() {
    let mut module = read(
        "graph @g {\ninput %x : f32[4]\n%a = Relu(%x) : f32[4]\n%b = Relu(%x) : f32[4] recompute_of(%a)\nreturn %b\n}",
    );
    let mut rewriter = Rewriter::new(&mut module);
    assert!(rewriter.erase(Node::new(0)));
    rewriter.finish();
    let printed = print(&module);
    assert!(!printed.contains("recompute_of"), "{printed}");
    assert_canonical(&printed);
}

#[test]
fn one_line_form_elides_bodies_and_long_lists() {
    let module = read(include_str!("../text/bodies.mem"));
    let branch = module.nodes().keys().find(|node| module.node(*node).name == "if").unwrap();
    assert_eq!(
        print_node(&module, branch),
        "%z = If(%cond) {then_branch = graph @then {...}, else_branch = graph @\"\" {...}} : f32[4] name \"if\""
    );
    let attributes = vec![
        ("a".to_owned(), Attribute::Ints((0..100).collect())),
        ("s".to_owned(), Attribute::String(vec![b'x'; 100].into())),
    ];
    let long = print_node(&builder_with(attributes, ValueType::Unknown, "y"), Node::new(0));
    let shown = "x".repeat(64);
    assert_eq!(
        long,
        format!("%y = Op version 1() {{a = [0, 1, 2, 3, 4, 5, 6, 7, ...], s = \"{shown}\"...}} : unknown")
    );
    assert_eq!(print_node(&module, Node::new(99)), "<n99>");
}

#[test]
fn syntax_errors_state_the_expected_token() {
    let cases = [
        ("%y = Relu(%x : f32[4]", "E0601 line 4, column 14: expected `)`, found `:`"),
        ("%y = Relu(%x)", "E0601 line 4, column 14: 1 results but 0 types"),
        ("%y, %z = Relu(%x) : f32[4]", "E0601 line 4, column 19: 2 results but 1 types"),
        ("%y = Relu(%x) : f33[4]", "E0601 line 4, column 17: `f33` is not an element type"),
        (
            "%y = Relu(%x) : f32[4] rematerialize(%x)",
            "E0601 line 4, column 24: expected `recompute_of`, `scratch`, `body_scratch`, `name` or `origin`, found `rematerialize`",
        ),
        (
            "Relu(%x)",
            "E0601 line 4, column 1: expected `input`, `const`, a node, `return` or `}`, found `Relu`",
        ),
        (
            "%y = Relu(%missing) : f32[4]",
            "E0603 line 4, column 11: `%missing` is not defined above in this graph or a graph around it",
        ),
        ("%x = Relu(%x) : f32[4]", "E0602 line 4, column 1: `%x` is already defined in this graph"),
        (
            "%y = Relu(%x) : f32[4] @t+0",
            "E0603 line 4, column 24: the space `@t` is not defined in the header",
        ),
        (
            "%y = Relu(%x) : f32[4] view(%q)",
            "E0603 line 4, column 29: `%q` is not defined above in this graph or a graph around it",
        ),
        (
            "%y = Relu(%x) : f32[4] recompute_of(%x)",
            "E0603 line 4, column 37: `recompute_of` names the result of a node",
        ),
        (
            "%y = Relu(%x) {a = \"b} : f32[4]",
            "E0601 line 4, column 20: expected the value of an attribute, found a string without its closing quote",
        ),
        (
            "%y = Relu(%x) {a = [1, 2.0]} : f32[4]",
            "E0601 line 4, column 24: the items of a list must have one kind",
        ),
        (
            "%y = Relu(%x) {a = 9223372036854775808} : f32[4]",
            "E0604 line 4, column 20: this integer does not fit 64 bits",
        ),
        ("%y = Relu(%x) {a = 1e39} : f32[4]", "E0604 line 4, column 20: this is not a binary32 number"),
        ("%y = Relu(%x) {a = nan:0x1} : f32[4]", "E0604 line 4, column 20: this is not a binary32 number"),
        (
            "const %c : f32[3] = [1.0, 2.0]",
            "E0604 line 4, column 21: 2 numbers do not fill a constant of type f32[3]",
        ),
        ("const %c : u8[1] = [256]", "E0604 line 4, column 21: `256` is out of range for u8"),
        ("const %c : f16[1] = [1.0]", "E0604 line 4, column 22: numbers of type f16 are written as `hex`"),
        (
            "const %c : f16[1] = hex \"0\"",
            "E0604 line 4, column 25: these are not pairs of hexadecimal digits",
        ),
        (
            "const %c : f32[2] = elided 4",
            "E0604 line 4, column 28: a constant of type f32[2] does not have 4 bytes",
        ),
        (
            "const %c : seq<f32[2]> = [1.0]",
            "E0601 line 4, column 26: expected `tensor` and the constant's own type, found `[`",
        ),
        ("const %c : f32[2]", "E0601 line 4, column 18: expected `=`, found the end of the line"),
        (
            "input %é : f32[2]",
            "E0601 line 4, column 7: expected a value, as `%x`, found a sigil without a name",
        ),
        (
            "%y = Relu(%x) : f32[4] scratch(99999999999EiB)",
            "E0604 line 4, column 32: this size does not fit 64 bits",
        ),
        ("return %x", "E0601 line 5, column 1: `return` is the last line of its graph"),
        (
            "%y = Relu(%x) : f32[-1*N*N*N*N*N*N*N]",
            "E0604 line 4, column 22: the expression of this dimension is too large",
        ),
    ];
    for (line, message) in cases {
        assert_eq!(line_errors(line), [message], "{line}");
    }
}

#[test]
fn each_bad_line_is_reported_once_and_the_others_are_read() {
    let errors = line_errors(
        "%a = Relu(%x)) : f32[4]\n%b = Relu(%a) : f32[4]\n%c = If(%b) {t = graph @t {\n%d = !\nreturn %d\n}, e = graph @e {\nreturn %nope\n}} : f32[4]\n%e = Tanh(%c, %nil) : f32[4]",
    );
    assert_eq!(
        errors,
        [
            "E0601 line 4, column 14: 1 results but 0 types",
            "E0601 line 7, column 6: expected an operator, found an unexpected character",
            "E0603 line 10, column 8: `%nope` is not defined above in this graph or a graph around it",
            "E0603 line 12, column 15: `%nil` is not defined above in this graph or a graph around it",
        ]
    );
}

#[test]
fn errors_of_the_whole_text() {
    assert_eq!(messages(""), ["E0601 line 1, column 1: the text holds no graph"]);
    assert_eq!(
        messages("mem 2\ngraph @g {\nreturn\n}"),
        ["E0601 line 1, column 1: only version 1 of the text form is known"]
    );
    assert_eq!(
        messages("frob 1\ngraph @g {\nreturn\n}"),
        ["E0601 line 1, column 1: `frob` does not begin a line of the header"]
    );
    assert_eq!(
        messages("graph @g {\nreturn\n}\nstage typed"),
        ["E0601 line 4, column 1: only blank lines and comments may follow the graph"]
    );
    assert_eq!(messages("graph @g {\n}"), ["E0601 line 2, column 1: a graph ends with a `return` line"]);
    assert_eq!(
        messages("graph @g {\nreturn"),
        ["E0601 line 2, column 7: the text ends inside a graph: `}` is missing"]
    );
    assert_eq!(
        messages("opset \"\" 1\nopset \"\" 2\ngraph @g {\nreturn\n}"),
        ["E0602 line 2, column 1: this domain already has a version"]
    );
    assert_eq!(
        messages("graph @g {\nreturn\n}\ngraph @h {\nreturn\n}"),
        ["E0601 line 4, column 1: a module has one graph; bodies belong in attributes"]
    );
}

#[test]
fn an_error_shows_its_line() {
    let errors = parse("graph @g {\n  return %a  // why\n}").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "error[E0603]: line 2, column 10: `%a` is not defined above in this graph or a graph around it\n  | return %a  // why"
    );
}

fn nested(levels: usize) -> String {
    let mut text = "graph @g {\n".to_owned();
    for _ in 0..levels {
        text += "() = Op() {b = graph @g {\n";
    }
    text += "return\n";
    for _ in 0..levels {
        text += "}}\nreturn\n";
    }
    text + "}\n"
}

#[test]
fn nesting_is_limited() {
    let printed = print(&read(&nested(64)));
    assert_eq!(print(&read(&printed)), printed);
    assert_eq!(messages(&nested(65)), ["E0605 line 66, column 22: bodies nest deeper than 64 levels"]);
    assert!(messages(&nested(100_000))[0].starts_with("E0605"));
    let types = |levels: usize| {
        format!("graph @g {{\ninput %x : {}f32[]{}\nreturn\n}}", "seq<".repeat(levels), ">".repeat(levels))
    };
    assert!(parse(&types(64)).is_ok());
    assert_eq!(messages(&types(65)), ["E0605 line 2, column 272: types nest deeper than 64 levels"]);
    assert_eq!(messages(&types(1_000_000)).len(), 1);
}

#[test]
fn errors_are_not_endless() {
    assert_eq!(messages(&"?\n".repeat(10_000)).len(), 64);
    assert_eq!(messages(&"{".repeat(10_000)).len(), 1);
}

#[test]
fn an_enclosed_graph_is_inlined_again() {
    let mut module = read(
        "graph @g {\ninput %x : f32[1]\nconst %w : f32[1] = [2.0]\n%h = Add(%x, %w) : f32[1]\nreturn %h\n}",
    );
    let main = module.main();
    let mut rewriter = Rewriter::new(&mut module);
    let body = rewriter.enclose(main, "body");
    let graphs = [main, body].map(|graph| rewriter.module().graph(graph));
    assert_eq!(
        graphs.map(|graph| [graph.nodes.len(), graph.constants.len(), graph.outputs.len()]),
        [[0; 3], [1; 3]]
    );
    let result = rewriter.module().graph(body).outputs[0];
    assert_eq!(rewriter.uses(result), [Use::Output(body, 0)]);
    let attributes = vec![("then_branch".to_owned(), Attribute::Graph(body))];
    let operator = Operator::onnx("If", 21);
    let new =
        NewNode { operator, name: "if".to_owned(), inputs: Vec::new(), attributes, origin: Origin::Text };
    let holder = rewriter.insert(main, None, new, &[]);
    let outputs = rewriter.inline(holder, body);
    rewriter.set_outputs(main, outputs);
    assert!(rewriter.erase(holder));
    rewriter.finish();
    let printed = print(&module);
    assert!(
        printed.contains("  const %w : f32[1] = [2.0]\n  %h = Add(%x, %w) : f32[1] origin(inlined \"if\")\n"),
        "{printed}"
    );
    assert_canonical(&printed);
}
