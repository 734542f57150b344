//! Parser of dimension texts, as exporters write them: `floor(height/2 - 1/2) + 1`, `Min(512, seq)`,
//! `(s0//2) % 4`.
//!
//! A text is a quotient of two expressions until its end: `/` divides exactly, and only rounding makes
//! an integer of the rest.

use super::expr::DimExpr;

/// Most nested levels of parentheses, functions and signs; deeper texts are refused.
const MAX_DEPTH: u32 = 32;
/// Most bytes of a text; longer ones are refused.
const MAX_BYTES: usize = 4096;
/// Largest exponent of a power.
const MAX_EXPONENT: i64 = 6;
/// Most digits after the point of a decimal number.
const MAX_DECIMALS: usize = 9;

/// An exact quotient; the divisor is not zero.
#[derive(Clone, Debug)]
struct Quotient {
    of: DimExpr,
    by: DimExpr,
}

impl Quotient {
    fn whole(of: DimExpr) -> Self {
        Self { of, by: DimExpr::constant(1) }
    }
    /// Returns the quotient without a divisor if it divides exactly.
    fn reduced(self) -> Self {
        match self.of.div_exact(&self.by) {
            Some(whole) => Self::whole(whole),
            None => self,
        }
    }
    /// Returns the expression; `None` unless the division is exact.
    fn exact(self) -> Option<DimExpr> {
        let reduced = self.reduced();
        (reduced.by.as_constant() == Some(1)).then_some(reduced.of)
    }
    fn add(&self, other: &Self) -> Option<Self> {
        if self.by == other.by {
            return Some(Self { of: self.of.add(&other.of)?, by: self.by.clone() }.reduced());
        }
        let of = self.of.mul(&other.by)?.add(&other.of.mul(&self.by)?)?;
        Some(Self { of, by: self.by.mul(&other.by)? }.reduced())
    }
    fn neg(self) -> Option<Self> {
        Some(Self { of: self.of.neg()?, by: self.by })
    }
    fn mul(&self, other: &Self) -> Option<Self> {
        Some(Self { of: self.of.mul(&other.of)?, by: self.by.mul(&other.by)? }.reduced())
    }
    fn div(&self, other: &Self) -> Option<Self> {
        if other.of.as_constant() == Some(0) {
            return None;
        }
        Some(Self { of: self.of.mul(&other.by)?, by: self.by.mul(&other.of)? }.reduced())
    }
    fn floor(self) -> Option<DimExpr> {
        self.of.floor_div(&self.by)
    }
    fn ceil(self) -> Option<DimExpr> {
        self.of.ceil_div(&self.by)
    }
}

impl DimExpr {
    /// Parses an expression: sums, products, exact quotients, `//`, `%`, small powers, and the functions
    /// `floor`, `ceil`, `trunc`, `min`, `max` and `mod` under the names that exporters use. Returns
    /// `None` for any other text; the caller then treats the text as one symbol.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_as(text, false)
    }
    /// Parses an expression as [`DimExpr::parse`]; names in double quotes are symbols.
    pub fn parse_quoted(text: &str) -> Option<Self> {
        Self::parse_as(text, true)
    }
    fn parse_as(text: &str, has_quotes: bool) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0, has_quotes };
        let result = parser.sum()?;
        parser.skip_space();
        if parser.at == text.len() { result.exact() } else { None }
    }
}

/// Recursive descent parser.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    has_quotes: bool,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    /// Skips the mark if it comes next; returns whether it did.
    fn eat(&mut self, mark: &str) -> bool {
        self.skip_space();
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(mark.as_bytes()));
        if found {
            self.at += mark.len();
        }
        found
    }
    fn sum(&mut self) -> Option<Quotient> {
        let mut result = self.product()?;
        loop {
            if self.eat("+") {
                result = result.add(&self.product()?)?;
            } else if self.eat("-") {
                result = result.add(&self.product()?.neg()?)?;
            } else {
                return Some(result);
            }
        }
    }
    fn product(&mut self) -> Option<Quotient> {
        let mut result = self.signed()?;
        loop {
            if self.eat("//") {
                let by = self.signed()?;
                result = Quotient::whole(result.div(&by)?.floor()?);
            } else if self.eat("/") {
                result = result.div(&self.signed()?)?;
            } else if self.eat("%") {
                let by = self.signed()?.exact()?;
                result = Quotient::whole(result.exact()?.modulo(&by)?);
            } else if self.eat("*") {
                result = result.mul(&self.signed()?)?;
            } else {
                return Some(result);
            }
        }
    }
    fn signed(&mut self) -> Option<Quotient> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let result = if self.eat("-") { self.signed()?.neg() } else { self.power() };
        self.depth -= 1;
        result
    }
    fn power(&mut self) -> Option<Quotient> {
        let base = self.operand()?;
        if !self.eat("**") {
            return Some(base);
        }
        let exponent = self.operand()?.exact()?.as_constant()?;
        raised(&base, exponent)
    }
    fn operand(&mut self) -> Option<Quotient> {
        if self.eat("(") {
            let inner = self.sum()?;
            return self.eat(")").then_some(inner);
        }
        if self.has_quotes && self.eat("\"") {
            return self.quoted();
        }
        self.skip_space();
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
            return number(word);
        }
        if !self.eat("(") {
            return Some(Quotient::whole(DimExpr::symbol(word)));
        }
        let mut operands = vec![self.sum()?];
        while self.eat(",") {
            operands.push(self.sum()?);
        }
        if self.eat(")") { call(word, operands) } else { None }
    }
}

