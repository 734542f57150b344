//! Nodes whose first result equals an operand bit for bit: a list of the checker's own, which it does
//! not share with the planner.
//!
//! Movement counts if it leaves the type as it is. Arithmetic with a constant is evaluated: for each
//! operator here, only a constant that changes no number gives each of [`NUMBERS`] back.

use memc_ir::{Node, NodeData, TensorType, Value};
use memc_ops::{Data, Item};

use crate::side::Side;

/// Operands of a trial. A sum keeps both zeros only with a zero of the right sign, and a product or
/// quotient keeps one only with one.
const NUMBERS: [f64; 4] = [0.0, -0.0, 1.0, -1.0];
/// Integer operands of a trial: as many as tell zero and one from other constants.
const INTEGERS: [i64; 3] = [0, 1, 7];
/// Truth values.
const TRUTHS: [i64; 2] = [0, 1];
/// First version of ONNX's operator set in which operands broadcast by themselves.
const BROADCASTS: i64 = 7;
/// First version in which the bounds of a Clip are operands.
const BOUNDS_ARE_OPERANDS: i64 = 11;

/// A node with its model.
struct Of<'a> {
    side: &'a Side<'a>,
    data: &'a NodeData,
}

impl Side<'_> {
    /// Returns the position of the operand that result 0 of a row equals bit for bit, for all inputs;
    /// `None` if there is none, or if it is not proven.
    pub(crate) fn unchanged(&self, row: usize) -> Option<usize> {
        if self.reads_overridable(row) { None } else { position(self, self.rows[row].node) }
    }
}

fn position(side: &Side<'_>, node: Node) -> Option<usize> {
    let data = side.module.node(node);
    let of = Of { side, data };
    if !data.operator.domain.is_empty() {
        return None;
    }
    let is_alone = data.inputs.len() == 1;
    let holds = match &*data.operator.name {
        "Identity" => true,
        "Dropout" => !side.training(node),
        "Cast" | "CastLike" => of.same_element(),
        "Clip" => {
            data.operator.version >= BOUNDS_ARE_OPERANDS && data.operands().count() == 1 && of.is_whole()
        }
        "Concat" | "Sum" | "Mean" | "Max" | "Min" => is_alone,
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand" | "Tile" => of.same_type(0),
        "Split" => data.outputs.len() == 1 && of.same_type(0),
        "Slice" => of.same_type(0) && (of.operand(4).is_none() || of.all(4, &Item::Int(1))),
        "Pad" => of.same_type(0) && of.pads_nothing(),
        "Transpose" => of.keeps_order(),
        "Where" => return of.chosen(),
        _ => return [0, 1].into_iter().find(|kept| of.computes(*kept) && of.keeps_shape(*kept)),
    };
    (holds && of.operand(0).is_some()).then_some(0)
}

