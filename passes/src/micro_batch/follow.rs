//! Nodes of the main graph that can be computed in parts of the batch, found by following graph inputs
//! forward.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Module, Node, SecondaryMap, Use, Value, uses};
use memc_ops::{Linear, Piece, Pieces, Profile, feeds_unrepeatable, lookup};

use super::division::{Batch, Division, bytes, dims};
use super::drawn::{Drawn, drawn};
use crate::parts::{Divided, Probes, Unrounded};

/// Values that parts need whole are computed whole only if they take at most 1/16 of the largest divided
/// value. An example is the count of labels that divides each part's gradient.
const WHOLE: u64 = 16;

/// Result of a walk.
#[derive(Clone, Debug)]
struct Found {
    divided: Divided,
    /// Nodes that read, directly or not, results of parts.
    late: SecondaryMap<Node, bool>,
    /// Total bytes of all values that are divided into shares of a batch.
    bytes: u64,
}

/// Returns the nodes that can be computed in `parts` parts of a batch, or `None` if no node can.
///
/// A batch is the first extent of a graph input without a default (inputs with a default are weights): a
/// multiple of the parts, or a symbol if the run can compute extents.
/// Of several batches, the one with the most dependent bytes wins.
pub(super) fn divided(module: &Module, profile: &Profile, parts: u64) -> Option<Divided> {
    let (unrounded, probes) = (Unrounded::of(module, profile), Probes::of(module));
    let mut batches: BTreeMap<Batch, Vec<Value>> = BTreeMap::new();
    for input in
        module.graph(module.main()).inputs.iter().filter(|input| module.value(**input).default.is_none())
    {
        if let Some(batch) = Batch::of(dims(module, *input), parts, &module.domain().ranges) {
            batches.entry(batch).or_default().push(*input);
        }
    }
    let found = batches.iter().flat_map(|(batch, inputs)| {
        let division = Division::of(module, profile, &probes, batch, parts);
        let drawn = drawn(&division);
        let without = settled(&division, &unrounded, inputs, Drawn::default());
        let with = (!drawn.values.is_empty()).then(|| settled(&division, &unrounded, inputs, drawn));
        [without].into_iter().chain(with)
    });
    found.max_by_key(|found| found.bytes).filter(|found| found.bytes > 0).map(|found| found.divided)
}

/// Returns the bytes held between any two parts: sums of the parts' results that readers outside the
/// parts need.
pub(super) fn held(module: &Module, divided: &Divided) -> u64 {
    let is_needed = needed_whole(module, divided);
    let sums = divided.values.iter().filter(|(value, piece)| piece.is_added() && is_needed(**value));
    sums.fold(0u64, |sum, (value, _)| sum.saturating_add(bytes(module, *value)))
}

/// Repeats the walk until its result is stable.
///
/// After the walk, every small value that parts need whole is computed whole, and no part begins or ends
/// at a value that the runtime would round differently.
fn settled(division: &Division<'_>, unrounded: &Unrounded, inputs: &[Value], drawn: Drawn) -> Found {
    let module = division.module;
    let mut whole = drawn.whole;
    let mut kept = feeds_unrepeatable(module, &module.graph(module.main()).nodes);
    loop {
        let mut follow = Follow {
            module,
            division,
            kept: &kept,
            shares: inputs.iter().chain(&drawn.values).map(|value| (*value, 0)).collect(),
            whole: &whole,
            found: Found {
                divided: Divided::among(division.shares()),
                late: SecondaryMap::default(),
                bytes: 0,
            },
            largest: 0,
            missing: None,
        };
        follow.run();
        let (mut found, largest) = (follow.found, follow.largest);
        let cone = follow.missing.map(|value| cone(module, value, &found));
        if let Some(cone) = cone.filter(|cone| bytes_of(module, cone) <= largest / WHOLE) {
            whole.extend(cone);
            continue;
        }
        let mut unjoined = unjoined(module, &found.divided);
        unjoined.extend(unrounded.torn(&found.divided.nodes));
        if unjoined.is_empty() {
            retract(module, &mut found);
            return found;
        }
        unjoined.into_iter().for_each(|node| kept.set(node, true));
    }
}

/// One forward walk over the main graph.
struct Follow<'m> {
    module: &'m Module,
    division: &'m Division<'m>,
    /// Nodes that stay unchanged: their results distinguish random numbers, or a reader outside the
    /// parts needs shares that cannot be joined.
    kept: &'m SecondaryMap<Node, bool>,
    /// Whole values and the axis along which their batch shares are cut: graph inputs, random values,
    /// and values computed whole from them.
    shares: BTreeMap<Value, usize>,
    /// Nodes that are computed whole.
    whole: &'m BTreeSet<Node>,
    found: Found,
    /// Bytes of the largest divided value.
    largest: u64,
    /// The first value that a part needs whole and that exists only after all parts.
    missing: Option<Value>,
}

