//! Elements of a tensor grouped along axes: what reductions, scans and searches work on.

use crate::fact::{Data, Item};
use crate::families::broadcasting::{item_count, positions, strides};

/// For each element of the tensor that is left when `axes` are reduced, in row-major order: positions of the elements
/// that go into it, in row-major order of the reduced axes.
///
/// `None` where there are too many. Linear in the number of elements times the rank.
pub(crate) fn groups(data: &Data, axes: &[usize]) -> Option<Vec<Vec<usize>>> {
    let steps = strides(&data.dims);
    let select = |reduced: bool| -> (Vec<u64>, Vec<i64>) {
        let chosen = (0..data.dims.len()).filter(|axis| axes.contains(axis) == reduced);
        chosen.map(|axis| (data.dims[axis], steps[axis])).unzip()
    };
    let ((kept, kept_steps), (reduced, reduced_steps)) = (select(false), select(true));
    // An empty tensor may still leave many results.
    item_count(&kept)?;
    let bases = positions(&kept, 0, &kept_steps)?;
    bases.into_iter().map(|base| positions(&reduced, i64::try_from(base).ok()?, &reduced_steps)).collect()
}

/// One item for each group of elements along `axes`.
pub(crate) fn reduce(data: &Data, axes: &[usize], function: impl Fn(&[&Item]) -> Item) -> Option<Vec<Item>> {
    let gather = |group: Vec<usize>| -> Option<Item> {
        let items: Vec<&Item> = group.iter().map(|at| data.items.get(*at)).collect::<Option<_>>()?;
        Some(function(&items))
    };
    groups(data, axes)?.into_iter().map(gather).collect()
}
