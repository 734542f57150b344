//! Growth of regions: from one axis of a value, node by node, while the operator table states how a node
//! treats shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memc_ir::{Module, Node, Operator, SecondaryMap, Use, Value, uses};
use memc_ops::{
    Piece, Pieces, Profile, Share, Typed, normalize_axis, pieces, pieces_between, pieces_giving,
    pieces_reaching,
};

use super::corner::Least;
use super::region::{Region, has_windows, is_join, is_own};
use super::seed::{Lie, Seed};
use memc_passes::Options;
use memc_passes::parts::{Divided, Probes, Shares, Spans, Unrounded, Weights, takes_nothing};
use memc_passes::tuning::SplitTuning;

/// Facts about a module that all its regions need.
#[derive(Debug)]
pub(super) struct Ground<'m> {
    pub(super) module: &'m Module,
    tuning: &'m SplitTuning,
    /// Options that name the kernels which add up partial sums; `None` if none may.
    adders: Option<&'m Options>,
    weights: Weights<'m, 'm>,
    uses: SecondaryMap<Value, Vec<Use>>,
    /// The module at points of its domain.
    probes: Probes,
    /// Smallest extents, if the module has the largest extents of another one.
    least: Arc<Least>,
    /// Runtime whose kernels may take empty tensors.
    profile: &'m Profile,
    /// Values at which no region begins or ends.
    unrounded: Unrounded,
    /// Nodes that stay whole, because a random number depends on their results.
    kept: SecondaryMap<Node, bool>,
    /// Step of each node of the main graph.
    step: SecondaryMap<Node, usize>,
    /// Operands of the node of each step.
    reads: Vec<Vec<Value>>,
}

/// Remaining effort of growth, and facts cached from earlier regions.
#[derive(Debug)]
pub(super) struct Effort {
    /// Number of nodes that may still be visited.
    visits: usize,
    /// Whether a region was given up for lack of effort.
    is_spent: bool,
    /// Pieces with which nodes make a share of their first result along an axis.
    giving: BTreeMap<(Node, usize, Kind), Option<Arc<Pieces>>>,
    /// Pieces of nodes by the pieces of their operands.
    reading: BTreeMap<(Node, Kind), Vec<Reading>>,
    /// Members of regions with overlapping shares, by the seed without its number of parts, which has no
    /// effect, and the visits that they took.
    overlapping: BTreeMap<Seed, (Option<Arc<Members>>, usize)>,
    marks: Marks,
}

/// Marks of values and nodes while one region grows. Marks of earlier regions are overwritten.
#[derive(Debug, Default)]
struct Marks {
    /// Number of the region.
    round: u32,
    values: SecondaryMap<Value, Mark>,
    /// By node: the last region that contains it.
    inside: SecondaryMap<Node, u32>,
}

/// Mark of a value while a region grows.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Number of the region.
    round: u32,
    /// Whether growth has met the value.
    is_met: bool,
    /// Whether the value exists only after the last part.
    is_late: bool,
    /// Piece that parts make.
    made: Option<Piece>,
    /// Access by parts: along an axis, or whole.
    axis: Option<Option<usize>>,
}

impl Marks {
    /// Begins the next region, without marks.
    fn begin(&mut self) {
        self.round += 1;
    }

    fn of(&self, value: Value) -> Mark {
        let mark = self.values[value];
        if mark.round == self.round { mark } else { Mark::default() }
    }

    fn change(&mut self, value: Value) -> &mut Mark {
        let mark = &mut self.values[value];
        if mark.round != self.round {
            *mark = Mark { round: self.round, ..Mark::default() };
        }
        mark
    }

    fn is_inside(&self, node: Node) -> bool {
        self.inside[node] == self.round
    }
}

/// Members of a region, for any number of parts.
#[derive(Clone, Debug, Default)]
struct Members {
    /// Size in bytes of the smallest value through which the region grew.
    smallest: u64,
    /// Nodes by step.
    nodes: BTreeMap<usize, (Node, Arc<Pieces>)>,
    /// Pieces that parts make.
    made: BTreeMap<Value, Piece>,
    /// Access of parts to values: along an axis, or whole.
    axes: BTreeMap<Value, Option<usize>>,
}

