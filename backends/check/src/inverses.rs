//! Values that follow from the result of a node that reads them, and from its other operands.
//!
//! The check knows these inverses: of negations, of sums and differences, and of products with powers of two.
//! Integers wrap around, so they return bit for bit, as negated numbers do. Floating-point numbers return
//! rounded: their rows need permission, and state an error that the check measures anew.

use memc_ir::ElementType;

use crate::codec::{Codec, Computed, Made};

/// Number of numbers that are measured.
const SAMPLES: u32 = 1 << 13;

/// Factor by which a stated error may differ from the measured one: both come from random numbers.
const SLACK: f64 = 1.5;

impl Codec {
    /// Returns the number of the value that a sum, difference, product or negation gives back; `None` if
    /// there is none, or if it returns with other bits and `rounds` is not set.
    pub(crate) fn given_back(&self, computed: Computed<'_>, rounds: bool) -> Option<u32> {
        if !computed.is_plain() {
            return None;
        }
        let made = |number: u32| self.made(number);
        let (back, is_exact_for_floats) = match (computed.operator()?, computed.operands) {
            ("Neg", [y]) => match made(*y)? {
                Made::Neg(of) => (*of, true),
                _ => return None,
            },
            // y - f, where y = x + f; or f - y, where y = f - x.
            ("Sub", [a, b]) => match (made(*a), made(*b)) {
                (Some(Made::Add(x, f)), _) if f == b => (*x, false),
                (Some(Made::Add(f, x)), _) if f == b => (*x, false),
                (_, Some(Made::Sub(f, x))) if f == a => (*x, false),
                _ => return None,
            },
            // y + f, where y = x - f.
            ("Add", [a, b]) => match (made(*a), made(*b)) {
                (Some(Made::Sub(x, f)), _) if f == b => (*x, false),
                (_, Some(Made::Sub(x, f))) if f == a => (*x, false),
                _ => return None,
            },
            ("Mul", [a, b]) if rounds => match (made(*a), made(*b)) {
                (Some(Made::Mul(x, c)), _) if self.are_reciprocal(*c, *b) => (*x, false),
                (Some(Made::Mul(c, x)), _) if self.are_reciprocal(*c, *b) => (*x, false),
                _ => return None,
            },
            _ => return None,
        };
        // A broadcast result is no inverse.
        let ty = self.known(back).filter(|ty| Some(*ty) == computed.ty().as_ref())?;
        let is_whole = ty.element.is_integral() && ty.element != ElementType::Bool;
        let returns = is_whole || is_exact_for_floats || (rounds && ty.element == ElementType::Float);
        returns.then_some(back)
    }

    /// Whether two constants of one FLOAT are powers of two whose product is 1.
    fn are_reciprocal(&self, one: u32, other: u32) -> bool {
        let number = |number: u32| {
            let raw = self.raw(number).filter(|raw| raw.element == ElementType::Float)?;
            let number = f32::from_le_bytes(raw.bytes.as_ref().try_into().ok()?);
            (number.is_normal() && number.to_bits() << 9 == 0).then_some(number)
        };
        number(one).zip(number(other)).is_some_and(|(one, other)| one * other == 1.0)
    }
}

/// Whether a row may state this relative error: that of a sum and its inverse on normal numbers, or 0 for a
/// product with a power of two.
pub(crate) fn may_state(error: Option<f64>, is_product: bool) -> bool {
    let Some(error) = error else { return false };
    if is_product {
        return error == 0.0;
    }
    let own = measured();
    (own / SLACK..=own * SLACK).contains(&error)
}

/// Measures `x - f + f` on normal numbers: root of the sum of squared errors, as a share of that of the
/// squared numbers.
fn measured() -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    // Box and Muller's method.
    let mut pair = || {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        ((radius * angle.cos()) as f32, (radius * angle.sin()) as f32)
    };
    let (mut errors, mut squares) = (0.0, 0.0);
    for _ in 0..SAMPLES {
        let (x, f) = pair();
        let back = (x - f) + f;
        errors += f64::from(back - x).powi(2);
        squares += f64::from(x).powi(2);
    }
    (errors / squares).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_errors_are_near_the_measured_one() {
        let own = measured();
        assert!((1e-8..1e-7).contains(&own), "{own}");
        assert!(may_state(Some(own), false) && may_state(Some(0.0), true));
        for wrong in [None, Some(0.0), Some(2.0 * own), Some(own / 2.0), Some(f64::NAN)] {
            assert!(!may_state(wrong, false), "{wrong:?}");
        }
        assert!(!may_state(Some(own), true) && !may_state(None, true));
    }
}
