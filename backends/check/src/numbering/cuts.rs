//! Numbers of positions of values: a cut of a node's result is what the node computes from cuts of its
//! operands, as far as [`depends`] states which positions depend on which.
//!
//! So a node that computes only some positions, and a cut after a node that computes all of them, have equal
//! numbers. The joined parts of a value have the number of the value.

use std::collections::HashMap;

use memc_ir::{Attribute, Dim, DimExpr, ElementType, SecondaryMap, TensorType, Value};
use memc_ops::{Item, normalize_axis};

use super::depends::{self, Cut};
use super::span::Span;
use super::{ABSENT, Key, Numbering, Part, Walk};
use crate::content::{Content, Raw};
use crate::extents::Extents;
use crate::rows::is_onnx;
use crate::side::{Known, Side};

/// Maximum number of nodes through which a cut is followed.
const DEPTH: usize = 160;

/// Positions along each axis.
pub(crate) type Place = Vec<Span>;

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
    /// Extents of a value, and the node that makes it.
    pub(super) made: HashMap<u32, Made<'s>>,
    /// For the number of positions: the number of the whole value.
    pub(super) parts: HashMap<u32, (u32, Place)>,
    known: HashMap<(u32, Place), u32>,
    depth: usize,
}

#[derive(Clone)]
pub(super) struct Made<'s> {
    pub(super) dims: Vec<DimExpr>,
    /// `None` for results of nodes with several ones that do not share their rows.
    pub(super) by: Option<By<'s>>,
    pub(super) raw: Option<Raw>,
}

/// A node, by its row in a model, and the position of one of its results.
#[derive(Clone)]
pub(super) struct By<'s> {
    pub(super) side: &'s Side<'s>,
    pub(super) row: usize,
    pub(super) part: Part,
    pub(super) result: usize,
}

pub(super) fn whole(dims: &[DimExpr]) -> Place {
    dims.iter().map(Span::whole).collect()
}

/// Returns the number of positions along each axis.
pub(super) fn counts(place: &[Span], extents: &Extents) -> Option<Vec<DimExpr>> {
    place.iter().map(|span| span.count(extents)).collect()
}

/// Returns extents as expressions.
pub(super) fn expressions(dims: &[u64]) -> Vec<DimExpr> {
    dims.iter().map(|extent| DimExpr::constant(i64::try_from(*extent).unwrap_or(i64::MAX))).collect()
}

/// Returns extents as numbers; `None` if one follows free dimensions.
pub(super) fn numbers(dims: &[DimExpr]) -> Option<Vec<u64>> {
    dims.iter().map(|extent| u64::try_from(extent.as_constant()?).ok()).collect()
}

/// Returns the type of a value with these extents.
pub(super) fn typed(element: ElementType, dims: &[DimExpr], extents: &Extents) -> Option<Known> {
    let shape = dims.iter().map(|extent| Dim::from_expr(extent.clone())).collect();
    Known::within(&TensorType::new(element, shape), extents)
}

/// Returns the extents of a value, unless they are free.
pub(super) fn fixed<'k>(side: &'k Side<'_>, value: Value) -> Option<&'k Known> {
    side.known[value].as_deref().filter(|known| known.free.is_none())
}

/// Returns the extents of a value, simplified.
pub(super) fn dims(side: &Side<'_>, value: Value) -> Option<Vec<DimExpr>> {
    let all = side.known[value].as_ref()?.dim_exprs()?;
    Some(all.iter().map(|extent| side.extents.simplified(extent)).collect())
}

/// Returns the elements of a small tensor of integers that no caller can change, as expressions.
pub(super) fn elements(side: &Side<'_>, value: Value) -> Option<Vec<DimExpr>> {
    let all = side.elements(value)?.items.iter().map(Item::expr).collect::<Option<Vec<DimExpr>>>()?;
    Some(all.iter().map(|item| side.extents.simplified(item)).collect())
}

