//! Parsing of graphs, their inputs and initializers, and nodes.

use std::collections::HashMap;

use super::super::MAX_DEPTH;
use super::super::lexer::Token;
use super::{Late, Named, Parsed, Parser, Place, Scope};
use crate::entity::{GraphId, Node, Value};
use crate::module::{Definition, Operator, Origin, ValueData};
use crate::plan::{Alias, AliasKind, Scratch, Storage};
use crate::rewriter::NewNode;
use crate::types::ValueType;
use crate::units::Bytes;

/// A type with the alias and the storage written after it.
struct PlacedType<'t> {
    ty: ValueType,
    alias: Option<(Named<'t>, AliasKind, Bytes)>,
    storage: Option<Storage>,
}

/// A parsed node whose results do not exist yet.
struct NodeLine<'t> {
    new: NewNode,
    types: Vec<PlacedType<'t>>,
    recompute_of: Option<Named<'t>>,
    scratch: Vec<(bool, Bytes, Option<Storage>)>,
}

impl<'t> Parser<'t> {
    pub(super) fn main_graph(&mut self) -> Parsed<()> {
        self.bump();
        let named = self.at_name("the graph's name, as `@main`")?;
        let main = self.builder.module().main();
        self.builder.name_graph(main, &named.name);
        self.graph_lines(main)
    }

    /// Reads a body, `graph @name { … }`, in an attribute.
    pub(super) fn body(&mut self) -> Parsed<GraphId> {
        self.bump();
        let named = self.at_name("the body's name, as `@then`")?;
        if self.scopes.len() > MAX_DEPTH {
            let message = format!("bodies nest deeper than {MAX_DEPTH} levels");
            return Err(self.error_at(named.place, "E0605", &message));
        }
        let graph = self.builder.graph(&named.name);
        self.graph_lines(graph)?;
        Ok(graph)
    }

    /// Reads the lines of a graph with its braces, in a new scope.
    fn graph_lines(&mut self, graph: GraphId) -> Parsed<()> {
        self.expect('{')?;
        self.scopes.push(Scope { names: HashMap::new(), late: Vec::new() });
        let read = self.graph_inside(graph);
        self.resolve_late();
        self.scopes.pop();
        read
    }

    fn graph_inside(&mut self, graph: GraphId) -> Parsed<()> {
        let mut returned = false;
        loop {
            match self.token {
                Token::LineEnd => {
                    self.bump();
                    continue;
                }
                Token::End => {
                    let failed = self.error("E0601", "the text ends inside a graph: `}` is missing");
                    // Without this stop each enclosing graph would report the missing brace again.
                    self.stop();
                    return Err(failed);
                }
                Token::Mark('}') => {
                    if !returned {
                        let _ = self.error("E0601", "a graph ends with a `return` line");
                    }
                    self.bump();
                    return Ok(());
                }
                _ => {}
            }
            let braces = self.braces;
            let read = if returned {
                Err(self.error("E0601", "`return` is the last line of its graph"))
            } else {
                returned = self.is_word("return");
                self.line(graph)
            };
            if read.and_then(|()| self.expect_line_end()).is_err() {
                self.recover(braces);
            }
        }
    }

    fn line(&mut self, graph: GraphId) -> Parsed<()> {
        match self.token {
            Token::Word("input") => self.definition(graph, true),
            Token::Word("const") => self.definition(graph, false),
            Token::Word("return") => self.outputs(graph),
            Token::Value(_) | Token::Word("_") | Token::Mark('(') => self.node(graph),
            _ => Err(self.expected("`input`, `const`, a node, `return` or `}`")),
        }
    }

    /// Reads `input %x : f32[2] = [1.0, 2.0]` or `const …`.
    fn definition(&mut self, graph: GraphId, is_input: bool) -> Parsed<()> {
        self.bump();
        let named = self.value_name()?;
        match self.definition_of(graph, is_input, &named) {
            Ok((value, placed)) => {
                self.place_value(value, placed);
                self.define(&named, value)
            }
            Err(failed) => {
                self.poison(&named);
                Err(failed)
            }
        }
    }

    fn definition_of(
        &mut self,
        graph: GraphId,
        is_input: bool,
        named: &Named<'t>,
    ) -> Parsed<(Value, PlacedType<'t>)> {
        self.expect(':')?;
        let mut placed = self.placed_type()?;
        let ty = std::mem::take(&mut placed.ty);
        let constant = if !is_input || self.is_mark('=') {
            self.expect('=')?;
            let data = self.constant(Some(&ty))?;
            Some(self.builder.constant(data))
        } else {
            None
        };
        let value = match constant {
            Some(constant) if !is_input => {
                let value = self.builder.initializer(graph, &named.name, constant);
                self.builder.set_type(value, ty);
                value
            }
            default => self.builder.input(graph, &named.name, ty, default),
        };
        Ok((value, placed))
    }

