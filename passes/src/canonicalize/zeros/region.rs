//! Regions of activations that share their channels: from products with constant weights, through nodes
//! that keep channels apart, to products that sum over them.

use std::collections::BTreeMap;

use memc_ir::{Node, SecondaryMap, Use, Value};
use memc_ops::{SplitAxes, lookup, normalize_axis};

use super::super::Walk;

/// Operators of ONNX that pool each channel of an image by itself, and give zero for zeros.
const POOLS: &[&str] = &["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"];

/// Relation of a node to the channels of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Makes the channels: a product or convolution with constant weights.
    Source,
    /// Computes each element from the elements at that position.
    Elements,
    /// Reduces or reshapes each channel by itself; zeros stay zero.
    Channels,
    /// Convolves each channel with a filter of its own.
    Depthwise,
    /// Sums over the channels: a product or convolution with constant weights.
    Reader,
}

/// A constant operand of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Position of the operand.
    pub(super) position: usize,
    /// Axis of the constant along the channels; `None` if one number serves all channels.
    pub(super) axis: Option<usize>,
}

/// A node of a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) kind: Kind,
    pub(super) parts: Vec<Part>,
}

/// A region: all values that share the channels, with their channel axes, and all nodes around them.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) channels: usize,
    pub(super) axes: BTreeMap<Value, usize>,
    /// Nodes in graph order.
    pub(super) members: Vec<(Node, Member)>,
}

impl Region {
    pub(super) fn has(&self, node: Node) -> bool {
        self.members.iter().any(|(member, _)| *member == node)
    }
}

