//! Resize: each resized axis is a product with a matrix of interpolation weights, whose transpose gives the
//! gradient. The weights follow the formulas of the operator's specification.

use memc_ir::{Dim, Value};
use memc_ops::normalize_axis;

use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[CodeRule::of("Resize", resize).by_results()];

fn resize(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let (x, mut gradient) = (site.operand(0)?, site.gradient()?);
    let dims = emit.dims(x)?;
    let resized = emit.dims(gradient)?;
    let interpolation = Interpolation::of(site)?;
    let scales = scales(emit, site, dims.len())?;
    for axis in (0..dims.len()).rev() {
        if dims[axis].same(&resized[axis])
            && scales.get(axis).copied().flatten().is_none_or(|scale| scale == 1.0)
        {
            continue;
        }
        let (Some(from), Some(to)) = (dims[axis].known(), resized[axis].known()) else {
            return Err(Refusal::form("it resizes an axis of unknown extent"));
        };
        let scale = scales.get(axis).copied().flatten().unwrap_or(to as f64 / from as f64);
        gradient = match copies(&interpolation, from, to, scale) {
            Some(count) => summed(emit, gradient, axis, count)?,
            None => multiplied(emit, gradient, axis, &interpolation.matrix(from, to, scale)?, from)?,
        };
    }
    Site::only(emit.stated(gradient, &dims))
}

/// Returns the stated scale of each axis, if scales are stated.
fn scales(emit: &Emit<'_>, site: &Site, rank: usize) -> Result<Vec<Option<f64>>, Refusal> {
    let mut all = vec![None; rank];
    let Some(operand) = site.operand_or_none(2) else { return Ok(all) };
    let data =
        emit.elements(operand).ok_or_else(|| Refusal::form("its scales are only known at run time"))?;
    let axes: Vec<i64> = site.data.ints("axes").map_or_else(|| (0..rank as i64).collect(), <[i64]>::to_vec);
    for (axis, item) in axes.iter().zip(&data.items) {
        let axis = normalize_axis(*axis, rank).ok_or_else(|| Refusal::form("an axis is out of range"))?;
        if let memc_ops::Item::Float(scale) = item {
            all[axis] = Some(*scale);
        }
    }
    Ok(all)
}

/// Number of copies of each element, if that is all.
fn copies(interpolation: &Interpolation, from: u64, to: u64, scale: f64) -> Option<u64> {
    let count = to.checked_div(from).filter(|count| count * from == to && *count as f64 == scale)?;
    let matrix = interpolation.matrix(from, to, scale).ok()?;
    let is_copy = |row: usize| {
        let of = row as u64 / count;
        (0..from)
            .all(|column| matrix[row * from as usize + column as usize] == f64::from(u8::from(column == of)))
    };
    (0..to as usize).all(is_copy).then_some(count)
}

fn summed(emit: &mut Emit<'_>, gradient: Value, axis: usize, count: u64) -> Result<Value, Refusal> {
    let mut dims = emit.dims(gradient)?;
    dims[axis] = dims[axis].div(&Dim::Known(count));
    dims.insert(axis + 1, Dim::Known(count));
    let apart = emit.reshape(gradient, &dims);
    Ok(emit.sum(apart, &[axis + 1], false))
}

fn multiplied(
    emit: &mut Emit<'_>,
    gradient: Value,
    axis: usize,
    matrix: &[f64],
    from: u64,
) -> Result<Value, Refusal> {
    let rank = emit.rank(gradient)?;
    let to = matrix.len() as u64 / from.max(1);
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, rank - 1);
    let turned = emit.transpose(gradient, &order);
    let matrix = emit.floats(matrix, &[to, from], gradient);
    let product = emit.op("MatMul", &[turned, matrix]);
    Ok(emit.transpose(product, &order))
}

/// How a Resize finds positions and weights.
struct Interpolation {
    mode: String,
    coordinates: String,
    rounding: String,
    cubic: f64,
    excludes_outside: bool,
}

impl Interpolation {
    fn of(site: &Site) -> Result<Self, Refusal> {
        if site.data.int("antialias", 0) != 0 {
            return Err(Refusal::form("antialiasing has no gradient"));
        }
        if site.data.string("keep_aspect_ratio_policy").is_some_and(|policy| policy != "stretch") {
            return Err(Refusal::form("a kept aspect ratio has no gradient"));
        }
        let text = |name: &str, default: &str| site.data.string(name).unwrap_or(default).to_owned();
        Ok(Self {
            mode: text("mode", "nearest"),
            coordinates: text("coordinate_transformation_mode", "half_pixel"),
            rounding: text("nearest_mode", "round_prefer_floor"),
            cubic: f64::from(site.data.float("cubic_coeff_a", -0.75)),
            excludes_outside: site.data.int("exclude_outside", 0) != 0,
        })
    }

    /// Returns the weights of all elements for all results of an axis, row by row: `[to, from]`.
    fn matrix(&self, from: u64, to: u64, scale: f64) -> Result<Vec<f64>, Refusal> {
        let mut matrix = vec![0.0; (from * to) as usize];
        for result in 0..to {
            let at = self.position(result as f64, from as f64, to as f64, scale)?;
            for (position, weight) in self.weights(at, from as i64)? {
                let position = position.clamp(0, from as i64 - 1) as u64;
                matrix[(result * from + position) as usize] += weight;
            }
        }
        Ok(matrix)
    }

    fn position(&self, result: f64, from: f64, to: f64, scale: f64) -> Result<f64, Refusal> {
        Ok(match self.coordinates.as_str() {
            "half_pixel" => (result + 0.5) / scale - 0.5,
            "half_pixel_symmetric" => {
                let adjustment = to / (scale * from);
                from / 2.0 * (1.0 - adjustment) + (result + 0.5) / scale - 0.5
            }
            "pytorch_half_pixel" => {
                if to > 1.0 {
                    (result + 0.5) / scale - 0.5
                } else {
                    0.0
                }
            }
            "align_corners" => {
                if to > 1.0 {
                    result * (from - 1.0) / (to - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => result / scale,
            other => return Err(Refusal::form(format!("the coordinates `{other}` have no gradient"))),
        })
    }

    fn weights(&self, at: f64, from: i64) -> Result<Vec<(i64, f64)>, Refusal> {
        let low = at.floor();
        let part = at - low;
        match self.mode.as_str() {
            "nearest" => {
                let nearest = match self.rounding.as_str() {
                    "round_prefer_floor" => (at - 0.5).ceil(),
                    "round_prefer_ceil" => (at + 0.5).floor(),
                    "floor" => low,
                    _ => at.ceil(),
                };
                Ok(vec![(nearest as i64, 1.0)])
            }
            "linear" => Ok(vec![(low as i64, 1.0 - part), (low as i64 + 1, part)]),
            "cubic" => {
                let a = self.cubic;
                let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let taps = [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)];
                let mut all: Vec<(i64, f64)> = (low as i64 - 1..).zip(taps).collect();
                if self.excludes_outside {
                    all.retain(|(position, _)| (0..from).contains(position));
                    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
                    all.iter_mut().for_each(|(_, weight)| *weight /= total);
                }
                Ok(all)
            }
            other => Err(Refusal::form(format!("the mode `{other}` has no gradient"))),
        }
    }
}
