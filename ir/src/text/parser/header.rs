//! Parsing of the lines before the graph: versions, bound dimensions, stage, spaces and arenas.

use super::super::lexer::{Token, describe, shorten};
use super::{Failed, Parsed, Parser};
use crate::dim::{DimExpr, Limit, Range};
use crate::entity::Space;
use crate::module::{Module, Stage};
use crate::plan::{ArenaSize, SpaceData, Storage};
use crate::units::Bytes;

impl Parser<'_> {
    /// Reads the whole text.
    pub(super) fn module(&mut self) {
        let mut graphs = 0;
        loop {
            let braces = self.braces;
            let read = match self.token {
                Token::End => break,
                Token::LineEnd => {
                    self.bump();
                    continue;
                }
                Token::Word("graph") if graphs == 0 => {
                    graphs += 1;
                    self.main_graph()
                }
                Token::Word("graph") => {
                    Err(self.error("E0601", "a module has one graph; bodies belong in attributes"))
                }
                Token::Word(_) if graphs > 0 => {
                    Err(self.error("E0601", "only blank lines and comments may follow the graph"))
                }
                _ => self.header_line(),
            };
            if read.and_then(|()| self.top_line_end()).is_err() {
                self.recover(braces);
                // A stray `}` would stop every recovery at this place.
                self.eat('}');
            }
        }
        if graphs == 0 && self.diagnostics.is_empty() {
            let _ = self.error("E0601", "the text holds no graph");
        }
    }

    fn top_line_end(&mut self) -> Parsed<()> {
        match self.token {
            Token::LineEnd | Token::End => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    fn header(&mut self) -> &mut Module {
        self.builder.module_mut()
    }

    fn header_line(&mut self) -> Parsed<()> {
        let Token::Word(keyword) = self.token else {
            return Err(self.expected("a line of the header or `graph`"));
        };
        let place = self.place;
        self.bump();
        match keyword {
            "mem" => match self.integer::<u32>("the version of the text form")? {
                1 => Ok(()),
                _ => Err(self.error_at(place, "E0601", "only version 1 of the text form is known")),
            },
            "ir_version" => {
                self.header().ir_version = self.integer("a version")?;
                Ok(())
            }
            "opset" => {
                let domain = self.quoted_text("a domain between quotes")?;
                let version = self.integer("a version")?;
                match self.header().opsets.insert(domain, version) {
                    None => Ok(()),
                    Some(_) => Err(self.error_at(place, "E0602", "this domain already has a version")),
                }
            }
            "dim" => {
                let name = self.quoted_text("a dimension between quotes")?;
                let extent = self.integer("an extent")?;
                match self.header().dims.insert(name, extent) {
                    None => Ok(()),
                    Some(_) => Err(self.error_at(place, "E0602", "this dimension already has an extent")),
                }
            }
            "range" => self.range(),
            "limit" => self.limit(),
            "stage" => self.stage(),
            "space" => self.space(),
            "arena" => self.arena(),
            other => {
                let message = format!("`{}` does not begin a line of the header", shorten(other));
                Err(self.error_at(place, "E0601", &message))
            }
        }
    }

    /// Reads the range of a symbol: `"seq" from 32 to 960 step 32`.
    fn range(&mut self) -> Parsed<()> {
        let place = self.place;
        let name = self.quoted_text("a dimension between quotes")?;
        if !self.eat_word("from") {
            return Err(self.expected("`from`"));
        }
        let min: u64 = self.integer("the smallest extent")?;
        let max: Option<u64> =
            if self.eat_word("to") { Some(self.integer("the largest extent")?) } else { None };
        let step: u64 = if self.eat_word("step") { self.integer("a step")? } else { 1 };
        let range = Range { min, max, step };
        if step == 0 || max.is_some_and(|max| !range.contains(max)) {
            return Err(self.error_at(place, "E0604", "this range does not end with an extent of it"));
        }
        match self.header().domain.ranges.insert(name, range) {
            None => Ok(()),
            Some(_) => Err(self.error_at(place, "E0602", "this dimension already has a range")),
        }
    }

    /// Reads a limit on an expression over symbols: `"height*width" to 921600`.
    fn limit(&mut self) -> Parsed<()> {
        let place = self.place;
        let text = self.quoted_text("an expression between quotes")?;
        if !self.eat_word("to") {
            return Err(self.expected("`to`"));
        }
        let most: u64 = self.integer("the largest value")?;
        let Some(of) = DimExpr::parse(&text) else {
            return Err(self.error_at(place, "E0604", "this is no expression over dimensions"));
        };
        self.header().domain.limits.push(Limit { of, most });
        Ok(())
    }

    fn stage(&mut self) -> Parsed<()> {
        let found = Stage::ALL.into_iter().find(|stage| self.is_word(stage.name()));
        let Some(stage) = found else {
            return Err(self.expected("`imported`, `typed`, `scheduled` or `planned`"));
        };
        self.bump();
        self.header().stage = stage;
        Ok(())
    }

    fn space(&mut self) -> Parsed<()> {
        let named = self.at_name("a space, as `@device`")?;
        let capacity = if self.eat_word("capacity") { Some(self.size()?) } else { None };
        let alignment = if self.eat_word("alignment") { self.integer("an alignment")? } else { 1 };
        let name = named.name.into_owned();
        let space = self.header().plan.spaces.push(SpaceData { name: name.clone(), capacity, alignment });
        match self.spaces.insert(name, space) {
            None => Ok(()),
            Some(_) => Err(self.error_at(named.place, "E0602", "this space is already defined")),
        }
    }

    fn arena(&mut self) -> Parsed<()> {
        let space = self.known_space()?;
        self.expect_word("size")?;
        let size = self.size()?;
        self.expect_word("lower_bound")?;
        let lower_bound = self.size()?;
        let order_lower_bound = if self.eat_word("order_lower_bound") { Some(self.size()?) } else { None };
        self.header().plan.arenas.push(ArenaSize { space, size, lower_bound, order_lower_bound });
        Ok(())
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    fn known_space(&mut self) -> Parsed<Space> {
        let named = self.at_name("a space, as `@device`")?;
        self.spaces.get(named.name.as_ref()).copied().ok_or_else(|| {
            let message = format!("the space `@{}` is not defined in the header", shorten(&named.name));
            self.error_at(named.place, "E0603", &message)
        })
    }

    /// Reads `@device+0x100`.
    pub(super) fn storage(&mut self) -> Parsed<Storage> {
        let space = self.known_space()?;
        self.expect('+')?;
        let offset = Bytes(self.integer("an offset")?);
        Ok(Storage { space, offset })
    }

    /// Reads a number of bytes with an optional unit.
    pub(super) fn size(&mut self) -> Parsed<Bytes> {
        let place = self.place;
        let count: u64 = self.integer("a number of bytes")?;
        let unit = match self.token {
            Token::Word(word) => super::UNITS.iter().position(|unit| *unit == word),
            _ => None,
        };
        let Some(unit) = unit else { return Ok(Bytes(count)) };
        self.bump();
        let factor = 1u64.checked_shl(10 * unit as u32);
        match factor.and_then(|factor| count.checked_mul(factor)) {
            Some(bytes) => Ok(Bytes(bytes)),
            None => Err(self.error_at(place, "E0604", "this size does not fit 64 bits")),
        }
    }

    /// Reads an integer that fits `T`.
    pub(super) fn integer<T: TryFrom<i128>>(&mut self, what: &str) -> Parsed<T> {
        let place = self.place;
        let negative = self.eat('-');
        let Token::Number(digits) = self.token else {
            return Err(self.expected(what));
        };
        let magnitude = match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => digits.parse::<i128>().ok(),
        };
        let value = magnitude.and_then(|value| T::try_from(if negative { -value } else { value }).ok());
        match value {
            Some(value) => {
                self.bump();
                Ok(value)
            }
            None => Err(self.out_of_range(place, what)),
        }
    }

    fn out_of_range(&mut self, place: super::Place, what: &str) -> Failed {
        let message = format!("{} is out of range for {what}", describe(&self.token));
        self.error_at(place, "E0604", &message)
    }
}