/// Pieces of operands, and the resulting pieces of the node.
type Reading = (Vec<Piece>, Option<Arc<Pieces>>);

impl Effort {
    /// Creates an effort of a number of visits.
    pub(super) fn new(visits: usize) -> Self {
        Self {
            visits,
            is_spent: false,
            giving: BTreeMap::new(),
            reading: BTreeMap::new(),
            overlapping: BTreeMap::new(),
            marks: Marks::default(),
        }
    }

    /// Returns whether a region was given up for lack of effort.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Spends visits; returns whether enough were left.
    fn spend(&mut self, visits: usize) -> bool {
        let left = self.visits.checked_sub(visits);
        self.is_spent |= left.is_none();
        self.visits = left.unwrap_or(self.visits);
        left.is_some()
    }
}

/// Relation of the shares that nodes make and read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// Equal shares, with their number.
    Equal(u64),
    /// Shares that may overlap.
    Overlapping,
    /// Unequal shares of axes with this extent.
    Of(u64),
}

impl<'m> Ground<'m> {
    /// Collects the facts of a module. Linear in nodes and operands.
    pub(super) fn of(
        module: &'m Module,
        options: &'m Options,
        weights: Weights<'m, 'm>,
        may_add: bool,
        least: Arc<Least>,
    ) -> Self {
        let nodes = &module.graph(module.main()).nodes;
        let mut step: SecondaryMap<Node, usize> = SecondaryMap::default();
        nodes.iter().enumerate().for_each(|(index, node)| step.set(*node, index));
        let reads = nodes.iter().map(|node| module.reads(*node)).collect();
        Self {
            module,
            tuning: &options.tuning.split,
            adders: may_add.then_some(options),
            weights,
            uses: uses(module),
            probes: Probes::of(module),
            least,
            profile: options.profile,
            unrounded: Unrounded::of(module, options.profile),
            kept: memc_ops::feeds_unrepeatable(module, nodes),
            step,
            reads,
        }
    }

    /// Grows the region of a seed; `None` if no node there can be computed in parts.
    ///
    /// Takes time linear in the nodes of the region and between them, for each node that is left out.
    pub(super) fn region(&self, seed: Seed, effort: &mut Effort) -> Option<Region> {
        let (kind, shares) = self.shares(seed)?;
        if kind != Kind::Overlapping {
            return self.finish(seed, shares, &self.members(seed, kind, effort)?);
        }
        let any_number = Seed { parts: 0, ..seed };
        if let Some((members, visits)) = effort.overlapping.get(&any_number).cloned() {
            // A cached region costs the visits of a new one, so that the cache changes no result.
            effort.spend(visits).then_some(())?;
            return self.finish(seed, shares, &*members?);
        }
        let before = effort.visits;
        let members = self.members(seed, kind, effort).map(Arc::new);
        effort.overlapping.insert(any_number, (members.clone(), before - effort.visits));
        self.finish(seed, shares, &*members?)
    }

    /// Grows the members of a region. Leaves out nodes that read a value which exists only after the
    /// last part.
    fn members(&self, seed: Seed, kind: Kind, effort: &mut Effort) -> Option<Members> {
        let mut left_out = BTreeSet::new();
        while left_out.len() <= self.tuning.max_left_out {
            effort.marks.begin();
            let (nodes, values) = (Vec::new(), Vec::new());
            let mut growth = Growth {
                ground: self,
                seed,
                kind,
                left_out: &left_out,
                effort,
                smallest: u64::MAX,
                nodes,
                values,
            };
            if !growth.grow() || growth.nodes.is_empty() {
                return None;
            }
            match growth.too_late() {
                Some(node) => left_out.insert(node),
                None => return Some(growth.members()),
            };
        }
        None
    }

    /// Returns the relation of a seed's shares; `None` if they are to be operands of a Concat and there
    /// is none.
    fn shares(&self, seed: Seed) -> Option<(Kind, Shares)> {
        Some(match seed.lie {
            Lie::Equal => (Kind::Equal(seed.parts), Shares::Even(seed.parts)),
            Lie::Overlapping => (Kind::Overlapping, Shares::Even(seed.parts)),
            Lie::Joined => {
                let (_, all) = self.joined(seed.value).filter(|(axis, _)| *axis == seed.axis)?;
                let borders = borders(&all, seed.parts);
                (Kind::Of(*borders.last()?), Shares::Between(borders))
            }
        })
    }

