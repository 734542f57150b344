//! Element-wise arithmetic with broadcasting; follows elements, so that the results of shape arithmetic
//! are known.

use memc_ir::ElementType;

use crate::algebra::{Algebra, Neutral};
use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::families::arithmetic as on;
use crate::families::broadcasting::{broadcast_shapes, follow, zip_items};
use crate::info::{InPlace, InferFn, Linear, OpInfo, SplitAxes, Typed, Work};

type BinaryItem = fn(ElementType, &Item, &Item) -> Item;

fn arithmetic(ctx: &mut Infer<'_>, function: BinaryItem) -> Result<(), InferError> {
    ctx.required(1)?;
    let element = ctx.element(0);
    broadcast_shapes(ctx, element)?;
    follow(ctx, |left, right| function(element, left, right));
    Ok(())
}

fn add(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, on::add)
}

fn sub(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, on::sub)
}

fn mul(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, on::mul)
}

fn div(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, on::div)
}

fn pow(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, on::pow)
}

fn modulo(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    arithmetic(ctx, if ctx.int("fmod", 0) == 0 { on::modulo } else { on::remainder })
}

/// Infers a function of any number of operands; combines elements from left to right.
fn variadic(ctx: &mut Infer<'_>, function: Option<BinaryItem>) -> Result<(), InferError> {
    let element = ctx.element(0);
    broadcast_shapes(ctx, element)?;
    let all: Option<Vec<&Data>> = (0..ctx.input_count()).map(|operand| ctx.data(operand)).collect();
    let items = all.zip(function).and_then(|(all, function)| {
        zip_items(&all, |items| match items {
            [first, rest @ ..] => {
                rest.iter().fold((*first).clone(), |result, item| function(element, &result, item))
            }
            [] => Item::Unknown,
        })
    });
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn sum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    variadic(ctx, Some(on::add))
}

fn min(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    variadic(ctx, Some(on::min))
}

fn max(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    variadic(ctx, Some(on::max))
}

fn mean(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    variadic(ctx, None)
}

/// Infers PRelu. The standard broadcasts the slope to the data; runtimes that accept other shapes
/// broadcast both.
fn prelu(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    broadcast_shapes(ctx, ctx.element(0))
}

/// Counts the operations of a variadic operator: operands minus one, per element.
fn per_operand(typed: &Typed<'_>) -> Option<u64> {
    let steps = typed.data().operands().count().saturating_sub(1).max(1) as u64;
    typed.output_elements()?.checked_mul(steps)
}