impl Follow<'_> {
    fn run(&mut self) {
        for node in &self.module.graph(self.module.main()).nodes {
            let pieces = if self.kept[*node] { None } else { self.pieces(*node) };
            let pieces = pieces.filter(|pieces| !self.is_less_whole(*node, pieces));
            match pieces {
                Some(pieces) if self.whole.contains(node) => self.share(*node, &pieces),
                Some(pieces) => self.take(*node, pieces),
                None => self
                    .found
                    .late
                    .set(*node, self.module.reads(*node).iter().any(|value| self.is_late(*value))),
            }
        }
    }

    /// Returns whether the shares that a node reads have fewer bytes together than the sum that it would
    /// accumulate over the parts. Such a node runs once, after the parts.
    fn is_less_whole(&self, node: Node, pieces: &Pieces) -> bool {
        let data = self.module.node(node);
        let of = |values: &[Option<Value>], pieces: &[Piece], takes: fn(Piece) -> bool| {
            let values =
                values.iter().zip(pieces).filter(|(_, piece)| takes(**piece)).filter_map(|(value, _)| *value);
            values.fold(0u64, |sum, value| sum.saturating_add(bytes(self.module, value)))
        };
        let held = of(&data.outputs, &pieces.results, Piece::is_added);
        let is_joined = |piece: Piece| piece.axis().is_some();
        held > 0
            && pieces.operands.iter().all(|piece| !piece.is_added())
            && of(&data.inputs, &pieces.operands, is_joined) < held
    }

    /// Returns whether a value exists only after all parts.
    fn is_late(&self, value: Value) -> bool {
        self.found.divided.values.contains_key(&value)
            || self.module.producer(value).is_some_and(|node| self.found.late[node])
    }

    fn pieces(&mut self, node: Node) -> Option<Pieces> {
        let data = self.module.node(node);
        let piece = |value: &Option<Value>| match value {
            Some(value) => match self.shares.get(value) {
                Some(axis) => Piece::Along(*axis),
                None => self.found.divided.values.get(value).copied().unwrap_or(Piece::Whole),
            },
            None => Piece::Whole,
        };
        let operands: Vec<Piece> = data.inputs.iter().map(piece).collect();
        let ask = |operands: &[Piece]| self.division.pieces(node, operands);
        let found = ask(&operands);
        // If an operand that is a sum prevents division, the sum may be small enough to be computed
        // before the parts.
        let whole: Vec<Piece> =
            operands.iter().map(|piece| if piece.is_added() { Piece::Whole } else { *piece }).collect();
        if found.is_none() && (whole == operands || ask(&whole).is_none()) {
            return None;
        }
        let read_whole = data.inputs.iter().zip(&whole).filter(|(_, piece)| **piece == Piece::Whole);
        let late = read_whole.filter_map(|(value, _)| *value).find(|value| self.is_late(*value));
        if let Some(late) = late.filter(|_| found.is_none() || operands == whole) {
            self.missing = self.missing.or(Some(late).filter(|_| !self.whole.contains(&node)));
            return None;
        }
        found
    }

    /// Records the axes of the batch shares in results that a node computes whole.
    fn share(&mut self, node: Node, pieces: &Pieces) {
        for (value, piece) in self.module.node(node).outputs.iter().zip(&pieces.results) {
            if let (Some(value), Piece::Along(axis)) = (value, piece) {
                self.shares.insert(*value, *axis);
            }
        }
    }

    fn take(&mut self, node: Node, pieces: Pieces) {
        let outputs = &self.module.node(node).outputs;
        for (value, piece) in
            outputs.iter().zip(&pieces.results).filter_map(|(value, piece)| Some(((*value)?, *piece)))
        {
            self.found.divided.values.insert(value, piece);
            if let Piece::Along(_) | Piece::Blocks { .. } = piece {
                let bytes = bytes(self.module, value);
                self.found.bytes = self.found.bytes.saturating_add(bytes);
                self.largest = self.largest.max(bytes);
            }
        }
        self.found.divided.nodes.insert(node, pieces);
    }
}

/// Returns nodes of the parts whose shares cannot be joined although a reader outside the parts needs
/// them.
fn unjoined(module: &Module, divided: &Divided) -> Vec<Node> {
    let is_needed = needed_whole(module, divided);
    let shares = divided
        .values
        .iter()
        .filter(|(value, piece)| matches!(piece, Piece::Within(_)) && is_needed(**value));
    shares.filter_map(|(value, _)| module.producer(*value)).collect()
}

/// Returns a test for whether a graph output or a node outside the parts reads a value.
fn needed_whole(module: &Module, divided: &Divided) -> impl Fn(Value) -> bool {
    let uses = uses(module);
    move |value| {
        uses[value].iter().any(|site| match site {
            Use::Output(..) => true,
            Use::Operand(node, _) => !divided.nodes.contains_key(node),
        })
    }
}

/// Returns all nodes on which a value depends and whose results do not exist before the parts.
fn cone(module: &Module, value: Value, found: &Found) -> BTreeSet<Node> {
    let mut nodes = BTreeSet::new();
    let mut open = vec![value];
    while let Some(node) = open.pop().map(|value| module.producer(value)) {
        let Some(node) = node.filter(|node| found.divided.nodes.contains_key(node) || found.late[*node])
        else {
            continue;
        };
        if nodes.insert(node) {
            open.extend(module.reads(node));
        }
    }
    nodes
}

fn bytes_of(module: &Module, nodes: &BTreeSet<Node>) -> u64 {
    let results = nodes.iter().flat_map(|node| module.node(*node).results());
    results.fold(0u64, |sum, value| sum.saturating_add(bytes(module, value)))
}

/// Moves a linear node after the sum of its operand, if no other part reads its result: the node then
/// runs once instead of once per part.
fn retract(module: &Module, found: &mut Found) {
    let mut read: SecondaryMap<Value, bool> = SecondaryMap::default();
    for node in module.graph(module.main()).nodes.iter().rev() {
        let data = module.node(*node);
        let Some(pieces) = found.divided.nodes.get(node) else { continue };
        let added = pieces.operands.first().is_some_and(|piece| piece.is_added());
        let alone = lookup(&data.operator).is_some_and(|info| info.linear == Linear::First);
        if added && alone && data.results().all(|value| !read[value]) {
            found.divided.nodes.remove(node);
            found.late.set(*node, true);
            data.results().for_each(|value| _ = found.divided.values.remove(&value));
            continue;
        }
        data.operands().for_each(|value| read.set(value, true));
    }
}