    /// Returns the axis of the Concat that made a value, with the borders of its operands along the
    /// axis.
    pub(super) fn joined(&self, value: Value) -> Option<(usize, Vec<u64>)> {
        let module = self.module;
        let data = module.node(self.producer(value).filter(|node| is_join(module, *node))?);
        let dims = |value: Value| module.ty(value).tensor()?.shape.as_deref();
        let axis = normalize_axis(data.int("axis", 1), dims(value)?.len())?;
        let mut borders = vec![0];
        for operand in data.operands() {
            borders.push(borders.last()? + dims(operand)?.get(axis)?.known().filter(|extent| *extent > 0)?);
        }
        Some((axis, borders))
    }

    /// Follows a value back to the result of a Concat that parts could do without.
    pub(super) fn behind_join(&self, mut value: Value) -> Option<Value> {
        for _ in 0..self.tuning.max_distance {
            let producer = self.producer(value).filter(|node| !is_own(self.module, *node))?;
            if self.joined(value).is_some() {
                return Some(value);
            }
            value = self.module.node(producer).operands().next()?;
        }
        None
    }

    /// Returns the size of a value in bytes, or zero if unknown.
    pub(super) fn bytes(&self, value: Value) -> u64 {
        self.module.size(value).map_or(0, |size| size.0)
    }

    /// Returns whether exactly one node reads a value.
    pub(super) fn is_private(&self, value: Value) -> bool {
        self.uses[value].len() == 1
    }

    /// Returns whether a sliding window makes or reads a value.
    pub(super) fn is_beside_windows(&self, value: Value) -> bool {
        let slides = |node: Node| has_windows(self.module, node);
        let reads = |site: &Use| matches!(site, Use::Operand(node, _) if slides(*node));
        self.producer(value).is_some_and(slides) || self.uses[value].iter().any(reads)
    }

    /// Makes the region of its members; `None` if an axis is too short for the parts, if other nodes
    /// read the Concat to remove, or if the runtime would newly round values at the region's borders.
    fn finish(&self, seed: Seed, shares: Shares, members: &Members) -> Option<Region> {
        let mut divided = Divided::among(shares);
        let inside: BTreeSet<Node> = members.nodes.values().map(|(node, _)| *node).collect();
        let beside = |site: &Use| match site {
            Use::Output(..) => true,
            Use::Operand(node, _) => !inside.contains(node),
        };
        // Find values that other nodes need, and the Concat to remove.
        let made: BTreeMap<Value, bool> =
            members.made.keys().map(|value| (*value, self.uses[*value].iter().any(beside))).collect();
        let opened = match seed.lie {
            Lie::Joined => Some((self.step[self.producer(seed.value)?], seed.value)),
            _ => None,
        };
        if opened.is_some_and(|(_, value)| self.uses[value].iter().any(beside)) {
            return None;
        }
        if seed.lie == Lie::Overlapping {
            let is_enough = |(value, piece): (&Value, &Piece)| {
                piece.axis().is_none_or(|axis| self.least.allows(*value, axis, Some(seed.parts)))
            };
            let is_joined = |(value, _): &(&Value, &Piece)| made.get(*value) == Some(&true);
            let may_be_empty = |(node, pieces): &(Node, Arc<Pieces>)| self.may_be_empty(*node, pieces);
            let is_safe = members.made.iter().filter(is_joined).all(is_enough)
                || members.nodes.values().all(may_be_empty);
            is_safe.then_some(())?;
            let nodes: Vec<(Node, &Pieces)> =
                members.nodes.values().map(|(node, pieces)| (*node, &**pieces)).collect();
            let is_needed = |value: Value| made.get(&value) == Some(&true);
            divided.spans = Some(Spans::of(self.module, self.profile, &nodes, &divided.shares, is_needed)?);
        }
        // Shares of weights are made ahead of time, or sliced at run time like other values.
        let is_ahead = |value: Value, axis: &Option<usize>| {
            let constant = self.module.constant_of(value).map(|constant| self.module.constant(constant));
            constant.is_some_and(|constant| axis.is_none_or(|axis| self.weights.are_at_hand(constant, axis)))
        };
        let is_read = |(value, axis): &(&Value, &Option<usize>)| {
            !members.made.contains_key(value) && !is_ahead(**value, axis)
        };
        let read =
            members.axes.iter().filter(is_read).map(|(value, axis)| (*value, axis.is_some())).collect();
        let nodes = members.nodes.iter().map(|(step, (node, _))| (*step, *node)).collect();
        divided.nodes = members.nodes.values().map(|(node, pieces)| (*node, Pieces::clone(pieces))).collect();
        if !self.unrounded.torn(&divided.nodes).is_empty() {
            return None;
        }
        divided.values = members.made.clone();
        Some(Region {
            seed,
            parts: divided.shares.count(),
            opened,
            nodes,
            divided,
            made,
            read,
            smallest: members.smallest,
        })
    }

