//! Parsing of node attributes.

use bytes::Bytes as Raw;

use super::super::lexer::Token;
use super::{Parsed, Parser};
use crate::attribute::Attribute;

/// Returns the empty list for a kind, which is written before the brackets; `None` for an unknown kind.
fn empty_list(kind: &str) -> Option<Attribute> {
    Some(match kind {
        "ints" => Attribute::Ints(Vec::new()),
        "floats" => Attribute::Floats(Vec::new()),
        "strings" => Attribute::Strings(Vec::new()),
        "tensors" => Attribute::Tensors(Vec::new()),
        "graphs" => Attribute::Graphs(Vec::new()),
        _ => return None,
    })
}

/// Appends an item to a list; returns `false` if the list is of another kind.
fn push_item(list: &mut Attribute, item: Attribute) -> bool {
    match (list, item) {
        (Attribute::Ints(items), Attribute::Int(item)) => items.push(item),
        (Attribute::Floats(items), Attribute::Float(item)) => items.push(item),
        (Attribute::Strings(items), Attribute::String(item)) => items.push(item),
        (Attribute::Tensors(items), Attribute::Tensor(item)) => items.push(item),
        (Attribute::Graphs(items), Attribute::Graph(item)) => items.push(item),
        _ => return false,
    }
    true
}

/// Returns an empty list that can hold `item`; `None` if no list can.
fn list_for(item: &Attribute) -> Option<Attribute> {
    Some(match item {
        Attribute::Int(_) => Attribute::Ints(Vec::new()),
        Attribute::Float(_) => Attribute::Floats(Vec::new()),
        Attribute::String(_) => Attribute::Strings(Vec::new()),
        Attribute::Tensor(_) => Attribute::Tensors(Vec::new()),
        Attribute::Graph(_) => Attribute::Graphs(Vec::new()),
        _ => return None,
    })
}

impl Parser<'_> {
    /// Reads `{name = value, …}`; empty if no `{` follows.
    pub(super) fn attributes(&mut self) -> Parsed<Vec<(String, Attribute)>> {
        let mut attributes = Vec::new();
        if !self.eat('{') {
            return Ok(attributes);
        }
        while !self.is_mark('}') {
            if !attributes.is_empty() {
                self.expect(',')?;
            }
            let name = self.word("the name of an attribute")?.into_owned();
            self.expect('=')?;
            attributes.push((name, self.attribute()?));
        }
        self.bump();
        Ok(attributes)
    }

    fn attribute(&mut self) -> Parsed<Attribute> {
        match self.token {
            Token::Mark('[') => self.list(None),
            Token::Word("type") => {
                self.bump();
                self.value_type(0).map(Attribute::Type)
            }
            Token::Word("opaque") => {
                self.bump();
                let kind = self.integer("the number of an attribute type")?;
                Ok(Attribute::Opaque { kind, message: Raw::from(self.hex()?) })
            }
            Token::Word(word) => match empty_list(word) {
                Some(list) => {
                    self.bump();
                    self.list(Some(list))
                }
                None => self.item(),
            },
            _ => self.item(),
        }
    }

    /// Reads an attribute value that can also be a list item.
    fn item(&mut self) -> Parsed<Attribute> {
        match self.token {
            Token::Text(_) => self.quoted("a string").map(|bytes| Attribute::String(Raw::from(bytes))),
            Token::Word("graph") => self.body().map(Attribute::Graph),
            Token::Word("tensor") => {
                let data = self.constant(None)?;
                Ok(Attribute::Tensor(self.builder.constant(data)))
            }
            Token::Mark('-') | Token::Number(_) | Token::Word("inf" | "nan") => self.scalar(),
            _ => Err(self.expected("the value of an attribute")),
        }
    }

    /// Reads an integer or a floating-point number. A point, an exponent, `inf` or `nan` marks a
    /// floating-point number.
    fn scalar(&mut self) -> Parsed<Attribute> {
        let place = self.place;
        let negative = self.eat('-');
        match self.token {
            Token::Number(digits)
                if digits.starts_with("0x") || digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                let magnitude: u64 = self.integer("an integer of 64 bits")?;
                let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
                match i64::try_from(value) {
                    Ok(value) => Ok(Attribute::Int(value)),
                    Err(_) => Err(self.error_at(place, "E0604", "this integer does not fit 64 bits")),
                }
            }
            _ => self.float(negative).map(Attribute::Float),
        }
    }

    /// Reads a bracketed list whose items have one kind. `list` is the empty list if the kind was
    /// written before the brackets.
    fn list(&mut self, mut list: Option<Attribute>) -> Parsed<Attribute> {
        self.expect('[')?;
        let mut first = true;
        while !self.is_mark(']') {
            if !std::mem::take(&mut first) {
                self.expect(',')?;
            }
            let place = self.place;
            let item = self.item()?;
            let fits = match list.as_mut() {
                Some(list) => push_item(list, item),
                None => {
                    list = list_for(&item);
                    list.as_mut().is_some_and(|list| push_item(list, item))
                }
            };
            if !fits {
                return Err(self.error_at(place, "E0601", "the items of a list must have one kind"));
            }
        }
        self.bump();
        Ok(list.unwrap_or(Attribute::Ints(Vec::new())))
    }
}
