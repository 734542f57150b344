//! Text to module: recursive descent over lines. A line with an error is skipped, and reading goes on behind it.

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

/// Units of sizes, each 1024 times the one before.
pub(super) const UNITS: [&str; 7] = ["", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// After this many errors the rest of the text is not read.
const MAX_ERRORS: usize = 64;

/// Reads a module from its text form.
///
/// Nothing is verified beyond what the text itself must say: names are defined once in a graph and before they are read, literals fit their
/// types. [`crate::verify::verify`] checks the rest.
///
/// # Errors
/// Every line that could not be read, as E06xx diagnostics with line and column; at most 64 of them.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    let mut parser = Parser::new(text);
    if u32::try_from(text.len()).is_ok() {
        parser.module();
    } else {
        let _ = parser.error("E0606", "the text is longer than 4 GiB");
    }
    if parser.diagnostics.is_empty() { Ok(parser.builder.finish()) } else { Err(parser.diagnostics) }
}

/// The line could not be read; what is wrong has been recorded.
struct Failed;

type Parsed<T> = Result<T, Failed>;

/// A place in the text: byte position, line number, byte at which the line starts.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    line: usize,
    line_start: usize,
}

/// A name with its place.
#[derive(Clone, Debug)]
struct Named<'t> {
    name: Cow<'t, str>,
    place: Place,
}

/// A reference that may look ahead, resolved at the end of its graph.
enum Late<'t> {
    Alias { value: Value, of: Named<'t>, kind: AliasKind, offset: Bytes },
    Recompute { node: Node, of: Named<'t> },
}

/// Names of one graph that is being read.
struct Scope<'t> {
    names: HashMap<Cow<'t, str>, Value>,
    late: Vec<Late<'t>>,
}

struct Parser<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token<'t>,
    place: Place,
    /// How many `{` are open before the current token.
    braces: usize,
    /// Whether the token before the current one is `{`.
    after_open: bool,
    /// Whether the rest of the text is not read any more.
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

    /// Goes to the next token and returns the one before it.
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

    /// Reads nothing more.
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

    /// Steps over the mark if it is there.
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

    /// The end of the line, or the `}` that closes the graph on the same line.
    fn expect_line_end(&mut self) -> Parsed<()> {
        match self.token {
            Token::LineEnd | Token::End | Token::Mark('}') => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    /// Skips the rest of a line that could not be read, with all bodies that it opens; `braces` is how many were open where it began.
    ///
    /// Only the brace of a body ends its line, so braces of attributes that a broken line left open are forgotten with it.
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

    /// A word, bare or quoted.
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

    /// The value of this name that is visible here.
    fn resolve(&mut self, named: &Named<'t>) -> Parsed<Value> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.names.get(named.name.as_ref()).copied());
        found.ok_or_else(|| {
            let message = format!("`%{}` is not defined above in this graph or a graph around it", shorten(&named.name));
            self.error_at(named.place, "E0603", &message)
        })
    }

    /// Makes a name visible in the innermost graph.
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
