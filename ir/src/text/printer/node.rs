//! Printing of nodes and their attributes.

use std::fmt::Write as _;

use super::super::escape::{write_hex, write_quoted, write_word};
use super::{Writer, literal, types};
use crate::attribute::Attribute;
use crate::entity::Node;
use crate::module::{Definition, NodeData, Operator, Origin};

/// Items of a list, and bytes of a string, that the one-line form shows.
const SHOWN_ITEMS: usize = 8;
const SHOWN_BYTES: usize = 64;

impl Writer<'_> {
    /// Writes the line of a node without indentation. `depth` is the indentation level of the line.
    pub(super) fn node(&mut self, node: Node, data: &NodeData, depth: usize) {
        self.results(data);
        self.out.push_str(" = ");
        self.operator(&data.operator);
        self.out.push('(');
        for (position, operand) in data.inputs.iter().enumerate() {
            if position > 0 {
                self.out.push_str(", ");
            }
            self.optional_value(*operand);
        }
        self.out.push(')');
        self.attributes(&data.attributes, depth);
        self.result_types(data);
        self.node_facts(node, data);
    }

    fn results(&mut self, data: &NodeData) {
        if data.outputs.is_empty() {
            self.out.push_str("()");
        }
        for (position, result) in data.outputs.iter().enumerate() {
            if position > 0 {
                self.out.push_str(", ");
            }
            self.optional_value(*result);
        }
    }

    fn operator(&mut self, operator: &Operator) {
        if !operator.domain.is_empty() {
            write_word(&mut self.out, &operator.domain);
            self.out.push_str("::");
        }
        write_word(&mut self.out, &operator.name);
        if !operator.overload.is_empty() {
            self.out.push(':');
            write_word(&mut self.out, &operator.overload);
        }
        let in_force = self.module.opsets.get(operator.domain.as_ref()).copied().unwrap_or(0);
        if operator.version != in_force {
            let _ = write!(self.out, " version {}", operator.version);
        }
    }

    fn result_types(&mut self, data: &NodeData) {
        let results: Vec<_> = data.results().collect();
        match results.as_slice() {
            [] => {}
            [only] => {
                self.out.push_str(" : ");
                self.placed_type(*only);
            }
            several => {
                for (position, value) in several.iter().enumerate() {
                    self.out.push_str(if position == 0 { " : (" } else { ", " });
                    self.placed_type(*value);
                }
                self.out.push(')');
            }
        }
    }

    /// Writes the facts after the result types: original, scratch, name and origin.
    fn node_facts(&mut self, node: Node, data: &NodeData) {
        let original = data
            .recompute_of
            .and_then(|original| Some((original, self.module.nodes.get(original)?.results().next()?)));
        if let Some((original, value)) = original {
            // An erased original has no name; the verifier rejects the module.
            let defined = self.module.values.get(value).map(|data| data.definition);
            if self.one_line
                || matches!(defined, Some(Definition::Result(producer, _)) if producer == original)
            {
                self.out.push_str(" recompute_of(");
                self.value(value);
                self.out.push(')');
            }
        }
        for index in self.scratch[node].clone() {
            let scratch = &self.module.plan.scratch[index];
            self.out.push_str(if scratch.body { " body_scratch(" } else { " scratch(" });
            self.size(scratch.bytes);
            if let Some(storage) = scratch.storage {
                self.storage(storage);
            }
            self.out.push(')');
        }
        if !data.name.is_empty() {
            self.out.push_str(" name ");
            write_quoted(&mut self.out, data.name.as_bytes());
        }
        match &data.origin {
            Origin::File { index } => _ = write!(self.out, " origin(file {index})"),
            Origin::Inlined { call } => self.named_origin("inlined", call),
            Origin::Pass { pass } => self.named_origin("pass", pass),
            Origin::Text => {}
        }
    }

    fn named_origin(&mut self, kind: &str, name: &str) {
        let _ = write!(self.out, " origin({kind} ");
        write_quoted(&mut self.out, name.as_bytes());
        self.out.push(')');
    }

    fn attributes(&mut self, attributes: &[(String, Attribute)], depth: usize) {
        if attributes.is_empty() {
            return;
        }
        self.out.push_str(" {");
        for (position, (name, value)) in attributes.iter().enumerate() {
            if position > 0 {
                self.out.push_str(", ");
            }
            write_word(&mut self.out, name);
            self.out.push_str(" = ");
            self.attribute(value, depth);
        }
        self.out.push('}');
    }

    fn attribute(&mut self, value: &Attribute, depth: usize) {
        match value {
            Attribute::Int(value) => _ = write!(self.out, "{value}"),
            Attribute::Float(value) => literal::write_float(&mut self.out, *value),
            Attribute::String(bytes) => self.string(bytes),
            Attribute::Tensor(constant) => self.constant(*constant, None),
            Attribute::Graph(graph) => self.graph(*graph, depth),
            Attribute::Ints(values) => {
                self.list("ints", values, |writer, value| _ = write!(writer.out, "{value}"))
            }
            Attribute::Floats(values) => {
                self.list("floats", values, |writer, value| literal::write_float(&mut writer.out, *value))
            }
            Attribute::Strings(values) => self.list("strings", values, |writer, value| writer.string(value)),
            Attribute::Tensors(values) => {
                self.list("tensors", values, |writer, value| writer.constant(*value, None))
            }
            Attribute::Graphs(values) => {
                self.list("graphs", values, |writer, value| writer.graph(*value, depth))
            }
            Attribute::Type(ty) => {
                self.out.push_str("type ");
                types::write_type(&mut self.out, ty);
            }
            Attribute::Opaque { kind, message } => {
                let _ = write!(self.out, "opaque {kind} ");
                if self.one_line && message.len() > SHOWN_BYTES {
                    self.out.push_str("...");
                } else {
                    write_hex(&mut self.out, message);
                }
            }
        }
    }

    fn string(&mut self, bytes: &[u8]) {
        match bytes.get(..SHOWN_BYTES) {
            Some(shown) if self.one_line && bytes.len() > SHOWN_BYTES => {
                write_quoted(&mut self.out, shown);
                self.out.push_str("...");
            }
            _ => write_quoted(&mut self.out, bytes),
        }
    }

    /// Writes a bracketed list. An empty list needs the name of its kind, because it has no item that
    /// shows the kind.
    fn list<T>(&mut self, kind: &str, items: &[T], write: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            self.out.push_str(kind);
            self.out.push(' ');
        }
        self.out.push('[');
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                self.out.push_str(", ");
            }
            if self.one_line && position == SHOWN_ITEMS {
                self.out.push_str("...");
                break;
            }
            write(self, item);
        }
        self.out.push(']');
    }
}