impl Of<'_> {
    fn operand(&self, position: usize) -> Option<Value> {
        self.data.inputs.get(position).copied().flatten()
    }

    fn elements(&self, position: usize) -> Option<&Data> {
        self.side.elements(self.operand(position)?).map(|data| &**data)
    }

    fn types(&self, position: usize) -> Option<(&TensorType, &TensorType)> {
        let result = self.data.outputs.first().copied().flatten()?;
        self.side.module.ty(self.operand(position)?).tensor().zip(self.side.module.ty(result).tensor())
    }

    fn same_element(&self) -> bool {
        self.types(0).is_some_and(|(from, to)| from.element == to.element && from.element.bits().is_some())
    }

    /// Whether an operand provably has the result's type, extent by extent.
    fn same_type(&self, position: usize) -> bool {
        let same = |from: &TensorType, to: &TensorType| {
            let dims = from.shape.as_deref().zip(to.shape.as_deref());
            from.element == to.element
                && dims.is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
        };
        self.types(position).is_some_and(|(from, to)| from.element.bits().is_some() && same(from, to))
    }

    /// Whether all elements are integers: no zero has a sign, and nothing is infinite.
    fn is_whole(&self) -> bool {
        self.types(0).is_some_and(|(from, to)| from.element == to.element && from.element.is_integral())
    }

    /// Whether all known elements of an operand are equal to one.
    fn all(&self, position: usize, one: &Item) -> bool {
        self.elements(position).is_some_and(|data| data.items.iter().all(|item| item == one))
    }

    fn pads_nothing(&self) -> bool {
        match self.data.ints("pads") {
            Some(pads) => pads.iter().all(|pad| *pad == 0),
            None => self.all(1, &Item::Int(0)),
        }
    }

    fn keeps_order(&self) -> bool {
        let rank = self.types(0).and_then(|(from, _)| from.rank());
        match self.data.ints("perm") {
            Some(axes) => axes.iter().zip(0i64..).all(|(axis, position)| *axis == position),
            None => rank.is_some_and(|rank| rank < 2),
        }
    }

    /// Returns the branch that a constant condition selects, for integers: ONNX Runtime adds what it
    /// selects to zeros.
    fn chosen(&self) -> Option<usize> {
        let position = if self.all(0, &Item::Int(0)) { 2 } else { 1 };
        let is_constant = position == 2 || self.all(0, &Item::Int(1));
        let is_whole = self.types(position).is_some_and(|(from, _)| from.element.is_integral());
        (is_constant && is_whole && self.same_type(position)).then_some(position)
    }

    /// Whether the node, evaluated with its constant operand, gives back each number at position `kept`.
    fn computes(&self, kept: usize) -> bool {
        let name = &*self.data.operator.name;
        let fits = self.data.operator.version >= BROADCASTS && self.data.inputs.len() == 2;
        let Some(constant) = self.elements(1 - kept).filter(|_| fits) else { return false };
        let in_order = |x: f64, c: f64| if kept == 0 { (x, c) } else { (c, x) };
        constant.items.iter().all(|item| match item {
            Item::Float(c) => NUMBERS.iter().all(|x| {
                let (left, right) = in_order(*x, *c);
                real(name, left, right).is_some_and(|found| found.to_bits() == x.to_bits())
            }),
            Item::Int(c) => integers(name).iter().all(|x| {
                let (left, right) = if kept == 0 { (*x, *c) } else { (*c, *x) };
                whole(name, left, right) == Some(*x)
            }),
            _ => false,
        })
    }

    /// Whether the operand at a position provably has the result's extents: it has its type, or its
    /// partner broadcasts into it.
    fn keeps_shape(&self, kept: usize) -> bool {
        let partner = self.elements(1 - kept);
        let same_element = self
            .types(kept)
            .is_some_and(|(from, to)| from.element == to.element && from.element.bits().is_some());
        let broadcasts = || {
            let rank = self.types(kept).and_then(|(from, _)| from.rank());
            partner.zip(rank).is_some_and(|(data, rank)| {
                data.dims.len() <= rank && data.dims.iter().all(|extent| *extent == 1)
            })
        };
        same_element && (self.same_type(kept) || broadcasts())
    }
}

/// Evaluates an operator on numbers.
fn real(name: &str, left: f64, right: f64) -> Option<f64> {
    Some(match name {
        "Add" => left + right,
        "Sub" => left - right,
        "Mul" => left * right,
        "Div" => left / right,
        _ => return None,
    })
}

/// Returns the integers on which an operator is tried.
fn integers(name: &str) -> &'static [i64] {
    if matches!(name, "And" | "Or" | "Xor") { &TRUTHS } else { &INTEGERS }
}

/// Evaluates an operator on integers, or on truth values.
fn whole(name: &str, left: i64, right: i64) -> Option<i64> {
    match name {
        "Add" => left.checked_add(right),
        "Sub" => left.checked_sub(right),
        "Mul" => left.checked_mul(right),
        "Div" => left.checked_div(right),
        "And" => Some(left & right),
        "Or" => Some(left | right),
        "Xor" => Some(left ^ right),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neutral_constants_give_all_numbers_back() {
        let keeps = |name: &str, c: f64, left: bool| {
            NUMBERS.iter().all(|x| {
                let found = if left { real(name, c, *x) } else { real(name, *x, c) };
                found.is_some_and(|found| found.to_bits() == x.to_bits())
            })
        };
        let constants =
            [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1.0 + f64::EPSILON, 5e-324];
        let kept = |name: &str, left: bool| {
            constants.into_iter().filter(|c| keeps(name, *c, left)).collect::<Vec<_>>()
        };
        let signs = |name: &str, left: bool| {
            kept(name, left).iter().map(|c| (c.abs(), c.is_sign_negative())).collect::<Vec<_>>()
        };
        assert_eq!([signs("Add", false), signs("Add", true)], [vec![(0.0, true)], vec![(0.0, true)]]);
        assert_eq!([signs("Sub", false), signs("Sub", true)], [vec![(0.0, false)], vec![]]);
        assert_eq!([signs("Mul", false), signs("Mul", true)], [vec![(1.0, false)], vec![(1.0, false)]]);
        assert_eq!([signs("Div", false), signs("Div", true)], [vec![(1.0, false)], vec![]]);
        assert!(kept("Pow", false).is_empty(), "a mathematical library decides");
    }
}
