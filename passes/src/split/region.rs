//! Regions: nodes around a large value that can be computed in parts of one axis, while everything around them stays whole.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use memc_ir::{Module, Node, Origin, SecondaryMap, Use, Value, uses};
use memc_ops::{Piece, Pieces, Share, Typed, lookup, pieces, pieces_giving, pieces_reaching};

use crate::parts::{Divided, Spans, Weights};

/// Nodes of a region, at most: of larger ones little is at the peak.
const MOST_NODES: usize = 256;
/// How many nodes that come too late are left out, one after another, before a region is given up.
const MOST_LEFT_OUT: usize = 8;

/// Name of the pass.
pub(super) const NAME: &str = "split";

/// Whether the pass wrote a node: parts are not divided again.
pub(super) fn is_own(module: &Module, node: Node) -> bool {
    matches!(&module.node(node).origin, Origin::Pass { pass } if *pass == NAME)
}

/// Whether a node computes rows of its result from ranges of rows.
pub(super) fn has_windows(module: &Module, node: Node) -> bool {
    lookup(&module.node(node).operator).is_some_and(|info| info.reach.is_some())
}

/// What regions of one module are grown in.
#[derive(Debug)]
pub(super) struct Ground<'m> {
    pub(super) module: &'m Module,
    weights: Weights<'m, 'm>,
    uses: SecondaryMap<Value, Vec<Use>>,
    /// Nodes that stay as they are: a random number depends on what they make.
    kept: SecondaryMap<Node, bool>,
    /// Position of each node of the main graph in its order.
    step: SecondaryMap<Node, usize>,
    /// What the node of each step reads.
    reads: Vec<Vec<Value>>,
}

/// What growing regions may still cost, and what is known from regions before.
#[derive(Debug)]
pub(super) struct Effort {
    /// Nodes that may still be looked at; none is grown where that does not last.
    visits: usize,
    /// How nodes give a share of their first result along an axis; parts are none where shares overlap.
    giving: BTreeMap<(Node, usize, Option<u64>), Option<Rc<Pieces>>>,
    /// How nodes take part, of whose operands some pieces are there.
    reading: BTreeMap<(Node, Option<u64>), Vec<Reading>>,
}

/// Pieces of operands, and how a node then takes part.
type Reading = (Vec<Piece>, Option<Rc<Pieces>>);

impl Effort {
    /// Nothing is known.
    pub(super) fn new(visits: usize) -> Self {
        Self { visits, giving: BTreeMap::new(), reading: BTreeMap::new() }
    }
}

/// Nodes that are computed in parts.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) parts: u64,
    /// The nodes by their positions.
    pub(super) nodes: BTreeMap<usize, Node>,
    pub(super) divided: Divided,
    /// What parts make, and whether somebody beside them needs it whole.
    pub(super) made: BTreeMap<Value, bool>,
    /// Whole values that parts read, and whether shares are cut out of them while the model runs.
    pub(super) read: BTreeMap<Value, bool>,
    /// Bytes of the smallest value that was followed: up to these nothing would change if more were taken for small.
    pub(super) smallest: u64,
}

impl Region {
    /// Its first and last step.
    pub(super) fn span(&self) -> (usize, usize) {
        let first = self.nodes.keys().next().copied().unwrap_or(0);
        (first, self.nodes.keys().next_back().copied().unwrap_or(first))
    }

    /// Values of which shares are cut out, with the first and the last step that reads them.
    pub(super) fn cut_at(&self, module: &Module) -> BTreeMap<Value, (usize, usize)> {
        let mut found: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
        for (step, node) in &self.nodes {
            for value in module.node(*node).operands().filter(|value| self.read.get(value) == Some(&true)) {
                let steps = found.entry(value).or_insert((*step, *step));
                *steps = (steps.0.min(*step), steps.1.max(*step));
            }
        }
        found
    }

    /// What a part has of a value's bytes, at most.
    pub(super) fn share(&self, value: Value, bytes: u64) -> u64 {
        match self.divided.spans.as_ref().and_then(|spans| spans.shares(value)) {
            Some((most, _)) => (bytes as f64 * most).ceil() as u64,
            None => bytes.div_ceil(self.parts),
        }
    }