impl Parser<'_> {
    /// Reads a name up to its closing quote; `\` stands before a quote or a `\`.
    fn quoted(&mut self) -> Option<Quotient> {
        let mut name = Vec::new();
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(Quotient::whole(DimExpr::symbol(std::str::from_utf8(&name).ok()?))),
                b'\\' => {
                    name.push(*self.text.get(self.at)?);
                    self.at += 1;
                }
                other => name.push(other),
            }
        }
    }
}

/// Reads an integer or a decimal number.
fn number(word: &str) -> Option<Quotient> {
    let (whole, decimals) = word.split_once('.').unwrap_or((word, ""));
    if decimals.len() > MAX_DECIMALS || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: i64 = format!("{whole}{decimals}").parse().ok()?;
    let by = 10i64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    Some(Quotient { of: DimExpr::constant(digits), by: DimExpr::constant(by) }.reduced())
}

fn raised(base: &Quotient, exponent: i64) -> Option<Quotient> {
    if !(0..=MAX_EXPONENT).contains(&exponent) {
        return None;
    }
    (0..exponent).try_fold(Quotient::whole(DimExpr::constant(1)), |power, _| power.mul(base))
}

/// Applies a function of exporters to its operands.
fn call(name: &str, operands: Vec<Quotient>) -> Option<Quotient> {
    let whole = |operands: Vec<Quotient>| -> Option<Vec<DimExpr>> {
        operands.into_iter().map(Quotient::exact).collect()
    };
    let result = match (name, operands.as_slice()) {
        ("floor" | "Floor" | "FloorToInt" | "math.floor", [of]) => of.clone().floor()?,
        ("ceil" | "ceiling" | "Ceil" | "CeilToInt" | "math.ceil", [of]) => of.clone().ceil()?,
        ("int" | "trunc" | "TruncToInt" | "math.trunc", [of]) => of.of.trunc_div(&of.by)?,
        ("min" | "Min", [_, ..]) => return smallest(&operands),
        ("max" | "Max", [_, ..]) => {
            let negated: Option<Vec<Quotient>> = operands.into_iter().map(Quotient::neg).collect();
            return smallest(&negated?)?.neg();
        }
        ("FloorDiv" | "floordiv", [of, by]) => of.div(by)?.floor()?,
        ("CeilDiv" | "ceildiv", [of, by]) => of.div(by)?.ceil()?,
        ("CleanDiv" | "IntTrueDiv", [of, by]) => return of.div(by),
        ("Mod" | "mod" | "PythonMod", [_, _]) => {
            let [of, by] = <[DimExpr; 2]>::try_from(whole(operands)?).ok()?;
            of.modulo(&by)?
        }
        ("ModularIndexing", [of, by, modulus]) => of.div(by)?.floor()?.modulo(&modulus.clone().exact()?)?,
        ("Pow" | "pow", [base, exponent]) => return raised(base, exponent.clone().exact()?.as_constant()?),
        ("Identity" | "ToFloat", [of]) => return Some(of.clone()),
        _ => return None,
    };
    Some(Quotient::whole(result))
}

/// Returns the smallest of quotients by constants, over their common divisor.
fn smallest(operands: &[Quotient]) -> Option<Quotient> {
    let mut common = 1i64;
    for operand in operands {
        let by = operand.by.as_constant()?;
        let shared = super::atom::gcd(common.unsigned_abs(), by.unsigned_abs());
        common = common.checked_mul(by.checked_abs()?.checked_div(i64::try_from(shared).ok()?)?)?;
    }
    let scaled: Option<Vec<DimExpr>> = operands
        .iter()
        .map(|operand| operand.of.times(common.checked_div(operand.by.as_constant()?)?))
        .collect();
    Some(Quotient { of: DimExpr::min_of(scaled?)?, by: DimExpr::constant(common) }.reduced())
}
