//! Parsing of types.

use super::super::MAX_DEPTH;
use super::super::lexer::{Token, shorten};
use super::{Parsed, Parser};
use crate::dim::{Dim, DimExpr};
use crate::element::ElementType;
use crate::types::{TensorType, ValueType};

impl Parser<'_> {
    /// Reads any type. `depth` is the number of enclosing types.
    pub(super) fn value_type(&mut self, depth: usize) -> Parsed<ValueType> {
        if depth > MAX_DEPTH {
            let message = format!("types nest deeper than {MAX_DEPTH} levels");
            return Err(self.error("E0605", &message));
        }
        match self.token {
            Token::Word("unknown") => {
                self.bump();
                Ok(ValueType::Unknown)
            }
            Token::Word("sparse") => {
                self.bump();
                self.expect('<')?;
                let ty = self.tensor_type()?;
                self.expect('>')?;
                Ok(ValueType::SparseTensor(ty))
            }
            Token::Word("seq") => self.wrapped(depth).map(ValueType::Sequence),
            Token::Word("optional") => self.wrapped(depth).map(ValueType::Optional),
            Token::Word("map") => {
                self.bump();
                self.expect('<')?;
                let key = self.element()?;
                self.expect(',')?;
                let value = self.value_type(depth + 1)?;
                self.expect('>')?;
                Ok(ValueType::Map(key, Box::new(value)))
            }
            _ => self.tensor_type().map(ValueType::Tensor),
        }
    }

    fn wrapped(&mut self, depth: usize) -> Parsed<Box<ValueType>> {
        self.bump();
        self.expect('<')?;
        let inner = self.value_type(depth + 1)?;
        self.expect('>')?;
        Ok(Box::new(inner))
    }

    /// Reads a tensor type: `f32[2,N]`, `f32[*]`.
    pub(super) fn tensor_type(&mut self) -> Parsed<TensorType> {
        let element = self.element()?;
        self.expect('[')?;
        if self.eat('*') {
            self.expect(']')?;
            return Ok(TensorType::unranked(element));
        }
        let mut dims = Vec::new();
        if self.eat(']') {
            return Ok(TensorType::new(element, dims));
        }
        loop {
            dims.push(self.dim()?);
            if !self.eat(',') {
                self.expect(']')?;
                return Ok(TensorType::new(element, dims));
            }
        }
    }

    fn element(&mut self) -> Parsed<ElementType> {
        match self.token {
            Token::Mark('?') => {
                self.bump();
                Ok(ElementType::Undefined)
            }
            Token::Word("other") => {
                self.bump();
                self.integer("the number of an element type").map(ElementType::from_onnx)
            }
            Token::Word(word) => match ElementType::from_text(word) {
                Some(element) => {
                    self.bump();
                    Ok(element)
                }
                None => {
                    let message = format!("`{}` is not an element type", shorten(word));
                    Err(self.error("E0601", &message))
                }
            },
            _ => Err(self.expected("a type")),
        }
    }

    /// Reads a dimension: `?`, `?<=12`, an extent, or a sum of products of symbols.
    fn dim(&mut self) -> Parsed<Dim> {
        if self.eat('?') {
            if !self.eat('<') {
                return Ok(Dim::Unknown);
            }
            self.expect('=')?;
            return Ok(Dim::AtMost(self.integer("the largest extent")?));
        }
        let place = self.place;
        if matches!(self.token, Token::Number(_)) {
            let extent: u64 = self.integer("an extent")?;
            if !matches!(self.token, Token::Mark('*' | '+' | '-')) {
                return Ok(Dim::Known(extent));
            }
            return match i64::try_from(extent) {
                Ok(factor) => self.sum(Some(factor)),
                Err(_) => Err(self.error_at(place, "E0604", "a factor is out of range")),
            };
        }
        self.sum(None)
    }

    /// Reads a sum of terms. `first` is the coefficient of the first term if it was already read.
    fn sum(&mut self, first: Option<i64>) -> Parsed<Dim> {
        let negative = first.is_none() && self.eat('-');
        let mut sum = self.term(negative, first)?;
        loop {
            let negative = self.is_mark('-');
            if !negative && !self.is_mark('+') {
                return Ok(Dim::from_expr(sum));
            }
            self.bump();
            let place = self.place;
            let term = self.term(negative, None)?;
            sum = match sum.add(&term) {
                Some(sum) => sum,
                None => return Err(self.error_at(place, "E0604", "the expression of this dimension is too large")),
            };
        }
    }

    /// Reads a term: `4*N*"b c"`, `N`, `4`.
    fn term(&mut self, negative: bool, factor: Option<i64>) -> Parsed<DimExpr> {
        let place = self.place;
        let mut product = match factor {
            Some(factor) => DimExpr::constant(factor),
            None if matches!(self.token, Token::Number(_)) => {
                let magnitude: u64 = self.integer("a factor")?;
                let signed = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
                match i64::try_from(signed) {
                    Ok(factor) => DimExpr::constant(factor),
                    Err(_) => return Err(self.error_at(place, "E0604", "a factor is out of range")),
                }
            }
            None => {
                let symbol = DimExpr::symbol(&self.word("a dimension")?);
                if negative { DimExpr::constant(-1).mul(&symbol).unwrap_or(symbol) } else { symbol }
            }
        };
        while self.eat('*') {
            let factor = match self.token {
                Token::Number(_) => DimExpr::constant(self.integer("a factor")?),
                _ => DimExpr::symbol(&self.word("a symbol or a factor")?),
            };
            product = match product.mul(&factor) {
                Some(product) => product,
                None => return Err(self.error_at(place, "E0604", "the expression of this dimension is too large")),
            };
        }
        Ok(product)
    }
}
