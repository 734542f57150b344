//! Modules and plans from bytes under the verifier: it never panics, and accepted modules can be
//! printed and read again.

use memc::memc_ir::{
    Alias, AliasKind, ArenaSize, Attribute, Bytes, ConstData, ConstId, ConstOrigin, Dim, ElementType,
    EntityId, GraphId, Module, ModuleBuilder, NewNode, Node, Operator, Origin, Payload, Rewriter, Scratch,
    Space, SpaceData, Stage, Storage, TensorType, Value, ValueType, text, verify,
};

use crate::Choices;
use crate::text::round_trip;

/// Builds a module with a plan, edits it, and verifies it at every stage.
pub fn verify_any(bytes: &[u8]) {
    let mut maker = Maker { choices: Choices::new(bytes), builder: ModuleBuilder::new(), graphs: 1 };
    maker.graph(GraphId::new(0));
    if maker.choices.once_in(2) {
        maker.plan();
    }
    let (mut choices, mut module) = (maker.choices, maker.builder.finish());
    judge(&module);
    // Edits need valid ids.
    if verify(&module, Stage::Imported).is_ok() {
        edit(&mut module, &mut choices);
        judge(&module);
    }
}

fn judge(module: &Module) {
    let sound = Stage::ALL.map(|stage| verify(module, stage).is_ok());
    assert!(
        sound.is_sorted_by(|early, late| early >= late),
        "a later stage holds and an earlier one does not: {sound:?}"
    );
    if sound[Stage::Planned as usize] {
        round_trip(module);
    } else if sound[Stage::Imported as usize] {
        // A plan that contradicts itself may not parse again, but it can be printed.
        let _ = text::parse(&text::print(module));
    }
}

fn edit(module: &mut Module, choices: &mut Choices<'_>) {
    let main = module.main();
    let mut rewriter = Rewriter::new(module);
    for _ in 0..choices.below(5) {
        let (nodes, values) = (rewriter.module().nodes().len(), rewriter.module().values().len());
        if nodes == 0 || values == 0 {
            break;
        }
        let (node, value) = (Node::new(choices.below(nodes)), Value::new(choices.below(values)));
        match choices.below(5) {
            0 => {
                rewriter.erase(node);
            }
            1 => rewriter.replace_uses(value, Value::new(choices.below(values))),
            2 => {
                rewriter.drop_unused_constants();
            }
            3 => rewriter.set_recompute_of(node, Some(Node::new(choices.below(nodes)))),
            _ => {
                let mut order = rewriter.module().graph(main).nodes.clone();
                order.reverse();
                rewriter.set_schedule(main, order);
            }
        }
    }
    rewriter.finish();
}

struct Maker<'b> {
    choices: Choices<'b>,
    builder: ModuleBuilder,
    /// Number of graphs so far; every body adds a graph.
    graphs: usize,
}

