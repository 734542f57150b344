//! Tests of the verifier: for each check a minimal violating module, next to valid modules that come
//! close.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::verify;
use crate::entity::{ConstId, EntityId, GraphId, Node, Space, Value};
use crate::module::{Definition, Module, Stage};
use crate::plan::{Alias, AliasKind, ArenaSize, Scratch, Storage};
use crate::text::parse;
use crate::units::Bytes;

fn read(lines: &str) -> Module {
    let header = "space @d alignment 16\n";
    let text = match lines.contains("graph @main {") {
        true => lines.to_owned(),
        false => format!("{header}graph @main {{\ninput %x : f32[4]\n{lines}\n}}\n"),
    };
    parse(&text).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|error| format!("{error}\n")).collect::<String>())
    })
}

/// Returns codes and messages of all violations at a stage.
fn violations(module: &Module, stage: Stage) -> Vec<String> {
    let found = verify(module, stage).err().unwrap_or_default();
    found.into_iter().map(|diagnostic| format!("{} {}", diagnostic.code, diagnostic.message)).collect()
}

fn assert_violations(module: &Module, stage: Stage, expected: &[&str]) {
    assert_eq!(violations(module, stage), expected);
}

/// Sets the size of the only arena, so that the tests need not state it.
fn with_arena(mut module: Module, size: u64) -> Module {
    let arena =
        ArenaSize { space: Space::new(0), size: Bytes(size), lower_bound: Bytes(0), order_lower_bound: None };
    module.plan.arenas.push(arena);
    module
}

fn planned(lines: &str, arena: u64, expected: &[&str]) {
    assert_violations(&with_arena(read(lines), arena), Stage::Planned, expected);
}

fn value(module: &Module, name: &str) -> Value {
    module.values.iter().find(|(_, data)| data.name == name).unwrap().0
}

type Edit = fn(&mut Module);

const CHAIN: &str = "%a = Exp(%x) : f32[4]\n%b = Exp(%a) : f32[4]\nreturn %b";
const BRANCH: &str = "%a = Exp(%x) : f32[4]\n%b = If(%x) {then = graph @t {\n%i = Exp(%a) : f32[4]\nreturn %i\n}, else = graph @e {\n\
                      return %a\n}} : f32[4]\nreturn %b";

#[test]
fn sound_modules_pass_and_the_token_holds_module_and_stage() {
    for text in [CHAIN, BRANCH, "return", "return %x, %x"] {
        let module = read(text);
        for stage in Stage::ALL {
            let verified = verify(&module, stage).unwrap();
            assert_eq!(verified.stage(), stage);
            assert!(std::ptr::eq(verified.module(), &raw const module));
        }
    }
}

#[test]
fn dangling_ids() {
    assert_violations(&Module::default(), Stage::Imported, &["E0201 the module has no main graph"]);
    let far = Value::new(99);
    let cases: [(Edit, &str); 13] = [
        (
            |m| m.graphs[GraphId::new(0)].outputs.push(Value::new(99)),
            "E0201 `graph0` has a result that does not exist",
        ),
        (
            |m| m.graphs[GraphId::new(0)].nodes.push(Node::new(99)),
            "E0201 `graph0` has a node or a parent that does not exist",
        ),
        (
            |m| m.nodes[Node::new(0)].inputs[0] = Some(Value::new(99)),
            "E0201 `n0` has an operand or a result that does not exist",
        ),
        (
            |m| m.nodes[Node::new(0)].graph = GraphId::new(99),
            "E0201 `n0` has a graph or an original that does not exist",
        ),
        (
            |m| m.nodes[Node::new(0)].recompute_of = Some(Node::new(99)),
            "E0201 `n0` has a graph or an original that does not exist",
        ),
        (
            |m| {
                m.nodes[Node::new(0)]
                    .attributes
                    .push(("t".to_owned(), crate::Attribute::Tensor(ConstId::new(99))))
            },
            "E0201 `n0` has a graph or constant in its attribute \"t\" that does not exist",
        ),
        (
            |m| {
                m.nodes[Node::new(0)]
                    .attributes
                    .push(("g".to_owned(), crate::Attribute::Graph(GraphId::new(99))))
            },
            "E0201 `n0` has a graph or constant in its attribute \"g\" that does not exist",
        ),
        (
            |m| m.values[Value::new(0)].definition = Definition::Result(Node::new(99), 0),
            "E0201 `%v0` is defined by a node or graph that does not exist",
        ),
        (
            |m| m.values[Value::new(0)].default = Some(ConstId::new(99)),
            "E0201 `%v0` has a default that does not exist",
        ),
        (
            |m| {
                m.plan.alias.set(
                    Value::new(0),
                    Some(Alias { of: Value::new(99), kind: AliasKind::View, offset: Bytes(0) }),
                )
            },
            "E0201 `%v0` is an alias of a value that does not exist",
        ),
        (
            |m| m.plan.storage.set(Value::new(0), Some(Storage { space: Space::new(99), offset: Bytes(0) })),
            "E0201 `%v0` lies in a space that does not exist",
        ),
        (
            |m| {
                m.plan.scratch.push(Scratch {
                    node: Node::new(99),
                    body: false,
                    bytes: Bytes(1),
                    storage: None,
                })
            },
            "E0201 `n99` has scratch but is a node that does not exist",
        ),
        (
            |m| {
                let arena = ArenaSize {
                    space: Space::new(99),
                    size: Bytes(1),
                    lower_bound: Bytes(0),
                    order_lower_bound: None,
                };
                m.plan.arenas.push(arena);
            },
            "E0201 an arena of 1 B is in a space that does not exist",
        ),
    ];
    for (edit, message) in cases {
        let mut module = read(CHAIN);
        assert!(!module.values.contains(far));
        edit(&mut module);
        assert_violations(&module, Stage::Planned, &[message]);
    }
}

