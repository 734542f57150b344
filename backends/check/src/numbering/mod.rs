//! Value numbering over both models: equal numbers mean provably equal values.
//!
//! The number of a value follows from operator, attributes and the numbers of the operands.
//!
//! - A transfer, or a node that changes nothing (a reshape to the operand's shape, a sum with zero),
//!   passes on the number of its operand.
//! - A chain of reshapes counts as one reshape. Transpositions, and reshapes of single operands, count after
//!   nodes that compute element by element (`turned.rs`).
//! - A value with known elements counts as a constant with these elements; integers that follow free
//!   dimensions have the number of their expressions.
//! - A decoded value has the number of the value that was encoded, if their equality is proven.
//! - An array of which a box is filled has the number of what is left of it, joined with the updates
//!   (`boxes.rs`).
//! - Positions of a result have the number of what the node computes from positions of its operands
//!   (`cuts.rs`), and joined results of what the node computes from joined operands (`joins.rs`). Joins count
//!   after nodes that compute element by element, signs after products, and expansions that another operand
//!   makes do not count (`spread.rs`).
//! - The name of its first result distinguishes a node whose results may differ at each run.

mod boxes;
mod casts;
mod cuts;
mod depends;
pub mod fused;
mod joins;
mod quantized;
mod repeated;
mod span;
mod spread;
pub mod turned;

use std::collections::HashMap;

use memc_ir::{
    Attribute, Definition, DimExpr, ElementType, GraphId, Node, NodeData, Operator, SecondaryMap, Value,
    ValueType,
};
use memc_ops::{OpInfo, View, lookup};
use prost::Message as _;

use crate::codec::{Codec, Computed};
use crate::content::{Content, Raw, content};
use crate::shaped::{OpenTarget, is_shaped, moves_only_ones};
use crate::side::{Known, Side};
use crate::views::same_elements;

use cuts::{Cuts, Place};
pub(crate) use cuts::{Moves, sliced};
use joins::Joins;
use quantized::Integers;
use spread::{Joined, Reshaped};

/// Number of an omitted operand.
const ABSENT: u32 = u32::MAX;

/// Identity of a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Constant(Content),
    Input {
        name: String,
        default: u32,
    },
    Formal {
        depth: usize,
        position: usize,
    },
    /// Operator and attributes.
    Head(Vec<u8>),
    Result {
        head: u32,
        operands: Vec<u32>,
        result: usize,
        instance: Option<String>,
    },
    Reshape {
        base: u32,
        to: Known,
    },
    /// Integers that follow free dimensions.
    Integers {
        element: ElementType,
        dims: Vec<u64>,
        items: Vec<DimExpr>,
    },
    /// A value with its axes in another order.
    Turned {
        base: u32,
        order: Vec<usize>,
    },
    /// Values joined along an axis.
    Joined {
        axis: usize,
        parts: Vec<u32>,
    },
    /// Positions of a value, if no node computes them alone.
    Cut {
        base: u32,
        place: Place,
    },
}

/// Assigns numbers, shared by both models.
#[derive(Default)]
pub(crate) struct Numbering<'s> {
    table: HashMap<Key, u32>,
    /// For the number of a reshape: the reshaped value.
    reshapes: HashMap<u32, Reshaped>,
    /// For the number of a reshape of a value of unknown extents: the value.
    open: HashMap<u32, u32>,
    /// For the number of a join: what is joined.
    joined: HashMap<u32, Joined>,
    /// For the number of a value with the other sign: the value, and the operator of the sign.
    opposites: HashMap<u32, (u32, u32)>,
    /// For the number of a function that may follow itself: its head, and the number of its operand.
    applied: HashMap<u32, (u32, u32)>,
    /// For the number of an expanded value: the value.
    expanded: HashMap<u32, u32>,
    /// Extents of values that no node of a model makes.
    shapes: HashMap<u32, Vec<DimExpr>>,
    /// For the number of a transposed value: number of the value, and its axes in their new order.
    turned: HashMap<u32, (u32, Vec<usize>)>,
    pub(crate) codec: Codec,
    cuts: Cuts<'s>,
    joins: Joins<'s>,
    /// For the number of a Cast to a type that has all values: number and type of its operand.
    casts: HashMap<u32, (u32, ElementType)>,
    /// For the number of dequantized numbers: their integers.
    integers_behind: HashMap<u32, Integers>,
}

/// Operator and operands of a row, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) head: u32,
    pub(crate) operands: Vec<u32>,
}

/// Numbers of the values of one model.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) values: SecondaryMap<Value, u32>,
    /// Operator and operands of each row.
    pub(crate) parts: Vec<Part>,
}