    /// Returns whether a part of a node may have no positions at some extents.
    fn may_be_empty(&self, node: Node, pieces: &Pieces) -> bool {
        takes_nothing(self.module, self.profile, node, pieces)
    }

    /// Returns the node of the main graph that makes a value.
    fn producer(&self, value: Value) -> Option<Node> {
        self.module.producer(value).filter(|node| self.module.node(*node).graph == self.module.main())
    }
}

/// Chooses borders that divide an axis into at most `parts` parts, as evenly as possible.
fn borders(all: &[u64], parts: u64) -> Vec<u64> {
    let extent = all.last().copied().unwrap_or_default();
    let nearest =
        |part: u64| all.iter().copied().min_by_key(|border| (border * parts).abs_diff(extent * part));
    let chosen: BTreeSet<u64> = (0..=parts).filter_map(nearest).collect();
    chosen.into_iter().collect()
}

/// A growing region.
struct Growth<'g, 'm> {
    ground: &'g Ground<'m>,
    seed: Seed,
    kind: Kind,
    /// Nodes that must not join.
    left_out: &'g BTreeSet<Node>,
    effort: &'g mut Effort,
    /// Size in bytes of the smallest value through which the region grew.
    smallest: u64,
    /// Member nodes with their steps.
    nodes: Vec<(usize, (Node, Arc<Pieces>))>,
    /// Marked values; a value may occur twice.
    values: Vec<Value>,
}

impl Growth<'_, '_> {
    /// Grows until no node can be added; returns whether effort and size limit sufficed.
    fn grow(&mut self) -> bool {
        self.values.push(self.seed.value);
        let mark = self.effort.marks.change(self.seed.value);
        (mark.axis, mark.is_met) = (Some(Some(self.seed.axis)), true);
        let mut open = vec![self.seed.value];
        let mut joined = Vec::new();
        while let Some(value) = open.pop() {
            let Some(Some(axis)) = self.effort.marks.of(value).axis else { continue };
            let bytes = self.ground.bytes(value);
            let is_shared = self.seed.private && !self.ground.is_private(value);
            let may_end = !self.ground.unrounded.holds(value);
            // Stop at small values, at values with other readers, and at weights.
            let ends = value != self.seed.value && may_end && (bytes <= self.seed.small || is_shared);
            // Other readers of shared weights do not belong to the region.
            if ends || self.ground.module.constant_of(value).is_some() {
                continue;
            }
            if value != self.seed.value {
                self.smallest = self.smallest.min(bytes);
            }
            if !self.effort.spend(1 + self.ground.uses[value].len()) {
                return false;
            }
            if self.nodes.len() > self.ground.tuning.max_nodes {
                return false;
            }
            // Add the producer and the readers that can work on shares.
            joined.clear();
            joined.extend(self.ground.producer(value).filter(|node| self.give(*node, value, axis)));
            for site in &self.ground.uses[value] {
                if let Use::Operand(node, _) = site
                    && self.read(*node)
                {
                    joined.push(*node);
                }
            }
            for node in &joined {
                let data = self.ground.module.node(*node);
                let marks = &mut self.effort.marks;
                let is_new = |value: &Value| !std::mem::replace(&mut marks.change(*value).is_met, true);
                open.extend(data.operands().chain(data.results()).filter(is_new));
            }
        }
        true
    }

