//! Property tests of the text form: random modules round trip; random and mutated texts never panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::plan::SpaceData;
use memc_ir::text::{parse, print, print_node};
use memc_ir::{
    Alias, AliasKind, Attribute, Bytes, ConstData, ConstOrigin, Dim, DimExpr, ElementType, EntityId, GraphId,
    Module, ModuleBuilder, NewNode, Operator, Origin, Payload, Rewriter, Scratch, Space, Stage, Storage,
    TensorType, Value, ValueType, verify,
};
use proptest::prelude::*;

/// Choices for one random module, taken from a list of numbers; 0 after its end.
struct Choices {
    numbers: Vec<u64>,
    next: usize,
}

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        number % limit.max(1)
    }
    fn raw(&mut self) -> u64 {
        self.below(u64::MAX)
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(6)).map(|_| self.raw() as u8).collect()
    }
    fn word(&mut self) -> String {
        self.pick(&[
            "", "a", "N", "a b", "x:", "é", "\"q\"", "return", "_", "2", "ai.onnx", "a/b:0", "\u{7f}", "//",
        ])
        .to_owned()
    }
    fn dim(&mut self) -> Dim {
        match self.below(4) {
            0 => Dim::Known(self.pick(&[0, 1, 2, 3, u64::MAX])),
            1 => Dim::Unknown,
            _ => {
                let mut sum = DimExpr::symbol(&self.word());
                for _ in 0..self.below(4) {
                    let factor = DimExpr::constant(self.raw() as i64);
                    let term = DimExpr::symbol(&self.word()).mul(&DimExpr::symbol(&self.word()));
                    let next = term.and_then(|term| term.mul(&factor)).and_then(|term| term.add(&sum));
                    sum = next.unwrap_or(sum);
                }
                Dim::from_expr(sum)
            }
        }
    }
    fn tensor_type(&mut self) -> TensorType {
        let element = match self.below(40) {
            number @ 0..30 => ElementType::from_onnx(number as i32),
            _ => ElementType::from_onnx(self.raw() as i32),
        };
        match self.below(6) {
            0 => TensorType::unranked(element),
            rank => TensorType::new(element, (1..rank).map(|_| self.dim()).collect()),
        }
    }
    fn ty(&mut self, depth: u64) -> ValueType {
        match self.below(12) {
            0 => ValueType::Unknown,
            1 => ValueType::SparseTensor(self.tensor_type()),
            2 if depth > 0 => ValueType::Sequence(Box::new(self.ty(depth - 1))),
            3 if depth > 0 => ValueType::Optional(Box::new(self.ty(depth - 1))),
            4 if depth > 0 => ValueType::Map(ElementType::Int64, Box::new(self.ty(depth - 1))),
            _ => ValueType::Tensor(self.tensor_type()),
        }
    }
    fn constant(&mut self) -> ConstData {
        let fitting = self.below(2) == 0;
        let ty = if fitting {
            TensorType::fixed(ElementType::from_onnx(self.below(27) as i32), &[self.below(5), 2])
        } else {
            self.tensor_type()
        };
        let payload = match self.below(4) {
            0 => Payload::Elided,
            1 => {
                let length = self.pick(&[None, Some(0), Some(u64::MAX)]);
                Payload::External { location: self.word(), offset: self.raw(), length }
            }
            _ => match ty.size() {
                Some(size) if fitting => {
                    Payload::Raw((0..size.0).map(|_| self.raw() as u8).collect::<Vec<u8>>().into())
                }
                _ => Payload::Raw(self.bytes().into()),
            },
        };
        let origin = match self.below(4) {
            0 => ConstOrigin::Initializer(self.raw() as u32),
            1 => ConstOrigin::SparseInitializer(self.raw() as u32),
            2 => ConstOrigin::Message { start: self.raw(), end: self.raw() },
            _ => ConstOrigin::New,
        };
        ConstData { ty, payload, origin }
    }
}

/// Builds one random module.
struct Builder {
    choices: Choices,
    builder: ModuleBuilder,
    names: u64,
}