    /// How often a node's work is done by all parts together: more than once where shares overlap.
    pub(super) fn times(&self, module: &Module, node: Node) -> f64 {
        let shares = |value| self.divided.spans.as_ref().and_then(|spans| spans.shares(value));
        module.node(node).results().find_map(shares).map_or(1.0, |(_, all)| all)
    }

    /// What it makes in shares of an axis.
    pub(super) fn shares(&self) -> impl Iterator<Item = (Value, usize)> {
        self.made.keys().filter_map(|value| match self.divided.values.get(value) {
            Some(Piece::Along(axis)) => Some((*value, *axis)),
            _ => None,
        })
    }
}

/// Where a region begins, and how far it goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Seed {
    /// A value that is to be there in shares.
    pub(super) value: Value,
    /// The axis of the shares.
    pub(super) axis: usize,
    /// Number of shares.
    pub(super) parts: u64,
    /// Whether shares overlap as far as windows reach; they are equal otherwise.
    pub(super) overlap: bool,
    /// Values of more bytes are followed to where they are read and made.
    pub(super) small: u64,
    /// First and last step of what may be taken in.
    pub(super) steps: (usize, usize),
}

impl<'m> Ground<'m> {
    /// Linear in nodes and operands.
    pub(super) fn of(module: &'m Module, weights: Weights<'m, 'm>) -> Self {
        let nodes = &module.graph(module.main()).nodes;
        let mut step: SecondaryMap<Node, usize> = SecondaryMap::default();
        nodes.iter().enumerate().for_each(|(index, node)| step.set(*node, index));
        let reads = nodes.iter().map(|node| module.reads(*node)).collect();
        Self { module, weights, uses: uses(module), kept: memc_ops::feeds_unrepeatable(module, nodes), step, reads }
    }

    /// The region around a seed; `None` where nothing there can be computed in parts.
    ///
    /// A node is left out where a part would need a value that is there only when all parts are done. Linear in the region's nodes and what
    /// lies between them, for each node that is left out.
    pub(super) fn region(&self, seed: Seed, effort: &mut Effort) -> Option<Region> {
        let mut left_out = BTreeSet::new();
        while left_out.len() <= MOST_LEFT_OUT {
            let mut growth = Growth {
                ground: self,
                seed,
                left_out: &left_out,
                effort,
                smallest: u64::MAX,
                nodes: BTreeMap::new(),
                made: BTreeMap::new(),
                axes: BTreeMap::new(),
            };
            if !growth.grow() || growth.nodes.is_empty() {
                return None;
            }
            match growth.too_late() {
                Some(node) => left_out.insert(node),
                None => return growth.finish(),
            };
        }
        None
    }

    /// Bytes of a value.
    pub(super) fn bytes(&self, value: Value) -> u64 {
        self.module.ty(value).tensor().and_then(|ty| ty.size()).map_or(0, |size| size.0)
    }

    /// Whether windows make or read a value.
    pub(super) fn is_beside_windows(&self, value: Value) -> bool {
        let slides = |node: Node| has_windows(self.module, node);
        let reads = |site: &Use| matches!(site, Use::Operand(node, _) if slides(*node));
        self.producer(value).is_some_and(slides) || self.uses[value].iter().any(reads)
    }

    /// The node of the main graph that makes a value.
    fn producer(&self, value: Value) -> Option<Node> {
        self.module.producer(value).filter(|node| self.module.node(*node).graph == self.module.main())
    }
}

/// A region that grows.
struct Growth<'g, 'm> {
    ground: &'g Ground<'m>,
    seed: Seed,
    /// Nodes that may not take part.
    left_out: &'g BTreeSet<Node>,
    effort: &'g mut Effort,
    /// Bytes of the smallest value that was followed.
    smallest: u64,
    nodes: BTreeMap<usize, (Node, Rc<Pieces>)>,
    /// What parts make.
    made: BTreeMap<Value, Piece>,
    /// How values are read by parts: along an axis, or whole.
    axes: BTreeMap<Value, Option<usize>>,
}

