//! `rows`: computes only the positions of each axis that some reader needs.

mod seeds;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Dim, DimExpr, Module, Node, NodeData, SecondaryMap, Stage, TensorType, Value, ValueType};
use memc_ops::{
    Item, Piece, Pieces, SplitAxes, Stretch, Typed, View, feeds_unrepeatable, lookup, pieces_giving,
    pieces_reaching, repeatable, rests_on_defaults,
};

use crate::analysis::windows::KnownData;
use crate::parts::Unrounded;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "rows",
    summary: "Computes only the positions of each axis that some reader needs.",
    page: include_str!("../../doc/rows.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// Maximum number of analyses. Each one leaves out the nodes that would copy more than they save.
const ROUNDS: usize = 8;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let mut left_out = BTreeSet::new();
    let mut steps = BTreeMap::new();
    for round in 0..ROUNDS {
        let analysis = Analysis::of(module, ctx, &left_out);
        let wasteful = analysis.wasteful();
        steps = analysis.steps;
        if wasteful.is_empty() {
            break;
        }
        left_out.extend(wasteful);
        if round + 1 == ROUNDS {
            return Ok(Changed::No);
        }
    }
    let edits = write::write(module, &steps);
    if edits > 0 {
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Positions of each axis; `None` for all positions of an axis.
type Wants = Vec<Option<Stretch>>;

/// Returns whether all positions of all axes are wanted.
fn is_all(wants: &Wants) -> bool {
    wants.iter().all(Option::is_none)
}

/// Returns the type of these positions of a value.
fn narrowed(module: &Module, value: Value, wants: &Wants) -> ValueType {
    let mut ty = module.ty(value).clone();
    if let ValueType::Tensor(TensorType { shape: Some(dims), .. }) = &mut ty {
        for (extent, want) in dims.iter_mut().zip(wants) {
            if let Some(want) = want {
                *extent = want.count().simplified(&module.domain().ranges);
            }
        }
    }
    ty
}

/// What the readers of a value need.
#[derive(Clone, PartialEq, Debug, Default)]
enum Need {
    /// Nobody reads the value.
    #[default]
    Unread,
    /// Some positions.
    Part(Wants),
    /// The whole value.
    Whole,
}

/// How a node makes some positions of its results from some positions of its operands.
#[derive(Clone, Debug)]
struct Step {
    /// Positions of each result that are made.
    made: Vec<Wants>,
    /// Positions of each operand that are read; empty for operands that are read whole.
    reads: Vec<Wants>,
    how: How,
}

/// The node that makes the positions.
#[derive(Clone, Debug)]
enum How {
    /// The same operator, with other pads if given. The operand at the position, if given, states the
    /// extents of the result.
    Node { pads: Option<Vec<i64>>, extents: Option<usize> },
    /// None: each result consists of positions of operand 0.
    Cut(Vec<Wants>),
    /// None: the result has the elements of operand 0 under other extents.
    Shape,
    /// The same operator with these integers as operand 1, with their extents.
    Integers(Vec<u64>, Vec<i64>),
    /// The same operator with the operands at these positions.
    Some(Vec<usize>),
}

/// The backward analysis of one module.
struct Analysis<'m> {
    module: &'m Module,
    data: &'m KnownData,
    exact: bool,
    kept: SecondaryMap<Node, bool>,
    rests: SecondaryMap<Value, bool>,
    unrounded: Unrounded,
    needs: SecondaryMap<Value, Need>,
    steps: BTreeMap<Node, Step>,
}

impl<'m> Analysis<'m> {
    /// Follows the needs of all readers backward. `left_out` names nodes that make all positions. Linear in
    /// nodes, apart from those of which only some positions are needed.
    fn of(module: &'m Module, ctx: &'m PassContext<'_>, left_out: &BTreeSet<Node>) -> Self {
        let nodes = &module.graph(module.main()).nodes;
        let mut analysis = Self {
            module,
            data: &ctx.data,
            exact: ctx.options.rewrite.exact,
            kept: feeds_unrepeatable(module, nodes),
            rests: rests_on_defaults(module),
            unrounded: Unrounded::of(module, ctx.options.profile),
            needs: SecondaryMap::default(),
            steps: BTreeMap::new(),
        };
        for output in &module.graph(module.main()).outputs {
            analysis.needs.set(*output, Need::Whole);
        }
        for node in nodes.iter().rev() {
            let step = if left_out.contains(node) { None } else { analysis.step(*node) };
            let Some(step) = step else {
                for value in module.reads(*node) {
                    analysis.needs.set(value, Need::Whole);
                }
                continue;
            };
            for (position, (operand, wants)) in module.node(*node).inputs.iter().zip(&step.reads).enumerate()
            {
                let is_read = !matches!(&step.how, How::Some(kept) if !kept.contains(&position));
                if let Some(operand) = operand.filter(|_| is_read) {
                    analysis.need(operand, wants);
                }
            }
            analysis.steps.insert(*node, step);
        }
        analysis
    }

    /// Adds the needs of one reader.
    fn need(&mut self, value: Value, wants: &Wants) {
        let ranges = &self.module.domain().ranges;
        let merged = match &self.needs[value] {
            Need::Whole => return,
            Need::Unread => wants.clone(),
            Need::Part(known) if known.len() == wants.len() => {
                let both =
                    |(a, b): (&Option<Stretch>, &Option<Stretch>)| a.as_ref()?.hull(b.as_ref()?, ranges);
                known.iter().zip(wants).map(both).collect()
            }
            Need::Part(_) => Vec::new(),
        };
        let merged = self.without_all(value, merged);
        self.needs.set(value, if is_all(&merged) { Need::Whole } else { Need::Part(merged) });
    }

    /// Replaces stretches that cover an axis by `None`.
    fn without_all(&self, value: Value, wants: Wants) -> Wants {
        let Some(dims) = self.dims(value) else { return Vec::new() };
        let covers = |(want, extent): (Option<Stretch>, &Dim)| want.filter(|want| !want.count().same(extent));
        wants.into_iter().zip(dims).map(covers).collect()
    }

    fn dims(&self, value: Value) -> Option<&'m [Dim]> {
        self.module.ty(value).tensor()?.shape.as_deref()
    }

    fn typed(&self, node: Node) -> Typed<'m> {
        if self.module.domain().is_empty() {
            Typed::of(self.module, node)
        } else {
            Typed::largest(self.module, node)
        }
    }

    /// Returns whether a node must stay as it is.
    fn stays(&self, node: Node) -> bool {
        let data = self.module.node(node);
        let values = || data.operands().chain(data.results());
        let is_odd = |value: Value| {
            self.rests[value]
                || self.unrounded.holds(value)
                || self.dims(value).is_none_or(|dims| dims.iter().any(Dim::is_open))
        };
        self.kept[node]
            || !repeatable(self.module, node)
            || self.module.misfits.contains(&node)
            || data.bodies().next().is_some()
            || data.recompute_of.is_some()
            || values().any(is_odd)
            || data.results().any(|value| self.data[value].is_some())
    }

    /// Returns how a node makes the needed positions of its results; `None` if it reads whole operands.
    fn step(&self, node: Node) -> Option<Step> {
        let data = self.module.node(node);
        let first = data.outputs.first().copied().flatten();
        let is_plain = |value: Value| self.needs[value] == Need::Whole;
        let may_cut = data.operator.domain.is_empty()
            && matches!(&*data.operator.name, "Slice" | "Split" | "Gather" | "GatherND");
        if self.stays(node) || (!may_cut && first.is_none_or(is_plain)) {
            return None;
        }
        let step = match seeds::step(self, node) {
            Some(step) => step?,
            None => self.same_positions(node)?,
        };
        let reads_part = step.reads.iter().any(|wants| !is_all(wants));
        (reads_part || matches!(step.how, How::Some(_))).then_some(step)
    }

    /// Returns the needed positions of result 0, or of all read results if they have equal extents.
    fn wanted(&self, node: Node) -> Option<Wants> {
        let data = self.module.node(node);
        let first = data.outputs.first().copied().flatten()?;
        let dims = self.dims(first)?;
        let mut wanted: Option<Wants> = None;
        for value in data.results() {
            if self.dims(value) != Some(dims) {
                return None;
            }
            let own = match &self.needs[value] {
                Need::Unread => continue,
                Need::Whole => return None,
                Need::Part(own) => own,
            };
            let ranges = &self.module.domain().ranges;
            let both = |(a, b): (&Option<Stretch>, &Option<Stretch>)| a.as_ref()?.hull(b.as_ref()?, ranges);
            wanted = Some(match wanted {
                None => own.clone(),
                Some(known) => known.iter().zip(own).map(both).collect(),
            });
        }
        wanted
    }

    /// Handles nodes that compute positions of an axis from positions of operands, as the operator table
    /// states.
    fn same_positions(&self, node: Node) -> Option<Step> {
        let (data, typed, ranges) = (self.module.node(node), self.typed(node), &self.module.domain().ranges);
        let info = lookup(&data.operator)?;
        if (self.exact && !info.moves_elements()) || matches!(info.split, SplitAxes::None) {
            return None;
        }
        let wanted = self.wanted(node)?;
        let dims = self.dims(data.outputs.first().copied().flatten()?)?;
        let operand_dims: Vec<&[Dim]> = data
            .inputs
            .iter()
            .map(|value| value.and_then(|value| self.dims(value)).unwrap_or_default())
            .collect();
        let mut made: Wants = vec![None; dims.len()];
        let mut reads: Vec<Wants> = operand_dims.iter().map(|dims| vec![None; dims.len()]).collect();
        let (mut pads, mut extents) = (None::<Vec<i64>>, None);
        for (axis, want) in wanted.iter().enumerate() {
            let Some(want) = want.as_ref().filter(|want| want.has_some(ranges)) else { continue };
            let Some(found) = pieces_giving(typed, axis, |operands| pieces_reaching(typed, operands)) else {
                continue;
            };
            if !self.is_plain(node, &found, axis, &operand_dims) {
                continue;
            }
            let taken = match &found.reach {
                None => None,
                Some(reach) => {
                    let from = operand_dims.first().and_then(|dims| dims.get(axis));
                    let Some(taken) = from.and_then(|from| reach.of(want, from, &dims[axis], ranges)) else {
                        continue;
                    };
                    Some(taken)
                }
            };
            let own = taken.as_ref().map_or(want, |taken| &taken.made);
            if own.count().same(&dims[axis]) {
                continue;
            }
            for (operand, piece) in found.operands.iter().enumerate() {
                if let Piece::Along(at) = piece {
                    let reach = taken.as_ref().filter(|_| operand == 0).map(|taken| &taken.operand);
                    *reads[operand].get_mut(*at)? = Some(reach.unwrap_or(own).clone());
                }
            }
            if let Some(new) = taken.as_ref().and_then(|taken| taken.pads.clone()) {
                pads = Some(match pads {
                    None => new,
                    Some(known) => joined(&known, &new, axis.checked_sub(2)?)?,
                });
            }
            extents = extents.or(found.extents);
            made[axis] = Some(own.clone());
        }
        if is_all(&made) {
            return None;
        }
        for (value, reads) in data.inputs.iter().zip(&mut reads) {
            if let Some(value) = value {
                *reads = self.without_all(*value, std::mem::take(reads));
            }
        }
        Some(Step { made: vec![made; data.outputs.len()], reads, how: How::Node { pads, extents } })
    }

    /// Returns whether results have shares of an axis alone, and equal symbols stand for its extent in all
    /// operands.
    fn is_plain(&self, node: Node, found: &Pieces, axis: usize, operands: &[&[Dim]]) -> bool {
        let data = self.module.node(node);
        let Some(dims) = data.outputs.first().copied().flatten().and_then(|value| self.dims(value)) else {
            return false;
        };
        let is_own =
            |index: usize| data.outputs[index].is_none() || found.results[index] == Piece::Along(axis);
        let is_same = |(operand, piece): (usize, &Piece)| match piece {
            Piece::Whole => true,
            Piece::Along(at) => {
                let reaches = found.reach.is_some() && operand == 0;
                operands[operand].get(*at).is_some_and(|extent| reaches || extent.same(&dims[axis]))
            }
            _ => false,
        };
        let is_reshape = lookup(&data.operator).is_some_and(|info| info.view == View::Reshape);
        let before = |(operand, piece): (usize, &Piece)| match piece {
            Piece::Along(at) => product(&operands[operand][..*at]).same(&product(&dims[..axis])),
            _ => true,
        };
        (0..found.results.len()).all(is_own)
            && found.operands.iter().enumerate().all(is_same)
            && (!is_reshape || found.operands.iter().enumerate().all(before))
            && found.divided.is_none()
            && found.count.is_none()
            && found.accumulates.is_none()
    }

    /// Returns the elements of a small tensor of integers, as expressions.
    fn integers(&self, value: Value) -> Option<Vec<DimExpr>> {
        let constant =
            || memc_ops::Data::from_constant(self.module.constant(self.module.constant_of(value)?));
        let data = self.data[value].as_deref().cloned().or_else(constant)?;
        data.items.iter().map(Item::expr).collect()
    }

    /// Size in bytes of these positions of a value, at the largest extents.
    fn bytes(&self, value: Value, wants: &Wants) -> u64 {
        let Some(ty) = self.module.largest(value) else { return u64::MAX };
        let ranges = &self.module.domain().ranges;
        let ratio = |(extent, want): (&Dim, &Option<Stretch>)| {
            let all = extent.known().unwrap_or(1).max(1);
            let own = want.as_ref().and_then(|want| want.count().simplified(ranges).known()).unwrap_or(all);
            own.min(all) as f64 / all as f64
        };
        let dims = ty.shape.as_deref().unwrap_or_default();
        let share: f64 = dims.iter().zip(wants).map(ratio).product();
        ty.size().map_or(u64::MAX, |size| (size.0 as f64 * share) as u64)
    }

    /// Returns the positions of a value that are at hand: those that its node makes.
    fn at_hand(&self, value: Value) -> Wants {
        let rank = self.dims(value).map_or(0, <[Dim]>::len);
        let whole = vec![None; rank];
        let Some(node) = self.module.producer(value) else { return whole };
        let position = self.module.node(node).outputs.iter().position(|result| *result == Some(value));
        self.steps
            .get(&node)
            .zip(position)
            .and_then(|(step, position)| step.made.get(position).cloned())
            .unwrap_or(whole)
    }

    /// Returns the nodes for which operands would be copied that have more bytes than the results save.
    fn wasteful(&self) -> Vec<Node> {
        let is_wasteful = |(node, step): &(&Node, &Step)| {
            let data = self.module.node(**node);
            if matches!(step.how, How::Cut(_)) || !changes(data, step, &|value| !is_all(&self.at_hand(value)))
            {
                return false;
            }
            let copied = data.inputs.iter().zip(&step.reads).map(|(operand, wants)| match operand {
                Some(operand) if !wants.is_empty() && *wants != self.at_hand(*operand) => {
                    self.bytes(*operand, wants)
                }
                _ => 0,
            });
            let saved = data.outputs.iter().zip(&step.made).map(|(result, made)| match result {
                Some(result) => self.bytes(*result, &Vec::new()).saturating_sub(self.bytes(*result, made)),
                None => 0,
            });
            let copied: u64 = copied.fold(0, u64::saturating_add);
            copied > 0 && copied >= saved.fold(0, u64::saturating_add)
        };
        self.steps.iter().filter(is_wasteful).map(|(node, _)| *node).collect()
    }
}

/// Returns whether a node changes: it makes fewer positions, or reads an operand of which fewer positions
/// are made.
fn changes(data: &NodeData, step: &Step, is_narrow: &dyn Fn(Value) -> bool) -> bool {
    step.made.iter().zip(&data.outputs).any(|(made, result)| result.is_some() && !is_all(made))
        || data.inputs.iter().flatten().any(|value| is_narrow(*value))
}

/// Puts the pads of one spatial axis into those of others.
fn joined(known: &[i64], new: &[i64], spatial: usize) -> Option<Vec<i64>> {
    let (mut pads, half) = (known.to_vec(), known.len() / 2);
    *pads.get_mut(spatial)? = *new.get(spatial)?;
    *pads.get_mut(spatial + half)? = *new.get(spatial + half)?;
    Some(pads)
}

fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Known(1), |product, extent| product.mul(extent))
}