#[test]
fn definitions_and_lists_agree() {
    let mut module = read(CHAIN);
    let x = value(&module, "x");
    module.graphs[GraphId::new(0)].inputs.push(x);
    assert_violations(
        &module,
        Stage::Imported,
        &["E0202 `%x` states another definition: input 1 of the graph \"main\""],
    );

    let mut module = read("const %c : f32[] = [1.0]\nreturn %c");
    let c = value(&module, "c");
    module.graphs[GraphId::new(0)].constants.push(c);
    assert_violations(
        &module,
        Stage::Imported,
        &["E0202 `%c` occurs there a second time: an initializer of the graph \"main\""],
    );

    let mut module = read(CHAIN);
    module.nodes[Node::new(1)].outputs[0] = None;
    assert_violations(&module, Stage::Imported, &["E0202 `%b` (2) is not in the list of its definition"]);

    let mut module = read(CHAIN);
    let a = value(&module, "a");
    module.nodes[Node::new(1)].outputs.push(Some(a));
    assert_violations(
        &module,
        Stage::Imported,
        &["E0202 `%a` states another definition: result 1 of `%b, %a = Exp(%a) : (f32[4], f32[4])`"],
    );
}

#[test]
fn reads_come_after_definitions_and_stay_in_scope() {
    let mut module = read(CHAIN);
    module.graphs[GraphId::new(0)].nodes.reverse();
    for stage in Stage::ALL {
        assert_violations(&module, stage, &["E0203 `%a` is read before it is defined"]);
    }

    let mut module = read(CHAIN);
    let a = value(&module, "a");
    module.nodes[Node::new(0)].inputs[0] = Some(a);
    assert_violations(&module, Stage::Imported, &["E0203 `%a` is read before it is defined"]);

    let mut module = read(CHAIN);
    module.graphs[GraphId::new(0)].nodes.remove(0);
    assert_violations(&module, Stage::Imported, &["E0203 `%a` is read but its node is in no list"]);

    let mut module = read(CHAIN);
    module.values[a].definition = Definition::Erased;
    module.graphs[GraphId::new(0)].nodes.remove(0);
    module.nodes[Node::new(0)].outputs.clear();
    assert_violations(&module, Stage::Imported, &["E0203 `%a` is read but was erased"]);

    let mut module = read(BRANCH);
    let inner = value(&module, "i");
    module.graphs[GraphId::new(0)].outputs[0] = inner;
    assert_violations(
        &module,
        Stage::Imported,
        &[
            "E0203 `%i` is read but is defined in a graph that is not around the reader, as a result of the graph \"main\"",
        ],
    );

    let mut module = read(BRANCH);
    module.graphs[GraphId::new(0)].nodes.reverse();
    assert_violations(
        &module,
        Stage::Imported,
        &[
            "E0203 `%a` is read before it is defined",
            "E0203 `%a` is read before it is defined, as a result of the graph \"e\"",
        ],
    );
}