    /// Returns whether a node may join.
    fn is_open(&self, node: Node) -> bool {
        let ground = self.ground;
        let inside = ground.module.node(node).graph == ground.module.main();
        let step = ground.step[node];
        inside
            && (self.seed.steps.0..=self.seed.steps.1).contains(&step)
            && !ground.kept[node]
            && !is_own(ground.module, node)
            && !self.left_out.contains(&node)
            && !self.effort.marks.is_inside(node)
    }

    /// Returns the pieces with which a node makes a share of its first result.
    fn giving(&mut self, node: Node, axis: usize) -> Option<Arc<Pieces>> {
        let (ground, kind) = (self.ground, self.kind);
        let rule = |typed: Typed<'_>| {
            pieces_giving(typed, axis, |operands| found(typed, operands, kind, ground.adders))
        };
        let giving = || ground.probes.agreed(ground.module, node, rule).map(Arc::new);
        self.effort.giving.entry((node, axis, kind)).or_insert_with(giving).clone()
    }

    /// Returns the pieces of a node for these pieces of its operands.
    fn reading(&mut self, node: Node, operands: Vec<Piece>) -> Option<Arc<Pieces>> {
        let (ground, kind) = (self.ground, self.kind);
        let known = self.effort.reading.entry((node, kind)).or_default();
        if let Some((_, pieces)) = known.iter().find(|(other, _)| *other == operands) {
            return pieces.clone();
        }
        let rule = |typed: Typed<'_>| found(typed, &operands, kind, ground.adders);
        let pieces = ground.probes.agreed(ground.module, node, rule).map(Arc::new);
        known.push((operands, pieces.clone()));
        pieces
    }

    /// Adds the producer of a value, if it can make shares of the value.
    fn give(&mut self, node: Node, value: Value, axis: usize) -> bool {
        let is_first = self.ground.module.node(node).outputs.first() == Some(&Some(value));
        let found = if is_first && self.is_open(node) { self.giving(node, axis) } else { None };
        found.is_some_and(|pieces| self.take(node, pieces))
    }

    /// Adds a node that reads a share, if it can compute with the share.
    fn read(&mut self, node: Node) -> bool {
        if !self.is_open(node) {
            return false;
        }
        let piece = |value: &Option<Value>| {
            let mark = value.map(|value| self.effort.marks.of(value)).unwrap_or_default();
            match mark.axis {
                Some(Some(axis)) => Piece::Along(axis),
                _ => mark.made.unwrap_or(Piece::Whole),
            }
        };
        let operands: Vec<Piece> = self.ground.module.node(node).inputs.iter().map(piece).collect();
        self.reading(node, operands).is_some_and(|pieces| self.take(node, pieces))
    }

    /// Adds a node, unless another member treats one of its values in another way; returns whether it
    /// was added.
    fn take(&mut self, node: Node, pieces: Arc<Pieces>) -> bool {
        let data = self.ground.module.node(node);
        let axis = |piece: Piece| match piece {
            Piece::Along(axis) => Some(axis),
            _ => None,
        };
        let reads = || pairs(&data.inputs, &pieces.operands);
        let makes = || pairs(&data.outputs, &pieces.results);
        let parts = match self.kind {
            Kind::Equal(parts) => Some(parts),
            Kind::Overlapping => Some(2),
            Kind::Of(_) => None,
        };
        let may_be_empty = || parts.is_some() && self.ground.may_be_empty(node, &pieces);
        let is_long =
            |value: Value, axis: usize| self.ground.least.allows(value, axis, parts) || may_be_empty();
        let has_extent = |(value, piece): (Value, Piece)| {
            piece.axis().is_none_or(|axis| is_known(self.ground.module, value, axis) && is_long(value, axis))
        };
        if !reads().chain(makes()).all(has_extent) {
            return false;
        }
        let marks = &mut self.effort.marks;
        let agrees =
            |known: Option<Option<usize>>, piece: Piece| known.is_none_or(|known| known == axis(piece));
        let read_agrees = |(value, piece): (Value, Piece)| {
            let mark = marks.of(value);
            mark.made.map_or(!piece.is_added() && agrees(mark.axis, piece), |made| made == piece)
        };
        if !reads().all(read_agrees) || !makes().all(|(value, piece)| agrees(marks.of(value).axis, piece)) {
            return false;
        }
        for (value, piece) in reads().filter(|(_, piece)| !piece.is_added()) {
            marks.change(value).axis = Some(axis(piece));
            self.values.push(value);
        }
        for (value, piece) in makes() {
            let mark = marks.change(value);
            mark.made = Some(piece);
            if let Piece::Along(axis) = piece {
                mark.axis = Some(Some(axis));
            }
            self.values.push(value);
        }
        marks.inside.set(node, marks.round);
        self.nodes.push((self.ground.step[node], (node, pieces)));
        true
    }

    /// Returns the members.
    fn members(self) -> Members {
        let Self { effort, smallest, nodes, mut values, .. } = self;
        values.sort_unstable();
        values.dedup();
        let marked = || values.iter().map(|value| (*value, effort.marks.of(*value)));
        Members {
            smallest,
            nodes: nodes.into_iter().collect(),
            made: marked().filter_map(|(value, mark)| Some((value, mark.made?))).collect(),
            axes: marked().filter_map(|(value, mark)| Some((value, mark.axis?))).collect(),
        }
    }

    /// Finds a member that reads a value which exists only after the last part.
    fn too_late(&mut self) -> Option<Node> {
        let module = self.ground.module;
        let steps = || self.nodes.iter().map(|(step, _)| *step);
        let (first, last) = (steps().min()?, steps().max()?);
        let marks = &mut self.effort.marks;
        for (step, node) in module.graph(module.main()).nodes.iter().enumerate().take(last + 1).skip(first) {
            let mut reads = self.ground.reads[step].iter().map(|value| marks.of(*value));
            if marks.is_inside(*node) {
                if reads.any(|mark| mark.is_late) {
                    return Some(*node);
                }
            } else if reads.any(|mark| mark.is_late || mark.made.is_some()) {
                module.node(*node).results().for_each(|value| marks.change(value).is_late = true);
            }
        }
        None
    }
}