    fn outputs(&mut self, graph: GraphId) -> Parsed<()> {
        self.bump();
        if matches!(self.token, Token::LineEnd | Token::End | Token::Mark('}')) {
            return Ok(());
        }
        loop {
            let named = self.value_name()?;
            let value = self.resolve(&named)?;
            self.builder.output(graph, value);
            if !self.eat(',') {
                return Ok(());
            }
        }
    }

    fn node(&mut self, graph: GraphId) -> Parsed<()> {
        let results = self.results()?;
        let line = match self.node_line(&results) {
            Ok(line) => line,
            Err(failed) => {
                for named in results.iter().flatten() {
                    self.poison(named);
                }
                return Err(failed);
            }
        };
        let mut types = line.types.into_iter();
        let mut placed: Vec<PlacedType<'t>> = Vec::new();
        let made: Vec<Option<(String, ValueType)>> = results
            .iter()
            .map(|result| {
                let mut fact = result.as_ref().and_then(|_| types.next())?;
                let ty = std::mem::take(&mut fact.ty);
                placed.push(fact);
                result.as_ref().map(|named| (named.name.to_string(), ty))
            })
            .collect();
        let node = self.builder.node(graph, line.new, &made);
        let values: Vec<Value> = self.builder.module().node(node).results().collect();
        for ((value, named), fact) in values.into_iter().zip(results.iter().flatten()).zip(placed) {
            self.place_value(value, fact);
            self.define(named, value)?;
        }
        self.node_plan(node, line.recompute_of, line.scratch);
        Ok(())
    }

    fn node_plan(
        &mut self,
        node: Node,
        recompute_of: Option<Named<'t>>,
        scratch: Vec<(bool, Bytes, Option<Storage>)>,
    ) {
        if let (Some(of), Some(scope)) = (recompute_of, self.scopes.last_mut()) {
            scope.late.push(Late::Recompute { node, of });
        }
        let plan = &mut self.builder.module_mut().plan;
        plan.scratch.extend(scratch.into_iter().map(|(body, bytes, storage)| Scratch {
            node,
            body,
            bytes,
            storage,
        }));
    }

