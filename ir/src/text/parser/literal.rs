//! Parsing of numbers and constants.

use bytes::Bytes as Raw;

use super::super::escape::parse_hex;
use super::super::lexer::{Token, describe};
use super::{Parsed, Parser};
use crate::element::ElementType;
use crate::module::{ConstData, ConstOrigin, Payload};
use crate::types::{TensorType, ValueType};

/// A floating-point literal before its width is known.
#[derive(Clone, Copy)]
enum FloatLiteral<'t> {
    Nan,
    Bits(u64),
    Infinite { negative: bool },
    Decimal { negative: bool, digits: &'t str },
}

impl<'t> Parser<'t> {
    fn float_literal(&mut self, negative: bool) -> Parsed<FloatLiteral<'t>> {
        match self.token {
            Token::Word("inf") => {
                self.bump();
                Ok(FloatLiteral::Infinite { negative })
            }
            Token::Word("nan") if !negative => {
                self.bump();
                if self.eat(':') {
                    self.integer("the bits of a number").map(FloatLiteral::Bits)
                } else {
                    Ok(FloatLiteral::Nan)
                }
            }
            Token::Number(digits) if !digits.starts_with("0x") => {
                self.bump();
                Ok(FloatLiteral::Decimal { negative, digits })
            }
            _ => Err(self.expected("a number")),
        }
    }

    /// Reads a binary32 number. `signed` says that its minus sign was already read.
    pub(super) fn float(&mut self, signed: bool) -> Parsed<f32> {
        let place = self.place;
        let negative = signed || self.eat('-');
        let value = match self.float_literal(negative)? {
            FloatLiteral::Nan => Some(f32::from_bits(0x7fc0_0000)),
            FloatLiteral::Bits(bits) => {
                u32::try_from(bits).ok().map(f32::from_bits).filter(|value| value.is_nan())
            }
            FloatLiteral::Infinite { negative } => {
                Some(if negative { f32::NEG_INFINITY } else { f32::INFINITY })
            }
            FloatLiteral::Decimal { negative, digits } => {
                let value = digits.parse::<f32>().ok().filter(|value| value.is_finite());
                value.map(|value| if negative { -value } else { value })
            }
        };
        value.ok_or_else(|| self.error_at(place, "E0604", "this is not a binary32 number"))
    }

    fn double(&mut self) -> Parsed<f64> {
        let place = self.place;
        let negative = self.eat('-');
        let value = match self.float_literal(negative)? {
            FloatLiteral::Nan => Some(f64::from_bits(0x7ff8_0000_0000_0000)),
            FloatLiteral::Bits(bits) => Some(f64::from_bits(bits)).filter(|value| value.is_nan()),
            FloatLiteral::Infinite { negative } => {
                Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY })
            }
            FloatLiteral::Decimal { negative, digits } => {
                let value = digits.parse::<f64>().ok().filter(|value| value.is_finite());
                value.map(|value| if negative { -value } else { value })
            }
        };
        value.ok_or_else(|| self.error_at(place, "E0604", "this is not a binary64 number"))
    }

    /// Reads a constant. Without `tensor` and a type of its own, it has the type `shown` before it.
    pub(super) fn constant(&mut self, shown: Option<&ValueType>) -> Parsed<ConstData> {
        let ty = if self.eat_word("tensor") {
            self.tensor_type()?
        } else {
            match shown.and_then(ValueType::tensor) {
                Some(ty) => ty.clone(),
                None => return Err(self.expected("`tensor` and the constant's own type")),
            }
        };
        let payload = self.payload(&ty)?;
        let origin = if self.eat_word("from") { self.constant_origin()? } else { ConstOrigin::New };
        Ok(ConstData { ty, payload, origin })
    }

    fn constant_origin(&mut self) -> Parsed<ConstOrigin> {
        self.expect('(')?;
        let origin = if self.eat_word("initializer") {
            ConstOrigin::Initializer(self.integer("a position in the file")?)
        } else if self.eat_word("sparse_initializer") {
            ConstOrigin::SparseInitializer(self.integer("a position in the file")?)
        } else if self.eat_word("message") {
            ConstOrigin::Message {
                start: self.integer("a byte position")?,
                end: self.integer("a byte position")?,
            }
        } else {
            return Err(self.expected("`initializer`, `sparse_initializer` or `message`"));
        };
        self.expect(')')?;
        Ok(origin)
    }

    fn payload(&mut self, ty: &TensorType) -> Parsed<Payload> {
        match self.token {
            Token::Mark('[') => self.numbers(ty).map(|bytes| Payload::Raw(Raw::from(bytes))),
            Token::Word("hex") => {
                self.bump();
                self.hex().map(|bytes| Payload::Raw(Raw::from(bytes)))
            }
            Token::Word("external") => {
                self.bump();
                let location = self.quoted_text("a path between quotes")?;
                let offset = if self.eat_word("offset") { self.integer("an offset")? } else { 0 };
                let length = if self.eat_word("length") { Some(self.integer("a length")?) } else { None };
                Ok(Payload::External { location, offset, length })
            }
            Token::Word("elided") => {
                self.bump();
                self.elided(ty)
            }
            _ => Err(self.expected("a constant: `[…]`, `hex`, `external` or `elided`")),
        }
    }

    fn elided(&mut self, ty: &TensorType) -> Parsed<Payload> {
        let place = self.place;
        if matches!(self.token, Token::Number(_)) {
            let length: u64 = self.integer("a length")?;
            if ty.size().is_none_or(|size| size.0 != length) {
                let message = format!("a constant of type {ty} does not have {length} bytes");
                return Err(self.error_at(place, "E0604", &message));
            }
        }
        Ok(Payload::Elided)
    }

    /// Reads pairs of hexadecimal digits between quotes.
    pub(super) fn hex(&mut self) -> Parsed<Vec<u8>> {
        let place = self.place;
        let text = self.quoted("hexadecimal digits between quotes")?;
        parse_hex(&text)
            .ok_or_else(|| self.error_at(place, "E0604", "these are not pairs of hexadecimal digits"))
    }

    /// Reads `[1, 2, 3]` as little-endian bytes.
    fn numbers(&mut self, ty: &TensorType) -> Parsed<Vec<u8>> {
        let place = self.place;
        self.bump();
        let mut bytes = Vec::new();
        let mut count: u64 = 0;
        while !self.is_mark(']') {
            if count > 0 {
                self.expect(',')?;
            }
            self.number(ty.element, &mut bytes)?;
            count += 1;
        }
        self.bump();
        if ty.elements() != Some(count) {
            let message = format!("{count} numbers do not fill a constant of type {ty}");
            return Err(self.error_at(place, "E0604", &message));
        }
        Ok(bytes)
    }

    fn number(&mut self, element: ElementType, bytes: &mut Vec<u8>) -> Parsed<()> {
        use ElementType as E;
        match element {
            E::Bool => bytes.push(self.boolean()?),
            E::Uint8 => bytes.push(self.integer("u8")?),
            E::Int8 => bytes.extend(self.integer::<i8>("i8")?.to_le_bytes()),
            E::Uint16 => bytes.extend(self.integer::<u16>("u16")?.to_le_bytes()),
            E::Int16 => bytes.extend(self.integer::<i16>("i16")?.to_le_bytes()),
            E::Uint32 => bytes.extend(self.integer::<u32>("u32")?.to_le_bytes()),
            E::Int32 => bytes.extend(self.integer::<i32>("i32")?.to_le_bytes()),
            E::Uint64 => bytes.extend(self.integer::<u64>("u64")?.to_le_bytes()),
            E::Int64 => bytes.extend(self.integer::<i64>("i64")?.to_le_bytes()),
            E::Float => bytes.extend(self.float(false)?.to_le_bytes()),
            E::Double => bytes.extend(self.double()?.to_le_bytes()),
            _ => {
                let message = format!("numbers of type {element} are written as `hex`");
                return Err(self.error("E0604", &message));
            }
        }
        Ok(())
    }

    fn boolean(&mut self) -> Parsed<u8> {
        let value = match self.token {
            Token::Word("true") | Token::Number("1") => 1,
            Token::Word("false") | Token::Number("0") => 0,
            _ => {
                let message = format!("expected `true` or `false`, found {}", describe(&self.token));
                return Err(self.error("E0601", &message));
            }
        };
        self.bump();
        Ok(value)
    }
}