/// Identities that the layout states.
#[derive(Clone, Copy)]
pub(crate) struct Names<'n, 's> {
    /// Returns the name of the value that a recomputed result repeats.
    pub(crate) original: &'n dyn Fn(Value) -> Option<&'s str>,
    /// Returns the value that a rounded one stands for.
    pub(crate) wide: &'n dyn Fn(Value) -> Option<Value>,
    /// Returns the number of the value of the other model that a rewritten one, or an input, stands for.
    pub(crate) fixed: &'n dyn Fn(Value) -> Option<u32>,
}

/// State of the numbering of one model.
struct Walk<'a> {
    side: &'a Side<'a>,
    model: usize,
    values: SecondaryMap<Value, u32>,
}

impl<'s> Numbering<'s> {
    /// Assigns numbers to cuts as far as they move.
    pub(crate) fn moving(moves: Moves) -> Self {
        let mut made = Self::default();
        made.cuts.moves = moves;
        made
    }

    fn intern(&mut self, key: Key) -> u32 {
        let next = self.table.len() as u32;
        *self.table.entry(key).or_insert(next)
    }

    /// Numbers all values of a model's main graph. `names.original` returns the name of the value that a
    /// recomputed result repeats, `names.wide` the value that a rounded one stands for, and `names.fixed` the
    /// number of a rewritten one.
    pub(crate) fn model(&mut self, side: &'s Side<'s>, model: usize, names: Names<'_, 's>) -> Numbers {
        let mut walk = Walk { side, model, values: SecondaryMap::new(ABSENT) };
        let main = side.module.graph(side.module.main());
        for input in &main.inputs {
            let data = side.module.value(*input);
            let default = data.default.map_or(ABSENT, |id| self.constant(content(side, model, id)));
            let number = self.intern(Key::Input { name: data.name.clone(), default });
            self.codec.input(number, side, *input);
            self.note(number, side, *input, None);
            walk.values.set(*input, (names.fixed)(*input).unwrap_or(number));
        }
        self.constants(&mut walk, &main.constants);
        for value in &main.constants {
            self.note(walk.values[*value], side, *value, None);
        }
        let parts = (0..side.rows.len()).map(|row| self.row(&mut walk, row, names)).collect();
        Numbers { values: walk.values, parts }
    }

    fn constants(&mut self, walk: &mut Walk<'_>, constants: &[Value]) {
        for value in constants {
            if let Some(id) = walk.side.module.constant_of(*value) {
                let number = self.constant(content(walk.side, walk.model, id));
                walk.values.set(*value, number);
            }
        }
    }

    /// Returns the number of a constant.
    fn constant(&mut self, content: Content) -> u32 {
        let raw = if let Content::Raw(raw) = &content { Some(raw.clone()) } else { None };
        let number = self.intern(Key::Constant(content));
        if let Some(raw) = raw {
            self.codec.constant(number, &raw);
            self.note_constant(number, &raw);
        }
        number
    }

    fn row(&mut self, walk: &mut Walk<'s>, row: usize, names: Names<'_, 's>) -> Part {
        let side = walk.side;
        let node = side.rows[row].node;
        let part = self.part(walk, node, side.rows[row].info, 0);
        let data = side.module.node(node);
        let instance = side.unrepeatable(row).then(|| {
            let first = data.results().next();
            first.map_or("", |value| (names.original)(value).unwrap_or(side.name(value))).to_owned()
        });
        for (result, value) in data.outputs.iter().enumerate() {
            let Some(value) = *value else { continue };
            let computed = Computed { side, row, value, operands: &part.operands };
            let seen_through =
                if instance.is_none() { self.seen_through(walk, row, value, &part) } else { None };
            let decoded = seen_through.or_else(|| self.codec.decoded(computed));
            let opened = decoded.or_else(|| {
                let is_first = result == 0 && instance.is_none();
                is_first.then(|| self.open_reshape(side, row, value, &part)).flatten()
            });
            let number = opened.unwrap_or_else(|| {
                let (head, operands, instance) = (part.head, part.operands.clone(), instance.clone());
                self.intern(Key::Result { head, operands, result, instance })
            });
            self.codec.result(number, computed);
            self.note(number, side, value, instance.is_none().then_some((row, &part)));
            if result == 0 && instance.is_none() {
                self.note_integers(side, row, value, (number, &part));
                self.note_cast(side, row, value, (number, &part));
                self.note_applied(side, row, (number, &part));
            }
            let wide = (names.wide)(value).map(|wide| walk.values[wide]).filter(|wide| *wide != ABSENT);
            walk.values.set(value, (names.fixed)(value).or(wide).unwrap_or(number));
        }
        part
    }