impl<'s> Numbering<'s> {
    /// Notes the node that makes a number first.
    pub(super) fn note(&mut self, number: u32, side: &'s Side<'s>, value: Value, by: Option<(usize, &Part)>) {
        if self.cuts.made.contains_key(&number) {
            return;
        }
        let Some(dims) = dims(side, value) else { return };
        let by = by.and_then(|(row, part)| {
            let data = side.module.node(side.rows[row].node);
            let is_alone = data.results().count() == 1 || depends::has_equal_rows(data);
            let result =
                data.outputs.iter().position(|result| *result == Some(value)).filter(|_| is_alone)?;
            Some(By { side, row, part: part.clone(), result })
        });
        self.cuts.made.insert(number, Made { dims, by, raw: None });
    }

    /// Notes the bytes of a constant.
    pub(super) fn note_constant(&mut self, number: u32, raw: &Raw) {
        let made = || Made { dims: expressions(&raw.dims), by: None, raw: Some(raw.clone()) };
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
        let (from, to) = (dims(side, first)?, dims(side, value)?);
        let number = *part.operands.first()?;
        let extents = side.extents;
        match &*data.operator.name {
            "Slice" => {
                let place = spans(side, row)?;
                self.select(number, &from, place, extents)
            }
            "Split" => {
                let axis = normalize_axis(data.int("axis", 0), from.len())?;
                let mut start = DimExpr::constant(0);
                for result in &data.outputs {
                    let own = dims(side, (*result)?)?;
                    let span = Span::from(start, own.get(axis)?, extents)?;
                    if *result == Some(value) {
                        let mut place = whole(&from);
                        span.is_of(&from[axis], extents).then_some(())?;
                        *place.get_mut(axis)? = span;
                        return self.select(number, &from, place, extents);
                    }
                    start = span.end;
                }
                None
            }
            "Gather" => {
                let axis = normalize_axis(data.int("axis", 0), from.len())?;
                let indices = data.inputs.get(1).copied().flatten()?;
                let own = &fixed(side, indices)?.dims;
                let (span, moved) = hull(&elements(side, indices)?, &from[axis], extents)?;
                let mut place = whole(&from);
                place[axis] = span;
                let cut = self.select(number, &from, place.clone(), extents)?;
                if own.is_empty() {
                    let element = side.known[first].as_ref()?.element;
                    let from = typed(element, &counts(&place, extents)?, extents)?;
                    return Some(self.reshape(cut, &from, &typed(element, &to, extents)?));
                }
                let counts =
                    moved.iter().enumerate().all(|(index, other)| i64::try_from(index) == Ok(*other));
                if own.len() == 1 && counts {
                    return Some(cut);
                }
                let indices = self.integers(own, &moved);
                Some(self.intern(Key::Result {
                    head: part.head,
                    operands: vec![cut, indices],
                    result: 0,
                    instance: None,
                }))
            }
            "GatherND" if data.int("batch_dims", 0) == 0 => {
                let indices = data.inputs.get(1).copied().flatten()?;
                let own = fixed(side, indices)?.dims.clone();
                let count =
                    usize::try_from(*own.last()?).ok().filter(|count| *count > 0 && *count <= from.len())?;
                let all = elements(side, indices)?;
                let (mut place, mut moved) = (whole(&from), vec![0; all.len()]);
                for (axis, kept) in place.iter_mut().enumerate().take(count) {
                    let column: Vec<DimExpr> = all.iter().skip(axis).step_by(count).cloned().collect();
                    let (span, others) = hull(&column, &from[axis], extents)?;
                    *kept = span;
                    moved.iter_mut().skip(axis).step_by(count).zip(others).for_each(|(to, from)| *to = from);
                }
                let cut = self.select(number, &from, place, extents)?;
                let indices = self.integers(&own, &moved);
                Some(self.intern(Key::Result {
                    head: part.head,
                    operands: vec![cut, indices],
                    result: 0,
                    instance: None,
                }))
            }
            "Concat" => {
                let axis = normalize_axis(data.int("axis", 1), to.len())?;
                self.joined(&part.operands, axis, extents)
                    .or_else(|| self.joined_bytes(&part.operands, axis))
                    .or_else(|| self.joined_results(&part.operands, axis))
            }
            _ => None,
        }
    }