#[test]
fn names_lead_to_their_values() {
    let mut module = read(CHAIN);
    let b = value(&module, "b");
    module.values[b].name = "a".to_owned();
    assert_violations(&module, Stage::Imported, &["E0204 `%a` is defined twice in the graph \"main\""]);
    module.values[b].name.clear();
    assert_violations(&module, Stage::Imported, &["E0204 a value has no name"]);

    let mut module = read(BRANCH);
    let inner = value(&module, "i");
    module.values[inner].name = "a".to_owned();
    assert_violations(
        &module,
        Stage::Imported,
        &["E0204 `%a` is captured by a body in which another value has its name"],
    );
    // A body may hide a name that it does not read.
    module.values[inner].name = "x".to_owned();
    assert_violations(&module, Stage::Imported, &[]);
}

#[test]
fn bodies_form_a_tree() {
    let mut module = read(CHAIN);
    module.graphs[GraphId::new(0)].parent = Some(Node::new(0));
    assert_violations(&module, Stage::Imported, &["E0205 the main graph has a parent node"]);

    let mut module = read(BRANCH);
    module.graphs[GraphId::new(1)].parent = Some(Node::new(0));
    assert_violations(
        &module,
        Stage::Imported,
        &["E0205 the body in the attribute \"then\" has another parent"],
    );

    let mut module = read(BRANCH);
    let body = crate::Attribute::Graph(GraphId::new(1));
    let branch = module.producer(value(&module, "b")).unwrap();
    module.nodes[branch].attributes[1].1 = body;
    assert_violations(
        &module,
        Stage::Imported,
        &["E0205 the body in the attribute \"else\" is already in another place"],
    );

    // A graph inside itself is rejected.
    let mut module = read(BRANCH);
    let main = crate::Attribute::Graph(GraphId::new(0));
    module.nodes[branch].attributes[1].1 = main;
    assert_violations(
        &module,
        Stage::Imported,
        &["E0205 the body in the attribute \"else\" is already in another place"],
    );
    assert!(crate::text::print(&module).contains("else = graph @main {...}"));

    let mut module = read("return");
    let mut graph = GraphId::new(0);
    for level in 0..65 {
        let body = module.graphs.push(crate::GraphData::default());
        let operator = crate::Operator::onnx("If", 1);
        let attributes = vec![("b".to_owned(), crate::Attribute::Graph(body))];
        let (inputs, outputs) = (Vec::new(), Vec::new());
        let (name, origin) = (String::new(), crate::Origin::Text);
        let data = crate::NodeData {
            operator,
            name,
            inputs,
            outputs,
            attributes,
            graph,
            origin,
            recompute_of: None,
        };
        let node = module.nodes.push(data);
        module.graphs[graph].nodes.push(node);
        module.graphs[body].parent = Some(node);
        graph = body;
        let expected: &[&str] =
            if level < 64 { &[] } else { &["E0205 the body in the attribute \"b\" nests too deeply"] };
        assert_violations(&module, Stage::Imported, expected);
    }
}

#[test]
fn lists_hold_their_own_nodes_once() {
    let mut module = read(CHAIN);
    module.graphs[GraphId::new(0)].nodes.push(Node::new(0));
    assert_violations(&module, Stage::Imported, &["E0206 a node is in a list twice"]);

    let mut module = read(BRANCH);
    module.nodes[Node::new(0)].graph = GraphId::new(1);
    assert_violations(&module, Stage::Imported, &["E0206 a node of graph1 is in the list of graph0"]);

    let mut module = read(CHAIN);
    let b = value(&module, "b");
    module.values[b].definition = Definition::Erased;
    assert_violations(&module, Stage::Imported, &["E0206 an erased node is in the list of its graph"]);
}

