//! Transforms of signals: a discrete Fourier transform is a product with a symmetric matrix of complex
//! numbers, so its gradient is a transform with the conjugate matrix.

use memc_ir::{Attribute, ElementType};
use memc_ops::{Item, normalize_axis};

use super::{CodeRule, Gradients, Site};
use crate::emit::{Cut, Emit};
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[CodeRule::of("DFT", dft).by_results()];

/// First version of ONNX's operator set in which the axis of DFT is an operand.
const AXIS_IS_OPERAND: i64 = 20;

/// The other transform of the gradient: times the length after a forward transform, whose inverse divides by
/// it. What one side leaves out of a half transform is zero, and real numbers have real gradients.
fn dft(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (dims, mut gradient) = (emit.dims(site.operand(0)?)?, site.gradient()?);
    let rank = dims.len();
    let number = |position: usize, what: &str| match site.operand_or_none(position) {
        Some(value) => match emit.elements(value).as_deref().map(|data| data.items.as_slice()) {
            Some([Item::Int(number)]) => Ok(Some(*number)),
            _ => Err(Refusal::form(format!("its {what} is only known at run time"))),
        },
        None => Ok(None),
    };
    let has_operand = site.data.operator.version >= AXIS_IS_OPERAND;
    let stated = if has_operand { number(2, "axis")?.unwrap_or(-2) } else { site.data.int("axis", 1) };
    let axis = normalize_axis(stated, rank).ok_or_else(|| Refusal::form("its axis is out of range"))?;
    let count = dims[axis].known().and_then(|count| i64::try_from(count).ok());
    let count = count.ok_or_else(|| Refusal::form("its axis has an unknown extent"))?;
    if number(1, "length")?.is_some_and(|length| length != count) {
        return Err(Refusal::form("it cuts or pads its operand"));
    }
    let (is_inverse, is_half) = (site.data.int("inverse", 0) != 0, site.data.int("onesided", 0) != 0);
    if is_half {
        if is_inverse {
            return Err(Refusal::form("it is an inverse of one side"));
        }
        let mut pads = vec![0; 2 * rank];
        pads[rank + axis] = count - (count / 2 + 1);
        gradient = emit.pad(gradient, &pads);
    }
    let length = emit.scalar(count as f64, ElementType::Int64);
    let (mut operands, mut attributes) = (vec![gradient, length], Vec::new());
    match has_operand {
        true => operands.push(emit.scalar(axis as f64, ElementType::Int64)),
        false => attributes.push(("axis".to_owned(), Attribute::Int(axis as i64))),
    }
    attributes.push(("inverse".to_owned(), Attribute::Int(i64::from(!is_inverse))));
    let transformed = emit.op_with("DFT", &operands, attributes);
    let factor = if is_inverse { 1.0 / count as f64 } else { count as f64 };
    let factor = emit.number(factor, transformed);
    let both = emit.op("Mul", &[transformed, factor]);
    let is_real = dims[rank - 1].known() == Some(1);
    Site::only(match is_real {
        true => emit.cut(both, &[Cut { axis: rank - 1, start: 0, end: 1, step: 1 }]),
        false => both,
    })
}
