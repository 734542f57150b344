//! Rows of integers: eight bits for each number, with one scale for each row.
//!
//! A number is divided by its row's scale and rounded up, so that a number is positive if and only if its
//! code is: masks of Relu stay exact. Decoding takes the middle of the step, and returns the zeros of
//! values that are never negative exactly.

use memc_ir::{Attribute, ElementType, Module, Value};
use memc_ops::lookup;

use super::{Form, Operand, Recipe, Step, cast, constant, shape, step};

/// First operator set in which the axes of ReduceMax are an operand.
const AXES: i64 = 18;
/// First operator set that the recipe is written for.
const FIRST: i64 = 13;

/// Length of a row, in numbers, if the value has more.
const ROW: u64 = 1024;

/// Number of steps on each side of zero.
const STEPS: f32 = 126.0;
/// The least scale: rows of zeros have a scale, too.
const LEAST: f32 = 1e-30;

/// Returns the recipe for a value of type FLOAT; `None` for other types and few elements.
pub(super) fn recipe(module: &Module, value: Value, version: i64) -> Option<Recipe> {
    let ty = module.ty(value).tensor()?;
    let (dims, count) = (ty.known_dims()?, ty.elements()?);
    let row = row_length(&dims, count)?;
    if ty.element != ElementType::Float || version < FIRST {
        return None;
    }
    let (rows, scales) = ([count / row, row], [count / row, 1]);
    let number = |number: f32| constant(ElementType::Float, &[], number.to_le_bytes().to_vec());
    let float = ElementType::Float;
    let constants =
        vec![shape(&rows), shape(&[1]), number(LEAST), number(1.0 / STEPS), number(0.5), shape(&dims)];
    let encode = vec![
        step("Reshape", &[Operand::Value, Operand::Constant(0)], float, &rows),
        step("Abs", &[Operand::Step(0)], float, &rows),
        greatest(Operand::Step(1), version, &scales),
        step("Max", &[Operand::Step(2), Operand::Constant(2)], float, &scales),
        step("Mul", &[Operand::Step(3), Operand::Constant(3)], float, &scales),
        step("Div", &[Operand::Step(0), Operand::Step(4)], float, &rows),
        step("Ceil", &[Operand::Step(5)], float, &rows),
        cast(Operand::Step(6), ElementType::Int8, &rows),
    ];
    let mut decode = vec![
        cast(Operand::Code(0), float, &rows),
        step("Sub", &[Operand::Step(0), Operand::Constant(4)], float, &rows),
    ];
    if is_never_negative(module, value) {
        decode.push(step("Relu", &[Operand::Step(1)], float, &rows));
    }
    let last = decode.len() - 1;
    decode.push(step("Mul", &[Operand::Step(last), Operand::Code(1)], float, &rows));
    decode.push(step("Reshape", &[Operand::Step(last + 1), Operand::Constant(5)], float, &dims));
    Some(Recipe { form: Form::Rows, constants, encode, decode, codes: vec![7, 4], others: Vec::new() })
}

/// Returns the length of a row: whole trailing axes, at most `ROW` numbers if possible. `None` if rows
/// are too short to pay for their scales.
fn row_length(dims: &[u64], count: u64) -> Option<u64> {
    let mut row = 1u64;
    for extent in dims.iter().rev() {
        let longer = row.saturating_mul(*extent);
        if longer > ROW && row >= 64 {
            break;
        }
        row = longer;
    }
    (count > 0 && row >= 16).then_some(row)
}

/// Returns the step that finds the greatest number of each row.
fn greatest(operand: Operand, version: i64, dims: &[u64]) -> Step {
    let mut step = step("ReduceMax", &[operand], ElementType::Float, dims);
    step.attributes.push(("keepdims".to_owned(), Attribute::Int(1)));
    if version < AXES {
        step.attributes.push(("axes".to_owned(), Attribute::Ints(vec![1])));
    } else {
        step.operands.push(Operand::Constant(1));
    }
    step
}

/// Returns whether a value has no negative numbers.
fn is_never_negative(module: &Module, value: Value) -> bool {
    let info = module.producer(value).and_then(|node| lookup(&module.node(node).operator));
    info.and_then(|info| info.algebra).is_some_and(|algebra| algebra.nonnegative)
}
