//! The printer of the text form.

mod literal;
mod node;
mod types;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::MAX_DEPTH;
use super::escape::{write_name, write_quoted};
use crate::dim::Range;
use crate::entity::{EntityId, GraphId, Node, SecondaryMap, Space, Value};
use crate::module::{Definition, Module};
use crate::plan::{ArenaSize, Storage};
use crate::units::Bytes;

/// Prints a whole module in canonical form: equal modules give equal bytes, independent of their ids.
///
/// A graph that occurs twice or inside itself (which the verifier rejects) is printed once and then as
/// `{...}`. Bodies deeper than [`MAX_DEPTH`] also print as `{...}`. Linear in the size of the module.
pub fn print(module: &Module) -> String {
    let mut writer = Writer::new(module, false);
    for (index, scratch) in module.plan.scratch.iter().enumerate() {
        writer.scratch[scratch.node].push(index);
    }
    writer.header();
    if module.graphs.contains(module.main()) {
        writer.out.push('\n');
        writer.graph(module.main(), 0);
        writer.out.push('\n');
    }
    writer.out
}

/// Prints the line of one node, for messages. Bodies, long lists and long strings are elided. Linear in
/// the length of the plan's scratch list.
///
/// Also prints unverified modules: a dangling id prints as `%<v7>`.
pub fn print_node(module: &Module, node: Node) -> String {
    let mut writer = Writer::new(module, true);
    for (index, scratch) in module.plan.scratch.iter().enumerate().filter(|(_, scratch)| scratch.node == node)
    {
        writer.scratch[scratch.node].push(index);
    }
    match module.nodes.get(node) {
        Some(data) => writer.node(node, data, 0),
        None => _ = write!(writer.out, "<{node}>"),
    }
    writer.out
}

/// State of a printer.
struct Writer<'m> {
    module: &'m Module,
    out: String,
    /// Whether bodies and long lists are elided.
    one_line: bool,
    /// Graphs whose printing has begun.
    begun: BTreeSet<GraphId>,
    /// Positions in the plan's scratch list, by node.
    scratch: SecondaryMap<Node, Vec<usize>>,
}

impl<'m> Writer<'m> {
    fn new(module: &'m Module, one_line: bool) -> Self {
        Self {
            module,
            out: String::new(),
            one_line,
            begun: BTreeSet::new(),
            scratch: SecondaryMap::default(),
        }
    }

    fn header(&mut self) {
        let module = self.module;
        let _ = writeln!(self.out, "mem 1\nir_version {}", module.ir_version);
        for (domain, version) in &module.opsets {
            self.out.push_str("opset ");
            write_quoted(&mut self.out, domain.as_bytes());
            let _ = writeln!(self.out, " {version}");
        }
        for (name, extent) in &module.dims {
            self.out.push_str("dim ");
            write_quoted(&mut self.out, name.as_bytes());
            let _ = writeln!(self.out, " {extent}");
        }
        for (name, range) in &module.domain.ranges {
            self.range(name, *range);
        }
        for limit in &module.domain.limits {
            self.out.push_str("limit ");
            write_quoted(&mut self.out, limit.of.to_string().as_bytes());
            let _ = writeln!(self.out, " to {}", limit.most);
        }
        let _ = writeln!(self.out, "stage {}", module.stage.name());
        for space in module.plan.spaces.keys() {
            self.space(space);
        }
        for arena in &module.plan.arenas {
            self.arena(arena);
        }
    }

    fn range(&mut self, name: &str, range: Range) {
        self.out.push_str("range ");
        write_quoted(&mut self.out, name.as_bytes());
        let _ = write!(self.out, " from {}", range.min);
        if let Some(max) = range.max {
            let _ = write!(self.out, " to {max}");
        }
        if range.step != 1 {
            let _ = write!(self.out, " step {}", range.step);
        }
        self.out.push('\n');
    }

    fn space(&mut self, space: Space) {
        let data = &self.module.plan.spaces[space];
        self.out.push_str("space ");
        self.space_name(space);
        if let Some(capacity) = data.capacity {
            self.out.push_str(" capacity ");
            self.size(capacity);
        }
        let _ = writeln!(self.out, " alignment {}", data.alignment);
    }