    /// Returns the number of a result that equals a constant, an operand, or a reshape of an operand.
    /// `None` for other results.
    fn seen_through(&mut self, walk: &Walk<'s>, row: usize, value: Value, part: &Part) -> Option<u32> {
        let side = walk.side;
        let data = side.module.node(side.rows[row].node);
        if let Some(elements) = side.elements(value)
            && let Some(raw) = elements.to_raw()
        {
            let raw = Raw { element: elements.element, dims: elements.dims.clone(), bytes: raw.into() };
            return Some(self.constant(Content::Raw(raw)));
        }
        if let Some(number) = self.symbolic(side, value) {
            return Some(number);
        }
        if side.is_transfer(row) {
            return part.operands.first().copied();
        }
        if data.outputs.first() == Some(&Some(value))
            && let Some(position) = side.unchanged(row)
        {
            return part.operands.get(position).copied();
        }
        if let Some(base) = self.cast_back(side, row, value, part).or_else(|| self.repeated(side, row, part))
        {
            return Some(base);
        }
        if let Some(cut) = self.cut(side, row, value, part).or_else(|| self.filled(side, row, part)) {
            return Some(cut);
        }
        let kernel = self.fused(side, row, value, part).or_else(|| self.function(side, row, part));
        if let Some(number) = kernel.or_else(|| self.requantized(side, row, value, part)) {
            return Some(number);
        }
        let info = side.rows[row].info?;
        // Only a Constant node has no operands and a tensor as its only attribute.
        if let ([], [(_, Attribute::Tensor(id))]) = (data.inputs.as_slice(), data.attributes.as_slice()) {
            return Some(self.constant(content(side, walk.model, *id)));
        }
        let operand =
            data.inputs.first().copied().flatten().filter(|_| data.outputs.first() == Some(&Some(value)))?;
        let is_only = data.results().count() == 1;
        let is_turned = || side.known[operand].as_ref().is_some_and(|from| moves_only_ones(side, row, from));
        if !matches!(info.view, View::Reshape | View::SameType) && !is_turned() {
            return if is_only { self.placed(side, row, part.head, &part.operands) } else { None };
        }
        let number = walk.values[operand];
        match (&side.known[operand], &side.known[value]) {
            (Some(from), Some(to)) if same_elements(from, to) && is_shaped(side, row, from, to) => {
                Some(self.reshape(number, from, to))
            }
            // If extents are unknown, pass the number on only if the node has one operand, no
            // attributes, and keeps the type.
            _ if side.module.ty(operand) == side.module.ty(value)
                && data.inputs.len() == 1
                && data.attributes.is_empty() =>
            {
                let open = match side.module.ty(value) {
                    ValueType::Unknown => true,
                    ty => ty.tensor().is_some_and(|ty| ty.rank().is_none()),
                };
                (!open).then_some(number)
            }
            _ => None,
        }
    }

    /// Returns the number of a reshape of a value of unknown extents. Its extents, or a target that copies no
    /// extent, give the same result for every reshape of the same elements.
    fn open_reshape(&mut self, side: &Side<'s>, row: usize, value: Value, part: &Part) -> Option<u32> {
        side.rows[row].info.filter(|info| info.view == View::Reshape)?;
        let operand = *part.operands.first()?;
        let base = self.open.get(&operand).copied();
        let base = base.or_else(|| self.reshapes.get(&operand).map(|known| known.base)).unwrap_or(operand);
        let target = OpenTarget::of(side, row);
        let number = match &side.known[value] {
            Some(to) if target.gives(to) => self.intern(Key::Reshape { base, to: (**to).clone() }),
            _ => {
                let mut operands = part.operands.clone();
                if target.copies_no_extent() {
                    operands[0] = base;
                }
                self.intern(Key::Result { head: part.head, operands, result: 0, instance: None })
            }
        };
        self.open.insert(number, base);
        Some(number)
    }

    fn reshape(&mut self, number: u32, from: &Known, to: &Known) -> u32 {
        if let Some(base) = self.open.get(&number).copied() {
            let fresh = self.intern(Key::Reshape { base, to: to.clone() });
            self.open.insert(fresh, base);
            return fresh;
        }
        let own = self.reshapes.get(&number).map(|own| (own.base, own.first.clone()));
        let (base, first) = own.unwrap_or_else(|| (number, from.clone()));
        if first == *to {
            return base;
        }
        let fresh = self.intern(Key::Reshape { base, to: to.clone() });
        self.reshapes.insert(fresh, Reshaped { base, first, to: to.clone() });
        fresh
    }

    /// Encodes operator, attributes and operands of a node. Ignores omitted operands at the end.
    fn part(&mut self, walk: &mut Walk<'_>, node: Node, info: Option<&OpInfo>, depth: usize) -> Part {
        let side = walk.side;
        let data = side.module.node(node);
        let mut operands: Vec<u32> =
            data.inputs.iter().map(|operand| operand.map_or(ABSENT, |value| walk.values[value])).collect();
        while operands.last() == Some(&ABSENT) {
            operands.pop();
        }
        let head = self.head(walk, data, info, &data.attributes, depth);
        Part { head, operands }
    }

