//! Numbers of positions of values: a cut of a node's result is what the node computes from cuts of its
//! operands, as far as [`depends`] states which positions depend on which.
//!
//! So a node that computes only some positions, and a cut after a node that computes all of them, have equal
//! numbers. The joined parts of a value have the number of the value.

use std::collections::HashMap;
use std::ops::Range;

use memc_ir::{Attribute, ElementType, Node, SecondaryMap, Value};
use memc_ops::normalize_axis;

use super::depends::{self, Cut};
use super::{ABSENT, Key, Numbering, Part, Walk};
use crate::content::{Content, Raw};
use crate::rows::is_onnx;
use crate::side::{Known, Side};

/// Maximum number of nodes through which a cut is followed.
const DEPTH: usize = 160;

/// Positions along each axis.
pub(crate) type Place = Vec<Range<u64>>;

/// Whether a cut moves through nodes that may add in another order if there are fewer rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Moves {
    /// Only through nodes that move elements, which keeps every bit.
    #[default]
    Exact,
    /// Through all nodes of which `depends` states how positions depend on each other.
    Any,
}

/// Positions of values, by numbers.
#[derive(Default)]
pub(super) struct Cuts<'s> {
    pub(super) moves: Moves,
    /// Extents of a value, and the node that makes it as its only result.
    pub(super) made: HashMap<u32, Made<'s>>,
    /// For the number of positions: the number of the whole value.
    pub(super) parts: HashMap<u32, (u32, Place)>,
    known: HashMap<(u32, Place), u32>,
    depth: usize,
}

#[derive(Clone)]
pub(super) struct Made<'s> {
    pub(super) dims: Vec<u64>,
    pub(super) by: Option<(&'s Side<'s>, usize, Part)>,
    pub(super) raw: Option<Raw>,
}

fn whole(dims: &[u64]) -> Place {
    dims.iter().map(|extent| 0..*extent).collect()
}

fn extents(place: &[Range<u64>]) -> Vec<u64> {
    place.iter().map(|range| range.end.saturating_sub(range.start)).collect()
}

/// Returns the extents of a value, unless they are free.
pub(super) fn fixed<'k>(side: &'k Side<'_>, value: Value) -> Option<&'k Known> {
    side.known[value].as_deref().filter(|known| known.free.is_none())
}

impl<'s> Numbering<'s> {
    /// Notes the node that makes a number first.
    pub(super) fn note(&mut self, number: u32, side: &'s Side<'s>, value: Value, by: Option<(usize, &Part)>) {
        let Some(known) = fixed(side, value).filter(|_| !self.cuts.made.contains_key(&number)) else { return };
        let is_only = |row: usize| side.module.node(side.rows[row].node).results().count() == 1;
        let by = by.filter(|(row, _)| is_only(*row)).map(|(row, part)| (side, row, part.clone()));
        self.cuts.made.insert(number, Made { dims: known.dims.clone(), by, raw: None });
    }

    /// Notes the bytes of a constant.
    pub(super) fn note_constant(&mut self, number: u32, raw: &Raw) {
        let made = || Made { dims: raw.dims.clone(), by: None, raw: Some(raw.clone()) };
        self.cuts.made.entry(number).or_insert_with(made);
    }

