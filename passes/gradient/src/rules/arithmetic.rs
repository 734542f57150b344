//! Arithmetic with exponents, bounds, or any number of operands; casts, and dropout.

use memc_ir::Value;
use memc_ops::{Item, may_train};

use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("Cast", cast).by_results(),
    CodeRule::of("CastLike", cast).by_results(),
    CodeRule::of("Clip", clip),
    CodeRule::of("Dropout", dropout).by_results(),
    CodeRule::of("Max", extreme),
    CodeRule::of("Mean", mean).by_results(),
    CodeRule::of("Min", extreme),
    CodeRule::of("Pow", pow),
    CodeRule::of("Sum", sum).by_results(),
];

fn cast(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let element = emit.element(site.operand(0)?);
    Site::only(emit.cast(site.gradient()?, element))
}

/// Bounds themselves pass the gradient on.
fn clip(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, gradient) = (site.operand(0)?, site.gradient()?);
    let mut mask: Option<Value> = None;
    for (position, comparison) in [(1, "GreaterOrEqual"), (2, "LessOrEqual")] {
        let Some(bound) = site.operand_or_none(position) else { continue };
        let test = emit.op(comparison, &[x, bound]);
        mask = Some(mask.map_or(test, |mask| emit.op("And", &[mask, test])));
    }
    let zero = emit.number(0.0, gradient);
    Site::only(mask.map_or(gradient, |mask| emit.op("Where", &[mask, gradient, zero])))
}

/// The mask of the forward pass serves: it is drawn once.
fn dropout(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    if !may_train(emit.module(), site.node) {
        return Site::only(gradient);
    }
    let trains = site.operand_or_none(2).and_then(|mode| emit.ints_of(mode));
    if trains != Some(vec![1]) {
        return Err(Refusal::form("whether it drops elements is only known at run time"));
    }
    let ratio = site.operand_or_none(1).map_or(Some(0.5), |ratio| emit.number_of(ratio));
    let ratio = ratio.ok_or_else(|| Refusal::form("its ratio is only known at run time"))?;
    let mut ty =
        emit.tensor(site.first_result()?).cloned().ok_or_else(|| Refusal::form("its type is not known"))?;
    ty.element = memc_ir::ElementType::Bool;
    let mask = emit.result_of(site.node, 1, "dropout_mask", ty);
    let scale = emit.number(1.0 / (1.0 - ratio), gradient);
    let (scaled, zero) = (emit.op("Mul", &[gradient, scale]), emit.number(0.0, gradient));
    Site::only(emit.op("Where", &[mask, scaled, zero]))
}

fn sum(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    let operands = 0..site.data.inputs.len();
    operands.map(|position| shared(emit, site, position, gradient)).collect()
}

fn mean(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    let share = emit.number(1.0 / site.data.inputs.len() as f64, gradient);
    let gradient = emit.op("Mul", &[gradient, share]);
    let operands = 0..site.data.inputs.len();
    operands.map(|position| shared(emit, site, position, gradient)).collect()
}

fn shared(
    emit: &mut Emit<'_>,
    site: &Site,
    position: usize,
    gradient: Value,
) -> Result<Option<Value>, Refusal> {
    if !site.wants(position) {
        return Ok(None);
    }
    emit.unbroadcast(gradient, site.operand(position)?).map(Some)
}

/// Elements that equal the result share its gradient.
fn extreme(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (y, gradient) = (site.first_result()?, site.gradient()?);
    let zero = emit.number(0.0, gradient);
    if site.data.inputs.len() == 1 {
        return Site::only(gradient);
    }
    let masks: Vec<Value> = site.data.operands().map(|operand| emit.op("Equal", &[operand, y])).collect();
    let element = emit.element(gradient);
    let counts: Vec<Value> = masks.iter().map(|mask| emit.cast(*mask, element)).collect();
    let count = emit.op("Sum", &counts);
    let share = emit.op("Div", &[gradient, count]);
    let mut gradients = Vec::new();
    for (position, mask) in masks.into_iter().enumerate() {
        let masked = if site.wants(position) { Some(emit.op("Where", &[mask, share, zero])) } else { None };
        gradients.push(
            masked
                .map(|masked| emit.unbroadcast(masked, site.data.inputs[position].unwrap_or(y)))
                .transpose()?,
        );
    }
    Ok(gradients)
}

/// Constant exponents of one number have forms without a second power.
fn pow(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (base, exponent) = (site.operand(0)?, site.operand(1)?);
    let (y, gradient) = (site.first_result()?, site.gradient()?);
    let element = emit.element(base);
    let mut gradients = vec![None, None];
    if site.wants(0) {
        let slope = match emit.number_of(exponent) {
            Some(1.0) => None,
            Some(2.0) => {
                let two = emit.number(2.0, base);
                Some(emit.op("Mul", &[base, two]))
            }
            Some(power) => {
                let (factor, less) = (emit.number(power, base), emit.number(power - 1.0, base));
                let rest =
                    if power == 3.0 { emit.op("Mul", &[base, base]) } else { emit.op("Pow", &[base, less]) };
                Some(emit.op("Mul", &[rest, factor]))
            }
            None => {
                let power = emit.cast(exponent, element);
                let one = emit.number(1.0, base);
                let less = emit.op("Sub", &[power, one]);
                let rest = emit.op("Pow", &[base, less]);
                Some(emit.op("Mul", &[rest, power]))
            }
        };
        let whole = slope.map_or(gradient, |slope| emit.op("Mul", &[gradient, slope]));
        gradients[0] = Some(emit.unbroadcast(whole, base)?);
    }
    if site.wants(1) {
        // A base of zero or less has no logarithm; its exponent then has the gradient zero.
        let zero = emit.number(0.0, base);
        let mask = emit.op("Greater", &[base, zero]);
        let one = emit.number(1.0, base);
        let safe = emit.op("Where", &[mask, base, one]);
        let logarithm = emit.op("Log", &[safe]);
        let slope = emit.op("Mul", &[y, logarithm]);
        let whole = emit.op("Mul", &[gradient, slope]);
        let masked = emit.op("Where", &[mask, whole, zero]);
        gradients[1] = Some(emit.unbroadcast(masked, exponent)?);
    }
    Ok(gradients)
}

/// Returns the integers of an operand that must be known.
pub(super) fn known_ints(
    emit: &Emit<'_>,
    site: &Site,
    position: usize,
    what: &str,
) -> Result<Vec<i64>, Refusal> {
    let known = emit.elements(site.operand(position)?);
    let ints: Option<Vec<i64>> = known.and_then(|data| data.items.iter().map(Item::int).collect());
    ints.ok_or_else(|| Refusal::form(format!("its {what} are only known at run time")))
}
