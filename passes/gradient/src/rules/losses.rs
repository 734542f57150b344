//! Losses that are operators: their gradients by scores have one value of the scores' size.

use memc_edit::int;
use memc_ir::{Attribute, ElementType, Value};

use super::indexing::added_to;
use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("NegativeLogLikelihoodLoss", likelihood).by_results(),
    CodeRule::of("SoftmaxCrossEntropyLoss", cross_entropy),
];

/// Labels of a loss: their places in the axis of classes, and the factor of each label's gradient.
struct Labels {
    places: Value,
    factor: Value,
}

/// Labels that are left out have the factor zero; a mean divides by the number of the others.
fn labels(emit: &mut Emit<'_>, site: &Site) -> Result<Labels, Refusal> {
    if site.operand_or_none(2).is_some() {
        return Err(Refusal::form("weights of classes have no gradient"));
    }
    let gradient = site.gradient()?;
    let labels = emit.cast(site.operand(1)?, ElementType::Int64);
    let dims = emit.dims(labels)?;
    let all: Vec<usize> = (0..dims.len()).collect();
    let mut factor = gradient;
    let mut safe = labels;
    let mut count = None;
    if let Some(Attribute::Int(ignored)) = site.data.attribute("ignore_index") {
        let (ignored, none) =
            (emit.scalar(*ignored as f64, ElementType::Int64), emit.scalar(0.0, ElementType::Int64));
        let (zero, one) = (emit.number(0.0, gradient), emit.number(1.0, gradient));
        let mask = emit.op("Equal", &[labels, ignored]);
        safe = emit.op("Where", &[mask, none, labels]);
        let weight = emit.op("Where", &[mask, zero, one]);
        count = Some(emit.sum(weight, &all, false));
        factor = emit.op("Mul", &[weight, gradient]);
    }
    if site.data.string("reduction").is_none_or(|reduction| reduction == "mean") {
        let count = match count {
            Some(count) => count,
            None => emit.count(&dims, gradient)?,
        };
        factor = emit.op("Div", &[factor, count]);
    }
    let factor = emit.expand(factor, &dims);
    Ok(Labels { places: emit.unsqueeze(safe, &[1]), factor: emit.unsqueeze(factor, &[1]) })
}

/// Adds -1 at the places of labels.
fn lowered(emit: &mut Emit<'_>, value: Value, places: Value) -> Result<Value, Refusal> {
    let dims = emit.dims(places)?;
    let minus = emit.number(-1.0, value);
    let minus = emit.expand(minus, &dims);
    Ok(added_to(emit, ("ScatterElements", int("axis", 1)), value, (places, minus)))
}

fn cross_entropy(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let scores = site.operand(0)?;
    let Labels { places, factor } = labels(emit, site)?;
    let share = emit.op_with("Softmax", &[scores], int("axis", 1));
    let made = lowered(emit, share, places)?;
    Site::only(emit.op("Mul", &[made, factor]))
}

fn likelihood(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let scores = site.operand(0)?;
    let Labels { places, factor } = labels(emit, site)?;
    let dims = emit.dims(scores)?;
    let zeros = emit.zeros(&dims, emit.element(scores));
    let made = lowered(emit, zeros, places)?;
    Site::only(emit.op("Mul", &[made, factor]))
}
