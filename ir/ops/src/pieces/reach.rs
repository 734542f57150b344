//! Which operand positions a share of an image depends on: sliding windows, spreading windows and
//! upscaling.

use std::ops::Range;

use memc_ir::{Dim, Ranges};

use super::stretch::{Stretch, at_least, scaled};
use super::{Piece, Pieces, Share, pieces};
use crate::families::window::Padding;
use crate::info::{OpInfo, Typed};
use crate::{Data, Item, lookup};

/// Finds how positions of result 0 along an axis depend on positions of operand 0 along this axis;
/// `None` if unknown.
pub type ReachRule = fn(&Typed<'_>, usize) -> Option<Reach>;

/// How positions of result 0 along one axis of an image depend on positions of operand 0 along this
/// axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    kind: Kind,
    /// Pads of all spatial axes: first of their beginnings, then of their ends. Empty if the operator
    /// has no pads.
    pads: Vec<u64>,
    /// Index of the axis among the spatial axes.
    spatial: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Convolution, pooling: result position `p` reads `width` operand positions from
    /// `p * stride - begin` on.
    Slides { stride: u64, begin: u64, width: u64 },
    /// Transposed convolution: operand position `p` is added to `width` result positions from
    /// `p * stride - begin` on.
    Spreads { stride: u64, begin: u64, width: u64 },
    /// Upscaling: each operand position becomes `factor` result positions.
    Grows { factor: u64, blend: Blend },
}

/// The neighbor that a position of an upscaled image depends on, in addition to its own operand
/// position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blend {
    /// No neighbor.
    None,
    /// The next position.
    Next,
    /// The nearer neighbor.
    Nearer,
}

/// The positions that a part reads and computes for its share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Required positions of operand 0.
    pub operand: Stretch,
    /// Positions that the part's node computes: the requested positions, possibly with additional
    /// positions on both sides.
    pub made: Stretch,
    /// Attribute `pads` of the part's node, which replaces `pads` and `auto_pad`; `None` if these
    /// attributes stay.
    pub pads: Option<Vec<i64>>,
}

impl Reach {
    /// Returns the operand positions, pads and computed positions for a share of result 0. The share must
    /// be non-empty and within the result. `operand` and `result` are the extents of operand 0 and of the
    /// result along the axis.
    ///
    /// `None` if positions depend on symbols, and it is not provable that pads are equal for all extents.
    pub fn of(&self, wanted: &Stretch, operand: &Dim, result: &Dim, ranges: &Ranges) -> Option<Taken> {
        if let (Some(wanted), Dim::Known(extent)) = (wanted.known(), operand) {
            return Some(self.at(wanted, *extent));
        }
        let is_last = wanted.end.same(result);
        let taken = match self.kind {
            Kind::Slides { stride, begin, width } => {
                self.slid([stride, begin, width], wanted, operand, is_last, ranges)?
            }
            // Windows beside each other: each operand position becomes `stride` result positions.
            Kind::Spreads { stride, begin: 0, width }
                if width == stride && self.pads.iter().all(|pad| *pad == 0) =>
            {
                grown(stride, 0, wanted, operand, is_last, ranges)?
            }
            Kind::Grows { factor, blend: Blend::None } => grown(factor, 0, wanted, operand, is_last, ranges)?,
            Kind::Grows { factor, blend: Blend::Next } => grown(factor, 1, wanted, operand, is_last, ranges)?,
            Kind::Spreads { .. } | Kind::Grows { .. } => return None,
        };
        let (operand, made) = (taken.operand.simplified(ranges), taken.made.simplified(ranges));
        Some(Taken { operand, made, ..taken })
    }

    /// Like [`Self::of`], for sliding windows: stride, pad at the beginning, width.
    fn slid(
        &self,
        [stride, begin, width]: [u64; 3],
        wanted: &Stretch,
        operand: &Dim,
        is_last: bool,
        ranges: &Ranges,
    ) -> Option<Taken> {
        let shift = i64::try_from(begin).ok()?;
        let (start, before) = if wanted.start == Dim::Known(0) {
            (Dim::Known(0), begin)
        } else {
            let start = scaled(&wanted.start, stride, -shift)?;
            (Some(start).filter(|start| at_least(start, &Dim::Known(0), ranges))?, 0)
        };
        let (end, after) = if is_last {
            (operand.clone(), *self.pads.get(self.spatial + self.pads.len() / 2)?)
        } else {
            let end = scaled(
                &wanted.end,
                stride,
                i64::try_from(width).ok()? - i64::try_from(stride).ok()? - shift,
            )?;
            (Some(end).filter(|end| at_least(operand, end, ranges))?, 0)
        };
        Some(Taken {
            operand: Stretch { start, end },
            made: wanted.clone(),
            pads: Some(self.padded((before, after))),
        })
    }

