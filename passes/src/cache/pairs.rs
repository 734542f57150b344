//! Pairs of a cache and the cache with new rows: which pairs grow, and the nodes that append rows.

use memc_ir::{Dim, DimExpr, Module, Node, TensorType, Value};

use super::lengths::Lengths;
use crate::buffer::CacheError;
use crate::options::{Options, StateNames};

/// A cache and the node that appends rows to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    /// The graph input.
    pub old: Value,
    /// The graph output.
    pub new: Value,
    /// The node that joins both.
    pub node: Node,
    /// New rows.
    pub added: Value,
    /// Axis of the rows.
    pub axis: usize,
}

/// All caches of a model.
#[derive(Debug)]
pub(super) struct Caches {
    pub all: Vec<Cache>,
    /// Number of rows before the run that fills a buffer.
    pub past: DimExpr,
    /// Number of rows that a run appends.
    pub rows: DimExpr,
    /// Largest number of rows that a run appends.
    pub most: u64,
    /// Number of rows of a buffer.
    pub capacity: u64,
}

impl Caches {
    /// Returns the cache with this old value.
    pub(super) fn of_old(&self, value: Value) -> Option<&Cache> {
        self.all.iter().find(|cache| cache.old == value)
    }

    /// Returns the cache that a node extends.
    pub(super) fn of_node(&self, node: Node) -> Option<&Cache> {
        self.all.iter().find(|cache| cache.node == node)
    }
}

/// Returns whether a graph output has the type of a graph input except for one longer axis.
pub fn is_growing(old: &TensorType, new: &TensorType) -> bool {
    let Some(axis) = past_of(old, new) else { return false };
    match (old.known_dims(), new.known_dims()) {
        (Some(old), Some(new)) => old[axis] < new[axis],
        _ => true,
    }
}

/// Returns the only axis along which two types of one rank and element type differ.
pub fn past_of(old: &TensorType, new: &TensorType) -> Option<usize> {
    let (left, right) = (old.shape.as_ref()?, new.shape.as_ref()?);
    let mut differ = (0..left.len().min(right.len())).filter(|axis| left[*axis] != right[*axis]);
    let axis = differ.next().filter(|_| differ.next().is_none())?;
    (old.element == new.element && left.len() == right.len()).then_some(axis)
}

/// Returns the named pairs of values whose types differ.
pub(super) fn named(module: &Module, options: &Options) -> Vec<(Value, Value)> {
    let main = module.graph(module.main());
    let find =
        |values: &[Value], name: &str| values.iter().copied().find(|value| module.value(*value).name == name);
    let pair = |names: &StateNames| Some((find(&main.inputs, &names.old)?, find(&main.outputs, &names.new)?));
    let pairs = options.state.iter().filter_map(pair);
    pairs.filter(|(old, new)| module.ty(*old) != module.ty(*new)).collect()
}

/// Finds the node that appends rows to each cache.
pub(super) fn recognize(lengths: &Lengths, pairs: &[(Value, Value)]) -> Result<Caches, CacheError> {
    let all: Vec<(Cache, [DimExpr; 2])> =
        pairs.iter().map(|(old, new)| one(lengths, *old, *new)).collect::<Result<_, _>>()?;
    let zero = || DimExpr::constant(0);
    let [past, rows] = all.first().map_or_else(|| [zero(), zero()], |(_, extents)| extents.clone());
    if let Some((other, [own, added])) = all.iter().find(|(_, [own, added])| (own, added) != (&past, &rows)) {
        let name = &lengths.full.module.value(other.old).name;
        let why = format!(
            "`{name}` has {own} rows and takes {added} more, other caches have {past} and take {rows}"
        );
        return Err(CacheError::Together { why });
    }
    let number = |of: Option<i128>| of.and_then(|of| u64::try_from(of).ok());
    let capacity = past.add(&rows).and_then(|sum| sum.as_constant()).map(i128::from);
    let (Some(capacity), Some(most)) = (number(capacity), number(rows.upper_bound(lengths.ranges()))) else {
        let why =
            format!("a full cache has {past} rows and takes {rows} more, which is not one number of rows");
        return Err(CacheError::Together { why });
    };
    Ok(Caches { all: all.into_iter().map(|(cache, _)| cache).collect(), past, rows, most, capacity })
}

/// Returns a cache with its number of rows before the run and the number of new rows.
fn one(lengths: &Lengths, old: Value, new: Value) -> Result<(Cache, [DimExpr; 2]), CacheError> {
    let module = &lengths.full.module;
    let name = |value: Value| module.value(value).name.clone();
    let refuse =
        |why: &str| Err(CacheError::NotGrowing { new: name(new), old: name(old), why: why.to_owned() });
    let Some((before, after)) = module.ty(old).tensor().zip(module.ty(new).tensor()) else {
        return refuse("both must be tensors");
    };
    let Some(axis) = past_of(before, after) else {
        return refuse("the types differ in more than one extent");
    };
    let known = |ty: &TensorType| ty.shape.as_ref()?.iter().map(Dim::expr).collect::<Option<Vec<DimExpr>>>();
    let Some((before, after)) = known(before).zip(known(after)) else {
        return refuse("the extents are not known");
    };
    let Some(node) = module.producer(new) else { return refuse("no operator computes the output") };
    let data = module.node(node);
    if !data.operator.domain.is_empty() || &*data.operator.name != "Concat" || data.graph != module.main() {
        let more = match memc_ops::new_values(data).is_empty() {
            true => "",
            false => {
                ": it writes into the buffer of a full cache; bind the rows of both to one number with `--dim`"
            }
        };
        return refuse(&format!("{} computes it, not Concat{more}", data.operator));
    }
    let added = match data.inputs.as_slice() {
        [Some(first), Some(added)] if *first == old && *added != old => *added,
        _ => return refuse("the operands of Concat are not the input and then the new rows"),
    };
    let own = memc_ops::normalize_axis(data.int("axis", 0), before.len());
    if own != Some(axis) {
        return refuse("Concat joins along another axis");
    }
    let rows = match lengths.dims(added) {
        Some(rows) if before[axis].add(&rows[axis]).as_ref() == Some(&after[axis]) => rows[axis].clone(),
        _ => return refuse("the number of new rows is not known"),
    };
    if lengths.less.is_some()
        && (lengths.growth(old, axis), lengths.growth(added, axis)) != (Some(1), Some(0))
    {
        return refuse("it does not grow with the dimension of the rows alone");
    }
    Ok((Cache { old, new, node, added, axis }, [before[axis].clone(), rows]))
}