#[test]
fn originals_of_recomputed_nodes_are_in_sight() {
    let mut module = read(CHAIN);
    module.nodes[Node::new(0)].recompute_of = Some(Node::new(0));
    assert_violations(&module, Stage::Imported, &["E0207 a node recomputes itself"]);

    let mut module = read("%a = Exp(%x) : f32[4]\n%b = Exp(%x) : f32[4] recompute_of(%a)\nreturn %b");
    assert_violations(&module, Stage::Imported, &[]);
    module.graphs[GraphId::new(0)].nodes.remove(0);
    assert_violations(
        &module,
        Stage::Imported,
        &["E0207 a node recomputes a node that its graph does not see"],
    );

    let mut module = read("() = Print(%x)\n%b = Exp(%x) : f32[4]\nreturn %b");
    module.nodes[Node::new(1)].recompute_of = Some(Node::new(0));
    assert_violations(&module, Stage::Imported, &["E0207 a node recomputes a node without results"]);

    // A body may recompute a node that runs before the body's node, and no other node of the enclosing
    // graph.
    let mut module = read(BRANCH);
    let made = |name| module.producer(value(&module, name)).unwrap();
    let (inner, before, own) = (made("i"), made("a"), made("b"));
    module.nodes[inner].recompute_of = Some(before);
    assert_violations(&module, Stage::Imported, &[]);
    module.nodes[inner].recompute_of = Some(own);
    assert_violations(
        &module,
        Stage::Imported,
        &["E0207 a node recomputes a node that its graph does not see"],
    );
}

#[test]
fn constants_fit_their_types() {
    let module =
        read("const %c : f32[4] = hex \"00\"\n%a = Op() {t = tensor i64[1] hex \"\"} : f32[4]\nreturn %a");
    assert_violations(&module, Stage::Imported, &[]);
    assert_violations(
        &module,
        Stage::Typed,
        &[
            "E0211 the constant of \"c\" has 1 B but its type f32[4] takes 16 B",
            "E0211 the constant of \"t\" has 0 B but its type i64[1] takes 8 B",
        ],
    );
    let module = read(
        "const %a : f32[2,3] = tensor i64[1] [1]\nconst %b : f32[2] = tensor f32[3] [1, 2, 3]\ninput %c : f32[N] = tensor f32[1] [1]\n\
         input %d : seq<f32[]> = tensor f32[1] [1]\nconst %e : unknown = tensor f32[1] [1]\nreturn",
    );
    assert_violations(
        &module,
        Stage::Typed,
        &[
            "E0212 `%d` is stated as seq<f32[]> but its constant is f32[1]",
            "E0212 `%a` is stated as f32[2,3] but its constant is i64[1]",
            "E0212 `%b` is stated as f32[2] but its constant is f32[3]",
        ],
    );
}

#[test]
fn aliases_end_at_an_owner_in_sight() {
    let cycle = "%a = Exp(%x) : f32[4] view(%b)\n%b = Exp(%a) : f32[4] view(%a)\nreturn %b";
    planned(cycle, 0, &["E0230 `%a` is an alias of itself"]);
    let own = "%a = Exp(%x) : f32[4] view(%a)\nreturn %a";
    planned(own, 0, &["E0230 `%a` is an alias of itself"]);

    let mut module = with_arena(read(BRANCH), 0);
    let (a, inner) = (value(&module, "a"), value(&module, "i"));
    module.plan.alias.set(inner, Some(Alias { of: a, kind: AliasKind::View, offset: Bytes(0) }));
    assert_violations(&module, Stage::Planned, &[]);
    module.plan.alias.set(inner, None);
    module.plan.alias.set(a, Some(Alias { of: inner, kind: AliasKind::View, offset: Bytes(0) }));
    assert_violations(
        &module,
        Stage::Planned,
        &["E0230 `%a` is an alias of `%i`, which is not a value of its graph"],
    );
    module.plan.alias.set(a, None);
    let late = value(&module, "b");
    module.plan.alias.set(inner, Some(Alias { of: late, kind: AliasKind::View, offset: Bytes(0) }));
    assert_violations(
        &module,
        Stage::Planned,
        &["E0230 `%i` is an alias of `%b`, which is not a value of its graph"],
    );
}

#[test]
fn aliases_lie_inside_the_value_that_they_share() {
    let view = |size: u64, offset: u64| {
        format!("%a = Exp(%x) : f32[4]\n%b = Slice(%a) : u8[{size}] view(%a, {offset})\nreturn %b")
    };
    planned(&view(8, 8), 0, &[]);
    planned(&view(8, 9), 0, &["E0231 `%b` (8 B) at byte 9 does not lie inside `%a`"]);
    planned(
        &view(1, u64::MAX),
        0,
        &["E0231 `%b` (1 B) at byte 18446744073709551615 does not lie inside `%a`"],
    );
    let unknown = |offset: u64| {
        format!("%a = Exp(%x) : f32[?]\n%b = Reshape(%a) : f32[?] view(%a, {offset})\nreturn %b")
    };
    planned(&unknown(0), 0, &[]);
    planned(&unknown(4), 0, &["E0231 `%b` (unknown size) at byte 4 does not lie inside `%a`"]);
}

