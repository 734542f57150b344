//! Bits: eight Booleans in one byte.
//!
//! Bits lie in planes: of `n` Booleans, bit `i` of byte `j` is element `i * (n / 8) + j`, so that every
//! kernel runs along rows. Encoding is a product of bytes by the powers of 2, which adds at most 255;
//! decoding multiplies by powers of 2 and keeps the highest bit, since products of bytes wrap.

use memc_ir::{ElementType, TensorType};

use super::{Form, Operand, Recipe, cast, constant, shape, step};

/// First operator set in which comparisons and products of bytes have kernels.
const BYTES: i64 = 14;

/// Returns the recipe for a value of Booleans; `None` for other types, and if their number is no multiple
/// of 8.
pub(super) fn recipe(ty: &TensorType, version: i64) -> Option<Recipe> {
    let (dims, count) = (ty.known_dims()?, ty.elements()?);
    if ty.element != ElementType::Bool || version < BYTES || count == 0 || count % 8 != 0 {
        return None;
    }
    let (planes, row) = ([8, count / 8], [1, count / 8]);
    let weights: Vec<u8> = (0..8).map(|bit| 1 << bit).collect();
    let shifts: Vec<u8> = weights.iter().rev().copied().collect();
    let constants = vec![
        shape(&planes),
        constant(ElementType::Uint8, &[1, 8], weights),
        constant(ElementType::Uint8, &[8, 1], shifts),
        constant(ElementType::Uint8, &[], vec![127]),
        shape(&dims),
    ];
    let encode = vec![
        step("Reshape", &[Operand::Value, Operand::Constant(0)], ElementType::Bool, &planes),
        cast(Operand::Step(0), ElementType::Uint8, &planes),
        step("MatMulInteger", &[Operand::Constant(1), Operand::Step(1)], ElementType::Int32, &row),
        cast(Operand::Step(2), ElementType::Uint8, &row),
    ];
    let decode = vec![
        step("Mul", &[Operand::Code(0), Operand::Constant(2)], ElementType::Uint8, &planes),
        step("Greater", &[Operand::Step(0), Operand::Constant(3)], ElementType::Bool, &planes),
        step("Reshape", &[Operand::Step(1), Operand::Constant(4)], ElementType::Bool, &dims),
    ];
    Some(Recipe { form: Form::Bits, constants, encode, decode, codes: vec![3], others: Vec::new() })
}
