//! Parts of a batch: which nodes of a step compute each part by themselves, which ones run once, and how
//! values of parts make those of the whole.
//!
//! The operator table says what a node computes from pieces of its operands. A node that the table cannot
//! follow runs once, on sums over all parts.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Node, Payload, Value};
use memc_ops::{Linear, Piece, Pieces, Share, Typed, lookup, pieces_giving, pieces_in_blocks};

use super::super::graph::Graph;
use crate::split_error::SplitError;

/// What runs before all parts makes at most 1/16 of the bytes that all nodes make.
const SMALL: u64 = 16;

/// The division of a step into equal parts of its batch.
#[derive(Clone, Debug, Default)]
pub(in crate::sections) struct Parts {
    /// Number of parts.
    pub count: u64,
    /// The piece of each value that differs from part to part.
    pub pieces: BTreeMap<String, Piece>,
    /// Nodes that run once a part.
    pub nodes: BTreeSet<usize>,
    /// Nodes that run once, after all parts.
    pub late: BTreeSet<usize>,
    /// Results with equal positions along an axis, and constants with equal shares, of which each part makes
    /// or has its share.
    pub repeated: BTreeMap<String, usize>,
    /// Values that are made once, before all parts, and that parts read: whole, or a share each.
    pub given: BTreeSet<String>,
    /// For nodes that state the extents of their result: position of that operand, and the result.
    pub stated: BTreeMap<usize, (usize, String)>,
}

