//! Printing of types. Symbols that are not plain words are quoted, so names such as `a/b` or `2 x` stay
//! symbols.

use std::fmt::Write as _;

use super::super::escape::{word_len, write_quoted};
use crate::dim::{Dim, DimExpr};
use crate::element::ElementType;
use crate::types::{TensorType, ValueType};

/// Writes the type of a value.
pub(super) fn write_type(out: &mut String, ty: &ValueType) {
    match ty {
        ValueType::Tensor(tensor) => write_tensor_type(out, tensor),
        ValueType::SparseTensor(tensor) => {
            out.push_str("sparse<");
            write_tensor_type(out, tensor);
            out.push('>');
        }
        ValueType::Sequence(inner) => write_wrapped(out, "seq<", inner),
        ValueType::Optional(inner) => write_wrapped(out, "optional<", inner),
        ValueType::Map(key, inner) => {
            out.push_str("map<");
            write_element(out, *key);
            write_wrapped(out, ", ", inner);
        }
        ValueType::Unknown => out.push_str("unknown"),
    }
}

fn write_wrapped(out: &mut String, open: &str, inner: &ValueType) {
    out.push_str(open);
    write_type(out, inner);
    out.push('>');
}

/// Writes a tensor type: element type and shape.
pub(super) fn write_tensor_type(out: &mut String, ty: &TensorType) {
    write_element(out, ty.element);
    let Some(dims) = &ty.shape else {
        out.push_str("[*]");
        return;
    };
    out.push('[');
    for (position, dim) in dims.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_dim(out, dim);
    }
    out.push(']');
}

fn write_element(out: &mut String, element: ElementType) {
    // Normalizes `Other(n)` if the number `n` has a name.
    let _ = write!(out, "{}", ElementType::from_onnx(element.to_onnx()));
}

fn write_dim(out: &mut String, dim: &Dim) {
    match dim {
        Dim::Known(extent) => _ = write!(out, "{extent}"),
        Dim::AtMost(extent) => _ = write!(out, "?<={extent}"),
        Dim::Unknown => out.push('?'),
        Dim::Within(upper) => {
            out.push_str("?<=");
            write_expr(out, upper);
        }
        Dim::Symbolic(expr) => match expr.as_constant().map(u64::try_from) {
            None => write_expr(out, expr),
            Some(Ok(extent)) => _ = write!(out, "{extent}"),
            Some(Err(_)) => out.push('?'),
        },
    }
}

fn write_expr(out: &mut String, expr: &DimExpr) {
    let _ = expr.write(out, &|out, symbol| {
        if !symbol.is_empty() && word_len(symbol) == symbol.len() {
            out.push_str(symbol);
        } else {
            write_quoted(out, symbol.as_bytes());
        }
        Ok(())
    });
}
