//! Live columns of an attention mask: for each row, the columns whose probabilities are not exactly
//! zero.

use std::ops::Range;

use memc_ir::{Dim, ElementType, Module, Node, Value};
use memc_ops::{Table, Tables};

/// An additive mask of at most this number hides a score: the sum is below every live score of the row
/// by so much that its exponential is exactly zero, for scores below 1e34 in size.
const DEAD: f64 = -1e35;
/// A mask element above this number keeps its score live.
const LIVE: f64 = -1e30;

/// Scores behind a mask: the operand of a Softmax.
#[derive(Debug)]
pub(super) struct Masked {
    /// Number of rows and of columns.
    pub(super) extents: [u64; 2],
    /// First live column and end of the live columns of each row, over all leading axes.
    pub(super) live: Vec<Range<usize>>,
}

/// Returns the extents of the last two axes, if they are known.
pub(super) fn extents(module: &Module, value: Value) -> Option<[u64; 2]> {
    match module.ty(value).tensor()?.shape.as_deref()? {
        [.., Dim::Known(rows), Dim::Known(columns)] => Some([*rows, *columns]),
        _ => None,
    }
}

/// Returns the live columns of the operand of a Softmax; `None` unless its mask is known, and every row
/// has a live column.
pub(super) fn masked(module: &Module, tables: &mut Tables<'_>, scores: Value) -> Option<Masked> {
    let ty = module.ty(scores).tensor()?;
    if !matches!(ty.element, ElementType::Float | ElementType::Double) {
        return None;
    }
    let extents = extents(module, scores)?;
    let node = module.producer(scores)?;
    let live = hidden(module, tables, node, extents.map(|extent| extent as usize))?;
    Some(Masked { extents, live })
}

/// Returns the live columns of each row of a node that hides scores: `Add(scores, mask)`, or
/// `Where(mask, scores, hidden)` and its mirror image.
fn hidden(
    module: &Module,
    tables: &mut Tables<'_>,
    node: Node,
    extents: [usize; 2],
) -> Option<Vec<Range<usize>>> {
    let data = module.node(node);
    if !data.operator.domain.is_empty() {
        return None;
    }
    match (&*data.operator.name, data.inputs.as_slice()) {
        ("Add", [Some(first), Some(second)]) => {
            let mask = tables.table(*second).or_else(|| tables.table(*first))?;
            live(&mask, extents, |item| item <= DEAD, |item| item > LIVE && item.is_finite())
        }
        ("Where", [Some(condition), Some(yes), Some(no)]) => {
            let mask = tables.table(*condition)?;
            let mut is_dead = |value: Value| {
                tables.table(value).is_some_and(|table| {
                    !table.items.is_empty() && table.items.iter().all(|item| *item <= DEAD)
                })
            };
            let dead_truth = match (is_dead(*yes), is_dead(*no)) {
                (true, false) => 1.0,
                (false, true) => 0.0,
                _ => return None,
            };
            live(&mask, extents, |item| item == dead_truth, |item| item == 1.0 - dead_truth)
        }
        _ => None,
    }
}

/// Returns the range of columns that are not dead, for each row; `None` unless every row has a live
/// column at every position of the leading axes.
fn live(
    mask: &Table,
    [rows, columns]: [usize; 2],
    is_dead: impl Fn(f64) -> bool,
    is_live: impl Fn(f64) -> bool,
) -> Option<Vec<Range<usize>>> {
    let own = |axis: usize| mask.dims.len().checked_sub(axis).map_or(1, |at| mask.dims[at]);
    let (own_rows, own_columns) = (own(2), own(1));
    // A mask without columns of its own hides a row as a whole or not at all.
    if own_columns != columns
        || !(own_rows == rows || own_rows == 1)
        || columns == 0
        || rows == 0
        || mask.items.is_empty()
    {
        return None;
    }
    let mut found = vec![columns..0; own_rows];
    for (number, row) in mask.items.chunks_exact(columns).enumerate() {
        let first = row.iter().position(|item| !is_dead(*item))?;
        let last = row.iter().rposition(|item| !is_dead(*item))?;
        row.iter().find(|item| is_live(**item))?;
        let range = &mut found[number % own_rows];
        *range = range.start.min(first)..range.end.max(last + 1);
    }
    Some(if own_rows == rows { found } else { vec![found.first()?.clone(); rows] })
}

/// Rows and columns of the blocks of one mask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    /// Number of rows and of columns of the whole.
    pub(super) extents: [u64; 2],
    /// Rows of each block.
    pub(super) rows: Vec<Range<u64>>,
    /// Columns that each block computes. Starts and ends never fall from one block to the next.
    pub(super) columns: Vec<Range<u64>>,
}