    /// Returns the number of a result that consists of positions of operand 0, or that joins parts of one
    /// value; `None` for other results.
    pub(super) fn cut(&mut self, side: &'s Side<'s>, row: usize, value: Value, part: &Part) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        if !data.operator.domain.is_empty() {
            return None;
        }
        let first = data.inputs.first().copied().flatten()?;
        let (from, to) = (fixed(side, first)?, fixed(side, value)?);
        let number = *part.operands.first()?;
        match &*data.operator.name {
            "Slice" => {
                let place = sliced(side, row)?;
                Some(self.select(number, &from.dims, place))
            }
            "Split" => {
                let axis = normalize_axis(data.int("axis", 0), from.dims.len())?;
                let mut start: u64 = 0;
                for result in &data.outputs {
                    let extent = *fixed(side, (*result)?)?.dims.get(axis)?;
                    if *result == Some(value) {
                        let mut place = whole(&from.dims);
                        *place.get_mut(axis)? = start..start.checked_add(extent)?;
                        return Some(self.select(number, &from.dims, place));
                    }
                    start = start.checked_add(extent)?;
                }
                None
            }
            "Gather" => {
                let axis = normalize_axis(data.int("axis", 0), from.dims.len())?;
                let indices = data.inputs.get(1).copied().flatten()?;
                let own = &fixed(side, indices)?.dims;
                let (range, moved) = hull(&side.integers(indices)?, from.dims[axis])?;
                let mut place = whole(&from.dims);
                place[axis] = range;
                let cut = self.select(number, &from.dims, place.clone());
                if own.is_empty() {
                    let dims = extents(&place);
                    return Some(self.reshape(cut, &Known { element: from.element, dims, free: None }, to));
                }
                let counts = moved.iter().enumerate().all(|(index, other)| i64::try_from(index) == Ok(*other));
                if own.len() == 1 && counts {
                    return Some(cut);
                }
                let indices = self.integers(own, &moved);
                Some(self.intern(Key::Result { head: part.head, operands: vec![cut, indices], result: 0, instance: None }))
            }
            "GatherND" if data.int("batch_dims", 0) == 0 => {
                let indices = data.inputs.get(1).copied().flatten()?;
                let own = fixed(side, indices)?.dims.clone();
                let count = usize::try_from(*own.last()?).ok().filter(|count| *count > 0 && *count <= from.dims.len())?;
                let all = side.integers(indices)?;
                let (mut place, mut moved) = (whole(&from.dims), vec![0; all.len()]);
                for (axis, kept) in place.iter_mut().enumerate().take(count) {
                    let column: Vec<i64> = all.iter().skip(axis).step_by(count).copied().collect();
                    let (range, others) = hull(&column, from.dims[axis])?;
                    *kept = range;
                    moved.iter_mut().skip(axis).step_by(count).zip(others).for_each(|(to, from)| *to = from);
                }
                let cut = self.select(number, &from.dims, place);
                let indices = self.integers(&own, &moved);
                Some(self.intern(Key::Result { head: part.head, operands: vec![cut, indices], result: 0, instance: None }))
            }
            "Concat" => {
                let axis = normalize_axis(data.int("axis", 1), to.dims.len())?;
                self.joined(&part.operands, axis).or_else(|| self.joined_results(&part.operands, axis))
            }
            _ => None,
        }
    }

    /// Returns the number of the joined parts of one value.
    pub(super) fn joined(&mut self, operands: &[u32], axis: usize) -> Option<u32> {
        let (base, mut place) = self.cuts.parts.get(operands.first()?)?.clone();
        for operand in &operands[1..] {
            let (other, next) = self.cuts.parts.get(operand).filter(|(other, _)| *other == base)?;
            let is_beside = next.len() == place.len()
                && (0..place.len()).all(|at| if at == axis { next[at].start == place[at].end } else { next[at] == place[at] });
            (is_beside && *other == base).then_some(())?;
            place[axis].end = next[axis].end;
        }
        let dims = self.cuts.made.get(&base)?.dims.clone();
        Some(self.select(base, &dims, place))
    }

    /// Returns the number of a constant of integers.
    fn integers(&mut self, dims: &[u64], numbers: &[i64]) -> u32 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(Content::Raw(Raw { element: ElementType::Int64, dims: dims.to_vec(), bytes: bytes.into() }))
    }

    /// Returns the number of positions of a value with these extents.
    fn select(&mut self, number: u32, dims: &[u64], place: Place) -> u32 {
        if place == whole(dims) {
            return number;
        }
        let (base, place) = match self.cuts.parts.get(&number) {
            Some((base, held)) if held.len() == place.len() => {
                let moved = held.iter().zip(&place).map(|(held, own)| held.start + own.start..held.start + own.end);
                (*base, moved.collect())
            }
            _ => (number, place),
        };
        let key = (base, place);
        if let Some(known) = self.cuts.known.get(&key) {
            return *known;
        }
        let before = self.table.len() as u32;
        self.cuts.depth += 1;
        let moved = if self.cuts.depth <= DEPTH { self.moved(base, &key.1) } else { None };
        self.cuts.depth -= 1;
        let found = moved.unwrap_or_else(|| self.intern(Key::Cut { base, place: key.1.clone() }));
        // A number that was there before has parts, or a node, of its own.
        if found >= before {
            self.cuts.parts.entry(found).or_insert_with(|| key.clone());
        }
        self.cuts.known.insert(key, found);
        found
    }

    /// Returns the number of positions of a value as what its node computes from positions of its operands.
    fn moved(&mut self, base: u32, place: &Place) -> Option<u32> {
        let made = self.cuts.made.get(&base)?.clone();
        let is_some = place.iter().zip(&made.dims).all(|(range, extent)| range.start < range.end && range.end <= *extent);
        (is_some && place.len() == made.dims.len()).then_some(())?;
        if let Some(raw) = &made.raw {
            let raw = cut_bytes(raw, place)?;
            return Some(self.constant(Content::Raw(raw)));
        }
        let (side, row, part) = made.by?;
        let data = side.module.node(side.rows[row].node);
        if is_onnx(data, "Concat") {
            return self.moved_join(side, row, &part, place);
        }
        if is_onnx(data, "Pad") {
            return self.moved_pad(side, row, &part, place);
        }
        self.moved_node(side, row, &part, (base, &made.dims), place)
    }

    fn moved_join(&mut self, side: &'s Side<'s>, row: usize, part: &Part, place: &Place) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let axis = normalize_axis(data.int("axis", 1), place.len())?;
        let (mut start, mut operands) = (0u64, Vec::new());
        for (operand, number) in data.inputs.iter().zip(&part.operands) {
            let dims = &fixed(side, (*operand)?)?.dims;
            let end = start.checked_add(*dims.get(axis)?)?;
            let common = place[axis].start.max(start)..place[axis].end.min(end);
            if !common.is_empty() {
                let mut own = place.clone();
                own[axis] = common.start - start..common.end - start;
                operands.push(self.select(*number, dims, own));
            }
            start = end;
        }
        match operands[..] {
            [one] => Some(one),
            _ => Some(self.intern(Key::Result { head: part.head, operands, result: 0, instance: None })),
        }
    }

    fn moved_pad(&mut self, side: &'s Side<'s>, row: usize, part: &Part, place: &Place) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let dims = &fixed(side, data.inputs.first().copied().flatten()?)?.dims;
        let is_plain = data.inputs.len() <= 3 && data.ints("pads").is_none();
        let pads = side.integers(data.inputs.get(1).copied().flatten().filter(|_| is_plain)?)?;
        let is_constant = data.string("mode").unwrap_or("constant") == "constant";
        (pads.len() == 2 * dims.len() && pads.iter().all(|pad| *pad >= 0)).then_some(())?;
        let (mut own, mut left) = (place.clone(), pads.clone());
        for (axis, range) in place.iter().enumerate() {
            let (begin, extent) = (pads[axis], i64::try_from(dims[axis]).ok()?);
            if begin == 0 && pads[axis + dims.len()] == 0 {
                continue;
            }
            let (start, end) = (i64::try_from(range.start).ok()? - begin, i64::try_from(range.end).ok()? - begin);
            let (first, last) = (start.clamp(0, extent), end.clamp(0, extent));
            let (before, after) = ((-start).max(0), (end - extent).max(0));
            (first < last && (is_constant || before + after == 0)).then_some(())?;
            own[axis] = u64::try_from(first).ok()?..u64::try_from(last).ok()?;
            (left[axis], left[axis + dims.len()]) = (before, after);
        }
        let cut = self.select(*part.operands.first()?, dims, own);
        if left.iter().all(|pad| *pad == 0) {
            return Some(cut);
        }
        let mut operands = part.operands.clone();
        operands[0] = cut;
        operands[1] = self.integers(&[left.len() as u64], &left);
        Some(self.intern(Key::Result { head: part.head, operands, result: 0, instance: None }))
    }

    /// Follows a cut through a node by the list of `depends`. Axes that it does not move along are
    /// cut after the node.
    fn moved_node(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        part: &Part,
        (base, dims): (u32, &[u64]),
        place: &Place,
    ) -> Option<u32> {
        let node = side.rows[row].node;
        let data = side.module.node(node);
        if side.unrepeatable(row) || (self.cuts.moves == Moves::Exact && !depends::moves(data)) {
            return None;
        }
        let operand_dims: Vec<Option<&Known>> =
            data.inputs.iter().map(|value| value.and_then(|value| fixed(side, value))).collect();
        let extents_of: Vec<Option<&[u64]>> = operand_dims.iter().map(|known| Some((*known)?.dims.as_slice())).collect();
        let cut = Cut {
            node: data,
            opset: side.module.opsets.get("").copied().unwrap_or(0),
            operands: &extents_of,
            result: dims,
            integers: data.inputs.get(1).copied().flatten().and_then(|value| side.integers(value)),
        };
        let mut reads: Vec<Option<Place>> = extents_of.iter().map(|dims| Some(whole((*dims)?))).collect();
        let (mut made, mut pads, mut stated) = (whole(dims), None::<Vec<i64>>, None);
        for (axis, range) in place.iter().enumerate().filter(|(axis, range)| **range != (0..dims[*axis])) {
            let Some(found) = depends::need(&cut, axis, range) else { continue };
            for (operand, own) in found.axes.iter().enumerate().filter_map(|(operand, own)| Some((operand, (*own)?))) {
                let under = found.window.as_ref().filter(|_| operand == 0).map(|(under, ..)| under);
                *reads.get_mut(operand)?.as_mut()?.get_mut(own)? = under.unwrap_or(range).clone();
            }
            if let Some((_, before, after)) = found.window {
                let (spatial, count) = (axis.checked_sub(2)?, dims.len().checked_sub(2)?);
                let all = pads.get_or_insert_with(|| data.ints("pads").map_or_else(|| vec![0; 2 * count], <[i64]>::to_vec));
                *all.get_mut(spatial)? = before;
                *all.get_mut(spatial + count)? = after;
            }
            stated = stated.or(found.stated);
            made[axis] = range.clone();
        }
        (made != whole(dims)).then_some(())?;
        let mut operands = part.operands.clone();
        for (position, number) in operands.iter_mut().enumerate() {
            if let (Some(Some(known)), Some(Some(place))) = (operand_dims.get(position), reads.get(position))
                && *number != ABSENT
            {
                *number = self.select(*number, &known.dims, place.clone());
            }
        }
        let before = self.table.len() as u32;
        let number = if depends::reshapes(data) {
            let from = Known { element: operand_dims.first()?.as_ref()?.element, dims: extents(reads[0].as_ref()?), free: None };
            let element = fixed(side, data.results().next()?)?.element;
            self.reshape(operands[0], &from, &Known { element, dims: extents(&made), free: None })
        } else {
            if let Some(position) = stated.filter(|position| *position < operands.len()) {
                let own: Vec<i64> = extents(&made).iter().map(|extent| i64::try_from(*extent)).collect::<Result<_, _>>().ok()?;
                operands[position] = self.integers(&[own.len() as u64], &own);
            }
            let head = match pads {
                Some(pads) => self.head_with(side, node, pads),
                None => part.head,
            };
            self.intern(Key::Result { head, operands, result: 0, instance: None })
        };
        if number >= before {
            self.cuts.parts.entry(number).or_insert_with(|| (base, made.clone()));
        }
        if made == *place {
            return Some(number);
        }
        let rest = place.iter().zip(&made).map(|(own, made)| Some(own.start.checked_sub(made.start)?..own.end - made.start));
        let rest: Place = rest.collect::<Option<_>>()?;
        Some(self.intern(Key::Cut { base: number, place: rest }))
    }

    /// Returns the number of a node's operator and attributes, with other pads.
    fn head_with(&mut self, side: &'s Side<'s>, node: Node, pads: Vec<i64>) -> u32 {
        let data = side.module.node(node);
        let mut attributes: Vec<(String, Attribute)> =
            data.attributes.iter().filter(|(name, _)| name != "pads" && name != "auto_pad").cloned().collect();
        attributes.push(("pads".to_owned(), Attribute::Ints(pads)));
        let mut walk = Walk { side, model: 0, values: SecondaryMap::new(ABSENT) };
        self.head(&mut walk, data, memc_ops::lookup(&data.operator), &attributes, 0)
    }
}