#[test]
fn in_place_writes_never_overwrite_bytes_that_are_read_later() {
    // Valid: a chain with a view of the overwritten value that dies too, and a sub-view whose remaining
    // bytes stay live.
    let sound = "%a = Exp(%x) : f32[4]\n%v = Reshape(%a) : f32[2,2] view(%a)\n%b = Exp(%v) : f32[2,2] in_place(%v)\n\
                 %c = Exp(%b) : f32[2,2] in_place(%b)\nreturn %c";
    planned(sound, 0, &[]);
    let windows = "%a = Exp(%x) : f32[4]\n%l, %r = Split(%a) : (f32[2] view(%a), f32[2] view(%a, 8))\n\
                   %b = Exp(%l) : f32[2] in_place(%l)\n%c = Add(%b, %r) : f32[2] in_place(%r)\nreturn %c";
    planned(windows, 0, &[]);

    let read_later =
        "%a = Exp(%x) : f32[4]\n%b = Exp(%a) : f32[4] in_place(%a)\n%c = Add(%a, %b) : f32[4]\nreturn %c";
    planned(read_later, 0, &["E0232 `%b` overwrites bytes of `%a`, which are needed after step 1"]);
    let view_later = "%a = Exp(%x) : f32[4]\n%v = Reshape(%a) : f32[4] view(%a)\n%b = Exp(%a) : f32[4] in_place(%a)\n\
                      %c = Add(%v, %b) : f32[4]\nreturn %c";
    planned(view_later, 0, &["E0232 `%b` overwrites bytes of `%v`, which are needed after step 2"]);
    let is_output =
        "%a = Exp(%x) : f32[4]\n%b = Exp(%a) : f32[4] in_place(%a)\n%c = Exp(%b) : f32[4]\nreturn %a, %c";
    planned(is_output, 0, &["E0232 `%b` overwrites bytes of `%a`, which are needed after step 1"]);
    let captured = "%a = Exp(%x) : f32[4]\n%b = Exp(%a) : f32[4] in_place(%a)\n%c = If(%b) {t = graph @t {\nreturn %a\n}} : f32[4]\nreturn %c";
    planned(captured, 0, &["E0232 `%b` overwrites bytes of `%a`, which are needed after step 1"]);
    let twice =
        "%a = Exp(%x) : f32[4]\n%b, %c = Two(%a) : (f32[4] in_place(%a), f32[4] in_place(%a))\nreturn %x";
    planned(
        twice,
        0,
        &[
            "E0232 `%b` overwrites bytes of `%c`, which are needed after step 1",
            "E0232 `%c` overwrites bytes of `%b`, which are needed after step 1",
        ],
    );
    let no_operand = "%a = Exp(%x) : f32[4]\n%b = Exp(%x) : f32[4] in_place(%a)\nreturn %b";
    planned(no_operand, 0, &["E0232 `%b` overwrites `%a`, which is not an operand of this node"]);
    let size = "%a = Exp(%x) : f32[4]\n%b = Cast(%a) : f16[4] in_place(%a)\nreturn %b";
    planned(size, 0, &["E0232 `%b` overwrites `%a`, which has another size"]);
    let input = "%b = Exp(%x) : f32[4] in_place(%x)\nreturn %b";
    planned(input, 0, &["E0232 `%b` overwrites `%x`, an input that the arena does not hold"]);
    let constant = "const %k : f32[4] = elided\n%b = Exp(%k) : f32[4] in_place(%k)\nreturn %b";
    planned(constant, 0, &["E0232 `%b` overwrites `%k`, a constant"]);
    let no_node = "%a = Exp(%x) : f32[4]\ninput %i : f32[4] in_place(%a)\nreturn %i";
    planned(no_node, 0, &["E0232 `%i` is in place but no node computes it"]);
    // An input in the arena may be overwritten, even at its only step.
    let held = "input %i : f32[4] @d+0\n%b = Exp(%i) : f32[4] in_place(%i) @d+0\nreturn %b";
    planned(held, 16, &[]);
    let body = "%a = Exp(%x) : f32[4]\n%b = If(%a) {t = graph @t {\n%v = Reshape(%a) : f32[4] view(%a)\n\
                %i = Exp(%v) : f32[4] in_place(%v)\nreturn %i\n}} : f32[4]\nreturn %b";
    planned(body, 0, &["E0232 `%i` overwrites `%a`, a value of another graph"]);
}

