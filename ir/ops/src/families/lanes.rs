//! Groups the elements of a tensor along axes, for reductions, scans and searches.

use crate::fact::{Data, Item};
use crate::families::broadcasting::{item_count, positions, strides};

/// Returns one group for each element that remains when `axes` are reduced, in row-major order. A group
/// contains the positions of its elements, in row-major order of the reduced axes.
///
/// `None` if there are more than [`crate::MAX_ITEMS`] groups or elements. O(elements * rank).
pub(crate) fn groups(data: &Data, axes: &[usize]) -> Option<Vec<Vec<usize>>> {
    let steps = strides(&data.dims);
    let select = |reduced: bool| -> (Vec<u64>, Vec<i64>) {
        let chosen = (0..data.dims.len()).filter(|axis| axes.contains(axis) == reduced);
        chosen.map(|axis| (data.dims[axis], steps[axis])).unzip()
    };
    let ((kept, kept_steps), (reduced, reduced_steps)) = (select(false), select(true));
    // An empty tensor may still produce many results.
    item_count(&kept)?;
    let bases = positions(&kept, 0, &kept_steps)?;
    bases.into_iter().map(|base| positions(&reduced, i64::try_from(base).ok()?, &reduced_steps)).collect()
}

/// Applies `function` to each group of elements along `axes` and returns one item per group.
pub(crate) fn reduce(data: &Data, axes: &[usize], function: impl Fn(&[&Item]) -> Item) -> Option<Vec<Item>> {
    let gather = |group: Vec<usize>| -> Option<Item> {
        let items: Vec<&Item> = group.iter().map(|at| data.items.get(*at)).collect::<Option<_>>()?;
        Some(function(&items))
    };
    groups(data, axes)?.into_iter().map(gather).collect()
}