/// Follows the batch through a step.
///
/// # Errors
/// No graph input has a batch of so many equal parts, or a node needs the whole batch.
pub(in crate::sections) fn parts(graph: &Graph<'_>, count: u64) -> Result<Parts, SplitError> {
    let mut batches: BTreeMap<u64, usize> = BTreeMap::new();
    let first = |name: &String| graph.tensors.get(name).and_then(|tensor| tensor.shape.first().copied());
    graph.inputs.iter().filter_map(first).for_each(|batch| *batches.entry(batch).or_default() += 1);
    let mut candidates: Vec<(usize, u64)> = batches.iter().map(|(batch, inputs)| (*inputs, *batch)).collect();
    candidates.sort_by(|one, other| other.cmp(one));
    let divisible = candidates.iter().filter(|(_, batch)| *batch > 0 && batch.is_multiple_of(count));
    let mut refusal = None;
    for (_, batch) in divisible {
        match Walk::new(graph, count, *batch).settled() {
            Ok(parts) => return Ok(parts),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let batch = candidates.first().map(|(_, batch)| *batch);
    Err(refusal.unwrap_or(SplitError::Batch { parts: count, batch }))
}

/// A walk over the nodes in order.
struct Walk<'g> {
    graph: &'g Graph<'g>,
    count: u64,
    batch: u64,
    /// Values that parts need whole, and that follow from graph inputs: made before all parts.
    prepared: BTreeSet<String>,
    repeated: BTreeMap<String, usize>,
    /// Values that are made before all parts, and of which each part takes its share along an axis.
    shared: BTreeMap<String, usize>,
}

/// How one walk over all nodes ends.
enum End {
    Settled(Parts),
    /// Another value is prepared or repeated: the walk starts again.
    Again,
}

impl<'g> Walk<'g> {
    fn new(graph: &'g Graph<'g>, count: u64, batch: u64) -> Self {
        Self {
            graph,
            count,
            batch,
            prepared: BTreeSet::new(),
            repeated: BTreeMap::new(),
            shared: BTreeMap::new(),
        }
    }

    /// Walks until nothing changes, and rejects nodes that need the whole batch.
    fn settled(mut self) -> Result<Parts, SplitError> {
        let mut found = loop {
            if let End::Settled(parts) = self.walk() {
                break parts;
            }
        };
        self.retract(&mut found);
        for &unit in &found.late {
            let item = &self.graph.units[unit];
            if let Some(name) =
                item.reads.iter().find(|name| found.pieces.get(*name).is_some_and(|piece| !piece.is_added()))
            {
                return Err(SplitError::Undivided { node: self.graph.title(unit), value: name.clone() });
            }
        }
        let joins = |piece: Piece| piece.is_added() || matches!(piece, Piece::Along(_));
        let output = self
            .graph
            .outputs
            .iter()
            .find(|name| found.pieces.get(*name).is_some_and(|piece| !joins(*piece)));
        match output {
            Some(name) => Err(SplitError::Unjoined { name: name.clone() }),
            None => Ok(found),
        }
    }

    fn walk(&mut self) -> End {
        let graph = self.graph;
        let mut found = Parts {
            count: self.count,
            repeated: self.repeated.clone(),
            given: self.prepared.iter().chain(self.shared.keys()).cloned().collect(),
            ..Parts::default()
        };
        for name in &graph.inputs {
            if graph.tensors.get(name).is_some_and(|tensor| tensor.shape.first() == Some(&self.batch)) {
                found.pieces.insert(name.clone(), Piece::Along(0));
            }
        }
        let constants = self.repeated.iter().filter(|(name, _)| !graph.maker.contains_key(*name));
        found.pieces.extend(constants.map(|(name, axis)| (name.clone(), Piece::Along(*axis))));
        for &unit in &graph.order {
            let item = &graph.units[unit];
            // Integers that follow from the extents are constants of sections, and may be pieces.
            let is_needed = graph.needed.contains(&unit);
            if !is_needed && !item.makes.iter().all(|name| graph.known.contains_key(name)) {
                continue;
            }
            if let Some((name, axis)) =
                item.makes.iter().find_map(|name| Some((name, *self.shared.get(name)?)))
            {
                found.pieces.insert(name.clone(), Piece::Along(axis));
                continue;
            }
            if let Some((name, axis)) =
                item.makes.iter().find_map(|name| Some((name, *self.repeated.get(name)?)))
            {
                found.pieces.insert(name.clone(), Piece::Along(axis));
                found.nodes.extend(is_needed.then_some(unit));
                found.stated.insert(unit, (usize::from(operator(graph, unit) == "Expand"), name.clone()));
                continue;
            }
            let is_prepared = item.makes.iter().any(|name| self.prepared.contains(name));
            let all = item.reads.iter().chain(&item.known).chain(&item.weights);
            if is_prepared
                || !all
                    .into_iter()
                    .any(|name| found.pieces.contains_key(name) || is_late(graph, &found, name))
            {
                continue;
            }
            match self.node(unit, &found) {
                Verdict::Part(pieces, names) => take(graph, unit, &pieces, &names, &mut found),
                Verdict::Again => return End::Again,
                Verdict::Once => found.late.extend(is_needed.then_some(unit)),
            }
        }
        End::Settled(found)
    }

    /// Decides on a node that reads values of parts.
    fn node(&mut self, unit: usize, found: &Parts) -> Verdict {
        let graph = self.graph;
        let Some((node, inputs)) = single(graph, unit) else { return Verdict::Once };
        let piece = |name: &Option<String>| name.as_ref().and_then(|name| found.pieces.get(name)).copied();
        let given: Vec<Piece> = inputs.iter().map(|name| piece(name).unwrap_or(Piece::Whole)).collect();
        let typed = Typed::of(&graph.module, node);
        let ask = |operands: &[Piece]| pieces_in_blocks(Share { node: typed, operands, parts: self.count });
        let plain = |operands: &[Piece]| ask(operands).filter(|pieces| is_plain(graph, node, pieces));
        // What exists only after all parts may be small, and follow from graph inputs: then it is made
        // before.
        let late: Vec<String> =
            inputs.iter().flatten().filter(|name| is_late(graph, found, name)).cloned().collect();
        let whole: Vec<Piece> =
            given.iter().map(|piece| if piece.is_added() { Piece::Whole } else { *piece }).collect();
        let added = inputs.iter().zip(&given).filter(|(_, piece)| piece.is_added());
        let added: Vec<String> = added.filter_map(|(name, _)| name.clone()).collect();
        let pieces = plain(&given);
        let pieces = match pieces {
            Some(pieces) if late.is_empty() => pieces,
            Some(_) => return self.prepare(late),
            None if plain(&whole).is_some() => return self.prepare([late, added].concat()),
            None => return Verdict::Once,
        };
        // Shares of values that all parts have whole.
        for ((name, given), asked) in inputs.iter().zip(&given).zip(&pieces.operands) {
            if let (Some(name), Piece::Along(axis), true) = (name, asked, given != asked) {
                let mut more = BTreeMap::new();
                let before = self.repeated.len() + self.shared.len();
                if self.demand(name, *axis, &mut more, 0) {
                    self.repeated.extend(more);
                } else if graph.maker.get(name).is_some_and(|maker| graph.needed.contains(maker)) {
                    self.shared.insert(name.clone(), *axis);
                }
                let has_more = self.repeated.len() + self.shared.len() > before;
                return if has_more { Verdict::Again } else { Verdict::Once };
            }
        }
        let names = graph
            .module
            .node(node)
            .outputs
            .iter()
            .map(|value| value.map(|value| named(graph, value)))
            .collect();
        Verdict::Part(Box::new(pieces), names)
    }

    /// Prepares values before all parts, if they are small.
    fn prepare(&mut self, names: Vec<String>) -> Verdict {
        if names.iter().all(|name| self.is_small(name)) {
            self.prepared.extend(names);
            return Verdict::Again;
        }
        Verdict::Once
    }

    /// Whether parts can make their share of a whole value; collects the values to repeat.
    fn demand(&self, name: &str, axis: usize, more: &mut BTreeMap<String, usize>, depth: usize) -> bool {
        let graph = self.graph;
        let Some(&unit) = graph.maker.get(name) else {
            let has_share = constant_share(graph, name, axis, self.count).is_some();
            return has_share && more.insert(name.to_owned(), axis).is_none_or(|other| other == axis);
        };
        let Some((node, inputs)) = single(graph, unit).filter(|_| depth < graph.units.len()) else {
            return false;
        };
        let typed = Typed::of(&graph.module, node);
        if is_repeated(typed, axis) {
            return more.insert(name.to_owned(), axis).is_none_or(|other| other == axis);
        }
        let ask = |operands: &[Piece]| {
            let found = pieces_in_blocks(Share { node: typed, operands, parts: self.count })?;
            is_plain(graph, node, &found).then_some(found)
        };
        let Some(pieces) = pieces_giving(typed, axis, ask) else { return false };
        inputs.iter().zip(&pieces.operands).all(|(name, piece)| match (name, piece) {
            (Some(name), Piece::Along(axis)) => self.demand(name, *axis, more, depth + 1),
            _ => true,
        })
    }

    /// Whether the nodes that a value needs make little.
    fn is_small(&self, name: &str) -> bool {
        let bytes = |name: &String| self.graph.tensors.get(name).map_or(u64::MAX / 4, |tensor| tensor.bytes);
        let needed = self.graph.ancestors(name);
        if needed.iter().any(|unit| !self.graph.units[*unit].repeats) {
            return false;
        }
        let made = |units: &BTreeSet<usize>| -> u64 {
            units
                .iter()
                .flat_map(|unit| &self.graph.units[*unit].makes)
                .map(bytes)
                .fold(0, u64::saturating_add)
        };
        made(&needed) <= made(&self.graph.needed) / SMALL
    }

    /// Moves linear nodes behind the sum of their operands if no part reads their result. Graph outputs of
    /// one operand stay in the parts: both sums have equal bytes.
    fn retract(&self, found: &mut Parts) {
        let mut read: BTreeSet<&str> = BTreeSet::new();
        for &unit in self.graph.order.iter().rev().filter(|unit| self.graph.needed.contains(unit)) {
            let item = &self.graph.units[unit];
            if !found.nodes.contains(&unit) {
                continue;
            }
            let is_added = |name: &String| found.pieces.get(name).is_some_and(|piece| piece.is_added());
            let is_linear = single(self.graph, unit).is_some_and(|(node, inputs)| {
                let info = lookup(&self.graph.module.node(node).operator);
                let first = inputs.first().and_then(Option::as_ref).is_some_and(is_added);
                match info.map(|info| info.linear) {
                    Some(Linear::First) => {
                        first && !item.makes.iter().any(|name| self.graph.outputs.contains(name))
                    }
                    // Gradients of a shared parameter, perhaps of devices far apart.
                    Some(Linear::All) => inputs.len() > 1 && inputs.iter().flatten().all(is_added),
                    _ => false,
                }
            });
            if is_linear && item.makes.iter().all(|name| !read.contains(name.as_str())) {
                found.nodes.remove(&unit);
                found.stated.remove(&unit);
                found.late.insert(unit);
                item.makes.iter().for_each(|name| _ = found.pieces.remove(name));
                continue;
            }
            read.extend(item.reads.iter().map(String::as_str));
        }
    }
}

/// Whether a value exists only after all parts.
fn is_late(graph: &Graph<'_>, found: &Parts, name: &str) -> bool {
    graph.maker.get(name).is_some_and(|maker| found.late.contains(maker))
}

/// What becomes of a node.
enum Verdict {
    /// It runs once a part; names of its results.
    Part(Box<Pieces>, Vec<Option<String>>),
    /// It runs once, after all parts.
    Once,
    /// The walk starts again.
    Again,
}

/// Bytes of the share of each part of a constant along an axis, if all parts have the same one. The file must
/// hold the bytes.
pub(super) fn constant_share(graph: &Graph<'_>, name: &str, axis: usize, parts: u64) -> Option<Vec<u8>> {
    let constants = graph.module.values().iter().filter(|(_, data)| data.name == name);
    let constant = constants.into_iter().find_map(|(value, _)| graph.module.constant_of(value))?;
    let constant = graph.module.constant(constant);
    let Payload::Raw(bytes) = &constant.payload else { return None };
    let dims = constant.ty.known_dims()?;
    let extent = dims.get(axis).filter(|extent| **extent > 0 && extent.is_multiple_of(parts))?;
    let rows = dims[..axis].iter().product::<u64>().checked_mul(*extent)?;
    let row = bytes.len().checked_div(usize::try_from(rows).ok()?)?;
    let (block, share) =
        (row.checked_mul(usize::try_from(*extent).ok()?)?, usize::try_from(extent / parts).ok()? * row);
    let is_equal = |block: &[u8]| block.chunks_exact(share).all(|one| one == &block[..share]);
    let has_shares = share > 0 && bytes.chunks_exact(block).all(is_equal);
    has_shares.then(|| bytes.chunks_exact(block).flat_map(|block| &block[..share]).copied().collect())
}

fn take(graph: &Graph<'_>, unit: usize, pieces: &Pieces, names: &[Option<String>], found: &mut Parts) {
    for (name, piece) in names.iter().zip(&pieces.results) {
        if let Some(name) = name.as_ref().filter(|_| *piece != Piece::Whole) {
            found.pieces.insert(name.clone(), *piece);
        }
    }
    if let (Some(position), Some(result)) = (pieces.extents, graph.units[unit].makes.first()) {
        found.stated.insert(unit, (position, result.clone()));
    }
    found.nodes.extend(graph.needed.contains(&unit).then_some(unit));
}

/// The only node of the module that a node of the file became, and the names of its operands.
fn single(graph: &Graph<'_>, unit: usize) -> Option<(Node, Vec<Option<String>>)> {
    let [node] = graph.units[unit].nodes[..] else { return None };
    let data = graph.module.node(node);
    let names = data.inputs.iter().map(|value| value.map(|value| named(graph, value))).collect();
    let is_itself = graph.file.graph().node[unit].op_type() == &*data.operator.name;
    is_itself.then_some((node, names))
}

fn named(graph: &Graph<'_>, value: Value) -> String {
    graph.module.value(value).name.clone()
}

fn operator<'g>(graph: &'g Graph<'_>, unit: usize) -> &'g str {
    graph.file.graph().node.get(unit).map_or("", |node| node.op_type())
}

/// Whether all parts can have the same node: only the operand that states extents changes.
fn is_plain(graph: &Graph<'_>, node: Node, pieces: &Pieces) -> bool {
    let data = graph.module.node(node);
    let is_given = |index: &usize| data.inputs.get(*index).is_some_and(Option::is_some);
    let has_last = data.attributes.iter().any(|(name, _)| pieces.in_last.contains(&name.as_str()));
    pieces.divided.is_none() && pieces.count.is_none() && !pieces.in_first.iter().any(is_given) && !has_last
}

/// Whether all positions of a node's result along an axis are equal, and the node states its extents.
fn is_repeated(node: Typed<'_>, axis: usize) -> bool {
    match &*node.data().operator.name {
        "ConstantOfShape" => true,
        "Expand" => {
            let (from, to) = (node.input_dims(0), node.output_dims(0));
            from.zip(to).is_some_and(|(from, to)| match (axis + from.len()).checked_sub(to.len()) {
                Some(own) => from.get(own) == Some(&1),
                None => true,
            })
        }
        _ => false,
    }
}