    fn arena(&mut self, arena: &ArenaSize) {
        self.out.push_str("arena ");
        self.space_name(arena.space);
        self.out.push_str(" size ");
        self.size(arena.size);
        self.out.push_str(" lower_bound ");
        self.size(arena.lower_bound);
        if let Some(bound) = arena.order_lower_bound {
            self.out.push_str(" order_lower_bound ");
            self.size(bound);
        }
        self.out.push('\n');
    }

    /// Writes `graph @name {`, the lines, and `}`. `depth` is the number of enclosing graphs.
    fn graph(&mut self, graph: GraphId, depth: usize) {
        let Some(data) = self.module.graphs.get(graph) else {
            let _ = write!(self.out, "graph <{graph}>");
            return;
        };
        self.out.push_str("graph ");
        write_name(&mut self.out, '@', &data.name);
        if self.one_line || depth > MAX_DEPTH || !self.begun.insert(graph) {
            self.out.push_str(" {...}");
            return;
        }
        self.out.push_str(" {\n");
        for value in &data.inputs {
            self.definition(*value, "input ", depth);
        }
        for value in &data.constants {
            self.definition(*value, "const ", depth);
        }
        for node in &data.nodes {
            self.indent(depth + 1);
            match self.module.nodes.get(*node) {
                Some(node_data) => self.node(*node, node_data, depth + 1),
                None => _ = write!(self.out, "<{node}>"),
            }
            self.out.push('\n');
        }
        self.indent(depth + 1);
        self.out.push_str("return");
        for (position, value) in data.outputs.iter().enumerate() {
            self.out.push_str(if position == 0 { " " } else { ", " });
            self.value(*value);
        }
        self.out.push('\n');
        self.indent(depth);
        self.out.push('}');
    }

    /// Writes the line of a graph input or an initializer.
    fn definition(&mut self, value: Value, keyword: &str, depth: usize) {
        self.indent(depth + 1);
        self.out.push_str(keyword);
        self.value(value);
        if let Some(data) = self.module.values.get(value) {
            self.out.push_str(" : ");
            self.placed_type(value);
            let constant = match data.definition {
                Definition::Constant(_, constant) => Some(constant),
                _ => data.default,
            };
            if let Some(constant) = constant {
                self.out.push_str(" = ");
                self.constant(constant, Some(&data.ty));
            }
        }
        self.out.push('\n');
    }

    /// Writes the type of a value, its alias and its storage.
    fn placed_type(&mut self, value: Value) {
        let Some(data) = self.module.values.get(value) else { return };
        types::write_type(&mut self.out, &data.ty);
        if let Some(alias) = self.module.plan.alias[value] {
            let word = match alias.kind {
                crate::plan::AliasKind::View => " view(",
                crate::plan::AliasKind::InPlace => " in_place(",
            };
            self.out.push_str(word);
            self.value(alias.of);
            if alias.offset != Bytes(0) {
                self.out.push_str(", ");
                self.size(alias.offset);
            }
            self.out.push(')');
        }
        if let Some(storage) = self.module.plan.storage[value] {
            self.storage(storage);
        }
    }

    fn storage(&mut self, storage: Storage) {
        self.out.push(' ');
        self.space_name(storage.space);
        let _ = write!(self.out, "+{:#x}", storage.offset.0);
    }

    fn space_name(&mut self, space: Space) {
        match self.module.plan.spaces.get(space) {
            Some(data) => write_name(&mut self.out, '@', &data.name),
            None => _ = write!(self.out, "@<space{}>", space.index()),
        }
    }

    fn value(&mut self, value: Value) {
        match self.module.values.get(value) {
            Some(data) => write_name(&mut self.out, '%', &data.name),
            None => _ = write!(self.out, "%<v{}>", value.index()),
        }
    }

    fn optional_value(&mut self, value: Option<Value>) {
        match value {
            Some(value) => self.value(value),
            None => self.out.push('_'),
        }
    }

    /// Writes a size in the largest unit that divides it.
    fn size(&mut self, bytes: Bytes) {
        let (mut count, mut unit) = (bytes.0, 0);
        while count > 0 && count % 1024 == 0 && unit + 1 < super::parser::UNITS.len() {
            count /= 1024;
            unit += 1;
        }
        let _ = write!(self.out, "{count}{}", super::parser::UNITS[unit]);
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }
}
