//! Finds the values of an attention core that are computed in blocks of rows: scores, probabilities and
//! their gradients, with the nodes that make and read them.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Module, Node, NodeData, Rewriter, TensorType, Use, Value};
use memc_ops::{AtZero, Data, Item, Repeat, Tables, lookup, normalize_axis};

use super::mask::{Blocks, extents};
use super::product::{Product, Sum};

/// Maximum number of values that are found to be needed whole before a core is given up.
const MAX_WHOLE: usize = 16;
/// Maximum number of nodes of a core.
const MAX_NODES: usize = 256;

/// How a value of a core lies in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Rows and columns on the last two axes: blocks have rows and columns of their own.
    Grid,
    /// The transpose of a grid.
    Turned,
    /// One number for each row: blocks have rows of their own.
    Column,
}

/// How a node of a core is written in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Makes a grid as a product of whole values.
    Source,
    /// Makes a block of its result from blocks of its operands.
    Copy,
    /// A copy that states the extents of its result in operand 1.
    Reshape,
    /// Multiplies a grid by a whole value and sums over columns or rows of the grid.
    Sink(Sum),
}

/// Nodes and values of one attention core.
#[derive(Debug, Default)]
pub(super) struct Core {
    /// Nodes with their roles.
    pub(super) nodes: BTreeMap<Node, Role>,
    /// Values that are made in blocks.
    pub(super) kinds: BTreeMap<Value, Kind>,
    /// Grids that other nodes read whole: their blocks are joined, with zeros around them.
    pub(super) restored: BTreeSet<Value>,
}

/// Returns the core around a Softmax over masked scores; `None` if elements outside of the blocks are
/// not zero where they are summed, or where another node reads them. With `exact`, no sum over rows is
/// divided into blocks: a kernel would add in another order.
pub(super) fn core(
    rewriter: &Rewriter<'_>,
    tables: &mut Tables<'_>,
    seed: Node,
    blocks: &Blocks,
    exact: bool,
) -> Option<Core> {
    // Joining a grid costs a copy: first look for a core without one.
    [false, true].into_iter().find_map(|restores| {
        let mut whole = BTreeSet::new();
        loop {
            let (core, open) = (Core::default(), Vec::new());
            let extents = blocks.extents;
            let mut search =
                Search { rewriter, tables, seed, extents, exact, restores, whole: &whole, core, open };
            match search.run() {
                Ok(()) => {
                    let core = search.core;
                    return zeros_hold(rewriter.module(), &core, seed).then_some(core);
                }
                Err(value) if whole.len() < MAX_WHOLE && whole.insert(value) => {}
                Err(_) => return None,
            }
        }
    })
}

/// Search for the nodes of a core. Functions return the value that must be whole as an error.
struct Search<'s, 'm, 't> {
    rewriter: &'s Rewriter<'m>,
    tables: &'s mut Tables<'t>,
    seed: Node,
    extents: [u64; 2],
    /// Whether no sum over rows may be divided.
    exact: bool,
    /// Whether grids that other nodes read may be restored.
    restores: bool,
    /// Values that are whole, from earlier runs.
    whole: &'s BTreeSet<Value>,
    core: Core,
    /// Values whose producer and readers are still to be examined.
    open: Vec<Value>,
}