    /// Returns the number of one row of a value, or of all positions along an axis that make up one row: its
    /// extent is a multiple of `batch`, and `before` is the number of rows before. Also returns the type of
    /// the row. `None` if there is no such axis, or more than one.
    pub(crate) fn row_of(
        &mut self,
        side: &Side<'_>,
        value: Value,
        number: u32,
        [batch, before]: [&DimExpr; 2],
    ) -> Option<(u32, Known)> {
        let extents = side.extents;
        let dims = dims(side, value)?;
        let mut multiples =
            dims.iter().enumerate().filter_map(|(axis, extent)| Some((axis, extent.div_exact(batch)?)));
        let (axis, times) = multiples.find(|(axis, _)| dims[*axis].as_constant() != Some(0))?;
        multiples.next().is_none().then_some(())?;
        let mut place = whole(&dims);
        place[axis] = Span::from(before.mul(&times)?, &times, extents)?;
        let ty = typed(side.known[value].as_ref()?.element, &counts(&place, extents)?, extents)?;
        Some((self.select(number, &dims, place, extents)?, ty))
    }

    /// Returns the number of a value of one row without the axis of rows.
    pub(crate) fn without_rows(&mut self, number: u32, row: &Known, extents: &Extents) -> Option<u32> {
        let dims = row.dim_exprs()?;
        let to = typed(row.element, dims.split_first()?.1, extents)?;
        Some(self.reshape(number, row, &to))
    }

    /// Returns the number of the joined parts of one value.
    pub(super) fn joined(&mut self, operands: &[u32], axis: usize, extents: &Extents) -> Option<u32> {
        let (base, mut place) = self.cuts.parts.get(operands.first()?)?.clone();
        for operand in &operands[1..] {
            let (other, next) = self.cuts.parts.get(operand).filter(|(other, _)| *other == base)?;
            let is_beside = next.len() == place.len()
                && (0..place.len()).all(|at| {
                    if at == axis { next[at].start == place[at].end } else { next[at] == place[at] }
                });
            (is_beside && *other == base).then_some(())?;
            place[axis].end = next[axis].end.clone();
        }
        let dims = self.cuts.made.get(&base)?.dims.clone();
        self.select(base, &dims, place, extents)
    }