const fn element_wise(name: &'static str, infer: InferFn, work: Work, algebra: Algebra) -> OpInfo {
    OpInfo::onnx(name, infer).algebra(algebra).in_place(InPlace::Any).work(work).split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    element_wise(
        "Add",
        add,
        Work::PerElement(1),
        Algebra::KEEPS_ZERO.commutes().neutral(Neutral::NegativeZero),
    )
    .linear(Linear::All),
    element_wise("Div", div, Work::PerElement(1), Algebra::NONE.neutral(Neutral::One)),
    element_wise("Max", max, Work::Flops(per_operand), Algebra::KEEPS_ZERO.commutes().keeps_single()),
    element_wise("Mean", mean, Work::Flops(per_operand), Algebra::KEEPS_ZERO.commutes().keeps_single()),
    element_wise("Min", min, Work::Flops(per_operand), Algebra::KEEPS_ZERO.commutes().keeps_single()),
    element_wise("Mod", modulo, Work::PerElement(4), Algebra::NONE),
    element_wise(
        "Mul",
        mul,
        Work::PerElement(1),
        Algebra::KEEPS_ZERO.commutes().neutral(Neutral::One).absorbs_zero(),
    ),
    element_wise("PRelu", prelu, Work::PerElement(2), Algebra::KEEPS_ZERO),
    element_wise("Pow", pow, Work::PerElement(10), Algebra::FINITE_AT_ZERO.neutral(Neutral::AboutOne)),
    element_wise("Sub", sub, Work::PerElement(1), Algebra::KEEPS_ZERO.neutral(Neutral::PositiveZero))
        .linear(Linear::All),
    element_wise("Sum", sum, Work::Flops(per_operand), Algebra::KEEPS_ZERO.commutes().keeps_single())
        .linear(Linear::All),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn two(name: &str, left: (&str, &str), right: (&str, &str)) -> String {
        Case::new(name, 21).data(left.0, left.1).data(right.0, right.1).show()
    }

    #[test]
    fn shapes_broadcast() {
        let rows = [
            ("f32[N,1,3]", "f32[4,1]", "f32[N,4,3]"),
            ("f32[N,3]", "f32[N,3]", "f32[N,3]"),
            ("f32[N,3]", "f32[M,1]", "f32[min(1,M,N)*max(M,N),3]"),
            ("f32[*]", "f32[3]", "f32[*]"),
            ("f32[?]", "f32[3]", "f32[3]"),
            ("f32[?<=3]", "f32[?<=5]", "f32[?<=5]"),
            ("f32[?<=3,1]", "f32[1,4]", "f32[?<=3,4]"),
            ("f32[?<=3]", "f32[?]", "f32[?]"),
            ("f32[2]", "f32[3]", "error: broadcast: 2 and 3 do not agree"),
        ];
        for name in ["Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Mean"] {
            for (left, right, result) in rows {
                assert_eq!(
                    Case::new(name, 14).input(left).input(right).show(),
                    result,
                    "{name} {left} {right}"
                );
            }
        }
        assert_eq!(
            Case::new("Sum", 13).input("f32[3,1]").input("f32[N]").input("f32[1,1,1]").show(),
            "f32[1,3,N]"
        );
        assert_eq!(Case::new("PRelu", 16).input("f32[N,3,?]").input("f32[3,1]").show(), "f32[N,3,?]");
        assert_eq!(Case::new("PRelu", 16).input("f32[3,1]").input("f32[2,1,4]").show(), "f32[2,3,4]");
        assert_eq!(Case::new("Pow", 15).input("i64[2]").input("f32[]").show(), "i64[2]");
    }

    #[test]
    fn elements_are_followed() {
        let rows = [
            ("Add", ("i64[2,1]", "1,N"), ("i64[2]", "10,20"), "i64[2,2] = {11,21,N+10,N+20}"),
            ("Sub", ("i64[2]", "N,5"), ("i64[2]", "N,7"), "i64[2] = {0,-2}"),
            ("Mul", ("i64[2]", "?,M"), ("i64[2]", "0,N"), "i64[2] = {0,M*N}"),
            ("Div", ("i64[4]", "-7,4*N,N,1"), ("i64[4]", "2,2,2,0"), "i64[4] = {-3,2*N,floor(N/2),?}"),
            ("Mod", ("i64[3]", "-7,7,4*N"), ("i64[3]", "2,-2,4"), "i64[3] = {1,-1,0}"),
            ("Pow", ("i64[3]", "3,-2,N"), ("i64[]", "3"), "i64[3] = {27,-8,N*N*N}"),
            ("Pow", ("i64[1]", "2"), ("i64[1]", "-1"), "i64[1] = {?}"),
            ("Pow", ("f32[3]", "1369.0,2.0,-4.0"), ("f32[]", "0.5"), "f32[3] = {37.0,?,?}"),
            ("Pow", ("f32[3]", "3.0,4097.0,1.5"), ("f32[]", "2.0"), "f32[3] = {9.0,?,?}"),
            ("Pow", ("f64[1]", "4097.0"), ("f64[]", "2.0"), "f64[1] = {16785409.0}"),
            ("Min", ("i64[3]", "3,N,N"), ("i64[3]", "2,N+1,-1"), "i64[3] = {2,N,-1}"),
            ("Max", ("i64[3]", "3,N,N"), ("i64[3]", "2,0,1"), "i64[3] = {3,N,max(1,N)}"),
            ("Div", ("f32[1]", "1.0"), ("f32[1]", "3.0"), "f32[1] = {0.3333333432674408}"),
            ("Add", ("i64[2]", "?<=3,?<=3"), ("i64[2]", "2,-1"), "i64[2] = {?<=5,?}"),
            ("Mul", ("i64[2]", "?<=3,?"), ("i64[2]", "?<=4,2"), "i64[2] = {?<=12,?}"),
            ("Div", ("i64[3]", "?<=9,9,?<=9"), ("i64[3]", "2,?<=4,0"), "i64[3] = {?<=4,?<=9,?}"),
            ("Mod", ("i64[2]", "?,?"), ("i64[2]", "16,-2"), "i64[2] = {?<=15,?}"),
            ("Min", ("i64[3]", "?<=9,N,?"), ("i64[3]", "4,4,4"), "i64[3] = {?<=4,min(4,N),?}"),
            ("Max", ("i64[1]", "?<=9"), ("i64[1]", "4"), "i64[1] = {?<=9}"),
            ("Sub", ("i64[1]", "?<=9"), ("i64[1]", "4"), "i64[1] = {?}"),
            ("Add", ("i8[1]", "?<=100"), ("i8[1]", "100"), "i8[1] = {?}"),
            ("Add", ("i64[0]", ""), ("i64[1]", "2"), "i64[0] = {}"),
            ("Add", ("i32[1]", "2147483647"), ("i32[1]", "1"), "i32[1] = {?}"),
        ];
        for (name, left, right, result) in rows {
            assert_eq!(two(name, left, right), result, "{name} {left:?} {right:?}");
        }
        let sum = Case::new("Sum", 13).ints_data(&[1, 2]).ints_data(&[10]).ints_data(&[100]);
        assert_eq!(sum.show(), "i64[2] = {111,112}");
        let fmod = Case::new("Mod", 13).data("f32[2]", "-7.5,7.5").data("f32[1]", "2.0").int("fmod", 1);
        assert_eq!(fmod.show(), "f32[2] = {-1.5,1.5}");
    }
}