impl Growth<'_, '_> {
    /// Grows until nothing can be added; whether it came to that before all visits were made, or it was too large.
    fn grow(&mut self) -> bool {
        self.axes.insert(self.seed.value, Some(self.seed.axis));
        let mut open = vec![self.seed.value];
        let mut met = BTreeSet::from([self.seed.value]);
        while let Some(value) = open.pop() {
            let Some(Some(axis)) = self.axes.get(&value).copied() else { continue };
            let bytes = self.ground.bytes(value);
            let is_small = value != self.seed.value && bytes <= self.seed.small;
            // Who else reads the same weights has nothing to do with the region.
            if is_small || self.ground.module.constant_of(value).is_some() {
                continue;
            }
            if value != self.seed.value {
                self.smallest = self.smallest.min(bytes);
            }
            let Some(left) = self.effort.visits.checked_sub(1 + self.ground.uses[value].len()) else { return false };
            self.effort.visits = left;
            if self.nodes.len() > MOST_NODES {
                return false;
            }
            let mut joined = Vec::new();
            joined.extend(self.ground.producer(value).filter(|node| self.give(*node, value, axis)));
            for site in &self.ground.uses[value] {
                if let Use::Operand(node, _) = site
                    && self.read(*node)
                {
                    joined.push(*node);
                }
            }
            for node in joined {
                let data = self.ground.module.node(node);
                open.extend(data.operands().chain(data.results()).filter(|value| met.insert(*value)));
            }
        }
        true
    }

    /// Whether a node may be looked at.
    fn is_open(&self, node: Node) -> bool {
        let ground = self.ground;
        let inside = ground.module.node(node).graph == ground.module.main();
        let step = ground.step[node];
        inside
            && (self.seed.steps.0..=self.seed.steps.1).contains(&step)
            && !ground.kept[node]
            && !is_own(ground.module, node)
            && !self.left_out.contains(&node)
            && !self.nodes.contains_key(&step)
    }

    /// The number of parts, where it counts.
    fn parts(&self) -> Option<u64> {
        (!self.seed.overlap).then_some(self.seed.parts)
    }

    /// How a node gives a share of its first result.
    fn giving(&mut self, node: Node, axis: usize) -> Option<Rc<Pieces>> {
        let (typed, parts) = (Typed { module: self.ground.module, node }, self.parts());
        let giving = || pieces_giving(typed, axis, |operands| found(typed, operands, parts)).map(Rc::new);
        self.effort.giving.entry((node, axis, parts)).or_insert_with(giving).clone()
    }

    /// How a node takes part, of whose operands these pieces are there.
    fn reading(&mut self, node: Node, operands: Vec<Piece>) -> Option<Rc<Pieces>> {
        let (typed, parts) = (Typed { module: self.ground.module, node }, self.parts());
        let known = self.effort.reading.entry((node, parts)).or_default();
        if let Some((_, pieces)) = known.iter().find(|(other, _)| *other == operands) {
            return pieces.clone();
        }
        let pieces = found(typed, &operands, parts).map(Rc::new);
        known.push((operands, pieces.clone()));
        pieces
    }

    /// Takes the node in that makes a value, if it can make shares of it.
    fn give(&mut self, node: Node, value: Value, axis: usize) -> bool {
        let is_first = self.ground.module.node(node).outputs.first() == Some(&Some(value));
        let found = if is_first && self.is_open(node) { self.giving(node, axis) } else { None };
        found.is_some_and(|pieces| self.take(node, pieces))
    }

    /// Takes a node in that reads a share of something, if it can make something of that.
    fn read(&mut self, node: Node) -> bool {
        if !self.is_open(node) {
            return false;
        }
        let piece = |value: &Option<Value>| match value.and_then(|value| self.axes.get(&value)) {
            Some(Some(axis)) => Piece::Along(*axis),
            _ => value.and_then(|value| self.made.get(&value).copied()).unwrap_or(Piece::Whole),
        };
        let operands: Vec<Piece> = self.ground.module.node(node).inputs.iter().map(piece).collect();
        self.reading(node, operands).is_some_and(|pieces| self.take(node, pieces))
    }

