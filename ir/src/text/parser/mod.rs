//! The parser of the text form: recursive descent, line by line. It skips a line with an error and
//! continues on the next.

mod attribute;
mod graph;
mod header;
mod literal;
mod types;

use std::borrow::Cow;
use std::collections::HashMap;

use super::lexer::{Lexer, Token, describe, shorten};
use crate::diagnostic::{Diagnostic, Severity};
use crate::entity::{Node, Space, Value};
use crate::module::Module;
use crate::plan::AliasKind;
use crate::rewriter::{ModuleBuilder, Names};
use crate::units::Bytes;

/// Units of sizes; each is 1024 times the previous.
pub(super) const UNITS: [&str; 7] = ["", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Maximum number of errors; the parser then ignores the rest of the text.
const MAX_ERRORS: usize = 64;

/// Parses a module from its text form.
///
/// The parser checks only the text itself: each name is defined once in a graph and before its use, and
/// literals fit their types. [`crate::verify::verify`] checks the rest.
///
/// # Errors
/// An E06xx diagnostic with line and column for each line that cannot be parsed, at most 64.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    let mut parser = Parser::new(text);
    if u32::try_from(text.len()).is_ok() {
        parser.module();
    } else {
        let _ = parser.error("E0606", "the text is longer than 4 GiB");
    }
    if parser.diagnostics.is_empty() { Ok(parser.builder.finish()) } else { Err(parser.diagnostics) }
}

/// Marker: the line cannot be parsed, and its error is recorded.
struct Failed;

type Parsed<T> = Result<T, Failed>;

/// A position in the text: byte, line number, and start of the line as a byte position.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    line: usize,
    line_start: usize,
}

/// A name with its position in the text.
#[derive(Clone, Debug)]
struct Named<'t> {
    name: Cow<'t, str>,
    place: Place,
}

