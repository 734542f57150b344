//! Draws the arena of a space in ASCII: steps to the right, offsets upward.

use std::collections::BTreeMap;

use memc_layout::{Owner, SpaceCurve};

/// Characters from few to many live bytes.
const LEVELS: &[u8] = b" .:-=+*#%@";

/// Returns the number of columns of a drawing, at most `width`. If the steps fit, each step has a whole
/// number of columns.
pub(crate) fn columns(steps: usize, width: usize) -> usize {
    match steps {
        0 => 0,
        steps if steps >= width => width,
        steps => steps * (width / steps),
    }
}

/// Draws the boxes of a space in `rows` lines of `columns` characters, the highest offset first.
///
/// A cell shows the owner that fills at least half of it: its letter in `letters` (tensor index to
/// letter), or else a lower-case letter. `#` is a cell that several owners fill by half or more
/// together, `.` a cell filled less. Time O(owners + cells drawn over).
pub(crate) fn boxes(
    space: &SpaceCurve,
    arena: u64,
    letters: &BTreeMap<usize, char>,
    rows: usize,
    columns: usize,
) -> Vec<String> {
    let mut cells = vec![Cell { filled: 0.0, largest: 0.0, glyph: ' ' }; rows * columns];
    let steps = space.live_bytes.len();
    let mut others = ('a'..='z').cycle();
    for owner in &space.owners {
        let glyph = match letters.get(&owner.tensor) {
            Some(&letter) => letter,
            None => others.next().unwrap_or('a'),
        };
        if arena > 0 && steps > 0 {
            fill(
                &mut cells,
                owner,
                glyph,
                (rows, columns),
                (columns as f64 / steps as f64, rows as f64 / arena as f64),
            );
        }
    }
    let line = |row: usize| cells[row * columns..(row + 1) * columns].iter().map(Cell::character).collect();
    (0..rows).rev().map(line).collect()
}

/// Draws live bytes as one line of `columns` characters. Each character shows the maximum over its
/// steps; `@` is near the peak.
pub(crate) fn curve(live_bytes: &[u64], peak: u64, columns: usize) -> String {
    let steps = live_bytes.len();
    (0..columns)
        .map(|column| {
            // At least one step a column, whether steps outnumber columns or not.
            let first = column * steps / columns;
            let end = ((column + 1) * steps).div_ceil(columns).max(first + 1).min(steps);
            let most = live_bytes[first..end].iter().copied().max().unwrap_or(0);
            let level = if peak == 0 { 0.0 } else { most as f64 / peak as f64 * (LEVELS.len() - 1) as f64 };
            // Show any live byte.
            let index = (level.round() as usize).max(usize::from(most > 0)).min(LEVELS.len() - 1);
            char::from(LEVELS[index])
        })
        .collect()
}

#[derive(Clone, Copy)]
struct Cell {
    filled: f64,
    largest: f64,
    glyph: char,
}

impl Cell {
    fn character(&self) -> char {
        match self {
            cell if cell.largest >= 0.5 => cell.glyph,
            cell if cell.filled >= 0.5 => '#',
            cell if cell.filled > 0.0 => '.',
            _ => ' ',
        }
    }
}

/// Adds the box of an owner to the cells that it touches; `scale` is columns a step and rows a byte.
fn fill(cells: &mut [Cell], owner: &Owner, glyph: char, (rows, columns): (usize, usize), scale: (f64, f64)) {
    let (bottom, top) =
        (owner.offset as f64 * scale.1, owner.offset.saturating_add(owner.bytes) as f64 * scale.1);
    for range in &owner.live {
        let (left, right) = (range.start as f64 * scale.0, range.end as f64 * scale.0);
        // `as` saturates, and the minimum limits the result to the grid.
        for row in (bottom as usize).min(rows)..(top.ceil() as usize).min(rows) {
            let height = top.min((row + 1) as f64) - bottom.max(row as f64);
            for column in (left as usize).min(columns)..(right.ceil() as usize).min(columns) {
                let width = right.min((column + 1) as f64) - left.max(column as f64);
                let area = (height * width).max(0.0);
                let cell = &mut cells[row * columns + column];
                cell.filled += area;
                if area > cell.largest {
                    (cell.largest, cell.glyph) = (area, glyph);
                }
            }
        }
    }
}