    /// Returns the operand positions, pads and computed positions for a share whose positions are known.
    fn at(&self, wanted: Range<u64>, extent: u64) -> Taken {
        match self.kind {
            Kind::Slides { stride, begin, width } => {
                let (first, end) = (wanted.start * stride, (wanted.end - 1) * stride + width);
                let operand = first.saturating_sub(begin)..(end.saturating_sub(begin)).min(extent);
                let pads = (begin.saturating_sub(first), end.saturating_sub(begin + extent));
                Taken { operand: operand.into(), made: wanted.into(), pads: Some(self.padded(pads)) }
            }
            Kind::Spreads { stride, begin, width } => {
                let (first, last) = (wanted.start + begin, wanted.end - 1 + begin);
                let start = (first + 1).saturating_sub(width).div_ceil(stride).min(first / stride);
                let end = (last / stride + 1).min(extent);
                let all = (end - 1 - start) * stride + width;
                let before = first - start * stride;
                let after = all.saturating_sub(before + (wanted.end - wanted.start));
                Taken {
                    operand: (start..end).into(),
                    made: wanted.into(),
                    pads: Some(self.padded((before, after))),
                }
            }
            Kind::Grows { factor, blend } => {
                let (first, last) = (wanted.start, wanted.end - 1);
                let (start, end) = match blend {
                    Blend::None => (first / factor, last / factor + 1),
                    Blend::Next => (first / factor, last / factor + 2),
                    // Position p is at (2 p + 1 - factor) / (2 factor) in the coordinates of the
                    // operand.
                    Blend::Nearer => {
                        let before = |position: u64| (2 * position + 1).saturating_sub(factor) / (2 * factor);
                        (before(first), before(last) + 2)
                    }
                };
                let operand = start..end.min(extent);
                Taken {
                    made: (operand.start * factor..operand.end * factor).into(),
                    operand: operand.into(),
                    pads: None,
                }
            }
        }
    }

    /// Returns the pads of all axes, with the pads along the own axis replaced.
    fn padded(&self, (before, after): (u64, u64)) -> Vec<i64> {
        let mut pads = self.pads.clone();
        let ends = pads.len() / 2;
        (pads[self.spatial], pads[self.spatial + ends]) = (before, after);
        pads.into_iter().map(|pad| i64::try_from(pad).unwrap_or(i64::MAX)).collect()
    }
}

/// Returns the positions of an image of which each position becomes `factor` positions, some of which
/// depend on the `next` positions after their own.
fn grown(
    factor: u64,
    next: u64,
    wanted: &Stretch,
    operand: &Dim,
    is_last: bool,
    ranges: &Ranges,
) -> Option<Taken> {
    let by = Dim::Known(factor);
    let start = wanted.start.div(&by);
    let end = if is_last {
        operand.clone()
    } else {
        let end = wanted.end.add(&Dim::Known(factor.checked_sub(1)?)).div(&by).add(&Dim::Known(next));
        Some(end).filter(|end| at_least(operand, end, ranges))?
    };
    let made = Stretch { start: start.mul(&by), end: end.mul(&by) };
    Some(Taken { operand: Stretch { start, end }, made, pads: None })
}

/// Returns how a node takes part, given the available pieces of its operands, if the shares of parts may
/// overlap and may be unequal: each part has the positions that later nodes depend on.
///
/// [`Piece::Along`] then means a range of positions. All split operands and result 0 have one common
/// range, except that operand 0 has another range if [`Pieces::reach`] is set. No piece is an addend,
/// because overlapping positions would count twice.
pub fn pieces_reaching(node: Typed<'_>, operands: &[Piece]) -> Option<Pieces> {
    let share = Share { node, operands, parts: 1 };
    let may = node.data().bodies().next().is_none() && crate::repeatable(node.module, node.node);
    let info = lookup(&node.data().operator).filter(|_| may)?;
    reached(&share, info).or_else(|| pieces(share).filter(|found| has_same_positions(&share, found)))
}

