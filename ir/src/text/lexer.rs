//! The lexer of the text form: splits the text into tokens, one at a time.

use std::borrow::Cow;

use super::escape::{bare_name_len, word_len};

/// One token. Quoted forms are decoded; other tokens are slices of the text.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token<'t> {
    /// `%name`.
    Value(Cow<'t, str>),
    /// `@name`.
    At(Cow<'t, str>),
    /// A quoted string `"…"`, decoded to bytes.
    Text(Vec<u8>),
    /// A bare word.
    Word(&'t str),
    /// Digits without a sign, as written.
    Number(&'t str),
    /// A punctuation mark.
    Mark(char),
    /// `::`.
    DoubleColon,
    /// End of a line.
    LineEnd,
    /// End of the text.
    End,
    /// Not a token, with the reason.
    Bad(&'static str),
}

/// Reads tokens from a text and tracks the position.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    line_start: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1, line_start: 0 }
    }

    /// Byte position of the next token, after `skip_blanks`.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Number of the current line, from 1, and the byte position of its start.
    pub(super) fn line(&self) -> (usize, usize) {
        (self.line, self.line_start)
    }

    /// Skips blanks and a comment, so that [`Lexer::at`] is the start of the next token.
    pub(super) fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
        if self.rest().starts_with("//") {
            self.at = self.rest().find('\n').map_or(self.text.len(), |len| self.at + len);
        }
    }

    /// Returns the next token; at the end of the text always [`Token::End`].
    pub(super) fn next(&mut self) -> Token<'t> {
        self.skip_blanks();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Token::End };
        match first {
            '\n' => {
                self.at += 1;
                self.line += 1;
                self.line_start = self.at;
                Token::LineEnd
            }
            '%' => self.name(Token::Value),
            '@' => self.name(Token::At),
            '"' => self.quoted().map_or_else(Token::Bad, Token::Text),
            '0'..='9' => self.number(),
            ':' if rest.starts_with("::") => {
                self.at += 2;
                Token::DoubleColon
            }
            _ => match word_len(rest) {
                0 => self.mark(first),
                len => Token::Word(self.take(len)),
            },
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn take(&mut self, len: usize) -> &'t str {
        let taken = self.rest().get(..len).unwrap_or("");
        self.at += taken.len();
        taken
    }

    fn mark(&mut self, first: char) -> Token<'t> {
        self.at += first.len_utf8();
        match first {
            '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | '=' | ':' | '+' | '-' | '*' | '/' | '?' => {
                Token::Mark(first)
            }
            _ => Token::Bad("an unexpected character"),
        }
    }

    /// Reads a name after its sigil, bare or quoted.
    fn name(&mut self, make: fn(Cow<'t, str>) -> Token<'t>) -> Token<'t> {
        self.at += 1;
        if self.rest().starts_with('"') {
            return match self.quoted().map(String::from_utf8) {
                Ok(Ok(name)) => make(Cow::Owned(name)),
                Ok(Err(_)) => Token::Bad("a name that is not UTF-8"),
                Err(why) => Token::Bad(why),
            };
        }
        match bare_name_len(self.rest()) {
            0 => Token::Bad("a sigil without a name"),
            len => make(Cow::Borrowed(self.take(len))),
        }
    }

    /// Reads digits: hexadecimal after `0x`, else an integer or a number with a fraction or an
    /// exponent.
    fn number(&mut self) -> Token<'t> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if bytes.starts_with(b"0x") {
            let len = 2 + bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            return Token::Number(self.take(len));
        }
        let mut len = digits(0);
        if bytes.get(len) == Some(&b'.') && digits(len + 1) > 0 {
            len += 1 + digits(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let exponent = if len + 1 + sign <= bytes.len() { digits(len + 1 + sign) } else { 0 };
            if exponent > 0 {
                len += 1 + sign + exponent;
            }
        }
        Token::Number(self.take(len))
    }

    /// Reads and decodes a quoted string. An unclosed string ends at the line end, so that it spoils
    /// only one line.
    fn quoted(&mut self) -> Result<Vec<u8>, &'static str> {
        self.at += 1;
        let bytes = self.text.as_bytes();
        let mut decoded = Vec::new();
        loop {
            match bytes.get(self.at) {
                None | Some(b'\n') => return Err("a string without its closing quote"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(decoded);
                }
                Some(b'\\') => decoded.push(self.escape()?),
                Some(byte) => {
                    decoded.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Decodes the escape after a backslash to one byte.
    fn escape(&mut self) -> Result<u8, &'static str> {
        let bytes = self.text.as_bytes();
        let (byte, len) = match bytes.get(self.at + 1) {
            Some(b'"') => (b'"', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'n') => (b'\n', 2),
            Some(b't') => (b'\t', 2),
            Some(b'x') => {
                let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
                match (digit(self.at + 2), digit(self.at + 3)) {
                    (Some(high), Some(low)) => ((high << 4 | low) as u8, 4),
                    _ => return Err("an escape that is not `\\xNN`"),
                }
            }
            _ => return Err("an unknown escape"),
        };
        self.at += len;
        Ok(byte)
    }
}

/// Describes a token for an error message.
pub(super) fn describe(token: &Token<'_>) -> String {
    match token {
        Token::Value(name) => format!("`%{}`", shorten(name)),
        Token::At(name) => format!("`@{}`", shorten(name)),
        Token::Text(_) => "a string".to_owned(),
        Token::Word(word) => format!("`{}`", shorten(word)),
        Token::Number(digits) => format!("`{}`", shorten(digits)),
        Token::Mark(mark) => format!("`{mark}`"),
        Token::DoubleColon => "`::`".to_owned(),
        Token::LineEnd => "the end of the line".to_owned(),
        Token::End => "the end of the text".to_owned(),
        Token::Bad(why) => (*why).to_owned(),
    }
}

/// Shortens a quotation in a message to 40 characters.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
