//! Canonical text of expressions. The text parses back to an equal expression if its symbols are words.

use std::fmt::{self, Write as _};

use super::atom::Atom;
use super::expr::{DimExpr, Factor};

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|out, symbol| out.write_str(symbol))
    }
}

impl DimExpr {
    /// Returns the canonical text with names that are no words in double quotes, which
    /// [`DimExpr::parse_quoted`] reads.
    pub fn quoted(&self) -> String {
        let mut text = String::new();
        let is_word = |symbol: &str| {
            let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
            symbol.starts_with(is_first)
                && symbol.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte))
        };
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, &|out, symbol| match is_word(symbol) {
            true => out.write_str(symbol),
            false => write!(out, "\"{}\"", symbol.replace('\\', "\\\\").replace('"', "\\\"")),
        });
        text
    }
    /// Writes the canonical text; `symbol` writes the names of symbols.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write<W: fmt::Write>(
        &self,
        out: &mut W,
        symbol: &dyn Fn(&mut W, &str) -> fmt::Result,
    ) -> fmt::Result {
        if self.terms.is_empty() {
            return out.write_str("0");
        }
        for (index, (factors, value)) in self.terms().enumerate() {
            match (index, value < 0) {
                (_, true) => out.write_str("-")?,
                (0, false) => {}
                (_, false) => out.write_str("+")?,
            }
            let magnitude = value.unsigned_abs();
            if factors.is_empty() || magnitude != 1 {
                write!(out, "{magnitude}")?;
            }
            for (position, factor) in factors.iter().enumerate() {
                out.write_str(if position > 0 || magnitude != 1 { "*" } else { "" })?;
                match factor {
                    Factor::Symbol(name) => symbol(out, name)?,
                    Factor::Atom(atom) => write_atom(atom, out, symbol)?,
                }
            }
        }
        Ok(())
    }
    /// Writes the text, in parentheses if `is_group`.
    fn write_group<W: fmt::Write>(
        &self,
        is_group: bool,
        out: &mut W,
        symbol: &dyn Fn(&mut W, &str) -> fmt::Result,
    ) -> fmt::Result {
        out.write_str(if is_group { "(" } else { "" })?;
        self.write(out, symbol)?;
        out.write_str(if is_group { ")" } else { "" })
    }
}

fn write_atom<W: fmt::Write>(
    atom: &Atom,
    out: &mut W,
    symbol: &dyn Fn(&mut W, &str) -> fmt::Result,
) -> fmt::Result {
    let operands = match atom {
        Atom::Floor { of, by } => {
            out.write_str("floor(")?;
            of.write_group(of.terms.len() > 1, out, symbol)?;
            out.write_str("/")?;
            by.write_group(by.as_constant().is_none() && by.as_symbol().is_none(), out, symbol)?;
            return out.write_str(")");
        }
        Atom::Min(operands) => {
            out.write_str("min(")?;
            operands
        }
        Atom::Max(operands) => {
            out.write_str("max(")?;
            operands
        }
    };
    for (position, operand) in operands.iter().enumerate() {
        out.write_str(if position > 0 { "," } else { "" })?;
        operand.write(out, symbol)?;
    }
    out.write_str(")")
}