/// Splits operand 0, and an addend with the extents of the result, along a spatial axis; all other
/// operands are whole.
fn reached(share: &Share<'_>, info: &OpInfo) -> Option<Pieces> {
    let rule = info.reach?;
    let images =
        |index: usize| index == 0 || info.domain == "com.microsoft" && info.name == "FusedConv" && index == 3;
    let axis = (0..share.count()).find_map(|index| share.along(index).filter(|_| images(index)))?;
    let alone = share.node.data().outputs.iter().skip(1).all(Option::is_none);
    (alone
        && share.is_known()
        && axis >= 2
        && (0..share.count()).all(|index| share.along(index).is_none() || images(index)))
    .then_some(())?;
    let reach = rule(&share.node, axis)?;
    let is_there = |index: usize| images(index) && share.input(index).is_some();
    let operands = (0..share.count())
        .map(|index| if is_there(index) { Piece::Along(axis) } else { Piece::Whole })
        .collect();
    // The target extents of an upscaled image must be the extents of the part.
    let extents =
        matches!(reach.kind, Kind::Grows { .. }).then_some(3).filter(|index| share.input(*index).is_some());
    Some(Pieces { reach: Some(reach), extents, ..share.made(operands, Piece::Along(axis)) })
}

/// Whether each position of a result depends only on the equal position of all split operands.
fn has_same_positions(share: &Share<'_>, found: &Pieces) -> bool {
    let extent = |dims: Option<Vec<u64>>, piece: &Piece| match piece {
        Piece::Along(axis) => dims.and_then(|dims| dims.get(*axis).copied()),
        _ => None,
    };
    let Some(first) = found.results.first().and_then(|piece| extent(share.output(), piece)) else {
        return false;
    };
    let whole = |piece: &Piece| *piece == Piece::Whole;
    let operands = (0..share.count()).all(|index| {
        let piece = &found.operands[index];
        whole(piece) || extent(share.input(index), piece) == Some(first)
    });
    let results = found.results.iter().enumerate().all(|(index, piece)| {
        share.node.data().outputs[index].is_none()
            || extent(share.node.output_dims(index), piece) == Some(first)
    });
    operands && results && found.divided.is_none() && found.count.is_none()
}

/// Returns the reach of windows that slide over operand 0, with the extents of attribute `kernel_shape`
/// or of the filters.
pub(crate) fn slides(node: &Typed<'_>, axis: usize) -> Option<Reach> {
    let window = Kernel::of(node, axis)?;
    let (from, to) = (window.extent, node.output_dims(0)?.get(axis).copied()?);
    let all = to.checked_sub(1)?.checked_mul(window.stride)?.checked_add(window.width)?;
    if Padding::of(node.data()) == Padding::Same {
        return same(node, window);
    }
    let (begin, end) = window.own_pads();
    let end = end.max(all.saturating_sub(from + begin));
    // No window may begin in the pads after the image. If the end of the image cuts a window, pads
    // replace the missing positions.
    let is_cut = all > from + begin + window.own_pads().1;
    let fits = (to - 1) * window.stride < from + begin && begin < window.width && end < window.width;
    (!is_cut || pads_count_for_nothing(node)).then_some(())?;
    let kind = Kind::Slides { stride: window.stride, begin, width: window.width };
    fits.then(|| Reach { kind, pads: window.pads.clone(), spatial: window.spatial })
}

/// Whether additional pads do not change the result of a window, because no filter and no mean reads
/// them.
fn pads_count_for_nothing(node: &Typed<'_>) -> bool {
    let data = node.data();
    let is_plain = data.ints("dilations").is_none_or(|gaps| gaps.iter().all(|gap| *gap == 1));
    let is_apart = match &*data.operator.name {
        "MaxPool" | "LpPool" => true,
        "AveragePool" => data.int("count_include_pad", 0) == 0,
        _ => false,
    };
    is_plain && is_apart
}

/// Returns the reach of sliding windows with automatic padding (`SAME_UPPER`, `SAME_LOWER`): the result
/// extent is the operand extent divided by the stride.
fn same(node: &Typed<'_>, own: Kernel) -> Option<Reach> {
    let is_lower = node.data().string("auto_pad") == Some("SAME_LOWER");
    let count = own.pads.len() / 2;
    let mut pads = vec![0; own.pads.len()];
    for spatial in 0..count {
        let window = Kernel::of(node, spatial + 2)?;
        let to = node.output_dims(0)?.get(spatial + 2).copied()?;
        let all = to.checked_sub(1)?.checked_mul(window.stride)?.checked_add(window.width)?;
        let total = all.saturating_sub(window.extent);
        pads[spatial] = if is_lower { total.div_ceil(2) } else { total / 2 };
        pads[spatial + count] = total - pads[spatial];
    }
    let kind = Kind::Slides { stride: own.stride, begin: pads[own.spatial], width: own.width };
    Some(Reach { kind, pads, spatial: own.spatial })
}