    /// Returns the number of a constant of integers.
    fn integers(&mut self, dims: &[u64], numbers: &[i64]) -> u32 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(Content::Raw(Raw {
            element: ElementType::Int64,
            dims: dims.to_vec(),
            bytes: bytes.into(),
        }))
    }

    /// Returns the number of positions of a value with these extents; `None` if an end has too many terms.
    pub(super) fn select(
        &mut self,
        number: u32,
        dims: &[DimExpr],
        place: Place,
        extents: &Extents,
    ) -> Option<u32> {
        if place == whole(dims) {
            return Some(number);
        }
        let (base, place) = match self.cuts.parts.get(&number) {
            Some((base, held)) if held.len() == place.len() => {
                let moved = held.iter().zip(&place).map(|(held, own)| own.within(held, extents));
                (*base, moved.collect::<Option<_>>()?)
            }
            _ => (number, place),
        };
        let key = (base, place);
        if let Some(known) = self.cuts.known.get(&key) {
            return Some(*known);
        }
        let before = self.table.len() as u32;
        self.cuts.depth += 1;
        let moved = if self.cuts.depth <= DEPTH { self.moved(base, &key.1, extents) } else { None };
        self.cuts.depth -= 1;
        let found = moved.unwrap_or_else(|| self.intern(Key::Cut { base, place: key.1.clone() }));
        // A number that was there before has parts, or a node, of its own.
        if found >= before {
            self.cuts.parts.entry(found).or_insert_with(|| key.clone());
        }
        self.cuts.known.insert(key, found);
        Some(found)
    }

    /// Returns the number of positions of a value as what its node computes from positions of its operands.
    fn moved(&mut self, base: u32, place: &Place, extents: &Extents) -> Option<u32> {
        let made = self.cuts.made.get(&base)?.clone();
        let is_some = place
            .iter()
            .zip(&made.dims)
            .all(|(span, extent)| *span == Span::whole(extent) || span.is_some_of(extent, extents));
        (is_some && place.len() == made.dims.len()).then_some(())?;
        if let Some(raw) = &made.raw {
            let raw = cut_bytes(raw, place)?;
            return Some(self.constant(Content::Raw(raw)));
        }
        let by = made.by?;
        let data = by.side.module.node(by.side.rows[by.row].node);
        if self.joined.contains_key(&base) && !is_onnx(data, "Concat") {
            return self.moved_joined(base, place, extents);
        }
        if is_onnx(data, "Concat") {
            return self.moved_join(by.side, by.row, &by.part, place);
        }
        if is_onnx(data, "Pad") {
            return self.moved_pad(by.side, by.row, &by.part, place);
        }
        if let Some(moved) = self.moved_gather(by.side, by.row, &by.part, place) {
            return Some(moved);
        }
        self.moved_node(&by, (base, &made.dims), place)
    }

    /// Returns the number of positions of a Gather that leaves one position of an axis.
    fn moved_gather(&mut self, side: &'s Side<'s>, row: usize, part: &Part, place: &Place) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let (first, indices) = (*data.inputs.first()?, data.inputs.get(1).copied().flatten()?);
        let (from, extents) = (dims(side, first.filter(|_| is_onnx(data, "Gather"))?)?, side.extents);
        fixed(side, indices)?.dims.is_empty().then_some(())?;
        let axis = normalize_axis(data.int("axis", 0), from.len())?;
        let (span, _) = hull(&elements(side, indices)?, &from[axis], extents)?;
        (place.len() + 1 == from.len()).then_some(())?;
        let mut own = place.clone();
        own.insert(axis, span);
        let element = side.known[first?].as_ref()?.element;
        let from_cut = typed(element, &counts(&own, extents)?, extents)?;
        let to = typed(element, &counts(place, extents)?, extents)?;
        let cut = self.select(*part.operands.first()?, &from, own, extents)?;
        Some(self.reshape(cut, &from_cut, &to))
    }

    /// Returns the number of positions of values that a node joins.
    fn moved_join(&mut self, side: &'s Side<'s>, row: usize, joined: &Part, place: &Place) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let axis = normalize_axis(data.int("axis", 1), place.len())?;
        let part = |(operand, number): (&Option<Value>, &u32)| Some((*number, dims(side, (*operand)?)?));
        let parts: Vec<_> = data.inputs.iter().zip(&joined.operands).map(part).collect::<Option<_>>()?;
        self.moved_parts(axis, &parts, place, side.extents)
    }

    fn moved_pad(&mut self, side: &'s Side<'s>, row: usize, part: &Part, place: &Place) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let dims = dims(side, data.inputs.first().copied().flatten()?)?;
        let is_plain = data.inputs.len() <= 3 && data.ints("pads").is_none();
        let pads = side.integers(data.inputs.get(1).copied().flatten().filter(|_| is_plain)?)?;
        let is_constant = data.string("mode").unwrap_or("constant") == "constant";
        (pads.len() == 2 * dims.len() && pads.iter().all(|pad| *pad >= 0)).then_some(())?;
        let (mut own, mut left) = (place.clone(), pads.clone());
        for (axis, span) in place.iter().enumerate() {
            let (begin, end) = (pads[axis], pads[axis + dims.len()]);
            if begin == 0 && end == 0 {
                continue;
            }
            let (range, extent) = (span.known()?, dims[axis].as_constant()?);
            let (start, end) =
                (i64::try_from(range.start).ok()? - begin, i64::try_from(range.end).ok()? - begin);
            let (first, last) = (start.clamp(0, extent), end.clamp(0, extent));
            let (before, after) = ((-start).max(0), (end - extent).max(0));
            (first < last && (is_constant || before + after == 0)).then_some(())?;
            own[axis] = Span::fixed(u64::try_from(first).ok()?..u64::try_from(last).ok()?);
            (left[axis], left[axis + dims.len()]) = (before, after);
        }
        let cut = self.select(*part.operands.first()?, &dims, own, side.extents)?;
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
    fn moved_node(&mut self, by: &By<'s>, (base, result): (u32, &[DimExpr]), place: &Place) -> Option<u32> {
        let By { side, row, part, .. } = by;
        let (side, row) = (*side, *row);
        let node = side.rows[row].node;
        let data = side.module.node(node);
        if side.unrepeatable(row) || (self.cuts.moves == Moves::Exact && !depends::moves(data)) {
            return None;
        }
        let extents = side.extents;
        let operand_dims: Vec<Option<Vec<DimExpr>>> =
            data.inputs.iter().map(|value| value.and_then(|value| dims(side, value))).collect();
        let dims_of: Vec<Option<&[DimExpr]>> = operand_dims.iter().map(Option::as_deref).collect();
        let cut = Cut {
            node: data,
            opset: side.module.opsets.get("").copied().unwrap_or(0),
            operands: &dims_of,
            result,
            integers: data.inputs.get(1).copied().flatten().and_then(|value| side.integers(value)),
        };
        let mut reads: Vec<Option<Place>> = dims_of.iter().map(|dims| Some(whole((*dims)?))).collect();
        let (mut made, mut pads, mut stated) = (whole(result), None::<Vec<i64>>, None);
        for (axis, span) in
            place.iter().enumerate().filter(|(axis, span)| **span != Span::whole(&result[*axis]))
        {
            let Some(found) = depends::need(&cut, axis, span) else { continue };
            for (operand, own) in
                found.axes.iter().enumerate().filter_map(|(operand, own)| Some((operand, (*own)?)))
            {
                let under = found.window.as_ref().filter(|_| operand == 0).map(|(under, ..)| under);
                *reads.get_mut(operand)?.as_mut()?.get_mut(own)? = under.unwrap_or(span).clone();
            }
            if let Some((_, before, after)) = found.window {
                let (spatial, count) = (axis.checked_sub(2)?, result.len().checked_sub(2)?);
                let all = pads.get_or_insert_with(|| {
                    data.ints("pads").map_or_else(|| vec![0; 2 * count], <[i64]>::to_vec)
                });
                *all.get_mut(spatial)? = before;
                *all.get_mut(spatial + count)? = after;
            }
            stated = stated.or(found.stated);
            made[axis] = span.clone();
        }
        (made != whole(result)).then_some(())?;
        let mut operands = part.operands.clone();
        for (position, number) in operands.iter_mut().enumerate() {
            if let (Some(Some(dims)), Some(Some(place))) = (operand_dims.get(position), reads.get(position))
                && *number != ABSENT
            {
                *number = self.select(*number, dims, place.clone(), extents)?;
            }
        }
        let before = self.table.len() as u32;
        let number = if depends::reshapes(data) {
            let first = data.inputs.first().copied().flatten()?;
            let from =
                typed(side.known[first].as_ref()?.element, &counts(reads[0].as_ref()?, extents)?, extents)?;
            let to = typed(from.element, &counts(&made, extents)?, extents)?;
            self.reshape(operands[0], &from, &to)
        } else {
            if let Some(position) = stated.filter(|position| *position < operands.len()) {
                operands[position] = self.extents(counts(&made, extents)?)?;
            }
            let head = match pads {
                Some(pads) => {
                    self.head_with(side, row, &["pads", "auto_pad"], ("pads", Attribute::Ints(pads)))
                }
                None => part.head,
            };
            self.result(side, (row, by.result), head, operands)
        };
        if number >= before {
            self.cuts.parts.entry(number).or_insert_with(|| (base, made.clone()));
        }
        if made == *place {
            return Some(number);
        }
        let rest = place.iter().zip(&made).map(|(own, made)| own.counted_from(&made.start, extents));
        let rest: Place = rest.collect::<Option<_>>()?;
        Some(self.intern(Key::Cut { base: number, place: rest }))
    }

    /// Returns the number of a vector of extents.
    fn extents(&mut self, items: Vec<DimExpr>) -> Option<u32> {
        let dims = vec![items.len() as u64];
        let known = items.iter().map(DimExpr::as_constant).collect::<Option<Vec<i64>>>();
        match known {
            Some(known) => Some(self.integers(&dims, &known)),
            None => Some(self.intern(Key::Integers { element: ElementType::Int64, dims, items })),
        }
    }

    /// Returns the number of a small tensor of integers that follow free dimensions; `None` for other values.
    pub(super) fn symbolic(&mut self, side: &Side<'_>, value: Value) -> Option<u32> {
        let data = side.elements(value).filter(|data| data.element.is_integral())?;
        let (element, dims) = (data.element, data.dims.clone());
        let items = elements(side, value)?;
        items.iter().any(|item| item.as_constant().is_none()).then_some(())?;
        Some(self.intern(Key::Integers { element, dims, items }))
    }

    /// Returns the number of a row's operator and attributes, with another one in place of these.
    pub(super) fn head_with(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        left_out: &[&str],
        (name, new): (&str, Attribute),
    ) -> u32 {
        let data = side.module.node(side.rows[row].node);
        let kept = |(name, _): &&(String, Attribute)| !left_out.contains(&name.as_str());
        let mut attributes: Vec<(String, Attribute)> = data.attributes.iter().filter(kept).cloned().collect();
        attributes.push((name.to_owned(), new));
        let mut walk = Walk { side, model: 0, values: SecondaryMap::new(ABSENT) };
        self.head(&mut walk, data, memc_ops::lookup(&data.operator), &attributes, 0)
    }
}

