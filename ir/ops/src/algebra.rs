//! Algebraic facts about operators: operands that commute, neutral elements, functions that repeat or
//! undo themselves, signs, zeros.

/// Value of the second operand that leaves the first operand unchanged. If the operator commutes, it
/// also leaves the second operand unchanged as the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neutral {
    /// Zero. Negative zero keeps every bit; positive zero turns negative zero into positive zero.
    NegativeZero,
    /// Zero. Positive zero keeps every bit; negative zero turns negative zero into positive zero.
    PositiveZero,
    /// One, or true. Every bit stays.
    One,
    /// One. The last bit may change: kernels call a math library, which does not promise it.
    AboutOne,
    /// False.
    False,
}

/// Element of the result at a position where all operands are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtZero {
    /// Unknown, or no finite number for some attributes.
    Unknown,
    /// A finite number.
    Finite,
    /// Zero, of either sign.
    Zero,
}

/// Algebraic facts about result 0 of an operator, which hold for all attributes and element types. A
/// fact that is not stated is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Algebra {
    /// Whether two operands may change places. At most the sign of a zero changes: Max and Min of zeros
    /// of both signs return one of them.
    pub commutes: bool,
    /// Neutral element.
    pub neutral: Option<Neutral>,
    /// Whether the operator, applied to its own result, returns it unchanged.
    pub idempotent: bool,
    /// Whether the operator, applied to its own result, returns its operand.
    pub self_inverse: bool,
    /// Whether no element of the result is below zero (NaN may occur).
    pub nonnegative: bool,
    /// Whether a node with one operand returns it unchanged. For operators with any number of operands.
    pub keeps_single: bool,
    /// Element where all operands are zero. For element-wise operators.
    pub at_zero: AtZero,
    /// Whether the result is zero, of either sign, where one operand is zero and the others are finite.
    pub absorbs_zero: bool,
}

impl Algebra {
    /// No fact.
    pub const NONE: Self = Self {
        commutes: false,
        neutral: None,
        idempotent: false,
        self_inverse: false,
        nonnegative: false,
        keeps_single: false,
        at_zero: AtZero::Unknown,
        absorbs_zero: false,
    };
    /// Zeros give zero; no other fact.
    pub const KEEPS_ZERO: Self = Self { at_zero: AtZero::Zero, ..Self::NONE };
    /// Zeros give a finite number; no other fact.
    pub const FINITE_AT_ZERO: Self = Self { at_zero: AtZero::Finite, ..Self::NONE };

    /// States that two operands may change places.
    pub const fn commutes(mut self) -> Self {
        self.commutes = true;
        self
    }
    /// States the neutral element.
    pub const fn neutral(mut self, neutral: Neutral) -> Self {
        self.neutral = Some(neutral);
        self
    }
    /// States that a second application changes nothing.
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
    /// States that a second application undoes the first.
    pub const fn self_inverse(mut self) -> Self {
        self.self_inverse = true;
        self
    }
    /// States that no element of the result is below zero.
    pub const fn nonnegative(mut self) -> Self {
        self.nonnegative = true;
        self
    }
    /// States that one operand that is zero makes the result zero.
    pub const fn absorbs_zero(mut self) -> Self {
        self.absorbs_zero = true;
        self
    }
    /// States that a node with one operand returns it unchanged.
    pub const fn keeps_single(mut self) -> Self {
        self.keeps_single = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::info::{OpInfo, SplitAxes};
    use crate::table::all;

    /// Whether an operator computes every element of its result from the elements at that position.
    fn is_element_wise(info: &OpInfo) -> bool {
        matches!(info.split, SplitAxes::All) && !info.moves_elements()
    }

    #[test]
    fn every_element_wise_operator_states_its_algebra() {
        let silent: Vec<String> = all()
            .iter()
            .filter(|info| is_element_wise(info) && info.algebra.is_none())
            .map(|info| format!("{}::{}", info.domain, info.name))
            .collect();
        assert!(
            silent.is_empty(),
            "{silent:?} state no algebra: add `.algebra(Algebra::KEEPS_ZERO)` or the facts that hold to their rows in \
             ir/ops/src/families/, `.algebra(Algebra::NONE)` if none does"
        );
    }
}
