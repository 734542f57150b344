//! Writer of divided regions: one copy of the nodes per part, and nodes that join the parts' results.

use std::collections::{BTreeMap, BTreeSet};

use memc_edit::{Maker, int};
use memc_ir::{
    Attribute, Dim, Module, NewNode, Node, NodeData, Operator, SecondaryMap, TensorType, Use, Value,
    ValueType,
};
use memc_ops::{Data, Item, Piece, Pieces, Repeat, Stretch, lookup};

use super::spans::Reaching;
use super::{Divided, Weights};

/// Oldest version of the operator set in which operands of different extents broadcast without an
/// attribute.
const OLDEST: i64 = 7;

/// Rewrites regions to be computed in parts, in the name of a pass. No two regions may share a node.
///
/// Returns the number of edits: 0 if the operator set is too old. Linear in the module; in addition,
/// each region costs its nodes times its parts, the nodes between its first and last node, and one copy
/// of the node list.
pub fn write<'d>(
    module: &mut Module,
    regions: impl IntoIterator<Item = &'d Divided>,
    weights: &mut Weights<'_, '_>,
    pass: &'static str,
) -> u64 {
    let version = module.opsets.get("").copied().unwrap_or(0);
    if version < OLDEST {
        return 0;
    }
    let mut maker = Maker::new(module, pass);
    let mut marks = SecondaryMap::default();
    for (round, divided) in (1..).zip(regions) {
        let mut writer = Writer {
            maker: &mut maker,
            marks: Marks { of: &mut marks, round },
            divided,
            parts: divided.shares.count(),
            weights,
            part: 0,
            own: BTreeMap::new(),
            joined: BTreeMap::new(),
            cut: BTreeMap::new(),
            shared: BTreeMap::new(),
            once: Vec::new(),
            order: Vec::new(),
        };
        writer.all();
    }
    maker.drop_unused_constants();
    maker.finish()
}

/// State of a node while one region is written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Mark {
    #[default]
    None,
    /// The node is computed in parts.
    Divided,
    /// The node is between the first and the last divided node.
    Between,
    /// The node is between them, and parts depend on it.
    Needed,
}

/// Marks of nodes; marks of earlier regions count as none.
struct Marks<'r> {
    of: &'r mut SecondaryMap<Node, (u32, Mark)>,
    /// Number of the region.
    round: u32,
}

impl Marks<'_> {
    fn get(&self, node: Node) -> Mark {
        let (round, mark) = self.of[node];
        if round == self.round { mark } else { Mark::None }
    }

    fn set(&mut self, node: Node, mark: Mark) {
        self.of.set(node, (self.round, mark));
    }
}

/// The node list around a region: the nodes before it, from its first to its last node, and after it.
struct Around {
    before: Vec<Node>,
    between: Vec<Node>,
    behind: Vec<Node>,
}

/// Writer of one region.
struct Writer<'r, 'm, 'd, 'w, 'o> {
    maker: &'r mut Maker<'m>,
    marks: Marks<'r>,
    divided: &'d Divided,
    parts: u64,
    weights: &'r mut Weights<'w, 'o>,
    /// Number of the present part.
    part: u64,
    /// Counterpart of each value in the present part.
    own: BTreeMap<Value, Value>,
    /// Results of the parts so far, for each value that is needed whole: a list of shares, or one sum.
    joined: BTreeMap<Value, Vec<Value>>,
    /// Slices made for the present part, by sliced value, axis, first position and end.
    cut: BTreeMap<(Value, usize, Stretch), Value>,
    /// Values that all parts share.
    shared: BTreeMap<Shared, Value>,
    /// Nodes that run before all parts.
    once: Vec<Node>,
    /// Nodes of the parts.
    order: Vec<Node>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    /// A value divided by the number of parts.
    Divided(Value),
    /// Reciprocal of the number of parts, by the name of the element type.
    Reciprocal(String),
}