/// Returns the positions of each axis that a Slice with steps of 1 takes; `None` if they are unknown.
pub(crate) fn sliced(side: &Side<'_>, row: usize) -> Option<Place> {
    let data = side.module.node(side.rows[row].node);
    let inputs = data.inputs.as_slice();
    let (from, to) = (fixed(side, inputs.first().copied().flatten()?)?, fixed(side, data.results().next()?)?);
    let stated = |name: &str, operand: usize| match inputs.get(operand).copied().flatten() {
        Some(value) => side.integers(value).map(Some),
        None => Some(data.ints(name).map(<[i64]>::to_vec)),
    };
    let starts = stated("starts", 1)??;
    let axes = match stated("axes", 3)? {
        Some(axes) => axes.iter().map(|axis| normalize_axis(*axis, from.dims.len())).collect::<Option<Vec<_>>>()?,
        None => (0..starts.len()).collect(),
    };
    (axes.len() == starts.len() && stated("steps", 4)?.is_none_or(|steps| steps.iter().all(|step| *step == 1))).then_some(())?;
    let mut place = whole(&from.dims);
    for (axis, start) in axes.into_iter().zip(starts) {
        let extent = i64::try_from(*from.dims.get(axis)?).ok()?;
        let start = if start < 0 { start.checked_add(extent)? } else { start };
        let start = u64::try_from(start.clamp(0, extent)).ok()?;
        let end = start.checked_add(*to.dims.get(axis)?)?;
        (end <= from.dims[axis]).then_some(())?;
        place[axis] = start..end;
    }
    (extents(&place) == to.dims).then_some(place)
}

