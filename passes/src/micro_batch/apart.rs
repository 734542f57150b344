//! Rows of a free batch that no node joins: each row of the outputs follows from the same row of the inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{DimExpr, Module, Node, SecondaryMap, Value};
use memc_ops::{Data, Item, Piece, Pieces, Profile, Reads, lookup, repeatable};

use super::division::{Batch, Division};
use crate::parts::Probes;

/// Number of parts to ask for: with fewer rows, a part is the whole.
const PARTS: u64 = 2;

/// How a value follows the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// It has a row, or several, along this axis for each position.
    Rows(usize),
    /// Its elements are extents, among them that of the batch.
    Extent,
}

/// Returns whether each output of a module has a row along its first axis for each position of a free batch,
/// and no node computes a row from others. `data` has the known elements of values. Linear in the nodes.
pub fn are_apart(
    module: &Module,
    data: &SecondaryMap<Value, Option<Arc<Data>>>,
    profile: &Profile,
    batch: &DimExpr,
) -> bool {
    let Some(long) = at_least(module, batch, PARTS) else { return false };
    let probes = Probes::of(&long);
    let free = Batch::Free(batch.clone());
    let division = Division::of(&long, profile, &probes, &free, PARTS);
    let main = module.graph(module.main());
    let mut walk = Walk { module, data, batch, division, follows: BTreeMap::new() };
    let inputs: Vec<Value> = main.inputs.iter().copied().filter(|input| walk.has_batch(*input)).collect();
    walk.follows = inputs.into_iter().map(|input| (input, Follows::Rows(0))).collect();
    let is_followed = main.nodes.iter().all(|node| repeatable(module, *node) && walk.follow(*node).is_some());
    is_followed && main.outputs.iter().all(|output| walk.follows.get(output) == Some(&Follows::Rows(0)))
}

/// Returns a copy of a module of which a batch has at least `rows` rows; `None` if it never has as many.
fn at_least(module: &Module, batch: &DimExpr, rows: u64) -> Option<Module> {
    let mut domain = module.domain().clone();
    let range = domain.ranges.get_mut(batch.as_symbol()?)?;
    range.min =
        (range.min..).step_by(usize::try_from(range.step.max(1)).ok()?).find(|extent| *extent >= rows)?;
    range.max.is_none_or(|most| most >= range.min).then_some(())?;
    let mut long = module.clone();
    long.set_domain(domain);
    Some(long)
}

/// One walk over the nodes, in order.
struct Walk<'m> {
    module: &'m Module,
    data: &'m SecondaryMap<Value, Option<Arc<Data>>>,
    batch: &'m DimExpr,
    division: Division<'m>,
    /// Values that follow the batch.
    follows: BTreeMap<Value, Follows>,
}

impl Walk<'_> {
    /// Notes how the results of a node follow the batch; `None` if they may join rows.
    fn follow(&mut self, node: Node) -> Option<()> {
        let data = self.module.node(node);
        let reads_rows = |value: &Option<Value>| {
            matches!(value.map(|value| self.follows.get(&value)), Some(Some(Follows::Rows(_))))
        };
        let reads_extents = lookup(&data.operator).is_some_and(|info| info.reads == Reads::Extents);
        if reads_extents || !data.inputs.iter().any(reads_rows) {
            return data.results().try_for_each(|value| self.computed(node, value));
        }
        let pieces = self.pieces(node)?;
        for (value, piece) in data.outputs.iter().zip(&pieces.results) {
            match (value, piece) {
                (Some(value), Piece::Along(axis)) => _ = self.follows.insert(*value, Follows::Rows(*axis)),
                (Some(_), _) => return None,
                (None, _) => (),
            }
        }
        Some(())
    }

    /// Notes a result of a node that reads no rows: it must have no axis that follows the batch, and all
    /// elements must be known if they may.
    fn computed(&mut self, node: Node, value: Value) -> Option<()> {
        if let Some(items) = self.data[value]
            .as_ref()
            .and_then(|data| data.items.iter().map(Item::expr).collect::<Option<Vec<_>>>())
        {
            if items.iter().any(|item| self.has(item)) {
                self.follows.insert(value, Follows::Extent);
            }
            return (!self.has_batch(value)).then_some(());
        }
        let reads_batch =
            self.module.node(node).operands().any(|operand| self.follows.contains_key(&operand));
        (!reads_batch && !self.has_batch(value)).then_some(())
    }

    /// Returns the pieces of a node that reads rows; `None` if it joins them, or computes with the extent of
    /// the batch.
    fn pieces(&self, node: Node) -> Option<Pieces> {
        let data = self.module.node(node);
        let states_extents =
            matches!(&*data.operator.name, "Reshape" | "Expand") && data.operator.domain.is_empty();
        let piece = |(position, value): (usize, &Option<Value>)| match value
            .and_then(|value| self.follows.get(&value))
        {
            Some(Follows::Rows(axis)) => Some(Piece::Along(*axis)),
            Some(Follows::Extent) => (states_extents && position == 1).then_some(Piece::Whole),
            None => Some(Piece::Whole),
        };
        let operands: Vec<Piece> = data.inputs.iter().enumerate().map(piece).collect::<Option<_>>()?;
        let found = self.division.pieces(node, &operands)?;
        (found.operands == operands).then_some(found)
    }

    /// Returns whether an extent of a value follows the batch, or may.
    fn has_batch(&self, value: Value) -> bool {
        let Some(tensor) = self.module.ty(value).tensor().filter(|tensor| tensor.shape.is_some()) else {
            return true;
        };
        let dims = tensor.shape.as_deref().unwrap_or_default();
        dims.iter()
            .any(|dim| dim.known().is_none() && dim.upper_expr().is_none_or(|extent| self.has(&extent)))
    }

    /// Returns whether an expression has the batch in it.
    fn has(&self, of: &DimExpr) -> bool {
        of.symbols().iter().any(|name| self.batch.as_symbol() == Some(name.as_ref()))
    }
}