/// Finds the pieces of a node for some kind of shares. The kernel adds up partial sums if the runtime
/// has a kernel for that.
pub(super) fn found(
    node: Typed<'_>,
    operands: &[Piece],
    kind: Kind,
    adders: Option<&Options>,
) -> Option<Pieces> {
    let found = match kind {
        Kind::Equal(parts) => pieces(Share { node, operands, parts }),
        Kind::Overlapping => pieces_reaching(node, operands),
        Kind::Of(extent) => pieces_between(node, operands, extent),
    };
    let element = node.input(0).map(|ty| ty.element);
    let data = node.data();
    let may = |operator: &Operator| {
        let options = adders.filter(|options| !options.rewrite.standard);
        options
            .zip(element)
            .is_some_and(|(options, element)| options.profile.has_kernel(operator, &data.attributes, element))
    };
    let found = found?.added_by_kernel(may);
    if !found.in_last.is_empty() {
        // All nodes but the last lack these attributes.
        let rest = data.attributes.iter().filter(|(name, _)| !found.in_last.contains(&name.as_str()));
        let rest: Vec<_> = rest.cloned().collect();
        let profile = adders?.profile;
        profile.has_kernel(&data.operator, &rest, element?).then_some(())?;
    }
    let is_possible = |piece: &Piece| match piece {
        Piece::Accumulated => adders.is_some(),
        // Shares that leave a region are joined by a Concat.
        Piece::Within(_) => false,
        _ => true,
    };
    found.results.iter().all(is_possible).then_some(found)
}

/// Returns whether the extent of an axis is a number.
pub(super) fn is_known(module: &Module, value: Value, axis: usize) -> bool {
    let shape = module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref());
    shape.and_then(|dims| dims.get(axis)).is_some_and(|dim| dim.known().is_some())
}

/// Pairs values with their pieces.
pub(super) fn pairs(values: &[Option<Value>], pieces: &[Piece]) -> impl Iterator<Item = (Value, Piece)> {
    values.iter().zip(pieces).filter_map(|(value, piece)| Some(((*value)?, *piece)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_joined_value_end_at_operand_borders() {
        let all = [0, 16, 40, 48, 80];
        assert_eq!(borders(&all, 4), all);
        assert_eq!(borders(&all, 2), [0, 40, 80]);
        // One border may be nearest to several targets.
        assert_eq!(borders(&[0, 2, 98, 100], 4), [0, 2, 98, 100]);
        assert_eq!(borders(&[0, 98, 100], 3), [0, 98, 100]);
    }
}
