//! Expressions over free dimensions: texts of `bytes_expr`, `shape_expr`, `alias_offset_expr` and limits.
//!
//! A text is a sum of products of integers, names of dimensions, `floor(A/B)`, `min(A,B)` and `max(A,B)`,
//! as in `4*batch*floor((seq+1)/2)`. A name that is no word stands in double quotes, with `\` before a
//! quote or a `\`. A divisor below 1 counts as 1: a model with this extent does not run.

use std::collections::BTreeMap;

/// Most nested parentheses and functions; deeper texts are refused.
const MAX_DEPTH: u32 = 64;
/// Most bytes of a text; longer ones are refused.
const MAX_BYTES: usize = 1 << 14;

/// An integer expression over free dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expr {
    /// An integer.
    Number(i64),
    /// A free dimension, by name.
    Dimension(String),
    /// A sum.
    Sum(Vec<Expr>),
    /// A product.
    Product(Vec<Expr>),
    /// A quotient, rounded down.
    Floor(Box<Expr>, Box<Expr>),
    /// The smallest of the operands.
    Min(Vec<Expr>),
    /// The largest of the operands.
    Max(Vec<Expr>),
}

impl Expr {
    /// Reads a text; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0 };
        let result = parser.sum()?;
        parser.skip_space();
        (parser.at == text.len()).then_some(result)
    }

    /// Returns the value at these extents; `None` if one is missing, or the arithmetic overflows.
    pub fn value(&self, extents: &BTreeMap<String, u64>) -> Option<i128> {
        let all = |operands: &[Self]| {
            operands.iter().map(|operand| operand.value(extents)).collect::<Option<Vec<_>>>()
        };
        match self {
            Self::Number(value) => Some(i128::from(*value)),
            Self::Dimension(name) => extents.get(name).map(|extent| i128::from(*extent)),
            Self::Sum(operands) => all(operands)?.into_iter().try_fold(0i128, i128::checked_add),
            Self::Product(operands) => all(operands)?.into_iter().try_fold(1i128, i128::checked_mul),
            Self::Floor(of, by) => of.value(extents)?.checked_div_euclid(by.value(extents)?.max(1)),
            Self::Min(operands) => all(operands)?.into_iter().min(),
            Self::Max(operands) => all(operands)?.into_iter().max(),
        }
    }

    /// Writes the expression as text of a programming language. Sums and products are not in parentheses.
    pub(crate) fn write(&self, style: &Style<'_>) -> String {
        let joined = |operands: &[Self], sign: &str| {
            operands.iter().map(|operand| operand.write_operand(style)).collect::<Vec<_>>().join(sign)
        };
        let nested = |name: &str, operands: &[Self]| {
            let mut texts = operands.iter().map(|operand| operand.write(style));
            let first = texts.next().unwrap_or_default();
            texts.fold(first, |left, right| format!("{name}({left}, {right})"))
        };
        match self {
            Self::Number(value) => (style.number)(*value),
            Self::Dimension(name) => (style.dimension)(name),
            Self::Sum(operands) => joined(operands, " + "),
            Self::Product(operands) => joined(operands, " * "),
            Self::Floor(of, by) => format!("{}({}, {})", style.floor, of.write(style), by.write(style)),
            Self::Min(operands) => nested(style.min, operands),
            Self::Max(operands) => nested(style.max, operands),
        }
    }

    /// Writes an operand of a sum or product, in parentheses if it has several parts.
    fn write_operand(&self, style: &Style<'_>) -> String {
        match self {
            Self::Sum(_) | Self::Product(_) => format!("({})", self.write(style)),
            _ => self.write(style),
        }
    }
}

/// Words of a programming language for expressions.
pub(crate) struct Style<'a> {
    /// Writes an integer.
    pub(crate) number: &'a dyn Fn(i64) -> String,
    /// Writes the extent of a dimension.
    pub(crate) dimension: &'a dyn Fn(&str) -> String,
    /// Function of dividend and divisor that rounds down.
    pub(crate) floor: &'a str,
    /// Function that returns the smaller of two numbers.
    pub(crate) min: &'a str,
    /// Function that returns the larger of two numbers.
    pub(crate) max: &'a str,
}