/// Returns the smallest range that holds all positions, and the positions counted from its first one.
fn hull(positions: &[i64], extent: u64) -> Option<(Range<u64>, Vec<i64>)> {
    let extent = i64::try_from(extent).ok()?;
    let at = |position: &i64| {
        let position = if *position < 0 { position.checked_add(extent)? } else { *position };
        (0..extent).contains(&position).then_some(position)
    };
    let all: Vec<i64> = positions.iter().map(at).collect::<Option<_>>()?;
    let (least, most) = (*all.iter().min()?, *all.iter().max()?);
    let range = u64::try_from(least).ok()?..u64::try_from(most).ok()? + 1;
    Some((range, all.into_iter().map(|position| position - least).collect()))
}

/// Returns the bytes of positions of a constant of whole bytes.
fn cut_bytes(raw: &Raw, place: &Place) -> Option<Raw> {
    let bits = u64::from(raw.element.bits()?);
    let size = usize::try_from(bits / 8).ok().filter(|size| *size > 0 && bits % 8 == 0)?;
    let count = raw.dims.iter().try_fold(size as u64, |count, extent| count.checked_mul(*extent))?;
    (count == raw.bytes.len() as u64).then_some(())?;
    // Lists of first bytes of ever smaller blocks.
    let (mut starts, mut block) = (vec![0usize], raw.bytes.len());
    let last = (0..place.len()).rev().find(|axis| place[*axis] != (0..raw.dims[*axis]))?;
    for (axis, range) in place.iter().enumerate().take(last) {
        block /= usize::try_from(raw.dims[axis]).ok()?;
        starts = starts
            .iter()
            .flat_map(|start| range.clone().map(move |position| (start, position)))
            .map(|(start, position)| Some(start + usize::try_from(position).ok()? * block))
            .collect::<Option<_>>()?;
    }
    block /= usize::try_from(raw.dims[last]).ok()?;
    let (from, to) = (usize::try_from(place[last].start).ok()?, usize::try_from(place[last].end).ok()?);
    let mut bytes = Vec::new();
    for start in starts {
        bytes.extend_from_slice(raw.bytes.get(start + from * block..start + to * block)?);
    }
    Some(Raw { element: raw.element, dims: extents(place), bytes: bytes.into() })
}