/// Returns the known positions of each axis that a Slice with steps of 1 takes; `None` if they are unknown.
pub(crate) fn sliced(side: &Side<'_>, row: usize) -> Option<Vec<std::ops::Range<u64>>> {
    spans(side, row)?.iter().map(Span::known).collect()
}

/// Returns the positions of each axis that a Slice with steps of 1 takes; `None` if they are unknown.
pub(super) fn spans(side: &Side<'_>, row: usize) -> Option<Place> {
    let data = side.module.node(side.rows[row].node);
    let inputs = data.inputs.as_slice();
    let (from, to) = (dims(side, inputs.first().copied().flatten()?)?, dims(side, data.results().next()?)?);
    let stated = |name: &str, operand: usize| match inputs.get(operand).copied().flatten() {
        Some(value) => elements(side, value).map(Some),
        None => Some(
            data.ints(name)
                .map(|numbers| numbers.iter().map(|number| DimExpr::constant(*number)).collect::<Vec<_>>()),
        ),
    };
    let starts = stated("starts", 1)??;
    let axes = match stated("axes", 3)? {
        Some(axes) => axes
            .iter()
            .map(|axis| normalize_axis(axis.as_constant()?, from.len()))
            .collect::<Option<Vec<_>>>()?,
        None => (0..starts.len()).collect(),
    };
    let is_one = |step: &DimExpr| step.as_constant() == Some(1);
    (axes.len() == starts.len() && stated("steps", 4)?.is_none_or(|steps| steps.iter().all(is_one)))
        .then_some(())?;
    let mut place = whole(&from);
    for (axis, start) in axes.into_iter().zip(starts) {
        let extent = from.get(axis)?;
        let start = match (start.as_constant(), extent.as_constant()) {
            (Some(start), Some(extent)) => {
                let start = if start < 0 { start.checked_add(extent)? } else { start };
                DimExpr::constant(start.clamp(0, extent))
            }
            (Some(before), None) if before < 0 => extent.add(&start)?,
            _ => start,
        };
        let span = Span::from(start, to.get(axis)?, side.extents)?;
        span.is_of(extent, side.extents).then_some(())?;
        place[axis] = span;
    }
    (counts(&place, side.extents)? == to).then_some(place)
}

