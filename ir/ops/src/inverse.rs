//! Inverses: operators whose result, with the other operands, gives one operand back.

use memc_ir::Operator;

/// How an operand follows from the result and the other operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inverse {
    /// The result minus the other operand.
    Sum,
    /// Operand 0: the result plus operand 1; operand 1: operand 0 minus the result.
    Difference,
    /// The result times the reciprocal of the other operand, where that is a constant power of two.
    Product,
    /// The result negated.
    Negation,
    /// The result with its axes in their old order.
    Permutation,
}

/// Returns how operands of an operator follow from its result; `None` if they do not.
///
/// Sums and differences of integers wrap around, so they give every bit back; those of floating-point numbers
/// are rounded twice. A product with a power of two is exact unless it leaves the range of normal numbers.
#[must_use]
pub fn inverse(operator: &Operator) -> Option<Inverse> {
    inverse_named(&operator.domain, &operator.name)
}

/// Returns how operands of the operator with this domain and name follow from its result.
#[must_use]
pub fn inverse_named(domain: &str, name: &str) -> Option<Inverse> {
    if !domain.is_empty() {
        return None;
    }
    Some(match name {
        "Add" => Inverse::Sum,
        "Sub" => Inverse::Difference,
        "Mul" => Inverse::Product,
        "Neg" => Inverse::Negation,
        "Transpose" => Inverse::Permutation,
        _ => return None,
    })
}
