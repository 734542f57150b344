//! Matrix products of attention cores: the axes of their operands that hold rows, columns and sums.

use memc_ir::{Module, Node};

/// Sum of a product over columns or rows of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    /// Position of the grid among the operands.
    pub(super) grid: usize,
    /// Whether the sum runs over the columns of the grid; otherwise it runs over the rows.
    pub(super) over_columns: bool,
}

/// A product of two operands of at least two axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Product {
    /// Ranks of the operands.
    ranks: [usize; 2],
    /// Whether each operand is transposed.
    is_turned: [bool; 2],
    /// Whether the first axis of each operand is the first axis of its matrix.
    is_first_outside: [bool; 2],
}

impl Product {
    /// Returns the product that a node computes: a MatMul, or a FusedMatMul of ONNX Runtime.
    pub(super) fn of(module: &Module, node: Node) -> Option<Self> {
        let data = module.node(node);
        let [Some(first), Some(second)] = data.inputs[..] else { return None };
        let rank = |value| module.ty(value).tensor()?.rank().filter(|rank| *rank >= 2);
        let ranks = [rank(first)?, rank(second)?];
        match (&*data.operator.domain, &*data.operator.name) {
            ("", "MatMul") => Some(Self { ranks, is_turned: [false; 2], is_first_outside: [false; 2] }),
            ("com.microsoft", "FusedMatMul") => {
                let flag = |name: &str| data.int(name, 0) != 0;
                let is_turned = [flag("transA"), flag("transB")];
                Some(Self { ranks, is_turned, is_first_outside: [flag("transBatchA"), flag("transBatchB")] })
            }
            _ => None,
        }
    }

    /// Returns the axis of operand `index` that holds the first (0) or second (1) extent of its matrix.
    fn axis(&self, index: usize, which: usize) -> usize {
        let rank = self.ranks[index];
        match which ^ usize::from(self.is_turned[index]) {
            0 if self.is_first_outside[index] => 0,
            0 => rank - 2,
            _ => rank - 1,
        }
    }

    /// Returns the axis of operand 0 with the rows of the result, and of operand 1 with its columns.
    pub(super) fn free_axes(&self) -> [usize; 2] {
        [self.axis(0, 0), self.axis(1, 1)]
    }

    /// Returns the axis of an operand over which the product sums.
    pub(super) fn summed_axis(&self, index: usize) -> usize {
        self.axis(index, 1 - index)
    }

    /// Returns the sum over a grid as operand `index`, which is a transposed grid if `is_turned`; `None`
    /// if the last two axes of the operand are not its matrix.
    pub(super) fn sum(&self, index: usize, is_turned: bool) -> Option<Sum> {
        if *self.is_first_outside.get(index)? {
            return None;
        }
        let is_grid = is_turned == self.is_turned[index];
        // A left operand is summed over its columns, a right one over its rows.
        Some(Sum { grid: index, over_columns: is_grid == (index == 0) })
    }

    /// Returns the axis of the result, counted from its end, that a grid as operand `index` gives.
    pub(super) fn result_axis_from_end(index: usize) -> usize {
        2 - index
    }
}
