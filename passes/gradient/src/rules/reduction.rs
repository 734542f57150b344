//! Reductions.

use memc_ir::{Dim, Value};
use memc_ops::normalize_axis;

use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("ReduceL1", |emit, site| with(emit, site, of_l1)),
    CodeRule::of("ReduceL2", |emit, site| with(emit, site, of_l2)),
    CodeRule::of("ReduceLogSum", |emit, site| with(emit, site, of_log_sum)).by_results(),
    CodeRule::of("ReduceLogSumExp", |emit, site| with(emit, site, of_log_sum_exp)),
    CodeRule::of("ReduceMax", |emit, site| with(emit, site, of_extreme)),
    CodeRule::of("ReduceMean", |emit, site| with(emit, site, of_mean)).by_results(),
    CodeRule::of("ReduceMin", |emit, site| with(emit, site, of_extreme)),
    CodeRule::of("ReduceProd", |emit, site| with(emit, site, of_product)),
    CodeRule::of("ReduceSum", |emit, site| with(emit, site, of_sum)).by_results(),
    CodeRule::of("ReduceSumSquare", |emit, site| with(emit, site, of_squares)),
];

/// A reduction: operand, result and gradient, the latter two with an axis of extent 1 for each reduced one.
struct Reduced {
    x: Value,
    dims: Vec<Dim>,
    y: Value,
    gradient: Value,
    axes: Vec<usize>,
}

fn with(
    emit: &mut Emit<'_>,
    site: &Site,
    rule: fn(&mut Emit<'_>, &Reduced) -> Result<Value, Refusal>,
) -> Result<Gradients, Refusal> {
    let x = site.operand(0)?;
    let dims = emit.dims(x)?;
    let axes = axes(emit, site, dims.len())?;
    let kept: Vec<Dim> = dims
        .iter()
        .enumerate()
        .map(|(axis, dim)| if axes.contains(&axis) { Dim::Known(1) } else { dim.clone() })
        .collect();
    let gradient = emit.reshape(site.gradient()?, &kept);
    let y = emit.reshape(site.first_result()?, &kept);
    let reduced = Reduced { x, dims, y, gradient, axes };
    let made = rule(emit, &reduced)?;
    Site::only(emit.expand(made, &reduced.dims))
}

/// Returns the reduced axes: an operand, or an attribute in older sets.
fn axes(emit: &Emit<'_>, site: &Site, rank: usize) -> Result<Vec<usize>, Refusal> {
    let stated = match site.operand_or_none(1) {
        Some(axes) => {
            Some(emit.ints_of(axes).ok_or_else(|| Refusal::form("its axes are only known at run time"))?)
        }
        None => site.data.ints("axes").map(<[i64]>::to_vec),
    };
    match stated.filter(|axes| !axes.is_empty()) {
        Some(axes) => {
            let axes: Option<Vec<usize>> = axes.into_iter().map(|axis| normalize_axis(axis, rank)).collect();
            axes.ok_or_else(|| Refusal::form("an axis is out of range"))
        }
        None if site.data.int("noop_with_empty_axes", 0) != 0 => Ok(Vec::new()),
        None => Ok((0..rank).collect()),
    }
}

fn of_sum(_: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    Ok(of.gradient)
}

fn of_mean(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let reduced: Vec<Dim> = of.axes.iter().map(|axis| of.dims[*axis].clone()).collect();
    let count = emit.count(&reduced, of.gradient)?;
    Ok(emit.op("Div", &[of.gradient, count]))
}

fn of_squares(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let two = emit.number(2.0, of.gradient);
    let twice = emit.op("Mul", &[of.gradient, two]);
    Ok(emit.op("Mul", &[of.x, twice]))
}

fn of_l1(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let sign = emit.op("Sign", &[of.x]);
    Ok(emit.op("Mul", &[sign, of.gradient]))
}

/// A norm of zero passes no gradient on, as in PyTorch.
fn of_l2(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let (zero, one) = (emit.number(0.0, of.gradient), emit.number(1.0, of.gradient));
    let mask = emit.op("Greater", &[of.y, zero]);
    let norm = emit.op("Where", &[mask, of.y, one]);
    let share = emit.op("Div", &[of.gradient, norm]);
    Ok(emit.op("Mul", &[of.x, share]))
}

/// The sum is the exponential of the result.
fn of_log_sum(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let sum = emit.op("Exp", &[of.y]);
    Ok(emit.op("Div", &[of.gradient, sum]))
}

fn of_log_sum_exp(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let less = emit.op("Sub", &[of.x, of.y]);
    let share = emit.op("Exp", &[less]);
    Ok(emit.op("Mul", &[share, of.gradient]))
}

/// Elements that equal the result share its gradient.
fn of_extreme(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let element = emit.element(of.gradient);
    let mask = emit.op("Equal", &[of.x, of.y]);
    let ones = emit.cast(mask, element);
    let count = emit.sum(ones, &of.axes, true);
    let share = emit.op("Div", &[of.gradient, count]);
    let zero = emit.number(0.0, of.gradient);
    Ok(emit.op("Where", &[mask, share, zero]))
}

/// The product without one factor is the result divided by that factor; a factor of zero is not covered by
/// a quotient, so the other factors of its row are multiplied with the zero left out.
fn of_product(emit: &mut Emit<'_>, of: &Reduced) -> Result<Value, Refusal> {
    let (zero, one) = (emit.number(0.0, of.gradient), emit.number(1.0, of.gradient));
    let element = emit.element(of.gradient);
    let is_zero = emit.op("Equal", &[of.x, zero]);
    let safe = emit.op("Where", &[is_zero, one, of.x]);
    let rest = emit.reduce("ReduceProd", safe, &of.axes, true);
    let ones = emit.cast(is_zero, element);
    let zeros = emit.sum(ones, &of.axes, true);
    // The zeros among the other factors of each element: none of them may be zero.
    let others = emit.op("Sub", &[zeros, ones]);
    let alone = emit.op("Equal", &[others, zero]);
    let quotient = emit.op("Div", &[rest, safe]);
    let factor = emit.op("Where", &[alone, quotient, zero]);
    Ok(emit.op("Mul", &[factor, of.gradient]))
}