impl Blocks {
    /// Divides the rows of a mask into at most `parts` blocks of a multiple of `edge` rows. Each block
    /// computes its live columns, rounded outward to the edge. With `from_first`, every block starts
    /// at the first column.
    pub(super) fn new(masked: &Masked, parts: u64, edge: u64, from_first: bool) -> Self {
        let [rows, columns] = masked.extents;
        let height = rows.div_ceil(parts.max(1)).next_multiple_of(edge.max(1));
        let mut blocks = Self { extents: masked.extents, rows: Vec::new(), columns: Vec::new() };
        for start in (0..rows).step_by(usize::try_from(height).unwrap_or(usize::MAX)) {
            let own = start..(start + height).min(rows);
            let live = masked.live.get(own.start as usize..own.end as usize).unwrap_or_default();
            let first = live.iter().map(|range| range.start as u64).min().unwrap_or(0);
            let end = live.iter().map(|range| range.end as u64).max().unwrap_or(columns);
            let first = if from_first { 0 } else { first / edge * edge };
            blocks.rows.push(own);
            blocks.columns.push(first..end.next_multiple_of(edge).min(columns));
        }
        blocks.rise();
        blocks
    }

    /// Widens blocks until starts and ends rise from block to block.
    fn rise(&mut self) {
        for block in 1..self.columns.len() {
            self.columns[block].end = self.columns[block].end.max(self.columns[block - 1].end);
        }
        for block in (1..self.columns.len()).rev() {
            self.columns[block - 1].start = self.columns[block - 1].start.min(self.columns[block].start);
        }
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of computed elements of one matrix.
    pub(super) fn elements(&self) -> u64 {
        self.rows
            .iter()
            .zip(&self.columns)
            .map(|(rows, columns)| (rows.end - rows.start) * (columns.end - columns.start))
            .sum()
    }

    /// Returns whether sums over rows have an addend for every column, from blocks that meet or overlap.
    pub(super) fn cover_columns(&self) -> bool {
        let meet = self.columns.windows(2).all(|pair| pair[1].start <= pair[0].end);
        let first = self.columns.first().is_some_and(|columns| columns.start == 0);
        meet && first && self.columns.last().is_some_and(|columns| columns.end == self.extents[1])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn table(dims: &[usize], items: Vec<f64>) -> Table {
        Table { element: ElementType::Float, dims: dims.to_vec(), items }
    }

    fn additive(mask: &Table, extents: [usize; 2]) -> Option<Vec<Range<usize>>> {
        live(mask, extents, |item| item <= DEAD, |item| item > LIVE && item.is_finite())
    }

    #[test]
    fn live_columns_join_all_leading_positions() {
        let low = f64::NEG_INFINITY;
        let mask = table(&[2, 2, 3], vec![0.0, low, low, 0.0, 0.0, low, low, 0.0, low, 0.0, low, 0.0]);
        assert_eq!(additive(&mask, [2, 3]).unwrap(), [0..2, 0..3]);
    }

    #[test]
    fn rows_without_a_live_column_are_refused() {
        let low = f64::MIN;
        assert_eq!(additive(&table(&[2, 2], vec![0.0, low, low, low]), [2, 2]), None);
        // -1e4 and NaN hide no score for certain, and keep none live.
        assert_eq!(additive(&table(&[1, 2], vec![f64::NAN, low]), [1, 2]), None);
        assert_eq!(additive(&table(&[1, 2], vec![-1e4, 0.0]), [1, 2]).unwrap()[0], 0..2);
    }

    #[test]
    fn one_row_of_a_mask_serves_all_rows() {
        let low = f64::NEG_INFINITY;
        assert_eq!(additive(&table(&[1, 3], vec![low, 0.0, low]), [2, 3]).unwrap(), [1..2, 1..2]);
        assert_eq!(additive(&table(&[2, 1], vec![0.0, low]), [2, 3]), None);
        assert_eq!(additive(&table(&[], vec![0.0]), [2, 3]), None);
    }

    #[test]
    fn blocks_follow_the_diagonal_in_edges() {
        let causal = Masked { extents: [200, 200], live: (0..200).map(|row| 0..row + 1).collect() };
        let blocks = Blocks::new(&causal, 8, 64, false);
        assert_eq!(blocks.rows, [0..64, 64..128, 128..192, 192..200]);
        assert_eq!(blocks.columns, [0..64, 0..128, 0..192, 0..200]);
        assert!(blocks.cover_columns());
    }

    #[test]
    fn windows_start_late_unless_sums_must_keep_their_order() {
        let window = Masked {
            extents: [256, 256],
            live: (0..256usize).map(|row| row.saturating_sub(63)..row + 1).collect(),
        };
        let blocks = Blocks::new(&window, 4, 64, false);
        assert_eq!(blocks.columns, [0..64, 0..128, 64..192, 128..256]);
        assert!(blocks.cover_columns());
        assert_eq!(Blocks::new(&window, 4, 64, true).columns, [0..64, 0..128, 0..192, 0..256]);
    }

    #[test]
    fn starts_and_ends_rise() {
        let mut falling = Masked { extents: [128, 128], live: vec![0..128; 64] };
        falling.live.extend(vec![64..65; 64]);
        assert_eq!(Blocks::new(&falling, 2, 64, false).columns, [0..128, 64..128]);
        falling.live.reverse();
        assert_eq!(Blocks::new(&falling, 2, 64, false).columns, [0..128, 0..128]);
    }
}