#[test]
fn places_are_aligned_inside_and_apart() {
    let two = |a: u64, b: u64| {
        format!(
            "%a = Exp(%x) : f32[4] @d+{a}\n%b = Exp(%a) : f32[4] @d+{b}\n%c = Exp(%b) : f32[4] @d+{a}\nreturn %c"
        )
    };
    planned(&two(0, 16), 32, &[]);
    planned(&two(0, 24), 40, &["E0240 `%b` at 0x18 is not aligned"]);
    planned(
        &two(0, 32),
        32,
        &[
            "E0241 `%b` ends at 0x30, outside its arena of 32 B",
            "E0244 the arena of `@d` has 32 B but its last buffer ends at 48 B",
        ],
    );
    let same = "E0242 `%a` and `%b` overlap in `@d`: bytes [0x0,0x10) at steps [0,2) and bytes [0x0,0x10) at steps [1,3)";
    let next = "E0242 `%b` and `%c` overlap in `@d`: bytes [0x0,0x10) at steps [1,3) and bytes [0x0,0x10) at steps [2,3)";
    planned(&two(0, 0), 16, &[same, next]);
    planned(&two(0, 16), 48, &["E0244 the arena of `@d` has 48 B but its last buffer ends at 32 B"]);
    assert_violations(
        &read(&two(0, 16)),
        Stage::Planned,
        &[
            "E0241 `%a` ends at 0x10, outside its arena of 0 B",
            "E0241 `%b` ends at 0x20, outside its arena of 0 B",
            "E0241 `%c` ends at 0x10, outside its arena of 0 B",
            "E0244 the space `@d` holds buffers but has no arena",
        ],
    );
}

#[test]
fn an_owner_is_live_while_an_alias_is() {
    let held = "%a = Exp(%x) : f32[4] @d+0\n%v = Reshape(%a) : f32[4] view(%a) @d+0\n%b = Exp(%x) : f32[4] @d+0\n%c = Add(%v, %b) : f32[4]\nreturn %c";
    planned(
        held,
        16,
        &[
            "E0242 `%a` and `%b` overlap in `@d`: bytes [0x0,0x10) at steps [0,4) and bytes [0x0,0x10) at steps [2,4)",
        ],
    );
    // The producer writes its slice of the concatenation, so the concatenation is live before it is
    // defined.
    let concat = "%a = Exp(%x) : f32[4] view(%c) @d+0\n%b = Exp(%x) : f32[4] @d+0\n%c = Concat(%a, %b) : f32[8] @d+0\nreturn %c";
    planned(
        concat,
        32,
        &[
            "E0242 `%c` and `%b` overlap in `@d`: bytes [0x0,0x20) at steps [0,3) and bytes [0x0,0x10) at steps [1,3)",
        ],
    );
    let captured = "%a = Exp(%x) : f32[4] @d+0\n%b = Exp(%x) : f32[4] @d+0\n%c = If(%b) {t = graph @t {\nreturn %a\n}} : f32[4]\nreturn %c";
    planned(
        captured,
        16,
        &[
            "E0242 `%a` and `%b` overlap in `@d`: bytes [0x0,0x10) at steps [0,3) and bytes [0x0,0x10) at steps [1,3)",
        ],
    );
    let unread = "%a = Exp(%x) : f32[4] @d+0\n%b = Exp(%x) : f32[4] @d+0\nreturn %b";
    planned(unread, 16, &[]);
    let output = "%a = Exp(%x) : f32[4] @d+0\n%b = Exp(%x) : f32[4] @d+0\nreturn %a, %b";
    assert_eq!(violations(&with_arena(read(output), 16), Stage::Planned).len(), 1);
}