impl Search<'_, '_, '_> {
    fn run(&mut self) -> Result<(), Value> {
        let data = self.module().node(self.seed).clone();
        self.core.nodes.insert(self.seed, Role::Copy);
        for value in data.operands().chain(data.results()) {
            self.take(value, Kind::Grid)?;
        }
        while let Some(value) = self.open.pop() {
            let kind = self.core.kinds[&value];
            self.made(value, kind)?;
            self.read(value, kind)?;
            if self.core.nodes.len() > MAX_NODES {
                return Err(value);
            }
        }
        self.whole_operands()
    }

    /// Checks that sources multiply whole values only, and that sinks multiply a grid by a whole value.
    fn whole_operands(&self) -> Result<(), Value> {
        for (node, role) in &self.core.nodes {
            let is_whole = |position: usize| match role {
                Role::Source => true,
                Role::Sink(sum) => position != sum.grid,
                Role::Copy | Role::Reshape => false,
            };
            for (position, value) in self.module().node(*node).operands().enumerate() {
                if is_whole(position) && self.core.kinds.contains_key(&value) {
                    return Err(value);
                }
            }
        }
        Ok(())
    }

    fn module(&self) -> &Module {
        self.rewriter.module()
    }

    /// Adds a value to the core.
    fn take(&mut self, value: Value, kind: Kind) -> Result<(), Value> {
        let fits = match kind {
            Kind::Grid => extents(self.module(), value) == Some(self.extents),
            Kind::Turned => extents(self.module(), value) == Some([self.extents[1], self.extents[0]]),
            Kind::Column => extents(self.module(), value) == Some([self.extents[0], 1]),
        };
        if self.whole.contains(&value) || !fits {
            return Err(value);
        }
        match self.core.kinds.insert(value, kind) {
            None => self.open.push(value),
            Some(known) if known != kind => return Err(value),
            Some(_) => {}
        }
        Ok(())
    }

    /// Adds the node that makes a value.
    fn made(&mut self, value: Value, kind: Kind) -> Result<(), Value> {
        let node = self.module().producer(value).ok_or(value)?;
        if self.core.nodes.contains_key(&node) {
            return Ok(());
        }
        let data = self.module().node(node).clone();
        if data.graph != self.module().main() || data.results().count() != 1 {
            return Err(value);
        }
        if kind == Kind::Grid && Product::of(self.module(), node).is_some() {
            self.core.nodes.insert(node, Role::Source);
            return Ok(());
        }
        self.copied(node, &data).ok_or(value)?
    }

    /// Adds the nodes that read a value, or marks it for other readers.
    fn read(&mut self, value: Value, kind: Kind) -> Result<(), Value> {
        for site in self.rewriter.uses(value).to_vec() {
            match self.reader(value, kind, site) {
                Err(whole) if whole == value && kind == Kind::Grid && self.may_restore(value, site) => {
                    self.core.restored.insert(value);
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Returns whether a reader may read the joined blocks of a grid. Zeros around the blocks are
    /// positive, as those of probabilities; those of gradients may be negative, which changes no bit
    /// of a product.
    fn may_restore(&self, value: Value, site: Use) -> bool {
        let module = self.module();
        let is_product = |node: Node| {
            Product::of(module, node).is_some()
                || &*module.node(node).operator.name == "Transpose"
                    && module
                        .node(node)
                        .results()
                        .flat_map(|result| self.rewriter.uses(result))
                        .all(|site| matches!(site, Use::Operand(reader, _) if Product::of(module, *reader).is_some()))
        };
        let keeps_bits = match site {
            Use::Operand(node, _) => is_product(node),
            Use::Output(..) => false,
        };
        self.restores && (!self.exact || keeps_bits || module.producer(value) == Some(self.seed))
    }

    /// Adds a node that reads a value; fails with this value if the node must read it whole.
    fn reader(&mut self, value: Value, kind: Kind, site: Use) -> Result<(), Value> {
        let Use::Operand(node, position) = site else { return Err(value) };
        if self.core.nodes.contains_key(&node) {
            return Ok(());
        }
        let data = self.module().node(node).clone();
        let is_whole = data.results().any(|result| self.whole.contains(&result));
        if data.graph != self.module().main() || data.results().count() != 1 || is_whole {
            return Err(value);
        }
        match Product::of(self.module(), node) {
            Some(product) if kind != Kind::Column => {
                let sum = product.sum(position as usize, kind == Kind::Turned).ok_or(value)?;
                if self.exact && !sum.over_columns {
                    return Err(value);
                }
                self.core.nodes.insert(node, Role::Sink(sum));
                Ok(())
            }
            _ => self.copied(node, &data).ok_or(value)?,
        }
    }

    /// Adds a node that is copied for each block, with its operands and its result; `None` if the node
    /// has no such form.
    fn copied(&mut self, node: Node, data: &NodeData) -> Option<Result<(), Value>> {
        let result = data.results().next()?;
        let first = data.inputs.first().copied().flatten()?;
        let rank = self.module().ty(result).tensor()?.rank()?;
        let name = (&*data.operator.domain, &*data.operator.name);
        let on_last_axis = |default: i64| normalize_axis(data.int("axis", default), rank) == Some(rank - 1);
        let (role, operands, kind) = match name {
            ("com.microsoft", "SoftmaxGrad" | "SoftmaxGrad_13") if on_last_axis(-1) => {
                let second = data.inputs.get(1).copied().flatten()?;
                (Role::Copy, vec![(first, Kind::Grid), (second, Kind::Grid)], Kind::Grid)
            }
            ("", "ReduceSum") if self.sums_rows(data, first) => {
                (Role::Copy, vec![(first, Kind::Grid)], Kind::Column)
            }
            ("", "Reshape") if extents(self.module(), first) == extents(self.module(), result) => {
                let known = |value: Value| self.core.kinds.get(&value).copied();
                let kind = known(result).or(known(first)).or(self.kind_of(result))?;
                (Role::Reshape, vec![(first, kind)], kind)
            }
            ("", "Transpose") if turns(data, rank) => (Role::Copy, vec![(first, Kind::Grid)], Kind::Turned),
            _ => {
                let kind = self.kind_of(result).filter(|_| is_element_wise(data))?;
                (Role::Copy, self.element_wise(data, kind)?, kind)
            }
        };
        self.core.nodes.insert(node, role);
        let mut all = operands.into_iter().chain([(result, kind)]);
        Some(all.try_for_each(|(value, kind)| self.take(value, kind)))
    }

    /// Returns the kind of a value by its extents.
    fn kind_of(&self, value: Value) -> Option<Kind> {
        match extents(self.module(), value)? {
            own if own == self.extents => Some(Kind::Grid),
            [rows, 1] if rows == self.extents[0] => Some(Kind::Column),
            _ => None,
        }
    }

    /// Returns the operands of an element-wise node that are in blocks; whole operands are cut. `None`
    /// if an operand has other extents than the result.
    fn element_wise(&mut self, data: &NodeData, kind: Kind) -> Option<Vec<(Value, Kind)>> {
        let mut found = Vec::new();
        for value in data.operands() {
            let rank = self.module().ty(value).tensor()?.rank()?;
            if rank < 2 || extents(self.module(), value).is_some_and(|[rows, _]| rows == 1) {
                continue;
            }
            let own = self.kind_of(value)?;
            if kind == Kind::Column && own != kind {
                return None;
            }
            if self.core.kinds.contains_key(&value) || self.may_be_made(value) {
                found.push((value, own));
            }
        }
        Some(found)
    }

    /// Returns whether an operand may be made in blocks rather than cut: it is no constant, and its
    /// maker has no reader for which it must be whole.
    fn may_be_made(&mut self, value: Value) -> bool {
        !self.whole.contains(&value)
            && self.module().producer(value).is_some()
            && self.tables.table(value).is_none()
    }

    /// Returns whether a ReduceSum sums each row of its operand to one number.
    fn sums_rows(&self, data: &NodeData, operand: Value) -> bool {
        let rank = self.module().ty(operand).tensor().and_then(TensorType::rank).unwrap_or_default();
        let axes = match data.inputs.get(1).copied().flatten() {
            Some(axes) => self.module().constant_of(axes).and_then(|axes| {
                Data::from_constant(self.module().constant(axes)).and_then(|data| data.known_ints())
            }),
            None => data.ints("axes").map(<[i64]>::to_vec),
        };
        let is_last = axes.is_some_and(
            |axes| matches!(axes[..], [axis] if normalize_axis(axis, rank) == rank.checked_sub(1)),
        );
        is_last && data.int("keepdims", 1) == 1
    }
}

/// Returns whether a Transpose exchanges the last two axes and nothing more.
fn turns(data: &NodeData, rank: usize) -> bool {
    let Some(order) = data.ints("perm").filter(|order| order.len() == rank && rank >= 2) else {
        return rank == 2;
    };
    let is_own = |axis: usize| order[axis] == axis as i64;
    (0..rank - 2).all(is_own) && order[rank - 2] == rank as i64 - 1 && order[rank - 1] == rank as i64 - 2
}

/// Element-wise operators of attention cores: scaling, masking, dropout and their gradients.
const ELEMENT_WISE: [&str; 15] = [
    "Add",
    "And",
    "Cast",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "Less",
    "LessOrEqual",
    "Mul",
    "Neg",
    "Not",
    "Sub",
    "Where",
];

fn is_element_wise(data: &NodeData) -> bool {
    let is_known = data.operator.domain.is_empty() && ELEMENT_WISE.contains(&&*data.operator.name);
    is_known && lookup(&data.operator).is_some_and(|info| info.repeat == Repeat::Yes)
}

/// Returns whether all elements outside of the blocks are zero wherever a node sums them or reads them
/// whole.
fn zeros_hold(module: &Module, core: &Core, seed: Node) -> bool {
    let mut zero: BTreeSet<Value> = BTreeSet::new();
    for node in module.graph(module.main()).nodes.iter().filter(|node| core.nodes.contains_key(node)) {
        let data = module.node(*node);
        let holds =
            |value: Value| zero.contains(&value) || constant_is(module, value, |number| number == 0.0);
        let is_zero = |index: usize| data.inputs.get(index).copied().flatten().is_some_and(holds);
        let keeps = match core.nodes.get(node) {
            Some(Role::Sink(_)) => {
                if !is_zero(0) && !is_zero(1) {
                    return false;
                }
                continue;
            }
            Some(Role::Source) | None => false,
            Some(Role::Reshape) => is_zero(0),
            Some(Role::Copy) if *node == seed => true,
            Some(Role::Copy) => match &*data.operator.name {
                "ReduceSum" if !is_zero(0) => return false,
                "ReduceSum" => false,
                // The gradient of a probability that is zero is zero.
                "SoftmaxGrad" | "SoftmaxGrad_13" if !is_zero(1) => return false,
                "SoftmaxGrad" | "SoftmaxGrad_13" => true,
                "Transpose" | "Cast" => is_zero(0),
                "Mul" => is_zero(0) || is_zero(1),
                "Div" => {
                    is_zero(0)
                        && data
                            .inputs
                            .get(1)
                            .copied()
                            .flatten()
                            .is_some_and(|value| constant_is(module, value, |number| number.abs() > 0.0))
                }
                "Where" => is_zero(1) && is_zero(2),
                _ => {
                    let at_zero =
                        lookup(&data.operator).and_then(|info| info.algebra).map(|algebra| algebra.at_zero);
                    at_zero == Some(AtZero::Zero) && (0..data.inputs.len()).all(is_zero)
                }
            },
        };
        zero.extend(data.results().filter(|_| keeps));
    }
    core.restored.is_subset(&zero)
}

/// Returns whether all elements of a small floating-point constant have a property.
fn constant_is(module: &Module, value: Value, holds: impl Fn(f64) -> bool) -> bool {
    let Some(constant) = module.constant_of(value) else { return false };
    let data = Data::from_constant(module.constant(constant));
    data.is_some_and(|data| {
        data.items.iter().all(|item| matches!(item, Item::Float(number) if holds(*number)))
    })
}