    /// Reads the results before `=`: `%a, _`, or `()` for a node without results.
    fn results(&mut self) -> Parsed<Vec<Option<Named<'t>>>> {
        let mut results = Vec::new();
        if self.eat('(') {
            self.expect(')')?;
        } else {
            loop {
                results.push(self.optional_name()?);
                if !self.eat(',') {
                    break;
                }
            }
        }
        Ok(results)
    }

    fn optional_name(&mut self) -> Parsed<Option<Named<'t>>> {
        if self.eat_word("_") { Ok(None) } else { self.value_name().map(Some) }
    }

    /// Reads a node from its `=` to the end.
    fn node_line(&mut self, results: &[Option<Named<'t>>]) -> Parsed<NodeLine<'t>> {
        self.expect('=')?;
        let operator = self.operator()?;
        let inputs = self.operands()?;
        let attributes = self.attributes()?;
        let types = self.result_types(results.iter().flatten().count())?;
        let new = NewNode::new(operator, inputs, attributes, Origin::Text);
        let mut line = NodeLine { new, types, recompute_of: None, scratch: Vec::new() };
        while let Token::Word(keyword) = self.token {
            self.node_fact(&mut line, keyword)?;
        }
        Ok(line)
    }

    fn node_fact(&mut self, line: &mut NodeLine<'t>, keyword: &str) -> Parsed<()> {
        match keyword {
            "recompute_of" => {
                self.bump();
                self.expect('(')?;
                line.recompute_of = Some(self.value_name()?);
                self.expect(')')
            }
            "scratch" | "body_scratch" => {
                self.bump();
                self.expect('(')?;
                let bytes = self.size()?;
                let storage = if self.is_mark(')') { None } else { Some(self.storage()?) };
                line.scratch.push((keyword == "body_scratch", bytes, storage));
                self.expect(')')
            }
            "name" => {
                self.bump();
                line.new.name = self.quoted_text("the node's name between quotes")?;
                Ok(())
            }
            "origin" => {
                self.bump();
                line.new.origin = self.origin()?;
                Ok(())
            }
            _ => Err(self.expected("`recompute_of`, `scratch`, `body_scratch`, `name` or `origin`")),
        }
    }

    fn origin(&mut self) -> Parsed<Origin> {
        self.expect('(')?;
        let origin = if self.eat_word("file") {
            Origin::File { index: self.integer("a position in the file")? }
        } else if self.eat_word("inlined") {
            Origin::Inlined { call: self.quoted_text("the calling node's name between quotes")? }
        } else if self.eat_word("pass") {
            Origin::Pass { pass: self.quoted_text("the pass's name between quotes")?.into() }
        } else {
            return Err(self.expected("`file`, `inlined` or `pass`"));
        };
        self.expect(')')?;
        Ok(origin)
    }

    /// Reads `domain::Name:overload version 3`.
    fn operator(&mut self) -> Parsed<Operator> {
        let mut name = self.word("an operator")?;
        let mut domain = std::borrow::Cow::Borrowed("");
        if self.token == Token::DoubleColon {
            self.bump();
            domain = std::mem::replace(&mut name, self.word("an operator of this domain")?);
        }
        let overload = if self.eat(':') { self.word("an overload")? } else { std::borrow::Cow::Borrowed("") };
        let in_force = self.builder.module().opsets.get(domain.as_ref()).copied().unwrap_or(0);
        let version = if self.eat_word("version") { self.integer("a version")? } else { in_force };
        let strings = &mut self.strings;
        Ok(Operator {
            domain: strings.get(&domain),
            name: strings.get(&name),
            overload: strings.get(&overload),
            version,
        })
    }

    fn operands(&mut self) -> Parsed<Vec<Option<Value>>> {
        let mut operands = Vec::new();
        self.expect('(')?;
        if self.eat(')') {
            return Ok(operands);
        }
        loop {
            let operand = match self.optional_name()? {
                Some(named) => Some(self.resolve(&named)?),
                None => None,
            };
            operands.push(operand);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(operands);
            }
        }
    }

    /// Reads `: type` for one result, `: (type, type)` for several.
    fn result_types(&mut self, wanted: usize) -> Parsed<Vec<PlacedType<'t>>> {
        let mut types = Vec::new();
        let place = self.place;
        if self.eat(':') {
            if self.eat('(') {
                loop {
                    types.push(self.placed_type()?);
                    if !self.eat(',') {
                        break;
                    }
                }
                self.expect(')')?;
            } else {
                types.push(self.placed_type()?);
            }
        }
        if types.len() != wanted {
            let message = format!("{wanted} results but {} types", types.len());
            return Err(self.error_at(place, "E0601", &message));
        }
        Ok(types)
    }

    fn placed_type(&mut self) -> Parsed<PlacedType<'t>> {
        let ty = self.value_type(0)?;
        let kind = match self.token {
            Token::Word("view") => Some(AliasKind::View),
            Token::Word("in_place") => Some(AliasKind::InPlace),
            _ => None,
        };
        let alias = match kind {
            Some(kind) => {
                self.bump();
                self.expect('(')?;
                let of = self.value_name()?;
                let offset = if self.eat(',') { self.size()? } else { Bytes(0) };
                self.expect(')')?;
                Some((of, kind, offset))
            }
            None => None,
        };
        let storage = if matches!(self.token, Token::At(_)) { Some(self.storage()?) } else { None };
        Ok(PlacedType { ty, alias, storage })
    }

    fn place_value(&mut self, value: Value, placed: PlacedType<'t>) {
        if placed.storage.is_some() {
            self.builder.module_mut().plan.storage.set(value, placed.storage);
        }
        if let (Some((of, kind, offset)), Some(scope)) = (placed.alias, self.scopes.last_mut()) {
            scope.late.push(Late::Alias { value, of, kind, offset });
        }
    }

    /// Defines a name whose line is broken, so that its readers are not reported as well.
    fn poison(&mut self, named: &Named<'t>) {
        let data = ValueData {
            name: named.name.to_string(),
            ty: ValueType::Unknown,
            definition: Definition::Erased,
            default: None,
        };
        let value = self.builder.module_mut().push_value(data);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.entry(named.name.clone()).or_insert(value);
        }
    }

    /// Resolves aliases and originals at the end of a graph, because they may be defined after their
    /// use.
    fn resolve_late(&mut self) {
        let late = self.scopes.last_mut().map(|scope| std::mem::take(&mut scope.late)).unwrap_or_default();
        for reference in late {
            match reference {
                Late::Alias { value, of, kind, offset } => {
                    if let Ok(target) = self.resolve(&of) {
                        self.builder
                            .module_mut()
                            .plan
                            .alias
                            .set(value, Some(Alias { of: target, kind, offset }));
                    }
                }
                Late::Recompute { node, of } => self.recompute(node, &of),
            }
        }
    }

    fn recompute(&mut self, node: Node, of: &Named<'t>) {
        let Ok(value) = self.resolve(of) else { return };
        match self.builder.module().producer(value) {
            Some(original) => self.builder.module_mut().nodes[node].recompute_of = Some(original),
            None => {
                let place: Place = of.place;
                let _ = self.error_at(place, "E0603", "`recompute_of` names the result of a node");
            }
        }
    }
}