    /// Returns the number of a node's operator with these attributes.
    fn head(
        &mut self,
        walk: &mut Walk<'_>,
        data: &NodeData,
        info: Option<&OpInfo>,
        attributes: &[(String, Attribute)],
        depth: usize,
    ) -> u32 {
        let side = walk.side;
        let mut text = Text::default();
        text.bytes(data.operator.domain.as_bytes());
        text.bytes(data.operator.name.as_bytes());
        text.bytes(data.operator.overload.as_bytes());
        text.number(data.operator.version);
        if info.is_some_and(|info| info.view == View::Split) {
            text.number(data.outputs.len() as i64);
        }
        if info.is_none()
            && let Some(function) = side.function(&data.operator)
        {
            text.bytes(&function.encode_to_vec());
        }
        let mut attributes: Vec<&(String, Attribute)> = attributes.iter().collect();
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, value) in attributes {
            text.bytes(name.as_bytes());
            self.attribute(walk, value, depth, &mut text);
        }
        self.intern(Key::Head(text.0))
    }

    fn attribute(&mut self, walk: &mut Walk<'_>, value: &Attribute, depth: usize, text: &mut Text) {
        match value {
            Attribute::Int(value) => text.list(0, &[*value], |text, value| text.number(*value)),
            Attribute::Float(value) => {
                text.list(1, &[*value], |text, value| text.number(i64::from(value.to_bits())))
            }
            Attribute::String(value) => {
                text.list(2, std::slice::from_ref(value), |text, value| text.bytes(value))
            }
            Attribute::Ints(values) => text.list(3, values, |text, value| text.number(*value)),
            Attribute::Floats(values) => {
                text.list(4, values, |text, value| text.number(i64::from(value.to_bits())))
            }
            Attribute::Strings(values) => text.list(5, values, |text, value| text.bytes(value)),
            Attribute::Type(ty) => text.list(6, &[ty.to_string()], |text, ty| text.bytes(ty.as_bytes())),
            Attribute::Opaque { kind, message } => {
                text.list(7, std::slice::from_ref(message), |text, message| text.bytes(message));
                text.number(i64::from(*kind));
            }
            Attribute::Tensor(id) => {
                let number = self.intern(Key::Constant(content(walk.side, walk.model, *id)));
                text.list(8, &[number], |text, number| text.number(i64::from(*number)));
            }
            Attribute::Tensors(ids) => {
                let numbers: Vec<u32> = ids
                    .iter()
                    .map(|id| self.intern(Key::Constant(content(walk.side, walk.model, *id))))
                    .collect();
                text.list(9, &numbers, |text, number| text.number(i64::from(*number)));
            }
            Attribute::Graph(_) | Attribute::Graphs(_) => {
                text.number(10);
                for body in value.graphs() {
                    self.body(walk, *body, depth + 1, text);
                }
            }
        }
    }

    /// Encodes a body as the numbers of its results. Formal inputs are numbered by nesting depth and
    /// position.
    fn body(&mut self, walk: &mut Walk<'_>, body: GraphId, depth: usize, text: &mut Text) {
        let side = walk.side;
        let graph = side.module.graph(body);
        for (position, input) in graph.inputs.iter().enumerate() {
            let number = self.intern(Key::Formal { depth, position });
            walk.values.set(*input, number);
        }
        self.constants(walk, &graph.constants);
        // The importer limits the nesting depth of bodies.
        for node in &graph.nodes {
            let data = side.module.node(*node);
            let part = self.part(walk, *node, lookup(&data.operator), depth);
            let first = data.results().next();
            let instance =
                side.node_unrepeatable(*node).then(|| first.map_or("", |value| side.name(value)).to_owned());
            for value in data.results() {
                let Definition::Result(_, result) = side.module.value(value).definition else { continue };
                let same = is_identity(&data.operator).then(|| part.operands.first().copied()).flatten();
                let (head, operands, instance) = (part.head, part.operands.clone(), instance.clone());
                let number = same.unwrap_or_else(|| {
                    self.intern(Key::Result { head, operands, result: result as usize, instance })
                });
                walk.values.set(value, number);
            }
        }
        text.number(graph.inputs.len() as i64);
        text.list(11, &graph.outputs, |text, value| text.number(i64::from(walk.values[*value])));
    }
}

fn is_identity(operator: &Operator) -> bool {
    operator.domain.is_empty() && &*operator.name == "Identity"
}

/// Bytes with an unambiguous encoding: equal texts mean equal heads.
#[derive(Default, Debug)]
struct Text(Vec<u8>);

impl Text {
    fn number(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as i64);
        self.0.extend(bytes);
    }
    fn list<T>(&mut self, tag: i64, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(tag);
        self.number(items.len() as i64);
        for item in items {
            each(self, item);
        }
    }
}