/// Returns the reach of windows that spread from each position of operand 0 and are summed (transposed
/// convolution).
pub(crate) fn spreads(node: &Typed<'_>, axis: usize) -> Option<Reach> {
    let window = Kernel::of(node, axis)?;
    let data = node.data();
    let plain = matches!(Padding::of(data), Padding::Explicit)
        && data.attribute("output_shape").is_none()
        && data.ints("output_padding").is_none_or(|extra| extra.iter().all(|extra| *extra == 0));
    let to = node.output_dims(0)?.get(axis).copied()?;
    let (begin, end) = window.own_pads();
    let all = window.extent.checked_sub(1)?.checked_mul(window.stride)?.checked_add(window.width)?;
    let fits = all == to + begin + end && window.width >= window.stride;
    let kind = Kind::Spreads { stride: window.stride, begin, width: window.width };
    (plain && fits).then(|| Reach { kind, pads: window.pads.clone(), spatial: window.spatial })
}

/// Returns the reach of upscaling by an integer factor.
pub(crate) fn grows(node: &Typed<'_>, axis: usize) -> Option<Reach> {
    let data = node.data();
    let (from, to) = (node.input_dims(0)?.get(axis).copied()?, node.output_dims(0)?.get(axis).copied()?);
    let factor = to.checked_div(from).filter(|factor| factor * from == to && *factor > 0 && from > 1)?;
    let is_upsample = &*data.operator.name == "Upsample" || data.operator.version < 11;
    let default = if is_upsample { "asymmetric" } else { "half_pixel" };
    let mode = data.string("coordinate_transformation_mode").unwrap_or(default);
    let nearest =
        data.string("nearest_mode").unwrap_or(if is_upsample { "floor" } else { "round_prefer_floor" });
    let blend = match (data.string("mode").unwrap_or("nearest"), mode) {
        ("nearest", "asymmetric") => {
            (nearest == "floor" || nearest == "round_prefer_floor" && factor <= 2).then_some(Blend::None)?
        }
        ("nearest", "half_pixel" | "pytorch_half_pixel") => {
            nearest.starts_with("round_prefer").then_some(Blend::None)?
        }
        ("linear", "asymmetric") => Blend::Next,
        ("linear", "half_pixel" | "pytorch_half_pixel") => Blend::Nearer,
        _ => return None,
    };
    let plain = data.attribute("axes").is_none() && data.int("antialias", 0) == 0;
    let sized = !is_upsample && node.input_dims(3).is_some_and(|dims| dims != [0]);
    let scaled = || scale(node, axis, if is_upsample { 1 } else { 2 }) == Some(factor as f64);
    let kind = Kind::Grows { factor, blend };
    (plain && (sized || scaled())).then(|| Reach { kind, pads: Vec::new(), spatial: 0 })
}

/// Returns the scale of an axis, from attribute `scales` or from a constant operand.
fn scale(node: &Typed<'_>, axis: usize, operand: usize) -> Option<f64> {
    if let Some(memc_ir::Attribute::Floats(scales)) = node.data().attribute("scales") {
        return scales.get(axis).map(|scale| f64::from(*scale));
    }
    let constant = node.module.constant_of((*node.data().inputs.get(operand)?)?)?;
    match Data::from_constant(node.module.constant(constant))?.items.get(axis)? {
        Item::Float(scale) => Some(*scale),
        _ => None,
    }
}

/// A window along one spatial axis.
struct Kernel {
    /// Extent of operand 0 along the axis.
    extent: u64,
    stride: u64,
    /// Number of positions from the first to the last element of the window, including the gaps of
    /// dilation.
    width: u64,
    /// Attribute `pads`.
    pads: Vec<u64>,
    /// Index of the axis among the spatial axes, after batch and channels.
    spatial: usize,
}

impl Kernel {
    /// Returns the pads before and after the operand along the axis.
    fn own_pads(&self) -> (u64, u64) {
        (self.pads[self.spatial], self.pads[self.spatial + self.pads.len() / 2])
    }