/// Returns the result of a node that makes channels.
pub(super) fn source(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Value> {
    let result = walk.maker.only_result(node)?;
    maker(walk, node, result).map(|_| result)
}

/// Grows the region around a value and marks its values as seen. `None` if a value of the region is read
/// or made by a node that mixes channels in another way, or must keep its name.
pub(super) fn around(
    walk: &Walk<'_, '_, '_>,
    from: Value,
    seen: &mut SecondaryMap<Value, bool>,
    stays: &SecondaryMap<Node, bool>,
) -> Option<Region> {
    let node = walk.module().producer(from)?;
    let (axis, _) = maker(walk, node, from)?;
    let channels = extent(walk, from, axis)?;
    let mut growth = Growth {
        walk,
        stays,
        channels,
        axes: BTreeMap::new(),
        members: BTreeMap::new(),
        open: Vec::new(),
        whole: true,
    };
    growth.add(from, axis);
    // Grow on after a failure: no other value of this region need be examined again.
    while let Some((value, axis)) = growth.open.pop() {
        seen.set(value, true);
        growth.value(value, axis);
    }
    let Growth { axes, members, whole, .. } = growth;
    // A product that reads and makes channels of one region would need weights cut along both axes.
    let is_apart = |(node, member): (&Node, &Member)| {
        let allowed = |(position, operand): (usize, &Option<Value>)| match member.kind {
            Kind::Source | Kind::Reader => {
                let inside = operand.is_some_and(|value| axes.contains_key(&value));
                inside == (member.kind == Kind::Reader && position == 0)
            }
            _ => true,
        };
        walk.module().node(*node).inputs.iter().enumerate().all(allowed)
    };
    if !whole
        || !members.iter().all(is_apart)
        || channels < 2
        || !members.values().any(|member| member.kind == Kind::Reader)
    {
        return None;
    }
    let place: BTreeMap<Node, usize> = walk
        .module()
        .graph(walk.module().main())
        .nodes
        .iter()
        .enumerate()
        .map(|(place, node)| (*node, place))
        .collect();
    let mut members: Vec<(Node, Member)> = members.into_iter().collect();
    members.sort_by_key(|(node, _)| place.get(node).copied());
    Some(Region { channels: usize::try_from(channels).ok()?, axes, members })
}

struct Growth<'a, 'm, 'c, 'o> {
    walk: &'a Walk<'m, 'c, 'o>,
    stays: &'a SecondaryMap<Node, bool>,
    channels: u64,
    axes: BTreeMap<Value, usize>,
    members: BTreeMap<Node, Member>,
    open: Vec<(Value, usize)>,
    /// Whether the region is closed so far.
    whole: bool,
}

impl Growth<'_, '_, '_, '_> {
    /// Adds a value with its channel axis.
    fn add(&mut self, value: Value, axis: usize) {
        match self.axes.insert(value, axis) {
            None => self.open.push((value, axis)),
            Some(known) => self.whole &= known == axis,
        }
    }

    /// Adds the node that makes a value, and all its readers.
    fn value(&mut self, value: Value, axis: usize) {
        let walk = self.walk;
        self.whole &= extent(walk, value, axis) == Some(self.channels) && !walk.maker.is_pinned(value);
        let made = walk.module().producer(value).filter(|node| walk.maker.only_result(*node) == Some(value));
        let Some(node) = made else {
            self.whole = false;
            return;
        };
        match maker(walk, node, value) {
            Some((own, parts)) if own == axis => self.member(node, Kind::Source, parts),
            _ => self.inner(node, value, axis),
        }
        for site in walk.maker.uses(value) {
            let Use::Operand(reader, position) = *site else { continue };
            if self.members.contains_key(&reader) {
                continue;
            }
            match reads(walk, reader, value, position as usize, axis) {
                Some(parts) => self.member(reader, Kind::Reader, parts),
                None => self.inner(reader, value, axis),
            }
        }
    }

    fn member(&mut self, node: Node, kind: Kind, parts: Vec<Part>) {
        let data = self.walk.module().node(node);
        self.whole &= !self.stays[node] && data.graph == self.walk.module().main();
        self.members.insert(node, Member { kind, parts });
    }

    /// Adds a node within the region, and the values that it reads and makes. `value` is one of them.
    fn inner(&mut self, node: Node, value: Value, axis: usize) {
        if self.members.contains_key(&node) {
            return;
        }
        let found = inside(self.walk, node, value, axis, self.channels);
        let Some((member, values)) = found else {
            self.whole = false;
            return;
        };
        self.member(node, member.kind, member.parts);
        for (value, axis) in values {
            self.add(value, axis);
        }
    }
}

/// Returns the extent of a value along an axis, if it is known.
fn extent(walk: &Walk<'_, '_, '_>, value: Value, axis: usize) -> Option<u64> {
    walk.module().ty(value).tensor()?.shape.as_ref()?.get(axis)?.known()
}

fn rank(walk: &Walk<'_, '_, '_>, value: Value) -> Option<usize> {
    walk.module().ty(value).tensor()?.rank()
}

fn constant_rank(walk: &Walk<'_, '_, '_>, node: Node, position: usize) -> Option<usize> {
    let value = walk.maker.operand(node, position).filter(|value| walk.constant_id(*value).is_some())?;
    rank(walk, value)
}

/// Returns the channel axis of a product's result and the constants that make its channels.
fn maker(walk: &Walk<'_, '_, '_>, node: Node, result: Value) -> Option<(usize, Vec<Part>)> {
    let last = rank(walk, result)?.checked_sub(1)?;
    let data = walk.module().node(node);
    let weights = constant_rank(walk, node, 1)?;
    match walk.name(node) {
        "MatMul" if weights == 2 && rank(walk, walk.maker.operand(node, 0)?)? >= 2 => {
            Some((last, vec![Part { position: 1, axis: Some(1) }]))
        }
        "Gemm" if data.operator.version >= 7 => {
            let mut parts = vec![Part { position: 1, axis: Some(usize::from(data.int("transB", 0) == 0)) }];
            if walk.maker.operand(node, 2).is_some() {
                parts.push(broadcast(walk, node, 2, 2, 1, extent(walk, result, 1)?)?);
            }
            Some((1, parts))
        }
        "Conv" if data.int("group", 1) == 1 => {
            let mut parts = vec![Part { position: 1, axis: Some(0) }];
            if walk.maker.operand(node, 2).is_some() {
                constant_rank(walk, node, 2).filter(|rank| *rank == 1)?;
                parts.push(Part { position: 2, axis: Some(0) });
            }
            Some((1, parts))
        }
        _ => None,
    }
}

/// Returns the weights of a product that sums over the channels of `value`, its operand 0 only.
fn reads(
    walk: &Walk<'_, '_, '_>,
    node: Node,
    value: Value,
    position: usize,
    axis: usize,
) -> Option<Vec<Part>> {
    let data = walk.module().node(node);
    let (weights, rank) = (constant_rank(walk, node, 1)?, rank(walk, value)?);
    let once = data.operands().filter(|operand| *operand == value).count() == 1;
    if position != 0 || !once {
        return None;
    }
    let axis = match walk.name(node) {
        "MatMul" if weights == 2 && rank >= 2 && axis + 1 == rank => 0,
        "Gemm" if axis == 1 && data.int("transA", 0) == 0 => usize::from(data.int("transB", 0) != 0),
        "Conv" if axis == 1 && data.int("group", 1) == 1 => 1,
        _ => return None,
    };
    Some(vec![Part { position: 1, axis: Some(axis) }])
}

/// Returns a constant operand that broadcasts to `rank` axes, with its own channel axis.
fn broadcast(
    walk: &Walk<'_, '_, '_>,
    node: Node,
    position: usize,
    rank: usize,
    axis: usize,
    channels: u64,
) -> Option<Part> {
    let value = walk.maker.operand(node, position)?;
    let dims = walk.module().constant(walk.constant_id(value)?).ty.known_dims()?;
    let missing = rank.checked_sub(dims.len())?;
    let own = axis.checked_sub(missing).filter(|own| dims[*own] != 1);
    own.is_none_or(|own| dims[own] == channels).then_some(Part { position, axis: own })
}

/// A node inside a region, with the axis of the channels of each of its values in the region.
type Inner = (Member, Vec<(Value, usize)>);

/// Returns a node that keeps the channels apart, with its values in the region.
fn inside(walk: &Walk<'_, '_, '_>, node: Node, value: Value, axis: usize, channels: u64) -> Option<Inner> {
    let result = walk.maker.only_result(node)?;
    let data = walk.module().node(node);
    if data.bodies().next().is_some() {
        return None;
    }
    let first = walk.maker.operand(node, 0)?;
    match walk.name(node) {
        name if POOLS.contains(&name) && axis == 1 => {
            Some((Member { kind: Kind::Channels, parts: Vec::new() }, vec![(first, 1), (result, 1)]))
        }
        "Flatten" if axis == 1 => {
            let shape = walk.module().ty(first).tensor()?.shape.clone()?;
            let flat = normalize_axis(data.int("axis", 1), shape.len())? == 1;
            let plain = shape.iter().skip(2).all(|extent| extent.known() == Some(1));
            (flat && plain)
                .then(|| (Member { kind: Kind::Channels, parts: Vec::new() }, vec![(first, 1), (result, 1)]))
        }
        "Conv" if axis == 1 && data.int("group", 1) == channels as i64 => {
            let weights =
                walk.module().constant(walk.constant_id(walk.maker.operand(node, 1)?)?).ty.known_dims()?;
            (weights.first() == Some(&channels) && weights.get(1) == Some(&1)).then_some(())?;
            let mut parts = vec![Part { position: 1, axis: Some(0) }];
            if walk.maker.operand(node, 2).is_some() {
                constant_rank(walk, node, 2)?;
                parts.push(Part { position: 2, axis: Some(0) });
            }
            Some((Member { kind: Kind::Depthwise, parts }, vec![(first, 1), (result, 1)]))
        }
        _ => elements(walk, node, value, axis, channels),
    }
}

/// Returns an element-wise node with its values in the region.
fn elements(walk: &Walk<'_, '_, '_>, node: Node, value: Value, axis: usize, channels: u64) -> Option<Inner> {
    let data = walk.module().node(node);
    let info = lookup(&data.operator)?;
    let is_element_wise =
        matches!(info.split, SplitAxes::All) && !info.moves_elements() && info.algebra.is_some();
    let (result, rank) = (walk.maker.only_result(node).filter(|_| is_element_wise)?, rank(walk, value)?);
    let mut parts = Vec::new();
    let mut values = vec![(result, axis)];
    for (position, operand) in data.inputs.iter().enumerate() {
        let Some(operand) = *operand else { continue };
        if walk.constant_id(operand).is_some() {
            parts.push(broadcast(walk, node, position, rank, axis, channels)?);
        } else {
            values.push((operand, axis));
        }
    }
    let alike = |(value, _): &(Value, usize)| self::rank(walk, *value) == Some(rank);
    values.iter().all(alike).then_some((Member { kind: Kind::Elements, parts }, values))
}
