//! Inverses: a value that a result and other operands give back has no code, because these values lie there
//! anyway.
//!
//! Negations, transpositions, and sums and differences of integers, which wrap around, give every bit back.
//! Sums and differences of floating-point numbers are rounded twice (additive couplings: Gomez et al. 2017,
//! *The Reversible Residual Network*), and products with powers of two are exact within the range of normal
//! numbers alone.

use memc_ir::{
    Attribute, ConstData, ElementType, Module, Node, Payload, SecondaryMap, TensorType, Use, Value,
};
use memc_ops::{Inverse, normalize_axis, repeatable};

use super::{Accuracy, Form, Operand, Recipe, Step, constant};

/// Most recipes for one value: each one is an optional run of the budget problem.
const MOST: usize = 4;

/// Returns the recipes for a value from the results of its readers. Only a value with another reader can be
/// read after a result is made.
pub(super) fn recipes(module: &Module, uses: &SecondaryMap<Value, Vec<Use>>, value: Value) -> Vec<Recipe> {
    let sites = &uses[value];
    let Some(ty) = module.ty(value).tensor().filter(|ty| sites.len() > 1 && ty.known_dims().is_some()) else {
        return Vec::new();
    };
    let recipe = |site: &Use| match site {
        Use::Operand(node, position) => from_result(module, value, ty, *node, *position as usize),
        Use::Output(..) => None,
    };
    sites.iter().filter_map(recipe).take(MOST).collect()
}

/// Returns the recipe for operand `position` of a node from its result; `None` if the result does not give
/// it back.
fn from_result(
    module: &Module,
    value: Value,
    ty: &TensorType,
    node: Node,
    position: usize,
) -> Option<Recipe> {
    let data = module.node(node);
    let inverse = memc_ops::inverse(&data.operator)?;
    let [Some(result)] = data.outputs.as_slice() else { return None };
    let shares = module.plan.owner(*result).0 == module.plan.owner(value).0;
    let once = data.inputs.iter().filter(|operand| **operand == Some(value)).count() == 1;
    if data.graph != module.main() || shares || !once || !repeatable(module, node) {
        return None;
    }
    let made = module.ty(*result).tensor()?;
    let whole = matches!(ty.element, ElementType::Int32 | ElementType::Int64);
    let from = |operator: &'static str, operands: &[Operand]| Step {
        operator,
        operands: operands.to_vec(),
        attributes: Vec::new(),
        ty: ty.clone(),
    };
    // Older arithmetic has attributes that align its operands.
    let plain = data.attributes.is_empty() && made == ty;
    let other = || data.inputs.get(1 - position.min(1)).copied().flatten();
    let (y, f) = (Operand::Other(0), Operand::Other(1));
    let recipe = |accuracy, others: Vec<Value>, constants: Vec<ConstData>, step: Step| {
        let form = Form::Inverse(accuracy);
        Some(Recipe { form, constants, encode: Vec::new(), decode: vec![step], codes: Vec::new(), others })
    };
    let sum = if whole { Accuracy::Exact } else { Accuracy::Rounded };
    match inverse {
        Inverse::Sum | Inverse::Difference if plain && (whole || ty.element == ElementType::Float) => {
            let step = match (inverse, position) {
                (Inverse::Sum, _) => from("Sub", &[y, f]),
                (_, 0) => from("Add", &[y, f]),
                _ => from("Sub", &[f, y]),
            };
            recipe(sum, vec![*result, other()?], Vec::new(), step)
        }
        Inverse::Product if plain && ty.element == ElementType::Float => {
            let factor = reciprocal(module, other()?)?;
            recipe(Accuracy::InRange, vec![*result], vec![factor], from("Mul", &[y, Operand::Constant(0)]))
        }
        Inverse::Negation if plain => recipe(Accuracy::Exact, vec![*result], Vec::new(), from("Neg", &[y])),
        Inverse::Permutation => {
            let rank = ty.rank()?;
            let axes: Vec<usize> = match data.ints("perm") {
                Some(axes) => axes.iter().map(|axis| normalize_axis(*axis, rank)).collect::<Option<_>>()?,
                None => (0..rank).rev().collect(),
            };
            let mut back = vec![0i64; rank];
            for (at, axis) in axes.iter().enumerate() {
                *back.get_mut(*axis)? = i64::try_from(at).ok()?;
            }
            let attributes = vec![("perm".to_owned(), Attribute::Ints(back))];
            recipe(Accuracy::Exact, vec![*result], Vec::new(), Step { attributes, ..from("Transpose", &[y]) })
        }
        _ => None,
    }
}

/// Returns the reciprocal of a constant scalar that is a power of two, if both are normal numbers.
fn reciprocal(module: &Module, value: Value) -> Option<ConstData> {
    let data = module.constant(module.constant_of(value)?);
    let Payload::Raw(raw) = &data.payload else { return None };
    let number = f32::from_le_bytes(raw.as_ref().try_into().ok()?);
    let is_power = number.is_normal() && number.to_bits() << 9 == 0 && number.recip().is_normal();
    is_power.then(|| constant(ElementType::Float, &[], number.recip().to_le_bytes().to_vec()))
}

/// Number of numbers that are measured.
const SAMPLES: u32 = 1 << 14;

/// Measures `x + f - f` on normal numbers of equal variance: root of the sum of squared errors, as a share of
/// that of the squared numbers. A chain of inverses adds the errors of its members.
pub(super) fn measured_error() -> f64 {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    // A sum of twelve uniform numbers is about normal, with variance 1.
    let mut normal = || ((0..12).map(|_| uniform()).sum::<f64>() - 6.0) as f32;
    let (mut errors, mut squares) = (0.0, 0.0);
    for _ in 0..SAMPLES {
        let (x, f) = (normal(), normal());
        let back = (x + f) - f;
        errors += f64::from(back - x).powi(2);
        squares += f64::from(x).powi(2);
    }
    (errors / squares).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_and_its_inverse_round_to_about_half_of_a_last_bit() {
        let error = measured_error();
        assert!((1e-8..1e-7).contains(&error), "{error}");
    }
}
