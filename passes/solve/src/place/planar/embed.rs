//! Offsets from lines: the lines that a sweep found determine the place of every item.

use std::collections::BTreeMap;

use super::tree::{Tree, bundle, order_by, reduce, replace};

/// A vertical line: the consecutive leaves on its left side, and the leaves that replace them on its
/// right side.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub from: Vec<u32>,
    pub to: Vec<u32>,
}

impl Line {
    /// Returns the line in reversed time.
    pub fn reversed(&self) -> Self {
        Self { from: self.to.clone(), to: self.from.clone() }
    }
}

/// Applies lines to a tree of orders. Returns the tree before each line, with the line's ending leaves
/// consecutive, and the tree after all lines. Returns `None` if the lines cannot be drawn.
pub(super) fn replay(start: &[u32], lines: &[Line]) -> Option<(Vec<Tree>, Tree)> {
    let leaves = lines.iter().flat_map(|line| line.from.iter().chain(&line.to)).chain(start);
    let mut marked = vec![false; leaves.max().map_or(0, |most| *most as usize + 1)];
    let mut tree = bundle(start.iter().copied());
    let mut trees = Vec::with_capacity(lines.len());
    for line in lines {
        line.from.iter().for_each(|leaf| marked[*leaf as usize] = true);
        let reduced = reduce(&tree, &marked)?;
        tree = replace(&reduced, &marked, &bundle(line.to.iter().copied()));
        trees.push(reduced);
        line.from.iter().for_each(|leaf| marked[*leaf as usize] = false);
    }
    Some((trees, tree))
}

/// Returns the offsets of leaves `0..count`. Takes any order that the last tree allows and goes back
/// from there: the leaves that end at a line take the place of the leaves that begin at it.
pub(super) fn offsets(
    start: &[u32],
    lines: &[Line],
    size: &BTreeMap<u32, u64>,
    count: usize,
) -> Option<Vec<u64>> {
    let (trees, tree) = replay(start, lines)?;
    let mut order = Vec::new();
    order_by(&tree, &|leaf| leaf as usize, &mut order);
    let mut result = vec![0; count];
    stack(&order, size, &mut result);
    for (tree, line) in trees.iter().zip(lines).rev() {
        let places: BTreeMap<u32, usize> =
            order.iter().enumerate().map(|(place, leaf)| (*leaf, place)).collect();
        let own = line.to.iter().filter_map(|leaf| places.get(leaf)).min().copied()?;
        order.clear();
        order_by(tree, &|leaf| places.get(&leaf).copied().unwrap_or(own), &mut order);
        stack(&order, size, &mut result);
    }
    Some(result)
}

fn stack(order: &[u32], size: &BTreeMap<u32, u64>, offsets: &mut [u64]) {
    let mut top = 0;
    for leaf in order {
        if let Some(offset) = offsets.get_mut(*leaf as usize) {
            *offset = top;
        }
        top += size.get(leaf).copied().unwrap_or(0);
    }
}