/// Recursive descent parser.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    /// Skips the mark if it comes next; returns whether it did.
    fn eat(&mut self, mark: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.at) == Some(&mark);
        self.at += usize::from(found);
        found
    }
    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let is_negative = self.eat(b'-');
        let mut terms = vec![self.product(is_negative)?];
        loop {
            let is_negative = self.eat(b'-');
            if !is_negative && !self.eat(b'+') {
                break;
            }
            terms.push(self.product(is_negative)?);
        }
        self.depth -= 1;
        if terms.len() == 1 { terms.pop() } else { Some(Expr::Sum(terms)) }
    }
    fn product(&mut self, is_negative: bool) -> Option<Expr> {
        let mut factors = vec![self.operand()?];
        while self.eat(b'*') {
            factors.push(self.operand()?);
        }
        if is_negative {
            match factors.first_mut() {
                Some(Expr::Number(value)) => *value = value.checked_neg()?,
                _ => factors.insert(0, Expr::Number(-1)),
            }
        }
        if factors.len() == 1 { factors.pop() } else { Some(Expr::Product(factors)) }
    }
    fn operand(&mut self) -> Option<Expr> {
        if self.eat(b'(') {
            let inner = self.sum()?;
            return self.eat(b')').then_some(inner);
        }
        if self.eat(b'"') {
            return self.quoted().map(Expr::Dimension);
        }
        let start = self.at;
        while self
            .text
            .get(self.at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':'))
        {
            self.at += 1;
        }
        let word = std::str::from_utf8(self.text.get(start..self.at)?).ok()?;
        if word.bytes().next()?.is_ascii_digit() {
            return word.parse().ok().map(Expr::Number);
        }
        if !self.eat(b'(') {
            return Some(Expr::Dimension(word.to_owned()));
        }
        let first = self.sum()?;
        if word == "floor" {
            let by = if self.eat(b'/') { self.operand()? } else { return None };
            return self.eat(b')').then(|| Expr::Floor(Box::new(first), Box::new(by)));
        }
        let mut operands = vec![first];
        while self.eat(b',') {
            operands.push(self.sum()?);
        }
        match (self.eat(b')'), word) {
            (true, "min") => Some(Expr::Min(operands)),
            (true, "max") => Some(Expr::Max(operands)),
            _ => None,
        }
    }
    /// Reads a name up to its closing quote.
    fn quoted(&mut self) -> Option<String> {
        let mut name = Vec::new();
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(name).ok(),
                b'\\' => {
                    name.push(*self.text.get(self.at)?);
                    self.at += 1;
                }
                other => name.push(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn value(text: &str, extents: &[(&str, u64)]) -> Option<i128> {
        let extents = extents.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
        Expr::parse(text).unwrap().value(&extents)
    }

    #[test]
    fn texts_have_values() {
        let at = [("N", 7), ("x.1", 3), ("a:b", 2), ("two words", 5), ("q\"\\", 11)];
        for (text, wanted) in [
            ("0", 0),
            ("3*N+4", 25),
            ("-N+10", 3),
            ("10-2*N*x.1", -32),
            ("floor((N+1)/2)", 4),
            ("floor((1-N)/4)", -2),
            ("floor(-N/2)", -4),
            ("floor(N/a:b)", 3),
            ("floor(N/(a:b+1))", 2),
            ("floor(N/(2-a:b))", 7),
            ("min(N,x.1,9)-max(-N,2-N)", 8),
            ("4*\"two words\"*\"q\\\"\\\\\"", 220),
            ("floor(floor(N/2)/2)*max(1,N)", 7),
        ] {
            assert_eq!(value(text, &at), Some(wanted), "{text}");
        }
        assert_eq!(value("N*M", &at), None);
        let huge = [("N", u64::MAX)];
        assert_eq!(value("N*N*N", &huge), None);
    }

    #[test]
    fn other_texts_are_refused() {
        let deep = "(".repeat(100) + "N" + &")".repeat(100);
        for text in [
            "",
            "3N",
            "N+",
            "ceil(N/2)",
            "floor(N)",
            "min()",
            "\"N",
            "N)",
            "N M",
            "(N",
            "9223372036854775808",
            &deep,
        ] {
            assert_eq!(Expr::parse(text), None, "{text}");
        }
    }
}