impl Builder {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("{}{}", self.choices.word(), self.names)
    }
    fn constant(&mut self) -> memc_ir::ConstId {
        let data = self.choices.constant();
        self.builder.constant(data)
    }
    fn attribute(&mut self, visible: &[Value], depth: u64) -> Attribute {
        let count = self.choices.below(3);
        match self.choices.below(12) {
            0 => Attribute::Int(self.choices.raw() as i64),
            1 => Attribute::Float(f32::from_bits(self.choices.raw() as u32)),
            2 => Attribute::String(self.choices.bytes().into()),
            3 => Attribute::Tensor(self.constant()),
            4 => Attribute::Ints((0..count).map(|_| self.choices.raw() as i64).collect()),
            5 => Attribute::Floats((0..count).map(|_| f32::from_bits(self.choices.raw() as u32)).collect()),
            6 => Attribute::Strings((0..count).map(|_| self.choices.bytes().into()).collect()),
            7 => Attribute::Tensors((0..count).map(|_| self.constant()).collect()),
            8 => Attribute::Type(self.choices.ty(3)),
            9 => Attribute::Opaque { kind: self.choices.raw() as i32, message: self.choices.bytes().into() },
            10 if depth > 0 => Attribute::Graph(self.body(visible, depth - 1)),
            11 if depth > 0 => Attribute::Graphs((0..count).map(|_| self.body(visible, depth - 1)).collect()),
            _ => Attribute::Int(0),
        }
    }
    fn body(&mut self, visible: &[Value], depth: u64) -> GraphId {
        let name = self.choices.word();
        let graph = self.builder.graph(&name);
        self.fill(graph, visible.to_vec(), depth);
        graph
    }
    fn fill(&mut self, graph: GraphId, mut visible: Vec<Value>, depth: u64) {
        let outside = visible.len();
        for _ in 0..self.choices.below(3) {
            let (name, ty) = (self.name(), self.choices.ty(2));
            let default = if self.choices.below(3) == 0 { Some(self.constant()) } else { None };
            visible.push(self.builder.input(graph, &name, ty, default));
        }
        for _ in 0..self.choices.below(3) {
            let (name, constant) = (self.name(), self.constant());
            visible.push(self.builder.initializer(graph, &name, constant));
        }
        for _ in 0..self.choices.below(6) {
            self.node(graph, &mut visible, depth);
        }
        for value in visible.get(outside..).unwrap_or(&[]).to_vec() {
            if self.choices.below(4) == 0 {
                self.builder.output(graph, value);
            }
        }
    }
    fn node(&mut self, graph: GraphId, visible: &mut Vec<Value>, depth: u64) {
        let inputs = (0..self.choices.below(4))
            .map(|_| {
                if visible.is_empty() || self.choices.below(5) == 0 {
                    None
                } else {
                    Some(self.choices.pick(visible))
                }
            })
            .collect();
        let attributes = (0..self.choices.below(4))
            .map(|_| (self.choices.word(), self.attribute(visible, depth)))
            .collect();
        let origin = match self.choices.below(4) {
            0 => Origin::File { index: self.choices.raw() as u32 },
            1 => Origin::Inlined { call: self.choices.word() },
            2 => Origin::Pass { pass: self.choices.word().into() },
            _ => Origin::Text,
        };
        let (domain, name, overload) = (self.choices.word(), self.choices.word(), self.choices.word());
        let version = self.choices.pick(&[0, 1, 7, i64::MIN]);
        let operator =
            Operator { domain: domain.into(), name: name.into(), overload: overload.into(), version };
        let results: Vec<Option<(String, ValueType)>> = (0..self.choices.below(4))
            .map(|_| if self.choices.below(4) == 0 { None } else { Some((self.name(), self.choices.ty(2))) })
            .collect();
        let new = NewNode { operator, name: self.choices.word(), inputs, attributes, origin };
        let node = self.builder.node(graph, new, &results);
        let results: Vec<Value> = self.builder.module().node(node).results().collect();
        for value in &results {
            let alias = Alias {
                of: self.choices.pick(if visible.is_empty() { &results } else { visible }),
                kind: self.choices.pick(&[AliasKind::View, AliasKind::InPlace]),
                offset: Bytes(self.choices.raw()),
            };
            let storage = Storage {
                space: Space::new(self.choices.below(2) as usize),
                offset: Bytes(self.choices.raw()),
            };
            let has = (self.choices.below(3) == 0, self.choices.below(3) == 0);
            let plan = &mut self.builder.module_mut().plan;
            plan.alias.set(*value, has.0.then_some(alias));
            plan.storage.set(*value, has.1.then_some(storage));
        }
        for _ in 0..self.choices.below(2) {
            let storage = Storage { space: Space::new(0), offset: Bytes(self.choices.raw()) };
            let storage = (self.choices.below(2) == 0).then_some(storage);
            let scratch = Scratch {
                node,
                body: self.choices.below(2) == 0,
                bytes: Bytes(self.choices.raw() << 9),
                storage,
            };
            self.builder.module_mut().plan.scratch.push(scratch);
        }
        visible.extend(results);
    }
}