    /// Takes a node in, unless somebody else takes what it reads or makes in another way.
    fn take(&mut self, node: Node, pieces: Rc<Pieces>) -> bool {
        let data = self.ground.module.node(node);
        let axis = |piece: Piece| match piece {
            Piece::Along(axis) => Some(axis),
            _ => None,
        };
        let reads: Vec<(Value, Piece)> = pairs(&data.inputs, &pieces.operands);
        let makes: Vec<(Value, Piece)> = pairs(&data.outputs, &pieces.results);
        let reads_agree = reads.iter().all(|(value, piece)| match self.made.get(value) {
            Some(made) => made == piece,
            None => !piece.is_added() && self.axes.get(value).is_none_or(|known| *known == axis(*piece)),
        });
        let makes_agree = makes.iter().all(|(value, piece)| self.axes.get(value).is_none_or(|known| *known == axis(*piece)));
        if !reads_agree || !makes_agree {
            return false;
        }
        for (value, piece) in reads.into_iter().filter(|(_, piece)| !piece.is_added()) {
            self.axes.insert(value, axis(piece));
        }
        for (value, piece) in makes {
            self.made.insert(value, piece);
            if let Piece::Along(axis) = piece {
                self.axes.insert(value, Some(axis));
            }
        }
        self.nodes.insert(self.ground.step[node], (node, pieces));
        true
    }

    /// A node of the region that reads what is there only when all parts are done.
    fn too_late(&self) -> Option<Node> {
        let module = self.ground.module;
        let (first, last) = (*self.nodes.keys().next()?, *self.nodes.keys().next_back()?);
        let mut late: BTreeSet<Value> = BTreeSet::new();
        for (step, node) in module.graph(module.main()).nodes.iter().enumerate().take(last + 1).skip(first) {
            let reads = &self.ground.reads[step];
            if self.nodes.contains_key(&step) {
                if reads.iter().any(|value| late.contains(value)) {
                    return Some(*node);
                }
            } else if reads.iter().any(|value| late.contains(value) || self.made.contains_key(value)) {
                late.extend(module.node(*node).results());
            }
        }
        None
    }

    /// The region; `None` where an axis is too short for its parts.
    fn finish(self) -> Option<Region> {
        let mut divided = Divided::default();
        let inside: BTreeSet<Node> = self.nodes.values().map(|(node, _)| *node).collect();
        let beside = |site: &Use| match site {
            Use::Output(..) => true,
            Use::Operand(node, _) => !inside.contains(node),
        };
        let made: BTreeMap<Value, bool> =
            self.made.keys().map(|value| (*value, self.ground.uses[*value].iter().any(beside))).collect();
        if self.seed.overlap {
            let nodes: Vec<(Node, &Pieces)> = self.nodes.values().map(|(node, pieces)| (*node, &**pieces)).collect();
            let is_needed = |value: Value| made.get(&value) == Some(&true);
            divided.spans = Some(Spans::of(self.ground.module, &nodes, self.seed.parts, is_needed)?);
        }
        // Shares of weights are made ahead, or else cut out while the model runs, as those of other values.
        let is_ahead = |value: Value, axis: &Option<usize>| {
            let constant = self.ground.module.constant_of(value).map(|constant| self.ground.module.constant(constant));
            constant.is_some_and(|constant| axis.is_none_or(|axis| self.ground.weights.are_at_hand(constant, axis)))
        };
        let is_read = |(value, axis): &(&Value, &Option<usize>)| !self.made.contains_key(value) && !is_ahead(**value, axis);
        let read = self.axes.iter().filter(is_read).map(|(value, axis)| (*value, axis.is_some())).collect();
        let nodes = self.nodes.iter().map(|(step, (node, _))| (*step, *node)).collect();
        divided.nodes = self.nodes.into_values().map(|(node, pieces)| (node, Rc::unwrap_or_clone(pieces))).collect();
        divided.values = self.made;
        Some(Region { parts: self.seed.parts, nodes, divided, made, read, smallest: self.smallest })
    }
}

/// How a node takes part in equal shares, or in shares that overlap.
fn found(node: Typed<'_>, operands: &[Piece], parts: Option<u64>) -> Option<Pieces> {
    match parts {
        Some(parts) => pieces(Share { node, operands, parts }),
        None => pieces_reaching(node, operands),
    }
}

/// Values with their pieces.
fn pairs(values: &[Option<Value>], pieces: &[Piece]) -> Vec<(Value, Piece)> {
    values.iter().zip(pieces).filter_map(|(value, piece)| Some(((*value)?, *piece))).collect()
}
