//! Softmax and its logarithm, from their results. The form of Softmax is the one that blocks of masked
//! attention know.

use memc_ops::normalize_axis;

use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] =
    &[CodeRule::of("LogSoftmax", log_softmax).by_results(), CodeRule::of("Softmax", softmax).by_results()];

fn axis(emit: &Emit<'_>, site: &Site) -> Result<usize, Refusal> {
    let rank = emit.rank(site.first_result()?)?;
    normalize_axis(site.data.int("axis", -1), rank).ok_or_else(|| Refusal::form("its axis is out of range"))
}

fn softmax(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (y, gradient, axis) = (site.first_result()?, site.gradient()?, axis(emit, site)?);
    let weighted = emit.op("Mul", &[gradient, y]);
    let sum = emit.sum(weighted, &[axis], true);
    let centered = emit.op("Sub", &[gradient, sum]);
    Site::only(emit.op("Mul", &[centered, y]))
}

fn log_softmax(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (y, gradient, axis) = (site.first_result()?, site.gradient()?, axis(emit, site)?);
    let sum = emit.sum(gradient, &[axis], true);
    let share = emit.op("Exp", &[y]);
    let shared = emit.op("Mul", &[share, sum]);
    Site::only(emit.op("Sub", &[gradient, shared]))
}