fn module(numbers: Vec<u64>) -> Module {
    let mut builder =
        Builder { choices: Choices { numbers, next: 0 }, builder: ModuleBuilder::new(), names: 0 };
    let choices = &mut builder.choices;
    let header = builder.builder.module_mut();
    header.ir_version = choices.raw() as i64;
    header.stage = choices.pick(&Stage::ALL);
    for _ in 0..choices.below(3) {
        header.opsets.insert(choices.word(), choices.raw() as i64);
        header.dims.insert(choices.word(), choices.raw());
    }
    for name in ["device", "odd space"] {
        let capacity = (choices.below(2) == 0).then(|| Bytes(choices.raw()));
        header.plan.spaces.push(SpaceData { name: name.to_owned(), capacity, alignment: choices.raw() });
    }
    let main = builder.builder.module().main();
    builder.fill(main, Vec::new(), 3);
    let mut module = builder.builder.finish();
    let nodes: Vec<_> = module.graph(main).nodes.clone();
    if let [first, .., last] = nodes.as_slice() {
        let (first, last) = (*first, *last);
        if module.node(first).results().next().is_some() {
            Rewriter::new(&mut module).set_recompute_of(last, Some(first));
        }
    }
    module
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_modules_round_trip(numbers in prop::collection::vec(any::<u64>(), 0..400)) {
        let module = module(numbers);
        let printed = print(&module);
        let again = match parse(&printed) {
            Ok(again) => again,
            Err(errors) => return Err(TestCaseError::fail(format!("{}\n{printed}", errors[0]))),
        };
        prop_assert_eq!(print(&again), printed);
        prop_assert!(verify(&module, Stage::Scheduled).is_ok() == verify(&again, Stage::Scheduled).is_ok());
        for node in module.nodes().keys() {
            let line = print_node(&module, node);
            prop_assert!(!line.contains('\n'), "{}", line);
        }
    }

    #[test]
    fn verifying_random_plans_never_panics(numbers in prop::collection::vec(any::<u64>(), 0..400)) {
        let _ = verify(&module(numbers), Stage::Planned);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_tokens_never_panic(tokens in prop::collection::vec(
        prop::sample::select(vec![
            "graph", "@g", "{", "}", "\n", "%x", "=", "Op", "(", ")", ":", "f32", "[", "]", "return", "input", "const", ",", "_", "\"s\"",
            "view", "in_place", "+", "-", "*", "1", "0x", "1e", "nan", "inf", "tensor", "hex", "elided", "seq", "<", ">", "space", "::", "?",
            "recompute_of", "scratch", "origin", "name", "type", "opaque", "graphs", "ints", "\"", "\\", "//", "external", "from",
        ]), 0..200))
    {
        let _ = parse(&tokens.join(" "));
    }

    #[test]
    fn mutated_texts_never_panic(at in any::<prop::sample::Index>(), len in 0usize..9, new in "[ -~\n]{0,6}", which in 0usize..2) {
        let texts = [include_str!("../text/every_feature.mem"), include_str!("../text/bodies.mem")];
        let mut bytes = texts[which].as_bytes().to_vec();
        let start = at.index(bytes.len());
        let end = (start + len).min(bytes.len());
        bytes.splice(start..end, new.bytes());
        if let Ok(module) = parse(&String::from_utf8_lossy(&bytes)) {
            let printed = print(&module);
            prop_assert_eq!(print(&parse(&printed).unwrap()), printed);
            let _ = verify(&module, Stage::Planned);
        }
    }
}
