//! Operators that give the same elements other extents, an other order, or more copies.

use memc_edit::{Attributes, int};
use memc_ir::{Attribute, Dim};
use memc_ops::normalize_axis;

use super::arithmetic::known_ints;
use super::products::turned_product;
use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("CumSum", cum_sum).by_results(),
    CodeRule::of("DepthToSpace", depth_to_space).by_results(),
    CodeRule::of("Expand", expand).by_results(),
    CodeRule::of("Flatten", reshape).by_results(),
    CodeRule::of("Reshape", reshape).by_results(),
    CodeRule::of("SpaceToDepth", space_to_depth).by_results(),
    CodeRule::of("Squeeze", reshape).by_results(),
    CodeRule::of("Tile", tile).by_results(),
    CodeRule::of("Transpose", transpose).by_results(),
    CodeRule::of("Trilu", trilu).by_results(),
    CodeRule::of("Unsqueeze", reshape).by_results(),
];

fn reshape(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (operand, gradient) = (site.operand(0)?, site.gradient()?);
    let Ok(dims) = emit.dims(operand) else {
        // Only the run knows the extents.
        let extents = emit.op("Shape", &[operand]);
        return Site::only(emit.op("Reshape", &[gradient, extents]));
    };
    Site::only(emit.reshape(gradient, &dims))
}

fn transpose(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    let rank = emit.rank(gradient)?;
    let mut inverse: Vec<usize> = (0..rank).rev().collect();
    if let Some(order) = site.data.ints("perm") {
        for (at, axis) in order.iter().enumerate() {
            let axis = usize::try_from(*axis).ok().filter(|axis| *axis < rank);
            inverse[axis.ok_or_else(|| Refusal::form("its order is out of range"))?] = at;
        }
    }
    if inverse == [1, 0]
        && let Some(turned) = turned_product(emit, gradient)
    {
        return Site::only(turned);
    }
    Site::only(emit.transpose(gradient, &inverse))
}

fn expand(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    Site::only(emit.unbroadcast(site.gradient()?, site.operand(0)?)?)
}

/// Each axis becomes two: the copies, which are summed, and the elements.
fn tile(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let dims = emit.dims(site.operand(0)?)?;
    let Ok(repeats) = known_ints(emit, site, 1, "repeats") else { return tile_of_run(emit, site, &dims) };
    let mut apart = Vec::new();
    for (dim, count) in dims.iter().zip(&repeats) {
        apart.push(Dim::Known(u64::try_from(*count).map_err(|_| Refusal::form("a negative repeat"))?));
        apart.push(dim.clone());
    }
    let copies: Vec<usize> =
        repeats.iter().enumerate().filter(|(_, count)| **count != 1).map(|(axis, _)| 2 * axis).collect();
    let apart = emit.reshape(site.gradient()?, &apart);
    let summed = emit.sum(apart, &copies, false);
    Site::only(emit.reshape(summed, &dims))
}

/// As [`tile`], with repeats that the run computes.
fn tile_of_run(emit: &mut Emit<'_>, site: &Site, dims: &[Dim]) -> Result<Gradients, Refusal> {
    let columns = [site.operand(1)?, emit.vector(dims)].map(|column| emit.unsqueeze(column, &[1]));
    let pairs = emit.op_with("Concat", &columns, int("axis", 1));
    let extents = emit.reshape(pairs, &[Dim::Known(2 * dims.len() as u64)]);
    let apart = emit.op("Reshape", &[site.gradient()?, extents]);
    let copies: Vec<usize> = (0..dims.len()).map(|axis| 2 * axis).collect();
    let summed = emit.sum(apart, &copies, false);
    Site::only(emit.stated(summed, dims))
}

fn trilu(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let operands: Vec<_> =
        [Some(site.gradient()?)].into_iter().chain(site.operand_or_none(1).map(Some)).collect();
    let made = emit.node("Trilu", &operands, int("upper", site.data.int("upper", 1)), 1);
    Ok(made.into_iter().map(Some).collect())
}

/// The sum runs the other way.
fn cum_sum(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let mut attributes = int("exclusive", site.data.int("exclusive", 0));
    attributes.extend(int("reverse", 1 - site.data.int("reverse", 0)));
    Site::only(emit.op_with("CumSum", &[site.gradient()?, site.operand(1)?], attributes))
}

fn space_to_depth(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let mut attributes = int("blocksize", site.data.int("blocksize", 1));
    attributes.push(("mode".to_owned(), Attribute::String("DCR".into())));
    Site::only(emit.op_with("DepthToSpace", &[site.gradient()?], attributes))
}

fn depth_to_space(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (gradient, block) = (site.gradient()?, site.data.int("blocksize", 1));
    if site.data.string("mode").is_none_or(|mode| mode == "DCR") {
        let attributes: Attributes = int("blocksize", block);
        return Site::only(emit.op_with("SpaceToDepth", &[gradient], attributes));
    }
    let dims = emit.dims(site.operand(0)?)?;
    let [batch, channels, height, width] = dims.as_slice() else {
        return Err(Refusal::form("an image has four axes"));
    };
    let block = Dim::Known(u64::try_from(block).map_err(|_| Refusal::form("a negative block"))?);
    let depth = channels.div(&block).div(&block);
    let apart = [batch.clone(), depth, height.clone(), block.clone(), width.clone(), block];
    let apart = emit.reshape(gradient, &apart);
    let turned = emit.transpose(apart, &[0, 1, 3, 5, 2, 4]);
    Site::only(emit.reshape(turned, &dims))
}

/// Returns an axis attribute as a position.
pub(super) fn axis_of(site: &Site, default: i64, rank: usize) -> Result<usize, Refusal> {
    normalize_axis(site.data.int("axis", default), rank)
        .ok_or_else(|| Refusal::form("its axis is out of range"))
}