#[test]
fn aliases_lie_at_the_offset_that_their_owner_implies() {
    let view = |place: &str| {
        format!(
            "%a = Exp(%x) : f32[4] @d+16\n%v = Slice(%a) : f32[2] view(%a, 8){place}\n%b = Exp(%v) : f32[2]\nreturn %b"
        )
    };
    planned(&view(" @d+24"), 32, &[]);
    planned(&view(" @d+16"), 32, &["E0243 `%v` is not at the place that its owner `%a` implies"]);
    planned(&view(""), 32, &["E0243 `%v` is not at the place that its owner `%a` implies"]);
    let unplaced = "%v = Reshape(%x) : f32[4] view(%x) @d+0\nreturn %v";
    planned(unplaced, 0, &["E0243 `%v` is not at the place that its owner `%x` implies"]);
}

#[test]
fn scratch_counts_for_its_step() {
    let scratch = |place: &str| {
        format!("%a = Exp(%x) : f32[4] @d+0\n%b = Exp(%a) : f32[4] scratch(16{place})\nreturn %b")
    };
    planned(&scratch(" @d+16"), 32, &[]);
    planned(
        &scratch(" @d+0"),
        16,
        &[
            "E0242 `%a` and scratch of `Exp` overlap in `@d`: bytes [0x0,0x10) at steps [0,2) and bytes [0x0,0x10) at steps [1,2)",
        ],
    );
    planned(&scratch(""), 16, &["E0246 16 B of scratch have no place"]);
    planned(
        &scratch(" @d+8"),
        24,
        &[
            "E0240 scratch at 0x8 is not aligned",
            "E0242 `%a` and scratch of `Exp` overlap in `@d`: bytes [0x0,0x10) at steps [0,2) and bytes [0x8,0x18) at steps [1,2)",
        ],
    );
    let mut module = with_arena(read(CHAIN), 0);
    module.graphs[GraphId::new(0)].nodes.pop();
    module.graphs[GraphId::new(0)].outputs.clear();
    module.plan.scratch.push(Scratch { node: Node::new(1), body: false, bytes: Bytes(8), storage: None });
    assert_violations(&module, Stage::Planned, &["E0246 an erased node has scratch"]);
}

#[test]
fn bodies_have_the_room_that_their_node_gives_them() {
    let body = |room: u64| {
        format!(
            "%b = If(%x) {{t = graph @t {{\n%i = Exp(%x) : f32[4] @d+0\n%j = Exp(%i) : f32[4] @d+16\nreturn %j\n}}, e = graph @e {{\n\
             %i = Exp(%x) : f32[4] @d+0\nreturn %i\n}}}} : f32[4] @d+0 body_scratch({room} @d+16)\nreturn %b"
        )
    };
    planned(&body(32), 48, &[]);
    planned(&body(31), 47, &["E0241 `%j` ends at 0x20, outside its arena of 31 B"]);
}

#[test]
fn arenas_and_spaces_have_valid_sizes_alignments_and_names() {
    let mut module = with_arena(read("%a = Exp(%x) : f32[4] @d+0\nreturn %a"), 16);
    module.plan.arenas[0].lower_bound = Bytes(17);
    assert_violations(
        &module,
        Stage::Planned,
        &["E0244 the arena of `@d` has 16 B, below its lower bound of 17 B"],
    );
    module.plan.arenas[0].lower_bound = Bytes(16);
    let module = with_arena(module, 16);
    assert_violations(&module, Stage::Planned, &["E0244 the space `@d` has two arenas"]);

    let mut module = read("return");
    module.plan.spaces[Space::new(0)].alignment = 0;
    assert_violations(&module, Stage::Planned, &["E0245 the alignment of the space `@d` is 0"]);
    module.plan.spaces[Space::new(0)].alignment = 1;
    let again = module.plan.spaces[Space::new(0)].clone();
    module.plan.spaces.push(again);
    assert_violations(&module, Stage::Planned, &["E0245 two spaces have the name `@d`"]);
    assert_violations(&module, Stage::Scheduled, &[]);
    let text = "%a = Exp(%x) : string[4] @d+0\nreturn %a";
    assert_violations(
        &with_arena(read(text), 0),
        Stage::Planned,
        &["E0246 `%a` has a place but no known size"],
    );
}

#[test]
fn violations_are_collected_and_limited() {
    let mut module = read("%a = Exp(%x) : f32[4]\nreturn");
    let a = value(&module, "a");
    module.nodes[Node::new(0)].inputs = vec![Some(a); 5000];
    assert_eq!(verify(&module, Stage::Imported).unwrap_err().len(), super::MAX_VIOLATIONS);
}
