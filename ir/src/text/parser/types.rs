//! Parsing of types.

use super::super::MAX_DEPTH;
use super::super::lexer::{Token, shorten};
use super::{Parsed, Parser, Place};
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

    /// Reads a dimension: `?`, `?<=12`, an extent, or an expression over symbols.
    fn dim(&mut self) -> Parsed<Dim> {
        if self.eat('?') {
            if !self.eat('<') {
                return Ok(Dim::Unknown);
            }
            self.expect('=')?;
            return Ok(match self.extent()? {
                Dim::Known(extent) => Dim::AtMost(extent),
                other => Dim::within(other.expr()),
            });
        }
        self.extent()
    }

    /// Reads an extent or an expression over symbols.
    fn extent(&mut self) -> Parsed<Dim> {
        let place = self.place;
        if matches!(self.token, Token::Number(_)) {
            let extent: u64 = self.integer("an extent")?;
            if !matches!(self.token, Token::Mark('*' | '+' | '-')) {
                return Ok(Dim::Known(extent));
            }
            return match i64::try_from(extent) {
                Ok(factor) => self.sum(Some(factor), 0).map(Dim::from_expr),
                Err(_) => Err(self.error_at(place, "E0604", "a factor is out of range")),
            };
        }
        self.sum(None, 0).map(Dim::from_expr)
    }

    /// Records an error unless the expression could be made.
    fn made(&mut self, place: Place, expr: Option<DimExpr>) -> Parsed<DimExpr> {
        expr.ok_or_else(|| self.error_at(place, "E0604", "the expression of this dimension is too large"))
    }

    /// Reads a sum of terms. `first` is the coefficient of the first term if it was already read, `depth`
    /// the number of enclosing functions and parentheses.
    fn sum(&mut self, first: Option<i64>, depth: usize) -> Parsed<DimExpr> {
        if depth > MAX_DEPTH {
            let message = format!("dimensions nest deeper than {MAX_DEPTH} levels");
            return Err(self.error("E0605", &message));
        }
        let negative = first.is_none() && self.eat('-');
        let mut sum = self.term(negative, first, depth)?;
        loop {
            let negative = self.is_mark('-');
            if !negative && !self.is_mark('+') {
                return Ok(sum);
            }
            self.bump();
            let place = self.place;
            let term = self.term(negative, None, depth)?;
            sum = self.made(place, sum.add(&term))?;
        }
    }

    /// Reads a term: `4*N*"b c"`, `N`, `4`.
    fn term(&mut self, negative: bool, factor: Option<i64>, depth: usize) -> Parsed<DimExpr> {
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
                let own = self.factor("a dimension", depth)?;
                if negative { self.made(place, own.neg())? } else { own }
            }
        };
        while self.eat('*') {
            let factor = match self.token {
                Token::Number(_) => DimExpr::constant(self.integer("a factor")?),
                _ => self.factor("a symbol or a factor", depth)?,
            };
            product = self.made(place, product.mul(&factor))?;
        }
        Ok(product)
    }

    /// Reads a symbol, `floor(sum/sum)`, or `min` or `max` of sums.
    fn factor(&mut self, expected: &str, depth: usize) -> Parsed<DimExpr> {
        let place = self.place;
        let is_bare = matches!(self.token, Token::Word(_));
        let word = self.word(expected)?;
        if !is_bare || !self.is_mark('(') {
            return Ok(DimExpr::symbol(&word));
        }
        self.bump();
        let made = match word.as_ref() {
            "floor" => {
                let of = self.group(depth)?;
                self.expect('/')?;
                let by = self.group(depth)?;
                of.floor_div(&by)
            }
            "min" | "max" => {
                let mut operands = vec![self.sum(None, depth + 1)?];
                while self.eat(',') {
                    operands.push(self.sum(None, depth + 1)?);
                }
                if word == "min" { DimExpr::min_of(operands) } else { DimExpr::max_of(operands) }
            }
            other => {
                let message = format!("`{}` is not a function of dimensions", shorten(other));
                return Err(self.error_at(place, "E0601", &message));
            }
        };
        self.expect(')')?;
        self.made(place, made)
    }

    /// Reads a sum in parentheses, or a term.
    fn group(&mut self, depth: usize) -> Parsed<DimExpr> {
        if !self.eat('(') {
            let negative = self.eat('-');
            return self.term(negative, None, depth + 1);
        }
        let sum = self.sum(None, depth + 1)?;
        self.expect(')')?;
        Ok(sum)
    }
}