/// A reference that may point forward; it is resolved at the end of its graph.
enum Late<'t> {
    Alias { value: Value, of: Named<'t>, kind: AliasKind, offset: Bytes },
    Recompute { node: Node, of: Named<'t> },
}

/// Names and forward references of a graph that is being parsed.
struct Scope<'t> {
    names: HashMap<Cow<'t, str>, Value>,
    late: Vec<Late<'t>>,
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token<'t>,
    place: Place,
    /// Number of open `{` before the current token.
    braces: usize,
    /// Whether the previous token is `{`.
    after_open: bool,
    /// Whether the rest of the text is ignored.
    stopped: bool,
    diagnostics: Vec<Diagnostic>,
    builder: ModuleBuilder,
    strings: Names,
    spaces: HashMap<String, Space>,
    scopes: Vec<Scope<'t>>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Self {
        let place = Place { at: 0, line: 1, line_start: 0 };
        let mut parser = Self {
            text,
            lexer: Lexer::new(text),
            token: Token::LineEnd,
            place,
            braces: 0,
            after_open: false,
            stopped: false,
            diagnostics: Vec::new(),
            builder: ModuleBuilder::new(),
            strings: Names::default(),
            spaces: HashMap::new(),
            scopes: Vec::new(),
        };
        parser.bump();
        parser
    }

    /// Advances to the next token and returns the previous one.
    fn bump(&mut self) -> Token<'t> {
        self.after_open = self.is_mark('{');
        match self.token {
            Token::Mark('{') => self.braces += 1,
            Token::Mark('}') => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        self.lexer.skip_blanks();
        let (line, line_start) = self.lexer.line();
        self.place = Place { at: self.lexer.at(), line, line_start };
        let next = if self.stopped { Token::End } else { self.lexer.next() };
        std::mem::replace(&mut self.token, next)
    }

    /// Records an error at the current token.
    fn error(&mut self, code: &'static str, message: &str) -> Failed {
        self.error_at(self.place, code, message)
    }

    fn error_at(&mut self, place: Place, code: &'static str, message: &str) -> Failed {
        if self.stopped {
            return Failed;
        }
        let line = self.text.get(place.line_start..).and_then(|rest| rest.lines().next()).unwrap_or("");
        let before = self.text.get(place.line_start..place.at).unwrap_or("");
        let column = before.chars().count() + 1;
        let message = format!("line {}, column {column}: {message}", place.line);
        let mut diagnostic = Diagnostic::new(code, Severity::Error, message);
        diagnostic.line = Some(line.chars().take(200).collect());
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() >= MAX_ERRORS {
            self.stop();
        }
        Failed
    }

    /// Ignores the rest of the text.
    fn stop(&mut self) {
        self.stopped = true;
        self.token = Token::End;
    }

    fn expected(&mut self, what: &str) -> Failed {
        let message = format!("expected {what}, found {}", describe(&self.token));
        self.error("E0601", &message)
    }

    fn is_mark(&self, mark: char) -> bool {
        self.token == Token::Mark(mark)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token == Token::Word(word)
    }

    /// Skips the mark if it is the current token; returns whether it was.
    fn eat(&mut self, mark: char) -> bool {
        let found = self.is_mark(mark);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    /// Requires the end of the line, or the `}` that closes the graph on this line.
    fn expect_line_end(&mut self) -> Parsed<()> {
        match self.token {
            Token::LineEnd | Token::End | Token::Mark('}') => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    /// Skips the rest of a broken line, including the bodies that it opens. `braces` is the number of
    /// open braces at the start of the line.
    ///
    /// Only the opening brace of a body ends a line. Other braces that a broken line leaves open (of
    /// attributes) are dropped.
    fn recover(&mut self, braces: usize) {
        let mut open_bodies: Vec<bool> = Vec::new();
        loop {
            match self.token {
                Token::End => return,
                Token::LineEnd => {
                    if self.after_open {
                        open_bodies.pop();
                        open_bodies.push(true);
                    }
                    while open_bodies.last() == Some(&false) {
                        open_bodies.pop();
                    }
                    if open_bodies.is_empty() {
                        self.braces = braces;
                        return;
                    }
                }
                Token::Mark('{') => open_bodies.push(false),
                Token::Mark('}') if open_bodies.pop().is_none() && self.braces <= braces => return,
                _ => {}
            }
            self.bump();
        }
    }

    fn value_name(&mut self) -> Parsed<Named<'t>> {
        let place = self.place;
        match self.bump_if(|token| matches!(token, Token::Value(_))) {
            Some(Token::Value(name)) => Ok(Named { name, place }),
            _ => Err(self.expected("a value, as `%x`")),
        }
    }

    fn at_name(&mut self, what: &str) -> Parsed<Named<'t>> {
        let place = self.place;
        match self.bump_if(|token| matches!(token, Token::At(_))) {
            Some(Token::At(name)) => Ok(Named { name, place }),
            _ => Err(self.expected(what)),
        }
    }

    fn bump_if(&mut self, wanted: fn(&Token<'t>) -> bool) -> Option<Token<'t>> {
        wanted(&self.token).then(|| self.bump())
    }

    fn quoted(&mut self, what: &str) -> Parsed<Vec<u8>> {
        match self.bump_if(|token| matches!(token, Token::Text(_))) {
            Some(Token::Text(bytes)) => Ok(bytes),
            _ => Err(self.expected(what)),
        }
    }

    fn quoted_text(&mut self, what: &str) -> Parsed<String> {
        let place = self.place;
        let bytes = self.quoted(what)?;
        String::from_utf8(bytes).map_err(|_| self.error_at(place, "E0601", "this string must be UTF-8"))
    }

    /// Reads a word, bare or quoted.
    fn word(&mut self, what: &str) -> Parsed<Cow<'t, str>> {
        match self.token {
            Token::Word(word) => {
                self.bump();
                Ok(Cow::Borrowed(word))
            }
            Token::Text(_) => self.quoted_text(what).map(Cow::Owned),
            _ => Err(self.expected(what)),
        }
    }

    /// Finds the visible value with this name; records an error if there is none.
    fn resolve(&mut self, named: &Named<'t>) -> Parsed<Value> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.names.get(named.name.as_ref()).copied());
        found.ok_or_else(|| {
            let message = format!(
                "`%{}` is not defined above in this graph or a graph around it",
                shorten(&named.name)
            );
            self.error_at(named.place, "E0603", &message)
        })
    }

    /// Defines a name in the innermost graph; records an error if it is already defined there.
    fn define(&mut self, named: &Named<'t>, value: Value) -> Parsed<()> {
        let taken = match self.scopes.last_mut() {
            Some(scope) => scope.names.insert(named.name.clone(), value).is_some(),
            None => false,
        };
        if taken {
            let message = format!("`%{}` is already defined in this graph", shorten(&named.name));
            return Err(self.error_at(named.place, "E0602", &message));
        }
        Ok(())
    }
}