/// Returns the smallest span that holds all positions, and the positions counted from its first one.
fn hull(positions: &[DimExpr], extent: &DimExpr, extents: &Extents) -> Option<(Span, Vec<i64>)> {
    // Those that count from the end are negative: free positions must all count from one side.
    let from_end = |position: &DimExpr| position.as_constant().is_some_and(|position| position < 0);
    let at =
        |position: &DimExpr| if from_end(position) { position.add(extent) } else { Some(position.clone()) };
    let all: Vec<DimExpr> = positions.iter().map(at).collect::<Option<_>>()?;
    let first = all.first()?;
    let distances: Vec<i64> =
        all.iter().map(|position| position.sub(first)?.as_constant()).collect::<Option<_>>()?;
    let (least, most) = (*distances.iter().min()?, *distances.iter().max()?);
    let start = first.add(&DimExpr::constant(least))?;
    let span = Span::from(start, &DimExpr::constant(most.checked_sub(least)?.checked_add(1)?), extents)?;
    span.is_some_of(extent, extents)
        .then(|| (span, distances.into_iter().map(|distance| distance - least).collect()))
}

/// Returns the bytes of positions of a constant of whole bytes.
fn cut_bytes(raw: &Raw, place: &Place) -> Option<Raw> {
    let place: Vec<std::ops::Range<u64>> = place.iter().map(Span::known).collect::<Option<_>>()?;
    let bits = u64::from(raw.element.bits()?);
    let size = usize::try_from(bits / 8).ok().filter(|size| *size > 0 && bits % 8 == 0)?;
    let count = raw.dims.iter().try_fold(size as u64, |count, extent| count.checked_mul(*extent))?;
    (count == raw.bytes.len() as u64).then_some(())?;
    let last = (0..place.len()).rev().find(|axis| place[*axis] != (0..raw.dims[*axis]))?;
    let dims = place.iter().map(|range| range.end - range.start).collect();
    if count == 0 {
        return Some(Raw { element: raw.element, dims, bytes: raw.bytes.clone() });
    }
    // Lists of first bytes of ever smaller blocks.
    let (mut starts, mut block) = (vec![0usize], raw.bytes.len());
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
    Some(Raw { element: raw.element, dims, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use memc_ir::ElementType;

    use super::{Place, Raw, Span, cut_bytes};

    fn cut(dims: &[u64], bytes: &[u8], place: &[std::ops::Range<u64>]) -> Option<(Vec<u64>, Vec<u8>)> {
        let raw = Raw { element: ElementType::Uint8, dims: dims.to_vec(), bytes: bytes.to_vec().into() };
        let place: Place = place.iter().cloned().map(Span::fixed).collect();
        cut_bytes(&raw, &place).map(|cut| (cut.dims, cut.bytes.to_vec()))
    }

    #[test]
    fn parts_of_constants_are_blocks_of_their_bytes() {
        assert_eq!(cut(&[2, 3], &[1, 2, 3, 4, 5, 6], &[0..2, 1..3]), Some((vec![2, 2], vec![2, 3, 5, 6])));
        assert_eq!(cut(&[2, 3], &[1, 2, 3, 4, 5, 6], &[1..2, 0..3]), Some((vec![1, 3], vec![4, 5, 6])));
        // An axis without positions leaves no bytes to divide.
        assert_eq!(cut(&[0, 4, 2], &[], &[0..0, 2..4, 0..2]), Some((vec![0, 2, 2], vec![])));
        assert_eq!(cut(&[4, 0], &[], &[1..3, 0..0]), Some((vec![2, 0], vec![])));
    }
}