impl Writer<'_, '_, '_, '_, '_> {
    fn module(&self) -> &Module {
        self.maker.module()
    }

    fn all(&mut self) {
        let divided = self.divided;
        divided.nodes.keys().for_each(|node| self.marks.set(*node, Mark::Divided));
        let Some(around) = self.around() else { return };
        let inside: Vec<(Node, &Pieces)> = around
            .between
            .iter()
            .filter_map(|node| divided.nodes.get(node).map(|pieces| (*node, pieces)))
            .collect();
        for part in 0..self.parts {
            self.begin(part);
            for (node, pieces) in &inside {
                self.node(*node, pieces);
            }
        }
        self.end(around);
    }

    /// Returns the node list around the region; `None` if the region has no node.
    fn around(&mut self) -> Option<Around> {
        let nodes = &self.module().graph(self.module().main()).nodes;
        let is_divided = |node: &Node| self.marks.get(*node) == Mark::Divided;
        let (first, last) = (nodes.iter().position(is_divided)?, nodes.iter().rposition(is_divided)?);
        // Computed extents come before all other nodes.
        let computed: BTreeSet<Node> = self.maker.extent_nodes().iter().copied().collect();
        let others = |nodes: &[Node]| {
            nodes.iter().copied().filter(|node| !computed.contains(node)).collect::<Vec<Node>>()
        };
        let (before, behind) = (others(&nodes[..first]), others(&nodes[last + 1..]));
        // Nodes erased by earlier regions stay in the list until the rewriter finishes.
        let (gone, between): (Vec<Node>, Vec<Node>) =
            nodes[first..=last].iter().partition(|node| self.maker.is_erased(**node));
        let others = between.iter().filter(|node| !self.divided.nodes.contains_key(*node));
        others.for_each(|node| self.marks.set(*node, Mark::Between));
        Some(Around { before, between, behind: [gone, behind].concat() })
    }

    fn begin(&mut self, part: u64) {
        self.part = part;
        self.own.clear();
        self.cut.clear();
    }

    /// Writes a node's copy for this part, and joins its results with those of earlier parts.
    fn node(&mut self, node: Node, pieces: &Pieces) {
        let data = self.module().node(node).clone();
        // Positions that later nodes need of this part's result, and the operand range that these take.
        let wanted =
            data.results().next().and_then(|value| self.divided.spans.as_ref()?.span(value, self.part));
        let reaching = Reaching::of(self.maker.module(), node, pieces);
        let taken = wanted.as_ref().and_then(|wanted| reaching.taken(wanted));
        let read: Vec<Option<Stretch>> = (0..pieces.operands.len())
            .map(|index| wanted.as_ref().and_then(|wanted| reaching.read(index, wanted)))
            .collect();
        // Replace each operand by this part's share, or by the whole value.
        let mut operands = Vec::new();
        for (index, (value, piece)) in data.inputs.iter().zip(&pieces.operands).enumerate() {
            let positions = read.get(index).cloned().flatten();
            let is_read = self.part == 0 || !pieces.in_first.contains(&index);
            let operand = value.filter(|_| is_read).map(|value| match (pieces.divided, piece.axis()) {
                (Some(divided), _) if divided == index => self.divided(value),
                (_, Some(axis)) => self.share(value, axis, positions),
                _ => self.whole(value),
            });
            operands.push(operand);
        }
        let made = taken.as_ref().map(|taken| taken.made.clone()).or(wanted.clone());
        // A node that can accumulate takes the sum of earlier parts as an operand.
        let sum = self.sum_so_far(&data, pieces);
        if let Some((index, sum)) = pieces.accumulates.zip(sum) {
            operands.resize(operands.len().max(index + 1), None);
            operands[index] = Some(sum);
        }
        while operands.last() == Some(&None) {
            operands.pop();
        }
        // A node that states its result's extents gets those of this part.
        if let Some((index, piece)) = pieces.extents.zip(pieces.results.first())
            && let Some(result) = data.outputs.first().copied().flatten()
        {
            let ty = self.ty(result, *piece, &made);
            operands[index] = Some(self.stated(&ty, *piece, &data.operator));
        }
        let mut given = data.attributes;
        // Where there is nothing to reduce, the kernel knows axes counted from the front only.
        if let Some(axes) = super::nothing::from_front(self.module(), node)
            .filter(|_| !self.module().domain().ranges.is_empty())
        {
            match operands.get_mut(1) {
                Some(stated) => *stated = self.constant("axes", Data::ints(&axes)).or(*stated),
                None => given
                    .iter_mut()
                    .filter(|(name, _)| name == "axes")
                    .for_each(|(_, value)| *value = Attribute::Ints(axes.clone())),
            }
        }
        // Insert the copy.
        let types: Vec<Option<(String, ValueType)>> = data
            .outputs
            .iter()
            .zip(&pieces.results)
            .map(|(value, piece)| value.map(|value| (self.name(value), self.ty(value, *piece, &made))))
            .collect();
        let pads = taken.and_then(|taken| taken.pads);
        let attributes = self.attributes(given, pieces, pads);
        let operator = pieces.operator.clone().unwrap_or(data.operator);
        let copy = self.append(self.maker.node(operator, operands, attributes), &types);
        let results = self.module().node(copy).outputs.clone();
        // Record the copy's results, without positions beyond the wanted ones.
        for ((old, new), piece) in data.outputs.iter().zip(results).zip(&pieces.results) {
            if let Some((old, new)) = old.zip(new) {
                let new = match (piece, wanted.clone().zip(made.clone())) {
                    (Piece::Along(axis), Some((wanted, made))) => self.cut_out(new, *axis, &made, wanted),
                    _ => new,
                };
                self.own.insert(old, new);
                if sum.is_some() {
                    self.joined.insert(old, vec![new]);
                    self.close(old, *piece);
                } else {
                    self.join(old, new, *piece);
                }
            }
        }
    }

    /// Returns the attributes of a node in the present part: own pads, attributes reserved for the last
    /// part, and own counts.
    fn attributes(
        &self,
        mut attributes: Vec<(String, Attribute)>,
        pieces: &Pieces,
        pads: Option<Vec<i64>>,
    ) -> Vec<(String, Attribute)> {
        if let Some(pads) = pads {
            attributes.retain(|(name, _)| name != "pads" && name != "auto_pad");
            attributes.push(("pads".to_owned(), Attribute::Ints(pads)));
        }
        if self.part + 1 < self.parts {
            attributes.retain(|(name, _)| !pieces.in_last.contains(&name.as_str()));
        }
        for (name, value) in &mut attributes {
            if let (Some(count), Attribute::Int(count_of_all)) = (pieces.count, value)
                && name == count
            {
                let own = self.positions(&Dim::Known(u64::try_from(*count_of_all).unwrap_or_default()));
                *count_of_all =
                    own.count().known().and_then(|own| i64::try_from(own).ok()).unwrap_or(*count_of_all);
            }
        }
        attributes
    }

    /// Returns the sum of earlier parts, for a node that can add to it.
    fn sum_so_far(&mut self, data: &NodeData, pieces: &Pieces) -> Option<Value> {
        let result = data
            .outputs
            .first()
            .copied()
            .flatten()
            .filter(|_| pieces.accumulates.is_some() && data.results().count() == 1)?;
        // If another part's node reads this part's own addend, the addend must be made separately.
        let apart = self
            .maker
            .uses(result)
            .iter()
            .any(|site| matches!(site, Use::Operand(node, _) if !self.is_beside(*node)));
        if apart { None } else { self.joined.get(&result)?.last().copied() }
    }

    fn name(&mut self, value: Value) -> String {
        self.maker.name_after(value, &format!("part{}", self.part))
    }

    /// Returns the extent of a value along an axis.
    fn extent(&self, value: Value, axis: usize) -> Dim {
        let dims = self.module().ty(value).tensor().and_then(|ty| ty.shape.as_deref()).unwrap_or_default();
        dims.get(axis).cloned().unwrap_or(Dim::Unknown)
    }

    /// Returns the present part's own share of an axis.
    fn positions(&self, extent: &Dim) -> Stretch {
        let own = self.divided.shares.own(extent, self.part, &self.module().domain().ranges);
        // A region has no axis with fewer positions than parts.
        own.unwrap_or_else(|| Stretch::whole(extent))
    }

    /// Returns the type of a value in the present part, for these positions or else the part's own
    /// share.
    fn ty(&self, value: Value, piece: Piece, positions: &Option<Stretch>) -> ValueType {
        let mut ty = self.module().ty(value).clone();
        if let (Some(axis), ValueType::Tensor(TensorType { shape: Some(dims), .. })) = (piece.axis(), &mut ty)
            && let Some(extent) = dims.get_mut(axis)
        {
            let positions = positions.clone().unwrap_or_else(|| self.positions(extent));
            *extent = positions.count().simplified(&self.module().domain().ranges);
        }
        ty
    }

    /// Returns the value that a part reads for an addend or a value that it needs whole.
    fn whole(&mut self, value: Value) -> Value {
        self.own.get(&value).copied().unwrap_or_else(|| self.weights(value))
    }

    /// Returns the value that a part reads for these positions, or else for its own share: cut out of
    /// its own result, or out of the whole value.
    fn share(&mut self, value: Value, axis: usize, positions: Option<Stretch>) -> Value {
        let spans = self.divided.spans.as_ref();
        match (self.own.get(&value).copied(), positions) {
            (Some(own), Some(wanted)) => {
                let held = spans.and_then(|spans| spans.span(value, self.part)).unwrap_or(wanted.clone());
                self.cut_out(own, axis, &held, wanted)
            }
            (Some(own), None) => own,
            (None, positions) => {
                let extent = self.extent(value, axis);
                let positions = positions.unwrap_or_else(|| self.positions(&extent));
                self.cut_out(value, axis, &Stretch::whole(&extent), positions)
            }
        }
    }

    /// Returns a whole value for this part. A moved form of the caller's data (such as a transposed
    /// weight) is recomputed in each part, so that it is not kept between parts.
    fn weights(&mut self, value: Value) -> Value {
        let Some(node) = self.module().producer(value).filter(|node| self.moves_weights(*node)) else {
            return value;
        };
        let data = self.module().node(node).clone();
        let operands: Vec<_> =
            data.inputs.iter().map(|operand| operand.map(|operand| self.whole(operand))).collect();
        let result = Some((self.name(value), self.module().ty(value).clone()));
        let made = self.append(self.maker.node(data.operator, operands, data.attributes), &[result]);
        let copy = self.module().node(made).results().next().unwrap_or(value);
        self.own.insert(value, copy);
        copy
    }

    /// Returns whether a node only moves constants and graph inputs. Each node that leads to it is
    /// visited once.
    fn moves_weights(&self, node: Node) -> bool {
        let (mut seen, mut open) = (BTreeSet::from([node]), vec![node]);
        while let Some(node) = open.pop() {
            if !self.moves(node) {
                return false;
            }
            let made_by = |value| self.module().producer(value);
            open.extend(
                self.module().node(node).operands().filter_map(made_by).filter(|node| seen.insert(*node)),
            );
        }
        true
    }

    /// Returns whether a node only moves elements, without arithmetic.
    fn moves(&self, node: Node) -> bool {
        let data = self.module().node(node);
        let free =
            lookup(&data.operator).is_some_and(|info| info.moves_elements() && info.repeat == Repeat::Yes);
        free && data.bodies().next().is_none() && data.results().count() == 1
    }

    /// Returns the wanted positions of a value that holds the positions `held`.
    fn cut_out(&mut self, value: Value, axis: usize, held: &Stretch, wanted: Stretch) -> Value {
        if *held == wanted {
            return value;
        }
        let key = (value, axis, wanted.clone());
        if let Some(known) = self.cut.get(&key) {
            return *known;
        }
        let share = self.constant_share(value, axis, &wanted).unwrap_or_else(|| {
            let made = self.repeated(value, axis, &wanted);
            let made = made.unwrap_or_else(|| self.slice(value, axis, &wanted.counted_from(&held.start)));
            self.module().node(made).outputs.first().copied().flatten().unwrap_or(value)
        });
        self.cut.insert(key, share);
        share
    }

    /// Makes a constant from positions of a constant.
    fn constant_share(&mut self, value: Value, axis: usize, wanted: &Stretch) -> Option<Value> {
        let constant = self.maker.module().constant(self.maker.module().constant_of(value)?);
        let share = self.weights.share(constant, axis, wanted.known()?)?;
        Some(self.maker.add_constant(&self.maker.hint(value, &format!("part{}", self.part)), share))
    }

    /// Inserts a node that cuts positions out of a value.
    fn slice(&mut self, value: Value, axis: usize, positions: &Stretch) -> Node {
        let name = self.name(value);
        let made = self.maker.slice(None, value, axis, positions, name);
        self.order.push(made);
        made
    }

    /// Inserts a shorter repetition instead of a cut, if the value is a number or another value repeated
    /// along this axis.
    fn repeated(&mut self, value: Value, axis: usize, wanted: &Stretch) -> Option<Node> {
        let data = self.module().node(self.module().producer(value)?);
        let (operator, attributes) = (data.operator.clone(), data.attributes.clone());
        let source = match &*operator.name {
            "ConstantOfShape" => None,
            "Expand" => {
                let source = data.inputs.first().copied().flatten()?;
                let from = self.module().ty(source).tensor()?.shape.as_deref()?;
                let rank = self.module().ty(value).tensor()?.rank()?;
                let own = (axis + from.len()).checked_sub(rank);
                own.is_none_or(|own| from[own] == Dim::Known(1)).then_some(())?;
                Some(source)
            }
            _ => return None,
        };
        let ty = self.ty(value, Piece::Along(axis), &Some(wanted.clone()));
        let operands = source.into_iter().chain([self.stated(&ty, Piece::Along(axis), &operator)]);
        let (new, result) = (self.maker.node(operator, operands, attributes), Some((self.name(value), ty)));
        Some(self.append(new, &[result]))
    }

    /// Returns a value divided by the number of parts, computed once before all parts.
    fn divided(&mut self, value: Value) -> Value {
        if let Some(known) = self.shared.get(&Shared::Divided(value)) {
            return *known;
        }
        let (name, ty) = (self.name(value), self.module().ty(value).clone());
        let operands = [Some(value), self.reciprocal(value)];
        let made = self.maker.insert(None, self.maker.onnx("Mul", operands, Vec::new()), &[Some((name, ty))]);
        self.once.push(made);
        let result = self.maker.result(made).unwrap_or(value);
        self.shared.insert(Shared::Divided(value), result);
        result
    }

    /// Returns the reciprocal of the number of parts, as a constant of a value's element type.
    fn reciprocal(&mut self, value: Value) -> Option<Value> {
        let element = self.module().ty(value).tensor()?.element;
        let key = Shared::Reciprocal(element.to_string());
        if let Some(known) = self.shared.get(&key) {
            return Some(*known);
        }
        let items = vec![Item::Float(1.0 / self.parts as f64)];
        let constant = self.constant("parts", Data { element, dims: Vec::new(), items })?;
        self.shared.insert(key, constant);
        Some(constant)
    }

    fn constant(&mut self, hint: &str, data: Data) -> Option<Value> {
        let raw = data.to_raw()?;
        Some(self.maker.tensor(hint, TensorType::fixed(data.element, &data.dims), raw))
    }

    /// Joins a part's result with those of earlier parts, for a value that is needed whole.
    fn join(&mut self, whole: Value, own: Value, piece: Piece) {
        if !self.is_needed(whole) {
            return;
        }
        let own = match (piece, self.divided.spans.as_ref().and_then(|spans| spans.span(whole, self.part))) {
            (Piece::Along(axis), Some(held)) => {
                let wanted = self.positions(&self.extent(whole, axis));
                self.cut_out(own, axis, &held, wanted)
            }
            _ => own,
        };
        let given = self.joined.entry(whole).or_default();
        if !piece.is_added() || given.is_empty() {
            given.push(own);
            return;
        }
        let Some(sum) = given.pop() else { return };
        let result = Some((self.name(whole), self.module().ty(whole).clone()));
        let made = self.append(self.maker.onnx("Add", [sum, own], Vec::new()), &[result]);
        let sum = self.module().node(made).results().collect();
        self.joined.insert(whole, sum);
        self.close(whole, piece);
    }

    /// Makes the sum of the last part the whole value.
    fn close(&mut self, whole: Value, piece: Piece) {
        if self.part + 1 < self.parts {
            return;
        }
        let Some(sum) = self.joined.remove(&whole).and_then(|given| given.last().copied()) else { return };
        if piece == Piece::Mean {
            let operands = [Some(sum), self.reciprocal(whole)];
            let mean = self.append(self.maker.onnx("Mul", operands, Vec::new()), &[None]);
            self.maker.move_result(whole, mean, 0);
        } else if let Some(last) = self.module().producer(sum) {
            self.maker.leave_out(last, 0);
            self.maker.move_result(whole, last, 0);
        }
    }

    /// Returns whether a graph output or a node outside the parts reads a value.
    fn is_needed(&self, value: Value) -> bool {
        self.maker.uses(value).iter().any(|site| match site {
            Use::Output(..) => true,
            Use::Operand(node, _) => {
                self.module().node(*node).graph != self.module().main() || self.is_beside(*node)
            }
        })
    }

    /// Returns whether a node is not divided, so that it runs once.
    fn is_beside(&self, node: Node) -> bool {
        !self.divided.nodes.contains_key(&node)
    }

    /// Joins the shares of values that are needed whole, and orders the region: nodes that parts need,
    /// the parts, the remaining nodes.
    fn end(&mut self, around: Around) {
        for (whole, shares) in std::mem::take(&mut self.joined) {
            let made = match self.divided.values.get(&whole) {
                Some(Piece::Along(axis)) => self.maker.concat(None, shares, *axis),
                Some(Piece::Blocks { axis, blocks }) => self.joined_blocks(whole, &shares, *axis, *blocks),
                _ => continue,
            };
            self.order.push(made);
            self.maker.move_result(whole, made, 0);
        }
        self.mark_needed();
        let Around { before, between, behind } = around;
        let (divided, rest): (Vec<Node>, Vec<Node>) =
            between.iter().partition(|node| self.marks.get(**node) == Mark::Divided);
        let (early, late): (Vec<Node>, Vec<Node>) =
            rest.iter().partition(|node| self.marks.get(**node) == Mark::Needed);
        let main = self.module().main();
        // Erased nodes stay at the end of the list, in order of their operands, until the rewriter
        // finishes.
        let (once, parts) = (std::mem::take(&mut self.once), std::mem::take(&mut self.order));
        let extents = self.maker.extent_nodes().to_vec();
        let order = [extents, before, early, once, parts, late, divided.clone(), behind].concat();
        self.maker.set_schedule(main, order);
        for node in divided.into_iter().rev() {
            self.maker.erase(node);
        }
    }

    /// Inserts nodes that join shares of equal blocks of an axis: the blocks are an axis of their own
    /// while the shares are joined.
    fn joined_blocks(&mut self, whole: Value, shares: &[Value], axis: usize, blocks: u64) -> Node {
        let mut apart = Vec::with_capacity(shares.len());
        for share in shares {
            let (ty, name) = (in_blocks(self.module().ty(*share), axis, blocks), self.name(whole));
            apart.push(self.reshaped(*share, (name, ty)));
        }
        let (ty, name) = (in_blocks(self.module().ty(whole), axis, blocks), self.name(whole));
        let apart = apart.into_iter().filter_map(|node| self.maker.result(node));
        let joined = self.maker.onnx("Concat", apart, int("axis", axis as i64 + 1));
        let joined = self.append(joined, &[Some((name, ty))]);
        let joined = self.maker.result(joined).unwrap_or(whole);
        let reshape = self.reshape(joined, &self.module().ty(whole).clone());
        self.maker.insert(None, reshape, &[None])
    }

    /// Inserts a Reshape of a value to the extents of the result's type.
    fn reshaped(&mut self, value: Value, (name, ty): (String, ValueType)) -> Node {
        let reshape = self.reshape(value, &ty);
        self.append(reshape, &[Some((name, ty))])
    }

    fn reshape(&mut self, value: Value, ty: &ValueType) -> NewNode {
        let dims = ty.tensor().and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
        let stated = self.maker.extents(&dims, true);
        self.maker.onnx("Reshape", [value, stated], Vec::new())
    }

    /// Returns an operand that states the extents of a piece's type. A Reshape may derive one of them from
    /// the number of elements: the number of positions, if it may be zero, which would otherwise stand for
    /// the extent of the operand.
    fn stated(&mut self, ty: &ValueType, piece: Piece, operator: &Operator) -> Value {
        let dims = ty.tensor().and_then(|tensor| tensor.shape.clone()).unwrap_or_default();
        let derives = operator.domain.is_empty() && &*operator.name == "Reshape";
        let ranges = &self.module().domain().ranges;
        let may_be_zero =
            |axis: &usize| dims.get(*axis).is_some_and(|dim| !Stretch::whole(dim).has_some(ranges));
        match piece.axis().filter(|axis| derives && may_be_zero(axis)) {
            Some(axis) => self.maker.extents_but(&dims, axis),
            None => self.maker.extents(&dims, derives),
        }
    }

    /// Marks the undivided nodes inside the region on which parts depend.
    fn mark_needed(&mut self) {
        let mut open: Vec<Node> = [&self.once[..], &self.order[..]].concat();
        while let Some(node) = open.pop() {
            for value in self.module().reads(node) {
                if let Some(before) =
                    self.module().producer(value).filter(|before| self.marks.get(*before) == Mark::Between)
                {
                    self.marks.set(before, Mark::Needed);
                    open.push(before);
                }
            }
        }
    }

    /// Appends a new node to the present part.
    fn append(&mut self, new: NewNode, results: &[Option<(String, ValueType)>]) -> Node {
        let made = self.maker.insert(None, new, results);
        self.order.push(made);
        made
    }
}

/// Splits a type's axis into two: the blocks, and the positions of a block.
fn in_blocks(ty: &ValueType, axis: usize, blocks: u64) -> ValueType {
    let mut ty = ty.clone();
    if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty
        && let Some(Dim::Known(extent)) = dims.get_mut(axis)
    {
        *extent /= blocks.max(1);
        dims.insert(axis, Dim::Known(blocks));
    }
    ty
}