impl Maker<'_> {
    fn graph(&mut self, graph: GraphId) {
        for _ in 0..self.choices.below(3) {
            let (name, ty) = (self.name(), self.ty());
            let default = self.choices.once_in(6).then(|| self.constant());
            self.builder.input(graph, &name, ty, default);
        }
        for _ in 0..self.choices.below(3) {
            let name = self.name();
            let constant = self.constant();
            self.builder.initializer(graph, &name, constant);
        }
        for _ in 0..self.choices.below(9) {
            self.node(graph);
        }
        for _ in 0..self.choices.below(3) {
            let value = self.value();
            self.builder.output(graph, value);
        }
    }

    fn node(&mut self, graph: GraphId) {
        let mut attributes = Vec::new();
        for key in ["body", "value", "axes"] {
            if !self.choices.once_in(5) {
                continue;
            }
            let value = match self.choices.below(6) {
                1 => Attribute::Ints(vec![self.choices.any(), 0]),
                2 => Attribute::Tensor(self.constant()),
                3 => Attribute::String(self.choices.any::<Vec<u8>>().into()),
                4 => Attribute::Float(self.choices.any()),
                5 => Attribute::Opaque {
                    kind: self.choices.any(),
                    message: self.choices.any::<Vec<u8>>().into(),
                },
                _ if self.graphs < 8 => {
                    self.graphs += 1;
                    let body = self.builder.graph("body");
                    self.graph(body);
                    Attribute::Graph(body)
                }
                // A body that may already belong to another node or to an inner graph.
                _ => Attribute::Graph(GraphId::new(self.choices.below(self.graphs))),
            };
            attributes.push((key.to_owned(), value));
        }
        let inputs =
            (0..self.choices.below(4)).map(|_| (!self.choices.once_in(8)).then(|| self.value())).collect();
        let operator = Operator::onnx(*self.choices.pick(&["Relu", "Add", "If", "odd name"]), 21);
        let origin = match self.choices.below(4) {
            1 => Origin::File { index: self.choices.any() },
            2 => Origin::Inlined { call: self.choices.any() },
            _ => Origin::Text,
        };
        let new = NewNode { operator, name: self.name(), inputs, attributes, origin };
        let results: Vec<_> = (0..self.choices.below(3))
            .map(|_| (!self.choices.once_in(8)).then(|| (self.name(), self.ty())))
            .collect();
        self.builder.node(graph, new, &results);
    }

    fn name(&mut self) -> String {
        match self.choices.below(16) {
            1 => "same".to_owned(),
            2 => self.choices.any(),
            _ => format!("v{}", self.builder.module().values().len()),
        }
    }

    /// Returns a value that exists, except in rare cases.
    fn value(&mut self) -> Value {
        let count = self.builder.module().values().len();
        if self.choices.once_in(64) {
            return Value::new(self.choices.number() as usize);
        }
        Value::new(count.saturating_sub(1 + self.choices.below(count.min(6))))
    }

    fn node_id(&mut self) -> Node {
        let extra = usize::from(self.choices.once_in(32));
        Node::new(self.choices.below(self.builder.module().nodes().len() + extra))
    }

    fn tensor(&mut self) -> TensorType {
        let element = match self.choices.below(8) {
            1 => ElementType::Int4,
            2 => ElementType::String,
            3 => ElementType::from_onnx(self.choices.any()),
            _ => ElementType::Float,
        };
        if self.choices.once_in(12) {
            return TensorType::unranked(element);
        }
        let dim = |choices: &mut Choices<'_>| match choices.below(10) {
            1 => Dim::from_name(*choices.pick(&[
                "N",
                "2*N",
                "N+M",
                "",
                "odd name",
                "floor((N+1)/2)",
                "min(4,N)*M",
            ])),
            2 => Dim::Known(choices.number()),
            _ => Dim::Known(4),
        };
        TensorType::new(element, (0..self.choices.below(3)).map(|_| dim(&mut self.choices)).collect())
    }

    fn ty(&mut self) -> ValueType {
        let tensor = self.tensor();
        match self.choices.below(24) {
            1 => ValueType::Unknown,
            2 => ValueType::Sequence(Box::new(ValueType::Tensor(tensor))),
            3 => ValueType::Map(
                ElementType::Int64,
                Box::new(ValueType::Optional(Box::new(ValueType::Unknown))),
            ),
            4 => ValueType::SparseTensor(tensor),
            _ => ValueType::Tensor(tensor),
        }
    }

    fn constant(&mut self) -> ConstId {
        let ty = self.tensor();
        let payload = match self.choices.below(6) {
            1 => Payload::Raw(self.choices.any::<Vec<u8>>().into()),
            2 => Payload::External {
                location: self.choices.any(),
                offset: self.choices.number(),
                length: self.choices.any::<Option<u64>>(),
            },
            3 => match ty.size() {
                Some(Bytes(size @ 0..=512)) => Payload::Raw(vec![7; size as usize].into()),
                _ => Payload::Elided,
            },
            _ => Payload::Elided,
        };
        let origin = match self.choices.below(4) {
            1 => ConstOrigin::Initializer(self.choices.any()),
            2 => ConstOrigin::Message { start: self.choices.number(), end: self.choices.number() },
            _ => ConstOrigin::New,
        };
        self.builder.constant(ConstData { ty, payload, origin })
    }

    fn plan(&mut self) {
        self.builder.module_mut().stage = *self.choices.pick(&Stage::ALL);
        for _ in 0..self.choices.below(3) {
            let space = SpaceData {
                name: (*self.choices.pick(&["device", "host", "device", ""])).to_owned(),
                capacity: self.choices.once_in(4).then(|| Bytes(self.choices.number())),
                alignment: *self.choices.pick(&[1, 64, 0, 3, u64::MAX]),
            };
            self.builder.module_mut().plan.spaces.push(space);
        }
        for index in 0..self.builder.module().values().len() {
            let value = Value::new(index);
            if self.choices.once_in(4) {
                let kind = if self.choices.once_in(2) { AliasKind::View } else { AliasKind::InPlace };
                let offset = if self.choices.once_in(4) { Bytes(self.choices.number()) } else { Bytes(0) };
                let alias = Alias { of: self.value(), kind, offset };
                self.builder.module_mut().plan.alias.set(value, Some(alias));
            }
            let storage = self.choices.once_in(2).then(|| self.storage());
            self.builder.module_mut().plan.storage.set(value, storage);
        }
        for _ in 0..self.choices.below(3) {
            let scratch = Scratch {
                node: self.node_id(),
                body: self.choices.once_in(2),
                bytes: Bytes(self.choices.number()),
                storage: (!self.choices.once_in(3)).then(|| self.storage()),
            };
            self.builder.module_mut().plan.scratch.push(scratch);
        }
        for _ in 0..self.choices.below(3) {
            let arena = ArenaSize {
                space: self.space(),
                size: Bytes(self.choices.number()),
                lower_bound: Bytes(self.choices.number()),
                order_lower_bound: self.choices.once_in(3).then(|| Bytes(self.choices.number())),
            };
            self.builder.module_mut().plan.arenas.push(arena);
        }
    }

    fn space(&mut self) -> Space {
        Space::new(usize::from(self.choices.once_in(8)) * self.choices.below(4))
    }

    fn storage(&mut self) -> Storage {
        let offset =
            if self.choices.once_in(6) { self.choices.number() } else { 16 * self.choices.below(12) as u64 };
        Storage { space: self.space(), offset: Bytes(offset) }
    }
}