    fn of(node: &Typed<'_>, axis: usize) -> Option<Self> {
        let (data, dims) = (node.data(), node.input_dims(0)?);
        let (count, spatial) = (dims.len().checked_sub(2)?, axis.checked_sub(2)?);
        let own = |name: &str| match data.ints(name).filter(|values| !values.is_empty()) {
            Some(values) => {
                values.get(spatial).and_then(|value| u64::try_from(*value).ok()).filter(|value| *value > 0)
            }
            None => Some(1),
        };
        let filters = if &*data.operator.name == "QLinearConv" { 3 } else { 1 };
        let kernel = match data.attribute("kernel_shape") {
            Some(_) => own("kernel_shape")?,
            None => node.input_dims(filters)?.get(axis).copied()?,
        };
        let pads = match data.ints("pads").filter(|_| matches!(Padding::of(data), Padding::Explicit)) {
            Some(pads) => pads.iter().map(|pad| u64::try_from(*pad).ok()).collect::<Option<Vec<u64>>>()?,
            None => vec![0; count * 2],
        };
        let width = kernel.checked_sub(1)?.checked_mul(own("dilations")?)?.checked_add(1)?;
        let extent = dims.get(axis).copied()?;
        (pads.len() == count * 2).then_some(Self { extent, stride: own("strides")?, width, pads, spatial })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use memc_ir::DimExpr;

    use super::*;

    /// Returns the operand positions that a result position depends on, directly from the definition.
    fn by_definition(kind: Kind, extent: u64, position: u64) -> Vec<u64> {
        let all = 0..extent as i64;
        let reads = |from: i64| -> bool {
            let position = position as i64;
            match kind {
                Kind::Slides { stride, begin, width } => {
                    let first = position * stride as i64 - begin as i64;
                    (first..first + width as i64).contains(&from)
                }
                Kind::Spreads { stride, begin, width } => {
                    let first = from * stride as i64 - begin as i64;
                    (first..first + width as i64).contains(&position)
                }
                Kind::Grows { factor, blend } => {
                    let place = match blend {
                        Blend::Nearer => (position as f64 + 0.5) / factor as f64 - 0.5,
                        _ => position as f64 / factor as f64,
                    };
                    let place = place.max(0.0);
                    match blend {
                        Blend::None => place.floor() as i64 == from,
                        _ => {
                            place.floor() as i64 == from
                                || (place.floor() as i64 + 1).min(extent as i64 - 1) == from
                        }
                    }
                }
            }
        };
        all.filter(|from| reads(*from)).map(|from| from as u64).collect()
    }

    #[test]
    fn ranges_hold_all_that_their_positions_depend_on() {
        let mut kinds = Vec::new();
        for stride in 1..4 {
            for width in 1..6 {
                for begin in 0..width {
                    kinds.push(Kind::Slides { stride, begin, width });
                    if width >= stride {
                        kinds.push(Kind::Spreads { stride, begin, width });
                    }
                }
            }
            kinds.extend(
                [Blend::None, Blend::Next, Blend::Nearer].map(|blend| Kind::Grows { factor: stride, blend }),
            );
        }
        for kind in kinds {
            let extent = 11;
            let reach = Reach { kind, pads: vec![7, 0, 8, 0], spatial: 1 };
            let to = match kind {
                Kind::Slides { stride, begin, width } => (extent + 2 * begin - width) / stride + 1,
                Kind::Spreads { stride, begin, width } => (extent - 1) * stride + width - 2 * begin,
                Kind::Grows { factor, .. } => extent * factor,
            };
            for (start, end) in (0..to).flat_map(|start| (start + 1..=to).map(move |end| (start, end))) {
                let taken = reach.at(start..end, extent);
                let needed: Vec<u64> =
                    (start..end).flat_map(|position| by_definition(kind, extent, position)).collect();
                let (first, last) = (*needed.iter().min().unwrap(), *needed.iter().max().unwrap());
                let (operand, made) = (taken.operand.known().unwrap(), taken.made.known().unwrap());
                assert!(operand.start <= first && last < operand.end, "{kind:?} {start}..{end}: {taken:?}");
                assert!(made.start <= start && end <= made.end, "{kind:?} {start}..{end}: {taken:?}");
                assert!(operand.end <= extent, "{kind:?} {start}..{end}: {taken:?}");
                agrees(kind, &taken);
            }
        }
    }

    #[test]
    fn positions_with_symbols_hold_for_every_extent() {
        let ranges = Ranges::from([("N".to_owned(), "3..40".parse().unwrap())]);
        let extent = Dim::from_name("4*N");
        let mut counts = [0; 3];
        for (stride, width, begin) in
            (1..4).flat_map(|s| (1..6).flat_map(move |w| (0..w.min(3)).map(move |b| (s, w, b))))
        {
            let of = |dim: &Dim| dim.expr().unwrap();
            let slid = of(&extent).add(&DimExpr::constant(2 * begin as i64 - width as i64)).unwrap();
            let slid = slid
                .floor_div(&DimExpr::constant(stride as i64))
                .unwrap()
                .add(&DimExpr::constant(1))
                .unwrap();
            let by = Dim::Known(stride);
            for (number, (kind, to)) in [
                (Kind::Slides { stride, begin, width }, Dim::from_expr(slid)),
                (Kind::Spreads { stride, begin: 0, width: stride }, extent.mul(&by)),
                (
                    Kind::Grows {
                        factor: stride,
                        blend: if width % 2 == 0 { Blend::Next } else { Blend::None },
                    },
                    extent.mul(&by),
                ),
            ]
            .into_iter()
            .enumerate()
            {
                let pads = if number == 0 { vec![7, begin, 8, begin] } else { vec![0; 4] };
                let reach = Reach { kind, pads, spatial: 1 };
                // A part that begins at N-2 may need pads there.
                let borders = [if width % 2 == 0 { "N" } else { "N+2" }, "N-2"].map(Dim::from_name);
                let parts = borders.into_iter().flat_map(|border| {
                    [
                        Stretch { start: Dim::Known(0), end: border.clone() },
                        Stretch { start: border, end: to.clone() },
                    ]
                });
                for wanted in parts {
                    let Some(taken) = reach.of(&wanted, &extent, &to, &ranges) else { continue };
                    counts[number] += 1;
                    for n in 3..=40 {
                        let point = BTreeMap::from([("N".to_owned(), n)]);
                        let at = |stretch: &Stretch| {
                            let ends =
                                [&stretch.start, &stretch.end].map(|end| end.bind(&point).known().unwrap());
                            ends[0]..ends[1]
                        };
                        let (asked, operand, made) = (at(&wanted), at(&taken.operand), at(&taken.made));
                        if asked.is_empty() {
                            continue;
                        }
                        let mut needed =
                            asked.clone().flat_map(|position| by_definition(kind, 4 * n, position));
                        assert!(
                            needed.all(|position| operand.contains(&position)),
                            "{kind:?} {n}: {taken:?}"
                        );
                        assert!(
                            made.start <= asked.start && asked.end <= made.end && operand.end <= 4 * n,
                            "{kind:?} {n}: {taken:?}"
                        );
                        agrees(
                            kind,
                            &Taken { operand: operand.into(), made: made.into(), pads: taken.pads.clone() },
                        );
                    }
                }
            }
        }
        assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    }

    /// Checks that the part's node computes the stated number of positions, starting at the stated
    /// position.
    fn agrees(kind: Kind, taken: &Taken) {
        let (operand, all) = (taken.operand.known().unwrap(), taken.made.known().unwrap());
        let (given, made) = (operand.end - operand.start, all.end - all.start);
        let pads: Vec<u64> = taken.pads.iter().flatten().map(|pad| u64::try_from(*pad).unwrap()).collect();
        match kind {
            Kind::Slides { stride, begin, width } => {
                assert_eq!((pads[0], pads[2]), (7, 8), "pads of other axes stay");
                assert_eq!((given + pads[1] + pads[3] - width) / stride + 1, made, "{kind:?} {taken:?}");
                assert_eq!(all.start * stride + pads[1], operand.start + begin, "{kind:?} {taken:?}");
            }
            Kind::Spreads { stride, begin, width } => {
                let [before, after] = if pads.is_empty() { [0; 2] } else { [pads[1], pads[3]] };
                assert_eq!((given - 1) * stride + width - before - after, made, "{kind:?} {taken:?}");
                assert_eq!(operand.start * stride + before, all.start + begin, "{kind:?} {taken:?}");
            }
            Kind::Grows { factor, .. } => {
                assert_eq!((operand.start * factor, given * factor), (all.start, made));
            }
        }
    }
}
